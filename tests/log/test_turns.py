"""Machines let each other pass: who lost is next, and who lost often is waited for longer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tallystick.log.jetstream.membership import TURN_SECONDS, Membership, join, leave
from tests.log.jetstream_logs import place_of, stream_for
from tests.nats_cluster import running, wait_until


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
