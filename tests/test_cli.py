"""The command line: what a person types, sees, and is told when it goes wrong."""

from __future__ import annotations

import asyncio
import csv
import errno
import fcntl
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tallystick import app, cli
from tallystick.cli import reading
from tallystick.cli.filters import parse_moment, parse_terms
from tallystick.cli.serving import find_free_port, parse_address
from tallystick.config import Settings
from tallystick.errors import InvalidArgument, StorageRefused
from tallystick.extensions.vectors import model
from tallystick.log import Head
from tallystick.log.files import FilesLog
from tallystick.policy import Principal
from tallystick.projections.consistency_check import rebuild
from tallystick.projections.consistency_check.replay import lock_of
from tallystick.projections.log_reader import LogReader
from tallystick.projections.sql import SqlProjection
from tallystick.projections.worker import ProjectionWorker
from tallystick.server import dispatch
from tests import timeouts
from tests.command_line import CommandLine, CommandResult
from tests.commits_by_hand import append, draft, node
from tests.projections import workspace as workspaces

ROOT = Path(__file__).parent.parent
SAMPLE = ROOT / "src" / "tallystick" / "sample.jsonl"


Tally = Callable[..., CommandResult]


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("TALLYSTICK_", "GRAPH_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("BASE_PATH", str(tmp_path / "memory"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "memory"


@pytest.fixture
def tally(base: Path) -> Tally:
    """The command in this process: what it prints and leaves with."""
    return CommandLine(base).main


@pytest.fixture
def sample(tally: Tally) -> Tally:
    assert tally("import", SAMPLE).code == 0
    return tally


# -- what people see


def test_the_version_and_the_commands_are_told(tally: Tally) -> None:
    assert tally("--version").out.startswith("tallystick 0.")
    told = tally("--help").out
    assert [name for name in cli.words() if f"  {name} " not in told] == []


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_teaches_by_example(tally: Tally, name: str) -> None:
    told = tally(name, "--help").out
    assert "Examples:" in told
    assert f"tallystick {name}" in told or name in told.split("Examples:")[1]
    assert "--base" in told or name in ("witness", "init", "trust-settings"), "which have no memory, or find it"


def test_show_tells_what_is_known_and_who_wrote_it(sample: Tally) -> None:
    told = sample("show", "decision-retries").out
    for words in ("Decision", "status: accepted", "→ concerns billing", "← implements task-idempotency", "by ada"):
        assert words in told


def test_show_tells_what_was_known_then(sample: Tally) -> None:
    assert sample("show", "decision-retries", "--as-of", 7, "--json").json["entity"]["attrs"]["status"] == "proposed"
    assert sample("show", "decision-retries", "--json").json["entity"]["attrs"]["status"] == "accepted"


@pytest.mark.parametrize(
    ("terms", "found"),
    [
        (["--type", "Person"], {"ada", "grace"}),
        (["--type", "Person", "role=maintainer"], {"ada"}),
        (["retries", "--type", "Decision"], {"decision-retries"}),
        (["--around", "billing", "--type", "Person"], {"ada"}),
        (["tier>=1"], {"billing", "ledger-db"}),
        (["tier>1"], set()),
        (["preferences.language=Go"], {"grace"}),
        (["name~^(Ada|Led)"], {"ada", "ledger-db"}),
        (['role=["maintainer","on call"]'], {"ada", "grace"}),
        (["priority?"], {"task-idempotency"}),
        (["--type", "Task", "status!=open"], set()),
        (["--type", "Nothing"], set()),
        (["--since", "2000-01-01", "--type", "Decision"], {"decision-retries"}),
        (["--until", "2000-01-01", "--type", "Decision"], set()),
    ],
)
def test_search_finds_by_what_is_typed(sample: Tally, terms: list[str], found: set[str]) -> None:
    assert {entity["id"] for entity in sample("search", *terms, "--json").json["entities"]} == found


def test_search_draws_a_table_and_says_how_to_go_on(sample: Tally) -> None:
    first = sample("search", "--type", "Person", "--limit", 1)
    assert first.out.splitlines()[0].split() == ["id", "type", "attributes"]
    assert "--offset 1" in first.err
    second = sample("search", "--type", "Person", "--limit", 1, "--offset", 1)
    assert "--offset" not in second.err
    assert {line.split()[0] for told in (first, second) for line in told.out.splitlines()[1:]} == {"ada", "grace"}


def test_search_answers_what_do_we_know_about_billing(sample: Tally) -> None:
    found = sample("search", "what", "do", "we", "know", "about", "billing?", "--json").json["entities"]
    assert found[0]["id"] == "billing"
    assert {"ada|owns|billing", "decision-retries|concerns|billing"} <= {each["id"] for each in found}


def test_search_by_words_draws_the_best_first_and_says_what_else_a_word_is(sample: Tally) -> None:
    told = sample("search", "who decided about retries")
    assert told.out.splitlines()[0].split() == ["id", "type", "date", "text"]
    assert told.out.splitlines()[1].split()[:2] == ["decision-retries", "Decision"]
    assert "--type Decision" in sample("search", "Decision").err


def test_search_that_finds_nothing_says_what_there_is(sample: Tally) -> None:
    told = sample("search", "zeppelin")
    assert told.out == ""
    assert "nothing found for: zeppelin" in told.err
    assert "Person" in told.err


def test_a_search_for_the_id_of_a_deleted_entity_names_its_history(sample: Tally) -> None:
    sample("remember", "a plan", "--id", "gone")
    deletion = json.dumps({"op": "DELETE_NODE", "node_id": "gone"})
    assert sample("import", "-", stdin=deletion).code == 0
    for command in ("search", "ask"):
        assert "'gone' was deleted; its history: tallystick lineage gone" in sample(command, "gone").err


def test_search_lists_what_there_is(sample: Tally) -> None:
    rows = [line.split()[:3] for line in sample("search", "--facets").out.splitlines()]
    assert ["type", "Person", "2"] in rows
    assert ["relation", "concerns", "1"] in rows


def test_lineage_tells_every_change_and_its_reason(sample: Tally) -> None:
    told = sample("lineage", "decision-retries")
    assert "CREATE_NODE" in told.out
    assert "attrs.status: accepted" in told.out
    assert "(agreed in review)" in told.out
    assert len(sample("lineage", "decision-retries", "--depth", "full", "--json").json["lineage"]) == 4
    summary = sample("lineage", "decision-retries", "--depth", "summary", "--json").json["summary"]
    assert (summary["modification_count"], summary["unique_actors"]) == (2, 2)


def test_lineage_as_csv_has_every_row_with_old_and_new_values_and_the_policy(
    tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "CSV_ROWS", 50)
    nodes = [{"id": "n", "type": "note", "attrs": {"count": number}} for number in range(123)]
    tally("import", "-", stdin="".join(json.dumps({"op": "UPSERT_NODE", "node": each}) + "\n" for each in nodes))
    rows = list(csv.DictReader(io.StringIO(tally("lineage", "n", "--csv").out)))
    assert len(rows) == len({row["commit_id"] for row in rows}) == 123
    newest = max(rows, key=lambda row: int(row["lamport"]))
    assert json.loads(newest["changes"]) == {"attrs.count": 122}
    assert json.loads(newest["before"]) == {"attrs.count": 121}
    assert {row["policy_version"] for row in rows} == {"single-user@1"}
    step = tally("lineage", "n", "--json", "--offset", 1, "--limit", 1).json["lineage"][0]
    assert (step["before"], step["policy_version"]) == ({"attrs.count": 0}, "single-user@1")


def test_show_of_a_deleted_entity_leads_to_its_history(tally: Tally) -> None:
    node = {"op": "UPSERT_NODE", "node": {"id": "gone", "type": "note", "attrs": {}}}
    for each in (node, {"op": "DELETE_NODE", "node_id": "gone"}):
        tally("import", "-", stdin=json.dumps(each) + "\n")
    told = tally("show", "gone")
    assert (told.code, "'gone' was deleted" in told.err) == (3, True)
    assert "its history: tallystick lineage gone" in told.err


def test_lineage_as_csv_has_one_header_however_many_pages_it_takes(tally: Tally) -> None:
    write = {"op": "UPSERT_NODE", "node": {"id": "n", "type": "T", "attrs": {}}}
    lines = []
    for number in range(120):
        write["node"] = {"id": "n", "type": "T", "attrs": {"text": f"{number} " * 300}}
        lines.append(json.dumps(write))
    assert tally("import", "-", stdin="\n".join(lines)).code == 0
    rows = tally("lineage", "n", "--csv", "--limit", 1000).out.splitlines()
    assert rows[0].startswith("commit_id,")
    assert len(rows) == 121
    assert len(set(rows)) == 121


def test_the_log_shows_the_newest_last(sample: Tally) -> None:
    lines = sample("log", "--limit", 2).out.splitlines()
    assert [line.split()[0] for line in lines] == ["11", "12"]
    assert "grace -works_on-> task-idempotency" in lines[1]


def test_the_log_can_be_narrowed(sample: Tally) -> None:
    assert [c["lamport"] for c in sample("log", "--json", "--actor", "ada").lines] == [9]
    assert [c["lamport"] for c in sample("log", "--json", "--entity", "decision-retries").lines] == [7, 8, 9, 11]
    assert sample("log", "--limit", 0).out == ""


EVIL = "e\x1b[2J\x9b2J\x07\u202e\nerror: forged\x7f"
"""Clears the screen in two ways, rings, turns the writing round, and adds a line of its own."""
NAME = "e\u202e"
"""As much of that as an id may hold."""


@pytest.fixture
def evil(base: Path) -> dict[str, str]:
    """A memory in which every name and word steers the terminal; ids to ask for."""

    async def write_sample() -> dict[str, str]:
        settings = Settings(base=base, toolsets=("all",))
        async with app.served(settings) as offer:

            async def made(tool: str, **arguments: Any) -> Any:
                outcome = await dispatch.call(offer.tools.get(tool), arguments, offer.store, lambda: Principal(EVIL))
                assert isinstance(outcome, dispatch.Done), outcome
                return outcome.data

            attrs = {EVIL: EVIL, "because": [EVIL]}
            for end in (NAME, f"{NAME}2"):
                await made(
                    "memory.write", op="UPSERT_NODE", node={"id": end, "type": NAME, "attrs": attrs}, reason=EVIL
                )
            await made("memory.write", op="UPSERT_EDGE", edge={"from": NAME, "rel": NAME, "to": f"{NAME}2"})
            root = (await made("graph_open", project=NAME, goal=EVIL))["root"]["id"]
            child = {
                "ref": "a",
                "parent_ref": root,
                "summary": EVIL,
                "properties": {EVIL: EVIL},
                "context_links": [EVIL],
            }
            await made("graph_plan", nodes=[child])
            kind = {"name": "Knows", "from_types": ["Idea"], "to_types": ["Idea"]}
            await made("create_ontology", node_types=["Idea"], connection_types=[kind])
            return {"root": root}

    return asyncio.run(write_sample())


COMMANDS: dict[str, list[str]] = {
    "log": ["log"],
    "log, as JSON": ["log", "--json"],
    "log of one": ["log", "--actor", EVIL],
    "show": ["show", NAME],
    "show, as JSON": ["show", NAME, "--json"],
    "show what is not there": ["show", f"{EVIL}3"],
    "search": ["search", NAME],
    "search, as JSON": ["search", NAME, "--json"],
    "search by type": ["search", "--type", NAME],
    "search for what there is": ["search", "--facets"],
    "lineage": ["lineage", NAME, "--depth", "full"],
    "lineage counted": ["lineage", NAME, "--depth", "summary"],
    "lineage of nothing": ["lineage", f"{EVIL}3"],
    "verify": ["verify", "--views"],
    "doctor": ["doctor"],
    "forget": ["forget", EVIL],
    "redactions": ["redactions"],
    "subject": ["subject", "export", "--subject", "e"],
    "restored": ["restore-entity", NAME, "--as-of", "1"],
    "restored what is not there": ["restore-entity", f"{EVIL}3", "--as-of", "1"],
    "tenants": ["tenants", "list"],
    "a tenant": ["tenants", "show", EVIL],
    "recall": ["recall", "--actor", EVIL],
    "tree": ["work", "tree", NAME],
    "tree, as JSON": ["work", "tree", NAME, "--json"],
    "next": ["work", "next", NAME],
    "node": ["work", "show", "ROOT"],
    "watch": ["work", "watch"],
    "done": ["work", "done", "ROOT", "--evidence", f"note:{EVIL}"],
    "knowledge": ["knowledge", "for", EVIL],
    "stale": ["knowledge", "stale"],
    "ontology": ["ontology", "show"],
    "policy": ["policy", "explain", "--actor", EVIL, "--action", "READ", "--resource", EVIL],
    "import": ["import", EVIL],
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_what_agents_wrote_cannot_steer_the_terminal(tally: Tally, evil: dict[str, str], words: list[str]) -> None:
    told = tally(*(evil["root"] if word == "ROOT" else word for word in words))
    said = told.out + told.err
    assert said
    assert {character for character in said if not character.isprintable()} <= {"\n"}
    assert not [line for line in said.splitlines() if line.startswith("error: forged")]


def test_json_with_escapes_says_the_same(tally: Tally, evil: dict[str, str]) -> None:
    assert tally("show", NAME, "--json").json["entity"]["attrs"][EVIL] == EVIL


def test_commands_speak_in_one_place() -> None:
    """Where names are escaped."""
    elsewhere = re.compile(r"typer\.(echo|style|secho)|\bprint\(|\bText\(|click\.|sys\.std(out|err)\.write")
    sources = [path for path in Path(cli.__file__).parent.glob("*.py") if path.name != "output.py"]
    lines = [line.strip() for path in sources for line in path.read_text().splitlines()]
    assert [line for line in lines if elsewhere.search(line) and "console().print(" not in line] == []


def test_where_prints_the_directory_alone(tally: Tally, base: Path) -> None:
    assert tally("where").out == f"{base}\n"
    assert tally("where", "--base", "elsewhere").out == f"{base.parent / 'elsewhere'}\n"
    assert tally("where", "--tenant", "acme", "--json").json["log"] == str(
        base / "tenants" / "acme" / "_system" / "log"
    )
    assert not base.exists()


def test_each_tenant_sees_its_own(sample: Tally) -> None:
    line = json.dumps({"op": "UPSERT_NODE", "node": {"id": "x", "type": "Person", "attrs": {}}})
    assert sample("import", "-", "--tenant", "acme", stdin=line).code == 0
    assert [e["id"] for e in sample("search", "--type", "Person", "--tenant", "acme", "--json").json["entities"]] == [
        "x"
    ]


def test_only_what_looks_like_it_is_offered_for_an_id_that_is_not_there(base: Path, tally: Tally) -> None:
    nodes = [("billing", "billing by Postgres"), ("ledger-db", "Postgres, too"), ("grace", "wrote billing")]
    lines = (
        json.dumps({"op": "UPSERT_NODE", "node": {"id": node_id, "type": "note", "attrs": {"text": text}}})
        for node_id, text in nodes
    )
    assert tally("import", "-", stdin="\n".join(lines)).code == 0
    told = tally("show", "bilings")
    assert told.code == 3
    assert "did you mean billing?" in told.err
    assert "did you mean" not in tally("show", "postgres").err


# -- what they are told when it goes wrong


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["show", "nobody"], 3, ["nobody", "tallystick lineage nobody"]),
        (["show", "retries-decision"], 3, ["did you mean decision-retries"]),
        (["lineage", "nobody"], 3, ["ENTITY_NOT_FOUND"]),
        (["show", "ada", "--as-of", "9999"], 2, ["9999", "UNKNOWN_AS_OF"]),
        (["show", "ada", "--as-of", "yesterday"], 2, ["as_of", "ISO 8601"]),
        (["search", "x", "--vocabulary", "poetry"], 2, ["vocabulary"]),
        (["search", "name~("], 2, ["INVALID_PATTERN"]),
        (["search", "--since", "soon"], 2, ["since"]),
        (["search", "--limit", "0"], 2, ["--limit"]),
        (["lineage", "ada", "--depth", "deep"], 2, ["deep"]),
        (["import", "nowhere.jsonl"], 2, ["nowhere.jsonl"]),
        (["verify", "--repair"], 2, ["verify --views --repair"]),
        (["catch-up", "poetry"], 2, ["poetry", "views, sql, text"]),
        (["serve", "--http", "0.0.0.0:0"], 2, ["UNSAFE_BINDING"]),
        (["serve", "--http", "nonsense:port"], 2, ["127.0.0.1:8765"]),
        (["serve", "--toolsets", "poetry"], 2, ["poetry", "memory"]),
        (["serve", "--toolsets", ""], 2, ["no tool", "memory", "or all"]),
        (["serve", "--tools", " , "], 2, ["--tools", "memory.read"]),
        (["serve", "--tool-names", "camel"], 2, ["underscore"]),
        (["serve", "--workers", "2"], 2, ["--workers", "--http 127.0.0.1:8765"]),
        (["promote"], 2, ["NO_TARGET", "file:///srv/backups/memory"]),
        (["where", "--tenant", "../up"], 2, ["tenant"]),
        (["frobnicate"], 2, ["frobnicate"]),
    ],
)
def test_a_mistake_is_answered_with_a_code_and_the_next_step(
    sample: Tally, arguments: list[str], code: int, told: list[str]
) -> None:
    outcome = sample(*arguments)
    assert outcome.code == code
    assert [word for word in told if word not in outcome.err] == []
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("command", ["log", "verify", "export", "snapshot", "catch-up", "search", ["show", "x"]])
def test_looking_where_nothing_is_makes_nothing(tally: Tally, base: Path, command: str | list[str]) -> None:
    outcome = tally(*([command] if isinstance(command, str) else command))
    assert outcome.code == 3
    assert "NO_MEMORY" in outcome.err
    assert not base.exists()


