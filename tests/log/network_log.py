"""A log as it behaves behind a network: its claim holds nobody back, and it may not know what it wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tallystick.errors import HeadMoved, Unsettled
from tallystick.log import Entry, Head
from tallystick.log.memory import MemoryLog
from tests.commits_by_hand import draft, entries, node

Mishap = Literal["written", "lost", "late", "moved"]
"""What becomes of an append:

written  it is in the log, and the answer did not arrive
lost     it never arrived, and nobody can tell
late     it arrives just before the next append
moved    another machine is first, although we have the claim
"""


class NetworkLog(MemoryLog):
    def __init__(self, *mishaps: Mishap) -> None:
        super().__init__()
        self.mishaps = list(mishaps)
        self.foreign = 0
        self._on_its_way: tuple[Sequence[Entry], Head] | None = None

    def append(self, entries: Sequence[Entry], *, expected: Head) -> Head:
        self.arrive()
        mishap = self.mishaps.pop(0) if self.mishaps else None
        if mishap == "moved":
            self.write_from_elsewhere()
        if mishap == "late":
            self._on_its_way = (entries, expected)
        if mishap in ("late", "lost"):
            raise Unsettled("no answer in time")
        head = super().append(entries, expected=expected)
        if mishap == "written":
            raise Unsettled("no answer in time")
        return head

    def arrive(self) -> None:
        """What is on its way is in the log now, unless another was first."""
        sent, self._on_its_way = self._on_its_way, None
        if sent is not None:
            try:
                super().append(sent[0], expected=sent[1])
            except HeadMoved:
                return

    def write_from_elsewhere(self) -> None:
        self.foreign += 1
        head = self.head()
        super().append(entries(head, draft(node(f"foreign{self.foreign}"))), expected=head)
