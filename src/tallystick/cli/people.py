"""The commands for people who have no agent at hand: status, remember, ask."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from tallystick.cli import completion
from tallystick.cli.knowledge import path_in_repository
from tallystick.cli.options import Base, Json, Tenant, existing, settled
from tallystick.cli.output import Styled, emit, note, say, table
from tallystick.cli.reading import similar_ids
from tallystick.cli.tool_client import ask as ask_tool
from tallystick.cli.tool_client import ask_each
from tallystick.config import Settings, why_this_base
from tallystick.errors import InvalidArgument, NotFound
from tallystick.operations import counted
from tallystick.telemetry.logs import printable

NAME_CHARACTERS = 60
SLUG_WORDS = 5
TYPES_SHOWN = 8


def status(json: Json = False, base: Base = None, tenant: Tenant = None) -> None:
    """Say what is here and what comes next.

    'tallystick' alone does the same.

    \b
    Examples:
      tallystick
      tallystick status --json
    """
    settings = settled(base=base, tenant=tenant)
    if not settings.has_log:
        _begin(settings, json=json)
        return
    facets, opened = ask_each(settings, ("memory.search", {"facets": True}), ("graph_open", {}))
    known = {"base": str(settings.home), "position": facets["position"], "facets": facets["facets"]}
    if json:
        emit({**known, "projects": opened["projects"]})
        return
    say(Styled("Tallystick", bold=True), f"  {settings.home} ({why_this_base(settings.base)})")
    types = facets["facets"]["types"]
    said = ", ".join(map(_type_count, types[:TYPES_SHOWN]))
    say(f"  {counted(facets['position'], 'commit')}; {said or 'no entities'}{' …' if types[TYPES_SHOWN:] else ''}")
    if any("count" not in each for each in types):
        note("entities are not counted: the policy may withhold some of them from you")
    _draw_projects(opened["projects"])
    _draw_steps(
        ("tallystick ask 'what do we know about …'", "find what is known"),
        ("tallystick remember '…'", "write something down"),
        ("tallystick work", "who works on what"),
        ("tallystick log -f", "what agents write, as they write it"),
        ("tallystick stale", "what may not be true any more"),
    )


def _type_count(facet: dict[str, Any]) -> str:
    """The name of a type, after its count if the caller may read everything."""
    return f"{facet['count']} {facet['name']}" if "count" in facet else str(facet["name"])


def _begin(settings: Settings, *, json: bool) -> None:
    if json:
        emit({"base": str(settings.home), "position": 0, "projects": []})
        return
    say(f"There is no memory yet in {settings.home} ({why_this_base(settings.base)}).")
    _draw_steps(
        ("tallystick init", "connect the agents of this repository"),
        ("tallystick remember '…'", "write the first thing down yourself"),
        ("tallystick import --from", "bring what another program remembers"),
        ("tallystick serve --http", "serve a memory to more than one client"),
        ("tallystick --help", "everything else"),
    )


def _draw_projects(projects: list[dict[str, Any]]) -> None:
    if projects:
        rows = ((each["project"], f"{each['resolved']} of {each['total']}", each["summary"]) for each in projects)
        table(("project", "done", "goal"), rows)


def _draw_steps(*steps: tuple[str, str]) -> None:
    table(("next", ""), steps)


# -- writing


def remember(
    words: Annotated[list[str], typer.Argument(metavar="TEXT...", help="What is to be remembered.")],
    about: Annotated[
        list[str] | None,
        typer.Option(
            "--about",
            metavar="ID",
            help="An entity that it is about; may be repeated.",
            autocompletion=completion.entities,
        ),
    ] = None,
    paths: Annotated[
        list[str] | None,
        typer.Option("--paths", metavar="GLOB", help="Files that it is about: agents are told when they open them."),
    ] = None,
    type: Annotated[
        str, typer.Option("--type", "-t", metavar="TYPE", help="What it is.", autocompletion=completion.types)
    ] = "Note",
    id: Annotated[str | None, typer.Option("--id", help="Its id. [default: made from the text]")] = None,
    project: Annotated[
        str | None,
        typer.Option(
            "--project",
            metavar="NAME",
            help="With --paths: whose files. [default: the only one, else the repository's name]",
            autocompletion=completion.projects,
        ),
    ] = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Why it is written down.")] = None,
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Write something down, as an agent would.

    The same text again is the same entity. With --paths it becomes knowledge of those files, tied to their state in
    git: 'tallystick stale' tells when they have changed since.

    \b
    Examples:
      tallystick remember 'a refund is never retried' --about billing
      tallystick remember 'the cart is locked while it is paid for' --paths 'src/checkout/**'
      tallystick remember 'we use Stripe' --type Decision --reason 'meeting of May'
    """
    settings = settled(base=base, tenant=tenant)
    text = " ".join(words).strip()
    about = about or []
    if not text:
        raise InvalidArgument("there is nothing to remember", hint="tallystick remember 'a refund is never retried'")
    if paths:
        if about:
            raise InvalidArgument(
                "--about and --paths exclude each other: knowledge of files is linked to files",
                hint="say it twice, or name the entity in the text",
            )
        made = _remember_of_files(settings, text, paths, project)
    else:
        named = id or _name(text)
        node = {"op": "UPSERT_NODE", "node": {"id": named, "type": type, "attrs": {"text": text}}}
        made = {
            "id": named,
            "type": type,
            **_write(settings, [node, *(_edge(named, each) for each in about)], reason, about),
        }
    if json:
        emit(made)
        return
    say("remembered as ", Styled(made["id"], bold=True))
    for each in made.get("similar", []):
        note(f"something like it is known: {each['id']}")
    for pattern in made.get("matchesNothing", []):
        note(f"no file matches {pattern} yet: patterns are relative to {_root(settings)}")


