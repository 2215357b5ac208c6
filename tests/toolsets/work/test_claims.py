"""Claims and sessions: two live sessions of one name are two agents; what an ended one had is free (X7)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.engine.sessions import Sessions
from tallystick.log import Head
from tallystick.toolsets.claims import Claims
from tallystick.work_settings import WorkSettings
from tests.promises import promise
from tests.toolsets.work.agents import MINUTE, WorkAgent, working

Said = dict[str, Any]


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    return Sessions(tmp_path)


@pytest.fixture
def agent(sessions: Sessions) -> Iterator[WorkAgent]:
    with working(claims=Claims(sessions=sessions)) as agent:
        agent.open("p")
        yield agent


def claim(agent: WorkAgent, session: str | None, actor: str = "mcp") -> Said | None:
    """What graph_next hands out, if anything."""
    with agent.as_(actor, session):
        told = agent.call("graph_next", project="p", claim=True)["nodes"]
        return told[0] if told else None


def held(entry: Said | None) -> str | None:
    return None if entry is None else entry["node"]["summary"]


@promise("X19", "the session is the run of what is written in it")
def test_the_session_stands_beside_the_claim_and_in_every_commit(agent: WorkAgent, sessions: Sessions) -> None:
    agent.plan({"ref": "a"})
    session = sessions.begin()
    given = claim(agent, session)
    assert given is not None
    properties = given["node"]["properties"]
    assert (properties["_claimed_by"], properties["_claimed_session"]) == ("mcp", session)
    (*_, newest) = (entry.commit for entry in agent.log.read(Head()))
    assert (newest.actor, newest.run_context) == ("mcp", {"run_id": session})


def test_two_live_sessions_of_one_name_never_get_the_same_node(agent: WorkAgent, sessions: Sessions) -> None:
    agent.plan({"ref": "a"}, {"ref": "b"})
    one, two = sessions.begin(), sessions.begin()
    assert (held(claim(agent, one)), held(claim(agent, two))) == ("a", "b")
    assert held(claim(agent, sessions.begin())) is None
    assert held(claim(agent, one)) == "a", "and each gets its own again"
    assert held(claim(agent, two)) == "b"


@promise("X7, taken over", "whose a claim was is told")
def test_what_an_ended_session_had_is_free_at_once_and_whose_it_was_is_told(
    agent: WorkAgent, sessions: Sessions
) -> None:
    ids = agent.plan({"ref": "a"})
    one = sessions.begin()
    claim(agent, one)
    at = agent.node(ids["a"])["properties"]["_claimed_at"]
    sessions.end(one)
    given = claim(agent, sessions.begin(), "other")
    assert given is not None
    assert given["taken_over"] == {"claimed_by": "mcp", "claimed_at": at, "why": "its session has ended"}


@promise("X7, unknown", "of a session nobody knows the name decides")
def test_of_a_session_nobody_knows_the_name_decides(agent: WorkAgent, sessions: Sessions) -> None:
    agent.plan({"ref": "a"})
    one = sessions.begin()
    claim(agent, one)
    sessions.forget(one)
    assert held(claim(agent, sessions.begin(), "other")) is None
    given = claim(agent, sessions.begin(), "mcp")
    assert given is not None
    assert given["taken_over"]["why"] == "nothing is known of its session"


def test_who_has_no_session_is_known_by_name(agent: WorkAgent, sessions: Sessions) -> None:
    agent.plan({"ref": "a"})
    claim(agent, sessions.begin())
    assert held(claim(agent, None, "other")) is None
    assert held(claim(agent, None, "mcp")) == "a"
    assert held(claim(agent, sessions.begin(), "mcp")) == "a", "a claim without a session, likewise"


def test_a_stale_claim_is_taken_over_from_the_living_too(agent: WorkAgent, sessions: Sessions) -> None:
    agent.plan({"ref": "a"})
    claim(agent, sessions.begin())
    agent.now += 60 * MINUTE
    given = claim(agent, sessions.begin())
    assert given is not None
    assert given["taken_over"]["why"] == "the claim is too old"
    assert "taken_over" not in (claim(agent, given["node"]["properties"]["_claimed_session"]) or {})


def test_a_session_that_ends_while_it_claims_has_claimed_nothing_for_long(agent: WorkAgent, sessions: Sessions) -> None:
    agent.plan({"ref": "a"})
    one = sessions.begin()
    sessions.end(one)
    assert held(claim(agent, one)) == "a"
    assert sessions.is_alive(one) is None


@pytest.mark.parametrize("session", ["../../head", "\0", "x" * 5_000, 7, ["a"], {"a": 1}])
def test_whatever_stands_beside_a_claim_the_name_still_decides(
    agent: WorkAgent, sessions: Sessions, session: Any
) -> None:
    ids = agent.plan({"ref": "a"})
    claim(agent, None, "ann")
    agent.update(ids["a"], properties={"_claimed_session": session})
    assert held(claim(agent, sessions.begin(), "bob")) is None
    assert held(claim(agent, sessions.begin(), "ann")) == "a"


def test_who_names_another_owner_does_not_speak_of_the_old_ones_session(agent: WorkAgent, sessions: Sessions) -> None:
    ids = agent.plan({"ref": "a"})
    one = sessions.begin()
    claim(agent, one)
    agent.update(ids["a"], properties={"_claimed_by": "bob"})
    assert "_claimed_session" not in agent.node(ids["a"])["properties"]
    sessions.end(one)
    assert held(claim(agent, one)) is None
    agent.update(ids["a"], properties={"_claimed_by": None, "_claimed_at": None})
    assert agent.node(ids["a"])["properties"] == {}


def test_each_session_sees_its_own_claims_when_it_joins(agent: WorkAgent, sessions: Sessions) -> None:
    ids = agent.plan({"ref": "a"}, {"ref": "b"})
    one, two = sessions.begin(), sessions.begin()
    claim(agent, one)
    claim(agent, two)
    for session, ref in ((one, "a"), (two, "b")):
        with agent.as_("mcp", session):
            assert agent.call("graph_onboard", project="p")["your_claims"] == [ids[ref]]
    sessions.end(two)
    assert [node["summary"] for node in agent.query(filter={"claimed_by": "mcp"})["nodes"]] == ["a"]
    assert [node["summary"] for node in agent.query(filter={"claimed_by": None, "is_leaf": True})["nodes"]] == ["b"]
    assert [each["summary"] for each in agent.call("graph_onboard", project="p")["actionable"]] == ["b"]


def test_sessions_of_one_name_that_ask_at_once_share_the_work(agent: WorkAgent, sessions: Sessions) -> None:
    agent.plan(*({"ref": str(number)} for number in range(20)))

    async def all_at_once() -> list[Said]:
        tasks = []
        for _ in range(8):
            agent.session = sessions.begin()
            asked = {"project": "p", "claim": True, "count": 2}
            # The session is read when the call begins.
            tasks.append(asyncio.ensure_future(agent._call("graph_next", asked, "mcp")))
            await asyncio.sleep(0)
        return [answer.data for answer in await asyncio.gather(*tasks)]

    given = [each["node"]["summary"] for told in agent.run(all_at_once()) for each in told["nodes"]]
    assert (len(given), len(set(given))) == (16, 16)


@promise("W30, none", "a claim that lasts for no time is stale at once")
def test_where_claims_last_for_no_time_every_one_is_stale_at_once(tmp_path: Path) -> None:
    with working(settings=WorkSettings(claim_ttl_minutes=0)) as agent:
        agent.open("p")
        agent.plan({"ref": "a"})
        assert held(claim(agent, None, "ann")) == "a"
        given = claim(agent, None, "bob")
        assert given is not None
        assert given["taken_over"]["claimed_by"] == "ann"
        agent.now -= 5 * MINUTE
        assert held(claim(agent, None, "cyd")) == "a", "even one from the future"
        assert agent.query(filter={"claimed_by": "cyd"})["total"] == 0


def test_each_session_goes_on_in_the_project_that_it_opened(agent: WorkAgent, sessions: Sessions) -> None:
    one, two = sessions.begin(), sessions.begin()
    for session, project in ((one, "p"), (two, "q")):
        with agent.as_("mcp", session):
            agent.open(project)
    with agent.as_("mcp", one):
        agent.plan({"ref": "a"})
        assert (agent.next("p"), agent.next("q")) == (["a"], ["q"])


# -- named, released, left unfinished


def test_a_named_node_is_handed_out_and_claimed(agent: WorkAgent, sessions: Sessions) -> None:
    ids = agent.plan({"ref": "a"}, {"ref": "b", "properties": {"priority": 9}})
    with agent.as_("mcp", sessions.begin()):
        (entry,) = agent.call("graph_next", node_id=ids["a"], claim=True)["nodes"]
    assert entry["node"]["id"] == ids["a"]
    assert agent.node(ids["a"])["properties"]["_claimed_by"] == "mcp"


def test_a_named_node_that_another_session_holds_or_that_waits_is_refused(agent: WorkAgent, sessions: Sessions) -> None:
    ids = agent.plan({"ref": "a"}, {"ref": "b", "depends_on": ["a"]})
    one = sessions.begin()
    claim(agent, one)
    with agent.as_("mcp", sessions.begin()):
        refusal = agent.refusal("graph_next", node_id=ids["a"], claim=True)
        assert refusal["error"] == "claimed"
        assert one in refusal["message"]
        assert "not ready" in agent.refusal("graph_next", node_id=ids["b"], claim=True)["message"]


def test_a_released_claim_is_free_and_nobody_else_can_release_it(agent: WorkAgent, sessions: Sessions) -> None:
    ids = agent.plan({"ref": "a"})
    one, two = sessions.begin(), sessions.begin()
    claim(agent, one)
    with agent.as_("mcp", two):
        assert agent.refusal("graph_next", release=ids["a"])["error"] == "claimed"
    with agent.as_("bob"):
        assert agent.refusal("graph_next", release=ids["a"])["error"] == "claimed"
    with agent.as_("mcp", one):
        assert agent.call("graph_next", release=ids["a"])["released"] == ids["a"]
        assert agent.call("graph_next", release=ids["a"])["hint"] == f"'{ids['a']}' is not claimed"
    assert held(claim(agent, two, "bob")) == "a"


@pytest.mark.parametrize(
    "arguments",
    [{"release": "a", "claim": True}, {"node_id": "a", "count": 2}, {"node_id": "a", "scope": "a"}],
    ids=str,
)
def test_arguments_that_would_have_no_effect_are_refused(agent: WorkAgent, arguments: dict[str, Any]) -> None:
    assert "does not go with" in agent.refusal("graph_next", **arguments)["message"]


def test_what_an_earlier_session_of_the_agent_left_comes_first(agent: WorkAgent, sessions: Sessions) -> None:
    ids = agent.plan({"ref": "a"}, {"ref": "urgent", "properties": {"priority": 9}})
    one = sessions.begin()
    with agent.as_("mcp", one):
        agent.call("graph_next", node_id=ids["a"], claim=True)
    sessions.end(one)
    assert held(claim(agent, sessions.begin())) == "a"


def test_another_agent_is_handed_the_best_ready_node_first(agent: WorkAgent, sessions: Sessions) -> None:
    ids = agent.plan({"ref": "a"}, {"ref": "urgent", "properties": {"priority": 9}})
    one = sessions.begin()
    with agent.as_("mcp", one):
        agent.call("graph_next", node_id=ids["a"], claim=True)
    sessions.end(one)
    assert held(claim(agent, sessions.begin(), "other")) == "urgent"


def test_changing_what_another_session_holds_warns(agent: WorkAgent, sessions: Sessions) -> None:
    ids = agent.plan({"ref": "a"}, {"ref": "b"})
    one, two = sessions.begin(), sessions.begin()
    claim(agent, one)
    with agent.as_("mcp", two):
        needed = {"from": ids["a"], "to": ids["b"], "type": "depends_on"}
        for edge in (needed, {**needed, "remove": True}):
            (warning,) = agent.call("graph_connect", edges=[edge])["warnings"]
            assert one in warning
        turned = {"from": ids["b"], "to": ids["a"], "type": "depends_on"}
        assert "warnings" not in agent.call("graph_connect", edges=[turned])
        (warning,) = agent.update(ids["a"], summary="changed")["warnings"]
        assert f"'{ids['a']}' is claimed by 'mcp' in session {one}" in warning
        drop = {"op": "drop", "node_id": ids["a"], "reason": "not needed"}
        (warning,) = agent.call("graph_restructure", operations=[drop])["warnings"]
        assert one in warning
    with agent.as_("mcp", one):
        assert "warnings" not in agent.update(ids["b"], summary="free")
