"""Sessions of people who logged in at the issuer: begun, kept in a sealed cookie, renewed, and ended.

The tokens are in the cookie, sealed, and nowhere else: no page, no script and no log sees them. With each request the
access token is judged as any other caller's is, so tenant, roles and revocation count alike. A cookie opens pages only:
what is called without a token of a page (`/mcp`, `/v1/tools/`) must not listen to what browsers send by themselves.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from tallystick.engine.sessions import Sessions
from tallystick.errors import Denied, InvalidArgument, TallystickError
from tallystick.extensions.web.addresses import is_local, with_query
from tallystick.extensions.web.code_flow import PENDING_SECONDS, CodeFlow, Granted, Pending, unknown_login
from tallystick.extensions.web.drawing import draw
from tallystick.extensions.web.events import PATH as EVENTS_PATH
from tallystick.extensions.web.responses import PAGE_HEADERS, raw_path, theme_of, wants_json
from tallystick.extensions.web.sealed_cookies import Header, SealedCookie, TooLarge
from tallystick.extensions.web.security import SESSION_KEY, check_origin
from tallystick.extensions.web.static_files import PATH as STATIC_PATH
from tallystick.policy import Principal
from tallystick.server.answers import retry_after
from tallystick.server.guards import is_loopback
from tallystick.server.oauth import COOKIES_KEY, SCOPE_KEY
from tallystick.server.oauth.guard import STATUSES, Admission
from tallystick.server.oauth.introspection import Client

LOGIN_PATH, CALLBACK_PATH, LOGGED_OUT_PATH, LOGOUT_PATH = "/login", "/login/callback", "/logged-out", "/logout"
SESSION_COOKIE, PENDING_COOKIE = "__Host-tallystick", "__Host-tallystick-login"
RENEW_SECONDS = 30
"""So long before its end an access token is renewed."""
RENEWED_SECONDS = 60.0
"""So long a browser may still come with the refresh token that was used up for it."""
TOUCH_SECONDS = 60
BACK_CHARACTERS_MAX = 2_000
_REMEMBERED_MAX = 10_000
_OPEN = frozenset({LOGIN_PATH, CALLBACK_PATH, LOGGED_OUT_PATH})
_READS = frozenset({"GET", "HEAD"})
_LOST = frozenset({"SESSION_UNKNOWN", "SESSION_EXPIRED", "SESSION_ENDED"})


T = TypeVar("T")


class WebSession(msgspec.Struct, frozen=True, array_like=True):
    """What the cookie holds."""

    id: str
    tenant: str
    actor: str
    access_token: str
    refresh_token: str
    expires_at: int
    """The access token."""
    began_at: int
    seen_at: int

    @property
    def principal(self) -> Principal:
        """Who it is known to be, to check a token of a page with; not what they may do."""
        return Principal(actor=self.actor, tenant=self.tenant)


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """What a page without a visitor says."""

    error: str | None
    message: str
    hint: str | None
    login: str | None
    """Where to log in."""
    logout: str | None = None
    """Where to log out at the provider, too."""


class Login:
    """Belongs to one event loop."""

    def __init__(
        self,
        admission: Admission,
        client: Client,
        sessions: Sessions,
        *,
        audience: Sequence[str] = (),
        idle_seconds: int = 1_800,
        session_seconds: int = 43_200,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Tokens are asked for the first of `audience` that is an address, else for `public_url`.

        Raises InvalidArgument where browsers would not keep the cookie."""
        site = _checked_site(admission.public_url)
        self._admission = admission
        self._sessions = sessions
        self._idle_seconds, self._session_seconds = idle_seconds, session_seconds
        self._now = now
        self._logged_out = site + LOGGED_OUT_PATH
        resource = next((name for name in audience if urlsplit(name).scheme), site)
        self._flow = CodeFlow(admission, client, redirect_uri=site + CALLBACK_PATH, resource=resource, now=now)
        # A cookie is sent to every port of a host, and servers may share a base: it says for whom it was sealed.
        context = "\0".join((site, admission.login_issuer.url, client.id))
        self._cookie = SealedCookie(SESSION_COOKIE, sessions.signing_key, context=context, now=now)
        self._pending = SealedCookie(
            PENDING_COOKIE, sessions.signing_key, context=context, now=now, seconds=PENDING_SECONDS
        )
        self._spent: dict[str, None] = {}
        """The states of logins that were answered."""
        self._renewing: dict[bytes, asyncio.Task[Granted]] = {}
        """By the hash of the refresh token: providers take one only once, and pages ask for several things at once."""
        self.routes = [
            Route(LOGIN_PATH, self._begin, methods=["GET"]),
            Route(CALLBACK_PATH, self._finish, methods=["GET"]),
            Route(LOGGED_OUT_PATH, self._show_logged_out, methods=["GET"]),
        ]

    # -- who visits

    async def admit(self, scope: Scope, routes: Sequence[BaseRoute], error: TallystickError) -> Response | None:
        """For a request without a token, before its body is read: None where it may go on, with the visitor's identity
        and the session in its scope; else what is answered. `routes` are those of pages, `error` is raised for all
        others."""
        if not any(route.matches(scope)[0] is not Match.NONE for route in routes):
            raise error
        is_open = scope["path"] in _OPEN or scope["path"].startswith(f"{STATIC_PATH}/")
        if is_open and scope["method"] in _READS:
            return None
        request = Request(scope)
        try:
            await self._enter(request)
        except TallystickError as refusal:
            return self._refusal(request, refusal)
        return None

    async def _enter(self, request: Request) -> None:
        session = self._find(request)
        request.scope[SESSION_KEY] = session
        if request.scope["path"] == LOGOUT_PATH:
            # Nothing is renewed to be thrown away, and who cannot be judged now may leave all the same.
            return
        renewed = await self._renewed(session)
        try:
            request.scope[SCOPE_KEY] = await self._flow.verify(renewed.access_token)
        except Denied as error:
            self._sessions.end(session.id)
            raise _ended(error.message) from None
        # A page that was left open listens on by itself: that is no visit.
        seen_at = session.seen_at if request.scope["path"] == EVENTS_PATH else int(self._now())
        if renewed is not session or seen_at - session.seen_at >= min(TOUCH_SECONDS, self._idle_seconds / 4):
            request.scope[SESSION_KEY] = touched = msgspec.structs.replace(renewed, seen_at=seen_at)
            request.scope[COOKIES_KEY] = tuple(self._write(touched, request.cookies))

    def _find(self, request: Request) -> WebSession:
        if not self._cookie.is_in(request.cookies):
            raise Denied("you are not logged in", code="MISSING_TOKEN")
        session = _decoded(self._cookie.read(request.cookies), WebSession)
        if session is None:
            raise Denied("this session is not one of this server", code="SESSION_UNKNOWN", hint="log in again")
        now = self._now()
        if now - session.began_at > self._session_seconds or now - session.seen_at > self._idle_seconds:
            self._sessions.end(session.id)
            words = "you were logged out: nobody was here for a while, or the login was long ago"
            raise Denied(words, code="SESSION_EXPIRED", hint="log in again")
        if self._sessions.has_ended(session.id):
            raise _ended("it was logged out")
        return session

    async def _renewed(self, session: WebSession) -> WebSession:
        if not session.refresh_token or self._now() < session.expires_at - RENEW_SECONDS:
            return session
        try:
            granted = await self._renew_once(session.refresh_token)
        except Denied as error:
            self._sessions.end(session.id)
            raise _ended(error.message) from None
        except TallystickError:
            if self._now() < session.expires_at:
                return session
            raise
        principal = granted.identity.principal
        if principal.actor != session.actor:
            self._sessions.end(session.id)
            raise _ended("the identity provider names somebody else")
        return _session(session.id, granted, session.began_at, self._now())

    async def _renew_once(self, refresh_token: str) -> Granted:
        digest = sha256(refresh_token.encode()).digest()
        renewing = self._renewing.get(digest)
        if renewing is None or self._is_used_up(renewing, refresh_token):
            renewing = self._renewing[digest] = asyncio.ensure_future(self._flow.refresh(refresh_token))
            renewing.add_done_callback(lambda task: self._forget_later(digest, task))
        # Shielded: a browser that leaves must not lose the tokens for its other requests.
        return await asyncio.shield(renewing)

    def _is_used_up(self, renewing: asyncio.Task[Granted], refresh_token: str) -> bool:
        """Where the provider lets a refresh token be used again, what it gave for it before may be old by now."""
        if not renewing.done() or renewing.cancelled() or renewing.exception() is not None:
            return False
        granted = renewing.result()
        is_old = self._now() >= granted.identity.expires_at - RENEW_SECONDS
        return is_old and granted.refresh_token == refresh_token

    def _forget_later(self, digest: bytes, task: asyncio.Task[Granted]) -> None:
        is_good = not task.cancelled() and task.exception() is None
        delay = RENEWED_SECONDS if is_good and len(self._renewing) < _REMEMBERED_MAX else 0
        asyncio.get_running_loop().call_later(delay, self._forget, digest, task)

    def _forget(self, digest: bytes, task: asyncio.Task[Granted]) -> None:
        if self._renewing.get(digest) is task:
            del self._renewing[digest]

    def _write(self, session: WebSession, cookies: Mapping[str, str]) -> list[Header]:
        try:
            return self._cookie.write(msgspec.msgpack.encode(session), cookies)
        except TooLarge:
            hint = "tell whoever runs this server; the provider should put fewer claims into tokens for it"
            raise Denied("the tokens are too large for a browser to keep", code="LOGIN_TOO_LARGE", hint=hint) from None

    # -- the way in

    async def _begin(self, request: Request) -> Response:
        try:
            check_origin(request)
            address, pending = await self._flow.begin(_safe_back(request.query_params.get("back", "/")))
        except TallystickError as error:
            return self._refusal(request, error)
        response = RedirectResponse(address, 303, PAGE_HEADERS)
        response.raw_headers += self._pending.write(msgspec.msgpack.encode(pending), request.cookies)
        return response

    async def _finish(self, request: Request) -> Response:
        answer = dict(request.query_params)
        pending = _decoded(self._pending.read(request.cookies), Pending)
        try:
            check_origin(request)
            if (
                pending is None
                or pending.state in self._spent
                or len(answer) != len(request.query_params.multi_items())
            ):
                raise unknown_login()
            if answer.get("state") == pending.state:
                self._spend(pending.state)
            granted = await self._flow.finish(pending, answer)
            session = _session(self._sessions.begin(shared=True), granted, int(self._now()), self._now())
            cookies = self._write(session, request.cookies)
        except TallystickError as error:
            return self._refusal(request, error)
        response = RedirectResponse(pending.back, 303, PAGE_HEADERS)
        response.raw_headers += [*cookies, *self._pending.remove(request.cookies)]
        return response

    def _spend(self, state: str) -> None:
        if len(self._spent) >= _REMEMBERED_MAX:
            del self._spent[next(iter(self._spent))]
        self._spent[state] = None

    # -- the way out

    async def end(self, request: Request) -> Response:
        """For who was found to have a session, by a form of a page of theirs."""
        session: WebSession = request.scope[SESSION_KEY]
        self._sessions.end(session.id)
        await self._flow.revoke(session.refresh_token, session.access_token)
        elsewhere = await self._flow.logout_address(self._logged_out)
        # A redirect would be one of a form, and pages may send forms nowhere but here.
        onward = {} if elsewhere is None else {"Refresh": f"0; url={elsewhere}"}
        notice = Notice(error=None, message="you are logged out here", hint=None, login=LOGIN_PATH, logout=elsewhere)
        response = _page(request, 200, notice, onward)
        response.raw_headers += self._cookie.remove(request.cookies)
        return response

    async def _show_logged_out(self, request: Request) -> Response:
        return _page(request, 200, Notice(error=None, message="you are logged out", hint=None, login=LOGIN_PATH))

    # -- refusals

    def _refusal(self, request: Request, error: TallystickError) -> Response:
        path = request.scope["path"]
        is_visit = request.method in _READS and request.headers.get("sec-fetch-mode", "navigate") == "navigate"
        if wants_json(request) or "text/html" not in request.headers.get("accept", ""):
            response = self._admission.refusal(path, error)
        elif error.code == "MISSING_TOKEN" and is_visit:
            response = RedirectResponse(_login_address(request), 303, PAGE_HEADERS)
        else:
            notice = Notice(error=error.code, message=error.message, hint=error.hint, login=_login_address(request))
            response = _page(request, STATUSES.get(error.code, 403), notice)
            response.raw_headers += retry_after(error.details)
        if error.code in _LOST:
            response.raw_headers += self._cookie.remove(request.cookies)
        return response


