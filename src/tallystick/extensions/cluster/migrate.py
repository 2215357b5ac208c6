"""Migration: a memory from files into a stream of NATS, from one stream to another, or back to files.

The servers of the base are stopped meanwhile; other machines find out by what the old stream says.
"""

from __future__ import annotations

import msgspec

from tallystick.config import Settings
from tallystick.errors import InvalidArgument, NotFound
from tallystick.extensions.cluster.migration import Moved, between, from_files, to_files
from tallystick.extensions.cluster.places import place_of
from tallystick.log.unopened import is_copy
from tallystick.operations import OperationContext, Progress, no_progress
from tallystick.operations.tenants import require_unused, tenants_of

FILE = "file"


class Migrated(msgspec.Struct, frozen=True):
    """Verified: what is there is what was here."""

    tenant: str
    source: str
    target: str
    commits: int
    position: int
    bytes: int
    resumed_at: int
    """The position up to which an earlier try had come; 0 where there was none."""


def migrate(
    context: OperationContext, to: str, *, stream: str | None = None, progress: Progress = no_progress
) -> Migrated:
    """Of the tenant of the context. Raises Conflict where the target is not empty, or a server has the tenant open."""
    settings = context.settings
    tenant = settings.tenant
    if tenant not in tenants_of(settings):
        raise InvalidArgument(f"there is no memory of '{tenant}' here", code="NO_MEMORY")
    require_unused(settings)
    old = _source(settings)
    if to == FILE:
        if old is None:
            raise InvalidArgument("this memory is in files already", code="NOTHING_TO_DO")
        return _told(tenant, old, "files", to_files(place_of(settings), tenant, progress))
    target = place_of(
        msgspec.structs.replace(settings, log_url=to, log_stream=stream or settings.log_stream, log_streams=())
    )
    new = f"the stream '{target.stream}'"
    if old is None:
        return _told(tenant, "files", new, from_files(target, tenant, progress))
    source = place_of(settings)
    if (source.stream, source.servers) == (target.stream, target.servers):
        raise InvalidArgument(f"'{tenant}' is in {new} already", code="NOTHING_TO_DO")
    return _told(tenant, old, new, between(source, target, tenant, progress))


def migrate_all(
    context: OperationContext, to: str, *, stream: str | None = None, progress: Progress = no_progress
) -> list[Migrated]:
    """Every tenant of the base, one after the other; one that is there already is passed over. Raises NotFound where
    there is none."""
    found: list[Migrated] = []
    tenants = tenants_of(context.settings)
    if not tenants:
        raise NotFound(
            f"there is no memory in {context.settings.base}", code="NO_MEMORY", hint="name another place with --base"
        )
    for tenant in tenants:
        own = context.for_tenant(tenant)
        if is_copy(own.settings.system) is (to == FILE) or stream is not None:
            found.append(migrate(own, to, stream=stream, progress=progress))
    return found


def _source(settings: Settings) -> str | None:
    """The stream that this is a copy of; None where it is a log of its own."""
    if not is_copy(settings.system):
        return None
    if not settings.log_url:
        raise InvalidArgument(
            "this is a copy of a stream, and log_url does not say where that is", code="LOG_IS_A_COPY"
        )
    return f"the stream '{place_of(settings).stream}'"


def _told(tenant: str, source: str, target: str, moved: Moved) -> Migrated:
    head = moved.head
    return Migrated(tenant, source, target, head.count, head.lamport, head.end, moved.resumed_at)
