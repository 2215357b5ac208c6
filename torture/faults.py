"""Disks that fail, fill up, or may not be written: by strace's fault injection, limits and small file systems."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from torture import disks, journal
from torture.arena import Arena, Tally, needs
from torture.kills import examine
from torture.writer import Plan

_CALLS = {
    # What fails, and with which errors it may.
    "write": ("EIO", "ENOSPC", "EDQUOT"),
    "pwrite64": ("EIO", "ENOSPC", "EDQUOT"),
    "fdatasync": ("EIO", "ENOSPC", "EDQUOT"),
    "fsync": ("EIO", "ENOSPC", "EDQUOT"),
    "rename": ("EIO", "ENOSPC", "EDQUOT"),
    "ftruncate": ("EIO", "ENOSPC"),
    "unlink": ("EIO",),
    "openat": ("EIO", "ENOSPC", "EDQUOT", "EMFILE"),
}
_IN_COMMITS = ("write", "pwrite64", "fdatasync")
"""What every commit does; the other calls come with redactions."""
_TOUCHED = (
    "log", "log/00000000000000000001.jsonl", "head", "head.new", "redaction.new", "redaction.pending", "registry.json",
    "views.db", "views.db-wal", "text/text.db", "text/text.db-wal", "audit/00000000000000000001.jsonl", "audit/head",
    "snapshots",
)  # fmt: skip
_LOG = ("log", "log/00000000000000000001.jsonl", "head", "redaction.new", "redaction.pending", "")


def injected(arena: Arena, tally: Tally) -> None:
    """A call fails once, again and again, or from some moment on, in the log or in what lies beside it."""
    needs("strace")
    for place in arena.rounds(tally):
        call = arena.random.choice(list(_CALLS))
        error = arena.random.choice(_CALLS[call])
        when = arena.random.choice(("{}", "{}", "{}+", "{}+7")).format(arena.random.randint(1, 12))
        _under_strace(arena, place, tally, f"{call}:error={error}:when={when}", call)
        examine(place, tally)


def killed_in_call(arena: Arena, tally: Tally) -> None:
    """SIGKILL in the middle of a call, not somewhere between two."""
    needs("strace")
    for place in arena.rounds(tally):
        call = arena.random.choice(["write", "pwrite64", "fdatasync", "fsync", "rename", "ftruncate", "unlink"])
        _under_strace(arena, place, tally, f"{call}:signal=SIGKILL:when={arena.random.randint(1, 12)}", call)
        examine(place, tally)


def _under_strace(arena: Arena, place: Path, tally: Tally, inject: str, call: str) -> None:
    base, output = place / "base", place / "strace.out"
    chosen = arena.random.choice((_LOG, _LOG, _TOUCHED))
    paths = [option for name in chosen for option in ("-P", str(base / "_system" / name).rstrip("/"))]
    wrap = ["strace", "-f", "-qq", "-o", str(output), *paths, "-e", f"trace={call}", "-e", f"inject={inject}"]
    job = arena.random.choice(("commits", "redactions")) if call in _IN_COMMITS else "redactions"
    plan = Plan(str(base), str(place / "life0.journal"), "life0", job, arena.seed, 4)
    life = arena.start(plan, wrap=wrap)
    if arena.watch(Path(plan.journal), life, notes=2):
        time.sleep(arena.random.uniform(0.2, 1.0))
    killed = life.is_over() and life.wait() == -signal.SIGKILL
    life.kill_children()
    life.kill()
    tally.faults += killed + (output.read_text(errors="replace").count("(INJECTED)") if output.exists() else 0)
    _goes_on(arena, place, tally, base)


def _goes_on(arena: Arena, place: Path, tally: Tally, base: Path, name: str = "after") -> None:
    """Once the fault is gone, a new process writes again."""
    after = Plan(str(base), str(place / f"{name}.journal"), name, "commits", arena.seed, 2)
    life = arena.start(after)
    if not arena.watch(Path(after.journal), life, notes=5):
        tally.wrong += 1
        said = Path(after.journal).with_suffix(".stderr").read_text(errors="replace").strip().splitlines() or [
            "nothing"
        ]
        tally.problems.append(f"nothing can be written after the fault: {said[-1]}")
    life.kill()


def limited(arena: Arena, tally: Tally) -> None:
    """RLIMIT_FSIZE: a write comes up short, the next one fails."""
    needs("prlimit")
    for place in arena.rounds(tally):
        job = arena.random.choice(("commits", "mixed"))
        plan = Plan(str(place / "base"), str(place / "life0.journal"), "life0", job, arena.seed, 4)
        life = arena.start(plan, wrap=["prlimit", f"--fsize={arena.random.randint(5_000, 120_000)}"])
        _until_refused(arena, Path(plan.journal), tally)
        life.kill()
        _goes_on(arena, place, tally, place / "base")
        examine(place, tally)


def full(arena: Arena, tally: Tally) -> None:
    """A small disk fills up under a writer, is freed again, and the same process goes on."""
    for place in arena.rounds(tally):
        size = arena.random.randint(600, 2_000)
        with disks.tmpfs(arena, place, kilobytes=size) as disk:
            job = arena.random.choice(("commits", "pages", "redactions", "mixed"))
            plan = Plan(str(disk / "base"), str(place / "life0.journal"), "life0", job, arena.seed, 4)
            life = arena.start(plan)
            _until_refused(arena, Path(plan.journal), tally)
            before = journal.told(Path(plan.journal))
            disks.remount(disk, "size=64m")
            deadline = time.monotonic() + 10
            while journal.told(Path(plan.journal)) <= before and time.monotonic() < deadline and not life.is_over():
                time.sleep(0.05)
            if journal.told(Path(plan.journal)) <= before:
                tally.wrong += 1
                tally.problems.append(f"the writer did not go on when there was room again (job {job})")
            life.kill()
            examine(place, tally, base=disk / "base")


def _until_refused(arena: Arena, path: Path, tally: Tally) -> None:
    deadline = time.monotonic() + 12
    while time.monotonic() < deadline:
        refused = sum(note.kind == "refused" for note in journal.read(path))
        if refused >= 3:
            tally.faults += refused
            return
        time.sleep(0.02)


def read_only(arena: Arena, tally: Tally) -> None:
    """Writes are refused while the disk is read-only, reads are not; then everything goes on."""
    for place in arena.rounds(tally):
        with disks.tmpfs(arena, place, kilobytes=64_000) as disk:
            base = disk / "base"
            first = Plan(str(base), str(place / "life0.journal"), "life0", "mixed", arena.seed, 4)
            life = arena.start(first)
            arena.watch(Path(first.journal), life, notes=50)
            life.kill()
            disks.remount(disk, "ro")
            second = Plan(str(base), str(place / "life1.journal"), "life1", "commits", arena.seed, 2)
            life = arena.start(second)
            arena.watch(Path(second.journal), life, notes=4)
            refusals = [note for note in journal.read(Path(second.journal)) if note.kind == "refused"]
            tally.faults += len(refusals)
            if not refusals or journal.told(Path(second.journal)):
                tally.wrong += 1
                tally.problems.append("a read-only disk is not served: " + _words(second))
            life.kill()
            disks.remount(disk, "rw")
            _goes_on(arena, place, tally, base)
            examine(place, tally, base=base)


def _words(plan: Plan) -> str:
    path = Path(plan.journal).with_suffix(".stderr")
    return (path.read_text(errors="replace").strip().splitlines() or ["nothing was said"])[-1]
