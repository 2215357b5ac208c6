"""Raw bytes on stdin: what is bad is answered by its code, and the next good request is still served."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.promises import promise
from tests.server.sample import SECRET
from tests.server.serving import ROOT

pytestmark = pytest.mark.anyio


class Pipe:
    """A server on the other end of two pipes, spoken to in bytes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self.stdin, self.stdout, self.stderr = process.stdin, process.stdout, process.stderr
        self._id = 0

    async def say(self, data: bytes) -> None:
        self.stdin.write(data)
        await self.stdin.drain()

    async def hear(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(await self.stdout.readline())
        return answer

    async def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        self._id += 1
        await self.say(request(self._id, method, params))
        answer = await self.hear()
        assert answer["id"] == self._id
        return answer

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        return await self.ask("tools/call", {"name": name, "arguments": arguments})

    async def end(self) -> tuple[bytes, str]:
        """Close stdin; what was still said on stdout and all of stderr."""
        self.stdin.close()
        rest, errors = await asyncio.gather(self.stdout.read(), self.stderr.read())
        assert await self.process.wait() == 0
        return rest, errors.decode()


def request(id: int | str, method: str, params: dict[str, Any] | None = None) -> bytes:
    message = {"jsonrpc": "2.0", "id": id, "method": method, **({} if params is None else {"params": params})}
    return json.dumps(message).encode() + b"\n"


HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}


