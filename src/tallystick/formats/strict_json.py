"""Strict JSON: what passes here has one meaning, whoever reads it next.

Valid UTF-8, no key twice, no NaN, no half characters, no nesting that could exhaust a stack.
For whatever comes from outside and decides something: messages, tokens, a policy's answer.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

import orjson

DEPTH_MAX = 100
_NO_MEMORY = "Not enough memory"
"""As which orjson reports a failed allocation."""


class JsonFault(ValueError):
    """Says what is wrong and, where known, where."""


LARGE_BYTES = 256 << 10
"""From here on nothing is read a second time, slowly, only to say better what is wrong with it."""


def parse(data: bytes) -> Any:
    """The value of `data`. Raises JsonFault, and MemoryError."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if error.msg.startswith(_NO_MEMORY):
            raise MemoryError(error.msg) from None
        # Of what it refuses the slow way takes long numbers, and nothing else.
        if len(data) < LARGE_BYTES or _has_long_number(data):
            return _parse_slowly(data)
        _refuse(f"{error.msg} at line {error.lineno} column {error.colno}")
    if _is_plain(value, data):
        return value
    if len(data) < LARGE_BYTES or _has_long_number(data):
        return _parse_slowly(data)
    _refuse(f"a key stands twice in one object, or they are nested deeper than {DEPTH_MAX} levels")


_SPACES = b" \t\n\r"
# Spellings that make a quote and a colon meet in a string when it is written out again, and not before.
_ESCAPED_QUOTE_OR_COLON = (b"\\u0022", b"\\u003a", b"\\u003A")
_ALIKE = bytes.maketrans(b"123456789\t\n\r", b"000000000   ")
_LONG_NUMBER = b"0" * 19
_BRACKETS_ALIKE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def _is_plain(value: Any, data: bytes) -> bool:
    """Whether orjson's reading can be trusted: no key twice, not too deep, no integer turned into a float.

    Written out again, the value has each key once: `data` has as many only if none was dropped.
    """
    try:
        again = orjson.dumps(value)
    except TypeError:
        return False
    if again == data:
        # As most clients write it: nothing in it was read as something else, or left out.
        return _is_shallow(again)
    # By find: `in` tries bytes as a number first, and the exception that it drops takes longer than the search.
    alike = data.translate(_ALIKE)
    if alike.find(_LONG_NUMBER) >= 0 and _has_long_number(data):
        return False
    # A quote and a colon meet behind every key, and in strings of `data` at least as often as in those of `again`.
    squeezed = data.translate(None, _SPACES) if alike.find(b" :") >= 0 else data
    is_spelled = data.find(b"\\u") >= 0 and any(escape in data for escape in _ESCAPED_QUOTE_OR_COLON)
    has_all_keys = (not is_spelled and squeezed.count(b'":') == again.count(b'":')) or (
        _outside_strings(data).count(b":") == _outside_strings(again).count(b":")
    )
    return has_all_keys and _is_shallow(again)


def _has_long_number(data: bytes) -> bool:
    """Perhaps too long for orjson, which makes a float of an integer then, or refuses it."""
    return _LONG_NUMBER in _outside_strings(data).translate(_ALIKE)


def _outside_strings(data: bytes) -> bytes:
    """Of JSON. Backslashes stand in strings only, and pair up from the left."""
    return b"".join(data.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')[::2])


def _is_shallow(data: bytes) -> bool:
    """Brackets inside strings can mislead this, up to the 254 levels orjson writes: more than we like, no danger."""
    if data.count(b"[") + data.count(b"{") <= DEPTH_MAX:
        return True
    brackets = data.translate(_BRACKETS_ALIKE, _NO_BRACKETS)
    for _ in range(DEPTH_MAX):
        if not brackets:
            return True
        brackets = brackets.replace(b"[]", b"")
    return not brackets


def _parse_slowly(data: bytes) -> Any:
    """Exact, and several times slower: for what the fast way refused or could not vouch for."""
    text = _decode(data)
    _scan(text)
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_float, parse_int=_int
        )
    except json.JSONDecodeError as error:
        _refuse(f"{error.msg[0].lower()}{error.msg[1:]} at line {error.lineno} column {error.colno}")
    return value


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        _refuse(f"not valid UTF-8 at byte {error.start}")


# Possessive, and content with a string that never ends: otherwise each quote would start over.
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)


def _scan(text: str) -> None:
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        token = match[0]
        if token in "[{":
            depth += 1
            if depth > DEPTH_MAX:
                _refuse(f"nested deeper than {DEPTH_MAX} levels")
        elif token in "]}":
            depth -= 1
        elif "\\u" in token:
            _check_escapes(token)


_SURROGATE = re.compile(r"\\(?:u([dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL)


def _check_escapes(token: str) -> None:
    """A high surrogate must be followed at once by a low one; neither may stand alone."""
    after_high = -1
    for match in _SURROGATE.finditer(token):
        code = match[1]
        if code is None:
            continue
        if int(code, 16) < 0xDC00:
            if after_high >= 0:
                break
            after_high = match.end()
        elif after_high == match.start():
            after_high = -1
        else:
            after_high = 0
            break
    if after_high >= 0:
        _refuse("a lone surrogate is not a character")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                _refuse(f"duplicate key {json.dumps(key[:100])}")
            seen.add(key)
    return result


def _refuse_constant(name: str) -> NoReturn:
    _refuse(f"{name} is not a number in JSON")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        _refuse(f"the number {text[:40]} is too large")
    return value


def _int(text: str) -> int:
    if len(text) > 400:
        _refuse(f"a number of {len(text)} digits is too large")
    return int(text)


def _refuse(what: str) -> NoReturn:
    raise JsonFault(what)
