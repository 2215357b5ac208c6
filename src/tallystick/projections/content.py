"""The contents: what nodes and connections hold beside their attributes, and the files it lies in.

Text up to 256 KiB travels in the commit itself, so that the log alone rebuilds everything.
Larger text and anything binary is a blob, named by its SHA-256, durable before the commit
that names it. The file that people open under `_content` is prepared before the append, so
that a full disk is an answer and not an accident; the views give it its name afterwards.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from tallystick.errors import InvalidArgument, TallystickError
from tallystick.projections.sandboxed_files import UNFINISHED, Parts, SandboxedFiles
from tallystick.system.file_locks import take
from tallystick.telemetry import metrics

Kind = Literal["nodes", "connections"]

INLINE_BYTES_MAX = 256 << 10
_BLOBS: Parts = ("_content", "blobs")
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,180}")
_STEM_CHARACTERS_MAX = 180
_HASH = re.compile("[0-9a-f]{64}")

_EXTENSIONS = {
    "markdown": "md",
    "md": "md",
    "text": "txt",
    "txt": "txt",
    "plain": "txt",
    "yaml": "yaml",
    "yml": "yaml",
    "jpeg": "jpg",
    "jpg": "jpg",
    **{
        name: name
        for name in (
            "bmp", "css", "csv", "doc", "docx", "epub", "gif", "go", "gz", "html", "ico", "java", "js", "json",
            "jsonl", "log", "mp3", "mp4", "ods", "odt", "ogg", "pdf", "png", "ppt", "pptx", "py", "rs", "rst", "rtf",
            "sh", "sql", "svg", "tar", "tex", "tiff", "toml", "ts", "tsv", "wav", "webm", "webp", "xls", "xlsx", "xml",
            "zip",
        )
    },
    "htm": "html",
    "javascript": "js",
    "python": "py",
    "typescript": "ts",
}  # fmt: skip

logger = logging.getLogger(__name__)


class ContentFiles(Protocol):
    """The files that show the contents of a tenant to people, where a projection writes them."""

    def entity_at(self, path: str) -> tuple[Kind, str] | None:
        """Return the entity whose content a file shows. For any thread."""
        ...

    async def published(self, position: int) -> bool:
        """Wait until they show commits up to there; False when that takes too long."""
        ...

    async def adopt_one(self, kind: Kind, entity_id: str) -> None:
        """Commit what was saved in the file of an entity, if edits are adopted."""
        ...


def extension(format: str, encoding: str) -> str:
    """Without its dot, and always one of ours: what a client says never becomes part of a path."""
    return _EXTENSIONS.get(format.strip().lower(), "txt" if encoding == "utf-8" else "bin")


def stem(entity_id: str) -> str:
    """A file name that stands for this id and no other, whatever is in it."""
    if _PLAIN.fullmatch(entity_id):
        return entity_id
    escaped = "".join(
        chr(byte) if chr(byte).isascii() and (chr(byte).isalnum() or byte in b"_-") else f"%{byte:02X}"
        for byte in entity_id.encode("utf-8", "surrogatepass")
    )
    if len(escaped) <= _STEM_CHARACTERS_MAX:
        return escaped
    return f"{escaped[:100].rsplit('%', 1)[0]}%-{sha256(entity_id.encode('utf-8', 'surrogatepass')).hexdigest()}"


def path_of(kind: Kind, entity_id: str, format: str, encoding: str, *, in_any_case: bool = False) -> str:
    """Where its view lies, from the base directory. `in_any_case`: under a name that is nobody else's even where
    capital and small letters count as the same."""
    ending = extension(format, encoding) if kind == "nodes" else "md"
    name = stem(entity_id)
    if in_any_case:
        capitals = sum(1 << place for place, letter in enumerate(name) if letter.isupper())
        name = f"{name}~{capitals:x}"
    return f"_content/{kind}/{name}.{ending}"


def is_blob(name: str) -> bool:
    """What a redaction leaves in its place is none."""
    return _HASH.fullmatch(name) is not None


class Prepared(msgspec.Struct, frozen=True):
    """Content that is ready on the disk. Becomes visible when a commit that carries `content` is applied."""

    content: dict[str, Any]
    """For the payload: {"format", "encoding", "text"} or {"format", "encoding", "blob", "bytes"}."""
    _contents: Contents
    _unfinished: Parts
    _fresh_blob: tuple[int, int] | None = None
    """Inode and time of the blob, if this made it."""

    def discard(self) -> None:
        """It will not be committed: leave no trace. Never raises."""
        with suppress(OSError, TallystickError):
            self._contents.files.remove(self._unfinished)
        if self._fresh_blob is not None:
            with suppress(OSError, TallystickError):
                self._contents.take_back(self.content["blob"], self._fresh_blob)


class Contents:
    """Under the home of one tenant; any number of processes may have it open."""

    def __init__(self, home: Path) -> None:
        self.files = SandboxedFiles(home)

    def prepare(self, kind: Kind, entity_id: str, format: str, encoding: str, data: bytes) -> Prepared:
        """Blocks for a sync or two. Raises with code FILE_CREATION_FAILED, and then nothing is left behind."""
        described = {"format": format, "encoding": encoding}
        digest = sha256(data).hexdigest()
        unfinished = unfinished_path(kind, entity_id, digest)
        try:
            if encoding == "utf-8" and len(data) <= INLINE_BYTES_MAX:
                self.files.write(unfinished, data, sync=True)
                return Prepared({**described, "text": data.decode()}, self, unfinished)
            fresh = self._keep_blob(digest, data)
            prepared = Prepared({**described, "blob": digest, "bytes": len(data)}, self, unfinished, fresh)
            try:
                self.files.copy((*_BLOBS, digest), unfinished, sync=True)
            except BaseException:
                prepared.discard()
                raise
            return prepared
        except (OSError, TallystickError) as error:
            raise _not_created(kind, entity_id, error) from error

    def read(self, content: dict[str, Any]) -> bytes:
        """Raises with code CONTENT_READ_FAILED."""
        if "text" in content:
            text: str = content["text"]
            return text.encode()
        blob = str(content.get("blob"))
        if not is_blob(blob):
            raise _not_read(f"its content was redacted or names no blob ({blob[:80]})")
        try:
            data = self.files.read((*_BLOBS, blob))
        except (OSError, TallystickError) as error:
            raise _not_read(f"blob {blob} cannot be read: {error}") from error
        if sha256(data).hexdigest() != blob:
            logger.error("blob %s is damaged", blob)
            metrics.DAMAGE.add()
            raise _not_read(f"blob {blob} is damaged: its bytes are not the ones that were written")
        return data

    def forget(self, blob: str) -> None:
        """After a redaction. Raises OSError when it cannot be removed."""
        with suppress(TallystickError), self._blobs_locked():
            self.files.remove((*_BLOBS, blob))

    def blobs_before(self, moment: float) -> list[tuple[str, os.stat_result]]:
        """Blobs that nobody has written since."""
        found = ((blob, self.files.find((*_BLOBS, blob))) for blob in self.blobs())
        return [(blob, seen) for blob, seen in found if seen is not None and seen.st_mtime < moment]

    def remove_before(self, moment: float, blobs: Iterable[str]) -> list[str]:
        """Those of the blobs that nobody has written since then. Raises OSError when one cannot be removed."""
        named = set(blobs)
        if not named:
            return []
        with self._blobs_locked():
            old = [blob for blob, _ in self.blobs_before(moment) if blob in named]
            for blob in old:
                self.files.remove((*_BLOBS, blob))
        return old

    def blobs(self) -> list[str]:
        try:
            return [seen.name for seen in self.files.list(_BLOBS) if is_blob(seen.name)]
        except (OSError, TallystickError):
            return []

    def take_back(self, blob: str, made: tuple[int, int]) -> None:
        """Remove a blob nobody named in a commit, unless another caller has counted on it since it was made."""
        with self._blobs_locked():
            found = self.files.find((*_BLOBS, blob))
            if found is not None and (found.st_ino, found.st_mtime_ns) == made:
                self.files.remove((*_BLOBS, blob))

    def _keep_blob(self, blob: str, data: bytes) -> tuple[int, int] | None:
        """Inode and time if it was not there before."""
        with self._blobs_locked():
            was_there = self.files.find((*_BLOBS, blob)) is not None
            # Also when it was there: it may be damaged, and whoever made it and was refused must leave it alone now.
            made = self.files.write((*_BLOBS, blob), data, sync=True, sync_name=True)
            return None if was_there else (made.st_ino, made.st_mtime_ns)

    @contextmanager
    def _blobs_locked(self) -> Iterator[None]:
        with self.files.directory(_BLOBS, make=True) as fd:
            take(fd)
            yield


def unfinished_path(kind: Kind, entity_id: str, digest: str) -> Parts:
    """Found again by whichever process applies the commit, since it follows from the commit alone."""
    name = stem(entity_id)
    if len(name) > _STEM_CHARACTERS_MAX - 20:
        name = sha256(name.encode()).hexdigest()
    return ("_content", kind, f".{name}.{digest}{UNFINISHED}")


def _not_created(kind: Kind, entity_id: str, error: Exception) -> TallystickError:
    why = error.strerror if isinstance(error, OSError) else str(error)
    what = "node" if kind == "nodes" else "connection"
    return TallystickError(
        f"the content file of {what} '{entity_id[:100]}' could not be created: {why}",
        code="FILE_CREATION_FAILED",
        hint="free some space or make the base directory writable; nothing was written",
    )


def _not_read(why: str) -> TallystickError:
    return TallystickError(why, code="CONTENT_READ_FAILED", hint="restore _content/blobs from a backup")


def check_text(data: bytes) -> str:
    """The text these bytes are. Raises InvalidArgument with code NOT_TEXT."""
    if b"\0" in data:
        raise InvalidArgument("it holds NUL bytes, so it is not text", code="NOT_TEXT")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"it is not valid UTF-8 at byte {error.start}", code="NOT_TEXT") from None
