"""The work graph: it follows from the nodes and edges as they stand, whatever hand wrote them in whatever order."""

from __future__ import annotations

import gc
import itertools
import random
import weakref
from typing import Any

import pytest

from tallystick.commits import Verb
from tallystick.commits.mask import REDACTED
from tallystick.state.derived_index import EdgeVersion, NodeVersion
from tallystick.state.work import NODE, PROJECT, cycles
from tallystick.state.work.attributes import priority_of
from tallystick.state.work.cycles import find_way
from tallystick.state.work.draft_builder import DraftBuilder
from tallystick.state.work.graph import WorkGraph
from tests.state.logged_state import LoggedState
from tests.state.work_dump import dump_state


def project(number: int = 1, name: str = "p", root: str = "root") -> NodeVersion:
    return NodeVersion(f"project-{number}", PROJECT, {"name": name, "root": root}, number, number)


def node(node_id: str, number: int, parent: str | None = "root", updated: int = 0, **attrs: Any) -> NodeVersion:
    said = {"project": "project-1", "parent": parent, "summary": node_id, "resolved": False, **attrs}
    return NodeVersion(node_id, NODE, said, number, updated or number)


def waits(source: str, target: str, number: int = 0, edge_id: str | None = None) -> EdgeVersion:
    return EdgeVersion(edge_id or f"{source}|depends_on|{target}", source, "depends_on", target, number)


def told(*changes: NodeVersion | EdgeVersion) -> WorkGraph:
    graph = WorkGraph()
    for change in changes:
        tell(graph, None, change)
    return graph


def tell(graph: WorkGraph, before: Any, after: Any) -> None:
    if isinstance(before or after, NodeVersion):
        graph.node_changed(before, after)
    else:
        graph.edge_changed(before, after)


def actionable(graph: WorkGraph) -> list[str]:
    return [graph.by_number[rank[-1]].id for rank in graph.boards["project-1"].ranked]


TOLD: tuple[NodeVersion | EdgeVersion, ...] = (
    project(),
    node("root", 2, None),
    node("a", 3),
    node("b", 4, "a"),
    waits("a", "c"),
    node("c", 5),
    waits("c", "b"),
)


def test_a_graph_that_nobody_uses_any_more_goes_without_a_collector() -> None:
    gc.disable()
    try:
        graph = told(*TOLD)
        board = graph.boards["project-1"]
        assert board.below(graph.rows["root"])
        seen = weakref.ref(board)
        del graph, board
        assert seen() is None
    finally:
        gc.enable()


def test_every_order_of_telling_ends_in_the_same_graph() -> None:
    expected = dump_state(told(*TOLD))
    for order in itertools.permutations(TOLD):
        assert dump_state(told(*order)) == expected


def test_taking_everything_back_leaves_nothing() -> None:
    for seed in range(20):
        graph = told(*TOLD)
        back = list(TOLD)
        random.Random(seed).shuffle(back)
        for change in back:
            tell(graph, change, None)
        assert dump_state(graph) == dump_state(WorkGraph())


def test_a_node_waits_for_each_edge_even_between_the_same_two() -> None:
    graph = told(project(), node("a", 2), node("b", 3), waits("a", "b"), waits("a", "b", edge_id="second"))
    assert actionable(graph) == ["b"]
    graph.edge_changed(waits("a", "b"), None)
    assert actionable(graph) == ["b"]
    graph.edge_changed(waits("a", "b", edge_id="second"), None)
    assert actionable(graph) == ["a", "b"]


def test_other_relations_and_an_edge_written_again_change_nothing() -> None:
    graph = told(project(), node("a", 2), node("b", 3), waits("a", "b"))
    before = dump_state(graph)
    graph.edge_changed(None, EdgeVersion("x", "b", "relates_to", "a", 9))
    graph.edge_changed(waits("a", "b", 4), waits("a", "b", 9))
    assert dump_state(graph) == before


def test_depending_on_what_is_no_work_blocks_nothing() -> None:
    graph = told(project(), node("a", 2), waits("a", "a note of memory"))
    assert actionable(graph) == ["a"]
    assert graph.find("a note of memory") is None


