"""The servers that backups are tried on, behind one face."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import pytest

from tests import s3_server
from tests.azure import server as azure_server


class StoreServer(Protocol):
    @property
    def port(self) -> int: ...

    @property
    def environment(self) -> dict[str, str]:
        """For whoever talks to it."""
        ...

    def environment_through(self, port: int) -> dict[str, str]:
        """For whoever talks to it by way of another port."""
        ...

    def url(self, prefix: str) -> str: ...

    def start(self) -> None:
        """On the same files and ports as before."""
        ...

    def stop(self) -> None:
        """Nobody is answered any more. What it acknowledged is there when it starts again."""
        ...


RUNNING: dict[str, Callable[[Path], AbstractContextManager[StoreServer]]] = {
    "s3": s3_server.running,
    "azure": azure_server.running,
}
SERVERS = (
    "s3",
    pytest.param("azure", marks=pytest.mark.skipif(not azure_server.INSTALLED, reason="make test installs the server")),
)