@pytest.mark.parametrize("command", ["verify", "doctor", "status", "export", "search"])
def test_a_log_that_is_gone_is_missed(sample: Tally, base: Path, command: str) -> None:
    """Where a position is kept beside it, there was one: nobody is told to begin anew."""
    shutil.rmtree(base / "_system" / "log")
    outcome = sample(command)
    assert outcome.code not in (0, 3)
    assert "acknowledged" in outcome.out + outcome.err
    assert "begin" not in outcome.out + outcome.err
    assert "default" in sample("tenants", "list").out


@pytest.mark.parametrize("command", ["verify", "doctor", "search", ["remember", "x"], "serve"])
def test_a_log_that_is_gone_with_its_position_is_missed_by_what_follows_it(
    sample: Tally, base: Path, command: str | list[str]
) -> None:
    """A memory that forgot everything must not go on as a new one, nor take its mirrors with it."""
    rebuild(base, lambda: FilesLog(base / "_system"), "sql")
    shutil.rmtree(base / "_system" / "log")
    (base / "_system" / "head").unlink()
    before = (base / "graph.db").read_bytes()
    outcome = sample(*([command] if isinstance(command, str) else command))
    assert outcome.code not in (0, 3)
    assert "graph.db follows one up to position" in outcome.out + outcome.err
    assert (base / "graph.db").read_bytes() == before
    (base / "graph.db").unlink()
    assert sample("remember", "a new beginning", "--reason", "the mirror was moved away").code == 0


