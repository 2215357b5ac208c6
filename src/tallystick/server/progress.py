"""Progress: a call that takes longer than a moment says now and then that it goes on, if its client asked for that.

Most reads wait for nothing: they are over with their first step (`begin`), and nothing is made for them that only those
need which last. Others mostly end within milliseconds, and all that a token costs them is a timer that never fires.
What is told are the seconds that the call took so far: nothing is known of how many there will be, since what it waits
for are others, the lock of the log, a distant policy, a disk, copies that are being erased.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

import orjson

T = TypeVar("T")
FIRST_SECONDS = 1.0
AGAIN_SECONDS = 1.0

Tell = Callable[[float, str], Awaitable[None]]
"""Called with the seconds so far, and words for whoever watches; may raise when nobody does any more."""


Watch = Callable[[], Coroutine[Any, Any, None]]


def begin(work: Coroutine[Any, Any, T]) -> T | Begun[T]:
    """What the work returns; where it waits for something, the rest of it, which the same task must await at once."""
    try:
        return Begun(work, work.send(None))
    except StopIteration as done:
        result: T = done.value
        return result


async def telling(work: Awaitable[T], tell: Tell | None, until: Watch | None = None) -> T:
    """What the work returns. Once it takes long it is told of; and when `until` comes to its end first, the work is
    cancelled."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    started = loop.time()
    beside: list[asyncio.Task[None]] = []

    async def tick(tell: Tell) -> None:
        while True:
            seconds = loop.time() - started
            await tell(round(seconds, 3), f"working for {seconds:.0f} s")
            await asyncio.sleep(AGAIN_SECONDS)

    async def leave(until: Watch) -> None:
        await until()
        if task is not None:
            task.cancel()

    def begin() -> None:
        if tell is not None:
            beside.append(asyncio.create_task(_quietly(tick(tell))))
        if until is not None:
            beside.append(asyncio.create_task(_quietly(leave(until))))

    timer = loop.call_later(FIRST_SECONDS, begin)
    try:
        return await work
    finally:
        timer.cancel()
        for each in beside:
            each.cancel()
        if beside:
            # Nothing is told of a call behind its answer.
            await asyncio.gather(*beside, return_exceptions=True)


class Begun(Generic[T]):
    """The rest of a coroutine, by the same task, after its first step led to something that it waits for."""

    def __init__(self, running: Coroutine[Any, Any, T], waits_for: Any) -> None:
        self._running = running
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, T]:
        while True:
            try:
                yield self._waits_for
            except BaseException as error:
                try:
                    self._waits_for = self._running.throw(error)
                except StopIteration as done:
                    result: T = done.value
                    return result
            else:
                return (yield from self._running.__await__())


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception:
        # Whoever hears nothing more of a call may still want its answer.
        return


def find_token(message: dict[str, Any]) -> str | int | None:
    """Of a well-formed call."""
    meta = message["params"].get("_meta")
    return None if meta is None else meta.get("progressToken")


def notification(token: str | int, seconds: float, words: str) -> bytes:
    params = {"progressToken": token, "progress": seconds, "message": words}
    return orjson.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
