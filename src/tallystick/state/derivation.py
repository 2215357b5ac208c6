"""The derivation: what somebody wrote, and what came of it since.

Fed with commits in their order, so nothing is held against an entity for what happened later.
It errs on the side of listing too much: each entity says why it is there, and a person looks
before anything is made of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tallystick.commits import EDGE_VERBS, REDACTIONS, Commit, Verb
from tallystick.commits.payloads import read_edge

HOPS_MAX = 3

_COMMIT_ID = re.compile("[0-9a-f]{64}")
_NAME_CHARACTERS = 16


class Trace(msgspec.Struct, frozen=True):
    """Why an entity is listed."""

    id: str
    kind: str
    """node or edge"""
    type: str
    """Of a node, as far as the commit says; the relation of an edge."""
    because: str
    hops: int
    """0: written by whom we look for."""
    lamport: int
    commit_id: str


class Derivation:
    def __init__(self, is_root: Callable[[Commit], bool], *, hops_max: int = HOPS_MAX) -> None:
        self.found: dict[str, Trace] = {}
        """By entity, in the order in which they were met."""
        self._is_root = is_root
        self._hops_max = hops_max
        self._runs: dict[tuple[str, str], str] = {}
        """Runs and jobs in which roots were written."""
        self._commits: dict[str, str] = {}
        """Root commit → its entity."""
        self._pointing: dict[str, str] = {}
        """Node → a listed node that it points to."""

    def feed(self, commit: Commit) -> list[str]:
        """Returns the nodes that are listed because of it: `points` wants to know who points to them."""
        if self._is_root(commit):
            return self._note_root(commit)
        if not self.found or commit.operation in REDACTIONS or _is_recall(commit):
            return []
        because = self._same_run(commit)
        if because is not None:
            return self._note(commit, because, 1)
        link = _LINKS.get(commit.operation)
        return link(self, commit) if link is not None else []

    def points(self, source: str, target: str) -> None:
        """`source` has an edge to the listed `target`: when it is written again, it may follow from it."""
        self._pointing.setdefault(source, target)

    # -- why

    def _note_root(self, commit: Commit) -> list[str]:
        for name, value in (commit.run_context or {}).items():
            if name in ("run_id", "job_id"):
                self._runs.setdefault((name, value), commit.commit_id)
        fresh = self._note(commit, f"{_verb(commit)} by {commit.actor}", 0)
        self._commits[commit.commit_id] = entity_of(commit)
        return fresh

    def _same_run(self, commit: Commit) -> str | None:
        for name, value in (commit.run_context or {}).items():
            if (name, value) in self._runs:
                return f"written in the same {name.removesuffix('_id')} '{value}'"
            if name == "job_id" and value in self.found:
                return f"written for '{value}'"
        return None

    def _linked_edge(self, commit: Commit) -> list[str]:
        edge = read_edge(commit.payload)
        target = self.found.get(edge.target)
        if target is None or target.hops >= self._hops_max:
            return []
        because, hops = f"{edge.source} -{edge.rel}-> {edge.target}", target.hops + 1
        self._note(commit, because, hops)
        if edge.source in self.found:
            return []
        self.found[edge.source] = Trace(edge.source, "node", "", because, hops, commit.lamport, commit.commit_id)
        return [edge.source]

    def _linked_node(self, commit: Commit) -> list[str]:
        node_id = entity_of(commit)
        if node_id in self.found:
            return []
        pointed = self.found.get(self._pointing.get(node_id, ""))
        if pointed is not None and pointed.hops < self._hops_max:
            return self._note(commit, f"written while it points to '{pointed.id}'", pointed.hops + 1)
        for place, text in _texts(commit.document().get("attrs"), "attrs"):
            named = self._named(text)
            if named is not None and named.id != node_id and named.hops < self._hops_max:
                return self._note(commit, f"{place} names '{text[:100]}'", named.hops + 1)
        return []

    def _named(self, text: str) -> Trace | None:
        if text in self.found and _is_telling(text):
            return self.found[text]
        if len(text) >= 64:
            for commit_id in _COMMIT_ID.findall(text):
                if commit_id in self._commits:
                    return self.found[self._commits[commit_id]]
        return None

    def _note(self, commit: Commit, because: str, hops: int) -> list[str]:
        entity_id = entity_of(commit)
        known = self.found.get(entity_id)
        if hops > self._hops_max or (known is not None and known.hops <= hops):
            return []
        kind = "edge" if commit.operation in EDGE_VERBS else "node"
        said = commit.document()
        self.found[entity_id] = Trace(
            entity_id, kind, said.get("type") or said.get("rel") or "", because, hops, commit.lamport, commit.commit_id
        )
        return [entity_id] if kind == "node" else []


_LINKS: dict[Verb, Callable[[Derivation, Commit], list[str]]] = {
    Verb.UPSERT_EDGE: Derivation._linked_edge,
    Verb.UPSERT_NODE: Derivation._linked_node,
}


def entity_of(commit: Commit) -> str:
    """The id of the node or edge that a commit is about."""
    if commit.operation in EDGE_VERBS:
        return read_edge(commit.payload).name
    said = commit.document()
    return str(said["id"] if commit.operation is Verb.UPSERT_NODE else said["node_id"])


def _verb(commit: Commit) -> str:
    return {"UPSERT": "written", "DELETE": "deleted", "REDACT": "redacted"}[commit.operation.value[:6]]


def _is_recall(commit: Commit) -> bool:
    """Recalls name what they recall: that makes them no part of it."""
    return commit.operation is Verb.UPSERT_NODE and str(commit.document().get("type")).startswith("trust/")


def _is_telling(text: str) -> bool:
    """Whether the same text elsewhere is a reference. An entity may be called `open`, and many have a status so."""
    plain = text.isalpha() and (text.islower() or text.isupper() or text.istitle())
    return not plain or len(text) >= _NAME_CHARACTERS


def _texts(value: Any, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _texts(each, f"{place}.{name}")
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, place)
