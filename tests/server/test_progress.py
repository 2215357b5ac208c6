"""Calls that last, and those that do not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tallystick.server.progress import Begun, begin


async def waits_for(what: asyncio.Future[str]) -> str:
    try:
        return await what
    except asyncio.CancelledError:
        return "ended"


def test_what_waits_for_nothing_is_over_with_its_first_step() -> None:
    async def quick() -> str:
        return "done"

    async def failing() -> str:
        raise ValueError("at once")

    assert begin(quick()) == "done"
    with pytest.raises(ValueError, match="at once"):
        begin(failing())


@pytest.mark.parametrize("outcome", ["set", "raised", "cancelled"])
def test_what_waits_goes_on_in_the_same_task_as_if_it_had_been_awaited(outcome: str) -> None:
    async def story() -> Any:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        future: asyncio.Future[str] = loop.create_future()
        begun = begin(waits_for(future))
        assert isinstance(begun, Begun)
        match outcome:
            case "set":
                loop.call_soon(future.set_result, "answer")
            case "raised":
                loop.call_soon(future.set_exception, ValueError("late"))
            case _:
                loop.call_soon(task.cancel)
        return await begun

    if outcome == "raised":
        with pytest.raises(ValueError, match="late"):
            asyncio.run(story())
    else:
        assert asyncio.run(story()) == {"set": "answer", "cancelled": "ended"}[outcome]
