"""Who may: the principal, the decision, and what every policy engine answers.

Knows actions and resources, nothing of tools or storage. What roles may do is written in Rego
(`rules/`, or an operator's own), never here.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, Protocol, runtime_checkable

import msgspec


class Action(StrEnum):
    READ = "READ"
    WRITE = "WRITE"
    DELETE = "DELETE"
    SEARCH = "SEARCH"


class Principal(msgspec.Struct, frozen=True):
    """Who asks, as proven by the transport: a token, or the identity of the configuration."""

    actor: str
    tenant: str = "default"
    roles: tuple[str, ...] = ()
    trusted: bool = True
    """True where the caller may name its own actor (stdio and loopback without an issuer)."""
    tool: str | None = None
    """The tool it asks through."""
    ip_address: str | None = None
    is_program: bool = False
    """Gets the pages it asks for, up to `answer_bytes_max`. A model gets of them what its context can hold (X15)."""
    answer_bytes_max: int = 16 << 20
    session: str | None = None
    """Its MCP session, where the transport has one. No policy gets it: it is nothing to judge by."""


class ResourceFacts(msgspec.Struct, frozen=True):
    """What the state says of a resource; nothing where there is none."""

    type: str | None = None
    owner: str | None = None
    tenant: str | None = None
    """Whose log it is in."""


class Request(msgspec.Struct, frozen=True):
    principal: Principal
    action: Action
    resource: str | None = None
    resource_type: str | None = None
    resource_owner: str | None = None
    resource_owner_tenant: str | None = None
    timestamp: str = ""
    written_type: str | None = None
    """The type that a WRITE gives it, whatever it was before."""


Fault = Literal["undefined", "malformed", "error", "unreachable", "timeout", "breaker", "actor"]
"""Why there was no answer to go by; whichever it is, the decision is no. With `actor` the policy was not asked: the
call named somebody else as its author."""


class Decision(msgspec.Struct, frozen=True):
    allowed: bool
    reason: str
    policy_version: str
    fault: Fault | None = None
    cacheable: bool = True
    """False where the policy says that its answer holds for this moment only."""
    narrows: bool = True
    """False where the policy says that whoever gets this answer may read whatever is found, and change whatever else
    the call changes: then nothing more is asked."""
    reads_everything: bool = False
    """True if the policy grants this principal READ on every entity of the tenant. What a call changes is still
    decided one by one."""

    @property
    def withholds(self) -> bool:
        """Whether entities have to be decided on before they are shown."""
        return self.narrows and not self.reads_everything


@runtime_checkable
class Policy(Protocol):
    """Answers at once, and raises nothing: whatever goes wrong inside is a decision that denies."""

    def decide(self, request: Request) -> Decision: ...


@runtime_checkable
class DistantPolicy(Protocol):
    """Has to be waited for. Raises nothing but cancellation."""

    async def ask(self, request: Request) -> Decision: ...

    async def close(self) -> None: ...


def denial(fault: Fault, reason: str, policy_version: str) -> Decision:
    """No answer means no, and is never kept for later."""
    return Decision(False, reason, policy_version, fault, cacheable=False)
