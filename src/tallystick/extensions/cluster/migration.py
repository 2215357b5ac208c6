"""A migration: one tenant's log from files into a stream, from one stream to another, or back to files.

No server of the base has it open meanwhile. Raises StorageRefused where a stream does not answer, InvalidArgument
for one that cannot be trusted, Conflict for a target that holds something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import msgspec

from tallystick.errors import Conflict
from tallystick.extensions.cluster.client import Client, NoAnswer
from tallystick.extensions.cluster.copy import Copy, machine_id, mark_copy, unmark_copy
from tallystick.extensions.cluster.membership import Place
from tallystick.extensions.cluster.moving import check_same, end_in_stream, send
from tallystick.extensions.cluster.stream import Refused, Stream, unreachable
from tallystick.log import Head
from tallystick.log.files import FilesLog

CONNECT_SECONDS = 10.0
_CLAIM_SECONDS = 30.0

Progress = Callable[[str, int, int], None]
"""Called with what is being done, the bytes done so far and the bytes there are."""


class Moved(msgspec.Struct, frozen=True):
    head: Head
    resumed_at: int
    """The position up to which an earlier try had come; 0 where there was none."""


def from_files(target: Place, tenant: str, progress: Progress) -> Moved:
    with connected(target) as stream, closing(FilesLog(_system(target, tenant))) as log, _claimed(log):
        return _sent(log, stream, target, tenant, progress)


def between(source: Place, target: Place, tenant: str, progress: Progress) -> Moved:
    # The new one first: what is wrong with it must be known before the old one is closed.
    with connected(target) as stream, _ended(source, tenant, f"the stream '{stream.name}'") as log:
        return _sent(log, stream, target, tenant, progress)


def to_files(source: Place, tenant: str, progress: Progress) -> Moved:
    with _ended(source, tenant, "files") as log:
        head = log.sync(Head())
        progress("syncing", head.end, head.end)
        unmark_copy(_system(source, tenant))
        return Moved(head, 0)


@contextmanager
def connected(place: Place, *, create: bool = True) -> Iterator[Stream]:
    """The stream, without a follower; where there is none it is made, unless it is not to be."""
    client = Client(place.servers, name="tallystick")
    try:
        stream = Stream(client, place.stream)
        if not client.wait(CONNECT_SECONDS):
            raise unreachable(place.stream, client.problem)
        with _answering(stream):
            stream.open(place.trust, create=create)
        yield stream
    finally:
        client.close()


def _sent(log: FilesLog, stream: Stream, target: Place, tenant: str, progress: Progress) -> Moved:
    with _answering(stream):
        machine = machine_id(target.base)
        resumed = send(log, stream, tenant, machine=machine, progress=partial(progress, "sending"))
        check_same(log, stream, tenant, partial(progress, "comparing"))
    head = log.head()
    # Last of all: until here the files are what they were, and another try goes on.
    mark_copy(_system(target, tenant), memory=stream.memory, stream=stream.name, head=head)
    return Moved(head, resumed)


@contextmanager
def _ended(source: Place, tenant: str, to: str) -> Iterator[FilesLog]:
    """The copy of a log that ends in its stream from now on."""
    system = _system(source, tenant)
    with connected(source) as stream:
        size = source.segment_bytes_max
        copy = Copy(system, tenant, memory=stream.memory, stream=stream.name, segment_bytes_max=size)
        with closing(copy), _claimed(copy.log):
            with _answering(stream):
                end_in_stream(stream, copy, to)
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
def _answering(stream: Stream) -> Iterator[None]:
    try:
        yield
    except (NoAnswer, Refused) as error:
        raise unreachable(stream.name, error) from None


def _system(place: Place, tenant: str) -> Path:
    system = place.system_of(tenant)
    assert system is not None, "the place is that of the tenant"
    return system
