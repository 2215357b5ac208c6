"""The commands that look: log, show, search, lineage."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tallystick.cli.filters import parse_filters, parse_moment
from tallystick.cli.options import Base, Json, Limit, Tenant, existing
from tallystick.cli.output import Styled, emit, emit_json, note, say, table, visible, write
from tallystick.cli.tool_client import ask
from tallystick.errors import NotFound

if TYPE_CHECKING:
    from tallystick.commits import Commit
    from tallystick.log import Entry

AsOf = Annotated[
    str | None,
    typer.Option("--as-of", metavar="MOMENT", help="As it was: a commit id, a position or an ISO 8601 time."),
]
Offset = Annotated[int, typer.Option("--offset", min=0, help="Skip this many.")]


def log(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is written from now on.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="The newest so many.")] = 20,
    actor: Annotated[str | None, typer.Option("--actor", metavar="NAME", help="Only what this one wrote.")] = None,
    entity: Annotated[
        str | None, typer.Option("--entity", metavar="ID", help="Only what concerns this node or edge.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the stored lines, one JSON object each.")] = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Show the newest commits: who wrote what, when, why.

    The newest come last.

    \b
    Examples:
      tallystick log
      tallystick log -f --actor planner
      tallystick log --entity task-7 --limit 5
      tallystick log --json --limit 100
    """
    from tallystick import app
    from tallystick.operations.log_tail import follow as followed
    from tallystick.operations.log_tail import newest

    def wanted(commit: Commit) -> bool:
        return (actor is None or commit.actor == actor) and (entity is None or entity in subjects(commit))

    show_entry = _print_line if json else _draw

    async def run() -> None:
        async with context.open_store() as store:
            found, position = await newest(context, store, limit=limit, wanted=wanted)
            for entry in found:
                show_entry(entry)
            if follow:
                await followed(context, store, position, wanted=wanted, show=show_entry)

    context = app.operation_context(existing(base=base, tenant=tenant))
    asyncio.run(run())


