"""view: a file with its line numbers, or a directory two levels deep; the registry without what may not be read."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec
import orjson

from tallystick.errors import InvalidArgument, NotFound
from tallystick.extensions.files.arguments import View
from tallystick.extensions.files.context import (
    Call,
    check_current,
    check_shown,
    decided,
    entities_at,
    lines_of,
    located,
    may_read,
    no_content,
    numbered,
    on_disk,
    read_text,
)
from tallystick.extensions.files.paths import Place
from tallystick.policy import Action
from tallystick.projections.reserved_files import is_own
from tallystick.projections.sandboxed_files import Parts, SandboxedFiles
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.trust import Trust
from tallystick.toolsets import Answer

PAGE_BYTES_MAX = 48 << 10
ENTRIES_MAX = 400
VIEWED_BYTES_MAX = 100 << 20
_DEPTH = 2
_SYSTEM_SHOWN = ("ontology.yaml", "registry.json")
_CONTENT_SHOWN = ("connections", "nodes")
_MARKS = {"directory": "/", "file": ""}
REGISTRY: Parts = ("_system", "registry.json")
Entities = dict[str, dict[str, Any]]


async def view(call: Call, asked: View) -> Answer:
    place = await located(call, asked.path)
    if place.rule == "content" and place.entity is None:
        # Nobody could say whether this principal may read it.
        raise no_content(place)
    await check_shown(call, place)
    warning = await decided(call, Action.READ, place)
    files = call.files()
    found = await on_disk(lambda: files.find(place.parts), "read")
    if found is not None and stat.S_ISDIR(found.st_mode):
        if asked.view_range is not None:
            raise InvalidArgument(f"'{place.path}' is a directory: view_range is for files")
        return await _directory(call, place)
    if found is None and not place.parts:
        return _listing(place, [])
    await check_current(call, place)
    text = await on_disk(lambda: read_text(files, place, VIEWED_BYTES_MAX), "read")
    if place.parts != REGISTRY:
        return _file(place, text, asked.view_range, warning)
    text, flagged = await filtered(call, text)
    answer = _file(place, text, asked.view_range, {})
    for name, ids in flagged.items():
        if shown := named_in(answer.data["content"], ids):
            answer.data[name] = shown
    return answer


def _file(place: Place, text: str, asked: list[int] | None, warning: dict[str, Any]) -> Answer:
    lines = lines_of(text)
    first, last = _range(asked, len(lines))
    shown = _fitting(lines[first - 1 : last])
    end = first + len(shown) - 1
    data: dict[str, Any] = {
        "path": place.path,
        "kind": "file",
        "content": "".join(shown),
        "lines": len(lines),
        "view_range": [first, end],
        **warning,
    }
    note = ""
    if shown != lines[first - 1 : end]:
        data["truncated"] = True
        note = f"\n(line {end} is longer than a page: this is its beginning)"
    if end < last:
        data |= {"truncated": True, "next_line": end + 1}
        note += f"\n({len(lines)} lines in all; go on with view_range [{end + 1}, -1])"
    if "untrusted" in warning:
        note += f"\n(untrusted: {warning['untrusted']['reason']})"
    if "stale" in warning:
        note += f"\n(stale since {warning['stale']['since']}: {warning['stale']['why']})"
    return Answer(data, text=(numbered(shown, first) or "(the file is empty)") + note)


def _range(asked: list[int] | None, count: int) -> tuple[int, int]:
    if asked is None:
        return 1, count
    first, last = asked
    last = count if last == -1 else last
    if not (1 <= first <= max(count, 1) and first <= max(last, 1)) or (last < first and count):
        raise InvalidArgument(
            f"view_range {asked} is not within the {count} lines of the file",
            code="INVALID_LINE",
            details={"lines": count},
        )
    return first, min(last, count)


def _fitting(lines: list[str]) -> list[str]:
    """As many from the start as fit on a page; of a line that does not fit alone, its beginning."""
    left = PAGE_BYTES_MAX
    for number, line in enumerate(lines):
        left -= len(line.encode()) + 8
        if left < 0:
            return lines[:number] or [line.encode()[: PAGE_BYTES_MAX - 8].decode(errors="ignore")]
    return lines


async def _directory(call: Call, place: Place) -> Answer:
    """What may be read of it. A content is its memory's, a plain file is asked about by its path."""
    files = call.files()
    narrows = await call.read(Action.READ, lambda state, read_filter: read_filter.narrows)
    # Where something may be withheld, all are looked through: how many there are on a page is not known before.
    most = None if narrows else ENTRIES_MAX + 1
    listed = await on_disk(lambda: list(islice(_below(files, place.parts, _DEPTH), most)), "read")
    contents = [entry["path"] for entry in listed if _is_content(entry)]
    owners = await entities_at(call, contents)

    def look(state: State, read_filter: ReadFilter) -> list[dict[str, Any]]:
        def allows(entry: dict[str, Any]) -> bool:
            owner = owners.get(entry["path"])
            if owner is not None:
                return may_read(state, read_filter, owner)
            return not _is_content(entry) and read_filter.allows_resource(f"file:{entry['path']}")

        shown = read_filter.first(listed, allows, ENTRIES_MAX + 1)
        return [read_filter.warned(owners.get(entry["path"], ("nodes", ""))[1], entry) for entry in shown]

    entries = await call.read(Action.READ, look)
    return _listing(place, entries[:ENTRIES_MAX], truncated=len(entries) > ENTRIES_MAX)


