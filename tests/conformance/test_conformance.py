"""The official MCP conformance suite, against `tallystick serve --http` as people run it.

Two editions: the released one, and the next, which also knows the era without a handshake.
What fails must be listed in the tables here, each with its reason, and what is
listed must fail: so neither a regression nor a stale excuse goes unseen.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_client import ServerProcess, clean_environ, serving_http, stopping

HERE = Path(__file__).parent
NODE = HERE / "node_modules/.bin/node"
RELEASED = HERE / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
NEXT = HERE / "node_modules/conformance-next/dist/index.js"

pytestmark = pytest.mark.skipif(
    not (NODE.exists() and RELEASED.exists() and NEXT.exists()), reason="npm packages not installed: run make test"
)

DOES_NOT_APPLY = {
    "resources-read-*": "wants the suite's own resources",
    "resources-templates-read": "the same",
    "resources-*subscribe": "the same; and in this era there is no stream over HTTP that changes could be told on",
    "prompts-get-*": "wants the suite's own prompts",
    "completion-complete": "the same",
    "logging-set-level": "logs go to the operator's stderr, not to clients; the newer era drops the method",
    "tools-call-simple-text": "wants the suite's own tool: shown on the demo server below",
    "tools-call-error": "wants the suite's own tool: shown on the demo server below",
    "http-custom-header-server-validation": "no tool mirrors arguments into headers: shown on the demo server below",
    "tools-call-image": "wants a tool that returns an image; ours return structured content and its text",
    "tools-call-audio": "wants a tool that returns sound",
    "tools-call-embedded-resource": "wants a tool that returns a resource",
    "tools-call-mixed-content": "wants a tool that returns text, an image and a resource",
    "tools-call-with-logging": "wants a tool that logs to the client",
    "tools-call-with-progress": "wants a tool that reports progress; ours answer in milliseconds",
    "tools-call-sampling": "the server asks nothing back of a client's model",
    "tools-call-elicitation": "the server asks nothing back of a client's user",
    "elicitation-*": "the same",
    "input-required-*": "the same, as the newer era does it",
    "json-schema-2020-12": "wants the suite's own tool, its schema kept word for word; ours are made from models",
}
"""Scenario, and why it says nothing about this server."""

CHECKS_THAT_DO_NOT_APPLY = {
    ("server-stateless", "sep-2575-server-rejects-undeclared-capability"): "wants the tool test_missing_capability",
    ("server-stateless", "sep-2575-missing-capability-http-400"): "the same",
    ("server-stateless", "sep-2575-http-server-no-independent-requests-on-stream"): "wants test_streaming_elicitation",
    ("server-stateless", "sep-2575-server-no-log-without-loglevel"): "wants the tool test_logging_tool",
}
"""Checks of scenarios that otherwise do apply, and why not these."""

ALWAYS = {"wire-schema-valid"}
"""Checks that must hold even where a scenario does not apply: whatever was answered had the protocol's shape."""

LISTS = {"tools-list", "prompts-list", "resources-list"}
EDITIONS: dict[str, tuple[Path, list[str], set[str]]] = {
    "released": (RELEASED, [], {"server-initialize", "ping", "dns-rebinding-protection", *LISTS}),
    "next, with a handshake": (
        NEXT,
        ["--spec-version", "2025-11-25"],
        {"server-initialize", "server-session-lifecycle", "ping", "dns-rebinding-protection", *LISTS},
    ),
    "next, each request for itself": (
        NEXT,
        ["--spec-version", "2026-07-28"],
        {
            "server-stateless",
            "dns-rebinding-protection",
            "caching",
            "http-header-validation",
            "sep-2164-resource-not-found",
        }
        | LISTS,
    ),
}
"""The suite, its options, and the scenarios that must be among those that were run and that do apply."""


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, set[str]]]:
    """By edition and scenario."""
    with serving_http(tmp_path_factory.mktemp("base"), agent=None) as server:
        return {
            edition: _run(suite, [*options, "--suite", "all"], server.mcp_url, tmp_path_factory.mktemp("results"))
            for edition, (suite, options, _) in EDITIONS.items()
        }


@pytest.mark.parametrize("edition", EDITIONS)
def test_every_scenario_that_applies_passes(edition: str, failures: dict[str, dict[str, set[str]]]) -> None:
    assert EDITIONS[edition][2] <= set(failures[edition])
    wrong = {name: failed for name, failed in failures[edition].items() if failed and not _is_excused(name, failed)}
    assert wrong == {}


def test_no_excuse_is_stale(failures: dict[str, dict[str, set[str]]]) -> None:
    failed = {(name, check) for ran in failures.values() for name, checks in ran.items() for check in checks}
    scenarios = {name for name, _ in failed}
    assert [pattern for pattern in DOES_NOT_APPLY if not any(fnmatch(name, pattern) for name in scenarios)] == []
    assert CHECKS_THAT_DO_NOT_APPLY.keys() - failed == set()


@pytest.mark.parametrize(
    ("version", "scenario"),
    [
        ("2025-11-25", "tools-call-simple-text"),
        ("2025-11-25", "tools-call-error"),
        ("2026-07-28", "tools-call-simple-text"),
        ("2026-07-28", "tools-call-error"),
        ("2026-07-28", "http-header-validation"),
        ("2026-07-28", "http-custom-header-server-validation"),
    ],
)
def test_with_the_suites_own_tools_its_calls_pass_too(version: str, scenario: str, demo: str, tmp_path: Path) -> None:
    assert _run(NEXT, ["--spec-version", version, "--scenario", scenario], demo, tmp_path) == {scenario: set()}


@pytest.fixture(scope="module")
def demo() -> Iterator[str]:
    command = [sys.executable, "-m", "tests.conformance.demo"]
    with stopping(ServerProcess(command, environ=clean_environ(), cwd=HERE.parents[1])) as server:
        yield server.mcp_url


def _run(suite: Path, options: list[str], url: str, results: Path) -> dict[str, set[str]]:
    """Each scenario that was run, with the ids of its checks that failed."""
    command = [str(NODE), str(suite), "server", "--url", url, "-o", str(results), *options]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=HERE, check=False)
    reports = {_scenario(report.parent): _failed(report) for report in results.glob("*/checks.json")}
    assert reports, ended.stdout[-2000:] + ended.stderr[-2000:]
    return reports


def _scenario(folder: Path) -> str:
    return re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\dZ-]+$", "", folder.name)


def _failed(report: Path) -> set[str]:
    checks: list[dict[str, Any]] = json.loads(report.read_text())
    return {check["id"] for check in checks if check["status"] == "FAILURE"}


def _is_excused(name: str, failed: set[str]) -> bool:
    if any(fnmatch(name, pattern) for pattern in DOES_NOT_APPLY):
        return not failed & ALWAYS
    return all((name, check) in CHECKS_THAT_DO_NOT_APPLY for check in failed)
