"""Imports of plans: beads, task-master and Backlog.md become projects, tasks and dependencies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import CommandLine
from tests.extensions.importers.fixtures.make import INSTALLED, make_backlog
from tests.extensions.importers.imports import (
    FIXTURES,
    count,
    imported,
    json_lines,
    left_out,
    reasons,
    tasks,
    tool,
    written,
)
from tests.promises import promise


@pytest.fixture
def shell(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "base")


def issue(issue_id: str, status: str = "open", **more: Any) -> dict[str, Any]:
    return {"_type": "issue", "id": issue_id, "title": f"Do {issue_id}", "status": status, "priority": 2, **more}


def waits(issue_id: str, *others: str, kind: str = "blocks") -> list[dict[str, Any]]:
    return [{"issue_id": issue_id, "depends_on_id": other, "type": kind} for other in others]


def shown(shell: CommandLine, project: str) -> dict[str, Any]:
    """The work nodes of a project, by their summaries."""
    found = tool(shell, "graph_query", project=project, limit=100)["nodes"]
    nodes = [tool(shell, "graph_context", node_id=each["id"]) for each in found]
    return {each["node"]["summary"]: each for each in nodes if each["node"]["parent"] is not None}


def states(report: Any) -> dict[str, str]:
    return {each["status"]: each["becomes"] for each in report["states"]}


# -- beads


@promise("import-beads", "issues of beads are tasks with parents, dependencies and evidence")
def test_issues_of_beads_are_tasks_with_parents_dependencies_and_evidence(shell: CommandLine) -> None:
    report = imported(shell, "auto", FIXTURES / "beads")
    assert report["source"] == "beads"
    assert written(report) == {"task beads": (4, 0, 0), "node memory": (1, 0, 0)}
    assert states(report) == {"open": "open", "closed": "resolved", "in_progress": "open", "deferred": "open"}
    assert reasons(report) == {"Announce it depends_on bd-zz": "there is no 'bd-zz'"}
    plan = shown(shell, "beads")
    epic, key, announce = (plan[name] for name in ("Stop paying refunds twice", "Add the key", "Announce it"))
    assert epic["node"]["properties"]["priority"] == 4
    assert epic["node"]["properties"]["description"] == "A retried refund is paid twice."
    assert epic["node"]["properties"]["labels"] == ["billing"]
    assert key["node"]["parent"] == epic["node"]["id"]
    assert key["node"]["resolved"]
    assert [(each["type"], each["agent"]) for each in key["node"]["evidence"] if "agent" in each] == [
        ("comment", "bob")
    ]
    assert [each["ref"] for each in key["node"]["evidence"]][-1] == "merged as 4f2a91c"
    assert [each["node"]["id"] for each in announce["depends_on"]] == [epic["node"]["id"]]
    assert imported(shell, "beads", FIXTURES / "beads")["commits"] == 0


def test_a_dry_run_of_a_plan_tells_the_same_and_writes_nothing(shell: CommandLine) -> None:
    tried = imported(shell, "beads", FIXTURES / "beads", "--dry-run")
    assert not shell.base.exists()
    done = imported(shell, "beads", FIXTURES / "beads")
    for name in ("kinds", "states", "unmapped"):
        assert tried[name] == done[name]
    assert written(imported(shell, "beads", FIXTURES / "beads", "--dry-run"))["task beads"] == (0, 0, 4)


@promise("import-plan", "a plan stays one whatever the source says: cycles and dangling references are told")
def test_a_plan_stays_one_whatever_the_source_says(shell: CommandLine, tmp_path: Path) -> None:
    lines = [
        issue("a", dependencies=waits("a", "b")),
        issue("b", dependencies=waits("b", "c")),
        issue("c", dependencies=waits("c", "a", "c", "nobody")),
        issue("p", dependencies=waits("p", "p.1") + waits("p", "q", kind="parent-child")),
        issue("p.1", dependencies=waits("p.1", "p")),
        issue("q", dependencies=waits("q", "p", kind="parent-child")),
        issue("o.1"),
    ]
    path = json_lines(tmp_path / "plan" / "issues.jsonl", lines)
    for options in (["--dry-run"], []):
        told = reasons(imported(shell, "beads", path, *options))
        assert told == {
            "Do c depends_on a": "it would close a cycle of dependencies",
            "Do c depends_on c": "it names itself",
            "Do c depends_on nobody": "there is no 'nobody'",
            "Do p": "it is above itself: it is put on top",
            "Do p depends_on p.1": "what is below it must be done first anyway",
            "Do p.1 depends_on p": "it would wait for what is above it",
            "Do o.1": "its parent 'o' is not there: it is put on top",
        }
    assert shell.run("work", "next", "plan", "--json").json["nodes"][0]["node"]["summary"] in {
        "Do c",
        "Do o.1",
        "Do p.1",
    }
    assert imported(shell, "beads", path)["commits"] == 0


@promise("import-plan-changes", "what changes in a tracker changes here, and what agents did stays")
def test_what_changes_there_changes_here_and_what_agents_did_stays(shell: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "plan" / "issues.jsonl"
    json_lines(path, [issue("a", description="one", dependencies=waits("a", "b")), issue("b"), issue("c")])
    imported(shell, "beads", path)
    node_id = shown(shell, "plan")["Do a"]["node"]["id"]
    evidence = [{"type": "git", "ref": "4f2a91c"}]
    tool(shell, "graph_update", updates=[{"node_id": node_id, "resolved": True, "add_evidence": evidence}])
    json_lines(path, [issue("a", notes="two", dependencies=waits("a", "c")), issue("b", "closed"), issue("c")])
    report = imported(shell, "beads", path)
    assert written(report) == {"task plan": (0, 2, 1)}
    now = shown(shell, "plan")
    assert now["Do a"]["node"]["resolved"], "its state there did not change"
    assert [each["ref"] for each in now["Do a"]["node"]["evidence"]] == ["4f2a91c"]
    assert now["Do a"]["node"]["properties"] == {
        "notes": "two", "priority": 2, "source_id": "a", "status": "open"
    }  # fmt: skip
    assert [each["node"]["summary"] for each in now["Do a"]["depends_on"]] == ["Do c"]
    assert now["Do b"]["node"]["resolved"]


def test_a_long_text_is_kept_in_parts(shell: CommandLine, tmp_path: Path) -> None:
    words = " ".join(f"word{number}" for number in range(4_000))
    path = json_lines(tmp_path / "plan" / "issues.jsonl", [issue("a", description=words, title="t" * 3_000)])
    assert imported(shell, "beads", path)["unmapped"] == []
    (node,) = shown(shell, "plan").values()
    exported = shell.run("export").out
    assert "word3999" in exported
    assert exported.count("t" * 3_000) == 1
    assert len(node["node"]["summary"]) == 2_000


def test_fields_and_lines_of_beads_that_are_not_known_are_told(tmp_path: Path) -> None:
    lines = [issue("a", wisp={"x": 1}, dependency_count=3), {"_type": "gate"}, {"_type": "issue"}, {"_type": "memory"}]
    assert left_out("beads", json_lines(tmp_path / "issues.jsonl", lines)) == [
        ("a wisp", "no field of an issue that is known"),
        ("gate", "neither an issue nor a memory"),
        ("{'_type': 'issue'}", "an issue without id"),
        ("{'_type': 'memory'}", "a memory without key or value"),
    ]


# -- task-master


@promise("import-task-master", "tasks of task-master are tasks with their parts")
def test_tasks_of_task_master_are_tasks_with_their_parts(shell: CommandLine) -> None:
    report = imported(shell, "auto", FIXTURES / "task-master")
    assert report["source"] == "task-master"
    assert written(report) == {"task task-master": (3, 0, 0)}
    assert states(report) == {"done": "resolved", "pending": "open"}
    assert report["unmapped"] == []
    plan = shown(shell, "task-master")
    assert [each["node"]["summary"] for each in plan["Add CI"]["depends_on"]] == ["Set up"]
    assert plan["write test"]["node"]["parent"] == plan["Add CI"]["node"]["id"]
    assert plan["Set up"]["node"]["resolved"]
    assert plan["Add CI"]["node"]["properties"]["priority"] == 3
    assert imported(shell, "task-master", FIXTURES / "task-master")["commits"] == 0


def test_a_file_of_task_master_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps({"tasks": [{"id": 1, "title": "One"}]}), encoding="utf-8-sig")
    assert list(tasks("task-master", file)) == ["1"]


def test_tags_old_files_and_cancelled_tasks_of_task_master(tmp_path: Path, shell: CommandLine) -> None:
    file = tmp_path / "shop" / "tasks.json"
    file.parent.mkdir()
    one = {"id": "1", "title": "One", "status": "cancelled", "dependencies": [2, "9"]}
    two = {
        "id": 2,
        "title": "Two",
        "status": "review",
        "subtasks": [{"id": 1, "title": "x", "dependencies": [2]}, {"id": 2}],
    }
    file.write_text(json.dumps({"tasks": [one, two, "three"]}))
    found = tasks("task-master", file)
    assert (found["1"].dropped, found["1"].depends_on) == (True, ("2", "9"))
    assert (found["2.1"].depends_on, found["2.2"].summary) == (("2.2",), "2.2")
    report = imported(shell, "task-master", file)
    assert reasons(report) == {"three": "a task without id", "One depends_on 9": "there is no '9'"}
    assert states(report) == {"cancelled": "dropped", "review": "open", "pending": "open"}
    file.write_text(json.dumps({"beta": {"tasks": [one]}, "odd": 3}))
    assert tasks("task-master", file)["1"].project == "shop beta"
    assert left_out("task-master", file) == [("odd", "no tag with a list of tasks")]


# -- Backlog.md


def check_backlog(shell: CommandLine, path: Path) -> None:
    report = imported(shell, "auto", path)
    assert report["source"] == "backlog-md"
    assert written(report) == {"task demo": (4, 0, 0), "node decision": (1, 0, 0), "node document": (1, 0, 0)}
    assert states(report) == {"To Do": "open", "Done": "resolved", "To Do (archive/tasks)": "dropped"}
    assert report["unmapped"] == []
    plan = shown(shell, "demo")
    first = plan["Fix refund retry"]["node"]
    assert first["properties"]["description"] == "Never retry a refund"
    assert first["properties"]["notes"] == "the provider has no idempotency keys"
    assert first["properties"]["criteria"] == ["[x] refund not retried", "[ ] told to support"]
    assert [(each["type"], each["ref"]) for each in first["evidence"]] == [("criterion", "refund not retried")]
    assert plan["Write the test"]["node"]["parent"] == first["id"]
    assert [each["node"]["summary"] for each in plan["Announce it"]["depends_on"]] == ["Fix refund retry"]
    assert plan["Retry with a queue"]["node"]["dropped"]
    before = count(shell)
    assert imported(shell, "backlog-md", path)["commits"] == 0
    assert count(shell) == before


def test_tasks_decisions_and_documents_of_backlog_md(shell: CommandLine) -> None:
    check_backlog(shell, FIXTURES / "backlog-md")


@promise("import-backlog-md", "what Backlog.md writes today is imported whole")
@pytest.mark.skipif(not INSTALLED, reason="'make test' installs Backlog.md")
def test_what_backlog_md_writes_today_is_imported_whole(shell: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "repository").mkdir()
    make_backlog(tmp_path / "repository")
    check_backlog(shell, tmp_path / "repository")


def test_a_broken_task_or_configuration_of_backlog_md_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "backlog" / "tasks"
    folder.mkdir(parents=True)
    (tmp_path / "backlog" / "config.yml").write_text("statuses: [")
    (folder / "a.md").write_text("---\nid: TASK-1\nstatus: done\nmood: fine\n---\nfree text")
    (folder / "b.md").write_text("no head")
    (folder / "c.md").write_text("---\nid: *a\n---\n")
    assert [what for what, _ in left_out("backlog-md", tmp_path)] == ["config.yml", "TASK-1 mood", "b.md", "c.md"]
    (task,) = tasks("backlog-md", tmp_path).values()
    assert (task.resolved, task.texts) == (True, {"text": "free text"})
    assert task.project == tmp_path.name


def test_a_project_can_be_named_and_a_task_that_was_dropped_here_stays_so(shell: CommandLine, tmp_path: Path) -> None:
    path = json_lines(tmp_path / "x" / "issues.jsonl", [issue("a"), issue("b")])
    assert written(imported(shell, "beads", path, "--project", "Shop")) == {"task Shop": (2, 0, 0)}
    node_id = shown(shell, "Shop")["Do a"]["node"]["id"]
    tool(shell, "graph_restructure", operations=[{"op": "drop", "node_id": node_id, "reason": "not needed"}])
    assert imported(shell, "beads", path, "--project", "shop")["commits"] == 0
    assert shown(shell, "Shop")["Do a"]["node"]["dropped"]
