"""Finding: nodes and connections by type, properties and ends, in pages."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.extensions.ontology import queries
from tests.extensions.ontology.agents import OntologyAgent
from tests.promises import promise


@pytest.fixture
def four(gtd: OntologyAgent) -> dict[str, str]:
    return {
        "phone": gtd.make("Action", status="next", context="phone"),
        "computer": gtd.make("Action", status="next", context="computer"),
        "waiting": gtd.make("Action", status="waiting", context="phone"),
        "high": gtd.make("Action", status="next", context="phone", priority="high"),
    }


@promise("AC3, nodes", "nodes are found by type and by all properties")
@promise("AC15, empty filter", "an empty filter matches every node of the type")
@promise("M29", "a type that is not in the ontology has no members")
def test_nodes_match_all_properties_and_may_have_more(gtd: OntologyAgent, four: dict[str, str]) -> None:
    found = gtd.nodes(type="Action", properties={"status": "next", "context": "phone"})
    assert found == [four["phone"], four["high"]]
    gtd.make("Project", status="next")
    assert len(gtd.nodes(properties={"status": "next"})) == 4
    assert gtd.nodes(type="Action", properties={}) == list(four.values())
    assert gtd.nodes(type="Recipe") == []
    assert gtd.nodes(properties={"status": "Next"}) == []


@promise("AC12, no filter", "without a filter all nodes are found")
def test_without_a_filter_all_nodes_are_found(gtd: OntologyAgent, four: dict[str, str]) -> None:
    project = gtd.make("Project")
    assert gtd.nodes() == [*four.values(), project]


LONG = "x" * 500
VALUES: list[tuple[Any, Any, bool]] = [
    (1, 1.0, True),
    (1.0, 1, True),
    (1, True, False),
    (True, 1, False),
    (True, True, True),
    (0, False, False),
    ("1", 1, False),
    ("Text", "text", False),
    ("", "", True),
    (LONG, LONG, True),
    (LONG, LONG + "x", False),
    (0.1, 0.1, True),
    (-0.0, 0, True),
]


@promise("AC15", "properties are compared by kind and value, all of them")
@promise("M28", "1 is 1.0, and true is not 1")
@pytest.mark.parametrize(("kept", "asked", "equal"), VALUES)
def test_values_are_compared_by_kind_and_value(gtd: OntologyAgent, kept: Any, asked: Any, equal: bool) -> None:
    """For nodes, and for connections whether they are few enough to be read or many enough to be indexed."""
    node = gtd.make("Action", p=kept)
    conn = gtd.join(node, "DependsOn", node, p=kept)
    assert gtd.nodes(properties={"p": asked}) == [node] * equal
    assert gtd.connections(properties={"p": asked}) == [conn] * equal
    many = [{"type": "DependsOn", "from_node_id": node, "to_node_id": node}] * 300
    gtd.together("create_connection", many)
    assert gtd.connections(type="DependsOn", properties={"p": asked}) == [conn] * equal


def test_a_property_with_a_dot_is_not_a_path(gtd: OntologyAgent) -> None:
    gtd.call("add_connection_type", type_name="R", from_types=["Action"], to_types=["Action"])
    dotted = gtd.make("Action", **{"a.b": 1})
    assert gtd.nodes(properties={"a.b": 1}) == [dotted]
    gtd.node("early", "Recipe", a={"b": 1})
    gtd.call("add_node_type", type_name="Recipe")
    assert gtd.nodes(properties={"a.b": 1}) == [dotted]
    gtd.edge(dotted, "R", dotted, **{"a.b": 2})
    assert gtd.connections(properties={"a.b": 2}) == gtd.connections()


@pytest.fixture
def graph(gtd: OntologyAgent) -> dict[str, str]:
    ids = {"p": gtd.make("Project"), "a": gtd.make("Action"), "b": gtd.make("Action"), "c": gtd.make("Action")}
    ids["pa"] = gtd.join(ids["p"], "NextAction", ids["a"], priority="high")
    ids["pb"] = gtd.join(ids["p"], "NextAction", ids["b"], priority="low")
    ids["pd"] = gtd.join(ids["p"], "DependsOn", ids["a"], priority="high")
    ids["bc"] = gtd.join(ids["b"], "DependsOn", ids["c"])
    return ids


CONNECTIONS: list[tuple[dict[str, Any], str]] = [
    ({}, "pa pb pd bc"),
    ({"from_node_id": "p"}, "pa pb pd"),
    ({"to_node_id": "a"}, "pa pd"),
    ({"from_node_id": "p", "to_node_id": "a"}, "pa pd"),
    ({"from_node_id": "p", "to_node_id": "a", "type": "NextAction"}, "pa"),
    ({"type": "DependsOn"}, "pd bc"),
    ({"properties": {"priority": "high"}}, "pa pd"),
    ({"type": "NextAction", "properties": {"priority": "high"}}, "pa"),
    ({"from_node_id": "p", "properties": {"priority": "low"}}, "pb"),
    ({"from_node_id": "p", "properties": {"priority": "low", "more": 1}}, ""),
    ({"from_node_id": "a", "to_node_id": "p"}, ""),
    ({"from_node_id": "nobody"}, ""),
    ({"type": "Nothing"}, ""),
    ({"from_node_id": "p", "properties": {}}, "pa pb pd"),
]


@promise("AC3, connections", "connections are found by source, target, type and properties")
@pytest.mark.parametrize(("asked", "found"), CONNECTIONS)
def test_connections_are_found_by_ends_type_and_properties(
    gtd: OntologyAgent, graph: dict[str, str], asked: dict[str, Any], found: str
) -> None:
    asked = {key: graph.get(value, value) if isinstance(value, str) else value for key, value in asked.items()}
    assert gtd.connections(**asked) == [graph[name] for name in found.split()]


@promise("AC3, traversal", "connections are followed in the direction asked for")
@promise("AC18", "out, in and both")
def test_connections_are_followed_in_the_direction_asked_for(gtd: OntologyAgent, graph: dict[str, str]) -> None:
    def follow(start: str, direction: str, **asked: Any) -> list[str]:
        names = {value: key for key, value in graph.items()}
        return [names[each] for each in gtd.neighbours(graph[start], direction, **asked)]

    assert follow("p", "out") == ["a", "b"]
    assert follow("p", "in") == []
    assert follow("a", "in", connection_type="NextAction") == ["p"]
    assert follow("b", "both") == ["p", "c"]
    assert follow("b", "out", connection_type="NextAction") == []
    assert follow("b", "both", connection_type="Nothing") == []


def test_the_index_of_connections_keeps_up_with_every_change(gtd: OntologyAgent) -> None:
    """Many enough to be indexed, then changed in every way between questions."""
    hub, other = gtd.make("Project"), gtd.make("Action")
    ends = {"type": "NextAction", "from_node_id": hub, "to_node_id": other}
    made = gtd.together("create_connection", [{**ends, "properties": {"n": n % 3}} for n in range(600)])
    ids = [answer["connection_id"] for answer in made]

    def found(n: int) -> set[str]:
        return set(gtd.connections(type="NextAction", properties={"n": n}))

    assert found(0) == set(ids[0::3])
    gtd.call("update_connection", connection_id=ids[0], properties={"n": 1})
    assert found(0) == set(ids[3::3])
    assert found(1) == {ids[0], *ids[1::3]}
    gtd.call("delete_connection", connection_id=ids[1])
    assert found(1) == {ids[0], *ids[4::3]}
    fresh = gtd.call("create_connection", **ends, properties={"n": 7})["connection_id"]
    assert found(7) == {fresh}
    gtd.call("delete_node", node_id=other)
    assert found(0) | found(1) | found(2) | found(7) == set()
    assert gtd.connections() == []


def test_a_failed_append_is_never_found(gtd: OntologyAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was applied and taken back must not stay in the index."""
    hub, other = gtd.make("Project"), gtd.make("Action")
    ends = {"type": "NextAction", "from_node_id": hub, "to_node_id": other}
    gtd.together("create_connection", [{**ends, "properties": {"n": 1}}] * 300)
    assert len(gtd.connections(properties={"n": 1})) == 300

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(gtd.log, "append", full)
        with pytest.raises(OSError, match="No space"):
            gtd.call("create_connection", **ends, properties={"n": 1})
    assert len(gtd.connections(properties={"n": 1})) == 300
    gtd.call("create_connection", **ends, properties={"n": 1})
    assert len(gtd.connections(properties={"n": 1})) == 301


