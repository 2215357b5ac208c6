"""The content files under `_content`, brought to where the table says they should be.

Always true: what a person wrote into a file is never overwritten or removed unless it was
adopted first. Whatever is not known to be ours is kept beside, as `<name>.edited-<time>`.
"""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import Any

import msgspec

from tallystick.clock import Clock, to_text
from tallystick.commits import chain
from tallystick.commits.mask import REDACTED, unabridged
from tallystick.errors import NotFound, TallystickError
from tallystick.extensions.ontology.views.views_db import FileRow, ViewsDb
from tallystick.projections.content import Contents, Kind, check_text, is_blob, unfinished_path
from tallystick.projections.sandboxed_files import Parts, SandboxedFiles, is_unfinished

EDITED_BYTES_MAX = 100 << 20
MASKED = sha256(REDACTED.encode()).hexdigest()
"""The digest of every content that was redacted."""
NOT_ADOPTED = "edited by hand and not adopted yet"
_SYNC_ALL_FROM = 50
"""So many files are made durable by one sync of the file system rather than by one each."""
_ABANDONED_SECONDS = 3600.0
_TICK_NS = 20_000_000
_KINDS: tuple[Kind, ...] = ("nodes", "connections")

logger = logging.getLogger(__name__)

Left = tuple[int | None, int | None]
"""Size and time of a file when we left it."""


class Edit(msgspec.Struct, frozen=True):
    """A content file that a person changed."""

    kind: Kind
    id: str
    path: str
    text: str
    replaces: str
    """SHA-256 of the content that the log has for it."""