@asynccontextmanager
async def server(**settings: Any) -> AsyncIterator[Pipe]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.server.runner", "stdio", json.dumps(settings),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, limit=2**26,
        cwd=ROOT,
    )  # fmt: skip
    try:
        yield Pipe(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def greeted(**settings: Any) -> AsyncIterator[Pipe]:
    async with server(**settings) as pipe:
        assert "result" in await pipe.ask("initialize", HELLO)
        await pipe.say(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        yield pipe


MALFORMED: list[tuple[bytes, int, int | str | None]] = [
    (b"{nonsense", -32700, None),
    (b'{"jsonrpc":"2.0","id":7,"method":"ping","id":8}', -32700, None),
    (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":NaN}}', -32700, 7),
    (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":-Infinity}}', -32700, 7),
    (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":"\\ud800"}}', -32700, 7),
    (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":"\xc3"}}', -32700, 7),
    (b"[" * 200_000, -32700, None),
    (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":' + b'{"a":' * 500 + b"1" + b"}" * 501, -32700, 7),
    (b'{"id":7,"method":"ping"}', -32600, 7),
    (b'{"jsonrpc":2.0,"id":"7","method":"ping"}', -32600, "7"),
    (b'{"jsonrpc":"2.0","method":"ping","params":{"id":6,"x":1,"x":2},"id":"seven"}', -32700, "seven"),
    (b'{"jsonrpc":"2.0","id":7,"result":{"x":NaN}}', -32700, None),
    (b'{"jsonrpc":"2.0","id":7}', -32600, 7),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}', -32600, None),
    (b'[{"jsonrpc":"2.0","id":7,"method":"ping"}]', -32600, None),
    (b"[]", -32600, None),
    (b'"ping"', -32600, None),
    (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":"' + b"x" * 300_000 + b'"}', -32600, 7),
    (b'{"method":"ping","params":{"id":6,"x":"' + b"x" * 300_000 + b'"},"jsonrpc":"2.0","id":7}', -32600, 7),
    (b'{"jsonrpc":"2.0","id":7,"method":"no/such/method"}', -32601, 7),
    (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"arguments":{}}}', -32602, 7),
    (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"nobody"}}', -32602, 7),
    (b'{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":"2"}}', -32602, 7),
]


@promise("L23, id, stdio", "a message that is refused for its size, depth, keys or numbers is answered under its id")
async def test_every_malformed_line_has_its_code_and_the_next_request_is_answered() -> None:
    async with greeted(line_bytes_max=250_000) as pipe:
        for line, code, id in MALFORMED:
            await pipe.say(line + b"\n")
            answer = await pipe.hear()
            assert (answer["error"]["code"], answer["id"]) == (code, id), line[:80]
            assert (await pipe.call("sample.echo", text="on"))["result"]["structuredContent"] == {"said": "on"}
        rest, errors = await pipe.end()
    assert rest == b""
    assert "Traceback" not in errors


async def test_a_missing_version_is_named() -> None:
    async with greeted() as pipe:
        await pipe.say(b'{"id":1,"method":"tools/list"}\n')
        error = (await pipe.hear())["error"]
    assert error["message"] == "Invalid Request: field 'jsonrpc' is required"


async def test_a_missing_argument_is_named() -> None:
    async with greeted() as pipe:
        answer = await pipe.call("sample.write", op="UPSERT")
    assert answer["result"]["isError"]
    assert answer["result"]["content"] == [{"type": "text", "text": "Invalid params: field 'node' is required"}]


async def test_a_call_without_a_name_is_told_what_is_missing() -> None:
    async with greeted() as pipe:
        answer = await pipe.ask("tools/call", {"arguments": {}})
    assert answer["error"]["data"] == {"validation_errors": ["field 'name' is required"]}


async def test_tools_before_the_introduction_are_refused_with_what_to_do() -> None:
    async with server() as pipe:
        answer = await pipe.ask("tools/list")
        assert (answer["error"]["code"], answer["error"]["message"]) == (
            -32600,
            "Invalid Request: send 'initialize' first",
        )
        assert "result" in await pipe.ask("ping")
        assert "result" in await pipe.ask("initialize", HELLO)


async def test_blank_lines_and_carriage_returns_are_no_messages() -> None:
    async with greeted() as pipe:
        await pipe.say(b"\n\r\n   \n" + request(99, "ping").replace(b"\n", b"\r\n"))
        assert (await pipe.hear())["id"] == 99


async def test_answers_come_as_they_finish() -> None:
    async with greeted() as pipe:
        for id, name in ((100, "a"), (101, "b")):
            await pipe.say(request(id, "tools/call", {"name": "sample.wait", "arguments": {"name": name}}))
        for name, id in (("b", 101), ("a", 100)):
            await pipe.say(request(200 + id, "tools/call", {"name": "sample.release", "arguments": {"name": name}}))
            heard = {(await pipe.hear())["id"] for _ in range(2)}
            assert heard == {id, 200 + id}


async def test_a_large_request_and_a_large_answer_pass_whole() -> None:
    text = "é" * 1_200_000
    async with greeted() as pipe:
        answer = await pipe.call("sample.blob", text=text)
    assert answer["result"]["structuredContent"]["said"] == text


async def test_a_client_that_writes_everything_before_it_reads_is_no_deadlock() -> None:
    """Far more than any pipe holds is waiting on stdout while the client is still writing."""
    count = 60
    async with greeted() as pipe:
        for id in range(count):
            await pipe.say(
                request(1000 + id, "tools/call", {"name": "sample.blob", "arguments": {"text": "x" * 100_000}})
            )
        heard = {(await pipe.hear())["id"] for _ in range(count)}
    assert heard == {1000 + id for id in range(count)}


async def test_stray_prints_do_not_reach_the_wire() -> None:
    async with greeted() as pipe:
        assert (await pipe.call("sample.noise"))["result"]["structuredContent"] == {"said": "nothing"}
        rest, errors = await pipe.end()
    assert rest == b""
    assert "a stray print" in errors
    assert "a stray write" in errors


async def test_no_traceback_leaves_and_one_stays() -> None:
    async with greeted() as pipe:
        answer = await pipe.call("sample.crash")
        _, errors = await pipe.end()
    assert answer["error"]["code"] == -32603
    assert answer["error"]["message"] == "Internal error"
    assert SECRET not in json.dumps(answer)
    assert answer["error"]["data"]["error_id"] in errors
    assert errors.count(SECRET) == 1


async def test_what_was_asked_before_the_end_is_answered() -> None:
    async with server() as pipe:
        await pipe.say(request(1, "initialize", HELLO))
        await pipe.say(request(2, "tools/call", {"name": "sample.wait", "arguments": {"name": "x"}}))
        await pipe.say(request(3, "tools/call", {"name": "sample.release", "arguments": {"name": "x"}}).rstrip())
        rest, _ = await pipe.end()
    assert {json.loads(line)["id"] for line in rest.splitlines()} == {1, 2, 3}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_cleanly(number: signal.Signals) -> None:
    async with greeted() as pipe:
        pipe.process.send_signal(number)
        rest, errors = await pipe.end()
    assert rest == b""
    assert "Traceback" not in errors


async def test_a_client_that_is_gone_ends_it_cleanly() -> None:
    read_end, write_end = os.pipe()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.server.runner", "stdio",
        stdin=asyncio.subprocess.PIPE, stdout=write_end, stderr=asyncio.subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    os.close(write_end)
    os.close(read_end)
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(request(1, "initialize", HELLO))
    errors = await process.stderr.read()
    assert await process.wait() == 0
    assert b"Traceback" not in errors


async def test_a_plain_file_can_be_stdin(tmp_path: Path) -> None:
    script = tmp_path / "requests.jsonl"
    script.write_bytes(request(1, "initialize", HELLO) + request(2, "tools/list"))
    with script.open("rb") as stdin:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.server.runner", "stdio", stdin=stdin, stdout=asyncio.subprocess.PIPE, cwd=ROOT
        )
    out, _ = await process.communicate()
    assert [json.loads(line)["id"] for line in out.splitlines()] == [1, 2]
