"""REST: the same tools for programs that speak no MCP. POST the arguments, get the answer's data.

Every answer is JSON. An error has its toolset's own shape and the status of its class.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tallystick.errors import NotFound
from tallystick.server import Offer
from tallystick.server.answers import json_answer, status_of
from tallystick.server.dispatch import Broken, Done, Entry, Outcome, Refused, call
from tallystick.server.openapi import openapi
from tallystick.server.schemas import error_schema, input_schema
from tallystick.server.wire import WireFault, parse


def rest_routes(offer: Offer) -> list[Route]:
    listing = {"tools": [_listing(entry) for entry in offer.tools]}
    document = openapi(offer)

    async def health(request: Request) -> Response:
        return json_answer(_health(offer))

    async def tools(request: Request) -> Response:
        return json_answer(listing)

    async def description(request: Request) -> Response:
        return json_answer(document)

    async def tool(request: Request) -> Response:
        try:
            entry = offer.tools.get(request.path_params["name"])
        except NotFound as error:
            return _refusal(404, error.code, error.message, **error.details)
        return await _call(offer, entry, request)

    return [
        Route("/health", health, methods=["GET"]),
        Route("/v1/tools", tools, methods=["GET"]),
        Route("/v1/tools/{name}", tool, methods=["POST"]),
        Route("/v1/openapi.json", description, methods=["GET"]),
    ]


async def _call(offer: Offer, entry: Entry, request: Request) -> Response:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return _refusal(415, "NOT_JSON", "the body must be application/json")
    body = await request.body()
    try:
        arguments = parse(body) if body.strip() else {}
    except WireFault as fault:
        return _refusal(400, "INVALID_ARGUMENT", fault.message, validation_errors=[fault.message])
    if not isinstance(arguments, dict):
        words = "the arguments must be an object"
        return _refusal(400, "INVALID_ARGUMENT", words, validation_errors=[words])
    writes = not entry.tool.reads_only
    return _answer(await call(entry, arguments, offer.store, lambda: offer.caller(request, writes=writes)))


def _answer(outcome: Outcome) -> Response:
    match outcome:
        case Done(data):
            return json_answer(data)
        case Refused(error, shape):
            problems = {"validation_errors": outcome.problems} if outcome.problems else {}
            return json_answer({**shape, **problems}, status_of(error), _retry_after(error.details))
        case Broken(error_id):
            return _refusal(500, "INTERNAL_ERROR", "a bug of ours; name the id when you report it", error_id=error_id)


def _retry_after(details: dict[str, Any]) -> dict[str, str] | None:
    seconds = details.get("retry_after")
    return {"Retry-After": str(seconds)} if isinstance(seconds, int) else None


def _refusal(status: int, code: str, message: str, **more: Any) -> Response:
    return json_answer({"error": code, "message": message, **more}, status)


def _health(offer: Offer) -> dict[str, Any]:
    health = {"status": "ok", "version": offer.version}
    return health if offer.position is None else {**health, "position": offer.position()}


def _listing(entry: Entry) -> dict[str, Any]:
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
