"""Git in a repository that a stranger packed: none of its programs runs, and ordinary conversions still count."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tallystick.operations.checks import tree_digest
from tallystick.system.git import blob_id, lfs_pointer, run_git
from tallystick.toolsets.knowledge.freshness import Repository
from tests.command_line import CommandLine
from tests.hook.memories import Memory, git, make_repository, run_hook
from tests.mcp_client import connect

SOURCE = Path(__file__).parent.parent / "src" / "tallystick"
FILE = "src/cart.ts"
SETTINGS = (
    "filter.x.clean", "filter.x.smudge", "filter.x.process", "filter.odd name=1.clean", "core.fsmonitor",
    "diff.external", "diff.x.textconv", "diff.x.command", "core.sshCommand", "core.pager", "pager.blame", "pager.log",
    "alias.blame", "alias.ls-files", "gpg.program", "core.askPass", "credential.helper", "core.editor",
)  # fmt: skip


class Packed:
    """A repository in which every program that git can be made to start leaves a mark."""

    def __init__(self, root: Path, marks: Path) -> None:
        self.root, self.marks = root, marks
        marks.mkdir()
        program = marks.parent / "program"
        program.write_text(f'#!/bin/sh\ntouch "{marks}/$(basename "$0")-$$"\ncat\n')
        program.chmod(0o755)
        self.program = program

    def arm(self) -> None:
        for name in SETTINGS:
            git(self.root, "config", name, str(self.program))
        git(self.root, "config", "filter.x.required", "true")
        git(self.root, "config", "log.showSignature", "true")
        git(self.root, "config", "submodule.recurse", "true")
        self._arm_hooks()
        self._arm_fetching()
        (self.root / ".gitattributes").write_text("* filter=x diff=x\nsrc/* filter=odd\\ name=1\n*.ts filter=x\n")
        (self.root / ".git" / "info" / "attributes").write_text("* filter=x diff=x\n")
        # The same bytes count as changed, since the index holds another time.
        os.utime(self.root / FILE, (1, 1))

    def _arm_hooks(self) -> None:
        hooks = self.root / ".git" / "evil-hooks"
        hooks.mkdir()
        for name in ("post-index-change", "reference-transaction", "post-checkout", "fsmonitor-watchman"):
            (hooks / name).symlink_to(self.program)
        git(self.root, "config", "core.hooksPath", str(hooks))

    def _arm_fetching(self) -> None:
        """A partial clone fetches an object that it lacks, by a command that the remote's address holds."""
        for name, value in (
            ("core.repositoryFormatVersion", "1"),
            ("extensions.partialClone", "origin"),
            ("remote.origin.promisor", "true"),
            ("remote.origin.url", f"ext::{self.program}"),
            ("protocol.ext.allow", "always"),
        ):
            git(self.root, "config", name, value)

    @property
    def ran(self) -> list[str]:
        return sorted(each.name for each in self.marks.iterdir())


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    memory = Memory(make_repository(tmp_path / "repository"))
    memory.call("graph_open", project="shop", goal="Checkout")
    task = memory.call("graph_plan", nodes=[{"ref": "a", "summary": "Refunds"}])["created"][0]["id"]
    memory.atom("Carts", "They are kept for a day.", "src/*.ts", task=task)
    memory.note("one", title="One", cites=[FILE])
    memory.follow()
    return memory


@pytest.fixture
def packed(memory: Memory, tmp_path: Path) -> Packed:
    packed = Packed(memory.repository, tmp_path / "marks")
    packed.arm()
    return packed


def test_the_traps_work(packed: Packed) -> None:
    subprocess.run(["git", "add", "--all"], cwd=packed.root, check=False, capture_output=True)
    assert packed.ran


@pytest.mark.parametrize("event", ["session-start", "prompt", "before-tool", "stop", "before-compact"])
def test_hooks_run_none_of_its_programs(packed: Packed, event: str) -> None:
    (packed.root / FILE).write_text("export const cart = 2\n")
    said = {
        "session_id": "1",
        "cwd": str(packed.root),
        "prompt": "carts kept for a day",
        "tool_input": {"file_path": FILE},
    }
    done = run_hook(event, stdin=json.dumps(said).encode(), cwd=packed.root)
    assert (done.returncode, done.stderr, packed.ran) == (0, b"", [])


