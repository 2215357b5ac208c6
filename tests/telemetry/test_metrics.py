"""The numbers: counted right, bounded, and read by whoever reads Prometheus' text format."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tallystick import config
from tallystick.extension import installed
from tallystick.server.http import http_app
from tallystick.server.metrics import Access, metrics_routes
from tallystick.server.oauth import principal_of
from tallystick.telemetry.metrics import METRICS, OTHER, SERIES_MAX, Counter, Gauge, Histogram, Metric
from tallystick.telemetry.prometheus import render
from tests.command_line import node
from tests.nats_cluster import free_ports
from tests.promises import promise
from tests.server.issuing import Issuer, bearer
from tests.server.sample import offer
from tests.telemetry.otlp_collector import serving


def rendered(metrics: Sequence[Metric] = METRICS) -> str:
    return render(metrics).decode()


Sample = tuple[str, tuple[tuple[str, str], ...]]


def parsed(text: str) -> dict[Sample, float]:
    """By name and labels, as Prometheus' own parser reads them."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_counter_counts_by_labels() -> None:
    calls = Counter("calls", "Calls.", "tool", "outcome")
    for outcome in ("ok", "ok", "NOT_FOUND"):
        calls.add(("memory.read", outcome))
    assert dict(calls.read()) == {("memory.read", "ok"): 2, ("memory.read", "NOT_FOUND"): 1}


def test_a_histogram_says_how_many_were_at_most_so_long() -> None:
    took = Histogram("took_seconds", "How long.", "tool", bounds=(0.005, 0.025, 1.0))
    for value in (0.001, 0.005, 0.0051, 0.5, 7.0):
        took.observe(value, ("t",))
    read = parsed(rendered([took]))
    assert {labels[0][1]: count for (name, labels), count in read.items() if name == "took_seconds_bucket"} == {
        "0.005": 2,
        "0.025": 3,
        "1.0": 4,
        "+Inf": 5,
    }
    assert read["took_seconds_count", (("tool", "t"),)] == 5
    assert math.isclose(read["took_seconds_sum", (("tool", "t"),)], 7.5111)


@pytest.mark.parametrize("name", ['quo"te', "back\\slash", "new\nline", "ümläut", "half \udc80", ""])
def test_no_label_can_break_the_text(name: str) -> None:
    counted = Counter("counted", "Something.", "name")
    counted.add((name,))
    read = parsed(rendered([counted, Gauge("after", "The next.", reading=lambda: [((), 1)])]))
    assert read["counted_total", (("name", name.replace("\udc80", "?")),)] == 1
    assert read["after", ()] == 1


def test_names_without_end_are_counted_as_others() -> None:
    counted: tuple[Counter, Histogram] = (Counter("c", "C.", "name"), Histogram("h", "H.", "name"))
    for number in range(SERIES_MAX + 5):
        counted[0].add((str(number),))
        counted[1].observe(1.0, (str(number),))
    assert dict(counted[0].read())[(OTHER,)] == 5
    assert sum(dict(counted[1].read())[(OTHER,)].counts) == 5
    assert [len(list(each.read())) for each in counted] == [SERIES_MAX + 1] * 2


def test_threads_that_count_at_once_lose_nothing() -> None:
    counter, histogram = Counter("c", "C."), Histogram("h", "H.")

    def count() -> None:
        for _ in range(20_000):
            counter.add()
            histogram.observe(1.0)

    threads = [threading.Thread(target=count) for _ in range(4)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert dict(counter.read()) == {(): 80_000}
    [(_, series)] = histogram.read()
    assert (sum(series.counts), series.total) == (80_000, 80_000.0)


def test_a_gauge_that_nobody_reads_for_says_nothing() -> None:
    assert parsed(rendered([Gauge("idle", "Idle.")])) == {}


# -- of a real server


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Sample, float]]:
    base = tmp_path_factory.mktemp("base")
    with serving(base) as server, httpx2.Client(base_url=server.url, timeout=None) as http:
        for number in range(3):
            assert http.post("/v1/tools/memory.write", json=node(f"n{number}")).is_success
        assert http.post("/v1/tools/memory.read", json={"entity_id": "n1"}).is_success
        assert http.post("/v1/tools/memory.read", json={}).status_code == 400
        answer = http.get("/metrics")
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        yield {**parsed(answer.text), ("bytes_on_disk", ()): _log_bytes(base)}


def _log_bytes(base: Path) -> float:
    return sum(path.stat().st_size for path in (base / "_system" / "log").iterdir())


@promise("8.1, 8.3", "calls, commits, decisions, queue, lag and process are at /metrics as Prometheus reads them")
@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("tallystick_tool_calls_total", {"tool": "memory.write", "outcome": "ok", "access": "write"}, 3),
        ("tallystick_tool_calls_total", {"tool": "memory.read", "outcome": "ok", "access": "read"}, 1),
        ("tallystick_tool_calls_total", {"tool": "memory.read", "outcome": "INVALID_ARGUMENT", "access": "read"}, 1),
        (
            "tallystick_tool_call_duration_seconds_count",
            {"tool": "memory.write", "outcome": "ok", "access": "write"},
            3,
        ),
        ("tallystick_commits_total", {"operation": "UPSERT_NODE"}, 3),
        ("tallystick_commit_wait_seconds_count", {}, 3),
        ("tallystick_group_drafts_sum", {}, 3),
        ("tallystick_append_duration_seconds_count", {}, 3),
        ("tallystick_log_sync_duration_seconds_count", {}, 3),
        ("tallystick_log_position", {"tenant": "default"}, 3),
        ("tallystick_queue_drafts", {}, 0),
        ("tallystick_tenants_open", {}, 1),
        ("tallystick_audit_healthy", {}, 1),
    ],
)
def test_the_numbers_are_those_of_the_calls(
    told: dict[Sample, float], name: str, labels: dict[str, str], value: float
) -> None:
    assert told[name, tuple(sorted(labels.items()))] == value


