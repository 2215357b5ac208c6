"""The edits: content files that people change are noticed, and handed on to be committed.

Files are looked at when we start, now and then, and before a node is read; a look at one is a
`stat`. What is adopted becomes a commit by `file-edit`, so the log keeps both versions. What
cannot be adopted stays where it is and is reported by `Views.problems`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from tallystick.errors import TallystickError
from tallystick.extensions.ontology.views import Views
from tallystick.extensions.ontology.views.content_files import NOT_ADOPTED, Edit
from tallystick.projections.content import Kind
from tallystick.projections.worker import ProjectionWorker

LOOK_SECONDS = 2.0
_LOOK_SHARE = 50
"""A look at all files is followed by a pause so many times as long, so that it costs 2 % at most."""

logger = logging.getLogger(__name__)

Adopt = Callable[[Edit], Awaitable[None]]
"""Commits an edit. Raises TallystickError when it cannot be committed."""


class FileEdits:
    def __init__(self, views: Views, follower: ProjectionWorker, adopt: Adopt) -> None:
        self._views = views
        self._follower = follower
        self._adopt = adopt
        self._refused: dict[str, Edit] = {}
        """By path: not tried again until it is edited again."""
        self._one_at_a_time = asyncio.Lock()

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
        if not await asyncio.to_thread(self._views.looks_edited, kind, entity_id):
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
