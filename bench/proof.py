"""What checkpoints cost: the tree of a log brought up to date, a signature, a log that gets both late, and proofs."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

import verify_standalone
from bench import Row, percentile
from bench.bases import fill, note, seal
from tallystick.commits.signed_note import SignerKey
from tallystick.extensions.proofs.checkpoints import is_shown, sign
from tallystick.extensions.proofs.prove import prove_stored
from tallystick.extensions.proofs.tiles import read_place
from tallystick.log import Head, head_after, tree_directory
from tallystick.log.checkpoint import check_opened
from tallystick.log.files import FilesLog
from tallystick.projections.follower import Follower
from tallystick.projections.log_reader import LogReader
from tallystick.projections.registry import Place

_CHECKPOINTS = 50
_PROOFS = 200
_VKEY = "vkey"
_ALONE = """
import re, runpy, sys, time
sys.argv = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    print(time.process_time(), re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1], file=sys.stderr)
"""
"""Runs the file, and says what that took: a process that was forked here would be told of our memory as its own."""


def run(quick: bool = False) -> list[Row]:
    commits = 20_000 if quick else 1_000_000
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as folder:
        home = Path(folder)
        fill(home, (note(number, body_bytes=100) for number in range(commits)))
        return [*_backfill(home, commits), *_checkpoints(home, commits), *_proofs(home, commits)]


def _opened(home: Path) -> FilesLog:
    return FilesLog(home / "_system")


def _backfill(home: Path, commits: int) -> list[Row]:
    started, busy = time.perf_counter(), time.process_time()
    reader, at = LogReader(lambda: _opened(home)), Head()
    while entries := reader.drafts(at):
        at = head_after(entries, at)
    reader.close()
    reading, busy_reading = time.perf_counter() - started, time.process_time() - busy
    worker = Follower(Place(home, LogReader(lambda: _opened(home)))).worker("tiles")
    started, busy = time.perf_counter(), time.process_time()
    worker.catch_up()
    taken, busy_in_all = time.perf_counter() - started, time.process_time() - busy
    worker.close()
    label = f"backfill of {commits:,} commits"
    return [
        Row(label, taken, "s", 30 * commits / 1_000_000),
        Row(f"{label}, processor time", busy_in_all, "s", 30 * commits / 1_000_000),
        Row(f"{label}, of which the log is read and verified", reading, "s"),
        Row("the tree, processor time a commit", max(busy_in_all - busy_reading, 0) / commits * 1e6, "µs", 5),
    ]


def _checkpoints(home: Path, commits: int) -> list[Row]:
    key, taken, busy = SignerKey.generate("memory.example/bench"), [], []
    (home / _VKEY).write_text(f"{key.verifier}\n")
    log = _opened(home)
    worker = Follower(Place(home, LogReader(lambda: _opened(home)))).worker("tiles")
    for number in range(_CHECKPOINTS):
        log.append(seal(log.head(), [note(commits + number)]), expected=log.head())
        worker.catch_up()
        place = read_place(tree_directory(home))
        assert place is not None
        started, processor = time.perf_counter(), time.process_time()
        sign(home, place, [key])
        busy.append(time.process_time() - processor)
        taken.append(time.perf_counter() - started)
    started = time.perf_counter()
    check_opened(home, log, is_shown=lambda known: is_shown(home, log, known))
    opening = time.perf_counter() - started
    worker.close()
    log.close()
    label = f"a checkpoint of {commits:,} commits"
    return [
        Row(f"{label}, processor time", percentile(busy, 50) * 1e3, "ms", 1),
        Row(f"{label}, with two syncs of the disk", percentile(taken, 50) * 1e3, "ms"),
        Row("a log compared with its checkpoint as it is opened", opening * 1e3, "ms"),
    ]


def _proofs(home: Path, commits: int) -> list[Row]:
    """Made one by one, and all of the log verified by who trusts nothing of ours."""
    log, taken, sizes, before = _opened(home), [], [], ""
    for index, entry in enumerate(islice(log.read(Head()), _PROOFS)):
        started = time.perf_counter()
        made = prove_stored(home, entry.commit, index, before)
        taken.append(time.perf_counter() - started)
        sizes.append(len(made.proof))
        before = entry.commit.record_hash
    log.close()
    started = time.perf_counter()
    command = [sys.executable, "-I", "-c", _ALONE, verify_standalone.__file__, "--vkey", str(home / _VKEY), str(home)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    alone = time.perf_counter() - started
    busy, kilobytes = map(float, ran.stderr.split())
    label = f"a proof from {commits:,} commits"
    return [
        Row(label, percentile(taken, 50) * 1e3, "ms", 5),
        Row(f"{label}, its size", max(sizes) / 1024, "KB", 4),
        Row(f"verify_standalone.py, {commits:,} commits", alone, "s", 120 * commits / 1_000_000),
        Row("verify_standalone.py, processor time", busy, "s", 120 * commits / 1_000_000),
        Row("verify_standalone.py, memory at most, whatever the log", kilobytes / 1024, "MB", 64),
    ]
