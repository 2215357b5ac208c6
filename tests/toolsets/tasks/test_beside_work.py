"""Tasks and work are the same entities, told in two vocabularies."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec
import pytest

from tallystick.log import Head
from tallystick.policy import Decision, Request
from tallystick.state.state import State
from tallystick.state.tasks import Sections, TaskCards
from tests.toolsets.tasks.agents import Crew, Said, gathered


def planned(crew: Crew, *nodes: Said) -> dict[str, str]:
    told = crew.beside("graph_plan", nodes=[{"summary": node["ref"], **node} for node in nodes])
    return {each["ref"]: each["id"] for each in told["created"]}


def actionable(crew: Crew, project: str = "Shop") -> list[str]:
    return [each["node"]["id"] for each in crew.beside("graph_next", project=project, count=50)["nodes"]]


def update(crew: Crew, node_id: str, **changes: Any) -> Said:
    return crew.beside("graph_update", updates=[{"node_id": node_id, **changes}])


def test_a_task_made_here_is_handed_out_by_work_the_urgent_first(crew: Crew) -> None:
    project = crew.project()
    low, high = (crew.task(each, projectId=project["id"], priority=each) for each in ("LOW", "HIGH"))
    assert actionable(crew) == [high["id"], low["id"]]
    crew.close(high)
    assert actionable(crew) == [low["id"]]


def test_a_planned_node_is_a_task_and_can_be_advanced(crew: Crew) -> None:
    project = crew.project()
    ids = planned(crew, {"ref": "plan", "properties": {"priority": 3}}, {"ref": "later", "depends_on": ["plan"]})
    task = crew.get(ids["plan"])
    assert (task["title"], task["status"], task["priority"], task["complexity"], task["projectId"]) == (
        "plan", "NEW", "HIGH", 5, project["id"],
    )  # fmt: skip
    assert crew.get(ids["later"])["blockedBy"] == [ids["plan"]]
    data = crew.close(ids["plan"])
    assert data["unblockedEntities"] == [{"id": ids["later"], "type": "task"}]
    node = crew.node(ids["plan"])
    assert (node["resolved"], node["rev"], node["evidence"]) == (True, 3, [])
    assert actionable(crew) == [ids["later"]]


def test_blocked_by_is_depends_on_read_backwards(crew: Crew) -> None:
    project = crew.project()
    one, two = crew.task("1", projectId=project["id"]), crew.task("2", projectId=project["id"])
    crew.step("block", two, blockedBy=[one["id"]])
    context = crew.beside("graph_context", node_id=two["id"])
    assert [each["node"]["id"] for each in context["depends_on"]] == [one["id"]]
    edge = {"from": two["id"], "to": one["id"], "type": "depends_on"}
    crew.beside("graph_connect", edges=[edge | {"remove": True}])
    assert crew.get(two)["blockedBy"] == []
    crew.beside("graph_connect", edges=[{"from": one["id"], "to": two["id"], "type": "depends_on"}])
    assert crew.get(one)["blockedBy"] == [two["id"]]


def test_what_work_resolves_is_closed_here_and_what_it_takes_back_is_new(crew: Crew) -> None:
    project = crew.project()
    one, two = crew.task("1", projectId=project["id"]), crew.task("2", projectId=project["id"])
    crew.step("block", two, blockedBy=[one["id"]], blockedReason="order")
    update(crew, one["id"], resolved=True, add_evidence=[{"type": "note", "ref": "done"}])
    assert crew.get(one)["status"] == "CLOSED"
    assert (crew.get(two)["blockedBy"], crew.get(two)["blockedReason"]) == ([], None)
    update(crew, one["id"], resolved=False)
    assert crew.get(one)["status"] == "NEW"
    assert crew.get(two)["blockedBy"] == [one["id"]]


def test_what_is_given_up_blocks_here_and_not_there(crew: Crew) -> None:
    project = crew.project()
    one, two = crew.task("1", projectId=project["id"]), crew.task("2", projectId=project["id"])
    crew.step("block", two, blockedBy=[one["id"]])
    crew.step("terminate", one)
    assert crew.get(two)["blockedBy"] == [one["id"]]
    assert actionable(crew) == [two["id"]]


def test_the_version_is_the_revision(crew: Crew) -> None:
    task = crew.task(projectId=crew.project()["id"])
    update(crew, task["id"], summary="Other words", properties={"priority": -2})
    seen = crew.get(task)
    assert (seen["version"], seen["summary"], seen["title"], seen["priority"]) == (2, "Other words", "Form", "LOW")
    assert crew.refusal("advance", containerType="task", id=task["id"], version=1)["code"] == "CONFLICT"
    crew.step("advance", task)
    assert crew.node(task["id"])["rev"] == 3


def test_evidence_and_properties_outlive_a_step(crew: Crew) -> None:
    task = crew.task(projectId=crew.project()["id"])
    update(crew, task["id"], add_evidence=[{"type": "git", "ref": "abc"}], properties={"colour": "red"})
    before = crew.node(task["id"])
    crew.close(task)
    after = crew.node(task["id"])
    assert (after["evidence"], after["properties"]) == (before["evidence"], before["properties"])


def test_a_project_opened_by_work_takes_features_and_its_root_is_no_task(crew: Crew) -> None:
    opened = crew.beside("graph_open", project="Bridge", goal="Cross the brook")
    found = crew.data("query_container", operation="search", containerType="project")["items"]
    assert [(each["name"], each["summary"]) for each in found] == [("Bridge", "Cross the brook")]
    feature = crew.feature(projectId=found[0]["id"])
    assert crew.node(feature["id"])["parent"] == opened["root"]["id"]
    assert crew.data("query_container", operation="search", containerType="task")["items"] == []
    root = opened["root"]["id"]
    assert crew.refusal("query_container", operation="get", containerType="task", id=root)["code"] == "NOT_FOUND"


def test_a_task_below_a_task_belongs_to_the_feature_above_both(crew: Crew) -> None:
    feature = crew.feature(projectId=crew.project()["id"])
    task = crew.task(featureId=feature["id"])
    ids = planned(crew, {"ref": "part", "parent_ref": task["id"]})
    assert crew.get(ids["part"])["featureId"] == feature["id"]
    assert "featureTransition" not in crew.close(task)
    assert crew.close(ids["part"])["featureTransition"]["to"] == "CLOSED"
    call = {"operation": "delete", "containerType": "task", "id": task["id"]}
    assert crew.refusal("manage_container", **call)["message"] == (
        "Cannot delete task: contains 1 task. Use cascade: true to delete all."
    )


def test_a_node_merged_away_leaves_its_blocks_to_the_other(crew: Crew) -> None:
    project = crew.project()
    one, two, after = (crew.task(each, projectId=project["id"]) for each in ("1", "2", "after"))
    crew.step("block", after, blockedBy=[one["id"]])
    crew.beside("graph_restructure", operations=[{"op": "merge", "source": one["id"], "target": two["id"]}])
    assert crew.get(after)["blockedBy"] == [two["id"]]


def test_memory_does_not_write_what_belongs_to_tasks(crew: Crew) -> None:
    node = {"id": "x", "type": "tasks/section", "attrs": {}}
    refusal = crew.refusal("memory.write", op="UPSERT_NODE", node=node)
    assert refusal["code"] == "RESERVED_TYPE"


def test_work_hands_out_a_task_with_its_texts(crew: Crew) -> None:
    task = crew.task(projectId=crew.project()["id"], description="Three fields, one button")
    plan = crew.section(task, "Implementation Plan", "First the form")
    notes = crew.section(task, "Notes", "words")
    texts = {
        "title": "Form",
        "description": "Three fields, one button",
        "sections": [
            {"id": plan["id"], "title": "Implementation Plan", "content": "First the form"},
            {"id": notes["id"], "title": "Notes", "content": "words"},
        ],
    }
    for claim in (False, True):
        (given,) = crew.beside("graph_next", project="Shop", claim=claim)["nodes"]
        assert (given["node"]["id"], given["task"]) == (task["id"], texts)
    assert crew.beside("graph_context", node_id=task["id"])["task"] == texts


def test_a_node_that_was_planned_as_work_has_texts_only_when_sections_were_added(crew: Crew) -> None:
    crew.project()
    node = planned(crew, {"ref": "plan"})["plan"]
    assert "task" not in crew.beside("graph_context", node_id=node)
    section = crew.section(crew.get(node), "Notes", "words")
    sections = [{"id": section["id"], "title": "Notes", "content": "words"}]
    assert crew.beside("graph_context", node_id=node)["task"] == {"sections": sections}


def test_a_section_that_may_not_be_read_is_not_shown_nor_are_its_files_known() -> None:
    class Secretive:
        """What eve made is hers alone."""

        def decide(self, request: Request) -> Decision:
            allowed = request.resource_owner != "eve" or request.principal.actor == "eve"
            return Decision(allowed, "by the rule", "1")

    with gathered(policy=Secretive()) as crew:
        project = crew.project()
        task = crew.task(projectId=project["id"])
        crew.beside(
            "manage_graph", operation="create", entityType="atom", projectId=project["id"], name="Pay",
            paths=["src/pay/**"], createdByTaskId=task["id"],
        )  # fmt: skip
        crew.me = "eve"
        crew.section(task, "Context Files", "src/pay/card.ts")
        seen = {}
        for crew.me in ("eve", "ann"):
            (given,) = crew.beside("graph_next", project="Shop")["nodes"]
            assert crew.beside("graph_context", node_id=task["id"])["task"] == given["task"]
            seen[crew.me] = "sections" in given["task"], "knowledge" in given
        assert seen == {"eve": (True, True), "ann": (False, False)}


def test_the_texts_of_a_task_are_cut_to_what_fits(crew: Crew) -> None:
    task = crew.task(projectId=crew.project()["id"], description="é" * 4_000)
    for number in range(3):
        crew.section(task, f"{number}", "é" * 3_000)
    (given,) = crew.beside("graph_next", project="Shop")["nodes"]
    told = given["task"]
    assert (told["description_truncated"], len(told["description"].encode()) <= 2_100) == (True, True)
    assert [section.get("content_truncated", False) for section in told["sections"]] == [False, True, True]
    for number in range(3, 150):
        crew.section(task, f"{number} " + "t" * 200, "more")
    (given,) = crew.beside("graph_next", project="Shop")["nodes"]
    assert len(given["task"]["sections"]) + given["task"]["sections_omitted"] == 150
    assert len(msgspec.json.encode(given["task"])) < 20_000


def test_work_knows_the_context_files_of_a_task(crew: Crew) -> None:
    project = crew.project()
    task = crew.task(projectId=project["id"])
    for name, path in (("Pay", "src/pay/**"), ("Docs", "docs/**"), ("Other", "other/**")):
        crew.beside(
            "manage_graph", operation="create", entityType="atom", projectId=project["id"], name=name, paths=[path],
            knowledge="Handlers are idempotent", createdByTaskId=task["id"],
        )  # fmt: skip
    crew.section(task, "Context Files", "- src/pay/card.ts — calls `charge()` of other/x.ts\n- `docs/`")
    (given,) = crew.beside("graph_next", project="Shop")["nodes"]
    found = given["knowledge"]["orphanAtoms"]
    assert [(atom["name"], atom["matchedPaths"]) for atom in found] == [
        ("Docs", ["docs/"]),
        ("Pay", ["src/pay/card.ts"]),
    ]
    assert crew.beside("graph_context", node_id=task["id"])["knowledge"] == given["knowledge"]


@pytest.mark.parametrize("kind", [TaskCards, Sections])
def test_what_is_built_anew_is_what_was_kept(crew: Crew, kind: type[TaskCards] | type[Sections]) -> None:
    project = crew.project(tags="x")
    feature = crew.feature(projectId=project["id"])
    task, gone = crew.task(featureId=feature["id"], tags="a"), crew.task("gone", tags="b")
    crew.derived(kind)
    crew.section(task)
    crew.section(gone)
    crew.step("advance", task)
    crew.update(project, name="Store")
    crew.data("manage_template", operation="create", name="T", description="d", targetEntityType="TASK")
    crew.data("manage_container", operation="delete", containerType="task", id=gone["id"], cascade=True)
    kept = crew.derived(kind)
    state = State(crew.log.line)
    empty = _contents(state.derived(kind))
    for entry in crew.log.read(Head()):
        state.apply(entry.commit, entry.offset)
    followed = state.derived(kind)
    assert empty != _contents(followed) == _contents(kept)
    half = state.count // 2
    state.undo(state.count - half)
    back = _contents(state.derived(kind))
    again = State(crew.log.line)
    for entry in list(crew.log.read(Head()))[:half]:
        again.apply(entry.commit, entry.offset)
    assert back == _contents(again.derived(kind))


def _contents(derived: TaskCards | Sections) -> dict[str, Any]:
    return {name: list(value) if name == "fresh" else value for name, value in deepcopy(vars(derived)).items()}


def test_the_history_of_a_task_tells_title_status_and_why_it_was_given_up(crew: Crew) -> None:
    feature = crew.feature(projectId=crew.project()["id"])
    task = crew.task("Form", featureId=feature["id"], tags="ui")
    crew.update(task, title="Card form", complexity=5)
    crew.step("advance", task)
    crew.step("terminate", task, reason="nobody pays by card")
    dropped, advanced, updated, created = crew.beside("graph_history", node_id=task["id"])["events"]
    assert (dropped["action"], dropped["reason"]) == ("dropped", "nobody pays by card")
    taken, free = _changes(advanced).pop("properties")[::-1]
    assert (taken["_claimed_by"], free) == ("ann", {"priority": 0})
    assert _changes(dropped) == {
        "resolved": (False, True), "status": ("ACTIVE", "WILL_NOT_IMPLEMENT"), "properties": (taken, free),
    }  # fmt: skip
    assert (advanced["action"], _changes(advanced)["status"]) == ("updated", ("NEW", "ACTIVE"))
    assert _changes(updated) == {"title": ("Form", "Card form"), "complexity": (3, 5)}
    assert (created["action"], _changes(created)) == (
        "created",
        {
            "summary": (None, "Build Form"), "parent": (None, feature["id"]), "properties": (None, {"priority": 0}),
            "title": (None, "Form"), "status": (None, "NEW"), "complexity": (None, 3), "tags": (None, ["ui"]),
        },
    )  # fmt: skip
    rolled_up = crew.beside("graph_history", node_id=feature["id"])["events"][0]
    assert (rolled_up["action"], rolled_up["reason"]) == ("dropped", "nobody pays by card")


def _changes(event: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {change["field"]: (change["before"], change["after"]) for change in event["changes"]}


def test_sections_go_with_a_task_that_is_merged(crew: Crew) -> None:
    project = crew.project()["id"]
    feature = crew.feature(projectId=project)
    first, second, other = (crew.task(title, projectId=project) for title in ("First", "Second", "Other"))
    crew.section(first, "Context Files", "src/a.ts")
    crew.section(first, "Notes")
    crew.section(second, "Plan")
    merges = [
        {"op": "merge", "source": first["id"], "target": second["id"]},
        {"op": "merge", "source": second["id"], "target": feature["id"]},
    ]
    told = crew.beside("graph_restructure", operations=merges)
    assert [each["result"] for each in told["details"]] == [
        f"absorbed {first['id']} with 2 sections",
        f"absorbed {second['id']} with 3 sections",
    ]
    sections = crew.sections(feature)
    assert [(each["title"], each["ordinal"], each["entityType"]) for each in sections] == [
        ("Plan", 0, "FEATURE"), ("Context Files", 1, "FEATURE"), ("Notes", 2, "FEATURE"),
    ]  # fmt: skip
    assert crew.sections(feature)[1]["content"] == "src/a.ts"
    crew.section(other, "Mine")
    crew.beside("graph_restructure", operations=[{"op": "merge", "source": other["id"], "target": feature["id"]}])
    assert [each["title"] for each in crew.sections(feature)] == ["Plan", "Context Files", "Notes", "Mine"]
