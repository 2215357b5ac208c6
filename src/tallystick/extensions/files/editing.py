"""The changes of files: create, delete and rename of plain files, str_replace and insert.

Plain files are known to the disk alone; str_replace and insert also change the content of a memory.
"""

from __future__ import annotations

import stat
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from tallystick.errors import Conflict, InvalidArgument
from tallystick.extensions.files.arguments import Create, Delete, Insert, Rename, StrReplace
from tallystick.extensions.files.context import (
    Call,
    alone,
    around,
    check_shown,
    decided,
    lines_of,
    located,
    no_content,
    on_disk,
    read_text,
)
from tallystick.extensions.files.paths import Place, check_not_own, check_plain, place_of
from tallystick.policy import Action
from tallystick.projections.content import check_text
from tallystick.projections.sandboxed_files import Parts, SandboxedFiles
from tallystick.toolsets import Answer
from tallystick.toolsets.content_edits import rewrite
from tallystick.toolsets.drafts import after_commit

_LINES_SHOWN = 20
_ATTEMPTS = 10


class Edited(msgspec.Struct, frozen=True):
    text: str
    line: int
    """The first one that changed."""
    count: int
    """Lines that are new."""


async def str_replace(call: Call, asked: StrReplace) -> Answer:
    return await _edit(call, asked.path, lambda text: replaced(text, asked))


async def insert(call: Call, asked: Insert) -> Answer:
    return await _edit(call, asked.path, lambda text: inserted(text, asked))


def replaced(text: str, asked: StrReplace) -> Edited:
    places = _places(text, asked.old_str)
    if not places:
        raise InvalidArgument(
            f"old_str does not occur in '{asked.path}'",
            code="NO_MATCH",
            hint="view the file: every character counts, white space and line ends included",
        )
    if len(places) > 1:
        lines = [text.count("\n", 0, at) + 1 for at in places[:_LINES_SHOWN]]
        raise InvalidArgument(
            f"old_str occurs {len(places)} times in '{asked.path}', in lines {', '.join(map(str, lines))}"
            f"{' …' if len(places) > _LINES_SHOWN else ''}",
            code="SEVERAL_MATCHES",
            hint="take in the lines around the one that is meant",
            details={"lines": lines},
        )
    at = places[0]
    changed = text[:at] + asked.new_str + text[at + len(asked.old_str) :]
    return Edited(changed, text.count("\n", 0, at) + 1, asked.new_str.count("\n") + 1)


def inserted(text: str, asked: Insert) -> Edited:
    lines = lines_of(text)
    if asked.insert_line > len(lines):
        raise InvalidArgument(
            f"insert_line {asked.insert_line} is past the end: '{asked.path}' has {len(lines)} lines",
            code="INVALID_LINE",
            details={"lines": len(lines)},
        )
    before, after = lines[: asked.insert_line], lines[asked.insert_line :]
    if before and not before[-1].endswith("\n"):
        before[-1] += "\n"
    added = asked.insert_text
    if added and not added.endswith("\n"):
        added += "\n"
    return Edited("".join([*before, added, *after]), asked.insert_line + 1, added.count("\n"))


async def _edit(call: Call, path: str, change: Callable[[str], Edited]) -> Answer:
    place = await located(call, path)
    if place.rule == "content":
        edited = await _edit_content(call, place, change)
    else:
        check_plain(place, "edited")
        # An edit shows what is there, if only by its refusals.
        for action in (Action.WRITE, Action.READ):
            await decided(call, action, place)
        edited = await on_disk(lambda: _edit_plain(call, place, change), "written")
    return Answer(
        {"ok": True, "path": place.path, "line": edited.line, "lines": len(lines_of(edited.text))},
        text=f"{place.path}:\n{around(edited.text, edited.line, edited.count)}"[:4000],
    )


def _edit_plain(call: Call, place: Place, change: Callable[[str], Edited]) -> Edited:
    files = call.files()
    with alone(files.root):
        edited = change(read_text(files, place, call.context.file_bytes_max))
        edited = msgspec.structs.replace(edited, text=call.store.screened(edited.text, "file_text"))
        files.write(place.parts, call.context.check_size(edited.text), sync=True, sync_name=True)
    return edited


