"""A files log made whole from its entries: built beside and moved into place.

A crash leaves the log as it was (empty), or restored. What lies beside then is removed by the
next restore: a live one holds a lock on its directory.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tallystick.errors import Conflict
from tallystick.log import Entry, Head
from tallystick.log.files import FilesLog
from tallystick.log.head_file import HeadFile
from tallystick.system.file_locks import locked
from tallystick.system.private_files import sync_directory

_BESIDE = "importing-"
_PATIENCE_SECONDS = 30.0


def restore(
    system: Path,
    groups: Iterable[Sequence[Entry]],
    *,
    segment_bytes_max: int,
    require_empty: Callable[[Head], None],
) -> Head:
    """Make the log in `system` hold these groups, all of them or none.

    `require_empty` raises when the log holds anything; it is asked before the work and again under the lock.
    Raises what `groups` raise, and Conflict when another process keeps the lock for too long.
    """
    target = FilesLog(system)
    try:
        require_empty(target.head())
        _sweep(system)
        with _beside(system) as beside:
            head = _build(beside, groups, segment_bytes_max)
            _move_into_place(beside, target, head, require_empty)
    finally:
        target.close()
    return head


@contextmanager
def _beside(system: Path) -> Iterator[Path]:
    """A directory of our own, locked: another restore sweeps away those that are not."""
    while True:
        beside = Path(tempfile.mkdtemp(prefix=_BESIDE, dir=system))
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, beside, ignore_errors=True)
            try:
                stack.enter_context(locked(beside, create=False))
            except FileNotFoundError:
                continue
            if beside.exists():
                yield beside
                return


def _build(system: Path, groups: Iterable[Sequence[Entry]], segment_bytes_max: int) -> Head:
    head = Head()
    log = FilesLog(system, segment_bytes_max=segment_bytes_max, syncs=False)
    try:
        for entries in groups:
            head = log.append(entries, expected=head)
        # All of it counts from when it has its name, and not before.
        log.sync(Head())
    finally:
        log.close()
    return head


def _move_into_place(beside: Path, target: FilesLog, head: Head, require_empty: Callable[[Head], None]) -> None:
    if not target.claim(timeout_seconds=_PATIENCE_SECONDS):
        raise Conflict("another process holds the lock of this base", hint="try again when it is done")
    try:
        require_empty(target.head())
        os.rename(beside / "log", target.system / "log")
        # The segments before the mark: a crash in between leaves a log without a mark, which opening proves and marks.
        sync_directory(target.system)
        mark = HeadFile(target.system / "head")
        mark.write(head)
        mark.close()
    finally:
        target.release()


def _sweep(system: Path) -> None:
    for left in system.glob(f"{_BESIDE}*"):
        with suppress(OSError), locked(left, timeout_seconds=0, create=False) as is_dead:
            if is_dead:
                shutil.rmtree(left)
