"""What every log promises, shown on each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tallystick.commits import Operation, Verb, chain
from tallystick.commits.canonical import canonical_bytes
from tallystick.errors import HeadMoved
from tallystick.log import Head, Log, head_after
from tallystick.log.files import FilesLog
from tallystick.log.memory import MemoryLog
from tests.making import append, draft, entries, filled, node

LOGS: dict[str, Callable[[Path], Log]] = {
    "memory": lambda path: MemoryLog(),
    "files": lambda path: FilesLog(path / "_system"),
    "files in small segments": lambda path: FilesLog(path / "_system", segment_bytes_max=1_500),
}


@pytest.fixture(params=LOGS)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    opened = LOGS[request.param](tmp_path)
    yield opened
    opened.close()


def test_an_empty_log_is_at_zero(log: Log) -> None:
    assert log.head() == Head()
    assert list(log.read(Head())) == []


def test_what_was_appended_is_read_back_in_order_and_at_its_offset(log: Log) -> None:
    made = filled(log, 20)
    assert list(log.read(Head())) == made
    assert [log.line(entry.offset) for entry in made] == [entry.line for entry in made]


def test_the_head_is_the_end_of_the_last_entry(log: Log) -> None:
    made = filled(log, 3)
    assert log.head() == head_after(made, Head())


def test_reading_goes_on_from_any_head(log: Log) -> None:
    first = append(log, draft(node("a")))
    middle = log.head()
    second = append(log, draft(node("b")), draft(node("c")))
    assert list(log.read(middle)) == second
    assert list(log.read(Head())) == first + second


def test_the_slower_of_two_writers_is_told_and_leaves_nothing(log: Log) -> None:
    before = log.head()
    slow = entries(before, draft(node("slow")))
    fast = append(log, draft(node("fast")))
    with pytest.raises(HeadMoved):
        log.append(slow, expected=before)
    assert list(log.read(Head())) == fast


def test_entries_that_do_not_follow_on_the_head_are_refused(log: Log) -> None:
    stale = entries(log.head(), draft(node("stale")))
    kept = append(log, draft(node("kept")))
    with pytest.raises(ValueError, match="follow position 1"):
        log.append(stale, expected=log.head())
    assert list(log.read(Head())) == kept


def test_a_group_of_batches_is_appended_as_one(log: Log) -> None:
    made = append(log, draft(node("a"), node("b")), draft(node("c")))
    assert [entry.commit.batch for entry in log.read(Head())] == [(1, 2), (2, 2), None]
    assert [entry.commit.first_of_group() for entry in made] == [1, 1, 1]


def test_a_mask_takes_the_place_of_a_payload_and_the_chain_still_verifies(log: Log) -> None:
    secret = append(log, draft(node("person", email="ada@example.org")))[0]
    masked = canonical_bytes({"id": "person", "type": "note", "attrs": {"email": "[REDACTED]"}})
    redact = Operation(
        Verb.REDACT_NODE, {"node_id": "person", "reason": "asked"}, redacts={"1": chain.content_hash(masked)}
    )
    after = entries(log.head(), draft(redact))
    log.append(after, expected=log.head(), masks={secret.offset: masked})

    assert b"ada@example.org" not in log.line(secret.offset)
    read = list(log.read(Head()))
    assert read[0].commit.payload == masked
    assert read[0].end == secret.end
    assert read[0].commit.commit_id == secret.commit.commit_id


def test_a_claim_can_be_released_and_taken_again(log: Log) -> None:
    for _ in range(2):
        assert log.claim(timeout_seconds=0)
        append(log, draft(node("a")))
        log.release()
