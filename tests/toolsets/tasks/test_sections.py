"""Sections, templates and tags."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.toolsets.tasks.agents import Crew

# -- sections


def test_a_section_is_added_at_the_end(crew: Crew) -> None:
    task = crew.task()
    first = crew.section(task, "One", "text", tags="B, a,b", contentFormat="code")
    assert first | {"id": 0} == {
        "id": 0, "entityType": "TASK", "entityId": task["id"], "title": "One", "usageDescription": "for all",
        "content": "text", "contentFormat": "CODE", "ordinal": 0, "tags": "b,a", "version": 1,
        "createdAt": first["createdAt"], "modifiedAt": first["createdAt"],
    }  # fmt: skip
    crew.section(task, "Seven", ordinal=7)
    assert crew.section(task, "Eight")["ordinal"] == 8
    assert [(each["title"], each["contentFormat"]) for each in crew.sections(task)] == [
        ("One", "CODE"), ("Seven", "MARKDOWN"), ("Eight", "MARKDOWN"),
    ]  # fmt: skip
    assert crew.sections(task)[0] == first


def test_sections_of_a_bulk_go_where_the_call_says(crew: Crew) -> None:
    task, other = crew.task(), crew.task()
    place = {"entityType": "TASK", "entityId": task["id"]}
    section = {"title": "One", "usageDescription": "u", "content": "c"}
    again = {"entityType": "task", "entityId": str(uuid.UUID(task["id"]))}
    crew.data("manage_sections", operation="bulkCreate", **place, sections=[section, section | again])
    refusal = crew.refusal(
        "manage_sections", operation="bulkCreate", **place, sections=[section, section | {"entityId": other["id"]}]
    )
    assert refusal["message"] == "sections[1].entityId must be the entityId of the call"


def test_an_update_that_changes_nothing_writes_nothing(crew: Crew) -> None:
    section = crew.section(crew.task(), "One", content="words", tags="a,b")
    before = crew.log.head()
    named = {"sectionId": section["id"], "version": 1}
    same = {
        name: section[name] for name in ("title", "usageDescription", "content", "contentFormat", "ordinal", "tags")
    }
    for said in ({"operation": "update", **same}, {"operation": "updateText", "content": "words"}):
        assert crew.data("manage_sections", **named, **said)["section"]["version"] == 1
    assert crew.log.head() == before
    refusal = crew.refusal("manage_sections", operation="update", **named)
    assert (refusal["code"], refusal["message"][:30]) == ("VALIDATION_ERROR", "update needs at least one of t")
    assert crew.data("manage_sections", operation="update", **named, title="Two")["section"]["version"] == 2


def test_a_template_is_called_by_either_name(crew: Crew) -> None:
    made = crew.data(
        "manage_template", operation="create", name="Bug", description="d", targetEntityType="TASK", tags="a"
    )["template"]
    added = {"title": "Steps", "usageDescription": "u", "contentSample": "1."}
    crew.data("manage_template", operation="addSection", templateId=made["id"], **added)
    for name in ("id", "templateId"):
        assert crew.data("query_templates", operation="get", **{name: made["id"]})["template"]["name"] == "Bug"
        place = {"entityType": "TASK", "entityId": crew.task()["id"]}
        assert crew.data("apply_template", **place, **{name: made["id"]})["createdCount"] == 1
    before = crew.log.head()
    same = {"name": "Bug", "tags": ["a"], "targetEntityType": "TASK"}
    assert crew.data("manage_template", operation="update", id=made["id"], **same)["template"]["version"] == 2
    assert crew.log.head() == before
    assert crew.refusal("manage_template", operation="update", id=made["id"])["code"] == "VALIDATION_ERROR"
    refusal = crew.refusal("query_templates", operation="get", id=made["id"], templateId=made["id"])
    assert refusal["message"] == "field 'templateId' is not allowed"


def test_two_sections_cannot_have_one_place(crew: Crew) -> None:
    task = crew.task()
    crew.section(task)
    refusal = crew.refusal(
        "manage_sections", operation="add", entityType="TASK", entityId=task["id"], title="t",
        usageDescription="u", content="c", ordinal=0,
    )  # fmt: skip
    assert (refusal["code"], refusal["message"]) == (
        "CONFLICT",
        "Section with ordinal 0 already exists for this entity",
    )


def test_sections_are_listed_by_tag_by_id_and_without_their_contents(crew: Crew) -> None:
    task = crew.task()
    one, two = crew.section(task, tags="x"), crew.section(task, "Two", tags="y")
    assert [each["id"] for each in crew.sections(task, tags="X,z")] == [one["id"]]
    assert [each["id"] for each in crew.sections(task, sectionIds=two["id"])] == [two["id"]]
    assert [each["content"] for each in crew.sections(task, includeContent="false")] == ["", ""]


def test_contents_that_do_not_fit_are_said_to_be_left_out(crew: Crew) -> None:
    task = crew.task()
    for number in range(3):
        crew.section(task, str(number), "x" * 30_000)
    assert [each.get("contentOmitted", False) for each in crew.sections(task)] == [False, True, True]


def test_a_section_is_changed_at_the_version_that_was_read(crew: Crew) -> None:
    task = crew.task()
    section = crew.section(task, tags="a")
    values = {"sectionId": section["id"], "version": 1}
    changed = crew.data("manage_sections", operation="update", title="New", tags="b", ordinal=4, **values)["section"]
    assert (changed["title"], changed["tags"], changed["ordinal"], changed["version"]) == ("New", "b", 4, 2)
    refusal = crew.refusal("manage_sections", operation="updateText", content="x", **values)
    assert (refusal["code"], refusal["details"]["currentVersion"]) == ("CONFLICT", 2)
    written = crew.data("manage_sections", operation="updateText", content="new", **values | {"version": "2"})
    assert (written["section"]["content"], written["section"]["title"]) == ("new", "New")


def test_sections_are_put_in_order_all_at_once(crew: Crew) -> None:
    task = crew.task()
    one, two, three = (crew.section(task, title) for title in "123")
    other = crew.section(crew.task("other"))
    call = {"operation": "reorder", "entityType": "TASK", "entityId": task["id"]}
    ids = [three["id"], one["id"], two["id"]]
    crew.data("manage_sections", **call, orderedIds=",".join(ids))
    assert [(each["id"], each["ordinal"]) for each in crew.sections(task)] == list(zip(ids, range(3), strict=True))
    refusal = crew.refusal("manage_sections", **call, orderedIds=[*ids[:2], other["id"]])
    assert (refusal["code"], refusal["details"]["sectionIds"]) == ("VALIDATION_ERROR", [other["id"]])
    assert crew.refusal("manage_sections", **call, orderedIds=ids[:2])["code"] == "VALIDATION_ERROR"


def test_many_sections_are_made_and_deleted_at_once(crew: Crew) -> None:
    feature = crew.feature()
    many = [{"title": str(number), "usageDescription": "u", "content": "c"} for number in range(3)]
    call = {"operation": "bulkCreate", "entityType": "FEATURE", "entityId": feature["id"]}
    made = crew.data("manage_sections", **call, sections=many)["sections"]
    assert [(each["entityId"], each["ordinal"]) for each in made] == [(feature["id"], n) for n in range(3)]
    refusal = crew.refusal("manage_sections", **call, sections=[many[0], {"title": "x", "content": "c"}])
    assert refusal["message"] == "sections[1].usageDescription is required for bulkCreate operation"
    refusal = crew.refusal("manage_sections", **call, sections=[many[0] | {"colour": "red"}])
    assert refusal["code"] == "VALIDATION_ERROR"
    gone = crew.data("manage_sections", operation="bulkDelete", sectionIds=[made[0]["id"], made[1]["id"], "a" * 32])
    assert gone == {"deletedCount": 2}
    crew.data("manage_sections", operation="delete", sectionId=made[2]["id"])
    assert crew.sections(feature) == []


@pytest.mark.parametrize(
    ("arguments", "lacks"),
    [
        ({"operation": "add", "entityType": "TASK", "entityId": "x"}, ["title", "usageDescription", "content"]),
        ({"operation": "update"}, ["sectionId", "version"]),
        ({"operation": "reorder", "orderedIds": "x"}, ["entityType", "entityId"]),
        ({"operation": "bulkDelete"}, ["sectionIds"]),
    ],
)
def test_what_an_operation_on_sections_lacks_is_said(crew: Crew, arguments: dict[str, Any], lacks: list[str]) -> None:
    message = crew.refusal("manage_sections", **arguments)["message"]
    assert message == "; ".join(f"{field} is required for {arguments['operation']} operation" for field in lacks)


def test_sections_belong_to_what_is_there(crew: Crew) -> None:
    assert crew.refusal("query_sections", entityType="TASK", entityId="x")["code"] == "NOT_FOUND"
    feature = crew.feature()
    assert crew.refusal("query_sections", entityType="TASK", entityId=feature["id"])["code"] == "NOT_FOUND"


# -- templates


def template(crew: Crew, name: str = "Bug", **arguments: Any) -> dict[str, Any]:
    values = {"description": "For bugs", "targetEntityType": "TASK"}
    data = crew.data("manage_template", operation="create", name=name, **values | arguments)
    found: dict[str, Any] = data["template"]
    return found


def test_a_template_is_copied_after_the_sections_there_are(crew: Crew) -> None:
    bug, task = template(crew), crew.task()
    for title in ("Cause", "Fix"):
        crew.data(
            "manage_template", operation="addSection", id=bug["id"], title=title, usageDescription="u",
            contentSample=f"the {title}", isRequired="true", tags="x,y",
        )  # fmt: skip
    crew.section(task)
    call = {"templateId": bug["id"], "entityType": "task", "entityId": task["id"]}
    applied = crew.data("apply_template", **call)
    assert [(each["title"], each["ordinal"], each["content"], each["tags"]) for each in applied["sections"]] == [
        ("Cause", 1, "the Cause", "x,y"),
        ("Fix", 2, "the Fix", "x,y"),
    ]
    assert [each["ordinal"] for each in crew.sections(task)] == [0, 1, 2]
    whole = crew.data("query_templates", operation="get", id=bug["id"])["template"]
    assert (whole["version"], [each["isRequired"] for each in whole["sections"]]) == (3, [True, True])


def test_templates_that_cannot_be_used(crew: Crew) -> None:
    bug, task, feature = template(crew), crew.task(), crew.feature()
    call = {"templateId": bug["id"], "entityType": "FEATURE", "entityId": feature["id"]}
    assert crew.refusal("apply_template", **call)["code"] == "ENTITY_TYPE_MISMATCH"
    crew.data("manage_template", operation="disable", id=bug["id"])
    call = {"templateId": bug["id"], "entityType": "TASK", "entityId": task["id"]}
    assert crew.refusal("apply_template", **call)["code"] == "TEMPLATE_DISABLED"
    crew.data("manage_template", operation="enable", id=bug["id"])
    assert crew.data("apply_template", **call)["createdCount"] == 0
    assert crew.refusal("apply_template", **call | {"templateId": "x"})["code"] == "NOT_FOUND"


def test_a_protected_template_stays_as_it_is(crew: Crew) -> None:
    kept = template(crew, isProtected=True)
    calls: list[dict[str, Any]] = [
        {"operation": "update", "name": "x"},
        {"operation": "delete"},
        {"operation": "addSection", "title": "t", "usageDescription": "u", "contentSample": "c"},
    ]
    for call in calls:
        assert crew.refusal("manage_template", id=kept["id"], **call)["code"] == "PROTECTED_TEMPLATE"


def test_a_template_is_known_by_its_name(crew: Crew) -> None:
    bug, other = template(crew, tags="x"), template(crew, "Other", targetEntityType="FEATURE")
    create = {"operation": "create", "description": "d", "targetEntityType": "TASK"}
    assert crew.refusal("manage_template", **create, name="BUG")["code"] == "DUPLICATE_NAME"
    assert crew.refusal("manage_template", operation="update", id=other["id"], name="bug")["code"] == "DUPLICATE_NAME"
    crew.data("manage_template", operation="update", id=bug["id"], description="new", name="bug")

    def listed(**asked: Any) -> list[str]:
        found = crew.data("query_templates", operation="list", **asked)["templates"]
        return [each["name"] for each in found]

    assert listed() == ["Other", "bug"]
    assert listed(targetEntityType="FEATURE") == ["Other"]
    assert listed(tags="x") == ["bug"]
    assert listed(isEnabled=False) == []
    crew.data("manage_template", operation="delete", id=bug["id"])
    assert listed() == ["Other"]


# -- tags


def test_tags_are_counted_most_used_first(crew: Crew) -> None:
    crew.project(tags="b,c")
    crew.feature(tags="b")
    crew.task(tags="a,b")
    found = crew.data("list_tags")
    assert found["tags"] == [{"tag": "b", "count": 3}, {"tag": "a", "count": 1}, {"tag": "c", "count": 1}]
    assert crew.data("list_tags", entityType="FEATURE")["tags"] == [{"tag": "b", "count": 1}]


def test_who_has_a_tag(crew: Crew) -> None:
    project, task = crew.project(tags="x"), crew.task(tags="x")
    assert crew.data("get_tag_usage", tag=" X ") == {
        "tag": "x",
        "count": 2,
        "entities": [
            {"id": project["id"], "entityType": "PROJECT", "title": "Shop"},
            {"id": task["id"], "entityType": "TASK", "title": "Form"},
        ],
    }
    assert crew.data("get_tag_usage", tag="none")["count"] == 0


def test_a_tag_is_renamed_everywhere_and_merged_where_the_new_one_is(crew: Crew) -> None:
    project, task, other = crew.project(tags="old"), crew.task(tags="new,old"), crew.task("other", tags="new")
    before = crew.log.head()
    call = {"oldTag": "OLD", "newTag": "New"}
    assert crew.data("rename_tag", **call, dryRun="true")["affected"] == 2
    assert crew.log.head() == before
    renamed = crew.data("rename_tag", **call)
    assert [each["id"] for each in renamed["entities"]] == [project["id"], task["id"]]
    assert [crew.get(each)["tags"] for each in (project, task, other)] == [["new"], ["new"], ["new"]]
    assert [crew.get(each)["version"] for each in (project, task, other)] == [2, 2, 1]
    assert crew.data("rename_tag", **call) == {"affected": 0, "entities": []}
    assert crew.refusal("rename_tag", oldTag="a", newTag="A")["code"] == "VALIDATION_ERROR"
