"""Tasks and work are the same entities, told in two vocabularies."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec
import pytest

from tallystick.extensions.tasks.cards import TaskCards
from tallystick.log import Head
from tallystick.policy import Decision, Request
from tallystick.state.state import State
from tallystick.state.work.sections import Sections
from tests.extensions.tasks.agents import Said, TasksAgent, gathered
from tests.promises import promise


def planned(agent: TasksAgent, *nodes: Said) -> dict[str, str]:
    told = agent.beside("graph_plan", nodes=[{"summary": node["ref"], **node} for node in nodes])
    return {each["ref"]: each["id"] for each in told["created"]}


def actionable(agent: TasksAgent, project: str = "Shop") -> list[str]:
    return [each["node"]["id"] for each in agent.beside("graph_next", project=project, count=50)["nodes"]]


def update(agent: TasksAgent, node_id: str, **changes: Any) -> Said:
    return agent.beside("graph_update", updates=[{"node_id": node_id, **changes}])


@promise("tasks, handed out", "a task made here is handed out by graph_next")
def test_a_task_made_here_is_handed_out_by_work_the_urgent_first(agent: TasksAgent) -> None:
    project = agent.project()
    low, high = (agent.task(each, projectId=project["id"], priority=each) for each in ("LOW", "HIGH"))
    assert actionable(agent) == [high["id"], low["id"]]
    agent.close(high)
    assert actionable(agent) == [low["id"]]


@promise("tasks, planned", "a planned node can be advanced here")
def test_a_planned_node_is_a_task_and_can_be_advanced(agent: TasksAgent) -> None:
    project = agent.project()
    ids = planned(agent, {"ref": "plan", "properties": {"priority": 3}}, {"ref": "later", "depends_on": ["plan"]})
    task = agent.get(ids["plan"])
    assert (task["title"], task["status"], task["priority"], task["complexity"], task["projectId"]) == (
        "plan", "NEW", "HIGH", 5, project["id"],
    )  # fmt: skip
    assert agent.get(ids["later"])["blockedBy"] == [ids["plan"]]
    data = agent.close(ids["plan"])
    assert data["unblockedEntities"] == [{"id": ids["later"], "type": "task"}]
    node = agent.node(ids["plan"])
    assert (node["resolved"], node["rev"], node["evidence"]) == (True, 3, [])
    assert actionable(agent) == [ids["later"]]


@promise("X4", "blockedBy is depends_on read backwards")
def test_blocked_by_is_depends_on_read_backwards(agent: TasksAgent) -> None:
    project = agent.project()
    one, two = agent.task("1", projectId=project["id"]), agent.task("2", projectId=project["id"])
    agent.step("block", two, blockedBy=[one["id"]])
    context = agent.beside("graph_context", node_id=two["id"])
    assert [each["node"]["id"] for each in context["depends_on"]] == [one["id"]]
    edge = {"from": two["id"], "to": one["id"], "type": "depends_on"}
    agent.beside("graph_connect", edges=[edge | {"remove": True}])
    assert agent.get(two)["blockedBy"] == []
    agent.beside("graph_connect", edges=[{"from": one["id"], "to": two["id"], "type": "depends_on"}])
    assert agent.get(one)["blockedBy"] == [two["id"]]


def test_what_work_resolves_is_closed_here_and_what_it_takes_back_is_new(agent: TasksAgent) -> None:
    project = agent.project()
    one, two = agent.task("1", projectId=project["id"]), agent.task("2", projectId=project["id"])
    agent.step("block", two, blockedBy=[one["id"]], blockedReason="order")
    update(agent, one["id"], resolved=True, add_evidence=[{"type": "note", "ref": "done"}])
    assert agent.get(one)["status"] == "CLOSED"
    assert (agent.get(two)["blockedBy"], agent.get(two)["blockedReason"]) == ([], None)
    update(agent, one["id"], resolved=False)
    assert agent.get(one)["status"] == "NEW"
    assert agent.get(two)["blockedBy"] == [one["id"]]


def waiting(agent: TasksAgent) -> tuple[Said, Said]:
    """Return a task and another one that waits for it."""
    project = agent.project()
    one, two = agent.task("1", projectId=project["id"]), agent.task("2", projectId=project["id"])
    agent.step("block", two, blockedBy=[one["id"]])
    return one, two


def drop(agent: TasksAgent, task: Said) -> Said:
    operation = {"op": "drop", "node_id": task["id"], "reason": "no need"}
    return agent.beside("graph_restructure", operations=[operation])


@promise("tasks, given up", "terminate blocks here and in work")
def test_a_terminated_task_blocks_its_dependents_in_both_until_they_are_unblocked(agent: TasksAgent) -> None:
    one, two = waiting(agent)
    agent.step("terminate", one)
    assert agent.get(two)["blockedBy"] == [one["id"]]
    assert actionable(agent) == []
    query = {"project": "Shop", "filter": {"is_blocked": True}}
    assert [each["id"] for each in agent.beside("graph_query", **query)["nodes"]] == [two["id"]]
    agent.step("unblock", two, blockedBy=[one["id"]])
    assert actionable(agent) == [two["id"]]
    agent.step("advance", two)


def test_a_dropped_task_unblocks_its_dependents_in_both(agent: TasksAgent) -> None:
    """work-graph.md: a drop may unblock other nodes, reported in `newly_actionable` (W21)."""
    one, two = waiting(agent)
    assert [each["id"] for each in drop(agent, one)["newly_actionable"]] == [two["id"]]
    update(agent, one["id"], add_evidence=[{"type": "note", "ref": "as was said"}])
    assert agent.get(two)["blockedBy"] == []
    assert actionable(agent) == [two["id"]]
    agent.step("advance", two)


def test_the_newest_end_of_a_task_decides_whether_it_blocks(agent: TasksAgent) -> None:
    one, two = waiting(agent)
    for _ in range(2):
        agent.step("terminate", one)
        assert (agent.get(two)["blockedBy"], actionable(agent)) == ([one["id"]], [])
        update(agent, one["id"], resolved=False)
        drop(agent, one)
        assert (agent.get(two)["blockedBy"], actionable(agent)) == ([], [two["id"]])
        update(agent, one["id"], resolved=False)


def test_a_feature_of_which_every_task_was_terminated_blocks_its_dependents_in_both(agent: TasksAgent) -> None:
    project = agent.project()
    feature = agent.feature(projectId=project["id"])
    task, later = agent.task("1", featureId=feature["id"]), agent.task("2", projectId=project["id"])
    agent.step("block", later, blockedBy=[feature["id"]])
    agent.step("terminate", task)
    assert agent.get(later)["blockedBy"] == [feature["id"]]
    assert actionable(agent) == []


@pytest.mark.parametrize("is_hidden", [False, True])
def test_a_terminated_task_that_may_not_be_read_blocks_in_neither(is_hidden: bool) -> None:
    hidden: set[str] = set()

    class Narrow:
        def decide(self, request: Request) -> Decision:
            return Decision(request.resource not in hidden, "", "narrow@1")

    with gathered(policy=Narrow()) as agent:
        one, two = waiting(agent)
        other = agent.task("other", projectId=one["projectId"])
        agent.step("terminate", one)
        hidden |= {other["id"], *([one["id"]] if is_hidden else [])}
        assert actionable(agent) == ([two["id"]] if is_hidden else [])
        assert agent.get(two)["blockedBy"] == ([] if is_hidden else [one["id"]])


@promise("X6", "the version is the revision")
def test_the_version_is_the_revision(agent: TasksAgent) -> None:
    task = agent.task(projectId=agent.project()["id"])
    update(agent, task["id"], summary="Other words", properties={"priority": -2})
    seen = agent.get(task)
    assert (seen["version"], seen["summary"], seen["title"], seen["priority"]) == (2, "Other words", "Form", "LOW")
    assert agent.refusal("advance", containerType="task", id=task["id"], version=1)["code"] == "CONFLICT"
    agent.step("advance", task)
    assert agent.node(task["id"])["rev"] == 3


def test_evidence_and_properties_outlive_a_step(agent: TasksAgent) -> None:
    task = agent.task(projectId=agent.project()["id"])
    update(agent, task["id"], add_evidence=[{"type": "git", "ref": "abc"}], properties={"colour": "red"})
    before = agent.node(task["id"])
    agent.close(task)
    after = agent.node(task["id"])
    assert (after["evidence"], after["properties"]) == (before["evidence"], before["properties"])


@promise("X2, tasks", "a project of either toolset is one of the other")
def test_a_project_opened_by_work_takes_features_and_its_root_is_no_task(agent: TasksAgent) -> None:
    opened = agent.beside("graph_open", project="Bridge", goal="Cross the brook")
    found = agent.data("query_container", operation="search", containerType="project")["items"]
    assert [(each["name"], each["summary"]) for each in found] == [("Bridge", "Cross the brook")]
    feature = agent.feature(projectId=found[0]["id"])
    assert agent.node(feature["id"])["parent"] == opened["root"]["id"]
    assert agent.data("query_container", operation="search", containerType="task")["items"] == []
    root = opened["root"]["id"]
    assert agent.refusal("query_container", operation="get", containerType="task", id=root)["code"] == "NOT_FOUND"


@pytest.mark.parametrize("of", ["name", "root"])
def test_project_id_may_be_the_name_or_the_root_that_graph_open_told(agent: TasksAgent, of: str) -> None:
    root = agent.beside("graph_open", project="Bridge", goal="Cross the brook")["root"]["id"]
    known_by = {"name": "Bridge", "root": root}[of]
    task = agent.task(projectId=known_by)
    feature = agent.feature(projectId=known_by)
    assert agent.data("get_next_task", projectId=known_by)["task"]["id"] == task["id"]
    assert agent.data("get_next_feature", projectId=known_by)["feature"]["id"] == feature["id"]
    for each in (task, feature):
        agent.step("block", each, blockedBy="NO_OP", blockedReason="flood")
    assert agent.data("get_blocked_tasks", projectId=known_by)["count"] == 1
    assert agent.data("get_blocked_features", projectId=known_by)["count"] == 1
    found = agent.data("query_container", operation="search", containerType="task", projectId=known_by)
    assert [each["id"] for each in found["items"]] == [task["id"]]


def test_a_project_asked_for_by_its_name_is_answered_with_its_id(agent: TasksAgent) -> None:
    project = agent.project("Bridge")
    refusal = agent.refusal("query_container", operation="get", containerType="project", id="bridge")
    assert refusal["details"]["hint"] == f"its id is {project['id']}"


def test_what_is_not_there_is_answered_with_the_call_that_lists_what_is(agent: TasksAgent) -> None:
    assert agent.refusal("get_next_task", projectId="Brigde")["details"]["hint"] == (
        "query_container search lists every project"
    )


def test_a_task_below_a_task_belongs_to_the_feature_above_both(agent: TasksAgent) -> None:
    feature = agent.feature(projectId=agent.project()["id"])
    task = agent.task(featureId=feature["id"])
    ids = planned(agent, {"ref": "part", "parent_ref": task["id"]})
    assert agent.get(ids["part"])["featureId"] == feature["id"]
    assert "featureTransition" not in agent.close(task)
    assert agent.close(ids["part"])["featureTransition"]["to"] == "CLOSED"
    call = {"operation": "delete", "containerType": "task", "id": task["id"]}
    assert agent.refusal("manage_container", **call)["message"] == (
        "Cannot delete task: contains 1 task. Use cascade: true to delete all."
    )


def test_a_node_merged_away_leaves_its_blocks_to_the_other(agent: TasksAgent) -> None:
    project = agent.project()
    one, two, after = (agent.task(each, projectId=project["id"]) for each in ("1", "2", "after"))
    agent.step("block", after, blockedBy=[one["id"]])
    agent.beside("graph_restructure", operations=[{"op": "merge", "source": one["id"], "target": two["id"]}])
    assert agent.get(after)["blockedBy"] == [two["id"]]


def test_memory_does_not_write_what_belongs_to_tasks(agent: TasksAgent) -> None:
    node = {"id": "x", "type": "tasks/section", "attrs": {}}
    refusal = agent.refusal("memory.write", op="UPSERT_NODE", node=node)
    assert refusal["code"] == "RESERVED_TYPE"


@promise("graph_next, tasks", "work hands out a task with its title, description and sections")
def test_work_hands_out_a_task_with_its_texts(agent: TasksAgent) -> None:
    task = agent.task(projectId=agent.project()["id"], description="Three fields, one button")
    plan = agent.section(task, "Implementation Plan", "First the form")
    notes = agent.section(task, "Notes", "words")
    texts = {
        "title": "Form",
        "description": "Three fields, one button",
        "sections": [
            {"id": plan["id"], "title": "Implementation Plan", "content": "First the form"},
            {"id": notes["id"], "title": "Notes", "content": "words"},
        ],
    }
    for claim in (False, True):
        (given,) = agent.beside("graph_next", project="Shop", claim=claim)["nodes"]
        assert (given["node"]["id"], given["task"]) == (task["id"], texts)
    assert agent.beside("graph_context", node_id=task["id"])["task"] == texts


def test_a_node_that_was_planned_as_work_has_texts_only_when_sections_were_added(agent: TasksAgent) -> None:
    agent.project()
    node = planned(agent, {"ref": "plan"})["plan"]
    assert "task" not in agent.beside("graph_context", node_id=node)
    section = agent.section(agent.get(node), "Notes", "words")
    sections = [{"id": section["id"], "title": "Notes", "content": "words"}]
    assert agent.beside("graph_context", node_id=node)["task"] == {"sections": sections}


def test_a_section_that_may_not_be_read_is_not_shown_nor_are_its_files_known() -> None:
    class Secretive:
        """What eve made is hers alone."""

        def decide(self, request: Request) -> Decision:
            allowed = request.resource_owner != "eve" or request.principal.actor == "eve"
            return Decision(allowed, "by the rule", "1")

    with gathered(policy=Secretive()) as agent:
        project = agent.project()
        task = agent.task(projectId=project["id"])
        agent.beside(
            "manage_graph", operation="create", entityType="atom", projectId=project["id"], name="Pay",
            paths=["src/pay/**"], createdByTaskId=task["id"],
        )  # fmt: skip
        agent.me = "eve"
        agent.section(task, "Context Files", "src/pay/card.ts")
        seen = {}
        for agent.me in ("eve", "ann"):
            (given,) = agent.beside("graph_next", project="Shop")["nodes"]
            assert agent.beside("graph_context", node_id=task["id"])["task"] == given["task"]
            seen[agent.me] = "sections" in given["task"], "knowledge" in given
        assert seen == {"eve": (True, True), "ann": (False, False)}


def test_the_texts_of_a_task_are_cut_to_what_fits(agent: TasksAgent) -> None:
    task = agent.task(projectId=agent.project()["id"], description="é" * 4_000)
    for number in range(3):
        agent.section(task, f"{number}", "é" * 3_000)
    (given,) = agent.beside("graph_next", project="Shop")["nodes"]
    told = given["task"]
    assert (told["description_truncated"], len(told["description"].encode()) <= 2_100) == (True, True)
    assert [section.get("content_truncated", False) for section in told["sections"]] == [False, True, True]
    for number in range(3, 150):
        agent.section(task, f"{number} " + "t" * 200, "more")
    (given,) = agent.beside("graph_next", project="Shop")["nodes"]
    assert len(given["task"]["sections"]) + given["task"]["sections_omitted"] == 150
    assert len(msgspec.json.encode(given["task"])) < 20_000


@promise("graph_next, context files", "work knows the context files of a task")
def test_work_knows_the_context_files_of_a_task(agent: TasksAgent) -> None:
    project = agent.project()
    task = agent.task(projectId=project["id"])
    for name, path in (("Pay", "src/pay/**"), ("Docs", "docs/**"), ("Other", "other/**")):
        agent.beside(
            "manage_graph", operation="create", entityType="atom", projectId=project["id"], name=name, paths=[path],
            knowledge="Handlers are idempotent", createdByTaskId=task["id"],
        )  # fmt: skip
    agent.section(task, "Context Files", "- src/pay/card.ts — calls `charge()` of other/x.ts\n- `docs/`")
    (given,) = agent.beside("graph_next", project="Shop")["nodes"]
    found = given["knowledge"]["orphanAtoms"]
    assert [(atom["name"], atom["matchedPaths"]) for atom in found] == [
        ("Docs", ["docs/"]),
        ("Pay", ["src/pay/card.ts"]),
    ]
    assert agent.beside("graph_context", node_id=task["id"])["knowledge"] == given["knowledge"]


@promise("tasks, replay", "cards kept up to date equal cards built anew")
@pytest.mark.parametrize("kind", [TaskCards, Sections])
def test_what_is_built_anew_is_what_was_kept(agent: TasksAgent, kind: type[TaskCards] | type[Sections]) -> None:
    project = agent.project(tags="x")
    feature = agent.feature(projectId=project["id"])
    task, gone = agent.task(featureId=feature["id"], tags="a"), agent.task("gone", tags="b")
    agent.derived(kind)
    agent.section(task)
    agent.section(gone)
    agent.step("advance", task)
    agent.update(project, name="Store")
    agent.data("manage_template", operation="create", name="T", description="d", targetEntityType="TASK")
    agent.data("manage_container", operation="delete", containerType="task", id=gone["id"], cascade=True)
    kept = agent.derived(kind)
    state = State(agent.log.line)
    empty = _contents(state.derived(kind))
    for entry in agent.log.read(Head()):
        state.apply(entry.commit, entry.offset)
    followed = state.derived(kind)
    assert empty != _contents(followed) == _contents(kept)
    half = state.count // 2
    state.undo(state.count - half)
    back = _contents(state.derived(kind))
    again = State(agent.log.line)
    for entry in list(agent.log.read(Head()))[:half]:
        again.apply(entry.commit, entry.offset)
    assert back == _contents(again.derived(kind))


def _contents(derived: TaskCards | Sections) -> dict[str, Any]:
    return {name: list(value) if name == "fresh" else value for name, value in deepcopy(vars(derived)).items()}


@promise("graph_history, tasks", "title, status and why a task was given up are told")
def test_the_history_of_a_task_tells_title_status_and_why_it_was_given_up(agent: TasksAgent) -> None:
    feature = agent.feature(projectId=agent.project()["id"])
    task = agent.task("Form", featureId=feature["id"], tags="ui")
    agent.update(task, title="Card form", complexity=5)
    agent.step("advance", task)
    agent.step("terminate", task, reason="nobody pays by card")
    dropped, advanced, updated, created = agent.beside("graph_history", node_id=task["id"])["events"]
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
    rolled_up = agent.beside("graph_history", node_id=feature["id"])["events"][0]
    assert (rolled_up["action"], rolled_up["reason"]) == ("dropped", "nobody pays by card")


def _changes(event: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {change["field"]: (change["before"], change["after"]) for change in event["changes"]}


@promise("W43, sections", "the sections of a task go with it where it is merged")
def test_sections_go_with_a_task_that_is_merged(agent: TasksAgent) -> None:
    project = agent.project()["id"]
    feature = agent.feature(projectId=project)
    first, second, other = (agent.task(title, projectId=project) for title in ("First", "Second", "Other"))
    agent.section(first, "Context Files", "src/a.ts")
    agent.section(first, "Notes")
    agent.section(second, "Plan")
    merges = [
        {"op": "merge", "source": first["id"], "target": second["id"]},
        {"op": "merge", "source": second["id"], "target": feature["id"]},
    ]
    told = agent.beside("graph_restructure", operations=merges)
    assert [each["result"] for each in told["details"]] == [
        f"absorbed {first['id']} with 2 sections",
        f"absorbed {second['id']} with 3 sections",
    ]
    sections = agent.sections(feature)
    assert [(each["title"], each["ordinal"], each["entityType"]) for each in sections] == [
        ("Plan", 0, "FEATURE"), ("Context Files", 1, "FEATURE"), ("Notes", 2, "FEATURE"),
    ]  # fmt: skip
    assert agent.sections(feature)[1]["content"] == "src/a.ts"
    agent.section(other, "Mine")
    agent.beside("graph_restructure", operations=[{"op": "merge", "source": other["id"], "target": feature["id"]}])
    assert [each["title"] for each in agent.sections(feature)] == ["Plan", "Context Files", "Notes", "Mine"]


@promise("evidence, demanded of tasks", "a task is not closed without the evidence that it demands")
def test_a_task_is_not_closed_without_the_evidence_that_it_demands(agent: TasksAgent) -> None:
    agent.project()
    node = planned(agent, {"ref": "plan", "properties": {"require_evidence": ["git"]}})["plan"]
    agent.step("advance", node)
    told = agent.refusal("advance", containerType="task", id=node, version=agent.get(node)["version"])
    assert (told["code"], told["details"]["missing"]) == ("EVIDENCE_MISSING", ["git"])
    update(agent, node, add_evidence=[{"type": "git", "ref": "4f2c1aa"}])
    agent.close(node)
    assert agent.node(node)["resolved"] is True


def test_a_feature_that_demands_evidence_is_not_closed_by_its_last_task(agent: TasksAgent) -> None:
    project = agent.project()
    feature = agent.feature(projectId=project["id"])
    task = agent.task(featureId=feature["id"])
    update(agent, task["id"], add_evidence=[{"type": "git", "ref": "4f2c1aa"}])
    update(agent, feature["id"], properties={"require_evidence": ["git"]})
    agent.close(task["id"])
    assert agent.node(task["id"])["resolved"] is True
    assert agent.node(feature["id"])["resolved"] is False


def test_what_is_held_up_with_a_reason_is_not_handed_out_until_it_is_unblocked(agent: TasksAgent) -> None:
    project = agent.project()
    held, free = (agent.task(each, projectId=project["id"]) for each in ("held", "free"))
    agent.step("block", held, blockedBy="NO_OP", blockedReason="flood")
    assert actionable(agent) == [free["id"]]
    onboard = agent.beside("graph_onboard", project="Shop")
    assert [each["id"] for each in onboard["actionable"]] == [free["id"]]
    assert (onboard["summary"]["actionable"], onboard["summary"]["blocked"]) == (1, 1)
    query = {"project": "Shop", "filter": {"is_blocked": True}}
    assert [each["id"] for each in agent.beside("graph_query", **query)["nodes"]] == [held["id"]]
    agent.step("unblock", agent.get(held["id"]), blockedBy="NO_OP")
    assert sorted(actionable(agent)) == sorted([held["id"], free["id"]])


def test_what_waits_for_a_node_and_is_held_up_does_not_become_actionable(agent: TasksAgent) -> None:
    agent.project()
    ids = planned(agent, {"ref": "first"}, {"ref": "then", "depends_on": ["first"]})
    agent.step("block", agent.get(ids["then"]), blockedBy="NO_OP", blockedReason="flood")
    assert update(agent, ids["first"], resolved=True)["newly_actionable"] == []
    assert actionable(agent) == []


@pytest.mark.parametrize("allowed", [True, False])
def test_what_is_held_up_is_not_handed_out_to_who_may_not_read_everything(allowed: bool) -> None:
    hidden: set[str] = set()

    class Narrow:
        def decide(self, request: Request) -> Decision:
            return Decision(request.resource not in hidden, "", "narrow@1")

    with gathered(policy=Narrow()) as agent:
        project = agent.project()
        held = agent.task("held", projectId=project["id"])
        other = agent.task("other", projectId=project["id"])
        agent.step("block", held, blockedBy="NO_OP", blockedReason="flood")
        hidden |= set() if allowed else {other["id"]}
        assert actionable(agent) == ([other["id"]] if allowed else [])
