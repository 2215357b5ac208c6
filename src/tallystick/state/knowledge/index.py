"""The index of globs: whose patterns match a path, without looking at those that cannot.

A trie over the segments of patterns. A literal segment is one lookup; a wild one is filed
under the longer of its literal head and tail, so that `checkout-*.tsx` is only tried on names
that begin so. No place is visited twice for one path, whatever the patterns.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

import msgspec

from tallystick.state import Breathing
from tallystick.state.knowledge.globs import Route, Segment, Special, Wild
from tallystick.state.stored_index import sliced

K = TypeVar("K", bound=Hashable)


class GlobIndex(Generic[K]):
    def __init__(self, root: Place[K] | None = None) -> None:
        self.root: Place[K] = root or Place()

    def __bool__(self) -> bool:
        return not self.root.is_empty()

    def add(self, owner: K, routes: Iterable[Route]) -> None:
        for route in dict.fromkeys(routes):
            place = self.root
            for segment in route:
                place = place.make(segment)
            place.owners = place.owners if place.owners is not None else {}
            place.owners[owner] = None

    def remove(self, owner: K, routes: Iterable[Route]) -> None:
        """The same routes that were added."""
        for route in dict.fromkeys(routes):
            trail = [self.root]
            for segment in route:
                trail.append(trail[-1].get(segment))
            owners = trail[-1].owners
            assert owners is not None, "only what was added is removed"
            del owners[owner]
            if not owners:
                trail[-1].owners = None
            for parent, child, segment in zip(trail[-2::-1], trail[:0:-1], route[::-1], strict=True):
                if child.is_empty():
                    parent.drop(segment)

    def match(self, segments: Sequence[str]) -> set[K]:
        found: set[K] = set()
        end = len(segments)
        reached: dict[Place[K], int] = {}
        """For what comes behind a `**`: from which segment on it has been looked at."""
        waiting: list[tuple[Place[K], int]] = [(self.root, 0)]
        while waiting:
            place, at = waiting.pop()
            deep = place.deep
            # A `**` at the end wants at least one segment, so nothing waits behind one at the end of the path.
            if deep is not None and at < (known := reached.get(deep, end)):
                found.update(deep.owners or ())
                reached[deep] = at
                waiting += [(deep, later) for later in range(at, known)]
            if at < end:
                waiting += [(child, at + 1) for child in place.after(segments[at])]
            elif place.owners:
                found.update(place.owners)
        return found

    def match_below(self, segments: Sequence[str]) -> set[K]:
        """Whose patterns could match something in this directory, or match itself. Costs what it finds."""
        found: set[K] = set()
        waiting: list[tuple[Place[K], int]] = [(self.root, 0)]
        while waiting:
            place, at = waiting.pop()
            if at == len(segments):
                found.update(place.everyone())
                continue
            # A `**` takes all the rest of the directory, and as much below it as the pattern's end needs.
            if place.deep is not None:
                found.update(place.deep.everyone())
            waiting += [(child, at + 1) for child in place.after(segments[at])]
        return found


class Place(msgspec.Struct, Generic[K], eq=False, gc=False, array_like=True, omit_defaults=True):
    """A point that patterns lead to. Most have one way on, or none: what is empty is None."""

    owners: dict[K, None] | None = None
    """Whose patterns end here."""
    literals: dict[str, Place[K]] | None = None
    any: Place[K] | None = None
    deep: Place[K] | None = None
    wild: Buckets[K] | None = None

    def is_empty(self) -> bool:
        return not (self.owners or self.literals or self.any or self.deep or self.wild)

    def after(self, name: str) -> Iterator[Place[K]]:
        """Where a path goes on from here by a segment of this name, crossing no `**`."""
        if self.literals is not None and (child := self.literals.get(name)) is not None:
            yield child
        if self.any is not None:
            yield self.any
        if self.wild is not None:
            yield from self.wild.matching(name)

    def everyone(self) -> Iterator[K]:
        """Whose patterns end here or further on."""
        waiting = [self]
        while waiting:
            place = waiting.pop()
            yield from place.owners or ()
            waiting += (place.literals or {}).values()
            waiting += [each for each in (place.any, place.deep) if each is not None]
            waiting += place.wild.places() if place.wild is not None else ()

    def get(self, segment: Segment) -> Place[K]:
        found = self._find(segment)
        assert found is not None, "only what was added is looked for"
        return found

    def make(self, segment: Segment) -> Place[K]:
        found = self._find(segment)
        if found is None:
            found = Place()
            self._put(segment, found)
        return found

    def drop(self, segment: Segment) -> None:
        if isinstance(segment, str):
            assert self.literals is not None
            del self.literals[segment]
            self.literals = self.literals or None
        elif isinstance(segment, Wild):
            assert self.wild is not None
            self.wild.drop(segment)
            self.wild = self.wild if self.wild.size else None
        elif segment is Special.ANY:
            self.any = None
        else:
            self.deep = None

    def _find(self, segment: Segment) -> Place[K] | None:
        if isinstance(segment, str):
            return self.literals.get(segment) if self.literals is not None else None
        if isinstance(segment, Wild):
            return self.wild.find(segment) if self.wild is not None else None
        return self.any if segment is Special.ANY else self.deep

    def _put(self, segment: Segment, child: Place[K]) -> None:
        if isinstance(segment, str):
            self.literals = self.literals if self.literals is not None else {}
            self.literals[segment] = child
        elif isinstance(segment, Wild):
            self.wild = self.wild if self.wild is not None else Buckets()
            self.wild.put(segment, child)
        elif segment is Special.ANY:
            self.any = child
        else:
            self.deep = child


class Buckets(msgspec.Struct, Generic[K], eq=False, gc=False, array_like=True):
    """The wild segments at one place, in buckets by what their names must begin or end with."""

    # By length first: a name is looked up once for each length there is.
    by_head: dict[int, dict[str, dict[Wild, Place[K]]]] = {}
    by_tail: dict[int, dict[str, dict[Wild, Place[K]]]] = {}
    size: int = 0

    def matching(self, name: str) -> Iterator[Place[K]]:
        for length, heads in self.by_head.items():
            for segment, child in heads.get(name[:length], _NOTHING).items():
                if segment.fits(name):
                    yield child
        for length, tails in self.by_tail.items():
            for segment, child in tails.get(name[-length:], _NOTHING).items():
                if segment.fits(name):
                    yield child

    def places(self) -> Iterator[Place[K]]:
        for side in (self.by_head, self.by_tail):
            for buckets in side.values():
                for bucket in buckets.values():
                    yield from bucket.values()

    def find(self, segment: Wild) -> Place[K] | None:
        side, literal = self._filed(segment)
        return side.get(len(literal), {}).get(literal, {}).get(segment)

    def put(self, segment: Wild, child: Place[K]) -> None:
        side, literal = self._filed(segment)
        side.setdefault(len(literal), {}).setdefault(literal, {})[segment] = child
        self.size += 1

    def drop(self, segment: Wild) -> None:
        side, literal = self._filed(segment)
        bucket = side[len(literal)][literal]
        del bucket[segment]
        self.size -= 1
        if not bucket:
            del side[len(literal)][literal]
            if not side[len(literal)]:
                del side[len(literal)]

    def _filed(self, segment: Wild) -> tuple[dict[int, dict[str, dict[Wild, Place[K]]]], str]:
        """Without head or tail it is filed under the empty head, which every name begins with."""
        if len(segment.tail) > len(segment.head):
            return self.by_tail, segment.tail
        return self.by_head, segment.head


_NOTHING: dict[Wild, Place] = {}  # type: ignore[type-arg]  # of any owner


# -- what is stored

_PIECE_BYTES = 64 * 1024


class _Opened(msgspec.Struct, frozen=True, array_like=True):
    """A place as it is stored, without what lies behind it."""

    owners: dict[str, None] | None = None
    literals: dict[str, msgspec.Raw] | None = None
    any: msgspec.Raw = msgspec.Raw()
    deep: msgspec.Raw = msgspec.Raw()
    wild: Buckets[str] | None = None


_read_opened = msgspec.msgpack.Decoder(_Opened).decode
_read_whole = msgspec.msgpack.Decoder(Place[str]).decode
_SMALLEST = 2
"""Of a place; nothing, or None, has fewer bytes."""


def read_place(stored: msgspec.Raw) -> Breathing[Place[str]]:
    """What was written of a place with msgpack, a large one in slices."""
    if not _is_large(stored):
        yield
        return _read_whole(stored)
    opened = _read_opened(stored)
    yield
    place: Place[str] = Place(owners=opened.owners, wild=opened.wild)
    for some in sliced((opened.literals or {}).items()):
        place.literals = place.literals or {}
        for name, each in some:
            place.literals[name] = (yield from read_place(each)) if _is_large(each) else _read_whole(each)
        yield
    if memoryview(opened.any).nbytes >= _SMALLEST:
        place.any = yield from read_place(opened.any)
    if memoryview(opened.deep).nbytes >= _SMALLEST:
        place.deep = yield from read_place(opened.deep)
    return place


def _is_large(stored: msgspec.Raw) -> bool:
    return memoryview(stored).nbytes > _PIECE_BYTES
