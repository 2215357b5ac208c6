"""What may not be read is as if it were not there: two memories that differ only in it answer every call alike.

Bob's things are in both. In one of them there are also Alice's, in and around his: below his nodes, between his
edges, in his files. The same calls are made in both, one after the other, and each must be answered by the same
bytes, but for positions, hashes and times. Where that cannot be so, the call says why it is an exception.
"""

from __future__ import annotations

import asyncio
import random
import re
import secrets
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

import msgspec
import orjson
import pytest

from tallystick import app
from tallystick.audit.writer import AuditWriter
from tallystick.config import Settings, load
from tallystick.policy import Action, Decision, Policy, Principal, Request
from tallystick.policy.cache import Cache
from tallystick.policy.gate import Gate
from tallystick.server import Offer
from tallystick.server.dispatch import Broken, Done, OfferedTool, call
from tallystick.server.resources import Address, Caller, NoSuchResource, Resources
from tallystick.server.subscriptions import LIST_CHANGED, Subscriber
from tallystick.state.state import State
from tallystick.toolsets.browse import Choice
from tests.policy.gated_partition import AwaitedPolicy
from tests.promises import promise

Said = dict[str, Any]
BOB, ALICE = Principal(actor="bob"), Principal(actor="alice")
HIDES: dict[str, Callable[[Request, Memory], bool]] = {
    "by owner": lambda request, memory: reads(request) and request.resource_owner == "alice",
    "by id": lambda request, memory: reads(request) and request.resource in memory.secrets,
    "by type": lambda request, memory: reads(request) and request.resource_type in ("secret", "book"),
    "from all that he does": lambda request, memory: request.resource_owner == "alice",
}


def reads(request: Request) -> bool:
    return request.action is Action.READ


# -- ids that are the same in both, whatever else was made meanwhile

_ids: ContextVar[random.Random | None] = ContextVar("_ids", default=None)
_uuid4, _choice = uuid.uuid4, secrets.choice


def _made_uuid() -> uuid.UUID:
    numbers = _ids.get()
    return _uuid4() if numbers is None else uuid.UUID(int=numbers.getrandbits(128), version=4)


def _made_choice(signs: Any) -> Any:
    numbers = _ids.get()
    return _choice(signs) if numbers is None else numbers.choice(signs)


class Memory:
    def __init__(self, offer: Offer, numbers: dict[str, random.Random]) -> None:
        self.offer = offer
        self.names: dict[str, str] = {}
        self.secrets: frozenset[str] = frozenset()
        """The ids of the nodes that are hers."""
        self.open = True
        """While everybody writes what there is."""
        self._numbers = numbers

    async def ask(self, who: Principal, tool: str, asked: Said) -> Said:
        _ids.set(self._numbers[who.actor])
        outcome = await call(self.offer.tools.get(tool), asked, self.offer.store, lambda: who)
        assert not isinstance(outcome, Broken), (tool, asked, outcome)
        if isinstance(outcome, Done):
            said = outcome.text if outcome.text and not outcome.text.startswith("{") else None
            told = {"data": outcome.data, "text": said}
        else:
            told = {"refused": outcome.shape}
        return orjson.loads(orjson.dumps(told))  # type: ignore[no-any-return]

    async def make(self, who: Principal, name: str, tool: str, /, **asked: Any) -> None:
        told = await self.ask(who, tool, self.named(asked))
        assert "data" in told, (tool, asked, told)
        for key, found in _ids_in(told["data"], name):
            self.names.setdefault(key, found)

    def named(self, asked: Any) -> Any:
        """With ids where names stand in braces."""
        if isinstance(asked, dict):
            return {key: self.named(value) for key, value in asked.items()}
        if isinstance(asked, list):
            return [self.named(value) for value in asked]
        return re.sub(r"\{([\w ]+)\}", self._id_of, asked) if isinstance(asked, str) else asked

    def _id_of(self, found: re.Match[str]) -> str:
        """Of what was not made in either: an id that nobody has."""
        return self.names.get(found[1]) or sha256(found[1].encode()).hexdigest()[:32]


def _ids_in(told: Said, name: str) -> list[tuple[str, str]]:
    """What was made, by its name; of several by their refs, and the root of a project by ` root`."""
    if "created" in told and isinstance(told["created"], list):
        return [(each["ref"], each["id"]) for each in told["created"]]
    if "root" in told:
        return [(name, told["root"]["id"])]
    inner = told.get("data", told)
    for each in (inner, *(value for value in inner.values() if isinstance(value, dict))):
        for key in ("id", "node_id", "connection_id"):
            if isinstance(each.get(key), str):
                return [(name, each[key])]
    return []


# -- what there is


