"""A line of the log that was altered behind the server's back: who asks for it is told, everybody else is served."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from tallystick.commits import chain
from tallystick.errors import TallystickError, Unreadable
from tallystick.telemetry import metrics
from tallystick.toolsets.memory import TOOLSET
from tests.promises import promise
from tests.toolsets.agent import Agent

Question = Callable[[Agent], Any]

# Which commits each question comes across, by lamport.
WRITTEN = 7
QUESTIONS: dict[str, tuple[Question, set[int]]] = {
    "as it is": (lambda agent: agent.read("ada"), {3}),
    "with its edges": (lambda agent: agent.read("ada", include_edges=True), {3, 4}),
    "as it was": (lambda agent: agent.read("ada", as_of=2), {1, 2}),
    "an edge": (lambda agent: agent.read("ada|knows|bob"), {4}),
    "by its id": (lambda agent: agent.search(filters={"id": "ada"}), {3}),
    "by its type": (lambda agent: agent.search(type="person"), {3, 5}),
    "by an attribute": (lambda agent: agent.search(filters={"attrs": {"town": "Turin"}}), {3}),
    "by a text that is too long for the index": (
        lambda agent: agent.search(type="person", filters={"attrs": {"notes": "long " * 40}}),
        {3, 5},
    ),
    "in the past": (lambda agent: agent.search(type="person", as_of=2), {1, 2}),
    "along edges": (lambda agent: agent.search(entity_id="ada", traversal={"hops": 1}), {4, 5}),
    "its history": (lambda agent: agent.lineage("ada"), {1, 3}),
    "its history as CSV": (lambda agent: agent.lineage("ada", format="csv"), {1, 3}),
    "its history as events": (lambda agent: agent.lineage("ada", format="openlineage_v1"), {1, 3}),
    "with its edges' history": (lambda agent: agent.lineage("ada", depth="full"), {1, 3, 4}),
    "what was redacted": (lambda agent: agent.read("cyd"), {6, 7}),
    "its history, redacted": (lambda agent: agent.lineage("cyd"), {6, 7}),
}


@pytest.fixture
def written(agent: Agent) -> Agent:
    agent.node("ada", "person", town="Turing", notes="long " * 40)
    agent.node("bob", "person", town="Milan")
    agent.node("ada", "person", town="Turin", notes="long " * 40)
    agent.edge("ada", "knows", "bob", since=1999)
    agent.node("bob", "person", town="Malta", notes="long " * 40)
    agent.node("cyd", "secret", code="open sesame", town="Turin, once")
    agent.write(op="REDACT_NODE", node_id="cyd", reason="asked", redacted_fields=["attrs.code"])
    assert len(agent.lines()) == WRITTEN
    return agent


def altered(line: bytes, place: int) -> bytes:
    at = len(line) - len(chain.payload_of(line).ljust(chain.room_of(line))) - 1 + place
    return line[:at] + bytes([line[at] ^ 1]) + line[at + 1 :]


@promise("L4, every reader", "an altered payload is answered by nothing and stops nobody else")
@pytest.mark.parametrize("lamport", range(1, WRITTEN + 1))
def test_an_altered_payload_is_answered_by_nothing_and_stops_nobody_else(written: Agent, lamport: int) -> None:
    before = {name: ask(written) for name, (ask, _) in QUESTIONS.items()}
    lines = written.log._lines
    whole = lines[lamport - 1]
    for place in range(1, len(chain.payload_of(whole)) - 1, 7):
        lines[lamport - 1] = altered(whole, place)
        for name, (ask, reads) in QUESTIONS.items():
            if lamport in reads:
                assert refusal(written, ask)["error"] == "LOG_CORRUPT", (name, place)
            else:
                assert same(ask(written), before[name]), (name, place)
    lines[lamport - 1] = whole
    assert all(same(ask(written), before[name]) for name, (ask, _) in QUESTIONS.items())


@pytest.mark.parametrize("field", ["timestamp", "tool", "tenant", "policy_version", "prev", "record_hash"])
def test_a_history_shows_no_field_that_was_altered(written: Agent, field: str) -> None:
    line = written.log._lines[2]
    at = line.index(b'"%b":"' % field.encode()) + len(field) + 4
    written.log._lines[2] = line[:at] + bytes([line[at] ^ 1]) + line[at + 1 :]
    for form in ("json", "csv", "openlineage_v1"):
        assert written.refusal("memory.lineage", entity_id="ada", format=form)["error"] == "LOG_CORRUPT"
    assert written.lineage("bob")["lineage"]


def test_a_line_in_the_place_of_another_is_not_taken_for_it(agent: Agent) -> None:
    agent.node("ada", town="Turin")
    agent.node("bob", town="Milan")
    lines = agent.log._lines
    assert len(lines[0]) < len(lines[1])  # The first has no commit before it to name.
    agent.node("cyd", town="Malta")
    assert len(lines[1]) == len(lines[2])
    lines[1], lines[2] = lines[2], lines[1]
    for name in ("bob", "cyd"):
        assert agent.refusal("memory.read", entity_id=name)["error"] == "LOG_CORRUPT"
    assert agent.read("ada")["entity"]["attrs"] == {"town": "Turin"}


def test_damage_is_an_incident_for_the_operator_and_says_nothing_of_the_document(
    written: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    written.log._lines[2] = written.log._lines[2].replace(b"Turin", b"Berne")
    before = _damage()
    with caplog.at_level(logging.ERROR):
        told = written.refusal("memory.read", entity_id="ada")
    assert told["error"] == "LOG_CORRUPT"
    assert "lamport 3: the payload does not match content_hash" in told["message"]
    assert "tallystick verify" in told["hint"]
    assert "Berne" not in str(told)
    assert "is damaged" in caplog.text
    assert "Berne" not in caplog.text
    assert _damage() == before + 1


def test_a_disk_that_gives_nothing_back_is_told_as_that_and_counts_as_no_damage(
    written: Agent, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(offset: int, **_: object) -> bytes:
        raise Unreadable("x.jsonl cannot be read at byte 0: Input/output error", details={"file": "/srv/x.jsonl"})

    before = _damage()
    over = {"op": "UPSERT_NODE", "node": {"id": "ada", "type": "person", "attrs": {"town": "Rome"}}}
    with caplog.at_level(logging.ERROR), monkeypatch.context() as patched:
        patched.setattr(written.log, "line", unreadable)
        for told in (written.refusal("memory.read", entity_id="ada"), written.refusal("memory.write", **over)):
            assert (told["error"], "look at the disk" in told["hint"]) == ("LOG_UNREADABLE", True)
            assert "/srv" not in str(told)
    assert "is damaged" not in caplog.text
    assert _damage() == before
    written.write(**over)
    assert written.read("ada")["entity"]["attrs"] == {"town": "Rome"}


def test_what_was_damaged_cannot_be_written_over_and_all_else_can(written: Agent) -> None:
    written.log._lines[2] = written.log._lines[2].replace(b"Turin", b"Berne")
    over = {"op": "UPSERT_NODE", "node": {"id": "ada", "type": "person", "attrs": {"town": "Rome"}}}
    away: list[dict[str, Any]] = [
        over,
        {"op": "DELETE_NODE", "node_id": "ada"},
        {"op": "REDACT_NODE", "node_id": "ada", "reason": "asked"},
    ]
    for operation in away:
        assert written.refusal("memory.write", **operation)["error"] == "LOG_CORRUPT"
        # Whoever writes next, in the same place of the log, is not mistaken for the one that was refused.
        made = written.node("dan", town=operation["op"])
        assert written.read("dan")["provenance"]["commit_id"] == made["commit_id"]
    written.log._lines[2] = written.log._lines[2].replace(b"Berne", b"Turin")
    written.write(**over)
    assert written.read("ada")["entity"]["attrs"] == {"town": "Rome"}
    assert written.ids(filters={"attrs": {"town": "Turin"}}) == []


def refusal(agent: Agent, ask: Question) -> dict[str, Any]:
    with pytest.raises(TallystickError) as refused:
        ask(agent)
    return TOOLSET.error_shape(refused.value)


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return {**one, "query_latency_ms": 0} == {**other, "query_latency_ms": 0}


def _damage() -> float:
    (found,) = [metric for metric in metrics.METRICS if metric.name == "tallystick_log_damage"]
    assert isinstance(found, metrics.Counter)
    return sum(value for _, value in found.read())
