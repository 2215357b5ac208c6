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
from tests.policy.gated import Distant
from tests.shared_base import bytes_of
from tests.toolsets.work.agents import Links, Team, summaries, working


def rule(request: Request) -> bool:
    """What eve made is hers alone; what fay made may be read, and that is all."""
    owner = request.resource_owner
    if owner in (None, request.principal.actor):
        return True
    return owner != "eve" and (owner != "fay" or request.action in (Action.READ, Action.SEARCH))


class Local:
    def decide(self, request: Request) -> Decision:
        return Decision(rule(request), "by the rule", "local@1")


@pytest.fixture(params=[Local, lambda: Distant(rule)], ids=["in process", "distant"])
def team(request: pytest.FixtureRequest) -> Iterator[Team]:
    with working(policy=request.param(), knowledge=Links()) as team:
        team.open("p", goal="Ship it")
        yield team


class Plan:
    """Ann's: top ⊃ low, free. Eve's: hers, under ann's top, with ann's deep and fay's own below it.

    low waits for hers, which is done; hers was told of a link and has evidence.
    """

    def __init__(self, team: Team) -> None:
        self.root = team.open()
        ann = team.plan({"ref": "top", "context_links": ["top.md"]}, {"ref": "free"})
        with team.as_("eve"):
            eve = team.plan(
                {"ref": "hers", "summary": "evil", "parent_ref": ann["top"], "context_links": ["evil.md"]},
                {"ref": "later", "summary": "evil too", "parent_ref": "hers"},
            )
            deep = self._below(team, "ann", "deep", eve["hers"])
        fay = self._below(team, "fay", "fays", ann["top"])
        low = team.plan({"ref": "low", "parent_ref": ann["top"]})
        # With eve's eyes, since ann could not say what it waits for.
        with team.as_("eve"):
            team.connect(low["low"], eve["hers"])
            team.connect(eve["later"], ann["free"], "relates_to")
            team.resolve(eve["hers"], add_evidence=[{"type": "note", "ref": "evil deed"}])
        self.ids = ann | eve | deep | fay | low

    @staticmethod
    def _below(team: Team, agent: str, ref: str, parent: str) -> dict[str, str]:
        """By whoever may read the parent, handed over to `agent`: made by a draft of its own."""
        node_id = team.tool_context.ids()

        def propose(state: State, read_filter: object) -> Draft:
            with DraftBuilder(state) as builder:
                project = builder.attrs(parent)["project"]
                attrs = {"project": project, "parent": parent, "summary": ref, "resolved": False, "rev": 1}
                builder.put(node_id, attrs)
                return Draft(tuple(builder.operations), actor=agent, tool="test")

        team.run(team.store.write(Principal(actor="root"), Action.WRITE, propose))
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


@pytest.mark.parametrize(("tool", "arguments"), READS, ids=[f"{tool}-{n}" for n, (tool, _) in enumerate(READS)])
def test_no_answer_tells_of_what_may_not_be_read(team: Team, tool: str, arguments: dict[str, Any]) -> None:
    plan = Plan(team)
    named = {key: plan.ids.get(value, value) if key == "node_id" else value for key, value in arguments.items()}
    told = bytes_of(team.call(tool, **named))
    for word in plan.hidden():
        assert word not in told, told
    with team.as_("eve"):
        told = bytes_of(team.call(tool, **named))
        assert tool == "graph_open" or any(word in told for word in plan.hidden())


def test_what_is_told_is_all_there_is_to_be_read(team: Team) -> None:
    plan = Plan(team)
    ids = plan.ids
    assert team.counts() == {"total": 6, "resolved": 0, "unresolved": 6, "blocked": 0, "actionable": 4}
    (line,) = team.call("graph_open")["projects"]
    assert (line["total"], line["resolved"], line["id"]) == (6, 0, plan.root)
    told = team.call("graph_onboard")
    assert (told["summary"]["total"], told["recent_evidence"], told["context_links"]) == (6, [], ["top.md"])
    assert [summaries(branch.get("children", [])) for branch in told["tree"]] == [["fays", "low"], []]
    assert team.query(sort="created")["total"] == 6
    told = team.call("graph_context", node_id=ids["top"], depth=1)
    assert summaries(told["children"]["children"]) == ["fays", "low"]
    assert "child_count" not in told["children"]
    assert team.call("graph_context", node_id=ids["top"], depth=0)["children"]["child_count"] == 2
    told = team.call("graph_context", node_id=ids["deep"])
    assert (told["node"]["parent"], summaries(told["ancestors"]), told["knowledge"]["links"]) == (
        None,
        ["Ship it", "top"],
        ["top.md"],
    )
    assert team.call("graph_context", node_id=ids["low"])["depends_on"] == []
    (first,) = team.call("graph_next", project="p", filter={}, scope=ids["top"])["nodes"]
    assert first["resolved_deps"] == []
    (event,) = team.events(ids["deep"])
    assert [change["field"] for change in event["changes"]] == ["summary"]


