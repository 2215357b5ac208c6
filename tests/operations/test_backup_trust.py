"""Backups that were not made by us: a restore takes the names that `capture` writes, and compares every figure."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick.errors import Corrupt, InvalidArgument, TallystickError
from tallystick.extensions.backup.contents import is_plain, require_contained
from tallystick.extensions.backup.manifest import (
    LogPart,
    Manifest,
    Piece,
    RedactionNote,
    StoredFile,
    TenantBackup,
    read_manifest,
    sign_manifest,
)
from tallystick.log import Head
from tests.command_line import CommandLine, node
from tests.operations.test_backups import Place, put_content

Change = Callable[[TenantBackup], TenantBackup]
RUNS = "checkpoint_key_command = "


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.shell.write(node("a", said="one"), node("b", said="two"))
    place.shell.write(node("theirs", word="theirs alone"), tenant="acme")
    return place


def forge(place: Place, change: Callable[[Manifest], Manifest]) -> None:
    """Write the newest manifest anew, as anybody can who writes to the store."""
    stored = sorted((place.store / "manifests").iterdir())[-1]
    stored.write_bytes(sign_manifest(change(read_manifest(stored.read_bytes(), "it", ()).manifest), ()))


def forge_tenant(place: Place, change: Change, name: str = "default") -> None:
    def changed(manifest: Manifest) -> Manifest:
        tenants = [change(each) if each.tenant == name else each for each in manifest.tenants]
        return msgspec.structs.replace(manifest, tenants=tenants)

    forge(place, changed)


def put(place: Place, data: bytes) -> Piece:
    from tallystick.extensions.backup.encryption import BackupKeys
    from tallystick.extensions.backup.object_store import open_object_store
    from tallystick.extensions.backup.repository import Repository

    return Repository(open_object_store(place.url), BackupKeys()).put_piece(data)


def readers(place: Place) -> list[tuple[object, ...]]:
    return [
        ("restore", place.url, "--base", place.root / "restored", *place.extra),
        ("follow", place.url, "--once", "--base", place.root / "followed", *place.extra),
    ]


def assert_refused(place: Place, *codes: str) -> TallystickError:
    """By every command that makes a base of a backup, and none is left."""
    for words in readers(place):
        with pytest.raises((Corrupt, InvalidArgument)) as refused:
            place.shell.run(*words)
        assert refused.value.code in codes, refused.value
        base = Path(str(words[words.index("--base") + 1]))
        assert [path for path in base.rglob("*") if path.is_file()] == []
    return refused.value


# -- names

HOSTILE = [
    *("tallystick.toml", "Tallystick.TOML", "tallystick\u200b.toml", "\uff54allystick.toml", "graph.config.yaml"),
    *("../out", "/etc/x", "a/../../b", "a/./b", "a//b", "a/", "", ".", "..", "a\0b", "a\nb", "a\\b", "C:/x"),
    *(".ssh/keys", "notes/.hidden", "_system/head", "_system/sessions/key", "_system/replica.json", "_system/log/x"),
    *("_system/stored_backups.json", "_System/head", "_content/nodes/x", "tenants/x/y", "TENANTS/x/y"),
    *("graph.db", "graph.db-wal", "notes/x.db", "x.db/y", "x" * 300, "_system/backups.jsonl/x"),
]


def test_a_file_of_another_name_than_backups_hold_is_refused(place: Place) -> None:
    place.back_up()
    piece = put(place, f'{RUNS}"touch {place.root}/ran"\n'.encode())
    for path in ("tallystick.toml", "../out"):
        forge_tenant(place, tenant_with(files=[StoredFile(path, [piece])]))
        assert_refused(place, "MANIFEST_REFUSED")
        assert "MANIFEST_REFUSED" in place.shell.main("backup", "verify", place.url).err
    assert not (place.root / "ran").exists()


@pytest.mark.parametrize("path", HOSTILE)
def test_no_spelling_of_a_name_that_backups_do_not_hold_is_taken(path: str) -> None:
    tenant = TenantBackup(tenant="default", first="", head=Head(), log=[], files=[StoredFile(path, [])])
    manifest = Manifest(format=1, number=1, at="", memory="", epoch=0, host="", tallystick="", tenants=[tenant])
    with pytest.raises(Corrupt) as refused:
        require_contained(manifest)
    assert refused.value.code == "MANIFEST_REFUSED"
    assert not is_plain(path)


@pytest.mark.parametrize("path", ["_system/audit/x.jsonl", "a.txt"])
@pytest.mark.parametrize("field", ["blobs", "snapshot", "audit"])
def test_each_part_of_a_backup_holds_its_own_names_only(place: Place, field: str, path: str) -> None:
    place.back_up()
    file = StoredFile(path, [put(place, b"x")])

    def change(tenant: TenantBackup) -> TenantBackup:
        assert tenant.audit is not None
        audit = msgspec.structs.replace(tenant.audit, files=[file])
        value = {"blobs": [file], "snapshot": file, "audit": audit}[field]
        return msgspec.structs.replace(tenant, **{field: value})

    forge_tenant(place, change)
    assert_refused(place, "MANIFEST_REFUSED")


@pytest.mark.parametrize("paths", [("a.txt", "a.txt"), ("a", "a/b"), ("a/b", "a")])
def test_two_files_of_one_place_are_refused(place: Place, paths: tuple[str, ...]) -> None:
    place.back_up()
    files = [StoredFile(path, [put(place, path.encode())]) for path in paths]
    forge_tenant(place, lambda each: msgspec.structs.replace(each, files=files))
    assert_refused(place, "MANIFEST_REFUSED")


@pytest.mark.parametrize("names", [["default", "default"], ["default", "../x"], ["default", "Acme"], []])
def test_tenants_have_names_of_their_own(place: Place, names: list[str]) -> None:
    place.back_up()

    def change(manifest: Manifest) -> Manifest:
        tenant = manifest.find("default")
        assert tenant is not None
        return msgspec.structs.replace(
            manifest, tenants=[msgspec.structs.replace(tenant, tenant=name) for name in names]
        )

    forge(place, change)
    assert_refused(place, "MANIFEST_REFUSED")


@pytest.mark.parametrize("object_name", ["../../../victim", "A" * 64])
def test_an_object_is_named_by_a_digest(place: Place, object_name: str) -> None:
    place.back_up()
    victim = place.root / "victim"
    victim.write_text("mine")

    def change(tenant: TenantBackup) -> TenantBackup:
        piece = msgspec.structs.replace(tenant.log[0].piece, object=object_name)
        return msgspec.structs.replace(tenant, files=[StoredFile("a.txt", [piece])])

    forge_tenant(place, change)
    assert_refused(place, "MANIFEST_REFUSED")
    place.shell.write(node("c"))
    place.shell.run("backup", place.url, TALLYSTICK_BACKUP_KEEP="1")
    assert victim.read_text() == "mine"


def test_what_the_settings_of_the_base_name_is_not_restored(place: Place) -> None:
    """Whatever the settings of the other machine named."""
    place.back_up()
    forge_tenant(
        place, lambda each: msgspec.structs.replace(each, files=[StoredFile("rules/own.rego", [put(place, b"x")])])
    )
    for words in readers(place):
        base = Path(str(words[words.index("--base") + 1]))
        base.mkdir()
        (base / "tallystick.toml").write_text(f'policy = "{base}/rules"\n')
        with pytest.raises(Corrupt) as refused:
            place.shell.run(*words)
        assert (refused.value.code, "rules/own.rego" in refused.value.message) == ("MANIFEST_REFUSED", True)
        assert [path.name for path in base.rglob("*") if path.is_file()] == ["tallystick.toml"]


def test_what_the_settings_of_a_copy_name_by_now_is_not_written_when_it_follows(place: Place) -> None:
    place.back_up()
    follow = readers(place)[1]
    place.shell.run(*follow)
    (place.shell.base / "rules").mkdir()
    (place.shell.base / "rules/own.rego").write_text("x")
    place.back_up()
    followed = place.root / "followed"
    (followed / "tallystick.toml").write_text(f'policy = "{followed}/rules"\n')
    with pytest.raises(Corrupt) as refused:
        place.shell.run(*follow)
    assert (refused.value.code, (followed / "rules").exists()) == ("MANIFEST_REFUSED", False)


def test_a_backup_takes_over_nothing_from_a_manifest_with_other_names(place: Place) -> None:
    """A tenant that is gone is carried on from one backup to the next, and no restore would take this one."""
    place.back_up()

    def changed(manifest: Manifest) -> Manifest:
        tenant = msgspec.structs.replace(manifest.tenants[0], tenant="../x")
        return msgspec.structs.replace(manifest, tenants=[*manifest.tenants, tenant])

    forge(place, changed)
    place.shell.write(node("c"))
    assert place.back_up()["number"] == 2
    assert [each["tenant"] for each in place.restore()["tenants"]] == ["acme", "default"]


def test_a_copy_that_follows_refuses_what_a_restore_does(place: Place) -> None:
    place.back_up()
    follow = readers(place)[1]
    place.shell.run(*follow)
    place.shell.write(node("c"))
    place.back_up()
    piece = put(place, b"x")
    forge_tenant(
        place,
        lambda each: msgspec.structs.replace(
            each, files=[StoredFile("fine.txt", [piece]), StoredFile("tallystick.toml", [piece])]
        ),
    )
    for words in (follow, ("promote", place.url, "--base", place.root / "followed")):
        with pytest.raises(Corrupt) as refused:
            place.shell.run(*words)
        assert refused.value.code == "MANIFEST_REFUSED"
    assert not (place.root / "followed/tallystick.toml").exists()
    assert not (place.root / "followed/fine.txt").exists()
    assert CommandLine(place.root / "followed").run("verify", "--json").json["position"] == 2


def test_a_copy_does_not_write_through_links(place: Place) -> None:
    place.back_up()
    follow = readers(place)[1]
    place.shell.run(*follow)
    (place.root / "elsewhere").mkdir()
    (place.root / "followed/notes").symlink_to(place.root / "elsewhere")
    (place.shell.base / "notes").mkdir()
    (place.shell.base / "notes/a.txt").write_text("mine")
    place.back_up()
    with pytest.raises(TallystickError):
        place.shell.run(*follow)
    assert list((place.root / "elsewhere").iterdir()) == []


def test_capture_backs_up_the_names_that_a_restore_takes(place: Place) -> None:
    base = place.shell.base
    (base / "notes").mkdir()
    fine = ["readme.md", "notes/aux", "notes/Größe.txt", "notes/tallystick.toml"]
    passed_over = ["Graph.Config.yaml", "graph.db.bak", "notes/_x", "notes/x.DB"]
    for path in (*fine, *passed_over):
        (base / path).write_text("x")
    (base / "tenants/acme/tallystick.toml").write_text("x")
    place.back_up()
    place.restore()
    restored = place.root / "restored"
    assert [path for path in fine if not (restored / path).exists()] == []
    assert [path for path in (*passed_over, "tenants/acme/tallystick.toml") if (restored / path).exists()] == []


def test_a_file_whose_name_no_backup_can_hold_is_reported_and_the_rest_is_backed_up(place: Place) -> None:
    Path(os.fsdecode(os.fsencode(place.shell.base) + b"/caf\xe9.txt")).write_text("x")
    (place.shell.base / "two\nlines").write_text("x")
    result = place.shell.main("backup", place.url)
    assert (result.code, "caf" in result.err, "two" in result.err) == (1, True, True)
    place.restore()


def test_a_link_to_a_key_is_not_backed_up_under_another_name(place: Place, tmp_path: Path) -> None:
    (tmp_path / "own.key").write_text("secret")
    os.link(tmp_path / "own.key", place.shell.base / "notes.txt")
    place.shell.run("backup", place.url, TALLYSTICK_TLS_KEY=str(tmp_path / "own.key"))
    place.restore()
    assert not (place.root / "restored/notes.txt").exists()


# -- keys


def with_key(place: Place) -> None:
    place.shell.run("backup", "new-key", place.root / "backup.key")
    place.extra = ["--key", place.root / "backup.key"]


def test_with_a_key_a_backup_that_is_not_encrypted_is_refused(place: Place) -> None:
    place.back_up()
    with_key(place)
    assert_refused(place, "BACKUP_NOT_ENCRYPTED")
    assert "BACKUP_NOT_ENCRYPTED" in place.shell.main("backup", "verify", place.url, *place.extra).err
    assert "not encrypted" in place.shell.run("backup", "list", place.url, "--json", *place.extra).out


def test_a_manifest_that_is_not_encrypted_does_not_take_the_place_of_one_that_is(place: Place) -> None:
    with_key(place)
    place.back_up()
    follow = readers(place)[1]
    place.shell.run(*follow)
    stranger = Place(place.root / "stranger")
    stranger.shell.write(node("evil"))
    stranger.back_up()
    os.rename(stranger.store / "manifests/0000000001", place.store / "manifests/0000000002")
    with pytest.raises(Corrupt) as refused:
        place.shell.run(*follow)
    assert refused.value.code == "BACKUP_NOT_ENCRYPTED"


def test_pieces_that_are_not_encrypted_are_refused_and_put_again_encrypted(place: Place) -> None:
    """Whichever version of the program named them in a manifest that is encrypted."""
    from tallystick.extensions.backup.encryption import parse_backup_keys

    place.back_up()
    plain = (place.store / "manifests/0000000001").read_bytes()
    with_key(place)
    keys = parse_backup_keys((place.root / "backup.key").read_text(), "the test")
    assert keys.newest is not None
    (place.store / "manifests/0000000001").write_bytes(keys.newest.seal("manifests/0000000001", plain))
    assert_refused(place, "BACKUP_NOT_ENCRYPTED")
    assert "not encrypted" in place.shell.main("backup", "verify", place.url, *place.extra).err
    place.back_up()
    place.restore()


def test_a_key_that_comes_later_encrypts_everything_and_the_older_backups_expire(place: Place) -> None:
    place.back_up()
    plain = set(place.objects())
    with_key(place)
    place.shell.write(node("c"))
    place.shell.run("backup", place.url, *place.extra, TALLYSTICK_BACKUP_KEEP="1")
    assert place.manifests() == [2]
    assert not plain & set(place.objects())
    assert b"theirs" not in b"".join(place.objects().values())
    place.restore()


def test_a_fence_is_encrypted_and_one_that_is_not_stops_no_writes(place: Place) -> None:
    with_key(place)
    place.back_up()
    (place.store / "fences").mkdir()
    fence = place.store / "fences/0000000007"
    fence.write_text('{"epoch": 7, "at": "2026-01-01T00:00:00.000Z", "host": "evil", "memory": "x"}')
    place.shell.write(node("c"))
    with pytest.raises(Corrupt) as refused:
        place.back_up()
    assert refused.value.code == "BACKUP_DAMAGED"
    place.shell.write(node("still written"))
    fence.unlink()
    place.shell.run(*readers(place)[1])
    place.shell.run("promote", place.url, "--base", place.root / "followed", *place.extra)
    assert b"memory" not in next((place.store / "fences").iterdir()).read_bytes()
    with pytest.raises(TallystickError) as stopped:
        place.back_up()
    assert stopped.value.code == "TAKEN_OVER"


# -- sizes


@pytest.mark.parametrize("directory", ["objects", "manifests", "fences"])
def test_no_more_is_read_than_the_manifest_names(place: Place, directory: str) -> None:
    """A file of a terabyte, most of it a hole, would not fit in memory."""
    place.back_up()
    (place.store / "fences").mkdir()
    (place.store / "fences/0000000001").write_text("{}")
    for path in (place.store / directory).rglob("*"):
        if path.is_file():
            os.truncate(path, 1 << 40)
    if directory == "fences":
        with pytest.raises(Corrupt) as refused:
            place.back_up()
        assert refused.value.code == "BACKUP_DAMAGED"
    else:
        assert_refused(place, "BACKUP_DAMAGED")
        assert place.shell.main("backup", "verify", place.url).code == 1


@pytest.mark.parametrize("size", [-1, 1 << 62])
def test_a_size_that_no_piece_has_is_refused(place: Place, size: int) -> None:
    place.back_up()
    piece = msgspec.structs.replace(put(place, b"x"), bytes=size)
    forge_tenant(place, lambda each: msgspec.structs.replace(each, files=[StoredFile("a.txt", [piece])]))
    assert_refused(place, "MANIFEST_REFUSED")


@pytest.mark.parametrize("changed", [-(1 << 63), 1 << 63, 1 << 80])
def test_a_time_that_no_file_has_is_refused(place: Place, changed: int) -> None:
    place.back_up()
    file = StoredFile("a.txt", [put(place, b"x")], changed)
    forge_tenant(place, lambda each: msgspec.structs.replace(each, files=[file]))
    assert_refused(place, "MANIFEST_REFUSED")


# -- figures


def head_with(**values: Any) -> Change:
    """In the tenant's head and in that of its last part."""

    def change(tenant: TenantBackup) -> TenantBackup:
        last = tenant.log[-1]
        forged = msgspec.structs.replace(tenant.head, **values)
        return msgspec.structs.replace(
            tenant, head=forged, log=[*tenant.log[:-1], LogPart(last.piece, last.first, forged)]
        )

    return change


