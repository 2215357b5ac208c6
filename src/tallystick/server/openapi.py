"""The OpenAPI 3.1 document of the REST face: every tool a path, with all it takes, gives and refuses."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from tallystick.server import Offer
from tallystick.server.answers import STATUS_WORDS
from tallystick.server.dispatch import OfferedTool
from tallystick.server.schemas import Schema, compact, error_schema, input_schema, with_references

if TYPE_CHECKING:
    from tallystick.server.oauth.guard import Admission

_HEALTH: Schema = {
    "type": "object",
    "properties": {
        "status": {"type": "string", "enum": ["ok", "not_ready"]},
        "message": {"type": "string", "description": "Why it is not ready."},
        "version": {"type": "string"},
        "position": {"type": "integer", "description": "The last lamport of the log."},
    },
    "required": ["status", "version"],
}
_PROBED: Schema = {
    "type": "object",
    "properties": {"status": {"type": "string", "const": "ok"}},
    "required": ["status"],
}
_PROBES = {
    "/health/live": ("live", "Whether this process can go on, or has to be started again"),
    "/health/ready": ("ready", "Whether calls should be sent to this process now"),
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

_PLAIN_STATUSES = (401, 415, 421, 500)
"""Said before or after the tool has its word, so never in a toolset's shape."""
_EITHER_STATUSES = (403, 404, 413, 503)
"""Said by the tool, or before it is asked."""
_GUARDED_WORDS = {
    401: "No access token, or one that is not good here; WWW-Authenticate shows the way to one.",
    403: "The policy says no, the token lacks a scope or is of an issuer not trusted here, or the page may not ask.",
    503: "The log, the disk or an index can't take or give anything now, or the issuer of the token can't be asked.",
}
_HEADERS: dict[int, dict[str, Any]] = {
    401: {"WWW-Authenticate": {"description": "RFC 6750, RFC 9728.", "schema": {"type": "string"}}},
    429: {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}},
}


_PROOFS: dict[str, tuple[str, str, str]] = {
    "/v1/proof/entry/{named}": (
        "prove_entry",
        "Proof that a commit is in the signed log, as a C2SP tlog-proof",
        "A commit, by its id (eight digits suffice) or its position, or an entity, for its newest commit.",
    ),
    "/v1/proof/since/{named}": (
        "prove_since",
        "Proof that the signed log begins with an older checkpoint of it",
        "The size of the older checkpoint.",
    ),
}
_PROOF_STATUSES = (400, 403, 404, 409, 421, 429, 503)


def openapi(offer: Offer, admission: Admission | None = None, served: Collection[str] = ()) -> dict[str, Any]:
    """With an `admission`: whose tokens are asked for, and how callers without a good one are answered. `served`: paths
    that are answered besides those of the tools."""
    words = STATUS_WORDS if admission is None else {**STATUS_WORDS, **_GUARDED_WORDS}
    schemas: dict[str, Schema] = {"Error": _PLAIN_ERROR, "ArgumentFaults": _FAULTS}
    # What any route may answer: of a name or a page that is not welcome, and of a token.
    always = {status: words[status] for status in ((403, 421) if admission is None else (401, 403, 421, 503))}
    health = {status: words[status] for status in (403, 421)}
    probes = {status: words[status] for status in (403, 421, 503)}
    opened: dict[str, Any] = {} if admission is None else {"security": []}
    paths: dict[str, Any] = {
        "/health": {
            "get": _get("health", "Whether the server answers, and where its log stands", _HEALTH, health) | opened
        },
        **{path: {"get": _get(*said, _PROBED, probes) | opened} for path, said in _PROBES.items()},
        "/v1/tools": {"get": _get("list_tools", "The tools that are on", _TOOL_LIST, always)},
        "/v1/openapi.json": {"get": _get("openapi", "This document", {"type": "object"}, always)},
    }
    proofs = {status: words[status] for status in (*_PROOF_STATUSES, *always)}
    paths |= {path: {"get": _proof(*said, proofs)} for path, said in _PROOFS.items() if path in served}
    for entry in offer.tools:
        paths[f"/v1/tools/{entry.dotted}"] = {"post": _operation(entry, schemas, words)}
    security = {} if admission is None else _security(admission)
    return {
        "openapi": "3.1.0",
        "info": {"title": offer.name, "version": offer.version, "summary": "The tools of the memory, as plain HTTP"},
        "servers": [{"url": "/"}],
        **({"security": [{name: list(admission.scopes)} for name in security]} if admission is not None else {}),
        "tags": [{"name": toolset.name, "description": toolset.summary} for toolset in offer.tools.toolsets_on],
        "paths": paths,
        "components": {"schemas": schemas, **({"securitySchemes": security} if security else {})},
    }


def _security(admission: Admission) -> dict[str, Any]:
    """One for each issuer: a token of any of them will do."""
    # With it come the libraries for keys, which nobody needs who asks for no tokens.
    from tallystick.server.oauth.keys import metadata_urls

    return {
        f"issuer_{number}": {
            "type": "openIdConnect",
            "openIdConnectUrl": metadata_urls(issuer)[0],
            "description": f"An access token of {issuer}, as Authorization: Bearer, issued for {admission.public_url}.",
        }
        for number, issuer in enumerate(admission.issuers, 1)
    }


def _operation(entry: OfferedTool, schemas: dict[str, Schema], words: dict[int, str]) -> dict[str, Any]:
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
        | {str(status): _refusal(status, said, _error(status, error)) for status, said in sorted(words.items())},
    }


def _error(status: int, name: str) -> Schema:
    said, plain = {"$ref": f"#/components/schemas/{name}"}, {"$ref": "#/components/schemas/Error"}
    if status == 400:
        return {"allOf": [{"anyOf": [said, plain]}, {"$ref": "#/components/schemas/ArgumentFaults"}]}
    if status in _EITHER_STATUSES:
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


def _get(name: str, summary: str, schema: Schema, refusals: dict[int, str]) -> dict[str, Any]:
    plain = {"$ref": "#/components/schemas/Error"}
    return {
        "operationId": name,
        "summary": summary,
        "responses": {"200": _response(f"{summary}.", schema)}
        | {str(status): _refusal(status, words, plain) for status, words in refusals.items()},
    }


def _proof(name: str, summary: str, named: str, refusals: dict[int, str]) -> dict[str, Any]:
    parameter = {"name": "named", "in": "path", "required": True, "description": named, "schema": {"type": "string"}}
    found = _get(name, summary, {}, refusals)
    found["responses"]["200"]["content"] = {"text/plain": {"schema": {"type": "string"}}}
    return {**found, "parameters": [parameter]}


def _refusal(status: int, words: str, schema: Schema) -> dict[str, Any]:
    headers = {"headers": _HEADERS[status]} if status in _HEADERS else {}
    return {**_response(words, schema), **headers}


def _response(words: str, schema: Schema) -> dict[str, Any]:
    return {"description": words, "content": {"application/json": {"schema": schema}}}
