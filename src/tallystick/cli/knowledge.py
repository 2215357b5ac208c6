"""The commands about knowledge: what an agent would be told of some files, and what is out of date."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from tallystick.cli.options import Base, Json, Tenant, command_group, existing
from tallystick.cli.output import Styled, emit, note, say, table, visible
from tallystick.cli.tool_client import principal
from tallystick.config import Settings
from tallystick.errors import InvalidArgument, NotFound
from tallystick.operations import counted

if TYPE_CHECKING:
    from tallystick.engine.store import Store
    from tallystick.state.state import State
    from tallystick.toolsets.knowledge.context import ToolContext

T = TypeVar("T")
Projects = dict[str, str]
"""Id → name, oldest first."""
_NODES_AT_ONCE = 500

commands = command_group("What agents know of the code: by file, and what is out of date.")

Project = Annotated[
    str | None,
    typer.Option("--project", metavar="NAME", help="Its name or id; needed when there are several."),
]
Repo = Annotated[
    Path | None,
    typer.Option(
        "--repo",
        metavar="DIR",
        help="What paths are relative to. [default: the root of the git work tree around the working directory]",
    ),
]


@commands.command("for")
def for_(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Files, from here or from the root of the repository.")
    ],
    project: Project = None,
    repo: Repo = None,
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Print what an agent would be told of these files.

    \b
    Examples:
      tallystick knowledge for src/checkout/page.ts
      tallystick knowledge for --project shop $(git diff --name-only)
      tallystick knowledge for src/cart.ts --json
    """
    settings = existing(base=base, tenant=tenant)

    async def ask(store: Store, tool_context: ToolContext) -> dict[str, Any]:
        from tallystick.server.dispatch import prepare
        from tallystick.toolsets.knowledge import make_toolset

        project_id = _chosen(await _projects(settings, store), project)
        tool = make_toolset(tool_context).tools[0]
        root = tool_context.repository.root.absolute()
        named = [path_in_repository(path, root) for path in paths]
        asked = {"operation": "context", "projectId": project_id, "paths": named}
        data: dict[str, Any] = (await tool.call(store, principal(settings), prepare(tool, asked))).data["data"]
        return data

    found = _asked(settings, repo, ask)
    if json:
        emit(found)
    else:
        _draw(found)


