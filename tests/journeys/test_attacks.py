"""Attacks that are tried on every tool there is: arguments nobody asked for, other names, other tenants' ids."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tallystick import app
from tallystick.config import Settings
from tallystick.policy import Principal
from tallystick.server import Offer
from tallystick.server.dispatch import Done, OfferedTool, Refused, call, choose
from tallystick.server.schemas import input_schema
from tallystick.toolsets.operation_arguments import OperationArguments, unused_by
from tests.command_line import commits_in
from tests.multi_tenant import bytes_of
from tests.promises import promise
from tests.sample_memory import SECRET, outcome_of, sample_ids, told

ACME = Principal(actor="alice", tenant="acme", roles=("admin",), trusted=False)
GLOBEX = Principal(actor="mallory", tenant="globex", roles=("admin",), trusted=False)
EVERY_TOOL = list(choose(app.toolsets(Settings(base=Path("nowhere"))), names=["all"]))
NOBODY_ASKED_FOR = ("tenant", "tenant_id", "roles", "trusted", "policy_version", "lamport", "created_by", "is_admin")
COMBINATIONS_MAX = 48


@asynccontextmanager
async def house(base: Path) -> AsyncIterator[Offer]:
    settings = Settings(base=base, toolsets=("all",), issuers=("https://issuer.example",), policy="rbac")
    async with app.served(settings) as offer:
        yield offer


@promise("attack: mass assignment", "every tool refuses by name what it does not take")
@pytest.mark.parametrize("entry", EVERY_TOOL, ids=lambda entry: entry.dotted)
async def test_no_tool_takes_what_it_does_not_ask_for(entry: OfferedTool) -> None:
    assert not set(NOBODY_ASKED_FOR) & input_schema(entry.tool)["properties"].keys()
    store: Any = None
    outcome = await call(entry, dict.fromkeys(NOBODY_ASKED_FOR, "x"), store, lambda: GLOBEX)
    assert isinstance(outcome, Refused)
    assert {f"field '{name}' is not allowed" for name in NOBODY_ASKED_FOR} <= set(outcome.problems)


@promise("attack: another's name", "an actor argument that differs from the token is refused, wherever there is one")
async def test_nobody_writes_under_a_name_that_the_token_does_not_prove(tmp_path: Path) -> None:
    names = ("actor", "actor_id", "agent", "agent_identity", "author", "user")
    writers = [each for each in EVERY_TOOL if not each.tool.reads_only]
    takers = [(each, name) for each in writers for name in names if name in input_schema(each.tool)["properties"]]
    assert [(each.dotted, name) for each, name in takers] == [("memory.write", "actor")]
    node = {"id": "plan", "type": "note", "attrs": {}}
    async with house(tmp_path) as offer:
        arguments = {"op": "UPSERT_NODE", "node": node}
        refused = await outcome_of(offer, GLOBEX, "memory.write", {**arguments, "actor": "alice"})
        assert isinstance(refused, Refused)
        assert refused.error.code == "AUTHORIZATION_DENIED"
        own = await outcome_of(offer, GLOBEX, "memory.write", {**arguments, "actor": "mallory"})
        assert isinstance(own, Done)
    [commit] = commits_in(tmp_path / "tenants" / "globex" / "_system" / "log")
    assert commit.actor == "mallory"


@promise("attack: another tenant's ids", "in every tool they bring nothing back and change nothing")
async def test_another_tenants_ids_bring_nothing_back_in_any_tool(tmp_path: Path) -> None:
    reached: set[str] = set()
    async with house(tmp_path) as offer:
        ids = await sample_ids(offer, ACME)
        before = commits_in(tmp_path / "tenants" / "acme" / "_system" / "log")
        for entry in EVERY_TOOL:
            further = [make(id) for id in ids for make in FURTHER.get(entry.dotted, ())]
            made = (belonging(entry, arguments) for arguments in asked_with(input_schema(entry.tool), ids))
            for arguments in (*made, *further):
                outcome = await outcome_of(offer, GLOBEX, entry.dotted, arguments)
                assert SECRET.encode() not in bytes_of(told(outcome)), (entry.dotted, arguments)
                if not (isinstance(outcome, Refused) and outcome.problems):
                    reached.add(entry.dotted)
    assert commits_in(tmp_path / "tenants" / "acme" / "_system" / "log") == before
    # What fell at its arguments' form shows nothing of tenants.
    assert {entry.dotted for entry in EVERY_TOOL} - reached == set()


FURTHER: dict[str, tuple[Callable[[str], dict[str, Any]], ...]] = {
    "memory.write": (
        lambda id: {"op": "UPSERT_NODE", "node": {"id": id, "type": "note", "attrs": {}}},
        lambda id: {"op": "UPSERT_EDGE", "edge": {"from": id, "rel": "knows", "to": id, "attrs": {}}},
        lambda id: {"op": "DELETE_NODE", "node_id": id},
    ),
    "graph_restructure": (
        lambda id: {"operations": [{"op": "move", "node_id": id, "new_parent": id}]},
        lambda id: {"operations": [{"op": "drop", "node_id": id, "reason": "x"}]},
    ),
    "manage_graph": (
        lambda id: {"operation": "update", "entityType": "atom", "id": id, "version": 1, "knowledge": "x"},
        lambda id: {"operation": "delete", "entityType": "atom", "id": id, "version": 1},
    ),
    "rename_tag": (lambda id: {"oldTag": id, "newTag": "ours"},),
    "manage_container": (
        lambda id: {"operation": "update", "containerType": "task", "id": id, "version": 1, "title": "x"},
        lambda id: {"operation": "create", "containerType": "feature", "projectId": id, "name": "x", "summary": "x"},
    ),
}
"""What a tool's schema does not tell: which arguments belong together."""


