"""The fresh entries: what this process appended a moment ago, for the projections that follow in it.

They need not read and verify again what was sealed here and is durable. Whatever is not here
any more, or came from another process, they read from the log.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from tallystick.log import Entry, Head

BYTES_MAX = 2 << 20


class RecentEntries:
    def __init__(self, *, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._kept: dict[int, Entry] = {}
        """By offset, oldest first; whole drafts only, but for what was dropped at the old end."""
        self._turn = threading.Lock()

    def keep(self, group: Sequence[Entry]) -> None:
        """Whole drafts that have become durable. After a redaction nothing is kept of what it may have masked."""
        with self._turn:
            if any(entry.commit.redacts is not None for entry in group):
                self._kept.clear()
                self._bytes = 0
                return
            for entry in group:
                self._kept[entry.offset] = entry
                self._bytes += len(entry.line)
            while self._bytes > self._bytes_max:
                self._bytes -= len(self._kept.pop(next(iter(self._kept))).line)

    def after(self, head: Head) -> list[Entry]:
        """Whole drafts that follow on `head`, a place between drafts; empty where it is not known what does."""
        found: list[Entry] = []
        prev = head.commit_id
        with self._turn:
            entry = self._kept.get(head.end)
            while entry is not None and entry.commit.prev == prev:
                found.append(entry)
                prev = entry.commit.commit_id
                entry = self._kept.get(entry.end)
        return found
