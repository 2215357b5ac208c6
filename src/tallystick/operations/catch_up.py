"""What lies beside the log (views, `graph.db`, the text index) brought to its head: after an import or a restore,
before anybody waits for it; and for a server, which goes on answering meanwhile."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing

import msgspec

from tallystick.errors import InvalidArgument
from tallystick.log import Head
from tallystick.operations import OperationContext, Progress, no_progress
from tallystick.projections.follower import Follower
from tallystick.projections.log_reader import LogReader
from tallystick.projections.registry import Place, by_default


class CaughtUp(msgspec.Struct, frozen=True):
    projection: str
    commits: int
    """That it had not seen."""
    position: int
    seconds: float


def catch_up(
    context: OperationContext, names: Sequence[str] = (), *, progress: Progress = no_progress
) -> list[CaughtUp]:
    """Those of these names, one after the other; all that every server keeps where none is named.

    Raises InvalidArgument for another name, and whatever keeps a projection from going on.
    """
    known = by_default()
    wrong = [name for name in names if name not in known]
    if wrong:
        raise InvalidArgument(f"there is no '{wrong[0]}' beside the log; there are {', '.join(known)}")
    return [_caught_up(context, name, progress) for name in names or known]


def _caught_up(context: OperationContext, name: str, progress: Progress) -> CaughtUp:
    log = LogReader(context.open_log)
    end = log.head().end
    follower = Follower(
        Place(context.settings.home, log, context.database),
        applied=lambda at: progress(name, min(at.end, end), end),
    )
    started = time.monotonic()
    with closing(follower):
        worker = follower.worker(name)
        before = _seen(worker.projection.position(), log)
        worker.catch_up()
        after = worker.position
    return CaughtUp(name, after.count - before, after.lamport, round(time.monotonic() - started, 3))


def _seen(at: Head, log: LogReader) -> int:
    """None of them where it follows another log, and begins again."""
    return at.count if log.has(at) else 0
