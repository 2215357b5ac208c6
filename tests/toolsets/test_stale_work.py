"""Stale facts of any vocabulary make work, once, and what is verified needs none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tallystick.engine.partition import Receipt
from tallystick.engine.store import Store
from tallystick.errors import TallystickError
from tallystick.extensions.tasks.toolset import toolset as tasks_toolset
from tallystick.policy import Action, Decision, Principal, Request
from tallystick.server.dispatch import prepare
from tallystick.state.staleness import Stale
from tallystick.toolsets.knowledge import make_tool_context, make_toolset
from tallystick.toolsets.knowledge.reverify import follow_up, notice
from tallystick.toolsets.memory import toolset as memory_toolset
from tallystick.toolsets.work import toolset as work_toolset
from tests.promises import promise
from tests.toolsets.agent import Agent, working

HOUR = 3_600_000
PAST = "2025-01-04T13:00:00.000Z"
Said = dict[str, Any]


class SecretPolicy:
    """Reads of what begins with `secret` are for the boss; a reader writes nothing."""

    def decide(self, request: Request) -> Decision:
        reads = request.action in (Action.READ, Action.SEARCH)
        secret = (request.resource or "").startswith("secret") and request.principal.actor != "boss"
        allowed = not (request.action is Action.READ and secret) and (reads or request.principal.actor != "reader")
        return Decision(allowed, "", "1", cacheable=False)


class StaleSetup:
    """An agent with every vocabulary, while stale facts make work."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        context = make_tool_context(clock=lambda: agent.now, stale_makes_work=True)

        async def written(principal: Principal, receipt: Receipt) -> None:
            await follow_up(context, agent.store, principal, receipt)

        async def noticed(principal: Principal, stale: Mapping[str, Stale]) -> None:
            await notice(context, agent.store, principal, stale)

        agent.store = Store(agent._open, SecretPolicy(), written=written, noticed=noticed)
        toolsets = (
            memory_toolset(),
            make_toolset(context),
            work_toolset(clock=lambda: agent.now),
            tasks_toolset(knowledge=context, clock=lambda: agent.now),
        )
        self.tools = {tool.name: tool for toolset in toolsets for tool in toolset.tools}

    def call(self, tool: str, **arguments: Any) -> Said:
        entry = self.tools[tool]
        return self.agent.run(entry.call(self.agent.store, self.agent.principal, prepare(entry, arguments))).data

    def become(self, actor: str) -> None:
        self.agent.principal = Principal(actor=actor)

    def node(self, node_id: str, **attrs: Any) -> None:
        self.call("memory.write", op="UPSERT_NODE", node={"id": node_id, "type": "fact", "attrs": attrs})

    def read(self, node_id: str) -> Said:
        entity: Said = self.call("memory.read", entity_id=node_id)["entity"]
        return entity

    def projects(self) -> list[str]:
        return [each["project"] for each in self.call("graph_open")["projects"]]

    def work(self, project: str = "maintenance") -> list[Said]:
        found = self.call("graph_query", project=project, filter={"text": "Re-verify"}, limit=100)["nodes"]
        return [self.call("graph_context", node_id=each["id"])["node"] for each in found]


@pytest.fixture
def setup() -> Iterator[StaleSetup]:
    with working() as agent:
        yield StaleSetup(agent)


def stale_fact(setup: StaleSetup, node_id: str = "port", **attrs: Any) -> None:
    setup.node(node_id, stale_after=PAST, **attrs)
    setup.agent.now += 2 * HOUR


@promise("X24, work", "a stale fact gets one work node, in its project or in maintenance")
def test_a_stale_fact_that_is_read_gets_one_node_in_a_project_for_such_things(setup: StaleSetup) -> None:
    stale_fact(setup, name="The port of the database")
    setup.node("fresh", name="x")
    setup.read("fresh")
    assert setup.projects() == []
    for _ in range(2):
        setup.read("port")
        setup.call("memory.search", type="fact")
    (node,) = setup.work()
    assert node["summary"] == "Re-verify The port of the database"
    assert node["properties"] == {"verifies": "port", "stale_since": PAST}
    assert setup.projects() == ["maintenance"]


def test_all_who_notice_at_once_add_one(setup: StaleSetup) -> None:
    stale_fact(setup)
    entry = setup.tools["memory.read"]

    async def together() -> None:
        prepared = prepare(entry, {"entity_id": "port"})
        await asyncio.gather(*(entry.call(setup.agent.store, setup.agent.principal, prepared) for _ in range(5)))

    setup.agent.run(together())
    assert len(setup.work()) == 1
    assert setup.projects() == ["maintenance"]


