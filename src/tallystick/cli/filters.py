"""The words and filters that people type after `search`, as the arguments of memory.search."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import orjson

from tallystick.errors import InvalidArgument

_TERM = re.compile(r"(?P<key>[^=<>!~?\s]+)(?P<sign>!=|>=|<=|=|>|<|~|\?)(?P<value>.*)", re.DOTALL)
COMMIT_ID_DIGITS = 12
_TESTS = {"=": "eq", "!=": "ne", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte", "~": "regex", "?": "exists"}


def parse_terms(terms: Sequence[str]) -> dict[str, Any]:
    """`otter age>5 name=Ada` → {"query": "otter", "attrs": {"age": {"gt": 5}, "name": {"eq": "Ada"}}}.

    Beside other words, `billing?` is one more of them: the end of a question, and not a test.
    """
    words: list[str] = []
    attrs: dict[str, dict[str, Any]] = {}
    asks = any(_TERM.fullmatch(term) is None for term in terms)
    for term in terms:
        match = _TERM.fullmatch(term)
        if match is None or (asks and match["sign"] == "?"):
            words.append(term)
        else:
            test, value = _condition(term, match["sign"], match["value"])
            attrs.setdefault(match["key"], {})[test] = value
    return ({"query": " ".join(words)} if words else {}) | ({"attrs": attrs} if attrs else {})


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
