"""The JSON Schemas (2020-12) that clients are shown: compact, and true of errors too.

`$schema` is left out: 2020-12 is what MCP assumes, and validators that were compiled for an
older draft refuse a schema that names a newer one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from tallystick import errors
from tallystick.server.dispatch import OfferedTool
from tallystick.toolsets import Tool, Toolset

Schema = dict[str, Any]

TOLD_ONCE = "x-told-once"
"""Marks a name, a list of names or a time: the server's instructions say for all of them alike what they may be. And an
object whose members are those that the schema shows already, elsewhere."""
_BOUNDS = frozenset({"minLength", "maxLength", "pattern", "format", "minItems", "maxItems"})
_MEMBERS = frozenset({"properties", "required", "additionalProperties"})

NOT_BLANK = r"\S"

SMALL_CHARACTERS = 250
"""Twice as much costs a reader about as many tokens as a definition and two references."""

_NAMES_TO_SCHEMAS = ("properties", "$defs", "patternProperties", "dependentSchemas")


def input_schema(tool: Tool) -> Schema:
    """Whatever is refused for its form alone is refused by this."""
    return _settled_schema(tool, _unmarked)


def shown_schema(tool: Tool) -> Schema:
    """What agents read in every session: the same rules, without saying at each name what names may be."""
    shown: Schema = _ordered(_without_flags(_settled_schema(tool, _unbounded)))
    return shown


def output_schema(entry: OfferedTool) -> Schema:
    """The answer's shape or the error's: TypeScript clients check structured content even beside isError."""
    success = compact(entry.tool.output)
    definitions = success.pop("$defs", None)
    error = {"required": error_schema(entry.toolset)["required"]}
    schema: Schema = {"type": "object", "anyOf": [_said_above(success), error]}
    return {**schema, "$defs": definitions} if definitions else schema


def error_schema(toolset: Toolset) -> Schema:
    """Learnt from what the toolset says of each kind of error: its constant keys are required."""
    shapes = [toolset.error_shape(error) for error in _one_of_each()]
    required = [key for key in shapes[0] if all(key in shape for shape in shapes)]
    return {
        "type": "object",
        "properties": {key: _type_of([shape[key] for shape in shapes]) for key in required},
        "required": required,
    }


def compact(schema: Any) -> Any:
    """Without pydantic's titles and null defaults, which tell a reader nothing. Properties called so are kept."""
    if isinstance(schema, list):
        return [compact(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _compact_member(key, value) for key, value in schema.items() if not _is_noise(key, value)}


def references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        reference = schema.get("$ref")
        if isinstance(reference, str):
            yield reference
        schema = list(schema.values())
    if isinstance(schema, list):
        for item in schema:
            yield from references(item)


def with_references(schema: Any, replace: Callable[[str], Schema]) -> Any:
    """`schema` with each `$ref` member replaced by what `replace` makes of it."""
    if isinstance(schema, list):
        return [with_references(item, replace) for item in schema]
    if not isinstance(schema, dict):
        return schema
    rest = {key: with_references(value, replace) for key, value in schema.items() if key != "$ref"}
    return {**replace(schema["$ref"]), **rest} if isinstance(schema.get("$ref"), str) else rest


def _settled_schema(tool: Tool, settle: Callable[[Schema], Schema]) -> Schema:
    schema = tool.input.model_json_schema()
    schema.pop("description", None)
    # Settled before it is inlined: what is not shown is no second use of a definition.
    return {**_inlined(_settled(compact(schema), settle)), "type": "object"}


def _settled(schema: Any, settle: Callable[[Schema], Schema]) -> Any:
    """With each part that is marked as a name replaced."""
    if isinstance(schema, list):
        return [_settled(item, settle) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = settle(schema) if schema.get(TOLD_ONCE) is True else schema
    return {key: _settled(value, settle) for key, value in found.items()}


def _unmarked(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key != TOLD_ONCE}


def _unbounded(schema: Schema) -> Schema:
    """Members that the schema describes elsewhere are listed by their names."""
    kept = {key: value for key, value in schema.items() if key not in (TOLD_ONCE, *_BOUNDS, *_MEMBERS)}
    names = schema.get("properties")
    return {**kept, "properties": {name: {} for name in names}} if names else kept


def _without_flags(schema: Any) -> Any:
    """Whatever is left out is false."""
    if isinstance(schema, list):
        return [_without_flags(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    is_flag = schema.get("type") == "boolean" and schema.get("default") is False
    return {key: _without_flags(value) for key, value in schema.items() if not (is_flag and key == "default")}


def _ordered(schema: Any) -> Any:
    """Return the schema with types and descriptions first, which takes fewer tokens, and without the pattern of texts
    that are not blank, which the instructions state once."""
    if isinstance(schema, list):
        return [_ordered(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    first = [key for key in ("type", "description") if isinstance(schema.get(key), str | list)]
    return {
        key: _ordered(schema[key])
        for key in (*first, *(key for key in schema if key not in first))
        if not (key == "pattern" and schema[key] == NOT_BLANK)
    }


def _said_above(schema: Schema) -> Schema:
    """Within an `anyOf` that says itself that all are objects."""
    return {key: value for key, value in schema.items() if key != "type"}


def _is_noise(key: str, value: Any) -> bool:
    return (key == "title" and isinstance(value, str)) or key == "$schema" or (key == "default" and value is None)


def _compact_member(key: str, value: Any) -> Any:
    if key in _NAMES_TO_SCHEMAS and isinstance(value, dict):
        return {name: compact(schema) for name, schema in value.items()}
    if key in ("default", "const", "enum", "examples", "required"):
        return value
    return compact(value)


def _inlined(schema: Schema) -> Schema:
    """Definitions used once, and small ones, stand where they are used: some clients read no references."""
    definitions: dict[str, Schema] = dict(schema.get("$defs", {}))
    uses = list(references(schema))
    once = {
        name
        for name, definition in definitions.items()
        if (uses.count(f"#/$defs/{name}") == 1 or _is_small(definition)) and not _is_recursive(name, definitions)
    }

    def replace(reference: str) -> Schema:
        name = reference.removeprefix("#/$defs/")
        return with_references(definitions[name], replace) if name in once else {"$ref": reference}

    body = with_references({key: value for key, value in schema.items() if key != "$defs"}, replace)
    kept = {name: with_references(value, replace) for name, value in definitions.items() if name not in once}
    return {**body, "$defs": kept} if kept else body


def _is_small(definition: Schema) -> bool:
    return len(json.dumps(definition)) <= SMALL_CHARACTERS


def _is_recursive(name: str, definitions: dict[str, Schema]) -> bool:
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        for reference in references(definitions.get(waiting.pop(), {})):
            target = reference.removeprefix("#/$defs/")
            if target == name:
                return True
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    return False


def _one_of_each() -> list[errors.TallystickError]:
    return [kind("a sentence") for kind in list(vars(errors).values()) if _is_error_class(kind)]


def _is_error_class(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, errors.TallystickError)


_JSON_TYPES: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
}


def _type_of(values: list[Any]) -> Schema:
    types = {_JSON_TYPES.get(type(value)) for value in values}
    only = types.pop() if len(types) == 1 else None
    return {"type": only} if only else {}
