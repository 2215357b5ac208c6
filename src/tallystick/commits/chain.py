"""The stored line of a commit, its hashes, and the proof that a log is whole.

A line is `HEAD,"record_hash":"…","payload":PAYLOAD}` where `HEAD}` is the canonical JSON
of the commit without those two fields, and PAYLOAD the canonical JSON of the payload. So
everything that is hashed is a slice of the line:

    content_hash  SHA-256(PAYLOAD)
    commit_id     SHA-256(PAYLOAD + decimal lamport + actor + operation)
    record_hash   SHA-256(record_hash of the line before, "" for the first + `HEAD}`)

record_hash leaves the payload out, so that a redaction can mask it (spaces before the last
brace keep the length) and the chain still holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Protocol

import msgspec
from msgspec.structs import force_setattr

from tallystick.commits import REDACTIONS, SCHEMA_VERSION, Commit, Draft, Operation, Verb
from tallystick.commits import mask as masking
from tallystick.commits.canonical import INTEGER_MAX, canonical_bytes, parse
from tallystick.errors import Corrupt, InvalidArgument, LimitExceeded


def content_hash(payload: dict[str, Any] | bytes) -> str:
    """Equal for equal payloads. Bytes are taken to be canonical already."""
    return sha256(_bytes_of(payload)).hexdigest()


def commit_id(payload: dict[str, Any] | bytes, lamport: int, actor: str, operation: str) -> str:
    return sha256(_bytes_of(payload) + _suffix(lamport, actor, operation)).hexdigest()


def encode_payload(operation: Operation) -> bytes:
    """Raises InvalidArgument when something in it has no canonical form, LimitExceeded when it is too large."""
    payload = canonical_bytes(operation.payload)
    if operation.bytes_max is not None and len(payload) > operation.bytes_max:
        raise _too_large(len(payload), operation.bytes_max)
    return payload


def seal_line(
    draft: Draft,
    operation: Operation,
    *,
    tenant: str,
    lamport: int,
    timestamp: str,
    prev: str | None,
    prev_record_hash: str,
    batch: tuple[int, int] | None = None,
    group: int | None = None,
) -> tuple[Commit, bytes]:
    """Make the operation of a draft a commit behind the one that `prev` and `prev_record_hash` name.

    With its line, which has no newline yet. Raises as `encode_payload` does.
    """
    payload = encode_payload(operation)
    hashed = sha256(payload)
    content = hashed.hexdigest()
    hashed.update(_suffix(lamport, draft.actor, operation.verb))
    commit = Commit(
        actor=draft.actor,
        batch=batch,
        commit_id=hashed.hexdigest(),
        content_hash=content,
        group=group,
        lamport=lamport,
        nonce=operation.nonce,
        operation=operation.verb,
        policy_version=draft.policy_version,
        prev=prev,
        reason=operation.reason or draft.reason,
        redacts=operation.redacts,
        request=operation.request,
        run_context=draft.run_context,
        schema_version=SCHEMA_VERSION,
        tenant=tenant,
        timestamp=timestamp,
        tool=draft.tool,
    )
    head = _canonical(commit)
    return _fill(commit, _record_hash(prev_record_hash, head), payload), _line(head, commit)


def seal(draft: Draft, operation: Operation, **place: Any) -> Commit:
    """`seal_line` without the line."""
    return seal_line(draft, operation, **place)[0]


def encode(commit: Commit) -> bytes:
    """The stored line with its newline; without padding if the payload was masked."""
    return _line(head_of(commit), commit) + b"\n"


def _line(head: bytes, commit: Commit) -> bytes:
    return b'%b,"record_hash":"%b","payload":%b}' % (head[:-1], commit.record_hash.encode(), commit.payload)


def decode(line: bytes) -> Commit:
    """Read a stored line, given without its newline. Raises Corrupt; hashes are left to `verify`."""
    head_end, start = _seams(line)
    return _finish(_read(line[:head_end] + b"}"), line, head_end, start)


def decode_head(head: bytes, record_hash: str) -> Commit:
    """A commit of what record_hash covers; its payload is not known, and empty. Raises Corrupt, also unless the head is
    in canonical form."""
    commit = _read(head)
    _check_canonical(commit, head)
    return _fill(commit, record_hash, b"{}")


class Said(Protocol):
    """What a reader decoded of a line."""

    @property
    def lamport(self) -> int: ...
    @property
    def actor(self) -> str: ...
    @property
    def operation(self) -> Verb: ...
    @property
    def commit_id(self) -> str: ...
    @property
    def content_hash(self) -> str: ...


def is_committed(line: bytes, said: Said) -> bool:
    """Whether the payload is the one that was committed, by content_hash and commit_id.

    If not, it may have been redacted: the redaction that names it tells. Every read of a document asks, so the
    payload is hashed where it stands, and nothing is parsed again.
    """
    start = line.find(b"{", 1)
    if not line.startswith(_PAYLOAD_KEY, start - len(_PAYLOAD_KEY)):
        _, start = _seams(line)
    hashed = sha256(line[start:-1])
    if hashed.hexdigest() != said.content_hash:
        return False
    hashed.update(_suffix(said.lamport, said.actor, said.operation))
    return hashed.hexdigest() == said.commit_id


def is_undamaged(line: bytes, commit_prefix: int) -> bool:
    """Whether its commit_id begins so, and the payload has the hash that the line itself says. Far less to ask than
    `is_committed`, and enough to pass a line over; not to tell anybody what it says. False also of a redacted one."""
    try:
        _, start = _seams(line)
    except Corrupt:
        return False
    content = sha256(line[start:-1]).hexdigest().encode()
    return line.find(content, 0, start) >= 0 and line.find(b'"commit_id":"%08x' % commit_prefix, 0, start) >= 0


def head_of(commit: Commit) -> bytes:
    """What record_hash covers besides the record_hash before it."""
    return _canonical(msgspec.structs.replace(commit, record_hash="", payload=b""))


def record_hash_of(line: bytes) -> str:
    head_end, start = _seams(line)
    return line[head_end + len(_HASH_KEY) : start - len(_PAYLOAD_KEY)].decode("latin-1")


def is_chained(line: bytes, prev_record_hash: str) -> bool:
    """Whether its fields are those that were committed behind this record: all but the payload."""
    head_end, start = _seams(line)
    record_hash = line[head_end + len(_HASH_KEY) : start - len(_PAYLOAD_KEY)].decode("latin-1")
    return _record_hash(prev_record_hash, line[:head_end] + b"}") == record_hash


def payload_of(line: bytes) -> bytes:
    """What `decode(line).payload` is, without reading the rest of the line."""
    _, start = _seams(line)
    return line[start:-1].rstrip(b" ")


def room_of(line: bytes) -> int:
    """How many bytes a payload may have that takes the place of this one's."""
    _, start = _seams(line)
    return len(line) - 1 - start


