"""Contents that lie beside the log: blobs, which commits name by their SHA-256, are kept by the servers as well.

They have a stream of their own beside the log's, in pieces, so that a large one delays no commit and is not sent to
those who have it. A blob is stored before the group that names it is published, and fetched and compared with its
name before that group is adopted: whoever reads a commit has its content, as on one machine. One that no server has
(a redaction was faster) holds nothing up; it is noted in `stream.missing` and asked for again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from tallystick.commits import chain
from tallystick.errors import StorageRefused
from tallystick.extensions.cluster.client import NoAnswer
from tallystick.extensions.cluster.messages import FORMAT, Message, content_piece, content_pieces, is_content
from tallystick.extensions.cluster.stream import ASK_SECONDS, Stream, WrongSequence
from tallystick.log.unopened import Unopened, unopened
from tallystick.system.file_locks import locked
from tallystick.system.private_files import make_directory, replacing, sync_directory

PIECE_BYTES = 1 << 20
MISSING = "stream.missing"
"""A directory beside the log with an empty file for each blob that a commit names and no server had."""
_NEEDLE = b'"blob":"'
_PIECES = "Tallystick-Pieces"

logger = logging.getLogger(__name__)


def names_in(lines: bytes) -> set[str]:
    """The blobs that these commits hold as their content."""
    if _NEEDLE not in lines:
        return set()
    return {blob for line in lines.split(b"\n") if _NEEDLE in line and (blob := _name_in(line)) is not None}


def _name_in(line: bytes) -> str | None:
    content = chain.decode(line).document().get("content")
    blob = content.get("blob") if isinstance(content, dict) else None
    return blob if isinstance(blob, str) and is_content(blob) else None


# -- between this machine and the servers


def store(stream: Stream, system: Path, tenant: str, blobs: Iterable[str]) -> None:
    """Those that the servers have not. Raises NoAnswer, Refused, InvalidArgument, and StorageRefused where one is not
    what it was."""
    for blob in blobs:
        path = _directory(system) / blob
        if not path.exists():
            # Named in a log that was imported without it: there is nothing to store.
            logger.warning("the blob %s of %s is not on this machine, and is not sent to the others", blob, tenant)
            continue
        contents = _opened(stream)
        pieces = max(1, -(-path.stat().st_size // PIECE_BYTES))
        # They are stored in order and erased backwards: where there is the last, there are all.
        if contents.last(content_piece(stream.name, tenant, blob, pieces - 1)) is None:
            _store(contents, stream.name, tenant, blob, path, pieces)


def fetch(stream: Stream, system: Path, tenant: str, blobs: Iterable[str]) -> list[str]:
    """Those that this machine has not; returns what no server has. Raises NoAnswer, OSError."""
    missing = []
    for blob in blobs:
        path = _directory(system) / blob
        if path.exists():
            continue
        data = _found(stream, tenant, blob)
        if data is None:
            missing.append(blob)
            continue
        make_directory(path.parent)
        with locked(path.parent, create=False), replacing(path, unfinished=path.with_name(f".{blob}.new")) as file:
            file.write(data)
    return missing


def fetch_or_note(stream: Stream, system: Path, tenant: str) -> Callable[[bytes], None]:
    """For whoever adopts lines: fetches what they name."""

    def adopted(lines: bytes) -> None:
        if missing := fetch(stream, system, tenant, names_in(lines)):
            logger.warning("no server has the contents that commits of %s name: %s", tenant, ", ".join(missing))
            make_directory(system / MISSING)
            for blob in missing:
                (system / MISSING / blob).touch(mode=0o600)

    return adopted


def fetch_missing(stream: Stream, system: Path, tenant: str) -> None:
    """Ask again for what was noted. Raises NoAnswer, OSError."""
    with suppress(FileNotFoundError):
        noted = {path.name for path in (system / MISSING).iterdir() if is_content(path.name)}
        with unopened(system) as log:
            wanted = _still_named(log, noted) if noted else set()
        for blob in noted - set(fetch(stream, system, tenant, wanted)):
            (system / MISSING / blob).unlink(missing_ok=True)


def erase(stream: Stream, tenant: str, blobs: Collection[str]) -> None:
    """From the servers, with their bytes. Raises NoAnswer."""
    for blob in blobs:
        for message in reversed(_stored(stream, tenant, blob)):
            stream.contents.erase(message.sequence)


# -- what a redaction leaves


def named_by(system: Path, lamports: Collection[int], new: bytes) -> set[str]:
    """The blobs that these commits name before they are masked; `new` are lines that are not in the log yet."""
    with unopened(system) as log:
        known = sorted(each for each in lamports if each <= log.head.lamport)
        found = log.segments.find(known) if known else {}
        lines = [next(log.segments.lines(offset, log.end))[1] for offset in found.values()]
    return names_in(b"\n".join([*lines, new]))


def remove_unnamed(system: Path, blobs: Collection[str]) -> None:
    """Those that no commit names any more, from this machine."""
    directory = _directory(system)
    if not blobs or not directory.is_dir():
        return
    with unopened(system) as log:
        left = set(blobs) - _still_named(log, blobs)
    with locked(directory, create=False):
        for blob in left:
            (directory / blob).unlink(missing_ok=True)
    sync_directory(directory)


def unnamed(log: Unopened, blobs: Collection[str]) -> set[str]:
    """Those that no commit of the log names."""
    return set(blobs) - _still_named(log, blobs) if blobs else set()


def all_named(system: Path) -> set[str]:
    with unopened(system) as log:
        return {blob for line in _telling(log) if (blob := _name_in(line)) is not None}


# -- below


def _still_named(log: Unopened, blobs: Collection[str]) -> set[str]:
    named = set()
    for line in _telling(log):
        if any(blob.encode() in line for blob in blobs) and (blob := _name_in(line)) is not None:
            named.add(blob)
    return named & set(blobs)


def _telling(log: Unopened) -> Iterator[bytes]:
    return (line for _, line in log.segments.lines_with(_NEEDLE, 0, log.end))


def _directory(system: Path) -> Path:
    return system.parent / "_content" / "blobs"


def _opened(stream: Stream) -> Stream:
    contents = stream.contents
    if not contents.memory:
        contents.open(stream.trust, memory=stream.memory)
    return contents


def _store(contents: Stream, name: str, tenant: str, blob: str, path: Path, pieces: int) -> None:
    data = path.read_bytes()
    if sha256(data).hexdigest() != blob:
        raise StorageRefused(
            f"the blob {blob} on this machine is damaged, and nothing was written",
            hint="write the same content again: that replaces it",
        )
    for number in range(pieces):
        piece = data[number * PIECE_BYTES : (number + 1) * PIECE_BYTES]
        headers = {"Tallystick-Format": FORMAT, _PIECES: str(pieces)}
        # Another machine has stored the same where this does not hold.
        with suppress(WrongSequence):
            subject = content_piece(name, tenant, blob, number)
            contents.publish(subject, piece, headers, seconds=ASK_SECONDS, expected=0)


def _found(stream: Stream, tenant: str, blob: str) -> bytes | None:
    for look in (_stored, _stored_by_leader):
        data = b"".join(message.data for message in look(stream, tenant, blob))
        if sha256(data).hexdigest() == blob:
            return data
    return None


def _stored(stream: Stream, tenant: str, blob: str) -> list[Message]:
    """As any of the servers has it, in order; it may lag."""
    try:
        found = list(stream.contents.messages(content_pieces(stream.name, tenant, blob), 0))
    except NoAnswer:
        if stream.contents.info() is None:
            # Nobody has stored a content yet.
            return []
        raise
    return sorted(found, key=lambda message: int(message.subject.rpartition(".")[2]))


def _stored_by_leader(stream: Stream, tenant: str, blob: str) -> list[Message]:
    if stream.contents.info() is None:
        return []
    found: list[Message] = []
    while (last := stream.contents.last(content_piece(stream.name, tenant, blob, len(found)))) is not None:
        found.append(last)
    return found
