"""The end of a server under load: whoever is connected is answered once more, and told to go elsewhere."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.mcp_client import ServerProcess, start_http
from tests.promises import promise

CALLERS = 4
_JSON = {"Content-Type": "application/json"}
_PATIENT = {"TALLYSTICK_DRAIN_SECONDS": "600", "TALLYSTICK_HTTP_HEAD_SECONDS": "600"}


class Caller:
    """Writes over one connection until it is told that this one ends, then over new ones until none is taken."""

    def __init__(self, server: ServerProcess, number: int) -> None:
        address = urlsplit(server.url)
        self._host, self._port = str(address.hostname), int(address.port or 0)
        self._number = number
        self.acknowledged: list[str] = []
        self.failed: list[str] = []
        self.begun = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        while True:
            connection = http.client.HTTPConnection(self._host, self._port)
            try:
                connection.connect()
            except OSError:
                return
            try:
                if not self._call_until_closed(connection):
                    return
            finally:
                connection.close()

    def _call_until_closed(self, connection: http.client.HTTPConnection) -> bool:
        """Whether to go on with another. What was never accepted, only queued by the kernel, is a refusal."""
        is_first = True
        while True:
            id = f"{self._number}-{len(self.acknowledged)}"
            body = {"op": "UPSERT_NODE", "node": {"id": id, "type": "Note", "attrs": {}}}
            try:
                connection.request("POST", "/v1/tools/memory.write", json.dumps(body), _JSON)
                answer = connection.getresponse()
                answer.read()
            except (OSError, http.client.HTTPException) as error:
                if not (is_first and isinstance(error, ConnectionError)):
                    self.failed.append(repr(error))
                return False
            if answer.status != 200:
                self.failed.append(str(answer.status))
            self.acknowledged.append(id)
            self.begun.set()
            is_first = False
            if answer.getheader("connection") == "close":
                return True


@pytest.mark.parametrize("workers", ["1", "2"])
def test_no_call_fails_when_the_server_is_asked_to_end_and_none_that_was_acknowledged_is_lost(
    tmp_path: Path, workers: str
) -> None:
    server = start_http(tmp_path, "--workers", workers, environ=_PATIENT)
    try:
        callers = [Caller(server, number) for number in range(CALLERS)]
        for caller in callers:
            caller.begun.wait()
        server.process.terminate()
        for caller in callers:
            caller.thread.join()
        assert server.process.wait() == 0
    finally:
        server.kill()
    assert [failure for caller in callers for failure in caller.failed] == []
    log = b"".join(path.read_bytes() for path in sorted((tmp_path / "_system" / "log").glob("*.jsonl")))
    written = {id for caller in callers for id in caller.acknowledged}
    assert {id for id in written if f'"id":"{id}"'.encode() not in log} == set()


@promise("§5.4, drain", "a request on its way is answered when a server is asked to end")
def test_a_request_on_its_way_when_the_end_begins_is_answered_and_probes_are_told_to_look_elsewhere(
    tmp_path: Path,
) -> None:
    server = start_http(tmp_path, environ=_PATIENT)
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
