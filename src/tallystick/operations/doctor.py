"""The doctor: what a memory looks like from outside, without opening or changing it."""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from tallystick import __version__
from tallystick.audit.proof import verify_audit
from tallystick.clock import to_text, wall_clock
from tallystick.commits import chain
from tallystick.config import CONFIRM_HINT, FILE_NAME, Settings, misspelt_variables, why_this_base
from tallystick.errors import Corrupt, StorageRefused
from tallystick.extension import installed
from tallystick.log import Head, tree_directory
from tallystick.log.proof import prove
from tallystick.log.replica import read_replica
from tallystick.log.unopened import Unopened, unopened
from tallystick.operations import counted, shown_bytes
from tallystick.operations.at_rest import encryption_of
from tallystick.operations.copies import backups_kept
from tallystick.operations.orphans import find_orphans
from tallystick.operations.tenants import strays_of
from tallystick.operations.trust_settings import ignored_settings
from tallystick.system.file_locks import is_held

Status = Literal["good", "odd", "bad"]
_AHEAD_MS = 300_000
_AHEAD = "set the clock of this machine; if another clock was wrong, commits bear that time until it has come"
_SPACE_BYTES_MIN = 256 << 20
_PROVEN_BYTES_MAX = 32 << 20
"""A log as large as this is read within seconds; of a larger one only the end is looked at."""


class Finding(msgspec.Struct, frozen=True):
    what: str
    found: str
    status: Status = "good"
    advice: str | None = None


Part = Callable[[Settings], Iterable[Finding]]


def examine(settings: Settings) -> list[Finding]:
    found = [Finding("version", f"tallystick {__version__}, Python {platform.python_version()}"), *_base(settings)]
    for fault in (*installed().faults, *installed().broken()):
        advice = "remove the package that brings it, or install a version that fits"
        found.append(Finding("extension", f"{fault.name} is left out: {fault.reason}", "odd", advice))
    parts = _PARTS if settings.has_log else (_no_log,)
    return [
        *found,
        *(finding for part in (*parts, *installed().load("checks")) for finding in _checked(part, settings)),
    ]


def _checked(check: Part, settings: Settings) -> list[Finding]:
    name = check.__name__.strip("_").removeprefix("check_")
    findings: list[Finding] = []
    try:
        findings.extend(check(settings))
    except Corrupt as error:
        findings.append(Finding(name, error.message, "bad", error.hint or RESTORE))
    except StorageRefused as error:
        findings.append(Finding(name, f"not looked at: {error.message}", "odd", error.hint))
    return findings


def _no_log(settings: Settings) -> Iterator[Finding]:
    from tallystick.projections.registry import check_not_removed

    try:
        check_not_removed(settings.home)
    except Corrupt as error:
        yield Finding("log", error.message, "bad", error.hint)
    else:
        yield Finding("log", "none yet", "odd", "the first write begins it; is --base the one you meant?")


RESTORE = "run 'tallystick verify', then follow docs/runbooks/corrupt-log.md; do not delete anything"


def _base(settings: Settings) -> Iterator[Finding]:
    yield Finding("base", f"{settings.base} ({why_this_base(settings.base)})")
    if settings.home != settings.base:
        yield Finding("tenant", f"{settings.tenant} in {settings.home}")
    if strays := strays_of(settings):
        advice = "no tenant is called so, and nothing reads it: look at it, then move it out of the base or remove it"
        yield Finding("tenants", f"no tenants: {', '.join(strays)} in {settings.base / 'tenants'}", "odd", advice)
    configuration = settings.base / FILE_NAME
    yield Finding("settings", str(configuration) if configuration.exists() else "defaults and environment")
    for line in ignored_settings(settings.base):
        yield Finding("settings", line, "odd", CONFIRM_HINT)
    for name, meant in misspelt_variables(os.environ).items():
        yield Finding("settings", f"there is no setting for the variable {name}", "odd", f"did you mean {meant}?")
    nearest = next(path for path in (settings.home, *settings.home.parents) if path.exists())
    if not os.access(nearest, os.W_OK):
        yield Finding("writable", f"no: {nearest}", "bad", "make it writable, or choose another place with --base")
    free = shutil.disk_usage(nearest).free
    if free < _SPACE_BYTES_MIN:
        yield Finding("free space", shown_bytes(free), "odd", "free some: a full disk refuses writes, reads go on")
    else:
        yield Finding("free space", shown_bytes(free))
    yield _at_rest(nearest)
    yield _retention(settings)


def _at_rest(place: Path) -> Finding:
    found = encryption_of(place)
    if found is None:
        return Finding("encryption at rest", "cannot be told here; a cloud's volume may be encrypted by the cloud")
    return Finding("encryption at rest", found or "none that this machine knows of; a cloud's volume may have its own")


