"""Redaction in the state: what is shown, what is found, and what must be masked in the log."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from tallystick.commits import Verb, chain
from tallystick.errors import InvalidArgument, NotFound
from tallystick.state import Condition, Query
from tallystick.state.state import State
from tests.state.book import Book, drive
from tests.state.portrait import portrait

MAIL = "ann.with.a.long.name@example.org"
MASK = "[REDACTED]"


def written(**attrs: Any) -> Book:
    book = Book()
    book.node("a", mail=MAIL, **attrs)
    return book


def attrs_of(book: Book, at: int | None = None) -> dict[str, Any]:
    node = book.state.node("a", at)
    assert node is not None
    return node.attrs


def found(state: State, key: str, value: Any) -> int:
    return drive(state.search(Query(conditions=(Condition(key, "eq", value),)))).total


def test_a_redacted_value_is_neither_shown_nor_found_before_and_after_the_log_is_masked() -> None:
    book = written(name="Ann")
    masks = book.redact("a", ["attrs.mail"])
    for _ in range(2):
        assert attrs_of(book) == {"mail": MASK, "name": "Ann"}
        assert found(book.state, "mail", MAIL) == found(book.state, "mail", MASK) == 0
        assert found(book.state, "name", "Ann") == 1
        book.scrub(masks)
    assert attrs_of(book, at=1) == {"mail": MASK, "name": "Ann"}


def test_provenance_is_that_of_the_redaction() -> None:
    book = written()
    book.redact("a", actor="officer")
    node = book.state.node("a")
    assert node is not None
    assert (node.provenance.updated_by, node.provenance.created_by, node.provenance.lamport) == ("officer", "ann", 2)


def test_every_earlier_version_is_masked_and_what_is_left_is_vouched_for() -> None:
    book = written(n=1)
    book.node("a", mail=MAIL, n=2)
    book.node("a", n=3)
    plan = book.state.redaction("a", ("attrs.mail",))
    assert list(plan.redacts) == ["1", "2"]
    assert list(plan.masks) == book.offsets[:2]
    assert [sha256(payload).hexdigest() for payload in plan.masks.values()] == list(plan.redacts.values())
    book.scrub(plan.masks)
    for line in list(book.lines.values())[:2]:
        assert MAIL.encode() not in line
        assert chain.decode(line).document()["attrs"]["mail"] == MASK


def test_a_value_that_the_word_does_not_fit_into_goes_without_trace_in_the_log_but_not_for_readers() -> None:
    book = Book()
    book.node("a", pin=1, mail=MAIL, at={"no": 7})
    masks = book.redact("a", ["attrs.pin", "attrs.at.no"])
    (payload,) = masks.values()
    assert len(payload) <= len(chain.payload_of(book.lines[0]))
    book.scrub(masks)
    assert chain.decode(book.lines[0]).document()["attrs"] == {"mail": MAIL, "at": {}}
    assert attrs_of(book) == {"pin": MASK, "mail": MAIL, "at": {"no": MASK}}


def test_the_word_replaces_short_values_where_long_ones_make_room() -> None:
    book = written(pin=1)
    (payload,) = book.state.redaction("a", None).masks.values()
    assert b'"attrs":{"mail":"[REDACTED]","pin":"[REDACTED]"}' in payload


def test_nothing_named_means_everything() -> None:
    book = written(deep={"er": [1, {"x": 2}]})
    book.scrub(book.redact("a"))
    assert set(attrs_of(book)) <= {"mail", "deep"}
    assert set(attrs_of(book).values()) == {MASK}
    assert book.state._columns.attributes.keys == {}


@pytest.mark.parametrize("text", ["", "1", "as long a text as it takes"])
@pytest.mark.parametrize("value", ["0123456789", "1", MAIL])
def test_content_goes_with_everything_and_always_fits(text: str, value: str) -> None:
    book = Book()
    content = {"format": "md", "encoding": "utf-8", "text": text}
    payload = {"id": "a", "type": "note", "attrs": {"k": value}, "content": content}
    book.write(Verb.UPSERT_NODE, payload)
    book.scrub(book.redact("a", ["attrs.k"]))
    shown = book.state.node("a")
    assert shown is not None
    assert shown.content == content
    book.scrub(book.redact("a"))
    shown = book.state.node("a")
    assert shown is not None
    assert shown.content == content | {"text": MASK}
    assert text == "" or text.encode() not in book.lines[0].partition(b'"text":')[2]


@pytest.mark.parametrize(
    ("attrs", "field", "left"),
    [
        ({"a": {"b": MAIL, "c": 1}}, "attrs.a.b", {"a": {"b": MASK, "c": 1}}),
        ({"a": {"b": {"c": MAIL}}}, "attrs.a", {"a": MASK}),
        ({"a.b": MAIL, "a": {"b": MAIL}}, "attrs.a.b", {"a.b": MASK, "a": {"b": MASK}}),
        ({"l": [{"b": MAIL}, {"c": 1}, 5]}, "attrs.l.b", {"l": [{"b": MASK}, {"c": 1}, 5]}),
    ],
)
def test_paths_lead_into_objects_lists_and_names_with_dots(
    attrs: dict[str, Any], field: str, left: dict[str, Any]
) -> None:
    book = Book()
    book.node("a", **attrs)
    book.scrub(book.redact("a", [field]))
    assert chain.decode(book.lines[0]).document()["attrs"] == left


def test_what_is_masked_already_is_left_alone_until_more_is_to_go() -> None:
    book = written(name="Ann Example")
    book.scrub(book.redact("a", ["attrs.mail"]))
    assert book.state.redaction("a", ("attrs.mail",)).masks == {}
    again = book.state.redaction("a", ("attrs.mail", "attrs.name"))
    assert list(again.redacts) == ["1"]
    book.scrub(again.masks)
    assert chain.decode(book.lines[0]).document()["attrs"] == {"mail": MASK, "name": MASK}


def test_a_deleted_node_can_be_redacted_and_one_that_never_was_cannot() -> None:
    book = written()
    book.delete("a")
    assert list(book.state.redaction("a", None).redacts) == ["1"]
    book.scrub(book.redact("a"))
    assert book.state.node("a") is None
    with pytest.raises(NotFound):
        book.state.redaction("x", None)


@pytest.mark.parametrize("field", ["id", "type", "mail", "attrsmail", ""])
def test_only_attributes_can_be_redacted(field: str) -> None:
    with pytest.raises(InvalidArgument):
        written().state.redaction("a", (field,))


def test_what_is_written_after_a_redaction_is_shown_and_found() -> None:
    book = written()
    book.scrub(book.redact("a", ["attrs.mail"]))
    book.node("a", mail="new@example.org")
    assert attrs_of(book) == {"mail": "new@example.org"}
    assert found(book.state, "mail", "new@example.org") == 1


def test_undoing_a_redaction_brings_back_what_was_not_yet_masked() -> None:
    book = written(n=1)
    before = portrait(book.state)
    book.redact("a", ["attrs.mail"])
    book.undo(1)
    assert portrait(book.state) == before
    assert found(book.state, "mail", MAIL) == 1


LATE: dict[str, list[tuple[Verb, dict[str, Any]]]] = {
    "at once": [],
    "after a new version": [(Verb.UPSERT_NODE, {"id": "a", "type": "note", "attrs": {"n": 2}})],
    "after its deletion": [(Verb.DELETE_NODE, {"node_id": "a"})],
    "after a name with a dot took its place": [
        (Verb.UPSERT_NODE, {"id": "a", "type": "note", "attrs": {"deep.mail": "x"}})
    ],
}


@pytest.mark.parametrize("meanwhile", LATE)
def test_who_hears_of_a_redaction_when_the_log_is_masked_already_forgets_too(meanwhile: str) -> None:
    """Its index was made from lines that say something else now."""
    book = written(deep={"mail": MAIL}, **{"deep.mail": 3})
    book.node("b", deep={"mail": "other"})
    late = book.replayed()
    for verb, payload in LATE[meanwhile]:
        book.write(verb, payload)
    book.scrub(book.redact("a", ["attrs.mail", "attrs.deep"]))
    book.follow(late)
    assert found(late, "mail", MAIL) == found(late, "deep.mail", MAIL) == 0
    assert portrait(late) == portrait(book.state)
