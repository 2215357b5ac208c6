"""What there is to choose from, for people and programs that do not know yet what to ask for.

Projects, entities that changed last, and what a beginning could be completed to. Every list is short, and holds only
what the caller may read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Literal

import msgspec

from tallystick.errors import InvalidArgument
from tallystick.policy import Action, Principal
from tallystick.state import Breathing
from tallystick.state.knowledge.catalogue import Knowledge, in_order
from tallystick.state.knowledge.globs import Route
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.work.graph import WorkGraph
from tallystick.toolsets.knowledge.path_context import projects_knowing

if TYPE_CHECKING:
    from tallystick.engine.store import Store

Choice = Literal["id", "project", "type", "path"]

PAGE = 50
LISTED_MAX = 500
"""Entities on all pages together: who wants more, searches."""
CHOICES_MAX = 100
PROJECTS_OF_A_PATH_MAX = 20
_SCANNED = 5_000
"""Commits looked at for one page."""
_BREATH = 5_000
_MATCHING_MAX = 10_000
"""More of them are no choice to anybody, and to sort them would keep others waiting."""


class Listed(msgspec.Struct, frozen=True):
    kind: Literal["project", "entity"]
    name: str
    """Of a project its name, of an entity its id."""
    type: str = ""


class Page(msgspec.Struct, frozen=True):
    items: list[Listed]
    cursor: str | None = None
    """Where the next page begins; None where there is none."""


class Choices(msgspec.Struct, frozen=True):
    values: list[str]
    has_more: bool = False


# -- pages: first the projects, then what changed last


async def browse(
    store: Store, principal: Principal, cursor: str | None, *, projects: bool = True, entities: bool = True
) -> Page:
    """Raises InvalidArgument for a cursor that no page had."""
    stage, place, shown = _read_cursor(cursor)

    def look(state: State, read_filter: ReadFilter) -> Page:
        first = _projects(state, read_filter, place) if stage == "p" and projects else Page([])
        room = min(PAGE - len(first.items), LISTED_MAX - shown)
        if first.cursor is not None or not entities or not room:
            return first if first.cursor or not entities else Page(first.items, "e.0.0")
        rest = _entities(state, read_filter, place if stage == "e" else 0, shown, room)
        return Page([*first.items, *rest.items], rest.cursor)

    return await store.read(principal, Action.SEARCH, look)


def _projects(state: State, read_filter: ReadFilter, place: int) -> Page:
    boards = read_filter.readable(state.derived(WorkGraph).projects(), lambda board: board.id)
    items = [Listed("project", board.name) for board in boards[place : place + PAGE] if board.name is not None]
    return Page(items, f"p.{place + PAGE}.0" if len(boards) > place + PAGE else None)


def _entities(state: State, read_filter: ReadFilter, place: int, shown: int, room: int) -> Page:
    found, following = state.changed_before(place or None, _SCANNED)
    chosen = read_filter.first(found, lambda each: read_filter.allows(each[1]), room)
    items = [Listed("entity", node_id, (state.owner(node_id) or ("",))[0]) for _, node_id in chosen]
    if len(chosen) == room:
        following = chosen[-1][0] if chosen else 0
    is_over = following <= 1 or shown + len(chosen) >= LISTED_MAX
    return Page(items, None if is_over else f"e.{following}.{shown + len(chosen)}")


def _read_cursor(cursor: str | None) -> tuple[str, int, int]:
    if cursor is None:
        return "p", 0, 0
    stage, *numbers = cursor[:100].split(".")
    if stage not in ("p", "e") or len(numbers) != 2 or not all(n.isascii() and n.isdigit() for n in numbers):
        problem = "field 'cursor' is none that a page had"
        raise InvalidArgument(problem, problems=[problem])
    return stage, int(numbers[0]), int(numbers[1])


# -- completions


async def choices(store: Store, principal: Principal, kind: Choice, begun: str) -> Choices:
    """What `begun` could become: what begins so first, then what has it inside."""

    def look(state: State, read_filter: ReadFilter) -> Breathing[Choices]:
        if kind == "id" and not begun:
            return _cut((yield from _changed_last(state, read_filter, CHOICES_MAX + 1)))
        matching, is_cut = yield from _matching(_candidates(state, kind), begun)
        allows = _allows(state, read_filter, kind)
        return _cut(read_filter.first(matching, allows, CHOICES_MAX + 1), is_cut)

    return await store.read(principal, Action.SEARCH, look)


async def projects_of_path(store: Store, principal: Principal, path: str) -> list[str]:
    """The ids of the projects that know something of it."""
    return await store.read(
        principal,
        Action.SEARCH,
        lambda state, read_filter: projects_knowing(state, path, read_filter, PROJECTS_OF_A_PATH_MAX),
    )


def _cut(names: list[str], is_cut: bool = False) -> Choices:
    return Choices(names[:CHOICES_MAX], is_cut or len(names) > CHOICES_MAX)


def _changed_last(state: State, read_filter: ReadFilter, count: int) -> Breathing[list[str]]:
    """Return the ids of the readable entities that changed last. Reads back until there are so many."""
    names: list[str] = []
    place: int | None = None
    while place != 0 and len(names) < count and not read_filter.pending:
        found, following = state.changed_before(place, _SCANNED)
        chosen = read_filter.first(found, lambda each: read_filter.allows(each[1]), count - len(names))
        names += [node_id for _, node_id in chosen]
        place = following if following > 1 else 0
        yield
    return names


def _matching(candidates: Iterable[str], begun: str) -> Breathing[tuple[list[str], bool]]:
    """Return the names that match, and whether there are more of them."""
    wanted = begun.casefold()
    first: dict[str, None] = {}
    second: dict[str, None] = {}
    is_cut = False
    for number, name in enumerate(candidates, 1):
        folded = name.casefold()
        if folded.startswith(wanted):
            first[name] = None
        elif wanted in folded:
            if len(second) < _MATCHING_MAX:
                second[name] = None
            else:
                is_cut = True
        if len(first) >= _MATCHING_MAX:
            is_cut = True
            break
        if number % _BREATH == 0:
            yield
    return [*sorted(first), *sorted(second)], is_cut


def _candidates(state: State, kind: Choice) -> Iterable[str]:
    match kind:
        case "id":
            # A copy: others may write while this one pauses.
            return list(state.living_ids())
        case "project":
            return [board.name for board in state.derived(WorkGraph).projects() if board.name is not None]
        case "type":
            return state.types()
        case "path":
            return list(_paths(state))


def _allows(state: State, read_filter: ReadFilter, kind: Choice) -> Callable[[str], bool]:
    match kind:
        case "id":
            return lambda name: (
                read_filter.allows(name) if state.owner(name) is not None else read_filter.allows_edge(name)
            )
        case "project":
            named: dict[str | None, list[str]] = {}
            for board in state.derived(WorkGraph).projects():
                named.setdefault(board.name, []).append(board.id)
            return lambda name: any(read_filter.allows(board_id) for board_id in named.get(name, ()))
        case "type":
            return lambda name: bool(read_filter.first(state.nodes_of_type(name), read_filter.allows, 1))
        case "path":
            owners: dict[str, list[str]] = {}
            for atom in state.derived(Knowledge).atoms.values():
                for route in atom.routes:
                    owners.setdefault(_literal(route), []).append(atom.id)
            return lambda path: any(read_filter.allows(atom_id) for atom_id in owners.get(path, ()))


def _paths(state: State) -> Iterator[str]:
    for atom in in_order(state.derived(Knowledge).atoms.values()):
        yield from filter(None, map(_literal, atom.routes))


def _literal(route: Route) -> str:
    """The file, or the directory up to where the pattern begins to vary."""
    parts: list[str] = []
    for segment in route:
        if not isinstance(segment, str):
            return "/".join([*parts, ""]) if parts else ""
        parts.append(segment)
    return "/".join(parts)
