"""The arena: where rounds take place. It starts the writers, ends them, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import msgspec

from torture import journal, writer
from torture.writer import Plan

ROOT = Path(__file__).parents[1]
_PAUSE_SECONDS = 0.002


class Tally(msgspec.Struct):
    """What became of one scenario."""

    scenario: str
    what: str
    rounds: int = 0
    acknowledged: int = 0
    faults: int = 0
    lost: int = 0
    """Acknowledged writes that were not there."""
    wrong: int = 0
    """Anything else that must not be: half a batch, a stray file, a view that differs, an answer that is false."""
    named: int = 0
    """Damage that was said."""
    rebuilt: int = 0
    """Damage to something that follows from the log, which was put right."""
    unseen: int = 0
    """Changed values in a mirror that not even `verify --views` noticed. Right once it was built again."""
    skipped: str = ""
    seconds: float = 0.0
    problems: list[str] = []


class Skipped(Exception):
    """This cannot be tried here, and why."""


class Life:
    """One process and all that it started."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.status: int | None = None

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()

    def kill_children(self) -> None:
        """Of strace: what it has seen is written when it ends by itself."""
        with suppress(OSError):
            for child in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)
            self.wait()

    def wait(self) -> int:
        """As a shell would tell it, but negative for a signal."""
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status

    def is_over(self) -> bool:
        """Not waited for yet: until then its id is nobody else's, and what it started can be killed with it."""
        return self.status is not None or os.waitid(os.P_PID, self.pid, _ENDED) is not None


_ENDED = os.WEXITED | os.WNOHANG | os.WNOWAIT


class Arena:
    """`until` is the moment after which no scenario starts another round."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.seed = seed
        self.random = random.Random(seed)
        self.until = 0.0
        self.quick = False
        self._lives: list[Life] = []
        self._places = 0

    def rounds(self, tally: Tally) -> Iterator[Path]:
        """A directory for each round; at least one, then until the time is up."""
        while not tally.rounds or (time.monotonic() < self.until and not self.quick):
            place = self.place()
            yield place
            tally.rounds += 1
            tally.acknowledged += sum(journal.told(path) for path in place.glob("*.journal"))
            self.end_all()
            shutil.rmtree(place, ignore_errors=True)

    def place(self) -> Path:
        self._places += 1
        path = self.root / f"{self._places:04d}"
        path.mkdir()
        return path

    def start(self, plan: Plan, *, wrap: Sequence[str] = (), environ: Mapping[str, str] | None = None) -> Life:
        """Forked, so that a life costs little; behind `wrap` (strace, faketime …) as a program of its own."""
        errors = Path(plan.journal).with_suffix(".stderr")
        if not wrap and not environ:
            return self.fork(lambda: asyncio.run(writer.write(plan)), stderr=errors)
        command = [*wrap, sys.executable, "-m", "torture.writer", msgspec.json.encode(plan).decode()]
        return self.run(command, stderr=errors, environ=environ)

    def fork(self, work: Callable[[], None], *, stderr: Path) -> Life:
        with _undisturbed():
            self._lives.append(Life(_forked(work, stderr)))
        return self._lives[-1]

    def run(self, command: Sequence[str], *, stderr: Path, environ: Mapping[str, str] | None = None) -> Life:
        with _undisturbed():
            self._lives.append(Life(_executed(command, environ or {}, stderr)))
        return self._lives[-1]

    def watch(self, journal: Path, life: Life, *, notes: int = 1, seconds: float = 20.0) -> bool:
        """Wait until the writer was told something; False when it ended, or took too long."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if journal.exists() and journal.read_bytes().count(b"\n") >= notes:
                return True
            if life.is_over():
                return False
            time.sleep(_PAUSE_SECONDS)
        return False

    def end_all(self) -> None:
        for life in self._lives:
            if life.status is None:
                life.kill()
        self._lives.clear()

    def close(self) -> None:
        self.end_all()
        shutil.rmtree(self.root, ignore_errors=True)


@contextmanager
def opened(seed: int) -> Iterator[Arena]:
    """Cleaned up however it ends: SIGTERM is made an exception."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    arena = Arena(Path(tempfile.mkdtemp(prefix="tallystick-torture-")), seed)
    tempfile.tempdir = str(arena.root)
    try:
        yield arena
    finally:
        tempfile.tempdir = None
        # A second Ctrl-C must not leave a mount behind.
        ignored = signal.signal(signal.SIGINT, signal.SIG_IGN)
        arena.close()
        signal.signal(signal.SIGINT, ignored)
        signal.signal(signal.SIGTERM, before)


def needs(*programs: str, root: bool = False) -> None:
    """Raises Skipped."""
    missing = [program for program in programs if shutil.which(program, path=_PATH) is None]
    if missing:
        raise Skipped(f"{', '.join(missing)} is not installed")
    if root and os.geteuid() != 0:
        raise Skipped("only root may mount file systems")


_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def _undisturbed() -> Iterator[None]:
    """An interrupt waits until the new process is known: raised in the middle of a fork it would be swallowed."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPTS)


_INTERRUPTS = {signal.SIGINT, signal.SIGTERM}


def _executed(command: Sequence[str], environ: Mapping[str, str], stderr: Path) -> int:
    with stderr.open("ab") as file:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **environ}, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            start_new_session=True,
        )  # fmt: skip
    process.returncode = 0  # Waited for by its Life, not by its Popen.
    return process.pid


def _forked(work: Callable[[], None], stderr: Path) -> int:
    pid = os.fork()
    if pid:
        with suppress(OSError):
            os.setpgid(pid, pid)
        return pid
    try:
        os.setpgid(0, 0)
        for number in _INTERRUPTS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPTS)
        fd = os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(fd, 1)
        os.dup2(fd, 2)
        logging.disable(logging.NOTSET)
        work()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
