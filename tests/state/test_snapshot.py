"""Snapshots; that they come back as they were is a law (tests/laws)."""

from __future__ import annotations

import pytest

from tallystick.state import Condition, Query, snapshot
from tallystick.state.state import State
from tallystick.system.turns import finished
from tests.state.logged_state import LoggedState
from tests.state.state_dump import dump_state


@pytest.fixture(scope="module")
def logged() -> LoggedState:
    logged = LoggedState()
    for number in range(300):
        logged.node(f"n{number}", rank=number, even=number % 2 == 0, tag=f"t{number % 7}", text="long " * 40)
    for number in range(299):
        logged.edge(f"n{number}", "next", f"n{number + 1}")
    logged.edge("n0", "loop", "n0", id="mine")
    logged.node("n0", actor="bob")
    logged.delete("n7")
    return logged


def test_a_snapshot_in_many_pages_is_read_back(logged: LoggedState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "_PAGE", 10)
    loaded = State.load(b"".join(logged.state.dump()), logged.line)
    assert dump_state(loaded) == dump_state(logged.state)
    assert loaded.node("n5") == logged.state.node("n5")
    assert finished(loaded.search(Query(conditions=(Condition("rank", "lt", 20),)))).total == 18


def test_a_snapshot_of_nothing_is_a_state_of_nothing() -> None:
    logged = LoggedState()
    assert dump_state(State.load(b"".join(logged.state.dump()), logged.line)) == dump_state(logged.state)


def test_a_snapshot_holds_no_documents(logged: LoggedState) -> None:
    assert b"long long" not in b"".join(logged.state.dump())


def test_anything_but_a_whole_snapshot_is_refused(logged: LoggedState) -> None:
    data = b"".join(logged.state.dump())
    wrong = [b"", b"no snapshot", data[:100], data[:-1], data + b"x", data[1:]]
    wrong += [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(0, len(data), len(data) // 97)]
    for each in wrong:
        with pytest.raises(ValueError):
            State.load(each, logged.line)


def test_a_snapshot_of_another_format_is_refused(logged: LoggedState, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(logged.state.dump())
    monkeypatch.setattr(snapshot, "FORMAT", snapshot.FORMAT + 1)
    with pytest.raises(ValueError, match="format"):
        State.load(data, logged.line)
