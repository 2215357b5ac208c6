"""Machines let each other pass: who lost is next, and who lost often is waited for longer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tallystick.log import Head
from tallystick.log.jetstream.membership import TURN_SECONDS, Membership, join, leave
from tallystick.log.jetstream.turns import WAIT_SECONDS_MAX, Turns
from tests.log.jetstream_logs import place_of, stream_for
from tests.nats_cluster import running
from tests.timeouts import wait_until


@pytest.fixture
def members(tmp_path: Path) -> Iterator[tuple[Membership, Membership]]:
    with running(tmp_path / "nats") as cluster:
        places = [place_of(cluster, tmp_path / name, stream=stream_for(tmp_path)) for name in ("one", "other")]
        one, other = (join(place) for place in places)
        try:
            assert one.wait()
            assert other.wait()
            yield one, other
        finally:
            for place in places:
                leave(place)


def test_who_lost_often_is_waited_for_longer_and_for_no_more_than_a_second(
    members: tuple[Membership, Membership],
) -> None:
    one, other = members
    for losses, at_least, at_most in ((20, 10, 20), (10_000, 15, 25)):
        other.end_turn("default")
        before = time.monotonic()

        def was_heard(losses: int = losses) -> bool:
            # Said again: the other may not listen yet.
            one.announce("default", losses)
            return other.turn_of_another("default") > before + TURN_SECONDS * at_least  # noqa: B023

        wait_until(was_heard)
        assert other.turn_of_another("default") <= time.monotonic() + TURN_SECONDS * at_most
        assert one.turn_of_another("default") == 0.0


def test_what_is_said_that_is_no_turn_costs_one_turn_at_most(members: tuple[Membership, Membership]) -> None:
    one, other = members
    subject = one.stream.layout.turn("default")

    def was_heard() -> bool:
        one.client.publish(subject, b"somebody -1e9")
        return other.turn_of_another("default") > 0

    wait_until(was_heard)
    assert other.turn_of_another("default") <= time.monotonic() + TURN_SECONDS


def at(lamport: int) -> Head:
    return Head(lamport=lamport)


def test_two_that_write_all_the_time_write_by_turns() -> None:
    turns = Turns()
    turns.written(at(0), at(1))
    assert turns.until(at(1)) == 0, "nobody else has written"
    turns.written(at(2), at(3))
    assert turns.until(at(3)) > time.monotonic(), "another was between our two: it is its turn"
    assert turns.until(at(4)) == 0, "it has had it"


def test_one_that_stopped_writing_is_waited_for_a_few_times_only() -> None:
    turns = Turns()
    turns.written(at(0), at(1))
    turns.written(at(2), at(3))
    waits = 0
    while turns.until(at(3 + waits)):
        turns.waited(is_met=False)
        turns.written(at(3 + waits), at(4 + waits))
        waits += 1
    assert 0 < waits <= 3
    turns.written(at(50), at(51))
    assert turns.until(at(51)), "it is back"


def test_the_other_is_waited_for_as_long_as_it_lately_needed_and_never_for_long() -> None:
    turns = Turns()
    turns.written(at(0), at(1))
    turns.written(at(2), at(3))
    for _ in range(100):
        turns.waited(is_met=True)
    assert turns.until(at(3)) <= time.monotonic() + WAIT_SECONDS_MAX
