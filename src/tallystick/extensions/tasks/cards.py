"""Tasks: the steps they go through, and a card for each project, feature and task.

They are the work graph's own nodes. What tasks say beyond it stands under the node's attribute
`task`: {kind, title, description, status, complexity, tags, noOp, blockedReason, blocks}; a node that
was planned as work has none, and is a task like any other. A project has there {description,
tags, rev}. Sections and templates are nodes of their own, joined by ids. The step is read
together with `resolved`, which work may change: so neither can contradict the other.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec
from sortedcontainers import SortedList

from tallystick.state import Breathing
from tallystick.state.attributes import find_text, list_of, object_of, text_of
from tallystick.state.derived_index import EdgeVersion, NodeVersion
from tallystick.state.stored_index import encoded, loading
from tallystick.state.work import LOOSE, NODE, PROJECT
from tallystick.state.work.attributes import (
    ACTIVE,
    CATALOGS,
    CLOSED,
    NEW,
    WILL_NOT_IMPLEMENT,
    said_of,
    status_of,
)

TEMPLATE = "tasks/template"
PIPELINES = "tasks/pipelines"
PIPELINES_ID = "tasks/pipelines"
"""Also the id of the one node there is of it."""

Kind = Literal["project", "feature", "task"]
TERMINAL = frozenset({CLOSED, WILL_NOT_IMPLEMENT})
STATUSES = (*CATALOGS["task"], WILL_NOT_IMPLEMENT)
PRIORITIES = ("HIGH", "MEDIUM", "LOW")
WEIGHTS = {"HIGH": 1, "MEDIUM": 0, "LOW": -1}
"""A priority as the work graph ranks it."""
COMPLEXITY_DEFAULT = 5
NO_OP = "NO_OP"


class Pipelines(msgspec.Struct, frozen=True, array_like=True):
    """The steps that are used, of those there are."""

    feature: tuple[str, ...] = (NEW, ACTIVE, CLOSED)
    task: tuple[str, ...] = (NEW, ACTIVE, CLOSED)

    def steps(self, kind: str) -> tuple[str, ...]:
        return self.feature if kind == "feature" else self.task

    def after(self, kind: str, status: str) -> str | None:
        """Of a step that is not used here: the next that is."""
        place = _place(kind, status)
        return next((step for step in self.steps(kind) if status not in TERMINAL and _place(kind, step) > place), None)

    def before(self, kind: str, status: str) -> str | None:
        place = _place(kind, status)
        steps = reversed(self.steps(kind))
        return next((step for step in steps if status not in TERMINAL and _place(kind, step) < place), None)

    def position(self, kind: str, status: str) -> str | None:
        steps = self.steps(kind)
        return f"{steps.index(status) + 1} of {len(steps)}" if status in steps else None


def pipeline_problem(kind: str, steps: Any) -> str | None:
    """What is wrong with it, if anything."""
    catalog = CATALOGS[kind]
    if not isinstance(steps, list | tuple) or not all(isinstance(step, str) for step in steps):
        return f"the {kind} pipeline must be a list of states"
    unknown = [step for step in steps if step not in catalog]
    if unknown:
        return f"the {kind} pipeline has no state {unknown[0]}; there are {', '.join(catalog)}"
    if list(steps) != [step for step in catalog if step in steps]:
        return f"the {kind} pipeline must name each state once, in the order {', '.join(catalog)}"
    if not steps or steps[0] != NEW or ACTIVE not in steps or steps[-1] != CLOSED:
        return f"the {kind} pipeline must start with NEW, contain ACTIVE and end with CLOSED"
    return None


def _place(kind: str, status: str) -> int:
    catalog = CATALOGS["feature" if kind == "feature" else "task"]
    return catalog.index(status) if status in catalog else len(catalog)


class Card(msgspec.Struct, frozen=True, gc=False, array_like=True):
    id: str
    kind: Kind
    project: str | None
    """None for a project, and for what belongs to none."""
    status: str
    """CLOSED as soon as work calls it resolved; a project has none, and "" here."""
    priority: str
    complexity: int
    tags: tuple[str, ...]
    no_op: bool
    created: int
    updated: int

    @property
    def terminal(self) -> bool:
        return self.status in TERMINAL

    @property
    def is_fresh(self) -> bool:
        """A task that nobody began."""
        return self.kind == "task" and self.status == NEW

    @property
    def order(self) -> tuple[int, int, int]:
        """What comes first."""
        return PRIORITIES.index(self.priority), self.complexity, self.created


class _StoredCards(msgspec.Struct, frozen=True, array_like=True):
    cards: list[bytes]
    """In slices."""
    pipelines: Pipelines | None
    templates: dict[str, str]
    roots: dict[str, str]


class TaskCards:
    types: ClassVar[frozenset[str]] = frozenset({PROJECT, NODE, TEMPLATE, PIPELINES})
    stored_as: ClassVar[str] = "cards-2"

    def __init__(self) -> None:
        self.cards: dict[str, Card] = {}
        self.pipelines: Pipelines | None = None
        """As they were when the first of these was written; None before."""
        self.templates: dict[str, str] = {}
        """Id → name."""
        self.tagged: dict[str, set[str]] = {}
        self.by_kind: dict[str, dict[str, Card]] = {"project": {}, "feature": {}, "task": {}}
        self.fresh: SortedList = SortedList()
        """Of the tasks that nobody began: order and id. Roots of projects are among them."""
        self._roots: dict[str, str] = {}

    # -- who is there

    def find(self, entity_id: str) -> Card | None:
        """The root of a project's work is the project's business, and no task."""
        return None if entity_id in self._roots else self.cards.get(entity_id)

    # -- what is stored

    def dump(self) -> bytes:
        return msgspec.msgpack.encode((encoded(self.cards.values()), self.pipelines, self.templates, self._roots))

    def load(self, content: memoryview) -> Breathing[None]:
        with loading():
            stored = _read_stored(content)
            for cards in map(_read_cards, stored.cards):
                for card in cards:
                    self._file(card)
                yield
            self.fresh = SortedList([(card.order, card.id) for card in self.cards.values() if card.is_fresh])
            self.pipelines, self.templates, self._roots = stored.pipelines, stored.templates, stored.roots

    # -- what changes

    def node_changed(self, before: NodeVersion | None, after: NodeVersion | None) -> None:
        if before is not None:
            _CHANGES[before.type][1](self, before)
        if after is not None:
            _CHANGES[after.type][0](self, after)

    def edge_changed(self, before: EdgeVersion | None, after: EdgeVersion | None) -> None:
        """Who waits for whom is the work graph's to know."""

    def _learn_card(self, version: NodeVersion) -> None:
        card = read_card(version.id, version.type, version.attrs, version.created, version.updated)
        self._file(card)
        if card.is_fresh:
            self.fresh.add((card.order, card.id))
        root = version.attrs.get("root") if version.type == PROJECT else None
        if isinstance(root, str):
            self._roots[root] = card.id

    def _file(self, card: Card) -> None:
        """Everywhere but among the fresh ones, whose order is dear."""
        self.cards[card.id] = card
        self.by_kind[card.kind][card.id] = card
        for tag in card.tags:
            self.tagged.setdefault(tag, set()).add(card.id)

    def _forget_card(self, version: NodeVersion) -> None:
        card = self.cards.pop(version.id)
        del self.by_kind[card.kind][card.id]
        for tag in card.tags:
            self.tagged[tag].discard(card.id)
            if not self.tagged[tag]:
                del self.tagged[tag]
        if card.is_fresh:
            self.fresh.remove((card.order, card.id))
        root = version.attrs.get("root") if version.type == PROJECT else None
        if isinstance(root, str) and self._roots.get(root) == card.id:
            del self._roots[root]

    def _learn_template(self, version: NodeVersion) -> None:
        self.templates[version.id] = text_of(version.attrs, "name")

    def _forget_template(self, version: NodeVersion) -> None:
        del self.templates[version.id]

    def _learn_pipelines(self, version: NodeVersion) -> None:
        said = {kind: version.attrs.get(kind) for kind in CATALOGS}
        if version.id == PIPELINES_ID and not any(pipeline_problem(kind, steps) for kind, steps in said.items()):
            self.pipelines = Pipelines(**{kind: tuple(steps or ()) for kind, steps in said.items()})

    def _forget_pipelines(self, version: NodeVersion) -> None:
        if version.id == PIPELINES_ID:
            self.pipelines = None


