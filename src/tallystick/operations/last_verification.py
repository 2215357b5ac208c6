"""What the last verification of a memory found, kept in a small file beside its log for whoever only looks.

It says what was found and when, and proves nothing: whoever may write there could write anything into it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from tallystick.clock import from_text, to_text, wall_clock
from tallystick.operations.verify import Verification
from tallystick.system.file_locks import locked
from tallystick.system.private_files import replace_file
from tallystick.system.regular_files import read_regular

FILE_NAME = "verification.json"
LOCK_NAME = "verification.lock"


class LastVerification(msgspec.Struct, frozen=True, kw_only=True):
    position: int
    """Up to which the log was sound."""
    record_hash: str
    finished: str
    problem: str | None = None
    """The first thing that is false in the log, in the audit log, or against a signed checkpoint."""
    file: str | None = None
    """Below `_system`."""
    line: int | None = None

    @property
    def sound(self) -> bool:
        return self.problem is None


def last_verification(system: Path) -> LastVerification | None:
    """None where there was none, or nothing can be read of it."""
    try:
        found = msgspec.json.decode(read_regular(system / FILE_NAME), type=LastVerification)
        from_text(found.finished)
    except (OSError, ValueError, OverflowError):
        return None
    return found


def is_due(found: LastVerification | None, seconds: float) -> bool:
    """Whether there was none within so many seconds. One from the future tells of a clock that was wrong."""
    return found is None or not 0 <= (wall_clock() - from_text(found.finished)) / 1000 < seconds


def keep_verification(system: Path, found: Verification) -> bool:
    """Whether it could be: who may only read verifies all the same. Only by who holds `verifying`, or two would write
    the same unfinished file."""
    kept = _kept(system, found)
    with suppress(OSError):
        replace_file(system / FILE_NAME, msgspec.json.encode(kept))
        return True
    return False


def _kept(system: Path, found: Verification) -> LastVerification:
    chains = next((each for each in (found.log, found.audit) if each.problem is not None), None)
    problem = chains.problem if chains else next((each.problem for each in found.checkpoints if each.problem), None)
    file = Path(chains.file) if chains and chains.file else None
    return LastVerification(
        position=found.log.position,
        record_hash=found.log.record_hash,
        finished=to_text(wall_clock()),
        problem=problem,
        file=None if file is None else str(file.relative_to(system) if file.is_relative_to(system) else file.name),
        line=chains.line if chains else None,
    )


@contextmanager
def verifying(system: Path) -> Iterator[bool]:
    """Whether nobody else verifies this memory, and what is found may be kept. Whoever dies is at it no longer."""
    with ExitStack() as held:
        try:
            is_alone = held.enter_context(locked(system / LOCK_NAME, timeout_seconds=0))
        except OSError:
            is_alone = False
        yield is_alone
