"""`/work`: the projects, of one of them the board and the tree, and what people do there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from tallystick.errors import InvalidArgument
from tallystick.operations.work_board import ProjectBoard, Projects, list_projects, show_project
from tallystick.policy import Action
from tallystick.server.web.addresses import anchor_of, with_query
from tallystick.server.web.dependencies import Dependencies, draw_dependencies
from tallystick.server.web.forms import number_of
from tallystick.server.web.visit import Redirect, Visit, told
from tallystick.state.work import NODE
from tallystick.store import Target
from tallystick.toolsets.work.context import Call
from tallystick.toolsets.work.next import claim_node

PRIORITY_MAX = 100
_SKIP_MAX = 1_000_000
_OPEN = frozenset({"ready", "claimed", "blocked", "open"})

Form = Mapping[str, str]


class WorkView(msgspec.Struct, frozen=True, kw_only=True):
    projects: Projects
    board: ProjectBoard | None
    """Of the project that the address names."""
    dependencies: Dependencies | None
    may_begin: bool
    """A project, or a task in this one."""
    changeable: list[str]
    """Which tasks of the board the visitor may change."""


async def work(visit: Visit) -> WorkView:
    store, claims = visit.context.offer.store, visit.context.claims
    name = visit.said("project")
    projects = await list_projects(store, visit.principal, claims)
    board = (
        None
        if name is None
        else await show_project(store, visit.principal, claims, name, skip=visit.number("tree_from", 0, most=_SKIP_MAX))
    )
    cards = [task for column in board.columns for task in column.tasks] if board is not None else []
    ids = list(dict.fromkeys(task.id for task in cards if task.standing in _OPEN))
    may_begin, *may_change = await visit.may(
        Target(Action.WRITE, None, NODE), *(Target(Action.WRITE, task_id) for task_id in ids)
    )
    return WorkView(
        projects=projects,
        board=board,
        dependencies=None if board is None else draw_dependencies(row.task for row in board.tree),
        may_begin=may_begin,
        changeable=[task_id for task_id, may in zip(ids, may_change, strict=True) if may],
    )


async def act_on_work(visit: Visit, form: Form) -> Redirect:
    visit.check_may_act()
    act = form.get("act", "")
    if act not in _ACTS:
        raise InvalidArgument(f"'act' must be one of {', '.join(_ACTS)}")
    return await _ACTS[act](visit, form)


async def _begin(visit: Visit, form: Form) -> Redirect:
    name, goal = form.get("name", "").strip(), form.get("goal", "").strip()
    if not name:
        raise InvalidArgument("a project needs a name")
    await visit.act("graph_open", project=name, goal=goal or None)
    return Redirect(with_query("/work", project=name))


async def _add(visit: Visit, form: Form) -> Redirect:
    node = {"ref": "new", "parent_ref": form.get("parent", ""), "summary": form.get("summary", "").strip()}
    priority = _priority(form)
    if priority is not None:
        node["properties"] = {"priority": priority}  # type: ignore[assignment]  # it is JSON
    made = await visit.act("graph_plan", nodes=[node])
    return _back(visit, made["created"][0]["id"])


async def _claim(visit: Visit, form: Form) -> Redirect:
    context, task = visit.context, form.get("task", "")
    with told():
        await claim_node(Call(context.knowledge.work, context.offer.store, visit.principal, "graph_next"), task)
    return _back(visit, task)


async def _resolve(visit: Visit, form: Form) -> Redirect:
    evidence = {"type": form.get("evidence", "").strip(), "ref": form.get("ref", "").strip()}
    if not all(evidence.values()):
        raise InvalidArgument("say what shows that it is done: a commit, a test, a note")
    update = {"node_id": form.get("task", ""), "resolved": True, "add_evidence": [evidence]}
    await visit.act("graph_update", updates=[update])
    return _back(visit, form.get("task", ""))


async def _prioritise(visit: Visit, form: Form) -> Redirect:
    update = {"node_id": form.get("task", ""), "properties": {"priority": _priority(form)}}
    await visit.act("graph_update", updates=[update])
    return _back(visit, form.get("task", ""))


def _priority(form: Form) -> int | None:
    text = form.get("priority", "").strip()
    if not text:
        return None
    priority = number_of(text, PRIORITY_MAX)
    if priority is None:
        raise InvalidArgument(f"a priority is a number from 0 to {PRIORITY_MAX}")
    return priority


def _back(visit: Visit, task: str) -> Redirect:
    return Redirect(f"{with_query('/work', project=visit.said('project'))}#{anchor_of(task)}")


_ACTS: dict[str, Callable[[Visit, Form], Awaitable[Redirect]]] = {
    "begin": _begin,
    "add": _add,
    "claim": _claim,
    "resolve": _resolve,
    "prioritise": _prioritise,
}
