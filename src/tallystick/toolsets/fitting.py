"""How much of an answer fits where an agent's context would overflow (X15)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from tallystick.policy import Principal

T = TypeVar("T")


def room_for(principal: Principal, bytes_max: int) -> int:
    return sys.maxsize if principal.is_program else bytes_max


def size_of(value: Any) -> int:
    return len(msgspec.json.encode(value))


def fitting(items: Iterable[T], bytes_max: int) -> list[T]:
    """As many from the start as fit; the first one always."""
    return list(while_fitting(items, bytes_max))


def while_fitting(items: Iterable[T], bytes_max: int) -> Iterator[T]:
    left = bytes_max
    for number, item in enumerate(items):
        left -= size_of(item) + 1
        if number and left < 0:
            return
        yield item
