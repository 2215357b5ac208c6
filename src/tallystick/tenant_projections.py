"""The projections of each tenant: what lies on disk beside the log, and what keeps it up to date.

Projections follow the log in threads of their own. In a process that serves they run all
the time; a command that only asks starts none, and brings up to date what it asks for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from tallystick.config import Settings
from tallystick.extensions.cypher.engine import EngineThread, address_of
from tallystick.extensions.cypher.walks import Budget, GraphWalks
from tallystick.extensions.ontology.file_edits import FileEdits
from tallystick.extensions.ontology.views import Views
from tallystick.extensions.ontology.views.content_files import Edit
from tallystick.extensions.vectors.index import VectorIndex
from tallystick.extensions.vectors.projection import VectorProjection
from tallystick.log import Entry, Log
from tallystick.projections.content import Contents, Kind
from tallystick.projections.follower import Follower
from tallystick.projections.log_reader import LogReader
from tallystick.projections.registry import BY_DEFAULT, Place
from tallystick.projections.text import TextIndex
from tallystick.projections.text.projection import TextProjection

if TYPE_CHECKING:
    from subprocess import Popen

    from tallystick.commits.signed_note import SignerKey
    from tallystick.extensions.openlineage.lineage_emitter import Destination
    from tallystick.extensions.proofs.witnesses import WitnessAddress

Adopt = Callable[[str, Edit], Awaitable[None]]
"""Commits, for a tenant, what a person wrote into a content file."""

ERASED_SECONDS = 10.0
_PUBLISHED_SECONDS = 2.0
"""A view that takes longer is published later: the answer's durability never depends on it."""
_ALL_TENANTS_SECONDS = 60.0

logger = logging.getLogger(__name__)


