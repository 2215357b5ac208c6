"""A real HTTP server in a process of its own, for tests that need a socket."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@contextmanager
def serving(**settings: Any) -> Iterator[str]:
    """Its address. On leaving it is asked to end, and must do so well."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.server.runner", "http", json.dumps(settings)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
