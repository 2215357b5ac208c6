"""The ontology vocabulary: typed memories and typed connections under rules of one's own making.

Eighteen tools. This file is their table; `arguments` holds their arguments. They need
files beside the store, so the toolset is made: `make_toolset(None, None)` is for showing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from tallystick.toolsets import Tool, Toolset, error_shape
from tallystick.toolsets.ontology import arguments, connections, definitions, nodes, queries
from tallystick.toolsets.ontology.context import CONTENT_BYTES_MAX, Adopt, Published, ToolContext

if TYPE_CHECKING:
    from tallystick.projections.content import Contents
    from tallystick.projections.text import TextIndex


def make_toolset(
    contents: Callable[[str], Contents] | None,
    text: Callable[[str], TextIndex] | None,
    *,
    published: Published | None = None,
    adopt: Adopt | None = None,
    content_bytes_max: int = CONTENT_BYTES_MAX,
) -> Toolset:
    """`contents` and `text` by tenant. For those who look at the files, `published` is awaited after each write
    and `adopt` before a content is read or replaced."""
    tool_context = ToolContext(contents, text, published, adopt, content_bytes_max)
    return Toolset(
        name="ontology",
        summary="typed memories and connections under an ontology that you define, with content that people can"
        " open as files",
        faults="result",
        error_shape=error_shape,
        tools=tuple(_tool(tool_context, **row) for row in _TOOLS),
    )


def _tool(tool_context: ToolContext, *, call: Any, **row: Any) -> Tool:
    return Tool(name=call.__name__, call=partial(call, tool_context), **row)


_TEXT = {"type": "string"}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_COUNT = {"type": "integer"}
_FLAG = {"type": "boolean"}
_OBJECT = {"type": "object"}
_TEXTS = {"type": "array", "items": _TEXT}
_OBJECTS = {"type": "array", "items": _OBJECT}

# A name means the same in the answer of every tool.
_ANSWERS: dict[str, dict[str, Any]] = {
    "connection_id": _TEXT,
    "connection_ids": _TEXTS,
    "connection_types": _OBJECTS,
    "content": _TEXT_OR_NULL,
    "content_format": _TEXT_OR_NULL,
    "created": _TEXT,
    "encoding": _TEXT,
    "format": _TEXT_OR_NULL,
    "from_node_id": _TEXT,
    "has_content": _FLAG,
    "hits": _OBJECTS,
    "id": _TEXT,
    "modified": _TEXT,
    "next_offset": _COUNT,
    "node_id": _TEXT,
    "node_ids": _TEXTS,
    "node_types": _TEXTS,
    "ok": _FLAG,
    "properties": _OBJECT,
    "reason": _TEXT,
    "skipped": _TEXTS,
    "to_node_id": _TEXT,
    "total": _COUNT,
    "type": _TEXT,
    "unchecked": _FLAG,
    "untrusted": {"type": ["object", "array"]},
    "valid": _FLAG,
    "violations": _OBJECTS,
}


def _answer(always: str, sometimes: str = "") -> dict[str, Any]:
    names = f"{always} {sometimes}".split()
    return {"type": "object", "properties": {name: _ANSWERS[name] for name in names}, "required": always.split()}


_READS: dict[str, Any] = {"reads_only": True, "idempotent": True}
_WRITES: dict[str, Any] = {"reads_only": False}

_TOOLS: tuple[dict[str, Any], ...] = (
    {
        "call": nodes.create_node,
        "title": "Create a memory node",
        "description": "Keep one typed memory: content plus properties to find it by. Its type must be in the"
        " ontology (get_ontology).",
        "input": arguments.CreateNode,
        "output": _answer("node_id"),
        **_WRITES,
    },
    {
        "call": nodes.get_node,
        "title": "Get a memory node",
        "description": "Type, properties and times of one memory node, without its content.",
        "input": arguments.GetNode,
        "output": _answer("id type created modified properties content_format", "untrusted"),
        **_READS,
    },
    {
        "call": nodes.get_node_content,
        "title": "Read a memory node's content",
        "description": "The whole content of one memory node; base64 where it was stored so.",
        "input": arguments.GetNode,
        "output": _answer("content encoding format", "untrusted"),
        **_READS,
    },
    {
        "call": nodes.update_node,
        "title": "Update a memory node",
        "description": "Merge properties, replace the content, or change its format.",
        "input": arguments.UpdateNode,
        "output": _answer("ok"),
        **_WRITES,
        "destructive": True,
        "idempotent": True,
    },
    {
        "call": nodes.delete_node,
        "title": "Delete a memory node",
        "description": "Delete one memory node with all its connections; the nodes at their other ends stay.",
        "input": arguments.GetNode,
        "output": _answer("ok"),
        **_WRITES,
        "destructive": True,
    },
    {
        "call": connections.create_connection,
        "title": "Connect two memory nodes",
        "description": "Join two memory nodes by a typed connection, if the ontology allows it between their types.",
        "input": arguments.CreateConnection,
        "output": _answer("connection_id"),
        **_WRITES,
    },
    {
        "call": connections.get_connection,
        "title": "Get a connection",
        "description": "Ends, type, properties and times of one connection; its notes with include_content.",
        "input": arguments.GetConnection,
        "output": _answer(
            "id type from_node_id to_node_id created modified properties has_content",
            "content content_format untrusted",
        ),
        **_READS,
    },
    {
        "call": connections.update_connection,
        "title": "Update a connection",
        "description": "Merge properties of a connection, or replace its notes.",
        "input": arguments.UpdateConnection,
        "output": _answer("ok"),
        **_WRITES,
        "destructive": True,
        "idempotent": True,
    },
    {
        "call": connections.delete_connection,
        "title": "Delete a connection",
        "description": "Delete one connection; both its nodes stay.",
        "input": arguments.DeleteConnection,
        "output": _answer("ok"),
        **_WRITES,
        "destructive": True,
    },
    {
        "call": queries.query_nodes,
        "title": "Find memory nodes",
        "description": "Ids of the memory nodes of a type that have all the given properties; all nodes without"
        " a filter.",
        "input": arguments.QueryNodes,
        "output": _answer("node_ids", "next_offset total untrusted"),
        **_READS,
    },
    {
        "call": queries.query_connections,
        "title": "Find connections",
        "description": "Ids of the connections with the given source, target, type and properties.",
        "input": arguments.QueryConnections,
        "output": _answer("connection_ids", "next_offset total untrusted"),
        **_READS,
    },
    {
        "call": queries.get_connected_nodes,
        "title": "Follow connections",
        "description": "Ids of the nodes one connection away from a memory node.",
        "input": arguments.GetConnectedNodes,
        "output": _answer("node_ids", "next_offset total untrusted"),
        **_READS,
    },
    {
        "call": queries.search_content,
        "title": "Search contents",
        "description": "Ids of the memory nodes whose text contains the query, in any case; or, ranked, those that"
        " match its words best.",
        "input": arguments.SearchContent,
        "output": _answer("node_ids", "hits skipped next_offset total untrusted"),
        **_READS,
    },
    {
        "call": definitions.validate_connection,
        "title": "Check a connection type",
        "description": "Whether a connection type may join two node types, before creating it.",
        "input": arguments.ValidateConnection,
        "output": _answer("valid", "reason"),
        **_READS,
    },
    {
        "call": definitions.create_ontology,
        "title": "Create the ontology",
        "description": "Define the node and connection types, once. They can be added to, never changed.",
        "input": arguments.CreateOntology,
        "output": _answer("ok", "violations total unchecked"),
        **_WRITES,
    },
    {
        "call": definitions.add_node_type,
        "title": "Add a node type",
        "description": "Add a node type to the ontology, for good.",
        "input": arguments.AddNodeType,
        "output": _answer("ok", "violations total unchecked"),
        **_WRITES,
    },
    {
        "call": definitions.add_connection_type,
        "title": "Add a connection type",
        "description": "Add a connection type to the ontology, for good.",
        "input": arguments.AddConnectionType,
        "output": _answer("ok", "violations total unchecked"),
        **_WRITES,
    },
    {
        "call": definitions.get_ontology,
        "title": "Get the ontology",
        "description": "All node and connection types: what may be created and connected.",
        "input": arguments.GetOntology,
        "output": _answer("node_types connection_types"),
        **_READS,
    },
)
