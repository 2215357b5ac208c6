"""create_node, get_node, get_node_content, update_node, delete_node: typed memories and what they hold."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from tallystick.commits import Operation, Verb
from tallystick.errors import InvalidArgument, StorageRefused
from tallystick.extensions.ontology import lookup
from tallystick.extensions.ontology.arguments import CreateNode, GetNode, UpdateNode
from tallystick.extensions.ontology.context import (
    DEFAULT_FORMAT,
    Call,
    Writing,
    check_encoding,
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
from tallystick.state import Node
from tallystick.state.ontology import check_properties
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.toolsets import Answer
from tallystick.toolsets.drafts import repeated


async def create_node(call: Call, asked: CreateNode) -> Answer:
    writing = Writing(call, written_type=asked.type)
    attrs = asked.properties or {}

    def judge(state: State, read_filter: ReadFilter) -> None:
        lookup.check_node_type(lookup.get_ontology(state, asked.type), asked.type)
        check_encoding(asked.encoding)
        check_properties(attrs)
        check_size(attrs)

    async def attempt() -> Answer:
        node_id = fresh_id("mem")
        await writing.look(judge, node_id)
        data = await decoded(call, asked.content, asked.encoding)
        prepared = await writing.prepare("nodes", node_id, asked.format, asked.encoding, data)

        def propose(state: State, read_filter: ReadFilter) -> tuple[Operation, ...]:
            judge(state, read_filter)
            check_free(state, node_id)
            return (_written(node_id, asked.type, attrs, prepared.content),)

        await writing.commit(propose, node_id, prepared)
        return Answer({"node_id": node_id})

    return await repeated(attempt)


async def get_node(call: Call, asked: GetNode) -> Answer:
    def look(state: State, read_filter: ReadFilter) -> dict[str, Any]:
        node = lookup.get_node(state, read_filter, asked.node_id)
        times = state.summary(node.id)
        document = {
            "id": node.id,
            "type": node.type,
            "created": times.created_at if times else node.provenance.timestamp,
            "modified": node.provenance.timestamp,
            "properties": node.attrs,
            "content_format": format_of(node),
        }
        return read_filter.warned(node.id, document)

    return Answer(await call.read(Action.READ, look, resource=asked.node_id), exempt=True)


async def get_node_content(call: Call, asked: GetNode) -> Answer:
    def look(state: State, read_filter: ReadFilter) -> tuple[Node, dict[str, Any]]:
        return lookup.get_node(state, read_filter, asked.node_id), read_filter.warned(asked.node_id, {})

    # Where the content file cannot be looked at, the log answers.
    with suppress(OSError, InvalidArgument, StorageRefused):
        await call.adopt_edit("nodes", asked.node_id)
    node, warning = await call.read(Action.READ, look, resource=asked.node_id)
    content = node.content or {"text": ""}
    encoding = content.get("encoding", "utf-8")
    data = await asyncio.to_thread(call.contents().read, content)
    text = await encoded(data, encoding)
    answer = {"content": text, "encoding": encoding, "format": format_of(node), **warning}
    return Answer(answer, text=text, exempt=True)


async def update_node(call: Call, asked: UpdateNode) -> Answer:
    if asked.properties is None and asked.content is None and asked.format is None and asked.encoding is None:
        raise InvalidArgument("nothing to update: give properties, content or format")
    writing = Writing(call)

    def judge(state: State, read_filter: ReadFilter) -> Node:
        node = lookup.get_node(state, read_filter, asked.node_id)
        _check_update(asked)
        check_size(node.attrs | (asked.properties or {}))
        return node

    if asked.content is not None:
        await call.adopt_edit("nodes", asked.node_id)

    async def attempt() -> Answer:
        seen: Node = await writing.look(judge, asked.node_id)
        prepared = await _prepared(writing, asked, seen)

        def propose(state: State, read_filter: ReadFilter) -> tuple[Operation, ...]:
            node = judge(state, read_filter)
            attrs = node.attrs | (asked.properties or {})
            return (_written(node.id, node.type, attrs, content_after(node, asked.format, prepared)),)

        await writing.commit(propose, asked.node_id, prepared)
        return done(call)

    return await repeated(attempt)


async def delete_node(call: Call, asked: GetNode) -> Answer:
    writing = Writing(call, Action.DELETE)

    def propose(state: State, read_filter: ReadFilter) -> tuple[Operation, ...]:
        node = lookup.get_node(state, read_filter, asked.node_id)
        edges = (Operation(Verb.DELETE_EDGE, name) for name in state.edge_names(node.id))
        return (*edges, Operation(Verb.DELETE_NODE, {"node_id": node.id}))

    await call.adopt_edit("nodes", asked.node_id)
    await writing.commit(propose, asked.node_id)
    return done(call)


def _check_update(asked: UpdateNode) -> None:
    if asked.content is not None:
        check_encoding(asked.encoding)
    elif asked.encoding is not None:
        raise InvalidArgument("encoding is given without content", code="INVALID_ENCODING")
    check_properties(asked.properties or {})


async def _prepared(writing: Writing, asked: UpdateNode, node: Node) -> Prepared | None:
    if asked.content is None or asked.encoding is None:
        return None
    data = await decoded(writing.call, asked.content, asked.encoding)
    format = asked.format or format_of(node) or DEFAULT_FORMAT
    return await writing.prepare("nodes", node.id, format, asked.encoding, data)


def _written(node_id: str, node_type: str, attrs: dict[str, Any], content: dict[str, Any] | None) -> Operation:
    payload = {"id": node_id, "type": node_type, "attrs": attrs}
    return Operation(Verb.UPSERT_NODE, payload if content is None else {**payload, "content": content})
