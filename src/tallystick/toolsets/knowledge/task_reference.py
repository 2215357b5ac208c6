"""The task that knowledge comes from: the one that is named, or else the only one that the caller has claimed."""

from __future__ import annotations

from itertools import islice

from tallystick.errors import InvalidArgument
from tallystick.policy import Principal
from tallystick.state.work.graph import WorkGraph
from tallystick.toolsets.envelope import not_found
from tallystick.toolsets.knowledge.context import ToolContext
from tallystick.toolsets.knowledge.lookup import find_task
from tallystick.toolsets.knowledge.view import View

_CLAIMS_NAMED = 20


def get_task(tool_context: ToolContext, view: View, reference: str) -> str:
    found = find_task(view, reference)
    if found is None:
        raise not_found("task", reference, how_tasks_are_made(tool_context))
    return found


def how_tasks_are_made(tool_context: ToolContext) -> str:
    if tool_context.tasks_are_made_by is None:
        return "no tool of this server makes tasks: start it with work among its --toolsets, then graph_plan does"
    return f"{tool_context.tasks_are_made_by} makes tasks"


def task_of_creation(
    tool_context: ToolContext, view: View, principal: Principal, project_id: str, reference: str | None
) -> str:
    if reference is not None:
        return get_task(tool_context, view, reference)
    graph = view.state.derived(WorkGraph)
    board = graph.boards.get(project_id)
    held = tool_context.work.held_by(principal, view.state, graph, board) if board is not None else iter(())
    claims = [row.id for row in islice((row for row in held if view.allows(row.id)), _CLAIMS_NAMED)]
    if len(claims) == 1:
        return claims[0]
    if claims:
        raise InvalidArgument(
            f"createdByTaskId is required for create operation: you have claimed {', '.join(claims)}",
            hint="say which of them this comes from",
            details={"claims": claims},
        )
    root = view.reference(board.root) if board is not None else None
    raise InvalidArgument(
        "createdByTaskId is required for create operation", hint=_how_to_make_one(tool_context, project_id, root)
    )


def _how_to_make_one(tool_context: ToolContext, project_id: str, root: str | None) -> str:
    if tool_context.tasks_are_made_by is None:
        return how_tasks_are_made(tool_context)
    if tool_context.tasks_are_made_by == "graph_plan":
        parent = f'"parent_ref": "{root}", ' if root else ""
        call = f'graph_plan {{"nodes": [{{"ref": "1", {parent}"summary": "…"}}]}}'
    else:
        call = (
            f'manage_container {{"operation": "create", "containerType": "task", "projectId": "{project_id}",'
            ' "title": "…", "summary": "…", "priority": "MEDIUM", "complexity": 5}'
        )
    return f"{call} makes a task; one that you have claimed is meant by itself"
