"""What the pages cost at a size: the first byte of each, the server's work for it, and pages that go on listening."""

from __future__ import annotations

import http.client
import json
import resource
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from bench import Row, percentile, say
from bench.bases import fill
from bench.processes import Server, tallystick_http
from bench.text import text_of
from tallystick.commits import Operation, Verb

if TYPE_CHECKING:
    from tests.browser.harness import Visit

FIRST_BYTE_MS = 50.0
USABLE_MS = 1000.0
STREAMS_MB = 100.0
STREAM_TURNS = 6
TYPES = 20
PEOPLE = 50
TASKS = 200
PAGES = {
    "/": "/",
    "/search": "/search?q=refunds",
    "/search, rare words": "/search?q={rare}",
    "/search without words": "/search",
    "/entities/…": "/entities/note-7",
    "/entities/… with many edges": "/entities/person-3",
    "/graph": "/graph",
    "/graph around an entity": "/graph?around=note-7&hops=2",
    "/graph of a type": "/graph?type=Note7",
    "/graph of a relation": "/graph?relation=by",
    "/work": "/work",
    "/work, a project": "/work?project=refunds",
    "/knowledge": "/knowledge",
    "/audit": "/audit",
    "/policy": "/policy",
    "/governance": "/governance",
    "/operations": "/operations",
}


