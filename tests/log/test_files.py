"""The files log under crashes, damage and several processes."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path

import msgspec
import pytest

from tallystick.commits import Operation, Verb, chain
from tallystick.commits.canonical import canonical_bytes
from tallystick.errors import Corrupt, LogClosed, StorageRefused, Unmasked, Unreadable
from tallystick.log import Head, recovery
from tallystick.log.files import SEGMENT_BYTES_MAX, FilesLog
from tallystick.log.head_file import HeadFile
from tallystick.log.proof import prove
from tallystick.log.recovery import PendingMasks
from tallystick.log.segments import Segments, segment_files, segment_path
from tallystick.system.file_locks import is_held, locked
from tests import timeouts
from tests.commits_by_hand import append, draft, entries, filled, node
from tests.promises import promise


def segments(system: Path) -> list[Path]:
    return sorted((system / "log").glob("*.jsonl"))


def test_segments_roll_over_and_are_named_by_their_first_lamport(tmp_path: Path) -> None:
    log = FilesLog(tmp_path, segment_bytes_max=1_500)
    made = filled(log, 12)
    names = [path.name for path in segments(tmp_path)]
    assert len(names) > 2
    starts = [int(name.removesuffix(".jsonl")) for name in names]
    assert starts[0] == 1
    assert [chain.decode(path.read_bytes().split(b"\n")[0]).lamport for path in segments(tmp_path)] == starts
    assert list(FilesLog(tmp_path).read(Head())) == made


def test_two_openings_of_one_log_see_each_others_commits(tmp_path: Path) -> None:
    one, other = FilesLog(tmp_path, segment_bytes_max=1_500), FilesLog(tmp_path, segment_bytes_max=1_500)
    made = []
    for number in range(10):
        made += append(one, draft(node(f"one{number}")))
        made += append(other, draft(node(f"other{number}")))
    assert list(one.read(Head())) == made
    assert list(other.read(Head())) == made
    assert one.line(made[-1].offset) == made[-1].line


def test_threads_that_refresh_at_once_know_each_segment_once(tmp_path: Path) -> None:
    log = FilesLog(tmp_path, segment_bytes_max=1)
    late = Segments(tmp_path / "log")
    made = filled(log, 200)
    together = threading.Barrier(8)

    def refresh() -> None:
        together.wait()
        late.refresh()

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(refresh) for _ in range(8)]:
            done.result()
    assert list(late.paths) == segments(tmp_path)
    assert late.size == log.head().end
    assert [late.line(entry.offset) for entry in made] == [entry.line for entry in made]
    late.close()


def test_a_listing_that_misses_a_segment_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that is read while segments are added may show a later one without an earlier one."""
    log = FilesLog(tmp_path, segment_bytes_max=1)
    made = filled(log, 4)
    late = Segments(tmp_path / "log")
    late.refresh()
    made += filled(log, 4)
    listed = segment_files(tmp_path / "log")
    incomplete = [listed[:5] + listed[6:], listed[1:]]
    monkeypatch.setattr(
        "tallystick.log.segments.segment_files",
        lambda directory: incomplete.pop(0) if incomplete else segment_files(directory),
    )
    late.refresh()
    assert list(late.paths) == listed
    incomplete += [listed[1:]]
    late.refresh()
    assert [late.line(entry.offset) for entry in made] == [entry.line for entry in made]
    late.close()


def test_a_removed_segment_is_reported_without_advice_to_restore_and_found_when_it_is_back(tmp_path: Path) -> None:
    log, other = FilesLog(tmp_path, segment_bytes_max=1), FilesLog(tmp_path, segment_bytes_max=1)
    made = filled(log, 3)
    assert list(other.read(Head())) == made
    made += filled(log, 1)
    first = segments(tmp_path)[0]
    first.rename(tmp_path / "aside")
    with pytest.raises(Corrupt, match="vanished") as error:
        list(other.read(Head()))
    assert "put it back" in str(error.value.hint)
    assert "restore from a backup only if" in str(error.value.hint)
    (tmp_path / "aside").rename(first)
    assert list(other.read(Head())) == made


