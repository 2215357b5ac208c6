"""The commands for people who work beside agents: tree, next, show, done, watch."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli import completion
from tallystick.cli.options import Base, Json, Tenant, command_group, existing
from tallystick.cli.output import Styled, console, drawn, emit, note, say, table, visible
from tallystick.cli.tool_client import ask, ask_by_cursor, principal
from tallystick.config import Settings
from tallystick.errors import InvalidArgument, NotFound
from tallystick.operations import counted

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text
    from rich.tree import Tree

    from tallystick.engine.store import Store
    from tallystick.operations.checks import CheckResult, ChecksFile
    from tallystick.toolsets.work.context import Call

_REFRESH_SECONDS = 1.0
_DEPTH = 50

commands = command_group(
    "See and do work: the tree of a project, what comes next. Alone: who works on what now.", is_whole=True
)

Project = Annotated[
    str | None,
    typer.Argument(
        metavar="[PROJECT]",
        help="Its name; may be left out when there is only one.",
        autocompletion=completion.projects,
    ),
]
NodeId = Annotated[str, typer.Argument(metavar="ID", help="Of a work node.", autocompletion=completion.work_nodes)]


@commands.callback()
def board(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        import asyncio

        asyncio.run(_glance(existing()))


@commands.command("tree")
def tree(
    project: Project = None,
    depth: Annotated[int, typer.Option("--depth", "-d", min=0, max=_DEPTH, help="Levels to show.")] = _DEPTH,
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Show the work of a project as a tree.

    Done, dropped, actionable and waiting nodes have marks of their own; a claimed node says by whom.

    \b
    Examples:
      tallystick work tree
      tallystick work tree website --depth 2
      tallystick work tree website --json
    """
    settings = existing(base=base, tenant=tenant)
    opened = _opened(settings, project)
    seen = ask(settings, "graph_context", {"node_id": opened["root"]["id"], "depth": depth})["children"]
    if json:
        emit({"project": opened["project"], "summary": opened["summary"], "tree": seen})
        return
    console().print(_drawn_tree(seen, _ready(settings, opened["project"])))
    note(_counts(opened["summary"]))


def _ready(settings: Settings, project: str) -> dict[str, Any]:
    """Return the actionable nodes of a project by their ids."""
    wanted = {"project": project, "filter": {"is_actionable": True}, "limit": 100}
    ready: dict[str, Any] = {}

    def add(page: dict[str, Any]) -> None:
        ready.update((node["id"], node) for node in page["nodes"])

    ask_by_cursor(settings, "graph_query", wanted, add)
    return ready


@commands.command("next")
def next_(
    project: Project = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=50, help="How many.")] = 5,
    claim: Annotated[bool, typer.Option("--claim", help="Claim them: agents then leave them to you.")] = False,
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Show what can be worked on now, the most urgent first.

    \b
    Examples:
      tallystick work next
      tallystick work next website -n 1 --claim
      tallystick work next website --json
    """
    settings = existing(base=base, tenant=tenant)
    name = _opened(settings, project)["project"]
    told = ask(settings, "graph_next", {"project": name, "count": count, "claim": claim})
    if json:
        emit(told)
        return
    table(("id", "summary", "under", "priority"), (_next_row(entry) for entry in told["nodes"]))
    if told.get("hint"):
        note(told["hint"])


@commands.command("show")
def show(id: NodeId, json: Json = False, base: Base = None, tenant: Tenant = None) -> None:
    """Show one work node: what it is, waits for, holds up and was proven by.

    \b
    Examples:
      tallystick work show kT4mPzqLw2
      tallystick work show kT4mPzqLw2 --json
    """
    settings = existing(base=base, tenant=tenant)
    told = ask(settings, "graph_context", {"node_id": id})
    if json:
        emit(told)
    else:
        _draw_node(told)


@commands.command("done")
def done(
    id: NodeId,
    evidence: Annotated[
        list[str] | None,
        typer.Option("--evidence", "-e", metavar="TYPE:REF", help="What shows it; may be given several times."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Run the repository's checks first, and record how they ended.")
    ] = False,
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Resolve a work node, and show what that makes actionable.

    With --check the commands in the table [checks] of the repository's tallystick.toml are run: those that the node
    demands by require_evidence, or all. Agents can edit that file: it is shown and asked about at a terminal before
    anything of it is run, and again whenever it has changed. PASSED or FAILED is recorded as evidence, with the
    hashes of the output and of the tree; where one failed, the node stays open, and the command leaves with 1.

    \b
    Examples:
      tallystick work done kT4mPzqLw2 --evidence git:4f2c1aa
      tallystick work done kT4mPzqLw2 -e test:passed -e 'note:checked by hand'
      tallystick work done kT4mPzqLw2 --check
    """
    settings = existing(base=base, tenant=tenant)
    update: dict[str, Any] = {"node_id": id, "resolved": True}
    if evidence:
        update["add_evidence"] = [parse_evidence(text) for text in evidence]
    results = _checked(settings, id) if check else []
    failed = [each.name for each in results if each.result != "PASSED"]
    if failed:
        update = {"node_id": id}
    told = _update(settings, update, results) if check else ask(settings, "graph_update", {"updates": [update]})
    if failed:
        if json:
            emit({**told, "failed": failed})
        else:
            say(f"{id} stays open: {', '.join(failed)} failed, which is recorded")
        raise typer.Exit(1)
    if json:
        emit(told)
        return
    say(f"resolved {id}, revision {told['updated'][0]['rev']}")
    for node in told.get("newly_actionable", []):
        say(f"  now actionable: {node['id']}  {node['summary']}")
    for warning in told.get("warnings", []):
        note(warning)


