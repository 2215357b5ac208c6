"""A command of our own in a process of its own: what would hold up every caller of a server."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress

_LOWEST_PRIORITY = 19


async def run_command(*words: str, waits: bool = False) -> None:
    """`tallystick` with these words; ended when this is cancelled. What it finds it leaves in files. `waits`: behind
    everything else that wants the processor. Raises OSError where no process can be begun."""
    nowhere = asyncio.subprocess.DEVNULL
    command = (sys.executable, "-m", "tallystick", *words)
    running = await asyncio.create_subprocess_exec(*command, stdin=nowhere, stdout=nowhere, stderr=nowhere)
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