def test_a_claim_that_fails_leaves_the_lock_free(tmp_path: Path) -> None:
    one, other = FilesLog(tmp_path), FilesLog(tmp_path)
    filled(one, 1)
    sound = (tmp_path / "head").read_bytes()
    (tmp_path / "head").write_bytes(bytes(len(sound)))
    with pytest.raises(Corrupt):
        one.claim(timeout_seconds=0)
    (tmp_path / "head").write_bytes(sound)
    assert other.claim(timeout_seconds=0)
    other.release()
    assert one.claim(timeout_seconds=0)
    one.release()


def _replace(path: Path) -> None:
    """Put a copy of it in its place: the same bytes, another file."""
    aside = path.with_name(f"{path.name}.aside")
    path.rename(aside)
    (shutil.copytree if aside.is_dir() else shutil.copy2)(aside, path)


def _remove_segment(system: Path) -> None:
    segments(system)[-1].unlink()


TAKEN: dict[str, Callable[[Path], object]] = {
    "the segment is removed": _remove_segment,
    "the segment is replaced": lambda system: _replace(segments(system)[-1]),
    "the log directory is moved away": lambda system: (system / "log").rename(system / "elsewhere"),
    "the log directory is replaced": lambda system: _replace(system / "log"),
    "the stored head is removed": lambda system: (system / "head").unlink(),
    "the stored head is replaced": lambda system: _replace(system / "head"),
    "everything is moved away": lambda system: system.rename(system.with_name("elsewhere")),
    "everything is replaced": _replace,
}


@pytest.mark.parametrize("segment_bytes_max", [SEGMENT_BYTES_MAX, 1], ids=["one segment", "rolling"])
@pytest.mark.parametrize("has_written", [True, False], ids=["has written", "has read"])
@pytest.mark.parametrize("harm", TAKEN)
def test_nothing_is_acknowledged_once_the_files_are_not_in_place(
    tmp_path: Path, harm: str, has_written: bool, segment_bytes_max: int
) -> None:
    system = tmp_path / "system"
    log = FilesLog(system, segment_bytes_max=segment_bytes_max)
    filled(log, 2)
    head = log.head()
    if not has_written:
        log.close()
        log = FilesLog(system, segment_bytes_max=segment_bytes_max)
        assert log.head() == head
    TAKEN[harm](system)
    there = {
        path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file() and "aside" not in path.name
    }
    for _ in range(2):
        with pytest.raises((LogClosed, StorageRefused, Corrupt)):
            log.append(entries(head, draft(node("late"))), expected=head)
    if "replaced" in harm:
        # What took the place is whole: this process left no byte in it.
        assert there.items() <= {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}.items()
        assert prove(system).sound
    log.close()


@pytest.mark.parametrize("harm", TAKEN)
def test_a_group_under_way_when_the_files_go_is_not_acknowledged_and_closes_the_log(tmp_path: Path, harm: str) -> None:
    system = tmp_path / "system"
    log = FilesLog(system)
    filled(log, 2)
    head = log.head()
    assert log.claim(timeout_seconds=0)
    TAKEN[harm](system)
    with pytest.raises(LogClosed):
        log.append(entries(head, draft(node("late"))), expected=head)
    log.release()
    with pytest.raises((LogClosed, StorageRefused)):
        append(log, draft(node("later")))
    log.close()


def test_writing_goes_on_when_the_files_are_back(tmp_path: Path) -> None:
    system = tmp_path / "system"
    log = FilesLog(system)
    made = filled(log, 1)
    (system / "log").rename(tmp_path / "elsewhere")
    with pytest.raises(StorageRefused) as refusal:
        append(log, draft(node("a")))
    assert refusal.value.code == "LOG_MISPLACED"
    (tmp_path / "elsewhere").rename(system / "log")
    made += append(log, draft(node("a")))
    assert list(FilesLog(system).read(Head())) == made


@pytest.mark.parametrize("name", ["log", "head"])
def test_a_restart_helps_when_files_were_replaced_and_not_while_they_are_missing(tmp_path: Path, name: str) -> None:
    system = tmp_path / "system"
    log = FilesLog(system)
    filled(log, 1)
    aside = (system / name).rename(tmp_path / name)
    with pytest.raises(StorageRefused) as missing:
        log.claim(timeout_seconds=0)
    (shutil.copytree if aside.is_dir() else shutil.copy2)(aside, system / name)
    with pytest.raises(StorageRefused) as replaced:
        log.claim(timeout_seconds=0)
    assert (missing.value.details, replaced.value.details) == ({"restart_helps": False}, {"restart_helps": True})
    log.close()


