"""Linearizability: whether what several clients were told about one entity could have come from one entity.

A history is linearizable when each operation can be given a moment between its call and its answer such that, one
after the other in that order, they give the answers that were given. The search is Wing and Gong's with Lowe's memory
of what was tried: calls and answers in a list by time, an operation is taken out of it when it is put next, and put
back when that led nowhere. An operation whose outcome nobody knows may take effect at any moment after its call, or
never.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

Value = str | None
"""None while there is nothing."""


class Operation(msgspec.Struct, frozen=True):
    """On an entity that holds one value."""

    kind: Literal["read", "write", "swap"]
    began: int
    ended: int | None
    """None when nobody knows what became of it."""
    value: Value
    """What was read, or is written."""
    expected: Value = None
    """swap: what must be there for it to be written."""
    refused: bool = False
    """swap: something else was there."""
    who: str = ""

    @property
    def is_settled(self) -> bool:
        return self.ended is not None

    @property
    def changes(self) -> bool:
        return self.kind != "read" and not self.refused


class Violation(msgspec.Struct, frozen=True):
    stuck: Operation
    """What was answered like this and fits nowhere: no order of the others leads to it."""
    linearized: int
    """How many could be ordered before it at best."""

    def __str__(self) -> str:
        return f"no order explains {self.stuck} ({self.linearized} can be ordered before it)"


def check(history: Iterable[Operation]) -> Violation | None:
    """Of one entity, which holds nothing at first. None means that it is linearizable."""
    return _Search([each for each in history if each.is_settled or each.kind != "read"]).run()


def check_all(histories: Iterable[tuple[str, Operation]]) -> dict[str, Violation]:
    """By entity: a history is linearizable when that of each entity is."""
    by_entity: dict[str, list[Operation]] = defaultdict(list)
    for entity, operation in histories:
        by_entity[entity].append(operation)
    found = {entity: check(history) for entity, history in by_entity.items()}
    return {entity: violation for entity, violation in found.items() if violation is not None}


def _applied(operation: Operation, value: Value) -> tuple[bool, Value]:
    """Whether it can be told so where `value` is, and what is there then."""
    match operation.kind:
        case "read":
            return value == operation.value, value
        case "write":
            return True, operation.value
        case "swap" if operation.refused:
            return value != operation.expected, value
        case _:
            return value == operation.expected, operation.value


class _Event:
    """A call or an answer, in a doubly linked list by time."""

    __slots__ = ("answer", "before", "bit", "is_answer", "next", "operation")

    def __init__(self, operation: Operation, bit: int, *, is_answer: bool = False) -> None:
        self.operation = operation
        self.bit = bit
        self.is_answer = is_answer
        self.answer: _Event | None = None
        self.before: _Event = self
        self.next: _Event | None = None

    def take(self) -> None:
        """A call and its answer out of the list."""
        for event in (self, self.answer):
            if event is not None:
                event.before.next = event.next
                if event.next is not None:
                    event.next.before = event.before

    def put_back(self) -> None:
        """Where they were, if all that was taken later is back already."""
        for event in (self.answer, self):
            if event is not None:
                event.before.next = event
                if event.next is not None:
                    event.next.before = event


class _Search:
    def __init__(self, history: Sequence[Operation]) -> None:
        self._head = _Event(Operation("write", 0, 0, None), 0)
        self._settled = sum(each.is_settled for each in history)
        self._link(history)

    def _link(self, history: Sequence[Operation]) -> None:
        calls = [_Event(operation, 1 << number) for number, operation in enumerate(history)]
        # At the same moment a call comes before an answer: then they may have been in either order.
        timed = [(each.operation.began, 0, each) for each in calls]
        for call in calls:
            if call.operation.ended is not None:
                call.answer = _Event(call.operation, call.bit, is_answer=True)
                timed.append((call.operation.ended, 1, call.answer))
        last = self._head
        for _, _, event in sorted(timed, key=lambda each: each[:2]):
            last.next, event.before, last = event, last, event

    def run(self) -> Violation | None:
        value: Value = None
        taken, done, best = 0, 0, -1
        tried: set[tuple[int, Value]] = set()
        way: list[tuple[_Event, Value]] = []
        after: _Event | None = None  # What follows this one in the list was not tried yet.
        stuck = None
        while done < self._settled:
            call = self._reader(value) if after is None else None
            call = call or self._writer(after or self._head, value, taken, tried)
            if call is not None:
                way.append((call, value))
                value, taken = _applied(call.operation, value)[1], taken | call.bit
                done += call.operation.is_settled
                tried.add((taken, value))
                call.take()
                after = None
                continue
            if len(way) > best:
                stuck, best = self._first_answer(), len(way)
            after = None
            while way and after is None:
                last, value = way.pop()
                taken, done = taken & ~last.bit, done - last.operation.is_settled
                last.put_back()
                # A read fits where it was put, if anywhere: there is nothing else to try in its place.
                after = last if last.operation.changes else None
            if after is None:
                assert stuck is not None
                return Violation(stuck, best)
        return None

    def _reader(self, value: Value) -> _Event | None:
        """One that fits here and changes nothing. To put it at once forgoes no order."""
        for call in self._calls(self._head):
            if not call.operation.changes and _applied(call.operation, value)[0]:
                return call
        return None

    def _writer(self, after: _Event, value: Value, taken: int, tried: set[tuple[int, Value]]) -> _Event | None:
        for call in self._calls(after):
            if call.operation.changes:
                fits, then = _applied(call.operation, value)
                if fits and (taken | call.bit, then) not in tried:
                    return call
        return None

    def _calls(self, after: _Event) -> Iterator[_Event]:
        """Those that may be next: up to the first answer, since whoever it is of must be put before any later call."""
        event = after.next
        while event is not None and not event.is_answer:
            yield event
            event = event.next

    def _first_answer(self) -> Operation:
        event = self._head.next
        while event is not None and not event.is_answer:
            event = event.next
        assert event is not None, "every settled operation has an answer in the list"
        return event.operation
