"""Who may: the principal, the decision, and what every policy engine answers.

Knows actions and resources, nothing of tools or storage.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

import msgspec


class Action(StrEnum):
    READ = "READ"
    WRITE = "WRITE"
    DELETE = "DELETE"
    SEARCH = "SEARCH"


class Principal(msgspec.Struct, frozen=True):
    """Who asks, as proven by the door they came through."""

    actor: str
    tenant: str = "default"
    roles: tuple[str, ...] = ()
    trusted: bool = True
    """True where the caller may name its own actor (stdio and loopback without an issuer)."""


class Request(msgspec.Struct, frozen=True):
    principal: Principal
    action: Action
    resource: str | None = None
    resource_type: str | None = None
    resource_owner: str | None = None


class Decision(msgspec.Struct, frozen=True):
    allowed: bool
    reason: str
    policy_version: str


class Policy(Protocol):
    def decide(self, request: Request) -> Decision: ...
