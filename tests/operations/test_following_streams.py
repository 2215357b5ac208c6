"""A copy that follows a stream: it is up to date, takes no writes, and when it takes over no machine writes there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick import app
from tallystick.config import Settings
from tallystick.errors import Conflict, InvalidArgument, StorageRefused, TallystickError
from tallystick.extensions.backup.encryption import load_backup_keys
from tallystick.extensions.backup.follow import follow_once, promote
from tallystick.extensions.backup.object_store import open_object_store
from tallystick.extensions.backup.repository import Repository
from tallystick.extensions.backup.run import back_up
from tallystick.extensions.cluster.following import following, promote_stream
from tallystick.extensions.cluster.migration import connected
from tallystick.extensions.cluster.moving import fenced_by
from tallystick.extensions.cluster.places import place_of
from tallystick.log import Head, Log
from tallystick.log.replica import read_replica
from tallystick.operations.shared_logs import Followed
from tallystick.telemetry import metrics
from tests.command_line import CommandLine
from tests.commits_by_hand import append, draft, filled, node
from tests.log.jetstream_logs import stream_for
from tests.nats_cluster import Cluster


@pytest.fixture
def memory(nats_server: Cluster, tmp_path: Path) -> Settings:
    """Of one machine, on a stream."""
    monitors = tuple(f"http://{server.host}:{server.monitor_port}" for server in nats_server.nodes)
    return Settings(
        base=tmp_path / "memory",
        log_url=nats_server.url,
        log_stream=stream_for(tmp_path),
        log_monitor=monitors,
        log_replicas=1,
    )


@pytest.fixture
def replica(tmp_path: Path) -> Settings:
    return Settings(base=tmp_path / "replica", log_stream=stream_for(tmp_path))


def with_log(settings: Settings, work: Callable[[Log], Any]) -> Any:
    log = app.open_log(settings)
    try:
        return work(log)
    finally:
        log.close()


def lines(log: Log) -> list[bytes]:
    return [entry.line for entry in log.read(Head())]


def follow(replica: Settings, memory: Settings) -> Followed:
    with following(replica, memory.log_url) as look:
        return look()


def refused_write(settings: Settings) -> TallystickError:
    context = app.operation_context(settings)
    refused = {"id": "refused", "type": "note", "attrs": {}}
    call = context.prepare("memory.write", {"op": "UPSERT_NODE", "node": refused})

    async def write() -> None:
        async with context.open_store() as store:
            await call(store)

    with pytest.raises(StorageRefused) as caught:
        asyncio.run(write())
    assert caught.value.hint
    return caught.value


def test_a_copy_has_what_the_stream_has_and_takes_no_writes(memory: Settings, replica: Settings) -> None:
    with_log(memory, lambda log: filled(log, 20))
    assert follow(replica, memory).positions == {"default": 20}
    assert with_log(replica, lines) == with_log(memory, lines)
    assert refused_write(replica).code == "IS_REPLICA"
    with_log(memory, lambda log: append(log, draft(node("more"))))
    found = follow(replica, memory)
    assert (found.positions, found.commits) == ({"default": 21}, 1)


def test_a_copy_that_takes_over_has_everything_and_stops_every_machine(
    memory: Settings, replica: Settings, tmp_path: Path
) -> None:
    second = msgspec.structs.replace(memory, base=tmp_path / "second")
    open_elsewhere = app.open_log(second)
    with_log(memory, lambda log: filled(log, 5))
    follow(replica, memory)
    with_log(memory, lambda log: append(log, draft(node("after the last look"))))
    reader = app.open_log(replica)
    promoted = promote_stream(replica, memory.log_url)
    assert (promoted.positions, promoted.caught_up) == ({"default": 6}, True)
    append(reader, draft(node("written to the copy, without a restart")))
    assert len(lines(reader)) == 7
    reader.close()
    with pytest.raises(StorageRefused) as caught:
        append(open_elsewhere, draft(node("too late")))
    assert caught.value.code == "TAKEN_OVER"
    assert len(lines(open_elsewhere)) == 6, "reads go on"
    open_elsewhere.close()
    assert refused_write(memory).code == "TAKEN_OVER"
    assert refused_write(msgspec.structs.replace(memory, tenant="new")).code == "TAKEN_OVER"
    assert len(with_log(msgspec.structs.replace(memory, base=tmp_path / "late"), lines)) == 6
    assert promote_again(replica, memory).code == "NOT_EMPTY"


def promote_again(replica: Settings, memory: Settings) -> TallystickError:
    with pytest.raises(Conflict) as caught:
        promote_stream(replica, memory.log_url)
    return caught.value


def test_of_two_copies_one_takes_over(memory: Settings, replica: Settings, tmp_path: Path) -> None:
    other = msgspec.structs.replace(replica, base=tmp_path / "other")
    with_log(memory, lambda log: filled(log, 3))
    for each in (replica, other):
        follow(each, memory)
    promote_stream(replica, memory.log_url)
    assert promote_again(other, memory).code == "TAKEN_OVER"
    assert read_replica(other.base) is not None
    assert len(with_log(other, lines)) == 3


def test_a_promotion_that_was_cut_off_is_finished_by_the_next(
    memory: Settings, replica: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with_log(memory, lambda log: filled(log, 3))
    follow(replica, memory)
    with monkeypatch.context() as dying:
        dying.setattr("tallystick.extensions.cluster.following.make_own", die)
        with pytest.raises(KeyboardInterrupt):
            promote_stream(replica, memory.log_url)
    assert refused_write(memory).code == "TAKEN_OVER"
    assert promote_stream(replica, memory.log_url).positions == {"default": 3}
    with_log(replica, lambda log: append(log, draft(node("after"))))


def test_a_copy_whose_stream_is_gone_takes_over_only_when_that_is_meant(
    memory: Settings, replica: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_log(memory, lambda log: filled(log, 3))
    follow(replica, memory)

    def gone(*arguments: Any) -> None:
        raise StorageRefused("no answer", code="LOG_UNREACHABLE")

    monkeypatch.setattr("tallystick.extensions.cluster.following.take_over_from", gone)
    with pytest.raises(StorageRefused):
        promote_stream(replica, memory.log_url)
    promoted = promote_stream(replica, memory.log_url, without_store=True)
    assert (promoted.epoch, promoted.caught_up) == (0, False)
    with_log(replica, lambda log: append(log, draft(node("after"))))


def test_a_base_that_is_not_empty_and_a_stream_that_is_not_there_are_refused(
    memory: Settings, replica: Settings, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgument, match="no stream"):
        follow(replica, memory)
    with_log(memory, lambda log: filled(log, 1))
    own = Settings(base=tmp_path / "own", log_stream=memory.log_stream)
    with_log(own, lambda log: filled(log, 1))
    with pytest.raises(Conflict) as caught:
        follow(own, memory)
    assert caught.value.code == "NOT_EMPTY"
    with_log(own, lambda log: append(log, draft(node("still its own"))))


def test_while_one_process_follows_another_neither_follows_nor_promotes(memory: Settings, replica: Settings) -> None:
    with_log(memory, lambda log: filled(log, 1))
    with following(replica, memory.log_url) as look:
        look()
        for again in (lambda: follow(replica, memory), lambda: promote_stream(replica, memory.log_url)):
            with pytest.raises(Conflict) as caught:
                again()
            assert caught.value.code == "FOLLOW_RUNNING"


def test_a_fence_in_the_store_stops_every_machine_of_the_stream(memory: Settings, tmp_path: Path) -> None:
    store = f"file://{tmp_path}/store"
    copy = Settings(base=tmp_path / "copy")
    second = msgspec.structs.replace(memory, base=tmp_path / "second")
    with_log(memory, lambda log: filled(log, 3))
    back_up(app.operation_context(memory), to=store)
    follow_once(copy, repository(copy, store))
    promote(copy, repository(copy, store))
    with_log(second, lambda log: append(log, draft(node("the machines have not heard of it yet"))))
    with pytest.raises(Conflict) as caught:
        back_up(app.operation_context(memory), to=store)
    assert caught.value.code == "TAKEN_OVER"
    assert refused_write(second).code == "TAKEN_OVER"
    with connected(place_of(memory)) as stream:
        assert fenced_by(stream) is not None


def repository(settings: Settings, store: str) -> Repository:
    return Repository(open_object_store(store), load_backup_keys(settings, None))


def test_a_new_machine_begins_with_a_backup_and_fetches_the_rest(memory: Settings, tmp_path: Path) -> None:
    store = f"file://{tmp_path}/store"
    with_log(memory, lambda log: filled(log, 30))
    back_up(app.operation_context(memory), to=store)
    with_log(memory, lambda log: filled(log, 3))
    base = tmp_path / "new"
    environ = {
        "TALLYSTICK_LOG_URL": memory.log_url,
        "TALLYSTICK_LOG_STREAM": memory.log_stream,
    }
    assert CommandLine(base).run("restore", store, "--json", **environ).json["tenants"][0]["position"] == 30
    new = msgspec.structs.replace(memory, base=base)
    adopted = dict(metrics.STREAM_ADOPTED.read()).get((), 0)
    with_log(new, lambda log: append(log, draft(node("from the new one"))))
    assert dict(metrics.STREAM_ADOPTED.read())[()] == adopted + 3
    assert with_log(new, lines)[:33] == with_log(memory, lines)[:33]


def test_a_backup_of_another_memory_is_not_taken_for_a_copy(memory: Settings, tmp_path: Path) -> None:
    store = f"file://{tmp_path}/store"
    other = msgspec.structs.replace(memory, base=tmp_path / "other", log_stream=f"{memory.log_stream}-other")
    with_log(memory, lambda log: filled(log, 3))
    with_log(other, lambda log: append(log, draft(node("something else"))))
    back_up(app.operation_context(other), to=store)
    environ = {"TALLYSTICK_LOG_URL": memory.log_url, "TALLYSTICK_LOG_STREAM": memory.log_stream}
    CommandLine(tmp_path / "new").run("restore", store, "--json", **environ)
    with pytest.raises(InvalidArgument) as caught:
        app.open_log(msgspec.structs.replace(memory, base=tmp_path / "new"))
    assert caught.value.code == "LOG_DIVERGED"
