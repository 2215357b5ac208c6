"""What is made for a key when it is first asked for, and kept for the keys that were asked for last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MOST = 16


class LastUsed(Generic[K, V]):
    def __init__(self, make: Callable[[K], V], most: int = MOST) -> None:
        self._make = make
        self._most = most
        self._kept: OrderedDict[K, V] = OrderedDict()

    def of(self, key: K) -> V:
        found = self._kept.pop(key) if key in self._kept else self._make(key)
        self._kept[key] = found
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return found
