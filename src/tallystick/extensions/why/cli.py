"""The command that follows a line of code to what was known when it was written: why."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tallystick.cli.knowledge import Repo
from tallystick.cli.options import Base, Json, Tenant, existing
from tallystick.cli.output import Styled, emit, say
from tallystick.errors import InvalidArgument

if TYPE_CHECKING:
    from tallystick.extensions.why.explanation import Fact, ReadFact, Task, Why
    from tallystick.extensions.why.explanation import WhyContext as Context

_SHORT = 12


def why(
    place: Annotated[str, typer.Argument(metavar="FILE[:LINE]", help="A file of a git work tree, perhaps a line.")],
    repo: Repo = None,
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Say why a line is there: its commit, the task behind it, and what was read for it.

    The commit comes from 'git blame', the task from evidence of type git that names the commit, and what its agent
    read while it had the task claimed from the audit log; each fact says who wrote it and from what. Where a link is
    not known, a line that begins with '?' says so. Without a line: what is known of the file, and the tasks whose
    evidence names it or one of its commits. Git runs none of the repository's hooks, filters or programs.

    \b
    Examples:
      tallystick why src/checkout/page.ts:42
      tallystick why src/checkout/page.ts
      tallystick why src/checkout/page.ts:42 --json
      tallystick why -- -odd-name:3
    """
    from tallystick import app
    from tallystick.extensions.why.explanation import TOOL, explain, why_context

    settings = existing(base=base, tenant=tenant)
    if repo is not None:
        settings = msgspec.structs.replace(settings, repo=str(repo))
    context = app.operation_context(settings)
    looks_in = why_context(settings)
    file, line = _split(place, looks_in)

    async def ask() -> Why:
        async with context.open_store_under_policy() as store:
            principal = msgspec.structs.replace(context.principal, tool=TOOL)
            return await explain(looks_in, store, principal, file, line)

    found = asyncio.run(ask())
    if json:
        emit(found)
    else:
        _draw(found)


def _split(place: str, context: Context) -> tuple[str, int | None]:
    """A file may itself be called 'notes:3'."""
    head, colon, tail = place.rpartition(":")
    if not colon or not head or not (tail.isascii() and tail.isdigit()) or os.path.lexists(place):
        return _located(place, context), None
    if len(tail) > _SHORT or int(tail) < 1:
        raise InvalidArgument("lines are counted from 1", hint="name FILE:LINE, or FILE alone")
    return _located(head, context), int(tail)


def _located(file: str, context: Context) -> str:
    """As people name it, from where they are; from elsewhere, relative to the repository."""
    root, here = Path(os.path.realpath(context.repository.root)), Path(os.path.realpath(Path.cwd()))
    return str(here / file) if here.is_relative_to(root) else file


# -- drawing


def _draw(found: Why) -> None:
    say(Styled(found.file if found.line is None else f"{found.file}:{found.line}", bold=True))
    depth = 1
    if (commit := found.commit) is not None:
        was = f" (then {commit.file})" if commit.file else ""
        _say(depth, f"commit {commit.id[:_SHORT]} {commit.summary}{was}, {commit.author}, {commit.at}")
        depth += 1
    _gaps(depth, found.gaps)
    for task in found.tasks:
        _draw_task(depth, task)
    for fact in found.knowledge:
        _draw_fact(depth, "known", fact)


def _draw_task(depth: int, task: Task) -> None:
    state = "resolved" if task.is_resolved else "open"
    project = f" in {task.project}" if task.project else ""
    _say(depth, f"task {task.id} {task.summary} ({state}{project})")
    for claim in task.claims:
        _say(depth + 1, f"claimed by {claim.actor} from {claim.since}" + (f" to {claim.until}" if claim.until else ""))
    for each in task.evidence:
        _say(depth + 1, f"evidence {each.type}: {each.ref}" + (f" ({each.agent}, {each.at})" if each.agent else ""))
    if (receipt := task.receipt) is not None:
        holds = "which verifies" if receipt.verifies else f"which is not verified: {receipt.problem}"
        signed = f"entry {receipt.index} of the {receipt.size} that '{receipt.origin}' signed"
        _say(depth + 1, f"receipt of log {signed}, {holds}")
    for read in task.reads:
        _draw_read(depth + 1, read)
    _gaps(depth + 1, task.gaps)


def _draw_read(depth: int, read: ReadFact) -> None:
    _draw_fact(depth, "read", read.fact, f"; read {read.at} by {read.by}, audit line {read.audit_position}")


def _draw_fact(depth: int, how: str, fact: Fact, more: str = "") -> None:
    name = f" {fact.name}" if fact.name else ""
    flags = [
        *(["written again since"] if fact.is_changed else []),
        *(["untrusted"] if fact.untrusted else []),
        *(["stale"] if fact.stale else []),
    ]
    warned = f" [{', '.join(flags)}]" if flags else ""
    _say(
        depth, f"{how} {fact.type} {fact.id}{name}{warned}: by {fact.by}, {fact.at}, commit {fact.commit_id[:8]}{more}"
    )
    if fact.reason:
        _say(depth + 1, f"reason: {fact.reason}")
    for source in fact.sources:
        _say(depth + 1, f"{source.how} {source.what}")


def _gaps(depth: int, gaps: Iterable[str]) -> None:
    for gap in gaps:
        say("  " * depth, Styled(f"? {gap}", dim=True))


def _say(depth: int, text: str) -> None:
    say("  " * depth, text)
