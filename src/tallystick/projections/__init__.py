"""What follows from the log: the contract that every projection fulfils.

A projection turns commits into something that people or other programs look at: files,
tables, an index. It knows what commits mean to its readers and nothing of who wrote them or
why. It may lag behind the log, and it may be thrown away: replaying the log brings it back.
`follower` does the reading for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from tallystick.log import Entry, Head


class Projection(Protocol):
    """Called by one follower, by one thread at a time, which holds the projection's lock.

    Several processes may have the same projection on disk. So nothing that one of them
    remembers may be trusted after the lock was free: `position` asks what is stored.
    """

    name: str
    """Names the lock, below `_system`, and the thread: letters, digits, dashes, a slash before one of many places."""

    def position(self) -> Head:
        """Up to where the log has been applied; `Head()` when nothing has. Survives the process."""
        ...

    def apply(self, entries: Sequence[Entry], head: Head) -> None:
        """Apply whole drafts that follow on `position()`, and move to `head` with them: both or neither.

        `head` is where the last of the entries ends. A projection that finds it must begin again goes
        back to `Head()` instead, and is replayed. A redaction asks for more than its own
        payload says: whatever was kept of the masked commits has to go.
        """
        ...

    def reset(self) -> None:
        """Forget everything, back to `Head()`. What readers see may stay until it is replayed."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class Settling(Protocol):
    """A projection with work that is better done once, at the head, than after every `apply`.

    It keeps copies of what commits say. A redaction leaves none of them: `settle` removes them at once. A deletion
    leaves none either, but removing them costs as much as all that is kept, so it may be put off for a while.
    """

    def settle(self, *, final: bool = False) -> float | None:
        """Called at the head of the log. Returns the seconds after which it wants to be called again.

        `final`: it is going to be closed; what was put off is done now.
        """
        ...

    def erase(self) -> bool:
        """Called at the head: leave no copy of what was redacted or deleted, in free pages and logs of files either.

        False while somebody keeps it from that, such as a program that reads the database: to be called again.
        """
        ...
