"""The tool client: the command line calls the tools that agents call, as the local user and under the policy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from tallystick.config import Settings

if TYPE_CHECKING:
    from tallystick.app.tenant_projections import AllProjections
    from tallystick.policy import Principal
    from tallystick.toolsets import Tool


def ask(settings: Settings, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What the tool answers; raises what it raises. Arguments that are None were not given."""
    [answer] = ask_each(settings, (name, arguments))
    return answer


def ask_each(settings: Settings, *calls: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """What the tools answer, one after the other; the memory is opened once."""
    return asyncio.run(_ask_each(settings, calls))


def tool(settings: Settings, name: str, projections: AllProjections | None = None) -> Tool:
    from tallystick import app
    from tallystick.server.dispatch import choose

    return choose(app.toolsets(settings, projections)).get(name).tool


def principal(settings: Settings) -> Principal:
    from tallystick import app

    return msgspec.structs.replace(app.local_user(settings), is_program=True)


def ask_pages(settings: Settings, name: str, arguments: dict[str, Any], show: Callable[[dict[str, Any]], None]) -> None:
    """Show each page that the tool answers, from the given offset to the last; the memory is opened once."""
    asyncio.run(_ask_pages(settings, name, arguments, show))


def ask_by_cursor(
    settings: Settings, name: str, arguments: dict[str, Any], show: Callable[[dict[str, Any]], None]
) -> None:
    """Show each page that the tool answers, for tools that page by cursors; the memory is opened once."""
    asyncio.run(_ask_by_cursor(settings, name, arguments, show))


async def _ask_by_cursor(
    settings: Settings, name: str, arguments: dict[str, Any], show: Callable[[dict[str, Any]], None]
) -> None:
    async with _opened(settings) as call:
        cursor: dict[str, Any] = {}
        while True:
            page = await call(name, {**arguments, **cursor})
            show(page)
            if page.get("next_cursor") is None:
                return
            cursor = {"cursor": page["next_cursor"]}


async def _ask_pages(
    settings: Settings, name: str, arguments: dict[str, Any], show: Callable[[dict[str, Any]], None]
) -> None:
    async with _opened(settings) as call:
        offset: int | None = arguments.get("offset") or 0
        while offset is not None:
            page = await call(name, {**arguments, "offset": offset})
            show(page)
            offset = page["pagination"]["next_offset"]


async def _ask_each(settings: Settings, calls: Sequence[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    async with _opened(settings) as call:
        return [await call(name, arguments) for name, arguments in calls]


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]]:
    """Yield the call of a tool by its name, on a memory that stays open meanwhile."""
    from tallystick import app
    from tallystick.app.tenant_projections import AllProjections
    from tallystick.server.dispatch import prepare

    # What the tool asks of them is brought up to date first; what it does not ask is not even opened.
    projections = AllProjections(settings, open_log=app.open_log)
    try:
        async with app.opened(settings) as store:

            async def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
                asked = tool(settings, name, projections)
                given = {key: value for key, value in arguments.items() if value is not None}
                return (await asked.call(store, principal(settings), prepare(asked, given))).data

            yield call
    finally:
        await projections.close()
