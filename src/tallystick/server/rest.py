"""REST: the same tools for programs that speak no MCP. POST the arguments, get the answer's data.

Every answer is JSON. An error has its toolset's own shape and the status of its class.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tallystick.errors import NotFound, TallystickError
from tallystick.server import Offer
from tallystick.server.answers import Reply, json_answer, retry_after, send_json, status_of
from tallystick.server.dispatch import Broken, Done, OfferedTool, Outcome, Refused, call
from tallystick.server.guards import BODY_KEY, HEADERS_KEY
from tallystick.server.jsonrpc import WireFault, parse
from tallystick.server.openapi import openapi
from tallystick.server.schemas import error_schema, input_schema
from tallystick.telemetry import tracing

if TYPE_CHECKING:
    from tallystick.server.oauth.guard import Admission


def rest_routes(offer: Offer, admission: Admission | None = None, more: Sequence[Route] = ()) -> list[Route]:
    """`more`: what is served besides, and described with it."""
    listing = {"tools": [_listing(entry) for entry in offer.tools]}
    document = openapi(offer, admission, [route.path_format for route in more])

    async def health(request: Request) -> Response:
        return json_answer(_health(offer))

    async def live(request: Request) -> Response:
        return _probe(offer.not_live())

    async def ready(request: Request) -> Response:
        return _probe(offer.not_live() or offer.not_ready())

    async def tools(request: Request) -> Response:
        return json_answer(listing)

    async def description(request: Request) -> Response:
        return json_answer(document)

    async def tool(request: Request) -> Response:
        try:
            entry = offer.tools.get(request.path_params["name"])
        except NotFound as error:
            return json_answer({"error": error.code, "message": error.message, **error.details}, 404)
        return ToolCall(offer, entry)

    return [
        Route("/health", health, methods=["GET"]),
        Route("/health/live", live, methods=["GET"]),
        Route("/health/ready", ready, methods=["GET"]),
        Route("/v1/tools", tools, methods=["GET"]),
        Route("/v1/tools/{name}", tool, methods=["POST"]),
        Route("/v1/openapi.json", description, methods=["GET"]),
    ]


def rest_calls(offer: Offer) -> dict[str, ToolCall]:
    """By path, under both of its names: each tool, for whoever needs no routing."""
    return {
        f"/v1/tools/{name}": ToolCall(offer, entry)
        for entry in offer.tools
        for name in (entry.dotted, entry.underscored)
    }


class ToolCall(Response):
    """One tool's calls, behind the guard of bodies. As a Response it can be what a route answers with."""

    def __init__(self, offer: Offer, entry: OfferedTool) -> None:
        self._offer = offer
        self._entry = entry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send_json(send, await self.answer(scope, scope[BODY_KEY]))

    async def answer(self, scope: Scope, body: bytes) -> Reply:
        arguments = _arguments(scope[HEADERS_KEY], body)
        if isinstance(arguments, tuple):
            return arguments
        if tracing.tracer is not None:
            tracing.arrive(scope["headers"])
        offer, entry = self._offer, self._entry
        outcome = await call(entry, arguments, offer.store, lambda: offer.caller(scope, entry.tool, is_program=True))
        return (200, outcome.encoded, ()) if type(outcome) is Done else _refused(outcome)


def _arguments(headers: dict[bytes, bytes], body: bytes) -> dict[str, Any] | Reply:
    kind = headers.get(b"content-type", b"")
    if kind != b"application/json" and kind.partition(b";")[0].strip().lower() != b"application/json":
        return _refusal(415, "NOT_JSON", "the body must be application/json")
    try:
        arguments = parse(body) if body else {}
    except WireFault as fault:
        return _refusal(400, "INVALID_ARGUMENT", fault.message, validation_errors=[fault.message])
    if not isinstance(arguments, dict):
        words = "the arguments must be an object"
        return _refusal(400, "INVALID_ARGUMENT", words, validation_errors=[words])
    return arguments


def _refused(outcome: Outcome) -> Reply:
    match outcome:
        case Done():
            return 200, outcome.encoded, ()
        case Refused(error, shape):
            problems = {"validation_errors": outcome.problems} if outcome.problems else {}
            return status_of(error), orjson.dumps({**shape, **problems}), retry_after(error.details)
        case Broken(error_id):
            return _refusal(500, "INTERNAL_ERROR", "a bug of ours; name the id when you report it", error_id=error_id)


def _refusal(status: int, code: str, message: str, **more: Any) -> Reply:
    return status, orjson.dumps({"error": code, "message": message, **more}), ()


def _health(offer: Offer) -> dict[str, Any]:
    trouble = offer.not_live() or offer.not_ready()
    status = {"status": "ok"} if trouble is None else {"status": "not_ready", "message": trouble}
    return {**status, "version": offer.version, **_position(offer)}


def _position(offer: Offer) -> dict[str, int]:
    with suppress(TallystickError, OSError):
        return {} if offer.position is None else {"position": offer.position()}
    return {}


def _probe(trouble: str | None) -> Response:
    said = {"status": "ok"} if trouble is None else {"error": "NOT_READY", "message": trouble}
    return json_answer(said, 200 if trouble is None else 503, {"Cache-Control": "no-store"})


def _listing(entry: OfferedTool) -> dict[str, Any]:
    tool = entry.tool
    return {
        "name": tool.name,
        "toolset": entry.toolset.name,
        "title": tool.title,
        "description": tool.description,
        "reads_only": tool.reads_only,
        "destructive": tool.destructive,
        "idempotent": tool.idempotent,
        "input_schema": input_schema(tool),
        "output_schema": tool.output,
        "error_schema": error_schema(entry.toolset),
    }


def not_served(request: Request, error: Exception) -> Response:
    """Starlette's own refusals (no such path, wrong method) as JSON, like everything else."""
    status = getattr(error, "status_code", 500)
    words = {404: ("NO_SUCH_PATH", "there is nothing at this path"), 405: ("WRONG_METHOD", "not with this method")}
    code, message = words.get(status, ("HTTP_ERROR", "the request can't be served"))
    return json_answer({"error": code, "message": message}, status, getattr(error, "headers", None))
