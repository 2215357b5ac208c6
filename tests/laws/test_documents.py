"""The law of documents: whatever a tool accepts, every reader there is gives back, equal.

Equal means equal canonical bytes, so what was read can be written again as it is.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import example, given
from hypothesis import strategies as st

from tallystick import app
from tallystick.commits.canonical import DEPTH_MAX, INTEGER_MAX, canonical_bytes
from tallystick.operations.snapshot import take_snapshot
from tallystick.server import Offer
from tallystick.server.dispatch import Done
from tallystick.server.http import http_app
from tallystick.server.jsonrpc import parse
from tallystick.state.lineage import difference
from tallystick.toolsets.work.arguments import NODE_BYTES_MAX
from tests.command_line import CommandLine
from tests.fuzz.budget import tries
from tests.promises import promise
from tests.sample_memory import outcome_of
from tests.state.state_dump import dump_state
from torture import writer

T = TypeVar("T")
Document = dict[str, Any]

# -- every legal document

GREAT = (2.0**53, 1e16, 1e17, 2.0**63, 2.0**64, 1.5e20, 2.95147905179352826e20, 999999999999999868928.0, 1e21, 1e300)
NUMBERS = st.one_of(
    st.integers(-INTEGER_MAX, INTEGER_MAX),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([*GREAT, *(-each for each in GREAT), -0.0, 0.0, 1.0, 5e-324, 1e-7, 1.7976931348623157e308]),
    st.floats(2.0**53, 1e21).map(round).map(float),
)
CHARACTERS = st.characters(codec="utf-8")
ODD_TEXTS = (
    "", "\0", "a\0b", "\x01\x1f\x7f", "\x85\u2028\u2029", "\ufeff", "\uffff\ue000", "\U0001f600", "\U0010ffff", "é",
    "\\", '"', "'", "=1+1", "\t=1", ",;\r\n", "[REDACTED]", "null", "1e999", "150000000000000000000", "$.a", "a.b", "|",
)  # fmt: skip
TEXTS = st.one_of(
    st.text(CHARACTERS, max_size=20),
    st.sampled_from(ODD_TEXTS),
    st.sampled_from(["a" * 3_000, "é" * 700, "\0" * 200, "😀" * 130]),
)
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)


@st.composite
def deep_values(draw: st.DrawFn, levels: int) -> Any:
    """Up to the very limit of levels."""
    value: Any = draw(SCALARS)
    for is_object in draw(st.lists(st.booleans(), min_size=levels - 2, max_size=levels)):
        value = {draw(st.sampled_from(["", "k", "a.b"])): value} if is_object else [value]
    return value


def objects(levels: int) -> st.SearchStrategy[Document]:
    return st.dictionaries(TEXTS, st.integers(0, 3).flatmap(lambda n: VALUES if n else deep_values(levels)), max_size=5)


ATTRS = objects(DEPTH_MAX - 2)
"""The payload is the outermost level, attrs the next."""
WORK_PROPERTIES = objects(DEPTH_MAX - 3).filter(lambda said: len(canonical_bytes(said)) < NODE_BYTES_MAX // 2)
WORK_STATES = VALUES.filter(lambda said: len(canonical_bytes(said)) < NODE_BYTES_MAX // 3)
PROPERTIES = st.dictionaries(TEXTS, st.one_of(st.booleans(), NUMBERS, TEXTS), max_size=4)
CONTENTS = st.text(CHARACTERS, max_size=60) | st.sampled_from(ODD_TEXTS)


# -- a base, and whoever reads it


class Written:
    """What was written, by id."""

    def __init__(self) -> None:
        self.nodes: dict[str, Document] = {}
        self.edges: dict[str, Document] = {}
        self.contents: dict[str, str] = {}
        self.shown: dict[str, Document] = {}
        self.joined: dict[str, Document] = {}
        self.work: dict[str, Document] = {}
        self.knowledge: dict[str, str] = {}
        self.root = self.project = self.task = ""


class ServedBase:
    def __init__(self, base: Path, portal: BlockingPortal, offer: Offer) -> None:
        self.settings = writer.settled(base)
        self.offer = offer
        self._user = app.local_user(self.settings)
        self._portal = portal
        self._number = 0

    def call(self, tool: str, **arguments: Any) -> Document:
        """As a client would: by way of JSON in both directions."""
        sent = parse(json.dumps(arguments).encode())
        outcome = self._portal.call(outcome_of, self.offer, self._user, tool, sent)
        assert isinstance(outcome, Done), (tool, arguments, outcome)
        found: Document = json.loads(outcome.encoded)
        return found

    def run(self, look: Callable[[], Awaitable[T]]) -> T:
        return self._portal.call(look)

    def fresh(self) -> str:
        self._number += 1
        return f"n{self._number}"

    def state(self) -> Any:
        async def look() -> Any:
            return await (await self.offer.store.partition(self._user)).look(dump_state)

        return self.run(look)


@contextmanager
def served(base: Path) -> Iterator[ServedBase]:
    opened = app.served(writer.settled(base))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(opened) as offer:
        yield ServedBase(base, portal, offer)


def same(found: Any, written: Any) -> None:
    assert canonical_bytes(found) == canonical_bytes(written)


# -- through the memory tools


def write_document(served_base: ServedBase, written: Written, first: Document, second: Document) -> None:
    """A node that says one thing, then another, then a bit more; and an edge that says the same."""
    node_id, anchor = served_base.fresh(), "anchor"
    served_base.call("memory.write", op="UPSERT_NODE", node={"id": node_id, "type": "thing", "attrs": first})
    before = served_base.call("memory.read", entity_id=node_id)
    same(before["entity"]["attrs"], first)
    served_base.call("memory.write", op="UPSERT_NODE", node={"id": node_id, "type": "thing", "attrs": second})
    read = served_base.call("memory.read", entity_id=node_id)["entity"]["attrs"]
    last = {**read, "more": 1}
    served_base.call("memory.write", op="UPSERT_NODE", node={"id": node_id, "type": "thing", "attrs": last})
    same(last, {**second, "more": 1})
    served_base.call(
        "memory.write", op="UPSERT_EDGE", edge={"from": node_id, "rel": "says", "to": anchor, "attrs": last}
    )
    written.nodes[node_id], written.edges[f"{node_id}|says|{anchor}"] = last, last

    same(
        served_base.call("memory.read", entity_id=node_id, as_of=before["provenance"]["lamport"])["entity"]["attrs"],
        first,
    )
    check_history(served_base, node_id, first, second, last)
    for key, value in last.items():
        if 0 < len(key) <= 128 and key.isprintable() and "." not in key and is_indexed(value):
            asked = {"type": "thing", "filters": {"attrs": {key: value}}, "fields": ["type"]}
            assert node_id in {each["id"] for each in pages(served_base, **asked)}


def is_indexed(value: Any) -> bool:
    return not isinstance(value, list | dict) and value != "[REDACTED]"


def check_history(served_base: ServedBase, node_id: str, *versions: Document) -> None:
    told = served_base.call("memory.lineage", entity_id=node_id)
    assert [step["operation"] for step in told["lineage"]] == ["CREATE_NODE", "UPDATE_NODE", "UPDATE_NODE"]
    documents = [{"type": "thing", "attrs": attrs} for attrs in versions]
    for step, old, new in zip(told["lineage"][1:], documents[:-1], documents[1:], strict=True):
        assert "changes" in step or "oversize" in step
        same(step.get("changes"), difference(old, new) if "changes" in step else None)
    current = told["entity"]["current_state"]
    same(current.get("attrs"), None if "oversize" in current else versions[-1])
    rows = list(csv.DictReader(io.StringIO(served_base.call("memory.lineage", entity_id=node_id, format="csv")["csv"])))
    created, *updated = rows
    same(json.loads(created["changes"] or "null"), None if created["oversize"] else difference({}, documents[0]))
    for row, step in zip(updated, told["lineage"][1:], strict=True):
        same(json.loads(row["changes"] or "null"), step.get("changes"))
    events = served_base.call("memory.lineage", entity_id=node_id, format="openlineage_v1")["events"]
    hashes = [
        event["outputs"][0]["facets"]["tallystick_entity"]["content_hash"] for event in events if event["outputs"]
    ]
    assert hashes == [step["content_hash"] for step in told["lineage"]]


def check_documents(served_base: ServedBase, written: Written) -> None:
    """By id, by pages of a search, along edges."""
    for node_id, attrs in written.nodes.items():
        answer = served_base.call("memory.read", entity_id=node_id, include_edges=True)
        same(answer["entity"]["attrs"], attrs)
        same(answer["edges"][0]["attrs"], written.edges[answer["edges"][0]["id"]])
    for edge_id, attrs in written.edges.items():
        same(served_base.call("memory.read", entity_id=edge_id)["entity"]["attrs"], attrs)
    for found in pages(served_base, type="thing"):
        same(found["attrs"], written.nodes[found["id"]])
    for node_id, attrs in list(written.nodes.items())[:5]:
        walked = served_base.call("memory.search", entity_id=node_id, traversal={"hops": 1})
        same(walked["paths"][0]["edges"][0]["attrs"], attrs)


def pages(served_base: ServedBase, **asked: Any) -> Iterator[Document]:
    offset: int | None = 0
    while offset is not None:
        page = served_base.call("memory.search", **asked, limit=1_000, offset=offset)
        yield from page["entities"]
        offset = page["pagination"]["next_offset"]


# -- through the other vocabularies


def write_properties(
    served_base: ServedBase, written: Written, first: Document, second: Document, content: str
) -> None:
    said = {"type": "idea", "content": content, "encoding": "utf-8", "format": "md", "properties": first}
    node_id = served_base.call("create_node", **said)["node_id"]
    served_base.call("update_node", node_id=node_id, properties=second)
    joint = {"type": "about", "from_node_id": node_id, "to_node_id": node_id, "properties": first, "content": content}
    joint_id = served_base.call("create_connection", **joint)["connection_id"]
    served_base.call("update_connection", connection_id=joint_id, properties=second)
    merged = {**first, **second}
    written.shown[node_id], written.joined[joint_id], written.contents[node_id] = merged, merged, content
    for key, value in merged.items():
        if value != "[REDACTED]":
            assert node_id in served_base.call("query_nodes", properties={key: value}, limit=1_000)["node_ids"]
            assert (
                joint_id
                in served_base.call("query_connections", properties={key: value}, limit=1_000)["connection_ids"]
            )


def check_properties(served_base: ServedBase, written: Written) -> None:
    for node_id, properties in written.shown.items():
        same(served_base.call("get_node", node_id=node_id)["properties"], properties)
        content = written.contents[node_id]
        assert served_base.call("get_node_content", node_id=node_id)["content"] == content
        if content:
            assert node_id in served_base.call("search_content", query=content[:100], limit=1_000)["node_ids"]
    for joint_id, properties in written.joined.items():
        same(served_base.call("get_connection", connection_id=joint_id)["properties"], properties)


def write_work(served_base: ServedBase, written: Written, properties: Document, state: Any) -> None:
    said = {key: value for key, value in properties.items() if value is not None}
    plan = [{"ref": "a", "parent_ref": written.root, "summary": "s", "properties": said}]
    (node_id,) = served_base.call("graph_plan", nodes=plan)["created"]
    node_id = node_id["id"]
    served_base.call("graph_update", updates=[{"node_id": node_id, "state": state, "properties": {"more": 1}}])
    written.work[node_id] = {"properties": {**said, "more": 1}, "state": state}


def check_work(served_base: ServedBase, written: Written) -> None:
    for node_id, said in written.work.items():
        found = served_base.call("graph_context", node_id=node_id)["node"]
        same(found["properties"], said["properties"])
        same(found.get("state"), said["state"])
        served_base.call("graph_history", node_id=node_id)


def write_knowledge(served_base: ServedBase, written: Written, text: str) -> None:
    said = {"operation": "create", "entityType": "atom", "projectId": written.project, "paths": ["src/**"]}
    said |= {"createdByTaskId": written.task, "name": served_base.fresh(), "knowledge": text}
    atom = served_base.call("manage_graph", **said)["data"]["atom"]
    written.knowledge[atom["id"]] = text.strip()


def check_knowledge(served_base: ServedBase, written: Written) -> None:
    for atom_id, text in written.knowledge.items():
        found = served_base.call("query_graph", operation="get", entityType="atom", id=atom_id)
        assert found["data"]["atom"]["knowledge"] == text


# -- through what lies on the disk


def check_files(base: Path, written: Written) -> None:
    registry = json.loads((base / "_system" / "registry.json").read_bytes())
    for kind, expected in (("nodes", written.shown), ("connections", written.joined)):
        assert set(expected) <= set(registry[kind])
        for entity_id, properties in expected.items():
            same(registry[kind][entity_id]["properties"], properties)
    for node_id, content in written.contents.items():
        path = base / registry["nodes"][node_id]["content"]["path"]
        assert path.read_bytes() == content.encode()


def check_database(base: Path, written: Written) -> None:
    with closing(sqlite3.connect(base / "graph.db")) as db:
        for table, expected in (("nodes", written.nodes | written.shown), ("edges", written.edges | written.joined)):
            found = dict(db.execute(f"SELECT id, attrs FROM {table}"))
            for entity_id, attrs in expected.items():
                same(json.loads(found[entity_id]), attrs)
            assert db.execute(f"SELECT count(*) FROM {table} WHERE NOT json_valid(attrs)").fetchone() == (0,)
        contents = dict(db.execute("SELECT id, content FROM nodes WHERE content IS NOT NULL"))
        assert {node_id: contents[node_id] for node_id in written.contents} == written.contents


def check_rest(served_base: ServedBase, written: Written) -> None:
    async def read_all() -> dict[str, Document]:
        transport = httpx2.ASGITransport(http_app(served_base.offer))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            answers = {}
            for node_id in written.nodes:
                answer = await http.post("/v1/tools/memory.read", json={"entity_id": node_id})
                answers[node_id] = json.loads(answer.content)["entity"]["attrs"]
            return answers

    for node_id, attrs in served_base.run(read_all).items():
        same(attrs, written.nodes[node_id])


def check_everything(served_base: ServedBase, written: Written) -> None:
    check_documents(served_base, written)
    check_properties(served_base, written)
    check_work(served_base, written)
    check_knowledge(served_base, written)


@promise("L7, every reader", "whatever is accepted is given back equal by every reader there is")
@pytest.mark.timeout(120)
def test_whatever_is_accepted_is_given_back_equal_by_every_reader(tmp_path: Path) -> None:
    base, written = tmp_path / "base", Written()
    with served(base) as served_base:
        prepare(served_base, written)

        @tries(80)
        @given(ATTRS, ATTRS)
        @example({"mass": 1.5e20, "list": [2.95e20, -1.5e20, {"": 1e17}]}, {"mass": -2.95e20})
        def documents(first: Document, second: Document) -> None:
            write_document(served_base, written, first, second)

        @tries(40)
        @given(PROPERTIES, PROPERTIES, CONTENTS)
        @example({"mass": 1.5e20}, {"": -2.95e20}, "1.5e20")
        def properties(first: Document, second: Document, content: str) -> None:
            write_properties(served_base, written, first, second, content)

        @tries(40)
        @given(WORK_PROPERTIES, WORK_STATES, CONTENTS)
        @example({"mass": 1.5e20}, [2.95e20], "text")
        def vocabularies(first: Document, state: Any, text: str) -> None:
            write_work(served_base, written, first, state)
            if text.strip():
                write_knowledge(served_base, written, text)

        documents()
        properties()
        vocabularies()
        check_everything(served_base, written)
        check_rest(served_base, written)
        live = served_base.state()
    check_files(base, written)
    check_database(base, written)
    shell = CommandLine(base)
    assert shell.run("verify", "--views").code == 0
    shell.run("export", tmp_path / "backup.jsonl")
    asyncio.run(take_snapshot(app.operation_context(writer.settled(base))))
    with served(base) as begun:
        assert begun.state() == live
        check_everything(begun, written)
    copied, again = tmp_path / "copied", tmp_path / "again"
    CommandLine(copied).run("import", tmp_path / "backup.jsonl")
    with served(copied) as served_base:
        assert served_base.state() == live
        check_everything(served_base, written)
    # The lines of other toolsets are written by their own rules, not again.
    lines = (tmp_path / "backup.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "part.jsonl").write_bytes(b"".join(line for line in lines if b'"tool":"memory.write"' in line))
    CommandLine(again).run("import", tmp_path / "part.jsonl", "--replay")
    with served(again) as served_base:
        check_documents(served_base, written)


def prepare(served_base: ServedBase, written: Written) -> None:
    served_base.call("memory.write", op="UPSERT_NODE", node={"id": "anchor", "type": "anchor", "attrs": {}})
    about = {"name": "about", "from_types": ["idea"], "to_types": ["idea"]}
    served_base.call("create_ontology", node_types=["idea"], connection_types=[about])
    written.root = served_base.call("graph_open", project="p", goal="g")["root"]["id"]
    made = served_base.call("manage_container", operation="create", containerType="project", name="q", summary="s")
    written.project = made["data"]["project"]["id"]
    card = {"operation": "create", "containerType": "task", "title": "t", "priority": "LOW", "complexity": 1}
    made = served_base.call("manage_container", **card, projectId=written.project, summary="s")
    written.task = made["data"]["task"]["id"]
