"""Clearing: what was erased from a stream leaves the servers' Raft logs as well, and it is found out when it has.

A server drops entries of its Raft log when it compacts it, and the files in which nothing newer lies. So after the
erasure a message is stored that is larger than any such file: it begins a new one, and makes the servers compact. Once
the first entry of a server's log lies behind that message, no file of the log is left that held what was erased.

A server overwrites a message only when it carries the deletion out itself, from its Raft log. One that was away and
was brought up to date otherwise drops the message and leaves its bytes where they are, which nothing tells from
outside: such a server is named until somebody notes that what it had stored is gone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence

import msgspec

from tallystick.extensions.cluster.durability import RaftLogs, raft_logs
from tallystick.extensions.cluster.stream import ROLLUP, Stream, Trust

FILLER_BYTES = (8 << 20) + (64 << 10)
"""More than the largest file that servers keep messages in."""
AWAY_SECONDS = 120.0
"""For how long the logs are not made shorter because a server is away, which then catches up with them."""
_TOUCH_SECONDS = 15.0
"""A log is not compacted twice in less: who was there at both ends of it had no other way to catch up than the log."""
_AGAIN_SECONDS = 16.0
_FILLER_SECONDS = 60.0
_FILLERS_MAX = 4
_UNKNOWN = -1


class Clearing(msgspec.Struct, frozen=True):
    """What was erased from one stream, until no server has it."""

    stream: str
    commits: list[int]
    at: float
    servers: dict[str, bool]
    """Those that keep the stream → whether each was there when it was erased."""
    start: int
    """The end of the leader's Raft log before it was erased; -1 where nobody may look."""
    end: int = 0
    """Its end afterwards; 0 where that was not seen yet."""
    doubtful: list[str] = []
    """Servers of which it was not seen that they carried it out."""
    fillers: int = 0
    filled_at: float = 0.0
    behind: int = 0
    """The entry with which older files of the log are gone; 0 where it was not seen yet."""
    raft: list[str] = []
    """Servers whose Raft log was not seen to be behind it."""


def begin(stream: Stream, commits: Sequence[int], trust: Trust) -> Clearing | None:
    """Before something is erased. None where the servers keep no Raft log of the stream. Raises NoAnswer."""
    logs = raft_logs(stream, trust.monitors)
    if not logs.servers:
        return None
    start = logs.last() if logs.may_look else _UNKNOWN
    there = {name: name in logs.found for name in logs.servers}
    names = sorted(logs.servers)
    return Clearing(stream.name, sorted(commits), time.time(), there, start or 0, doubtful=names, raft=names)


def advance(stream: Stream, clearing: Clearing, trust: Trust) -> Clearing | None:
    """One look further; None where all of it is gone. Raises NoAnswer."""
    if clearing.start == _UNKNOWN:
        return clearing if clearing.fillers else _filled(stream, clearing, trust)
    logs = raft_logs(stream, trust.monitors)
    last = logs.last()
    if last is None:
        # Nobody says where the logs end now: looked at again.
        return clearing
    if not clearing.end:
        clearing = msgspec.structs.replace(clearing, end=last)
    if clearing.fillers and not clearing.behind:
        clearing = msgspec.structs.replace(clearing, behind=last)
    clearing = msgspec.structs.replace(clearing, **_seen(clearing, logs.found))
    if not clearing.doubtful and not clearing.raft:
        return None
    return _filled(stream, clearing, trust) if _needs_filler(clearing, logs) else clearing


def waits(clearing: Clearing) -> dict[str, list[int]]:
    """What it waits for → the redactions."""
    if clearing.start == _UNKNOWN:
        why = "which nobody here may look at: name the servers' monitoring in log_monitor"
        return {f"the Raft logs of the stream '{clearing.stream}', {why}": clearing.commits}
    found = {f"the Raft log of server {name}": clearing.commits for name in clearing.raft}
    for name in clearing.doubtful:
        if name not in clearing.raft:
            found[
                f"the files of server {name}, which was away when it was erased: empty its store and let it catch up,"
                f" then 'tallystick redactions --destroyed {name}'"
            ] = clearing.commits
    return found


def without(clearing: Clearing, server: str) -> Clearing:
    """What this server had stored is gone."""
    left = {name: [each for each in getattr(clearing, name) if each != server] for name in ("doubtful", "raft")}
    return msgspec.structs.replace(clearing, **left)


def _seen(clearing: Clearing, found: Mapping[str, tuple[int, int]]) -> dict[str, list[str]]:
    in_touch = time.time() - clearing.at < _TOUCH_SECONDS

    def carried_out(name: str) -> bool:
        first, last = found.get(name, (0, 0))
        by_log = first <= clearing.start + 1 or (in_touch and clearing.servers[name])
        return last >= clearing.end and by_log

    def is_clear(name: str) -> bool:
        return 0 < clearing.behind < found.get(name, (0, 0))[0]

    return {
        "doubtful": [name for name in clearing.doubtful if not carried_out(name)],
        "raft": [name for name in clearing.raft if not is_clear(name)],
    }


def _needs_filler(clearing: Clearing, logs: RaftLogs) -> bool:
    if not clearing.fillers:
        return not clearing.doubtful or time.time() - clearing.at > AWAY_SECONDS
    # Entries that came with it may have kept a log from ending behind it.
    is_late = time.time() - clearing.filled_at > _AGAIN_SECONDS and clearing.fillers < _FILLERS_MAX
    return is_late and any(name in logs.found for name in clearing.raft)


def _filled(stream: Stream, clearing: Clearing, trust: Trust) -> Clearing:
    # Servers compress what they can.
    stream.publish(stream.filler, os.urandom(FILLER_BYTES), ROLLUP, seconds=_FILLER_SECONDS)
    behind = clearing.behind or raft_logs(stream, trust.monitors).last() or 0
    # It has done its work, and takes no room any more.
    stream.publish(stream.filler, b"", ROLLUP, seconds=_FILLER_SECONDS)
    fillers = clearing.fillers + 1
    return msgspec.structs.replace(clearing, fillers=fillers, filled_at=time.time(), behind=behind)
