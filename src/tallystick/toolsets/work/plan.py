"""graph_plan: many work nodes at once, with their places in the tree and what they wait for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from tallystick.errors import Conflict
from tallystick.state.work import DEPENDS_ON
from tallystick.state.work.board import Board, Row
from tallystick.state.work.draft_builder import DraftBuilder
from tallystick.toolsets import Answer, JsonObject
from tallystick.toolsets.truncation import size_of
from tallystick.toolsets.work.arguments import NODE_BYTES_MAX, PlanArguments, PlannedNode
from tallystick.toolsets.work.context import AnswerBuilder, Call
from tallystick.toolsets.work.errors import check_unused, cross_project, cycle, get_row, invalid, projects_of
from tallystick.toolsets.work.view import View

Place = int | Row
"""A node of the batch by its number, or one that was there before."""


class _Step(msgspec.Struct):
    """A planned node with its references looked up."""

    said: PlannedNode
    id: str
    parent: Place
    waits_for: list[Place]
    board: Board | None = None


async def graph_plan(call: Call, asked: PlanArguments) -> Answer:
    check_refs(asked.nodes)
    ids = [call.context.ids() for _ in asked.nodes]
    created = [{"ref": node.ref, "id": node_id} for node, node_id in zip(asked.nodes, ids, strict=True)]
    opened = call.context.opened(call.principal)

    def draw(builder: DraftBuilder, view: View) -> AnswerBuilder:
        check_unused(builder.state, ids)
        batch = _Batch(view, asked.nodes, ids, opened)
        answer = AnswerBuilder({"created": created}, batch.warnings())
        batch.builder(builder)
        return answer

    answer, _ = await call.write(draw)
    return Answer(answer.complete())


def check_refs(nodes: Sequence[PlannedNode]) -> None:
    twice = [ref for ref, count in Counter(node.ref for node in nodes).items() if count > 1]
    if twice:
        raise invalid(*(f"ref '{ref}' is used more than once" for ref in twice))


class _Batch:
    def __init__(self, view: View, nodes: Sequence[PlannedNode], ids: list[str], opened: str | None) -> None:
        self._view = view
        self._numbers = {node.ref: number for number, node in enumerate(nodes)}
        root = self._default_root(nodes, opened)
        self._steps = [
            _Step(
                node,
                node_id,
                root if node.parent_ref is None and root is not None else self._parent(node),
                list(dict.fromkeys(self._place(ref, f"dependency of '{node.ref}'") for ref in node.depends_on or ())),
            )
            for node, node_id in zip(nodes, ids, strict=True)
        ]
        self._order = self._parents_first()
        for number in self._order:
            step = self._steps[number]
            step.board = self._steps[step.parent].board if isinstance(step.parent, int) else step.parent.board
        self._check_projects()
        self._check_cycles()

    # -- references

    def _place(self, ref: str, role: str) -> Place:
        number = self._numbers.get(ref)
        return number if number is not None else get_row(self._view, ref, role)

    def _parent(self, node: PlannedNode) -> Place:
        if node.parent_ref is not None:
            parent = self._place(node.parent_ref, f"parent of '{node.ref}'")
            if isinstance(parent, int) or parent.belongs:
                return parent
            raise Conflict(
                f"'{parent.id}' (parent of '{node.ref}') was redacted and belongs to no project any more",
                code="missing_parent",
                hint="plan it under another node: graph_query finds them",
                details={"ref": node.ref},
            )
        projects = [
            {"project": board.name, "root": self._view.reference(board.root)} for board in projects_of(self._view)
        ]
        raise Conflict(
            f"node '{node.ref}' has no parent_ref, and nothing says which project it belongs to",
            code="missing_parent",
            hint="a parent is the ref of a node of this batch, the id of a work node, or the id of a project's root"
            if projects
            else "there is no project yet: graph_open makes one",
            details={"ref": node.ref, "projects": projects[:20]},
        )

    def _default_root(self, nodes: Sequence[PlannedNode], opened: str | None) -> Row | None:
        """For nodes without a parent: of the project that the others speak of, was opened last, or is the only one."""
        if all(node.parent_ref is not None for node in nodes):
            return None
        spoken_of = {
            row.board
            for node in nodes
            for ref in (node.parent_ref, *(node.depends_on or ()))
            if ref is not None
            and ref not in self._numbers
            and (row := self._view.graph.find(ref)) is not None
            and self._view.allows(ref)
        }
        boards = list(spoken_of) or [self._view.graph.boards.get(opened or "")]
        if boards == [None] or (boards[0] is not None and boards[0].name is None):
            boards = list(projects_of(self._view))
        if len(boards) != 1 or boards[0] is None or boards[0].root is None:
            return None
        root = boards[0].root
        return self._view.graph.find(root) if self._view.allows(root) else None

    # -- rules

    def _parents_first(self) -> list[int]:
        """In the order in which they were planned, as far as parents allow. Raises when they form a cycle."""
        order: dict[int, None] = {}
        for number in range(len(self._steps)):
            line: dict[int, None] = {}
            place: Place = number
            while isinstance(place, int) and place not in order:
                if place in line:
                    ring = list(line)[list(line).index(place) :]
                    raise cycle([self._steps[each].said.ref for each in (*ring, place)], "Parent")
                line[place] = None
                place = self._steps[place].parent
            order.update(dict.fromkeys(reversed(line)))
        return list(order)

    def _check_projects(self) -> None:
        for step in self._steps:
            for place in step.waits_for:
                board = self._steps[place].board if isinstance(place, int) else place.board
                if board is not step.board:
                    raise cross_project(f"'{step.said.ref}' and '{self._name(place)}', which it depends on,")

    def _check_cycles(self) -> None:
        """Only inside the batch: nothing that was there before depends on what is new."""
        settled: set[int] = set()
        for first in range(len(self._steps)):
            if first in settled:
                continue
            way, branches = [first], [iter(self._inner(first))]
            while way:
                number = next(branches[-1], None)
                if number is None:
                    settled.add(way.pop())
                    branches.pop()
                elif number in way:
                    raise cycle([self._steps[each].said.ref for each in (*way[way.index(number) :], number)])
                elif number not in settled:
                    way.append(number)
                    branches.append(iter(self._inner(number)))

    def _inner(self, number: int) -> list[int]:
        return [place for place in self._steps[number].waits_for if isinstance(place, int)]

    def warnings(self) -> list[str]:
        found = []
        for step in self._steps:
            parent = step.parent
            if isinstance(parent, Row) and parent.resolved:
                found.append(f"'{step.said.ref}' is under '{parent.id}', which is resolved and stays so")
            line = self._line(step)
            found += [
                f"'{step.said.ref}' depends on '{self._name(place)}', which is above it: neither can come first"
                for place in step.waits_for
                if place in line
            ]
        for number, step in enumerate(self._steps):
            found += [
                f"'{self._steps[number].said.ref}' depends on '{self._name(place)}', which is below it:"
                " as its child it must be resolved first anyway"
                for place in step.waits_for
                if isinstance(place, int) and number in self._line(self._steps[place])
            ]
        return found

    def _line(self, step: _Step) -> set[Place]:
        """Everything above it."""
        found: set[Place] = set()
        place: Place = step.parent
        while isinstance(place, int):
            found.add(place)
            place = self._steps[place].parent
        return found | {place, *place.above()}

    def _name(self, place: Place) -> str:
        return self._steps[place].said.ref if isinstance(place, int) else place.id

    # -- what is written

    def builder(self, builder: DraftBuilder) -> None:
        for number in self._order:
            step = self._steps[number]
            builder.put(step.id, self._attrs(step))
        for step in self._steps:
            for place in step.waits_for:
                builder.link({"from": step.id, "rel": DEPENDS_ON, "to": self._id(place)})

    def _attrs(self, step: _Step) -> JsonObject:
        assert step.board is not None
        attrs: dict[str, Any] = {
            "project": step.board.id,
            "parent": self._id(step.parent),
            "summary": step.said.summary,
            "resolved": False,
            "rev": 1,
        }
        properties = {key: value for key, value in (step.said.properties or {}).items() if value is not None}
        if properties:
            attrs["properties"] = properties
        if step.said.context_links:
            attrs["context_links"] = list(dict.fromkeys(step.said.context_links))
        check_node_size(attrs, step.said.ref)
        return attrs

    def _id(self, place: Place) -> str:
        return self._steps[place].id if isinstance(place, int) else place.id


def check_node_size(attrs: JsonObject, name: str) -> None:
    """Evidence is apart: of that, answers show the newest."""
    size = size_of({key: value for key, value in attrs.items() if key != "evidence"})
    if size > NODE_BYTES_MAX:
        raise invalid(f"node '{name}' would have {size:,} bytes, the limit is {NODE_BYTES_MAX:,}")
