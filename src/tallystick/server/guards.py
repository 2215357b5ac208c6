"""The guards before every HTTP route: who may call us by which name, and what body is let in.

Host and Origin: a web page that its author points at our address (DNS rebinding) carries its
own name in both, so only our own names are answered. Bodies: bounded and, where JSON-RPC is
spoken, strictly read before the SDK sees them.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import Collection
from contextlib import suppress
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tallystick.errors import InvalidArgument
from tallystick.server.answers import json_answer
from tallystick.server.dispatch import broken
from tallystick.server.jsonrpc import INVALID_REQUEST, WireFault, error_reply, parse_message
from tallystick.server.request_id import Bounded

Headers = list[tuple[bytes, bytes]]
"""As ASGI has them: names in lower case."""

BODY_KEY = "tallystick.body"
"""Where the guard of bodies leaves the bytes in the ASGI scope."""
MESSAGE_KEY = "tallystick.message"
"""And, where JSON-RPC is spoken, what they say."""
SEEK_SECONDS = 1.0
"""How long a body that is refused for its size is waited for, only to name its id."""


def check_binding(host: str, issuer: str | None) -> None:
    """Refuse to open the memory to a network with nobody asked who they are (L31)."""
    if issuer is None and not is_loopback(host):
        raise InvalidArgument(
            f"will not listen on '{host}' without an issuer: anyone who can reach this address could read and write",
            code="UNSAFE_BINDING",
            hint="listen on 127.0.0.1, or configure the issuer whose tokens are to be trusted",
        )


def is_loopback(host: str) -> bool:
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class BugGuard:
    """Outermost: what nobody else caught is logged once, and the caller gets its id."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watch(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except Exception:
            error_id = broken(scope.get("path", scope["type"])).error_id
            if started or scope["type"] != "http":
                raise
            await json_answer(internal_error(error_id), 500)(scope, receive, send)


def internal_error(error_id: str) -> dict[str, str]:
    return {"error": "INTERNAL_ERROR", "message": "a bug of ours", "error_id": error_id}


class Names:
    """Under which names we answer, and to which pages. A page always says its Origin."""

    def __init__(self, *, hosts: Collection[str], origins: Collection[str]) -> None:
        self._hosts = {host.strip("[]").lower() for host in hosts}
        self._origins = {origin.rstrip("/").lower() for origin in origins}
        # Clients say the same with every request.
        self._is_ours = lru_cache(maxsize=1_000)(self._judge_host)
        self._is_welcome = lru_cache(maxsize=1_000)(self._judge_origin)

    def fault(self, headers: Headers) -> tuple[int, str, str] | None:
        """The status, the code and the words of a refusal; None for who may pass."""
        named = [header for header in headers if header[0] in _NAMES]
        if len(named) == 1 and named[0][0] == b"host" and self._is_ours(named[0][1]):
            return None
        hosts = [value for name, value in named if name == b"host"]
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            return 421, "HOST_NOT_ALLOWED", "this server does not answer under the name in Host"
        if not all(self._is_welcome(value) for name, value in named if name == b"origin"):
            return 403, "ORIGIN_NOT_ALLOWED", "web pages of this Origin may not call this server"
        return None

    def _judge_host(self, host: bytes) -> bool:
        name = _host_name(host.decode("latin-1"))
        return name is not None and (is_loopback(name) or name in self._hosts)

    def _judge_origin(self, value: bytes) -> bool:
        origin = value.decode("latin-1")
        if origin.lower() in self._origins:
            return True
        parts = urlsplit(origin)
        return parts.scheme in ("http", "https") and is_loopback(_host_name(parts.netloc) or "")


def trimmed(headers: Headers) -> Headers:
    """Blanks around a value are no part of it, but the HTTP parser leaves the trailing ones."""
    return [(name, value.strip(b" \t")) for name, value in headers]


class NameGuard:
    """Answers 421 to a foreign Host and 403 to a foreign Origin."""

    def __init__(self, app: ASGIApp, *, names: Names, rpc: Collection[str]) -> None:
        self._app = app
        self._names = names
        self._rpc = rpc

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        scope["headers"] = trimmed(scope["headers"])
        fault = self._names.fault(scope["headers"])
        await (self._app if fault is None else _refuse(scope, self._rpc, *fault))(scope, receive, send)


