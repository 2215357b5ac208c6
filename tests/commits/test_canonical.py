"""RFC 8785 to the byte, against the RFC's own vectors and the exact serialiser."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import decimal
import enum
import json
import math
import random
import struct
import uuid
from collections import OrderedDict
from pathlib import Path
from typing import Any

import orjson
import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from tallystick.commits import canonical
from tallystick.commits.canonical import DEPTH_MAX, INTEGER_MAX, canonical_bytes, parse
from tallystick.errors import InvalidArgument

VECTORS = Path(__file__).parent.parent / "golden" / "jcs"
VECTOR_NAMES = sorted(path.name for path in (VECTORS / "input").glob("*.json"))


# -- the bytes


@pytest.mark.parametrize("name", VECTOR_NAMES)
def test_the_vectors_of_the_rfc_come_out_as_published(name: str) -> None:
    value = json.loads((VECTORS / "input" / name).read_bytes())
    assert canonical_bytes(value) == (VECTORS / "output" / name).read_bytes()


def test_all_six_vectors_are_there() -> None:
    assert len(VECTOR_NAMES) == 6


# IEEE 754 bits and their spelling, from appendix B of the RFC.
NUMBERS = [
    (0x0000000000000000, "0"),
    (0x8000000000000000, "0"),
    (0x0000000000000001, "5e-324"),
    (0x8000000000000001, "-5e-324"),
    (0x7FEFFFFFFFFFFFFF, "1.7976931348623157e+308"),
    (0xFFEFFFFFFFFFFFFF, "-1.7976931348623157e+308"),
    (0x4340000000000000, "9007199254740992"),
    (0xC340000000000000, "-9007199254740992"),
    (0x4430000000000000, "295147905179352830000"),
    (0x44B52D02C7E14AF5, "9.999999999999997e+22"),
    (0x44B52D02C7E14AF6, "1e+23"),
    (0x44B52D02C7E14AF7, "1.0000000000000001e+23"),
    (0x444B1AE4D6E2EF4E, "999999999999999700000"),
    (0x444B1AE4D6E2EF4F, "999999999999999900000"),
    (0x444B1AE4D6E2EF50, "1e+21"),
    (0x3EB0C6F7A0B5ED8C, "9.999999999999997e-7"),
    (0x3EB0C6F7A0B5ED8D, "0.000001"),
    (0x41B3DE4355555553, "333333333.3333332"),
    (0x41B3DE4355555554, "333333333.33333325"),
    (0x41B3DE4355555555, "333333333.3333333"),
    (0x41B3DE4355555556, "333333333.3333334"),
    (0x41B3DE4355555557, "333333333.33333343"),
    (0xBECBF647612F3696, "-0.0000033333333333333333"),
    (0x43143FF3C1CB0959, "1424953923781206.2"),
]


@pytest.mark.parametrize(("bits", "spelling"), NUMBERS)
def test_the_number_table_of_the_rfc_comes_out_as_published(bits: int, spelling: str) -> None:
    (number,) = struct.unpack(">d", struct.pack(">Q", bits))
    assert canonical_bytes(number) == spelling.encode()


SPELLINGS: list[tuple[Any, str]] = [
    (1.0, "1"),
    (-1.0, "-1"),
    (1e15, "1000000000000000"),
    (1e16, "10000000000000000"),
    (1e20, "100000000000000000000"),
    (1e21, "1e+21"),
    (1e-5, "0.00001"),
    (1e-6, "0.000001"),
    (1e-7, "1e-7"),
    (INTEGER_MAX, "9007199254740991"),
    (-INTEGER_MAX, "-9007199254740991"),
    (True, "true"),
    ([1, True, 1.0], "[1,true,1]"),
    ((1, (2,)), "[1,[2]]"),
    ({"b": 1, "a": (None,)}, '{"a":[null],"b":1}'),
    ({}, "{}"),
    ('\x00\x1f\x7f\u2028"\\/\b\f\n\r\t', '"\\u0000\\u001f\x7f\u2028\\"\\\\/\\b\\f\\n\\r\\t"'),
    ({"\ufb33": 1, "\U0001f600": 2}, '{"\U0001f600":2,"\ufb33":1}'),
    ({"a\uffff": 1, "a\U00010000": 2, "z": "\U0010ffff"}, '{"a\U00010000":2,"a\uffff":1,"z":"\U0010ffff"}'),
    ([{"x": {"\ue000": 1, "\U0010ffff": 2}}], '[{"x":{"\U0010ffff":2,"\ue000":1}}]'),
]


@pytest.mark.parametrize(("value", "spelling"), SPELLINGS)
def test_where_serialisers_differ_the_rfc_decides(value: Any, spelling: str) -> None:
    assert canonical_bytes(value) == spelling.encode() == rfc8785.dumps(value)


# -- refusals


class Colour(enum.StrEnum):
    RED = "red"


class Size(enum.IntEnum):
    BIG = 1


class Shape(enum.Enum):
    ROUND = "round"


class Text(str):
    __slots__ = ()


class Real(float):
    __slots__ = ()


@dataclasses.dataclass
class Point:
    x: int = 1


REFUSED: list[tuple[Any, str]] = [
    (math.nan, "the value is not a finite number"),
    ({"attrs": {"score": math.nan}}, "attrs.score is not a finite number"),
    ({"attrs": {"score": math.inf}}, "attrs.score is not a finite number"),
    ({"attrs": [1.5, {"low": -math.inf}]}, "attrs[1].low is not a finite number"),
    ([None, math.nan], "[1] is not a finite number"),
    ({"n": INTEGER_MAX + 1}, "n is an integer beyond"),
    ({"n": -INTEGER_MAX - 1}, "n is an integer beyond"),
    ({"n": 2**63}, "n is an integer beyond"),
    ({"n": 10**5000}, "n is an integer beyond"),
    ({"t": "a\ud800"}, "t holds half of a surrogate pair"),
    ({"t": ["\udfff"]}, "t[0] holds half of a surrogate pair"),
    ({"a": {"\ud83d": 1}}, "a has a key that holds half of a surrogate pair"),
    ({"a": {1: 1}}, "a has a key of type int"),
    ({None: 1}, "the value has a key of type NoneType"),
    ({True: 1}, "the value has a key of type bool"),
    ({Colour.RED: 1}, "the value has a key of type Colour"),
    ({Text("k"): 1}, "the value has a key of type Text"),
    ({"c": Colour.RED}, "c is of type Colour"),
    ({"c": Size.BIG}, "c is of type Size"),
    ({"c": Shape.ROUND}, "c is of type Shape"),
    ({"c": Text("t")}, "c is of type Text"),
    ({"c": Real(1.5)}, "c is of type Real"),
    ({"c": OrderedDict(a=1)}, "c is of type OrderedDict"),
    ({"c": Point()}, "c is of type Point"),
    ({"c": datetime.datetime(2025, 1, 1, tzinfo=datetime.UTC)}, "c is of type datetime"),
    ({"c": datetime.date(2025, 1, 1)}, "c is of type date"),
    ({"c": datetime.time(1)}, "c is of type time"),
    ({"c": uuid.UUID(int=1)}, "c is of type UUID"),
    ({"c": decimal.Decimal(1)}, "c is of type Decimal"),
    ({"c": b"bytes"}, "c is of type bytes"),
    ({"c": {1, 2}}, "c is of type set"),
    ({"c": orjson.Fragment(b"1")}, "c is of type Fragment"),
    (object(), "the value is of type object"),
]


@pytest.mark.parametrize(("value", "problem"), REFUSED)
def test_what_json_cannot_say_is_refused_with_its_place(value: Any, problem: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        canonical_bytes(value)
    assert refused.value.message.startswith(problem)


@pytest.mark.parametrize(("key", "path"), [("k" * 100, "k" * 100), ("k" * 101, "k" * 100 + "…")])
def test_a_refusal_names_the_place_as_far_as_it_is_short(key: str, path: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        canonical_bytes({key: INTEGER_MAX + 1})
    problem = "is an integer beyond ±(2^53−1), which JSON cannot carry exactly; send it as text"
    assert (refused.value.message, refused.value.details) == (f"{path} {problem}", {"path": path})


@pytest.mark.parametrize(
    ("data", "value"), [(b"5", 5), (b"9007199254740991", INTEGER_MAX), (b"9007199254740992", 2.0**53)]
)
def test_what_readers_of_doubles_would_misread_is_a_double(data: bytes, value: float) -> None:
    within, below = parse(b"[%b,-%b]" % (data, data))
    for found in (parse(data), -parse(b"-" + data), within, -below):
        assert (found, type(found)) == (value, type(value))


def nested(levels: int, *, objects: bool, value: Any = 1.5) -> Any:
    for _ in range(levels):
        value = {"k": value} if objects else [value]
    return value


@pytest.mark.parametrize("objects", [True, False])
def test_nesting_is_allowed_up_to_the_limit(objects: bool) -> None:
    for innermost in (1.5, 1.0):
        value = nested(DEPTH_MAX, objects=objects, value=innermost)
        assert canonical_bytes(value) == rfc8785.dumps(value)


@pytest.mark.parametrize("levels", [DEPTH_MAX + 1, 254, 255, 100_000])
@pytest.mark.parametrize("objects", [True, False])
def test_deeper_nesting_is_refused_and_never_overflows(levels: int, objects: bool) -> None:
    with pytest.raises(InvalidArgument, match="nested deeper than 64 levels"):
        canonical_bytes(nested(levels, objects=objects))


def test_an_empty_container_below_the_limit_is_refused_too() -> None:
    value: Any = {}
    for _ in range(DEPTH_MAX):
        value = [value]
    with pytest.raises(InvalidArgument, match="nested deeper"):
        canonical_bytes(value)


def test_a_value_that_contains_itself_is_refused() -> None:
    value: list[Any] = []
    value += [value, value]
    with pytest.raises(InvalidArgument, match="nested deeper"):
        canonical_bytes(value)


# -- laws

# Where UTF-16 order and code point order part, and their neighbours.
CHARACTERS = st.one_of(
    st.characters(exclude_categories=["Cs"]),
    st.characters(min_codepoint=0xE000, max_codepoint=0xFFFF),
    st.characters(min_codepoint=0x10000, max_codepoint=0x10FFFF),
    st.sampled_from('\x00\x1f\x7f"\\/aZ09eE.-+,:{}[]\ud7ff\ue000\uffff\U00010000\U0010ffff'),
)
TEXTS = st.text(CHARACTERS, max_size=8) | st.sampled_from(["", "null", "1.0", "1e16", "NaN", ".0,", ".0}", "0e1"])
EVERY_DOUBLE = st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack(">d", struct.pack(">Q", bits))[0])
# Around the places where the notation changes.
EDGES = st.builds(
    lambda mantissa, exponent, sign: sign * mantissa * 10.0**exponent,
    st.floats(0.9, 10) | st.integers(1, 9999).map(float),
    st.integers(-10, 24),
    st.sampled_from([1.0, -1.0]),
)
NUMBERS_OF_ALL_KINDS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    EVERY_DOUBLE.filter(math.isfinite),
    EDGES,
    st.integers(-(2**53), 2**53).map(float),
    st.integers(-INTEGER_MAX, INTEGER_MAX),
)
SCALARS = st.none() | st.booleans() | NUMBERS_OF_ALL_KINDS | TEXTS
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=5) | st.lists(inner, max_size=3).map(tuple) | st.dictionaries(TEXTS, inner, max_size=6)
    ),
    max_leaves=25,
)


@given(VALUES)
def test_any_value_has_the_bytes_of_the_exact_serialiser(value: Any) -> None:
    assert canonical_bytes(value) == rfc8785.dumps(value)


@given(st.lists(NUMBERS_OF_ALL_KINDS, max_size=20))
@example([9.999999999999999e-6, 1e-5, 9007199254740991.0, 9999999999999998.0, 1e16])
def test_any_number_has_the_bytes_of_the_exact_serialiser(numbers: list[float]) -> None:
    for number in numbers:
        assert canonical_bytes(number) == rfc8785.dumps(number)
        assert parse(canonical_bytes(number)) == number


@given(st.dictionaries(st.text(CHARACTERS, min_size=1, max_size=3), st.just(1), min_size=2, max_size=12))
def test_keys_are_in_utf_16_order(value: dict[str, int]) -> None:
    keys = list(json.loads(canonical_bytes(value)))
    assert keys == sorted(value, key=lambda key: key.encode("utf-16-be"))


@given(VALUES, st.randoms(use_true_random=False))
def test_the_order_in_which_keys_were_given_does_not_matter(value: Any, chance: random.Random) -> None:
    assert canonical_bytes(shuffled(value, chance)) == canonical_bytes(value)


@given(VALUES)
@example(1e17)
@example(-9007199254740992.0)
def test_what_was_parsed_has_the_same_bytes_again(value: Any) -> None:
    data = canonical_bytes(value)
    assert canonical_bytes(parse(data)) == data


BAD_LEAVES = st.sampled_from(
    [math.nan, math.inf, -math.inf, 2**53, -(2**53), 2**64, "\ud800", "x\udc00y", Colour.RED, {1: 1}, {"\ud800": 1}]
)


@given(VALUES, BAD_LEAVES, st.randoms(use_true_random=False))
def test_one_bad_value_anywhere_refuses_the_whole(value: Any, bad: Any, chance: random.Random) -> None:
    with pytest.raises(InvalidArgument):
        canonical_bytes(planted(value, bad, chance))


@given(st.lists(VALUES, max_size=3))
def test_the_value_is_left_as_it_was(value: list[Any]) -> None:
    before = copy.deepcopy(value)
    canonical_bytes(value)
    assert repr(value) == repr(before)


def test_ordinary_documents_take_the_fast_road(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canonical, "_exact_bytes", lambda value: pytest.fail("took the exact road"))
    attrs: dict[str, Any] = {"score": 0.25, "n": 3, "none": None, "text": "party 🎉 at 0e1 1.0, null", "t": (True, [])}
    canonical_bytes({"id": "a", "attrs": attrs})
    canonical_bytes({"größe": "ß", "漢字": -12.5})
    canonical_bytes([{"a": 1}, "text"])


def shuffled(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict):
        keys = list(value)
        chance.shuffle(keys)
        return {key: shuffled(value[key], chance) for key in keys}
    if isinstance(value, list | tuple):
        return [shuffled(child, chance) for child in value]
    return value


def planted(value: Any, bad: Any, chance: random.Random) -> Any:
    """`value` with one of its places, chosen by chance, holding `bad`."""
    if isinstance(value, dict) and value and chance.random() < 0.8:
        chosen = chance.choice(sorted(value))
        return {key: planted(child, bad, chance) if key == chosen else child for key, child in value.items()}
    if isinstance(value, list | tuple) and value and chance.random() < 0.8:
        index = chance.randrange(len(value))
        return [*value[:index], planted(value[index], bad, chance), *value[index + 1 :]]
    return bad
