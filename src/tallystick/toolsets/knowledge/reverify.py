"""The work that stale knowledge makes: a node to look at it again, and the pin that follows when that is done.

A node names its atom in the property `verifies_atom`, by which it is found again: an atom has
at most one that is open, whoever notices it and in however many processes. Both halves are
beside the point of the call that they happen in, so what stands against them is logged, not
raised.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tallystick.errors import TallystickError
from tallystick.partition import Receipt
from tallystick.policy import Action, Principal
from tallystick.state.attributes import object_of
from tallystick.state.knowledge.catalogue import Knowledge
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.work.attributes import is_dropped
from tallystick.state.work.board import Row
from tallystick.state.work.draft_builder import DraftBuilder
from tallystick.state.work.graph import WorkGraph
from tallystick.toolsets import JsonObject
from tallystick.toolsets.knowledge.context import ToolContext
from tallystick.toolsets.knowledge.stale import repin
from tallystick.toolsets.work.context import Call

if TYPE_CHECKING:
    from tallystick.store import Store

VERIFIES = "verifies_atom"
PINNED_AT = "pinned_at"
"""The pin that was found to be out of date: an atom that was pinned since is another matter."""
NODES_MAX = 50
"""More are not added by one question: the others are, when they are noticed again."""

logger = logging.getLogger(__name__)


async def add_work(
    tool_context: ToolContext,
    store: Store,
    principal: Principal,
    stale: Sequence[JsonObject],
    *,
    tool: str,
    most: int = NODES_MAX,
) -> int:
    """Nodes to verify those of these atoms ({id, pinnedAt, changedFiles?}) that have none yet; how many were added.

    Not for those of which nothing changed: that their patterns match nothing would be so again when they are pinned.
    Costs a look at the state when there is nothing to add, and one draft otherwise.
    """
    changed = [atom for atom in stale if atom.get("changedFiles") != []]
    try:
        return await _add(tool_context, store, principal, changed, tool, most)
    except TallystickError as error:
        logger.info("no work was made of stale knowledge: %s", error.message)
        return 0


async def pin_resolved(tool_context: ToolContext, store: Store, principal: Principal, receipt: Receipt) -> None:
    """Pin the atoms again whose nodes were resolved by what was just written; not those whose nodes were given up."""
    written = {commit.lamport for commit in receipt.commits if _MARK in commit.payload and _DONE in commit.payload}
    if not written or receipt.duplicate:
        return
    tool = receipt.commits[0].tool

    def look(state: State, read_filter: ReadFilter) -> Sequence[str]:
        return _verified(state, receipt, written)

    try:
        for atom_id in await store.read(principal, Action.READ, look):
            await _repin(tool_context, store, principal, atom_id, tool)
    except TallystickError as error:
        logger.warning("what was verified could not be looked up: %s", error.message)


_MARK = f'"{VERIFIES}":'.encode()
_DONE = b'"resolved":true'


async def _repin(tool_context: ToolContext, store: Store, principal: Principal, atom_id: str, tool: str) -> None:
    try:
        if not await repin(tool_context, store, principal, atom_id, tool=tool):
            logger.warning("atom '%s' was verified, but git could not tell the state of its files", atom_id)
    except TallystickError as error:
        logger.warning("atom '%s' was verified, but not pinned again: %s", atom_id, error.message)


# -- adding


async def _add(
    tool_context: ToolContext, store: Store, principal: Principal, stale: Sequence[JsonObject], tool: str, most: int
) -> int:
    def look(state: State, read_filter: ReadFilter) -> list[JsonObject]:
        return [atom for atom in stale if _place(state, state.derived(WorkGraph), atom) is not None][:most]

    wanted: list[JsonObject] = await store.read(principal, Action.SEARCH, look) if stale else []
    if not wanted:
        return 0
    ids = [tool_context.work.ids() for _ in wanted]

    def draw(builder: DraftBuilder, read_filter: ReadFilter) -> int:
        return sum(_draw(builder, node_id, atom) for node_id, atom in zip(ids, wanted, strict=True))

    call = Call(tool_context.work, store, principal, tool)
    added, _ = await call.write(draw, reason="files changed since this knowledge was pinned")
    return added


def _draw(builder: DraftBuilder, node_id: str, stale: JsonObject) -> bool:
    # Asked again here, at the head: another process may have been first.
    root = _place(builder.state, builder.graph, stale)
    if root is None or root.board is None or builder.state.summary(node_id) is not None:
        return False
    atom = builder.state.derived(Knowledge).atoms[stale["id"]]
    attrs: dict[str, Any] = {
        "project": root.board.id,
        "parent": root.id,
        "summary": f"Re-verify knowledge: {atom.name}",
        "resolved": False,
        "rev": 1,
        "properties": {VERIFIES: atom.id, PINNED_AT: stale["pinnedAt"]},
    }
    if stale.get("changedFiles"):
        attrs["context_links"] = list(stale["changedFiles"])
    builder.put(node_id, attrs)
    return True


def _place(state: State, graph: WorkGraph, stale: JsonObject) -> Row | None:
    """The root to add a node under; None where it has one, is not wanted, or there is no project to add it to."""
    atom = state.derived(Knowledge).atoms.get(stale["id"])
    board = graph.boards.get(atom.project or "") if atom is not None else None
    if board is None or board.name is None or board.root is None:
        return None
    for row in _nodes(graph, stale["id"]):
        if row.open or _was_given_up(state, row.id, stale["pinnedAt"]):
            return None
    return graph.find(board.root)


def _nodes(graph: WorkGraph, atom_id: str) -> list[Row]:
    marked = graph.properties.get(VERIFIES)
    return [graph.by_number[number] for number in marked.members(atom_id)] if marked is not None else []


# -- resolving


def _verified(state: State, receipt: Receipt, written: set[int]) -> Sequence[str]:
    atoms: dict[str, None] = {}
    for commit in receipt.commits:
        if commit.lamport not in written:
            continue
        after = commit.document()
        before = state.node(after.get("id", ""), state.resolve(commit.lamport) - 1)
        attrs = after.get("attrs", {})
        was_open = before is None or before.attrs.get("resolved") is not True
        atom_id = object_of(attrs, "properties").get(VERIFIES)
        if was_open and attrs.get("resolved") is True and isinstance(atom_id, str) and not is_dropped(attrs):
            atoms[atom_id] = None
    known = state.derived(Knowledge).atoms
    return [atom_id for atom_id in atoms if atom_id in known]


def _was_given_up(state: State, node_id: str, pinned_at: str) -> bool:
    """For this very pin: then nobody is asked again until it is pinned anew."""
    node = state.node(node_id)
    attrs = node.attrs if node is not None else {}
    return object_of(attrs, "properties").get(PINNED_AT) == pinned_at and is_dropped(attrs)
