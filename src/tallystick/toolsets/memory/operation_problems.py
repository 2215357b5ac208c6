"""The fields that each operation of memory.write needs, and those that exclude each other.

Judged on a model, and on raw arguments if these have faults of form: an answer lists both.
"""

from __future__ import annotations

from typing import Any

from tallystick.commits.mask import is_field
from tallystick.toolsets.operation_arguments import required

REQUIRED: dict[str, tuple[str, ...]] = {
    "UPSERT_NODE": ("node", "node.type", "node.attrs"),
    "UPSERT_EDGE": ("edge",),
    "PATCH_NODE": ("node", "node.attrs"),
    "PATCH_EDGE": ("edge", "edge.attrs"),
    "DELETE_NODE": ("node_id",),
    "DELETE_EDGE": (),
    "REDACT_NODE": ("node_id", "reason"),
    "REDACT_EDGE": ("reason",),
}
_NAMES_EDGE = frozenset({"DELETE_EDGE", "REDACT_EDGE"})


def problems_of_operation(asked: Any, within: str, outer: Any) -> list[str]:
    """Return the problems of one operation. A reason for the whole call, in `outer`, is one for each operation."""
    op = _value(asked, "op")
    if op is None and _value(asked, "ops") is None:
        return [required(f"{within}op")]
    if not isinstance(op, str) or op not in REQUIRED:
        return []
    problems = [
        required(within + name)
        for name in REQUIRED[op]
        if _is_missing(asked, name) and not (name == "reason" and _value(outer, name) is not None)
    ]
    if op in _NAMES_EDGE:
        problems += _problems_of_edge_name(op, asked, within)
    elif op.endswith("_EDGE"):
        problems += _problems_of_edge_id(asked, within)
    if op.startswith("REDACT_"):
        problems += _problems_of_redact(asked, within)
    return problems


def _value(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)


def _is_missing(asked: Any, name: str) -> bool:
    """Return False for a part of something that is missing or malformed itself."""
    holder, _, part = name.partition(".")
    value = _value(asked, holder)
    if not part:
        return value is None
    return value is not None and not isinstance(value, str | int | float | list) and _value(value, part) is None


def _problems_of_edge_id(asked: Any, within: str) -> list[str]:
    edge_id = _value(_value(asked, "edge"), "id")
    if isinstance(edge_id, str) and "|" in edge_id:
        return [f"field '{within}edge.id' must not contain '|', which the ids made from from|rel|to do"]
    return []


def _problems_of_edge_name(op: str, asked: Any, within: str) -> list[str]:
    edge, edge_id = _value(asked, "edge"), _value(asked, "edge_id")
    if edge is None and edge_id is None:
        return [f"field '{within}edge' or '{within}edge_id' is required"]
    if edge is not None and edge_id is not None:
        return [f"fields '{within}edge' and '{within}edge_id' cannot both name the edge"]
    if _value(edge, "attrs") is not None or _value(edge, "id") is not None:
        return [f"field '{within}edge' of {op} holds from, rel and to only"]
    return []


def _problems_of_redact(asked: Any, within: str) -> list[str]:
    fields = _value(asked, "redacted_fields")
    return [
        f"field '{within}redacted_fields': '{field}' must be attrs or attrs.<key>"
        for field in (fields if isinstance(fields, list) else ())
        if isinstance(field, str) and not is_field(field)
    ]
