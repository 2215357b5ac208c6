"""Redaction in the state: what is shown, what is found, and what must be masked in the log."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from tallystick.commits import Verb, chain
from tallystick.commits.canonical import canonical_bytes
from tallystick.errors import InvalidArgument, NotFound
from tallystick.extensions.ontology import members
from tallystick.state import Condition, Query, Walk
from tallystick.state.ontology import ConnectionType
from tallystick.state.state import State
from tallystick.system.turns import finished
from tests.promises import promise
from tests.state.logged_state import LoggedState
from tests.state.state_dump import dump_state

MAIL = "ann.with.a.long.name@example.org"
MASK = "[REDACTED]"


def written(**attrs: Any) -> LoggedState:
    logged = LoggedState()
    logged.node("a", mail=MAIL, **attrs)
    return logged


def attrs_of(logged: LoggedState, at: int | None = None) -> dict[str, Any]:
    node = logged.state.node("a", at)
    assert node is not None
    return node.attrs


def found(state: State, key: str, value: Any) -> int:
    return finished(state.search(Query(conditions=(Condition(key, "eq", value),)))).total


def test_a_redacted_value_is_neither_shown_nor_found_before_and_after_the_log_is_masked() -> None:
    logged = written(name="Ann")
    masks = logged.redact("a", ["attrs.mail"])
    for _ in range(2):
        assert attrs_of(logged) == {"mail": MASK, "name": "Ann"}
        assert found(logged.state, "mail", MAIL) == found(logged.state, "mail", MASK) == 0
        assert found(logged.state, "name", "Ann") == 1
        logged.scrub(masks)
    assert attrs_of(logged, at=1) == {"mail": MASK, "name": "Ann"}


def test_provenance_is_that_of_the_redaction() -> None:
    logged = written()
    logged.redact("a", actor="officer")
    node = logged.state.node("a")
    assert node is not None
    assert (node.provenance.updated_by, node.provenance.created_by, node.provenance.lamport) == ("officer", "ann", 2)


def test_every_earlier_version_is_masked_and_what_is_left_is_vouched_for() -> None:
    logged = written(n=1)
    logged.node("a", mail=MAIL, n=2)
    logged.node("a", n=3)
    redacts = finished(logged.state.redaction("a", ("attrs.mail",)))
    assert set(redacts) == {"1", "2"}
    masks = logged.masks(redacts, ("attrs.mail",))
    assert [sha256(payload).hexdigest() for payload in masks.values()] == list(redacts.values())
    logged.scrub(masks)
    for line in list(logged.lines.values())[:2]:
        assert MAIL.encode() not in line
        assert chain.decode(line).document()["attrs"]["mail"] == MASK


@promise("L51, short values", "a short value is shown like a long one, and no field is invented")
def test_a_value_that_the_word_does_not_fit_into_looks_like_any_other_to_every_reader() -> None:
    logged = LoggedState()
    logged.node("a", pin=1, mail=MAIL, at={"no": 7})
    logged.edge("a", "to", "a", n=1, kept=0)
    length = [len(line) for line in logged.lines.values()]
    masks = logged.redact("a", ["attrs.pin", "attrs.at.no"]) | logged.redact_edge("a|to|a", ["attrs.n"])
    shown = {"pin": MASK, "mail": MAIL, "at": {"no": MASK}}
    for _ in range(2):
        assert attrs_of(logged) == shown
        edge = logged.state.edge("a", "to", "a")
        assert edge is not None
        assert edge.attrs == {"kept": 0, "n": MASK}
        assert found(logged.state, "pin", 0) == found(logged.state, "pin", 1) == 0
        logged.scrub(masks)
    assert [len(line) for line in logged.lines.values()][:2] == length
    assert attrs_of(logged, at=1) == chain.decode(logged.lines[0]).document()["attrs"] == shown
    past = logged.state.edge("a", "to", "a", 2)
    assert past is not None
    assert past.attrs == {"kept": 0, "n": MASK}
    assert dump_state(logged.replayed()) == dump_state(logged.state)


def test_a_field_that_is_not_there_is_not_invented() -> None:
    logged = written(at={"no": 7})
    logged.node("a", name="Ann")
    masks = logged.redact("a", ["attrs.mail", "attrs.nickname", "attrs.at.street"])
    for _ in range(2):
        assert attrs_of(logged) == {"name": "Ann"}
        logged.scrub(masks)
    assert attrs_of(logged, at=1) == {"mail": MASK, "at": {"no": 7}}


def test_lines_that_were_masked_when_short_values_went_with_their_names_are_still_read() -> None:
    logged = LoggedState()
    content = {"format": "md", "encoding": "utf-8", "text": "hi"}
    logged.write(Verb.UPSERT_NODE, {"id": "a", "type": "note", "attrs": {"pin": 1, "mail": MAIL}, "content": content})
    left = {"id": "a", "type": "note", "attrs": {"mail": MASK}, "content": content | {"text": ""}}
    masked = canonical_bytes(left)
    said = {"node_id": "a", "reason": "asked"}
    logged.write(Verb.REDACT_NODE, said, redacts={"1": sha256(masked).hexdigest()})
    logged.scrub({0: masked})
    for state in (logged.state, logged.replayed()):
        node = state.node("a")
        assert node is not None
        assert (node.attrs, node.content) == ({"mail": MASK}, content | {"text": MASK})


def test_the_word_replaces_short_values_where_long_ones_make_room() -> None:
    logged = written(pin=1)
    (payload,) = logged.masks(finished(logged.state.redaction("a", None)), None).values()
    assert b'"attrs":{"mail":"[REDACTED]","pin":"[REDACTED]"}' in payload


def test_nothing_named_means_everything() -> None:
    logged = written(deep={"er": [1, {"x": 2}]})
    logged.scrub(logged.redact("a"))
    assert attrs_of(logged) == {"mail": MASK, "deep": MASK}
    assert logged.state._columns.attributes.keys == {}


@pytest.mark.parametrize("text", ["", "1", "as long a text as it takes"])
@pytest.mark.parametrize("value", ["0123456789", "1", MAIL])
def test_content_goes_with_everything_and_always_fits(text: str, value: str) -> None:
    logged = LoggedState()
    content = {"format": "md", "encoding": "utf-8", "text": text}
    payload = {"id": "a", "type": "note", "attrs": {"k": value}, "content": content}
    logged.write(Verb.UPSERT_NODE, payload)
    logged.scrub(logged.redact("a", ["attrs.k"]))
    shown = logged.state.node("a")
    assert shown is not None
    assert shown.content == content
    logged.scrub(logged.redact("a"))
    shown = logged.state.node("a")
    assert shown is not None
    assert shown.content == content | {"text": MASK}
    assert text == "" or text.encode() not in logged.lines[0].partition(b'"text":')[2]


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
    logged = LoggedState()
    logged.node("a", **attrs)
    logged.scrub(logged.redact("a", [field]))
    assert chain.decode(logged.lines[0]).document()["attrs"] == left


def test_what_is_masked_already_is_left_alone_until_more_is_to_go() -> None:
    logged = written(name="Ann Example")
    logged.scrub(logged.redact("a", ["attrs.mail"]))
    assert finished(logged.state.redaction("a", ("attrs.mail",))) == {}
    again = finished(logged.state.redaction("a", ("attrs.mail", "attrs.name")))
    assert list(again) == ["1"]
    logged.scrub(logged.masks(again, ("attrs.mail", "attrs.name")))
    assert chain.decode(logged.lines[0]).document()["attrs"] == {"mail": MASK, "name": MASK}


def test_a_deleted_node_can_be_redacted_and_one_that_never_was_cannot() -> None:
    logged = written()
    logged.delete("a")
    assert list(finished(logged.state.redaction("a", None))) == ["1"]
    logged.scrub(logged.redact("a"))
    assert logged.state.node("a") is None
    with pytest.raises(NotFound):
        finished(logged.state.redaction("x", None))


@pytest.mark.parametrize("field", ["id", "type", "mail", "attrsmail", ""])
def test_only_attributes_can_be_redacted(field: str) -> None:
    with pytest.raises(InvalidArgument):
        finished(written().state.redaction("a", (field,)))


def test_what_is_written_after_a_redaction_is_shown_and_found() -> None:
    logged = written()
    logged.scrub(logged.redact("a", ["attrs.mail"]))
    logged.node("a", mail="new@example.org")
    assert attrs_of(logged) == {"mail": "new@example.org"}
    assert found(logged.state, "mail", "new@example.org") == 1


def test_undoing_a_redaction_brings_back_what_was_not_yet_masked() -> None:
    logged = written(n=1)
    before = dump_state(logged.state)
    logged.redact("a", ["attrs.mail"])
    logged.undo(1)
    assert dump_state(logged.state) == before
    assert found(logged.state, "mail", MAIL) == 1


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
    logged = written(deep={"mail": MAIL}, **{"deep.mail": 3})
    logged.node("b", deep={"mail": "other"})
    late = logged.replayed()
    for verb, payload in LATE[meanwhile]:
        logged.write(verb, payload)
    logged.scrub(logged.redact("a", ["attrs.mail", "attrs.deep"]))
    logged.follow(late)
    assert found(late, "mail", MAIL) == found(late, "deep.mail", MAIL) == 0
    assert dump_state(late) == dump_state(logged.state)


# -- edges


def joined(*, id: str | None = None, **attrs: Any) -> LoggedState:
    logged = LoggedState()
    logged.node("a", mail=MAIL)
    logged.node("b")
    logged.edge("a", "knows", "b", id=id, note=MAIL, **attrs)
    return logged


def edge_attrs(logged: LoggedState, edge_id: str = "a|knows|b", at: int | None = None) -> dict[str, Any]:
    edge = logged.state.edge_by_id(edge_id, at)
    assert edge is not None
    return edge.attrs


@pytest.mark.parametrize("id", [None, "mine"])
def test_an_edge_is_redacted_like_a_node_before_and_after_the_log_is_masked(id: str | None) -> None:
    logged = joined(id=id, since=2001)
    logged.edge("a", "knows", "b", id=id, note=MAIL, since=2002)
    name = id or "a|knows|b"
    masks = logged.redact_edge(name, ["attrs.note"], actor="officer")
    for _ in range(2):
        assert edge_attrs(logged, name) == {"note": MASK, "since": 2002}
        (path,) = finished(logged.state.walk(Walk(start="a", hops=1))).paths
        assert path.edges[0].attrs == {"note": MASK, "since": 2002}
        logged.scrub(masks)
    assert edge_attrs(logged, name, at=3) == {"note": MASK, "since": 2001}
    assert attrs_of(logged) == {"mail": MAIL}
    assert [MAIL.encode() in line for line in logged.lines.values()] == [True, False, False, False, False]
    lineage = logged.state.lineage(name, "direct", 0, 9)
    assert lineage is not None
    assert [(step.action, step.commit.actor) for step in lineage.steps] == [
        ("CREATE_EDGE", "ann"), ("UPDATE_EDGE", "ann"), ("REDACT_EDGE", "officer"),
    ]  # fmt: skip
    assert MAIL not in str(lineage)


def test_the_content_of_an_edge_goes_with_everything_it_says() -> None:
    logged = joined()
    content = {"format": "md", "encoding": "utf-8", "text": f"Dear {MAIL}"}
    logged.write(
        Verb.UPSERT_EDGE, {"from": "a", "rel": "knows", "to": "b", "attrs": {"note": MAIL}, "content": content}
    )
    logged.scrub(logged.redact_edge("a|knows|b"))
    edge = logged.state.edge("a", "knows", "b")
    assert edge is not None
    assert (edge.attrs, edge.content) == ({"note": MASK}, content | {"text": MASK})
    assert MAIL.encode() not in b"".join(list(logged.lines.values())[2:])


def test_a_deleted_edge_can_be_redacted_and_stays_deleted() -> None:
    logged = joined()
    logged.delete_edge("a", "knows", "b")
    logged.scrub(logged.redact_edge("a|knows|b"))
    assert logged.state.edge("a", "knows", "b") is None
    assert edge_attrs(logged, at=3) == {"note": MASK}
    assert logged.state.edge_by_id("a|knows|b", 4) is None
    with pytest.raises(NotFound):
        finished(logged.state.edge_redaction("a|never|b", None))


def test_an_edge_written_again_after_its_redaction_is_shown_and_undoing_that_leaves_it_redacted() -> None:
    logged = joined()
    logged.scrub(logged.redact_edge("a|knows|b"))
    before = dump_state(logged.state)
    logged.edge("a", "knows", "b", note="new")
    assert edge_attrs(logged) == {"note": "new"}
    logged.undo(1)
    assert dump_state(logged.state) == before
    assert edge_attrs(logged) == {"note": MASK}


def test_what_the_edges_of_a_node_say_is_found_dead_or_alive_and_once() -> None:
    logged = joined()
    logged.edge("b", "knows", "a", id="back", note=MAIL)
    logged.edge("a", "loops", "a", note=MAIL)
    logged.edge("a", "silent", "b")
    logged.delete_edge("b", "knows", "a", id="back")
    found = list(logged.state.edge_redactions("a"))
    assert [name.get("id") or name["rel"] for name, _ in found] == ["knows", "back", "loops"]
    for _, redacts in found:
        logged.scrub(logged.masks(redacts, None))
    assert list(logged.state.edge_redactions("a")) == []


def test_an_index_that_was_built_before_a_redaction_does_not_find_what_it_forgot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(members, "_FEW", 0)
    logged = joined(since=2001)
    knows = ConnectionType("knows", ("note",), ("note",))

    def having(key: str, value: Any) -> list[str]:
        return finished(members.find_connections(logged.state, [knows], {key: value}, offset=0, limit=9)).ids

    assert having("note", MAIL) == ["a|knows|b"]
    logged.scrub(logged.redact_edge("a|knows|b", ["attrs.note"]))
    logged.edge("a", "knows", "b", note="new", since=2002)
    assert having("note", MAIL) == []
    assert having("note", "new") == having("since", 2002) == ["a|knows|b"]