async def _mine(memory: Memory) -> None:
    async def make(name: str, tool: str, /, **asked: Any) -> None:
        await memory.make(BOB, name, tool, **asked)

    for name, kind in (("plan", "note"), ("goal", "note")):
        await make(name, "memory.write", op="UPSERT_NODE", node={"id": name, "type": kind, "attrs": {"said": name}})
    await make("", "memory.write", op="UPSERT_EDGE", edge={"from": "plan", "rel": "leads_to", "to": "goal"})
    sign = {"said": "sign", "stale_after": "2020-01-01", "supersedes": ["old sign", "h"], "cites": ["sign.md"]}
    for name, attrs in (("old sign", {}), ("sign", sign)):
        await make(name, "memory.write", op="UPSERT_NODE", node={"id": name, "type": "note", "attrs": attrs})
    joins = [{"name": "cites", "from_types": ["page"], "to_types": ["page", "book"]}]
    await make("", "create_ontology", node_types=["page", "book"], connection_types=joins)
    content = {"content": "otter and weasel", "encoding": "utf-8", "format": "md", "properties": {"by": "x"}}
    for name in ("page", "other page"):
        await make(name, "create_node", type="page", **content)
    ends = {"from_node_id": "{page}", "to_node_id": "{other page}"}
    await make("connection", "create_connection", type="cites", **ends, content="otter", format="md")
    await make("root", "graph_open", project="bridge", goal="build it")
    nodes = [{"ref": ref, "parent_ref": "{root}", "summary": f"step {ref}"} for ref in ("dig", "pour", "lay", "paint")]
    await make("", "graph_plan", nodes=[*nodes, {"ref": "sand", "parent_ref": "lay", "summary": "below"}])
    await make("", "graph_connect", edges=[{"from": "{pour}", "to": "{dig}", "type": "depends_on"}])
    kinds = {"operation": "create", "containerType": "project", "name": "Shop", "summary": "shop"}
    await make("shop", "manage_container", **kinds)
    card: Said = {"operation": "create", "summary": "x", "priority": "HIGH", "projectId": "{shop}", "tags": ["both"]}
    await make("feature", "manage_container", containerType="feature", name="Till", **card)
    await make("bare feature", "manage_container", containerType="feature", name="Bare", **card)
    card |= {"containerType": "task", "complexity": 3}
    for name in ("task", "later", "last"):
        await make(name, "manage_container", title=name, featureId="{feature}", **card)
    await make("loose", "manage_container", title="loose", **card)
    section = {"operation": "add", "entityType": "TASK", "entityId": "{task}", "usageDescription": "x"}
    for name in ("section", "second section"):
        await make(name, "manage_sections", title=name, content="src/a.ts", **section)
    template = {"operation": "create", "description": "x", "targetEntityType": "TASK"}
    await make("template", "manage_template", name="Checklist", **template)
    known = {"operation": "create", "projectId": "{shop}", "knowledge": "x", "createdByTaskId": "{task}"}
    await make("molecule", "manage_graph", entityType="molecule", name="tills", **known)
    await make("atom", "manage_graph", entityType="atom", name="a", paths=["src/**"], moleculeId="{molecule}", **known)
    entry = {"operation": "append", "parentType": "atom", "parentId": "{atom}", "taskId": "{task}", "summary": "x"}
    await make("entry", "manage_changelog", **entry)
    await make("", "create", path="notes/mine.txt", file_text="one\ntwo\n")


async def _hers(memory: Memory) -> None:
    async def make(name: str, tool: str, /, **asked: Any) -> None:
        await memory.make(ALICE, name, tool, **asked)

    for name in ("h", "deeper"):
        attrs = {"said": "x", "supersedes": ["plan", "{page}", "{dig}", "sign"], "stale_after": "2020-01-01"}
        await make("", "memory.write", op="UPSERT_NODE", node={"id": name, "type": "secret", "attrs": attrs})
    for number, (source, target) in enumerate([("plan", "h"), ("h", "goal"), ("h", "deeper"), ("deeper", "plan")]):
        edge = {"from": source, "rel": "leads_to", "to": target, "id": f"e{number}"}
        await make("", "memory.write", op="UPSERT_EDGE", edge=edge)
        await make("", "memory.write", op="UPSERT_EDGE", edge={key: edge[key] for key in ("from", "rel", "to")})
    content = {"content": "otter otter zebra", "encoding": "utf-8", "format": "md", "properties": {"by": "x"}}
    await make("h book", "create_node", type="book", **content)
    ends = {"from_node_id": "{page}", "to_node_id": "{h book}"}
    await make("h connection", "create_connection", type="cites", **ends, content="otter", format="md")
    await make("", "create_connection", type="cites", from_node_id="{other page}", to_node_id="{h book}")


async def _hers_elsewhere(memory: Memory) -> None:
    """Of types that are his, too."""

    async def make(name: str, tool: str, /, **asked: Any) -> None:
        await memory.make(ALICE, name, tool, **asked)

    content = {"content": "otter otter zebra", "encoding": "utf-8", "format": "md", "properties": {"by": "x"}}
    await make("h page", "create_node", type="page", **content)
    await make("", "create_connection", type="cites", from_node_id="{page}", to_node_id="{h page}")
    await make("h root", "graph_open", project="tunnel", goal="dig it")
    nodes = [{"ref": f"h {ref}", "parent_ref": f"{{{ref}}}", "summary": "step"} for ref in ("root", "paint", "sand")]
    await make("", "graph_plan", nodes=[{**each, "ref": each["ref"].replace("root", "step")} for each in nodes])
    edges = [("{pour}", "{h step}"), ("{paint}", "{h step}"), ("{h step}", "{sand}"), ("{h sand}", "{dig}")]
    waits = [{"from": source, "to": target, "type": "depends_on"} for source, target in edges]
    await make("", "graph_connect", edges=[*waits, {"from": "{dig}", "to": "{h step}", "type": "relates_to"}])
    kinds = {"operation": "create", "containerType": "project", "name": "Mine", "summary": "shop", "tags": ["both"]}
    await make("h shop", "manage_container", **kinds)
    card: Said = {"operation": "create", "summary": "x", "priority": "HIGH", "tags": ["both", "hers"]}
    await make("h feature", "manage_container", containerType="feature", name="Till", projectId="{shop}", **card)
    card |= {"containerType": "task", "complexity": 1, "title": "hers"}
    await make("h task", "manage_container", featureId="{feature}", **card)
    await make("", "manage_container", featureId="{bare feature}", **card)
    await make("h loose", "manage_container", projectId="{shop}", **card)
    edges = [("{later}", "{h task}"), ("{h task}", "{task}"), ("{feature}", "{h feature}")]
    waits = [{"from": source, "to": target, "type": "depends_on"} for source, target in edges]
    await make("", "graph_connect", edges=[*waits, {"from": "{h task}", "to": "{task}", "type": "relates_to"}])
    section = {"operation": "add", "entityType": "TASK", "entityId": "{task}", "usageDescription": "x"}
    await make("h section", "manage_sections", title="Context Files", content="- src/hers.ts", **section)
    template = {"operation": "create", "description": "x", "targetEntityType": "TASK", "tags": ["both"]}
    await make("h template", "manage_template", name="Hers", **template)
    known = {"operation": "create", "projectId": "{shop}", "knowledge": "x", "createdByTaskId": "{h task}"}
    await make("h molecule", "manage_graph", entityType="molecule", name="hers", **known)
    paths = ["src/**", "hers/**"]
    await make("h atom", "manage_graph", entityType="atom", name="h", paths=paths, moleculeId="{molecule}", **known)
    entry = {"operation": "append", "parentType": "atom", "parentId": "{atom}", "taskId": "{h task}", "summary": "x"}
    await make("h entry", "manage_changelog", **entry)


