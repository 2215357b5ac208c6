"""Who is a person and who an agent, told from a name alone.

Whoever ever came to the pages is a person: there people log in, or are the one person of this machine. Who called
tools in other ways only is an agent. Of others, such as the authors of what was imported, nobody knows.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any, Literal

from tallystick.extensions.web.reports.audit_index import AuditIndex

READING_SECONDS = 0.005
"""So long a page waits for what is new in the audit log; the newest file is read first."""
AGAIN_SECONDS = 1.0

Kind = Literal["person", "agent"]


_NAMING = frozenset({"actor", "author", "by", "claimed_by", "created_by", "set_by", "updated_by", "written_by"})
"""Members of the JSON of pages that name somebody."""


def names_in(said: Any) -> set[str]:
    """Whom the JSON of a page names."""
    found: set[str] = set()
    waiting = [said]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            found |= {value for name, value in each.items() if name in _NAMING and isinstance(value, str)}
        waiting += [part for part in _parts(each) if isinstance(part, dict | list)]
    return found


def _parts(said: Any) -> Iterable[Any]:
    return said.values() if isinstance(said, dict) else said


class ActorKinds:
    """Of one tenant, as its audit log tells."""

    def __init__(self, index: AuditIndex) -> None:
        self._index = index
        self._read_at = float("-inf")

    def of(self, name: str) -> Kind | None:
        match self._index.has_looked(name):
            case None:
                return None
            case has_looked:
                return "person" if has_looked else "agent"

    async def read(self) -> None:
        self._read_at = time.monotonic()
        await asyncio.to_thread(self._index.read, READING_SECONDS)

    async def learn(self, name: str) -> Kind | None:
        """As `of`; for a name that is new it looks again, now and then: many may arrive of whom nobody knows."""
        if self.of(name) is None and time.monotonic() - self._read_at > AGAIN_SECONDS:
            await self.read()
        return self.of(name)
