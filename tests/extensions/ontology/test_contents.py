"""Contents: what comes back is what was given, whatever it is and wherever it lies."""

from __future__ import annotations

import asyncio
import random
import tracemalloc
from base64 import b64encode
from typing import Any

import pytest

from tallystick.errors import Denied
from tallystick.extensions.ontology.arguments import CreateNode
from tallystick.extensions.ontology.toolset import make_toolset
from tallystick.policy import Decision, Request
from tallystick.projections.content import INLINE_BYTES_MAX, Contents, Prepared
from tallystick.server.dispatch import prepare
from tests.extensions.ontology.agents import GTD, OntologyAgent, keeping
from tests.promises import promise

BLOB = random.Random(1).randbytes(300_000)

CONTENTS: list[tuple[str, str, str]] = [
    ("utf-8", "", "markdown"),
    ("utf-8", "Grüße, 日本語, 🎋\r\n\tend", "markdown"),
    ("utf-8", "\0 and \x1b", "text"),
    ("utf-8", "é" * INLINE_BYTES_MAX, "text"),
    ("base64", "", "pdf"),
    ("base64", "QQ==", "bin"),
    ("base64", b64encode(BLOB).decode(), "png"),
    ("utf-8", "x", "../../etc/passwd"),
    ("utf-8", "x", "PDF"),
]


@promise("M5, format", "a format that looks like a path is only a word")
@pytest.mark.parametrize(("encoding", "content", "format"), CONTENTS, ids=lambda value: str(value)[:20])
def test_content_comes_back_unchanged(gtd: OntologyAgent, encoding: str, content: str, format: str) -> None:
    made = gtd.call("create_node", type="Project", content=content, encoding=encoding, format=format)
    answer = gtd.answer("get_node_content", made)
    assert answer.data == {"content": content, "encoding": encoding, "format": format}
    assert answer.text == content
    assert gtd.call("get_node", **made)["content_format"] == format


@pytest.mark.parametrize(("encoding", "content", "format"), CONTENTS, ids=lambda value: str(value)[:20])
def test_content_is_kept_when_memory_write_changes_its_node(
    gtd: OntologyAgent, encoding: str, content: str, format: str
) -> None:
    made = gtd.call("create_node", type="Project", content=content, encoding=encoding, format=format)
    node = {"id": made["node_id"], "attrs": {"title": "t"}}
    gtd.call("memory.write", op="UPSERT_NODE", node={**node, "type": "Project"})
    gtd.call("memory.write", op="PATCH_NODE", node={**node, "attrs": {"tier": 1}})
    assert gtd.call("get_node_content", **made) == {"content": content, "encoding": encoding, "format": format}
    assert gtd.call("get_node", **made)["properties"] == {"title": "t", "tier": 1}


def test_a_patch_keeps_to_the_ontology(gtd: OntologyAgent) -> None:
    made = gtd.call("create_node", type="Project", content="x", encoding="utf-8", format="md")
    listed = {"op": "PATCH_NODE", "node": {"id": made["node_id"], "attrs": {"tags": ["a"]}}}
    said = gtd.refusal("memory.write", ops=[listed])
    assert (said["error"], said["at"]) == ("INVALID_ARGUMENT", "ops[0]")


def test_large_and_binary_content_is_not_in_the_log(gtd: OntologyAgent) -> None:
    gtd.call("create_node", type="Project", content=b64encode(BLOB).decode(), encoding="base64", format="png")
    gtd.call("create_node", type="Project", content="x" * (INLINE_BYTES_MAX + 1), encoding="utf-8", format="text")
    assert max(map(len, gtd.lines())) < 2_000
    gtd.call("create_node", type="Project", content="x" * INLINE_BYTES_MAX, encoding="utf-8", format="text")
    assert max(map(len, gtd.lines())) > INLINE_BYTES_MAX


@promise("M40", "content past the limit is refused")
@pytest.mark.parametrize(("encoding", "unit"), [("utf-8", "xyz"), ("base64", "QUJD")])
def test_content_past_the_limit_is_refused_and_up_to_it_is_not(gtd: OntologyAgent, encoding: str, unit: str) -> None:
    gtd.use(make_toolset(lambda tenant: gtd.contents, lambda tenant: gtd.text, content_bytes_max=300))
    asked = {"type": "Project", "encoding": encoding, "format": "text"}
    said = gtd.refusal("create_node", **asked, content=unit * 101)
    assert (said["code"], said["details"]) == ("INVALID_ARGUMENT", {"bytes": 303, "bytes_max": 300})
    gtd.call("create_node", **asked, content=unit * 100)


def test_a_connection_holds_large_notes_too(gtd: OntologyAgent) -> None:
    ends = {"from_node_id": gtd.make("Project"), "to_node_id": gtd.make("Action")}
    notes = "long " * INLINE_BYTES_MAX
    made = gtd.call("create_connection", type="NextAction", **ends, content=notes)
    assert gtd.call("get_connection", **made, include_content=True)["content"] == notes


# -- when the disk says no


@promise("AC19, creation", "content that cannot be written means no node")
def test_a_content_file_that_cannot_be_created_leaves_no_trace(gtd: OntologyAgent) -> None:
    node, other = gtd.make("Project", "old"), gtd.make("Action")
    conn = gtd.join(node, "NextAction", other)
    content = gtd.home / "_content"
    content.rename(gtd.home / "elsewhere")
    content.write_text("a file where a directory should be")
    ends = {"from_node_id": node, "to_node_id": other}
    asked: list[tuple[str, dict[str, Any]]] = [
        ("create_node", {"type": "Project", "content": "x", "format": "text"}),
        ("create_node", {"type": "Project", "content": "QQ==", "encoding": "base64", "format": "png"}),
        ("update_node", {"node_id": node, "content": "new", "encoding": "utf-8"}),
        ("create_connection", {"type": "NextAction", **ends, "content": "x"}),
        ("update_connection", {"connection_id": conn, "content": "x"}),
    ]
    for tool, arguments in asked:
        assert gtd.code(tool, **arguments) == "FILE_CREATION_FAILED"
    assert gtd.nodes() == [node, other]
    assert gtd.connections() == [conn]
    assert gtd.call("get_node_content", node_id=node)["content"] == "old"


