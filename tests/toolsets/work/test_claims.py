"""Claims and sessions: two live sessions of one name are two agents; what an ended one had is free (X7)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.log import Head
from tallystick.sessions import Sessions
from tallystick.toolsets.claims import Claims
from tallystick.toolsets.work.settings import WorkSettings
from tests.toolsets.work.agents import MINUTE, Team, working

Said = dict[str, Any]


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    return Sessions(tmp_path)


@pytest.fixture
def team(sessions: Sessions) -> Iterator[Team]:
    with working(claims=Claims(sessions=sessions)) as team:
        team.open("p")
        yield team


def claim(team: Team, session: str | None, agent: str = "mcp") -> Said | None:
    """What graph_next hands out, if anything."""
    with team.as_(agent, session):
        told = team.call("graph_next", project="p", claim=True)["nodes"]
        return told[0] if told else None


def held(entry: Said | None) -> str | None:
    return None if entry is None else entry["node"]["summary"]


def test_the_session_stands_beside_the_claim_and_in_every_commit(team: Team, sessions: Sessions) -> None:
    team.plan({"ref": "a"})
    session = sessions.begin()
    given = claim(team, session)
    assert given is not None
    properties = given["node"]["properties"]
    assert (properties["_claimed_by"], properties["_claimed_session"]) == ("mcp", session)
    (*_, newest) = (entry.commit for entry in team.log.read(Head()))
    assert (newest.actor, newest.run_context) == ("mcp", {"run_id": session})


def test_two_live_sessions_of_one_name_never_get_the_same_node(team: Team, sessions: Sessions) -> None:
    team.plan({"ref": "a"}, {"ref": "b"})
    one, two = sessions.begin(), sessions.begin()
    assert (held(claim(team, one)), held(claim(team, two))) == ("a", "b")
    assert held(claim(team, sessions.begin())) is None
    assert held(claim(team, one)) == "a", "and each gets its own again"
    assert held(claim(team, two)) == "b"


def test_what_an_ended_session_had_is_free_at_once_and_whose_it_was_is_told(team: Team, sessions: Sessions) -> None:
    ids = team.plan({"ref": "a"})
    one = sessions.begin()
    claim(team, one)
    at = team.node(ids["a"])["properties"]["_claimed_at"]
    sessions.end(one)
    given = claim(team, sessions.begin(), "other")
    assert given is not None
    assert given["taken_over"] == {"claimed_by": "mcp", "claimed_at": at, "why": "its session has ended"}


def test_of_a_session_nobody_knows_the_name_decides(team: Team, sessions: Sessions) -> None:
    team.plan({"ref": "a"})
    one = sessions.begin()
    claim(team, one)
    sessions.forget(one)
    assert held(claim(team, sessions.begin(), "other")) is None
    given = claim(team, sessions.begin(), "mcp")
    assert given is not None
    assert given["taken_over"]["why"] == "nothing is known of its session"


def test_who_has_no_session_is_known_by_name(team: Team, sessions: Sessions) -> None:
    team.plan({"ref": "a"})
    claim(team, sessions.begin())
    assert held(claim(team, None, "other")) is None
    assert held(claim(team, None, "mcp")) == "a"
    assert held(claim(team, sessions.begin(), "mcp")) == "a", "a claim without a session, likewise"


def test_a_stale_claim_is_taken_over_from_the_living_too(team: Team, sessions: Sessions) -> None:
    team.plan({"ref": "a"})
    claim(team, sessions.begin())
    team.now += 60 * MINUTE
    given = claim(team, sessions.begin())
    assert given is not None
    assert given["taken_over"]["why"] == "the claim is too old"
    assert "taken_over" not in (claim(team, given["node"]["properties"]["_claimed_session"]) or {})


def test_a_session_that_ends_while_it_claims_has_claimed_nothing_for_long(team: Team, sessions: Sessions) -> None:
    team.plan({"ref": "a"})
    one = sessions.begin()
    sessions.end(one)
    assert held(claim(team, one)) == "a"
    assert sessions.is_alive(one) is None


@pytest.mark.parametrize("session", ["../../head", "\0", "x" * 5_000, 7, ["a"], {"a": 1}])
def test_whatever_stands_beside_a_claim_the_name_still_decides(team: Team, sessions: Sessions, session: Any) -> None:
    ids = team.plan({"ref": "a"})
    claim(team, None, "ann")
    team.update(ids["a"], properties={"_claimed_session": session})
    assert held(claim(team, sessions.begin(), "bob")) is None
    assert held(claim(team, sessions.begin(), "ann")) == "a"


def test_who_names_another_owner_does_not_speak_of_the_old_ones_session(team: Team, sessions: Sessions) -> None:
    ids = team.plan({"ref": "a"})
    one = sessions.begin()
    claim(team, one)
    team.update(ids["a"], properties={"_claimed_by": "bob"})
    assert "_claimed_session" not in team.node(ids["a"])["properties"]
    sessions.end(one)
    assert held(claim(team, one)) is None
    team.update(ids["a"], properties={"_claimed_by": None, "_claimed_at": None})
    assert team.node(ids["a"])["properties"] == {}


def test_each_session_sees_its_own_claims_when_it_joins(team: Team, sessions: Sessions) -> None:
    ids = team.plan({"ref": "a"}, {"ref": "b"})
    one, two = sessions.begin(), sessions.begin()
    claim(team, one)
    claim(team, two)
    for session, ref in ((one, "a"), (two, "b")):
        with team.as_("mcp", session):
            assert team.call("graph_onboard", project="p")["your_claims"] == [ids[ref]]
    sessions.end(two)
    assert [node["summary"] for node in team.query(filter={"claimed_by": "mcp"})["nodes"]] == ["a"]
    assert [node["summary"] for node in team.query(filter={"claimed_by": None, "is_leaf": True})["nodes"]] == ["b"]
    assert [each["summary"] for each in team.call("graph_onboard", project="p")["actionable"]] == ["b"]


def test_sessions_of_one_name_that_ask_at_once_share_the_work(team: Team, sessions: Sessions) -> None:
    team.plan(*({"ref": str(number)} for number in range(20)))

    async def all_at_once() -> list[Said]:
        tasks = []
        for _ in range(8):
            team.session = sessions.begin()
            asked = {"project": "p", "claim": True, "count": 2}
            # The session is read when the call begins.
            tasks.append(asyncio.ensure_future(team._call("graph_next", asked, "mcp")))
            await asyncio.sleep(0)
        return [answer.data for answer in await asyncio.gather(*tasks)]

    given = [each["node"]["summary"] for told in team.run(all_at_once()) for each in told["nodes"]]
    assert (len(given), len(set(given))) == (16, 16)


def test_where_claims_last_for_no_time_every_one_is_stale_at_once(tmp_path: Path) -> None:
    with working(settings=WorkSettings(claim_ttl_minutes=0)) as team:
        team.open("p")
        team.plan({"ref": "a"})
        assert held(claim(team, None, "ann")) == "a"
        given = claim(team, None, "bob")
        assert given is not None
        assert given["taken_over"]["claimed_by"] == "ann"
        team.now -= 5 * MINUTE
        assert held(claim(team, None, "cyd")) == "a", "even one from the future"
        assert team.query(filter={"claimed_by": "cyd"})["total"] == 0


def test_each_session_goes_on_in_the_project_that_it_opened(team: Team, sessions: Sessions) -> None:
    one, two = sessions.begin(), sessions.begin()
    for session, project in ((one, "p"), (two, "q")):
        with team.as_("mcp", session):
            team.open(project)
    with team.as_("mcp", one):
        team.plan({"ref": "a"})
        assert (team.next("p"), team.next("q")) == (["a"], ["q"])
