"""The processes above this one, each as a short tag.

A server over stdio and the hooks of the same client window are children of one client process. The server puts the tag
of that process into the ids of its sessions, and a hook compares it with the tags above itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

import msgspec

TAG_DIGITS = 8
_ABOVE_MAX = 32
_LAUNCHERS = frozenset(
    {"sh", "bash", "dash", "zsh", "fish", "env", "uv", "uvx", "pipx", "npx"}
    | {"init", "systemd", "launchd", "tini", "dumb-init"}
)
"""Programs that a client starts a server through, and those that start everything: neither identifies a client."""


class Process(msgspec.Struct, frozen=True):
    pid: int
    parent: int
    name: str
    started: str

    @property
    def tag(self) -> str:
        """Return the same digits for as long as the process lives; a reused id gives others."""
        text = f"{os.uname().nodename}\0{self.pid}\0{self.started}"
        return sha256(text.encode()).hexdigest()[:TAG_DIGITS]


def client_tag() -> str:
    """Return the tag of the process that started this one, launchers passed over; empty if it cannot be known."""
    return next((process.tag for process in _above() if not _is_launcher(process)), "")


def tags_above() -> frozenset[str]:
    return frozenset(process.tag for process in _above())


def tag_of(session: str) -> str:
    """Return the tag of the client process that a session id contains; empty for a session over HTTP."""
    process, _, _ = session.partition("-")
    return process[-TAG_DIGITS:] if len(process) == 16 + TAG_DIGITS else ""


def _is_launcher(process: Process) -> bool:
    return process.name in _LAUNCHERS or process.name.startswith("npm")


def _above() -> Iterator[Process]:
    """Yield the parent first."""
    others = None if os.path.exists("/proc/self/stat") else _listed()
    pid = os.getppid()
    for _ in range(_ABOVE_MAX):
        process = _from_proc(pid) if others is None else others.get(pid)
        if process is None:
            return
        yield process
        pid = process.parent


def _from_proc(pid: int) -> Process | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # The name is in parentheses and may contain anything, parentheses included.
    name = stat[stat.find("(") + 1 : stat.rfind(")")]
    fields = stat[stat.rfind(")") + 1 :].split()
    return Process(pid, int(fields[1]), name, fields[19])


def _listed() -> Mapping[int, Process]:
    """Return every process by its id, on systems without /proc."""
    import subprocess

    try:
        listed = subprocess.run(
            ["/bin/ps", "-axo", "pid=,ppid=,lstart=,comm="],
            capture_output=True, text=True, errors="replace", timeout=1, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return {}
    rows = (line.split(None, 7) for line in listed.stdout.splitlines())
    processes = (Process(int(row[0]), int(row[1]), Path(row[7]).name, " ".join(row[2:7])) for row in rows if row[7:])
    return {process.pid: process for process in processes}
