"""Real faults on real processes: every acknowledged commit is found again, nothing is half there."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tallystick.log import Head
from tallystick.log.files import FilesLog
from tallystick.log.proof import prove
from tests.commits_by_hand import filled
from tests.files_with import files_with
from tests.promises import promise

ROOT = Path(__file__).parents[2]
WRITER = [sys.executable, "-m", "tests.log.writer"]


def run(command: list[str], before: Callable[[], None] | None = None) -> list[str]:
    """The lines a writer printed before it ended, however it ended."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, preexec_fn=before, check=False)
    return done.stdout.splitlines()


def acknowledged(lines: list[str]) -> set[str]:
    return {line.split()[1] for line in lines if line.split()[0].isdigit()}


def found(system: Path) -> set[str]:
    """Names of drafts, each with both of its commits."""
    log = FilesLog(system)
    ids = [msgspec.json.decode(entry.commit.payload)["id"] for entry in log.read(Head())]
    log.close()
    assert {i[:-2] for i in ids if i.endswith("-a")} == {i[:-2] for i in ids if i.endswith("-b")}
    return {i[:-2] for i in ids}


INJECTED = {
    "a sync fails": ("fdatasync:error=EIO:when=4", "LOG_CLOSED"),
    "no room for a write": ("write:error=ENOSPC:when=4", "STORAGE_REFUSED"),
    "a write fails": ("write:error=EIO:when=4", "LOG_CLOSED"),
    "killed in a sync": ("fdatasync:signal=SIGKILL:when=4", None),
    "killed in a write": ("write:signal=SIGKILL:when=4", None),
    "the undoing fails too": ("write:error=ENOSPC:when=4 ftruncate:error=EIO", "LOG_CLOSED"),
}


@promise("durability, faults", "failing writes and syncs lose nothing that was acknowledged")
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace injects the faults: apt-get install strace")
@pytest.mark.parametrize("fault", INJECTED)
def test_an_injected_fault_loses_nothing_that_was_acknowledged(tmp_path: Path, fault: str) -> None:
    inject, code = INJECTED[fault]
    segment = tmp_path / "log" / f"{1:020d}.jsonl"
    options = [f"--inject={each}" for each in inject.split()]
    lines = run(
        ["strace", "-f", "-qq", "-o", os.devnull, "-P", str(segment), *options, *WRITER, str(tmp_path), "w", "10"]
    )
    assert len(acknowledged(lines)) >= 3
    assert code is None or code in lines
    assert acknowledged(lines) <= found(tmp_path)
    assert prove(tmp_path).sound


def test_a_file_size_limit_is_a_short_write_that_is_taken_back(tmp_path: Path) -> None:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))

    lines = run([*WRITER, str(tmp_path), "w", "10", "1000000"], limit)
    assert "STORAGE_REFUSED" in lines
    assert acknowledged(lines) == found(tmp_path)
    assert prove(tmp_path).sound


def test_a_full_disk_refuses_writes_keeps_reads_and_goes_on_when_there_is_room(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(30_000))
    lines = run([*WRITER, str(small_disk / "s"), "w", "40", "1000000"])
    assert "STORAGE_REFUSED" in lines
    assert acknowledged(lines) == found(small_disk / "s")
    ballast.unlink()
    assert len(acknowledged(run([*WRITER, str(small_disk / "s"), "again", "3", "1000000"]))) == 3
    assert prove(small_disk / "s").sound


def test_a_read_only_disk_serves_reads(small_disk: Path) -> None:
    system = small_disk / "s"
    lines = run([*WRITER, str(system), "w", "3"])
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert found(system) == acknowledged(lines)
    assert run([*WRITER, str(system), "w", "1"]) == ["STORAGE_REFUSED"]
    assert prove(system).sound


def test_a_writer_killed_again_and_again_loses_nothing(tmp_path: Path) -> None:
    kept: set[str] = set()
    for life in range(12):
        with subprocess.Popen(
            [*WRITER, str(tmp_path), f"life{life}", "100000"], cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(5 + 7 * life)]
            process.kill()
            lines += process.stdout.readlines()
        kept |= acknowledged([line for line in lines if line.endswith("\n")])
        assert kept <= found(tmp_path)
        assert prove(tmp_path).sound
    assert len(kept) > 500


