"""The projection of vectors, as the core registers it. The rest is imported when it is used."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.config import Settings
from tallystick.projections.registry import Copies, Place, Registered, Use

if TYPE_CHECKING:
    from tallystick.app.context import AppContext
    from tallystick.extensions.vectors.index import VectorIndex
    from tallystick.extensions.vectors.projection import VectorProjection
    from tallystick.operations.doctor import Finding

POSITION = "SELECT head FROM place WHERE head != ''"
ERASING = "SELECT 1 FROM place WHERE scrub"


def database_path(home: Path) -> Path:
    return home / "_system" / "vectors.db"


def near(context: AppContext) -> Callable[[str], VectorIndex] | None:
    projections = context.projections
    if projections is None or not context.settings.vectors:
        return None
    return lambda tenant: projections.companion(tenant, "vectors")


@asynccontextmanager
async def embedding(context: AppContext) -> AsyncIterator[None]:
    """Begin to make the vectors of the tenant that the settings name, before a caller searches."""
    if context.settings.vectors:
        from tallystick.extensions.vectors import model

        model.require()
        assert context.projections is not None
        context.projections.companion(context.settings.tenant, "vectors")
    yield


def _projection(place: Place) -> VectorProjection:
    from tallystick.extensions.vectors.projection import VectorProjection

    return VectorProjection(place.home, place.log.line)


def _index(use: Use) -> VectorIndex:
    from tallystick.extensions.vectors.index import VectorIndex

    projection: Any = use.worker.projection
    index = VectorIndex(projection, use.worker, used=use.used)
    index.start()
    return index


VECTORS = Registered(
    name="vectors",
    make=_projection,
    copies=Copies(lambda home, database: database_path(home), POSITION, ERASING),
    rest_seconds=1.0,
    companion=_index,
)


def check_vectors(settings: Settings) -> Iterator[Finding]:
    """Yield what `doctor` reports."""
    if not settings.has_log:
        return
    from tallystick.extensions.vectors import model
    from tallystick.extensions.vectors.projection import counts
    from tallystick.operations import counted, shown_bytes
    from tallystick.operations.doctor import Finding

    path = database_path(settings.home)
    if not settings.vectors:
        if path.exists():
            advice = f"it is kept clean of what is erased; remove {path} if you do not want it back"
            left = f"off; {shown_bytes(path.stat().st_size)} are left of when they were on"
            yield Finding("vectors", left, "odd", advice)
        return
    if not model.is_installed():
        yield Finding("vectors", "on, and not installed", "bad", "pip install 'tallystick[vectors]', or turn it off")
        return
    made, texts = counts(path)
    yield Finding("vectors", f"on: {made} of {counted(texts, 'text')} have one")
