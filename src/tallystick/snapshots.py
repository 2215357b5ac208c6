"""The snapshots: states kept on disk so that a restart replays only the tail of the log.

Only a cache. A snapshot that cannot be read is passed over, and all of them may be deleted
at any time. What they prove on the side: a log that ends before a snapshot lost its end.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from tallystick.errors import Corrupt
from tallystick.log import Head, Log
from tallystick.log.mark import sync_directory
from tallystick.state.state import Lines, State

KEPT = 2
_SUFFIX = ".snapshot"

logger = logging.getLogger(__name__)


class Snapshots:
    def __init__(self, directory: Path, *, every: int = 0, take: Callable[[], None] = lambda: None) -> None:
        """`take` has a snapshot made, elsewhere and later; it is called when the state has grown by `every` commits."""
        self._directory = directory
        self._every = every
        self._take = take
        self._newest = 0

    def begin(self, log: Log, lines: Lines) -> State:
        """The newest state that was kept, or an empty one. Raises Corrupt when the log ends before it."""
        for path in reversed(_kept(self._directory)):
            try:
                state = State.load(path.read_bytes(), lines)
            except (OSError, ValueError) as error:
                logger.warning("%s is passed over: %s", path.name, error)
                continue
            _check_behind(state.head, log.head(), path)
            self._newest = state.count
            return state
        self._newest = 0
        return State(lines)

    def grown(self, count: int) -> None:
        if self._every and count - self._newest >= self._every:
            self._newest = count
            self._take()

    def save(self, state: State) -> Path:
        """Keep this state and forget all but the newest ones. A crash leaves the older ones."""
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / f"{state.position:020d}{_SUFFIX}"
        fresh = path.with_suffix(f".new-{os.getpid()}")
        with fresh.open("wb") as file:
            for piece in state.dump():
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)
        for older in _kept(self._directory)[:-KEPT]:
            older.unlink(missing_ok=True)
        sync_directory(self._directory)
        return path

    def forget(self) -> None:
        """After a redaction: an index may hold what must be forgotten."""
        if self._directory.is_dir():
            for path in self._directory.iterdir():
                path.unlink(missing_ok=True)
            sync_directory(self._directory)
        self._newest = 0


def _kept(directory: Path) -> list[Path]:
    return sorted(directory.glob(f"*{_SUFFIX}")) if directory.is_dir() else []


def _check_behind(snapshot: Head, log: Head, path: Path) -> None:
    if snapshot.count > log.count or (snapshot.count == log.count and snapshot != log):
        raise Corrupt(
            f"{path.name} was made at position {snapshot.lamport}, but the log ends at {log.lamport}: "
            "its end was cut off or rewritten",
            hint="restore the log from a backup; if you know better, delete the snapshots directory",
            details={"file": str(path)},
        )
