"""graph_restructure: move, merge and drop."""

from __future__ import annotations

from typing import Any

import pytest

from tests.promises import promise
from tests.toolsets.work.agents import WorkAgent, summaries


@pytest.fixture
def ids(agent: WorkAgent) -> dict[str, str]:
    """a(b(c)) d."""
    return agent.plan({"ref": "a"}, {"ref": "b", "parent_ref": "a"}, {"ref": "c", "parent_ref": "b"}, {"ref": "d"})


def waits_of(agent: WorkAgent, node_id: str) -> list[str]:
    return [each["node"]["summary"] for each in agent.call("graph_context", node_id=node_id)["depends_on"]]


def children_of(agent: WorkAgent, node_id: str) -> list[str]:
    return summaries(agent.call("graph_context", node_id=node_id, depth=1)["children"].get("children", []))


# -- move


@promise("graph_restructure, move", "a move takes the subtree along and keeps edges")
def test_a_move_takes_the_subtree_along_with_its_depths_and_keeps_edges(agent: WorkAgent, ids: dict[str, str]) -> None:
    agent.connect(ids["c"], ids["d"])
    told = agent.restructure("move", node_id=ids["b"], new_parent=ids["d"])
    assert told["applied"] == 1
    assert told["details"] == [{"op": "move", "node_id": ids["b"], "result": f"moved under {ids['d']}"}]
    assert summaries(told["newly_actionable"]) == ["a"]
    assert [(node["summary"], node["depth"]) for node in agent.query(sort="depth")["nodes"]] == [
        ("Ship it", 0),
        ("a", 1),
        ("d", 1),
        ("b", 2),
        ("c", 3),
    ]
    assert waits_of(agent, ids["c"]) == ["d"]
    agent.restructure("move", node_id=ids["b"], new_parent=agent.open())
    assert {node["summary"]: node["depth"] for node in agent.query()["nodes"]}["c"] == 2


def test_a_move_is_a_revision_of_the_moved_node_alone(agent: WorkAgent, ids: dict[str, str]) -> None:
    agent.restructure("move", node_id=ids["b"], new_parent=ids["d"])
    assert [agent.node(ids[ref])["rev"] for ref in "abcd"] == [1, 2, 1, 1]


def test_moving_to_where_it_is_changes_nothing(agent: WorkAgent, ids: dict[str, str]) -> None:
    before = agent.log.head()
    told = agent.restructure("move", node_id=ids["b"], new_parent=ids["a"])
    assert told["details"][0]["result"] == f"was under {ids['a']} already"
    assert agent.log.head() == before


@promise("W42", "a node cannot be moved under itself or what is below it")
def test_a_node_cannot_be_moved_under_itself_or_what_is_below_it(agent: WorkAgent, ids: dict[str, str]) -> None:
    a, b, c = ids["a"], ids["b"], ids["c"]
    for target, path in ((a, [a, a]), (b, [a, b, a]), (c, [a, b, c, a])):
        told = agent.refusal("graph_restructure", operations=[{"op": "move", "node_id": a, "new_parent": target}])
        assert (told["error"], told["cycle"]) == ("cycle_detected", path)
        assert told["message"] == f"Parent cycle detected: {' -> '.join(path)}"


def test_moving_open_work_under_a_resolved_node_is_told(agent: WorkAgent, ids: dict[str, str]) -> None:
    agent.resolve(ids["d"])
    told = agent.restructure("move", node_id=ids["b"], new_parent=ids["d"])
    assert told["warnings"] == [f"'{ids['d']}' is resolved and stays so, with open nodes under it"]


# -- merge


@promise("graph_restructure, merge", "a merge hands over children, evidence and edges")
def test_a_merge_hands_over_children_evidence_and_edges_and_deletes_the_source(agent: WorkAgent) -> None:
    ids = agent.plan(
        {"ref": "source", "depends_on": ["first"], "context_links": ["lost.md"], "properties": {"lost": 1}},
        {"ref": "child", "parent_ref": "source"},
        {"ref": "target", "context_links": ["kept.md"]},
        {"ref": "first"},
        {"ref": "later", "depends_on": ["source"]},
        {"ref": "friend"},
    )
    agent.connect(ids["source"], ids["friend"], "relates_to")
    agent.connect(ids["friend"], ids["source"], "inspired")
    for ref in ("target", "source"):
        agent.update(ids[ref], add_evidence=[{"type": "note", "ref": f"of {ref}"}])
    told = agent.restructure("merge", source=ids["source"], target=ids["target"])
    assert told["details"] == [{"op": "merge", "node_id": ids["target"], "result": f"absorbed {ids['source']}"}]
    around = agent.call("graph_context", node_id=ids["target"])
    assert summaries(around["children"]["children"]) == ["child"]
    assert [each["ref"] for each in around["node"]["evidence"]] == ["of target", "of source"]
    assert around["node"]["context_links"] == ["kept.md"]
    assert around["node"]["properties"] == {}
    assert waits_of(agent, ids["target"]) == ["first"]
    assert waits_of(agent, ids["later"]) == ["target"]
    assert [(edge["from"], edge["type"], edge["to"]) for edge in around["edges"]] == [
        (ids["target"], "relates_to", ids["friend"]),
        (ids["friend"], "inspired", ids["target"]),
    ]
    gone = agent.refusal("graph_context", node_id=ids["source"])
    assert (gone["error"], gone["merged_into"]) == ("node_not_found", ids["target"])