def tenant_with(**values: Any) -> Change:
    return lambda tenant: msgspec.structs.replace(tenant, **values)


def part_with(**values: Any) -> Change:
    return lambda tenant: msgspec.structs.replace(
        tenant, log=[msgspec.structs.replace(tenant.log[0], **values), *tenant.log[1:]]
    )


def checkpoint(size: int) -> str:
    note = f"memory.example\n{size}\n{b64encode(bytes(32)).decode()}\n"
    return f"{note}\n— memory.example {b64encode(bytes(68)).decode()}\n"


FORGED: dict[str, Change] = {
    "first": tenant_with(first="0" * 64),
    "lamport": head_with(lamport=7),
    "count": head_with(count=7),
    "end": head_with(end=7),
    "record_hash": head_with(record_hash="0" * 64),
    "commit_id": head_with(commit_id="0" * 64),
    "timestamp": head_with(timestamp="2020-01-01T00:00:00.000Z"),
    "head of the tenant": lambda tenant: msgspec.structs.replace(
        tenant, head=msgspec.structs.replace(tenant.head, lamport=1)
    ),
    "first of a part": part_with(first=2),
    "no parts": tenant_with(log=[]),
    "redaction that is not there": tenant_with(redactions=[RedactionNote(2, 1)]),
    "checkpoint": tenant_with(checkpoint=checkpoint(2)),
    "checkpoint past the end": tenant_with(checkpoint=checkpoint(3)),
    "checkpoint that is none": tenant_with(checkpoint="x"),
}


