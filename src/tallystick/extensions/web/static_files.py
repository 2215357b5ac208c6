"""The files that pages are drawn with: named by their content, so that browsers keep them for good."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tallystick.extensions.web.security import HEADERS

PATH = "/static"
DIRECTORY = Path(__file__).parent / "static"
KINDS = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_FOREVER = "public, max-age=31536000, immutable"


class StaticFile(msgspec.Struct, frozen=True):
    address: str
    kind: str
    content: bytes
    compressed: bytes


@cache
def static_files() -> Mapping[str, StaticFile]:
    """By name. Read once: they come with the package."""
    return {path.name: _read(path) for path in sorted(DIRECTORY.iterdir()) if path.suffix in KINDS}


def static_route() -> Route:
    by_address = {each.address: each for each in static_files().values()}

    async def serve(request: Request) -> Response:
        found = by_address.get(request.url.path)
        if found is None:
            return Response(status_code=404, headers=HEADERS)
        headers = {**HEADERS, "Content-Type": found.kind, "Cache-Control": _FOREVER, "Vary": "Accept-Encoding"}
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(found.content, headers=headers)
        return Response(found.compressed, headers={**headers, "Content-Encoding": "gzip"})

    return Route(f"{PATH}/{{name}}", serve, methods=["GET"])


def _read(path: Path) -> StaticFile:
    content = path.read_bytes()
    address = f"{PATH}/{path.stem}-{sha256(content).hexdigest()[:12]}{path.suffix}"
    return StaticFile(address, KINDS[path.suffix], content, gzip.compress(content, 9, mtime=0))
