"""A base with one of each kind in it, written through the tools, and the ids that were told."""

from __future__ import annotations

from typing import Any

from tallystick.policy import Principal
from tallystick.server import Offer
from tallystick.server.dispatch import Broken, Done, Outcome, call

SECRET = "only acme knows this"


async def sample_ids(offer: Offer, who: Principal) -> list[str]:
    """One of each kind, all saying what only acme knows; the ids that were told."""
    told = await write_sample(offer, who)
    return list(dict.fromkeys(["acme-plan", "acme-launch", *ids_in(told)]))


async def write_sample(offer: Offer, who: Principal) -> list[Any]:
    """What was answered."""
    answers: list[Any] = []

    async def made(tool: str, **arguments: Any) -> Any:
        outcome = await outcome_of(offer, who, tool, arguments)
        assert isinstance(outcome, Done), told(outcome)
        answers.append(outcome.data)
        return outcome.data

    node = {"id": "acme-plan", "type": "note", "attrs": {"said": SECRET}}
    await made("memory.write", op="UPSERT_NODE", node=node)
    opened = await made("graph_open", project="acme-launch", goal=SECRET)
    parent = opened["root"]["id"]
    await made("graph_plan", nodes=[{"ref": "a", "parent_ref": parent, "summary": SECRET}])
    about = {"name": "about", "from_types": ["idea"], "to_types": ["idea"]}
    await made("create_ontology", node_types=["idea"], connection_types=[about])
    idea = {"type": "idea", "content": SECRET, "encoding": "utf-8", "format": "md", "properties": {"said": SECRET}}
    ends = [(await made("create_node", **idea))["node_id"] for _ in range(2)]
    await made("create_connection", type="about", from_node_id=ends[0], to_node_id=ends[1], properties={"said": SECRET})
    project = await made("manage_container", operation="create", containerType="project", name="acme", summary=SECRET)
    place = {"projectId": project["data"]["project"]["id"]}
    card = {"operation": "create", "containerType": "task", "title": "t", "priority": "LOW", "complexity": 1}
    task = await made("manage_container", **card, **place, summary=SECRET)
    atom = {"operation": "create", "entityType": "atom", "name": "core", "knowledge": SECRET, "paths": ["src/**"]}
    await made("manage_graph", **atom, **place, createdByTaskId=task["data"]["task"]["id"])
    return answers


async def outcome_of(offer: Offer, who: Principal, tool: str, arguments: dict[str, Any]) -> Outcome:
    return await call(offer.tools.get(tool), arguments, offer.store, lambda: who)


def told(outcome: Outcome) -> Any:
    assert not isinstance(outcome, Broken)
    return outcome.data if isinstance(outcome, Done) else outcome.shape


def ids_in(value: Any) -> list[str]:
    if isinstance(value, list):
        return [each for item in value for each in ids_in(item)]
    if not isinstance(value, dict):
        return []
    own = [text for key, text in value.items() if isinstance(text, str) and (key == "id" or key.endswith("_id"))]
    return own + [each for item in value.values() for each in ids_in(item)]
