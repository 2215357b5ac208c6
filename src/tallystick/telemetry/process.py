"""The process itself, under the names that Prometheus clients use everywhere; what a platform lacks is not told."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

_STARTED = time.time()
_PROC = Path("/proc/self")


class Row(msgspec.Struct, frozen=True):
    name: str
    meaning: str
    reading: Callable[[], Iterable[tuple[tuple[str, ...], float]]]
    kind: str = "gauge"


def _cpu() -> float:
    used = os.times()
    return used.user + used.system


def _memory() -> float:
    return float(_PROC.joinpath("statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _files() -> float:
    return len(os.listdir(_PROC / "fd"))


def _files_max() -> float:
    import resource

    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _once(read: Callable[[], float]) -> Callable[[], Iterator[tuple[tuple[str, ...], float]]]:
    def reading() -> Iterator[tuple[tuple[str, ...], float]]:
        with suppress(OSError, ValueError, ImportError):
            yield (), read()

    return reading


PROCESS = (
    Row("process_cpu_seconds", "CPU time used.", _once(_cpu), "counter"),
    Row("process_resident_memory_bytes", "Memory in use.", _once(_memory)),
    Row("process_start_time_seconds", "When it started, since the epoch.", _once(lambda: _STARTED)),
    Row("process_open_fds", "Open files.", _once(_files)),
    Row("process_max_fds", "Open files at most.", _once(_files_max)),
)
