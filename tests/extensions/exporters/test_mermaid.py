"""A plan as a Mermaid flowchart."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import InvalidArgument, NotFound
from tallystick.extensions.exporters import mermaid
from tests.command_line import CommandLine
from tests.extensions.exporters.exports import exported, losses
from tests.extensions.importers.imports import tool
from tests.promises import promise

_NODE = re.compile(r'  (n\d+)\["([\w ,:/.<>()#;-]*)"\]:::(\w+)')


class _Plan:
    def __init__(self, shell: CommandLine, project: str = "bridge") -> None:
        self.shell = shell
        self.project = project
        self.root = tool(shell, "graph_open", project=project, goal="Build it")["root"]["id"]

    def add(self, *summaries: str) -> list[str]:
        """Each waits for the one before it."""
        nodes: list[dict[str, Any]] = []
        for number, summary in enumerate(summaries):
            waits = {"depends_on": [f"r{number - 1}"]} if number else {}
            nodes.append({"ref": f"r{number}", "parent_ref": self.root, "summary": summary, **waits})
        return [each["id"] for each in tool(self.shell, "graph_plan", nodes=nodes)["created"]]

    def chart(self, target: Path, *options: object) -> str:
        self.report = exported(self.shell, "mermaid", target, *options)
        return target.read_text()


@pytest.fixture
def plan(tmp_path: Path) -> _Plan:
    return _Plan(CommandLine(tmp_path / "base"))


@promise("export-mermaid", "a plan is a flowchart with states, claims and dependencies")
def test_a_plan_shows_states_claims_and_dependencies(tmp_path: Path, plan: _Plan) -> None:
    first, *_ = plan.add("Survey", "Piers", "Deck")
    done = {"node_id": first, "resolved": True, "add_evidence": [{"type": "note", "ref": "measured"}]}
    tool(plan.shell, "graph_update", updates=[done])
    tool(plan.shell, "graph_next", project="bridge", claim=True)
    chart = plan.chart(tmp_path / "plan.mmd")
    assert chart.startswith("---\ntitle: bridge\n---\nflowchart TD\n")
    found = {label.partition("<br/>")[0]: (name, state) for name, label, state in _NODE.findall(chart)}
    assert {summary: state for summary, (_, state) in found.items()} == {
        "Build it": "waiting",
        "Survey": "done",
        "Piers": "claimed",
        "Deck": "waiting",
    }
    assert re.search(r'\["Piers<br/>\(claimed by [\w#;-]+\)"\]', chart)
    names = {summary: name for summary, (name, _) in found.items()}
    assert f"  {names['Build it']} --- {names['Deck']}\n" in chart
    assert f"  {names['Survey']} --> {names['Piers']}\n  {names['Piers']} --> {names['Deck']}\n" in chart
    assert chart.count("classDef") == 3


@promise("export-mermaid-labels", "what a summary says is never syntax of Mermaid")
def test_what_a_summary_says_is_never_syntax(tmp_path: Path) -> None:
    plan = _Plan(CommandLine(tmp_path / "base"), project='x %%{init: {"theme":"dark"}}%%')
    hostile = [
        'a"]\n  n1 --> n99["forged',
        "<script>alert(1)</script> & <img src=x>",
        "%%{init: {}}%% %% comment",
        '`**bold**` _x_ #quot; "click n1 href"',
        "1. first",
        "- list",
        "end ; subgraph {x} (y) [z] |w|",
        "\x1b[31m\u202e",
    ]
    plan.add(*hostile)
    chart = plan.chart(tmp_path / "plan.mmd")
    lines = chart.splitlines()
    assert lines[3] == "flowchart TD"
    assert "%%" not in chart
    drawn = [line for line in lines[4:] if "[" in line]
    assert len(drawn) == 1 + len(hostile)
    assert all(_NODE.fullmatch(line) for line in drawn)
    labels = [_decoded(_NODE.fullmatch(line)[2].rpartition("<br/>")[0]) for line in drawn]  # type: ignore[index]
    assert all("<" not in _NODE.fullmatch(line)[2].rpartition("<br/>")[0] for line in drawn)  # type: ignore[index]
    assert set(labels) >= {"1. first", "- list", hostile[1], hostile[2], hostile[3], hostile[6]}


def _decoded(label: str) -> str:
    return re.sub(r"#(\d+);", lambda found: chr(int(found[1])), label)


def test_a_project_is_named_unless_there_is_only_one(tmp_path: Path, plan: _Plan) -> None:
    plan.chart(tmp_path / "one.mmd")
    _Plan(plan.shell, "tunnel").add("Dig")
    with pytest.raises(InvalidArgument, match="--project") as refused:
        plan.chart(tmp_path / "two.mmd")
    assert "'bridge', 'tunnel'" in str(refused.value.hint)
    with pytest.raises(NotFound, match="no project 'road'"):
        plan.chart(tmp_path / "two.mmd", "--project", "road")
    assert "Dig" in plan.chart(tmp_path / "two.mmd", "--project", "tunnel")
    assert "Build it" not in plan.chart(tmp_path / "two.mmd", "--project", "tunnel", "--force").replace(
        "Build it", "", 1
    )


def test_what_is_too_much_for_mermaid_is_told(tmp_path: Path, plan: _Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mermaid, "EDGES_MAX", 2)
    monkeypatch.setattr(mermaid, "TEXT_CHARACTERS_MAX", 100)
    plan.add("One " * 100, "Two")
    plan.chart(tmp_path / "plan.mmd")
    assert losses(plan.report).keys() >= {"edges", "size", "summary", "evidence and properties"}
