"""The folded texts: everything that can be searched, casefolded and joined in two files.

A search maps them and looks through them at memory speed, so a query of any length is
answered alike, nothing is loaded at start, and all processes share the same pages.
`ordered` holds texts in the order in which their nodes were made; `late` those that were
rewritten since. Behind each text stands its trailer: which node, and of what type.

Trailers and wiped places are made of bytes that no UTF-8 text has, so no query can meet
them. Nothing is ever cut off a file that others may have mapped: what is not needed any
more is overwritten, and now and then everything moves to a new pair of files.
"""

from __future__ import annotations

import itertools
import mmap
import os
import zlib
from codecs import getincrementaldecoder
from collections.abc import Iterator
from pathlib import Path

import msgspec
import stringzilla  # type: ignore[import-not-found]  # compiled, without stubs

from tallystick.projections.database import Damaged
from tallystick.system.private_files import sync_data

ORDERED, LATE = 0, 1
_NAMES = ("ordered", "late")
_MARK = b"\xff"
_WIPED = b"\xfe"
_NUMBER_DIGITS, _TYPE_DIGITS = 16, 8
_HIDDEN = bytes.maketrans(b"01234567", bytes(range(0xF5, 0xFD)))
_SHOWN = bytes.maketrans(bytes(range(0xF5, 0xFD)), b"01234567")
TRAILER_BYTES = 1 + _NUMBER_DIGITS + _TYPE_DIGITS
_CHUNK_BYTES = 1 << 20
_GROWTH_BYTES = 16 << 20


def path_of(directory: Path, generation: int, file: int) -> Path:
    return directory / f"{_NAMES[file]}-{generation}.folded"


def folded(query: str) -> bytes:
    """What to look for. Lone surrogates are in no text, so they find nothing."""
    return query.casefold().encode("utf-8", "surrogatepass")


def folded_pieces(data: bytes) -> Iterator[bytes]:
    """Of UTF-8 of any size, a piece at a time. Raises UnicodeDecodeError."""
    decode = getincrementaldecoder("utf-8")().decode
    for start in range(0, len(data), _CHUNK_BYTES):
        piece = data[start : start + _CHUNK_BYTES]
        # Casefolding looks at one character at a time, so pieces fold like the whole.
        yield decode(piece, start + _CHUNK_BYTES >= len(data)).casefold().encode()


class Place(msgspec.Struct, frozen=True):
    """Where one text stands."""

    file: int
    start: int
    bytes: int
    crc: int


