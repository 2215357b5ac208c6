"""How far a call travels: the files, functions and changes of package that it passes through before it is answered.

Counted in a real server over HTTP, by a profile hook in its process that is switched on for one warm
call, until the server is at rest again. The caller's path is what the event loop and the log's thread do up to
the answer; what the threads of projections, searches and the audit log do is counted beside it, whether the answer
waits for them (a redaction's does, and a look for similar nodes) or not. Each call is made a few times and the
shortest path is told: what a timer did meanwhile can only add to it. With `BENCH_PATH_LIST=FILE` each call's
functions are listed there, as deep as they were called, by thread: that is what to read before anything is merged
for the number's sake.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from bench import Row, say
from bench.bases import fill, note
from bench.doors import issuer_on_this_machine
from bench.processes import Server, traced
from bench.talking import Speaker, rpc

TIMES = 5
_PACKAGE = f"{os.sep}tallystick{os.sep}"
_CALLERS = ("MainThread", "log-")
_LIST = os.environ.get("BENCH_PATH_LIST")


class Travelled(msgspec.Struct, frozen=True, order=True):
    functions: int
    files: int
    changes: int


class Traced(msgspec.Struct, frozen=True, order=True):
    path: Travelled
    beside: Travelled


def run(quick: bool = False) -> list[Row]:
    times = 2 if quick else TIMES
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as folder, issuer_on_this_machine() as issuer:
        base = Path(folder)
        fill(base, (note(number, body_bytes=200) for number in range(100)))
        team = {"issuers": issuer.url, "audience": "memory", "policy": "rbac", "quota_reads": 0, "quota_writes": 0}
        rows: list[Row] = []
        with traced(base) as server:
            caller = _Caller(server, Speaker.in_session(server.port))
            caller.call("graph_open", {"project": "p", "goal": "g"})
            caller.call("graph_plan", {"nodes": [{"ref": str(n), "summary": f"task {n}"} for n in range(3 * times)]})
            rows += _rows("memory.read", caller.least(_reads, times))
            rows += _rows("memory.write", caller.least(_writes, times))
            rows += _rows("graph_next with a claim", caller.least(_claims, times))
            rows += _rows("a redaction", caller.least(_redactions, times))
        with traced(base, **team) as server:
            caller = _Caller(server, Speaker.in_session(server.port, issuer.token()))
            rows += _rows("memory.search under rbac", caller.least(_searches, times))
    return rows


def _reads(number: int) -> tuple[str, dict[str, Any]]:
    return "memory.read", {"entity_id": f"note-{number}"}


def _writes(number: int) -> tuple[str, dict[str, Any]]:
    attrs = {"title": f"w{number}", "body": "x" * 200}
    return "memory.write", {"op": "UPSERT_NODE", "node": {"id": f"w{number}", "type": "note", "attrs": attrs}}


def _claims(number: int) -> tuple[str, dict[str, Any]]:
    return "graph_next", {"project": "p", "claim": True}


def _redactions(number: int) -> tuple[str, dict[str, Any]]:
    return "memory.write", {"op": "REDACT_NODE", "node_id": f"note-{number}", "reason": "asked for"}


def _searches(number: int) -> tuple[str, dict[str, Any]]:
    return "memory.search", {"filters": {"type": "note", "attrs": {"status": "open"}}, "limit": 10}


def _rows(what: str, traced: Traced) -> list[Row]:
    path, beside = traced.path, traced.beside
    told = (("files", path.files), ("functions", path.functions), ("changes of package", path.changes))
    rows = [Row(f"{what}: {unit}", count, unit) for unit, count in told]
    return [*rows, Row(f"{what}, in other threads: functions", beside.functions, "functions")]


# -- the caller's side


class _Caller:
    def __init__(self, server: Server, speaker: Speaker) -> None:
        self._server = server
        self._speaker = speaker

    def call(self, tool: str, arguments: Mapping[str, Any]) -> None:
        self._speaker.post(rpc(1, "tools/call", {"name": tool, "arguments": arguments}))

    def least(self, make: Callable[[int], tuple[str, dict[str, Any]]], times: int) -> Traced:
        """Of several, after one that pays for what is loaded late."""
        tool, arguments = make(0)
        say(tool)
        self.call(tool, arguments)
        return min(self._traced(*make(number)) for number in range(1, times + 1))

    def _traced(self, tool: str, arguments: Mapping[str, Any]) -> Traced:
        self._server.settle(seconds=0.2)
        self._tell()
        self.call(tool, arguments)
        path = self._tell().path
        self._server.settle(seconds=0.2)
        return Traced(path, self._tell().beside)

    def _tell(self) -> Traced:
        """The server answers the signal with a line on its standard output. Signals begin, mark the answer, and end."""
        self._server.signal(signal.SIGUSR1)
        return msgspec.json.decode(self._server.tells.readline(), type=Traced)


# -- inside the server


class _Tracer:
    def __init__(self) -> None:
        self._signals = 0
        self._passed: list[tuple[str, str, str]] = []
        self._listed: list[str] = []

    def install(self) -> None:
        signal.signal(signal.SIGUSR1, self._signalled)
        threading.setprofile(self._hook)
        sys.setprofile(self._hook)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        if self._signals % 3 == 0:
            self._passed, self._listed = [], []
        passed = list(self._passed)
        self._signals += 1
        path = _travelled([each for each in passed if each[0].startswith(_CALLERS)])
        beside = _travelled([each for each in passed if not each[0].startswith(_CALLERS)])
        if self._signals % 3 == 2 and _LIST:
            with Path(_LIST).open("a") as file:
                print(path, *self._listed, sep="\n", file=file)
        print(msgspec.json.encode(Traced(path, beside)).decode(), flush=True)

    def _hook(self, frame: FrameType, event: str, argument: object) -> None:
        if self._signals % 3 == 0 or event != "call":
            return
        code = frame.f_code
        _, found, within = code.co_filename.rpartition(_PACKAGE)
        if not found:
            return
        thread = threading.current_thread().name
        self._passed.append((thread, within, code.co_qualname))
        if _LIST:
            self._listed.append(f"{thread:16} {_depth(frame) * '  '}{within}:{code.co_qualname}")


def _travelled(passed: Sequence[tuple[str, str, str]]) -> Travelled:
    """Of (thread, file, function), as they were called."""
    last: dict[str, str] = {}
    changes = 0
    for thread, file, _ in passed:
        package = file.partition(os.sep)[0]
        changes += last.setdefault(thread, package) != package
        last[thread] = package
    functions = {(file, function) for _, file, function in passed}
    return Travelled(len(functions), len({file for file, _ in functions}), changes)


def _depth(frame: FrameType) -> int:
    """Of our own functions only."""
    depth, caller = 0, frame.f_back
    while caller is not None:
        depth, caller = depth + (_PACKAGE in caller.f_code.co_filename), caller.f_back
    return depth


def _serve() -> None:
    _Tracer().install()
    from tallystick.cli import main

    main()


if __name__ == "__main__":
    _serve()
