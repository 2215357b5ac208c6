"""Paths between two nodes. That they are right at every moment of any story is a law of its own (tests/laws)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.state import Walk, Walked, paths_between
from tallystick.system.turns import finished
from tests.state.logged_state import LoggedState
from tests.state.naive_graph import NaiveGraph

NAMES = "abcdefg"
EDGES = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), unique=True, max_size=24)


def graph_of(edges: list[tuple[str, str]], rel: str = "r") -> LoggedState:
    logged = LoggedState()
    for name in dict.fromkeys(name for edge in edges for name in edge):
        logged.node(name)
    for source, target in edges:
        logged.edge(source, rel, target)
    return logged


def between(logged: LoggedState, start: str, target: str, **asked: Any) -> Walked:
    return finished(logged.state.walk(Walk(start=start, target=target, **asked)))


def shortest(logged: LoggedState, start: str, target: str, **asked: Any) -> Walked:
    return between(logged, start, target, **{"hops": 100, "shortest": True} | asked)


def paths(found: Walked) -> list[str]:
    return [" ".join(path.ids) for path in found.paths]


def test_every_shortest_path_is_found_and_what_lies_on_them_nearest_first() -> None:
    logged = graph_of([("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "e"), ("a", "f"), ("f", "g"), ("g", "e")])
    found = shortest(logged, "a", "e")
    assert sorted(paths(found)) == ["a b d e", "a c d e", "a f g e"]
    assert [node.id for node in found.nodes] == ["b", "c", "f", "d", "g", "e"]
    assert not found.truncated


def test_the_direction_decides_which_way_edges_are_taken() -> None:
    logged = graph_of([("a", "b"), ("c", "b")])
    assert paths(shortest(logged, "a", "c")) == []
    assert paths(shortest(logged, "a", "c", direction="both")) == ["a b c"]
    assert paths(shortest(logged, "b", "a", direction="in")) == ["b a"]
    assert paths(shortest(logged, "b", "a", direction="out")) == []


def test_common_neighbours_are_found_although_the_two_are_linked_themselves() -> None:
    logged = graph_of([("a", "z"), ("b", "z"), ("a", "b"), ("a", "y"), ("y", "b")])
    found = between(logged, "a", "b", hops=2, direction="both")
    assert sorted(paths(found)) == ["a y b", "a z b"]


@pytest.mark.parametrize("asked", [{"shortest": True, "hops": 100}, {"hops": 2}])
@pytest.mark.parametrize(("start", "target"), [("a", "nowhere"), ("nowhere", "a"), ("a", "a"), ("a", "b")])
def test_where_nothing_joins_them_there_is_no_path(asked: dict[str, Any], start: str, target: str) -> None:
    logged = graph_of([("a", "c"), ("b", "c"), ("a", "a")])
    found = between(logged, start, target, **asked)
    assert (found.nodes, found.paths, found.truncated) == ([], [], False)


@pytest.mark.parametrize("asked", [{"shortest": True, "hops": 100}, {"hops": 2}])
def test_more_paths_than_are_listed_are_said_to_be_there(asked: dict[str, Any]) -> None:
    logged = graph_of([(end, f"m{number}") for number in range(12) for end in "ab"])
    found = between(logged, "a", "b", direction="both", paths_max=10, **asked)
    assert (len(found.paths), found.truncated) == (10, True)
    found = between(logged, "a", "b", direction="both", paths_max=12, **asked)
    assert (len(found.paths), found.truncated) == (12, False)


@pytest.mark.parametrize("asked", [{"shortest": True, "hops": 100}, {"hops": 3}])
def test_a_search_that_looks_at_too_many_edges_gives_up_and_says_so(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    logged = graph_of([(end, f"{end}{number}") for number in range(30) for end in "ab"])
    monkeypatch.setattr(paths_between, "LOOKED_MAX", 20)
    found = between(logged, "a", "b", **asked)
    assert (found.paths, found.truncated) == ([], True)


def test_between_two_hubs_only_their_own_edges_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    spokes = [(hub, f"{hub}{number}") for number in range(300) for hub in "ab"]
    onward = [(f"a{number}", f"x{number}") for number in range(300)]
    logged = graph_of([*spokes, *onward, ("a", "m"), ("m", "b")])
    monkeypatch.setattr(paths_between, "LOOKED_MAX", 2 * 301 + 1)
    assert paths(shortest(logged, "a", "b", direction="both")) == ["a m b"]


@given(EDGES, st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from(["out", "in", "both"]), st.integers(1, 5))
def test_they_are_the_shortest_of_all_and_all_of_that_length(
    edges: list[tuple[str, str]], start: str, target: str, direction: str, hops: int
) -> None:
    logged = graph_of(edges)
    every = NaiveGraph(logged, logged.state.count).paths(
        Walk(start=start, hops=len(NAMES), min_hops=1, direction=direction)  # type: ignore[arg-type]
    )
    ending = [nodes for nodes, _ in every if nodes[-1] == target]
    least = min(map(len, ending), default=0)
    caps = {"paths_max": 10_000, "direction": direction}
    found = shortest(logged, start, target, **caps)
    assert sorted(path.ids for path in found.paths) == sorted(nodes for nodes in ending if len(nodes) == least)
    found = between(logged, start, target, hops=hops, min_hops=2, **caps)
    assert sorted(path.ids for path in found.paths) == sorted(nodes for nodes in ending if 2 < len(nodes) <= hops + 1)
