"""The text index beside what the log gives: its rows, its words and the files of the texts."""

from __future__ import annotations

import os
import stat
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from pyroaring import BitMap

from tallystick.projections.consistency_check.replay import (
    Finding,
    Subject,
    copy_database,
    damage,
    differing,
    guarded,
    held,
    lock_of,
    opened,
    replayed,
    standing,
    structure,
)
from tallystick.projections.content import Contents
from tallystick.projections.database import Connection, Damaged
from tallystick.projections.registry import all_copies
from tallystick.projections.row_diff import shown
from tallystick.projections.text.postings import (
    TermLevels,
    all_terms,
    decode_levels,
    decode_slots,
    level_in,
    term_in,
    with_content,
)
from tallystick.projections.text.projection import DATABASE, TextProjection, ranked_words
from tallystick.projections.text.substring_index import LATE, ORDERED, TRAILER_BYTES, path_of, trailer

_CHUNK_BYTES = 1 << 20
_READABLE = "NOT EXISTS (SELECT 1 FROM expected.entities AS e WHERE e.id = o.id AND e.is_edge = o.is_edge AND unread)"
"""Without those whose content cannot be read now: whoever proves the blobs names it."""
_ENTITIES = f"""SELECT id, is_edge, name AS type, log_offset, digest, bytes, crc, unread FROM {{0}}.entities AS o
LEFT JOIN {{0}}.types ON number = type WHERE {_READABLE}"""
_WORDS = f"""SELECT id, is_edge, words_in('{{0}}', words) AS words FROM {{0}}.entities AS o WHERE {_READABLE}"""


def findings(one: Subject) -> Iterator[Finding]:
    unsound: list[Finding] = []

    def copied() -> None:
        # The texts move and are wiped with the rows that say where they are.
        with held(lock_of(one.home, "text")):
            copy_database(one)
            with opened(one) as db:
                unsound.extend(_folded(one, db))
                if not unsound:
                    unsound.extend(guarded("text", one, _postings(one, db)))

    for what in damage(one, copied):
        yield Finding("text", one.where, "", what)
        return
    yield from unsound
    with opened(one) as db:
        yield from structure("text", one, db)
    yield from replayed("text", one, all_copies()["text"].position, lambda: _text_of(one))
    if one.position and not one.not_compared:
        with opened(one, one.elsewhere / "_system" / "text" / DATABASE) as db:
            yield from differing("text", one, "entities", db, _ENTITIES.format, ["id", "is_edge"])
            yield from guarded("text", one, _differing_words(one, db))
    yield from standing("text", one, lambda: _text_of(one))


def _text_of(one: Subject) -> TextProjection:
    return TextProjection(one.elsewhere, one.log.line, contents=Contents(one.home))


def _differing_words(one: Subject, db: Connection) -> Iterator[Finding]:
    terms = {schema: dict(all_terms(db, schema)) for schema in ("main", "expected")}

    def words_in(schema: str, data: bytes) -> str:
        named = terms[schema]
        levels = [sorted(named.get(term, b"?") for term in level) for level in decode_levels(data)]
        return "\n".join(b" ".join(words).decode("utf-8", "replace") for words in levels)

    db.create_function("words_in", 2, words_in, deterministic=True)
    yield from differing("text", one, "entities", db, _WORDS.format, ["id", "is_edge"])


def _postings(one: Subject, db: Connection) -> Iterator[Finding]:
    """Whether they say the words that stand with the entities and in the contents."""
    expected: dict[tuple[int, int], BitMap] = defaultdict(BitMap)
    found: dict[tuple[int, int], BitMap] = defaultdict(BitMap)
    try:
        for slot, levels in _merged_words(one, db):
            for level, terms in enumerate(levels):
                for term in terms:
                    expected[term, level].add(slot)
        for key, slots in db.execute("SELECT key, slots FROM postings"):
            found[term_in(key), level_in(key)] |= decode_slots(slots)
    except (ValueError, TypeError) as error:
        raise Damaged(f"its words cannot be read: {error}") from error
    if found != expected:
        yield Finding("text", f"{one.where}, table postings", "", "its words are not those of its entities")


def _merged_words(one: Subject, db: Connection) -> Iterator[tuple[int, TermLevels]]:
    generation, _, _ = _place(db)
    numbers = {word: term for term, word in all_terms(db, "main")}
    (merged,) = db.execute("SELECT merged FROM place").fetchone()
    rows = db.execute("SELECT slot, words, file, start, bytes FROM entities WHERE slot < ?", (merged,))
    with ExitStack() as files:
        texts = {
            file: files.enter_context(_opened_texts(path))
            for file in (ORDERED, LATE)
            if (path := path_of(one.path.parent, generation, file)).exists()
        }
        for slot, words, file, start, size in rows:
            levels = decode_levels(words)
            if file is not None:
                counts = Counter(ranked_words(os.pread(texts[file].fileno(), size, start)))
                # A word that has no number has no postings either.
                levels = with_content(levels, {numbers.get(word.encode(), 0): count for word, count in counts.items()})
            yield slot, levels


def _folded(one: Subject, db: Connection) -> Iterator[Finding]:
    generation, ends, newest = _place(db)
    for file in (ORDERED, LATE):
        path = path_of(one.path.parent, generation, file)
        where = str(path.relative_to(one.home))
        rows = db.execute("SELECT slot, id, type, start, bytes, crc FROM entities WHERE file = ?", (file,)).fetchall()
        if not rows:
            continue
        try:
            with _opened_texts(path) as texts:
                for slot, node, kind, start, size, crc in rows:
                    if start + size + TRAILER_BYTES > ends[file] or (file == ORDERED and slot > newest):
                        yield Finding("text", f"{one.where}, table place", shown(node), "lies behind the last text")
                    elif not _is_whole(texts.fileno(), start, size, crc, trailer(slot, kind)):
                        yield Finding("text", where, shown(node), "its text is not what was written")
        except FileNotFoundError:
            yield Finding("text", where, "", "is missing")
        except Damaged as error:
            yield Finding("text", where, "", f"cannot be read: {error}")


def _opened_texts(path: Path) -> BinaryIO:
    # A pipe in its place would keep us waiting.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise Damaged("it is no file")
    return os.fdopen(fd, "rb")


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
