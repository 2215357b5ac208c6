"""The audit log: chained, shared by processes, rotated, retired, and true about its own end."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import shutil
import signal
import threading
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tallystick.audit import EVENTS, NAME_MAX, Decided, Event, Lost, Retired, Started, clipped, encode
from tallystick.audit.files import AuditFiles, files_in
from tallystick.audit.proof import events, verify_audit
from tallystick.audit.writer import AuditWriter
from tallystick.clock import from_text, to_text
from tallystick.system.file_locks import is_held
from tests.promises import promise

NOON = from_text("2025-01-04T12:00:00Z")
DAY = 86_400_000


def decided(resource: str = "plan", **changes: Any) -> Decided:
    fields: dict[str, Any] = {
        "timestamp": to_text(NOON),
        "tenant": "default",
        "actor": "ada",
        "action": "READ",
        "resource": resource,
        "decision": True,
        "reason": "role reader may READ",
        "policy_version": "rbac@2",
        "latency_ms": 0.1,
        "cache_hit": False,
    }
    return Decided(**{**fields, **changes})


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> int:
        return self.now


def filled(directory: Path, count: int, **kwargs: Any) -> AuditFiles:
    audit_files = AuditFiles(directory, clock=kwargs.pop("clock", Clock()), **kwargs)
    for number in range(count):
        audit_files.append([encode(decided(f"plan-{number}"))])
    return audit_files


def resources(directory: Path) -> list[str | None]:
    return [event.resource for _, event in events(directory, Decided)]


@promise("L35", "a line of the audit log has the promised fields")
def test_a_line_has_the_fields_that_were_promised(tmp_path: Path) -> None:
    filled(tmp_path, 1).close()
    line = json.loads(files_in(tmp_path)[0].read_bytes().splitlines()[1])
    assert line.pop("record_hash")
    assert line == {
        "seq": 2,
        "event": "AUTHZ_DECISION",
        "timestamp": "2025-01-04T12:00:00.000Z",
        "tenant": "default",
        "actor": "ada",
        "action": "READ",
        "resource": "plan-0",
        "decision": True,
        "reason": "role reader may READ",
        "policy_version": "rbac@2",
        "latency_ms": 0.1,
        "cache_hit": False,
    }


def test_anyone_can_verify_a_line_from_its_bytes(tmp_path: Path) -> None:
    filled(tmp_path, 3, file_bytes_max=600).close()
    prev = ""
    for file in files_in(tmp_path):
        for line in file.read_bytes().splitlines():
            head, record_hash = line[:-2].split(b',"record_hash":"')
            assert sha256(prev.encode() + head + b"}").hexdigest() == record_hash.decode()
            prev = record_hash.decode()
    assert verify_audit(tmp_path).record_hash == prev


def test_a_fresh_trail_is_sound_and_so_is_none(tmp_path: Path) -> None:
    assert verify_audit(tmp_path / "nothing").sound
    filled(tmp_path, 5).close()
    proof = verify_audit(tmp_path)
    assert (proof.sound, proof.lines, proof.seq, proof.files) == (True, 6, 6, 1)


def _change_a_letter(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"plan-2", b"plan-7"))


def _remove_a_line(file: Path) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:3] + lines[4:]))


def _swap_lines(file: Path) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:2], lines[3], lines[2], *lines[4:]]))


def _cut_off_the_end(file: Path) -> None:
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-2]))


def _cut_off_the_start(file: Path) -> None:
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[1:]))


def _remove_the_file(file: Path) -> None:
    file.unlink()


def _remove_the_mark(file: Path) -> None:
    (file.parent / "head").unlink()


def _write_the_line_anew(file: Path) -> None:
    """As somebody would who knows how a line is made, but not that the rest is chained to it."""
    lines = file.read_bytes().splitlines(keepends=True)
    prev = json.loads(lines[2])["record_hash"]
    head = lines[3].split(b',"record_hash"')[0].replace(b"true", b"false")
    record_hash = sha256(prev.encode() + head + b"}").hexdigest()
    lines[3] = head + f',"record_hash":"{record_hash}"}}\n'.encode()
    file.write_bytes(b"".join(lines))


HARM: dict[Callable[[Path], None], str] = {
    _change_a_letter: "seq 4: record_hash does not match",
    _remove_a_line: "seq 5 stands where 4 should",
    _swap_lines: "seq 4 stands where 3 should",
    _cut_off_the_end: "the log ends with seq 4, but 6 was acknowledged",
    _cut_off_the_start: "does not begin with AUDIT_FILE",
    _remove_the_file: "the log ends with seq 0, but 6 was acknowledged",
    _remove_the_mark: "no kept position",
    _write_the_line_anew: "seq 5: record_hash does not match",
}


@pytest.mark.parametrize("harm", HARM, ids=lambda harm: harm.__name__.strip("_"))
def test_harm_is_named_and_is_not_made_good_by_writing_on(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    filled(tmp_path, 5).close()
    harm(files_in(tmp_path)[0])
    proof = verify_audit(tmp_path)
    assert not proof.sound
    assert HARM[harm] in (proof.problem or "")
    filled(tmp_path, 2).close()
    assert not verify_audit(tmp_path).sound, "writing on must not hide it"


def test_what_is_no_directory_is_no_audit_log(tmp_path: Path) -> None:
    (tmp_path / "audit").write_text("x")
    proof = verify_audit(tmp_path / "audit")
    assert proof.problem == f"{tmp_path / 'audit'} is no directory"


def test_what_a_killed_writer_left_is_adopted_and_half_a_line_cut_off(tmp_path: Path) -> None:
    filled(tmp_path, 3).close()
    mark = (tmp_path / "head").read_bytes()
    filled(tmp_path, 2).close()
    with files_in(tmp_path)[0].open("ab") as file:
        file.write(b'{"seq":7,"event":"AUTHZ')
    (tmp_path / "head").write_bytes(mark)  # As if it had died before it could move the mark.
    filled(tmp_path, 1).close()
    assert verify_audit(tmp_path).sound
    assert len(resources(tmp_path)) == 6


def test_a_file_that_was_started_but_not_marked_is_gone_on_with(tmp_path: Path) -> None:
    filled(tmp_path, 3).close()
    mark = (tmp_path / "head").read_bytes()
    filled(tmp_path, 1, file_bytes_max=100).close()
    assert len(files_in(tmp_path)) == 2
    (tmp_path / "head").write_bytes(mark)
    filled(tmp_path, 2).close()
    assert verify_audit(tmp_path).sound
    assert len(resources(tmp_path)) == 6


def test_a_writer_killed_before_its_first_mark_leaves_a_sound_log(tmp_path: Path) -> None:
    filled(tmp_path, 1).close()
    (first,) = files_in(tmp_path)
    first.write_bytes(first.read_bytes().splitlines(keepends=True)[0])
    (tmp_path / "head").unlink()
    assert verify_audit(tmp_path).sound
    filled(tmp_path, 2).close()
    assert verify_audit(tmp_path).sound
    assert len(resources(tmp_path)) == 2


def test_a_file_that_could_not_begin_leaves_nothing(tmp_path: Path) -> None:
    filled(tmp_path, 1).close()
    (tmp_path / "next").write_bytes(b"half a line")
    filled(tmp_path, 1).close()
    assert not (tmp_path / "next").exists()


def test_files_are_rotated_by_size_and_by_the_day(tmp_path: Path) -> None:
    clock = Clock()
    filled(tmp_path, 10, file_bytes_max=1000, clock=clock).close()
    sizes = [file.stat().st_size for file in files_in(tmp_path)]
    assert len(sizes) > 2
    assert max(sizes) < 1500
    clock.now += DAY
    filled(tmp_path, 1, clock=clock).close()
    assert len(files_in(tmp_path)) == len(sizes) + 1
    assert verify_audit(tmp_path).sound


def test_old_files_retire_and_the_log_tells_so(tmp_path: Path) -> None:
    clock = Clock()
    for _ in range(10):
        filled(tmp_path, 1, retention_days=3, clock=clock).close()
        clock.now += DAY
    assert len(files_in(tmp_path)) == 4
    assert next(event.prev for _, event in events(tmp_path, Started))
    assert list(events(tmp_path, Retired))
    assert verify_audit(tmp_path).sound


def test_old_files_may_be_kept_elsewhere(tmp_path: Path) -> None:
    clock = Clock()
    for _ in range(4):
        filled(tmp_path / "hot", 1, retention_days=1, clock=clock, archive=tmp_path / "cold").close()
        clock.now += DAY
    archived, kept = files_in(tmp_path / "cold"), files_in(tmp_path / "hot")
    assert archived
    assert int(archived[-1].stem) < int(kept[0].stem)
    assert verify_audit(tmp_path / "hot").sound


def test_without_retention_nothing_goes(tmp_path: Path) -> None:
    clock = Clock()
    for _ in range(5):
        filled(tmp_path, 1, retention_days=0, clock=clock).close()
        clock.now += 100 * DAY
    assert len(files_in(tmp_path)) == 5


def test_a_file_that_was_taken_away_is_not_taken_for_retired(tmp_path: Path) -> None:
    clock = Clock()
    for _ in range(6):
        filled(tmp_path, 1, retention_days=3, clock=clock).close()
        clock.now += DAY
    files_in(tmp_path)[0].unlink()
    proof = verify_audit(tmp_path)
    assert "no retirement tells of the lines before it" in (proof.problem or "")


def test_events_since_a_time_leave_older_files_closed(tmp_path: Path) -> None:
    clock = Clock()
    for day in range(3):
        audit_files = AuditFiles(tmp_path, clock=clock)
        audit_files.append([encode(decided(f"day-{day}", timestamp=to_text(clock.now)))])
        audit_files.close()
        clock.now += DAY
    files_in(tmp_path)[0].write_bytes(b"not an event\n")
    found = events(tmp_path, Decided, since=to_text(NOON + 2 * DAY))
    assert [event.resource for _, event in found] == ["day-2"]


# -- several processes


def _append_many(directory: Path, name: str, count: int, under_way: Any = None) -> None:
    audit_files = AuditFiles(directory, file_bytes_max=20_000)
    for number in range(count):
        audit_files.append([encode(decided(f"{name}-{number}-{part}")) for part in range(3)])
        if under_way is not None and number == 5:
            under_way.set()


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=_append_many, args=(tmp_path, name, 40)) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    proof = verify_audit(tmp_path)
    assert proof.sound, proof
    found = resources(tmp_path)
    for name in "abc":
        mine = [resource for resource in found if resource and resource.startswith(f"{name}-")]
        assert mine == [f"{name}-{number}-{part}" for number in range(40) for part in range(3)]


def test_a_writer_that_is_killed_leaves_a_sound_log(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    for attempt in range(3):
        under_way = spawn.Event()
        arguments = (tmp_path, f"w{attempt}", 1_000_000, under_way)
        writer = spawn.Process(target=_append_many, args=arguments, daemon=True)
        writer.start()
        under_way.wait()
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        assert verify_audit(tmp_path).sound
    filled(tmp_path, 1).close()
    assert verify_audit(tmp_path).sound


# -- the writer's thread


def test_what_is_urgent_is_on_the_disk_when_its_future_says_so(tmp_path: Path) -> None:
    audit = AuditWriter(lambda tenant: AuditFiles(tmp_path / tenant), every_ms=60_000)
    audit.record("acme", decided("before"))
    written = audit.record("acme", decided("urgent"), urgent=True)
    assert written is not None
    assert written.result()
    assert resources(tmp_path / "acme") == ["before", "urgent"]
    audit.close()


def test_what_is_not_urgent_is_written_before_long(tmp_path: Path) -> None:
    appended = threading.Event()

    class NotifyingFiles(AuditFiles):
        def append(self, lines: Sequence[bytes]) -> None:
            super().append(lines)
            appended.set()

    audit = AuditWriter(lambda tenant: NotifyingFiles(tmp_path / tenant), every_ms=1)
    assert audit.record("acme", decided()) is None
    appended.wait()
    assert resources(tmp_path / "acme") == ["plan"]
    audit.close()


def test_closing_writes_what_is_left_and_each_tenant_has_a_trail(tmp_path: Path) -> None:
    audit = AuditWriter(lambda tenant: AuditFiles(tmp_path / tenant), every_ms=60_000)
    for number in range(20):
        audit.record(f"tenant-{number % 10}", decided(f"plan-{number}"))
    audit.close()
    for number in range(10):
        assert resources(tmp_path / f"tenant-{number}") == [f"plan-{number}", f"plan-{number + 10}"]


def test_a_full_queue_makes_the_caller_wait_and_drops_nothing(tmp_path: Path) -> None:
    audit = AuditWriter(lambda tenant: AuditFiles(tmp_path), every_ms=60_000, pending_max=10)
    for number in range(105):
        audit.record("acme", decided(f"plan-{number}"))
    assert len(resources(tmp_path)) >= 100
    audit.close()
    assert resources(tmp_path) == [f"plan-{number}" for number in range(105)]


def test_a_full_disk_is_counted_and_told_when_there_is_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    audit = AuditWriter(lambda tenant: AuditFiles(tmp_path, clock=clock), clock=clock)
    audit.record("acme", decided("before"))
    audit.flush()

    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr("tallystick.audit.files.os.write", full)
        audit.record("acme", decided("lost"))
        audit.flush()
        refused = audit.record("acme", decided("lost too"), urgent=True)
        assert refused is not None
        assert refused.result() is False
    while_full = audit.healthy
    audit.record("acme", decided("after"))
    audit.flush()
    assert (while_full, audit.healthy) == (False, True)
    audit.close()
    assert resources(tmp_path) == ["before", "after"]
    assert [(event.events, event.since) for _, event in events(tmp_path, Lost)] == [(2, to_text(NOON))]
    proof = verify_audit(tmp_path)
    assert (proof.sound, proof.lost) == (True, 2)


def test_a_failed_sync_leaves_nothing_behind_that_was_said_to_be_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = AuditWriter(lambda tenant: AuditFiles(tmp_path))
    audit.record("acme", decided("before"))
    audit.flush()

    def fails(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as disk:
        disk.setattr("tallystick.audit.files.os.fdatasync", fails)
        audit.record("acme", decided("lost"))
        audit.flush()
    assert resources(tmp_path) == ["before"]
    audit.close()


@pytest.mark.parametrize("name", [f"{1:020d}.jsonl", "head", "lock"])
def test_a_file_that_was_replaced_is_opened_anew(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    audit_files = filled(tmp_path, 2)
    path = tmp_path / name
    shutil.copy2(path, tmp_path / "copy")
    (tmp_path / "copy").replace(path)
    audit_files.append([encode(decided("after"))])
    audit_files.close()
    assert "removed, replaced or moved" in caplog.text
    assert resources(tmp_path) == ["plan-0", "plan-1", "after"]
    assert verify_audit(tmp_path).sound


def test_a_removed_lock_excludes_other_writers_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audit_files = filled(tmp_path, 1)
    (tmp_path / "lock").unlink()
    locked: list[bool] = []

    def sync(fd: int) -> None:
        locked.append(is_held(tmp_path / "lock"))

    monkeypatch.setattr("tallystick.audit.files.sync_data", sync)
    audit_files.append([encode(decided("after"))])
    audit_files.close()
    assert locked == [True]


def test_a_file_that_another_process_retired_is_not_missed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    idle = filled(tmp_path, 1, clock=clock, retention_days=1)
    for _ in range(3):
        clock.now += DAY
        filled(tmp_path, 1, clock=clock, retention_days=1).close()
    assert not (tmp_path / f"{1:020d}.jsonl").exists()
    idle.append([encode(decided("after"))])
    idle.close()
    assert not caplog.text
    assert verify_audit(tmp_path).sound


@pytest.mark.parametrize("name", [f"{1:020d}.jsonl", "head", "lock", "."])
def test_an_event_whose_file_is_removed_while_it_is_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    directory = tmp_path / "audit"
    audit = AuditWriter(lambda tenant: AuditFiles(directory))
    audit.record("acme", decided("before"))
    audit.flush()

    def moved(fd: int) -> None:
        (directory / name).rename(tmp_path / "elsewhere")

    with monkeypatch.context() as disk:
        disk.setattr("tallystick.audit.files.sync_data", moved)
        refused = audit.record("acme", decided("refused"), urgent=True)
        assert refused is not None
        assert refused.result() is False
    while_moved = audit.healthy
    written = audit.record("acme", decided("after"), urgent=True)
    assert written is not None
    assert written.result() is True
    assert (while_moved, audit.healthy) == (False, True)
    audit.close()
    assert resources(directory)[-1] == "after"
    assert [event.events for _, event in events(directory, Lost)] == [1]


@pytest.mark.parametrize("name", ["\ud800", "a\x00b", "𝕏\n", '","decision":true,"x":"'])
def test_any_name_becomes_one_line_that_reads_back(tmp_path: Path, name: str) -> None:
    audit_files = AuditFiles(tmp_path, clock=Clock())
    audit_files.append([encode(decided(name, decision=False))])
    audit_files.close()
    ((_, found),) = events(tmp_path, Decided)
    assert (found.resource, found.decision) == (name.encode(errors="replace").decode(), False)
    assert verify_audit(tmp_path).sound


def test_a_very_long_name_is_clipped() -> None:
    assert len(clipped("x" * 100_000) or "") == NAME_MAX + 1
    assert clipped("short") == "short"
    assert clipped(None) is None


def test_every_event_has_a_name_of_its_own() -> None:
    assert set(EVENTS.values()) == set(Event.__subclasses__())
