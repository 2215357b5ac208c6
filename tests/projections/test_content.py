"""The contents: ready before the commit that names them, gone without a trace if there is none."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import threading
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import TallystickError
from tallystick.projections.content import INLINE_BYTES_MAX, Contents, Prepared, extension, stem

BINARY = bytes(range(256)) * 10


def shown(home: Path) -> list[str]:
    return sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())


EXTENSIONS = {
    ("markdown", "utf-8"): "md",
    ("Markdown", "utf-8"): "md",
    ("md", "utf-8"): "md",
    ("text", "utf-8"): "txt",
    ("plain", "utf-8"): "txt",
    ("json", "utf-8"): "json",
    ("YML", "utf-8"): "yaml",
    ("jpeg", "base64"): "jpg",
    ("pdf", "base64"): "pdf",
    ("svg", "utf-8"): "svg",
    ("meeting-notes", "utf-8"): "txt",
    ("meeting-notes", "base64"): "bin",
    ("../../etc", "utf-8"): "txt",
    ("", "base64"): "bin",
    ("sh\0", "utf-8"): "txt",
}


@pytest.mark.parametrize("case", EXTENSIONS)
def test_a_format_gives_one_of_our_endings(case: tuple[str, str]) -> None:
    assert extension(*case) == EXTENSIONS[case]


IDS = [
    "mem_1",
    "a b",
    "a%20b",
    "%41",
    "A",
    "é/ü",
    "..",
    ".",
    "x" * 180,
    "x" * 181,
    "é" * 99,
    "é" * 98 + "f",
    "\0",
    "a|b",
]


def test_every_id_has_a_file_name_of_its_own() -> None:
    names = [stem(entity_id) for entity_id in IDS]
    assert len(set(names)) == len(IDS)
    assert [name for name in names if not re.fullmatch(r"[A-Za-z0-9_%-]{1,200}", name)] == []


def test_text_travels_in_the_commit(tmp_path: Path) -> None:
    contents = Contents(tmp_path)
    prepared = contents.prepare("nodes", "n", "markdown", "utf-8", "# é".encode())
    assert prepared.content == {"format": "markdown", "encoding": "utf-8", "text": "# é"}
    assert contents.read(prepared.content) == "# é".encode()


@pytest.mark.parametrize(
    ("encoding", "data"), [("base64", BINARY), ("base64", b""), ("utf-8", b"x" * (INLINE_BYTES_MAX + 1))]
)
def test_binary_and_long_content_is_a_blob(tmp_path: Path, encoding: str, data: bytes) -> None:
    contents = Contents(tmp_path)
    prepared = contents.prepare("nodes", "n", "thing", encoding, data)
    digest = sha256(data).hexdigest()
    assert prepared.content == {"format": "thing", "encoding": encoding, "blob": digest, "bytes": len(data)}
    assert contents.read(prepared.content) == data
    assert contents.blobs() == [digest]


@pytest.mark.parametrize(("encoding", "data"), [("utf-8", b"text"), ("base64", BINARY)])
def test_what_is_not_committed_leaves_no_trace(tmp_path: Path, encoding: str, data: bytes) -> None:
    prepared = Contents(tmp_path).prepare("nodes", "n", "markdown", encoding, data)
    assert shown(tmp_path)
    prepared.discard()
    prepared.discard()
    assert shown(tmp_path) == []


def test_a_blob_that_somebody_else_counts_on_is_not_taken_back(tmp_path: Path) -> None:
    first = Contents(tmp_path).prepare("nodes", "n", "png", "base64", BINARY)
    second = Contents(tmp_path).prepare("nodes", "m", "png", "base64", BINARY)
    first.discard()
    assert Contents(tmp_path).read(second.content) == BINARY


def test_a_blob_that_was_there_before_stays(tmp_path: Path) -> None:
    contents = Contents(tmp_path)
    committed = contents.prepare("nodes", "n", "png", "base64", BINARY)
    contents.prepare("nodes", "n", "png", "base64", BINARY).discard()
    assert contents.read(committed.content) == BINARY


def test_many_prepare_and_discard_the_same_bytes_at_once(tmp_path: Path) -> None:
    contents = Contents(tmp_path)
    kept: list[Prepared] = []

    def work(number: int) -> None:
        for count in range(20):
            prepared = contents.prepare("nodes", f"n{number}-{count}", "png", "base64", BINARY)
            if count == number:
                kept.append(prepared)
            else:
                prepared.discard()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [contents.read(prepared.content) for prepared in kept] == [BINARY] * 8


BAD: dict[str, dict[str, Any]] = {
    "a blob that is gone": {"format": "png", "encoding": "base64", "blob": "ab" * 32, "bytes": 3},
    "a blob that was redacted": {"format": "png", "encoding": "base64", "blob": "[REDACTED]", "bytes": 3},
    "a blob that leads elsewhere": {"format": "png", "encoding": "base64", "blob": "../../x", "bytes": 3},
    "nothing": {"format": "png", "encoding": "base64"},
}


@pytest.mark.parametrize("case", BAD)
def test_content_that_cannot_be_read_is_said(tmp_path: Path, case: str) -> None:
    with pytest.raises(TallystickError) as caught:
        Contents(tmp_path).read(BAD[case])
    assert caught.value.code == "CONTENT_READ_FAILED"


def test_a_damaged_blob_is_not_passed_off_as_the_content(tmp_path: Path) -> None:
    contents = Contents(tmp_path)
    prepared = contents.prepare("nodes", "n", "png", "base64", BINARY)
    (tmp_path / "_content" / "blobs" / prepared.content["blob"]).write_bytes(bytes(len(BINARY)))
    with pytest.raises(TallystickError) as caught:
        contents.read(prepared.content)
    assert caught.value.code == "CONTENT_READ_FAILED"
    contents.prepare("nodes", "n", "png", "base64", BINARY)
    assert contents.read(prepared.content) == BINARY


# -- the disk refuses

CASES = [("utf-8", b"x" * 100_000), ("utf-8", b"x" * 300_000), ("base64", b"\0" * 100_000)]


def refused(home: Path, encoding: str, data: bytes) -> None:
    before = shown(home)
    with pytest.raises(TallystickError) as caught:
        Contents(home).prepare("nodes", "n", "markdown", encoding, data)
    assert caught.value.code == "FILE_CREATION_FAILED"
    assert shown(home) == before


@pytest.mark.parametrize(("encoding", "data"), CASES)
def test_a_full_disk_is_said_and_nothing_is_left(small_disk: Path, encoding: str, data: bytes) -> None:
    refused(small_disk, encoding, data)
    Contents(small_disk).prepare("nodes", "n", "markdown", "utf-8", b"small")


def test_a_disk_with_room_for_the_blob_alone_keeps_neither(small_disk: Path) -> None:
    refused(small_disk, "base64", b"\0" * 40_000)


def test_a_read_only_disk_is_said(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    refused(small_disk, "utf-8", b"x")


@pytest.mark.parametrize("name", ["_content", "_content/nodes", "_content/blobs"])
def test_a_file_or_link_in_the_place_of_a_directory_is_said(tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "_content").mkdir()
    path = tmp_path / name
    if path.exists():
        path.rmdir()
    path.symlink_to(elsewhere)
    refused(tmp_path, "base64", BINARY)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
def test_a_failing_call_is_said_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, call, fail)
    refused(tmp_path, "utf-8", b"text")
    refused(tmp_path, "base64", BINARY)
