"""The worker of one projection: applies what the log has and the projection has not.

Any number of processes may follow with the same projection on disk. They take turns: the one
that holds the lock applies, for all of them, what the projection has not seen yet. The lock
is a file of its own, freed by the system when its holder dies.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from tallystick.errors import StorageRefused, TallystickError
from tallystick.log import Entry, Head, head_after
from tallystick.projections import Projection, Settling
from tallystick.projections.log_reader import LogReader
from tallystick.system.file_locks import open_lock, release, take
from tallystick.system.private_files import make_directory, replace_file
from tallystick.system.regular_files import read_regular

_PATIENCE_SECONDS = 30.0
_LAST_PATIENCE_SECONDS = 2.0
"""When we are closed: whoever has the lock goes on for us."""
_LAST_SECONDS = 10.0
"""When we are closed, too: who has more to apply than that goes on when it is next opened."""
_FIRST_PAUSE_SECONDS = 1.0
_PAUSE_SECONDS_MAX = 60.0
_OTHERS_SECONDS = 1.0
"""How often the thread looks for what other processes committed."""
_LATE_SECONDS = 0.05
"""So long a caller waits who would not wait for the head, once another has waited in vain."""
_ERASE_AGAIN_SECONDS = 0.2
"""While somebody waits for it and something keeps it from being done."""
REST_SECONDS = 0.25
"""Between two looks for which nobody waits: commits cost less together, and callers are held up for a moment only."""
FAR_COMMITS = 50_000
"""So many are seconds of work, in which every caller of this process would share the interpreter with us."""
_ELSEWHERE_SECONDS = 0.2
"""How often it is looked whether the other process is done."""

logger = logging.getLogger(__name__)


class Trouble(msgspec.Struct, frozen=True):
    """Why a projection does not move on, for people who look from outside."""

    problem: str
    position: int = 0
    """Where it stands still."""


def trouble_of(lock: Path) -> Trouble | None:
    """Of the projection that has this lock, if the last process that tried could not bring it to the head."""
    try:
        return msgspec.json.decode(read_regular(_trouble_path(lock)), type=Trouble)
    except (OSError, msgspec.MsgspecError):
        return None


def _trouble_path(lock: Path) -> Path:
    return lock.with_suffix(".trouble")


class Backoff:
    """The pauses between tries: each twice as long as the one before, up to a minute, until one succeeds."""

    def __init__(self) -> None:
        self.failures = 0

    def failed(self, wish: float = 0.0) -> float:
        """For how many seconds to leave it alone, who wishes to be left alone for some."""
        seconds = max(math.ldexp(_FIRST_PAUSE_SECONDS, min(self.failures, 10)), wish)
        self.failures += 1
        return min(seconds, _PAUSE_SECONDS_MAX)

    def succeeded(self) -> bool:
        """Whether it is the first time after a failure."""
        failures, self.failures = self.failures, 0
        return failures > 0


class ProjectionWorker:
    """`lock` is the file to lock, or None for a projection that only this process has.

    `closing_seconds`: who closes it waits no longer than that; the thread ends by itself. `commits_at_once`: for a
    projection to which an `apply` costs the same whatever it applies, how many to read together where there are many.
    `elsewhere` begins a process that brings the projection to the head: the thread leaves to it what would take long.
    `applied` is told how far each `apply` got.
    """

    def __init__(
        self,
        log: LogReader,
        projection: Projection,
        *,
        lock: Path | None = None,
        rest_seconds: float = REST_SECONDS,
        closing_seconds: float | None = None,
        commits_at_once: int = 0,
        elsewhere: Callable[[], subprocess.Popen[bytes]] | None = None,
        applied: Callable[[Head], None] = lambda at: None,
    ) -> None:
        self.projection = projection
        self._elsewhere = elsewhere
        self._applied = applied
        self._closing_seconds = closing_seconds
        self._rest_seconds = rest_seconds
        self._commits_at_once = commits_at_once
        self._log = log
        self._was_used = False
        self._lock_path = lock
        self._lock = -1
        # Held while the projection or the log handle is used: catch_up may be called beside the thread.
        self._turn = threading.RLock()
        # Held while another process is at it for us, so that we begin no second one.
        self._left = threading.Lock()
        self._seen = Head()
        self._noted: Trouble | None = None
        self._waiters: list[tuple[int, bool, Future[None]]] = []
        self._wake = threading.Condition()
        self._notified = False
        self._awaited = False
        self._is_late = False
        self._ending = False
        self._end_by = math.inf
        self._closed = False
        self._thread: threading.Thread | None = None

    # -- for callers that wait

    def catch_up(self, *, wait: bool = True) -> bool:
        """Apply everything up to the durable head. False, without `wait`, when another process is at it just now.

        Raises Corrupt for a damaged log, and whatever the projection raises; it is then where it was.
        """
        if wait:
            self._leave_what_is_far()
        with self._turn, self._locked(wait) as ours:
            if not ours:
                return False
            self._apply_all()
            return True

    def catch_up_within(self, seconds: float) -> bool:
        """The same, but no further than that gets in about so many seconds; False when that is not the head, and the
        thread goes on. Where no thread follows it takes as long as it takes."""
        if not self.is_following:
            return self.catch_up()
        deadline = time.monotonic() + (min(seconds, _LATE_SECONDS) if self._is_late else seconds)
        if not self._turn.acquire(timeout=max(deadline - time.monotonic(), 0)):
            self._is_late = True
            return False
        try:
            with self._locked(wait=False, patience=max(deadline - time.monotonic(), 0)) as ours:
                if ours:
                    self._apply_all(deadline)
                is_there = ours and not self._is_late
        finally:
            self._turn.release()
        if not is_there:
            self._is_late = True
            self.notify()
        return is_there

    def erase(self) -> bool:
        """Catch up, and leave no copy of what was redacted or deleted. False when it is not all done yet."""
        self._leave_what_is_far()
        with self._turn, self._locked(wait=True):
            self._apply_all()
            return not isinstance(self.projection, Settling) or self.projection.erase()

    @contextmanager
    def at_head(self) -> Iterator[None]:
        """Catch up, then keep everybody else away from the projection."""
        self._leave_what_is_far()
        with self._turn, self._locked(wait=True):
            self._apply_all()
            yield

    @property
    def position(self) -> Head:
        """Where the projection was when this process last looked."""
        return self._seen

    def log_head(self) -> Head:
        return self._log.head()

    @property
    def is_following(self) -> bool:
        """Whether it is kept up to date all the time, and not only when somebody asks."""
        return self._thread is not None

    # -- for the loop: a thread that follows

    def start(self) -> None:
        if self._thread is None:
            self._was_used = True
            self._thread = threading.Thread(target=self._follow, name=f"follow-{self.projection.name}", daemon=True)
            self._thread.start()

    def notify(self) -> None:
        """There is something new. Cheap; a hundred calls may lead to one look."""
        # The thread takes this back before it looks: what was committed by now is seen then.
        if not self._notified:
            with self._wake:
                self._notified = True
                self._wake.notify()

    async def reached(self, position: int, timeout_seconds: float, *, erased: bool = False) -> bool:
        """Wait until commits up to this lamport are applied; False when that took too long.

        `erased`: and until no copy is left of what they redacted.
        """
        if self._seen.lamport >= position and not erased:
            return True
        done: Future[None] = Future()
        with self._wake:
            self._waiters.append((position, erased, done))
            self._awaited = True
            self._wake.notify()
        if not erased:
            self._settle_waiters(is_clean=False)
        self.start()
        try:
            await asyncio.wait_for(asyncio.wrap_future(done), timeout_seconds)
        except TimeoutError:
            return False
        return True

    def end_soon(self) -> None:
        """So that several can end at once: `close` waits for it."""
        with self._wake:
            if not self._ending:
                self._ending, self._end_by = True, time.monotonic() + _LAST_SECONDS
            self._wake.notify()

    def close(self) -> None:
        """Applies what is there, as far as that gets in a few seconds, then lets go. Safe to call twice."""
        self.end_soon()
        if self._thread is None:
            self._finish()
        else:
            self._thread.join(self._closing_seconds)

    # -- the thread

    def _follow(self) -> None:
        pause, rest, backoff = 0.0, self._rest_seconds, Backoff()
        while self._wait(pause, rest):
            try:
                pause, rest = self._follow_once(), self._rest_seconds
                if backoff.succeeded():
                    logger.warning("projection %s moves on again: %s", self.projection.name, self._lock_path)
            except Exception as error:
                wish = error.details.get("retry_after", 0) if isinstance(error, TallystickError) else 0
                # What is committed meanwhile is no reason to try earlier.
                pause = rest = backoff.failed(wish)
                self._tell(error, pause)
        self._finish()

    def _tell(self, error: Exception, pause: float) -> None:
        said = "projection %s does not move on: %s; again in %.1f s: %s"
        told = error.message if isinstance(error, TallystickError) else "a bug of ours"
        is_bug = not isinstance(error, TallystickError)
        if is_bug or pause < _PAUSE_SECONDS_MAX:
            logger.error(said, self.projection.name, told, pause, self._lock_path, exc_info=error if is_bug else None)

    def _wait(self, seconds: float, rest: float) -> bool:
        """False when it is time to end. `rest`: so long only who waits for it, or the end, is a reason to go on."""
        with self._wake:
            rest = min(seconds, rest)
            if not self._wake.wait_for(lambda: self._awaited or self._ending, timeout=rest):
                self._wake.wait_for(lambda: self._notified or self._awaited or self._ending, timeout=seconds - rest)
            self._notified = self._awaited = False
            return not self._ending

    def _follow_once(self) -> float:
        self._leave_what_is_far()
        with self._turn, self._locked(wait=True):
            again = self._apply_all()
        return _OTHERS_SECONDS if again is None else min(again, _OTHERS_SECONDS)

    def _leave_what_is_far(self) -> None:
        """To another process, and wait for it."""
        if self._elsewhere is not None:
            with self._left:
                if not self._ending and self._is_far():
                    self._wait_for(self._elsewhere)

    def _is_far(self) -> bool:
        """Not while another process is at it."""
        near = self._log.head().count - FAR_COMMITS
        if self._seen.count > near:
            return False
        with self._turn, self._locked(wait=False) as ours:
            return ours and self._begin().count <= near

    def _wait_for(self, begin: Callable[[], subprocess.Popen[bytes]]) -> None:
        """However that process ends: what it left undone is applied here."""
        try:
            running = begin()
        except OSError as error:
            logger.info("no process could be begun for projection %s: %s", self.projection.name, error)
            return
        with self._wake:
            while running.poll() is None and not self._ending:
                self._wake.wait(_ELSEWHERE_SECONDS)
        # A transaction that it had begun is rolled back by whoever opens the projection next.
        running.terminate()
        running.wait()

    # -- applying; the turn and the lock are held

    def _apply_all(self, deadline: float = math.inf) -> float | None:
        try:
            again = self._reach_head(deadline)
        except Exception as error:
            self._note_trouble(error)
            raise
        self._forget_trouble()
        return again

    def _reach_head(self, deadline: float) -> float | None:
        self._was_used = True
        at = self._begin()
        while entries := self._unseen(at):
            if time.monotonic() > min(deadline, self._end_by):
                self._is_late = True
                return None
            self.projection.apply(entries, head_after(entries, at))
            # It may want to begin again.
            at = self.projection.position()
            self._applied(at)
        self._is_late = False
        settling = self.projection if isinstance(self.projection, Settling) else None
        again = settling.settle() if settling else None
        awaited = self._is_erasure_awaited()
        # Whoever comes to wait for it only now is not told yes by a look that was over before.
        is_clean = awaited and (settling is None or settling.erase())
        self._seen = at
        self._settle_waiters(is_clean=is_clean)
        return _ERASE_AGAIN_SECONDS if awaited and not is_clean else again

    def _unseen(self, at: Head) -> list[Entry]:
        """Some of what follows; where there is enough, as many as the projection wants at once."""
        entries = self._log.drafts(at)
        while entries and len(entries) < self._commits_at_once:
            more = self._log.drafts(head_after(entries, at))
            if not more:
                break
            entries = [*entries, *more]
        return entries

    def _begin(self) -> Head:
        at = self.projection.position()
        if self._log.has(at):
            return at
        logger.warning(
            "projection %s is at position %d, which is not on this log: it is rebuilt", self.projection.name, at.lamport
        )
        self.projection.reset()
        return self.projection.position()

    def _note_trouble(self, error: Exception) -> None:
        # Words of a bug may quote what is stored, and outlive its redaction here.
        told = error.message if isinstance(error, TallystickError) else f"a bug of ours: {type(error).__name__}"
        trouble = Trouble(told, self._position_told())
        if self._lock_path is None or trouble == self._noted:
            return
        with suppress(OSError):
            replace_file(_trouble_path(self._lock_path), msgspec.json.encode(trouble))
            self._noted = trouble

    def _position_told(self) -> int:
        try:
            return self.projection.position().lamport
        except Exception:
            return self._seen.lamport

    def _forget_trouble(self) -> None:
        """Also another process's: the projection is one."""
        self._noted = None
        if self._lock_path is not None:
            with suppress(OSError):
                _trouble_path(self._lock_path).unlink(missing_ok=True)

    def _finish(self) -> None:
        with self._turn:
            if not self._closed:
                self._closed = True
                self._bring_to_end()

    def _bring_to_end(self) -> None:
        try:
            # One that was never used has nothing to finish.
            if self._was_used:
                with self._locked(wait=True):
                    self._apply_all()
                    if self._is_late:
                        logger.warning("%s goes on when it is next opened: it has far to go", self.projection.name)
                    elif isinstance(self.projection, Settling):
                        self.projection.settle(final=True)
        except TallystickError as error:
            logger.warning("%s was closed before it was at the head: %s", self.projection.name, error.message)
        except Exception:
            logger.exception("projection %s was closed before it was at the head", self.projection.name)
        finally:
            self.projection.close()
            self._log.close()
            if self._lock >= 0:
                os.close(self._lock)
                self._lock = -1

    @contextmanager
    def _locked(self, wait: bool, patience: float = 0.0) -> Iterator[bool]:
        """`patience`: of one who does not wait, or yet for so many seconds."""
        if self._lock_path is None:
            yield True
            return
        if self._lock < 0:
            try:
                make_directory(self._lock_path.parent)
                self._lock = open_lock(self._lock_path)
            except OSError as error:
                raise StorageRefused(
                    f"the {self.projection.name} index in {self._lock_path.parent} cannot be kept up: {error.strerror}",
                    hint="it has to be written to: copy the memory to a place of your own, and ask there with --base",
                ) from error
        if wait:
            patience = _LAST_PATIENCE_SECONDS if self._ending else _PATIENCE_SECONDS
        ending = self._ending
        # Who closes us while we wait has no use for it any more.
        if not take(self._lock, timeout_seconds=patience, is_abandoned=lambda: self._ending != ending):
            if wait:
                raise TallystickError(
                    f"another process has been busy with the {self.projection.name} for too long",
                    code="PROJECTION_BUSY",
                )
            yield False
            return
        try:
            yield True
        finally:
            release(self._lock)

    def _is_erasure_awaited(self) -> bool:
        with self._wake:
            return any(erased for _, erased, done in self._waiters if not done.done())

    def _settle_waiters(self, *, is_clean: bool) -> None:
        at = self._seen.lamport
        with self._wake:
            reached = [done for position, erased, done in self._waiters if position <= at and (is_clean or not erased)]
            self._waiters = [each for each in self._waiters if not (each[2] in reached or each[2].done())]
        for done in reached:
            with suppress(InvalidStateError):  # Whoever waited may have given up.
                done.set_result(None)