def redacted_payload(line: bytes, fields: Sequence[str] | None) -> bytes | None:
    """What a redaction of these fields (None: of all) leaves of the payload; None when nothing of them is left."""
    payload = payload_of(line)
    left = masking.fitted(masking.redact(parse(masking.unabridged(payload)), fields), room_of(line))
    return None if left == payload else left


def mask(line: bytes, payload: bytes) -> bytes:
    """The line, given without its newline, with another payload in place and its length kept.

    Raises ValueError when the payload is longer than the one it would replace.
    """
    _, start = _seams(line)
    room = room_of(line)
    if len(payload) > room:
        raise ValueError(f"a payload of {len(payload)} bytes does not fit into {room}")
    return line[:start] + payload.ljust(room) + b"}"


def verify(line: bytes, *, prev: str | None, prev_record_hash: str, after_lamport: int) -> tuple[Commit, bool]:
    """The line's commit, and whether the payload is the one that was committed. All else that is false raises Corrupt.

    False is not yet damage: a redaction further on may name this lamport and the SHA-256 of
    what is left (`Verifier` sees to that). A masked payload's commit_id cannot be recomputed,
    record_hash vouches for it.
    """
    head_end, start = _seams(line)
    head = line[:head_end] + b"}"
    commit = _read(head)
    # Cheapest first; each catches what a later one would not say as clearly. Only record_hash proves the fields:
    # lamport and prev could be altered together with the lines around them.
    if commit.lamport <= after_lamport:
        raise _falsity(commit, f"lamport {commit.lamport} does not come after {after_lamport}")
    if commit.prev != prev:
        raise _falsity(commit, f"prev is {commit.prev}, the commit before it is {prev}")
    _check_canonical(commit, head)
    _finish(commit, line, head_end, start)
    if _record_hash(prev_record_hash, head) != commit.record_hash:
        raise _falsity(commit, "record_hash does not match its fields and the record before it")
    hashed = sha256(commit.payload)
    if hashed.hexdigest() != commit.content_hash:
        return commit, False
    hashed.update(_suffix(commit.lamport, commit.actor, commit.operation))
    if hashed.hexdigest() != commit.commit_id:
        raise _falsity(commit, "commit_id does not match payload, lamport, actor and operation")
    if line[-2:-1] == b" ":
        raise _falsity(commit, "spaces follow a payload that was never masked")
    return commit, True


