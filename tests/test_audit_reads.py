"""What was read in a span of time, as far as the audit log says."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from tallystick.audit import Decided, Event, Lost, encode
from tallystick.audit.files import AuditFiles
from tallystick.audit.reads import Span, find_reads
from tallystick.clock import from_text, to_text
from tests.promises import promise

NOON = from_text("2025-01-04T12:00:00Z")
HOUR = 3_600_000


def at(hours: float) -> str:
    return to_text(NOON + int(hours * HOUR))


def read(hours: float, resource: str | None = "fact", **changes: Any) -> Decided:
    fields: dict[str, Any] = {
        "timestamp": at(hours), "tenant": "default", "actor": "ann", "action": "READ", "decision": True, "reason": "",
        "policy_version": "1", "latency_ms": 0.1, "cache_hit": False, "resource": resource, "tool": "memory.read",
    }  # fmt: skip
    return Decided(**{**fields, **changes})


def written(directory: Path, *events: Event, day: int = 0) -> None:
    with closing(AuditFiles(directory, clock=lambda: NOON + day * 24 * HOUR)) as audit:
        audit.append([encode(event) for event in events])


@promise("why, audit", "only what the actor was allowed to read meanwhile is found")
def test_only_what_the_actor_was_allowed_to_read_meanwhile_is_found(tmp_path: Path) -> None:
    written(
        tmp_path,
        read(0.5, "before"),
        read(1, "first"),
        read(1.5, "second"),
        read(1.6, "first"),
        read(1.7, "others", actor="ben"),
        read(1.7, "denied", decision=False),
        read(1.7, "written", action="WRITE"),
        read(1.7, "ignored", tool="memory.why"),
        read(1.8, None, action="SEARCH"),
        read(1.8, "start", action="SEARCH"),
        read(2.5, "after"),
    )
    found = find_reads(tmp_path, [Span("ann", at(1), at(2))], except_by="memory.why")
    assert [(each.resource, each.seq, each.at) for each in found.reads] == [
        ("first", 3, at(1)),
        ("second", 4, at(1.5)),
        ("start", 11, at(1.8)),
    ]
    assert (found.searches, found.gaps) == (2, ())
    several = find_reads(tmp_path, [Span("ann", at(0), at(0.6)), Span("ben", at(1))])
    assert [each.resource for each in several.reads] == ["before", "others"]


def test_files_of_other_days_are_passed_over_and_all_of_a_span_are_read(tmp_path: Path) -> None:
    for day in range(4):
        written(tmp_path, read(24 * day + 1, f"day {day}"), day=day)
    found = find_reads(tmp_path, [Span("ann", at(24), at(70))])
    assert [each.resource for each in found.reads] == ["day 1", "day 2"]
    first = min(tmp_path.glob("*.jsonl"))
    first.write_bytes(b"no line of this is read\n" * 3)
    assert find_reads(tmp_path, [Span("ann", at(60), at(70))]).gaps == ()


@promise("why, audit, gaps", "what the audit log does not know is said")
def test_what_the_log_does_not_know_is_said(tmp_path: Path) -> None:
    spans = [Span("ann", at(-48), at(2))]
    assert find_reads(tmp_path / "none", spans).gaps == ("there is no audit log of that time",)
    assert find_reads(tmp_path / "none", []).gaps == ()
    written(tmp_path, read(1), Lost(timestamp=at(1), events=7, since=at(0.9)), read(1.1, "more"))
    found = find_reads(tmp_path, spans)
    assert [each.resource for each in found.reads] == ["fact", "more"]
    assert "begins at" in found.gaps[0]
    assert found.gaps[1].startswith("7 decisions could not be written")
    assert find_reads(tmp_path, [Span("ann", at(1.05), at(2))]).gaps == ()
    (file,) = tmp_path.glob("*.jsonl")
    file.write_bytes(file.read_bytes().replace(b'"more"', b'"more'))
    damaged = find_reads(tmp_path, [Span("ann", at(1.05), at(2))])
    assert (damaged.reads, "damaged" in damaged.gaps[0]) == ((), True)
    late = find_reads(tmp_path, spans, seconds_max=-1)
    assert "not read to its end" in late.gaps[-1]
