"""A real Prometheus and a real server under load: each panel has something to draw, each alert fires when it should."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
import yaml

from tests.deploy.image_root import ROOT
from tests.journeys.test_team_story import AUDIENCE, Team, free_port, issuing
from tests.mcp_client import ServerProcess, serving_http
from tests.timeouts import SECONDS

CHART = ROOT / "deploy" / "helm" / "tallystick"
RULES = CHART / "rules" / "tallystick.yaml"
DASHBOARDS = sorted((CHART / "dashboards").glob("*.json"))
ALERTS = {
    rule["alert"]: rule
    for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    for rule in group["rules"]
    if "alert" in rule
}
SCRAPED = "tallystick"
pytestmark = pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")


# -- what is in the files


def _generator() -> Any:
    spec = importlib.util.spec_from_file_location("dashboards", ROOT / "deploy" / "dashboards.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_dashboards_are_what_their_table_says() -> None:
    generator = _generator()
    assert {path.stem for path in DASHBOARDS} == generator.DASHBOARDS.keys() == {"operations", "governance", "cost"}
    for path in DASHBOARDS:
        assert path.read_text("utf-8") == generator.render(path.stem), "run: python deploy/dashboards.py"


def test_every_alert_leads_to_a_page_that_is_there() -> None:
    for name, rule in ALERTS.items():
        page = rule["annotations"]["runbook_url"].partition("/blob/main/")[2]
        assert (ROOT / page).is_file(), name
        assert rule["labels"]["severity"] in ("warning", "critical")


def test_every_objective_and_every_failure_has_an_alert() -> None:
    said = [rule["labels"] for rule in ALERTS.values()]
    assert {each["objective"] for each in said if "objective" in each} == {
        *("read_latency", "write_latency", "policy_latency", "lineage_coverage", "time_to_audit", "availability"),
        "deny_rate",
    }
    assert {each["failure"] for each in said if "failure" in each} >= {
        *("server_crash", "log_corruption", "policy_error", "storage", "audit", "projection", "unauthorized", "issuer")
    }


def test_every_outcome_that_an_alert_looks_for_is_an_error_of_ours() -> None:
    known = (ROOT / "docs" / "reference" / "errors.md").read_text("utf-8")
    named = {
        code
        for found in re.findall(r'(?:outcome|code)[!=]?~?"([A-Z_|]+)"', RULES.read_text("utf-8"))
        for code in found.split("|")
    }
    assert named
    assert {code for code in named if f"`{code}`" not in known} == {"INTERNAL_ERROR"}, "all but what is a bug"


def test_promtool_takes_the_rules() -> None:
    done = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# -- when they fire


class Case(NamedTuple):
    series: dict[str, str]
    quiet: dict[str, str]
    """The same server on a better day."""


def _bucket(metric: str, labels: str, below: str, above: str) -> dict[str, str]:
    """Ten calls a minute below the lower bound, and all of them above the other."""
    return {
        f'{metric}_bucket{{{labels}le="{below}"}}': "0+0x60",
        f'{metric}_bucket{{{labels}le="{above}"}}': "0+10x60",
        f'{metric}_bucket{{{labels}le="+Inf"}}': "0+10x60",
    }


def _fast(series: dict[str, str]) -> dict[str, str]:
    return dict.fromkeys(series, "0+10x60")


def _slow_case(metric: str, labels: str, below: str, above: str) -> Case:
    slow = _bucket(metric, labels, below, above)
    return Case(slow, _fast(slow))


_CALLS = "tallystick_tool_calls_total"
CASES = {
    "TallystickReadsSlow": _slow_case("tallystick_tool_call_duration_seconds", 'access="read",', "0.025", "0.04"),
    "TallystickWritesSlow": _slow_case("tallystick_tool_call_duration_seconds", 'access="write",', "0.04", "0.05"),
    "TallystickDecisionsSlow": _slow_case("tallystick_policy_decision_duration_seconds", "", "0.005", "0.01"),
    "TallystickLineageSlow": _slow_case(
        "tallystick_tool_call_duration_seconds", 'tool="memory.lineage",access="none",', "0.05", "0.1"
    ),
    "TallystickErrorBudgetBurnsFast": Case(
        {f'{_CALLS}{{outcome="ok"}}': "0+100x60", f'{_CALLS}{{outcome="INTERNAL_ERROR"}}': "0+5x60"},
        {f'{_CALLS}{{outcome="ok"}}': "0+10000x60", f'{_CALLS}{{outcome="INTERNAL_ERROR"}}': "0+1x60"},
    ),
    "TallystickDenialsMany": Case(
        {
            'tallystick_policy_decisions_total{decision="allowed"}': "0+90x60",
            'tallystick_policy_decisions_total{decision="denied"}': "0+10x60",
        },
        {
            'tallystick_policy_decisions_total{decision="allowed"}': "0+99x60",
            'tallystick_policy_decisions_total{decision="denied"}': "0+1x60",
        },
    ),
    "TallystickDown": Case({'up{job="tallystick"}': "0x60"}, {'up{job="tallystick"}': "1x60"}),
    "TallystickRestarts": Case(
        {'process_start_time_seconds{job="tallystick"}': "0+60x60"},
        {'process_start_time_seconds{job="tallystick"}': "1x60"},
    ),
    "TallystickLogDamaged": Case({"tallystick_log_damage_total": "0x50 1x10"}, {"tallystick_log_damage_total": "0x60"}),
    "TallystickWritesRefused": Case(
        {f'{_CALLS}{{outcome="STORAGE_REFUSED"}}': "0+1x60"}, {f'{_CALLS}{{outcome="ok"}}': "0+1x60"}
    ),
    "TallystickDiskFillsUp": Case(
        {"tallystick_disk_free_bytes": "1e12-2e9x60"}, {"tallystick_disk_free_bytes": "1e12x60"}
    ),
    "TallystickPolicyFails": Case(
        {'tallystick_policy_faults_total{fault="timeout"}': "0+1x60"},
        {'tallystick_policy_faults_total{fault="timeout"}': "7x60"},
    ),
    "TallystickAuditUnwritten": Case({"tallystick_audit_healthy": "0x60"}, {"tallystick_audit_healthy": "1x60"}),
    "TallystickProjectionBehind": Case(
        {'tallystick_projection_lag_commits{projection="sql"}': "2000+10x60"},
        {'tallystick_projection_lag_commits{projection="sql"}': "90000-1000x60"},
    ),
    "TallystickWalksDegraded": Case(
        {'tallystick_walks_degraded_total{reason="away"}': "0+1x60"},
        {'tallystick_walks_degraded_total{reason="dear"}': "0+9x60"},
    ),
    "TallystickTokensRefused": Case(
        {'tallystick_authentication_failures_total{code="INVALID_SIGNATURE"}': "0+1x60"},
        {'tallystick_authentication_failures_total{code="MISSING_TOKEN"}': "0+9x60"},
    ),
    "TallystickIssuerAway": Case(
        {'tallystick_authentication_failures_total{code="ISSUER_UNREACHABLE"}': "0+1x60"},
        {'tallystick_authentication_failures_total{code="MISSING_TOKEN"}': "0+9x60"},
    ),
}


def test_every_alert_fires_when_it_should_and_not_otherwise(tmp_path: Path) -> None:
    assert CASES.keys() == ALERTS.keys()
    expected = [(name, case.series, True) for name, case in CASES.items()] + [
        (name, case.quiet, False) for name, case in CASES.items()
    ]
    tests = [
        {
            "name": f"{name} {'fires' if fires else 'is quiet'}",
            "interval": "1m",
            "input_series": [{"series": series, "values": values} for series, values in given.items()],
            # Whether it fires, and nothing of what it says: `ALERTS` counts, in one series, those that do.
            "promql_expr_test": [
                {
                    "expr": f'count(ALERTS{{alertname="{name}",alertstate="firing"}}) or vector(0)',
                    "eval_time": "55m",
                    "exp_samples": [{"labels": "{}", "value": int(fires)}],
                }
            ],
        }
        for name, given, fires in expected
    ]
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}), "utf-8")
    done = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# -- with a real server


class Prometheus:
    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def query(self, text: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._get(f"/api/v1/query?{urlencode({'query': text})}")["result"]
        return found

    def targets(self) -> dict[str, dict[str, Any]]:
        return {each["labels"]["job"]: each for each in self._get("/api/v1/targets")["activeTargets"]}

    def rules(self) -> set[str]:
        return {rule["name"] for group in self._get("/api/v1/rules")["groups"] for rule in group["rules"]}

    def _get(self, path: str) -> Any:
        with urlopen(self._url + path) as answer:
            return json.load(answer)["data"]

    def is_ready(self) -> bool:
        try:
            with urlopen(f"{self._url}/-/ready"):
                return True
        except (HTTPError, URLError, ConnectionError):
            return False


@contextmanager
def prometheus(directory: Path, server: ServerProcess, token: str) -> Iterator[Prometheus]:
    """Two jobs: one with a token of the server's own tenant, one that was given none."""
    secret = directory / "token"
    secret.write_text(token)
    target = [{"targets": [server.url.removeprefix("http://")]}]
    jobs = [
        {"job_name": SCRAPED, "static_configs": target, "authorization": {"credentials_file": str(secret)}},
        {"job_name": "without-token", "static_configs": target},
    ]
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": jobs,
    }
    file = directory / "prometheus.yaml"
    file.write_text(yaml.safe_dump(config), "utf-8")
    port = free_port()
    process = subprocess.Popen(
        [
            *("prometheus", f"--config.file={file}", f"--storage.tsdb.path={directory / 'series'}"),
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        made = Prometheus(port)
        _until(made.is_ready)
        yield made
    finally:
        process.terminate()
        process.wait()


class Load:
    """Calls of every kind, until it is told to stop: some allowed, some denied, some with no token or a forged one."""

    def __init__(self, url: str, team: Team) -> None:
        self._url = url
        self._tokens = {
            who: team.token(who) for who in ("agent/writer@acme", "auditor/reader@acme", "guest/nobody@acme")
        }
        self._forged = team.token("agent/writer@acme", aud="https://elsewhere.example")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._over.is_set():
            number += 1
            id = f"note-{number % 50}"
            node = {"id": id, "type": "Note", "attrs": {"number": number}}
            for who in self._tokens:
                self._call(self._tokens[who], "memory.write", op="UPSERT_NODE", node=node)
                self._call(self._tokens[who], "memory.read", entity_id=id)
                self._call(self._tokens[who], "memory.lineage", entity_id=id)
            self._call(self._forged, "memory.read", entity_id=id)
            self._call("", "memory.read", entity_id=id)

    def _call(self, token: str, tool: str, **arguments: Any) -> None:
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        asked = Request(f"{self._url}/v1/tools/{tool}", json.dumps(arguments).encode(), headers)
        try:
            with urlopen(asked) as answer:
                answer.read()
        except HTTPError as error:
            error.read()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    directory = tmp_path_factory.mktemp("watched")
    base = directory / "memory"
    base.mkdir()
    with issuing() as issuer:
        settings: dict[str, Any] = {
            "issuers": [issuer],
            "audience": [AUDIENCE],
            "policy": "rbac",
            "metrics_tenants": ["acme"],
        }
        settings |= {"quota_writes": 0, "quota_reads": 0}
        lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        base.joinpath("tallystick.toml").write_text("\n".join(lines), "utf-8")
        with serving_http(base, port=free_port()) as server:
            team = Team(None, issuer)  # type: ignore[arg-type]  # it only makes tokens here
            scraping = team.token("prometheus/reader@default")
            with Load(server.url, team), prometheus(directory, server, scraping) as found:
                _until(lambda: _samples(found) >= 5)
                yield found


def _samples(found: Prometheus) -> int:
    [counted] = found.query(f'count_over_time(up{{job="{SCRAPED}"}}[5m])') or [{"value": [0, "0"]}]
    return int(counted["value"][1])


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_panel_has_something_to_draw(watched: Prometheus, path: Path) -> None:
    empty = [
        (panel["title"], target["expr"])
        for panel in json.loads(path.read_text("utf-8"))["panels"]
        for target in panel["targets"]
        if not _drawn(watched, target["expr"])
    ]
    assert empty == []


def _drawn(found: Prometheus, expression: str) -> bool:
    """Numbers, and not only those that stand for nothing."""
    values = [each["value"][1] for each in found.query(expression.replace("$__rate_interval", "1m"))]
    return any(value != "NaN" for value in values)


def test_the_rules_are_loaded_and_what_they_record_is_there(watched: Prometheus) -> None:
    _until(lambda: watched.query("tallystick:failed_calls:ratio_rate5m") != [])
    assert {
        rule["name"] for group in watched._get("/api/v1/rules")["groups"] for rule in group["rules"]
    } >= ALERTS.keys()


def test_without_a_token_prometheus_is_refused_and_told_so(watched: Prometheus) -> None:
    _until(
        lambda: (
            "lastError" in watched.targets()["without-token"]
            and watched.targets()["without-token"]["health"] != "unknown"
        )
    )
    refused = watched.targets()["without-token"]
    assert refused["health"] == "down"
    assert "401" in refused["lastError"]
    assert watched.query('tallystick_build_info{job="without-token"}') == []
    assert watched.targets()[SCRAPED]["health"] == "up"


def _until(is_so: Any) -> None:
    end = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.2)
