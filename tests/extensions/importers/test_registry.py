"""Importers of other packages, written as CONTRIBUTING.md shows."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest

from tallystick.extension import installed
from tallystick.extensions.importers.registry import GROUP, find, guess
from tests.command_line import CommandLine
from tests.extensions.importers.imports import FIXTURES, imported, json_lines, written
from tests.promises import promise

ROOT = Path(__file__).parents[3]
NAMES = """
from collections.abc import Iterator
from pathlib import Path
from tallystick.extensions.importers import Fact, Item, Origin, Unmapped
from tallystick.extensions.importers.files import json_lines
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package with the importer that CONTRIBUTING.md shows."""
    section = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Add an importer")[2]
    program = re.findall(r"```python\n(.*?)```", section, re.DOTALL)[0]
    site = tmp_path / "site"
    (site / "notes_importer-1.0.dist-info").mkdir(parents=True)
    (site / "notes_importer.py").write_text(NAMES + dedent("   " + program.lstrip()))
    (site / "notes_importer-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: notes-importer\nVersion: 1.0\n"
    )
    (site / "notes_importer-1.0.dist-info" / "entry_points.txt").write_text(f"[{GROUP}]\nnotes = notes_importer\n")
    monkeypatch.syspath_prepend(site)


@promise("import-others", "an importer of another package is one of them")
@pytest.mark.usefixtures("package")
def test_an_importer_of_another_package_is_one_of_them(tmp_path: Path) -> None:
    shell = CommandLine(tmp_path / "base")
    path = json_lines(tmp_path / "notes.jsonl", [{"id": "1", "text": "never retry", "by": "ada", "at": "2026-01-02"}])
    assert "notes" in shell.main("import", "--from").out
    report = imported(shell, "auto", path)
    assert (report["source"], written(report)) == ("notes", {"node note": (1, 0, 0)})
    said = shell.run("show", "notes/1", "--json").json["entity"]["attrs"]["imported"]
    assert (said["from"], said["author"], said["created"]) == ("notes", "ada", "2026-01-02")


@pytest.mark.parametrize(
    "name", [each.name for each in installed().sources() if each.name not in ("markdown", "swimlanes", "claude-mem")]
)
def test_each_source_recognises_its_own_files_and_no_others(name: str) -> None:
    assert guess(FIXTURES / name) == name
    others = [each.name for each in installed().sources() if each.name not in (name, "markdown")]
    assert [other for other in others if find(other).detect(FIXTURES / name)] == []
