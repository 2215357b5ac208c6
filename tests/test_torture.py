"""`make torture`: a short round of some scenarios, and that it would notice what it looks for."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tallystick.commits import Operation, Verb
from tallystick.log.files import FilesLog
from tests.commits_by_hand import append, draft
from torture import arena as arenas
from torture import checker, journal, sharing, writer
from torture.arena import Tally
from torture.hosts import hosts
from torture.journal import Note

ROOT = Path(__file__).parents[1]
TORTURE = [sys.executable, "-m", "torture"]


@pytest.mark.parametrize(
    "scenario", ["segments", "kill-redactions", "power-ext4", "flips", "cluster-kill-leader", "cluster-cut-minority"]
)
def test_nothing_is_lost_in_a_short_round(tmp_path: Path, scenario: str) -> None:
    results = tmp_path / "results.json"
    command = [*TORTURE, "--quick", "--only", scenario, "--json", str(results)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (tally,) = msgspec.json.decode(results.read_bytes(), type=list[Tally])
    if tally.skipped:
        pytest.skip(tally.skipped)
    assert tally.rounds == 1
    assert tally.acknowledged > 0
    assert (tally.lost, tally.wrong, tally.unseen) == (0, 0, 0)


def test_an_interrupted_run_leaves_no_files_and_no_processes(tmp_path: Path) -> None:
    command = [*TORTURE, "--only", "crowd"]
    with subprocess.Popen(
        command, cwd=ROOT, stderr=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(tmp_path)}
    ) as process:
        assert process.stderr is not None
        process.stderr.readline()
        while not list(tmp_path.glob("*/*/*.journal")):
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert "cleaned up" in process.stderr.read()
    assert process.returncode == 130
    assert list(tmp_path.iterdir()) == []


# -- that it sees


@pytest.fixture(scope="module")
def suffered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Note]]:
    """A base that nothing happened to, and what its writer was told."""
    place = tmp_path_factory.mktemp("suffered")
    plan = writer.Plan(str(place / "base"), str(place / "journal"), "life0", "mixed", 1, 4, writes_max=4)
    asyncio.run(writer.write(plan))
    notes = journal.read(place / "journal")
    assert checker.check(place / "base", notes) == checker.Findings()
    return place / "base", notes


def _forged(base: Path) -> None:
    half = {"id": "life0.9.1.0", "type": "member", "attrs": {"batch": "life0.9.1", "of": 2}}
    log = FilesLog(base / "_system")
    append(log, draft(Operation(Verb.UPSERT_NODE, half)))
    log.close()


def _changed_mirror(base: Path) -> None:
    with sqlite3.connect(base / "graph.db") as db:
        db.execute("UPDATE nodes SET attrs = '{}' WHERE type = 'member'")
    db.close()


def _cut_audit(base: Path) -> None:
    path = next((base / "_system" / "audit").glob("*.jsonl"))
    os.truncate(path, path.stat().st_size - 40)


def _cut_log(base: Path) -> None:
    path = next((base / "_system" / "log").glob("*.jsonl"))
    os.truncate(path, path.stat().st_size - 40)


HARMS: dict[str, tuple[Callable[[Path], object], str]] = {
    "half a batch": (_forged, "of batch life0.9.1 1 of 2 are there"),
    "a stray file": (lambda base: (base / "_system" / "head.new").write_bytes(b""), "stray file _system/head.new"),
    "a mirror that lies": (_changed_mirror, "graph.db, table nodes "),
    "an audit log cut short": (_cut_audit, "verify, audit log: "),
    "a log cut short": (_cut_log, "default: it cannot be opened: "),
}


@pytest.mark.parametrize("harm", HARMS)
def test_the_checker_sees(suffered: tuple[Path, list[Note]], tmp_path: Path, harm: str) -> None:
    do, said = HARMS[harm]
    base = _copied(suffered[0], tmp_path)
    do(base)
    assert any(each.startswith(said) for each in checker.check(base, suffered[1]).wrong)


def test_the_checker_sees_what_was_told_and_is_not_there(suffered: tuple[Path, list[Note]], tmp_path: Path) -> None:
    base = _copied(suffered[0], tmp_path)
    counter = next(note for note in reversed(suffered[1]) if note.kind == "count")
    page = next(note for note in suffered[1] if note.kind == "node")
    false = [
        Note(0, "batch", "life0.9.9", number=2),
        Note(0, "count", counter.id, number=counter.number + 1_000),
        Note(0, "node", page.id, text="0" * 64),
        Note(0, "gone", counter.id),
        Note(0, "redacted", counter.id, text="open sesame"),
    ]
    for note in false:
        assert checker.check(base, [note]).lost == [f"{note.kind} {note.id}"]


def test_the_checker_sees_what_was_refused_and_is_there(suffered: tuple[Path, list[Note]], tmp_path: Path) -> None:
    base = _copied(suffered[0], tmp_path)
    batch = next(note for note in suffered[1] if note.kind == "batch")
    refused = Note(0, "refused", batch.id, text="STORAGE_REFUSED")
    assert checker.check(base, [refused]).wrong == [f"{batch.id} was refused and is there"]


def test_the_checker_sees_what_a_redaction_left(suffered: tuple[Path, list[Note]], tmp_path: Path) -> None:
    base = _copied(suffered[0], tmp_path)
    redacted = next(note for note in suffered[1] if note.kind == "redacted")
    (base / "_system" / "log" / f"{1:020d}.jsonl.torn-20260101T000000-1").write_text(redacted.text)
    (wrong,) = checker.check(base, suffered[1]).wrong
    assert wrong.endswith("still holds what was redacted")


# -- that it sees what several machines get wrong


def _calls(at: int, call: sharing.Call) -> Note:
    return Note(at, "calls", "shared.0", text=msgspec.json.encode(call).decode())


def _answers(at: int, answer: sharing.Answer) -> Note:
    return Note(at, "answers", "shared.0", text=msgspec.json.encode(answer).decode())


def _swap(name: str, at: int, how: str) -> list[Note]:
    return [
        _calls(at, sharing.Call(name, "swap", name, "first")),
        _answers(at + 5, sharing.Answer(name, how)),
    ]


FIRST = [
    _calls(0, sharing.Call("first", "write", "first")),
    _answers(1, sharing.Answer("first", "done")),
]


def test_a_condition_that_held_twice_is_seen() -> None:
    assert list(sharing.problems_of([*FIRST, *_swap("one", 2, "done"), *_swap("two", 3, "refused")])) == []
    (problem,) = sharing.problems_of([*FIRST, *_swap("one", 2, "done"), *_swap("two", 3, "done")])
    assert problem.startswith("shared.0 is not linearizable: ")


def test_a_call_without_an_answer_may_have_happened_and_one_that_was_refused_by_the_disk_has_not() -> None:
    read = [
        _calls(90, sharing.Call("read", "read")),
        _answers(91, sharing.Answer("read", "done", "one")),
    ]
    assert list(sharing.problems_of([*FIRST, _swap("one", 2, "done")[0], *read])) == []
    assert len(list(sharing.problems_of([*FIRST, *_swap("one", 2, "nothing"), *read]))) == 1


def test_work_that_was_handed_out_twice_is_seen() -> None:
    mine, again, yours = (Note(0, "claimed", "task", text=who) for who in ("me", "me", "you"))
    assert list(sharing.problems_of([mine, again])) == []
    assert list(sharing.problems_of([mine, yours])) == ["task was handed out to me, you"]


def test_hosts_hear_each_other_until_a_link_is_cut_and_again_when_it_is_healed(tmp_path: Path) -> None:
    arena = arenas.Arena(tmp_path, seed=1)
    try:
        with hosts(arena, tmp_path, 2) as net, socket.create_server((net.address(2), 0)) as seen_by_all:
            port = seen_by_all.getsockname()[1]
            assert _reaches(net.prefix(0), net.address(2), port)
            net.cut(0, 2)
            assert not _reaches(net.prefix(0), net.address(2), port)
            net.heal()
            assert _reaches(net.prefix(0), net.address(2), port)
    except arenas.Skipped as reason:
        pytest.skip(str(reason))
    finally:
        arena.end_all()
    assert not [name for name in net.names if Path("/run/netns", name).exists()]


def _reaches(prefix: list[str], address: str, port: int) -> bool:
    """The kernel gives up after a few tries, not after a time of ours."""
    connect = (
        "import socket; asks = socket.socket(); asks.setsockopt(socket.IPPROTO_TCP, socket.TCP_SYNCNT, 3);"
        f" asks.connect(({address!r}, {port}))"
    )
    return not subprocess.run([*prefix, sys.executable, "-c", connect], capture_output=True, check=False).returncode


def _copied(base: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(base, tmp_path / "base"))
