"""What may not be read is not told of; what may not be written is not claimed; what was recalled says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tallystick.commits import Draft
from tallystick.policy import Action, Decision, Principal, Request
from tallystick.state import trust
from tallystick.state.state import State
from tallystick.state.work.draft_builder import DraftBuilder
from tallystick.toolsets.work import answers
from tallystick.toolsets.work.activity import watch
from tallystick.toolsets.work.context import Call
from tests.multi_tenant import bytes_of
from tests.policy.gated_partition import AwaitedPolicy
from tests.promises import promise
from tests.toolsets.work.agents import Links, WorkAgent, summaries, working


def rule(request: Request) -> bool:
    """What eve made is hers alone; what fay made may be read, and that is all."""
    owner = request.resource_owner
    if owner in (None, request.principal.actor):
        return True
    return owner != "eve" and (owner != "fay" or request.action in (Action.READ, Action.SEARCH))


class RulePolicy:
    def decide(self, request: Request) -> Decision:
        return Decision(rule(request), "by the rule", "local@1")


@pytest.fixture(params=[RulePolicy, lambda: AwaitedPolicy(rule)], ids=["in process", "distant"])
def agent(request: pytest.FixtureRequest) -> Iterator[WorkAgent]:
    with working(policy=request.param(), knowledge=Links()) as agent:
        agent.open("p", goal="Ship it")
        yield agent


class Plan:
    """Ann's: top ⊃ low, free. Eve's: hers, under ann's top, with ann's deep and fay's own below it.

    low waits for hers, which is done; hers was told of a link and has evidence.
    """

    def __init__(self, agent: WorkAgent) -> None:
        self.root = agent.open()
        ann = agent.plan({"ref": "top", "context_links": ["top.md"]}, {"ref": "free"})
        with agent.as_("eve"):
            eve = agent.plan(
                {"ref": "hers", "summary": "evil", "parent_ref": ann["top"], "context_links": ["evil.md"]},
                {"ref": "later", "summary": "evil too", "parent_ref": "hers"},
            )
            deep = self._below(agent, "ann", "deep", eve["hers"])
        fay = self._below(agent, "fay", "fays", ann["top"])
        low = agent.plan({"ref": "low", "parent_ref": ann["top"]})
        # With eve's eyes, since ann could not say what it waits for.
        with agent.as_("eve"):
            agent.connect(low["low"], eve["hers"])
            agent.connect(eve["later"], ann["free"], "relates_to")
            agent.resolve(eve["hers"], add_evidence=[{"type": "note", "ref": "evil deed"}])
        self.ids = ann | eve | deep | fay | low

    @staticmethod
    def _below(agent: WorkAgent, actor: str, ref: str, parent: str) -> dict[str, str]:
        """By whoever may read the parent, handed over to `agent`: made by a draft of its own."""
        node_id = agent.tool_context.ids()

        def propose(state: State, read_filter: object) -> Draft:
            with DraftBuilder(state) as builder:
                project = builder.attrs(parent)["project"]
                attrs = {"project": project, "parent": parent, "summary": ref, "resolved": False, "rev": 1}
                builder.put(node_id, attrs)
                return Draft(tuple(builder.operations), actor=actor, tool="test")

        agent.run(agent.store.write(Principal(actor="root"), Action.WRITE, propose))
        return {ref: node_id}

    def hidden(self) -> list[bytes]:
        return [b"evil", b'"eve"', *(self.ids[ref].encode() for ref in ("hers", "later"))]


READS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("graph_open", {}),
    ("graph_open", {"project": "p"}),
    ("graph_next", {"project": "p", "count": 10}),
    ("graph_onboard", {}),
    ("graph_query", {"project": "p", "limit": 100}),
    ("graph_query", {"project": "p", "sort": "recent"}),
    ("graph_query", {"project": "p", "filter": {"text": "evil"}}),
    ("graph_context", {"node_id": "top", "depth": 5}),
    ("graph_context", {"node_id": "low"}),
    ("graph_context", {"node_id": "deep"}),
    ("graph_context", {"node_id": "free"}),
    ("graph_history", {"node_id": "low"}),
    ("graph_history", {"node_id": "deep"}),
)


@promise("X8, L33, work", "no answer tells of what may not be read")
@pytest.mark.parametrize(("tool", "arguments"), READS, ids=[f"{tool}-{n}" for n, (tool, _) in enumerate(READS)])
def test_no_answer_tells_of_what_may_not_be_read(agent: WorkAgent, tool: str, arguments: dict[str, Any]) -> None:
    plan = Plan(agent)
    named = {key: plan.ids.get(value, value) if key == "node_id" else value for key, value in arguments.items()}
    told = bytes_of(agent.call(tool, **named))
    for word in plan.hidden():
        assert word not in told, told
    with agent.as_("eve"):
        told = bytes_of(agent.call(tool, **named))
        assert tool == "graph_open" or any(word in told for word in plan.hidden())


def test_what_is_told_is_all_there_is_to_be_read(agent: WorkAgent) -> None:
    plan = Plan(agent)
    ids = plan.ids
    assert agent.counts() == {"total": 6, "resolved": 0, "unresolved": 6, "blocked": 0, "actionable": 4}
    (line,) = agent.call("graph_open")["projects"]
    assert (line["total"], line["resolved"], line["id"]) == (6, 0, plan.root)
    told = agent.call("graph_onboard")
    assert (told["summary"]["total"], told["recent_evidence"], told["context_links"]) == (6, [], ["top.md"])
    assert [summaries(branch.get("children", [])) for branch in told["tree"]] == [["fays", "low"], []]
    assert agent.query(sort="created")["total"] == 6
    told = agent.call("graph_context", node_id=ids["top"], depth=1)
    assert summaries(told["children"]["children"]) == ["fays", "low"]
    assert "child_count" not in told["children"]
    assert agent.call("graph_context", node_id=ids["top"], depth=0)["children"]["child_count"] == 2
    told = agent.call("graph_context", node_id=ids["deep"])
    assert (told["node"]["parent"], summaries(told["ancestors"]), told["knowledge"]["links"]) == (
        None,
        ["Ship it", "top"],
        ["top.md"],
    )
    assert agent.call("graph_context", node_id=ids["low"])["depends_on"] == []
    (first,) = agent.call("graph_next", project="p", filter={}, scope=ids["top"])["nodes"]
    assert first["resolved_deps"] == []
    (event,) = agent.events(ids["deep"])
    assert [change["field"] for change in event["changes"]] == ["summary"]


def test_of_very_many_nodes_only_some_are_counted_and_that_is_said(
    agent: WorkAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "_MEMBERS_COUNTED", 3)
    agent.plan(*({"ref": f"t{number}"} for number in range(5)))
    counts = {"total": 3, "resolved": 0, "unresolved": 3, "blocked": 0, "actionable": 2}
    assert agent.counts() == counts | {"partial": True}
    assert agent.call("graph_open")["projects"][0]["partial"] is True


def test_a_project_that_may_not_be_read_is_not_there(agent: WorkAgent) -> None:
    with agent.as_("eve"):
        root = agent.open("evil plan")
    for tool in ("graph_next", "graph_query", "graph_onboard"):
        for name in ("evil plan", root):
            refused = agent.refusal(tool, project=name)
            assert (refused["error"], refused["projects"]) == ("project_not_found", ["p"]), tool
    assert [each["project"] for each in agent.call("graph_open")["projects"]] == ["p"]
    assert agent.call("graph_onboard")["project"] == "p"
    refused = agent.refusal("graph_open", project="evil plan")
    assert (refused["error"], root in str(refused)) == ("name_taken", False)


NAMED = (
    ("graph_plan", lambda node: {"nodes": [{"ref": "x", "summary": "x", "parent_ref": node}]}),
    ("graph_plan", lambda node: {"nodes": [{"ref": "x", "summary": "x", "depends_on": [node]}]}),
    ("graph_query", lambda node: {"project": "p", "filter": {"ancestor": node}}),
    ("graph_next", lambda node: {"project": "p", "scope": node}),
)


@pytest.mark.parametrize(("tool", "arguments"), NAMED)
def test_who_guesses_the_id_of_what_may_not_be_read_is_told_what_a_stranger_would_be(
    agent: WorkAgent, tool: str, arguments: Any
) -> None:
    plan = Plan(agent)
    hidden, nobody = plan.ids["hers"], "x" * 10
    told = str(agent.refusal(tool, **arguments(hidden)))
    assert told.replace(hidden, nobody) == str(agent.refusal(tool, **arguments(nobody)))


# -- writing


def test_next_hands_out_and_claims_only_what_may_be_read(agent: WorkAgent) -> None:
    with agent.as_("eve"):
        agent.plan({"ref": "hers", "summary": "evil", "properties": {"priority": 9}})
    agent.plan({"ref": "mine"})
    assert agent.next(count=5) == ["mine"]
    assert agent.next(claim=True) == ["mine"]
    with agent.as_("bob"):
        told = agent.call("graph_next", project="p", claim=True)
        assert (told["nodes"], told["hint"]) == ([], "nothing to hand out among the nodes that you may read")
    with agent.as_("eve"):
        assert agent.next(claim=True) == ["evil"]


@promise("X8, claims", "what may not be written is not claimed or changed")
def test_what_may_be_read_and_not_written_is_not_claimed_or_changed(agent: WorkAgent) -> None:
    ids = agent.plan({"ref": "mine"})
    with agent.as_("fay"):
        ids |= agent.plan({"ref": "fays", "properties": {"priority": 9}}, {"ref": "below", "parent_ref": "fays"})
    ids |= agent.plan({"ref": "child", "parent_ref": ids["fays"]})
    refusals = (
        ("graph_next", {"project": "p", "claim": True, "count": 5}),
        ("graph_update", {"updates": [{"node_id": ids["mine"], "state": 1}, {"node_id": ids["fays"], "state": 1}]}),
        ("graph_update", {"updates": [{"node_id": ids["fays"], "resolved": True}]}),
        ("graph_connect", {"edges": [_edge(ids["mine"], ids["child"]), _edge(ids["fays"], ids["child"])]}),
        ("graph_restructure", {"operations": [{"op": "merge", "source": ids["mine"], "target": ids["fays"]}]}),
        ("graph_restructure", {"operations": [{"op": "merge", "source": ids["fays"], "target": ids["mine"]}]}),
        ("graph_restructure", {"operations": [{"op": "drop", "node_id": ids["fays"], "reason": "no"}]}),
        ("graph_restructure", {"operations": [{"op": "drop", "node_id": agent.open(), "reason": "no"}]}),
        (
            "graph_restructure",
            {
                "operations": [
                    {"op": "drop", "node_id": ids["mine"], "reason": "no"},
                    {"op": "merge", "source": ids["below"], "target": ids["mine"]},
                ]
            },
        ),
    )
    for tool, arguments in refusals:
        told = agent.refusal(tool, **arguments)
        assert (told["error"], told["policy_decision"]["reason"]) == ("authorization_denied", "by the rule"), arguments
        assert "(owned by 'fay')" in told["message"]


def _edge(source: str, target: str) -> dict[str, str]:
    return {"from": source, "to": target, "type": "relates_to"}


def test_what_a_change_sets_free_is_told_as_far_as_it_may_be_read(agent: WorkAgent) -> None:
    mine = agent.plan({"ref": "first"}, {"ref": "second", "depends_on": ["first"]})
    with agent.as_("eve"):
        agent.plan({"ref": "third", "summary": "evil", "depends_on": [mine["first"]]})
    assert summaries(agent.resolve(mine["first"])["newly_actionable"]) == ["second"]


def test_a_cycle_is_told_without_the_names_of_what_may_not_be_read(agent: WorkAgent) -> None:
    ids = agent.plan({"ref": "a"}, {"ref": "b"})
    with agent.as_("eve"):
        ids |= agent.plan({"ref": "c", "depends_on": [ids["a"]]})
        agent.connect(ids["b"], ids["c"])
    (rejected,) = agent.connect(ids["a"], ids["b"])["rejected"]
    assert rejected["reason"] == "cycle_detected"
    assert rejected["detail"].endswith(f"{ids['a']} -> {ids['b']} -> (withheld) -> {ids['a']}")


def test_what_was_merged_away_and_may_not_be_read_stays_unsaid(agent: WorkAgent) -> None:
    ids = agent.plan({"ref": "mine"})
    with agent.as_("eve"):
        ids |= agent.plan({"ref": "hers", "summary": "evil"})
        agent.restructure("merge", source=ids["hers"], target=ids["mine"])
    assert b"evil" not in bytes_of(agent.events(ids["mine"]))
    told = agent.refusal("graph_update", updates=[{"node_id": ids["mine"], "state": 1}, {"node_id": ids["hers"]}])
    assert (told["error"], "merged_into" in told) == ("node_not_found", False)


def test_agents_that_claim_at_once_get_different_nodes_whoever_decides(agent: WorkAgent) -> None:
    agent.plan(*({"ref": f"t{number}"} for number in range(12)))
    agents = [f"agent{number}" for number in range(12)]
    told = agent.together([(actor, "graph_next", {"project": "p", "claim": True}) for actor in agents])
    assert len({answer["nodes"][0]["node"]["id"] for answer in told}) == 12


def test_who_looks_on_sees_what_may_be_read(agent: WorkAgent) -> None:
    plan = Plan(agent)
    with agent.as_("eve"):
        agent.call("graph_next", project="p", claim=True, scope=plan.ids["hers"])
    told = bytes_of(agent.run(watch(Call(agent.tool_context, agent.store, Principal(actor="ann"), "watch"))))
    for word in plan.hidden():
        assert word not in told
    assert plan.ids["low"].encode() in told


def test_who_may_not_read_a_node_is_refused_its_context_and_history(agent: WorkAgent) -> None:
    plan = Plan(agent)
    for tool in ("graph_context", "graph_history"):
        assert agent.refusal(tool, node_id=plan.ids["hers"])["error"] == "authorization_denied"


# -- recalled


def test_a_recalled_node_is_handed_out_and_says_so_wherever_it_is_shown() -> None:
    with working() as agent:
        root = agent.open()
        ids = agent.plan({"ref": "a"}, {"ref": "b", "parent_ref": "a"}, {"ref": "c", "depends_on": ["b"]})
        quiet = bytes_of([agent.call("graph_onboard"), agent.call("graph_next", project="p"), agent.query()])
        assert b"untrusted" not in quiet

        def propose(state: State, read_filter: object) -> Draft:
            return Draft(
                trust.recall("recall_1", "poisoned", [*ids.values(), root], {}), actor="officer", tool="recall"
            )

        agent.run(agent.store.write(Principal(actor="officer"), Action.WRITE, propose))
        said = {"recall": "recall_1", "reason": "poisoned"}
        (first,) = agent.call("graph_next", project="p", claim=True)["nodes"]
        assert (first["node"]["id"], first["node"]["untrusted"]) == (ids["b"], said)
        assert [each["untrusted"] for each in first["ancestors"]] == [said, said]
        told = agent.call("graph_context", node_id=ids["a"])
        assert [told["node"]["untrusted"], told["children"]["children"][0]["untrusted"]] == [said, said]
        assert agent.call("graph_context", node_id=ids["c"])["depends_on"][0]["node"]["untrusted"] == said
        assert all(node["untrusted"] == said for node in agent.query()["nodes"])
        assert agent.call("graph_open", project="p")["root"]["untrusted"] == said
        assert agent.resolve(ids["b"])["newly_actionable"][0]["untrusted"] == said
        told = agent.call("graph_onboard")
        shown = [told["tree"][0], told["tree"][0]["children"][0], told["recent_evidence"][0], told["actionable"][0]]
        assert [each["untrusted"] for each in shown] == [said] * 4
        (after,) = agent.call("graph_next", project="p", filter={}, scope=root)["nodes"][:1]
        assert after["node"]["untrusted"] == said
