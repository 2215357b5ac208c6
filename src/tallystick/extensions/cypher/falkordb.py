"""FalkorDB, by its own client. A graph for each tenant: a key of the server, which a query cannot leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

import falkordb
import redis

from tallystick.errors import LimitExceeded
from tallystick.extensions.cypher.engine import WRITE_SECONDS, EngineAddress, Parameters, Rows, Statement, away, refused

T = TypeVar("T")

_PORT = 6379
_ANSWER_SECONDS = 5.0
"""Over what the engine was given: it looks at its clock between two steps of a query, and some are long."""
_NO_GRAPH = "empty key"
_EXISTS = ("already indexed", "already exists")
_INDEXES = ("CREATE INDEX FOR (n:Entity) ON (n.id)", "CREATE INDEX FOR ()-[e:EDGE]-() ON (e.key)")


class FalkorEngine:
    """Its client waits in threads: the one for event loops does not work with current versions of redis."""

    def __init__(self, address: EngineAddress) -> None:
        self._address = address
        self._clients: dict[tuple[str, float], falkordb.FalkorDB] = {}

    async def name(self) -> str:
        return "falkordb"

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
        def ask() -> Rows:
            reader = "" if is_follower else self._address.reader
            client = self._client(reader or self._address.user, seconds + _ANSWER_SECONDS)
            found = client.select_graph(graph).ro_query(text, dict(parameters), timeout=max(int(seconds * 1000), 1))
            if len(found.result_set) > rows_max:
                raise LimitExceeded(f"more than {rows_max} rows", code="CYPHER_ROWS", hint="add a LIMIT")
            return Rows([str(each[1]) for each in found.header], [list(map(_plain, row)) for row in found.result_set])

        try:
            return await self._asked(ask)
        except redis.ResponseError as error:
            if _NO_GRAPH in str(error):
                return Rows([], [])
            if "timed out" in str(error):
                raise LimitExceeded(
                    f"it took longer than {seconds:g} s", code="CYPHER_TIMEOUT", hint="ask for less"
                ) from error
            raise refused("falkordb", error) from error

    async def write(self, graph: str, statements: Sequence[Statement]) -> None:
        def do() -> None:
            there = self._client(self._address.user, WRITE_SECONDS).select_graph(graph)
            for text, parameters in statements:
                there.query(text, dict(parameters))

        await self._told(do)

    async def prepare(self, graph: str) -> None:
        for statement in _INDEXES:
            try:
                await self.write(graph, [(statement, {})])
            except Exception as error:
                if not any(each in str(error) for each in _EXISTS):
                    raise

    async def require_read_only(self, graph: str) -> None:
        """GRAPH.RO_QUERY is what it is."""

    async def erase(self, graph: str) -> bool:
        """Also from what it notes of slow queries, and from its files."""

        def do() -> bool:
            client = self._client(self._address.user, WRITE_SECONDS)
            with suppress(redis.ResponseError):
                client.select_graph(graph).slowlog_reset()
            connection = client.connection
            with suppress(redis.ResponseError):
                connection.slowlog_reset()
            return _rewritten(connection)

        return await self._told(do)

    async def drop(self, graph: str) -> None:
        def do() -> None:
            try:
                self._client(self._address.user, WRITE_SECONDS).select_graph(graph).delete()
            except redis.ResponseError as error:
                if _NO_GRAPH not in str(error):
                    raise

        await self._told(do)

    async def close(self) -> None:
        for client in self._clients.values():
            client.connection.close()
        self._clients.clear()

    async def _told(self, do: Callable[[], T]) -> T:
        try:
            return await self._asked(do)
        except redis.ResponseError as error:
            raise refused("falkordb", error) from error

    async def _asked(self, do: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(do)
        except redis.AuthenticationError as error:
            raise refused("falkordb", error) from error
        except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
            raise away(self._address.shown, error) from error

    def _client(self, user: str, seconds: float) -> falkordb.FalkorDB:
        found = self._clients.get((user, seconds))
        if found is None:
            parts = urlsplit(self._address.url)
            is_reader = bool(self._address.reader) and user == self._address.reader
            password = self._address.reader_password if is_reader else self._address.password
            found = self._clients[user, seconds] = falkordb.FalkorDB(
                host=parts.hostname or "",
                port=parts.port or _PORT,
                username=user or None,
                password=password or None,
                ssl=parts.scheme == "falkors",
                ssl_check_hostname=parts.scheme == "falkors",
                socket_timeout=seconds,
                socket_connect_timeout=_ANSWER_SECONDS,
                client_name="tallystick",
            )
        return found


def _rewritten(connection: Any) -> bool:
    """Whether its files on disk are as new as its memory. An account that may not ask leaves that to the operator."""
    try:
        said = connection.info("persistence")
        if said.get("aof_rewrite_in_progress") or said.get("rdb_bgsave_in_progress"):
            return False
        if said.get("aof_enabled"):
            connection.bgrewriteaof()
        if connection.config_get("save").get("save"):
            connection.save()
    except redis.ResponseError:
        pass
    return True


def _plain(value: Any) -> Any:
    if isinstance(value, falkordb.Node | falkordb.Edge):
        return dict(value.properties or {})
    if isinstance(value, falkordb.Path):
        nodes, edges = value.nodes(), value.edges()
        return [_plain(each) for pair in zip(nodes, edges, strict=False) for each in pair] + [_plain(nodes[-1])]
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
