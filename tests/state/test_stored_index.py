"""What was stored of a derived index is used when it is whole, of this log and of this format; else it is built."""

from __future__ import annotations

from collections import deque
from hashlib import sha256
from itertools import islice
from typing import Any

import pytest

from tallystick.extensions.tasks.cards import TaskCards
from tallystick.state.derived_index import DerivedIndex
from tallystick.state.knowledge import ATOM, CHANGELOG, MOLECULE
from tallystick.state.knowledge.catalogue import Knowledge
from tallystick.state.state import State
from tallystick.state.stored_index import unpack
from tallystick.state.work import DEPENDS_ON, NODE, PROJECT
from tallystick.state.work.graph import WorkGraph
from tallystick.state.work.sections import SECTION, Sections
from tests.state.logged_state import LoggedState
from tests.state.work_dump import dump_state

KINDS: tuple[type[DerivedIndex], ...] = WorkGraph, TaskCards, Sections, Knowledge


def written() -> LoggedState:
    logged = LoggedState()
    logged.node("p", PROJECT, name="Harbour", root="r", task={"tags": ["sea"]})
    logged.node("r", NODE, project="p", summary="All of it")
    properties: dict[str, Any] = {"priority": 2.5, "area": "quay", "deep": True, "size": 3, "list": [1]}
    logged.node("a", NODE, project="p", parent="r", summary="Dredge", properties=properties, context_links=["x.md"])
    logged.node("b", NODE, project="p", parent="r", summary="Build", resolved=True, evidence=[{"type": "git"}])
    logged.node("c", NODE, project="p", parent="gone", task={"kind": "feature", "tags": ["sea", "land"]})
    logged.edge("a", DEPENDS_ON, "b")
    logged.edge("c", DEPENDS_ON, "a")
    logged.node("s", SECTION, entityId="a", ordinal=2)
    logged.node("m", MOLECULE, projectId="p", name="Quays")
    paths = ["src/**/*.ts", "a?c/[a-z]*/{x,y}-*.md", "*", "docs/[!x]*.md"]
    logged.node("k", ATOM, projectId="p", name="Walls", paths=paths, moleculeId="m", pin={})
    logged.node("l", CHANGELOG, parentType="atom", parentId="k", summary="made")
    return logged


def stored_of(state: State) -> dict[str, bytes]:
    for kind in KINDS:
        state.derived(kind)
    return dict(state.dump_indexes())


def started(logged: LoggedState, stored: dict[str, bytes]) -> State:
    state = logged.replayed()
    state.finds_stored(stored.get)
    return state


def plain(index: Any) -> Any:
    if isinstance(index, WorkGraph):
        return dump_state(index)
    if isinstance(index, Knowledge):
        return index.molecules, index.atoms, index._members, index._entries, list(index._by_project)
    return vars(index)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stored_index_is_the_one_that_would_be_built(kind: type[DerivedIndex], monkeypatch: Any) -> None:
    logged = written()
    stored = stored_of(logged.state)
    state = started(logged, stored)
    with monkeypatch.context() as patch:
        patch.setattr(kind, "node_changed", None)
        loaded = state.derived(kind)
    assert plain(loaded) == plain(logged.replayed().derived(kind))


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallystick.state.stored_index.SLICE", 1)
    monkeypatch.setattr("tallystick.state.knowledge.index._PIECE_BYTES", 16)


@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("slices", range(0, 30, 3))
def test_what_is_written_between_two_slices_of_a_loading_is_in_the_index(kind: type[DerivedIndex], slices: int) -> None:
    logged = written()
    logged.state = started(logged, stored_of(logged.state))
    loading = logged.state.warmed(kind)
    deque(islice(loading, slices), 0)
    logged.node("d", NODE, project="p", parent="a", summary="Mark", task={"kind": "task"})
    logged.node("t", SECTION, entityId="a", ordinal=1)
    logged.node("n", ATOM, projectId="p", name="Buoys", paths=["src/*.py"])
    logged.delete("l")
    deque(loading, 0)
    assert plain(logged.state.derived(kind)) == plain(logged.replayed().derived(kind))


@pytest.mark.parametrize("kind", [WorkGraph, TaskCards, Knowledge])
def test_a_large_index_is_loaded_in_slices(kind: type[DerivedIndex], small_slices: None) -> None:
    logged = written()
    few = sum(1 for _ in started(logged, stored_of(logged.state)).warmed(kind))
    for number in range(20):
        logged.node(f"d{number}", NODE, project="p", parent="a", summary="Mark")
        logged.node(f"n{number}", ATOM, projectId="p", name="Buoys", paths=[f"src/*{number}.py"])
    many = sum(1 for _ in started(logged, stored_of(logged.state)).warmed(kind))
    assert many >= few + 20


@pytest.mark.usefixtures("small_slices")
def test_the_globs_of_stored_knowledge_match_as_before() -> None:
    logged = written()
    knowledge = started(logged, stored_of(logged.state)).derived(Knowledge)
    globs = knowledge.of_project("p").globs
    for path in ("src/a/b.ts", "abc/q1/y-2.md", "README", "docs/a.md"):
        assert globs.match(path.split("/")) == {"k"}, path
    for path in ("src/a/b.py", "docs/x.md", "abc/Q/y-2.md"):
        assert globs.match(path.split("/")) == set(), path


@pytest.mark.parametrize("kind", [WorkGraph, Knowledge])
def test_a_damaged_one_is_passed_over_whichever_byte_it_is(kind: Any) -> None:
    logged = written()
    stored = stored_of(logged.state)
    data, expected = stored[kind.stored_as], plain(logged.state.derived(kind))
    for at in range(0, len(data), 7):
        damaged = data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :]
        assert plain(started(logged, {kind.stored_as: damaged}).derived(kind)) == expected
    for size in (0, 5, 11, 12, 40, len(data) - 1):
        assert plain(started(logged, {kind.stored_as: data[:size]}).derived(kind)) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_whole_but_says_something_else_is_built_instead(kind: Any) -> None:
    logged = written()
    stored = stored_of(logged.state)
    expected = plain(logged.replayed().derived(kind))
    for other in stored.values():
        assert plain(started(logged, {kind.stored_as: other}).derived(kind)) == expected
    elsewhere = LoggedState()
    for number in range(20):
        elsewhere.node(f"n{number}", NODE, project="p")
    assert plain(started(logged, stored_of(elsewhere.state)).derived(kind)) == expected


def test_patterns_that_nest_too_deeply_are_not_stored_and_hold_nothing_else_up() -> None:
    logged = written()
    logged.node("deep", ATOM, projectId="p", name="Deep", paths=["/".join(["a*"] * 170)])
    assert {name for name, _ in logged.state.dump_indexes()} == set()
    assert set(stored_of(logged.state)) >= {WorkGraph.stored_as, TaskCards.stored_as, Sections.stored_as}
    assert "deep" in started(logged, stored_of(logged.state)).derived(Knowledge).atoms


def test_a_stored_index_says_what_it_said_when_its_format_was_named() -> None:
    """Whoever changes what is stored, or what is made of a node, gives it another name: the number at the end."""
    state = written().state
    for kind in KINDS:
        state.derived(kind)
    contents = {name: unpack(data)[1] for name, data in state.dump_indexes()}
    assert {name: sha256(content).hexdigest()[:16] for name, content in contents.items()} == {
        "work-5": "fa31678b7263bc7f",
        "cards-2": "0b2cc2b5e3535ef8",
        "sections-1": "996cd8ab4433a016",
        "knowledge-2": "b4654ceb3f3c3ce7",
    }
