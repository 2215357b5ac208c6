"""Imports of Claude Code's automatic memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallystick.errors import InvalidArgument
from tallystick.extensions.importers import claude_code
from tests.command_line import CommandLine
from tests.extensions.importers.imports import FIXTURES, count, facts, imported, left_out, links, written
from tests.promises import promise

HOME = FIXTURES / "claude-code"
MEMORY = HOME / "projects" / "-home-ada-shop" / "memory"


def write(directory: Path, **files: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / f"{name}.md").write_text(text)
    return directory


@promise("import-claude-code", "a memory of Claude Code is a node with its place in the index")
@pytest.mark.parametrize("path", [HOME, HOME / "projects", MEMORY.parent, MEMORY])
def test_a_memory_is_a_node_with_its_place_in_the_index(path: Path) -> None:
    found = facts("claude-code", path)
    assert sorted(found) == ["-home-ada-shop/ada-style", "-home-ada-shop/never-retry-refunds"]
    refunds = found["-home-ada-shop/never-retry-refunds"]
    assert refunds.type == "claude-code/project"
    assert refunds.attrs["description"] == "Refund calls must not be retried"
    assert (refunds.attrs["title"], refunds.attrs["hook"]) == ("Never retry refunds", "refunds are not idempotent")
    assert refunds.attrs["text"].startswith("A refund that is retried is paid twice.")
    assert links("claude-code", path) == [
        ("-home-ada-shop/never-retry-refunds", "links_to", "-home-ada-shop/ada-style")
    ]
    assert left_out("claude-code", path) == []
    assert claude_code.detect(path)


def test_it_is_imported_once_and_found_by_words(tmp_path: Path) -> None:
    shell = CommandLine(tmp_path / "base")
    assert written(imported(shell, "auto", HOME)) == {
        "node claude-code/feedback": (1, 0, 0),
        "node claude-code/project": (1, 0, 0),
        "edge links_to": (1, 0, 0),
    }
    imported(shell, "claude-code", MEMORY)
    assert count(shell) == 3
    assert "never-retry-refunds" in shell.run("search", "is a refund paid twice?").out.splitlines()[1]


def test_what_the_index_says_besides_is_told(tmp_path: Path) -> None:
    index = "# Memory\n\nwatch out\n- [Gone](gone.md) — away\n- [Here](here.md)\n"
    write(tmp_path / "memory", MEMORY=index, here="no front matter, `[[not a link]]`")
    assert left_out("claude-code", tmp_path) == [
        ("watch out", "not an entry of the index"),
        ("gone.md", "the index names a file that is not there"),
    ]
    assert links("claude-code", tmp_path) == []
    (here,) = facts("claude-code", tmp_path).values()
    assert (here.type, here.attrs["title"], here.attrs["hook"]) == ("claude-code/memory", "Here", None)


def test_a_broken_head_is_told_and_the_text_is_kept(tmp_path: Path) -> None:
    write(tmp_path / "memory", MEMORY="", odd="---\nname: [\n---\nthe fact")
    ((what, reason),) = left_out("claude-code", tmp_path)
    assert what == "odd.md"
    assert reason.startswith("not YAML")
    assert "the fact" in facts("claude-code", tmp_path)[f"{tmp_path.name}/odd"].attrs["text"]


def test_a_directory_without_memories_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument):
        list(claude_code.read(tmp_path))
    assert not claude_code.detect(tmp_path)
