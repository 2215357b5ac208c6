"""`/knowledge`: the repository with what is known of its files, one piece of knowledge with its changelog, and what
people do with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from tallystick.engine.store import Target
from tallystick.errors import InvalidArgument
from tallystick.extensions.web.addresses import with_query
from tallystick.extensions.web.context import TOOL
from tallystick.extensions.web.forms import number_of
from tallystick.extensions.web.reports.known_files import KnownFiles, show_known_files
from tallystick.extensions.web.visit import Redirect, Visit, told
from tallystick.policy import Action
from tallystick.state.work import NODE
from tallystick.toolsets.knowledge.reverify import add_work
from tallystick.toolsets.knowledge.stale import find_stale

CHANGELOG_MAX = 50
_MADE_MAX = 10_000
_VERSION_MAX = 1 << 53
_SKIP_MAX = 10_000_000

Form = Mapping[str, str]


class AtomView(msgspec.Struct, frozen=True):
    atom: dict[str, Any]
    """As the tools say it."""
    changelog: list[dict[str, Any]]
    may_change: bool


class KnowledgeView(msgspec.Struct, frozen=True, kw_only=True):
    known: KnownFiles
    atom: AtomView | None
    """The one that the address names."""
    may_make_work: bool
    made: int | None
    """How many tasks were made just now of what is stale."""


async def knowledge(visit: Visit) -> KnowledgeView:
    known = await show_known_files(
        visit.context.knowledge,
        visit.context.offer.store,
        visit.principal,
        visit.context.kept_knowledge.of(visit.principal.tenant),
        visit.said("project"),
        visit.said("path") or "",
        skip_entries=visit.number("files_from", 0, most=_SKIP_MAX),
        skip_atoms=visit.number("from", 0, most=_SKIP_MAX),
    )
    atom_id = visit.said("atom")
    return KnowledgeView(
        known=known,
        atom=None if atom_id is None else await _atom(visit, atom_id),
        may_make_work=(await visit.may(Target(Action.WRITE, None, NODE)))[0],
        made=None if visit.said("made") is None else visit.number("made", 0, most=_MADE_MAX),
    )


async def _atom(visit: Visit, atom_id: str) -> AtomView:
    answer = await visit.ask(
        "query_graph", operation="get", entityType="atom", id=atom_id, changelogLimit=CHANGELOG_MAX
    )
    data = answer["data"]
    may_change = await visit.may(Target(Action.WRITE, data["atom"]["id"]))
    return AtomView(data["atom"], data.get("changelog") or [], may_change[0])


async def act_on_knowledge(visit: Visit, form: Form) -> Redirect:
    visit.check_may_act()
    act = form.get("act", "")
    if act not in _ACTS:
        raise InvalidArgument(f"'act' must be one of {', '.join(_ACTS)}")
    return await _ACTS[act](visit, form)


async def _edit(visit: Visit, form: Form) -> Redirect:
    """Of two who change the same version, the second is told."""
    patterns = [line.strip() for line in form.get("paths", "").splitlines() if line.strip()]
    return await _update(
        visit,
        form,
        name=form.get("name", ""),
        knowledge=form.get("knowledge", "").replace("\r\n", "\n"),
        paths=patterns,
        pin=True if form.get("pin") == "yes" else None,
    )


async def _pin(visit: Visit, form: Form) -> Redirect:
    return await _update(visit, form, pin=True)


async def _update(visit: Visit, form: Form, **changes: Any) -> Redirect:
    version, atom = number_of(form.get("version", ""), _VERSION_MAX), form.get("atom", "")
    if version is None:
        raise InvalidArgument("'version' must be the number that the page showed")
    named = {"operation": "update", "entityType": "atom", "id": atom, "version": version}
    await visit.act("manage_graph", **named, **changes)
    return Redirect(f"{with_query('/knowledge', atom=atom, **_place(visit))}#atom")


async def _make_work(visit: Visit, form: Form) -> Redirect:
    """A task for each stale piece that has none."""
    context, store = visit.context.knowledge, visit.context.offer.store
    with told():
        stale = await find_stale(context, store, visit.principal, visit.said("project"))
        made = await add_work(context, store, visit.principal, stale, tool=TOOL, most=_MADE_MAX)
    return Redirect(with_query("/knowledge", made=made, **_place(visit)))


def _place(visit: Visit) -> dict[str, str | None]:
    return {"project": visit.said("project"), "path": visit.said("path")}


_ACTS: dict[str, Callable[[Visit, Form], Awaitable[Redirect]]] = {"edit": _edit, "pin": _pin, "reverify": _make_work}
