"""The conditions of a search: what each means for a document, and how the index answers it.

Both are here side by side because they must agree. The index may say "perhaps": for texts
that are too long to be indexed, and for lists and objects as a whole. Then the document decides.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, Protocol, cast

import msgspec
from pyroaring import BitMap

from tallystick.commits.mask import REDACTED
from tallystick.errors import InvalidArgument
from tallystick.state import Breathing, Condition
from tallystick.state.attributes import TEXT_MAX, Attributes, Flat, Postings, Scalar, at_path, flatten, scalar
from tallystick.state.patterns import Pattern
from tallystick.state.sorted_values import Bound, kind_of

_BREATH = 4_096
_BREATH_COST = 1_000_000


class NodeAttributes:
    """The attributes of one node, in both shapes."""

    __slots__ = ("attrs", "flat")

    def __init__(self, attrs: dict[str, Any]) -> None:
        self.attrs = attrs
        self.flat: Flat = flatten(attrs)


class Candidates(msgspec.Struct, frozen=True):
    sure: BitMap
    perhaps: BitMap


class Criterion(Protocol):
    """A condition made ready; what is wrong with it was said when it was made."""

    key: str

    def holds(self, facts: NodeAttributes) -> bool: ...

    def effort(self, attributes: Attributes) -> int:
        """Of `find`, where 1 is what it takes to look up one value."""
        ...

    def find(self, attributes: Attributes, alive: BitMap) -> Breathing[Candidates]: ...


def ready(condition: Condition) -> Criterion:
    """Raises InvalidArgument when value and test don't fit."""
    make = _CRITERIA.get(condition.test)
    if make is None:
        raise _refusal(condition, f"'{condition.test}' is not a test")
    return make(condition)


class Equal:
    def __init__(self, key: str, value: Any) -> None:
        self.key = key
        self._whole = isinstance(value, list | tuple | dict)
        self._value: Any = list(value) if isinstance(value, tuple) else value

    def holds(self, facts: NodeAttributes) -> bool:
        if self._whole:
            return any(is_same(each, self._value) for each in at_path(facts.attrs, self.key))
        return scalar(self._value) in facts.flat.get(self.key, ())

    def effort(self, attributes: Attributes) -> int:
        return 1

    def find(self, attributes: Attributes, alive: BitMap) -> Breathing[Candidates]:
        yield from ()
        postings = attributes.find(self.key)
        if self._whole:
            return Candidates(BitMap(), self._holders(postings))
        if _is_long(self._value):
            return Candidates(BitMap(), postings.long.copy())
        return Candidates(postings.members(scalar(self._value)).copy(), BitMap())

    def _holders(self, postings: Postings) -> BitMap:
        """Who has the key, and every scalar of a wanted list under it."""
        found = postings.present.copy()
        for each in self._value if isinstance(self._value, list) else ():
            if not isinstance(each, list | dict) and not _is_long(each) and each != REDACTED:
                found &= postings.members(scalar(each))
        return found


class Among:
    def __init__(self, key: str, values: Iterable[Any]) -> None:
        self.key = key
        self._options = [Equal(key, value) for value in values]

    def holds(self, facts: NodeAttributes) -> bool:
        return any(option.holds(facts) for option in self._options)

    def effort(self, attributes: Attributes) -> int:
        return len(self._options)

    def find(self, attributes: Attributes, alive: BitMap) -> Breathing[Candidates]:
        sure, perhaps = BitMap(), BitMap()
        for option in self._options:
            found = yield from option.find(attributes, alive)
            sure |= found.sure
            perhaps |= found.perhaps
        return Candidates(sure, perhaps - sure)


class Different:
    """Has the key, but not with this value."""

    def __init__(self, key: str, value: Any) -> None:
        self.key = key
        self._equal = Equal(key, value)

    def holds(self, facts: NodeAttributes) -> bool:
        return self.key in facts.flat and not self._equal.holds(facts)

    def effort(self, attributes: Attributes) -> int:
        return 1

    def find(self, attributes: Attributes, alive: BitMap) -> Breathing[Candidates]:
        found = yield from self._equal.find(attributes, alive)
        return Candidates(attributes.find(self.key).present - found.sure - found.perhaps, found.perhaps)


