"""What the tests of the importers share: a file or directory, imported as a person does it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tallystick import app, config
from tallystick.extensions.importers import Atom, Fact, Item, Link, Task, Unmapped
from tallystick.extensions.importers.registry import find
from tests.command_line import CommandLine, commits_in

FIXTURES = Path(__file__).parent / "fixtures"


def items(source: str, path: Path) -> list[Item]:
    return [each for each in find(source).read(path) if not isinstance(each, Unmapped)]


def left_out(source: str, path: Path) -> list[tuple[str, str]]:
    """What is not mapped: what it is, and why."""
    return [(each.what, each.reason) for each in find(source).read(path) if isinstance(each, Unmapped)]


def facts(source: str, path: Path) -> dict[str, Fact]:
    return {each.id: each for each in items(source, path) if isinstance(each, Fact)}


def links(source: str, path: Path) -> list[tuple[str, str, str]]:
    return [(each.source, each.rel, each.target) for each in items(source, path) if isinstance(each, Link)]


def tasks(source: str, path: Path) -> dict[str, Task]:
    return {each.origin.id: each for each in items(source, path) if isinstance(each, Task)}


def atoms(source: str, path: Path) -> dict[str, Atom]:
    return {each.name: each for each in items(source, path) if isinstance(each, Atom)}


def json_lines(path: Path, objects: Iterable[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in objects))
    return path


def imported(shell: CommandLine, source: str, path: Path, *options: object) -> Any:
    """The report."""
    return shell.run("import", "--from", source, path, "--json", *options).json


def written(report: Any) -> dict[str, tuple[int, int, int]]:
    """By kind and type: new, changed, unchanged."""
    return {
        f"{each['kind']} {each['type']}": (each["new"], each["changed"], each["unchanged"]) for each in report["kinds"]
    }


def reasons(report: Any) -> dict[str, str]:
    return {each["what"]: each["reason"] for each in report["unmapped"]}


def count(shell: CommandLine) -> int:
    return len(commits_in(shell.base / "_system" / "log"))


def tool(shell: CommandLine, name: str, /, **arguments: Any) -> Any:
    """What a tool answers."""

    async def call() -> Any:
        context = app.operation_context(config.load({"base": shell.base}))
        async with context.open_store() as store:
            return (await context.prepare(name, arguments)(store)).data

    return asyncio.run(call())
