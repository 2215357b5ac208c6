"""str_replace, insert: a change of a text, whether it is a plain file or the content of a memory."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tallystick.errors import InvalidArgument
from tallystick.extensions.files.arguments import Insert, StrReplace
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
from tallystick.extensions.files.paths import Place, check_plain
from tallystick.policy import Action
from tallystick.toolsets import Answer
from tallystick.toolsets.content_edits import rewrite
from tallystick.toolsets.drafts import after_commit

_LINES_SHOWN = 20


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
