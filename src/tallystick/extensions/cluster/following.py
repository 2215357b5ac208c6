"""Following a memory from elsewhere: a base keeps copies of its streams, takes no writes, and can take it over.

To the memory it is one more machine, which adopts, proves that there is a quorum, and is waited for by redactions.
Nothing is lost that was acknowledged, where the stream can be reached when the base takes over: the logs end there
first.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager

import msgspec

from tallystick.clock import to_text, wall_clock
from tallystick.config import Settings
from tallystick.errors import Conflict, StorageRefused
from tallystick.extensions.cluster.catching_up import catch_up
from tallystick.extensions.cluster.client import NoAnswer
from tallystick.extensions.cluster.copy import Copy, is_empty, machine_id, unmark_copy
from tallystick.extensions.cluster.membership import Membership, Place, join, leave
from tallystick.extensions.cluster.messages import end_of
from tallystick.extensions.cluster.migration import connected
from tallystick.extensions.cluster.moving import take_over
from tallystick.extensions.cluster.places import places_of
from tallystick.extensions.cluster.stream import Refused, Stream, unreachable
from tallystick.log import Head
from tallystick.log.files import FilesLog
from tallystick.log.replica import Replica, end_replica, read_replica, write_replica
from tallystick.log.unopened import is_copy, unopened
from tallystick.operations import Progress, no_progress
from tallystick.operations.shared_logs import Followed, Promoted, positions, require_sound
from tallystick.operations.tenants import tenants_of
from tallystick.system.file_locks import locked
from tallystick.system.private_files import make_directory

_CATCH_UP_SECONDS = 600.0
_PAUSE_SECONDS = 0.02
_CLAIM_SECONDS = 30.0

FetchProgress = Callable[[int, int], None]
_LOCK = "follow.lock"


@contextmanager
def following(settings: Settings, url: str, *, progress: Progress = no_progress) -> Iterator[Callable[[], Followed]]:
    """While inside, the base is kept up to date; what is given waits for what there is now, and says so.

    Raises Conflict for a base that is not ours to follow with, StorageRefused where the stream cannot be reached.
    """
    base = settings.base
    replica = _require_ours(settings, url)
    # Before anything is fetched, which begins at once.
    known = positions(settings)
    with _alone(settings), followed(_places(settings, url)) as memberships:
        # Before the first copy: nobody may write to one.
        write_replica(base, replica)

        def look() -> Followed:
            nonlocal known
            at = to_text(wall_clock())
            now = wait_until_current(memberships, lambda done, total: progress("fetching", done, total))
            write_replica(base, Replica(url, at, as_of=at))
            new = sum(now.values()) - sum(min(known.get(name, 0), end) for name, end in now.items())
            known = known | now
            return Followed(url, 0, at, now, new)

        yield look


def promote_stream(
    settings: Settings, url: str, *, without_store: bool = False, progress: Progress = no_progress
) -> Promoted:
    """Make this base the memory, once it is proven. The logs end in their streams: no machine writes there any more.

    Raises StorageRefused where the stream cannot be reached, unless that is allowed: then nothing stops its machines.
    """
    base = settings.base
    replica = _require_ours(settings, url)
    require_sound(settings, progress)
    places = _places(settings, url)
    caught_up = True
    with _alone(settings):
        try:
            take_over_from(places, f"{socket.gethostname()} ({machine_id(base)})")
        except StorageRefused:
            if not without_store:
                raise
            caught_up = False
        make_own(places, tenants_of(settings))
    now = to_text(wall_clock()) if caught_up else replica.as_of
    end_replica(base)
    return Promoted(epoch=int(caught_up), source=url, as_of=now, positions=positions(settings), caught_up=caught_up)


@contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    make_directory(settings.base / "_system")
    with locked(settings.base / "_system" / _LOCK, timeout_seconds=0) as is_alone:
        if not is_alone:
            raise Conflict(
                "another process follows with this base",
                code="FOLLOW_RUNNING",
                hint="one is enough; stop it before you promote",
            )
        yield


def _places(settings: Settings, url: str) -> list[Place]:
    """Only read from: whether the servers sync is for those to ask who write."""
    return places_of(msgspec.structs.replace(settings, log_url=url, log_replicas=1, log_sync="unchecked"))


def _require_ours(settings: Settings, url: str) -> Replica:
    replica = read_replica(settings.base)
    if replica is None and tenants_of(settings):
        raise Conflict(
            f"{settings.base} holds a memory that follows nothing",
            code="NOT_EMPTY",
            hint="name an empty one with --base",
        )
    if replica is not None and (replica.is_fenced or replica.source != url):
        raise Conflict(
            f"{settings.base} follows {replica.source}",
            code="OTHER_MEMORY",
            hint="name an empty base, or that address",
        )
    return replica or Replica(url, to_text(wall_clock()))


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


def wait_until_current(memberships: Sequence[Membership], progress: FetchProgress) -> dict[str, int]:
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


def _wait(membership: Membership, wanted: dict[str, int], progress: FetchProgress) -> None:
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
