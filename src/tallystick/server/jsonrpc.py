"""The wire: strict JSON and the JSON-RPC envelope, before any library sees a message.

Shared by stdio and HTTP.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tallystick.errors import exhaustion
from tallystick.formats import strict_json
from tallystick.server.request_id import Bounded, find_id, is_id

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
SERVER_ERROR = -32000


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


class Starved(WireFault):
    """A message that there is not enough memory to read."""

    def __init__(self, error: MemoryError, *, id: str | int | None) -> None:
        exhausted = exhaustion(error)
        assert exhausted is not None
        super().__init__(SERVER_ERROR, f"Server error: {exhausted.message}; {exhausted.hint}", id=id)
        self._data = {"error": exhausted.code, "hint": exhausted.hint}

    def reply(self) -> dict[str, Any]:
        return error_reply(self.id, self.code, self.message, self._data)


def error_reply(id: str | int | None, code: int, message: str, data: Any = None) -> dict[str, Any]:
    error = {"code": code, "message": message}
    return {"jsonrpc": "2.0", "id": id, "error": error if data is None else {**error, "data": data}}


def invalid_params(problems: Sequence[str]) -> str:
    """The message of INVALID_PARAMS: it says it all, since clients show the message and hide the data."""
    return f"Invalid params: {'; '.join(problems)}"


def parse_message(data: bytes) -> dict[str, Any]:
    """One JSON-RPC request, notification or response. Raises WireFault, with the id where there is one to be found."""
    try:
        message = strict_json.parse(data)
    except strict_json.JsonFault as fault:
        raise WireFault(PARSE_ERROR, f"Parse error: {fault}", id=find_id(data)) from None
    except MemoryError as error:
        raise Starved(error, id=find_id(data)) from None
    if not _is_request(message):
        check_envelope(message)
    return message  # type: ignore[no-any-return]  # check_envelope refuses all but objects


def parse(data: bytes) -> Any:
    """The JSON value of `data`. Raises WireFault(PARSE_ERROR) saying what is wrong and, where known, where."""
    try:
        return strict_json.parse(data)
    except strict_json.JsonFault as fault:
        raise WireFault(PARSE_ERROR, f"Parse error: {fault}") from None


def check_envelope(message: Any) -> None:
    """Raises WireFault(INVALID_REQUEST) naming every field that is missing or wrong."""
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
