"""The files that facts cite: pinned by their git blobs when they are cited, and compared when a fact is shown.

Git is asked in a thread, for a few seconds at most, and only about files whose status on disk is another than when it
was asked last: a read of facts whose files rest costs a `stat` of each.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from tallystick.clock import to_text, wall_clock
from tallystick.state.staleness import Citation, Citations, PinnedFiles, Pins, Watched
from tallystick.toolsets.knowledge.freshness import Blobs, Pin, Repository

FILE_BYTES_MAX = 16 << 20
"""Larger ones are not pinned: one that was pinned and is larger now has changed."""
ASKED_FILES = 100
ASKED_BYTES_MAX = 48 << 20
SECONDS_MAX = 3.0
COMPARED_SECONDS = 1.0
"""For how long a reader waits for the files of pinned knowledge to be compared."""
QUIET_SECONDS = 10.0
"""For how long git is not asked again where it did not know, or of another repository."""

_UNSURE_NANOSECONDS = 2_000_000_000
"""A file may be written twice within the same tick of the file system's clock."""
_REMEMBERED = 50_000

Origin = tuple[str | None, str | None]
Stamp = tuple[int, ...] | None
"""None where there is nothing."""


class _Known(msgspec.Struct, frozen=True):
    stamp: Stamp
    blob: str | None
    is_sure: bool


class CitedFiles:
    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._known: dict[tuple[Path, str], _Known] = {}
        self._ours: dict[tuple[Path, Origin], float] = {}
        """Until when it is not asked again: of another repository's it may be fetched one day."""
        self._quiet_until = 0.0
        """Git did not know: until then nothing is said of files."""

    def relative(self, path: str) -> str:
        return self._repository.relative(path)

    # -- pinning

    async def pin(self, wanted: Mapping[str, Citation | None]) -> Pins:
        root = self._root()
        return {} if root is None else await asyncio.to_thread(self._pin, root, wanted)

    def _pin(self, root: Path, wanted: Mapping[str, Citation | None]) -> Pins:
        at = to_text(wall_clock())
        origins = {_origin(each): each for each in wanted.values() if each is not None}
        pins: Pins = {}
        for blobs in self._ask(root, list(wanted), origins):
            for path, blob in blobs.files.items():
                had = wanted[path]
                if had is None or _origin(had) in blobs.ours:
                    made = None if blob is None else Citation(path, blob, at, blobs.commit, blobs.work_tree)
                    pins[path] = made
        return pins

    # -- comparing

    def changed(self, watched: Watched) -> tuple[str, ...] | None:
        root = self._root()
        if root is None:
            return ()
        if isinstance(watched, PinnedFiles):
            # Patterns may match a new file, which only git can find.
            return self._unknown()
        found: list[str] = []
        for each in watched:
            until = self._ours.get((root, _origin(each)), 0.0)
            if until != math.inf:
                if time.monotonic() < until:
                    continue
                return self._unknown()
            known = self._known.get((root, each.path))
            if known is None or not known.is_sure or known.stamp != _stamp(root / each.path):
                return self._unknown()
            if known.blob != each.hash:
                found.append(each.path)
        return tuple(found)

    def _unknown(self) -> tuple[str, ...] | None:
        return () if time.monotonic() < self._quiet_until else None

    async def look_up(self, wanted: Sequence[Watched]) -> Mapping[Watched, tuple[str, ...]]:
        pinned = [each for each in wanted if isinstance(each, PinnedFiles)]
        cited = [each for each in wanted if not isinstance(each, PinnedFiles)]
        found: dict[Watched, tuple[str, ...]] = {}
        if cited:
            found |= await asyncio.to_thread(self._look_up, cited)
        if pinned:
            comparing = asyncio.to_thread(self._compare, pinned)
            # What git could not compare in time counts as unchanged.
            with suppress(TimeoutError):
                found |= await asyncio.wait_for(comparing, COMPARED_SECONDS)
        return dict.fromkeys(wanted, ()) | found

    def _compare(self, pinned: Sequence[PinnedFiles]) -> dict[Watched, tuple[str, ...]]:
        """Of one whose files changed and are not known one by one, its patterns."""
        if self._root() is None:
            return dict.fromkeys(pinned, ())
        pins = {each: (each.patterns, _pin_of(each)) for each in pinned}
        compared = self._repository.compare(pins)
        return {
            each: () if each not in compared or compared[each].fresh else compared[each].changed or each.patterns
            for each in pinned
        }

    def _look_up(self, wanted: Sequence[Citations]) -> dict[Watched, tuple[str, ...]]:
        root = self._root()
        if root is None:
            return dict.fromkeys(wanted, ())
        every = [each for citations in wanted for each in citations]
        origins = {_origin(each): each for each in every}
        now: dict[str, str | None] = {}
        ours: set[Origin] = set()
        for blobs in self._ask(root, list(dict.fromkeys(each.path for each in every)), origins):
            now |= blobs.files
            ours |= blobs.ours
        later = time.monotonic() + QUIET_SECONDS
        self._ours.update(((root, origin), math.inf if origin in ours else later) for origin in origins)
        return {
            citations: tuple(
                each.path for each in citations if _origin(each) in ours and now.get(each.path, each.hash) != each.hash
            )
            for citations in wanted
        }

    async def missing(self, paths: Iterable[str]) -> set[str]:
        """Those of these files that are not there, as far as git knows."""
        pins = await self.pin(dict.fromkeys(paths))
        root = self._root()
        gone = [path for path, pin in pins.items() if pin is None]
        # What git ignores, or is too large, is there all the same.
        return set() if root is None else {path for path in gone if _stamp(root / path) is None}

    def _ask(self, root: Path, paths: Sequence[str], origins: Mapping[Origin, Citation]) -> Iterable[Blobs]:
        """A few files at a time, for as long as there is time. What is too large is like what is not there."""
        deadline = time.monotonic() + SECONDS_MAX
        for several in _in_parts(root, paths):
            small = {path: stamp for path, stamp in several.items() if _size(stamp) <= FILE_BYTES_MAX}
            looked = time.time_ns()
            if time.monotonic() > deadline:
                return
            blobs = self._repository.blobs(list(small), origins)
            if blobs is None:
                self._quiet_until = time.monotonic() + QUIET_SECONDS
                return
            if len(self._known) > _REMEMBERED:
                self._known.clear()
            for path, stamp in several.items():
                is_sure = stamp is None or looked - stamp[0] > _UNSURE_NANOSECONDS
                self._known[root, path] = _Known(stamp, blobs.files.get(path), is_sure)
            yield msgspec.structs.replace(blobs, files={path: blobs.files.get(path) for path in several})

    def _root(self) -> Path | None:
        try:
            return None if self._repository.is_missing else self._repository.root
        except OSError:
            return None


def _pin_of(pinned: PinnedFiles) -> Pin:
    return Pin(pinned.hash, pinned.at, pinned.commit, pinned.files, pinned.work_tree)


def _origin(citation: Citation) -> Origin:
    return citation.commit, citation.work_tree


def _in_parts(root: Path, paths: Sequence[str]) -> Iterable[dict[str, Stamp]]:
    part: dict[str, Stamp] = {}
    size = 0
    for path in paths:
        stamp = _stamp(root / path)
        part[path] = stamp
        size += min(_size(stamp), FILE_BYTES_MAX)
        if len(part) == ASKED_FILES or size > ASKED_BYTES_MAX - FILE_BYTES_MAX:
            yield part
            part, size = {}, 0
    if part:
        yield part


def _stamp(path: Path) -> Stamp:
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode


def _size(stamp: Stamp) -> int:
    return 0 if stamp is None else stamp[1]
