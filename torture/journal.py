"""The journal: what a writer was told, noted where the fault does not reach.

One write to a file opened for appending, made after the answer and before anything else: a
killed writer has noted all that it was told, but perhaps the last thing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

Kind = Literal[
    "batch", "count", "node", "gone", "secret", "redacted", "trying", "refused", "broken", "began", "calls", "answers",
    "claimed",
]  # fmt: skip
TOLD: tuple[Kind, ...] = ("batch", "count", "node", "gone", "secret", "redacted")
"""Kinds that say: this was acknowledged."""


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    at: int
    """Nanoseconds of the machine's own clock: to tell what came before a power cut."""
    kind: Kind
    id: str = ""
    tenant: str = "default"
    number: int = 0
    """batch: how many nodes; count: the value."""
    text: str = ""
    """node, trying: the SHA-256 of its content; secret, redacted: what was kept; refused, broken: the code; claimed: by
    whom; calls, answers: see `sharing`."""


class Journal:
    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def note(self, kind: Kind, id: str = "", *, tenant: str = "default", number: int = 0, text: str = "") -> None:
        note = Note(time.monotonic_ns(), kind, id, tenant, number, text)
        os.write(self._fd, msgspec.json.encode(note) + b"\n")


def read(path: Path, *, before: int | None = None) -> list[Note]:
    """`before` leaves out what was noted later, in nanoseconds."""
    return [note for note in _notes(path) if before is None or note.at < before]


def told(path: Path) -> int:
    """How many writes were acknowledged."""
    return sum(note.kind in TOLD for note in _notes(path))


def _notes(path: Path) -> Iterator[Note]:
    if not path.exists():
        return
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield msgspec.json.decode(line, type=Note)
