"""Turns: two machines that write one tenant without a pause write by turns, so that neither is refused.

Whoever is refused fetches what won, judges its drafts anew and publishes again; meanwhile the winner has the next
group ready and wins again. So a machine that finds another's group before each of its own lets the other be next, for
about as long as the other needs. Where the other has nothing to write, that costs one such wait.
"""

from __future__ import annotations

import time

from tallystick.log import Head

WAIT_SECONDS_MIN = 0.01
WAIT_SECONDS_MAX = 0.1
_MISSES_MAX = 3


class Turns:
    def __init__(self) -> None:
        self._own: Head | None = None
        """Where the log was after our last group."""
        self._written_at = 0.0
        self._misses = _MISSES_MAX
        """How often in a row the other was waited for in vain."""
        self._usual_seconds = 0.0
        """How long it lately took from our group to the other's."""

    def written(self, before: Head, after: Head) -> None:
        """A group of ours was stored behind `before`."""
        if self._own is not None and before != self._own:
            self._misses = 0
        self._own, self._written_at = after, time.monotonic()

    def until(self, head: Head) -> float:
        """Until when the other is waited for; 0 where it is our turn."""
        if self._misses == _MISSES_MAX or head != self._own:
            return 0.0
        wait = min(max(3 * self._usual_seconds, WAIT_SECONDS_MIN), WAIT_SECONDS_MAX)
        return self._written_at + wait

    def waited(self, *, is_met: bool) -> None:
        """It was waited, and the other has written or not."""
        if is_met:
            taken = time.monotonic() - self._written_at
            self._usual_seconds = taken if not self._usual_seconds else 0.8 * self._usual_seconds + 0.2 * taken
        else:
            self._misses += 1
