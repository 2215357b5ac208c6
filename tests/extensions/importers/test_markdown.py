"""Imports of Markdown notes: those of basic-memory, and any vault with wiki links."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.command_line import CommandLine
from tests.extensions.importers.imports import FIXTURES, count, facts, imported, left_out, links, reasons, written
from tests.promises import promise

DEMO = FIXTURES / "basic-memory" / "demo"


@pytest.fixture
def shell(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "base")


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    (tmp_path / "vault").mkdir()
    return tmp_path / "vault"


@promise("import-basic-memory", "notes of basic-memory keep their observations and relations")
def test_what_basic_memory_wrote_has_its_observations_and_relations() -> None:
    refunds = facts("basic-memory", DEMO)["demo/specs/refunds"]
    assert (refunds.type, refunds.attrs["title"], refunds.attrs["tags"]) == ("note", "Refunds", ["billing", "money"])
    assert refunds.attrs["observations"] == [
        {
            "category": "rule",
            "text": "never retry a refund #billing",
            "context": "from incident 12",
            "tags": ["billing"],
        },
        {"category": "decision", "text": "use Stripe"},
        {"category": "Note", "text": "plain with #tag", "tags": ["tag"]},
    ]
    assert links("basic-memory", DEMO) == [
        ("demo/specs/refunds", "implements", "demo/specs/billing-spec"),
        ("demo/specs/refunds", "based on", "Customer Interview"),
        ("demo/specs/refunds", "links_to", "demo/specs/billing-spec"),
    ]


def test_a_relation_to_a_note_that_is_not_written_yet_is_told_and_imported_once_it_is(
    tmp_path: Path, shell: CommandLine, vault: Path
) -> None:
    (vault / "a.md").write_text("---\npermalink: v/a\n---\n- needs [[B]]\n")
    report = imported(shell, "auto", vault)
    assert report["source"] == "basic-memory"
    assert reasons(report) == {"v/a → B": "no node 'B'"}
    (vault / "b.md").write_text("---\ntitle: B\npermalink: v/b\n---\n")
    assert written(imported(shell, "basic-memory", vault)) == {"node note": (1, 0, 1), "edge needs": (1, 0, 0)}
    assert count(shell) == 3


@promise("import-markdown", "a vault is notes and links, by path, title or name")
def test_a_vault_is_notes_and_links_by_path_title_or_name(shell: CommandLine, vault: Path) -> None:
    (vault / "deep").mkdir()
    (vault / "deep" / "B.md").write_text("# The second\n\nback to [[a|the first]], [[A#part]] and `[[no link]]`\n")
    (vault / "a.md").write_text("---\ncreated: 2026-01-02\nauthor: Ada\n---\nto [[deep/B]], [[b]] and [[the second]]\n")
    (vault / ".obsidian").mkdir()
    (vault / ".obsidian" / "x.md").write_text("settings")
    found = facts("markdown", vault)
    assert sorted(found) == ["vault/a", "vault/deep/B"]
    assert found["vault/deep/B"].attrs["title"] == "The second"
    assert found["vault/a"].origin.created == "2026-01-02"
    assert found["vault/a"].origin.author == "Ada"
    assert links("markdown", vault) == [
        ("vault/a", "links_to", "vault/deep/B"),
        ("vault/deep/B", "links_to", "vault/a"),
    ]
    assert written(imported(shell, "auto", vault)) == {"node note": (2, 0, 0), "edge links_to": (2, 0, 0)}


def test_a_name_that_two_notes_have_leads_to_neither(vault: Path) -> None:
    for place in ("one", "two"):
        (vault / place).mkdir()
        (vault / place / "same.md").write_text("x")
    (vault / "a.md").write_text("[[same]] [[one/same]]")
    assert links("markdown", vault) == [("vault/a", "links_to", "same"), ("vault/a", "links_to", "vault/one/same")]


@promise("import-hostile", "a hostile front matter is told, and harms nothing")
@pytest.mark.parametrize(
    ("head", "reason"),
    [
        ("a: &x [1]\nb: *x", "aliases"),
        ("a: " + "[" * 200 + "]" * 200, "nested deeper"),
        ("a: !!python/object/apply:os.system [echo]", "could not determine a constructor"),
        ("a: " + "x" * 70_000, "more than 65,536 bytes"),
        ("- a\n- b", "has no keys"),
        ("a: 0x" + "f" * 10_000 + "\nb: '\x00'", "not YAML"),
        ("a: " + "9" * 5_000, "not YAML"),
        (r'"\ud800": 1', "a lone surrogate"),
        (r'title: "x\udc00"', "a lone surrogate"),
    ],
)
def test_a_hostile_front_matter_is_told_and_the_note_kept(vault: Path, head: str, reason: str) -> None:
    (vault / "a.md").write_text(f"---\n{head}\n---\nbody")
    ((what, told),) = left_out("markdown", vault)
    assert what == "front matter"
    assert reason in told
    assert facts("markdown", vault)["vault/a"].attrs["text"].endswith("body")


def test_values_that_json_has_not_become_texts(vault: Path, shell: CommandLine) -> None:
    head = "day: 2026-01-02\nat: 2026-01-02T03:04:05Z\nbig: 99999999999999999999\nnil: .nan\n1: one\nset: !!set {a, b}"
    (vault / "a.md").write_text(f"---\n{head}\n---\n[[a]]")
    assert facts("markdown", vault)["vault/a"].attrs["front_matter"] == {
        "day": "2026-01-02",
        "at": "2026-01-02T03:04:05Z",
        "big": "99999999999999999999",
        "nil": "nan",
        "1": "one",
        "set": ["a", "b"],
    }
    assert written(imported(shell, "markdown", vault))["node note"] == (1, 0, 0)


@promise("import-outside", "what leads outside or round in circles is not followed")
def test_what_leads_outside_or_round_is_not_followed(vault: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("secret")
    (vault / "a.md").write_text("x")
    os.symlink(vault, vault / "loop")
    os.symlink(tmp_path / "secret.md", vault / "b.md")
    os.mkfifo(vault / "pipe.md")
    (vault / "bytes.md").write_bytes(b"\xff\xfe")
    (vault / "huge.md").write_bytes(b"x" * (1 << 20) + b"y")
    assert sorted(facts("markdown", vault)) == ["vault/a"]
    assert dict(left_out("markdown", vault)) == {
        "b.md": "a symbolic link is not followed",
        "bytes.md": "not UTF-8 at byte 0",
        "huge.md": "it has more than 1,048,576 bytes",
        "loop": "a symbolic link is not followed",
        "pipe.md": "it is not a regular file",
    }


def test_a_file_whose_name_is_not_utf_8_is_told_and_the_others_are_imported(vault: Path, shell: CommandLine) -> None:
    (vault / "a.md").write_text("x")
    (vault / os.fsdecode(b"\xff.md")).write_text("[[a]]")
    (vault / os.fsdecode(b"\xfe.md")).write_bytes(b"\xff")
    for options in (("--dry-run",), ()):
        report = imported(shell, "markdown", vault, *options)
        assert written(report) == {"node note": (1, 0, 0)}
        assert reasons(report) == {
            r"\udcfe.md": "not UTF-8 at byte 0",
            r"vault/\udcff": "it, or the name of its file, is not UTF-8",
            r"vault/\udcff → vault/a": "it, or the name of its file, is not UTF-8",
        }


def test_a_vault_whose_name_is_not_utf_8_is_told(tmp_path: Path, shell: CommandLine) -> None:
    place = tmp_path / os.fsdecode(b"\xff")
    place.mkdir()
    (place / "a.md").write_text("x")
    assert list(reasons(imported(shell, "markdown", place))) == [r"\udcff/a"]
