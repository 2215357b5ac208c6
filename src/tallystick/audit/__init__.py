"""What was asked and decided: the events of the audit log, and the line each becomes.

Knows names, times and verdicts; never a token, never a payload. A line is
`{"seq":N,…,"record_hash":"…"}` where record_hash is the SHA-256 of the record_hash before it
("" for the first of all) followed by the line without `,"record_hash":"…"`: anyone can
recompute it from the bytes as they lie there.
"""

from __future__ import annotations

from hashlib import sha256
from typing import ClassVar

import msgspec

from tallystick.errors import Corrupt

NAME_MAX = 1_000
"""Characters kept of a name that a caller chose."""


class Event(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    name: ClassVar[str]
    timestamp: str


class Decided(Event, frozen=True, omit_defaults=True, kw_only=True):
    """One decision, with all that the policy was told, so that it can be asked again."""

    name: ClassVar[str] = "AUTHZ_DECISION"
    tenant: str
    actor: str
    action: str
    decision: bool
    reason: str
    policy_version: str
    latency_ms: float
    cache_hit: bool
    actor_roles: tuple[str, ...] = ()
    resource: str | None = None
    resource_type: str | None = None
    resource_owner: str | None = None
    resource_owner_tenant: str | None = None
    tool: str | None = None
    ip_address: str | None = None
    written_type: str | None = None
    fault: str | None = None
    """Set where the engine gave no answer and the decision is no for that reason."""


class Narrowed(Event, frozen=True, omit_defaults=True, kw_only=True):
    """What a search or a walk found was narrowed to what the principal may read."""

    name: ClassVar[str] = "AUTHZ_NARROWED"
    tenant: str
    actor: str
    found: int
    withheld: int
    policy_version: str
    latency_ms: float
    actor_roles: tuple[str, ...] = ()
    resources_withheld: tuple[str, ...] = ()
    """The first of them."""
    tool: str | None = None


class Incident(Event, frozen=True, omit_defaults=True, kw_only=True):
    """A policy engine failed, for somebody to look into. Not repeated while it goes on."""

    name: ClassVar[str] = "POLICY_INCIDENT"
    kind: str
    detail: str
    repeated: int = 0
    """How many of this kind went unsaid since the last was said."""


class Lost(Event, frozen=True, omit_defaults=True, kw_only=True):
    """The disk refused these; they were decided and are not written anywhere."""

    name: ClassVar[str] = "AUDIT_GAP"
    events: int
    since: str


class Started(Event, frozen=True, omit_defaults=True, kw_only=True):
    """First line of every file; it repeats the record_hash that it is chained to."""

    name: ClassVar[str] = "AUDIT_FILE"
    prev: str = ""
    broken: str | None = None
    """Said by a writer that did not find the end of the log as it was kept."""


class Retired(Event, frozen=True, omit_defaults=True, kw_only=True):
    """Files up to and including `through` were old enough to go."""

    name: ClassVar[str] = "AUDIT_RETIRED"
    through: int
    prev: str
    """The record_hash of line `through`, to which the oldest file that is left is chained."""


class TenantDeleted(Event, frozen=True, omit_defaults=True, kw_only=True):
    """In the default tenant's log, since that of the deleted one is gone with everything else."""

    name: ClassVar[str] = "TENANT_DELETED"
    tenant: str
    actor: str
    reason: str
    commits: int
    position: int
    log_hash: str
    """The record_hash of its last commit."""


class BackupFailed(Event, frozen=True, omit_defaults=True, kw_only=True):
    """In the default tenant's log. Said once, until one succeeds again."""

    name: ClassVar[str] = "BACKUP_FAILED"
    target: str
    code: str
    detail: str


EVENTS: dict[str, type[Event]] = {
    kind.name: kind for kind in (Decided, Narrowed, Incident, Lost, Started, Retired, TenantDeleted, BackupFailed)
}


def clipped(name: str | None) -> str | None:
    return name if name is None or len(name) <= NAME_MAX else f"{name[:NAME_MAX]}…"


def encode(event: Event) -> bytes:
    """The event as it will stand in its line, not yet numbered or chained."""
    try:
        body = msgspec.json.encode(event)
    except UnicodeEncodeError:
        # Half of a surrogate pair: not text, and no reason to lose the event.
        plain = {
            name: value.encode(errors="replace").decode() if isinstance(value, str) else value
            for name in event.__struct_fields__
            if (value := getattr(event, name)) is not None
        }
        body = msgspec.json.encode(plain)
    return b'"event":"%b",%b' % (event.name.encode(), body[1:])


def chained(seq: int, encoded: bytes, prev: str) -> tuple[bytes, str]:
    """The line with its newline, and its record_hash."""
    head = b'{"seq":%d,%b' % (seq, encoded)
    record_hash = sha256(prev.encode() + head).hexdigest()
    return b'%b,"record_hash":"%b"}\n' % (head[:-1], record_hash.encode()), record_hash


class Line(msgspec.Struct, frozen=True):
    seq: int
    event: Event
    record_hash: str


def decode(line: bytes) -> Line:
    """Read a line, given without its newline. Raises Corrupt; the chain is left to `verify`."""
    try:
        envelope = _envelopes.decode(line)
        kind = EVENTS[envelope.event]
        return Line(envelope.seq, msgspec.json.decode(line, type=kind), envelope.record_hash)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Corrupt(f"the line is not an event: {error}") from None
    except KeyError as error:
        raise Corrupt(f"there is no event {error}", hint="a newer version of tallystick may have written it") from None


def verify(line: bytes, *, seq: int, prev: str) -> Line:
    """Raises Corrupt unless this line, given without its newline, is number `seq` and chained to `prev`."""
    found = decode(line)
    if found.seq != seq:
        raise Corrupt(f"seq {found.seq} stands where {seq} should")
    ending = b',"record_hash":"%b"}' % found.record_hash.encode()
    if not line.endswith(ending):
        raise Corrupt(f"seq {seq}: the line does not end in its record_hash")
    if sha256(prev.encode() + line[: -len(ending)] + b"}").hexdigest() != found.record_hash:
        raise Corrupt(f"seq {seq}: record_hash does not match the line and the one before it")
    return found


class _Envelope(msgspec.Struct, frozen=True):
    seq: int
    event: str
    record_hash: str


_envelopes = msgspec.json.Decoder(_Envelope)
