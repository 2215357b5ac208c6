"""Writes the dashboards for Grafana into the chart: `python deploy/dashboards.py`. A row here is a panel there."""

import json
from pathlib import Path
from typing import Any, NamedTuple

TARGET = Path(__file__).parent / "helm" / "tallystick" / "dashboards"
RATE = "$__rate_interval"
CALLS = "tallystick_tool_call_duration_seconds"
DECISIONS = "tallystick_policy_decision_duration_seconds"


class Panel(NamedTuple):
    title: str
    unit: str
    queries: dict[str, str]
    """By what is shown in the legend."""
    says: str = ""
    limit: float | None = None
    """Drawn as a line: past it the objective is missed."""


def _quantiles(metric: str, where: str) -> dict[str, str]:
    rate = f"sum by (le) (rate({metric}_bucket{{{where}}}[{RATE}]))"
    return {f"p{share}": f"histogram_quantile({share / 100}, {rate})" for share in (50, 95, 99)}


DASHBOARDS: dict[str, list[Panel]] = {
    "operations": [
        Panel("Reads", "s", _quantiles(CALLS, 'access="read"'), "95 of 100 within 25 ms", 0.025),
        Panel("Writes", "s", _quantiles(CALLS, 'access="write"'), "95 of 100 within 40 ms", 0.04),
        Panel("Calls", "reqps", {"{{tool}}": f"sum by (tool) (rate(tallystick_tool_calls_total[{RATE}]))"}),
        Panel(
            "Calls that were refused or failed",
            "reqps",
            {"{{outcome}}": f'sum by (outcome) (rate(tallystick_tool_calls_total{{outcome!="ok"}}[{RATE}]))'},
        ),
        Panel("Decisions of the policy", "s", _quantiles(DECISIONS, ""), "95 of 100 within 5 ms", 0.005),
        Panel(
            "Denied, of all decisions",
            "percentunit",
            {
                "denied": f'sum(rate(tallystick_policy_decisions_total{{decision="denied"}}[{RATE}]))'
                f" / sum(rate(tallystick_policy_decisions_total[{RATE}]))"
            },
            "under 5 %",
            0.05,
        ),
        Panel(
            "Answered from memory",
            "percentunit",
            {
                "decisions": f'(sum(rate(tallystick_policy_decisions_total{{source="cache"}}[{RATE}])) or vector(0))'
                f" / sum(rate(tallystick_policy_decisions_total[{RATE}]))"
            },
            "Decisions that the engine need not make again. Entities are always found in memory.",
        ),
        Panel(
            "Commits",
            "cps",
            {"{{operation}}": f"sum by (operation) (rate(tallystick_commits_total[{RATE}]))"},
        ),
        Panel(
            "From the draft to the disk",
            "s",
            {
                name: f"histogram_quantile(0.95, sum by (le) (rate({metric}_bucket[{RATE}])))"
                for name, metric in (
                    ("waits", "tallystick_commit_wait_seconds"),
                    ("is appended", "tallystick_append_duration_seconds"),
                    ("is synced", "tallystick_log_sync_duration_seconds"),
                )
            },
            "p95 of each step",
        ),
        Panel("Drafts that wait", "short", {"{{instance}}": "tallystick_queue_drafts"}),
        Panel(
            "Projections behind the log",
            "short",
            {"{{projection}}": "max by (projection) (tallystick_projection_lag_commits)"},
        ),
        Panel(
            "Servers",
            "short",
            {
                "{{instance}} {{version}}": 'up{job="tallystick"}'
                " * on (instance) group_left (version) tallystick_build_info"
            },
        ),
    ],
    "governance": [
        Panel(
            "Lineage coverage",
            "percentunit",
            {
                "commits that can be shown": "1 - (sum(tallystick_log_damage_total) or vector(0))"
                " / clamp_min(sum(tallystick_log_position), 1)"
            },
            "Every entity comes from commits, so only a damaged line takes anything away.",
            0.95,
        ),
        Panel(
            "Time to audit",
            "s",
            {
                "mean of a lineage": f'sum(rate({CALLS}_sum{{tool="memory.lineage"}}[{RATE}]))'
                f' / sum(rate({CALLS}_count{{tool="memory.lineage"}}[{RATE}]))',
                **_quantiles(CALLS, 'tool="memory.lineage"'),
            },
            "From the question to the whole history of an entity",
            0.05,
        ),
        Panel(
            "Callers without a token that is good",
            "reqps",
            {"{{code}}": f"sum by (code) (rate(tallystick_authentication_failures_total[{RATE}]))"},
        ),
        Panel(
            "Denials",
            "reqps",
            {"{{action}}": f'sum by (action) (rate(tallystick_policy_decisions_total{{decision="denied"}}[{RATE}]))'},
        ),
        Panel(
            "Decisions that nobody could make",
            "reqps",
            {"faults": f"sum(rate(tallystick_policy_faults_total[{RATE}])) or vector(0)"},
            "Denied since the engine gave no answer",
        ),
        Panel("Decisions are written down", "bool", {"{{instance}}": "tallystick_audit_healthy"}),
        Panel(
            "Erased on demand",
            "short",
            {"redactions": 'sum(increase(tallystick_commits_total{operation=~"REDACT_.*"}[1d])) or vector(0)'},
            "In the last day",
        ),
        Panel(
            "Damage that was met",
            "short",
            {"reads": "sum(tallystick_log_damage_total) or vector(0)"},
            "Any at all is an incident",
        ),
    ],
    "cost": [
        Panel("Logs", "bytes", {"{{instance}}": "tallystick_log_bytes"}),
        Panel(
            "Besides the logs",
            "bytes",
            {"{{part}}": "sum by (part) (tallystick_disk_bytes)"},
            "Snapshots, audit and databases; contents are left out",
        ),
        Panel("Growth a day", "bytes", {"logs": "sum(rate(tallystick_commit_bytes_total[1h])) * 86400"}),
        Panel("Free on the disk", "bytes", {"{{instance}}": "tallystick_disk_free_bytes"}),
        Panel(
            "Processor",
            "percentunit",
            {"{{instance}}": f'rate(process_cpu_seconds_total{{job="tallystick"}}[{RATE}])'},
            "1 is one core",
        ),
        Panel("Memory", "bytes", {"{{instance}}": 'process_resident_memory_bytes{job="tallystick"}'}),
        Panel(
            "Processor time of a call",
            "s",
            {
                "all calls": f'sum(rate(process_cpu_seconds_total{{job="tallystick"}}[{RATE}]))'
                f" / sum(rate(tallystick_tool_calls_total[{RATE}]))"
            },
        ),
        Panel(
            "Files open",
            "percentunit",
            {"{{instance}}": 'process_open_fds{job="tallystick"} / process_max_fds{job="tallystick"}'},
        ),
        Panel("Tenants open", "short", {"{{instance}}": "tallystick_tenants_open"}),
    ],
}


def render(name: str) -> str:
    board = {
        "uid": f"tallystick-{name}",
        "title": f"Tallystick: {name}",
        "tags": ["tallystick"],
        "schemaVersion": 39,
        "timezone": "utc",
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [{"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}]
        },
        "panels": [_panel(number, panel) for number, panel in enumerate(DASHBOARDS[name])],
    }
    return json.dumps(board, indent=1) + "\n"


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${source}"}
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.limit is not None:
        steps.append({"color": "red", "value": panel.limit})
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.says,
        "datasource": source,
        "gridPos": {"h": 8, "w": 12, "x": 12 * (number % 2), "y": 8 * (number // 2)},
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "min": 0,
                "thresholds": {"mode": "absolute", "steps": steps},
                "custom": {"thresholdsStyle": {"mode": "off" if panel.limit is None else "line"}},
            },
            "overrides": [],
        },
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": source, "expr": query, "legendFormat": legend}
            for place, (legend, query) in enumerate(panel.queries.items())
        ],
    }


if __name__ == "__main__":
    TARGET.mkdir(exist_ok=True)
    for each in DASHBOARDS:
        (TARGET / f"{each}.json").write_text(render(each), "utf-8")
