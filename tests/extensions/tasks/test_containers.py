"""manage_container and query_container: projects, features and tasks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.extensions.tasks.agents import TasksAgent, kind_of
from tests.promises import promise

NO_SUCH = "0" * 32


def create(kind: str, **arguments: Any) -> dict[str, Any]:
    return {"operation": "create", "containerType": kind, **arguments}


# -- create


@promise("manage_container, create", "entities have every field of the contract")
def test_a_project_a_feature_and_a_task_begin_at_version_1(agent: TasksAgent) -> None:
    project = agent.project(description="All of it", tags=" Web, api ,WEB,")
    feature = agent.feature(projectId=project["id"])
    task = agent.task(featureId=feature["id"])
    assert project == {
        "id": project["id"], "name": "Shop", "summary": "Sell things", "description": "All of it",
        "tags": ["web", "api"], "version": 1,
        "createdAt": "2026-02-10T12:00:01.000Z", "modifiedAt": "2026-02-10T12:00:01.000Z",
    }  # fmt: skip
    assert feature | {"id": 0} == {
        "id": 0, "projectId": project["id"], "name": "Checkout", "summary": "Pay", "description": None,
        "status": "NEW", "priority": "MEDIUM", "tags": [], "version": 1, "blockedBy": [], "blockedReason": None,
        "relatedTo": [], "createdAt": "2026-02-10T12:00:02.000Z", "modifiedAt": "2026-02-10T12:00:02.000Z",
    }  # fmt: skip
    assert task | {"id": 0} == {
        "id": 0, "projectId": project["id"], "featureId": feature["id"], "title": "Form", "summary": "Build Form",
        "description": None, "status": "NEW", "priority": "MEDIUM", "complexity": 3, "tags": [], "version": 1,
        "blockedBy": [], "blockedReason": None, "relatedTo": [], "lastModifiedBy": "ann",
        "createdAt": "2026-02-10T12:00:03.000Z", "modifiedAt": "2026-02-10T12:00:03.000Z",
    }  # fmt: skip
    for entity in (project, feature, task):
        assert len(entity["id"]) == 32
        assert agent.get(entity) == entity


@promise("manage_container, needs", "what a call lacks is said in the contract's words")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (create("project", summary="s"), "name is required for create operation"),
        (create("feature", name="n", priority="LOW"), "summary is required for create operation"),
        (create("task", summary="s", priority="LOW", complexity=1), "title is required for create operation"),
        (create("feature", name="n", summary="s"), "priority is required for creating a feature"),
        (create("task", title="t", summary="s", complexity=1), "priority is required for creating a task"),
        (create("task", title="t", summary="s", priority="LOW"), "complexity is required for creating a task"),
        (create("task", title="t", summary="s", priority="LOW", complexity=11), "complexity must be between 1 and 10"),
        ({"operation": "update", "containerType": "task", "id": NO_SUCH}, "version is required for update operation"),
        ({"operation": "delete", "containerType": "task"}, "id is required for delete operation"),
        (
            {"operation": "update", "containerType": "task", "id": NO_SUCH, "version": 1, "status": "CLOSED"},
            "status cannot be updated via manage_container. Use advance, revert, or terminate tools.",
        ),
    ],
)  # fmt: skip
def test_what_a_call_lacks_is_said(agent: TasksAgent, arguments: dict[str, Any], message: str) -> None:
    refusal = agent.refusal("manage_container", **arguments)
    assert (refusal["code"], refusal["message"]) == ("VALIDATION_ERROR", message)


@promise("K18, tasks", "null takes a task out of its feature and out of its project")
def test_null_takes_a_task_out_of_its_feature_and_out_of_its_project(agent: TasksAgent) -> None:
    project = agent.project()
    feature = agent.feature(projectId=project["id"])
    for null in (None, "null", ""):
        task = agent.task(featureId=feature["id"])
        moved = agent.update(task, featureId=null)
        assert (moved["featureId"], moved["projectId"], moved["version"]) == (None, project["id"], 2)
        moved = agent.update(task, projectId=null)
        assert (moved["featureId"], moved["projectId"], moved["version"]) == (None, None, 3)
    assert agent.task(featureId=None, projectId=None)["projectId"] is None
    moved = agent.update(task, projectId=project["id"], featureId=None)
    assert (moved["featureId"], moved["projectId"]) == (None, project["id"])


def test_a_task_in_a_feature_stays_in_its_project(agent: TasksAgent) -> None:
    feature = agent.feature(projectId=agent.project()["id"])
    task, other = agent.task(featureId=feature["id"]), agent.project("Other")
    for said in ({"projectId": None}, {"projectId": other["id"]}):
        refusal = agent.refusal(
            "manage_container", operation="update", containerType="task", id=task["id"], version=1, **said
        )
        assert refusal["message"] == f"the task belongs to feature '{feature['id']}', which is in another project"
    refusal = agent.refusal(
        "manage_container", operation="update", containerType="task", id=task["id"], version=1,
        projectId=other["id"], featureId=feature["id"],
    )  # fmt: skip
    assert refusal["message"] == f"feature '{feature['id']}' belongs to another project"


def test_its_own_project_named_again_moves_nothing(agent: TasksAgent) -> None:
    agent.beside("graph_open", project="Bridge")
    plan = [{"ref": "a", "summary": "Piles"}, {"ref": "b", "parent_ref": "a", "summary": "Drive them"}]
    above, below = agent.beside("graph_plan", nodes=plan)["created"]
    task = agent.get(below["id"])
    before = agent.log.head()
    assert agent.update(task, projectId=task["projectId"]) == task
    assert agent.log.head() == before
    assert agent.beside("graph_context", node_id=below["id"])["node"]["parent"] == above["id"]


@promise("K24, W17, tasks", "an update that changes nothing writes nothing")
def test_an_update_that_changes_nothing_writes_nothing(agent: TasksAgent) -> None:
    project = agent.project(description="d", tags="a,b")
    feature = agent.feature(projectId=project["id"])
    task = agent.task(featureId=feature["id"], tags="a", relatedTo=feature["id"])
    names = ("name", "title", "summary", "description", "tags", "priority", "projectId", "featureId", "complexity")
    before = agent.log.head()
    for entity in map(agent.get, (project, feature, task)):
        same = {name: entity[name] for name in (*names, "relatedTo") if entity.get(name) is not None}
        assert agent.update(entity, **same) == entity
        refusal = agent.refusal(
            "manage_container", operation="update", containerType=kind_of(entity), id=entity["id"], version=1
        )
        assert refusal["code"] == "VALIDATION_ERROR"
        assert refusal["message"].startswith("update needs at least one of name, title, summary")
    assert agent.log.head() == before
    assert agent.update(task, relatedTo="")["version"] == 2


def test_two_names_for_one_thing_must_agree(agent: TasksAgent) -> None:
    refusal = agent.refusal("manage_container", **create("task", title="a", name="b", summary="s", priority="LOW"))
    assert "name and title are the same thing, and differ" in refusal["details"]["problems"]


def test_a_feature_of_another_project_holds_nothing_that_is_sought(agent: TasksAgent) -> None:
    one, other = agent.project("One"), agent.project("Other")
    task = agent.task(featureId=agent.feature(projectId=one["id"])["id"])
    search = {"operation": "search", "containerType": "task", "featureId": task["featureId"]}
    for project, total in ((one, 1), (other, 0)):
        assert agent.data("query_container", **search, projectId=project["id"])["total"] == total


def test_every_fault_is_told_at_once(agent: TasksAgent) -> None:
    refusal = agent.refusal("manage_container", **create("task", summary="s"))
    assert len(refusal["details"]["problems"]) == 3


@promise("K40", "arguments may be strings, in any case")
def test_arguments_may_be_strings_in_any_case(agent: TasksAgent) -> None:
    task = agent.data(
        "manage_container", operation="create", containerType="TASK", title="t", summary="s", priority="high",
        complexity="7", tags='["b", "a"]', projectId="",
    )["task"]  # fmt: skip
    assert (task["priority"], task["complexity"], task["tags"], task["projectId"]) == ("HIGH", 7, ["b", "a"], None)


@promise("tasks, ids", "UUIDs with dashes and in capitals are understood")
def test_ids_are_understood_with_dashes_and_in_capitals(agent: TasksAgent) -> None:
    task = agent.task()
    spelt = "-".join((task["id"][:8], task["id"][8:12], task["id"][12:16], task["id"][16:20], task["id"][20:])).upper()
    assert agent.get(spelt) == task


@promise("manage_container, inherits", "a task goes where its feature is")
def test_a_task_goes_where_its_feature_is(agent: TasksAgent) -> None:
    shop, other = agent.project(), agent.project("Other")
    feature = agent.feature(projectId=shop["id"])
    assert agent.task(featureId=feature["id"])["projectId"] == shop["id"]
    values = {"title": "t", "summary": "s", "priority": "LOW", "complexity": 1}
    refusal = agent.refusal(
        "manage_container", **create("task", featureId=feature["id"], projectId=other["id"], **values)
    )
    assert (refusal["code"], refusal["details"]) == ("VALIDATION_ERROR", {"projectId": shop["id"]})
    assert agent.refusal("manage_container", **create("task", featureId=NO_SUCH, **values))["code"] == "NOT_FOUND"
    assert agent.refusal("manage_container", **create("task", projectId=NO_SUCH, **values))["code"] == "NOT_FOUND"


@promise("manage_container, terminal feature", "a terminal feature takes no more tasks")
def test_a_terminal_feature_takes_no_more_tasks(agent: TasksAgent) -> None:
    feature = agent.feature()
    agent.step("terminate", feature)
    refusal = agent.refusal(
        "manage_container",
        **create("task", title="t", summary="s", priority="LOW", complexity=1, featureId=feature["id"]),
    )
    assert refusal["code"] == "INVALID_OPERATION"


def test_the_name_of_a_project_is_used_once(agent: TasksAgent) -> None:
    shop = agent.project()
    refusal = agent.refusal("manage_container", **create("project", name="Shop", summary="s"))
    assert (refusal["code"], refusal["details"]["id"]) == ("DUPLICATE_NAME", shop["id"])


def test_what_is_too_large_for_a_work_node_is_refused(agent: TasksAgent) -> None:
    long = {"title": "t" * 500, "summary": "s" * 2000, "description": "é" * 10_000}
    refusal = agent.refusal("manage_container", **create("task", priority="LOW", complexity=1, **long))
    assert "keep long texts in sections" in refusal["message"]


# -- update


@promise("manage_container, update", "an update changes what it names and counts the version")
def test_an_update_changes_what_it_names_and_counts_the_version(agent: TasksAgent) -> None:
    task = agent.task(tags="a", description="before")
    changed = agent.update(task, title="New", priority="HIGH", tags="B,c", complexity=9)
    assert changed == task | {
        "title": "New", "priority": "HIGH", "tags": ["b", "c"], "complexity": 9, "version": 2,
        "modifiedAt": changed["modifiedAt"],
    }  # fmt: skip
    assert changed["modifiedAt"] > task["modifiedAt"]
    assert agent.get(task) == changed
    assert agent.update(task, tags="", description="")["description"] is None


@promise("K2, tasks", "a stale version is a CONFLICT with the current one")
def test_a_stale_version_is_a_conflict_that_tells_the_current_one(agent: TasksAgent) -> None:
    for entity in (agent.project(), agent.feature(), agent.task()):
        kind = {"summary": "x", "id": entity["id"], "version": 99}
        refusal = agent.refusal(
            "manage_container", operation="update",
            containerType="task" if "complexity" in entity else "feature" if "status" in entity else "project", **kind,
        )  # fmt: skip
        assert (refusal["code"], refusal["message"]) == ("CONFLICT", "Version conflict: expected 99, found 1")
        assert refusal["details"]["currentVersion"] == 1


def test_of_two_who_update_the_same_version_one_is_told(agent: TasksAgent) -> None:
    task = agent.task()
    call = {"operation": "update", "containerType": "task", "id": task["id"], "version": 1}
    answers = agent.together([("manage_container", call | {"title": title}) for title in ("one", "two")])
    assert sorted(answer["success"] for answer in answers) == [False, True]
    assert agent.get(task)["version"] == 2


def test_a_project_is_renamed_for_work_too(agent: TasksAgent) -> None:
    project = agent.project()
    assert agent.update(project, name="Store", summary="Sell more", tags="x")["version"] == 2
    opened = agent.beside("graph_open", project="Store")
    assert (opened["root"]["summary"], "created" in opened) == ("Sell more", False)


def test_a_feature_moves_with_its_tasks(agent: TasksAgent) -> None:
    shop, other = agent.project(), agent.project("Other")
    feature = agent.feature(projectId=shop["id"])
    task = agent.task(featureId=feature["id"])
    assert agent.update(feature, projectId=other["id"])["projectId"] == other["id"]
    assert agent.get(task)["projectId"] == other["id"]
    assert agent.beside("graph_open", project="Other")["summary"]["total"] == 3
    assert agent.beside("graph_open", project="Shop")["summary"]["total"] == 1


def test_a_task_moves_into_a_feature(agent: TasksAgent) -> None:
    shop = agent.project()
    feature, task = agent.feature(projectId=shop["id"]), agent.task()
    moved = agent.update(task, featureId=feature["id"])
    assert (moved["featureId"], moved["projectId"]) == (feature["id"], shop["id"])


def test_related_ones_are_replaced_and_seen_from_both_ends(agent: TasksAgent) -> None:
    one, two, three = agent.task("1"), agent.task("2"), agent.feature()
    assert agent.update(one, relatedTo=f"{two['id']},{three['id']}")["relatedTo"] == [two["id"], three["id"]]
    assert agent.get(three)["relatedTo"] == [one["id"]]
    assert agent.update(one, relatedTo=three["id"])["relatedTo"] == [three["id"]]
    assert agent.get(two)["relatedTo"] == []


# -- delete


@promise("manage_container, delete", "what holds something is deleted only by cascade")
def test_what_holds_something_is_deleted_only_by_cascade(agent: TasksAgent) -> None:
    project = agent.project()
    feature = agent.feature(projectId=project["id"])
    agent.feature("Empty", projectId=project["id"])
    task = agent.task(featureId=feature["id"])
    note = agent.section(task)
    call = {"operation": "delete", "containerType": "project", "id": project["id"]}
    refusal = agent.refusal("manage_container", **call)
    assert (refusal["code"], refusal["message"]) == (
        "HAS_CHILDREN",
        "Cannot delete project: contains 2 features and 1 task. Use cascade: true to delete all.",
    )
    assert agent.data("manage_container", **call, cascade="true")["deleted"] is True
    for kind, entity in (("project", project), ("feature", feature), ("task", task)):
        assert agent.refusal("query_container", operation="get", containerType=kind, id=entity["id"])["code"] == (
            "NOT_FOUND"
        )
    assert agent.refusal("manage_sections", operation="delete", sectionId=note["id"])["code"] == "NOT_FOUND"
    assert agent.beside("graph_open") == {"projects": []}


@promise("K37, tasks", "a project goes with all that is known of it")
def test_a_project_goes_with_what_is_known_of_it(agent: TasksAgent) -> None:
    project = agent.project()
    task = agent.task(projectId=project["id"])
    atom = agent.beside(
        "manage_graph", operation="create", entityType="atom", projectId=project["id"], name="Pay",
        paths=["src/**"], createdByTaskId=task["id"],
    )["data"]["atom"]  # fmt: skip
    agent.data("manage_container", operation="delete", containerType="project", id=project["id"], cascade=True)
    assert agent.refusal("query_graph", operation="get", entityType="atom", id=atom["id"])["code"] == "NOT_FOUND"


def test_what_waited_for_a_deleted_task_is_free(agent: TasksAgent) -> None:
    one, two = agent.task("1"), agent.task("2")
    agent.step("block", two, blockedBy=[one["id"]])
    agent.data("manage_container", operation="delete", containerType="task", id=one["id"])
    assert agent.get(two)["blockedBy"] == []


# -- query


def test_get_tells_sections_and_counts_when_they_are_asked_for(agent: TasksAgent) -> None:
    feature = agent.feature()
    task = agent.task(featureId=feature["id"])
    agent.task("other", featureId=feature["id"])
    agent.close(task)
    agent.section(feature)
    found = agent.data("query_container", operation="get", containerType="feature", id=feature["id"])
    assert found["taskCounts"] == {"total": 2, "byStatus": {"CLOSED": 1, "NEW": 1}}
    assert "sections" not in found
    whole = agent.data(
        "query_container", operation="get", containerType="feature", id=feature["id"], includeSections="true"
    )
    assert [section["title"] for section in whole["sections"]] == ["Notes"]


def titles(found: dict[str, Any]) -> list[str]:
    return [item.get("title") or item["name"] for item in found["items"]]


@promise("query_container, search", "status, priority and tags, negated too, newest first")
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, ["d", "c", "b", "a"]),
        ({"query": "BUILD b"}, ["b"]),
        ({"query": "deep"}, ["c"]),
        ({"priority": "HIGH,low"}, ["c", "a"]),
        ({"priority": "!HIGH"}, ["d", "c", "b"]),
        ({"status": "ACTIVE"}, ["b"]),
        ({"status": "!ACTIVE,!NEW"}, ["a"]),
        ({"tags": "x,y"}, ["b", "a"]),
        ({"tags": "x,!y"}, ["a"]),
        ({"limit": "2", "offset": 1}, ["c", "b"]),
    ],
)
def test_search_finds_what_fits_newest_first(agent: TasksAgent, asked: dict[str, Any], expected: list[str]) -> None:
    one = agent.task("a", priority="HIGH", tags="x")
    two = agent.task("b", tags="x,y")
    agent.task("c", priority="LOW", description="Deep down")
    agent.task("d")
    agent.step("terminate", one)
    agent.step("advance", two)
    found = agent.data("query_container", operation="search", containerType="task", **asked)
    assert titles(found) == expected
    assert found["count"] == len(expected)


@promise("query_container, projects", "projects by all of the tags")
def test_projects_are_found_by_all_of_the_tags_last_changed_first(agent: TasksAgent) -> None:
    one = agent.project("one", tags="x,y")
    agent.project("two", tags="x")
    found = {"operation": "search", "containerType": "project"}
    assert titles(agent.data("query_container", **found)) == ["two", "one"]
    agent.update(one, summary="again")
    assert titles(agent.data("query_container", **found)) == ["one", "two"]
    assert titles(agent.data("query_container", **found, tags="x,y")) == ["one"]


def test_an_unknown_status_is_named(agent: TasksAgent) -> None:
    refusal = agent.refusal("query_container", operation="search", containerType="task", status="DONE")
    assert "there is no DONE" in refusal["message"]


def test_search_stays_within_a_project_or_feature(agent: TasksAgent) -> None:
    project = agent.project()
    feature = agent.feature(projectId=project["id"])
    agent.task("in", featureId=feature["id"])
    agent.task("beside", projectId=project["id"])
    agent.task("loose")
    search = {"operation": "search", "containerType": "task"}
    assert titles(agent.data("query_container", **search, projectId=project["id"])) == ["beside", "in"]
    assert titles(agent.data("query_container", **search, featureId=feature["id"])) == ["in"]


@promise("query_container, overview", "what a project and a feature hold")
def test_overview_shows_what_a_project_and_a_feature_hold(agent: TasksAgent) -> None:
    project = agent.project()
    feature = agent.feature(projectId=project["id"])
    task = agent.task(featureId=feature["id"])
    over = {"operation": "overview"}
    shown = agent.data("query_container", **over, containerType="project", id=project["id"])
    assert ([each["id"] for each in shown["features"]], shown["taskCounts"]["total"]) == ([feature["id"]], 1)
    shown = agent.data("query_container", **over, containerType="feature", id=feature["id"])
    assert [each["id"] for each in shown["tasks"]] == [task["id"]]
    assert agent.data("query_container", **over, containerType="task", id=task["id"]) == {"task": task}
    assert agent.data("query_container", **over, containerType="task")["count"] == 1


# -- with knowledge


@promise("query_container, graphContext", "a task comes with what is known of its context files")
def test_a_task_comes_with_what_is_known_of_its_files(agent: TasksAgent) -> None:
    project = agent.project()
    task = agent.task(projectId=project["id"])
    agent.beside(
        "manage_graph", operation="create", entityType="atom", projectId=project["id"], name="Pay",
        paths=["src/pay/**"], knowledge="Handlers are idempotent", createdByTaskId=task["id"],
    )  # fmt: skip
    agent.section(task, "Plan", "src/none.ts")
    agent.section(task, "My Context Files", "# files\n- `src/pay/card.ts` — the form\n\ndocs/a.md, docs/b.md\n// no\n")
    agent.beside(
        "graph_update", updates=[{"node_id": task["id"], "add_context_links": ["src/pay/x.ts", "https://x.y"]}]
    )
    asked = {"operation": "get", "containerType": "task", "id": task["id"]}
    assert "graphContext" not in agent.data("query_container", **asked)
    found = agent.data("query_container", **asked, includeGraphContext=True)
    known = found["graphContext"]
    assert [(atom["name"], atom["matchedPaths"]) for atom in known["orphanAtoms"]] == [
        ("Pay", ["src/pay/card.ts", "src/pay/x.ts"])
    ]
    assert (known["molecules"], known["unmatchedPaths"]) == ([], ["docs/a.md", "docs/b.md"])
    assert "sections" not in found


@promise(
    "query_container, graphContext as query_graph", "what is known comes with its history, as query_graph tells it"
)
def test_what_is_known_comes_with_its_newest_history_as_in_query_graph(agent: TasksAgent) -> None:
    project = agent.project()
    task = agent.task(projectId=project["id"])
    about = {"operation": "create", "projectId": project["id"], "knowledge": "k", "createdByTaskId": task["id"]}
    pages = agent.beside("manage_graph", **about, entityType="molecule", name="Pages")["data"]["molecule"]
    form = {"entityType": "atom", "name": "Form", "paths": ["src/**"], "moleculeId": pages["id"]}
    atom = agent.beside("manage_graph", **about, **form)["data"]["atom"]
    for kind, parent in (("molecule", pages), ("atom", atom)):
        said = {"parentType": kind, "parentId": parent["id"], "taskId": task["id"], "summary": f"of the {kind}"}
        agent.beside("manage_changelog", operation="append", **said)
    agent.section(task, "Context Files", "src/a.ts")
    asked = {"operation": "get", "containerType": "task", "id": task["id"], "includeGraphContext": True}
    known = agent.data("query_container", **asked)["graphContext"]
    told = agent.beside("query_graph", operation="context", projectId=project["id"], paths=["src/a.ts"])["data"]
    assert known == told
    assert [entry["summary"] for entry in known["molecules"][0]["atoms"][0]["changelog"]] == ["of the atom"]


@promise("query_container, first section", "only the first section of context files is read")
def test_only_the_first_section_of_context_files_is_read(agent: TasksAgent) -> None:
    task = agent.task()
    agent.section(task, "Context Files", "src/a.ts")
    agent.section(task, "Context files of the first try", "src/b.ts")
    asked = {"operation": "get", "containerType": "task", "id": task["id"], "includeGraphContext": True}
    assert agent.data("query_container", **asked)["graphContext"]["unmatchedPaths"] == ["src/a.ts"]


@promise("K30", "asked for and nothing known are three empty lists")
def test_asked_for_and_nothing_known_are_three_empty_lists(agent: TasksAgent) -> None:
    asked = {"operation": "get", "containerType": "task", "includeGraphContext": True}
    nothing: dict[str, list[Any]] = {"molecules": [], "orphanAtoms": [], "unmatchedPaths": []}
    assert agent.data("query_container", **asked, id=agent.task()["id"])["graphContext"] == nothing
    within = agent.task(projectId=agent.project()["id"])
    assert agent.data("query_container", **asked, id=within["id"])["graphContext"] == nothing
    feature = agent.feature()
    asked |= {"containerType": "feature", "id": feature["id"]}
    assert "graphContext" not in agent.data("query_container", **asked)
