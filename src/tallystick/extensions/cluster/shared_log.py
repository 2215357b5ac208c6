"""Streams of NATS as a kind of shared log. Each method imports what it needs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import msgspec

from tallystick.config import DEFAULT_TENANT, Settings
from tallystick.log import Log
from tallystick.operations import Progress
from tallystick.operations.shared_logs import Followed, Promoted, SharedLog


class _Streams:
    def open(self, settings: Settings) -> Log:
        from tallystick.extensions.cluster.jetstream_log import JetStreamLog
        from tallystick.extensions.cluster.places import place_of

        return JetStreamLog(place_of(settings), settings.tenant)

    def open_copy(self, settings: Settings) -> Log:
        from tallystick.extensions.cluster.copy import open_followed

        return open_followed(settings.system, segment_bytes_max=settings.segment_bytes_max)

    def machine(self, settings: Settings) -> str:
        from tallystick.extensions.cluster.copy import machine_id
        from tallystick.extensions.cluster.other_machines import digits_of

        return digits_of(machine_id(settings.base))

    def shared_key(self, settings: Settings, name: str) -> bytes:
        from tallystick.extensions.cluster.places import place_of
        from tallystick.extensions.cluster.shared_key import shared_key

        return shared_key(place_of(msgspec.structs.replace(settings, tenant=DEFAULT_TENANT)), name)

    def memory_of(self, settings: Settings) -> str:
        from tallystick.extensions.cluster.copy import memory_of

        return memory_of(settings.system)

    def adopt(self, settings: Settings, memory: str) -> None:
        """Only the rest is fetched. Opening the copy shows whether the stream continues it."""
        from tallystick.extensions.cluster.copy import mark_restored
        from tallystick.extensions.cluster.places import place_of

        mark_restored(settings.system, memory=memory, stream=place_of(settings).stream)

    def end(self, settings: Settings, by: str) -> None:
        from tallystick.extensions.cluster.following import take_over_from
        from tallystick.extensions.cluster.places import places_of

        take_over_from(places_of(settings), by)

    def following(
        self, settings: Settings, url: str, *, progress: Progress
    ) -> AbstractContextManager[Callable[[], Followed]]:
        from tallystick.extensions.cluster.following import following

        return following(settings, url, progress=progress)

    def promote(self, settings: Settings, url: str, *, without_store: bool, progress: Progress) -> Promoted:
        from tallystick.extensions.cluster.following import promote_stream

        return promote_stream(settings, url, without_store=without_store, progress=progress)


STREAMS: SharedLog = _Streams()
