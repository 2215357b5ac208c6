"""The leftover scan: files below a base that still hold a text, however it is spelled."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import time
from base64 import b64encode
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from tallystick.state.mentions import Subject

_CHUNK_BYTES = 4 << 20
_OVERLAP_BYTES = 8 << 10
_PATIENCE_SECONDS = 10.0
_PAUSE_SECONDS = 0.25
_BASE64_BYTES_MIN = 6
"""Shorter texts in base64 are found by chance."""
_BY_CHANCE = re.compile("[0-9a-f]{64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""So are the names of Ada and Abe in hashes and UUIDs, such as the one that a system gives itself when it starts."""
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
    files = [path for path in _files(home, without, unread) if log_too or path.parent != log or path.suffix != ".jsonl"]
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
        self._other_words: re.Pattern[str] | None = None
        if self._words is not None and (longer := self._longer_words(logs)):
            self._other_words = re.compile("|".join(map(re.escape, sorted(longer, key=len, reverse=True))))

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
        if b"\0" in piece:
            # In a database values follow each other without a gap: what looks like one word may be two.
            rest = text if self._other_words is None else self._other_words.sub("", text)
            said = any(spelling in rest for spelling in self._plain)
            if said:
                for part in _table_names(path):
                    rest = rest.replace(part, "")
                said = any(spelling in rest for spelling in self._plain)
        else:
            said = self._is_said(text)
        return said or any(spelling in piece for spelling in self._encoded)

    def _is_said(self, text: str) -> bool:
        if self._words is not None:
            return self._words.is_named_in(_ESCAPED_BLANK.sub(" ", text))
        return any(spelling in text for spelling in self._plain)

    def _longer_words(self, logs: Iterable[Path]) -> set[str]:
        around = re.compile(rf"\w*(?:{'|'.join(map(re.escape, self._plain))})\w*")
        pieces = (_ESCAPED_BLANK.sub(" ", self._folded(piece)) for path in logs for piece in _pieces(path))
        return {word for piece in pieces for word in around.findall(piece) if not self._is_said(word)}

    def _folded(self, piece: bytes) -> str:
        """Of hashes and UUIDs only those that are asked for."""
        return _BY_CHANCE.sub(
            lambda found: found[0] if any(found[0] in spelling for spelling in self._plain) else "",
            piece.decode("utf-8", "ignore").casefold(),
        )


def _table_names(path: Path) -> tuple[str, ...]:
    """How a database describes its tables, in the words in which that stands in its file: none of it is about anybody,
    though an index `head` of a table `atom` has an Ada in it. Nothing for what is no database of SQLite."""
    name = re.sub(r"-(?:wal|journal)$", "", path.name)
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.with_name(name)))}?mode=ro", uri=True)) as db:
            rows = db.execute("SELECT type || name || tbl_name, coalesce(sql, '') FROM sqlite_master").fetchall()
    except sqlite3.Error:
        return ()
    return tuple(sorted({part.casefold() for row in rows for part in row if part}, key=len, reverse=True))


def _spellings(text: str) -> set[str]:
    return {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], quote(text, safe="")}


def _in_base64(text: str) -> Iterator[bytes]:
    for data in {spelling.encode() for spelling in (text, text.lower(), text.upper(), text.title())}:
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