def _retention(settings: Settings) -> Finding:
    """What ends by itself, and when; the log never does."""
    days = settings.audit_retention_days
    then = f"moved to {settings.audit_archive}" if settings.audit_archive else "removed"
    audit = f"audit {counted(days, 'day')}, then {then}" if days else "audit for ever"
    kept = backups_kept(settings)
    return Finding("retention", "; ".join(["log for ever", audit, *([f"backups {kept}"] if kept else [])]))


def _log(settings: Settings) -> Iterator[Finding]:
    with unopened(settings.system) as log:
        segments = log.segments
        yield Finding(
            "log", f"{counted(len(segments.paths), 'segment')}, {shown_bytes(segments.size)}, in {segments.directory}"
        )
        yield from _position(settings, log)


def _disk(settings: Settings) -> Iterator[Finding]:
    """Where the room goes. Whatever is not the log, the audit log and blobs can be built again from the log."""
    home, system = settings.home, settings.system
    places = {
        "log": [system / "log"],
        "graph.db": [*home.glob("graph.db*")],
        "text index": [system / "text"],
        "snapshots": [system / "snapshots"],
        "contents": [home / "_content", *system.glob("views.db*")],
        "vectors": [*system.glob("vectors.db*")],
        "tiles": [tree_directory(home)],
        "audit log": [system / "audit"],
    }
    sizes = {name: sum(map(_size_of, paths)) for name, paths in places.items()}
    total = sum(sizes.values())
    shares = [f"{name} {shown_bytes(size)} ({size / total:.0%})" for name, size in sizes.items() if size]
    yield Finding("disk", f"{shown_bytes(total)}: {', '.join(shares)}" if total else "nothing yet")


def _size_of(path: Path) -> int:
    """What vanishes meanwhile takes no room."""
    size = 0
    for each in (path, *path.rglob("*")):
        with suppress(OSError):
            size += each.stat().st_size if each.is_file() and not each.is_symlink() else 0
    return size


def _position(settings: Settings, log: Unopened) -> Iterator[Finding]:
    size, head = log.segments.size, log.kept
    if head is None:
        if size:
            yield Finding(
                "position", "not kept beside the log", "bad", "the next start reads all of it; verify it first"
            )
        else:
            yield Finding("position", "0")
        return
    yield Finding("position", f"{head.lamport} ({counted(head.count, 'commit')}), kept in {settings.system / 'head'}")
    if size < head.end:
        yield Finding("end of the log", f"{shown_bytes(head.end - size)} are missing", "bad", RESTORE)
        return
    if size > head.end:
        advice = "a writer is busy, or died: the next start settles it"
        yield Finding("end of the log", f"{shown_bytes(size - head.end)} not yet acknowledged", "odd", advice)
    yield from _last_commit(log.segments.line_before(head.end), head)


def _last_commit(line: bytes, head: Head) -> Iterator[Finding]:
    if not line:
        return
    commit = chain.decode(line)
    if commit.record_hash != head.record_hash:
        yield Finding("last commit", f"{commit.record_hash[:12]} is not the acknowledged one", "bad", RESTORE)
        return
    said = f"{commit.timestamp} by {commit.actor}: {commit.operation}, {commit.commit_id[:12]}"
    if commit.timestamp > to_text(wall_clock() + _AHEAD_MS):
        yield Finding("last commit", f"{said}; that is in the future", "odd", _AHEAD)
    else:
        yield Finding("last commit", said)


def _lines(settings: Settings) -> Iterator[Finding]:
    """What `verify` would refuse must not look sound here."""
    from tallystick.operations.rule_scan import scan_log

    with unopened(settings.system) as log:
        size = log.segments.size
    if size > _PROVEN_BYTES_MAX:
        found = f"only the last one was read, of {shown_bytes(size)}"
        yield Finding("lines", found, advice="'tallystick verify' reads and proves all of them")
        return
    proof = prove(settings.system, tenant=settings.tenant)
    if proof.problem is None:
        yield Finding("lines", f"all {counted(proof.commits, 'commit')} are what was committed")
        for each in scan_log(settings.system):
            yield Finding("rules", f"'{each.entity}' {each.problem}", "odd", each.advice)
    else:
        place = f"{proof.file}, line {proof.line}: " if proof.file else ""
        yield Finding("lines", f"{place}{proof.problem}", "bad", RESTORE)


