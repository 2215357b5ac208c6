"""`tallystick serve` in a process of its own, whose every word on stderr is kept."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fuzz.mangling import LIMIT
from torture import checker

_ADDRESS = re.compile(rb"http://127\.0\.0\.1:(\d+)/mcp")


@contextmanager
def speaking(base: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Over stdio. It must end well at the end of stdin, with nothing more to say."""
    with _running(base) as (process, _):
        assert process.stdin is not None
        assert process.stdout is not None
        yield process
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.wait() == 0


@contextmanager
def listening(base: Path) -> Iterator[int]:
    """Over HTTP, on this port. It must end well when asked to."""
    with _running(base, "--http", "127.0.0.1:0") as (process, heard):
        yield int(heard.wait_for(_ADDRESS))
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


@contextmanager
def _running(base: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], _Heard]]:
    command = [sys.executable, "-m", "tallystick", "serve", "--base", str(base), "--toolsets", "all", *arguments]
    limits = {"TALLYSTICK_BODY_BYTES_MAX": str(LIMIT), "TALLYSTICK_CONTENT_BYTES_MAX": "1024"}
    environ = os.environ | limits | {"NO_COLOR": "1"}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ
    )
    heard = _Heard(process)
    try:
        yield process, heard
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()
        said = heard.to_the_end()
    assert b"Traceback" not in said, said[-4_000:].decode(errors="replace")
    check_sound(base)


def check_sound(base: Path) -> None:
    """The log verifies, a replay gives the same state, the views are what the log says, nothing is half-written."""
    wrong = checker.check(base, []).wrong
    # The files toolset writes plain files wherever it is told to: only what begins with a dot is a remnant of ours.
    wrong = [each for each in wrong if not re.fullmatch(r"stray file (?!(.*/)?\.).*", each, re.DOTALL)]
    assert not wrong, wrong


class _Heard:
    """What a process says on stderr, taken as it comes: a full pipe would stop it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        self._stderr = process.stderr
        self._lines: list[bytes] = []
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def wait_for(self, pattern: re.Pattern[bytes]) -> bytes:
        with self._changed:
            self._changed.wait_for(lambda: pattern.search(self._said) or not self._thread.is_alive())
        found = pattern.search(self._said)
        assert found is not None, self._said.decode()
        return found[1]

    def to_the_end(self) -> bytes:
        self._thread.join()
        self._stderr.close()
        return self._said

    @property
    def _said(self) -> bytes:
        return b"".join(self._lines)

    def _listen(self) -> None:
        for line in self._stderr:
            with self._changed:
                self._lines.append(line)
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()
