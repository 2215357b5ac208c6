"""The shapes of types: the same in lists and drawings, so that types are told apart by more than colour."""

from __future__ import annotations

from zlib import crc32

SHAPES = ("circle", "square", "diamond", "triangle", "hexagon", "page")
"""Which the script that draws knows too."""
_KNOWN_SHAPES = {"work/node": "circle", "knowledge/atom": "hexagon", "decision": "diamond", "incident": "triangle"}


def shape_of(kind: str | None) -> str:
    """The same for a type everywhere and always; several types may share one."""
    if kind is None:
        return SHAPES[0]
    found = _KNOWN_SHAPES.get(kind.lower())
    return found or SHAPES[crc32(kind.encode("utf-8", "replace")) % len(SHAPES)]
