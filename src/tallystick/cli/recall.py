"""The command that takes trust back: recall."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from tallystick.cli.options import Base, Json, Tenant, existing
from tallystick.cli.output import emit, note, table
from tallystick.cli.tool_client import principal
from tallystick.errors import Conflict, InvalidArgument, NotFound

if TYPE_CHECKING:
    from tallystick.commits import Commit
    from tallystick.config import Settings
    from tallystick.log import Head, Log
    from tallystick.state.derivation import Derivation
    from tallystick.store import Store

TOOL = "recall"
_ATTEMPTS_MAX = 50


def recall(
    actor: Annotated[
        str | None, typer.Option("--actor", metavar="NAME", help="What this one wrote, and what came of it.")
    ] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="With --actor: from then on.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="With --actor: before then.")] = None,
    commit: Annotated[
        str | None,
        typer.Option("--commit", metavar="ID", help="What this commit wrote, with all that its call wrote."),
    ] = None,
    hops: Annotated[
        int, typer.Option("--hops", min=0, max=100, help="How far to follow what came of it; 0: not at all.")
    ] = 3,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why; readers are told. Needed with --yes.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Mark what was listed as untrusted.")] = False,
    undo: Annotated[
        str | None, typer.Option("--undo", metavar="RECALL", help="Trust again what this recall named.")
    ] = None,
    redo: Annotated[
        str | None, typer.Option("--redo", metavar="RECALL", help="Take it back again: the inverse of --undo.")
    ] = None,
    entity: Annotated[
        list[str] | None,
        typer.Option("--entity", metavar="ID", help="With --undo, --redo: only this; may be given several times."),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the recalls there are.")] = False,
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Take back trust in what an agent wrote, and in what came of it.

    Lists every entity that the actor or the commit wrote, and what followed: what points to it since, names it
    in evidence or attributes, or was written in the same run or job. Nothing is changed without --yes.
    Then one draft marks all of them: memory.read, memory.search and memory.lineage answer as before, and say
    'untrusted' with the reason, until the recall is undone, as a whole or for single entities.

    \b
    Examples:
      tallystick recall --actor crawler --since 2026-03-01
      tallystick recall --actor crawler --since 2026-03-01 --reason "poisoned pages" --yes
      tallystick recall --commit 3f5a… --hops 0
      tallystick recall --list
      tallystick recall --undo recall_9c1f02ab77d4 --entity page_12 --entity page_14 --reason "checked by hand"
      tallystick recall --redo recall_9c1f02ab77d4 --entity page_14
      tallystick recall --undo recall_9c1f02ab77d4
    """
    _check_asked(
        one_of=(actor, commit, undo, redo, list_ or None), of_actor=actor, since=since or until, yes=yes, reason=reason
    )
    if entity and undo is None and redo is None:
        raise InvalidArgument("--entity goes with --undo and --redo")
    settings = existing(base=base, tenant=tenant)
    if list_:
        _draw_recalls(asyncio.run(_recalls(settings)), json=json)
    elif undo is not None:
        _tell_undone(asyncio.run(_undo(settings, undo, entity or [], reason, again=False)), json=json)
    elif redo is not None:
        _tell_undone(asyncio.run(_undo(settings, redo, entity or [], reason, again=True)), json=json)
    else:
        sought = {"actor": actor, "since": since, "until": until, "commit": commit}
        _tell(asyncio.run(_recall(settings, sought, hops, reason if yes else None)), json=json)


def _check_asked(
    *, one_of: tuple[object, ...], of_actor: str | None, since: str | None, yes: bool, reason: str | None
) -> None:
    if sum(each is not None for each in one_of) != 1:
        raise InvalidArgument("one of --actor, --commit, --undo, --redo and --list is needed, and only one")
    if since is not None and of_actor is None:
        raise InvalidArgument("--since and --until go with --actor")
    if yes and not reason:
        raise InvalidArgument("--yes needs a --reason: whoever reads what is untrusted is told why")


# -- finding


async def _recall(settings: Settings, sought: dict[str, str | None], hops: int, reason: str | None) -> dict[str, Any]:
    """Marks what it finds when there is a reason to."""
    from tallystick import app
    from tallystick.log import Head
    from tallystick.log.files import FilesLog
    from tallystick.state.derivation import Derivation

    log = FilesLog(settings.system)
    try:
        async with app.opened(settings) as store:
            derivation = Derivation(_roots(log, sought), hops_max=hops)
            head = await _follow(settings, store, log, derivation, Head())
            told: dict[str, Any] = {"position": head.lamport, "recall": None}
            if reason is not None and derivation.found:
                told |= await _mark(settings, store, log, derivation, head, reason, sought)
            return told | {"entities": [msgspec.to_builtins(trace) for trace in derivation.found.values()]}
    finally:
        log.close()


def _roots(log: Log, sought: dict[str, str | None]) -> Callable[[Commit], bool]:
    if sought["commit"] is not None:
        draft = _draft_of(log, sought["commit"])
        return lambda commit: commit.lamport in draft
    since, until = (_time(sought[name]) for name in ("since", "until"))

    def is_root(commit: Commit) -> bool:
        return (
            commit.actor == sought["actor"]
            and (since is None or commit.timestamp >= since)
            and (until is None or commit.timestamp < until)
        )

    return is_root


