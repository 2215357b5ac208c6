"""The read filter: what one call may read of a state, for every vocabulary, search, walk and lineage.

Who may not read an entity does not learn that it exists: not its id, not in a count, not by an edge that leads to it
(L33). Who reads one that was recalled is warned of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from tallystick.state.trust import Trust

if TYPE_CHECKING:
    from tallystick.state.state import State

T = TypeVar("T")
Owner = tuple[str, str]
"""Type and owner of an entity."""
MayRead = Callable[[str, Owner | None], bool | None]
"""The policy's decision on an entity; None where it must be waited for."""

_PENDING_MAX = 1_000
_PENDING_LEAST = 16


class ReadFilter:
    """What one look at the state, or one draft, may read.

    A look cannot wait for a policy. What is not decided yet is withheld and noted in `pending`; the
    store has it decided and repeats the look, so an answer with something pending reaches nobody.
    """

    def __init__(self, state: State, may_read: MayRead | None = None) -> None:
        """`may_read` is None where everything may be read."""
        self._state = state
        self._may_read = may_read
        self.narrows = may_read is not None
        """False where everything may be read: then nothing need be asked or counted one by one."""
        self.pending: dict[tuple[str, Owner | None], None] = {}

    def allows(self, node_id: str) -> bool:
        """Judged by what the node is now, or was last."""
        return self._may_read is None or self.allows_resource(node_id, self._state.last_owner(node_id))

    def allows_resource(self, name: str, owner: Owner | None = None) -> bool:
        """Without an owner: what is in nobody's log, even if a node has such an id."""
        if self._may_read is None:
            return True
        allowed = self._may_read(name, owner)
        if allowed is None and len(self.pending) < _PENDING_MAX:
            self.pending[name, owner] = None
        return bool(allowed)

    def allows_edge(self, edge_id: str) -> bool:
        """An edge to what may not be read is not there. True where there is no such edge."""
        if self._may_read is None:
            return True
        name = self._state.edge_name(edge_id)
        return name is None or self.allows_all((name["from"], name["to"]))

    def allows_all(self, node_ids: Iterable[str]) -> bool:
        if self._may_read is None:
            return True
        # Each, even when one is denied: so a distant policy is asked about all at once.
        allowed = [self.allows(each) for each in node_ids]
        return all(allowed)

    def allows_reference(self, entity_id: str) -> bool:
        """Of what a document refers to. Where something may be withheld, what never existed is withheld too: the
        answer does not show which it is."""
        return self._may_read is None or (self._state.knows(entity_id) and self.allows(entity_id))

    def reference(self, entity_id: Any) -> Any:
        """What an attribute refers to; None where that may not be read."""
        is_id = isinstance(entity_id, str) and entity_id
        return None if is_id and not self.allows_reference(entity_id) else entity_id

    def readable(self, items: Iterable[T], id_of: Callable[[T], str] = str) -> list[T]:
        """The items whose entities may be read."""
        return list(items) if self._may_read is None else [item for item in items if self.allows(id_of(item))]

    def first(self, items: Iterable[T], allows: Callable[[T], bool], count: int) -> list[T]:
        """The first `count` items that may be read. A distant policy is asked about a few at a time, each time more."""
        found: list[T] = []
        known = asked = 0
        for item in items:
            if len(found) == count:
                break
            pending = len(self.pending)
            if self._may_read is None or allows(item):
                found.append(item)
            if len(self.pending) == pending:
                known += 1
                continue
            asked += 1
            if asked >= max(count, _PENDING_LEAST, 3 * known):
                break
        return found

    def warned(self, entity_id: str, document: dict[str, Any]) -> dict[str, Any]:
        """The document with the recall that stands against the entity, if one does."""
        recall = self._trust.find(entity_id)
        return document if recall is None else document | {"untrusted": {"recall": recall.id, "reason": recall.reason}}

    def untrusted(self, ids: Iterable[str]) -> list[str]:
        """Which of them were recalled: for answers that are lists of ids."""
        return [each for each in ids if self._trust.find(each) is not None] if self._trust.recalls() else []

    @cached_property
    def _trust(self) -> Trust:
        return self._state.derived(Trust)