def test_verify_says_what_the_audit_log_tells_nothing_of(sample: Tally, base: Path) -> None:
    told = sample("verify").out
    assert "audit log: sound" in told
    assert "removed" not in told
    shutil.rmtree(base / "_system" / "audit")
    outcome = sample("verify")
    assert outcome.code == 0
    assert "audit log: none here, but the log has" in outcome.out
    sample("remember", "something", "--reason", "the audit log begins anew")
    begun = json.loads(sample("verify", "--json").out)
    assert begun["audit"]["since"] > begun["since"]


def test_a_bug_of_ours_is_called_one(tally: Tally, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr("tallystick.cli.maintenance.settled", broken)
    outcome = tally("where")
    assert outcome.code == cli.EXIT_BUG
    assert "bug" in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC])
def test_what_the_disk_refuses_is_no_bug_of_ours(tally: Tally, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), "memory/backup.lock")

    monkeypatch.setattr("tallystick.cli.maintenance.settled", refused)
    outcome = tally("where")
    assert outcome.code == cli.EXIT_CODES[StorageRefused]
    assert "memory/backup.lock' [STORAGE_REFUSED]" in outcome.err
    assert "bug" not in outcome.err


# -- verify and doctor


def test_verify_leaves_with_0_when_all_is_true(sample: Tally) -> None:
    assert "12 commits" in sample("verify").out
    proof = sample("verify", "--json").json
    assert proof["sound"] is True
    assert proof["position"] == 12


