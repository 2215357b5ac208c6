"""memory.search and what may not hold any more: behind what does, listed alone, and flagged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.promises import promise
from tests.toolsets.agent import Agent, working
from tests.toolsets.test_memory_stale import HiddenPolicy

PAST = "2025-01-01T00:00:00.000Z"


@pytest.fixture
def ports(agent: Agent) -> Agent:
    agent.node("old", text="the database port", stale_after=PAST)
    agent.node("before", text="the database port")
    agent.node("now", text="the database port", supersedes=["before"])
    agent.node("tea", text="green tea", stale_after=PAST, colour="green")
    agent.edge("now", "see", "tea")
    return agent


@promise("X24, ranking", "of equal scores the stale come last, and lead to their successor")
def test_of_equal_scores_the_stale_come_last_and_lead_to_their_successor(ports: Agent) -> None:
    found = ports.search(query="database port")["entities"]
    assert [each["id"] for each in found[:1]] == ["now"]
    assert {each["id"]: each.get("stale", {}).get("why") for each in found} == {
        "now": None,
        "old": "past its time",
        "before": "superseded",
    }
    text = ports.answer("memory.search", {"query": "database port"}).text or ""
    assert "stale: superseded → now" in text


@promise("X24, memory.search", "only what is stale is listed when that is asked for")
def test_only_what_is_stale_is_listed_when_that_is_asked_for(ports: Agent) -> None:
    assert sorted(ports.ids(stale=True)) == ["before", "old", "tea"]
    assert ports.ids(stale=True, type="person") == []
    assert ports.ids(stale=True, attrs={"colour": "green"}) == ["tea"]
    assert sorted(ports.ids(stale=True, query="port")) == ["before", "old"]
    assert ports.ids(stale=True, entity_id="now", traversal={}) == ["tea"]
    assert ports.ids(stale=True, entity_id="now") == []
    assert all("stale" in each for each in ports.search(stale=True)["entities"])
    ports.write(op="PATCH_NODE", node={"id": "tea", "attrs": {"verified": True}})
    assert sorted(ports.ids(stale=True)) == ["before", "old"]
    assert len(ports.ids(stale=False)) == 4


@pytest.mark.parametrize("with_it", [{"as_of": 1}, {"if_position": 1}])
def test_what_is_stale_is_judged_now(ports: Agent, with_it: dict[str, int]) -> None:
    refused = ports.refusal("memory.search", stale=True, **with_it)
    assert next(iter(with_it)) in refused["message"]


def test_a_hit_says_the_fact_and_not_what_was_pinned_of_it(agent: Agent) -> None:
    pin = {"path": "docs/port.md", "hash": "0" * 40, "at": PAST, "commit": "1" * 40}
    agent.node("port", text="the database port", cites=[pin], verified=True, stale_after="2999-01-01")
    (hit,) = agent.search(query="database")["entities"]
    assert hit["text"] == "the database port · cites: docs/port.md"
    assert agent.ids(query="port.md") == ["port"]


@pytest.fixture
def secretive() -> Iterator[Agent]:
    with working(HiddenPolicy()) as agent:
        yield agent


def test_what_may_not_be_read_is_neither_listed_nor_a_reason(secretive: Agent) -> None:
    secretive.node("hidden", stale_after=PAST)
    secretive.node("open")
    secretive.node("hidden2", supersedes=["open"])
    assert secretive.ids(stale=True) == []
    assert secretive.search(stale=True)["pagination"]["total"] == 0
