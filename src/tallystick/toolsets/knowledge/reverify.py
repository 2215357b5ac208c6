"""The work that stale facts make: a node to look at one again, and what follows when that is done.

A node names what it is about in a property, by which it is found again: an atom whose files changed in
`verifies_atom`, any other fact (X24) in `verifies`. A fact has at most one that is open, whoever notices it and in
however many processes. Resolving the node pins the atom, or verifies the fact; and a fact that is verified, or has a
successor, needs its node no more. All of this is beside the point of the call that it happens in, so what stands
against it is logged, not raised.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tallystick.commits import Commit, Draft, Operation, Verb, reserved_attributes
from tallystick.engine.partition import Receipt
from tallystick.errors import TallystickError
from tallystick.policy import Action, Principal
from tallystick.state import staleness
from tallystick.state.attributes import object_of
from tallystick.state.knowledge import ATOM
from tallystick.state.knowledge.catalogue import Knowledge
from tallystick.state.read_filter import VERIFIES, VERIFIES_ATOM, ReadFilter
from tallystick.state.staleness import Stale
from tallystick.state.state import State
from tallystick.state.work.attributes import is_dropped
from tallystick.state.work.board import Board, Row
from tallystick.state.work.draft_builder import DraftBuilder
from tallystick.state.work.graph import WorkGraph
from tallystick.toolsets import JsonObject
from tallystick.toolsets.knowledge.context import ToolContext
from tallystick.toolsets.knowledge.stale import repin
from tallystick.toolsets.work.answers import evidence_entry
from tallystick.toolsets.work.context import Call
from tallystick.toolsets.work.projects import found as found_project
from tallystick.toolsets.work.view import View

if TYPE_CHECKING:
    from tallystick.engine.store import Store

NODES_MAX = 50
"""More are not added by one question: the others are, when they are noticed again."""
MAINTENANCE = "maintenance"
"""The project of what belongs to none."""

_NAME_CHARACTERS_MAX = 120
_NOT_FACTS = ("trust/", "ontology/")
_ANSWERED = "verified"
"""The type of evidence where the fact was seen to first."""

logger = logging.getLogger(__name__)


class Subject(msgspec.Struct, frozen=True):
    """What is to be looked at again."""

    id: str
    key: str
    """The property that names it."""
    marker: str
    """Since when it is stale: once it is verified, the next time is another matter."""
    files: tuple[str, ...] = ()

    @property
    def properties(self) -> dict[str, str]:
        return {self.key: self.id, _MARKERS[self.key]: self.marker}


_MARKERS = {VERIFIES: "stale_since", VERIFIES_ATOM: "pinned_at"}


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
    subjects = [
        Subject(atom["id"], VERIFIES_ATOM, atom["pinnedAt"], tuple(atom.get("changedFiles") or ()))
        for atom in stale
        if atom.get("changedFiles") != []
    ]
    return await _add(tool_context, store, principal, subjects, tool, most)


async def notice(tool_context: ToolContext, store: Store, principal: Principal, stale: Mapping[str, Stale]) -> int:
    """The same for facts that a read found to be stale. Whatever has a successor needs no looking at."""
    subjects = [
        Subject(entity_id, VERIFIES, each.since, each.files)
        for entity_id, each in stale.items()
        if each.superseded_by is None
    ]
    most = len(subjects) if principal.is_program else NODES_MAX
    return await _add(tool_context, store, principal, subjects, principal.tool or "stale", most)


# -- adding


async def _add(
    tool_context: ToolContext, store: Store, principal: Principal, subjects: Sequence[Subject], tool: str, most: int
) -> int:
    def look(state: State, read_filter: ReadFilter) -> list[Subject]:
        graph = state.derived(WorkGraph)
        return [each for each in subjects if _is_wanted(state, graph, read_filter, each)][:most]

    try:
        wanted: list[Subject] = await store.read(principal, Action.SEARCH, look) if subjects else []
        return await _write(tool_context, store, principal, wanted, tool) if wanted else 0
    except TallystickError as error:
        logger.info("no work was made of what is stale: %s", error.message)
        return 0


async def _write(
    tool_context: ToolContext, store: Store, principal: Principal, wanted: Sequence[Subject], tool: str
) -> int:
    ids = [tool_context.work.ids() for _ in wanted]
    new_root, new_project = tool_context.work.ids(), uuid.uuid4().hex

    def draw(builder: DraftBuilder, view: View) -> int:
        added = 0
        for node_id, subject in zip(ids, wanted, strict=True):
            # Asked again here, at the head: another process may have been first.
            if builder.state.summary(node_id) is None and _is_wanted(
                builder.state, builder.graph, view.read_filter, subject
            ):
                board = _board(builder.state, builder.graph, view.read_filter, subject)
                if board is None and not builder.graph.namesakes(MAINTENANCE):
                    found_project(builder, project_id=new_project, root_id=new_root, name=MAINTENANCE, goal=None)
                    board = _board(builder.state, builder.graph, view.read_filter, subject, new_project)
                added += board is not None and _draw(builder, node_id, subject, board)
        return added

    call = Call(tool_context.work, store, principal, tool)
    added, _ = await call.write(draw, reason="this may not hold any more")
    return added


def _draw(builder: DraftBuilder, node_id: str, subject: Subject, board: Board) -> bool:
    attrs: dict[str, Any] = {
        "project": board.id,
        "parent": board.root,
        "summary": _summary(builder.state, subject),
        "resolved": False,
        "rev": 1,
        "properties": subject.properties,
    }
    if subject.files:
        attrs["context_links"] = list(subject.files)
    builder.put(node_id, attrs)
    return True


def _summary(state: State, subject: Subject) -> str:
    node = state.node(subject.id)
    attrs = node.attrs if node is not None else {}
    named = (attrs.get(key) for key in ("name", "title", "summary"))
    name = next((each for each in named if isinstance(each, str) and each.strip()), subject.id)
    what = "knowledge: " if node is not None and node.type == ATOM else ""
    return f"Re-verify {what}{name[:_NAME_CHARACTERS_MAX]}"


def _is_wanted(state: State, graph: WorkGraph, read_filter: ReadFilter, subject: Subject) -> bool:
    """False where there is a node already, none is wanted, or there is no project for it."""
    known = state.owner(subject.id)
    if known is None or known[0].startswith(_NOT_FACTS) or not read_filter.allows(subject.id):
        return False
    for row in find_nodes(graph, subject.key, subject.id):
        if row.open or _was_given_up(state, row.id, subject):
            return False
    return subject.key == VERIFIES or _board(state, graph, read_filter, subject) is not None


def _board(
    state: State, graph: WorkGraph, read_filter: ReadFilter, subject: Subject, made: str | None = None
) -> Board | None:
    """The project that it belongs to, else the one for what belongs to none. `made` was drafted just now."""
    node = state.node(subject.id)
    said = [node.attrs.get(key) for key in ("project", "projectId")] if node is not None else []
    named = [each for each in (*said, subject.id) if isinstance(each, str)]
    own: list[Board | None] = [graph.boards.get(each) or graph.project(each) for each in named]
    spare = [graph.boards.get(made)] if made is not None else [*graph.namesakes(MAINTENANCE)]
    board: Board | None
    for board in own + (spare if subject.key == VERIFIES else []):
        if board is None or board.name is None or board.root is None or graph.find(board.root) is None:
            continue
        if board.id == made or read_filter.allows_all((board.id, board.root)):
            return board
    return None


def find_nodes(graph: WorkGraph, key: str, entity_id: str) -> list[Row]:
    """Those that name this entity, open or not."""
    marked = graph.properties.get(key)
    return [graph.by_number[number] for number in marked.members(entity_id)] if marked is not None else []


def _was_given_up(state: State, node_id: str, subject: Subject) -> bool:
    """For this very reason: then nobody is asked again until it is verified, and stale anew."""
    node = state.node(node_id)
    attrs = node.attrs if node is not None else {}
    return object_of(attrs, "properties").get(_MARKERS[subject.key]) == subject.marker and is_dropped(attrs)


# -- what was written


async def follow_up(tool_context: ToolContext, store: Store, principal: Principal, receipt: Receipt) -> None:
    """Pin or verify what the nodes that were just resolved are about, not where they were given up; resolve the nodes
    of facts that were just verified or superseded. Looks for a few words where nothing of this was written."""
    if receipt.duplicate:
        return
    nodes = (commit for commit in receipt.commits if commit.operation is Verb.UPSERT_NODE)
    written = [commit for commit in nodes if any(mark in commit.payload for mark in _MARKS)]
    if not written:
        return

    def look(state: State, read_filter: ReadFilter) -> _Due:
        return _due(state, read_filter, written)

    try:
        due: _Due = await store.read(principal, Action.READ, look)
    except TallystickError as error:
        logger.warning("what was verified could not be looked up: %s", error.message)
        return
    tool = receipt.commits[0].tool
    for atom_id in due.pin:
        await _repin(tool_context, store, principal, atom_id, tool)
    for entity_id in due.verify:
        await _verify(store, principal, entity_id, tool)
    if due.resolve:
        await _resolve(tool_context, store, principal, due.resolve, tool)


_MARKS = tuple(f'"{name}":'.encode() for name in (VERIFIES_ATOM, VERIFIES, *sorted(reserved_attributes.NAMES)))


class _Due(msgspec.Struct):
    pin: list[str]
    """Atoms."""
    verify: list[str]
    resolve: dict[str, str]
    """Nodes, and the commits that made them needless."""


def _due(state: State, read_filter: ReadFilter, written: Sequence[Commit]) -> _Due:
    atoms, facts = dict.fromkeys(_done(state, written, VERIFIES_ATOM)), dict.fromkeys(_done(state, written, VERIFIES))
    known, graph = state.derived(Knowledge).atoms, state.derived(WorkGraph)
    verify = [each for each in facts if state.owner(each) is not None and _needs_looking_at(read_filter.stale(each))]
    resolve: dict[str, str] = {}
    for commit, entity_id in _dated(written):
        atom = known.get(entity_id)
        if atom is not None and atom.pinned and _is_verified(state, commit, entity_id):
            atoms[entity_id] = None
        rows = [row for row in find_nodes(graph, VERIFIES, entity_id) if row.open]
        if rows and not _needs_looking_at(read_filter.stale(entity_id)):
            resolve |= dict.fromkeys((row.id for row in rows), commit.commit_id)
    return _Due([each for each in atoms if each in known], verify, resolve)


def _needs_looking_at(stale: Stale | None) -> bool:
    return stale is not None and stale.superseded_by is None


def _done(state: State, written: Sequence[Commit], key: str) -> Iterator[str]:
    """What those nodes are about that were resolved by these commits, and not given up."""
    for commit in written:
        if _DONE not in commit.payload:
            continue
        after = commit.document()
        before = state.node(after.get("id", ""), state.resolve(commit.lamport) - 1)
        attrs = after.get("attrs", {})
        was_open = before is None or before.attrs.get("resolved") is not True
        entity_id = object_of(attrs, "properties").get(key)
        if was_open and attrs.get("resolved") is True and isinstance(entity_id, str) and not is_dropped(attrs):
            yield entity_id


_DONE = b'"resolved":true'


def _dated(written: Sequence[Commit]) -> Iterator[tuple[Commit, str]]:
    """The facts of which something was said that may settle whether they hold."""
    for commit in written:
        said = commit.document()
        attrs = said.get("attrs")
        if (
            commit.operation is Verb.UPSERT_NODE
            and isinstance(attrs, dict)
            and not reserved_attributes.NAMES.isdisjoint(attrs)
        ):
            for entity_id in (said["id"], *staleness.superseded_by_it(attrs)):
                yield commit, entity_id


def _is_verified(state: State, commit: Commit, entity_id: str) -> bool:
    """By this very commit."""
    now = state.node(entity_id, state.resolve(commit.lamport))
    before = state.node(entity_id, state.resolve(commit.lamport) - 1)
    said = None if now is None else now.attrs.get(reserved_attributes.VERIFIED)
    return said is not None and (before is None or before.attrs.get(reserved_attributes.VERIFIED) != said)


async def _repin(tool_context: ToolContext, store: Store, principal: Principal, atom_id: str, tool: str) -> None:
    try:
        if not await repin(tool_context, store, principal, atom_id, tool=tool):
            logger.warning("atom '%s' was verified, but git could not tell the state of its files", atom_id)
    except TallystickError as error:
        logger.warning("atom '%s' was verified, but not pinned again: %s", atom_id, error.message)


async def _verify(store: Store, principal: Principal, entity_id: str, tool: str) -> None:
    def propose(state: State, read_filter: ReadFilter) -> Draft:
        node = state.node(entity_id)
        assert node is not None
        payload = {"id": node.id, "type": node.type, "attrs": node.attrs | {reserved_attributes.VERIFIED: True}}
        content = {} if node.content is None else {"content": node.content}
        return Draft((Operation(Verb.UPSERT_NODE, payload | content),), actor=principal.actor, tool=tool)

    try:
        await store.write(principal, Action.WRITE, propose, resource=entity_id)
    except TallystickError as error:
        logger.warning("the node of '%s' was resolved, but it was not verified: %s", entity_id, error.message)


async def _resolve(
    tool_context: ToolContext, store: Store, principal: Principal, nodes: Mapping[str, str], tool: str
) -> None:
    def draw(builder: DraftBuilder, view: View) -> None:
        for node_id, commit_id in nodes.items():
            attrs = builder.find(node_id)
            if attrs is not None and attrs.get("resolved") is not True:
                said = attrs.get("evidence")
                entry = evidence_entry(_ANSWERED, commit_id, principal.actor, tool_context.work.now(view.state))
                builder.revise(node_id, resolved=True, evidence=[*(said if isinstance(said, list) else ()), entry])

    try:
        await Call(tool_context.work, store, principal, tool).write(draw, reason="the fact was seen to")
    except TallystickError as error:
        logger.warning("what was verified is still to be verified by a work node: %s", error.message)
