"""The text index beside what the log gives: its rows, its words and the files of the texts."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator

from tallystick.projections.consistency_check.replay import (
    Finding,
    Subject,
    copy_database,
    damage,
    differing,
    held,
    lock_of,
    opened,
    replayed,
    standing,
    structure,
)
from tallystick.projections.content import Contents
from tallystick.projections.database import Connection, Damaged
from tallystick.projections.registry import COPIES
from tallystick.projections.row_diff import doubted, shown
from tallystick.projections.text.projection import DATABASE, TextProjection
from tallystick.projections.text.substring_index import LATE, ORDERED, TRAILER_BYTES, path_of, trailer

_CHUNK_BYTES = 1 << 20
_TEXTS = """SELECT texts.number AS number, node, name AS type, digest, bytes, crc, unread FROM {0}.texts
LEFT JOIN {0}.types ON types.number = texts.type
WHERE texts.number NOT IN (SELECT number FROM expected.texts WHERE unread IS NOT NULL)"""
"""Without those whose content cannot be read now: whoever proves the blobs names it."""
_RANKED = """SELECT id AS number, c0 AS text FROM {0}.ranked_content
WHERE id NOT IN (SELECT number FROM expected.texts WHERE unread IS NOT NULL)"""


def findings(one: Subject) -> Iterator[Finding]:
    unsound: list[Finding] = []

    def copied() -> None:
        # The texts move and are wiped with the rows that say where they are.
        with held(lock_of(one.home, "text")):
            copy_database(one)
            with opened(one) as db:
                unsound.extend(_folded(one, db))

    for what in damage(one, copied):
        yield Finding("text", one.where, "", what)
        return
    yield from unsound
    with opened(one) as db:
        yield from structure("text", one, db)
        yield from _words(one, db)
    yield from replayed("text", one, COPIES["text"].position, lambda: _text_of(one))
    if one.position and not one.not_compared:
        with opened(one, one.elsewhere / "_system" / "text" / DATABASE) as db:
            yield from differing("text", one, "texts", db, _TEXTS.format, ["node"])
            yield from differing("text", one, "ranked", db, _RANKED.format, ["number"])
    yield from standing("text", one, lambda: _text_of(one))


def _text_of(one: Subject) -> TextProjection:
    return TextProjection(one.elsewhere, contents=Contents(one.home))


def _words(one: Subject, db: Connection) -> Iterator[Finding]:
    try:
        with doubted():
            db.execute("INSERT INTO ranked (ranked) VALUES ('integrity-check')")
    except Damaged as error:
        where = f"{one.where}, table ranked"
        yield Finding("text", where, "", f"its words are not those of its texts: {error.message}")


def _folded(one: Subject, db: Connection) -> Iterator[Finding]:
    generation, ends, newest = _place(db)
    for file in (ORDERED, LATE):
        path = path_of(one.path.parent, generation, file)
        where = str(path.relative_to(one.home))
        rows = db.execute("SELECT number, node, type, start, bytes, crc FROM texts WHERE file = ?", (file,)).fetchall()
        if not rows:
            continue
        try:
            with path.open("rb") as texts:
                for number, node, kind, start, size, crc in rows:
                    if start + size + TRAILER_BYTES > ends[file] or (file == ORDERED and number > newest):
                        yield Finding("text", f"{one.where}, table place", shown(node), "lies behind the last text")
                    elif not _is_whole(texts.fileno(), start, size, crc, trailer(number, kind)):
                        yield Finding("text", where, shown(node), "its text is not what was written")
        except FileNotFoundError:
            yield Finding("text", where, "", "is missing")


def _place(db: Connection) -> tuple[int, tuple[int, int], int]:
    row = db.execute("SELECT generation, ordered_end, late_end, newest FROM place").fetchone()
    if row is None or not all(isinstance(value, int) for value in row):
        raise Damaged("it does not say where it is")
    return row[0], (row[1], row[2]), row[3]


def _is_whole(fd: int, start: int, size: int, crc: int, ending: bytes) -> bool:
    found = 0
    for offset in range(0, size, _CHUNK_BYTES):
        found = zlib.crc32(os.pread(fd, min(_CHUNK_BYTES, size - offset), start + offset), found)
    return found == crc and os.pread(fd, TRAILER_BYTES, start + size) == ending
