"""The trust in what was written: recalls, and what they say of entities.

A recall is a node that says why, and pages of the ids that are not to be relied upon until
it is undone, as a whole or for some of them. Nothing else changes: what is untrusted can be
read like everything, and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any, ClassVar

import msgspec

from tallystick.commits import Operation, Verb
from tallystick.errors import Conflict, NotFound
from tallystick.state.derived_index import EdgeVersion, NodeVersion
from tallystick.state.state import State

RESERVED = "trust/"
RECALL = "trust/recall"
PAGE = "trust/page"
PAGE_ENTITIES = 2_000

_ACTIVE = "active"
_UNDONE = "undone"
_CLEARED = "cleared"
"""On a page: those of its entities that are trusted again. On a recall: how many there are."""


class Recall(msgspec.Struct, frozen=True):
    id: str
    reason: str
    created: int
    """Sequence number of the commit that made it."""
    active: bool
    attrs: dict[str, Any]


class Trust:
    types: ClassVar[frozenset[str]] = frozenset({RECALL, PAGE})

    def __init__(self) -> None:
        self._recalls: dict[str, Recall] = {}
        self._named: dict[str, tuple[str, ...]] = {}
        """Entity → the recalls whose pages name it, undone ones included."""

    def find(self, entity_id: str) -> Recall | None:
        """The newest recall that stands against this entity. One lookup for whatever was never recalled."""
        named = self._named.get(entity_id)
        if named is None:
            return None
        standing = [each for each in map(self._recalls.get, named) if each is not None and each.active]
        return max(standing, key=_age, default=None)

    def recalls(self) -> list[Recall]:
        return sorted(self._recalls.values(), key=_age)

    def get(self, recall_id: str) -> Recall:
        found = self._recalls.get(recall_id)
        if found is None:
            raise NotFound(f"there is no recall '{recall_id}'", hint="'tallystick recall --list' names them all")
        return found

    def node_changed(self, before: NodeVersion | None, after: NodeVersion | None) -> None:
        if before is not None:
            self._forget(before)
        if after is not None:
            self._learn(after)

    def edge_changed(self, before: EdgeVersion | None, after: EdgeVersion | None) -> None:
        """Recalls have no edges."""

    def _learn(self, version: NodeVersion) -> None:
        attrs = version.attrs
        if version.type == RECALL:
            # Anything but an explicit "undone" stands: a redacted recall must not set free what it named.
            active = attrs.get("status") != _UNDONE
            self._recalls[version.id] = Recall(version.id, str(attrs.get("reason", "")), version.created, active, attrs)
            return
        for entity_id in _entities(version):
            self._named[entity_id] = (*self._named.get(entity_id, ()), str(attrs.get("recall")))

    def _forget(self, version: NodeVersion) -> None:
        if version.type == RECALL:
            self._recalls.pop(version.id, None)
            return
        for entity_id in _entities(version):
            left = list(self._named.get(entity_id, ()))
            left.remove(str(version.attrs.get("recall")))
            if left:
                self._named[entity_id] = tuple(left)
            else:
                del self._named[entity_id]


def _age(recall: Recall) -> tuple[int, str]:
    return recall.created, recall.id


def _entities(page: NodeVersion) -> list[str]:
    """Those that are not trusted. Once each, so that learning and forgetting are each other's opposite."""
    cleared = set(_ids(page.attrs, _CLEARED))
    return [each for each in dict.fromkeys(_ids(page.attrs, "entities")) if each not in cleared]


def _ids(page: dict[str, Any], name: str) -> list[str]:
    """Whatever a redaction left of them."""
    found = page.get(name)
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


# -- what is written


def recall(recall_id: str, reason: str, entities: Iterable[str], details: dict[str, Any]) -> tuple[Operation, ...]:
    """One recall and as many pages as it takes, to be committed in one draft. `details` say how they were found."""
    named = list(dict.fromkeys(entities))
    pages = [named[start : start + PAGE_ENTITIES] for start in range(0, len(named), PAGE_ENTITIES)]
    attrs = {"reason": reason, "status": _ACTIVE, "entities": len(named), **details}
    return (
        _upsert(recall_id, RECALL, attrs),
        *(_page(recall_id, number, page) for number, page in enumerate(pages, 1)),
    )


def undo(state: State, recall_id: str, reason: str | None, entities: Sequence[str] = ()) -> tuple[Operation, ...]:
    """Trust again what it named, or these of it. Raises NotFound, or Conflict with code ALREADY_UNDONE."""
    found = state.derived(Trust).get(recall_id)
    if not found.active:
        raise Conflict(f"recall '{recall_id}' was undone before", code="ALREADY_UNDONE")
    if entities:
        return _clear(state, found, set(entities), cleared=True)
    why = {"undone_because": reason} if reason else {}
    return (_upsert(recall_id, RECALL, {**found.attrs, "status": _UNDONE, **why}),)


def redo(state: State, recall_id: str, entities: Sequence[str] = ()) -> tuple[Operation, ...]:
    """The inverse of `undo`. Raises NotFound, or Conflict with code NOT_UNDONE."""
    found = state.derived(Trust).get(recall_id)
    if entities:
        return _clear(state, found, set(entities), cleared=False)
    if found.active:
        raise Conflict(f"recall '{recall_id}' was not undone", code="NOT_UNDONE")
    attrs = {name: value for name, value in found.attrs.items() if name != "undone_because"}
    return (_upsert(recall_id, RECALL, {**attrs, "status": _ACTIVE}),)


def _clear(state: State, found: Recall, entities: set[str], *, cleared: bool) -> tuple[Operation, ...]:
    """The recall, which says how many are cleared, and the pages that name these entities."""
    before: set[str] = set()
    named: set[str] = set()
    pages: list[Operation] = []
    for page_id, attrs in _pages(state, found.id):
        here = entities.intersection(_ids(attrs, "entities"))
        were = set(_ids(attrs, _CLEARED))
        named |= here
        before |= were
        if here:
            are = were | here if cleared else were - here
            pages.append(_upsert(page_id, PAGE, {**attrs, _CLEARED: sorted(are)}))
    _check_clearing(found.id, entities, named, before, cleared=cleared)
    left = before | entities if cleared else before - entities
    return (_upsert(found.id, RECALL, {**found.attrs, _CLEARED: len(left)}), *pages)


def _check_clearing(recall_id: str, entities: set[str], named: set[str], before: set[str], *, cleared: bool) -> None:
    if unknown := sorted(entities - named):
        raise NotFound(
            f"recall '{recall_id}' does not name '{unknown[0]}'", hint=f"'tallystick show {recall_id}/1' lists them"
        )
    if cleared and (again := sorted(entities & before)):
        raise Conflict(f"'{again[0]}' was cleared of recall '{recall_id}' before", code="ALREADY_UNDONE")
    if not cleared and (never := sorted(entities - before)):
        raise Conflict(f"'{never[0]}' was not cleared of recall '{recall_id}'", code="NOT_UNDONE")


def _pages(state: State, recall_id: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for number in count(1):
        page = state.node(f"{recall_id}/{number}")
        if page is None or page.type != PAGE:
            return
        yield page.id, page.attrs


def _page(recall_id: str, number: int, entities: Sequence[str]) -> Operation:
    return _upsert(f"{recall_id}/{number}", PAGE, {"recall": recall_id, "entities": list(entities)})


def _upsert(node_id: str, kind: str, attrs: dict[str, Any]) -> Operation:
    return Operation(Verb.UPSERT_NODE, {"id": node_id, "type": kind, "attrs": attrs})
