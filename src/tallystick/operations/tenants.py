"""The tenants of a base: which there are, what each holds, and the deletion of one."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import msgspec

from tallystick.audit import TenantDeleted, encode
from tallystick.clock import to_text, wall_clock
from tallystick.config import DEFAULT_TENANT, Settings
from tallystick.engine.tenants import is_tenant
from tallystick.errors import Conflict, Corrupt, InvalidArgument, NotFound
from tallystick.log import Head, Log
from tallystick.log.replica import open_copy, require_writable
from tallystick.log.unopened import is_copy, unopened
from tallystick.operations import OperationContext
from tallystick.operations.copies import Backup, known_backups
from tallystick.projections.registry import registered

_DELETING = ".deleting-"
"""No tenant can be called so."""


class Tenant(msgspec.Struct, frozen=True):
    tenant: str
    home: str
    commits: int
    position: int
    log_bytes: int
    bytes: int
    """Everything below its home."""
    files: int
    open_in: list[int]
    """Processes that have something of it open, as far as this user may see; empty where the system cannot tell."""


class Deletion(msgspec.Struct, frozen=True):
    """Nothing of the tenant is left below the base."""

    at: str
    by: str
    tenant: str
    reason: str
    commits: int
    position: int
    record_hash: str
    bytes: int
    files: int
    backups_left: list[Backup]
    """Exports that were made of it, and still hold everything."""
    database_left: str | None
    """A `graph.db` that the settings place elsewhere."""
    graph_left: str | None = None
    """The copies that could not be deleted in another program, such as the engine at `cypher_url`."""


def tenants_of(settings: Settings) -> list[str]:
    """Those that have a log, from the directories of the base."""
    names = [name for name in _directories(settings) if _is_home(name)]
    each = (msgspec.structs.replace(settings, tenant=name) for name in (DEFAULT_TENANT, *names))
    return [one.tenant for one in each if one.has_log]


def strays_of(settings: Settings) -> list[str]:
    """What lies where the homes of tenants do, and can be none: a copy under another name, or what a deletion left."""
    return [name for name in _directories(settings) if not _is_home(name)]


def _directories(settings: Settings) -> list[str]:
    others = settings.base / "tenants"
    return sorted(entry.name for entry in others.iterdir()) if others.is_dir() else []


def _is_home(name: str) -> bool:
    # The default tenant lives in the base itself.
    return is_tenant(name) and name != DEFAULT_TENANT


def contexts_of(context: OperationContext) -> list[OperationContext]:
    """One for each tenant of the base."""
    return [context.for_tenant(name) for name in tenants_of(context.settings)]


@contextmanager
def naming_tenant(settings: Settings) -> Iterator[None]:
    """For who goes through all of them: the logs have the same file names, and `verify` looks at one tenant."""
    try:
        yield
    except Corrupt as error:
        error.hint = (error.hint or "").replace("tallystick verify", f"tallystick verify --tenant {settings.tenant}")
        raise error.at(f"tenant '{settings.tenant}'") from None


def describe(context: OperationContext) -> Tenant:
    """Raises NotFound where there is no such tenant."""
    settings = context.settings
    if not settings.has_log:
        known = ", ".join(tenants_of(settings)) or "none yet"
        raise NotFound(f"there is no tenant '{settings.tenant}'", code="NO_MEMORY", hint=f"the tenants are: {known}")
    with unopened(settings.system) as log:
        head = log.head
    sizes = list(_sizes(settings))
    return Tenant(
        tenant=settings.tenant,
        home=str(settings.home),
        commits=head.count,
        position=head.lamport,
        log_bytes=head.end,
        bytes=sum(sizes),
        files=len(sizes),
        open_in=_processes(settings.home),
    )


def delete(context: OperationContext, *, reason: str) -> Deletion:
    """Erases all that is below the tenant's home, whatever the policy says.

    Refused while another process has it open: what that one acknowledged afterwards would be lost. The home is
    renamed under the log's lock before anything is removed, so a crash leaves it whole, or unreachable under a name
    that no tenant can have; the next deletion removes that too.
    """
    settings = context.settings
    if settings.home == settings.base:
        raise InvalidArgument(
            f"'{settings.tenant}' is the base itself, and its audit log tells of the others",
            code="TENANT_IS_BASE",
            hint=f"to be rid of everything, stop the servers and remove {settings.base}",
        )
    if settings.log_url and is_copy(settings.system):
        raise InvalidArgument(
            f"'{settings.tenant}' is kept by NATS for several machines, and would come back from there",
            code="TENANT_IN_STREAM",
            hint="'tallystick migrate --to file' takes it out of the stream; then it can be deleted here",
        )
    found = describe(context)
    require_writable(settings.base)
    _require_no_links(settings)
    require_unused(settings)
    kept = known_backups(settings)
    graph_left = _drop_graphs(settings)
    head, aside = _set_aside(settings, context.open_log())
    # Not before what it ends: a clock that was wrong may have been ahead, and copies tell its logs apart by this.
    at = max(to_text(wall_clock()), head.timestamp)
    event = TenantDeleted(
        timestamp=at,
        tenant=settings.tenant,
        actor=context.principal.actor,
        reason=reason,
        commits=head.count,
        position=head.lamport,
        log_hash=head.record_hash,
    )
    try:
        with closing(context.for_tenant(DEFAULT_TENANT).open_audit()) as audit:
            audit.append([encode(event)])
    except BaseException:
        # What nobody could write down is not done, and not left for the next deletion to do unseen.
        with suppress(OSError):
            os.rename(aside, settings.home)
        raise
    _remove_set_aside(settings)
    return Deletion(
        at=at,
        by=context.principal.actor,
        tenant=settings.tenant,
        reason=reason,
        commits=head.count,
        position=head.lamport,
        record_hash=head.record_hash,
        bytes=found.bytes,
        files=found.files,
        backups_left=kept,
        database_left=None if context.database is None or not context.database.exists() else str(context.database),
        graph_left=graph_left,
    )


def remove_copy(settings: Settings) -> str | None:
    """Of a tenant that was deleted in the memory which this base follows; that one's audit log says by whom. Raises
    Conflict as `delete` does. Returns what could not be deleted in another
    program."""
    _require_no_links(settings)
    require_unused(settings)
    graph_left = _drop_graphs(settings)
    _set_aside(settings, open_copy(settings.system, segment_bytes_max=settings.segment_bytes_max))
    _remove_set_aside(settings)
    return graph_left


def _drop_graphs(settings: Settings) -> str | None:
    left = [problem for each in registered().values() if each.drop is not None and (problem := each.drop(settings))]
    return "; ".join(left) or None


def _remove_set_aside(settings: Settings) -> None:
    """Also what a deletion left that died."""
    for left in settings.home.parent.glob(f"{_DELETING}*"):
        shutil.rmtree(left)


def _set_aside(settings: Settings, log: Log) -> tuple[Head, Path]:
    """Where it ended, and under which name its home is now, which nobody can open."""
    with closing(log):
        if not log.claim(timeout_seconds=30):
            raise Conflict("another process holds the lock of this tenant", code="TENANT_IN_USE", hint=_STOP)
        try:
            head = log.head()
            aside = settings.home.with_name(f"{_DELETING}{settings.tenant}-{secrets.token_hex(4)}")
            os.rename(settings.home, aside)
            # Whoever opened it between the first look and the rename is seen now; nobody can any more.
            if users := _processes(aside):
                os.rename(aside, settings.home)
                _require_unused(settings.tenant, users)
        finally:
            log.release()
    return head, aside


def _require_no_links(settings: Settings) -> None:
    """To remove a link is not to erase what it leads to, and the audit log would say that it was."""
    for path in (settings.home, *settings.home.rglob("*")):
        if path.is_symlink():
            raise Conflict(
                f"{path} is a link, and what it leads to would not be erased",
                code="TENANT_HAS_LINKS",
                hint="put what it leads to in its place, then delete the tenant; nothing was erased",
            )


_STOP = "stop the servers that serve it, or wait until it is closed after a while without a use"


def require_unused(settings: Settings) -> None:
    """Raises Conflict while another process has the tenant open, as far as this user may see."""
    _require_unused(settings.tenant, _processes(settings.home))


def _require_unused(tenant: str, processes: list[int]) -> None:
    if processes:
        who = ", ".join(map(str, processes))
        raise Conflict(f"tenant '{tenant}' is open in process {who}", code="TENANT_IN_USE", hint=_STOP)


def _sizes(settings: Settings) -> Iterator[int]:
    others = settings.home / "tenants"
    for path in settings.home.rglob("*"):
        with suppress(OSError):
            if path.is_file() and not path.is_symlink() and others not in path.parents:
                yield path.stat().st_size


def _processes(home: Path) -> list[int]:
    """Other processes that have a file below it open. Known on Linux only, and only of processes one may look at."""
    prefix = f"{home.resolve()}/"
    others = f"{prefix}tenants/"
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            target = os.readlink(link)
            if target.startswith(prefix) and not target.startswith(others):
                found.add(int(link.parts[2]))
    return sorted(found - {os.getpid()})
