"""Erasure: what was forgotten is in no byte below the base, and what cannot be forgotten is said."""

from __future__ import annotations

import asyncio
import fcntl
import gzip
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import zlib
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager, suppress
from errno import EACCES
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from unicodedata import normalize

import msgspec
import pytest
from pydantic import BaseModel

from tallystick import app
from tallystick.app.tenant_projections import AllProjections
from tallystick.commits import Commit, Draft, Operation, Verb
from tallystick.config import Settings, load
from tallystick.errors import Conflict, InvalidArgument, NotFound, StorageRefused
from tallystick.log import Head
from tallystick.log.files import FilesLog
from tallystick.operations.leftover_scan import holds
from tallystick.operations.snapshot import take_snapshot
from tallystick.policy import Principal
from tallystick.server import Offer
from tallystick.server.dispatch import prepare
from tallystick.state.mentions import Mention, Subject, Unread, find_mentions
from tallystick.toolsets import knowledge
from tests.command_line import CommandLine, edge, node
from tests.commits_by_hand import append, draft, entries
from tests.promises import promise

WORD = "Qz7731Xyzzy"
TAG = WORD.lower()
SECRET = f'Zsófia "Zsó" {WORD}'
"""With letters and signs that JSON, paths and base64 spell otherwise."""

GZIP = b"\x1f\x8b\x08"

Call = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
def shell(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "memory")


@pytest.fixture
def settings(shell: CommandLine) -> Settings:
    return load({"base": shell.base, "toolsets": "all"}, environ={})


def found_in(base: Path, word: str = WORD) -> list[str]:
    """Every file with the word in it, in any spelling; looked for without the code under test."""
    needles = {word.lower().encode(spelling) for spelling in ("utf-8", "utf-16-le", "utf-16-be")}
    encoded = {b64encode(b"x" * before + text.encode())[4:-4] for before in range(3) for text in (word, word.lower())}
    return sorted(
        str(path.relative_to(base))
        for path in base.rglob("*")
        if path.is_file()
        for data in _unpacked(path.read_bytes())
        if any(needle in data.lower() for needle in needles) or any(needle in data for needle in encoded)
    )


def _unpacked(data: bytes) -> Iterator[bytes]:
    """As it is, and what is in every gzip stream that begins anywhere in it."""
    yield data
    at = data.find(GZIP)
    while at >= 0:
        with suppress(zlib.error):
            yield zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(data[at:])
        at = data.find(GZIP, at + 1)


# -- everywhere


async def _memory(call: Call) -> None:
    for attrs in ({"name": SECRET}, {"name": "x", "deep": {"list": [{"mail": SECRET}]}}, {"tags": ["a", SECRET]}):
        await call("memory.write", op="UPSERT_NODE", node={"id": "person", "type": "Person", "attrs": attrs})
    for name in ("gone", "kept"):
        await call("memory.write", op="UPSERT_NODE", node={"id": name, "type": "note", "attrs": {"text": SECRET}})
    await call("memory.write", op="DELETE_NODE", node_id="gone")
    # Long enough not to be indexed as a value, and twice in one line.
    long = {"text": f"{SECRET} " * 40, "n": 1}
    await call("memory.write", op="UPSERT_NODE", node={"id": "long", "type": "note", "attrs": long})
    notes: tuple[dict[str, Any], ...] = ({"note": SECRET}, {"note": "x", "said": [{"by": SECRET}]})
    for attrs in notes:
        for named in ({}, {"id": "chosen"}):
            joined: dict[str, Any] = {"from": "person", "rel": "knows", "to": "long", "attrs": attrs, **named}
            await call("memory.write", op="UPSERT_EDGE", edge=joined)
    await call("memory.write", op="DELETE_EDGE", edge_id="chosen")
    several = (
        {"op": "UPSERT_NODE", "node": {"id": "one", "type": "note", "attrs": {"text": SECRET}}},
        {"op": "PATCH_NODE", "node": {"id": "kept", "attrs": {"more": SECRET}}},
        {"op": "UPSERT_EDGE", "edge": {"from": "one", "rel": "knows", "to": "kept", "attrs": {"note": SECRET}}},
    )
    await call("memory.write", ops=list(several))


async def _work(call: Call) -> None:
    opened = await call("graph_open", project="shop", goal=f"sell things to {SECRET}")
    planned = await call(
        "graph_plan",
        nodes=[
            {
                "ref": "a",
                "parent_ref": opened["root"]["id"],
                "summary": f"call {SECRET}",
                "properties": {"who": SECRET},
                "context_links": [f"notes/{WORD}.md"],
            },
            {"ref": "b", "parent_ref": opened["root"]["id"], "summary": "nothing", "depends_on": ["a"]},
        ],
    )
    node_id = planned["created"][0]["id"]
    evidence = [{"type": f"note of {WORD}", "ref": f"{SECRET} said yes"}]
    update = {"node_id": node_id, "resolved": True, "state": {"said": SECRET}, "add_evidence": evidence}
    more = {"summary": f"called {SECRET}", "properties": {"whom": SECRET}}
    await call("graph_update", updates=[update | more | {"add_context_links": [f"letters/{WORD}.md"]}])


