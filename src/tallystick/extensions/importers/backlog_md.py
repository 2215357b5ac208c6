"""The tasks of Backlog.md: a Markdown file each, with decisions and documents beside them.

A task is a task, its checked criteria are evidence. Decisions and documents are nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tallystick.errors import InvalidArgument
from tallystick.extensions.importers import Evidence, Fact, Item, Origin, Task, Unmapped
from tallystick.extensions.importers.files import read_bytes, text_in, texts, texts_in, unreadable
from tallystick.extensions.importers.front_matter import read_yaml, split
from tallystick.extensions.importers.trackers import ids, present, priority_of

CONFIG = "config.yml"
_CONFIG_BYTES_MAX = 64 << 10
_TASKS = ("tasks", "completed", "drafts", "archive/tasks", "archive/drafts")
_FACTS = {"decisions": "decision", "docs": "document"}
_SECTION = re.compile(r"<!-- SECTION:([A-Z_]+):BEGIN -->\n?(.*?)\n?<!-- SECTION:\1:END -->", re.DOTALL)
_CRITERIA = re.compile(r"<!-- AC:BEGIN -->(.*?)<!-- AC:END -->", re.DOTALL)
_CRITERION = re.compile(r"^- \[([ xX])\] (?:#\d+ )?(.*)$", re.MULTILINE)
_HEADING = re.compile(r"^##? .*$|<!--.*?-->", re.MULTILINE | re.DOTALL)
_READ = frozenset(
    {"id", "title", "status", "assignee", "reporter", "created_date", "updated_date", "labels", "dependencies",
     "priority", "ordinal", "parent_task_id", "milestone", "references", "documentation"}
)  # fmt: skip


def detect(path: Path) -> bool:
    directory = _directory(path)
    return directory is not None and (directory / CONFIG).is_file()


def read(path: Path) -> Iterator[Item | Unmapped]:
    directory = _directory(path)
    if directory is None:
        raise unreadable(path, "no directory of Backlog.md: it has no tasks")
    project, done, fault = _config(directory)
    if fault is not None:
        yield fault
    for place in _TASKS:
        if (directory / place).is_dir():
            for found in texts(directory / place, ".md"):
                yield from [found] if isinstance(found, Unmapped) else _task(project, done, place, *found)
    for place, kind in _FACTS.items():
        if (directory / place).is_dir():
            for found in texts(directory / place, ".md"):
                yield found if isinstance(found, Unmapped) else _fact(project, kind, f"{place}/{found[0]}", found[1])


def _directory(path: Path) -> Path | None:
    found = (path, path / "backlog", path / ".backlog")
    return next((each for each in found if (each / "tasks").is_dir() or (each / CONFIG).is_file()), None)


def _config(directory: Path) -> tuple[str, frozenset[str], Unmapped | None]:
    """The name of the project, and the last of its states: that is how it calls what is done."""
    name = directory.resolve().parent.name or "backlog"
    try:
        said = read_yaml(read_bytes(directory / CONFIG, _CONFIG_BYTES_MAX).decode())
    except (InvalidArgument, UnicodeDecodeError) as error:
        return name, frozenset({"done"}), Unmapped(CONFIG, CONFIG, f"{error}; the last state is taken to be 'Done'")
    known: dict[str, Any] = said if isinstance(said, dict) else {}
    states = texts_in(known, "statuses")
    return text_in(known, "project_name") or name, frozenset({"done", *(each.casefold() for each in states[-1:])}), None


def _task(project: str, done: frozenset[str], place: str, file: str, text: str) -> Iterator[Item | Unmapped]:
    where = f"{place}/{file}"
    try:
        said, body = split(text)
    except InvalidArgument as error:
        yield Unmapped(where, file, error.message)
        return
    task_id = text_in(said, "id")
    if task_id is None:
        yield Unmapped(where, file, "a task without id")
        return
    for name in sorted(said.keys() - _READ):
        if said[name] not in (None, "", [], {}):
            yield Unmapped(where, f"{task_id} {name}", "no field of a task that is known")
    status = text_in(said, "status") or "To Do"
    is_archived = place.startswith("archive")
    is_done = status.casefold() in done or place == "completed"
    sections, criteria = _body(body)
    yield Task(
        where=where,
        project=project,
        summary=text_in(said, "title") or task_id,
        status=f"{status} ({place})" if is_archived or place == "drafts" else status,
        resolved=is_done or is_archived,
        dropped=is_archived and not is_done,
        parent=_key(text_in(said, "parent_task_id")) or _nested_in(task_id),
        depends_on=tuple(filter(None, map(_key, ids(said.get("dependencies", []))))),
        properties=present(
            priority=priority_of(said.get("priority")),
            source_priority=text_in(said, "priority"),
            assignee=ids(said.get("assignee", [])),
            labels=texts_in(said, "labels"),
            milestone=text_in(said, "milestone"),
            ordinal=said.get("ordinal"),
            criteria=[f"[{'x' if each else ' '}] {criterion}" for each, criterion in criteria],
        ),
        texts=sections,
        context_links=tuple(
            each for key in ("references", "documentation") for each in texts_in(said, key) if 0 < len(each) <= 1_000
        ),
        evidence=tuple(Evidence(type="criterion", ref=criterion) for each, criterion in criteria if each),
        origin=Origin(
            id=_key(task_id) or task_id,
            author=text_in(said, "reporter"),
            created=text_in(said, "created_date"),
            updated=text_in(said, "updated_date"),
        ),
    )


def _key(task_id: str | None) -> str | None:
    """They are written TASK-1 and task-1."""
    return task_id.strip().upper() if task_id else None


def _nested_in(task_id: str) -> str | None:
    above, dot, _ = task_id.rpartition(".")
    return _key(above) if dot else None


def _body(body: str) -> tuple[dict[str, str], list[tuple[bool, str]]]:
    """Its sections by name, what stands outside of them, and its criteria with whether they are met."""
    sections = {name.lower(): text.strip() for name, text in _SECTION.findall(body) if text.strip()}
    within = _CRITERIA.search(body)
    criteria = [(mark != " ", text.strip()) for mark, text in _CRITERION.findall(within[1] if within else "")]
    rest = _HEADING.sub("", _CRITERIA.sub("", _SECTION.sub("", body))).strip()
    return sections | ({"text": rest} if rest else {}), criteria


def _fact(project: str, kind: str, where: str, text: str) -> Item | Unmapped:
    try:
        said, body = split(text)
    except InvalidArgument as error:
        return Unmapped(where, where.rpartition("/")[2], error.message)
    name = text_in(said, "id") or where
    return Fact(
        where=where,
        id=f"{project}/{name}",
        type=kind,
        attrs={
            "title": text_in(said, "title"),
            "status": text_in(said, "status"),
            "text": body.strip(),
            "tags": texts_in(said, "tags") or None,
            "kind": text_in(said, "type"),
        },
        origin=Origin(
            id=name,
            created=text_in(said, "date") or text_in(said, "created_date"),
            updated=text_in(said, "updated_date"),
        ),
    )