class SubstringWriter:
    """The writer's side of one generation. `ends` are where the committed texts end: what lies behind is debris."""

    def __init__(self, directory: Path, generation: int, ends: list[int]) -> None:
        self.ends = ends
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._fds = [os.open(path_of(directory, generation, file), flags, 0o600) for file in (ORDERED, LATE)]
        self._sizes = [os.fstat(fd).st_size for fd in self._fds]
        if any(size < end for size, end in zip(self._sizes, ends, strict=True)):
            self.close()
            raise Damaged("the folded texts were cut off")

    def put(self, file: int, pieces: Iterator[bytes], number: int, type_number: int) -> Place:
        start, crc, size = self.ends[file], 0, 0
        for piece in pieces:
            self._write(file, start + size, piece)
            crc, size = zlib.crc32(piece, crc), size + len(piece)
        self._write(file, start + size, trailer(number, type_number))
        self.ends[file] = start + size + TRAILER_BYTES
        return Place(file, start, size, crc)

    def wipe(self, file: int, start: int, size: int) -> None:
        """A text and its trailer."""
        for offset in range(0, size + TRAILER_BYTES, _CHUNK_BYTES):
            self._write(file, start + offset, _WIPED * min(_CHUNK_BYTES, size + TRAILER_BYTES - offset))

    def wipe_debris(self) -> None:
        """What a transaction that was rolled back had written: make it a hole again."""
        for fd, end, size in zip(self._fds, self.ends, self._sizes, strict=True):
            # Shrunk no further than to where readers look.
            os.ftruncate(fd, end)
            os.ftruncate(fd, size)

    def pieces(self, place: Place) -> Iterator[bytes]:
        for offset in range(0, place.bytes, _CHUNK_BYTES):
            yield os.pread(self._fds[place.file], min(_CHUNK_BYTES, place.bytes - offset), place.start + offset)

    def is_sound(self, place: Place, number: int) -> bool:
        crc = size = 0
        for piece in self.pieces(place):
            crc, size = zlib.crc32(piece, crc), size + len(piece)
        trailer = os.pread(self._fds[place.file], TRAILER_BYTES, place.start + place.bytes)
        return size == place.bytes and crc == place.crc and _number(trailer) == number

    def sync(self) -> None:
        for fd in self._fds:
            sync_data(fd)

    def close(self) -> None:
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()

    def _write(self, file: int, offset: int, data: bytes) -> None:
        if offset + len(data) > self._sizes[file]:
            self._grow(file, offset + len(data))
        view = memoryview(data)
        while view:
            written = os.pwrite(self._fds[file], view, offset)
            view, offset = view[written:], offset + written

    def _grow(self, file: int, size: int) -> None:
        """Ahead of what is written, as a hole: so readers need not map it anew each time."""
        self._sizes[file] = -(-size // _GROWTH_BYTES) * _GROWTH_BYTES
        os.ftruncate(self._fds[file], self._sizes[file])


class Mapped:
    """A reader's view of one generation; what is written later shows in it, and it outlives the files' removal."""

    def __init__(self, directory: Path, generation: int, ends: tuple[int, int]) -> None:
        self.generation = generation
        self._texts = [_map(path_of(directory, generation, file), end) for file, end in enumerate(ends)]

    def covers(self, generation: int, ends: tuple[int, int]) -> bool:
        return generation == self.generation and all(
            len(text) >= end for text, end in zip(self._texts, ends, strict=True)
        )

    def search(self, needle: bytes, ends: tuple[int, int], type_number: int | None, limit: int | None) -> list[int]:
        """The numbers of the nodes whose text has it, smallest first."""
        wanted = None if type_number is None else _type_digits(type_number)
        found = list(itertools.islice(_trailers(self._texts[ORDERED], needle, ends[ORDERED], wanted), limit))
        late = list(_trailers(self._texts[LATE], needle, ends[LATE], wanted))
        numbers = [_number(trailer) for trailer in found]
        return sorted(numbers + [_number(trailer) for trailer in late])[:limit] if late else numbers


def _trailers(text: stringzilla.Str, needle: bytes, end: int, wanted: bytes | None) -> Iterator[bytes]:
    at = text.find(needle, 0, end)
    while at >= 0:
        mark = text.find(_MARK, at + len(needle), end)
        if mark < 0:
            return  # Its trailer is being wiped this very moment.
        trailer = bytes(memoryview(text[mark : mark + TRAILER_BYTES]))
        if len(trailer) == TRAILER_BYTES and (wanted is None or trailer.endswith(wanted)):
            yield trailer
        at = text.find(needle, mark + TRAILER_BYTES, end)


def _map(path: Path, end: int) -> stringzilla.Str:
    if end == 0:
        return stringzilla.Str("")
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < end:
            raise Damaged(f"{path.name} ends at byte {size}, not at {end}")
        return stringzilla.Str(memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)))


def trailer(number: int, type_number: int) -> bytes:
    return _MARK + f"{number:0{_NUMBER_DIGITS}o}".encode().translate(_HIDDEN) + _type_digits(type_number)


def _type_digits(type_number: int) -> bytes:
    return f"{type_number:0{_TYPE_DIGITS}o}".encode().translate(_HIDDEN)


def _number(trailer: bytes) -> int:
    """0 for what is no trailer."""
    try:
        return int(trailer[1 : 1 + _NUMBER_DIGITS].translate(_SHOWN), 8)
    except ValueError:
        return 0
