"""The ontology as an aspect of the graph, and what it forbids in every draft."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.commits import Draft, Operation, Verb
from tallystick.errors import TallystickError
from tallystick.state.ontology import (
    ConnectionType,
    Ontology,
    check,
    define_connection_type,
    define_node_type,
    define_ontology,
)
from tests.promises import promise
from tests.state.logged_state import LoggedState

NEXT = ConnectionType("Next", ("Project",), ("Action",))
WAITS = ConnectionType("Waits", ("Action",), ("Person",), ("since",))
KINDS = ("Project", "Action", "Person")


@pytest.fixture
def logged() -> LoggedState:
    logged = LoggedState()
    for operation in (
        define_ontology(),
        *map(define_node_type, KINDS),
        *map(define_connection_type, (NEXT, WAITS)),
    ):
        logged.write(operation.verb, operation.payload)
    logged.node("p", "Project")
    logged.node("a", "Action")
    logged.node("h", "Person")
    logged.node("n", "note")
    return logged


def node(node_id: str, kind: str, **attrs: Any) -> Operation:
    return Operation(Verb.UPSERT_NODE, {"id": node_id, "type": kind, "attrs": attrs})


def edge(source: str, rel: str, target: str, *, id: str | None = None, **attrs: Any) -> Operation:
    payload = {"from": source, "rel": rel, "to": target, "attrs": attrs}
    return Operation(Verb.UPSERT_EDGE, payload if id is None else {**payload, "id": id})


def gone(**payload: str) -> Operation:
    verb = Verb.DELETE_NODE if "node_id" in payload else Verb.DELETE_EDGE
    return Operation(verb, {key.rstrip("_"): value for key, value in payload.items()})


def judge(logged: LoggedState, *operations: Operation) -> str | None:
    """The code of the refusal, None when there is none."""
    try:
        check(logged.state, Draft(operations, actor="ann", tool="test"))
    except TallystickError as error:
        return error.code
    return None


# -- the aspect


def test_definitions_are_known_in_the_order_they_were_made(logged: LoggedState) -> None:
    ontology = logged.state.derived(Ontology)
    assert ontology.exists
    assert ontology.node_types == list(KINDS)
    assert ontology.connection_types == [NEXT, WAITS]
    later = define_node_type("Boat")
    logged.write(later.verb, later.payload)
    assert ontology.node_types == [*KINDS, "Boat"]
    assert logged.replayed().derived(Ontology).node_types == ontology.node_types


def test_what_is_undone_is_not_defined(logged: LoggedState) -> None:
    ontology = logged.state.derived(Ontology)
    for operation in (define_node_type("Boat"), define_connection_type(ConnectionType("Owns", ("Person",), ("Boat",)))):
        logged.write(operation.verb, operation.payload)
    assert ontology.has_node_type("Boat")
    logged.undo(2)
    assert ontology.node_types == list(KINDS)
    assert ontology.find_connection_type("Owns") is None
    logged.undo(len(logged.commits))
    assert (ontology.exists, ontology.node_types, ontology.connection_types) == (False, [], [])


def test_a_foreign_log_with_odd_definitions_can_be_read() -> None:
    logged = LoggedState()
    ontology = logged.state.derived(Ontology)
    logged.node("x", "ontology/node_type")
    logged.node("y", "ontology/connection_type", name="R", from_types="A")
    logged.node("z", "ontology/node_type", name="Boat")
    assert (ontology.exists, ontology.node_types, ontology.connection_types) == (False, ["Boat"], [])
    logged.undo(3)
    assert ontology.node_types == []


# -- every draft

DRAFTS: dict[str, tuple[str | None, list[Operation]]] = {
    "a type that is not named may hold anything": (None, [node("x", "note", list=[1], none=None)]),
    "a named type holds strings, numbers and booleans": (None, [node("x", "Project", a="", b=1, c=0.5, d=True)]),
    "no list": ("INVALID_ARGUMENT", [node("x", "Project", a=[1])]),
    "no object": ("INVALID_ARGUMENT", [node("x", "Project", a={})]),
    "no null": ("INVALID_ARGUMENT", [node("x", "Project", a=None)]),
    "no NaN": ("INVALID_ARGUMENT", [node("x", "Project", a=float("nan"))]),
    "no huge integer": ("INVALID_ARGUMENT", [node("x", "Project", a=2**60)]),
    "an allowed connection": (None, [edge("p", "Next", "a", x=1)]),
    "a relation that is not named": (None, [edge("a", "mentions", "p", x=[1])]),
    "a wrong target": ("INVALID_TOPOLOGY", [edge("p", "Next", "h")]),
    "a wrong source": ("INVALID_TOPOLOGY", [edge("a", "Next", "a")]),
    "an end without a named type": ("INVALID_TOPOLOGY", [edge("p", "Next", "n")]),
    "a missing property": ("REQUIRED_PROPERTY_MISSING", [edge("a", "Waits", "h")]),
    "a bad property goes before a missing one": ("INVALID_ARGUMENT", [edge("a", "Waits", "h", x=[])]),
    "all that is required": (None, [edge("a", "Waits", "h", since="")]),
    "an end that is not there is for others to say": (None, [edge("p", "Next", "nobody")]),
    "ends made earlier in the draft": (None, [node("q", "Project"), node("b", "Action"), edge("q", "Next", "b")]),
    "ends made so that they do not fit": ("INVALID_TOPOLOGY", [node("q", "Person"), edge("q", "Next", "a")]),
    "an end retyped before": ("INVALID_TOPOLOGY", [node("a", "Person"), edge("p", "Next", "a")]),
    "an end retyped after": ("INVALID_TOPOLOGY", [edge("p", "Next", "a"), node("a", "Person")]),
    "an end retyped after and the edge deleted": (
        None,
        [edge("p", "Next", "a", id="e"), gone(from_="p", rel="Next", to="a", id="e"), node("a", "Person")],
    ),
    "an end retyped after its deletion": (None, [gone(node_id="a"), node("a", "Person")]),
    "a definition": (None, [define_node_type("Boat")]),
    "a definition in use within its draft": (None, [define_node_type("Boat"), node("x", "Boat", a=1)]),
    "a definition again": ("ONTOLOGY_APPEND_ONLY", [define_node_type("Project")]),
    "a definition twice": ("ONTOLOGY_APPEND_ONLY", [define_node_type("Boat"), define_node_type("Boat")]),
    "a second ontology": ("ONTOLOGY_APPEND_ONLY", [define_ontology()]),
    "a changed definition": (
        "ONTOLOGY_APPEND_ONLY",
        [define_connection_type(ConnectionType("Next", ("Person",), ("Person",)))],
    ),
    "a definition that becomes a note": ("ONTOLOGY_APPEND_ONLY", [node("ontology/node_type/Project", "note")]),
    "a deleted definition": ("ONTOLOGY_APPEND_ONLY", [gone(node_id="ontology/node_type/Project")]),
    "a redacted definition": (
        "ONTOLOGY_APPEND_ONLY",
        [Operation(Verb.REDACT_NODE, {"node_id": "ontology/node_type/Project", "reason": "x"})],
    ),
    "a definition in the wrong place": ("INVALID_ARGUMENT", [node("x", "ontology/node_type", name="Boat")]),
    "a definition of something else": ("INVALID_ARGUMENT", [node("ontology/node_type/Boat", "ontology/x", name="B")]),
    "a definition without a name": ("INVALID_ARGUMENT", [node("ontology/node_type/Boat", "ontology/node_type")]),
    "a definition with more than it needs": (
        "INVALID_ARGUMENT",
        [node("ontology/node_type/Boat", "ontology/node_type", name="Boat", more=1)],
    ),
    "a squatter on a reserved id": ("INVALID_ARGUMENT", [node("ontology/node_type/Boat", "note")]),
}


@promise("schema", "a type named in the ontology is checked whoever writes it")
@pytest.mark.parametrize("case", DRAFTS)
def test_a_draft_is_judged_by_what_it_would_leave(logged: LoggedState, case: str) -> None:
    code, operations = DRAFTS[case]
    assert judge(logged, *operations) == code


@promise("schema, retyping", "a node keeps a type that fits its connections")
def test_a_node_keeps_a_type_that_fits_its_connections(logged: LoggedState) -> None:
    logged.edge("p", "Next", "a")
    logged.edge("p", "mentions", "h")
    assert judge(logged, node("a", "Person")) == "INVALID_TOPOLOGY"
    assert judge(logged, node("a", "note")) == "INVALID_TOPOLOGY"
    assert judge(logged, node("a", "Action", new=1)) is None
    assert judge(logged, node("h", "Action")) is None
    assert judge(logged, gone(from_="p", rel="Next", to="a"), node("a", "Person")) is None


@promise("schema, other toolsets", "edges between nodes of other toolsets are theirs")
def test_edges_between_nodes_of_other_toolsets_are_theirs(logged: LoggedState) -> None:
    for name in ("w1", "w2"):
        logged.node(name, "work/node", list=[1])
    assert judge(logged, edge("w1", "Next", "w2")) is None
    assert judge(logged, edge("p", "Next", "w1")) == "INVALID_TOPOLOGY"
    both = ConnectionType("About", ("Project", "work/node"), ("work/node",), ("why",))
    operation = define_connection_type(both)
    logged.write(operation.verb, operation.payload)
    assert judge(logged, edge("p", "About", "w1", why="x")) is None
    assert judge(logged, edge("p", "About", "w1")) == "REQUIRED_PROPERTY_MISSING"
    assert judge(logged, edge("w1", "About", "w2")) == "REQUIRED_PROPERTY_MISSING"


def test_without_an_ontology_everything_may_be_written() -> None:
    logged = LoggedState()
    assert judge(logged, node("p", "Project", list=[1]), node("a", "Action"), edge("a", "Next", "p", x=None)) is None