def test_a_ring_made_by_a_foreign_hand_hangs_nobody() -> None:
    graph = told(project(), node("a", 2, "c"), node("b", 3, "a"), node("c", 4, "b"), waits("a", "b"), waits("b", "a"))
    row = graph.rows["a"]
    assert len(list(row.below())) <= 3
    assert len(list(row.above())) <= row.depth
    assert find_way(graph, row, graph.rows["b"]) is not None
    assert find_way(graph, graph.rows["c"], row) is None
    for change in (node("a", 2, "c"), node("b", 3, "a"), node("c", 4, "b")):
        graph.node_changed(change, None)


def test_a_node_that_no_longer_says_its_project_is_none() -> None:
    graph = told(*TOLD)
    redacted = NodeVersion("b", NODE, dict.fromkeys(("project", "parent", "summary", "resolved"), None), 4, 9)
    graph.node_changed(node("b", 4, "a"), redacted)
    assert graph.find("b") is None
    assert actionable(graph) == ["c"]


def test_a_node_whose_project_was_redacted_holds_nobody_up() -> None:
    redacted = node("b", 4, REDACTED, project=REDACTED, summary=REDACTED, resolved=REDACTED)
    changes: tuple[NodeVersion | EdgeVersion, ...] = (
        project(),
        node("a", 3),
        redacted,
        waits("a", "b"),
        node("c", 5, "b"),
        waits("c", "a"),
    )
    expected = dump_state(told(*changes))
    for order in itertools.permutations(changes):
        graph = told(*order)
        assert dump_state(graph) == expected
        assert (actionable(graph), graph.rows["b"].open, graph.rows["b"].belongs) == (["a"], False, False)
        for change in reversed(order):
            tell(graph, change, None)
        assert dump_state(graph) == dump_state(WorkGraph())


def test_a_node_that_is_given_a_project_again_holds_others_up_again() -> None:
    redacted = node("b", 4, None, project=REDACTED)
    graph = told(project(), node("a", 3), redacted, waits("a", "b"))
    graph.node_changed(redacted, node("b", 4, updated=9))
    assert actionable(graph) == ["b"]


@pytest.mark.parametrize("attrs", [{"properties": "[REDACTED]"}, {"evidence": "[REDACTED]"}, {"context_links": 5}])
def test_nonsense_counts_as_not_said(attrs: dict[str, Any]) -> None:
    assert dump_state(told(project(), node("a", 2, **attrs))) == dump_state(told(project(), node("a", 2)))


def test_two_projects_of_one_name_are_told_by_their_age() -> None:
    graph = told(project(7, "p", "younger"), project(1, "p", "root"))
    found = graph.project("p")
    assert found is not None
    assert found.id == "project-1"
    graph.node_changed(project(1, "p", "root"), None)
    found = graph.project("p")
    assert found is not None
    assert found.id == "project-7"


def test_a_renamed_project_is_found_by_its_new_name_only() -> None:
    graph = told(project())
    graph.node_changed(project(), project(1, "q"))
    assert (graph.project("p"), [board.name for board in graph.projects()]) == (None, ["q"])


@pytest.mark.parametrize(
    ("said", "priority"),
    [
        (None, 0), (3, 3), (-1.5, -1.5), ("4", 4), (" 2.5 ", 2.5), ("1e3", 1000), ("high", 0), ("", 0), ("nan", 0),
        ("inf", 0), (True, 0), ([1], 0), ({"x": 1}, 0), ("1e999", 0),
    ],
)  # fmt: skip
def test_a_priority_is_a_number_or_nothing(said: Any, priority: float) -> None:
    assert priority_of(said) == priority


# -- ways


def reaches(edges: set[tuple[int, int]], start: int, goal: int) -> bool:
    seen, waiting = {start}, [start]
    while waiting:
        here = waiting.pop()
        if here == goal:
            return True
        for source, target in edges:
            if source == here and target not in seen:
                seen.add(target)
                waiting.append(target)
    return False


