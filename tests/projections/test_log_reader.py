"""The fresh entries: handed over instead of read again, and only what surely follows."""

from __future__ import annotations

import threading
from pathlib import Path

from tallystick.commits import Operation, Verb
from tallystick.log import Head, head_after
from tallystick.log.files import FilesLog
from tallystick.log.memory import MemoryLog
from tallystick.projections.log_reader import LogReader
from tallystick.projections.sql import SqlProjection
from tallystick.projections.worker import ProjectionWorker
from tests.commits_by_hand import append, draft, entries, node

A, B, C, D = (draft(node(name)) for name in "abcd")


def test_what_was_kept_is_given_to_whoever_stands_before_it() -> None:
    recent = LogReader(MemoryLog)
    made = entries(Head(), A, B, C)
    recent.keep(made)
    assert recent.recent(Head()) == made
    assert recent.recent(head_after(made[:2], Head())) == made[2:]
    assert recent.recent(head_after(made, Head())) == []


def test_a_gap_ends_what_is_given() -> None:
    recent = LogReader(MemoryLog)
    made = entries(Head(), A, B, C)
    recent.keep(made[:1])
    recent.keep(made[2:])
    assert recent.recent(Head()) == made[:1]


def test_what_does_not_follow_on_the_same_commit_is_not_given() -> None:
    recent = LogReader(MemoryLog)
    made = entries(Head(), A, B)
    recent.keep(made[1:])
    other = head_after(entries(Head(), draft(node("x"))), Head())
    assert other.end == made[1].offset
    assert recent.recent(other) == []


def test_a_draft_is_never_given_in_part() -> None:
    made = entries(Head(), draft(node("a"), node("b"), node("c")))
    recent = LogReader(MemoryLog, bytes_max=len(made[0].line) * 2)
    recent.keep(made)
    assert recent.recent(Head()) == []


def test_nor_when_its_end_was_dropped_since_it_was_kept_before_the_rest() -> None:
    made = entries(Head(), A, draft(node("b"), node("c")), D, draft(node("e")))
    recent = LogReader(MemoryLog, bytes_max=sum(len(entry.line) for entry in made[1:4]) + 10)
    recent.keep(made[1:3])
    recent.keep(made[3:])
    recent.keep(made[:3])
    assert recent.recent(Head()) == made[:1]


def test_a_place_inside_a_draft_is_none_to_go_on_from() -> None:
    log = MemoryLog()
    made = append(log, A, draft(node("b"), node("c")), D)
    reader = LogReader(lambda: log)
    assert [reader.has(head_after(made[:count], Head())) for count in range(1, 5)] == [True, False, True, True]


def test_a_redaction_leaves_nothing_to_give() -> None:
    recent = LogReader(MemoryLog)
    made = entries(Head(), A)
    recent.keep(made)
    redaction = Operation(Verb.REDACT_NODE, {"node_id": "a", "reason": "gdpr"}, redacts={"1": "0" * 64})
    recent.keep(entries(head_after(made, Head()), draft(redaction)))
    assert recent.recent(Head()) == []


def test_what_follows_a_redaction_is_given() -> None:
    recent = LogReader(MemoryLog)
    made = entries(Head(), A)
    redaction = Operation(Verb.REDACT_NODE, {"node_id": "a", "reason": "gdpr"}, redacts={"1": "0" * 64})
    more = entries(head_after(made, Head()), draft(redaction), B, C)
    recent.keep([*made, *more])
    assert recent.recent(Head()) == []
    assert recent.recent(head_after(made, Head())) == more


def test_what_one_has_read_the_others_at_that_place_get_without_reading_it_again(tmp_path: Path) -> None:
    log = FilesLog(tmp_path / "_system")
    long = [append(log, draft(node(f"n{number}", text="x" * 1000)))[0] for number in range(10)]
    reader = LogReader(lambda: FilesLog(tmp_path / "_system"), bytes_max=sum(len(each.line) for each in long) // 2)
    at, parts = Head(), []
    while first := reader.drafts(at):
        assert reader.recent(at) == first
        parts.append(len(first))
        at = head_after(first, at)
    assert (sum(parts), at) == (10, log.head())
    assert len(parts) > 1
    reader.close()
    log.close()


def test_a_follower_takes_what_is_fresh_and_reads_the_rest(tmp_path: Path) -> None:
    log = FilesLog(tmp_path / "_system")
    recent = LogReader(lambda: FilesLog(tmp_path / "_system"))
    projection = SqlProjection(tmp_path / "graph.db")
    follower = ProjectionWorker(recent, projection)
    append(log, A)
    follower.catch_up()
    recent.keep(append(log, B))
    append(log, C)  # By another process.
    recent.keep(append(log, D))
    follower.catch_up()
    assert projection.position() == log.head()
    follower.close()
    log.close()


def test_a_follower_that_is_handed_everything_reads_nothing(tmp_path: Path) -> None:
    log = FilesLog(tmp_path / "_system")
    recent = LogReader(lambda: FilesLog(tmp_path / "_system"))
    recent.keep(append(log, A, B))
    segment = next((tmp_path / "_system" / "log").iterdir())
    segment.write_bytes(b" " * segment.stat().st_size)
    projection = SqlProjection(tmp_path / "graph.db")
    follower = ProjectionWorker(recent, projection)
    follower.catch_up()
    assert projection.position() == log.head()
    follower.close()
    log.close()


def test_the_writer_never_waits_for_whoever_reads_from_disk() -> None:
    """The writer keeps entries while it holds the log's lock, which a handle that is being opened may wait for."""
    opening, go_on = threading.Event(), threading.Event()

    def slowly() -> MemoryLog:
        opening.set()
        go_on.wait()
        return MemoryLog()

    reader = LogReader(slowly)
    reading = threading.Thread(target=reader.drafts, args=(Head(),))
    reading.start()
    opening.wait()
    reader.keep(entries(Head(), A))
    assert reader.drafts(Head()) == entries(Head(), A)
    go_on.set()
    reading.join()


def test_what_one_projection_read_the_next_one_does_not_read_again(tmp_path: Path) -> None:
    log = FilesLog(tmp_path / "_system")
    append(log, A, B)
    reader = LogReader(lambda: FilesLog(tmp_path / "_system"))
    first = reader.drafts(Head())
    segment = next((tmp_path / "_system" / "log").iterdir())
    segment.write_bytes(b" " * segment.stat().st_size)
    assert reader.drafts(Head()) == first
    reader.close()
    log.close()