_CHANGES = {
    PROJECT: (TaskCards._learn_card, TaskCards._forget_card),
    NODE: (TaskCards._learn_card, TaskCards._forget_card),
    TEMPLATE: (TaskCards._learn_template, TaskCards._forget_template),
    PIPELINES: (TaskCards._learn_pipelines, TaskCards._forget_pipelines),
}
"""By type: how a version is learnt, and how it is forgotten."""
_read_stored = msgspec.msgpack.Decoder(_StoredCards).decode
_read_cards = msgspec.msgpack.Decoder(list[Card]).decode


# -- reading attributes, which may be anything at all


def read_card(node_id: str, node_type: str, attrs: dict[str, Any], created: int, updated: int) -> Card:
    said = said_of(attrs)
    kind: Kind = "task"
    if node_type == PROJECT:
        kind = "project"
    elif said.get("kind") == "feature":
        kind = "feature"
    project = find_text(attrs, "project")
    return Card(
        node_id,
        kind,
        None if project == LOOSE else project,
        "" if kind == "project" else status_of(attrs),
        _priority(attrs),
        _complexity(said.get("complexity")),
        tuple(tag for tag in list_of(said, "tags") if isinstance(tag, str)),
        said.get("noOp") is True,
        created,
        updated,
    )


def _priority(attrs: dict[str, Any]) -> str:
    """Kept where the work graph ranks by it: more than 0 is HIGH, less is LOW."""
    said = object_of(attrs, "properties").get("priority")
    if isinstance(said, str) and said.strip().upper() in PRIORITIES:
        return said.strip().upper()
    try:
        number = float(said) if isinstance(said, int | float | str) and not isinstance(said, bool) else 0.0
    except (ValueError, OverflowError):
        number = 0.0
    return "HIGH" if number > 0 else "LOW" if number < 0 else "MEDIUM"


def _complexity(said: Any) -> int:
    fits = isinstance(said, int) and not isinstance(said, bool) and 1 <= said <= 10
    return said if fits else COMPLEXITY_DEFAULT