def test_a_cut_off_end_is_damage_to_a_reader_that_cannot_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(FilesLog(tmp_path), 2)
    monkeypatch.setattr("tallystick.log.files._open_lock", lambda system: -1)
    reader = FilesLog(tmp_path)
    os.truncate(segments(tmp_path)[-1], 10)
    with pytest.raises(Corrupt, match="cut off"):
        list(reader.read(Head()))


def test_a_reader_of_a_replaced_log_that_grew_does_not_call_it_damaged(tmp_path: Path) -> None:
    reader = FilesLog(tmp_path)
    filled(reader, 1)
    _replace(segments(tmp_path)[-1])
    made = filled(FilesLog(tmp_path), 1)
    with pytest.raises(StorageRefused) as refusal:
        list(reader.read(Head()))
    assert (refusal.value.code, refusal.value.details) == ("LOG_MISPLACED", {"restart_helps": True})
    assert list(FilesLog(tmp_path).read(Head()))[1:] == made


def test_a_lock_that_was_removed_is_taken_anew(tmp_path: Path) -> None:
    one, other = FilesLog(tmp_path), FilesLog(tmp_path)
    filled(one, 1)
    assert one.claim(timeout_seconds=0)
    (tmp_path / "lock").unlink()
    head = one.head()
    with pytest.raises(LogClosed, match="lock"):
        one.append(entries(head, draft(node("late"))), expected=head)
    one.release()
    third = FilesLog(tmp_path)
    assert third.claim(timeout_seconds=0)
    assert not other.claim(timeout_seconds=0)
    third.release()
    assert other.claim(timeout_seconds=0)
    assert not third.claim(timeout_seconds=0)
    other.release()


def test_after_its_turn_a_log_does_not_overtake_a_process_that_waits_for_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallystick.log.files._TURN_SECONDS", 0)
    log = FilesLog(tmp_path)
    with locked(tmp_path / "turnstile.lock"):
        assert not log.claim(timeout_seconds=0)
    assert log.claim(timeout_seconds=0)
    assert not is_held(tmp_path / "turnstile.lock")
    log.release()
    log.close()


def test_within_its_turn_a_log_takes_the_lock_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallystick.log.files._TURN_SECONDS", 3600)
    log = FilesLog(tmp_path)
    assert log.claim(timeout_seconds=0)
    log.release()
    with locked(tmp_path / "turnstile.lock"):
        assert log.claim(timeout_seconds=0)
    log.release()
    log.close()


def test_a_log_without_a_turnstile_is_written_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "turnstile.lock").mkdir()
    log = FilesLog(tmp_path)
    filled(log, 2)
    log.close()
    assert prove(tmp_path).sound


def test_bytes_behind_the_mark_are_not_shown(tmp_path: Path) -> None:
    """Another process has written them, but they are not durable yet."""
    log = FilesLog(tmp_path)
    made = filled(log, 2)
    under_way = entries(log.head(), draft(node("later")))
    with segments(tmp_path)[0].open("ab") as file:
        file.write(under_way[0].line + b"\n")
    assert list(log.read(Head())) == made


