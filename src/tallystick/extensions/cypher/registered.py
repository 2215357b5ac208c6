"""The projection into a graph engine, as the core registers it. The rest is imported when it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tallystick.config import Settings
from tallystick.projections.registry import Copies, OpenedStore, Place, Registered, Use

if TYPE_CHECKING:
    from tallystick.app.context import AppContext
    from tallystick.extensions.cypher.engine import EngineThread
    from tallystick.extensions.cypher.projection import CypherProjection
    from tallystick.extensions.cypher.walks import GraphWalks

POSITION = "SELECT value FROM meta WHERE key = 'head'"
ERASING = "SELECT 1 FROM meta WHERE key = 'scrub'"


def database_path(home: Path) -> Path:
    return home / "_system" / "cypher.db"


def walks(context: AppContext) -> Callable[[str], GraphWalks] | None:
    projections = context.projections
    if projections is None or not context.settings.cypher_url:
        return None
    return lambda tenant: projections.companion(tenant, "cypher")


@contextmanager
def _prepared(settings: Settings, store: OpenedStore | None) -> Iterator[Callable[[str], EngineThread | None]]:
    """With one engine for all tenants."""
    if not settings.cypher_url:
        yield lambda tenant: None
        return
    from tallystick.extensions.cypher.operation import opened_engine

    with opened_engine(settings) as engine:
        yield lambda tenant: engine


def _projection(place: Place) -> CypherProjection:
    from tallystick.extensions.cypher.projection import CypherProjection

    return CypherProjection(place.home, place.parts.get("cypher"), place.tenant)


def _walks(use: Use) -> GraphWalks:
    from tallystick.extensions.cypher.walks import Budget, GraphWalks

    budget = Budget(use.settings.walk_nodes_max, use.settings.walk_ms_max)
    return GraphWalks(use.place.parts["cypher"], use.place.tenant, use.worker, budget, used=use.used)


def _dropped(settings: Settings) -> str | None:
    if not database_path(settings.home).exists():
        return None
    from tallystick.extensions.cypher.operation import drop_graph

    return drop_graph(settings)


CYPHER = Registered(
    name="cypher",
    make=_projection,
    copies=Copies(lambda home, database: database_path(home), POSITION, ERASING),
    closing_seconds=3.0,
    commits_at_once=2_000,
    prepare=_prepared,
    hands_on=True,
    companion=_walks,
    findings="tallystick.extensions.cypher.consistency:findings",
    outside="nothing is lost: a server goes on by itself once the engine at cypher_url answers",
    drop=_dropped,
)
