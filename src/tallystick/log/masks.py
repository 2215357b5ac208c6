"""The masks of a redaction: which payloads it overwrites, and with what.

They follow from the redaction's commit and the lines that it names, so that every copy of a
log masks the same bytes without being told: the payload says which fields go, `redacts` names
each line and the SHA-256 of what is left of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from tallystick.commits import chain
from tallystick.commits.payloads import read_extent
from tallystick.log import Entry

Find = Callable[[Collection[int]], Mapping[int, int]]
"""Lamports → the offsets of those that the log holds."""


def masks_of(
    entries: Sequence[Entry], find: Find, line_at: Callable[[int], bytes], is_sound: Callable[[bytes], bool]
) -> dict[int, bytes]:
    """Offset → the payload that takes the place of the one there, once these entries are in the log.

    `is_sound` tells whether a line is as it was committed, or as the redactions in the log so far left it.
    Costs a look at each line that a redaction names, and nothing where none is among the entries.
    Raises ValueError when a redaction does not leave what it says: appended, it would be acknowledged
    and never carried out.
    """
    redactions = [entry.commit for entry in entries if entry.commit.redacts]
    if not redactions:
        return {}
    own = {entry.commit.lamport: entry for entry in entries}
    named = {int(lamport) for commit in redactions for lamport in commit.redacts or ()}
    offsets = {**find(named - own.keys()), **{lamport: own[lamport].offset for lamport in named & own.keys()}}
    lines = {offset: own[lamport].line if lamport in own else line_at(offset) for lamport, offset in offsets.items()}
    masks: dict[int, bytes] = {}
    for commit in redactions:
        try:
            fields = read_extent(commit.payload).redacted_fields
        except msgspec.MsgspecError as error:
            raise ValueError(f"lamport {commit.lamport}: its payload is not that of a redaction: {error}") from None
        for text, left in (commit.redacts or {}).items():
            # What a redaction names and the log does not hold is not there to be masked.
            if (offset := offsets.get(int(text))) is not None:
                payload = _payload_left(lines[offset], fields, left, is_sound)
                if payload is not None:
                    masks[offset], lines[offset] = payload, chain.mask(lines[offset], payload)
    # Those who read meanwhile know by the oldest line of an entity whether any of them is masked.
    return dict(sorted(masks.items()))


def _payload_left(
    line: bytes, fields: Sequence[str] | None, left: str, is_sound: Callable[[bytes], bool]
) -> bytes | None:
    """None when the line is as it should be already."""
    payload = chain.redacted_payload(line, fields)
    if chain.content_hash(chain.payload_of(line) if payload is None else payload) == left:
        return payload
    if is_sound(line):
        raise ValueError(f"a redaction does not leave of lamport {chain.decode(line).lamport} what it says")
    # Masked by a later redaction before this one was appended: a copy is made of what the last of them left.
    return None
