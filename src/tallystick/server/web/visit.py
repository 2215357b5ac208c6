"""A visit: who looks at which page, with which question, and the tools asked on their behalf."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request

from tallystick.errors import InvalidArgument
from tallystick.policy import Principal
from tallystick.server.dispatch import Broken, Done, Refused, call
from tallystick.server.web.context import WebContext
from tallystick.server.web.security import SESSION_KEY

TOOL = "web"
"""As which the audit log knows what pages ask for."""


class Bug(Exception):
    """Of ours, logged already."""

    def __init__(self, error_id: str) -> None:
        super().__init__(error_id)
        self.error_id = error_id


class Visit(msgspec.Struct, frozen=True):
    context: WebContext
    request: Request
    principal: Principal
    session: str = ""
    """Of a visitor who logged in."""

    def said(self, name: str) -> str | None:
        """What the address says after its question mark; None where it says nothing."""
        return (self.request.query_params.get(name) or "").strip() or None

    def number(self, name: str, default: int, *, most: int) -> int:
        text = self.said(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and int(text) <= most):
            raise InvalidArgument(f"'{name}' in the address must be a number up to {most}")
        return int(text)

    @property
    def as_of(self) -> str | int | None:
        """A commit, a position or a time."""
        text = self.said("as_of")
        return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 19 else text

    @property
    def site(self) -> str:
        """Where it is served, as the browser knows it."""
        return f"{self.request.url.scheme}://{self.request.headers.get('host', '')}"

    async def ask(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """What the tool answers; arguments that are None were not given. Raises what it raises, and Bug."""
        given = {name: value for name, value in arguments.items() if value is not None}
        context = self.context
        match await call(context.tools.get(tool), given, context.offer.store, lambda: self.principal):
            case Done(data):
                return data
            case Refused(error):
                raise error
            case Broken(error_id):
                raise Bug(error_id)


class Download(msgspec.Struct, frozen=True):
    """A view that is a file."""

    content: bytes
    headers: dict[str, str]


class Redirect(msgspec.Struct, frozen=True):
    """Instead of a view: what is asked for has an address of its own."""

    address: str


def begin(context: WebContext, request: Request) -> Visit:
    """Raises Denied, and LimitExceeded(RATE_LIMITED)."""
    principal = context.offer.principal_of(request.scope)
    if context.offer.quotas is not None:
        context.offer.quotas.check(principal, writes=False)
    session = request.scope.get(SESSION_KEY)
    who = msgspec.structs.replace(principal, tool=TOOL, is_program=True)
    return Visit(context, request, who, "" if session is None else session.id)
