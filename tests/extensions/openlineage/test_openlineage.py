"""The lineage feed: what its events say, and that each arrives."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import msgspec
import pytest

from tallystick.commits import Commit, Draft, Operation, Verb
from tallystick.errors import InvalidArgument, StorageRefused, TallystickError
from tallystick.extensions.openlineage.events import Event, EventBuilder, run_of
from tallystick.extensions.openlineage.lineage_emitter import (
    Destination,
    FileSink,
    HttpSink,
    LineageEmitter,
    shown,
    sink_for,
)
from tallystick.log import Head
from tallystick.log.files import FilesLog
from tallystick.projections.log_reader import LogReader
from tallystick.projections.worker import ProjectionWorker
from tests.commits_by_hand import append, draft, entries, node
from tests.extensions.openlineage.openlineage_schemas import faults_of
from tests.nats_cluster import free_ports
from tests.promises import promise

RUN = {"run_id": "run_20250101_001", "job_id": "onboarding_job_001", "dataset_id": "user_profiles"}
SECRET = "kept.to.ourselves@example.org"

OPERATIONS = (
    Operation(Verb.UPSERT_NODE, {"id": "ada", "type": "user_profile", "attrs": {"mail": SECRET}}),
    Operation(
        Verb.UPSERT_NODE,
        {
            "id": "ümläut 🎉",
            "type": "note",
            "attrs": {},
            "content": {"format": "md", "encoding": "utf-8", "text": SECRET},
        },
    ),
    Operation(Verb.UPSERT_EDGE, {"from": "ada", "rel": "wrote", "to": "ümläut 🎉", "attrs": {"note": SECRET}}),
    Operation(Verb.UPSERT_EDGE, {"from": "ada", "rel": "wrote", "to": "ümläut 🎉", "attrs": {}, "id": "e1"}),
    Operation(Verb.DELETE_EDGE, {"from": "ada", "rel": "wrote", "to": "ümläut 🎉"}),
    Operation(Verb.DELETE_NODE, {"node_id": "ada"}),
    Operation(Verb.REDACT_NODE, {"node_id": "ada", "reason": "asked to"}, redacts={}),
    Operation(Verb.REDACT_EDGE, {"from": "ada", "rel": "wrote", "to": "ümläut 🎉", "id": "e1", "reason": "asked to"}),
)


def commits(*drafts: Draft, tenant: str = "default") -> list[Commit]:
    return [entry.commit for entry in entries(Head(), *drafts, tenant=tenant)]


def in_run(operation: Operation, context: dict[str, str] | None) -> Draft:
    return Draft((operation,), actor="writer", tool="memory.write", reason="because", run_context=context)


def told(*drafts: Draft) -> list[Event]:
    telling = EventBuilder(lambda commit: "user_profile")
    return [event for commit in commits(*drafts) for event in telling.tell(commit)]


# -- what an event says


@promise("FR-005, OpenLineage", "every kind of commit gives events that conform")
@pytest.mark.parametrize("context", [RUN, {"job_id": "j"}, {"dataset_id": "d"}, None], ids=str)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.verb)
def test_every_event_conforms_to_the_official_schemas(operation: Operation, context: dict[str, str] | None) -> None:
    events = told(in_run(operation, context))
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"]
    assert [fault for event in events for fault in faults_of(event)] == []
    complete = events[-1]
    assert complete["run"]["facets"]
    assert complete["job"]["facets"]
    assert complete["outputs"][0]["facets"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("run", "runId"), "run_20250101_001"),
        (("eventType",), "DONE"),
        (("job", "facets", "jobType", "integration"), None),
        (("outputs", 0, "facets", "version", "datasetVersion"), 7),
        (("outputs", 0, "facets", "tallystick_entity", "_producer"), None),
    ],
    ids=str,
)
def test_the_schemas_do_find_faults(path: tuple[Any, ...], value: Any) -> None:
    event = told(in_run(OPERATIONS[0], RUN))[-1]
    holder: Any = event
    for step in path[:-1]:
        holder = holder[step]
    if value is None:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    assert faults_of(event) != []


@promise("L47, run ids", "a run that is no UUID becomes one, and keeps its name in a facet")
def test_run_job_and_dataset_are_those_that_the_writer_named() -> None:
    event = told(in_run(OPERATIONS[0], RUN))[-1]
    assert UUID(event["run"]["runId"]).version == 5
    facet = event["run"]["facets"]["tallystick_commit"]
    assert (facet["run_id"], facet["named"], facet["actor"], facet["reason"]) == (
        RUN["run_id"], True, "writer", "because",
    )  # fmt: skip
    assert event["job"]["name"] == RUN["job_id"]
    assert event["job"]["namespace"] == "tallystick/default"
    assert event["outputs"][0]["name"] == RUN["dataset_id"]


@promise("L47, no context", "run, job and dataset are made of actor, operation and type")
def test_what_nobody_named_is_made_of_actor_operation_and_type() -> None:
    event = told(in_run(OPERATIONS[0], None))[-1]
    facet = event["run"]["facets"]["tallystick_commit"]
    assert (facet["run_id"], facet["named"]) == ("writer@1", False)
    assert event["job"]["name"] == "UPSERT_NODE"
    assert event["outputs"][0]["name"] == "user_profile"
    edge = told(in_run(OPERATIONS[2], None))[-1]
    assert edge["outputs"][0]["name"] == "wrote"
    assert edge["outputs"][0]["facets"]["tallystick_entity"]["entity"] == {
        "from": "ada", "rel": "wrote", "to": "ümläut 🎉",
    }  # fmt: skip


def test_an_event_can_be_proven_by_its_commit() -> None:
    (commit,) = commits(in_run(OPERATIONS[0], RUN))
    event = EventBuilder(lambda commit: "").tell(commit)[-1]
    facet, output = event["run"]["facets"]["tallystick_commit"], event["outputs"][0]["facets"]
    assert (facet["commit_id"], facet["record_hash"], facet["lamport"]) == (commit.commit_id, commit.record_hash, 1)
    assert output["version"]["datasetVersion"] == commit.commit_id
    assert output["tallystick_entity"]["content_hash"] == commit.content_hash
    assert event["eventTime"] == commit.timestamp


def test_no_value_of_an_attribute_or_content_leaves_the_house() -> None:
    assert SECRET not in json.dumps(told(*(in_run(operation, RUN) for operation in OPERATIONS)))


def test_a_run_of_one_name_is_another_run_for_another_tenant_and_never_a_draft() -> None:
    (ours,) = commits(in_run(node("a"), {"run_id": "writer@1"}))
    (theirs,) = commits(in_run(node("a"), {"run_id": "writer@1"}), tenant="acme")
    (unnamed,) = commits(in_run(node("a"), None))
    assert len({run_of(ours), run_of(theirs), run_of(unnamed)}) == 3


@promise("L47, start", "a run starts once, with its first commit")
def test_a_run_starts_once_with_its_first_commit() -> None:
    batch = Draft((node("a"), node("b")), actor="writer", tool="test")
    events = told(in_run(node("x"), RUN), batch, in_run(node("y"), RUN), in_run(node("z"), {"run_id": "other"}))
    kinds = [
        (event["eventType"], event["run"]["facets"]["tallystick_commit"]["run_id"], event["run"]["runId"])
        for event in events
    ]
    assert [(kind, run) for kind, run, _ in kinds] == [
        ("START", RUN["run_id"]), ("COMPLETE", RUN["run_id"]),
        ("START", "writer@2"), ("COMPLETE", "writer@2"), ("COMPLETE", "writer@2"),
        ("COMPLETE", RUN["run_id"]),
        ("START", "other"), ("COMPLETE", "other"),
    ]  # fmt: skip
    assert len({run for _, _, run in kinds}) == 3


def test_the_client_is_loaded_only_where_events_are_made() -> None:
    said = "import sys, tallystick.cli, tallystick.app; print('openlineage' in sys.modules, 'requests' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


# -- the emitter


class Received:
    """A place that remembers, and refuses when told to."""

    def __init__(self, target: str = "test") -> None:
        self.target = target
        self.events: list[Event] = []
        self.refuses_after: int | None = None

    def send(self, events: Sequence[Event]) -> None:
        for event in events:
            if self.refuses_after is not None and len(self.events) >= self.refuses_after:
                raise StorageRefused("full")
            self.events.append(event)

    def close(self) -> None:
        pass

    def commits(self) -> list[int]:
        return [
            event["run"]["facets"]["tallystick_commit"]["lamport"]
            for event in self.events
            if event["eventType"] == "COMPLETE"
        ]

    def starts(self) -> int:
        return sum(1 for event in self.events if event["eventType"] == "START")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[FilesLog]:
    made = FilesLog(tmp_path)
    yield made
    made.close()


def emitting(system: Path, sink: Any, kind: str = "note") -> tuple[LineageEmitter, ProjectionWorker]:
    log = LogReader(lambda: FilesLog(system))
    emitter = LineageEmitter(system, log, Destination(sink, lambda commit: kind))
    return emitter, ProjectionWorker(log, emitter, lock=system / f"{emitter.name}.lock")


@promise("L47, feed", "every commit is emitted in order, and the next process goes on")
def test_every_commit_is_emitted_once_in_order_and_the_next_process_goes_on(tmp_path: Path, log: FilesLog) -> None:
    for number in range(250):
        append(log, in_run(node(f"n{number}"), {"run_id": f"run-{number % 3}"}))
    place = Received()
    for more in (0, 5, 1):
        for number in range(more):
            append(log, in_run(node(f"more{number}"), {"run_id": f"run-{number % 3}"}))
        _, follower = emitting(tmp_path, place)
        follower.catch_up()
        follower.close()
    assert place.commits() == list(range(1, 257))
    assert place.starts() == 3


@promise("L47, at least once", "what was refused is emitted again, and nothing is passed over")
def test_what_was_refused_is_emitted_again_and_nothing_is_passed_over(tmp_path: Path, log: FilesLog) -> None:
    for number in range(250):
        append(log, draft(node(f"n{number}")))
    place = Received()
    place.refuses_after = 321
    emitter, follower = emitting(tmp_path, place)
    with pytest.raises(StorageRefused):
        follower.catch_up()
    assert emitter.position().lamport == 100
    place.refuses_after = None
    follower.catch_up()
    assert list(dict.fromkeys(place.commits())) == list(range(1, 251))
    assert emitter.position() == log.head()
    follower.close()


def test_a_draft_is_never_torn_apart_by_a_position(tmp_path: Path, log: FilesLog) -> None:
    for _ in range(3):
        append(log, draft(*(node(f"n{number}") for number in range(90))))
    place = Received()
    place.refuses_after = 182
    emitter, follower = emitting(tmp_path, place)
    with pytest.raises(StorageRefused):
        follower.catch_up()
    assert emitter.position().lamport == 180
    follower.close()


def test_each_place_has_a_position_of_its_own_and_can_begin_again(tmp_path: Path, log: FilesLog) -> None:
    append(log, draft(node("a")))
    first, second = Received("first"), Received("second")
    for place in (first, first, second):
        _, follower = emitting(tmp_path, place)
        follower.catch_up()
        follower.close()
    assert (first.commits(), second.commits()) == ([1], [1])
    emitter, follower = emitting(tmp_path, first)
    emitter.reset()
    follower.catch_up()
    assert first.commits() == [1, 1]
    assert first.events[:2] == first.events[2:]
    follower.close()


def test_the_type_of_what_is_gone_is_asked_for(tmp_path: Path, log: FilesLog) -> None:
    append(log, draft(node("a")))
    append(log, draft(Operation(Verb.DELETE_NODE, {"node_id": "a"})))
    place = Received()
    _, follower = emitting(tmp_path, place, kind="profile")
    follower.catch_up()
    follower.close()
    assert [event["outputs"][0]["name"] for event in place.events if event["outputs"]] == ["note", "profile"]


# -- files


def lines(path: Path) -> list[Event]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_file_gets_an_event_a_line_and_a_torn_one_is_taken_off(tmp_path: Path, log: FilesLog) -> None:
    file = tmp_path / "lineage.jsonl"
    for round_ in range(2):
        append(log, draft(node(f"n{round_}")))
        _, follower = emitting(tmp_path, FileSink(file))
        follower.catch_up()
        follower.close()
        with file.open("ab") as torn:
            torn.write(b'{"eventTime":"2025-')
    sink = FileSink(file)
    sink.send([])
    sink.close()
    assert [event["eventType"] for event in lines(file)] == ["START", "COMPLETE"] * 2


def test_a_file_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "letter.txt"
    file.write_text("Dear Ada")
    with pytest.raises(InvalidArgument):
        FileSink(file).send([{}])
    assert file.read_text() == "Dear Ada"


def test_a_file_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(StorageRefused, match="No such file"):
        FileSink(tmp_path / "nowhere" / "lineage.jsonl").send([{}])


# -- endpoints


class Endpoint(msgspec.Struct):
    """A real one. `answers` are given in order; from then on 201, and 422 for what the official schemas refuse."""

    address: str
    bodies: list[Any]
    headers: list[dict[str, str]]
    answers: list[tuple[int, dict[str, str]]]
    came: threading.Condition

    def wait_for(self, count: int) -> None:
        with self.came:
            self.came.wait_for(lambda: len(self.bodies) >= count)


@contextmanager
def endpoint(*answers: tuple[int, dict[str, str]], port: int = 0) -> Iterator[Endpoint]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            said = json.loads(body)
            faults = [fault for event in (said if isinstance(said, list) else [said]) for fault in faults_of(event)]
            status, headers = there.answers.pop(0) if there.answers else (422 if faults else 201, {})
            if status == 201:
                with there.came:
                    there.bodies.append(said)
                    there.came.notify_all()
            there.headers.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port or free_ports(1)[0]), Handler)
    there = Endpoint(
        f"http://127.0.0.1:{server.server_port}/api/v1/lineage", [], [], list(answers), threading.Condition()
    )
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield there
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


EVENTS = told(in_run(OPERATIONS[0], RUN), in_run(OPERATIONS[1], RUN), in_run(OPERATIONS[2], RUN))


def test_an_endpoint_that_holds_events_against_the_official_schemas_refuses_one_that_does_not_conform() -> None:
    with endpoint() as there:
        sink = HttpSink(there.address)
        sink.send(EVENTS[:1])
        with pytest.raises(TallystickError) as refused:
            sink.send([{**EVENTS[0], "eventType": "NO_SUCH_TYPE"}])
        assert refused.value.code == "LINEAGE_REFUSED"
        assert there.bodies == EVENTS[:1]


def test_an_endpoint_gets_each_event_by_itself_or_some_together() -> None:
    with endpoint() as there:
        HttpSink(there.address, token="t0ken").send(EVENTS)
        assert there.bodies == EVENTS
        assert {headers["authorization"] for headers in there.headers} == {"Bearer t0ken"}
        there.bodies.clear()
        HttpSink(there.address, together=3).send(EVENTS)
        assert there.bodies == [EVENTS[:3], EVENTS[3:]]


def test_an_endpoint_that_is_busy_is_left_alone_for_longer_and_longer() -> None:
    pauses: list[float] = []
    with endpoint((503, {}), (500, {}), (429, {"retry-after": "7"}), (201, {}), (503, {})) as there:
        HttpSink(there.address, pause=pauses.append).send(EVENTS[:2])
        assert there.bodies == EVENTS[:2]
    assert pauses == [0.5, 1.0, 7.0, 0.5]


def test_an_endpoint_that_stays_away_is_given_up_and_the_next_run_goes_on(tmp_path: Path, log: FilesLog) -> None:
    append(log, draft(node("a")))
    with endpoint() as gone:
        address = gone.address
    pauses: list[float] = []
    _, follower = emitting(tmp_path, HttpSink(address, patience_seconds=3, pause=pauses.append))
    with pytest.raises(TallystickError) as refusal:
        follower.catch_up()
    assert refusal.value.code == "LINEAGE_NOT_RECEIVED"
    assert pauses == [0.5, 1.0]
    with endpoint(port=urlsplit(address).port or 0) as there:
        _, follower = emitting(tmp_path, HttpSink(address))
        follower.catch_up()
        follower.close()
        assert [event["eventType"] for event in there.bodies] == ["START", "COMPLETE"]


@pytest.mark.parametrize("status", [400, 401, 404, 301])
def test_an_endpoint_that_refuses_an_event_is_not_asked_again(status: int) -> None:
    pauses: list[float] = []
    with endpoint((status, {})) as there:
        with pytest.raises(TallystickError) as refusal:
            HttpSink(there.address, pause=pauses.append).send(EVENTS)
        assert (refusal.value.code, there.bodies, pauses) == ("LINEAGE_REFUSED", [], [])
        assert str(status) in refusal.value.message


def test_secrets_in_an_address_are_neither_kept_nor_shown(tmp_path: Path, log: FilesLog) -> None:
    append(log, draft(node("a")))
    address = "https://ada:pa55@lineage.example:8443/api/v1/lineage?key=s3cret"
    assert shown(address) == "https://lineage.example:8443/api/v1/lineage"
    _, follower = emitting(tmp_path, Received(address))
    follower.catch_up()
    follower.close()
    kept = b"".join(path.read_bytes() for path in (tmp_path / "lineage").iterdir())
    assert b"lineage.example" in kept
    assert b"pa55" not in kept
    assert b"s3cret" not in kept


def test_places_are_files_and_endpoints_and_nothing_else(tmp_path: Path) -> None:
    assert isinstance(sink_for("lineage.jsonl"), FileSink)
    assert isinstance(sink_for("https://lineage.example/"), HttpSink)
    with pytest.raises(InvalidArgument):
        sink_for("kafka://broker/topic")
