"""The faults of a call on work, in this vocabulary's own codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tallystick.errors import Conflict, InvalidArgument, NotFound
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.work.board import Board, Row
from tallystick.state.work.cycles import find_line, find_way
from tallystick.state.work.graph import WorkGraph
from tallystick.toolsets.truncation import listing
from tallystick.toolsets.work.view import View

_NAMES_SHOWN = 50
_NAMES_BYTES_MAX = 8_000
_PATH_SHOWN = 40
_WITHHELD = "(withheld)"


def get_row(view: View, node_id: str, role: str | None = None) -> Row:
    """Raises NotFound, also for what may not be read; `role` is what the id was given as."""
    row = view.graph.find(node_id)
    if row is None or not view.allows(node_id):
        raise unknown_node(view, node_id, role)
    return row


def unknown_node(view: View, node_id: str, role: str | None = None) -> NotFound:
    survivor = merged_into(view.state, node_id)
    if survivor is not None and not all([view.allows(node_id), view.allows(survivor)]):
        survivor = None
    called = f"'{node_id}'" + (f" ({role})" if role else "")
    return NotFound(
        f"there is no work node {called}" + (f": it was merged into '{survivor}'" if survivor else ""),
        code="node_not_found",
        hint=None if survivor else _where_to_look(view, node_id),
        details={"node_id": node_id} | ({"merged_into": survivor} if survivor else {}),
    )


def _where_to_look(view: View, node_id: str) -> str:
    board = view.graph.project(node_id)
    if board is None or board.root is None or not all([view.allows(board.id), view.allows(board.root)]):
        return "graph_query finds nodes by text"
    return f"project '{board.name}' has the root '{board.root}'"


def merged_into(state: State, node_id: str) -> str | None:
    """The node that this one became part of; from its last version before it was deleted."""
    found = state.lineage(node_id, "direct", 0, 0)
    if found is None or found.current is not None or found.total < 2:
        return None
    last = state.lineage(node_id, "direct", found.total - 2, 1)
    attrs = last.steps[0].commit.document().get("attrs", {}) if last is not None and last.steps else {}
    survivor = attrs.get("merged_into")
    return survivor if isinstance(survivor, str) else None


def get_project(view: View, name: str | None) -> Board:
    """Return a project by its name or its root's id; without a name the only one. Raises NotFound with those there are,
    also for what may not be read."""
    if name is None:
        return _only_project(view)
    board = find_project(view, name)
    if board is None or not view.allows(board.id):
        known = projects_of(view)
        raise NotFound(
            f"there is no project '{name}'",
            code="project_not_found",
            hint="graph_open makes it" if not known else None,
            details=named(known),
        )
    return board


def _only_project(view: View) -> Board:
    boards = projects_of(view)
    if len(boards) != 1:
        raise NotFound(
            "there is no project yet" if not boards else f"there are {len(boards)} projects: say which",
            code="project_not_found",
            hint="graph_open makes one" if not boards else None,
            details=named(boards),
        )
    return boards[0]


def find_project(view: View, name: str) -> Board | None:
    """Also what may not be read. Raises Conflict where several are called so in other spellings, and none in this."""
    board = view.graph.project(name)
    if board is not None:
        return board
    namesakes = view.graph.namesakes(name)
    spellings = view.readable(namesakes, lambda board: board.id)
    if len(spellings) > 1:
        raise Conflict(
            f"there are {len(spellings)} projects that '{name}' could mean",
            code="name_ambiguous",
            hint="spell it as one of them is",
            details=named(spellings),
        )
    return next(iter(spellings or namesakes), None)


def named(boards: list[Board]) -> dict[str, Any]:
    """The first of them, and how many are not named."""
    names = (board.name for board in boards[:_NAMES_SHOWN])
    return listing("projects", names, len(boards), _NAMES_BYTES_MAX, note="projects_omitted")


def projects_of(view: View) -> list[Board]:
    """Those that may be read, oldest first."""
    return view.readable(view.graph.projects(), lambda board: board.id)


def invalid(*problems: str) -> InvalidArgument:
    return InvalidArgument("; ".join(problems), problems=problems, code="validation_error")


def evidence_missing(node_id: str, lacking: Sequence[str]) -> Conflict:
    return Conflict(
        f"'{node_id}' cannot be done without evidence: {', '.join(lacking)}",
        code="evidence_missing",
        hint="add evidence of these types; 'tallystick work done ID --check' runs what is called check:NAME",
        details={"missing": list(lacking)},
    )


def cross_project(what: str) -> Conflict:
    return Conflict(f"{what} are in different projects", code="cross_project")


def check_unused(state: State, ids: Sequence[str]) -> None:
    """`drafts.check_unused` with the code of this vocabulary."""
    if any(map(state.knows, ids)):
        raise Conflict("a new id turned out to be taken", code="id_taken", hint="nothing was written: call again")


def cycle(names: Sequence[str], kind: str = "Dependency", read_filter: ReadFilter | None = None) -> Conflict:
    """`names` begins and ends with the same one; with `read_filter` they are ids."""
    path = shortened(names, read_filter)
    return Conflict(f"{kind} cycle detected: {' -> '.join(path)}", code="cycle_detected", details={"cycle": path})


def check_parent(row: Row, parent: Row, read_filter: ReadFilter) -> None:
    """Raise Conflict if `parent` is the row itself or below it."""
    line = find_line(parent, row)
    if line is not None:
        raise cycle([*(each.id for each in reversed(line)), row.id], "Parent", read_filter)


def check_dependency(graph: WorkGraph, source: Row, target: Row, read_filter: ReadFilter) -> None:
    """Raise Conflict if `target` waits for `source` already."""
    way = find_way(graph, target, source)
    if way is not None:
        raise cycle([source.id, *(row.id for row in way)], read_filter=read_filter)


def shortened(names: Sequence[str], read_filter: ReadFilter | None = None) -> list[str]:
    """Of a long path only the ends are given; what may not be read is neither named nor counted."""
    half = _PATH_SHOWN // 2
    named = list(names) if read_filter is None else _named(names, read_filter)
    if len(named) > _PATH_SHOWN:
        return [*named[:half], f"({len(named) - 2 * half} more)", *named[-half:]]
    return named


def _named(names: Sequence[str], read_filter: ReadFilter) -> list[str]:
    path: list[str] = []
    for name in names:
        if read_filter.allows(name):
            path.append(name)
        elif path[-1:] != [_WITHHELD]:
            path.append(_WITHHELD)
    return path


def check_project_name(graph: WorkGraph, read_filter: ReadFilter, name: str, own: str | None = None) -> None:
    """Raise Conflict if another project than `own` has the name."""
    board = next((each for each in graph.namesakes(name) if each.id != own), None)
    if board is not None:
        raise Conflict(
            f"there is a project '{name}' already",
            code="DUPLICATE_NAME",
            hint="use it, or choose another name: graph_open knows projects by their names",
            details={"id": read_filter.reference(board.id)},
        )
