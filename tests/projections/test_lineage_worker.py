"""The feed: every tenant's lineage gets there, whatever one of them or the place is up to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import TallystickError
from tallystick.log.files import FilesLog
from tallystick.projections.follower import Follower
from tallystick.projections.lineage_emitter import LineageEmitter, Sink, follow, standing
from tallystick.projections.lineage_worker import ALL_SECONDS, LineageWorker
from tallystick.projections.openlineage import Event
from tests.commits_by_hand import draft, entries, node


class Place:
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


class House:
    def __init__(self, base: Path) -> None:
        self.base = base
        self.place = Place()
        self.now = 0.0
        self.busy: list[str] = []
        self.known: list[str] = []
        self._logs: dict[str, FilesLog] = {}
        self.feed = self.started()

    def started(self) -> LineageWorker:
        return LineageWorker(
            self.place, self._follow, busy=lambda: self.busy, known=lambda: self.known, now=lambda: self.now
        )

    def write(self, tenant: str, *ids: str) -> None:
        if tenant not in self._logs:
            self._logs[tenant] = FilesLog(self.base / tenant)
        log = self._logs[tenant]
        for id in ids:
            head = log.head()
            log.append(entries(head, draft(node(id)), tenant=tenant), expected=head)

    def trouble_of(self, tenant: str) -> str | None:
        return standing(self.base / tenant, self.place.target)[1]

    def run_once(self, after: float = 0.0) -> None:
        self.now += after
        self.feed.run_once()

    def close(self) -> None:
        for log in self._logs.values():
            log.close()

    def _follow(self, tenant: str, sink: Sink) -> tuple[LineageEmitter, Follower]:
        return follow(self.base / tenant, lambda: FilesLog(self.base / tenant), sink, lambda commit: "note")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.close()


def away(tenant: str, **details: Any) -> TallystickError:
    return TallystickError("nobody there", code="LINEAGE_NOT_RECEIVED", details=details)


def refused(tenant: str) -> TallystickError | None:
    return TallystickError("no such job", code="LINEAGE_REFUSED") if tenant == "acme" else None


def test_what_each_tenant_commits_is_handed_on_once(house: House) -> None:
    house.busy = ["acme", "globex"]
    house.write("acme", "a")
    house.write("globex", "b")
    house.run_once()
    house.write("acme", "c")
    house.run_once()
    house.run_once()
    assert house.place.received == [("acme", "a"), ("globex", "b"), ("acme", "c")]


def test_the_next_start_goes_on_where_the_last_one_was_also_for_tenants_nobody_uses(house: House) -> None:
    house.busy = ["acme"]
    house.write("acme", "a")
    house.run_once()
    house.write("acme", "b")
    house.write("globex", "c")
    house.busy, house.known = [], ["acme", "globex"]
    house.feed = house.started()
    house.run_once()
    assert house.place.received == [("acme", "a"), ("acme", "b"), ("globex", "c")]


def test_what_other_processes_write_for_tenants_that_are_closed_here_is_found_in_time(house: House) -> None:
    house.known = ["acme"]
    house.run_once()
    house.write("acme", "a")
    house.run_once(ALL_SECONDS - 1)
    assert house.place.received == []
    house.run_once(1)
    assert house.place.received == [("acme", "a")]


def test_a_place_that_is_away_is_asked_after_longer_and_longer_pauses_and_all_is_handed_on_when_it_is_back(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.known = ["acme", "globex"]
    house.write("acme", "a")
    house.write("globex", "b")
    house.place.trouble = away
    tried_at = []
    for second in range(100):
        before = house.place.attempts
        house.run_once(1 if second else 0)
        tried_at += [house.now] if house.place.attempts > before else []
    assert tried_at == [0, 1, 3, 7, 15, 31, 63]
    assert house.trouble_of("acme") == "nobody there"
    assert "nobody there; again in 1.0 s" in caplog.text

    house.place.trouble = lambda tenant: None
    house.run_once(60)
    assert sorted(house.place.received) == [("acme", "a"), ("globex", "b")]
    assert (house.trouble_of("acme"), house.trouble_of("globex")) == (None, None)
    assert "is handed on again" in caplog.text


def test_a_place_that_says_how_long_to_leave_it_alone_is_left_alone(house: House) -> None:
    house.busy = ["acme"]
    house.write("acme", "a")
    house.place.trouble = lambda tenant: away(tenant, retry_after=20)
    house.run_once()
    house.place.trouble = lambda tenant: None
    house.run_once(19)
    assert house.place.received == []
    house.run_once(1)
    assert house.place.received == [("acme", "a")]


def test_an_event_that_is_refused_holds_up_its_own_tenant_only(house: House) -> None:
    house.busy = ["acme", "globex"]
    house.write("acme", "a")
    house.write("globex", "b")
    house.place.trouble = refused
    for _ in range(10):
        house.run_once(1)
    assert house.place.received == [("globex", "b")]
    assert (house.trouble_of("acme"), house.trouble_of("globex")) == ("no such job", None)


def test_a_damaged_log_holds_up_its_own_tenant_only(house: House) -> None:
    house.busy = ["acme", "globex"]
    house.write("acme", "a")
    house.write("globex", "b")
    [segment] = (house.base / "acme" / "log").glob("*.jsonl")
    segment.write_bytes(segment.read_bytes().replace(b'"a"', b'"x"'))
    house.run_once()
    assert house.place.received == [("globex", "b")]
    assert house.trouble_of("acme") is not None


def test_a_tenant_that_writes_faster_than_the_place_receives_leaves_the_others_their_turn(house: House) -> None:
    house.busy = ["acme", "globex"]
    house.write("acme", "a")
    house.write("globex", "b")

    def slowly() -> None:
        """While one batch is received the next is written."""
        house.now += 4
        if house.now < 1000:
            house.write("acme", f"a{house.now}")

    house.place.after = slowly
    house.run_once()
    assert ("globex", "b") in house.place.received
    house.place.after = lambda: None
    house.run_once()
    written = {f"a{second}" for second in ("", *(float(at) for at in range(4, int(house.now) + 1, 4)))}
    assert {entity for tenant, entity in house.place.received if tenant == "acme"} == written
    assert len(house.place.received) == len(set(house.place.received))