def test_verify_leaves_with_1_and_names_what_is_false(sample: Tally, base: Path) -> None:
    segment = next((base / "_system" / "log").glob("*.jsonl"))
    whole = segment.read_bytes()
    segment.write_bytes(whole.replace(b"on call", b"on cell"))
    outcome = sample("verify")
    assert outcome.code == 1
    assert "line" in outcome.err
    assert "corrupt-log" in outcome.err
    assert sample("verify", "--json").json["sound"] is False
    assert segment.read_bytes() == whole.replace(b"on call", b"on cell")


@pytest.fixture
def workspace(base: Path) -> workspaces.Workspace:
    """A memory with all that lies beside a log."""
    workspace = workspaces.Workspace(base)
    workspace.write(*workspaces.DEFINITIONS)
    workspace.write(workspaces.memory("roof", "Project", workspaces.text("Mend the roof."), budget="Quixotic"))
    workspace.write(workspaces.memory("book", "Project", workspace.prepared("nodes", "book", "Many words. " * 30_000)))
    workspace.close()
    names = ("views", "sql", "text")
    for name in names:
        rebuild(base, lambda: FilesLog(base / "_system"), name)
    return workspace


def test_verify_names_a_damaged_blob_and_what_to_do(workspace: workspaces.Workspace, base: Path, tally: Tally) -> None:
    assert "blobs: sound, 1 (360000 bytes)" in tally("verify").out
    (blob,) = (base / "_content" / "blobs").iterdir()
    blob.write_bytes(b"few words")
    outcome = tally("verify")
    assert outcome.code == 1
    assert f"_content/blobs/{blob.name} (content of 'book', lamport 6): it is damaged" in outcome.err
    assert "restore this file" in outcome.err
    told = tally("verify", "--json").json
    assert (told["sound"], told["problem"], told["blobs"]["sound"]) == (False, None, False)
    assert told["blobs"]["problems"][0]["entity"] == "book"


def test_verify_can_leave_the_blobs_out(workspace: workspaces.Workspace, base: Path, tally: Tally) -> None:
    shutil.rmtree(base / "_content" / "blobs")
    outcome = tally("verify", "--no-blobs", "--json")
    assert (outcome.code, outcome.json["sound"], outcome.json["blobs"]) == (0, True, None)


def test_verify_compares_the_views_and_builds_them_again(
    workspace: workspaces.Workspace, base: Path, tally: Tally
) -> None:
    assert tally("verify", "--views", "--json").json["views"]["sound"] is True
    path = base / "graph.db"
    path.write_bytes(path.read_bytes().replace(b"Quixotic", b"Quixotik"))
    assert tally("verify").code == 0
    outcome = tally("verify", "--views")
    assert outcome.code == 1
    assert "false: graph.db, table nodes 'roof': differs in attrs" in outcome.err
    assert "verify --views --repair" in outcome.out
    told = tally("verify", "--views", "--json").json
    assert (told["sound"], told["views"]["findings"][0]["key"]) == (False, "roof")
    assert "sql: compared at position 6, 1 difference, built again" in tally("verify", "--views", "--repair").out
    assert tally("verify", "--views").code == 0


def test_verify_tells_an_edit_and_calls_it_no_damage(workspace: workspaces.Workspace, base: Path, tally: Tally) -> None:
    (base / "_content" / "nodes" / "roof.md").write_text("Mend the roof tomorrow.")
    outcome = tally("verify", "--views", "--repair")
    assert outcome.code == 0
    assert "edited: _content/nodes/roof.md 'roof': edited by hand and not adopted yet" in outcome.out
    assert (base / "_content" / "nodes" / "roof.md").read_text() == "Mend the roof tomorrow."


