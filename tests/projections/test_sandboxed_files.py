"""The confined files: whatever is asked and whatever lies in the way, nothing outside is touched."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tallystick.errors import TallystickError
from tallystick.projections.sandboxed_files import SandboxedFiles, parts_of


@pytest.fixture
def root(tmp_path: Path) -> Path:
    inside = tmp_path / "root"
    inside.mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    return inside


@pytest.fixture
def files(root: Path) -> SandboxedFiles:
    return SandboxedFiles(root)


def outside(root: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (root.parent / "outside").iterdir()}


PATHS = {
    "": (),
    ".": (),
    "a": ("a",),
    "./a//b/": ("a", "b"),
    "a/./b.md": ("a", "b.md"),
    "..a/b..": ("..a", "b.."),
    "a b/é": ("a b", "é"),
}


@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_its_names(path: str) -> None:
    assert parts_of(path) == PATHS[path]


REFUSED = [
    "/etc/passwd",
    "//a",
    "..",
    "../x",
    "a/../../x",
    "a/..",
    "C:\\x",
    "C:/x",
    "a\\..\\b",
    "a\0b",
    "a\nb",
    "\x7f",
    "x" * 256,
    "é" * 128,
    "a/" * 3000,
    "\udcff",
]


@pytest.mark.parametrize("path", REFUSED)
def test_a_path_that_could_lead_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(TallystickError) as caught:
        parts_of(path)
    assert caught.value.code == "PATH_NOT_ALLOWED"


def test_what_was_written_is_read(files: SandboxedFiles, root: Path) -> None:
    files.write(("a", "b", "c.md"), b"one")
    files.write(("a", "b", "c.md"), b"two", sync=True)
    assert files.read(("a", "b", "c.md")) == b"two"
    assert [path.name for path in (root / "a" / "b").iterdir()] == ["c.md"]


def test_a_name_that_is_taken_is_not_overwritten_unasked(files: SandboxedFiles) -> None:
    files.write(("a",), b"one")
    for attempt in (
        lambda: files.write(("a",), b"two", overwrite=False),
        lambda: files.rename(("b",), ("a",)),
        lambda: files.rename(("d",), ("a",)),
    ):
        files.write(("b",), b"b")
        files.write(("d", "x"), b"d")
        with pytest.raises(TallystickError) as caught:
            attempt()
        assert caught.value.code == "FILE_EXISTS"
    assert files.read(("a",)) == b"one"
    assert [seen.name for seen in files.list(())] == ["a", "b", "d"]


def test_files_and_directories_are_renamed_and_removed(files: SandboxedFiles) -> None:
    files.write(("d", "x"), b"x")
    files.rename(("d",), ("e", "f"))
    assert files.read(("e", "f", "x")) == b"x"
    files.rename(("e", "f", "x"), ("y",))
    files.remove(("e",))
    assert [(seen.name, seen.kind, seen.bytes) for seen in files.list(())] == [("y", "file", 1)]


def test_what_is_not_there_is_said(files: SandboxedFiles) -> None:
    for attempt in (
        lambda: files.read(("a", "b")),
        lambda: files.remove(("a",)),
        lambda: files.rename(("a",), ("b",)),
        lambda: files.list(("a",)),
    ):
        with pytest.raises(TallystickError) as caught:
            attempt()
        assert caught.value.code == "FILE_NOT_FOUND"
    assert files.find(("a", "b")) is None


TRAPS: dict[str, list[tuple[str, str]]] = {
    "a linked directory": [("d", "../outside")],
    "a link to the parent": [("d", "..")],
    "a link within": [("d", ".")],
    "a chain of links": [("e", "../outside"), ("d", "e")],
}


@pytest.mark.parametrize("trap", TRAPS)
def test_no_linked_directory_is_entered(files: SandboxedFiles, root: Path, trap: str) -> None:
    for name, target in TRAPS[trap]:
        (root / name).symlink_to(target)
    files.write(("x",), b"x")
    for attempt in (
        lambda: files.read(("d", "secret")),
        lambda: files.write(("d", "new"), b"new"),
        lambda: files.write(("d", "deep", "new"), b"new"),
        lambda: files.remove(("d", "secret")),
        lambda: files.rename(("d", "secret"), ("stolen",)),
        lambda: files.rename(("x",), ("d", "x")),
        lambda: files.copy(("d", "secret"), ("stolen",)),
        lambda: files.list(("d",)),
        lambda: files.find(("d", "secret")),
    ):
        with pytest.raises(TallystickError) as caught:
            attempt()
        assert caught.value.code == "PATH_NOT_ALLOWED"
    assert outside(root) == {"secret": "secret"}
    assert not (root / "stolen").exists()


def test_a_linked_file_is_neither_read_nor_written_through(files: SandboxedFiles, root: Path) -> None:
    (root / "link").symlink_to(root.parent / "outside" / "secret")
    with pytest.raises(TallystickError):
        files.read(("link",))
    files.write(("link",), b"mine")
    assert files.read(("link",)) == b"mine"
    assert outside(root) == {"secret": "secret"}


def test_removing_takes_links_and_not_what_they_lead_to(files: SandboxedFiles, root: Path) -> None:
    (root / "d").mkdir()
    (root / "d" / "link").symlink_to(root.parent / "outside")
    files.remove(("d",))
    assert outside(root) == {"secret": "secret"}


def test_what_is_no_file_is_not_waited_for(files: SandboxedFiles, root: Path) -> None:
    os.mkfifo(root / "pipe")
    for parts in (("pipe",), ()):
        with pytest.raises(TallystickError) as caught:
            files.read(parts)
        assert caught.value.code in ("NOT_A_FILE", "PATH_NOT_ALLOWED")
    assert [seen.kind for seen in files.list(())] == ["other"]


def test_a_file_that_is_too_large_is_not_read(files: SandboxedFiles) -> None:
    files.write(("a",), b"x" * 11)
    with pytest.raises(TallystickError) as caught:
        files.read(("a",), bytes_max=10)
    assert caught.value.code == "FILE_TOO_LARGE"


def test_a_directory_that_is_swapped_for_a_link_while_we_look_leads_nowhere(files: SandboxedFiles, root: Path) -> None:
    """One thread swaps `d` for a link and back, as fast as it can; the other reads and removes below it."""
    files.write(("d", "secret"), b"mine")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(root / "d", root / "kept")
            os.symlink(root.parent / "outside", root / "d")
            os.unlink(root / "d")
            os.rename(root / "kept", root / "d")

    swapping = threading.Thread(target=swap)
    swapping.start()
    read: list[bytes] = []
    try:
        attempts = 0
        # Until both have had their turn: how the threads are scheduled is not ours to say.
        while attempts < 500 or (not read and attempts < 100_000):
            attempts += 1
            with suppress(TallystickError):
                read.append(files.read(("d", "secret")))
    finally:
        stop.set()
        swapping.join()
    assert set(read) == {b"mine"}


def test_a_large_file_is_copied_whole(files: SandboxedFiles) -> None:
    data = os.urandom(3 << 20)
    files.write(("a",), data)
    files.copy(("a",), ("d", "b"), sync=True)
    assert files.read(("d", "b")) == data
