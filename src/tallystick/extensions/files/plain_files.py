"""create, delete, rename: plain files, which only the disk knows of."""

from __future__ import annotations

import stat
from collections.abc import Awaitable, Callable
from functools import partial

from tallystick.errors import Conflict
from tallystick.extensions.files.arguments import Create, Delete, Rename
from tallystick.extensions.files.context import Call, alone, decided, lines_of, on_disk
from tallystick.extensions.files.paths import Place, check_not_own, check_plain, place_of
from tallystick.policy import Action
from tallystick.projections.content import check_text
from tallystick.projections.sandboxed_files import Parts, SandboxedFiles
from tallystick.toolsets import Answer

_ATTEMPTS = 10


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
