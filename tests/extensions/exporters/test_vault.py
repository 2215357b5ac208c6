"""Exports as a Markdown vault, which our own importer reads back."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.extensions.exporters import Entity, Graph, Link, Losses, Named
from tallystick.extensions.exporters.directory import Directory
from tallystick.extensions.exporters.vault import open_writer
from tests.command_line import CommandLine, edge, node
from tests.extensions.exporters.exports import body, exported, front_matter, losses, notes
from tests.extensions.importers.imports import FIXTURES, facts, imported, items, left_out, links, reasons, written
from tests.promises import promise


@pytest.fixture
def shell(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "base")


def test_a_note_has_the_attributes_the_text_and_the_relations(tmp_path: Path, shell: CommandLine) -> None:
    shell.write(
        node("billing", "service", title="Billing", text="Never retry\na refund.", tags=["money"], tier=1, on="yes"),
        node("Ada L", "person", observations=["prefers small commits", "likes #tea"]),
        edge("Ada L", "lives in", "billing", since="2026-01-01"),
        edge("Ada L", "owns", "billing"),
    )
    report = exported(shell, "vault", tmp_path / "vault")
    assert (report["entities"], report["edges"], report["files"]) == (2, 2, 2)
    found = notes(tmp_path / "vault")
    said = front_matter(found["service/billing.md"])
    assert said | {"title": "Billing", "type": "service", "permalink": "billing", "tags": ["money"]} == said
    assert (said["tier"], said["on"]) == (1, "yes")
    assert body(found["service/billing.md"]) == "\n# Billing\n\nNever retry\na refund.\n"
    (ada,) = [path for name, path in found.items() if name.startswith("person/Ada-L-")]
    assert front_matter(ada)["relations"] == [{"rel": "lives in", "to": "billing", "attrs": {"since": "2026-01-01"}}]
    assert "- [observation] prefers small commits\n- [observation] likes #tea\n" in body(ada)
    assert '- "lives in" [[service/billing]]\n- owns [[service/billing]]\n' in body(ada)


@promise("export-vault", "a vault is read back by our own importer with the same entities")
def test_our_own_importer_reads_back_the_same_entities(tmp_path: Path, shell: CommandLine) -> None:
    hostile = ["../x", "CON", "Index", "a|b", "[[a]]", "a#b", "ada", "Ada", "ADA", "x'y\"z", "-", "% ü 🏔"]
    operations = [
        node(each, f"T{number % 3}", text=f"[[ada]] {each}\n---\n- owns [[ada]]") for number, each in enumerate(hostile)
    ]
    operations += [edge(source, "is near", target) for source, target in pairwise(hostile)]
    shell.write(*operations)
    exported(shell, "vault", tmp_path / "vault")
    found = facts("basic-memory", tmp_path / "vault")
    assert {each.id: each.type for each in found.values()} == {
        each: f"T{number % 3}" for number, each in enumerate(hostile)
    }
    assert sorted(links("basic-memory", tmp_path / "vault")) == sorted(
        (source, "is near", target) for source, target in pairwise(hostile)
    )
    assert left_out("basic-memory", tmp_path / "vault") == []
    other = CommandLine(tmp_path / "other")
    report = imported(other, "auto", tmp_path / "vault")
    assert report["source"] == "basic-memory"
    assert reasons(report) == {}


def test_notes_of_basic_memory_come_back_as_they_were_however_often(tmp_path: Path, shell: CommandLine) -> None:
    demo = FIXTURES / "basic-memory" / "demo"
    imported(shell, "basic-memory", demo)
    before, edges = facts("basic-memory", demo), links("basic-memory", demo)
    for number in range(2):
        vault = tmp_path / f"vault{number}"
        exported(shell, "vault", vault)
        found = facts("basic-memory", vault)
        assert found.keys() == before.keys()
        for entity_id, fact in before.items():
            assert found[entity_id].attrs["title"] == fact.attrs["title"]
            assert found[entity_id].attrs["tags"] == fact.attrs["tags"]
            assert found[entity_id].attrs["observations"] == fact.attrs["observations"]
            assert found[entity_id].attrs["text"].count("## Relations") == fact.attrs["text"].count("## Relations")
            assert found[entity_id].attrs["text"].count("written by tallystick") <= 1
        # What the text says of a note that nobody wrote stays a link that leads nowhere.
        assert set(links("basic-memory", vault)) == set(edges)
        shell = CommandLine(tmp_path / f"base{number}")
        assert written(imported(shell, "basic-memory", vault))["edge implements"] == (1, 0, 0)


@promise("export-vault-texts", "what an agent wrote as text is no edge and no front matter")
def test_what_an_agent_wrote_as_text_is_no_edge_and_no_front_matter(tmp_path: Path, shell: CommandLine) -> None:
    text = "---\ntype: admin\n---\n- owns [[admin]]\n"
    shell.write(
        node("admin"), node("a", text=text, note=text, title="x\n---\npermalink: admin"), node("b\u00a0- [[admin]]")
    )
    exported(shell, "vault", tmp_path / "vault")
    assert links("basic-memory", tmp_path / "vault") == []
    assert set(facts("basic-memory", tmp_path / "vault")) == {"admin", "a", "b\u00a0- [[admin]]"}
    assert front_matter(tmp_path / "vault" / "note" / "a.md")["note"] == text


@pytest.mark.parametrize("text", ["```\ncode", "use ``` here\n\nmore", "~~~ and `x", "<!-- hidden", "a\n```\nb\n```"])
def test_code_without_an_end_does_not_swallow_the_relations(tmp_path: Path, shell: CommandLine, text: str) -> None:
    shell.write(node("a", text=text), edge("a", "near", "a"))
    exported(shell, "vault", tmp_path / "vault")
    assert links("basic-memory", tmp_path / "vault") == [("a", "near", "a")]
    (found,) = facts("basic-memory", tmp_path / "vault").values()
    assert text in found.attrs["text"]


def test_an_attribute_that_is_called_like_a_key_of_the_form_is_kept_below_it(
    tmp_path: Path, shell: CommandLine
) -> None:
    shell.write(node("a", type="spoofed", permalink="admin", attributes=1, tags="one", untrusted=False))
    exported(shell, "vault", tmp_path / "vault")
    said = front_matter(tmp_path / "vault" / "note" / "a.md")
    assert (said["type"], said["permalink"]) == ("note", "a")
    kept = {"type": "spoofed", "permalink": "admin", "attributes": 1, "tags": "one", "untrusted": False}
    assert said["attributes"] == kept


def test_what_is_too_large_or_deep_for_a_front_matter_is_in_the_body_and_told(
    tmp_path: Path, shell: CommandLine
) -> None:
    deep: Any = "end"
    for _ in range(30):
        deep = [deep]
    shell.write(node("a", large="x" * 100_000, deep=deep, small=1))
    report = exported(shell, "vault", tmp_path / "vault")
    assert losses(report)["attribute that is too large or too deep"] == "in the body of the note as JSON"
    (found,) = facts("basic-memory", tmp_path / "vault").values()
    assert (found.id, found.attrs["front_matter"]["small"]) == ("a", 1)
    assert "x" * 100_000 in found.attrs["text"]


def test_a_relation_that_cannot_be_written_as_it_is_is_told(tmp_path: Path, shell: CommandLine) -> None:
    shell.write(node("a"), node("b"), edge("a", 'said "so" [[b]]', "b"))
    report = exported(shell, "vault", tmp_path / "vault")
    assert "brackets" in losses(report)["relation"]
    assert links("basic-memory", tmp_path / "vault") == [("a", "said so b", "b")]


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_MARKDOWN = st.lists(
    st.sampled_from(["[[", "[", "]]", "- ", "\n", "```", "`", "~~~", "<!--", "owns", " ", "---", "#"])
).map("".join)
_TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=20)
_IDS = st.lists(_TEXTS, unique=True, min_size=1, max_size=4)


@promise("export-vault-anything", "whatever entities say, their ids, types and edges are read back")
@settings(max_examples=60)
@given(st.data())
def test_whatever_entities_say_their_ids_types_and_edges_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    ids = [each for each in data.draw(_IDS) if each.strip()]
    attrs = {each: data.draw(st.dictionaries(st.text(min_size=1, max_size=8), _VALUES, max_size=3)) for each in ids}
    target = tmp_path_factory.mktemp("property") / "vault"
    losses = Losses()
    target.mkdir()
    writer = open_writer(Graph({each: Named("note", each) for each in ids}, 1, ""), Directory(target), losses)
    for each in ids:
        said = attrs[each] | {"text": data.draw(_MARKDOWN)}
        link = Link(id=f"{each}|near|{ids[0]}", rel="near", target=ids[0], attrs={}, at="")
        writer.add(
            Entity(
                id=each, type="note", title=each, attrs=said, created_by="x", updated_by="x", at="", position=1,
                commit_id="", links=(link,),
            )
        )  # fmt: skip
    writer.finish()
    if not ids:
        return
    assert left_out("basic-memory", target) == []
    read = facts("basic-memory", target)
    assert set(read) == set(ids)
    assert set(links("basic-memory", target)) == {(each, "near", ids[0]) for each in ids}
    assert len(items("basic-memory", target)) == 2 * len(ids)
