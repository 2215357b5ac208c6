from __future__ import annotations

from typing import Any

import pytest
from pyroaring import BitMap

from tallystick.state.attributes import Attributes, Flat, flatten

FLAT: list[tuple[dict[str, Any], Flat]] = [
    ({}, {}),
    ({"a": 1, "b": None}, {"a": [1], "b": [None]}),
    ({"a": True, "b": [False, 0]}, {"a": [(True,)], "b": [(False,), 0]}),
    ({"a": {"b": {"c": 1}}}, {"a": [], "a.b": [], "a.b.c": [1]}),
    ({"a": [1, "x", [2], {"b": 3}]}, {"a": [1, "x"]}),
    ({"a": {}, "b": []}, {"a": [], "b": []}),
    ({"a.b": 1, "a": {"b": 2}}, {"a.b": [1, 2], "a": []}),
    ({"a": "[REDACTED]", "b": ["[REDACTED]", 1]}, {"b": [1]}),
]


@pytest.mark.parametrize(("attrs", "flat"), FLAT)
def test_attributes_are_flattened(attrs: dict[str, Any], flat: Flat) -> None:
    assert flatten(attrs) == flat


def test_a_key_is_dotted_when_a_name_on_the_way_to_it_has_a_dot() -> None:
    dotted: set[str] = set()
    flatten({"a.b": {"c": 1}, "d": {"e": 2}, "f": {"g.h": 3}}, dotted)
    assert dotted == {"a.b", "a.b.c", "f.g.h"}


def test_a_value_is_a_bare_handle_until_the_second_node_and_again_after_it() -> None:
    attributes = Attributes()
    one: Flat = {"k": ["v"]}
    attributes.replace(3, {}, one)
    assert attributes.keys["k"].values == {"v": 3}
    attributes.replace(5, {}, one)
    assert attributes.keys["k"].values == {"v": BitMap([3, 5])}
    attributes.replace(3, one, {})
    assert attributes.keys["k"].values == {"v": 5}
    attributes.replace(5, one, {})
    assert attributes.keys == {}


def test_a_value_said_twice_counts_once() -> None:
    attributes = Attributes()
    attributes.replace(1, {}, {"k": ["v", "v"]})
    attributes.replace(2, {}, {"k": ["v"]})
    attributes.replace(1, {"k": ["v", "v"]}, {"k": []})
    assert attributes.keys["k"].values == {"v": 2}
    assert attributes.keys["k"].present == BitMap([1, 2])
