"""Proofs over HTTP: files for outsiders, made for whoever may read what they are about.

`/v1/proof/entry/<commit or entity>` answers with a C2SP tlog-proof, `/v1/proof/since/<size>` with what shows that the
log continues an older checkpoint of that size. Nothing is signed here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tallystick.app.context import AppContext
from tallystick.commits.signed_note import decode_size
from tallystick.errors import TallystickError
from tallystick.extensions.proofs.prove import prove_commit, prove_since
from tallystick.policy import Action, Principal
from tallystick.server import Offer
from tallystick.server.answers import json_answer, retry_after, status_of

PATH = "/v1/proof"
KIND = "text/plain; charset=utf-8"
_TOOL = "proof"

Prove = Callable[[Principal, str], Awaitable[bytes]]


def routes(context: AppContext) -> list[Route]:
    assert context.offer is not None
    return proof_routes(context.offer, lambda tenant: context.of(tenant).home)


def proof_routes(offer: Offer, home_of: Callable[[str], Path]) -> list[Route]:
    """`home_of`: where the memory of a tenant lies."""

    async def entry(principal: Principal, named: str) -> bytes:
        return (await prove_commit(offer.store, principal, home_of(principal.tenant), named)).proof

    async def since(principal: Principal, named: str) -> bytes:
        size = decode_size(named)
        # Hashes tell nothing of what was written, but only who may look at all gets them.
        await offer.store.read(principal, Action.SEARCH, lambda state, read_filter: None)
        return (await asyncio.to_thread(prove_since, home_of(principal.tenant), size)).proof

    def answering(prove: Prove) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                return Response(await prove(_caller(offer, request), request.path_params["named"]), media_type=KIND)
            except TallystickError as error:
                hint = {"hint": error.hint} if error.hint else {}
                answer = json_answer({"error": error.code, "message": error.message, **hint}, status_of(error))
                answer.raw_headers += retry_after(error.details)
                return answer

        return answer

    return [
        Route(f"{PATH}/entry/{{named:path}}", answering(entry), methods=["GET"]),
        Route(f"{PATH}/since/{{named}}", answering(since), methods=["GET"]),
    ]


def _caller(offer: Offer, request: Request) -> Principal:
    principal = offer.principal_of(request.scope)
    if offer.quotas is not None:
        offer.quotas.check(principal, writes=False)
    return msgspec.structs.replace(principal, tool=_TOOL, is_program=True, answer_bytes_max=offer.answer_bytes_max)
