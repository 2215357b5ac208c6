"""The content files that people read and edit: edits are noticed, and committed.

Files are looked at when we start, now and then, and before a node is read; a look at one is a
`stat`. What is adopted becomes a commit by `file-edit`, so the log keeps both versions. What
cannot be adopted stays where it is and is reported by `Views.problems`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tallystick.commits import FILE_EDIT
from tallystick.config import Settings
from tallystick.errors import Conflict, TallystickError
from tallystick.extensions.ontology import views
from tallystick.extensions.ontology.views import Views
from tallystick.extensions.ontology.views.content_files import NOT_ADOPTED, Edit
from tallystick.policy import Principal
from tallystick.projections.content import Contents, Kind
from tallystick.projections.registry import Copies, OpenedStore, Place, Registered, Use
from tallystick.projections.worker import ProjectionWorker

if TYPE_CHECKING:
    from tallystick.app.context import AppContext
    from tallystick.engine.store import Store

LOOK_SECONDS = 2.0
_PUBLISHED_SECONDS = 2.0
"""A view that takes longer is published later: the answer's durability never depends on it."""
_LOOK_SHARE = 50
"""A look at all files is followed by a pause so many times as long, so that it costs 2 % at most."""

logger = logging.getLogger(__name__)

Adopt = Callable[[Edit], Awaitable[None]]
"""Commits an edit. Raises TallystickError when it cannot be committed."""


class FileEdits:
    """`adopt` is None where edits are left alone or put right."""

    def __init__(self, views: Views, follower: ProjectionWorker, adopt: Adopt | None) -> None:
        self._views = views
        self._follower = follower
        self._adopt = adopt
        self._refused: dict[str, Edit] = {}
        """By path: not tried again until it is edited again."""
        self._one_at_a_time = asyncio.Lock()

    def entity_at(self, path: str) -> tuple[Kind, str] | None:
        return self._views.entity_at(path)

    async def published(self, position: int) -> bool:
        return await self._follower.reached(position, _PUBLISHED_SECONDS)

    def close(self) -> None: ...

    async def run(self) -> None:
        """Until it is cancelled."""
        told = ""
        while True:
            started = time.monotonic()
            try:
                await self.adopt_all()
                told = ""
            except TallystickError as error:
                # A disk that is read-only stays so: one line, not one every two seconds.
                if error.message != told:
                    logger.warning("edited files are not looked for: %s", error.message)
                told = error.message
            except Exception:
                logger.exception("edited files could not be looked for")
            await asyncio.sleep(max(LOOK_SECONDS, _LOOK_SHARE * (time.monotonic() - started)))

    async def adopt_all(self) -> int:
        """Returns how many were adopted."""
        async with self._one_at_a_time:
            return await self._adopt_each(await asyncio.to_thread(self._find, None))

    async def adopt_one(self, kind: Kind, entity_id: str) -> None:
        """Before this entity is read: what was saved a moment ago should be what is read."""
        if self._adopt is None or not await asyncio.to_thread(self._views.looks_edited, kind, entity_id):
            return
        async with self._one_at_a_time:
            await self._adopt_each(await asyncio.to_thread(self._find, (kind, entity_id)))

    def _find(self, only: tuple[Kind, str] | None) -> list[Edit]:
        with self._follower.at_head():
            found = self._views.edits(only)
            # Files that were deleted are written again now.
            self._views.settle()
            return found

    async def _adopt_each(self, edits: list[Edit]) -> int:
        adopted = 0
        assert self._adopt is not None
        for edit in edits:
            if self._refused.get(edit.path) == edit:
                continue
            try:
                await self._adopt(edit)
            except TallystickError as error:
                self._refused[edit.path] = edit
                await asyncio.to_thread(self._report, edit, error)
            else:
                self._refused.pop(edit.path, None)
                adopted += 1
        if adopted:
            # The views learn that the file is what the log says.
            await asyncio.to_thread(self._follower.catch_up)
        return adopted

    def _report(self, edit: Edit, error: TallystickError) -> None:
        logger.warning("%s: %s: %s", edit.path, NOT_ADOPTED, error.message)
        with self._follower.at_head():
            self._views.report(edit, f"{NOT_ADOPTED}: {error.message}")


async def adopt(store: Store, contents: Contents, tenant: str, edit: Edit) -> None:
    """Commit what a person wrote into a content file, as `file-edit`. Twice is once.

    Raises Conflict when the log has another content by now than the one that was edited.
    """

    def adopted(text: str) -> str:
        if text != edit.text and sha256(text.encode()).hexdigest() != edit.replaces:
            raise Conflict(f"'{edit.path}' was changed in the log too: the edit is kept beside it")
        return edit.text

    # The toolsets are needed only where something is edited.
    from tallystick.toolsets.content_edits import rewrite

    await rewrite(
        store,
        Principal(actor=FILE_EDIT, tenant=tenant),
        contents,
        edit.kind,
        edit.id,
        adopted,
        tool=FILE_EDIT,
        reason=f"{edit.path} was edited by hand",
    )


# -- what this extension contributes


class HandEdits(msgspec.Struct, frozen=True):
    """Handling of edits in a process that serves. Other processes leave them alone."""

    adopt: Adopt | None
    """None: they are put right at the start, and what was written is kept beside."""


def adopts(settings: Settings) -> bool:
    return settings.adopt_file_edits == "on" or (settings.adopt_file_edits == "auto" and not settings.http)


@contextmanager
def _prepared(settings: Settings, store: OpenedStore | None) -> Iterator[Callable[[str], HandEdits | None]]:
    def edits_of(tenant: str) -> HandEdits | None:
        if store is None:
            return None
        home = msgspec.structs.replace(settings, tenant=tenant).home
        return HandEdits(partial(_adopt_in, store, home, tenant) if adopts(settings) else None)

    yield edits_of


async def _adopt_in(store: OpenedStore, home: Path, tenant: str, edit: Edit) -> None:
    await adopt(store(), Contents(home), tenant, edit)


def _views(place: Place) -> Views:
    part: HandEdits | None = place.parts.get("views")
    return Views(place.home, place.log.line, repairs=part is not None and part.adopt is None)


def _file_edits(use: Use) -> FileEdits:
    part: HandEdits | None = use.place.parts.get("views")
    projection: Any = use.worker.projection
    return FileEdits(projection, use.worker, None if part is None else part.adopt)


VIEWS = Registered(
    name="views",
    make=_views,
    copies=Copies(lambda home, database: views.database_path(home), views.POSITION, views.ERASING),
    by_default=True,
    prepare=_prepared,
    companion=_file_edits,
    findings="tallystick.extensions.ontology.consistency:findings",
)


@asynccontextmanager
async def adopting(context: AppContext) -> AsyncIterator[None]:
    """Look for edits in the home of the tenant that the settings name, while a server runs."""
    assert context.projections is not None
    edits = context.projections.companion(context.settings.tenant, "views")
    task = asyncio.create_task(edits.run()) if adopts(context.settings) else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
