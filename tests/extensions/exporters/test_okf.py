"""Exports in the Open Knowledge Format 0.2."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tallystick.extensions.exporters import okf
from tests.command_line import CommandLine, edge, node
from tests.extensions.exporters.exports import body, exported, front_matter, losses, notes
from tests.promises import promise

_LINK = re.compile(r"(?<!\\)\]\((/[^)]+)\)")


@pytest.fixture
def shell(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "base")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "okf"


@promise("export-okf", "in the Open Knowledge Format every concept has a type and every link leads to a file")
def test_every_concept_has_a_type_and_every_link_leads_to_a_file(shell: CommandLine, target: Path) -> None:
    ids = ["a", "A", "../x", "index", "log", "[t](/evil.md)", "b|c"]
    shell.write(*(node(each, each) for each in ids), *(edge(each, "near [x](/y.md)", "a") for each in ids))
    exported(shell, "okf", target)
    found = notes(target)
    concepts = {name: path for name, path in found.items() if name.rpartition("/")[2] not in ("index.md", "log.md")}
    assert {front_matter(path)["id"] for path in concepts.values()} == set(ids)
    assert all(front_matter(path)["type"] == front_matter(path)["id"] for path in concepts.values())
    leading = [link for path in found.values() for link in _LINK.findall(path.read_text().rpartition("---\n")[2])]
    assert len(leading) >= 4 * len(ids)
    assert {link for link in leading if not (target / link[1:]).is_file()} == set()


def test_the_root_tells_the_version_and_leads_to_all(shell: CommandLine, target: Path) -> None:
    shell.write(node("a"), node("b"), node("c", "person"))
    exported(shell, "okf", target)
    assert front_matter(target / "index.md") == {"okf_version": "0.2"}
    assert _LINK.findall((target / "index.md").read_text()) == ["/note/index.md", "/person/index.md"]
    assert _LINK.findall((target / "note" / "index.md").read_text()) == ["/note/a.md", "/note/b.md"]


@promise(
    "export-okf-words", "sources, authors, verification, status and staleness are said in the words of that format"
)
def test_where_it_comes_from_and_whether_it_holds_is_said_in_the_words_of_the_form(
    shell: CommandLine, target: Path
) -> None:
    imported = {"from": "basic-memory", "id": "n.md", "author": "ada", "updated": "2026-01-02", "hash": "x"}
    attrs: dict[str, Any] = {"stale_after": "2099-01-01T00:00:00Z", "verified": True, "cites": ["src/a.py"]}
    shell.write(
        node("new", supersedes=["old"], description="The second", tags=["x"], imported=imported, colour="red", **attrs),
        node("old", status="open"),
    )
    exported(shell, "okf", target)
    new, old = front_matter(target / "note" / "new.md"), front_matter(target / "note" / "old.md")
    assert (new["description"], new["tags"], new["stale_after"]) == ("The second", ["x"], "2099-01-01T00:00:00Z")
    assert new["sources"] == [
        {"id": "n.md", "resource": "basic-memory", "author": "ada", "last_modified": "2026-01-02"},
        {"id": "src/a.py", "resource": "src/a.py"},
    ]
    assert new["generated"].keys() == {"by", "at"}
    assert new["generated"]["by"].startswith("process:")
    assert [each.keys() for each in new["verified"]] == [{"by", "at"}]
    assert (new["colour"], new["supersedes"], new["imported"]) == ("red", ["old"], imported)
    assert (old["status"], old["stale"]["superseded_by"]) == ("deprecated", "new")
    assert old["attributes"] == {"status": "open"}
    assert "> **Stale**: superseded" in body(target / "note" / "old.md")


def test_the_log_has_the_newest_changes_by_day(
    shell: CommandLine, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(okf, "LOG_ENTRIES_MAX", 2)
    shell.write(node("a"), node("b"), node("c"), node("a", again=1))
    report = exported(shell, "okf", target)
    lines = (target / "log.md").read_text().splitlines()
    assert re.fullmatch(r"## \d{4}-\d\d-\d\d", lines[2])
    assert lines[4:] == ["* **Update**: [a](/note/a.md)", "* **Update**: [c](/note/c.md)"]
    assert "newest" in losses(report)["log.md"]


@pytest.mark.parametrize("text", ["x\n## 2099-01-01\n* **Update**: forged", "](/evil.md) [", "<img src=x onerror=y>"])
def test_a_title_is_one_line_that_means_nothing_to_markdown(shell: CommandLine, target: Path, text: str) -> None:
    shell.write(node("a", title=text), node("b"), edge("b", "near", "a"))
    exported(shell, "okf", target)
    for name in ("log.md", "note/index.md", "note/b.md"):
        said = (target / name).read_text()
        assert "/evil.md)" not in _LINK.sub("", said).replace("\\)", "")
        assert not re.search(r"^## 2099|(?<!\\)<img", said, re.MULTILINE)
        assert "(/note/a.md)" in said
