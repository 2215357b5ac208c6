"""The graph in an engine that speaks Cypher: the contract that FalkorDB and servers that speak Bolt fulfil.

An engine has a graph of its own for each tenant, follows the log into it (`projection`), and answers two kinds of
questions: walks that are too long for the memory (`walks`) and people's own (`tallystick cypher`). It is never asked
whether something is true, and knows no policy: what it finds is looked up in the state before anybody is told.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec

from tallystick.config import Settings
from tallystick.errors import InvalidArgument, TallystickError

T = TypeVar("T")

WRITE_SECONDS = 60.0
_NAME_CHARACTERS_MAX = 63
"""Of a database of Neo4j."""

Parameters = Mapping[str, Any]
Statement = tuple[str, Parameters]


class Rows(msgspec.Struct, frozen=True):
    """An answer. Nodes and relationships are objects of their properties, paths are arrays of both by turns."""

    columns: list[str]
    rows: list[list[Any]]


class EngineAway(TallystickError):
    """It does not answer, or not in time."""

    code = "CYPHER_AWAY"


class Engine(Protocol):
    """One server, for all tenants. Used by one event loop.

    Raises EngineAway, and InvalidArgument with code CYPHER_REFUSED for what the engine itself refuses.
    """

    async def name(self) -> str:
        """What it is called in answers: `falkordb`, `neo4j`, `memgraph` …"""
        ...

    async def read(
        self,
        graph: str,
        text: str,
        parameters: Parameters,
        *,
        seconds: float,
        rows_max: int,
        is_follower: bool = False,
    ) -> Rows:
        """Of the graph and of no other; the engine itself keeps the text from writing. A graph that was never written
        has no rows. More rows than `rows_max` raise LimitExceeded. `is_follower`: by the account that writes, which may
        know more graphs than the other."""
        ...

    async def write(self, graph: str, statements: Sequence[Statement]) -> None:
        """In this order. Where an engine has no transactions some may be done when it raises."""
        ...

    async def prepare(self, graph: str) -> None:
        """Before the first write: the graph, and an index for what is looked up."""
        ...

    async def require_read_only(self, graph: str) -> None:
        """Raises InvalidArgument with code CYPHER_NOT_READ_ONLY where `read` would let a text write."""
        ...

    async def erase(self, graph: str) -> bool:
        """Leave no copy, as far as the engine can be told to, of what was deleted; False when that goes on yet."""
        ...

    async def drop(self, graph: str) -> None:
        """The graph and all that is in it."""
        ...

    async def close(self) -> None: ...


class EngineAddress(msgspec.Struct, frozen=True):
    url: str
    user: str = ""
    password: str = ""
    reader: str = ""
    """Who asks, if not who writes: an account that may only read."""
    reader_password: str = ""
    prefix: str = "tallystick"

    def graph_of(self, tenant: str) -> str:
        """No two tenants have the same: a tenant's name has no dot."""
        name = f"{self.prefix}-{tenant.replace('_', '.')}"
        if len(name) <= _NAME_CHARACTERS_MAX:
            return name
        return f"{self.prefix}-{sha256(tenant.encode()).hexdigest()[:32]}"

    @property
    def shown(self) -> str:
        """Without what may be a secret in it."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"


FALKORDB_SCHEMES = ("falkor", "falkors")
BOLT_SCHEMES = ("bolt", "bolt+s", "bolt+ssc", "neo4j", "neo4j+s", "neo4j+ssc")


def address_of(settings: Settings) -> EngineAddress | None:
    """None where no engine is configured. Raises InvalidArgument for an address that is none."""
    if not settings.cypher_url:
        return None
    parts = urlsplit(settings.cypher_url)
    if parts.scheme not in FALKORDB_SCHEMES + BOLT_SCHEMES or not parts.hostname or "@" in parts.netloc:
        raise InvalidArgument(
            "cypher_url must be an address like falkor://127.0.0.1:6379 or bolt://127.0.0.1:7687, without a password",
            code="SETTING_INVALID",
            hint="accounts are named in cypher_user and cypher_password_file",
        )
    return EngineAddress(
        settings.cypher_url,
        settings.cypher_user,
        _secret(settings.cypher_password_file),
        settings.cypher_reader,
        _secret(settings.cypher_reader_password_file),
        settings.cypher_graph,
    )


def _secret(path: str) -> str:
    if not path:
        return ""
    try:
        return Path(path).expanduser().read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(
            f"{path} cannot be read: {error}", code="SETTING_INVALID", hint="name a file with the password in it"
        ) from error


def open_engine(address: EngineAddress) -> Engine:
    try:
        if urlsplit(address.url).scheme in FALKORDB_SCHEMES:
            from tallystick.extensions.cypher.falkordb import FalkorEngine

            return FalkorEngine(address)
        from tallystick.extensions.cypher.bolt import BoltEngine

        return BoltEngine(address)
    except ImportError as error:
        raise InvalidArgument(
            f"cypher_url is set, and the client for it is not installed: {error}",
            code="EXTRA_MISSING",
            hint="pip install 'tallystick[cypher]'",
        ) from error


class EngineThread:
    """An engine with an event loop of its own, so that the threads of projections and the loop of callers share it."""

    def __init__(self, address: EngineAddress) -> None:
        self.address = address
        self._engine: Engine | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            self._engine = open_engine(self.address)
        return self._engine

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """For threads."""
        return asyncio.run_coroutine_threadsafe(work, self._started()).result()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """For callers on another loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._started()))

    def close(self) -> None:
        if self._loop is not None:
            if self._engine is not None:
                self.wait_for(self._engine.close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_run_until_stopped, args=(self._loop,), name="cypher", daemon=True).start()
            return self._loop


def _run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    loop.close()


def refused(engine: str, error: Exception) -> InvalidArgument:
    return InvalidArgument(
        f"{engine} refused it: {_one_line(error)}",
        code="CYPHER_REFUSED",
        hint="questions only read; nodes are (:Entity {id, type, …}), edges [:EDGE {rel, …}]",
    )


def away(where: str, error: BaseException) -> EngineAway:
    told = _one_line(error) or type(error).__name__
    return EngineAway(
        f"{where} does not answer: {told}", hint="start it, or look at cypher_url; nothing is lost meanwhile"
    )


def not_read_only(where: str) -> InvalidArgument:
    return InvalidArgument(
        f"{where} lets a text write where it was asked to only read",
        code="CYPHER_NOT_READ_ONLY",
        hint="name an account that may only read in cypher_reader and cypher_reader_password_file",
    )


_SHOWN_CHARACTERS_MAX = 300


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:_SHOWN_CHARACTERS_MAX]
