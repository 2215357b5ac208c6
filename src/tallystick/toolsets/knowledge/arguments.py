"""The arguments of the three tools: what may be said, which operation needs what, and how long it may be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from tallystick.errors import InvalidArgument
from tallystick.state.knowledge.globs import normalised, parse
from tallystick.toolsets.envelope import (
    JSON_ARRAY,
    Flag,
    NullableUuid,
    Objects,
    Reference,
    Uuid,
    Whole,
    check,
    find_uuid,
    read_array,
    split_array,
    violated,
)
from tallystick.toolsets.memory.arguments import TOLD_ONCE, Arguments
from tallystick.toolsets.operation_arguments import OperationArguments, UsedBy

PATTERNS_MAX = 20
NAME_CHARACTERS_MAX = 255
KNOWLEDGE_BYTES_MAX = 32_768
SUMMARY_BYTES_MAX = 4_096
RELATED_MAX = 50
REASON_CHARACTERS_MAX = 500
PATH_CHARACTERS_MAX = 4_096
PAGE_DEFAULT = 20
INLINE_DEFAULT = 5
"""Changelog entries shown with the entity."""

EntityType = Literal["atom", "molecule"]


def _read_paths(value: Any) -> list[str] | None:
    """Each once, as it was spelt first."""
    paths = split_array(value, "must be file paths, separated by commas or as an array")
    if paths is None:
        return None
    if any(len(path) > PATH_CHARACTERS_MAX for path in paths):
        raise PydanticCustomError(
            "path", "must not hold a path of more than {most} characters", {"most": PATH_CHARACTERS_MAX}
        )
    each: dict[str, str] = {}
    for path in map(str.strip, paths):
        if path:
            each.setdefault(normalised(path), path)
    return list(each.values())


FilePaths = Annotated[
    list[str] | None,
    BeforeValidator(_read_paths),
    WithJsonSchema({"type": ["string", "array"], "items": {"type": "string"}}),
]


Patterns = Annotated[
    list[str] | None,
    BeforeValidator(read_array),
    WithJsonSchema({"type": ["array", "string"], "items": {"type": "string"}, "maxItems": PATTERNS_MAX, **JSON_ARRAY}),
]


def _most(characters: int, **more: Any) -> WithJsonSchema:
    """Where the tool counts: bytes, or what is left without blanks around it."""
    return WithJsonSchema({"type": "string", "maxLength": characters, **more})


class QueryArguments(OperationArguments, Arguments):
    kind_field = "entityType"

    operation: Literal["get", "search", "context"]
    # Of no use to context, and no fault there (K44).
    entityType: EntityType | None = Field(default=None, description="get, search")
    id: Annotated[Uuid, UsedBy("get")] = None
    projectId: Annotated[Reference, UsedBy("search context", "name or id")] = None
    paths: Annotated[FilePaths, UsedBy("context", "file paths")] = None
    query: Annotated[str | None, UsedBy("search", "in name or knowledge")] = None
    moleculeId: Annotated[Uuid, UsedBy("search", of="atom")] = None
    orphansOnly: Annotated[Flag, UsedBy("search", "without molecule", of="atom")] = None
    includeChangelog: Flag = Field(default=None, description="default true")
    changelogLimit: Whole = None
    limit: Annotated[Whole, UsedBy("search")] = None
    offset: Annotated[Whole, UsedBy("search")] = None


class ManageArguments(OperationArguments, Arguments):
    kind_field = "entityType"

    operation: Literal["create", "update", "delete"]
    entityType: EntityType
    id: Annotated[Uuid, UsedBy("update delete")] = None
    version: Annotated[Whole, UsedBy("update delete")] = None
    projectId: Annotated[Reference, UsedBy("create update", "name or id")] = None
    name: Annotated[str | None, _most(NAME_CHARACTERS_MAX, **TOLD_ONCE), UsedBy("create update")] = None
    paths: Annotated[Patterns, UsedBy("create update", "glob patterns", of="atom")] = None
    knowledge: Annotated[str | None, _most(KNOWLEDGE_BYTES_MAX), UsedBy("create update")] = None
    knowledgeMode: Annotated[Literal["overwrite", "append"] | None, UsedBy("update")] = None
    moleculeId: Annotated[NullableUuid, UsedBy("create update", "null for none", of="atom")] = None
    relatedAtoms: Annotated[Objects, UsedBy("create update", "[{atomId, reason}]", of="atom")] = None
    relatedMolecules: Annotated[Objects, UsedBy("create update", "[{moleculeId, reason}]", of="molecule")] = None
    createdByTaskId: Annotated[Reference, UsedBy("create", "default your claim")] = None
    lastTaskId: Annotated[Reference, UsedBy("update delete", "the task at hand")] = None
    # Of no use to an atom, and no fault there (K20).
    cascade: Annotated[Flag, UsedBy("delete", "its atoms too")] = None
    pin: Annotated[Flag, UsedBy("create update", "note git state", of="atom")] = None

    def has(self, field: str) -> bool:
        """Given at all; for moleculeId null is something to say."""
        return field in self.model_fields_set and (field == "moleculeId" or getattr(self, field) is not None)


class ChangelogArguments(OperationArguments, Arguments):
    operation: Literal["append", "search"]
    parentType: EntityType
    parentId: Uuid
    taskId: Annotated[Reference, UsedBy("append")] = None
    summary: Annotated[str | None, _most(SUMMARY_BYTES_MAX), UsedBy("append")] = None
    limit: Annotated[Whole, UsedBy("search")] = None
    offset: Annotated[Whole, UsedBy("search")] = None


# -- query_graph


def check_query(asked: QueryArguments, project_hint: str) -> None:
    """The hint is for whoever names no project."""
    check(_query_problems(asked), hint=project_hint if _lacks_project(asked, _QUERY_NEEDS) else None)


def _query_problems(asked: QueryArguments) -> Iterator[str]:
    yield from _missing(asked, _QUERY_NEEDS[asked.operation])
    if asked.operation == "context" and asked.paths == []:
        yield "paths must name at least one file"
    if asked.moleculeId is not None and asked.orphansOnly:
        yield "moleculeId and orphansOnly exclude each other"


_QUERY_NEEDS = {
    "get": ("entityType", "id"),
    "search": ("entityType", "projectId"),
    "context": ("projectId", "paths"),
}


# -- manage_graph


def check_manage(asked: ManageArguments, project_hint: str | None = None) -> None:
    """The hint is for whoever names no project."""
    check(_manage_problems(asked), hint=project_hint if _lacks_project(asked, _MANAGE_NEEDS) else None)
    if asked.paths is not None and not asked.paths:
        raise violated("paths must not be empty: an atom without paths has no boundary")


def _manage_problems(asked: ManageArguments) -> Iterator[str]:
    yield from _missing(asked, _MANAGE_NEEDS[asked.operation])
    if asked.operation == "create" and asked.entityType == "atom" and asked.paths is None:
        yield "paths is required for creating an atom"
    yield from _text_problems(asked)
    yield from _pattern_problems(asked.paths or [])
    yield from _related_problems(asked)
    if asked.operation == "update":
        if asked.knowledgeMode is not None and asked.knowledge is None:
            yield "knowledgeMode needs knowledge"
        changeable = CHANGEABLE[asked.entityType]
        if not any(asked.has(field) for field in changeable):
            yield f"update needs at least one of {', '.join(changeable)}"


_MANAGE_NEEDS = {
    "create": ("projectId", "name"),
    "update": ("id", "version"),
    "delete": ("id", "version"),
}
CHANGEABLE = {
    "atom": ("name", "knowledge", "paths", "moleculeId", "relatedAtoms", "pin"),
    "molecule": ("name", "knowledge", "relatedMolecules"),
}


def _text_problems(asked: ManageArguments) -> Iterator[str]:
    if asked.name is not None:
        if not asked.name.strip():
            yield "name must not be empty"
        elif len(asked.name.strip()) > NAME_CHARACTERS_MAX:
            yield f"name must not have more than {NAME_CHARACTERS_MAX} characters"
    if asked.knowledge is not None:
        yield from knowledge_problems(asked.knowledge.strip())
        if asked.knowledgeMode == "append" and not asked.knowledge.strip():
            yield "knowledge to append must not be blank"


def knowledge_problems(knowledge: str) -> Iterator[str]:
    size = len(knowledge.encode())
    if size > KNOWLEDGE_BYTES_MAX:
        yield f"knowledge has {size} bytes, more than {KNOWLEDGE_BYTES_MAX}"


def _pattern_problems(patterns: list[str]) -> Iterator[str]:
    if len(patterns) > PATTERNS_MAX:
        yield f"paths has {len(patterns)} patterns, more than {PATTERNS_MAX}"
        return
    for pattern in patterns:
        try:
            parse(pattern)
        except InvalidArgument as error:
            yield error.message


def _related_problems(asked: ManageArguments) -> Iterator[str]:
    for field, key, entries in (
        ("relatedAtoms", "atomId", asked.relatedAtoms),
        ("relatedMolecules", "moleculeId", asked.relatedMolecules),
    ):
        if entries is None:
            continue
        if len(entries) > RELATED_MAX:
            yield f"{field} has {len(entries)} entries, more than {RELATED_MAX}"
        if not all(_is_related(entry, key) for entry in entries):
            yield f"{field} must hold objects {{{key}, reason}}, both texts and neither empty"
        elif any(len(entry["reason"]) > REASON_CHARACTERS_MAX for entry in entries):
            yield f"{field} must not hold a reason of more than {REASON_CHARACTERS_MAX} characters"
        elif asked.id is not None and asked.id in map(related_id(key), entries):
            yield f"{field} must not name the {asked.entityType} itself"


def _is_related(entry: dict[str, Any], key: str) -> bool:
    said = entry.get(key), entry.get("reason")
    return all(isinstance(text, str) and text.strip() for text in said) and len(str(said[0])) <= PATH_CHARACTERS_MAX


def related_id(key: str) -> Any:
    def read(entry: dict[str, Any]) -> str:
        said: str = entry[key]
        return find_uuid(said) or said.strip()

    return read


def related(entries: list[dict[str, Any]], key: str) -> list[dict[str, str]]:
    """As they are kept: names, which reads add, are not."""
    return [{key: related_id(key)(entry), "reason": entry["reason"].strip()} for entry in entries]


# -- manage_changelog


def check_changelog(asked: ChangelogArguments, task_hint: str) -> None:
    """The hint is for whoever names no task."""
    is_nameless = asked.operation == "append" and asked.taskId is None
    check(_changelog_problems(asked), hint=task_hint if is_nameless else None)


def _changelog_problems(asked: ChangelogArguments) -> Iterator[str]:
    yield from _missing(asked, ("parentId",))
    if asked.operation == "append":
        yield from _missing(asked, ("taskId", "summary"))
        if asked.summary is not None and not asked.summary.strip():
            yield "summary must not be empty"
        size = len((asked.summary or "").strip().encode())
        if size > SUMMARY_BYTES_MAX:
            yield f"summary has {size} bytes, more than {SUMMARY_BYTES_MAX}"


def _lacks_project(asked: QueryArguments | ManageArguments, needs: Mapping[str, tuple[str, ...]]) -> bool:
    return asked.projectId is None and "projectId" in needs[asked.operation]


def _missing(asked: Any, fields: tuple[str, ...]) -> Iterator[str]:
    for field in fields:
        if getattr(asked, field) is None:
            yield f"{field} is required for {asked.operation} operation"