# -- what is asked

Call = tuple[str, Said]


def _version(kind: str, name: str, version: int) -> Said:
    return {"containerType": kind, "id": f"{{{name}}}", "version": version}


def _depends(source: str, target: str, **more: Any) -> Said:
    return {"from": source, "to": target, "type": "depends_on", **more}


def _noted(name: str) -> dict[str, Any]:
    return {"op": "UPSERT_NODE", "node": {"id": name, "type": "note", "attrs": {}}}


def _edge(source: str, target: str, **more: Any) -> Said:
    return {"from": source, "rel": "leads_to", "to": target, **more}


def _reads() -> list[Call]:
    found: list[Call] = [
        ("memory.why", {"file": "src/a.py"}),
        *(
            ("hook.context", {"event": event, "session_id": "s", "prompt": "otter zebra goal", "paths": ["src/a.py"]})
            for event in ("session-start", "before-tool", "prompt", "stop", "before-compact", "session-start")
        ),
        ("memory.read", {"entity_id": "plan", "include_edges": True}),
        ("memory.read", {"entity_id": "plan|leads_to|h"}),
        *(("memory.read", {"entity_id": name}) for name in ("sign", "old sign")),
        ("memory.read", {"entity_id": "e2"}),
        ("memory.search", {}),
        ("memory.search", {"type": "secret"}),
        ("memory.search", {"entity_id": "plan", "traversal": {"hops": 3, "direction": "both"}}),
        ("memory.search", {"entity_id": "plan", "traversal": {"closure": True, "direction": "both"}}),
        *(
            ("memory.search", {"entity_id": "plan", "traversal": {"to": target, "direction": "both", **length}})
            for target in ("goal", "sign", "h", "deeper", "nobody")
            for length in ({}, {"hops": 2}, {"hops": 3, "min_hops": 1})
        ),
        *(
            ("memory.search", {"query": words})
            for words in ("otter", "otter zebra", "zebra", "h", "step", "leads to h")
        ),
        *(
            ("memory.search", {"query": "goal otter step x", "limit": 50, **narrowed})
            for narrowed in (
                {},
                {"type": "leads_to"},
                {"as_of": 25},
                {"attrs": {"by": "x"}},
                {"scope": {"around": "plan", "hops": 3}},
                {"scope": {"around": "h", "hops": 1}},
                {"scope": {"project": "Shop"}},
                {"scope": {"project": "tunnel"}},
                {"scope": {"vocabulary": "ontology"}},
                {"entity_id": "plan", "traversal": {"hops": 3, "direction": "both"}},
            )
        ),
        ("memory.search", {"scope": {"project": "Shop"}}),
        ("memory.search", {"facets": True}),
        ("memory.search", {"facets": True, "type": "secret"}),
        ("memory.search", {"facets": True, "type": "page"}),
        ("memory.lineage", {"entity_id": "plan", "depth": "full"}),
        ("memory.lineage", {"entity_id": "plan", "depth": "summary"}),
        ("memory.lineage", {"entity_id": "e2"}),
        ("graph_open", {}),
        ("graph_open", {"project": "bridge"}),
        ("graph_onboard", {"project": "bridge"}),
        ("graph_onboard", {}),
        ("graph_next", {"project": "bridge", "count": 10}),
        ("graph_next", {"project": "bridge", "scope": "{lay}"}),
        ("graph_next", {"project": "bridge", "scope": "{h step}"}),
        ("graph_next", {"project": "tunnel"}),
        ("graph_next", {"project": "nothing"}),
        *(("graph_context", {"node_id": f"{{{name}}}", "depth": 3}) for name in ("root", "dig", "pour", "sand")),
        *(("graph_history", {"node_id": f"{{{name}}}"}) for name in ("root", "dig", "pour")),
        *(("graph_query", {"project": "bridge", "sort": sort}) for sort in ("readiness", "depth", "recent", "created")),
        *(
            ("graph_query", {"project": "bridge", "filter": {name: answer}})
            for name in ("is_blocked", "is_actionable", "is_leaf", "resolved")
            for answer in (True, False)
        ),
        ("graph_query", {"project": "bridge", "filter": {"ancestor": "{h step}"}}),
        ("graph_query", {"project": "tunnel"}),
        ("query_graph", {"operation": "get", "entityType": "atom", "id": "{atom}", "includeChangelog": True}),
        ("query_graph", {"operation": "get", "entityType": "molecule", "id": "{molecule}"}),
        *(
            ("query_graph", {"operation": "search", "entityType": kind, "projectId": f"{{{shop}}}"})
            for kind in ("atom", "molecule")
            for shop in ("shop", "h shop")
        ),
        ("query_graph", {"operation": "search", "entityType": "atom", "projectId": "{shop}", "orphansOnly": True}),
        ("query_graph", {"operation": "context", "projectId": "{shop}", "paths": "src/a.ts,hers/x.ts"}),
        ("query_graph", {"operation": "context", "projectId": "tunnel", "paths": "src/a.ts"}),
        ("manage_changelog", {"operation": "search", "parentType": "atom", "parentId": "{atom}"}),
        *(
            ("query_container", {"operation": operation, "containerType": kind, "id": f"{{{name}}}"})
            for operation in ("get", "overview")
            for kind, name in (("project", "shop"), ("feature", "feature"), ("task", "task"), ("task", "later"))
        ),
        (
            "query_container",
            {
                "operation": "get",
                "containerType": "task",
                "id": "{task}",
                "includeSections": True,
                "includeGraphContext": True,
            },
        ),
        *(
            ("query_container", {"operation": "search", "containerType": kind})
            for kind in ("project", "feature", "task")
        ),
        ("query_container", {"operation": "search", "containerType": "task", "featureId": "{h feature}"}),
        ("query_container", {"operation": "search", "containerType": "task", "projectId": "{h shop}"}),
        ("query_sections", {"entityType": "TASK", "entityId": "{task}"}),
        ("query_sections", {"entityType": "TASK", "entityId": "{task}", "sectionIds": ["{h section}"]}),
        *(("query_dependencies", {"containerType": "task", "id": f"{{{name}}}"}) for name in ("task", "later")),
        *(("query_workflow_state", {"containerType": "task", "id": f"{{{name}}}"}) for name in ("task", "later")),
        ("query_workflow_state", {"containerType": "feature", "id": "{feature}"}),
        ("get_next_task", {}),
        ("get_next_task", {"featureId": "{feature}"}),
        ("get_next_task", {"featureId": "{h feature}"}),
        ("get_next_feature", {}),
        ("get_next_feature", {"projectId": "{h shop}"}),
        ("get_blocked_tasks", {}),
        ("get_blocked_features", {}),
        ("query_templates", {"operation": "list"}),
        ("list_tags", {}),
        ("get_tag_usage", {"tag": "both"}),
        ("get_tag_usage", {"tag": "hers"}),
        ("rename_tag", {"oldTag": "both", "newTag": "y", "dryRun": True}),
        ("get_node", {"node_id": "{page}"}),
        ("get_node_content", {"node_id": "{page}"}),
        ("get_connection", {"connection_id": "{connection}", "include_content": True}),
        ("get_connection", {"connection_id": "{h connection}"}),
        ("query_nodes", {}),
        ("query_nodes", {"type": "book"}),
        ("query_connections", {}),
        ("query_connections", {"to_node_id": "{h page}"}),
        ("get_connected_nodes", {"node_id": "{page}", "direction": "both"}),
        ("search_content", {"query": "otter"}),
        ("search_content", {"query": "zebra"}),
        ("search_content", {"query": "otter weasel zebra", "mode": "ranked"}),
        ("get_ontology", {}),
        ("validate_connection", {"connection_type": "cites", "from_node_type": "page", "to_node_type": "book"}),
        *(("view", {"path": path}) for path in ("", "_content/nodes", "_content/connections", "_system/registry.json")),
        ("view", {"path": "_content/nodes/{page}.md"}),
        ("view", {"path": "_content/connections/{h connection}.md"}),
        ("view", {"path": "notes/mine.txt"}),
    ]
    return found


