"""Following a memory from elsewhere: a base keeps copies of its streams, takes no writes, and can take it over.

To the memory it is one more machine, which adopts, proves that there is a quorum, and is waited for by redactions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager

from tallystick.errors import StorageRefused
from tallystick.extensions.cluster.catching_up import catch_up
from tallystick.extensions.cluster.client import NoAnswer
from tallystick.extensions.cluster.copy import Copy, is_empty, unmark_copy
from tallystick.extensions.cluster.membership import Membership, Place, join, leave
from tallystick.extensions.cluster.messages import end_of
from tallystick.extensions.cluster.migration import connected
from tallystick.extensions.cluster.moving import take_over
from tallystick.extensions.cluster.stream import Refused, Stream, unreachable
from tallystick.log import Head
from tallystick.log.files import FilesLog
from tallystick.log.unopened import is_copy, unopened

_CATCH_UP_SECONDS = 600.0
_PAUSE_SECONDS = 0.02
_CLAIM_SECONDS = 30.0

Progress = Callable[[int, int], None]


@contextmanager
def followed(places: Sequence[Place]) -> Iterator[list[Membership]]:
    """While inside, the copies of these streams are kept up to date. Raises StorageRefused, InvalidArgument."""
    for place in places:
        # A copy is made of what there is: a stream is not made for it.
        with connected(place, create=False):
            pass
    with ExitStack() as stack:
        memberships = []
        for place in places:
            memberships.append(join(place))
            stack.callback(leave, place)
        yield memberships


def wait_until_current(memberships: Sequence[Membership], progress: Progress) -> dict[str, int]:
    """Until the copies have what the streams had when this was called: tenant → its lamport. Raises StorageRefused,
    and Corrupt where they cannot take it."""
    found: dict[str, int] = {}
    for membership in memberships:
        if not membership.wait():
            raise unreachable(membership.stream.name, membership.client.problem)
        try:
            wanted = _ends(membership)
        except (NoAnswer, Refused) as error:
            raise unreachable(membership.stream.name, error) from None
        _wait(membership, wanted, progress)
        found |= wanted
    return found


def take_over_from(places: Sequence[Place], by: str) -> None:
    """End the logs in their streams, and have all of them here. Any number of times. Raises StorageRefused, Conflict
    where another took over."""
    for place in places:
        with connected(place, create=False) as stream:
            try:
                take_over(stream, by)
                for tenant in stream.tenants():
                    _fetch_rest(stream, place, tenant)
            except (NoAnswer, Refused) as error:
                raise unreachable(place.stream, error) from None


def make_own(places: Sequence[Place], tenants: Sequence[str]) -> None:
    """From now on the copies are logs of their own, durable."""
    for place in places:
        for tenant in tenants:
            system = place.system_of(tenant)
            if system is not None and is_copy(system):
                with closing(FilesLog(system, segment_bytes_max=place.segment_bytes_max)) as log:
                    log.sync(Head())
                unmark_copy(system)


def _ends(membership: Membership) -> dict[str, int]:
    stream = membership.stream
    found = {}
    for tenant in stream.tenants():
        last = stream.last_group(stream.layout.log(tenant))
        if last is not None and membership.place.system_of(tenant) is not None:
            found[tenant] = end_of(last)
    return found


def _wait(membership: Membership, wanted: dict[str, int], progress: Progress) -> None:
    deadline = time.monotonic() + _CATCH_UP_SECONDS
    while (have := sum(_reached(membership, wanted).values())) < sum(wanted.values()):
        progress(have, sum(wanted.values()))
        if (damage := membership.damage()) is not None:
            raise damage
        if time.monotonic() > deadline:
            raise unreachable(membership.stream.name, "its copy here does not come up to date")
        time.sleep(_PAUSE_SECONDS)


def _reached(membership: Membership, wanted: dict[str, int]) -> dict[str, int]:
    found = {}
    for tenant, end in wanted.items():
        system = membership.place.system_of(tenant)
        assert system is not None, "those of another stream are not wanted"
        with unopened(system) as log:
            found[tenant] = min(end, log.head.lamport)
    return found


def _fetch_rest(stream: Stream, place: Place, tenant: str) -> None:
    system = place.system_of(tenant)
    if system is None or is_empty(system):
        return
    size = place.segment_bytes_max
    with closing(Copy(system, tenant, memory=stream.memory, stream=stream.name, segment_bytes_max=size)) as copy:
        if not copy.log.claim(timeout_seconds=_CLAIM_SECONDS):
            raise StorageRefused("another process has held the log's lock for too long")
        try:
            catch_up(stream, copy)
        finally:
            copy.log.release()
