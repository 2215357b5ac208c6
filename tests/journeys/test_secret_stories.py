"""A key that an agent would have written down: refused in every vocabulary, and nowhere on the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mcp_client import call, connect, refused
from tests.promises import promise

pytestmark = pytest.mark.anyio
SECRET = "ghp" + "_" + "a1B2c3D4e5F6g7H8i9J0" * 2


@promise("§5.3, secrets", "no vocabulary writes a key down, and its caller is told what and where")
async def test_no_vocabulary_writes_a_key_down_and_its_caller_is_told_what_and_where(tmp_path: Path) -> None:
    told = []
    async with connect(tmp_path, "--toolsets", "all", environ={"TALLYSTICK_SECRETS": "refuse"}) as client:
        node = {"id": "deploy", "type": "Note", "attrs": {"how": f"push with {SECRET}"}}
        told.append(await refused(client, "memory.write", op="UPSERT_NODE", node=node))
        await call(client, "graph_open", project="shop", goal="sell")
        plan = [{"ref": "a", "summary": f"rotate {SECRET}"}]
        told.append(await refused(client, "graph_plan", nodes=plan))
        await call(client, "create_ontology", node_types=["Memo"], connection_types=[])
        memo = {"type": "Memo", "properties": {}, "content": f"key: {SECRET}", "format": "markdown"}
        told.append(await refused(client, "create_node", **memo))
        container = {"operation": "create", "containerType": "project", "name": "p", "summary": f"with {SECRET}"}
        told.append(await refused(client, "manage_container", **container))
        await call(client, "memory.write", op="UPSERT_NODE", node={**node, "attrs": {"how": "the key is in the vault"}})
    for each in told:
        assert "there is a secret in what is to be written" in str(each)
        assert "GitHub token" in str(each)
        assert SECRET not in str(each)
    assert _holding(tmp_path, SECRET) == []


async def test_a_key_that_is_masked_is_nowhere_and_the_rest_is_found(tmp_path: Path) -> None:
    async with connect(tmp_path, "--toolsets", "all", environ={"TALLYSTICK_SECRETS": "mask"}) as client:
        await call(client, "create_ontology", node_types=["Memo"], connection_types=[])
        memo = await call(client, "create_node", type="Memo", content=f"key:\n{SECRET}\n", format="markdown")
        assert (await call(client, "get_node_content", **memo))["content"] == "key:\n[SECRET]\n"
        node = {"id": "deploy", "type": "Note", "attrs": {"how": f"push with {SECRET} on Fridays"}}
        await call(client, "memory.write", op="UPSERT_NODE", node=node)
        found = await call(client, "memory.read", entity_id="deploy")
    assert found["entity"]["attrs"]["how"] == "push with [SECRET] on Fridays"
    assert _holding(tmp_path, SECRET) == []


def _holding(directory: Path, text: str) -> list[str]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert files
    return [path.name for path in files if text.encode() in path.read_bytes()]