def _checked(settings: Settings, node_id: str) -> list[CheckResult]:
    from tallystick.operations.checks import allowed_file, choose, find_checks, require_allowed, run_checks

    found = find_checks(Path.cwd())
    names = choose(found, _required(settings, node_id))
    confirm = _confirm if sys.stdin.isatty() and sys.stderr.isatty() else None
    require_allowed(found, allowed_file(os.environ), settings.base, confirm)
    results = run_checks(found, names, started=lambda name: note(f"check {name} …"))
    for each in results:
        if each.result != "PASSED":
            for line in each.tail.splitlines():
                note(f"  {line}")
        note(f"check {each.name}: {each.result}")
    return results


def _confirm(found: ChecksFile) -> bool:
    import shlex

    note(f"{found.path} names these commands, which anyone who can edit it may have written:")
    for name, command in found.commands.items():
        note(f"  {name}: {shlex.join(command)}")
    return typer.confirm("Run them, now and as long as the file does not change?", err=True)


def _required(settings: Settings, node_id: str) -> list[str]:
    import asyncio

    from tallystick import app
    from tallystick.policy import Action
    from tallystick.state.work.required_evidence import required
    from tallystick.toolsets.work.errors import get_row
    from tallystick.toolsets.work.view import View

    def look(view: View) -> list[str]:
        row = get_row(view, node_id)
        return required(view.attrs(each) for each in (row, *row.above()))

    async def read() -> list[str]:
        async with app.opened(settings) as store:
            return await _call(settings, store).read(Action.READ, look, resource=node_id)

    return asyncio.run(read())


def _update(settings: Settings, update: dict[str, Any], results: list[CheckResult]) -> dict[str, Any]:
    """As graph_update does it, with evidence that only who ran the checks may write."""
    import asyncio

    from tallystick import app
    from tallystick.toolsets.work.arguments import UpdateArguments
    from tallystick.toolsets.work.update import update as write

    asked = UpdateArguments.model_validate({"updates": [update]})

    async def written() -> dict[str, Any]:
        async with app.opened(settings) as store:
            call = _call(settings, store, "graph_update")
            return dict((await write(call, asked, [each.evidence() for each in results])).data)

    return asyncio.run(written())


@commands.command("watch")
def watch(base: Base = None, tenant: Tenant = None) -> None:
    """Watch who works on what, live. Ends with q or Ctrl-C.

    Piped somewhere, it shows what is true now and ends.

    \b
    Examples:
      tallystick work watch
      tallystick work watch --base ./memory
    """
    import asyncio

    settings = existing(base=base, tenant=tenant)
    asyncio.run(_watch(settings) if sys.stdout.isatty() else _glance(settings))


