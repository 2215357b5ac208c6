"""The bases that are measured: filled by the log's own writer, in large groups, as an import would."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from bench import say
from tallystick.clock import to_text
from tallystick.commits import Draft, Operation, Verb, chain
from tallystick.log import Entry, Head, Log
from tallystick.log.files import FilesLog

START = 1_700_000_000_000
GROUP = 5_000
_TELL = 250_000


def fill(base: Path, operations: Iterable[Operation]) -> Head:
    """Append them to the log of the default tenant."""
    log = FilesLog(base / "_system")
    try:
        return fill_log(log, operations)
    finally:
        log.close()


def fill_log(log: Log, operations: Iterable[Operation]) -> Head:
    left = iter(operations)
    while group := list(islice(left, GROUP)):
        head = log.head()
        head = log.append(seal(head, group), expected=head)
        if head.count % _TELL == 0:
            say(f"{head.count:,} commits written")
    return log.head()


def seal(head: Head, operations: Sequence[Operation]) -> list[Entry]:
    """As one group of drafts."""
    made: list[Entry] = []
    offset, prev, record_hash = head.end, head.commit_id, head.record_hash
    for lamport, operation in enumerate(operations, head.lamport + 1):
        commit = chain.seal(
            Draft((operation,), actor="agent", tool="bench"),
            operation,
            tenant="default",
            lamport=lamport,
            timestamp=to_text(START + lamport * 10),
            prev=prev,
            prev_record_hash=record_hash,
            group=made[0].commit.lamport if made else None,
        )
        made.append(Entry(offset, commit, chain.encode(commit)[:-1]))
        offset, prev, record_hash = made[-1].end, commit.commit_id, commit.record_hash
    return made


def freeze_loaded() -> None:
    """As the program does after it has loaded a log: what is there stays, and is not looked through again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def note(number: int, *, body_bytes: int = 850) -> Operation:
    """With its id, type and other attributes about 1 KB."""
    attrs = {
        "title": f"note-{number}",
        "status": "open" if number % 3 else "done",
        "number": number,
        "body": f"{number} ".ljust(body_bytes, "x"),
    }
    return Operation(Verb.UPSERT_NODE, {"id": f"note-{number}", "type": "note", "attrs": attrs})
