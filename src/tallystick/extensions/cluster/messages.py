"""The messages of the stream: their subjects, and what a group of commits looks like as one.

A message is one group: the exact lines of the log, so that every copy holds the same bytes. Its headers
say where it goes, so that a reader decides without a look at the lines.

    <stream>.log.<tenant>               the groups of a tenant, in order
    <stream>.patch.<tenant>.<lamport>   the group that follows on this lamport, as a redaction left it
    <stream>.machine.<machine>          what a machine last said of itself; one message each
    <stream>.machine.filler             takes room in the servers' Raft logs, so that they compact them; then nothing
    <stream>.key.<name>                 a secret that all machines share; written once
    <stream>.key.fence                  by whom the memory was taken over: it takes no writes any more

In a stream beside it, `<stream>-contents`:

    <stream>.content.<tenant>.<sha256>.<number>   a piece of a blob that commits name

Beside the stream, not stored: `<stream>.new.>` brings what was just stored, `<stream>.turn.<tenant>` asks the
other writers of a tenant to wait a moment, `<stream>.turn-end.<tenant>` says that they need not,
`<stream>.question.<digits>` asks a machine how far its copy is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tallystick.commits import chain
from tallystick.errors import Corrupt, StorageRefused
from tallystick.log import Entry, Head, head_after, verifier_after

FORMAT = "1"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}")
_BLOB = re.compile("[0-9a-f]{64}")


class Message(msgspec.Struct, frozen=True):
    """As the servers hand it out."""

    subject: str
    sequence: int
    headers: Mapping[str, str]
    data: bytes
    reply: str = ""
    """Where an answer is waited for."""


class Layout(msgspec.Struct, frozen=True):
    """The subjects of one stream."""

    stream: str

    def __post_init__(self) -> None:
        _token(self.stream)

    @property
    def stored(self) -> list[str]:
        return [f"{self.stream}.{each}" for each in ("log.*", "patch.*.*", "machine.*", "key.*")]

    @property
    def new(self) -> str:
        return f"{self.stream}.new.>"

    @property
    def machines(self) -> str:
        return f"{self.stream}.machine.*"

    @property
    def logs(self) -> str:
        return f"{self.stream}.log.*"

    @property
    def turns(self) -> str:
        return f"{self.stream}.turn.*"

    @property
    def turn_ends(self) -> str:
        return f"{self.stream}.turn-end.*"

    def log(self, tenant: str) -> str:
        return f"{self.stream}.log.{_token(tenant)}"

    def patch(self, tenant: str, after: int) -> str:
        return f"{self.stream}.patch.{_token(tenant)}.{after}"

    def patches(self, tenant: str) -> str:
        return f"{self.stream}.patch.{_token(tenant)}.*"

    def machine(self, machine: str) -> str:
        return f"{self.stream}.machine.{_token(machine)}"

    def key(self, name: str) -> str:
        return f"{self.stream}.key.{_token(name)}"

    @property
    def fence(self) -> str:
        return self.key("fence")

    def turn(self, tenant: str) -> str:
        return f"{self.stream}.turn.{_token(tenant)}"

    def turn_end(self, tenant: str) -> str:
        return f"{self.stream}.turn-end.{_token(tenant)}"

    def question(self, digits: str) -> str:
        return f"{self.stream}.question.{_token(digits)}"

    def tenant_of(self, subject: str) -> str | None:
        """Whose log it is; None for what is none."""
        prefix = f"{self.stream}.log."
        return subject.removeprefix(prefix) if subject.startswith(prefix) else None


def is_content(name: str) -> bool:
    """Whether it can be the name of a blob: its SHA-256."""
    return _BLOB.fullmatch(name) is not None


def contents_stream(stream: str) -> tuple[str, list[str]]:
    """The name of the stream that keeps the blobs of another, and its subjects."""
    return f"{stream}-contents", [f"{stream}.content.*.*.*"]


def content_piece(stream: str, tenant: str, blob: str, number: int) -> str:
    return f"{stream}.content.{_token(tenant)}.{_token(blob)}.{number}"


def content_pieces(stream: str, tenant: str, blob: str) -> str:
    return f"{stream}.content.{_token(tenant)}.{_token(blob)}.*"


class Group(msgspec.Struct, frozen=True):
    """Commits that were appended together, as they came from the stream."""

    sequence: int
    after: int
    """The lamport that they follow on."""
    until: int
    """The lamport of the last of them."""
    before_hash: str
    """The record_hash that they follow on; empty at the start of a log."""
    after_hash: str
    machine: str
    lines: bytes


class MachineStatus(msgspec.Struct, frozen=True):
    """What a machine says of itself."""

    machine: str
    at: float
    adopted: int
    """All messages up to this sequence are in its copies, but for those of tenants that are troubled."""
    troubled: list[str] = []
    """Tenants whose copy cannot be brought up to date, which is logged there."""
    erasing: dict[str, dict[str, list[int]]] = {}
    """Tenant → which servers may still hold what it erased there → the redactions."""
    foreign: dict[str, tuple[int, int]] = {}
    """Subject → how many messages of other programs this machine skipped since it began to follow, and the last."""


def regrouped(group: Group) -> dict[str, str]:
    """The headers that it came with."""
    return {
        "Tallystick-Format": FORMAT,
        "Tallystick-After": str(group.after),
        "Tallystick-Until": str(group.until),
        "Tallystick-Before-Hash": group.before_hash or "-",
        "Tallystick-After-Hash": group.after_hash,
        "Tallystick-Machine": group.machine,
    }


def group_of(message: Message) -> Group | None:
    """None for the message that ends a log which was moved. Raises Corrupt."""
    return None if moved_to(message) else read_group(message)


def group_headers(entries: Sequence[Entry], expected: Head, machine: str) -> dict[str, str]:
    return {
        "Tallystick-Format": FORMAT,
        "Tallystick-After": str(expected.lamport),
        "Tallystick-Until": str(entries[-1].commit.lamport),
        "Tallystick-Before-Hash": expected.record_hash or "-",
        "Tallystick-After-Hash": entries[-1].commit.record_hash,
        "Tallystick-Machine": machine,
    }


def group_lines(entries: Sequence[Entry]) -> bytes:
    return b"".join([entry.line + b"\n" for entry in entries])


def moved_headers(lamport: int, to: str, *, taken_over: bool = False) -> dict[str, str]:
    """Of the message that ends a tenant's log in a stream: whoever still writes there learns where it went."""
    said = {"Tallystick-Format": FORMAT, "Tallystick-Moved": to, "Tallystick-After": str(lamport)}
    return said | ({"Tallystick-Taken-Over": "yes"} if taken_over else {})


