"""The past by lamport, commit_id and time. That every past node is right is a law (tests/laws)."""

from __future__ import annotations

import msgspec
import pytest

from tallystick.clock import to_text
from tallystick.commits import Verb
from tallystick.errors import InvalidArgument
from tests.promises import promise
from tests.state.logged_state import HOUR, START, LoggedState


@pytest.fixture
def logged() -> LoggedState:
    logged = LoggedState()
    logged.node("a", actor="ann", x=1)
    logged.now += HOUR
    logged.node("a", actor="bob", x=2)
    logged.now += HOUR
    logged.delete("a", actor="ann")
    logged.write(Verb.UPSERT_NODE, {"id": "a", "type": "note", "attrs": {"x": 3}}, actor="cyd", skip=10)
    return logged


def test_lamports_commits_and_times_lead_to_the_same_moments(logged: LoggedState) -> None:
    resolve = logged.state.resolve
    assert [resolve(lamport) for lamport in (0, 1, 2, 3, 9, 13, 14)] == [0, 1, 2, 3, 3, 3, 4]
    assert [resolve(commit.commit_id) for commit in logged.commits] == [1, 2, 3, 4]
    times = (START - 1, START, START + HOUR - 1, START + HOUR, START + 2 * HOUR, START + 9 * HOUR)
    assert [resolve(to_text(moment)) for moment in times] == [0, 1, 1, 2, 4, 4]
    assert resolve("2023-11-14") == 0
    assert resolve("2023-11-14T23:30:00+01:00") == 1
    assert resolve("9999-12-31") == 4


@pytest.mark.parametrize("as_of", [15, -1, True, "", "yesterday", "15", "f" * 64, "F" * 64, "2023-13-01"])
def test_a_moment_that_cannot_be_told_is_refused(logged: LoggedState, as_of: str | int) -> None:
    with pytest.raises(InvalidArgument) as raised:
        logged.state.resolve(as_of)
    assert raised.value.code == "UNKNOWN_AS_OF"
    assert raised.value.details == {"as_of": as_of}


@pytest.mark.parametrize("digits", [8, 12, 63, 64])
def test_a_commit_is_known_by_the_beginning_of_its_id(logged: LoggedState, digits: int) -> None:
    for number, commit in enumerate(logged.commits, 1):
        assert logged.state.resolve(commit.commit_id[:digits]) == number
        assert logged.state.commit_id(commit.commit_id[:digits]) == commit.commit_id
    assert logged.state.commit_id("0" * digits) is None


@promise("L40, prefix", "eight or more digits name a commit, unless several begin so")
def test_a_beginning_that_several_commits_share_is_refused_with_their_ids(
    logged: LoggedState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To find two real ones takes four thousand million commits."""
    twins = ["5eed5eed" + "0" * 56, "5eed5eed" + "1" * 56]
    columns, line = logged.state._columns, logged.state._columns.line(1)
    monkeypatch.setattr(columns.history.commit_ids, "candidates", lambda prefix: iter((2, 1)))
    monkeypatch.setattr(columns, "line", lambda seq: msgspec.structs.replace(line, commit_id=twins[seq - 1]))
    with pytest.raises(InvalidArgument) as raised:
        logged.state.resolve("5eed5eed")
    assert (raised.value.code, raised.value.details) == ("AMBIGUOUS_COMMIT_ID", {"candidates": twins})
    assert logged.state.commit_id("5eed5eed1") == twins[1]


def test_eight_digits_that_are_a_date_are_a_date(logged: LoggedState) -> None:
    assert logged.state.resolve("20231114") == 0
    assert logged.state.resolve("20991231") == 4
    with pytest.raises(InvalidArgument, match="there is no commit 20231399"):
        logged.state.resolve("20231399")


def test_a_node_in_the_past_has_the_provenance_it_had(logged: LoggedState) -> None:
    seen = [logged.state.node("a", at) for at in range(5)]
    assert [node.attrs["x"] if node else None for node in seen] == [None, 1, 2, None, 3]
    makers = [(node.provenance.created_by, node.provenance.updated_by) for node in seen if node]
    assert makers == [("ann", "ann"), ("ann", "bob"), ("cyd", "cyd")]
    assert seen[1] is not None
    assert seen[1].provenance.commit_id == logged.commits[0].commit_id


def test_moments_outside_the_log_are_its_ends(logged: LoggedState) -> None:
    assert logged.state.node("a", -3) is None
    assert logged.state.node("a", 99) == logged.state.node("a")


def test_an_edge_in_the_past_is_as_it_was(logged: LoggedState) -> None:
    logged.node("b")
    logged.edge("a", "r", "b", w=1)
    logged.edge("a", "r", "b", w=2)
    logged.delete_edge("a", "r", "b")
    found = [edge.attrs if (edge := logged.state.edge("a", "r", "b", at)) else None for at in range(5, 9)]
    assert found == [None, {"w": 1}, {"w": 2}, None]
    assert [len(logged.state.edges("b", at=at)) for at in range(5, 9)] == [0, 1, 1, 0]