TORN: dict[str, Callable[[bytes, bytes], bytes]] = {
    "half a line": lambda line, rest: line[: len(line) // 2],
    "a line without its newline": lambda line, rest: line[:-1],
    "zeros": lambda line, rest: bytes(len(line)),
    "zeros, then the other lines of the group": lambda line, rest: bytes(len(line) - 1) + b"\n" + rest,
    "a broken line, then the other lines of the group": lambda line, rest: line.replace(b"note", b"nope") + rest,
    "a newline": lambda line, rest: b"\n",
}


@promise("L55, torn end", "a torn end is set aside and writing goes on")
@pytest.mark.parametrize("tear", TORN)
def test_a_torn_end_is_set_aside_and_writing_goes_on(tmp_path: Path, tear: str) -> None:
    log = FilesLog(tmp_path)
    made = filled(log, 3)
    group = entries(log.head(), draft(node("x")), draft(node("y")), draft(node("z")))
    log.close()
    torn = TORN[tear](group[0].line + b"\n", b"".join(entry.line + b"\n" for entry in group[1:]))
    with segments(tmp_path)[0].open("ab") as file:
        file.write(torn)

    again = FilesLog(tmp_path)
    assert list(again.read(Head())) == made
    (kept,) = (tmp_path / "log").glob("*.torn-*")
    assert kept.read_bytes() == torn
    made += append(again, draft(node("after")))
    assert list(FilesLog(tmp_path).read(Head())) == made
    assert prove(tmp_path).sound


def test_an_incomplete_batch_at_the_end_never_happened(tmp_path: Path) -> None:
    log = FilesLog(tmp_path)
    made = filled(log, 1)
    batch = entries(log.head(), draft(node("a"), node("b"), node("c")))
    log.close()
    with segments(tmp_path)[0].open("ab") as file:
        file.write(b"".join(entry.line + b"\n" for entry in batch[:2]))
    assert list(FilesLog(tmp_path).read(Head())) == made


def test_whole_batches_behind_the_mark_are_adopted(tmp_path: Path) -> None:
    """Their writer died after the sync and before it could move the mark: a power cut leaves the same."""
    log = FilesLog(tmp_path)
    made = filled(log, 2)
    group = entries(log.head(), draft(node("a"), node("b")), draft(node("c"), node("d")))
    log.close()
    with segments(tmp_path)[0].open("ab") as file:
        file.write(b"".join(entry.line + b"\n" for entry in group[:3]))
    again = FilesLog(tmp_path)
    assert list(again.read(Head())) == made + group[:2]
    assert again.head().lamport == 4


def test_an_intact_commit_of_a_later_group_behind_a_bad_one_is_damage(tmp_path: Path) -> None:
    """Not a crash: a group is begun only when the one before it is durable. The mark is lost too."""
    log = FilesLog(tmp_path)
    filled(log, 5)
    log.close()
    (tmp_path / "head").unlink()
    path = segments(tmp_path)[0]
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"note", b"nope")
    path.write_bytes(b"".join(lines))
    before = path.read_bytes()
    with pytest.raises(Corrupt, match=r"line 3.*intact commits follow"):
        FilesLog(tmp_path)
    assert path.read_bytes() == before


@promise("L55, damage", "damage elsewhere stops the log, names file and line, and touches nothing")
def test_damage_before_the_mark_names_file_and_line_and_touches_nothing(tmp_path: Path) -> None:
    log = FilesLog(tmp_path)
    filled(log, 5)
    path = segments(tmp_path)[0]
    data = bytearray(path.read_bytes())
    at = data.index(b"n3")
    data[at + 1] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(Corrupt) as caught:
        list(FilesLog(tmp_path).read(Head()))
    assert caught.value.details["line"] == 4
    assert caught.value.details["file"] == str(path)
    assert path.read_bytes() == bytes(data)


def test_a_cut_off_end_is_noticed_by_the_mark(tmp_path: Path) -> None:
    log = FilesLog(tmp_path)
    filled(log, 5)
    log.close()
    path = segments(tmp_path)[0]
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(Corrupt, match="cut off"):
        FilesLog(tmp_path)


def test_a_lost_mark_is_made_again_from_the_log(tmp_path: Path) -> None:
    log = FilesLog(tmp_path)
    made = filled(log, 5)
    head = log.head()
    log.close()
    (tmp_path / "head").unlink()
    again = FilesLog(tmp_path)
    assert again.head() == head
    assert list(again.read(Head())) == made


def test_a_line_that_damage_made_longer_is_named_and_nothing_is_cut(tmp_path: Path) -> None:
    log = FilesLog(tmp_path)
    for number in range(5):
        append(log, draft(node(f"n{number}", amount=1000)))
    log.close()
    path = segments(tmp_path)[0]
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b"1000", b"100000")
    path.write_bytes(b"".join(lines))
    before = {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()}
    with pytest.raises(Corrupt) as caught:
        FilesLog(tmp_path)
    assert (caught.value.details["file"], caught.value.details["line"]) == (str(path), 2)
    assert {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()} == before