def moved_to(message: Message) -> str | None:
    return message.headers.get("Tallystick-Moved")


def taken_over(by: str) -> StorageRefused:
    return StorageRefused(
        f"this memory was taken over by {by}: nothing is written here any more",
        code="TAKEN_OVER",
        hint="connect to the other; reads go on here, and docs/runbooks/take-over.md says what to do",
    )


def is_foreign(message: Message) -> bool:
    """Return whether another program published it, on a subject of groups.

    What bears one of our headers or begins with a commit counts as ours, however damaged, and is never skipped.
    """
    if any(name.lower().startswith("tallystick-") for name in message.headers):
        return False
    try:
        chain.decode(message.data.partition(b"\n")[0])
    except Corrupt:
        return True
    return False


def end_of(message: Message) -> int:
    """The lamport that the log has come to with this message. Raises Corrupt."""
    group = group_of(message)
    return int(message.headers["Tallystick-After"]) if group is None else group.until


def machine_of(message: Message) -> str:
    """That wrote it; empty where it does not say."""
    return message.headers.get("Tallystick-Machine", "")


def read_group(message: Message) -> Group:
    """Raises Corrupt for what is no group of ours, StorageRefused where the log was moved elsewhere."""
    headers = message.headers
    if (to := moved_to(message)) is not None:
        if "Tallystick-Taken-Over" in headers:
            raise taken_over(to)
        raise StorageRefused(
            f"this memory was moved to {to} at position {headers.get('Tallystick-After')}; nothing was written",
            code="LOG_MOVED",
            hint="set log_url and log_streams to where it is now, on every machine",
        )
    if headers.get("Tallystick-Format") != FORMAT:
        raise Corrupt(
            f"message {message.sequence} of {message.subject} has format {headers.get('Tallystick-Format')!r}, "
            f"and this version reads {FORMAT}",
            hint="run the version on every machine that wrote it; nothing was changed",
        )
    try:
        before = headers["Tallystick-Before-Hash"]
        return Group(
            sequence=message.sequence,
            after=int(headers["Tallystick-After"]),
            until=int(headers["Tallystick-Until"]),
            before_hash="" if before == "-" else before,
            after_hash=headers["Tallystick-After-Hash"],
            machine=machine_of(message),
            lines=message.data,
        )
    except (KeyError, ValueError) as error:
        raise Corrupt(
            f"message {message.sequence} of {message.subject} lacks a header: {error}",
            hint="it is another program's; nothing was changed; see docs/runbooks/nats-away.md",
        ) from None


def entries_of(group: Group, head: Head, tenant: str) -> tuple[list[Entry], bool]:
    """Those of its commits that follow on `head`, each verified, and whether their payloads are those committed.

    One that a redaction masked is taken as it is: the redaction comes later and vouches for it. Raises Corrupt where
    they do not follow.
    """
    verifier = verifier_after(head)
    found: list[Entry] = []
    offset = head.end
    for line in _lines_after(group, head):
        try:
            commit = verifier.feed(line)
        except Corrupt as error:
            raise _unfit(group, error.message) from None
        if commit.tenant != tenant:
            raise _unfit(group, f"lamport {commit.lamport} is of tenant '{commit.tenant}', in the log of '{tenant}'")
        found.append(Entry(offset, commit, line))
        offset = found[-1].end
    if not found or not found[-1].commit.ends_draft or head_after(found, head).record_hash != group.after_hash:
        raise _unfit(group, "it does not end as its headers say")
    return found, not verifier.redacted


def _unfit(group: Group, why: str) -> Corrupt:
    return Corrupt(
        f"message {group.sequence} of the stream does not fit: {why}",
        hint="nothing was changed, and what came before it can be read; see docs/runbooks/nats-away.md",
    )


def _lines_after(group: Group, head: Head) -> Iterator[bytes]:
    if not group.lines.endswith(b"\n"):
        raise _unfit(group, "it ends in the middle of a line")
    lines = group.lines[:-1].split(b"\n")
    if group.after == head.lamport:
        return iter(lines)
    # A copy that stands inside a group: its process was killed while it wrote it.
    return iter([line for line in lines if chain.decode(line).lamport > head.lamport])


def _token(name: str) -> str:
    if not _TOKEN.fullmatch(name):
        raise ValueError(f"{name!r} cannot be part of a subject")
    return name
