"""The snapshot: the columns as bytes, so that a restart need not read the whole log.

Only a cache: whatever is odd about one raises ValueError, and the caller replays. Frames of
CRC-32, length and content follow each other; adjacency is not among them, since the edges'
ends say it all.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any
from zlib import crc32

import msgspec
from pyroaring import BitMap

from tallystick.log import Head
from tallystick.state.attributes import Attributes, Postings
from tallystick.state.columns import Columns, Lines
from tallystick.state.graph import Edges, Names, Nodes, link_all
from tallystick.state.history import History, block_sizes
from tallystick.state.nonces import Nonces

FORMAT = 4
"""To be raised with every change of what follows."""

_PAGE = 50_000
_FRAME = struct.Struct("<IQ")
_KIND = f"tallystick state, {sys.byteorder} endian"

_pack = msgspec.msgpack.Encoder().encode


class _Header(msgspec.Struct, array_like=True):
    kind: str
    format: int
    head: Head
    nodes: int
    edges: int


class _Piece(msgspec.Struct, array_like=True):
    """Some of the values of a key: those of one node each, and those of several."""

    key: str
    present: bytes
    long: bytes
    values: list[str | int | float | None]
    handles: bytes
    shared_values: list[str | int | float | None]
    shared: list[bytes]
    truths: list[tuple[bool, bytes]]


# -- out


def dump(columns: Columns, head: Head) -> Iterator[bytes]:
    """Takes what may change at once (about a second for a million nodes), encodes it as it is asked for."""
    header = _Header(_KIND, FORMAT, head, len(columns.nodes.ids), len(columns.edges.source))
    fixed = [
        _pack(header),
        *_history_parts(columns.history),
        *_nonce_parts(columns.nonces),
        *_node_parts(columns.nodes),
        *_edge_parts(columns.edges),
        _pack(sorted(columns.attributes.dotted)),
    ]
    ids = list(columns.nodes.ids)
    keys = [_Key(key, postings) for key, postings in columns.attributes.keys.items()]
    return _frames(fixed, ids, keys)


def _frames(fixed: list[bytes], ids: list[str], keys: list[_Key]) -> Iterator[bytes]:
    for part in fixed:
        yield from _frame(part)
    for start in range(0, len(ids), _PAGE):
        yield from _frame(_pack(ids[start : start + _PAGE]))
    for page in _pages(keys):
        yield from _frame(_pack(page))
    yield from _frame(_pack([]))


def _frame(content: bytes) -> Iterator[bytes]:
    yield _FRAME.pack(crc32(content), len(content))
    yield content


def _history_parts(history: History) -> list[bytes]:
    return [
        history.offset.tobytes(),
        history.prev.tobytes(),
        history.entity.tobytes(),
        history.redactions.tobytes(),
        _pack((history.lamports.starts, history.lamports.seqs)),
        history.commit_ids.prefixes.tobytes(),
        b"".join(block.tobytes() for block in history.commit_ids.blocks),
    ]


def _nonce_parts(nonces: Nonces) -> list[bytes]:
    return [_pack((list(nonces.seqs), list(nonces.seqs.values()), nonces.replaced))]


def _node_parts(nodes: Nodes) -> list[bytes]:
    by_type = {name: members.serialize() for name, members in nodes.by_type.items()}
    return [
        _pack((nodes.types.texts, nodes.actors.texts, nodes.alive.serialize(), by_type, nodes.extra_actors)),
        *(column.tobytes() for column in nodes.columns()),
    ]


def _edge_parts(edges: Edges) -> list[bytes]:
    return [
        _pack((edges.rels.texts, edges.chosen)),
        *(column.tobytes() for column in edges.columns()),
        bytes(edges.alive),
    ]


class _Key:
    """The postings of a key as they are now; bitmaps change in place, so they are written out at once."""

    def __init__(self, key: str, postings: Postings) -> None:
        self.key = key
        self.present = postings.present.serialize()
        self.long = postings.long.serialize()
        self.values = list(postings.values)
        self.found = [each if type(each) is int else each.serialize() for each in postings.values.values()]  # type: ignore[union-attr]  # `type is` does not narrow

    def pieces(self) -> Iterator[_Piece]:
        for start in range(0, len(self.values) or 1, _PAGE):
            piece = _Piece(self.key, self.present, self.long, [], b"", [], [], [])
            handles = array("I")
            for value, found in zip(self.values[start : start + _PAGE], self.found[start : start + _PAGE], strict=True):
                if isinstance(value, tuple):
                    members = found if isinstance(found, bytes) else BitMap((found,)).serialize()
                    piece.truths.append((value[0], members))
                elif isinstance(found, bytes):
                    piece.shared_values.append(value)
                    piece.shared.append(found)
                else:
                    piece.values.append(value)
                    handles.append(found)
            piece.handles = handles.tobytes()
            yield piece


def _pages(keys: Iterable[_Key]) -> Iterator[list[_Piece]]:
    page: list[_Piece] = []
    weight = 0
    for key in keys:
        for piece in key.pieces():
            page.append(piece)
            weight += 1 + len(piece.values) + len(piece.shared)
            if weight >= _PAGE:
                yield page
                page, weight = [], 0
    if page:
        yield page


# -- in


def load(data: bytes | memoryview, lines: Lines) -> tuple[Columns, Head]:
    """Raises ValueError unless every frame is whole and everything fits together."""
    try:
        return _load(_Reader(memoryview(data)), lines)
    except (ArithmeticError, LookupError, TypeError, msgspec.MsgspecError) as error:
        raise ValueError(f"the snapshot cannot be read: {error}") from error


class _Reader:
    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def frame(self) -> memoryview:
        start = self._at + _FRAME.size
        if start > len(self._data):
            raise ValueError("the snapshot ends too soon")
        checksum, size = _FRAME.unpack_from(self._data, self._at)
        content = self._data[start : start + size]
        if len(content) != size or crc32(content) != checksum:
            raise ValueError("the snapshot is damaged")
        self._at = start + size
        return content

    def column(self, code: str, rows: int) -> array[int]:
        column = array(code)
        column.frombytes(self.frame())
        if len(column) != rows:
            raise ValueError(f"a column of the snapshot has {len(column)} rows instead of {rows}")
        return column

    def unpack(self, kind: Any) -> Any:
        return msgspec.msgpack.decode(self.frame(), type=kind)

    def finish(self) -> None:
        if self._at != len(self._data):
            raise ValueError("something follows the end of the snapshot")


def _load(reader: _Reader, lines: Lines) -> tuple[Columns, Head]:
    header: _Header = reader.unpack(_Header)
    if header.kind != _KIND or header.format != FORMAT:
        raise ValueError(f"the snapshot is of another format: {header.kind}, {header.format}")
    columns = Columns(lines)
    _load_history(reader, columns.history, header.head.count)
    _load_nonces(reader, columns.nonces)
    _load_nodes(reader, columns.nodes, header.nodes)
    _load_edges(reader, columns.edges, header)
    columns.attributes.dotted = reader.unpack(set[str])
    _load_ids(reader, columns.nodes, header.nodes)
    _load_attributes(reader, columns.attributes, list(columns.nodes.handles.values()))
    reader.finish()
    return columns, header.head


def _load_history(reader: _Reader, history: History, count: int) -> None:
    history.offset = reader.column("Q", count + 1)
    history.prev = reader.column("I", count + 1)
    history.entity = reader.column("I", count + 1)
    history.redactions.frombytes(reader.frame())
    history.lamports.starts, history.lamports.seqs = reader.unpack(tuple[list[int], list[int]])
    history.commit_ids.prefixes = reader.column("I", count + 1)
    sizes = block_sizes(count)
    slots = reader.column("I", sum(sizes))
    ends = list(accumulate(sizes))
    history.commit_ids.blocks = [slots[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def _load_nonces(reader: _Reader, nonces: Nonces) -> None:
    keys, seqs, nonces.replaced = reader.unpack(tuple[list[str], list[int], dict[int, int]])
    nonces.seqs = dict(zip(keys, seqs, strict=True))


def _load_nodes(reader: _Reader, nodes: Nodes, rows: int) -> None:
    types, actors, alive, by_type, nodes.extra_actors = reader.unpack(
        tuple[list[str], list[str], bytes, dict[str, bytes], dict[int, dict[int, int]]]
    )
    nodes.types, nodes.actors = Names(types), Names(actors)
    nodes.alive = BitMap.deserialize(alive)
    nodes.by_type = {name: BitMap.deserialize(members) for name, members in by_type.items()}
    nodes.type, nodes.owner, nodes.created = (reader.column("I", rows) for _ in range(3))
    nodes.last, nodes.doc, nodes.commits = (reader.column("I", rows) for _ in range(3))


def _load_edges(reader: _Reader, edges: Edges, header: _Header) -> None:
    rels, chosen = reader.unpack(tuple[list[str], dict[int, str]])
    edges.rels = Names(rels)
    edges.source, edges.rel, edges.target = (reader.column("I", header.edges) for _ in range(3))
    edges.last, edges.owner = (reader.column("I", header.edges) for _ in range(2))
    edges.alive = bytearray(reader.frame())
    if len(edges.alive) != header.edges:
        raise ValueError("the snapshot does not say of every edge whether it is alive")
    edges.out = link_all(edges.source, header.nodes)
    edges.into = link_all(edges.target, header.nodes)
    edges.chosen, edges.by_chosen = chosen, {edge_id: handle for handle, edge_id in chosen.items()}


def _load_ids(reader: _Reader, nodes: Nodes, rows: int) -> None:
    while len(nodes.ids) < rows:
        nodes.ids += reader.unpack(list[str])
    nodes.handles = dict(zip(nodes.ids, range(rows), strict=True))
    if len(nodes.handles) != rows:
        raise ValueError("the snapshot has two nodes of one id")


def _load_attributes(reader: _Reader, attributes: Attributes, handles: list[int]) -> None:
    """`handles` are the very integers that the ids map to: shared, they cost nothing a second time."""
    pages = msgspec.msgpack.Decoder(list[_Piece])
    while page := pages.decode(reader.frame()):
        for piece in page:
            postings = attributes.keys.get(piece.key)
            if postings is None:
                postings = attributes.keys[piece.key] = Postings()
                postings.present = BitMap.deserialize(piece.present)
                postings.long = BitMap.deserialize(piece.long)
            _load_piece(piece, postings, handles)


def _load_piece(piece: _Piece, postings: Postings, handles: list[int]) -> None:
    rows = array("I")
    rows.frombytes(piece.handles)
    postings.values.update(zip(piece.values, map(handles.__getitem__, rows), strict=True))
    postings.values.update(zip(piece.shared_values, map(BitMap.deserialize, piece.shared), strict=True))
    for truth, members in piece.truths:
        found = BitMap.deserialize(members)
        postings.values[(truth,)] = found if len(found) > 1 else found.min()
