"""What a tenant feels of the worst that its neighbour can do: p95 of its point reads over HTTP, beside each of them.

Two tenants of one server, told apart by their tokens. The neighbour repeats one kind of call from twelve connections,
in a process of its own; the bystander reads one entity after the other. Another window of the neighbour itself is
measured too.

A redaction and a deletion happen once. Beside each, both tenants read for as long as it takes, through the server that
carries it out and through a second one on the same base. Their longest read is a figure too: while a draft is applied
the reads of its tenant wait for it, since they must see all of it or nothing.
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import msgspec

from bench import Row, percentile, say
from bench.doors import Issuer, issuer_on_this_machine
from bench.processes import tallystick_http

TARGET_MS = 50.0
CLIENTS = 12
BYSTANDER, NEIGHBOUR = "bystander", "neighbour"
_NODE_BYTES = 1_000_000
_OPS = 1_000
_READS_BEFORE, _READS_AT_ONCE = 20, 10

Call = tuple[str, dict[str, Any]]

_ACTS: dict[str, Call] = {
    "a redaction of many commits": ("memory.write", {"op": "REDACT_NODE", "node_id": "often", "reason": "measured"}),
    "a deletion of a hub": ("memory.write", {"op": "DELETE_NODE", "node_id": "hub", "reason": "measured"}),
}


class Sizes(msgspec.Struct, frozen=True):
    large: int
    """Entities of a megabyte each."""
    commits: int
    """Of one entity."""
    edges: int
    """Of one entity."""
    reads: int


QUICK, FULL = Sizes(24, 2_000, 2_000, 50), Sizes(144, 20_000, 50_000, 400)


def run(quick: bool = False) -> list[Row]:
    sizes = QUICK if quick else FULL
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as folder, issuer_on_this_machine() as issuer:
        team = {"issuers": issuer.url, "audience": "memory", "policy": "rbac", "quota_reads": 0, "quota_writes": 0}
        with tallystick_http(Path(folder), body_bytes_max=32 << 20, **team) as server, ExitStack() as running:
            _fill(server.port, issuer, sizes)
            server.settle(share=0.2)
            rows = [_quiet(server.port, issuer, sizes)]
            for name, calls in _scenarios(sizes).items():
                say(name)
                with _beside(server.port, issuer.token(NEIGHBOUR), calls):
                    rows += [_felt(server.port, issuer, tenant, name, sizes.reads) for tenant in (BYSTANDER, NEIGHBOUR)]
            second = running.enter_context(tallystick_http(Path(folder), **team))
            for name, call in _ACTS.items():
                say(name)
                rows += _felt_of_act(server.port, second.port, issuer, name, call)
            rows.append(Row("memory of the server afterwards", server.resident_bytes / 1e6, "MB"))
    return rows


def _scenarios(sizes: Sizes) -> dict[str, list[Call]]:
    search, wide = "memory.search", {"limit": 1_000}
    writes = [_upsert(f"written-{number}", "Written", number=number) for number in range(_OPS)]
    return {
        "searches of megabytes": [(search, {"type": "Large", **wide})],
        "an expression on everything": [(search, {"attrs": {"text": {"regex": "z(a|b)+[^c]{20}q$"}}, **wide})],
        "words in large values": [(search, {"query": "otter river", **wide})],
        "walks through a hub": [(search, {"id": "hub", "traversal": {"hops": 3}, **wide})],
        "a lineage of many commits": [("memory.lineage", {"entity_id": "often", "limit": 1_000})],
        "a lineage of a hub": [("memory.lineage", {"entity_id": "hub", "depth": "full", "limit": 1_000})],
        "facets": [(search, {"facets": True})],
        "writes of a thousand operations": [("memory.write", {"ops": writes})],
    }


def _upsert(node_id: str, kind: str, **attrs: object) -> dict[str, Any]:
    return {"op": "UPSERT_NODE", "node": {"id": node_id, "type": kind, "attrs": attrs}}


# -- what is there


def _fill(port: int, issuer: Issuer, sizes: Sizes) -> None:
    say("filling two tenants")
    bystander, neighbour = (_Client(port, issuer.token(tenant)) for tenant in (BYSTANDER, NEIGHBOUR))
    for client in (bystander, neighbour):
        client.write([_upsert(f"n{number}", "Note", text=f"note {number}") for number in range(_OPS)])
    body = "otter river " * (_NODE_BYTES // 12)
    for number in range(sizes.large):
        neighbour.write([_upsert(f"large-{number}", "Large", text=body)])
    for start in range(0, sizes.commits, _OPS):
        neighbour.write([_upsert("often", "Often", number=start + number) for number in range(_OPS)])
    neighbour.write([_upsert("hub", "Hub", name="hub")])
    for start in range(0, sizes.edges, _OPS // 2):
        parts = range(start, start + _OPS // 2)
        edges = [
            {"op": "UPSERT_EDGE", "edge": {"from": "hub", "rel": "has", "to": f"part-{number}"}} for number in parts
        ]
        neighbour.write([*(_upsert(f"part-{number}", "Part", number=number) for number in parts), *edges])


class _Client:
    def __init__(self, port: int, token: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        self._headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}

    def write(self, ops: list[dict[str, Any]]) -> None:
        status, body = self.call("memory.write", {"ops": ops})
        assert status == 200, body[:300]

    def call(self, tool: str, arguments: dict[str, Any]) -> tuple[int, bytes]:
        self._connection.request("POST", f"/v1/tools/{tool}", json.dumps(arguments), self._headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()


# -- what is felt of it


@contextmanager
def _beside(port: int, token: str, calls: list[Call]) -> Iterator[None]:
    """Repeat the calls from several connections until the measurement is over."""
    context = multiprocessing.get_context("spawn")
    ended = context.Event()
    process = context.Process(target=_repeat, args=(port, token, calls, ended), daemon=True)
    process.start()
    # Until all of them are under way.
    time.sleep(3)
    try:
        yield
    finally:
        ended.set()
        process.join(120)


def _repeat(port: int, token: str, calls: list[Call], ended: Event) -> None:
    def work() -> None:
        client = _Client(port, token)
        while not ended.is_set():
            for tool, arguments in calls:
                client.call(tool, arguments)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    ended.wait()


def _quiet(port: int, issuer: Issuer, sizes: Sizes) -> Row:
    taken = _read(_Client(port, issuer.token(BYSTANDER)).call, sizes.reads)
    return Row("reads beside nothing, p95", percentile(taken, 95) * 1e3, "ms")


def _felt(port: int, issuer: Issuer, tenant: str, name: str, reads: int) -> Row:
    taken = _read(_Client(port, issuer.token(tenant)).call, reads)
    who = "another tenant" if tenant == BYSTANDER else "another window"
    return Row(f"beside {name}, {who}: reads, p95", percentile(taken, 95) * 1e3, "ms", TARGET_MS)


def _felt_of_act(port: int, second: int, issuer: Issuer, name: str, act: Call) -> list[Row]:
    readers = {
        f"beside {name}, {who}{where}": _Reader(_Client(at, issuer.token(tenant)))
        for at, where in ((port, ""), (second, " of a second server"))
        for tenant, who in ((BYSTANDER, "another tenant"), (NEIGHBOUR, "another window"))
    }
    status, body = _Client(port, issuer.token(NEIGHBOUR)).call(*act)
    assert status == 200, body[:300]
    return [
        row
        for beside, reader in readers.items()
        for taken in [reader.end()]
        for row in (
            Row(f"{beside}: reads, p95", percentile(taken, 95) * 1e3, "ms", TARGET_MS),
            Row(f"{beside}: the longest read", max(taken) * 1e3, "ms"),
        )
    ]


class _Reader:
    """Reads in a thread, from before the act until after it."""

    def __init__(self, client: _Client) -> None:
        self._client = client
        self._ended = threading.Event()
        # The first reads bring the state to the head.
        _read(client.call, _READS_BEFORE)
        self._taken: list[float] = []
        self._thread = threading.Thread(target=self._go_on)
        self._thread.start()

    def end(self) -> list[float]:
        # A second server may still apply what it has just seen.
        self._ended.set()
        self._thread.join()
        return self._taken

    def _go_on(self) -> None:
        while not self._ended.is_set():
            self._taken += _read(self._client.call, _READS_AT_ONCE)


def _read(call: Callable[[str, dict[str, Any]], tuple[int, bytes]], reads: int) -> list[float]:
    taken = []
    for number in range(reads):
        started = time.perf_counter()
        status, body = call("memory.read", {"entity_id": f"n{number % _OPS}"})
        taken.append(time.perf_counter() - started)
        assert status == 200, body[:300]
    return taken
