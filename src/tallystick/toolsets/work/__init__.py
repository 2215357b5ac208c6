"""The work vocabulary: a graph of work that hands out the next task.

Ten words. This file is their table; `arguments` says what may be asked, `answers` what is
said back, `tool_context` how drafts are built and written, and each tool has a file of its own.
Answers have no envelope, and ids are short: agents read every character.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from tallystick.clock import Clock, wall_clock
from tallystick.errors import TallystickError
from tallystick.toolsets import Answer, Tool, Toolset
from tallystick.toolsets.claims import Claims
from tallystick.toolsets.work import (
    connect,
    history,
    next,
    node_context,
    onboard,
    plan,
    projects,
    query,
    restructure,
    update,
)
from tallystick.toolsets.work.arguments import (
    ConnectArguments,
    ContextArguments,
    HistoryArguments,
    NextArguments,
    OnboardArguments,
    OpenArguments,
    PlanArguments,
    QueryArguments,
    RestructureArguments,
    UpdateArguments,
)
from tallystick.toolsets.work.context import Knowledge, ToolContext, new_id
from tallystick.toolsets.work.settings import WorkSettings


def error_shape(error: TallystickError) -> dict[str, Any]:
    code = "validation_error" if error.code == "INVALID_ARGUMENT" else error.code.lower()
    hint = {"hint": error.hint} if error.hint else {}
    return {"error": code, "message": error.message, **hint, **error.details}


def toolset(
    *,
    clock: Clock = wall_clock,
    settings: WorkSettings | None = None,
    knowledge: Knowledge | None = None,
    claims: Claims | None = None,
    ids: Callable[[], str] = new_id,
) -> Toolset:
    """`knowledge` finds what is known of the files of a node."""
    return toolset_with(ToolContext(clock=clock, settings=settings, knowledge=knowledge, claims=claims, ids=ids))


def toolset_with(tool_context: ToolContext) -> Toolset:
    return Toolset(
        name="work",
        summary="plan projects as trees of tasks with dependencies, get the next task and claim it, resolve it"
        " with evidence, and see what that unblocks",
        faults="result",
        error_shape=error_shape,
        tools=tuple(_tool(tool_context, *row) for row in _TABLE),
    )


_Call = Callable[[ToolContext, Any, Any, Any], Awaitable[Answer]]
_Row = tuple[str, _Call, type[Any], str, str, str, str]


def _tool(
    tool_context: ToolContext,
    name: str,
    call: _Call,
    arguments: type[Any],
    traits: str,
    title: str,
    words: str,
    keys: str,
) -> Tool:
    return Tool(
        name=name,
        title=title,
        description=words,
        input=arguments,
        output=_output(keys),
        call=partial(call, tool_context),
        reads_only="r" in traits,
        destructive="d" in traits,
        idempotent="i" in traits,
    )


_ARRAY = {"type": "array"}
_OBJECT = {"type": "object"}
_TEXT = {"type": "string"}
_COUNT = {"type": "integer"}

# A name means the same in the answer of every tool.
_ANSWERS: dict[str, dict[str, Any]] = {
    "actionable": _ARRAY,
    "ancestors": _ARRAY,
    "applied": _COUNT,
    "children": _OBJECT,
    "context_links": _ARRAY,
    "created": {"type": ["array", "boolean"]},
    "depended_by": _ARRAY,
    "depends_on": _ARRAY,
    "details": _ARRAY,
    "edges": _ARRAY,
    "events": _ARRAY,
    "hint": _TEXT,
    "knowledge": _OBJECT,
    "more": _OBJECT,
    "newly_actionable": _ARRAY,
    "next_cursor": _TEXT,
    "node": _OBJECT,
    "nodes": _ARRAY,
    "project": _TEXT,
    "projects": _ARRAY,
    "recent_evidence": _ARRAY,
    "rejected": _ARRAY,
    "root": {"type": ["object", "null"]},
    "summary": _OBJECT,
    "task": _OBJECT,
    "total": _COUNT,
    "tree": _ARRAY,
    "updated": _ARRAY,
    "warnings": _ARRAY,
}


def _output(keys: str) -> dict[str, Any]:
    """`a b? c`: a and c are always there."""
    names = keys.split()
    return {
        "type": "object",
        "properties": {name.rstrip("?"): _ANSWERS[name.rstrip("?")] for name in names},
        "required": [name for name in names if not name.endswith("?")],
    }


_TABLE: tuple[_Row, ...] = (
    (
        "graph_open",
        projects.open_,
        OpenArguments,
        "i",
        "Open or create a project",
        "Open or create a work project: root node and counts. No arguments: list projects.",
        "projects? project? root? summary? created? warnings?",
    ),
    (
        "graph_plan",
        plan.plan,
        PlanArguments,
        "",
        "Plan work nodes",
        "Create work nodes with parents and dependencies, all or none.",
        "created warnings?",
    ),
    (
        "graph_next",
        next.next_,
        NextArguments,
        "",
        "Next task",
        "The best actionable work node with its context and what unblocked it; claim it before working on it.",
        "nodes hint?",
    ),
    (
        "graph_context",
        node_context.context,
        ContextArguments,
        "ri",
        "Around a work node",
        "Read one work node with ancestors, children, dependencies and edges.",
        "node task? ancestors children depends_on depended_by edges? knowledge?",
    ),
    (
        "graph_update",
        update.update,
        UpdateArguments,
        "",
        "Update work nodes",
        "Change work nodes; resolved: true with evidence when done. Tells what became actionable.",
        "updated newly_actionable? warnings?",
    ),
    (
        "graph_connect",
        connect.connect,
        ConnectArguments,
        "d",
        "Connect work nodes",
        "Add or remove edges between work nodes. 'from' depends_on 'to'.",
        "applied rejected? newly_actionable? warnings?",
    ),
    (
        "graph_query",
        query.query,
        QueryArguments,
        "ri",
        "Find work nodes",
        "List work nodes of a project by filter, paged.",
        "nodes total next_cursor?",
    ),
    (
        "graph_restructure",
        restructure.restructure,
        RestructureArguments,
        "d",
        "Change the plan",
        "Move, merge or drop (resolve with a reason) work nodes and their subtrees, all or none.",
        "applied details newly_actionable? warnings?",
    ),
    (
        "graph_history",
        history.history,
        HistoryArguments,
        "ri",
        "History of a work node",
        "Who changed a work node, when and how, newest first; also of merged ones.",
        "events next_cursor?",
    ),
    (
        "graph_onboard",
        onboard.onboard,
        OnboardArguments,
        "ri",
        "Join a project",
        "Start here when joining a work project: counts, tree, recent evidence, what is actionable.",
        "project summary tree recent_evidence context_links actionable more?",
    ),
)

TOOLSET = toolset()
