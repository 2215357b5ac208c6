"""The Merkle tree of a log in tiles, as transparency logs serve it (C2SP tlog-tiles): plain files that never change.

`_system/tiles/tile/<level>/<number>` holds 256 hashes, each of a complete subtree of 256^level leaves; the last tile of
a level is partial and lies in `<number>.p/<width>`. `tile/entries/…` holds the entries themselves. Any web server may
serve the directory, with the last signed `checkpoint` in it. `place` says up to where the log is in it: written last,
so a crash leaves tiles that nobody counts yet, and the same commits write the same bytes again.
"""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import msgspec

from tallystick.commits.tree import HASH_BYTES, fold, leaf_hashes, root
from tallystick.errors import Corrupt, StorageRefused
from tallystick.log import CHECKPOINT, Entry, Head, tree_directory
from tallystick.system.private_files import make_directory, place_file, replace_file, sync_files
from tallystick.system.regular_files import read_regular

TILE_HASHES = 256
ENTRIES = "entries"
SIGNED_EVERY_SECONDS = 1.0
"""At most so often while serving, and so tiles are not written more often either."""

_LEVELS_PER_TILE = 8
_TILE_BYTES = TILE_HASHES * HASH_BYTES
_ENTRY_LENGTH = HASH_BYTES.to_bytes(2, "big")
_ENTRY_BYTES = len(_ENTRY_LENGTH) + HASH_BYTES
_TILES_CACHED = 256
_PLACE = "place"

logger = logging.getLogger(__name__)


