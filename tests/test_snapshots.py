"""Snapshots are a cache: they save time, prove that a log lost its end, and never outlive a redaction."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from tallystick.commits import Draft, Operation, Verb
from tallystick.engine.partition import Partition, Propose
from tallystick.engine.snapshots import KEPT, WORTH_COMMITS, Snapshots, cached_positions, kept_positions
from tallystick.errors import Conflict, Corrupt, StorageRefused
from tallystick.log import Entry, Head
from tallystick.log.files import FilesLog
from tallystick.log.segments import Segments
from tallystick.state.state import State
from tallystick.state.work.graph import WorkGraph
from tallystick.system.turns import finished
from tests.commits_by_hand import draft, node
from tests.mcp_client import serving_http
from tests.timeouts import wait_until


def writing(node_id: str, **attrs: Any) -> Propose:
    return lambda state: draft(node(node_id, **attrs))


def opened(system: Path, **options: Any) -> Partition:
    return Partition(FilesLog(system), snapshots=Snapshots(system / "snapshots", **options))


async def test_a_restart_reads_only_what_came_after_the_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = opened(tmp_path)
    for number in range(20):
        await first.commit(writing(f"n{number}", number=number))
    await first.save_snapshot()
    await first.commit(writing("after"))
    await first.close()

    read: list[Head] = []
    real = FilesLog.read

    def noted(self: FilesLog, after: Head) -> Iterator[Entry]:
        read.append(after)
        return real(self, after)

    monkeypatch.setattr(FilesLog, "read", noted)
    again = opened(tmp_path)
    await again.open()
    assert [head.count for head in read] == [20]
    assert await again.look(lambda state: (state.count, state.node("n7") and state.node("after") is not None)) == (
        21,
        True,
    )
    await again.close()


async def test_a_damaged_snapshot_is_passed_over(tmp_path: Path) -> None:
    first = opened(tmp_path)
    await first.commit(writing("a"))
    path = await first.save_snapshot()
    await first.close()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    again = opened(tmp_path)
    await again.open()
    assert await again.look(lambda state: state.node("a")) is not None
    await again.close()


async def test_a_log_that_ends_before_a_snapshot_lost_its_end(tmp_path: Path) -> None:
    first = opened(tmp_path)
    for name in "abc":
        await first.commit(writing(name))
    await first.save_snapshot()
    await first.close()
    (segment,) = (tmp_path / "log").glob("*.jsonl")
    segment.write_bytes(b"".join(segment.read_bytes().splitlines(keepends=True)[:2]))
    (tmp_path / "head").unlink()
    with pytest.raises(Corrupt, match="cut off"):
        opened(tmp_path)


async def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    partition = opened(tmp_path)
    for number in range(KEPT + 3):
        await partition.commit(writing(f"n{number}"))
        await partition.save_snapshot()
    await partition.close()
    assert len(list((tmp_path / "snapshots").iterdir())) == KEPT


def redacting(node_id: str) -> Propose:
    def propose(state: State) -> Draft:
        redacts = finished(state.redaction(node_id, None))
        payload = {"node_id": node_id, "reason": "asked"}
        operation = Operation(Verb.REDACT_NODE, payload, redacts=redacts)
        return Draft((operation,), actor="dpo", tool="test")

    return propose


def holds(directory: Path, text: bytes) -> bool:
    return any(text in path.read_bytes() for path in directory.glob("*"))


async def test_no_snapshot_outlives_a_redaction(tmp_path: Path) -> None:
    partition = opened(tmp_path)
    await partition.commit(writing("person", email="ada@example.org"))
    await partition.save_snapshot()
    assert holds(tmp_path / "snapshots", b"ada@example.org")
    await partition.commit(redacting("person"))
    assert not holds(tmp_path / "snapshots", b"ada@example.org")
    await partition.close()


async def test_a_snapshot_that_outlived_its_redaction_by_a_crash_goes_at_the_next_start(tmp_path: Path) -> None:
    partition = opened(tmp_path)
    await partition.commit(writing("person", email="ada@example.org"))
    await partition.save_snapshot()
    await partition.close()
    dying = Partition(FilesLog(tmp_path))
    await dying.commit(redacting("person"))
    await dying.close()
    assert holds(tmp_path / "snapshots", b"ada@example.org")
    again = opened(tmp_path)
    await again.open()
    assert not holds(tmp_path / "snapshots", b"ada@example.org")
    await again.close()


async def test_a_state_that_was_read_before_a_redaction_leaves_no_snapshot(tmp_path: Path) -> None:
    slow, other = opened(tmp_path), opened(tmp_path)
    await other.commit(writing("person", email="ada@example.org"))
    await slow.open()
    await other.commit(redacting("person"))
    await slow.save_snapshot()
    assert not holds(tmp_path / "snapshots", b"ada@example.org")
    await slow.close()
    await other.close()


async def test_a_snapshot_is_asked_for_when_the_state_has_grown_enough(tmp_path: Path) -> None:
    asked: list[int] = []
    partition = opened(tmp_path, every=5, take=lambda: asked.append(1))
    await partition.open()
    for number in range(12):
        await partition.commit(writing(f"n{number}"))
    assert len(asked) == 2
    await partition.close()


def test_a_process_of_its_own_takes_the_snapshot(tmp_path: Path) -> None:
    """As a server has it done: this command is started, and the snapshot is there when it ends."""
    lines = "".join(
        f'{{"op": "UPSERT_NODE", "node": {{"id": "n{number}", "type": "t", "attrs": {{}}}}}}\n' for number in range(30)
    )
    environment = os.environ | {"TALLYSTICK_SNAPSHOT_EVERY": "10"}
    command = [sys.executable, "-m", "tallystick", "import", "-", "--base", str(tmp_path)]
    subprocess.run(command, input=lines, text=True, env=environment, check=True, capture_output=True)
    while not list((tmp_path / "_system" / "snapshots").glob("*.snapshot")):
        time.sleep(0.05)


def test_the_process_that_took_a_snapshot_is_not_left_defunct(tmp_path: Path) -> None:
    with serving_http(tmp_path / "memory", environ={"TALLYSTICK_SNAPSHOT_EVERY": "2"}) as server:
        for number in range(3):
            said = {"op": "UPSERT_NODE", "node": {"id": f"n{number}", "type": "t", "attrs": {}}}
            asked = urllib.request.Request(
                urljoin(server.url, "/v1/tools/memory.write"),
                json.dumps(said).encode(),
                {"Content-Type": "application/json"},
            )
            urllib.request.urlopen(asked).close()
        wait_until(lambda: bool(list(tmp_path.glob("memory/_system/snapshots/*.snapshot"))))
        pid = server.process.pid
        wait_until(lambda: Path(f"/proc/{pid}/task/{pid}/children").read_text() == "")


async def test_a_clean_end_leaves_a_snapshot_where_the_next_start_is_quicker_by_it(tmp_path: Path) -> None:
    partition = opened(tmp_path, every=1_000_000)
    await partition.commit(writing("first", email="ada@example.org"))
    await partition.close()
    assert kept_positions(tmp_path / "snapshots") == []
    again = opened(tmp_path, every=1_000_000)
    await again.commit(lambda state: draft(*(node(f"n{number}") for number in range(WORTH_COMMITS))))
    await again.close()
    assert kept_positions(tmp_path / "snapshots") == [WORTH_COMMITS + 1]
    loaded = opened(tmp_path, every=1_000_000)
    await loaded.commit(writing("one more"))
    await loaded.close()
    assert kept_positions(tmp_path / "snapshots") == [WORTH_COMMITS + 1], "one commit more is not worth another"


async def test_whoever_wants_no_snapshots_gets_none_at_the_end_either(tmp_path: Path) -> None:
    partition = opened(tmp_path, every=0)
    await partition.commit(lambda state: draft(*(node(f"n{number}") for number in range(WORTH_COMMITS))))
    partition.rest()
    await partition.close()
    assert kept_positions(tmp_path / "snapshots") == []


async def test_an_end_without_room_for_a_snapshot_is_an_end_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = opened(tmp_path, every=1_000_000)
    await partition.commit(lambda state: draft(*(node(f"n{number}") for number in range(WORTH_COMMITS))))

    def no_room(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_room)
    await partition.close()
    assert list((tmp_path / "snapshots").iterdir()) == []


async def test_while_nobody_asks_a_snapshot_is_taken_once(tmp_path: Path) -> None:
    asked: list[int] = []
    partition = opened(tmp_path, every=1_000_000, take=lambda: asked.append(1))
    await partition.open()
    partition.rest()
    assert asked == []
    await partition.commit(lambda state: draft(*(node(f"n{number}") for number in range(WORTH_COMMITS))))
    partition.rest()
    partition.rest()
    assert asked == [1]
    await partition.close()


async def test_what_another_process_kept_need_not_be_kept_again(tmp_path: Path) -> None:
    asked: list[int] = []
    one = opened(tmp_path, every=1_000_000, take=lambda: asked.append(1))
    await one.commit(lambda state: draft(*(node(f"n{number}") for number in range(WORTH_COMMITS))))
    other = opened(tmp_path, every=1_000_000)
    await other.open()
    await other.close()
    assert kept_positions(tmp_path / "snapshots") == [WORTH_COMMITS]
    one.rest()
    await one.close()
    assert asked == []


async def test_a_snapshot_holds_nothing_that_is_not_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = opened(tmp_path)
    await partition.commit(writing("durable"))
    real, begun, go_on = FilesLog.append, threading.Event(), threading.Event()

    def slow(self: FilesLog, entries: list[Entry], *, expected: Head) -> Head:
        begun.set()
        go_on.wait()
        return real(self, entries, expected=expected)

    monkeypatch.setattr(FilesLog, "append", slow)
    writes = asyncio.create_task(partition.commit(writing("not yet")))
    await asyncio.to_thread(begun.wait)
    saves = asyncio.create_task(partition.save_snapshot())
    await asyncio.sleep(0)
    assert kept_positions(tmp_path / "snapshots") == []
    go_on.set()
    await writes
    await saves
    assert kept_positions(tmp_path / "snapshots") == [2]
    await partition.close()


async def test_what_a_killed_snapshot_left_is_gone_after_the_next_start_or_snapshot(tmp_path: Path) -> None:
    first = opened(tmp_path)
    await first.commit(writing("n"))
    left = tmp_path / "snapshots" / f"{7:020d}.new-12345"
    left.parent.mkdir()
    left.write_bytes(b"half a snapshot")
    kept = await first.save_snapshot()
    assert list(left.parent.iterdir()) == [kept]
    left.write_bytes(b"half a snapshot")
    await first.close()
    await opened(tmp_path).close()
    assert list(left.parent.iterdir()) == [kept]


async def test_a_snapshot_without_room_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = opened(tmp_path)
    await first.commit(writing("n"))

    def no_room(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", no_room)
        with pytest.raises(StorageRefused):
            await first.save_snapshot()
    assert list((tmp_path / "snapshots").iterdir()) == []
    assert (await first.save_snapshot()).exists()
    await first.close()


async def test_a_redaction_while_a_snapshot_is_written_means_that_it_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = opened(tmp_path)
    await first.commit(writing("n"))
    snapshots, real = Snapshots(tmp_path / "snapshots"), os.fsync

    def forgetting(fd: int) -> None:
        real(fd)
        monkeypatch.setattr(os, "fsync", real)
        snapshots.forget()

    monkeypatch.setattr(os, "fsync", forgetting)
    with pytest.raises(Conflict):
        await first.save_snapshot()
    await first.close()
    assert list((tmp_path / "snapshots").iterdir()) == []


@pytest.mark.parametrize("is_kept", [True, False])
async def test_no_reader_of_a_masked_payload_searches_the_log_on_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_kept: bool
) -> None:
    first = opened(tmp_path)
    for number in range(40):
        await first.commit(writing(f"n{number}", secret=f"word {number}"))
    for masked in ("n3", "n30"):
        await first.commit(redacting(masked))
    if is_kept:
        await first.save_snapshot()
    await first.commit(writing("after"))
    await first.close()

    read: list[int] = []
    real = Segments.read

    def noted(self: Segments, offset: int, size: int) -> bytes:
        if threading.current_thread() is threading.main_thread():
            read.append(size)
        return real(self, offset, size)

    again = opened(tmp_path)
    monkeypatch.setattr(Segments, "read", noted)
    await again.open()
    # What it replays it reads once, and nothing else.
    assert sum(read) <= (1_000 if is_kept else again.log_bytes)
    # Commits since then, by this process and by another, are followed as they come.
    await again.commit(writing("more"))
    other = opened(tmp_path)
    await other.commit(redacting("n5"))
    await other.close()
    await again.commit(redacting("n6"))
    read.clear()
    for masked in ("n3", "n30", "n5", "n6"):
        found = await again.look(lambda state: state.node(masked))  # noqa: B023  # asked at once
        assert found is not None
        assert found.attrs == {"secret": "[REDACTED]"}
    assert read == []
    await again.close()


def working(count: int) -> Propose:
    attrs = ({"project": "p", "summary": f"secret {number}"} for number in range(count))
    payloads = [{"id": f"w{number}", "type": "work/node", "attrs": each} for number, each in enumerate(attrs)]
    return lambda state: draft(*(Operation(Verb.UPSERT_NODE, payload) for payload in payloads))


async def used(system: Path, count: int = 0) -> Partition:
    partition = opened(system, every=1_000_000)
    await partition.open()
    if count:
        await partition.commit(working(count))
    assert await partition.look(lambda state: len(state.derived(WorkGraph).rows)) == WORTH_COMMITS
    return partition


async def test_a_large_index_is_stored_at_a_clean_end_and_its_nodes_are_not_read_at_the_next_first_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await used(tmp_path, WORTH_COMMITS)).close()
    read: list[int] = []
    real = FilesLog.line

    def noted(self: FilesLog, offset: int, *, checked: bool = True) -> bytes:
        read.append(offset)
        return real(self, offset, checked=checked)

    monkeypatch.setattr(FilesLog, "line", noted)
    again = await used(tmp_path)
    assert len(read) < 10
    await again.close()


async def test_an_index_that_was_built_after_the_snapshot_is_stored_once(tmp_path: Path) -> None:
    filled = opened(tmp_path, every=1_000_000)
    await filled.commit(working(WORTH_COMMITS))
    await filled.close()
    assert list((tmp_path / "snapshots").glob("*.index")) == []
    await (await used(tmp_path)).close()
    (stored,) = (tmp_path / "snapshots").glob("*.index")
    made = stored.stat().st_mtime_ns
    await (await used(tmp_path)).close()
    assert stored.stat().st_mtime_ns == made


@pytest.mark.parametrize("damage", [b"", b"not an index"])
async def test_a_damaged_index_is_built_again(tmp_path: Path, damage: bytes) -> None:
    await (await used(tmp_path, WORTH_COMMITS)).close()
    (stored,) = (tmp_path / "snapshots").glob("*.index")
    stored.write_bytes(damage)
    await (await used(tmp_path)).close()


async def test_a_redaction_takes_the_stored_indexes_with_it(tmp_path: Path) -> None:
    partition = await used(tmp_path, WORTH_COMMITS)
    await partition.save_snapshot()
    (stored,) = (tmp_path / "snapshots").glob("*.index")
    assert b"secret 7" in stored.read_bytes()
    assert cached_positions(tmp_path / "snapshots") == [WORTH_COMMITS, WORTH_COMMITS]
    await partition.commit(redacting("w7"))
    assert cached_positions(tmp_path / "snapshots") == []
    await partition.close()
