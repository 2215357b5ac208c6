"""Backups: what is new, once; proven without restoring; restored to the very same memory; nothing overwritten."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tallystick.audit import BackupFailed
from tallystick.audit.proof import events
from tallystick.clock import wall_clock
from tallystick.errors import Conflict, Corrupt, InvalidArgument, NotFound, StorageRefused, TallystickError
from tallystick.log.files import FilesLog
from tests.command_line import CommandLine, node
from tests.commits_by_hand import append, draft, entries
from tests.commits_by_hand import node as operation
from tests.promises import promise

WORD = "Qz7731Xyzzy"


class Place:
    """A memory, a store, and somewhere to restore to."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = root / "store"
        self.url = f"file://{self.store}"
        self.shell = CommandLine(root / "memory")
        self.extra: list[object] = []

    def back_up(self, *words: object) -> Any:
        return self.shell.run("backup", self.url, "--json", *self.extra, *words).json

    def restore(self, *words: object, to: str = "restored") -> Any:
        return self.shell.run("restore", self.url, "--base", self.root / to, "--json", *self.extra, *words).json

    def verify(self, *words: object) -> Any:
        return self.shell.run("backup", "verify", self.url, "--json", *self.extra, *words).json

    def objects(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (self.store / "objects").rglob("*") if path.is_file()}

    def manifests(self) -> list[int]:
        return sorted(int(path.name) for path in (self.store / "manifests").iterdir())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.shell.write(node("a", said="one"), node("b", said="two"))
    place.shell.write(node("theirs", word="theirs alone"), tenant="acme")
    return place


def same_log(left: Path, right: Path) -> bool:
    """Byte for byte, whatever files it is spread over, and the kept position with it."""
    lines = [
        b"".join(path.read_bytes() for path in sorted((at / "_system/log").glob("*.jsonl"))) for at in (left, right)
    ]
    return lines[0] == lines[1] and (left / "_system/head").read_bytes() == (right / "_system/head").read_bytes()


def put_content(place: Place, data: bytes) -> str:
    """A blob, as the tools that write large contents leave it, and the commit that names it."""
    from tallystick.projections.content import Contents

    prepared = Contents(place.shell.base).prepare("nodes", "big", "bin", "base64", data)
    log = FilesLog(place.shell.base / "_system")
    named = operation("big")
    named.payload["content"] = prepared.content
    append(log, draft(named))
    log.close()
    return str(prepared.content["blob"])


# -- whole and new


@promise("§5.4, restore", "what is restored is the same memory, of every tenant")
def test_what_is_restored_is_the_same_memory_of_every_tenant(place: Place) -> None:
    blob = put_content(place, os.urandom(400_000))
    (place.shell.base / "notes").mkdir()
    (place.shell.base / "notes" / "draft.txt").write_text("not in the log")
    done = place.back_up()
    assert {each["tenant"]: each["commits"] for each in done["tenants"]} == {"acme": 1, "default": 3}
    restored = place.restore()
    home = place.root / "restored"
    assert same_log(place.shell.base, home)
    assert same_log(place.shell.base / "tenants/acme", home / "tenants/acme")
    assert (home / "notes/draft.txt").read_text() == "not in the log"
    assert (home / "_content/blobs" / blob).stat().st_size == 400_000
    assert restored["notes"] == []
    other = CommandLine(home)
    for tenant in ("default", "acme"):
        assert other.run("verify", "--views", "--tenant", tenant, "--json").json["sound"]
    assert other.run("show", "theirs", "--tenant", "acme", "--json").json["entity"]["attrs"] == {"word": "theirs alone"}
    other.write(node("goes on"))
    assert other.run("verify", "--json").json["commits"] == 4


def test_nothing_new_makes_no_backup_and_a_little_new_puts_little(place: Place) -> None:
    place.shell.write(*(node(f"n{number}", text="x" * 1000) for number in range(300)))
    first = place.back_up()
    assert first["new_bytes"] > 300_000
    assert place.back_up()["is_new"] is False
    assert place.manifests() == [1]
    place.shell.write(node("one more", text="y" * 1000))
    second = place.back_up()
    assert (second["is_new"], second["number"]) == (True, 2)
    assert second["new_bytes"] < 20_000
    assert place.verify()["sound"]