def tile_path(level: int | str, number: int, width: int = TILE_HASHES) -> str:
    """Relative, with the number in groups of three digits; `level` may be `entries`."""
    digits = f"{number:d}"
    digits = digits.zfill(-(-len(digits) // 3) * 3)
    groups = [digits[at : at + 3] for at in range(0, len(digits), 3)]
    written = "/".join([*(f"x{group}" for group in groups[:-1]), groups[-1]])
    return f"tile/{level}/{written}" + (f".p/{width}" if width < TILE_HASHES else "")


def entry_of(record_hash: str) -> bytes:
    return bytes.fromhex(record_hash)


class Place(msgspec.Struct, frozen=True):
    head: Head
    root: str
    """Of the tree over the commits up to there: tiles that were changed or lost give another."""


class TilesProjection:
    name = "tiles"

    def __init__(self, home: Path) -> None:
        self.directory = tree_directory(home)
        self._checked: Place | None = None

    def position(self) -> Head:
        place = read_place(self.directory)
        if place is None:
            return Head()
        if place != self._checked:
            try:
                found = root(place.head.count, Tiles(self.directory, place.head.count).subtree).hex()
            except Corrupt:
                found = ""
            if found != place.root:
                logger.warning("the tiles are not what they were: they are written again")
                self.reset()
                return Head()
            self._checked = place
        return place.head

    def apply(self, entries: Sequence[Entry], head: Head) -> None:
        before = head.count - len(entries)
        growing = _Growing(self.directory, before)
        try:
            growing.add_all([entry_of(entry.commit.record_hash) for entry in entries])
            growing.write_partial()
            place = Place(head, root(head.count, Tiles(self.directory, head.count).subtree).hex())
            # What the place counts is durable before it: a power cut must not leave holes where nobody looks again.
            growing.sync()
            replace_file(self.directory / _PLACE, msgspec.json.encode(place))
        except OSError as error:
            raise StorageRefused(
                f"the tiles could not be written: {error.strerror}",
                hint=f"free some space, or move away what is no file in {self.directory}",
            ) from error
        self._checked = place
        _drop_partial(self.directory, before, but=head.count)

    def reset(self) -> None:
        # The place first: half a tree must not be taken for one.
        with suppress(FileNotFoundError):
            (self.directory / _PLACE).unlink()
        shutil.rmtree(self.directory / "tile", ignore_errors=True)

    def close(self) -> None:
        """Nothing is held open."""


class Tiles:
    """The tree of a given size, read from its tiles."""

    def __init__(self, directory: Path, size: int) -> None:
        self._directory = directory
        self._size = size
        self._tile = lru_cache(_TILES_CACHED)(self._read)

    def subtree(self, level: int, index: int) -> bytes:
        """As proofs want it. Raises Corrupt where a tile is missing, has another length, or does not reach as far."""
        tile_level, within = divmod(level, _LEVELS_PER_TILE)
        number, first = divmod(index << within, TILE_HASHES)
        hashes = self._tile(tile_level, number)[first * HASH_BYTES : (first + (1 << within)) * HASH_BYTES]
        if len(hashes) != HASH_BYTES << within:
            raise Corrupt(
                f"the tiles of {self._directory} end before leaf {((index + 1) << level) - 1}",
                hint="'tallystick checkpoint' writes them again from the log",
            )
        return fold(hashes)

    def _read(self, level: int, number: int) -> bytes:
        width = min(TILE_HASHES, (self._size >> (_LEVELS_PER_TILE * level)) - number * TILE_HASHES)
        return read_tile(self._directory, level, number, width, HASH_BYTES)


class _Growing:
    """The tiles at the end, while leaves are added."""

    def __init__(self, directory: Path, size: int) -> None:
        self._directory = directory
        self._size = size
        self._there = set(_ends(size))
        self._written: list[Path] = []
        self._levels = [
            bytearray(read_tile(directory, level, number, width, HASH_BYTES)) if width else bytearray()
            for level, number, width in _ends(size)
        ]
        number, width = divmod(size, TILE_HASHES)
        self._entries = bytearray(read_tile(directory, ENTRIES, number, width, _ENTRY_BYTES) if width else b"")

    def add_all(self, entries: Sequence[bytes]) -> None:
        at = 0
        while at < len(entries):
            # No further than to the end of a tile.
            some = entries[at : at + TILE_HASHES - self._size % TILE_HASHES]
            self._entries += b"".join([_ENTRY_LENGTH + entry for entry in some])
            number = self._size // TILE_HASHES
            self._size += len(some)
            at += len(some)
            if len(self._entries) == TILE_HASHES * _ENTRY_BYTES:
                self._write(ENTRIES, number, bytes(self._entries), TILE_HASHES)
                self._entries.clear()
            self._add_hashes(0, leaf_hashes(some))

    def write_partial(self) -> None:
        for level, number, width in _ends(self._size):
            if width and (level, number, width) not in self._there:
                self._write(level, number, bytes(self._levels[level]), width)
        number, width = divmod(self._size, TILE_HASHES)
        if width:
            self._write(ENTRIES, number, bytes(self._entries), width)

    def _add_hashes(self, level: int, found: bytes) -> None:
        """No more than the last tile of the level has room for."""
        if level == len(self._levels):
            self._levels.append(bytearray())
        tile = self._levels[level]
        tile += found
        if len(tile) == _TILE_BYTES:
            number = (self._size - 1) >> (_LEVELS_PER_TILE * (level + 1))
            self._write(level, number, bytes(tile), TILE_HASHES)
            self._add_hashes(level + 1, fold(bytes(tile)))
            tile.clear()

    def _write(self, level: int | str, number: int, data: bytes, width: int) -> None:
        """Whole as soon as it has its name, and durable after `sync`: many files cost less together."""
        path = self._directory / tile_path(level, number, width)
        make_directory(path.parent)
        place_file(path, data)
        self._written.append(path)

    def sync(self) -> None:
        directories = dict.fromkeys(each for path in self._written for each in self._made_for(path))
        sync_files([*self._written, *directories])
        self._written.clear()

    def _made_for(self, path: Path) -> Iterator[Path]:
        """Directories that may be as new as what lies in them."""
        for directory in path.parents:
            yield directory
            if directory == self._directory:
                return


def read_place(directory: Path) -> Place | None:
    try:
        return msgspec.json.decode(read_regular(directory / _PLACE), type=Place)
    except (OSError, msgspec.MsgspecError):
        return None


def read_tile(directory: Path, level: int | str, number: int, width: int, each_bytes: int) -> bytes:
    """A partial tile may have become a full one since. Raises Corrupt."""
    for tried in dict.fromkeys((width, TILE_HASHES)):
        with suppress(OSError):
            data = read_regular(directory / tile_path(level, number, tried))
            if len(data) == tried * each_bytes:
                return data[: width * each_bytes]
    raise Corrupt(
        f"{tile_path(level, number, width)} is missing or damaged", hint="the tiles are written again when it is served"
    )


_TILE = re.compile(r"tile/(entries|0|[1-9][0-9]?)/((?:x[0-9]{3}/){0,6}[0-9]{3})(?:\.p/([1-9][0-9]{0,2}))?")


def find_tile(directory: Path, path: str) -> bytes | None:
    """By the path that readers ask for. A partial tile that gave way to a wider one is cut out of that."""
    asked = _TILE.fullmatch(path)
    width = int(asked[3] or TILE_HASHES) if asked else 0
    if asked is None or width > TILE_HASHES or (asked[3] and width == TILE_HASHES):
        return None
    each_bytes = _ENTRY_BYTES if asked[1] == ENTRIES else HASH_BYTES
    full = directory / "tile" / asked[1] / asked[2]
    partial = full.with_name(f"{full.name}.p")
    candidates = [full] if asked[3] is None else [partial / asked[3], *_wider(partial, width), full]
    for candidate in candidates:
        with suppress(OSError):
            data = read_regular(candidate)
            if len(data) >= width * each_bytes:
                return data[: width * each_bytes]
    return None


def _wider(partial: Path, width: int) -> list[Path]:
    with suppress(OSError):
        widths = sorted(int(each.name) for each in partial.iterdir() if each.name.isdecimal())
        return [partial / str(each) for each in widths if each > width]
    return []


def _ends(size: int) -> Iterator[tuple[int, int, int]]:
    """Of each level: number and width of its last tile, of width 0 where all of them are full."""
    level = 0
    while size or level == 0:
        number, width = divmod(size, TILE_HASHES)
        yield level, number, width
        size, level = number, level + 1


def _drop_partial(directory: Path, size: int, *, but: int) -> None:
    """Those that a smaller tree ended with; where it was signed, only once full tiles took their place: until then
    whoever has its checkpoint asks for them."""
    was_signed = size == _signed_size(directory)
    grown = {level: (number, width) for level, number, width in _ends(but)}
    for level, number, width in _ends(size):
        is_full = grown[level][0] > number
        if width and (is_full or (not was_signed and grown[level] != (number, width))):
            for each in (level, ENTRIES) if level == 0 else (level,):
                path = directory / tile_path(each, number, width)
                if is_full:
                    shutil.rmtree(path.parent, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)


def _signed_size(directory: Path) -> int | None:
    """Without a look at its signatures: it is about tidiness only."""
    try:
        return int(read_regular(directory / CHECKPOINT).split(b"\n", 2)[1])
    except (OSError, ValueError, IndexError):
        return None
