"""The arguments of the task tools: what may be said, and how long it may be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from tallystick.state.tasks import PRIORITIES, STATUSES
from tallystick.toolsets.envelope import ID_CHARACTERS_MAX, Flag, Objects, Reference, Whole, find_array
from tallystick.toolsets.memory.arguments import Arguments

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
    """Separated by commas, or an array, or that in a string; blanks are nothing, and "" empties a list."""
    if value is None:
        return None
    if isinstance(value, str):
        found = find_array(value) if value.lstrip().startswith("[") else None
        value = value.split(",") if found is None else found
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise PydanticCustomError("words", "must be texts, separated by commas or as an array")
    words = list(dict.fromkeys(each.strip() for each in value if each.strip()))
    if len(words) > LISTED_MAX or any(len(each) > ID_CHARACTERS_MAX for each in words):
        raise PydanticCustomError("words", "must not be so many or so long")
    return words


def _text(most: int) -> Any:
    def read(value: Any) -> str | None:
        if value is None:
            return None
        if not isinstance(value, str):
            raise PydanticCustomError("text", "must be text")
        if len(value) > most:
            raise PydanticCustomError("text", "must not have more than {most} characters", {"most": most})
        return value.strip()

    return BeforeValidator(read)


def _read_content(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise PydanticCustomError("text", "must be text")
    if len(value.encode("utf-8", "surrogatepass")) > CONTENT_BYTES_MAX:
        raise PydanticCustomError("text", "must not have more than {most} bytes", {"most": CONTENT_BYTES_MAX})
    return value


def read_tags(words: list[str] | None) -> list[str] | None:
    return None if words is None else list(dict.fromkeys(word.lower() for word in words))


def _read_tags(value: Any) -> list[str] | None:
    tags = read_tags(_read_words(value))
    if tags is not None and (len(tags) > TAGS_MAX or any(len(tag) > TAG_CHARACTERS_MAX for tag in tags)):
        raise PydanticCustomError(
            "tags",
            "must be at most {most} of at most {long} characters",
            {"most": TAGS_MAX, "long": TAG_CHARACTERS_MAX},
        )
    return tags


_LISTED = WithJsonSchema({"type": ["string", "array"]})
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
Words = Annotated[list[str] | None, BeforeValidator(_read_words), _LISTED]
Tags = Annotated[list[str] | None, BeforeValidator(_read_tags), _LISTED]
Title = Annotated[str | None, _text(TITLE_CHARACTERS_MAX), WithJsonSchema({"type": "string"})]
Summary = Annotated[str | None, _text(SUMMARY_CHARACTERS_MAX), WithJsonSchema({"type": "string"})]
Description = Annotated[str | None, _text(DESCRIPTION_CHARACTERS_MAX), WithJsonSchema({"type": "string"})]
Reason = Annotated[str | None, _text(REASON_CHARACTERS_MAX), WithJsonSchema({"type": "string"})]
Content = Annotated[str | None, BeforeValidator(_read_content), WithJsonSchema({"type": "string"})]
# After reading: what is blank was read as nothing.
Needed = AfterValidator(_required)


class ManageContainer(Arguments):
    operation: Literal["create", "update", "delete"]
    containerType: Annotated[ContainerType, Needed]
    id: Reference = Field(default=None, description="update, delete")
    name: Title = Field(default=None, description="project, feature")
    title: Title = Field(default=None, description="task")
    summary: Summary = None
    description: Description = None
    priority: Priority = Field(default=None, description="feature, task")
    projectId: Reference = None
    featureId: Reference = Field(default=None, description="task: goes into its project too")
    complexity: Whole = Field(default=None, description="task: 1..10")
    tags: Tags = Field(default=None, description="comma-separated; replaces")
    relatedTo: Words = Field(default=None, description="update: ids, comma-separated; replaces")
    version: Whole = Field(default=None, description="update: the version you read")
    cascade: Flag = Field(default=None, description="delete with all it contains")
    status: Any = Field(default=None, description="refused: use advance, revert, terminate")


class QueryContainer(Arguments):
    operation: Literal["get", "search", "overview"]
    containerType: Annotated[ContainerType, Needed]
    id: Reference = Field(default=None, description="get, overview")
    query: str | None = Field(default=None, description="search: text in title, summary, description")
    status: Words = Field(default=None, description="comma-separated; !X excludes")
    priority: Words = Field(default=None, description="comma-separated; !X excludes")
    tags: Words = Field(default=None, description="comma-separated; !x excludes")
    projectId: Reference = None
    featureId: Reference = None
    limit: Whole = Field(default=None, description="default 20")
    offset: Whole = None
    includeSections: Flag = None
    includeGraphContext: Flag = Field(default=None, description="get task: the knowledge of its context files")


class QuerySections(Arguments):
    entityType: Annotated[EntityType, Needed]
    entityId: Annotated[Reference, Needed]
    includeContent: Flag = Field(default=None, description="default true")
    tags: Words = Field(default=None, description="any of, comma-separated")
    sectionIds: Words = None


class ManageSections(Arguments):
    operation: Literal["add", "update", "updateText", "delete", "reorder", "bulkCreate", "bulkDelete"]
    entityType: EntityType = Field(default=None, description="add, reorder, bulkCreate")
    entityId: Reference = Field(default=None, description="add, reorder, bulkCreate")
    sectionId: Reference = Field(default=None, description="update, updateText, delete")
    title: Title = None
    usageDescription: Summary = Field(default=None, description="what it is for")
    content: Content = None
    contentFormat: Format = Field(default=None, description="default MARKDOWN")
    tags: Tags = None
    ordinal: Whole = Field(default=None, description="default last")
    version: Whole = Field(default=None, description="update, updateText: the version you read")
    orderedIds: Words = Field(default=None, description="reorder: all ids, comma-separated")
    sections: Objects = Field(default=None, description="bulkCreate: JSON array as for add")
    sectionIds: Words = Field(default=None, description="bulkDelete")


class Section(Arguments):
    """One of a bulk."""

    title: Title = None
    usageDescription: Summary = None
    content: Content = None
    contentFormat: Format = None
    tags: Tags = None
    ordinal: Whole = None
    entityType: Any = None
    entityId: Any = None


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


class ManageDependency(Arguments):
    operation: Literal["create", "delete"]
    fromId: Annotated[Reference, Needed]
    toId: Annotated[Reference, Needed]
    type: Annotated[Literal["BLOCKS", "RELATES_TO"] | None, *_chosen(("BLOCKS", "RELATES_TO"), _upper)] = Field(
        default=None, description="default BLOCKS: toId waits for fromId"
    )


class QueryDependencies(Arguments):
    id: Annotated[Reference, Needed]
    containerType: Annotated[Stepping, Needed]
    direction: Annotated[
        Literal["dependencies", "dependents", "both"] | None, *_chosen(("dependencies", "dependents", "both"), _lower)
    ] = Field(default=None, description="default both")


class WorkflowState(Arguments):
    containerType: Annotated[ContainerType, Needed]
    id: Annotated[Reference, Needed]


class Step(Arguments):
    containerType: Annotated[Stepping, Needed]
    id: Annotated[Reference, Needed]
    version: Annotated[Whole, Needed] = Field(description="the version you read")


class Terminate(Step):
    reason: Reason = None


class Block(Step):
    blockedBy: Annotated[Words, Needed] = Field(description="ids, or NO_OP for something outside")
    blockedReason: Reason = Field(default=None, description="needed with NO_OP")


class Unblock(Step):
    blockedBy: Annotated[Words, Needed] = Field(description="ids, or NO_OP")


class QueryTemplates(Arguments):
    operation: Literal["get", "list"]
    id: Reference = Field(default=None, description="get")
    targetEntityType: EntityType = Field(default=None, description="list")
    isEnabled: Flag = Field(default=None, description="list")
    isBuiltIn: Flag = Field(default=None, description="list")
    tags: Words = Field(default=None, description="list: any of")


class ManageTemplate(Arguments):
    operation: Literal["create", "update", "delete", "enable", "disable", "addSection"]
    id: Reference = Field(default=None, description="all but create")
    name: Title = None
    description: Summary = None
    targetEntityType: EntityType = None
    isProtected: Flag = Field(default=None, description="create: never to be changed or deleted")
    createdBy: Title = None
    tags: Tags = None
    title: Title = Field(default=None, description="addSection")
    usageDescription: Summary = Field(default=None, description="addSection")
    contentSample: Content = Field(default=None, description="addSection")
    contentFormat: Format = Field(default=None, description="addSection")
    ordinal: Whole = Field(default=None, description="addSection: default last")
    isRequired: Flag = Field(default=None, description="addSection")


class ApplyTemplate(Arguments):
    templateId: Annotated[Reference, Needed]
    entityType: Annotated[EntityType, Needed]
    entityId: Annotated[Reference, Needed]


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