def _writes() -> list[Call]:
    card: Said = {"operation": "create", "containerType": "task", "title": "new", "summary": "x", "priority": "LOW"}
    card |= {"complexity": 9}
    section = {"usageDescription": "x", "content": "y", "title": "z"}
    known = {"operation": "create", "entityType": "atom", "name": "n", "knowledge": "k", "paths": ["lib/**"]}
    found: list[Call] = [
        *(
            ("memory.write", {"op": "UPSERT_EDGE", "edge": _edge(*ends)})
            for ends in (("plan", "h"), ("h", "plan"), ("h", "deeper"), ("h", "absent"))
        ),
        *(
            ("memory.write", {"op": op, **named, **({"reason": "x"} if op == "REDACT_EDGE" else {})})
            for op in ("DELETE_EDGE", "REDACT_EDGE")
            for named in (
                {"edge_id": "e0"},
                {"edge_id": "e2"},
                {"edge": _edge("plan", "h")},
                {"edge": _edge("h", "deeper")},
            )
        ),
        ("memory.write", {"op": "UPSERT_NODE", "node": {"id": "plan", "type": "note", "attrs": {"said": "again"}}}),
        *(
            ("memory.write", {"op": "PATCH_NODE", "node": {"id": name, "attrs": attrs}})
            for name in ("sign", "h", "absent")
            for attrs in ({"verified": True}, {"supersedes": ["h", "deeper"]}, {"stale_after": "soon"})
        ),
        *(
            ("memory.write", {"op": "PATCH_EDGE", "edge": {**_edge(*ends), **named, "attrs": {"since": 1}}})
            for ends in (("plan", "h"), ("h", "deeper"), ("h", "absent"), ("plan", "goal"))
            for named in ({}, {"id": "e0"})
        ),
        *(
            ("memory.write", {**changed, "if_commit": "0" * 12})
            for name in ("h", "absent", "plan")
            for changed in (
                {"op": "UPSERT_NODE", "node": {"id": name, "type": "note", "attrs": {}}},
                {"op": "PATCH_NODE", "node": {"id": name, "attrs": {}}},
                {"op": "DELETE_NODE", "node_id": name},
            )
        ),
        *(
            ("memory.write", {"ops": [_noted("fresh"), last]})
            for last in (
                {"op": "PATCH_NODE", "node": {"id": "h", "attrs": {"said": "x"}}},
                {"op": "UPSERT_EDGE", "edge": _edge("fresh", "h")},
                {"op": "PATCH_EDGE", "edge": {**_edge("plan", "h"), "attrs": {}}},
                {"op": "DELETE_EDGE", "edge_id": "e0"},
            )
        ),
        ("memory.write", {"ops": [_noted("plan"), _noted("fresh"), {"op": "DELETE_NODE", "node_id": "sign"}]}),
        ("memory.write", {"op": "REDACT_NODE", "node_id": "plan", "reason": "x", "redacted_fields": ["attrs.said"]}),
        ("memory.write", {"op": "REDACT_NODE", "node_id": "plan", "reason": "x", "nonce": "r"}),
        ("memory.write", {"op": "REDACT_NODE", "node_id": "plan", "reason": "x", "nonce": "r"}),
        ("memory.write", {"op": "DELETE_NODE", "node_id": "plan", "nonce": "d"}),
        ("memory.write", {"op": "DELETE_NODE", "node_id": "plan", "nonce": "d"}),
        ("memory.write", {"op": "DELETE_NODE", "node_id": "goal"}),
        *(
            ("create_connection", {"type": "cites", "from_node_id": "{page}", "to_node_id": f"{{{end}}}"})
            for end in ("h page", "h book", "h root")
        ),
        ("create_connection", {"type": "cites", "from_node_id": "{h page}", "to_node_id": "{page}"}),
        ("update_connection", {"connection_id": "{h connection}", "properties": {"a": 1}}),
        ("update_connection", {"connection_id": "{connection}", "properties": {"a": 1}}),
        ("delete_connection", {"connection_id": "{h connection}"}),
        ("create_node", {"type": "page", "content": "x", "encoding": "utf-8", "format": "md"}),
        ("create_node", {"type": "none", "content": "x", "encoding": "utf-8", "format": "md"}),
        ("update_node", {"node_id": "{page}", "properties": {"b": 2}}),
        ("add_node_type", {"type_name": "secret"}),
        ("add_node_type", {"type_name": "note"}),
        ("add_connection_type", {"type_name": "leads_to", "from_types": ["page"], "to_types": ["page"]}),
        ("create_ontology", {"node_types": ["note"], "connection_types": []}),
        ("str_replace", {"path": "_content/connections/{h connection}.md", "old_str": "otter", "new_str": "x"}),
        ("str_replace", {"path": "_content/nodes/{page}.md", "old_str": "otter", "new_str": "x"}),
        ("insert", {"path": "notes/mine.txt", "insert_line": 1, "insert_text": "x"}),
        ("create", {"path": "notes/new.txt", "file_text": "x"}),
        ("rename", {"old_path": "notes/new.txt", "new_path": "notes/old.txt"}),
        ("delete", {"path": "notes/old.txt"}),
        ("delete_connection", {"connection_id": "{connection}"}),
        ("delete_node", {"node_id": "{page}"}),
        *_named_by_id(),
        # -- work
        ("graph_plan", {"nodes": [{"ref": "new", "parent_ref": "{h step}", "summary": "x"}]}),
        ("graph_plan", {"nodes": [{"ref": "new", "parent_ref": "{root}", "summary": "x", "depends_on": ["{h step}"]}]}),
        ("graph_plan", {"nodes": [{"ref": "new", "summary": "x", "depends_on": ["{h step}"]}]}),
        ("graph_plan", {"nodes": [{"ref": "new", "summary": "x"}]}),
        ("graph_plan", {"nodes": [{"ref": "more", "parent_ref": "{root}", "summary": "x", "depends_on": ["{dig}"]}]}),
        *(
            ("graph_connect", {"edges": [_depends(*ends)]})
            for ends in (("{dig}", "{h step}"), ("{h step}", "{dig}"), ("{pour}", "{h step}"), ("{lay}", "{pour}"))
        ),
        *(
            ("graph_connect", {"edges": [_depends(*ends, remove=True)]})
            for ends in (("{pour}", "{h step}"), ("{lay}", "{pour}"))
        ),
        ("graph_connect", {"edges": [_depends("{h step}", "{h sand}", remove=True)]}),
        (
            "graph_update",
            {"updates": [{"node_id": "{h step}", "resolved": True}, {"node_id": "{dig}", "summary": "y"}]},
        ),
        (
            "graph_update",
            {"updates": [{"node_id": "{sand}", "resolved": True, "add_evidence": [{"type": "t", "ref": "r"}]}]},
        ),
        (
            "graph_update",
            {"updates": [{"node_id": "{dig}", "resolved": True, "add_evidence": [{"type": "t", "ref": "r"}]}]},
        ),
        ("graph_next", {"project": "bridge", "claim": True, "count": 2}),
        ("graph_restructure", {"operations": [{"op": "move", "node_id": "{lay}", "new_parent": "{h step}"}]}),
        ("graph_restructure", {"operations": [{"op": "move", "node_id": "{lay}", "new_parent": "{dig}"}]}),
        ("graph_restructure", {"operations": [{"op": "merge", "source": "{lay}", "target": "{h step}"}]}),
        ("graph_restructure", {"operations": [{"op": "drop", "node_id": "{paint}", "reason": "x"}]}),
        ("graph_restructure", {"operations": [{"op": "merge", "source": "{pour}", "target": "{paint}"}]}),
        ("graph_open", {"project": "pier", "goal": "x"}),
        # -- tasks
        ("manage_container", {**card, "projectId": "{h shop}"}),
        ("manage_container", {**card, "featureId": "{h feature}"}),
        ("manage_container", {**card, "projectId": "{shop}", "featureId": "{h feature}"}),
        ("manage_container", {**card, "projectId": "{shop}", "relatedTo": ["{h task}"]}),
        ("manage_container", {**card, "projectId": "{shop}", "relatedTo": ["{task}"]}),
        ("manage_container", {"operation": "update", **_version("task", "later", 1), "title": "renamed"}),
        ("manage_container", {"operation": "update", **_version("task", "later", 1), "title": "late"}),
        ("manage_container", {"operation": "update", **_version("task", "later", 2), "relatedTo": ["{h task}"]}),
        ("manage_container", {"operation": "update", **_version("task", "later", 2), "featureId": "{h feature}"}),
        ("block", {**_version("task", "later", 2), "blockedBy": ["{h task}"]}),
        ("block", {**_version("task", "last", 1), "blockedBy": ["{task}"]}),
        ("unblock", {**_version("task", "later", 2), "blockedBy": ["{h task}"]}),
        ("manage_dependency", {"operation": "create", "fromId": "{h task}", "toId": "{later}"}),
        ("manage_dependency", {"operation": "delete", "fromId": "{h task}", "toId": "{later}"}),
        ("manage_dependency", {"operation": "create", "fromId": "{task}", "toId": "{h task}", "type": "RELATES_TO"}),
        ("advance", _version("task", "later", 2)),
        ("revert", _version("task", "later", 3)),
        ("advance", _version("task", "task", 1)),
        ("advance", _version("task", "task", 2)),
        ("terminate", {**_version("task", "loose", 1), "reason": "x"}),
        ("advance", _version("feature", "feature", 2)),
        ("manage_sections", {"operation": "add", "entityType": "TASK", "entityId": "{task}", **section}),
        ("manage_sections", {"operation": "add", "entityType": "TASK", "entityId": "{task}", **section, "ordinal": 2}),
        ("manage_sections", {"operation": "reorder", "entityType": "TASK", "entityId": "{later}", "orderedIds": []}),
        (
            "manage_sections",
            {
                "operation": "reorder",
                "entityType": "TASK",
                "entityId": "{task}",
                "orderedIds": ["{second section}", "{section}"],
            },
        ),
        ("manage_sections", {"operation": "bulkDelete", "sectionIds": ["{h section}", "{section}"]}),
        (
            "manage_template",
            {
                "operation": "addSection",
                "id": "{template}",
                "title": "t",
                "usageDescription": "u",
                "contentSample": "c",
            },
        ),
        ("apply_template", {"templateId": "{h template}", "entityType": "TASK", "entityId": "{later}"}),
        ("apply_template", {"templateId": "{template}", "entityType": "TASK", "entityId": "{later}"}),
        ("rename_tag", {"oldTag": "both", "newTag": "z"}),
        ("rename_tag", {"oldTag": "hers", "newTag": "his"}),
        # -- knowledge
        ("manage_graph", {**known, "projectId": "{h shop}", "createdByTaskId": "{task}"}),
        ("manage_graph", {**known, "projectId": "{shop}", "createdByTaskId": "{h task}"}),
        ("manage_graph", {**known, "projectId": "{shop}", "createdByTaskId": "{task}", "moleculeId": "{h molecule}"}),
        (
            "manage_graph",
            {
                **known,
                "projectId": "{shop}",
                "createdByTaskId": "{task}",
                "relatedAtoms": [{"atomId": "{h atom}", "reason": "r"}],
            },
        ),
        ("manage_graph", {**known, "projectId": "{shop}"}),
        (
            "manage_graph",
            {"operation": "update", "entityType": "atom", "id": "{atom}", "version": 1, "moleculeId": "{h molecule}"},
        ),
        (
            "manage_graph",
            {"operation": "update", "entityType": "atom", "id": "{atom}", "version": 1, "lastTaskId": "{h task}"},
        ),
        ("manage_graph", {"operation": "update", "entityType": "atom", "id": "{atom}", "version": 1, "name": "b"}),
        (
            "manage_changelog",
            {
                "operation": "append",
                "parentType": "molecule",
                "parentId": "{molecule}",
                "taskId": "{h task}",
                "summary": "s",
            },
        ),
        (
            "manage_changelog",
            {
                "operation": "append",
                "parentType": "molecule",
                "parentId": "{molecule}",
                "taskId": "{task}",
                "summary": "s",
            },
        ),
        ("manage_graph", {"operation": "delete", "entityType": "molecule", "id": "{molecule}", "version": 1}),
        ("manage_graph", {"operation": "delete", "entityType": "atom", "id": "{atom}", "version": 2}),
    ]
    return found


