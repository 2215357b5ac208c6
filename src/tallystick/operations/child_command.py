"""A command of our own in a process of its own: what would hold up every caller of a server."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from contextlib import suppress

_LOWEST_PRIORITY = 19


async def run_command(*words: str, waits: bool = False) -> None:
    """`tallystick` with these words; ended when this is cancelled. What it finds it leaves in files. `waits`: behind
    everything else that wants the processor. Raises OSError where no process can be begun."""
    nowhere = asyncio.subprocess.DEVNULL
    running = await asyncio.create_subprocess_exec(*_command(words), stdin=nowhere, stdout=nowhere, stderr=nowhere)
    try:
        if waits:
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, running.pid, _LOWEST_PRIORITY)
        await running.wait()
    finally:
        if running.returncode is None:
            with suppress(ProcessLookupError):
                running.terminate()
            await running.wait()


def start_command(*words: str) -> subprocess.Popen[bytes]:
    """The same for a thread, behind everything else that wants the processor; it is for the caller to end it."""
    running = _started(words)
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, running.pid, _LOWEST_PRIORITY)
    return running


def begin_command(*words: str) -> threading.Thread:
    """The same for whoever does not wait; who does, joins it. Raises OSError where no process can be begun."""
    running = _started(words)
    # Whom nobody waits for stays in the system's table of processes after its end.
    waiting = threading.Thread(target=running.wait, name=f"tallystick {words[0]}", daemon=True)
    waiting.start()
    return waiting


def _started(words: tuple[str, ...]) -> subprocess.Popen[bytes]:
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(_command(words), stdin=nowhere, stdout=nowhere, stderr=nowhere)


def _command(words: tuple[str, ...]) -> tuple[str, ...]:
    # -P: the directory that we run in is the repository that an agent works on, and no place to find modules in.
    return (sys.executable, "-P", "-m", "tallystick", *words)