def test_a_running_log_whose_lines_became_longer_refuses_to_write_and_cuts_nothing(tmp_path: Path) -> None:
    log = FilesLog(tmp_path)
    filled(log, 5)
    path = segments(tmp_path)[0]
    damaged = path.read_bytes().replace(b'"n1"', b'"n1 and more"')
    with path.open("r+b") as file:
        file.write(damaged)
    with pytest.raises(Corrupt, match="line 2"):
        append(log, draft(node("after")))
    assert path.read_bytes() == damaged


def test_a_payload_that_nothing_explains_is_shown_to_nobody(tmp_path: Path) -> None:
    log = FilesLog(tmp_path)
    made = filled(log, 4)
    path = segments(tmp_path)[0]
    path.write_bytes(path.read_bytes().replace(b'"n2"', b'"n7"'))
    reading = FilesLog(tmp_path).read(Head())
    assert [next(reading), next(reading)] == made[:2]
    with pytest.raises(Corrupt, match="line 3"):
        next(reading)


def test_a_log_that_does_not_lead_to_the_mark_ends_in_an_error(tmp_path: Path) -> None:
    log = FilesLog(tmp_path)
    filled(log, 2)
    HeadFile(tmp_path / "head").write(msgspec.structs.replace(log.head(), record_hash="0" * 64))
    with pytest.raises(Corrupt, match=r"line 2.*not the one that was acknowledged"):
        list(FilesLog(tmp_path).read(Head()))


def test_a_damaged_log_can_be_tried_again_and_again(tmp_path: Path) -> None:
    log = FilesLog(tmp_path)
    filled(log, 2)
    log.close()
    path = segments(tmp_path)[0]
    path.write_bytes(path.read_bytes()[:-1])
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(Corrupt):
            FilesLog(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("name", [f"{2:020d}.jsonl", f"{99:020d}.jsonl"])
def test_an_empty_file_of_the_wrong_number_is_never_written_to(tmp_path: Path, name: str) -> None:
    log = FilesLog(tmp_path)
    filled(log, 5)
    log.close()
    (tmp_path / "log" / name).touch()
    with pytest.raises(Corrupt):
        append(FilesLog(tmp_path), draft(node("after")))
    assert (tmp_path / "log" / name).read_bytes() == b""


def test_files_that_are_not_segments_are_left_alone(tmp_path: Path) -> None:
    log = FilesLog(tmp_path)
    made = filled(log, 2)
    log.close()
    for name in ("1.jsonl", f"{1:020d} (copy).jsonl", f"{1:020d}.jsonl~", "9-notes.jsonl"):
        (tmp_path / "log" / name).write_bytes(b"not ours\n")
    assert list(FilesLog(tmp_path).read(Head())) == made
    assert prove(tmp_path).sound


def failing(call: str, error: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, call, fail)


def test_a_failed_sync_closes_the_writer_and_keeps_the_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = FilesLog(tmp_path)
    made = filled(log, 2)
    with monkeypatch.context() as patched:
        failing("fdatasync", errno.EIO, patched)
        with pytest.raises(LogClosed):
            append(log, draft(node("lost")))
    with pytest.raises(LogClosed):
        append(log, draft(node("refused")))
    assert list(log.read(Head())) == made
    assert list(FilesLog(tmp_path).read(Head())) == made


def test_a_disk_that_is_gone_is_told_as_that_and_when_it_is_back_reads_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = FilesLog(tmp_path)
    made = filled(log, 2)
    asked: dict[str, Callable[[], object]] = {
        "pread": lambda: list(log.read(Head())),
        "listdir": lambda: FilesLog(tmp_path),
    }
    for call, ask in asked.items():
        with monkeypatch.context() as patched:
            failing(call, errno.EIO, patched)
            with pytest.raises(Unreadable) as refused:
                ask()
        assert (refused.value.code, "may be sound" in str(refused.value.hint)) == ("LOG_UNREADABLE", True)
    assert list(log.read(Head())) == made
    assert list(FilesLog(tmp_path).read(Head())) == made


@pytest.mark.parametrize("number", [1, 2])
def test_what_cannot_be_read_is_no_proof_and_file_and_line_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """To whoever proves a log, a sector that the disk does not give back is damage."""
    log = FilesLog(tmp_path, segment_bytes_max=2_000)
    filled(log, 6)
    log.close()
    path = segments(tmp_path)[number - 1]
    read = os.pread

    def failing_there(fd: int, size: int, place: int) -> bytes:
        if os.path.samestat(os.fstat(fd), path.stat()):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(fd, size, place)

    monkeypatch.setattr(os, "pread", failing_there)
    proof = prove(tmp_path)
    assert (proof.sound, proof.file, proof.line) == (False, str(path), 1)
    assert f"{path.name} cannot be read at byte 0: Input/output error" in str(proof.problem)


def test_a_note_of_a_redaction_that_cannot_be_read_is_not_advised_to_be_removed(tmp_path: Path) -> None:
    log = FilesLog(tmp_path)
    filled(log, 2)
    log.close()
    (tmp_path / "redaction.pending").mkdir()
    with pytest.raises(Unreadable) as refused:
        FilesLog(tmp_path)
    assert "remove" not in str(refused.value.hint)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS])