def _named_by_id() -> list[Call]:
    """What is hers, by its id."""
    return [
        ("update_node", {"node_id": "{h page}", "properties": {"b": 2}}),
        ("delete_node", {"node_id": "{h page}"}),
        ("graph_update", {"updates": [{"node_id": "{h step}", "resolved": True}]}),
        ("graph_restructure", {"operations": [{"op": "drop", "node_id": "{h step}", "reason": "x"}]}),
        ("manage_container", {"operation": "update", **_version("task", "h task", 7), "title": "x"}),
        ("manage_container", {"operation": "delete", "containerType": "task", "id": "{h task}"}),
        ("advance", _version("task", "h task", 7)),
        ("terminate", _version("task", "h task", 7)),
        ("block", {**_version("task", "h task", 7), "blockedBy": ["{task}"]}),
        ("manage_sections", {"operation": "update", "sectionId": "{h section}", "version": 7, "title": "x"}),
        ("manage_sections", {"operation": "delete", "sectionId": "{h section}"}),
        ("manage_template", {"operation": "disable", "id": "{h template}"}),
        ("manage_graph", {"operation": "update", "entityType": "atom", "id": "{h atom}", "version": 7, "name": "b"}),
        ("manage_graph", {"operation": "delete", "entityType": "atom", "id": "{h atom}", "version": 7}),
    ]