class Verifier:
    """Reads a log line by line and names the first thing that is false.

    Memory grows with redactions only. Begin at the start of a log, or behind a commit that is trusted.
    Where `tenant` is not said, all must be of the first one's.
    """

    def __init__(
        self,
        *,
        prev: str | None = None,
        prev_record_hash: str = "",
        after_lamport: int = 0,
        timestamp: str = "",
        tenant: str | None = None,
    ) -> None:
        self.count = 0
        self.is_intact = True
        """Whether the payload last fed is the one that was committed."""
        self.commit_id = prev
        self.record_hash = prev_record_hash
        self.lamport = after_lamport
        self.timestamp = timestamp
        self._start = after_lamport
        self._tenant = tenant
        self._batch: tuple[int, int] | None = None
        self._masked: dict[int, str] = {}
        self._named: dict[int, str] = {}

    def feed(self, line: bytes) -> Commit:
        """Verify the next line, given without its newline. After Corrupt the verifier stands where it stood before."""
        commit, intact = verify(
            line, prev=self.commit_id, prev_record_hash=self.record_hash, after_lamport=self.lamport
        )
        if commit.timestamp < self.timestamp:
            raise _falsity(commit, f"timestamp {commit.timestamp} is before that of the last, {self.timestamp}")
        if self._tenant is not None and commit.tenant != self._tenant:
            raise _falsity(commit, f"tenant is {commit.tenant!r} in a log of {self._tenant!r}")
        batch = _next_batch(commit, self._batch)
        named = _named_by(commit)

        # Nothing raises below: a caller that met Corrupt can go on from where the verifier stood.
        self.is_intact = intact
        if not intact:
            self._masked[commit.lamport] = content_hash(commit.payload)
        self._named.update(named)
        self._batch = batch
        self._tenant = commit.tenant
        self.timestamp = commit.timestamp
        self.lamport = commit.lamport
        self.commit_id = commit.commit_id
        self.record_hash = commit.record_hash
        self.count += 1
        return commit

    def finish(self) -> None:
        """Raise Corrupt for what only the end of the log can show."""
        for lamport in self.unexplained:
            problem = (
                "what is left of the redacted payload is not what its redaction left"
                if lamport in self._named
                else "the payload does not match content_hash, and no redaction names it"
            )
            raise Corrupt(f"lamport {lamport}: {problem}", details={"lamport": lamport})
        if self._batch is not None:
            part, whole = self._batch
            raise Corrupt(
                f"lamport {self.lamport}: the log ends after commit {part} of a batch of {whole}",
                details={"lamport": self.lamport},
            )

    @property
    def redacted(self) -> int:
        """How many payloads were found masked."""
        return len(self._masked)

    @property
    def unexplained(self) -> list[int]:
        """Lamports whose payload is not the committed one, nor what a redaction so far says is left of it."""
        return [lamport for lamport, left in self._masked.items() if self._named.get(lamport) != left]

    @property
    def unmasked(self) -> dict[int, str]:
        """Lamport → SHA-256 for payloads that a redaction names and that were read unharmed.

        Either masking changed nothing (the hash is the commit's content_hash), or it has not
        been done: telling which takes a second look at those lines.
        """
        return {
            lamport: left
            for lamport, left in self._named.items()
            if lamport > self._start and lamport not in self._masked
        }


_HASH_KEY = b',"record_hash":"'
_PAYLOAD_KEY = b'","payload":'
_OPENING = _PAYLOAD_KEY + b"{"
_TAIL = len(_HASH_KEY) + 64

_decode_head = msgspec.json.Decoder(Commit).decode
_encode_head = msgspec.json.Encoder(order="deterministic").encode


def _read(head: bytes) -> Commit:
    """The commit with this head, for `_finish`. Raises Corrupt."""
    try:
        commit = _decode_head(head)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Corrupt(f"the line is not a commit: {error}") from None
    if commit.record_hash or commit.payload:
        raise _falsity(commit, "what is not of the head stands in it")
    if commit.schema_version != SCHEMA_VERSION:
        raise Corrupt(
            f"the line has schema_version {commit.schema_version!r}, this program reads {SCHEMA_VERSION!r}",
            hint="a newer version of tallystick may have written it",
            details={"lamport": commit.lamport},
        )
    return commit


