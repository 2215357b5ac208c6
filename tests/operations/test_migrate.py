"""Moving a memory between files and streams: whole, verified, and never twice."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick import app
from tallystick.config import Settings
from tallystick.errors import Conflict, InvalidArgument, NotFound, StorageRefused
from tallystick.extensions.cluster import messages, moving
from tallystick.extensions.cluster.client import Client, Servers
from tallystick.extensions.cluster.messages import MachineStatus
from tallystick.extensions.cluster.migrate import FILE, Migrated, migrate, migrate_all
from tallystick.log import Head, Log
from tallystick.operations.doctor import examine
from tallystick.operations.tenants import delete
from tests import timeouts
from tests.commits_by_hand import append, draft, filled, node
from tests.log.jetstream_logs import stream_for
from tests.nats_cluster import Cluster
from tests.promises import promise


@pytest.fixture
def files(tmp_path: Path) -> Settings:
    return Settings(base=tmp_path / "base")


def on_stream(settings: Settings, cluster: Cluster, tmp_path: Path, **changes: Any) -> Settings:
    monitors = tuple(f"http://{server.host}:{server.monitor_port}" for server in cluster.nodes)
    return msgspec.structs.replace(
        settings,
        **{
            "log_url": cluster.url,
            "log_stream": stream_for(tmp_path),
            "log_monitor": monitors,
            "log_replicas": 1,
            **changes,
        },
    )


def fill(settings: Settings, count: int = 50) -> None:
    with_log(settings, lambda log: filled(log, count))


def with_log(settings: Settings, work: Any) -> Any:
    log = app.open_log(settings)
    try:
        return work(log)
    finally:
        log.close()


def lines(settings: Settings) -> list[bytes]:
    def read(log: Log) -> list[bytes]:
        log.confirm()
        return [entry.line for entry in log.read(Head())]

    found: list[bytes] = with_log(settings, read)
    return found


def move(settings: Settings, cluster: Cluster, to: str | None = None, stream: str | None = None) -> Migrated:
    return migrate(app.operation_context(settings), to or cluster.url, stream=stream)


@promise("§5.2, migrating", "a memory goes into a stream and back and is the same")
def test_a_memory_goes_from_files_into_a_stream_and_back_and_is_the_same(
    files: Settings, nats_server: Cluster, tmp_path: Path
) -> None:
    fill(files)
    before = lines(files)
    streamed = on_stream(files, nats_server, tmp_path)
    moved = move(streamed, nats_server)
    assert (moved.commits, moved.position, moved.resumed_at) == (50, 50, 0)
    assert lines(streamed) == before
    elsewhere = msgspec.structs.replace(streamed, base=tmp_path / "another machine")
    assert lines(elsewhere) == before
    with_log(elsewhere, lambda log: append(log, draft(node("written there"))))

    assert move(streamed, nats_server, to=FILE).commits == 51
    assert lines(files)[:50] == before
    assert len(lines(files)) == 51
    with pytest.raises(StorageRefused, match="moved to files") as caught:
        with_log(elsewhere, lambda log: append(log, draft(node("too late"))))
    assert caught.value.code == "LOG_MOVED"


def test_a_base_whose_log_is_in_a_stream_is_not_written_as_files(
    files: Settings, nats_server: Cluster, tmp_path: Path
) -> None:
    fill(files)
    move(on_stream(files, nats_server, tmp_path), nats_server)
    with pytest.raises(InvalidArgument, match="copy of a stream") as caught:
        app.open_log(files)
    assert caught.value.code == "LOG_IS_A_COPY"


def test_a_base_with_a_log_of_its_own_is_not_taken_for_a_copy(
    files: Settings, nats_server: Cluster, tmp_path: Path
) -> None:
    fill(files)
    before = lines(files)
    with pytest.raises(InvalidArgument, match="a log of its own") as caught:
        app.open_log(on_stream(files, nats_server, tmp_path))
    assert caught.value.code == "LOG_NOT_MIGRATED"
    assert "tallystick migrate" in (caught.value.hint or "")
    assert lines(files) == before


def test_a_migration_that_was_cut_off_goes_on_where_it_was(
    files: Settings, nats_server: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "_CHUNK_BYTES", 2_000)
    fill(files)
    before = lines(files)
    streamed = on_stream(files, nats_server, tmp_path)
    sent = messages.group_headers
    calls: list[int] = []

    def breaking(*args: Any) -> dict[str, str]:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return sent(*args)

    monkeypatch.setattr(moving, "group_headers", breaking)
    with pytest.raises(KeyboardInterrupt):
        move(streamed, nats_server)
    assert lines(files) == before, "nothing changed here"
    assert move(streamed, nats_server).resumed_at > 0
    assert lines(msgspec.structs.replace(streamed, base=tmp_path / "other")) == before


def test_a_stream_with_something_else_in_it_is_refused(files: Settings, nats_server: Cluster, tmp_path: Path) -> None:
    other = msgspec.structs.replace(files, base=tmp_path / "other")
    with_log(other, lambda log: append(log, draft(node("something else"))))
    move(on_stream(other, nats_server, tmp_path), nats_server)
    fill(files)
    before = lines(files)
    with pytest.raises(Conflict) as caught:
        move(on_stream(files, nats_server, tmp_path), nats_server)
    assert caught.value.code == "LOG_DIVERGED"
    assert lines(files) == before


@promise("§5.2, sharding", "a tenant moves to another stream, and every machine is told")
def test_a_tenant_moves_to_another_stream_and_every_machine_is_told(
    files: Settings, nats_server: Cluster, tmp_path: Path
) -> None:
    """What sharding is: a setting says which stream, and moving is a migration."""
    streamed = on_stream(files, nats_server, tmp_path)
    fill(streamed, 20)
    elsewhere = msgspec.structs.replace(streamed, base=tmp_path / "another machine")
    with_log(elsewhere, lambda log: append(log, draft(node("from there"))))
    before = lines(streamed)
    second = f"{streamed.log_stream}-b"
    assert move(streamed, nats_server, stream=second).commits == 21
    with pytest.raises(StorageRefused, match="was moved") as caught:
        with_log(elsewhere, lambda log: append(log, draft(node("too late"))))
    assert second in caught.value.message
    for machine in (streamed, elsewhere):
        mapped = msgspec.structs.replace(machine, log_streams=(f"default={second}",))
        assert lines(mapped) == before
        with_log(mapped, lambda log: append(log, draft(node("after"))))
        before = lines(mapped)
    assert len(before) == 23


def test_all_tenants_of_a_base_are_moved(files: Settings, nats_server: Cluster, tmp_path: Path) -> None:
    for tenant in ("default", "acme", "zeta"):
        fill(msgspec.structs.replace(files, tenant=tenant), 5)
    streamed = on_stream(files, nats_server, tmp_path)
    found = migrate_all(app.operation_context(streamed), nats_server.url)
    assert [(each.tenant, each.commits) for each in found] == [("default", 5), ("acme", 5), ("zeta", 5)]
    assert migrate_all(app.operation_context(streamed), nats_server.url) == []


def test_a_base_without_a_memory_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="typo"):
        migrate_all(app.operation_context(Settings(base=tmp_path / "typo")), FILE)
    assert not (tmp_path / "typo").exists()


def test_doctor_tells_of_the_stream_and_a_tenant_in_it_is_not_deleted_here(
    files: Settings, nats_server: Cluster, tmp_path: Path
) -> None:
    acme = msgspec.structs.replace(files, tenant="acme")
    fill(acme, 2)
    streamed = on_stream(acme, nats_server, tmp_path)
    move(streamed, nats_server)
    found = {each.what: each for each in examine(streamed)}
    assert found["stream"].status == "good"
    assert streamed.log_stream in found["stream"].found
    assert "foreign" not in found
    subject = f"{streamed.log_stream}.log.acme"
    status = MachineStatus("another", time.time(), 0, foreign={subject: (3, 17)})
    client = Client(Servers((nats_server.url,)), name="another")
    assert client.wait(timeouts.SECONDS)
    client.request(f"{streamed.log_stream}.machine.another", msgspec.json.encode(status), seconds=timeouts.SECONDS)
    client.close()
    (foreign,) = [each for each in examine(streamed) if each.what == "foreign"]
    assert foreign.status == "odd"
    assert f"3 messages of another program on {subject} skipped, the last is message 17" in foreign.found
    with pytest.raises(InvalidArgument) as caught:
        delete(app.operation_context(streamed), reason="gone")
    assert caught.value.code == "TENANT_IN_STREAM"
