"""The answers of HTTP: compact JSON, and one table from errors to statuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response
from starlette.types import Send

from tallystick import errors

STATUS_BY_CODE = {
    "INVALID_OPERATION": 422,
    "RATE_LIMITED": 429,
}
"""Looked up first: codes that need another status than their class has."""

STATUS_BY_CLASS: Mapping[type[errors.TallystickError], int] = {
    errors.InvalidArgument: 400,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.Denied: 403,
    errors.LimitExceeded: 413,
    errors.LogError: 503,
    errors.TallystickError: 503,
}

STATUS_WORDS = {
    400: "The arguments are not as the tool wants them; every fault is listed.",
    403: "The policy says no, or the page that asks may not.",
    404: "The tool, or what the arguments name, does not exist.",
    409: "It stands against what is there; look again.",
    413: "The body or the answer would be too large.",
    415: "The body is not application/json.",
    421: "This server does not answer under the name in Host.",
    422: "It is not possible in the state that things are in.",
    429: "Too many calls; wait.",
    500: "A bug of ours, known by its id.",
    503: "The log, the disk or an index can't take or give anything now.",
}


def status_of(error: errors.TallystickError) -> int:
    by_class = next(STATUS_BY_CLASS[kind] for kind in type(error).__mro__ if kind in STATUS_BY_CLASS)
    return STATUS_BY_CODE.get(error.code, by_class)


def json_answer(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps(data), status, headers, "application/json")


Header = tuple[bytes, bytes]
Reply = tuple[int, bytes, tuple[Header, ...]]
"""Status, JSON, and what headers there are besides its length and its kind."""


def retry_after(details: Mapping[str, Any]) -> tuple[Header, ...]:
    seconds = details.get("retry_after")
    return ((b"retry-after", b"%d" % seconds),) if isinstance(seconds, int) else ()


async def send_json(send: Send, reply: Reply, more: tuple[Header, ...] = (), *, at_once: bool = False) -> None:
    """What is encoded already, without the detour of a Response. `at_once` needs a server with that extension, and
    nobody between who adds to the head."""
    status, body, headers = reply
    head = (JSON, *headers, *more)
    if at_once:
        return await send({"type": AT_ONCE, "status": status, "headers": head, "body": body})
    head = ((b"content-length", b"%d" % len(body)), *head)
    await send({"type": "http.response.start", "status": status, "headers": list(head)})
    await send({"type": "http.response.body", "body": body})


AT_ONCE = "tallystick.response"
"""An extension of ASGI, and its one message: the head of an answer, without its length, and the whole of its body. For
what may have a body, so not for HEAD."""


JSON = (b"content-type", b"application/json")
