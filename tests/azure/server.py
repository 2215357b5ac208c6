"""A real server of Azure Blob Storage (Azurite), on this machine alone: the face is that of `tests/s3_server.py`."""

from __future__ import annotations

import hmac
import http.client
import os
import shutil
import signal
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

from tests import timeouts
from tests.nats_cluster import LOOPBACK, free_ports
from tests.timeouts import wait_until

PROGRAM = Path(__file__).parent / "node_modules/azurite/dist/src/blob/main.js"
INSTALLED = PROGRAM.exists() and shutil.which("node") is not None
ACCOUNT, CONTAINER = "tests", "backups"
KEY = b64encode(b"tests-secret").decode()
_VERSION = "2021-08-06"


class AzureServer:
    """Its port and its directory stay the same over any number of starts."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (self.port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None
        (directory / "data").mkdir(parents=True)

    @property
    def environment(self) -> dict[str, str]:
        return self.environment_through(self.port)

    def environment_through(self, port: int) -> dict[str, str]:
        return {
            "AZURE_STORAGE_ENDPOINT": f"http://{LOOPBACK}:{port}/{ACCOUNT}",
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
        }

    def url(self, prefix: str) -> str:
        return f"az://{CONTAINER}/{prefix}"

    def start(self) -> None:
        command = [
            *("node", str(PROGRAM), "--blobHost", LOOPBACK, "--blobPort", str(self.port)),
            *("--location", str(self.directory / "data"), "--silent", "--disableTelemetry"),
        ]
        with (self.directory / "server.log").open("ab") as log:
            self._process = process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env={**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"},
            )
        wait_until(lambda: self._make_container() in (201, 409) or process.poll() is not None)
        assert process.poll() is None, (self.directory / "server.log").read_text(errors="replace")[-4000:]

    def stop(self) -> None:
        """With time to write: Azurite acknowledges first and keeps what it did seconds later, unlike Azure itself."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(timeouts.SECONDS)
            self._process = None

    def _make_container(self) -> int:
        path = f"/{ACCOUNT}/{CONTAINER}"
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": _VERSION}
        named = "".join(f"{name}:{value}\n" for name, value in headers.items())
        # Its own path is signed behind the name of the account, which here begins the path, too.
        signed = f"PUT{chr(10) * 12}{named}/{ACCOUNT}{path}\nrestype:container"
        digest = hmac.digest(b64decode(KEY), signed.encode(), "sha256")
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{b64encode(digest).decode()}"
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=timeouts.SECONDS)
        try:
            connection.request("PUT", f"{path}?restype=container", headers=headers)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()


@contextmanager
def running(directory: Path) -> Iterator[AzureServer]:
    server = AzureServer(directory)
    try:
        server.start()
        yield server
    finally:
        server.stop()
