"""memory.search: filters, windows, pages, walks, and the many shapes in which one question can come."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, cast

import msgspec
import pytest

from tallystick.clock import to_text
from tallystick.engine.store import Store
from tallystick.server.dispatch import prepare
from tallystick.state.read_filter import ReadFilter
from tallystick.toolsets.memory import toolset
from tallystick.toolsets.memory.answers import ANSWER_BYTES_MAX
from tests.promises import promise
from tests.toolsets.agent import NOON, TOOLS, Agent

HOUR = 3_600_000


# -- by what they are


@promise("TC-004-01", "an entity is found by id from the primary index")
def test_an_entity_is_found_by_its_id_with_its_provenance(agent: Agent) -> None:
    for number in range(500):
        agent.node(f"entity_{number}", number=number)
    found = agent.search(filters={"id": "entity_456"})
    assert [entity["id"] for entity in found["entities"]] == ["entity_456"]
    assert found["cache_hit"] is True
    assert set(found["provenance"]) == {"commit_id", "created_by", "timestamp"}
    assert found["entities"][0] == {"id": "entity_456", "type": "note", "attrs": {"number": 456}, **found["provenance"]}


@promise("L40, once", "a hit says who, when and which commit once; hashes come when they are asked for")
def test_hashes_of_a_hit_come_when_they_are_asked_for_and_authors_who_are_not_the_first(agent: Agent) -> None:
    agent.node("n", text="x")
    agent.write(op="UPSERT_NODE", node={"id": "n", "type": "note", "attrs": {}}, actor="bob")
    (hit,) = agent.search(type="note")["entities"]
    assert (hit["created_by"], hit["updated_by"]) == ("agent_alpha", "bob")
    assert "content_hash" not in str(hit)
    (whole,) = agent.search(type="note", fields=["provenance"])["entities"]
    assert whole == {"id": "n", "provenance": agent.read("n")["provenance"]}


PEOPLE: dict[str, dict[str, Any]] = {
    "ann": {"age": 30, "name": "Ann", "tags": ["x"], "home": {"city": "Oslo"}, "active": True, "score": 1.5},
    "bob": {"age": 41, "name": "Bob", "home": {"city": "Rome"}, "active": False, "note": None},
    "cyd": {"age": 52, "name": "Cyd", "home": {"city": "Oslo", "zip": "0150"}, "active": 1},
}

CONDITIONS: list[tuple[dict[str, Any], list[str]]] = [
    ({"age": 41}, ["bob"]),
    ({"age": {"eq": 41}}, ["bob"]),
    ({"age": {"ne": 41}}, ["ann", "cyd"]),
    ({"age": {"gt": 41}}, ["cyd"]),
    ({"age": {"gte": 41}}, ["bob", "cyd"]),
    ({"age": {"lt": 41}}, ["ann"]),
    ({"age": {"lte": 41}}, ["ann", "bob"]),
    ({"age": {"gt": 30, "lt": 52}}, ["bob"]),
    ({"age": {"in": [30, 52, 99]}}, ["ann", "cyd"]),
    ({"name": {"regex": "^[AB]"}}, ["ann", "bob"]),
    ({"name": {"gte": "B"}}, ["bob", "cyd"]),
    ({"score": {"exists": True}}, ["ann"]),
    ({"score": {"exists": False}}, ["bob", "cyd"]),
    ({"home.city": "Oslo"}, ["ann", "cyd"]),
    ({"home.city": "Oslo", "age": {"gt": 40}}, ["cyd"]),
    ({"home": {"eq": {"city": "Oslo"}}}, ["ann"]),
    ({"active": True}, ["ann"]),
    ({"active": 1}, ["cyd"]),
    ({"note": None}, ["bob"]),
    ({"nothing": 1}, []),
]


@promise("FR-004, attributes", "filters by equality, range, membership, pattern and presence")
@pytest.mark.parametrize(("attrs", "expected"), CONDITIONS, ids=[str(attrs) for attrs, _ in CONDITIONS])
def test_attributes_are_compared_as_asked(agent: Agent, attrs: dict[str, Any], expected: list[str]) -> None:
    for name, values in PEOPLE.items():
        agent.node(name, "person", **values)
    assert sorted(agent.ids(type="person", attrs=attrs)) == expected
    assert sorted(agent.ids(filters={"attrs": attrs})) == expected


@promise("L42", "conditions that make no sense are refused")
@pytest.mark.parametrize(
    ("attrs", "problem"),
    [
        ({"age": {"above": 3}}, "field 'attrs.age' has the unknown operator 'above'"),
        ({"home": {"city": "Oslo"}}, "(for a nested value write 'home.city')"),
        ({"age": {}}, "field 'attrs.age' needs an operator"),
        ({"age": {"in": 3}}, "field 'attrs.age.in' must be an array"),
        ({"age": {"exists": 1}}, "field 'attrs.age.exists' must be true or false"),
        ({"age": {"gt": None}}, "field 'attrs.age.gt' must be a number or a string"),
        ({"age": {"gt": True}}, "field 'attrs.age.gt' must be a number or a string"),
        ({"age": {"regex": 3}}, "field 'attrs.age.regex' must be a pattern"),
        ({"age": 2**60}, "field 'attrs': age is an integer beyond"),
        ({f"k{number}": 1 for number in range(51)}, "field 'attrs' has 51 conditions, the limit is 50"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_condition_that_makes_no_sense_is_refused(agent: Agent, attrs: dict[str, Any], problem: str) -> None:
    problems = agent.refusal("memory.search", attrs=attrs)["validation_errors"]
    assert len(problems) == 1
    assert problem in problems[0]


@pytest.mark.parametrize("pattern", ["(", "(?=x)", r"(a)\1", "x" * 5_000], ids=lambda pattern: pattern[:5])
def test_a_pattern_that_cannot_be_used_says_why(agent: Agent, pattern: str) -> None:
    agent.node("n", name="x")
    said = agent.refusal("memory.search", attrs={"name": {"regex": pattern}})
    assert said["error"] == "INVALID_PATTERN"


# -- the shapes of one question


@promise("L12", "every call shape asks the same question")
def test_every_call_shape_asks_the_same_question(agent: Agent) -> None:
    for number in range(4):
        agent.now = NOON + number * HOUR
        agent.node(f"p{number}", "plan" if number % 2 else "note", number=number)
    since = to_text(NOON + HOUR)
    shapes: list[dict[str, Any]] = [
        {"type": "plan", "since": since, "limit": 5},
        {"filters": {"type": "plan", "since": since, "limit": 5}},
        {"filters": {"type": "plan", "time_window": {"since": since}}, "limit": 5},
        {"type": "plan", "time_window": {"since": since}, "filters": {"limit": 5, "offset": 0}},
        {"type": "plan", "since": since, "limit": 5, "filters": {"type": "plan", "since": since, "limit": 5}},
    ]
    answers = [agent.search(**shape) for shape in shapes]
    assert [entity["id"] for entity in answers[0]["entities"]] == ["p1", "p3"]
    for answer in answers:
        assert (answer["entities"], answer["pagination"]) == (answers[0]["entities"], answers[0]["pagination"])


@promise("L12, conflict", "one thing said differently in two places is refused")
@pytest.mark.parametrize(
    ("arguments", "problems"),
    [
        ({"id": "a", "entity_id": "b"}, ["fields 'id' and 'entity_id' differ"]),
        ({"id": "a", "filters": {"id": "b"}}, ["fields 'id' and 'filters.id' differ"]),
        ({"type": "a", "filters": {"type": "b"}}, ["fields 'type' and 'filters.type' differ"]),
        ({"limit": 1, "filters": {"limit": 2}}, ["fields 'limit' and 'filters.limit' differ"]),
        (
            {"since": "2025-01-01", "time_window": {"since": "2025-01-02"}},
            ["fields 'since' and 'time_window.since' differ"],
        ),
        ({"attrs": {"a": 1}, "filters": {"attrs": {"a": 2}}}, ["fields 'attrs' and 'filters.attrs' differ"]),
        ({"traversal": {"hops": 1}}, ["field 'entity_id' is required by 'traversal'"]),
        (
            {"id": "a", "traversal": {"hops": 1, "min_hops": 2}},
            ["field 'traversal.min_hops' must not be more than 'traversal.hops'"],
        ),
        (
            {"id": "a", "traversal": {"closure": True, "hops": 2, "to": "b"}},
            [
                "field 'traversal.hops' does not go with 'traversal.closure'",
                "field 'traversal.to' does not go with 'traversal.closure'",
            ],
        ),
        ({"since": "2025-01-02", "until": "2025-01-01"}, ["field 'until' must not be before 'since'"]),
        ({"since": "last week"}, ["field 'since' must be an ISO 8601 time"]),
        ({"filters": {"time_window": {"until": "x"}}}, ["field 'filters.time_window.until' must be an ISO 8601 time"]),
        ({"limit": 0}, ["field 'limit' must be greater than or equal to 1"]),
        ({"limit": 1001}, ["field 'limit' must be less than or equal to 1000"]),
        ({"offset": -1}, ["field 'offset' must be greater than or equal to 0"]),
        ({"limit": "10"}, ["field 'limit' must be an integer"]),
        ({"filters": {"colour": "red"}}, ["field 'filters.colour' is not allowed"]),
        ({"id": "a", "traversal": {"hops": 0}}, ["field 'traversal.hops' must be greater than or equal to 1"]),
        ({"id": "a", "traversal": {"depth": 1}}, ["field 'traversal.depth' is not allowed"]),
    ],
    ids=str,
)
def test_every_fault_of_a_call_is_named(agent: Agent, arguments: dict[str, Any], problems: list[str]) -> None:
    assert agent.refusal("memory.search", **arguments)["validation_errors"] == problems


# -- when they were written


@promise("FR-004, time window", "only entities written inside the window are returned")
@promise("L39", "windows include since and exclude until")
def test_a_window_is_on_the_last_commit_from_since_up_to_until(agent: Agent) -> None:
    for number in range(100):
        agent.now = NOON - (99 - number) * HOUR
        agent.node(f"plan_{number}", "research_plan")
    recent = agent.search(type="research_plan", since=to_text(NOON - 9 * HOUR))
    assert recent["pagination"]["total"] == 10
    assert recent["cache_hit"] is True
    assert agent.ids(since=to_text(NOON)) == ["plan_99"]
    assert "plan_99" not in agent.ids(until=to_text(NOON))
    assert agent.ids(since="2025-01-04T13:00:00+01:00") == ["plan_99"]
    agent.now = NOON + HOUR
    agent.node("plan_0", "research_plan", touched=True)
    assert agent.ids(since=to_text(NOON + HOUR)) == ["plan_0"]


@promise("L14, search", "searches as of a past moment")
@promise("L41", "cache_hit tells index from walk and from history")
def test_a_search_as_of_a_past_moment_sees_what_was_true_then(agent: Agent) -> None:
    agent.node("a", state="open")
    agent.node("b", state="open")
    agent.node("a", state="done")
    agent.write(op="DELETE_NODE", node_id="b")
    assert agent.ids(attrs={"state": "open"}) == []
    assert agent.ids(attrs={"state": "open"}, as_of=2) == ["a", "b"]
    assert agent.search(attrs={"state": "open"}, as_of=2)["cache_hit"] is False


# -- pages


@promise("TC-004-03", "results come in pages with total and next offset")
@promise("L43", "pages name total, offset, limit and next offset")
def test_pages_follow_each_other_without_gap_or_overlap(agent: Agent) -> None:
    for number in range(500):
        agent.node(f"plan_{number}", "research_plan")
    page = agent.search(type="research_plan", limit=100, offset=0)
    assert len(page["entities"]) == 100
    assert page["pagination"] == {"total": 500, "offset": 0, "limit": 100, "next_offset": 100}
    assert agent.search(type="research_plan")["pagination"]["limit"] == 100
    assert len(set(_all_pages(agent, type="research_plan", limit=70))) == 500
    beyond = agent.search(type="research_plan", offset=500)
    assert (beyond["entities"], beyond["provenance"], beyond["pagination"]["next_offset"]) == ([], None, None)


@promise("X15", "lists are cut before they overflow an agent, and say where to go on")
def test_a_page_is_cut_where_it_would_be_too_long_and_says_where_to_go_on(agent: Agent) -> None:
    for number in range(40):
        agent.node(f"n{number}", text="x" * 5_000)
    page = agent.search(limit=40)
    assert 5 < len(page["entities"]) < 40
    assert page["pagination"]["next_offset"] == len(page["entities"])
    assert len(msgspec.json.encode(page)) < ANSWER_BYTES_MAX + 1_000
    assert _all_pages(agent, limit=40) == [f"n{number}" for number in range(40)]


def test_an_entity_too_large_for_any_page_is_shown_without_its_attributes(agent: Agent) -> None:
    agent.node("a")
    agent.node("big", text="x" * 200_000, title="T")
    agent.node("c")
    entities = agent.search()["entities"]
    assert [entity["id"] for entity in entities] == ["a", "big", "c"]
    assert "attrs" not in entities[1]
    assert entities[1]["oversize"] is True
    assert agent.search(id="big", fields=["attrs.title"])["entities"] == [{"id": "big", "attrs": {"title": "T"}}]


@promise("L40", "an answer's provenance is its newest entity's")
def test_the_provenance_of_an_answer_is_that_of_its_newest_entity(agent: Agent) -> None:
    agent.node("a")
    agent.node("b")
    newest = agent.node("a", again=True)
    assert agent.search()["provenance"]["commit_id"] == newest["commit_id"]


def _all_pages(agent: Agent, **arguments: Any) -> list[str]:
    found: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = agent.search(**arguments, offset=offset)
        found += [entity["id"] for entity in page["entities"]]
        offset = page["pagination"]["next_offset"]
    return found


# -- walks


@pytest.fixture
def library(agent: Agent) -> Agent:
    for name in ("user_001", "user_002", "user_003"):
        agent.node(name, "user", name=name)
    for name in ("doc_A", "doc_B"):
        agent.node(name, "doc")
    agent.edge("user_001", "authored", "doc_A", date="2025-01-03")
    agent.edge("user_001", "authored", "doc_B")
    agent.edge("doc_A", "authored", "user_002")
    agent.edge("doc_A", "authored", "user_003")
    return agent


def paths(answer: dict[str, Any]) -> list[list[str]]:
    return sorted(path["path"] for path in answer["paths"])


@promise("FR-004, walk", "two hops find the co-authors, by exactly these paths")
@promise("L38", "paths have exactly the hops asked for")
def test_a_walk_of_two_hops_finds_the_coauthors(library: Agent) -> None:
    found = library.search(entity_id="user_001", traversal={"hops": 2, "edge_types": ["authored"]})
    assert paths(found) == [["user_001", "doc_A", "user_002"], ["user_001", "doc_A", "user_003"]]
    assert sorted(entity["id"] for entity in found["entities"]) == ["doc_A", "doc_B", "user_002", "user_003"]
    assert (found["truncated"], found["delegated_to"], found["cache_hit"]) == (False, None, False)
    assert found["paths"][0]["edges"][0] == {
        "from": "user_001",
        "to": "doc_A",
        "rel": "authored",
        "attrs": {"date": "2025-01-03"},
    }


@promise("TC-004-02", "a walk follows the named relations and counts its edges")
def test_a_walk_follows_the_named_relations_and_counts_its_edges(agent: Agent) -> None:
    for name in ("user_001", "doc_A", "user_002", "user_009"):
        agent.node(name)
    agent.edge("user_001", "authored", "doc_A")
    agent.edge("doc_A", "co_authored", "user_002")
    agent.edge("doc_A", "disliked_by", "user_009")
    query = {"entity_id": "user_001", "traversal": {"hops": 2, "edge_types": ["authored", "co_authored"]}}
    for found in (agent.search(**query), agent.search(filters=query)):
        assert paths(found) == [["user_001", "doc_A", "user_002"]]
        assert found["edges_traversed"] == 2


@promise("L37", "walks go out, in or both ways")
def test_directions_shorter_paths_and_single_hops(library: Agent) -> None:
    def walked(start: str, **traversal: Any) -> list[list[str]]:
        return paths(library.search(entity_id=start, traversal=traversal))

    assert walked("user_001") == [["user_001", "doc_A"], ["user_001", "doc_B"]]
    assert walked("user_002", hops=2, direction="in") == [["user_002", "doc_A", "user_001"]]
    assert walked("user_002", hops=1) == []
    assert ["user_001", "doc_B"] in walked("user_001", hops=2, min_hops=1)
    assert walked("user_001", hops=1, edge_types=[]) == walked("user_001")
    assert walked("user_001", hops=1, edge_types=["liked"]) == []


def test_a_type_or_attributes_narrow_what_a_walk_lists(library: Agent) -> None:
    found = library.search(
        entity_id="user_001", type="user", attrs={"name": "user_003"}, traversal={"hops": 2, "min_hops": 1}
    )
    assert [entity["id"] for entity in found["entities"]] == ["user_003"]
    assert paths(found) == [["user_001", "doc_A", "user_003"]]
    assert found["pagination"]["total"] == 1


@promise("scenario 4", "a walk inside a time window returns paths with their edges")
def test_the_window_of_a_walk_is_on_its_edges(agent: Agent) -> None:
    for name in ("a", "b", "c"):
        agent.node(name)
    agent.edge("a", "knows", "b")
    agent.now = NOON + 24 * HOUR
    agent.edge("a", "knows", "c")
    found = agent.search(
        filters={"entity_id": "a", "time_window": {"since": to_text(NOON + HOUR)}, "traversal": {"hops": 1}}
    )
    assert paths(found) == [["a", "c"]]


def chain(agent: Agent, length: int) -> None:
    for number in range(length):
        agent.node(f"n{number}", "odd" if number % 2 else "even")
    for number in range(length - 1):
        agent.edge(f"n{number}", "needs", f"n{number + 1}")


@promise("FR-004, paths", "the shortest paths between two entities are found, however far they are apart")
def test_the_shortest_paths_to_an_entity_are_found_however_far_it_is(agent: Agent) -> None:
    chain(agent, 8)
    agent.edge("n0", "needs", "n3")
    found = agent.search(entity_id="n0", traversal={"to": "n7"})
    assert paths(found) == [["n0", "n3", "n4", "n5", "n6", "n7"]]
    assert [entity["id"] for entity in found["entities"]] == ["n3", "n4", "n5", "n6", "n7"]
    assert (found["truncated"], found["edges_traversed"]) == (False, 5)
    assert agent.search(entity_id="n7", traversal={"to": "n0"})["paths"] == []
    assert len(paths(agent.search(entity_id="n7", traversal={"to": "n0", "direction": "in"}))[0]) == 6


def test_what_two_entities_have_in_common_is_two_hops_from_one_to_the_other(library: Agent) -> None:
    found = library.search(entity_id="user_002", traversal={"to": "user_003", "hops": 2, "direction": "both"})
    assert paths(found) == [["user_002", "doc_A", "user_003"]]
    only = library.search(
        entity_id="user_002", type="doc", traversal={"to": "user_003", "hops": 2, "direction": "both"}
    )
    assert [entity["id"] for entity in only["entities"]] == ["doc_A"]


@promise("FR-004, closure", "all that depends on an entity is found")
def test_all_that_depends_on_an_entity_is_found_and_can_be_paged_and_narrowed(agent: Agent) -> None:
    chain(agent, 120)
    asked: dict[str, Any] = {"entity_id": "n119", "traversal": {"closure": True, "direction": "in"}}
    found = agent.search(**asked, limit=100)
    assert [entity["id"] for entity in found["entities"]][:2] == ["n118", "n117"]
    assert (found["paths"], found["pagination"]["total"], found["truncated"]) == ([], 119, False)
    assert agent.search(**asked, type="odd")["pagination"]["total"] == 59
    assert agent.search(**asked, offset=118)["entities"][0]["id"] == "n0"


def test_a_closure_of_more_than_a_thousand_says_that_there_is_more(agent: Agent) -> None:
    agent.node("hub")
    for number in range(1001):
        agent.node(f"n{number}")
        agent.edge("hub", "has", f"n{number}")
    found = agent.search(entity_id="hub", traversal={"closure": True})
    assert (found["pagination"]["total"], found["truncated"]) == (1000, True)


@promise("FR-004, heavy walk", "hops past the limit are cut and marked while no graph engine is configured")
def test_hops_past_the_limit_are_cut_and_said(agent: Agent) -> None:
    for number in range(7):
        agent.node(f"n{number}")
    for number in range(6):
        agent.edge(f"n{number}", "next", f"n{number + 1}")
    found = agent.search(entity_id="n0", traversal={"hops": 5})
    assert paths(found) == [["n0", "n1", "n2", "n3"]]
    assert (found["truncated"], found["delegated_to"]) == (True, None)
    assert agent.search(entity_id="n0", traversal={"hops": 3})["truncated"] is False
    farther = next(tool for tool in toolset(hops_max=5).tools if tool.name == "memory.search")
    asked = prepare(farther, {"entity_id": "n0", "traversal": {"hops": 5}})
    found = agent.run(farther.call(agent.store, agent.principal, asked)).data
    assert (paths(found), found["truncated"]) == ([["n0", "n1", "n2", "n3", "n4", "n5"]], False)


@promise("scenario 4, heavy walk", "a fan-out past a hundred is cut and marked")
@promise("L36", "walks are capped in hops and fan-out")
def test_a_fan_out_past_a_hundred_is_cut_and_said(agent: Agent) -> None:
    agent.node("hub")
    for number in range(150):
        agent.node(f"n{number}")
        agent.edge("hub", "has", f"n{number}")
    found = agent.search(entity_id="hub", traversal={"hops": 1})
    assert found["truncated"] is True
    assert found["pagination"]["total"] == 100


def test_a_complete_walk_is_not_truncated_when_some_of_its_paths_do_not_fit(agent: Agent) -> None:
    agent.node("hub")
    for number in range(20):
        agent.node(f"n{number}")
        agent.edge("hub", "has", f"n{number}", text="x" * 4_000)
    agent.edge("hub", "has", "n0", text="x" * 400_000)
    found = agent.search(entity_id="hub", traversal={"hops": 1})
    assert (found["truncated"], len(found["paths"]) + found["paths_omitted"]) == (False, 20)
    assert any(path.get("oversize") for path in found["paths"])
    assert len(msgspec.json.encode(found)) < ANSWER_BYTES_MAX + 1_000


def test_reached_entities_come_in_pages_too(library: Agent) -> None:
    seen = []
    for offset in range(4):
        found = library.search(entity_id="user_001", traversal={"hops": 2}, limit=1, offset=offset)
        seen += [entity["id"] for entity in found["entities"]]
        assert found["pagination"]["total"] == 4
    assert sorted(seen) == ["doc_A", "doc_B", "user_002", "user_003"]


def test_a_walk_from_nowhere_finds_nothing(agent: Agent) -> None:
    found = agent.search(entity_id="nobody", traversal={"hops": 2})
    assert (found["entities"], found["paths"], found["truncated"]) == ([], [], False)


def test_a_walk_as_of_a_past_moment_follows_the_edges_of_then(library: Agent) -> None:
    before = library.log.head().lamport
    library.write(op="DELETE_NODE", node_id="doc_A")
    assert paths(library.search(entity_id="user_001", traversal={"hops": 2})) == []
    found = library.search(entity_id="user_001", traversal={"hops": 2}, as_of=before)
    assert len(found["paths"]) == 2


def test_an_answer_is_of_the_moment_it_was_asked_even_if_others_write_before_it_is_given(agent: Agent) -> None:
    for number in range(600):
        agent.node(f"n{number}", text="x" * 400)
    looks: list[Any] = []

    class Waiting:
        async def read(self, principal: Any, action: Any, look: Any, **kwargs: Any) -> dict[str, Any]:
            looks.append(look)
            return {}

    asked = prepare(TOOLS["memory.search"], {"attrs": {"text": {"regex": "^x+$"}}})
    agent.run(TOOLS["memory.search"].call(cast("Store", Waiting()), agent.principal, asked))

    state = agent.partition._state

    def driven() -> Generator[None, None, dict[str, Any]]:
        answer: dict[str, Any] = yield from looks[0](state, ReadFilter(state))
        answers.append(answer)
        return answer

    answers: list[dict[str, Any]] = []
    answering = driven()
    next(answering)
    agent.node("later", text="xxx")
    agent.write(op="DELETE_NODE", node_id="n599")
    assert answers == []
    for _ in answering:
        pass
    assert answers[0]["position"] == 600
    assert answers[0]["pagination"]["total"] == 600
