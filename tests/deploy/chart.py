"""The chart, the compose files and the unit, held against the programs that read them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tallystick.config import load, table
from tests.deploy.image_root import ROOT, environment, instruction
from tests.nats_cluster import find_server

CHART = ROOT / "deploy" / "helm" / "tallystick"
PROGRAMS = ROOT / ".deploy" / "bin"
VALUES = sorted((ROOT / "deploy" / "values").glob("*.yaml"))
COMPOSED = sorted((ROOT / "deploy" / "compose").glob("*.yaml"))
UNIT = ROOT / "deploy" / "systemd" / "tallystick.service"
SETTINGS = {row.name for row in table()}
VARIABLES = {variable for row in table() for variable in row.variables}
NO_SCHEMA = {"ServiceMonitor", "PrometheusRule"}
"""Kinds that Prometheus's operator brings: nobody here knows their schema."""


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAMS / "helm", *arguments], capture_output=True, text=True, check=False)


def render(*arguments: str) -> str:
    done = helm("template", "memory", str(CHART), "--namespace", "agents", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(values: Path) -> dict[str, dict[str, Any]]:
    return {each["kind"]: each for each in yaml.safe_load_all(render("--values", str(values))) if each}


def pod_of(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    workload = found.get("StatefulSet") or found["Deployment"]
    spec: dict[str, Any] = workload["spec"]["template"]["spec"]
    return spec


@pytest.fixture(params=VALUES, ids=lambda path: path.stem)
def values(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_it_is_a_chart_that_lints(values: Path) -> None:
    done = helm("lint", "--strict", str(CHART), "--values", str(values))
    assert done.returncode == 0, done.stdout


def test_everything_it_renders_is_what_kubernetes_takes(values: Path, tmp_path: Path) -> None:
    rendered = tmp_path / "rendered.yaml"
    rendered.write_text(render("--values", str(values)), "utf-8")
    done = subprocess.run(
        [PROGRAMS / "kubernetes-validate", "--strict", rendered], capture_output=True, text=True, check=False
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    unknown = set(re.findall(r"Couldn't find schema for kind (\w+)", said))
    assert unknown <= NO_SCHEMA
    assert len(re.findall("passed for resource", said)) == len(objects(values).keys() - NO_SCHEMA)


def test_every_setting_that_is_named_is_one(values: Path) -> None:
    said = yaml.safe_load(values.read_text("utf-8"))["settings"]
    assert said.keys() <= SETTINGS
    [container] = pod_of(objects(values))["containers"]
    names = {each["name"] for each in container["env"]} - {"POD_IP"}
    assert names <= VARIABLES


def test_the_pod_runs_as_nobody_and_can_write_its_memory_alone(values: Path) -> None:
    pod = pod_of(objects(values))
    user = int(instruction("USER").partition(":")[0])
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == user
    assert pod["automountServiceAccountToken"] is False
    [container] = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    writable = {each["mountPath"] for each in container["volumeMounts"] if not each.get("readOnly")}
    assert writable == {"/var/lib/tallystick", "/tmp"}


def test_a_pod_has_time_to_end_and_probes_ask_for_what_the_server_answers(values: Path) -> None:
    pod = pod_of(objects(values))
    [container] = pod["containers"]
    asked = {name: container[name]["httpGet"]["path"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert asked == {
        "startupProbe": "/health/live",
        "readinessProbe": "/health/ready",
        "livenessProbe": "/health/live",
    }
    environ = {each["name"]: each.get("value", "") for each in container["env"]}
    waits = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert waits + float(environ["TALLYSTICK_DRAIN_SECONDS"]) < pod["terminationGracePeriodSeconds"]


def test_no_secret_is_in_what_is_rendered_only_the_files_that_hold_them(values: Path) -> None:
    found = objects(values)
    assert "Secret" not in found
    [container] = pod_of(found)["containers"]
    mounted = [each["mountPath"] for each in container["volumeMounts"]]
    for each in container["env"]:
        if each["name"].endswith(("_FILE", "_KEY", "_CERT")):
            assert any(each["value"].startswith(f"{place}/") for place in mounted), each


def test_it_may_call_nobody_but_those_who_are_listed(values: Path) -> None:
    policy = objects(values)["NetworkPolicy"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    names, *listed = policy["egress"]
    assert {port["port"] for port in names["ports"]} == {53}
    assert listed == yaml.safe_load(values.read_text("utf-8")).get("networkPolicy", {}).get("to", [])
    assert all(rule.get("to") and rule.get("ports") for rule in policy["egress"])


REFUSED = {
    "without an issuer anybody in the cluster could read": (["settings.public_url=https://m"], "settings.issuers"),
    "tokens are issued for an address": (["settings.issuers={https://i}"], "settings.public_url"),
    "two pods on two volumes would be two memories": (["replicas=2"], "settings.log_url"),
    "a pod without a volume loses its memory": (["workload=Deployment"], "settings.log_url"),
    "one volume is served by one pod": (["autoscaling.enabled=true"], "workload: Deployment"),
    "the chart knows where it listens": (["settings.http=0.0.0.0:1"], "set by the chart"),
    "a misspelt value is no value": (["replica=1"], "replica"),
    "a misspelt setting is no setting": (["settings.secret=refuse"], "settings"),
    "a kind that is none": (["workload=DaemonSet"], "workload"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_lose_or_open_a_memory_is_refused(case: str) -> None:
    said, words = REFUSED[case]
    whole = [] if "settings.public_url" in words or "issuers" in words else ["settings.issuers={https://i}"]
    whole += [] if "settings.public_url" in words else ["settings.public_url=https://m"]
    done = helm("template", "memory", str(CHART), *_set([*whole, *said]))
    assert done.returncode != 0
    assert words in done.stderr


def test_every_setting_reaches_the_server_by_a_variable_that_it_heeds() -> None:
    given = {row.name: "x" for row in table() if row.name not in ("base", "http", "http_hosts")}
    found = yaml.safe_load_all(render("--set-json", f"settings={json.dumps(given)}"))
    [container] = pod_of({each["kind"]: each for each in found if each})["containers"]
    named = {each["name"] for each in container["env"]}
    assert [row.name for row in table() if named.isdisjoint(row.variables)] == []


def _set(pairs: Iterable[str]) -> list[str]:
    return [part for pair in pairs for part in ("--set", pair)]


@pytest.mark.parametrize("path", COMPOSED, ids=lambda path: path.stem)
def test_a_compose_file_runs_it_as_the_image_says_with_settings_that_are_some(path: Path) -> None:
    services = yaml.safe_load(path.read_text("utf-8"))["services"]
    ours = [each for each in services.values() if each.get("image") == "tallystick"]
    assert ours
    for each in ours:
        assert each["read_only"] is True
        assert each["cap_drop"] == ["ALL"]
        assert "user" not in each
        assert each["environment"].keys() <= VARIABLES
        assert any(volume.endswith(":/var/lib/tallystick") for volume in each["volumes"])
    bound = [port for each in services.values() for port in each.get("ports", [])]
    assert all(port.startswith("127.0.0.1:") for port in bound)


@pytest.mark.parametrize("path", COMPOSED, ids=lambda path: path.stem)
def test_the_settings_of_a_compose_file_can_be_loaded(path: Path, tmp_path: Path) -> None:
    for each in yaml.safe_load(path.read_text("utf-8"))["services"].values():
        if each.get("image") == "tallystick":
            assert load({"base": tmp_path}, environ=each["environment"]).http


def test_nats_takes_the_configuration_in_the_compose_file_and_syncs_every_write(tmp_path: Path) -> None:
    composed = yaml.safe_load((ROOT / "deploy" / "compose" / "three-nats-and-opa.yaml").read_text("utf-8"))
    said = composed["configs"]["nats"]["content"]
    assert "sync_interval: always" in said
    file = tmp_path / "nats.conf"
    file.write_text(said)
    done = subprocess.run([find_server(), "-t", "-c", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    named = [name for name, each in composed["services"].items() if each["image"].startswith("nats:")]
    asked = composed["services"]["one"]["environment"]["TALLYSTICK_LOG_URL"]
    assert asked == ",".join(f"nats://{name}:4222" for name in named)


def test_the_rules_in_the_compose_file_are_there_and_have_the_rule_that_is_asked_for() -> None:
    path = ROOT / "deploy" / "compose" / "three-nats-and-opa.yaml"
    services = yaml.safe_load(path.read_text("utf-8"))["services"]
    rules = (path.parent / services["opa"]["volumes"][0].partition(":")[0]).resolve().read_text("utf-8")
    package, rule = services["one"]["environment"]["TALLYSTICK_POLICY_PATH"].rsplit("/", 1)
    assert f"package {package.replace('/', '.')}\n" in rules
    assert re.search(rf"^{rule} := ", rules, re.MULTILINE)


def test_the_image_has_settings_that_are_some() -> None:
    assert environment().keys() - {"PATH", "PYTHONDONTWRITEBYTECODE"} <= VARIABLES


def test_systemd_takes_the_unit_and_finds_little_that_it_could_do() -> None:
    done = subprocess.run(["systemd-analyze", "verify", UNIT], capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if UNIT.name in line and "is not executable" not in line]
    assert said == []
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", UNIT], capture_output=True, text=True, check=False
    ).stdout
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", judged)
    assert found is not None, judged
    assert float(found[1]) < 2.0
    named = set(re.findall(r"^Environment=(\w+)=", UNIT.read_text("utf-8"), re.MULTILINE))
    assert named <= VARIABLES


def test_under_the_unit_background_work_steps_behind_and_a_call_that_is_refused_is_an_error() -> None:
    """Without a number for the error the kernel kills whoever makes the call: visiting a page ended the server."""
    unit = UNIT.read_text("utf-8")
    assert "\nSystemCallErrorNumber=EPERM\n" in unit
    allowed: set[str] = set()
    for without, names in re.findall(r"^SystemCallFilter=(~?)(.+)$", unit, re.MULTILINE):
        calls = set().union(*map(_calls, names.split()))
        allowed = allowed - calls if without else allowed | calls
    assert {"setpriority", "prlimit64", "fdatasync"} <= allowed
    assert not {"chown", "setuid", "mount", "ptrace"} & allowed


def _calls(name: str) -> set[str]:
    """Those of a group, as systemd knows it."""
    if not name.startswith("@"):
        return {name}
    command = ["systemd-analyze", "syscall-filter", name]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[1:]
    return set().union(*(_calls(line.strip()) for line in told if line.strip() and "#" not in line))