class ContentFiles:
    def __init__(
        self, table: ViewsDb, contents: Contents, line: Callable[[int], bytes], clock: Clock, *, repairs: bool
    ) -> None:
        """`repairs`: nobody adopts edits, so a file that differs is put right when it is looked at."""
        self._repairs = repairs
        self._table = table
        self._contents = contents
        self._files: SandboxedFiles = contents.files
        self._line = line
        self._clock = clock

    # -- doing what is due

    def settle(self) -> None:
        """A file that resists is tried again next time, and reported until then."""
        due = self._table.files_due()
        at_once = len(due) > _SYNC_ALL_FROM
        for row in due:
            try:
                if row.due == "write":
                    self._write(row, sync=not at_once)
                else:
                    self._remove(row)
            except (OSError, TallystickError) as error:
                self._table.set_problem(row.path, f"could not {row.due}: {_said(error)}")
        if at_once:
            # Before the table says so: after a power cut it never takes a torn file for a whole one.
            os.sync()
        self._settle_blobs()

    def _write(self, row: FileRow, *, sync: bool) -> None:
        unfinished = unfinished_path(_kind(row), row.id, row.digest)
        found = self._files.find(row.parts)
        if found is not None:
            there = self._digest(row.parts)
            if there == row.digest:
                self._drop(unfinished)
                self._table.set_left(row.path, found.st_size, found.st_mtime_ns)
                self._finish_erasure(row)
                return
            if not self._is_ours(row, found, there):
                if row.origin == "edit":
                    # Changed once more since it was adopted: left for the next look.
                    self._table.set_left(row.path, None, None)
                    return
                self._keep_beside(row)
        left = self._put(row, unfinished, sync=sync)
        # Clocks of file systems tick slowly: an edit in the same tick has another time only if we take ours back.
        self._files.set_time(row.parts, left.st_mtime_ns - _TICK_NS)
        self._table.set_left(row.path, left.st_size, left.st_mtime_ns - _TICK_NS)
        self._finish_erasure(row)

    def _put(self, row: FileRow, unfinished: Parts, *, sync: bool) -> os.stat_result:
        with suppress(NotFound):
            self._files.rename(unfinished, row.parts, overwrite=True)
            placed = self._files.find(row.parts)
            if placed is not None:
                return placed
        # The log may not have been masked yet: what was redacted is never read from it.
        content = {} if row.digest == MASKED else self._content(row)
        if "text" not in content and not is_blob(str(content.get("blob"))):
            return self._files.write(row.parts, REDACTED.encode(), sync=sync)
        if content.get("blob") == row.digest:
            blob = ("_content", "blobs", row.digest)
            if self._files.digest(blob) != row.digest:
                raise TallystickError(f"blob {row.digest} is damaged", hint="restore _content/blobs from a backup")
            return self._files.copy(blob, row.parts, sync=sync)
        return self._files.write(row.parts, self._contents.read(content), sync=sync)

    def _remove(self, row: FileRow) -> None:
        found = self._files.find(row.parts)
        if found is not None:
            if self._is_ours(row, found, self._digest(row.parts)):
                self._files.remove(row.parts)
            else:
                self._keep_beside(row)
        if row.origin == "erased":
            self._erase_beside(row)
        self._table.drop_file(row.path)

    def _settle_blobs(self) -> None:
        for blob in self._table.to_remove():
            try:
                self._contents.forget(blob)
            except OSError as error:
                logger.warning("blob %s was redacted and could not be removed: %s", blob, error)
            else:
                self._table.drop_doomed(blob)

    # -- looking

    def check(self) -> None:
        """Find files that are missing, stale or edited. Looks at every one of them: at the start, once."""
        for row, found in self._changed():
            if found is None or (self._judge(row, found) and self._repairs):
                self._table.set_due(row.path, "write")
        self._sweep()

    def edits(self) -> list[Edit]:
        """Every hand edit that is valid text. Others are left where they are, and reported."""
        return [edit for row, found in self._changed() if (edit := self._edit(row, found)) is not None]

    def edit_of(self, kind: Kind, entity_id: str) -> Edit | None:
        row = self._table.file_of(kind, entity_id)
        if row is None or row.due:
            return None
        found = self._files.find(row.parts)
        return None if found is not None and _is_as_left(row, found) else self._edit(row, found)

    def looks_edited(self, row: FileRow) -> bool:
        found = self._files.find(row.parts)
        return not row.due and (found is None or not _is_as_left(row, found))

    def _edit(self, row: FileRow, found: os.stat_result | None) -> Edit | None:
        if found is None:
            self._table.set_due(row.path, "write")
            return None
        if not self._judge(row, found):
            return None
        if row.digest == MASKED:
            # A redacted content takes no edits: the words are kept beside it.
            self._table.set_due(row.path, "write")
            return None
        try:
            text = self._edited_text(row)
        except (OSError, TallystickError) as error:
            self._table.set_problem(row.path, f"{NOT_ADOPTED}: {_said(error)}")
            return None
        return Edit(_kind(row), row.id, row.path, text, row.digest)

    def _judge(self, row: FileRow, found: os.stat_result) -> bool:
        """Whether a file that is not as we left it was edited by hand; if not, what it needs is noted."""
        there = self._digest(row.parts)
        if there == row.digest:
            self._table.set_left(row.path, found.st_size, found.st_mtime_ns)
            return False
        if self._is_ours(row, found, there):
            self._table.set_due(row.path, "write")
            return False
        if row.problem is None:
            self._table.set_problem(row.path, NOT_ADOPTED)
        return True

    def _edited_text(self, row: FileRow) -> str:
        if row.encoding != "utf-8":
            raise TallystickError("its content is binary; use update_node")
        return check_text(self._files.read(row.parts, bytes_max=EDITED_BYTES_MAX))

    def _changed(self) -> list[tuple[FileRow, os.stat_result | None]]:
        """Files that are not as we left them."""
        changed = [
            (path, found)
            for kind in _KINDS
            for path, left, found in self._looked_at(kind)
            if found is None or left != _left(found)
        ]
        rows = [(self._table.file_at(path), found) for path, found in changed]
        return [(row, found) for row, found in rows if row is not None]

    def _looked_at(self, kind: Kind) -> Iterator[tuple[str, Left, os.stat_result | None]]:
        files = self._table.files_left(kind)
        try:
            with self._files.directory(("_content", kind)) as fd:
                for path, *left in files:
                    yield path, (left[0], left[1]), _stat(fd, path.rpartition("/")[2])
        except NotFound:
            for path, *left in files:
                yield path, (left[0], left[1]), None

    def _sweep(self) -> None:
        """What a crash left of contents that were prepared and never committed, and of files that were published."""
        before = time.time() - _ABANDONED_SECONDS
        for parts in (*(("_content", kind) for kind in (*_KINDS, "blobs")), ("_system",)):
            with suppress(OSError, TallystickError), self._files.directory(parts) as fd:
                for name in os.listdir(fd):
                    found = _stat(fd, name) if is_unfinished(name) else None
                    if found is not None and found.st_mtime < before:
                        os.unlink(name, dir_fd=fd)

    # -- below

    def _is_ours(self, row: FileRow, found: os.stat_result, there: str | None) -> bool:
        """Whether nothing a person wrote would be lost with this file."""
        if row.origin == "erased" or there == row.digest or _is_as_left(row, found):
            return True
        # An older version comes back after a power cut or from a backup, with its older time. With a newer
        # time somebody put it back on purpose.
        is_older = row.mtime_ns is None or found.st_mtime_ns <= row.mtime_ns
        return is_older and there is not None and self._table.had_version(row.kind, row.id, there)

    def _digest(self, parts: Parts) -> str | None:
        """None for what cannot be read as a file."""
        try:
            return self._files.digest(parts)
        except (OSError, TallystickError):
            return None

    def _keep_beside(self, row: FileRow) -> None:
        stamp = to_text(self._clock()).replace("-", "").replace(":", "").replace(".", "")
        for number in range(1000):
            kept = (*row.parts[:-1], f"{row.parts[-1]}.edited-{stamp}{f'-{number}' if number else ''}")
            if self._files.find(kept) is None:
                self._files.rename(row.parts, kept, overwrite=True)
                logger.warning("%s is not what the log says: what was there is kept as %s", row.path, kept[-1])
                return

    def _finish_erasure(self, row: FileRow) -> None:
        """What is written into the file from now on was written after the redaction, and is a person's own."""
        if row.origin == "erased":
            self._erase_beside(row)
            self._table.set_erased(row.path)

    def _erase_beside(self, row: FileRow) -> None:
        """Edits that were kept beside may hold what has to be forgotten."""
        try:
            beside = self._files.list(row.parts[:-1])
        except NotFound:
            return  # The directory is made with the first file in it.
        for seen in beside:
            if seen.name.startswith(f"{row.parts[-1]}.edited-"):
                self._drop((*row.parts[:-1], seen.name))

    def _drop(self, parts: Parts) -> None:
        with suppress(NotFound):
            self._files.remove(parts)

    def _content(self, row: FileRow) -> dict[str, Any]:
        payload = msgspec.json.decode(unabridged(chain.payload_of(self._line(row.offset))))
        content: dict[str, Any] = payload["content"]
        return content


def _is_as_left(row: FileRow, found: os.stat_result) -> bool:
    return (row.size, row.mtime_ns) == _left(found)


def _left(found: os.stat_result) -> Left:
    """What is no file is never as we left it."""
    return (found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else (-1, -1)


def _stat(fd: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _kind(row: FileRow) -> Kind:
    return "nodes" if row.kind == "nodes" else "connections"


def _said(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
