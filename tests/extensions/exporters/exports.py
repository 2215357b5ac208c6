"""What the tests of the exporters share: a memory, exported as a person does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.command_line import CommandLine


def exported(shell: CommandLine, form: str, target: Path, *options: object) -> Any:
    """The report."""
    return shell.run("export", "--as", form, target, "--json", *options).json


def losses(report: Any) -> dict[str, str]:
    return {each["what"]: each["reason"] for each in report["losses"]}


def notes(directory: Path) -> dict[str, Path]:
    """By their paths from there."""
    return {path.relative_to(directory).as_posix(): path for path in sorted(directory.rglob("*.md"))}


def front_matter(path: Path) -> Any:
    return yaml.safe_load(path.read_text().split("---\n")[1])


def body(path: Path) -> str:
    return path.read_text().split("---\n", 2)[2]
