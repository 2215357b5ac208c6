"""The entries: what is put into a client's file, whatever its format; whether it is there, how it gets in and out."""

from __future__ import annotations

import json
from typing import Any, Literal

import msgspec

from tallystick.extensions.clients import instructions, json_splice, toml_splice
from tallystick.extensions.clients.splice import Splice

Kind = Literal["key", "element", "table", "block"]
Standing = Literal["missing", "same", "different"]
HOOK = "tallystick-hook"


class ConfigEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: Kind
    """A key of a JSON object, an element of a JSON array, a TOML table, the block of a Markdown file."""
    path: tuple[str, ...] = ()
    value: Any = None
    any_value: bool = False
    """Whatever stands there will do: a file's own `version`."""


BLOCK = ConfigEntry("block")


class Format(msgspec.Struct, frozen=True):
    comments: bool = False
    """Whether the reader of a JSON file takes comments and trailing commas."""


def standing(text: str, entry: ConfigEntry, form: Format) -> Standing:
    """Raises Unreadable."""
    match entry.kind:
        case "block":
            block = instructions.find(text)
            return "missing" if block is None else "same" if block.is_ours else "different"
        case "element":
            ours = [each for each in _elements(text, entry, form) if is_hook(each)]
            if any(json_splice.same(each, entry.value) for each in ours):
                return "same"
            return "different" if ours else "missing"
    try:
        found = _value(text, entry, form)
    except KeyError:
        return "missing"
    return "same" if entry.any_value or json_splice.same(found, entry.value) else "different"


def insert(text: str, entry: ConfigEntry, form: Format) -> Splice:
    """Where it is missing. Raises Unreadable."""
    match entry.kind:
        case "block":
            return instructions.put(text)
        case "table":
            return toml_splice.put(text, entry.path, entry.value)
        case "element":
            return json_splice.append(text, entry.path, entry.value, comments=form.comments)
    return json_splice.put(text, entry.path, entry.value, comments=form.comments)


def cut(text: str, entry: ConfigEntry, form: Format, *, made: int = 1) -> str:
    """Where it is, by what it means, and whatever it says by now. Raises KeyError, Unreadable."""
    match entry.kind:
        case "block":
            return instructions.cut(text)
        case "table":
            return toml_splice.cut(text, entry.path)
        case "element":
            for each in [each for each in _elements(text, entry, form) if is_hook(each)]:
                text = json_splice.cut_element(text, entry.path, each, comments=form.comments, made=made)
            return text
    return json_splice.cut_key(text, entry.path, comments=form.comments, made=made)


def shown(text: str, entry: ConfigEntry, form: Format) -> str:
    """What stands in its place, for a person to read."""
    match entry.kind:
        case "block":
            block = instructions.find(text)
            return "" if block is None else block.text
        case "table":
            return toml_splice.text_at(text, entry.path)
        case "element":
            return "\n".join(_pretty(each) for each in _elements(text, entry, form) if is_hook(each))
    return _pretty(_value(text, entry, form))


def wanted(entry: ConfigEntry) -> str:
    """The same, as it would be put there."""
    match entry.kind:
        case "block":
            return instructions.BLOCK
        case "table":
            return toml_splice.put("", entry.path, entry.value).inserted
    return _pretty(entry.value)


def means_the_same(one: str, other: str, entry: ConfigEntry, form: Format) -> bool:
    """Of two texts of a file. Raises Unreadable."""
    if entry.kind == "block":
        return one.strip() == other.strip()
    if entry.kind == "table":
        return toml_splice.parse(one) == toml_splice.parse(other)
    read = [json_splice.parse(each, comments=form.comments) for each in (one, other)]
    return json_splice.same(*(each.value if each is not None else {} for each in read))


def is_outdated(text: str, entry: ConfigEntry) -> bool:
    """Whether what stands there is an older version of ours that says so itself."""
    block = instructions.find(text) if entry.kind == "block" else None
    return block is not None and block.version < instructions.VERSION


def is_hook(value: Any) -> bool:
    """Whether an element of a list of hooks calls ours, in whatever form."""
    if isinstance(value, dict):
        commands = (value.get(key) for key in ("command", "bash", "powershell"))
        return any(isinstance(each, str) and each.split()[:1] == [HOOK] for each in commands) or is_hook(
            value.get("hooks")
        )
    return isinstance(value, list) and any(is_hook(each) for each in value)


def _value(text: str, entry: ConfigEntry, form: Format) -> Any:
    if entry.kind == "table":
        return toml_splice.value_at(text, entry.path)
    return json_splice.value_at(text, entry.path, comments=form.comments)


def _elements(text: str, entry: ConfigEntry, form: Format) -> list[Any]:
    try:
        found = json_splice.value_at(text, entry.path, comments=form.comments)
    except KeyError:
        return []
    return found if isinstance(found, list) else []


def _pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"
