"""Typed memories: made, read, changed, deleted."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from tallystick.server.dispatch import prepare
from tests.extensions.ontology.agents import OntologyAgent
from tests.promises import promise
from tests.toolsets.agent import NOON

KITCHEN = "# Kitchen Renovation\n\nBudget: $50k"


@promise("AC1", "a node is made, read with all its fields, and its content comes back unchanged")
@promise("M8", "content is told with its encoding and format, and as plain text")
def test_a_node_is_kept_as_it_was_given(gtd: OntologyAgent) -> None:
    properties = {"status": "active", "priority": 1, "urgent": True, "ratio": 0.5}
    made = gtd.call("create_node", type="Project", content=KITCHEN, format="markdown", properties=properties)
    assert re.fullmatch(r"mem_[0-9a-z]{6}_[0-9a-z]{6}", made["node_id"])
    assert gtd.call("get_node", **made) == {
        "id": made["node_id"],
        "type": "Project",
        "created": "2025-01-04T12:00:00.000Z",
        "modified": "2025-01-04T12:00:00.000Z",
        "properties": properties,
        "content_format": "markdown",
    }
    answer = gtd.answer("get_node_content", made)
    assert answer.data == {"content": KITCHEN, "encoding": "utf-8", "format": "markdown"}
    assert answer.text == KITCHEN
    assert answer.exempt


@promise("AC1, ids", "every node has an id of its own")
def test_no_two_nodes_have_one_id(gtd: OntologyAgent) -> None:
    made = gtd.together("create_node", [{"type": "Action", "content": str(n), "format": "text"} for n in range(50)])
    assert len({answer["node_id"] for answer in made}) == 50
    assert {gtd.call("get_node_content", **answer)["content"] for answer in made} == set(map(str, range(50)))


@promise("M30", "an id that is taken is not given again")
def test_an_id_that_is_taken_is_not_given_again(gtd: OntologyAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    letters = iter("a" * 12 + "a" * 12 + "b" * 12)
    monkeypatch.setattr("tallystick.extensions.ontology.context.secrets.choice", lambda _: next(letters))
    first = gtd.make("Action", "one")
    gtd.call("delete_node", node_id=first)
    assert (first, gtd.make("Action", "two")) == ("mem_aaaaaa_aaaaaa", "mem_bbbbbb_bbbbbb")
    assert sorted(name.split(".")[1] for name in gtd.files()) == ["mem_aaaaaa_aaaaaa", "mem_bbbbbb_bbbbbb"]


@promise("AC12", "empty content and no properties are enough")
def test_empty_content_and_no_properties_are_enough(gtd: OntologyAgent) -> None:
    made = gtd.call("create_node", type="Project", content="", encoding="utf-8", format="markdown")
    assert gtd.call("get_node", **made)["properties"] == {}
    assert gtd.call("get_node_content", **made)["content"] == ""


@promise("M10", "what has nothing to tell says ok")
def test_an_update_merges_properties_and_moves_the_time_of_change(gtd: OntologyAgent) -> None:
    node = gtd.make("Project", KITCHEN, status="active", priority=1)
    gtd.now = NOON + 5_000
    answer = gtd.answer("update_node", {"node_id": node, "properties": {"status": "done", "cost": 48}})
    assert (answer.data, answer.text) == ({"ok": True}, "update_node completed successfully")
    found = gtd.call("get_node", node_id=node)
    assert found["properties"] == {"status": "done", "priority": 1, "cost": 48}
    assert (found["created"], found["modified"]) == ("2025-01-04T12:00:00.000Z", "2025-01-04T12:00:05.000Z")
    assert gtd.call("get_node_content", node_id=node)["content"] == KITCHEN


@promise("M31", "created is never after modified")
def test_a_clock_that_goes_back_leaves_created_before_modified(gtd: OntologyAgent) -> None:
    node = gtd.make("Project")
    gtd.now = NOON - 3_600_000
    gtd.call("update_node", node_id=node, properties={"a": 1})
    found = gtd.call("get_node", node_id=node)
    assert found["created"] <= found["modified"]


def test_new_content_replaces_the_old_and_may_come_in_another_encoding(gtd: OntologyAgent) -> None:
    node = gtd.make("Project", "old")
    gtd.call("update_node", node_id=node, content="AP8=", encoding="base64", format="png")
    assert gtd.call("get_node_content", node_id=node) == {"content": "AP8=", "encoding": "base64", "format": "png"}
    gtd.call("update_node", node_id=node, content="new", encoding="utf-8")
    assert gtd.call("get_node_content", node_id=node) == {"content": "new", "encoding": "utf-8", "format": "png"}


@promise("M6, format", "the format can change alone")
def test_the_format_can_change_alone(gtd: OntologyAgent) -> None:
    node = gtd.make("Project", "text")
    gtd.call("update_node", node_id=node, format="meeting-notes")
    assert gtd.call("get_node", node_id=node)["content_format"] == "meeting-notes"
    assert gtd.call("get_node_content", node_id=node)["content"] == "text"


def test_of_updates_at_the_same_time_none_is_lost(gtd: OntologyAgent) -> None:
    node = gtd.make("Project")
    calls = [{"node_id": node, "properties": {f"p{n}": n}} for n in range(30)]
    assert gtd.together("update_node", calls) == [{"ok": True}] * 30
    assert gtd.call("get_node", node_id=node)["properties"] == {f"p{n}": n for n in range(30)}


def test_content_and_format_that_change_at_the_same_time_both_stay(gtd: OntologyAgent) -> None:
    node = gtd.make("Project", "old")

    async def both() -> None:
        tool = gtd.tool("update_node")
        asked: list[dict[str, Any]] = [
            {"node_id": node, "content": "new", "encoding": "utf-8"},
            {"node_id": node, "format": "json"},
        ]
        await asyncio.gather(*(tool.call(gtd.store, gtd.principal, prepare(tool, each)) for each in asked))

    gtd.run(both())
    assert gtd.call("get_node_content", node_id=node) == {"content": "new", "encoding": "utf-8", "format": "json"}


@promise("AC5", "a deleted node takes its connections along and leaves the nodes at their ends")
def test_a_deleted_node_takes_its_connections_along_and_leaves_the_rest(gtd: OntologyAgent) -> None:
    project = gtd.make("Project", "p")
    actions = [gtd.make("Action", name) for name in "abc"]
    near = [gtd.join(project, "NextAction", actions[0]), gtd.join(project, "NextAction", actions[1])]
    twin = gtd.join(project, "NextAction", actions[0])
    far = gtd.join(actions[1], "DependsOn", actions[2])
    assert gtd.answer("delete_node", {"node_id": project}).text == "delete_node completed successfully"
    assert gtd.code("get_node", node_id=project) == "NODE_NOT_FOUND"
    assert {gtd.code("get_connection", connection_id=gone) for gone in [*near, twin]} == {"CONNECTION_NOT_FOUND"}
    assert gtd.connections() == [far]
    assert gtd.nodes() == actions
    lineage = gtd.lineage(project, depth="full")["lineage"]
    assert [step["operation"] for step in lineage][-4:] == ["DELETE_EDGE"] * 3 + ["DELETE_NODE"]


@promise("AC13", "a node without connections is valid, has no neighbours and can be deleted")
def test_a_node_without_connections_is_deleted_too(gtd: OntologyAgent) -> None:
    node = gtd.make("Project")
    assert gtd.neighbours(node, "both") == []
    assert gtd.call("delete_node", node_id=node) == {"ok": True}
    assert gtd.code("delete_node", node_id=node) == "NODE_NOT_FOUND"


@promise("AC6", "a node that is not there is named by every tool that wants it")
@pytest.mark.parametrize(
    ("tool", "asked"),
    [
        ("get_node", {}),
        ("get_node_content", {}),
        ("update_node", {"properties": {"a": 1}}),
        ("update_node", {"content": "x", "encoding": "utf-8"}),
        ("delete_node", {}),
        ("get_connected_nodes", {"direction": "out"}),
    ],
)
def test_a_node_that_is_not_there_is_named(gtd: OntologyAgent, tool: str, asked: dict[str, Any]) -> None:
    said = gtd.refusal(tool, node_id="mem_nobody", **asked)
    assert said["code"] == "NODE_NOT_FOUND"
    assert "mem_nobody" in said["message"]
    assert said["details"]["node_id"] == "mem_nobody"


@promise("AC4, node type", "a node of an unknown type is refused")
@promise("AC8, node type", "an unknown node type is refused with those there are")
def test_a_type_that_is_not_in_the_ontology_is_refused_with_those_that_are(gtd: OntologyAgent) -> None:
    said = gtd.refusal("create_node", type="Recipe", content="", format="text")
    assert said["code"] == "INVALID_NODE_TYPE"
    assert "Recipe" in said["message"]
    assert "[Project, Action, Context, Person]" in said["message"]


# -- beside the other toolsets


@promise("schema, one graph", "what memory.write made is found by type and property")
def test_a_typed_node_that_memory_write_made_is_found_by_type_and_property(gtd: OntologyAgent) -> None:
    gtd.node("proj-7", "Project", status="active")
    assert gtd.nodes(type="Project", properties={"status": "active"}) == ["proj-7"]
    found = gtd.call("get_node", node_id="proj-7")
    assert (found["type"], found["content_format"]) == ("Project", None)
    assert gtd.call("get_node_content", node_id="proj-7") == {"content": "", "encoding": "utf-8", "format": None}
    gtd.call("update_node", node_id="proj-7", format="text")
    assert gtd.call("get_node", node_id="proj-7")["content_format"] == "text"


def test_a_typed_memory_has_lineage_and_can_be_read_as_an_entity(gtd: OntologyAgent) -> None:
    node = gtd.make("Project", KITCHEN, status="active")
    gtd.call("update_node", node_id=node, properties={"status": "done"})
    assert gtd.read(node)["entity"]["attrs"] == {"status": "done"}
    assert gtd.ids(type="Project", attrs={"status": "done"}) == [node]
    steps = gtd.lineage(node)["lineage"]
    assert [step["operation"] for step in steps] == ["CREATE_NODE", "UPDATE_NODE"]
    assert steps[1]["changes"] == {"attrs.status": "done"}


def test_what_is_not_in_the_ontology_is_no_memory_node(gtd: OntologyAgent) -> None:
    gtd.node("n", "note")
    assert gtd.nodes() == []
    said = gtd.refusal("get_node", node_id="n")
    assert said["code"] == "NODE_NOT_FOUND"
    assert "note" in said["message"]
    assert gtd.code("delete_node", node_id="n") == "NODE_NOT_FOUND"
    gtd.call("add_node_type", type_name="note")
    assert gtd.nodes(type="note") == ["n"]
