"""The fresh entries: handed over instead of read again, and only what surely follows."""

from __future__ import annotations

from pathlib import Path

from tallystick.commits import Operation, Verb
from tallystick.log import Head, head_after
from tallystick.log.files import FilesLog
from tallystick.projections.follower import Follower
from tallystick.projections.recent_entries import RecentEntries
from tallystick.projections.sql import SqlProjection
from tests.commits_by_hand import append, draft, entries, node

A, B, C, D = (draft(node(name)) for name in "abcd")


def test_what_was_kept_is_given_to_whoever_stands_before_it() -> None:
    recent = RecentEntries()
    made = entries(Head(), A, B, C)
    recent.keep(made)
    assert recent.after(Head()) == made
    assert recent.after(head_after(made[:2], Head())) == made[2:]
    assert recent.after(head_after(made, Head())) == []


def test_a_gap_ends_what_is_given() -> None:
    recent = RecentEntries()
    made = entries(Head(), A, B, C)
    recent.keep(made[:1])
    recent.keep(made[2:])
    assert recent.after(Head()) == made[:1]


def test_what_does_not_follow_on_the_same_commit_is_not_given() -> None:
    recent = RecentEntries()
    made = entries(Head(), A, B)
    recent.keep(made[1:])
    other = head_after(entries(Head(), draft(node("x"))), Head())
    assert other.end == made[1].offset
    assert recent.after(other) == []


def test_a_draft_is_never_given_in_part() -> None:
    made = entries(Head(), draft(node("a"), node("b"), node("c")))
    recent = RecentEntries(bytes_max=len(made[0].line) * 2)
    recent.keep(made)
    assert recent.after(Head()) == []


def test_a_redaction_leaves_nothing_to_give() -> None:
    recent = RecentEntries()
    made = entries(Head(), A)
    recent.keep(made)
    redaction = Operation(Verb.REDACT_NODE, {"node_id": "a", "reason": "gdpr"}, redacts={"1": "0" * 64})
    recent.keep(entries(head_after(made, Head()), draft(redaction)))
    assert recent.after(Head()) == []


def test_a_follower_takes_what_is_fresh_and_reads_the_rest(tmp_path: Path) -> None:
    log = FilesLog(tmp_path / "_system")
    recent = RecentEntries()
    projection = SqlProjection(tmp_path / "graph.db")
    follower = Follower(lambda: FilesLog(tmp_path / "_system"), projection, recent=recent)
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
    recent = RecentEntries()
    recent.keep(append(log, A, B))
    segment = next((tmp_path / "_system" / "log").iterdir())
    segment.write_bytes(b" " * segment.stat().st_size)
    projection = SqlProjection(tmp_path / "graph.db")
    follower = Follower(lambda: FilesLog(tmp_path / "_system"), projection, recent=recent)
    follower.catch_up()
    assert projection.position() == log.head()
    follower.close()
    log.close()
