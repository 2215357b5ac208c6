"""What names a person, for that person: every version of every entity that does, and where."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import msgspec

from tallystick import __version__
from tallystick.clock import to_text, wall_clock
from tallystick.commits import EDGE_VERBS, Commit
from tallystick.engine.store import Store
from tallystick.operations import OperationContext, Progress, no_progress
from tallystick.operations.tenants import naming_tenant
from tallystick.projections.content import Contents
from tallystick.state.derivation import entity_of
from tallystick.state.mentions import Mention, Subject, Unread, find_mentions


class Version(msgspec.Struct, frozen=True):
    position: int
    time: str
    actor: str
    operation: str
    document: dict[str, Any]
    """As it is stored; a large content with its text or, where it is no text, in base64."""
    found_in: list[str]
    """Where this version names the subject; a version may be here for the sake of another."""
    content_missing: bool = False


class Entity(msgspec.Struct, frozen=True):
    tenant: str
    id: str
    kind: str
    versions: list[Version]


class SubjectExport(msgspec.Struct, frozen=True):
    at: str
    tallystick: str
    subject: list[str]
    tenants: list[str]
    entities: list[Entity]


async def export_subject(
    contexts: list[OperationContext], subject: Subject, *, progress: Progress = no_progress
) -> SubjectExport:
    """Reads each log twice: what is older than the first mention belongs to the history too. Nothing is withheld."""
    entities: list[Entity] = []
    for context in contexts:
        with naming_tenant(context.settings):
            async with context.open_store() as store:
                entities += await _entities(context, store, subject, progress)
    tenants = [context.settings.tenant for context in contexts]
    return SubjectExport(to_text(wall_clock()), __version__, list(subject.texts), tenants, entities)


async def _entities(context: OperationContext, store: Store, subject: Subject, progress: Progress) -> list[Entity]:
    contents = Contents(context.settings.home)
    total = 2 * (await store.partition(context.principal)).log_bytes
    found: dict[tuple[str, str], Entity] = {}
    async for entry in store.commits(context.principal):
        if any(isinstance(each, Mention) for each in find_mentions(entry.commit, subject, contents.read)):
            key = _key(entry.commit)
            found.setdefault(key, Entity(context.settings.tenant, key[1], key[0], []))
        progress("searching", entry.end, total)
    if not found:
        return []
    async for entry in store.commits(context.principal):
        if (entity := found.get(_key(entry.commit))) is not None:
            entity.versions.append(_version(entry.commit, subject, contents))
        progress("searching", total // 2 + entry.end, total)
    return list(found.values())


def _key(commit: Commit) -> tuple[str, str]:
    return "edge" if commit.operation in EDGE_VERBS else "node", entity_of(commit)


def _version(commit: Commit, subject: Subject, contents: Contents) -> Version:
    mentions = list(find_mentions(commit, subject, contents.read))
    document = commit.document()
    missing = any(isinstance(each, Unread) for each in mentions)
    content = document.get("content")
    if isinstance(content, dict) and "blob" in content and not missing:
        document["content"] = content | _readable(contents.read(content))
    places = [each.place for each in mentions if isinstance(each, Mention)]
    return Version(
        commit.lamport, commit.timestamp, commit.actor, str(commit.operation), document, places, content_missing=missing
    )


def _readable(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}
