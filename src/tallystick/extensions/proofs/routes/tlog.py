"""The tree of a log over HTTP, as transparency logs serve it: `/tlog/<tenant>/checkpoint` and `/tlog/<tenant>/tile/…`.

Hashes and signatures, which say nothing of what was committed but how much it is, and when. Files that are there are
read, nothing is computed and no log is opened: whoever asks costs no more than a static server's caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tallystick.app.context import AppContext
from tallystick.config import Settings
from tallystick.engine.tenants import is_tenant
from tallystick.extensions.proofs.tiles import find_tile
from tallystick.log import CHECKPOINT, tree_directory
from tallystick.server.answers import json_answer
from tallystick.server.oauth import SCOPE_KEY, Identity
from tallystick.system.regular_files import read_regular

PATH = "/tlog"
Access = Literal["off", "guarded", "open"]

_FOREVER = "public, max-age=31536000, immutable"


def routes(context: AppContext) -> list[Route]:
    settings = context.settings

    def tiles_of(tenant: str) -> Path | None:
        # Without an issuer there is one tenant, although others may have a log here.
        if tenant != settings.tenant and not (settings.issuers and is_tenant(tenant)):
            return None
        return tree_directory(context.of(tenant).home)

    return tlog_routes(settings.tlog, tiles_of)


def open_paths(settings: Settings) -> list[str]:
    return [f"{PATH}/"] if settings.tlog == "open" else []


def tlog_routes(access: Access, tiles_of: Callable[[str], Path | None]) -> list[Route]:
    """`tiles_of` gives the directory of a tenant's tiles, None for who is none. A guard before the route leaves an
    Identity: of another tenant's log it is not even told whether it is there."""

    async def tlog(request: Request) -> Response:
        tenant, path = request.path_params["tenant"], request.path_params["path"]
        identity: Identity | None = request.scope.get(SCOPE_KEY)
        is_foreign = access == "guarded" and identity is not None and identity.principal.tenant != tenant
        directory = None if is_foreign else tiles_of(tenant)
        found = None if directory is None else await asyncio.to_thread(_read, directory, path)
        if found is None:
            return json_answer({"error": "NOT_FOUND", "message": "there is no such checkpoint or tile"}, 404)
        if path == CHECKPOINT:
            return Response(found, media_type="text/plain", headers={"Cache-Control": "no-cache"})
        return Response(found, media_type="application/octet-stream", headers={"Cache-Control": _FOREVER})

    return [] if access == "off" else [Route(f"{PATH}/{{tenant}}/{{path:path}}", tlog, methods=["GET"])]


def _read(directory: Path, path: str) -> bytes | None:
    if path != CHECKPOINT:
        return find_tile(directory, path)
    try:
        return read_regular(directory / CHECKPOINT)
    except OSError:
        return None
