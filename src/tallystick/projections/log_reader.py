"""The log as the projections of a tenant read it: one handle, and each entry from disk once.

What this process appended a moment ago need not be read and verified again: it was sealed here
and is durable. What one projection read, the others get from memory, as long as they keep up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

from tallystick.errors import Corrupt
from tallystick.log import Entry, Head, Log

BYTES_MAX = 2 << 20
CHUNK_COMMITS = 2_000


class LogReader:
    """For any number of threads. `open_log` gives a handle of its own, opened at first use and only read from."""

    def __init__(self, open_log: Callable[[], Log], *, bytes_max: int = BYTES_MAX) -> None:
        self._open_log = open_log
        self._log: Log | None = None
        self._bytes_max = bytes_max
        self._bytes = 0
        self._recent: dict[int, Entry] = {}
        """By offset; what was kept first is dropped first, which may be any part of a draft."""
        # Two of them: the writer, which holds the log's lock, keeps entries while the handle may wait for that lock.
        self._memory = threading.Lock()
        self._disk = threading.RLock()

    def keep(self, entries: Sequence[Entry]) -> None:
        """Whole drafts that are durable. After a redaction nothing is kept of what it may have masked. Never waits."""
        with self._memory:
            for entry in entries:
                if entry.commit.redacts is not None:
                    self._recent.clear()
                    self._bytes = 0
                if entry.offset not in self._recent:
                    self._bytes += len(entry.line)
                self._recent[entry.offset] = entry
            while self._bytes > self._bytes_max:
                self._bytes -= len(self._recent.pop(next(iter(self._recent))).line)

    def drafts(self, at: Head) -> list[Entry]:
        """Some of the whole drafts that follow on `at`, a place between drafts; empty at the head.

        Raises Corrupt for a damaged log.
        """
        if found := self.recent(at):
            return found
        with self._disk:
            # Whoever had the handle before may have read it.
            found = self.recent(at)
            if not found:
                # No more than is kept for the others, who may be at the same place.
                found = _whole_drafts(self._opened().read(at), self._bytes_max // 2)
                self.keep(found)
            return found

    def recent(self, at: Head) -> list[Entry]:
        """Those of them that are in memory. Of a draft whose end was dropped nothing: who stops inside one can never go
        on from there."""
        found: list[Entry] = []
        prev = at.commit_id
        with self._memory:
            entry = self._recent.get(at.end)
            while entry is not None and entry.commit.prev == prev:
                found.append(entry)
                prev = entry.commit.commit_id
                entry = self._recent.get(entry.end)
        while found and not found[-1].commit.ends_draft:
            found.pop()
        return found

    def head(self) -> Head:
        with self._disk:
            return self._opened().head()

    def line(self, offset: int) -> bytes:
        with self._disk:
            return self._opened().line(offset)

    def has(self, at: Head) -> bool:
        """Whether the log says at that place what a projection has seen there. Raises Corrupt for a damaged log."""
        if self.recent(at):
            return True
        with self._disk:
            return _is_on(self._opened(), at)

    def close(self) -> None:
        """Another use opens it again: projections are closed one after the other."""
        with self._disk:
            if self._log is not None:
                self._log.close()
                self._log = None

    def _opened(self) -> Log:
        if self._log is None:
            self._log = self._open_log()
        return self._log


def _whole_drafts(reading: Iterator[Entry], bytes_max: int) -> list[Entry]:
    """The log's durable head never stands inside a draft."""
    entries: list[Entry] = []
    size = 0
    for entry in reading:
        entries.append(entry)
        size += len(entry.line)
        if (len(entries) >= CHUNK_COMMITS or size >= bytes_max) and entry.commit.ends_draft:
            break
    return entries


def _is_on(log: Log, at: Head) -> bool:
    head = log.head()
    if at == Head() or at == head:
        return True
    if at.count >= head.count:
        return False
    try:
        # The next line is chained to the one before it, so reading on from a wrong place fails at once.
        return next(iter(log.read(at)), None) is not None
    except Corrupt:
        # That place is wrong, or inside a draft, or that line is damaged: only the whole log can tell.
        found = (entry.commit for entry in log.read(Head()) if entry.commit.record_hash == at.record_hash)
        return any(commit.ends_draft for commit in found)
