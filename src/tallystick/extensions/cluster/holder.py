"""Copies of erased values that other machines, and the servers of a stream, may still contain."""

from __future__ import annotations

from tallystick.config import Settings
from tallystick.errors import StorageRefused
from tallystick.log.unopened import is_copy
from tallystick.operations.copies import CopyHolder
from tallystick.projections.registry import PendingErasure


def pending_erasures(settings: Settings) -> list[PendingErasure]:
    if not settings.log_url or not is_copy(settings.system):
        return []
    from tallystick.extensions.cluster.client import NoAnswer
    from tallystick.extensions.cluster.erasure import pending
    from tallystick.extensions.cluster.migration import connected
    from tallystick.extensions.cluster.places import place_of
    from tallystick.extensions.cluster.stream import Refused

    place = place_of(settings)
    try:
        with connected(place, create=False) as stream:
            found = pending(stream, settings.system, settings.tenant)
            return [PendingErasure(each.where, 0, each.commits) for each in found]
    except (NoAnswer, Refused, StorageRefused):
        return [PendingErasure(f"the stream '{place.stream}', which does not answer", 0, [])]


def destroy(settings: Settings, server: str) -> bool:
    if not is_copy(settings.system):
        return False
    from tallystick.extensions.cluster.erasure import note_destroyed

    return note_destroyed(settings.system, server)


HOLDER = CopyHolder(name="stream", pending=pending_erasures, destroy=destroy)
