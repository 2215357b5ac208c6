"""The witness over HTTP (C2SP tlog-witness): POST /add-checkpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router

from tallystick.errors import InvalidArgument, TallystickError
from tallystick.extensions.proofs.witness import NotContinued, NotSigned, OtherSize, UnknownLog, Witness
from tallystick.extensions.proofs.witness_request import BODY_BYTES_MAX
from tallystick.server.connections import Bounds
from tallystick.server.http import run_http

PATH = "/add-checkpoint"
_SIZE_TYPE = "text/x.tlog.size"
_STATUSES: tuple[tuple[type[TallystickError], int], ...] = (
    (UnknownLog, 404),
    (NotSigned, 403),
    (NotContinued, 422),
    (InvalidArgument, 400),
)


def witness_app(witness: Witness) -> Router:
    async def add_checkpoint(request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > BODY_BYTES_MAX:
                return PlainTextResponse("the request is too large\n", 413)
        try:
            return PlainTextResponse(await asyncio.to_thread(witness.add_checkpoint, body))
        except OtherSize as error:
            return Response(f"{error.details['size']}\n", 409, {"Content-Type": _SIZE_TYPE})
        except TallystickError as error:
            status = next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)
            return PlainTextResponse(f"{error.message}\n", status)

    return Router([Route(PATH, add_checkpoint, methods=["POST"])])


async def serve_witness(witness: Witness, *, host: str, port: int, announce: Callable[[str, int], None]) -> None:
    """Until SIGINT or SIGTERM. Anybody may ask: what is answered is signed by a log that is trusted, or refused."""
    await run_http(witness_app(witness), host=host, port=port, announce=announce, bounds=Bounds())
