"""An aspect that was kept up to date is what it would be if it were built now."""

from __future__ import annotations

from typing import ClassVar
from unittest.mock import patch

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tallystick.state import Breathing
from tallystick.state.derived_index import EdgeVersion, NodeVersion
from tests.laws.test_replay import STORIES, Step, written
from tests.state.logged_state import LoggedState


class CheckedIndex:
    """Remembers what it was told, and objects when it is told twice or out of order."""

    types: ClassVar[frozenset[str]] = frozenset({"note"})

    def __init__(self) -> None:
        self.nodes: dict[str, NodeVersion] = {}
        self.edges: dict[str, EdgeVersion] = {}

    def node_changed(self, before: NodeVersion | None, after: NodeVersion | None) -> None:
        named = after or before
        assert named is not None
        assert self.nodes.pop(named.id, None) == before
        if after is not None:
            self.nodes[after.id] = after

    def edge_changed(self, before: EdgeVersion | None, after: EdgeVersion | None) -> None:
        named = after or before
        assert named is not None
        assert self.edges.pop(named.id, None) == before
        if after is not None:
            self.edges[after.id] = after


def dump_state(mirror: CheckedIndex) -> tuple[dict[str, NodeVersion], dict[str, EdgeVersion]]:
    return mirror.nodes, mirror.edges


@given(STORIES, STORIES, st.data())
def test_an_aspect_kept_up_to_date_equals_one_built_now(
    first: list[Step], then: list[Step], data: st.DataObject
) -> None:
    logged = written(first)
    logged.state.derived(CheckedIndex)
    for step in then:
        step(logged)
        assert dump_state(logged.state.derived(CheckedIndex)) == dump_state(logged.replayed().derived(CheckedIndex))
    logged.undo(data.draw(st.integers(0, logged.state.count)))
    assert dump_state(logged.state.derived(CheckedIndex)) == dump_state(logged.replayed().derived(CheckedIndex))


@given(STORIES, STORIES, st.data())
def test_an_aspect_built_in_slices_while_others_write_equals_one_built_now(
    first: list[Step], then: list[Step], data: st.DataObject
) -> None:
    logged = written(first)
    with patch("tallystick.state.derived_index._SLICE", 1):
        slices = logged.state.warmed(CheckedIndex)
        for step in then:
            for _ in range(data.draw(st.integers(0, 3))):
                next(slices, None)
            step(logged)
        logged.undo(data.draw(st.sampled_from((0, 0, min(1, logged.state.count)))))
        if data.draw(st.booleans()):
            for _ in slices:
                pass
    assert dump_state(logged.state.derived(CheckedIndex)) == dump_state(logged.replayed().derived(CheckedIndex))


class StoredIndex(CheckedIndex):
    stored_as: ClassVar[str] = "checked-1"

    def dump(self) -> bytes:
        return msgspec.msgpack.encode((self.nodes, self.edges))

    def load(self, content: memoryview) -> Breathing[None]:
        yield
        self.nodes, self.edges = msgspec.msgpack.decode(
            content, type=tuple[dict[str, NodeVersion], dict[str, EdgeVersion]]
        )


@given(STORIES, STORIES, st.data())
def test_an_aspect_that_was_stored_and_brought_up_to_date_equals_one_built_now(
    first: list[Step], then: list[Step], data: st.DataObject
) -> None:
    """Whatever came since: redactions, other types, and a log that went another way."""
    logged = written(first)
    logged.state.derived(StoredIndex)
    stored = dict(logged.state.dump_indexes())
    logged.undo(data.draw(st.integers(0, logged.state.count)))
    for step in then:
        step(logged)
    started = logged.replayed()
    started.finds_stored(stored.get)
    assert dump_state(started.derived(StoredIndex)) == dump_state(logged.replayed().derived(StoredIndex))


def test_what_was_made_again_since_it_was_stored_is_known_by_when_it_was_first_made() -> None:
    logged = LoggedState()
    logged.node("a")
    logged.node("a")
    logged.state.derived(StoredIndex)
    stored = dict(logged.state.dump_indexes())
    logged.delete("a")
    logged.node("a")
    started = logged.replayed()
    started.finds_stored(stored.get)
    assert started.derived(StoredIndex).nodes == {"a": NodeVersion("a", "note", {}, created=4, updated=4)}


def test_what_was_stored_before_something_was_redacted_is_not_used() -> None:
    logged = LoggedState()
    logged.node("a", secret=1)
    logged.state.derived(StoredIndex)
    stored = dict(logged.state.dump_indexes())
    logged.node("a")
    logged.scrub(logged.redact("a"))
    started = logged.replayed()
    started.finds_stored(stored.get)
    assert started.derived(StoredIndex).nodes == logged.replayed().derived(StoredIndex).nodes
