"""The OpenAPI 3.1 document of the REST face: every tool a path, with all it takes, gives and refuses."""

from __future__ import annotations

from typing import Any

from tallystick.server import Offer
from tallystick.server.answers import STATUS_WORDS
from tallystick.server.dispatch import Entry
from tallystick.server.schemas import Schema, compact, error_schema, input_schema, with_references

_HEALTH: Schema = {
    "type": "object",
    "properties": {
        "status": {"type": "string", "const": "ok"},
        "version": {"type": "string"},
        "position": {"type": "integer", "description": "The last lamport of the log."},
    },
    "required": ["status", "version"],
}
_TOOL_LIST: Schema = {
    "type": "object",
    "properties": {
        "tools": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    **{name: {"type": "string"} for name in ("name", "toolset", "title", "description")},
                    **{name: {"type": "boolean"} for name in ("reads_only", "destructive", "idempotent")},
                    **{name: {"type": "object"} for name in ("input_schema", "output_schema", "error_schema")},
                },
                "required": ["name", "toolset", "title", "description", "input_schema", "output_schema"],
            },
        }
    },
    "required": ["tools"],
}
_PLAIN_ERROR: Schema = {
    "type": "object",
    "properties": {"error": {"type": "string"}, "message": {"type": "string"}, "error_id": {"type": "string"}},
    "required": ["error", "message"],
}
_FAULTS: Schema = {
    "type": "object",
    "properties": {"validation_errors": {"type": "array", "items": {"type": "string"}}},
    "required": ["validation_errors"],
}

_PLAIN_STATUSES = (413, 415, 500)
"""Said before or after the tool has its word, so never in a toolset's shape. 413 may be either."""


def openapi(offer: Offer) -> dict[str, Any]:
    schemas: dict[str, Schema] = {"Error": _PLAIN_ERROR, "ArgumentFaults": _FAULTS}
    paths: dict[str, Any] = {
        "/health": {"get": _get("health", "Whether the server answers, and where its log stands", _HEALTH)},
        "/v1/tools": {"get": _get("list_tools", "The tools that are on", _TOOL_LIST)},
        "/v1/openapi.json": {"get": _get("openapi", "This document", {"type": "object"})},
    }
    for entry in offer.tools:
        paths[f"/v1/tools/{entry.dotted}"] = {"post": _operation(entry, schemas)}
    return {
        "openapi": "3.1.0",
        "info": {"title": offer.name, "version": offer.version, "summary": "The tools of the memory, as plain HTTP"},
        "servers": [{"url": "/"}],
        "tags": [{"name": toolset.name, "description": toolset.summary} for toolset in offer.tools.toolsets_on],
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _operation(entry: Entry, schemas: dict[str, Schema]) -> dict[str, Any]:
    error = f"{entry.toolset.name}_error"
    schemas.setdefault(error, error_schema(entry.toolset))
    arguments = _shared(input_schema(entry.tool), entry.underscored, schemas)
    answer = _shared(compact(entry.tool.output), f"{entry.underscored}_answer", schemas)
    return {
        "operationId": entry.underscored,
        "tags": [entry.toolset.name],
        "summary": entry.tool.title,
        "description": entry.tool.description,
        "requestBody": {
            "required": bool(arguments.get("required")),
            "content": {"application/json": {"schema": arguments}},
        },
        "responses": {"200": _response("The answer.", answer)}
        | {str(status): _response(words, _error(status, error)) for status, words in STATUS_WORDS.items()},
    }


def _error(status: int, name: str) -> Schema:
    said, plain = {"$ref": f"#/components/schemas/{name}"}, {"$ref": "#/components/schemas/Error"}
    if status == 400:
        return {"allOf": [{"anyOf": [said, plain]}, {"$ref": "#/components/schemas/ArgumentFaults"}]}
    if status in (404, 413):
        return {"anyOf": [said, plain]}
    return plain if status in _PLAIN_STATUSES else said


def _shared(schema: Schema, prefix: str, schemas: dict[str, Schema]) -> Schema:
    """`schema` with its definitions moved to the document's components: references count from the document's root."""

    def move(reference: str) -> Schema:
        return {"$ref": reference.replace("#/$defs/", f"#/components/schemas/{prefix}_")}

    for name, definition in schema.get("$defs", {}).items():
        schemas[f"{prefix}_{name}"] = with_references(definition, move)
    body: Schema = with_references({key: value for key, value in schema.items() if key != "$defs"}, move)
    return body


def _get(name: str, summary: str, schema: Schema) -> dict[str, Any]:
    return {"operationId": name, "summary": summary, "responses": {"200": _response(f"{summary}.", schema)}}


def _response(words: str, schema: Schema) -> dict[str, Any]:
    return {"description": words, "content": {"application/json": {"schema": schema}}}
