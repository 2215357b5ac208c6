"""Export in the forms of other programs: what is in it, at which moment, and how it comes to lie under its name."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from tallystick.errors import Conflict, InvalidArgument, LimitExceeded, NotFound
from tallystick.extension import installed
from tallystick.extensions.exporters import exporting, server_memory, vault
from tallystick.extensions.exporters.directory import MARKER
from tests.command_line import CommandLine, edge, node
from tests.extensions.exporters.exports import body, exported, front_matter, losses, notes
from tests.extensions.importers.imports import count, tool
from tests.mcp_client import call, connect
from tests.promises import promise


@pytest.fixture
def shell(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "base")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "out"


def entities(path: Path) -> dict[str, Any]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {each["name"]: each["observations"] for each in lines if each["type"] == "entity"}


FILES = [form.name for form in installed().forms() if not form.is_directory and not form.needs_project]
DIRECTORIES = [form.name for form in installed().forms() if form.is_directory]


def said_in(path: Path) -> str:
    files = [path] if path.is_file() else [each for each in sorted(path.rglob("*")) if each.is_file()]
    return "".join(f"{each}\n{each.read_text()}" for each in files)


@promise("export-trust", "the redacted stays so, the recalled says so, the deleted is not there, in every form")
@pytest.mark.parametrize("form", FILES + DIRECTORIES)
def test_the_redacted_stays_so_the_recalled_says_so_and_the_deleted_is_not_there(
    shell: CommandLine, target: Path, form: str
) -> None:
    shell.write(
        node("kept", secret="hunter2", other="visible"),
        node("gone", text="deleted words"),
        node("wrong", text="a rumour"),
        edge("kept", "near", "gone"),
        edge("kept", "near", "wrong"),
        {"op": "DELETE_NODE", "node_id": "gone"},
        {"op": "REDACT_NODE", "node_id": "kept", "redacted_fields": ["attrs.secret"], "reason": "asked for"},
    )
    commit = tool(shell, "memory.lineage", entity_id="wrong")["lineage"][0]["commit_id"]
    shell.run("recall", "--commit", commit, "--hops", "0", "--reason", "made up", "--yes")
    report = exported(shell, form, target)
    said = said_in(target)
    assert "hunter2" not in said
    assert "visible" in said
    assert "[REDACTED]" in said
    assert "deleted words" not in said
    assert "made up" in said
    assert "trust/" not in said
    assert losses(report)["recalls"] == "left out: what they name says so itself"
    assert (report["entities"], report["edges"]) == (2, 1)


def test_a_recalled_note_says_so_to_people_and_programs(shell: CommandLine, tmp_path: Path) -> None:
    shell.write(node("wrong", text="a rumour"))
    commit = tool(shell, "memory.lineage", entity_id="wrong")["lineage"][0]["commit_id"]
    shell.run("recall", "--commit", commit, "--reason", "made *up*", "--yes")
    for form in DIRECTORIES:
        exported(shell, form, tmp_path / form)
        path = tmp_path / form / "note" / "wrong.md"
        assert front_matter(path)["untrusted"]["reason"] == "made *up*"
        assert "> **Recalled**, not to be relied upon: made \\*up\\*" in body(path)


@promise("export-as-of", "a moment of the past is exported as it was")
@pytest.mark.parametrize("form", FILES + DIRECTORIES)
def test_a_moment_of_the_past_is_exported_as_it_was(shell: CommandLine, target: Path, form: str) -> None:
    shell.write(node("a", text="first words"), node("b"), edge("a", "near", "b"))
    shell.write(node("a", text="second words"), {"op": "DELETE_NODE", "node_id": "b"}, node("later"))
    report = exported(shell, form, target, "--as-of", "3")
    assert (report["position"], report["entities"], report["edges"]) == (3, 2, 1)
    said = said_in(target)
    assert "first words" in said
    assert "second words" not in said
    assert "later" not in said


def test_a_moment_that_never_was_is_refused_and_leaves_nothing(shell: CommandLine, tmp_path: Path) -> None:
    shell.write(node("a"))
    for form in ("vault", "graphml"):
        with pytest.raises(InvalidArgument, match="beyond the head"):
            exported(shell, form, tmp_path / "out", "--as-of", "99")
    assert [path.name for path in tmp_path.iterdir() if "out" in path.name] == []


@promise("export-losses", "what a form cannot hold is listed with how often and examples")
def test_one_type_alone_and_edges_to_others_are_told(shell: CommandLine, target: Path) -> None:
    shell.write(node("a", "T"), node("b", "T"), node("c", "U"), edge("a", "r", "b"), edge("a", "r", "c"))
    report = exported(shell, "server-memory", target, "--type", "T")
    assert list(entities(target)) == ["a", "b"]
    assert (report["types"], report["edges"]) == ({"T": 2}, 1)
    (told,) = [each for each in report["losses"] if each["what"] == "edge"]
    assert (told["count"], told["examples"]) == (1, ["a|r|c"])
    with pytest.raises(NotFound, match="nothing of type 'V'"):
        exported(shell, "server-memory", target, "--type", "V", "--force")


@promise("export-project", "one project alone is exported with what hangs on it")
def test_one_project_alone_with_what_hangs_on_it(shell: CommandLine, target: Path) -> None:
    for project in ("bridge", "tunnel"):
        root = tool(shell, "graph_open", project=project, goal=f"Build the {project}")["root"]["id"]
        tool(shell, "graph_plan", nodes=[{"ref": "x", "parent_ref": root, "summary": f"Survey the {project}"}])
    shell.write(node("note", "note", text="Unrelated"), node("part", "section", entityId=root))
    exported(shell, "server-memory", target, "--project", "Tunnel")
    said = target.read_text()
    assert "Survey the tunnel" in said
    assert '"name":"part"' in said
    assert "bridge" not in said
    assert "Unrelated" not in said


async def _documents(base: Path) -> list[str]:
    near = {"name": "Near", "from_types": ["Doc"], "to_types": ["Doc"]}
    binary = {"content": "/wD/", "encoding": "base64"}
    made: list[str] = []
    async with connect(base, "--toolsets", "ontology") as client:
        await call(client, "create_ontology", node_types=["Doc"], connection_types=[near])
        for each in ({"content": "# Long\n\nThe body"}, {"content": "x" * 300_000}, binary):
            node = await call(client, "create_node", type="Doc", format="markdown", properties={}, **each)
            made.append(node["node_id"])
        said = {"properties": {}, "content": "why they are near"}
        await call(client, "create_connection", type="Near", from_node_id=made[0], to_node_id=made[1], **said)
    return made


def test_contents_beside_the_attributes_are_kept_and_what_is_no_text_is_told(shell: CommandLine, target: Path) -> None:
    ids = anyio.run(_documents, shell.base)
    report = exported(shell, "vault", target, "--type", "Doc")
    found = {front_matter(path)["permalink"]: path for path in notes(target).values()}
    assert body(found[ids[0]]).startswith("\n# Long\n\nThe body\n")
    assert "x" * 300_000 in body(found[ids[1]])
    (relation,) = front_matter(found[ids[0]])["relations"]
    assert (relation["to"], relation["content"]) == (ids[1], "why they are near")
    (told,) = [each for each in report["losses"] if each["what"] == "content"]
    assert told["examples"] == [ids[2]]


def test_an_export_reads_in_slices_and_writes_nothing_to_the_memory(
    shell: CommandLine, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "_AT_ONCE", 2)
    shell.write(*(node(f"n{number}") for number in range(7)), *(edge(f"n{number}", "r", "n0") for number in range(7)))
    before = count(shell)
    report = exported(shell, "server-memory", target)
    assert list(entities(target)) == [f"n{number}" for number in range(7)]
    assert report["edges"] == 7
    assert count(shell) == before


def test_a_slice_that_takes_too_long_is_read_one_by_one(
    shell: CommandLine, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = exporting._Reader._read

    def slow(self: Any, state: Any, read_filter: Any, ids: list[str]) -> Any:
        if len(ids) > 1 and "n2" in ids:
            raise LimitExceeded("the question took longer than 1 s", code="QUERY_TIMEOUT")
        return (yield from read(self, state, read_filter, ids))

    monkeypatch.setattr(exporting._Reader, "_read", slow)
    shell.write(*(node(f"n{number}") for number in range(5)))
    exported(shell, "server-memory", target)
    assert list(entities(target)) == [f"n{number}" for number in range(5)]


# -- where it lies


@pytest.mark.parametrize("form", DIRECTORIES)
def test_a_directory_that_is_not_empty_is_left_alone(shell: CommandLine, target: Path, form: str) -> None:
    shell.write(node("a"))
    target.mkdir()
    exported(shell, form, target)  # An empty one is taken.
    with pytest.raises(Conflict, match="is not empty") as refused:
        exported(shell, form, target)
    assert "--force" in str(refused.value.hint)
    shell.write(node("b"), {"op": "DELETE_NODE", "node_id": "a"})
    exported(shell, form, target, "--force")
    assert "note/b.md" in notes(target)
    assert "note/a.md" not in notes(target)
    assert [path.name for path in target.parent.iterdir() if path.name.startswith(".out")] == []


@promise("export-foreign-directory", "force replaces no directory that is not an export")
def test_force_replaces_no_directory_that_is_not_an_export(shell: CommandLine, target: Path) -> None:
    shell.write(node("a"))
    target.mkdir()
    (target / "mine.md").write_text("years of notes")
    with pytest.raises(Conflict, match="left alone"):
        exported(shell, "vault", target, "--force")
    assert os.listdir(target) == ["mine.md"]


def test_a_file_that_is_there_is_replaced_only_by_force(shell: CommandLine, target: Path) -> None:
    shell.write(node("a"))
    target.write_text("mine")
    for form in (*FILES, *DIRECTORIES):
        with pytest.raises(Conflict):
            exported(shell, form, target)
    assert target.read_text() == "mine"
    exported(shell, "server-memory", target, "--force")
    assert list(entities(target)) == ["a"]


@promise("export-whole", "an export that ends early leaves what was there")
@pytest.mark.parametrize(("form", "module"), [("vault", vault), ("server-memory", server_memory)])
def test_one_that_ends_early_leaves_what_was_there(
    shell: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, module: Any
) -> None:
    shell.write(node("a"))
    exported(shell, form, tmp_path / "out")
    before = said_in(tmp_path / "out")
    shell.write(node("b"))

    def interrupted(self: Any, entity: Any) -> None:
        raise RuntimeError("in between")

    monkeypatch.setattr(module._Writer, "add", interrupted)
    for target in ("out", "new"):
        with pytest.raises(RuntimeError, match="in between"):
            exported(shell, form, tmp_path / target, "--force")
    assert said_in(tmp_path / "out") == before
    assert not (tmp_path / "new").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_link_to_a_directory_is_followed_and_kept(shell: CommandLine, tmp_path: Path) -> None:
    shell.write(node("a"))
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    exported(shell, "vault", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / MARKER).exists()


def test_a_place_that_cannot_be_written_is_named(shell: CommandLine, tmp_path: Path) -> None:
    shell.write(node("a"))
    for form in ("vault", "server-memory"):
        with pytest.raises(InvalidArgument, match="cannot write") as refused:
            exported(shell, form, tmp_path / "missing" / "out")
        assert refused.value.code == "FILE_UNWRITABLE"


# -- the command


def test_a_file_goes_to_standard_output_and_what_is_said_about_it_does_not(shell: CommandLine) -> None:
    shell.write(node("a", n=1))
    outcome = shell.run("export", "--as", "server-memory")
    assert outcome.lines == [{"type": "entity", "name": "a", "entityType": "note", "observations": ["n: 1"]}]
    assert "attribute that is no text × 1: written as JSON in an observation (a)" in outcome.err
    assert "1 entity and 0 edges at position 1" in outcome.err
    with pytest.raises(InvalidArgument, match="TARGET is missing"):
        shell.run("export", "--as", "vault")
    with pytest.raises(InvalidArgument, match="--json needs a TARGET"):
        shell.run("export", "--as", "graphml", "--json")


def test_a_form_alone_lists_them_and_a_wrong_one_is_put_right(shell: CommandLine) -> None:
    listed = [each["name"] for each in shell.run("export", "--json", "--as").json]
    assert listed == ["okf", "vault", "server-memory", "graphml", "mermaid"]
    assert "server-memory" in shell.run("export", "--as").out
    with pytest.raises(NotFound, match="there is no form 'grafml'") as refused:
        shell.run("export", "--as", "grafml")
    assert refused.value.hint == "did you mean 'graphml'?"


@pytest.mark.parametrize("option", [("--as-of", "1"), ("--project", "x"), ("--type", "x"), ("--json",)])
def test_what_goes_with_a_form_alone_is_refused_without(shell: CommandLine, option: tuple[str, ...]) -> None:
    shell.write(node("a"))
    with pytest.raises(InvalidArgument, match="needs --as"):
        shell.run("export", *option)
