"""An answer that was cut to what an agent can take in says so, whichever tool gives it (X15)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.extensions.tasks.agents import TasksAgent, gathered
from tests.promises import promise

HERE = "tallystick.toolsets."
TASKS = "tallystick.extensions.tasks."
CUT = (
    *(TASKS + name for name in ("tags", "templates", "queries", "blocks")),
    *(HERE + name for name in ("knowledge.query", "knowledge.changelog")),
    *(HERE + name for name in ("work.query", "work.history", "work.next", "work.projects")),
)
"""The modules that cut their answers."""
SMALL = 300


@pytest.fixture
def agent() -> Iterator[TasksAgent]:
    with gathered() as agent:
        yield agent


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if agents could take in very little."""
    for module in CUT:
        monkeypatch.setattr(f"{module}.ANSWER_BYTES_MAX", SMALL)
    monkeypatch.setattr(f"{HERE}work.node_context.PART_BYTES_MAX", SMALL)
    monkeypatch.setattr(f"{HERE}work.next.PART_BYTES_MAX", SMALL // 2)
    monkeypatch.setattr(f"{HERE}work.context.WARNINGS_BYTES_MAX", SMALL)


@promise("X15, lists", "a list that is cut counts what it leaves out")
@pytest.mark.usefixtures("small")
def test_lists_of_tasks_count_what_they_leave_out(agent: TasksAgent) -> None:
    project = agent.project()
    blocker = agent.task("Blocker", projectId=project["id"])
    tags = ",".join(f"{'t' * 40}{number}" for number in range(30))
    tasks = [agent.task(f"Task {number}", projectId=project["id"], tags=tags) for number in range(5)]
    for task in tasks:
        agent.step("block", task, blockedBy=blocker["id"])
    for number in range(6):
        agent.data(
            "manage_template", operation="create", name=f"{number}", description="d" * 90, targetEntityType="TASK"
        )
    calls: list[tuple[str, dict[str, Any], str, int]] = [
        ("list_tags", {}, "tags", 30),
        ("get_tag_usage", {"tag": "t" * 40 + "0"}, "entities", 5),
        ("rename_tag", {"oldTag": "t" * 40 + "0", "newTag": "u" * 90, "dryRun": True}, "entities", 5),
        ("query_templates", {"operation": "list"}, "templates", 6),
        ("get_blocked_tasks", {}, "tasks", 5),
        ("query_dependencies", {"id": blocker["id"], "containerType": "task"}, "dependencies", 5),
        ("graph_open", {}, "projects", 8),
    ]
    for number in range(7):
        agent.beside("graph_open", project=f"{'p' * 100}{number}")
    for tool, asked, key, total in calls:
        found = agent.beside(tool, **asked)
        found = found.get("data", found)
        assert found.get("omitted", 0) > 0, tool
        assert len(found[key]) + found["omitted"] == total, tool
        assert found["hint"], tool
    agent.is_program = True  # Nobody's context overflows.
    for tool, asked, key, total in calls:
        found = agent.beside(tool, **asked)
        found = found.get("data", found)
        assert (len(found[key]), "omitted" in found, "hint" in found) == (total, False, False), tool


@pytest.mark.usefixtures("small")
def test_projects_that_are_left_out_are_found_as_the_hint_says(agent: TasksAgent) -> None:
    for number in range(7):
        agent.beside("graph_open", project=f"{'p' * 100}{number}")
    cut = agent.beside("graph_open")
    assert cut["hint"] == "memory.search with type work/project pages through all of them"
    paged = agent.beside("memory.search", type="work/project", limit=3, offset=6)
    assert paged["pagination"]["total"] == len(cut["projects"]) + cut["omitted"]


@promise("X15, work and tasks", "a page that is cut says so, and a program gets the page it asked for")
@pytest.mark.usefixtures("small")
def test_pages_that_are_cut_say_so_and_where_to_go_on(agent: TasksAgent) -> None:
    project = agent.project()
    tasks = [agent.task(f"Task {number}", projectId=project["id"], summary="s" * 300) for number in range(4)]
    for number in range(4):
        agent.update(tasks[0], description=f"{number}" * 300)
    atoms = [
        agent.beside(
            "manage_graph", operation="create", entityType="atom", projectId=project["id"], name=f"{number}",
            paths=["a"], knowledge="k" * 300, createdByTaskId=tasks[0]["id"],
        )["data"]["atom"]
        for number in range(4)
    ]  # fmt: skip
    for _ in range(4):
        agent.beside(
            "manage_changelog", operation="append", parentType="atom", parentId=atoms[0]["id"],
            taskId=tasks[0]["id"], summary="c" * 300,
        )  # fmt: skip
    pages: list[tuple[str, dict[str, Any], str, str]] = [
        ("query_container", {"operation": "search", "containerType": "task"}, "items", "nextOffset"),
        (
            "query_graph",
            {"operation": "search", "entityType": "atom", "projectId": project["id"]},
            "items",
            "nextOffset",
        ),
        (
            "manage_changelog",
            {"operation": "search", "parentType": "atom", "parentId": atoms[0]["id"]},
            "entries",
            "nextOffset",
        ),
        ("graph_query", {"project": "Shop"}, "nodes", "next_cursor"),
    ]
    for tool, asked, key, further in pages:
        found = agent.beside(tool, **asked)
        found = found.get("data", found)
        assert (found["truncated"], further in found) == (True, True), tool
        assert 0 < len(found[key]) < 4, tool
        one = agent.beside(tool, **asked, limit=1)
        assert "truncated" not in one.get("data", one), tool
        agent.is_program = True  # Over REST a page is what was asked for.
        whole = agent.beside(tool, **asked)
        whole = whole.get("data", whole)
        agent.is_program = False
        assert len(whole[key]) >= 4, tool
        assert not {"truncated", further} & whole.keys(), tool


@pytest.mark.usefixtures("small")
def test_what_is_around_a_node_counts_what_it_leaves_out(agent: TasksAgent) -> None:
    agent.beside("graph_open", project="p")
    links = {"context_links": ["l" * 200]}
    plan: list[dict[str, Any]] = [{"ref": "0", "summary": "0", **links}]
    plan += [{"ref": str(n), "summary": "s", "parent_ref": str(n - 1), **links} for n in range(1, 6)]
    plan += [{"ref": f"d{n}", "summary": "d" * 200} for n in range(6)]
    plan.append({"ref": "last", "summary": "x", "parent_ref": "5", "depends_on": [f"d{n}" for n in range(6)]})
    ids = {each["ref"]: each["id"] for each in agent.beside("graph_plan", nodes=plan)["created"]}
    told = agent.beside("graph_update", updates=[{"node_id": ids[f"d{n}"], "resolved": True} for n in range(6)] * 2)
    assert told["warnings"] == [f"'{ids[f'd{n}']}' was resolved without evidence" for n in range(6)]
    for other in range(6):
        agent.beside("graph_connect", edges=[{"from": ids["last"], "to": ids[f"d{other}"], "type": "e" * 100}])
    found = agent.beside("graph_context", node_id=ids["last"])
    assert (len(found["edges"]) < 6, found["edges_truncated"]) == (True, True)
    (entry,) = agent.beside("graph_next", project="p")["nodes"]
    assert len(entry["resolved_deps"]) + entry["resolved_deps_omitted"] == 6
    inherited = entry["context_links"]
    assert len(inherited["inherited"]) + inherited["inherited_omitted"] == 6
    agent.beside("graph_plan", nodes=[{"ref": f"{n}", "summary": "n" * 400} for n in range(4)])
    several = agent.beside("graph_next", project="p", count=5)
    assert len(several["nodes"]) + several["nodes_omitted"] == 5


@pytest.mark.usefixtures("small")
def test_warnings_that_do_not_fit_are_counted(agent: TasksAgent) -> None:
    agent.beside("graph_open", project="p")
    created = agent.beside("graph_plan", nodes=[{"ref": str(n), "summary": "s"} for n in range(40)])["created"]
    told = agent.beside("graph_update", updates=[{"node_id": each["id"], "resolved": True} for each in created])
    assert told["warnings"][-1] == f"and {40 - (len(told['warnings']) - 1)} more"


def test_an_error_that_names_projects_says_how_many_it_does_not_name(agent: TasksAgent) -> None:
    for number in range(60):
        agent.beside("graph_open", project=f"p{number}")
    refusal = agent.refusal("graph_next", project="other")["details"]
    assert (len(refusal["projects"]), refusal["projects_omitted"]) == (50, 10)


@pytest.mark.usefixtures("small")
def test_an_event_in_a_page_of_history_is_never_too_large(agent: TasksAgent) -> None:
    agent.beside("graph_open", project="p")
    created = agent.beside("graph_plan", nodes=[{"ref": "a", "summary": "s" * 2_000}])["created"]
    (event,) = agent.beside("graph_history", node_id=created[0]["id"])["events"]
    assert event["action"] == "created"
