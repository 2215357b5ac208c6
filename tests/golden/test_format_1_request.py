"""Format "1" with what was added to it later: the request of a nonce (ADR 19), the reason of one operation.

`format_1_request.jsonl` is never regenerated, like the file beside it, which has none of this.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tallystick.commits import Commit, Draft, Operation, Verb
from tallystick.commits.chain import Verifier, decode, encode, seal

LINES = (Path(__file__).parent / "format_1_request.jsonl").read_bytes().splitlines(keepends=True)

PERSON = {"id": "person_1", "type": "person", "attrs": {"name": "Ada"}}
NOTE = {
    "id": "note_1",
    "type": "note",
    "attrs": {},
    "content": {"format": "md", "encoding": "utf-8", "text": "kept"},
}
DRAFT = Draft(
    operations=(
        Operation(Verb.UPSERT_NODE, PERSON, reason="again", place="ops[0]"),
        Operation(Verb.UPSERT_NODE, NOTE, nonce="n-2", request=hashlib.sha256(b"{}").hexdigest(), place="ops[1]"),
    ),
    actor="bob",
    tool="memory.write",
    reason="several at once",
)


def written_today() -> list[bytes]:
    lines: list[bytes] = []
    last: Commit | None = None
    for number, operation in enumerate(DRAFT.operations, 1):
        last = seal(
            DRAFT,
            operation,
            tenant="default",
            lamport=number,
            timestamp="2026-11-16T12:00:00.000Z",
            prev=last.commit_id if last else None,
            prev_record_hash=last.record_hash if last else "",
            batch=(number, len(DRAFT.operations)),
        )
        lines.append(encode(last))
    return lines


def test_the_same_operations_give_the_same_bytes_today() -> None:
    assert written_today() == LINES


def test_the_log_of_then_verifies_today() -> None:
    verifier = Verifier()
    commits = [verifier.feed(line[:-1]) for line in LINES]
    verifier.finish()
    assert [commit.request for commit in commits] == [None, hashlib.sha256(b"{}").hexdigest()]
    assert [commit.reason for commit in commits] == ["again", "several at once"]


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"lamport {json.loads(line)['lamport']}")
def test_what_was_read_is_written_back_to_the_byte(line: bytes) -> None:
    assert encode(decode(line[:-1])) == line
