"""What several machines want at the same time: a few entities that all read and write, and work that all claim.

Of each operation on an entity it is noted when it was called and when it was answered, and with what; a call without
an answer is one of which nobody knows what became. From these notes come the histories that `linearizability` judges.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tallystick.errors import Conflict, StorageRefused, TallystickError
from torture.journal import Note
from torture.linearizability import Operation, Value, check_all
from torture.writer import Client

ENTITIES = 4
PROJECTS = 3
_TASKS = 60
_REPEATS_MAX = 20


class Call(msgspec.Struct, frozen=True):
    name: str
    """Of the operation: no two have the same."""
    kind: str
    value: Value = None
    expected: Value = None


class Answer(msgspec.Struct, frozen=True):
    name: str
    how: str
    """done; refused: what was expected was not there; nothing: it did not happen, for certain."""
    value: Value = None


# -- on entities


async def share(client: Client) -> None:
    while (name := client.next()) is not None:
        entity = f"shared.{client.random.randrange(ENTITIES)}"
        what = client.random.choice((_write, _write_until_settled, _swap, _swap, _read))
        await what(client, entity, name)


async def _read(client: Client, entity: str, name: str) -> tuple[Value, str | None]:
    """What is there, and by which commit."""
    _note_call(client, entity, Call(name, "read"))
    told = await client.ask("memory.read", name, entity_id=entity, consistency="latest")
    if not isinstance(told, dict):
        await _note_failure(client, entity, name, told)
        return None, None
    value = told["entity"]["attrs"]["value"] if told["entity"] else None
    _note_answer(client, entity, Answer(name, "done", value))
    return value, told["provenance"]["commit_id"] if told["entity"] else None


async def _write(client: Client, entity: str, name: str) -> None:
    _note_call(client, entity, Call(name, "write", name))
    told = await client.ask("memory.write", name, **_node(entity, name))
    if isinstance(told, dict):
        _note_answer(client, entity, Answer(name, "done"))
        await _see_own_write(client, entity, int(told["lamport"]))
    else:
        await _note_failure(client, entity, name, told)


async def _write_until_settled(client: Client, entity: str, name: str) -> None:
    """With a nonce, again and again until it is known: it happens once."""
    _note_call(client, entity, Call(name, "write", name))
    for _ in range(_REPEATS_MAX):
        told = await client.ask("memory.write", name, nonce=name, **_node(entity, name))
        if isinstance(told, dict):
            _note_answer(client, entity, Answer(name, "done"))
            return
        await _pause(client, name, told)


async def _swap(client: Client, entity: str, name: str) -> None:
    value, commit_id = await _read(client, entity, f"{name}.read")
    if commit_id is None:
        await _write(client, entity, name)
        return
    _note_call(client, entity, Call(name, "swap", name, value))
    told = await client.ask("memory.write", name, if_commit=commit_id, **_node(entity, name))
    if isinstance(told, dict):
        _note_answer(client, entity, Answer(name, "done"))
    elif isinstance(told, Conflict):
        _note_answer(client, entity, Answer(name, "refused"))
    else:
        await _note_failure(client, entity, name, told)


async def _see_own_write(client: Client, entity: str, lamport: int) -> None:
    """Reads are local, and never behind what the same process was told."""
    told = await client.ask("memory.read", entity, entity_id=entity)
    if isinstance(told, dict) and told["position"] < lamport:
        client.journal.note("broken", entity, text=f"read at {told['position']} what was written at {lamport}")


def _node(entity: str, value: str) -> dict[str, Any]:
    return {"op": "UPSERT_NODE", "node": {"id": entity, "type": "shared", "attrs": {"value": value}}}


async def _note_failure(client: Client, entity: str, name: str, told: TallystickError | None) -> None:
    if isinstance(told, StorageRefused):
        _note_answer(client, entity, Answer(name, "nothing"))
    await _pause(client, name, told)


async def _pause(client: Client, name: str, told: TallystickError | None) -> None:
    if isinstance(told, TallystickError):
        await client.refused(name, told)


def _note_call(client: Client, entity: str, call: Call) -> None:
    client.journal.note("calls", entity, text=msgspec.json.encode(call).decode())


def _note_answer(client: Client, entity: str, answer: Answer) -> None:
    client.journal.note("answers", entity, text=msgspec.json.encode(answer).decode())


# -- on work


async def work(client: Client) -> None:
    """As an agent of its own: claim what is next, note it, do it."""
    client.actor = f"{client.name}.{client.number}"
    if client.number < PROJECTS and client.name.endswith("life0"):
        await _plan(client, f"work-{client.name}")
    projects = [f"work-host{number}life0" for number in range(PROJECTS)]
    while client.next() is not None:
        told = await client.ask("graph_next", client.actor, project=client.random.choice(projects), claim=True)
        nodes = told["nodes"] if isinstance(told, dict) else []
        if not nodes:
            await asyncio.sleep(0.05)
        for node in nodes:
            node_id = str(node["node"]["id"])
            client.journal.note("claimed", node_id, text=client.actor)
            done = {"node_id": node_id, "resolved": True, "add_evidence": [{"type": "note", "ref": "done"}]}
            await client.ask("graph_update", client.actor, updates=[done])


async def _plan(client: Client, project: str) -> None:
    opened = await client.ask("graph_open", client.actor, project=project)
    if isinstance(opened, dict) and opened["created"]:
        root = opened["root"]["id"]
        nodes = [{"ref": f"t{number}", "parent_ref": root, "summary": f"task {number}"} for number in range(_TASKS)]
        await client.ask("graph_plan", client.actor, nodes=nodes)


# -- what the notes say


def problems_of(notes: Sequence[Note]) -> Iterator[str]:
    for entity, violation in check_all(histories(notes)).items():
        yield f"{entity} is not linearizable: {violation}"
    for node_id, claimants in claims(notes).items():
        if len(claimants) > 1:
            yield f"{node_id} was handed out to {', '.join(sorted(claimants))}"


def histories(notes: Sequence[Note]) -> Iterator[tuple[str, Operation]]:
    answers = {answer.name: (note, answer) for note in notes if note.kind == "answers" for answer in [_answer(note)]}
    for note in notes:
        if note.kind == "calls":
            call = msgspec.json.decode(note.text, type=Call)
            answered = answers.get(call.name)
            if answered is None:
                yield note.id, _operation(call, note, None, None)
            elif answered[1].how != "nothing":
                yield note.id, _operation(call, note, *answered)


def _answer(note: Note) -> Answer:
    return msgspec.json.decode(note.text, type=Answer)


def _operation(call: Call, began: Note, ended: Note | None, answer: Answer | None) -> Operation:
    value = answer.value if answer is not None and call.kind == "read" else call.value
    refused = answer is not None and answer.how == "refused"
    made = {"kind": call.kind, "began": began.at, "ended": ended.at if ended else None, "value": value}
    return msgspec.convert(made | {"expected": call.expected, "refused": refused, "who": call.name}, Operation)


def claims(notes: Sequence[Note]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for note in notes:
        if note.kind == "claimed":
            found[note.id].add(note.text)
    return found
