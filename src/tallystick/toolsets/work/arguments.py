"""The arguments of the work tools: what may be said, and how long it may be."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, JsonValue, WithJsonSchema
from pydantic_core import PydanticCustomError

from tallystick.commits.canonical import canonical_bytes
from tallystick.errors import InvalidArgument
from tallystick.toolsets.memory.arguments import (
    ID_CHARACTERS_MAX,
    NOT_BLANK,
    PRINTABLE,
    TOLD_ONCE,
    Arguments,
    Id,
    Name,
    not_blank,
)
from tallystick.toolsets.operation_arguments import OperationArguments, UsedBy

SUMMARY_CHARACTERS_MAX = 2_000
LINK_CHARACTERS_MAX = 1_000
REF_CHARACTERS_MAX = 4_000
NODE_BYTES_MAX = 16_384
BATCH_MAX = 1_000
OPERATIONS_MAX = 100
COUNT_MAX = 50
LIMIT_MAX = 100
DEPTH_MAX = 50


def _storable(value: Any) -> Any:
    try:
        size = len(canonical_bytes(value))
    except InvalidArgument as error:
        raise PydanticCustomError("json", "{problem}", {"problem": error.message}) from None
    if size > NODE_BYTES_MAX:
        raise PydanticCustomError("size", "must not have more than {limit} bytes", {"limit": NODE_BYTES_MAX})
    return value


_ID: dict[str, JsonValue] = {"minLength": 1, "maxLength": ID_CHARACTERS_MAX, **PRINTABLE}
Summary = Annotated[
    str, Field(max_length=SUMMARY_CHARACTERS_MAX, json_schema_extra=NOT_BLANK), AfterValidator(not_blank)
]
Link = Annotated[str, Field(min_length=1, max_length=LINK_CHARACTERS_MAX, json_schema_extra=TOLD_ONCE)]
Links = Annotated[list[Link], Field(max_length=BATCH_MAX, json_schema_extra=TOLD_ONCE)]
Ref = Annotated[str, Field(min_length=1, max_length=64, json_schema_extra=TOLD_ONCE)]
Reason = Annotated[str, Field(max_length=REF_CHARACTERS_MAX, json_schema_extra=NOT_BLANK), AfterValidator(not_blank)]
_CONTROLS = r"\x00-\x1f\x7f-\x9f"
_KIND: dict[str, JsonValue] = {"pattern": rf"^[^{_CONTROLS}]*[^\s{_CONTROLS}][^{_CONTROLS}]*$"}
Kind = Annotated[Name, Field(json_schema_extra=_KIND), AfterValidator(not_blank)]
Anything = Annotated[Any, AfterValidator(_storable)]
Properties = Annotated[dict[str, Any], AfterValidator(_storable)]
Sort = Literal["readiness", "depth", "recent", "created"]


class OpenArguments(Arguments):
    project: Name | None = None
    goal: Summary | None = Field(default=None, description="of a new one")


class PlannedNode(Arguments):
    ref: Ref = Field(description="temporary id")
    parent_ref: Id | None = Field(default=None, description="ref or id; default the root")
    summary: Summary
    context_links: Links | None = None
    depends_on: Annotated[list[Id], Field(max_length=BATCH_MAX, json_schema_extra=TOLD_ONCE)] | None = Field(
        default=None, description="refs or ids"
    )
    properties: Properties | None = None


class PlanArguments(Arguments):
    nodes: Annotated[list[PlannedNode], Field(min_length=1, max_length=BATCH_MAX)]


class NextArguments(Arguments):
    project: Id | None = Field(default=None, description="default the only one")
    node_id: Id | None = Field(default=None, description="this one")
    scope: Id | None = Field(default=None, description="only below it")
    filter: Properties | None = Field(default=None, description="properties to match")
    count: int = Field(default=1, description=f"1..{COUNT_MAX}")
    claim: bool = Field(default=False, description="others skip it")
    release: Id | None = Field(default=None, description="gives it back")


class ContextArguments(Arguments):
    node_id: Id
    depth: int = Field(default=2, ge=0, description="levels of children")


class EvidenceArgument(Arguments):
    type: Kind = Field(description="git, test, note, hint …")
    ref: Reason


class UpdateArgument(Arguments):
    node_id: Id
    resolved: bool | None = None
    state: Anything = Field(default=None, description="yours; null clears")
    summary: Summary | None = None
    properties: Properties | None = Field(default=None, description="merged; null deletes a key")
    add_context_links: Links | None = None
    remove_context_links: Links | None = None
    add_evidence: Annotated[list[EvidenceArgument], Field(max_length=100)] | None = None


class UpdateArguments(Arguments):
    updates: Annotated[list[UpdateArgument], Field(min_length=1, max_length=BATCH_MAX)]
    receipt: bool = Field(default=False, description="signed")


class EdgeArgument(Arguments):
    source: Id = Field(alias="from")
    to: Id
    type: Kind = Field(description="depends_on, relates_to …")
    remove: bool = False


class ConnectArguments(Arguments):
    edges: Annotated[list[EdgeArgument], Field(min_length=1, max_length=BATCH_MAX // 2)]


class QueryFilter(Arguments):
    resolved: bool | None = None
    properties: Properties | None = None
    text: Annotated[str, Field(max_length=SUMMARY_CHARACTERS_MAX)] | None = Field(
        default=None, description="in the summary"
    )
    ancestor: Id | None = None
    has_evidence_type: Name | None = None
    is_leaf: bool | None = None
    is_actionable: bool | None = None
    is_blocked: bool | None = None
    claimed_by: Annotated[
        Id | None, WithJsonSchema({"type": ["string", "null"], **_ID, "description": "null: unclaimed"})
    ] = None


class QueryArguments(Arguments):
    project: Id
    filter: QueryFilter | None = None
    sort: Sort = "readiness"
    limit: int = Field(default=20, ge=1)
    cursor: str | None = None


class Operation(OperationArguments, Arguments):
    operation_field = "op"

    op: Literal["move", "merge", "drop"]
    node_id: Annotated[Id | None, UsedBy("move drop")] = None
    new_parent: Annotated[Id | None, UsedBy("move")] = None
    source: Annotated[Id | None, UsedBy("merge", "absorbed, then deleted")] = None
    target: Annotated[Id | None, UsedBy("merge", "survives")] = None
    reason: Annotated[Reason | None, UsedBy("drop")] = None


class RestructureArguments(Arguments):
    operations: Annotated[list[Operation], Field(min_length=1, max_length=OPERATIONS_MAX)]


class HistoryArguments(Arguments):
    node_id: Id
    limit: int = Field(default=20, ge=1)
    cursor: str | None = None


class OnboardArguments(Arguments):
    project: Id | None = Field(default=None, description="default the only one")
    evidence_limit: int = Field(default=20, ge=1, le=50)
