"""Hand edits: what a person writes into a content file becomes a commit, and never gets lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from tallystick.errors import Conflict
from tallystick.log import Head
from tallystick.projections import edits as module
from tallystick.projections.edits import Edits
from tallystick.projections.views import FILE_EDIT
from tallystick.projections.views.shelf import Edit
from tests.projections.desk import DEFINITIONS, Desk, connection, memory, text

NODE = "_content/nodes/n.md"


class Adopting(Edits):
    """Edits over a desk: what is adopted is appended at once, unless it is told to refuse."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk.views, desk.follower, self._commit)
        self.desk = desk
        self.refuses = False
        self.adopted: list[Edit] = []
        self.adopted_one = asyncio.Event()

    async def _commit(self, edit: Edit) -> None:
        if self.refuses:
            raise Conflict("not today")
        self.adopted.append(edit)
        if edit.kind == "nodes":
            self.desk.append(memory(edit.id, "Project", text(edit.text)), actor=FILE_EDIT)
        else:
            self.desk.append(connection(edit.id, "n", "NextAction", "a", text(edit.text)), actor=FILE_EDIT)
        self.adopted_one.set()


@asynccontextmanager
async def adopting(home: Path) -> AsyncIterator[Adopting]:
    desk = Desk(home)
    desk.write(*DEFINITIONS)
    desk.write(memory("n", "Project", text("one")), memory("a", "Action"))
    desk.write(connection("c", "n", "NextAction", "a", text("why")))
    yield Adopting(desk)
    desk.close()


def versions(desk: Desk) -> list[tuple[str, str]]:
    """Who wrote which text of node n, oldest first."""
    found = []
    for entry in desk.log.read(Head()):
        document = msgspec.json.decode(entry.commit.payload)
        if document.get("id") == "n":
            found.append((entry.commit.actor, document["content"]["text"]))
    return found


async def test_an_edit_is_adopted_and_the_log_keeps_both_versions(tmp_path: Path) -> None:
    async with adopting(tmp_path) as edits:
        edits.desk.path(NODE).write_text("corrected")
        assert await edits.adopt_all() == 1
        assert versions(edits.desk) == [("tester", "one"), (FILE_EDIT, "corrected")]
        assert edits.desk.read(NODE) == "corrected"
        assert await edits.adopt_all() == 0
        assert edits.desk.views.problems() == []


async def test_the_content_of_a_connection_is_adopted_too(tmp_path: Path) -> None:
    async with adopting(tmp_path) as edits:
        edits.desk.path("_content/connections/c.md").write_text("because")
        await edits.adopt_all()
        assert [(edit.kind, edit.id, edit.text) for edit in edits.adopted] == [("connections", "c", "because")]


async def test_an_edit_of_the_same_length_in_the_same_breath_is_noticed(tmp_path: Path) -> None:
    async with adopting(tmp_path) as edits:
        before = edits.desk.path(NODE).stat()
        edits.desk.path(NODE).write_text("two")
        assert edits.desk.path(NODE).stat().st_size == before.st_size
        await edits.adopt_all()
        assert [edit.text for edit in edits.adopted] == ["two"]


async def test_editors_that_replace_the_file_are_understood(tmp_path: Path) -> None:
    async with adopting(tmp_path) as edits:
        swap = edits.desk.path("_content/nodes/.n.md.swp")
        swap.write_text("by vim")
        swap.rename(edits.desk.path(NODE))
        await edits.adopt_all()
        assert [edit.text for edit in edits.adopted] == ["by vim"]


async def test_an_edit_made_while_nobody_ran_is_adopted_at_the_next_start(tmp_path: Path) -> None:
    async with adopting(tmp_path) as edits:
        edits.desk.follower.close()
        edits.desk.path(NODE).write_text("overnight")
        edits.desk.begin()
        later = Adopting(edits.desk)
        await later.adopt_all()
        assert versions(edits.desk)[-1] == (FILE_EDIT, "overnight")


async def test_a_node_is_looked_at_before_it_is_read(tmp_path: Path) -> None:
    async with adopting(tmp_path) as edits:
        await edits.adopt_one("nodes", "n")
        assert edits.adopted == []
        edits.desk.path(NODE).write_text("just saved")
        await edits.adopt_one("nodes", "a")
        assert edits.adopted == []
        await edits.adopt_one("nodes", "n")
        assert [edit.text for edit in edits.adopted] == ["just saved"]


async def test_files_are_looked_at_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(module, "_LOOK_SHARE", 0)
    async with adopting(tmp_path) as edits:
        running = asyncio.create_task(edits.run())
        edits.desk.path(NODE).write_text("some time")
        await edits.adopted_one.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


NOT_TEXT = {"no UTF-8": b"caf\xe9", "a NUL byte": b"a\0b"}


@pytest.mark.parametrize("case", NOT_TEXT)
async def test_what_is_not_text_is_left_and_reported(tmp_path: Path, case: str) -> None:
    async with adopting(tmp_path) as edits:
        edits.desk.path(NODE).write_bytes(NOT_TEXT[case])
        assert await edits.adopt_all() == 0
        (problem,) = edits.desk.views.problems()
        assert problem.path == NODE
        assert edits.desk.path(NODE).read_bytes() == NOT_TEXT[case]
        edits.desk.path(NODE).write_text("mended")
        assert await edits.adopt_all() == 1
        assert edits.desk.views.problems() == []


async def test_a_refused_edit_is_left_reported_and_not_tried_until_it_changes(tmp_path: Path) -> None:
    async with adopting(tmp_path) as edits:
        edits.refuses = True
        edits.desk.path(NODE).write_text("mine")
        assert await edits.adopt_all() == 0
        (problem,) = edits.desk.views.problems()
        assert "not today" in problem.problem
        edits.refuses = False
        assert await edits.adopt_all() == 0
        edits.desk.path(NODE).write_text("mine!")
        assert await edits.adopt_all() == 1
        assert edits.desk.views.problems() == []


async def test_a_file_that_was_deleted_by_hand_comes_back(tmp_path: Path) -> None:
    async with adopting(tmp_path) as edits:
        edits.desk.path(NODE).unlink()
        assert await edits.adopt_all() == 0
        assert edits.desk.read(NODE) == "one"


async def test_an_edit_made_again_while_the_first_is_adopted_is_adopted_next(tmp_path: Path) -> None:
    async with adopting(tmp_path) as edits:
        edits.desk.path(NODE).write_text("first")
        with edits.desk.follower.at_head():
            (found,) = edits.desk.views.edits()
        edits.desk.path(NODE).write_text("second")
        await edits._commit(found)
        await edits.adopt_all()
        assert [version[1] for version in versions(edits.desk)] == ["one", "first", "second"]
        assert edits.desk.read(NODE) == "second"


async def test_a_hand_that_puts_an_older_version_back_is_heeded(tmp_path: Path) -> None:
    async with adopting(tmp_path) as edits:
        edits.desk.write(memory("n", "Project", text("two")))
        edits.desk.path(NODE).write_text("one")
        assert await edits.adopt_all() == 1
        assert [version[1] for version in versions(edits.desk)] == ["one", "two", "one"]


async def test_backups_of_editors_are_not_taken_for_contents(tmp_path: Path) -> None:
    async with adopting(tmp_path) as edits:
        for name in ("n.md~", "#n.md#", "stranger.md"):
            edits.desk.path(f"_content/nodes/{name}").write_text("x")
        assert await edits.adopt_all() == 0
        assert edits.desk.path("_content/nodes/stranger.md").exists()
