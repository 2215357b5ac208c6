"""The addresses of pages. What stands in them was written by anybody, so all of it is encoded."""

from __future__ import annotations

from hashlib import sha256
from urllib.parse import quote, urlencode

JSON_SUFFIX = ".json"
_DOTS = frozenset({".", ".."})


def with_query(path: str, /, **query: str | int | None) -> str:
    given = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path


def entity_address(entity_id: str, /, **query: str | int | None) -> str:
    """An id may hold anything: slashes, dots that browsers would resolve, and the ending that asks for JSON."""
    if entity_id in _DOTS:
        return with_query("/entities", id=entity_id, **query)
    name = quote(entity_id, safe="")
    if name.endswith(JSON_SUFFIX):
        name = f"{name.removesuffix(JSON_SUFFIX)}%2Ejson"
    return with_query(f"/entities/{name}", **query)


def anchor_of(entity_id: str) -> str:
    """Where on a page it is: an id may hold what an anchor may not."""
    return f"at-{sha256(entity_id.encode()).hexdigest()[:12]}"


def is_local(address: str) -> bool:
    """Whether a browser that is sent there stays here."""
    return address.startswith("/") and address[1:2] not in ("/", "\\") and address.isprintable() and " " not in address
