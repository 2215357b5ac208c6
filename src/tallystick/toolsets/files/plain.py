"""create, delete, rename: plain files, which only the disk knows of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.policy import Action, Principal
from tallystick.projections.content import check_text
from tallystick.toolsets import Answer
from tallystick.toolsets.files.arguments import Create, Delete, Rename
from tallystick.toolsets.files.desk import Desk, alone, decided, lines_of, on_disk
from tallystick.toolsets.files.places import check_plain, place_of

if TYPE_CHECKING:
    from tallystick.store import Store


async def create(desk: Desk, store: Store, principal: Principal, asked: Create) -> Answer:
    place = place_of(asked.path)
    check_plain(place, "created")
    data = desk.check_size(asked.file_text)
    check_text(data)
    await decided(store, principal, Action.WRITE, place)
    files = desk.files_of(principal)

    def write() -> None:
        with alone(files.root):
            files.write(place.parts, data, overwrite=asked.overwrite, sync=True, sync_name=True)

    await on_disk(write, "written")
    return Answer(
        {"ok": True, "path": place.path, "lines": len(lines_of(asked.file_text))}, text=f"created {place.path}"
    )


async def delete(desk: Desk, store: Store, principal: Principal, asked: Delete) -> Answer:
    place = place_of(asked.path)
    check_plain(place, "deleted")
    await decided(store, principal, Action.DELETE, place)
    files = desk.files_of(principal)

    def remove() -> None:
        with alone(files.root):
            files.remove(place.parts)

    await on_disk(remove, "deleted")
    return Answer({"ok": True, "path": place.path}, text=f"deleted {place.path}")


async def rename(desk: Desk, store: Store, principal: Principal, asked: Rename) -> Answer:
    source, target = place_of(asked.old_path), place_of(asked.new_path)
    check_plain(source, "renamed")
    check_plain(target, "created")
    await decided(store, principal, Action.DELETE, source)
    await decided(store, principal, Action.WRITE, target)
    files = desk.files_of(principal)

    def move() -> None:
        with alone(files.root):
            files.rename(source.parts, target.parts)

    await on_disk(move, "renamed")
    return Answer({"ok": True, "path": target.path}, text=f"renamed {source.path} to {target.path}")