def test_of_very_many_nodes_only_some_are_counted_and_that_is_said(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_MEMBERS_COUNTED", 3)
    team.plan(*({"ref": f"t{number}"} for number in range(5)))
    counts = {"total": 3, "resolved": 0, "unresolved": 3, "blocked": 0, "actionable": 2}
    assert team.counts() == counts | {"partial": True}
    assert team.call("graph_open")["projects"][0]["partial"] is True


def test_a_project_that_may_not_be_read_is_not_there(team: Team) -> None:
    with team.as_("eve"):
        root = team.open("evil plan")
    for tool in ("graph_next", "graph_query", "graph_onboard"):
        for name in ("evil plan", root):
            refused = team.refusal(tool, project=name)
            assert (refused["error"], refused["projects"]) == ("project_not_found", ["p"]), tool
    assert [each["project"] for each in team.call("graph_open")["projects"]] == ["p"]
    assert team.call("graph_onboard")["project"] == "p"
    refused = team.refusal("graph_open", project="evil plan")
    assert (refused["error"], root in str(refused)) == ("name_taken", False)


NAMED = (
    ("graph_plan", lambda node: {"nodes": [{"ref": "x", "summary": "x", "parent_ref": node}]}),
    ("graph_plan", lambda node: {"nodes": [{"ref": "x", "summary": "x", "depends_on": [node]}]}),
    ("graph_query", lambda node: {"project": "p", "filter": {"ancestor": node}}),
    ("graph_next", lambda node: {"project": "p", "scope": node}),
)


@pytest.mark.parametrize(("tool", "arguments"), NAMED)
def test_who_guesses_the_id_of_what_may_not_be_read_is_told_what_a_stranger_would_be(
    team: Team, tool: str, arguments: Any
) -> None:
    plan = Plan(team)
    hidden, nobody = plan.ids["hers"], "x" * 10
    told = str(team.refusal(tool, **arguments(hidden)))
    assert told.replace(hidden, nobody) == str(team.refusal(tool, **arguments(nobody)))


# -- writing


def test_next_hands_out_and_claims_only_what_may_be_read(team: Team) -> None:
    with team.as_("eve"):
        team.plan({"ref": "hers", "summary": "evil", "properties": {"priority": 9}})
    team.plan({"ref": "mine"})
    assert team.next(count=5) == ["mine"]
    assert team.next(claim=True) == ["mine"]
    with team.as_("bob"):
        told = team.call("graph_next", project="p", claim=True)
        assert (told["nodes"], told["hint"]) == ([], "nothing to hand out among the nodes that you may read")
    with team.as_("eve"):
        assert team.next(claim=True) == ["evil"]


def test_what_may_be_read_and_not_written_is_not_claimed_or_changed(team: Team) -> None:
    ids = team.plan({"ref": "mine"})
    with team.as_("fay"):
        ids |= team.plan({"ref": "fays", "properties": {"priority": 9}}, {"ref": "below", "parent_ref": "fays"})
    ids |= team.plan({"ref": "child", "parent_ref": ids["fays"]})
    refusals = (
        ("graph_next", {"project": "p", "claim": True, "count": 5}),
        ("graph_update", {"updates": [{"node_id": ids["mine"], "state": 1}, {"node_id": ids["fays"], "state": 1}]}),
        ("graph_update", {"updates": [{"node_id": ids["fays"], "resolved": True}]}),
        ("graph_connect", {"edges": [_edge(ids["mine"], ids["child"]), _edge(ids["fays"], ids["child"])]}),
        ("graph_restructure", {"operations": [{"op": "merge", "source": ids["mine"], "target": ids["fays"]}]}),
        ("graph_restructure", {"operations": [{"op": "merge", "source": ids["fays"], "target": ids["mine"]}]}),
        ("graph_restructure", {"operations": [{"op": "drop", "node_id": ids["fays"], "reason": "no"}]}),
        ("graph_restructure", {"operations": [{"op": "drop", "node_id": team.open(), "reason": "no"}]}),
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
        told = team.refusal(tool, **arguments)
        assert (told["error"], told["policy_decision"]["reason"]) == ("authorization_denied", "by the rule"), arguments
        assert "(owned by 'fay')" in told["message"]


def _edge(source: str, target: str) -> dict[str, str]:
    return {"from": source, "to": target, "type": "relates_to"}


def test_what_a_change_sets_free_is_told_as_far_as_it_may_be_read(team: Team) -> None:
    mine = team.plan({"ref": "first"}, {"ref": "second", "depends_on": ["first"]})
    with team.as_("eve"):
        team.plan({"ref": "third", "summary": "evil", "depends_on": [mine["first"]]})
    assert summaries(team.resolve(mine["first"])["newly_actionable"]) == ["second"]


def test_a_cycle_is_told_without_the_names_of_what_may_not_be_read(team: Team) -> None:
    ids = team.plan({"ref": "a"}, {"ref": "b"})
    with team.as_("eve"):
        ids |= team.plan({"ref": "c", "depends_on": [ids["a"]]})
        team.connect(ids["b"], ids["c"])
    (rejected,) = team.connect(ids["a"], ids["b"])["rejected"]
    assert rejected["reason"] == "cycle_detected"
    assert rejected["detail"].endswith(f"{ids['a']} -> {ids['b']} -> (withheld) -> {ids['a']}")


def test_what_was_merged_away_and_may_not_be_read_stays_unsaid(team: Team) -> None:
    ids = team.plan({"ref": "mine"})
    with team.as_("eve"):
        ids |= team.plan({"ref": "hers", "summary": "evil"})
        team.restructure("merge", source=ids["hers"], target=ids["mine"])
    assert b"evil" not in bytes_of(team.events(ids["mine"]))
    told = team.refusal("graph_update", updates=[{"node_id": ids["mine"], "state": 1}, {"node_id": ids["hers"]}])
    assert (told["error"], "merged_into" in told) == ("node_not_found", False)


def test_agents_that_claim_at_once_get_different_nodes_whoever_decides(team: Team) -> None:
    team.plan(*({"ref": f"t{number}"} for number in range(12)))
    agents = [f"agent{number}" for number in range(12)]
    told = team.together([(agent, "graph_next", {"project": "p", "claim": True}) for agent in agents])
    assert len({answer["nodes"][0]["node"]["id"] for answer in told}) == 12


def test_who_looks_on_sees_what_may_be_read(team: Team) -> None:
    plan = Plan(team)
    with team.as_("eve"):
        team.call("graph_next", project="p", claim=True, scope=plan.ids["hers"])
    told = bytes_of(team.run(watch(team.tool_context, team.store, Principal(actor="ann"))))
    for word in plan.hidden():
        assert word not in told
    assert plan.ids["low"].encode() in told


def test_who_may_not_read_a_node_is_refused_its_context_and_history(team: Team) -> None:
    plan = Plan(team)
    for tool in ("graph_context", "graph_history"):
        assert team.refusal(tool, node_id=plan.ids["hers"])["error"] == "authorization_denied"


# -- recalled


def test_a_recalled_node_is_handed_out_and_says_so_wherever_it_is_shown() -> None:
    with working() as team:
        root = team.open()
        ids = team.plan({"ref": "a"}, {"ref": "b", "parent_ref": "a"}, {"ref": "c", "depends_on": ["b"]})
        quiet = bytes_of([team.call("graph_onboard"), team.call("graph_next", project="p"), team.query()])
        assert b"untrusted" not in quiet

        def propose(state: State, read_filter: object) -> Draft:
            return Draft(
                trust.recall("recall_1", "poisoned", [*ids.values(), root], {}), actor="officer", tool="recall"
            )

        team.run(team.store.write(Principal(actor="officer"), Action.WRITE, propose))
        said = {"recall": "recall_1", "reason": "poisoned"}
        (first,) = team.call("graph_next", project="p", claim=True)["nodes"]
        assert (first["node"]["id"], first["node"]["untrusted"]) == (ids["b"], said)
        assert [each["untrusted"] for each in first["ancestors"]] == [said, said]
        told = team.call("graph_context", node_id=ids["a"])
        assert [told["node"]["untrusted"], told["children"]["children"][0]["untrusted"]] == [said, said]
        assert team.call("graph_context", node_id=ids["c"])["depends_on"][0]["node"]["untrusted"] == said
        assert all(node["untrusted"] == said for node in team.query()["nodes"])
        assert team.call("graph_open", project="p")["root"]["untrusted"] == said
        assert team.resolve(ids["b"])["newly_actionable"][0]["untrusted"] == said
        told = team.call("graph_onboard")
        shown = [told["tree"][0], told["tree"][0]["children"][0], told["recent_evidence"][0], told["actionable"][0]]
        assert [each["untrusted"] for each in shown] == [said] * 4
        (after,) = team.call("graph_next", project="p", filter={}, scope=root)["nodes"][:1]
        assert after["node"]["untrusted"] == said
