"""What backups cost: the first, one more with little new, and a restore with its proof."""

from __future__ import annotations

import tempfile
import time
from itertools import count, islice
from pathlib import Path

from bench import Row
from bench.bases import fill, note
from tallystick import app
from tallystick.config import Settings
from tallystick.extensions.backup.encryption import BackupKeys
from tallystick.extensions.backup.object_store import open_object_store
from tallystick.extensions.backup.repository import Repository
from tallystick.extensions.backup.restore import restore
from tallystick.extensions.backup.run import BackupDone, back_up


def run(quick: bool = False) -> list[Row]:
    commits = 20_000 if quick else 1_000_000
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as folder:
        return _measure(Path(folder), commits)


def _measure(folder: Path, commits: int) -> list[Row]:
    base, url = folder / "memory", f"file://{folder}/store"
    notes = (note(number, body_bytes=400) for number in count())
    fill(base, islice(notes, commits))
    first, took = _backed_up(base, url)
    fill(base, islice(notes, commits // 100))
    little, took_little = _backed_up(base, url)
    fill(base, islice(notes, commits // 10))
    more, took_more = _backed_up(base, url)
    started = time.perf_counter()
    restored = restore(
        Repository(open_object_store(url), BackupKeys()), folder / "restored", segment_bytes_max=64 << 20
    )
    seconds = time.perf_counter() - started
    assert sum(each.commits for each in restored.tenants) == commits + commits // 100 + commits // 10
    return [
        Row(f"first backup of {commits:,} commits, verified", took, "s"),
        Row(f"the next with {commits // 100:,} new, to the first", took_little / took, "×"),
        Row(f"the next with {commits // 10:,} new, to the first", took_more / took, "×"),
        Row(f"bytes put for {commits // 100:,} new, to the first", little.new_bytes / first.new_bytes, "×"),
        Row(f"bytes put for {commits // 10:,} new, to the first", more.new_bytes / first.new_bytes, "×"),
        Row("restore of all of it, proven", seconds, "s", target=900),
    ]


def _backed_up(base: Path, url: str) -> tuple[BackupDone, float]:
    started = time.perf_counter()
    done = back_up(app.operation_context(Settings(base=base)), to=url)
    return done, time.perf_counter() - started
