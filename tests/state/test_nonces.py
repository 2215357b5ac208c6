from __future__ import annotations

import pytest

from tallystick.commits import Verb
from tallystick.state import nonces
from tests.state.logged_state import HOUR, LoggedState
from tests.state.state_dump import dump_state

DAY = 24 * HOUR


def write(logged: LoggedState, nonce: str | None, actor: str = "ann") -> str:
    payload = {"id": "a", "type": "note", "attrs": {"number": logged.state.count}}
    return logged.write(Verb.UPSERT_NODE, payload, nonce=nonce, actor=actor).commit_id


def test_a_nonce_leads_to_its_commit_for_the_actor_who_used_it() -> None:
    logged = LoggedState()
    written = write(logged, "n", "ann")
    found = logged.state.nonce("ann", "n")
    assert found is not None
    assert found.commit_id == written
    assert logged.state.nonce("bob", "n") is None
    assert logged.state.nonce("an", "nn") is None


def test_a_nonce_is_known_for_seven_days_of_the_log() -> None:
    logged = LoggedState()
    write(logged, "n")
    logged.now += 7 * DAY
    write(logged, None)
    assert logged.state.nonce("ann", "n") is not None
    logged.now += 1
    write(logged, None)
    assert logged.state.nonce("ann", "n") is None
    logged.undo(1)
    assert logged.state.nonce("ann", "n") is not None


def test_a_nonce_used_again_after_its_time_leads_to_the_newer_commit_until_that_is_undone() -> None:
    logged = LoggedState()
    write(logged, "n")
    before = dump_state(logged.state)
    logged.now += 8 * DAY
    again = write(logged, "n")
    found = logged.state.nonce("ann", "n")
    assert found is not None
    assert found.commit_id == again
    logged.undo(1)
    assert dump_state(logged.state) == before


def test_old_nonces_leave_memory_some_commits_after_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nonces, "LAG", 4)
    logged = LoggedState()
    for number in range(3):
        write(logged, f"old {number}")
    logged.now += 8 * DAY
    kept = logged.state._columns.nonces.seqs
    for number in range(4):
        write(logged, f"new {number}")
    assert len(kept) == 7
    for number in range(4, 10):
        write(logged, f"new {number}")
    assert len(kept) == 10
    assert logged.state.nonce("ann", "new 0") is not None
