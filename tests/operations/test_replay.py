"""A log that is replayed: the same entities of every vocabulary, in an empty base and twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio

from tests.command_line import CommandLine
from tests.mcp_client import call, connect


async def write_every_vocabulary(base: Path) -> None:
    async with connect(base, "--toolsets", "all") as client:
        for name in ("a", "b"):
            await call(
                client, "memory.write", op="UPSERT_NODE", node={"id": name, "type": "Note", "attrs": {"n": name}}
            )
        await call(client, "memory.write", op="UPSERT_EDGE", edge={"from": "a", "rel": "knows", "to": "b"})
        opened = await call(client, "graph_open", project="shop", goal="sell")
        root = opened["root"]["id"] if "root" in opened else opened["project"]["root"]
        plan = [
            {"ref": "one", "parent_ref": root, "summary": "build"},
            {"ref": "two", "parent_ref": root, "summary": "test", "depends_on": ["one"]},
        ]
        await call(client, "graph_plan", nodes=plan)
        await call(
            client,
            "manage_container",
            operation="create",
            containerType="project",
            name="site",
            summary="the site",
        )
        await call(client, "create_ontology", node_types=["Memo"], connection_types=[])
        await call(client, "create_node", type="Memo", content="words", format="markdown")


def entities(base: Path) -> dict[str, Any]:
    """The newest document of each entity, by id."""
    found = {}
    for line in CommandLine(base).run("export", "-").out.splitlines():
        payload = json.loads(line)["payload"]
        found[payload.get("id") or f"{payload.get('from')} {payload.get('rel')} {payload.get('to')}"] = payload
    return found


def test_a_replay_takes_every_vocabulary_and_twice_adds_nothing(tmp_path: Path) -> None:
    anyio.run(write_every_vocabulary, tmp_path / "first")
    exported = CommandLine(tmp_path / "first").run("export", "-").out
    other = CommandLine(tmp_path / "other")
    for duplicates in (False, True):
        done = other.run("import", "-", "--replay", "--json", stdin=exported).json
        assert (done["duplicates"] > 0) is duplicates
    assert entities(tmp_path / "other") == entities(tmp_path / "first")
    assert other.main("verify", "--views").code == 0


def test_a_replay_brings_recalls_and_what_undid_them(tmp_path: Path) -> None:
    first, other = CommandLine(tmp_path / "first"), CommandLine(tmp_path / "other")
    for name in ("a", "b"):
        first.write({"op": "UPSERT_NODE", "node": {"id": name, "type": "Note", "attrs": {}}, "actor": name})
    for actor in ("a", "b"):
        first.run("recall", "--actor", actor, "--reason", "guessed", "--yes")
    newest = first.run("recall", "--list", "--json").json["recalls"][-1]
    first.run("recall", "--undo", newest["recall"], "--reason", "checked")
    exported = first.run("export", "-").out
    for _ in range(2):
        other.run("import", "-", "--replay", stdin=exported)
    statuses = [
        [(each["recall"], each["status"]) for each in memory.run("recall", "--list", "--json").json["recalls"]]
        for memory in (first, other)
    ]
    assert statuses[0] == statuses[1]
    assert sorted(status for _, status in statuses[1]) == ["active", "undone"]
    assert other.main("verify", "--views").code == 0
