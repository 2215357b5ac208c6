"""`/work`: the projects, of one of them the board and the tree, and what people do there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from itertools import groupby

import msgspec

from tallystick.engine.store import Target
from tallystick.errors import InvalidArgument
from tallystick.extensions.web.addresses import anchor_of, with_query
from tallystick.extensions.web.dependencies import Dependencies, draw_dependencies
from tallystick.extensions.web.forms import number_of
from tallystick.extensions.web.reports.work_board import ProjectBoard, Projects, TreeRow, list_projects, show_project
from tallystick.extensions.web.visit import Redirect, Visit, told
from tallystick.log.checkpoint import signed_size
from tallystick.policy import Action
from tallystick.state.work import NODE
from tallystick.toolsets.work.context import Call
from tallystick.toolsets.work.next import claim_node

PRIORITY_MAX = 100
_SKIP_MAX = 1_000_000
_OPEN = frozenset({"ready", "claimed", "blocked", "open"})
NEWEST = 50
SHOWN = {"ready": 5, "claimed": 5, "blocked": 5, "done": 3}
"""Cards of a column; the others are folded."""
DONE_SHOWN = 2
"""Tasks below one that are done; the others are folded into a row."""
TABS = ("board", "dependencies", "history")
TREES = ("short", "groups", "whole")

Form = Mapping[str, str]


class FoldedRows(msgspec.Struct, frozen=True):
    """Of the tree: tasks that are done, below the same one as those before."""

    depth: int
    count: int


class WorkView(msgspec.Struct, frozen=True, kw_only=True):
    projects: Projects
    board: ProjectBoard | None
    """Of the project that the address names."""
    tab: str
    tree: str
    """Which rows of the tree are drawn: few of what is done, only what has tasks below it, or all."""
    rows: list[TreeRow | FoldedRows]
    signed: int
    """How many commits of the log are signed: of those there are receipts."""
    shown: dict[str, int]
    """How many cards of each column are not folded."""
    dependencies: Dependencies | None
    may_begin: bool
    """A project, or a task in this one."""
    changeable: list[str]
    """Which tasks of the board the visitor may change."""


async def work(visit: Visit) -> WorkView:
    store, claims = visit.context.offer.store, visit.context.claims
    name, tab, tree = visit.said("project"), _one_of(visit, "tab", TABS), _one_of(visit, "tree", TREES)
    projects = await list_projects(store, visit.principal, claims)
    board = (
        None
        if name is None
        else await show_project(
            store,
            visit.principal,
            claims,
            name,
            skip=visit.number("tree_from", 0, most=_SKIP_MAX),
            newest=NEWEST if tab == "history" else 0,
        )
    )
    cards = [task for column in board.columns for task in column.tasks] if board is not None else []
    ids = list(dict.fromkeys(task.id for task in cards if task.standing in _OPEN))
    may_begin, *may_change = await visit.may(
        Target(Action.WRITE, None, NODE), *(Target(Action.WRITE, task_id) for task_id in ids)
    )
    return WorkView(
        projects=projects,
        board=board,
        tab=tab,
        tree=tree,
        rows=[] if board is None else _ROWS[tree](board.tree),
        shown=SHOWN,
        signed=signed_size(visit.context.home_of(visit.principal.tenant)),
        dependencies=None if board is None else draw_dependencies(row.task for row in board.tree),
        may_begin=may_begin,
        changeable=[task_id for task_id, may in zip(ids, may_change, strict=True) if may],
    )


def _one_of(visit: Visit, name: str, words: tuple[str, ...]) -> str:
    """The first where the address says none."""
    word = visit.said(name) or words[0]
    if word not in words:
        raise InvalidArgument(f"'{name}' in the address must be one of {', '.join(words)}")
    return word


def _short(tree: list[TreeRow]) -> list[TreeRow | FoldedRows]:
    """Of several tasks in a row that are done and have none below them, the first; the others are one row."""
    rows: list[TreeRow | FoldedRows] = []
    for (is_done, depth), found in groupby(tree, lambda row: (_is_done(row), row.depth)):
        group = list(found)
        # A row of its own for one task would save nothing.
        shown = DONE_SHOWN if is_done and len(group) > DONE_SHOWN + 1 else len(group)
        rows += group[:shown]
        if len(group) > shown:
            rows.append(FoldedRows(depth, len(group) - shown))
    return rows


def _is_done(row: TreeRow) -> bool:
    return row.task.standing == "done" and not row.below


def _groups(tree: list[TreeRow]) -> list[TreeRow | FoldedRows]:
    return [row for row in tree if row.below or not row.depth]


_ROWS: dict[str, Callable[[list[TreeRow]], list[TreeRow | FoldedRows]]] = {
    "short": _short,
    "groups": _groups,
    "whole": lambda tree: [*tree],
}


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
