"""One holder at a time, and none that outlives its process."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tallystick.system.file_locks import is_held, locked, open_lock, release, take, take_in_turn
from tests.timeouts import wait_until

HOLDER = """
import sys, time
from pathlib import Path
from tallystick.system.file_locks import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""

NEXT = """
import sys
from pathlib import Path
from tallystick.system.file_locks import open_lock, take_in_turn
base = Path(sys.argv[1])
take_in_turn(open_lock(base / "lock"), open_lock(base / "turnstile"), timeout_seconds=3600)
"""


def test_two_openings_exclude_each_other_even_in_one_process(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locked(path) as first, locked(path, timeout_seconds=0) as second:
        assert (first, second) == (True, False)
        assert is_held(path)
    assert not is_held(path)
    assert path.exists()


def test_a_released_lock_can_be_taken(tmp_path: Path) -> None:
    fd = open_lock(tmp_path / "lock")
    assert take(fd, timeout_seconds=0)
    release(fd)
    with locked(tmp_path / "lock", timeout_seconds=0) as has_it:
        assert has_it
    os.close(fd)


def test_a_directory_can_be_locked(tmp_path: Path) -> None:
    with locked(tmp_path, create=False), locked(tmp_path, create=False, timeout_seconds=0) as second:
        assert not second


def test_where_there_is_no_file_nobody_holds_it(tmp_path: Path) -> None:
    assert not is_held(tmp_path / "lock")
    assert not (tmp_path / "lock").exists()
    with pytest.raises(FileNotFoundError), locked(tmp_path / "lock", create=False):
        pass


def test_who_gives_up_waits_no_longer(tmp_path: Path) -> None:
    asked: list[None] = []

    def is_abandoned() -> bool:
        asked.append(None)
        return len(asked) == 3

    fd = open_lock(tmp_path / "lock")
    with locked(tmp_path / "lock"):
        assert not take(fd, timeout_seconds=3600, is_abandoned=is_abandoned)
    os.close(fd)


def test_a_killed_holder_leaves_it_free(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    assert is_held(path)
    holder.kill()
    holder.communicate()
    assert not is_held(path)


def test_the_process_that_released_the_lock_does_not_overtake_the_one_that_is_next(tmp_path: Path) -> None:
    fd, turnstile = open_lock(tmp_path / "lock"), open_lock(tmp_path / "turnstile")
    with locked(tmp_path / "turnstile"):
        assert not take_in_turn(fd, turnstile, timeout_seconds=0)
        assert not is_held(tmp_path / "lock")
    assert take_in_turn(fd, turnstile, timeout_seconds=0)
    assert not is_held(tmp_path / "turnstile")
    with locked(tmp_path / "lock", timeout_seconds=0) as second:
        assert not second
    os.close(fd)
    os.close(turnstile)


def test_a_process_that_waits_holds_the_turnstile_until_it_has_the_lock(tmp_path: Path) -> None:
    fd, turnstile = open_lock(tmp_path / "lock"), open_lock(tmp_path / "turnstile")
    with ThreadPoolExecutor() as threads:
        with locked(tmp_path / "lock"):
            waiting = threads.submit(take_in_turn, fd, turnstile, timeout_seconds=3600)
            wait_until(lambda: is_held(tmp_path / "turnstile"))
        assert waiting.result()
    assert not is_held(tmp_path / "turnstile")
    os.close(fd)
    os.close(turnstile)


def test_a_suspended_process_at_the_turnstile_does_not_keep_the_lock_from_others(tmp_path: Path) -> None:
    fd, turnstile = open_lock(tmp_path / "lock"), open_lock(tmp_path / "turnstile")
    with locked(tmp_path / "turnstile"):
        assert take_in_turn(fd, turnstile, timeout_seconds=3600)
    os.close(fd)
    os.close(turnstile)


def test_a_killed_process_leaves_the_turnstile_free(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", NEXT, str(tmp_path)], stdout=subprocess.DEVNULL)
    with locked(tmp_path / "lock"):
        wait_until(lambda: is_held(tmp_path / "turnstile"))
        holder.kill()
        holder.communicate()
        assert not is_held(tmp_path / "turnstile")
