"""The filters that people type after `search`, as the arguments of memory.search."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import orjson

from tallystick.errors import InvalidArgument

_TERM = re.compile(r"(?P<key>[^=<>!~?\s]+)(?P<sign>!=|>=|<=|=|>|<|~|\?)(?P<value>.*)", re.DOTALL)
COMMIT_ID_DIGITS = 12
_TESTS = {"=": "eq", "!=": "ne", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte", "~": "regex", "?": "exists"}


def parse_filters(terms: Sequence[str]) -> dict[str, Any]:
    """`User age>5 name=Ada` → {"type": "User", "attrs": {"age": {"gt": 5}, "name": {"eq": "Ada"}}}."""
    found: dict[str, Any] = {}
    attrs: dict[str, dict[str, Any]] = {}
    for term in terms:
        match = _TERM.fullmatch(term)
        if match:
            test, value = _condition(term, match["sign"], match["value"])
            attrs.setdefault(match["key"], {})[test] = value
        elif "type" in found:
            raise InvalidArgument(
                f"'{term}' is no filter, and the type is already '{found['type']}'",
                hint="write filters as key=value, key>5, key~regex or key?",
            )
        else:
            found["type"] = term
    return {**found, "attrs": attrs} if attrs else found


def _condition(term: str, sign: str, text: str) -> tuple[str, Any]:
    if sign == "?":
        if text:
            raise InvalidArgument(f"nothing may follow the question mark in '{term}'")
        return "exists", True
    if sign == "~":
        return "regex", text
    value = parse_value(text)
    if sign == "=" and isinstance(value, list):
        return "in", value
    return _TESTS[sign], value


def parse_value(text: str) -> Any:
    """JSON where it is JSON (5, true, "5", ["a", "b"]), the text itself where it is not."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def parse_moment(text: str | None) -> str | int | None:
    """A lamport is a number of fewer digits than a commit_id is shown with; everything else a commit_id or a time."""
    return int(text) if text is not None and text.isdecimal() and len(text) < COMMIT_ID_DIGITS else text
