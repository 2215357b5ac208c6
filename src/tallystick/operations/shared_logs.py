"""Logs that servers keep for several machines, and bases that follow a memory from elsewhere.

An extension provides a kind of shared log by the schemes of `log_url`. The core opens it and names no kind.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from tallystick.config import Settings
from tallystick.errors import Corrupt, InvalidArgument, NotFound
from tallystick.extension import NO_EXTENSION_HINT, installed, load
from tallystick.log import Log
from tallystick.log.proof import prove
from tallystick.log.unopened import unopened
from tallystick.operations import Progress
from tallystick.operations.tenants import tenants_of


class Followed(msgspec.Struct, frozen=True):
    source: str
    number: int
    at: str
    """When that backup was made: what was written since is not here."""
    positions: dict[str, int]
    commits: int
    """New here."""


class Promoted(msgspec.Struct, frozen=True, kw_only=True):
    epoch: int
    source: str
    as_of: str
    """When the last backup was made that it holds; what was acknowledged since is lost."""
    positions: dict[str, int]
    caught_up: bool
    """Whether the store could be asked for newer backups."""


class SharedLog(Protocol):
    """A kind of log. Methods raise StorageRefused if the servers do not answer."""

    def open(self, settings: Settings) -> Log:
        """Open the log of the tenant that the settings name."""
        ...

    def open_copy(self, settings: Settings) -> Log:
        """Open this machine's copy, which another process keeps up to date, without the servers."""
        ...

    def machine(self, settings: Settings) -> str:
        """Return hexadecimal digits that identify this machine."""
        ...

    def shared_key(self, settings: Settings, name: str) -> bytes:
        """Return a key that all machines of the memory share. The first that needs it creates it."""
        ...

    def memory_of(self, settings: Settings) -> str:
        """Return the id of the shared memory that the tenant's log is a copy of; empty for a log of its own."""
        ...

    def adopt(self, settings: Settings, memory: str) -> None:
        """Make a tenant that was restored from a backup this machine's copy of that memory."""
        ...

    def end(self, settings: Settings, by: str) -> None:
        """End the memory on the servers: no machine writes there any more. Raises Conflict if another ended it."""
        ...

    def following(
        self, settings: Settings, url: str, *, progress: Progress
    ) -> AbstractContextManager[Callable[[], Followed]]:
        """Keep the base up to date while inside. The function waits until the base has what the servers have now."""
        ...

    def promote(self, settings: Settings, url: str, *, without_store: bool, progress: Progress) -> Promoted:
        """Make a base that follows the memory. `without_store` allows it if the servers do not answer."""
        ...


def find_shared_log(url: str) -> SharedLog | None:
    """Return the kind of log for a URL; None if no extension provides one."""
    reference = installed().logs().get(url.partition("://")[0])
    kind: SharedLog | None = load(reference) if reference is not None else None
    return kind


def shared_log(settings: Settings) -> SharedLog:
    """Return the kind of log that `log_url` names. Raises InvalidArgument, code LOG_KIND_MISSING."""
    kind = find_shared_log(settings.log_url)
    if kind is None:
        scheme = settings.log_url.partition("://")[0]
        raise InvalidArgument(
            f"log_url begins with '{scheme}', and no extension that is installed opens such a log",
            code="LOG_KIND_MISSING",
            hint=f"'pip install --force-reinstall tallystick' restores those of Tallystick; {NO_EXTENSION_HINT}",
        )
    return kind


def shared_log_of_copy(source: str) -> SharedLog | None:
    """Return the kind of log that this base's copy came from; `source` names what the base follows.

    A base whose memory was taken over names a machine instead: then the first kind is the one that made the copy.
    """
    references = installed().logs().values()
    return find_shared_log(source) or next(map(load, references), None)


def require_sound(settings: Settings, progress: Progress) -> None:
    names = tenants_of(settings)
    if not names:
        raise NotFound(
            f"there is no memory in {settings.base}", code="NO_MEMORY", hint="'tallystick restore' makes one"
        )
    for name in names:
        system = msgspec.structs.replace(settings, tenant=name).system
        proof = prove(system, lambda done, total: progress("verifying", done, total), tenant=name)
        if not proof.sound:
            raise Corrupt(
                f"{name}: {proof.problem}", hint="this copy is damaged: restore a backup into another base instead"
            )


def positions(settings: Settings) -> dict[str, int]:
    return {name: _position(msgspec.structs.replace(settings, tenant=name)) for name in tenants_of(settings)}


def _position(settings: Settings) -> int:
    with unopened(settings.system) as log:
        return log.head.lamport
