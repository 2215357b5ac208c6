"""The feed: hands lineage on while a server runs, every tenant's, by one thread of its own.

It goes round the tenants and brings each to the head of its log. Nobody waits for it: a place
that is away is tried again after longer and longer pauses, and what could not be handed on by
the end is by the next start. What one tenant's events meet does not hold up the others'.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

from tallystick.errors import TallystickError
from tallystick.projections import Interrupted
from tallystick.projections.lineage_emitter import LineageEmitter, Sink, shown
from tallystick.projections.worker import ProjectionWorker

ROUND_SECONDS = 1.0
ALL_SECONDS = 60.0
"""How often those are looked at, too, that this process has not open: others may have written."""
_PAUSE_SECONDS_MAX = 60.0
_TURN_SECONDS = 5.0
"""Then it is the next tenant's turn: one that writes faster than a place receives would have it forever."""
_LAST_SECONDS = 3.0
_FOLLOWED_MAX = 64

logger = logging.getLogger(__name__)

Followed = tuple[LineageEmitter, ProjectionWorker]


class LineageWorker:
    def __init__(
        self,
        sink: Sink,
        follow: Callable[[str, Sink], Followed],
        *,
        busy: Callable[[], Iterable[str]],
        known: Callable[[], Iterable[str]],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`busy` are the tenants that may have something new at any moment, `known` all there are.

        The sink should give up at once: the pauses are made here.
        """
        self._sink = sink
        self._follow = follow
        self._busy = busy
        self._known = known
        self._now = now
        self._followed: OrderedDict[str, Followed] = OrderedDict()
        self._away = _Pauses(now)
        self._failing: dict[str, _Pauses] = {}
        self._unfinished: dict[str, None] = {}
        """Those whose turn ended too early, or has not come yet."""
        self._turn_until = 0.0
        self._all_at = now()
        self._ending = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="lineage-feed", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """After a last round, if that is a matter of seconds. A place that keeps silent does not hold up the end."""
        self._ending.set()
        self._thread.join(_LAST_SECONDS)
        self._ended = True

    def run_once(self) -> None:
        if self._away.lasting:
            return
        for tenant in self._due():
            pauses = self._failing.get(tenant)
            if self._ended or self._away.lasting:
                return
            if pauses is None or not pauses.lasting:
                self._look_at(tenant)

    def _run(self) -> None:
        try:
            while not self._ending.wait(ROUND_SECONDS):
                self._go_round_whatever_comes()
            self._go_round_whatever_comes()
        finally:
            self._ended = True
            for _, follower in self._followed.values():
                follower.close()
            self._sink.close()

    def _go_round_whatever_comes(self) -> None:
        try:
            self.run_once()
        except Exception:
            logger.exception("the lineage feed goes on with its next round")

    def _due(self) -> list[str]:
        if self._now() >= self._all_at:
            self._all_at = self._now() + ALL_SECONDS
            self._unfinished.update(dict.fromkeys(self._known()))
        return list(dict.fromkeys([*self._busy(), *self._unfinished, *self._failing]))

    def _look_at(self, tenant: str) -> None:
        emitter, follower = self._opened(tenant)
        self._turn_until = self._now() + _TURN_SECONDS
        self._unfinished.pop(tenant, None)
        before = emitter.emitted
        try:
            # Another process may be at it for this tenant: then there is nothing to do.
            follower.catch_up(wait=False)
        except Interrupted:
            self._unfinished[tenant] = None
        except TallystickError as error:
            self._put_off(tenant, error)
        except Exception as error:
            logger.exception("lineage of tenant %s does not move on", tenant)
            self._put_off(tenant, TallystickError(f"a bug of ours: {type(error).__name__}"))
        else:
            self._caught_up(tenant)
        if emitter.emitted > before and tenant not in self._failing:
            self._away.forget()

    def _opened(self, tenant: str) -> Followed:
        found = self._followed.get(tenant)
        if found is None:
            found = self._followed[tenant] = self._follow(tenant, _Shared(self._sink))
            found[0].goes_on = lambda: not self._ended and self._now() < self._turn_until
        self._followed.move_to_end(tenant)
        if len(self._followed) > _FOLLOWED_MAX:
            _, (_, follower) = self._followed.popitem(last=False)
            follower.close()
        return found

    def _put_off(self, tenant: str, error: TallystickError) -> None:
        pauses = self._failing.setdefault(tenant, _Pauses(self._now))
        if error.code == "LINEAGE_NOT_RECEIVED":
            # Nobody's fault here: all wait, and then none has to wait on its own.
            pauses = self._away
        seconds = pauses.lengthen(float(error.details.get("retry_after", 0)))
        if seconds < _PAUSE_SECONDS_MAX:
            logger.warning("lineage of tenant %s: %s; again in %.1f s", tenant, error.message, seconds)

    def _caught_up(self, tenant: str) -> None:
        if self._failing.pop(tenant, None) is not None:
            logger.warning("lineage of tenant %s is handed on again to %s", tenant, shown(self._sink.target))


class _Shared:
    """The one sink, for many emitters: none of them closes it."""

    def __init__(self, sink: Sink) -> None:
        self.target = sink.target
        self.send = sink.send

    def close(self) -> None:
        pass


class _Pauses:
    """Each twice as long as the one before."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._until = 0.0
        self._seconds = ROUND_SECONDS / 2

    @property
    def lasting(self) -> bool:
        return self._now() < self._until

    def lengthen(self, wish: float) -> float:
        self._seconds = min(max(self._seconds * 2, wish), _PAUSE_SECONDS_MAX)
        self._until = self._now() + self._seconds
        return self._seconds

    def forget(self) -> None:
        self._until, self._seconds = 0.0, ROUND_SECONDS / 2
