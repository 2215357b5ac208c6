"""Strict JSON, the envelope, and lines of any size."""

from __future__ import annotations

import json
import math
import tracemalloc
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.formats.strict_json import DEPTH_MAX
from tallystick.server.jsonrpc import (
    INVALID_REQUEST,
    PARSE_ERROR,
    Lines,
    Overlong,
    Starved,
    WireFault,
    parse,
    parse_message,
)
from tallystick.server.request_id import WINDOW_BYTES

UNREADABLE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "expecting value at line 1 column 1"),
    "words": (b"hello", "expecting value"),
    "half": (b'{"a":', "expecting value at line 1 column 6"),
    "too much": (b"{} {}", "extra data"),
    "not UTF-8": (b'{"a":"\xff"}', "not valid UTF-8 at byte 6"),
    "a byte order mark": (b"\xef\xbb\xbf{}", "BOM"),
    "a control character": (b'"a\x01"', "invalid control character"),
    "a key twice": (b'{"a":1,"a":1}', 'duplicate key "a"'),
    "a key twice inside": (b'[{"b":{"a":1 , "c":2,\n"a" :3}}]', 'duplicate key "a"'),
    "a key twice, escaped": (b'{"a":1,"\\u0061":1}', 'duplicate key "a"'),
    "a key twice beside text like a key": (b'{"a\\\\":1,"a\\\\":2,"b":":x"}', "duplicate key"),
    "NaN": (b'{"a":NaN}', "NaN is not a number"),
    "Infinity": (b"[-Infinity]", "-Infinity is not a number"),
    "a number past all floats": (b"[1e400]", "1e400 is too large"),
    "a number of a thousand digits": (b"1" * 1000, "1000 digits"),
    "a lone high surrogate": (b'"\\ud800"', "lone surrogate"),
    "a lone low surrogate": (b'"\\udc00"', "lone surrogate"),
    "surrogates the wrong way round": (b'"\\ude00\\ud83d"', "lone surrogate"),
    "a surrogate and something else": (b'{"\\ud83d\\u0041":1}', "lone surrogate"),
    "a surrogate beside a duplicate": (b'{"a":"\\ud83dx","a":1}', "lone surrogate"),
    "deep arrays": (b"[" * 101 + b"]" * 101, "deeper than 100"),
    "deeper than any stack": (b"[" * 1_000_000, "depth limit exceeded"),
    "deep objects": (b'{"a":' * 101 + b"1" + b"}" * 101, "deeper than 100"),
    "quotes that never end": (b'"' + b'\\"' * 1_000_000, "unexpected end of data"),
}


@pytest.mark.parametrize(("data", "words"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_has_no_single_meaning_is_refused_and_says_why(data: bytes, words: str) -> None:
    with pytest.raises(WireFault) as caught:
        parse(data)
    assert caught.value.code == PARSE_ERROR
    assert words in caught.value.message
    assert caught.value.reply()["id"] is None


READABLE: dict[str, tuple[bytes, Any]] = {
    "text like a key": (b'{"a":": \\"b\\": ","c":"\\":"}', {"a": ': "b": ', "c": '":'}),
    "a pair of surrogates": (b'"\\ud83d\\ude00"', "\U0001f600"),
    "a pair in the exact way": (b'{"\\":":"\\ud83d\\ude00"}', {'":': "\U0001f600"}),
    "an escaped backslash before u": (b'{"\\":":"\\\\ud800"}', {'":': "\\ud800"}),
    "an integer past 64 bits stays exact": (b"[36893488147419103232]", [2**65]),
    "a negative one just past them too": (b"[-9223372036854775809]", [-(2**63) - 1]),
    "a large float": (b"[1e300]", [1e300]),
    "as deep as allowed": (b"[" * DEPTH_MAX + b"1" + b"]" * DEPTH_MAX, None),
}


@pytest.mark.parametrize(("data", "value"), READABLE.values(), ids=READABLE)
def test_what_only_looks_strange_is_read(data: bytes, value: Any) -> None:
    assert parse(data) == (value if value is not None else json.loads(data))


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text('ab":\\ \ud7ff'),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('a":\\', max_size=4), inner, max_size=4),
)


@given(_values, st.booleans(), st.sampled_from([None, 1]))
def test_every_proper_value_is_read_as_the_standard_library_reads_it(
    value: Any, ascii: bool, indent: int | None
) -> None:
    data = json.dumps(value, ensure_ascii=ascii, indent=indent).encode()
    assert parse(data) == json.loads(data)


_spellings = st.sampled_from([json.dumps, lambda text: '"' + "".join(f"\\u{ord(c):04x}" for c in text) + '"'])


