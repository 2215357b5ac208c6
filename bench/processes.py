"""The servers that are measured: processes of their own, whose CPU and memory the kernel tells, and who end with us."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)")
_OURS = ("TALLYSTICK_", "BASE_PATH", "GRAPH_", "MEMORY_", "OTEL_")


class Server:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.port = 0

    @property
    def asks(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def tells(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def cpu_seconds(self) -> float:
        """User and system, of all threads and of the processes it started; exact but for those that have ended."""
        pid = self._process.pid
        return _children_ended(pid) + sum(map(_cpu_clock, [pid, *_descendants(pid)]))

    @property
    def resident_bytes(self) -> int:
        return resident_bytes(self._process.pid)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def cpu_of(self, work: Callable[[], object]) -> float:
        before = self.cpu_seconds
        work()
        return self.cpu_seconds - before

    def settle(self, *, share: float = 0.03, seconds: float = 0.5, patience_seconds: float = 600.0) -> None:
        """Until what runs in the background (views, indexes, compilers) has come to rest."""
        deadline = time.monotonic() + patience_seconds
        quiet = 0
        while quiet < 2:
            spent = self.cpu_of(lambda: time.sleep(seconds))
            quiet = quiet + 1 if spent < share * seconds else 0
            if time.monotonic() > deadline:
                raise TimeoutError("the server does not come to rest")

    def find_address(self, stream: IO[bytes]) -> None:
        told: list[str] = []
        for line in stream:
            told.append(line.decode())
            if found := _ADDRESS.search(told[-1]):
                self.port = int(found[1])
                # Read on, since a full pipe would stop the server.
                threading.Thread(target=deque, args=(stream, 0), daemon=True).start()
                return
        raise RuntimeError(f"the server ended before it told its address: {''.join(told)}")


@contextmanager
def tallystick(base: Path, *words: str, **settings: object) -> Iterator[Server]:
    """`tallystick serve` on this base; `settings` as their variables are called, in lower case without the prefix."""
    command = command_line("serve", base, *words)
    with _started(
        command, _variables(settings), working=base, stderr=subprocess.PIPE if "--http" in words else None
    ) as server:
        yield server


def command_line(command: str, base: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "tallystick", command, "--base", str(base), *words]


@contextmanager
def tallystick_http(base: Path, **settings: object) -> Iterator[Server]:
    with tallystick(base, "--http", f"127.0.0.1:{_free_port()}", **settings) as server:
        yield server


@contextmanager
def traced(base: Path, **settings: object) -> Iterator[Server]:
    """The same with `bench.path` looking on inside."""
    words = ["serve", "--base", str(base), "--http", f"127.0.0.1:{_free_port()}"]
    command = [sys.executable, "-m", "bench.path", *words]
    root = Path(__file__).parents[1]
    with _started(command, _variables(settings), working=root, stderr=subprocess.PIPE) as server:
        yield server


def _free_port() -> int:
    """Chosen here: where tokens are asked for, the server must know its address before it has it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def _variables(settings: Mapping[str, object]) -> dict[str, str]:
    return {f"TALLYSTICK_{name.upper()}": str(value) for name, value in settings.items()}


@contextmanager
def module(name: str, *words: str) -> Iterator[Server]:
    """A server of the benchmarks' own, which prints its address."""
    root = Path(__file__).parents[1]
    with _started([sys.executable, "-m", name, *words], {}, working=root, http=True) as server:
        yield server


@contextmanager
def program(command: list[str], environ: Mapping[str, str], *, working: Path) -> Iterator[Server]:
    with _started(command, environ, working=working, stderr=subprocess.DEVNULL) as server:
        yield server


@contextmanager
def _started(
    command: list[str],
    environ: Mapping[str, str],
    *,
    working: Path,
    stderr: int | None = None,
    http: bool = False,
) -> Iterator[Server]:
    working.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env={**_plain_environment(), **environ},
        cwd=working,
    )
    server = Server(process)
    try:
        if process.stderr is not None:
            server.find_address(process.stderr)
        elif http:
            server.find_address(server.tells)
        yield server
    finally:
        _end(process)


def _plain_environment() -> dict[str, str]:
    """As people start it: with bytecode that an earlier start or an installer compiled."""
    left_out = (*_OURS, "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if not name.startswith(left_out)}


def _end(process: subprocess.Popen[bytes]) -> None:
    descendants = _descendants(process.pid)
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            # What could not be written any more is of no interest.
            with suppress(BrokenPipeError):
                stream.close()
    for pid in descendants:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def resident_bytes(pid: int | str = "self") -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE


def _cpu_clock(pid: int) -> float:
    """By the process's own clock, which counts nanoseconds where /proc counts hundredths of a second."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:  # It has ended and is counted with its parent.
        return 0.0


def _children_ended(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / _TICKS


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError):
            children = [int(child) for child in thread.read_text().split()]
            found += children + [each for child in children for each in _descendants(child)]
    return found
