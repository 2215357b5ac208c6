"""The ontology vocabulary: typed memories and typed connections under rules of one's own making.

Eighteen tools. This file is their table; `arguments` holds their arguments. They need
files beside the store, so the toolset is made: `make_toolset(None, None)` is for showing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from tallystick.extensions.ontology import arguments, connections, definitions, nodes, queries
from tallystick.extensions.ontology.context import CONTENT_BYTES_MAX, Adopt, Call, Published, ToolContext
from tallystick.toolsets import COUNT, FLAG, FLAGGED, OBJECT, TEXT, Toolset, answer_schema, error_shape, make_tool

if TYPE_CHECKING:
    from tallystick.app.context import AppContext
    from tallystick.projections.content import Contents
    from tallystick.projections.text import TextIndex


def contributed(context: AppContext) -> Toolset:
    projections = context.projections
    return make_toolset(
        projections.contents if projections else None,
        projections.text if projections else None,
        published=projections.published if projections else None,
        adopt=projections.adopted if projections else None,
        content_bytes_max=context.settings.content_bytes_max,
    )


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
    begin = partial(Call, tool_context)
    return Toolset(
        name="ontology",
        faults="result",
        error_shape=error_shape,
        tools=tuple(make_tool(begin, *row[:5], answer_schema(_ANSWERS, row[5])) for row in _TABLE),
    )


_TEXT_OR_NULL = {"type": ["string", "null"]}
_TEXTS = {"type": "array", "items": TEXT}
_OBJECTS = {"type": "array", "items": OBJECT}

# A name means the same in the answer of every tool.
_ANSWERS: dict[str, dict[str, Any]] = {
    "at_least": FLAG,
    "connection_id": TEXT,
    "connection_ids": _TEXTS,
    "connection_types": _OBJECTS,
    "content": _TEXT_OR_NULL,
    "content_format": _TEXT_OR_NULL,
    "created": TEXT,
    "encoding": TEXT,
    "format": _TEXT_OR_NULL,
    "from_node_id": TEXT,
    "has_content": FLAG,
    "hits": _OBJECTS,
    "id": TEXT,
    "modified": TEXT,
    "next_offset": COUNT,
    "node_id": TEXT,
    "node_ids": _TEXTS,
    "node_types": _TEXTS,
    "ok": FLAG,
    "properties": OBJECT,
    "reason": TEXT,
    "skipped": _TEXTS,
    "stale": FLAGGED,
    "to_node_id": TEXT,
    "total": COUNT,
    "type": TEXT,
    "unchecked": FLAG,
    "untrusted": FLAGGED,
    "valid": FLAG,
    "violations": _OBJECTS,
}

_TABLE: tuple[tuple[Any, type[Any], str, str, str, str], ...] = (
    (nodes.create_node, arguments.CreateNode, "", "Create a memory node",
     "Keep one typed memory: content plus properties to find it by. Its type must be in the ontology (get_ontology).",
     "node_id"),
    (nodes.get_node, arguments.GetNode, "ri", "Get a memory node",
     "Type, properties and times of one memory node, without its content.",
     "id type created modified properties content_format stale? untrusted?"),
    (nodes.get_node_content, arguments.GetNode, "ri", "Read a memory node's content",
     "The whole content of one memory node; base64 where it was stored so.",
     "content encoding format stale? untrusted?"),
    (nodes.update_node, arguments.UpdateNode, "di", "Update a memory node",
     "Merge properties, replace the content, or change its format.", "ok"),
    (nodes.delete_node, arguments.GetNode, "d", "Delete a memory node",
     "Delete one memory node with all its connections; the nodes at their other ends stay.", "ok"),
    (connections.create_connection, arguments.CreateConnection, "", "Connect two memory nodes",
     "Join two memory nodes by a typed connection, if the ontology allows it between their types.", "connection_id"),
    (connections.get_connection, arguments.GetConnection, "ri", "Get a connection",
     "Ends, type, properties and times of one connection; its notes with include_content.",
     "id type from_node_id to_node_id created modified properties has_content content? content_format? stale?"
     " untrusted?"),
    (connections.update_connection, arguments.UpdateConnection, "di", "Update a connection",
     "Merge properties of a connection, or replace its notes.", "ok"),
    (connections.delete_connection, arguments.DeleteConnection, "d", "Delete a connection",
     "Delete one connection; both its nodes stay.", "ok"),
    (queries.query_nodes, arguments.QueryNodes, "ri", "Find memory nodes",
     "Ids of the memory nodes of a type that have all the given properties; all nodes without a filter.",
     "node_ids next_offset? total? at_least? stale? untrusted?"),
    (queries.query_connections, arguments.QueryConnections, "ri", "Find connections",
     "Ids of the connections with the given source, target, type and properties.",
     "connection_ids next_offset? total? at_least? stale? untrusted?"),
    (queries.get_connected_nodes, arguments.GetConnectedNodes, "ri", "Follow connections",
     "Ids of the nodes one connection away from a memory node.", "node_ids next_offset? total? stale? untrusted?"),
    (queries.search_content, arguments.SearchContent, "ri", "Search contents",
     "Ids of the memory nodes whose text contains the query, in any case; or, ranked, those that match its words"
     " best.", "node_ids hits? skipped? next_offset? total? stale? untrusted?"),
    (definitions.validate_connection, arguments.ValidateConnection, "ri", "Check a connection type",
     "Whether a connection type may join two node types, before creating it.", "valid reason?"),
    (definitions.create_ontology, arguments.CreateOntology, "", "Create the ontology",
     "Define the node and connection types, once. They can be added to, never changed.",
     "ok violations? total? unchecked?"),
    (definitions.add_node_type, arguments.AddNodeType, "", "Add a node type",
     "Add a node type to the ontology, for good.", "ok violations? total? unchecked?"),
    (definitions.add_connection_type, arguments.AddConnectionType, "", "Add a connection type",
     "Add a connection type to the ontology, for good.", "ok violations? total? unchecked?"),
    (definitions.get_ontology, arguments.GetOntology, "ri", "Get the ontology",
     "All node and connection types: what may be created and connected.", "node_types connection_types"),
)  # fmt: skip
