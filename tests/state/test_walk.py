"""Walks; that they find the same as trying every path is a law (tests/laws)."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.state import Walk, Walked
from tallystick.system.turns import finished
from tests.state.logged_state import LoggedState


def walked(logged: LoggedState, start: str, **asked: Any) -> Walked:
    return finished(logged.state.walk(Walk(start=start, **asked)))


def paths(found: Walked) -> list[str]:
    return [" ".join(path.ids) for path in found.paths]


def test_two_hops_reach_co_authors_and_list_only_whole_paths() -> None:
    logged = LoggedState()
    for name in ("user_001", "doc_A", "doc_B", "user_002", "user_003"):
        logged.node(name)
    logged.edge("user_001", "authored", "doc_A", date="2025-01-03")
    logged.edge("user_001", "authored", "doc_B")
    logged.edge("doc_A", "authored", "user_002")
    logged.edge("doc_A", "authored", "user_003")
    found = walked(logged, "user_001", hops=2, edge_types=("authored",))
    assert paths(found) == ["user_001 doc_A user_002", "user_001 doc_A user_003"]
    assert [edge.attrs for edge in found.paths[0].edges] == [{"date": "2025-01-03"}, {}]
    assert [node.id for node in found.nodes] == ["doc_A", "doc_B", "user_002", "user_003"]
    assert (found.edges_traversed, found.truncated) == (4, False)
    assert paths(walked(logged, "user_001", hops=2, min_hops=1)) == [
        "user_001 doc_A",
        "user_001 doc_A user_002",
        "user_001 doc_A user_003",
        "user_001 doc_B",
    ]


def test_parallel_edges_make_paths_of_their_own_and_loops_make_none() -> None:
    logged = LoggedState()
    for name in "ab":
        logged.node(name)
    logged.edge("a", "knows", "b")
    logged.edge("a", "likes", "b")
    logged.edge("a", "knows", "a")
    found = walked(logged, "a", hops=1)
    assert [path.edges[0].rel for path in found.paths] == ["knows", "likes"]
    assert paths(walked(logged, "a", hops=2)) == []


def test_from_nowhere_nothing_is_reached() -> None:
    logged = LoggedState()
    assert walked(logged, "x", hops=2) == Walked([], [], 0, False)


@pytest.fixture(scope="module")
def star() -> LoggedState:
    logged = LoggedState()
    logged.node("hub")
    for number in range(200):
        logged.node(f"n{number}")
        logged.edge("hub", "r", f"n{number}")
    return logged


@pytest.mark.parametrize(
    ("caps", "reached", "listed", "truncated"),
    [
        ({}, 100, 100, True),
        ({"entities_max": 200, "paths_max": 200}, 200, 200, False),
        ({"entities_max": 199, "paths_max": 200}, 199, 199, True),
        ({"entities_max": 200, "paths_max": 199}, 200, 199, True),
    ],
)
def test_a_walk_stops_at_its_caps_and_says_so(
    star: LoggedState, caps: dict[str, int], reached: int, listed: int, truncated: bool
) -> None:
    found = walked(star, "hub", hops=1, **caps)
    assert (len(found.nodes), len(found.paths), found.truncated) == (reached, listed, truncated)


def test_a_dense_graph_does_not_make_a_walk_hold_its_breath() -> None:
    logged = LoggedState()
    names = [f"n{number}" for number in range(12)]
    for name in names:
        logged.node(name)
    for source in names:
        for target in names:
            if source != target:
                logged.edge(source, "r", target)
    answer = logged.state.walk(Walk(start="n0", hops=6, paths_max=10**6))
    breaths = sum(1 for _ in zip(range(100), answer, strict=False))
    assert breaths == 100
    answer.close()


def test_all_that_a_walk_reads_is_told_before_it_is_read() -> None:
    logged = LoggedState()
    for name in "abc":
        logged.node(name)
    logged.edge("a", "knows", "b")
    logged.edge("b", "knows", "c")
    told: list[int] = []
    logged.state.expects(told.extend)
    walked(logged, "a", hops=2)
    # All but the start, which is not shown.
    assert sorted(told) == sorted(logged.offsets[1:])
