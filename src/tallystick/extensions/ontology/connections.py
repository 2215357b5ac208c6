"""create_connection, get_connection, update_connection, delete_connection."""

from __future__ import annotations

import asyncio
from typing import Any

from tallystick.commits import Operation, Verb
from tallystick.errors import InvalidArgument
from tallystick.extensions.ontology import lookup
from tallystick.extensions.ontology.arguments import CreateConnection, DeleteConnection, GetConnection, UpdateConnection
from tallystick.extensions.ontology.context import (
    DEFAULT_FORMAT,
    Call,
    Writing,
    check_free,
    check_size,
    content_after,
    decoded,
    done,
    encoded,
    format_of,
    fresh_id,
)
from tallystick.policy import Action
from tallystick.projections.content import Prepared
from tallystick.state import Edge
from tallystick.state.ontology import check_connection, check_properties
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.toolsets import Answer
from tallystick.toolsets.drafts import repeated

_STEPS = 100


async def create_connection(call: Call, asked: CreateConnection) -> Answer:
    if asked.format is not None and asked.content is None:
        raise InvalidArgument("format is given without content")
    writing = Writing(call, written_type=asked.type)
    attrs = asked.properties or {}

    def judge(state: State, read_filter: ReadFilter) -> None:
        kind = lookup.get_connection_type(lookup.get_ontology(state, asked.type), asked.type)
        from_type, to_type = (lookup.get_end(state, read_filter, end) for end in (asked.from_node_id, asked.to_node_id))
        check_connection(kind, from_type, to_type, attrs)
        check_size(attrs)

    async def attempt() -> Answer:
        connection_id = fresh_id("conn")
        await writing.look(judge, connection_id)
        prepared = await _prepared(writing, connection_id, asked.content, asked.format or DEFAULT_FORMAT)
        name = {"id": connection_id, "from": asked.from_node_id, "rel": asked.type, "to": asked.to_node_id}

        def propose(state: State, read_filter: ReadFilter) -> tuple[Operation, ...]:
            judge(state, read_filter)
            check_free(state, connection_id)
            return (_written(name, attrs, prepared.content if prepared else None),)

        await writing.commit(propose, connection_id, prepared)
        return Answer({"connection_id": connection_id})

    return await repeated(attempt)


async def get_connection(call: Call, asked: GetConnection) -> Answer:
    def look(state: State, read_filter: ReadFilter) -> tuple[Edge, str, dict[str, Any]]:
        edge = lookup.get_connection(state, read_filter, asked.connection_id)
        return edge, _created(state, edge), read_filter.warned(edge.id, {}, edge.attrs)

    if asked.include_content:
        await call.adopt_edit("connections", asked.connection_id)
    edge, created, warning = await call.read(Action.READ, look, resource=asked.connection_id)
    answer = {
        "id": edge.id,
        "type": edge.rel,
        "from_node_id": edge.source,
        "to_node_id": edge.target,
        "created": created,
        "modified": edge.timestamp,
        "properties": edge.attrs,
        "has_content": edge.content is not None,
        **warning,
    }
    if asked.include_content:
        answer |= await _content_of(call, edge)
    return Answer(answer, exempt=True)


async def update_connection(call: Call, asked: UpdateConnection) -> Answer:
    if asked.properties is None and asked.content is None and asked.format is None:
        raise InvalidArgument("nothing to update: give properties, content or format")
    writing = Writing(call)

    def judge(state: State, read_filter: ReadFilter) -> Edge:
        edge = lookup.get_connection(state, read_filter, asked.connection_id)
        check_properties(asked.properties or {})
        check_size(edge.attrs | (asked.properties or {}))
        if asked.format is not None and asked.content is None and edge.content is None:
            raise InvalidArgument("format is given, but there is no content")
        return edge

    if asked.content is not None:
        await call.adopt_edit("connections", asked.connection_id)

    async def attempt() -> Answer:
        seen: Edge = await writing.look(judge, asked.connection_id)
        prepared = await _prepared(writing, seen.id, asked.content, asked.format or format_of(seen) or DEFAULT_FORMAT)

        def propose(state: State, read_filter: ReadFilter) -> tuple[Operation, ...]:
            edge = judge(state, read_filter)
            name = state.edge_name(edge.id) or {}
            return (_written(name, edge.attrs | (asked.properties or {}), content_after(edge, asked.format, prepared)),)

        await writing.commit(propose, asked.connection_id, prepared)
        return done(call)

    return await repeated(attempt)


async def delete_connection(call: Call, asked: DeleteConnection) -> Answer:
    writing = Writing(call, Action.DELETE)

    def propose(state: State, read_filter: ReadFilter) -> tuple[Operation, ...]:
        edge = lookup.get_connection(state, read_filter, asked.connection_id)
        return (Operation(Verb.DELETE_EDGE, state.edge_name(edge.id) or {}),)

    await call.adopt_edit("connections", asked.connection_id)
    await writing.commit(propose, asked.connection_id)
    return done(call)


async def _prepared(writing: Writing, connection_id: str, content: str | None, format: str) -> Prepared | None:
    if content is None:
        return None
    data = await decoded(writing.call, content, "utf-8")
    return await writing.prepare("connections", connection_id, format, "utf-8", data)


async def _content_of(call: Call, edge: Edge) -> dict[str, Any]:
    if edge.content is None:
        return {"content": None, "content_format": None}
    data = await asyncio.to_thread(call.contents().read, edge.content)
    return {"content": await encoded(data, "utf-8"), "content_format": format_of(edge) or DEFAULT_FORMAT}


def _written(name: dict[str, Any], attrs: dict[str, Any], content: dict[str, Any] | None) -> Operation:
    payload = {**name, "attrs": attrs}
    return Operation(Verb.UPSERT_EDGE, payload if content is None else {**payload, "content": content})


def _created(state: State, edge: Edge) -> str:
    """When it was made, the last time if more than once. No column holds it: its commits are read, newest first."""
    total = lineage.total if (lineage := state.lineage(edge.id, "direct", 0, 0)) else 0
    for end in range(total, 0, -_STEPS):
        start = max(end - _STEPS, 0)
        lineage = state.lineage(edge.id, "direct", start, end - start)
        for step in reversed(lineage.steps if lineage else ()):
            if step.action == "CREATE_EDGE":
                return step.commit.timestamp
    return edge.timestamp
