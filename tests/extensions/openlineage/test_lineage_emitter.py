"""The lineage of every tenant gets there, whatever one of them or the place is up to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick import app
from tallystick.app.tenant_projections import AllProjections
from tallystick.config import Settings, load
from tallystick.errors import TallystickError
from tallystick.extensions.openlineage import lineage_emitter
from tallystick.extensions.openlineage.events import Event
from tallystick.extensions.openlineage.lineage_emitter import Destination, SharedSink, standing
from tallystick.log.files import FilesLog
from tallystick.projections.follower import Follower
from tallystick.projections.log_reader import LogReader
from tallystick.projections.registry import Place
from tests import timeouts
from tests.commits_by_hand import draft, entries, node
from tests.promises import promise


class FakeEndpoint:
    """Receives until it is told to raise."""

    target = "http://lineage.example/"

    def __init__(self) -> None:
        self.received: list[tuple[str, str]] = []
        """Tenant and entity of each commit, once."""
        self.attempts = 0
        self.trouble: Callable[[str], TallystickError | None] = lambda tenant: None
        self.came = threading.Condition()

    def send(self, events: Sequence[Event]) -> None:
        self.attempts += 1
        for event in events:
            tenant = event["job"]["namespace"].removeprefix("tallystick/")
            error = self.trouble(tenant)
            if error is not None:
                raise error
            if event["eventType"] == "COMPLETE":
                with self.came:
                    entity = event["outputs"][0]["facets"]["tallystick_entity"]["entity"]["id"]
                    self.received.append((tenant, entity))
                    self.came.notify_all()

    def close(self) -> None: ...

    def wait_for(self, *wanted: tuple[str, str]) -> None:
        with self.came:
            assert self.came.wait_for(lambda: {*wanted} <= {*self.received}, timeouts.SECONDS)


class Team:
    """Tenants with a log each, whose lineage goes to one place."""

    def __init__(self, base: Path) -> None:
        self.settings = load({"base": base}, environ={})
        self.endpoint = FakeEndpoint()
        self.now = 0.0
        self.sink = SharedSink(self.endpoint, now=lambda: self.now)
        self.followers: dict[str, Follower] = {}

    def of(self, tenant: str) -> Settings:
        return msgspec.structs.replace(self.settings, tenant=tenant)

    def write(self, tenant: str, *ids: str) -> None:
        log = FilesLog(self.of(tenant).system)
        for id in ids:
            head = log.head()
            made = entries(head, draft(node(id)), tenant=tenant)
            log.append(made, expected=head)
            if tenant in self.followers:
                self.followers[tenant].appended(made)
        log.close()

    def follower(self, tenant: str) -> Follower:
        settings = self.of(tenant)
        parts = {"lineage": self.destination(tenant)}
        place = Place(settings.home, LogReader(lambda: app.open_log(settings)), parts=parts)
        self.followers[tenant] = Follower(place)
        return self.followers[tenant]

    def destination(self, tenant: str) -> Destination:
        return Destination(self.sink, lambda commit: "note")

    def trouble_of(self, tenant: str) -> str | None:
        return standing(self.of(tenant).system, self.endpoint.target)[1]

    def close(self) -> None:
        for each in self.followers.values():
            each.close()


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(tmp_path)


def away(tenant: str, retry_after: float = 0.0) -> TallystickError:
    return TallystickError("nobody there", code="LINEAGE_NOT_RECEIVED", details={"retry_after": retry_after})


def refused(tenant: str) -> TallystickError | None:
    return TallystickError("no such job", code="LINEAGE_REFUSED") if tenant == "acme" else None


def test_what_each_tenant_commits_is_handed_on_once(team: Team) -> None:
    team.write("acme", "a")
    for tenant in ("acme", "globex"):
        team.follower(tenant).hand_on()
    team.write("globex", "b")
    team.write("acme", "c")
    team.endpoint.wait_for(("acme", "a"), ("globex", "b"), ("acme", "c"))
    team.close()
    assert sorted(team.endpoint.received) == [("acme", "a"), ("acme", "c"), ("globex", "b")]


def test_what_is_committed_last_is_handed_on_before_the_end(team: Team) -> None:
    follower = team.follower("acme")
    follower.hand_on()
    team.write("acme", "a")
    team.close()
    assert team.endpoint.received == [("acme", "a")]


async def test_lineage_of_tenants_that_nobody_uses_is_handed_on_too(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lineage_emitter, "sink_for", lambda target, **options: team.endpoint)
    settings = msgspec.structs.replace(team.settings, lineage_to=team.endpoint.target)
    projections = AllProjections(settings, open_log=app.open_log, store=lambda: None)
    team.write("acme", "a")
    await projections.hand_on_once(lambda: ["acme", "globex"])
    team.write("acme", "b")
    team.write("globex", "c")
    await projections.hand_on_once(lambda: ["acme", "globex"])
    await projections.close()
    assert team.endpoint.received == [("acme", "a"), ("acme", "b"), ("globex", "c")]


def test_a_place_that_is_away_is_asked_after_longer_and_longer_pauses_by_whoever_is_first(team: Team) -> None:
    team.endpoint.trouble = away
    tried_at = []
    for second in range(100):
        team.now = float(second)
        before = team.endpoint.attempts
        for _ in ("acme", "globex"):
            with pytest.raises(TallystickError, match="nobody there"):
                team.sink.send([event("acme")])
        tried_at += [second] if team.endpoint.attempts > before else []
        assert team.endpoint.attempts - before <= 1
    assert tried_at == [0, 1, 3, 7, 15, 31, 63]
    team.endpoint.trouble = lambda tenant: None
    team.now += 60
    team.sink.send([event("acme")])
    team.sink.send([event("globex")])
    assert team.endpoint.received == [("acme", "x"), ("globex", "x")]


def test_a_place_that_says_how_long_to_leave_it_alone_is_left_alone(team: Team) -> None:
    team.endpoint.trouble = lambda tenant: away(tenant, retry_after=20)
    with pytest.raises(TallystickError):
        team.sink.send([event("acme")])
    team.endpoint.trouble = lambda tenant: None
    team.now = 15
    with pytest.raises(TallystickError) as error:
        team.sink.send([event("acme")])
    assert error.value.details["retry_after"] == 5
    team.now = 20
    team.sink.send([event("acme")])
    assert team.endpoint.received == [("acme", "x")]


def test_what_could_not_be_handed_on_is_when_the_place_is_back(team: Team) -> None:
    team.write("acme", "a", "b")
    worker = team.follower("acme").worker("lineage")
    team.endpoint.trouble = away
    with pytest.raises(TallystickError):
        worker.catch_up()
    assert team.trouble_of("acme") == "nobody there"
    team.endpoint.trouble = lambda tenant: None
    team.now = 1
    worker.catch_up()
    assert (team.endpoint.received, team.trouble_of("acme")) == ([("acme", "a"), ("acme", "b")], None)
    team.close()


@promise("FR-005, feed, tenants", "what one tenant's events meet does not hold up the others'")
def test_an_event_that_is_refused_holds_up_its_own_tenant_only(team: Team) -> None:
    team.write("acme", "a")
    team.write("globex", "b")
    team.endpoint.trouble = refused
    for tenant in ("acme", "globex"):
        team.follower(tenant).hand_on()
    team.endpoint.wait_for(("globex", "b"))
    team.close()
    assert team.endpoint.received == [("globex", "b")]
    assert (team.trouble_of("acme"), team.trouble_of("globex")) == ("no such job", None)


def test_a_damaged_log_holds_up_its_own_tenant_only(team: Team) -> None:
    team.write("acme", "a")
    team.write("globex", "b")
    [segment] = (team.of("acme").system / "log").glob("*.jsonl")
    segment.write_bytes(segment.read_bytes().replace(b'"a"', b'"x"'))
    for tenant in ("acme", "globex"):
        team.follower(tenant).hand_on()
    team.endpoint.wait_for(("globex", "b"))
    team.close()
    assert team.endpoint.received == [("globex", "b")]
    assert team.trouble_of("acme") is not None


def test_a_place_that_keeps_silent_does_not_hold_up_the_end(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    answers, asked = threading.Event(), threading.Event()

    def silent(tenant: str) -> None:
        asked.set()
        assert answers.wait(timeouts.SECONDS)

    team.endpoint.trouble = silent
    team.write("acme", "a")
    worker = team.follower("acme").worker("lineage")
    monkeypatch.setattr(worker, "_closing_seconds", 0.0)
    worker.start()
    assert asked.wait(timeouts.SECONDS)
    team.close()
    team.sink.close()
    assert team.endpoint.received == []
    answers.set()
    team.endpoint.wait_for(("acme", "a"))


def event(tenant: str, entity: str = "x") -> dict[str, Any]:
    facets = {"tallystick_entity": {"entity": {"id": entity}}}
    return {"job": {"namespace": f"tallystick/{tenant}"}, "eventType": "COMPLETE", "outputs": [{"facets": facets}]}
