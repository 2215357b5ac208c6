"""The projections of each tenant: what lies on disk beside the log, and what keeps it up to date.

Projections follow the log in threads of their own. In a process that serves they run all
the time; a command that only asks starts none, and brings up to date what it asks for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from tallystick.config import Settings
from tallystick.log import Entry, Log
from tallystick.projections.content import ContentFiles, Contents, Kind
from tallystick.projections.follower import Follower
from tallystick.projections.log_reader import LogReader
from tallystick.projections.registry import OpenedStore, Place, Use, by_default, prepared, registered
from tallystick.projections.text import TextIndex

if TYPE_CHECKING:
    from subprocess import Popen

    from tallystick.commits.signed_note import SignerKey
    from tallystick.projections.registry import Companion

ERASED_SECONDS = 10.0
_ALL_TENANTS_SECONDS = 60.0

logger = logging.getLogger(__name__)


class AllProjections:
    """By tenant, opened at first use."""

    def __init__(
        self,
        settings: Settings,
        *,
        open_log: Callable[[Settings], Log],
        database: Path | None = None,
        store: OpenedStore | None = None,
        elsewhere: Callable[[str, str], Popen[bytes]] | None = None,
    ) -> None:
        """`database`: where `graph.db` lies, if elsewhere. `store`: of a process that serves, for projections that
        look at it or write to it. `elsewhere`: begins a process that brings a tenant's projection, both by name, to the
        head."""
        self._settings = settings
        self._open_log = open_log
        self._database = database
        self._elsewhere = elsewhere
        self._prepared = ExitStack()
        self._parts_of = self._prepared.enter_context(prepared(settings, store))
        self._by_tenant: dict[str, TenantProjections] = {}
        self._left: set[TenantProjections] = set()
        """No longer to be had, and still used."""
        self._closing: set[asyncio.Task[None]] = set()
        self._handing_on: asyncio.Task[None] | None = None

    def of(self, tenant: str) -> TenantProjections:
        home = self._by_tenant.get(tenant)
        if home is None:
            home = self._by_tenant[tenant] = self._made(tenant)
        return home

    def _made(self, tenant: str) -> TenantProjections:
        settings = msgspec.structs.replace(self._settings, tenant=tenant)
        place = Place(
            settings.home,
            LogReader(partial(self._open_log, settings)),
            # What the settings name is for one memory; the others keep theirs at home.
            self._database if tenant == self._settings.tenant else None,
            tenant,
            self._parts_of(tenant),
            self._elsewhere_for(tenant),
        )
        return TenantProjections(settings, place)

    def _elsewhere_for(self, tenant: str) -> Callable[[str], Popen[bytes]] | None:
        """Not where another process would take the `graph.db` that the settings name for this tenant's."""
        if self._elsewhere is None or (self._database is not None and tenant != self._settings.tenant):
            return None
        return partial(self._elsewhere, tenant)

    def path(self, tenant: str) -> Path:
        return self.of(tenant).path

    def contents(self, tenant: str) -> Contents:
        return self.of(tenant).contents

    def text(self, tenant: str) -> TextIndex:
        return cast(TextIndex, self.of(tenant).companion("text"))

    def companion(self, tenant: str, name: str) -> Any:
        """Return what callers use of a projection; None if no extension contributes it."""
        return self.of(tenant).companion(name) if name in registered() else None

    def content_files(self, tenant: str) -> ContentFiles | None:
        return cast("ContentFiles | None", self.companion(tenant, "views"))

    def keys(self, tenant: str) -> tuple[SignerKey, ...]:
        """Return those that sign its checkpoints; none where none are configured."""
        signing = self.part(tenant, "tiles")
        return () if signing is None else signing.keys

    def part(self, tenant: str, name: str) -> Any:
        """Return what was prepared for a projection of a tenant; None if nothing was."""
        return self._parts_of(tenant).get(name)

    async def published(self, tenant: str, position: int) -> bool:
        """Wait for content files to show commits up to there; False when that takes too long."""
        home, files = self.of(tenant), self.content_files(tenant)
        with home.used():
            return files is None or await files.published(position)

    async def adopted(self, tenant: str, kind: Kind, entity_id: str) -> None:
        home, files = self.of(tenant), self.content_files(tenant)
        if files is not None:
            with home.used():
                await files.adopt_one(kind, entity_id)

    async def erase(self, tenant: str, position: int) -> list[str]:
        """Leave no copy of what commits up to `position` redacted. Returns the projections that still have one: they
        go on trying, here or in the next process that opens the tenant."""
        home = self.of(tenant)
        with home.used():
            return await home.follower.erase(position, ERASED_SECONDS)

    def delete(self, tenant: str) -> None:
        """Something was deleted: the copies go soon, and nobody waits for it."""
        for worker in self.of(tenant).follower.with_copies():
            worker.notify()
            worker.start()

    async def resume(self, tenant: str) -> None:
        """Finish what a process left unfinished that died, or could not erase everything."""
        home = self.of(tenant)
        home.follower.hand_on()
        with home.used():
            await asyncio.to_thread(home.follower.resume)

    def hand_on_for(self, known: Callable[[], Iterable[str]]) -> None:
        """Now and then hand on, too, what others wrote for tenants that are not open here."""
        parts = self._parts_of(self._settings.tenant)
        if any(each.hands_on_closed and each.name in parts for each in registered().values()):
            self._handing_on = asyncio.create_task(self._hand_on(known))

    async def _hand_on(self, known: Callable[[], Iterable[str]]) -> None:
        while True:
            try:
                await self.hand_on_once(known)
            except Exception:
                logger.exception("what other processes wrote is handed on again in %g s", _ALL_TENANTS_SECONDS)
            await asyncio.sleep(_ALL_TENANTS_SECONDS)

    async def hand_on_once(self, known: Callable[[], Iterable[str]]) -> None:
        for tenant in await asyncio.to_thread(known):
            if tenant not in self._by_tenant:
                home = self._made(tenant)
                home.follower.hand_on()
                await home.close()

    def lags(self, tenant: str, position: int) -> dict[str, int]:
        """By projection that follows all the time: how many commits it is behind."""
        home = self._by_tenant.get(tenant)
        return {} if home is None else home.follower.lags(position)

    def appended(self, tenant: str, group: Sequence[Entry]) -> None:
        """These are in the log now: whoever follows may look."""
        home = self._by_tenant.get(tenant)
        if home is not None:
            home.follower.appended(group)

    async def leave(self, tenant: str) -> None:
        """Its log was closed after a while without a use: end what follows it. The next use opens it again.

        A tool may still be busy with the home, and may even wait for the log to be opened again. So nobody
        waits for it here: it is closed when the last of them is done.
        """
        home = self._by_tenant.pop(tenant, None)
        if home is None:
            return
        if home.used.count:
            self._left.add(home)
            home.used.when_none = lambda: self._close_later(home)
        else:
            await home.close()

    async def close(self) -> None:
        if self._handing_on is not None:
            self._handing_on.cancel()
            await asyncio.gather(self._handing_on, return_exceptions=True)
        projections, self._by_tenant = [*self._by_tenant.values(), *self._left], {}
        self._left.clear()
        for home in projections:
            await home.close()
        await asyncio.gather(*self._closing)
        await asyncio.to_thread(self._prepared.close)

    def _close_later(self, home: TenantProjections) -> None:
        if home in self._left:
            self._left.remove(home)
            closing = asyncio.create_task(home.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)


