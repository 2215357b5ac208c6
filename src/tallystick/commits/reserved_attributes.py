"""The attributes that say whether a fact still holds, by name: in every vocabulary they mean this and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STALE_AFTER = "stale_after"
VERIFIED = "verified"
SUPERSEDES = "supersedes"
CITES = "cites"
NAMES = frozenset({STALE_AFTER, VERIFIED, SUPERSEDES, CITES})
IMPORTED = "imported"
"""Where an imported entity comes from: {from, id, author?, created?, updated?, hash}. Anybody may write it."""
CLAIMED_BY, CLAIMED_AT, CLAIMED_SESSION = "_claimed_by", "_claimed_at", "_claimed_session"
CLAIM = frozenset({CLAIMED_BY, CLAIMED_AT, CLAIMED_SESSION})
"""The properties of a work node that record who works on it, since when, and in which of its sessions if it has any."""
_PROPERTIES = "properties"
_PIN = "pin"
"""What the files of an atom were when it was verified: {hash, at, commit?, files?, work_tree?}."""
_BOOKKEEPING = frozenset({"from", "created", "updated", "hash"})


def cited_paths(attrs: Mapping[str, Any]) -> list[str]:
    """All of them, pinned or not; whatever else stands there is none."""
    found = attrs.get(CITES)
    paths = [each.get("path") if isinstance(each, dict) else each for each in found] if isinstance(found, list) else []
    return [each for each in paths if isinstance(each, str)]


def said(attrs: dict[str, Any]) -> dict[str, Any]:
    """The fact itself, with the files it cites: what is looked for by words, and shown of it. Otherwise a fact would
    rank lower for having a date or a predecessor, or for the name of the program that it was imported from."""
    if IMPORTED in attrs:
        attrs = _without_bookkeeping(attrs)
    attrs = _without_index_data(attrs)
    if NAMES.isdisjoint(attrs):
        return attrs
    kept = {name: value for name, value in attrs.items() if name not in NAMES}
    return kept | {CITES: cited_paths(attrs)}


def _without_index_data(attrs: dict[str, Any]) -> dict[str, Any]:
    """Without pins and claims: hashes and times, and names of whoever works on it."""
    pin, properties = attrs.get(_PIN), attrs.get(_PROPERTIES)
    if isinstance(pin, dict) and "hash" in pin:
        attrs = {name: value for name, value in attrs.items() if name != _PIN}
    if isinstance(properties, dict) and not CLAIM.isdisjoint(properties):
        kept = {name: value for name, value in properties.items() if name not in CLAIM}
        attrs = {**attrs, _PROPERTIES: kept}
    return attrs


def _without_bookkeeping(attrs: dict[str, Any]) -> dict[str, Any]:
    """Of an import its author is left, and the id unless it stands elsewhere: once is enough."""
    origin, others = attrs[IMPORTED], {name: value for name, value in attrs.items() if name != IMPORTED}
    if not isinstance(origin, dict) or not origin.keys() >= {"from", "hash"}:
        return attrs
    kept = {name: value for name, value in origin.items() if name not in _BOOKKEEPING and value not in others.values()}
    return others | ({IMPORTED: kept} if kept else {})