@commands.command("stale")
def stale(
    project: Annotated[
        str | None, typer.Option("--project", metavar="NAME", help="Its name or id. [default: every project]")
    ] = None,
    repo: Repo = None,
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """List the knowledge whose files changed since it was pinned, or that matches none.

    With the setting stale_makes_work, each whose files changed gets a work node to verify it, unless it has one.

    \b
    Examples:
      tallystick knowledge stale
      tallystick knowledge stale --project shop --json
    """
    settings = existing(base=base, tenant=tenant)

    async def ask(store: Store, tool_context: ToolContext) -> list[dict[str, Any]]:
        from tallystick.toolsets.knowledge.reverify import add_work
        from tallystick.toolsets.knowledge.stale import find_stale

        projects = await _projects(settings, store)
        project_id = None if project is None else _chosen(projects, project)
        found = await find_stale(tool_context, store, principal(settings), project_id)
        if settings.stale_makes_work:
            for start in range(0, len(found), _NODES_AT_ONCE):
                several = found[start : start + _NODES_AT_ONCE]
                await add_work(
                    tool_context, store, principal(settings), several, tool="knowledge_stale", most=len(several)
                )
        return [atom | {"project": projects.get(atom["projectId"], atom["projectId"])} for atom in found]

    atoms = _asked(settings, repo, ask)
    if json:
        emit({"atoms": atoms})
        return
    table(
        ("atom", "id", "project", "pinned", "changed"),
        ((atom["name"], atom["id"], atom["project"], atom["pinnedAt"], _changed(atom)) for atom in atoms),
    )
    note(f"{counted(len(atoms), 'atom')} to look at again")


# -- asking


def _asked(settings: Settings, repo: Path | None, ask: Callable[[Store, ToolContext], Awaitable[T]]) -> T:
    from tallystick import app
    from tallystick.system.git import find_work_tree
    from tallystick.toolsets.knowledge import make_tool_context

    tool_context = make_tool_context(repo=repo or (Path(settings.repo) if settings.repo else None), base=settings.base)
    if find_work_tree(tool_context.repository.root.absolute()) is None:
        note(f"there is no git work tree around {visible(str(tool_context.repository.root))}: paths are relative to it")

    async def run() -> T:
        async with app.opened(settings) as store:
            return await ask(store, tool_context)

    return asyncio.run(run())


async def _projects(settings: Settings, store: Store) -> Projects:
    from tallystick.policy import Action
    from tallystick.state.work.graph import WorkGraph

    def look(state: State, read_filter: object) -> Projects:
        return {board.id: board.name or board.id for board in state.derived(WorkGraph).projects()}

    return await store.read(principal(settings), Action.SEARCH, look)


def _chosen(projects: Projects, wanted: str | None) -> str:
    from tallystick.toolsets.envelope import find_uuid

    if wanted is None:
        if len(projects) == 1:
            return next(iter(projects))
        if projects:
            raise InvalidArgument("there are several projects: name one with --project", hint=_listed(projects))
        raise NotFound("there is no project yet", hint="agents make projects with graph_open or manage_container")
    for project_id, name in projects.items():
        if wanted in (name, project_id) or find_uuid(wanted) == project_id:
            return project_id
    raise NotFound(f"there is no project '{wanted}'", hint=_listed(projects) if projects else None)


def _listed(projects: Projects) -> str:
    return "the projects are " + ", ".join(list(projects.values())[:20])


def path_in_repository(path: str, root: Path) -> str:
    """Shells and people name files from where they are, or absolutely, perhaps by way of a symbolic link to the
    repository; git and agents from its root. What is neither here nor begins with a dot is meant so."""
    is_from_here = path.startswith(("./", "../")) or os.path.lexists(path)
    if not os.path.isabs(path) and not is_from_here:
        return path
    absolute = Path(os.path.abspath(path))
    # The last part may be a link that belongs to the repository.
    for place, above in ((absolute, root), (absolute.parent.resolve() / absolute.name, root.resolve())):
        if place.is_relative_to(above):
            return str(place.relative_to(above)) + ("/" if path.endswith("/") else "")
    return path


# -- drawing


def _draw(found: dict[str, Any]) -> None:
    for molecule in found["molecules"]:
        _say(molecule["name"], 0, bold=True)
        _tell(molecule["knowledge"], 1)
        for atom in molecule["atoms"]:
            _draw_atom(atom, 1)
    for atom in found["orphanAtoms"]:
        _draw_atom(atom, 0)
    if found.get("atomsOmitted"):
        note(f"and {counted(found['atomsOmitted'], 'atom')} more: name fewer files")
    if found["unmatchedPaths"]:
        _say("nothing is known of " + ", ".join(found["unmatchedPaths"]), 0)


def _draw_atom(atom: dict[str, Any], depth: int) -> None:
    _say(f"{atom['name']}: {', '.join(atom['matchedPaths'])}", depth, bold=True)
    if atom.get("fresh") is False and atom.get("changedFiles") != []:
        _say(f"out of date: {_changed(atom)} changed since {atom.get('pinnedAt', 'it was pinned')}", depth + 1)
    if atom.get("matchesNothing"):
        _say(_unmatched(atom), depth + 1)
    _tell(atom["knowledge"], depth + 1)
    for other in atom["relatedAtoms"]:
        _say(f"see {other['name'] or other['atomId']}: {other['reason']}", depth + 1)
    for entry in atom.get("changelog", ()):
        _say(f"{entry['createdAt']}  {entry['summary']}", depth + 1)


def _changed(atom: dict[str, Any]) -> str:
    files = atom.get("changedFiles")
    if files is None:
        return "some files"
    if not files:
        return _unmatched(atom)
    more = [f"{atom['changedFilesOmitted']} more"] if "changedFilesOmitted" in atom else []
    return ", ".join([*files, *more])


def _unmatched(atom: dict[str, Any]) -> str:
    return f"no file matches {', '.join(atom['matchesNothing'])}"


def _tell(text: str, depth: int) -> None:
    for line in text.splitlines():
        _say(line, depth)


def _say(line: str, depth: int, *, bold: bool = False) -> None:
    say("  " * depth, Styled(line, bold=bold))
