"""Typed memories through a real MCP client, ending with the files that a person would open."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError
from mcp.client import Client

from tests.conftest import mounted_small
from tests.mcp_client import TRANSPORTS, call, connect, refused, serving_http, start_http
from tests.promises import promise

over_each_transport = pytest.mark.parametrize("transport", TRANSPORTS)

ONTOLOGY: dict[str, Any] = {
    "node_types": ["Project", "Action", "Person"],
    "connection_types": [
        {"name": "NextAction", "from_types": ["Project"], "to_types": ["Action"]},
        {"name": "DependsOn", "from_types": ["Action"], "to_types": ["Action"]},
        {
            "name": "WaitingFor",
            "from_types": ["Action", "Project"],
            "to_types": ["Person"],
            "required_properties": ["since", "follow_up_date"],
        },
    ],
}
YAML = """\
node_types:
  - Project
  - Action
  - Person

connection_types:
  - name: NextAction
    from_types:
      - Project
    to_types:
      - Action

  - name: DependsOn
    from_types:
      - Action
    to_types:
      - Action

  - name: WaitingFor
    from_types:
      - Action
      - Project
    to_types:
      - Person
    required_properties:
      - since
      - follow_up_date
"""
KITCHEN = "# Kitchen Renovation\n\nBudget: $50k"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "tallystick.toml").write_text('toolsets = ["memory", "ontology"]\n')
    return tmp_path


async def make(client: Client, kind: str, content: str = "", **properties: Any) -> str:
    asked = {"type": kind, "content": content, "format": "markdown", "properties": properties}
    return str((await call(client, "create_node", **asked))["node_id"])


async def join(client: Client, source: str, kind: str, target: str, **more: Any) -> str:
    asked = {"type": kind, "from_node_id": source, "to_node_id": target, **more}
    return str((await call(client, "create_connection", **asked))["connection_id"])


async def state_of(client: Client) -> dict[str, Any]:
    """Everything there is, as the tools tell it, in the shape of the registry."""
    nodes = (await call(client, "query_nodes"))["node_ids"]
    connections = (await call(client, "query_connections"))["connection_ids"]
    return {
        "nodes": {node: await _node(client, node) for node in nodes},
        "connections": {each: await _connection(client, each) for each in connections},
    }


async def _node(client: Client, node_id: str) -> dict[str, Any]:
    said = await call(client, "get_node", node_id=node_id)
    content = await call(client, "get_node_content", node_id=node_id)
    return {**_only(said, "id", "type", "created", "modified", "properties"), "text": content["content"]}


async def _connection(client: Client, connection_id: str) -> dict[str, Any]:
    said = await call(client, "get_connection", connection_id=connection_id, include_content=True)
    shown = _only(said, "id", "type", "created", "modified", "properties")
    return {**shown, "from": said["from_node_id"], "to": said["to_node_id"], "text": said["content"]}


def _only(said: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: said[key] for key in keys}


def files_say(base: Path) -> dict[str, Any]:
    """The same, as the files tell it. Fails when a content file is missing, or one is there that nobody names."""
    registry: dict[str, Any] = json.loads((base / "_system" / "registry.json").read_text())
    named = set()
    for kind, entities in registry.items():
        for entity in entities.values():
            content = entity.pop("content", None)
            entity["text"] = None
            if content is not None:
                named.add(content["path"])
                entity["text"] = _text(base / content["path"], content["encoding"])
            assert kind == "connections" or content is not None
    assert content_files(base) == named
    return registry


def _text(path: Path, encoding: str) -> str:
    data = path.read_bytes()
    return data.decode() if encoding == "utf-8" else b64encode(data).decode()


def content_files(base: Path) -> set[str]:
    found = (path for kind in ("nodes", "connections") for path in (base / "_content" / kind).glob("[!.]*"))
    return {str(path.relative_to(base)) for path in found}


async def published(base: Path, *, nodes: set[str], connections: frozenset[str] | set[str] = frozenset()) -> bytes:
    """The registry once it has exactly these; where a rewrite takes long, that is up to a second after the answer."""
    path = base / "_system" / "registry.json"
    while True:
        data = path.read_bytes() if path.exists() else b'{"nodes": {}, "connections": {}}'
        registry = json.loads(data)
        if (set(registry["nodes"]), set(registry["connections"])) == (nodes, set(connections)):
            return data
        await asyncio.sleep(0.02)


# -- what a message may carry

UNREAD: dict[str, dict[str, Any]] = {
    "too large": {"content": "x" * 40_000},
    "too deep": {"properties": {"deep": json.loads("[" * 150 + "]" * 150)}},
}


@promise("M40, stdio", "whatever create_node takes comes through stdio")
async def test_content_up_to_its_limit_comes_through_stdio_however_it_is_spelled(base: Path) -> None:
    with (base / "tallystick.toml").open("a") as settings:
        settings.write("content_bytes_max = 3000\nbody_bytes_max = 2048\n")
    async with connect(base) as client:
        await call(client, "create_ontology", **ONTOLOGY)
        whole = "\x01" * 3_000
        node = await make(client, "Project", whole, name="p")
        assert (await call(client, "get_node_content", node_id=node))["content"] == whole
        asked = {"type": "Project", "format": "markdown", "properties": {"name": "q"}}
        too_much = await refused(client, "create_node", **asked, content="\x01" * 3_001)
        assert too_much["code"] == "INVALID_ARGUMENT"


@promise("L23, id, for real", "a real client hears of every call that was refused unread")
@pytest.mark.parametrize("arguments", UNREAD.values(), ids=UNREAD)
async def test_a_call_that_is_refused_unread_is_answered(base: Path, arguments: dict[str, Any]) -> None:
    with (base / "tallystick.toml").open("a") as settings:
        settings.write("content_bytes_max = 3000\nbody_bytes_max = 2048\n")
    async with connect(base) as client:
        asked = {"type": "Project", "format": "markdown", "properties": {}, "content": "", **arguments}
        with pytest.raises(MCPError):
            await client.call_tool("create_node", asked)
        assert "tools" in (await client.list_tools()).model_dump()


# -- scenarios


@promise("typed scenario 1", "a project and its next action are kept, found, and lie in files a person can open")
@promise("AC1, restart", "nodes are there after a restart")
@promise("AC2, restart", "connections are there after a restart")
@promise("AC20", "changes are in the registry when the answer comes")
@over_each_transport
async def test_scenario_1_a_project_with_its_next_action_is_kept_and_can_be_opened(transport: str, base: Path) -> None:
    async with connect(base, transport=transport) as client:
        assert await call(client, "create_ontology", **ONTOLOGY) == {"ok": True}
        project = await make(client, "Project", KITCHEN, status="active")
        action = await make(client, "Action", "# Call contractor\n\nGet 3 quotes", status="next")
        conn = await join(client, project, "NextAction", action, properties={"priority": "high"})
        # Before the reply, not some time after it.
        assert (base / "_content" / "nodes" / f"{project}.md").read_text() == KITCHEN
        assert content_files(base) == {f"_content/nodes/{project}.md", f"_content/nodes/{action}.md"}
        await published(base, nodes={project, action}, connections={conn})
        assert (base / "_system" / "ontology.yaml").read_text() == YAML
        follow = {"node_id": project, "connection_type": "NextAction", "direction": "out"}
        assert await call(client, "get_connected_nodes", **follow) == {"node_ids": [action]}
        before = await state_of(client)
    assert files_say(base) == before
    async with connect(base, transport=transport) as client:
        assert await state_of(client) == before
        found = await call(client, "get_node", node_id=project)
        assert (found["type"], found["properties"]) == ("Project", {"status": "active"})


@promise("typed scenario 2", "a connection between the wrong types is refused in the exact words and leaves no trace")
@promise("AC19, validation", "a refused connection is nowhere")
@promise("M34", "an error is a result with its code, as object and as text")
async def test_scenario_2_an_invalid_topology_is_refused_and_changes_nothing(base: Path) -> None:
    async with connect(base) as client:
        await call(client, "create_ontology", **ONTOLOGY)
        project, person = await make(client, "Project"), await make(client, "Person")
        before = await published(base, nodes={project, person})
        ends = {"from_node_id": project, "to_node_id": person}
        answer = await client.call_tool("create_connection", {"type": "NextAction", **ends})
        assert answer.is_error
        said = answer.structured_content
        assert said is not None
        assert said["code"] == "INVALID_TOPOLOGY"
        assert said["message"] == "Cannot connect Project to Person with NextAction. Valid targets: [Action]"
        assert json.loads(answer.content[0].text) == said  # type: ignore[union-attr]  # a text block
        assert await call(client, "query_connections", from_node_id=project) == {"connection_ids": []}
        assert await published(base, nodes={project, person}) == before


@promise("typed scenario 3", "deleting a node removes its connections and files and nothing else")
@promise("AC19, deletion", "registry entry and file go together")
@promise("M13", "the file of a deleted connection goes too")
async def test_scenario_3_a_deleted_node_takes_its_connections_and_files_along(base: Path) -> None:
    async with connect(base) as client:
        await call(client, "create_ontology", **ONTOLOGY)
        project = await make(client, "Project", KITCHEN)
        actions = [await make(client, "Action", name) for name in "abc"]
        gone = [await join(client, project, "NextAction", action, content="why") for action in actions[:2]]
        kept = await join(client, actions[1], "DependsOn", actions[2])
        assert len(content_files(base)) == 6
        answer = await client.call_tool("delete_node", {"node_id": project})
        assert answer.content[0].text == "delete_node completed successfully"  # type: ignore[union-attr]  # a text block
        assert content_files(base) == {f"_content/nodes/{action}.md" for action in actions}
        assert (await refused(client, "get_node", node_id=project))["code"] == "NODE_NOT_FOUND"
        for each in gone:
            assert (await refused(client, "get_connection", connection_id=each))["code"] == "CONNECTION_NOT_FOUND"
        assert (await call(client, "get_connection", connection_id=kept))["from_node_id"] == actions[1]
        before = await state_of(client)
        assert set(before["nodes"]) == set(actions)
    assert files_say(base) == before


@promise("typed scenario 4", "nodes are found by all the properties asked for, whatever else they have")
async def test_scenario_4_nodes_are_found_by_all_their_properties(base: Path) -> None:
    async with connect(base) as client:
        await call(client, "create_ontology", **ONTOLOGY)
        first = await make(client, "Action", status="next", context="phone")
        await make(client, "Action", status="next", context="computer")
        await make(client, "Action", status="waiting", context="phone")
        last = await make(client, "Action", status="next", context="phone", priority="high")
        asked = {"type": "Action", "properties": {"status": "next", "context": "phone"}}
        assert await call(client, "query_nodes", **asked) == {"node_ids": [first, last]}


@promise("typed scenario 5", "a connection without a required property is refused in the exact words")
async def test_scenario_5_required_properties_are_enforced(base: Path) -> None:
    async with connect(base) as client:
        await call(client, "create_ontology", **ONTOLOGY)
        ends = {"from_node_id": await make(client, "Action"), "to_node_id": await make(client, "Person")}
        asked = {"type": "WaitingFor", **ends, "properties": {"since": "2025-10-15"}}
        said = await refused(client, "create_connection", **asked)
        assert said["code"] == "REQUIRED_PROPERTY_MISSING"
        assert said["message"] == (
            "Connection type WaitingFor requires properties: [since, follow_up_date]. Missing: [follow_up_date]"
        )
        assert await call(client, "query_connections", type="WaitingFor") == {"connection_ids": []}


@promise("typed scenario 6", "contents are searched in any case, by type and up to a limit")
async def test_scenario_6_contents_are_searched(base: Path) -> None:
    async with connect(base) as client:
        await call(client, "create_ontology", **ONTOLOGY)
        kitchen = await make(client, "Project", "# Kitchen Renovation\n\nModern farmhouse style")
        bathroom = await make(client, "Project", "# Bathroom Remodel\n\nFarmhouse sink and fixtures")
        sinks = await make(client, "Action", "# Research farmhouse sinks\n\nFind suppliers")
        await make(client, "Action", "# Call plumber\n\nSchedule bathroom work")
        found = await call(client, "search_content", query="farmhouse", limit=10)
        assert found["node_ids"] == [kitchen, bathroom, sinks]
        found = await call(client, "search_content", query="farmhouse", node_type="Project", limit=10)
        assert found["node_ids"] == [kitchen, bathroom]
        assert len((await call(client, "search_content", query="farmhouse", limit=2))["node_ids"]) == 2


# -- what can go wrong


async def filled(client: Client) -> None:
    """A bit of everything: text, a binary, notes, an update, a deletion."""
    await call(client, "create_ontology", **ONTOLOGY)
    project = await make(client, "Project", KITCHEN, status="active")
    action = await make(client, "Action", "call")
    await join(client, project, "NextAction", action, content="it is urgent", properties={"n": 1})
    photo = b64encode(bytes(range(256)) * 3).decode()
    await call(client, "create_node", type="Project", content=photo, encoding="base64", format="png")
    await call(client, "update_node", node_id=action, content='{"a": 1}', encoding="utf-8", format="json")
    await call(client, "delete_node", node_id=await make(client, "Person", "gone"))


@promise("M37, typed", "every view can be deleted and comes back")
async def test_every_view_can_be_deleted_and_comes_back(base: Path) -> None:
    async with connect(base) as client:
        await filled(client)
        before = await state_of(client)
    published = {path: path.read_bytes() for path in (base / "_system").glob("[ro]*.*")}
    for path in (base / "_content" / "nodes", base / "_content" / "connections"):
        shutil.rmtree(path)
    for path in (base / "_system").iterdir():
        if path.name != "log":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    async with connect(base) as client:
        assert await state_of(client) == before
        assert (await call(client, "search_content", query="KITCHEN"))["node_ids"] == [next(iter(before["nodes"]))]
    assert files_say(base) == before
    assert {path.name for path in published} == {"registry.json", "ontology.yaml"}
    assert {path: path.read_bytes() for path in published} == published


@promise("AC20, kill", "what was acknowledged survives kill -9, with its files")
async def test_whatever_was_acknowledged_before_a_kill_is_there_with_its_files(base: Path) -> None:
    server = start_http(base)
    acknowledged: dict[str, str] = {}
    enough = asyncio.Event()

    async def work(agent: int) -> None:
        try:
            async with Client(server.mcp_url) as client:
                for number in range(10_000):
                    text = f"{agent} wrote {number}"
                    acknowledged[await make(client, "Action", text)] = text
                    if len(acknowledged) >= 60:
                        enough.set()
        except Exception:
            return  # The server is gone.

    async with Client(server.mcp_url) as client:
        await call(client, "create_ontology", **ONTOLOGY)
    workers = [asyncio.create_task(work(agent)) for agent in range(6)]
    await enough.wait()
    server.kill()
    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    async with connect(base) as client:
        after = await state_of(client)
    assert {node: after["nodes"][node]["text"] for node in acknowledged} == acknowledged
    assert files_say(base) == after


@promise("AC11", "after refusals, parallel work and restarts the registry says what the tools say")
@promise("AC20, parallel", "parallel calls corrupt nothing")
async def test_parallel_calls_of_one_connection_all_count(base: Path) -> None:
    async with connect(base) as client:
        answers = await asyncio.gather(*(client.call_tool("create_ontology", ONTOLOGY) for _ in range(3)))
        assert sorted(answer.is_error or False for answer in answers) == [False, True, True]
        project, other = await make(client, "Project"), await make(client, "Action")
        nodes = await asyncio.gather(*(make(client, "Action", str(number)) for number in range(25)))
        await asyncio.gather(*(join(client, project, "NextAction", node, content="x") for node in nodes))
        await asyncio.gather(
            *(call(client, "update_node", node_id=other, properties={f"p{number}": number}) for number in range(10)),
            *(call(client, "update_node", node_id=node, content="new", encoding="utf-8") for node in nodes[:5]),
            *(call(client, "delete_node", node_id=node) for node in nodes[5:10]),
        )
        after = await state_of(client)
    assert after["nodes"][other]["properties"] == {f"p{number}": number for number in range(10)}
    assert (len(after["nodes"]), len(after["connections"])) == (22, 20)
    assert files_say(base) == after


@promise("M23, typed", "two processes share one typed memory and its files")
async def test_two_processes_share_one_memory_and_its_files(base: Path) -> None:
    async with connect(base) as one, connect(base) as two:
        answers = await asyncio.gather(*(each.call_tool("create_ontology", ONTOLOGY) for each in (one, two)))
        [loser] = [answer for answer in answers if answer.is_error]
        assert (loser.structured_content or {})["code"] == "ONTOLOGY_ALREADY_EXISTS"

        async def work(client: Client, name: str) -> list[str]:
            return [await make(client, "Action", f"{name} {number}", by=name) for number in range(15)]

        mine, theirs = await asyncio.gather(work(one, "one"), work(two, "two"))
        assert set((await call(one, "query_nodes", properties={"by": "two"}))["node_ids"]) == set(theirs)
        await call(two, "delete_node", node_id=mine[0])
        assert (await refused(one, "get_node", node_id=mine[0]))["code"] == "NODE_NOT_FOUND"
        await join(one, mine[1], "DependsOn", theirs[1])
        assert await call(two, "get_connected_nodes", node_id=theirs[1], direction="in") == {"node_ids": [mine[1]]}
        assert (await call(two, "search_content", query="ONE 14"))["node_ids"] == [mine[14]]
        after = await state_of(two)
        assert after == await state_of(one)
    assert files_say(base) == after


@pytest.fixture
def small_disk(base: Path) -> Iterator[Path]:
    """Where contents lie."""
    with mounted_small(base / "_content") as disk:
        yield disk


def remount(disk: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(disk)], check=True)


def everything(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


@promise("AC11, failures", "a failed write leaves nothing in the registry")
@promise("M24", "a full disk refuses the content and nothing is appended")
async def test_a_full_disk_refuses_the_content_and_leaves_no_trace(base: Path, small_disk: Path) -> None:
    async with connect(base) as client:
        await call(client, "create_ontology", **ONTOLOGY)
        project, action = await make(client, "Project", "small", a=1), await make(client, "Action")
        before, files = await state_of(client), everything(small_disk)
        large = b64encode(os.urandom(100_000)).decode()
        for tool, asked in (
            ("create_node", {"type": "Project", "content": "x" * 100_000, "format": "text"}),
            ("create_node", {"type": "Project", "content": large, "encoding": "base64", "format": "png"}),
            (
                "update_node",
                {"node_id": project, "content": "x" * 100_000, "encoding": "utf-8", "properties": {"a": 2}},
            ),
            (
                "create_connection",
                {"type": "NextAction", "from_node_id": project, "to_node_id": action, "content": "x" * 100_000},
            ),
        ):
            assert (await refused(client, tool, **asked))["code"] == "FILE_CREATION_FAILED"
        assert everything(small_disk) == files
        assert await state_of(client) == before
        # What needs no room goes on, and so does everything once there is room again.
        await call(client, "update_node", node_id=project, properties={"a": 3})
        remount(small_disk, "size=1m")
        await call(client, "update_node", node_id=project, content="x" * 100_000, encoding="utf-8")
        after = await state_of(client)
    assert files_say(base) == after


@promise("M25", "a file that cannot be removed does not keep its node")
async def test_a_read_only_disk_refuses_contents_and_deletions_of_files_are_made_up_for(
    base: Path, small_disk: Path
) -> None:
    async with connect(base) as client:
        await call(client, "create_ontology", **ONTOLOGY)
        project, other = await make(client, "Project", "small"), await make(client, "Project", "stays")
        remount(small_disk, "ro")
        said = await refused(client, "create_node", type="Project", content="x", format="text")
        assert said["code"] == "FILE_CREATION_FAILED"
        assert (await call(client, "get_node_content", node_id=project))["content"] == "small"
        await call(client, "delete_node", node_id=project)
        assert (await refused(client, "get_node", node_id=project))["code"] == "NODE_NOT_FOUND"
        remount(small_disk, "rw")
        after = await state_of(client)
        assert set(after["nodes"]) == {other}
    assert files_say(base) == after


# -- people


@promise("hand edits", "a person corrects a memory with an editor")
async def test_a_person_corrects_a_memory_with_an_editor(base: Path) -> None:
    async with connect(base) as client:
        await call(client, "create_ontology", **ONTOLOGY)
        project = await make(client, "Project", KITCHEN)
        (base / "_content" / "nodes" / f"{project}.md").write_text("# Kitchen, corrected\n")
        assert (await call(client, "get_node_content", node_id=project))["content"] == "# Kitchen, corrected\n"
        story = (await call(client, "memory.lineage", entity_id=project))["lineage"]
        assert [step["actor"] for step in story] == ["agent_alpha", "file-edit"]


async def test_a_person_starts_with_a_preset_and_an_agent_goes_on(base: Path) -> None:
    def tally(*arguments: str) -> str:
        command = [sys.executable, "-m", "tallystick", "ontology", *arguments, "--base", str(base)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert json.loads(tally("use", "gtd", "--json"))["added"] == [
        *("Task", "State", "Context", "UNSPECIFIED", "DependsOn")
    ]
    async with connect(base) as client:
        task, state = await make(client, "Task", "paint"), await make(client, "State", "dry")
        await join(client, task, "DependsOn", state)
        shown = await call(client, "get_ontology")
    assert json.loads(tally("--json")) == shown
    assert "Task, State, Context, UNSPECIFIED" in tally()


@promise("schema, for real", "memory.write keeps to the ontology")
async def test_a_typed_node_is_checked_whoever_writes_it(base: Path) -> None:
    async with connect(base) as client:
        await call(client, "create_ontology", **ONTOLOGY)
        for node, kind in (("p", "Project"), ("h", "Person")):
            await call(client, "memory.write", op="UPSERT_NODE", node={"id": node, "type": kind, "attrs": {"n": 1}})
        assert await call(client, "query_nodes", type="Project") == {"node_ids": ["p"]}
        edge = {"from": "p", "rel": "NextAction", "to": "h"}
        said = await refused(client, "memory.write", op="UPSERT_EDGE", edge=edge)
        assert said["error"] == "INVALID_TOPOLOGY"
        assert said["message"] == "Cannot connect Project to Person with NextAction. Valid targets: [Action]"
        gone = await refused(client, "memory.write", op="DELETE_NODE", node_id="ontology/node_type/Project")
        assert gone["error"] in ("ONTOLOGY_APPEND_ONLY", "RESERVED_TYPE")


def test_a_served_base_with_views_ends_well_when_asked_to(base: Path) -> None:
    with serving_http(base) as server:
        assert server.url.startswith("http://127.0.0.1:")
