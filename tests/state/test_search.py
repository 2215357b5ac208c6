"""What a search finds, and how; that it finds the same as reading everything is a law (tests/laws)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tallystick.errors import Corrupt, InvalidArgument
from tallystick.state import Condition, Page, Query, conditions, sorted_values
from tallystick.state.state import State
from tallystick.system.turns import finished
from tests.state.logged_state import HOUR, START, LoggedState

LONG = "x" * 200


@pytest.fixture(scope="module")
def logged() -> LoggedState:
    logged = LoggedState()
    logged.node("a", "task", title="Alpha", rank=1, open=True, tags=["red", "blue"], at={"city": "Graz", "floor": 2})
    logged.now += HOUR
    logged.node("b", "task", title="Beta", rank=1.5, open=False, tags=[], at={"city": "Linz"}, body=LONG + "b")
    logged.now += HOUR
    logged.node("c", "note", title="Gamma", rank="1", open=1, at=None, body=LONG + "c")
    logged.now += HOUR
    logged.node("d", "note", title=["Alpha", 7], rank=None)
    return logged


def ids(page: Page) -> str:
    return "".join(node.id for node in page.nodes)


def found(logged: LoggedState, **query: Any) -> str:
    return ids(finished(logged.state.search(Query(**query))))


CONDITIONS: list[tuple[str, Any, Any, str]] = [
    ("title", "eq", "Alpha", "ad"),
    ("title", "eq", "alpha", ""),
    ("title", "eq", 7, "d"),
    ("title", "eq", ["Alpha", 7], "d"),
    ("title", "eq", ["Alpha"], ""),
    ("rank", "eq", 1, "a"),
    ("rank", "eq", 1.0, "a"),
    ("rank", "eq", "1", "c"),
    ("rank", "eq", None, "d"),
    ("open", "eq", True, "a"),
    ("open", "eq", 1, "c"),
    ("open", "ne", True, "bc"),
    ("tags", "eq", "blue", "a"),
    ("tags", "eq", [], "b"),
    ("tags", "exists", True, "ab"),
    ("tags", "exists", False, "cd"),
    ("at", "exists", True, "abc"),
    ("at", "eq", {"city": "Linz"}, "b"),
    ("at", "eq", None, "c"),
    ("at.city", "eq", "Graz", "a"),
    ("at.city", "in", ["Graz", "Linz", "Wien"], "ab"),
    ("at.city", "in", [], ""),
    ("rank", "gt", 1, "b"),
    ("rank", "gte", 1, "ab"),
    ("rank", "lt", 1.5, "a"),
    ("rank", "lte", "2", "c"),
    ("title", "gt", "Alpha", "bc"),
    ("title", "regex", "^.lph", "ad"),
    ("title", "regex", "m{2}", "c"),
    ("body", "eq", LONG + "b", "b"),
    ("body", "ne", LONG + "b", "c"),
    ("body", "in", ["?", LONG + "c"], "c"),
    ("body", "regex", "c$", "c"),
    ("body", "gt", LONG + "b", "c"),
    ("nothing", "ne", 1, ""),
    ("nothing", "exists", False, "abcd"),
]


@pytest.mark.parametrize(("key", "test", "value", "expected"), CONDITIONS)
def test_conditions(logged: LoggedState, key: str, test: Any, value: Any, expected: str) -> None:
    assert found(logged, conditions=(Condition(key, test, value),)) == expected


def test_everything_asked_for_must_hold(logged: LoggedState) -> None:
    assert found(logged) == "abcd"
    assert found(logged, type="task") == "ab"
    assert found(logged, type="nobody's") == ""
    assert found(logged, type="task", conditions=(Condition("rank", "gt", 0), Condition("open", "eq", False))) == "b"
    assert found(logged, ids=("d", "a", "x", "a")) == "ad"
    assert found(logged, ids=("d", "a"), type="note") == "d"


def test_a_window_takes_in_its_start_and_leaves_out_its_end(logged: LoggedState) -> None:
    assert found(logged, since=START + HOUR) == "bcd"
    assert found(logged, until=START + HOUR) == "a"
    assert found(logged, since=START + HOUR, until=START + 2 * HOUR) == "b"
    assert found(logged, since=START + 1, until=START + HOUR) == ""
    assert found(logged, since=-1, until=10**18) == "abcd"
    assert found(logged, since=10**18) == found(logged, until=-(10**18)) == ""


def test_pages_follow_each_other_and_know_the_total(logged: LoggedState) -> None:
    pages = [finished(logged.state.search(Query(offset=offset, limit=3))) for offset in (0, 3, 6, 2**40)]
    assert [(ids(page), page.total) for page in pages] == [("abc", 4), ("d", 4), ("", 4), ("", 4)]
    assert finished(logged.state.search(Query(limit=0))).total == 4


@pytest.mark.parametrize(
    ("query", "indexed"),
    [
        (Query(type="task"), True),
        (Query(ids=("a",)), True),
        (Query(conditions=(Condition("rank", "gte", 1),)), True),
        (Query(conditions=(Condition("title", "regex", "a"),)), True),
        (Query(since=START + HOUR), True),
        (Query(conditions=(Condition("body", "eq", LONG + "b"),)), False),
        (Query(conditions=(Condition("tags", "eq", ["red", "blue"]),)), False),
        (Query(at=4), True),
        (Query(at=3), False),
    ],
)
def test_a_page_says_whether_documents_had_to_be_looked_at(logged: LoggedState, query: Query, indexed: bool) -> None:
    assert finished(logged.state.search(query)).indexed is indexed


WRONG: list[tuple[str, Any]] = [
    ("in", "text"),
    ("exists", 1),
    ("gt", True),
    ("lte", None),
    ("gte", [1]),
    ("regex", 7),
    ("regex", "("),
    ("like", "x"),
]


@pytest.mark.parametrize(("test", "value"), WRONG)
def test_a_condition_that_makes_no_sense_is_refused(logged: LoggedState, test: Any, value: Any) -> None:
    with pytest.raises(InvalidArgument):
        found(logged, conditions=(Condition("rank", test, value),))


def test_few_candidates_are_judged_by_their_documents_rather_than_all_values_of_a_key() -> None:
    logged = LoggedState()
    logged.node("wanted", "rare", title="title 7")
    for number in range(100):
        logged.node(f"n{number}", title=f"title {number}")
    page = finished(logged.state.search(Query(type="rare", conditions=(Condition("title", "regex", "7$"),))))
    assert (ids(page), page.indexed) == ("wanted", False)


@pytest.mark.parametrize(
    "said", ["of team 7.", 'a "quoted" word', "a back\\slash", "two\nlines", "\x1f", "Zürich", "🙂 smiles", "tab\there"]
)
def test_a_long_text_is_found_by_an_expression_however_json_spells_it(said: str) -> None:
    logged = LoggedState()
    logged.node("short", text=said)
    logged.node("long", text=[said, LONG + said])
    logged.node("other", text=LONG)
    assert found(logged, conditions=(Condition("text", "regex", re.escape(said)),)) == "shortlong"


def test_a_long_text_that_was_redacted_is_found_by_what_is_left() -> None:
    logged = LoggedState()
    logged.node("a", text=[LONG + "wanted"], note="quay")
    logged.node("b", text=[LONG + "wanted"], note="quay")
    masks = logged.redact("a", ["attrs.note"])
    query = {"conditions": (Condition("text", "regex", "x+wanted"),)}
    assert found(logged, **query) == "ab"
    logged.scrub(masks)
    assert found(logged, **query) == "ab"
    logged.scrub(logged.redact("a", ["attrs.text"]))
    assert found(logged, **query) == "b"


def test_an_expression_does_not_pass_over_a_line_that_is_damaged() -> None:
    logged = LoggedState()
    logged.node("other", text=LONG + "other")
    logged.node("a", text=LONG + "wanted")
    other, offset = logged.lines[logged.offsets[-2]], logged.offsets[-1]
    sound = logged.lines[offset]

    def line(offset: int, *, checked: bool = True) -> bytes:
        if checked:
            raise Corrupt("no redaction explains it")
        return logged.lines[offset]

    state = logged.follow(State(line))
    for damaged in (sound.replace(b"wanted", b"wantad"), sound[:-40], b"", sound[::-1], other):
        logged.lines[offset] = damaged
        with pytest.raises(Corrupt):
            finished(state.search(Query(conditions=(Condition("text", "regex", "wanted"),))))


def test_an_answer_is_of_the_moment_it_was_asked_for() -> None:
    logged = LoggedState()
    for number in range(2_000):
        logged.node(f"n{number}", text=LONG)
    answer = logged.state.search(Query(conditions=(Condition("text", "eq", LONG),)))
    next(answer)
    logged.node("n1999", text="other")
    logged.delete("n1998")
    logged.node("new", text=LONG)
    assert finished(answer).total == 2_000


def test_an_order_that_was_given_up_half_way_is_made_by_the_next_who_asks() -> None:
    logged = LoggedState()
    for number in range(20_000):
        logged.node(f"n{number}", rank=number)
    query = Query(conditions=(Condition("rank", "gte", 19_990),))
    abandoned = logged.state.search(query)
    next(abandoned)
    second = logged.state.search(query)
    next(second)
    abandoned.close()
    assert finished(second).total == 10
    logged.node("late", rank=30_000)
    assert finished(logged.state.search(query)).total == 11


def test_values_that_come_and_go_while_an_order_is_made_find_their_place_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_values, "_RUN", 1)
    logged = LoggedState()
    for number in range(10):
        logged.node(f"n{number}", rank=number)
    answer = logged.state.search(Query(conditions=(Condition("rank", "gte", 0),)))
    next(answer)
    logged.node("new", rank=4.5)
    logged.node("n7", rank=-1)
    assert finished(answer).total == 10
    assert found(logged, conditions=(Condition("rank", "gt", 4), Condition("rank", "lte", 5))) == "n5new"
    assert found(logged, conditions=(Condition("rank", "gte", 7),)) == "n8n9"


def test_an_answer_is_not_misled_by_commits_that_were_undone_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "_BREATH", 1)
    logged = LoggedState()
    for number in range(10):
        logged.node(f"n{number}", rank=number)
    query = Query(conditions=(Condition("rank", "gte", 0),))
    assert finished(logged.state.search(query)).total == 10
    answer = logged.state.search(query)
    next(answer)
    logged.node("n8", rank=-1)
    next(answer)
    logged.undo(1)
    logged.node("n9", rank=-1)
    assert finished(answer).total == 10
