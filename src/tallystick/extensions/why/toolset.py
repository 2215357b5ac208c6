"""Why code is as it is: the one tool that follows a line to what was known when it was written.

A toolset of its own, since few agents need it at all times. What it answers is found elsewhere and handed in: this
file knows arguments, and how much of the answer fits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from pydantic import Field

from tallystick.policy import Principal
from tallystick.toolsets import COUNT, FLAG, OBJECT, TEXT, Answer, Tool, Toolset, answer_schema
from tallystick.toolsets.memory import error_shape
from tallystick.toolsets.memory.arguments import Arguments
from tallystick.toolsets.truncation import room_for, size_of

if TYPE_CHECKING:
    from tallystick.app.context import AppContext
    from tallystick.engine.store import Store
    from tallystick.extensions.why.explanation import Why

ANSWER_BYTES_MAX = 50_000

Explain = Callable[..., Awaitable[msgspec.Struct]]
"""Takes store, principal, file and line, if one is asked about."""
_OBJECTS = {"type": "array", "items": OBJECT}
_KEYS: dict[str, dict[str, Any]] = {
    "file": TEXT,
    "line": COUNT,
    "commit": OBJECT,
    "tasks": _OBJECTS,
    "knowledge": _OBJECTS,
    "gaps": {"type": "array", "items": TEXT},
    "truncated": FLAG,
}


class WhyArguments(Arguments):
    file: str = Field(min_length=1, max_length=4096, description="relative to the repository")
    line: int | None = Field(default=None, ge=1, description="none: the file's knowledge and tasks")


def contributed(context: AppContext) -> Toolset:
    return make_toolset(partial(_explain, context))


async def _explain(app: AppContext, store: Store, principal: Principal, file: str, line: int | None) -> Why:
    from tallystick.extensions.why.explanation import explain, why_context

    assert app.knowledge is not None
    signers = app.projections.keys if app.projections else None
    context = why_context(app.settings, app.knowledge.repository, signers)
    return await explain(context, store, principal, file, line)


def make_toolset(explain: Explain) -> Toolset:
    async def why(store: Store, principal: Principal, asked: WhyArguments) -> Answer:
        found = msgspec.to_builtins(await explain(store, principal, asked.file, asked.line))
        return Answer(_fitted(found, room_for(principal, ANSWER_BYTES_MAX)))

    return Toolset(
        name="why",
        guide={"memory.why": "Before you change odd code: memory.why tells what it is for."},
        keywords={"memory.why": "why line code blame reason task evidence commit who wrote"},
        faults="protocol",
        error_shape=error_shape,
        tools=(
            Tool(
                name="memory.why",
                title="Why a line is there",
                description="From a line of a file to its git commit, the task whose evidence names it, the facts that"
                " were read for it, and who wrote those. Where a link is unknown, gaps say so.",
                input=WhyArguments,
                output=answer_schema(_KEYS, "file line? commit? tasks? knowledge? gaps? truncated?"),
                call=why,
                reads_only=True,
                idempotent=True,
            ),
        ),
    )


def _fitted(found: dict[str, Any], bytes_max: int) -> dict[str, Any]:
    """The longest lists lose their ends until it fits."""
    while size_of(found) > bytes_max:
        longest = max(_lists(found), key=size_of, default=[])
        if not longest:
            break
        del longest[len(longest) // 2 :]
        found["truncated"] = True
    return found


def _lists(found: dict[str, Any]) -> list[list[Any]]:
    tasks = found.get("tasks", [])
    inner = [task[name] for task in tasks for name in ("evidence", "reads", "commits", "claims") if task.get(name)]
    # Tasks go last, when there is nothing left in them to leave out.
    known = found.get("knowledge", [])
    return [each for each in (*inner, known) if each] or [tasks]