@pytest.mark.parametrize(
    "words",
    [
        ("stale",), ("why", f"{FILE}:1"), ("why", FILE), ("doctor",), ("status",), ("knowledge", "stale"),
        ("init", "--client", "claude", "--yes"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_commands_run_none_of_its_programs(
    packed: Packed, memory: Memory, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(packed.root)
    ran = CommandLine(memory.settings.base).main(*words)
    assert (ran.code in (0, 1), packed.ran) == (True, []), ran.err


async def test_a_server_runs_none_of_its_programs(packed: Packed, memory: Memory) -> None:
    (packed.root / FILE).write_text("export const cart = 2\n")
    environ = {"TALLYSTICK_REPO": str(packed.root), "TALLYSTICK_TOOLSETS": "all"}
    async with connect(memory.settings.base, environ=environ) as client:
        for tool, arguments in _CALLS:
            await client.call_tool(tool, arguments)
    assert packed.ran == []


_CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("memory_search", {"stale": True}),
    ("memory_read", {"node_id": "one"}),
    ("memory_why", {"file": FILE, "line": 1}),
    ("query_graph", {"operation": "context", "projectId": "shop", "paths": json.dumps([FILE])}),
    ("query_graph", {"operation": "search", "projectId": "shop", "query": "carts"}),
    ("manage_graph", {"operation": "update", "entityType": "atom", "id": "carts", "version": 1, "pin": True}),
)


def test_the_tree_of_a_check_runs_none_of_its_programs(packed: Packed) -> None:
    assert "gitTree" in tree_digest(packed.root)
    assert packed.ran == []


def test_a_missing_object_is_not_fetched(packed: Packed) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        run_git(packed.root, "cat-file", "-e", "1" * 40, seconds=60)
    assert packed.ran == []


def test_a_configured_work_tree_elsewhere_is_not_looked_at(packed: Packed, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "secret").write_text("s")
    git(packed.root, "config", "core.worktree", str(tmp_path / "home"))
    assert b"secret" not in run_git(packed.root, "ls-files", "-z", "-o", seconds=60)


def test_git_is_started_in_one_place() -> None:
    """Elsewhere no list of words begins with the name of the program."""
    starts = [
        path.name for path in SOURCE.rglob("*.py") if re.search(r"""[\[(]\s*["']git["']\s*,""", path.read_text("utf-8"))
    ]
    assert starts == ["git.py"]


# -- ordinary repositories


@pytest.mark.parametrize("setting", ["autocrlf", "eol", "lfs"])
def test_what_git_converts_does_not_look_changed(tmp_path: Path, setting: str) -> None:
    root = make_repository(tmp_path / "shop")
    content = b"one\ntwo\n"
    if setting == "autocrlf":
        git(root, "config", "core.autocrlf", "true")
    elif setting == "eol":
        (root / ".gitattributes").write_text("*.ts text eol=crlf\n")
    else:
        (root / ".gitattributes").write_text("*.ts filter=lfs -text\n")
        content = lfs_pointer(b"one\r\ntwo\r\n")
    (root / FILE).write_bytes(content)
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "two")
    git(root, "config", "filter.lfs.clean", "false")
    git(root, "config", "filter.lfs.required", "true")
    repository = Repository(root)
    pin = repository.pin(["src/*.ts"], "2026-01-01T00:00:00.000Z")
    assert pin is not None
    (root / FILE).write_bytes(b"one\r\ntwo\r\n")
    assert repository.compare({0: (["src/*.ts"], pin)})[0].fresh
    (root / FILE).write_bytes(b"one\r\nthree\r\n")
    assert repository.compare({0: (["src/*.ts"], pin)})[0].changed == (FILE,)


def test_the_pointer_of_git_lfs_is_what_its_filter_prints() -> None:
    pointer = (
        b"version https://git-lfs.github.com/spec/v1\n"
        b"oid sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\nsize 3\n"
    )
    assert lfs_pointer(b"abc") == pointer
    assert lfs_pointer(pointer) == pointer
    assert lfs_pointer(b"") == b""
    assert blob_id(b"abc") == "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f"
