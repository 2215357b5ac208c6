"""Questions of people's own in Cypher, to the engine that follows the log of a tenant."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import msgspec

from tallystick.config import Settings
from tallystick.errors import InvalidArgument, TallystickError
from tallystick.extensions.cypher.engine import EngineThread, address_of
from tallystick.operations import OperationContext
from tallystick.projections.follower import Follower
from tallystick.projections.log_reader import LogReader
from tallystick.projections.registry import Place

SECONDS = 30.0
ROWS_MAX = 10_000
TEXT_CHARACTERS_MAX = 100_000


class CypherAnswer(msgspec.Struct, frozen=True):
    engine: str
    graph: str
    position: int
    """Of the log, up to which the engine had followed it."""
    columns: list[str]
    rows: list[list[Any]]


def ask(
    context: OperationContext, text: str, *, seconds: float = SECONDS, rows_max: int = ROWS_MAX, catches_up: bool = True
) -> CypherAnswer:
    """Brings the engine to the head first, unless it is asked as it is. The engine itself keeps the text from writing
    and within the graph of the tenant. No policy is asked: whoever has this directory has the log.

    Raises InvalidArgument for what the engine refuses, LimitExceeded, EngineAway.
    """
    if len(text) > TEXT_CHARACTERS_MAX:
        raise InvalidArgument(f"the question is longer than {TEXT_CHARACTERS_MAX} characters", code="CYPHER_REFUSED")
    if "\0" in text:
        raise InvalidArgument("the question has a NUL in it", code="CYPHER_REFUSED")
    settings = context.settings
    with opened_engine(settings) as thread:
        worker = Follower(_place(context, thread)).worker("cypher")
        with closing(worker):
            if catches_up:
                worker.catch_up()
            engine, graph = thread.engine, thread.address.graph_of(settings.tenant)
            position = worker.projection.position().lamport
            thread.wait_for(engine.require_read_only(graph))
            found = thread.wait_for(engine.read(graph, text, {}, seconds=seconds, rows_max=rows_max))
            return CypherAnswer(thread.wait_for(engine.name()), graph, position, found.columns, found.rows)


def drop_graph(settings: Settings) -> str | None:
    """All that an engine has of a tenant that is deleted. Returns what could not be, for the operator."""
    try:
        with opened_engine(settings) as thread:
            thread.wait_for(thread.engine.drop(thread.address.graph_of(settings.tenant)))
    except TallystickError as error:
        return f"the graph of '{settings.tenant}' in an engine: {error.message}"
    return None


@contextmanager
def opened_engine(settings: Settings) -> Iterator[EngineThread]:
    address = address_of(settings)
    if address is None:
        raise InvalidArgument(
            "no engine is configured",
            code="CYPHER_NOT_CONFIGURED",
            hint="set cypher_url, such as falkor://127.0.0.1:6379; without one, query graph.db with SQL",
        )
    thread = EngineThread(address)
    try:
        yield thread
    finally:
        thread.close()


def _place(context: OperationContext, thread: EngineThread) -> Place:
    settings = context.settings
    return Place(settings.home, LogReader(context.open_log), tenant=settings.tenant, parts={"cypher": thread})
