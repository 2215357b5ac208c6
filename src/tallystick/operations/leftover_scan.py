"""The leftover scan: files below a base that still hold a text, however it is spelled."""

from __future__ import annotations

import json
import re
import time
from base64 import b64encode
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

_CHUNK_BYTES = 4 << 20
_OVERLAP_BYTES = 8 << 10
_PATIENCE_SECONDS = 10.0
_PAUSE_SECONDS = 0.25
_BASE64_BYTES_MIN = 6
"""Shorter texts in base64 are found by chance."""
_HASH = re.compile("[0-9a-f]{64}")
"""So are the names of Ada and Abe in hashes."""


def remains(home: Path, texts: Iterable[str], others: Iterable[Path], *, log_too: bool) -> list[Path]:
    """Below `home`, or among `others`. Servers and projections that are still following get some seconds to finish."""
    sought = list(texts)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    found = [path for path in (*_files(home, log_too=log_too), *others) if holds(path, sought)]
    while found and time.monotonic() < deadline:
        time.sleep(_PAUSE_SECONDS)
        found = [path for path in found if holds(path, sought)]
    return sorted(found)


def holds(path: Path, texts: Iterable[str]) -> bool:
    """Whether a file has one of the texts in it or in its name: upper or lower case, escaped, or in base64."""
    plain = [spelling.casefold() for text in texts for spelling in _spellings(text)]
    encoded = [spelling for text in texts for spelling in _in_base64(text)]
    if any(spelling in path.name.casefold() for spelling in plain):
        return True
    try:
        return any(_is_in(piece, plain, encoded) for piece in _pieces(path))
    except OSError:
        # It went away while we looked, or is nothing that can be read.
        return False


def _is_in(piece: bytes, plain: list[str], encoded: list[bytes]) -> bool:
    folded = _HASH.sub("", piece.decode("utf-8", "ignore").casefold())
    return any(spelling in folded for spelling in plain) or any(spelling in piece for spelling in encoded)


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


def _files(home: Path, *, log_too: bool) -> Iterator[Path]:
    """Of this tenant alone."""
    others = home / "tenants"
    log = home / "_system" / "log"
    for path in home.rglob("*"):
        if path.is_symlink() or not path.is_file() or others in path.parents:
            continue
        if log_too or path.parent != log or path.suffix != ".jsonl":
            yield path


def _pieces(path: Path) -> Iterator[bytes]:
    rest = b""
    with path.open("rb") as file:
        while piece := file.read(_CHUNK_BYTES):
            yield rest + piece
            rest = piece[-_OVERLAP_BYTES:]
