"""Stale knowledge at a glance: of one tenant, as its policy lets somebody see it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tallystick.commits import Draft
from tallystick.engine.store import Target
from tallystick.extensions.web.last_used import LastUsed
from tallystick.extensions.web.reports import kept_knowledge
from tallystick.extensions.web.reports.kept_knowledge import KeptKnowledge
from tallystick.extensions.web.reports.stale_knowledge import StaleKnowledge, list_stale_knowledge
from tallystick.policy import Action, Principal, Request
from tallystick.state.knowledge import ATOM
from tallystick.state.work import PROJECT
from tallystick.toolsets.knowledge import make_tool_context
from tallystick.toolsets.knowledge.context import ToolContext, put
from tests import timeouts
from tests.multi_tenant import MultiTenantStore, multi_tenant_store
from tests.server.web.repositories import make_repository
from tests.test_hidden import BOTH, Make, RulePolicy

ADA = Principal(actor="ada", tenant="acme")
BOB = Principal(actor="bob", tenant="acme", trusted=False)
EVE = Principal(actor="eve", tenant="globex")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kept_knowledge, "FIRST_WAITED_SECONDS", timeouts.SECONDS)
    return make_repository(tmp_path / "repository")


def everything_but_what_ada_knows(request: Request) -> bool:
    return request.action is not Action.READ or request.resource_owner in (None, request.principal.actor)


async def know(base: MultiTenantStore, context: ToolContext, who: Principal, name: str, *paths: str) -> None:
    pin = msgspec.to_builtins(await context.pin(paths))
    atom = {"name": name, "projectId": "shop", "knowledge": "k", "paths": list(paths), "pin": pin}
    written = (("shop", PROJECT, {"name": "shop"}), (f"atom-{name}", ATOM, atom))
    operations = tuple(put(node_id, kind, attrs) for node_id, kind, attrs in written)
    targets = [Target(Action.WRITE, None)]
    draft = Draft(operations, actor=who.actor, tool="manage_graph")
    await base.store.write_all(who, lambda state, read_filter: draft, targets)


def names(found: StaleKnowledge) -> list[str]:
    return [atom.name for atom in found.atoms]


@BOTH
async def test_what_was_compared_for_one_tells_nothing_to_others(tmp_path: Path, repository: Path, make: Make) -> None:
    context = make_tool_context(repo=repository)
    kept: LastUsed[str, KeptKnowledge] = LastUsed(lambda tenant: KeptKnowledge())
    async with multi_tenant_store(tmp_path / "homes", make(everything_but_what_ada_knows)) as base:
        await know(base, context, ADA, "Queue", "src/queue.py")
        (repository / "src/queue.py").write_text("changed\n")
        first = await list_stale_knowledge(context, base.store, ADA, kept.of(ADA.tenant), 4)
        assert (names(first), first.stale, first.pinned) == (["Queue"], 1, 1)
        for other in (BOB, EVE):
            found = await list_stale_knowledge(context, base.store, other, kept.of(other.tenant), 4)
            assert (found.stale, found.pinned, found.unknown, found.compared_at) == (0, 0, 0, None)


async def test_of_many_those_are_listed_that_were_pinned_longest_ago(tmp_path: Path, repository: Path) -> None:
    ticks = iter(range(1_700_000_000_000, 1_800_000_000_000, 1_000))
    context, kept = make_tool_context(repo=repository, clock=lambda: next(ticks)), KeptKnowledge()
    async with multi_tenant_store(tmp_path / "homes", RulePolicy()) as base:
        for name in ("Zeta", "Beta", "Alpha"):
            await know(base, context, ADA, name, "src/queue.py")
        (repository / "src/queue.py").write_text("changed\n")
        found = await list_stale_knowledge(context, base.store, ADA, kept, 2)
        assert (names(found), found.stale) == (["Zeta", "Beta"], 3)
