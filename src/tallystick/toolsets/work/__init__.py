"""The work vocabulary: a graph of work that hands out the next task.

Ten words. This file is their table; `arguments` says what may be asked, `answers` what is
said back, `context` how drafts are built and written, and each tool has a file of its own.
Answers have no envelope, and ids are short: agents read every character.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tallystick.clock import Clock, wall_clock
from tallystick.errors import TallystickError
from tallystick.toolsets import COUNT, OBJECT, TEXT, Toolset, answer_schema, make_tool
from tallystick.toolsets.claims import Claims
from tallystick.toolsets.work import arguments
from tallystick.toolsets.work.connect import graph_connect
from tallystick.toolsets.work.context import Call, Knowledge, Receipts, ToolContext, new_id
from tallystick.toolsets.work.history import graph_history
from tallystick.toolsets.work.next import graph_next
from tallystick.toolsets.work.node_context import graph_context
from tallystick.toolsets.work.onboard import graph_onboard
from tallystick.toolsets.work.plan import graph_plan
from tallystick.toolsets.work.projects import graph_open
from tallystick.toolsets.work.query import graph_query
from tallystick.toolsets.work.restructure import graph_restructure
from tallystick.toolsets.work.update import graph_update
from tallystick.work_settings import WorkSettings


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
    receipts: Receipts | None = None,
) -> Toolset:
    """`knowledge` finds what is known of the files of a node, `receipts` signs that one is done."""
    context = ToolContext(
        clock=clock, settings=settings, knowledge=knowledge, claims=claims, ids=ids, receipts=receipts
    )
    return toolset_with(context)


def toolset_with(tool_context: ToolContext) -> Toolset:
    begin = partial(Call, tool_context)
    return Toolset(
        name="work",
        summary="plan projects as trees of tasks with dependencies, get the next task and claim it, resolve it"
        " with evidence, and see what that unblocks",
        guide={
            "graph_next": "Claim before you work: graph_next with `claim: true` gives you the next todo and keeps"
            " others off it.",
            "graph_update": "When it is done, graph_update: resolved, with evidence.",
            "graph_onboard": "New to a project: graph_onboard.",
        },
        keywords={
            "graph_open": "project list create tasks todo work",
            "graph_plan": "plan todo tasks break down steps backlog dependencies",
            "graph_next": "next task todo what should I do claim start work",
            "graph_context": "task details why parent children dependencies",
            "graph_update": "done finish resolve task evidence status note progress todo",
            "graph_connect": "depends on blocks link tasks",
            "graph_query": "list find tasks todo open blocked done mine",
            "graph_restructure": "move merge drop cancel tasks replan",
            "graph_history": "task history who changed when",
            "graph_onboard": "join project overview status where were we catch up",
        },
        faults="result",
        error_shape=error_shape,
        tools=tuple(make_tool(begin, *row[:5], answer_schema(_ANSWERS, row[5])) for row in _TABLE),
    )


ARRAY = {"type": "array"}

# A name means the same in the answer of every tool.
_ANSWERS: dict[str, dict[str, Any]] = {
    "actionable": ARRAY,
    "ancestors": ARRAY,
    "applied": COUNT,
    "children": OBJECT,
    "context_links": ARRAY,
    "created": {"type": ["array", "boolean"]},
    "depended_by": ARRAY,
    "depends_on": ARRAY,
    "details": ARRAY,
    "edges": ARRAY,
    "events": ARRAY,
    "hint": TEXT,
    "knowledge": OBJECT,
    "more": OBJECT,
    "newly_actionable": ARRAY,
    "next_cursor": TEXT,
    "node": OBJECT,
    "nodes": ARRAY,
    "project": TEXT,
    "projects": ARRAY,
    "receipts": ARRAY,
    "recent_evidence": ARRAY,
    "rejected": ARRAY,
    "root": {"type": ["object", "null"]},
    "summary": OBJECT,
    "task": OBJECT,
    "total": COUNT,
    "tree": ARRAY,
    "updated": ARRAY,
    "warnings": ARRAY,
}

_TABLE: tuple[tuple[Any, type[Any], str, str, str, str], ...] = (
    (graph_open, arguments.OpenArguments, "i", "Open or create a project",
     "Open or create a work project: root node and counts. No arguments: list projects.",
     "projects? project? root? summary? created? warnings?"),
    (graph_plan, arguments.PlanArguments, "", "Plan work nodes",
     "Create work nodes (todos) with parents and dependencies, all or none.", "created warnings?"),
    (graph_next, arguments.NextArguments, "", "Next task",
     "The next todo: the best actionable work node with its context; claim it before working.",
     "nodes hint?"),
    (graph_context, arguments.ContextArguments, "ri", "Around a work node",
     "Read one work node with ancestors, children, dependencies and edges.",
     "node task? ancestors children depends_on depended_by edges? knowledge?"),
    (graph_update, arguments.UpdateArguments, "", "Update work nodes",
     "Change work nodes; resolved: true with evidence when done.",
     "updated newly_actionable? receipts? warnings?"),
    (graph_connect, arguments.ConnectArguments, "d", "Connect work nodes",
     "Add or remove edges between work nodes. 'from' depends_on 'to'.",
     "applied rejected? newly_actionable? warnings?"),
    (graph_query, arguments.QueryArguments, "ri", "Find work nodes",
     "List todos of one work project: open, blocked, done or claimed work nodes.",
     "nodes total next_cursor?"),
    (graph_restructure, arguments.RestructureArguments, "d", "Change the plan",
     "Move, merge or drop (resolve with a reason) work nodes and their subtrees, all or none.",
     "applied details newly_actionable? warnings?"),
    (graph_history, arguments.HistoryArguments, "ri", "History of a work node",
     "Who changed a work node, when and how, newest first; also of merged ones.", "events next_cursor?"),
    (graph_onboard, arguments.OnboardArguments, "ri", "Join a project",
     "Start here when joining a work project: counts, tree, recent evidence, what is actionable.",
     "project summary tree recent_evidence context_links actionable more?"),
)  # fmt: skip

TOOLSET = toolset()
