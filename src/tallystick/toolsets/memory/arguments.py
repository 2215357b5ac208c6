"""The arguments of the four tools: what may be said, and how long it may be.

Every call shape is listed here, so that an unknown field is refused and never ignored.
What one field alone cannot show (which fields belong to which op, the same thing said in
two places) is judged by the tools, which then list every problem at once.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, PlainValidator, WithJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticCustomError, core_schema

from tallystick.clock import from_text
from tallystick.errors import InvalidArgument
from tallystick.policy.visible_names import is_visible
from tallystick.state.asof import COMMIT_ID, is_commit_id
from tallystick.toolsets.memory.operation_problems import problems_of_operation
from tallystick.toolsets.operation_arguments import OperationArguments, UsedBy

ID_CHARACTERS_MAX = 256
NAME_CHARACTERS_MAX = 128
REASON_CHARACTERS_MAX = 2048
PAGE_DEFAULT = 100
PAGE_MAX = 1000
FIELDS_MAX = 100
QUERY_CHARACTERS_MAX = 2_000
TOKENS_LEAST = 100

T = TypeVar("T")


class CompactSchema(GenerateJsonSchema):
    """The same schema in fewer tokens, since every agent reads it in every session.

    Null is taken for "not given" wherever a field may be left out, and need not be documented.
    """

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        found = super().dict_schema(schema)
        return {key: value for key, value in found.items() if key != "additionalProperties"}


TOLD_ONCE: dict[str, JsonValue] = {"x-told-once": True}
"""For texts that name something, lists of them, and times. How they are written and how long they may be is said once,
in the server's instructions, instead of in the schema of every tool that agents are shown."""


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return super().model_json_schema(*args, **{"schema_generator": CompactSchema, **kwargs})


def printable(text: str) -> str:
    if not text.isprintable() and any(unicodedata.category(character) == "Cc" for character in text):
        raise PydanticCustomError("printable", "must not contain control characters")
    return text


def not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "must not be blank")
    return text


def visible(text: str) -> str:
    if not is_visible(text):
        raise PydanticCustomError("blank", "must not be blank")
    return text


def _time(text: str) -> str:
    try:
        from_text(text)
    except (ValueError, OverflowError):
        raise PydanticCustomError("time", "must be an ISO 8601 time") from None
    return text


def _moment(value: Any) -> str | int | None:
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and (is_commit_id(value) or _is_time(value)):
        return value
    raise PydanticCustomError(
        "moment",
        "must be a commit_id or its first 8 or more digits, a lamport (a number, not text)"
        " or an ISO 8601 time up to now",
    )


def _is_time(text: str) -> bool:
    """Whether it is past is judged at the head: the log's times may be ahead of this clock."""
    try:
        from_text(text)
    except (ValueError, OverflowError):
        return False
    return True


PRINTABLE: dict[str, JsonValue] = {"pattern": r"^[^\x00-\x1f\x7f-\x9f]*$", **TOLD_ONCE}
NOT_BLANK: dict[str, JsonValue] = {"pattern": r"\S"}

Id = Annotated[
    str, Field(min_length=1, max_length=ID_CHARACTERS_MAX, json_schema_extra=PRINTABLE), AfterValidator(printable)
]
Name = Annotated[
    str, Field(min_length=1, max_length=NAME_CHARACTERS_MAX, json_schema_extra=PRINTABLE), AfterValidator(printable)
]
Reason = Annotated[str, Field(max_length=REASON_CHARACTERS_MAX, json_schema_extra=NOT_BLANK), AfterValidator(not_blank)]
CommitId = Annotated[str, Field(pattern=f"^{COMMIT_ID.pattern}$", json_schema_extra=TOLD_ONCE)]
Time = Annotated[str, Field(json_schema_extra={"format": "date-time", **TOLD_ONCE}), AfterValidator(_time)]
Moment = Annotated[
    Any,
    PlainValidator(_moment),
    WithJsonSchema(
        {
            "type": ["string", "integer"],
            "minimum": 0,
            "pattern": rf"^({COMMIT_ID.pattern}|\d{{4}}-.*)$",
            "description": "past: commit_id, lamport, time",
            **TOLD_ONCE,
        }
    ),
]
Position = Annotated[int, Field(ge=0)]
Fields = Annotated[list[Name], Field(min_length=1, max_length=FIELDS_MAX, json_schema_extra=TOLD_ONCE)]

FIELDS_HELP = "only these, e.g. attrs.title"
Consistency = Literal["local", "latest"]
CONSISTENCY_HELP = "latest: of all machines"
IF_POSITION_HELP = "of an earlier answer; tells if unchanged"


# -- memory.write

