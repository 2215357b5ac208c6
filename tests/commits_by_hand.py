"""Commits made by hand, for tests below the partition."""

from __future__ import annotations

from typing import Any

from tallystick.clock import to_text
from tallystick.commits import Draft, Operation, Verb, chain
from tallystick.log import Entry, Head, Log

START = 1_700_000_000_000


def node(node_id: str, **attrs: Any) -> Operation:
    return Operation(Verb.UPSERT_NODE, {"id": node_id, "type": "note", "attrs": attrs})


def draft(*operations: Operation, actor: str = "tester") -> Draft:
    return Draft(operations=operations, actor=actor, tool="test")


def entries(head: Head, *drafts: Draft, tenant: str = "default", now: int = START) -> list[Entry]:
    """One group: these drafts, sealed behind `head`."""
    made: list[Entry] = []
    lamport, offset, prev, record_hash = head.lamport, head.end, head.commit_id, head.record_hash
    for each in drafts:
        first = made[0].commit.lamport if made else None
        total = len(each.operations)
        for number, operation in enumerate(each.operations, 1):
            lamport += 1
            commit = chain.seal(
                each,
                operation,
                tenant=tenant,
                lamport=lamport,
                timestamp=max(to_text(now), head.timestamp),
                prev=prev,
                prev_record_hash=record_hash,
                batch=(number, total) if total > 1 else None,
                group=first,
            )
            made.append(Entry(offset, commit, chain.encode(commit)[:-1]))
            offset, prev, record_hash = made[-1].end, commit.commit_id, commit.record_hash
    return made


def append(log: Log, *drafts: Draft) -> list[Entry]:
    head = log.head()
    made = entries(head, *drafts)
    log.append(made, expected=head)
    return made


def filled(log: Log, count: int) -> list[Entry]:
    """One group for each commit, so that each was durable before the next was begun."""
    return [append(log, draft(node(f"n{number}", number=number)))[0] for number in range(count)]
