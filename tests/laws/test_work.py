"""Laws of the work graph: what is kept up to date is what a slow and simple reader would find, forwards and back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.commits import chain
from tallystick.log import Head
from tallystick.state.state import State
from tallystick.state.work import cycles
from tallystick.state.work.graph import WorkGraph
from tests.promises import promise
from tests.state.work_dump import dump_state
from tests.toolsets.work.agents import WorkAgent

# -- what agents may do: numbers stand for nodes that are there, modulo how many

NUMBERS = st.integers(0, 11)
PRIORITIES = st.sampled_from([None, 1, 1, 5, "7", "high", -2.5, True])


PLANS = st.lists(
    st.fixed_dictionaries(
        {
            "parent": st.one_of(st.none(), st.tuples(st.booleans(), NUMBERS)),
            "depends_on": st.lists(st.tuples(st.booleans(), NUMBERS), max_size=3),
            "priority": PRIORITIES,
        }
    ),
    min_size=1,
    max_size=5,
)
STEPS = st.one_of(
    st.tuples(st.just("plan"), PLANS),
    st.tuples(st.just("resolve"), st.lists(NUMBERS, min_size=1, max_size=3)),
    st.tuples(st.just("reopen"), NUMBERS),
    st.tuples(st.just("prioritise"), st.tuples(NUMBERS, PRIORITIES)),
    st.tuples(st.just("connect"), st.lists(st.tuples(NUMBERS, NUMBERS, st.booleans()), min_size=1, max_size=4)),
    st.tuples(st.just("move"), st.tuples(NUMBERS, NUMBERS)),
    st.tuples(st.just("merge"), st.tuples(NUMBERS, NUMBERS)),
    st.tuples(st.just("drop"), NUMBERS),
    st.tuples(st.just("claim"), st.integers(1, 3)),
)
STORIES = st.lists(STEPS, min_size=1, max_size=12)


class Story:
    """Tells steps to the tools, and keeps what a reader of the graph would say before and after each."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self.agent = WorkAgent(runner)
        self.root = self.agent.open("p")

    def tell(self, kind: str, asked: Any) -> None:
        before = Reader(self.state)
        told = getattr(self, f"_{kind}")(asked, before)
        after = Reader(self.state)
        if told is not None and "newly_actionable" in told:
            newly = [node["id"] for node in told["newly_actionable"]]
            assert newly == [each for each in after.actionable() if each not in before.actionable()]
        elif kind != "plan":
            assert set(after.actionable()) <= set(before.actionable()), "something became actionable unsaid"

    @property
    def state(self) -> State:
        return self.agent.partition._state

    def _node(self, number: int, before: Reader) -> str:
        there = sorted(before.nodes, key=lambda node_id: before.created[node_id])
        return there[number % len(there)]

    def _plan(self, asked: list[dict[str, Any]], before: Reader) -> dict[str, Any] | None:
        def named(reference: tuple[bool, int]) -> str:
            new, number = reference
            return f"r{number % len(asked)}" if new else self._node(number, before)

        nodes = []
        for number, each in enumerate(asked):
            node: dict[str, Any] = {"ref": f"r{number}", "summary": f"node {number}"}
            if each["parent"] is not None:
                node["parent_ref"] = named(each["parent"])
            node["depends_on"] = [named(reference) for reference in each["depends_on"]]
            node["properties"] = {"priority": each["priority"]}
            nodes.append(node)
        parents = {node["ref"]: {node["parent_ref"]} for node in nodes if "parent_ref" in node}
        waits = {node["ref"]: set(node["depends_on"]) for node in nodes}
        possible = not has_cycle(parents) and not has_cycle(waits)
        return self._attempt(possible, "cycle_detected", "graph_plan", nodes=nodes)

    def _resolve(self, asked: list[int], before: Reader) -> dict[str, Any] | None:
        updates = [{"node_id": self._node(number, before), "resolved": True} for number in asked]
        return self.agent.call("graph_update", updates=updates)

    def _reopen(self, asked: int, before: Reader) -> dict[str, Any] | None:
        return self.agent.update(self._node(asked, before), resolved=False)

    def _prioritise(self, asked: tuple[int, Any], before: Reader) -> dict[str, Any] | None:
        return self.agent.update(self._node(asked[0], before), properties={"priority": asked[1]})

    def _connect(self, asked: list[tuple[int, int, bool]], before: Reader) -> dict[str, Any] | None:
        """Every edge is judged where the ones before it lead."""
        waits = {node_id: set(targets) for node_id, targets in before.waits.items()}
        edges, expected = [], []
        for source_number, target_number, remove in asked:
            source, target = self._node(source_number, before), self._node(target_number, before)
            edges.append({"from": source, "to": target, "type": "depends_on", "remove": remove})
            if remove:
                reason = None if target in waits[source] else "edge_not_found"
                waits[source].discard(target)
            elif target in waits[source]:
                reason = "duplicate_edge"
            elif has_cycle(waits | {source: waits[source] | {target}}):
                reason = "cycle_detected"
            else:
                reason = None
                waits[source].add(target)
            if reason is not None:
                expected.append((source, target, reason))
        told = self.agent.call("graph_connect", edges=edges)
        assert [(each["from"], each["to"], each["reason"]) for each in told.get("rejected", [])] == expected
        assert told["applied"] == len(edges) - len(expected)
        assert Reader(self.state).waits == waits
        return told

    def _move(self, asked: tuple[int, int], before: Reader) -> dict[str, Any] | None:
        node_id, parent = (self._node(number, before) for number in asked)
        possible = node_id not in (parent, *before.above(parent)) and node_id != self.root
        code = "validation_error" if node_id == self.root else "cycle_detected"
        move = {"op": "move", "node_id": node_id, "new_parent": parent}
        return self._attempt(possible, code, "graph_restructure", operations=[move])

    def _merge(self, asked: tuple[int, int], before: Reader) -> dict[str, Any] | None:
        source, target = (self._node(number, before) for number in asked)
        merge = {"op": "merge", "source": source, "target": target}
        if source == target or source == self.root:
            return self._attempt(False, "validation_error", "graph_restructure", operations=[merge])
        united = {
            target if node_id == source else node_id: {target if each == source else each for each in targets}
            for node_id, targets in before.waits.items()
            if node_id not in (source, target)
        }
        united[target] = {each for each in before.waits[source] | before.waits[target] if each not in (source, target)}
        possible = source not in before.above(target) and not has_cycle(united)
        told = self._attempt(possible, "cycle_detected", "graph_restructure", operations=[merge])
        if told is not None:
            assert Reader(self.state).waits == united
        return told

    def _drop(self, asked: int, before: Reader) -> dict[str, Any] | None:
        node_id = self._node(asked, before)
        told = self.agent.restructure("drop", node_id=node_id, reason="not wanted")
        after = Reader(self.state)
        dropped = {each for each in before.nodes if each == node_id or node_id in before.above(each)}
        assert {each for each in after.nodes if after.nodes[each]["resolved"]} == dropped | {
            each for each in before.nodes if before.nodes[each]["resolved"]
        }
        return told

    def _claim(self, asked: int, before: Reader) -> dict[str, Any] | None:
        told = self.agent.call("graph_next", project="p", count=asked, claim=True)
        assert [each["node"]["id"] for each in told["nodes"]] == before.actionable()[:asked]
        return None

    def _attempt(self, possible: bool, code: str, tool: str, **arguments: Any) -> dict[str, Any] | None:
        if possible:
            return self.agent.call(tool, **arguments)
        assert self.agent.refusal(tool, **arguments)["error"] == code
        return None


