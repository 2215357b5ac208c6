"""memory.search with every combination of what narrows it: each takes away what it says, whatever stands beside it."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from tests.toolsets.agent import Agent

PAST = "2025-01-01T00:00:00.000Z"
NODES: dict[str, tuple[str, dict[str, Any]]] = {
    "a": ("note", {"text": "otter", "colour": "green", "project": "p"}),
    "b": ("note", {"text": "otter", "colour": "red", "stale_after": PAST}),
    "c": ("fact", {"text": "otter", "colour": "green", "stale_after": PAST, "project": "p"}),
    "d": ("fact", {"text": "weasel", "colour": "green", "stale_after": PAST, "project": "p"}),
    "e": ("note", {"text": "otter and weasel", "colour": "green", "stale_after": PAST}),
    "f": ("note", {"text": "otter", "colour": "green", "project": "p", "stale_after": PAST}),
}
EDGES = [("a", "b"), ("a", "c"), ("c", "d"), ("d", "e")]
AROUND_A = {"a", "b", "c"}

ARGUMENTS: dict[str, dict[str, tuple[dict[str, Any], set[str]]]] = {
    "words": {"query": ({"query": "otter"}, {"a", "b", "c", "e", "f"})},
    "scope": {
        "project": ({"scope": {"project": "p"}}, {"a", "c", "d", "f"}),
        "vocabulary": ({"scope": {"vocabulary": "memory"}}, set(NODES)),
        "other vocabulary": ({"scope": {"vocabulary": "work"}}, set()),
        "around": ({"scope": {"around": "a"}}, AROUND_A),
    },
    "stale": {"stale": ({"stale": True}, {"b", "c", "d", "e", "f"}), "not": ({"stale": False}, set(NODES))},
    "type": {"type": ({"type": "note"}, {"a", "b", "e", "f"})},
    "attributes": {"attrs": ({"attrs": {"colour": "green"}}, {"a", "c", "d", "e", "f"})},
    "place": {
        "id": ({"entity_id": "c"}, {"c"}),
        "walk": ({"entity_id": "a", "traversal": {"hops": 2}}, {"b", "c", "d"}),
    },
    "time": {"until": ({"until": "2999-01-01"}, set(NODES)), "since": ({"since": "2999-01-01"}, set())},
    "facets": {"not": ({"facets": False}, set(NODES))},
}


@pytest.fixture
def zoo(agent: Agent) -> Agent:
    for node_id, (kind, attrs) in NODES.items():
        agent.node(node_id, kind, **attrs)
    for source, target in EDGES:
        agent.edge(source, "near", target)
    return agent


def test_each_argument_narrows_by_itself_whatever_stands_beside_it(zoo: Agent) -> None:
    choices = [[({}, set(NODES)), *each.values()] for each in ARGUMENTS.values()]
    for chosen in product(*choices):
        asked: dict[str, Any] = {name: value for given, _ in chosen for name, value in given.items()}
        left = set.intersection(*(kept for _, kept in chosen))
        if "traversal" in asked and "since" in asked:
            left = set()  # It is the window of the edges that are walked.
        assert set(zoo.ids(**asked)) - {"|".join((a, "near", b)) for a, b in EDGES} == left, asked