@pytest.mark.parametrize("taken", [["log"], ["head"], ["log", "head", "lock"]], ids="+".join)
@pytest.mark.parametrize("is_replaced", [True, False], ids=["replaced", "removed"])
def test_a_writer_stops_when_its_files_are_taken_away(tmp_path: Path, taken: list[str], is_replaced: bool) -> None:
    system = tmp_path / "system"
    with subprocess.Popen([*WRITER, str(system), "w", "3000"], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        for name in taken:
            (system / name).rename(tmp_path / name)
            if is_replaced:
                copy = shutil.copytree if (tmp_path / name).is_dir() else shutil.copy2
                copy(tmp_path / name, system / name)
        lines = process.stdout.readlines()
    assert lines[-1].strip() in {"LOG_CLOSED", "LOG_MISPLACED"}


def _few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))


def test_a_small_limit_of_open_files_is_enough_for_hundreds_of_segments(tmp_path: Path) -> None:
    log = FilesLog(tmp_path, segment_bytes_max=1, syncs=False)
    filled(log, 300)
    log.close()
    assert len(list((tmp_path / "log").iterdir())) == 300
    assert len(acknowledged(run([*WRITER, str(tmp_path), "w", "30", "1"], _few_files))) == 30
    assert prove(tmp_path).sound


EXHAUSTED = """
import os, sys
from pathlib import Path
from tallystick.errors import TallystickError
from tallystick.log import Head
from tallystick.log.files import FilesLog
from tests.commits_by_hand import append, draft, node

def tried(work):
    try:
        work()
        print("done")
    except TallystickError as error:
        print(error.code)

log = FilesLog(Path(sys.argv[1]), segment_bytes_max=1)
made = append(log, draft(node("before")))
fds = []
try:
    while True:
        fds.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
tried(lambda: log.line(0))
tried(lambda: append(log, draft(node("refused"))))
tried(lambda: list(log.read(Head())))
tried(lambda: FilesLog(Path(sys.argv[1])))
for fd in fds:
    os.close(fd)
tried(lambda: append(log, draft(node("again"))))
tried(lambda: list(log.read(Head())))
"""


def test_a_log_without_descriptors_refuses_and_goes_on_when_there_are_some_again(tmp_path: Path) -> None:
    log = FilesLog(tmp_path, segment_bytes_max=1, syncs=False)
    filled(log, 100)
    log.close()
    lines = run([sys.executable, "-c", EXHAUSTED, str(tmp_path)], _few_files)
    assert lines == [*["RESOURCES_EXHAUSTED"] * 4, "done", "done"]
    assert prove(tmp_path).sound
    assert prove(tmp_path).commits == 102


EXHAUSTED_BY_A_REDACTION = """
import asyncio, os, sys
from pathlib import Path
from tallystick.log.files import FilesLog
from tallystick.log.head_file import HeadFile
from tallystick.engine.partition import Partition
from tests.commits_by_hand import draft, node
from tests.test_committed import redacting

fds, write = [], HeadFile.write

def write_and_exhaust(self, head):
    write(self, head)
    try:
        while True:
            fds.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        # Those that are free again let the masks begin.
        for _ in range(int(sys.argv[2])):
            os.close(fds.pop())

async def main():
    system = Path(sys.argv[1])
    partition = Partition(FilesLog(system, segment_bytes_max=1))
    await partition.open()
    for number in range(2):
        await partition.commit(lambda state: draft(node("a", email="ada@example.org", number=number)))
    HeadFile.write = write_and_exhaust
    receipt = await partition.commit(redacting)
    HeadFile.write = write
    print(receipt.commits[0].lamport, *receipt.erasure_pending, (system / "redaction.pending").exists())
    for fd in fds:
        os.close(fd)
    print((await partition.commit(lambda state: draft(node("b")))).commits[0].lamport)
    print(partition.health.trouble, (system / "redaction.pending").exists())
    await partition.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("free", [0, 1], ids=["for-the-note", "for-the-second-segment"])
def test_a_redaction_without_descriptors_is_pending_and_finished_by_the_same_process(tmp_path: Path, free: int) -> None:
    lines = run([sys.executable, "-c", EXHAUSTED_BY_A_REDACTION, str(tmp_path), str(free)], _few_files)
    assert lines == ["3 log True", "4", "None False"]
    assert files_with(b"ada@example.org", tmp_path) == []
    assert prove(tmp_path).sound


@promise("M23, log", "two processes write at once and both find everything")
def test_two_processes_write_at_once_and_both_find_everything(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen([*WRITER, str(tmp_path), name, "200"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for name in ("one", "two")
    ]
    lines = [line for writer in writers for line in writer.communicate()[0].splitlines()]
    assert len(acknowledged(lines)) == 400
    assert found(tmp_path) == acknowledged(lines)
    assert prove(tmp_path).sound
