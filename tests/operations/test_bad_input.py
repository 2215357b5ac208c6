"""What does not fit is refused by every command that reads it: what is wrong, what to do, and nothing overwritten."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick import app
from tallystick.commits.dsse import sign_payload
from tallystick.commits.signed_note import signer_key
from tallystick.config import Settings
from tallystick.errors import TallystickError
from tallystick.extensions.backup.encryption import load_backup_keys
from tallystick.extensions.backup.manifest import PAYLOAD_TYPE
from tallystick.extensions.cluster.client import Client, Servers
from tallystick.extensions.cluster.following import following
from tallystick.extensions.cluster.messages import Layout, group_headers, group_lines
from tallystick.extensions.cluster.migrate import migrate
from tests import timeouts
from tests.command_line import CommandLine, node
from tests.commits_by_hand import append, draft, entries, filled
from tests.commits_by_hand import node as operation
from tests.log.jetstream_logs import stream_for
from tests.nats_cluster import Cluster
from tests.operations.test_backups import Place

TRANSIENT = ("lock", "backup", ".new", "follow.", "machine")
"""Files that tell of a try, not of a memory."""


def held(*directories: Path) -> dict[Path, bytes]:
    """Every file but those that only tell that somebody was there."""
    paths = (path for directory in directories for path in directory.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in paths if not any(word in path.name for word in TRANSIENT)}


def refusal(command: Callable[[], object]) -> TallystickError:
    with pytest.raises(TallystickError) as caught:
        command()
    assert caught.value.hint, caught.value.message
    return caught.value


# -- stores


class BadStore:
    """A store whose newest backup does not fit, and a copy that followed it before."""

    def __init__(self, root: Path) -> None:
        self.place = Place(root)
        self.key, self.vkey = root / "a.key", root / "a.vkey"
        shell = self.place.shell
        self.vkey.write_text(shell.run("keys", "new", "memory.example/a", "--file", self.key).out)
        self.backup_key = root / "backup.key"
        shell.run("backup", "new-key", self.backup_key)
        shell.write(node("a"))
        self.back_up()
        self.copy = root / "copy"
        self.follow(self.copy)
        self.first = self.objects()
        shell.write(node("b"))
        self.back_up()

    def back_up(self) -> None:
        self.run("backup", base=self.place.shell.base)

    def run(self, *words: object, base: Path) -> Any:
        given = {"TALLYSTICK_CHECKPOINT_KEY": str(self.key), "TALLYSTICK_BACKUP_KEY": str(self.backup_key)}
        return CommandLine(base).run(*words, self.place.url, "--json", **given)

    def follow(self, base: Path) -> None:
        self.run("follow", "--once", "--vkey", self.vkey, base=base)

    def restore(self, base: Path) -> None:
        self.run("restore", "--vkey", self.vkey, base=base)

    def verify(self) -> Any:
        return self.run("backup", "verify", "--vkey", self.vkey, base=self.copy).json

    @property
    def manifest(self) -> Path:
        return self.place.store / "manifests" / "0000000002"

    def objects(self) -> set[Path]:
        return {path for path in (self.place.store / "objects").rglob("*") if path.is_file()}


def garbage(store: BadStore) -> None:
    store.manifest.write_bytes(b"{}" * 40)


def cut(store: BadStore) -> None:
    store.manifest.write_bytes(store.manifest.read_bytes()[:-9])


def unsigned(store: BadStore) -> None:
    store.manifest.write_bytes(sign_payload(PAYLOAD_TYPE, b'{"format": 1}', ()))


def changed(store: BadStore) -> None:
    """The signature stays as it was, and the text says something else."""
    keys = load_backup_keys(Settings(base=store.copy), store.backup_key)
    name = f"manifests/{store.manifest.name}"
    envelope = json.loads(keys.open(name, store.manifest.read_bytes()))
    payload = json.loads(base64.b64decode(envelope["payload"]))
    payload["at"] = 0
    envelope["payload"] = base64.b64encode(json.dumps(payload).encode()).decode()
    assert keys.newest is not None
    store.manifest.write_bytes(keys.newest.seal(name, json.dumps(envelope).encode()))


def older(store: BadStore) -> None:
    key = signer_key(store.key.read_text().strip())
    store.manifest.write_bytes(sign_payload(PAYLOAD_TYPE, json.dumps({"format": 0}).encode(), [key]))


def lacking(store: BadStore) -> None:
    for path in store.objects() - store.first:
        path.unlink()


def other_key(store: BadStore) -> None:
    store.backup_key.unlink()
    store.place.shell.run("backup", "new-key", store.backup_key)


def other_signer(store: BadStore) -> None:
    made = store.place.shell.run("keys", "new", "b.example", "--file", store.key.with_name("b.key")).out
    store.vkey.write_text(made)


CASES = {
    "garbage": (garbage, {"BACKUP_NOT_ENCRYPTED"}),
    "cut": (cut, {"MANIFEST_REFUSED", "BACKUP_DAMAGED", "BACKUP_NOT_ENCRYPTED"}),
    "unsigned": (unsigned, {"BACKUP_NOT_ENCRYPTED"}),
    "changed": (changed, {"MANIFEST_REFUSED"}),
    "signed by another": (other_signer, {"MANIFEST_REFUSED"}),
    "an older format": (older, {"BACKUP_FORMAT", "BACKUP_NOT_ENCRYPTED"}),
    "lacks a part": (lacking, {"OBJECT_MISSING", "BACKUP_DAMAGED"}),
    "another key": (other_key, {"BACKUP_KEY_MISSING"}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_backup_that_does_not_fit_is_neither_restored_nor_followed_and_a_copy_stays_as_it_was(
    tmp_path: Path, case: str
) -> None:
    harm, codes = CASES[case]
    store = BadStore(tmp_path)
    harm(store)
    before = held(store.place.store, store.copy)
    new = tmp_path / "new"
    for command in (store.restore, store.follow):
        error = refusal(partial(command, new))
        assert error.code in codes, error.message
        assert not list(new.rglob("*.jsonl"))
    error = refusal(lambda: store.follow(store.copy))
    assert error.code in codes, error.message
    assert held(store.place.store, store.copy) == before
    assert CommandLine(store.copy).run("verify", "--json").json["sound"]


@pytest.mark.parametrize("case", CASES)
def test_verify_says_what_is_wrong_with_a_backup_and_changes_nothing(tmp_path: Path, case: str) -> None:
    harm, codes = CASES[case]
    store = BadStore(tmp_path)
    assert store.verify()["sound"]
    harm(store)
    before = held(store.place.store, store.copy)
    if case == "lacks a part":
        found = store.verify()
        assert not found["sound"]
        assert "objects/" in str(found)
    else:
        error = refusal(store.verify)
        assert error.code in codes, error.message
    assert held(store.place.store, store.copy) == before


@pytest.mark.parametrize("case", ["garbage", "cut", "unsigned", "changed"])
def test_the_backup_after_one_that_is_damaged_is_sound_and_leaves_it_as_it_is(tmp_path: Path, case: str) -> None:
    store = BadStore(tmp_path)
    CASES[case][0](store)
    before = held(store.place.store)
    store.back_up()
    assert before.items() <= held(store.place.store).items()
    found = store.verify()
    assert (found["sound"], found["number"]) == (True, 3)


@pytest.mark.parametrize("case", ["an older format", "another key"])
def test_nothing_is_backed_up_to_a_store_that_another_version_or_key_is_needed_for(tmp_path: Path, case: str) -> None:
    harm, codes = CASES[case]
    store = BadStore(tmp_path)
    harm(store)
    before = held(store.place.store)
    assert refusal(store.back_up).code in codes
    assert held(store.place.store) == before


# -- streams


class BadStream:
    """A machine's memory, and a stream that does not fit it."""

    def __init__(self, cluster: Cluster, root: Path) -> None:
        self.name = stream_for(root)
        self.client = Client(Servers((cluster.url,)), name="an operator")
        assert self.client.wait(timeouts.SECONDS)
        monitors = tuple(f"http://{server.host}:{server.monitor_port}" for server in cluster.nodes)
        self.memory = Settings(
            base=root / "memory", log_url=cluster.url, log_stream=self.name, log_monitor=monitors, log_replicas=1
        )
        self.files = Settings(base=root / "files", log_stream=self.name)
        self.replica = Settings(base=root / "replica", log_stream=self.name)

    def asked(self, what: str, **asked: Any) -> dict[str, Any]:
        answer = self.client.request(f"$JS.API.{what}", msgspec.json.encode(asked), seconds=timeouts.SECONDS)
        return msgspec.json.decode(answer.data, type=dict[str, Any])

    def stored(self) -> tuple[int, list[str]]:
        """How many messages the stream has but for those in which machines speak of themselves, and its subjects."""
        found = self.asked(f"STREAM.INFO.{self.name}", subjects_filter=">")
        subjects = found["state"].get("subjects") or {}
        logs = sum(count for subject, count in subjects.items() if ".log." in subject or ".orders." in subject)
        return logs, found["config"]["subjects"]

    def migrate(self) -> None:
        log = app.open_log(self.files)
        if not log.head().lamport:
            filled(log, 3)
        log.close()
        on_stream = msgspec.structs.replace(
            self.memory, base=self.files.base, log_url=self.memory.log_url, log_monitor=self.memory.log_monitor
        )
        migrate(app.operation_context(on_stream), self.memory.log_url)

    def migrate_back(self) -> None:
        """To files, from what this machine has of the stream."""
        migrate(app.operation_context(self.memory), "file")

    def follow(self) -> None:
        with following(self.replica, self.memory.log_url) as look:
            look()

    def open(self) -> None:
        app.open_log(self.memory).close()


