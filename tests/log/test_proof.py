"""`prove` finds whatever was done to a log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tallystick.commits import Operation, Verb, chain
from tallystick.log import Head
from tallystick.log.files import FilesLog
from tallystick.log.head_file import HeadFile
from tallystick.log.proof import prove
from tallystick.log.recovery import PendingMasks
from tallystick.log.segments import Segments
from tests.commits_by_hand import append, draft, entries, filled, node
from tests.log.test_files import MASKED, redaction


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


def test_a_removed_mark_is_found(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "head").unlink()
    problem = prove(tmp_path).problem
    assert problem is not None
    assert "no kept position" in problem


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
