"""The follower of a tenant: its log, read once, for every projection of the registry.

Each projection has a worker, and each worker a thread while it is kept up to date: one that is
slow or fails holds up neither the others nor a caller. Projections are made at first use.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from tallystick.log import Entry, Head
from tallystick.projections.registry import Place, registered
from tallystick.projections.worker import ProjectionWorker

logger = logging.getLogger(__name__)


class Follower:
    def __init__(self, place: Place, *, applied: Callable[[Head], None] = lambda at: None) -> None:
        """`applied` is told how far a projection got, while it catches up."""
        self.place = place
        self._applied = applied
        self._workers: dict[str, ProjectionWorker] = {}

    def worker(self, name: str) -> ProjectionWorker:
        found = self._workers.get(name)
        if found is None:
            each = registered()[name]
            projection = each.make(self.place)
            elsewhere = self.place.elsewhere if each.by_default else None
            found = self._workers[name] = ProjectionWorker(
                self.place.log,
                projection,
                lock=self.place.lock(projection.name),
                rest_seconds=each.rest_seconds,
                closing_seconds=each.closing_seconds,
                commits_at_once=each.commits_at_once,
                elsewhere=None if elsewhere is None else partial(elsewhere, name),
                applied=self._applied,
            )
        return found

    def with_copies(self) -> list[ProjectionWorker]:
        """Of whatever there is on disk: what was never made holds nothing, and is not made now."""
        return [self.worker(each.name) for each in registered().values() if each.keeps_copies(self.place)]

    def hand_on(self) -> None:
        """From now on follow with what hands on and has a part here."""
        for each in registered().values():
            if each.hands_on and each.name in self.place.parts:
                self.worker(each.name).start()

    def appended(self, group: Sequence[Entry]) -> None:
        """These are in the log now."""
        if any(worker.is_following for worker in self._workers.values()):
            self.place.log.keep(group)
            for worker in self._workers.values():
                worker.notify()

    def lags(self, position: int) -> dict[str, int]:
        """By projection that is kept up to date: how many commits it is behind."""
        following = {name: worker for name, worker in self._workers.items() if worker.is_following}
        return {name: max(0, position - worker.position.lamport) for name, worker in following.items()}

    async def erase(self, position: int, timeout_seconds: float) -> list[str]:
        """Wait until no copy is left of what commits up to `position` redacted. Returns the projections that have one
        when that takes too long: their threads go on."""
        workers = self.with_copies()
        done = await asyncio.gather(*(each.reached(position, timeout_seconds, erased=True) for each in workers))
        return [each.projection.name for each, is_done in zip(workers, done, strict=True) if not is_done]

    def resume(self) -> None:
        """Bring to the head whatever there is, and finish what an earlier process could not erase."""
        for worker in self.with_copies():
            try:
                if not worker.erase():
                    worker.start()
            except Exception as error:
                logger.warning("%s of %s is not at the head: %s", worker.projection.name, self.place.home, error)

    def close(self) -> None:
        for worker in self._workers.values():
            worker.end_soon()
        for worker in self._workers.values():
            worker.close()
