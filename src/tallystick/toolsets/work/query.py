"""graph_query: work nodes by what they are, page by page."""

from __future__ import annotations

import base64
import binascii
from typing import Any
from zlib import crc32

import msgspec
import orjson

from tallystick.policy import Action
from tallystick.state.attributes import object_of
from tallystick.state.work.board import Board, Row
from tallystick.state.work.queries import KEY_LENGTHS, Filter, Key, matching, page, readable, readiness
from tallystick.toolsets import Answer, JsonObject
from tallystick.toolsets.truncation import cut_short, room_for, within_budget
from tallystick.toolsets.work.answers import ANSWER_BYTES_MAX
from tallystick.toolsets.work.arguments import LIMIT_MAX, QueryArguments, QueryFilter
from tallystick.toolsets.work.context import Call
from tallystick.toolsets.work.errors import cross_project, get_project, get_row, invalid
from tallystick.toolsets.work.view import View, standing


async def graph_query(call: Call, asked: QueryArguments) -> Answer:
    def look(view: View) -> JsonObject:
        return _found(call, view, asked, room_for(call.principal, ANSWER_BYTES_MAX))

    return Answer(await call.read(Action.SEARCH, look))


def _found(call: Call, view: View, asked: QueryArguments, bytes_max: int) -> JsonObject:
    board = get_project(view, asked.project)
    after = _place(asked, board) if asked.cursor is not None else None
    wanted = _filter(view, board, asked.filter or QueryFilter())
    stands = readiness(view.graph, board, view.read_filter)
    hits = matching(
        view.graph,
        board,
        wanted,
        call.context.moment(view.state),
        lambda node_id: object_of(view.node(node_id).attrs, "properties"),
        stands,
    )
    if view.narrows:
        hits = readable(view.graph, hits, view.read_filter)
    limit = min(asked.limit, LIMIT_MAX)
    rows = page(view.graph, board, hits, asked.sort, after, limit + 1, stands)
    nodes = within_budget((_line(view, row) for row, _ in rows[:limit]), bytes_max)
    answer: JsonObject = {"nodes": nodes, "total": len(hits)} | cut_short(len(nodes), limit=limit, left=len(rows))
    if len(rows) > len(nodes):
        answer["next_cursor"] = _cursor(asked, board, rows[len(nodes) - 1][1])
    return answer


def _filter(view: View, board: Board, asked: QueryFilter) -> Filter:
    ancestor = get_row(view, asked.ancestor, "ancestor") if asked.ancestor is not None else None
    if ancestor is not None and ancestor.board is not board:
        raise cross_project(f"the ancestor '{ancestor.id}' and '{board.name}'")
    return Filter(
        resolved=asked.resolved,
        properties=asked.properties or {},
        text=asked.text,
        below=ancestor,
        evidence=asked.has_evidence_type,
        leaf=asked.is_leaf,
        actionable=asked.is_actionable,
        blocked=asked.is_blocked,
        claimed_by=asked.claimed_by if "claimed_by" in asked.model_fields_set else msgspec.UNSET,
    )


def _line(view: View, row: Row) -> JsonObject:
    attrs = view.attrs(row)
    answer: JsonObject = {"id": row.id, "summary": attrs.get("summary"), **standing(row)}
    if attrs.get("state") is not None:
        answer["state"] = attrs["state"]
    answer |= {
        "parent": view.reference(attrs.get("parent")),
        "depth": row.depth,
        "properties": object_of(attrs, "properties"),
    }
    return view.warned(row.id, answer)


# -- cursors: the place of the last node shown, and which question it belongs to


def _cursor(asked: QueryArguments, board: Board, key: Key) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([asked.sort, _question(asked, board), *key])).decode()


def _place(asked: QueryArguments, board: Board) -> Key:
    said = _decoded(asked.cursor or "")
    if len(said) < 3 or said[0] not in KEY_LENGTHS:
        raise invalid("field 'cursor' is none that graph_query gave")
    sort, question, *key = said
    if sort != asked.sort:
        raise invalid(f"field 'cursor' belongs to sort '{sort}', not '{asked.sort}'")
    if question != _question(asked, board):
        raise invalid("field 'cursor' belongs to another project or filter: begin without it")
    if len(key) not in KEY_LENGTHS[asked.sort] or not all(type(part) in (int, float) for part in key):
        raise invalid("field 'cursor' is none that graph_query gave")
    return tuple(key)


def _decoded(cursor: str) -> list[Any]:
    try:
        said = orjson.loads(base64.b64decode(cursor.encode(), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        return []
    return said if isinstance(said, list) else []


def _question(asked: QueryArguments, board: Board) -> int:
    wanted = asked.filter.model_dump(exclude_unset=True) if asked.filter is not None else {}
    return crc32(orjson.dumps([board.id, wanted], option=orjson.OPT_SORT_KEYS))
