"""memory.write: one operation on a node or an edge, or several in one draft, checked at the head.

What is asked becomes payloads (`write_request`), payloads become the operations of a draft (`write_draft`), and the
commits an answer (`write_answer`).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

import msgspec

from tallystick.commits import REDACTIONS, Commit, Draft, Operation, reserved_attributes
from tallystick.commits.chain import content_hash
from tallystick.commits.payloads import name_of_edge, read_node
from tallystick.engine.partition import Proposal
from tallystick.errors import Conflict, TallystickError
from tallystick.policy import Principal
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.toolsets import Answer
from tallystick.toolsets.memory.arguments import WriteArguments, refuse
from tallystick.toolsets.memory.draft_graph import DraftGraph, Payload
from tallystick.toolsets.memory.write_answer import Effect, answer_of, effect_of, effects_again, give_commits
from tallystick.toolsets.memory.write_draft import draft_operation, with_whole_commit_id
from tallystick.toolsets.memory.write_request import (
    PATCHES,
    Placed,
    payload_of,
    placed_operations,
    problems_of,
    request_hash,
    target_of,
)

if TYPE_CHECKING:
    from tallystick.engine.store import Store
    from tallystick.toolsets.memory.similar import SimilarNodes

TOOL = "memory.write"


async def write(
    store: Store, principal: Principal, asked: WriteArguments, *, similar: SimilarNodes | None = None
) -> Answer:
    placed = placed_operations(asked)
    refuse(problems_of(asked, placed))
    targets = [target_of(each, place) for each, place in placed]
    author = speaker(principal, asked.actor)
    if author is None:
        await store.refuse_actor(principal, targets[0].action, targets[0].resource, asked.actor or "")
    said = [_with_relative_citations(store, payload_of(each)) for each, _ in placed]

    def propose(state: State, read_filter: ReadFilter) -> Generator[None, None, Proposal[list[Effect]]]:
        written = None if asked.nonce is None else find_written(state, author.actor, asked.nonce, asked, said)
        if written is not None:
            return Proposal(written, effects_again(state, read_filter, asked, written))
        operations, effects = yield from _drafted(DraftGraph(state, read_filter), asked, placed, said)
        return Proposal(_draft(author.actor, asked, operations, said[-1]), effects)

    receipt = await store.write_all(author, propose, targets)
    effects = receipt.answer
    if not receipt.duplicate:
        give_commits(effects, receipt.commits)
        if similar is not None and any(effect.makes_node for effect in effects) and similar.is_ready(store, author):
            await _find_similar(similar, store, author, effects)
    full = asked.receipt or principal.is_program
    return Answer(answer_of(receipt, effects, several=asked.ops is not None, full=full))


def _with_relative_citations(store: Store, payload: Payload) -> Payload:
    attrs = payload.get("attrs")
    cites = attrs.get(reserved_attributes.CITES) if isinstance(attrs, dict) else None
    if not isinstance(attrs, dict) or not isinstance(cites, list):
        return payload
    relative = [store.relative_path(each) if isinstance(each, str) else each for each in cites]
    return {**payload, "attrs": {**attrs, reserved_attributes.CITES: relative}}


def speaker(principal: Principal, actor: str | None) -> Principal | None:
    """A proven identity cannot be argued away, then None; where nobody proves one, the caller may name itself."""
    if actor is None or actor == principal.actor:
        return principal
    return msgspec.structs.replace(principal, actor=actor) if principal.trusted else None


async def _find_similar(similar: SimilarNodes, store: Store, principal: Principal, effects: Sequence[Effect]) -> None:
    made = {effect.commits[-1].lamport: effect for effect in effects if effect.makes_node}
    nodes = {lamport: read_node(effect.commits[-1].payload) for lamport, effect in made.items()}
    found = await similar.find(store, principal, list(nodes.values()))
    for lamport, node in nodes.items():
        made[lamport].similar = found.get(node.id, [])


# -- written before?


def find_written(state: State, actor: str, nonce: str, asked: WriteArguments, said: Sequence[Payload]) -> Commit | None:
    """The commit that this nonce stands for. Asked before anything else, so that a retried delete finds itself."""
    commit = state.nonce(actor, nonce)
    if commit is None or _says_the_same(state, commit, asked, said):
        return commit
    raise Conflict(
        f"nonce '{nonce}' was used by actor '{actor}' for another write",
        code="NONCE_REUSED",
        hint="a nonce belongs to one write: use a new one",
        details={"commit_id": commit.commit_id, "lamport": commit.lamport},
    )


def _says_the_same(state: State, commit: Commit, asked: WriteArguments, said: Sequence[Payload]) -> bool:
    if commit.request is not None:
        return commit.request == request_hash(asked)
    if not _is_plain(asked) or commit.operation != asked.op:
        return False
    payload = with_whole_commit_id(state, said[0])
    if asked.edge_id is not None:
        written = commit.document()
        is_it = asked.edge_id == name_of_edge(written)
        return is_it and all(written.get(name) == value for name, value in payload.items())
    if commit.operation in REDACTIONS:
        # What the redacted entity supersedes is filled in at the head.
        written = {name: value for name, value in commit.document().items() if name != reserved_attributes.SUPERSEDES}
        return content_hash(written) == content_hash(payload)
    return commit.content_hash == content_hash(payload)


def _is_plain(asked: WriteArguments) -> bool:
    return asked.ops is None and asked.if_commit is None and asked.op not in PATCHES


def _is_told_by_payload(asked: WriteArguments, said: Payload, written: Payload) -> bool:
    """Whether what is committed for a request is what it says: not where it is merged, has content, or where the store
    fills something in."""
    if not _is_plain(asked):
        return False
    return "attrs" not in written or (written == said and reserved_attributes.NAMES.isdisjoint(said["attrs"]))


# -- drafts


def _drafted(
    graph: DraftGraph, asked: WriteArguments, placed: Placed, said: Sequence[Payload]
) -> Generator[None, None, tuple[list[Operation], list[Effect]]]:
    """Raises what forbids one of the operations, naming it."""
    operations: list[Operation] = []
    effects: list[Effect] = []
    for (operation, place), payload in zip(placed, said, strict=True):
        try:
            drafted = yield from draft_operation(graph, operation, payload, asked.reason)
            if place is not None:
                graph.add(drafted.operations)
        except TallystickError as error:
            raise error.at(place) from None
        operations += drafted.operations if place is None else _in_place(drafted.operations, operation.reason, place)
        effects.append(effect_of(graph, operation, drafted))
        yield
    return operations, effects


def _in_place(operations: Sequence[Operation], reason: str | None, place: str) -> list[Operation]:
    return [msgspec.structs.replace(each, reason=reason, place=place) for each in operations]


def _draft(actor: str, asked: WriteArguments, operations: list[Operation], said: Payload) -> Draft:
    """One nonce covers all of them; the last, which was said so, has it."""
    if asked.nonce is not None:
        request = None if _is_told_by_payload(asked, said, operations[-1].payload) else request_hash(asked)
        operations[-1] = msgspec.structs.replace(operations[-1], nonce=asked.nonce, request=request)
    context = asked.run_context.model_dump(exclude_none=True) if asked.run_context else None
    return Draft(tuple(operations), actor=actor, tool=TOOL, reason=asked.reason, run_context=context or None)
