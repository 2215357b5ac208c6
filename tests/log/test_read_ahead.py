"""A log that another process reads and verifies says what it says to whoever reads it alone."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tallystick.commits import Operation, Verb, chain
from tallystick.errors import Corrupt
from tallystick.log import Entry, Head, read_ahead
from tallystick.log.files import FilesLog
from tests.commits_by_hand import append, draft, node

DRAFTS = 700
HOSTILE = 'a","payload":{"\\\u2028\u0000🜚'


@pytest.fixture(autouse=True)
def however_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "BYTES_MIN", 0)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The processes that were begun to read."""
    found: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            found.append(self)

    monkeypatch.setattr(subprocess, "Popen", Noted)
    return found


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """Drafts of one and of several commits, hostile text, and one payload that was redacted."""
    log = FilesLog(tmp_path / "_system", segment_bytes_max=100_000, syncs=False)
    secret = append(log, draft(node("person", born="1815-12-10")))[0]
    drafts = [
        draft(*(node(f"n{number}-{part}", text=HOSTILE) for part in range(1 + number % 3)), actor=HOSTILE)
        for number in range(DRAFTS)
    ]
    for start in range(0, DRAFTS, 50):
        append(log, *drafts[start : start + 50])
    masked = chain.redacted_payload(secret.line, None)
    assert masked is not None
    said = {"node_id": "person", "reason": "asked"}
    redacts = {str(secret.commit.lamport): chain.content_hash(masked)}
    append(log, draft(Operation(Verb.REDACT_NODE, said, redacts=redacts)))
    append(log, draft(*(node(f"last{part}") for part in range(5))))
    log.close()
    return tmp_path / "_system"


def read(system: Path, *, ahead: bool, after: Head | None = None) -> tuple[list[Entry], str | None]:
    """What was handed out, and what was said to be false."""
    found: list[Entry] = []
    try:
        with closing(FilesLog(system)) as log:
            if ahead:
                log.prepare((), after or Head())
            for entry in log.read(after or Head()):
                found.append(entry)
    except Corrupt as error:
        return found, error.message
    return found, None


def handed_over(system: Path) -> list[Entry]:
    """By the other process."""
    with closing(read_ahead.ReadAhead(system, Head())) as reading:
        return [entry for entries in reading for entry in entries]


def test_everything_is_handed_out_once_as_it_is_in_the_log(system: Path) -> None:
    alone, problem = read(system, ahead=False)
    assert problem is None
    assert len(alone) > DRAFTS
    assert read(system, ahead=True) == (alone, None)
    over = handed_over(system)
    assert alone[: len(over)] == over
    assert len(over) > len(alone) - 300


def test_reading_may_begin_anywhere(system: Path) -> None:
    alone, _ = read(system, ahead=False)
    before, last = alone[:100], alone[99].commit
    head = Head(last.lamport, 100, before[-1].end, last.record_hash, last.commit_id, last.timestamp)
    assert read(system, ahead=True, after=head) == (alone[100:], None)


def test_who_reads_from_elsewhere_reads_alone(system: Path) -> None:
    log = FilesLog(system)
    alone = list(log.read(Head()))
    log.prepare((), log.head())
    assert list(log.read(Head())) == alone
    log.close()


def altered(line: bytes) -> bytes:
    return line.replace(b'"type":"note"', b'"type":"nope"')


def cut(line: bytes) -> bytes:
    return line[:-20].ljust(len(line))


def gone(line: bytes) -> bytes:
    return b"".ljust(len(line))


def not_canonical(line: bytes) -> bytes:
    return line.replace(b'{"actor"', b'{ "actor"', 1)


@pytest.mark.parametrize("damage", [altered, cut, gone, not_canonical])
@pytest.mark.parametrize("at", [0, 3, -3])
def test_damage_is_told_as_to_who_reads_alone(system: Path, damage: Callable[[bytes], bytes], at: int) -> None:
    segment = sorted((system / "log").iterdir())[at if at >= 0 else -1]
    lines = segment.read_bytes().split(b"\n")
    place = len(lines) // 2 if at >= 0 else at
    lines[place] = damage(lines[place])
    segment.write_bytes(b"\n".join(lines))
    alone, problem = read(system, ahead=False)
    assert problem is not None
    assert read(system, ahead=True) == (alone, problem)


def test_one_that_is_killed_is_not_missed(system: Path, begun: list[subprocess.Popen[bytes]]) -> None:
    alone, _ = read(system, ahead=False)
    log = FilesLog(system)
    log.prepare((), Head())
    reading = log.read(Head())
    found = [next(reading)]
    begun[0].kill()
    assert [*found, *reading] == alone
    log.close()


@pytest.mark.parametrize("ends", ["the reader", "the log"])
def test_it_ends_with_its_reader(system: Path, begun: list[subprocess.Popen[bytes]], ends: str) -> None:
    log = FilesLog(system)
    log.prepare((), Head())
    if ends == "the reader":
        reading = log.read(Head())
        next(reading)
        reading.close()  # type: ignore[attr-defined]  # it is a generator
    else:
        log.close()
    assert [process.returncode for process in begun] == [-signal.SIGKILL]
    log.close()


def test_where_no_process_can_be_begun_one_reads_alone(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone, _ = read(system, ahead=False)

    def refuse(*_arguments: object, **_options: object) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert read(system, ahead=True) == (alone, None)


def test_no_module_of_the_directory_it_runs_in_is_taken_for_ours(
    system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("tallystick.py", "msgspec.py", "json.py"):
        (tmp_path / name).write_text("import pathlib\npathlib.Path(__file__).with_name('ran').touch()\n")
    monkeypatch.chdir(tmp_path)
    assert handed_over(system)
    assert not (tmp_path / "ran").exists()