async def _ontology(call: Call) -> None:
    answers = {"name": "Answers", "from_types": ["Letter"], "to_types": ["Letter"], "required_properties": []}
    await call("create_ontology", node_types=["Letter"], connection_types=[answers])
    plain = {"type": "Letter", "content": "x", "encoding": "utf-8", "format": "text"}
    ends = [(await call("create_node", **plain))["node_id"] for _ in range(2)]
    for content in (f"{SECRET} answers.", f"{'x' * 300_000} {SECRET}", "x"):
        said = {"properties": {"because": SECRET}, "content": content}
        made = await call("create_connection", type="Answers", from_node_id=ends[0], to_node_id=ends[1], **said)
    await call("delete_connection", connection_id=made["connection_id"])
    binary = b64encode(b"\x89PNG\0\xff" + SECRET.encode() + bytes(range(256))).decode()
    for content, encoding, format_ in (
        (f"Dear {SECRET},", "utf-8", "markdown"),
        (f"{'x' * 300_000} {SECRET}", "utf-8", "text"),
        (binary, "base64", "png"),
    ):
        made = await call(
            "create_node", type="Letter", content=content, encoding=encoding, format=format_, properties={"to": SECRET}
        )
        if format_ == "markdown":
            await call("update_node", node_id=made["node_id"], content="Dear nobody,", encoding="utf-8")
    again = {"content": f"Dear {SECRET} again,", "properties": {"to": f"again {SECRET}"}}
    await call("update_node", node_id=made["node_id"], encoding="utf-8", format="text", **again)
    made = await call("create_connection", type="Answers", from_node_id=ends[1], to_node_id=ends[0])
    await call("update_connection", connection_id=made["connection_id"], **again)
    await call("search_content", query=WORD)


async def _knowledge(call: Call) -> None:
    """In the project that the work is of, for one of its tasks."""
    project, task = [
        (await call("memory.search", type=kind, limit=1, fields=["type"]))["entities"][0]["id"]
        for kind in ("work/project", "work/node")
    ]
    about = {"projectId": project, "createdByTaskId": task, "name": SECRET, "knowledge": SECRET}
    made = await call("manage_graph", operation="create", entityType="molecule", **about)
    molecule = made["data"]["molecule"]["id"]
    atom = {"paths": [f"src/{WORD}/**"], "moleculeId": molecule}
    made = await call("manage_graph", operation="create", entityType="atom", **about, **atom)
    related = {"relatedAtoms": [{"atomId": made["data"]["atom"]["id"], "reason": SECRET}]}
    await call("manage_graph", operation="create", entityType="atom", **about, **atom, **related)
    related = {"relatedMolecules": [{"moleculeId": molecule, "reason": SECRET}]}
    await call("manage_graph", operation="create", entityType="molecule", **about, **related)
    entry = {"parentType": "molecule", "parentId": molecule, "taskId": task, "summary": SECRET}
    await call("manage_changelog", operation="append", **entry)


async def _tasks(call: Call) -> None:
    project = (await call("memory.search", type="work/project", limit=1, fields=["type"]))["entities"][0]["id"]
    said = {"summary": SECRET, "description": SECRET, "tags": [TAG]}
    await call("manage_container", operation="create", containerType="project", name=SECRET, **said)
    about = {**said, "title": SECRET, "priority": "HIGH", "complexity": 3, "projectId": project}
    made = await call("manage_container", operation="create", containerType="task", **about)
    task = made["data"]["task"]["id"]
    section = {"title": SECRET, "usageDescription": SECRET, "content": SECRET, "tags": [TAG]}
    of_task = {"entityType": "TASK", "entityId": task}
    await call("manage_sections", operation="add", **of_task, **section)
    await call("manage_sections", operation="bulkCreate", **of_task, sections=[section])
    await call("block", id=task, containerType="task", version=1, blockedBy=["NO_OP"], blockedReason=SECRET)
    template = {"name": SECRET, "description": SECRET, "createdBy": SECRET, "targetEntityType": "TASK", "tags": [TAG]}
    made = await call("manage_template", operation="create", **template)
    sample = {"title": SECRET, "usageDescription": SECRET, "contentSample": SECRET}
    await call("manage_template", operation="addSection", id=made["data"]["template"]["id"], **sample)
    await call("rename_tag", oldTag=TAG, newTag=f"{TAG}-too")


async def _files(call: Call) -> None:
    """The contents of nodes: plain files are in nobody's log."""
    said = {"content": "Dear nobody,", "encoding": "utf-8", "format": "markdown"}
    path = f"_content/nodes/{(await call('create_node', type='Letter', **said))['node_id']}.md"
    await call("str_replace", path=path, old_str="nobody", new_str=SECRET)
    await call("insert", path=path, insert_line=1, insert_text=f"{SECRET} sends this")
    await call("str_replace", path=path, old_str=f"{SECRET} sends this", new_str="nobody sends this")


WRITERS: dict[str, Callable[[Call], Awaitable[None]]] = {
    "memory": _memory,
    "work": _work,
    "ontology": _ontology,
    "knowledge": _knowledge,
    "tasks": _tasks,
    "files": _files,
}


NOT_FORGOTTEN: dict[str, tuple[str, ...]] = {
    "it names an entity, and a redaction keeps names; `forget` says which": (
        r".*\b(id|edge_id|node_id|connection_id|from_node_id|to_node_id|from|to|project|parent_ref|scope|release)",
        r"graph_plan nodes\[\]\.ref",
        r".*\b(source|target|new_parent|[a-zA-Z]+Id|(depends_on|relatedTo|blockedBy|[a-z]+Ids)\[\])",
    ),
    "it names a type or a relation": (
        r"memory.write (ops\[\]\.)?(node\.type|edge\.rel)",
        r"graph_connect edges\[\]\.type",
        r"(create_ontology|add_\w+_type) .*",
        r"(create|update)_(node|connection) (type|format|encoding)",
    ),
    "it is said of the commit, which stays as it is; `forget` says which": (
        r"memory.write (ops\[\]\.)?(reason|actor|nonce|run_context\.\w+)",
        r"graph_restructure operations\[\]\.reason",
        r"terminate reason",
    ),
    "it must be there already, or is looked for": (
        r"memory.write (ops\[\]\.)?(if_commit|original_commit_id|redacted_fields\[\])",
        r"graph_next filter{}",
        r"graph_update updates\[\]\.remove_context_links\[\]",
        r"manage_container status",
    ),
    "plain files are not in the log; `forget` says which": (
        r"create (file_text|path)",
        r"(str_replace|insert|delete) path",
        r"rename (old|new)_path",
    ),
}
"""Fields of tools that write, for which there is a reason not to have the secret written through them."""


