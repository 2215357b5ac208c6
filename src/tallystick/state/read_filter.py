"""The read filter: what one call may read of a state, for every vocabulary, search, walk and lineage.

Who may not read an entity does not learn that it exists: not its id, not in a count, not by an edge that leads to it
(L33). Who reads one that was recalled, or is stale, is warned of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from tallystick.clock import Clock, from_text, to_text, wall_clock
from tallystick.commits import reserved_attributes
from tallystick.errors import Corrupt, InvalidArgument
from tallystick.state import staleness
from tallystick.state.asof import is_commit_id
from tallystick.state.staleness import Stale, Watched, milliseconds
from tallystick.state.trust import Trust

if TYPE_CHECKING:
    from tallystick.state.state import State

T = TypeVar("T")
CLOCKS_DIFFER_MILLISECONDS = 60_000
Owner = tuple[str, str]
"""Type and owner of an entity."""
MayRead = Callable[[str, Owner | None], bool | None]
"""The policy's decision on an entity; None where it must be waited for."""
ChangedFiles = Callable[[Watched], tuple[str, ...] | None]
"""Which of these files are not as they were; None where it must be waited for."""


VERIFIES = "verifies"
VERIFIES_ATOM = "verifies_atom"
"""Properties of work nodes that name what is to be looked at again."""
_NAMING = (f"properties.{VERIFIES}", f"properties.{VERIFIES_ATOM}")
_PENDING_MAX = 1_000
_PENDING_LEAST = 16