class Reader:
    """Reads every document and every edge, and works everything out from the definitions."""

    def __init__(self, state: State) -> None:
        graph = state.derived(WorkGraph)
        self.nodes: dict[str, dict[str, Any]] = {}
        self.updated: dict[str, int] = {}
        self.created: dict[str, int] = {}
        self.waits: dict[str, set[str]] = {}
        for node_id in graph.rows:
            node = state.node(node_id)
            assert node is not None, "a row stands for a node that is not there"
            self.nodes[node_id] = node.attrs
            self.updated[node_id] = node.provenance.lamport
            found = state.lineage(node_id, "direct", 0, 1)
            assert found is not None
            self.created[node_id] = found.steps[0].commit.lamport
            self.waits[node_id] = {edge.target for edge in state.edges(node_id, "out") if edge.rel == "depends_on"}

    def above(self, node_id: str) -> list[str]:
        found = []
        while (parent := self.nodes[node_id]["parent"]) is not None:
            found.append(parent)
            node_id = parent
        return found

    def actionable(self) -> list[str]:
        busy = {each["parent"] for each in self.nodes.values() if not each["resolved"]}
        ready = [
            node_id
            for node_id, attrs in self.nodes.items()
            if not attrs["resolved"] and node_id not in busy and not self._is_blocked(node_id)
        ]
        return sorted(ready, key=self._rank)

    def blocked(self) -> set[str]:
        return {each for each in self.nodes if not self.nodes[each]["resolved"] and self._is_blocked(each)}

    def _is_blocked(self, node_id: str) -> bool:
        return any(not self.nodes[target]["resolved"] for target in self.waits[node_id])

    def _rank(self, node_id: str) -> tuple[float, int, int, int]:
        said = self.nodes[node_id].get("properties", {}).get("priority")
        priority = 7.0 if said == "7" else 0.0 if said in (None, "high") or said is True else float(said)
        return -priority, -len(self.above(node_id)), self.updated[node_id], self.created[node_id]


