"""`tallystick work`: what a person sees and does beside agents."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallystick import app
from tallystick.cli.output import console
from tallystick.cli.tool_client import ask
from tallystick.cli.work import _board, _counts, parse_evidence
from tallystick.config import load
from tallystick.errors import InvalidArgument
from tallystick.policy import Principal
from tallystick.server.dispatch import prepare
from tallystick.toolsets.work import TOOLSET, activity
from tests.command_line import CommandLine
from tests.promises import promise

Tally = Callable[..., tuple[int, str, str]]


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("TALLYSTICK_", "GRAPH_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("BASE_PATH", str(tmp_path / "memory"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "memory"


@pytest.fixture
def tally(base: Path) -> Tally:
    def run(*arguments: object) -> tuple[int, str, str]:
        told = CommandLine(base).main("work", *arguments)
        return told.code, told.out, told.err

    return run


@pytest.fixture
def ids(base: Path) -> dict[str, str]:
    """A project in which bob has claimed something."""
    tools = {tool.name: tool for tool in TOOLSET.tools}

    async def prepared() -> dict[str, str]:
        async with app.opened(load({"base": base})) as store:

            async def call(tool: str, agent: str = "ann", **arguments: Any) -> dict[str, Any]:
                answer = await tools[tool].call(store, Principal(actor=agent), prepare(tools[tool], arguments))
                return answer.data

            await call("graph_open", project="bridge", goal="Build a bridge")
            told = await call(
                "graph_plan",
                nodes=[
                    {"ref": "survey", "summary": "Survey \x1b[31mthe rock"},
                    {"ref": "build", "summary": "Build it", "depends_on": ["survey"], "context_links": ["plan.md"]},
                    {"ref": "arch", "summary": "Lay the arch", "parent_ref": "build", "properties": {"priority": 3}},
                    {"ref": "paint", "summary": "Paint it", "depends_on": ["arch"]},
                ],
            )
            await call("graph_next", "bob", project="bridge", claim=True)
            return {each["ref"]: each["id"] for each in told["created"]}

    return asyncio.run(prepared())


@promise("work, people", "a person sees the tree, what is next, a node, and who works on what")
def test_the_tree_shows_marks_ids_and_who_works(tally: Tally, ids: dict[str, str]) -> None:
    code, out, err = tally("tree")
    assert code == 0
    lines = [line.lstrip("│├└─ ") for line in out.splitlines()]
    assert lines[0].startswith("· Build a bridge")
    assert f"▶ Lay the arch  {ids['arch']}  bob" in lines
    assert f"· Paint it  {ids['paint']}" in lines
    assert "\x1b[31m" not in out
    assert "5 nodes: 0 resolved, 2 actionable, 2 blocked" in err
    _, out, _ = tally("tree", "bridge", "--depth", 0)
    assert "… 3 more" in out
    _, out, _ = tally("tree", "bridge", "--json")
    assert [child["summary"] for child in json.loads(out)["tree"]["children"]][1:] == ["Build it", "Paint it"]


def test_what_was_dropped_looks_otherwise_than_what_is_done(tally: Tally, base: Path, ids: dict[str, str]) -> None:
    assert tally("done", ids["survey"], "-e", "note:solid")[0] == 0
    drop = {"operations": [{"op": "drop", "node_id": ids["paint"], "reason": "rust is fine"}]}
    ask(load({"base": base}), "graph_restructure", drop)
    _, out, err = tally("tree")
    marks = {line.lstrip("│├└─ ")[0]: line for line in out.splitlines()}
    assert "Paint it" in marks["✘"]
    assert "the rock" in marks["✔"]
    assert "2 resolved (1 dropped)" in err
    assert "  dropped, revision" in tally("show", ids["paint"])[1]
    assert "  resolved, revision" in tally("show", ids["survey"])[1]
    _, out, _ = tally("watch")
    assert "✘ Paint it" in out


def test_next_shows_what_is_free_and_can_claim_it(tally: Tally, ids: dict[str, str]) -> None:
    code, out, _ = tally("next")
    assert code == 0
    assert ids["survey"] in out
    assert ids["arch"] not in out, "bob has it"
    _, out, _ = tally("next", "bridge", "--claim", "--json")
    assert json.loads(out)["nodes"][0]["node"]["properties"]["_claimed_by"] == "default-agent"
    _, out, _ = tally("next", "-n", 1, "--json")
    assert json.loads(out)["nodes"][0]["node"]["id"] == ids["survey"], "one's own claim is one's own"


def test_show_tells_everything_of_a_node(tally: Tally, ids: dict[str, str]) -> None:
    code, out, _ = tally("show", ids["build"])
    assert code == 0
    for words in ("Build it", "in Build a bridge", "open, revision 1, by ann", "see plan.md", "Lay the arch"):
        assert words in out
    assert "waits for · Survey" in out
    _, out, _ = tally("show", ids["arch"])
    assert "holds up · Paint it" in out
    assert "_claimed_by: bob" in out
    _, out, _ = tally("show", ids["build"], "--json")
    assert json.loads(out)["node"]["id"] == ids["build"]


def test_done_resolves_with_evidence_and_tells_what_opens(tally: Tally, ids: dict[str, str]) -> None:
    code, out, _ = tally("done", ids["arch"], "--evidence", "git:4f2c1aa", "-e", "note:ok: all of it")
    assert code == 0
    assert out.splitlines()[0] == f"resolved {ids['arch']}, revision 3"
    assert f"now actionable: {ids['paint']}  Paint it" in out
    _, out, _ = tally("show", ids["arch"], "--json")
    evidence = json.loads(out)["node"]["evidence"]
    assert [(each["type"], each["ref"]) for each in evidence] == [("git", "4f2c1aa"), ("note", "ok: all of it")]
    _, _, err = tally("done", ids["survey"])
    assert "was resolved without evidence" in err
    _, out, _ = tally("done", ids["paint"], "--json")
    assert json.loads(out)["updated"] == [{"node_id": ids["paint"], "rev": 2}]


def test_mistakes_leave_with_a_code_and_say_what_to_do(tally: Tally, ids: dict[str, str]) -> None:
    for arguments, code, words in (
        (("show", "nobody"), 3, "there is no work node 'nobody' [node_not_found]"),
        (("tree", "tunnel"), 3, "there is no project 'tunnel'"),
        (("next", "tunnel"), 3, "there are bridge"),
        (("done", ids["arch"], "--evidence", "git"), 2, "'git' is not TYPE:REF"),
        (("done", "nobody"), 3, "node_not_found"),
    ):
        left, _, err = tally(*arguments)
        assert (left, words in err) == (code, True), err


def test_looking_makes_no_project(tally: Tally, ids: dict[str, str]) -> None:
    tally("tree", "tunnel")
    tally("next", "tunnel")
    _, out, _ = tally("tree", "--json")
    assert json.loads(out)["project"] == "bridge"


def test_piped_watch_shows_what_is_true_now_and_ends(tally: Tally, ids: dict[str, str]) -> None:
    code, out, _ = tally("watch")
    assert code == 0
    assert "bob" in out
    assert "Lay the arch" in out
    assert "bridge" in out


@promise("work, watch", "a live view of who works on what")
@pytest.mark.parametrize("ended_by", ["q", "Ctrl-C"])
def test_watch_is_live_until_q_or_ctrl_c(base: Path, ids: dict[str, str], ended_by: str) -> None:
    screen, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "tallystick", "work", "watch"],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=os.environ | {"TERM": "xterm"},
    )
    os.close(terminal)
    try:
        shown = _read_until(screen, b"Lay the arch")
        assert b"bob" in shown
        if ended_by == "q":
            os.write(screen, b"q")
        else:
            process.send_signal(signal.SIGINT)
        _read_until(screen, b"\x1b[?1049l")
        assert process.wait() == 0
    finally:
        process.kill()
        process.wait()
        os.close(screen)


def _read_until(screen: int, words: bytes) -> bytes:
    shown = b""
    while words not in shown:
        shown += os.read(screen, 65536)
    return shown


@pytest.mark.parametrize("name", ["tree", "next", "show", "done", "watch"])
def test_every_command_teaches_by_example(tally: Tally, name: str) -> None:
    code, out, _ = tally(name, "--help")
    assert code == 0
    assert f"tallystick work {name}" in out.split("Examples:")[1]
    assert "--base" in out
    assert ("--json" in out) == (name != "watch")


@pytest.mark.parametrize("text", ["git", ":x", "git:", " : ", ""])
def test_evidence_has_a_type_and_a_reference(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_evidence(text)
    assert parse_evidence("url:https://x/y") == {"type": "url", "ref": "https://x/y"}


def test_every_actionable_node_of_a_long_tree_is_marked(tally: Tally, base: Path) -> None:
    settings = load({"base": base})
    ask(settings, "graph_open", {"project": "wide", "goal": "Lay bricks"})
    ask(settings, "graph_plan", {"nodes": [{"ref": f"b{number}", "summary": f"b{number}"} for number in range(101)]})
    code, out, _ = tally("tree", "wide")
    assert code == 0
    assert out.count("▶") == 101


def test_watch_counts_the_claims_that_it_does_not_list(
    tally: Tally, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tally("next", "--claim")[0] == 0
    monkeypatch.setattr(activity, "_CLAIMS_SHOWN", 1)
    _, out, _ = tally("watch")
    assert "Lay the arch" in out
    assert "and 1 newer claim" in out


def test_counts_of_which_not_all_were_counted_are_lower_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    counts: dict[str, Any] = {
        "project": "p",
        "resolved": 1,
        "total": 1_000,
        "actionable": 2,
        "blocked": 3,
        "partial": True,
    }
    console().print(_board({"now": "2026-01-01T00:00:00.000Z", "projects": [counts], "claims": [], "claims_omitted": 0,
                            "recent": []}))  # fmt: skip
    assert "at least 1000" in capsys.readouterr().out
    assert _counts(counts).startswith("at least 1000 nodes")
