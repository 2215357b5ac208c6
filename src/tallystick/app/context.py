"""The context that an extension is passed: the settings of a process, and the parts that the core has built."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tallystick.config import Settings
from tallystick.policy import Principal

if TYPE_CHECKING:
    from tallystick.app.tenant_projections import AllProjections
    from tallystick.engine.sessions import Sessions
    from tallystick.engine.store import Store
    from tallystick.server import Offer
    from tallystick.server.oauth.guard import Admission
    from tallystick.server.workers import Worker
    from tallystick.toolsets.knowledge.context import ToolContext


class AppContext(msgspec.Struct, frozen=True, kw_only=True):
    settings: Settings
    projections: AllProjections | None = None
    """None in a process that does not serve: tools can then be listed, and not all be called."""
    sessions: Sessions | None = None
    knowledge: ToolContext | None = None
    """The repository and the claims, which toolsets share; None before the toolsets are built."""
    store: Callable[[], Store] | None = None
    """Returns the store. It is there once the toolsets are built."""
    offer: Offer | None = None
    """The tools and the store that callers are offered, for routes and pages."""
    admission: Admission | None = None
    """Checks tokens over HTTP. None if no token is needed."""
    worker: Worker | None = None
    """This process among several behind one address. None if it is the only one."""

    def of(self, tenant: str) -> Settings:
        """Return the settings with this tenant."""
        return msgspec.structs.replace(self.settings, tenant=tenant)


class Visit(Protocol):
    """A request for a page, as its view sees it."""

    @property
    def app(self) -> AppContext: ...

    @property
    def principal(self) -> Principal: ...

    def said(self, name: str) -> str | None:
        """Return what the query of the address has for this name, or None."""

    async def ask(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool as the visitor, and return its answer. Raises what the tool raises."""