Op = Literal[
    "UPSERT_NODE",
    "UPSERT_EDGE",
    "PATCH_NODE",
    "PATCH_EDGE",
    "DELETE_NODE",
    "DELETE_EDGE",
    "REDACT_NODE",
    "REDACT_EDGE",
]
OPS_MAX = 1000
SEVERAL = "ops"
"""What a call with several operations is called where rules name an operation."""


class NodeArgument(Arguments):
    """What is required of it depends on the operation, and is judged by the tool, with all other faults."""

    model_config = ConfigDict(json_schema_extra={"required": ["id", "attrs"]})

    id: Id
    type: Name | None = None
    attrs: dict[str, Any] | None = None


class EdgeArgument(Arguments):
    source: Id = Field(alias="from")
    to: Id
    rel: Name
    attrs: dict[str, Any] | None = None
    id: Id | None = None


class RunContext(Arguments):
    run_id: Id | None = None
    job_id: Id | None = None
    dataset_id: Id | None = None


class WriteOperation(OperationArguments, Arguments):
    # Its fields are those of the call, and shown there.
    model_config = ConfigDict(json_schema_extra=TOLD_ONCE)
    operation_field = "op"

    op: Op
    node: Annotated[NodeArgument | None, UsedBy("UPSERT_NODE PATCH_NODE")] = Field(
        default=None, description="UPSERT, PATCH"
    )
    edge: Annotated[EdgeArgument | None, UsedBy("UPSERT_EDGE PATCH_EDGE DELETE_EDGE REDACT_EDGE")] = Field(
        default=None, description="UPSERT, PATCH; DELETE, REDACT by its ends"
    )
    node_id: Annotated[Id | None, UsedBy("DELETE_NODE REDACT_NODE")] = Field(default=None, description="DELETE, REDACT")
    edge_id: Annotated[Id | None, UsedBy("DELETE_EDGE REDACT_EDGE")] = Field(default=None, description="DELETE, REDACT")
    if_commit: Annotated[
        CommitId | None, UsedBy("UPSERT_NODE UPSERT_EDGE PATCH_NODE PATCH_EDGE DELETE_NODE DELETE_EDGE")
    ] = Field(default=None, description="commit_id last seen, else CONFLICT")
    reason: Reason | None = Field(default=None, description="required by REDACT")
    redacted_fields: Annotated[Fields | None, UsedBy("REDACT_NODE REDACT_EDGE")] = Field(
        default=None, description="attrs.email …; default all, and its edges'"
    )
    original_commit_id: Annotated[CommitId | None, UsedBy("REDACT_NODE REDACT_EDGE")] = Field(
        default=None, description="REDACT"
    )

    @classmethod
    def operation_problems(cls, arguments: Any, within: str, outer: Any) -> list[str]:
        return problems_of_operation(arguments, within, outer)


class WriteArguments(WriteOperation):
    model_config = ConfigDict(json_schema_extra=None)

    op: Op | None = None  # type: ignore[assignment]  # either this or ops
    ops: Annotated[list[WriteOperation] | None, Field(min_length=1, max_length=OPS_MAX), UsedBy(SEVERAL)] = Field(
        default=None, description="several, all or none; edges may name new nodes"
    )
    nonce: Id | None = Field(default=None, description="makes a retry safe")
    actor: Annotated[Id, AfterValidator(visible)] | None = None
    run_context: RunContext | None = None
    receipt: bool = Field(default=False, description="whole hashes of `ops`")

    def effective_operation(self) -> str | None:
        return SEVERAL if self.op is None and self.ops is not None else self.op

    @property
    def operations(self) -> Sequence[WriteOperation]:
        return [self] if self.ops is None else self.ops


# -- memory.read


class ReadFilters(Arguments):
    # Its fields are those of the call, and shown there.
    model_config = ConfigDict(json_schema_extra=TOLD_ONCE)

    id: Id | None = None
    entity_id: Id | None = None
    type: Name | None = None


class ReadArguments(Arguments):
    entity_id: Id | None = None
    filters: ReadFilters | None = Field(default=None, description="alias")
    type: Name | None = Field(default=None, description="null unless of this type")
    as_of: Moment | None = None
    include_edges: bool = False
    fields: Fields | None = Field(default=None, description=FIELDS_HELP)
    min_lamport: Position | None = Field(default=None, description="wait for this write")
    consistency: Consistency = Field(default="local", description=CONSISTENCY_HELP)
    if_position: Position | None = Field(default=None, description=IF_POSITION_HELP)


# -- memory.search


class TimeWindow(Arguments):
    since: Time | None = None
    until: Time | None = None