def parse_evidence(text: str) -> dict[str, str]:
    kind, colon, ref = text.partition(":")
    if not colon or not kind.strip() or not ref.strip():
        raise InvalidArgument(f"'{text}' is not TYPE:REF", hint="for example --evidence git:4f2c1aa")
    return {"type": kind.strip(), "ref": ref.strip()}


def _opened(settings: Settings, name: str | None) -> dict[str, Any]:
    """What graph_open says of a project that is there: looking must not make one."""
    projects = ask(settings, "graph_open", {})["projects"]
    names = [project["project"] for project in projects]
    known = [project for project in projects if name in (None, project["project"], project["id"])]
    if len(known) != 1:
        raise NotFound(
            f"there is no project '{name}'" if name else "say which project" if names else "there is no project yet",
            code="project_not_found",
            hint=f"there are {', '.join(names)}" if names else "an agent makes one with graph_open",
        )
    return ask(settings, "graph_open", {"project": known[0]["project"]})


# -- drawing


def _drawn_tree(seen: dict[str, Any], ready: Mapping[str, Any]) -> Tree:
    from rich.tree import Tree

    root = Tree(_label(seen, ready), guide_style="dim")
    waiting = [(seen, root)]
    while waiting:
        node, branch = waiting.pop()
        for child in node.get("children", []):
            waiting.append((child, branch.add(_label(child, ready))))
        more = node.get("child_count", 0) - len(node.get("children", []))
        if more > 0:
            branch.add(drawn(f"… {more} more: tallystick work show {node['id']}", "dim"))
    return root


def _label(node: dict[str, Any], ready: Mapping[str, Any]) -> Text:

    open_ = ready.get(node["id"])
    mark, style = _over(node) or (("▶", "bold") if open_ else ("·", ""))
    label = drawn(f"{mark} {node['summary']}", style).append_text(drawn(f"  {node['id']}", "dim"))
    owner = (open_ or {}).get("properties", {}).get("_claimed_by")
    if owner and not node["resolved"]:
        label.append_text(drawn(f"  {owner}", "cyan"))
    return label


def _over(node: Mapping[str, Any]) -> tuple[str, str] | None:
    """How what is over is marked: done, or given up."""
    if node.get("dropped"):
        return "✘", "dim"
    return ("✔", "green") if node["resolved"] else None


def _counts(summary: dict[str, int]) -> str:
    return (
        f"{_at_least(summary)}{counted(summary['total'], 'node')}: {summary['resolved']} resolved{_dropped(summary)},"
        f" {summary['actionable']} actionable, {summary['blocked']} blocked"
    )


def _at_least(summary: Mapping[str, Any]) -> str:
    return "at least " if summary.get("partial") else ""


def _dropped(summary: dict[str, int]) -> str:
    return f" ({summary['dropped']} dropped)" if summary.get("dropped") else ""


def _next_row(entry: dict[str, Any]) -> tuple[object, ...]:
    node = entry["node"]
    above = " / ".join(visible(each["summary"]) for each in entry["ancestors"])
    return node["id"], node["summary"], above, node["properties"].get("priority")


def _draw_node(told: dict[str, Any]) -> None:
    node = told["node"]
    where = " / ".join(visible(each["summary"]) for each in told["ancestors"])
    standing = "dropped" if node.get("dropped") else "resolved" if node["resolved"] else "open"
    say(Styled(node["summary"], bold=True), f"  {node['id']}" + (f"  in {where}" if where else ""))
    say(f"  {standing}, revision {node['rev']}, by {node['created_by']}")
    if "state" in node:
        say(f"  state: {visible(node['state'])}")
    for key, value in node["properties"].items():
        say(f"  {visible(key)}: {visible(value)}")
    for link in node["context_links"]:
        say(f"  see {link}")
    for word, key in (("waits for", "depends_on"), ("holds up", "depended_by")):
        for other in told[key]:
            mark = "✘" if other["node"].get("dropped") else "✔" if other["satisfied"] else "·"
            say(f"  {word} {mark} {other['node']['summary']}  {other['node']['id']}")
    for edge in told.get("edges", []):
        say(f"  {edge['from']} -{edge['type']}-> {edge['to']}")
    for entry in node["evidence"]:
        result = f" {visible(entry['result'])}" if "result" in entry else ""
        say(f"  {entry['timestamp'][:16]} {entry['agent']} {entry['type']}: {entry['ref']}{result}")
    if "children" in told["children"]:
        console().print(_drawn_tree(told["children"], {}))


