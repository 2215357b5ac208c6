"""The command that lists what may not hold any more: stale."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from tallystick.cli.knowledge import Repo
from tallystick.cli.options import Base, Json, Tenant, existing
from tallystick.cli.output import emit, note, table, visible
from tallystick.operations import counted

if TYPE_CHECKING:
    from tallystick.operations.stale import Report, StaleFact
    from tallystick.state.stale_facts import Contradiction

_VALUE_CHARACTERS_MAX = 60


def stale(repo: Repo = None, json: Json = False, base: Base = None, tenant: Tenant = None) -> None:
    """List the facts that may not hold any more, in every vocabulary, and what contradicts itself.

    Stale is what is past its 'stale_after', was superseded, or cites files that changed; and knowledge whose pinned
    files changed. Contradictions are listed, not judged: two authors gave an attribute different values within an
    hour, facts supersede each other, a cited file is gone. PATCH_NODE with verified: true says that a fact holds.
    With the setting stale_makes_work, each that is to be looked at again gets a work node, unless it has one.

    \b
    Examples:
      tallystick stale
      tallystick stale --json
      tallystick stale --repo ~/src/shop
    """
    from tallystick import app
    from tallystick.operations import stale as operation

    settings = existing(base=base, tenant=tenant)
    if repo is not None:
        settings = msgspec.structs.replace(settings, repo=str(repo))
    found = asyncio.run(operation.find(app.operation_context(settings), app.knowledge_context(settings)))
    if json:
        emit(found)
    else:
        _draw(found)


def _draw(found: Report) -> None:
    if found.stale:
        rows = ((each.id, each.type, each.since, _why(each)) for each in found.stale)
        table(("entity", "type", "since", "why"), rows)
    if found.contradictions:
        table(
            ("entity", "contradiction", "details"),
            ((each.id, each.what, _details(each)) for each in found.contradictions),
        )
    note(f"{counted(len(found.stale), 'stale fact')}, {counted(len(found.contradictions), 'contradiction')}")


def _why(fact: StaleFact) -> str:
    successor = f" by {fact.superseded_by}" if fact.superseded_by else ""
    files = f": {', '.join(fact.files)}" if fact.files else ""
    return fact.why.replace("superseded", f"superseded{successor}") + files


def _details(found: Contradiction) -> str:
    said = "; ".join(
        f"{visible(each.value)[:_VALUE_CHARACTERS_MAX]} by {each.by} at {each.at}" for each in found.claims
    )
    return f"{found.attribute}: {said}" if found.claims else found.file or ", ".join(found.others)
