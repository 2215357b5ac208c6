"""Moving a tenant's log into a stream, out of it, or from one to another, whole and verified.

A log that leaves a stream ends there with a message that says where to: whoever still publishes behind the last
group is refused by the servers, reads that message, and says so. What was sent before a crash is not sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import zip_longest

from tallystick.errors import Conflict, Corrupt
from tallystick.extensions.cluster.catching_up import adopt, find_start, sequence_at
from tallystick.extensions.cluster.contents import all_named, store
from tallystick.extensions.cluster.copy import Copy
from tallystick.extensions.cluster.messages import (
    Group,
    Message,
    end_of,
    group_headers,
    group_lines,
    is_foreign,
    moved_headers,
    moved_to,
    read_group,
)
from tallystick.extensions.cluster.stream import ASK_SECONDS, Stream, WrongSequence
from tallystick.log import Entry, Head, head_after
from tallystick.log.files import FilesLog

_CHUNK_BYTES = 1 << 20

Progress = Callable[[int, int], None]
"""Called with the bytes done so far and the bytes there are."""


def send(log: FilesLog, stream: Stream, tenant: str, *, machine: str, progress: Progress) -> int:
    """Publish what the stream has not of it, and return at which lamport that began. The caller holds the claim.

    Raises Conflict where the stream has something else. A crash leaves a prefix, which the next try continues.
    """
    store(stream, log.system, tenant, sorted(all_named(log.system)))
    subject = stream.layout.log(tenant)
    begun = _begun(stream.last_group(subject), tenant, stream.name)
    newest = stream.last(subject)
    sequence = 0 if newest is None else newest.sequence
    end = log.head()
    head = Head()
    is_found = begun is None
    for entries in chunks(log, until=None if begun is None else begun[0]):
        after = head_after(entries, head)
        if is_found:
            sequence = stream.publish(
                subject,
                group_lines(entries),
                group_headers(entries, head, machine),
                seconds=ASK_SECONDS,
                expected=sequence,
            )
        elif begun == (after.lamport, after.record_hash):
            is_found = True
        head = after
        progress(head.end, end.end)
    if not is_found:
        raise _other(tenant, stream.name)
    return begun[0] if begun else 0


def check_same(log: FilesLog, stream: Stream, tenant: str, progress: Progress) -> None:
    """Raises Corrupt unless the stream holds the same bytes, and no more."""
    end = log.head()
    for entry, line in zip_longest(log.read(Head()), _stored_lines(stream, tenant)):
        if entry is None or entry.line != line:
            where = end.lamport if entry is None else entry.commit.lamport
            raise Corrupt(
                f"the stream does not hold what lies here at lamport {where}",
                hint="nothing was changed here; delete the stream and try again",
            )
        progress(entry.end, end.end)


def end_in_stream(stream: Stream, copy: Copy, to: str) -> None:
    """Fetch what the copy has not, and let the log end in the stream. The caller holds the claim."""
    subject = stream.layout.log(copy.tenant)
    went: list[str] = []

    def groups() -> Iterator[Group]:
        start = copy.sequence()
        for message in stream.messages(subject, find_start(stream, copy) if start is None else start):
            if (target := moved_to(message)) is not None:
                went.append(target)
                return
            if not is_foreign(message):
                yield read_group(message)

    while True:
        adopt(stream, copy, groups())
        if went:
            if went != [to]:
                raise Conflict(
                    f"'{copy.tenant}' was moved from '{stream.name}' to {went[0]} already",
                    code="LOG_MOVED",
                    hint="set log_url and log_streams to where it is now, on every machine",
                )
            return
        sequence = sequence_at(stream, copy)
        if sequence is None:
            continue
        try:
            headers = moved_headers(copy.log.head().lamport, to)
            stream.publish(subject, b"", headers, seconds=ASK_SECONDS, expected=sequence)
            return
        except WrongSequence:
            # Another machine wrote meanwhile.
            continue


def take_over(stream: Stream, by: str) -> None:
    """No machine writes to the stream any more, whatever it has heard of. Raises Conflict where another was faster."""
    try:
        # First of all: whoever begins a tenant looks at it, before and after.
        stream.publish(stream.layout.fence, by.encode(), {}, seconds=ASK_SECONDS, expected=0)
    except WrongSequence:
        first = fenced_by(stream)
        if first not in (None, by):
            raise Conflict(
                f"this memory was taken over by {first} already",
                code="TAKEN_OVER",
                hint="connect to that one; docs/runbooks/take-over.md says what to do",
            ) from None
    for tenant in stream.tenants():
        _end(stream, tenant, by)


def fenced_by(stream: Stream) -> str | None:
    """Who took the memory over, as the leader knows it."""
    found = stream.last(stream.layout.fence)
    return None if found is None else found.data.decode("utf-8", "replace")


def _end(stream: Stream, tenant: str, by: str) -> None:
    subject = stream.layout.log(tenant)
    while (last := stream.last_group(subject)) is not None and moved_to(last) is None:
        with suppress(WrongSequence):
            headers = moved_headers(end_of(last), by, taken_over=True)
            stream.publish(subject, b"", headers, seconds=ASK_SECONDS, expected=last.sequence)


def chunks(log: FilesLog, *, until: int | None = None) -> Iterator[list[Entry]]:
    """Whole drafts, as many as make a message; one ends at the lamport `until`."""
    held: list[Entry] = []
    size = 0
    for entry in log.read(Head()):
        held.append(entry)
        size += len(entry.line)
        if entry.commit.ends_draft and (size >= _CHUNK_BYTES or entry.commit.lamport == until):
            yield held
            held, size = [], 0
    if held:
        yield held


def _begun(last: Message | None, tenant: str, stream: str) -> tuple[int, str] | None:
    """Where an earlier try ended; None where there was none."""
    if last is None:
        return None
    if (went := moved_to(last)) is not None:
        raise Conflict(
            f"'{tenant}' was in the stream '{stream}' before and was moved to {went}",
            code="LOG_MOVED",
            hint="choose another stream with --stream",
        )
    group = read_group(last)
    return group.until, group.after_hash


def _other(tenant: str, stream: str) -> Conflict:
    return Conflict(
        f"the stream '{stream}' has a log of '{tenant}' that this one does not continue",
        code="LOG_DIVERGED",
        hint="choose another stream with --stream, or delete that one; nothing was changed",
    )


def _stored_lines(stream: Stream, tenant: str) -> Iterator[bytes]:
    for group in stream.groups(tenant, 0):
        yield from group.lines[:-1].split(b"\n")
