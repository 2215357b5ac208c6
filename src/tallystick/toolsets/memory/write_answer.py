"""What the operations of a memory.write came to, and the answer that tells of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import msgspec

from tallystick.commits import Commit
from tallystick.engine.partition import Receipt
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.toolsets.memory.answers import COMMIT_ID_DIGITS
from tallystick.toolsets.memory.arguments import WriteArguments, WriteOperation
from tallystick.toolsets.memory.draft_graph import DraftGraph, Payload
from tallystick.toolsets.memory.write_draft import UPSERTS, VERBS, Drafted, dropped_by
from tallystick.toolsets.memory.write_request import resource_of

DROPPED_MAX = 100
"""Of the attributes that an operation took away, so many are named; all are counted."""


class Effect(msgspec.Struct):
    """What one operation of the call comes to."""

    entity_id: str
    readable: list[bool]
    """For each of its commits, whether the caller may know of it. The last is the one that was asked for; those
    before it are of edges that it takes along, which may lead to what may not be read."""
    dropped: list[str] = []
    makes_node: bool = False
    commits: list[Commit] = []
    similar: list[str] = []


def effect_of(graph: DraftGraph, asked: WriteOperation, drafted: Drafted) -> Effect:
    if not graph.narrows:
        return Effect(resource_of(asked), [True] * len(drafted.operations), drafted.dropped, drafted.makes_node)
    readable = [_may_count(graph, each.payload) for each in drafted.operations]
    return Effect(resource_of(asked), readable, _readable_of(graph, asked, drafted.dropped), drafted.makes_node)


def effects_again(state: State, read_filter: ReadFilter, asked: WriteArguments, written: Commit) -> list[Effect]:
    """What the operations came to when they were written."""
    graph = DraftGraph(state, read_filter)
    commits = iter(state.draft_of(written))
    effects: list[Effect] = []
    for operation in asked.operations:
        made = [next(commits)]
        while made[-1].operation is not VERBS[operation.op]:
            made.append(next(commits))
        before = state.document_before(made[-1]) if made[-1].operation in UPSERTS else None
        dropped = dropped_by(operation, before["attrs"], made[-1].document()["attrs"]) if before else []
        readable = [not graph.narrows or _may_count(graph, commit.document()) for commit in made]
        shown = _readable_of(graph, operation, dropped)
        effects.append(Effect(resource_of(operation), readable, shown, commits=made))
    return effects


def _readable_of(graph: DraftGraph, asked: WriteOperation, dropped: list[str]) -> list[str]:
    """Who may not read an entity does not learn what it said."""
    if not dropped:
        return dropped
    entity_id = resource_of(asked)
    return dropped if (graph.allows(entity_id) if asked.node is not None else graph.allows_edge(entity_id)) else []


def _may_count(graph: DraftGraph, said: Payload) -> bool:
    """Whether the caller may know of it: not of an edge to what may not be read, which goes with its other end."""
    return "from" not in said or all([graph.allows(said["from"]), graph.allows(said["to"])])


def give_commits(effects: Sequence[Effect], commits: list[Commit]) -> None:
    begin = 0
    for effect in effects:
        end = begin + len(effect.readable)
        effect.commits = commits[begin:end]
        begin = end


def answer_of(receipt: Receipt, effects: Sequence[Effect], *, several: bool, full: bool) -> dict[str, Any]:
    """One operation is answered with whole hashes, several only with `full`: else commit ids are shortened (X27)."""
    commit = effects[-1].commits[-1]
    digits = None if full or not several else COMMIT_ID_DIGITS
    answer: dict[str, Any] = {
        "commit_id": commit.commit_id[:digits],
        "lamport": commit.lamport,
        "timestamp": commit.timestamp,
        **({"content_hash": commit.content_hash, "prev": commit.prev} if digits is None else {}),
        "duplicate": receipt.duplicate,
    }
    if len(effects) > 1 or len(effects[0].commits) > 1:
        _add_batch(answer, effects)
    if several:
        answer["results"] = [_result(each, digits) for each in effects]
    else:
        _add_details(answer, effects[0])
    if receipt.erasure_pending:
        answer["erasure"] = {"pending": list(receipt.erasure_pending)}
    return answer


def _add_batch(answer: dict[str, Any], effects: Sequence[Effect]) -> None:
    pairs = chain.from_iterable(zip(effect.commits, effect.readable, strict=True) for effect in effects)
    counted = [commit for commit, is_readable in pairs if is_readable]
    if len(counted) > 1:
        answer["batch"] = {"commits": len(counted), "first_lamport": counted[0].lamport}


def _result(effect: Effect, digits: int | None) -> dict[str, Any]:
    """Of one operation among several: what it takes to go on from it."""
    commit = effect.commits[-1]
    result: dict[str, Any] = {
        "id": effect.entity_id,
        "commit_id": commit.commit_id[:digits],
        "lamport": commit.lamport,
    }
    _add_details(result, effect)
    return result


def _add_details(answer: dict[str, Any], effect: Effect) -> None:
    if effect.dropped:
        answer["dropped"] = effect.dropped[:DROPPED_MAX]
        if len(effect.dropped) > DROPPED_MAX:
            answer["dropped_total"] = len(effect.dropped)
    if effect.similar:
        answer["similar"] = effect.similar
    if effect.commits[-1].redacts is not None:
        answer["redacted_commits"] = len(effect.commits[-1].redacts)
