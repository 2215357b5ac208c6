"""Memories to look at: one that a few agents worked with for a while, and one of 50,000 entities."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.mcp_client import ServerProcess, clean_environ, start_http, stopping

SAMPLE = Path(__file__).parents[2] / "src/tallystick/sample.jsonl"
ENTITIES = 50_000
PROJECT = "billing-refunds"

POLICY = """# Everybody may do everything, but refunds cost money: only people change what was decided on them.
package tallystick.team

import rego.v1

policy_version := "team@3"

decision := {"result": allow, "reason": reason, "policy_version": policy_version, "narrows": changes}

changes := input.action in {"WRITE", "DELETE"}

people := {"ada", "grace", "operator"}

default allow := true

allow := false if deny

deny if {
	changes
	input.resource_type == "Decision"
	not input.actor in people
}

reason := "decisions are changed by people" if {
	deny
} else := "members of the team read and write"
"""

FILES = ("src/refunds/queue.py", "src/refunds/retry.py", "src/refunds/ledger.py", "src/api/routes.py", "README.md")


class Agent:
    """Calls tools as somebody."""

    def __init__(self, server: ServerProcess) -> None:
        self.url = server.url
        self._http = httpx2.Client(base_url=server.url, timeout=120)

    def __call__(self, tool: str, /, **arguments: Any) -> Any:
        answer = self._http.post(f"/v1/tools/{tool}", json=arguments)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def refused(self, tool: str, /, **arguments: Any) -> None:
        assert self._http.post(f"/v1/tools/{tool}", json=arguments).status_code == 403

    def look_at_pages(self) -> None:
        """As whom the server takes visitors for."""
        assert self._http.get("/").status_code == 200

    def close(self) -> None:
        self._http.close()


@contextmanager
def lived_in(directory: Path) -> Iterator[str]:
    """The address of a server whose memory has people, decisions, denials, work in every state, and knowledge of a
    repository, some of it stale."""
    base, repository = directory / "memory", directory / "repository"
    import_lines(base, SAMPLE.read_text())
    _make_repository(repository)
    policy = directory / "team.rego"
    policy.write_text(POLICY)
    environ = {"TALLYSTICK_REPO": str(repository), "TALLYSTICK_POLICY": str(policy), "TALLYSTICK_WEB_ACTOR": "grace"}
    with ExitStack() as running:
        agents = []
        for name in ("operator", "planner", "codex", "claude-code", "crawler-eu"):
            person = {"TALLYSTICK_WEB_ACTOR": "ada"} if name == "planner" else {}
            server = start_http(base, "--toolsets", "all", agent=name, environ={**environ, **person})
            running.enter_context(stopping(server))
            agents.append(Agent(server))
            running.callback(agents[-1].close)
        operator, planner, codex, claude, crawler = agents
        planner.look_at_pages()
        _work(planner, codex, claude)
        _knowledge(planner, repository)
        for _ in range(3):
            crawler.refused("memory.write", op="PATCH_NODE", node={"id": "decision-retries", "attrs": {"status": "no"}})
        operator("memory.search", query="payments")
        yield operator.url


@contextmanager
def large(directory: Path) -> Iterator[str]:
    """The address of a server with as many entities as a team has after some years."""
    base = directory / "memory"
    people = [
        {"id": f"person-{number}", "type": "Person", "attrs": {"name": f"Person {number}"}} for number in range(50)
    ]
    notes = (
        {
            "id": f"note-{number}",
            "type": f"Note{number % 20}",
            "attrs": {
                "title": f"What was found out on day {number}",
                "day": number % 365,
                "by": f"person-{number % 50}",
            },
        }
        for number in range(ENTITIES - len(people))
    )
    lines = ({"op": "UPSERT_NODE", "node": node, "actor": "ada"} for node in (*people, *notes))
    import_lines(base, "".join(f"{json.dumps(line)}\n" for line in lines))
    with stopping(start_http(base, "--toolsets", "all", agent="operator")) as server:
        yield server.url


def import_lines(base: Path, lines: str) -> None:
    command = [sys.executable, "-m", "tallystick", "import", "--base", str(base), "-"]
    done = subprocess.run(command, input=lines, text=True, capture_output=True, env=clean_environ(), check=False)
    assert done.returncode == 0, done.stderr


def _work(planner: Agent, codex: Agent, claude: Agent) -> None:
    planner("graph_open", project="onboarding", goal="A newcomer ships on the first day")
    root = planner("graph_open", project=PROJECT, goal="Refunds that cannot happen twice")["root"]["id"]
    planned = planner("graph_plan", nodes=[
        _task("bleeding", root, "Stop the bleeding"),
        _task("decide", "bleeding", "Decide: never retry a refund", 9),
        _task("count", "bleeding", "Count double refunds since January", 8),
        _task("queue", "bleeding", "Queue failed refunds for a person", 9),
        _task("loop", "bleeding", "Turn the retry loop off in production", 9, "queue", "runbook"),
        _task("people", root, "People can work with it"),
        _task("runbook", "people", "Write the runbook for manual refunds", 6),
        _task("support", "people", "Show queued refunds to support, read-only", 5),
        _task("alert", "people", "Alert when a refund waits over 30 minutes", 8),
        _task("announce", "people", "Announce to support and finance", 2, "loop"),
        _task("ledger", root, "Reconcile the ledger against the provider", 7),
    ])["created"]  # fmt: skip
    ids = {each["ref"]: each["id"] for each in planned}
    for agent, task, ref in ((claude, "decide", "decision-retries"), (codex, "count", "4f2c1aa")):
        _claim(agent, task)
        evidence = [{"type": "commit" if task == "count" else "decision", "ref": ref}]
        agent("graph_update", updates=[{"node_id": ids[task], "resolved": True, "add_evidence": evidence}])
    _claim(codex, "queue")
    _claim(claude, "ledger")


def _claim(agent: Agent, ref: str) -> None:
    assert len(agent("graph_next", project=PROJECT, filter={"key": ref}, claim=True)["nodes"]) == 1


def _task(ref: str, parent: str, summary: str, priority: int | None = None, *depends_on: str) -> dict[str, Any]:
    properties = {"key": ref} | ({} if priority is None else {"priority": priority})
    return {
        "ref": ref,
        "parent_ref": parent,
        "summary": summary,
        "depends_on": list(depends_on),
        "properties": properties,
    }


def _knowledge(planner: Agent, repository: Path) -> None:
    project = planner("manage_container", operation="create", containerType="project", name="shop", summary="The shop")
    place = {"projectId": project["data"]["project"]["id"]}
    card = {"operation": "create", "containerType": "task", "priority": "LOW", "complexity": 1, "summary": "Look"}
    task = planner("manage_container", **card, **place, title="Understand refunds")["data"]["task"]["id"]
    once = "A refund is queued **once**; see `queue.py`.\n\n- never retried\n- parked"
    for name, text, paths in (
        ("Refund queue", once, ["src/refunds/queue.py"]),
        ("Retries", "Retries are bounded by the budget of the day.", ["src/refunds/re*.py"]),
        ("Routes", "Routes are versioned, and old ones answer for a year.", ["src/api/**"]),
    ):
        atom = {"operation": "create", "entityType": "atom", "name": name, "knowledge": text, "paths": paths}
        planner("manage_graph", **atom, **place, pin=True, createdByTaskId=task)
    (repository / "src/refunds/retry.py").write_text("retries = 3\n")


def _make_repository(repository: Path) -> None:
    for name in FILES:
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")
    who = ("-c", "user.name=ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")
    for command in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "--message", "begin")):
        subprocess.run(["git", *who, *command], cwd=repository, check=True)
