"""graph_history: what happened to a node, and nothing of it lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.commits import Draft, Operation, Verb
from tallystick.policy import Action, Principal
from tallystick.system.turns import finished
from tallystick.toolsets.truncation import fair_share, shortened, size_of
from tests.promises import promise
from tests.toolsets.work.agents import WorkAgent


def changes_of(event: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {change["field"]: (change["before"], change["after"]) for change in event["changes"]}


@pytest.fixture
def a(agent: WorkAgent) -> str:
    return agent.plan({"ref": "a", "properties": {"priority": 1, "area": "ui"}, "context_links": ["x"]})["a"]


@promise("W46", "creation lists what was said with nothing before")
def test_creation_lists_what_was_said_with_nothing_before(agent: WorkAgent, a: str) -> None:
    (created,) = agent.events(a)
    assert (created["action"], created["agent"]) == ("created", "ann")
    assert created["timestamp"] == agent.node(a)["created_at"]
    assert changes_of(created) == {
        "summary": (None, "a"),
        "parent": (None, agent.open()),
        "properties": (None, {"priority": 1, "area": "ui"}),
        "context_links": (None, ["x"]),
    }


@promise("graph_history", "before and after for each field")
def test_an_update_has_before_and_after_for_each_field(agent: WorkAgent, a: str) -> None:
    agent.update(a, state="begun")
    with agent.as_("bob"):
        agent.update(
            a,
            summary="b",
            state={"phase": 2},
            properties={"priority": 5, "area": None, "new": True},
            add_context_links=["y"],
            remove_context_links=["x"],
            add_evidence=[{"type": "git", "ref": "1"}],
        )
    event = agent.events(a)[0]
    assert (event["action"], event["agent"]) == ("updated", "bob")
    changes = changes_of(event)
    assert changes.pop("evidence") == ([], agent.node(a)["evidence"])
    assert changes == {
        "summary": ("a", "b"),
        "state": ("begun", {"phase": 2}),
        "properties": ({"priority": 1, "area": "ui"}, {"priority": 5, "new": True}),
        "context_links": (["x"], ["y"]),
    }


@promise("graph_history, whole", "before and after are the whole field")
def test_before_and_after_are_the_whole_field(agent: WorkAgent, a: str) -> None:
    agent.update(a, properties={"priority": 2}, add_context_links=["y"], add_evidence=[{"type": "git", "ref": "1"}])
    agent.update(
        a, properties={"deep": {"er": [1]}}, add_context_links=["z"], add_evidence=[{"type": "git", "ref": "2"}]
    )
    changes = changes_of(agent.events(a)[0])
    evidence = agent.node(a)["evidence"]
    assert changes == {
        "properties": ({"priority": 2, "area": "ui"}, {"priority": 2, "area": "ui", "deep": {"er": [1]}}),
        "context_links": (["x", "y"], ["x", "y", "z"]),
        "evidence": (evidence[:1], evidence),
    }
    long = "long " * 399
    agent.update(a, summary=long)
    assert changes_of(agent.events(a)[0]) == {"summary": ("a", long)}


BIG = "é" * 4_000


@promise("graph_history, size", "an event that is too large is cut and says so")
def test_an_event_that_is_too_large_is_cut_and_says_so(agent: WorkAgent, a: str) -> None:
    """Every field at its largest, and much more evidence than an answer could hold."""
    for number in range(8):
        agent.update(a, add_evidence=[{"type": "note", "ref": f"{number} {BIG[:3_900]}"}] * 10)
    state = [{"deep": ["x" * 500] * 5}, {"k" * 300: 1}, "\x00" * 300]
    agent.update(a, summary="s" * 2_000, state=state, properties={f"p{n}": "v" * 90 for n in range(60)})
    page = agent.call("graph_history", node_id=a)
    assert size_of(page) < 60_000
    last, before_it = page["events"][:2]
    assert size_of(last) < 9_000
    cut = {change["field"]: change.get("truncated") for change in last["changes"]}
    assert cut == {"summary": None, "state": True, "properties": True}
    assert changes_of(last)["summary"] == ("a", "s" * 2_000)
    (change,) = before_it["changes"]
    assert change["truncated"] is True
    assert change["after"][-1]["ref"].startswith("7 é")
    while "next_cursor" in page:
        page = agent.call("graph_history", node_id=a, cursor=page["next_cursor"])
    assert page["events"][-1]["action"] == "created"


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=40,
)


@given(JSON_VALUES, st.integers(20, 200))
def test_whatever_is_cut_fits_and_what_fits_is_not_cut(value: Any, bytes_max: int) -> None:
    cut = shortened(value, bytes_max)
    if size_of(value) <= bytes_max:
        assert cut == value
    else:
        assert type(cut) is type(value)
        assert size_of(cut) <= bytes_max or isinstance(value, int)


@given(st.lists(st.integers(0, 1_000)), st.integers(0, 5_000))
def test_what_the_small_ones_leave_is_for_the_large_ones(sizes: list[int], total: int) -> None:
    share = fair_share(sizes, total)
    assert sum(min(size, share) for size in sizes) <= total
    assert sum(sizes) > total or all(size <= share for size in sizes)


def test_resolving_and_reopening_are_told_apart(agent: WorkAgent, a: str) -> None:
    agent.resolve(a)
    agent.update(a, resolved=False)
    reopened, resolved, _ = agent.events(a)
    assert (resolved["action"], changes_of(resolved)["resolved"]) == ("resolved", (False, True))
    assert (reopened["action"], changes_of(reopened)) == ("reopened", {"resolved": (True, False)})


def test_a_claim_is_an_event(agent: WorkAgent, a: str) -> None:
    with agent.as_("bob"):
        agent.next(claim=True)
    claimed = agent.events(a)[0]
    assert (claimed["action"], claimed["agent"]) == ("claimed", "bob")
    before, after = changes_of(claimed)["properties"]
    assert (before, after["_claimed_by"]) == ({"priority": 1, "area": "ui"}, "bob")


def test_a_move_tells_both_parents(agent: WorkAgent, a: str) -> None:
    parent = agent.plan({"ref": "parent"})["parent"]
    agent.restructure("move", node_id=a, new_parent=parent)
    moved = agent.events(a)[0]
    assert (moved["action"], changes_of(moved)) == ("moved", {"parent": (agent.open(), parent)})


def test_a_drop_is_told_on_every_node_with_its_reason(agent: WorkAgent, a: str) -> None:
    child = agent.plan({"ref": "child", "parent_ref": a})["child"]
    agent.restructure("drop", node_id=a, reason="too dear")
    for node_id in (a, child):
        dropped = agent.events(node_id)[0]
        assert dropped["action"] == "dropped"
        assert changes_of(dropped)["resolved"] == (False, True)
        assert changes_of(dropped)["evidence"][1][0]["ref"] == "too dear"


@promise("W45", "a merged node's history is read by its id")
def test_a_merge_tells_the_survivor_what_it_absorbed_and_the_gone_where_it_went(agent: WorkAgent, a: str) -> None:
    ids = agent.plan({"ref": "target"}, {"ref": "child", "parent_ref": a})
    agent.update(a, state="half", add_evidence=[{"type": "note", "ref": "1"}])
    agent.restructure("merge", source=a, target=ids["target"])
    merged = agent.events(ids["target"])[0]
    assert merged["action"] == "merged"
    assert changes_of(merged)["merged"] == (
        None,
        {
            "id": a,
            "summary": "a",
            "resolved": False,
            "state": "half",
            "properties": {"priority": 1, "area": "ui"},
            "context_links": ["x"],
        },
    )
    assert changes_of(merged)["evidence"][1][0]["ref"] == "1"
    gone = agent.events(a)
    assert [event["action"] for event in gone] == ["merged", "updated", "created"]
    assert changes_of(gone[0]) == {"merged_into": (None, ids["target"])}
    assert agent.events(ids["child"])[0]["action"] == "moved"


@promise("W45, edges", "edges are events of the node they start from")
def test_edges_are_events_of_the_node_they_start_from(agent: WorkAgent, a: str) -> None:
    b = agent.plan({"ref": "b", "depends_on": [a]})["b"]
    agent.connect(b, a, "relates_to")
    agent.connect(b, a, remove=True)
    assert [(event["action"], changes_of(event)) for event in agent.events(b)] == [
        ("edge_removed", {"depends_on": (a, None)}),
        ("edge_added", {"relates_to": (None, a)}),
        ("edge_added", {"depends_on": (None, a)}),
        ("created", {"summary": (None, "b"), "parent": (None, agent.open())}),
    ]
    assert [event["action"] for event in agent.events(a)] == ["created"]


@promise("graph_history, cursor", "pages lose nothing, whatever happens in between")
def test_pages_lose_nothing_and_repeat_nothing_whatever_happens_in_between(agent: WorkAgent, a: str) -> None:
    for number in range(30):
        agent.update(a, state=number)
    seen: list[Any] = []
    cursor: dict[str, str] = {}
    while True:
        page = agent.call("graph_history", node_id=a, limit=4, **cursor)
        seen += [changes_of(event)["state"][1] for event in page["events"] if event["action"] == "updated"]
        if "next_cursor" not in page:
            break
        cursor = {"cursor": page["next_cursor"]}
        agent.update(a, state=f"meanwhile {len(seen)}")
    assert seen == list(range(29, -1, -1))


def test_a_page_may_be_full_of_what_is_no_event_of_the_node(
    agent: WorkAgent, a: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many depend on it: those edges are theirs."""
    monkeypatch.setattr("tallystick.toolsets.work.history._STEPS_READ", 7)
    agent.plan(*({"ref": str(number), "depends_on": [a]} for number in range(20)))
    actions: list[str] = []
    cursor: dict[str, str] = {}
    for _ in range(10):
        page = agent.call("graph_history", node_id=a, **cursor)
        actions += [event["action"] for event in page["events"]]
        if "next_cursor" not in page:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert actions == ["created"]