def run(quick: bool = False) -> list[Row]:
    entities, turns, streams = (2_000, 5, 100) if quick else (100_000, 30, 1_000)
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as folder:
        say(f"filling {entities:,} entities")
        fill(Path(folder), _memory(entities))
        # Half of what may be connected may listen, and half of that one person alone.
        with tallystick_http(Path(folder), toolsets="all", http_connections_max=4 * streams + 64) as server:
            _plan(server, TASKS)
            # The first look begins a verification of the whole log.
            _page(server, "/", 1)
            server.settle()
            rows = [row for name in PAGES for row in _page(server, name, turns)]
            rows += _usable(server, turns // 3)
            rows += _streams(server, streams)
    return rows + _opened_at(20_000 if quick else 1_000_000, turns)


def _opened_at(entities: int, turns: int) -> list[Row]:
    """The first page of a memory that is so large that projections are still far behind when somebody looks."""
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as folder:
        say(f"filling {entities:,} entities")
        fill(Path(folder), _notes(entities))
        say("starting")
        with tallystick_http(Path(folder), toolsets="all") as server:
            rows = _page(server, "/", turns)
    return [row._replace(what=f"{entities:,} entities, just started: {row.what}", target=None) for row in rows]


def _notes(entities: int) -> Iterator[Operation]:
    for number in range(entities):
        said = {"title": f"What was found out on day {number}", "day": number % 365}
        yield Operation(Verb.UPSERT_NODE, {"id": f"note-{number}", "type": f"Note{number % TYPES}", "attrs": said})


def _memory(entities: int) -> Iterator[Operation]:
    for number in range(PEOPLE):
        attrs = {"name": f"Person {number}"}
        yield Operation(Verb.UPSERT_NODE, {"id": f"person-{number}", "type": "Person", "attrs": attrs})
    for number in range(entities - PEOPLE):
        said = {"title": f"What was found out on day {number}", "day": number % 365, "body": _body(number)}
        yield Operation(Verb.UPSERT_NODE, {"id": f"note-{number}", "type": f"Note{number % TYPES}", "attrs": said})
        for relation, target in (("by", f"person-{number % PEOPLE}"), ("after", f"note-{number // 2}")):
            yield Operation(Verb.UPSERT_EDGE, {"from": f"note-{number}", "rel": relation, "to": target})


def _body(number: int) -> str:
    return f"{text_of(number)[:200]} {'refunds' if number % 10 == 0 else ''}"


def _plan(server: Server, tasks: int) -> None:
    root = _call(server, "graph_open", project="refunds", goal="Refunds that cannot happen twice")["root"]["id"]
    nodes = [
        {
            "ref": f"task-{number}",
            "parent_ref": root if number < 10 else f"task-{number % 10}",
            "summary": f"Task {number}",
            "depends_on": [f"task-{number - 10}"] if number >= 20 and number % 3 == 0 else [],
        }
        for number in range(tasks)
    ]
    _call(server, "graph_plan", nodes=nodes)


def _call(server: Server, tool: str, **arguments: object) -> dict:  # type: ignore[type-arg]  # it is JSON
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("POST", f"/v1/tools/{tool}", json.dumps(arguments), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    found = json.loads(answer.read())
    connection.close()
    assert answer.status == 200, found
    return found  # type: ignore[no-any-return]


def _page(server: Server, name: str, turns: int) -> list[Row]:
    say(name)
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    words = iter(text_of(number).split()[5] for number in range(10_000, 11_000))
    taken: list[tuple[float, float]] = []
    first = _open(connection, PAGES[name].format(rare=next(words)))
    cpu = server.cpu_of(
        lambda: taken.extend(_open(connection, PAGES[name].format(rare=next(words))) for _ in range(turns))
    )
    connection.close()
    return [
        Row(f"{name}: first byte, p50", percentile([each[0] for each in taken], 50) * 1e3, "ms"),
        Row(f"{name}: first byte, p95", percentile([each[0] for each in taken], 95) * 1e3, "ms", FIRST_BYTE_MS),
        Row(f"{name}: first byte, the first time", first[0] * 1e3, "ms"),
        Row(f"{name}: server CPU", cpu / turns * 1e3, "ms"),
    ]


def _usable(server: Server, turns: int) -> list[Row]:
    """Until a browser has run all scripts of a page and could begin to wait; nothing where there is no browser."""
    sys.path.append(str(Path(__file__).parents[1] / ".browser"))
    try:
        from tests.browser.harness import browsing

        with browsing() as browser, browser.visit(f"http://127.0.0.1:{server.port}") as visit:
            return [row for name in PAGES for row in _loaded(visit, name, turns)]
    except (ImportError, AssertionError) as error:
        say(f"no browser: {error}")
        return []


def _loaded(visit: Visit, name: str, turns: int) -> list[Row]:
    say(f"{name} in a browser")
    taken = []
    for _ in range(turns + 1):
        visit.open(PAGES[name].format(rare="refunds"))
        taken.append(float(visit.page.evaluate("performance.getEntriesByType('navigation')[0].loadEventStart")))
    rows = [Row(f"{name}: usable, p95", percentile(taken[1:], 95), "ms", USABLE_MS)]
    return [*rows, *_grown(visit, name, turns)] if visit.page.locator("[data-node]").count() else rows


def _grown(visit: Visit, name: str, turns: int) -> list[Row]:
    """The server's drawing is there with the page; WebGL begins with the first click."""
    taken = []
    for _ in range(turns):
        visit.open(PAGES[name])
        taken.append(float(visit.page.evaluate(_GROW)))
    return [Row(f"{name}: from a click to the drawing by WebGL, p95", percentile(taken, 95), "ms")]


# A click as the mouse makes it, until WebGL has drawn.
_GROW = """async () => {
  const begun = performance.now();
  const node = document.querySelector('[data-node]');
  node.dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true, detail: 1}));
  while (!document.querySelector('[data-drawn]')) await new Promise(requestAnimationFrame);
  return performance.now() - begun;
}"""


def _open(connection: http.client.HTTPConnection, address: str) -> tuple[float, float]:
    """Seconds to the first byte, and to the last."""
    started = time.perf_counter()
    connection.request("GET", address, headers={"Accept": "text/html"})
    answer = connection.getresponse()
    first = time.perf_counter() - started
    body = answer.read()
    assert answer.status == 200, (address, answer.status, body[:300])
    return first, time.perf_counter() - started


def _streams(server: Server, streams: int) -> list[Row]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, streams + 256)), hard))
    server.settle()
    before = server.resident_bytes
    held: list[float] = []
    for _ in range(STREAM_TURNS):
        with ExitStack() as opened:
            for _ in range(streams):
                _listen(opened, server.port)
            held.append((server.resident_bytes - before) / 1e6)
        server.settle()
    return [
        Row(f"{streams:,} event streams: more memory", held[0], "MB", STREAMS_MB),
        Row(f"{streams:,} event streams, opened {STREAM_TURNS} times: more memory", held[-1], "MB", STREAMS_MB),
    ]


def _listen(opened: ExitStack, port: int) -> None:
    stream = opened.enter_context(socket.create_connection(("127.0.0.1", port)))
    stream.sendall(f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: text/event-stream\r\n\r\n".encode())
    told = stream.recv(65_536)
    assert told.startswith(b"HTTP/1.1 200"), told
