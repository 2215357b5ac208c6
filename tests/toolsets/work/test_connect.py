"""graph_connect: edges, one by one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.promises import promise
from tests.toolsets.work.agents import WorkAgent, summaries


@pytest.fixture
def ids(agent: WorkAgent) -> dict[str, str]:
    return agent.plan(*({"ref": ref} for ref in "abcd"))


def edges_of(agent: WorkAgent, node_id: str) -> list[tuple[str, str, str]]:
    found = agent.call("graph_context", node_id=node_id).get("edges", [])
    return [(edge["from"], edge["type"], edge["to"]) for edge in found]


@promise("graph_connect", "a dependency blocks at once")
def test_a_dependency_blocks_at_once_and_its_removal_sets_free(agent: WorkAgent, ids: dict[str, str]) -> None:
    assert agent.connect(ids["a"], ids["b"]) == {"applied": 1}
    assert agent.next(count=9) == ["b", "c", "d"]
    assert agent.counts()["blocked"] == 1
    told = agent.connect(ids["a"], ids["b"], remove=True)
    assert (told["applied"], summaries(told["newly_actionable"])) == (1, ["a"])


def test_a_dependency_on_a_resolved_node_blocks_nothing(agent: WorkAgent, ids: dict[str, str]) -> None:
    agent.resolve(ids["b"])
    agent.connect(ids["a"], ids["b"])
    assert "a" in agent.next(count=9)


@promise("W24", "other edges are seen in graph_context")
def test_other_types_block_nothing_and_are_seen_from_both_ends(agent: WorkAgent, ids: dict[str, str]) -> None:
    for type_ in ("relates_to", "my own"):
        assert agent.connect(ids["a"], ids["b"], type_) == {"applied": 1}
    assert agent.next(count=9) == ["a", "b", "c", "d"]
    expected = [(ids["a"], "relates_to", ids["b"]), (ids["a"], "my own", ids["b"])]
    assert edges_of(agent, ids["a"]) == edges_of(agent, ids["b"]) == expected
    agent.connect(ids["a"], ids["b"], "relates_to", remove=True)
    assert edges_of(agent, ids["a"]) == expected[1:]


@promise("graph_connect, cycles", "only dependencies are looked at for cycles")
def test_only_dependencies_are_looked_at_for_cycles(agent: WorkAgent, ids: dict[str, str]) -> None:
    for type_ in ("relates_to", "custom"):
        assert agent.connect(ids["a"], ids["b"], type_)["applied"] == 1
        assert agent.connect(ids["b"], ids["a"], type_)["applied"] == 1


def rejection(told: dict[str, Any]) -> tuple[str, str]:
    (rejected,) = told["rejected"]
    return rejected["reason"], rejected["detail"]


def test_a_cycle_is_rejected_with_its_path(agent: WorkAgent, ids: dict[str, str]) -> None:
    a, b, c = ids["a"], ids["b"], ids["c"]
    agent.connect(a, b)
    agent.connect(b, c)
    told = agent.connect(c, a)
    assert told["applied"] == 0
    assert rejection(told) == ("cycle_detected", f"Dependency cycle detected: {c} -> {a} -> {b} -> {c}")
    assert rejection(agent.connect(a, a)) == ("cycle_detected", f"Dependency cycle detected: {a} -> {a}")


def test_a_resolved_node_may_be_reopened_so_it_closes_a_cycle_too(agent: WorkAgent, ids: dict[str, str]) -> None:
    agent.connect(ids["a"], ids["b"])
    agent.resolve(ids["b"])
    assert rejection(agent.connect(ids["b"], ids["a"]))[0] == "cycle_detected"


@promise("W22", "each reason for a rejected edge has its name")
def test_every_reason_has_its_name(agent: WorkAgent, ids: dict[str, str]) -> None:
    a, b = ids["a"], ids["b"]
    elsewhere = agent.open("q")
    agent.connect(a, b)
    for edge, reason in (
        ({"from": a, "to": b, "type": "depends_on"}, "duplicate_edge"),
        ({"from": b, "to": a, "type": "depends_on"}, "cycle_detected"),
        ({"from": a, "to": "nobody", "type": "depends_on"}, "node_not_found"),
        ({"from": "nobody", "to": b, "type": "relates_to"}, "node_not_found"),
        ({"from": a, "to": b, "type": "parent"}, "parent_edges_not_allowed"),
        ({"from": a, "to": b, "type": "child"}, "parent_edges_not_allowed"),
        ({"from": a, "to": elsewhere, "type": "depends_on"}, "cross_project"),
        ({"from": a, "to": elsewhere, "type": "relates_to"}, "cross_project"),
        ({"from": a, "to": b, "type": "relates_to", "remove": True}, "edge_not_found"),
        ({"from": a, "to": "nobody", "type": "relates_to", "remove": True}, "node_not_found"),
    ):
        told = agent.call("graph_connect", edges=[edge])
        (rejected,) = told["rejected"]
        assert (told["applied"], rejected["from"], rejected["to"], rejected["reason"]) == (
            0,
            edge["from"],
            edge["to"],
            reason,
        )
        assert rejected["detail"]


@promise("W22, in order", "good edges are applied beside bad ones")
def test_good_edges_are_applied_beside_bad_ones_each_where_the_earlier_lead(
    agent: WorkAgent, ids: dict[str, str]
) -> None:
    a, b, c = ids["a"], ids["b"], ids["c"]
    asked = [(a, b, False), (b, c, False), (c, a, False), (a, b, True), (c, a, False), (a, b, True)]
    told = agent.call(
        "graph_connect",
        edges=[{"from": f, "to": t, "type": "depends_on", "remove": remove} for f, t, remove in asked],
    )
    assert told["applied"] == 4
    assert [each["reason"] for each in told["rejected"]] == ["cycle_detected", "edge_not_found"]
    assert agent.next(count=9) == ["a", "d"]


def test_when_every_edge_is_rejected_nothing_is_written(agent: WorkAgent, ids: dict[str, str]) -> None:
    before = agent.log.head()
    assert agent.connect(ids["a"], "nobody")["applied"] == 0
    assert agent.log.head() == before


@promise("W17, edges", "edges change no revision")
def test_edges_change_no_revision(agent: WorkAgent, ids: dict[str, str]) -> None:
    before = agent.node(ids["a"])
    agent.connect(ids["a"], ids["b"])
    assert agent.node(ids["a"]) == before


def test_a_dependency_on_an_ancestor_or_a_descendant_is_told(agent: WorkAgent) -> None:
    ids = agent.plan({"ref": "top"}, {"ref": "low", "parent_ref": "top"})
    top, low = ids["top"], ids["low"]
    told = agent.connect(low, top)
    assert told["warnings"] == [f"'{low}' depends on '{top}', which is above it: neither can come first"]
    agent.connect(low, top, remove=True)
    told = agent.connect(top, low)
    assert told["warnings"][0].startswith(f"'{top}' depends on '{low}', which is below it")


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"edges": []}, "field 'edges' must have at least 1 item, not 0"),
        ({"edges": [{"from": "a", "to": "b"}]}, "field 'edges[0].type' is required"),
        ({"edges": [{"from": "a", "to": "b", "type": ""}]}, "field 'edges[0].type' must have at least 1 character"),
        ({"edges": [{"to": "b", "type": "x"}]}, "field 'edges[0].from' is required"),
    ],
)
def test_mistakes_are_named(agent: WorkAgent, asked: dict[str, Any], sentence: str) -> None:
    told = agent.refusal("graph_connect", **asked)
    assert (told["error"], told["message"]) == ("validation_error", sentence)


def test_very_long_ways_round_are_told_by_their_ends(agent: WorkAgent) -> None:
    ids = agent.plan({"ref": "0"}, *({"ref": str(number), "depends_on": [str(number - 1)]} for number in range(1, 100)))
    reason, detail = rejection(agent.connect(ids["0"], ids["99"]))
    assert reason == "cycle_detected"
    assert "(61 more)" in detail
    assert detail.startswith(f"Dependency cycle detected: {ids['0']} -> {ids['99']} -> ")
    assert detail.endswith(f" -> {ids['0']}")