def test_a_backup_is_listed_however_high_its_number(place: Place) -> None:
    place.back_up()
    (place.store / "manifests/9999999999").write_bytes(b"put there by somebody")
    place.shell.write(node("c"))
    assert place.back_up()["number"] == 10_000_000_000
    assert place.verify()["number"] == 10_000_000_000


def test_many_small_backups_leave_few_parts(place: Place) -> None:
    from tallystick.extensions.backup.manifest import read_manifest

    for number in range(12):
        log = FilesLog(place.shell.base / "_system")
        append(log, draft(operation(f"m{number}")))
        log.close()
        place.back_up()
    manifest = read_manifest((place.store / "manifests" / "0000000012").read_bytes(), "it", ()).manifest
    tenant = manifest.find("default")
    assert tenant is not None
    assert len(tenant.log) <= 5
    assert place.verify()["commits"] == 15
    place.restore()
    assert same_log(place.shell.base, place.root / "restored")


def test_private_keys_secrets_and_settings_stay_here(place: Place) -> None:
    base = place.shell.base
    secrets = {"tls.pem": "-----PRIVATE " + WORD, ".hidden": WORD, "graph.config.yaml": f"agent_identity: {WORD}\n"}
    for name, text in secrets.items():
        (base / name).write_text(text)
    (base / "tallystick.toml").write_text(f'tls_key = "{base}/tls.pem"\nagent_identity = "{WORD}"\n')
    place.back_up()
    assert not [name for name, data in place.objects().items() if WORD.encode() in data]


def test_a_backup_says_how_it_went_and_what_waits(place: Place) -> None:
    assert place.shell.run("backup", "status", "--json").json == {"targets": []}
    place.back_up()
    place.shell.write(node("new"))
    (status,) = place.shell.run("backup", "status", "--json").json["targets"]
    assert (status["target"], status["number"], status["waiting"], status["failed"]) == (place.url, 1, 1, None)
    (listed,) = place.shell.run("backup", "list", place.url, "--json").json["backups"]
    assert (listed["number"], listed["commits"], listed["is_signed"]) == (1, 3, False)


@promise("§5.7, retention", "backups are kept by number and by age")
def test_backups_are_kept_by_number_and_what_only_the_old_needed_goes(place: Place) -> None:
    draft_file = place.shell.base / "draft.txt"
    for number in range(5):
        draft_file.write_text(f"version {number} {WORD}")
        os.utime(draft_file, ns=(number, number))
        done = place.shell.run("backup", place.url, "--json", TALLYSTICK_BACKUP_KEEP="2").json
    assert place.manifests() == [4, 5]
    assert done["expired"] == [3]
    assert sum(WORD.encode() in data for data in place.objects().values()) == 2
    assert place.verify("--backup", 4)["sound"]


