"""Stale knowledge makes work, once, and the work that is done pins it again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.engine.partition import Receipt
from tallystick.engine.store import Store
from tallystick.extensions.tasks.toolset import toolset as tasks_toolset
from tallystick.policy import Action, Decision, Principal, Request
from tallystick.server.dispatch import prepare
from tallystick.toolsets.knowledge import make_tool_context, make_toolset
from tallystick.toolsets.knowledge.path_context import NodeKnowledge
from tallystick.toolsets.knowledge.reverify import NODES_MAX, follow_up
from tallystick.toolsets.work import toolset as work_toolset
from tests.promises import promise
from tests.toolsets.agent import Agent, working
from tests.toolsets.knowledge.agents import Checkout

Said = dict[str, Any]
PAGE = "src/checkout/page.ts"


class SwitchablePolicy:
    may_write = True

    def decide(self, request: Request) -> Decision:
        allowed = self.may_write or request.action in (Action.READ, Action.SEARCH)
        return Decision(allowed, "so it is", "1", cacheable=False, narrows=False)


class ReverifySetup:
    """An agent with every vocabulary that has to do with it, in a repository, with the setting on or off."""

    def __init__(self, agent: Agent, checkout: Checkout | None, *, on: bool = True) -> None:
        """Without a checkout: wherever the working directory is."""
        self.agent = agent
        self.policy = SwitchablePolicy()
        tool_context = make_tool_context(
            repo=checkout.root if checkout else None, clock=lambda: agent.now, stale_makes_work=on
        )

        async def written(principal: Principal, receipt: Receipt) -> None:
            await follow_up(tool_context, agent.store, principal, receipt)

        agent.store = Store(agent._open, self.policy, written=written)
        toolsets = (
            make_toolset(tool_context),
            work_toolset(clock=lambda: agent.now, knowledge=NodeKnowledge(tool_context)),
            tasks_toolset(knowledge=tool_context, clock=lambda: agent.now),
        )
        self.tools = {tool.name: tool for toolset in toolsets for tool in toolset.tools}
        self.root = self.call("graph_open", project="shop", goal="sell")["root"]["id"]
        found = self.call("query_container", operation="search", containerType="project")["data"]["items"]
        self.project = found[0]["id"]

    def call(self, tool: str, **arguments: Any) -> Said:
        entry = self.tools[tool]
        prepared = prepare(entry, arguments)
        return self.agent.run(entry.call(self.agent.store, self.agent.principal, prepared)).data

    def atom(self, name: str = "Checkout", *paths: str) -> str:
        said = {"projectId": "shop", "name": name, "paths": list(paths) or ["src/checkout/**"], "pin": True}
        data = self.call("manage_graph", operation="create", entityType="atom", createdByTaskId=self.root, **said)
        return str(data["data"]["atom"]["id"])

    def context(self, path: str = PAGE) -> list[Said]:
        data = self.call("query_graph", operation="context", projectId="shop", paths=path)["data"]
        atoms: list[Said] = data["orphanAtoms"]
        return atoms

    def is_fresh(self, atom_id: str) -> bool:
        data = self.call("query_graph", operation="get", entityType="atom", id=atom_id)["data"]
        return data["atom"]["fresh"] is True

    def nodes(self) -> list[Said]:
        """What is to be verified, done or not."""
        found = self.call("graph_query", project="shop", filter={"text": "Re-verify knowledge"}, limit=100)
        return [self.call("graph_context", node_id=each["id"])["node"] for each in found["nodes"]]

    def resolve(self, node_id: str) -> None:
        evidence = [{"type": "note", "ref": "read it, still true"}]
        self.call("graph_update", updates=[{"node_id": node_id, "resolved": True, "add_evidence": evidence}])


@pytest.fixture
def setup(checkout: Checkout) -> Iterator[ReverifySetup]:
    with working() as agent:
        yield ReverifySetup(agent, checkout)


@promise("stale_makes_work", "an atom that is noticed stale gets one node with what to read")
def test_an_atom_that_is_noticed_stale_gets_one_node_with_what_to_read(
    setup: ReverifySetup, checkout: Checkout
) -> None:
    atom = setup.atom()
    setup.context()
    assert setup.nodes() == []
    checkout.write(PAGE, "two")
    for _ in range(2):
        assert setup.context()[0]["fresh"] is False
        assert not setup.is_fresh(atom)
    (node,) = setup.nodes()
    assert (node["summary"], node["context_links"], node["parent"]) == (
        "Re-verify knowledge: Checkout",
        [PAGE],
        setup.root,
    )
    assert node["properties"]["verifies_atom"] == atom
    (given,) = setup.call("graph_next", project="shop")["nodes"]
    assert given["node"]["id"] == node["id"]
    assert [each["id"] for each in given["knowledge"]["orphanAtoms"]] == [atom]


@promise("knowledge, with work", "the knowledge that goes with work says whether it is fresh")
def test_the_knowledge_that_goes_with_work_says_whether_it_is_fresh(setup: ReverifySetup, checkout: Checkout) -> None:
    setup.atom()
    made = setup.call(
        "manage_container", operation="create", containerType="task", projectId=setup.project, title="Form",
        summary="Build it", priority="HIGH", complexity=3,
    )["data"]["task"]  # fmt: skip
    setup.call(
        "manage_sections", operation="add", entityType="TASK", entityId=made["id"], title="Context Files",
        usageDescription="files", content=f"- {PAGE} — the page",
    )  # fmt: skip

    def seen() -> list[tuple[bool, list[str]]]:
        answers = [
            setup.call("graph_next", project="shop")["nodes"][0],
            setup.call("graph_next", project="shop", claim=True)["nodes"][0],
            setup.call("graph_context", node_id=made["id"]),
        ]
        atoms = [atom for answer in answers for atom in answer["knowledge"]["orphanAtoms"]]
        return [(atom["fresh"], atom["changedFiles"]) for atom in atoms]

    assert seen() == [(True, [])] * 3
    checkout.write(PAGE, "two")
    assert seen() == [(False, [PAGE])] * 3
    assert setup.nodes() == [], "who asks for work is not given more of it"


@promise("stale_makes_work, off", "without the setting nothing is added")
def test_without_the_setting_nothing_is_added(checkout: Checkout) -> None:
    with working() as agent:
        setup = ReverifySetup(agent, checkout, on=False)
        setup.atom()
        checkout.write(PAGE, "two")
        assert setup.context()[0]["fresh"] is False
        assert setup.nodes() == []


@promise("stale_makes_work, resolved", "resolving pins again, and the next change makes work again")
def test_resolving_pins_again_and_the_next_change_makes_work_again(setup: ReverifySetup, checkout: Checkout) -> None:
    atom = setup.atom()
    for content in ("two", "three"):
        setup.agent.now += 1_000
        checkout.write(PAGE, content)
        setup.context()
        (node,) = [each for each in setup.nodes() if not each["resolved"]]
        setup.resolve(node["id"])
        assert setup.is_fresh(atom)
    assert len(setup.nodes()) == 2


@pytest.fixture
def anywhere(checkout: Checkout) -> Iterator[ReverifySetup]:
    with working() as agent:
        yield ReverifySetup(agent, None)


@promise("stale_makes_work, anywhere", "work is made and done from any directory alike")
def test_work_is_made_and_done_from_any_directory_alike(
    anywhere: ReverifySetup, checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout.root)
    atom = anywhere.atom()
    monkeypatch.chdir(checkout.root / "src")
    anywhere.context()
    assert anywhere.nodes() == [], "nothing changed"
    checkout.write(PAGE, "two")
    anywhere.context()
    (node,) = anywhere.nodes()
    assert node["context_links"] == [PAGE]
    monkeypatch.chdir(checkout.root / "src" / "checkout")
    anywhere.resolve(node["id"])
    assert anywhere.is_fresh(atom)
    checkout.write(PAGE, "three")
    for directory in (checkout.root, checkout.root / "src"):
        monkeypatch.chdir(directory)
        assert not anywhere.is_fresh(atom)


def test_work_that_is_done_in_another_repository_pins_nothing(
    anywhere: ReverifySetup, checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout.root)
    atom = anywhere.atom()
    checkout.write(PAGE, "two")
    anywhere.context()
    (node,) = anywhere.nodes()
    monkeypatch.chdir(Checkout(tmp_path / "other").root)
    anywhere.resolve(node["id"])
    monkeypatch.chdir(checkout.root)
    assert not anywhere.is_fresh(atom), "nobody here has looked at it"


def test_patterns_that_match_nothing_make_no_work_for_ever(setup: ReverifySetup, checkout: Checkout) -> None:
    gone = setup.atom("Gone", PAGE)
    setup.atom("Typo", "src/chekout/**")
    (checkout.root / PAGE).unlink()
    setup.context()
    (node,) = setup.nodes()
    assert node["properties"]["verifies_atom"] == gone
    setup.resolve(node["id"])
    assert not setup.is_fresh(gone), "there is nothing that it could be true of"
    assert len(setup.nodes()) == 1


@promise("stale_makes_work, advanced", "a task that is advanced to its end pins again")
def test_a_task_that_is_advanced_to_its_end_pins_again(setup: ReverifySetup, checkout: Checkout) -> None:
    atom = setup.atom()
    checkout.write(PAGE, "two")
    setup.context()
    (node,) = setup.nodes()
    for _ in range(2):
        asked = {"containerType": "task", "id": node["id"]}
        task = setup.call("query_container", operation="get", **asked)["data"]["task"]
        setup.call("advance", version=task["version"], **asked)
    assert setup.is_fresh(atom)


@promise("stale_makes_work, dropped", "what was dropped pins nothing and is not asked for again")
def test_a_node_that_was_dropped_pins_nothing_and_is_not_added_again(setup: ReverifySetup, checkout: Checkout) -> None:
    atom = setup.atom()
    checkout.write(PAGE, "two")
    setup.context()
    (node,) = setup.nodes()
    setup.call("graph_restructure", operations=[{"op": "drop", "node_id": node["id"], "reason": "who cares"}])
    assert not setup.is_fresh(atom)
    assert len(setup.nodes()) == 1


def test_words_added_to_a_node_that_is_done_pin_nothing(setup: ReverifySetup, checkout: Checkout) -> None:
    atom = setup.atom()
    checkout.write(PAGE, "two")
    setup.context()
    (node,) = setup.nodes()
    setup.resolve(node["id"])
    checkout.write(PAGE, "three")
    setup.call("graph_update", updates=[{"node_id": node["id"], "state": "archived"}])
    assert not setup.is_fresh(atom)


def test_a_node_of_an_atom_that_is_gone_is_resolved_like_any_other(setup: ReverifySetup, checkout: Checkout) -> None:
    atom = setup.atom()
    checkout.write(PAGE, "two")
    setup.context()
    setup.call("manage_graph", operation="delete", entityType="atom", id=atom, version=1)
    (node,) = setup.nodes()
    setup.resolve(node["id"])
    assert setup.nodes()[0]["resolved"] is True


def test_one_question_adds_so_many_and_the_next_the_others(setup: ReverifySetup, checkout: Checkout) -> None:
    for number in range(NODES_MAX + 3):
        setup.atom(f"Atom {number:03}")
    checkout.write(PAGE, "two")
    setup.context()
    assert len(setup.nodes()) == NODES_MAX
    setup.context()
    assert len(setup.nodes()) == NODES_MAX + 3


def test_who_may_only_read_is_answered_and_adds_nothing(setup: ReverifySetup, checkout: Checkout) -> None:
    setup.atom()
    checkout.write(PAGE, "two")
    setup.policy.may_write = False
    assert setup.context()[0]["fresh"] is False
    assert setup.nodes() == []
