"""The redaction of a node or an edge: which words go, in its document and in every earlier one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

from tallystick.commits import Verb, chain
from tallystick.commits.canonical import canonical_bytes, parse
from tallystick.errors import InvalidArgument, NotFound
from tallystick.state import Redaction
from tallystick.state.columns import Columns
from tallystick.state.documents import REDACTED, read_line

_ATTRS = "attrs"
_CONTENT = "content"


def plan(columns: Columns, node_id: str, fields: Sequence[str] | None) -> Redaction:
    """Masks for every UPSERT_NODE of the node that still says something of the fields. Reads all of them.

    Raises NotFound for a node that never was; one that was deleted can still be redacted.
    """
    handle = columns.nodes.handles.get(node_id)
    if handle is None:
        raise NotFound(f"there is no node '{node_id}'", details={"entity_id": node_id})
    return _plan(columns, columns.nodes.last[handle], fields)


def plan_edge(columns: Columns, handle: int, fields: Sequence[str] | None) -> Redaction:
    """The same for an edge, dead or alive."""
    return _plan(columns, columns.edges.last[handle], fields)


def _plan(columns: Columns, last: int, fields: Sequence[str] | None) -> Redaction:
    paths_of(fields)
    redacts: dict[str, str] = {}
    masks: dict[int, bytes] = {}
    for seq in columns.history.chain(last):
        offset = columns.history.offset[seq]
        line = columns.lines(offset)
        read = read_line(line)
        if read.operation not in (Verb.UPSERT_NODE, Verb.UPSERT_EDGE):
            continue
        masked = _masked_payload(line, fields)
        if masked is not None:
            masks[offset] = masked
            redacts[str(read.lamport)] = sha256(masked).hexdigest()
    return Redaction(redacts, masks)


def paths_of(fields: Sequence[str] | None) -> list[str] | None:
    """Paths below attrs; None stands for all of them. Raises InvalidArgument for what is no attribute."""
    if fields is None or _ATTRS in fields:
        return None
    wrong = [field for field in fields if not field.startswith(_ATTRS + ".")]
    if wrong:
        raise InvalidArgument(
            "only attributes can be redacted",
            problems=[f"'{field}' does not start with 'attrs.'" for field in wrong],
        )
    return [field[len(_ATTRS) + 1 :] for field in fields]


def left_by(line: bytes, fields: Sequence[str] | None) -> bytes:
    """The line as a redaction leaves it, whether or not the log has been masked yet."""
    masked = _masked_payload(line, fields)
    return line if masked is None else chain.mask(line, masked)


def fill(attrs: dict[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """Say "[REDACTED]" also where a named attribute is gone because the word was too long for its place."""
    for path in paths_of(fields) or ():
        attrs = _filled(attrs, path)
    return attrs


def mask_content(content: dict[str, Any] | None) -> dict[str, Any] | None:
    if content is None:
        return None
    kept = {name: value for name, value in content.items() if name in ("format", "encoding")}
    return kept | {"text": REDACTED}


def _masked_payload(line: bytes, fields: Sequence[str] | None) -> bytes | None:
    """None when nothing is left to mask. What the word is too long for is removed. Content goes when all does."""
    payload = chain.payload_of(line)
    document = parse(payload)
    paths = paths_of(fields)
    attrs: dict[str, Any] = document[_ATTRS] if isinstance(document.get(_ATTRS), dict) else {}
    left = _mask(attrs, paths)
    content = document.get(_CONTENT)
    if fields is None and content is not None and content.get("text") not in ("", REDACTED):
        document |= {_CONTENT: mask_content(content)}
    for path in attrs if paths is None else paths:
        if _fits(line, document, left):
            break
        if _grows(attrs, path):
            left = _without(left, path, keep_name=False)
    if not _fits(line, document, left):
        document[_CONTENT]["text"] = ""
    masked = canonical_bytes(document | {_ATTRS: left})
    return None if masked == payload else masked


def _mask(attrs: dict[str, Any], paths: Iterable[str] | None) -> dict[str, Any]:
    """The attributes with "[REDACTED]" at the paths (None: everywhere). What was given is left as it is."""
    if paths is None:
        return dict.fromkeys(attrs, REDACTED)
    for path in paths:
        attrs = _without(attrs, path, keep_name=True)
    return attrs


def _fits(line: bytes, document: dict[str, Any], attrs: dict[str, Any]) -> bool:
    try:
        chain.mask(line, canonical_bytes(document | {_ATTRS: attrs}))
    except ValueError:
        return False
    return True


def _grows(attrs: dict[str, Any], path: str) -> bool:
    return len(canonical_bytes(_without(attrs, path, keep_name=True))) > len(canonical_bytes(attrs))


def _without(members: dict[str, Any], path: str, *, keep_name: bool) -> dict[str, Any]:
    """Every reading of the path is followed: names may have dots in them, and lists may hold objects."""
    left = {}
    for name, value in members.items():
        if name != path:
            below = path[len(name) + 1 :] if path.startswith(name + ".") else None
            left[name] = value if below is None else _without_below(value, below, keep_name)
        elif keep_name:
            left[name] = REDACTED
    return left


def _without_below(value: Any, path: str, keep_name: bool) -> Any:
    if isinstance(value, dict):
        return _without(value, path, keep_name=keep_name)
    if isinstance(value, list):
        return [_without_below(each, path, keep_name) for each in value]
    return value


def _filled(members: dict[str, Any], path: str) -> dict[str, Any]:
    if path in members:
        return members
    name, dot, below = path.partition(".")
    if not dot:
        return members | {path: REDACTED}
    inner = members.get(name)
    return members | {name: _filled(inner, below)} if isinstance(inner, dict) else members
