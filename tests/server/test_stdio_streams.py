"""Bytes in and out, whatever the two ends are: the loop never waits, and nothing is lost or overtaken."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tallystick.server.stdio_streams import CHUNK_BYTES, CHUNKS_AHEAD, StdinReader, StdoutWriter

pytestmark = pytest.mark.anyio

Ends = tuple[int, int]


def pipe() -> Ends:
    return os.pipe()


def unwaiting_pipe() -> Ends:
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    return ends


def sockets() -> Ends:
    reading, writing = socket.socketpair()
    return reading.detach(), writing.detach()


KINDS: list[Callable[[], Ends]] = [pipe, unwaiting_pipe, sockets]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def ends(request: pytest.FixtureRequest) -> Iterator[list[int]]:
    """To read from, to write to. Whoever closes one takes it out."""
    found = list(request.param())
    yield found
    for end in found:
        os.close(end)


def read_all(end: int, count: int) -> bytes:
    os.set_blocking(end, True)
    data = b""
    while len(data) < count:
        data += os.read(end, CHUNK_BYTES)
    return data


async def test_what_is_posted_arrives_whole_and_in_order(ends: list[int]) -> None:
    stdout_writer = StdoutWriter(ends[1])
    messages = [bytes([number % 251]) * size for number, size in enumerate([1, 10, 3_000_000, 2, 4_096, 5_000, 9] * 3)]
    # Nobody reads yet: what the pipe cannot take waits, and so does all that is posted after it.
    posted = [stdout_writer.post(message) for message in messages]
    assert posted[0].done()
    assert not posted[2].done()
    whole = b"".join(messages)
    assert await asyncio.to_thread(read_all, ends[0], len(whole)) == whole
    await asyncio.gather(*posted)
    # And then it is quick again.
    assert stdout_writer.post(b"small").done()


async def test_a_small_message_needs_no_thread(ends: list[int]) -> None:
    before = threading.active_count()
    assert StdoutWriter(ends[1]).post(b"small").done()
    assert threading.active_count() == before
    assert os.read(ends[0], 100) == b"small"


@pytest.mark.parametrize("size", [5, 1_000_000])
async def test_nobody_there_to_read_is_an_error_of_the_post(ends: list[int], size: int) -> None:
    os.close(ends.pop(0))
    with pytest.raises(OSError, match="Broken pipe"):
        await StdoutWriter(ends[0]).post(b"x" * size)


async def test_everything_written_is_read_to_the_end(ends: list[int]) -> None:
    data = os.urandom(3 * CHUNKS_AHEAD * CHUNK_BYTES)
    writer = threading.Thread(target=write_and_close, args=(ends.pop(1), data))
    writer.start()
    assert b"".join([chunk async for chunk in StdinReader(ends[0])]) == data
    writer.join()


def write_and_close(end: int, data: bytes) -> None:
    os.set_blocking(end, True)
    with open(end, "wb") as file:
        file.write(data)


async def test_no_more_is_read_than_is_listened_to(ends: list[int]) -> None:
    os.set_blocking(ends[1], False)
    stdin_reader = StdinReader(ends[0])
    written = 0
    for _ in range(10 * CHUNKS_AHEAD):
        with suppress(BlockingIOError):
            written += os.write(ends[1], b"x" * CHUNK_BYTES)
        await asyncio.sleep(0)
    assert written < 5 * CHUNKS_AHEAD * CHUNK_BYTES
    os.close(ends.pop(1))
    assert sum([len(chunk) async for chunk in stdin_reader]) == written


async def test_a_stop_is_an_end(ends: list[int]) -> None:
    stdin_reader = StdinReader(ends[0])
    os.write(ends[1], b"x")
    chunks = []
    async for chunk in stdin_reader:
        chunks.append(chunk)
        stdin_reader.stop()
    assert chunks == [b"x"]


async def test_files_are_read_and_written_like_pipes(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"said")
    source = os.open(tmp_path / "in", os.O_RDONLY)
    sink = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    assert [chunk async for chunk in StdinReader(source)] == [b"said"]
    await StdoutWriter(sink).post(b"heard")
    os.close(source)
    os.close(sink)
    assert (tmp_path / "out").read_bytes() == b"heard"
