"""The command `tallystick-hook`: reads what the client says, prints what the agent should know, and is gone.

It leaves with 0 whatever happens, since other numbers mean something to clients (2 stops the prompt), and within two
seconds: a thread ends the process where it stands. Until the one write at the end nothing is on standard output.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from typing import NoReturn

SECONDS = 1.8
"""Of two: the start of Python has taken its part."""
SECONDS_VARIABLE = "TALLYSTICK_HOOK_SECONDS"
_SECONDS_MAX = 60.0
_STDIN_BYTES_MAX = 8 << 20
_USAGE = """usage: tallystick-hook EVENT [--client NAME]          started by a coding agent, which says more on stdin
       tallystick-hook --explain [SESSION] [--json]   what was said, when and why

events:  session-start prompt before-tool stop before-compact
clients: claude codex cursor gemini vscode copilot
"""


def run() -> NoReturn:
    arguments = sys.argv[1:]
    if "--explain" in arguments:
        from tallystick.extensions.hooks.explain import explain

        _leave(explain(arguments))
    if not arguments or arguments[0].startswith("-"):
        _leave(_USAGE)
    _watch()
    _leave(_answer(arguments))


def _watch() -> None:
    """What hangs may hang in SQLite or in a disk, where no signal's handler would run."""
    timer = threading.Timer(seconds(), os._exit, (0,))
    timer.daemon = True
    timer.start()


def seconds() -> float:
    try:
        return min(max(float(os.environ.get(SECONDS_VARIABLE, SECONDS)), 0.01), _SECONDS_MAX)
    except ValueError:
        return SECONDS


def _answer(arguments: Sequence[str]) -> str:
    """Nobody is there to read of an error, and none of ours may stop an agent; `--explain` and `doctor` tell more."""
    try:
        from tallystick.extensions.hooks.said import answer

        return answer(arguments, _read_input())
    except Exception as error:
        if os.environ.get("TALLYSTICK_HOOK_DEBUG"):
            raise error
        return ""


def _read_input() -> bytes:
    if sys.stdin is None or sys.stdin.isatty():
        return b""
    data = sys.stdin.buffer.read(_STDIN_BYTES_MAX + 1)
    return data if len(data) <= _STDIN_BYTES_MAX else b""


def _leave(text: str) -> NoReturn:
    """At once: taking the interpreter down in order takes as long as the question did."""
    data = text.encode("utf-8", "replace")
    try:
        while data:
            data = data[os.write(1, data) :]
    except OSError:
        pass
    os._exit(0)