@pytest.mark.parametrize("lifts", [1_024, 2])
@pytest.mark.parametrize("patience", [2_000, 1])
def test_a_way_is_found_exactly_when_there_is_one(monkeypatch: pytest.MonkeyPatch, lifts: int, patience: int) -> None:
    """With levels and without, through searches that are short and searches that give up."""
    monkeypatch.setattr(cycles, "_LIFTS_MAX", lifts)
    monkeypatch.setattr(cycles, "_PATIENCE", patience)
    for seed in range(30):
        chance = random.Random(seed)
        graph = told(project(), *(node(str(number), number + 2) for number in range(12)))
        edges: set[tuple[int, int]] = set()
        for _ in range(40):
            source, target = chance.randrange(12), chance.randrange(12)
            way = find_way(graph, graph.rows[str(target)], graph.rows[str(source)])
            assert (way is not None) == reaches(edges, target, source)
            if way is not None:
                names = [int(row.id) for row in way]
                assert (names[0], names[-1]) == (target, source)
                assert all(step in edges for step in itertools.pairwise(names))
            elif (source, target) not in edges:
                edges.add((source, target))
                graph.edge_changed(None, waits(str(source), str(target)))
            if edges and chance.random() < 0.2:
                gone = chance.choice(sorted(edges))
                edges.remove(gone)
                graph.edge_changed(waits(str(gone[0]), str(gone[1])), None)


def test_a_long_line_costs_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Levels answer: what is below cannot lead above."""
    graph = told(project(), node("0", 2))
    for number in range(1, 3_000):
        tell(graph, None, node(str(number), number + 2))
        tell(graph, None, waits(str(number), str(number - 1)))
    monkeypatch.setattr(cycles, "_search", lambda *_: pytest.fail("it searched"))
    assert find_way(graph, graph.rows["1500"], graph.rows["1502"]) is None


def test_levels_that_could_not_be_kept_are_put_right_by_the_first_long_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each new dependency lies under all the earlier ones, so every one would raise them all."""
    monkeypatch.setattr(cycles, "_LIFTS_MAX", 50)
    monkeypatch.setattr(cycles, "_PATIENCE", 50)
    count = 400
    graph = told(project(), *(node(str(number), number + 2) for number in range(count)))
    for number in range(1, count):
        tell(graph, None, waits(str(number - 1), str(number)))
    levels = [graph.leveled]
    assert find_way(graph, graph.rows["250"], graph.rows["150"]) is None
    levels.append(graph.leveled)
    assert levels == [False, True]
    way = find_way(graph, graph.rows["150"], graph.rows["250"])
    assert way is not None
    assert len(way) == 101


# -- sketches


def put(logged: LoggedState, version: NodeVersion) -> None:
    logged.write(Verb.UPSERT_NODE, {"id": version.id, "type": version.type, "attrs": version.attrs})


def test_a_sketch_tells_what_would_become_actionable_and_leaves_everything_as_it_was() -> None:
    logged = LoggedState()
    for version in (project(), node("root", 2, None), node("a", 3), node("b", 4)):
        put(logged, version)
    logged.edge("b", "depends_on", "a")
    graph = logged.state.derived(WorkGraph)
    before = dump_state(graph)
    with DraftBuilder(logged.state) as builder:
        builder.revise("a", resolved=True)
        builder.put("new", node("new", 0).attrs)
        builder.link({"from": "new", "rel": "depends_on", "to": "b"})
        assert [row.id for row in builder.newly_actionable()] == ["b"]
        assert graph.rows["new"].created == logged.state.count + 2
        assert dump_state(graph) != before
    assert dump_state(graph) == before


def test_a_sketch_that_fails_half_way_leaves_everything_as_it_was() -> None:
    logged = LoggedState()
    for version in (project(), node("root", 2, None), node("a", 3)):
        put(logged, version)
    graph = logged.state.derived(WorkGraph)
    before = dump_state(graph)

    def fail() -> None:
        with DraftBuilder(logged.state) as builder:
            builder.revise("a", resolved=True)
            builder.revise("nobody", resolved=True)

    with pytest.raises(KeyError):
        fail()
    assert dump_state(graph) == before


def test_what_is_sketched_is_what_the_commits_make_of_it() -> None:
    logged = LoggedState()
    for version in (project(), node("root", 2, None), node("a", 3), node("b", 4, "a")):
        put(logged, version)
    graph = logged.state.derived(WorkGraph)
    with DraftBuilder(logged.state) as builder:
        builder.revise("b", parent="root", properties={"priority": 3})
        builder.put("c", node("c", 0, "b").attrs)
        builder.link({"from": "a", "rel": "depends_on", "to": "c"})
        expected = dump_state(graph)
    for operation in builder.operations:
        logged.write(operation.verb, operation.payload)
    assert dump_state(graph) == expected
