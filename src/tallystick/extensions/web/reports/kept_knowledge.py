"""What is kept from one look at the knowledge of files to the next: pins, what git found of them, and the tree.

What several visitors may read differs: whatever is kept is looked up by the atoms that somebody may read, and one that
was changed in any way is another atom.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tallystick.clock import to_text, wall_clock
from tallystick.extensions.web.reports.known_tree import KnownTree
from tallystick.state.attributes import list_of
from tallystick.state.knowledge.catalogue import Atom
from tallystick.state.state import State
from tallystick.toolsets.knowledge.context import Pins, ToolContext
from tallystick.toolsets.knowledge.freshness import Pin, read_pin

COMPARED_MAX = 500
"""Atoms whose files are looked at, besides those that are shown: by them files are known to be stale."""
FILES_MAX = 20_000
"""More are not matched one by one."""
WAITED_SECONDS = 0.01
"""So long a look waits for git to compare all files, if it did before: else it shows what git found then."""
FIRST_WAITED_SECONDS = 0.25
"""So long a glance waits for it if nothing was compared yet, which is once for each tenant and process."""
AGAIN_SECONDS = 5.0
"""After which a glance has files compared again."""
_PIN_CHARACTERS_KEPT = 2_000
"""Of the files that a pin lists: of one with more it is not known which of them changed, unless it is shown."""
_TREES_MAX = 4

Pinned = tuple[Sequence[str], Pin]


class Comparison(msgspec.Struct, frozen=True):
    at: str | None
    """When its oldest part was made; None where there is none."""
    said: Mapping[str, dict[str, Any]]
    """What git knows, by the ids of atoms."""
    is_whole: bool
    """Whether all were compared, with or without an answer."""


class _Compared(msgspec.Struct, frozen=True):
    atom: Atom
    at: str
    said: dict[str, Any] | None
    """None where git did not know."""


class KeptKnowledge:
    """Of one tenant."""

    def __init__(self) -> None:
        self._pins: dict[str, tuple[Atom, Pinned | None]] = {}
        self._compared: dict[str, _Compared] = {}
        self._comparing: asyncio.Task[None] | None = None
        self._began = float("-inf")
        self._trees: list[KnownTree] = []

    def pins(self, state: State, atoms: Iterable[Atom]) -> Pins:
        """Of the first by name."""
        first = heapq.nsmallest(COMPARED_MAX, (atom for atom in atoms if atom.pinned), key=lambda atom: atom.order)
        found = ((atom.id, self._pinned(state, atom)) for atom in first)
        return {atom_id: pinned for atom_id, pinned in found if pinned is not None}

    async def compare(self, context: ToolContext, pins: Pins, atoms: Mapping[str, Atom]) -> Comparison:
        """Of files as they are now, or as they were at the last look where git takes long."""
        if pins and self._known(pins, atoms).is_whole:
            await self._compare_within(WAITED_SECONDS, context, pins, atoms)
        elif pins:
            await self._compare(context, pins, atoms)
        return self._known(pins, atoms)

    async def glance(self, context: ToolContext, pins: Pins, atoms: Mapping[str, Atom]) -> Comparison:
        """The same as far as it is known already, for who has no time for git."""
        if pins and time.monotonic() - self._began >= AGAIN_SECONDS:
            await self._compare_within(WAITED_SECONDS if self._compared else FIRST_WAITED_SECONDS, context, pins, atoms)
        return self._known(pins, atoms)

    async def tree(self, atoms: Sequence[Atom], files: Sequence[str], path: str) -> KnownTree:
        below = path if len(files) > FILES_MAX else ""
        found = next((tree for tree in self._trees if tree.is_of(atoms, files, below)), None)
        if found is None:
            found = await asyncio.to_thread(KnownTree, atoms, files, files_max=FILES_MAX, below=below)
            self._trees = [found, *self._trees[: _TREES_MAX - 1]]
        return found

    def _pinned(self, state: State, atom: Atom) -> Pinned | None:
        kept = self._pins.get(atom.id)
        if kept is None or kept[0] is not atom:
            if len(self._pins) > 2 * COMPARED_MAX:
                self._pins.clear()
            kept = self._pins[atom.id] = atom, _pin_of(state, atom)
        return kept[1]

    def _known(self, pins: Pins, atoms: Mapping[str, Atom]) -> Comparison:
        kept = {each: found for each in pins if (found := self._compared.get(each)) and found.atom is atoms[each]}
        return Comparison(
            min((found.at for found in kept.values()), default=None),
            {each: found.said for each, found in kept.items() if found.said is not None},
            all(each in kept and _is_all(kept[each].said, pin) for each, (_, pin) in pins.items()),
        )

    async def _compare_within(
        self, seconds: float, context: ToolContext, pins: Pins, atoms: Mapping[str, Atom]
    ) -> None:
        if self._comparing is None or self._comparing.done():
            self._comparing = asyncio.create_task(self._compare(context, pins, atoms), name="known files")
        done, _ = await asyncio.wait({self._comparing}, timeout=seconds)
        for task in done:
            if not task.cancelled():
                task.result()

    async def _compare(self, context: ToolContext, pins: Pins, atoms: Mapping[str, Atom]) -> None:
        self._began = time.monotonic()
        at = to_text(wall_clock())
        said = await context.compare(pins)
        if len(self._compared) > 2 * COMPARED_MAX:
            self._compared.clear()
        self._compared |= {each: _Compared(atoms[each], at, said.get(each)) for each in pins}


def _is_all(said: Mapping[str, Any] | None, pin: Pin) -> bool:
    """Whether it names the files that changed, where the pin lists them."""
    return said is None or said["fresh"] or pin.files is None or "changedFiles" in said


def patterns_of(attrs: Mapping[str, Any]) -> list[str]:
    return [each for each in list_of(attrs, "paths") if isinstance(each, str)]


def _pin_of(state: State, atom: Atom) -> Pinned | None:
    node = state.node(atom.id)
    pin = None if node is None else read_pin(node.attrs)
    if node is None or pin is None:
        return None
    is_short = pin.files is None or len(pin.files) <= _PIN_CHARACTERS_KEPT
    return patterns_of(node.attrs), pin if is_short else msgspec.structs.replace(pin, files=None)