# -- pages


@promise("X15, typed", "long lists come in pages and short ones whole")
def test_long_lists_come_in_pages_and_short_ones_whole(gtd: OntologyAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [gtd.make("Action", str(number)) for number in range(25)]
    assert gtd.call("query_nodes", type="Action") == {"node_ids": ids}
    first = gtd.call("query_nodes", type="Action", limit=10)
    assert first == {"node_ids": ids[:10], "next_offset": 10, "total": 25}
    assert gtd.call("query_nodes", type="Action", limit=15, offset=10) == {"node_ids": ids[10:]}
    assert gtd.call("query_nodes", offset=25) == {"node_ids": []}
    monkeypatch.setattr(queries, "PAGE_BYTES_MAX", 200)
    seen: list[str] = []
    page: dict[str, Any] = {"next_offset": 0}
    while "next_offset" in page:
        page = gtd.call("query_nodes", offset=page["next_offset"])
        seen += page["node_ids"]
    assert seen == ids
    assert len(gtd.call("search_content", query="1")["node_ids"]) < 12


def test_connections_and_neighbours_come_in_pages_too(gtd: OntologyAgent) -> None:
    hub = gtd.make("Project")
    ends = [gtd.make("Action") for _ in range(5)]
    made = [gtd.join(hub, "NextAction", end) for end in ends]
    page = gtd.call("query_connections", from_node_id=hub, limit=2, offset=2)
    assert page == {"connection_ids": made[2:4], "next_offset": 4, "total": 5}
    page = gtd.call("get_connected_nodes", node_id=hub, direction="out", limit=3)
    assert page == {"node_ids": ends[:3], "next_offset": 3, "total": 5}


# -- contents


@pytest.fixture
def houses(gtd: OntologyAgent) -> dict[str, str]:
    made = {}
    for name, kind, content in (
        ("kitchen", "Project", "# Kitchen Renovation\n\nModern farmhouse style"),
        ("bathroom", "Project", "# Bathroom Remodel\n\nFarmhouse sink and fixtures"),
        ("sinks", "Action", "# Research farmhouse sinks\n\nFind suppliers"),
        ("plumber", "Action", "# Call plumber\n\nSchedule bathroom work"),
    ):
        gtd.now += 1
        made[name] = gtd.make(kind, content)
    return made


@promise("AC16", "contents are searched for text in any case, by type, up to a limit")
def test_contents_are_searched_for_text_in_any_case(gtd: OntologyAgent, houses: dict[str, str]) -> None:
    assert gtd.found("farmhouse", limit=10) == [houses[name] for name in ("kitchen", "bathroom", "sinks")]
    assert gtd.found("farmhouse", node_type="Project", limit=10) == [houses["kitchen"], houses["bathroom"]]
    assert len(gtd.found("farmhouse", limit=2)) == 2
    assert gtd.found("spaceship") == []
    assert gtd.found("farmhouse", node_type="Recipe") == []
    assert gtd.found("K", limit=9) == [houses[name] for name in ("kitchen", "bathroom", "sinks", "plumber")]


@promise("M27, order", "hits come by creation, and those of one moment by id")
@pytest.mark.parametrize("limit", [1, 2, 3, 5, 20])
def test_hits_come_by_creation_and_those_of_one_moment_by_id_however_long_the_pages_are(
    gtd: OntologyAgent, limit: int
) -> None:
    made = []
    for number in range(12):
        gtd.now += number % 5 == 0
        made.append((gtd.now, gtd.make("Project", "farmhouse")))
    gtd.call("update_node", node_id=made[0][1], content="farmhouse again", encoding="utf-8")
    pages: list[str] = []
    while True:
        page = gtd.call("search_content", query="farm", limit=limit, offset=len(pages))
        pages += page["node_ids"]
        if "next_offset" not in page:
            break
    assert pages == [node_id for _, node_id in sorted(made)]


def test_a_search_sees_what_was_written_changed_and_deleted_just_before(gtd: OntologyAgent) -> None:
    node = gtd.make("Project", "Straße")
    assert gtd.found("STRASSE") == [node]
    gtd.call("update_node", node_id=node, content="avenue", encoding="utf-8")
    assert (gtd.found("strasse"), gtd.found("Avenue")) == ([], [node])
    gtd.call("delete_node", node_id=node)
    assert gtd.found("avenue") == []


def test_binary_content_is_not_searched(gtd: OntologyAgent) -> None:
    gtd.call("create_node", type="Project", content="aGVsbG8=", encoding="base64", format="bin")
    assert gtd.found("hello") == []
    assert gtd.found("aGVsbG8") == []


def test_only_typed_memories_are_found_by_their_content(gtd: OntologyAgent) -> None:
    """However many other nodes match: the limit counts what is shown."""
    gtd.define_elsewhere("farmhouse", 20)
    made = sorted(gtd.make("Project", f"farmhouse {number}") for number in range(4))
    assert gtd.found("farmhouse", limit=3) == made[:3]
    assert sorted(gtd.found("farmhouse", mode="ranked", limit=9)) == sorted(made)


def test_a_ranked_search_tells_scores_and_snippets(gtd: OntologyAgent, houses: dict[str, str]) -> None:
    answer = gtd.call("search_content", query="plumber", mode="ranked")
    assert answer["node_ids"] == [houses["plumber"]]
    [hit] = answer["hits"]
    assert hit["node_id"] == houses["plumber"]
    assert hit["score"] > 0
    assert "plumber" in hit["snippet"]
    found = gtd.make("Action", "JWT tokens are signed with RS256 keys rotated quarterly")
    assert gtd.found("JWT RS256 rotation", mode="ranked") == [found]
    assert gtd.found("JWT RS256 rotation") == []
