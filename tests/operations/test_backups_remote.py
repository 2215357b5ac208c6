"""Backups to real servers of S3 and Azure that are cut off, lose their answers, die and come back: complete or absent,
and the next run goes on. Two machines at once. Processes killed in the middle."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tallystick import config
from tallystick.clock import wall_clock
from tallystick.errors import Conflict, StorageRefused, TallystickError
from tallystick.extensions.backup import schedule
from tallystick.extensions.backup.object_store import open_object_store
from tallystick.extensions.backup.targets import read_targets
from tallystick.log.files import FilesLog
from tallystick.log.unopened import unopened
from tests import object_stores, timeouts
from tests.command_line import CommandLine, node
from tests.commits_by_hand import append, draft
from tests.commits_by_hand import node as operation
from tests.nats_cluster import LOOPBACK
from tests.object_stores import StoreServer
from tests.operations.test_backups import same_log
from tests.promises import promise
from tests.timeouts import wait_until


@pytest.fixture(scope="module", params=object_stores.SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    with object_stores.RUNNING[request.param](tmp_path_factory.mktemp(request.param) / "server") as running:
        yield running


class Memory:
    def __init__(self, root: Path, server: StoreServer) -> None:
        self.root = root
        self.server = server
        self.url = server.url(root.name)
        self.shell = CommandLine(root / "memory")
        self.shell.write(node("a", said="one"))
        self.shell.write(node("theirs"), tenant="acme")
        self.environ = dict(server.environment)

    def grow(self, commits: int, *, size: int = 1_000) -> None:
        log = FilesLog(self.shell.base / "_system")
        append(log, *(draft(operation(f"n{log.head().count + number}", text="x" * size)) for number in range(commits)))
        log.close()

    def back_up(self, base: Path | None = None) -> Any:
        shell = self.shell if base is None else CommandLine(base)
        return shell.run("backup", self.url, "--json", **self.environ).json

    def check(self, name: str) -> None:
        """What is in the store is sound and is this memory."""
        environ = self.server.environment
        found = self.shell.run("backup", "verify", self.url, "--json", **environ).json
        assert found["sound"], found["problems"]
        self.shell.run("restore", self.url, "--base", self.root / name, **environ)
        assert same_log(self.shell.base, self.root / name)
        assert same_log(self.shell.base / "tenants/acme", self.root / name / "tenants/acme")

    def objects(self) -> list[bytes]:
        """What is in all of them."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environ.items():
                patch.setenv(name, value)
            store = open_object_store(self.url)
            return [store.get(each.name, bytes_max=each.bytes) for each in store.list("objects")]

    def start(self, *words: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tallystick", *map(str, words)]
        return subprocess.Popen(
            command, env={**os.environ, **self.environ}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )

    def stored(self) -> list[str]:
        found = self.shell.run("backup", "list", self.url, "--json", **self.environ).json["backups"]
        return [str(each["number"]) for each in found]


@pytest.fixture
def memory(tmp_path: Path, server: StoreServer) -> Memory:
    return Memory(tmp_path, server)


class Proxy:
    """Between us and the store: each connection is handled as `plan` says for its number."""

    def __init__(self, port: int, plan: Callable[[int], tuple[int, int]]) -> None:
        """How many bytes of a connection pass to the store, and how many come back; then it is cut."""
        self._target, self._plan = port, plan
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port = self._listener.getsockname()[1]
        self.connections = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            there, back = self._plan(self.connections)
            self.connections += 1
            store = socket.create_connection((LOOPBACK, self._target))
            for pair in ((client, store, there), (store, client, back)):
                threading.Thread(target=self._pass, args=pair, daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, left: int) -> None:
        try:
            while left > 0 and (data := source.recv(min(left, 65536))):
                target.sendall(data)
                left -= len(data)
        except OSError:
            pass
        for each in (source, target):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def close(self) -> None:
        self._listener.close()


EVERYTHING = 1 << 40


def test_what_is_in_the_store_is_restored_to_the_same_memory(memory: Memory) -> None:
    memory.grow(500)
    assert memory.back_up()["number"] == 1
    memory.grow(3)
    second = memory.back_up()
    assert (second["number"], second["new_bytes"] < 30_000) == (2, True)
    memory.check("restored")


def test_a_redaction_replaces_what_holds_the_value_and_older_backups_go(memory: Memory) -> None:
    word = "Qz7731Xyzzy"
    memory.shell.write(node("person", name=word))
    memory.back_up()
    memory.grow(5)
    memory.back_up()
    assert [word.encode() in data for data in memory.objects()].count(True)
    memory.shell.write({"op": "REDACT_NODE", "node_id": "person", "reason": "asked"})
    assert memory.back_up()["expired"] == [1, 2]
    assert memory.stored() == ["3"]
    assert not [data for data in memory.objects() if word.encode() in data]
    memory.check("restored")


def test_old_backups_go_with_what_only_they_needed(memory: Memory) -> None:
    memory.environ["TALLYSTICK_BACKUP_KEEP"] = "2"
    notes = memory.shell.base / "notes.txt"
    for number in range(4):
        notes.write_text(f"version {number}")
        os.utime(notes, ns=(number, number))
        memory.back_up()
    assert memory.stored() == ["4", "3"]
    assert sorted(data for data in memory.objects() if data.startswith(b"version")) == [b"version 2", b"version 3"]
    memory.check("restored")


@promise("§5.4, S3", "a store that fails half-way leaves a backup complete or absent")
@pytest.mark.parametrize("passing", [200, 5_000, 300_000])
def test_a_store_that_fails_half_way_leaves_a_backup_complete_or_absent(memory: Memory, passing: int) -> None:
    memory.grow(400)
    # Some connections die in the middle of what is sent, others go through.
    proxy = Proxy(memory.server.port, lambda number: (passing if number % 2 == 0 else EVERYTHING, EVERYTHING))
    memory.environ = memory.server.environment_through(proxy.port)
    try:
        for _ in range(5):
            with suppress(StorageRefused):
                memory.back_up()
                break
    finally:
        proxy.close()
    memory.environ = dict(memory.server.environment)
    memory.back_up()
    memory.check("restored")
    assert proxy.connections


def test_a_store_that_loses_its_answers_makes_no_second_backup(memory: Memory) -> None:
    memory.grow(50)
    # The first connections are heard and not answered: what they put is there, and is asked for again.
    proxy = Proxy(memory.server.port, lambda number: (EVERYTHING, 0 if number in (1, 3, 5) else EVERYTHING))
    memory.environ = memory.server.environment_through(proxy.port)
    try:
        first = memory.back_up()
    finally:
        proxy.close()
    memory.environ = dict(memory.server.environment)
    assert memory.stored() == [str(first["number"])] == ["1"]
    memory.check("restored")


def test_a_store_that_is_down_is_told_and_the_next_run_goes_on(memory: Memory) -> None:
    memory.grow(100)
    memory.back_up()
    memory.grow(100)
    memory.server.stop()
    try:
        with pytest.raises(StorageRefused) as refused:
            memory.back_up()
        assert refused.value.code == "STORE_REFUSED"
        (status,) = memory.shell.run("backup", "status", "--json").json["targets"]
        assert (status["number"], status["waiting"]) == (1, 100)
        assert status["failed"]
    finally:
        memory.server.start()
    assert memory.back_up()["number"] == 2
    memory.check("restored")


@promise("§5.4, two machines", "two machines back one memory up and neither overwrites the other")
def test_two_machines_back_one_memory_up_at_once_and_neither_overwrites_the_other(memory: Memory) -> None:
    memory.grow(200)
    memory.back_up()
    copy = memory.root / "copy"
    memory.shell.run("restore", memory.url, "--base", copy, **memory.environ)
    for base in (memory.shell.base, copy):
        (base / f"of {base.name}.txt").write_text(base.name)
    runs = [memory.start("backup", memory.url, "--json", "--base", base) for base in (memory.shell.base, copy)]
    for each in runs:
        assert each.wait(timeouts.SECONDS) == 0, each.stderr and each.stderr.read()
    assert memory.stored() == ["3", "2", "1"]
    for number in (1, 2, 3):
        found = memory.shell.run("backup", "verify", memory.url, "--backup", number, "--json", **memory.environ).json
        assert found["sound"]


def test_a_backup_and_a_restore_that_are_killed_leave_nothing_that_looks_complete(memory: Memory) -> None:
    memory.grow(20_000)
    for seconds in (0.5, 1.0, 2.0, 3.0):
        running = memory.start("backup", memory.url, "--base", memory.shell.base)
        try:
            running.wait(seconds)
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGKILL)
        running.wait(timeouts.SECONDS)
    memory.back_up()
    assert memory.stored()[0] == str(len(memory.stored()))
    base = memory.root / "killed"
    running = memory.start("restore", memory.url, "--base", base)
    wait_until(lambda: (base / ".restoring").exists() or running.poll() is not None)
    running.send_signal(signal.SIGKILL)
    running.wait(timeouts.SECONDS)
    if (base / ".restoring").exists():
        with pytest.raises(Conflict) as refused:
            CommandLine(base).write(node("x"))
        assert refused.value.code == "RESTORE_UNFINISHED"
    memory.check("killed")


