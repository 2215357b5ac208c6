"""The sessions of streamable HTTP: an id is a signed token, which every process of the base can check.

The token says what a process must know to serve the session: who began it, the client's name, the
version of the protocol, until when. Nothing else is kept of it, so a session goes on when its server
is restarted or when another process of the base answers. That it was ended is known by `Sessions`,
to all of them. Here is only counted, for each subject, how many this process began.
"""

from __future__ import annotations

import hmac
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256

import msgspec

from tallystick.engine.sessions import Sessions
from tallystick.server import Client, is_name
from tallystick.server.limits import SessionQuota
from tallystick.server.oauth import Identity

SCOPE_SESSION = "tallystick.session"
"""Where the session of a request stands in the ASGI scope."""
TOKEN_BYTES_MAX = 2_048
_KNOWN_MAX = 10_000
_PURPOSE = b"tallystick session 1\n"
"""Signed with each token, so that no other use of the key makes one."""


class Session(msgspec.Struct, frozen=True, array_like=True):
    """What a token says."""

    id: str
    """Of `Sessions`: known to readers of the log, and no secret."""
    client: str | None
    version: str
    owner: str
    """A hash of issuer, OAuth client, tenant and subject; empty where nobody is asked who they are."""
    started: float
    expires: float

    def said(self) -> Client:
        return Client(self.client, self.id)


class HttpSessions:
    def __init__(
        self,
        sessions: Sessions,
        *,
        quota: SessionQuota | None = None,
        seconds: float = 86_400.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._sessions = sessions
        self._quota = quota or SessionQuota()
        self._seconds = seconds
        self._now = now
        self._key = b""
        self._known: dict[bytes, Session] = {}
        """By tokens whose signature was checked before."""

    def begin(self, identity: Identity | None, client: str | None, version: str) -> bytes:
        """The id of a new session. Raises LimitExceeded when the caller has too many that are in use."""
        tenant, owner = _counted_for(identity)
        for idle in self._quota.make_room(tenant, owner):
            self._sessions.end(idle)
        now = self._now()
        name = client if is_name(client) else None
        id = self._sessions.begin(shared=True)
        session = Session(id, name, version, owner, now, now + self._seconds)
        self._quota.add(tenant, owner, id)
        return self._sign(msgspec.json.encode(session))

    def find(self, token: bytes, identity: Identity | None) -> Session | None:
        """One that goes on, and is the caller's own."""
        session = self._known.get(token) or self._read(token)
        if session is None or session.expires <= self._now():
            return None
        tenant, owner = _counted_for(identity)
        if session.owner != owner or self._sessions.has_ended(session.id):
            return None
        self._quota.use(tenant, owner, session.id)
        return session

    def end(self, session: Session, identity: Identity | None) -> None:
        self._sessions.end(session.id)
        self._quota.remove(*_counted_for(identity), session.id)

    def has_ended(self, id: str) -> bool:
        """Through any process."""
        return self._sessions.has_ended(id)

    def expire(self) -> None:
        """Forget those that were begun here so long ago that their tokens hold no longer."""
        for id in self._quota.expire(self._seconds):
            self._sessions.forget(id)

    def _sign(self, claims: bytes) -> bytes:
        body = _encoded(claims)
        return body + b"." + _encoded(self._mac(body))

    def _read(self, token: bytes) -> Session | None:
        body, _, signature = token.partition(b".")
        if len(token) > TOKEN_BYTES_MAX or not hmac.compare_digest(_encoded(self._mac(body)), signature):
            return None
        try:
            session = msgspec.json.decode(urlsafe_b64decode(body + b"=" * (-len(body) % 4)), type=Session)
        except (msgspec.DecodeError, Base64Error):
            return None
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        self._known[token] = session
        return session

    def _mac(self, body: bytes) -> bytes:
        if not self._key:
            self._key = self._sessions.signing_key()
        return hmac.digest(self._key, _PURPOSE + body, sha256)


def _counted_for(identity: Identity | None) -> tuple[str, str]:
    """The tenant, and the owner as a token names them."""
    if identity is None:
        return "", ""
    principal = identity.principal
    return principal.tenant, _digest(identity.issuer, identity.client, principal.tenant, principal.actor)


@lru_cache(maxsize=10_000)
def _digest(*names: str) -> str:
    # The tenant too: the same person, logged in to another one, is another principal.
    return sha256(msgspec.json.encode(names)).hexdigest()


def _encoded(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")
