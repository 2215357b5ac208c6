"""The snapshots: states kept on disk so that a restart replays only the tail of the log.

Only a cache. A snapshot that cannot be read is passed over, and all of them may be deleted
at any time. What they prove on the side: a log that ends before a snapshot lost its end.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from tallystick.commits import chain
from tallystick.errors import Conflict, Corrupt, StorageRefused
from tallystick.file_locks import is_held, locked
from tallystick.log import Head, Log
from tallystick.private_files import make_directory, replacing, sync_directory
from tallystick.state.state import Lines, State
from tallystick.telemetry import metrics

KEPT = 1
WORTH_COMMITS = 2_000
_WORTH_SHARE = 50
_SUFFIX = ".snapshot"
_UNFINISHED = ".new-"

logger = logging.getLogger(__name__)


class Snapshots:
    def __init__(self, directory: Path, *, every: int = 0, take: Callable[[], None] = lambda: None) -> None:
        """`take` has a snapshot made, elsewhere and later; it is called when the state has grown by `every` commits."""
        self._directory = directory
        self._every = every
        self._take = take
        self._newest = 0

    def begin(self, log: Log, lines: Lines) -> State:
        """The newest state that was kept, or an empty one. Raises Corrupt when the log does not lead to it."""
        with suppress(OSError), locked(self._directory, timeout_seconds=0, create=False) as is_alone:
            if is_alone:
                _sweep(self._directory)
        for path in reversed(_kept(self._directory)):
            try:
                state = State.load(path.read_bytes(), lines)
            except (OSError, ValueError) as error:
                logger.warning("%s is passed over: %s", path.name, error)
                continue
            _check_on(state, log, path)
            self._newest = state.count
            return state
        self._newest = 0
        return State(lines)

    def grown(self, count: int) -> None:
        if self._every and count - self._newest >= self._every:
            self.take(count)

    def is_worth(self, head: Head) -> bool:
        """Whether the next start saves more than it costs to keep the state at this head: to replay a commit takes
        about a hundred times as long as to keep it. Not where another process is at it, or was."""
        worth = max(WORTH_COMMITS, head.count // _WORTH_SHARE)
        if not self._every or head.count - self._newest < worth:
            return False
        return head.lamport - max(kept_positions(self._directory), default=0) >= worth and not is_held(self._directory)

    def take(self, count: int) -> None:
        self._newest = count
        metrics.SNAPSHOTS.add()
        self._take()

    def save(self, position: int, dumped: Iterable[bytes]) -> Path:
        """Keep what a state dumped and forget all but the newest ones. A crash leaves the older ones.

        Raises StorageRefused, and Conflict when something was redacted meanwhile.
        """
        path = self._directory / f"{position:020d}{_SUFFIX}"
        try:
            make_directory(self._directory)
            with locked(self._directory, create=False):
                self._write(path, dumped)
        except FileNotFoundError as error:
            raise Conflict(
                "something was redacted while the snapshot was written, so it was not kept", hint="take it again"
            ) from error
        except OSError as error:
            raise StorageRefused(
                f"the snapshot could not be kept: {error.strerror}", hint="free some space, then take it again"
            ) from error
        return path

    def _write(self, path: Path, dumped: Iterable[bytes]) -> None:
        _sweep(self._directory)
        fresh = path.with_suffix(f"{_UNFINISHED}{os.getpid()}")
        # A redaction meanwhile takes `fresh` away, and it cannot be renamed: what it forgets must not come back.
        with replacing(path, unfinished=fresh) as file:
            file.writelines(dumped)
        for older in _kept(self._directory)[:-KEPT]:
            older.unlink(missing_ok=True)

    def forget(self, *, before: int | None = None) -> None:
        """After a redaction: an index may hold what must be forgotten. `before`: those of later positions stay."""
        if not self._directory.is_dir():
            return
        # A directory is none of ours.
        old = [path for path in self._directory.iterdir() if not path.is_dir() and not _is_since(path, before)]
        for path in old:
            path.unlink(missing_ok=True)
        if old:
            sync_directory(self._directory)
            self._newest = 0


def _sweep(directory: Path) -> None:
    """Whoever has the lock is alone here, so whoever wrote these died."""
    for left in directory.glob(f"*{_UNFINISHED}*"):
        left.unlink(missing_ok=True)


def _kept(directory: Path) -> list[Path]:
    return sorted(path for path in directory.glob(f"*{_SUFFIX}") if path.is_file())


def kept_positions(directory: Path) -> list[int]:
    return [int(path.stem) for path in _kept(directory) if path.stem.isdecimal()]


def _is_since(path: Path, position: int | None) -> bool:
    return position is not None and path.suffix == _SUFFIX and path.stem.isdecimal() and int(path.stem) >= position


def _check_on(state: State, log: Log, path: Path) -> None:
    """A log of the right length whose lines lie elsewhere than they did is not the one this was made of."""
    if _is_on(state, log):
        return
    for _ in log.read(Head()):
        pass  # It names what is false in the log, if anything is.
    raise Corrupt(
        f"{path.name} was made at position {state.position}, but the log ends at {log.head().lamport}: "
        "its end was cut off or rewritten",
        hint="restore the log from a backup; if you know better, delete the snapshots directory",
        details={"file": str(path), "line": 1},
    )


def _is_on(state: State, log: Log) -> bool:
    """Whether the line before the snapshot's end is the one it was made at. The lines before it are left to a proof."""
    if state.count == 0:
        return True
    head = log.head()
    is_behind = state.count < head.count or state.head == head
    return is_behind and _is_last_line(state, log)


def _is_last_line(state: State, log: Log) -> bool:
    offset, head = state.last_offset, state.head
    try:
        line = log.line(offset)
        return offset + len(line) + 1 == head.end and chain.decode(line).record_hash == head.record_hash
    except Corrupt:
        return False
