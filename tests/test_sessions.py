"""Which sessions live, as two processes of one base see it."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tallystick.engine import sessions as module
from tallystick.engine.sessions import Sessions
from tallystick.errors import StorageRefused


@contextmanager
def claiming_elsewhere(directory: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process with a session that claimed something, and the id of the session."""
    code = (
        "import sys; from pathlib import Path; from tallystick.engine.sessions import Sessions\n"
        f"mine = Sessions(Path({str(directory)!r})); session = mine.begin(); mine.claims(session)\n"
        "print(session, flush=True); sys.stdin.read()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def test_a_session_lives_for_all_from_its_first_claim_until_it_ends(tmp_path: Path) -> None:
    mine, theirs = Sessions(tmp_path / "s"), Sessions(tmp_path / "s")
    session = mine.begin()
    assert (mine.is_alive(session), theirs.is_alive(session)) == (None, None)
    assert not (tmp_path / "s").exists(), "most sessions never claim"
    mine.claims(session)
    assert (mine.is_alive(session), theirs.is_alive(session)) == (True, True)
    mine.end(session)
    assert (mine.is_alive(session), theirs.is_alive(session)) == (False, False)


def test_of_a_session_that_is_served_no_longer_nobody_knows_anything(tmp_path: Path) -> None:
    mine, theirs = Sessions(tmp_path), Sessions(tmp_path)
    gone, ended, left = (mine.begin() for _ in range(3))
    for each in (gone, ended, left):
        mine.claims(each)
    mine.forget(gone)
    mine.end(ended)
    mine.forget(ended)
    assert (theirs.is_alive(gone), theirs.is_alive(ended), theirs.is_alive(left)) == (None, False, True)
    mine.close()
    assert (theirs.is_alive(gone), theirs.is_alive(ended), theirs.is_alive(left)) == (None, False, None)


def test_a_process_that_is_killed_ends_its_sessions_at_once(tmp_path: Path) -> None:
    mine = Sessions(tmp_path)
    with claiming_elsewhere(tmp_path) as (process, session):
        assert mine.is_alive(session) is True
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert mine.is_alive(session) is False


def _files(directory: Path) -> list[Path]:
    return [path for path in directory.iterdir() if path.name != "lock"]


def test_nobody_waits_for_a_part_of_a_file_that_he_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On macOS a lock of bytes (lockf) conflicts with the one of the whole file (flock), even one's own."""

    def never_had(*_: object) -> None:
        raise AssertionError("waited for for ever")

    monkeypatch.setattr(fcntl, "lockf", never_had)
    mine, theirs = Sessions(tmp_path), Sessions(tmp_path)
    session = mine.begin(shared=True)
    mine.claims(session)
    theirs.end(session)
    assert mine.has_ended(session)


def test_one_process_needs_one_file_for_all_its_sessions(tmp_path: Path) -> None:
    mine = Sessions(tmp_path)
    sessions = [mine.begin() for _ in range(2_000)]
    for each in sessions:
        mine.claims(each)
    assert len(_files(tmp_path)) == 1
    assert Sessions(tmp_path).is_alive(sessions[-1]) is True


@pytest.mark.parametrize(
    "id",
    ["", "-", "../../etc/passwd", "/etc/passwd", "x" * 100_000, "0123456789abcdef", "0123456789abcdef-0",
     "0123456789abcdef-1/../x", "0123456789abcdef-99999999999999999999", "0123456789ABCDEF-1", "0123456789abcdef-1\n",
     "0123456789abcdef-\u0661", "\0"],
)  # fmt: skip
def test_an_id_that_somebody_made_up_names_no_file_and_nobody(tmp_path: Path, id: str) -> None:
    (tmp_path / "s").mkdir()
    mine = Sessions(tmp_path / "s")
    assert mine.is_alive(id) is None
    mine.end(id)
    mine.forget(id)
    assert list((tmp_path / "s").iterdir()) == []


def test_what_lies_there_and_is_no_file_of_ours_is_nobody(tmp_path: Path) -> None:
    mine = Sessions(tmp_path)
    process = "0123456789abcdef"
    for make in (os.mkdir, os.mkfifo, lambda path: os.symlink("/etc/passwd", path)):
        make(tmp_path / process)
        assert mine.is_alive(f"{process}-1") is None
        (os.rmdir if (tmp_path / process).is_dir() else os.unlink)(tmp_path / process)


def test_the_files_of_the_dead_go_when_their_claims_are_stale(tmp_path: Path) -> None:
    with claiming_elsewhere(tmp_path) as (_, old), claiming_elsewhere(tmp_path) as (_, fresh):
        pass
    with claiming_elsewhere(tmp_path) as (_, alive):
        long_ago = time.time() - 3 * 3_600
        for each in (old, alive):
            os.utime(tmp_path / each.partition("-")[0], (long_ago, long_ago))
        mine = Sessions(tmp_path, kept_seconds=2 * 3_600)
        mine.claims(mine.begin())
        assert [mine.is_alive(each) for each in (old, fresh, alive)] == [None, False, True]
        assert len(_files(tmp_path)) == 3


def test_of_too_many_the_oldest_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILES_MAX", 2)
    names = [f"{number:016x}" for number in range(5)]
    for age, name in enumerate(names):
        (tmp_path / name).write_bytes(b"\0L")
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    mine = Sessions(tmp_path)
    mine.claims(mine.begin())
    assert [mine.is_alive(f"{name}-1") for name in names] == [False, False, None, None, None]


def test_where_it_cannot_be_noted_nothing_is_claimed(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("in the way")
    mine = Sessions(tmp_path / "s")
    session = mine.begin()
    with pytest.raises(StorageRefused):
        mine.claims(session)
    assert mine.is_alive(session) is None


def test_a_shared_session_is_ended_for_every_process(tmp_path: Path) -> None:
    mine, theirs = Sessions(tmp_path), Sessions(tmp_path)
    session = mine.begin(shared=True)
    assert not mine.has_ended(session)
    assert not theirs.has_ended(session)
    theirs.end(session)
    assert mine.has_ended(session)
    mine.claims(session)
    assert mine.is_alive(session) is theirs.is_alive(session) is False, "what was under way does not wake it"


def test_a_shared_session_claims_through_any_process(tmp_path: Path) -> None:
    mine, theirs, third = (Sessions(tmp_path) for _ in range(3))
    session = mine.begin(shared=True)
    theirs.claims(session)
    assert [each.is_alive(session) for each in (mine, theirs, third)] == [True] * 3
    mine.end(session)
    assert [each.is_alive(session) for each in (mine, theirs, third)] == [False] * 3


def test_a_session_goes_on_with_another_process_when_its_own_was_killed(tmp_path: Path) -> None:
    with claiming_elsewhere(tmp_path) as (_, session):
        pass
    mine, theirs = Sessions(tmp_path), Sessions(tmp_path)
    beside = session.partition("-")[0] + "-2"
    assert [mine.is_alive(session), mine.has_ended(session)] == [False, False]
    mine.claims(beside)
    assert [theirs.is_alive(beside), theirs.is_alive(session)] == [True, False], "who died with it stays dead"
    theirs.claims(session)
    assert theirs.is_alive(session) is mine.is_alive(session) is True
    mine.close()
    assert theirs.is_alive(beside) is None


def test_the_key_is_one_for_all_private_and_never_swept(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda _: Sessions(tmp_path / "s").signing_key(), range(32)))
    assert len(set(keys)) == 1
    path = tmp_path / "s" / "key"
    assert path.stat().st_mode & 0o777 == 0o600
    os.utime(path, (0, 0))
    mine = Sessions(tmp_path / "s")
    mine.claims(mine.begin())
    assert mine.signing_key() == keys[0]
    assert len(_files(tmp_path / "s")) == 2
    path.write_bytes(b"short")
    with pytest.raises(StorageRefused):
        mine.signing_key()
