"""Redaction in the state: what is shown, what is found, and what must be masked in the log."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from tallystick.commits import Verb, chain
from tallystick.commits.canonical import canonical_bytes
from tallystick.errors import InvalidArgument, NotFound
from tallystick.state import Condition, Query, Walk, type_members
from tallystick.state.ontology import ConnectionType
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
    redacts = book.state.redaction("a", ("attrs.mail",))
    assert set(redacts) == {"1", "2"}
    masks = book.masks(redacts, ("attrs.mail",))
    assert [sha256(payload).hexdigest() for payload in masks.values()] == list(redacts.values())
    book.scrub(masks)
    for line in list(book.lines.values())[:2]:
        assert MAIL.encode() not in line
        assert chain.decode(line).document()["attrs"]["mail"] == MASK


def test_a_value_that_the_word_does_not_fit_into_looks_like_any_other_to_every_reader() -> None:
    book = Book()
    book.node("a", pin=1, mail=MAIL, at={"no": 7})
    book.edge("a", "to", "a", n=1, kept=0)
    length = [len(line) for line in book.lines.values()]
    masks = book.redact("a", ["attrs.pin", "attrs.at.no"]) | book.redact_edge("a|to|a", ["attrs.n"])
    shown = {"pin": MASK, "mail": MAIL, "at": {"no": MASK}}
    for _ in range(2):
        assert attrs_of(book) == shown
        edge = book.state.edge("a", "to", "a")
        assert edge is not None
        assert edge.attrs == {"kept": 0, "n": MASK}
        assert found(book.state, "pin", 0) == found(book.state, "pin", 1) == 0
        book.scrub(masks)
    assert [len(line) for line in book.lines.values()][:2] == length
    assert attrs_of(book, at=1) == chain.decode(book.lines[0]).document()["attrs"] == shown
    past = book.state.edge("a", "to", "a", 2)
    assert past is not None
    assert past.attrs == {"kept": 0, "n": MASK}
    assert portrait(book.replayed()) == portrait(book.state)


def test_a_field_that_is_not_there_is_not_invented() -> None:
    book = written(at={"no": 7})
    book.node("a", name="Ann")
    masks = book.redact("a", ["attrs.mail", "attrs.nickname", "attrs.at.street"])
    for _ in range(2):
        assert attrs_of(book) == {"name": "Ann"}
        book.scrub(masks)
    assert attrs_of(book, at=1) == {"mail": MASK, "at": {"no": 7}}


def test_lines_that_were_masked_when_short_values_went_with_their_names_are_still_read() -> None:
    book = Book()
    content = {"format": "md", "encoding": "utf-8", "text": "hi"}
    book.write(Verb.UPSERT_NODE, {"id": "a", "type": "note", "attrs": {"pin": 1, "mail": MAIL}, "content": content})
    left = {"id": "a", "type": "note", "attrs": {"mail": MASK}, "content": content | {"text": ""}}
    masked = canonical_bytes(left)
    said = {"node_id": "a", "reason": "asked"}
    book.write(Verb.REDACT_NODE, said, redacts={"1": sha256(masked).hexdigest()})
    book.scrub({0: masked})
    for state in (book.state, book.replayed()):
        node = state.node("a")
        assert node is not None
        assert (node.attrs, node.content) == ({"mail": MASK}, content | {"text": MASK})


def test_the_word_replaces_short_values_where_long_ones_make_room() -> None:
    book = written(pin=1)
    (payload,) = book.masks(book.state.redaction("a", None), None).values()
    assert b'"attrs":{"mail":"[REDACTED]","pin":"[REDACTED]"}' in payload


def test_nothing_named_means_everything() -> None:
    book = written(deep={"er": [1, {"x": 2}]})
    book.scrub(book.redact("a"))
    assert attrs_of(book) == {"mail": MASK, "deep": MASK}
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
    assert book.state.redaction("a", ("attrs.mail",)) == {}
    again = book.state.redaction("a", ("attrs.mail", "attrs.name"))
    assert list(again) == ["1"]
    book.scrub(book.masks(again, ("attrs.mail", "attrs.name")))
    assert chain.decode(book.lines[0]).document()["attrs"] == {"mail": MASK, "name": MASK}


def test_a_deleted_node_can_be_redacted_and_one_that_never_was_cannot() -> None:
    book = written()
    book.delete("a")
    assert list(book.state.redaction("a", None)) == ["1"]
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


# -- edges


def joined(*, id: str | None = None, **attrs: Any) -> Book:
    book = Book()
    book.node("a", mail=MAIL)
    book.node("b")
    book.edge("a", "knows", "b", id=id, note=MAIL, **attrs)
    return book


def edge_attrs(book: Book, edge_id: str = "a|knows|b", at: int | None = None) -> dict[str, Any]:
    edge = book.state.edge_by_id(edge_id, at)
    assert edge is not None
    return edge.attrs


@pytest.mark.parametrize("id", [None, "mine"])
def test_an_edge_is_redacted_like_a_node_before_and_after_the_log_is_masked(id: str | None) -> None:
    book = joined(id=id, since=2001)
    book.edge("a", "knows", "b", id=id, note=MAIL, since=2002)
    name = id or "a|knows|b"
    masks = book.redact_edge(name, ["attrs.note"], actor="officer")
    for _ in range(2):
        assert edge_attrs(book, name) == {"note": MASK, "since": 2002}
        (path,) = drive(book.state.walk(Walk(start="a", hops=1))).paths
        assert path.edges[0].attrs == {"note": MASK, "since": 2002}
        book.scrub(masks)
    assert edge_attrs(book, name, at=3) == {"note": MASK, "since": 2001}
    assert attrs_of(book) == {"mail": MAIL}
    assert [MAIL.encode() in line for line in book.lines.values()] == [True, False, False, False, False]
    lineage = book.state.lineage(name, "direct", 0, 9)
    assert lineage is not None
    assert [(step.action, step.commit.actor) for step in lineage.steps] == [
        ("CREATE_EDGE", "ann"), ("UPDATE_EDGE", "ann"), ("REDACT_EDGE", "officer"),
    ]  # fmt: skip
    assert MAIL not in str(lineage)


def test_the_content_of_an_edge_goes_with_everything_it_says() -> None:
    book = joined()
    content = {"format": "md", "encoding": "utf-8", "text": f"Dear {MAIL}"}
    book.write(Verb.UPSERT_EDGE, {"from": "a", "rel": "knows", "to": "b", "attrs": {"note": MAIL}, "content": content})
    book.scrub(book.redact_edge("a|knows|b"))
    edge = book.state.edge("a", "knows", "b")
    assert edge is not None
    assert (edge.attrs, edge.content) == ({"note": MASK}, content | {"text": MASK})
    assert MAIL.encode() not in b"".join(list(book.lines.values())[2:])


def test_a_deleted_edge_can_be_redacted_and_stays_deleted() -> None:
    book = joined()
    book.delete_edge("a", "knows", "b")
    book.scrub(book.redact_edge("a|knows|b"))
    assert book.state.edge("a", "knows", "b") is None
    assert edge_attrs(book, at=3) == {"note": MASK}
    assert book.state.edge_by_id("a|knows|b", 4) is None
    with pytest.raises(NotFound):
        book.state.edge_redaction("a|never|b", None)


def test_an_edge_written_again_after_its_redaction_is_shown_and_undoing_that_leaves_it_redacted() -> None:
    book = joined()
    book.scrub(book.redact_edge("a|knows|b"))
    before = portrait(book.state)
    book.edge("a", "knows", "b", note="new")
    assert edge_attrs(book) == {"note": "new"}
    book.undo(1)
    assert portrait(book.state) == before
    assert edge_attrs(book) == {"note": MASK}


def test_what_the_edges_of_a_node_say_is_found_dead_or_alive_and_once() -> None:
    book = joined()
    book.edge("b", "knows", "a", id="back", note=MAIL)
    book.edge("a", "loops", "a", note=MAIL)
    book.edge("a", "silent", "b")
    book.delete_edge("b", "knows", "a", id="back")
    found = list(book.state.edge_redactions("a"))
    assert [name.get("id") or name["rel"] for name, _ in found] == ["knows", "back", "loops"]
    for _, redacts in found:
        book.scrub(book.masks(redacts, None))
    assert list(book.state.edge_redactions("a")) == []


def test_an_index_that_was_built_before_a_redaction_does_not_find_what_it_forgot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(type_members, "_FEW", 0)
    book = joined(since=2001)
    knows = ConnectionType("knows", ("note",), ("note",))

    def having(key: str, value: Any) -> list[str]:
        return drive(type_members.find_connections(book.state, [knows], {key: value}, offset=0, limit=9)).ids

    assert having("note", MAIL) == ["a|knows|b"]
    book.scrub(book.redact_edge("a|knows|b", ["attrs.note"]))
    book.edge("a", "knows", "b", note="new", since=2002)
    assert having("note", MAIL) == []
    assert having("note", "new") == having("since", 2002) == ["a|knows|b"]