def _write(
    settings: Settings, operations: list[dict[str, Any]], reason: str | None, about: list[str]
) -> dict[str, Any]:
    try:
        return ask_tool(settings, "memory.write", {"ops": operations, "reason": reason})
    except NotFound as error:
        unknown = [each for each in about if f"'{each}'" in error.message]
        meant = similar_ids(settings, unknown[0]) if unknown else []
        if meant:
            raise NotFound(error.message, code=error.code, hint=f"did you mean {' or '.join(meant)}?") from error
        raise


def _edge(source: str, target: str) -> dict[str, Any]:
    return {"op": "UPSERT_EDGE", "edge": {"from": source, "rel": "about", "to": target, "attrs": {}}}


def _remember_of_files(settings: Settings, text: str, paths: list[str], project: str | None) -> dict[str, Any]:
    [opened] = ask_each(settings, ("graph_open", {}))
    names = [each["project"] for each in opened["projects"]]
    root = _root(settings)
    # A directory may be called as no project can be.
    chosen = project or (names[0] if len(names) == 1 else printable(root.name))
    [ready] = ask_each(settings, ("graph_open", {"project": chosen, "goal": chosen}))
    asked = {
        "operation": "create",
        "entityType": "atom",
        "projectId": ready["root"]["id"],
        "createdByTaskId": ready["root"]["id"],
        "name": text[:NAME_CHARACTERS],
        "paths": [path_in_repository(path, root) for path in paths],
        "knowledge": text,
        "pin": True,
    }
    made = ask_tool(settings, "manage_graph", asked)["data"]["atom"]
    [kept] = ask_each(settings, ("query_graph", {"operation": "get", "entityType": "atom", "id": made["id"]}))
    atom: dict[str, Any] = kept["data"]["atom"]
    return atom


def _root(settings: Settings) -> Path:
    """What patterns are relative to."""
    from tallystick.system.git import find_work_tree

    named = Path(settings.repo) if settings.repo else find_work_tree(Path.cwd()) or Path.cwd()
    return named.absolute()


def _name(text: str) -> str:
    """Readable, and the same for the same text."""
    slug = "-".join(re.findall(r"[a-z0-9]+", text.casefold())[:SLUG_WORDS])
    return f"{slug or 'note'}-{hashlib.sha256(text.encode('utf-8', 'backslashreplace')).hexdigest()[:6]}"


# -- asking


def ask(
    words: Annotated[list[str], typer.Argument(metavar="QUESTION...", help="As you would ask a person.")],
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=50, help="At most this many.")] = 5,
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Ask what is known, and see who said so.

    The best first, in whatever vocabulary it was written. 'tallystick search' narrows by type, attribute and time.

    \b
    Examples:
      tallystick ask what do we know about billing
      tallystick ask 'who owns the ledger?' --limit 1
      tallystick ask retries --json
    """
    settings = existing(base=base, tenant=tenant)
    page = ask_tool(settings, "memory.search", {"query": " ".join(words), "limit": limit})
    if json:
        emit(page)
        return
    for hit in page["entities"]:
        flags = "".join(f"[{flag}] " for flag in ("untrusted", "stale") if flag in hit)
        say(f"{flags}{hit['text'] or hit['id']}")
        say(Styled(f"    {hit['id']} · {hit['type']} · by {hit['created_by']} · {hit['date']}", dim=True))
    if "deleted" in page:
        note(f"'{page['deleted']}' was deleted; its history: tallystick lineage {page['deleted']}")
    if not page["entities"]:
        note("nothing is known about it")
        if page.get("nearest"):
            note(f"words that look like it: {', '.join(page['nearest'])}")
