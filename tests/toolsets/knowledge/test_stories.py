"""Discovery, planning and execution as agents go through them: work and knowledge over one log, and a repository."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.server.dispatch import prepare
from tallystick.toolsets import Answer
from tallystick.toolsets.knowledge import make_tool_context, make_toolset
from tallystick.toolsets.knowledge.context_files import context_files
from tallystick.toolsets.knowledge.path_context import NodeKnowledge
from tallystick.toolsets.work import toolset as work_toolset
from tests.promises import promise
from tests.toolsets.agent import Agent, working
from tests.toolsets.knowledge.agents import Checkout

Said = dict[str, Any]


class Developer:
    """An agent that plans and knows."""

    def __init__(self, agent: Agent, root: Path) -> None:
        self.agent = agent
        tool_context = make_tool_context(repo=root, clock=lambda: agent.now)
        toolsets = (
            make_toolset(tool_context),
            work_toolset(clock=lambda: agent.now, knowledge=NodeKnowledge(tool_context)),
        )
        self.tools = {tool.name: tool for toolset in toolsets for tool in toolset.tools}

    def work(self, tool: str, **arguments: Any) -> Said:
        entry = self.tools[tool]
        answer: Answer = self.agent.run(entry.call(self.agent.store, self.agent.principal, prepare(entry, arguments)))
        return answer.data

    def know(self, tool: str, operation: str, **arguments: Any) -> Said:
        data: Said = self.work(tool, operation=operation, **arguments)["data"]
        return data

    def plan(self, summary: str, *links: str) -> str:
        root = self.work("graph_open", project="shop", goal="sell things")["root"]["id"]
        node = {"ref": "n", "parent_ref": root, "summary": summary, "context_links": list(links)}
        made = self.work("graph_plan", nodes=[node])["created"]
        return str(made[0]["id"])


@pytest.fixture
def developer(checkout: Checkout) -> Iterator[Developer]:
    with working() as agent:
        yield Developer(agent, checkout.root)


@promise("knowledge, planning", "what is known is found while planning, and gaps are told and filled")
def test_planning_uses_what_is_known_and_fills_the_gaps(developer: Developer) -> None:
    task = developer.plan("make the checkout faster", "src/checkout/page.ts")
    found = developer.know("query_graph", "context", projectId="shop", paths="src/checkout/page.ts")
    assert found == {"molecules": [], "orphanAtoms": [], "unmatchedPaths": ["src/checkout/page.ts"]}
    common = {"projectId": "shop", "createdByTaskId": task}
    pages = developer.know("manage_graph", "create", entityType="molecule", name="Pages", knowledge="guards", **common)
    developer.know(
        "manage_graph", "create", entityType="atom", name="Checkout Page", paths='["src/checkout/**"]',
        moleculeId=pages["molecule"]["id"], knowledge="locales come from the registry", **common,
    )  # fmt: skip
    found = developer.know("query_graph", "search", entityType="atom", projectId="shop", query="LOCALES")
    assert [atom["name"] for atom in found["items"]] == ["Checkout Page"]
    content = "- `src/checkout/page.ts` the page\n- src/new.ts (to be written)"
    found = developer.know("query_graph", "context", projectId="shop", paths=context_files(content))
    assert [atom["name"] for atom in found["molecules"][0]["atoms"]] == ["Checkout Page"]
    assert found["unmatchedPaths"] == ["src/new.ts"]


@promise("knowledge, discovery", "the next task arrives with the knowledge of its files")
def test_the_next_task_arrives_with_the_knowledge_of_its_files(developer: Developer) -> None:
    task = developer.plan("make the checkout faster", "src/checkout/page.ts#L10", "https://example.org/design")
    developer.know(
        "manage_graph", "create", entityType="atom", name="Checkout Page", paths=["src/checkout/**"],
        projectId="shop", createdByTaskId=task, knowledge="locales come from the registry",
    )  # fmt: skip
    [entry] = developer.work("graph_next", project="shop", claim=True)["nodes"]
    assert entry["node"]["id"] == task
    [atom] = entry["knowledge"]["orphanAtoms"]
    assert (atom["knowledge"], atom["matchedPaths"]) == ("locales come from the registry", ["src/checkout/page.ts"])
    assert developer.work("graph_context", node_id=task)["knowledge"] == entry["knowledge"]


@promise("knowledge, execution", "work on files leaves knowledge, paths, history and pins up to date")
def test_execution_leaves_knowledge_that_is_true_again(developer: Developer, checkout: Checkout) -> None:
    task = developer.plan("move the cart", "src/checkout/cart.ts")
    atom = developer.know(
        "manage_graph", "create", entityType="atom", name="Checkout Page", paths=["src/checkout/**"],
        projectId="shop", createdByTaskId=task, knowledge="the cart is here", pin=True,
    )["atom"]  # fmt: skip
    (checkout.root / "src/cart").mkdir()
    checkout.git("mv", "src/checkout/cart.ts", "src/cart/cart.ts")
    touched = checkout.git("diff", "--name-only", "--cached", "--no-renames").splitlines()
    found = developer.know("query_graph", "context", projectId="shop", paths=touched)
    [stale] = found["orphanAtoms"]
    assert (stale["fresh"], stale["changedFiles"]) == (False, ["src/checkout/cart.ts"])
    assert found["unmatchedPaths"] == ["src/cart/cart.ts"]

    developer.know(
        "manage_graph", "update", entityType="atom", id=atom["id"], version=atom["version"], lastTaskId=task,
        paths=["src/checkout/**", "src/cart/**"], knowledge="the cart has moved", knowledgeMode="append", pin=True,
    )  # fmt: skip
    said = {"parentType": "atom", "parentId": atom["id"], "taskId": task, "summary": "cart moved to src/cart"}
    developer.know("manage_changelog", "append", **said)
    checkout.commit()

    found = developer.know("query_graph", "context", projectId="shop", paths=touched)
    [fresh] = found["orphanAtoms"]
    assert (fresh["fresh"], fresh["changedFiles"], found["unmatchedPaths"]) == (True, [], [])
    assert fresh["knowledge"].startswith("the cart is here\n\n---[")
    assert fresh["knowledge"].endswith(f" task:{task}]---\nthe cart has moved")
    assert [entry["summary"] for entry in fresh["changelog"]] == ["cart moved to src/cart"]