# -- a copy that follows, and a store that is away for an hour


def position(base: Path) -> int:
    """Of the log that lies there, whoever writes it; 0 where there is none yet."""
    with suppress(FileNotFoundError, TallystickError), unopened(base / "_system") as log:
        return log.head.lamport
    return 0


def kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait(timeouts.SECONDS)


@promise(
    "§5.4, replicas in S3", "a copy that follows S3 and is killed goes on, and takes over with all that was backed up"
)
def test_a_copy_that_follows_the_store_and_is_killed_goes_on_and_takes_over_with_all_that_was_backed_up(
    memory: Memory,
) -> None:
    memory.grow(5_000)
    memory.back_up()
    copy = memory.root / "copy"
    following = ("follow", memory.url, "--every", "0.1", "--base", copy)
    # Killed while it makes the copy, then while it waits for more.
    first = memory.start(*following)
    wait_until(lambda: copy.exists() and any(copy.iterdir()))
    kill(first)
    second = memory.start(*following)
    wait_until(lambda: position(copy) == position(memory.shell.base))
    memory.shell.write(node("later"))
    memory.back_up()
    wait_until(lambda: position(copy) == position(memory.shell.base))
    kill(second)
    memory.shell.write(node("last"))
    memory.back_up()
    third = memory.start(*following)
    wait_until(lambda: position(copy) == position(memory.shell.base))
    kill(third)
    assert same_log(memory.shell.base, copy)
    memory.shell.write(node("never backed up"))
    promoted = memory.shell.run("promote", "--base", copy, "--json", **memory.environ).json
    assert (promoted["caught_up"], promoted["positions"]["default"]) == (True, position(copy))
    new = CommandLine(copy)
    assert new.run("show", "last", "--json").json["entity"]["id"] == "last"
    new.write(node("goes on"))
    assert new.run("verify", "--json").json["sound"]
    with pytest.raises(Conflict) as refused:
        memory.back_up()
    assert refused.value.code == "TAKEN_OVER"