def test_views_of_a_log_that_is_false_are_not_compared(
    workspace: workspaces.Workspace, base: Path, tally: Tally
) -> None:
    segment = next((base / "_system" / "log").glob("*.jsonl"))
    segment.write_bytes(segment.read_bytes().replace(b"Quixotic", b"Quixotik"))
    outcome = tally("verify", "--views", "--repair", "--json")
    assert outcome.code == 1
    assert "views" not in outcome.json


def test_the_doctor_finds_a_sound_memory_sound(sample: Tally) -> None:
    assert sample("doctor").code == 0
    found = sample("doctor", "--json").json
    assert found["sound"] is True
    told = {finding["what"]: finding for finding in found["findings"]}
    assert told["position"]["found"].startswith("12 (12 commits)")
    assert {finding["status"] for finding in found["findings"]} == {"good"}


def test_the_doctor_sees_that_the_end_is_missing(sample: Tally, base: Path) -> None:
    segment = next((base / "_system" / "log").glob("*.jsonl"))
    segment.write_bytes(b"".join(segment.read_bytes().splitlines(keepends=True)[:-1]))
    outcome = sample("doctor")
    assert outcome.code == 1
    assert "missing" in outcome.out
    assert "corrupt-log" in outcome.out


def test_the_doctor_refuses_a_log_that_verify_refuses(sample: Tally, base: Path) -> None:
    segment = next((base / "_system" / "log").glob("*.jsonl"))
    lines = segment.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b'"actor":"', b'"actor":"z', 1)
    segment.write_bytes(b"".join(lines))
    outcome = sample("doctor", "--json")
    assert (outcome.code, sample("verify").code) == (1, 1)
    told = {finding["what"]: finding for finding in outcome.json["findings"]}["lines"]
    assert (told["status"], "line 4" in told["found"]) == ("bad", True)


