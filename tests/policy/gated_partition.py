"""A store with the gate before it: real partition, state and log behind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from tallystick.audit import Decided, Event
from tallystick.audit.files import AuditFiles
from tallystick.audit.proof import events
from tallystick.audit.writer import AuditWriter
from tallystick.clock import from_text
from tallystick.commits import Commit, Draft, Operation, Verb
from tallystick.engine.partition import Partition, Propose, Receipt
from tallystick.log.memory import MemoryLog
from tallystick.policy import Action, Decision, DistantPolicy, Policy, Principal, Request, ResourceFacts
from tallystick.policy.cache import Cache
from tallystick.policy.embedded import Embedded
from tallystick.policy.gate import Authorization, Gate
from tallystick.state.state import State

NOON = from_text("2025-01-04T12:00:00Z")
T = TypeVar("T")


class Counting(Embedded):
    """How often it was asked."""

    asked = 0

    def decide(self, request: Request) -> Decision:
        self.asked += 1
        return super().decide(request)


class GatedPartition:
    def __init__(self, policy: Policy | DistantPolicy, home: Path, *, cache: Cache | None = None) -> None:
        self.now = NOON
        self.home = home
        self.partition = Partition(MemoryLog(), clock=self._clock)
        self.audit = AuditWriter(lambda tenant: AuditFiles(home / tenant, clock=self._clock), clock=self._clock)
        self.gate = Gate(policy, audit=self.audit, cache=cache, clock=self._clock)

    def _clock(self) -> int:
        return self.now

    async def read(
        self,
        principal: Principal,
        look: Callable[[State], T],
        resource: str | None = None,
        action: Action = Action.READ,
    ) -> T:
        authorization = Authorization(self.gate, principal, action, resource)

        def decided(state: State) -> T:
            authorization.decide(facts_of(state, resource, principal))
            return look(state)

        return await authorization.through(lambda: self.partition.look(decided))

    async def write(self, principal: Principal, action: Action, propose: Propose, resource: str) -> Receipt:
        authorization = Authorization(self.gate, principal, action, resource)

        def decided(state: State) -> Draft | Commit:
            decision = authorization.decide(facts_of(state, resource, principal))
            proposed = propose(state)
            assert isinstance(proposed, Draft)
            return msgspec.structs.replace(proposed, policy_version=decision.policy_version)

        async def facts() -> ResourceFacts:
            return await self.partition.look(lambda state: facts_of(state, resource, principal))

        return await authorization.through(lambda: self.partition.commit(decided), facts)

    async def put(self, principal: Principal, name: str) -> Receipt:
        payload = {"id": name, "type": "note", "attrs": {}}
        draft = Draft((Operation(Verb.UPSERT_NODE, payload),), principal.actor, "test")
        return await self.write(principal, Action.WRITE, lambda state: draft, name)

    async def delete(self, principal: Principal, name: str) -> Receipt:
        draft = Draft((Operation(Verb.DELETE_NODE, {"node_id": name}),), principal.actor, "test")
        return await self.write(principal, Action.DELETE, lambda state: draft, name)

    def audited(self, tenant: str = "default") -> list[Event]:
        """Every event but those that the files themselves begin with."""
        self.audit.flush()
        return [event for _, event in events(self.home / tenant, Event) if event.name != "AUDIT_FILE"]

    def decided(self) -> list[Decided]:
        return [event for event in self.audited() if isinstance(event, Decided)]

    async def close(self) -> None:
        await self.gate.close()
        await self.partition.close()
        self.audit.close()


def facts_of(state: State, resource: str | None, principal: Principal) -> ResourceFacts:
    known = state.owner(resource) if resource is not None else None
    return ResourceFacts(*known, principal.tenant) if known else ResourceFacts()


class AwaitedPolicy:
    """A policy that has to be awaited; `meanwhile` happens before each of its answers arrives."""

    def __init__(self, rule: Callable[[Request], bool]) -> None:
        self.rule = rule
        self.asked: list[Request] = []
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    async def ask(self, request: Request) -> Decision:
        self.asked.append(request)
        decision = Decision(self.rule(request), "by the rule", "distant@1")
        if self.meanwhile is not None:
            await self.meanwhile()
        return decision

    async def close(self) -> None: ...
