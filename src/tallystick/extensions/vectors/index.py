"""The vectors: which entities mean about what a question means, whichever words they use. Off unless asked for.

An optional extra beside the text index, which knows nothing of it. `model` makes vectors of texts, `projection` keeps
them on disk, `nearest` compares them, `fusion` puts what they find together with what words find. Vectors are made in
a thread that waits for nobody and that nobody waits for: until a text has one, only its words find it. What was
deleted or redacted is found by neither at once.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from tallystick.errors import TallystickError
from tallystick.extensions.vectors import fusion, model
from tallystick.extensions.vectors.projection import VectorProjection
from tallystick.projections.database import Damaged, Reader
from tallystick.projections.text import SEARCH_SECONDS, Hit, Kind
from tallystick.projections.worker import ProjectionWorker
from tallystick.system.file_locks import locked

if TYPE_CHECKING:
    from tallystick.extensions.vectors.nearest import VectorTable

NEAR_MAX = 100
"""How many the vectors name at most."""
_BATCH = 32
"""Texts at a time: half a second's work, which whoever ends the server may have to wait for."""
_TURN_SECONDS = 1.0
_AGAIN_SECONDS = 10.0

logger = logging.getLogger(__name__)


class VectorIndex:
    words_min = fusion.WORDS_MIN

    def __init__(
        self,
        projection: VectorProjection,
        worker: ProjectionWorker,
        *,
        used: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`worker` is the projection's. `used` is entered for as long as somebody searches."""
        self._projection = projection
        self._worker = worker
        self._used = used
        self._reader = Reader(projection.path)
        self._table: VectorTable | None = None
        self._asking = ThreadPoolExecutor(1, thread_name_prefix="vectors")
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Make vectors of what is and will be written, in a thread."""
        if self._thread is None:
            self._worker.start()
            self._thread = threading.Thread(target=self._embed_always, name="embed", daemon=True)
            self._thread.start()

    async def search(
        self,
        words: str,
        *,
        types: Collection[str] | None = None,
        kinds: Collection[Kind] = ("node", "edge"),
        among: Collection[str] | None = None,
        limit: int = NEAR_MAX,
    ) -> list[Hit]:
        """Best first; the filters are those of the text index. None where it cannot be asked: words are left."""
        look = partial(self._search, words, types, kinds, among, limit)
        with self._used():
            try:
                return await asyncio.get_running_loop().run_in_executor(self._asking, look)
            except Damaged as error:
                self._projection.distrust(error.message)
                logger.warning("a question was answered by words alone, and vectors are made again: %s", error.message)
            except TallystickError as error:
                logger.warning("a question was answered by words alone: %s", error.message)
            return []

    def fused(self, by_words: Sequence[Hit], near: Sequence[Hit]) -> list[Hit]:
        return fusion.fused(by_words, near)

    def embed_waiting(self) -> int:
        """Make the vectors of some texts that wait; how many there were. Blocks for half a second or so."""
        made = model.loaded()
        lock = self._projection.path.with_name("embedding.lock")
        # Of several processes one at a time: two would do the same work.
        with locked(lock, timeout_seconds=_TURN_SECONDS) as ours:
            if not ours:
                return 0
            with self._worker.at_head():
                self._projection.use_model(made.identity)
                waiting = self._projection.waiting(_BATCH)
            if waiting:
                codes = {each.number: model.coded(made.embed(each.text)) for each in waiting}
                # What was touched meanwhile has another number by now.
                with self._worker.at_head():
                    self._projection.put(made.identity, codes)
            return len(waiting)

    def close(self) -> None:
        self._ending.set()
        self._projection.has_waiting.set()
        if self._thread is not None:
            self._thread.join()
        self._asking.shutdown()
        self._reader.close()

    def _search(
        self,
        words: str,
        types: Collection[str] | None,
        kinds: Collection[Kind],
        among: Collection[str] | None,
        limit: int,
    ) -> list[Hit]:
        # First, and under its lock: NumPy does not bear being imported by two threads at once.
        made = model.loaded()
        from tallystick.extensions.vectors.nearest import VectorTable

        vector = made.embed(words)
        # Behind the head there may be vectors of what was redacted.
        if not self._worker.catch_up_within(SEARCH_SECONDS):
            return []
        if self._table is None:
            self._table = VectorTable()
        with self._reader.snapshot() as db:
            if not self._table.refresh(db, made.identity):
                return []
        return self._table.nearest(vector, types=types, kinds=kinds, among=among, limit=limit)

    def _embed_always(self) -> None:
        while not self._ending.is_set():
            try:
                # The first time also to load the model before anybody asks.
                while self.embed_waiting() and not self._ending.is_set():
                    pass
            except TallystickError as error:
                logger.warning("vectors are not made: %s; again in %g s", error.message, _AGAIN_SECONDS)
                self._ending.wait(_AGAIN_SECONDS)
            except Exception:
                logger.exception("vectors are not made; again in %g s", _AGAIN_SECONDS)
                self._ending.wait(_AGAIN_SECONDS)
            # Whoever closes us sets both, and the second may have been taken back just now.
            if not self._ending.is_set():
                self._projection.has_waiting.wait()
