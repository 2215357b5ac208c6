"""Typed memories that stopped being true (X24)."""

from __future__ import annotations

from tests.extensions.ontology.agents import OntologyAgent
from tests.promises import promise

PAST = "2025-01-04T13:00:00.000Z"
TOLD = {"why": "past its time", "since": PAST}
HOUR = 3_600_000


@promise("X24, typed memories", "every way to read a typed memory says that it is stale")
def test_a_typed_memory_may_run_out_and_every_way_to_read_it_says_so(gtd: OntologyAgent) -> None:
    plan, fresh = gtd.make("Project", "the plan", n=1), gtd.make("Project", "another")
    task = gtd.make("Action", "a task", stale_after=PAST)
    joined = gtd.join(plan, "NextAction", task, stale_after=PAST)
    attrs = {"stale_after": PAST, "supersedes": ["an older plan"], "cites": ["plan.md"]}
    gtd.write(op="PATCH_NODE", node={"id": plan, "attrs": attrs})
    gtd.call("update_node", node_id=plan, properties={"n": 2})
    assert gtd.call("get_node", node_id=plan)["properties"] == {"n": 2, **attrs}
    assert gtd.call("get_node_content", node_id=plan)["content"] == "the plan"
    gtd.now += 2 * HOUR
    for tool in ("get_node", "get_node_content"):
        assert gtd.call(tool, node_id=plan)["stale"] == TOLD
        assert "stale" not in gtd.call(tool, node_id=fresh)
    assert gtd.call("get_connection", connection_id=joined)["stale"] == TOLD
    assert gtd.call("query_nodes", type="Project")["stale"] == [plan]
    assert gtd.call("get_connected_nodes", node_id=plan, direction="out")["stale"] == [task]
    assert gtd.call("search_content", query="plan")["stale"] == [plan]
    gtd.write(op="PATCH_NODE", node={"id": plan, "attrs": {"verified": True}})
    assert "stale" not in gtd.call("get_node", node_id=plan)
    assert "stale" not in gtd.call("query_nodes", type="Project")


def test_what_is_none_of_these_values_is_refused_here_too(gtd: OntologyAgent) -> None:
    node = gtd.make("Project", "x")
    for properties in ({"stale_after": "soon"}, {"verified": "yes"}, {"supersedes": node}):
        refused = gtd.refusal("update_node", node_id=node, properties=properties)
        assert refused["code"] == "INVALID_ARGUMENT"
        assert next(iter(properties)) in refused["message"]
    gtd.call("update_node", node_id=node, properties={"verified": True})
    verified = gtd.call("get_node", node_id=node)["properties"]["verified"]
    assert verified == {"by": "agent_alpha", "at": "2025-01-04T12:00:00.000Z"}
