"""Logs that were written in format "1" are read, proven and written the same for ever.

`format_1.jsonl` is never regenerated: a difference means that logs out there would no
longer verify. A new format gets files of its own beside it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tallystick.commits import Commit, Draft, Operation, Verb
from tallystick.commits.chain import Verifier, decode, encode, mask, payload_of, seal

LINES = (Path(__file__).parent / "format_1.jsonl").read_bytes().splitlines(keepends=True)

MASKED = b'{"attrs":{"email":"[REDACTED]","name":"[REDACTED]"},"id":"person_1","type":"person"}'

PERSON = {
    "id": "person_1",
    "type": "person",
    "attrs": {"name": "Ada Lovelace", "email": "ada.lovelace@example.org"},
}
NUMBERS = {
    "id": "数_1",
    "type": "Größe",
    "attrs": {
        "whole": 1.0,
        "minus_nought": -0.0,
        "wide": 1e20,
        "huge": 1e21,
        "small": 1e-6,
        "tiny": 1.5e-7,
        "integer": 9007199254740991,
        "mixed": [None, True, False, 0.1, '\u0000\u001f\u007f\u2028"\\/\t', [], {}],
        "\U0001f600": "before the next key in UTF-16",
        "\ufb33": "after it",
    },
}
KNOWS = {"from": "person_1", "rel": "knows", "to": "数_1", "attrs": {"since": "1833-06-05"}, "id": "edge_1"}

BY_ADA = Draft(
    operations=(
        Operation(Verb.UPSERT_NODE, NUMBERS, nonce="n-1"),
        Operation(Verb.UPSERT_EDGE, KNOWS, nonce="n-1"),
    ),
    actor="ada",
    tool="memory.write",
    reason='she said: "so"',
    run_context={"run_id": "run_1", "job_id": "job_1", "\ufb33": "2", "\U0001f600": "1"},
    policy_version="single-user-1",
)
REDACTION = Operation(
    Verb.REDACT_NODE,
    {"node_id": "person_1", "reason": "asked to be forgotten"},
    redacts={"1": hashlib.sha256(MASKED).hexdigest()},
)
EDGE_REDACTION = Operation(
    Verb.REDACT_EDGE,
    {"from": "person_1", "rel": "knows", "to": "数_1", "reason": "asked", "redacted_fields": ["attrs.since"]},
)
WRITTEN: list[tuple[Draft, dict[str, Any]]] = [
    (Draft((Operation(Verb.UPSERT_NODE, PERSON),), "ädä", "memory.write"), {"lamports": [1]}),
    (BY_ADA, {"lamports": [2, 3]}),
    (
        Draft(
            (Operation(Verb.DELETE_EDGE, {"from": "person_1", "rel": "knows", "to": "数_1"}),), "bob", "memory.write"
        ),
        {"lamports": [41], "group": 2},
    ),
    (Draft((REDACTION,), "bob", "memory.write"), {"lamports": [42]}),
    (Draft((Operation(Verb.DELETE_NODE, {"node_id": "person_1"}),), "bob", "memory.write"), {"lamports": [43]}),
    # Added later than the lines before it, whose bytes it leaves as they were.
    (Draft((EDGE_REDACTION,), "bob", "memory.write"), {"lamports": [44]}),
]


def written_today() -> list[bytes]:
    lines: list[bytes] = []
    last: Commit | None = None
    for draft, given in WRITTEN:
        total = len(draft.operations)
        for number, (operation, lamport) in enumerate(zip(draft.operations, given["lamports"], strict=True), 1):
            last = seal(
                draft,
                operation,
                tenant="default",
                lamport=lamport,
                timestamp=f"2025-01-04T12:00:00.{lamport:03d}Z",
                prev=last.commit_id if last else None,
                prev_record_hash=last.record_hash if last else "",
                batch=(number, total) if total > 1 else None,
                group=given.get("group"),
            )
            lines.append(encode(last))
    return [mask(lines[0][:-1], MASKED) + b"\n", *lines[1:]]


def test_the_same_operations_give_the_same_bytes_today() -> None:
    assert written_today() == LINES


def test_the_log_of_then_verifies_today() -> None:
    verifier = Verifier()
    commits = [verifier.feed(line[:-1]) for line in LINES]
    verifier.finish()
    assert verifier.unmasked == {}
    assert {commit.operation for commit in commits} == set(Verb)
    assert payload_of(LINES[0][:-1]) == MASKED


@pytest.mark.parametrize("line", LINES[1:], ids=lambda line: f"lamport {json.loads(line)['lamport']}")
def test_what_was_read_is_written_back_to_the_byte(line: bytes) -> None:
    assert encode(decode(line[:-1])) == line
