"""The gate: decide, then route to the partition of the principal's tenant.

The only way in, for every door. Denied means: nothing read, nothing appended, the reason said.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator
from typing import TypeVar

import msgspec

from tallystick.commits import Commit, Draft
from tallystick.errors import TallystickError, TooMuch
from tallystick.partition import Look, Partition, Propose, Receipt
from tallystick.policy import Action, Decision, Facts, Policy, Principal
from tallystick.policy.cache import Cache
from tallystick.policy.gate import Gate, Thing
from tallystick.state.ontology import check
from tallystick.state.state import State
from tallystick.tenants import Tenants

T = TypeVar("T")
NARROWING_SECONDS_MAX = 2.0
_ASKED_AT_ONCE = 1_000
_READS = (Action.READ, Action.SEARCH)


class Sight:
    """What the principal may READ of what a look comes across (L33).

    A policy may have to be waited for, a look cannot wait. So what is not known yet is not seen,
    and the look is repeated when it is known; what it said until then reaches nobody.
    """

    def __init__(self, state: State, tenant: str, known: dict[Thing, bool] | None) -> None:
        self._state = state
        self._tenant = tenant
        self._known = known
        self.unknown: dict[Thing, None] = {}

    @property
    def narrows(self) -> bool:
        """False where everything is seen, and nothing need be asked."""
        return self._known is not None

    @property
    def is_clear(self) -> bool:
        """Whether the policy has spoken about everything so far."""
        return not self.unknown

    def sees(self, node_id: str) -> bool:
        """Judged by what the node is now, or was last."""
        if self._known is None:
            return True
        facts = self._state.last_owner(node_id)
        thing = (node_id, Facts(*facts, self._tenant) if facts else Facts())
        seen = self._known.get(thing)
        if seen is None and len(self.unknown) < _ASKED_AT_ONCE:
            self.unknown[thing] = None
        return bool(seen)


NarrowedLook = Callable[[State, Sight], T | Generator[None, None, T]]


class Store:
    def __init__(
        self,
        open_partition: Callable[[str], Awaitable[Partition]] | Tenants,
        policy: Policy | Gate,
        committed: Callable[[str], None] | None = None,
        written: Callable[[Principal, Receipt], Awaitable[None]] | None = None,
    ) -> None:
        """`committed` is told the tenant after each commit: something may follow it. `written` is told what was
        written, by whatever tool, before its caller is: it must be quick where it has nothing to do, and not raise."""
        self.tenants = open_partition if isinstance(open_partition, Tenants) else Tenants(open_partition)
        self._gate = policy if isinstance(policy, Gate) else Gate(policy, cache=Cache(seconds=0))
        self._committed = committed
        self._written = written

    async def read(
        self,
        principal: Principal,
        action: Action,
        look: Look[T],
        *,
        resource: str | None = None,
        min_position: int | None = None,
        is_entity: bool = True,
    ) -> T:
        """Catch up with the log, ask the policy, then `look` at the state.

        An id that only another tenant has is asked about as that tenant's (L34). `is_entity` is False for a
        resource that is no id in anybody's log.
        """
        asking = self._gate.asking(principal, action, resource)
        async with self.tenants.using(principal.tenant) as partition:
            foreign = await self._foreign(partition, principal, action, resource) if is_entity else None

            def decided(state: State) -> object:
                asking.decide(foreign or _facts(state, resource, principal, action))
                return look(state)

            async def attempt() -> T:
                return await partition.look(decided, min_position=min_position)  # type: ignore[arg-type]  # look's own union

            return await asking.through(attempt)

    async def narrowed(
        self,
        principal: Principal,
        action: Action,
        look: NarrowedLook[T],
        *,
        resource: str | None = None,
        min_position: int | None = None,
    ) -> T:
        """`read` for what comes across entities that were not asked for by id: `look` tells only what it sees.

        `look` may be called several times. Raises TooMuch(QUERY_TIMEOUT) when too much of it may not be read.
        """
        asking = self._gate.asking(principal, action, resource)
        known: dict[Thing, bool] = {}
        async with self.tenants.using(principal.tenant) as partition:
            foreign = await self._foreign(partition, principal, action, resource)
            sights: list[Sight] = []

            def decided(state: State) -> object:
                decision: Decision = asking.decide(foreign or _facts(state, resource, principal, action))
                sights[:] = [Sight(state, principal.tenant, known if decision.narrows else None)]
                return look(state, sights[0])

            async def attempt() -> T:
                deadline = time.monotonic() + NARROWING_SECONDS_MAX
                while True:
                    sights.clear()
                    try:
                        answer: T = await partition.look(decided, min_position=min_position)  # type: ignore[arg-type]
                        if sights[0].is_clear:
                            return answer
                    except TallystickError:
                        if not sights or sights[0].is_clear:
                            raise
                    await self._ask_about(principal, list(sights[0].unknown), known)
                    if time.monotonic() > deadline:
                        raise _too_long()

            return await asking.through(attempt)

    async def write(
        self, principal: Principal, action: Action, propose: Propose, *, resource: str | None = None
    ) -> Receipt:
        """Commit what `propose` drafts at the head, if the policy allows it there."""
        asking = self._gate.asking(principal, action, resource)

        def decided(state: State) -> Draft | Commit:
            decision = asking.decide(_facts(state, resource, principal, action))
            proposed = propose(state)
            if isinstance(proposed, Commit):
                return proposed
            check(state, proposed)
            return msgspec.structs.replace(proposed, policy_version=decision.policy_version)

        async with self.tenants.using(principal.tenant) as partition:

            async def facts() -> Facts:
                return await partition.look(lambda state: _facts(state, resource, principal, action))

            receipt = await asking.through(lambda: partition.commit(decided), facts)
        if self._committed is not None:
            self._committed(principal.tenant)
        if self._written is not None:
            await self._written(principal, receipt)
        return receipt

    async def partition(self, principal: Principal) -> Partition:
        """For work on a partition as a whole, which no policy speaks of: snapshots, following the log.

        It may be closed once it was idle for long enough; `tenants.using` keeps it open.
        """
        async with self.tenants.using(principal.tenant) as partition:
            return partition

    def position(self, principal: Principal) -> int:
        """Where the log of the principal's tenant stands; 0 while it is not open."""
        partition = self.tenants.find(principal.tenant)
        return 0 if partition is None else partition.position

    async def close(self) -> None:
        await self.tenants.close()

    # -- below

    async def _ask_about(self, principal: Principal, things: list[Thing], known: dict[Thing, bool]) -> None:
        readable = await self._gate.narrow(principal, things)
        known.update((thing, thing[0] in readable) for thing in things)

    async def _foreign(
        self, partition: Partition, principal: Principal, action: Action, resource: str | None
    ) -> Facts | None:
        """Of an id that is not in the principal's log: whose it is. Nothing more is said of it, not even its owner."""
        if resource is None or action not in _READS or not self.tenants.have_neighbours:
            return None
        if await partition.look(lambda state: state.knows(resource)):
            return None
        tenant = await self.tenants.find_owner(resource, other_than=principal.tenant)
        return None if tenant is None else Facts(tenant=tenant)


def _facts(state: State, resource: str | None, principal: Principal, action: Action) -> Facts:
    """What was deleted is still read, in the past and in its lineage, so it is judged by what it was."""
    if resource is None:
        return Facts()
    known = state.last_owner(resource) if action in _READS else state.owner(resource)
    return Facts(*known, principal.tenant) if known else Facts()


def _too_long() -> TooMuch:
    return TooMuch(
        f"finding out what may be read of it took longer than {NARROWING_SECONDS_MAX:g} s",
        code="QUERY_TIMEOUT",
        hint="narrow it by id, type, an attribute or a time window, or take fewer hops",
    )
