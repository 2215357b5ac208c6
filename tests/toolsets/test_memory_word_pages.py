"""Pages of what words found: each hit stands on one of them, whatever is stale, deleted or of the same score."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tallystick import app
from tallystick.config import load
from tallystick.policy import Principal
from tallystick.server.dispatch import prepare
from tallystick.toolsets.memory import by_words, toolset

PAST = "2025-01-01T00:00:00.000Z"
Call = Callable[..., Awaitable[dict[str, Any]]]


@asynccontextmanager
async def served(base: Path, *, indexed: bool = True) -> AsyncIterator[Call]:
    """A tool of a memory, by its last name."""
    somebody = Principal(actor="ann", is_program=True)
    reading = {tool.name: tool for tool in toolset().tools}["memory.search"]
    async with app.served(load({"base": base}, environ={})) as offer:

        async def ask(name: str, **asked: Any) -> dict[str, Any]:
            tool = reading if name == "search" and not indexed else offer.tools.get(f"memory.{name}").tool
            return (await tool.call(offer.store, somebody, prepare(tool, asked))).data

        yield ask


async def put(call: Call, count: int, *, stale: Callable[[int], bool], text: Callable[[int], str]) -> None:
    ops = []
    for number in range(count):
        attrs = {"text": text(number)} | ({"stale_after": PAST} if stale(number) else {})
        ops.append({"op": "UPSERT_NODE", "node": {"id": f"n{number}", "type": "note", "attrs": attrs}})
    await call("write", ops=ops)


async def pages(call: Call, limit: int, **asked: Any) -> list[str]:
    found: list[str] = []
    offset: int | None = 0
    while offset is not None:
        answer = await call("search", query="otter", limit=limit, offset=offset, **asked)
        found += [hit["id"] for hit in answer["entities"]]
        offset = answer["pagination"]["next_offset"]
    return found


@pytest.mark.parametrize("indexed", [True, False])
async def test_each_hit_stands_on_one_page_though_stale_ones_come_behind_their_equals(
    tmp_path: Path, indexed: bool
) -> None:
    async with served(tmp_path, indexed=indexed) as call:
        await put(call, 90, stale=lambda number: number % 7 < 2, text=lambda number: "otter" + " tea" * (number % 2))
        whole = await pages(call, 1000)
        assert sorted(whole) == sorted(f"n{number}" for number in range(90))
        for limit in (3, 10, 64, 70):
            assert await pages(call, limit) == whole, limit
        beyond = await call("search", query="otter", offset=90)
        assert beyond["entities"] == []
        assert beyond["pagination"]["next_offset"] is None


async def test_pages_are_whole_though_the_best_were_deleted(tmp_path: Path) -> None:
    async with served(tmp_path) as call:
        await put(call, 60, stale=lambda number: False, text=lambda number: "otter " * (1 + number % 5))
        best = await pages(call, 60)
        await call("write", ops=[{"op": "DELETE_NODE", "node_id": node_id} for node_id in best[:20]])
        assert sorted(await pages(call, 7)) == sorted(best[20:])


async def test_what_a_filter_takes_from_a_page_is_made_up_for_and_what_follows_is_told_of(tmp_path: Path) -> None:
    async with served(tmp_path) as call:
        await put(call, 12, stale=lambda number: False, text=lambda number: f"otter {'tea ' * number}")
        moment = (
            await call("write", op="UPSERT_NODE", node={"id": "late", "type": "note", "attrs": {"text": "otter"}})
        )["timestamp"]
        found = await pages(call, 5, until=moment)
        assert set(found) == {
            hit["id"] for hit in (await call("search", query="otter", limit=100, until=moment))["entities"]
        }
        assert len(found) == len(set(found))


async def test_a_look_at_the_past_that_leaves_hits_out_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_words, "CANDIDATES", 20)
    async with served(tmp_path) as call:
        await put(call, 40, stale=lambda number: False, text=lambda number: "otter")
        found = await call("search", query="otter", as_of=40, limit=100)
        assert len(found["entities"]) == 40 or found["truncated"] is True
        assert "truncated" not in await call("search", query="otter n7", as_of=40, limit=5, type="nothing")
