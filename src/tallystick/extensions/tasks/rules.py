"""The rules of sections, templates and pipelines, for a write that sets one of them to a whole document."""

from __future__ import annotations

from typing import Any

from tallystick.errors import Conflict
from tallystick.extensions.tasks.cards import PIPELINES, TEMPLATE, TaskCards, pipeline_problem
from tallystick.extensions.tasks.sections import check_free
from tallystick.extensions.tasks.templates import check_name
from tallystick.state.attributes import integer_of, text_of
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.work import NODE, PROJECT
from tallystick.state.work.attributes import CATALOGS
from tallystick.state.work.sections import SECTION, Sections
from tallystick.toolsets.entity_rules import EntityRule, Reference

Attrs = dict[str, Any]


def _check_section(state: State, read_filter: ReadFilter, node_id: str, attrs: Attrs) -> None:
    beside = [each for each in state.derived(Sections).of(text_of(attrs, "entityId")) if each != node_id]
    nodes = [node for node in map(state.node, beside) if node is not None]
    check_free(integer_of(attrs, "ordinal", 0), {integer_of(node.attrs, "ordinal", 0) for node in nodes})


def _check_template(state: State, read_filter: ReadFilter, node_id: str, attrs: Attrs) -> None:
    check_name(state.derived(TaskCards), read_filter, text_of(attrs, "name"), node_id)


def _check_pipelines(state: State, read_filter: ReadFilter, node_id: str, attrs: Attrs) -> None:
    problem = next(filter(None, (pipeline_problem(kind, attrs.get(kind)) for kind in CATALOGS)), None)
    if problem is not None:
        raise Conflict(problem)


RULES: dict[str, EntityRule] = {
    SECTION: EntityRule((Reference("entityId", frozenset({PROJECT, NODE})),), ("version",), _check_section),
    TEMPLATE: EntityRule((), ("version",), _check_template),
    PIPELINES: EntityRule(check=_check_pipelines),
}
