"""The arguments of the eighteen tools: what may be said, and how long it may be.

Only the shape is judged here. Encodings and property values have their turn in the order of
checks that each tool keeps, so that the first thing wrong is the one that is reported.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from tallystick.toolsets.memory.arguments import (
    NAME_CHARACTERS_MAX,
    TOLD_ONCE,
    Arguments,
    Id,
    Name,
    not_blank,
    printable,
)

TYPES_MAX = 1_000
QUERY_CHARACTERS_MAX = 1_000


def _definable(name: str) -> str:
    if "/" in name:
        raise PydanticCustomError("reserved", "must not contain '/', which marks the types of other toolsets")
    return name


Encoding = Annotated[str, WithJsonSchema({"type": "string", "enum": ["utf-8", "base64"]})]
Properties = Annotated[
    dict[str, Any],
    WithJsonSchema({"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}),
]
TypeName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=NAME_CHARACTERS_MAX,
        json_schema_extra={
            "pattern": r"^[^/\x00-\x1f\x7f-\x9f]*[^\s/\x00-\x1f\x7f-\x9f][^/\x00-\x1f\x7f-\x9f]*$",
            **TOLD_ONCE,
        },
    ),
    AfterValidator(printable),
    AfterValidator(not_blank),
    AfterValidator(_definable),
]
Names = Annotated[list[Name], Field(max_length=TYPES_MAX)]
Limit = Annotated[int, Field(ge=1)]
Offset = Annotated[int, Field(ge=0)]

FORMAT_HELP = "e.g. markdown, json, pdf; chooses the file's extension"
OFFSET_HELP = "next_offset of the page before"


# -- nodes


class CreateNode(Arguments):
    type: Name = Field(description="a node type of the ontology")
    content: str
    encoding: Encoding = "utf-8"
    format: Name = Field(description=FORMAT_HELP)
    properties: Properties | None = None


class GetNode(Arguments):
    node_id: Id


class UpdateNode(Arguments):
    node_id: Id
    properties: Properties | None = Field(default=None, description="merged; none is removed")
    content: str | None = Field(default=None, description="replaces the old content")
    encoding: Encoding | None = Field(default=None, description="required with content")
    format: Name | None = None


# -- connections


class CreateConnection(Arguments):
    type: Name = Field(description="a connection type of the ontology")
    from_node_id: Id
    to_node_id: Id
    properties: Properties | None = None
    content: str | None = Field(default=None, description="notes on the relationship")
    format: Name | None = Field(default=None, description="of the content; default markdown")


class GetConnection(Arguments):
    connection_id: Id
    include_content: bool = False


class UpdateConnection(Arguments):
    connection_id: Id
    properties: Properties | None = Field(default=None, description="merged; none is removed")
    content: str | None = Field(default=None, description="replaces the old content")
    format: Name | None = None


class DeleteConnection(Arguments):
    connection_id: Id


# -- questions


class QueryNodes(Arguments):
    type: Name | None = None
    properties: Properties | None = Field(default=None, description="all must be equal")
    limit: Limit | None = None
    offset: Offset | None = Field(default=None, description=OFFSET_HELP)


class QueryConnections(Arguments):
    from_node_id: Id | None = None
    to_node_id: Id | None = None
    type: Name | None = None
    properties: Properties | None = Field(default=None, description="all must be equal")
    limit: Limit | None = None
    offset: Offset | None = Field(default=None, description=OFFSET_HELP)


class GetConnectedNodes(Arguments):
    node_id: Id
    connection_type: Name | None = Field(default=None, description="default all")
    direction: Literal["out", "in", "both"]
    limit: Limit | None = None
    offset: Offset | None = Field(default=None, description=OFFSET_HELP)


class SearchContent(Arguments):
    query: Annotated[str, Field(min_length=1, max_length=QUERY_CHARACTERS_MAX)]
    node_type: Name | None = None
    limit: Limit | None = None
    mode: Literal["substring", "ranked"] = Field(
        default="substring", description="ranked: best matches of the words first, with snippets"
    )
    offset: Offset | None = Field(default=None, description=OFFSET_HELP)


# -- the ontology


class ConnectionTypeArgument(Arguments):
    name: TypeName
    from_types: Names
    to_types: Names
    required_properties: Names | None = None


class CreateOntology(Arguments):
    node_types: Annotated[list[TypeName], Field(max_length=TYPES_MAX)]
    connection_types: Annotated[list[ConnectionTypeArgument], Field(max_length=TYPES_MAX)]


class AddNodeType(Arguments):
    type_name: TypeName


class AddConnectionType(Arguments):
    type_name: TypeName
    from_types: Names
    to_types: Names
    required_properties: Names | None = None


class GetOntology(Arguments):
    pass


class ValidateConnection(Arguments):
    connection_type: Name
    from_node_type: Name
    to_node_type: Name
