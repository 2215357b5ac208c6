"""manage_container and query_container: projects, features and tasks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.toolsets.tasks.agents import Crew, kind_of

NO_SUCH = "0" * 32


def create(kind: str, **arguments: Any) -> dict[str, Any]:
    return {"operation": "create", "containerType": kind, **arguments}


# -- create


def test_a_project_a_feature_and_a_task_begin_at_version_1(crew: Crew) -> None:
    project = crew.project(description="All of it", tags=" Web, api ,WEB,")
    feature = crew.feature(projectId=project["id"])
    task = crew.task(featureId=feature["id"])
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
        assert crew.get(entity) == entity


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
def test_what_a_call_lacks_is_said(crew: Crew, arguments: dict[str, Any], message: str) -> None:
    refusal = crew.refusal("manage_container", **arguments)
    assert (refusal["code"], refusal["message"]) == ("VALIDATION_ERROR", message)


def test_null_takes_a_task_out_of_its_feature_and_out_of_its_project(crew: Crew) -> None:
    project = crew.project()
    feature = crew.feature(projectId=project["id"])
    for null in (None, "null", ""):
        task = crew.task(featureId=feature["id"])
        moved = crew.update(task, featureId=null)
        assert (moved["featureId"], moved["projectId"], moved["version"]) == (None, project["id"], 2)
        moved = crew.update(task, projectId=null)
        assert (moved["featureId"], moved["projectId"], moved["version"]) == (None, None, 3)
    assert crew.task(featureId=None, projectId=None)["projectId"] is None
    moved = crew.update(task, projectId=project["id"], featureId=None)
    assert (moved["featureId"], moved["projectId"]) == (None, project["id"])


def test_a_task_in_a_feature_stays_in_its_project(crew: Crew) -> None:
    feature = crew.feature(projectId=crew.project()["id"])
    task, other = crew.task(featureId=feature["id"]), crew.project("Other")
    for said in ({"projectId": None}, {"projectId": other["id"]}):
        refusal = crew.refusal(
            "manage_container", operation="update", containerType="task", id=task["id"], version=1, **said
        )
        assert refusal["message"] == f"the task belongs to feature '{feature['id']}', which is in another project"
    refusal = crew.refusal(
        "manage_container", operation="update", containerType="task", id=task["id"], version=1,
        projectId=other["id"], featureId=feature["id"],
    )  # fmt: skip
    assert refusal["message"] == f"feature '{feature['id']}' belongs to another project"


def test_its_own_project_named_again_moves_nothing(crew: Crew) -> None:
    crew.beside("graph_open", project="Bridge")
    plan = [{"ref": "a", "summary": "Piles"}, {"ref": "b", "parent_ref": "a", "summary": "Drive them"}]
    above, below = crew.beside("graph_plan", nodes=plan)["created"]
    task = crew.get(below["id"])
    before = crew.log.head()
    assert crew.update(task, projectId=task["projectId"]) == task
    assert crew.log.head() == before
    assert crew.beside("graph_context", node_id=below["id"])["node"]["parent"] == above["id"]


def test_an_update_that_changes_nothing_writes_nothing(crew: Crew) -> None:
    project = crew.project(description="d", tags="a,b")
    feature = crew.feature(projectId=project["id"])
    task = crew.task(featureId=feature["id"], tags="a", relatedTo=feature["id"])
    names = ("name", "title", "summary", "description", "tags", "priority", "projectId", "featureId", "complexity")
    before = crew.log.head()
    for entity in map(crew.get, (project, feature, task)):
        same = {name: entity[name] for name in (*names, "relatedTo") if entity.get(name) is not None}
        assert crew.update(entity, **same) == entity
        refusal = crew.refusal(
            "manage_container", operation="update", containerType=kind_of(entity), id=entity["id"], version=1
        )
        assert refusal["code"] == "VALIDATION_ERROR"
        assert refusal["message"].startswith("update needs at least one of name, title, summary")
    assert crew.log.head() == before
    assert crew.update(task, relatedTo="")["version"] == 2


def test_two_names_for_one_thing_must_agree(crew: Crew) -> None:
    refusal = crew.refusal("manage_container", **create("task", title="a", name="b", summary="s", priority="LOW"))
    assert "name and title are the same thing, and differ" in refusal["details"]["problems"]


def test_a_feature_of_another_project_holds_nothing_that_is_sought(crew: Crew) -> None:
    one, other = crew.project("One"), crew.project("Other")
    task = crew.task(featureId=crew.feature(projectId=one["id"])["id"])
    search = {"operation": "search", "containerType": "task", "featureId": task["featureId"]}
    for project, total in ((one, 1), (other, 0)):
        assert crew.data("query_container", **search, projectId=project["id"])["total"] == total


def test_every_fault_is_told_at_once(crew: Crew) -> None:
    refusal = crew.refusal("manage_container", **create("task", summary="s"))
    assert len(refusal["details"]["problems"]) == 3


def test_arguments_may_be_strings_in_any_case(crew: Crew) -> None:
    task = crew.data(
        "manage_container", operation="create", containerType="TASK", title="t", summary="s", priority="high",
        complexity="7", tags='["b", "a"]', projectId="",
    )["task"]  # fmt: skip
    assert (task["priority"], task["complexity"], task["tags"], task["projectId"]) == ("HIGH", 7, ["b", "a"], None)


def test_ids_are_understood_with_dashes_and_in_capitals(crew: Crew) -> None:
    task = crew.task()
    spelt = "-".join((task["id"][:8], task["id"][8:12], task["id"][12:16], task["id"][16:20], task["id"][20:])).upper()
    assert crew.get(spelt) == task


def test_a_task_goes_where_its_feature_is(crew: Crew) -> None:
    shop, other = crew.project(), crew.project("Other")
    feature = crew.feature(projectId=shop["id"])
    assert crew.task(featureId=feature["id"])["projectId"] == shop["id"]
    values = {"title": "t", "summary": "s", "priority": "LOW", "complexity": 1}
    refusal = crew.refusal(
        "manage_container", **create("task", featureId=feature["id"], projectId=other["id"], **values)
    )
    assert (refusal["code"], refusal["details"]) == ("VALIDATION_ERROR", {"projectId": shop["id"]})
    assert crew.refusal("manage_container", **create("task", featureId=NO_SUCH, **values))["code"] == "NOT_FOUND"
    assert crew.refusal("manage_container", **create("task", projectId=NO_SUCH, **values))["code"] == "NOT_FOUND"


def test_a_terminal_feature_takes_no_more_tasks(crew: Crew) -> None:
    feature = crew.feature()
    crew.step("terminate", feature)
    refusal = crew.refusal(
        "manage_container",
        **create("task", title="t", summary="s", priority="LOW", complexity=1, featureId=feature["id"]),
    )
    assert refusal["code"] == "INVALID_OPERATION"


def test_the_name_of_a_project_is_used_once(crew: Crew) -> None:
    shop = crew.project()
    refusal = crew.refusal("manage_container", **create("project", name="Shop", summary="s"))
    assert (refusal["code"], refusal["details"]["id"]) == ("DUPLICATE_NAME", shop["id"])


def test_what_is_too_large_for_a_work_node_is_refused(crew: Crew) -> None:
    long = {"title": "t" * 500, "summary": "s" * 2000, "description": "é" * 10_000}
    refusal = crew.refusal("manage_container", **create("task", priority="LOW", complexity=1, **long))
    assert "keep long texts in sections" in refusal["message"]


# -- update


def test_an_update_changes_what_it_names_and_counts_the_version(crew: Crew) -> None:
    task = crew.task(tags="a", description="before")
    changed = crew.update(task, title="New", priority="HIGH", tags="B,c", complexity=9)
    assert changed == task | {
        "title": "New", "priority": "HIGH", "tags": ["b", "c"], "complexity": 9, "version": 2,
        "modifiedAt": changed["modifiedAt"],
    }  # fmt: skip
    assert changed["modifiedAt"] > task["modifiedAt"]
    assert crew.get(task) == changed
    assert crew.update(task, tags="", description="")["description"] is None


def test_a_stale_version_is_a_conflict_that_tells_the_current_one(crew: Crew) -> None:
    for entity in (crew.project(), crew.feature(), crew.task()):
        kind = {"summary": "x", "id": entity["id"], "version": 99}
        refusal = crew.refusal(
            "manage_container", operation="update",
            containerType="task" if "complexity" in entity else "feature" if "status" in entity else "project", **kind,
        )  # fmt: skip
        assert (refusal["code"], refusal["message"]) == ("CONFLICT", "Version conflict: expected 99, found 1")
        assert refusal["details"]["currentVersion"] == 1


def test_of_two_who_update_the_same_version_one_is_told(crew: Crew) -> None:
    task = crew.task()
    call = {"operation": "update", "containerType": "task", "id": task["id"], "version": 1}
    answers = crew.together([("manage_container", call | {"title": title}) for title in ("one", "two")])
    assert sorted(answer["success"] for answer in answers) == [False, True]
    assert crew.get(task)["version"] == 2


def test_a_project_is_renamed_for_work_too(crew: Crew) -> None:
    project = crew.project()
    assert crew.update(project, name="Store", summary="Sell more", tags="x")["version"] == 2
    opened = crew.beside("graph_open", project="Store")
    assert (opened["root"]["summary"], "created" in opened) == ("Sell more", False)


def test_a_feature_moves_with_its_tasks(crew: Crew) -> None:
    shop, other = crew.project(), crew.project("Other")
    feature = crew.feature(projectId=shop["id"])
    task = crew.task(featureId=feature["id"])
    assert crew.update(feature, projectId=other["id"])["projectId"] == other["id"]
    assert crew.get(task)["projectId"] == other["id"]
    assert crew.beside("graph_open", project="Other")["summary"]["total"] == 3
    assert crew.beside("graph_open", project="Shop")["summary"]["total"] == 1


def test_a_task_moves_into_a_feature(crew: Crew) -> None:
    shop = crew.project()
    feature, task = crew.feature(projectId=shop["id"]), crew.task()
    moved = crew.update(task, featureId=feature["id"])
    assert (moved["featureId"], moved["projectId"]) == (feature["id"], shop["id"])


def test_related_ones_are_replaced_and_seen_from_both_ends(crew: Crew) -> None:
    one, two, three = crew.task("1"), crew.task("2"), crew.feature()
    assert crew.update(one, relatedTo=f"{two['id']},{three['id']}")["relatedTo"] == [two["id"], three["id"]]
    assert crew.get(three)["relatedTo"] == [one["id"]]
    assert crew.update(one, relatedTo=three["id"])["relatedTo"] == [three["id"]]
    assert crew.get(two)["relatedTo"] == []


# -- delete


def test_what_holds_something_is_deleted_only_by_cascade(crew: Crew) -> None:
    project = crew.project()
    feature = crew.feature(projectId=project["id"])
    crew.feature("Empty", projectId=project["id"])
    task = crew.task(featureId=feature["id"])
    note = crew.section(task)
    call = {"operation": "delete", "containerType": "project", "id": project["id"]}
    refusal = crew.refusal("manage_container", **call)
    assert (refusal["code"], refusal["message"]) == (
        "HAS_CHILDREN",
        "Cannot delete project: contains 2 features and 1 task. Use cascade: true to delete all.",
    )
    assert crew.data("manage_container", **call, cascade="true")["deleted"] is True
    for kind, entity in (("project", project), ("feature", feature), ("task", task)):
        assert crew.refusal("query_container", operation="get", containerType=kind, id=entity["id"])["code"] == (
            "NOT_FOUND"
        )
    assert crew.refusal("manage_sections", operation="delete", sectionId=note["id"])["code"] == "NOT_FOUND"
    assert crew.beside("graph_open") == {"projects": []}


def test_a_project_goes_with_what_is_known_of_it(crew: Crew) -> None:
    project = crew.project()
    task = crew.task(projectId=project["id"])
    atom = crew.beside(
        "manage_graph", operation="create", entityType="atom", projectId=project["id"], name="Pay",
        paths=["src/**"], createdByTaskId=task["id"],
    )["data"]["atom"]  # fmt: skip
    crew.data("manage_container", operation="delete", containerType="project", id=project["id"], cascade=True)
    assert crew.refusal("query_graph", operation="get", entityType="atom", id=atom["id"])["code"] == "NOT_FOUND"


def test_what_waited_for_a_deleted_task_is_free(crew: Crew) -> None:
    one, two = crew.task("1"), crew.task("2")
    crew.step("block", two, blockedBy=[one["id"]])
    crew.data("manage_container", operation="delete", containerType="task", id=one["id"])
    assert crew.get(two)["blockedBy"] == []


# -- query


def test_get_tells_sections_and_counts_when_they_are_asked_for(crew: Crew) -> None:
    feature = crew.feature()
    task = crew.task(featureId=feature["id"])
    crew.task("other", featureId=feature["id"])
    crew.close(task)
    crew.section(feature)
    found = crew.data("query_container", operation="get", containerType="feature", id=feature["id"])
    assert found["taskCounts"] == {"total": 2, "byStatus": {"CLOSED": 1, "NEW": 1}}
    assert "sections" not in found
    whole = crew.data(
        "query_container", operation="get", containerType="feature", id=feature["id"], includeSections="true"
    )
    assert [section["title"] for section in whole["sections"]] == ["Notes"]


def titles(found: dict[str, Any]) -> list[str]:
    return [item.get("title") or item["name"] for item in found["items"]]


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
def test_search_finds_what_fits_newest_first(crew: Crew, asked: dict[str, Any], expected: list[str]) -> None:
    one = crew.task("a", priority="HIGH", tags="x")
    two = crew.task("b", tags="x,y")
    crew.task("c", priority="LOW", description="Deep down")
    crew.task("d")
    crew.step("terminate", one)
    crew.step("advance", two)
    found = crew.data("query_container", operation="search", containerType="task", **asked)
    assert titles(found) == expected
    assert found["count"] == len(expected)


def test_projects_are_found_by_all_of_the_tags_last_changed_first(crew: Crew) -> None:
    one = crew.project("one", tags="x,y")
    crew.project("two", tags="x")
    found = {"operation": "search", "containerType": "project"}
    assert titles(crew.data("query_container", **found)) == ["two", "one"]
    crew.update(one, summary="again")
    assert titles(crew.data("query_container", **found)) == ["one", "two"]
    assert titles(crew.data("query_container", **found, tags="x,y")) == ["one"]


def test_an_unknown_status_is_named(crew: Crew) -> None:
    refusal = crew.refusal("query_container", operation="search", containerType="task", status="DONE")
    assert "there is no DONE" in refusal["message"]


def test_search_stays_within_a_project_or_feature(crew: Crew) -> None:
    project = crew.project()
    feature = crew.feature(projectId=project["id"])
    crew.task("in", featureId=feature["id"])
    crew.task("beside", projectId=project["id"])
    crew.task("loose")
    search = {"operation": "search", "containerType": "task"}
    assert titles(crew.data("query_container", **search, projectId=project["id"])) == ["beside", "in"]
    assert titles(crew.data("query_container", **search, featureId=feature["id"])) == ["in"]


def test_overview_shows_what_a_project_and_a_feature_hold(crew: Crew) -> None:
    project = crew.project()
    feature = crew.feature(projectId=project["id"])
    task = crew.task(featureId=feature["id"])
    over = {"operation": "overview"}
    shown = crew.data("query_container", **over, containerType="project", id=project["id"])
    assert ([each["id"] for each in shown["features"]], shown["taskCounts"]["total"]) == ([feature["id"]], 1)
    shown = crew.data("query_container", **over, containerType="feature", id=feature["id"])
    assert [each["id"] for each in shown["tasks"]] == [task["id"]]
    assert crew.data("query_container", **over, containerType="task", id=task["id"]) == {"task": task}
    assert crew.data("query_container", **over, containerType="task")["count"] == 1


# -- with knowledge


def test_a_task_comes_with_what_is_known_of_its_files(crew: Crew) -> None:
    project = crew.project()
    task = crew.task(projectId=project["id"])
    crew.beside(
        "manage_graph", operation="create", entityType="atom", projectId=project["id"], name="Pay",
        paths=["src/pay/**"], knowledge="Handlers are idempotent", createdByTaskId=task["id"],
    )  # fmt: skip
    crew.section(task, "Plan", "src/none.ts")
    crew.section(task, "My Context Files", "# files\n- `src/pay/card.ts` — the form\n\ndocs/a.md, docs/b.md\n// no\n")
    crew.beside("graph_update", updates=[{"node_id": task["id"], "add_context_links": ["src/pay/x.ts", "https://x.y"]}])
    asked = {"operation": "get", "containerType": "task", "id": task["id"]}
    assert "graphContext" not in crew.data("query_container", **asked)
    found = crew.data("query_container", **asked, includeGraphContext=True)
    known = found["graphContext"]
    assert [(atom["name"], atom["matchedPaths"]) for atom in known["orphanAtoms"]] == [
        ("Pay", ["src/pay/card.ts", "src/pay/x.ts"])
    ]
    assert (known["molecules"], known["unmatchedPaths"]) == ([], ["docs/a.md", "docs/b.md"])
    assert "sections" not in found


def test_asked_for_and_nothing_known_are_three_empty_lists(crew: Crew) -> None:
    asked = {"operation": "get", "containerType": "task", "includeGraphContext": True}
    nothing: dict[str, list[Any]] = {"molecules": [], "orphanAtoms": [], "unmatchedPaths": []}
    assert crew.data("query_container", **asked, id=crew.task()["id"])["graphContext"] == nothing
    within = crew.task(projectId=crew.project()["id"])
    assert crew.data("query_container", **asked, id=within["id"])["graphContext"] == nothing
    feature = crew.feature()
    asked |= {"containerType": "feature", "id": feature["id"]}
    assert "graphContext" not in crew.data("query_container", **asked)