def test_the_doctor_says_how_much_of_a_large_log_it_read(sample: Tally, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallystick.operations.doctor._PROVEN_BYTES_MAX", 100)
    told = {finding["what"]: finding for finding in sample("doctor", "--json").json["findings"]}["lines"]
    assert "only the last one" in told["found"]
    assert "tallystick verify" in told["advice"]


@pytest.mark.parametrize(
    ("leave", "what"),
    [
        (lambda system: (system / "log" / "00000000000000000001.jsonl.torn-x-1").write_bytes(b"half"), "torn pieces"),
        (lambda system: (system / "importing-x").mkdir(), "import"),
        (lambda system: (system / "redaction.pending").write_bytes(b"{}"), "redaction"),
    ],
)
def test_the_doctor_tells_what_lies_about(
    sample: Tally, base: Path, leave: Callable[[Path], object], what: str
) -> None:
    leave(base / "_system")
    outcome = sample("doctor", "--json")
    assert outcome.code == 0
    odd = [finding for finding in outcome.json["findings"] if finding["status"] == "odd"]
    assert [finding["what"] for finding in odd] == [what]
    assert odd[0]["advice"]


def test_the_doctor_tells_whether_vectors_are_there(sample: Tally, monkeypatch: pytest.MonkeyPatch) -> None:
    def told() -> list[dict[str, Any]]:
        findings: list[dict[str, Any]] = sample("doctor", "--json").json["findings"]
        return [each for each in findings if each["what"] == "vectors"]

    assert told() == []
    monkeypatch.setenv("TALLYSTICK_VECTORS", "true")
    monkeypatch.setattr(model, "is_installed", lambda: True)
    assert told()[0]["found"] == "on: 0 of 0 texts have one"
    monkeypatch.setattr(model, "is_installed", lambda: False)
    assert (told()[0]["status"], "tallystick[vectors]" in told()[0]["advice"]) == ("bad", True)


def test_the_log_is_not_shown_where_it_was_altered(sample: Tally, base: Path) -> None:
    segment = next((base / "_system" / "log").glob("*.jsonl"))
    count = len(sample("log", "--json").lines)
    segment.write_bytes(segment.read_bytes().replace(b'"attrs":{', b'"attrz":{', 1))
    altered = sample("log", "--json", "--limit", "100")
    assert altered.code == 1
    assert "content_hash" in altered.err
    # Nor anything behind it: the store answers from no log that is false anywhere.
    behind = sample("log", "--json", "--limit", count - 1)
    assert (behind.code, behind.out, "line 1" in behind.err) == (1, "", True)


def test_a_projection_that_stands_still_is_told_by_the_doctor_and_by_verify_and_mended(
    sample: Tally, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unable(self: SqlProjection, entries: object, head: Head) -> None:
        raise TypeError("what somebody wrote")

    rebuild(base, lambda: FilesLog(base / "_system"), "sql")
    append(FilesLog(base / "_system"), draft(node("late")))
    follower = ProjectionWorker(
        LogReader(lambda: FilesLog(base / "_system")), SqlProjection(base / "graph.db"), lock=lock_of(base, "sql")
    )
    with monkeypatch.context() as bug:
        bug.setattr(SqlProjection, "apply", unable)
        with pytest.raises(TypeError):
            follower.catch_up()
        follower.close()
        stuck = sample("verify", "--views", "--repair")
        assert stuck.code != 0
        assert "cannot show what was committed behind position 0" in stuck.err
    told = sample("doctor")
    assert told.code == 1
    assert "stands still at position 0: a bug of ours: TypeError" in told.out
    assert "verify --views --repair" in told.out
    assert "stands still" in sample("verify", "--views").err
    assert sample("verify", "--views", "--repair").code == 0
    assert (sample("verify", "--views").code, sample("doctor").code) == (0, 0)


def test_the_doctor_changes_nothing(tally: Tally, base: Path) -> None:
    assert tally("doctor").code == 0
    assert not base.exists()


def test_the_doctor_names_who_writes(sample: Tally, base: Path) -> None:
    log = FilesLog(base / "_system")
    assert log.claim(timeout_seconds=timeouts.SECONDS)
    try:
        told = {f["what"]: f["found"] for f in sample("doctor", "--json").json["findings"]}
    finally:
        log.release()
        log.close()
    assert "held by" in told["lock"]
    if sys.platform == "linux":
        assert str(os.getpid()) in told["lock"]


def test_a_snapshot_is_written_and_seen(sample: Tally) -> None:
    file = Path(sample("snapshot", "--json").json["file"])
    assert file.exists()
    told = {f["what"]: f["found"] for f in sample("doctor", "--json").json["findings"]}
    assert file.name in told["snapshot"]


def test_what_lies_beside_the_log_is_brought_to_its_end(sample: Tally, base: Path) -> None:
    (only,) = sample("catch-up", "text", "--json").json
    assert (only["projection"], only["commits"], only["position"]) == ("text", 12, 12)
    assert not (base / "graph.db").exists()
    told = {each["projection"]: each["commits"] for each in sample("catch-up", "--json").json}
    assert told == {"views": 12, "sql": 12, "text": 0}
    assert "12" in sample("catch-up").out
    assert sample("verify", "--views").code == 0


# -- export and import


def test_an_export_imported_into_an_empty_base_is_the_same_log(sample: Tally, base: Path, tmp_path: Path) -> None:
    assert sample("export", "backup.jsonl").code == 0
    assert sample("import", "backup.jsonl", "--base", "restored", "--json").json["commits"] == 12
    assert _bytes_of_log(tmp_path / "restored") == _bytes_of_log(base)
    assert sample("verify", "--base", "restored").code == 0
    assert sample("show", "ada", "--base", "restored").out == sample("show", "ada").out
    line = json.dumps({"op": "UPSERT_NODE", "node": {"id": "z", "type": "T", "attrs": {}}})
    assert sample("import", "-", "--base", "restored", stdin=line).code == 0
    assert sample("verify", "--base", "restored", "--json").json["commits"] == 13


def test_an_import_reads_a_pipe_that_has_a_name(tally: Tally, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    line = json.dumps({"op": "UPSERT_NODE", "node": {"id": "ada", "type": "Person", "attrs": {}}})
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=(line,))
    writer.start()
    assert tally("import", tmp_path / "pipe", "--json").json["commits"] == 1
    writer.join()


@pytest.mark.parametrize("name", ["loop", "file/below", "x" * 300, "gone", "."])
def test_an_import_of_what_cannot_be_opened_names_it(tally: Tally, tmp_path: Path, name: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    refused = tally("import", tmp_path / name)
    assert (refused.code, "FILE_UNREADABLE" in refused.err) == (2, True), refused.err


def test_what_an_export_is_called_may_be_any_bytes(sample: Tally, tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    assert sample("export", tmp_path / name).code == 0
    assert sample("import", tmp_path / name, "--base", "restored").code == 0
    assert sample("redactions", "--json").code == 0
    told = sample("export", "--as", "vault", tmp_path / f"vault-{name}", "--json")
    assert (told.code, told.json["path"]) == (0, str(tmp_path / f"vault-{name}"))


@pytest.mark.parametrize("option", ["--prefix", "--project"])
def test_what_an_import_is_told_to_name_things_by_is_utf_8(tally: Tally, tmp_path: Path, option: str) -> None:
    (tmp_path / "memory.jsonl").touch()
    refused = tally("import", "--from", "server-memory", tmp_path, option, os.fsdecode(b"caf\xe9"))
    assert (refused.code, "not UTF-8" in refused.err) == (2, True), refused.err


def test_an_import_from_another_program_reads_no_standard_input(tally: Tally) -> None:
    assert "not standard input" in tally("import", "--from", "beads", "-", stdin="{}").err


def test_an_export_goes_through_pipes(sample: Tally, base: Path, tmp_path: Path) -> None:
    exported = sample("export")
    assert exported.out.encode() == _bytes_of_log(base)
    assert sample("import", "-", "--base", "restored", stdin=exported.out).code == 0
    assert _bytes_of_log(tmp_path / "restored") == _bytes_of_log(base)


def test_an_export_keeps_redactions_provable(sample: Tally) -> None:
    redact = {"op": "REDACT_NODE", "node_id": "grace", "reason": "asked for", "redacted_fields": ["attrs.name"]}
    assert sample("import", "-", stdin=json.dumps(redact)).code == 0
    exported = sample("export").out
    assert '"name":"Grace"' not in exported
    assert sample("import", "-", "--base", "restored", stdin=exported).code == 0
    assert sample("verify", "--base", "restored", "--json").json["redacted"] == 1


def test_what_a_killed_import_left_is_removed_by_the_next_one(sample: Tally, tmp_path: Path) -> None:
    assert sample("export", "backup.jsonl").code == 0
    system = tmp_path / "restored" / "_system"
    for name in ("importing-dead", "importing-alive"):
        (system / name / "log").mkdir(parents=True)
    alive = os.open(system / "importing-alive", os.O_RDONLY)
    fcntl.flock(alive, fcntl.LOCK_EX)
    assert sample("import", "backup.jsonl", "--base", "restored").code == 0
    os.close(alive)
    assert [path.name for path in system.glob("importing-*")] == ["importing-alive"]


def test_a_damaged_export_imports_nothing(sample: Tally, tmp_path: Path) -> None:
    lines = sample("export").out.splitlines(keepends=True)
    damaged = {
        "changed": "".join(lines).replace("on call", "on cell"),
        "removed": "".join(lines[:5] + lines[6:]),
        "swapped": "".join([lines[1], lines[0], *lines[2:]]),
        "cut": "".join(lines)[:-30],
    }
    for how, text in damaged.items():
        outcome = sample("import", "-", "--base", how, stdin=text)
        assert (how, outcome.code) == (how, 1)
        assert "nothing was imported" in outcome.err
        assert _bytes_of_log(tmp_path / how) == b""
        assert list((tmp_path / how / "_system").glob("importing-*")) == []


def test_an_exact_import_refuses_a_base_that_is_not_empty(sample: Tally, base: Path) -> None:
    exported = sample("export").out
    before = _bytes_of_log(base)
    outcome = sample("import", "-", stdin=exported)
    assert outcome.code == 4
    assert "NOT_EMPTY" in outcome.err
    assert "--replay" in outcome.err
    assert _bytes_of_log(base) == before


def test_a_replay_adds_commits_once_and_keeps_who_and_why(sample: Tally) -> None:
    exported = sample("export").out
    line = json.dumps({"op": "UPSERT_NODE", "node": {"id": "own", "type": "T", "attrs": {}}})
    assert sample("import", "-", "--base", "other", stdin=line).code == 0
    first = sample("import", "-", "--base", "other", "--replay", "--json", stdin=exported).json
    again = sample("import", "-", "--base", "other", "--replay", "--json", stdin=exported).json
    assert (first["commits"], first["duplicates"]) == (12, 0)
    assert (again["commits"], again["duplicates"]) == (0, 12)
    commit = sample("log", "--base", "other", "--json", "--actor", "ada").lines[-1]
    assert (commit["reason"], commit["operation"]) == ("agreed in review", "UPSERT_NODE")
    assert sample("show", "own", "--base", "other").code == 0


def test_a_replay_repeats_deletes_and_redactions(sample: Tally) -> None:
    more = [
        {"op": "DELETE_NODE", "node_id": "grace"},
        {"op": "REDACT_NODE", "node_id": "ada", "reason": "asked for"},
        {"op": "DELETE_EDGE", "edge": {"from": "billing", "rel": "depends_on", "to": "ledger-db"}},
    ]
    assert sample("import", "-", stdin="\n".join(map(json.dumps, more))).code == 0
    exported = sample("export").out
    assert sample("import", "-", "--base", "other", "--replay", stdin=exported).code == 0
    assert sample("show", "grace", "--base", "other").code == 3
    assert "[REDACTED]" in sample("show", "ada", "--base", "other").out
    assert sample("verify", "--base", "other").code == 0


def test_an_export_of_another_tenant_is_not_mixed_in(sample: Tally) -> None:
    outcome = sample("import", "-", "--tenant", "acme", stdin=sample("export").out)
    assert outcome.code == 4
    assert "OTHER_TENANT" in outcome.err


def test_an_import_merges_and_writes_several_together(tally: Tally) -> None:
    nodes = [json.loads(line) for line in _nodes(2)]
    edge = {"op": "UPSERT_EDGE", "edge": {"from": "n0", "rel": "r", "to": "n1"}}
    patch = {"op": "PATCH_NODE", "node": {"id": "n0", "attrs": {"y": 2}}}
    lines = [{"ops": [*nodes, edge]}, patch]
    assert tally("import", "-", "--json", stdin="\n".join(map(json.dumps, lines))).json["commits"] == 4
    assert tally("show", "n0", "--json").json["entity"]["attrs"] == {"y": 2}
    absent = {"op": "DELETE_NODE", "node_id": "absent"}
    outcome = tally("import", "-", stdin=json.dumps({"ops": [{**nodes[0], "op": "UPSERT_NODE"}, absent]}))
    assert (outcome.code, "line 1: ops[1]: no node 'absent'" in outcome.err) == (3, True)
    assert len(tally("log", "--json").lines) == 4


def test_an_import_stops_at_the_line_that_is_refused(tally: Tally) -> None:
    good = _nodes(6)
    bad = {
        "not JSON": "{",
        "not an object": "[]",
        "a key twice": '{"op": "DELETE_NODE", "node_id": "n0", "node_id": "n1"}',
        "an integer that no double is": (
            '{"op": "UPSERT_NODE", "node": {"id": "n", "type": "T", "attrs": {"id": 100000000000000000001}}}'
        ),
        "unknown op": '{"op": "PUT"}',
        "refused by the tool, before the store": '{"op": "REDACT_NODE", "node_id": "n0"}',
        "refused by the tool for its size": json.dumps(
            {"op": "UPSERT_NODE", "node": {"id": "big", "type": "T", "attrs": {"text": "x" * (1 << 20)}}}
        ),
        "edge to nowhere": '{"op": "UPSERT_EDGE", "edge": {"from": "n0", "rel": "r", "to": "nowhere"}}',
    }
    for how, line in bad.items():
        outcome = tally("import", "-", "--base", how, stdin="\n".join([*good[:3], line, *good[3:]]))
        assert (how, outcome.code in (2, 3, 6)) == (how, True)
        assert "line 4" in outcome.err
        assert "3 commits before it" in outcome.err
        assert len(tally("log", "--base", how, "--json").lines) == 3


def test_an_import_stops_at_the_line_that_is_denied(tally: Tally, base: Path, tmp_path: Path) -> None:
    rule = tmp_path / "policy.rego"
    rule.write_text(
        'package mine\nimport rego.v1\ndefault decision := true\ndecision := false if input.resource == "n3"\n'
    )
    base.mkdir()
    (base / "tallystick.toml").write_text(f'policy = "{rule}"\n')
    outcome = tally("import", "-", stdin="\n".join(_nodes(6)))
    assert outcome.code == 5
    assert "line 4" in outcome.err
    assert len(tally("log", "--json").lines) == 3


def test_an_import_stops_at_the_line_that_is_refused_after_it_was_drafted(tally: Tally) -> None:
    """The ontology is asked last."""
    assert tally("ontology", "use", "gtd").code == 0
    before = len(tally("log", "--json").lines)
    edge = json.dumps({"op": "UPSERT_EDGE", "edge": {"from": "n0", "rel": "DependsOn", "to": "n1"}})
    outcome = tally("import", "-", stdin="\n".join([*_nodes(3), edge, *_nodes(6)]))
    assert outcome.code == 4, outcome.err
    assert "line 4" in outcome.err
    assert len(tally("log", "--json", "--limit", 1000).lines) == before + 3


def _nodes(number: int) -> list[str]:
    nodes = ({"id": f"n{i}", "type": "T", "attrs": {}} for i in range(number))
    return [json.dumps({"op": "UPSERT_NODE", "node": node}) for node in nodes]


def test_an_export_does_not_replace_a_file_unasked(sample: Tally, tmp_path: Path) -> None:
    (tmp_path / "backup.jsonl").write_text("precious")
    assert sample("export", "backup.jsonl").code == 4
    assert (tmp_path / "backup.jsonl").read_text() == "precious"
    assert sample("export", "backup.jsonl", "--force").code == 0
    assert len((tmp_path / "backup.jsonl").read_text().splitlines()) == 12


def test_a_failed_export_leaves_no_file_that_looks_whole(sample: Tally, base: Path, tmp_path: Path) -> None:
    segment = next((base / "_system" / "log").glob("*.jsonl"))
    segment.write_bytes(segment.read_bytes().replace(b"on call", b"on cell"))
    assert sample("export", "backup.jsonl").code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["memory"]


def _bytes_of_log(base: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((base / "_system" / "log").glob("*.jsonl")))


# -- as processes


def _start(*arguments: str, **kwargs: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tallystick", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **kwargs,
    )


def test_the_log_is_followed_until_interrupted(sample: Tally, base: Path) -> None:
    with _start("log", "-f", "--limit", "1", "--base", str(base)) as following:
        assert following.stdout is not None
        assert "works_on" in following.stdout.readline()
        log = FilesLog(base / "_system")
        append(log, draft(node("seen", a=1)), draft(node("too", a=1)))
        log.close()
        assert "seen (note)" in following.stdout.readline()
        assert "too (note)" in following.stdout.readline()
        following.send_signal(signal.SIGINT)
        assert following.wait() == cli.EXIT_INTERRUPTED
        assert following.stderr is not None
        assert following.stderr.read() == ""


def test_a_reader_that_has_seen_enough_is_no_error(base: Path) -> None:
    log = FilesLog(base / "_system")
    append(log, *(draft(node(f"n{i}", text="x" * 2000)) for i in range(200)))
    log.close()
    with _start("export", "--base", str(base)) as exporting:
        assert exporting.stdout is not None
        exporting.stdout.readline()
        exporting.stdout.close()
        assert exporting.wait() == 0
        assert exporting.stderr is not None
        assert exporting.stderr.read() == ""


@pytest.mark.parametrize("words", [["search", "--type", "Task"], ["tenants", "list"], ["backup", "status"]])
def test_a_reader_that_is_gone_before_the_first_line_is_no_error_either(
    sample: Tally, base: Path, words: list[str]
) -> None:
    read, write = os.pipe()
    os.close(read)
    left = subprocess.run(
        [sys.executable, "-m", "tallystick", *words, "--base", str(base)], stdout=write, stderr=-1, check=False
    )
    os.close(write)
    assert (left.returncode, b"rror" in left.stderr) == (0, False), left.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_is_no_bug_and_gets_no_file_of_the_memory(
    tally: Tally, base: Path, closed: str
) -> None:
    program = f'"{sys.executable}" -m tallystick remember something --base "{base}" {closed}'
    assert subprocess.run(["sh", "-c", program], check=False).returncode == 0
    assert tally("verify").code == 0


def test_serve_over_http_tells_where_and_how_to_connect(base: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with _start("serve", "--http", f"127.0.0.1:{port}", "--next-free-port", "--base", str(base)) as serving:
            assert serving.stderr is not None
            told = "".join(serving.stderr.readline() for _ in range(5))
            serving.send_signal(signal.SIGTERM)
            assert serving.wait() == 0
    assert f"127.0.0.1:{port}/" not in told
    assert "claude mcp add --transport http tallystick http://127.0.0.1:" in told
    assert '{"mcpServers"' in told
    assert re.search(r"page +http://127\.0\.0\.1:\d+/$", told, re.MULTILINE)


def test_a_taken_port_is_told_with_what_to_do(base: Path, tally: Tally) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        outcome = tally("serve", "--http", f"127.0.0.1:{taken.getsockname()[1]}")
    assert outcome.code == 2
    assert "ADDRESS_REFUSED" in outcome.err
    assert "--next-free-port" in outcome.err


def test_serve_imports_no_table_drawing(base: Path) -> None:
    watch = (
        "import sys; sys.argv = ['tallystick', 'serve']; from tallystick import app, cli;"
        "heavy = {'rich', 'uvicorn', 'starlette'};"
        "app.serve_stdio = lambda settings: print(sorted(heavy & set(sys.modules))); cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", watch], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# -- the parts


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        ("localhost", ("localhost", 8765)),
        (":9000", ("127.0.0.1", 9000)),
        ("9000", ("127.0.0.1", 9000)),
        ("[::1]:9000", ("::1", 9000)),
        ("[::1]", ("::1", 8765)),
    ],
)
def test_an_address_may_be_written_in_several_ways(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["127.0.0.1:http", "127.0.0.1:99999", "a:b:c"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_address(text)


def test_a_free_port_is_found_after_taken_ones() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert port < find_free_port("127.0.0.1", port) <= port + 50


@pytest.mark.parametrize(
    ("terms", "arguments"),
    [
        ([], {}),
        (["Task"], {"query": "Task"}),
        (["what", "about", "billing?"], {"query": "what about billing?"}),
        (["what about billing?", "a=1"], {"query": "what about billing?", "attrs": {"a": {"eq": 1}}}),
        (["a=1"], {"attrs": {"a": {"eq": 1}}}),
        (['a="1"'], {"attrs": {"a": {"eq": "1"}}}),
        (["a=one two"], {"attrs": {"a": {"eq": "one two"}}}),
        (["a=x=y"], {"attrs": {"a": {"eq": "x=y"}}}),
        (["a>1", "a<=5"], {"attrs": {"a": {"gt": 1, "lte": 5}}}),
        (["a=true", "b!=null"], {"attrs": {"a": {"eq": True}, "b": {"ne": None}}}),
        (["a.b~^x.*=y$"], {"attrs": {"a.b": {"regex": "^x.*=y$"}}}),
        (["a?"], {"attrs": {"a": {"exists": True}}}),
        (['a=["x",2]'], {"attrs": {"a": {"in": ["x", 2]}}}),
    ],
)
def test_typed_filters_become_arguments(terms: list[str], arguments: dict[str, Any]) -> None:
    assert parse_terms(terms) == arguments


def test_a_moment_is_a_number_only_when_it_looks_like_one() -> None:
    moments = [None, "41", "2026-03-01", "ab" * 32, "1" * 64, "1" * 12]
    assert [parse_moment(text) for text in moments] == [None, 41, *moments[2:]]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[FilesLog]:
    opened = FilesLog(tmp_path / "_system", segment_bytes_max=2000)
    yield opened
    opened.close()