def _audit(settings: Settings) -> Iterator[Finding]:
    directory = settings.system / "audit"
    if (size := _size_of(directory)) > _PROVEN_BYTES_MAX:
        yield Finding("audit log", f"not read, {shown_bytes(size)}", advice="'tallystick verify' reads and proves it")
        return
    proof = verify_audit(directory)
    if proof.sound:
        yield Finding("audit log", f"{counted(proof.lines, 'event')}, as they were written")
    else:
        place = f"{proof.file}, line {proof.line}: " if proof.file else ""
        yield Finding("audit log", f"{place}{proof.problem}", "bad", "follow docs/runbooks/corrupt-log.md")


def _torn(settings: Settings) -> Iterator[Finding]:
    pieces = sorted((settings.system / "log").glob("*.torn-*"))
    if pieces:
        size = shown_bytes(sum(piece.stat().st_size for piece in pieces))
        advice = "left by crashes, never acknowledged; look at them if you like, then remove them"
        yield Finding("torn pieces", f"{len(pieces)} ({size}), the last {pieces[-1].name}", "odd", advice)
    else:
        yield Finding("torn pieces", "none")
    if unfinished := sorted(settings.system.glob("importing-*")):
        yield Finding("import", f"{len(unfinished)} not finished", "odd", f"if none is running, remove {unfinished[0]}")
    if (settings.system / "redaction.pending").exists():
        yield Finding("redaction", "one was interrupted", "odd", "the next start finishes it: start a server once")


def _snapshot(settings: Settings) -> Iterator[Finding]:
    folder = settings.system / "snapshots"
    files = sorted(
        (path for path in folder.glob("*.snapshot") if path.is_file()), key=lambda path: path.stat().st_mtime
    )
    if not files:
        yield Finding("snapshot", "none: a start replays the whole log")
        return
    when = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(files[-1].stat().st_mtime))
    yield Finding("snapshot", f"{files[-1].name}, {shown_bytes(files[-1].stat().st_size)}, {when}")


def _lock(settings: Settings) -> Iterator[Finding]:
    path = settings.system / "lock"
    if not path.exists():
        yield Finding("lock", "none yet")
    elif is_held(path):
        yield Finding("lock", f"held by {_holder(path)}: being written at this moment")
    else:
        yield Finding("lock", "free: nobody is writing at this moment")


_REBUILD = "'tallystick verify --views --repair' builds it again from the log"


def _projections(settings: Settings) -> Iterator[Finding]:
    from tallystick.projections.consistency_check import compared_in
    from tallystick.projections.consistency_check.replay import lock_of
    from tallystick.projections.worker import trouble_of

    for each in compared_in(settings.home):
        trouble = trouble_of(lock_of(settings.home, each.name))
        if trouble is not None:
            found = f"stands still at position {trouble.position}: {trouble.problem}"
            yield Finding(each.name, found, "odd" if each.outside else "bad", each.outside or _REBUILD)


_ERASURE = "a server that opens this memory finishes it, once no other program reads these files"


def _erasure(settings: Settings) -> Iterator[Finding]:
    from tallystick.projections.registry import pending_erasures, pending_redactions

    redacted = {each.where for each in pending_redactions(settings.home)}
    for each in pending_erasures(settings.home):
        is_redacted = each.where in redacted
        found = f"{each.where} may still hold what was {'redacted' if is_redacted else 'deleted'}"
        yield Finding("erasure", found, "bad" if is_redacted else "odd", _ERASURE)


def _blobs(settings: Settings) -> Iterator[Finding]:
    found = find_orphans(settings)
    if found:
        size = shown_bytes(sum(found.values()))
        advice = "left by writers that died, named by no commit; 'tallystick doctor --repair' removes them"
        yield Finding("blobs", f"{len(found)} that nothing names ({size}): {', '.join(found)}", "odd", advice)


def _replica(settings: Settings) -> Iterator[Finding]:
    replica = read_replica(settings.base)
    if replica is not None and replica.is_fenced:
        advice = "send clients to the other; docs/runbooks/take-over.md says what to do with this one"
        yield Finding("memory", f"taken over by {replica.source} at {replica.since}: no writes", "bad", advice)
    elif replica is not None:
        yield Finding("copy", f"of {replica.source}, as of {replica.as_of}: for reading")


_PARTS: tuple[Part, ...] = (
    _log, _lines, _audit, _disk, _torn, _snapshot, _lock, _projections, _erasure, _blobs, _replica,
)  # fmt: skip


def _holder(path: Path) -> str:
    """Known on Linux only."""
    inode = path.stat().st_ino
    try:
        rows = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return "another process"
    pids = [row.split()[4] for row in rows if "FLOCK" in row and row.split()[5].endswith(f":{inode}")]
    return f"process {pids[0]}" if pids else "another process"
