"""The orphans: blobs that were kept for a commit that never came, because the writer died before it."""

from __future__ import annotations

import re
import time

from tallystick.config import Settings
from tallystick.log.segments import segment_files
from tallystick.projections.content import Contents

AGE_SECONDS_MIN = 3600.0
"""A younger one may belong to a commit that is on its way."""
_PIECE_BYTES = 4 << 20
_NAMED = re.compile(b'"blob":"([0-9a-f]{64})"')
_NAMED_BYTES = len('"blob":""') + 64


def find_orphans(settings: Settings) -> dict[str, int]:
    """Blob → its bytes. Reads the whole log where there are blobs that are old enough, and nothing of it otherwise."""
    contents = Contents(settings.home)
    before = time.time() - AGE_SECONDS_MIN
    found = {blob: seen.st_size for blob, seen in contents.blobs_before(before)}
    return found if not found else _not_named(settings, found)


def remove_orphans(settings: Settings) -> dict[str, int]:
    """Those that are gone now. One that somebody has counted on since it was looked for is left alone."""
    found = find_orphans(settings)
    removed = Contents(settings.home).remove_before(time.time() - AGE_SECONDS_MIN, found)
    return {blob: found[blob] for blob in removed}


def _not_named(settings: Settings, blobs: dict[str, int]) -> dict[str, int]:
    left = dict(blobs)
    for path in segment_files(settings.system / "log"):
        rest = b""
        with path.open("rb") as file:
            while left and (piece := file.read(_PIECE_BYTES)):
                for blob in _NAMED.findall(rest + piece):
                    left.pop(blob.decode(), None)
                rest = piece[-_NAMED_BYTES:]
    return left
