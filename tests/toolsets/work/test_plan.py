"""graph_plan: batches of work nodes, whole or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from tests.promises import promise
from tests.toolsets.work.agents import WorkAgent, working


@promise("W19", "nulls are dropped on creation")
def test_nodes_are_created_unresolved_with_what_was_said_of_them(agent: WorkAgent) -> None:
    root = agent.open()
    ids = agent.plan(
        {"ref": "a", "parent_ref": root, "summary": "Paint", "context_links": ["a.py", "b.py", "a.py"]},
        {"ref": "b", "parent_ref": "a", "summary": "Dry", "properties": {"priority": 2, "none": None}},
    )
    paint, dry = agent.node(ids["a"]), agent.node(ids["b"])
    assert (paint["parent"], paint["summary"], paint["resolved"], paint["rev"]) == (root, "Paint", False, 1)
    assert paint["context_links"] == ["a.py", "b.py"]
    assert (dry["parent"], dry["properties"]) == (ids["a"], {"priority": 2})
    assert "state" not in dry


def test_what_is_created_is_answered_in_the_order_it_was_planned(agent: WorkAgent) -> None:
    nodes = [{"ref": ref, "summary": ref, "parent_ref": parent} for ref, parent in (("c", "b"), ("b", "a"))]
    told = agent.call("graph_plan", nodes=[*nodes, {"ref": "a", "summary": "a"}])
    assert [each["ref"] for each in told["created"]] == ["c", "b", "a"]
    assert set(told) == {"created"}


def test_a_parent_named_as_its_project_is_answered_with_the_root_that_is_meant(agent: WorkAgent) -> None:
    root = agent.open("Bridge")
    refused = agent.refusal("graph_plan", nodes=[{"ref": "a", "summary": "a", "parent_ref": "bridge"}])
    assert (refused["error"], refused["hint"]) == ("node_not_found", f"project 'Bridge' has the root '{root}'")
    assert agent.refusal("graph_context", node_id="Bridge")["hint"] == refused["hint"]


@promise("W11", "references may point forwards and backwards")
def test_references_may_point_forwards_and_backwards(agent: WorkAgent) -> None:
    ids = agent.plan(
        {"ref": "child", "parent_ref": "parent", "depends_on": ["last"]},
        {"ref": "parent"},
        {"ref": "last", "parent_ref": "parent"},
    )
    context = agent.call("graph_context", node_id=ids["child"])
    assert [node["id"] for node in context["ancestors"]] == [agent.open(), ids["parent"]]
    assert [each["node"]["id"] for each in context["depends_on"]] == [ids["last"]]


def test_siblings_keep_the_order_they_were_planned_in(agent: WorkAgent) -> None:
    refs = ["z", "y", "x", "w"]
    agent.plan(
        *({"ref": ref, "parent_ref": "top"} for ref in refs[:2]),
        {"ref": "top"},
        *({"ref": ref, "parent_ref": "top"} for ref in refs[2:]),
    )
    assert agent.next(count=4) == refs


@promise("W11, refs", "a ref of the batch wins over an equal id")
def test_a_ref_of_the_batch_wins_over_an_equal_id(agent: WorkAgent) -> None:
    old = agent.plan({"ref": "old"})["old"]
    ids = agent.plan({"ref": old, "summary": "new"}, {"ref": "child", "parent_ref": old})
    assert agent.node(ids["child"])["parent"] == ids[old]


def test_dependencies_may_be_refs_or_ids_and_are_taken_once(agent: WorkAgent) -> None:
    old = agent.plan({"ref": "old"})["old"]
    ids = agent.plan({"ref": "a"}, {"ref": "b", "depends_on": ["a", old, "a", old]})
    around = agent.call("graph_context", node_id=ids["b"])
    assert [each["node"]["id"] for each in around["depends_on"]] == [ids["a"], old]


@promise("W15", "depending on a resolved node is satisfied at once")
def test_depending_on_a_resolved_node_is_satisfied_at_once(agent: WorkAgent) -> None:
    old = agent.plan({"ref": "old"})["old"]
    agent.resolve(old)
    ids = agent.plan({"ref": "new", "depends_on": [old]})
    assert agent.next() == ["new"]
    assert agent.call("graph_context", node_id=ids["new"])["depends_on"][0]["satisfied"] is True


CYCLES: list[tuple[list[dict[str, Any]], str]] = [
    ([{"ref": "a", "depends_on": ["a"]}], "Dependency cycle detected: a -> a"),
    (
        [{"ref": "a", "depends_on": ["b"]}, {"ref": "b", "depends_on": ["a"]}],
        "Dependency cycle detected: a -> b -> a",
    ),
    (
        [
            {"ref": "x", "depends_on": ["a"]},
            {"ref": "a", "depends_on": ["b"]},
            {"ref": "b", "depends_on": ["x", "c"]},
            {"ref": "c"},
        ],
        "Dependency cycle detected: x -> a -> b -> x",
    ),
    ([{"ref": "a", "parent_ref": "b"}, {"ref": "b", "parent_ref": "a"}], "Parent cycle detected: a -> b -> a"),
    ([{"ref": "a", "parent_ref": "a"}], "Parent cycle detected: a -> a"),
]


@promise("W12", "a cycle is refused with its path")
@pytest.mark.parametrize(("nodes", "sentence"), CYCLES)
def test_a_cycle_is_refused_with_its_path(agent: WorkAgent, nodes: list[dict[str, Any]], sentence: str) -> None:
    told = agent.refusal("graph_plan", nodes=[{"summary": "s", **node} for node in nodes])
    assert (told["error"], told["message"]) == ("cycle_detected", sentence)
    assert told["cycle"] == sentence.partition(": ")[2].split(" -> ")


MISTAKES: list[tuple[list[dict[str, Any]], str, str]] = [
    ([], "validation_error", "field 'nodes' must have at least 1 item, not 0"),
    (
        [{"ref": "a", "summary": "a"}, {"ref": "a", "summary": "b"}],
        "validation_error",
        "ref 'a' is used more than once",
    ),
    ([{"ref": "a"}], "validation_error", "field 'nodes[0].summary' is required"),
    ([{"ref": "a", "summary": ""}], "validation_error", "field 'nodes[0].summary' must not be blank"),
    ([{"ref": "a", "summary": "\t "}], "validation_error", "field 'nodes[0].summary' must not be blank"),
    ([{"ref": "", "summary": "a"}], "validation_error", "field 'nodes[0].ref' must have at least 1 character"),
    ([{"ref": "a", "summary": "a", "resolved": True}], "validation_error", "field 'nodes[0].resolved' is not allowed"),
    (
        [{"ref": "a", "summary": "a", "properties": {"x": "y" * 20_000}}],
        "validation_error",
        "field 'nodes[0].properties' must not have more than 16384 bytes",
    ),
    (
        [{"ref": "a", "summary": "a", "parent_ref": "nobody"}],
        "node_not_found",
        "there is no work node 'nobody' (parent of 'a')",
    ),
    (
        [{"ref": "a", "summary": "a"}, {"ref": "b", "summary": "b", "depends_on": ["nobody"]}],
        "node_not_found",
        "there is no work node 'nobody' (dependency of 'b')",
    ),
]


@promise("graph_plan", "a batch is written whole or not at all")
@pytest.mark.parametrize(("nodes", "code", "sentence"), MISTAKES)
def test_a_mistake_in_one_node_leaves_the_whole_batch_unwritten(
    agent: WorkAgent, nodes: list[dict[str, Any]], code: str, sentence: str
) -> None:
    told = agent.refusal("graph_plan", nodes=nodes)
    assert (told["error"], told["message"]) == (code, sentence)


@promise("W13", "nothing joins two projects")
def test_parents_and_dependencies_across_projects_are_refused(agent: WorkAgent) -> None:
    here = agent.plan({"ref": "here"})["here"]
    there = agent.open("q")
    told = agent.refusal("graph_plan", nodes=[{"ref": "a", "summary": "a", "parent_ref": there, "depends_on": [here]}])
    assert told["error"] == "cross_project"
    nodes = [
        {"ref": "a", "summary": "a", "parent_ref": there},
        {"ref": "b", "summary": "b", "parent_ref": here, "depends_on": ["a"]},
    ]
    told = agent.refusal("graph_plan", nodes=nodes)
    assert (told["error"], told["message"]) == (
        "cross_project",
        "'b' and 'a', which it depends on, are in different projects",
    )


def test_one_batch_may_plan_in_two_projects(agent: WorkAgent) -> None:
    first, second = agent.open(), agent.open("q")
    ids = agent.plan({"ref": "a", "parent_ref": first}, {"ref": "b", "parent_ref": second})
    assert agent.found("p") == ["Ship it", "a"]
    assert agent.found("q") == ["q", "b"]
    assert len(ids) == 2


# -- a node without a parent


def test_without_a_parent_a_node_goes_under_the_root_of_the_only_project() -> None:
    with working() as agent:
        root = agent.open()
        with agent.as_("somebody who opened nothing"):
            ids = agent.plan({"ref": "a"})
        assert agent.node(ids["a"])["parent"] == root


def test_without_a_parent_a_node_goes_where_the_others_of_its_batch_are(agent: WorkAgent) -> None:
    first = agent.plan({"ref": "first"})["first"]
    agent.open("q")
    ids = agent.plan({"ref": "a", "parent_ref": first}, {"ref": "b"}, {"ref": "c", "depends_on": [first]})
    assert agent.node(ids["b"])["parent"] == agent.node(ids["c"])["parent"] == agent.open("p")


def test_without_a_parent_a_node_goes_to_the_project_that_was_opened_last(agent: WorkAgent) -> None:
    other = agent.open("q")
    assert agent.node(agent.plan({"ref": "a"})["a"])["parent"] == other
    with agent.as_("bob"):
        mine = agent.open("p")
        assert agent.node(agent.plan({"ref": "a"})["a"])["parent"] == mine
    assert agent.node(agent.plan({"ref": "b"})["b"])["parent"] == other


@promise("W10", "a node without a parent needs a project that is clear")
def test_without_any_hint_of_its_project_a_node_needs_a_parent(agent: WorkAgent) -> None:
    roots = {agent.open("p"), agent.open("q")}
    with agent.as_("stranger"):
        told = agent.refusal("graph_plan", nodes=[{"ref": "a", "summary": "a"}])
    assert (told["error"], told["ref"]) == ("missing_parent", "a")
    assert "a parent is the ref of a node of this batch, the id of a work node" in told["hint"]
    assert {project["root"] for project in told["projects"]} == roots


def test_a_batch_that_speaks_of_two_projects_gives_no_hint(agent: WorkAgent) -> None:
    first, second = agent.open("p"), agent.open("q")
    nodes = [
        {"ref": "a", "summary": "a", "parent_ref": first},
        {"ref": "b", "summary": "b", "parent_ref": second},
        {"ref": "c", "summary": "c"},
    ]
    assert agent.refusal("graph_plan", nodes=nodes)["error"] == "missing_parent"


def test_without_a_project_there_is_no_parent() -> None:
    with working() as agent:
        told = agent.refusal("graph_plan", nodes=[{"ref": "a", "summary": "a"}])
        assert (told["error"], told["hint"]) == ("missing_parent", "there is no project yet: graph_open makes one")


# -- what is allowed, but told


@promise("W16", "children of a resolved parent are allowed and told")
def test_children_of_a_resolved_parent_are_allowed_and_it_stays_resolved(agent: WorkAgent) -> None:
    parent = agent.plan({"ref": "parent"})["parent"]
    agent.resolve(parent)
    told = agent.call("graph_plan", nodes=[{"ref": "late", "summary": "late", "parent_ref": parent}])
    assert told["warnings"] == [f"'late' is under '{parent}', which is resolved and stays so"]
    assert agent.node(parent)["resolved"] is True
    assert agent.next() == ["late"]


@promise("W14", "depending on an ancestor is told")
def test_depending_on_an_ancestor_or_a_descendant_is_allowed_and_told(agent: WorkAgent) -> None:
    nodes = [
        {"ref": "top", "summary": "top", "depends_on": ["low"]},
        {"ref": "mid", "summary": "mid", "parent_ref": "top"},
        {"ref": "low", "summary": "low", "parent_ref": "mid", "depends_on": ["mid"]},
    ]
    warnings = agent.call("graph_plan", nodes=nodes)["warnings"]
    assert warnings == [
        "'low' depends on 'mid', which is above it: neither can come first",
        "'top' depends on 'low', which is below it: as its child it must be resolved first anyway",
    ]


def test_an_id_that_turns_out_to_be_taken_is_never_used_twice(agent: WorkAgent) -> None:
    taken = agent.plan({"ref": "a"})["a"]
    agent.tool_context.ids = lambda: taken
    assert agent.refusal("graph_plan", nodes=[{"ref": "b", "summary": "b"}])["error"] == "id_taken"
