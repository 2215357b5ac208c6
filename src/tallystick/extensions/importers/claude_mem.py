"""What claude-mem keeps: its SQLite file, or its JSON export.

An observation that names files of its project is knowledge of those files, any other is a node. Sessions, their
summaries and prompts are nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from tallystick.clock import to_text
from tallystick.errors import InvalidArgument
from tallystick.extensions.importers import Atom, Fact, Item, Link, Origin, Unmapped
from tallystick.extensions.importers.files import excerpt, first_bytes, objects_in, read_json, text_in, unreadable
from tallystick.extensions.importers.sqlite_copy import is_sqlite, opened, tables_of
from tallystick.formats import strict_json

FILES = ("claude-mem.db", ".claude-mem/claude-mem.db")
EXPORTED = {
    "sdk_sessions": "sessions",
    "observations": "observations",
    "session_summaries": "summaries",
    "user_prompts": "prompts",
}
"""Each table, and what the export calls it."""
_PATHS_MAX = 20
_KNOWLEDGE_BYTES_MAX = 32_000
_NAME_CHARACTERS_MAX = 255
_BESIDE = (
    "schema_versions",
    "sqlite_sequence",
    "sync_",
    "observations_fts",
    "session_summaries_fts",
    "user_prompts_fts",
)
"""Tables that say nothing of their own."""

Row = dict[str, Any]


def detect(path: Path) -> bool:
    file = _file(path)
    if is_sqlite(file):
        return {"observations", "sdk_sessions"} <= tables_of(file)
    start = first_bytes(file)[:4_000]
    return start.lstrip().startswith(b"{") and b'"exportedAt"' in start and b'"totalObservations"' in start


def read(path: Path) -> Iterator[Item | Unmapped]:
    file = _file(path)
    if file.is_dir():
        raise unreadable(path, "it has no claude-mem.db")
    projects: dict[str, str] = {}
    for table, found in _tables(file):
        if isinstance(found, Unmapped):
            yield found
        else:
            where, row = found
            yield from _READERS[table](where, row, projects)


def _file(path: Path) -> Path:
    return next((path / file for file in FILES if path.is_dir() and (path / file).is_file()), path)


def _tables(file: Path) -> Iterator[tuple[str, tuple[str, Row] | Unmapped]]:
    """Every row of every table that is read, sessions first, and what is not."""
    if not is_sqlite(file):
        yield from _exported(file)
        return
    with opened(file) as database:
        known = database.tables()
        if "observations" not in known:
            raise unreadable(file, "no database of claude-mem: it has no table observations")
        for table in EXPORTED:
            if table in known:
                yield from ((table, found) for found in database.rows(table))
        beside = [each for each in known if each.startswith(_BESIDE)]
        yield from (("", told) for told in database.others((*EXPORTED, *beside)))


def _exported(file: Path) -> Iterator[tuple[str, tuple[str, Row] | Unmapped]]:
    said = read_json(file)
    if not isinstance(said, dict) or not isinstance(said.get("observations"), list):
        raise InvalidArgument(f"{file} is no export of claude-mem", code="FILE_UNREADABLE")
    for table, name in EXPORTED.items():
        for number, row in enumerate(objects_in(said, name)):
            yield table, (f"{file.name}: {name}[{number}]", row)


# -- sessions


def _session(where: str, row: Row, projects: dict[str, str]) -> Iterator[Item | Unmapped]:
    content, memory = text_in(row, "content_session_id"), text_in(row, "memory_session_id")
    name = memory or content
    if name is None:
        yield Unmapped(where, excerpt(str(row)), "a session without id")
        return
    if content is not None:
        projects[content] = name
    yield Fact(
        where=where,
        id=_session_id(name),
        type="session",
        attrs={
            "title": text_in(row, "custom_title"),
            "project": text_in(row, "project"),
            "prompt": text_in(row, "user_prompt"),
            "status": text_in(row, "status"),
            "platform": text_in(row, "platform_source"),
            "completed_at": text_in(row, "completed_at"),
        },
        origin=Origin(id=name, created=_time(row, "started_at"), updated=_time(row, "completed_at")),
    )


def _session_id(name: str) -> str:
    return f"claude-mem/session/{name}"


def _prompt(where: str, row: Row, projects: dict[str, str]) -> Iterator[Item | Unmapped]:
    session, text, number = text_in(row, "content_session_id"), text_in(row, "prompt_text"), row.get("prompt_number")
    if session is None or text is None:
        yield Unmapped(where, excerpt(str(row)), "a prompt without session or text")
        return
    node_id = f"claude-mem/prompt/{session}/{number}"
    origin = Origin(id=f"{session}/{number}", created=_time(row, "created_at"))
    yield Fact(where=where, id=node_id, type="prompt", attrs={"text": text, "number": number}, origin=origin)
    yield _part_of(where, node_id, projects.get(session, session))


def _summary(where: str, row: Row, projects: dict[str, str]) -> Iterator[Item | Unmapped]:
    session = text_in(row, "memory_session_id")
    if session is None:
        yield Unmapped(where, excerpt(str(row)), "a summary without session")
        return
    item_id = f"{session}/{row.get('id') or row.get('prompt_number')}"
    node_id = f"claude-mem/summary/{item_id}"
    parts = ("request", "investigated", "learned", "completed", "next_steps", "notes")
    yield Fact(
        where=where,
        id=node_id,
        type="session summary",
        attrs={
            "project": text_in(row, "project"),
            **{name: text_in(row, name) for name in parts},
            "files_read": _texts(row, "files_read") or None,
            "files_edited": _texts(row, "files_edited") or None,
        },
        origin=Origin(id=item_id, created=_time(row, "created_at")),
    )
    yield _part_of(where, node_id, session)


def _part_of(where: str, node_id: str, session: str) -> Link:
    return Link(
        where=where,
        source=node_id,
        rel="part_of",
        target=_session_id(session),
        origin=Origin(id=f"{node_id}|{session}"),
    )


# -- observations


def _observation(where: str, row: Row, projects: dict[str, str]) -> Iterator[Item | Unmapped]:
    session, project = text_in(row, "memory_session_id"), text_in(row, "project") or "claude-mem"
    title = text_in(row, "title") or text_in(row, "subtitle") or excerpt(text_in(row, "text") or "")
    if session is None or not title:
        yield Unmapped(where, excerpt(str(row)), "an observation without session or text")
        return
    item_id = f"{session}/{row.get('id') or text_in(row, 'content_hash') or excerpt(title)}"
    origin = Origin(
        id=item_id,
        author=text_in(row, "agent_id") or text_in(row, "generated_by_model"),
        created=_time(row, "created_at"),
    )
    named = _texts(row, "files_modified") or _texts(row, "files_read")
    paths = list(dict.fromkeys(path for each in named if (path := _path_in(project, each)) is not None))
    knowledge = _knowledge(row)
    if paths and len(knowledge.encode()) <= _KNOWLEDGE_BYTES_MAX:
        for each in named:
            if _path_in(project, each) is None:
                yield Unmapped(where, excerpt(each), "this file lies outside of the project")
        for each in paths[_PATHS_MAX:]:
            yield Unmapped(where, excerpt(each), f"knowledge has at most {_PATHS_MAX} paths")
        name = title if len(title) <= _NAME_CHARACTERS_MAX else title[: _NAME_CHARACTERS_MAX - 1] + "…"
        yield Atom(
            where=where, project=project, name=name, knowledge=knowledge, paths=tuple(paths[:_PATHS_MAX]), origin=origin
        )
        return
    node_id = f"claude-mem/observation/{item_id}"
    yield Fact(
        where=where,
        id=node_id,
        type=text_in(row, "type") or "observation",
        attrs={
            "title": title,
            "project": project,
            **{name: text_in(row, name) for name in ("subtitle", "narrative", "text")},
            **{name: _texts(row, name) or None for name in ("facts", "concepts", "files_read", "files_modified")},
        },
        origin=origin,
    )
    yield _part_of(where, node_id, session)


def _knowledge(row: Row) -> str:
    """All that it says, as a text."""
    said = [text for name in ("subtitle", "narrative", "text") if (text := text_in(row, name)) is not None]
    facts = [f"- {each}" for each in _texts(row, "facts")]
    marks = [f"{name}: {text}" for name in ("type",) if (text := text_in(row, name)) is not None]
    concepts = _texts(row, "concepts")
    marks += [f"concepts: {', '.join(concepts)}"] if concepts else []
    return "\n\n".join(["\n".join(part) for part in (said, facts, marks) if part])


def _path_in(project: str, path: str) -> str | None:
    """As a pattern from the root of the project; None for what lies outside of it."""
    parts = PurePosixPath(path.strip().replace("\\", "/")).parts
    if parts[:1] == ("/",) or (parts and parts[0].endswith(":")):
        if project not in parts[1:]:
            return None
        parts = parts[parts.index(project, 1) + 1 :]
    if not parts or ".." in parts:
        return None
    return "/".join("".join("?" if sign in "*?[]{}!\\" else sign for sign in part) for part in parts)


# -- values


def _texts(row: Row, name: str) -> list[str]:
    """A list, or JSON of one."""
    value = row.get(name)
    if isinstance(value, str):
        try:
            value = strict_json.parse(value.encode())
        except strict_json.JsonFault:
            value = [value] if value.strip() else []
    return [each for each in value if isinstance(each, str) and each.strip()] if isinstance(value, list) else []


def _time(row: Row, name: str) -> str | None:
    epoch = row.get(f"{name}_epoch")
    text = text_in(row, name)
    if text is not None or not isinstance(epoch, int) or isinstance(epoch, bool):
        return text
    try:
        return to_text(epoch)
    except (ValueError, OverflowError, OSError):
        return None


_READERS: dict[str, Callable[[str, Row, dict[str, str]], Iterator[Item | Unmapped]]] = {
    "sdk_sessions": _session,
    "observations": _observation,
    "session_summaries": _summary,
    "user_prompts": _prompt,
}