class AllProjections:
    """By tenant, opened at first use."""

    def __init__(
        self,
        settings: Settings,
        *,
        open_log: Callable[[Settings], Log],
        adopt: Adopt | None = None,
        repairs: bool = False,
        database: Path | None = None,
        lineage: Callable[[str], Destination] | None = None,
        keys: Callable[[str], tuple[SignerKey, ...]] = lambda tenant: (),
        witnesses: tuple[WitnessAddress, ...] = (),
        elsewhere: Callable[[str, str], Popen[bytes]] | None = None,
    ) -> None:
        """Content files that people edited are adopted, or put right at the start, or else left alone.
        `database`: where `graph.db` lies, if elsewhere. `lineage`: where the events of a tenant go, if anywhere.
        `keys`: those that sign the checkpoints of a tenant's log, if any do; `witnesses` are asked to cosign them.
        `elsewhere`: begins a process that brings a tenant's projection, both by name, to the head."""
        self._settings = settings
        self._open_log = open_log
        self._adopt = adopt
        self._repairs = repairs
        self._database = database
        self._lineage = lineage
        self._keys = keys
        self._witnesses = witnesses
        self._elsewhere = elsewhere
        address = address_of(settings)
        self._engine = None if address is None else EngineThread(address)
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
            self._repairs,
            self._lineage(tenant) if self._lineage is not None else None,
            self._keys(tenant),
            self._witnesses,
            self._engine,
            tenant,
            self._elsewhere_for(tenant),
        )
        return TenantProjections(settings, place, self._adopt)

    def _elsewhere_for(self, tenant: str) -> Callable[[str], Popen[bytes]] | None:
        """Not where another process would take the `graph.db` that the settings name for this tenant's."""
        if self._elsewhere is None or (self._database is not None and tenant != self._settings.tenant):
            return None
        return partial(self._elsewhere, tenant)

    def path(self, tenant: str) -> Path:
        return self.of(tenant).path

    def views(self, tenant: str) -> Views:
        return self.of(tenant).views

    def contents(self, tenant: str) -> Contents:
        return self.of(tenant).contents

    def text(self, tenant: str) -> TextIndex:
        return self.of(tenant).text

    def vectors(self, tenant: str) -> VectorIndex:
        return self.of(tenant).vectors

    def walks(self, tenant: str) -> GraphWalks:
        """Only where the settings name an engine."""
        return self.of(tenant).walks

    def keys(self, tenant: str) -> tuple[SignerKey, ...]:
        """Those that sign its checkpoints; none where none are configured."""
        return self._keys(tenant)

    async def sign(self, tenant: str) -> None:
        """A checkpoint of all that is durable now."""
        home = self.of(tenant)
        with home.used():
            await asyncio.to_thread(home.follower.sign)

    async def published(self, tenant: str, position: int) -> bool:
        """Wait for the views to show commits up to there; False when that takes too long."""
        home = self.of(tenant)
        with home.used():
            return await home.published(position)

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
        if self._lineage is not None:
            self._handing_on = asyncio.create_task(self._hand_on(known))

    async def _hand_on(self, known: Callable[[], Iterable[str]]) -> None:
        while True:
            try:
                await self.hand_on_once(known)
            except Exception:
                logger.exception("lineage is handed on again in %g s", _ALL_TENANTS_SECONDS)
            await asyncio.sleep(_ALL_TENANTS_SECONDS)

    async def hand_on_once(self, known: Callable[[], Iterable[str]]) -> None:
        for tenant in await asyncio.to_thread(known):
            if tenant not in self._by_tenant:
                home = self._made(tenant)
                home.follower.hand_on()
                await home.close()

    async def adopted(self, tenant: str, kind: Kind, entity_id: str) -> None:
        home = self.of(tenant)
        with home.used():
            await home.adopted(kind, entity_id)

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
        if self._engine is not None:
            await asyncio.to_thread(self._engine.close)

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
    def __init__(
        self,
        settings: Settings,
        place: Place,
        adopt: Adopt | None,
    ) -> None:
        self._settings = settings
        self._adopt = adopt
        self.path = settings.home
        self.follower = Follower(place)
        self._looking: asyncio.Task[None] | None = None
        self.used = _Uses()
        """Entered for as long as it must not be closed, unless everything is. For the event loop's thread only."""

    @cached_property
    def contents(self) -> Contents:
        return Contents(self.path)

    @cached_property
    def text(self) -> TextIndex:
        worker = self.follower.worker("text")
        return TextIndex(
            cast(TextProjection, worker.projection),
            worker.catch_up,
            catch_up_within=worker.catch_up_within,
            head=worker.log_head,
            used=self.used,
        )

    @cached_property
    def vectors(self) -> VectorIndex:
        """Only where the settings ask for it."""
        worker = self.follower.worker("vectors")
        index = VectorIndex(cast(VectorProjection, worker.projection), worker, used=self.used)
        index.start()
        return index

    @cached_property
    def walks(self) -> GraphWalks:
        """Only where the settings name an engine."""
        engine = self.follower.place.cypher
        assert engine is not None
        budget = Budget(self._settings.walk_nodes_max, self._settings.walk_ms_max)
        return GraphWalks(engine, self._settings.tenant, self.follower.worker("cypher"), budget, used=self.used)

    @property
    def views(self) -> Views:
        return cast(Views, self.follower.worker("views").projection)

    @cached_property
    def _edits(self) -> FileEdits:
        return FileEdits(self.views, self.follower.worker("views"), self._commit_edit)

    def serve(self) -> None:
        """Follow all the time, from now on."""
        for name in BY_DEFAULT:
            self.follower.worker(name).start()
        if self._settings.vectors:
            _ = self.vectors
        if self._adopt is not None:
            self._looking = asyncio.create_task(self._edits.run())

    def publish(self) -> None:
        """Bring the views to the head now; waits for its turn when another process is at it."""
        self.follower.worker("views").catch_up()

    async def published(self, position: int) -> bool:
        return await self.follower.worker("views").reached(position, _PUBLISHED_SECONDS)

    async def adopted(self, kind: Kind, entity_id: str) -> None:
        if self._adopt is not None:
            await self._edits.adopt_one(kind, entity_id)

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        for name in ("text", "vectors"):
            if name in self.__dict__:
                await asyncio.to_thread(getattr(self, name).close)
        await asyncio.to_thread(self.follower.close)

    async def _commit_edit(self, edit: Edit) -> None:
        if self._adopt is not None:
            await self._adopt(self._settings.tenant, edit)
