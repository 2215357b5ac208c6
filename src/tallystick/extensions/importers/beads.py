"""The issues of beads (`bd`): a JSON object a line, as `bd export` and `.beads/issues.jsonl` have them.

An issue is a task: what holds it back are its dependencies, the issue of `parent-child` is its parent. Comments are
evidence. A memory is a node.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tallystick.extensions.importers import Evidence, Fact, Item, Origin, Task, Unmapped
from tallystick.extensions.importers.files import (
    excerpt,
    first_bytes,
    json_lines,
    objects_in,
    text_in,
    texts_in,
    unreadable,
)
from tallystick.extensions.importers.trackers import present
from tallystick.formats import strict_json

PLACES = (".beads/issues.jsonl", "issues.jsonl")
HOLD_BACK = frozenset({"blocks", "conditional-blocks", "waits-for"})
PARENT = "parent-child"
RESOLVED = frozenset({"closed"})
_PRIORITY_LAST = 4
_TEXTS = ("description", "design", "acceptance_criteria", "notes")
_PROPERTIES = (
    "issue_type", "assignee", "owner", "estimated_minutes", "due_at", "defer_until", "external_ref", "metadata",
    "pinned", "started_at", "closed_at",
)  # fmt: skip
_READ = frozenset(
    (
        "_type", "id", "title", "status", "priority", "labels", "dependencies", "comments", "created_at", "created_by",
        "updated_at", "close_reason", *_TEXTS, *_PROPERTIES,
    )
)  # fmt: skip
_COUNTED = frozenset({"dependency_count", "dependent_count", "comment_count", "content_hash", "source_repo"})
"""They follow from what is read."""


def detect(path: Path) -> bool:
    try:
        said = strict_json.parse(first_bytes(_file(path)).lstrip().partition(b"\n")[0])
    except strict_json.JsonFault:
        return False
    return isinstance(said, dict) and ("_type" in said or {"id", "title", "status"} <= said.keys())


def read(path: Path) -> Iterator[Item | Unmapped]:
    file = _file(path)
    if file.is_dir():
        raise unreadable(path, "it has no .beads/issues.jsonl: 'bd export -o issues.jsonl' makes one")
    project = _project(file)
    for found in json_lines(file):
        if isinstance(found, Unmapped):
            yield found
            continue
        where, said = found
        kind = said.get("_type", "issue")
        if kind == "issue":
            yield from _issue(project, where, said)
        elif kind == "memory":
            yield _memory(where, said)
        else:
            yield Unmapped(where, excerpt(str(kind)), "neither an issue nor a memory")


def _file(path: Path) -> Path:
    return next((path / place for place in PLACES if path.is_dir() and (path / place).is_file()), path)


def _project(file: Path) -> str:
    """The directory that the issues are of."""
    directory = file.resolve().parent
    return (directory.parent if directory.name == ".beads" else directory).name or "beads"


def _issue(project: str, where: str, said: dict[str, Any]) -> Iterator[Item | Unmapped]:
    issue_id = text_in(said, "id")
    if issue_id is None:
        yield Unmapped(where, excerpt(str(said)), "an issue without id")
        return
    for name in sorted(said.keys() - _READ - _COUNTED):
        if said[name] not in (None, "", [], {}, 0, False):
            yield Unmapped(where, f"{issue_id} {excerpt(name)}", "no field of an issue that is known")
    status = text_in(said, "status") or "open"
    holding, parents, related = _dependencies(said, issue_id)
    for other in parents[1:]:
        yield Unmapped(where, f"{issue_id} {PARENT} {other}", f"it has the parent '{parents[0]}' already")
    yield Task(
        where=where,
        project=project,
        summary=text_in(said, "title") or issue_id,
        status=status,
        resolved=status in RESOLVED,
        parent=parents[0] if parents else _nested_in(issue_id),
        depends_on=tuple(holding),
        related=tuple(related),
        properties=present(
            priority=_priority(said.get("priority")),
            labels=texts_in(said, "labels"),
            **{name: said.get(name) for name in _PROPERTIES},
        ),
        texts={name: text for name in _TEXTS if (text := text_in(said, name)) is not None},
        evidence=tuple(_evidence(said)),
        origin=Origin(
            id=issue_id,
            author=text_in(said, "created_by") or text_in(said, "owner"),
            created=text_in(said, "created_at"),
            updated=text_in(said, "updated_at"),
        ),
    )


def _dependencies(said: dict[str, Any], issue_id: str) -> tuple[list[str], list[str], list[tuple[str, str]]]:
    holding: list[str] = []
    parents: list[str] = []
    related: list[tuple[str, str]] = []
    for each in objects_in(said, "dependencies"):
        other, kind = text_in(each, "depends_on_id"), text_in(each, "type") or "blocks"
        if other is None or each.get("issue_id", issue_id) != issue_id:
            continue
        if kind in HOLD_BACK:
            holding.append(other)
        elif kind == PARENT:
            parents.append(other)
        else:
            related.append((kind.replace("-", "_"), other))
    return holding, parents, related


def _nested_in(issue_id: str) -> str | None:
    """`bd-a3f8.1` is a part of `bd-a3f8`."""
    above, dot, number = issue_id.rpartition(".")
    return above if dot and above and number.isdigit() else None


def _priority(value: Any) -> int | None:
    """0 comes first there, the most comes first here."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _PRIORITY_LAST:
        return _PRIORITY_LAST - value
    return None


def _evidence(said: dict[str, Any]) -> Iterator[Evidence]:
    for each in objects_in(said, "comments"):
        text = text_in(each, "text")
        if text is not None:
            yield Evidence(
                type="comment", ref=text, agent=text_in(each, "author"), timestamp=text_in(each, "created_at")
            )
    reason = text_in(said, "close_reason")
    if reason is not None:
        yield Evidence(type="closed", ref=reason, timestamp=text_in(said, "closed_at"))


def _memory(where: str, said: dict[str, Any]) -> Item | Unmapped:
    key, value = text_in(said, "key"), text_in(said, "value")
    if key is None or value is None:
        return Unmapped(where, excerpt(str(said)), "a memory without key or value")
    return Fact(
        where=where,
        id=f"beads/{key}",
        type="memory",
        attrs={"name": key, "text": value},
        origin=Origin(id=key, created=text_in(said, "created_at"), updated=text_in(said, "updated_at")),
    )
