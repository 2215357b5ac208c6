"""Strict JSON: large messages are judged faster, and exactly as small ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.formats import strict_json
from tallystick.formats.strict_json import DEPTH_MAX, JsonFault, parse

WORDS = st.sampled_from(
    ["a", "b", "a :", '":', '"', "\\", "[{", "}]", "\u00e9", "1234567890123456789012", "\n", "", "NaN", "\\u0022"]
)
LEAVES = st.one_of(
    st.none(), st.booleans(), st.floats(), st.integers(), st.integers(-(10**25), 10**25), WORDS, st.just(10**350)
)


class Twice(list[tuple[str, Any]]):
    """An object whose keys may stand in it twice."""


VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.lists(st.tuples(WORDS, inner), max_size=4).map(Twice),
    max_leaves=12,
)


def spelled(value: Any, colon: str, comma: str) -> str:
    if isinstance(value, Twice):
        return "{" + comma.join(f"{json.dumps(key)}{colon}{spelled(each, colon, comma)}" for key, each in value) + "}"
    if isinstance(value, list):
        return "[" + comma.join(spelled(each, colon, comma) for each in value) + "]"
    return json.dumps(value)


def judged(text: bytes) -> Any:
    """repr, since 1, 1.0 and True are equal."""
    try:
        return repr(parse(text))
    except JsonFault:
        return JsonFault


@given(
    VALUES,
    st.sampled_from([":", ": ", " :", "\n:\t"]),
    st.sampled_from([",", " , "]),
    st.sampled_from(
        [("", ""), ("", "]"), ("[" * DEPTH_MAX, "]" * DEPTH_MAX), ('"', ""), ("", '"\\ud800"'), ("\ufeff", "")]
    ),
    st.sampled_from([None, ('"', "\\u0022"), (":", "\\u003a"), ("a", "\\u0061")]),
)
def test_what_is_large_is_taken_and_refused_exactly_as_what_is_small(
    value: Any, colon: str, comma: str, around: tuple[str, str], escaped: tuple[str, str] | None
) -> None:
    text = spelled(value, colon, comma)
    if escaped is not None and escaped[0] != '"':
        text = text.replace(*escaped)
    data = f"{around[0]}{text}{around[1]}".encode()
    small = judged(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strict_json, "LARGE_BYTES", 0)
        assert judged(data) == small


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (b',{"a":1,"a":2}]', "a key stands twice in one object"),
        (b',{"a":1,]', "at line 1 column "),
        (b",NaN]", "at line 1 column "),
        (b"," + b"[" * 101 + b"]" * 102, "nested deeper"),
        (b',"\\ud800"]', "at line 1 column "),
    ],
)
def test_what_is_wrong_with_a_large_message_is_said_without_reading_it_slowly(
    end: bytes, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strict_json, "_parse_slowly", None)
    data = b"[" + b",".join(
        b'{"key" : "and some \\u0022text\\" : that is long 1234567890123456789012"}' for _ in range(5_000)
    )
    assert len(data) > strict_json.LARGE_BYTES
    assert len(parse(data + b"]")) == 5_000
    with pytest.raises(JsonFault, match=said):
        parse(data + end)
