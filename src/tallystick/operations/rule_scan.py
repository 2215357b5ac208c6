"""Entities that break a rule of their vocabulary although the log is sound: found by reading the whole log.

Every write is judged, so there are none, unless they were written before a rule was, or by another program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tallystick.commits import Commit, Verb, chain
from tallystick.commits.mask import REDACTED
from tallystick.commits.payloads import name_of_edge
from tallystick.log.unopened import unopened
from tallystick.state.attributes import find_text, object_of
from tallystick.state.work import DEPENDS_ON, NODE, PROJECT
from tallystick.state.work.graph import folded_name
from tallystick.toolsets.entity_rules import references, rule_of, version_of

LIMIT = 20


class BrokenRule(msgspec.Struct, frozen=True):
    entity: str
    problem: str
    advice: str


class _Entity(msgspec.Struct, frozen=True):
    type: str
    position: int
    version: int | None
    name: str | None
    refers_to: tuple[tuple[str, str], ...]
    """Attribute and id of what has to be there."""


def scan_log(system: Path) -> list[BrokenRule]:
    """Reads the files of a log that is sound, up to its stored head, without opening it. The first of each kind."""
    with unopened(system) as log:
        scan = RuleScan()
        for _, line, _ in log.segments.lines(0, log.end):
            scan.add(chain.decode(line))
    return list(scan.broken())


class RuleScan:
    """Keeps a few words of each entity that has rules, and nothing of the others."""

    def __init__(self) -> None:
        self._entities: dict[str, _Entity] = {}
        self._positions: dict[str, int] = {}
        """Of the newest version of each entity, also of one that is gone."""
        self._highest: dict[str, int] = {}
        self._waits: dict[str, tuple[str, str]] = {}

    def add(self, commit: Commit) -> None:
        document = commit.document()
        if commit.operation is Verb.UPSERT_NODE:
            self._write(document, commit.lamport)
        elif commit.operation is Verb.DELETE_NODE:
            self._entities.pop(document["node_id"], None)
        elif commit.operation is Verb.UPSERT_EDGE and document["rel"] == DEPENDS_ON:
            self._waits[name_of_edge(document)] = document["from"], document["to"]
        elif commit.operation is Verb.DELETE_EDGE and document["rel"] == DEPENDS_ON:
            self._waits.pop(name_of_edge(document), None)

    def _write(self, document: Mapping[str, Any], position: int) -> None:
        node_id, node_type, attrs = document["id"], document["type"], object_of(document, "attrs")
        self._entities.pop(node_id, None)
        rule = rule_of(node_type)
        if not rule.references and not rule.version:
            return
        version = version_of(node_type, attrs)
        refers_to = tuple((reference.attribute, named) for reference, named in references(node_type, attrs))
        name = find_text(attrs, "name") if node_type == PROJECT and attrs.get("name") != REDACTED else None
        self._entities[node_id] = _Entity(node_type, position, version, name, refers_to)
        self._positions[node_id] = position
        self._highest[node_id] = max(version or 0, self._highest.get(node_id, 0))

    def broken(self) -> Iterator[BrokenRule]:
        for found in (self._rings(), self._circles(), self._namesakes(), self._dangling(), self._gone_back()):
            yield from (each for each, _ in zip(found, range(LIMIT), strict=False))

    def _rings(self) -> Iterator[BrokenRule]:
        parents = {
            node_id: [parent for attribute, parent in entity.refers_to if attribute == "parent"]
            for node_id, entity in self._entities.items()
            if entity.type == NODE
        }
        for ring in find_rings(parents):
            what = f"is its own ancestor: {' is below '.join([*ring, ring[0]])}"
            yield BrokenRule(ring[0], what, f"move it elsewhere: graph_restructure, op move, node_id {ring[0]}")

    def _circles(self) -> Iterator[BrokenRule]:
        waits: dict[str, list[str]] = {}
        for source, target in self._waits.values():
            if all(self._is_work(each) for each in (source, target)):
                waits.setdefault(source, []).append(target)
        for ring in find_rings(waits):
            second = [*ring, ring[0]][1]
            what = f"waits for itself: {' waits for '.join([*ring, ring[0]])}"
            advice = f"take one dependency away: graph_connect, from {ring[0]}, to {second}, remove true"
            yield BrokenRule(ring[0], what, advice)

    def _is_work(self, node_id: str) -> bool:
        entity = self._entities.get(node_id)
        return entity is not None and entity.type == NODE

    def _namesakes(self) -> Iterator[BrokenRule]:
        first: dict[str, str] = {}
        for node_id, entity in sorted(self._entities.items(), key=lambda pair: pair[1].position):
            if entity.name is not None and (other := first.setdefault(folded_name(entity.name), node_id)) != node_id:
                what = f"is called '{entity.name}', as project '{other}' is"
                yield BrokenRule(node_id, what, "give one of them another name: manage_container, operation update")

    def _dangling(self) -> Iterator[BrokenRule]:
        for node_id, entity in self._entities.items():
            for attribute, named in entity.refers_to:
                if named not in self._entities:
                    yield BrokenRule(
                        node_id, f"names as its {attribute} '{named}', which is not there", self._back(named)
                    )

    def _back(self, node_id: str) -> str:
        position = self._positions.get(node_id)
        if position is None:
            return "delete it, or write it anew without that"
        return f"put that back: tallystick restore-entity {node_id} --as-of {position}"

    def _gone_back(self) -> Iterator[BrokenRule]:
        for node_id, entity in self._entities.items():
            if entity.version is not None and entity.version < self._highest[node_id]:
                what = f"has version {entity.version}, and had version {self._highest[node_id]} before"
                advice = f"raise it past that: tallystick restore-entity {node_id} --as-of {entity.position}"
                yield BrokenRule(node_id, what, advice)


def find_rings(targets: Mapping[str, Iterable[str]]) -> Iterator[list[str]]:
    """One ring for each that a depth-first search comes upon; every ring there is shares an edge with one of them."""
    settled: set[str] = set()
    for start in targets:
        path: dict[str, Iterator[str]] = {} if start in settled else {start: iter(targets[start])}
        while path:
            here = next(reversed(path))
            ahead = next(path[here], None)
            if ahead is None:
                settled.add(here)
                del path[here]
            elif ahead in path:
                line = list(path)
                yield line[line.index(ahead) :]
            elif ahead not in settled and ahead in targets:
                path[ahead] = iter(targets[ahead])
