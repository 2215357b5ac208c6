"""The memory vocabulary: a governed graph of entities with every version of them.

Four tools: write, read, search, lineage. This file is their table; `arguments` holds their
arguments, `answers` their answers, and each tool has a file of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from tallystick.errors import InvalidArgument, TallystickError
from tallystick.toolsets import Tool, Toolset
from tallystick.toolsets.memory import lineage, read, search, write
from tallystick.toolsets.memory.arguments import LineageArguments, ReadArguments, SearchArguments, WriteArguments
from tallystick.toolsets.memory.confirm_redaction import CONFIRM_REDACTION
from tallystick.toolsets.memory.similar import SimilarNodes

if TYPE_CHECKING:
    from tallystick.projections.text import TextIndex
    from tallystick.toolsets.memory.by_words import NearSearch


def error_shape(error: TallystickError) -> dict[str, Any]:
    hint = {"hint": error.hint} if error.hint else {}
    problems = {"validation_errors": error.problems} if isinstance(error, InvalidArgument) else {}
    return {**error.details, "error": error.code, "message": error.message, **hint, **problems}


_TEXT = {"type": "string"}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_TEXTS = {"type": "array", "items": _TEXT}
_COUNT = {"type": "integer"}
_FLAG = {"type": "boolean"}
_OBJECT = {"type": "object"}
_OBJECT_OR_NULL = {"type": ["object", "null"]}
_OBJECTS = {"type": "array", "items": _OBJECT}
_PAGE = {"total": _COUNT, "offset": _COUNT, "limit": _COUNT, "next_offset": {"type": ["integer", "null"]}}
_PAGE["truncated"] = _PAGE["at_least"] = _FLAG

# A name means the same in the answer of every tool.
_ANSWERS: dict[str, dict[str, Any]] = {
    "batch": _OBJECT,
    "cache_hit": _FLAG,
    "commit_id": _TEXT,
    "content_hash": _TEXT,
    "csv": _TEXT,
    "degraded": _TEXT,
    "delegated_to": _TEXT_OR_NULL,
    "deleted": _TEXT,
    "dropped": {"type": "array", "items": _TEXT},
    "dropped_total": _COUNT,
    "duplicate": _FLAG,
    "edges": _OBJECTS,
    "edges_traversed": _COUNT,
    "edges_truncated": _FLAG,
    "entities": _OBJECTS,
    "entity": _OBJECT_OR_NULL,
    "events": _OBJECTS,
    "erasure": {"type": "object", "properties": {"pending": {"type": "array", "items": _TEXT}}},
    "export_format": _TEXT,
    "facets": _OBJECT,
    "hint": _TEXT,
    "indexed_position": _COUNT,
    "lamport": _COUNT,
    "lineage": _OBJECTS,
    "looked_for": _TEXTS,
    "nearest": _TEXTS,
    "omitted": _OBJECT,
    "pagination": {"type": "object", "properties": _PAGE},
    "paths": _OBJECTS,
    "paths_omitted": _COUNT,
    "position": _COUNT,
    "prev": _TEXT_OR_NULL,
    "provenance": _OBJECT_OR_NULL,
    "query_latency_ms": {"type": "number"},
    "redacted_commits": _COUNT,
    "results": _OBJECTS,
    "similar": {"type": "array", "items": _TEXT},
    "summary": _OBJECT,
    "timestamp": _TEXT,
    "truncated": _FLAG,
    "types": _TEXTS,
    "unchanged": _FLAG,
}


def _answer(always: str, sometimes: str) -> dict[str, Any]:
    names = f"{always} {sometimes}".split()
    return {"type": "object", "properties": {name: _ANSWERS[name] for name in names}, "required": always.split()}


def toolset(
    *,
    hops_max: int = search.HOPS_MAX,
    text: Callable[[str], TextIndex] | None = None,
    near: Callable[[str], NearSearch] | None = None,
    walks: Callable[[str], search.LongWalks] | None = None,
    prove: lineage.Prove | None = None,
) -> Toolset:
    """Longer traversals than `hops_max` are cut short and say so, unless `walks` takes them over. `text`: the text
    index of each tenant, `near` the search by meaning, where it is wanted; `prove` proves commits to others."""
    calls: dict[str, Callable[..., Any]] = {
        "memory.write": partial(write.write, similar=None if text is None else SimilarNodes(text)),
        "memory.search": partial(search.search, hops_max=hops_max, text=text, near=near, walks=walks),
        "memory.lineage": partial(lineage.lineage, prove=prove),
    }
    tools = (msgspec.structs.replace(tool, call=calls.get(tool.name, tool.call)) for tool in TOOLSET.tools)
    return msgspec.structs.replace(TOOLSET, tools=tuple(tools))


TOOLSET = Toolset(
    name="memory",
    summary="a versioned graph of entities: write nodes and edges, read and search them now or as of any"
    " past moment, and prove who changed what",
    guide={
        "memory.search": "Look before you answer, decide or begin: memory.search with `query` in plain words recalls"
        " facts, notes, decisions, work and knowledge alike; `facets: true` shows the types and attributes in use.",
        "memory.write": "Write when you learn or decide what should outlive this conversation: memory.write, a fact a"
        " node, with a `reason`. PATCH what is already there rather than saying it twice.",
    },
    keywords={
        "memory.write": "remember save note store fact decision preference update forget delete memory",
        "memory.read": "recall open get fact note by id memory",
        "memory.search": "recall remember find search look up what do we know memory notes decisions facts todos",
        "memory.lineage": "history who changed why when audit provenance versions memory",
    },
    always_loaded="memory.search",
    faults="protocol",
    error_shape=error_shape,
    tools=(
        Tool(
            name="memory.write",
            title="Write to memory",
            description="Remember a fact, note or decision: write or delete a ledger entity (node) or edge. UPSERT"
            " replaces it whole; PATCH merges attrs (null removes); DELETE keeps history; REDACT erases values.",
            input=WriteArguments,
            output=_answer(
                "commit_id lamport timestamp duplicate",
                "content_hash prev dropped dropped_total similar batch results redacted_commits erasure omitted hint",
            ),
            call=write.write,
            reads_only=False,
            destructive=True,
            confirmation=CONFIRM_REDACTION,
        ),
        Tool(
            name="memory.read",
            title="Read one entity",
            description="One ledger entity (node or edge) by id, with provenance, or null.",
            input=ReadArguments,
            output=_answer(
                "position",
                "entity provenance edges edges_truncated unchanged query_latency_ms cache_hit",
            ),
            call=read.read,
            reads_only=True,
            idempotent=True,
        ),
        Tool(
            name="memory.search",
            title="Search entities",
            description="Recall anything, from every toolset: by words (query), type, attributes, time, or along edges"
            " (traversal).",
            input=SearchArguments,
            output=_answer(
                "position",
                "entities provenance pagination paths paths_omitted edges_traversed truncated indexed_position"
                " delegated_to degraded"
                " unchanged query_latency_ms cache_hit looked_for nearest types facets deleted",
            ),
            call=search.search,
            reads_only=True,
            idempotent=True,
        ),
        Tool(
            name="memory.lineage",
            title="History of an entity",
            description="An entity's commits, oldest first: who, when, what changed, why. Of deleted ones too.",
            input=LineageArguments,
            output=_answer("", "entity lineage summary csv events export_format pagination"),
            call=lineage.lineage,
            reads_only=True,
            idempotent=True,
        ),
    ),
)
