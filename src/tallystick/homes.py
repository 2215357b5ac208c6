"""The homes: what lies on disk for a tenant beside the log, and what keeps it up to date.

Projections follow the log in threads of their own. In a process that serves they run all
the time; a command that only asks starts none, and brings up to date what it asks for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cached_property
from pathlib import Path

import msgspec

from tallystick.config import Settings
from tallystick.log import Log
from tallystick.log.files import FilesLog
from tallystick.projections.content import Contents, Kind
from tallystick.projections.edits import Edits
from tallystick.projections.follower import Follower
from tallystick.projections.sql import SqlProjection
from tallystick.projections.text import TextIndex
from tallystick.projections.text.projection import TextProjection
from tallystick.projections.views import Views, follow
from tallystick.projections.views.shelf import Edit

Adopt = Callable[[str, Edit], Awaitable[None]]
"""Commits, for a tenant, what a person wrote into a content file."""

_PUBLISHED_SECONDS = 2.0
"""A view that takes longer is published later: the answer's durability never depends on it."""


class Homes:
    """By tenant, opened at first use."""

    def __init__(self, settings: Settings, *, adopt: Adopt | None = None, database: Path | None = None) -> None:
        """Without `adopt`, files that people edit are left alone. `database`: where `graph.db` lies, if elsewhere."""
        self._settings = settings
        self._adopt = adopt
        self._database = database
        self._homes: dict[str, Home] = {}

    def of(self, tenant: str) -> Home:
        home = self._homes.get(tenant)
        if home is None:
            settings = msgspec.structs.replace(self._settings, tenant=tenant)
            home = self._homes[tenant] = Home(settings, self._adopt, self._database)
        return home

    def path(self, tenant: str) -> Path:
        return self.of(tenant).path

    def views(self, tenant: str) -> Views:
        return self.of(tenant).views

    def contents(self, tenant: str) -> Contents:
        return self.of(tenant).contents

    def text(self, tenant: str) -> TextIndex:
        return self.of(tenant).text

    async def published(self, tenant: str, position: int) -> None:
        await self.of(tenant).published(position)

    async def adopted(self, tenant: str, kind: Kind, entity_id: str) -> None:
        await self.of(tenant).adopted(kind, entity_id)

    def committed(self, tenant: str) -> None:
        """Something was committed: whoever follows may look."""
        home = self._homes.get(tenant)
        if home is not None:
            home.notify()

    async def leave(self, tenant: str) -> None:
        """Nobody has used this tenant for a while: end what follows its log. The next use opens it again."""
        home = self._homes.pop(tenant, None)
        if home is not None:
            await home.close()

    async def close(self) -> None:
        for home in self._homes.values():
            await home.close()
        self._homes.clear()


class Home:
    def __init__(self, settings: Settings, adopt: Adopt | None, database: Path | None) -> None:
        self._settings = settings
        self._adopt = adopt
        self.path = settings.home
        self._database = database or settings.home / "graph.db"
        self._followers: list[Follower] = []
        # Those that look at once when something was committed; the others look once a second.
        self._notified: list[Follower] = []
        self._looking: asyncio.Task[None] | None = None

    @cached_property
    def contents(self) -> Contents:
        return Contents(self.path)

    @cached_property
    def text(self) -> TextIndex:
        projection = TextProjection(self.path)
        follower = self._followed(Follower(self._open_log, projection, lock=self._lock("text")))
        return TextIndex(projection, follower.catch_up)

    @cached_property
    def sql(self) -> Follower:
        projection = SqlProjection(self._database)
        return self._followed(Follower(self._open_log, projection, lock=self._lock("sql")), notified=False)

    @property
    def views(self) -> Views:
        return self._views[0]

    @cached_property
    def _views(self) -> tuple[Views, Follower, Edits]:
        shown, follower = follow(self.path, self._open_log)
        self._followed(follower)
        return shown, follower, Edits(shown, follower, self._commit_edit)

    def serve(self) -> None:
        """Follow all the time, from now on."""
        for follower in (self._views[1], self.sql):
            follower.start()
        _ = self.text
        if self._adopt is not None:
            self._looking = asyncio.create_task(self._views[2].run())

    def publish(self) -> None:
        """Bring the views to the head now; waits for its turn when another process is at it."""
        self._views[1].catch_up()

    async def published(self, position: int) -> None:
        follower = self._views[1]
        follower.start()
        follower.notify()
        await follower.reached(position, _PUBLISHED_SECONDS)

    async def adopted(self, kind: Kind, entity_id: str) -> None:
        if self._adopt is not None:
            await self._views[2].adopt_one(kind, entity_id)

    def notify(self) -> None:
        for follower in self._notified:
            follower.notify()

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        if "text" in self.__dict__:
            self.text.close()
        for follower in self._followers:
            await asyncio.to_thread(follower.close)

    async def _commit_edit(self, edit: Edit) -> None:
        if self._adopt is not None:
            await self._adopt(self._settings.tenant, edit)

    def _followed(self, follower: Follower, *, notified: bool = True) -> Follower:
        self._followers.append(follower)
        if notified:
            self._notified.append(follower)
        return follower

    def _open_log(self) -> Log:
        return FilesLog(self._settings.system)

    def _lock(self, name: str) -> Path:
        return self._settings.system / f"{name}.lock"
