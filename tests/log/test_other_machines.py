"""Other machines: whether one has what was written here is known from its answer, or from what it says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallystick.extensions.cluster.client import Client, NoAnswer
from tallystick.extensions.cluster.copy import machine_id
from tallystick.extensions.cluster.membership import join, leave
from tallystick.extensions.cluster.other_machines import OtherMachines, digits_of
from tests.commits_by_hand import append, draft, node
from tests.log.jetstream_logs import open_log, place_of, stream_for
from tests.nats_cluster import Cluster
from tests.timeouts import wait_until


def test_what_was_waited_for_is_in_the_copy_of_the_other_machine(nats_server: Cluster, tmp_path: Path) -> None:
    stream = stream_for(tmp_path)
    one = open_log(nats_server, tmp_path / "one", stream=stream)
    two = open_log(nats_server, tmp_path / "two", stream=stream)
    home = digits_of(machine_id(tmp_path / "one"))
    for number in range(20):
        append(two, draft(node(f"note {number}")))
        two.await_copy(home, number + 1)
        assert one.head().lamport == number + 1
    one.close()
    two.close()


def test_a_machine_that_answers_no_question_is_believed_by_what_it_says_of_itself(
    nats_server: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of an older version does."""
    monkeypatch.setattr(OtherMachines, "_is_told", lambda *asked: False)
    stream = stream_for(tmp_path)
    one = open_log(nats_server, tmp_path / "one", stream=stream)
    two = open_log(nats_server, tmp_path / "two", stream=stream)
    append(two, draft(node("a")))
    two.await_copy(digits_of(machine_id(tmp_path / "one")), 1)
    assert one.head().lamport == 1
    one.close()
    two.close()


def test_machines_that_are_gone_or_were_never_there_are_not_waited_for_for_ever(
    nats_server: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stream = stream_for(tmp_path)
    one = open_log(nats_server, tmp_path / "one", stream=stream)
    append(one, draft(node("a")))
    one.close()
    two = open_log(nats_server, tmp_path / "two", stream=stream)
    append(two, draft(node("b")))
    for machine in (digits_of(machine_id(tmp_path / "one")), digits_of("never there")):
        two.await_copy(machine, 2)
    assert "could not be found out" not in caplog.text
    two.close()


@pytest.mark.parametrize(
    "asked",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b'{"tenant": "../../etc", "lamport": 1}',
        b'{"tenant": "nobody", "lamport": 1}',
        b'{"tenant": "default", "lamport": 99999999999999999999999999}',
    ],
)
def test_whatever_a_machine_is_asked_it_goes_on_and_makes_nothing(
    nats_server: Cluster, tmp_path: Path, asked: bytes
) -> None:
    stream = stream_for(tmp_path)
    log = open_log(nats_server, tmp_path / "one", stream=stream)
    append(log, draft(node("a")))
    place = place_of(nats_server, tmp_path / "one", stream=stream)
    membership = join(place)
    question = membership.stream.layout.question(digits_of(membership.machine))
    with pytest.raises(NoAnswer):
        membership.client.request(question, asked, seconds=0.2)
    wait_until(lambda: is_answered(membership.client, question))
    assert not (tmp_path / "one" / "tenants").exists()
    leave(place)
    log.close()


def is_answered(client: Client, subject: str) -> bool:
    try:
        client.request(subject, b'{"tenant": "default", "lamport": 1}', seconds=5)
    except NoAnswer:
        return False
    return True
