"""The drill of docs/runbooks/take-over.md, with real servers: one is killed, its copy takes over, clients go on."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mcp.client import Client

from tallystick.extensions.backup.targets import read_targets
from tallystick.log.unopened import unopened
from tests import timeouts
from tests.command_line import CommandLine
from tests.mcp_client import call, connect, kill_server, refused, start_http, stopping
from tests.nats_cluster import running
from tests.promises import promise
from tests.timeouts import wait_until


def run(*words: object) -> dict[str, object]:
    command = [sys.executable, "-m", "tallystick", *map(str, words), "--json"]
    done = subprocess.run(command, capture_output=True, timeout=timeouts.SECONDS, check=False)
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, object] = json.loads(done.stdout)
    return found


def settings(base: Path, url: str) -> None:
    base.mkdir(exist_ok=True)
    (base / "tallystick.toml").write_text(f'backup_to = "{url}"\nbackup_every = 1\n')


def write(node_id: str) -> dict[str, Any]:
    return {"op": "UPSERT_NODE", "node": {"id": node_id, "type": "note", "attrs": {}}, "nonce": f"nonce-{node_id}"}


@promise("§5.4, take over", "a killed memory goes on from its copy, and is stopped when it comes back")
async def test_a_killed_memory_goes_on_from_its_copy_and_is_stopped_when_it_comes_back(tmp_path: Path) -> None:
    old, copy, url = tmp_path / "old", tmp_path / "copy", f"file://{tmp_path}/store"
    settings(old, url)
    settings(copy, url)
    # The client of a server that is killed notices, each in its own way.
    with suppress(BaseException):
        async with connect(old, agent="primary") as server:
            for number in range(5):
                await call(server, "memory.write", **write(f"n{number}"))
            await asyncio.to_thread(wait_until, lambda: backed_up(old, url) == 5)
            kill_server(old, "primary")
    assert backed_up(old, url) == 5
    await asyncio.to_thread(run, "follow", url, "--once", "--base", copy)
    async with connect(copy, agent="primary") as reader:
        assert (await call(reader, "memory.read", entity_id="n4"))["entity"]["id"] == "n4"
        assert (await refused(reader, "memory.write", **write("n5")))["error"] == "IS_REPLICA"
        promoted = await asyncio.to_thread(run, "promote", "--base", copy)
        assert promoted["positions"] == {"default": 5}
        # The same server, without a restart; what the client is not sure of is not written twice.
        await call(reader, "memory.write", **write("n5"))
        assert (await call(reader, "memory.write", **write("n4")))["duplicate"] is True
    assert CommandLine(copy).run("verify", "--json").json["commits"] == 6
    async with connect(old) as returned:
        await asyncio.to_thread(wait_until, (old / "_system" / "replica.json").exists)
        assert (await refused(returned, "memory.write", **write("lost")))["error"] == "TAKEN_OVER"


def backed_up(base: Path, url: str) -> int:
    kept = read_targets(base).get(url)
    return kept.kept[-1].tenants["default"][1] if kept and kept.kept else 0


@promise("§5.4, take over a stream", "a copy that follows takes over without a loss, and no machine writes there")
async def test_a_copy_of_a_stream_takes_over_without_a_loss_and_stops_the_machines_that_are_left(
    tmp_path: Path,
) -> None:
    copy = tmp_path / "copy"
    with running(tmp_path / "nats") as servers:
        given = {"TALLYSTICK_LOG_URL": servers.url, "TALLYSTICK_LOG_REPLICAS": "1", "TALLYSTICK_LOG_SYNC": "unchecked"}
        one, two = (start_http(tmp_path / name, environ=given) for name in ("one", "two"))
        with ended(one.process), stopping(two):
            async with Client(one.mcp_url) as client:
                for number in range(5):
                    await call(client, "memory.write", **write(f"n{number}"))
            with ended(start_following(servers.url, copy)):
                await asyncio.to_thread(wait_until, lambda: position(copy) == 5)
                async with Client(two.mcp_url) as client:
                    await call(client, "memory.write", **write("n5"))
                await asyncio.to_thread(wait_until, lambda: position(copy) == 6)
            one.process.kill()
            with stopping(start_http(copy)) as reader:
                async with Client(reader.mcp_url) as client, Client(two.mcp_url) as left:
                    await call(left, "memory.write", **write("n6"))
                    assert (await call(client, "memory.read", entity_id="n5"))["entity"]["id"] == "n5"
                    assert (await refused(client, "memory.write", **write("n7")))["error"] == "IS_REPLICA"
                    promoted = await asyncio.to_thread(run, "promote", "--base", copy)
                    assert promoted["positions"] == {"default": 7}
                    await call(client, "memory.write", **write("n7"))
                    assert (await call(client, "memory.write", **write("n6")))["duplicate"] is True
                    assert (await refused(left, "memory.write", **write("lost")))["error"] == "TAKEN_OVER"
                    assert (await call(left, "memory.read", entity_id="n6"))["entity"]["id"] == "n6"
    assert CommandLine(copy).run("verify", "--json").json["commits"] == 8


def start_following(url: str, base: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tallystick", "follow", url, "--base", str(base), "--every", "0.5"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.kill()
        process.wait(timeouts.SECONDS)


def position(base: Path) -> int:
    with unopened(base / "_system") as log:
        return log.head.lamport