class Exists:
    def __init__(self, key: str, wanted: bool) -> None:
        self.key = key
        self._wanted = wanted

    def holds(self, facts: NodeAttributes) -> bool:
        return (self.key in facts.flat) is self._wanted

    def effort(self, attributes: Attributes) -> int:
        return 1

    def find(self, attributes: Attributes, alive: BitMap) -> Breathing[Candidates]:
        yield from ()
        present = attributes.find(self.key).present
        return Candidates(present.copy() if self._wanted else alive - present, BitMap())


class Range:
    def __init__(self, key: str, test: Bound, value: str | float) -> None:
        self.key = key
        self._test: Bound = test
        self._value = value
        self._kind = kind_of(value)
        self._compare: Callable[[Any, Any], bool] = _COMPARE[test]

    def holds(self, facts: NodeAttributes) -> bool:
        return any(
            kind_of(each) is self._kind and self._compare(each, self._value) for each in facts.flat.get(self.key, ())
        )

    def effort(self, attributes: Attributes) -> int:
        postings = attributes.find(self.key)
        order = postings.order
        return order.count(self._test, self._value) if order and order.ready else len(postings.values)

    def find(self, attributes: Attributes, alive: BitMap) -> Breathing[Candidates]:
        order = yield from attributes.order(self.key)
        values = yield from order.values(self._test, self._value)
        sure = yield from _union(attributes.find(self.key), values)
        long = attributes.find(self.key).long if self._kind is str else BitMap()
        return Candidates(sure, long - sure)


class Matching:
    def __init__(self, key: str, pattern: Pattern) -> None:
        self.key = key
        self.literal = pattern.literal
        self._pattern = pattern

    def holds(self, facts: NodeAttributes) -> bool:
        return self._pattern.matches_any(facts.flat.get(self.key, ()))

    def effort(self, attributes: Attributes) -> int:
        return 8 * len(attributes.find(self.key).values)

    def find(self, attributes: Attributes, alive: BitMap) -> Breathing[Candidates]:
        matching: list[Scalar] = []
        cost = 0
        values = list(attributes.find(self.key).values)
        for start in range(0, len(values), _BREATH):
            for value in self._pattern.worth_trying(values[start : start + _BREATH]):
                cost += self._pattern.cost(value)
                if self._pattern.matches(value):
                    matching.append(value)
                if cost > _BREATH_COST:
                    cost = 0
                    yield
            yield
        postings = attributes.find(self.key)
        sure = yield from _union(postings, matching)
        return Candidates(sure, postings.long - sure)


def is_same(one: Any, other: Any) -> bool:
    """Equal as JSON: True is not 1, 1 is 1.0."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _union(postings: Postings, values: list[Scalar]) -> Breathing[BitMap]:
    union = BitMap()
    for start in range(0, len(values), _BREATH):
        union |= _together(list(map(postings.values.get, values[start : start + _BREATH])))
        yield
    return union


def _together(found: list[Any]) -> BitMap:
    """Of handles, bitmaps and None for a value that nobody has."""
    try:
        # Most keys that are asked for ranges have a value for each node: not one of many is looked at in Python.
        return BitMap(found)
    except TypeError:
        single = BitMap([each for each in found if type(each) is int])
        return BitMap.union(single, *(each for each in found if type(each) is BitMap))


def _is_long(value: Any) -> bool:
    return isinstance(value, str) and len(value) > TEXT_MAX


def _among(condition: Condition) -> Criterion:
    if not isinstance(condition.value, list | tuple):
        raise _refusal(condition, "needs a list of values")
    return Among(condition.key, condition.value)


def _exists(condition: Condition) -> Criterion:
    if not isinstance(condition.value, bool):
        raise _refusal(condition, "needs true or false")
    return Exists(condition.key, condition.value)


def _range(condition: Condition) -> Criterion:
    if kind_of(condition.value) is None:
        raise _refusal(condition, "needs a number or a text")
    return Range(condition.key, cast("Bound", condition.test), condition.value)


def _matching(condition: Condition) -> Criterion:
    if not isinstance(condition.value, str):
        raise _refusal(condition, "needs a text")
    return Matching(condition.key, Pattern(condition.value))


_CRITERIA: dict[str, Callable[[Condition], Criterion]] = {
    "eq": lambda condition: Equal(condition.key, condition.value),
    "ne": lambda condition: Different(condition.key, condition.value),
    "in": _among,
    "exists": _exists,
    "gt": _range,
    "gte": _range,
    "lt": _range,
    "lte": _range,
    "regex": _matching,
}
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


def _refusal(condition: Condition, problem: str) -> InvalidArgument:
    return InvalidArgument(f"the condition '{condition.test}' on '{condition.key}' {problem}")
