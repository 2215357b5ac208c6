"""Contents on several machines: what one keeps beside its log is beside the log of every other."""

from __future__ import annotations

import os
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tallystick.commits import Operation, Verb, chain, mask
from tallystick.commits.canonical import canonical_bytes
from tallystick.errors import StorageRefused
from tallystick.extensions.cluster import contents, erasure, migration
from tallystick.extensions.cluster.client import NoAnswer
from tallystick.extensions.cluster.jetstream_log import JetStreamLog
from tallystick.log import Entry, Log
from tallystick.log.files import FilesLog
from tests.commits_by_hand import append, draft, filled
from tests.files_with import files_with
from tests.log.jetstream_logs import open_log, place_of, stream_for
from tests.nats_cluster import Cluster
from tests.timeouts import wait_until

SEVERAL_PIECES = os.urandom(contents.PIECE_BYTES * 2) + b"the end"


def kept(home: Path, data: bytes) -> str:
    """As whoever writes has kept it, before the commit."""
    blob = sha256(data).hexdigest()
    (home / "_content" / "blobs").mkdir(parents=True, exist_ok=True)
    (home / "_content" / "blobs" / blob).write_bytes(data)
    return blob


def document(node_id: str, blob: str) -> Operation:
    content = {"format": "bin", "encoding": "base64", "blob": blob, "bytes": 1}
    return Operation(Verb.UPSERT_NODE, {"id": node_id, "type": "note", "attrs": {}, "content": content})


def redact(log: Log, secret: Entry) -> None:
    masked = canonical_bytes(mask.redact(secret.commit.document(), None))
    said = {"node_id": secret.commit.document()["id"], "reason": "asked"}
    redacts = {str(secret.commit.lamport): chain.content_hash(masked)}
    append(log, draft(Operation(Verb.REDACT_NODE, said, redacts=redacts)))


def content_of(home: Path, blob: str) -> bytes | None:
    path = home / "_content" / "blobs" / blob
    return path.read_bytes() if path.exists() else None


def reached(log: Log, lamport: int) -> None:
    wait_until(lambda: log.head().lamport >= lamport)


@pytest.mark.parametrize("data", [SEVERAL_PIECES, b"", bytes(contents.PIECE_BYTES)], ids=["several", "none", "one"])
def test_every_machine_has_a_content_when_it_has_the_commit(nats_server: Cluster, tmp_path: Path, data: bytes) -> None:
    name = stream_for(tmp_path)
    one = open_log(nats_server, tmp_path / "one", stream=name)
    two = open_log(nats_server, tmp_path / "two", stream=name)
    blob = kept(tmp_path / "one", data)
    append(one, draft(document("a", blob)))
    reached(two, 1)
    assert content_of(tmp_path / "two", blob) == data
    late = open_log(nats_server, tmp_path / "late", stream=name)
    assert content_of(tmp_path / "late", blob) == data
    for log in (one, two, late):
        log.close()


def test_a_loser_of_a_race_has_what_the_winner_wrote(nats_server: Cluster, tmp_path: Path) -> None:
    name = stream_for(tmp_path)
    one = open_log(nats_server, tmp_path / "one", stream=name)
    two = open_log(nats_server, tmp_path / "two", stream=name)
    for number in range(4):
        writer, home = (one, tmp_path / "one") if number % 2 else (two, tmp_path / "two")
        blob = kept(home, b"%d" % number)
        reached(writer, number)
        append(writer, draft(document(f"n{number}", blob)))
    reached(one, 4)
    reached(two, 4)
    assert sorted(os.listdir(tmp_path / "one/_content/blobs")) == sorted(os.listdir(tmp_path / "two/_content/blobs"))
    one.close()
    two.close()


