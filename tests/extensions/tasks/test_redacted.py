"""Tasks and work that were redacted as a whole: they are shown as that, hold nobody up, and can be deleted."""

from __future__ import annotations

import pytest

from tests.extensions.tasks.agents import Said, TasksAgent


@pytest.fixture
def tasks(agent: TasksAgent) -> tuple[Said, Said]:
    """One that was done and then redacted, and one that waits for it."""
    project = agent.project()
    done, waiting = agent.task("Done", projectId=project["id"]), agent.task("Waiting", projectId=project["id"])
    agent.step("block", waiting, blockedBy=[done["id"]])
    agent.close(done)
    redact(agent, done["id"])
    return done, waiting


def redact(agent: TasksAgent, entity_id: str) -> None:
    agent.beside("memory.write", op="REDACT_NODE", node_id=entity_id, reason="asked")


def test_what_waits_for_it_is_handed_out(agent: TasksAgent, tasks: tuple[Said, Said]) -> None:
    _, waiting = tasks
    (handed_out,) = agent.beside("graph_next", project="Shop")["nodes"]
    assert handed_out["node"]["id"] == waiting["id"]
    assert agent.data("get_next_task")["task"]["id"] == waiting["id"]
    assert agent.get(waiting)["blockedBy"] == []
    assert agent.data("get_blocked_tasks")["tasks"] == []
    agent.close(waiting)


def test_work_says_the_same_wherever_it_is_asked(agent: TasksAgent, tasks: tuple[Said, Said]) -> None:
    done, waiting = tasks
    for wanted, ids in (({"is_blocked": True}, []), ({"is_actionable": True}, [waiting["id"]])):
        found = agent.beside("graph_query", project="Shop", filter=wanted)["nodes"]
        assert [each["id"] for each in found] == ids
    assert [each["satisfied"] for each in agent.beside("graph_context", node_id=waiting["id"])["depends_on"]] == [True]
    assert [each["satisfied"] for each in agent.beside("graph_context", node_id=done["id"])["depended_by"]] == [True]


def test_it_is_not_handed_out_itself(agent: TasksAgent, tasks: tuple[Said, Said]) -> None:
    _, waiting = tasks
    agent.close(waiting)
    assert agent.told("get_next_task")["data"] is None


def test_nothing_new_is_hung_on_it(agent: TasksAgent, tasks: tuple[Said, Said]) -> None:
    done, waiting = tasks
    version = agent.get(waiting)["version"]
    ends = {"containerType": "task", "id": waiting["id"], "version": version}
    assert "belongs to no project" in agent.refusal("block", **ends, blockedBy=[done["id"]])["message"]
    planned = {"ref": "new", "summary": "new", "parent_ref": done["id"]}
    assert "belongs to no project" in agent.refusal("graph_plan", nodes=[planned])["message"]


def test_it_is_put_into_a_project_again_or_deleted(agent: TasksAgent, tasks: tuple[Said, Said]) -> None:
    done, waiting = tasks
    agent.update(done, projectId=waiting["projectId"])
    assert agent.get(waiting)["blockedBy"] == [done["id"]]
    now = {"containerType": "task", "id": done["id"], "version": agent.get(done)["version"]}
    assert agent.data("manage_container", operation="delete", **now)["deleted"] is True


@pytest.mark.parametrize("kind", ["atom", "molecule"])
def test_knowledge_is_deleted_by_the_version_that_is_shown(agent: TasksAgent, kind: str) -> None:
    project, more = agent.project(), {"paths": ["src/**"]} if kind == "atom" else {}
    task = agent.task(projectId=project["id"])
    said = {"entityType": kind, "projectId": project["id"], "createdByTaskId": task["id"], "name": "Known", **more}
    made = agent.beside("manage_graph", operation="create", **said)["data"][kind]
    named = {"entityType": kind, "id": made["id"]}
    agent.beside("manage_graph", operation="update", **named, version=1, knowledge="Private")
    redact(agent, made["id"])
    shown = agent.beside("query_graph", operation="get", **named)["data"][kind]
    assert (shown["name"], type(shown["version"])) == ("[REDACTED]", int)
    assert agent.beside("manage_graph", operation="delete", **named, version=shown["version"])["data"]["deleted"]


def test_a_section_is_changed_and_deleted_by_the_version_that_is_shown(agent: TasksAgent) -> None:
    section = agent.section(agent.task())
    redact(agent, section["id"])
    named = {"sectionId": section["id"]}
    shown = agent.data("manage_sections", operation="updateText", **named, version=1, content="[REDACTED]")["section"]
    assert shown["version"] == 1
    assert agent.data("manage_sections", operation="delete", **named, version=shown["version"])["deleted"]


@pytest.mark.parametrize("kind", ["project", "feature", "task"])
def test_a_container_is_deleted_by_the_version_that_is_shown(agent: TasksAgent, kind: str) -> None:
    made = getattr(agent, kind)()
    agent.update(made, summary="Private")
    redact(agent, made["id"])
    left = "project" if kind == "project" else "task"
    named = {"containerType": left, "id": made["id"], "cascade": True}
    version = agent.get(made["id"], left)["version"]
    assert agent.data("manage_container", operation="delete", **named, version=version)["deleted"] is True
