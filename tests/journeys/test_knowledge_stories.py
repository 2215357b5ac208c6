"""Knowledge as agents live with it: discovery, planning and execution in a real repository, races, and a kill."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tallystick.log.proof import prove
from tests.journeys.knowledge_client import developer
from tests.mcp_client import kill_server
from tests.promises import promise
from tests.toolsets.knowledge.agents import Checkout

PAGE, CART = "src/checkout/page.ts", "src/checkout/cart.ts"
ON = {"TALLYSTICK_STALE_MAKES_WORK": "true"}


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "repository")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "base"


@promise("knowledge, journey", "discovery, planning and execution over MCP in a git repository")
async def test_what_one_agent_learned_reaches_the_next_with_the_task_and_stays_true(
    base: Path, checkout: Checkout
) -> None:
    async with developer(base, "ann", repo=checkout.root) as ann:
        # Planning: nobody knows these files yet, so ann writes down what she finds out.
        (task,) = await ann.plan("shop", {"summary": "Make the checkout faster", "context_links": [PAGE]})
        assert (await ann.context("shop", PAGE, "README.md"))["unmatchedPaths"] == [PAGE, "README.md"]
        common = {"projectId": "shop", "createdByTaskId": task}
        pages = await ann.create("molecule", name="Pages", knowledge="Guards are in the middleware", **common)
        atom = await ann.create(
            "atom", name="Checkout", paths=["src/checkout/**"], knowledge="Locales come from the registry",
            moleculeId=pages["id"], pin=True, **common,
        )  # fmt: skip
        found = await ann.data("query_graph", "search", entityType="atom", projectId="shop", query="locales")
        assert [each["id"] for each in found["items"]] == [atom["id"]]

    async with developer(base, "bob", repo=checkout.root) as bob:
        # Discovery: one call gives the task and what to know of its files.
        given = await bob.next("shop")
        assert given["node"]["id"] == task
        (area,) = given["knowledge"]["molecules"]
        assert (area["knowledge"], area["atoms"][0]["knowledge"]) == (
            "Guards are in the middleware",
            "Locales come from the registry",
        )
        (before,) = (await bob.context("shop", PAGE))["molecules"][0]["atoms"]
        assert (before["fresh"], before["changedFiles"]) == (True, [])

        # Execution: what bob changes makes the knowledge stale, until he says what is true now.
        checkout.write(PAGE, "two")
        checkout.write("src/checkout/lazy.ts", "new")
        checkout.commit()
        touched = checkout.git("diff", "--name-only", "HEAD~1").splitlines()
        (stale,) = (await bob.context("shop", *touched))["molecules"][0]["atoms"]
        assert (stale["fresh"], stale["changedFiles"]) == (False, touched)
        await bob.data(
            "manage_graph", "update", entityType="atom", id=atom["id"], version=1, lastTaskId=task, pin=True,
            knowledge="The page is loaded lazily", knowledgeMode="append",
        )  # fmt: skip
        await bob.data(
            "manage_changelog", "append", parentType="atom", parentId=atom["id"], taskId=task, summary="lazy page"
        )
        await bob.resolve(task, "a third of the time")
        (after,) = (await bob.context("shop", *touched))["molecules"][0]["atoms"]
        assert (after["fresh"], [each["summary"] for each in after["changelog"]]) == (True, ["lazy page"])
        assert after["knowledge"].endswith("The page is loaded lazily")


@promise("knowledge, journey with tasks", "includeGraphContext and graphHints over MCP")
async def test_tasks_carry_the_knowledge_of_their_files_and_hint_at_it_when_they_close(
    base: Path, checkout: Checkout
) -> None:
    async with developer(base, "ann", repo=checkout.root) as ann:
        (task,) = await ann.plan("shop", {"summary": "Make the checkout faster"})
        atom = await ann.create("atom", name="Checkout", paths=["src/**"], projectId="shop", createdByTaskId=task)
        await ann.data(
            "manage_sections", "add", entityType="TASK", entityId=task, title="Context Files",
            usageDescription="what to read first", content=f"- {PAGE}\n- README.md",
        )  # fmt: skip
        asked = {"containerType": "task", "id": task}
        found = await ann.data("query_container", "get", includeGraphContext=True, **asked)
        assert [each["id"] for each in found["graphContext"]["orphanAtoms"]] == [atom["id"]]
        assert found["graphContext"]["unmatchedPaths"] == ["README.md"]
        for _ in range(2):
            version = (await ann.data("query_container", "get", **asked))["task"]["version"]
            done = (await ann.call("advance", version=version, **asked))["data"]
        assert done["task"]["status"] == "CLOSED"
        assert done["graphHints"]["message"] == "Task completed. Consider updating the knowledge graph."
        assert [each["id"] for each in done["graphHints"]["atoms"]] == [atom["id"]]


@promise("knowledge, journey of racers", "of two servers on one version one is told CONFLICT and the current one")
async def test_of_two_processes_on_one_version_one_succeeds_and_one_is_told_the_current_one(
    base: Path, checkout: Checkout
) -> None:
    async with (
        developer(base, "ann", repo=checkout.root) as ann,
        developer(base, "bob", repo=checkout.root) as bob,
    ):
        (task,) = await ann.plan("shop", {"summary": "Look around"})
        atom = await ann.create("atom", name="All", paths=["**"], projectId="shop", createdByTaskId=task)
        for version in range(1, 6):
            asked = {"operation": "update", "entityType": "atom", "id": atom["id"], "version": version}
            answers = await asyncio.gather(
                *(
                    each.client.call_tool("manage_graph", asked | {"knowledge": f"{name} {version}"})
                    for name, each in (("ann", ann), ("bob", bob))
                )
            )
            (lost,) = [answer.structured_content for answer in answers if answer.is_error]
            (won,) = [answer.structured_content for answer in answers if not answer.is_error]
            assert lost is not None
            assert won is not None
            assert (lost["error"]["code"], lost["error"]["details"]["currentVersion"]) == ("CONFLICT", version + 1)
            for each in (ann, bob):
                seen = (await each.data("query_graph", "get", entityType="atom", id=atom["id"]))["atom"]
                assert (seen["version"], seen["knowledge"]) == (version + 1, won["data"]["atom"]["knowledge"])


@promise("knowledge, journey past a kill", "what was acknowledged before a kill is known after it")
async def test_after_a_kill_another_agent_knows_what_was_acknowledged_and_goes_on(
    base: Path, checkout: Checkout
) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT012  # however the client tells that its server is gone
        async with developer(base, "ann", repo=checkout.root) as ann:
            (task,) = await ann.plan("shop", {"summary": "Look around", "context_links": [CART]})
            atom = await ann.create(
                "atom", name="Cart", paths=["src/**"], projectId="shop", createdByTaskId=task, pin=True
            )
            kill_server(base, "ann")
            await ann.context("shop", CART)
    checkout.write(CART, "two")
    async with developer(base, "bob", repo=checkout.root) as bob:
        given = await bob.next("shop")
        assert (given["node"]["id"], given["knowledge"]["orphanAtoms"][0]["id"]) == (task, atom["id"])
        (known,) = (await bob.context("shop", CART))["orphanAtoms"]
        assert (known["fresh"], known["changedFiles"]) == (False, [CART])
        updated = await bob.data(
            "manage_graph", "update", entityType="atom", id=atom["id"], version=1, knowledge="still so", pin=True
        )
        assert updated["atom"]["version"] == 2
    assert prove(base / "_system").sound


@promise("stale_makes_work, processes", "several processes that notice it add one node")
async def test_stale_knowledge_becomes_work_once_and_is_pinned_when_that_is_done(
    base: Path, checkout: Checkout
) -> None:
    async with (
        developer(base, "ann", repo=checkout.root, **ON) as ann,
        developer(base, "bob", repo=checkout.root, **ON) as bob,
    ):
        (task,) = await ann.plan("shop", {"summary": "Look around"})
        atom = await ann.create("atom", name="Cart", paths=["src/**"], projectId="shop", createdByTaskId=task, pin=True)
        await ann.resolve(task, "looked")
        checkout.write(CART, "two")
        # Both notice, several times over: there is one node.
        await asyncio.gather(*(each.context("shop", CART) for each in (ann, bob, ann, bob)))
        given = await bob.next("shop")
        assert (given["node"]["summary"], given["context_links"]["self"]) == ("Re-verify knowledge: Cart", [CART])
        assert given["knowledge"]["orphanAtoms"][0]["id"] == atom["id"]
        assert (await ann.call("graph_query", project="shop", filter={"text": "Re-verify"}))["total"] == 1
        await bob.resolve(given["node"]["id"], "read it: still true")
        for each in (ann, bob):
            (known,) = (await each.context("shop", CART))["orphanAtoms"]
            assert (known["fresh"], known["changedFiles"]) == (True, [])


@promise("stale_makes_work, command", "the command that lists the stale makes work of them too")
async def test_the_command_that_lists_stale_knowledge_makes_work_of_it_too(
    base: Path, checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with developer(base, "ann", repo=checkout.root) as ann:
        (task,) = await ann.plan("shop", {"summary": "Look around"})
        await ann.create("atom", name="Cart", paths=["src/**"], projectId="shop", createdByTaskId=task, pin=True)
        checkout.write(CART, "two")
        monkeypatch.setenv("TALLYSTICK_STALE_MAKES_WORK", "true")
        command = [sys.executable, "-m", "tallystick", "knowledge", "stale", "--json", "--base", str(base)]
        for _ in range(2):
            said = await asyncio.to_thread(subprocess.check_output, command, cwd=checkout.root)
            assert [each["name"] for each in json.loads(said)["atoms"]] == ["Cart"]
        assert (await ann.call("graph_query", project="shop", filter={"text": "Re-verify"}))["total"] == 1


async def test_colleagues_in_the_root_and_below_are_told_the_same(base: Path, checkout: Checkout) -> None:
    async with (
        developer(base, "ann", repo=checkout.root, **ON) as ann,
        developer(base, "bob", repo=checkout.root / "src", **ON) as bob,
    ):
        await ann.plan("shop", {"summary": "Look around", "context_links": ["src/checkout/"]})
        await ann.next("shop")
        await ann.create("atom", name="Cart", paths=["src/checkout/**"], projectId="shop", pin=True)

        async def told() -> list[tuple[bool, list[str]]]:
            found = [(await each.context("shop", CART))["orphanAtoms"][0] for each in (ann, bob)]
            return [(atom["fresh"], atom["changedFiles"]) for atom in found]

        assert await told() == [(True, [])] * 2
        checkout.write(CART, "two")
        assert await told() == [(False, [CART])] * 2
        given = await bob.next("shop")
        (known,) = given["knowledge"]["orphanAtoms"]
        assert (given["node"]["summary"], known["fresh"]) == ("Re-verify knowledge: Cart", False)
        await bob.resolve(given["node"]["id"], "read it, still true")
        assert await told() == [(True, [])] * 2
        checkout.write(CART, "three")
        assert await told() == [(False, [CART])] * 2
