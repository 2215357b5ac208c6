"""The envelope that knowledge and tasks are answered in, and how leniently they read what they are asked.

Success is {success: true, message?, data}; failure {success: false, message, error: {code,
message, details?}}. Clients of these tools send numbers, booleans and arrays as strings, ids
with dashes or without, and nothing as "": all of it is understood.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from tallystick.errors import Conflict, InvalidArgument, NotFound, TallystickError
from tallystick.formats import strict_json
from tallystick.toolsets import Answer, details_of
from tallystick.toolsets.memory.arguments import TOLD_ONCE
from tallystick.toolsets.truncation import cut_short

PAGE_MAX = 100
ID_CHARACTERS_MAX = 256


# -- answers


def succeeded(data: dict[str, Any], message: str | None = None, *, exempt: bool = False) -> Answer:
    said = {"message": message} if message else {}
    return Answer({"success": True, **said, "data": data}, exempt=exempt)


def page(key: str, items: list[Any], *, total: int, limit: int, offset: int) -> dict[str, Any]:
    """Those that fit of the ones asked for; `nextOffset` where there are more."""
    data: dict[str, Any] = {key: items, "count": len(items), "total": total, "limit": limit, "offset": offset}
    data |= cut_short(len(items), limit=limit, left=total - offset)
    return data | ({"nextOffset": offset + len(items)} if items and offset + len(items) < total else {})


def error_shape(error: TallystickError) -> dict[str, Any]:
    said = {"code": _CODES.get(error.code, error.code), "message": error.message, **details_of(error)}
    return {"success": False, "message": error.message, "error": said}


_CODES = {InvalidArgument.code: "VALIDATION_ERROR", NotFound.code: "NOT_FOUND"}

_TEXT = {"type": "string"}
OUTPUT: dict[str, Any] = {
    "type": "object",
    "properties": {"success": {"type": "boolean"}, "message": _TEXT, "data": {"type": "object"}},
    "required": ["success", "data"],
}


# -- refusals that both vocabularies know


def check(problems: Iterable[str], *, hint: str | None = None) -> None:
    """Every fault of a call at once."""
    found = list(dict.fromkeys(problems))
    if found:
        raise InvalidArgument("; ".join(found), problems=found, hint=hint)


def check_version(version: int, current: int) -> None:
    if version != current:
        raise Conflict(
            f"Version conflict: expected {version}, found {current}",
            hint="read it again, then decide with its version",
            details={"currentVersion": current},
        )


def not_found(kind: str, entity_id: str, hint: str | None = None) -> NotFound:
    return NotFound(f"there is no {kind} '{entity_id}'", hint=hint, details={"id": entity_id})


def violated(message: str, **details: Any) -> Conflict:
    return Conflict(message, code="INVARIANT_VIOLATION", details=details)


def clamped(number: int | None, default: int, *, least: int = 1, most: int = PAGE_MAX) -> int:
    return default if number is None else max(least, min(number, most))


# -- arguments

_UUID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?[0-9]{1,15}")
_FLAGS = {"true": True, "false": False}


def find_uuid(text: str) -> str | None:
    """32 lower-case hex digits, however it was spelt."""
    text = text.strip()
    return text.replace("-", "").lower() if _UUID.fullmatch(text) else None


def find_array(text: str) -> list[Any] | None:
    """What a JSON array in a string holds."""
    try:
        found = strict_json.parse(text.encode())
    except (strict_json.JsonFault, UnicodeEncodeError):
        return None
    return found if isinstance(found, list) else None


def _is_blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _read_uuid(value: Any) -> str | None:
    if _is_blank(value):
        return None
    found = find_uuid(value) if isinstance(value, str) else None
    if found is None:
        raise PydanticCustomError("uuid", "must be a UUID")
    return found


def _read_nullable_uuid(value: Any) -> str | None:
    return None if _is_null(value) else _read_uuid(value)


def _is_null(value: Any) -> bool:
    return isinstance(value, str) and value.strip().lower() == "null"


def _read_reference(value: Any) -> str | None:
    if _is_blank(value):
        return None
    if not isinstance(value, str) or len(value) > ID_CHARACTERS_MAX:
        raise PydanticCustomError("reference", "must be an id")
    return value.strip()


def _read_nullable_reference(value: Any) -> str | None:
    return None if _is_null(value) else _read_reference(value)


def _read_whole(value: Any) -> int | None:
    if _is_blank(value):
        return None
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise PydanticCustomError("whole", "must be an integer")
    return value


def _read_flag(value: Any) -> bool | None:
    if _is_blank(value):
        return None
    said = _FLAGS.get(value.strip().lower()) if isinstance(value, str) else value
    if not isinstance(said, bool):
        raise PydanticCustomError("flag", "must be true or false")
    return said


def read_array(value: Any) -> list[Any] | None:
    if _is_blank(value):
        return None
    found = find_array(value) if isinstance(value, str) else value
    if not isinstance(found, list):
        raise PydanticCustomError("array", "must be a JSON array")
    return found


def split_array(value: Any, refusal: str) -> list[str] | None:
    """Texts separated by commas, or an array of them, or that in a string."""
    if isinstance(value, str):
        found = find_array(value) if value.lstrip().startswith("[") else None
        value = value.split(",") if found is None else found
    if value is not None and not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
        raise PydanticCustomError("texts", "{refusal}", {"refusal": refusal})
    return value


# Each may be left out, as null or as nothing: which operation needs which is checked by the tools.
_UUID_SCHEMA: dict[str, Any] = {
    "pattern": r"^\s*([0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12})?\s*$",
    **TOLD_ONCE,
}
_ID_SCHEMA: dict[str, Any] = {"maxLength": ID_CHARACTERS_MAX, **TOLD_ONCE}
Uuid = Annotated[str | None, BeforeValidator(_read_uuid), WithJsonSchema({"type": "string", **_UUID_SCHEMA})]
NullableUuid = Annotated[
    str | None, BeforeValidator(_read_nullable_uuid), WithJsonSchema({"type": ["string", "null"], **_UUID_SCHEMA})
]
"""Where null says something; the strings "null" and "" do too."""
Reference = Annotated[str | None, BeforeValidator(_read_reference), WithJsonSchema({"type": "string", **_ID_SCHEMA})]
"""An id of something that another toolset may have made: a UUID in any spelling, or its own id."""
NullableReference = Annotated[
    str | None, BeforeValidator(_read_nullable_reference), WithJsonSchema({"type": ["string", "null"], **_ID_SCHEMA})
]
Whole = Annotated[int | None, BeforeValidator(_read_whole), WithJsonSchema({"type": "integer"})]
Flag = Annotated[bool | None, BeforeValidator(_read_flag), WithJsonSchema({"type": "boolean"})]
JSON_ARRAY: dict[str, Any] = {"pattern": r"^\s*(\[.*\]\s*)?$", **TOLD_ONCE}
"""What a string must be that stands for an array."""
Objects = Annotated[
    list[dict[str, Any]] | None,
    BeforeValidator(read_array),
    WithJsonSchema({"type": ["array", "string"], "items": {"type": "object"}, **JSON_ARRAY}),
]
