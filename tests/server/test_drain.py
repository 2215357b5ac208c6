"""The end of a server under load: whoever is connected is answered once more, and told to go elsewhere."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

from tests.mcp_client import ServerProcess, start_http


def test_a_request_on_its_way_when_the_end_begins_is_answered_and_probes_are_told_to_look_elsewhere(
    tmp_path: Path,
) -> None:
    patient = {"TALLYSTICK_DRAIN_SECONDS": "600", "TALLYSTICK_HTTP_HEAD_SECONDS": "600"}
    server = start_http(tmp_path, environ=patient)
    try:
        with _connect(server) as slow:
            slow.sendall(b"GET /health/live HTTP/1.1\r\n")
            with _connect(server) as probe:
                assert b" 200 " in _probe(probe, server)
                server.process.terminate()
                while b" 200 " in (said := _probe(probe, server)):
                    pass
            assert b" 503 " in said
            assert b"about to end" in said
            assert b"connection: close" in said
            slow.sendall(f"Host: {urlsplit(server.url).netloc}\r\n\r\n".encode())
            said = b"".join(iter(lambda: slow.recv(4096), b""))
            assert b" 200 " in said
            assert b"connection: close" in said
        assert server.process.wait() == 0
    finally:
        server.kill()


def _connect(server: ServerProcess) -> socket.socket:
    address = urlsplit(server.url)
    return socket.create_connection((str(address.hostname), int(address.port or 0)))


def _probe(connection: socket.socket, server: ServerProcess) -> bytes:
    connection.sendall(f"GET /health/ready HTTP/1.1\r\nHost: {urlsplit(server.url).netloc}\r\n\r\n".encode())
    return connection.recv(4096)