# -- arguments made from what a tool says it takes


def asked_with(schema: dict[str, Any], ids: list[str]) -> Iterator[dict[str, Any]]:
    """Arguments of the right form with another's id wherever a text may stand, for each choice that is offered."""
    defs = schema.get("$defs", {})
    properties = {name: resolved(each, defs) for name, each in schema["properties"].items()}
    choices = {name: each["enum"] for name, each in properties.items() if "enum" in each}
    combinations = itertools.product(*choices.values())
    for chosen in itertools.islice(combinations, COMBINATIONS_MAX):
        for id in ids:
            given = dict(zip(choices, chosen, strict=True))
            needed = {name: filled(properties[name], defs, id) for name in schema.get("required", ())}
            yield {**needed, **given}
            texts = [name for name, each in properties.items() if kind_of(each) == "string" and name not in given]
            yield {**needed, **dict.fromkeys(texts, id), **given}
            yield from ({**needed, name: id, **given} for name in texts)


def belonging(entry: OfferedTool, arguments: dict[str, Any]) -> dict[str, Any]:
    """Without what the operation would refuse unread."""
    model = entry.tool.input
    if not issubclass(model, OperationArguments) or model.operation_field not in arguments:
        return arguments
    unused = unused_by(model, arguments[model.operation_field], arguments.get(model.kind_field or ""))
    return {name: value for name, value in arguments.items() if name not in unused}


def resolved(schema: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    """The first of several that is not null."""
    while "$ref" in schema or "anyOf" in schema or "oneOf" in schema:
        if "$ref" in schema:
            schema = defs[schema["$ref"].rpartition("/")[2]]
        else:
            several = schema.get("anyOf") or schema["oneOf"]
            schema = next(each for each in several if each.get("type") != "null")
    return schema


def kind_of(schema: dict[str, Any]) -> str:
    kind = schema.get("type", "string")
    return str(kind[0] if isinstance(kind, list) else kind)


def filled(schema: dict[str, Any], defs: dict[str, Any], text: str) -> Any:
    schema = resolved(schema, defs)
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    kind = kind_of(schema)
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: filled(properties[name], defs, text) for name in schema.get("required", ())}
    if kind == "array":
        return [filled(schema.get("items", {}), defs, text)]
    return {"string": text, "integer": schema.get("minimum", 1), "number": 1, "boolean": False}[kind]
