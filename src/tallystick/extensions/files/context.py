"""What the file tools share: places, contents, decisions, plain files."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from tallystick.errors import InvalidArgument, LimitExceeded, NotFound, TallystickError
from tallystick.extensions.files.paths import Entity, Place, place_of
from tallystick.policy import Action, Principal
from tallystick.projections.content import ContentFiles, Contents, Kind, check_text
from tallystick.projections.reserved_files import Reserved
from tallystick.projections.sandboxed_files import SandboxedFiles
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.system.file_locks import locked
from tallystick.system.private_files import make_directory

if TYPE_CHECKING:
    from tallystick.engine.store import Look, Store

T = TypeVar("T")

FILE_BYTES_MAX = 10 << 20
_SNIPPET_LINES = 4


class ToolContext(msgspec.Struct, frozen=True):
    home: Callable[[str], Path] | None
    views: Callable[[str], ContentFiles | None]
    adopt: Callable[[str, Kind, str], Awaitable[None]] | None
    published: Callable[[str, int], Awaitable[bool]] | None
    file_bytes_max: int = FILE_BYTES_MAX
    reserved: tuple[Path, ...] = ()
    """What the settings name."""
    base: Path | None = None
    """The directory of all tenants."""

    def check_size(self, text: str) -> bytes:
        """The bytes that will be written."""
        try:
            data = text.encode()
        except UnicodeEncodeError:
            raise InvalidArgument("the text holds half of a surrogate pair", code="NOT_TEXT") from None
        if len(data) > self.file_bytes_max:
            raise LimitExceeded(
                f"the file would have {len(data):,} bytes, the limit is {self.file_bytes_max:,}", code="FILE_TOO_LARGE"
            )
        return data


class Call(msgspec.Struct, frozen=True):
    """One call of a tool: with what it is answered, and who makes it."""

    context: ToolContext
    store: Store
    principal: Principal
    tool: str

    async def read(self, action: Action, look: Look[T], *, resource: str | None = None) -> T:
        return await self.store.read(self.principal, action, look, resource=resource)

    def files(self) -> SandboxedFiles:
        home = self._home()
        return SandboxedFiles(home, Reserved(home, self.context.reserved, self.context.base))

    def contents(self) -> Contents:
        return Contents(self._home())

    def _home(self) -> Path:
        if self.context.home is None:
            raise RuntimeError("this toolset was made without a home")
        return self.context.home(self.principal.tenant)


async def located(call: Call, path: str) -> Place:
    """The place, and whose content lies there if any does."""
    place = place_of(path)
    if place.rule != "content":
        return place
    # Opened first: the views of a tenant come with its partition.
    with await call.store.tenants.using(call.principal.tenant):
        views = call.context.views(call.principal.tenant)
        entity = None if views is None else await asyncio.to_thread(views.entity_at, place.path)
    return msgspec.structs.replace(place, entity=entity)


async def entities_at(call: Call, paths: Sequence[str]) -> dict[str, Entity]:
    """Path → whose content lies there, of those that the views know."""
    views = call.context.views(call.principal.tenant)
    if views is None or not paths:
        return {}
    found = await asyncio.to_thread(lambda: {path: views.entity_at(path) for path in paths})
    return {path: entity for path, entity in found.items() if entity is not None}


def may_read(state: State, read_filter: ReadFilter, entity: Entity) -> bool:
    """Whether the principal may read whose content it is; of a connection, both its ends."""
    kind, entity_id = entity
    if kind == "nodes":
        return read_filter.allows(entity_id)
    return state.edge_name(entity_id) is not None and read_filter.allows_edge(entity_id)


def no_content(place: Place) -> NotFound:
    return NotFound(f"'{place.path}' is not the content of any memory", code="FILE_NOT_FOUND")


async def check_shown(call: Call, place: Place) -> None:
    """The notes of a connection are for those who may read both its ends."""
    entity = place.entity
    if entity is None or entity[0] != "connections":
        return
    if not await call.read(Action.READ, lambda state, read_filter: may_read(state, read_filter, entity)):
        raise no_content(place)


async def check_current(call: Call, place: Place) -> None:
    """What is shown is what the state says: a file that views have not got to yet may hold what is gone."""
    if place.rule == "plain" or call.context.published is None:
        return
    entity = place.entity

    def look(state: State) -> tuple[int, bool]:
        if entity is None:
            return state.position, True
        kind, entity_id = entity
        return state.position, (state.owner(entity_id) if kind == "nodes" else state.edge_owner(entity_id)) is not None

    with await call.store.tenants.using(call.principal.tenant) as partition:
        position, lives = await partition.look(look)
    if not lives:
        raise no_content(place)
    if not await call.context.published(call.principal.tenant, position):
        raise TallystickError(
            f"'{place.path}' is not up to date yet", code="PROJECTION_BUSY", hint="try again, or read the memory itself"
        )


async def decided(call: Call, action: Action, place: Place) -> dict[str, Any]:
    """Ask the gate. Plain files are not in the log, so there is nothing to commit.

    Returns the warning that goes with the content: that its memory was recalled, if it was.
    """
    entity = place.entity
    if entity is None:
        await call.store.ask(call.principal, action, place.resource)
        return {}
    # Whether a node may be READ is the question itself.
    is_settled = entity[0] == "nodes" and action is Action.READ

    def look(state: State, read_filter: ReadFilter) -> dict[str, Any]:
        if not is_settled and not may_read(state, read_filter, entity):
            raise no_content(place)
        return read_filter.warned(place.resource, {})

    return await call.read(action, look, resource=place.resource)


async def on_disk(work: Callable[[], T], doing: str) -> T:
    """In a thread of its own; what the disk refuses is an answer."""
    try:
        return await asyncio.to_thread(work)
    except OSError as error:
        code = "CONTENT_READ_FAILED" if doing == "read" else "FILE_CREATION_FAILED"
        raise TallystickError(f"the file could not be {doing}: {error.strerror or error}", code=code) from error


@contextmanager
def alone(home: Path) -> Iterator[None]:
    """One change of plain files at a time, whatever process it comes from: reading and writing back is one step."""
    path = home / "_system" / "files.lock"
    make_directory(path.parent)
    with locked(path):
        yield


def read_text(files: SandboxedFiles, place: Place, bytes_max: int) -> str:
    data = files.read(place.parts, bytes_max=bytes_max)
    try:
        return check_text(data)
    except InvalidArgument as error:
        raise InvalidArgument(f"'{place.path}' is not a text file: {error.message}", code="NOT_TEXT") from None


def lines_of(text: str) -> list[str]:
    """With their ends. Only a line feed ends a line."""
    lines = text.split("\n")
    return [*(line + "\n" for line in lines[:-1]), *([lines[-1]] if lines[-1] else [])]


def numbered(lines: list[str], first: int) -> str:
    return "".join(f"{number:6}\t{line}" for number, line in enumerate(lines, first))


def around(text: str, line: int, count: int) -> str:
    """A few lines before and after, so that one can see what became of it."""
    lines = lines_of(text)
    first = max(1, line - _SNIPPET_LINES)
    return numbered(lines[first - 1 : line + count + _SNIPPET_LINES - 1], first)
