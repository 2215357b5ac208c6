"""Whatever an agent says: an answer that fits its schema or a refusal on purpose, never a bug, and a sound log."""

from __future__ import annotations

from typing import Any

import jsonschema
import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.errors import TallystickError
from tallystick.log import Head
from tallystick.server.schemas import input_schema
from tallystick.toolsets.memory import TOOLSET
from tests.promises import promise
from tests.toolsets.agent import TOOLS, Agent, working

Said = st.SearchStrategy[dict[str, Any]]


def said(required: dict[str, Any], **optional: Any) -> Said:
    return st.fixed_dictionaries(required, optional=optional)


def pick(*choices: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(choices)


# -- what makes sense, most of the time

names = pick("a", "b", "c", "a|b", "x\\")
types, rels = pick("t", "u"), pick("r", "s")
scalars = pick(None, True, 1, 1.0, 2, -0.5, "", "x", "xyz")
values = scalars | st.lists(scalars, max_size=2) | st.dictionaries(pick("l", "m"), scalars, max_size=2)
keys = pick("k", "k.l", "m")
attrs = st.dictionaries(pick("k", "m", "k.l"), values, max_size=3)
fields = st.lists(pick("attrs.k", "attrs.k.l", "attrs"), min_size=1, max_size=2)
nonces = pick("1", "2", "3")
conditional = {"if_commit": pick("0" * 64, "01234567"), "reason": pick("why")}
edge_names = {"from": names, "to": names, "rel": rels}
ordered = pick(0, 1.5, "x")
conditions = scalars | st.one_of(
    *(said({test: ordered}) for test in ("gt", "gte", "lt", "lte")),
    *(said({test: values}) for test in ("eq", "ne")),
    said({"in": st.lists(values, max_size=3)}),
    said({"exists": st.booleans()}),
    said({"regex": pick("^x", "y?z$", ".*")}),
)
moments = st.integers(0, 8) | pick("2025-01-04T12:00:00Z", "2024-01-01")
walks = said({"hops": st.integers(1, 4)}, direction=pick("in", "out", "both"), edge_types=st.lists(rels, max_size=2))
filters: dict[str, Any] = {
    "type": types,
    "attrs": st.dictionaries(keys, conditions, max_size=2),
    "since": pick("2024-01-01"),
    "until": pick("2025-01-04T12:00:00Z", "2026-01-01"),
    "limit": st.integers(1, 3),
    "offset": st.integers(0, 2),
}
shown = {"as_of": moments, "fields": fields, "if_position": st.integers(3, 9)}


operations = st.one_of(
    said({"op": pick("UPSERT_NODE"), "node": said({"id": names, "type": types, "attrs": attrs})}, **conditional),
    said({"op": pick("PATCH_NODE"), "node": said({"id": names, "attrs": attrs}, type=types)}, **conditional),
    said({"op": pick("UPSERT_EDGE", "PATCH_EDGE"), "edge": said({**edge_names, "attrs": attrs}, id=pick("e1", "e2"))}),
    said({"op": pick("DELETE_NODE"), "node_id": names}, **conditional),
    said({"op": pick("DELETE_EDGE"), "edge_id": pick("e1", "e2", "a|r|b")}, **conditional),
    said({"op": pick("REDACT_NODE"), "node_id": names, "reason": pick("erasure")}, redacted_fields=fields),
)


def op(verb: str, **required: Any) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    return call("memory.write", said({"op": st.just(verb), **required}, nonce=nonces, actor=pick("one", "two")))


def call(tool: str, arguments: Said) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    return st.tuples(st.just(tool), arguments)


sensible = st.one_of(
    op("UPSERT_NODE", node=said({"id": names, "type": types, "attrs": attrs})),
    op("UPSERT_EDGE", edge=said(edge_names, attrs=attrs, id=pick("e1", "e2"))),
    op("PATCH_NODE", node=said({"id": names, "attrs": attrs}, type=types)),
    op("PATCH_EDGE", edge=said({**edge_names, "attrs": attrs}, id=pick("e1", "e2"))),
    call("memory.write", said({"ops": st.lists(operations, min_size=1, max_size=4)}, nonce=nonces)),
    op("DELETE_NODE", node_id=names),
    op("DELETE_EDGE", edge=said(edge_names)),
    op("DELETE_EDGE", edge_id=pick("e1", "e2", "a|r|b")),
    op("REDACT_NODE", node_id=names, reason=st.just("erasure"), redacted_fields=fields),
    op("REDACT_NODE", node_id=names, reason=st.just("erasure")),
    call("memory.read", said({"entity_id": names | pick("e1", "a|r|b")}, include_edges=st.booleans(), **shown)),
    call("memory.search", said({}, **filters, **shown)),
    call("memory.search", said({"filters": said({"entity_id": names, "traversal": walks}, **filters)}, **shown)),
    call("memory.lineage", said({"entity_id": names | pick("e1", "a|r|b")}, depth=pick("direct", "full", "summary"))),
    call("memory.lineage", said({"entity_id": names, "format": st.just("csv")}, limit=st.integers(1, 3))),
)

# -- what does not

anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
)


@st.composite
def spoilt(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A sensible call with something put in, somewhere, that is none of it."""
    tool, arguments = draw(sensible)
    spot = arguments
    while inner := [value for each in spot.values() for value in (each if isinstance(each, list) else [each])]:
        inner = [value for value in inner if isinstance(value, dict)]
        if not inner:
            break
        if draw(st.booleans()):
            break
        spot = draw(st.sampled_from(inner))
    key = draw(st.sampled_from(sorted(spot)) | st.text(max_size=4)) if spot else draw(st.text(max_size=4))
    spot[key] = draw(anything)
    return tool, arguments


def begin(agent: Agent) -> None:
    for name in ("a", "b", "c"):
        agent.node(name, "t", k={"l": "xyz"}, m=1)
    agent.edge("a", "r", "b")
    agent.write(op="UPSERT_EDGE", edge={"from": "b", "to": "c", "rel": "s", "id": "e1"})


@promise("5.3, fuzzing", "whatever is sent is answered or refused on purpose, and the log still verifies")
@settings(max_examples=60)
@given(st.lists(st.one_of(sensible, sensible, spoilt()), min_size=5, max_size=25))
def test_whatever_is_said_is_answered_or_refused_on_purpose(story: list[tuple[str, dict[str, Any]]]) -> None:
    with working() as agent:
        begin(agent)
        for name, arguments in story:
            try:
                answer = agent.answer(name, arguments).data
            except TallystickError as error:
                orjson.dumps(TOOLSET.error_shape(error))
            else:
                orjson.dumps(answer)
                jsonschema.validate(answer, TOOLS[name].output)
                assert set(answer) <= set(TOOLS[name].output["properties"])
        assert len(list(agent.log.read(Head()))) == agent.log.head().count


@given(sensible)
def test_what_makes_sense_fits_the_schema_that_clients_are_shown(call: tuple[str, dict[str, Any]]) -> None:
    name, arguments = call
    jsonschema.validate(arguments, input_schema(TOOLS[name]), jsonschema.Draft202012Validator)
