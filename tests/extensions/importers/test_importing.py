"""Imports from other programs: what is written, what is left alone, and how often."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tallystick import app, config
from tallystick.errors import InvalidArgument
from tallystick.extensions.importers.importing import Options, import_from
from tallystick.toolsets.drafts import write_drawn
from tests.command_line import CommandLine, commits_in, node
from tests.extensions.importers.imports import count, imported, json_lines, reasons, written
from tests.promises import promise


def entity(name: str, *observations: str, kind: str = "service") -> dict[str, Any]:
    return {"type": "entity", "name": name, "entityType": kind, "observations": list(observations)}


@pytest.fixture
def shell(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "base")


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    relation = {"type": "relation", "from": "Ada", "to": "billing", "relationType": "owns"}
    lines = [entity("billing", "never retry a refund"), entity("Ada", kind="person"), relation]
    return json_lines(tmp_path / "memory.jsonl", lines)


def attrs(shell: CommandLine, name: str) -> Any:
    return shell.run("show", name, "--json").json["entity"]["attrs"]


@promise("import-once", "a second import of the same source writes nothing")
def test_a_second_import_writes_nothing(shell: CommandLine, memory: Path) -> None:
    assert imported(shell, "server-memory", memory)["commits"] == 3
    again = imported(shell, "server-memory", memory)
    assert again["commits"] == 0
    assert written(again) == {"node service": (0, 0, 1), "node person": (0, 0, 1), "edge owns": (0, 0, 1)}
    assert count(shell) == 3


@promise("import-dry-run", "a dry run shows what would be written, and writes nothing")
def test_a_dry_run_tells_the_same_and_writes_nothing(shell: CommandLine, memory: Path) -> None:
    tried = imported(shell, "server-memory", memory, "--dry-run")
    assert not shell.base.exists()
    done = imported(shell, "server-memory", memory)
    for name in ("kinds", "unmapped", "items"):
        assert tried[name] == done[name]
    assert written(imported(shell, "server-memory", memory, "--dry-run"))["node service"] == (0, 0, 1)
    assert count(shell) == 3


@promise("import-origin", "source, author and time are attributes, never the commit's actor or timestamp")
def test_whoever_wrote_it_there_is_no_author_here(shell: CommandLine, memory: Path) -> None:
    imported(shell, "server-memory", memory)
    first = commits_in(shell.base / "_system" / "log")[0]
    assert (first.actor, first.tool, first.reason) == ("default-agent", "import", "imported from server-memory")
    assert first.nonce is not None
    assert first.nonce.startswith("import:server-memory:")
    origin = attrs(shell, "billing")["imported"]
    assert {name: origin[name] for name in ("from", "id")} == {"from": "server-memory", "id": "billing"}


@promise("import-changes", "what changed in the source is updated, also when it changes back")
def test_what_changed_in_the_source_changes_here_and_back_again(shell: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "memory.jsonl"
    for said in ("one", "two", "one"):
        json_lines(path, [entity("billing", said)])
        imported(shell, "server-memory", path)
        assert attrs(shell, "billing")["observations"] == [said]
    json_lines(path, [entity("billing", "one", kind="system")])
    assert written(imported(shell, "server-memory", path)) == {"node system": (0, 1, 0)}
    assert shell.run("show", "billing", "--json").json["entity"]["type"] == "system"
    assert count(shell) == 4


def test_what_an_agent_added_stays_and_is_no_change_of_the_source(shell: CommandLine, memory: Path) -> None:
    imported(shell, "server-memory", memory)
    shell.write({"op": "PATCH_NODE", "node": {"id": "billing", "attrs": {"owner": "Ada", "observations": ["mine"]}}})
    assert imported(shell, "server-memory", memory)["commits"] == 0
    assert attrs(shell, "billing")["observations"] == ["mine"]
    json_lines(memory, [entity("billing", "never, really")])
    imported(shell, "server-memory", memory)
    assert attrs(shell, "billing")["observations"] == ["never, really"]
    assert attrs(shell, "billing")["owner"] == "Ada"


@promise("import-deleted", "what was deleted here does not come back by an import")
def test_what_was_deleted_here_does_not_come_back(shell: CommandLine, memory: Path) -> None:
    imported(shell, "server-memory", memory)
    shell.write({"op": "DELETE_NODE", "node_id": "Ada"})
    report = imported(shell, "server-memory", memory)
    assert report["commits"] == 0
    assert reasons(report) == {"Ada": "'Ada' was deleted here, and stays so", "Ada → billing": "no node 'Ada'"}


@promise("import-others-stay", "what has the same id and another origin is left alone and told")
def test_what_has_the_same_id_and_another_origin_is_left_alone(shell: CommandLine, memory: Path) -> None:
    shell.write(node("billing", "team", size=3))
    for options in (["--dry-run"], []):
        report = imported(shell, "server-memory", memory, *options)
        assert "left alone" in reasons(report)["billing"]
    assert attrs(shell, "billing") == {"size": 3}
    imported(shell, "server-memory", memory, "--prefix", "old/")
    assert attrs(shell, "old/billing")["observations"] == ["never retry a refund"]
    assert shell.run("show", "old/Ada", "--json").json["edges"][0]["to"] == "old/billing"


def test_what_the_ontology_forbids_is_told_and_nothing_else_is_lost(shell: CommandLine, tmp_path: Path) -> None:
    shell.run("ontology", "use", "gtd")
    lines = [entity(f"fact {number}") for number in range(20)] + [entity("typed", "x", kind="Task")]
    path = json_lines(tmp_path / "memory.jsonl", lines)
    for options in (["--dry-run"], []):
        report = imported(shell, "server-memory", path, *options)
        assert written(report)["node service"] == (20, 0, 0)
        assert "must be a string" in reasons(report)["typed"]


def test_what_belongs_to_another_vocabulary_or_is_too_large_is_told(shell: CommandLine, tmp_path: Path) -> None:
    large = [entity(f"large {number}", "x" * 900_000) for number in range(8)]
    lines = [entity("mine"), entity("node", kind="work/node"), entity("huge", *["x" * 999] * 1_048), *large]
    path = json_lines(tmp_path / "memory.jsonl", lines)
    for options in (["--dry-run"], []):
        report = imported(shell, "server-memory", path, *options)
        assert written(report) == {"node service": (9, 0, 0)}
        assert "belongs to the work toolset" in reasons(report)["node"]
        assert any("1,048,576" in reason for reason in reasons(report).values())


def test_two_who_import_one_after_the_other_do_not_contradict_each_other(shell: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "memory.jsonl"
    for author, kind in (("ada", "service"), ("bob", "system")):
        json_lines(path, [entity("billing", kind=kind)])
        shell.run("import", "--from", "server-memory", path, GRAPH_AGENT=author)
    assert len({commit.actor for commit in commits_in(shell.base / "_system" / "log")}) == 2
    assert shell.run("stale", "--json").json["contradictions"] == []


def test_two_imports_at_once_write_everything_once(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "memory.jsonl", [entity(f"fact {number}") for number in range(2_500)])

    async def run() -> int:
        contexts = [app.operation_context(config.load({"base": tmp_path / "base"})) for _ in range(2)]
        reports = await asyncio.gather(*(import_from(each, "server-memory", path) for each in contexts))
        assert all(each.done == 2_500 for each in reports)
        return sum(each.commits for each in reports)

    assert asyncio.run(run()) == 2_500
    assert len(commits_in(tmp_path / "base" / "_system" / "log")) == 2_500


@promise("import-interrupted", "an interrupted import says how far it came and goes on from there")
def test_an_interrupted_import_says_how_far_it_came_and_goes_on_from_there(
    shell: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = json_lines(tmp_path / "memory.jsonl", [entity(f"fact {number}") for number in range(2_500)])

    async def write_once(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(f"{import_from.__module__}.write_drawn", interrupted)
        return await write_drawn(*args, **kwargs)

    async def interrupted(*args: Any, **kwargs: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    monkeypatch.setattr(f"{import_from.__module__}.write_drawn", write_once)
    stopped = shell.main("import", "--from", "server-memory", path)
    assert stopped.code == 130
    assert "1,000 of 2,500 items were looked at, 1,000 of them are written" in stopped.err
    assert count(shell) == 1_000
    monkeypatch.undo()
    assert written(imported(shell, "server-memory", path)) == {"node service": (1_500, 0, 1_000)}


@promise("import-names", "without a name the importers are listed, and a wrong one is put right")
def test_a_name_alone_lists_them_and_a_wrong_one_is_put_right(shell: CommandLine, memory: Path) -> None:
    assert "server-memory" in shell.main("import", "--from").out
    assert "server-memory" in [each["name"] for each in shell.main("import", "--json", "--from").json]
    wrong = shell.main("import", "--from", "sever-memory", memory)
    assert wrong.code == 3
    assert "did you mean 'server-memory'" in wrong.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--from", "server-memory"], "PATH is missing"),
        (["--from", "server-memory", "nowhere"], "no such file"),
        (["--from", "auto", "/dev/null"], "cannot tell what wrote"),
        (["--from", "server-memory", "memory.jsonl", "--replay"], "--replay does not go with --from"),
        (["memory.jsonl", "--dry-run"], "--dry-run needs --from"),
        ([], "PATH is missing"),
    ],
)
def test_what_does_not_go_together_is_refused(
    shell: CommandLine, memory: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.chdir(memory.parent)
    refused = shell.main("import", *words)
    assert refused.code == 2
    assert said in refused.err
    assert not shell.base.exists()


def test_a_pipe_is_refused_and_not_waited_for(shell: CommandLine, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    refused = shell.main("import", "--from", "server-memory", tmp_path / "pipe")
    assert refused.code == 2
    assert "not a regular file" in refused.err


async def test_a_source_that_is_not_one_is_refused(tmp_path: Path) -> None:
    context = app.operation_context(config.load({"base": tmp_path / "base"}))
    with pytest.raises(InvalidArgument):
        await import_from(context, "server-memory", tmp_path, Options(dry_run=True))
