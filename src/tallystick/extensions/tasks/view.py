"""The view of tasks at one moment: as the state has them, or as a draft in the making would leave them.

Drafts are drawn through it, so that what is read afterwards includes what was drawn.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tallystick.clock import to_text
from tallystick.commits import Operation, Verb
from tallystick.errors import Conflict, InvalidArgument, TallystickError
from tallystick.extensions.tasks.cards import (
    NO_OP,
    PIPELINES,
    PIPELINES_ID,
    TERMINAL,
    Card,
    Pipelines,
    TaskCards,
    read_card,
)
from tallystick.state.attributes import object_of
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.work import DEPENDS_ON, NODE, PROJECT
from tallystick.state.work.attributes import BLOCKS, WILL_NOT_IMPLEMENT, said_of
from tallystick.state.work.board import Row
from tallystick.state.work.draft_builder import DraftBuilder, revision
from tallystick.state.work.graph import WorkGraph
from tallystick.state.work.sections import Sections
from tallystick.toolsets import JsonObject
from tallystick.toolsets.claims import Claimant, released
from tallystick.toolsets.envelope import check_version, find_uuid, not_found
from tallystick.toolsets.work.projects import found

RELATES_TO = "relates_to"


class View:
    def __init__(
        self,
        state: State,
        pipelines: Pipelines,
        claimant: Claimant,
        builder: DraftBuilder | None = None,
        *,
        read_filter: ReadFilter | None = None,
        now: str = "",
    ) -> None:
        self.state = state
        self.read_filter = read_filter or ReadFilter(state)
        self.graph = state.derived(WorkGraph)
        self.task_cards = state.derived(TaskCards)
        self.pipelines = self.task_cards.pipelines or pipelines
        self.job: str | None = None
        """The feature or task that the draft is about."""
        self.claimant = claimant
        self.warnings: list[str] = []
        self._builder = builder
        self._now = now
        self._cards: dict[str, Card | None] = {}
        self._others: dict[str, JsonObject | None] = {}
        """Sections and templates that were drawn."""
        self._stamped: list[tuple[JsonObject, bool]] = []

    # -- who is there

    def find(self, reference: str | None, kind: str | None = None) -> Card | None:
        """By its id as it was made, or by a UUID in any spelling. What may not be read is not there."""
        for entity_id in (reference, find_uuid(reference or "")):
            card = self.card(entity_id) if entity_id else None
            if card is not None and (kind is None or card.kind == kind) and self.may_read(card):
                return card
        return None

    def get(self, kind: str, reference: str | None) -> Card:
        card = self.find(reference, kind)
        if card is not None:
            return card
        raise not_found(kind, reference or "", self._hint(kind, reference))

    def get_project(self, reference: str) -> Card:
        """Also by what graph_open calls it, its name or its root. Not for what a call reads or changes as its
        resource: the policy decides on that by its id."""
        return self.find(reference, "project") or self._named(reference) or self.get("project", reference)

    def _named(self, reference: str | None) -> Card | None:
        board = self.graph.project(reference) if reference else None
        return self.find(board.id, "project") if board is not None else None

    def _hint(self, kind: str, reference: str | None) -> str:
        other = self.find(reference)
        if other is not None:
            return f"it is a {other.kind}"
        named = self._named(reference) if kind == "project" else None
        return f"its id is {named.id}" if named is not None else f"query_container search lists every {kind}"

    def may_read(self, card: Card) -> bool:
        """Whether it may be read; what is being drawn may be."""
        return card.id in self._cards or self.read_filter.allows(card.id)

    def card(self, entity_id: str) -> Card | None:
        return self._cards[entity_id] if entity_id in self._cards else self.task_cards.find(entity_id)

    def attrs(self, entity_id: str) -> JsonObject:
        """Of what is known to be there."""
        if entity_id in self._others:
            found = self._others[entity_id]
        elif self._builder is not None and (drawn := self._builder.find(entity_id)) is not None:
            found = drawn
        else:
            node = self.state.node(entity_id)
            found = node.attrs if node is not None else None
        if found is None:
            raise KeyError(entity_id)
        return found

    def said(self, entity_id: str) -> JsonObject:
        return said_of(self.attrs(entity_id))

    def version(self, card: Card) -> int:
        attrs = self.attrs(card.id)
        return revision(attrs if card.kind != "project" else said_of(attrs))

    def get_at(self, kind: str, reference: str | None, version: int | None) -> Card:
        """To be changed: it must be there, and be what the caller read."""
        card = self.get(kind, reference)
        if version is not None:
            check_version(version, self.version(card))
        row = self.graph.find(card.id)
        if row is not None and (warning := self.claimant.warning(row)) is not None:
            self.warnings.append(warning)
        return card

    # -- who belongs to whom

    def row(self, entity_id: str) -> Row:
        row = self.graph.find(entity_id)
        if row is None:
            raise KeyError(entity_id)
        return row

    def feature_of(self, task_id: str) -> Card | None:
        """None also where it may not be read: then it is none of the caller's business what becomes of it."""
        row = self.graph.find(task_id)
        cards = (self.card(each.id) for each in row.above()) if row is not None else ()
        feature = next((card for card in cards if card is not None and card.kind == "feature"), None)
        return feature if feature is not None and self.may_read(feature) else None

    def below(self, card: Card, kind: str) -> list[Card]:
        """What a project, feature or task holds, oldest first. All of it: `readable_below` is for answers."""
        if card.kind == "project":
            board = self.graph.boards.get(card.id)
            ids = [self.graph.by_number[number].id for number in board.members] if board is not None else []
        else:
            row = self.graph.find(card.id)
            ids = [each.id for each in row.below()] if row is not None else []
        cards = (self.card(each) for each in ids)
        found = [each for each in cards if each is not None and each.kind == kind]
        return sorted(found, key=lambda c: c.created)

    def readable_below(self, card: Card, kind: str) -> list[Card]:
        return self.readable(self.below(card, kind))

    def readable(self, cards: Iterable[Card]) -> list[Card]:
        """Those that may be read."""
        return self.read_filter.readable(cards, lambda card: card.id)

    def sections(self, entity_id: str) -> list[str]:
        """In order, as far as they may be read."""
        return self.read_filter.readable(self.all_sections(entity_id))

    def all_sections(self, entity_id: str) -> list[str]:
        """Also those that may not be read."""
        return self.state.derived(Sections).of(entity_id)

    # -- who waits for whom

    def blockers(self, card: Card) -> list[str]:
        """Return the ids of the nodes that it waits for, and NO_OP. Leave out nodes that the caller may not read: being
        blocked by one would reveal it."""
        row = self.graph.find(card.id)
        blocking = dict.fromkeys(each.id for each in row.blockers()) if row is not None else {}
        return self.read_filter.readable(blocking) + ([NO_OP] if card.no_op else [])

    def dependents(self, card: Card) -> list[Card]:
        """As far as they may be read."""
        row = self.graph.find(card.id)
        ids = dict.fromkeys(each.id for each in row.dependents if each.board is not None) if row else {}
        found = (self.card(each) for each in ids)
        return self.readable(each for each in found if each is not None)

    def related(self, entity_id: str) -> list[str]:
        """Read from both ends, as far as they may be read."""
        links = (
            [(link["from"], link["rel"], link["to"]) for link in self._builder.links(entity_id)]
            if self._builder is not None
            else self.state.triples(entity_id)
        )
        others = (to if source == entity_id else source for source, rel, to in links if rel == RELATES_TO)
        return self.read_filter.readable(each for each in dict.fromkeys(others) if self.card(each) is not None)

    # -- drawing

    @property
    def builder(self) -> DraftBuilder:
        if self._builder is None:
            raise TypeError("a view for reading cannot be drawn on")
        return self._builder

    def found(self, project_id: str, root_id: str, *, name: str, goal: str, task: JsonObject) -> Card:
        """As work founds projects; what only tasks say goes into the same statement."""
        found(self.builder, project_id=project_id, root_id=root_id, name=name, goal=goal)
        for number, operation in enumerate(self.builder.operations):
            if operation.payload.get("id") == project_id:
                payload = operation.payload
                attrs = payload["attrs"] | ({"task": task} if task else {})
                self.builder.operations[number] = Operation(Verb.UPSERT_NODE, payload | {"attrs": attrs})
                self._others[project_id] = attrs
        return self._note(project_id, PROJECT, self._others[project_id] or {})

    def put_node(self, node_id: str, attrs: JsonObject) -> None:
        self.lock_pipelines()
        self.builder.put(node_id, attrs)
        self._note(node_id, NODE, attrs)

    def revise(self, card: Card, task: JsonObject | None = None, **changes: Any) -> Card:
        """`task` is merged into what tasks say of it; None takes something away."""
        merged = {name: value for name, value in {**self.said(card.id), **(task or {})}.items() if value is not None}
        if card.kind == "project":
            attrs = {**self.attrs(card.id), **changes, "task": merged | {"rev": self.version(card) + 1}}
            # Past the draft builder: nothing that is drawn beside it depends on what a project is called.
            self.put_other(card.id, PROJECT, attrs)
            return self._note(card.id, PROJECT, attrs)
        self.lock_pipelines()
        if task is not None:
            changes["task"] = merged | {"kind": card.kind}
        self.builder.revise(card.id, **changes)
        return self._note(card.id, NODE, self.builder.attrs(card.id))

    def set_status(self, card: Card, status: str, **changes: Any) -> Card:
        """Nobody works on what is over."""
        over = status in TERMINAL
        freed = self.released(card) if over else {}
        blocks = True if status == WILL_NOT_IMPLEMENT else None
        return self.revise(card, {"status": status, BLOCKS: blocks}, resolved=over, **freed, **changes)

    # -- who works on it

    def is_taken(self, card: Card) -> bool:
        """By somebody else."""
        row = self.graph.find(card.id)
        return row is not None and self.claimant.is_kept_from(row)

    def claimed(self, card: Card) -> JsonObject:
        """The change that claims it, as graph_next does. Raises Conflict where somebody else works on it."""
        self._check_free(card)
        return {"properties": self.claimant.take(object_of(self.attrs(card.id), "properties"))}

    def given_back(self, card: Card) -> JsonObject:
        """Return the change that releases the caller's claim. Raises Conflict if another agent or session holds it."""
        self._check_free(card)
        return self.released(card)

    def _check_free(self, card: Card) -> None:
        row = self.row(card.id)
        if self.claimant.is_kept_from(row):
            by, since = row.owner or "", to_text(row.claimed)
            raise Conflict(
                f"Cannot advance: {card.kind} is claimed by {by} since {since}",
                code="CLAIMED",
                hint="get_next_task finds what is free",
                details={"claimedBy": by, "claimedAt": since},
            )

    def released(self, card: Card) -> JsonObject:
        """The change that frees it, if there is one to make."""
        properties = object_of(self.attrs(card.id), "properties")
        left = released(properties)
        return {"properties": left or None} if left != properties else {}

    def block(self, card: Card, blocker_id: str) -> None:
        self.builder.link({"from": card.id, "rel": DEPENDS_ON, "to": blocker_id})

    def unblock(self, card: Card, blocker_id: str) -> bool:
        return self.unlink(card.id, DEPENDS_ON, blocker_id)

    def unlink(self, source: str, rel: str, target: str) -> bool:
        links = [
            link
            for link in self.builder.links(source)
            if (link["from"], link["rel"], link["to"]) == (source, rel, target)
        ]
        for link in links:
            self.builder.unlink(link)
        return bool(links)

    def lock_pipelines(self) -> None:
        """From the first feature or task on: what the steps mean must not change under them."""
        if self.task_cards.pipelines is not None or PIPELINES_ID in self._others or self.state.owner(PIPELINES_ID):
            return
        attrs: JsonObject = {"feature": list(self.pipelines.feature), "task": list(self.pipelines.task)}
        self.put_other(PIPELINES_ID, PIPELINES, attrs)

    def put_other(self, node_id: str, node_type: str, attrs: JsonObject) -> None:
        self.builder.put_beside(node_id, node_type, attrs)
        self._others[node_id] = attrs

    def delete_other(self, node_id: str) -> None:
        for name in self.state.edge_names(node_id):
            self.builder.operations.append(Operation(Verb.DELETE_EDGE, name))
        self.builder.operations.append(Operation(Verb.DELETE_NODE, {"node_id": node_id}))
        self._others[node_id] = None

    def forget(self, entity_id: str) -> None:
        """It is being deleted."""
        self._cards[entity_id] = None

    def _note(self, node_id: str, node_type: str, attrs: JsonObject) -> Card:
        number = self.state.count + len(self.builder.operations)
        before = self.card(node_id)
        card = read_card(node_id, node_type, attrs, before.created if before else number, number)
        self._cards[node_id] = card
        return card

    # -- time

    def times(self, entity_id: str, answer: JsonObject) -> None:
        """When it was made and changed; filled in once it is written."""
        lived, node = self.state.summary(entity_id), self.state.node(entity_id)
        drawn = entity_id in self._cards or entity_id in self._others
        answer["createdAt"] = lived.created_at if lived else self._now
        answer["modifiedAt"] = node.provenance.timestamp if node is not None and not drawn else self._now
        if drawn:
            self._stamped.append((answer, lived is None))

    def stamp(self, timestamp: str, actor: str) -> None:
        for answer, made in self._stamped:
            answer["modifiedAt"] = timestamp
            if made:
                answer["createdAt"] = timestamp
            if "lastModifiedBy" in answer:
                answer["lastModifiedBy"] = actor


# -- refusals


def invalid_operation(message: str, **details: Any) -> TallystickError:
    return TallystickError(message, code="INVALID_OPERATION", details=details)


def invalid(message: str, **details: Any) -> InvalidArgument:
    return InvalidArgument(message, details=details)


def check_open(card: Card, verb: str) -> None:
    if card.terminal:
        raise invalid_operation(
            f"Cannot {verb}: {card.kind} is in terminal state {card.status}", currentStatus=card.status
        )
