"""Several workers on one address, as clients and operators see them: real processes, killed for real."""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.command_line import CommandLine
from tests.mcp_client import ServerProcess, call, connect, serving_http, start_http, start_server
from tests.promises import promise
from tests.timeouts import wait_until


class Caller:
    """Every request over a connection of its own, so that any worker may get it; all in one session."""

    def __init__(self, server: ServerProcess) -> None:
        self._address = urlsplit(server.url).netloc
        self._headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "caller", "version": "1"}}
        headers, _ = self._post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
        self._headers["Mcp-Session-Id"] = headers["Mcp-Session-Id"]
        self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        _, told = self._post(asked)
        result: dict[str, Any] = json.loads(told)["result"]
        assert not result.get("isError"), result
        answer: dict[str, Any] = result["structuredContent"]
        return answer

    def get(self, path: str) -> tuple[int, str]:
        status, _, body = self._ask("GET", path)
        return status, body

    def _post(self, message: dict[str, Any]) -> tuple[http.client.HTTPMessage, str]:
        status, headers, body = self._ask("POST", "/mcp", json.dumps(message))
        assert status < 300, body
        return headers, body

    def _ask(self, method: str, path: str, body: str | None = None) -> tuple[int, http.client.HTTPMessage, str]:
        connection = http.client.HTTPConnection(self._address)
        try:
            connection.request(method, path, body, self._headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with serving_http(tmp_path / "memory", "--workers", "2") as server:
        yield server


def note(number: int) -> dict[str, Any]:
    return {"op": "UPSERT_NODE", "node": {"id": f"n{number}", "type": "note", "attrs": {"number": number}}}


def workers_of(server: ServerProcess) -> list[int]:
    """Their processes."""
    process = server.process.pid
    return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def calls_by_worker(caller: Caller, tool: str) -> dict[str, float]:
    _, text = caller.get("/metrics")
    found = [each for each in text_string_to_metric_families(text) if each.name == "tallystick_tool_calls"]
    return {each.labels["worker"]: each.value for each in found[0].samples if each.labels["tool"] == tool}


@promise("§5.1, workers", "every worker serves every session and reads what another has written")
def test_every_worker_serves_every_session_and_reads_what_another_has_written(server: ServerProcess) -> None:
    caller = Caller(server)
    for number in range(40):
        caller.call("memory.write", **note(number))
        assert caller.call("memory.read", entity_id=f"n{number}")["entity"]["attrs"] == {"number": number}
    while sum(calls_by_worker(caller, "memory.write").values()) < 40:
        pass  # the worker that is not asked says every few seconds what it has counted
    assert set(calls_by_worker(caller, "memory.write")) == {"0", "1"}


def test_a_form_is_accepted_by_every_worker(server: ServerProcess) -> None:
    address = urlsplit(server.url).netloc

    def ask(method: str, path: str, body: str | None = None) -> tuple[int, str]:
        connection = http.client.HTTPConnection(address)
        try:
            headers = {"Accept": "text/html", "Content-Type": "application/x-www-form-urlencoded", "Origin": server.url}
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    _, page = ask("GET", "/")
    token = page.partition('name="token" value="')[2].partition('"')[0]
    assert token
    assert {ask("POST", "/theme", f"theme=dark&token={token}")[0] for _ in range(24)} == {303}


def test_a_task_is_handed_out_once_whichever_worker_is_asked(server: ServerProcess) -> None:
    callers = [Caller(server) for _ in range(6)]
    root = callers[0].call("graph_open", project="bridge", goal="build it")["root"]["id"]
    nodes = [{"ref": f"t{number}", "parent_ref": root, "summary": f"step {number}"} for number in range(6)]
    callers[0].call("graph_plan", nodes=nodes)
    handed_out = [
        caller.call("graph_next", project="bridge", claim=True)["nodes"][0]["node"]["id"] for caller in callers
    ]
    assert len(set(handed_out)) == 6


async def test_the_sdks_client_works_with_several_workers(tmp_path: Path) -> None:
    async with connect(tmp_path / "memory", "--workers", "2", transport="http") as client:
        await call(client, "memory.write", **note(1))
        assert (await call(client, "memory.read", entity_id="n1"))["entity"]["attrs"] == {"number": 1}


@promise("§5.4, workers", "a killed worker is begun anew and its clients go on")
def test_a_killed_worker_is_begun_anew_and_its_clients_go_on(server: ServerProcess) -> None:
    caller = Caller(server)
    caller.call("memory.write", **note(1))
    before = workers_of(server)
    os.kill(before[0], signal.SIGKILL)
    server.wait_for("is begun anew")
    for number in range(2, 12):
        caller.call("memory.write", **note(number))
    assert caller.call("memory.search", type="note")["pagination"]["total"] == 11
    after = workers_of(server)
    assert len(after) == 2
    assert before[0] not in after


def test_a_worker_that_cannot_start_gets_no_connections_until_it_can(tmp_path: Path) -> None:
    """Its socket stays with the process that forks: connections to it would wait for as long as no worker starts."""
    with serving_http(tmp_path / "memory", "--workers", "2") as server:
        caller = Caller(server)
        caller.call("memory.write", **note(1))
        log = tmp_path / "memory" / "_system" / "log"
        log.rename(tmp_path / "elsewhere")
        os.kill(workers_of(server)[1], signal.SIGKILL)
        server.wait_for("could not start")
        assert {caller.get("/health/live")[0] for _ in range(30)} == {200}
        (tmp_path / "elsewhere").rename(log)

        def is_read_from_both() -> bool:
            caller.call("memory.read", entity_id="n1")
            return set(calls_by_worker(caller, "memory.read")) == {"0", "1"}

        wait_until(is_read_from_both)


def test_workers_end_with_the_process_that_began_them_even_if_it_is_killed(tmp_path: Path) -> None:
    server = start_http(tmp_path / "memory", "--workers", "2")
    Caller(server).call("memory.write", **note(1))
    workers = workers_of(server)
    assert len(workers) == 2
    handles = [os.pidfd_open(each) for each in workers]
    server.kill()
    for handle in handles:
        select.select([handle], [], [])  # until it has ended
        os.close(handle)
    assert CommandLine(tmp_path / "memory").main("verify").code == 0


def test_what_cannot_be_served_is_told_once_with_its_exit_code(tmp_path: Path) -> None:
    with serving_http(tmp_path / "memory") as server:
        caller = Caller(server)
        for number in range(3):
            caller.call("memory.write", **note(number))
    segment = next((tmp_path / "memory" / "_system" / "log").glob("*.jsonl"))
    segment.write_bytes(segment.read_bytes().replace(b'"number":1', b'"number":7', 1))
    for snapshot in (tmp_path / "memory" / "_system" / "snapshots").glob("*"):
        snapshot.unlink()
    server = start_server(tmp_path / "memory", "--http", "127.0.0.1:0", "--workers", "3")
    assert server.process.wait() == 1
    assert sum("LOG_CORRUPT" in line for line in server.stderr()) == 1
    server.kill()


def test_sse_names_the_way_that_works_with_several_workers(server: ServerProcess) -> None:
    status, body = Caller(server).get("/sse")
    assert (status, json.loads(body)["error"]) == (501, "SSE_NOT_OFFERED")
    assert "/mcp" in json.loads(body)["message"]


@pytest.mark.parametrize("words", [(), ("--workers", "2")])
def test_an_address_that_is_taken_is_refused_as_with_one_worker(
    server: ServerProcess, tmp_path: Path, words: tuple[str, ...]
) -> None:
    port = urlsplit(server.url).port
    second = start_server(tmp_path / "other", "--http", f"127.0.0.1:{port}", *words)
    assert second.process.wait() == 2
    assert any("ADDRESS_REFUSED" in line or "cannot listen" in line for line in second.stderr())
    second.kill()
