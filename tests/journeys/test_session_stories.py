"""Two agents with nothing configured are two: stories of real clients that share work, end and die."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp_types import Implementation

from tests.journeys.work_client import Worker, worker
from tests.mcp_client import call, serving_http, start_http
from tests.promises import promise

Said = dict[str, Any]
WORK = ("--toolsets", "work")


async def sixty_tasks(agent: Worker) -> list[str]:
    await agent.call("open", project="p")
    return sorted((await agent.plan(*({"ref": f"task {number}"} for number in range(60)))).values())


async def claim_all(agent: Worker) -> list[str]:
    """Until there is nothing for it but what it has."""
    mine: list[str] = []
    while given := (await agent.call("next", project="p", claim=True))["nodes"]:
        if given[0]["node"]["id"] in mine:
            break
        mine.append(given[0]["node"]["id"])
    return mine


async def taken_over(agent: Worker) -> list[Said]:
    """Of all that it can have, what it takes from others."""
    # What was claimed last comes last, so this goes once through all of them.
    answers = [await agent.call("next", project="p", claim=True, count=20) for _ in range(3)]
    return [each for answer in answers for each in answer["nodes"] if "taken_over" in each]


def ids(given: list[Said]) -> list[str]:
    return sorted(each["node"]["id"] for each in given)


@promise("X7, stdio", "two agents of one name over stdio never get the same task")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_over_stdio_each_of_sixty_tasks_goes_to_one_of_two_agents_of_one_name(tmp_path: Path, mode: str) -> None:
    async with worker(tmp_path, None, mode=mode) as one, worker(tmp_path, None, mode=mode) as two:
        tasks = await sixty_tasks(one)
        assert (await one.call("open", project="p"))["root"]["created_by"] == "mcp", "as the client calls itself"
        shares = await asyncio.gather(claim_all(one), claim_all(two))
        assert sorted(shares[0] + shares[1]) == tasks


@promise("X7, kill", "what a killed agent had is free at once")
async def test_what_a_killed_agent_had_is_free_at_once(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        two = await stack.enter_async_context(worker(tmp_path, None))
        one = await stack.enter_async_context(worker(tmp_path, None))
        tasks = await sixty_tasks(one)
        assert len(await one.next(claim=True)) == 1
        shares = await asyncio.gather(claim_all(one), claim_all(two))
        assert sorted(shares[0] + shares[1]) == tasks
        assert await taken_over(two) == []
        await kill_and_wait(one.server)
        given = await taken_over(two)
        assert ids(given) == sorted(shares[0])
        assert {(each["taken_over"]["claimed_by"], each["taken_over"]["why"]) for each in given} == {
            ("mcp", "its session has ended")
        }


async def kill_and_wait(pid: int) -> None:
    """Until the kernel has let go of all that it held."""
    handle, dead = os.pidfd_open(pid), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(handle, dead.set)
    try:
        os.kill(pid, signal.SIGKILL)
        await dead.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


async def test_what_an_agent_had_is_free_when_its_input_ends(tmp_path: Path) -> None:
    async with worker(tmp_path, None) as two:
        async with worker(tmp_path, None) as one:
            tasks = await sixty_tasks(one)
            assert sorted(await claim_all(one)) == tasks
            assert await claim_all(two) == []
        assert ids(await taken_over(two)) == tasks


@promise("X7, HTTP", "two sessions of one name over HTTP never get the same task")
async def test_over_http_each_of_sixty_tasks_goes_to_one_of_two_sessions_of_one_name(tmp_path: Path) -> None:
    with serving_http(tmp_path, *WORK, agent=None) as server:
        async with Client(server.mcp_url, mode="legacy") as second:
            two = Worker(second, "")
            async with Client(server.mcp_url, mode="legacy") as first:
                one = Worker(first, "")
                tasks = await sixty_tasks(one)
                assert (await one.call("open", project="p"))["root"]["created_by"] == "mcp"
                shares = await asyncio.gather(claim_all(one), claim_all(two))
                assert sorted(shares[0] + shares[1]) == tasks
                assert await taken_over(two) == []
            # On leaving, the client deleted its session.
            assert ids(await taken_over(two)) == sorted(shares[0])


async def test_what_the_sessions_of_a_killed_server_had_is_free_at_once(tmp_path: Path) -> None:
    server = start_http(tmp_path, *WORK, agent=None)
    try:
        with serving_http(tmp_path, *WORK, agent=None) as other:
            async with (
                Client(other.mcp_url, mode="legacy") as second,
                Client(server.mcp_url, mode="legacy") as first,
            ):
                one, two = Worker(first, ""), Worker(second, "")
                tasks = await sixty_tasks(one)
                shares = await asyncio.gather(claim_all(one), claim_all(two))
                assert sorted(shares[0] + shares[1]) == tasks
                server.kill()
                assert ids(await taken_over(two)) == sorted(shares[0])
    finally:
        server.kill()


async def test_a_restart_of_the_server_leaves_claims_to_those_of_their_name(tmp_path: Path) -> None:
    ann, bob = (Implementation(name=name, version="1") for name in ("ann", "bob"))
    async with AsyncExitStack() as stack:
        with serving_http(tmp_path, *WORK, agent=None) as server:
            client = Client(server.mcp_url, mode="legacy", client_info=ann)
            one = Worker(await stack.enter_async_context(client), "")
            await one.call("open", project="p")
            await one.plan({"ref": "a"})
            assert await one.next(claim=True) == ["a"]
            # The server is asked to end while the session is open.
    with serving_http(tmp_path, *WORK, agent=None) as server:
        async with Client(server.mcp_url, mode="legacy", client_info=bob) as other:
            assert await Worker(other, "").next(claim=True) == []
        async with Client(server.mcp_url, mode="legacy", client_info=ann) as again:
            assert await Worker(again, "").next(claim=True) == ["a"]


async def test_where_the_protocol_has_no_sessions_agents_are_known_by_their_names(tmp_path: Path) -> None:
    with serving_http(tmp_path, *WORK, agent=None) as server:
        async with AsyncExitStack() as stack:
            infos = [Implementation(name=name, version="1") for name in ("ann", "bob", "ann")]
            clients = [Client(server.mcp_url, mode="2026-07-28", client_info=info) for info in infos]
            one, two, again = [Worker(await stack.enter_async_context(each), "") for each in clients]
            tasks = await sixty_tasks(one)
            shares = await asyncio.gather(claim_all(one), claim_all(two))
            assert sorted(shares[0] + shares[1]) == tasks
            assert sorted(await claim_all(again)) == sorted(shares[0]), "and what has one name is one agent"


@promise("X22, race", "an agent in tasks and one in work never begin the same")
async def test_one_agent_in_tasks_and_one_in_work_never_begin_the_same(tmp_path: Path) -> None:
    async with (
        worker(tmp_path, None, toolsets="work,tasks") as one,
        worker(tmp_path, None, toolsets="work,tasks") as two,
    ):
        tasks = await sixty_tasks(one)
        shares = await asyncio.gather(begin_all(one), claim_all(two))
        assert sorted(shares[0] + shares[1]) == tasks


async def begin_all(agent: Worker) -> list[str]:
    """As an agent of the tasks toolset does; whoever is too late asks again."""
    mine: list[str] = []
    while (data := (await call(agent.client, "get_next_task"))["data"]) is not None:
        step = {"containerType": "task", "id": data["task"]["id"], "version": data["task"]["version"]}
        answer = await agent.client.call_tool("advance", step)
        if answer.is_error:
            assert answer.structured_content is not None
            assert answer.structured_content["error"]["code"] in ("CONFLICT", "CLAIMED")
        else:
            mine.append(data["task"]["id"])
    return mine