def test_a_stream_of_another_layout_is_refused_by_who_opens_migrates_or_follows(
    nats_server: Cluster, tmp_path: Path
) -> None:
    stream = BadStream(nats_server, tmp_path)
    stream.asked(f"STREAM.CREATE.{stream.name}", name=stream.name, subjects=[f"{stream.name}.orders.*"], storage="file")
    stream.client.request(f"{stream.name}.orders.one", b"an order", seconds=timeouts.SECONDS)
    before = stream.stored()
    for command in (stream.open, stream.migrate, stream.follow):
        error = refusal(command)
        assert (error.code, "not laid out" in error.message) == ("LOG_UNSUITABLE", True)
    assert stream.stored() == before
    assert own_lines(stream.files) == 3
    assert not list(tmp_path.joinpath("replica").rglob("*.jsonl"))
    stream.client.close()


@pytest.mark.parametrize("wrong", ["another chain", "lines that are none", "an older format"])
def test_a_log_that_does_not_continue_in_the_stream_is_refused_by_who_opens_migrates_or_follows(
    nats_server: Cluster, tmp_path: Path, wrong: str
) -> None:
    stream = BadStream(nats_server, tmp_path)
    log = app.open_log(stream.memory)
    filled(log, 3)
    head = log.head()
    log.close()
    stream.follow()
    before = held(stream.memory.base, stream.replica.base)
    elsewhere = entries(msgspec.structs.replace(head, record_hash="0" * 64), draft(operation("forged")))
    headers, data = group_headers(elsewhere, head, "a stranger"), group_lines(elsewhere)
    if wrong == "lines that are none":
        data = b"no commit\n"
    if wrong == "an older format":
        headers["Tallystick-Format"] = "0"
    subject = Layout(stream.name).log("default")
    answer = stream.client.request(subject, data, headers=headers, seconds=timeouts.SECONDS)
    stored = stream.stored()
    for command in (stream.open, stream.migrate, stream.migrate_back, stream.follow):
        error = refusal(command)
        assert error.code in {"LOG_CORRUPT", "LOG_DIVERGED"}, error.message
    after = held(stream.memory.base, stream.replica.base)
    assert {path: data for path, data in after.items() if path.suffix == ".jsonl"} == {
        path: data for path, data in before.items() if path.suffix == ".jsonl"
    }
    assert stream.stored() == stored
    assert own_lines(stream.files) == 3
    # As the runbook says.
    assert stream.asked(f"STREAM.MSG.DELETE.{stream.name}", seq=json.loads(answer.data)["seq"])["success"]
    log = app.open_log(stream.memory)
    assert append(log, draft(operation("goes on")))[0].commit.lamport == 4
    log.close()
    stream.client.close()


def own_lines(settings: Settings) -> int:
    return sum(path.read_bytes().count(b"\n") for path in (settings.base / "_system" / "log").glob("*.jsonl"))
