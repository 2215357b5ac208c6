"""Machines let each other pass: who lost is next, who lost often is waited for longer, and turns end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tallystick.extensions.cluster.membership import TURN_SECONDS, Membership, join, leave
from tallystick.extensions.cluster.turns import TURN_SECONDS as TURN
from tallystick.extensions.cluster.turns import WAIT_SECONDS_MAX, Turns
from tallystick.log import Head
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
        other.forget_turn("default")
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


@pytest.mark.parametrize("said", [b"", b"-5", b"1e9", b"9" * 17, "٤".encode()])
def test_what_is_said_that_is_no_end_of_a_turn_is_passed_over(
    members: tuple[Membership, Membership], said: bytes
) -> None:
    one, other = members

    def was_heard() -> bool:
        one.client.publish(one.stream.layout.turn_end("default"), said)
        one.end_turn("default", 7)
        return other.turn_ended_at("default") > 0

    wait_until(was_heard)
    assert other.turn_ended_at("default") == 7
    assert other.turn_ended_at("another") == 0


def at(lamport: int) -> Head:
    return Head(lamport=lamport)


def contended() -> Turns:
    """Ours is at 3, and another was before it; our turn began at 0 s."""
    turns = Turns()
    turns.written(at(1), -1.0)
    assert not wrote(turns, 2, 0.0)
    return turns


def wrote(turns: Turns, behind: int, now: float) -> bool:
    """Whether it was the last of a turn."""
    is_last = turns.publishing(at(behind), now)
    turns.written(at(behind + 1), now)
    return is_last


def test_one_that_writes_alone_writes_for_as_long_as_it_likes() -> None:
    turns = Turns()
    for number in range(100):
        assert not wrote(turns, number, number * TURN)
        assert turns.until(at(number + 1)) == 0


def test_two_that_write_all_the_time_write_by_turns_of_several_groups() -> None:
    turns = contended()
    assert turns.until(at(3)) == 0, "its turn has just begun"
    assert not wrote(turns, 3, TURN / 2)
    assert turns.until(at(4)) == 0
    assert wrote(turns, 4, TURN), "now it is over, which the other is told"
    assert turns.until(at(5)) > TURN
    turns.waited(2 * TURN, is_met=True)
    assert turns.until(at(9)) == 0
    assert not wrote(turns, 9, 2.5 * TURN), "another turn"


def test_one_that_was_refused_writes_by_turns_from_then_on() -> None:
    turns = Turns()
    assert not turns.publishing(at(1), 0.0)
    turns.lost()
    assert not wrote(turns, 2, 0.0)
    assert wrote(turns, 3, TURN)


def test_one_that_stopped_writing_is_waited_for_a_few_times_only() -> None:
    turns, waits = contended(), 0
    while wrote(turns, 3 + waits, 1.0 + waits):
        turns.waited(1.0 + waits, is_met=False)
        waits += 1
    assert 0 < waits <= 3
    wrote(turns, 50, 100.0)
    assert wrote(turns, 51, 101.0), "it is back"


def test_the_other_is_waited_for_as_long_as_it_lately_needed_and_never_for_long() -> None:
    turns = contended()
    assert wrote(turns, 3, TURN)
    short = turns.until(at(4))
    assert TURN < short < TURN + WAIT_SECONDS_MAX
    for _ in range(100):
        turns.seen(100.0, 0.0)
    assert short < turns.until(at(4)) <= TURN + WAIT_SECONDS_MAX
    assert turns.until(at(5)) <= 2 * TURN + WAIT_SECONDS_MAX, "it has begun its turn"
