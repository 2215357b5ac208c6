"""The opening of a conversation over stdio: most say hello, list the tools and call them, and never need the SDK.

Loading the SDK takes longer than everything else that a process does before its first answer,
so that waits until something is asked which only the SDK can answer. What is written here of
the protocol are its plainest words; whatever has one word more is declined, and the SDK, told
what was said so far, answers that and all that follows. `tests/server/test_late_sdk.py` holds
every answer against the SDK's own. In one thing it is kinder: a client that asked what we speak, and
gave up waiting, may still shake hands.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from typing import Any, TypeVar

import msgspec
import orjson

from tallystick.server import Client, Offer
from tallystick.server.fast_path import RESERVED, VERSION_KEY, Era, fault_of, handshake_era
from tallystick.server.fast_path.stdio import StdioFastPath
from tallystick.server.jsonrpc import error_reply
from tallystick.server.listing import FRESH_MILLISECONDS, TITLE, Listing

HANDSHAKE_VERSIONS = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"})
MODERN_VERSIONS = ("2026-07-28",)

Message = dict[str, Any]
Params = dict[str, Any]
Result = dict[str, Any]
Answer = Result | Callable[[], Awaitable[Result]]
"""What is known already, or has to be looked up."""


class Handshake:
    """Belongs to one connection, and ends when the SDK takes over. What it answers goes out through the fast path."""

    def __init__(self, offer: Offer, fast_path: StdioFastPath) -> None:
        self._listing = Listing(offer)
        self._fast_path = fast_path
        self._server = server_info(offer)
        self._client: str | None = None
        self._said: list[Message] = []
        self._era: Era | None = None
        self._has_only_probed = False
        """Nothing was asked but what we speak. A client that waited too long for the answer may shake hands yet."""

    def takes(self, message: Message) -> bool:
        """Whether it is answered here, if it asks for anything."""
        if "method" not in message or "id" not in message:
            return self._heard(message)
        if self._has_only_probed and message["method"] == "initialize":
            self._era = None
            self._said.clear()
        self._has_only_probed = message["method"] == "server/discover" and (self._era is None or self._has_only_probed)
        answer = self._first(message) if self._era is None else self._result(message, self._era)
        if answer is not None:
            self._fast_path.serve(message["id"], partial(_reply, message["id"], answer))
        return answer is not None or (self._era is not None and self._fast_path.takes(message))

    def replay(self) -> list[Message]:
        """What the SDK must be told, so that it stands where we do. Nothing of it changes anything."""
        return self._said

    def _heard(self, message: Message) -> bool:
        """After the first request no notification, and no reply to what was never asked, means anything but these."""
        if self._era is None:
            return False
        if message.get("method") == "notifications/initialized" and len(self._said) == 1:
            self._said.append(message)
        self._fast_path.takes(message)
        return True

    def _first(self, message: Message) -> Answer | None:
        """The first request settles how the client speaks, for good."""
        params = message.get("params")
        if not params or not message.keys() <= _MESSAGE:
            return None
        if message["method"] == "initialize":
            return self._shake_hands(message, params)
        envelope = _find_envelope(params) if message["method"] in _MODERN_METHODS else None
        if envelope is None:
            return None
        self._client = envelope.client_info.name if envelope.client_info else None
        # Not the request itself: that may be a call, and no call is made twice.
        asked = {"_meta": params["_meta"]}
        self._begin(_modern_era(self._server), {**message, "method": "server/discover", "params": asked})
        return self._modern_result(message["method"], params)

    def _shake_hands(self, message: Message, params: Params) -> Result | None:
        result = hello_result(params, self._listing, self._server, pushes=True)
        if result is not None:
            self._client = params["clientInfo"]["name"]
            self._begin(handshake_era(params["protocolVersion"]), message)
        return result

    def _begin(self, era: Era, said: Message) -> None:
        self._said.append(said)
        self._era = era
        self._fast_path.introduced(era, self._client)

    def _result(self, message: Message, era: Era) -> Answer | None:
        if not message.keys() <= _MESSAGE:
            return None
        answer = self._modern_result if era.is_modern else self._handshake_result
        return answer(message["method"], message.get("params") or {})

    def _handshake_result(self, method: str, params: Params) -> Answer | None:
        if params and (params.keys() != {"_meta"} or not _is_bare(params["_meta"])):
            return None
        match method:
            case "ping":
                return {}
            case "tools/list":
                return {"tools": self._listing.tools(self._client)}
            case "resources/list" if self._listing.resources:
                return partial(self._page, self._client, {})
        return self._fixed_list(method)

    def _modern_result(self, method: str, params: Params) -> Answer | None:
        envelope = _find_envelope(params)
        if envelope is None or params.keys() != {"_meta"}:
            return None
        complete = {"resultType": "complete", "cacheScope": "private", "_meta": {SERVER_KEY: self._server}}
        match method:
            case "server/discover":
                capabilities = self._listing.capabilities(pushes=True)
                told = {"capabilities": capabilities, "instructions": self._listing.instructions}
                return {**complete, **told, "supportedVersions": MODERN_VERSIONS, "ttlMs": 0}
            case "tools/list":
                client = envelope.client_info.name if envelope.client_info else None
                return {**complete, "tools": self._listing.tools(client), "ttlMs": FRESH_MILLISECONDS}
            case "resources/list" if self._listing.resources:
                client = envelope.client_info.name if envelope.client_info else None
                return partial(self._page, client, {**complete, "ttlMs": 0})
        listed = self._fixed_list(method)
        return None if listed is None else {**complete, **listed, "ttlMs": FRESH_MILLISECONDS}

    def _fixed_list(self, method: str) -> Result | None:
        match method:
            case "prompts/list" if self._listing.prompts:
                return {"prompts": self._listing.prompts.listed}
            case "resources/templates/list" if self._listing.resources:
                return {"resourceTemplates": self._listing.resources.templates}
        return None

    async def _page(self, client: str | None, more: Result) -> Result:
        caller = self._listing.resources.caller(None, Client(client, self._fast_path.client.session))
        return {**more, **await self._listing.resources.page(caller)}


def server_info(offer: Offer) -> dict[str, Any]:
    return {"name": offer.name, "title": TITLE, "version": offer.version}


def hello_result(params: Params, listing: Listing, server: dict[str, Any], *, pushes: bool) -> Result | None:
    """Of an `initialize` in its plainest form. `pushes` as in `Listing.capabilities`."""
    hello = _find(params, _Hello)
    if hello is None or hello.protocol_version not in HANDSHAKE_VERSIONS:
        return None
    return {
        "protocolVersion": hello.protocol_version,
        "capabilities": listing.capabilities(pushes=pushes),
        "serverInfo": server,
        "instructions": listing.instructions,
    }


SERVER_KEY = RESERVED + "serverInfo"


def _modern_era(server: dict[str, Any]) -> Era:
    stamp = orjson.dumps({SERVER_KEY: server})
    return Era(is_modern=True, faults_in_result=True, tail=b',"resultType":"complete","_meta":' + stamp)


@lru_cache(maxsize=100)
def is_plain_envelope(reserved: bytes) -> bool:
    """As the SDK judges it, or stricter."""
    return _find_plain_envelope(orjson.loads(reserved)) is not None


async def _reply(id: str | int, answer: Answer) -> bytes:
    if isinstance(answer, dict):
        return orjson.dumps({"jsonrpc": "2.0", "id": id, "result": answer})
    try:
        return orjson.dumps({"jsonrpc": "2.0", "id": id, "result": await answer()})
    except Exception as error:
        fault = fault_of(error, "resources/list")
        return orjson.dumps(error_reply(id, fault.code, fault.message, fault.data))


# -- what is understood: every member known, and of the one right type

_MESSAGE = {"jsonrpc", "id", "method", "params"}
_MODERN_METHODS = {
    "server/discover", "tools/list", "tools/call", "prompts/list", "resources/list", "resources/templates/list",
}  # fmt: skip


class _Known(msgspec.Struct, forbid_unknown_fields=True, rename="camel"): ...


class _Icon(_Known):
    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None


class _Client(_Known):
    name: str
    version: str
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: list[_Icon] | None = None


class _Roots(_Known):
    list_changed: bool | None = None


class _Sampling(_Known):
    context: dict[str, Any] | None = None
    tools: dict[str, Any] | None = None


class _Elicitation(_Known):
    form: dict[str, Any] | None = None
    url: dict[str, Any] | None = None


class _Capabilities(_Known):
    experimental: dict[str, dict[str, Any]] | None = None
    extensions: dict[str, dict[str, Any]] | None = None
    roots: _Roots | None = None
    sampling: _Sampling | None = None
    elicitation: _Elicitation | None = None


class _Hello(_Known):
    protocol_version: str
    capabilities: _Capabilities
    client_info: _Client


class _Envelope(_Known):
    """Of a request in the modern era: the members of its `_meta` whose names are reserved."""

    protocol_version: str
    client_capabilities: _Capabilities
    client_info: _Client | None = None


def _find_envelope(params: Params) -> _Envelope | None:
    meta = params.get("_meta")
    if type(meta) is not dict:
        return None
    reserved = {key: value for key, value in meta.items() if key.startswith(RESERVED)}
    others = {key: value for key, value in meta.items() if key not in reserved}
    return _find_plain_envelope(reserved) if _is_bare(others) else None


def _find_plain_envelope(reserved: dict[str, Any]) -> _Envelope | None:
    if reserved.get(VERSION_KEY) not in MODERN_VERSIONS:
        return None
    return _find({key.removeprefix(RESERVED): value for key, value in reserved.items()}, _Envelope)


def _is_bare(meta: Any) -> bool:
    """Nothing but what every client may add to any request. Only of calls progress is told."""
    return type(meta) is dict and all(
        key == "progressToken" and type(value) in (str, int) for key, value in meta.items()
    )


_T = TypeVar("_T")


def _find(data: Params, kind: type[_T]) -> _T | None:
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError:
        return None