@promise("M26", "content that is nowhere any more is told")
def test_a_blob_that_is_gone_is_told_and_the_node_is_still_there(gtd: OntologyAgent) -> None:
    made = gtd.call("create_node", type="Project", content="QQ==", encoding="base64", format="png")
    for blob in (gtd.home / "_content" / "blobs").iterdir():
        blob.unlink()
    assert gtd.code("get_node_content", **made) == "CONTENT_READ_FAILED"
    assert gtd.call("get_node", **made)["content_format"] == "png"


@promise("AC19, append", "content that was prepared for a failed write is taken back")
def test_a_failed_append_takes_the_prepared_content_back(gtd: OntologyAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    before = gtd.files()
    monkeypatch.setattr(gtd.log, "append", full)
    for content, encoding in (("x", "utf-8"), ("QQ==", "base64")):
        with pytest.raises(OSError, match="No space"):
            gtd.call("create_node", type="Project", content=content, encoding=encoding, format="text")
    assert gtd.files() == before


def test_a_caller_that_goes_away_does_not_take_back_what_is_being_committed(
    gtd: OntologyAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    discarded: list[Prepared] = []
    monkeypatch.setattr(Prepared, "discard", discarded.append)

    async def leave() -> None:
        appended = asyncio.Event()
        loop = asyncio.get_running_loop()
        append = gtd.log.append

        def tell(*args: Any, **kwargs: Any) -> Any:
            loop.call_soon_threadsafe(appended.set)
            return append(*args, **kwargs)

        monkeypatch.setattr(gtd.log, "append", tell)
        tool = gtd.tool("create_node")
        asked = prepare(tool, {"type": "Project", "content": "QQ==", "encoding": "base64", "format": "png"})
        calling = asyncio.ensure_future(tool.call(gtd.store, gtd.principal, asked))
        await appended.wait()
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        await gtd.partition.look(lambda state: None)

    gtd.run(leave())
    [node] = gtd.nodes()
    assert gtd.call("get_node_content", node_id=node)["content"] == "QQ=="
    assert discarded == []


class Nobody:
    def decide(self, request: Request) -> Decision:
        return Decision(request.principal.actor == "admin", "only admin", "1")


@promise("X8, typed", "who may not write reaches neither log nor disk")
def test_who_may_not_write_leaves_nothing_on_the_disk(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def untouched(*_: Any, **__: Any) -> None:
        raise AssertionError("content was prepared for someone who may not write")

    monkeypatch.setattr(Contents, "prepare", untouched)
    with keeping(tmp_path, Nobody()) as agent:
        for tool, asked in (
            ("create_ontology", GTD),
            ("create_node", {"type": "Project", "content": "x", "format": "text"}),
            ("query_nodes", {}),
            ("search_content", {"query": "x"}),
            ("get_node_content", {"node_id": "x"}),
        ):
            with pytest.raises(Denied):
                agent.answer(tool, asked)


def test_after_a_write_the_reply_waits_for_those_who_publish_it(gtd: OntologyAgent) -> None:
    told: list[tuple[str, int]] = []

    async def published(tenant: str, position: int) -> None:
        told.append((tenant, position))

    gtd.use(make_toolset(lambda tenant: gtd.contents, lambda tenant: gtd.text, published=published))
    node = gtd.make("Project")
    gtd.call("delete_node", node_id=node)
    assert told == [("default", gtd.partition.position - 1), ("default", gtd.partition.position)]


def test_what_a_person_wrote_into_the_file_comes_before_reading_replacing_and_deleting(gtd: OntologyAgent) -> None:
    asked_for: list[tuple[str, str]] = []

    async def adopt(tenant: str, kind: str, entity_id: str) -> None:
        asked_for.append((kind, entity_id))

    gtd.use(make_toolset(lambda tenant: gtd.contents, lambda tenant: gtd.text, adopt=adopt))
    node, other = gtd.make("Project", "x"), gtd.make("Action")
    conn = gtd.join(node, "NextAction", other)
    gtd.call("get_node", node_id=node)
    gtd.call("update_node", node_id=node, properties={"a": 1})
    gtd.call("get_connection", connection_id=conn)
    assert asked_for == []
    gtd.call("get_node_content", node_id=node)
    gtd.call("update_node", node_id=node, content="y", encoding="utf-8")
    gtd.call("get_connection", connection_id=conn, include_content=True)
    gtd.call("update_connection", connection_id=conn, content="y")
    gtd.call("delete_connection", connection_id=conn)
    gtd.call("delete_node", node_id=node)
    assert asked_for == [("nodes", node)] * 2 + [("connections", conn)] * 3 + [("nodes", node)]


@promise("M40, memory", "large content is in memory once more than it came")
def test_large_content_is_decoded_and_written_without_copies(gtd: OntologyAgent) -> None:
    size = 30_000_000
    tool = gtd.tool("create_node")
    content = b64encode(bytes(size)).decode()
    asked = CreateNode(type="Project", content=content, encoding="base64", format="zip")
    tracemalloc.start()
    try:
        made = gtd.run(tool.call(gtd.store, gtd.principal, asked)).data
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.1 * size
    assert gtd.call("get_node_content", **made)["content"] == content
