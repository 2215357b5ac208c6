"""The mask: what a redaction leaves looks the same whatever was there, and always fits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.commits.canonical import canonical_bytes
from tallystick.commits.mask import REDACTED, fitted, redact, unabridged
from tallystick.errors import Corrupt

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


def test_a_field_that_is_not_there_is_not_invented() -> None:
    said = document({"a": 1, "l": [{"b": 2}]})
    assert redact(said, ["attrs.z", "attrs.a.b", "attrs.l.c", "attrs.l.b.c"]) == said


def test_an_unlucky_document_is_left_as_it_is() -> None:
    """Whole payloads begin with another name, whatever is in them."""
    payload = canonical_bytes(document({"*0": {"a": 0}, "payload": {"*0": {"a": 0}}}))
    assert unabridged(payload) == payload


@pytest.mark.parametrize("payload", [b'{"*":{}}', b'{"*x":{}}', b'{"*0', b'{"*0":{}'])
def test_what_nobody_abridged_is_damage(payload: bytes) -> None:
    with pytest.raises(Corrupt):
        unabridged(payload)
