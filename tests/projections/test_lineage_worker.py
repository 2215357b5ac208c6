"""The feed: every tenant's lineage gets there, whatever one of them or the place is up to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import TallystickError
from tallystick.log.files import FilesLog
from tallystick.projections.lineage_emitter import LineageEmitter, Sink, follow, standing
from tallystick.projections.lineage_worker import ALL_SECONDS, LineageWorker
from tallystick.projections.log_reader import LogReader
from tallystick.projections.openlineage import Event
from tallystick.projections.worker import ProjectionWorker
from tests.commits_by_hand import draft, entries, node


class FakeEndpoint:
    """Receives until it is told to raise."""

    target = "http://lineage.example/"

    def __init__(self) -> None:
        self.received: list[tuple[str, str]] = []
        """Tenant and entity of each commit, once."""
        self.attempts = 0
        self.trouble: Callable[[str], TallystickError | None] = lambda tenant: None
        self.after: Callable[[], None] = lambda: None

    def send(self, events: Sequence[Event]) -> None:
        self.attempts += 1
        for event in events:
            tenant = event["job"]["namespace"].removeprefix("tallystick/")
            error = self.trouble(tenant)
            if error is not None:
                raise error
            if event["eventType"] == "COMPLETE":
                self.received.append((tenant, event["outputs"][0]["facets"]["tallystick_entity"]["entity"]["id"]))
        self.after()

    def close(self) -> None: ...


class WorkerSetup:
    def __init__(self, base: Path) -> None:
        self.base = base
        self.endpoint = FakeEndpoint()
        self.now = 0.0
        self.busy: list[str] = []
        self.known: list[str] = []
        self._logs: dict[str, FilesLog] = {}
        self.feed = self.started()

    def started(self) -> LineageWorker:
        return LineageWorker(
            self.endpoint, self._follow, busy=lambda: self.busy, known=lambda: self.known, now=lambda: self.now
        )

    def write(self, tenant: str, *ids: str) -> None:
        if tenant not in self._logs:
            self._logs[tenant] = FilesLog(self.base / tenant)
        log = self._logs[tenant]
        for id in ids:
            head = log.head()
            log.append(entries(head, draft(node(id)), tenant=tenant), expected=head)

    def trouble_of(self, tenant: str) -> str | None:
        return standing(self.base / tenant, self.endpoint.target)[1]

    def run_once(self, after: float = 0.0) -> None:
        self.now += after
        self.feed.run_once()

    def close(self) -> None:
        for log in self._logs.values():
            log.close()

    def _follow(self, tenant: str, sink: Sink) -> tuple[LineageEmitter, ProjectionWorker]:
        return follow(self.base / tenant, LogReader(lambda: FilesLog(self.base / tenant)), sink, lambda commit: "note")


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[WorkerSetup]:
    made = WorkerSetup(tmp_path)
    yield made
    made.close()


def away(tenant: str, **details: Any) -> TallystickError:
    return TallystickError("nobody there", code="LINEAGE_NOT_RECEIVED", details=details)


def refused(tenant: str) -> TallystickError | None:
    return TallystickError("no such job", code="LINEAGE_REFUSED") if tenant == "acme" else None


def test_what_each_tenant_commits_is_handed_on_once(setup: WorkerSetup) -> None:
    setup.busy = ["acme", "globex"]
    setup.write("acme", "a")
    setup.write("globex", "b")
    setup.run_once()
    setup.write("acme", "c")
    setup.run_once()
    setup.run_once()
    assert setup.endpoint.received == [("acme", "a"), ("globex", "b"), ("acme", "c")]


def test_the_next_start_goes_on_where_the_last_one_was_also_for_tenants_nobody_uses(setup: WorkerSetup) -> None:
    setup.busy = ["acme"]
    setup.write("acme", "a")
    setup.run_once()
    setup.write("acme", "b")
    setup.write("globex", "c")
    setup.busy, setup.known = [], ["acme", "globex"]
    setup.feed = setup.started()
    setup.run_once()
    assert setup.endpoint.received == [("acme", "a"), ("acme", "b"), ("globex", "c")]


def test_what_other_processes_write_for_tenants_that_are_closed_here_is_found_in_time(setup: WorkerSetup) -> None:
    setup.known = ["acme"]
    setup.run_once()
    setup.write("acme", "a")
    setup.run_once(ALL_SECONDS - 1)
    assert setup.endpoint.received == []
    setup.run_once(1)
    assert setup.endpoint.received == [("acme", "a")]


def test_a_place_that_is_away_is_asked_after_longer_and_longer_pauses_and_all_is_handed_on_when_it_is_back(
    setup: WorkerSetup, caplog: pytest.LogCaptureFixture
) -> None:
    setup.known = ["acme", "globex"]
    setup.write("acme", "a")
    setup.write("globex", "b")
    setup.endpoint.trouble = away
    tried_at = []
    for second in range(100):
        before = setup.endpoint.attempts
        setup.run_once(1 if second else 0)
        tried_at += [setup.now] if setup.endpoint.attempts > before else []
    assert tried_at == [0, 1, 3, 7, 15, 31, 63]
    assert setup.trouble_of("acme") == "nobody there"
    assert "nobody there; again in 1.0 s" in caplog.text

    setup.endpoint.trouble = lambda tenant: None
    setup.run_once(60)
    assert sorted(setup.endpoint.received) == [("acme", "a"), ("globex", "b")]
    assert (setup.trouble_of("acme"), setup.trouble_of("globex")) == (None, None)
    assert "is handed on again" in caplog.text


def test_a_place_that_says_how_long_to_leave_it_alone_is_left_alone(setup: WorkerSetup) -> None:
    setup.busy = ["acme"]
    setup.write("acme", "a")
    setup.endpoint.trouble = lambda tenant: away(tenant, retry_after=20)
    setup.run_once()
    setup.endpoint.trouble = lambda tenant: None
    setup.run_once(19)
    assert setup.endpoint.received == []
    setup.run_once(1)
    assert setup.endpoint.received == [("acme", "a")]


def test_an_event_that_is_refused_holds_up_its_own_tenant_only(setup: WorkerSetup) -> None:
    setup.busy = ["acme", "globex"]
    setup.write("acme", "a")
    setup.write("globex", "b")
    setup.endpoint.trouble = refused
    for _ in range(10):
        setup.run_once(1)
    assert setup.endpoint.received == [("globex", "b")]
    assert (setup.trouble_of("acme"), setup.trouble_of("globex")) == ("no such job", None)


def test_a_damaged_log_holds_up_its_own_tenant_only(setup: WorkerSetup) -> None:
    setup.busy = ["acme", "globex"]
    setup.write("acme", "a")
    setup.write("globex", "b")
    [segment] = (setup.base / "acme" / "log").glob("*.jsonl")
    segment.write_bytes(segment.read_bytes().replace(b'"a"', b'"x"'))
    setup.run_once()
    assert setup.endpoint.received == [("globex", "b")]
    assert setup.trouble_of("acme") is not None


def test_a_tenant_that_writes_faster_than_the_place_receives_leaves_the_others_their_turn(setup: WorkerSetup) -> None:
    setup.busy = ["acme", "globex"]
    setup.write("acme", "a")
    setup.write("globex", "b")

    def slowly() -> None:
        """While one batch is received the next is written."""
        setup.now += 4
        if setup.now < 1000:
            setup.write("acme", f"a{setup.now}")

    setup.endpoint.after = slowly
    setup.run_once()
    assert ("globex", "b") in setup.endpoint.received
    setup.endpoint.after = lambda: None
    setup.run_once()
    written = {f"a{second}" for second in ("", *(float(at) for at in range(4, int(setup.now) + 1, 4)))}
    assert {entity for tenant, entity in setup.endpoint.received if tenant == "acme"} == written
    assert len(setup.endpoint.received) == len(set(setup.endpoint.received))
