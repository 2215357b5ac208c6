"""How long a test waits for what cannot be an event: longer than the busiest machine needs, so only for what hangs."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 600.0


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.02)
