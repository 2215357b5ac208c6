"""How an imported item is known again: the attribute `imported`, its hash, and the nonce of its commit."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec

from tallystick.commits.reserved_attributes import IMPORTED
from tallystick.extensions.importers import Item
from tallystick.state.attributes import object_of

ATTRIBUTE = IMPORTED
_HASH_CHARACTERS = 16
"""It tells two versions of one item apart, and nothing else."""


def content_hash(item: Item) -> str:
    """Of what an item says. Where it stands, there and here, is no part of that."""
    said = {name: value for name, value in msgspec.to_builtins(item).items() if name not in ("where", "project")}
    return sha256(msgspec.json.encode(said, order="deterministic")).hexdigest()[:_HASH_CHARACTERS]


def provenance(source: str, item: Item, hash_: str) -> dict[str, Any]:
    return {"from": source, **msgspec.to_builtins(item.origin), "hash": hash_}


def imported_hash(attrs: dict[str, Any], source: str, origin_id: str) -> str | None:
    """Of the version that was imported last; None where this is something else."""
    said = object_of(attrs, ATTRIBUTE)
    hash_ = said.get("hash")
    is_it = said.get("from") == source and said.get("id") == origin_id
    return hash_ if is_it and isinstance(hash_, str) else None


def nonce(source: str, item_id: str, hash_: str, replaces: str | None) -> str:
    """Of the commit that brings this version of an item in place of another. An item that changes back has a new one.

    What is there is compared before, so this is needed only by those who look for the write itself.
    """
    parts = "\0".join((source, item_id, hash_, replaces or ""))
    return f"import:{source[:64]}:{sha256(parts.encode()).hexdigest()[:32]}"
