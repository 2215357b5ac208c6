"""graph_restructure: the plan was wrong, so it is changed: moved, merged or dropped, all of it or nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tallystick.errors import TallystickError
from tallystick.policy import Action
from tallystick.state.attributes import list_of
from tallystick.state.work import DEPENDS_ON, DROPPED
from tallystick.state.work.attributes import is_dropped, said_over
from tallystick.state.work.board import Row
from tallystick.state.work.draft_builder import DraftBuilder, Link
from tallystick.toolsets import Answer, JsonObject
from tallystick.toolsets.work.answers import evidence_entry, newly_actionable, oldest
from tallystick.toolsets.work.arguments import Operation, RestructureArguments
from tallystick.toolsets.work.context import AnswerBuilder, Call
from tallystick.toolsets.work.errors import check_dependency, check_parent, cross_project, get_row, invalid
from tallystick.toolsets.work.task_texts import SectionMoves
from tallystick.toolsets.work.view import View

FIELDS = {"move": ("node_id", "new_parent"), "merge": ("source", "target"), "drop": ("node_id", "reason")}


async def graph_restructure(call: Call, asked: RestructureArguments) -> Answer:
    check_operations(asked.operations)

    def draw(builder: DraftBuilder, view: View) -> AnswerBuilder:
        answer = AnswerBuilder({"applied": len(asked.operations), "details": []})
        work = _Work(call, builder, view, answer)
        for number, operation in enumerate(asked.operations):
            node_id, result = _one(work, operation, number)
            answer.data["details"].append({"op": operation.op, "node_id": node_id, "result": result})
        newly = newly_actionable(builder, view)
        if newly["newly_actionable"] or any(operation.op == "drop" for operation in asked.operations):
            answer.data |= newly
        return answer

    # Of several, what each deletes is asked about when it is known what they come to.
    only = asked.operations[0] if len(asked.operations) == 1 else None
    answer, _ = await call.write(
        draw,
        action=Action.DELETE if only is not None and only.op == "merge" else Action.WRITE,
        resource=(only.node_id or only.source) if only is not None else None,
        reason=only.reason if only is not None else None,
    )
    return Answer(answer.complete())


def check_operations(operations: list[Operation]) -> None:
    problems = [
        f"field 'operations[{number}].{field}' is required by {operation.op}"
        for number, operation in enumerate(operations)
        for field in FIELDS[operation.op]
        if getattr(operation, field) is None
    ]
    if problems:
        raise invalid(*problems)


def _one(work: _Work, operation: Operation, number: int) -> tuple[str, str]:
    first, second = (getattr(operation, field) for field in FIELDS[operation.op])
    try:
        return _OPERATIONS[operation.op](work, first, second)
    except TallystickError as error:
        error.details["operation"] = number
        raise


class _Work:
    """What the operations of one call do to the draft."""

    def __init__(self, call: Call, builder: DraftBuilder, view: View, answer: AnswerBuilder) -> None:
        self._call = call
        self._builder = builder
        self._view = view
        self._answer = answer
        self._claimant = call.claimant(view.state)
        self._sections = SectionMoves(builder, view)

    # -- move

    def move(self, node_id: str, new_parent: str) -> tuple[str, str]:
        row, parent = self._changed_row(node_id), self._row(new_parent, "new_parent")
        self._check_together(row, parent)
        if row.parent is None:
            raise invalid(f"'{node_id}' is the root of its project and cannot be moved")
        check_parent(row, parent, self._view.read_filter)
        if row.parent is parent:
            return node_id, f"was under {new_parent} already"
        self._warn_of_resolved(parent, [row])
        self._builder.revise(node_id, parent=new_parent)
        return node_id, f"moved under {new_parent}"

    # -- merge

    def merge(self, source_id: str, target_id: str) -> tuple[str, str]:
        source, target = self._changed_row(source_id, "source"), self._changed_row(target_id, "target")
        if source is target:
            raise invalid(f"'{source_id}' cannot be merged into itself")
        self._check_together(source, target)
        if source.parent is None:
            raise invalid(f"'{source_id}' is the root of its project and cannot be merged into another node")
        check_parent(source, target, self._view.read_filter)
        self._warn_of_resolved(target, source.children)
        links = self._builder.links(source_id)
        for link in links:
            self._builder.unlink(link)
        for child in oldest(source.children, len(source.children)):
            self._builder.revise(child.id, parent=target_id)
        self._absorb(source_id, target_id)
        for link in links:
            self._hand_over(link, source_id, target_id)
        count = self._sections.move(source_id, target_id)
        self._builder.delete(source_id)
        taken = f" with {count} section{'' if count == 1 else 's'}" if count else ""
        return target_id, f"absorbed {source_id}{taken}"

    def _absorb(self, source_id: str, target_id: str) -> None:
        given, kept = self._builder.attrs(source_id), self._builder.attrs(target_id)
        evidence = [*list_of(kept, "evidence"), *list_of(given, "evidence")]
        changes: JsonObject = {"evidence": evidence or None, "merged": [*list_of(kept, "merged"), source_id]}
        if kept.get("resolved") is True:
            changes |= said_over({**kept, **changes}, dropped=is_dropped(kept))
        self._builder.revise(target_id, **changes)
        # Its last version, so that lookups of the old id can say where it went.
        self._builder.revise(source_id, merged_into=target_id)

    def _hand_over(self, link: Link, source_id: str, target_id: str) -> None:
        ends = [target_id if end == source_id else end for end in (link["from"], link["to"])]
        if ends[0] == ends[1]:
            return
        moved: Link = {**link, "from": ends[0], "to": ends[1]}
        if "id" not in link and self._builder.find_link(ends[0], link["rel"], ends[1]) is not None:
            return
        if link["rel"] == DEPENDS_ON:
            self._check_no_cycle(ends[0], ends[1])
        self._builder.link(moved)

    def _check_no_cycle(self, source_id: str, target_id: str) -> None:
        source, target = self._builder.graph.find(source_id), self._builder.graph.find(target_id)
        if source is not None and target is not None:
            check_dependency(self._builder.graph, source, target, self._view.read_filter)

    # -- drop

    def drop(self, node_id: str, reason: str) -> tuple[str, str]:
        row = self._row(node_id)
        dropped = [each for each in (row, *row.below()) if each.open]
        for each in self._view.readable(dropped, lambda row: row.id):
            self._answer.warn(self._claimant.warning(each))
        entry = evidence_entry(DROPPED, reason, self._call.principal.actor, self._call.context.now(self._view.state))
        for each in sorted(dropped, key=lambda each: (each.depth, each.created)):
            attrs = self._builder.attrs(each.id)
            over: JsonObject = {"resolved": True, "evidence": [*list_of(attrs, "evidence"), entry]}
            self._builder.revise(each.id, **over, **said_over({**attrs, **over}, dropped=True))
        count = len(self._view.readable(dropped, lambda row: row.id))
        return node_id, f"dropped {count} node{'' if count == 1 else 's'}" if count else "was resolved already"

    # -- both

    def _row(self, node_id: str, role: str | None = None) -> Row:
        return get_row(self._view, node_id, role)

    def _changed_row(self, node_id: str, role: str | None = None) -> Row:
        row = self._row(node_id, role)
        self._answer.warn(self._claimant.warning(row))
        return row

    def _check_together(self, one: Row, other: Row) -> None:
        if one.board is not other.board:
            raise cross_project(f"'{one.id}' and '{other.id}'")

    def _warn_of_resolved(self, parent: Row, children: Sequence[Row]) -> None:
        if parent.resolved and any(child.open and self._view.allows(child.id) for child in children):
            self._answer.warn(f"'{parent.id}' is resolved and stays so, with open nodes under it")


_OPERATIONS: dict[str, Callable[[_Work, str, str], tuple[str, str]]] = {
    "move": _Work.move,
    "merge": _Work.merge,
    "drop": _Work.drop,
}
