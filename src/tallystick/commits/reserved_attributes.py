"""The attributes that say whether a fact still holds, by name: in every vocabulary they mean this and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STALE_AFTER = "stale_after"
VERIFIED = "verified"
SUPERSEDES = "supersedes"
CITES = "cites"
NAMES = frozenset({STALE_AFTER, VERIFIED, SUPERSEDES, CITES})


def cited_paths(attrs: Mapping[str, Any]) -> list[str]:
    """All of them, pinned or not; whatever else stands there is none."""
    found = attrs.get(CITES)
    paths = [each.get("path") if isinstance(each, dict) else each for each in found] if isinstance(found, list) else []
    return [each for each in paths if isinstance(each, str)]


def said(attrs: dict[str, Any]) -> dict[str, Any]:
    """The fact itself, with the files it cites: what is looked for by words, and shown of it. Otherwise a fact would
    rank lower for having a date or a predecessor."""
    if NAMES.isdisjoint(attrs):
        return attrs
    kept = {name: value for name, value in attrs.items() if name not in NAMES}
    return kept | {CITES: cited_paths(attrs)}
