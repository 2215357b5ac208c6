"""The homes: what follows a tenant's log is there while somebody uses it, ends when nobody does, and comes back."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tallystick import app
from tallystick.app.tenant_projections import AllProjections
from tallystick.config import Settings, load
from tallystick.extensions.ontology import file_edits
from tallystick.log.files import FilesLog
from tallystick.projections.text import ContentMatches
from tests.commits_by_hand import append, draft
from tests.projections.workspace import DEFINITIONS, memory, text

TENANT = "acme"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load({"base": tmp_path, "tenant": TENANT}, environ={})


@pytest.fixture
def log(settings: Settings) -> Iterator[FilesLog]:
    settings.system.mkdir(parents=True)
    log = FilesLog(settings.system)
    append(log, draft(*DEFINITIONS, memory("n", "Project", text("a xylophone"))))
    yield log
    log.close()


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith(("follow-", "text"))]


async def nodes(searching: Awaitable[ContentMatches]) -> list[str]:
    return [hit.node_id for hit in (await searching).hits]


def test_a_home_that_was_left_leaves_nothing_for_the_collector(settings: Settings, log: FilesLog) -> None:
    """What a tenant's opening freezes is never collected: a server would grow with each that comes and goes."""

    async def story() -> None:
        projections = AllProjections(settings, open_log=app.open_log)
        index = projections.text(TENANT)
        assert await nodes(index.contents("xylophone")) == ["n"]
        await projections.published(TENANT, log.head().lamport)
        left = weakref.ref(index)
        del index
        await projections.leave(TENANT)
        assert left() is None
        await projections.close()

    gc.disable()
    try:
        asyncio.run(story())
    finally:
        gc.enable()


def test_a_home_that_was_left_ends_its_threads_and_answers_again_when_asked(settings: Settings, log: FilesLog) -> None:
    async def story() -> None:
        projections = AllProjections(settings, open_log=app.open_log)
        for _ in range(2):
            assert await nodes(projections.text(TENANT).contents("xylophone")) == ["n"]
            await projections.published(TENANT, log.head().lamport)
            assert threads() != []
            await projections.leave(TENANT)
            assert threads() == []
        await projections.leave(TENANT)
        await projections.close()

    asyncio.run(story())
    assert (settings.system / "registry.json").exists()


def test_a_home_is_not_closed_while_a_search_is_under_way(
    settings: Settings, log: FilesLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    async def story() -> None:
        projections = AllProjections(settings, open_log=app.open_log)
        index = projections.text(TENANT)
        looked = index._answer

        def waits(*asked: Any) -> Any:
            begun.set()
            go_on.wait()
            return looked(*asked)

        monkeypatch.setattr(index, "_answer", waits)
        searching = asyncio.create_task(index.contents("xylophone"))
        await asyncio.to_thread(begun.wait)
        await projections.leave(TENANT)
        assert projections.text(TENANT) is not index
        again = asyncio.create_task(index.contents("a xylo"))
        await asyncio.sleep(0)
        go_on.set()
        assert [await nodes(found) for found in (searching, again)] == [["n"], ["n"]]
        await projections.leave(TENANT)
        await projections.close()
        assert threads() == []

    asyncio.run(story())


def test_a_home_that_adopts_is_left_without_waiting_for_whoever_waits_for_its_log(
    settings: Settings, log: FilesLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is closed when a home is left; an edit is committed as soon as it was opened again."""
    asked, reopened = asyncio.Event(), asyncio.Event()
    adopted: list[str] = []

    async def adopt(store: object, contents: object, tenant: str, edit: Any) -> None:
        asked.set()
        await reopened.wait()
        adopted.append(edit.text)

    monkeypatch.setattr(file_edits, "adopt", adopt)

    async def story() -> None:
        projections = AllProjections(settings, open_log=app.open_log, store=lambda: None)
        await projections.published(TENANT, log.head().lamport)
        await asyncio.to_thread(projections.of(TENANT).follower.worker("views").catch_up)
        (settings.home / "_content" / "nodes" / "n.md").write_text("by hand")
        adopting = asyncio.create_task(projections.adopted(TENANT, "nodes", "n"))
        await asked.wait()
        await projections.leave(TENANT)
        reopened.set()
        await adopting
        assert adopted == ["by hand"]
        await projections.close()
        assert threads() == []

    asyncio.run(story())


def test_opening_brings_to_the_head_what_there_is_and_makes_nothing_new(settings: Settings, log: FilesLog) -> None:
    async def story() -> None:
        projections = AllProjections(settings, open_log=app.open_log)
        await asyncio.to_thread(projections.of(TENANT).follower.resume)
        assert not (settings.home / "graph.db").exists()
        assert not (settings.system / "views.db").exists()
        await asyncio.to_thread(projections.of(TENANT).follower.worker("views").catch_up)
        append(log, draft(memory("m", "Project", text("a zither"))))
        await asyncio.to_thread(projections.of(TENANT).follower.resume)
        assert (settings.home / "_content" / "nodes" / "m.md").read_text() == "a zither"
        assert not (settings.home / "graph.db").exists()
        assert not (settings.system / "text").exists()
        await projections.close()

    asyncio.run(story())
