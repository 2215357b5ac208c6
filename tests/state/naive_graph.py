"""What a log says, worked out from its lines in the plainest way: no index, no shortcut.

The state is right when it says the same.
"""

from __future__ import annotations

import re
from itertools import count
from typing import Any

from tallystick.clock import from_text
from tallystick.commits import Verb, chain
from tallystick.state import Condition, Query, Walk
from tests.state.logged_state import LoggedState

REDACTED = "[REDACTED]"
Name = tuple[str, str, str, str | None]
"""What an edge is known by: its ends, its relation, and its id if it was given one."""


class NaiveGraph:
    """The graph after the first `at` commits."""

    def __init__(self, logged: LoggedState, at: int) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.edges: dict[Name, dict[str, Any]] = {}
        self._ages: dict[Any, int] = {}
        ages = count()
        for seq, offset in enumerate(logged.offsets[:at], 1):
            commit = chain.decode(logged.lines[offset])
            said = commit.document()
            told = {"lamport": commit.lamport, "time": commit.timestamp, "seq": seq}
            if commit.operation is Verb.UPSERT_NODE:
                age = self._ages.setdefault(said["id"], next(ages))
                old = self.nodes.get(said["id"])
                owner = old["owner"] if old else commit.actor
                self.nodes[said["id"]] = {"content": None} | said | told | {"age": age, "owner": owner}
            elif commit.operation is Verb.DELETE_NODE:
                del self.nodes[said["node_id"]]
            elif commit.operation is Verb.REDACT_NODE:
                if said["node_id"] in self.nodes:
                    left = _redacted(self.nodes[said["node_id"]], said)
                    self.nodes[said["node_id"]] = left | told
            elif commit.operation is Verb.REDACT_EDGE:
                if _name(said) in self.edges:
                    self.edges[_name(said)] = _redacted(self.edges[_name(said)], said) | told
            elif commit.operation is Verb.UPSERT_EDGE:
                age = self._ages.setdefault(_name(said), next(ages))
                self.edges[_name(said)] = {"content": None} | said | told | {"age": age}
            else:
                del self.edges[_name(said)]

    # -- searching

    def search(self, query: Query) -> list[str]:
        found = [node for node in self.nodes.values() if self._matches(node, query)]
        return [node["id"] for node in sorted(found, key=lambda node: int(node["age"]))]

    def _matches(self, node: dict[str, Any], query: Query) -> bool:
        return (
            (query.ids is None or node["id"] in query.ids)
            and (query.type is None or node["type"] == query.type)
            and _in_window(node["time"], query.since, query.until)
            and all(_holds(node["attrs"], condition) for condition in query.conditions)
        )

    # -- walking

    def reached(self, walk: Walk) -> set[str]:
        found = {walk.start}
        for _ in range(walk.hops):
            found |= {other for node in found for _, other in self._leaving(node, walk)}
        return found - {walk.start}

    def paths(self, walk: Walk) -> list[tuple[list[str], list[Name]]]:
        shortest = walk.hops if walk.min_hops is None else max(walk.min_hops, 1)
        found = self._paths([walk.start], [], walk)
        return [(nodes, edges) for nodes, edges in found if shortest <= len(edges) <= walk.hops]

    def _paths(self, nodes: list[str], edges: list[Name], walk: Walk) -> list[tuple[list[str], list[Name]]]:
        found = [(nodes, edges)]
        if len(edges) < walk.hops:
            for name, other in self._leaving(nodes[-1], walk):
                if other not in nodes:
                    found += self._paths([*nodes, other], [*edges, name], walk)
        return found

    def _leaving(self, node: str, walk: Walk) -> list[tuple[Name, str]]:
        found = []
        for name, edge in sorted(self.edges.items(), key=lambda each: int(each[1]["age"])):
            source, rel, target, _ = name
            if (walk.edge_types and rel not in walk.edge_types) or not _in_window(edge["time"], walk.since, walk.until):
                continue
            if walk.direction != "in" and source == node:
                found.append((name, target))
            elif walk.direction != "out" and target == node:
                found.append((name, source))
        return found


def _redacted(entity: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    """Only for fields without further dots, which is what the tests name."""
    attrs = dict(entity["attrs"])
    fields = said.get("redacted_fields")
    for name in attrs if fields is None else [field.removeprefix("attrs.") for field in fields]:
        if name in attrs:
            attrs[name] = REDACTED
    content = entity["content"]
    if fields is None and content is not None:
        content = {key: value for key, value in content.items() if key != "text"} | {"text": REDACTED}
    return entity | {"attrs": attrs, "content": content}


def _name(said: dict[str, Any]) -> Name:
    return said["from"], said["rel"], said["to"], said.get("id")


def _in_window(timestamp: str, since: int | None, until: int | None) -> bool:
    moment = from_text(timestamp)
    return (since is None or since <= moment) and (until is None or moment < until)


def _holds(attrs: dict[str, Any], condition: Condition) -> bool:
    held = [value for value in _values(attrs, condition.key) if value != REDACTED]
    inner = [each for value in held if isinstance(value, list) for each in value if each != REDACTED]
    plain = [each for each in held + inner if not isinstance(each, list | dict)]
    wanted = condition.value
    match condition.test:
        case "exists":
            return bool(held) is wanted
        case "eq":
            return _is_among(wanted, held if isinstance(wanted, list | dict) else plain)
        case "ne":
            return bool(held) and not _holds(attrs, Condition(condition.key, "eq", wanted))
        case "in":
            return any(_holds(attrs, Condition(condition.key, "eq", each)) for each in wanted)
        case "regex":
            return any(isinstance(each, str) and re.search(wanted, each) for each in plain)
        case test:
            return any(_kind(each) == _kind(wanted) and _ordered(each, test, wanted) for each in plain)


def _ordered(one: Any, test: str, other: Any) -> bool:
    return bool({"gt": one > other, "gte": one >= other, "lt": one < other, "lte": one <= other}[test])


def _kind(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "unordered"
    return "text" if isinstance(value, str) else "number"


def _is_among(wanted: Any, values: list[Any]) -> bool:
    return any(repr(_plain(each)) == repr(_plain(wanted)) for each in values)


def _plain(value: Any) -> Any:
    """Numbers alike, whether they were written 1 or 1.0."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(value[key]) for key in sorted(value)}
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _values(attrs: dict[str, Any], key: str) -> list[Any]:
    found = [attrs[key]] if key in attrs else []
    name, dot, below = key.partition(".")
    if dot and isinstance(attrs.get(name), dict):
        found += _values(attrs[name], below)
    return found