class Traversal(Arguments):
    hops: int = Field(default=1, ge=1, le=100, description="edges per path")
    min_hops: int | None = Field(default=None, ge=1, le=100, description="list shorter paths too")
    edge_types: list[Name] | None = Field(default=None, max_length=FIELDS_MAX, json_schema_extra=TOLD_ONCE)
    direction: Literal["out", "in", "both"] = "out"
    to: Id | None = Field(default=None, description="shortest paths to it, or of `hops`")
    closure: bool = Field(default=False, description="all reached, no paths")


class SearchFilters(Arguments):
    # Its fields are those of the call, and shown there.
    model_config = ConfigDict(json_schema_extra=TOLD_ONCE)

    id: Id | None = None
    entity_id: Id | None = None
    type: Name | None = None
    attrs: dict[str, Any] | None = None
    since: Time | None = None
    until: Time | None = None
    time_window: TimeWindow | None = None
    traversal: Traversal | None = None
    limit: int | None = Field(default=None, ge=1, le=PAGE_MAX)
    offset: int | None = Field(default=None, ge=0)


Vocabulary = Literal["memory", "work", "tasks", "knowledge", "ontology"]


class Scope(Arguments):
    project: Name | None = None
    vocabulary: Vocabulary | None = None
    around: Id | None = Field(default=None, description="an entity")
    hops: int | None = Field(default=None, ge=1, le=3)


class SearchArguments(Arguments):
    query: Annotated[str, Field(min_length=1, max_length=QUERY_CHARACTERS_MAX)] | None = Field(
        default=None, description="words; best first"
    )
    scope: Scope | None = Field(default=None, description="one of project, vocabulary, around")
    entity_id: Id | None = Field(default=None, description="or traversal start")
    id: Id | None = Field(default=None, description="alias")
    type: Name | None = None
    attrs: dict[str, Any] | None = Field(
        default=None,
        description="{key: value or {eq|ne|gt|gte|lt|lte|in|regex|exists: …}}; dotted keys",
    )
    author: Name | None = Field(default=None, description="wrote a version")
    since: Time | None = Field(default=None, description="at or after")
    until: Time | None = Field(default=None, description="before")
    time_window: TimeWindow | None = Field(default=None, description="alias")
    traversal: Traversal | None = None
    limit: int | None = Field(default=None, ge=1, le=PAGE_MAX)
    offset: int | None = Field(default=None, ge=0)
    filters: SearchFilters | None = Field(default=None, description="alias")
    as_of: Moment | None = None
    max_tokens: int | None = Field(default=None, ge=TOKENS_LEAST, description="of the answer")
    facets: bool = Field(default=False, description="types, keys and relations in use")
    stale: bool = Field(default=False, description="only what may be outdated")
    fields: Fields | None = Field(default=None, description=FIELDS_HELP)
    consistency: Consistency = Field(default="local", description=CONSISTENCY_HELP)
    if_position: Position | None = Field(default=None, description=IF_POSITION_HELP)


# -- memory.lineage

Depth = Literal["direct", "full", "summary"]
Format = Literal["json", "csv", "openlineage_v1"]


class LineageArguments(Arguments):
    entity_id: Id
    depth: Depth = Field(default="direct", description="full: its edges' commits too; summary: counts")
    limit: int | None = Field(default=None, ge=1, le=PAGE_MAX)
    offset: int | None = Field(default=None, ge=0)
    export_format: Format | None = Field(default=None, description="default json")
    format: Format | None = Field(default=None, description="alias")
    proof: bool = Field(default=False, description="tlog-proof of each")


# -- what was said in two places


def agree(problems: list[str], **said: T | None) -> T | None:
    """The one value among several places to say it; two different ones are a problem.

    Places are named as the caller knows them, `filters__id` for `filters.id`.
    """
    given = {place.replace("__", "."): value for place, value in said.items() if value is not None}
    values = list(given.values())
    if any(value != values[0] for value in values[1:]):
        problems.append("fields " + " and ".join(f"'{place}'" for place in given) + " differ")
    return values[0] if values else None


def refuse(problems: list[str]) -> None:
    if problems:
        raise InvalidArgument("; ".join(problems), problems=problems)


FIELD_ROOTS = ("id", "type", "attrs", "created_by", "updated_by", "from", "to", "rel", "provenance")
HIT_FIELD_ROOTS = (*FIELD_ROOTS, "commit_id", "timestamp", "text", "date", "score")


def check_fields(problems: list[str], fields: list[str] | None, roots: tuple[str, ...] = FIELD_ROOTS) -> None:
    for field in fields or ():
        root, dot, rest = field.partition(".")
        if root not in roots or (dot and (root != "attrs" or not rest)):
            problems.append(f"field 'fields': '{field}' is none of {', '.join(roots)}, attrs.<key>")
