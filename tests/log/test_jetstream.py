"""The log on NATS JetStream: machines that come late, die, are cut off, or meet a stream that is not theirs."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick.commits import Operation, Verb, chain
from tallystick.commits.canonical import canonical_bytes
from tallystick.errors import Corrupt, InvalidArgument, StorageRefused, TallystickError
from tallystick.extensions.cluster import catching_up, copy, erasure
from tallystick.extensions.cluster import jetstream_log as jetstream
from tallystick.extensions.cluster.client import Client, NoAnswer
from tallystick.extensions.cluster.durability import find_unsynced
from tallystick.extensions.cluster.inspection import inspect
from tallystick.extensions.cluster.jetstream_log import JetStreamLog
from tallystick.extensions.cluster.membership import Membership
from tallystick.extensions.cluster.messages import Message
from tallystick.extensions.cluster.shared_key import shared_key
from tallystick.extensions.cluster.stream import Stream, Trust
from tallystick.log import Entry, Head, Log
from tallystick.log.files import FilesLog
from tallystick.log.proof import prove
from tests import timeouts
from tests.commits_by_hand import append, draft, entries, filled, node
from tests.files_with import files_with
from tests.log.jetstream_logs import open_log, place_of, stream_for
from tests.nats_cluster import Cluster, running
from tests.promises import promise
from tests.timeouts import wait_until


def lines(log: Log) -> list[bytes]:
    return [entry.line for entry in log.read(Head())]


def reached(log: Log, lamport: int) -> None:
    """Its copy, by itself."""
    wait_until(lambda: log.head().lamport >= lamport)


def refusal(error: TallystickError) -> tuple[str, bool]:
    return error.code, bool(error.hint)


# -- one memory


def test_what_one_machine_writes_arrives_at_the_others_by_itself(nats_server: Cluster, tmp_path: Path) -> None:
    one = open_log(nats_server, tmp_path / "one", stream=stream_for(tmp_path))
    two = open_log(nats_server, tmp_path / "two", stream=stream_for(tmp_path))
    made = filled(one, 30)
    reached(two, 30)
    append(two, draft(node("from two")))
    reached(one, 31)
    late = open_log(nats_server, tmp_path / "late", stream=stream_for(tmp_path))
    assert lines(one) == lines(two) == lines(late)
    assert lines(one)[:30] == [entry.line for entry in made]
    for log in (one, two, late):
        log.close()
        assert prove(log.system).sound


@promise("§5.2, latest", "a question for the latest has what another machine was told is written")
def test_a_question_for_the_latest_has_what_another_machine_was_told_is_written(
    nats_server: Cluster, tmp_path: Path
) -> None:
    one = open_log(nats_server, tmp_path / "one", stream=stream_for(tmp_path))
    two = open_log(nats_server, tmp_path / "two", stream=stream_for(tmp_path))
    for number in range(10):
        append(one, draft(node(f"note {number}")))
        two.confirm()
        assert two.head() == one.head()
    one.close()
    two.close()


def test_two_processes_of_a_machine_share_its_copy(nats_server: Cluster, tmp_path: Path) -> None:
    """Two openings of one base exclude each other as two processes do."""
    one = open_log(nats_server, tmp_path, stream=stream_for(tmp_path))
    two = open_log(nats_server, tmp_path, stream=stream_for(tmp_path))
    for number in range(10):
        append(one if number % 2 else two, draft(node(f"note {number}")))
        assert one.head() == two.head()
    one.close()
    two.close()


def test_all_machines_sign_sessions_with_one_key(nats_server: Cluster, tmp_path: Path) -> None:
    places = [place_of(nats_server, tmp_path / name, stream=stream_for(tmp_path)) for name in ("one", "two")]
    keys = {shared_key(place, "sessions") for place in places}
    assert len(keys) == 1
    assert len(keys.pop()) == 32


# -- a process that dies, an answer that is lost, a power cut


def test_a_group_whose_process_died_before_its_copy_had_it_is_adopted(
    nats_server: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(nats_server, tmp_path, stream=stream_for(tmp_path))
    filled(log, 3)
    original, caller = copy.Copy.append, threading.current_thread()

    def die(*arguments: Any) -> Head:
        if threading.current_thread() is caller:
            raise KeyboardInterrupt
        return original(*arguments)

    with monkeypatch.context() as dying:
        dying.setattr(copy.Copy, "append", die)
        with pytest.raises(KeyboardInterrupt):
            append(log, draft(node("published, and then the power went")))
    reached(log, 4)
    append(log, draft(node("after")))
    assert log.head().lamport == 5
    log.close()


def test_a_group_whose_answer_was_lost_is_in_the_log_once(
    nats_server: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(nats_server, tmp_path, stream=stream_for(tmp_path))
    filled(log, 3)
    answer = Client.request
    lost: list[Message] = []

    def losing(client: Client, subject: str, *arguments: Any, **named: Any) -> Message:
        found = answer(client, subject, *arguments, **named)
        if ".log." in subject and not lost:
            lost.append(found)
            raise NoAnswer("it got lost", was_sent=True)
        return found

    monkeypatch.setattr(Client, "request", losing)
    made = append(log, draft(node("once")))
    assert lost
    assert lines(log)[3:] == [entry.line for entry in made]
    elsewhere = open_log(nats_server, tmp_path / "elsewhere", stream=stream_for(tmp_path))
    assert lines(elsewhere) == lines(log)
    elsewhere.close()
    log.close()


@pytest.mark.parametrize("damage", ["zeroes", "cut short", "untouched"])
def test_after_a_power_cut_a_copy_goes_back_to_what_was_synced_and_fetches_the_rest(
    nats_server: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    log = open_log(nats_server, tmp_path, stream=stream_for(tmp_path))
    filled(log, 20)
    log.close()
    (path,) = (log.system / "log").glob("*.jsonl")
    whole = path.read_bytes()
    middle = whole.index(b"\n", len(whole) // 2) + 1
    synced = _head_at(tmp_path, whole[:middle])
    place = (log.system / "stream").read_bytes()
    copy.mark_copy(log.system, memory=_memory(log.system), stream=stream_for(tmp_path), head=synced)
    (log.system / "stream").write_bytes(place)
    if damage == "zeroes":
        path.write_bytes(whole[: middle + 100].ljust(len(whole), b"\0"))
    elif damage == "cut short":
        path.write_bytes(whole[: middle + 100])
    monkeypatch.setattr(copy, "boot_id", lambda: "another boot")
    again = open_log(nats_server, tmp_path, stream=stream_for(tmp_path))
    assert path.read_bytes() == whole
    append(again, draft(node("after")))
    again.close()
    assert prove(again.system).sound


def _head_at(tmp_path: Path, content: bytes) -> Head:
    """As a log of its own that holds just these lines says."""
    (tmp_path / "half" / "log").mkdir(parents=True)
    (tmp_path / "half" / "log" / f"{1:020d}.jsonl").write_bytes(content)
    half = FilesLog(tmp_path / "half")
    head = half.head()
    half.close()
    return head


def _memory(system: Path) -> str:
    return msgspec.json.decode((system / "stream.synced").read_bytes(), type=copy.Synced).memory


# -- cut off


@promise("§5.4, quorum", "writes are refused without a quorum and go on by themselves")
def test_a_machine_that_is_cut_off_reads_on_says_how_old_it_is_and_goes_on_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jetstream, "PATIENCE_SECONDS", 0.0)
    with running(tmp_path / "nats") as servers:
        log = open_log(servers, tmp_path / "base", stream="tally-0")
        made = filled(log, 5)
        assert log.behind_seconds() == 0
        servers.nodes[0].kill()
        wait_until(lambda: not log._membership.client.is_connected)
        assert lines(log) == [entry.line for entry in made]
        with pytest.raises(StorageRefused) as caught:
            append(log, draft(node("refused")))
        assert refusal(caught.value) == ("LOG_UNREACHABLE", True)
        with pytest.raises(StorageRefused):
            log.confirm()
        wait_until(lambda: log.behind_seconds() > 0)
        restarted = JetStreamLog(msgspec.structs.replace(log._place, base=tmp_path / "base"), "default")
        assert lines(restarted) == lines(log), "a start without servers reads what the machine has"
        restarted.close()
        servers.start()
        wait_until(lambda: _is_written(log))
        wait_until(lambda: log.behind_seconds() == 0)
        assert log.head().lamport == 6
        log.close()


def _is_written(log: Log) -> bool:
    try:
        append(log, draft(node("accepted")))
    except StorageRefused:
        return False
    return True


def test_a_machine_without_a_copy_waits_for_a_stream_that_elects_a_leader(
    nats_server: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = open_log(nats_server, tmp_path / "one", stream=stream_for(tmp_path))
    filled(one, 3)
    fill, answers = catching_up.fill_copy, iter([False, False])

    def elects_at_first(*arguments: Any, **more: Any) -> None:
        if next(answers, True) is False:
            raise NoAnswer("no server answers for the stream", was_sent=False)
        fill(*arguments, **more)

    monkeypatch.setattr(jetstream, "fill_copy", elects_at_first)
    two = open_log(nats_server, tmp_path / "two", stream=stream_for(tmp_path))
    assert lines(two) == lines(one)
    for log in (one, two):
        log.close()


def test_a_machine_without_a_copy_does_not_start_without_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallystick.extensions.cluster.membership.START_SECONDS", 0.0)
    with running(tmp_path / "nats") as servers:
        place = place_of(servers, tmp_path / "base", stream="tally-0")
    with pytest.raises(StorageRefused) as caught:
        JetStreamLog(place, "default")
    assert refusal(caught.value) == ("LOG_UNREACHABLE", True)


# -- messages of other programs


def _publish(cluster: Cluster, tmp_path: Path, subject: str, *messages: bytes) -> None:
    """As another program would."""
    client = Client(place_of(cluster, tmp_path, stream="any").servers, name="another")
    assert client.wait(timeouts.SECONDS)
    try:
        for data in messages:
            assert b'"seq"' in client.request(subject, data, seconds=timeouts.SECONDS).data
    finally:
        client.close()


def test_messages_of_another_program_are_skipped_counted_and_stop_no_machine(
    nats_server: Cluster, tmp_path: Path
) -> None:
    name = stream_for(tmp_path)
    subject = f"{name}.log.default"
    one = open_log(nats_server, tmp_path / "one", stream=name)
    two = open_log(nats_server, tmp_path / "two", stream=name)
    _publish(nats_server, tmp_path, subject, b"", b"junk\n")
    append(one, draft(node("after junk at the start")))
    reached(two, 1)
    _publish(nats_server, tmp_path, subject, *[b'{"lamport":7}'] * 5)
    append(two, draft(node("after more of it")))
    _publish(nats_server, tmp_path, subject, b"\0" * 100)
    reached(one, 2)
    one.confirm()
    append(one, draft(node("and more")))
    _publish(nats_server, tmp_path, subject, b"the last")
    late = open_log(nats_server, tmp_path / "late", stream=name)
    append(late, draft(node("late")))
    # A copy that does not know where in the stream it ends looks for it.
    late.close()
    (late.system / "stream").unlink()
    late = open_log(nats_server, tmp_path / "late", stream=name)
    append(late, draft(node("later")))
    for log in (one, two):
        reached(log, 5)
    assert lines(one) == lines(two) == lines(late)
    place = place_of(nats_server, tmp_path / "one", stream=name)
    wait_until(lambda: any(machine.foreign.get(subject, (0, 0))[0] == 9 for machine in inspect(place).machines))
    for log in (one, two, late):
        log.close()
        assert prove(log.system).sound


def test_a_group_that_lost_its_headers_is_never_skipped(nats_server: Cluster, tmp_path: Path) -> None:
    """It may be a damaged one of ours: whoever skipped it would write beside it."""
    name = stream_for(tmp_path)
    log = open_log(nats_server, tmp_path / "one", stream=name)
    append(log, draft(node("a")))
    (under_way,) = entries(log.head(), draft(node("b")))
    _publish(nats_server, tmp_path, f"{name}.log.default", under_way.line + b"\n")
    with pytest.raises(Corrupt):
        append(log, draft(node("c")))
    log.close()


# -- servers and streams that are not to be trusted


def test_servers_of_which_too_few_answer_are_unreachable_and_not_unsuitable(
    nats_server: Cluster, tmp_path: Path
) -> None:
    place = place_of(nats_server, tmp_path, stream="any")
    client = Client(place.servers, name="another")
    assert client.wait(timeouts.SECONDS)
    (server,) = nats_server.nodes
    assert find_unsynced(client, {server.name}, place.trust.monitors) is None
    with pytest.raises(NoAnswer, match="only"):
        find_unsynced(client, {server.name, "away", "starting"}, place.trust.monitors)
    with pytest.raises(NoAnswer, match="only none"):
        find_unsynced(client, {server.name}, ("http://127.0.0.1:9",))
    client.close()
    with pytest.raises(NoAnswer):
        find_unsynced(client, {server.name}, ())


def test_servers_that_do_not_answer_a_survey_in_time_are_unreachable_and_not_unsuitable(
    nats_server: Cluster, tmp_path: Path
) -> None:
    servers = place_of(nats_server, tmp_path, stream="any").servers
    with closing(Client(servers, name="silent")) as silent, closing(Client(servers, name="another")) as client:
        assert silent.wait(timeouts.SECONDS)
        assert client.wait(timeouts.SECONDS)
        problem = find_unsynced(client, (), ())
        assert problem is not None
        assert "cannot be seen whether" in problem[0]
        # A responder that never answers: without one the servers report at once that there is none.
        silent.subscribe("$SYS.REQ.SERVER.PING.JSZ", lambda _: None)
        silent.request("$SYS.REQ.USER.INFO", seconds=timeouts.SECONDS)
        with pytest.raises(NoAnswer):
            find_unsynced(client, (), ())


@promise("§5.2, durability", "servers that do not sync every write are refused")
def test_servers_that_do_not_sync_every_write_are_refused_unless_that_is_meant(tmp_path: Path) -> None:
    with running(tmp_path / "nats", sync_always=False) as servers:
        with pytest.raises(InvalidArgument, match="does not sync every write") as caught:
            open_log(servers, tmp_path / "base", stream="tally-0")
        assert refusal(caught.value) == ("LOG_UNSUITABLE", True)
        with pytest.raises(InvalidArgument, match="cannot be seen whether"):
            open_log(servers, tmp_path / "unseen", stream="tally-0", trust=Trust(replicas=1))
        log = open_log(servers, tmp_path / "base", stream="tally-0", trust=Trust(replicas=1, sync="unchecked"))
        append(log, draft(node("accepted")))
        log.close()


def test_a_server_that_comes_back_without_syncing_every_write_gets_none_until_it_does(tmp_path: Path) -> None:
    with running(tmp_path / "nats") as servers:
        log = open_log(servers, tmp_path / "base", stream="tally-0")
        append(log, draft(node("before")))
        restarted(servers, "always", "2m")
        wait_until(lambda: tried(log) == "LOG_UNSUITABLE")
        with pytest.raises(StorageRefused, match="node0 does not sync every write") as caught:
            append(log, draft(node("refused")))
        assert "sync_interval: always" in str(caught.value.hint)
        assert "before" in log.line(0).decode()
        restarted(servers, "2m", "always")
        wait_until(lambda: tried(log) is None)
        log.close()
    assert prove(log.system).sound


def restarted(servers: Cluster, before: str, after: str) -> None:
    """With another sync_interval."""
    (server,) = servers.nodes
    server.stop()
    configuration = server.directory / "server.conf"
    configuration.write_text(configuration.read_text().replace(f"sync_interval: {before}", f"sync_interval: {after}"))
    servers.start()


def tried(log: Log) -> str | None:
    """Why a write is not taken; None where it was."""
    try:
        append(log, draft(node("tried")))
    except TallystickError as error:
        return error.code
    return None


def test_fewer_copies_than_asked_for_are_refused(nats_server: Cluster, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="3 replicas") as caught:
        open_log(nats_server, tmp_path, stream=stream_for(tmp_path), replicas=3)
    assert refusal(caught.value) == ("LOG_UNSUITABLE", True)
    open_log(nats_server, tmp_path, stream=stream_for(tmp_path), replicas=1).close()
    with pytest.raises(InvalidArgument, match=r"kept by 1 server\(s\), not by 3"):
        open_log(nats_server, tmp_path, stream=stream_for(tmp_path), replicas=3)


def _asked(cluster: Cluster, tmp_path: Path, what: str, **asked: Any) -> dict[str, Any]:
    """Of the servers, as another program would."""
    client = Client(place_of(cluster, tmp_path, stream="any").servers, name="another")
    assert client.wait(timeouts.SECONDS)
    try:
        answer = client.request(f"$JS.API.{what}", msgspec.json.encode(asked), seconds=timeouts.SECONDS)
        return msgspec.json.decode(answer.data, type=dict[str, Any])
    finally:
        client.close()


def test_a_stream_of_another_program_is_refused_and_left_as_it_is(nats_server: Cluster, tmp_path: Path) -> None:
    name = stream_for(tmp_path)
    _asked(nats_server, tmp_path, f"STREAM.CREATE.{name}", name=name, subjects=[f"{name}.orders.*"], storage="file")
    with pytest.raises(InvalidArgument, match="not laid out") as caught:
        open_log(nats_server, tmp_path, stream=name)
    assert refusal(caught.value) == ("LOG_UNSUITABLE", True)
    assert _asked(nats_server, tmp_path, f"STREAM.INFO.{name}")["config"]["subjects"] == [f"{name}.orders.*"]


def test_a_stream_that_was_made_anew_does_not_take_a_copy_of_the_old_one(nats_server: Cluster, tmp_path: Path) -> None:
    name = stream_for(tmp_path)
    log = open_log(nats_server, tmp_path, stream=name)
    filled(log, 3)
    before = lines(log)
    log.close()
    _asked(nats_server, tmp_path, f"STREAM.DELETE.{name}")
    with pytest.raises((InvalidArgument, Corrupt)) as caught:
        open_log(nats_server, tmp_path, stream=name)
    assert refusal(caught.value) == ("LOG_DIVERGED", True)
    kept = FilesLog(log.system)
    assert lines(kept) == before
    kept.close()


def test_messages_that_somebody_deleted_are_missed_and_nothing_is_made_up(nats_server: Cluster, tmp_path: Path) -> None:
    name = stream_for(tmp_path)
    log = open_log(nats_server, tmp_path / "one", stream=name)
    for number in range(4):
        append(log, draft(node(f"note {number}")))
    second = log._membership.stream.next(f"{name}.log.default", 0)
    assert second is not None
    _asked(nats_server, tmp_path, f"STREAM.MSG.DELETE.{name}", seq=second.sequence)
    with pytest.raises(Corrupt, match="nothing that follows lamport"):
        open_log(nats_server, tmp_path / "two", stream=name)
    log.close()


# -- redaction


def redact(log: Log, secret: Entry, left: dict[str, Any]) -> None:
    masked = canonical_bytes({"id": "person", "type": "note", "attrs": left})
    said = {
        "node_id": "person",
        "reason": "asked",
        "redacted_fields": [f"attrs.{name}" for name, value in left.items() if value == "[REDACTED]"],
    }
    operation = Operation(Verb.REDACT_NODE, said, redacts={str(secret.commit.lamport): chain.content_hash(masked)})
    append(log, draft(operation))


def group(log: Log, *drafts: Any) -> Sequence[Entry]:
    made = entries(log.head(), *drafts)
    log.append(made, expected=log.head())
    return made


@promise("L51, stream", "a redaction leaves the copies of all machines and the stream")
def test_a_redaction_leaves_the_copies_of_all_machines_and_the_stream(nats_server: Cluster, tmp_path: Path) -> None:
    name = stream_for(tmp_path)
    one = open_log(nats_server, tmp_path / "one", stream=name)
    two = open_log(nats_server, tmp_path / "two", stream=name)
    filled(one, 3)
    needle = b"ada-needle@example.org"
    secret = group(one, draft(node("before")), draft(node("person", email=needle.decode(), town="Turin")))[-1]
    filled(one, 3)
    stream = one._membership.stream
    for left in ({"email": "[REDACTED]", "town": "Turin"}, {"email": "[REDACTED]", "town": "[REDACTED]"}):
        redact(one, secret, left)
        reached(two, one.head().lamport)
        wait_until(lambda: not erasure.pending(stream, one.system, "default"))
    assert lines(one) == lines(two)
    assert files_with(needle, tmp_path, nats_server.nodes[0].store) == []
    patches = list(stream.messages(stream.layout.patches("default"), 0))
    assert len(patches) == 1
    assert b"Turin" not in patches[0].data
    late = open_log(nats_server, tmp_path / "late", stream=name)
    assert lines(late) == lines(one)
    for log in (one, two, late):
        log.close()
        assert prove(log.system).sound


def test_what_a_redaction_waits_for_is_told(nats_server: Cluster, tmp_path: Path) -> None:
    name = stream_for(tmp_path)
    one = open_log(nats_server, tmp_path / "one", stream=name)
    two = open_log(nats_server, tmp_path / "two", stream=name)
    secret = append(one, draft(node("person", email="ada@example.org")))[0]
    reached(two, 1)
    wait_until(lambda: any(two._membership.machine.encode() in said.data for said in one._membership.stream.machines()))
    two.close()
    redact(one, secret, {"email": "[REDACTED]"})
    stream = one._membership.stream
    wait_until(lambda: two._membership.machine in "".join(where(stream, one)) and len(where(stream, one)) == 1)
    (waiting,) = erasure.pending(stream, one.system, "default")
    assert two._membership.machine in waiting.where
    assert waiting.commits == [2]
    again = open_log(nats_server, tmp_path / "two", stream=name)
    wait_until(lambda: not erasure.pending(stream, one.system, "default"))
    again.close()
    one.close()


def where(stream: Stream, log: JetStreamLog) -> list[str]:
    return [each.where for each in erasure.pending(stream, log.system, "default")]


def test_the_machine_says_since_when_it_is_complete(nats_server: Cluster, tmp_path: Path) -> None:
    log = open_log(nats_server, tmp_path, stream=stream_for(tmp_path))
    membership: Membership = log._membership
    wait_until(lambda: membership._freshness.seconds() is not None)
    assert (membership._freshness.seconds() or 0) <= time.monotonic() - membership._started
    assert not membership.is_cut_off
    log.close()


def test_a_look_at_the_stream_tells_of_servers_and_machines_and_makes_nothing(
    nats_server: Cluster, tmp_path: Path
) -> None:
    place = place_of(nats_server, tmp_path, stream=stream_for(tmp_path))
    with pytest.raises(InvalidArgument, match="no stream"):
        inspect(place)
    log = JetStreamLog(place, "default")
    filled(log, 3)
    wait_until(lambda: [each.adopted > 3 for each in inspect(place).machines] == [True])
    seen = inspect(place)
    assert (seen.replicas, seen.lagging) == (1, [])
    assert seen.machines[0].machine == log._membership.machine
    log.close()
