"""Sections, templates and tags."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.extensions.tasks.agents import TasksAgent
from tests.promises import promise

# -- sections


@promise("manage_sections, add", "at the end, or where it is said")
def test_a_section_is_added_at_the_end(agent: TasksAgent) -> None:
    task = agent.task()
    first = agent.section(task, "One", "text", tags="B, a,b", contentFormat="code")
    assert first | {"id": 0} == {
        "id": 0, "entityType": "TASK", "entityId": task["id"], "title": "One", "usageDescription": "for all",
        "content": "text", "contentFormat": "CODE", "ordinal": 0, "tags": "b,a", "version": 1,
        "createdAt": first["createdAt"], "modifiedAt": first["createdAt"],
    }  # fmt: skip
    agent.section(task, "Seven", ordinal=7)
    assert agent.section(task, "Eight")["ordinal"] == 8
    assert [(each["title"], each["contentFormat"]) for each in agent.sections(task)] == [
        ("One", "CODE"), ("Seven", "MARKDOWN"), ("Eight", "MARKDOWN"),
    ]  # fmt: skip
    assert agent.sections(task)[0] == first


def test_sections_of_a_bulk_go_where_the_call_says(agent: TasksAgent) -> None:
    task, other = agent.task(), agent.task()
    place = {"entityType": "TASK", "entityId": task["id"]}
    section = {"title": "One", "usageDescription": "u", "content": "c"}
    again = {"entityType": "task", "entityId": str(uuid.UUID(task["id"]))}
    agent.data("manage_sections", operation="bulkCreate", **place, sections=[section, section | again])
    refusal = agent.refusal(
        "manage_sections", operation="bulkCreate", **place, sections=[section, section | {"entityId": other["id"]}]
    )
    assert refusal["message"] == "sections[1].entityId must be the entityId of the call"


def test_an_update_that_changes_nothing_writes_nothing(agent: TasksAgent) -> None:
    section = agent.section(agent.task(), "One", content="words", tags="a,b")
    before = agent.log.head()
    named = {"sectionId": section["id"], "version": 1}
    same = {
        name: section[name] for name in ("title", "usageDescription", "content", "contentFormat", "ordinal", "tags")
    }
    for said in ({"operation": "update", **same}, {"operation": "updateText", "content": "words"}):
        assert agent.data("manage_sections", **named, **said)["section"]["version"] == 1
    assert agent.log.head() == before
    refusal = agent.refusal("manage_sections", operation="update", **named)
    assert (refusal["code"], refusal["message"][:30]) == ("VALIDATION_ERROR", "update needs at least one of t")
    assert agent.data("manage_sections", operation="update", **named, title="Two")["section"]["version"] == 2


@promise("tasks, templates", "a template is called by either name")
def test_a_template_is_called_by_either_name(agent: TasksAgent) -> None:
    made = agent.data(
        "manage_template", operation="create", name="Bug", description="d", targetEntityType="TASK", tags="a"
    )["template"]
    added = {"title": "Steps", "usageDescription": "u", "contentSample": "1."}
    agent.data("manage_template", operation="addSection", templateId=made["id"], **added)
    for name in ("id", "templateId"):
        assert agent.data("query_templates", operation="get", **{name: made["id"]})["template"]["name"] == "Bug"
        place = {"entityType": "TASK", "entityId": agent.task()["id"]}
        assert agent.data("apply_template", **place, **{name: made["id"]})["createdCount"] == 1
    before = agent.log.head()
    same = {"name": "Bug", "tags": ["a"], "targetEntityType": "TASK"}
    assert agent.data("manage_template", operation="update", id=made["id"], **same)["template"]["version"] == 2
    assert agent.log.head() == before
    assert agent.refusal("manage_template", operation="update", id=made["id"])["code"] == "VALIDATION_ERROR"
    refusal = agent.refusal("query_templates", operation="get", id=made["id"], templateId=made["id"])
    assert refusal["message"] == "field 'templateId' is not allowed"


@promise("manage_sections, clash", "two sections cannot have one place")
def test_two_sections_cannot_have_one_place(agent: TasksAgent) -> None:
    task = agent.task()
    agent.section(task)
    refusal = agent.refusal(
        "manage_sections", operation="add", entityType="TASK", entityId=task["id"], title="t",
        usageDescription="u", content="c", ordinal=0,
    )  # fmt: skip
    assert (refusal["code"], refusal["message"]) == (
        "CONFLICT",
        "Section with ordinal 0 already exists for this entity",
    )


@promise("query_sections", "by tag, by id, without contents")
def test_sections_are_listed_by_tag_by_id_and_without_their_contents(agent: TasksAgent) -> None:
    task = agent.task()
    one, two = agent.section(task, tags="x"), agent.section(task, "Two", tags="y")
    assert [each["id"] for each in agent.sections(task, tags="X,z")] == [one["id"]]
    assert [each["id"] for each in agent.sections(task, sectionIds=two["id"])] == [two["id"]]
    assert [each["content"] for each in agent.sections(task, includeContent="false")] == ["", ""]


def test_contents_that_do_not_fit_are_said_to_be_left_out(agent: TasksAgent) -> None:
    task = agent.task()
    for number in range(3):
        agent.section(task, str(number), "x" * 30_000)
    assert [each.get("contentOmitted", False) for each in agent.sections(task)] == [False, True, True]


@promise("manage_sections, version", "changed at the version that was read")
def test_a_section_is_changed_at_the_version_that_was_read(agent: TasksAgent) -> None:
    task = agent.task()
    section = agent.section(task, tags="a")
    values = {"sectionId": section["id"], "version": 1}
    changed = agent.data("manage_sections", operation="update", title="New", tags="b", ordinal=4, **values)["section"]
    assert (changed["title"], changed["tags"], changed["ordinal"], changed["version"]) == ("New", "b", 4, 2)
    refusal = agent.refusal("manage_sections", operation="updateText", content="x", **values)
    assert (refusal["code"], refusal["details"]["currentVersion"]) == ("CONFLICT", 2)
    written = agent.data("manage_sections", operation="updateText", content="new", **values | {"version": "2"})
    assert (written["section"]["content"], written["section"]["title"]) == ("new", "New")


@promise("manage_sections, reorder", "all at once, none of another entity")
def test_sections_are_put_in_order_all_at_once(agent: TasksAgent) -> None:
    task = agent.task()
    one, two, three = (agent.section(task, title) for title in "123")
    other = agent.section(agent.task("other"))
    call = {"operation": "reorder", "entityType": "TASK", "entityId": task["id"]}
    ids = [three["id"], one["id"], two["id"]]
    agent.data("manage_sections", **call, orderedIds=",".join(ids))
    assert [(each["id"], each["ordinal"]) for each in agent.sections(task)] == list(zip(ids, range(3), strict=True))
    refusal = agent.refusal("manage_sections", **call, orderedIds=[*ids[:2], other["id"]])
    assert (refusal["code"], refusal["details"]["sectionIds"]) == ("VALIDATION_ERROR", [other["id"]])
    assert agent.refusal("manage_sections", **call, orderedIds=ids[:2])["code"] == "VALIDATION_ERROR"


@promise("manage_sections, bulk", "many are made and deleted at once")
def test_many_sections_are_made_and_deleted_at_once(agent: TasksAgent) -> None:
    feature = agent.feature()
    many = [{"title": str(number), "usageDescription": "u", "content": "c"} for number in range(3)]
    call = {"operation": "bulkCreate", "entityType": "FEATURE", "entityId": feature["id"]}
    made = agent.data("manage_sections", **call, sections=many)["sections"]
    assert [(each["entityId"], each["ordinal"]) for each in made] == [(feature["id"], n) for n in range(3)]
    refusal = agent.refusal("manage_sections", **call, sections=[many[0], {"title": "x", "content": "c"}])
    assert refusal["message"] == "sections[1].usageDescription is required for bulkCreate operation"
    refusal = agent.refusal("manage_sections", **call, sections=[many[0] | {"colour": "red"}])
    assert refusal["code"] == "VALIDATION_ERROR"
    gone = agent.data("manage_sections", operation="bulkDelete", sectionIds=[made[0]["id"], made[1]["id"], "a" * 32])
    assert gone == {"deletedCount": 2}
    agent.data("manage_sections", operation="delete", sectionId=made[2]["id"])
    assert agent.sections(feature) == []


@pytest.mark.parametrize(
    ("arguments", "lacks"),
    [
        ({"operation": "add", "entityType": "TASK", "entityId": "x"}, ["title", "usageDescription", "content"]),
        ({"operation": "update"}, ["sectionId", "version"]),
        ({"operation": "reorder", "orderedIds": "x"}, ["entityType", "entityId"]),
        ({"operation": "bulkDelete"}, ["sectionIds"]),
    ],
)
def test_what_an_operation_on_sections_lacks_is_said(
    agent: TasksAgent, arguments: dict[str, Any], lacks: list[str]
) -> None:
    message = agent.refusal("manage_sections", **arguments)["message"]
    assert message == "; ".join(f"{field} is required for {arguments['operation']} operation" for field in lacks)


def test_sections_belong_to_what_is_there(agent: TasksAgent) -> None:
    assert agent.refusal("query_sections", entityType="TASK", entityId="x")["code"] == "NOT_FOUND"
    feature = agent.feature()
    assert agent.refusal("query_sections", entityType="TASK", entityId=feature["id"])["code"] == "NOT_FOUND"


# -- templates


def template(agent: TasksAgent, name: str = "Bug", **arguments: Any) -> dict[str, Any]:
    values = {"description": "For bugs", "targetEntityType": "TASK"}
    data = agent.data("manage_template", operation="create", name=name, **values | arguments)
    found: dict[str, Any] = data["template"]
    return found


@promise("apply_template", "copied after the sections there are")
def test_a_template_is_copied_after_the_sections_there_are(agent: TasksAgent) -> None:
    bug, task = template(agent), agent.task()
    for title in ("Cause", "Fix"):
        agent.data(
            "manage_template", operation="addSection", id=bug["id"], title=title, usageDescription="u",
            contentSample=f"the {title}", isRequired="true", tags="x,y",
        )  # fmt: skip
    agent.section(task)
    call = {"templateId": bug["id"], "entityType": "task", "entityId": task["id"]}
    applied = agent.data("apply_template", **call)
    assert [(each["title"], each["ordinal"], each["content"], each["tags"]) for each in applied["sections"]] == [
        ("Cause", 1, "the Cause", "x,y"),
        ("Fix", 2, "the Fix", "x,y"),
    ]
    assert [each["ordinal"] for each in agent.sections(task)] == [0, 1, 2]
    whole = agent.data("query_templates", operation="get", id=bug["id"])["template"]
    assert (whole["version"], [each["isRequired"] for each in whole["sections"]]) == (3, [True, True])


@promise("templates, refusals", "disabled and mismatched templates are not applied")
def test_templates_that_cannot_be_used(agent: TasksAgent) -> None:
    bug, task, feature = template(agent), agent.task(), agent.feature()
    call = {"templateId": bug["id"], "entityType": "FEATURE", "entityId": feature["id"]}
    assert agent.refusal("apply_template", **call)["code"] == "ENTITY_TYPE_MISMATCH"
    agent.data("manage_template", operation="disable", id=bug["id"])
    call = {"templateId": bug["id"], "entityType": "TASK", "entityId": task["id"]}
    assert agent.refusal("apply_template", **call)["code"] == "TEMPLATE_DISABLED"
    agent.data("manage_template", operation="enable", id=bug["id"])
    assert agent.data("apply_template", **call)["createdCount"] == 0
    assert agent.refusal("apply_template", **call | {"templateId": "x"})["code"] == "NOT_FOUND"


@promise("templates, protected", "a protected template stays as it is")
def test_a_protected_template_stays_as_it_is(agent: TasksAgent) -> None:
    kept = template(agent, isProtected=True)
    calls: list[dict[str, Any]] = [
        {"operation": "update", "name": "x"},
        {"operation": "delete"},
        {"operation": "addSection", "title": "t", "usageDescription": "u", "contentSample": "c"},
    ]
    for call in calls:
        assert agent.refusal("manage_template", id=kept["id"], **call)["code"] == "PROTECTED_TEMPLATE"


@promise("templates, names", "names are used once")
def test_a_template_is_known_by_its_name(agent: TasksAgent) -> None:
    bug, other = template(agent, tags="x"), template(agent, "Other", targetEntityType="FEATURE")
    create = {"operation": "create", "description": "d", "targetEntityType": "TASK"}
    assert agent.refusal("manage_template", **create, name="BUG")["code"] == "DUPLICATE_NAME"
    assert agent.refusal("manage_template", operation="update", id=other["id"], name="bug")["code"] == "DUPLICATE_NAME"
    agent.data("manage_template", operation="update", id=bug["id"], description="new", name="bug")

    def listed(**asked: Any) -> list[str]:
        found = agent.data("query_templates", operation="list", **asked)["templates"]
        return [each["name"] for each in found]

    assert listed() == ["Other", "bug"]
    assert listed(targetEntityType="FEATURE") == ["Other"]
    assert listed(tags="x") == ["bug"]
    assert listed(isEnabled=False) == []
    agent.data("manage_template", operation="delete", id=bug["id"])
    assert listed() == ["Other"]


# -- tags


@promise("list_tags", "by count, then by name")
def test_tags_are_counted_most_used_first(agent: TasksAgent) -> None:
    agent.project(tags="b,c")
    agent.feature(tags="b")
    agent.task(tags="a,b")
    found = agent.data("list_tags")
    assert found["tags"] == [{"tag": "b", "count": 3}, {"tag": "a", "count": 1}, {"tag": "c", "count": 1}]
    assert agent.data("list_tags", entityType="FEATURE")["tags"] == [{"tag": "b", "count": 1}]


@promise("get_tag_usage", "who has a tag")
def test_who_has_a_tag(agent: TasksAgent) -> None:
    project, task = agent.project(tags="x"), agent.task(tags="x")
    assert agent.data("get_tag_usage", tag=" X ") == {
        "tag": "x",
        "count": 2,
        "entities": [
            {"id": project["id"], "entityType": "PROJECT", "title": "Shop"},
            {"id": task["id"], "entityType": "TASK", "title": "Form"},
        ],
    }
    assert agent.data("get_tag_usage", tag="none")["count"] == 0


@promise("rename_tag", "renamed everywhere, merged on conflict")
def test_a_tag_is_renamed_everywhere_and_merged_where_the_new_one_is(agent: TasksAgent) -> None:
    project, task, other = agent.project(tags="old"), agent.task(tags="new,old"), agent.task("other", tags="new")
    before = agent.log.head()
    call = {"oldTag": "OLD", "newTag": "New"}
    assert agent.data("rename_tag", **call, dryRun="true")["affected"] == 2
    assert agent.log.head() == before
    renamed = agent.data("rename_tag", **call)
    assert [each["id"] for each in renamed["entities"]] == [project["id"], task["id"]]
    assert [agent.get(each)["tags"] for each in (project, task, other)] == [["new"], ["new"], ["new"]]
    assert [agent.get(each)["version"] for each in (project, task, other)] == [2, 2, 1]
    assert agent.data("rename_tag", **call) == {"affected": 0, "entities": []}
    assert agent.refusal("rename_tag", oldTag="a", newTag="A")["code"] == "VALIDATION_ERROR"
