"""The registry as a principal may see it: `_system/registry.json` without what they may not read."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import orjson

from tallystick.errors import InvalidArgument
from tallystick.extensions.files.context import Call
from tallystick.policy import Action
from tallystick.projections.sandboxed_files import Parts
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.trust import Trust

REGISTRY: Parts = ("_system", "registry.json")
Entities = dict[str, dict[str, Any]]


class _Registry(msgspec.Struct):
    nodes: Entities
    connections: Entities


async def filtered(call: Call, text: str) -> tuple[str, dict[str, list[str]]]:
    """What may be read of it, and the ids in it that were recalled or are stale. As it is where none can be."""

    def needs(state: State, read_filter: ReadFilter) -> tuple[bool, bool]:
        return read_filter.narrows, state.dates_any or bool(state.derived(Trust).recalls())

    narrows, flags = await call.read(Action.READ, needs)
    if not narrows and not flags:
        return text, {}
    nodes, connections = await asyncio.to_thread(_parsed, text)

    def look(state: State, read_filter: ReadFilter) -> tuple[list[str], list[str], dict[str, list[str]]]:
        seen = {each: None for each in nodes if read_filter.allows(each)}
        # It shows a connection only with both its ends.
        joined = [name for name, each in connections.items() if each["from"] in seen and each["to"] in seen]
        return list(seen), joined, read_filter.flags((*seen, *joined))

    seen, joined, flagged = await call.read(Action.READ, look)
    if len(seen) < len(nodes) or len(joined) < len(connections):
        kept = {each: nodes[each] for each in seen}, {each: connections[each] for each in joined}
        text = await asyncio.to_thread(_written, *kept)
    return text, flagged


def named_in(text: str, ids: list[str]) -> list[str]:
    """Those that this part of it is about."""
    return [each for each in ids if f"    {orjson.dumps(each).decode()}: " in text]


def _parsed(text: str) -> tuple[Entities, Entities]:
    try:
        found = msgspec.json.decode(text, type=_Registry)
        return found.nodes, {name: each for name, each in found.connections.items() if {"from", "to"} <= each.keys()}
    except msgspec.DecodeError:
        # Somebody wrote into it: then nobody can say whose it is.
        raise InvalidArgument(
            f"'{'/'.join(REGISTRY)}' is not as the store wrote it", code="NOT_TEXT", hint="use query_nodes"
        ) from None


def _written(nodes: Entities, connections: Entities) -> str:
    """One entity a line, as the views write it."""
    return f'{{\n  "nodes": {_group(nodes)},\n  "connections": {_group(connections)}\n}}\n'


def _group(entities: Entities) -> str:
    lines = [f"    {orjson.dumps(name).decode()}: {orjson.dumps(entity).decode()}" for name, entity in entities.items()]
    return "{\n" + ",\n".join(lines) + "\n  }" if lines else "{}"