class Hour:
    """The clock of a schedule: to sleep is to set it forward. The store is back when the hour is over."""

    def __init__(self, memory: Memory) -> None:
        self.seconds = 0.0
        self.failures: list[str] = []
        """Of the target, each time that the schedule slept."""
        self.findings: list[Any] = []
        """What the doctor said at the end of the hour."""
        self.is_mended = asyncio.Event()
        self._memory = memory

    def wall_clock(self) -> int:
        return wall_clock() + round(self.seconds * 1000)

    async def sleep(self, seconds: float) -> None:
        (target,) = read_targets(self._memory.shell.base).values()
        self.failures.append(target.failed)
        is_last = self.seconds < 3600 <= self.seconds + seconds
        if is_last:
            await asyncio.to_thread(self._end)
        self.seconds += seconds
        if self.seconds > 3600 and not is_last and not target.failed:
            self.is_mended.set()

    def _end(self) -> None:
        self.findings = self._memory.shell.run("doctor", "--json").json["findings"]
        self._memory.server.start()


@promise("§5.4, S3 down", "a schedule goes on by itself after an hour without the store")
async def test_a_schedule_goes_on_by_itself_after_an_hour_without_the_store(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.grow(50)
    await asyncio.to_thread(memory.back_up)
    memory.grow(50)
    for name, value in memory.environ.items():
        monkeypatch.setenv(name, value)
    (memory.shell.base / "tallystick.toml").write_text(f'backup_to = "{memory.url}"\nbackup_every = 1200\n')
    hour = Hour(memory)
    monkeypatch.setattr(schedule, "wall_clock", hour.wall_clock)
    monkeypatch.setattr(schedule, "sleep", hour.sleep)
    memory.server.stop()
    async with schedule.backing_up(config.load({"base": str(memory.shell.base)})):
        await hour.is_mended.wait()
    # It failed again and again, and what waited went in one backup.
    assert len([failed for failed in hour.failures if failed]) > 1
    assert [each["status"] for each in hour.findings if each["what"] == "backup"] == ["bad"]
    assert await asyncio.to_thread(memory.stored) == ["2", "1"]
    (status,) = (await asyncio.to_thread(memory.shell.run, "backup", "status", "--json")).json["targets"]
    assert (status["failed"], status["waiting"]) == (None, 0)
    await asyncio.to_thread(memory.check, "restored")