def test_a_merge_is_a_revision_of_the_target_and_of_each_child(agent: WorkAgent, ids: dict[str, str]) -> None:
    agent.restructure("merge", source=ids["b"], target=ids["d"])
    assert [agent.node(ids[ref])["rev"] for ref in "acd"] == [1, 2, 2]


@promise("W43", "a merge drops edges between the two and keeps shared ones once")
def test_a_merge_drops_edges_between_the_two_and_keeps_shared_ones_once(agent: WorkAgent) -> None:
    ids = agent.plan(
        {"ref": "base"},
        {"ref": "target", "depends_on": ["base"]},
        {"ref": "source", "depends_on": ["base", "target"]},
        {"ref": "shared", "depends_on": ["source", "target"]},
    )
    agent.restructure("merge", source=ids["source"], target=ids["target"])
    assert waits_of(agent, ids["target"]) == ["base"]
    assert waits_of(agent, ids["shared"]) == ["target"]
    assert agent.events(ids["shared"])[0]["action"] == "edge_removed", "none was added again"
    assert agent.counts() == {"total": 4, "resolved": 0, "unresolved": 4, "blocked": 2, "actionable": 1}


def test_a_merge_may_set_others_free(agent: WorkAgent) -> None:
    ids = agent.plan({"ref": "done"}, {"ref": "open"}, {"ref": "waiting", "depends_on": ["open"]})
    agent.resolve(ids["done"])
    told = agent.restructure("merge", source=ids["open"], target=ids["done"])
    assert summaries(told["newly_actionable"]) == ["waiting"]


@promise("W43, cycle", "a merge that would close a cycle is refused")
def test_a_merge_that_would_close_a_cycle_is_refused_with_its_path(agent: WorkAgent) -> None:
    ids = agent.plan({"ref": "a"}, {"ref": "b", "depends_on": ["a"]}, {"ref": "c", "depends_on": ["b"]})
    merge = {"op": "merge", "source": ids["c"], "target": ids["a"]}
    told = agent.refusal("graph_restructure", operations=[merge])
    assert (told["error"], told["cycle"]) == ("cycle_detected", [ids["a"], ids["b"], ids["a"]])


def test_a_target_below_the_source_is_refused(agent: WorkAgent, ids: dict[str, str]) -> None:
    merge = {"op": "merge", "source": ids["a"], "target": ids["c"]}
    told = agent.refusal("graph_restructure", operations=[merge])
    assert (told["error"], told["cycle"]) == ("cycle_detected", [ids["a"], ids["b"], ids["c"], ids["a"]])


def test_a_source_below_the_target_is_absorbed_with_its_children(agent: WorkAgent, ids: dict[str, str]) -> None:
    agent.restructure("merge", source=ids["b"], target=ids["a"])
    assert children_of(agent, ids["a"]) == ["c"]


def test_a_resolved_target_stays_resolved_and_that_is_told(agent: WorkAgent, ids: dict[str, str]) -> None:
    agent.resolve(ids["d"])
    told = agent.restructure("merge", source=ids["b"], target=ids["d"])
    assert told["warnings"] == [f"'{ids['d']}' is resolved and stays so, with open nodes under it"]
    assert agent.node(ids["d"])["resolved"] is True


def test_what_was_merged_can_be_merged_again_in_the_same_call(agent: WorkAgent) -> None:
    ids = agent.plan({"ref": "x"}, {"ref": "a", "depends_on": ["x"]}, {"ref": "b"}, {"ref": "c"})
    operations = [
        {"op": "merge", "source": ids["a"], "target": ids["b"]},
        {"op": "merge", "source": ids["b"], "target": ids["c"]},
    ]
    agent.call("graph_restructure", operations=operations)
    assert waits_of(agent, ids["c"]) == ["x"]


# -- drop


@promise("graph_restructure, drop", "a drop resolves the subtree with its reason as evidence")
def test_a_drop_resolves_the_whole_subtree_with_the_reason_as_evidence(agent: WorkAgent, ids: dict[str, str]) -> None:
    told = agent.restructure("drop", node_id=ids["a"], reason="not wanted any more")
    assert told["details"] == [{"op": "drop", "node_id": ids["a"], "result": "dropped 3 nodes"}]
    for ref in "abc":
        node = agent.node(ids[ref])
        assert (node["resolved"], node["rev"]) == (True, 2)
        (evidence,) = node["evidence"]
        assert (evidence["type"], evidence["ref"], evidence["agent"]) == ("dropped", "not wanted any more", "ann")
    assert agent.node(ids["d"])["resolved"] is False