def _time(text: str | None) -> str | None:
    """As timestamps are written, so that texts compare as times do."""
    from tallystick.clock import from_text, to_text

    if text is None:
        return None
    try:
        return to_text(from_text(text))
    except (ValueError, OverflowError):
        raise InvalidArgument(f"'{text}' is not an ISO 8601 time") from None


def _draft_of(log: Log, commit_id: str) -> range:
    """The lamports of the draft that a commit belongs to."""
    from tallystick.log import Head

    for entry in log.read(Head()):
        if entry.commit.commit_id == commit_id:
            return entry.commit.draft_lamports
    raise NotFound(f"there is no commit '{commit_id}'", code="COMMIT_NOT_FOUND", hint="'tallystick log' lists them")


async def _follow(settings: Settings, store: Store, log: Log, derivation: Derivation, head: Head) -> Head:
    """Feed what lies behind `head`."""
    from tallystick.log import head_after
    from tallystick.policy import Action
    from tallystick.state.state import State

    for entry in log.read(head):
        head = head_after([entry], head)
        lamport = entry.commit.lamport
        for node_id in derivation.feed(entry.commit):

            def look(state: State, node_id: str = node_id, lamport: int = lamport) -> list[str]:
                return [edge.source for edge in state.edges(node_id, "in", at=state.resolve(lamport))]

            sources = await store.read(principal(settings), Action.READ, look, resource=node_id, min_position=lamport)
            for source in sources:
                derivation.points(source, node_id)
    return head


# -- marking


class _Moved(Exception):
    """Something was written since the log was read."""


async def _mark(
    settings: Settings,
    store: Store,
    log: Log,
    derivation: Derivation,
    head: Head,
    reason: str,
    sought: dict[str, str | None],
) -> dict[str, Any]:
    """In one draft, at the very position up to which the log was read, so that nothing slips through."""
    from tallystick.commits import Draft
    from tallystick.policy import Action
    from tallystick.state import trust
    from tallystick.state.state import State

    user = principal(settings)
    recall_id = f"recall_{secrets.token_hex(6)}"

    def propose(state: State) -> Draft:
        if state.position != head.lamport:
            raise _Moved
        told = {"sought": {name: value for name, value in sought.items() if value is not None}, **_counts(derivation)}
        operations = trust.recall(recall_id, reason, derivation.found, told)
        return Draft(operations, actor=user.actor, tool=TOOL, reason=reason)

    for _ in range(_ATTEMPTS_MAX):
        try:
            receipt = await store.write(user, Action.WRITE, propose, resource=recall_id)
        except _Moved:
            head = await _follow(settings, store, log, derivation, head)
            continue
        last = receipt.commits[-1]
        return {"recall": recall_id, "commit_id": last.commit_id, "position": last.lamport}
    raise Conflict("others write faster than this can read", hint="try again when there is less going on")


def _counts(derivation: Derivation) -> dict[str, int]:
    written = sum(1 for trace in derivation.found.values() if trace.hops == 0)
    return {"written": written, "derived": len(derivation.found) - written}


async def _undo(
    settings: Settings, recall_id: str, entities: list[str], reason: str | None, *, again: bool
) -> dict[str, Any]:
    """`again` takes back what was undone."""
    from tallystick import app
    from tallystick.commits import Draft
    from tallystick.policy import Action
    from tallystick.state import trust
    from tallystick.state.state import State

    user = principal(settings)

    def propose(state: State) -> Draft:
        operations = trust.redo(state, recall_id, entities) if again else trust.undo(state, recall_id, reason, entities)
        return Draft(operations, actor=user.actor, tool=TOOL, reason=reason)

    async with app.opened(settings) as store:
        receipt = await store.write(user, Action.WRITE, propose, resource=recall_id)
    last = receipt.commits[-1]
    told = {"recall": recall_id, "commit_id": last.commit_id, "position": last.lamport, "trusted": not again}
    return told | ({"entities": entities} if entities else {})


async def _recalls(settings: Settings) -> list[dict[str, Any]]:
    from tallystick import app
    from tallystick.policy import Action
    from tallystick.state.state import State
    from tallystick.state.trust import Trust

    def look(state: State) -> list[dict[str, Any]]:
        return [{"recall": each.id, "active": each.active, **each.attrs} for each in state.derived(Trust).recalls()]

    async with app.opened(settings) as store:
        return await store.read(principal(settings), Action.READ, look)


# -- telling


def _tell(told: dict[str, Any], *, json: bool) -> None:
    if json:
        emit(told)
        return
    found = told["entities"]
    rows = ((each["hops"], each["id"], each["type"], each["because"]) for each in found)
    table(("hops", "entity", "type", "because"), rows)
    written = sum(1 for each in found if each["hops"] == 0)
    note(f"{written} written, {len(found) - written} derived")
    if told["recall"]:
        note(f"all of them are untrusted now; to take that back: tallystick recall --undo {told['recall']}")
    elif found:
        note("nothing was changed; to mark them as untrusted add --reason and --yes")


def _tell_undone(told: dict[str, Any], *, json: bool) -> None:
    if json:
        emit(told)
    else:
        what = ", ".join(told["entities"]) if "entities" in told else "what it named"
        said = "trusted again, unless another recall names it" if told["trusted"] else "untrusted again"
        note(f"{told['recall']}: {what}: {said}")


def _draw_recalls(found: list[dict[str, Any]], *, json: bool) -> None:
    if json:
        emit({"recalls": found})
        return
    names = ("recall", "status", "entities", "cleared", "reason")
    table(names, ([each.get(name) for name in names] for each in found))