def test_a_refused_write_leaves_nothing_and_may_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    log = FilesLog(tmp_path)
    made = filled(log, 2)
    real = os.write

    def half(fd: int, data: bytes) -> int:
        if len(data) < 100:
            raise OSError(error, os.strerror(error))
        return real(fd, bytes(data[:50]))

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", half)
        with pytest.raises(StorageRefused):
            append(log, draft(node("no room")))
    assert list(log.read(Head())) == made
    made += append(log, draft(node("room again")))
    assert list(FilesLog(tmp_path).read(Head())) == made


MASKED = canonical_bytes({"id": "person", "type": "note", "attrs": {"email": "[REDACTED]", "town": "[REDACTED]"}})


def redaction(log: FilesLog, *fields: str) -> Operation:
    """Of the one node that is written here, or of what an earlier redaction left of it."""
    found = next((entry for entry in log.read(Head()) if entry.commit.document().get("id") == "person"), None)
    secret = found or append(log, draft(node("person", email="ada@example.org", town="Turin, Italy")))[0]
    masked = chain.redacted_payload(log.line(secret.offset), fields or None)
    assert masked is not None
    redacts = {str(secret.commit.lamport): chain.content_hash(masked)}
    said = {"node_id": "person", "reason": "asked"} | ({"redacted_fields": list(fields)} if fields else {})
    return Operation(Verb.REDACT_NODE, said, redacts=redacts)


def test_a_redaction_cut_short_by_a_crash_is_finished_on_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = FilesLog(tmp_path)
    filled(log, 2)
    redact = redaction(log)
    with monkeypatch.context() as patched:
        failing("pwrite", errno.EIO, patched)
        # The mark is written with pwrite too: let that one fail, as if the process died right after the sync.
        with pytest.raises(LogClosed):
            log.append(entries(log.head(), draft(redact)), expected=log.head())
    log.close()
    assert b"ada@example.org" in segments(tmp_path)[0].read_bytes()
    assert not prove(tmp_path).sound

    again = FilesLog(tmp_path)
    assert b"ada@example.org" not in segments(tmp_path)[0].read_bytes()
    assert again.head().lamport == 4
    assert prove(tmp_path).sound
    assert not (tmp_path / "redaction.pending").exists()


def test_a_redaction_whose_commit_was_refused_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = FilesLog(tmp_path)
    redact = redaction(log)
    with monkeypatch.context() as patched:
        failing("fdatasync", errno.EIO, patched)
        with pytest.raises(LogClosed):
            log.append(entries(log.head(), draft(redact)), expected=log.head())
    log.close()
    FilesLog(tmp_path)
    assert b"ada@example.org" in segments(tmp_path)[0].read_bytes()
    assert not (tmp_path / "redaction.pending").exists()
    assert prove(tmp_path).sound


def test_a_redaction_that_a_dead_process_left_is_finished_by_whoever_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    witness, dying = FilesLog(tmp_path), FilesLog(tmp_path)
    redact = redaction(dying)
    with monkeypatch.context() as patched:
        patched.setattr(PendingMasks, "carry_out", lambda self, segments: None)
        dying.append(entries(dying.head(), draft(redact)), expected=dying.head())
    dying.close()
    assert [entry.commit.lamport for entry in witness.read(Head())] == [1, 2]
    assert b"ada@example.org" not in segments(tmp_path)[0].read_bytes()
    assert prove(tmp_path).sound


