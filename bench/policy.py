"""What it costs to be asked who you are: decisions in process and over HTTP, kept ones, narrowing, the audit log."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import uvloop

from bench import Row, percentile
from tallystick.audit import encode
from tallystick.audit.files import AuditFiles
from tallystick.audit.proof import verify_audit
from tallystick.audit.writer import AuditWriter
from tallystick.policy import Action, Principal, Request, ResourceFacts
from tallystick.policy.cache import Cache
from tallystick.policy.embedded import Embedded
from tallystick.policy.gate import Authorization, DecisionPending, Gate, event_of
from tallystick.policy.remote import Remote

ADA = Principal(actor="ada", roles=("reader", "writer"), tool="memory.read")
FACTS = ResourceFacts("note", "alice", "default")


def run(quick: bool = False) -> list[Row]:
    count = 300 if quick else 5_000
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as folder:
        rows = [*embedded(count), *asyncio.run(gated(Path(folder), count)), *audit(Path(folder), count)]
        return rows + remote(count // 5)


def embedded(count: int) -> list[Row]:
    rows = []
    for name in ("single-user", "rbac"):
        policy = Embedded(name)
        taken = [timed(partial(policy.decide, asked(number)), 1) for number in range(count)]
        rows.append(Row(f"decision in process, {name}, p95", percentile(taken, 95) * 1e3, "ms", 1))
    return rows


async def gated(folder: Path, count: int) -> list[Row]:
    audit = AuditWriter(lambda tenant: AuditFiles(folder / tenant))
    gate = Gate(Embedded("rbac"), audit=audit)

    async def through(resource: str) -> None:
        authorization = Authorization(gate, ADA, Action.READ, resource)

        async def look() -> None:
            authorization.decide(FACTS)

        await authorization.through(look)

    await through("plan")
    started = time.perf_counter()
    for _ in range(count):
        await through("plan")
    kept = (time.perf_counter() - started) / count
    things = [(f"n{number}", ("note", "ada")) for number in range(1000)]
    started = time.perf_counter()
    await narrow(gate, things)
    narrowed = time.perf_counter() - started
    started = time.perf_counter()
    await narrow(gate, things)
    again = time.perf_counter() - started
    audit.close()
    return [
        Row("through the gate, decision kept, audited", kept * 1e6, "µs", 15),
        Row("1,000 results narrowed, first time", narrowed * 1e3, "ms", 200),
        Row("1,000 results narrowed, again", again * 1e3, "ms", 20),
    ]


async def narrow(gate: Gate, things: list[tuple[str, tuple[str, str]]]) -> None:
    authorization = Authorization(gate, ADA, Action.SEARCH)

    async def look() -> None:
        unknown = [thing for thing in things if authorization.may_read(*thing) is None]
        if unknown:
            raise DecisionPending([authorization.read_question(*thing) for thing in unknown])

    await authorization.through(look)


def audit(folder: Path, count: int) -> list[Row]:
    decision = Embedded("rbac").decide(asked(0))
    directory = folder / "audit"
    audit_files = AuditFiles(directory)
    event = event_of(asked(0), decision, 0.1, False)
    batches = max(5, count // 200)
    alone = percentile([timed(lambda: audit_files.append([encode(event)]), 1) for _ in range(batches)], 50)
    together = timed(lambda: audit_files.append([encode(event) for _ in range(1000)]), batches)
    audit_files.close()
    started = time.perf_counter()
    proof = verify_audit(directory)
    proven = time.perf_counter() - started
    assert proof.sound
    return [
        Row("a denial made durable, p50", alone * 1e3, "ms"),
        Row("events written down, a thousand together", 1000 / together, "/s", 20_000, "more"),
        Row("events verified", proof.lines / proven, "/s"),
    ]


OPA = """
import asyncio
ANSWER = b'{"result":{"result":true,"reason":"yes","policy_version":"v1"}}'
WHOLE = b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n%b" % (len(ANSWER), ANSWER)
class Yes(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
    def data_received(self, data):
        if data.endswith(b"}}"):  # The question's end: it comes in one piece or two.
            self.transport.write(WHOLE)
async def main():
    server = await asyncio.get_running_loop().create_server(Yes, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""
"""A server that says yes as quickly as it can, in a process of its own: what is measured is our side."""


def remote(count: int) -> list[Row]:
    server = subprocess.Popen([sys.executable, "-c", OPA], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        taken = uvloop.run(asked_over(f"http://127.0.0.1:{int(server.stdout.readline())}", count))
    finally:
        server.kill()
        server.wait()
    return [Row("decision over HTTP on this machine, p95", percentile(taken, 95) * 1e3, "ms", 5)]


async def asked_over(url: str, count: int) -> list[float]:
    taken = []
    async with Remote(url, timeout_ms=5_000) as opa:
        gate = Gate(opa, cache=Cache(seconds=0))
        for number in range(count):
            started = time.perf_counter()
            await gate.ask(asked(number))
            taken.append(time.perf_counter() - started)
    return taken


def asked(number: int) -> Request:
    return Request(ADA, Action.READ, f"plan-{number}", "note", "alice", "default", "2025-01-04T12:00:00.000Z")


def timed(work: Callable[[], object], times: int) -> float:
    started = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - started) / times