def has_cycle(edges: dict[str, set[str]]) -> bool:
    def leads_to(node: str, goal: str, seen: set[str]) -> bool:
        for each in edges.get(node, ()):
            if each == goal:
                return True
            if each not in seen:
                seen.add(each)
                if leads_to(each, goal, seen):
                    return True
        return False

    return any(leads_to(node, node, set()) for node in edges)


# -- the laws


@promise("work, readiness", "readiness, ranking, cycles and what becomes actionable are as defined, for any story")
@given(STORIES)
@settings(max_examples=60)
def test_readiness_ranking_and_what_becomes_actionable_are_what_a_simple_reader_finds(story: list[Any]) -> None:
    with asyncio.Runner() as runner:
        told = Story(runner)
        for kind, asked in story:
            told.tell(kind, asked)
            check(told.state)


def check(state: State) -> None:
    reader, graph = Reader(state), state.derived(WorkGraph)
    (board,) = graph.projects()
    assert [graph.by_number[rank[-1]].id for rank in board.ranked] == reader.actionable()
    assert {graph.by_number[number].id for number in board.blocked} == reader.blocked()
    assert {node_id: row.depth for node_id, row in graph.rows.items()} == {
        node_id: len(reader.above(node_id)) for node_id in reader.nodes
    }
    assert len(board.members) == len(reader.nodes)
    assert len(board.resolved) == sum(attrs["resolved"] for attrs in reader.nodes.values())


@promise("work, undo", "the work graph goes back and forth exactly")
@given(STORIES, st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=6))
@settings(max_examples=40)
def test_going_back_and_forth_ends_where_building_anew_does(story: list[Any], turns: list[tuple[int, int]]) -> None:
    with asyncio.Runner() as runner:
        told = Story(runner)
        for kind, asked in story:
            told.tell(kind, asked)
        entries = list(told.agent.log.read(Head()))
    lines = {entry.offset: entry.line for entry in entries}
    moving = State(lambda offset, checked=True: lines[offset])
    graph = moving.derived(WorkGraph)
    for back, forth in [*turns, (0, len(entries))]:
        moving.undo(min(back, moving.count))
        for entry in entries[moving.count : moving.count + forth]:
            moving.apply(chain.decode(entry.line), entry.offset, entry.end)
        fresh = State(lambda offset, checked=True: lines[offset])
        for entry in entries[: moving.count]:
            fresh.apply(chain.decode(entry.line), entry.offset, entry.end)
        assert dump_state(graph) == dump_state(fresh.derived(WorkGraph))


@given(STORIES, STORIES)
@settings(max_examples=40)
def test_a_graph_that_was_stored_goes_on_as_one_that_was_built(story: list[Any], then: list[Any]) -> None:
    with asyncio.Runner() as runner:
        told = Story(runner)
        for kind, asked in story:
            told.tell(kind, asked)
        told.state.derived(WorkGraph)
        stored = dict(told.state.dump_indexes())
        for kind, asked in then:
            told.tell(kind, asked)
        entries = list(told.agent.log.read(Head()))
    lines = {entry.offset: entry.line for entry in entries}
    started = State(lambda offset, checked=True: lines[offset])
    for entry in entries:
        started.apply(chain.decode(entry.line), entry.offset, entry.end)
    started.finds_stored(stored.get)
    assert dump_state(started.derived(WorkGraph)) == dump_state(told.state.derived(WorkGraph))
    check(started)


@given(STORIES)
@settings(max_examples=30)
def test_cycles_are_found_whether_levels_help_or_not(story: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner() as runner:
        patch.setattr(cycles, "_LIFTS_MAX", 1)
        patch.setattr(cycles, "_PATIENCE", 1)
        told = Story(runner)
        for kind, asked in story:
            told.tell(kind, asked)