_NAMES = frozenset({b"host", b"origin"})


class PageGuard(CORSMiddleware):
    """Tells browsers which pages may read our answers. Who comes without an Origin is no page: Starlette's way of
    finding that out is a third of what a request costs."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or is_page(scope["headers"]):
            return await super().__call__(scope, receive, send)

        async def varied(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), VARY]
            await send(message)

        await self.app(scope, receive, varied)


VARY = (b"vary", b"Origin")
"""What every answer to no page ends its headers with."""


def is_page(headers: Headers) -> bool:
    return find_header(headers, b"origin") is not None


class BodyGuard:
    """Reads the whole body first: 413 past the limit; on JSON-RPC paths 400 for what is no proper message."""

    def __init__(self, app: ASGIApp, *, bytes_max: int, rpc: Collection[str]) -> None:
        self._app = app
        self._bytes_max = bytes_max
        self._rpc = rpc

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            return await self._app(scope, receive, send)
        is_rpc = scope["path"] in self._rpc
        read = await _read_body(receive, self._declared(scope), self._bytes_max)
        if read.is_overlong:
            id = await _seek_id(receive, read, self._bytes_max) if is_rpc else None
            words = f"a body may have at most {self._bytes_max} bytes"
            return await _refuse(scope, self._rpc, 413, "BODY_TOO_LARGE", words, id)(scope, receive, send)
        body = read.whole()
        scope[BODY_KEY] = body
        if is_rpc:
            try:
                scope[MESSAGE_KEY] = parse_message(body)
            except WireFault as fault:
                return await json_answer(fault.reply(), 400)(scope, receive, send)
        await self._app(scope, _replay(body, receive), send)

    def _declared(self, scope: Scope) -> int:
        length = find_header(scope["headers"], b"content-length") or b""
        return int(length) if length.isdigit() else 0


def find_header(headers: Headers, wanted: bytes) -> bytes | None:
    """The first of that name. A plain loop: every request comes by, and a generator costs thrice."""
    for name, value in headers:
        if name == wanted:
            return value
    return None


# `urlsplit` reads a host where there is none: of "[::1]evil" it takes what stands in the brackets.
_HOST = re.compile(r"(?:\[([^\[\]]*:[^\[\]]*)\]|([^\[\]:@/?#\\\s]+))(?::([0-9]{0,5}))?")


def _host_name(netloc: str) -> str | None:
    """The name without port and brackets, or None for what is no host."""
    found = _HOST.fullmatch(netloc)
    if found is None or int(found[3] or 0) > 65_535:
        return None
    return (found[1] or found[2]).lower()


def _refuse(
    scope: Scope, rpc: Collection[str], status: int, code: str, message: str, id: str | int | None = None
) -> Response:
    if scope["path"] in rpc:
        return json_answer(error_reply(id, INVALID_REQUEST, f"Invalid Request: {message}", {"error": code}), status)
    return json_answer({"error": code, "message": message}, status)


async def _read_body(receive: Receive, declared: int, bytes_max: int) -> Bounded:
    """To its end, or until it is known to be too large; a client that leaves early has sent what it has sent."""
    body = Bounded(bytes_max, is_overlong=declared > bytes_max)
    more = True
    while more and not body.is_overlong:
        more = await _read_part(receive, body)
    return body


async def _seek_id(receive: Receive, body: Bounded, bytes_max: int) -> str | int | None:
    """Of a request too large. Some clients write the id last: so it is read on, within bounds, and not kept."""
    with suppress(TimeoutError):
        async with asyncio.timeout(SEEK_SECONDS):
            while body.size <= 2 * bytes_max and await _read_part(receive, body):
                pass
    return body.find_id()


async def _read_part(receive: Receive, body: Bounded) -> bool:
    """Whether there is more."""
    message = await receive()
    body.add(message.get("body", b""))
    return message["type"] == "http.request" and bool(message.get("more_body", False))


def _replay(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
