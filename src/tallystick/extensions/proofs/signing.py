"""The projection that this extension contributes: the tiles of a log, signed in a process that serves and has a key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from tallystick.config import Settings
from tallystick.extensions.proofs import tiles
from tallystick.projections import Projection, Settling
from tallystick.projections.registry import OpenedStore, Place, Registered, Use

if TYPE_CHECKING:
    from tallystick.commits.signed_note import SignerKey
    from tallystick.extensions.proofs.witnesses import WitnessAddress


class Signing(msgspec.Struct, frozen=True):
    keys: tuple[SignerKey, ...]
    witnesses: tuple[WitnessAddress, ...] = ()
    """Which are asked to cosign."""


class LogSigner:
    def __init__(self, use: Use) -> None:
        self._use = use

    async def sign(self) -> None:
        """Sign all that is durable now, however short a time ago something was signed. Raises as `sign` does."""
        with self._use.used():
            await asyncio.to_thread(self._sign)

    def close(self) -> None: ...

    def _sign(self) -> None:
        worker = self._use.worker
        with worker.at_head():
            if isinstance(worker.projection, Settling):
                worker.projection.settle(final=True)


@contextmanager
def _prepared(settings: Settings, store: OpenedStore | None) -> Iterator[Callable[[str], Signing | None]]:
    """With keys that are read once: a server that cannot sign as it was told to does not start."""
    if store is None:
        yield lambda tenant: None
        return
    from tallystick.app.logs import keys_by_tenant

    keys, witnesses = keys_by_tenant(settings), _witnesses(settings)

    def signing(tenant: str) -> Signing | None:
        return Signing(keys(tenant), witnesses) if keys(tenant) else None

    yield signing


def _witnesses(settings: Settings) -> tuple[WitnessAddress, ...]:
    if not settings.witnesses:
        return ()
    from tallystick.extensions.proofs.witnesses import parse_witnesses

    return parse_witnesses(settings.witnesses)


def _tiles(place: Place) -> Projection:
    signing: Signing | None = place.parts.get("tiles")
    if signing is None:
        return tiles.TilesProjection(place.home)
    # Most processes sign nothing, and start faster without what it takes.
    from tallystick.extensions.proofs.checkpoints import SignedTiles
    from tallystick.extensions.proofs.witnesses import Witnesses

    return SignedTiles(place.home, signing.keys, Witnesses(signing.witnesses) if signing.witnesses else None)


TILES = Registered(
    name="tiles",
    make=_tiles,
    rest_seconds=tiles.SIGNED_EVERY_SECONDS,
    commits_at_once=20_000,
    prepare=_prepared,
    hands_on=True,
    companion=LogSigner,
)
