"""The discretion of an answer: what it may tell of entities that it comes across, and what it must say beside them.

Who may not read an entity is not told that it is there: not its id, not in a count (L33). Who is
told of one that was recalled is told that too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from tallystick.policy import Action, Principal
from tallystick.state.state import State
from tallystick.state.trust import Trust
from tallystick.toolsets.trust import warned

if TYPE_CHECKING:
    from tallystick.store import ReadFilter, Store

T = TypeVar("T")
_ASKED_LEAST = 16


class AnswerFilter:
    """Of one look, or one draft. Without a sight everything is told."""

    def __init__(self, state: State, read_filter: ReadFilter | None = None) -> None:
        self._state = state
        self._trust = state.derived(Trust)
        self._read_filter = read_filter if read_filter is not None and read_filter.narrows else None

    @property
    def narrows(self) -> bool:
        """False where everything may be told: then it need not be counted one by one."""
        return self._read_filter is not None

    def allows(self, entity_id: str) -> bool:
        return self._read_filter is None or self._read_filter.allows(entity_id)

    def seen(self, items: Iterable[T], name: Callable[[T], str]) -> list[T]:
        """The items whose entities, by their ids, may be told of."""
        read_filter = self._read_filter
        return list(items) if read_filter is None else [item for item in items if read_filter.allows(name(item))]

    def first(self, items: Iterable[T], allows: Callable[[T], bool], count: int) -> list[T]:
        """So many of them that may be told of. A policy that must be waited for is asked about a few at a time, each
        time about more."""
        found: list[T] = []
        read_filter, known, asked = self._read_filter, 0, 0
        for item in items:
            if len(found) == count:
                break
            unknown = len(read_filter.unknown) if read_filter is not None else 0
            if read_filter is None or allows(item):
                found.append(item)
            if read_filter is None or len(read_filter.unknown) == unknown:
                known += 1
                continue
            asked += 1
            if asked >= max(count, _ASKED_LEAST, 3 * known):
                break
        return found

    def tells(self, entity_id: str) -> bool:
        """Of what a document refers to: where something may be withheld, what was never there is withheld too, so that
        neither shows which it is."""
        return self._read_filter is None or (self._state.knows(entity_id) and self._read_filter.allows(entity_id))

    def reference(self, entity_id: Any) -> Any:
        """What an attribute refers to; None where that may not be told."""
        return entity_id if not entity_id or not isinstance(entity_id, str) or self.tells(entity_id) else None

    def warned(self, entity_id: str, document: dict[str, Any]) -> dict[str, Any]:
        return warned(self._trust, entity_id, document)

    def untrusted(self, ids: Iterable[str]) -> list[str]:
        """Which of them were recalled: for answers that are lists of ids."""
        return [each for each in ids if self._trust.find(each) is not None] if self._trust.recalls() else []


async def readable_of(store: Store, principal: Principal, ids: Iterable[str]) -> list[str]:
    def look(state: State, read_filter: ReadFilter) -> list[str]:
        return [each for each in ids if read_filter.allows(each)]

    return await store.narrowed(principal, Action.SEARCH, look)


def itself(entity_id: str) -> str:
    return entity_id