class _Uses:
    """Not of the home itself: indexes would know it as it knows them, and what was frozen is never collected."""

    def __init__(self) -> None:
        self.count = 0
        self.when_none: Callable[[], None] | None = None
        """What is to be done, once, when nobody uses it any more."""

    @contextmanager
    def __call__(self) -> Iterator[None]:
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1
            if self.count == 0 and self.when_none is not None:
                done, self.when_none = self.when_none, None
                done()


class TenantProjections:
    def __init__(self, settings: Settings, place: Place) -> None:
        self._settings = settings
        self.path = settings.home
        self.follower = Follower(place)
        self._companions: dict[str, Companion] = {}
        self.used = _Uses()
        """Entered for as long as it must not be closed, unless everything is. For the event loop's thread only."""

    @cached_property
    def contents(self) -> Contents:
        return Contents(self.path)

    def companion(self, name: str) -> Companion:
        """Return what callers use of a projection that has something for them."""
        found = self._companions.get(name)
        if found is None:
            make = registered()[name].companion
            assert make is not None
            use = Use(self._settings, self.follower.place, self.follower.worker(name), self.used)
            found = self._companions[name] = make(use)
        return found

    def serve(self) -> None:
        """Follow all the time, from now on."""
        for name in by_default():
            self.follower.worker(name).start()

    async def close(self) -> None:
        for each in self._companions.values():
            await asyncio.to_thread(each.close)
        await asyncio.to_thread(self.follower.close)
