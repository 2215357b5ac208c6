"""The gate: decide, then route to the partition of the principal's tenant.

The only way in, for every door. Denied means: nothing read, nothing appended, the reason said.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from tallystick.commits import Commit, Draft
from tallystick.errors import InvalidArgument
from tallystick.partition import Look, Partition, Propose, Receipt
from tallystick.policy import Action, Facts, Policy, Principal
from tallystick.policy.cache import Cache
from tallystick.policy.gate import Gate
from tallystick.state.ontology import check
from tallystick.state.state import State

T = TypeVar("T")
_TENANT = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


class Store:
    def __init__(
        self,
        open_partition: Callable[[str], Awaitable[Partition]],
        policy: Policy | Gate,
        committed: Callable[[str], None] | None = None,
        written: Callable[[Principal, Receipt], Awaitable[None]] | None = None,
    ) -> None:
        """`committed` is told the tenant after each commit: something may follow it. `written` is told what was
        written, by whatever tool, before its caller is: it must be quick where it has nothing to do, and not raise."""
        self._open_partition = open_partition
        self._gate = policy if isinstance(policy, Gate) else Gate(policy, cache=Cache(seconds=0))
        self._committed = committed
        self._written = written
        self._partitions: dict[str, asyncio.Future[Partition]] = {}

    async def read(
        self,
        principal: Principal,
        action: Action,
        look: Look[T],
        *,
        resource: str | None = None,
        min_position: int | None = None,
    ) -> T:
        """Catch up with the log, ask the policy, then `look` at the state."""
        partition = await self._partition(principal.tenant)

        asking = self._gate.asking(principal, action, resource)

        def decided(state: State) -> object:
            asking.decide(_facts(state, resource, principal))
            return look(state)

        async def attempt() -> T:
            return await partition.look(decided, min_position=min_position)  # type: ignore[arg-type]  # look's own union

        return await asking.through(attempt)

    async def write(
        self, principal: Principal, action: Action, propose: Propose, *, resource: str | None = None
    ) -> Receipt:
        """Commit what `propose` drafts at the head, if the policy allows it there."""
        partition = await self._partition(principal.tenant)

        asking = self._gate.asking(principal, action, resource)

        def decided(state: State) -> Draft | Commit:
            decision = asking.decide(_facts(state, resource, principal))
            proposed = propose(state)
            if isinstance(proposed, Commit):
                return proposed
            check(state, proposed)
            return msgspec.structs.replace(proposed, policy_version=decision.policy_version)

        async def facts() -> Facts:
            return await partition.look(lambda state: _facts(state, resource, principal))

        receipt = await asking.through(lambda: partition.commit(decided), facts)
        if self._committed is not None:
            self._committed(principal.tenant)
        if self._written is not None:
            await self._written(principal, receipt)
        return receipt

    async def partition(self, principal: Principal) -> Partition:
        """For work on a partition as a whole, which no policy speaks of: snapshots, following the log."""
        return await self._partition(principal.tenant)

    def position(self, principal: Principal) -> int:
        """Where the log of the principal's tenant stands; 0 while it is not open."""
        opened = self._partitions.get(principal.tenant)
        return opened.result().position if opened is not None and _is_open(opened) else 0

    async def close(self) -> None:
        for opened in self._partitions.values():
            if _is_open(opened):
                await opened.result().close()
        self._partitions.clear()

    async def _partition(self, tenant: str) -> Partition:
        opened = self._partitions.get(tenant)
        if opened is None:
            if not _TENANT.fullmatch(tenant):
                raise InvalidArgument(f"{tenant!r} is not a tenant id: lower-case letters, digits, - and _ only")
            opened = asyncio.ensure_future(self._open_partition(tenant))
            self._partitions[tenant] = opened
        try:
            return await asyncio.shield(opened)
        except Exception:
            # Not remembered: what stood against it (a lock, a full disk) may be gone next time.
            self._partitions.pop(tenant, None)
            raise


def _facts(state: State, resource: str | None, principal: Principal) -> Facts:
    known = state.owner(resource) if resource is not None else None
    return Facts(*known, principal.tenant) if known else Facts()


def _is_open(opened: asyncio.Future[Partition]) -> bool:
    return opened.done() and not opened.cancelled() and opened.exception() is None
