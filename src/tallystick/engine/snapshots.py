"""The snapshots: states kept on disk so that a restart replays only the tail of the log, and beside them the large
derived indexes, so that their first use need not read all of their nodes.

Only a cache. A snapshot that cannot be read is passed over, and all of them may be deleted
at any time. What they prove on the side: a log that ends before a snapshot lost its end.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from tallystick.commits import chain
from tallystick.errors import Conflict, Corrupt, StorageRefused
from tallystick.log import Head, Log
from tallystick.state.state import Lines, State
from tallystick.system.file_locks import is_held, locked
from tallystick.system.private_files import make_directory, replacing, sync_directory
from tallystick.system.regular_files import read_regular
from tallystick.telemetry import metrics

KEPT = 1
WORTH_COMMITS = 2_000
_WORTH_SHARE = 50
_SUFFIX = ".snapshot"
_INDEX_SUFFIX = ".index"
_UNFINISHED = ".new-"

logger = logging.getLogger(__name__)


class Snapshots:
    def __init__(self, directory: Path, *, every: int = 0, take: Callable[[], None] = lambda: None) -> None:
        """`take` has a snapshot made, elsewhere and later; it is called when the state has grown by `every` commits."""
        self._directory = directory
        self._every = every
        self._take = take
        self._newest = 0
        self._taken_for: frozenset[str] = frozenset()
        """Indexes of which a snapshot was asked for already."""

    def begin(self, log: Log, lines: Lines) -> State:
        """The newest state that was kept, or an empty one. Raises Corrupt when the log does not lead to it."""
        with suppress(OSError), locked(self._directory, timeout_seconds=0, create=False) as is_alone:
            if is_alone:
                _sweep(self._directory)
        for path in reversed(_kept(self._directory)):
            try:
                state = State.load(read_regular(path), lines)
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

    def is_worth(self, head: Head, indexes: Mapping[str, int]) -> bool:
        """Whether the next start saves more than it costs to keep the state at this head: to replay a commit takes
        about a hundred times as long as to keep it. Or, of the indexes and how many nodes they know, whether a large
        one was never stored. Not where another process is at it, or was."""
        if not self._every:
            return False
        return (self._is_state_worth(head) or self._is_index_missing(indexes)) and not is_held(self._directory)

    def _is_state_worth(self, head: Head) -> bool:
        worth = max(WORTH_COMMITS, head.count // _WORTH_SHARE)
        if head.count - self._newest < worth:
            return False
        return head.lamport - max(kept_positions(self._directory), default=0) >= worth

    def _is_index_missing(self, indexes: Mapping[str, int]) -> bool:
        large = {name for name, nodes in indexes.items() if nodes >= WORTH_COMMITS} - self._taken_for
        return any(self._index_path(name) is None for name in large)

    def take(self, count: int, indexes: Iterable[str] = ()) -> None:
        self._newest = count
        self._taken_for = self._taken_for.union(indexes)
        metrics.SNAPSHOTS.add()
        self._take()

    def stored_index(self, name: str) -> bytes | None:
        """What was last stored of a derived index."""
        path = self._index_path(name)
        try:
            return None if path is None else read_regular(path)
        except OSError as error:
            logger.warning("%s is passed over: %s", path, error)
            return None

    def save(self, position: int, dumped: Iterable[bytes], indexes: Iterable[tuple[str, bytes]] = ()) -> Path:
        """Keep what a state dumped and forget all but the newest ones. A crash leaves the older ones.

        Raises StorageRefused, and Conflict when something was redacted meanwhile.
        """
        path = self._directory / f"{position:020d}{_SUFFIX}"
        try:
            make_directory(self._directory)
            with locked(self._directory, create=False):
                self._write(path, dumped)
                for name, data in indexes:
                    self._write_index(position, name, data)
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

    def _write_index(self, position: int, name: str, data: bytes) -> None:
        # Of whatever format, which is what its name ends with.
        before = _stored(self._directory, f"{name.rpartition('-')[0]}-*")
        path = self._directory / f"{position:020d}.{name}{_INDEX_SUFFIX}"
        with replacing(path, unfinished=path.with_suffix(f"{_UNFINISHED}{os.getpid()}")) as file:
            file.write(data)
        for older in before:
            if older != path:
                older.unlink(missing_ok=True)

    def _index_path(self, name: str) -> Path | None:
        return max(_stored(self._directory, name), default=None)

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


def _stored(directory: Path, name: str) -> list[Path]:
    return [path for path in directory.glob(f"*.{name}{_INDEX_SUFFIX}") if path.is_file()]


def kept_positions(directory: Path) -> list[int]:
    return [int(path.stem) for path in _kept(directory) if path.stem.isdecimal()]


def cached_positions(directory: Path) -> list[int]:
    """Of snapshots, and of indexes that are stored beside them."""
    indexes = (path.name.partition(".")[0] for path in directory.glob(f"*{_INDEX_SUFFIX}") if path.is_file())
    return kept_positions(directory) + [int(start) for start in indexes if start.isdecimal()]


def _is_since(path: Path, position: int | None) -> bool:
    start = path.name.partition(".")[0]
    is_ours = path.suffix in (_SUFFIX, _INDEX_SUFFIX) and start.isdecimal()
    return position is not None and is_ours and int(start) >= position


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
