"""The command line for people who have no agent at hand: status, remember, ask, work, and what the shell offers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tallystick.log.files import FilesLog
from tallystick.projections.consistency_check import rebuild
from tallystick.projections.registry import by_default
from tests.command_line import CommandLine, CommandResult
from tests.mcp_client import clean_environ
from tests.promises import promise


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    for name in ("TALLYSTICK_AGENT", "GRAPH_AGENT"):
        monkeypatch.delenv(name, raising=False)
    shop = tmp_path / "shop"
    (shop / "src").mkdir(parents=True)
    (shop / "src" / "cart.py").write_text("total = 0\n")
    identity = ["-c", "user.name=ada", "-c", "user.email=ada@example.org"]
    for words in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=shop, check=True)
    monkeypatch.chdir(shop)
    return CommandLine(tmp_path / "memory")


def done(answer: CommandResult) -> CommandResult:
    assert answer.code == 0, answer.err
    return answer


def offered(memory: CommandLine, line: str) -> list[str]:
    """What the shell shows after Tab."""
    words = line.split(" ")
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_TALLYSTICK_COMPLETE": "complete_bash"}
    answer = subprocess.run(
        [Path(sys.executable).with_name("tallystick")],
        env={**clean_environ(), "BASE_PATH": str(memory.base), **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.stderr == ""
    return answer.stdout.split()


def test_alone_it_says_how_to_begin_and_makes_nothing(memory: CommandLine) -> None:
    said = done(memory.main()).out
    assert all(step in said for step in ("tallystick init", "tallystick remember", "tallystick import --from"))
    assert not memory.base.exists()


@promise("people, alone", "the command alone says how to begin, and what is here")
def test_alone_it_says_what_is_here(memory: CommandLine) -> None:
    done(memory.main("remember", "a refund is never retried", "--type", "Rule"))
    done(memory.main("remember", "the cart is locked", "--paths", "src/*.py"))
    said = done(memory.main()).out
    assert "1 Rule" in said
    assert "shop" in said, "the project that was made for the files of this directory"
    assert done(memory.main("status", "--json")).json["position"] == 4


@promise("people, remember and ask", "what a person remembers is found with who said so")
def test_what_a_person_remembers_is_found_with_who_said_so(memory: CommandLine) -> None:
    done(memory.main("remember", "a refund", "is never retried", "--reason", "incident 12"))
    said = done(memory.main("ask", "what about", "refunds")).out
    assert "a refund is never retried" in said
    assert "by default-agent" in said


def test_the_same_text_is_the_same_entity(memory: CommandLine) -> None:
    first, second = (done(memory.main("remember", "we use Stripe", "--json")).json["id"] for _ in range(2))
    assert first == second
    assert first.startswith("we-use-stripe-")


@pytest.mark.parametrize("more", [[], ["--paths", "src/**"]])
def test_nothing_is_no_thing_to_remember(memory: CommandLine, more: list[str]) -> None:
    refused = memory.main("remember", " ", *more)
    assert refused.code == 2
    assert "tallystick remember '" in refused.err
    assert not memory.base.exists()


def test_a_relation_that_is_found_is_named(memory: CommandLine) -> None:
    done(memory.main("remember", "Billing", "--id", "billing", "--type", "Service"))
    done(memory.main("remember", "never retry", "--id", "rule", "--about", "billing"))
    assert "rule|about|billing" in done(memory.main("ask", "billing")).out.splitlines()


def test_text_without_a_letter_has_a_name_too(memory: CommandLine) -> None:
    assert done(memory.main("remember", "“…”", "--json")).json["id"].startswith("note-")


def test_what_it_is_about_is_linked(memory: CommandLine) -> None:
    done(memory.main("remember", "Billing", "--id", "billing", "--type", "Service"))
    note_id = done(memory.main("remember", "never retry", "--about", "billing", "--json")).json["id"]
    assert "→ about billing" in done(memory.main("show", note_id)).out


@promise("people, did you mean", "an entity that is misspelt is hinted at and nothing is written")
def test_an_entity_that_is_misspelt_is_hinted_at_and_nothing_is_written(memory: CommandLine) -> None:
    done(memory.main("remember", "Billing", "--id", "billing"))
    refused = memory.main("remember", "never retry", "--about", "bilings")
    assert refused.code == 3
    assert "did you mean billing" in refused.err
    assert done(memory.main("status", "--json")).json["position"] == 1


@promise("people, files", "knowledge of files is told when they are asked about")
def test_knowledge_of_files_is_told_when_they_are_asked_about(memory: CommandLine) -> None:
    done(memory.main("remember", "the cart is locked while it is paid for", "--paths", "src/**"))
    assert "locked while it is paid for" in done(memory.main("knowledge", "for", "src/cart.py")).out
    Path("src/cart.py").write_text("total = 1\n")
    assert "the cart is locked" in done(memory.main("knowledge", "stale")).out


def test_files_are_named_from_where_one_is(memory: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("src")
    made = done(memory.main("remember", "the cart is locked", "--paths", "cart.py", "--paths", "./c*", "--json")).json
    assert made["paths"] == ["src/cart.py", "src/c*"]
    for named in ("cart.py", "../src/cart.py", "src/cart.py"):
        assert "the cart is locked: src/cart.py" in done(memory.main("knowledge", "for", named)).out
    assert [each["project"] for each in done(memory.main("status", "--json")).json["projects"]] == ["shop"]


def test_a_pattern_that_fits_no_file_is_told(memory: CommandLine) -> None:
    made = done(memory.main("remember", "the cart is locked", "--paths", "srcc/**", "--paths", "src/**"))
    assert f"no file matches srcc/** yet: patterns are relative to {Path.cwd()}" in made.err
    assert "src/**" not in made.err
    assert "no file matches nowhere/**" in done(memory.main("remember", "b", "--paths", "nowhere/**")).err


def test_an_entity_and_files_are_not_said_at_once(memory: CommandLine) -> None:
    refused = memory.main("remember", "x", "--paths", "src/**", "--about", "billing")
    assert (refused.code, memory.base.exists()) == (2, False)


def test_work_alone_shows_who_works_on_what(memory: CommandLine) -> None:
    done(memory.main("remember", "the cart is locked", "--paths", "src/*.py"))
    said = done(memory.main("work", BASE_PATH=str(memory.base))).out
    assert "nobody works on anything" in said
    assert "q ends" not in said, "it has ended"


@promise("people, completion", "the shell offers ids, types, projects and open work")
def test_the_shell_offers_ids_types_projects_and_open_work(memory: CommandLine) -> None:
    done(memory.main("remember", "Billing", "--id", "billing", "--type", "Service"))
    done(memory.main("remember", "the cart is locked", "--paths", "src/*.py"))
    root = done(memory.main("work", "next", "--json")).json["nodes"][0]["node"]["id"]
    assert offered(memory, "tallystick show bil") == ["billing"]
    assert offered(memory, "tallystick search --type S") == ["Service"]
    assert offered(memory, "tallystick work tree s") == ["shop"]
    assert offered(memory, "tallystick work done ") == [root]
    assert offered(memory, "tallystick remember x --about bil") == ["billing"]


def test_the_shell_is_offered_nothing_where_there_is_no_memory(memory: CommandLine) -> None:
    assert offered(memory, "tallystick show bil") == []
    memory.base.write_text("no directory")
    assert offered(memory, "tallystick show bil") == []


@pytest.mark.parametrize("name", ["new\nline", os.fsdecode(b"caf\xe9")])
def test_a_repository_may_be_called_as_no_project_can_be(
    memory: CommandLine, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    shop = Path.cwd()
    monkeypatch.chdir(shop.rename(shop.with_name(name)))
    done(memory.main("remember", "the cart is locked", "--paths", "src/*.py"))
    assert repr(name)[1:-1] in done(memory.main("status")).out


def test_words_that_are_not_utf_8_are_told_as_that(memory: CommandLine) -> None:
    bytes_of_a_shell = os.fsdecode(b"caf\xe9")
    done(memory.main("remember", "the cart is locked", "--paths", "src/*.py"))
    for words in (["remember"], ["ask"], ["show"], ["search"], ["knowledge", "for"]):
        refused = memory.main(*words, bytes_of_a_shell)
        assert (refused.code, "not UTF-8" in refused.err) == (2, True), (words, refused.err)


@promise("people, base", "a base that is a file is told as that")
def test_a_base_that_is_a_file_is_told_as_that(memory: CommandLine) -> None:
    memory.base.write_text("no directory")
    for words in (["ask", "x"], ["remember", "x"], ["doctor"], ["status"]):
        refused = memory.main(*words)
        assert (refused.code, "BASE_UNUSABLE" in refused.err) == (2, True), refused.err
    assert memory.base.read_text() == "no directory"


@promise("people, read-only", "a read-only disk is told as that, and doctor works on it")
def test_words_that_cannot_be_looked_up_on_a_read_only_disk_are_told_as_that(small_disk: Path) -> None:
    memory = CommandLine(small_disk / "memory")
    memory.write({"op": "UPSERT_NODE", "node": {"id": "billing", "type": "Service", "attrs": {"name": "Billing"}}})
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    refused = memory.main("ask", "billing")
    assert (refused.code, "STORAGE_REFUSED" in refused.err) == (7, True), refused.err
    assert re.search("BAD +writable", memory.main("doctor").out)
    assert done(memory.main("show", "billing")).out.startswith("billing  Service")
    missing = memory.main("show", "bilings")
    assert (missing.code, "ENTITY_NOT_FOUND" in missing.err) == (3, True), missing.err


def test_doctor_looks_at_a_read_only_disk_where_a_server_was(small_disk: Path) -> None:
    """An auditor has a copy that nobody may change; what lies in it still says how it is."""
    subprocess.run(["mount", "-o", "remount,size=16m", small_disk], check=True)
    memory = CommandLine(small_disk / "memory")
    memory.write({"op": "UPSERT_NODE", "node": {"id": "billing", "type": "Service", "attrs": {"name": "Billing"}}})
    for name in by_default():
        rebuild(memory.base, lambda: FilesLog(memory.base / "_system"), name)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    found = memory.main("doctor")
    assert re.search("BAD +writable", found.out), found.err
    assert "not looked at" not in found.out
    assert done(memory.main("verify", "--views")).out.startswith("sound: 1 commit")
    assert "STORAGE_REFUSED" in memory.main("backup", f"file://{small_disk.parent / 'elsewhere'}").err


def test_the_man_page_speaks_of_every_command() -> None:
    page = (Path(__file__).parents[1] / "docs" / "man" / "tallystick.1").read_text("utf-8")
    assert ".SS remember\n" in page
    assert ".SS work done\n" in page
    lines = page.splitlines()
    requests = {line.split(" ")[0] for line in lines if line.startswith((".", "'"))}
    assert requests <= {".TH", ".SH", ".SS", ".B", ".I", ".TP", ".nf", ".fi", '.\\"'}, "text is no request"
