"""A derived index as bytes, so that the first use after a start need not read all of its nodes.

Only a cache, like a snapshot: whatever is odd about one raises ValueError, and the index is
built from the graph. It says after which commit it was true.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar
from zlib import crc32

import msgspec

T = TypeVar("T")
SLICE = 500
"""So many entries are loaded before others may run."""
_FRAME = struct.Struct("<IQ")
_pack = msgspec.msgpack.Encoder().encode


class Stored(msgspec.Struct, frozen=True, array_like=True):
    name: str
    count: int
    """After how many commits it was true."""
    record_hash: str
    """Of the last of them, which vouches for all before it."""
    known: bytes
    """The handles of the nodes that it knows."""
    byteorder: str = sys.byteorder


_stored = msgspec.msgpack.Decoder(Stored).decode


def pack(stored: Stored, content: bytes) -> bytes:
    header = _pack(stored)
    return b"".join((_FRAME.pack(crc32(content, crc32(header)), len(header)), header, content))


def unpack(data: bytes) -> tuple[Stored, memoryview]:
    try:
        checksum, size = _FRAME.unpack_from(data)
        rest = memoryview(data)[_FRAME.size :]
        if crc32(rest) != checksum:
            raise ValueError("it is damaged")
        stored = _stored(rest[:size])
        if stored.byteorder != sys.byteorder:
            raise ValueError(f"it is {stored.byteorder} endian")
        return stored, rest[size:]
    except (struct.error, msgspec.MsgspecError) as error:
        raise ValueError(str(error)) from error


@contextmanager
def loading() -> Iterator[None]:
    """Whatever goes wrong inside is a ValueError."""
    try:
        yield
    except (ArithmeticError, LookupError, RecursionError, TypeError, msgspec.MsgspecError) as error:
        raise ValueError(f"it cannot be read: {error}") from error


def encoded(entries: Iterable[Any]) -> list[bytes]:
    """A long list in slices: to decode it at once would hold up everybody for as long as that takes."""
    return [_pack(some) for some in sliced(entries)]


def sliced(entries: Iterable[T]) -> Iterator[list[T]]:
    left = iter(entries)
    while taken := list(islice(left, SLICE)):
        yield taken


def numbers_of(data: bytes) -> array[int]:
    found = array("I")
    found.frombytes(data)
    return found


def bytes_of(numbers: Iterable[int]) -> bytes:
    return array("I", numbers).tobytes()
