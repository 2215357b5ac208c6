"""The evidence that a node must have before it is done: what it asks for itself, and what each node above it asks for.

Asked for by the property `require_evidence`, of a node or of a project's root: types of evidence (`git`), and checks
that must have passed (`check:test`). Anyone may state evidence of a type; the result of a check is only written by
whoever ran it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tallystick.state.attributes import list_of, object_of

REQUIRE_EVIDENCE = "require_evidence"
CHECK = "check"
"""Type of the evidence that a check leaves: {type, ref, name, result, digest, agent, timestamp}."""
CHECK_PREFIX = f"{CHECK}:"
PASSED, FAILED = "PASSED", "FAILED"


def required(attrs: Iterable[dict[str, Any]]) -> list[str]:
    """By these nodes together, each once. What makes no sense counts as not said."""
    found: dict[str, None] = {}
    for each in attrs:
        said = object_of(each, "properties").get(REQUIRE_EVIDENCE)
        for name in said if isinstance(said, list) else [said]:
            if isinstance(name, str) and name.strip():
                found[name.strip()] = None
    return list(found)


def missing(attrs: dict[str, Any], wanted: Iterable[str]) -> list[str]:
    """Of a check the newest result counts."""
    entries = [entry for entry in list_of(attrs, "evidence") if isinstance(entry, dict)]
    types = {str(entry.get("type")) for entry in entries}
    results = {entry.get("name"): entry.get("result") for entry in entries if entry.get("type") == CHECK}
    return [name for name in wanted if not _is_there(name, types, results)]


def _is_there(name: str, types: set[str], results: dict[Any, Any]) -> bool:
    if name.startswith(CHECK_PREFIX):
        return bool(results.get(name.removeprefix(CHECK_PREFIX)) == PASSED)
    return name in types
