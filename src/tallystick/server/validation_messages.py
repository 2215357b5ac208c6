"""The faults of a call's arguments, as sentences: every one of them, not the first.

"field 'node' is required", "field 'node.id' must be a string", "field 'x' is not allowed".
Sentences name fields and rules and never repeat the value that was sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from pydantic import ValidationError
from pydantic_core import ErrorDetails

FAULTS_MAX = 50


def sentences(
    error: ValidationError, arguments: Any, more: Iterable[tuple[tuple[str | int, ...], str]] = ()
) -> list[str]:
    """`more` are sentences of validators that run only after all fields are well formed, with their places."""
    faults = [_fault(details, arguments) for details in error.errors(include_url=False, include_input=False)]
    found = [sentence for fault in _merge(faults) for sentence in fault.sentences()]
    return _bounded(list(dict.fromkeys([*found, *(_within(path, line) for path, line in more)])))


def _bounded(said: list[str]) -> list[str]:
    return [*said[:FAULTS_MAX], f"and {len(said) - FAULTS_MAX} more"] if len(said) > FAULTS_MAX else said


def oversized(arguments: Any) -> list[str]:
    """The integers that need more than 64 bits."""
    return _bounded([f"{_subject(path)} must be an integer of at most 64 bits" for path in _oversized(arguments, ())])


def _oversized(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        yield path
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in members:
        yield from _oversized(item, (*path, step))


class _Fault(msgspec.Struct, frozen=True):
    path: tuple[str | int, ...]
    rule: str
    """What follows the field's name: "is required", "must be a string"."""
    whole: bool = False
    """The rule is a sentence of its own, written by a validator."""

    def sentences(self) -> list[str]:
        if not self.whole:
            return [f"{_subject(self.path)} {self.rule}"]
        return [_within(self.path, line) for line in self.rule.split("\n") if line]


_RULES = {
    "missing": "is required",
    "extra_forbidden": "is not allowed",
    "string_type": "must be a string",
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "list_type": "must be an array",
    "tuple_type": "must be an array",
    "set_type": "must be an array",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "none_required": "must be null",
    "finite_number": "must be a finite number",
}

_OWN_FIELD = re.compile(r"field '(\w+)'")
_SUBJECT_OF_RULE = re.compile(r"^.*? should ")


def _fault(details: ErrorDetails, arguments: Any) -> _Fault:
    kind, context = details["type"], details.get("ctx", {})
    path = _path(details["loc"], arguments, absent=kind == "missing")
    if kind in ("value_error", "assertion_error"):
        return _Fault(path, str(context.get("error", details["msg"])), whole=True)
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        return _tag_fault(path, context)
    rule = _RULES.get(kind) or _SUBJECT_OF_RULE.sub("must ", details["msg"]).replace(" after validation", "")
    return _Fault(path, rule if rule.startswith(("is ", "must ")) else f"is not valid: {rule}")


def _tag_fault(path: tuple[str | int, ...], context: dict[str, Any]) -> _Fault:
    tag = str(context["discriminator"]).strip("'")
    if "expected_tags" in context:
        return _Fault((*path, tag), f"must be one of {context['expected_tags']}")
    return _Fault((*path, tag), "is required")


def _path(loc: tuple[str | int, ...], arguments: Any, *, absent: bool) -> tuple[str | int, ...]:
    """`loc` without the names of union branches, which are no fields: what can't be found in the arguments is one."""
    path: list[str | int] = []
    here = arguments
    for index, step in enumerate(loc):
        if _holds(here, step):
            here = here[step]
            path.append(step)
        elif absent and index == len(loc) - 1:
            path.append(step)
    return tuple(path)


def _holds(value: Any, step: str | int) -> bool:
    if isinstance(value, list):
        return isinstance(step, int) and step < len(value)
    return isinstance(value, dict) and step in value


def _merge(faults: Sequence[_Fault]) -> list[_Fault]:
    """Branches of a union each complain: join what they say of one field, and prefer the branch that got further."""
    paths = {fault.path for fault in faults}
    merged: dict[tuple[tuple[str | int, ...], bool], _Fault] = {}
    for fault in faults:
        joinable = fault.rule.startswith("must be ") and not fault.whole
        if joinable and any(len(path) > len(fault.path) and path[: len(fault.path)] == fault.path for path in paths):
            continue
        key = (fault.path, joinable) if joinable else ((*fault.path, fault.rule), False)
        merged[key] = _join(merged[key], fault) if key in merged else fault
    return list(merged.values())


def _join(first: _Fault, second: _Fault) -> _Fault:
    more = second.rule.removeprefix("must be ")
    if more in first.rule:
        return first
    return _Fault(first.path, f"{first.rule} or {more}")


def _within(path: tuple[str | int, ...], line: str) -> str:
    """What a validator says of its own fields, as the caller knows them."""
    field = _OWN_FIELD.match(line)
    if not path or field is None:
        return f"{_subject(path)}: {line}" if path else line
    return f"{_subject((*path, field[1]))}{line[field.end() :]}"


def _subject(path: tuple[str | int, ...]) -> str:
    name = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
    return f"field '{name[:200]}'" if name else "the arguments"