def show(
    id: Annotated[str, typer.Argument(metavar="ID", help="Of a node or an edge.")],
    as_of: AsOf = None,
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Show one entity, now or at a moment of the past.

    With its edges, and who wrote it.

    \b
    Examples:
      tallystick show task-7
      tallystick show task-7 --as-of 2026-03-01
      tallystick show task-7 --as-of 41 --json
    """
    settings = existing(base=base, tenant=tenant)
    asked = {"entity_id": id, "as_of": parse_moment(as_of), "include_edges": True}
    answer = ask(settings, "memory.read", asked)
    if json:
        emit(answer)
    if answer["entity"] is None:
        when = f" as of {as_of}" if as_of else ""
        raise NotFound(f"there is no '{id}'{when} in {settings.home}", hint=f"its history: tallystick lineage {id}")
    if not json:
        _draw_entity(answer)


def search(
    terms: Annotated[
        list[str] | None, typer.Argument(metavar="[TYPE] [KEY=VALUE]...", help="A type, and tests on attributes.")
    ] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="Last written then or later.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Last written before then.")] = None,
    limit: Limit = 20,
    offset: Offset = 0,
    as_of: AsOf = None,
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Find nodes by type, attributes and time.

    \b
    key=value  equal           key>5  key>=5  key<5  key<=5   larger, smaller
    key!=value different       key~pattern                    regular expression
    key=["a","b"] one of them  key?                           is there at all
    Keys may be dotted (address.city). Quote what your shell would take for itself.

    \b
    Examples:
      tallystick search Task
      tallystick search Task status=open 'priority>=3'
      tallystick search 'title~^Fix' --since 2026-01-01 --limit 50
      tallystick search Task 'status=["open","late"]' --json
    """
    settings = existing(base=base, tenant=tenant)
    window = {"since": since, "until": until, "as_of": parse_moment(as_of), "offset": offset}
    page = ask(settings, "memory.search", {**parse_filters(terms or []), **window, "limit": limit})
    if json:
        emit(page)
        return
    found = page["entities"]
    table(("id", "type", "attributes"), ((node["id"], node["type"], node.get("attrs")) for node in found))
    _tell_more(page["pagination"], len(found))


def lineage(
    id: Annotated[str, typer.Argument(metavar="ID", help="Of a node or an edge, also of a deleted one.")],
    depth: Annotated[
        Literal["direct", "full", "summary"],
        typer.Option("--depth", help="direct: its own commits; full: those of its edges too; summary: only counts."),
    ] = "direct",
    limit: Limit = 100,
    offset: Offset = 0,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV instead of a table.")] = False,
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Show how an entity came to be what it is.

    Every commit, by whom, and what it changed.

    \b
    Examples:
      tallystick lineage task-7
      tallystick lineage task-7 --depth full --limit 500
      tallystick lineage task-7 --csv > task-7.csv
    """
    settings = existing(base=base, tenant=tenant)
    if depth == "summary":
        _draw_summary(ask(settings, "memory.lineage", {"entity_id": id, "depth": depth}), json=json)
        return
    asked = {"entity_id": id, "depth": depth, "limit": limit, "offset": offset, "format": "csv" if csv else "json"}
    page = ask(settings, "memory.lineage", asked)
    if csv:
        write(page["csv"])
        return
    if json:
        emit(page)
        return
    steps = page["lineage"]
    table(("position", "time", "actor", "operation", "what changed"), map(_step_row, steps))
    _tell_more(page["pagination"], len(steps))


def subjects(commit: Commit) -> set[str]:
    """The ids that a commit speaks of."""
    said = commit.document()
    return {said[key] for key in ("id", "node_id", "from", "to", "edge_id") if isinstance(said.get(key), str)}


def sentence(commit: Commit) -> str:
    """What a commit says, in a few words."""
    said = commit.document()
    if "from" in said:
        return f"{said['from']} -{said['rel']}-> {said['to']}"
    return f"{said['id']} ({said['type']})" if "id" in said else str(said.get("node_id"))


def _print_line(entry: Entry) -> None:
    emit_json(entry.line)


def _draw(entry: Entry) -> None:
    commit = entry.commit
    say(
        f"{commit.lamport:>8}  {commit.timestamp[:19].replace('T', ' ')}  ",
        Styled(commit.actor, fg="cyan"),
        "  ",
        Styled(commit.operation, bold=True),
        f"  {sentence(commit)}  ",
        Styled(commit.commit_id[:12], dim=True),
        f"  {commit.reason}" if commit.reason else "",
    )


def _draw_entity(answer: dict[str, Any]) -> None:
    entity, provenance = answer["entity"], answer["provenance"]
    heading = entity.get("type") or f"{entity['from']} -{entity['rel']}-> {entity['to']}"
    say(Styled(entity["id"], bold=True), f"  {heading}")
    for key, value in entity["attrs"].items():
        say(f"  {key}: {visible(value)}")
    for edge in answer.get("edges", []):
        say(f"  {_arrow(edge, entity['id'])}")
    if provenance:
        say(
            f"written by {provenance['updated_by']} at {provenance['timestamp']}, first by "
            f"{provenance['created_by']}; position {provenance['lamport']}, commit {provenance['commit_id']}"
        )


def _arrow(edge: dict[str, Any], id: str) -> str:
    outwards = edge["from"] == id
    return f"{'→' if outwards else '←'} {edge['rel']} {edge['to'] if outwards else edge['from']}"


def _draw_summary(answer: dict[str, Any], *, json: bool) -> None:
    if json:
        emit(answer)
        return
    table(("", answer["entity"]["id"]), ((name.replace("_", " "), value) for name, value in answer["summary"].items()))


def _step_row(step: dict[str, Any]) -> tuple[object, ...]:
    edge = step.get("edge")
    parts = [
        f"{edge['from']} -{edge['rel']}-> {edge['to']}" if edge else "",
        ", ".join(f"{key}: {visible(value)}" for key, value in (step.get("changes") or {}).items()),
        ", ".join(step.get("redacted_fields", [])),
        f"({step['reason']})" if step.get("reason") else "",
    ]
    told = " ".join(part for part in parts if part)
    return step["lamport"], step["timestamp"], step["actor"], step["operation"], told


def _tell_more(pagination: dict[str, Any], shown: int) -> None:
    if pagination["next_offset"] is not None:
        note(f"{shown} of {pagination['total']}; go on with --offset {pagination['next_offset']}")
