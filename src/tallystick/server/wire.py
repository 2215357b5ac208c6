"""The wire: strict JSON and the JSON-RPC envelope, before any library sees a message.

What passes here has one meaning: valid UTF-8, no key twice, no NaN, no half characters,
no nesting that could exhaust a stack. Shared by stdio and HTTP.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

import msgspec
import orjson

from tallystick.server.request_id import Bounded, find_id, is_id

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

DEPTH_MAX = 100


class WireFault(Exception):
    """A message that is refused, and the JSON-RPC error that says why."""

    def __init__(self, code: int, message: str, *, id: str | int | None = None, problems: list[str] | None = None):
        super().__init__(message)
        self.code = code
        self.message = message
        self.id = id
        self.problems = problems

    def reply(self) -> dict[str, Any]:
        return error_reply(
            self.id, self.code, self.message, {"validation_errors": self.problems} if self.problems else None
        )


def error_reply(id: str | int | None, code: int, message: str, data: Any = None) -> dict[str, Any]:
    error = {"code": code, "message": message}
    return {"jsonrpc": "2.0", "id": id, "error": error if data is None else {**error, "data": data}}


def parse_message(data: bytes) -> dict[str, Any]:
    """One JSON-RPC request, notification or response. Raises WireFault, with the id where there is one to be found."""
    try:
        message = parse(data)
    except WireFault as fault:
        fault.id = find_id(data)
        raise
    check_envelope(message)
    return message  # type: ignore[no-any-return]  # check_envelope refuses all but objects


def parse(data: bytes) -> Any:
    """The JSON value of `data`. Raises WireFault(PARSE_ERROR) saying what is wrong and, where known, where."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return _parse_slowly(data)
    return value if _is_plain(value, data) else _parse_slowly(data)


def check_envelope(message: Any) -> None:
    """Raises WireFault(INVALID_REQUEST) naming every field that is missing or wrong."""
    if _is_request(message):
        return
    if isinstance(message, list):
        raise WireFault(INVALID_REQUEST, "Invalid Request: batches are not supported, send one message at a time")
    if not isinstance(message, dict):
        raise WireFault(INVALID_REQUEST, "Invalid Request: a message must be an object")
    problems = [problem for problem in _envelope_problems(message) if problem]
    if problems:
        id = message.get("id")
        raise WireFault(
            INVALID_REQUEST,
            f"Invalid Request: {'; '.join(problems)}",
            id=id if is_id(id) else None,
            problems=problems,
        )


def _is_request(message: Any) -> bool:
    """What most messages are, told at a glance."""
    return (
        type(message) is dict
        and message.get("jsonrpc") == "2.0"
        and is_id(message.get("id"))
        and type(message.get("method")) is str
        and type(message.get("params", _NO_PARAMS)) is dict
    )


_NO_PARAMS: dict[str, Any] = {}


def _envelope_problems(message: dict[str, Any]) -> list[str | None]:
    is_reply = "method" not in message and ("result" in message or "error" in message)
    return [
        _version_problem(message),
        None if "id" not in message or is_id(message["id"]) or is_reply else _BAD_ID,
        None if is_reply else _method_problem(message),
        None if isinstance(message.get("params"), dict | None) else "field 'params' must be an object",
    ]


_BAD_ID = "field 'id' must be a string or an integer"


def _version_problem(message: dict[str, Any]) -> str | None:
    if "jsonrpc" not in message:
        return "field 'jsonrpc' is required"
    return None if message["jsonrpc"] == "2.0" else "field 'jsonrpc' must be \"2.0\""


def _method_problem(message: dict[str, Any]) -> str | None:
    if "method" not in message:
        return "field 'method' is required"
    return None if isinstance(message["method"], str) else "field 'method' must be a string"


# Spellings that would make a quote and a colon meet on one side of the comparison below and not on the other.
_ESCAPED_QUOTE_OR_COLON = (b"\\u0022", b"\\u003a", b"\\u003A")
_ALIKE = bytes.maketrans(b"123456789\t\n\r", b"000000000   ")
_BRACKETS_ALIKE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def _is_plain(value: Any, data: bytes) -> bool:
    """Whether orjson's reading can be trusted: no key twice, not too deep, no integer turned into a float.

    Written out again, the value has each key once. A quote and a colon meet behind every key, and
    in strings alike on both sides, so there are as many in `data` only if no key was dropped.
    """
    alike = data.translate(_ALIKE)
    if b"0" * 19 in alike or b" :" in alike:
        return False
    if b"\\u" in data and any(escape in data for escape in _ESCAPED_QUOTE_OR_COLON):
        return False
    try:
        again = orjson.dumps(value)
    except TypeError:
        return False
    return again.count(b'":') == data.count(b'":') and _is_shallow(again)


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
    raise WireFault(PARSE_ERROR, f"Parse error: {what}")


class Overlong(msgspec.Struct, frozen=True):
    """Stands in the place of a line that passed the limit; its bytes were not kept."""

    limit: int
    id: str | int | None = None

    def fault(self) -> WireFault:
        words = f"Invalid Request: a message may have at most {self.limit} bytes"
        return WireFault(INVALID_REQUEST, words, id=self.id)


class Lines:
    """Cuts a stream of chunks into lines, holding at most `limit` bytes of an unfinished one."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line = Bounded(limit)

    def feed(self, chunk: bytes) -> list[bytes | Overlong]:
        *ends, rest = chunk.split(b"\n")
        done: list[bytes | Overlong] = []
        for end in ends:
            self._line.add(end)
            self._finish(done)
        self._line.add(rest)
        return done

    def close(self) -> list[bytes | Overlong]:
        """What was left without a newline at the end of the stream."""
        done: list[bytes | Overlong] = []
        self._finish(done)
        return done

    def _finish(self, done: list[bytes | Overlong]) -> None:
        line, self._line = self._line, Bounded(self._limit)
        if line.is_overlong:
            done.append(Overlong(self._limit, line.find_id()))
        elif (data := line.whole()).strip():
            done.append(data)