def test_a_redaction_made_while_somebody_reads_explains_what_it_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, reader = FilesLog(tmp_path), FilesLog(tmp_path)
    redact = redaction(log)
    append(log, draft(node("last")))
    before = reader.head()
    log.append(entries(log.head(), draft(redact)), expected=log.head())
    # It looked for the head just before the redaction, and at the lines just after it.
    heads = iter([before])
    monkeypatch.setattr(FilesLog, "head", lambda self: next(heads, self._head_file.read()))
    assert [entry.commit.lamport for entry in reader.read(Head())] == [1, 2, 3]


def test_a_second_redaction_that_is_not_carried_out_yet_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, reader = FilesLog(tmp_path), FilesLog(tmp_path)
    append(log, draft(redaction(log, "attrs.email")))
    again = redaction(log)
    with monkeypatch.context() as patched:
        patched.setattr(PendingMasks, "carry_out", lambda self, segments: None)
        log.append(entries(log.head(), draft(again)), expected=log.head())
    log.close()
    assert [entry.commit.lamport for entry in reader.read(Head())] == [1, 2, 3]
    assert prove(tmp_path).sound


NOTES: dict[str, Callable[[bytes], bytes]] = {
    "not a note": lambda note: b"{",
    "another payload": lambda note: note.replace(b"eyJ", b"eyK"),
    "another place": lambda note: note.replace(b'"0":', b'"7":'),
    "empty": lambda note: b"",
}


@pytest.mark.parametrize("harm", NOTES)
def test_a_damaged_note_of_a_redaction_overwrites_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    log = FilesLog(tmp_path)
    redact = redaction(log)
    with monkeypatch.context() as patched:
        patched.setattr(PendingMasks, "carry_out", lambda self, segments: None)
        log.append(entries(log.head(), draft(redact)), expected=log.head())
    log.close()
    note = tmp_path / "redaction.pending"
    harmed = NOTES[harm](note.read_bytes())
    assert harmed != note.read_bytes()
    note.write_bytes(harmed)
    before = segments(tmp_path)[0].read_bytes()
    with pytest.raises(Corrupt) as caught:
        FilesLog(tmp_path)
    assert caught.value.details["file"] == str(note)
    assert (segments(tmp_path)[0].read_bytes(), note.read_bytes()) == (before, harmed)


def test_nothing_is_masked_on_a_log_that_is_not_sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = FilesLog(tmp_path)
    filled(log, 2)
    redact = redaction(log)
    with monkeypatch.context() as patched:
        patched.setattr(PendingMasks, "carry_out", lambda self, segments: None)
        log.append(entries(log.head(), draft(redact)), expected=log.head())
    log.close()
    path = segments(tmp_path)[0]
    damaged = path.read_bytes().replace(b'"n1"', b'"n7"')
    path.write_bytes(damaged)
    with pytest.raises(Corrupt, match="line 2"):
        FilesLog(tmp_path)
    assert path.read_bytes() == damaged
    assert (tmp_path / "redaction.pending").exists()


def test_what_a_killed_writer_left_of_a_note_is_swept_on_opening(tmp_path: Path) -> None:
    log = FilesLog(tmp_path)
    filled(log, 1)
    log.close()
    (tmp_path / "redaction.new").write_bytes(b"half a note")
    FilesLog(tmp_path).close()
    assert not (tmp_path / "redaction.new").exists()