def _entailing() -> list[Call]:
    """What changes something of hers with what is his."""
    return [
        ("graph_restructure", {"operations": [{"op": "drop", "node_id": "{paint}", "reason": "x"}]}),
        ("manage_graph", {"operation": "delete", "entityType": "molecule", "id": "{molecule}", "version": 1}),
        ("manage_graph", {"operation": "delete", "entityType": "atom", "id": "{atom}", "version": 2}),
    ]


EXCEPT: dict[str, list[Call]] = {
    "an id that is read, or written by memory.write, is asked about, and the answer is the policy's": [
        ("memory.read", {"entity_id": "h"}),
        ("memory.lineage", {"entity_id": "h"}),
        ("memory.write", {"op": "UPSERT_NODE", "node": {"id": "{h root}", "type": "note", "attrs": {}}}),
        ("get_node", {"node_id": "{h page}"}),
        ("get_node_content", {"node_id": "{h page}"}),
        ("view", {"path": "_content/nodes/{h page}.md"}),
        ("graph_context", {"node_id": "{h step}"}),
        ("query_container", {"operation": "get", "containerType": "task", "id": "{h task}"}),
        ("query_graph", {"operation": "get", "entityType": "atom", "id": "{h atom}"}),
    ],
    "an id, a name or a path that is taken is taken": [
        ("memory.write", {"op": "UPSERT_EDGE", "edge": _edge("goal", "plan", id="e2")}),
        ("graph_open", {"project": "tunnel", "goal": "x"}),
        ("manage_container", {"operation": "create", "containerType": "project", "name": "Mine", "summary": "x"}),
        ("manage_template", {"operation": "create", "name": "Hers", "description": "x", "targetEntityType": "TASK"}),
    ],
    "the graph is one: no circle is closed, and nothing is left without what holds it": [
        ("graph_connect", {"edges": [_depends("{sand}", "{paint}")]}),
        ("memory.write", {"op": "UPSERT_NODE", "node": {"id": "{other page}", "type": "book", "attrs": {}}}),
        ("manage_container", {"operation": "delete", "containerType": "feature", "id": "{bare feature}"}),
    ],
    "what may not be changed is not, with something else": [
        ("graph_restructure", {"operations": [{"op": "drop", "node_id": "{paint}", "reason": "x"}]}),
        ("manage_graph", {"operation": "delete", "entityType": "molecule", "id": "{molecule}", "version": 1}),
        ("manage_graph", {"operation": "delete", "entityType": "atom", "id": "{atom}", "version": 1}),
    ],
}


