"""Whose refusal it is: the id of a message that was not read, and of no other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.server.request_id import WINDOW_BYTES, Bounded, find_id
from tests.promises import promise

BIG = b"x" * (3 * WINDOW_BYTES)
DEEP = b"[" * (2 * WINDOW_BYTES) + b"]" * (2 * WINDOW_BYTES)

FOUND: dict[str, tuple[bytes, str | int | None]] = {
    "first": (b'{"id":7,"method":"m"}', 7),
    "last": (b'{"method":"m","params":{},"id":"a"}', "a"),
    "with blanks": (b'\r\n { "id" :\t7 , "method":"m"}', 7),
    "behind a byte order mark": (b'\xef\xbb\xbf{"id":7}', 7),
    "escaped": (b'{"\\u0069d":"\\u00e9\\"","method":"m"}', 'é"'),
    "negative": (b'{"id":-3,"method":"m"}', -3),
    "before what is cut off": (b'{"id":7,"method":"m","params":{"x":', 7),
    "before nonsense": (b'{"id":7,"method":nonsense', 7),
    "with NaN": (b'{"params":{"x":NaN},"id":7,"method":"m"}', 7),
    "deep": (b'{"params":' + b"[" * 200 + b"]" * 200 + b',"id":7,"method":"m"}', 7),
    "twice the same": (b'{"id":7,"id":7,"method":"m"}', 7),
    "before a long one": (b'{"id":7,"method":"m","params":{"x":"' + BIG + b'"}}', 7),
    "behind a long one": (b'{"method":"m","params":{"x":"' + BIG + b'"},"id":7}\r', 7),
    "behind a long one with quotes": (b'{"method":"m","params":{"x":"' + BIG + rb"\\\"" + b'"},"id":"\\"7"}', '"7'),
    "behind a deep one": (b'{"method":"m","params":' + DEEP + b',"id":7}', 7),
    "none": (b'{"method":"m"}', None),
    "nested": (b'{"method":"m","params":{"id":7}}', None),
    "nested at the end of a long one": (b'{"method":"m","params":{"x":"' + BIG + b'","id":7}}', None),
    "in a string": (b'{"method":"m","params":{"x":"{\\"id\\":7}"}}', None),
    "in a string at the end of a long one": (b'{"method":"' + BIG + b',\\"id\\":7}"}', None),
    "a value": (b'{"method":"id","params":7}', None),
    "two": (b'{"id":7,"id":8,"method":"m"}', None),
    "two of two kinds": (b'{"id":1,"id":true,"method":"m"}', None),
    "two, far apart": (b'{"id":7,"method":"' + BIG + b'","id":8}', None),
    "a fraction": (b'{"id":7.5,"method":"m"}', None),
    "a large integer": (b'{"id":9007199254740993,"method":"m"}', None),
    "an integer past all bounds": (b'{"id":' + b"9" * 5_000 + b',"method":"m"}', None),
    "half a character": (b'{"id":"\\ud800","method":"m"}', None),
    "no text": (b'{"id":"\xff","method":"m"}', None),
    "null": (b'{"id":null,"method":"m"}', None),
    "an object": (b'{"id":{"id":7},"method":"m"}', None),
    "too long to look at": (b'{"id":"' + BIG + b'","method":"m"}', None),
    "in a batch": (b'[{"id":7,"method":"m"}]', None),
    "of a second message": (b'{"method":"m"}{"id":7}', None),
    "of a reply": (b'{"id":7,"result":{"x":NaN}}', None),
    "of an error": (b'{"id":7,"error":NaN}', None),
    "of nothing": (b"", None),
    "of a string that never ends": (b'"' * 300_000, None),
}


@promise("L23, id", "a refusal carries the request's own id, wherever one can be found")
@pytest.mark.parametrize(("message", "id"), FOUND.values(), ids=FOUND)
def test_the_id_is_the_requests_own_or_none(message: bytes, id: str | int | None) -> None:
    assert find_id(message) == id
    arriving = Bounded(0, is_overlong=True)
    for start in range(0, len(message), 50_000):
        arriving.add(message[start : start + 50_000])
    assert arriving.find_id() == id


_words = st.text('id"\\:,{}[]\u00e9 ', max_size=6)
_values = st.recursive(
    st.none() | st.integers(-3, 3) | _words | st.just(float("nan")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.just("id") | _words, inner, max_size=3),
)


@given(
    st.lists(st.tuples(_words.filter(lambda key: key != "id"), _values), max_size=4),
    st.lists(st.tuples(_words.filter(lambda key: key != "id"), _values), max_size=4),
    st.none() | _words | st.integers(-5, 5),
    st.sampled_from([0, 2 * WINDOW_BYTES]),
    st.booleans(),
)
def test_whatever_stands_around_it_the_id_is_found_and_no_other(
    before: list[tuple[str, Any]], behind: list[tuple[str, Any]], id: str | int | None, padding: int, ascii: bool
) -> None:
    """Long ones have their middle before the id, or behind it, so that only the head or the tail tells."""
    members = [*before, *([] if id is None else [("id", id)]), *behind, ("method", "m")]
    members.insert(0 if ascii else len(members), ("padding", "x" * padding))
    message = "{" + ",".join(f"{json.dumps(k)}:{json.dumps(v, ensure_ascii=ascii)}" for k, v in members) + "}"
    assert find_id(message.encode()) == id


@given(st.binary(max_size=60))
def test_no_bytes_raise_anything(data: bytes) -> None:
    find_id(data)
    find_id(b'{"id":' + data + b" " * WINDOW_BYTES + data)
