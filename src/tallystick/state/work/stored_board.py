"""The work graph as bytes, and back: rows by their places, bitmaps as they are, order as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import msgspec
from pyroaring import BitMap
from sortedcontainers import SortedList

from tallystick.state import Breathing
from tallystick.state.attributes import Postings, Scalar
from tallystick.state.stored_index import bytes_of, encoded, loading, numbers_of, sliced
from tallystick.state.work.attributes import PropertyKey
from tallystick.state.work.board import Board, Row

if TYPE_CHECKING:
    from tallystick.state.work.graph import WorkGraph

_SETS = "members", "resolved", "dropped", "leaves", "blocked", "actionable"
_PLAIN = Row.__struct_fields__.index("marks")
"""How many fields of a row are stored as they are."""


class _StoredBoard(msgspec.Struct, frozen=True, array_like=True):
    id: str
    name: str | None
    root: str | None
    created: int
    sets: tuple[bytes, ...]
    ranked: bytes
    """The numbers of its rows."""
    updates: bytes
    depths: dict[int, bytes]
    texts: dict[int, str]
    links: dict[str, int]


class _StoredPostings(msgspec.Struct, frozen=True, array_like=True):
    values: list[Scalar]
    members: list[int | bytes]
    present: bytes
    long: bytes


class _StoredLinks(msgspec.Struct, frozen=True, array_like=True):
    knowing: bytes
    """The places of the rows that know any."""
    counts: bytes
    """How many each of them knows."""
    known: bytes
    """The places of those, one row's after the other's."""


class _StoredGraph(msgspec.Struct, frozen=True, array_like=True):
    rows: list[bytes]
    """In slices."""
    boards: list[_StoredBoard]
    on_board: bytes
    """Of each row: the place of its board, counted from one; zero for those on none."""
    marks: list[tuple[PropertyKey, ...]]
    """Each once, however many rows have the same."""
    marked: bytes
    """Of each row: the place of its marks."""
    children: _StoredLinks
    depends_on: _StoredLinks
    dependents: _StoredLinks
    kinds: dict[str, bytes]
    properties: dict[str, msgspec.Raw]
    leveled: bool


_read = msgspec.msgpack.Decoder(_StoredGraph).decode
_read_rows = msgspec.msgpack.Decoder(list[Row]).decode
_read_postings = msgspec.msgpack.Decoder(_StoredPostings).decode


# -- out


def dump(graph: WorkGraph) -> bytes:
    rows = list(graph.rows.values())
    boards = list(graph.boards.values())
    row_places = {row: place for place, row in enumerate(rows)}
    board_places = {board: place for place, board in enumerate(boards, 1)}

    def links(known: Callable[[Row], Sequence[Row]]) -> _StoredLinks:
        knowing = [row for row in rows if known(row)]
        return _StoredLinks(
            bytes_of(map(row_places.__getitem__, knowing)),
            bytes_of(len(known(row)) for row in knowing),
            bytes_of(row_places[each] for row in knowing for each in known(row)),
        )

    marks: dict[tuple[PropertyKey, ...], int] = {}
    marked = bytes_of(marks.setdefault(row.marks, len(marks)) for row in rows)
    return msgspec.msgpack.encode(
        (
            encoded(msgspec.structs.astuple(row)[:_PLAIN] for row in rows),
            list(map(_board_out, boards)),
            bytes_of(board_places[row.board] if row.board is not None else 0 for row in rows),
            list(marks),
            marked,
            links(lambda row: row.children),
            links(lambda row: row.depends_on),
            links(lambda row: row.dependents),
            {kind: members.serialize() for kind, members in graph.kinds.items()},
            {key: _postings_out(postings) for key, postings in graph.properties.items()},
            graph.leveled,
        )
    )


def _board_out(board: Board) -> _StoredBoard:
    return _StoredBoard(
        board.id,
        board.name,
        board.root,
        board.created,
        tuple(getattr(board, name).serialize() for name in _SETS),
        bytes_of(rank[-1] for rank in board.ranked),
        bytes_of(board.updates),
        {depth: members.serialize() for depth, members in board.depths.items()},
        board.texts,
        board.links,
    )


def _postings_out(postings: Postings) -> _StoredPostings:
    members = [each if isinstance(each, int) else each.serialize() for each in postings.values.values()]
    return _StoredPostings(list(postings.values), members, postings.present.serialize(), postings.long.serialize())


# -- in


def load(graph: WorkGraph, content: memoryview) -> Breathing[None]:
    with loading():
        stored = _read(content)
        yield
        boards = [None, *(Board(each.id) for each in stored.boards)]
        on_board, marked = iter(numbers_of(stored.on_board)), iter(numbers_of(stored.marked))
        rows: list[Row] = []
        for some in map(_read_rows, stored.rows):
            rows += some
            for row, board_place, marks_place in zip(some, on_board, marked, strict=False):
                graph.rows[row.id] = row
                row.marks = stored.marks[marks_place]
                if board_place:
                    row.board = boards[board_place]
                    graph.by_number[row.created] = row
                    graph.by_update[row.updated] = row
            yield
        for board, each in zip(boards[1:], stored.boards, strict=True):
            assert board is not None
            _board_in(board, each, graph.by_number)
            graph.add_board(board)
            yield
        for links in _links(rows, stored.children):
            for parent, children in links:
                parent.children = children
                for child in children:
                    child.parent = parent
            yield
        for links in _links(rows, stored.depends_on):
            for row, known in links:
                row.depends_on = known
            yield
        for links in _links(rows, stored.dependents):
            for row, known in links:
                row.dependents = known
            yield
        graph.kinds = {kind: BitMap.deserialize(members) for kind, members in stored.kinds.items()}
        for key, postings in stored.properties.items():
            graph.properties[key] = _postings_in(_read_postings(postings))
            yield
        graph.leveled = stored.leveled


def _links(rows: list[Row], stored: _StoredLinks) -> Iterator[list[tuple[Row, list[Row]]]]:
    known = map(rows.__getitem__, numbers_of(stored.known))
    knowing = map(rows.__getitem__, numbers_of(stored.knowing))
    counts = numbers_of(stored.counts)
    return sliced((row, list(islice(known, count))) for row, count in zip(knowing, counts, strict=True))


def _board_in(board: Board, stored: _StoredBoard, by_number: dict[int, Row]) -> None:
    board.name, board.root, board.created = stored.name, stored.root, stored.created
    for name, members in zip(_SETS, stored.sets, strict=True):
        setattr(board, name, BitMap.deserialize(members))
    board.ranked = SortedList([by_number[number].rank for number in numbers_of(stored.ranked)])
    board.updates = SortedList(numbers_of(stored.updates))
    board.depths = {depth: BitMap.deserialize(members) for depth, members in stored.depths.items()}
    board.texts, board.links = stored.texts, stored.links


def _postings_in(stored: _StoredPostings) -> Postings:
    postings = Postings()
    members = (each if isinstance(each, int) else BitMap.deserialize(each) for each in stored.members)
    postings.values = dict(zip(stored.values, members, strict=True))
    postings.present = BitMap.deserialize(stored.present)
    postings.long = BitMap.deserialize(stored.long)
    return postings
