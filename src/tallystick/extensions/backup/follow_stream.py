"""A warm copy of a memory that is kept in a stream: fed as its machines are, for reading and to take over.

Nothing is lost that was acknowledged, where the stream can be reached when it takes over: the logs end there first.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from tallystick.clock import to_text, wall_clock
from tallystick.config import Settings
from tallystick.errors import Conflict, StorageRefused
from tallystick.extensions.backup.follow import Followed, Promoted, positions, require_sound
from tallystick.extensions.cluster.copy import machine_id
from tallystick.extensions.cluster.following import followed, make_own, take_over_from, wait_until_current
from tallystick.extensions.cluster.membership import Place
from tallystick.extensions.cluster.places import places_of
from tallystick.file_locks import locked
from tallystick.log.replica import Replica, end_replica, read_replica, write_replica
from tallystick.operations import Progress, no_progress
from tallystick.operations.tenants import tenants_of
from tallystick.private_files import make_directory

_LOCK = "follow.lock"


def is_stream(url: str) -> bool:
    return url.startswith(("nats://", "tls://"))


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
