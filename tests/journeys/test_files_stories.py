"""A person and an agent work on the same files, through a real client."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp.client import Client

from tallystick import app, config
from tallystick.operations.catch_up import catch_up
from tallystick.operations.doctor import examine
from tests.mcp_client import call, connect, refused
from tests.promises import promise


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "base"


@asynccontextmanager
async def agent_at(base: Path) -> AsyncIterator[Client]:
    async with connect(base, "--toolsets", "all", agent="planner") as client:
        yield client


async def _project(client: Client) -> str:
    await call(client, "create_ontology", node_types=["Project"], connection_types=[])
    made = await call(client, "create_node", type="Project", content="# Kitchen\n\nBudget: 50k\n", format="markdown")
    return str(made["node_id"])


async def test_what_a_person_writes_into_a_content_file_is_what_the_agent_reads(base: Path) -> None:
    async with agent_at(base) as client:
        node_id = await _project(client)
        path = base / "_content" / "nodes" / f"{node_id}.md"
        path.write_text("# Kitchen\n\nBudget: 60k\n")
        found = await call(client, "get_node_content", node_id=node_id)
        assert found["content"] == "# Kitchen\n\nBudget: 60k\n"
        story = (await call(client, "memory.lineage", entity_id=node_id))["lineage"]
        assert [step["actor"] for step in story] == ["planner", "file-edit"]
        assert path.read_text() == "# Kitchen\n\nBudget: 60k\n"
        assert (await call(client, "search_content", query="60K"))["node_ids"] == [node_id]


async def test_an_edit_made_while_nobody_served_is_adopted_at_the_next_start(base: Path) -> None:
    async with agent_at(base) as client:
        node_id = await _project(client)
    path = base / "_content" / "nodes" / f"{node_id}.md"
    path.write_text("written at night\n")
    async with agent_at(base) as client:
        assert (await call(client, "get_node_content", node_id=node_id))["content"] == "written at night\n"


@promise("M24, repair", "where nobody adopts edits a file that differs is put right at the start")
async def test_where_edits_are_not_adopted_a_file_that_differs_is_put_right_at_the_start(base: Path) -> None:
    async with agent_at(base) as client:
        node_id = await _project(client)
    path = base / "_content" / "nodes" / f"{node_id}.md"
    path.write_text("written at night\n")
    (base / "tallystick.toml").write_text('adopt_file_edits = "off"\n')
    async with agent_at(base) as client:
        # Answered when the views are at it.
        await call(client, "create_node", type="Project", content="", format="markdown")
        assert "50k" in path.read_text()
    assert [kept.read_text() for kept in path.parent.glob("*.edited-*")] == ["written at night\n"]


async def test_an_agent_edits_a_content_as_a_file_and_keeps_notes_beside_it(base: Path) -> None:
    async with agent_at(base) as client:
        node_id = await _project(client)
        content = f"_content/nodes/{node_id}.md"
        await call(client, "str_replace", path=content, old_str="50k", new_str="70k")
        assert "70k" in (await call(client, "get_node_content", node_id=node_id))["content"]
        await call(client, "create", path="notes/today.md", file_text="one\nthree\n")
        await call(client, "insert", path="notes/today.md", insert_line=1, insert_text="two\n")
        await call(client, "rename", old_path="notes/today.md", new_path="notes/kept.md")
        assert (base / "notes" / "kept.md").read_text() == "one\ntwo\nthree\n"
        for path in ("../outside.md", "/etc/passwd", "_system/log/00000000000000000001.jsonl", "notes/../../x"):
            answer = await refused(client, "create", path=path, file_text="no")
            assert answer["code"] in {"PATH_NOT_ALLOWED", "PATH_RESERVED"}
        await call(client, "delete", path="notes")
    assert not (base / "notes").exists()


@promise("files, settings", "nothing that settings name is in reach of an agent, wherever it lies")
async def test_nothing_that_settings_name_is_in_reach_of_an_agent(base: Path) -> None:
    (base / "conf" / "rules").mkdir(parents=True)
    rules = base / "conf" / "rules" / "all.rego"
    rules.write_text(
        'package tallystick\n\ndecision := {"result": true, "reason": "all", "policy_version": "1", "narrows": false}\n'
    )
    settings = {"policy": rules.parent, "audit_archive": base / "archive", "lineage_to": base / "feed.jsonl"}
    (base / "tallystick.toml").write_text("".join(f'{name} = "{path}"\n' for name, path in settings.items()))
    (base / "graph.config.yaml").write_text("db_path: mirror.sqlite\n")
    os.link(rules, base / "alias.rego")
    async with agent_at(base) as client:
        await _project(client)
        for path in ("conf/rules/all.rego", "CONF/rules/new.rego", "archive/x", "feed.jsonl", "mirror.sqlite-wal"):
            assert (await refused(client, "view", path=path))["code"] == "PATH_RESERVED"
            answer = await refused(client, "create", path=path, file_text="x", overwrite=True)
            assert answer["code"] == "PATH_RESERVED"
        for path in ("conf", "mirror.sqlite"):
            assert (await refused(client, "rename", old_path=path, new_path="mine"))["code"] == "PATH_RESERVED"
            assert (await refused(client, "delete", path=path))["code"] == "PATH_RESERVED"
        assert (await refused(client, "view", path="alias.rego"))["code"] == "PATH_RESERVED"
        shown = [entry["path"] for entry in (await call(client, "view", path="."))["entries"]]
        assert [path for path in shown if not path.startswith("_")] == ["conf"]


async def test_doctor_tells_of_an_edit_that_could_not_be_adopted(base: Path) -> None:
    async with agent_at(base) as client:
        node_id = await _project(client)
        (base / "_content" / "nodes" / f"{node_id}.md").write_bytes(b"\xff\xfe not text")
        await call(client, "get_node_content", node_id=node_id)
    context = app.operation_context(config.load({"base": str(base)}, environ={}))
    await asyncio.to_thread(catch_up, context, ["views"])
    odd = [finding for finding in examine(config.load({"base": str(base)}, environ={})) if finding.what == "views"]
    assert [finding.status for finding in odd] == ["odd"]
    assert node_id in odd[0].found
