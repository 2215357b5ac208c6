"""The mask: what a redaction leaves looks the same whatever was there, and always fits."""

from __future__ import annotations

import secrets
from hashlib import sha256
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.commits.canonical import canonical_bytes, parse
from tallystick.commits.mask import REDACTED, fitted, is_field, redact, tag_name, unabridged
from tallystick.errors import Corrupt, InvalidArgument

NAMES = st.sampled_from(["a", "b", "a.b", "", "ü", "*"])
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-1, 8), st.floats(-2, 2), st.text(max_size=12), st.just(REDACTED)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
CONTENTS = st.builds(lambda text: {"encoding": "utf-8", "format": "md", "text": text}, st.text(max_size=12))
FIELDS = st.none() | st.lists(st.sampled_from(["attrs", "attrs.a", "attrs.a.b", "attrs.b", "attrs.z"]), max_size=3)


def document(attrs: dict[str, Any], content: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"id": "n", "type": "note", "attrs": attrs} | ({} if content is None else {"content": content})


def left_of(said: dict[str, Any], fields: list[str] | None) -> bytes:
    return fitted(redact(said, fields), len(canonical_bytes(said)))


@given(st.dictionaries(NAMES, VALUES, max_size=4), st.none() | CONTENTS, FIELDS, FIELDS)
def test_what_is_left_fits_and_reads_as_if_there_had_been_room(
    attrs: dict[str, Any], content: dict[str, Any] | None, first: list[str] | None, second: list[str] | None
) -> None:
    said = document(attrs, content)
    room, shown = len(canonical_bytes(said)), said
    for fields in (first, second):
        shown = redact(shown, fields)
        payload = fitted(shown, room)
        assert len(payload) <= room
        assert unabridged(payload) == canonical_bytes(shown)
        assert unabridged(unabridged(payload)) == canonical_bytes(shown)


@pytest.mark.parametrize(
    ("attrs", "fields", "payload"),
    [
        ({"mail": "a@b.c", "pin": 4}, ["attrs.pin"], b'{"*0":{"mail":"a@b.c","pin":0},"id":"n","type":"note"}'),
        ({"n": 0, "o": 1, "pin": 4}, ["attrs.pin"], b'{"*2":{"n":0,"o":1,"pin":2},"id":"n","type":"note"}'),
        ({"d": {"e": 0}, "l": [{"m": 1}], "p": 4}, ["attrs.p"], b'{"*2":{"d":{"e":0},"l":[{"m":1}],"p":2},"id":"n","type":"note"}'),  # noqa: E501
        ({"at": [{"no": 7}, 0]}, ["attrs.at.no"], b'{"*0":{"at":[{"no":0},0]},"id":"n","type":"note"}'),
        ({"a": "x" * 30, "b": 4}, None, b'{"attrs":{"a":"[REDACTED]","b":"[REDACTED]"},"id":"n","type":"note"}'),
    ],
)  # fmt: skip
def test_the_bytes_that_are_stored(attrs: dict[str, Any], fields: list[str] | None, payload: bytes) -> None:
    assert left_of(document(attrs), fields) == payload


@pytest.mark.parametrize("pins", [1, 2])
def test_ten_digits_that_stay_leave_room_for_a_longer_number(pins: int) -> None:
    said = document({f"d{number}": number for number in range(10)} | {f"pin{number}": 1 for number in range(pins)})
    fields = [f"attrs.pin{number}" for number in range(pins)]
    payload = left_of(said, fields)
    assert payload.startswith(b'{"*10":')
    assert unabridged(payload) == canonical_bytes(redact(said, fields))


def test_where_no_number_fits_the_names_go_too() -> None:
    digits = {f"d{number}": number for number in range(10)}
    said = document(digits | {"x": 1, "y": 2, "z": 3})
    assert unabridged(left_of(said, ["attrs.x", "attrs.y", "attrs.z"])) == canonical_bytes(document(digits))


def test_names_go_from_objects_in_lists_too() -> None:
    digits = {f"d{number}": number for number in range(10)}
    said = document(digits | {"l": [{"x": 1}, {"y": 2}, {"z": 3}, "kept"]})
    left = left_of(said, ["attrs.l.x", "attrs.l.y", "attrs.l.z"])
    assert unabridged(left) == canonical_bytes(document(digits | {"l": [{}, {}, {}, "kept"]}))


