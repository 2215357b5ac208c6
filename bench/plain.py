"""References for the doors: `python -m bench.plain KIND PLACE` serves point reads and prints its address.

`sdk` is a server as the SDK's own documentation makes it, on uvicorn as it comes, which looks its answers up in a
dict; `sdk-here` is the same application behind our HTTP; `bare` answers with ready bytes, whatever is asked: less our
HTTP server cannot do.
PLACE is a file with the answers of our server by entity id, so that all send the same.
`long` is our server on the base PLACE with the fast path switched off.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import uvicorn
import uvloop
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.routing import Route

from tallystick.app import served
from tallystick.config import Settings
from tallystick.server.http import http_app, run_http


def main(kind: str, place: Path) -> None:
    if kind == "long":
        uvloop.run(_long(place))
        return
    answers = json.loads(place.read_text())
    if kind == "sdk":
        uvloop.run(_serve_plainly(_sdk(answers)))
    else:
        uvloop.run(_serve({"sdk-here": _sdk, "bare": _bare}[kind](answers)))


async def _long(base: Path) -> None:
    async with served(Settings(base=base, http="127.0.0.1:0")) as offer:
        await _serve(http_app(offer, fast_path=False))


async def _serve(app: Any) -> None:
    """As `tallystick serve` does, so that only the application differs."""
    announce = lambda host, port: print(f"http://{host}:{port}", flush=True)  # noqa: E731
    await run_http(app, host="127.0.0.1", port=0, announce=announce)


async def _serve_plainly(app: Any) -> None:
    """As the SDK does, but for a line of log for each request."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, access_log=False, log_level="warning")
    listening = config.bind_socket()
    listening.listen()
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    await uvicorn.Server(config).serve([listening])


def _sdk(answers: dict[str, Any]) -> Any:
    tool = types.Tool(
        name="memory.read",
        description="Get one entity by id.",
        input_schema={"type": "object", "properties": {"entity_id": {"type": "string"}}, "required": ["entity_id"]},
    )

    async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool])

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        found = answers[(params.arguments or {})["entity_id"]]
        return types.CallToolResult(content=[types.TextContent(text=json.dumps(found))], structured_content=found)

    server: Server[Any] = Server("plain", on_list_tools=list_tools, on_call_tool=call_tool)
    manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    return Starlette(routes=[Route("/mcp", _Endpoint(manager.handle_request), methods=["POST"])], lifespan=lifespan)


class _Endpoint:
    """Starlette takes a bare function for a request handler."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)


def _bare(answers: dict[str, Any]) -> Any:
    found = next(iter(answers.values()))
    result = {"content": [{"type": "text", "text": json.dumps(found)}], "structuredContent": found}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return answer


async def _live(receive: Any, send: Any) -> None:
    for moment in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{moment}.complete"})


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
