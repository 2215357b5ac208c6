"""The probes of real servers whose log cannot be used, and of workers."""

from __future__ import annotations

import http.client
import json
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.mcp_client import ServerProcess, serving_http, start_http, stopping
from tests.server.test_workers import Caller, workers_of
from tests.timeouts import wait_until

HOLD = "import fcntl, sys, time; f = open(sys.argv[1], 'r+'); fcntl.flock(f, 2); print(flush=True); time.sleep(9999)"


def probe(server: ServerProcess, kind: str) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc)
    try:
        connection.request("GET", f"/health{kind}")
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def probe_until(server: ServerProcess, kind: str, status: int) -> dict[str, Any]:
    wait_until(lambda: probe(server, kind)[0] == status)
    return probe(server, kind)[1]


def write(server: ServerProcess, number: int, **attrs: Any) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc)
    arguments = {"op": "UPSERT_NODE", "node": {"id": f"n{number}", "type": "note", "attrs": attrs}}
    try:
        connection.request(
            "POST", "/v1/tools/memory.write", json.dumps(arguments), {"Content-Type": "application/json"}
        )
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "memory"


@pytest.fixture
def server(base: Path) -> Iterator[ServerProcess]:
    with serving_http(base) as server:
        assert write(server, 1)[0] == 200
        yield server


def test_a_lock_that_a_stopped_process_holds_fails_readiness_until_it_is_released(
    server: ServerProcess, base: Path
) -> None:
    command = [sys.executable, "-c", HOLD, str(base / "_system" / "lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        holder.send_signal(signal.SIGSTOP)
        told = probe_until(server, "/ready", 503)
        assert "waiting for the log's lock" in told["message"]
        assert probe(server, "/live") == (200, {"status": "ok"})
        assert probe(server, "")[1]["status"] == "not_ready"
        holder.kill()
    assert probe_until(server, "/ready", 200) == {"status": "ok"}


def test_a_damaged_log_fails_readiness_and_not_liveness(server: ServerProcess, base: Path) -> None:
    head = base / "_system" / "head"
    content = head.read_bytes()
    with head.open("r+b") as file:
        file.write(b"#")
    told = probe_until(server, "/ready", 503)
    assert "LOG_CORRUPT" in told["message"]
    assert str(base) not in json.dumps(told)
    assert probe(server, "/live")[0] == 200
    assert probe(server, "")[1]["status"] == "not_ready"
    with head.open("r+b") as file:
        file.write(content)
    assert probe_until(server, "/ready", 200) == {"status": "ok"}


def test_a_base_that_was_removed_fails_readiness(base: Path) -> None:
    server = start_http(base)
    try:
        assert write(server, 1)[0] == 200
        base.rename(base.with_name("elsewhere"))
        assert probe_until(server, "/ready", 503)["error"] == "NOT_READY"
    finally:
        server.kill()


def test_a_log_that_was_replaced_fails_liveness_until_a_restart(base: Path) -> None:
    with serving_http(base) as server:
        assert write(server, 1)[0] == 200
        log = base / "_system" / "log"
        log.rename(base / "aside")
        assert "LOG_MISPLACED" in probe_until(server, "/ready", 503)["message"]
        assert probe(server, "/live")[0] == 200
        shutil.copytree(base / "aside", log)
        assert "LOG_MISPLACED" in probe_until(server, "/live", 503)["message"]
    with serving_http(base) as server:
        assert probe(server, "/live")[0] == probe(server, "/ready")[0] == 200
        assert write(server, 2)[0] == 200


def test_a_full_disk_fails_readiness_until_there_is_room(base: Path) -> None:
    server = start_http(base)
    with stopping(server):
        assert write(server, 1)[0] == 200
        _limit_file_size(server, (base / "_system" / "log").stat().st_size + 1_000)
        status, told = write(server, 2, text="x" * 100_000)
        assert (status, told["error"]) == (503, "STORAGE_REFUSED")
        assert "the log cannot be" in probe(server, "/ready")[1]["message"]
        assert probe(server, "/live")[0] == 200
        _limit_file_size(server, -1)
        assert probe_until(server, "/ready", 200) == {"status": "ok"}


def _limit_file_size(server: ServerProcess, size: int) -> None:
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size, -1))


FAILING_SYNC = """
import errno, os
from pathlib import Path
real = os.fdatasync
def fdatasync(fd):
    if Path({flag!r}).exists():
        raise OSError(errno.EIO, "Input/output error")
    real(fd)
os.fdatasync = fdatasync
"""


@pytest.fixture
def failing_sync(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A file whose existence makes syncs fail, and the environment of such a server."""
    flag = tmp_path / "fail"
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(FAILING_SYNC.format(flag=str(flag)))
    return flag, {"PYTHONPATH": str(tmp_path / "site")}


def test_a_failed_sync_fails_liveness_until_a_restart(base: Path, failing_sync: tuple[Path, dict[str, str]]) -> None:
    flag, environ = failing_sync
    with serving_http(base, environ=environ) as server:
        assert write(server, 1)[0] == 200
        flag.touch()
        assert write(server, 2)[0] == 503
        flag.unlink()
        for kind in ("/live", "/ready"):
            status, told = probe(server, kind)
            assert (status, "could not be synced" in told["message"]) == (503, True)
    with serving_http(base, environ=environ) as server:
        assert probe(server, "/live")[0] == probe(server, "/ready")[0] == 200
        assert write(server, 3)[0] == 200


def test_a_worker_that_cannot_write_any_more_is_replaced(base: Path, failing_sync: tuple[Path, dict[str, str]]) -> None:
    flag, environ = failing_sync
    with serving_http(base, "--workers", "2", environ=environ) as server:
        assert write(server, 1)[0] == 200
        before = workers_of(server)
        flag.touch()
        assert write(server, 2)[0] == 503
        flag.unlink()
        server.wait_for("is begun anew")
        caller = Caller(server)
        for number in range(3, 13):
            caller.call("memory.write", op="UPSERT_NODE", node={"id": f"n{number}", "type": "note", "attrs": {}})
        assert len(set(before) & set(workers_of(server))) == 1
