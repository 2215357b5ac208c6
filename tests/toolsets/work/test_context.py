"""graph_context: a node and its neighbourhood."""

from __future__ import annotations

from typing import Any

import pytest

from tests.promises import promise
from tests.toolsets.work.agents import WorkAgent


@pytest.fixture
def ids(agent: WorkAgent) -> dict[str, str]:
    return agent.plan(
        {"ref": "a"},
        {"ref": "b", "parent_ref": "a"},
        {"ref": "c", "parent_ref": "b"},
        {"ref": "d", "parent_ref": "c"},
        {"ref": "e", "parent_ref": "a", "depends_on": ["b"]},
    )


def drawn(tree: dict[str, Any]) -> str:
    """a(b(c) e) with [n] for children that are only counted."""
    inner = " ".join(drawn(child) for child in tree.get("children", []))
    counted = f"[{tree['child_count']}]" if "child_count" in tree else ""
    return f"{tree['summary']}{f'({inner})' if inner else ''}{counted}"


@promise("W40", "ancestors go from the root to the parent")
def test_ancestors_go_from_the_root_to_the_parent_and_leave_the_node_out(agent: WorkAgent, ids: dict[str, str]) -> None:
    told = agent.call("graph_context", node_id=ids["c"])
    assert told["node"] == agent.node(ids["c"])
    assert told["ancestors"] == [
        {"id": agent.open(), "summary": "Ship it", "resolved": False},
        {"id": ids["a"], "summary": "a", "resolved": False},
        {"id": ids["b"], "summary": "b", "resolved": False},
    ]
    assert agent.call("graph_context", node_id=agent.open())["ancestors"] == []


@promise("W38", "the tree starts at the node and counts what it cuts")
@pytest.mark.parametrize(
    ("depth", "tree"),
    [(0, "a[2]"), (1, "a(b[1] e)"), (2, "a(b(c[1]) e)"), (3, "a(b(c(d)) e)"), (99, "a(b(c(d)) e)")],
)
def test_the_tree_starts_at_the_node_and_counts_what_it_cuts(
    agent: WorkAgent, ids: dict[str, str], depth: int, tree: str
) -> None:
    assert drawn(agent.call("graph_context", node_id=ids["a"], depth=depth)["children"]) == tree


def test_two_levels_are_shown_unless_asked_otherwise(agent: WorkAgent, ids: dict[str, str]) -> None:
    assert drawn(agent.call("graph_context", node_id=ids["a"])["children"]) == "a(b(c[1]) e)"


def test_a_tree_says_what_is_resolved_and_in_which_state(agent: WorkAgent, ids: dict[str, str]) -> None:
    agent.resolve(ids["d"], state="tested")
    tree = agent.call("graph_context", node_id=ids["c"])["children"]
    assert tree["children"] == [{"id": ids["d"], "summary": "d", "resolved": True, "state": "tested"}]
    assert "state" not in tree


def test_children_are_in_the_order_of_their_creation_wherever_they_were_moved(
    agent: WorkAgent, ids: dict[str, str]
) -> None:
    agent.restructure("move", node_id=ids["b"], new_parent=agent.open())
    agent.restructure("move", node_id=ids["b"], new_parent=ids["a"])
    assert drawn(agent.call("graph_context", node_id=ids["a"], depth=1)["children"]) == "a(b[1] e)"


@promise("graph_context", "ancestors, tree and dependencies of a node")
def test_dependencies_are_satisfied_when_what_is_waited_for_is_resolved(agent: WorkAgent, ids: dict[str, str]) -> None:
    (waits,) = agent.call("graph_context", node_id=ids["e"])["depends_on"]
    assert (waits["node"], waits["satisfied"]) == (agent.node(ids["b"]), False)
    (waiting,) = agent.call("graph_context", node_id=ids["b"])["depended_by"]
    assert (waiting["node"], waiting["satisfied"]) == (agent.node(ids["e"]), False)
    agent.resolve(ids["b"])
    assert agent.call("graph_context", node_id=ids["e"])["depends_on"][0]["satisfied"] is True
    assert agent.call("graph_context", node_id=ids["b"])["depended_by"][0]["satisfied"] is True


def test_a_wide_tree_shows_what_fits_and_counts_the_rest(agent: WorkAgent) -> None:
    for start in range(0, 1_000, 500):
        agent.plan(*({"ref": str(number), "summary": "s" * 60} for number in range(start, start + 500)))
    tree = agent.call("graph_context", node_id=agent.open())["children"]
    assert tree["child_count"] == 1_000
    assert 50 < len(tree["children"]) < 1_000


def test_many_dependents_are_shown_as_far_as_they_fit(agent: WorkAgent) -> None:
    first = agent.plan({"ref": "first"})["first"]
    agent.plan(*({"ref": str(number), "depends_on": [first]} for number in range(100)))
    told = agent.call("graph_context", node_id=first)
    assert len(told["depended_by"]) + told["depended_by_omitted"] == 100


def test_old_evidence_is_left_out_when_there_is_too_much_of_it(agent: WorkAgent) -> None:
    node_id = agent.plan({"ref": "a"})["a"]
    for number in range(30):
        agent.update(node_id, add_evidence=[{"type": "note", "ref": f"{number} " + "x" * 500}])
    node = agent.node(node_id)
    assert len(node["evidence"]) + node["evidence_omitted"] == 30
    assert node["evidence"][-1]["ref"].startswith("29 ")


def test_mistakes_are_named(agent: WorkAgent) -> None:
    told = agent.refusal("graph_context", node_id="nobody")
    assert (told["error"], told["message"]) == ("node_not_found", "there is no work node 'nobody'")
    told = agent.refusal("graph_context", node_id="x", depth=-1)
    assert (told["error"], told["message"]) == (
        "validation_error",
        "field 'depth' must be greater than or equal to 0",
    )
