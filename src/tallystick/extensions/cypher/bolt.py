"""A server that speaks Bolt, by Neo4j's driver. A database for each tenant.

Questions run in transactions that are declared to read and are never committed: whatever a server made of the
declaration, it undoes. What no transaction undoes (schema, accounts) a server must refuse to who may only read, and
`require_read_only` tries whether it heeds the declaration at all.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import neo4j
from neo4j.exceptions import AuthError, ClientError, DriverError, Neo4jError, ServiceUnavailable, TransientError
from neo4j.graph import Node, Relationship
from neo4j.graph import Path as GraphPath

from tallystick.errors import InvalidArgument, LimitExceeded
from tallystick.extensions.cypher.engine import (
    WRITE_SECONDS,
    EngineAddress,
    EngineAway,
    Parameters,
    Rows,
    Statement,
    away,
    not_read_only,
    refused,
)

_CONNECT_SECONDS = 30.0
_GRACE_SECONDS = 5.0
"""Over what a question was given, until it is given up."""
_NAMES = re.compile(r"memgraph|arcadedb|falkordb|neo4j", re.IGNORECASE)
_NO_DATABASE = "Neo.ClientError.Database.DatabaseNotFound"
_INDEXES = (
    "CREATE INDEX IF NOT EXISTS FOR (n:Entity) ON (n.id)",
    "CREATE INDEX IF NOT EXISTS FOR ()-[e:EDGE]-() ON (e.key)",
)
_PROBE = "CREATE (n:TallystickProbe) RETURN n"


class BoltEngine:
    def __init__(self, address: EngineAddress) -> None:
        self._address = address
        self._drivers: dict[str, neo4j.AsyncDriver] = {}
        self._name: str | None = None

    async def name(self) -> str:
        if self._name is None:
            async with self._guarded(_CONNECT_SECONDS):
                agent = (await self._driver(is_reader=True).get_server_info()).agent
            # Others call themselves Neo4j, too, and say at the end who they are.
            found = _NAMES.findall(agent)
            self._name = found[-1].lower() if found else "bolt"
        return self._name

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
        try:
            return await self._read(graph, text, parameters, seconds, rows_max, is_follower)
        except InvalidArgument as error:
            if _is_without_database(error):
                return Rows([], [])
            raise

    async def _read(
        self, graph: str, text: str, parameters: Parameters, seconds: float, rows_max: int, is_follower: bool
    ) -> Rows:
        driver = self._driver(is_reader=not is_follower)
        async with (
            self._guarded(seconds),
            self._transaction(driver, graph, neo4j.READ_ACCESS, seconds) as transaction,
        ):
            result = await transaction.run(text, dict(parameters))
            rows: list[list[Any]] = []
            async for record in result:
                if len(rows) == rows_max:
                    raise LimitExceeded(f"more than {rows_max} rows", code="CYPHER_ROWS", hint="add a LIMIT")
                rows.append([_plain(value) for value in record.values()])
            if (await result.consume()).counters.contains_updates:
                raise not_read_only(self._address.shown)
            return Rows(list(result.keys()), rows)

    async def write(self, graph: str, statements: Sequence[Statement]) -> None:
        driver = self._driver(is_reader=False)
        async with (
            self._guarded(WRITE_SECONDS),
            self._transaction(driver, graph, neo4j.WRITE_ACCESS, WRITE_SECONDS) as transaction,
        ):
            for text, parameters in statements:
                await (await transaction.run(text, dict(parameters))).consume()
            await transaction.commit()

    async def prepare(self, graph: str) -> None:
        """An edition with databases of its own makes one; of any other the operator does."""
        try:
            await self._make_indexes(graph)
        except InvalidArgument as error:
            if not _is_without_database(error):
                raise
            await self._make_database(graph)
            await self._make_indexes(graph)

    async def require_read_only(self, graph: str) -> None:
        try:
            await self.read(graph, _PROBE, {}, seconds=_CONNECT_SECONDS, rows_max=1)
        except EngineAway:
            raise
        except InvalidArgument as error:
            if error.code != "CYPHER_REFUSED":
                raise
        else:
            raise not_read_only(self._address.shown)

    async def erase(self, graph: str) -> bool:
        """Its transaction logs are its own, and go as its settings say."""
        return True

    async def drop(self, graph: str) -> None:
        await self.write(graph, [("MATCH (n) DETACH DELETE n", {})])

    async def close(self) -> None:
        for driver in self._drivers.values():
            await driver.close()
        self._drivers.clear()

    async def _make_indexes(self, graph: str) -> None:
        async with self._guarded(WRITE_SECONDS), self._driver(is_reader=False).session(database=graph) as session:
            for statement in _INDEXES:
                await (await session.run(statement)).consume()

    async def _make_database(self, graph: str) -> None:
        try:
            async with (
                self._guarded(WRITE_SECONDS),
                self._driver(is_reader=False).session(database="system") as session,
            ):
                await (await session.run(f"CREATE DATABASE `{graph}` IF NOT EXISTS WAIT")).consume()
        except InvalidArgument as error:
            raise InvalidArgument(
                f"{self._address.shown} has no database '{graph}', and makes none when asked",
                code="CYPHER_NO_DATABASE",
                hint="make it there; each tenant has one of its own",
            ) from error

    def _driver(self, *, is_reader: bool) -> neo4j.AsyncDriver:
        address = self._address
        user, password = address.user, address.password
        if is_reader and address.reader:
            user, password = address.reader, address.reader_password
        found = self._drivers.get(user)
        if found is None:
            found = self._drivers[user] = neo4j.AsyncGraphDatabase.driver(
                address.url,
                auth=(user, password) if user else None,
                connection_timeout=_CONNECT_SECONDS,
                connection_acquisition_timeout=_CONNECT_SECONDS,
                notifications_min_severity="OFF",
                telemetry_disabled=True,
            )
        return found

    @asynccontextmanager
    async def _transaction(
        self, driver: neo4j.AsyncDriver, graph: str, mode: str, seconds: float
    ) -> AsyncIterator[neo4j.AsyncTransaction]:
        """Rolled back unless it was committed."""
        async with (
            driver.session(database=graph, default_access_mode=mode) as session,
            await session.begin_transaction(timeout=seconds) as transaction,
        ):
            yield transaction
            if mode == neo4j.READ_ACCESS:
                await transaction.rollback()

    @asynccontextmanager
    async def _guarded(self, seconds: float) -> AsyncIterator[None]:
        """Whoever is given up on loses the connection: a server need not heed the time that a transaction has."""
        try:
            async with asyncio.timeout(seconds + _GRACE_SECONDS):
                yield
        except TimeoutError as error:
            raise away(self._address.shown, TimeoutError(f"no answer in {seconds + _GRACE_SECONDS:g} s")) from error
        except (ServiceUnavailable, TransientError, OSError) as error:
            raise away(self._address.shown, error) from error
        except (AuthError, ClientError, Neo4jError) as error:
            raise refused(self._name or "the engine", error) from error
        except DriverError as error:
            raise away(self._address.shown, error) from error


def _is_without_database(error: InvalidArgument) -> bool:
    return isinstance(error.__cause__, Neo4jError) and error.__cause__.code == _NO_DATABASE


def _plain(value: Any) -> Any:
    if isinstance(value, Node | Relationship):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, GraphPath):
        pairs = zip(value.nodes, value.relationships, strict=False)
        return [_plain(each) for pair in pairs for each in pair] + [_plain(value.nodes[-1])]
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
