"""The arguments of tools that do one of several operations: each parameter says which operations use it.

What an operation would not heed is refused, so that nothing a caller says is lost unseen (X21).
The refusal and what agents read of a parameter come from the same words. Parameters that an operation lacks are
listed in the same answer as faults of form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Self, get_args

from pydantic import BaseModel, GetJsonSchemaHandler, TypeAdapter, ValidationError, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

Path = tuple[str | int, ...]


def required(field: str) -> str:
    return f"field '{field}' is required"


class UsedBy:
    """For Annotated: the operations that use a parameter, of which kinds of entity, and what it is for.

    A parameter without it is used by all of them.
    """

    def __init__(self, operations: str, text: str = "", *, of: str = "") -> None:
        self.operations = operations.split()
        self.kinds = of.split()
        said = ", ".join(self.operations) + (f" {' or '.join(self.kinds)}" if self.kinds else "")
        self._description = f"{said}: {text}" if text else said

    def allows(self, operation: str, kind: str | None) -> bool:
        return operation in self.operations and (not self.kinds or kind is None or kind in self.kinds)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "description": self._description}


class OperationArguments(BaseModel):
    """Mixed in by the arguments of every tool that has operations."""

    operation_field: ClassVar[str] = "operation"
    kind_field: ClassVar[str | None] = None
    """The parameter that says which kind of entity is meant, where what is used depends on it."""

    def effective_operation(self) -> str | None:
        """Overridden where one operation turns into another by what is left out. None while none is chosen."""
        operation: str | None = getattr(self, self.operation_field)
        return operation

    @classmethod
    def operation_problems(cls, arguments: Any, within: str, outer: Any) -> list[str]:
        """Return what the operation lacks or contradicts, of a model or of raw arguments that may have other faults.

        `within` precedes the names of fields. `outer` holds the parameters that a call with several operations states
        for all of them.
        """
        return []

    def taken(self) -> list[str]:
        """The parameters that this operation uses, besides those that say which it is."""
        unused = self._unused()
        chosen = (self.operation_field, self.kind_field)
        return [name for name in type(self).model_fields if name not in chosen and name not in unused]

    @model_validator(mode="after")
    def _refuse_unused(self) -> Self:
        unused = self._unused()
        if not unused.isdisjoint(self.model_fields_set):
            problems = "\n".join(self._refusals(unused))
            if problems:
                raise ValueError(problems)
        return self

    @classmethod
    def unused_in(cls, arguments: Mapping[str, Any]) -> list[str]:
        """The same of arguments that may have other faults; nothing unless they name an operation and a kind."""
        chosen = [name for name in (cls.operation_field, cls.kind_field) if name is not None]
        try:
            read = {name: _reader(cls, name)(arguments[name]) for name in chosen if arguments.get(name) is not None}
        except ValidationError:
            return []
        given = {name: arguments[name] for name in cls.model_fields if name in arguments} | read
        missing = dict.fromkeys(name for name, field in cls.model_fields.items() if field.is_required())
        asked = cls.model_construct(set(given), **{**missing, **given})
        return list(asked._refusals(asked._unused()))

    def _refusals(self, unused: frozenset[str]) -> Iterator[str]:
        kind = self._kind()
        called = f"{getattr(self, self.operation_field) or self.effective_operation()}" + (
            f" of {kind}" if kind else ""
        )
        said = [name for name in type(self).model_fields if name in unused and self._says(name)]
        for name in said:
            yield f"field '{name}' does not belong to {called}"
        if said:
            yield f"{called} takes {', '.join(self.taken()) or 'nothing else'}"

    def _unused(self) -> frozenset[str]:
        operation = self.effective_operation()
        return frozenset() if operation is None else unused_by(type(self), operation, self._kind())

    def _says(self, name: str) -> bool:
        """Null and a blank are how clients leave something out."""
        return name in self.model_fields_set and getattr(self, name) not in (None, "")

    def _kind(self) -> str | None:
        return getattr(self, self.kind_field) if self.kind_field is not None else None


def operation_faults(
    model: type[BaseModel], arguments: Any, path: Path = (), outer: Any = None
) -> Iterator[tuple[Path, str]]:
    """Yield the faults that follow from the operations of arguments with other faults, at any depth, with their places:
    parameters that an operation does not use, and those that it lacks."""
    if not isinstance(arguments, Mapping):
        return
    if issubclass(model, OperationArguments):
        yield from ((path, refusal) for refusal in model.unused_in(arguments))
        within = "".join(f"[{step}]" if isinstance(step, int) else step for step in path)
        outer = arguments if outer is None else outer
        yield from (
            ((), problem) for problem in model.operation_problems(arguments, f"{within}." if path else "", outer)
        )
    for name, nested in _nested(model):
        value = arguments.get(name)
        for number, item in enumerate(value if isinstance(value, list) else ()):
            yield from operation_faults(nested, item, (*path, name, number), arguments)


@cache
def _nested(model: type[BaseModel]) -> list[tuple[str, type[OperationArguments]]]:
    """The fields that are lists of operations."""
    return [(name, kind) for name, field in model.model_fields.items() for kind in _models_in(field.annotation)]


def _models_in(annotation: Any) -> Iterator[type[OperationArguments]]:
    if isinstance(annotation, type) and issubclass(annotation, OperationArguments):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


@cache
def _reader(model: type[OperationArguments], name: str) -> Callable[[Any], Any]:
    field = model.model_fields[name]
    return TypeAdapter(Annotated[(field.annotation, name, *field.metadata)]).validate_python  # type: ignore[arg-type]


@cache
def unused_by(arguments: type[OperationArguments], operation: str, kind: str | None) -> frozenset[str]:
    """The parameters that an operation does not use. Both are of few: a model lets nothing else pass."""
    marks = [(name, mark) for name, field in arguments.model_fields.items() for mark in field.metadata]
    return frozenset(name for name, mark in marks if isinstance(mark, UsedBy) and not mark.allows(operation, kind))
