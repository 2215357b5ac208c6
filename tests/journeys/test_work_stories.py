"""Whole stories of work, told by agents that each have a server process of their own."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.journeys.work_client import Worker, worker
from tests.mcp_client import kill_server
from tests.promises import promise


@promise("work, diamond", "a diamond opens from its tip to its foot")
async def test_a_diamond_opens_from_its_tip_to_its_foot(tmp_path: Path) -> None:
    async with worker(tmp_path, "ann") as ann, worker(tmp_path, "bob") as bob:
        await ann.call("open", project="p", goal="A diamond")
        ids = await ann.plan(
            {"ref": "foot", "depends_on": ["left", "right"]},
            {"ref": "left", "depends_on": ["tip"]},
            {"ref": "right", "depends_on": ["tip"]},
            {"ref": "tip"},
        )
        assert await bob.next(count=9) == ["tip"]
        assert await ann.resolve(ids["tip"]) == ["left", "right"]
        shares = await asyncio.gather(ann.next(claim=True), bob.next(claim=True))
        assert sorted(shares) == [["left"], ["right"]]
        assert await ann.resolve(ids["left"]) == []
        assert await bob.resolve(ids["right"]) == ["foot"]
        assert await ann.resolve(ids["foot"]) == ["A diamond"]


@promise("work, fan-in", "what waits for twenty opens with the last of them")
async def test_a_fan_in_of_twenty_opens_with_the_last(tmp_path: Path) -> None:
    async with worker(tmp_path) as ann:
        await ann.call("open", project="p")
        parts = [f"part {number}" for number in range(20)]
        ids = await ann.plan({"ref": "assemble", "depends_on": parts}, *({"ref": part} for part in parts))
        for part in parts[:-1]:
            assert await ann.resolve(ids[part]) == []
        assert await ann.resolve(ids[parts[-1]]) == ["assemble"]
        (given,) = (await ann.call("next", project="p"))["nodes"]
        assert [each["summary"] for each in given["resolved_deps"]] == parts


@promise("work, depth", "five levels down a task knows where it is")
async def test_five_levels_deep_the_deepest_comes_first_and_knows_where_it_is(tmp_path: Path) -> None:
    async with worker(tmp_path) as ann:
        await ann.call("open", project="p", goal="level 0")
        levels = [f"level {number}" for number in range(1, 6)]
        ids = await ann.plan(
            *(
                {"ref": level, "context_links": [f"{level}.md"]}
                | ({"parent_ref": levels[number - 1]} if number else {})
                for number, level in enumerate(levels)
            )
        )
        (given,) = (await ann.call("next", project="p"))["nodes"]
        assert given["node"]["summary"] == "level 5"
        assert [each["summary"] for each in given["ancestors"]] == [f"level {number}" for number in range(5)]
        assert [each["links"] for each in given["context_links"]["inherited"]] == [
            [f"{each}.md"] for each in levels[:-1]
        ]
        for level, parent in zip(reversed(levels), reversed(["level 0", *levels[:-1]]), strict=True):
            assert await ann.resolve(ids[level]) == [parent]


@promise("work, pick-up", "what a killed agent left is picked up with its evidence and context")
async def test_another_agent_picks_up_what_a_killed_one_left(tmp_path: Path) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT012  # however the client tells that its server is gone
        async with worker(tmp_path, "ann") as ann:
            await ann.call("open", project="p", goal="A bridge")
            ids = await ann.plan(
                {"ref": "survey"},
                {"ref": "build", "depends_on": ["survey"], "context_links": ["plans/bridge.md"]},
                {"ref": "paint", "depends_on": ["build"]},
            )
            await ann.resolve(ids["survey"], "rock below 4 m")
            assert await ann.next(claim=True) == ["build"]
            half = {
                "node_id": ids["build"],
                "state": "half",
                "add_evidence": [{"type": "hint", "ref": "beware of the wind"}],
            }
            await ann.call("update", updates=[half])
            kill_server(tmp_path, "ann")
            await ann.call("open", project="p")

    async with worker(tmp_path, "bob") as bob:
        seen = await bob.call("onboard")
        assert (seen["goal"], seen["recent_evidence"][0]["ref"]) == ("A bridge", "rock below 4 m")
        (given,) = (await bob.call("next", project="p", claim=True))["nodes"]
        left = given["node"]
        assert (given["taken_over"]["claimed_by"], given["taken_over"]["why"]) == ("ann", "its session has ended")
        assert given["node"]["state"] == "half"
        assert [(each["agent"], each["ref"]) for each in given["node"]["evidence"]] == [("ann", "beware of the wind")]
        assert given["context_links"]["self"] == ["plans/bridge.md"]
        assert given["resolved_deps"][0]["evidence"][0]["ref"] == "rock below 4 m"
        assert await bob.resolve(left["id"]) == ["paint"]
        history = await bob.call("history", node_id=left["id"])
        assert [(event["agent"], event["action"]) for event in history["events"]] == [
            ("bob", "resolved"),
            ("bob", "claimed"),
            ("ann", "updated"),
            ("ann", "claimed"),
            ("ann", "edge_added"),
            ("ann", "created"),
        ]


@promise("work, replanning", "priorities change while others work")
async def test_priorities_change_while_others_work(tmp_path: Path) -> None:
    async with worker(tmp_path, "ann") as ann, worker(tmp_path, "bob") as bob:
        await ann.call("open", project="p")
        ids = await ann.plan(*({"ref": ref, "properties": {"priority": 5}} for ref in ("a", "b", "c")))
        assert await bob.next(claim=True) == ["a"]
        await ann.call("update", updates=[{"node_id": ids["c"], "properties": {"priority": 9}}])
        assert await bob.resolve(ids["a"]) == []
        assert await bob.next(claim=True) == ["c"]
        await ann.call("update", updates=[{"node_id": ids["b"], "properties": {"priority": None}}])
        await ann.plan({"ref": "urgent", "properties": {"priority": "100"}})
        assert await ann.next(count=9) == ["urgent", "b"]


@promise("work, drop", "a drop sets free what waited for it")
async def test_a_drop_sets_free_what_waited_for_it(tmp_path: Path) -> None:
    async with worker(tmp_path) as ann:
        await ann.call("open", project="p")
        ids = await ann.plan(
            {"ref": "big", "depends_on": []},
            {"ref": "small", "parent_ref": "big"},
            {"ref": "smaller", "parent_ref": "small"},
            {"ref": "waiting", "depends_on": ["big", "smaller"]},
        )
        drop = {"op": "drop", "node_id": ids["big"], "reason": "the customer left"}
        answer = await ann.call("restructure", operations=[drop])
        assert [node["summary"] for node in answer["newly_actionable"]] == ["waiting"]
        (given,) = (await ann.call("next", project="p"))["nodes"]
        assert {(each["summary"], each["evidence"][0]["type"]) for each in given["resolved_deps"]} == {
            ("big", "dropped"),
            ("smaller", "dropped"),
        }
        history = await ann.call("history", node_id=ids["smaller"])
        assert history["events"][0]["action"] == "dropped"


@promise("work, merge", "two nodes with shared dependents become one")
async def test_two_nodes_with_shared_dependents_become_one(tmp_path: Path) -> None:
    async with worker(tmp_path) as ann:
        await ann.call("open", project="p")
        ids = await ann.plan(
            {"ref": "base"},
            {"ref": "one", "depends_on": ["base"]},
            {"ref": "two", "depends_on": ["base", "one"]},
            {"ref": "shared", "depends_on": ["one", "two"]},
            {"ref": "only two", "depends_on": ["two"]},
        )
        await ann.call("restructure", operations=[{"op": "merge", "source": ids["two"], "target": ids["one"]}])
        around = await ann.call("context", node_id=ids["one"])
        assert [each["node"]["summary"] for each in around["depends_on"]] == ["base"]
        assert {each["node"]["summary"] for each in around["depended_by"]} == {"shared", "only two"}
        assert await ann.resolve(ids["base"]) == ["one"]
        assert await ann.resolve(ids["one"]) == ["shared", "only two"]
        gone = await ann.refused("context", node_id=ids["two"])
        assert (gone["error"], gone["merged_into"]) == ("node_not_found", ids["one"])


@promise("work, race", "four processes race for sixty tasks: none twice, none lost")
async def test_four_processes_race_for_sixty_tasks_and_none_is_handed_out_twice_or_lost(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        agents = [await stack.enter_async_context(worker(tmp_path, f"agent {number}")) for number in range(4)]
        done = await _sixty_tasks(agents[0], "done at once")
        shares = await asyncio.gather(*(_work_off(agent, "done at once", set(done)) for agent in agents))
        assert sorted(node_id for share in shares for node_id in share) == done
        assert (await agents[0].call("open", project="done at once"))["summary"]["resolved"] == 60

        held = await _sixty_tasks(agents[0], "only claimed")
        claims = {"project": "only claimed", "claim": True, "count": 5}
        answers = await asyncio.gather(*(agent.call("next", **claims) for _ in range(3) for agent in agents))
        assert sorted(each["node"]["id"] for answer in answers for each in answer["nodes"]) == held


async def _sixty_tasks(agent: Worker, project: str) -> list[str]:
    await agent.call("open", project=project)
    return sorted((await agent.plan(*({"ref": f"task {number}"} for number in range(60)))).values())


async def _work_off(agent: Worker, project: str, tasks: set[str]) -> list[str]:
    mine: list[str] = []
    while given := (await agent.call("next", project=project, claim=True))["nodes"]:
        node_id = given[0]["node"]["id"]
        if node_id not in tasks:
            break
        mine.append(node_id)
        await agent.resolve(node_id)
    return mine


@promise("W47, for real", "the config file says who works and how long a claim lasts")
async def test_the_config_file_says_who_works_and_how_long_a_claim_lasts(tmp_path: Path) -> None:
    base, project = tmp_path / "base", tmp_path / "project"
    project.mkdir()
    # A few hundredths of a millisecond: two processes cannot be quicker.
    (project / "graph.config.yaml").write_text('agent_identity: "claude-code-v1"\nclaim_ttl_minutes: 0.000001\n')
    async with worker(base, None, cwd=project) as claude, worker(base, "bob", GRAPH_CLAIM_TTL="0.000001") as bob:
        root = (await claude.call("open", project="p"))["root"]
        assert root["created_by"] == "claude-code-v1"
        await claude.plan({"ref": "a"})
        (given,) = (await claude.call("next", project="p", claim=True))["nodes"]
        assert given["node"]["properties"]["_claimed_by"] == "claude-code-v1"
        assert await bob.next(claim=True) == ["a"], "it is over by then"


async def test_mistakes_are_results_and_the_server_goes_on(tmp_path: Path) -> None:
    async with worker(tmp_path) as ann:
        said = await ann.refused("plan", nodes=[])
        assert (said["error"], said["message"]) == (
            "validation_error",
            "field 'nodes' must have at least 1 item, not 0",
        )
        assert (await ann.refused("next", project="p"))["error"] == "project_not_found"
        await ann.call("open", project="p")
        looped = [{"ref": "a", "summary": "a", "depends_on": ["b"]}, {"ref": "b", "summary": "b", "depends_on": ["a"]}]
        said = await ann.refused("plan", nodes=looped)
        assert (said["error"], said["cycle"]) == ("cycle_detected", ["a", "b", "a"])
        assert (await ann.call("open", project="p"))["summary"]["total"] == 1
