"""What says nearly the same as a node that was just written under a new id, so that its author can tell duplicates.

Asked after the append, when the write is done whatever comes of this: it takes two milliseconds or is left out. The
index is in threads that share one interpreter with every other call, so looks are rationed, too.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from tallystick.commits.payloads import NodePayload
from tallystick.commits.reserved_attributes import said
from tallystick.policy import Action, Principal
from tallystick.projections.text.entity_words import values
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State

if TYPE_CHECKING:
    from tallystick.engine.store import Store
    from tallystick.projections.text import TextIndex

logger = logging.getLogger(__name__)

SECONDS = 0.002
SHOWN = 3
"""At most so many are named."""
CHARACTERS_LEAST = 12
"""Less than that is a label, and many nodes have the same."""
CHARACTERS_MAX = 10_000
_PARTS_MAX = 200
REST = 40.0
"""After a look others go on alone for this many times as long: a look costs a fortieth of the time at most, and
writers in a hurry do without."""


class SimilarNodes:
    def __init__(self, text: Callable[[str], TextIndex]) -> None:
        """`text` is the index of each tenant."""
        self._text = text
        self._looking = False
        self._free_at = 0.0

    def is_ready(self, store: Store, principal: Principal) -> bool:
        """Not while others write."""
        return not self._looking and time.monotonic() >= self._free_at and not store.waiting(principal)

    async def find(self, store: Store, principal: Principal, nodes: Sequence[NodePayload]) -> dict[str, list[str]]:
        """By id, those of the nodes that say nearly the same as others of their type; only what may be read."""
        self._looking = True
        started = time.monotonic()
        try:
            found = await self._look(principal.tenant, nodes, started + SECONDS)
            return await _readable(store, principal, found) if found else {}
        except Exception as error:
            # The write is durable by now, so it is answered without this.
            logger.warning("similar nodes could not be looked up: %s", error)
            return {}
        finally:
            self._looking = False
            now = time.monotonic()
            self._free_at = now + REST * (now - started)

    async def _look(self, tenant: str, nodes: Sequence[NodePayload], deadline: float) -> dict[str, tuple[str, ...]]:
        index = self._text(tenant)
        found: dict[str, tuple[str, ...]] = {}
        for node in nodes:
            texts = list(islice(values(said(node.attrs)), _PARTS_MAX))
            left = deadline - time.monotonic()
            if left <= 0:
                break
            if CHARACTERS_LEAST <= sum(map(len, texts)) <= CHARACTERS_MAX:
                ids = await index.similar(texts, node.type, besides=node.id, limit=2 * SHOWN, seconds=left)
                if ids:
                    found[node.id] = (node.type, *ids)
        return found


async def _readable(store: Store, principal: Principal, found: dict[str, tuple[str, ...]]) -> dict[str, list[str]]:
    """Those that are still there, of that type, and may be read: the index knows neither."""

    def look(state: State, read_filter: ReadFilter) -> dict[str, list[str]]:
        readable: dict[str, list[str]] = {}
        for node_id, (kind, *ids) in found.items():
            there = [each for each in ids if (known := state.owner(each)) is not None and known[0] == kind]
            allowed = read_filter.readable(there)[:SHOWN]
            if allowed:
                readable[node_id] = allowed
        return readable

    return await store.read(principal, Action.SEARCH, look)
