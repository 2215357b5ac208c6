"""The sample toolsets over HTTP in a process of its own, for tests that need a socket."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.mcp_client import ServerProcess, clean_environ, stopping

ROOT = Path(__file__).parents[2]


@contextmanager
def serving(**settings: Any) -> Iterator[str]:
    """Its address. On leaving it is asked to end, and must do so well."""
    command = [sys.executable, "-m", "tests.server.runner", "http", json.dumps(settings)]
    with stopping(ServerProcess(command, environ=clean_environ(), cwd=ROOT)) as server:
        yield server.url