def _flags(entry: dict[str, Any]) -> str:
    return "".join(f" ({name})" for name in ("untrusted", "stale") if name in entry)


def _is_content(entry: dict[str, Any]) -> bool:
    return bool(entry["path"].startswith("_content/") and entry["kind"] == "file")


def _listing(place: Place, entries: list[dict[str, Any]], *, truncated: bool = False) -> Answer:
    lines = [f"{each['path']}{_MARKS[each['kind']]}{_flags(each)}" for each in entries]
    data: dict[str, Any] = {"path": place.path, "kind": "directory", "entries": entries}
    if truncated:
        data["truncated"] = True
        lines.append(f"(only the first {ENTRIES_MAX}; view a directory below)")
    return Answer(data, text="\n".join(lines) or "(the directory is empty)")


def _below(files: SandboxedFiles, parts: Parts, depth: int) -> Iterator[dict[str, Any]]:
    try:
        seen = files.list(parts)
    except NotFound:
        return
    for each in seen:
        path = (*parts, each.name)
        if each.kind == "other" or not _is_shown(path):
            continue
        size = {"bytes": each.bytes} if each.kind == "file" else {}
        yield {"path": "/".join(path), "kind": each.kind, **size}
        if each.kind == "directory" and depth > 1:
            yield from _below(files, path, depth - 1)


def _is_shown(path: Parts) -> bool:
    if path[-1].startswith("."):
        return False
    if path[0] == "_system":
        return len(path) == 1 or path[1] in _SYSTEM_SHOWN
    if path[0] == "_content":
        return len(path) == 1 or path[1] in _CONTENT_SHOWN
    return not is_own(path)


# -- the registry


class _Registry(msgspec.Struct):
    nodes: Entities
    connections: Entities


async def filtered(call: Call, text: str) -> tuple[str, dict[str, list[str]]]:
    """What may be read of it, and the ids in it that were recalled or are stale. As it is where none can be."""

    def needs(state: State, read_filter: ReadFilter) -> tuple[bool, bool]:
        return read_filter.narrows, state.dates_any or bool(state.derived(Trust).recalls())

    narrows, flags = await call.read(Action.READ, needs)
    if not narrows and not flags:
        return text, {}
    nodes, connections = await asyncio.to_thread(_parsed, text)

    def look(state: State, read_filter: ReadFilter) -> tuple[list[str], list[str], dict[str, list[str]]]:
        seen = {each: None for each in nodes if read_filter.allows(each)}
        # It shows a connection only with both its ends.
        joined = [name for name, each in connections.items() if each["from"] in seen and each["to"] in seen]
        return list(seen), joined, read_filter.flags((*seen, *joined))

    seen, joined, flagged = await call.read(Action.READ, look)
    if len(seen) < len(nodes) or len(joined) < len(connections):
        kept = {each: nodes[each] for each in seen}, {each: connections[each] for each in joined}
        text = await asyncio.to_thread(_written, *kept)
    return text, flagged


def named_in(text: str, ids: list[str]) -> list[str]:
    """Those that this part of it is about."""
    return [each for each in ids if f"    {orjson.dumps(each).decode()}: " in text]


def _parsed(text: str) -> tuple[Entities, Entities]:
    try:
        found = msgspec.json.decode(text, type=_Registry)
        return found.nodes, {name: each for name, each in found.connections.items() if {"from", "to"} <= each.keys()}
    except msgspec.DecodeError:
        # Somebody wrote into it: then nobody can say whose it is.
        raise InvalidArgument(
            f"'{'/'.join(REGISTRY)}' is not as the store wrote it", code="NOT_TEXT", hint="use query_nodes"
        ) from None


def _written(nodes: Entities, connections: Entities) -> str:
    """One entity a line, as the views write it."""
    return f'{{\n  "nodes": {_group(nodes)},\n  "connections": {_group(connections)}\n}}\n'


def _group(entities: Entities) -> str:
    lines = [f"    {orjson.dumps(name).decode()}: {orjson.dumps(entity).decode()}" for name, entity in entities.items()]
    return "{\n" + ",\n".join(lines) + "\n  }" if lines else "{}"
