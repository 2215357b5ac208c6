"""A server that may have few files open: a real process, limited for real."""

from __future__ import annotations

import http.client
import json
import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

from tests.mcp_client import ServerProcess, clean_environ, stopping

FILES = 160
WRITE = {"op": "UPSERT_NODE", "node": {"id": "n", "type": "note", "attrs": {}}}


def limited(base: Path) -> ServerProcess:
    command = [sys.executable, "-m", "tallystick", "serve", "--base", str(base), "--http", "127.0.0.1:0"]
    shell = ["/bin/sh", "-c", f'ulimit -n {FILES}; exec "$@"', "sh"]
    return ServerProcess([*shell, *command], environ={**clean_environ(), "NO_COLOR": "1"})


def test_connections_leave_files_for_the_log(tmp_path: Path) -> None:
    with stopping(limited(tmp_path / "memory")) as server, ExitStack() as opened:
        address = urlsplit(server.url)
        assert any("connections are served, not http_connections_max" in line for line in server.lines)
        for _ in range(2 * FILES):
            opened.enter_context(socket.create_connection((str(address.hostname), int(address.port or 0))))
        for _ in range(3):
            connection = http.client.HTTPConnection(address.netloc)
            connection.request(
                "POST", "/v1/tools/memory.write", json.dumps(WRITE), {"Content-Type": "application/json"}
            )
            assert connection.getresponse().status == 200
            connection.close()
