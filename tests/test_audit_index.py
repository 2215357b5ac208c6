"""The index of the audit log: it leads to the same lines as reading all of them, however far it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallystick.audit import Decided, decode, encode
from tallystick.audit.files import AuditFiles
from tallystick.clock import to_text
from tallystick.extensions.web.reports.audit_index import AuditIndex, DecisionKind

LONG = 60.0
START = 1_700_000_000_000


def decided(number: int, *, tool: str | None = "memory.write", actor: str = "ada", **changes: object) -> bytes:
    said = {"action": "WRITE", "decision": True, "policy_version": "team@1"} | changes
    return encode(
        Decided(
            timestamp=to_text(START + 1000 * number),
            tenant="default",
            actor=actor,
            reason="",
            latency_ms=0.1,
            cache_hit=False,
            tool=tool,
            resource=f"n{number}",
            **said,  # type: ignore[arg-type]  # as the test says
        )
    )


def look(number: int) -> bytes:
    return decided(number, tool="web", action="SEARCH")


def index_of(directory: Path) -> AuditIndex:
    return AuditIndex(directory, looks_by="web", recalls_by=("memory.search",))


def resources(index: AuditIndex, before: int | None = None, *, denied: bool = False) -> list[str | None]:
    found = (decode(line).event for line in index.lines(before, denied=denied))
    return [event.resource for event in found if isinstance(event, Decided)]


@pytest.fixture
def log(tmp_path: Path) -> AuditFiles:
    """Of several files."""
    return AuditFiles(tmp_path, file_bytes_max=2_000, retention_days=0)


def test_the_newest_decisions_come_first_without_looks_at_pages(tmp_path: Path, log: AuditFiles) -> None:
    for number in range(30):
        log.append([decided(number), look(100 + number)])
    index = index_of(tmp_path)
    index.read(LONG)
    assert len(list(tmp_path.glob("*.jsonl"))) > 3
    assert resources(index) == [f"n{number}" for number in reversed(range(30))]
    assert index.is_complete


def test_what_it_has_not_read_yet_is_among_the_lines(tmp_path: Path, log: AuditFiles) -> None:
    log.append([decided(1), decided(2, decision=False)])
    index = index_of(tmp_path)
    assert resources(index) == resources(index, denied=True) == ["n2", "n1"]
    index.read(LONG)
    assert resources(index, denied=True) == ["n2"]
    log.append([decided(3)])
    assert resources(index) == ["n3", "n2", "n1"]
    index.read(LONG)
    assert resources(index) == ["n3", "n2", "n1"]


def test_it_knows_who_ever_came_by_way_of_the_pages(tmp_path: Path, log: AuditFiles) -> None:
    log.append([decided(1), decided(2, actor="nora", tool="web", action="READ"), decided(3, actor="nora")])
    log.append([decided(4, actor="zoe", tool=None), decided(5, actor="nora", tool=None)])
    index = index_of(tmp_path)
    assert index.has_looked("nora") is None
    index.read(LONG)
    assert [index.has_looked(name) for name in ("nora", "ada", "zoe")] == [True, False, None]


def test_it_goes_on_where_time_was_up(tmp_path: Path) -> None:
    AuditFiles(tmp_path).append([decided(number) for number in range(2_000)])
    index, times = index_of(tmp_path), 0
    while not index.is_complete:
        index.read(0.0)
        times += 1
        assert resources(index)[0] == "n1999"
        assert len(resources(index)) == 2_000
        assert (index.since is None) == (not index.is_complete)
    assert times > 1
    assert index.versions()["team@1"].decisions == 2_000


def test_lines_before_one_are_found_in_their_file(tmp_path: Path, log: AuditFiles) -> None:
    for number in range(30):
        log.append([decided(number)])
    index = index_of(tmp_path)
    index.read(LONG)
    numbers = [decode(line).seq for line in index.lines()]
    for at, seq in enumerate(numbers):
        assert [decode(line).seq for line in index.lines(seq)] == numbers[at + 1 :]


def test_versions_are_counted_over_all_files_the_newest_first(tmp_path: Path, log: AuditFiles) -> None:
    for number in range(12):
        log.append([decided(number, policy_version=f"team@{number // 4}", decision=number % 4 > 0), look(number)])
    index = index_of(tmp_path)
    index.read(LONG)
    found = index.versions()
    assert list(found) == ["team@2", "team@1", "team@0"]
    assert {(each.decisions, each.denials) for each in found.values()} == {(4, 1)}
    assert found["team@1"].first == to_text(START + 4_000)
    assert found["team@1"].last == to_text(START + 7_000)


def test_files_that_were_retired_are_forgotten(tmp_path: Path, log: AuditFiles) -> None:
    for number in range(30):
        log.append([decided(number)])
    index = index_of(tmp_path)
    index.read(LONG)
    min(tmp_path.glob("*.jsonl")).unlink()
    index.read(LONG)
    left = len(resources(index))
    assert 0 < left < 30
    assert index.versions()["team@1"].decisions == left


def test_who_recalled_something_between_two_moments_is_known(tmp_path: Path, log: AuditFiles) -> None:
    log.append([decided(10, tool="memory.search", action="SEARCH"), decided(20, tool="memory.search", actor="bob")])
    index = index_of(tmp_path)
    index.read(LONG)
    at = {number: to_text(START + 1000 * number) for number in (5, 10, 15, 25)}
    assert index.has_recalled("ada", at[5], at[15])
    assert index.has_recalled("ada", at[10], None)
    assert not index.has_recalled("ada", at[15], None)
    assert not index.has_recalled("bob", at[5], at[15])
    assert not index.has_recalled("eve", at[5], at[25])


def test_a_writer_may_take_back_what_the_disk_refused(tmp_path: Path) -> None:
    AuditFiles(tmp_path).append([decided(1)])
    (file,) = tmp_path.glob("*.jsonl")
    kept = file.read_bytes()
    file.write_bytes(kept + b'{"seq":3,"event":"AUTHZ_DECISION","decision":false}\n' * 9)
    index = index_of(tmp_path)
    index.read(LONG)
    file.write_bytes(kept)
    index.read(LONG)
    assert resources(index) == ["n1"]


def test_where_there_is_no_log_there_is_nothing(tmp_path: Path) -> None:
    index = index_of(tmp_path / "none")
    index.read(LONG)
    assert (list(index.lines()), index.versions(), index.since) == ([], {}, None)


# -- what was decided when


def everything(kind: DecisionKind) -> bool:
    return True


def test_decisions_are_counted_into_the_parts_of_a_time(tmp_path: Path, log: AuditFiles) -> None:
    for number in range(40):
        log.append([decided(number, decision=number % 10 != 0), look(number)])
    index = index_of(tmp_path)
    assert index.count(START, START + 39_000, 4, everything) is None
    index.read(LONG)
    assert index.count(START, START + 39_000, 4, everything) == [(9, 1)] * 4
    assert index.count(START + 20_000, START + 39_000, 2, lambda kind: kind.allowed) == [(9, 0)] * 2
    assert index.count(START + 60_000, START + 90_000, 3, everything) == [(0, 0)] * 3
    assert index.count(START, START, 1, everything) == [(0, 1)]


def test_they_are_counted_by_who_what_and_by_which_policy(tmp_path: Path, log: AuditFiles) -> None:
    log.append([
        decided(1), decided(2, actor="bob"), decided(3, action="READ"), decided(4, policy_version="team@2"),
    ])  # fmt: skip
    index = index_of(tmp_path)
    index.read(LONG)
    for fits, count in (
        ((lambda kind: kind.actor == "bob"), 1),
        ((lambda kind: kind.action == "WRITE"), 3),
        ((lambda kind: kind.policy_version == "team@2"), 1),
    ):
        assert index.count(START, START + 9_000, 1, fits) == [(count, 0)]


def test_times_that_no_clock_wrote_do_not_stop_it(tmp_path: Path, log: AuditFiles) -> None:
    for said in ("9999-12-31T23:59:59.999Z", "yesterday", "0001-01-01T00:00:00.000Z"):
        log.append([decided(1).replace(to_text(START + 1000).encode(), said.encode())])
    log.append([decided(2)])
    index = index_of(tmp_path)
    index.read(LONG)
    assert len(resources(index)) == 4
