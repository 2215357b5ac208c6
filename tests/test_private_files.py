"""Whatever is made under the base is for its owner alone, whatever the umask."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tallystick
from tallystick import app
from tallystick.config import Settings
from tallystick.policy import Principal
from tallystick.server.dispatch import Done
from tallystick.system import private_files
from tallystick.system.private_files import is_private, replace_file, replacing, sync_data, sync_file
from tests.command_line import CommandLine
from tests.promises import promise
from tests.sample_memory import outcome_of, told, write_sample

ALICE = Principal(actor="alice", tenant="acme", roles=("admin",), trusted=False)


@pytest.fixture(autouse=True)
def lax_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(base: Path) -> dict[str, str]:
    found = {str(path.relative_to(base)): path.stat().st_mode for path in [base, *base.rglob("*")]}
    return {path: oct(stat.S_IMODE(mode)) for path, mode in found.items() if mode & 0o077}


@promise("files, owner", "whatever is created under the base is for its owner alone")
async def test_what_a_server_leaves_is_for_its_owner_alone(tmp_path: Path) -> None:
    base = tmp_path / "new" / "base"
    settings = Settings(
        base=base,
        toolsets=("all",),
        policy="rbac",
        issuers=("https://issuer.example",),
        snapshot_every=2,
        lineage_to=str(base / "lineage.jsonl"),
    )
    async with app.served(settings) as offer:
        await write_sample(offer, ALICE)
        made = await outcome_of(offer, ALICE, "create", {"path": "notes/today.md", "file_text": "x"})
        assert isinstance(made, Done), told(made)
        while_running = modes(base)
        databases = {path.name for path in base.rglob("*.db*")}
    assert {name.rpartition(".")[2] for name in databases} >= {"db", "db-wal", "db-shm"}
    assert while_running == {}
    assert modes(base) == {}
    assert modes(tmp_path / "new") == {}


def test_what_commands_leave_is_for_its_owner_alone(tmp_path: Path) -> None:
    base = tmp_path / "base"
    shell = CommandLine(base)
    shell.write(*({"op": "UPSERT_NODE", "node": {"id": f"n{n}", "type": "note", "attrs": {"t": n}}} for n in range(3)))
    shell.run("emit", "--to", base / "lineage.jsonl")
    shell.run("verify", "--views", "--repair")
    shell.run("forget", "n1", "--reason", "asked", "--yes")
    assert modes(base) == {}


def open_to_others(base: Path) -> None:
    files = list(base.rglob("*.db"))
    assert files
    for file in files:
        file.chmod(0o644)


async def test_a_database_that_was_open_to_others_is_closed_to_them(tmp_path: Path) -> None:
    settings = Settings(base=tmp_path, toolsets=("all",))
    async with app.served(settings) as offer:
        await write_sample(offer, Principal(actor="default-agent"))
    open_to_others(tmp_path)
    async with app.served(settings) as offer:
        await outcome_of(offer, Principal(actor="default-agent"), "memory.search", {"limit": 1})
    assert {path for path in modes(tmp_path) if ".db" in path} == set()


LAX = re.compile(r"\.(mkdir|makedirs|write_bytes|write_text)\(|\bopen\([^)]*[\"'][wxa]b?\+?[\"'](?!.*opener)")


def test_nothing_below_the_command_line_creates_files_in_another_way() -> None:
    house = Path(tallystick.__file__).parent
    sources = [path for path in house.rglob("*.py") if path.parent.name != "cli" and path.name != "private_files.py"]
    lines = [(path.name, line.strip()) for path in sources for line in path.read_text().splitlines()]
    assert {(name, line) for name, line in lines if LAX.search(line)} == PRIVATE | WHERE_A_PERSON_SAYS


PRIVATE = {
    ("sandboxed_files.py", "os.mkdir(name, 0o700, dir_fd=fd)"),
    # In a temporary directory, which is the owner's alone.
    ("sqlite_copy.py", 'with open_regular(source) as data, target.open("wb") as file:'),
}
WHERE_A_PERSON_SAYS = {
    ("directory.py", "os.makedirs(self._path / directory, exist_ok=True)"),
    ("directory.py", 'with open(fd, "wb", buffering=0) as file:'),
    ("directory.py", "partial.mkdir()"),
    ("client_files.py", "target.parent.mkdir(parents=True, exist_ok=True)"),
    ("receipts.py", "path.parent.mkdir(parents=True, exist_ok=True)"),
}
"""Outside the base, and with that person's umask, as all that the command line writes: exports, the files of clients in
a repository, receipts to be handed over."""


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    replace_file(path, b"before")

    def fail() -> None:
        with replacing(path) as file:
            file.write(b"half of it")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_bytes() == b"before"
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]


def test_bytes_are_durable_before_their_name_is_and_the_name_before_anybody_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sync, rename = os.fsync, os.rename

    def noted_sync(fd: int) -> None:
        done.append("sync directory" if stat.S_ISDIR(os.fstat(fd).st_mode) else "sync file")
        sync(fd)

    def noted_rename(source: Path, target: Path) -> None:
        done.append("rename")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "rename", noted_rename)
    replace_file(tmp_path / "kept", b"all of it")
    assert done == ["sync file", "rename", "sync directory"]


def test_what_is_replaced_is_for_its_owner_alone(tmp_path: Path) -> None:
    replace_file(tmp_path / "kept", b"")
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0o600


# -- as on macOS, whose fsync stops at the cache of the disk, and which has no fdatasync


@pytest.mark.parametrize("sync", [sync_data, sync_file])
@pytest.mark.parametrize("answer", [0, errno.ENOTSUP, errno.EIO])
def test_where_there_is_a_full_sync_nothing_less_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: Callable[[int], None], answer: int
) -> None:
    asked: list[str] = []

    def control(fd: int, command: int) -> int:
        assert command == 51
        asked.append("full")
        if answer:
            raise OSError(answer, os.strerror(answer))
        return 0

    monkeypatch.setattr(private_files, "_FULL_SYNC", 51)
    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.setattr(os, "fsync", lambda fd: asked.append("plain"))
    monkeypatch.delattr(os, "fdatasync")
    with (tmp_path / "file").open("wb") as file:
        if answer == errno.EIO:
            with pytest.raises(OSError, match="Input/output error"):
                sync(file.fileno())
        else:
            sync(file.fileno())
    assert asked == (["full", "plain"] if answer == errno.ENOTSUP else ["full"])


@pytest.mark.parametrize(
    ("mode", "owner", "group", "expected"),
    [
        (0o600, 7, 7, True),
        (0o400, 0, 0, True),
        (0o440, 0, 7, True),
        (0o640, 0, 7, True),
        (0o440, 0, 8, False),
        (0o440, 7, 7, False),
        (0o460, 0, 7, False),
        (0o444, 0, 7, False),
    ],
)
def test_a_secret_is_private_or_handed_by_root_to_our_group(mode: int, owner: int, group: int, expected: bool) -> None:
    """As Kubernetes mounts a secret for a server that is not root."""
    seen = os.stat_result((stat.S_IFREG | mode, 1, 1, 1, owner, group, 0, 0, 0, 0))
    assert is_private(seen, uid=7, groups=[7, 9]) is expected


def test_root_itself_hands_nothing_to_its_group() -> None:
    assert not is_private(os.stat_result((stat.S_IFREG | 0o440, 1, 1, 1, 0, 0, 0, 0, 0, 0)), uid=0, groups=[0])
