"""The proof of the blobs: what commits name lies beside the log, byte for byte.

Reads only. Servers may go on writing and redacting: a blob is durable before a commit names
it, and one that is missing is looked for in the log again before anything is said.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from tallystick.clock import from_text
from tallystick.commits import REDACTIONS, Commit, Verb, chain
from tallystick.commits.payloads import read_edge, read_extent
from tallystick.errors import NotFound, TallystickError
from tallystick.log.unopened import unopened
from tallystick.projections.content import Contents, is_blob

AGE_SECONDS_MIN = 3600.0
"""A younger blob may belong to a commit that is on its way, a younger redaction to views that follow."""
_TELLING = (b'"blob":"', *(f'"{verb.value}"'.encode() for verb in REDACTIONS))
"""A line without any of these says nothing about blobs, and need not be decoded."""


class BlobProblem(msgspec.Struct, frozen=True):
    file: str
    problem: str
    advice: str
    entity: str | None = None
    """Whose content it is, by the first commit that names it."""
    lamport: int | None = None


class BlobProof(msgspec.Struct, frozen=True):
    blobs: int
    bytes: int
    problems: list[BlobProblem]

    @property
    def sound(self) -> bool:
        return not self.problems


class _Named(msgspec.Struct):
    """What the log says about blobs."""

    by: dict[str, tuple[str, int]] = {}
    """Blob → the entity and the lamport of the first commit that names it."""
    redacted_at: float = 0.0
    """Seconds: when something was last redacted whole."""


def prove_blobs(home: Path, progress: Callable[[int], None] = lambda done: None) -> BlobProof:
    """Of a log that is sound. Memory grows with the number of blobs, not with their size."""
    contents = Contents(home)
    named = _read(home)
    problems, done = [], 0
    for blob, (entity, lamport) in named.by.items():
        problem = _problem_of(contents, blob)
        found = contents.files.find(("_content", "blobs", blob))
        done += found.st_size if found else 0
        progress(done)
        if problem is not None:
            problems.append(BlobProblem(f"_content/blobs/{blob}", problem, _RESTORE, entity, lamport))
    if problems:
        # A redaction may have been carried out while we looked.
        named = _read(home)
        problems = [each for each in problems if each.file.rpartition("/")[2] in named.by]
    return BlobProof(len(named.by), done, [*problems, *_leftovers(contents, named)])


_RESTORE = "restore this file from a backup of _content/blobs, or write the same content again: that replaces it"
_REMOVE = "'tallystick doctor --repair' removes it"


def _problem_of(contents: Contents, blob: str) -> str | None:
    try:
        digest = contents.files.digest(("_content", "blobs", blob))
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"
    except NotFound:
        return "it is missing"
    except TallystickError as error:
        return f"it cannot be read: {error.message}"
    return None if digest == blob else "it is damaged: its bytes do not have the SHA-256 that is its name"


def _leftovers(contents: Contents, named: _Named) -> Iterator[BlobProblem]:
    """A redaction takes the name out of the log, so what it should have removed is a blob that nothing names."""
    before = min(time.time() - AGE_SECONDS_MIN, named.redacted_at)
    for blob, _ in contents.blobs_before(before):
        if blob not in named.by:
            problem = "no commit names it, and something was redacted since it was written: that may be still in it"
            yield BlobProblem(f"_content/blobs/{blob}", problem, _REMOVE)


def _read(home: Path) -> _Named:
    named = _Named()
    with unopened(home / "_system") as log:
        for _, line, _ in log.segments.lines(0, log.end):
            if any(mark in line for mark in _TELLING):
                _note(named, chain.decode(line))
    return named


def _note(named: _Named, commit: Commit) -> None:
    if commit.operation in REDACTIONS and read_extent(commit.payload).takes_content:
        named.redacted_at = from_text(commit.timestamp) / 1000
    if (blob := blob_of(commit)) is not None:
        is_node = commit.operation is Verb.UPSERT_NODE
        entity = commit.document()["id"] if is_node else read_edge(commit.payload).name
        named.by.setdefault(blob, (entity, commit.lamport))


def blob_of(commit: Commit) -> str | None:
    """The blob that the commit names as a content. Attributes may be called the same."""
    content = commit.document().get("content")
    blob = content.get("blob") if isinstance(content, dict) else None
    return blob if isinstance(blob, str) and is_blob(blob) else None