def test_a_redacted_content_leaves_every_machine_and_every_byte_of_the_server(
    nats_server: Cluster, tmp_path: Path
) -> None:
    name = stream_for(tmp_path)
    one = open_log(nats_server, tmp_path / "one", stream=name)
    two = open_log(nats_server, tmp_path / "two", stream=name)
    filled(one, 2)
    needle = os.urandom(16)
    secret = append(one, draft(document("a", kept(tmp_path / "one", SEVERAL_PIECES + needle))))[0]
    shared = append(one, draft(document("b", kept(tmp_path / "one", b"named twice"))))[0]
    append(one, draft(document("c", kept(tmp_path / "one", b"named twice"))))
    reached(two, 5)
    redact(one, secret)
    redact(one, shared)
    reached(two, 7)
    stream = one._membership.stream
    wait_until(lambda: not erasure.pending(stream, one.system, "default"))
    assert files_with(needle, tmp_path, nats_server.nodes[0].store) == []
    late = open_log(nats_server, tmp_path / "late", stream=name)
    twice = sha256(b"named twice").hexdigest()
    for home in ("one", "two", "late"):
        assert os.listdir(tmp_path / home / "_content" / "blobs") == [twice], "what another commit names stays"
    for log in (one, two, late):
        log.close()


def test_a_content_that_is_damaged_here_is_not_sent(nats_server: Cluster, tmp_path: Path) -> None:
    log = open_log(nats_server, tmp_path, stream=stream_for(tmp_path))
    blob = kept(tmp_path, b"whole")
    (tmp_path / "_content" / "blobs" / blob).write_bytes(b"wrong")
    with pytest.raises(StorageRefused, match="damaged") as caught:
        append(log, draft(document("a", blob)))
    assert caught.value.hint
    assert log.head().lamport == 0
    kept(tmp_path, b"whole")
    append(log, draft(document("a", blob)))
    log.close()


def test_a_content_that_no_server_had_is_fetched_when_one_has_it(nats_server: Cluster, tmp_path: Path) -> None:
    name = stream_for(tmp_path)
    one = open_log(nats_server, tmp_path / "one", stream=name)
    blob = sha256(b"late").hexdigest()
    append(one, draft(document("a", blob)))
    two = open_log(nats_server, tmp_path / "two", stream=name)
    assert (two.system / contents.MISSING / blob).exists()
    kept(tmp_path / "one", b"late")
    contents.store(one._membership.stream, one.system, "default", [blob])
    contents.fetch_missing(two._membership.stream, two.system, "default")
    assert content_of(tmp_path / "two", blob) == b"late"
    assert os.listdir(two.system / contents.MISSING) == []
    one.close()
    two.close()


def test_servers_that_cannot_store_a_content_store_no_commit_that_names_it(
    nats_server: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*arguments: Any) -> None:
        raise NoAnswer("no leader", was_sent=False)

    log = open_log(nats_server, tmp_path, stream=stream_for(tmp_path))
    monkeypatch.setattr("tallystick.extensions.cluster.jetstream_log.PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr("tallystick.extensions.cluster.jetstream_log.store", silent)
    with pytest.raises(StorageRefused) as caught:
        append(log, draft(document("a", kept(tmp_path, b"x"))))
    assert caught.value.code == "LOG_UNREACHABLE"
    log.close()


def test_contents_of_a_memory_that_was_deleted_are_not_taken_for_ours(nats_server: Cluster, tmp_path: Path) -> None:
    name = stream_for(tmp_path)
    log = open_log(nats_server, tmp_path, stream=name)
    stream = log._membership.stream
    stream.contents.open(stream.trust, memory="another")
    stream.contents.memory = ""
    with pytest.raises(StorageRefused, match="contents of memory another") as caught:
        append(log, draft(document("a", kept(tmp_path, b"x"))))
    assert caught.value.hint
    log.close()


def test_a_migrated_memory_takes_its_contents_along(nats_server: Cluster, tmp_path: Path) -> None:
    blob = kept(tmp_path / "one", SEVERAL_PIECES)
    with closing(FilesLog(tmp_path / "one" / "_system")) as files:
        append(files, draft(document("a", blob)))
    place = place_of(nats_server, tmp_path / "one", stream=stream_for(tmp_path))
    migration.from_files(place, "default", lambda *told: None)
    late = JetStreamLog(place_of(nats_server, tmp_path / "late", stream=place.stream), "default")
    assert content_of(tmp_path / "late", blob) == SEVERAL_PIECES
    late.close()
