"""Redactions on three servers that replicate: complete is said when no byte of theirs holds what was redacted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tallystick.commits import Operation, Verb, chain
from tallystick.commits.canonical import canonical_bytes
from tallystick.extensions.cluster import clearing, erasure
from tallystick.extensions.cluster.clearing import Clearing
from tallystick.extensions.cluster.jetstream_log import JetStreamLog
from tallystick.log import Entry, Log
from tests.commits_by_hand import append, draft, filled, node
from tests.files_with import files_with
from tests.log.jetstream_logs import open_log
from tests.nats_cluster import Cluster, Node, running
from tests.promises import promise
from tests.timeouts import wait_until

NEEDLE = b"ada-needle@example.org"
STREAM = "tally-0"


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Cluster]:
    with running(tmp_path / "nats", nodes=3) as cluster:
        yield cluster


def written(log: Log) -> Entry:
    """A commit that holds the needle, among others."""
    filled(log, 3)
    secret = append(log, draft(node("person", email=NEEDLE.decode())))[0]
    filled(log, 3)
    return secret


def redact(log: Log, secret: Entry) -> None:
    masked = canonical_bytes({"id": "person", "type": "note", "attrs": {"email": "[REDACTED]"}})
    said = {"node_id": "person", "reason": "asked", "redacted_fields": ["attrs.email"]}
    left = {str(secret.commit.lamport): chain.content_hash(masked)}
    append(log, draft(Operation(Verb.REDACT_NODE, said, redacts=left)))


def where(log: JetStreamLog) -> list[str]:
    """What the redactions wait for."""
    return [each.where for each in erasure.pending(log._membership.stream, log.system, "default")]


def holding(directory: Path) -> list[Path]:
    return files_with(NEEDLE, directory)


@promise("§10, redaction on servers", "a redaction is complete when no byte of three servers and two machines holds it")
def test_a_redaction_is_complete_when_no_byte_of_three_servers_and_two_machines_holds_it(
    servers: Cluster, tmp_path: Path
) -> None:
    one, two = [open_log(servers, tmp_path / base, stream=STREAM, replicas=3) for base in ("one", "two")]
    secret = written(one)
    wait_until(lambda: two.head() == one.head())
    # In the stream, and in a Raft log until that is compacted.
    wait_until(lambda: all(holding(each.store) for each in servers.nodes))
    redact(one, secret)
    # Each of the machines says so, whichever of them erased it.
    wait_until(lambda: not where(one))
    wait_until(lambda: not where(two))
    one.close()
    two.close()
    servers.stop()
    assert holding(tmp_path) == []


def follower(servers: Cluster) -> Node:
    wait_until(lambda: servers.leader(STREAM) is not None)
    return next(each for each in servers.nodes if each is not servers.leader(STREAM))


def test_a_server_that_was_away_is_named_until_what_it_had_stored_is_gone(
    servers: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clearing, "AWAY_SECONDS", 0.0)
    log = open_log(servers, tmp_path / "base", stream=STREAM, replicas=3)
    secret = written(log)
    away = follower(servers)
    wait_until(lambda: bool(holding(away.store)))
    away.stop()
    redact(log, secret)
    wait_until(lambda: [f"server {away.name}" in each for each in where(log)] == [True])
    away.start()
    servers.wait_until_healthy()
    # The others do not have the deletion in their logs any more: it drops the message, and leaves the bytes.
    wait_until(lambda: ["the files of server" in each for each in where(log)] == [True])
    assert holding(away.store)
    assert [each for each in servers.nodes if each is not away and holding(each.store)] == []
    assert not erasure.note_destroyed(log.system, "another")
    assert erasure.note_destroyed(log.system, away.name)
    wait_until(lambda: not where(log))
    log.close()


def test_where_nobody_may_look_it_is_never_said_to_be_complete() -> None:
    unseen = Clearing("tally-0", [7], 0.0, {"n1": False}, start=-1, fillers=1)
    assert clearing.waits(unseen) == {
        "the Raft logs of the stream 'tally-0', which nobody here may look at: name the servers' monitoring in"
        " log_monitor": [7]
    }