def test_bytes_are_those_in_the_log(told: dict[Sample, float]) -> None:
    assert told["tallystick_commit_bytes_total", ()] == told["tallystick_log_bytes", ()] == told["bytes_on_disk", ()]


def test_every_decision_is_counted_wherever_it_came_from(told: dict[Sample, float]) -> None:
    decided = [
        (dict(labels), count) for (name, labels), count in told.items() if name == "tallystick_policy_decisions_total"
    ]
    assert {labels["decision"] for labels, _ in decided} == {"allowed"}
    assert {labels["source"] for labels, _ in decided} <= {"cache", "embedded"}
    assert sum(count for labels, count in decided if labels["action"] == "WRITE") == 3
    assert sum(count for labels, count in decided if labels["action"] == "READ") == 1


def test_the_process_and_its_build_are_told(told: dict[Sample, float]) -> None:
    names = {name for name, _ in told}
    assert names >= {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds"}
    assert told["process_resident_memory_bytes", ()] > 10_000_000
    [(labels, value)] = [(dict(labels), value) for (name, labels), value in told.items() if "build_info" in name]
    assert value == 1
    assert labels.keys() == {"version", "python"}
    assert {dict(labels)["projection"] for name, labels in told if "projection_lag" in name} >= {"views", "sql"}


# -- who may read them


async def status(access: Access, claims: dict[str, str] | None, *, tenant: str = "operators") -> int:
    """Of /metrics where tokens are asked for, by whoever has these claims."""
    issuer = Issuer()
    admission = issuer.admission()
    if access == "open":
        admission.open_paths |= {"/metrics"}
    app = http_app(offer(principal_of=principal_of), admission=admission, more=metrics_routes(access, tenant=tenant))
    async with issuer.client_of(app) as http:
        headers = {} if claims is None else bearer(issuer.token(issuer.claims(**claims)))
        return (await http.get("/metrics", headers=headers)).status_code


@promise("8, tenants apart", "numbers about all tenants are not for each of them")
@pytest.mark.parametrize(
    ("access", "claims", "expected"),
    [
        ("guarded", None, 401),
        ("guarded", {"tenant_id": "acme"}, 403),
        ("guarded", {}, 403),
        ("guarded", {"tenant_id": "operators"}, 200),
        ("open", None, 200),
        ("off", None, 401),
        ("off", {"tenant_id": "operators"}, 404),
    ],
)
async def test_numbers_about_all_tenants_are_not_for_each_of_them(
    access: Access, claims: dict[str, str] | None, expected: int
) -> None:
    assert await status(access, claims) == expected


@pytest.mark.parametrize(
    ("told", "expected", "named"),
    [
        ({}, 401, set()),
        ({"TALLYSTICK_METRICS": "open"}, 200, set()),
        ({"TALLYSTICK_METRICS": "open", "TALLYSTICK_METRICS_TENANTS": "acme,default"}, 200, {"default"}),
    ],
)
def test_with_an_issuer_the_settings_say_who_reads_what(
    tmp_path: Path, told: dict[str, str], expected: int, named: set[str]
) -> None:
    (port,) = free_ports(1)
    words = ("--http", f"127.0.0.1:{port}", "--issuer", "https://issuer.invalid")
    with serving(tmp_path, *words, **told) as server, httpx2.Client(base_url=server.url, timeout=None) as http:
        answer = http.get("/metrics")
        assert answer.status_code == expected
        read = parsed(answer.text) if answer.is_success else {}
        assert {value for _, labels in read for label, value in labels if label == "tenant"} == named


@promise("8.3, governance", "who comes without a good token is counted by code")
async def test_who_comes_without_a_good_token_is_counted_by_code() -> None:
    key = ("tallystick_authentication_failures_total", (("code", "MISSING_TOKEN"),))
    before = parsed(rendered()).get(key, 0)
    await status("guarded", None)
    assert parsed(rendered())[key] == before + 1


def test_every_metric_is_in_the_guide_with_its_labels() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "observe.md").read_text("utf-8")
    rows = [line for line in guide.splitlines() if line.startswith("| `")]
    settings = config.load({"backup_to": "file:///srv/backups"}, environ={})
    known = dict.fromkeys([*METRICS, *(gauge for gauges in installed().load("gauges") for gauge in gauges(settings))])
    missing = [
        metric.name
        for metric in known
        for name in [f"{metric.name}_total" if metric.kind == "counter" else metric.name]
        if not any(
            f"`{name}`" in row and f"| {', '.join(metric.labels)} |".replace("|  |", "| |") in row for row in rows
        )
    ]
    assert missing == []
    assert len({metric.name for metric in known}) == len(known)
