"""Whatever is said in whichever vocabulary: an answer or a refusal on purpose, and a graph that keeps its ontology."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import jsonschema
import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.errors import TallystickError
from tallystick.state.ontology import Ontology, check_properties, check_required, check_topology
from tallystick.state.state import State
from tests.extensions.ontology.agents import OntologyAgent, keeping

Call = tuple[str, dict[str, Any]]


def pick(*choices: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(choices)


def call(tool: str, required: dict[str, Any], **optional: Any) -> st.SearchStrategy[Call]:
    return st.tuples(st.just(tool), st.fixed_dictionaries(required, optional=optional))


# Nodes and connections are named by their number, since their ids are not known before.
nodes, connections = st.integers(0, 4).map("node {}".format), st.integers(0, 3).map("connection {}".format)
types, kinds = pick("A", "B", "C", "D"), pick("AtoB", "any", "needs", "late")
properties = st.dictionaries(pick("p", "q", "r.s"), pick(1, 1.0, True, "", "x", -0.5), max_size=3)
contents = {"content": pick("", "text", "Straße", "QQ=="), "encoding": pick("utf-8", "base64")}
formats = pick("markdown", "png", "../x")
pages = {"limit": st.integers(1, 3), "offset": st.integers(0, 2)}
ends = {"from_node_id": nodes, "to_node_id": nodes}

sensible: st.SearchStrategy[Call] = st.one_of(
    call("create_node", {"type": types, "format": formats, **contents}, properties=properties),
    call("create_node", {"type": types, "format": formats, "content": pick("a", "b")}, properties=properties),
    call("update_node", {"node_id": nodes}, properties=properties, format=formats),
    call("update_node", {"node_id": nodes, **contents}, properties=properties, format=formats),
    call("delete_node", {"node_id": nodes}),
    call("get_node", {"node_id": nodes}),
    call("get_node_content", {"node_id": nodes}),
    call("create_connection", {"type": kinds, **ends}, properties=properties, content=pick("", "why")),
    call("create_connection", {"type": kinds, **ends}, properties=properties, content=pick("", "why")),
    call("update_connection", {"connection_id": connections}, properties=properties, content=pick("new")),
    call("delete_connection", {"connection_id": connections}),
    call("get_connection", {"connection_id": connections}, include_content=st.booleans()),
    call("query_nodes", {}, type=types, properties=properties, **pages),
    call("query_connections", {}, type=kinds, properties=properties, **ends, **pages),
    call("get_connected_nodes", {"node_id": nodes, "direction": pick("in", "out", "both")}, connection_type=kinds),
    call("add_node_type", {"type_name": pick("C", "D")}),
    call("add_connection_type", {"type_name": pick("late"), "from_types": pick(["A"]), "to_types": pick(["A", "C"])}),
    call("get_ontology", {}),
    call(
        "memory.write",
        {
            "op": st.just("UPSERT_NODE"),
            "node": st.fixed_dictionaries(
                {"id": nodes, "type": types | pick("note"), "attrs": properties | pick({"p": [1]})}
            ),
        },
    ),
    call(
        "memory.write",
        {
            "op": st.just("UPSERT_EDGE"),
            "edge": st.fixed_dictionaries({"from": nodes, "rel": kinds, "to": nodes}, optional={"attrs": properties}),
        },
    ),
)

anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
)


@st.composite
def spoilt(draw: st.DrawFn) -> Call:
    """A sensible call with something put in that is none of it."""
    tool, arguments = draw(sensible)
    key = draw(pick(*sorted(arguments)) if arguments else st.text(max_size=4))
    return tool, {**arguments, key: draw(anything)}


ONTOLOGY: dict[str, Any] = {
    "node_types": ["A", "B"],
    "connection_types": [
        {"name": "AtoB", "from_types": ["A"], "to_types": ["B"]},
        {"name": "any", "from_types": ["A", "B", "C"], "to_types": ["A", "B", "C"]},
        {"name": "needs", "from_types": ["A", "B"], "to_types": ["A"], "required_properties": ["p"]},
    ],
}


@settings(max_examples=60)
@given(st.lists(st.one_of(sensible, sensible, spoilt()), min_size=5, max_size=25))
def test_whatever_is_said_is_answered_or_refused_and_the_ontology_holds(story: list[Call]) -> None:
    with tempfile.TemporaryDirectory() as home, keeping(Path(home)) as agent:
        agent.define(**ONTOLOGY)
        named = {f"node {n}": agent.make(kind, p=n) for n, kind in enumerate("AAB")}
        named["connection 0"] = agent.join(named["node 0"], "AtoB", named["node 2"])
        for tool, arguments in story:
            _say(agent, tool, _with_ids(arguments, named), named)
        assert agent.run(agent.partition.look(broken_rules)) == []


def _say(agent: OntologyAgent, tool: str, arguments: dict[str, Any], named: dict[str, str]) -> None:
    before = agent.log.head()
    try:
        answer = agent.answer(tool, arguments).data
    except TallystickError as error:
        orjson.dumps(agent.tools[tool][0].error_shape(error))
        assert agent.log.head() == before
        return
    orjson.dumps(answer)
    jsonschema.validate(answer, agent.tool(tool).output)
    for kind in ("node", "connection"):
        if f"{kind}_id" in answer:
            number = sum(name.startswith(kind) for name in named)
            named[f"{kind} {number % 5}"] = answer[f"{kind}_id"]


def _with_ids(value: Any, named: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _with_ids(each, named) for key, each in value.items()}
    return named.get(value, value) if isinstance(value, str) else value


def broken_rules(state: State) -> list[str]:
    """What no sequence of calls may leave behind. Nodes and edges from before their type was named may be odd."""
    ontology, broken = state.derived(Ontology), []
    first = {"A", "B"}
    columns = state._columns
    for node in filter(None, map(state.node, columns.nodes.ids)):
        try:
            if node.type in first:
                check_properties(node.attrs)
            for edge in state.edges(node.id, "out"):
                kind = ontology.find_connection_type(edge.rel)
                if kind is not None and kind.name != "late":
                    check_topology(kind, node.type, str((state.owner(edge.target) or ("",))[0]))
                    check_properties(edge.attrs)
                    check_required(kind, edge.attrs)
        except TallystickError as error:
            broken.append(error.message)
    return broken
