"""What a point read costs at each door, beside the plain SDK and beside the least that HTTP can cost; and the gate.

Server CPU for each call, with a few clients at a time on connections that stay open.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from joserfc import jwt
from joserfc.jwk import RSAKey

from bench import Row, percentile, say
from bench.bases import fill, note
from bench.processes import Server, module, tallystick, tallystick_http
from bench.talking import MODERN, Lines, Question, Speaker, Talked, call_line, rpc, speak, talk
from tallystick.server.oauth.guard import build_admission

CLIENTS = 8
NODES = 1_000
TURNS = 3
PAIRS = 11
CPU_TARGET = 150.0
TIMES_SDK = 4.0
GATE_PERCENT = 15.0
TOKEN_TARGET = 5.0
SDK, BARE = "plain SDK", "bare reply"


def run(quick: bool = False) -> list[Row]:
    each = 50 if quick else 1_000
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as folder, ExitStack() as running:
        doors = _opened(Path(folder), running)
        taken: dict[str, list[Cost]] = {name: [] for name in doors}
        # In turns, so that what else goes on in the machine meets all of them.
        for turn in range(TURNS):
            say(f"every door, {turn + 1} of {TURNS}")
            for name, door in doors.items():
                taken[name].append(door(each))
        costs = {name: _least(several) for name, several in taken.items()}
        ratios = [
            Row(
                "calls for each CPU second, times the plain SDK's",
                _middle_ratio(doors["sdk"], doors["mcp"], each // 2),
                "×",
                TIMES_SDK,
                "more",
            ),
            Row(
                "what the gate adds to a point read",
                max(_middle_ratio(doors["gate"], doors["mcp"], each) - 1, 0.001) * 100,
                "%",
                GATE_PERCENT,
            ),
        ]
    return [*_rows(costs), *ratios, _token_checked(200 if quick else 20_000)]


def _middle_ratio(one: Door, other: Door, each: int) -> float:
    """Turns differ by a fifth here, so the middle of many pairs, each taken at one time."""
    say(f"two doors in turns, {PAIRS} times")
    return median(one(each).cpu / other(each).cpu for _ in range(PAIRS))


class Cost(msgspec.Struct, frozen=True):
    cpu: float
    p50: float
    """Both in microseconds."""


def _least(costs: list[Cost]) -> Cost:
    """What else goes on in the machine can only add to it."""
    return min(costs, key=lambda cost: cost.cpu)


Door = Callable[[int], Cost]
"""Measures so many calls by each client."""


def _opened(folder: Path, running: ExitStack) -> dict[str, Door]:
    """All servers at once: one that is not asked takes no CPU."""
    base, gated = folder / "base", folder / "gated"
    for place in (base, gated):
        fill(place, (note(number, body_bytes=200) for number in range(NODES)))
    issuer = running.enter_context(issuer_on_this_machine())
    token = issuer.token()
    team = {"issuers": issuer.url, "audience": "memory", "policy": "rbac", "quota_reads": 0, "quota_writes": 0}
    ours = running.enter_context(tallystick_http(base))
    guarded = running.enter_context(tallystick_http(gated, **team))
    answers = folder / "answers.json"
    _save_answers(ours.port, answers)
    long_way, sdk, sdk_here, bare = (
        running.enter_context(module("bench.plain", kind, str(place)))
        for kind, place in (("long", base), ("sdk", answers), ("sdk-here", answers), ("bare", answers))
    )
    return {
        "mcp": partial(_over_http, ours, lambda: _in_session(ours.port)),
        "modern": partial(_over_http, ours, lambda: _without_session(ours.port)),
        "rest": partial(_over_http, ours, lambda: _by_rest(ours.port)),
        "gate": partial(_over_http, guarded, lambda: _in_session(guarded.port, token)),
        "long": partial(_over_http, long_way, lambda: _in_session(long_way.port)),
        "sdk": partial(_over_http, sdk, lambda: _in_session(sdk.port)),
        "sdk here": partial(_over_http, sdk_here, lambda: _in_session(sdk_here.port)),
        "mcp alone": partial(_over_http, ours, lambda: _in_session(ours.port), clients=1),
        "sdk alone": partial(_over_http, sdk, lambda: _in_session(sdk.port), clients=1),
        "bare": partial(_over_http, bare, lambda: _at_once(bare.port)),
        "stdio": _stdio(running.enter_context(tallystick(base))),
    }


def _over_http(
    server: Server, begin: Callable[[], Callable[[int], Question]], each: int, *, clients: int = CLIENTS
) -> Cost:
    talk(server.port, speak(clients, max(each // 10, 10), begin))
    server.settle(seconds=0.2)
    scripts = speak(clients, each, begin)
    found: list[Talked] = []
    cpu = server.cpu_of(lambda: found.append(talk(server.port, scripts)))
    return Cost(cpu / found[0].count * 1e6, percentile(found[0].taken["read"], 50) * 1e6)


def _in_session(port: int, token: str | None = None) -> Callable[[int], Question]:
    speaker = Speaker.in_session(port, token)
    return lambda number: speaker.call("read", "memory.read", _asked(number), number)


def _without_session(port: int) -> Callable[[int], Question]:
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "memory.read"}
    speaker = Speaker(port, "/mcp", headers)
    who = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }

    def ask(number: int) -> Question:
        params = {"name": "memory.read", "arguments": _asked(number), "_meta": who}
        return speaker.question("read", rpc(number, "tools/call", params))

    return ask


def _by_rest(port: int) -> Callable[[int], Question]:
    speaker = Speaker.of_rest(port, "memory.read")
    return lambda number: speaker.question("read", json.dumps(_asked(number)).encode())


def _at_once(port: int) -> Callable[[int], Question]:
    speaker = Speaker(port, "/mcp")
    return lambda number: speaker.call("read", "memory.read", _asked(number), number)


def _asked(number: int) -> dict[str, Any]:
    return {"entity_id": f"note-{number % NODES}"}


def _save_answers(port: int, file: Path) -> None:
    """What ours says, so that the references say as much."""
    speaker = Speaker.of_rest(port, "memory.read")
    told = {f"note-{n}": json.loads(speaker.post(json.dumps(_asked(n)).encode())[0]) for n in range(NODES)}
    file.write_text(json.dumps(told))


def _stdio(server: Server) -> Door:
    lines = Lines(server)
    lines.begin()

    def measure(each: int) -> Cost:
        ready = [call_line(number, "memory.read", _asked(number)) for number in range(CLIENTS * each)]
        lines.time_calls(ready[:each], seconds=60)
        server.settle(seconds=0.2)
        taken: list[float] = []
        cpu = server.cpu_of(lambda: taken.extend(lines.time_calls(ready, seconds=60)))
        return Cost(cpu / len(taken) * 1e6, percentile(taken, 50) * 1e6)

    return measure


# -- the gate


class Issuer:
    def __init__(self, url: str) -> None:
        self.url = url
        self._key = RSAKey.generate_key(2048, parameters={"kid": "one"})

    def token(self, tenant: str | None = None) -> str:
        """For a reader of the default tenant; for an administrator of another."""
        now = int(time.time())
        claims = {"iss": self.url, "sub": "ada", "aud": "memory", "iat": now, "exp": now + 3600, "roles": ["reader"]}
        if tenant is not None:
            claims |= {"tenant_id": tenant, "roles": ["admin"]}
        return jwt.encode({"alg": "RS256", "kid": "one", "typ": "at+jwt"}, claims, self._key)

    def answer(self, path: str) -> dict[str, Any] | None:
        if path == "/jwks":
            return {"keys": [self._key.as_dict(private=False)]}
        is_metadata = path.startswith("/.well-known/")
        return {"issuer": self.url, "jwks_uri": f"{self.url}/jwks"} if is_metadata else None


@contextmanager
def issuer_on_this_machine() -> Iterator[Issuer]:
    class Door(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = issuer.answer(self.path)
            body = json.dumps(found).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    issuer = Issuer(f"http://127.0.0.1:{server.server_port}")
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        serving.join()


def _token_checked(count: int) -> Row:
    async def measure(issuer: Issuer) -> float:
        admission = build_admission([issuer.url], public_url="http://127.0.0.1", audience=["memory"])
        headers = [(b"authorization", f"Bearer {issuer.token()}".encode())]
        async with admission.run():
            await admission.admit(headers)
            rounds = []
            for _ in range(5):
                started = time.perf_counter()
                for _ in range(count):
                    await admission.admit(headers)
                rounds.append((time.perf_counter() - started) / count)
            return min(rounds)

    with issuer_on_this_machine() as issuer:
        return Row("a token that was checked before", asyncio.run(measure(issuer)) * 1e6, "µs", TOKEN_TARGET)


# -- the rows


def _rows(costs: dict[str, Cost]) -> list[Row]:
    sdk, bare = costs["sdk"].cpu, costs["bare"].cpu
    ours, gate = costs["mcp"], costs["gate"]
    told = [
        ("MCP over HTTP, in a session", ours, CPU_TARGET),
        ("MCP over HTTP, without a session", costs["modern"], CPU_TARGET),
        ("REST", costs["rest"], CPU_TARGET),
        ("stdio", costs["stdio"], None),
        ("MCP over HTTP, gated: tokens, roles, audit", gate, None),
        ("MCP over HTTP, our tools the SDK's way, without the fast path", costs["long"], None),
        ("the plain SDK over HTTP, from a dict", costs["sdk"], None),
        ("the same behind our HTTP", costs["sdk here"], None),
        ("a bare reply of the same bytes", costs["bare"], None),
    ]
    rows = [Row(f"{what}: CPU", cost.cpu, "µs", target, "less", sdk, SDK) for what, cost, target in told]
    alone, sdk_alone = costs["mcp alone"].cpu, costs["sdk alone"].cpu
    rows.append(Row("MCP over HTTP, in a session, one client: CPU", alone, "µs", CPU_TARGET, "less", sdk_alone, SDK))
    rows += [
        Row(f"{what}: p50, {CLIENTS} clients", cost.p50, "µs") for what, cost, _ in told if cost is not costs["stdio"]
    ]
    rows.append(Row("stdio: p50, one client", costs["stdio"].p50, "µs"))
    return [
        *rows,
        Row("CPU of a call, times a bare reply's", ours.cpu / bare, "×"),
    ]