@pytest.mark.parametrize(
    ("content", "left"), [({"text": "kept"}, {"content": {"text": "kept"}}), ({"text": REDACTED}, {})]
)
def test_where_names_go_content_stays_unless_it_was_redacted(content: dict[str, Any], left: dict[str, Any]) -> None:
    digits = {f"d{number}": number for number in range(10)}
    said = document(digits | {"x": 1, "y": 2, "z": 3}, content)
    payload = fitted(redact(said, ["attrs.x", "attrs.y", "attrs.z"]), 0)
    assert parse(payload) == document(digits) | left


CONTENT = {"encoding": "utf-8", "format": "md", "title": "a secret", "text": "another"}


def test_content_goes_with_everything_and_stays_when_fields_are_named() -> None:
    said = document({"a": 1, "b": 2}, CONTENT)
    kept = {"encoding": "utf-8", "format": "md", "text": REDACTED}
    assert redact(said, None) == document({"a": REDACTED, "b": REDACTED}, kept)
    assert redact(said, ["attrs.a"]) == document({"a": REDACTED, "b": 2}, CONTENT)


@pytest.mark.parametrize("text", ["", "a text", "nine char", "a text that is longer than the word"])
def test_what_has_no_attributes_is_redacted_and_read_as_well(text: str) -> None:
    said = {"id": "n", "type": "note", "content": {"text": text}}
    left = parse(unabridged(left_of(said, None)))
    assert left.pop("attrs", {}) == {}
    assert left.pop("content", {"text": REDACTED}) == {"text": REDACTED}
    assert left == {"id": "n", "type": "note"}
    assert redact({"node_id": "n"}, None) == {"node_id": "n"}


@pytest.mark.parametrize(
    ("field", "is_one"),
    [
        ("attrs", True),
        ("attrs.a", True),
        ("attrs.a.b", True),
        ("attrs.", False),
        ("attrsx", False),
        ("id", False),
        ("", False),
        ("attrs#0123456789ab", True),
        ("attrs#0123456789a", False),
        ("attrs#0123456789AB", False),
    ],
)
def test_only_attributes_are_fields_of_a_redaction(field: str, is_one: bool) -> None:
    assert is_field(field) is is_one
    if not is_one:
        with pytest.raises(InvalidArgument, match="only attributes can be redacted") as error:
            redact(document({}), ["attrs.a", field])
        assert error.value.message == "only attributes can be redacted"
        assert error.value.problems == [f"'{field}' does not start with 'attrs.'"]


def test_a_name_may_go_with_its_value_and_no_other_does() -> None:
    names = ["mail", "pin", "None", ""]
    for name in names:
        field = tag_name(name, names)
        assert is_field(field)
        assert name not in ("mail", "pin") or name not in field
        assert redact(document(dict.fromkeys(names, 1)), [field]) == document(
            {other: 1 for other in names if other != name}
        )


def test_a_tag_that_is_of_another_name_too_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def tag(salt: str, name: str) -> str:
        return sha256(f"{salt}{name}".encode()).hexdigest()[:4]

    twin = next(f"n{number}" for number in count() if tag("00000000", f"n{number}") == tag("00000000", "mail"))
    salts = iter(["00000000", "00000001"])
    monkeypatch.setattr(secrets, "token_hex", lambda size: next(salts) if size == 4 else "")
    assert tag_name("mail", ["mail", twin]) == f"attrs#00000001{tag('00000001', 'mail')}"


def test_a_field_that_is_not_there_is_not_invented() -> None:
    said = document({"a": 1, "l": [{"b": 2}]})
    assert redact(said, ["attrs.z", "attrs.a.b", "attrs.l.c", "attrs.l.b.c"]) == said


def test_an_unlucky_document_is_left_as_it_is() -> None:
    """Whole payloads begin with another name, whatever is in them."""
    payload = canonical_bytes(document({"*0": {"a": 0}, "payload": {"*0": {"a": 0}}}))
    assert unabridged(payload) == payload


@pytest.mark.parametrize("payload", [b'{"*":{}}', b'{"*x":{}}', b'{"*0', b'{"*0":{}'])
def test_what_nobody_abridged_is_damage(payload: bytes) -> None:
    with pytest.raises(Corrupt, match="the payload is neither whole nor abridged: "):
        unabridged(payload)
