"""Imports from server-memory, of files that it wrote and of files that somebody spoiled."""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import CommandLine
from tests.extensions.importers.fixtures.make import INSTALLED, make_server_memory
from tests.extensions.importers.imports import FIXTURES, facts, imported, json_lines, left_out, links, written
from tests.promises import promise


@pytest.fixture
def shell(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "base")


def entity(name: str, *observations: str, kind: str = "service") -> dict[str, Any]:
    return {"type": "entity", "name": name, "entityType": kind, "observations": list(observations)}


def test_an_entity_is_a_node_and_a_relation_is_an_edge() -> None:
    path = FIXTURES / "server-memory"
    billing = facts("server-memory", path)["billing"]
    assert billing.type == "service"
    assert billing.attrs["observations"] == ["never retry a refund", "uses Stripe", "ledger is append-only"]
    assert links("server-memory", path) == [("Ada", "owns", "billing"), ("Ada", "lives in", "Zürich 🏔")]
    assert left_out("server-memory", path) == []


@promise("import-server-memory", "what server-memory writes today is imported whole")
@pytest.mark.skipif(not INSTALLED, reason="'make test' installs server-memory")
def test_what_server_memory_writes_today_is_imported_whole(tmp_path: Path, shell: CommandLine) -> None:
    make_server_memory(tmp_path)
    report = imported(shell, "auto", tmp_path / "memory.jsonl")
    assert report["source"] == "server-memory"
    assert written(report) == {
        "node service": (1, 0, 0),
        "node person": (1, 0, 0),
        "node place": (1, 0, 0),
        "edge owns": (1, 0, 0),
        "edge lives in": (1, 0, 0),
    }
    assert report["unmapped"] == []
    shown = shell.run("show", "billing", "--json").json
    assert shown["entity"]["attrs"]["observations"][0] == "never retry a refund"


def test_a_relation_to_nobody_is_told_whatever_order_the_lines_have(tmp_path: Path, shell: CommandLine) -> None:
    relations = [{"type": "relation", "from": "a", "to": to, "relationType": "calls"} for to in ("b", "nobody")]
    path = json_lines(tmp_path / "memory.jsonl", [*relations, entity("a"), entity("b")])
    for options in (["--dry-run"], []):
        report = imported(shell, "server-memory", path, *options)
        assert written(report) == {"node service": (2, 0, 0), "edge calls": (1, 0, 0)}
        assert report["unmapped"] == [{"where": "memory.jsonl:2", "what": "a → nobody", "reason": "no node 'nobody'"}]


@promise("import-unmapped", "what cannot be mapped is listed line by line with a reason")
@pytest.mark.parametrize(
    ("line", "what", "reason"),
    [
        (b'{"type":"entity","name":"torn', '{"type":"entity","name":"torn', "the last line is not whole"),
        (b'{"type":"entity","name":"\xff\xfe"}\n', "{", "not JSON"),
        (b'["entity"]\n', '["entity"]', "not a JSON object"),
        (b'{"type":"entity","name":"x"}\n', "{'type': 'entity', 'name': 'x'}", "without name or entityType"),
        (b'{"type":"entity","name":"x","name":"y","entityType":"z"}\n', "{", "not JSON"),
        (b'{"type":"entity","name":"x","entityType":"z","observations":[1]}\n', "x", "not a list of texts"),
        (b'{"type":"memo"}\n', "memo", "neither an entity nor a relation"),
        (b'{"type":"relation","from":"billing"}\n', "{", "without from, to or relationType"),
        (b'{"x":"' + b"y" * (1 << 20) + b'"}\n', "{", "more than 1,048,576 bytes"),
    ],
)
def test_a_spoiled_line_is_told_and_the_others_are_imported(
    tmp_path: Path, shell: CommandLine, line: bytes, what: str, reason: str
) -> None:
    path = tmp_path / "memory.jsonl"
    path.write_bytes(json.dumps(entity("billing")).encode() + b"\n" + line)
    report = imported(shell, "server-memory", path)
    assert written(report) == {"node service": (1, 0, 0)}
    (told,) = report["unmapped"]
    assert told["where"] == "memory.jsonl:2"
    assert told["what"].startswith(what)
    assert reason in told["reason"]


def test_a_byte_order_mark_is_not_part_of_the_first_line(tmp_path: Path, shell: CommandLine) -> None:
    path = tmp_path / "memory.jsonl"
    path.write_bytes(BOM_UTF8 + json.dumps(entity("billing")).encode() + b"\r\n")
    report = imported(shell, "auto", path)
    assert (report["source"], written(report)) == ("server-memory", {"node service": (1, 0, 0)})
    assert report["unmapped"] == []


def test_a_field_that_nobody_knows_is_told(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "memory.jsonl", [entity("billing") | {"embedding": [1, 2]}])
    assert left_out("server-memory", path) == [("embedding", "no field of entity that is known")]
    assert list(facts("server-memory", path)) == ["billing"]


def test_a_name_that_is_no_id_is_told(tmp_path: Path, shell: CommandLine) -> None:
    path = json_lines(tmp_path / "memory.jsonl", [entity("x" * 257), entity("a\tb"), entity("billing")])
    report = imported(shell, "server-memory", path)
    assert written(report) == {"node service": (1, 0, 0)}
    assert [each["where"] for each in report["unmapped"]] == ["memory.jsonl:1", "memory.jsonl:2"]


def test_the_second_of_two_with_one_name_is_told(tmp_path: Path, shell: CommandLine) -> None:
    path = json_lines(tmp_path / "memory.jsonl", [entity("billing", "one"), entity("billing", "two")])
    report = imported(shell, "server-memory", path)
    assert [each["reason"] for each in report["unmapped"]] == ["another one before it has this id"]
    assert shell.run("show", "billing", "--json").json["entity"]["attrs"]["observations"] == ["one"]


def test_the_second_of_two_equal_relations_is_told(tmp_path: Path, shell: CommandLine) -> None:
    relation = {"type": "relation", "from": "a", "to": "a", "relationType": "calls"}
    path = json_lines(tmp_path / "memory.jsonl", [entity("a"), relation, relation])
    for options in (["--dry-run"], []):
        report = imported(shell, "server-memory", path, *options)
        assert written(report) == {"node service": (1, 0, 0), "edge calls": (1, 0, 0)}
        assert [each["reason"] for each in report["unmapped"]] == ["another one before it is the same"]
