"""The attributes of a work node that readiness and search need.

Attributes may be anything at all: a redaction leaves words where numbers were. What makes no
sense counts as not said.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from tallystick.clock import from_text
from tallystick.state.attributes import TEXT_MAX, Scalar, find_text, list_of, object_of, scalar, text_of
from tallystick.state.work import CLAIMED_AT, CLAIMED_BY, CLAIMED_SESSION, DROPPED

NEW, ACTIVE, CLOSED, WILL_NOT_IMPLEMENT = "NEW", "ACTIVE", "CLOSED", "WILL_NOT_IMPLEMENT"
CATALOGS: dict[str, tuple[str, ...]] = {
    "feature": (NEW, ACTIVE, "READY_TO_PROD", CLOSED),
    "task": (NEW, ACTIVE, "TO_BE_TESTED", "READY_TO_PROD", CLOSED),
}
"""The steps that there are, by the kind of a node."""
BLOCKED = "BLOCKED"
BLOCKS = "blocks"
"""The attribute of a terminated task: its dependents stay blocked."""

PropertyKey = tuple[str, Scalar | None, bool]
"""A property as the index knows it: key, value, and whether the value is too large to be kept."""


class WorkAttributes(msgspec.Struct, frozen=True, gc=False):
    project: str | None
    parent: str | None
    resolved: bool
    dropped: bool
    """Resolved because it was given up, not done."""
    blocks: bool
    """Whether nodes that depend on it wait for it."""
    held: bool
    """Blocked by something that is not a node."""
    priority: float
    owner: str | None
    """Who claimed it; None also when it is not said since when."""
    claimed: int
    """Milliseconds."""
    session: str | None
    """In which it was claimed."""
    text: str
    """The summary, casefolded."""
    links: tuple[str, ...]
    kinds: tuple[str, ...]
    """Of evidence, each once."""
    marks: tuple[PropertyKey, ...]


def read(attrs: dict[str, Any]) -> WorkAttributes:
    properties = object_of(attrs, "properties")
    owner, claimed = _claim(properties)
    session = find_text(properties, CLAIMED_SESSION)
    return WorkAttributes(
        project=find_text(attrs, "project"),
        parent=find_text(attrs, "parent"),
        resolved=attrs.get("resolved") is True,
        dropped=is_dropped(attrs),
        blocks=is_blocking(attrs),
        held=is_held(attrs),
        priority=priority_of(properties.get("priority")),
        owner=owner,
        claimed=claimed,
        session=session if owner is not None else None,
        text=text_of(attrs, "summary").casefold(),
        links=tuple(dict.fromkeys(link for link in list_of(attrs, "context_links") if isinstance(link, str))),
        kinds=tuple(dict.fromkeys(kind for kind in map(_kind, list_of(attrs, "evidence")) if kind is not None)),
        marks=tuple(_mark(key, value) for key, value in properties.items()),
    )


def said_of(attrs: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes that tasks have beyond the work graph."""
    return object_of(attrs, "task")


def status_of(attrs: dict[str, Any]) -> str:
    """Return the step of a node. One that work reopened after it was done begins again."""
    if attrs.get("resolved") is True:
        return WILL_NOT_IMPLEMENT if is_dropped(attrs) else CLOSED
    task = said_of(attrs)
    step, steps = task.get("status"), CATALOGS["feature" if task.get("kind") == "feature" else "task"]
    return step if step in steps and step != CLOSED else NEW


def is_dropped(attrs: dict[str, Any]) -> bool:
    """Its step says so; where that says nothing of an end, the newest evidence does."""
    if attrs.get("resolved") is not True:
        return False
    step = said_of(attrs).get("status")
    if step in (CLOSED, WILL_NOT_IMPLEMENT):
        return bool(step == WILL_NOT_IMPLEMENT)
    newest = list_of(attrs, "evidence")[-1:]
    return bool(newest) and _kind(newest[0]) == DROPPED


def is_held(attrs: dict[str, Any]) -> bool:
    """Whether tasks call it blocked by nothing that could be resolved: `advance` refuses it then."""
    task = said_of(attrs)
    return task.get("noOp") is True or task.get("status") == BLOCKED


def is_blocking(attrs: dict[str, Any]) -> bool:
    """Return whether dependents wait for it: it is open, or `terminate` ended it. Dropping a node unblocks them."""
    return attrs.get("resolved") is not True or (is_dropped(attrs) and said_of(attrs).get(BLOCKS) is True)


def reopened(attrs: dict[str, Any]) -> dict[str, Any]:
    """Return the change that removes the mark of `terminate` from a node that is open again; empty without a mark."""
    task = said_of(attrs)
    return {"task": {name: value for name, value in task.items() if name != BLOCKS}} if BLOCKS in task else {}


def said_over(attrs: dict[str, Any], *, dropped: bool) -> dict[str, Any]:
    """What a resolved node must say besides, to count as dropped or as done whatever evidence it has."""
    if is_dropped(attrs) == dropped:
        return {}
    return {"task": {**said_of(attrs), "status": WILL_NOT_IMPLEMENT if dropped else CLOSED}}


def priority_of(value: Any) -> float:
    """A number, or a text that is one; anything else counts as 0."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return 0.0
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return 0.0
    return number if math.isfinite(number) else 0.0


def _claim(properties: dict[str, Any]) -> tuple[str | None, int]:
    owner, at = properties.get(CLAIMED_BY), properties.get(CLAIMED_AT)
    if not isinstance(owner, str) or not isinstance(at, str):
        return None, 0
    try:
        return owner, from_text(at)
    except (ValueError, OverflowError):
        return None, 0


def _mark(key: str, value: Any) -> PropertyKey:
    if isinstance(value, dict | list) or (isinstance(value, str) and len(value) > TEXT_MAX):
        return key, None, True
    return key, scalar(value), False


def _kind(entry: Any) -> str | None:
    return find_text(entry, "type") if isinstance(entry, dict) else None
