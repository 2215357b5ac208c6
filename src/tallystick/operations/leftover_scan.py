"""The leftover scan: files below a base that still hold a text, however it is spelled."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import time
from base64 import b64encode
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize
from urllib.parse import quote

import msgspec

from tallystick.audit import EVENTS
from tallystick.commits import Commit, Verb
from tallystick.commits.mask import REDACTED
from tallystick.log import Head
from tallystick.log import tree_directory as tiles_of
from tallystick.state.mentions import Subject

_CHUNK_BYTES = 4 << 20
_OVERLAP_BYTES = 8 << 10
_PATIENCE_SECONDS = 10.0
_PAUSE_SECONDS = 0.25
_BASE64_BYTES_MIN = 6
"""Shorter texts in base64 are found by chance."""
MADE_UP = re.compile("[0-9a-f]{64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""So are the names of Ada and Abe in hashes and UUIDs, such as the one that a system gives itself when it starts."""
_STRUCTS: tuple[type[msgspec.Struct], ...] = (Commit, Head, *EVENTS.values())
_FIELDS = (name for kind in _STRUCTS for name in kind.__struct_fields__)
_OUR_WORDS = frozenset(word.casefold() for word in (REDACTED, *Verb, *EVENTS, *_FIELDS))
"""What every log is full of: no Tim is named by a timestamp, and no Per by an operation."""
_OPAQUE = frozenset({"commit_hash", "digest", "codes"})
"""Columns of the mirror, the text index and the vectors."""
_ESCAPED_BLANK = re.compile(r"\\[bfnrt]")
"""As JSON writes it: its letter belongs to no word."""


class Remains(NamedTuple):
    named: list[Path]
    """Files that hold one of the texts, in them or in their name."""
    unread: list[Path]
    """Files and directories that could not be read: nobody knows what is in them."""


def remains(
    home: Path, subject: Subject, others: Iterable[Path], *, log_too: bool, without: Collection[Path] = ()
) -> Remains:
    """Below `home` but not below `without`, or among `others`. Servers and projections that are still following get
    some seconds to finish."""
    log = home / "_system" / "log"
    sought = _Sought(subject, sorted(log.glob("*.jsonl")) if log_too else ())
    unread: list[Path] = []
    deadline = time.monotonic() + _PATIENCE_SECONDS
    nothing_but_hashes = tiles_of(home) / "tile"
    below = _files(home, {*without, nothing_but_hashes}, unread)
    files = [path for path in below if log_too or path.parent != log or path.suffix != ".jsonl"]
    found = [path for path in (*files, *others) if sought.is_in(path, unread)]
    while found and time.monotonic() < deadline:
        time.sleep(_PAUSE_SECONDS)
        found = [path for path in found if sought.is_in(path, unread)]
    return Remains(sorted(found), sorted(set(unread)))


def holds(path: Path, subject: Subject) -> bool:
    """Whether a file has one of the texts in it or in its name: upper or lower case, escaped, or in base64."""
    return _Sought(subject).is_in(path, [])


class _Sought:
    def __init__(self, subject: Subject, logs: Iterable[Path] = ()) -> None:
        """`logs` name the subject no more: a longer word in them that has a text in it is another word."""
        spellings = [spelling for text in subject.texts for spelling in _spellings(text)]
        self._plain = [spelling.casefold() for spelling in spellings]
        self._words = Subject(spellings, whole_words=True) if subject.whole_words else None
        self._encoded = [spelling for text in subject.texts for spelling in _in_base64(text)]
        ours = {word for word in _OUR_WORDS if self._has_any(word) and word not in self._plain}
        self._other_words = _any_of(ours)
        if self._words is not None:
            self._other_words = _any_of(ours | self._longer_words(logs))
        self._by_chance: dict[Path, list[bytes]] = {}

    def is_in(self, path: Path, unread: list[Path]) -> bool:
        if self._is_said(self._folded(os.fsencode(path.name))):
            return True
        try:
            return any(self._is_in_piece(piece, path) for piece in _pieces(path))
        except FileNotFoundError:
            # It went away while we looked.
            return False
        except OSError:
            unread.append(path)
            return False

    def _is_in_piece(self, piece: bytes, path: Path) -> bool:
        text = self._folded(piece)
        if b"\0" not in piece:
            said = self._is_said(text)
        elif said := self._has_any(text):
            # In a database values follow each other without a gap: what looks like one word may be two.
            if path not in self._by_chance:
                self._by_chance[path] = [value for value in _opaque(path) if self._has_any(self._folded(value))]
            for value in self._by_chance[path]:
                piece = piece.replace(value, b"\0")
            text = self._folded(piece)
            for part in _table_names(path):
                text = text.replace(part, "\0")
            said = self._has_any(text)
        return said or any(spelling in piece for spelling in self._encoded)

    def _is_said(self, text: str) -> bool:
        if self._words is not None:
            return self._words.is_named_in(_ESCAPED_BLANK.sub(" ", text))
        return self._has_any(text)

    def _has_any(self, text: str) -> bool:
        return any(spelling in text for spelling in self._plain)

    def _longer_words(self, logs: Iterable[Path]) -> set[str]:
        around = re.compile(rf"\w*(?:{'|'.join(map(re.escape, self._plain))})\w*")
        pieces = (_ESCAPED_BLANK.sub(" ", self._folded(piece)) for path in logs for piece in _pieces(path))
        return {word for piece in pieces for word in around.findall(piece) if not self._is_said(word)}

    def _folded(self, piece: bytes) -> str:
        """Without hashes, UUIDs and other words, unless they are asked for."""
        text = MADE_UP.sub(
            lambda found: found[0] if any(found[0] in spelling for spelling in self._plain) else "\0",
            piece.decode("utf-8", "replace").casefold(),
        )
        return self._other_words.sub("\0", text)