class ReadFilter:
    """What one look at the state, or one draft, may read.

    A look cannot wait for a policy. What is not decided yet is withheld and noted in `pending`; the
    store has it decided and repeats the look, so an answer with something pending reaches nobody.
    """

    def __init__(
        self,
        state: State,
        may_read: MayRead | None = None,
        clock: Clock = wall_clock,
        changed_files: ChangedFiles = lambda citations: (),
    ) -> None:
        """`may_read` is None where everything may be read."""
        self._state = state
        self._may_read = may_read
        self.narrows = may_read is not None
        """False where everything may be read: then nothing need be asked or counted one by one."""
        self.pending: dict[tuple[str, Owner | None], None] = {}
        self.pending_files: dict[Watched, None] = {}
        """Files that were not looked at since they changed, if they did; nothing is said of them meanwhile."""
        self.stale_told: dict[str, Stale] = {}
        """What was told to be stale, at the head."""
        self.judges_pins = False
        """Whether an atom counts as stale when its pinned files changed. The knowledge tools report that themselves."""
        self._as_of: str | int | None = None
        self._at: int | None = None
        """Set by a look into the past: what was stale then, it is warned of."""
        self._clock = clock
        self._changed_files = changed_files

    def allows(self, node_id: str) -> bool:
        """Judged by what the node is now, or was last; work that was made of an entity, by that too."""
        if self._may_read is None:
            return True
        subjects = self._state.named_by(node_id, _NAMING)
        # Both, even when one is denied: so a distant policy is asked about all at once.
        readable = [self._state.knows(each) and self._allows(each) for each in subjects]
        return self._allows(node_id) and all(readable)

    def _allows(self, node_id: str) -> bool:
        return self.allows_resource(node_id, self._state.last_owner(node_id))

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

    def allows_entity(self, entity_id: str) -> bool:
        """Whether there is or was such a node or edge, and it may be read; an edge is read with both its ends."""
        name, is_node = self._state.edge_name(entity_id), self._state.last_owner(entity_id) is not None
        ends = (name["from"], name["to"]) if name is not None else ()
        return (is_node or bool(ends)) and self.allows_all((*ends, entity_id) if is_node else ends)

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

    def look_back(self, as_of: str | int) -> int:
        """The sequence number that it stands for; from now on what was stale then is warned of. Raises
        InvalidArgument with code UNKNOWN_AS_OF."""
        self._check_past(as_of)
        self._as_of, self._at = as_of, self._state.moment(as_of)
        return self._at

    def _check_past(self, as_of: str | int) -> None:
        """What is still to come may change. Clocks may differ a little, and ours may lag the log's times."""
        if isinstance(as_of, int) or is_commit_id(as_of):
            return
        time, now = milliseconds(as_of), self._state.time_after(self._clock())
        if time is not None and time > now + CLOCKS_DIFFER_MILLISECONDS:
            raise InvalidArgument(
                f"'{as_of}' is still to come: it is {to_text(now)}", code="UNKNOWN_AS_OF", details={"as_of": as_of}
            )

    def warned(
        self, entity_id: str, document: dict[str, Any], edge_attrs: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """The document with the recall that stands against the entity, if one does, and why it is stale, if it is.
        What an edge says is given, unless the document shows it."""
        recall = self._trust.find(entity_id)
        if recall is not None:
            document = document | {"untrusted": {"recall": recall.id, "reason": recall.reason}}
        if edge_attrs is None and "rel" in document:
            edge_attrs = document.get("attrs")
        stale = self.tell(entity_id, edge_attrs)
        return document if stale is None else document | {"stale": msgspec.to_builtins(stale)}

    def tell(self, entity_id: str, edge_attrs: dict[str, Any] | None = None) -> Stale | None:
        """Why it is stale, if it is; and whoever asks is told so."""
        stale = self.stale(entity_id, edge_attrs)
        # Work to verify an atom is made by the knowledge tools.
        if stale is not None and self._at is None and stale.why != staleness.PIN_CHANGED:
            self.stale_told[entity_id] = stale
        return stale

    def stale(self, entity_id: str, edge_attrs: dict[str, Any] | None = None) -> Stale | None:
        """At the moment that is asked about. No index knows what edges say: of one its attributes are given."""
        if edge_attrs is not None and reserved_attributes.NAMES.isdisjoint(edge_attrs):
            edge_attrs = None
        has_pins = self.judges_pins and self._state.has_pins
        if edge_attrs is None and self._at is None and not (self._state.dates_any or has_pins):
            return None
        try:
            return self._judged(entity_id, edge_attrs)
        except Corrupt:
            # Of a successor, perhaps: this entity is served as before.
            return None

    def _judged(self, entity_id: str, edge_attrs: dict[str, Any] | None) -> Stale | None:
        found = self._state.dated(entity_id, self._at)
        attrs = edge_attrs or (found.attrs if found is not None else {})
        pinned = self._pinned(entity_id) if self.judges_pins and self._at is None else None
        if not attrs and found is None and pinned is None:
            return None
        superseded = self._superseded(entity_id, found.successors) if found is not None else None
        changed = self._changed(staleness.citations(attrs)) if self._at is None else ()
        stale = staleness.judge(attrs, self.now, superseded, changed, pinned)
        if stale is None or superseded is None or not self._state.is_redacted(superseded[0], self._at):
            return stale
        return msgspec.structs.replace(stale, successor_redacted=True)

    def _pinned(self, entity_id: str) -> tuple[str, tuple[str, ...]] | None:
        """When its files were pinned, and which of them are not as they were then; None if all are."""
        pin = self._state.pinned_files(entity_id)
        changed = () if pin is None else self._changed(pin)
        return None if pin is None or not changed else (pin.at, changed)

    @cached_property
    def now(self) -> int:
        """One for the whole look; of a look into the past, that moment."""
        if self._as_of is None or not self._at:
            return self._state.time_after(self._clock()) if self._as_of is None else 0
        # A time may lie behind the last commit before it, and something may have run out in between.
        return max(from_text(self._state.timestamp(self._at)), milliseconds(self._as_of) or 0)

    def _superseded(self, entity_id: str, successors: Iterable[str]) -> tuple[str, str] | None:
        """By the end of the chain that may be read and was not recalled, and since when by its first link."""
        first = last = self._successor(successors)
        if first is None or last is None:
            return None
        seen = {entity_id}
        while last not in seen and len(seen) < staleness.CHAIN_MAX:
            seen.add(last)
            further = self._state.dated(last, self._at)
            last = (self._successor(further.successors) if further is not None else None) or last
        last = first if last == entity_id else last
        return last, self._state.superseded_since(entity_id, first, self._at)

    def _successor(self, candidates: Iterable[str]) -> str | None:
        return next((each for each in candidates if self._trust.find(each) is None and self.allows(each)), None)

    def _changed(self, watched: Watched) -> tuple[str, ...]:
        if not watched:
            return ()
        changed = self._changed_files(watched)
        if changed is None and len(self.pending_files) < _PENDING_MAX:
            self.pending_files[watched] = None
        return changed or ()

    def flags(self, ids: Iterable[str]) -> dict[str, list[str]]:
        """Which of them were recalled, and which are stale: for answers that are lists of ids."""
        has_pins = self.judges_pins and self._state.has_pins
        listed = list(ids) if self._state.dates_any or has_pins or self._trust.recalls() else []
        found = {
            "untrusted": [each for each in listed if self._trust.find(each) is not None],
            "stale": [each for each in listed if self.tell(each) is not None],
        }
        return {name: flagged for name, flagged in found.items() if flagged}

    @property
    def _trust(self) -> Trust:
        return self._state.derived(Trust)
