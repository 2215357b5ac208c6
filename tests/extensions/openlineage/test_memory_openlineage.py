"""memory.lineage as OpenLineage events."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tallystick.commits import chain
from tallystick.extensions.openlineage.events import EventBuilder
from tallystick.toolsets.memory.answers import ANSWER_BYTES_MAX
from tests.extensions.openlineage.openlineage_schemas import faults_of
from tests.promises import promise
from tests.toolsets.agent import Agent

RUN = {"run_id": "run_20250101_001", "job_id": "onboarding_job_001", "dataset_id": "user_profiles"}


def profile(agent: Agent, run_id: str | None = "run_20250101_001", **attrs: Any) -> None:
    node = {"id": "entity_456", "type": "user_profile", "attrs": attrs}
    agent.write(op="UPSERT_NODE", node=node, **({"run_context": RUN | {"run_id": run_id}} if run_id else {}))


def exported(agent: Agent, entity_id: str = "entity_456", **arguments: Any) -> dict[str, Any]:
    return agent.lineage(entity_id, export_format="openlineage_v1", **arguments)


def states(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(event["eventType"], event["run"]["facets"]["tallystick_commit"]["run_id"]) for event in events]


@promise("TC-005-02", "a history as OpenLineage events passes the official schemas, with run, job and dataset facets")
def test_an_audit_gets_events_that_conform_and_name_run_job_and_dataset(agent: Agent) -> None:
    profile(agent, mail="ada@example.org")
    profile(agent, run_id=None, mail="ada@example.com")
    agent.write(op="REDACT_NODE", node_id="entity_456", reason="asked to")
    agent.write(op="DELETE_NODE", node_id="entity_456")
    page = exported(agent)
    assert [fault for event in page["events"] for fault in faults_of(event)] == []
    assert page["export_format"] == "openlineage_v1"
    assert page["entity"] == {"id": "entity_456", "type": "user_profile", "current_state": None}
    assert page["pagination"] == {"total": 4, "offset": 0, "limit": 100, "next_offset": None}
    assert "example.org" not in str(page)
    first = page["events"][1]
    assert (first["job"]["name"], first["outputs"][0]["name"]) == (RUN["job_id"], RUN["dataset_id"])
    assert [event["outputs"][0]["name"] for event in page["events"] if event["outputs"]] == [
        "user_profiles", "user_profile", "user_profile", "user_profile",
    ]  # fmt: skip


def test_a_commit_gives_the_same_event_to_whoever_asks(agent: Agent) -> None:
    profile(agent, a=1)
    agent.node("entity_456", "user_profile", a=2)
    telling = EventBuilder(lambda commit: "never asked")
    fed = [event for line in agent.lines() for event in telling.tell(chain.decode(line))]
    assert exported(agent)["events"] == fed


def test_full_depth_tells_of_the_edges_too_and_an_edge_has_events_of_its_own(agent: Agent) -> None:
    profile(agent)
    agent.node("doc", "document")
    agent.edge("entity_456", "wrote", "doc")
    told = exported(agent, depth="full")["events"]
    assert [event["outputs"][0]["name"] for event in told if event["outputs"]] == ["user_profiles", "wrote"]
    own = exported(agent, "entity_456|wrote|doc")
    assert own["entity"]["type"] == "wrote"
    assert states(own["events"]) == [("START", "agent_alpha@3"), ("COMPLETE", "agent_alpha@3")]


@promise("L47, pages", "a run starts once however a history is paged")
def test_a_run_starts_once_however_the_history_is_paged(agent: Agent) -> None:
    for number in range(9):
        profile(agent, run_id=f"r{number % 2}", number=number)
    whole = exported(agent)["events"]
    assert states(whole)[:4] == [("START", "r0"), ("COMPLETE", "r0"), ("START", "r1"), ("COMPLETE", "r1")]
    assert sum(event["eventType"] == "START" for event in whole) == 2
    pieces: list[dict[str, Any]] = []
    offset: int | None = 0
    while offset is not None:
        page = exported(agent, limit=2, offset=offset)
        pieces += page["events"]
        offset = page["pagination"]["next_offset"]
    assert pieces == whole


def test_a_page_fits_and_says_where_to_go_on(agent: Agent) -> None:
    for number in range(150):
        profile(agent, number=number)
    seen = 0
    offset: int | None = 0
    while offset is not None:
        page = exported(agent, limit=1_000, offset=offset)
        assert len(msgspec.json.encode(page)) < ANSWER_BYTES_MAX + 2_000
        seen += sum(event["eventType"] == "COMPLETE" for event in page["events"])
        offset = page["pagination"]["next_offset"]
    assert seen == 150


@pytest.mark.parametrize("name", ["export_format", "format"])
def test_a_summary_has_no_events(agent: Agent, name: str) -> None:
    profile(agent)
    refusal = agent.refusal("memory.lineage", entity_id="entity_456", depth="summary", **{name: "openlineage_v1"})
    assert refusal["validation_errors"] == ["field 'export_format' does not go with depth 'summary'"]


def test_an_entity_that_never_was_has_no_lineage(agent: Agent) -> None:
    assert agent.refusal("memory.lineage", entity_id="x", format="openlineage_v1")["error"] == "ENTITY_NOT_FOUND"
