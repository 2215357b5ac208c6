"""Pages for people, beside the API: the contract of what draws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Scope

from tallystick.errors import TallystickError


class Pages(Protocol):
    @property
    def routes(self) -> Sequence[BaseRoute]: ...

    async def admit(self, scope: Scope, error: TallystickError) -> ASGIApp | None:
        """Identify a visitor whose request has no token, before its body is read.

        Returns None if the request may go on, with the identity in its scope; else the answer. Raises `error` for a
        request that is none of its own.
        """

    def not_served(self, request: Request, error: Exception) -> Response | None:
        """Return the page for a path without a route; None for a caller that did not ask for a page."""

    async def run(self) -> None:
        """Run what pages need in the background, until it is cancelled."""

    def drain(self) -> None:
        """End the answers that have no end, since the server stops."""
