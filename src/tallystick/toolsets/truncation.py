"""How much of an answer fits where an agent's context would overflow (X15)."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from tallystick.policy import Principal

T = TypeVar("T")


def room_for(principal: Principal, bytes_max: int) -> int:
    """The bytes that a list may have: `bytes_max` for a model, as many as the settings allow for a program."""
    return principal.answer_bytes_max if principal.is_program else bytes_max


def size_of(value: Any) -> int:
    return len(msgspec.json.encode(value))


def characters_of(value: Any) -> int:
    """Of compact JSON in ASCII: what no other way to write it exceeds."""
    return len(json.dumps(value, separators=(",", ":")))


def within_budget(items: Iterable[T], bytes_max: int) -> list[T]:
    """As many from the start as fit; the first one always."""
    return list(while_fitting(items, bytes_max))


def fitting(items: Iterable[T], bytes_max: int) -> Generator[None, None, list[T]]:
    """As `within_budget`, with a pause after each: an item is not made before there may be room for it."""
    found: list[T] = []
    for item in while_fitting(items, bytes_max):
        found.append(item)
        yield
    return found


def listing(
    key: str, items: Iterable[T], total: int, bytes_max: int, *, note: str = "omitted", hint: str | None = None
) -> dict[str, Any]:
    """Under `key` as many as fit, and under `note` how many of the total are not among them, where some are not.
    The hint says how to get the rest."""
    shown = within_budget(items, bytes_max)
    if len(shown) == total:
        return {key: shown}
    return {key: shown, note: total - len(shown)} | ({"hint": hint} if hint else {})


def cut_short(shown: int, *, limit: int, left: int, note: str = "truncated") -> dict[str, bool]:
    """For pages: whether this one is shorter than was asked for, though there is more."""
    return {note: True} if shown < min(limit, left) else {}


def while_fitting(items: Iterable[T], bytes_max: int) -> Iterator[T]:
    left = bytes_max
    for number, item in enumerate(items):
        left -= size_of(item) + 1
        if number and left < 0:
            return
        yield item


def fitted(answer: dict[str, Any], bytes_max: int) -> dict[str, Any]:
    """Return the answer with its lists cut to fit in about so many bytes; `omitted` counts the missing items by list.

    Nothing but lists is cut: an answer that is too large without them stays so.
    """
    lists = dict(_lists(answer))
    sizes = {name: size_of(items) for name, items in lists.items()}
    room = bytes_max - (size_of(answer) - sum(sizes.values())) - _NOTE_BYTES
    share = fair_share(sizes.values(), max(0, room))
    shown = {name: _first_items(lists[name], share) for name, size in sizes.items() if size > share}
    omitted = {name: len(lists[name]) - len(items) for name, items in shown.items()}
    return {**_with_lists(answer, shown), "omitted": omitted, "hint": WRITTEN_HINT} if omitted else answer


WRITTEN_HINT = "everything was written: only this answer was cut"
_NOTE_BYTES = 500


def _lists(holder: dict[str, Any], within: str = "") -> Iterator[tuple[str, list[Any]]]:
    for key, value in holder.items():
        if isinstance(value, list):
            yield within + key, value
        elif isinstance(value, dict):
            yield from _lists(value, f"{within}{key}.")


def _with_lists(holder: dict[str, Any], lists: dict[str, list[Any]], within: str = "") -> dict[str, Any]:
    return {
        key: _with_lists(value, lists, f"{within}{key}.") if isinstance(value, dict) else lists.get(within + key, value)
        for key, value in holder.items()
    }


def _first_items(items: list[Any], bytes_max: int) -> list[Any]:
    first = within_budget(items, bytes_max - len("[]"))
    return first if size_of(first) <= bytes_max else []


def fair_share(sizes: Iterable[int], total: int) -> int:
    """How much each may have: what the small ones leave over is for the large ones."""
    waiting = sorted(sizes)
    for number, size in enumerate(waiting):
        share = total // (len(waiting) - number)
        if size > share:
            return share
        total -= size
    return waiting[-1] if waiting else total


def shortened(value: Any, bytes_max: int) -> Any:
    """The same kind of value in about so many bytes: texts are cut, of arrays the last items stay, of objects the
    first members."""
    if size_of(value) <= bytes_max:
        return value
    if isinstance(value, str):
        return cut_text(value, bytes_max)
    if isinstance(value, list):
        return _last_items(value, bytes_max)
    return _first_members(value, bytes_max) if isinstance(value, dict) else value


def cut_text(text: str, most: int, measure: Callable[[str], int] = size_of) -> str:
    """As much from the start as fits with an ellipsis, as JSON: there a control character takes six bytes."""
    if measure(text) <= most:
        return text
    # The ellipsis is no larger than its escape, and a prefix never larger than a longer one.
    room, text = most - len("\\u2026"), text[:most]
    return text[: bisect_right(range(1, len(text)), room, key=lambda end: measure(text[:end]))] + "…"


def _last_items(items: list[Any], bytes_max: int) -> list[Any]:
    kept: list[Any] = []
    left = bytes_max - len("[]")
    for item in reversed(items):
        item = item if kept else shortened(item, left)
        left -= size_of(item) + len(",")
        if left < 0:
            break
        kept.append(item)
    kept.reverse()
    return kept


def _first_members(members: dict[str, Any], bytes_max: int) -> dict[str, Any]:
    share = fair_share((size_of(value) for value in members.values()), bytes_max // 2)
    kept: dict[str, Any] = {}
    left = bytes_max - len("{}")
    for name, value in members.items():
        member = shortened(value, share)
        left -= size_of(name) + size_of(member) + len(":,")
        if left < 0:
            break
        kept[name] = member
    return kept
