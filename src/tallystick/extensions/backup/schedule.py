"""Backups by a server: every so often, in a process of its own, by one server of a base."""

from __future__ import annotations

import asyncio
import logging
import random
from asyncio import sleep
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tallystick.clock import from_text, wall_clock
from tallystick.config import Settings
from tallystick.extensions.backup.object_store import open_object_store
from tallystick.extensions.backup.run import target_of
from tallystick.extensions.backup.targets import Target, read_targets
from tallystick.log.replica import read_replica
from tallystick.operations.child_command import run_command

_SPREAD = 0.1
"""Of the interval: servers of one base do not begin in step, and the second finds that it is done."""

logger = logging.getLogger(__name__)


@asynccontextmanager
async def backing_up(settings: Settings) -> AsyncIterator[None]:
    """While inside, `backup_to` is backed up to. Raises InvalidArgument where that names no store."""
    url = open_object_store(target_of(settings)).url
    task = asyncio.create_task(_regularly(settings, url))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _regularly(settings: Settings, url: str) -> None:
    while True:
        await sleep(_due_in(settings, url) + random.random() * settings.backup_every * _SPREAD)
        if _due_in(settings, url) > 0:
            continue
        if read_replica(settings.base) is None:
            await _back_up(settings)
        if failed := read_targets(settings.base).get(url, Target()).failed:
            logger.error("the backup to %s failed: %s", url, failed)
        if _due_in(settings, url) <= 0:
            # It failed, another process is at it, or this base is a copy.
            await sleep(settings.backup_every)


def _due_in(settings: Settings, url: str) -> float:
    """Seconds; the last one may have been made by another server, or before a restart."""
    finished = read_targets(settings.base).get(url, Target()).finished
    since = (wall_clock() - from_text(finished)) / 1000 if finished else settings.backup_every
    return min(max(0.0, settings.backup_every - since), settings.backup_every)


async def _back_up(settings: Settings) -> None:
    """To verify and to hash what is new would hold up every caller of this process. Ended with the server: what it
    had put by then is used by the next."""
    try:
        await run_command("backup", "make", "--json", "--base", str(settings.base))
    except OSError as error:
        logger.error("a backup could not be begun: %s", error.strerror)
