"""Walks in an engine: the neighbours of many entities at once, for a walk that is too long for the memory.

A walk goes step by step, so that it costs what it finds, and so that whoever asks can leave out what may not be read
before going on from it. It has a budget; what it is likely to cost is said before it begins.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Literal

import msgspec

from tallystick.errors import InvalidArgument, LimitExceeded
from tallystick.extensions.cypher.delegation import delegate
from tallystick.extensions.cypher.engine import EngineAway, EngineThread
from tallystick.projections.worker import ProjectionWorker

if TYPE_CHECKING:
    from tallystick.engine.store import Store
    from tallystick.policy import Principal
    from tallystick.toolsets.memory.search import Degraded, Delegated
    from tallystick.toolsets.memory.search_query import SearchQuery

Direction = Literal["out", "in", "both"]
FoundEdge = tuple[str, str, str, str | None]
"""Source, relation, target, and the id that its author chose, if any."""

_EDGES_PER_NODE = 20
"""Of an answer: more than that for each entity that the budget allows is more than is looked at."""
_AWAY_SECONDS = 5.0
"""So long nobody waits for an engine that did not answer."""
_SHARE = 0.2
"""Of a new measurement in the mean."""

_PATTERNS: dict[Direction, tuple[str, ...]] = {
    "out": ("(a:Entity {id: id})-[e:EDGE]->(:Entity)",),
    "in": ("(a:Entity {id: id})<-[e:EDGE]-(:Entity)",),
    "both": ("(a:Entity {id: id})-[e:EDGE]->(:Entity)", "(a:Entity {id: id})<-[e:EDGE]-(:Entity)"),
}


class Budget(msgspec.Struct, frozen=True):
    nodes: int = 10_000
    milliseconds: float = 1_000.0


class GraphWalks:
    """Of one tenant."""

    def __init__(
        self,
        engine: EngineThread,
        tenant: str,
        worker: ProjectionWorker,
        budget: Budget,
        *,
        used: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.budget = budget
        self._engine = engine
        self._graph = engine.address.graph_of(tenant)
        self._worker = worker
        self._used = used
        self._away_until = 0.0
        self._node_ms, self._step_ms = 0.02, 2.0

    async def delegate(
        self, store: Store, principal: Principal, sought: SearchQuery, *, is_long: bool
    ) -> Delegated | Degraded:
        return await delegate(store, principal, sought, self, is_long=is_long)

    def close(self) -> None: ...

    async def name(self) -> str:
        return await self._engine.run(self._engine.engine.name())

    async def require_at(self, position: int, seconds: float) -> None:
        """Raises EngineAway when it does not answer, or does not get to the position in that time."""
        if time.monotonic() < self._away_until:
            raise EngineAway(f"{self._engine.address.shown} did not answer a moment ago")
        with self._used():
            if not await self._worker.reached(position, seconds):
                at = self._worker.position.lamport
                self._away_until = time.monotonic() + _AWAY_SECONDS
                raise EngineAway(f"it is at position {at}, and the log at {position}", code="CYPHER_BEHIND")

    def estimate_ms(self, nodes: int, steps: int) -> float:
        """From what walks took until now."""
        return round(nodes * self._node_ms + steps * self._step_ms, 1)

    def measured(self, nodes: int, steps: int, milliseconds: float) -> None:
        """What a walk took: mostly its questions where it found little, mostly its entities where it found much."""
        if nodes > 100:
            self._node_ms += _SHARE * (milliseconds / nodes - self._node_ms)
        else:
            self._step_ms += _SHARE * (milliseconds / max(steps, 1) - self._step_ms)

    async def neighbours(
        self, ids: Sequence[str], direction: Direction, relations: Sequence[str], seconds: float
    ) -> list[FoundEdge]:
        """The edges of these entities. Raises EngineAway for no answer in time, and for one that is none."""
        where = " WHERE e.rel IN $relations" if relations else ""
        rows_max = self.budget.nodes * _EDGES_PER_NODE
        engine = self._engine.engine
        found: dict[str, FoundEdge] = {}
        for pattern in _PATTERNS[direction]:
            text = f"UNWIND $ids AS id MATCH {pattern}{where} RETURN e.key, e.source, e.rel, e.target LIMIT {rows_max}"
            asked = engine.read(
                self._graph,
                text,
                {"ids": list(ids), "relations": list(relations)},
                seconds=seconds,
                rows_max=rows_max,
            )
            try:
                async with asyncio.timeout(seconds):
                    answer = await self._engine.run(asked)
            except TimeoutError as error:
                raise self._gone(EngineAway("it takes too long to answer", code="CYPHER_LATE")) from error
            except (InvalidArgument, LimitExceeded) as error:
                raise self._gone(EngineAway(f"it cannot answer: {error.message}", code="CYPHER_WRONG")) from error
            except EngineAway as error:
                raise self._gone(error) from error
            for row in answer.rows:
                if len(row) != 4 or not all(isinstance(each, str) for each in row):
                    raise self._gone(EngineAway("its answer names no edges", code="CYPHER_WRONG"))
                key, source, relation, target = row
                kind, _, name = key.partition(":")
                # What it says twice counts once.
                found[key] = source, relation, target, name if kind == "own" else None
        return list(found.values())

    def _gone(self, error: EngineAway) -> EngineAway:
        self._away_until = time.monotonic() + _AWAY_SECONDS
        return error
