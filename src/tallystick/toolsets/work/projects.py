"""graph_open: the projects there are, one of them at a glance, or a new one."""

from __future__ import annotations

import uuid

from tallystick.errors import Conflict, TallystickError
from tallystick.policy import Action
from tallystick.state import Node
from tallystick.state.work import PROJECT
from tallystick.state.work.board import Board
from tallystick.state.work.draft_builder import DraftBuilder
from tallystick.toolsets import Answer, JsonObject
from tallystick.toolsets.truncation import listing, room_for
from tallystick.toolsets.work.answers import ANSWER_BYTES_MAX, counts_of, node_of
from tallystick.toolsets.work.arguments import OpenArguments
from tallystick.toolsets.work.context import Call
from tallystick.toolsets.work.errors import check_unused, find_project, invalid, projects_of
from tallystick.toolsets.work.view import View

_ATTEMPTS = 3


async def graph_open(call: Call, asked: OpenArguments) -> Answer:
    name = asked.project
    if name is None:
        if asked.goal is not None:
            raise invalid("field 'goal' needs 'project', the name of the project to create")
        room = room_for(call.principal, ANSWER_BYTES_MAX)
        return Answer(await call.read(Action.SEARCH, lambda view: _listed(view, room)))
    board_id, answer = await _open_or_create(call, name, asked.goal)
    call.context.remember(call.principal, board_id)
    if asked.goal is not None and "created" not in answer:
        answer["warnings"] = ["the project exists: 'goal' is used for a new one only"]
    return Answer(answer)


async def _open_or_create(call: Call, name: str, goal: str | None) -> tuple[str, JsonObject]:
    project_id: str | None = None
    # Another agent's project may be seen here and yet not reach the disk: then it is ours to make.
    for _ in range(_ATTEMPTS):
        try:
            found = await call.read(Action.READ, lambda view: _seen(view, name))
        except TallystickError:
            if project_id is None:
                raise
            # It is written, if its author may not read it.
            return project_id, {"project": name.strip(), "created": True}
        if found is not None:
            board_id, answer = found
            return board_id, answer | ({"created": True} if project_id is not None else {})
        project_id = await _create(call, name, goal)
    raise Conflict(f"project '{name}' could not be made", hint="nothing was written: call again")


async def _create(call: Call, name: str, goal: str | None) -> str | None:
    """The id of the new project; None when another agent was first."""
    if not name.strip():
        raise invalid("field 'project' must not be blank")
    root_id, project_id, name = call.context.ids(), uuid.uuid4().hex, name.strip()

    def draw(builder: DraftBuilder, view: View) -> None:
        if not builder.graph.namesakes(name):
            check_unused(builder.state, [root_id, project_id])
            found(builder, project_id=project_id, root_id=root_id, name=name, goal=goal)

    _, receipt = await call.write(draw)
    return None if receipt is None else project_id


def found(builder: DraftBuilder, *, project_id: str, root_id: str, name: str, goal: str | None) -> None:
    """Sketch a project and the root of its work. Whoever makes projects makes them so."""
    summary = goal or name
    builder.put(project_id, {"name": name, "root": root_id, "summary": summary}, PROJECT)
    builder.put(root_id, {"project": project_id, "parent": None, "summary": summary, "resolved": False, "rev": 1})


def _seen(view: View, name: str) -> tuple[str, JsonObject] | None:
    board = find_project(view, name)
    if board is None:
        return None
    if not view.allows(board.id):
        raise Conflict(f"there is a project '{name}' that you may not read", code="name_taken", hint="use another name")
    root = _root(view, board)
    shown = node_of(view, root) if root is not None else None
    return board.id, {"project": board.name, "root": shown, "summary": counts_of(view, board)}


def _listed(view: View, bytes_max: int) -> JsonObject:
    boards = projects_of(view)
    lines = (_line(view, board) for board in boards)
    hint = f"memory.search with type {PROJECT} pages through all of them"
    return listing("projects", lines, len(boards), bytes_max, hint=hint)


def _line(view: View, board: Board) -> JsonObject:
    counts = counts_of(view, board)
    project = view.node(board.id)
    updates = (view.graph.by_update[each] for each in reversed(board.updates))
    newest = [view.node(row.id) for row in view.first(updates, 1)]
    root = _root(view, board)
    entry: JsonObject = {
        "id": root.id if root is not None else None,
        "project": board.name,
        "summary": (root or project).attrs.get("summary"),
        **{name: counts[name] for name in ("total", "resolved", "dropped", "unresolved", "partial") if name in counts},
        "updated_at": (newest or [project])[0].provenance.timestamp,
    }
    return view.warned(root.id if root is not None else board.id, entry)


def _root(view: View, board: Board) -> Node | None:
    row = view.graph.find(board.root) if board.root is not None else None
    return view.state.node(row.id) if row is not None and view.allows(row.id) else None