def _takes_words(kind: Any, path: str = "") -> Iterator[str]:
    """Every field of an argument model, or below one, into which words can be written."""
    said = get_args(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            yield from _takes_words(field.annotation, f"{path}.{field.alias or name}".lstrip("."))
    elif get_origin(kind) in (Annotated, Union, UnionType):
        for each in said[:1] if get_origin(kind) is Annotated else said:
            yield from _takes_words(each, path)
    elif get_origin(kind) in (list, tuple):
        yield from _takes_words(said[0], f"{path}[]")
    elif get_origin(kind) is dict:
        yield f"{path}{{}}"
    elif kind not in (int, float, bool, NoneType) and get_origin(kind) is not Literal:
        yield path


def _holding_word(value: Any, path: str) -> Iterator[str]:
    """The fields of a call that have the word in them; as deep as argument models know."""
    if isinstance(value, str) and WORD.lower() in value.lower():
        yield path
    for each in value if isinstance(value, list) else ():
        yield from _holding_word(each, f"{path}[]")
    for name, each in value.items() if isinstance(value, dict) else ():
        if WORD in json.dumps(each):
            yield from (path, f"{path}{{}}", *_holding_word(each, f"{path}.{name}"))


@promise("L51, every field", "whichever field of a tool it was written through, or it is said why not")
def test_the_secret_is_written_through_every_field_that_takes_words(settings: Settings) -> None:
    """A new field of a tool is written through in `WRITERS`, or `NOT_FORGOTTEN` says why it cannot be."""
    written: set[str] = set()

    async def story() -> None:
        async with app.served(settings) as offer:
            await _write_everywhere(offer, written)

    asyncio.run(story())
    tools = [tool for toolset in app.toolsets(settings) for tool in toolset.tools if not tool.reads_only]
    fields = {f"{tool.name} {field}" for tool in tools for field in _takes_words(tool.input)}
    reasons = [re.compile(each) for patterns in NOT_FORGOTTEN.values() for each in patterns]
    excepted = {field for field in fields if any(each.fullmatch(field) for each in reasons)}
    assert sorted(fields - excepted - written) == []
    assert sorted(excepted & written) == []
    assert [each.pattern for each in reasons if not any(map(each.fullmatch, fields))] == []


def _caller(offer: Offer, written: set[str] | None = None) -> Call:
    known = {"knowledge": knowledge.make_toolset(), **{toolset.name: toolset for toolset in offer.tools.known}}
    written_by = {name for name, toolset in known.items() if not all(tool.reads_only for tool in toolset.tools)}
    assert written_by <= WRITERS.keys(), "a new vocabulary: write the secret through it too"
    tools = {tool.name: tool for toolset in known.values() for tool in toolset.tools}

    async def call(name: str, /, **arguments: Any) -> dict[str, Any]:
        prepared = prepare(tools[name], arguments)
        if written is not None:
            written.update(f"{name} {path}" for key, value in arguments.items() for path in _holding_word(value, key))
        return (await tools[name].call(offer.store, offer.principal_of(None), prepared)).data

    return call


async def _write_everywhere(offer: Offer, written: set[str] | None = None) -> None:
    call = _caller(offer, written)
    for writer in WRITERS.values():
        await writer(call)


def _leave_traces(settings: Settings) -> None:
    """What crashes, people and earlier versions leave beside the log and the views."""
    log = settings.system / "log"
    (log / "00000000000000000001.jsonl.torn-20250101T000000-99").write_text(f'{{"payload":{{"a":"{WORD}"')
    registry = settings.system / "registry.json"
    registry.write_text(registry.read_text("utf-8").replace("{", "{ ", 1))


@promise("L51, everywhere", "what is forgotten is in no byte below the base, whichever vocabulary wrote it")
@pytest.mark.parametrize("serving", [False, True], ids=["nobody serves", "a server runs"])
def test_what_is_forgotten_is_in_no_byte_below_the_base(shell: CommandLine, settings: Settings, serving: bool) -> None:
    async def story() -> None:
        async with app.served(settings) as offer:
            await _write_everywhere(offer)
        await take_snapshot(app.operation_context(settings))
        _leave_traces(settings)
        places = found_in(settings.base)
        kept_in = (
            "graph.db",
            "_system/views.db",
            "registry.json",
            "torn",
            "_content/blobs",
            ".snapshot",
            "_system/text",
        )
        for expected in kept_in:
            assert any(expected in place for place in places), (expected, places)
        if serving:
            async with app.served(settings):
                told = await asyncio.to_thread(shell.run, "forget", "--subject", WORD, "--yes", "--json")
                assert told.json["files_that_still_name_it"] == []
        else:
            told = await asyncio.to_thread(shell.run, "forget", "--subject", WORD, "--yes", "--json")
        assert told.json["complete"], told.json
        assert WORD.casefold() not in told.out.casefold()

    asyncio.run(story())
    assert found_in(settings.base) == []
    assert shell.run("verify").code == 0
    assert shell.run("forget", "--subject", WORD, "--json").json["to_redact"] == []


def test_the_search_for_traces_does_find_them(tmp_path: Path) -> None:
    """The same eyes as above, on files that do hold the word."""
    spellings = {
        "plain": SECRET.encode(),
        "upper": SECRET.upper().encode(),
        "json": json.dumps(SECRET).encode(),
        **{f"base64-{n}": b64encode(b"y" * n + SECRET.encode() + b"z" * 9) for n in range(3)},
    }
    for name, data in spellings.items():
        (tmp_path / name).write_bytes(b"\0" * 5_000_000 + data if name == "plain" else data)
    assert found_in(tmp_path) == sorted(spellings)
    for name, data in (("utf-16", SECRET.encode("utf-16-be")), ("packed", b"\0" + gzip.compress(SECRET.encode()))):
        (tmp_path / name).write_bytes(data)
        assert name in found_in(tmp_path)
        (tmp_path / name).unlink()
    assert [name for name in sorted(spellings) if not holds(tmp_path / name, Subject([WORD]))] == []
    (tmp_path / "innocent").write_bytes(os.urandom(100_000))
    assert not holds(tmp_path / "innocent", Subject([WORD]))
    (tmp_path / "hashes").write_text(f"{'ada':0>64}")
    assert not holds(tmp_path / "hashes", Subject(["Ada"]))
    (tmp_path / "zs%C3%B3.md").write_bytes(b"")
    assert holds(tmp_path / "zs%C3%B3.md", Subject(["Zsó"]))
    composed, decomposed = normalize("NFC", "Zoë"), normalize("NFD", "Zoë")
    for written, given in ((composed, decomposed), (decomposed, composed)):
        (tmp_path / "letters").write_text(f"call {written}")
        assert holds(tmp_path / "letters", Subject([given.upper()]))


def test_every_vocabulary_goes_on_after_its_nodes_were_redacted(shell: CommandLine, settings: Settings) -> None:
    async def story() -> None:
        async with app.served(settings) as offer:
            await _write_everywhere(offer)
        await asyncio.to_thread(shell.run, "forget", "--subject", WORD, "--whole", "--yes", "--json")
        async with app.served(settings) as offer:
            call = _caller(offer)
            project = (await call("memory.search", type="work/project"))["entities"][0]["id"]
            for tool in ("graph_open", "graph_onboard", "graph_next", "graph_query"):
                await call(tool, project="shop")
            for kind in ("atom", "molecule"):
                found = await call("query_graph", operation="search", entityType=kind, projectId=project)
                assert found["success"]
            await call("query_graph", operation="context", projectId=project, paths="src/a.py")
            for node_id in (await call("query_nodes", type="Letter"))["node_ids"]:
                await call("get_node_content", node_id=node_id)
            await _memory(call)

    asyncio.run(story())


# -- finding


def commit_of(operation: Operation, **said: Any) -> Commit:
    return entries(Head(), Draft((operation,), **{"actor": "ann", "tool": "test", **said}))[0].commit


def upsert(attrs: dict[str, Any], node_id: str = "n", kind: str = "note", **content: Any) -> Operation:
    return Operation(Verb.UPSERT_NODE, {"id": node_id, "type": kind, "attrs": attrs, **content})


def content(text: str, encoding: str = "utf-8") -> dict[str, Any]:
    return {"content": {"format": "text", "encoding": encoding, "text": text}}


def mentions(commit: Commit, *texts: str, whole_words: bool = False) -> set[tuple[str, str, str | None]]:
    found = find_mentions(commit, Subject(texts, whole_words=whole_words), _no_blob)
    return {(each.kind, each.place, each.field) for each in found if isinstance(each, Mention)}


def _no_blob(content: dict[str, Any]) -> bytes:
    raise OSError("gone")


ADA = "ada@example.org"
REACHED: dict[str, tuple[Operation, set[str]]] = {
    "a value": (upsert({"mail": ADA, "other": 1}), {"attrs.mail"}),
    "part of a value, in other letters": (upsert({"text": f"Dear ADA@Example.org, {'x' * 500}"}), {"attrs.text"}),
    "a value below": (upsert({"a": {"b": {"c": ADA}}}), {"attrs.a.b.c"}),
    "a value in a list": (upsert({"to": ["x", ADA]}), {"attrs.to"}),
    "a value of an object in a list": (upsert({"to": [{"mail": ADA}, {"mail": "x"}]}), {"attrs.to.mail"}),
    "a name with dots": (upsert({"a.b": ADA}), {"attrs.a.b"}),
    "a name below": (upsert({"mails": {ADA: 1}}), {"attrs.mails"}),
    "a name, whatever is below it": (upsert({ADA: {"x": ADA}}), {f"attrs.{ADA}"}),
    "a name below, whatever is below that": (upsert({"mails": {ADA: {"x": ADA}}}), {"attrs.mails"}),
    "a content": (upsert({}, **content(f"Dear {ADA}")), {"content"}),
    "a content in base64": (upsert({}, **content(b64encode(f"x{ADA}".encode()).decode(), "base64")), {"content"}),
    "nothing": (upsert({"mail": "bob@example.org"}, **content("Dear Bob")), set()),
}


@promise("5.7, finding", "a mention is found with the field to redact")
@pytest.mark.parametrize("case", REACHED)
def test_a_mention_is_found_with_the_field_to_redact(case: str) -> None:
    operation, fields = REACHED[case]
    assert mentions(commit_of(operation), ADA) == {("node", field, field) for field in fields}


def test_an_edge_is_searched_like_a_node() -> None:
    said = {"from": "a", "rel": "r", "to": "b", "attrs": {"note": ADA, "deep": {"list": [ADA]}}}
    found = mentions(commit_of(Operation(Verb.UPSERT_EDGE, {**said, **content(f"Dear {ADA}")})), ADA)
    assert found == {("edge", field, field) for field in ("attrs.note", "attrs.deep.list", "content")}


BEYOND: dict[str, tuple[Commit, tuple[str, str]]] = {
    "the id of a node": (commit_of(upsert({}, ADA)), ("node", "id")),
    "the type of a node": (commit_of(upsert({}, kind=ADA)), ("node", "type")),
    "the node that is deleted": (commit_of(Operation(Verb.DELETE_NODE, {"node_id": ADA})), ("node", "node_id")),
    "the edge that is redacted": (
        commit_of(Operation(Verb.REDACT_EDGE, {"from": "a", "rel": "r", "to": ADA, "reason": "asked"})),
        ("edge", "to"),
    ),
    "the end of an edge": (
        commit_of(Operation(Verb.DELETE_EDGE, {"from": ADA, "rel": "r", "to": "b"})),
        ("edge", "from"),
    ),
    "the author": (commit_of(upsert({}), actor=ADA), ("commit", "actor")),
    "the reason": (commit_of(upsert({}), reason=f"{ADA} asked"), ("commit", "reason")),
    "the run": (commit_of(upsert({}), run_context={"job_id": f"for {ADA}"}), ("commit", "run_context.job_id")),
}


@promise("5.7, honesty", "what no redaction reaches is found all the same, and told")
@pytest.mark.parametrize("case", BEYOND)
def test_a_mention_that_no_redaction_reaches_is_found_all_the_same(case: str) -> None:
    commit, (kind, place) = BEYOND[case]
    assert mentions(commit, ADA) == {(kind, place, None)}


def test_numbers_and_several_texts_name_somebody_and_whole_words_are_words() -> None:
    commit = commit_of(upsert({"phone": 5550123, "flag": True, "title": "Annual", "by": "ann"}))
    assert mentions(commit, "5550123") == {("node", "attrs.phone", "attrs.phone")}
    assert {place for _, place, _ in mentions(commit, "ann", "true")} >= {"attrs.title", "attrs.by"}
    assert {place for _, place, _ in mentions(commit, "ann", whole_words=True)} == {"actor", "attrs.by"}


def test_a_content_that_cannot_be_read_is_told() -> None:
    commit = commit_of(upsert({}, content={"format": "text", "encoding": "utf-8", "blob": "0" * 64, "bytes": 3}))
    assert list(find_mentions(commit, Subject([ADA]), _no_blob)) == [Unread("n", 1)]


# -- the command


def test_nothing_is_changed_by_looking(shell: CommandLine) -> None:
    shell.write(node("ada", mail=ADA), edge("ada", "knows", "ada", since=ADA, **{ADA: 1}))
    before = (shell.base / "_system" / "head").read_bytes()
    told = shell.run("forget", "--subject", ADA, "--json").json
    assert [(row["entity"], row["kind"], row["fields"]) for row in told["to_redact"]] == [
        ("ada", "node", ["attrs.mail"]), ("ada|knows|ada", "edge", [f"attrs.{ADA}", "attrs.since"]),
    ]  # fmt: skip
    assert told["cannot_be_erased"] == []
    assert (shell.base / "_system" / "head").read_bytes() == before


def test_only_what_names_the_subject_is_redacted_unless_more_is_asked_for(shell: CommandLine) -> None:
    people = [node(f"p{number}", "Visit", by=f"from {ADA}", phone="555", name="Ada") for number in range(3)]
    shell.write(*people, node("other", mail="bob@example.org", phone="556"))
    asked = ("forget", "--subject", ADA, "--json")
    assert shell.run(*asked).json["to_redact"][0]["fields"] == ["attrs.by"]
    done = shell.run(*asked, "--field", "attrs.phone", "--yes").json
    assert [row["fields"] for row in done["redacted"]] == [["attrs.by", "attrs.phone"]] * 3
    lines = (shell.base / "_system" / "log" / "00000000000000000001.jsonl").read_text()
    assert ("556" in lines, '"555"' in lines, '"Ada"' in lines, ADA in lines) == (True, False, True, False)
    whole = shell.run("forget", "--subject", "Ada", "--whole", "--yes", "--json").json
    assert [row["fields"] for row in whole["redacted"]] == [["attrs", "content"]] * 3


def test_a_node_that_goes_whole_takes_what_its_edges_say(shell: CommandLine) -> None:
    shell.write(node("ada", "Person", mail=ADA), node("bob", "Person", mail="bob@example.org"))
    shell.write(edge("bob", "knows", "ada", note="her phone is 5550123"), edge("bob", "likes", "bob", note="himself"))
    (row,) = shell.run("forget", "--subject", ADA, "--whole", "--yes", "--json").json["redacted"]
    assert sorted(row["masked_payloads"]) == ["1", "3"]
    assert (found_in(shell.base, "5550123"), found_in(shell.base, "himself") != []) == ([], True)
    assert [made["kind"] for made in shell.run("redactions", "--json").json["redactions"]] == ["edge", "node"]
    assert shell.run("verify").code == 0


@promise("5.7, report", "the report tells what was done and names nobody")
def test_the_report_tells_what_was_done_and_names_nobody(
    shell: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallystick.operations.leftover_scan._PATIENCE_SECONDS", 0.0)
    shell.write(node(ADA, "Person", mail=ADA), node("b", mail=ADA, n=1), node("b", mail=ADA, n=2))
    shell.write(edge("b", "knows", ADA, note=f"met {ADA}"))
    shell.run("export", tmp_path / "backup.jsonl")
    report = tmp_path / "r-17.json"
    words = ("--reason", "erasure request", "--reference", "R-17", "--report", report)
    told = shell.run("forget", "--subject", ADA, *words, "--yes")
    assert told.code == 1
    assert "NOT everything is erased" in told.err
    said = json.loads(report.read_text("utf-8"))
    assert ADA not in report.read_text("utf-8")
    assert (said["reference"], said["reason"], said["by"], said["complete"]) == (
        "R-17", "erasure request", "default-agent", False,
    )  # fmt: skip
    assert [(row["entity"], row["type"], len(row["masked_payloads"])) for row in said["redacted"]] == [
        ("[NAMES THE SUBJECT]", "knows", 1), ("[NAMES THE SUBJECT]", "Person", 1), ("b", "note", 2),
    ]  # fmt: skip
    assert {(each["kind"], each["place"]) for each in said["not_erased"]} == {
        ("node", "id"), ("edge", "to"), ("node", "node_id"),
    }  # fmt: skip
    assert {each["because"].partition(":")[0] for each in said["not_erased"]} == {"names the entity"}
    assert said["log_is_sound"] is True
    assert [backup["position"] for backup in said["backups_taken_before"]] == [4]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--subject", "  "), InvalidArgument),
        (("--subject", ADA, "--reason", f"{ADA} asked"), InvalidArgument),
        (("--subject", ADA, "--field", "mail"), InvalidArgument),
        (("--subject", ADA, "--report", "taken.json"), Conflict),
    ],
    ids=str,
)
def test_what_would_go_wrong_is_refused_before_anything_is_done(
    shell: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], error: type[Exception]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken.json").write_text("{}")
    shell.write(node("ada", mail=ADA))
    with pytest.raises(error):
        shell.run("forget", *words, "--yes")
    assert found_in(shell.base, ADA) != []


