"""The graph in an engine beside what the log gives: every entity and every edge, with all its properties."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tallystick.commits import REDACTIONS
from tallystick.errors import Corrupt, TallystickError
from tallystick.extensions.cypher.engine import WRITE_SECONDS, EngineThread
from tallystick.extensions.cypher.projection import Changes, CypherProjection, Properties
from tallystick.log import Head
from tallystick.projections.consistency_check.replay import Finding, Subject, copy_database, damage
from tallystick.projections.row_diff import shown

_PAGE_ROWS = 2_000
_NODES = "MATCH (n:Entity) WHERE n.id > $last RETURN n ORDER BY n.id LIMIT $most"
_EDGES = "MATCH (:Entity)-[e:EDGE]->(:Entity) WHERE e.key > $last RETURN e ORDER BY e.key LIMIT $most"


def findings(one: Subject) -> Iterator[Finding]:
    engine: EngineThread | None = one.place.parts.get("cypher")
    for what in damage(one, lambda: copy_database(one)):
        yield Finding("cypher", one.where, "", what)
        return
    projection = CypherProjection(one.home, engine, one.place.tenant)
    try:
        until = projection.position()
        if engine is not None:
            yield from _compared(one, engine, projection.graph, until)
    except TallystickError as error:
        if isinstance(error, Corrupt):
            raise
        one.not_compared = error.message
        yield Finding("cypher", one.where, "", error.message, "waits")
    finally:
        projection.close()


def _compared(one: Subject, engine: EngineThread, graph: str, until: Head) -> Iterator[Finding]:
    head = one.log.head()
    one.position, one.behind = until.lamport, head.count - until.count
    if until == Head():
        one.not_compared = "it has seen nothing of the log yet"
        return
    if one.behind and any(entry.commit.operation in REDACTIONS for entry in one.log.read(until)):
        one.not_compared = "it has not seen a redaction yet, so the log cannot be replayed up to where it is"
        return
    expected = Changes(lambda text, parameters: None)
    for entry in one.log.read(Head()):
        if entry.end > until.end:
            break
        expected.add(entry.commit)
        one.progress(entry.end)
    yield from _differing(graph, "node", "id", expected.nodes, _pages(engine, graph, _NODES, "id"))
    yield from _differing(graph, "edge", "key", expected.edges, _pages(engine, graph, _EDGES, "key"))


def _pages(engine: EngineThread, graph: str, text: str, key: str) -> Iterator[Properties]:
    last = ""
    while True:
        asked: dict[str, Any] = {"last": last, "most": _PAGE_ROWS}
        work = engine.engine.read(graph, text, asked, seconds=WRITE_SECONDS, rows_max=_PAGE_ROWS, is_follower=True)
        rows = engine.wait_for(work).rows
        yield from (row[0] for row in rows)
        if len(rows) < _PAGE_ROWS:
            return
        last = rows[-1][0][key]


def _differing(
    graph: str, kind: str, key: str, expected: dict[str, Properties | None], found: Iterator[Properties]
) -> Iterator[Finding]:
    missing = {each for each, left in expected.items() if left is not None}
    for properties in found:
        name = str(properties.get(key))
        if (right := expected.get(name)) is None:
            yield Finding("cypher", f"{graph}, {kind}", shown(name), "does not follow from the log")
        elif properties != right:
            differing = sorted(each for each in properties | right if properties.get(each) != right.get(each))
            yield Finding("cypher", f"{graph}, {kind}", shown(name), f"differs in {', '.join(map(shown, differing))}")
        missing.discard(name)
    for name in sorted(missing):
        yield Finding("cypher", f"{graph}, {kind}", shown(name), "is missing")
