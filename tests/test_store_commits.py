"""The log as the store hands it out: a range of it, and what arrives, as far as it may be read (L33)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tallystick.audit import Decided
from tallystick.commits import Commit
from tallystick.errors import Denied
from tallystick.log import Entry
from tallystick.policy import Action, Decision, DistantPolicy, Policy, Request
from tests.multi_tenant import multi_tenant_store
from tests.policy.gated_partition import AwaitedPolicy, Counting
from tests.promises import promise
from tests.test_narrowing import ALICE, BOB, BOTH, plans

_EVERYTHING = Counting("single-user")


def named(commit: Commit) -> str:
    said = commit.document()
    return f"{said['from']}>{said['to']}" if "from" in said else said.get("node_id") or said["id"]


async def names(entries: AsyncGenerator[Entry]) -> list[str]:
    return [named(entry.commit) async for entry in entries]


async def next_of(entries: AsyncGenerator[Entry], count: int) -> list[str]:
    return [named((await anext(entries)).commit) for _ in range(count)]


@promise("L33, the log", "commits are listed as far as what they are about may be read")
@BOTH
async def test_commits_are_those_about_what_may_be_read(tmp_path: Path, policy: Policy | DistantPolicy) -> None:
    async with multi_tenant_store(tmp_path, policy) as base:
        await plans(base)
        theirs = ["plan", "open", "goal", "plan>open", "open>goal"]
        assert await names(base.store.commits(BOB)) == theirs
        assert await names(base.store.commits(BOB, newest_first=True)) == theirs[::-1]
        assert len(await names(base.store.commits(ALICE))) == 8


@pytest.mark.parametrize("newest_first", [False, True])
async def test_a_range_begins_behind_any_position(tmp_path: Path, newest_first: bool) -> None:
    async with multi_tenant_store(tmp_path, _EVERYTHING) as base:
        await plans(base)
        whole = await names(base.store.commits(ALICE))
        for after in range(len(whole) + 2):
            found = await names(base.store.commits(ALICE, after=after, newest_first=newest_first))
            assert (found[::-1] if newest_first else found) == whole[after:]


async def test_the_stored_lines_are_handed_out(tmp_path: Path) -> None:
    async with multi_tenant_store(tmp_path, _EVERYTHING) as base:
        await plans(base)
        lines = [entry.line async for entry in base.store.commits(ALICE)]
        stored = b"".join(path.read_bytes() for path in sorted((tmp_path / "acme/_system/log").iterdir()))
    assert b"\n".join(lines) + b"\n" == stored


async def test_where_nothing_is_withheld_the_policy_is_asked_once(tmp_path: Path) -> None:
    async with multi_tenant_store(tmp_path, Counting("single-user")) as base:
        for number in range(250):
            await base.node(ALICE, f"n{number}")
        before = len(base.decided("acme"))
        assert len(await names(base.store.commits(ALICE))) == 250
        assert [_asked(event) for _, event in base.decided("acme")[before:]] == [(Action.SEARCH, None)]


def _asked(event: Decided) -> tuple[str, str | None]:
    return event.action, event.resource


async def test_who_may_not_search_gets_nothing_of_the_log(tmp_path: Path) -> None:
    async with multi_tenant_store(tmp_path, AwaitedPolicy(lambda request: request.action is not Action.SEARCH)) as base:
        with pytest.raises(Denied):
            await names(base.store.commits(BOB))
        await base.node(ALICE, "plan")
        with pytest.raises(Denied):
            await names(base.store.commits(BOB))
        with pytest.raises(Denied):
            await next_of(base.store.watch(BOB), 1)


@promise("L33, what arrives", "so are those that arrive")
@BOTH
async def test_what_arrives_is_watched_as_far_as_it_may_be_read(tmp_path: Path, policy: Policy | DistantPolicy) -> None:
    async with multi_tenant_store(tmp_path, policy) as base:
        await plans(base)
        arriving = base.store.watch(BOB, after=0)
        assert await next_of(arriving, 5) == ["plan", "open", "goal", "plan>open", "open>goal"]
        waiting = asyncio.ensure_future(next_of(arriving, 1))
        await base.node(ALICE, "mine", "secret")
        await base.node(ALICE, "late")
        assert await waiting == ["late"]
        await arriving.aclose()


async def test_what_another_process_writes_arrives_too(tmp_path: Path) -> None:
    async with multi_tenant_store(tmp_path, _EVERYTHING) as base, multi_tenant_store(tmp_path, _EVERYTHING) as other:
        arriving = base.store.watch(ALICE, after=0)
        await other.node(ALICE, "theirs")
        assert await next_of(arriving, 1) == ["theirs"]
        await arriving.aclose()


async def test_without_a_position_only_what_is_written_from_now_on_arrives(tmp_path: Path) -> None:
    asked = asyncio.Event()

    class Asked(Counting):
        def decide(self, request: Request) -> Decision:
            if request.action is Action.SEARCH:
                asked.set()
            return super().decide(request)

    async with multi_tenant_store(tmp_path, Asked("single-user")) as base:
        await base.node(ALICE, "before")
        arriving = base.store.watch(ALICE)
        first = asyncio.ensure_future(next_of(arriving, 1))
        await asked.wait()
        await base.node(ALICE, "after")
        assert await first == ["after"]
        await arriving.aclose()
