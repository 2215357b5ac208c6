"""The sections of projects and nodes: texts that the tasks vocabulary writes, which work shows and moves."""

from __future__ import annotations

from bisect import insort
from typing import ClassVar

import msgspec

from tallystick.state import Breathing
from tallystick.state.attributes import integer_of, text_of
from tallystick.state.derived_index import EdgeVersion, NodeVersion
from tallystick.state.stored_index import loading

SECTION = "tasks/section"
_read_sections = msgspec.msgpack.Decoder(dict[str, list[tuple[int, str]]]).decode


class Sections:
    """Ids of sections in order, by the entity that they belong to."""

    types: ClassVar[frozenset[str]] = frozenset({SECTION})
    stored_as: ClassVar[str] = "sections-1"

    def __init__(self) -> None:
        self._by_entity: dict[str, list[tuple[int, str]]] = {}

    def of(self, entity_id: str) -> list[str]:
        """In order."""
        return [section_id for _, section_id in self._by_entity.get(entity_id, ())]

    def dump(self) -> bytes:
        return msgspec.msgpack.encode(self._by_entity)

    def load(self, content: memoryview) -> Breathing[None]:
        with loading():
            self._by_entity = _read_sections(content)
        yield

    def node_changed(self, before: NodeVersion | None, after: NodeVersion | None) -> None:
        if before is not None:
            entity = text_of(before.attrs, "entityId")
            self._by_entity[entity].remove((integer_of(before.attrs, "ordinal", 0), before.id))
            if not self._by_entity[entity]:
                del self._by_entity[entity]
        if after is not None:
            entity, place = text_of(after.attrs, "entityId"), integer_of(after.attrs, "ordinal", 0)
            insort(self._by_entity.setdefault(entity, []), (place, after.id))

    def edge_changed(self, before: EdgeVersion | None, after: EdgeVersion | None) -> None:
        """They are joined by ids."""
