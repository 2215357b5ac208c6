"""The published files: `_system/registry.json` and `_system/ontology.yaml`, rewritten whole.

They are for looking at. One that was changed by somebody else, or is damaged, is kept beside
as `<name>.rejected-<time>` before it is written again.
"""

from __future__ import annotations

import logging
import os
import zlib
from contextlib import suppress

import msgspec

from tallystick.clock import Clock, to_text
from tallystick.errors import NotFound, TallystickError
from tallystick.extensions.ontology.views.views_db import ViewsDb
from tallystick.projections.sandboxed_files import Parts, SandboxedFiles

logger = logging.getLogger(__name__)


class _Left(msgspec.Struct, frozen=True):
    """A file as we left it, or are about to."""

    generation: int
    size: int
    sum: int
    mtime_ns: int | None = None


class Published:
    def __init__(self, name: str, table: ViewsDb, files: SandboxedFiles, clock: Clock) -> None:
        self.parts: Parts = ("_system", name)
        self._table = table
        self._files = files
        self._clock = clock

    def is_current(self, generation: int) -> bool:
        left = self._left("")
        return left is not None and left.generation == generation

    def is_sound(self) -> bool:
        """Whether the file is as somebody of us left it."""
        found = self._files.find(self.parts)
        left = self._left("")
        if found is None or left is None:
            return False
        return (found.st_size, found.st_mtime_ns) == (left.size, left.mtime_ns) or self._matches(left)

    def write(self, data: bytes, generation: int) -> bool:
        """False when it could not be written; that is reported until it can."""
        try:
            self._write(data, generation)
        except OSError as error:
            with self._table.changed():
                self._table.set_note(f"problem {'/'.join(self.parts)}", f"could not write: {error.strerror or error}")
            return False
        return True

    def _write(self, data: bytes, generation: int) -> None:
        self._keep_foreign(data)
        fresh = _Left(generation, len(data), zlib.crc32(data))
        # Before the rename: whoever finds the file after a crash in between knows it for ours.
        self._note("next", fresh)
        found = self._files.write(self.parts, data)
        self._note("", msgspec.structs.replace(fresh, mtime_ns=found.st_mtime_ns))

    def erase_rejected(self) -> None:
        """After a redaction: a file that was kept beside may hold what has to be forgotten."""
        with suppress(NotFound):
            for seen in self._files.list(self.parts[:-1]):
                if seen.name.startswith(f"{self.parts[-1]}.rejected-"):
                    self._files.remove((*self.parts[:-1], seen.name))

    def _keep_foreign(self, data: bytes) -> None:
        found = self._files.find(self.parts)
        if found is None or self._is_ours(found, data):
            return
        stamp = to_text(self._clock()).replace("-", "").replace(":", "").replace(".", "")
        for number in range(1000):
            kept = (*self.parts[:-1], f"{self.parts[-1]}.rejected-{stamp}{f'-{number}' if number else ''}")
            if self._files.find(kept) is None:
                self._files.rename(self.parts, kept, overwrite=True)
                logger.warning("%s was changed by somebody else: kept as %s", self.parts[-1], kept[-1])
                return

    def _is_ours(self, found: os.stat_result, data: bytes) -> bool:
        left = [noted for noted in (self._left(""), self._left("next")) if noted is not None]
        if any((found.st_size, found.st_mtime_ns) == (noted.size, noted.mtime_ns) for noted in left):
            return True
        if any(found.st_size == noted.size and self._matches(noted) for noted in left):
            return True
        there = self._read()
        # A power cut leaves the name of a file that was not synced, with nothing or with NUL bytes in it.
        return there is not None and (there == data or not there.strip(b"\0"))

    def _matches(self, left: _Left) -> bool:
        data = self._read()
        return data is not None and len(data) == left.size and zlib.crc32(data) == left.sum

    def _read(self) -> bytes | None:
        try:
            return self._files.read(self.parts)
        except (OSError, TallystickError):
            return None

    def _left(self, which: str) -> _Left | None:
        noted = self._table.note(f"{self.parts[-1]}{which}")
        return None if noted is None else msgspec.json.decode(noted, type=_Left)

    def _note(self, which: str, left: _Left) -> None:
        with self._table.changed():
            self._table.set_note(f"{self.parts[-1]}{which}", msgspec.json.encode(left).decode())
            self._table.drop_note(f"problem {'/'.join(self.parts)}")
