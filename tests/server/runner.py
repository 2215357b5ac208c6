"""The sample toolsets served by a process of their own: `python -m tests.server.runner stdio|http [JSON settings]`.

Over HTTP the first line on stderr that has one is its address.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import Any

from tallystick.server.http import http_app, run_http
from tallystick.server.stdio import serve_stdio
from tests.server.sample import offer


def main(transport: str, settings: dict[str, Any]) -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    if transport == "stdio":
        asyncio.run(serve_stdio(offer(**settings)))
    else:
        asyncio.run(run_http(http_app(offer(**settings)), host="127.0.0.1", port=0, announce=_announce))


def _announce(host: str, port: int) -> None:
    print(f"http://{host}:{port}/mcp", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]) if len(sys.argv) > 2 else {})
