"""What it costs to begin: a server's start to its first answer, what an agent reads before it can, an idle tenant."""

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from bench import Row, say
from bench.bases import fill, note
from bench.peers import HERE, NODE
from bench.processes import command_line, resident_bytes, tallystick
from bench.talking import Lines
from tallystick.app import opened
from tallystick.config import Settings
from tallystick.engine.store import Store
from tallystick.policy import Principal
from tallystick.server.dispatch import BYTES_PER_TOKEN, prepare
from tallystick.toolsets.memory import TOOLSET

CPU_TARGET = 0.6
WALL_TARGET = 1.0
TOKENS_TARGET = 3_600


def run(quick: bool = False) -> list[Row]:
    nodes, times, tenants = (2_000, 2, 20) if quick else (100_000, 7, 500)
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as folder:
        return [
            *_starts(Path(folder), nodes, times),
            *_listing(Path(folder) / "listing"),
            *_tenants(Path(folder) / "tenants", tenants),
        ]


# -- start


class Start(msgspec.Struct, frozen=True):
    wall: float
    cpu: float


def _starts(folder: Path, nodes: int, times: int) -> list[Row]:
    say("starts on an empty base")
    empty = [_start(folder / f"empty-{number}", "note-0") for number in range(times)]
    base = folder / "large"
    say(f"filling {nodes:,} nodes")
    fill(base, map(note, range(nodes)))
    subprocess.run(command_line("snapshot", base), check=True, stdout=subprocess.DEVNULL)
    _settle(base)
    say(f"starts on {nodes:,} nodes")
    large = [_start(base, f"note-{number}") for number in range(times)]
    bare = _bare_python(times)
    return [
        Row(
            "start to the first answer, empty: CPU",
            _middle(empty).cpu,
            "s",
            CPU_TARGET,
            "less",
            bare.cpu,
            "bare Python",
        ),
        Row("start to the first answer, empty: wall", _middle(empty).wall, "s"),
        Row(f"start to the first answer, {nodes:,} nodes and a snapshot: wall", _middle(large).wall, "s", WALL_TARGET),
        Row(f"start to the first answer, {nodes:,} nodes and a snapshot: CPU", _middle(large).cpu, "s"),
    ]


def _start(base: Path, entity_id: str) -> Start:
    """Until the first tool has answered, as an MCP client starts it."""
    started = time.perf_counter()
    with tallystick(base) as server:
        lines = Lines(server)
        lines.begin()
        lines.call("memory.read", {"entity_id": entity_id})
        return Start(time.perf_counter() - started, server.cpu_seconds)


def _settle(base: Path) -> None:
    """Let the views and indexes be made once, so that no start is measured beside that."""
    with tallystick(base) as server:
        Lines(server).begin()
        server.settle()


def _bare_python(times: int) -> Start:
    """An interpreter with nothing in it but asyncio: no Python server starts sooner."""
    taken = []
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import asyncio, json"], check=True)
        wall = time.perf_counter() - started
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(Start(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    return _middle(taken)


def _middle(starts: list[Start]) -> Start:
    return Start(statistics.median(start.wall for start in starts), statistics.median(start.cpu for start in starts))


# -- what an agent reads


def _listing(base: Path) -> list[Row]:
    say("the list of tools")
    with tallystick(base) as server:
        lines = Lines(server)
        lines.begin()
        tools = lines.list_tools()
    texts = [json.dumps(tool, separators=(",", ":"), ensure_ascii=False) for tool in tools]
    # What a model is shown of a tool: clients keep the rest to themselves.
    shown = [
        json.dumps(
            {key: tool[key] for key in ("name", "description", "inputSchema")},
            separators=(",", ":"),
            ensure_ascii=False,
        )
        for tool in tools
    ]
    counted, how = _tokens(texts + shown)
    whole, seen = counted[: len(texts)], counted[len(texts) :]
    rows = [
        Row(f"tools/list of the default toolsets, {len(tools)} tools: {how}", sum(whole), "tokens"),
        Row(f"of these name, description and input schema: {how}", sum(seen), "tokens", TOKENS_TARGET),
        Row("tools/list of the default toolsets", sum(map(len, map(str.encode, texts))), "bytes"),
    ]
    return rows + [
        Row(f"name, description and input schema of {tool['name']}", count, "tokens")
        for tool, count in zip(tools, seen, strict=True)
    ]


_COUNT = """
import { getEncoding } from "js-tiktoken";
const texts = JSON.parse(await new Response(process.stdin).text());
const encoding = getEncoding("o200k_base");
console.log(JSON.stringify(texts.map((text) => encoding.encode(text).length)));
"""


def _tokens(texts: list[str]) -> tuple[list[float], str]:
    """By a real tokenizer if it is installed, else by the estimate that answers are limited by."""
    if not (HERE / "node_modules/js-tiktoken").exists():
        return [len(text.encode()) / BYTES_PER_TOKEN for text in texts], "estimated"
    command = [str(NODE), "--input-type=module", "-e", _COUNT]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=True, cwd=HERE)
    counted: list[float] = json.loads(done.stdout)
    return counted, "o200k_base"


# -- an idle tenant


def _tenants(base: Path, tenants: int) -> list[Row]:
    say(f"{tenants} tenants in one process")
    # In a process of its own, so that the memory it takes is seen.
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        rows: list[Row] = pool.apply(_measure_tenants, (base, tenants))
        return rows


def _measure_tenants(base: Path, tenants: int) -> list[Row]:
    return asyncio.run(_open_and_close(base, tenants))


async def _open_and_close(base: Path, tenants: int) -> list[Row]:
    settings = Settings(
        base=base, issuers=("http://127.0.0.1",), policy="rbac", tenants_open_max=10 * tenants, tenant_idle_seconds=3600
    )
    write = TOOLSET.tools[0]

    async def use(store: Store, name: str) -> None:
        principal = Principal(actor="ada", tenant=name, roles=("writer",), tool=write.name)
        for number in range(10):
            said = {"op": "UPSERT_NODE", "node": note(number).payload}
            await write.call(store, principal, prepare(write, said))

    async with opened(settings) as store:
        # What the first use of anything loads is nobody's share.
        for number in range(5):
            await use(store, f"first-{number}")
        gc.collect()
        before = resident_bytes()
        for number in range(tenants):
            await use(store, f"tenant-{number}")
        gc.collect()
        held = resident_bytes() - before
        await store.tenants.close()
        gc.collect()
        left = resident_bytes() - before
    return [
        Row("an idle tenant of ten 1 KB nodes, open: memory", held / tenants / 1024, "KB"),
        Row("the same, closed when idle: memory", max(left, 0) / tenants / 1024, "KB"),
    ]
