"""The arguments of the task tools: what may be said, and how long it may be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from tallystick.extensions.tasks.cards import PRIORITIES, STATUSES
from tallystick.state.conditions import is_same
from tallystick.toolsets.envelope import (
    ID_CHARACTERS_MAX,
    Flag,
    NullableReference,
    Objects,
    Reference,
    Whole,
    split_array,
)
from tallystick.toolsets.memory.arguments import TOLD_ONCE, Arguments
from tallystick.toolsets.operation_arguments import OperationArguments, UsedBy

TITLE_CHARACTERS_MAX = 500
SUMMARY_CHARACTERS_MAX = 2_000
DESCRIPTION_CHARACTERS_MAX = 10_000
REASON_CHARACTERS_MAX = 2_000
TAG_CHARACTERS_MAX = 100
TAGS_MAX = 50
LISTED_MAX = 1_000
CONTENT_BYTES_MAX = 65_536
PAGE_DEFAULT = 20


def _chosen(words: tuple[str, ...], fold: Callable[[str], str]) -> tuple[Any, Any]:
    def read(value: Any) -> str | None:
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        word = fold(value.strip()) if isinstance(value, str) else None
        if word not in words:
            raise PydanticCustomError("choice", "must be one of {words}", {"words": ", ".join(words)})
        return word

    return BeforeValidator(read), WithJsonSchema({"type": "string", "enum": list(words)})


def _required(value: Any) -> Any:
    if value is None:
        raise PydanticCustomError("missing", "is required")
    return value


def _read_words(value: Any) -> list[str] | None:
    """Blanks are nothing, and "" empties a list."""
    said = split_array(value, "must be texts, separated by commas or as an array")
    if said is None:
        return None
    words = list(dict.fromkeys(each.strip() for each in said if each.strip()))
    if len(words) > LISTED_MAX or any(len(each) > ID_CHARACTERS_MAX for each in words):
        raise PydanticCustomError("words", "must not be so many or so long")
    return words


def _text(most: int) -> tuple[Any, Any]:
    def read(value: Any) -> str | None:
        if value is None:
            return None
        if not isinstance(value, str):
            raise PydanticCustomError("text", "must be text")
        if len(value) > most:
            raise PydanticCustomError("text", "must not have more than {most} characters", {"most": most})
        return value.strip()

    return BeforeValidator(read), WithJsonSchema({"type": "string", "maxLength": most})


def _read_content(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise PydanticCustomError("text", "must be text")
    if len(value.encode("utf-8", "surrogatepass")) > CONTENT_BYTES_MAX:
        raise PydanticCustomError("text", "must not have more than {most} bytes", {"most": CONTENT_BYTES_MAX})
    return value


def _read_tags(value: Any) -> list[str] | None:
    words = _read_words(value)
    tags = None if words is None else list(dict.fromkeys(word.lower() for word in words))
    if tags is not None and (len(tags) > TAGS_MAX or any(len(tag) > TAG_CHARACTERS_MAX for tag in tags)):
        raise PydanticCustomError(
            "tags",
            "must be at most {most} of at most {long} characters",
            {"most": TAGS_MAX, "long": TAG_CHARACTERS_MAX},
        )
    return tags


def _listed(most: int) -> WithJsonSchema:
    text = {"type": "string", "maxLength": most}
    return WithJsonSchema(
        {"type": ["string", "array"], "pattern": f"^[^,]{{0,{most}}}(,[^,]{{0,{most}}})*$", "items": text}
    )


_lower, _upper = str.lower, str.upper

ContainerType = Annotated[
    Literal["project", "feature", "task"] | None, *_chosen(("project", "feature", "task"), _lower)
]
Stepping = Annotated[Literal["feature", "task"] | None, *_chosen(("feature", "task"), _lower)]
EntityType = Annotated[Literal["PROJECT", "FEATURE", "TASK"] | None, *_chosen(("PROJECT", "FEATURE", "TASK"), _upper)]
Priority = Annotated[Literal["HIGH", "MEDIUM", "LOW"] | None, *_chosen(PRIORITIES, _upper)]
Format = Annotated[
    Literal["PLAIN_TEXT", "MARKDOWN", "JSON", "CODE"] | None,
    *_chosen(("PLAIN_TEXT", "MARKDOWN", "JSON", "CODE"), _upper),
]
Words = Annotated[list[str] | None, BeforeValidator(_read_words), _listed(ID_CHARACTERS_MAX)]
Tags = Annotated[list[str] | None, BeforeValidator(_read_tags), _listed(TAG_CHARACTERS_MAX)]
Title = Annotated[str | None, *_text(TITLE_CHARACTERS_MAX)]
Summary = Annotated[str | None, *_text(SUMMARY_CHARACTERS_MAX)]
Description = Annotated[str | None, *_text(DESCRIPTION_CHARACTERS_MAX)]
Reason = Annotated[str | None, *_text(REASON_CHARACTERS_MAX)]
Content = Annotated[
    str | None, BeforeValidator(_read_content), WithJsonSchema({"type": "string", "maxLength": CONTENT_BYTES_MAX})
]
_TEMPLATE_ID = Field(validation_alias=AliasChoices("id", "templateId"))
"""One tool calls it so and another so: both take both."""
# After reading: what is blank was read as nothing.
Needed = AfterValidator(_required)
NeededReference = Annotated[
    Reference, Needed, WithJsonSchema({"type": "string", "pattern": r"\S", "maxLength": ID_CHARACTERS_MAX, **TOLD_ONCE})
]


class ManageContainer(OperationArguments, Arguments):
    kind_field = "containerType"

    operation: Literal["create", "update", "delete"]
    containerType: Annotated[ContainerType, Needed]
    id: Annotated[Reference, UsedBy("update delete")] = None
    name: Annotated[Title, UsedBy("create update", "of a project or feature")] = None
    title: Annotated[Title, UsedBy("create update", "of a task")] = None
    summary: Annotated[Summary, UsedBy("create update")] = None
    description: Annotated[Description, UsedBy("create update")] = None
    priority: Annotated[Priority, UsedBy("create update", of="feature task")] = None
    projectId: Annotated[NullableReference, UsedBy("create update", "null for none", of="feature task")] = None
    featureId: Annotated[
        NullableReference, UsedBy("create update", "goes into its project too; null for none", of="task")
    ] = None
    complexity: Annotated[Whole, UsedBy("create update", "1..10", of="task")] = None
    tags: Annotated[Tags, UsedBy("create update", "comma-separated; replaces")] = None
    relatedTo: Annotated[Words, UsedBy("create update", "ids, comma-separated; replaces", of="feature task")] = None
    version: Annotated[Whole, UsedBy("update delete", "the version you read")] = None
    cascade: Annotated[Flag, UsedBy("delete", "with all it contains")] = None
    status: Any = Field(default=None, description="refused: use advance, revert, terminate")

    def taken(self) -> list[str]:
        return [name for name in super().taken() if name != "status"]


class QueryContainer(OperationArguments, Arguments):
    kind_field = "containerType"

    operation: Literal["get", "search", "overview"]
    containerType: Annotated[ContainerType, Needed]
    id: Annotated[Reference, UsedBy("get overview")] = None
    query: Annotated[str | None, UsedBy("search", "text in title, summary, description")] = None
    status: Annotated[Words, UsedBy("search", "comma-separated; !X excludes", of="feature task")] = None
    priority: Annotated[Words, UsedBy("search", "comma-separated; !X excludes", of="feature task")] = None
    tags: Annotated[Words, UsedBy("search", "comma-separated; !x excludes")] = None
    projectId: Annotated[Reference, UsedBy("search", of="feature task")] = None
    featureId: Annotated[Reference, UsedBy("search", of="task")] = None
    limit: Annotated[Whole, UsedBy("search", "default 20")] = None
    offset: Annotated[Whole, UsedBy("search")] = None
    includeSections: Annotated[Flag, UsedBy("get")] = None
    # Of no use elsewhere, and no fault there (K32).
    includeGraphContext: Flag = Field(default=None, description="get task: the knowledge of its context files")

    def effective_operation(self) -> str:
        return "search" if self.operation == "overview" and self.id is None else self.operation


class QuerySections(Arguments):
    entityType: Annotated[EntityType, Needed]
    entityId: NeededReference
    includeContent: Flag = Field(default=None, description="default true")
    tags: Words = Field(default=None, description="any of, comma-separated")
    sectionIds: Words = None


class ManageSections(OperationArguments, Arguments):
    operation: Literal["add", "update", "updateText", "delete", "reorder", "bulkCreate", "bulkDelete"]
    entityType: Annotated[EntityType, UsedBy("add reorder bulkCreate")] = None
    entityId: Annotated[Reference, UsedBy("add reorder bulkCreate")] = None
    sectionId: Annotated[Reference, UsedBy("update updateText delete")] = None
    title: Annotated[Title, UsedBy("add update")] = None
    usageDescription: Annotated[Summary, UsedBy("add update", "what it is for")] = None
    content: Annotated[Content, UsedBy("add update updateText")] = None
    contentFormat: Annotated[Format, UsedBy("add update", "default MARKDOWN")] = None
    tags: Annotated[Tags, UsedBy("add update")] = None
    ordinal: Annotated[Whole, UsedBy("add update", "default last")] = None
    version: Annotated[Whole, UsedBy("update updateText delete", "the version you read")] = None
    orderedIds: Annotated[Words, UsedBy("reorder", "all ids, comma-separated")] = None
    sections: Annotated[Objects, UsedBy("bulkCreate", "JSON array as for add")] = None
    sectionIds: Annotated[Words, UsedBy("bulkDelete")] = None


class Section(Arguments):
    """One of a bulk."""

    title: Title = None
    usageDescription: Summary = None
    content: Content = None
    contentFormat: Format = None
    tags: Tags = None
    ordinal: Whole = None
    entityType: EntityType = None
    entityId: Reference = None


class NextTask(Arguments):
    projectId: Reference = None
    featureId: Reference = None
    priority: Priority = None


class NextFeature(Arguments):
    projectId: Reference = None
    priority: Priority = None


class Blocked(Arguments):
    projectId: Reference = None
    featureId: Reference = None


class ManageDependency(OperationArguments, Arguments):
    operation: Literal["create", "delete"]
    fromId: NeededReference
    toId: NeededReference
    type: Annotated[Literal["BLOCKS", "RELATES_TO"] | None, *_chosen(("BLOCKS", "RELATES_TO"), _upper)] = Field(
        default=None, description="default BLOCKS: toId waits for fromId"
    )


class QueryDependencies(Arguments):
    id: NeededReference
    containerType: Annotated[Stepping, Needed]
    direction: Annotated[
        Literal["dependencies", "dependents", "both"] | None, *_chosen(("dependencies", "dependents", "both"), _lower)
    ] = Field(default=None, description="default both")


class WorkflowState(Arguments):
    containerType: Annotated[ContainerType, Needed]
    id: NeededReference


class Step(Arguments):
    containerType: Annotated[Stepping, Needed]
    id: NeededReference
    version: Annotated[Whole, Needed] = Field(description="the version you read")


class Advance(Step):
    claim: Flag = Field(default=None, description="take it as it stands, without a step")
    release: Flag = Field(default=None, description="give it back, without a step")


class Terminate(Step):
    reason: Reason = None


class Block(Step):
    blockedBy: Annotated[Words, Needed] = Field(description="ids, or NO_OP for something outside")
    blockedReason: Reason = Field(default=None, description="needed with NO_OP")


class Unblock(Step):
    blockedBy: Annotated[Words, Needed] = Field(description="ids, or NO_OP")


class QueryTemplates(OperationArguments, Arguments):
    operation: Literal["get", "list"]
    id: Annotated[Reference, UsedBy("get", "or templateId"), _TEMPLATE_ID] = None
    targetEntityType: Annotated[EntityType, UsedBy("list")] = None
    isEnabled: Annotated[Flag, UsedBy("list")] = None
    isBuiltIn: Annotated[Flag, UsedBy("list")] = None
    tags: Annotated[Words, UsedBy("list", "any of")] = None


class ManageTemplate(OperationArguments, Arguments):
    operation: Literal["create", "update", "delete", "enable", "disable", "addSection"]
    id: Annotated[Reference, UsedBy("update delete enable disable addSection", "or templateId"), _TEMPLATE_ID] = None
    name: Annotated[Title, UsedBy("create update")] = None
    description: Annotated[Summary, UsedBy("create update")] = None
    targetEntityType: Annotated[EntityType, UsedBy("create update")] = None
    isProtected: Annotated[Flag, UsedBy("create", "never to be changed or deleted")] = None
    createdBy: Annotated[Title, UsedBy("create update")] = None
    tags: Annotated[Tags, UsedBy("create update addSection")] = None
    title: Annotated[Title, UsedBy("addSection")] = None
    usageDescription: Annotated[Summary, UsedBy("addSection")] = None
    contentSample: Annotated[Content, UsedBy("addSection")] = None
    contentFormat: Annotated[Format, UsedBy("addSection")] = None
    ordinal: Annotated[Whole, UsedBy("addSection", "default last")] = None
    isRequired: Annotated[Flag, UsedBy("addSection")] = None


class ApplyTemplate(Arguments):
    templateId: NeededReference = Field(validation_alias=AliasChoices("templateId", "id"), description="or id")
    entityType: Annotated[EntityType, Needed]
    entityId: NeededReference


class ListTags(Arguments):
    entityType: EntityType = None


class TagUsage(Arguments):
    tag: Annotated[Title, Needed]


class RenameTag(Arguments):
    oldTag: Annotated[Title, Needed]
    newTag: Annotated[Title, Needed]
    dryRun: Flag = None


# -- which operation needs what


def missing(asked: Arguments, fields: tuple[str, ...], what: str) -> Iterator[str]:
    for field in fields:
        if getattr(asked, field) in (None, ""):
            yield f"{field} is required for {what}"


def unchanging(asked: OperationArguments, *named: str, nullable: tuple[str, ...] = ()) -> Iterator[str]:
    """An update must change something (K24). `named` say what is updated; null is something to say for `nullable`."""
    changeable = [name for name in asked.taken() if name not in named]
    given = asked.model_fields_set.intersection(changeable)
    if all(getattr(asked, name) is not None for name in named) and not any(
        getattr(asked, name) is not None or name in nullable for name in given
    ):
        yield f"update needs at least one of {', '.join(changeable)}"


def differing(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Of the new values those that are new; None where something goes."""
    return {name: value for name, value in after.items() if not is_same(before.get(name), value)}


def split_words(words: list[str] | None, known: tuple[str, ...] | None = None) -> tuple[set[str], set[str], list[str]]:
    """Those wanted, those excluded, and those that nobody knows."""
    wanted: set[str] = set()
    excluded: set[str] = set()
    unknown: list[str] = []
    for word in words or ():
        bare = word.lstrip("!").strip()
        bare = bare.upper() if known else bare.lower()
        if known and bare not in known:
            unknown.append(bare)
        (excluded if word.startswith("!") else wanted).add(bare)
    return wanted, excluded, unknown


KNOWN = {"status": STATUSES, "priority": PRIORITIES}
