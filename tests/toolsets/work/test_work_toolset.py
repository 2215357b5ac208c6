"""The work toolset as a whole: what clients are shown, who may, and how many tokens it costs."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from tallystick.policy import Action, Decision, Request
from tallystick.server.dispatch import choose
from tallystick.server.schemas import input_schema, output_schema
from tallystick.toolsets.work import TOOLSET
from tests.promises import promise
from tests.toolsets.work.agents import WorkAgent, working

NAMES = "open plan next context update connect query restructure history onboard"


def test_the_ten_tools_are_offered_and_their_faults_are_results() -> None:
    assert [tool.name for tool in TOOLSET.tools] == [f"graph_{name}" for name in NAMES.split()]
    assert TOOLSET.faults == "result"


def test_reading_tools_say_so() -> None:
    reading = [tool.name for tool in TOOLSET.tools if tool.reads_only]
    assert reading == ["graph_context", "graph_query", "graph_history", "graph_onboard"]


def test_schemas_are_valid_and_closed() -> None:
    for entry in choose([TOOLSET]):
        shown = input_schema(entry.tool)
        jsonschema.Draft202012Validator.check_schema(shown)
        jsonschema.Draft202012Validator.check_schema(output_schema(entry))
        assert shown["additionalProperties"] is False
        assert "$ref" not in str(shown)


def test_nulls_that_mean_something_are_shown() -> None:
    shown = {tool.name: input_schema(tool) for tool in TOOLSET.tools}
    for tool, asked in (
        ("graph_query", {"project": "p", "filter": {"claimed_by": None, "properties": {"x": None}}}),
        ("graph_update", {"updates": [{"node_id": "a", "state": None, "properties": {"x": None}}]}),
    ):
        jsonschema.validate(asked, shown[tool])


def test_what_is_answered_and_refused_fits_the_schemas(agent: WorkAgent) -> None:
    entries = {entry.tool.name: output_schema(entry) for entry in choose([TOOLSET])}
    ids = agent.plan({"ref": "a"}, {"ref": "b", "depends_on": ["a"]})
    for tool, asked in (
        ("graph_open", {}),
        ("graph_open", {"project": "p"}),
        ("graph_next", {"project": "p", "claim": True}),
        ("graph_context", {"node_id": ids["a"]}),
        ("graph_update", {"updates": [{"node_id": ids["a"], "resolved": True}]}),
        ("graph_connect", {"edges": [{"from": ids["a"], "to": "nobody", "type": "x"}]}),
        ("graph_query", {"project": "p", "limit": 1}),
        ("graph_restructure", {"operations": [{"op": "drop", "node_id": ids["b"], "reason": "r"}]}),
        ("graph_history", {"node_id": ids["a"], "limit": 1}),
        ("graph_onboard", {}),
    ):
        answer = agent.call(tool, **asked)
        jsonschema.validate(answer, entries[tool])
        shown = entries[tool]["anyOf"][0]
        assert set(shown["required"]) <= set(answer) <= set(shown["properties"]) | {"goal", "your_claims"}
    refused = agent.refusal("graph_next", project="nope")
    jsonschema.validate(refused, entries["graph_next"])


@promise("X8, work", "every tool asks the policy for its action")
def test_every_tool_asks_the_policy_for_its_action() -> None:
    asked: list[tuple[str, str | None]] = []

    class Watching:
        def decide(self, request: Request) -> Decision:
            asked.append((request.action.value, request.resource))
            return Decision(True, "watched", "v1", narrows=False)

    with working(policy=Watching()) as agent:
        root = agent.open()
        ids = agent.plan({"ref": "a"}, {"ref": "b"})
        a, b = ids["a"], ids["b"]
        for tool, arguments, expected in (
            ("graph_open", {}, (Action.SEARCH, None)),
            ("graph_next", {"project": "p"}, (Action.READ, None)),
            ("graph_next", {"project": "p", "claim": True}, (Action.WRITE, None)),
            ("graph_context", {"node_id": a}, (Action.READ, a)),
            ("graph_update", {"updates": [{"node_id": a, "summary": "x"}]}, (Action.WRITE, a)),
            ("graph_connect", {"edges": [{"from": a, "to": b, "type": "x"}]}, (Action.WRITE, a)),
            ("graph_query", {"project": "p"}, (Action.SEARCH, None)),
            ("graph_history", {"node_id": a}, (Action.READ, a)),
            ("graph_onboard", {}, (Action.READ, None)),
            (
                "graph_restructure",
                {"operations": [{"op": "move", "node_id": a, "new_parent": b}]},
                (Action.WRITE, a),
            ),
            (
                "graph_restructure",
                {"operations": [{"op": "merge", "source": a, "target": root}]},
                (Action.DELETE, a),
            ),
        ):
            asked.clear()
            agent.call(tool, **arguments)
            assert asked == [expected], tool


def test_what_the_policy_denies_is_not_written() -> None:
    class Closed:
        def decide(self, request: Request) -> Decision:
            return Decision(request.action is not Action.WRITE, "no writing today", "v1")

    with working(policy=Closed()) as agent:
        told = agent.refusal("graph_open", project="p")
        assert told["error"] == "authorization_denied"
        assert told["policy_decision"]["reason"] == "no writing today"


def test_commits_tell_agent_and_tool(agent: WorkAgent) -> None:
    with agent.as_("bob"):
        a = agent.plan({"ref": "a"})["a"]
    found = agent.partition._state.lineage(a, "direct", 0, 10)
    assert found is not None
    assert [(step.commit.actor, step.commit.tool) for step in found.steps] == [("bob", "graph_plan")]


# -- tokens


def tokens(value: Any) -> float:
    from orjson import dumps

    return len(dumps(value)) / 4


MARGIN = 1.2


@pytest.fixture
def swimlanes() -> Any:
    """Thirty nodes: a root, four phases, ten features, fifteen tasks."""
    phases = ["Data model", "Rendering", "Interaction", "Release"]
    with working() as agent:
        agent.me = "claude-code-v1"
        agent.open("swimlanes-v0", goal="Swimlane diagrams in the browser")
        nodes: list[dict[str, Any]] = [
            {"ref": f"p{n}", "summary": name, "context_links": [f"docs/phase-{n}.md"]} for n, name in enumerate(phases)
        ]
        nodes += [
            {
                "ref": f"f{n}",
                "parent_ref": f"p{n % 4}",
                "summary": f"Feature {n}: lanes drawn from data",
                "depends_on": [f"f{n - 4}"] if n >= 4 else [],
            }
            for n in range(10)
        ]
        nodes += [
            {
                "ref": f"t{n}",
                "parent_ref": f"f{n % 10}",
                "summary": f"Implement and test step {n}",
                "properties": {"priority": n % 3},
                "context_links": [f"src/lanes/step_{n}.ts"] if n % 3 == 0 else [],
                "depends_on": [f"t{n - 1}"] if n % 4 else [],
            }
            for n in range(15)
        ]
        ids = agent.plan(*nodes)
        for ref in ("t0", "t4", "t5", "t8"):
            agent.resolve(ids[ref], add_evidence=[{"type": "git", "ref": "4f2c1aa implement the step with tests"}])
        yield agent, ids


BUDGET = {
    "graph_open": 100,
    "graph_plan": 55,
    "graph_next": 300,
    "graph_context": 220,
    "graph_update": 40,
    "graph_connect": 20,
    "graph_query": 130,
    "graph_restructure": 40,
    "graph_history": 210,
    "graph_onboard": 600,
}


@promise("W50", "answers stay within the token budget")
def test_answers_stay_within_the_token_budget_of_the_spec(swimlanes: tuple[WorkAgent, dict[str, str]]) -> None:
    agent, ids = swimlanes
    assert agent.counts("swimlanes-v0")["total"] == 30
    planned = [{"ref": f"n{n}", "summary": f"Write the part {n}", "parent_ref": ids["p3"]} for n in range(4)]
    evidence = [{"type": "git", "ref": "abc1234"}]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("graph_open", {"project": "swimlanes-v0"}),
        ("graph_onboard", {"project": "swimlanes-v0"}),
        ("graph_next", {"project": "swimlanes-v0", "claim": True}),
        ("graph_context", {"node_id": ids["p2"]}),
        ("graph_query", {"project": "swimlanes-v0", "limit": 3}),
        ("graph_update", {"updates": [{"node_id": ids["t1"], "resolved": True, "add_evidence": evidence}]}),
        ("graph_connect", {"edges": [{"from": ids["t8"], "to": ids["t6"], "type": "depends_on"}]}),
        (
            "graph_restructure",
            {"operations": [{"op": "move", "node_id": ids["t9"], "new_parent": ids["f1"]}]},
        ),
        ("graph_history", {"node_id": ids["t1"]}),
        ("graph_plan", {"nodes": planned}),
    ]
    spent = {tool: tokens(agent.call(tool, **asked)) for tool, asked in calls}
    over = {tool: count for tool, count in spent.items() if count > BUDGET[tool] * MARGIN}
    assert over == {}
    assert set(spent) == set(BUDGET)


def test_a_whole_cycle_of_claiming_working_and_resolving_is_cheap(swimlanes: tuple[WorkAgent, dict[str, str]]) -> None:
    agent, _ = swimlanes
    claimed = agent.call("graph_next", project="swimlanes-v0", claim=True)
    node_id = claimed["nodes"][0]["node"]["id"]
    noted = agent.update(node_id, add_evidence=[{"type": "hint", "ref": "mind the gap"}])
    resolved = agent.resolve(node_id, add_evidence=[{"type": "git", "ref": "abc1234"}])
    assert sum(tokens(told) for told in (claimed, noted, resolved)) < 450 * MARGIN
