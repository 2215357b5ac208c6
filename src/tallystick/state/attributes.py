"""The attributes of living nodes, from value to node.

Nested objects are flattened to dotted keys; a list is indexed under its own key by each
scalar in it, so that equality means "is or contains". What a redaction left behind is no
value at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyroaring import BitMap

from tallystick.commits.mask import REDACTED
from tallystick.state import Breathing
from tallystick.state.sorted_values import Order

TEXT_MAX = 128
"""Longer texts are not kept as values: whoever asks for them reads the document."""

Scalar = str | int | float | None | tuple[bool]
"""A value as the index knows it. Booleans are wrapped: for Python True is 1, for JSON it is not."""
Flat = dict[str, list[Scalar]]
"""Key → its scalars; an empty list where there is only an object, or a list without scalars."""


def scalar(value: Any) -> Scalar:
    return (value,) if value is True or value is False else value


def flatten(attrs: dict[str, Any], dotted: set[str] | None = None) -> Flat:
    """`dotted` receives the keys that owe a dot to a name: {"a.b": 1} is found by the same key as {"a": {"b": 1}}."""
    found: Flat = {}
    named: list[str] = []
    _flatten(attrs, "", found, named)
    if dotted is not None:
        for prefix in named:
            dotted.update(key for key in found if _is_below(key, prefix))
    return found


def _flatten(members: dict[str, Any], prefix: str, found: Flat, named: list[str]) -> None:
    for name, value in members.items():
        key = prefix + name
        if "." in name:
            named.append(key)
        kind = type(value)
        if kind is str:
            if value == REDACTED:
                continue
        elif kind is dict:
            found.setdefault(key, [])
            _flatten(value, key + ".", found, named)
            continue
        elif kind is list:
            scalars = [scalar(each) for each in value if type(each) not in _CONTAINERS and each != REDACTED]
            found.setdefault(key, []).extend(scalars)
            continue
        elif kind is bool:
            value = (value,)
        if key in found:
            found[key].append(value)
        else:
            found[key] = [value]


_CONTAINERS = (dict, list)
_ORDERED = object()


class Postings:
    """One key: who has it, and who has it with which value."""

    __slots__ = ("long", "order", "ordering", "present", "values")

    def __init__(self) -> None:
        self.values: dict[Scalar, int | BitMap] = {}
        """A bare handle until the second: most values belong to one node."""
        self.present = BitMap()
        self.long = BitMap()
        """Who has a text that is too long to be among the values."""
        self.order: Order | None = None
        self.ordering: Breathing[None] | None = None
        """The rest of the building of `order`, for each read that needs it to go on with."""

    def members(self, value: Scalar) -> BitMap:
        """Not a copy."""
        found = self.values.get(value)
        if found is None:
            return BitMap()
        return BitMap((found,)) if isinstance(found, int) else found

    def add(self, handle: int, values: list[Scalar]) -> None:
        self.present.add(handle)
        for value in values:
            if type(value) is str and len(value) > TEXT_MAX:
                self.long.add(handle)
                continue
            found = self.values.get(value)
            if found is None:
                self.values[value] = handle
                if self.order is not None:
                    self.order.add(value)
            elif type(found) is not int:
                found.add(handle)  # type: ignore[union-attr]  # `type is` does not narrow, and isinstance is slow here
            elif found != handle:
                self.values[value] = BitMap((found, handle))

    def take_values(self, handle: int, values: list[Scalar]) -> None:
        """Values that the node has not are no fault."""
        self.long.discard(handle)
        for value in values:
            found = self.values.get(value)
            if type(found) is BitMap:
                found.discard(handle)
                if len(found) == 1:
                    self.values[value] = found.min()
            elif found == handle:
                del self.values[value]
                if self.order is not None:
                    self.order.discard(value)

    def remove(self, handle: int, values: list[Scalar]) -> None:
        self.present.discard(handle)
        self.take_values(handle, values)

    def sweep(self, handle: int) -> None:
        """Remove a handle without knowing its values, at the cost of a look at each."""
        self.remove(handle, [value for value, found in self.values.items() if _holds(found, handle)])


def _holds(found: int | BitMap, handle: int) -> bool:
    return found == handle if isinstance(found, int) else handle in found


class Attributes:
    def __init__(self) -> None:
        self.keys: dict[str, Postings] = {}
        self.dotted: set[str] = set()
        """Keys under which a node may have values from two places: a name with a dot, and a nested object."""

    def find(self, key: str) -> Postings:
        """An empty one when nobody has the key."""
        return self.keys.get(key) or Postings()

    def replace(self, handle: int, old: Flat, new: Flat) -> None:
        """What `old` says of a node is no longer so, what `new` says is."""
        for key, values in new.items():
            before = old.get(key)
            if before == values:
                continue
            postings = self.keys.get(key)
            if postings is None:
                postings = self.keys[key] = Postings()
            elif before is not None:
                postings.take_values(handle, before)
            postings.add(handle, values)
        for key, values in old.items():
            if key not in new:
                self._drop(handle, key, values)

    def sweep(self, handle: int, prefix: str | None) -> None:
        """Forget a node under a key and all keys below it (None: under every key), whatever its values were."""
        for key in [key for key in self.keys if _is_below(key, prefix)]:
            postings = self.keys[key]
            # One of two places may have been taken away already, and the mark with it.
            if handle not in postings.present and key not in self.dotted:
                continue
            postings.sweep(handle)
            if not postings.present:
                del self.keys[key]

    def order(self, key: str) -> Breathing[Order]:
        """The values of a key in order; from the first time on they are kept so."""
        while True:
            postings = self.find(key)
            if postings.order is None:
                postings.order = Order()
                postings.ordering = postings.order.build(list(postings.values))
            if postings.ordering is not None and next(postings.ordering, _ORDERED) is _ORDERED:
                postings.ordering = None
            if postings.ordering is None:
                return postings.order
            yield

    def _drop(self, handle: int, key: str, values: list[Scalar]) -> None:
        postings = self.keys.get(key)
        if postings is None:
            return
        postings.remove(handle, values)
        if not postings.present:
            del self.keys[key]


def _is_below(key: str, prefix: str | None) -> bool:
    return prefix is None or key == prefix or key.startswith(prefix + ".")


def at_path(members: dict[str, Any], path: str) -> Iterator[Any]:
    """What stands at a dotted path; several things when names have dots in them."""
    for name, value in members.items():
        if name == path:
            yield value
        elif isinstance(value, dict) and path.startswith(name + "."):
            yield from at_path(value, path[len(name) + 1 :])


# -- one attribute, which may be anything at all: a redaction leaves words where numbers were


def find_text(attrs: Mapping[str, Any], name: str) -> str | None:
    found = attrs.get(name)
    return found if isinstance(found, str) else None


def text_of(attrs: Mapping[str, Any], name: str) -> str:
    return find_text(attrs, name) or ""


def integer_of(attrs: Mapping[str, Any], name: str, default: int) -> int:
    found = attrs.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else default


def list_of(attrs: Mapping[str, Any], name: str) -> list[Any]:
    found = attrs.get(name)
    return found if isinstance(found, list) else []


def object_of(attrs: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = attrs.get(name)
    return found if isinstance(found, dict) else {}