def _finish(commit: Commit, line: bytes, head_end: int, start: int) -> Commit:
    """With what stands behind the head. Raises Corrupt."""
    try:
        record_hash = line[head_end + len(_HASH_KEY) : start - len(_PAYLOAD_KEY)].decode("ascii")
    except UnicodeDecodeError:
        raise Corrupt("the line's record_hash is not hexadecimal", details={"lamport": commit.lamport}) from None
    return _fill(commit, record_hash, line[start:-1].rstrip(b" "))


def _fill(commit: Commit, record_hash: str, payload: bytes) -> Commit:
    # Nobody has seen this commit yet: still ours to alter.
    force_setattr(commit, "record_hash", record_hash)
    force_setattr(commit, "payload", payload)
    return commit


def _check_canonical(commit: Commit, head: bytes) -> None:
    """Written again and compared, byte by byte: two spellings of the same fields would have two hashes, and a duplicate
    key two meanings. Raises Corrupt."""
    if _canonical(commit) != head:
        raise _falsity(commit, "its fields are not written in canonical form")


def _seams(line: bytes) -> tuple[int, int]:
    """Where the head ends and where the payload starts."""
    # In the head no text follows an unescaped `","payload":{`: its only objects hold texts, not objects.
    # The payload may well contain it, hence the first.
    at = line.find(_OPENING)
    head_end = at - _TAIL
    if head_end < 1 or not line.startswith(_HASH_KEY, head_end) or not line.endswith(b"}"):
        raise Corrupt("the line is not a commit: it does not end in record_hash and payload")
    return head_end, at + len(_PAYLOAD_KEY)


def _canonical(commit: Commit) -> bytes:
    """Of a commit that has no more than its head yet: its canonical JSON."""
    # A struct's encoder writes it as the RFC wants it, in a tenth of the time; only keys it may sort in another way.
    try:
        found = _encode_head(commit)
    except UnicodeEncodeError:
        return canonical_bytes(msgspec.to_builtins(commit))
    is_sorted = found.isascii() or (commit.run_context is None and commit.redacts is None)
    return found if is_sorted and commit.lamport <= INTEGER_MAX else canonical_bytes(msgspec.to_builtins(commit))


def _record_hash(previous: str, head: bytes) -> str:
    return sha256(previous.encode() + head).hexdigest()


def _bytes_of(payload: dict[str, Any] | bytes) -> bytes:
    return payload if isinstance(payload, bytes) else canonical_bytes(payload)


def _suffix(lamport: int, actor: str, operation: str) -> bytes:
    try:
        return f"{lamport}{actor}{operation}".encode()
    except UnicodeEncodeError:
        raise InvalidArgument("actor holds half of a surrogate pair, which is not text") from None


def _too_large(size: int, bytes_max: int) -> LimitExceeded:
    return LimitExceeded(
        f"the payload has {size:,} bytes, the limit is {bytes_max:,}",
        code="PAYLOAD_TOO_LARGE",
        hint="keep large content elsewhere and write a reference to it, or split it over several nodes",
        details={"bytes": size, "bytes_max": bytes_max},
    )


def _next_batch(commit: Commit, open_batch: tuple[int, int] | None) -> tuple[int, int] | None:
    """The batch that is still open after this commit."""
    part, whole = commit.batch or (1, 1)
    last_part, expected_whole = open_batch or (0, whole)
    if part != last_part + 1 or whole != expected_whole:
        raise _falsity(
            commit, f"it is {part} of a batch of {whole} where {last_part + 1} of {expected_whole} should be"
        )
    return None if part == whole else (part, whole)


def _named_by(commit: Commit) -> dict[int, str]:
    """The masked payloads that a redaction answers for."""
    if not commit.redacts:
        return {}
    if commit.operation not in REDACTIONS:
        raise _falsity(commit, f"{commit.operation} cannot redact")
    named = {}
    for text, left in commit.redacts.items():
        lamport = int(text) if _is_decimal(text) else 0
        if not 0 < lamport < commit.lamport:
            raise _falsity(commit, f"it redacts {text!r}, which is not a lamport before its own")
        named[lamport] = left
    return named


def _is_decimal(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 16 and text[0] != "0"


def _falsity(commit: Commit, problem: str) -> Corrupt:
    return Corrupt(f"lamport {commit.lamport}: {problem}", details={"lamport": commit.lamport})
