"""Backups of a memory that is kept in streams: which one it is, and how a fence in the store reaches its machines."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tallystick.config import Settings
from tallystick.log.jetstream.copy import memory_of
from tallystick.log.jetstream.following import take_over_from
from tallystick.log.jetstream.places import places_of


def take_over_streams(settings: Settings, by: str) -> None:
    """No machine writes to the streams of this memory any more. Raises StorageRefused, Conflict."""
    take_over_from(places_of(settings), by)


def stream_of(settings: Settings, tenants: Sequence[str]) -> str:
    """Which memory of a stream this base is a copy of; empty where its log is its own."""
    of_tenants = (memory_of(msgspec.structs.replace(settings, tenant=name).system) for name in sorted(tenants))
    return next((memory for memory in of_tenants if memory), "") if settings.log_url else ""
