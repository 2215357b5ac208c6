"""Every call of git, with all programs switched off that a repository can name.

A clone brings attributes and an archive brings a whole `.git`, with filters, hooks, file monitors, text conversions and
commands that fetch. None of them runs here: filters are switched off by their names, which are read first, the rest by
settings that take precedence over the repository's. Git's own conversion of line ends and encodings stays on.
Commands that start other programs in any case are not among `_COMMANDS`.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable, Mapping
from hashlib import sha1, sha256
from pathlib import Path
from typing import IO, Any

_COMMANDS: dict[str, tuple[str, ...]] = {
    "blame": ("--no-textconv",),
    "cat-file": (),
    "check-attr": (),
    "config": (),
    "hash-object": (),
    "log": ("--no-textconv", "--no-ext-diff", "--no-show-signature"),
    "ls-files": (),
    "rev-parse": (),
    "update-index": (),
    "write-tree": (),
}
"""The commands that may be called, and what follows each of them."""
_SETTINGS = (
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    "core.quotePath=false",
    "core.sshCommand=false",
    "core.askPass=false",
    "credential.helper=",
    "gpg.program=false",
    "log.showSignature=false",
    "submodule.recurse=false",
    "safe.bareRepository=explicit",
    "maintenance.auto=false",
    "gc.auto=0",
)
_ENVIRONMENT = {
    # More decisive than protocol.allow, which a repository can override for one protocol. A partial clone fetches.
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_ASKPASS": "false",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_FILTER_VALUES = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
_LFS_POINTER_BYTES_MAX = 1024
_LFS_VERSION = b"version https://git-lfs.github.com/spec/v1\n"


def run_git(
    root: Path,
    *arguments: str,
    seconds: float,
    data: bytes = b"",
    environ: Mapping[str, str] | None = None,
    drivers: frozenset[str] | None = None,
) -> bytes:
    """Return what git prints. Raises OSError, and SubprocessError if git fails or takes longer than `seconds`."""
    deadline = time.monotonic() + seconds
    process = start_git(root, *arguments, seconds=seconds, environ=environ, drivers=drivers, stdin=subprocess.PIPE)
    try:
        output, _ = process.communicate(data, timeout=max(deadline - time.monotonic(), 0))
    except BaseException:
        process.kill()
        process.communicate()
        raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, arguments[0])
    return output


def start_git(
    root: Path,
    *arguments: str,
    seconds: float,
    environ: Mapping[str, str] | None = None,
    drivers: frozenset[str] | None = None,
    stdin: int | IO[Any] = subprocess.DEVNULL,
    stderr: int | IO[Any] = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Start git in a directory of a work tree. `seconds` bounds the time until it is started.

    This is the only place where git is started. `drivers` are the filters of the repository, if the caller has just
    listed them. Raises OSError, and SubprocessError if they cannot be listed.
    """
    command, *rest = arguments
    following = _COMMANDS[command]
    if drivers is None:
        # Of every command: some that read the index alone compare files that were written in the same moment.
        drivers = filter_drivers(root, seconds)
    settings = (word for setting in _SETTINGS for word in ("-c", setting))
    return subprocess.Popen(
        ["git", "--no-pager", "--literal-pathspecs", *settings, command, *following, *rest],
        cwd=root,
        env={**_environment(root), **_without_filters(drivers), **(environ or {})},
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
    )


def filter_drivers(root: Path, seconds: float) -> frozenset[str]:
    """The filters that any configuration of this repository defines, as `filter.NAME`."""
    # Without a match, which is the common case, git leaves with 1.
    try:
        words = ("config", "-z", "--name-only", "--get-regexp", r"^filter\.")
        names = run_git(root, *words, seconds=seconds, drivers=frozenset())
    except subprocess.CalledProcessError as error:
        if error.returncode != 1:
            raise
        return frozenset()
    return frozenset(os.fsdecode(name).rpartition(".")[0] for name in names.split(b"\0") if name)


def _without_filters(drivers: Iterable[str]) -> dict[str, str]:
    """In the environment, since the name of a filter may hold any character."""
    off = [(f"{driver}.{name}", value) for driver in sorted(drivers) for name, value in _FILTER_VALUES]
    environ = {"GIT_CONFIG_COUNT": str(len(off))}
    for number, (key, value) in enumerate(off):
        environ |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return environ


def _environment(root: Path) -> dict[str, str]:
    """The caller's, without its own variables of git. The work tree is the directory that holds `.git`, whatever
    `core.worktree` names."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | _ENVIRONMENT
    top = find_work_tree(Path(os.path.abspath(root)))
    return environ if top is None else environ | {"GIT_WORK_TREE": str(top)}


def find_work_tree(directory: Path) -> Path | None:
    """The nearest that holds this directory: a `.git` is a file in linked work trees and submodules."""
    return next((each for each in (directory, *directory.parents) if os.path.exists(each / ".git")), None)


# -- contents


def blob_id(data: bytes, *, is_sha256: bool = False) -> str:
    """The id of the blob that holds exactly these bytes."""
    digest = sha256 if is_sha256 else sha1
    return digest(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def lfs_pointer(data: bytes) -> bytes:
    """What Git LFS commits in the place of these bytes: its filter is a program, and this is its output."""
    if not data or (len(data) <= _LFS_POINTER_BYTES_MAX and data.startswith(_LFS_VERSION)):
        return data
    return _LFS_VERSION + b"oid sha256:%s\nsize %d\n" % (sha256(data).hexdigest().encode(), len(data))
