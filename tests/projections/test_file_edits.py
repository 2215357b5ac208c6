"""Hand edits: what a person writes into a content file becomes a commit, and never gets lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from tallystick.commits import FILE_EDIT
from tallystick.errors import Conflict, StorageRefused
from tallystick.extensions.ontology import file_edits as module
from tallystick.extensions.ontology.file_edits import FileEdits
from tallystick.extensions.ontology.views.content_files import Edit
from tallystick.log import Head
from tests.projections.workspace import DEFINITIONS, Workspace, connection, memory, text

NODE = "_content/nodes/n.md"


class Adopting(FileEdits):
    """Edits over a desk: what is adopted is appended at once, unless it is told to refuse."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace.views, workspace.follower, self._commit)
        self.workspace = workspace
        self.refuses = False
        self.adopted: list[Edit] = []
        self.adopted_one = asyncio.Event()

    async def _commit(self, edit: Edit) -> None:
        if self.refuses:
            raise Conflict("not today")
        self.adopted.append(edit)
        if edit.kind == "nodes":
            self.workspace.append(memory(edit.id, "Project", text(edit.text)), actor=FILE_EDIT)
        else:
            self.workspace.append(connection(edit.id, "n", "NextAction", "a", text(edit.text)), actor=FILE_EDIT)
        self.adopted_one.set()


@asynccontextmanager
async def adopting(home: Path) -> AsyncIterator[Adopting]:
    workspace = Workspace(home)
    workspace.write(*DEFINITIONS)
    workspace.write(memory("n", "Project", text("one")), memory("a", "Action"))
    workspace.write(connection("c", "n", "NextAction", "a", text("why")))
    yield Adopting(workspace)
    workspace.close()


def versions(workspace: Workspace) -> list[tuple[str, str]]:
    """Who wrote which text of node n, oldest first."""
    found = []
    for entry in workspace.log.read(Head()):
        document = msgspec.json.decode(entry.commit.payload)
        if document.get("id") == "n":
            found.append((entry.commit.actor, document["content"]["text"]))
    return found


async def test_an_edit_is_adopted_and_the_log_keeps_both_versions(tmp_path: Path) -> None:
    async with adopting(tmp_path) as file_edits:
        file_edits.workspace.path(NODE).write_text("corrected")
        assert await file_edits.adopt_all() == 1
        assert versions(file_edits.workspace) == [("tester", "one"), (FILE_EDIT, "corrected")]
        assert file_edits.workspace.read(NODE) == "corrected"
        assert await file_edits.adopt_all() == 0
        assert file_edits.workspace.views.problems() == []


async def test_the_content_of_a_connection_is_adopted_too(tmp_path: Path) -> None:
    async with adopting(tmp_path) as file_edits:
        file_edits.workspace.path("_content/connections/c.md").write_text("because")
        await file_edits.adopt_all()
        assert [(edit.kind, edit.id, edit.text) for edit in file_edits.adopted] == [("connections", "c", "because")]


async def test_an_edit_of_the_same_length_in_the_same_breath_is_noticed(tmp_path: Path) -> None:
    async with adopting(tmp_path) as file_edits:
        before = file_edits.workspace.path(NODE).stat()
        file_edits.workspace.path(NODE).write_text("two")
        assert file_edits.workspace.path(NODE).stat().st_size == before.st_size
        await file_edits.adopt_all()
        assert [edit.text for edit in file_edits.adopted] == ["two"]


async def test_editors_that_replace_the_file_are_understood(tmp_path: Path) -> None:
    async with adopting(tmp_path) as file_edits:
        swap = file_edits.workspace.path("_content/nodes/.n.md.swp")
        swap.write_text("by vim")
        swap.rename(file_edits.workspace.path(NODE))
        await file_edits.adopt_all()
        assert [edit.text for edit in file_edits.adopted] == ["by vim"]


async def test_an_edit_made_while_nobody_ran_is_adopted_at_the_next_start(tmp_path: Path) -> None:
    async with adopting(tmp_path) as file_edits:
        file_edits.workspace.follower.close()
        file_edits.workspace.path(NODE).write_text("overnight")
        file_edits.workspace.begin()
        later = Adopting(file_edits.workspace)
        await later.adopt_all()
        assert versions(file_edits.workspace)[-1] == (FILE_EDIT, "overnight")


