"""A visit: who looks at which page, with which question, and the tools asked on their behalf."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from starlette.requests import Request

from tallystick.app.context import AppContext
from tallystick.engine.store import Target
from tallystick.errors import Denied, InvalidArgument
from tallystick.extensions.web.context import PROGRAM_TOOL, TOOL, WebContext
from tallystick.extensions.web.forms import number_of
from tallystick.extensions.web.security import SESSION_KEY
from tallystick.policy import Principal
from tallystick.server.dispatch import Broken, Done, Refused, call

NOT_ALLOWED = "NOT_ALLOWED"
"""Of an act that the policy denied. What was looked at and denied is not there; who was shown something and may not
change it is told so. Of what they may not read the store says the same as of what there is not."""


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

    @property
    def app(self) -> AppContext:
        return self.context.app

    def said(self, name: str) -> str | None:
        """What the address says after its question mark; None where it says nothing."""
        return (self.request.query_params.get(name) or "").strip() or None

    def number(self, name: str, default: int, *, most: int) -> int:
        text = self.said(name)
        if text is None:
            return default
        number = number_of(text, most)
        if number is None:
            raise InvalidArgument(f"'{name}' in the address must be a number up to {most}")
        return number

    @property
    def as_of(self) -> str | int | None:
        return self.moment("as_of")

    def moment(self, name: str) -> str | int | None:
        """A commit, a position or a time."""
        text = self.said(name)
        return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 19 else text

    @property
    def site(self) -> str:
        """Where it is served, as the browser knows it."""
        return f"{self.request.url.scheme}://{self.request.headers.get('host', '')}"

    @property
    def visitor(self) -> tuple[str, str, str]:
        return self.principal.tenant, self.principal.actor, self.session

    def note_export(self) -> None:
        """The question that was asked before it is answered."""
        self.context.report_times.exported(self.visitor, self.context.system_of(self.principal.tenant))

    async def is_withheld_from(self) -> bool:
        """Whether the policy may withhold something from the visitor: the same answer whether or not it does."""
        try:
            return await self.context.offer.store.withholds(self.principal)
        except Denied:
            return True

    async def may(self, *targets: Target) -> list[bool]:
        """What could be done now: only that is offered."""
        if self.context.is_read_only:
            return [False for _ in targets]
        return await self.context.offer.store.allowed(self.principal, targets)

    def check_may_act(self) -> None:
        """Raises Denied where the server is for reading only. Whatever else there is to ask, the store asks."""
        if self.context.is_read_only:
            raise Denied("this server is for reading only", code="READ_ONLY", hint="switch off the setting 'read_only'")

    async def act(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """As `ask`, by a tool that changes something."""
        with told():
            return await self.ask(tool, **arguments)

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


@contextmanager
def told() -> Iterator[None]:
    """Around a change: a denial is told as such."""
    try:
        yield
    except Denied as error:
        raise Denied(error.message, code=NOT_ALLOWED, hint="what was tried is in the audit log") from None


class Download(msgspec.Struct, frozen=True):
    """A view that is a file; one that may be large is written as it is sent."""

    content: bytes | AsyncGenerator[bytes]
    headers: dict[str, str]


class Document(msgspec.Struct, frozen=True):
    """A view that is a file, drawn as its page is but on paper: it can be read without this server."""

    view: msgspec.Struct
    headers: dict[str, str]


class Redirect(msgspec.Struct, frozen=True):
    """Instead of a view: what is asked for, or what came of a form, has an address of its own."""

    address: str


def begin(context: WebContext, request: Request) -> Visit:
    """Raises Denied, and LimitExceeded(RATE_LIMITED)."""
    principal = context.offer.principal_of(request.scope)
    if context.offer.quotas is not None:
        context.offer.quotas.check(principal, writes=request.method == "POST")
    session = request.scope.get(SESSION_KEY)
    actor = context.person if context.person and principal.trusted else principal.actor
    tool = TOOL if principal.trusted or session is not None else PROGRAM_TOOL
    who = msgspec.structs.replace(
        principal, actor=actor, tool=tool, is_program=True, answer_bytes_max=context.offer.answer_bytes_max
    )
    return Visit(context, request, who, "" if session is None else session.id)