@promise("W44", "what was resolved before a drop is left as it was")
def test_what_was_resolved_before_is_left_as_it_was(agent: WorkAgent, ids: dict[str, str]) -> None:
    agent.resolve(ids["b"])
    before = agent.node(ids["b"])
    told = agent.restructure("drop", node_id=ids["a"], reason="no")
    assert told["details"][0]["result"] == "dropped 2 nodes"
    assert agent.node(ids["b"]) == before
    again = agent.restructure("drop", node_id=ids["a"], reason="no")
    assert (again["details"][0]["result"], again["newly_actionable"]) == ("was resolved already", [])


def test_a_drop_tells_what_it_sets_free(agent: WorkAgent, ids: dict[str, str]) -> None:
    waiting = agent.plan({"ref": "waiting", "depends_on": [ids["a"], ids["c"]]})["waiting"]
    told = agent.restructure("drop", node_id=ids["a"], reason="no")
    assert told["newly_actionable"] == [{"id": waiting, "summary": "waiting"}]


def test_a_whole_project_can_be_dropped(agent: WorkAgent, ids: dict[str, str]) -> None:
    agent.restructure("drop", node_id=agent.open(), reason="bankrupt")
    assert agent.counts()["unresolved"] == 0


# -- all or nothing


def test_operations_are_applied_in_order_each_where_the_earlier_lead(agent: WorkAgent, ids: dict[str, str]) -> None:
    """a and b change places: neither move is possible the other way round."""
    operations = [
        {"op": "move", "node_id": ids["b"], "new_parent": agent.open()},
        {"op": "move", "node_id": ids["a"], "new_parent": ids["b"]},
        {"op": "drop", "node_id": ids["c"], "reason": "no"},
    ]
    told = agent.call("graph_restructure", operations=operations)
    assert (told["applied"], len(told["details"])) == (3, 3)
    assert children_of(agent, ids["b"]) == ["a", "c"]


@promise("W41", "one impossible operation leaves everything as it was")
def test_one_impossible_operation_leaves_everything_as_it_was(agent: WorkAgent, ids: dict[str, str]) -> None:
    operations = [
        {"op": "drop", "node_id": ids["d"], "reason": "no"},
        {"op": "merge", "source": ids["b"], "target": ids["d"]},
        {"op": "move", "node_id": "nobody", "new_parent": ids["a"]},
    ]
    told = agent.refusal("graph_restructure", operations=operations)
    assert (told["error"], told["operation"]) == ("node_not_found", 2)
    assert agent.counts() == {"total": 5, "resolved": 0, "unresolved": 5, "blocked": 0, "actionable": 2}
    assert agent.next(count=9) == ["c", "d"]


def test_other_projects_are_out_of_reach(agent: WorkAgent, ids: dict[str, str]) -> None:
    other = agent.open("q")
    for operation in (
        {"op": "move", "node_id": ids["b"], "new_parent": other},
        {"op": "merge", "source": ids["b"], "target": other},
    ):
        assert agent.refusal("graph_restructure", operations=[operation])["error"] == "cross_project"


@promise("W42, root", "the root stays where it is")
def test_the_root_stays_where_it_is(agent: WorkAgent, ids: dict[str, str]) -> None:
    root = agent.open()
    for operation in (
        {"op": "move", "node_id": root, "new_parent": ids["a"]},
        {"op": "merge", "source": root, "target": ids["a"]},
        {"op": "merge", "source": ids["a"], "target": ids["a"]},
    ):
        assert agent.refusal("graph_restructure", operations=[operation])["error"] == "validation_error"


MISTAKES: list[tuple[list[dict[str, Any]], str]] = [
    ([], "field 'operations' must have at least 1 item, not 0"),
    ([{"op": "copy"}], "field 'operations[0].op' must be 'move', 'merge' or 'drop'"),
    ([{"op": "drop", "node_id": "a"}], "field 'operations[0].reason' is required by drop"),
    (
        [{"op": "drop", "node_id": "a", "reason": ""}],
        "field 'operations[0].reason' must not be blank",
    ),
    ([{"op": "drop", "node_id": "a", "reason": " "}], "field 'operations[0].reason' must not be blank"),
    ([{"op": "move", "node_id": "a"}], "field 'operations[0].new_parent' is required by move"),
    ([{"op": "merge", "source": "a"}], "field 'operations[0].target' is required by merge"),
    (
        [{"op": "drop", "node_id": "a", "reason": "r", "target": "b"}],
        "field 'operations[0].target' does not belong to drop; field 'operations[0]': drop takes node_id, reason",
    ),
]


@pytest.mark.parametrize(("operations", "sentence"), MISTAKES)
def test_mistakes_are_named(agent: WorkAgent, operations: list[dict[str, Any]], sentence: str) -> None:
    told = agent.refusal("graph_restructure", operations=operations)
    assert (told["error"], told["message"]) == ("validation_error", sentence)


def test_more_than_can_be_done_at_once_is_refused(agent: WorkAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallystick.state.work.draft_builder.OPERATIONS_MAX", 3)
    agent.plan(*({"ref": ref} for ref in "abc"))
    drop = {"op": "drop", "node_id": agent.open(), "reason": "no"}
    assert agent.refusal("graph_restructure", operations=[drop])["error"] == "too_large"
