"""Checks: named commands of a repository, run by a person to show that work is done.

They stand in the repository's `tallystick.toml`, which agents can edit. So nothing of it is run before the person
allowed exactly this file, by its hash, and a file that changed is asked about again. What is allowed is kept outside
the repository and the base. A check says only that its command ended well on a tree: the hashes of both its output and
the tree are recorded, since the command may call whatever else lies in the repository.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

import msgspec

from tallystick.config import CHECKPOINT_KEY_VARIABLE, FILE_BYTES_MAX, FILE_NAME, home_directory
from tallystick.errors import Denied, InvalidArgument, NotFound
from tallystick.formats.plain_formats import NotPlain, read_plain_toml
from tallystick.state.work.required_evidence import CHECK, CHECK_PREFIX, FAILED, PASSED
from tallystick.system.approvals import read_approvals, write_approvals
from tallystick.system.git import run_git
from tallystick.system.private_files import check_outside, make_directory
from tallystick.system.regular_files import read_bounded

CHECK_SECONDS_MAX = 3_600.0
_GIT_SECONDS_MAX = 120.0
_TAIL_BYTES = 4_000
_TABLE = "checks"


class ChecksFile(msgspec.Struct, frozen=True):
    path: Path
    sha256: str
    commands: dict[str, tuple[str, ...]]


class CheckResult(msgspec.Struct, frozen=True):
    name: str
    command: str
    result: str
    """PASSED or FAILED."""
    digest: dict[str, str]
    """Of what it printed, and of the tree that it ran on."""
    tail: str
    """The end of what it printed. Not recorded."""

    def evidence(self) -> dict[str, object]:
        ref = f"{self.name}: {self.command}"
        return {"type": CHECK, "ref": ref, "name": self.name, "result": self.result, "digest": self.digest}


# -- the file


def find_checks(start: Path) -> ChecksFile:
    """That of the repository, looked for from here up to its top. Raises NotFound, InvalidArgument."""
    for directory in (start, *start.parents):
        if (path := directory / FILE_NAME).is_file():
            return _read(path)
        if (directory / ".git").exists():
            break
    raise NotFound(
        f"there is no {FILE_NAME} in this repository",
        code="NO_CHECKS",
        hint=f'it names commands: a table [{_TABLE}] with lines such as test = "make test"',
    )


def _read(path: Path) -> ChecksFile:
    try:
        data = read_bounded(path, FILE_BYTES_MAX)
    except OSError as error:
        raise _malformed(path, str(error.strerror)) from None
    try:
        said = read_plain_toml(data).get(_TABLE)
    except NotPlain as error:
        raise _malformed(path, f"it {error}") from None
    if not isinstance(said, dict) or not said:
        raise _malformed(path, f"it has no table [{_TABLE}]")
    return ChecksFile(
        path.resolve(), sha256(data).hexdigest(), {name: _command(path, name, each) for name, each in said.items()}
    )


def _command(path: Path, name: str, said: object) -> tuple[str, ...]:
    """No shell reads it."""
    try:
        words = shlex.split(said) if isinstance(said, str) else said
    except ValueError as error:
        raise _malformed(path, f"the command of '{name}': {error}") from None
    if (
        not isinstance(words, list)
        or not words
        or not all(isinstance(word, str) and "\0" not in word for word in words)
    ):
        raise _malformed(path, f"the command of '{name}' must be a text, or a list of words")
    return tuple(words)


def _malformed(path: Path, problem: str) -> InvalidArgument:
    return InvalidArgument(f"{path} names no checks: {problem}", code="CHECKS_INVALID")


# -- what a person allowed


def allowed_file(environ: Mapping[str, str]) -> Path:
    """Not where the memory is by default: tools for files reach that."""
    said = environ.get("XDG_CONFIG_HOME", "")
    return (Path(said) if said.startswith("/") else home_directory() / ".config") / "tallystick" / "allowed-checks.json"


def require_allowed(found: ChecksFile, allowed: Path, base: Path, confirm: Callable[[ChecksFile], bool] | None) -> None:
    """`confirm` asks the person; None where nobody is there. Raises Denied."""
    check_outside(allowed, base, "whoever can write files there could allow commands", code="CHECKS_INVALID")
    known = read_approvals(allowed)
    if known.get(str(found.path)) == found.sha256:
        return
    changed = "has changed since its commands were allowed" if str(found.path) in known else "was never allowed"
    if confirm is None:
        raise Denied(
            f"{found.path} {changed}: nothing of it is run",
            code="CHECKS_NOT_ALLOWED",
            hint="agents can edit it: a person reads and allows it at a terminal, by 'tallystick work done ID --check'",
        )
    if not confirm(found):
        raise Denied(f"{found.path} {changed}, and was not allowed now", code="CHECKS_NOT_ALLOWED")
    write_approvals(allowed, {**known, str(found.path): found.sha256})


# -- running them


def choose(found: ChecksFile, required: Iterable[str]) -> list[str]:
    """Those that the work demands, or all where it demands none. Raises NotFound."""
    wanted = [name.removeprefix(CHECK_PREFIX) for name in required if name.startswith(CHECK_PREFIX)]
    for name in wanted:
        if name not in found.commands:
            raise NotFound(
                f"the work demands the check '{name[:80]}', which {found.path} does not name",
                code="NO_CHECKS",
                hint=f"it names {', '.join(found.commands)}",
            )
    return wanted or list(found.commands)


def run_checks(
    found: ChecksFile, names: Iterable[str], *, seconds: float = CHECK_SECONDS_MAX, started: Callable[[str], None]
) -> list[CheckResult]:
    """Each in the directory of the file. Call `require_allowed` before."""
    results = []
    for name in names:
        started(name)
        # Before: what it builds is not what was checked.
        tree = tree_digest(found.path.parent)
        command = found.commands[name]
        passed, output, tail = _run(command, found.path.parent, seconds)
        digest = {"sha256": output, **tree}
        results.append(CheckResult(name, shlex.join(command), PASSED if passed else FAILED, digest, tail))
    return results


def _run(command: tuple[str, ...], directory: Path, seconds: float) -> tuple[bool, str, str]:
    """Whether it ended well, the hash of all that it printed, and the end of that."""
    # Whoever may run commands does not get the key by that.
    environ = {name: value for name, value in os.environ.items() if name != CHECKPOINT_KEY_VARIABLE}
    with TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                command,
                cwd=directory,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return False, sha256(b"").hexdigest(), f"it could not be started: {error.strerror}"
        try:
            code = process.wait(seconds)
        except BaseException as error:
            # Not reaped yet, so the group is still its own.
            os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
        size = output.seek(0, os.SEEK_END)
        output.seek(0)
        hashed = sha256()
        while part := output.read(1 << 20):
            hashed.update(part)
        output.seek(max(0, size - _TAIL_BYTES))
        return code == 0, hashed.hexdigest(), output.read(_TAIL_BYTES).decode(errors="replace")


def tree_digest(directory: Path) -> dict[str, str]:
    """The git tree that all files make as they lie there, but for ignored ones; with the commit, where they are as
    that left them. Nothing in a directory that is no repository."""
    try:
        top = Path(_git(directory, {}, "rev-parse", "--show-toplevel"))
        places = _git(top, {}, "rev-parse", "--git-path", "objects", "--git-path", "index").split("\n")
        objects, index = (top / place for place in places)
        with TemporaryDirectory() as scratch:
            # An index and a store of its own: what the person has staged stays as it is.
            make_directory(Path(scratch) / "objects")
            if index.exists():
                shutil.copyfile(index, Path(scratch) / "index")
            apart = {
                "GIT_INDEX_FILE": f"{scratch}/index",
                "GIT_OBJECT_DIRECTORY": f"{scratch}/objects",
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(objects),
            }
            # Not 'git add', which looks into submodules by a process with the settings of each.
            names = _git(top, {}, "ls-files", "-z", "-c", "-o", "--exclude-standard", "--deduplicate")
            # A repository in the work tree is listed with a slash.
            data = os.fsencode(names.replace("/\0", "\0"))
            _git(top, apart, "update-index", "--add", "--remove", "-z", "--stdin", data=data)
            tree = _git(top, apart, "write-tree")
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}
    try:
        commit, committed = _git(top, {}, "rev-parse", "HEAD^{commit}", "HEAD^{tree}").split("\n")
    except (OSError, subprocess.SubprocessError, ValueError):
        return {"gitTree": tree}
    return {"gitTree": tree} | ({"gitCommit": commit} if committed == tree else {})


def _git(directory: Path, environ: Mapping[str, str], *arguments: str, data: bytes = b"") -> str:
    printed = run_git(directory, *arguments, seconds=_GIT_SECONDS_MAX, data=data, environ=environ)
    return os.fsdecode(printed).removesuffix("\n")
