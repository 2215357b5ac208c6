"""Turns: machines that write one tenant without a pause write by turns, so that none is refused again and again.

Whoever is refused fetches what won, judges its drafts anew and publishes again; meanwhile the winner has the next
group ready and wins again. So a machine that finds another's groups between its own ends its turn after a while,
says so with its last group, and lets the other have one. A turn is several groups, if there are as many: the change
from one machine to the other takes about as long as a group. One that does not say that its turn is over, since it
has nothing more to write, died, or was not heard, is waited for about as long as it lately needed for a group.
"""

from __future__ import annotations

from tallystick.log import Head

TURN_SECONDS = 0.012
"""A group that begins later than this is the last of its turn. A write waits for about a turn of the other."""
WAIT_SECONDS_MIN = 0.01
WAIT_SECONDS_MAX = 0.1
_MISSES_MAX = 3


class Turns:
    """For one log. Whoever calls says what time it is, by `time.monotonic`."""

    def __init__(self) -> None:
        self._own: Head | None = None
        """Where the log was after our last group."""
        self._began_at = 0.0
        self._written_at = 0.0
        self._is_over = False
        self._misses = _MISSES_MAX
        """How often in a row the other was waited for in vain."""
        self._usual_seconds = 0.0
        """How long the other lately took for a group."""

    @property
    def own_lamport(self) -> int:
        return self._own.lamport if self._own is not None else 0

    def lost(self) -> None:
        """A group of ours was refused: another writes as well."""
        self._misses = 0

    def publishing(self, before: Head, now: float) -> bool:
        """A group of ours is about to be published behind `before`. Whether our turn is over with it."""
        if before != self._own:
            self._began_at = now
            if self._own is not None:
                self._misses = 0
        self._is_over = self._misses < _MISSES_MAX and now - self._began_at >= TURN_SECONDS
        return self._is_over

    def written(self, after: Head, now: float) -> None:
        """It was stored."""
        self._own, self._written_at = after, now

    def until(self, head: Head) -> float:
        """Until when the other is waited for; 0 where it is our turn."""
        if not self._is_over:
            return 0.0
        return self._written_at + self._patience() + (0.0 if head == self._own else TURN_SECONDS)

    def seen(self, taken: float, now: float) -> float:
        """The other that is waited for took so long for a group. Until when to wait for its next."""
        self._usual_seconds = taken if not self._usual_seconds else 0.8 * self._usual_seconds + 0.2 * taken
        return now + self._patience()

    def waited(self, now: float, *, is_met: bool) -> None:
        """It was waited, and the other has written or not. Our turn begins."""
        self._is_over, self._began_at = False, now
        self._misses = 0 if is_met else self._misses + 1

    def _patience(self) -> float:
        return min(max(3 * self._usual_seconds, WAIT_SECONDS_MIN), WAIT_SECONDS_MAX)
