"""The circuit breaker: when an engine has failed again and again, stop waiting for it.

Closed, every question goes through. Open, none does and each is denied at once. After a pause
one question is let through as a probe: an answer closes the breaker, a failure opens it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable

FAILURES_MAX = 5
PAUSE_SECONDS = 5.0


class Breaker:
    def __init__(
        self,
        *,
        failures_max: int = FAILURES_MAX,
        pause_seconds: float = PAUSE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._failures_max = failures_max
        self._pause_seconds = pause_seconds
        self._clock = clock
        self._failures = 0
        self._shut_until = 0.0

    @property
    def is_open(self) -> bool:
        return self._failures >= self._failures_max

    def admits(self) -> bool:
        """Whether a question may go through now. While open, one each pause."""
        if not self.is_open:
            return True
        now = self._clock()
        if now < self._shut_until:
            return False
        self._shut_until = now + self._pause_seconds
        return True

    def succeeded(self) -> None:
        self._failures = 0

    def failed(self) -> None:
        self._failures += 1
        if self._failures == self._failures_max:
            self._shut_until = self._clock() + self._pause_seconds
