"""The lines on standard error: for people as ever, or one object each for whatever collects them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tallystick.clock import from_text
from tallystick.telemetry import tracing
from tallystick.telemetry.logs import announce, log_to_stderr, tell
from tests.command_line import node
from tests.promises import promise
from tests.telemetry.otlp_collector import serving

logger = logging.getLogger("tallystick.test")


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("tallystick")
    before = (root.handlers[:], root.level, ours.level)
    # Only its own are to be closed when the set-up is replaced, not those of pytest.
    root.handlers[:] = []
    yield
    root.handlers[:], level, ours_level = before
    root.setLevel(level)
    ours.setLevel(ours_level)


def said(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_lines_are_text_unless_asked_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("warning")
    logger.warning("the %s is full", "disk")
    assert capsys.readouterr().err.endswith(" WARNING tallystick.test: the disk is full\n")


def test_a_line_of_json_has_its_time_level_logger_and_message(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("warning", "json")
    logger.info("not asked for")
    logger.warning("two\nlines, %s and half \udc80", "ü")
    [line] = said(capsys)
    assert from_text(line.pop("timestamp")) > 0
    assert line == {"level": "warning", "logger": "tallystick.test", "message": "two\nlines, ü and half \udc80"}


def test_a_bug_brings_its_traceback_in_the_same_line(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("warning", "json")
    try:
        raise KeyError("x")
    except KeyError:
        logger.exception("bug in a tool")
    [line] = said(capsys)
    assert line["exception"]["type"] == "KeyError"
    assert "test_logs.py" in line["exception"]["trace"]


def test_an_event_has_fields_but_cannot_pose_as_another_line(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("info", "json")
    tell(logger, logging.INFO, "policy_eval", "denied", actor="a", resource=None, level="critical", odd=Path("x"))
    [line] = said(capsys)
    assert (line["event"], line["actor"], line["level"], line["odd"]) == ("policy_eval", "a", "info", "x")
    assert "resource" not in line


def test_what_the_process_announces_is_said_at_any_level(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("error", "json")
    announce("serving", "here we are", address="http://127.0.0.1:1/mcp")
    assert [line["event"] for line in said(capsys)] == ["serving"]


class _Tracer:
    def ids(self) -> tuple[str, str] | None:
        return "1" * 32, "2" * 16

    def current(self) -> tracing.Span | None:
        return None

    def call(self, name: str) -> AbstractContextManager[tracing.Span]:
        raise AssertionError("a line of the log begins no span")

    span = call


def test_a_line_names_the_trace_it_belongs_to(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log_to_stderr("warning", "json")
    monkeypatch.setattr(tracing, "tracer", _Tracer())
    logger.warning("slow")
    [line] = said(capsys)
    assert (line["trace_id"], line["span_id"]) == ("1" * 32, "2" * 16)


@promise("8.2, logs", "a denial is a line of JSON with actor, action, resource, decision, reason, version and duration")
def test_a_denial_is_a_line_with_what_the_spec_names(tmp_path: Path) -> None:
    told = {"TALLYSTICK_POLICY": "closed", "TALLYSTICK_LOG_LEVEL": "info"}
    with serving(tmp_path, **told) as server, httpx2.Client(base_url=server.url, timeout=None) as http:
        assert http.post("/v1/tools/memory.write", json=node("n1", "note", text="a secret")).status_code == 403
    [line] = server.events("policy_eval")
    assert (line["actor"], line["action"], line["resource"], line["decision"]) == (
        "default-agent",
        "WRITE",
        "n1",
        False,
    )
    assert line.keys() >= {"timestamp", "reason", "policy_version", "duration_ms"}
    assert not [each for each in server.lines if "a secret" in each]