def _session(id: str, granted: Granted, began_at: int, now: float) -> WebSession:
    principal = granted.identity.principal
    return WebSession(
        id,
        principal.tenant,
        principal.actor,
        granted.access_token,
        granted.refresh_token,
        granted.identity.expires_at,
        began_at,
        int(now),
    )


def _decoded(data: bytes | None, kind: type[T]) -> T | None:
    """None also for what another version of ours sealed."""
    try:
        return None if data is None else msgspec.msgpack.decode(data, type=kind)
    except msgspec.DecodeError:
        return None


def _login_address(request: Request) -> str:
    """Where a login begins that comes back here."""
    path, query = raw_path(request), request.url.query
    here = f"{path}?{query}" if query else path
    return with_query(LOGIN_PATH, back=_safe_back(here) if request.method in _READS else "/")


def _safe_back(address: str) -> str:
    """Of this server, and no part of the way in or out."""
    is_ours = is_local(address) and len(address) <= BACK_CHARACTERS_MAX
    return address if is_ours and urlsplit(address).path not in {*_OPEN, LOGOUT_PATH} else "/"


def _page(request: Request, status: int, notice: Notice, more: Mapping[str, str] | None = None) -> Response:
    body = draw("login.html", view=notice, theme=theme_of(request), navigation=(), path="")
    return Response(body, status, {**PAGE_HEADERS, **(more or {})}, "text/html")


def _ended(why: str) -> Denied:
    return Denied(f"your session has ended: {why}", code="SESSION_ENDED", hint="log in again")


def _checked_site(public_url: str) -> str:
    parts = urlsplit(public_url)
    if parts.path or not (parts.scheme == "https" or is_loopback(parts.hostname or "")):
        raise InvalidArgument(
            f"people cannot log in at '{public_url}': browsers keep the cookie for https and a whole host only",
            code="PUBLIC_URL_INVALID",
            hint="set public_url to an https address without a path, or leave web_client_id empty",
        )
    return public_url
