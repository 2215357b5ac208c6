"""What hooks ask a server: the same that `tallystick-hook` says, for clients that call a tool instead of a command.

Not listed, since no agent calls it: a client does, when its agent begins, is asked something, or touches a file. What
it says is gathered from files, as the command does; then the policy is asked about each entity that is told of.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from pydantic import Field

from tallystick.app.callers import work_settings
from tallystick.config import Settings
from tallystick.extensions.hooks.clients import Event, agents_of, read_event
from tallystick.extensions.hooks.command import seconds
from tallystick.extensions.hooks.digest import Window
from tallystick.extensions.hooks.graph import Allows
from tallystick.extensions.hooks.log_tail import Away
from tallystick.extensions.hooks.said import Gathered, finish, gather_from, relative_paths, window_of, work_tree
from tallystick.policy import Action, Principal
from tallystick.toolsets import OBJECT, TEXT, Answer, Tool, Toolset, answer_schema
from tallystick.toolsets.memory import error_shape
from tallystick.toolsets.memory.arguments import Arguments
from tallystick.work_settings import DEFAULT_AGENT, WorkSettings

if TYPE_CHECKING:
    from tallystick.app.context import AppContext
    from tallystick.engine.store import Store
    from tallystick.state.read_filter import ReadFilter
    from tallystick.state.state import State

_ROUNDS_MAX = 20
_NAMES = {
    "session-start": "SessionStart",
    "prompt": "UserPromptSubmit",
    "before-tool": "PreToolUse",
    "before-compact": "PreCompact",
}
_LONG = 1_000_000
"""A prompt, or a patch; only the beginning is looked at."""


class HookArguments(Arguments):
    event: Literal["session-start", "prompt", "before-tool", "stop", "before-compact"]
    client: Literal["claude", "codex", "cursor", "gemini", "vscode", "copilot"] = "claude"
    session_id: str = Field(default="", max_length=4096)
    cwd: str = Field(default="", max_length=4096, description="ignored where tokens are asked for")
    prompt: str = Field(default="", max_length=_LONG)
    file_path: str = Field(default="", max_length=4096)
    notebook_path: str = Field(default="", max_length=4096)
    command: str = Field(default="", max_length=_LONG, description="of a shell, or a patch")
    paths: list[str] = Field(default_factory=list, max_length=20, description="relative to the repository")
    stop_hook_active: bool = False
    processes: list[str] = Field(default_factory=list, max_length=64, description="tags of those above the hook")


def contributed(context: AppContext) -> Toolset:
    return make_toolset(context.settings, work_settings(context.settings))


def make_toolset(settings: Settings, work: WorkSettings) -> Toolset:
    async def context(store: Store, principal: Principal, asked: HookArguments) -> Answer:
        event = _event(asked)
        try:
            gathered = await asyncio.wait_for(_gathered(settings, work, store, principal, event, asked), seconds())
            text = await asyncio.to_thread(finish, event, gathered) if gathered is not None else ""
        except (Away, sqlite3.Error, OSError, TimeoutError):
            # As with the command: without a memory the agent goes on.
            return Answer({})
        return Answer(_wired(event, text))

    return Toolset(
        name="hooks",
        faults="protocol",
        error_shape=error_shape,
        tools=(
            Tool(
                name="hook.context",
                title="What a hook has to say",
                description="For hooks of clients, not for agents: what is known at this moment of a session, in the"
                " form that hooks answer with. Empty for nothing.",
                input=HookArguments,
                output=answer_schema(
                    {"hookSpecificOutput": OBJECT, "decision": TEXT, "reason": TEXT},
                    "hookSpecificOutput? decision? reason?",
                ),
                call=context,
                reads_only=True,
            ),
        ),
    )


def _event(asked: HookArguments) -> Event:
    touched = {name: value for name in ("file_path", "notebook_path", "command") if (value := getattr(asked, name))}
    said = {
        "session_id": asked.session_id,
        "cwd": asked.cwd or str(Path.cwd()),
        "prompt": asked.prompt,
        "tool_input": touched,
        "stop_hook_active": asked.stop_hook_active,
    }
    return read_event(asked.event, asked.client, said)


class _Decisions:
    """What the policy said of entities. What it was not asked about is noted, and counts as hidden meanwhile."""

    def __init__(self) -> None:
        self.known: dict[str, bool] = {}
        self.unknown: set[str] = set()

    def __call__(self, entity: str) -> bool:
        if entity not in self.known:
            self.unknown.add(entity)
        return self.known.get(entity, False)


async def _gathered(
    settings: Settings, work: WorkSettings, store: Store, principal: Principal, event: Event, asked: HookArguments
) -> Gathered | None:
    """Gathered again with what the policy said of the entities that were met, until it has been asked about all."""
    window = window_of(settings, principal.session, frozenset(asked.processes))
    look = partial(_gather, settings, work, event, principal, window, tuple(asked.paths))
    if not await store.read(principal, Action.READ, lambda state, read_filter: read_filter.narrows):
        return await asyncio.to_thread(look, None)
    decisions = _Decisions()
    for _ in range(_ROUNDS_MAX):
        gathered = await asyncio.to_thread(look, decisions)
        if not decisions.unknown:
            return gathered
        decisions.known |= await _decided(store, principal, frozenset(decisions.unknown))
        decisions.unknown.clear()
    return None


async def _decided(store: Store, principal: Principal, ids: frozenset[str]) -> dict[str, bool]:
    def look(state: State, read_filter: ReadFilter) -> dict[str, bool]:
        return {each: state.owner(each) is not None and read_filter.allows(each) for each in ids}

    return await store.read(principal, Action.READ, look)


def _gather(
    settings: Settings,
    work: WorkSettings,
    event: Event,
    principal: Principal,
    window: Window,
    paths: tuple[str, ...],
    allows: Allows | None,
) -> Gathered | None:
    agents = (principal.actor,) if principal.actor != DEFAULT_AGENT else agents_of(event.client, None)
    home = msgspec.structs.replace(settings, tenant=principal.tenant)
    # A file that the settings place elsewhere is of the tenant that they name.
    mirror = work if principal.tenant == settings.tenant else msgspec.structs.replace(work, db_path=None)
    # Whoever proves who they are by a token is on another machine, and says nothing of our files.
    tree = None if settings.issuers else work_tree(settings, event)
    relative = (*relative_paths(event, tree), *(os.path.normpath(path).replace(os.sep, "/") for path in paths))
    return gather_from(home, mirror, event, agents, window, tree, relative, allows)


def _wired(event: Event, text: str) -> dict[str, Any]:
    if not text:
        return {}
    if event.kind == "stop":
        return {"decision": "block", "reason": text}
    return {"hookSpecificOutput": {"hookEventName": _NAMES[event.kind], "additionalContext": text}}