# -- the law

_MOVES = {
    "lamport", "first_lamport", "position", "commit_id", "content_hash", "record_hash", "prev", "timestamp",
    "query_latency_ms", "next_cursor", "cache_hit", "bytes",
}  # fmt: skip
"""Of the log that both share, or of the clock."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_HASH = re.compile(r"\b[0-9a-f]{64}\b")


def still(told: Any) -> Any:
    if isinstance(told, dict):
        return {key: still(value) for key, value in told.items() if key not in _MOVES}
    if isinstance(told, list):
        return [still(value) for value in told]
    return _HASH.sub("hash", _TIME.sub("time", told)) if isinstance(told, str) else told


@asynccontextmanager
async def memory(base: Path, monkeypatch: pytest.MonkeyPatch, hides: str, distant: bool) -> AsyncIterator[Memory]:
    made: list[Memory] = []

    def allows(request: Request) -> bool:
        hidden = not made or (not made[0].open and HIDES[hides](request, made[0]))
        return not (hidden and request.principal.actor == "bob")

    class RulePolicy:
        def decide(self, request: Request) -> Decision:
            return Decision(allows(request), "by the rule", "local@1")

    def gate(settings: Settings, audit: AuditWriter, *, operator: bool) -> Gate:
        policy: Policy | AwaitedPolicy = AwaitedPolicy(allows) if distant else RulePolicy()
        return Gate(policy, audit=audit, cache=Cache(seconds=0))

    monkeypatch.setattr(app.stores, "make_gate", gate)
    # What takes too long is not said, so on a busy machine the two could differ by that.
    monkeypatch.setenv("TALLYSTICK_HOOK_SECONDS", "60")
    async with app.served(load({"base": base, "toolsets": "all"}, environ={})) as offer:
        made.append(Memory(offer, {"bob": random.Random(1), "alice": random.Random(2)}))
        await _mine(made[0])
        yield made[0]


@asynccontextmanager
async def both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hides: str, distant: bool
) -> AsyncIterator[tuple[Memory, Memory]]:
    """With what is hers, and without."""
    monkeypatch.setattr(uuid, "uuid4", _made_uuid)
    monkeypatch.setattr(secrets, "choice", _made_choice)
    async with (
        memory(tmp_path / "one", monkeypatch, hides, distant) as one,
        memory(tmp_path / "other", monkeypatch, hides, distant) as other,
    ):
        assert one.names == other.names
        await _hers(one)
        if hides != "by type":
            await _hers_elsewhere(one)
        one.secrets = other.secrets = await _made_by_alice(one)
        other.names = one.names
        one.open = other.open = False
        yield one, other


async def _made_by_alice(memory: Memory) -> frozenset[str]:
    def look(state: State, read_filter: object) -> frozenset[str]:
        owners = ((each, state.owner(each)) for each in state.living_ids())
        return frozenset(each for each, known in owners if known is not None and known[1] == "alice")

    return await memory.offer.store.read(ALICE, Action.READ, look)


KINDS = pytest.mark.parametrize("distant", [False, True], ids=["in process", "distant"])


@promise("L33, L18, X8, writing", "two memories that differ only in what may not be read answer every call alike")
@KINDS
@pytest.mark.parametrize("hides", HIDES)
async def test_two_memories_that_differ_in_what_may_not_be_read_answer_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hides: str, distant: bool
) -> None:
    async with both(tmp_path, monkeypatch, hides, distant) as (one, other):
        entails = _entailing() if hides == "from all that he does" else []
        for tool, asked in [*_reads(), *(each for each in _writes() if each not in entails), *_reads()]:
            told = [still(await each.ask(BOB, tool, each.named(asked))) for each in (one, other)]
            assert orjson.dumps(told[0]) == orjson.dumps(told[1]), (tool, asked)


@promise("resources, hidden", "resources and completions show nothing of what may not be read")
@KINDS
@pytest.mark.parametrize("hides", HIDES)
async def test_resources_and_completions_are_alike_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hides: str, distant: bool
) -> None:
    async with both(tmp_path, monkeypatch, hides, distant) as (one, other):
        told = [await _browsed(each) for each in (one, other)]
        assert told[0].keys() == told[1].keys()
        for asked, said in told[0].items():
            assert said == told[1][asked], asked
        assert [name for name in one.secrets if f"tallystick://entity/{name}" in told[0]["pages"]] == []
        assert "tallystick://entity/plan" in told[0]["pages"]


async def _browsed(memory: Memory) -> dict[str, Any]:
    """Everything that is listed, what is read at each address that is his or hers, and all that can be completed."""
    resources = Resources(memory.offer)

    def caller(entry: OfferedTool) -> Principal:
        return Principal(actor="bob", tool=entry.tool.name)

    pages: list[str] = []
    page = await resources.page(caller)
    while True:
        pages += [each["uri"] for each in page["resources"]]
        if "nextCursor" not in page:
            break
        page = await resources.page(caller, page["nextCursor"])
    told: dict[str, Any] = {"pages": sorted(pages)}
    names = [
        "plan",
        "h",
        "plan|leads_to|h",
        "e2",
        "absent",
        *map(memory.named, ("{page}", "{h page}", "{h step}", "{dig}")),
    ]
    paths = ["src/a.ts", "hers/x.ts", "hers/", "src/"]
    for address in (
        *(Address("entity", each) for each in names),
        *(Address("work", each) for each in ("bridge", "tunnel", "Shop", "Mine", memory.named("{h root}"))),
        *(Address("knowledge", each) for each in paths),
    ):
        try:
            read = await resources.read(caller, address.uri)
            told[address.uri] = still(orjson.loads(read["contents"][0]["text"]))
        except NoSuchResource:
            told[address.uri] = "not there"
    for kind in get_args(Choice):
        for begun in ("", "h", "s", "a", "e", "src"):
            found = await resources.complete(caller, kind, begun)
            told[f"{kind} {begun}"] = sorted(found.values), found.has_more
    return told


@promise("subscriptions, hidden", "nobody is told of changes that may not be read, nor of another tenant's")
@KINDS
@pytest.mark.parametrize("hides", HIDES)
async def test_nobody_is_told_of_changes_that_may_not_be_read_nor_of_another_tenants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hides: str, distant: bool
) -> None:
    bobs, others = asyncio.Queue[str](), asyncio.Queue[str]()
    async with both(tmp_path, monkeypatch, hides, distant) as (one, _):
        elsewhere = Principal(actor="bob", tenant="elsewhere")
        uris = [Address("entity", name).uri for name in ("h", "plan", "plan|leads_to|h", "e2")]
        resources = Resources(one.offer)

        def subscriber(told: asyncio.Queue[str]) -> Subscriber:
            async def send(method: str, params: dict[str, Any]) -> None:
                told.put_nowait(params.get("uri", method))

            return Subscriber(one.offer, resources, send)

        listening = {BOB: subscriber(bobs), elsewhere: subscriber(others)}
        for who, each in listening.items():
            caller: Caller = partial(_as, who)
            for uri in uris:
                await each.subscribe(uri, caller)
            await each.watch_list(caller, await resources.page(caller))
        for said in ("x", "y"):
            node = {"id": "h", "type": "secret", "attrs": {"said": said}}
            assert "data" in await one.ask(ALICE, "memory.write", {"op": "UPSERT_NODE", "node": node})
            edge = {"from": "plan", "rel": "leads_to", "to": "h", "id": "e0", "attrs": {"said": said}}
            assert "data" in await one.ask(ALICE, "memory.write", {"op": "UPSERT_EDGE", "edge": edge})
        if hides != "by id":
            node = {"id": "hidden and new", "type": "secret", "attrs": {}}
            assert "data" in await one.ask(ALICE, "memory.write", {"op": "UPSERT_NODE", "node": node})
        for who in (elsewhere, BOB):
            node = {"id": "plan", "type": "note", "attrs": {"said": "again"}}
            assert "data" in await one.ask(who, "memory.write", {"op": "UPSERT_NODE", "node": node})
        assert await bobs.get() == "tallystick://entity/plan"
        assert {await others.get(), await others.get()} == {"tallystick://entity/plan", LIST_CHANGED}
        for each in listening.values():
            each.close()
        assert bobs.empty()
        assert others.empty()


def _as(who: Principal, entry: OfferedTool) -> Principal:
    return msgspec.structs.replace(who, tool=entry.tool.name)


@promise("L33, exceptions", "where they cannot, nothing is told but that")
@pytest.mark.parametrize("why", EXCEPT)
async def test_where_they_cannot_answer_alike_nothing_is_told_but_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    async with both(tmp_path, monkeypatch, "from all that he does", distant=False) as (one, other):
        for tool, asked in EXCEPT[why]:
            named = orjson.dumps(one.named(asked))
            told = [await each.ask(BOB, tool, each.named(asked)) for each in (one, other)]
            said = orjson.dumps(told[0])
            assert "refused" in told[0] or "rejected" in told[0]["data"], (tool, asked, told)
            assert orjson.dumps(still(told[0])) != orjson.dumps(still(told[1])), f"no exception: {tool} {asked}"
            secret = [each for each in (*one.secrets, "alice") if each.encode() not in named]
            assert [each for each in secret if re.search(rf"\b{each}\b".encode(), said)] == [], (tool, asked, told)


def test_every_tool_is_called(tmp_path: Path) -> None:
    known = {tool.name for toolset in app.toolsets(load({"base": tmp_path}, environ={})) for tool in toolset.tools}
    called = {tool for tool, _ in (*_reads(), *_writes(), *(each for calls in EXCEPT.values() for each in calls))}
    assert called == known
