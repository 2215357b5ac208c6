"""`prove` finds whatever was done to a log."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from tallystick.commits import Operation, Verb, chain
from tallystick.errors import Corrupt
from tallystick.log import Head, proof
from tallystick.log.files import FilesLog
from tallystick.log.head_file import HeadFile
from tallystick.log.proof import prove
from tallystick.log.recovery import PendingMasks
from tallystick.log.segments import Segments
from tallystick.system.file_locks import locked
from tests.commits_by_hand import append, draft, entries, filled, node
from tests.log.test_files import MASKED, redaction
from tests.promises import promise


def written(system: Path, count: int = 6) -> Path:
    log = FilesLog(system)
    filled(log, count - 2)
    append(log, draft(node("batch-a"), node("batch-b")))
    log.close()
    (path,) = (system / "log").glob("*.jsonl")
    return path


def test_an_untouched_log_is_sound(tmp_path: Path) -> None:
    path = written(tmp_path)
    seen: list[tuple[int, int]] = []
    proof = prove(tmp_path, lambda done, total: seen.append((done, total)))
    assert proof.sound
    assert (proof.commits, proof.position, proof.bytes) == (6, 6, path.stat().st_size)
    assert seen[-1] == (proof.bytes, proof.bytes)


def test_an_empty_store_is_sound(tmp_path: Path) -> None:
    FilesLog(tmp_path).close()
    assert prove(tmp_path).sound
    assert prove(tmp_path / "nothing here").sound


@promise("proof, bytes", "verify finds every flipped byte")
def test_every_flipped_byte_is_found(tmp_path: Path) -> None:
    path = written(tmp_path, 3)
    original = path.read_bytes()
    unseen = []
    for at in range(len(original)):
        path.write_bytes(original[:at] + bytes([original[at] ^ 0x01]) + original[at + 1 :])
        if prove(tmp_path).sound:
            unseen.append(at)
    assert unseen == []


def without(number: int) -> Callable[[list[bytes]], list[bytes]]:
    return lambda lines: lines[:number] + lines[number + 1 :]


def swapped(one: int, other: int) -> Callable[[list[bytes]], list[bytes]]:
    def swap(lines: list[bytes]) -> list[bytes]:
        lines[one], lines[other] = lines[other], lines[one]
        return lines

    return swap


LIES: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    **{f"line {number + 1} removed": without(number) for number in range(6)},
    **{f"lines {number + 1} and {number + 2} swapped": swapped(number, number + 1) for number in range(5)},
    **{f"line {number + 1} doubled": lambda lines, n=number: lines[: n + 1] + lines[n:] for number in range(6)},  # type: ignore[misc]
    "everything removed": lambda lines: [],
    "an empty line added": lambda lines: [*lines, b"\n"],
    "a text added": lambda lines: [*lines, b"hello\n"],
}


@promise("proof, lines", "verify finds a removed, swapped or added line, the last ones included")
@pytest.mark.parametrize("lie", LIES)
def test_a_removed_swapped_or_added_line_is_found(tmp_path: Path, lie: str) -> None:
    path = written(tmp_path)
    path.write_bytes(b"".join(LIES[lie](path.read_bytes().splitlines(keepends=True))))
    proof = prove(tmp_path)
    assert proof.problem
    assert proof.file == str(path)


def test_a_well_made_commit_added_at_the_end_is_found(tmp_path: Path) -> None:
    path = written(tmp_path)
    log = FilesLog(tmp_path)
    (forged,) = entries(log.head(), draft(node("forged")))
    log.close()
    with path.open("ab") as file:
        file.write(forged.line + b"\n")
    proof = prove(tmp_path)
    assert proof.problem is not None
    assert "behind position 6" in proof.problem
    assert proof.line == 7


def test_a_removed_segment_is_found_wherever_it_lay(tmp_path: Path) -> None:
    for number in range(3):
        system = tmp_path / str(number)
        log = FilesLog(system, segment_bytes_max=1_000)
        filled(log, 6)
        log.close()
        paths = sorted((system / "log").glob("*.jsonl"))
        assert len(paths) == 3
        paths[number].unlink()
        assert not prove(system).sound


@pytest.mark.parametrize("is_removed", [True, False], ids=["no segment", "0 bytes"])
def test_an_empty_log_beside_a_snapshot_is_cut_off_and_is_not_opened(tmp_path: Path, is_removed: bool) -> None:
    path = written(tmp_path)
    (tmp_path / "head").unlink()
    os.truncate(path, 0)
    if is_removed:
        path.unlink()
    assert prove(tmp_path).sound
    (tmp_path / "snapshots").mkdir()
    (tmp_path / "snapshots" / f"{6:020d}.snapshot").write_bytes(b"")
    assert "a snapshot was made at 6" in str(prove(tmp_path).problem)
    with pytest.raises(Corrupt, match="snapshot"):
        FilesLog(tmp_path)


def test_a_removed_mark_is_found(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "head").unlink()
    problem = prove(tmp_path).problem
    assert problem is not None
    assert "no kept position" in problem


def _leave_one_byte(mark: Path) -> None:
    mark.write_bytes(b"x")


@pytest.mark.parametrize("harm", [Path.unlink, _leave_one_byte])
def test_without_the_mark_the_lines_are_proven_all_the_same(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    """Whoever is to remove a damaged mark has to know whether the log is sound without it."""
    path = written(tmp_path)
    harm(tmp_path / "head")
    found = prove(tmp_path)
    assert found.problem is not None
    assert found.problem.endswith("; the 6 commits that are there, up to position 6, are sound")
    assert (found.commits, found.position) == (6, 6)
    path.write_bytes(path.read_bytes().replace(b"batch-a", b"batch-x", 1))
    found = prove(tmp_path)
    assert found.problem == "lamport 5: the payload does not match content_hash, and no redaction names it"
    assert (found.file, found.line) == (str(path), 5)


def test_a_rewritten_history_that_chains_is_found_by_the_mark(tmp_path: Path) -> None:
    """Whoever recomputes every hash still has to forge the position that is kept apart."""
    path = written(tmp_path)
    forged = entries(Head(), *[draft(node(f"lie{number}")) for number in range(6)])
    path.write_bytes(b"".join(entry.line + b"\n" for entry in forged))
    assert not prove(tmp_path).sound


def test_the_proof_names_the_line_whose_payload_was_altered(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"id":"n1"', b'"id":"n9"'))
    proof = prove(tmp_path)
    assert proof.line == 2
    assert proof.problem is not None
    assert "content_hash" in proof.problem


@pytest.mark.parametrize("kind", [b'"type":"much longer"', b'"type":""'])
def test_the_proof_names_the_line_whose_payload_became_longer_or_shorter(tmp_path: Path, kind: bytes) -> None:
    path = written(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    assert b'"type":"note"' in lines[1]
    path.write_bytes(lines[0] + lines[1].replace(b'"type":"note"', kind) + b"".join(lines[2:]))
    assert prove(tmp_path).line == 2


def test_what_is_left_of_a_redacted_payload_cannot_be_altered_unseen(tmp_path: Path) -> None:
    log = FilesLog(tmp_path)
    redact = redaction(log)
    log.append(entries(log.head(), draft(redact)), expected=log.head())
    log.close()
    assert prove(tmp_path).sound
    (path,) = (tmp_path / "log").glob("*.jsonl")
    path.write_bytes(
        chain.mask(path.read_bytes().split(b"\n")[0], MASKED.replace(b"note", b"nope"))
        + b"\n"
        + path.read_bytes().split(b"\n", 1)[1]
    )
    assert not prove(tmp_path).sound


def test_a_redaction_that_was_never_carried_out_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = FilesLog(tmp_path)
    redact = redaction(log)
    monkeypatch.setattr(PendingMasks, "carry_out", lambda self, segments: None)
    append(log, draft(redact))
    log.close()
    proof = prove(tmp_path)
    assert proof.problem is not None
    assert "still there" in proof.problem
    assert proof.line == 1


def test_a_redaction_made_while_it_reads_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = FilesLog(tmp_path)
    redact = redaction(log)
    append(log, draft(node("last")))
    before, real = log.head(), HeadFile.read
    log.append(entries(log.head(), draft(redact)), expected=log.head())
    # It looked for the kept position just before the redaction, at the lines just after it; a writer is busy.
    assert log.claim(timeout_seconds=0)
    kept = iter([before])
    monkeypatch.setattr(HeadFile, "read", lambda self: next(kept, None) or real(self))
    proof = prove(tmp_path)
    assert proof.sound, proof.problem
    assert proof.position == 3


def test_it_ends_where_a_payload_was_altered_and_the_file_is_shorter(tmp_path: Path) -> None:
    """As if a redaction were about to explain the payload, in lines that are not there."""
    path = written(tmp_path)
    lines = path.read_bytes().replace(b'"id":"n1"', b'"id":"n9"').splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-2]))
    proof = prove(tmp_path)
    assert proof.problem is not None
    assert "content_hash" in proof.problem
    assert proof.line == 2


def test_a_doubled_line_is_named_where_it_lies(tmp_path: Path) -> None:
    path = written(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], lines[1], *lines[3:]]))
    assert prove(tmp_path).line == 4


def test_many_payloads_that_masking_left_as_they_were_are_looked_for_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = FilesLog(tmp_path)
    made = filled(log, 20)
    redacts = {str(entry.commit.lamport): entry.commit.content_hash for entry in made}
    append(
        log, draft(Operation(Verb.REDACT_NODE, {"node_id": "n0", "redacted_fields": ["attrs.none"]}, redacts=redacts))
    )
    log.close()
    read: list[tuple[int, int]] = []
    real = Segments.lines

    def noted(self: Segments, start: int, end: int) -> Iterator[tuple[int, bytes, bool]]:
        read.append((start, end))
        return real(self, start, end)

    monkeypatch.setattr(Segments, "lines", noted)
    assert prove(tmp_path).sound
    assert len(read) == 1


# -- what it tells


def test_a_proof_tells_what_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "_PROGRESS_EVERY", 2)
    log = FilesLog(tmp_path, segment_bytes_max=1_500)
    append(log, draft(redaction(log)))
    filled(log, 3)
    made = list(log.read(Head()))
    log.close()
    told: list[str] = []
    seen: list[tuple[int, int]] = []
    found = prove(tmp_path, lambda done, total: seen.append((done, total)), each=told.append)
    assert told == [entry.commit.record_hash for entry in made]
    total = made[-1].end
    assert seen == [(made[at].end, total) for at in (0, 2, 4)] + [(total, total)]
    assert found == proof.Proof(5, 5, told[-1], 2, total, 1, made[0].commit.timestamp)


def test_what_is_behind_the_kept_position_is_left_to_a_writer_that_is_busy(tmp_path: Path) -> None:
    path = written(tmp_path)
    log = FilesLog(tmp_path)
    (forged,) = entries(log.head(), draft(node("forged")))
    assert log.claim(timeout_seconds=0)
    with path.open("ab") as file:
        file.write(forged.line + b"\n")
    assert (prove(tmp_path).sound, prove(tmp_path).position) == (True, 6)
    path.write_bytes(path.read_bytes()[: forged.offset])
    log.close()


def test_what_was_acknowledged_while_it_read_is_read_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path)
    log = FilesLog(tmp_path)
    before, real = log.head(), HeadFile.read
    append(log, draft(node("meanwhile")))
    log.close()
    kept = iter([before])
    monkeypatch.setattr(HeadFile, "read", lambda self: next(kept, None) or real(self))
    assert (prove(tmp_path).sound, prove(tmp_path).position) == (True, 7)


def forge_last(path: Path) -> str:
    """Another last commit, of the same length, that chains."""
    lines = path.read_bytes().splitlines()
    last = chain.decode(lines[-1])
    payload = last.payload.replace(b"batch-b", b"batch-c")
    fresh = msgspec.structs.replace(
        last,
        payload=payload,
        content_hash=chain.content_hash(payload),
        commit_id=chain.commit_id(payload, last.lamport, last.actor, last.operation),
    )
    record_hash = sha256(chain.record_hash_of(lines[-2]).encode() + chain.head_of(fresh)).hexdigest()
    lines[-1] = chain.encode(msgspec.structs.replace(fresh, record_hash=record_hash))[:-1]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return last.record_hash


def test_another_last_commit_of_the_same_length_is_found(tmp_path: Path) -> None:
    path = written(tmp_path)
    kept = forge_last(path)
    found = prove(tmp_path)
    assert found.problem == f"the last commit is not the one that was acknowledged as {kept}"
    assert (found.file, found.line) == (str(path), 6)


def added(path: Path) -> None:
    log = FilesLog(path.parent.parent)
    (forged,) = entries(log.head(), draft(node("forged")))
    log.close()
    path.write_bytes(path.read_bytes() + forged.line + b"\n")


def cut(lines: int) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-lines]))


@pytest.mark.parametrize(
    ("damage", "problem", "line"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "the line has no end", 6),
        (
            cut(2),
            "the log ends at lamport 4, but 6 was acknowledged: 2 commits are missing from its end",
            5,
        ),
        (
            added,
            "it lies behind position 6, the last that was acknowledged: either a writer died "
            "before it could acknowledge this (opening the store settles it), or it was added by hand",
            7,
        ),
        (
            lambda path: path.rename(path.with_name(f"{2:020d}.jsonl")),
            "00000000000000000002.jsonl is named for lamport 2, but it stands between 0 and 1",
            1,
        ),
    ],
)
def test_what_is_false_is_named(tmp_path: Path, damage: Callable[[Path], object], problem: str, line: int) -> None:
    damage(written(tmp_path))
    found = prove(tmp_path)
    assert (found.problem, found.line) == (problem, line)


def test_where_no_file_is_left_there_is_none_to_name(tmp_path: Path) -> None:
    written(tmp_path).unlink()
    found = prove(tmp_path)
    assert found.problem == "the log ends at lamport 0, but 6 was acknowledged: 6 commits are missing from its end"
    assert (found.file, found.line) == (None, None)
    (tmp_path / "head").write_bytes(b"x" * 512)
    found = prove(tmp_path)
    assert (found.problem, found.file) == (
        f"the kept position in {tmp_path / 'head'} is unreadable",
        str(tmp_path / "head"),
    )


# -- redactions that are being carried out


class Unmasked:
    """A redaction whose commit is in the log and whose mask is not."""

    def __init__(self, system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        log = FilesLog(system)
        redact = redaction(log)
        monkeypatch.setattr(PendingMasks, "carry_out", lambda pending, segments: None)
        append(log, draft(redact))
        log.close()
        (self.path,) = (system / "log").glob("*.jsonl")
        self.lock = system / "lock"
        self.now, self.waited = 100.0, list[float]()

    def mask(self) -> None:
        first, rest = self.path.read_bytes().split(b"\n", 1)
        self.path.write_bytes(chain.mask(first, MASKED) + b"\n" + rest)

    def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.now += 0.5


def test_a_mask_that_is_on_its_way_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unmasked = Unmasked(tmp_path, monkeypatch)
    monkeypatch.setattr(time, "sleep", lambda seconds: unmasked.mask())
    with locked(unmasked.lock):
        assert prove(tmp_path).sound


def test_a_mask_that_does_not_come_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unmasked = Unmasked(tmp_path, monkeypatch)
    with locked(unmasked.lock), monkeypatch.context() as clock:
        clock.setattr(time, "sleep", unmasked.sleep)
        clock.setattr(time, "monotonic", lambda: unmasked.now)
        found = prove(tmp_path)
    assert found.problem == (
        "lamport 1: a redaction names it, but its payload is still there "
        "(opening the store finishes a redaction that was cut short)"
    )
    assert (found.line, unmasked.waited) == (1, [0.005] * 5)
