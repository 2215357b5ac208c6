"""The commands that look: log, show, search, lineage."""

from __future__ import annotations

import asyncio
import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tallystick.cli import completion
from tallystick.cli.filters import parse_moment, parse_terms
from tallystick.cli.options import Base, Json, Limit, Tenant, existing
from tallystick.cli.output import Styled, emit, emit_json, note, say, table, visible, write
from tallystick.cli.tool_client import ask, ask_pages
from tallystick.errors import NotFound, StorageRefused

if TYPE_CHECKING:
    from tallystick.commits import Commit
    from tallystick.config import Settings
    from tallystick.log import Entry

MEANT_MAX = 3
LIKE_AMONG = 50
LIKE = 0.6
"""The share of their letters that two words have in common, to look alike."""
TYPE_CHARACTERS_MAX = 128
CSV_ROWS = 1000
"""On a page of an export."""

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
            found, position, _ = await newest(store, context.principal, limit=limit, wanted=wanted)
            for entry in found:
                show_entry(entry)
            if follow:
                await followed(context, store, position, wanted=wanted, show=show_entry)

    context = app.operation_context(existing(base=base, tenant=tenant))
    asyncio.run(run())


def show(
    id: Annotated[str, typer.Argument(metavar="ID", help="Of a node or an edge.", autocompletion=completion.entities)],
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
        raise _absent(settings, id, when)
    if not json:
        _draw_entity(answer)


def _absent(settings: Settings, id: str, when: str) -> NotFound:
    """An entity that was deleted has a history; for any other, ids that look alike are suggested."""
    history = _history_of(id)
    if not when and _has_history(settings, id):
        return NotFound(f"'{id}' was deleted from {settings.home}", hint=history)
    meant = similar_ids(settings, id)
    hint = f"did you mean {' or '.join(meant)}? " if meant else ""
    return NotFound(f"there is no '{id}'{when} in {settings.home}", hint=hint + history)


def _history_of(id: str) -> str:
    return f"its history: tallystick lineage {id}"


def _has_history(settings: Settings, id: str) -> bool:
    try:
        return bool(ask(settings, "memory.lineage", {"entity_id": id, "limit": 1})["lineage"])
    except NotFound:
        return False


def similar_ids(settings: Settings, id: str) -> list[str]:
    """Of what is found by the words of an id, or by words that look like them, what looks like it. None where that
    cannot be looked up, as on a read-only disk: whoever asks has something of their own to tell."""
    try:
        found = ask(settings, "memory.search", {"query": id, "limit": LIKE_AMONG})
        if not found["entities"] and found.get("nearest"):
            found = ask(settings, "memory.search", {"query": " ".join(found["nearest"]), "limit": LIKE_AMONG})
    except StorageRefused:
        return []
    ranked = sorted((-_likeness(id, each["id"]), each["id"]) for each in found["entities"])
    return [known for likeness, known in ranked if -likeness >= LIKE][:MEANT_MAX]


def _likeness(id: str, known: str) -> float:
    """Of a whole id, or of one of the words that it is made of."""
    spelt = [known, *re.findall(r"[^\W_]+", known)]
    return max(SequenceMatcher(None, id.casefold(), each.casefold()).ratio() for each in spelt)


def search(
    terms: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WORDS]... [KEY=VALUE]...", help="What you would ask a person, and tests on attributes."
        ),
    ] = None,
    type: Annotated[
        str | None,
        typer.Option(
            "--type",
            "-t",
            metavar="TYPE",
            help="Only of this type; an edge's is its relation.",
            autocompletion=completion.types,
        ),
    ] = None,
    project: Annotated[
        str | None,
        typer.Option("--project", metavar="NAME", help="Only what belongs to it.", autocompletion=completion.projects),
    ] = None,
    vocabulary: Annotated[
        str | None,
        typer.Option("--vocabulary", metavar="NAME", help="Only memory, work, tasks, knowledge or ontology."),
    ] = None,
    around: Annotated[str | None, typer.Option("--around", metavar="ID", help="Only what is linked to it.")] = None,
    hops: Annotated[
        int | None, typer.Option("--hops", min=1, max=3, help="How far --around goes. [default: 1]")
    ] = None,
    facets: Annotated[
        bool, typer.Option("--facets", help="List which types, attribute keys and relations there are.")
    ] = False,
    author: Annotated[
        str | None, typer.Option("--author", metavar="NAME", help="Only what this one wrote a version of.")
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
    """Find what is known: by words, type, attributes and time.

    With words the best come first. Without, nodes come in the order in which they were made.

    \b
    key=value  equal           key>5  key>=5  key<5  key<=5   larger, smaller
    key!=value different       key~pattern                    regular expression
    key=["a","b"] one of them  key?                           is there at all
    Keys may be dotted (address.city). Quote what your shell would take for itself.

    \b
    Examples:
      tallystick search what do we know about billing
      tallystick search retries --type Decision --since 2026-01-01
      tallystick search --type Task status=open 'priority>=3'
      tallystick search --type Task 'status=["open","late"]' --json
      tallystick search --facets
    """
    settings = existing(base=base, tenant=tenant)
    if facets:
        _draw_facets(ask(settings, "memory.search", {"facets": True, "type": type}), json=json)
        return
    scope = {"project": project, "vocabulary": vocabulary, "around": around, "hops": hops}
    asked = parse_terms(terms or []) | {"type": type, "author": author, "since": since, "until": until}
    asked["as_of"] = parse_moment(as_of)
    asked["scope"] = {name: value for name, value in scope.items() if value is not None} or None
    page = ask(settings, "memory.search", {**asked, "offset": offset, "limit": limit})
    if json:
        emit(page)
        return
    _draw_hits(page) if "query" in asked else _draw_nodes(page)
    if "query" in asked:
        _hint_at_type(settings, asked["query"], asked["type"])


def _draw_nodes(page: dict[str, Any]) -> None:
    found = page["entities"]
    table(("id", "type", "attributes"), ((node["id"], node["type"], node.get("attrs")) for node in found))
    _tell_more(page["pagination"], len(found))


def _draw_hits(page: dict[str, Any]) -> None:
    found = page["entities"]
    if "deleted" in page:
        note(f"'{page['deleted']}' was deleted; {_history_of(page['deleted'])}")
    if not found:
        _tell_nothing(page)
        return
    rows = ((hit["id"], hit["type"], hit["date"], f"{_flags(hit)}{hit['text']}") for hit in found)
    table(("id", "type", "date", "text"), rows)
    if page["pagination"]["next_offset"] is not None:
        note(f"there are more: go on with --offset {page['pagination']['next_offset']}")
    if page.get("truncated"):
        note("not everything was looked at: narrow it by a type, a project or a time")


def _flags(hit: dict[str, Any]) -> str:
    return "".join(f"[{flag}] " for flag in ("untrusted", "stale") if flag in hit)


def _tell_nothing(page: dict[str, Any]) -> None:
    note(f"nothing found for: {' '.join(page.get('looked_for', []))}")
    if page.get("nearest"):
        note(f"words that look like it: {', '.join(page['nearest'])}")
    if page.get("types"):
        note(f"types there are: {', '.join(page['types'])}")


def _hint_at_type(settings: Settings, query: str, type: str | None) -> None:
    """Until words were taken, the first was a type."""
    if type is None and " " not in query and len(query) <= TYPE_CHARACTERS_MAX:
        total = ask(settings, "memory.search", {"type": query, "limit": 1})["pagination"]["total"]
        if total:
            note(f"'{query}' is also a type: its nodes are listed by --type {query}")


def _draw_facets(answer: dict[str, Any], *, json: bool) -> None:
    if json:
        emit(answer)
        return
    facets = answer["facets"]
    kinds = {"types": "type", "attributes": "attribute", "relations": "relation"}
    rows = (
        (word, each["name"], each.get("count"), each.get("example"))
        for key, word in kinds.items()
        for each in facets[key]
    )
    table(("what", "name", "count", "for example"), rows)
    if facets.get("omitted"):
        note(f"{facets['omitted']} rarer ones are not listed; --type lists those of one type")


def lineage(
    id: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="Of a node or an edge, also of a deleted one.", autocompletion=completion.entities
        ),
    ],
    depth: Annotated[
        Literal["direct", "full", "summary"],
        typer.Option("--depth", help="direct: its own commits; full: those of its edges too; summary: only counts."),
    ] = "direct",
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=1, max=1000, help="At most this many. [default: 100; with --csv: all]"),
    ] = None,
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
    asked = {"entity_id": id, "depth": depth, "limit": limit, "offset": offset}
    if csv:
        _write_csv(settings, asked)
        return
    page = ask(settings, "memory.lineage", asked)
    if json:
        emit(page)
        return
    steps = page["lineage"]
    table(("position", "time", "actor", "operation", "what changed"), map(_step_row, steps))
    _tell_more(page["pagination"], len(steps))


def _write_csv(settings: Settings, asked: dict[str, Any]) -> None:
    """One page if there is a limit, else every row under one header."""
    header = True

    def show(page: dict[str, Any]) -> None:
        nonlocal header
        write(page["csv"] if header else page["csv"].partition("\r\n")[2])
        header = False

    if asked["limit"] is not None:
        show(ask(settings, "memory.lineage", {**asked, "format": "csv"}))
    else:
        ask_pages(settings, "memory.lineage", {**asked, "format": "csv", "limit": CSV_ROWS}, show)


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
        at_least = "at least " if pagination.get("at_least") else ""
        note(f"{shown} of {at_least}{pagination['total']}; go on with --offset {pagination['next_offset']}")
