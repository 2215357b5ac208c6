"""The arguments of tools that do one of several operations: each parameter says which operations use it.

What an operation would not heed is refused, so that nothing a caller says is lost unseen (X21).
The refusal and what agents read of a parameter come from the same words.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import ClassVar, Self

from pydantic import BaseModel, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


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


@cache
def unused_by(arguments: type[OperationArguments], operation: str, kind: str | None) -> frozenset[str]:
    """The parameters that an operation does not use. Both are of few: a model lets nothing else pass."""
    marks = [(name, mark) for name, field in arguments.model_fields.items() for mark in field.metadata]
    return frozenset(name for name, mark in marks if isinstance(mark, UsedBy) and not mark.allows(operation, kind))
