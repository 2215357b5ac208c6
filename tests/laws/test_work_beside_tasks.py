"""A law between two vocabularies: `graph_next` hands out nothing that `advance` refuses."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.errors import TallystickError
from tests.extensions.tasks.agents import TasksAgent, gathered

TASKS = 4
NUMBERS = st.integers(0, TASKS - 1)
ENDINGS = ["advance", "terminate", "drop", "resolve"]
OTHERS = ["revert", "hold", "release", "reopen", "note", "block", "unblock", "connect", "disconnect", "move", "merge"]
STEPS = st.tuples(st.sampled_from(ENDINGS) | st.sampled_from(OTHERS), NUMBERS, NUMBERS)


def take(agent: TasksAgent, kind: str, one: str, two: str) -> None:
    """Take one step. Raises TallystickError if the tool refuses it."""
    edge = {"from": one, "to": two, "type": "depends_on"}
    held = {"blockedBy": "NO_OP", "blockedReason": "flood"}
    if kind in ("advance", "revert", "terminate"):
        agent.step(kind, one)
    elif kind in ("block", "unblock"):
        agent.step(kind, one, blockedBy=[two])
    elif kind in ("hold", "release"):
        agent.step("block", one, **held) if kind == "hold" else agent.step("unblock", one, blockedBy="NO_OP")
    elif kind in ("connect", "disconnect"):
        agent.beside("graph_connect", edges=[edge | {"remove": kind == "disconnect"}])
    elif kind in ("drop", "move", "merge"):
        operations: dict[str, Any] = {
            "drop": {"node_id": one, "reason": "no need"},
            "move": {"node_id": one, "new_parent": two},
            "merge": {"source": one, "target": two},
        }
        agent.beside("graph_restructure", operations=[{"op": kind, **operations[kind]}])
    else:
        changes: dict[str, Any] = {
            "resolve": {"resolved": True},
            "reopen": {"resolved": False},
            "note": {"add_evidence": [{"type": "note", "ref": "seen"}]},
        }
        agent.beside("graph_update", updates=[{"node_id": one, **changes[kind]}])


@given(st.sets(st.tuples(NUMBERS, NUMBERS), max_size=4), st.lists(STEPS, min_size=1, max_size=8))
@settings(max_examples=60)
def test_graph_next_hands_out_nothing_that_advance_refuses(
    dependencies: set[tuple[int, int]], story: list[tuple[str, int, int]]
) -> None:
    with gathered() as agent:
        projects = [agent.project(name) for name in ("Shop", "Site")]
        features = [agent.feature(projectId=project["id"]) for project in projects]
        tasks = [agent.task(str(number), featureId=features[number % 2]["id"])["id"] for number in range(TASKS)]
        for kind, one, two in [*(("block", *pair) for pair in sorted(dependencies)), *story]:
            try:
                take(agent, kind, tasks[one], tasks[two])
            except TallystickError:
                continue
        for project in projects:
            board = agent.beside("graph_next", project=project["name"], claim=True, count=50)
            nodes = [entry["node"] for entry in board["nodes"] if entry["node"]["parent"] is not None]
            for node in nodes:
                kind = "feature" if node["id"] in {feature["id"] for feature in features} else "task"
                version = agent.get(node["id"], kind)["version"]
                agent.told("advance", containerType=kind, id=node["id"], version=version)
