"""The id of a request that is refused unread, so that whoever waits for its answer gets one.

Looks at the first and the last `WINDOW_BYTES` of a message and at nothing between them. What is
well-formed JSON but for its values is understood exactly: an "id" inside params or inside a
string is never taken for the request's own.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import Any

WINDOW_BYTES = 64 * 1024
SAFE_INTEGER = 2**53 - 1

_KEY_BYTES_MAX = 64

# Possessive, as all that follow: a quote that is never closed must not start over and over.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
_MEMBER = re.compile(rb'\s*+:\s*+("(?:[^"\\]++|\\.)*+"|-?\d++)?(?:\s*+[,}])?', re.DOTALL)

# Read from the end, a quote belongs to a string's text if an odd number of backslashes comes next.
_TOKEN_BACKWARDS = re.compile(rb'"(?:[^"]++|"\\(?:\\\\)*+(?!\\))*+"?|[\[\]{}]', re.DOTALL)

Member = tuple[str, Any]
_NO_VALUE = object()


class Bounded:
    """A message as it arrives: whole up to `limit` bytes, and past them only its beginning and its end."""

    def __init__(self, limit: int, *, is_overlong: bool = False) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._head = b""
        self._tail = b""
        self.size = 0
        self.is_overlong = is_overlong

    def add(self, part: bytes) -> None:
        self.size += len(part)
        self._parts.append(part)
        self.is_overlong = self.is_overlong or self.size > self._limit
        if self.is_overlong:
            for kept in self._parts:
                self._note(kept)
            self._parts.clear()

    def whole(self) -> bytes:
        assert not self.is_overlong
        return b"".join(self._parts)

    def find_id(self) -> str | int | None:
        """Of one that is overlong."""
        return _find(self._head, self._tail if self.size > WINDOW_BYTES else b"")

    def _note(self, part: bytes) -> None:
        if len(self._head) < WINDOW_BYTES:
            self._head += part[: WINDOW_BYTES - len(self._head)]
        self._tail = (self._tail + part[-WINDOW_BYTES:])[-WINDOW_BYTES:]


def find_id(message: bytes) -> str | int | None:
    """None where there is none, where there are several, and in a reply: its id counts the other side's requests."""
    is_long = len(message) > WINDOW_BYTES
    return _find(message[:WINDOW_BYTES], message[-WINDOW_BYTES:] if is_long else b"")


def is_id(value: Any) -> bool:
    return isinstance(value, str) or (type(value) is int and abs(value) <= SAFE_INTEGER)


def _find(head: bytes, tail: bytes) -> str | int | None:
    if not head.removeprefix(BOM_UTF8).lstrip().startswith(b"{"):
        return None
    members = [*_members_forwards(head), *_members_backwards(tail)]
    keys = {key for key, _ in members}
    if "method" not in keys and keys & {"result", "error"}:
        return None
    found = [value for key, value in members if key == "id"]
    if not found or not is_id(found[0]) or any(_differ(found[0], other) for other in found):
        return None
    id: str | int = found[0]
    return id


def _differ(one: Any, other: Any) -> bool:
    return type(one) is not type(other) or one != other


def _members_forwards(head: bytes) -> Iterator[Member]:
    depth = 0
    for match in _TOKEN.finditer(head):
        bracket = match[0]
        if bracket in b"[{":
            depth += 1
        elif bracket in b"]}":
            depth -= 1
            if depth == 0:
                return
        elif depth == 1:
            yield from _member(head, match.start(), match.end())


def _members_backwards(tail: bytes) -> Iterator[Member]:
    depth = 0
    for match in _TOKEN_BACKWARDS.finditer(tail[::-1]):
        bracket = match[0]
        if bracket in b"]}":
            depth += 1
        elif bracket in b"[{":
            depth -= 1
            if depth == 0:
                return
        elif depth == 1:
            yield from _member(tail, len(tail) - match.end(), len(tail) - match.start())


def _member(data: bytes, start: int, end: int) -> Iterator[Member]:
    """The member whose key that string is, if it is a key and short enough to be one of ours."""
    told = _MEMBER.match(data, end) if end - start <= _KEY_BYTES_MAX else None
    key = _text(data[start:end]) if told is not None else _NO_VALUE
    if told is not None and isinstance(key, str):
        # A value that goes on behind the window, or that is neither text nor integer, is none that could be an id.
        is_whole = told[1] is not None and told[0].endswith((b",", b"}"))
        yield key, _text(told[1]) if is_whole else _NO_VALUE


def _text(token: bytes) -> Any:
    """The string or integer that a token spells, if it can be said again."""
    if len(token) > WINDOW_BYTES or (not token.startswith(b'"') and len(token) > 20):
        return _NO_VALUE
    try:
        value = json.loads(token)
        json.dumps(value, ensure_ascii=False).encode()
    except ValueError:
        return _NO_VALUE
    return value
