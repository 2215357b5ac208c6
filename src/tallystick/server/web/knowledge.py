"""`/knowledge`: the repository with what is known of its files, and one piece of knowledge with its changelog."""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick.operations.known_files import KnownFiles, show_known_files
from tallystick.server.web.visit import Visit

CHANGELOG_MAX = 50


class AtomView(msgspec.Struct, frozen=True):
    atom: dict[str, Any]
    """As the tools say it."""
    changelog: list[dict[str, Any]]


class KnowledgeView(msgspec.Struct, frozen=True):
    known: KnownFiles
    atom: AtomView | None
    """The one that the address names."""


async def knowledge(visit: Visit) -> KnowledgeView:
    known = await show_known_files(
        visit.context.knowledge,
        visit.context.offer.store,
        visit.principal,
        visit.said("project"),
        visit.said("path") or "",
    )
    atom_id = visit.said("atom")
    return KnowledgeView(known, None if atom_id is None else await _atom(visit, atom_id))


async def _atom(visit: Visit, atom_id: str) -> AtomView:
    answer = await visit.ask(
        "query_graph", operation="get", entityType="atom", id=atom_id, changelogLimit=CHANGELOG_MAX
    )
    data = answer["data"]
    return AtomView(data["atom"], data.get("changelog") or [])