async def _edit_content(call: Call, place: Place, change: Callable[[str], Edited]) -> Edited:
    """Not through the file: the new content is committed, and the view follows."""
    if place.entity is None:
        raise no_content(place)
    await check_shown(call, place)
    kind, entity_id = place.entity
    if call.context.adopt is not None:
        await call.context.adopt(call.principal.tenant, kind, entity_id)
    made: list[Edited] = []

    def changed(text: str) -> str:
        edited = change(text)
        call.context.check_size(edited.text)
        made[:] = [edited]
        return edited.text

    contents = call.contents()
    position = await rewrite(call.store, call.principal, contents, kind, entity_id, changed, tool=call.tool)
    if position is not None and call.context.published is not None:
        await after_commit(call.context.published(call.principal.tenant, position))
    return made[0]


def _places(text: str, wanted: str) -> list[int]:
    """Overlapping ones too: which of them is meant would be unknown."""
    found = []
    at = text.find(wanted)
    while at >= 0:
        found.append(at)
        at = text.find(wanted, at + 1)
    return found


# -- plain files


async def create(call: Call, asked: Create) -> Answer:
    place = place_of(asked.path)
    check_plain(place, "created")
    call.store.screened(asked.path, "path", may_mask=False)
    data = call.context.check_size(call.store.screened(asked.file_text, "file_text"))
    check_text(data)
    await decided(call, Action.WRITE, place)
    files = call.files()

    def write() -> None:
        with alone(files.root):
            files.write(place.parts, data, overwrite=asked.overwrite, sync=True, sync_name=True)

    await on_disk(write, "written")
    return Answer(
        {"ok": True, "path": place.path, "lines": len(lines_of(asked.file_text))}, text=f"created {place.path}"
    )


async def delete(call: Call, asked: Delete) -> Answer:
    place = place_of(asked.path)
    check_plain(place, "deleted")
    files = call.files()

    async def ask(below: list[Parts]) -> None:
        await _ask(call, Action.DELETE, place, below)

    await _with_all_below(files, place, ask, lambda: files.remove(place.parts), "deleted")
    return Answer({"ok": True, "path": place.path}, text=f"deleted {place.path}")


async def rename(call: Call, asked: Rename) -> Answer:
    source, target = place_of(asked.old_path), place_of(asked.new_path)
    check_plain(source, "renamed")
    check_plain(target, "created")
    call.store.screened(asked.new_path, "new_path", may_mask=False)
    files = call.files()

    async def ask(below: list[Parts]) -> None:
        await _ask(call, Action.DELETE, source, below)
        await _ask(call, Action.WRITE, target, below)

    await _with_all_below(files, source, ask, lambda: files.rename(source.parts, target.parts), "renamed")
    return Answer({"ok": True, "path": target.path}, text=f"renamed {source.path} to {target.path}")


# -- a directory is everything in it


async def _ask(call: Call, action: Action, place: Place, below: list[Parts]) -> None:
    also = [(action, Place((*place.parts, *parts), "plain").resource) for parts in below]
    await call.store.ask(call.principal, action, place.resource, also=also)


async def _with_all_below(
    files: SandboxedFiles,
    place: Place,
    ask: Callable[[list[Parts]], Awaitable[None]],
    act: Callable[[], None],
    doing: str,
) -> None:
    """Act when the policy has agreed to all that goes with it: whatever comes in meanwhile is asked about too."""

    def act_on(below: list[Parts]) -> bool:
        with alone(files.root):
            if _below(files, place) != below:
                return False
            act()
            return True

    for _ in range(_ATTEMPTS):
        below = await on_disk(lambda: _below(files, place), "read")
        await ask(below)
        if await on_disk(partial(act_on, below), doing):
            return
    raise Conflict(f"'{place.path}' changed each time before it could be {doing}", hint="try again")


def _below(files: SandboxedFiles, place: Place) -> list[Parts]:
    """Of a directory: relative to it, in order, links not followed. Raises for what is not for these tools to take."""
    found = files.find(place.parts)
    if found is None or not stat.S_ISDIR(found.st_mode):
        return []
    below: list[Parts] = []
    waiting: list[Parts] = [()]
    while waiting:
        parent = waiting.pop()
        for each in files.list((*place.parts, *parent), to_change=True):
            parts = (*parent, each.name)
            check_not_own((*place.parts, *parts))
            below.append(parts)
            if each.kind == "directory":
                waiting.append(parts)
    return sorted(below)
