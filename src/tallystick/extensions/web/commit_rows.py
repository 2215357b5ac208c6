"""A commit in a line: where, when, who, what and why."""

from __future__ import annotations

from typing import Literal

import msgspec

from tallystick.commits import EDGE_VERBS, Commit, Verb
from tallystick.commits.payloads import read_edge
from tallystick.extensions.web.reports.titles import shortened, title_of

Sign = Literal["created", "written", "deleted", "redacted"]
_SIGNS: dict[str, Sign] = {"UPSERT": "written", "DELETE": "deleted", "REDACT": "redacted"}


class CommitRow(msgspec.Struct, frozen=True, kw_only=True):
    position: int
    timestamp: str
    actor: str
    sign: Sign
    entity_id: str
    title: str
    reason: str | None
    commit_id: str


def commit_row(commit: Commit, *, is_new: bool) -> CommitRow:
    """`is_new` where it made what it is about."""
    entity_id, title = _subject(commit)
    return CommitRow(
        position=commit.lamport,
        timestamp=commit.timestamp,
        actor=commit.actor,
        sign="created" if is_new else _SIGNS[commit.operation.value[:6]],
        entity_id=entity_id,
        title=title,
        reason=commit.reason,
        commit_id=commit.commit_id,
    )


def _subject(commit: Commit) -> tuple[str, str]:
    if commit.operation in EDGE_VERBS:
        edge = read_edge(commit.payload)
        return edge.name, shortened(f"{edge.source} {edge.rel} → {edge.target}")
    said = commit.document()
    if commit.operation is Verb.UPSERT_NODE:
        return said["id"], title_of(said["id"], said.get("attrs"))
    return said["node_id"], shortened(said["node_id"])
