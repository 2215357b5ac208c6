"""The key that all machines share: made once, by whichever asks first."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tallystick.extensions.cluster.messages import Message
from tallystick.extensions.cluster.shared_key import KEY_BYTES, get_or_make, shared_key
from tallystick.extensions.cluster.stream import Stream, WrongSequence
from tests.log.jetstream_logs import place_of, stream_for
from tests.nats_cluster import Cluster, running


class SlowStream:
    """Another machine's key is on its way: refused is what we publish, and nothing is seen, for a while."""

    name = "tally-0"

    def __init__(self, layout: object, looks: int) -> None:
        self.layout = layout
        self._looks = looks

    def last(self, subject: str) -> Message | None:
        self._looks -= 1
        return None if self._looks > 0 else Message(subject, 1, {}, b"k" * KEY_BYTES)

    def publish(self, *arguments: object, **named: object) -> int:
        raise WrongSequence("wrong last sequence")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("nats")) as servers:
        yield servers


def test_a_key_that_another_machine_is_just_making_is_waited_for() -> None:
    class Layout:
        @staticmethod
        def key(name: str) -> str:
            return f"key.{name}"

    stream: Stream = SlowStream(Layout(), looks=3)  # type: ignore[assignment]  # as much of one as is asked
    assert get_or_make(stream, "sessions") == b"k" * KEY_BYTES


def test_machines_that_start_at_once_have_the_same_key(cluster: Cluster, tmp_path: Path) -> None:
    stream = stream_for(tmp_path)
    places = [place_of(cluster, tmp_path / f"machine{number}", stream=stream) for number in range(4)]
    with ThreadPoolExecutor(4) as machines:
        keys = set(machines.map(lambda place: shared_key(place, "sessions"), places))
    assert len(keys) == 1
    assert len(keys.pop()) == KEY_BYTES
