"""memory.lineage: who changed what, in JSON, CSV and summary; after deletion and redaction too."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import httpx2
import msgspec
import pytest

from tallystick.server import Offer
from tallystick.server.dispatch import choose
from tallystick.server.http import http_app
from tallystick.toolsets.memory import TOOLSET
from tallystick.toolsets.memory.answers import ANSWER_BYTES_MAX
from tallystick.toolsets.memory.lineage import COLUMNS
from tests.promises import promise
from tests.toolsets.agent import NOON, Agent

HOUR = 3_600_000


@promise("scenario 3", "the history of an entity tells actor, operation, run and changes")
@promise("L21", "a run context is kept beside the payload")
def test_an_officer_sees_who_made_an_entity_and_who_changed_it_and_in_which_run(agent: Agent) -> None:
    run = {"run_id": "run_20250101_001", "job_id": "onboarding_job_001", "dataset_id": "user_profiles"}
    node = {"id": "entity_456", "type": "user_profile", "attrs": {"name": "Ann", "age": 3}}
    first = agent.write(op="UPSERT_NODE", node=node, actor="onboarding_agent", run_context=run)
    agent.now = NOON + HOUR
    node["attrs"] = {"name": "Ann", "preferences": {"theme": "dark"}}
    second = agent.write(op="UPSERT_NODE", node=node, actor="enrichment_agent", reason="quarterly enrichment")
    found = agent.lineage("entity_456")
    assert found["entity"] == {
        "id": "entity_456",
        "type": "user_profile",
        "current_state": node | {"created_by": "onboarding_agent", "updated_by": "enrichment_agent"},
    }
    assert found["lineage"] == [
        {
            "commit_id": first["commit_id"],
            "timestamp": "2025-01-04T12:00:00.000Z",
            "actor": "onboarding_agent",
            "operation": "CREATE_NODE",
            "lamport": 1,
            "content_hash": first["content_hash"],
            "tool": "memory.write",
            "policy_version": "single-user@1",
            "run_context": run,
        },
        {
            "commit_id": second["commit_id"],
            "timestamp": "2025-01-04T13:00:00.000Z",
            "actor": "enrichment_agent",
            "operation": "UPDATE_NODE",
            "lamport": 2,
            "content_hash": second["content_hash"],
            "tool": "memory.write",
            "policy_version": "single-user@1",
            "run_context": None,
            "reason": "quarterly enrichment",
            "changes": {"attrs.age": None, "attrs.preferences.theme": "dark"},
            "before": {"attrs.age": 3, "attrs.preferences.theme": None},
        },
    ]
    assert found["pagination"] == {"total": 2, "offset": 0, "limit": 100, "next_offset": None}
    assert found["export_format"] == "json"


@promise("TC-005-01", "five commits are five records with all their fields")
def test_five_commits_are_five_records_with_all_their_fields(agent: Agent) -> None:
    for number in range(5):
        agent.node("entity_456", number=number)
    records = agent.lineage("entity_456", depth="direct")["lineage"]
    assert len(records) == 5
    for record in records:
        assert set(record) >= {"commit_id", "timestamp", "actor", "operation", "lamport", "run_context"}


@promise("L45", "direct is about the entity, full also about its edges")
def test_direct_is_about_the_entity_and_full_also_about_its_edges(agent: Agent) -> None:
    agent.node("a")
    agent.node("b")
    agent.edge("a", "knows", "b", x=1)
    agent.edge("a", "knows", "b", x=2)
    agent.node("a", again=True)
    agent.write(op="DELETE_NODE", node_id="a")

    def operations(**arguments: Any) -> list[str]:
        return [record["operation"] for record in agent.lineage("a", **arguments)["lineage"]]

    assert operations() == operations(depth="direct") == ["CREATE_NODE", "UPDATE_NODE", "DELETE_NODE"]
    full = ["CREATE_NODE", "CREATE_EDGE", "UPDATE_EDGE", "UPDATE_NODE", "DELETE_EDGE", "DELETE_NODE"]
    assert operations(depth="full") == full
    assert agent.lineage("a", depth="full")["lineage"][1]["edge"] == {"from": "a", "rel": "knows", "to": "b"}


@promise("L6", "lineage tells creations from updates, and a re-creation from both")
def test_a_deleted_entity_keeps_its_history_and_may_be_made_again(agent: Agent) -> None:
    agent.node("n")
    agent.write(op="DELETE_NODE", node_id="n")
    found = agent.lineage("n")
    assert found["entity"] == {"id": "n", "type": "note", "current_state": None}
    agent.node("n", again=True)
    operations = [record["operation"] for record in agent.lineage("n")["lineage"]]
    assert operations == ["CREATE_NODE", "DELETE_NODE", "CREATE_NODE"]


@promise("scenario 3, redaction", "redacted values are placeholders, the history keeps its shape")
def test_redacted_values_are_placeholders_in_the_history(agent: Agent) -> None:
    agent.node("n", email="old@example.org", name="Ann")
    agent.node("n", email="new@example.org", name="Ann")
    agent.write(op="REDACT_NODE", node_id="n", reason="GDPR", redacted_fields=["attrs.email"])
    agent.node("n", email="[REDACTED]", name="Bea")
    found = agent.lineage("n", depth="full")
    assert b"example" not in msgspec.json.encode(found)
    operations = [record["operation"] for record in found["lineage"]]
    assert operations == ["CREATE_NODE", "UPDATE_NODE", "REDACT_NODE", "UPDATE_NODE"]
    assert found["entity"]["current_state"]["attrs"]["email"] == "[REDACTED]"


@promise("L50", "an entity that never was has no lineage")
@pytest.mark.parametrize("depth", ["direct", "full", "summary"])
def test_an_entity_that_never_was_has_no_lineage(agent: Agent, depth: str) -> None:
    assert agent.refusal("memory.lineage", entity_id="nobody", depth=depth)["error"] == "ENTITY_NOT_FOUND"


def test_an_edge_has_a_lineage_of_its_own(agent: Agent) -> None:
    agent.node("a")
    agent.node("b")
    agent.edge("a", "knows", "b", x=1)
    agent.edge("a", "knows", "b", x=2)
    records = agent.lineage("a|knows|b")["lineage"]
    assert [record["operation"] for record in records] == ["CREATE_EDGE", "UPDATE_EDGE"]


@promise("TC-005-03", "a summary is kept, not counted")
@promise("L49", "a summary has four figures")
def test_a_summary_counts_without_listing(agent: Agent) -> None:
    for number in range(30):
        agent.now = NOON + number * HOUR
        node = {"id": "heavy", "type": "t", "attrs": {"n": number}}
        agent.write(op="UPSERT_NODE", node=node, actor=f"actor_{number % 15}")
    found = agent.lineage("heavy", depth="summary")
    assert found["summary"] == {
        "created_at": "2025-01-04T12:00:00.000Z",
        "last_modified": "2025-01-05T17:00:00.000Z",
        "modification_count": 30,
        "unique_actors": 15,
    }
    assert found["entity"]["current_state"]["attrs"] == {"n": 29}
    assert "lineage" not in found


@promise("scenario 3, large history", "a long history comes in pages")
@promise("FR-005, pagination", "a page of history tells the total and where to go on")
def test_a_long_history_comes_in_pages(agent: Agent) -> None:
    for number in range(250):
        agent.node("n", number=number)
    page = agent.lineage("n", depth="full", limit=100, offset=100)
    assert [record["lamport"] for record in page["lineage"]] == list(range(101, 201))
    assert page["pagination"] == {"total": 250, "offset": 100, "limit": 100, "next_offset": 200}
    last = agent.lineage("n", limit=100, offset=200)
    assert (len(last["lineage"]), last["pagination"]["next_offset"]) == (50, None)
    assert agent.lineage("n", offset=999)["lineage"] == []


FORMATS = ("json", "csv", "openlineage_v1")


def _told(page: dict[str, Any]) -> list[str]:
    """The commits that a page tells of, in whichever format."""
    if "events" in page:
        versions = (
            event["outputs"][0]["facets"]["version"]["datasetVersion"] for event in page["events"] if event["outputs"]
        )
        return list(dict.fromkeys(versions))
    return [record["commit_id"] for record in (_rows(page) if "csv" in page else page["lineage"])]


@pytest.mark.parametrize("export_format", FORMATS)
def test_a_page_is_cut_where_it_would_be_too_long_and_says_where_to_go_on(agent: Agent, export_format: str) -> None:
    commits = [agent.node("n", number=number)["commit_id"] for number in range(400)]
    seen: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = agent.lineage("n", limit=1_000, offset=offset, export_format=export_format)
        assert len(msgspec.json.encode(page)) < ANSWER_BYTES_MAX + 2_000
        seen += _told(page)
        offset = page["pagination"]["next_offset"]
        assert page["pagination"].get("truncated", False) == (offset is not None)
    assert seen == commits


@promise("X15, programs", "over REST a page of a history is what was asked for, in every format")
@pytest.mark.parametrize("export_format", FORMATS)
def test_a_program_gets_the_page_it_asked_for(agent: Agent, export_format: str) -> None:
    """Over REST. What it changed is there too, however much that is."""
    commits = [agent.node("n", number=number, text="x" * 300)["commit_id"] for number in range(1_100)]
    commits.append(agent.node("n", text="y" * 100_000)["commit_id"])
    asked = {"entity_id": "n", "limit": 1_000, "export_format": export_format}
    first, last = _posted(agent, {**asked, "offset": 0}), _posted(agent, {**asked, "offset": 1_000})
    assert first["pagination"] == {"total": 1_101, "offset": 0, "limit": 1_000, "next_offset": 1_000}
    assert last["pagination"] == {"total": 1_101, "offset": 1_000, "limit": 1_000, "next_offset": None}
    assert _told(first) + _told(last) == commits
    if export_format != "openlineage_v1":
        assert "y" * 100_000 in json.dumps(last)


@promise("X15, programs search", "over REST a page of a search is what was asked for")
def test_a_program_gets_all_that_it_looked_for(agent: Agent) -> None:
    for number in range(200):
        agent.node(f"n{number:03}", text="x" * 1_000)
    found = _posted(agent, {"type": "note", "limit": 1_000}, "memory.search")
    assert (len(found["entities"]), found["pagination"]["next_offset"]) == (200, None)
    cut = agent.search(type="note", limit=1_000)["pagination"]
    assert (cut["truncated"], cut["next_offset"] < 200) == (True, True)


def _posted(agent: Agent, asked: dict[str, Any], tool: str = "memory.lineage") -> dict[str, Any]:
    offer = Offer(tools=choose([TOOLSET]), store=agent.store, principal_of=lambda request: agent.principal, version="1")

    async def post() -> dict[str, Any]:
        transport = httpx2.ASGITransport(http_app(offer))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            answer = await http.post(f"/v1/tools/{tool}", json=asked)
        assert answer.status_code == 200
        told: dict[str, Any] = answer.json()
        return told

    return agent.run(post())


def test_a_change_too_large_for_a_page_is_marked_and_the_rest_is_told(agent: Agent) -> None:
    agent.node("n", text="a")
    agent.node("n", text="b" * 300_000)
    agent.node("n", text="c")
    records = agent.lineage("n")["lineage"]
    assert [record.get("oversize") for record in records] == [None, True, True]
    assert "changes" not in records[1]
    assert records[2]["changes"] == {"attrs.text": "c"}
    assert "before" not in records[2]
    agent.node("n", text="d" * 300_000)
    current = agent.lineage("n")["entity"]["current_state"]
    assert current["oversize"] is True


# -- CSV


def _rows(page: dict[str, Any]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(page["csv"], newline="")))


@promise("scenario 3, CSV", "a history can be had as CSV")
@promise("L46", "json is the default, and format an alias")
def test_csv_has_fixed_columns_and_a_row_for_each_commit(agent: Agent) -> None:
    agent.write(
        op="UPSERT_NODE", node={"id": "n", "type": "t", "attrs": {"a": 1}}, run_context={"run_id": "r1", "job_id": "j1"}
    )
    agent.node("n", "t", a='two, "quoted"\nlines')
    page = agent.lineage("n", format="csv")
    assert page["export_format"] == "csv"
    assert page["csv"].startswith(",".join(COLUMNS) + "\r\n")
    rows = _rows(page)
    assert [row["operation"] for row in rows] == ["CREATE_NODE", "UPDATE_NODE"]
    assert (rows[0]["run_id"], rows[0]["job_id"], rows[0]["dataset_id"]) == ("r1", "j1", "")
    assert rows[1]["changes"] == '{"attrs.a":"two, \\"quoted\\"\\nlines"}'
    assert rows[0]["entity_id"] == "n"
    assert page["pagination"]["total"] == 2


@promise("L48, redaction", "a CSV tells which fields a redaction masked")
def test_csv_tells_which_fields_were_redacted(agent: Agent) -> None:
    agent.node("n", "t", email="ada@example.org", name="Ada")
    agent.write(op="REDACT_NODE", node_id="n", reason="asked", redacted_fields=["attrs.email"])
    agent.write(op="REDACT_NODE", node_id="n", reason="asked")
    rows = _rows(agent.lineage("n", format="csv"))
    assert [row["changes"] for row in rows][1:] == ['{"attrs.email":"[REDACTED]"}', '{"attrs":"[REDACTED]"}']


@promise("L48", "no cell of a CSV starts like a formula")
@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", " =", "＝", "＋", "－", "＠"])
def test_nothing_in_a_csv_starts_like_a_formula(agent: Agent, start: str) -> None:
    formula = f"{start}cmd|' /C calc'!A0"
    agent.write(op="UPSERT_NODE", node={"id": "n", "type": "t", "attrs": {}}, actor="=1+1", reason=formula)
    row = _rows(agent.lineage("n", export_format="csv"))[0]
    assert (row["reason"], row["actor"]) == ("'" + formula, "'=1+1")


@pytest.mark.parametrize(
    ("arguments", "problems"),
    [
        ({}, ["field 'entity_id' is required"]),
        (
            {"entity_id": "n", "format": "csv", "export_format": "json"},
            ["fields 'export_format' and 'format' differ"],
        ),
        ({"entity_id": "n", "depth": "summary", "limit": 5}, ["field 'limit' does not go with depth 'summary'"]),
        (
            {"entity_id": "n", "depth": "summary", "format": "csv"},
            ["field 'export_format' does not go with depth 'summary'"],
        ),
        ({"entity_id": "n", "limit": 0}, ["field 'limit' must be greater than or equal to 1"]),
        (
            {"entity_id": "n", "export_format": "xml"},
            ["field 'export_format' must be 'json', 'csv' or 'openlineage_v1'"],
        ),
        ({"entity_id": "n", "depth": "all"}, ["field 'depth' must be 'direct', 'full' or 'summary'"]),
    ],
    ids=str,
)
def test_every_fault_of_a_call_is_named(agent: Agent, arguments: dict[str, Any], problems: list[str]) -> None:
    assert agent.refusal("memory.lineage", **arguments)["validation_errors"] == problems
