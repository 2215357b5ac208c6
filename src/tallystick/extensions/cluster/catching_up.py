"""Catching up: a copy is brought to where the stream is, and it is found out which message its end is.

The caller holds the copy's claim. Raises NoAnswer where the stream does not answer, Corrupt where it does not
continue what is here.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tallystick.errors import Corrupt
from tallystick.extensions.cluster.contents import fetch_or_note
from tallystick.extensions.cluster.copy import Copy, fill
from tallystick.extensions.cluster.messages import Group, Message, end_of, group_of, is_foreign, read_group
from tallystick.extensions.cluster.stream import Stream
from tallystick.log import Head


def catch_up(stream: Stream, copy: Copy, heard: Message | None = None) -> None:
    """`heard` is a message that was just stored: most of the time it is all that is missing."""
    group = None if heard is None else group_of(heard)
    if group is not None and group.before_hash == copy.log.head().record_hash:
        adopt(stream, copy, [group])
    else:
        adopt(stream, copy, stream.groups(copy.tenant, _start(stream, copy)))


def missing(stream: Stream, copy: Copy, heard: Message | None = None) -> list[Group]:
    """The next of what a copy has not; for one who does not hold the claim, so that it may be there by then."""
    group = None if heard is None else group_of(heard)
    if group is not None and group.before_hash == copy.log.head().record_hash:
        return [group]
    after = _start(stream, copy)
    while messages := stream.batch(stream.layout.log(copy.tenant), after):
        after = messages[-1].sequence
        if own := [message for message in messages if not is_foreign(message)]:
            return [group for message in own if (group := group_of(message)) is not None]
    return []


def adopt(stream: Stream, copy: Copy, groups: Iterable[Group]) -> None:
    tenant = copy.tenant
    copy.adopt(groups, lambda after: stream.patch(tenant, after), fetch_or_note(stream, copy.system, tenant))


def _start(stream: Stream, copy: Copy) -> int:
    known = copy.sequence()
    return find_start(stream, copy) if known is None else known


def fill_copy(stream: Stream, system: Path, tenant: str, *, segment_bytes_max: int) -> None:
    """The first copy of a tenant on this machine."""
    fill(
        system,
        tenant,
        stream.groups(tenant, 0),
        lambda after: stream.patch(tenant, after),
        fetch_or_note(stream, system, tenant),
        memory=stream.memory,
        stream=stream.name,
        segment_bytes_max=segment_bytes_max,
    )


def sequence_at(stream: Stream, copy: Copy) -> int | None:
    """Of the message that ends at the copy's head, which is what the next one is published on; None where the
    stream goes on behind it. Raises Corrupt where the stream ends before it."""
    known = copy.sequence()
    if known is not None:
        return known
    head = copy.log.head()
    subject = stream.layout.log(copy.tenant)
    last = stream.last_group(subject)
    check_continues(last, head, stream.name)
    if last is None:
        foreign = stream.last(subject)
        return foreign.sequence if foreign is not None and is_foreign(foreign) else 0
    group = read_group(last)
    if group.after_hash != head.record_hash:
        return None
    copy.note(last.sequence)
    return last.sequence


def check_continues(last: Message | None, head: Head, stream: str) -> None:
    """Raises Corrupt where this machine has what the stream has not: somebody replaced the stream."""
    group = None if last is None else group_of(last)
    end = 0 if last is None else end_of(last)
    is_behind = end < head.lamport
    differs = group is not None and group.until == head.lamport and group.after_hash != head.record_hash
    if head != Head() and (is_behind or differs):
        raise Corrupt(
            f"this copy ends at lamport {head.lamport}, and the stream '{stream}' "
            + ("at another commit of that lamport" if differs else f"at {end}"),
            code="LOG_DIVERGED",
            hint="the stream was replaced or restored from an older state; nothing was changed. 'tallystick verify'"
            " proves this copy, and 'tallystick migrate' takes it to an empty stream",
        )


def find_start(stream: Stream, copy: Copy) -> int:
    """A sequence behind which all lies that the copy has not. About twenty questions where nothing is known."""
    known = copy.last_known_sequence()
    return find_behind(stream, stream.layout.log(copy.tenant), copy.log.head().lamport, known)


def find_behind(stream: Stream, subject: str, lamport: int, low: int = 0) -> int:
    """The sequence behind which the first message comes that goes beyond a lamport."""
    last = stream.last_group(subject)
    if lamport == 0 or last is None:
        return 0
    high = last.sequence
    # Lamports rise with sequences.
    while low < high:
        middle = (low + high) // 2
        found = stream.next_group(subject, middle)
        group = None if found is None else group_of(found)
        if group is None or group.until > lamport:
            high = middle
        else:
            low = max(group.sequence, middle + 1)
    return low
