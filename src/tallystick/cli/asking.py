"""The asking: the command line calls the tools that agents call, as the local user."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from tallystick.config import Settings

if TYPE_CHECKING:
    from tallystick.policy import Principal
    from tallystick.toolsets import Tool


def ask(settings: Settings, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What the tool answers; raises what it raises. Arguments that are None were not given."""
    return _pages_of(settings, name, arguments, limit=0)[0]


def ask_pages(settings: Settings, name: str, arguments: dict[str, Any], *, limit: int) -> list[dict[str, Any]]:
    """A tool's answers are cut to what an agent can take in; a person gets all that was asked for."""
    return _pages_of(settings, name, arguments, limit=limit)


def tool(settings: Settings, name: str) -> Tool:
    from tallystick import app
    from tallystick.server.dispatch import choose

    return choose(app.toolsets(settings)).get(name).tool


def principal(settings: Settings) -> Principal:
    from tallystick import app

    return app.local_user(settings)


def _pages_of(settings: Settings, name: str, arguments: dict[str, Any], *, limit: int) -> list[dict[str, Any]]:
    given = {key: value for key, value in arguments.items() if value is not None}

    async def collect() -> list[dict[str, Any]]:
        return [page async for page in _pages(settings, name, given, limit)]

    return asyncio.run(collect())


async def _pages(settings: Settings, name: str, arguments: dict[str, Any], limit: int) -> AsyncIterator[dict[str, Any]]:
    from tallystick import app
    from tallystick.server.dispatch import prepare

    asked = tool(settings, name)
    end = arguments.get("offset", 0) + limit
    async with app.opened(settings) as store:
        while True:
            answer = await asked.call(store, principal(settings), prepare(asked, arguments))
            yield answer.data
            reached = answer.data.get("pagination", {}).get("next_offset")
            if reached is None or reached >= end:
                return
            arguments = {**arguments, "offset": reached, "limit": end - reached}