@promise("X24, work, project", "the work belongs to the project of the fact")
def test_it_belongs_to_the_project_of_the_fact(setup: StaleSetup) -> None:
    root = setup.call("graph_open", project="shop", goal="sell")["root"]["id"]
    planned = setup.call("graph_plan", nodes=[{"ref": "a", "parent_ref": root, "summary": "a plan"}])
    task = planned["created"][0]["id"]
    stale_fact(setup, project="shop")
    setup.call("memory.write", op="PATCH_NODE", node={"id": task, "attrs": {"stale_after": PAST}})
    setup.read("port")
    setup.call("graph_context", node_id=task)
    assert sorted(each["properties"]["verifies"] for each in setup.work("shop")) == sorted([task, "port"])
    assert setup.projects() == ["shop"]


@promise("X24, work, verified", "a fact that is verified resolves its node")
def test_a_fact_that_is_verified_resolves_its_node(setup: StaleSetup) -> None:
    stale_fact(setup)
    setup.read("port")
    setup.node("port", stale_after=PAST, verified=True)
    (node,) = setup.work()
    assert node["resolved"] is True
    assert [each["type"] for each in node["evidence"]] == ["verified"]
    before = setup.agent.log.head()
    assert "stale" not in setup.read("port")
    assert setup.agent.log.head() == before


def test_a_node_that_is_resolved_verifies_its_fact(setup: StaleSetup) -> None:
    stale_fact(setup)
    setup.read("port")
    (node,) = setup.work()
    setup.become("checker")
    evidence = [{"type": "note", "ref": "looked"}]
    setup.call("graph_update", updates=[{"node_id": node["id"], "resolved": True, "add_evidence": evidence}])
    entity = setup.read("port")
    assert "stale" not in entity
    assert entity["attrs"]["verified"] == {"by": "checker", "at": "2025-01-04T14:00:00.000Z"}
    assert entity["attrs"]["stale_after"] == PAST
    (node,) = setup.work()
    assert [each["type"] for each in node["evidence"]] == ["note"]


def test_the_next_time_is_another_matter(setup: StaleSetup) -> None:
    stale_fact(setup)
    setup.read("port")
    setup.node("port", stale_after="2025-01-04T15:00:00Z", verified=True)
    setup.agent.now += 2 * HOUR
    setup.read("port")
    assert sorted(each["resolved"] for each in setup.work()) == [False, True]


def test_what_was_given_up_is_not_asked_for_again(setup: StaleSetup) -> None:
    stale_fact(setup)
    setup.read("port")
    (node,) = setup.work()
    setup.call("graph_restructure", operations=[{"op": "drop", "node_id": node["id"], "reason": "never mind"}])
    assert setup.read("port")["stale"]["why"] == "past its time"
    assert "verified" not in setup.read("port")["attrs"]
    assert len(setup.work()) == 1


def test_what_has_a_successor_needs_no_looking_at(setup: StaleSetup) -> None:
    stale_fact(setup)
    setup.read("port")
    setup.node("new", supersedes=["port"])
    (node,) = setup.work()
    assert node["resolved"] is True
    setup.node("other")
    setup.node("newer", supersedes=["other"])
    setup.read("other")
    assert len(setup.work()) == 1


def test_who_may_only_read_is_answered_and_adds_nothing(setup: StaleSetup) -> None:
    stale_fact(setup)
    setup.become("reader")
    assert setup.read("port")["stale"]["why"] == "past its time"
    assert setup.projects() == []


@promise("X24, work, hidden", "who may not read a fact does not read the work made of it")
def test_who_may_not_read_a_fact_does_not_read_the_work_that_was_made_of_it(setup: StaleSetup) -> None:
    setup.become("boss")
    stale_fact(setup, "secret_port")
    setup.read("secret_port")
    stale_fact(setup, "port")
    setup.read("port")
    assert len(setup.work()) == 2
    setup.become("agent_alpha")
    assert [each["properties"]["verifies"] for each in setup.work()] == ["port"]
    assert setup.call("graph_open", project="maintenance")["summary"]["total"] == 2
    found = setup.call("memory.search", type="work/node")["entities"]
    assert "secret" not in str(found)


def test_a_look_into_the_past_makes_no_work(setup: StaleSetup) -> None:
    stale_fact(setup)
    setup.call("memory.read", entity_id="port", as_of="2025-01-04T13:30:00Z")
    assert setup.projects() == []


