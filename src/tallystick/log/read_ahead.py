"""A log that a process of its own reads and verifies, for whoever has much to do with each entry: two cores are used.

Nothing depends on that process. It hands over whole drafts that it verified, and at the first thing that it does not
understand it ends: who reads goes on from there alone, and meets the same.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from tallystick.errors import Corrupt
from tallystick.log import Entry, Head
from tallystick.log.redaction_index import NEEDLE, RedactionIndex
from tallystick.log.scanner import Scanner
from tallystick.log.unopened import Unopened, unopened

BYTES_MIN = 64 << 20
"""Of the log: reading fewer takes hardly longer than such a process takes to begin."""
_AT_ONCE = 256
_SIZE_BYTES = 4
_PIPE_BYTES = 1 << 20
"""So far it may be ahead: with what a pipe has by itself, each waits for the other."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Entry]).decode


class ReadAhead:
    """The entries behind `after`, a few hundred at a time. Waits until the first are there: not for an event loop."""

    def __init__(self, system: Path, after: Head) -> None:
        """Raises OSError where no process can be begun."""
        self.after = after
        # -P: the directory that we run in is no place to find modules in.
        self._process = subprocess.Popen(
            (sys.executable, "-P", "-m", __name__, str(system), msgspec.json.encode(after)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        if sys.platform == "linux":
            # Who has many large pipes already is refused another.
            with suppress(OSError):
                fcntl.fcntl(self._process.stdout, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._next = self._take()

    def __iter__(self) -> Iterator[list[Entry]]:
        while self._next:
            found, self._next = self._next, []
            yield found
            self._next = self._take()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _take(self) -> list[Entry]:
        """Nothing when that was all."""
        assert self._process.stdout is not None
        try:
            size = int.from_bytes(self._process.stdout.read(_SIZE_BYTES))
            return _decode(self._process.stdout.read(size)) if size else []
        except (msgspec.MsgspecError, ValueError):
            return []  # It died half-way.


def begin_reading(system: Path, after: Head, end: int) -> ReadAhead | None:
    """None where it is not worth it, or cannot be done."""
    if end - after.end < BYTES_MIN or (os.cpu_count() or 1) < 2:
        return None
    with suppress(OSError):
        return ReadAhead(system, after)
    return None


def _verified(log: Unopened, after: Head) -> Iterator[Entry]:
    """Raises Corrupt, and ends, where there is more to say than that the next one is sound."""
    redactions = RedactionIndex(partial(log.segments.lines_with, NEEDLE))
    scan = Scanner(log.segments, after)
    for entry in scan.entries(log.end):
        if not (scan.verifier.is_intact or redactions.problem(entry.line, log.end) is None):
            return
        yield entry


def _main(system: Path, after: Head) -> None:
    entries: list[Entry] = []
    with suppress(Corrupt, UnicodeEncodeError, BrokenPipeError), unopened(system) as log:
        for entry in _verified(log, after):
            entries.append(entry)
            if len(entries) >= _AT_ONCE and entry.commit.ends_draft:
                _send(entries)
                entries = []


def _send(entries: list[Entry]) -> None:
    encoded = _encode(entries)
    sys.stdout.buffer.write(len(encoded).to_bytes(_SIZE_BYTES) + encoded)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    _main(Path(sys.argv[1]), msgspec.json.decode(sys.argv[2], type=Head))