# -- watching


async def _glance(settings: Settings) -> None:
    from tallystick import app
    from tallystick.toolsets.work.activity import watch as look

    async with app.opened(settings) as store:
        console().print(_board(await look(_call(settings, store))))


async def _watch(settings: Settings) -> None:
    import asyncio

    from rich.live import Live

    from tallystick import app
    from tallystick.toolsets.work.activity import watch as look

    enough = asyncio.Event()
    async with app.opened(settings) as store:
        call = _call(settings, store)
        with _keys(enough), Live(screen=True, auto_refresh=False) as live:
            while not enough.is_set():
                live.update(_board(await look(call), "  q ends"), refresh=True)
                try:
                    await asyncio.wait_for(enough.wait(), _REFRESH_SECONDS)
                except TimeoutError:
                    continue


def _call(settings: Settings, store: Store, tool: str = "work watch") -> Call:
    from tallystick import app
    from tallystick.toolsets.work.context import Call, ToolContext
    from tallystick.work_settings import read_settings

    work = read_settings(base=settings.base, working=Path.cwd(), environ=os.environ)
    tool_context = ToolContext(settings=work, claims=app.claims_of(settings))
    return Call(tool_context, store, principal(settings), tool)


@contextmanager
def _keys(enough: Any) -> Iterator[None]:
    """Sets the event when q or Ctrl-C is pressed. The terminal is left as it was found."""
    import asyncio
    import signal
    import termios
    import tty

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, enough.set)
    before = termios.tcgetattr(sys.stdin) if sys.stdin.isatty() else None

    def pressed() -> None:
        if os.read(sys.stdin.fileno(), 64).lower()[:1] in (b"q", b"\x03", b""):
            enough.set()

    try:
        if before is not None:
            tty.setcbreak(sys.stdin)
            loop.add_reader(sys.stdin, pressed)
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        if before is not None:
            loop.remove_reader(sys.stdin)
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _board(seen: dict[str, Any], ends: str = "") -> RenderableType:
    from rich.console import Group

    parts: list[RenderableType] = [
        drawn(f"{seen['now'][:19].replace('T', ' ')}{ends}", "dim"),
        _grid(
            ("project", "done", "of", "actionable", "blocked"),
            [
                (
                    each["project"],
                    *(f"{_at_least(each)}{each[name]}" for name in ("resolved", "total", "actionable", "blocked")),
                )
                for each in seen["projects"]
            ],
        ),
        _grid(
            ("agent", "works on", "id", "in", "for"),
            [
                (each["agent"], each["summary"], each["node_id"], each["project"], _lasting(each["milliseconds"]))
                for each in seen["claims"]
            ],
        )
        if seen["claims"]
        else drawn("nobody works on anything", "dim"),
        *([drawn(f"and {counted(omitted, 'newer claim')}", "dim")] if (omitted := seen["claims_omitted"]) else []),
        _grid(
            ("lately", "agent", "node", "id"),
            [
                (
                    each["timestamp"][:19].replace("T", " "),
                    each["agent"],
                    f"{over[0]} {each['summary']}" if (over := _over(each)) else each["summary"],
                    each["node_id"],
                )
                for each in seen["recent"]
            ],
        ),
    ]
    return Group(*parts)


def _grid(columns: tuple[str, ...], rows: list[tuple[object, ...]]) -> RenderableType:
    from rich.table import Table

    grid = Table(*columns, box=None, pad_edge=False, header_style="bold", title_justify="left")
    for row in rows:
        grid.add_row(*(drawn(cell, overflow="ellipsis", no_wrap=True) for cell in row))
    return grid


def _lasting(milliseconds: int) -> str:
    minutes, seconds = divmod(max(milliseconds, 0) // 1000, 60)
    return f"{minutes} min" if minutes else f"{seconds} s"
