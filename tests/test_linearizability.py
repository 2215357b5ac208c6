"""The search that judges histories: it agrees with trying every order, and sees what each kind of bug would leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, combinations, permutations
from typing import Literal

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from torture.linearizability import Operation, Value, check, check_all


def read(began: int, ended: int | None, value: Value) -> Operation:
    return Operation("read", began, ended, value)


def write(began: int, ended: int | None, value: Value) -> Operation:
    return Operation("write", began, ended, value)


def swap(began: int, ended: int | None, expected: Value, value: Value, *, refused: bool = False) -> Operation:
    return Operation("swap", began, ended, value, expected, refused)


FINE = {
    "nothing": [],
    "a read of nothing": [read(0, 1, None)],
    "one after the other": [write(0, 1, "a"), read(2, 3, "a"), write(4, 5, "b"), read(6, 7, "b")],
    "a read at the same time sees the old value": [write(0, 9, "a"), read(1, 2, None), read(3, 4, "a")],
    "two writes at once, in either order": [write(0, 9, "a"), write(0, 9, "b"), read(10, 11, "a")],
    "unsettled, and it took effect much later": [write(0, None, "a"), read(1, 2, None), read(50, 51, "a")],
    "unsettled, and it never took effect": [write(0, None, "a"), read(1, 2, None), read(50, 51, None)],
    "an unsettled swap that took effect": [write(0, 1, "a"), swap(2, None, "a", "b"), swap(9, 10, "b", "c")],
    "a swap refused since another was first": [swap(0, 5, None, "a"), swap(0, 5, None, "b", refused=True)],
    "an unsettled read says nothing": [write(0, 1, "a"), read(2, None, "z")],
}

FALSE = {
    "a value that nobody wrote": [read(0, 1, "a")],
    "an acknowledged write that is lost": [write(0, 1, "a"), read(2, 3, None)],
    "a stale read": [write(0, 1, "a"), write(2, 3, "b"), read(4, 5, "a")],
    "two readers disagree on the order": [
        *(write(0, 20, each) for each in "ab"),
        *(read(1, 2, "a"), read(3, 4, "b"), read(5, 6, "a")),
    ],
    "two swaps of the same value both done": [swap(0, 5, None, "a"), swap(0, 5, None, "b")],
    "a swap refused though what it expected was there": [write(0, 1, "a"), swap(2, 3, "a", "b", refused=True)],
    "an unsettled write that came and went": [
        *(write(0, None, "a"), write(0, 1, "b"), read(2, 3, "a")),
        *(read(4, 5, "b"), read(6, 7, "a")),
    ],
    "an unsettled write seen before its call": [read(0, 1, "a"), write(2, None, "a")],
}


@pytest.mark.parametrize("name", FINE)
def test_it_accepts(name: str) -> None:
    assert check(FINE[name]) is None


@pytest.mark.parametrize("name", FALSE)
def test_it_refuses(name: str) -> None:
    violation = check(FALSE[name])
    assert violation is not None
    assert violation.stuck in FALSE[name]


def test_entities_are_judged_one_by_one() -> None:
    fine, false = FINE["one after the other"], FALSE["a stale read"]
    histories = [*(("one", each) for each in fine), *(("other", each) for each in false)]
    assert set(check_all(histories)) == {"other"}


# -- against every order there is

VALUES = st.sampled_from(["a", "b", None])
TIMES = st.integers(0, 8)


@st.composite
def operations(draw: st.DrawFn) -> Operation:
    kind: Literal["read", "write", "swap"] = draw(st.sampled_from(["read", "write", "swap", "swap"]))
    began = draw(TIMES)
    ended = draw(st.one_of(st.none(), st.integers(began, 9)))
    operation = Operation(kind, began, ended, draw(VALUES), draw(VALUES))
    return msgspec.structs.replace(operation, refused=kind == "swap" and ended is not None and draw(st.booleans()))


@given(st.lists(operations(), max_size=5))
def test_it_agrees_with_trying_every_order(history: list[Operation]) -> None:
    assert (check(history) is None) == any(map(_explains, _orders(history)))


def _orders(history: Sequence[Operation]) -> Iterator[tuple[Operation, ...]]:
    """Every order of the settled ones with any of the unsettled."""
    settled = [each for each in history if each.is_settled]
    open_ones = [each for each in history if not each.is_settled and each.kind != "read"]
    some = chain.from_iterable(combinations(open_ones, size) for size in range(len(open_ones) + 1))
    return chain.from_iterable(permutations([*settled, *each]) for each in some)


def _explains(order: Sequence[Operation]) -> bool:
    value: Value = None
    for number, each in enumerate(order):
        if any(later.ended is not None and later.ended < each.began for later in order[number + 1 :]):
            return False
        if each.kind == "read" and each.value != value:
            return False
        if each.kind == "swap" and (each.expected == value) == each.refused:
            return False
        if each.kind == "write" or (each.kind == "swap" and not each.refused):
            value = each.value
    return True


# -- histories of an entity that is really one


@st.composite
def executions(draw: st.DrawFn) -> list[Operation]:
    """Each takes effect at a moment of its own, somewhere between its call and its answer."""
    value: Value = None
    history: list[Operation] = []
    for number in range(draw(st.integers(1, 40))):
        moment = 100 * number
        began, ended = moment - draw(st.integers(0, 500)), moment + draw(st.integers(0, 500))
        unsettled = draw(st.integers(0, 9)) == 0
        kind = draw(st.sampled_from(["read", "write", "swap"]))
        if kind == "read":
            history.append(read(began, ended, value))
        elif unsettled and draw(st.booleans()):  # It never takes effect.
            history.append(write(began, None, f"v{number}"))
        elif kind == "write":
            value = f"v{number}"
            history.append(write(began, None if unsettled else ended, value))
        else:
            expected = draw(st.sampled_from([value, "other"]))
            done = expected == value
            history.append(swap(began, None if unsettled else ended, expected, f"v{number}", refused=not done))
            if unsettled and not done:
                history[-1] = msgspec.structs.replace(history[-1], refused=False)
            value = f"v{number}" if done else value
    return [*history, read(10_000, 10_001, value)]


@given(executions(), st.randoms(use_true_random=False))
def test_what_one_entity_told_is_accepted_in_whatever_order_it_was_noted(
    history: list[Operation], dice: object
) -> None:
    dice.shuffle(history)  # type: ignore[attr-defined]
    assert check(history) is None


@given(executions(), st.data())
def test_a_read_of_what_was_never_written_is_refused(history: list[Operation], data: st.DataObject) -> None:
    reads = [number for number, each in enumerate(history) if each.kind == "read"]
    number = data.draw(st.sampled_from(reads))
    history[number] = msgspec.structs.replace(history[number], value="never")
    assert check(history) is not None


@given(executions())
def test_a_last_write_that_is_lost_is_seen(history: list[Operation]) -> None:
    # One that nobody knows of could still come after it.
    assume(all(each.is_settled or each.value != history[-1].value for each in history))
    history[-1:] = [write(9_000, 9_001, "last"), history[-1]]
    assert check(history) is not None


@given(executions())
def test_the_same_claim_handed_out_twice_is_seen(history: list[Operation]) -> None:
    value = history[-1].value
    history += [swap(11_000, 11_009, value, "mine"), swap(11_001, 11_008, value, "yours")]
    assert check(history) is not None


def test_long_histories_with_much_at_once_take_little() -> None:
    """Eight clients at any moment, and every hundredth write unsettled: no order is tried twice."""
    history: list[Operation] = []
    for number in range(1_000):
        began, ended = number * 10 - 40, number * 10 + 40
        history.append(write(began, None if number % 100 == 7 else ended, f"v{number}"))
        history.append(read(number * 10 + 1, number * 10 + 41, f"v{number}"))
    assert check(history) is None
