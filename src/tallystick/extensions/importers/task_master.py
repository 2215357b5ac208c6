"""The tasks of task-master: `tasks.json`, a list for each tag.

A tag is a project, a task a task, a subtask a task below it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tallystick.errors import InvalidArgument
from tallystick.extensions.importers import Item, Origin, Task, Unmapped
from tallystick.extensions.importers.files import excerpt, first_bytes, read_json, text_in, unreadable
from tallystick.extensions.importers.trackers import ids, present, priority_of

PLACES = (".taskmaster/tasks/tasks.json", "tasks/tasks.json", "tasks.json")
RESOLVED = frozenset({"done", "completed"})
DROPPED = frozenset({"cancelled"})
_READ = frozenset(
    {"id", "title", "description", "details", "testStrategy", "status", "dependencies", "priority", "subtasks",
     "updatedAt", "createdAt", "parentTaskId", "parentId"}
)  # fmt: skip


def detect(path: Path) -> bool:
    file = _file(path)
    return file.name == "tasks.json" and b'"tasks"' in first_bytes(file)


def read(path: Path) -> Iterator[Item | Unmapped]:
    file = _file(path)
    if file.is_dir():
        raise unreadable(path, "it has no .taskmaster/tasks/tasks.json")
    said = read_json(file)
    if not isinstance(said, dict):
        raise InvalidArgument(f"{file} holds no tags with tasks", code="FILE_UNREADABLE")
    directory = _directory(file)
    tags = {"master": said} if isinstance(said.get("tasks"), list) else said
    for tag, held in tags.items():
        tasks = held.get("tasks") if isinstance(held, dict) else None
        if not isinstance(tasks, list):
            yield Unmapped(file.name, excerpt(tag), "no tag with a list of tasks")
            continue
        project = directory if tag == "master" else f"{directory} {tag}"
        for number, task in enumerate(tasks):
            yield from _task(project, f"{file.name}: {tag}[{number}]", task, None)


def _file(path: Path) -> Path:
    return next((path / place for place in PLACES if path.is_dir() and (path / place).is_file()), path)


def _directory(file: Path) -> str:
    """The repository that the tasks are of."""
    directory = file.resolve().parent
    while directory.name in ("tasks", ".taskmaster") and directory.parent != directory:
        directory = directory.parent
    return directory.name or "tasks"


def _task(project: str, where: str, said: Any, parent: str | None) -> Iterator[Item | Unmapped]:
    number = ids(said.get("id")) if isinstance(said, dict) else []
    if not number:
        yield Unmapped(where, excerpt(str(said)), "a task without id")
        return
    task_id = number[0] if parent is None else f"{parent}.{number[0].removeprefix(f'{parent}.')}"
    for name in sorted(said.keys() - _READ):
        if said[name] not in (None, "", [], {}):
            yield Unmapped(where, f"{task_id} {excerpt(name)}", "no field of a task that is known")
    status = text_in(said, "status") or "pending"
    yield Task(
        where=where,
        project=project,
        summary=text_in(said, "title") or text_in(said, "description") or task_id,
        status=status,
        resolved=status in RESOLVED | DROPPED,
        dropped=status in DROPPED,
        parent=parent,
        depends_on=tuple(_dependency(each, parent) for each in ids(said.get("dependencies", []))),
        properties=present(priority=priority_of(said.get("priority")), source_priority=text_in(said, "priority")),
        texts={
            name: text
            for name, key in (("description", "description"), ("details", "details"), ("test_strategy", "testStrategy"))
            if (text := text_in(said, key)) is not None
        },
        origin=Origin(id=task_id, created=text_in(said, "createdAt"), updated=text_in(said, "updatedAt")),
    )
    below = said.get("subtasks")
    for place, each in enumerate(below if isinstance(below, list) else []):
        yield from _task(project, f"{where}.subtasks[{place}]", each, task_id)


def _dependency(other: str, parent: str | None) -> str:
    """A subtask names those beside it by their number alone."""
    return other if parent is None or "." in other else f"{parent}.{other}"
