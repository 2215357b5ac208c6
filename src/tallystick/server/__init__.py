"""How they reach us: MCP over stdio and HTTP, and the same tools as plain REST.

Knows protocols and no rules: it is handed toolsets and a store, checks the shape of what
arrives, calls the tool, and puts the outcome into the words of the protocol. It never looks
into the store. `dispatch` is common to all doors; `mcp` and `rest` are the doors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from tallystick.engine.sessions import Sessions
from tallystick.policy import Principal
from tallystick.policy.visible_names import is_visible

if TYPE_CHECKING:
    from tallystick.engine.store import Store
    from tallystick.server.dispatch import Tools
    from tallystick.server.limits import Quotas, SessionQuota
    from tallystick.toolsets import Tool

ToolNames = Literal["auto", "dotted", "underscore"]
ValidationErrors = Literal["auto", "rpc", "result"]

BODY_BYTES_MAX = 8 * 1024 * 1024


class Client(msgspec.Struct, frozen=True):
    """The program that speaks to us, as it said itself."""

    name: str | None = None
    session: str | None = None
    """Of `Sessions`; None where the protocol has none."""


BEHIND_KEY = "behind_seconds"
"""In `_meta` of a result, where it may be older than what other machines acknowledged."""
NOBODY = Client()
_NAME_LENGTH_MAX = 255


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What every door offers, and to whom."""

    tools: Tools
    store: Store
    principal_of: Callable[[Mapping[str, Any] | None], Principal]
    """From the ASGI scope, or None on stdio. May raise Denied."""
    version: str
    sessions: Sessions = msgspec.field(default_factory=Sessions)
    names_clients: bool = False
    """Whether a client's own name says who writes: where nothing else does (X7)."""
    session_seconds: float = 86_400.0
    """How long a session over HTTP lasts at most."""
    session_quota: SessionQuota | None = None
    quotas: Quotas | None = None
    """What each tenant may ask for in a minute; None where nobody is counted."""
    name: str = "tallystick"
    instructions: str | None = None
    """What a client's agent reads first; by default written from the toolsets."""
    tool_names: ToolNames = "auto"
    validation_errors: ValidationErrors = "auto"
    """`auto` leaves it to the toolset and the protocol whether bad arguments are a JSON-RPC error or a result (L23)."""
    answer_bytes_max: int = 16 << 20
    """The bytes of lists in an answer for a program."""
    body_bytes_max: int = BODY_BYTES_MAX
    line_bytes_max: int = BODY_BYTES_MAX
    """On stdio: whatever a tool would take must come through."""
    confirms: bool = True
    """Whether the person at the client, where it can ask, is asked before what cannot be undone."""
    position: Callable[[], int] | None = None
    """Where the log stands, for /health."""
    not_live: Callable[[], str | None] = lambda: None
    """Why this process has to be started again, for /health/live; None while it has not."""
    not_ready: Callable[[], str | None] = lambda: None
    """Why calls had better go to another process now, for /health/ready."""
    behind_seconds: Callable[[], float] = float
    """How old what is read here may be, where other machines write too."""

    def caller(
        self, scope: Mapping[str, Any] | None, tool: Tool, client: Client = NOBODY, *, is_program: bool = False
    ) -> Principal:
        """Who calls which tool, and counted. Raises Denied, or LimitExceeded(RATE_LIMITED)."""
        principal = self.principal_of(scope)
        if self.quotas is not None:
            self.quotas.check(principal, writes=not tool.reads_only)
        name = client.name if self.names_clients and is_name(client.name) else None
        return msgspec.structs.replace(
            principal,
            actor=name or principal.actor,
            tool=tool.name,
            is_program=is_program,
            answer_bytes_max=self.answer_bytes_max,
            session=client.session,
        )


@lru_cache(maxsize=1_000)
def is_name(said: str | None) -> bool:
    """Anything can be said in a handshake. What is no name counts as not said."""
    return said is not None and len(said) <= _NAME_LENGTH_MAX and said.isprintable() and is_visible(said)
