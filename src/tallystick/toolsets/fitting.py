"""How much of an answer fits where an agent's context would overflow (X15)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def size_of(value: Any) -> int:
    return len(msgspec.json.encode(value))


def fitting(items: Iterable[T], bytes_max: int) -> list[T]:
    """As many from the start as fit; the first one always."""
    found: list[T] = []
    left = bytes_max
    for item in items:
        left -= size_of(item) + 1
        if found and left < 0:
            break
        found.append(item)
    return found
