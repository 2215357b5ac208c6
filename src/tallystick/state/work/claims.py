"""When a claim counts, and against whom.

For claims two live sessions of one name are two agents. Where nothing is known of a session,
or somebody has none, the name decides; and a claim that is old enough counts no more.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tallystick.state.work.board import Row


def _unknown(session: str) -> bool | None:
    return None


class ClaimTime(msgspec.Struct, frozen=True):
    """When it is, in milliseconds, and who lives."""

    now: int
    ttl: int
    is_alive: Callable[[str], bool | None] = _unknown
    """Of a session: False when it has ended, None when that is not known."""

    def is_claimed(self, row: Row) -> bool:
        """Whether anybody's claim on it counts."""
        return row.owner is not None and not self._is_stale(row) and not self._has_ended(row)

    def is_held(self, row: Row, agent: str, session: str | None) -> bool:
        """Whether somebody else's does."""
        if not self.is_claimed(row):
            return False
        if row.owner != agent:
            return True
        if row.session is None or session is None or row.session == session:
            return False
        return self.is_alive(row.session) is True

    def why_free(self, row: Row) -> str:
        if self._is_stale(row):
            return "the claim is too old"
        return "its session has ended" if self._has_ended(row) else "nothing is known of its session"

    def _is_stale(self, row: Row) -> bool:
        # A claim from the future is as fresh as can be; and where claims last for no time, it is stale all the same.
        return max(self.now - row.claimed, 0) >= self.ttl

    def _has_ended(self, row: Row) -> bool:
        return row.session is not None and self.is_alive(row.session) is False