@given(
    st.lists(st.tuples(st.text('a":\\', max_size=2), st.text('a":\\ []{}', max_size=4)), max_size=6),
    st.sampled_from([":", ": ", " :", "\n:\t"]),
    st.lists(_spellings, min_size=12, max_size=12),
)
def test_a_key_written_twice_is_always_found(pairs: list[tuple[str, str]], colon: str, spell: list[Any]) -> None:
    members = [f"{spell[2 * n](key)}{colon}{spell[2 * n + 1](value)}" for n, (key, value) in enumerate(pairs)]
    data = ("{" + ",".join(members) + "}").encode()
    if len(dict(pairs)) == len(pairs):
        assert parse(data) == dict(pairs)
    else:
        with pytest.raises(WireFault, match="duplicate key"):
            parse(data)


@given(st.binary(max_size=40))
def test_no_bytes_raise_anything_but_a_fault(data: bytes) -> None:
    try:
        value = parse(data)
    except WireFault:
        return
    assert not isinstance(value, float) or math.isfinite(value)


ENVELOPES: dict[str, tuple[Any, list[str], str | int | None]] = {
    "no version": ({"id": 1, "method": "ping"}, ["field 'jsonrpc' is required"], 1),
    "another version": ({"jsonrpc": "1.0", "id": "a", "method": "ping"}, ["field 'jsonrpc' must be \"2.0\""], "a"),
    "no method": ({"jsonrpc": "2.0", "id": 1}, ["field 'method' is required"], 1),
    "a method that is no text": ({"jsonrpc": "2.0", "id": 1, "method": 5}, ["field 'method' must be a string"], 1),
    "no id but null": (
        {"jsonrpc": "2.0", "id": None, "method": "ping"},
        ["field 'id' must be a string or an integer"],
        None,
    ),
    "true as id": (
        {"jsonrpc": "2.0", "id": True, "method": "ping"},
        ["field 'id' must be a string or an integer"],
        None,
    ),
    "a fraction as id": (
        {"jsonrpc": "2.0", "id": 1.5, "method": "x"},
        ["field 'id' must be a string or an integer"],
        None,
    ),
    "params in a row": (
        {"jsonrpc": "2.0", "id": 1, "method": "x", "params": [1]},
        ["field 'params' must be an object"],
        1,
    ),
    "all wrong": (
        {"id": [], "params": 1},
        [
            "field 'jsonrpc' is required",
            "field 'id' must be a string or an integer",
            "field 'method' is required",
            "field 'params' must be an object",
        ],
        None,
    ),
}


@pytest.mark.parametrize(("message", "problems", "id"), ENVELOPES.values(), ids=ENVELOPES)
def test_an_envelope_is_refused_with_all_its_faults(message: Any, problems: list[str], id: str | int | None) -> None:
    with pytest.raises(WireFault) as caught:
        parse_message(json.dumps(message).encode())
    reply = caught.value.reply()
    assert reply["id"] == id
    assert reply["error"]["code"] == INVALID_REQUEST
    assert reply["error"]["data"] == {"validation_errors": problems}
    assert all(problem in reply["error"]["message"] for problem in problems)


@pytest.mark.parametrize("data", [b"[]", b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', b"5", b'"a"', b"null"])
def test_only_a_single_object_is_a_message(data: bytes) -> None:
    with pytest.raises(WireFault) as caught:
        parse_message(data)
    assert caught.value.code == INVALID_REQUEST


@given(st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line), max_size=8), st.data())
def test_lines_are_the_same_however_they_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"\n".join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    reader = Lines(limit=8)
    seen: list[bytes | Overlong] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        seen += reader.feed(stream[start:end])
    seen += reader.close()
    assert seen == [Overlong(8) if len(line) > 8 else line for line in lines if len(line) > 8 or line.strip()]


def test_an_endless_line_is_not_held_in_memory() -> None:
    reader = Lines(limit=1000)
    tracemalloc.start()
    try:
        seen = [item for _ in range(1_000) for item in reader.feed(b"x" * 40_000)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert seen == []
    assert peak < 10 * WINDOW_BYTES
    assert reader.feed(b"\ngood\n") == [Overlong(1000), b"good"]


def test_a_message_that_memory_is_too_small_for_is_not_called_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    def loads(data: bytes) -> None:
        raise orjson.JSONDecodeError("Not enough memory to allocate buffer for parsing", "", 0)

    monkeypatch.setattr(orjson, "loads", loads)
    with pytest.raises(Starved) as starved:
        parse_message(b'{"jsonrpc":"2.0","id":7,"method":"ping"}')
    reply = starved.value.reply()
    assert (reply["id"], reply["error"]["code"]) == (7, -32000)
    assert reply["error"]["data"]["error"] == "RESOURCES_EXHAUSTED"
    with pytest.raises(MemoryError):
        parse(b"{}")
