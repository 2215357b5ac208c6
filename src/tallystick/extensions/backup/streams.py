"""Backups of a memory that is kept in streams: which one it is, how a fence in the store reaches its machines, and how
a new machine begins with a backup."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tallystick.config import Settings
from tallystick.extensions.cluster.copy import mark_restored, memory_of
from tallystick.extensions.cluster.following import take_over_from
from tallystick.extensions.cluster.places import place_of, places_of


def take_over_streams(settings: Settings, by: str) -> None:
    """No machine writes to the streams of this memory any more. Raises StorageRefused, Conflict."""
    take_over_from(places_of(settings), by)


def stream_of(settings: Settings, tenants: Sequence[str]) -> str:
    """Which memory of a stream this base is a copy of; empty where its log is its own."""
    of_tenants = (memory_of(msgspec.structs.replace(settings, tenant=name).system) for name in sorted(tenants))
    return next((memory for memory in of_tenants if memory), "") if settings.log_url else ""


def make_copies(settings: Settings, memory: str, tenants: Sequence[str]) -> None:
    """What was restored is this machine's copy of the streams that the settings name: only the rest is fetched. That
    they continue it is found out when it is opened."""
    for name in tenants:
        own = msgspec.structs.replace(settings, tenant=name)
        mark_restored(own.system, memory=memory, stream=place_of(own).stream)