# -- facts of every vocabulary


def patch(setup: StaleSetup, node_id: str, **attrs: Any) -> None:
    setup.call("memory.write", op="PATCH_NODE", node={"id": node_id, "attrs": attrs})


@promise("X24, work nodes", "a work node may run out, and keeps that through its own tools")
def test_a_work_node_may_run_out_and_keeps_that_through_its_own_tools(setup: StaleSetup) -> None:
    root = setup.call("graph_open", project="shop", goal="sell")["root"]["id"]
    planned = setup.call("graph_plan", nodes=[{"ref": "a", "parent_ref": root, "summary": "a plan"}])
    task = planned["created"][0]["id"]
    patch(setup, task, stale_after=PAST, supersedes=["old plan"])
    setup.call("graph_update", updates=[{"node_id": task, "summary": "another plan", "properties": {"verified": True}}])
    attrs = setup.read(task)["attrs"]
    assert (attrs["stale_after"], attrs["supersedes"], attrs["properties"]) == (PAST, ["old plan"], {"verified": True})
    setup.agent.now += 2 * HOUR
    told = {"why": "past its time", "since": PAST}
    assert setup.call("graph_context", node_id=task)["node"]["stale"] == told
    assert setup.call("graph_query", project="shop")["nodes"][0].get("stale") == told
    (next_,) = setup.call("graph_next", project="shop", count=1)["nodes"]
    assert next_["node"]["stale"] == told
    patch(setup, task, verified=True)
    assert "stale" not in setup.call("graph_context", node_id=task)["node"]


@promise("X24, knowledge and tasks", "knowledge and tasks may run out")
def test_knowledge_and_tasks_may_run_out(setup: StaleSetup) -> None:
    root = setup.call("graph_open", project="shop", goal="sell")["root"]["id"]
    atom = setup.call(
        "manage_graph",
        operation="create",
        entityType="atom",
        projectId="shop",
        name="Cart",
        paths=["src/**"],
        createdByTaskId=root,
    )["data"]["atom"]
    project = atom["projectId"]
    task = setup.call(
        "manage_container",
        operation="create",
        containerType="task",
        projectId=project,
        title="Form",
        summary="make a form",
        priority="HIGH",
        complexity=3,
    )["data"]["task"]
    for each in (atom["id"], task["id"]):
        patch(setup, each, stale_after=PAST)
    setup.call(
        "manage_graph", operation="update", entityType="atom", id=atom["id"], version=atom["version"], name="Carts"
    )
    setup.agent.now += 2 * HOUR
    told = {"why": "past its time", "since": PAST}
    got = setup.call("query_graph", operation="get", entityType="atom", id=atom["id"])["data"]["atom"]
    assert (got["name"], got["stale"]) == ("Carts", told)
    got = setup.call("query_container", operation="get", containerType="task", id=task["id"])["data"]["task"]
    assert got["stale"] == told
    named = {each["properties"]["verifies"] for each in setup.work("shop")}
    assert named == {atom["id"], task["id"]}


@promise("X24, exactly four", "nothing else of another vocabulary is patched")
def test_nothing_else_of_another_vocabulary_is_patched(setup: StaleSetup) -> None:
    root = setup.call("graph_open", project="shop", goal="sell")["root"]["id"]
    for attrs in ({"resolved": True}, {"verified": True, "resolved": True}, {}):
        with pytest.raises(TallystickError):
            patch(setup, root, **attrs)
    with pytest.raises(TallystickError, match="stale_after"):
        patch(setup, root, stale_after="soon")


def test_the_history_of_work_tells_until_when_it_holds_and_what_it_supersedes(setup: StaleSetup) -> None:
    setup.call("graph_open", project="p")
    (made,) = setup.call("graph_plan", nodes=[{"ref": "1", "summary": "Paint"}])["created"]
    setup.become("boss")
    setup.node("secret plan")
    setup.node("old plan")
    over = {"stale_after": PAST, "supersedes": ["old plan", "secret plan"]}
    setup.call("memory.write", op="PATCH_NODE", node={"id": made["id"], "attrs": over})

    def changes() -> dict[str, Any]:
        newest = setup.call("graph_history", node_id=made["id"])["events"][0]
        return {each["field"]: (each["before"], each["after"]) for each in newest["changes"]}

    assert changes() == {"stale_after": (None, PAST), "supersedes": (None, over["supersedes"])}
    setup.become("reader")
    assert changes() == {"stale_after": (None, PAST), "supersedes": (None, ["old plan"])}