def test_a_file_that_nobody_follows_is_named_as_what_is_left(
    shell: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallystick.operations.leftover_scan._PATIENCE_SECONDS", 0.0)
    shell.write(node("ada", mail=ADA))
    (shell.base / "notes.txt").write_text(f"call {ADA}")
    told = shell.run("forget", "--subject", ADA, "--yes", "--json")
    assert (told.json["files_that_still_name_it"], told.json["complete"], told.code) == (["notes.txt"], False, 1)


def test_a_longer_word_is_no_trace_of_who_is_sought_as_a_whole_word(
    shell: CommandLine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallystick.operations.leftover_scan._PATIENCE_SECONDS", 0.0)
    shell.write(node("a", said="call Ann"), node("b", said="first\nAnnual report"))

    async def kept_by_projections() -> None:
        async with app.served(settings):
            pass

    asyncio.run(kept_by_projections())
    assert b"Annual report" in (settings.base / "graph.db").read_bytes()
    told = shell.run("forget", "--subject", "Ann", "--whole-words", "--yes", "--json").json
    assert (told["files_that_still_name_it"], told["complete"]) == ([], True)
    (settings.base / "notes.txt").write_text("an annual call, said\\nAnn")
    (settings.base / "copy.db").write_bytes(b"\0noteAnnAnnual\0")
    told = shell.run("forget", "--subject", "Ann", "--whole-words", "--yes", "--json").json
    assert told["files_that_still_name_it"] == ["copy.db", "notes.txt"]


def test_what_cannot_be_read_is_not_said_to_be_clean(shell: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.write(node("ada", mail=ADA))
    hidden = shell.base / "notes.txt"
    hidden.write_text(f"call {ADA}")

    def refusing(path: Path, *args: Any, **more: Any) -> Any:
        if path == hidden:
            raise PermissionError(EACCES, "Permission denied", str(path))
        return opened(path, *args, **more)

    opened = Path.open
    monkeypatch.setattr(Path, "open", refusing)
    told = shell.run("forget", "--subject", ADA, "--yes", "--json")
    assert (told.json["files_not_searched"], told.json["complete"], told.code) == (["notes.txt"], False, 1)
    assert "could not be searched: notes.txt" in shell.run("forget", "--subject", ADA, "--yes").err


def test_what_lies_behind_links_and_beside_the_tenants_is_looked_at_too(
    shell: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallystick.operations.leftover_scan._PATIENCE_SECONDS", 0.0)
    shell.write(node("ada", mail=ADA))
    shell.write(node("x"), tenant="acme")
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "notes.txt").write_text(f"call {ADA}")
    (tmp_path / "disk" / "again").symlink_to(tmp_path / "disk")
    (shell.base / "linked").symlink_to(tmp_path / "disk")
    left = shell.base / "tenants" / ".deleting-beta-0a1b2c3d"
    left.mkdir()
    (left / "graph.db").write_text(ADA)
    told = shell.run("forget", "--subject", ADA, "--yes", "--json").json
    assert told["files_that_still_name_it"] == ["linked/notes.txt", "tenants/.deleting-beta-0a1b2c3d/graph.db"]
    told = shell.run("forget", "--subject", ADA, "--tenant", "default", "--yes", "--json").json
    assert told["files_that_still_name_it"] == ["linked/notes.txt"]


def test_a_tenant_that_was_not_named_is_neither_looked_at_nor_touched(shell: CommandLine) -> None:
    shell.write(node("ada", mail=ADA))
    file = shell.base.parent / "theirs.jsonl"
    file.write_text(json.dumps(node("ada", mail=ADA)))
    shell.run("import", file, "--tenant", "acme")
    assert shell.run("forget", "--subject", ADA, "--tenant", "default", "--yes", "--json").json["complete"]
    assert found_in(shell.base, ADA) == ["tenants/acme/_system/log/00000000000000000001.jsonl"]


def test_a_log_with_redacted_edges_is_copied_and_can_be_written_anew(shell: CommandLine, tmp_path: Path) -> None:
    chosen = edge("a", "knows", "b", note=f"met {ADA}")
    chosen["edge"]["id"] = "chosen"
    shell.write(node("a"), node("b"), edge("a", "knows", "b", note=f"met {ADA}"), chosen)
    shell.write({"op": "DELETE_EDGE", "edge_id": "chosen"})
    shell.run("forget", "--subject", ADA, "--yes")
    shell.run("export", tmp_path / "log.jsonl")
    for name, words in (("copied", ()), ("anew", ("--replay",))):
        other = CommandLine(tmp_path / name)
        if words:
            other.write(node("first"))
        other.run("import", tmp_path / "log.jsonl", *words)
        made = other.run("redactions", "--json").json["redactions"]
        assert [row["entity"] for row in made] == ["a|knows|b", "chosen"]
        assert other.run("verify").code == 0


# -- torn ends, backups


@promise("L51, torn ends", "a redaction takes torn ends of the log with it")
def test_a_redaction_takes_torn_ends_with_it(shell: CommandLine) -> None:
    shell.write(node("ada", mail=ADA))
    segment = shell.base / "_system" / "log" / "00000000000000000001.jsonl"
    with segment.open("ab") as torn:
        torn.write(segment.read_bytes()[:-20])
    FilesLog(shell.base / "_system").close()
    assert [path for path in found_in(shell.base, ADA) if "torn" in path] != []
    assert shell.run("forget", "--subject", ADA, "--yes", "--json").json["complete"]
    assert found_in(shell.base, ADA) == []


@promise("L51, pending backups", "backups taken before are listed until they are destroyed")
def test_backups_taken_before_a_redaction_are_pending_until_they_are_destroyed(
    shell: CommandLine, tmp_path: Path
) -> None:
    shell.write(node("a", x=1))
    shell.run("export", tmp_path / "early.jsonl")
    shell.write(node("ada", mail=ADA))
    shell.run("export", tmp_path / "with.jsonl")
    shell.run("export")
    assert shell.run("redactions", "--pending-backups", "--json").json == {"backups": []}
    shell.run("forget", "--subject", ADA, "--yes")
    shell.run("export", tmp_path / "after.jsonl")
    pending = shell.run("redactions", "--pending-backups", "--json").json["backups"]
    assert [(each["target"], each["redactions"], each["still_there"]) for each in pending] == [
        (str(tmp_path / "with.jsonl"), [3], True), ("-", [3], None),
    ]  # fmt: skip
    (tmp_path / "with.jsonl").unlink()
    pending = shell.run("redactions", "--destroyed", pending[0]["id"], "--json").json["backups"]
    assert [each["target"] for each in pending] == ["-"]
    with pytest.raises(NotFound):
        shell.run("redactions", "--destroyed", "backup_0")
    (made,) = shell.run("redactions", "--json").json["redactions"]
    assert (made["entity"], made["fields"], made["masked_payloads"]) == ("ada", ["attrs.mail"], 1)


# -- copies beside the log


def _principal(tenant: str) -> Principal:
    return Principal(actor="ann", tenant=tenant)


async def _call(offer: Offer, tenant: str, name: str, /, **arguments: Any) -> dict[str, Any]:
    tools = {tool.name: tool for toolset in offer.tools.known for tool in toolset.tools}
    return (await tools[name].call(offer.store, _principal(tenant), prepare(tools[name], arguments))).data


async def _filled(settings: Settings, tenant: str) -> str:
    """A memory with every projection on disk, that nobody serves any more; the id of what is to go."""
    async with app.served(msgspec.structs.replace(settings, tenant=tenant)) as offer:
        await _call(offer, tenant, "create_ontology", node_types=["Letter"], connection_types=[])
        said = {"content": f"Dear {SECRET},", "encoding": "utf-8", "format": "markdown", "properties": {"to": SECRET}}
        made = await _call(offer, tenant, "create_node", type="Letter", **said)
        assert (await _call(offer, tenant, "search_content", query=WORD))["node_ids"]
        return str(made["node_id"])


@promise("L51, idle tenants", "the copies of a tenant that nobody serves go before a redaction is answered")
@pytest.mark.parametrize("op", ["REDACT_NODE", "DELETE_NODE"])
def test_the_copies_of_a_tenant_that_nobody_serves_go_too(settings: Settings, op: str) -> None:
    async def story() -> None:
        node_id = await _filled(settings, "acme")
        beside = [place for place in found_in(settings.base) if "/log/" not in place]
        for expected in ("graph.db", "views.db", "registry.json", "_content/nodes", "_system/text"):
            assert any(expected in place for place in beside), (expected, beside)
        reason = {"reason": "asked"} if op == "REDACT_NODE" else {}
        async with app.served(settings) as offer:
            answer = await _call(offer, "acme", "memory.write", op=op, node_id=node_id, **reason)
            assert "erasure" not in answer
            if op == "REDACT_NODE":
                assert found_in(settings.base) == []
        assert [place for place in found_in(settings.base) if "/log/" not in place] == []

    asyncio.run(story())


@promise("L51, pending", "what another program keeps is said, listed, and finished by the next start")
def test_what_another_program_keeps_is_said_and_finished_later(
    settings: Settings, shell: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallystick.app.tenant_projections.ERASED_SECONDS", 0.5)

    async def redacted() -> dict[str, Any]:
        async with app.served(settings) as offer:
            return await _call(offer, "default", "memory.write", op="REDACT_NODE", node_id=node_id, reason="asked")

    async def opened() -> None:
        async with app.served(settings) as offer:
            await _call(offer, "default", "memory.read", entity_id="none")

    node_id = asyncio.run(_filled(settings, "default"))
    with closing(sqlite3.connect(settings.base / "graph.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM nodes").fetchone()
        assert asyncio.run(redacted())["erasure"] == {"pending": ["sql"]}
        pending = shell.run("redactions", "--pending", "--json").json["pending"]
        assert [(each["where"], each["commits"]) for each in pending] == [("sql", [])]
        examined = shell.run("doctor", "--json").json["findings"]
        assert [each["status"] for each in examined if each["what"] == "erasure"] == ["bad"]
        compared = shell.run("verify", "--views", "--json").json["views"]["projections"]
        assert {each["name"]: each["waits"] for each in compared} == {"views": 0, "sql": 1, "text": 0}
    asyncio.run(opened())
    assert shell.run("redactions", "--pending", "--json").json == {"pending": [], "backups": []}


@promise("L51, crashes", "a crash before the copies are gone is finished by the next start")
def test_a_crash_before_the_copies_are_gone_is_finished_by_the_next_start(
    settings: Settings, shell: CommandLine
) -> None:
    """Killed when the redaction is durable, and nothing beside the log has heard of it."""
    node_id = asyncio.run(_filled(settings, "acme"))
    acme = msgspec.structs.replace(settings, tenant="acme")
    asyncio.run(take_snapshot(app.operation_context(acme)))
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(settings.base), node_id], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert found_in(settings.base) != []
    pending = shell.run("redactions", "--pending", "--json", "--tenant", "acme").json["pending"]
    assert {each["where"] for each in pending} >= {"views", "sql", "text", "snapshots"}

    async def started() -> None:
        async with app.served(settings) as offer:
            await _call(offer, "acme", "memory.read", entity_id="none")

    asyncio.run(started())
    assert found_in(settings.base) == []
    assert shell.run("redactions", "--pending", "--json", "--tenant", "acme").json == {"pending": [], "backups": []}


_KILLED = """
import asyncio, os, signal, sys
from tallystick import app
from tallystick.config import load
from tallystick.policy import Principal
from tallystick.server.dispatch import prepare
from tallystick.engine.snapshots import Snapshots

async def story():
    base, node_id = sys.argv[1:]
    settings = load({"base": base, "toolsets": "all"}, environ={})
    async with app.served(settings) as offer:
        tool = next(each for toolset in offer.tools.known for each in toolset.tools if each.name == "memory.write")
        await offer.store.partition(Principal(actor="ann", tenant="acme"))
        Snapshots.forget = lambda self, **known: os.kill(os.getpid(), signal.SIGKILL)
        asked = prepare(tool, {"op": "REDACT_NODE", "node_id": node_id, "reason": "asked"})
        await tool.call(offer.store, Principal(actor="ann", tenant="acme"), asked)

asyncio.run(story())
"""


def test_what_was_forgotten_stays_gone_though_the_server_is_killed(settings: Settings, shell: CommandLine) -> None:
    """Written through every vocabulary; in a second tenant, too, that the server has never opened."""
    asyncio.run(_filled(settings, "acme"))
    command = [sys.executable, "-c", _SERVER, str(settings.base)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1]) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == b"written\n"
            for tenant in ("default", "acme"):
                told = shell.run("forget", "--subject", WORD, "--yes", "--json", "--tenant", tenant)
                assert (told.json["complete"], told.json["erasure"]) == (True, {"pending": []}), told.json
        finally:
            server.kill()
    assert found_in(settings.base) == []

    async def started() -> None:
        async with app.served(settings) as offer:
            await _call(offer, "acme", "memory.read", entity_id="none")

    asyncio.run(started())
    assert found_in(settings.base) == []
    assert shell.run("verify", "--views").code == 0


_SERVER = """
import asyncio, sys
from tallystick import app
from tallystick.config import load
from tests import test_erasure

async def story():
    async with app.served(load({"base": sys.argv[1], "toolsets": "all"}, environ={})) as offer:
        await test_erasure._write_everywhere(offer)
        print("written", flush=True)
        await asyncio.Event().wait()

asyncio.run(story())
"""


@promise("L51, view", "view never shows what is gone though the file is still there")
def test_view_never_shows_what_is_gone_though_the_file_is_still_there(settings: Settings) -> None:
    async def story() -> None:
        node_id = await _filled(settings, "default")
        path = f"_content/nodes/{node_id}.md"
        async with app.served(settings) as offer:
            assert WORD in (await _call(offer, "default", "view", path=path))["content"]
            with _locked(settings.system / "views.lock"):
                await _call(offer, "default", "memory.write", op="DELETE_NODE", node_id=node_id)
                assert (settings.base / path).exists()
                with pytest.raises(NotFound):
                    await _call(offer, "default", "view", path=path)

    asyncio.run(story())


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def test_a_database_that_two_memories_name_stays_with_the_first(settings: Settings, tmp_path: Path) -> None:
    shared = tmp_path / "shared.db"
    other = load({"base": tmp_path / "other"}, environ={})

    async def story() -> None:
        for each in (settings, other):
            async with app.opened(each) as store:
                await store.partition(_principal("default"))
        projections = AllProjections(settings, open_log=app.open_log, database=shared)
        append_note(settings, "ours")
        await asyncio.to_thread(projections.of("default").follower.worker("sql").catch_up)
        await projections.close()
        append_note(other, "theirs")
        projections = AllProjections(other, open_log=app.open_log, database=shared)
        with pytest.raises(StorageRefused, match="mirrors the memory in"):
            await asyncio.to_thread(projections.of("default").follower.worker("sql").catch_up)
        assert await projections.erase("default", 0) == []
        assert projections.of("acme").follower.worker("sql").projection.position() == Head()
        assert (other.base / "tenants" / "acme" / "graph.db").exists()
        await projections.close()

    asyncio.run(story())
    with closing(sqlite3.connect(shared)) as db:
        assert db.execute("SELECT id FROM nodes").fetchall() == [("ours",)]


def append_note(settings: Settings, node_id: str) -> None:
    with closing(FilesLog(settings.system)) as log:
        append(log, draft(upsert({}, node_id)))