@pytest.mark.parametrize("figure", FORGED)
def test_a_figure_that_is_not_true_of_what_was_fetched_is_refused(place: Place, figure: str) -> None:
    place.back_up()
    forge_tenant(place, FORGED[figure])
    assert_refused(place, "MANIFEST_REFUSED", "BACKUP_DAMAGED", "BACKUP_DIVERGED")
    assert place.shell.main("backup", "verify", place.url).code == 1


def test_a_redaction_that_the_manifest_leaves_out_is_refused(place: Place) -> None:
    place.shell.write({"op": "REDACT_NODE", "node_id": "a", "reason": "asked"})
    place.back_up()
    forge_tenant(place, tenant_with(redactions=[]))
    assert_refused(place, "MANIFEST_REFUSED")


def test_a_copy_that_follows_compares_the_redactions_too(place: Place) -> None:
    place.back_up()
    follow = readers(place)[1]
    place.shell.run(*follow)
    place.shell.write({"op": "REDACT_NODE", "node_id": "a", "reason": "asked"})
    place.back_up()
    forge_tenant(place, tenant_with(redactions=[]))
    with pytest.raises(Corrupt) as refused:
        place.shell.run(*follow)
    assert refused.value.code == "MANIFEST_REFUSED"


def test_a_log_of_another_tenant_is_refused(place: Place) -> None:
    place.back_up()

    def swapped(manifest: Manifest) -> Manifest:
        first, second = manifest.tenants
        return msgspec.structs.replace(
            manifest,
            tenants=[
                msgspec.structs.replace(second, tenant=first.tenant),
                msgspec.structs.replace(first, tenant=second.tenant),
            ],
        )

    forge(place, swapped)
    assert_refused(place, "BACKUP_DAMAGED", "LOG_CORRUPT")
    assert place.shell.main("backup", "verify", place.url).code == 1


