"""The sessions of clients: which of them live, as every process of the base on this machine can see.

A claim names the session that made it. Each process that serves sessions has one file in
`_system/sessions`, with a byte for each of its sessions that ever claimed something, and holds
it locked: when the process dies, by whatever signal, the kernel frees the lock, and with it
all that its sessions had claimed. What is not known (another machine, an older process whose
file was cleared away) counts neither as alive nor as ended.

Nothing here is truth: the files may be deleted at any time, and then names and times decide.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tallystick.errors import StorageRefused
from tallystick.file_locks import take
from tallystick.private_files import make_directory

FILES_MAX = 1_000
"""Of dead processes; past that the oldest go first."""
_KEPT_SECONDS_MIN = 3_600.0
_UNFINISHED = ".new"
_LIVE, _ENDED, _UNKNOWN = b"L", b"E", b"\0"

# Ids come from the log, where agents can write what they like: only these ever name a file.
_ID = re.compile(r"([0-9a-f]{16})-([1-9][0-9]{0,8})", re.ASCII)


class Sessions:
    """Those of this process, and what is known of the others'. Belongs to one thread."""

    def __init__(self, directory: Path | None = None, *, kept_seconds: float = 0.0) -> None:
        """`kept_seconds` is how long a claim may count: so long it is known that a dead process is dead.

        Without a directory only this process knows of its sessions.
        """
        self._directory = directory
        self._kept_seconds = max(kept_seconds, _KEPT_SECONDS_MIN)
        self._process = secrets.token_hex(8)
        self._count = 0
        self._open: set[int] = set()
        self._live: set[int] = set()
        """Those of them that claimed something."""
        self._file: int | None = None

    def begin(self) -> str:
        """The id of a new session. Writes nothing: most sessions never claim."""
        self._count += 1
        self._open.add(self._count)
        return f"{self._process}-{self._count}"

    def claims(self, session: str) -> None:
        """Show it to be alive, before it claims something. Raises StorageRefused when it cannot be shown.

        Each time anew, since the age of the file tells how old the newest claim may be.
        """
        number = self._own(session)
        # What is still under way when a session ends belongs to a session that has ended.
        if number in self._open:
            self._write(number, _LIVE)
            self._live.add(number)

    def end(self, session: str) -> None:
        """Its client said goodbye: what it claimed is free."""
        self._leave(session, _ENDED)

    def forget(self, session: str) -> None:
        """It is served no longer, and nobody knows whether its client still works."""
        self._leave(session, _UNKNOWN)

    def is_alive(self, session: str) -> bool | None:
        """False when it has ended, None when that is not known."""
        found = _ID.fullmatch(session)
        if found is None:
            return None
        process, number = found[1], int(found[2])
        if process == self._process:
            return True if number in self._live else _STATES.get(self._read(self._file, number))
        if self._directory is None:
            return None
        try:
            file = os.open(self._directory / process, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            byte = self._read(file, number)
            return not take(file, shared=True, timeout_seconds=0) if byte == _LIVE else _STATES.get(byte)
        finally:
            os.close(file)

    def close(self) -> None:
        """An orderly end of the process. Clients that are still there will come again, to whoever serves them then."""
        for number in list(self._live):
            self.forget(f"{self._process}-{number}")
        if self._file is not None:
            os.close(self._file)
            self._file = None

    # -- below

    def _own(self, session: str) -> int:
        """0 is nobody's."""
        found = _ID.fullmatch(session)
        return int(found[2]) if found is not None and found[1] == self._process else 0

    def _leave(self, session: str, state: bytes) -> None:
        number = self._own(session)
        if number not in self._open:
            return
        self._open.discard(number)
        if number not in self._live:
            return
        self._live.discard(number)
        # A disk that refuses is no reason to fail: then the claim lasts as long as it would.
        with suppress(StorageRefused):
            self._write(number, state)

    def _write(self, number: int, state: bytes) -> None:
        if self._directory is None:
            return
        try:
            if self._file is None:
                self._file = self._create(self._directory)
            os.pwrite(self._file, state, number)
        except OSError as error:
            raise StorageRefused(f"the session cannot be noted: {error.strerror}") from error

    def _create(self, directory: Path) -> int:
        """Locked before anybody can see it by its name: it never looks like that of a dead process."""
        make_directory(directory)
        self._sweep(directory)
        unfinished = directory / (self._process + _UNFINISHED)
        file = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            # Waits at most for somebody who is sweeping.
            take(file)
            os.rename(unfinished, directory / self._process)
        except BaseException:
            os.close(file)
            raise
        return file

    def _sweep(self, directory: Path) -> None:
        """The files of dead processes whose claims have all grown stale, and the oldest where there are too many."""
        stale = time.time() - self._kept_seconds
        dead = sorted(_dead(directory))
        for number, (modified, path) in enumerate(dead):
            if modified < stale or number < len(dead) - FILES_MAX:
                path.unlink(missing_ok=True)

    @staticmethod
    def _read(file: int | None, number: int) -> bytes:
        try:
            return b"" if file is None else os.pread(file, 1, number)
        except OSError:
            return b""


_STATES = {_ENDED: False}


def _dead(directory: Path) -> Iterator[tuple[float, Path]]:
    """When they were last written, and where they are."""
    for path in directory.iterdir():
        with suppress(OSError):
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                # Shared, so that two who look at the same time do not take each other for the holder.
                if take(file, shared=True, timeout_seconds=0):
                    yield os.fstat(file).st_mtime, path
            finally:
                os.close(file)