async def test_a_node_is_looked_at_before_it_is_read(tmp_path: Path) -> None:
    async with adopting(tmp_path) as file_edits:
        await file_edits.adopt_one("nodes", "n")
        assert file_edits.adopted == []
        file_edits.workspace.path(NODE).write_text("just saved")
        await file_edits.adopt_one("nodes", "a")
        assert file_edits.adopted == []
        await file_edits.adopt_one("nodes", "n")
        assert [edit.text for edit in file_edits.adopted] == ["just saved"]


async def test_files_are_looked_at_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(module, "_LOOK_SHARE", 0)
    async with adopting(tmp_path) as file_edits:
        running = asyncio.create_task(file_edits.run())
        file_edits.workspace.path(NODE).write_text("some time")
        await file_edits.adopted_one.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_a_disk_that_refuses_is_told_once_and_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(module, "_LOOK_SHARE", 0)
    tried, often = 0, asyncio.Event()

    async def refused() -> int:
        nonlocal tried
        tried += 1
        if tried == 3:
            often.set()
        raise StorageRefused("it is read-only")

    async with adopting(tmp_path) as file_edits:
        monkeypatch.setattr(file_edits, "adopt_all", refused)
        running = asyncio.create_task(file_edits.run())
        await often.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    told = [record for record in caplog.records if record.name == module.__name__]
    assert [(record.levelname, record.exc_info) for record in told] == [("WARNING", None)]


NOT_TEXT = {"no UTF-8": b"caf\xe9", "a NUL byte": b"a\0b"}


@pytest.mark.parametrize("case", NOT_TEXT)
async def test_what_is_not_text_is_left_and_reported(tmp_path: Path, case: str) -> None:
    async with adopting(tmp_path) as file_edits:
        file_edits.workspace.path(NODE).write_bytes(NOT_TEXT[case])
        assert await file_edits.adopt_all() == 0
        (problem,) = file_edits.workspace.views.problems()
        assert problem.path == NODE
        assert file_edits.workspace.path(NODE).read_bytes() == NOT_TEXT[case]
        file_edits.workspace.path(NODE).write_text("mended")
        assert await file_edits.adopt_all() == 1
        assert file_edits.workspace.views.problems() == []


async def test_a_refused_edit_is_left_reported_and_not_tried_until_it_changes(tmp_path: Path) -> None:
    async with adopting(tmp_path) as file_edits:
        file_edits.refuses = True
        file_edits.workspace.path(NODE).write_text("mine")
        assert await file_edits.adopt_all() == 0
        (problem,) = file_edits.workspace.views.problems()
        assert "not today" in problem.problem
        file_edits.refuses = False
        assert await file_edits.adopt_all() == 0
        file_edits.workspace.path(NODE).write_text("mine!")
        assert await file_edits.adopt_all() == 1
        assert file_edits.workspace.views.problems() == []


async def test_a_file_that_was_deleted_by_hand_comes_back(tmp_path: Path) -> None:
    async with adopting(tmp_path) as file_edits:
        file_edits.workspace.path(NODE).unlink()
        assert await file_edits.adopt_all() == 0
        assert file_edits.workspace.read(NODE) == "one"


async def test_an_edit_made_again_while_the_first_is_adopted_is_adopted_next(tmp_path: Path) -> None:
    async with adopting(tmp_path) as file_edits:
        file_edits.workspace.path(NODE).write_text("first")
        with file_edits.workspace.follower.at_head():
            (found,) = file_edits.workspace.views.edits()
        file_edits.workspace.path(NODE).write_text("second")
        await file_edits._commit(found)
        await file_edits.adopt_all()
        assert [version[1] for version in versions(file_edits.workspace)] == ["one", "first", "second"]
        assert file_edits.workspace.read(NODE) == "second"


async def test_a_hand_that_puts_an_older_version_back_is_heeded(tmp_path: Path) -> None:
    async with adopting(tmp_path) as file_edits:
        file_edits.workspace.write(memory("n", "Project", text("two")))
        file_edits.workspace.path(NODE).write_text("one")
        assert await file_edits.adopt_all() == 1
        assert [version[1] for version in versions(file_edits.workspace)] == ["one", "two", "one"]


async def test_backups_of_editors_are_not_taken_for_contents(tmp_path: Path) -> None:
    async with adopting(tmp_path) as file_edits:
        for name in ("n.md~", "#n.md#", "stranger.md"):
            file_edits.workspace.path(f"_content/nodes/{name}").write_text("x")
        assert await file_edits.adopt_all() == 0
        assert file_edits.workspace.path("_content/nodes/stranger.md").exists()
