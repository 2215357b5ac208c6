"""What a person is told before values are erased for good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tallystick.errors import NotFound
from tallystick.policy import Action, Principal
from tallystick.state import Breathing
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.toolsets import Confirmation
from tallystick.toolsets.memory.arguments import WriteArguments, WriteOperation
from tallystick.toolsets.memory.write_request import REDACTS, resource_of

if TYPE_CHECKING:
    from tallystick.engine.store import Store

_SHOWN = 10
_TEXT_CHARACTERS = 200


def _concerns(arguments: Mapping[str, Any]) -> bool:
    """Of arguments that nobody has checked yet."""
    ops = arguments.get("ops")
    several = ops if isinstance(ops, list) else ()
    said = [arguments.get("op"), *(each.get("op") for each in several if isinstance(each, dict))]
    return any(isinstance(op, str) and op in REDACTS for op in said)


async def _describe(store: Store, principal: Principal, asked: WriteArguments) -> str:
    redacting = [each for each in asked.operations if each.op in REDACTS]

    def look(state: State, read_filter: ReadFilter) -> Breathing[list[str]]:
        lines: list[str] = []
        for each in redacting[:_SHOWN]:
            lines.append((yield from _line(state, read_filter, each)))
        return lines

    described: list[str] = await store.read(principal, Action.SEARCH, look)
    if len(redacting) > _SHOWN:
        described.append(f"and {len(redacting) - _SHOWN} more")
    listed = "\n".join(f"- {line}" for line in described)
    return f"Erase for good, from the log and everything made of it?\n{listed}\nThis cannot be undone."


def _line(state: State, read_filter: ReadFilter, asked: WriteOperation) -> Breathing[str]:
    """Names and counts, and no values: this is shown where the values need not be."""
    entity_id = resource_of(asked)
    fields = None if asked.redacted_fields is None else tuple(asked.redacted_fields)
    reason = f" Reason: {_clipped(asked.reason)}" if asked.reason else ""
    what = ", ".join(map(_clipped, fields[:_SHOWN])) if fields else "all values"
    if asked.op == "REDACT_EDGE":
        if not read_filter.allows_edge(entity_id):
            raise NotFound(f"there is no edge '{entity_id}'")
        versions = len((yield from state.edge_redaction(entity_id, fields)))
        return f"{what} of edge '{_clipped(entity_id)}', in {_counted(versions)}.{reason}"
    known = state.last_owner(entity_id)
    if known is None or not read_filter.allows(entity_id):
        raise NotFound(f"there is no node '{entity_id}'")
    versions = len((yield from state.redaction(entity_id, fields)))
    edges = sum(1 for _ in state.edge_redactions(entity_id)) if fields is None else 0
    around = f", and what {edges} of its edges say" if edges else ""
    return f"{what} of {_clipped(known[0])} '{_clipped(entity_id)}', in {_counted(versions)}{around}.{reason}"


def _counted(versions: int) -> str:
    return "1 stored version" if versions == 1 else f"{versions} stored versions"


def _clipped(text: str) -> str:
    """In one line: a person reads it in a dialogue."""
    flat = "".join(character if character.isprintable() else " " for character in text)
    return flat if len(flat) <= _TEXT_CHARACTERS else f"{flat[:_TEXT_CHARACTERS]}…"


CONFIRM_REDACTION = Confirmation(_concerns, _describe)
