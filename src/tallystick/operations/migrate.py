"""Migration: a memory from files into a stream of NATS, from one stream to another, or back to files.

The servers of the base are stopped meanwhile; other machines find out by what the old stream says.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

import msgspec

from tallystick.config import Settings
from tallystick.errors import Conflict, InvalidArgument
from tallystick.log.files import FilesLog
from tallystick.log.jetstream.client import Client, NoAnswer
from tallystick.log.jetstream.copy import Copy, machine_id, mark_copy, unmark_copy
from tallystick.log.jetstream.moving import check_same, end_in_stream, send
from tallystick.log.jetstream.places import place_of
from tallystick.log.jetstream.stream import Refused, Stream, unreachable
from tallystick.log.unopened import is_copy
from tallystick.operations import OperationContext, Progress, no_progress
from tallystick.operations.tenants import require_unused, tenants_of

FILE = "file"
CONNECT_SECONDS = 10.0
_CLAIM_SECONDS = 30.0


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
    if settings.tenant not in tenants_of(settings):
        raise InvalidArgument(f"there is no memory of '{settings.tenant}' here", code="NO_MEMORY")
    require_unused(settings)
    source = settings if is_copy(settings.system) else None
    if source is not None and not source.log_url:
        raise InvalidArgument(
            "this is a copy of a stream, and log_url does not say where that is", code="LOG_IS_A_COPY"
        )
    if to == FILE:
        if source is None:
            raise InvalidArgument("this memory is in files already", code="NOTHING_TO_DO")
        return _to_files(source, progress)
    target = msgspec.structs.replace(settings, log_url=to, log_stream=stream or settings.log_stream, log_streams=())
    if source is None:
        return _from_files(target, progress)
    return _between(source, target, progress)


def _from_files(target: Settings, progress: Progress) -> Migrated:
    with _connected(target) as stream, closing(FilesLog(target.system)) as log, _claimed(log):
        return _sent(log, stream, target, "files", progress)


def _between(source: Settings, target: Settings, progress: Progress) -> Migrated:
    old = place_of(source).stream
    if (old, source.log_url) == (target.log_stream, target.log_url):
        raise InvalidArgument(f"'{source.tenant}' is in the stream '{old}' already", code="NOTHING_TO_DO")
    # The new one first: what is wrong with it must be known before the old one is closed.
    with _connected(target) as stream, _ended(source, f"the stream '{stream.name}'") as log:
        return _sent(log, stream, target, f"the stream '{old}'", progress)


def _to_files(source: Settings, progress: Progress) -> Migrated:
    with _ended(source, "files") as log:
        head = log.sync(msgspec.structs.replace(log.head(), end=0))
        progress("syncing", head.end, head.end)
        unmark_copy(source.system)
        old = place_of(source).stream
        return Migrated(source.tenant, f"the stream '{old}'", "files", head.count, head.lamport, head.end, 0)


def _sent(log: FilesLog, stream: Stream, target: Settings, source: str, progress: Progress) -> Migrated:
    machine = machine_id(target.base)
    try:
        resumed = send(log, stream, target.tenant, machine=machine, progress=partial(progress, "sending"))
        check_same(log, stream, target.tenant, partial(progress, "comparing"))
    except (NoAnswer, Refused) as error:
        raise unreachable(stream.name, error) from None
    head = log.head()
    # Last of all: until here the files are what they were, and another try goes on.
    mark_copy(target.system, memory=stream.memory, stream=stream.name, head=head)
    return Migrated(target.tenant, source, f"the stream '{stream.name}'", head.count, head.lamport, head.end, resumed)


@contextmanager
def _ended(source: Settings, to: str) -> Iterator[FilesLog]:
    """The copy of a log that ends in its stream from now on."""
    with _connected(source) as stream:
        copy = Copy(
            source.system,
            source.tenant,
            memory=stream.memory,
            stream=stream.name,
            segment_bytes_max=source.segment_bytes_max,
        )
        with closing(copy), _claimed(copy.log):
            try:
                end_in_stream(stream, copy, to)
            except (NoAnswer, Refused) as error:
                raise unreachable(stream.name, error) from None
            yield copy.log


@contextmanager
def _claimed(log: FilesLog) -> Iterator[None]:
    if not log.claim(timeout_seconds=_CLAIM_SECONDS):
        raise Conflict("another process holds the lock of this memory", code="TENANT_IN_USE", hint="stop its servers")
    try:
        yield
    finally:
        log.release()


@contextmanager
def _connected(settings: Settings) -> Iterator[Stream]:
    place = place_of(settings)
    client = Client(place.servers, name="tallystick migrate")
    try:
        stream = Stream(client, place.stream)
        if not client.wait(CONNECT_SECONDS):
            raise unreachable(place.stream, client.problem)
        try:
            stream.open(place.trust)
        except (NoAnswer, Refused) as error:
            raise unreachable(place.stream, error) from None
        yield stream
    finally:
        client.close()


def migrate_all(
    context: OperationContext, to: str, *, stream: str | None = None, progress: Progress = no_progress
) -> list[Migrated]:
    """Every tenant of the base, one after the other; one that is there already is passed over."""
    found: list[Migrated] = []
    for tenant in tenants_of(context.settings):
        own = context.for_tenant(tenant)
        if is_copy(own.settings.system) is (to == FILE) or stream is not None:
            found.append(migrate(own, to, stream=stream, progress=progress))
    return found
