"""What an import did, or would do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from tallystick.errors import TallystickError
from tallystick.extensions.importers import Atom, Fact, Item, Link, Task, Unmapped

EXAMPLES = 3
UNMAPPED_MAX = 10_000
"""That many are listed; the others are counted."""

Outcome = Literal["new", "changed", "unchanged"]
KINDS: dict[type[Item], str] = {Fact: "node", Link: "edge", Task: "task", Atom: "knowledge"}


class Kind(msgspec.Struct):
    """The items of one kind: a vocabulary's word, and the type or relation within it."""

    kind: str
    type: str
    new: int = 0
    changed: int = 0
    unchanged: int = 0
    examples: list[str] = msgspec.field(default_factory=list)


class State(msgspec.Struct):
    """How many tasks had this state in the source, and what became of it."""

    status: str
    becomes: Literal["open", "resolved", "dropped"]
    tasks: int = 0


class Judged(msgspec.Struct, frozen=True):
    """What becomes of an item."""

    outcome: Outcome
    replaces: str | None = None
    """The hash of the version that was there."""


Verdict = Judged | Unmapped


class Report(msgspec.Struct):
    source: str
    path: str
    dry_run: bool = False
    items: int = 0
    """That the source has."""
    done: int = 0
    """That were looked at, and written where they are new or changed."""
    commits: int = 0
    kinds: list[Kind] = msgspec.field(default_factory=list)
    states: list[State] = msgspec.field(default_factory=list)
    unmapped: list[Unmapped] = msgspec.field(default_factory=list)
    unmapped_omitted: int = 0

    def add(self, item: Item, verdict: Verdict) -> None:
        self.done += 1
        if isinstance(verdict, Unmapped):
            self.leave_out([verdict])
        else:
            self._count(item, verdict.outcome)

    def _count(self, item: Item, outcome: Outcome) -> None:
        row = self._kind(item)
        setattr(row, outcome, getattr(row, outcome) + 1)
        if outcome != "unchanged" and len(row.examples) < EXAMPLES:
            row.examples.append(called(item))

    def leave_out(self, unmapped: Iterable[Unmapped]) -> None:
        for each in unmapped:
            if len(self.unmapped) < UNMAPPED_MAX:
                self.unmapped.append(Unmapped(shown(each.where), shown(each.what), each.reason))
            else:
                self.unmapped_omitted += 1

    def total(self, outcome: Outcome) -> int:
        return sum(getattr(row, outcome) for row in self.kinds)

    def note_state(self, task: Task) -> None:
        becomes: Literal["open", "resolved", "dropped"] = (
            "dropped" if task.dropped else "resolved" if task.resolved else "open"
        )
        for row in self.states:
            if (row.status, row.becomes) == (task.status, becomes):
                row.tasks += 1
                return
        self.states.append(State(task.status, becomes, 1))

    def _kind(self, item: Item) -> Kind:
        kind, type_ = KINDS[type(item)], _type_of(item)
        for row in self.kinds:
            if row.kind == kind and row.type == type_:
                return row
        self.kinds.append(Kind(kind, type_))
        return self.kinds[-1]


def shown(text: str) -> str:
    """What is not UTF-8 can be neither printed nor JSON."""
    return text.encode("utf-8", "backslashreplace").decode()


def refusal(item: Item, error: TallystickError) -> Unmapped:
    return Unmapped(item.where, called(item), error.message)


def called(item: Item) -> str:
    if isinstance(item, Fact):
        return item.id
    if isinstance(item, Link):
        return f"{item.source} → {item.target}"
    return item.summary if isinstance(item, Task) else item.name


def _type_of(item: Item) -> str:
    if isinstance(item, Fact):
        return item.type
    return item.rel if isinstance(item, Link) else item.project