def _any_of(words: Iterable[str]) -> re.Pattern[str]:
    """The longest that fits; of no words, what is nowhere."""
    return re.compile("|".join(map(re.escape, sorted(words, key=len, reverse=True))) or "(?!)")


def _table_names(path: Path) -> tuple[str, ...]:
    """How a database describes its tables, in the words in which that stands in its file: none of it is about anybody,
    though an index `head` of a table `atom` has an Ada in it. Nothing for what is no database of SQLite."""
    try:
        with _database_of(path) as db:
            rows = db.execute("SELECT type || name || tbl_name, coalesce(sql, '') FROM sqlite_master").fetchall()
    except sqlite3.Error:
        return ()
    return tuple(sorted({part.casefold() for row in rows for part in row if part}, key=len, reverse=True))


def _opaque(path: Path) -> Iterator[bytes]:
    """The hashes and codes in a database: of three letters some are in every few thousand."""
    try:
        with _database_of(path) as db:
            columns = db.execute(
                "SELECT made.name, has.name FROM sqlite_master AS made, pragma_table_info(made.name) AS has"
                " WHERE made.type = 'table'"
            ).fetchall()
            for table, column in columns:
                if column in _OPAQUE:
                    found = db.execute(f'SELECT "{column}" FROM "{table}" WHERE typeof("{column}") = \'blob\'')
                    yield from (value for (value,) in found if value)
    except sqlite3.Error:
        return


@contextmanager
def _database_of(path: Path) -> Iterator[sqlite3.Connection]:
    """To which a file belongs."""
    name = re.sub(r"-(?:wal|journal)$", "", path.name)
    with closing(sqlite3.connect(f"file:{quote(str(path.with_name(name)))}?mode=ro", uri=True)) as db:
        yield db


def _spellings(text: str) -> set[str]:
    return {spelling for form in _forms(text) for spelling in _escaped(form)}


def _escaped(text: str) -> tuple[str, ...]:
    return text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], quote(text, safe="")


def _forms(text: str) -> set[str]:
    """Return the text with composed and with decomposed letters."""
    return {text, *(normalize(form, text) for form in ("NFC", "NFD", "NFKC", "NFKD"))}


def _in_base64(text: str) -> Iterator[bytes]:
    for data in {each.encode() for form in _forms(text) for each in (form, form.lower(), form.upper(), form.title())}:
        if len(data) < _BASE64_BYTES_MIN:
            continue
        for before in range(3):
            # Only the characters that owe nothing to what stands before and after.
            encoded = b64encode(b"\0" * before + data).rstrip(b"=")
            partial = 1 if (before + len(data)) % 3 else 0
            yield encoded[(0, 2, 3)[before] : len(encoded) - partial]


def _files(home: Path, without: Collection[Path], unread: list[Path]) -> Iterator[Path]:
    """Links are followed: contents and databases may lie on another disk."""
    seen: set[tuple[int, int]] = set()
    for place, names, files in os.walk(home, onerror=lambda error: _note(error, unread), followlinks=True):
        here = os.stat(place)
        if (here.st_dev, here.st_ino) in seen:
            names.clear()
            continue
        seen.add((here.st_dev, here.st_ino))
        names[:] = [name for name in names if Path(place, name) not in without]
        for path in (Path(place, name) for name in files):
            try:
                if path.is_file():
                    yield path
            except OSError as error:
                _note(error, unread)


def _note(error: OSError, unread: list[Path]) -> None:
    if not isinstance(error, FileNotFoundError):
        unread.append(Path(error.filename))


def _pieces(path: Path) -> Iterator[bytes]:
    rest = b""
    with path.open("rb") as file:
        while piece := file.read(_CHUNK_BYTES):
            yield rest + piece
            rest = piece[-_OVERLAP_BYTES:]