def test_backups_are_kept_by_age_and_the_newest_stays(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from tallystick.extensions.backup import run

    place.back_up()
    later = wall_clock() + 3 * 86_400_000
    monkeypatch.setattr(run, "wall_clock", lambda: later)
    place.shell.run("backup", place.url, TALLYSTICK_BACKUP_KEEP_DAYS="2")
    assert place.manifests() == [1]
    place.shell.write(node("new"))
    place.shell.run("backup", place.url, TALLYSTICK_BACKUP_KEEP_DAYS="2")
    assert place.manifests() == [2]


def test_a_tenant_that_was_deleted_leaves_new_backups_and_one_that_vanished_does_not(place: Place) -> None:
    import shutil

    place.shell.write(node("x"), tenant="other")
    place.back_up()
    place.shell.run("tenants", "delete", "acme", "--yes")
    assert {each["tenant"] for each in place.back_up()["tenants"]} == {"default", "other"}
    shutil.rmtree(place.shell.base / "tenants" / "other")
    again = place.shell.run("backup", place.url, "--json")
    assert again.code == 1
    assert {each["tenant"] for each in again.json["tenants"]} == {"default", "other"}
    assert "nobody deleted it" in again.json["problems"][0]


def test_a_tenant_that_vanished_is_kept_though_an_earlier_one_of_its_name_was_deleted(place: Place) -> None:
    import shutil

    place.shell.run("tenants", "delete", "acme", "--yes")
    place.shell.write(node("x"), tenant="acme")
    place.back_up()
    shutil.rmtree(place.shell.base / "tenants" / "acme")
    assert {each["tenant"] for each in place.back_up()["tenants"]} == {"default", "acme"}


def test_a_tenant_that_was_written_by_a_clock_ahead_of_ours_is_known_to_be_deleted(place: Place) -> None:
    def write(name: str) -> None:
        log = FilesLog(place.shell.base / "tenants/acme/_system")
        head = log.head()
        ahead = wall_clock() + 86_400_000
        log.append(entries(head, draft(operation(name)), tenant="acme", now=ahead), expected=head)
        log.close()

    write("x")
    place.back_up()
    write("y")
    place.shell.run("tenants", "delete", "acme", "--yes")
    assert {each["tenant"] for each in place.back_up()["tenants"]} == {"default"}


# -- damage


def test_a_damaged_log_keeps_its_last_backup_and_does_not_hold_up_the_others(place: Place) -> None:
    place.back_up()
    (segment,) = (place.shell.base / "tenants/acme/_system/log").glob("*.jsonl")
    place.shell.write(node("later"), tenant="acme")
    segment.write_bytes(segment.read_bytes().replace(b'"later"', b'"LATER"'))
    place.shell.write(node("new"))
    result = place.shell.run("backup", place.url, "--json")
    assert result.code == 1
    assert {each["tenant"]: each["commits"] for each in result.json["tenants"]} == {"acme": 1, "default": 3}
    assert result.json["problems"][0].startswith("acme: ")
    assert place.verify()["sound"]


def test_a_good_copy_is_never_replaced_by_damaged_bytes(place: Place) -> None:
    """Small parts are merged, and so read again: what was damaged since must not get into the store."""
    place.back_up()
    (segment,) = (place.shell.base / "_system/log").glob("*.jsonl")
    segment.write_bytes(segment.read_bytes().replace(b'"said":"one"', b'"said":"ONE"'))
    log = FilesLog(place.shell.base / "_system")
    append(log, *(draft(operation(f"m{number}", text="x" * 500)) for number in range(20)))
    log.close()
    result = place.shell.run("backup", place.url, "--json")
    assert result.code == 1
    assert "content_hash" in result.json["problems"][0]
    assert not [name for name, data in place.objects().items() if b'"said":"ONE"' in data]
    place.restore()


def test_a_blob_that_is_missing_is_told_and_one_that_was_backed_up_stays(place: Place) -> None:
    blob = put_content(place, os.urandom(300_000))
    place.back_up()
    (place.shell.base / "_content/blobs" / blob).unlink()
    lost = put_content(place, os.urandom(300_001))
    (place.shell.base / "_content/blobs" / lost).unlink()
    result = place.shell.run("backup", place.url, "--json")
    assert (result.code, result.json["problems"]) == (1, [f"default: blob {lost} is missing or damaged"])
    restored = place.restore()
    assert (place.root / "restored/_content/blobs" / blob).exists()
    assert restored["tenants"][1]["missing"] == [lost]


@pytest.mark.parametrize("harm", ["flip", "cut", "remove", "swap"])
def test_a_backup_that_was_altered_is_neither_proven_nor_restored(place: Place, harm: str) -> None:
    place.back_up()
    paths = sorted((place.store / "objects").rglob("*/*"), key=lambda path: path.stat().st_size)
    victim = paths[-1]
    data = victim.read_bytes()
    harmed = {"flip": data[:50] + bytes([data[50] ^ 1]) + data[51:], "cut": data[:-1], "swap": paths[0].read_bytes()}
    victim.unlink()
    if harm in harmed:
        victim.write_bytes(harmed[harm])
    result = place.shell.run("backup", "verify", place.url, "--json")
    assert (result.code, result.json["sound"]) == (1, False)
    with pytest.raises((Corrupt, NotFound)) as refused:
        place.restore()
    assert refused.value.code in ("BACKUP_DAMAGED", "OBJECT_MISSING")
    assert not (place.root / "restored/_system").exists()
    assert list((place.root / "restored").iterdir()) == []


@pytest.mark.parametrize("grows", [False, True])
def test_objects_that_are_gone_from_the_store_are_told_and_put_again(place: Place, grows: bool) -> None:
    put_content(place, os.urandom(300_000))
    (place.shell.base / "notes.txt").write_text("not in the log")
    place.shell.write(*(node(f"n{number}", text="x" * 1000) for number in range(20)))
    place.back_up()
    whole = place.objects()
    for path in (place.store / "objects").rglob("*/*"):
        path.unlink()
    if grows:
        place.shell.write(node("one more"))
    done = place.back_up()
    assert (done["lost_objects"], done["is_new"], done["problems"]) == (len(whole), grows, [])
    assert grows or place.objects() == whole
    assert place.verify()["sound"]
    place.restore()
    assert same_log(place.shell.base, place.root / "restored")
    assert place.back_up()["lost_objects"] == 0


def test_each_object_that_is_gone_is_put_again_for_itself(place: Place) -> None:
    """A few lines behind a large part make a log of several parts; what is there is not put a second time."""
    place.shell.write(*(node(f"n{number}", text="x" * 1000) for number in range(50)))
    place.back_up()
    first = place.objects()
    place.shell.write(node("a little"))
    place.back_up()
    added = [name for name in place.objects() if name not in first]
    for name in (*added, max(first, key=lambda each: len(first[each]))):
        size = len(place.objects()[name])
        (place.store / "objects" / name[:2] / name).unlink()
        done = place.back_up()
        assert (done["lost_objects"], done["new_objects"]) == (1, 1)
        assert size <= done["new_bytes"] < size + 10_000
        assert place.verify()["sound"]
    (place.store / "objects" / name[:2] / name).unlink()
    assert "1 object of the last backup had gone" in place.shell.run("backup", place.url).err


def test_a_blob_that_is_gone_here_and_in_the_store_is_promised_by_no_new_backup(place: Place) -> None:
    blob = put_content(place, os.urandom(300_000))
    place.back_up()
    (place.shell.base / "_content/blobs" / blob).unlink()
    (place.store / "objects" / blob[:2] / blob).unlink()
    result = place.shell.run("backup", place.url, "--json")
    assert (result.code, result.json["problems"]) == (1, [f"default: blob {blob} is missing or damaged"])
    assert place.shell.run("backup", "verify", place.url, "--json").json["problems"] == [
        f"default: blob {blob} was missing when it was backed up"
    ]
    assert place.restore()["tenants"][1]["missing"] == [blob]


def test_a_log_that_is_damaged_here_and_gone_from_the_store_is_told(place: Place) -> None:
    place.back_up()
    for path in (place.store / "objects").rglob("*/*"):
        path.unlink()
    (segment,) = (place.shell.base / "tenants/acme/_system/log").glob("*.jsonl")
    segment.write_bytes(segment.read_bytes().replace(b'"theirs alone"', b'"THEIRS alone"'))
    result = place.shell.run("backup", place.url, "--json")
    assert result.code == 1
    assert [problem.partition(":")[0] for problem in result.json["problems"]] == ["acme", "acme"]
    assert result.json["problems"][1].endswith("gone from the store, and nothing here takes their place")


# -- refused


def test_a_base_that_is_not_empty_is_left_as_it_is(place: Place) -> None:
    place.back_up()
    (place.root / "restored").mkdir()
    (place.root / "restored" / "mine.txt").write_text("mine")
    with pytest.raises(Conflict) as refused:
        place.restore()
    assert refused.value.code == "NOT_EMPTY"
    with pytest.raises(Conflict):
        place.restore(to="memory")
    assert [path.name for path in (place.root / "restored").iterdir()] == ["mine.txt"]


def test_settings_may_be_there_before_a_restore(place: Place) -> None:
    place.back_up()
    (place.root / "restored").mkdir()
    (place.root / "restored" / "tallystick.toml").write_text("max_hops = 2\n")
    place.restore()
    assert CommandLine(place.root / "restored").run("verify", "--json").json["sound"]


def test_another_memory_is_refused_by_a_store_that_has_one(place: Place, tmp_path: Path) -> None:
    place.back_up()
    other = CommandLine(tmp_path / "other")
    other.write(node("stranger"))
    with pytest.raises(Conflict) as refused:
        other.run("backup", place.url)
    assert refused.value.code == "OTHER_MEMORY"
    assert place.manifests() == [1]


def test_a_copy_that_went_its_own_way_is_refused(place: Place) -> None:
    place.back_up()
    place.restore()
    place.shell.write(node("here"))
    place.back_up()
    other = CommandLine(place.root / "restored")
    other.write(node("there"))
    with pytest.raises(Conflict) as refused:
        other.run("backup", place.url)
    assert refused.value.code == "BACKUP_DIVERGED"
    assert place.manifests() == [1, 2]


@pytest.mark.parametrize("format", [0, 2])
def test_another_format_is_refused_with_what_to_do(place: Place, format: int) -> None:
    from tallystick.commits.dsse import sign_payload
    from tallystick.extensions.backup.manifest import PAYLOAD_TYPE

    place.back_up()
    (place.store / "manifests" / "0000000001").write_bytes(
        sign_payload(PAYLOAD_TYPE, json.dumps({"format": format, "all": "else"}).encode(), ())
    )
    with pytest.raises(InvalidArgument) as refused:
        place.restore()
    assert (refused.value.code, "version of tallystick" in str(refused.value.hint)) == ("BACKUP_FORMAT", True)


@pytest.mark.parametrize("path", ["../out", "/etc/x", "_system/head", "a/../../b", ".ssh/keys", "tenants/x/y", "a\0b"])
def test_a_manifest_cannot_name_a_file_outside_what_backups_hold(place: Place, path: str) -> None:
    import msgspec

    from tallystick.extensions.backup.manifest import StoredFile, read_manifest, sign_manifest

    place.back_up()
    stored = place.store / "manifests" / "0000000001"
    manifest = read_manifest(stored.read_bytes(), "it", ()).manifest
    tenant = manifest.tenants[1]
    evil = msgspec.structs.replace(tenant, files=[StoredFile(path, [tenant.log[0].piece])])
    stored.write_bytes(sign_manifest(msgspec.structs.replace(manifest, tenants=[evil]), ()))
    with pytest.raises(Corrupt) as refused:
        place.restore()
    assert refused.value.code == "MANIFEST_REFUSED"


@promise("§5.4, moments", "a past moment can be restored")
def test_a_moment_can_be_restored_and_positions_are_a_tenants_own(place: Place) -> None:
    place.shell.write(node("c"), node("d"))
    place.back_up()
    with pytest.raises(InvalidArgument, match="its own positions"):
        place.restore("--as-of", "3")
    place.restore("--as-of", "3", "--tenant", "default")
    proof = CommandLine(place.root / "restored").run("verify", "--json").json
    assert (proof["sound"], proof["position"]) == (True, 3)
    assert not (place.root / "restored/tenants").exists()


def test_a_time_ends_every_log_between_two_drafts(place: Place) -> None:
    log = FilesLog(place.shell.base / "_system")
    last = log.head().timestamp
    log.close()
    place.shell.write(node("later"), node("later still"))
    place.back_up()
    place.restore("--as-of", last)
    assert CommandLine(place.root / "restored").run("verify", "--json").json["position"] == 2
    with pytest.raises(InvalidArgument, match="neither a position nor"):
        place.restore("--as-of", "yesterday", to="other")


def test_a_target_in_the_base_or_none_at_all_is_refused(place: Place) -> None:
    for words, code in ((("backup",), "NO_TARGET"), (("backup", f"file://{place.shell.base}/b"), "STORE_INVALID")):
        with pytest.raises(InvalidArgument) as refused:
            place.shell.run(*words)
        assert refused.value.code == code


@pytest.mark.parametrize("url", ["file://host/x", "file://[bad", "file:///srv/a#b"])
def test_a_setting_that_names_no_store_does_not_stop_who_looks(place: Place, url: str) -> None:
    (place.shell.base / "tallystick.toml").write_text(f'backup_to = "{url}"')
    assert [each["number"] for each in place.shell.run("backup", "status", "--json").json["targets"]] == [None]
    with pytest.raises(InvalidArgument):
        place.shell.run("backup")


@pytest.mark.parametrize("words", [("backup", "list"), ("backup", "verify"), ("restore",)])
def test_a_directory_that_is_not_there_is_no_store_without_backups(place: Place, words: tuple[str, ...]) -> None:
    with pytest.raises(StorageRefused, match=r"typo.*there is no such directory"):
        place.shell.run(*words, f"file://{place.root}/typo", "--base", place.root / "restored")
    assert not (place.root / "typo").exists()
    assert not (place.root / "restored").exists()


def test_a_failure_is_an_incident_once_and_is_shown_until_one_succeeds(place: Place) -> None:
    place.store.write_text("in the way")
    for _ in range(3):
        with pytest.raises(TallystickError):
            place.back_up()
    audit = place.shell.base / "_system" / "audit"
    assert [event.code for _, event in events(audit, BackupFailed)] == ["STORE_REFUSED"]
    (status,) = place.shell.run("backup", "status", "--json").json["targets"]
    assert status["failed"]
    assert status["failing_since"]
    place.store.unlink()
    place.back_up()
    (status,) = place.shell.run("backup", "status", "--json").json["targets"]
    assert status["failed"] is None


def test_a_failure_elsewhere_is_forgotten_when_a_backup_succeeds(place: Place) -> None:
    (place.root / "file").write_text("in the way")
    with pytest.raises(StorageRefused):
        place.shell.run("backup", f"file://{place.root}/file")
    assert _findings(place) == ["bad"]
    place.back_up()
    assert _findings(place) == ["good"]


def test_a_store_that_was_given_up_is_bad_until_a_backup_succeeds_elsewhere(place: Place) -> None:
    place.back_up()
    place.store.rename(place.root / "away")
    place.store.write_text("in the way")
    with pytest.raises(StorageRefused):
        place.back_up()
    assert _findings(place) == ["bad"]
    other = f"file://{place.root}/other"
    place.shell.run("backup", other)
    assert _findings(place) == ["odd", "good"]
    assert _findings(place, TALLYSTICK_BACKUP_TO=place.url) == ["bad", "good"]


def _findings(place: Place, **environ: str) -> list[str]:
    found = place.shell.run("doctor", "--json", **environ).json["findings"]
    return [each["status"] for each in found if each["what"] == "backup"]


def test_a_store_that_was_noted_before_its_address_was_quoted_is_known(place: Place) -> None:
    place.shell.run("backup", f"file://{place.root}/50%25%23")
    noted = place.shell.base / "_system/stored_backups.json"
    noted.write_text(noted.read_text().replace("%25", "%").replace("%23", "#"))
    (status,) = place.shell.run("backup", "status", "--json").json["targets"]
    assert status["target"] == f"file://{place.root}/50%25%23"
    place.shell.run("backup", status["target"])
    assert list(json.loads(noted.read_text())) == [status["target"]]


# -- signed and encrypted


def test_a_manifest_is_signed_and_another_key_is_not_believed(place: Place, tmp_path: Path) -> None:
    made = place.shell.run("keys", "new", "memory.example/a", "--file", tmp_path / "a.key").out
    (tmp_path / "a.vkey").write_text(made)
    (tmp_path / "b.vkey").write_text(place.shell.run("keys", "new", "b.example", "--file", tmp_path / "b.key").out)
    place.back_up()
    unsigned = place.shell.main("restore", place.url, "--base", tmp_path / "r", "--vkey", tmp_path / "a.vkey")
    assert (unsigned.code, "MANIFEST_REFUSED" in unsigned.err) == (1, True)
    place.shell.write(node("new"))
    key = {"TALLYSTICK_CHECKPOINT_KEY": str(tmp_path / "a.key")}
    assert place.shell.run("backup", place.url, "--json", **key).json["signed_by"] == [made.strip()]
    assert place.verify("--vkey", tmp_path / "a.vkey")["signed_by"] == [made.strip()]
    with pytest.raises(Corrupt) as refused:
        place.restore("--vkey", tmp_path / "b.vkey")
    assert refused.value.code == "MANIFEST_REFUSED"
    assert place.restore("--vkey", tmp_path / "a.vkey")["signed_by"] == [made.strip()]


@promise("§5.3, backups", "encrypted backups tell nothing, and rotated keys read what they wrote")
def test_encrypted_backups_tell_nothing_and_rotated_keys_read_what_they_wrote(place: Place, tmp_path: Path) -> None:
    place.shell.write(node("secret", said=WORD))
    keys = tmp_path / "backup.key"
    place.shell.run("backup", "new-key", keys)
    place.extra = ["--key", keys]
    first = place.back_up()
    alone = keys.read_text()
    place.shell.run("backup", "new-key", keys)
    place.shell.write(node("after", said=WORD + "2"))
    second = place.back_up()
    assert first["key"] != second["key"]
    stored = b"".join(path.read_bytes() for path in place.store.rglob("*") if path.is_file())
    assert not [word for word in (WORD, "acme", "record_hash") if word.encode() in stored]
    assert place.verify()["sound"]
    place.restore()
    assert same_log(place.shell.base, place.root / "restored")
    keys.write_text(alone)
    assert place.verify("--backup", 1)["sound"]
    with pytest.raises(InvalidArgument) as refused:
        place.restore(to="other")
    assert refused.value.code == "BACKUP_KEY_MISSING"
    keys.write_text(keys.read_text().replace("A", "B", 1).replace("a", "b", 1))
    with pytest.raises(InvalidArgument):
        place.restore("--backup", "1", to="other")
    place.extra = []
    with pytest.raises(InvalidArgument, match="encrypted with key"):
        place.restore(to="other")


def test_an_encrypted_object_under_another_name_is_refused(place: Place, tmp_path: Path) -> None:
    keys = tmp_path / "backup.key"
    place.shell.run("backup", "new-key", keys)
    place.extra = ["--key", keys]
    place.back_up()
    first, second, *_ = sorted((place.store / "objects").rglob("*/*"))
    size = first.stat().st_size
    first.write_bytes(second.read_bytes().ljust(size, b"\0")[:size])
    result = place.shell.run("backup", "verify", place.url, "--json", "--key", keys)
    assert (result.code, "cannot be decrypted" in " ".join(result.json["problems"])) == (1, True)


def test_a_key_file_that_others_may_read_or_that_lies_in_the_base_is_refused(place: Place, tmp_path: Path) -> None:
    keys = tmp_path / "backup.key"
    place.shell.run("backup", "new-key", keys)
    keys.chmod(0o644)
    for path in (keys, place.shell.base / "backup.key", tmp_path / "none"):
        with pytest.raises(InvalidArgument) as caught:
            place.shell.run("backup", place.url, "--key", path)
        assert caught.value.code == "BACKUP_KEY_INVALID"
    with pytest.raises(InvalidArgument) as caught:
        place.shell.run("backup", "new-key", place.shell.base / "backup.key")
    assert caught.value.code == "BACKUP_KEY_INVALID"
    printed = {"TALLYSTICK_BACKUP_KEY_COMMAND": f"cat {keys}"}
    assert place.shell.run("backup", place.url, "--json", **printed).json["key"]


# -- redactions


@promise("L51, backups", "a redaction reaches the backups")
def test_a_redaction_reaches_the_store_and_older_backups_go(place: Place) -> None:
    place.shell.write(node("person", name=WORD), node("other"))
    blob = put_content(place, WORD.encode() * 50_000)
    place.back_up()
    place.shell.write(node("between"))
    place.back_up()
    place.shell.write({"op": "REDACT_NODE", "node_id": "person", "reason": "asked"})
    place.shell.write({"op": "REDACT_NODE", "node_id": "big", "reason": "asked"})
    pending = place.shell.run("redactions", "--pending", "--json").json["backups"]
    assert [(each["target"], each["id"]) for each in pending] == [
        (place.url, f"{place.url}#1"), (place.url, f"{place.url}#2"),
    ]  # fmt: skip
    done = place.back_up()
    assert done["expired"] == [1, 2]
    assert place.manifests() == [3]
    assert not [name for name, data in place.objects().items() if WORD.encode() in data]
    assert place.shell.run("redactions", "--pending", "--json").json["backups"] == []
    place.restore()
    assert same_log(place.shell.base, place.root / "restored")
    assert not (place.root / "restored/_content/blobs" / blob).exists()
    assert CommandLine(place.root / "restored").run("verify", "--json").json["sound"]


def test_a_moment_before_a_redaction_cannot_be_restored_where_it_held_the_value(place: Place) -> None:
    place.shell.write(node("person", name=WORD), node("other"))
    place.shell.write({"op": "REDACT_NODE", "node_id": "person", "reason": "asked"})
    place.back_up()
    with pytest.raises(Conflict) as refused:
        place.restore("--as-of", "4", "--tenant", "default")
    assert (refused.value.code, refused.value.hint) == (
        "REDACTED_SINCE", "restore a position before 3, or 5 or later",
    )  # fmt: skip
    place.restore("--as-of", "2", "--tenant", "default")
    assert CommandLine(place.root / "restored").run("verify", "--json").json["position"] == 2


def test_forgetting_a_person_names_the_backups_that_still_have_them(place: Place) -> None:
    place.shell.write(node("person", name=WORD))
    place.back_up()
    report = place.shell.run("forget", "--subject", WORD, "--reason", "asked", "--yes", "--json").json
    assert [each["id"] for each in report["backups_taken_before"]] == [f"{place.url}#1"]
    place.back_up()
    assert place.manifests() == [2]


# -- interrupted


def test_a_restore_that_was_interrupted_is_not_opened_and_the_next_begins_anew(place: Place) -> None:
    place.back_up()
    base = place.root / "restored"
    (base / ".restoring/tree/_system/log").mkdir(parents=True)
    (base / ".restoring/tree/_system/log/half").write_text("half")
    other = CommandLine(base)
    with pytest.raises(Conflict) as refused:
        other.write(node("x"))
    assert refused.value.code == "RESTORE_UNFINISHED"
    place.restore()
    assert same_log(place.shell.base, base)


def test_a_restore_that_died_while_it_moved_things_is_finished_by_the_next(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.back_up()
    renamed = os.rename
    base = place.root / "restored"

    def dies(source: Any, target: Any) -> None:
        if Path(target) == base / "tenants":
            raise RuntimeError
        renamed(source, target)

    monkeypatch.setattr(os, "rename", dies)
    with pytest.raises(RuntimeError):
        place.restore()
    monkeypatch.setattr(os, "rename", renamed)
    with pytest.raises(Conflict):
        CommandLine(base).write(node("x"))
    place.restore()
    assert same_log(place.shell.base, base)
    assert same_log(place.shell.base / "tenants/acme", base / "tenants/acme")


def test_what_stands_where_a_snapshot_was_and_is_no_file_is_passed_over(place: Place) -> None:
    snapshots = place.shell.base / "_system" / "snapshots"
    snapshots.mkdir(exist_ok=True)
    (snapshots / "00000000000000000001.snapshot").mkdir()
    assert place.back_up()["number"] == 1
    assert place.verify()["sound"]