@contextmanager
def small_files() -> Iterator[None]:
    """The kernel refuses to make any file longer than this."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_redaction_without_room_for_its_note_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = FilesLog(tmp_path)
    redact = redaction(log)
    for call in ("write", "fsync", "rename"):
        with monkeypatch.context() as patched, small_files() if call == "write" else nullcontext():
            if call != "write":
                failing(call, errno.ENOSPC, patched)
            with pytest.raises(StorageRefused):
                log.append(entries(log.head(), draft(redact)), expected=log.head())
        assert list(tmp_path.glob("redaction.*")) == []
    assert log.head().lamport == 1
    append(log, draft(node("room again")))
    assert prove(tmp_path).sound


def test_a_redaction_that_cannot_be_carried_out_stops_the_writer_and_is_finished_on_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = FilesLog(tmp_path)
    redact = redaction(log)
    with monkeypatch.context() as patched:
        patched.setattr(recovery, "_overwrite", _no_room)
        with pytest.raises(Unmasked):
            log.append(entries(log.head(), draft(redact)), expected=log.head())
    with pytest.raises(LogClosed):
        append(log, draft(node("after")))
    log.close()
    FilesLog(tmp_path).close()
    assert b"ada@example.org" not in segments(tmp_path)[0].read_bytes()
    assert prove(tmp_path).sound


def _no_room(*arguments: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_segment_that_could_not_be_started_stays_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = FilesLog(tmp_path, segment_bytes_max=1_000)
    made = filled(log, 2)
    while log.head().end < 1_000:
        made += append(log, draft(node("more", number=len(made))))
    with monkeypatch.context() as patched:
        failing("fsync", errno.ENOSPC, patched)
        with pytest.raises(StorageRefused):
            append(log, draft(node("no room")))
    assert [path.stat().st_size for path in segments(tmp_path)][1:] == [0]
    made += append(log, draft(node("room again")))
    assert list(FilesLog(tmp_path).read(Head())) == made
    assert list((tmp_path / "log").glob("*.torn-*")) == []


def test_only_one_of_two_can_claim(tmp_path: Path) -> None:
    one, other = FilesLog(tmp_path), FilesLog(tmp_path)
    assert one.claim(timeout_seconds=0)
    assert not other.claim(timeout_seconds=0.01)
    one.release()
    assert other.claim(timeout_seconds=0)


def test_what_a_dead_writer_was_about_to_mask_is_masked_before_the_next_one_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, dying = FilesLog(tmp_path), FilesLog(tmp_path)
    first = redaction(dying, "attrs.email")
    with monkeypatch.context() as patched:
        patched.setattr(PendingMasks, "carry_out", lambda self, segments: None)
        append(dying, draft(first))
    dying.close()
    # That takes reading, and so is not done where nobody may wait.
    assert not log.claim(timeout_seconds=0)
    assert log.claim(timeout_seconds=timeouts.SECONDS)
    append(log, draft(redaction(log, "attrs.town")))
    log.release()
    assert b"ada@example.org" not in segments(tmp_path)[0].read_bytes()
    assert b"Turin" not in segments(tmp_path)[0].read_bytes()
    assert prove(tmp_path).sound


@pytest.mark.parametrize("segment_bytes_max", [1, 700, 1_500, 1 << 20])
def test_commits_are_found_by_their_lamports(tmp_path: Path, segment_bytes_max: int) -> None:
    log = FilesLog(tmp_path, segment_bytes_max=segment_bytes_max)
    made = [append(log, draft(node(f"n{number}", text="x" * (number * 997 % 9_000))))[0] for number in range(30)]
    places = {entry.commit.lamport: entry.offset for entry in made}
    for lamport, offset in places.items():
        assert log._segments.find({lamport}) == {lamport: offset}
    assert log._segments.find({*places, 0, 31}) == places
    for path in segments(tmp_path):
        path.write_bytes(path.read_bytes().replace(b'"lamport":16,', b'"lamport":99,'))
    assert log._segments.find({*places} - {16}) == {lamport: at for lamport, at in places.items() if lamport != 16}


@pytest.mark.parametrize("chunk_bytes", range(12, 60))
def test_lines_that_hold_a_word_are_found_wherever_pieces_and_segments_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    monkeypatch.setattr("tallystick.log.segments._CHUNK_BYTES", chunk_bytes)
    lines = [b"first", b"has needle and needle", b"x" * 40, b"needle", b"", b"the needle", b"last"]
    for number, some in enumerate((lines[:2], lines[2:5], lines[5:]), 1):
        segment_path(tmp_path, number).write_bytes(b"".join(line + b"\n" for line in some))
    segments = Segments(tmp_path)
    segments.refresh()
    found = list(segments.lines_with(b"needle", 0, segments.size))
    assert found == [(b"first", lines[1]), (b"x" * 40, b"needle"), (b"", b"the needle")]
    assert list(segments.lines_with(b"first", 0, segments.size)) == [(b"", b"first")]
    offsets = [offset for offset, _, _ in segments.lines(0, segments.size)]
    assert [segments.line_before(offset) for offset in (*offsets, segments.size)] == [b"", *lines]
    segments.close()
