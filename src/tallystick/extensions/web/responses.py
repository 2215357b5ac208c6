"""How a visit is answered: as a page or as JSON, with what all pages have in common, and errors alike."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlencode

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Scope

from tallystick.app.proving import proofs
from tallystick.clock import wall_clock
from tallystick.errors import Denied, InvalidArgument, NotFound, TallystickError, exhaustion
from tallystick.extensions.web.actors import ActorKinds, Kind, names_in
from tallystick.extensions.web.addresses import JSON_SUFFIX, is_local
from tallystick.extensions.web.chain import Chain
from tallystick.extensions.web.context import TOOL, WebContext
from tallystick.extensions.web.drawing import draw
from tallystick.extensions.web.events import PATH as EVENTS_PATH
from tallystick.extensions.web.events import Events
from tallystick.extensions.web.forms import read_form
from tallystick.extensions.web.registry import Act, Added, Page, Section, added_to, all_pages, navigation
from tallystick.extensions.web.security import HEADERS, SESSION_KEY, PageTokens, check_origin
from tallystick.extensions.web.static_files import static_route
from tallystick.extensions.web.visit import NOT_ALLOWED, Bug, Document, Download, Redirect, Visit, begin
from tallystick.server.answers import retry_after, status_of
from tallystick.server.dispatch import broken
from tallystick.server.guards import BODY_KEY
from tallystick.system.turns import Work

if TYPE_CHECKING:
    from tallystick.extensions.web.login import Login, WebSession

THEME_COOKIE = "tallystick-theme"
THEMES = ("system", "light", "dark")
_YEAR = 365 * 86_400
PAGE_HEADERS = {**HEADERS, "Cache-Control": "private, no-store", "Vary": "Accept, Cookie"}

Theme = Literal["system", "light", "dark"]
NOTHING_HERE = "there is nothing here that you may read"


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """What every page shows around its view."""

    tenant: str
    actor: str
    policy: str
    position: int
    version: str
    chain: Chain
    as_of: str | int | None
    now: int
    """Milliseconds."""
    theme: Theme
    token: str
    can_log_out: bool
    here: str
    """The address of this page, to come back to."""
    back_to_now: str
    """The same without its moment."""
    json: str
    """The same as JSON."""
    path: str
    withholds: bool
    """Whether the policy may withhold something from the visitor."""
    actor_kinds: ActorKinds
    navigation: Sequence[Section]

    def kind_of(self, name: str) -> Kind | None:
        """The visitor is known before the audit log tells."""
        return "person" if name == self.actor else self.actor_kinds.of(name)


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """What is said instead of a view."""

    error: str
    message: str
    hint: str | None = None
    error_id: str | None = None
    problems: list[str] = []


class WebPages:
    """The routes, and what is said where there is none."""

    def __init__(self, context: WebContext, login: Login | None = None) -> None:
        """With a `login`, visitors are those who went through it."""
        self._context = context
        self.login = login
        self._tokens = PageTokens(context.offer.sessions.signing_key)
        self.events = Events(context.offer.store, context.actor_kinds, streams_max=context.streams_max)
        self._navigation = navigation()
        pages = all_pages()
        self.routes: list[BaseRoute] = [
            *(route for page in pages for route in self._routes_of(page)),
            *(route for page in pages if page.act is not None for route in self._form_routes(page, page.act)),
            Route("/proof/{named:path}", self._prove, methods=["GET"]),
            Route("/theme", self._choose_theme, methods=["POST"]),
            Route(EVENTS_PATH, self._listen, methods=["GET"]),
            static_route(),
            *([] if login is None else [*login.routes, Route("/logout", self._log_out, methods=["POST"])]),
        ]

    async def admit(self, scope: Scope, error: TallystickError) -> Response | None:
        """Identify a visitor who logged in, as `server.pages.Pages` has it. Raises `error`."""
        if self.login is None:
            raise error
        return await self.login.admit(scope, self.routes, error)

    def not_served(self, request: Request, error: Exception) -> Response | None:
        """For browsers; None for whoever did not ask for a page."""
        if "text/html" not in request.headers.get("accept", ""):
            return None
        status = error.status_code if isinstance(error, HTTPException) else 500
        code = {404: "NO_SUCH_PATH", 405: "WRONG_METHOD"}.get(status, "HTTP_ERROR")
        return self._trouble(request, status, Trouble(error=code, message=NOTHING_HERE))

    async def run(self) -> None:
        """What goes on as long as there are pages, whether or not somebody looks; until it is cancelled."""
        try:
            async with asyncio.TaskGroup() as going_on:
                going_on.create_task(self._context.history.run())
                going_on.create_task(self._context.chains.run())
        finally:
            await self._context.kept_counts.close()

    # -- pages

    def _routes_of(self, page: Page) -> list[Route]:
        async def serve(request: Request) -> Response:
            return await self._answered(request, lambda visit: self._show(page, visit))

        paths = [page.path] if page.path.endswith(":path}") else [page.path, page.json_path]
        return [Route(path, serve, methods=["GET"]) for path in (*paths, *page.also)]

    def _form_routes(self, page: Page, act: Act) -> list[Route]:
        async def answer(visit: Visit) -> Response:
            return await self._drawn(page, visit, await act(visit, self.form(visit)))

        async def serve(request: Request) -> Response:
            return await self._answered(request, answer)

        return [Route(path, serve, methods=["POST"]) for path in (page.path, *page.also)]

    async def _show(self, page: Page, visit: Visit) -> Response:
        return await self._drawn(page, visit, await page.view(visit))

    async def _drawn(self, page: Page, visit: Visit, view: msgspec.Struct) -> Response:
        template = page.template
        if isinstance(view, Download):
            if not isinstance(view.content, bytes):
                return StreamingResponse(view.content, headers={**PAGE_HEADERS, **view.headers})
            return Response(view.content, headers={**PAGE_HEADERS, **view.headers})
        if isinstance(view, Document):
            paper = draw(template, view=view.view, frame=await self._frame(visit), layout="paper.html", site=visit.site)
            return Response(paper, headers={**PAGE_HEADERS, **view.headers}, media_type="text/html")
        is_json = wants_json(visit.request)
        if isinstance(view, Redirect) and not (is_json and visit.request.method == "POST"):
            return RedirectResponse(view.address, 303, PAGE_HEADERS)
        added = [] if isinstance(view, Redirect) else await added_to(page, visit, view)
        if is_json:
            said = _merged(view, added)
            return _json({**said, "actors": await self._actors(visit, said)})
        body = draw(template, view=view, frame=await self._frame(visit), added=added)
        return Response(body, headers=PAGE_HEADERS, media_type="text/html")

    async def _actors(self, visit: Visit, said: dict[str, Any]) -> dict[str, Kind]:
        """What each is whom the view names, where that is known: pages draw it."""
        known = self._context.actor_kinds(visit.principal.tenant)
        await known.read()
        person = visit.principal.actor if visit.principal.tool == TOOL else None
        kinds = {name: "person" if name == person else known.of(name) for name in sorted(names_in(said))}
        return {name: kind for name, kind in kinds.items() if kind is not None}

    async def _answered(self, request: Request, answer: Callable[[Visit], Awaitable[Response]]) -> Response:
        try:
            check_origin(request)
            with Work() as work:
                visit = begin(self._context, request)
                work.tenant = visit.principal.tenant
                return await answer(visit)
        except (NotFound, Denied) as error:
            if error.code in _TOLD:
                return self._trouble(request, status_of(error), _trouble_of(error))
            # What may not be read is not there, and nobody is told which of the two it is.
            return self._trouble(request, 404, Trouble(error=NotFound.code, message=NOTHING_HERE))
        except TallystickError as error:
            response = self._trouble(request, status_of(error), _trouble_of(error))
            response.raw_headers += retry_after(error.details)
            return response
        except Bug as bug:
            return self._trouble(request, 500, _bug(bug.error_id))
        except Exception as error:
            exhausted = exhaustion(error)
            if exhausted is not None:
                return self._trouble(request, 503, _trouble_of(exhausted))
            return self._trouble(request, 500, _bug(broken(request.url.path).error_id))

    def _trouble(self, request: Request, status: int, trouble: Trouble) -> Response:
        if wants_json(request):
            return _json(trouble, status)
        body = draw("error.html", view=trouble, status=status, theme=theme_of(request), navigation=self._navigation)
        return Response(body, status, PAGE_HEADERS, "text/html")

    async def _frame(self, visit: Visit) -> Frame:
        request, principal, offer = visit.request, visit.principal, self._context.offer
        path, query = raw_path(request), request.url.query
        position = offer.store.position(principal)
        actor_kinds = self._context.actor_kinds(principal.tenant)
        await actor_kinds.read()
        timeless = [(name, value) for name, value in request.query_params.multi_items() if name != "as_of"]
        return Frame(
            tenant=principal.tenant,
            actor=principal.actor,
            policy=self._context.policy,
            position=position,
            version=offer.version,
            chain=self._context.chain(principal.tenant, position),
            as_of=visit.as_of,
            now=wall_clock(),
            theme=theme_of(request),
            token=self._tokens.make(principal, visit.session),
            can_log_out=bool(visit.session),
            here=f"{path}?{query}" if query else path,
            back_to_now=f"{path}?{urlencode(timeless)}" if timeless else path,
            json=_json_address(path, query),
            path=request.url.path,
            withholds=await visit.is_withheld_from(),
            actor_kinds=actor_kinds,
            navigation=self._navigation,
        )

    async def _prove(self, request: Request) -> Response:
        """Answer with a proof for outsiders, as `/v1/proof/entry` does for programs that have a token."""

        async def prove(visit: Visit) -> Response:
            home, named = self._context.home_of(visit.principal.tenant), request.path_params["named"]
            made = await proofs().prove(self._context.offer.store, visit.principal, home, named)
            name = re.sub(r"[^A-Za-z0-9_-]+", "-", named)[:80]
            shown = {"Content-Disposition": f'attachment; filename="{name}.tlog-proof"'}
            return Response(made.proof, headers={**PAGE_HEADERS, **shown}, media_type="text/plain; charset=utf-8")

        return await self._answered(request, prove)

    # -- what arrives

    async def _listen(self, request: Request) -> Response:
        return await self._answered(request, self.events.open)

    def drain(self) -> None:
        """The server is asked to end: what would go on for as long as somebody listens ends."""
        self.events.close()

    # -- what changes

    async def _choose_theme(self, request: Request) -> Response:
        async def choose(visit: Visit) -> Response:
            form = self.form(visit)
            theme, back = form.get("theme", ""), form.get("back", "/")
            if theme not in THEMES:
                raise InvalidArgument(f"there is no theme '{theme[:20]}'; the themes are {', '.join(THEMES)}")
            response = RedirectResponse(back if is_local(back) else "/", 303, PAGE_HEADERS)
            response.set_cookie(THEME_COOKIE, theme, max_age=_YEAR, httponly=True, samesite="strict")
            return response

        return await self._answered(request, choose)

    async def _log_out(self, request: Request) -> Response:
        assert self.login is not None
        session: WebSession | None = request.scope.get(SESSION_KEY)
        try:
            check_origin(request)
            if session is None:
                raise InvalidArgument("who calls with a token has no session to log out of")
            self._tokens.check(session.principal, _fields(request).get("token", ""), session.id)
        except TallystickError as error:
            return self._trouble(request, status_of(error), _trouble_of(error))
        self.events.end_session(session.id)
        return await self.login.end(request)

    def form(self, visit: Visit) -> dict[str, str]:
        """The fields of a form of ours. Raises Denied, for one that is of no page that we drew."""
        fields = _fields(visit.request)
        self._tokens.check(visit.principal, fields.pop("token", ""), visit.session)
        return fields


_TOLD = frozenset({"ORIGIN_NOT_ALLOWED", "PAGE_EXPIRED", "UNKNOWN_AS_OF", "READ_ONLY", NOT_ALLOWED})
"""Refusals that tell nothing of what is there."""


def _fields(request: Request) -> dict[str, str]:
    try:
        return read_form(request.headers.get("content-type", ""), request.scope[BODY_KEY])
    except ValueError:
        raise InvalidArgument("the body must be a form") from None


def _merged(view: msgspec.Struct, added: Sequence[Added]) -> dict[str, Any]:
    """Return the fields of a page and of what extensions add to it; those of the page count."""
    fields: dict[str, Any] = {}
    for each in (*(part.view for part in added), view):
        fields |= msgspec.to_builtins(each)
    return fields


def wants_json(request: Request) -> bool:
    if raw_path(request).endswith(JSON_SUFFIX):
        return True
    accepted = request.headers.get("accept", "")
    return "application/json" in accepted and "text/html" not in accepted


def raw_path(request: Request) -> str:
    """As it was sent: an id in it may hold what means something there."""
    return request.scope["raw_path"].decode("latin-1").partition("?")[0]  # type: ignore[no-any-return]


def _json_address(path: str, query: str) -> str:
    named = "/overview" if path == "/" else path
    return f"{named}{JSON_SUFFIX}?{query}" if query else f"{named}{JSON_SUFFIX}"


def theme_of(request: Request) -> Theme:
    chosen = request.cookies.get(THEME_COOKIE)
    return chosen if chosen in ("light", "dark") else "system"  # type: ignore[return-value]  # one of THEMES


def _trouble_of(error: TallystickError) -> Trouble:
    problems = error.problems if isinstance(error, InvalidArgument) and error.problems != [error.message] else []
    return Trouble(error=error.code, message=error.message, hint=error.hint, problems=problems)


def _bug(error_id: str) -> Trouble:
    words = "a bug of ours; name the id when you report it"
    return Trouble(error="INTERNAL_ERROR", message=words, error_id=error_id)


def _json(view: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(view), status, PAGE_HEADERS, "application/json")
