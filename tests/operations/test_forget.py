"""Forgetting: attributes that are named after somebody, every tenant, whatever the policy, wherever graph.db lies."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any, Literal
from unicodedata import normalize

import pytest

from tallystick import app
from tallystick.commits import mask
from tallystick.config import load
from tallystick.errors import Denied
from tests.command_line import CommandLine, edge, node
from tests.test_erasure import found_in

ADA = "ada@example.org"


@pytest.fixture
def shell(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "memory")


def test_an_attribute_named_after_the_subject_goes_with_its_name_and_nothing_else_does(shell: CommandLine) -> None:
    shell.write(node("team", **{ADA: "writes", "bob@example.org": "reads"}), node("b"))
    shell.write(edge("team", "knows", "b", **{ADA: 1, "since": 2020}))
    shell.write(node("team", **{ADA: {"x": ADA}, "bob@example.org": "reads", "size": 2}))
    asyncio.run(_served_once(shell.base))
    told = shell.run("forget", "--subject", ADA, "--yes", "--json")
    assert (told.json["complete"], told.code) == (True, 0), told.json
    assert found_in(shell.base, ADA) == []
    answer = shell.run("show", "team", "--json").json["entity"]
    assert answer["attrs"] == {"bob@example.org": "reads", "size": 2}
    past = shell.run("show", "team", "--as-of", "1", "--json").json["entity"]
    assert past["attrs"] == {"bob@example.org": "reads"}
    assert shell.run("verify", "--views").code == 0
    with sqlite3.connect(shell.base / "graph.db") as db:
        assert json.loads(db.execute("SELECT attrs FROM edges").fetchone()[0]) == {"since": 2020}


async def _served_once(base: Path) -> None:
    async with app.served(load({"base": base, "toolsets": "all"}, environ={})):
        pass


@pytest.mark.parametrize(
    "person",
    [
        node("p-7", name="Ada Example", phone="555 0199"),
        node("person/ada-example", phone="555 0199"),
        node("p-7", "person", **{"Full name": "Ada Example"}, phone="555 0199"),
        node("p-7", "person", names=["A.", "Ada Example"], phone="555 0199"),
        node("p-7", "person", title="Ada Example", phone="555 0199"),
    ],
)
def test_every_attribute_of_what_is_the_person_is_listed_and_goes(shell: CommandLine, person: dict[str, Any]) -> None:
    entity = person["node"]["id"]
    shell.write(person)
    shell.write(node(entity, name="somebody", fax="555 0200", address={"street": "1 Elm Way"}))
    shell.write(node("task-1", title="call Ada Example back", phone="555 0300"))
    found = shell.run("forget", "--subject", "Ada Example", "--json").json
    planned = {plan["entity"]: set(plan["fields"]) for plan in found["to_redact"]}
    assert {"attrs.phone", "attrs.fax", "attrs.address"} <= planned[entity]
    assert planned["task-1"] == {"attrs.title"}
    told = shell.run("forget", "--subject", "Ada Example", "--yes", "--json").json
    assert [row["refused"] for row in told["redacted"]] == [None, None], told
    for text in ("555 0199", "555 0200", "1 Elm Way"):
        assert found_in(shell.base, text) == []
    assert shell.run("show", "task-1", "--json").json["entity"]["attrs"]["phone"] == "555 0300"
    assert (told["complete"], told["not_erased"] == []) == ((True, True) if entity == "p-7" else (False, False))


@pytest.mark.parametrize("given", ["NFC", "NFD"])
def test_composed_and_decomposed_letters_are_the_same(shell: CommandLine, given: Literal["NFC", "NFD"]) -> None:
    for form in ("NFC", "NFD"):
        name = normalize(form, "Zoë Müller")
        shell.write(node(f"person-{form}", name=name, phone="555 0199"), node(f"note-{form}", text=f"call {name} back"))
    told = shell.run("forget", "--subject", normalize(given, "ZOË MÜLLER"), "--yes", "--json").json
    assert {row["entity"] for row in told["redacted"]} == {"person-NFC", "note-NFC", "person-NFD", "note-NFD"}
    assert told["complete"]
    assert found_in(shell.base, "555 0199") == []


def test_a_name_and_a_content_that_name_the_subject_go_both(shell: CommandLine) -> None:
    letter = node("letter", **{ADA: "reads", "n": 1})
    letter["node"]["attrs"]["text"] = "x" * 200
    shell.write(letter, node("letter", **{ADA: "reads", "mail": ADA}))
    told = shell.run("forget", "--subject", ADA, "--whole", "--yes", "--json").json
    assert [row["fields"][0][:6] for row in told["redacted"]] == ["attrs#", "attrs"]
    assert (told["complete"], found_in(shell.base, ADA)) == (True, [])


@pytest.mark.parametrize("name", ["Tim", "Per", "Ash"])
def test_a_name_that_is_a_part_of_our_own_words_is_forgotten(shell: CommandLine, name: str) -> None:
    shell.write(node("x", said=f"{name} was here"))
    asyncio.run(_served_once(shell.base))
    told = shell.run("forget", "--subject", name, "--yes", "--json")
    assert (told.json["files_that_still_name_it"], told.json["complete"], told.code) == ([], True, 0)
    assert len(told.json["redacted"][0]["commit_id"]) == 64


def test_where_other_words_are_in_the_way_it_is_said_what_tells_them_apart(shell: CommandLine) -> None:
    shell.write(node("edges", said="Ed was here"))
    told = shell.run("forget", "--subject", "Ed", "--yes")
    assert (told.code, "--whole-words" in told.err) == (1, True), told.err


def test_a_tag_finds_one_name_among_many_and_confirms_no_guess() -> None:
    names = [f"name {number}" for number in range(500)]
    (tag,) = mask.paths_of([mask.tag_name("name 7", names)]) or []
    left = mask.redact_attributes(dict.fromkeys(names, 1), [tag])
    assert names[:7] + names[8:] == list(left)
    assert isinstance(tag, mask.NameTag)
    assert len(tag.tag) * 4 == 16


def test_every_tenant_is_looked_at_unless_one_is_named(shell: CommandLine) -> None:
    for tenant in ("default", "acme", "zeta"):
        shell.write(node("ada", mail=ADA), node("bob", mail="bob@example.org"), tenant=tenant)
    found = shell.run("forget", "--subject", ADA, "--json").json["to_redact"]
    assert [row["tenant"] for row in found] == ["default", "acme", "zeta"]
    report = shell.run("forget", "--subject", ADA, "--yes", "--json").json
    assert [(log["tenant"], log["is_sound"]) for log in report["logs"]] == [
        ("default", True), ("acme", True), ("zeta", True),
    ]  # fmt: skip
    assert (report["complete"], found_in(shell.base, ADA)) == (True, [])
    assert len(found_in(shell.base, "bob@example.org")) >= 3


def test_tenants_are_looked_at_where_there_is_no_default_memory(shell: CommandLine) -> None:
    shell.write(node("ada", mail=ADA), tenant="acme")
    assert shell.run("forget", "--subject", ADA, "--yes", "--json").json["complete"]
    assert found_in(shell.base, ADA) == []


@pytest.mark.parametrize("policy", ["rbac", "closed"])
def test_the_operator_forgets_whatever_the_policy_says(
    shell: CommandLine, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    shell.write(node("ada", mail=ADA))
    monkeypatch.setenv("TALLYSTICK_POLICY", policy)
    with pytest.raises(Denied):
        shell.run("show", "ada")
    report = shell.run("forget", "--subject", ADA, "--yes", "--json").json
    assert ([row["refused"] for row in report["redacted"]], report["complete"]) == ([None], True)


def test_a_database_elsewhere_stays_that_of_one_tenant_and_is_searched_too(
    shell: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere.db"
    monkeypatch.setenv("GRAPH_DB", str(elsewhere))
    shell.write(node("ours", mail=ADA))
    shell.write(node("theirs", mail=ADA), tenant="acme")
    asyncio.run(_served_once(shell.base))
    assert ADA.encode() in elsewhere.read_bytes()
    assert shell.run("forget", "--subject", ADA, "--yes", "--json").json["complete"]
    with sqlite3.connect(elsewhere) as db:
        assert [row[0] for row in db.execute("SELECT id FROM nodes")] == ["ours"]
    assert ADA.encode() not in elsewhere.read_bytes()
    (tmp_path / "elsewhere.db-copy").write_text(ADA)
    monkeypatch.setattr("tallystick.operations.leftover_scan._PATIENCE_SECONDS", 0.0)
    left = shell.run("forget", "--subject", ADA, "--yes", "--json").json["files_that_still_name_it"]
    assert left == [str(tmp_path / "elsewhere.db-copy")]
