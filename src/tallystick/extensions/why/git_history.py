"""Which commits a file or a line of it comes from, as git says.

Nothing that the repository configures is run: no hooks, no filters, no text conversion, no pager, no file monitor, and
nothing is fetched or written. Every question blocks, for a bounded time, and belongs in a thread.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import subprocess
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tallystick.errors import InvalidArgument, LimitExceeded, NotFound
from tallystick.system.git import start_git
from tallystick.toolsets.knowledge.freshness import HiddenPaths, Repository, Unknown

SECONDS_MAX = 10.0
OUTPUT_BYTES_MAX = 1 << 20
FILE_BYTES_MAX = 32 << 20
COMMITS_MAX = 2_000
_BINARY_LOOK_BYTES = 8_000
_TEXT_MAX = 200

logger = logging.getLogger(__name__)


class GitCommit(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    author: str
    at: str
    summary: str
    file: str | None = None
    """What the file was called there, where that was otherwise."""


class Blamed(msgspec.Struct, frozen=True):
    commit: GitCommit | None
    """None for a line that is not committed."""
    is_cut: bool = False
    """Whether the clone is shallow and ends there: an older commit may have written it."""


class Touching(msgspec.Struct, frozen=True):
    commits: tuple[str, ...]
    """Newest first, through renames."""
    is_cut: bool
    """Whether there may be more."""


class GitHistory:
    """Of one repository, for one question: its seconds are counted from here."""

    def __init__(self, repository: Repository, *, base: Path) -> None:
        """What lies in the `base` is never looked at. Raises NotFound where there is no repository."""
        if repository.is_missing:
            raise NotFound(
                "no repository is named", code="NO_REPOSITORY", hint="the operator names one in the setting 'repo'"
            )
        try:
            self.root = Path(os.path.realpath(repository.root))
            self._hidden = HiddenPaths(self.root, base)
        except (OSError, Unknown) as error:
            raise _no_repository() from error
        if not self.root.is_dir():
            raise _no_repository()
        self._deadline = time.monotonic() + SECONDS_MAX
        if self._find("rev-parse", "--is-inside-work-tree") != "true":
            raise _no_repository()

    def path_of(self, file: str) -> str:
        """Relative to the repository, through symbolic links. Raises InvalidArgument for what lies outside."""
        if not file or "\0" in file:
            raise InvalidArgument("a file must be named")
        real = Path(os.path.realpath(self.root / file))
        if real == self.root or not real.is_relative_to(self.root):
            raise InvalidArgument(
                f"'{file}' lies outside the repository", code="OUTSIDE_REPOSITORY", hint="name a file in it"
            )
        path = real.relative_to(self.root).as_posix()
        if path in self._hidden or ".git" in path.split("/"):
            raise _no_file(file)
        inner = next((each for each in real.parents if each != self.root and os.path.lexists(each / ".git")), None)
        if inner is not None and inner.is_relative_to(self.root):
            raise InvalidArgument(
                f"'{file}' lies in a repository of its own, '{inner.relative_to(self.root).as_posix()}'",
                code="OUTSIDE_REPOSITORY",
                hint="ask there, or name it with --repo",
            )
        return path

    def blame(self, path: str, line: int) -> Blamed:
        """Raises NotFound for a file or line that is not there."""
        self._check_line(path, line)
        span = f"-L{line},{line}"
        said, fault = self._ask("blame", "--incremental", "--no-progress", span, "--", path)
        if fault is not None:
            if self._find("cat-file", "-t", f"HEAD:./{path}") is None:
                return Blamed(None)
            raise self._failed(fault)
        found = _read_blame(said, path)
        return found if not found.is_cut else Blamed(found.commit, self._is_shallow())

    def touching(self, path: str) -> Touching:
        """Raises NotFound for what is neither there nor was ever committed."""
        asked = ("log", "--follow", "--format=%H", f"-n{COMMITS_MAX}", "--", path)
        said, fault = self._ask(*asked)
        commits = () if fault is not None else tuple(said.decode("ascii", "replace").split())
        if fault is not None and self._find("rev-parse", "--verify", "--quiet", "HEAD") is not None:
            raise self._failed(fault)
        if not commits and not os.path.lexists(self.root / path):
            raise _no_file(path)
        return Touching(commits, len(commits) == COMMITS_MAX or self._is_shallow())

    # -- below

    def _check_line(self, path: str, line: int) -> None:
        if line < 1:
            raise InvalidArgument("lines are counted from 1")
        place = self.root / path
        try:
            # Not blocking: it may be a pipe by now.
            fd = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            raise _no_file(path) from None
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise _no_file(path)
            if found.st_size > FILE_BYTES_MAX:
                raise LimitExceeded(f"'{path}' is larger than {FILE_BYTES_MAX >> 20} MiB", hint="ask without a line")
            with os.fdopen(fd, "rb", closefd=False) as file:
                data = file.read(FILE_BYTES_MAX)
        finally:
            os.close(fd)
        if b"\0" in data[:_BINARY_LOOK_BYTES]:
            raise InvalidArgument(f"'{path}' is binary and has no lines", code="NO_LINES", hint="ask without a line")
        lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
        if line > lines:
            raise NotFound(f"'{path}' has no line {line}: it has {lines}", code="LINE_NOT_FOUND")

    def _is_shallow(self) -> bool:
        return self._find("rev-parse", "--is-shallow-repository") == "true"

    def _find(self, *arguments: str) -> str | None:
        said, fault = self._ask(*arguments)
        return None if fault is not None else said.decode(errors="replace").strip()

    def _ask(self, *arguments: str) -> tuple[bytes, str | None]:
        """What git answers, and what it complains of if it fails. Raises LimitExceeded after too long or too much."""
        import tempfile

        left = self._deadline - time.monotonic()
        try:
            with tempfile.TemporaryFile() as complaints:
                process = start_git(self.root, *arguments, seconds=left, stderr=complaints)
                said, is_over = _read_bounded(process, self._deadline - time.monotonic())
                complaints.seek(0)
                fault = complaints.read(_TEXT_MAX * 4).decode(errors="replace")
        except FileNotFoundError:
            raise NotFound("there is no git on this machine", code="NO_GIT", hint="install git") from None
        except (OSError, subprocess.CalledProcessError) as error:
            raise _no_repository() from error
        except subprocess.TimeoutExpired:
            is_over = False
        if not is_over:
            raise LimitExceeded(f"git took longer than {SECONDS_MAX:g} s", code="GIT_TIMEOUT", hint="try again")
        if len(said) > OUTPUT_BYTES_MAX:
            raise LimitExceeded("git has more to say than can be read", code="GIT_TIMEOUT")
        return said, None if process.returncode == 0 else fault

    def _failed(self, fault: str) -> NotFound:
        """Its own words, without where the repository lies."""
        logger.debug("git: %s", fault)
        said = (fault.splitlines() or ["it failed"])[0].replace(str(self.root), ".")
        return NotFound(f"git could not answer: {said[:_TEXT_MAX]}", code="GIT_FAILED")


def _read_bounded(process: subprocess.Popen[bytes], seconds: float) -> tuple[bytes, bool]:
    """What it wrote, not much more than is allowed, and whether it ended by itself or by what it wrote."""
    late = threading.Event()

    def end() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(max(seconds, 0.0), end)
    timer.start()
    try:
        assert process.stdout is not None
        said = process.stdout.read(OUTPUT_BYTES_MAX + 1)
        if len(said) > OUTPUT_BYTES_MAX:
            process.kill()
        process.stdout.close()
        process.wait()
    finally:
        timer.cancel()
    return said, not late.is_set()


def _read_blame(said: bytes, path: str) -> Blamed:
    lines = said.decode(errors="replace").split("\n")
    commit = lines[0].partition(" ")[0]
    about = dict(line.partition(" ")[::2] for line in lines[1:])
    if not commit.strip("0"):
        return Blamed(None)
    name = next((line.partition(b" ")[2] for line in said.split(b"\n") if line.startswith(b"filename ")), b"")
    file, now = _unquoted(name), os.fsencode(path)
    return Blamed(
        GitCommit(
            id=commit,
            author=_clip(about.get("author", "")),
            at=_time(about.get("author-time", "0")),
            summary=_clip(about.get("summary", "")),
            file=None if file in (b"", now) or file.endswith(b"/" + now) else file.decode(errors="replace"),
        ),
        "boundary" in about,
    )


_ESCAPED = re.compile(rb'\\([abtnvfr"\\]|[0-7]{3})')
_MEANT = dict(zip(b'abtnvfr"\\', b'\a\b\t\n\v\f\r"\\', strict=True))


def _unquoted(name: bytes) -> bytes:
    """Git puts a name with control characters, quotes or backslashes in quotes, with escapes as in C."""
    if not name.startswith(b'"'):
        return name
    return _ESCAPED.sub(
        lambda found: bytes([int(found[1], 8) if len(found[1]) == 3 else _MEANT[found[1][0]]]), name[1:-1]
    )


def _time(seconds: str) -> str:
    try:
        return datetime.fromtimestamp(int(seconds), UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return ""


def _clip(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else text[: _TEXT_MAX - 1] + "…"


def _no_repository() -> NotFound:
    return NotFound(
        "there is no git repository here", code="NO_REPOSITORY", hint="name its directory with --repo or 'repo'"
    )


def _no_file(file: str) -> NotFound:
    return NotFound(f"there is no file '{file}' in the repository", code="FILE_NOT_FOUND")
