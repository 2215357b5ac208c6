"""Several tenants in one store: real partitions, state, policy and audit, and every tool of the log's vocabularies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson

from tallystick.audit import Decided, Event
from tallystick.audit.files import AuditFiles
from tallystick.audit.proof import events
from tallystick.audit.writer import AuditWriter
from tallystick.engine.partition import Partition
from tallystick.engine.store import Store
from tallystick.engine.tenants import Tenants
from tallystick.extensions.ontology import toolset as ontology
from tallystick.log.files import FilesLog
from tallystick.policy import DistantPolicy, Policy, Principal
from tallystick.policy.cache import Cache
from tallystick.policy.gate import Gate
from tallystick.projections.content import Contents
from tallystick.server.dispatch import Broken, Done, Refused, call, choose
from tallystick.toolsets import knowledge, memory, work

TENANTS = ("acme", "globex")


class MultiTenantStore:
    def __init__(self, home: Path, policy: Policy | DistantPolicy, **tenants: Any) -> None:
        self.home = home
        self.seconds = 0.0
        self.audit = AuditWriter(lambda tenant: AuditFiles(home / tenant / "audit"))
        self.opened: list[str] = []
        self.closed: list[str] = []
        made = Tenants(self._open, exist=self._exist, closed=self._note_closed, now=lambda: self.seconds, **tenants)
        self.store = Store(made, Gate(policy, audit=self.audit, cache=Cache(seconds=0)))
        sets = (
            memory.toolset(),
            work.toolset(),
            knowledge.TOOLSET,
            ontology.make_toolset(lambda tenant: Contents(home / tenant), None),
        )
        self.tools = choose(sets)

    async def call(self, principal: Principal, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """What the caller is told, refused or not."""
        outcome = await call(self.tools.get(tool), arguments, self.store, lambda: principal)
        assert not isinstance(outcome, Broken), tool
        return outcome.data if isinstance(outcome, Done) else outcome.shape

    async def refused(self, principal: Principal, tool: str, /, **arguments: Any) -> Refused:
        outcome = await call(self.tools.get(tool), arguments, self.store, lambda: principal)
        assert isinstance(outcome, Refused), outcome
        return outcome

    async def node(self, principal: Principal, node_id: str, kind: str = "note", /, **attrs: Any) -> None:
        told = await self.call(
            principal, "memory.write", op="UPSERT_NODE", node={"id": node_id, "type": kind, "attrs": attrs}
        )
        assert "commit_id" in told, told

    async def edge(self, principal: Principal, source: str, rel: str, target: str, /) -> None:
        told = await self.call(
            principal, "memory.write", op="UPSERT_EDGE", edge={"from": source, "rel": rel, "to": target}
        )
        assert "commit_id" in told, told

    def decided(self, tenant: str) -> list[tuple[int, Decided]]:
        self.audit.flush()
        found = events(self.home / tenant / "audit", Event)
        return [(seq, event) for seq, event in found if isinstance(event, Decided)]

    async def _open(self, tenant: str) -> Partition:
        self.opened.append(tenant)
        partition = Partition(FilesLog(self.home / tenant / "_system"), tenant=tenant)
        await partition.open()
        return partition

    def _exist(self) -> list[str]:
        return [tenant for tenant in TENANTS if (self.home / tenant / "_system").is_dir()]

    async def _note_closed(self, tenant: str) -> None:
        self.closed.append(tenant)


@asynccontextmanager
async def multi_tenant_store(
    home: Path, policy: Policy | DistantPolicy, **tenants: Any
) -> AsyncIterator[MultiTenantStore]:
    base = MultiTenantStore(home, policy, **tenants)
    try:
        yield base
    finally:
        await base.store.close()
        base.audit.close()


def bytes_of(told: object) -> bytes:
    return orjson.dumps(told)
