"""A secret in any text that any tool takes: none of it is on the disk afterwards, whatever was refused or masked."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tallystick import app
from tallystick.server.dispatch import choose
from tallystick.server.schemas import input_schema
from tests.mcp_client import call, connect, refused
from torture import writer

pytestmark = pytest.mark.anyio

SECRET = "ghp" + "_" + "a1B2c3D4e5F6g7H8i9J0" * 2
TOOLS = {entry.dotted: entry.tool for entry in choose(app.toolsets(writer.settled("nowhere")), names=["all"])}
WRITING = {name: input_schema(tool) for name, tool in TOOLS.items() if not tool.reads_only}
Step = str | int
NODE = {"op": "UPSERT_NODE", "node": {"id": "n", "type": "Note", "attrs": {}}}
EDGE = {"op": "UPSERT_EDGE", "edge": {"from": "n", "rel": "r", "to": "n"}}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("memory.write", NODE),
    ("memory.write", EDGE),
    ("memory.write", {"ops": [NODE]}),
    ("graph_plan", {"nodes": [{"ref": "a", "parent_ref": "root", "summary": "a"}]}),
    ("graph_update", {"updates": [{"node_id": "root"}]}),
    ("manage_graph", {"operation": "create", "entityType": "atom", "name": "a", "knowledge": "k", "paths": ["src/**"]}),
    ("manage_container", {"operation": "create", "containerType": "project", "name": "p", "summary": "s"}),
    ("manage_template", {"operation": "create", "name": "t", "description": "d", "targetEntityType": "TASK"}),
    ("create_node", {"type": "Memo", "content": "c", "format": "markdown"}),
    ("create", {"path": "notes.txt", "file_text": "one\n", "overwrite": True}),
    ("str_replace", {"path": "kept.txt", "old_str": "one"}),
    ("insert", {"path": "kept.txt", "insert_line": 0, "insert_text": "x"}),
    ("rename", {"old_path": "notes.txt", "new_path": "other.txt"}),
]
"""Arguments that a field is added to. A tool that is not here gets the field and what it requires."""


def fields(schema: dict[str, Any], root: dict[str, Any], at: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    """The path of every free text that the schema takes; of lists and open objects, one member."""
    schema = root["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    if len(at) > 6 or "enum" in schema or "const" in schema:
        return
    for choice in schema.get("anyOf", schema.get("oneOf", ())):
        yield from fields(choice, root, at)
    kinds = schema.get("type", ())
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    if "string" in kinds:
        yield at
    for name, member in schema.get("properties", {}).items():
        yield from fields(member, root, (*at, name))
    if "object" in kinds and schema.get("additionalProperties", True) is not False and "properties" not in schema:
        yield (*at, "note")
    if "array" in kinds:
        yield from fields(schema.get("items", {"type": "string"}), root, (*at, 0))


def placed(value: Any, path: tuple[Step, ...], text: str) -> Any:
    """`value` with the text at the path; what is missing on the way is made."""
    if not path:
        return text
    step, *rest = path
    if isinstance(step, int):
        items: list[Any] = value if isinstance(value, list) and value else [None]
        return [placed(items[0], tuple(rest), text), *items[1:]]
    members: dict[Any, Any] = value if isinstance(value, dict) else {}
    return {**members, step: placed(members.get(step), tuple(rest), text)}


def attempts() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, schema in WRITING.items():
        bases = [arguments for tool, arguments in CALLS if tool == name] or [
            dict.fromkeys(schema.get("required", ()), "a")
        ]
        for path in dict.fromkeys(fields(schema, schema)):
            for arguments in bases:
                yield name, placed(deepcopy(arguments), path, f"x {SECRET} y")


async def prepared(client: Any) -> None:
    await call(client, "graph_open", project="shop", goal="sell")
    await call(client, "create_ontology", node_types=["Memo"], connection_types=[])
    await call(client, "create", path="kept.txt", file_text="one\n")


@pytest.mark.parametrize("mode", ["refuse", "mask"])
async def test_a_secret_in_no_text_of_any_tool_reaches_the_disk(tmp_path: Path, mode: str) -> None:
    tried = 0
    async with connect(tmp_path, "--toolsets", "all", environ={"TALLYSTICK_SECRETS": mode}) as client:
        await prepared(client)
        for name, arguments in attempts():
            await client.call_tool(name, arguments)
            tried += 1
    assert tried > 100
    assert holding(tmp_path) == []


async def test_a_plain_file_is_refused_or_masked_like_the_rest(tmp_path: Path) -> None:
    for mode in ("refuse", "mask"):
        base = tmp_path / mode
        async with connect(base, "--toolsets", "files", environ={"TALLYSTICK_SECRETS": mode}) as client:
            await call(client, "create", path="kept.txt", file_text="one\ntwo\n")
            writes: list[tuple[str, dict[str, Any]]] = [
                ("create", {"path": "a.txt", "file_text": f"key {SECRET}\n"}),
                ("str_replace", {"path": "kept.txt", "old_str": "one", "new_str": f"key {SECRET}"}),
                ("insert", {"path": "kept.txt", "insert_line": 1, "insert_text": f"key {SECRET}"}),
            ]
            for tool, arguments in writes:
                if mode == "mask":
                    await call(client, tool, **arguments)
                else:
                    assert "SECRET_FOUND" in str(await refused(client, tool, **arguments))
            for tool, arguments in (
                ("create", {"path": f"{SECRET}.txt", "file_text": ""}),
                ("rename", {"old_path": "kept.txt", "new_path": f"{SECRET}.txt"}),
            ):
                assert "SECRET_FOUND" in str(await refused(client, tool, **arguments))
        assert holding(base) == []
    assert (tmp_path / "mask/a.txt").read_text() == "key [SECRET]\n"
    assert (tmp_path / "refuse/kept.txt").read_text() == "one\ntwo\n"


async def test_a_nonce_and_a_run_context_are_refused_or_masked(tmp_path: Path) -> None:
    async with connect(tmp_path, environ={"TALLYSTICK_SECRETS": "mask"}) as client:
        assert SECRET not in str(await refused(client, "memory.write", **NODE, nonce=SECRET))
        written = await call(client, "memory.write", **NODE, run_context={"run_id": f"run {SECRET}"})
        assert written["commit_id"]
    assert holding(tmp_path) == []
    assert holding(tmp_path, "run [SECRET]") != []


async def test_a_content_that_the_log_only_names_is_looked_at(tmp_path: Path) -> None:
    """Texts of more than 256 KiB are blobs."""
    long = "word " * 60_000
    async with connect(tmp_path, "--toolsets", "all", environ={"TALLYSTICK_SECRETS": "mask"}) as client:
        await call(client, "create_ontology", node_types=["Memo"], connection_types=[])
        memo = await call(client, "create_node", type="Memo", content=f"{long}{SECRET}\n", format="markdown")
        await call(client, "update_node", **memo, content=f"{SECRET}\n{long}", encoding="utf-8", format="markdown")
    assert holding(tmp_path) == []


def holding(directory: Path, text: str = SECRET) -> list[str]:
    """Besides the audit log: a policy is asked about an id before the draft is looked at."""
    files = [path for path in directory.rglob("*") if path.is_file() and path.parent.name != "audit"]
    assert files
    return [str(path) for path in files if text.encode() in path.read_bytes() or text in path.name]