@pytest.mark.parametrize("harm", ["other bytes", "left out"])
def test_a_blob_that_is_not_what_the_log_names_is_refused(place: Place, harm: str) -> None:
    blob = put_content(place, os.urandom(400_000))
    place.back_up()
    path = f"_content/blobs/{blob}"
    other = [StoredFile(path, [put(place, b"other bytes")])] if harm == "other bytes" else []
    forge_tenant(place, tenant_with(blobs=other))
    refused = assert_refused(place, "BACKUP_DAMAGED")
    assert blob in refused.message
    assert place.shell.main("backup", "verify", place.url).code == 1


def test_a_snapshot_that_nobody_vouches_for_is_not_restored(place: Place) -> None:
    """A state that is loaded from one is not compared with the log."""
    snapshots = place.shell.base / "_system/snapshots"
    snapshots.mkdir(exist_ok=True)
    name = "00000000000000000002.snapshot"
    (snapshots / name).write_bytes(b"anything")
    place.back_up()
    assert "snapshot" in " ".join(place.restore()["notes"])
    assert not (place.root / "restored/_system/snapshots" / name).exists()
    with_key(place)
    place.back_up()
    assert place.restore(to="believed")["notes"] == []
    assert (place.root / "believed/_system/snapshots" / name).exists()