def test_limit_is_20_and_at_most_100(agent: WorkAgent, a: str) -> None:
    for number in range(110):
        agent.update(a, state=number)
    assert len(agent.call("graph_history", node_id=a)["events"]) == 20
    assert len(agent.call("graph_history", node_id=a, limit=500)["events"]) == 100


def test_a_redaction_is_told_and_shows_nothing(agent: WorkAgent, a: str) -> None:
    state = agent.partition._state

    def propose(_: Any, read_filter: object) -> Draft:
        redacts = finished(state.redaction(a, ("attrs.summary",)))
        payload = {"node_id": a, "reason": "private", "redacted_fields": ["attrs.summary"]}
        operation = Operation(Verb.REDACT_NODE, payload, redacts=redacts)
        return Draft((operation,), actor="officer", tool="memory.write")

    agent._runner.run(agent.store.write(Principal(actor="officer"), Action.WRITE, propose))
    assert [event["action"] for event in agent.events(a)] == ["redacted", "created"]
    assert "'a'" not in str(agent.events(a))
    assert agent.node(a)["summary"] == "[REDACTED]"
    assert agent.found(text="redacted") == ["[REDACTED]"]


def test_mistakes_are_named(agent: WorkAgent, a: str) -> None:
    assert agent.refusal("graph_history", node_id="nobody")["error"] == "node_not_found"
    for asked in ({"cursor": "x"}, {"cursor": "h-1"}, {"cursor": "h" + "9" * 30}, {"cursor": ""}, {"limit": 0}):
        assert agent.refusal("graph_history", node_id=a, **asked)["error"] == "validation_error"
