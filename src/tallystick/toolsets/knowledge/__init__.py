"""The knowledge vocabulary: what to know before touching these files.

Three tools. This file is their table; `arguments` holds their arguments, `path_context` is what
other toolsets carry along, `stale` which of it is out of date, `reverify` what work that makes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.clock import Clock, wall_clock
from tallystick.toolsets import Toolset, make_tool
from tallystick.toolsets.envelope import OUTPUT, error_shape
from tallystick.toolsets.knowledge.arguments import ChangelogArguments, ManageArguments, QueryArguments
from tallystick.toolsets.knowledge.changelog import manage_changelog
from tallystick.toolsets.knowledge.context import Call, TaskMaker, ToolContext
from tallystick.toolsets.knowledge.freshness import Repository
from tallystick.toolsets.knowledge.manage import manage_graph
from tallystick.toolsets.knowledge.query import query_graph
from tallystick.toolsets.work.context import ToolContext as WorkContext

if TYPE_CHECKING:
    from tallystick.projections.text import TextIndex


def make_tool_context(
    *,
    repo: Path | None = None,
    base: Path | None = None,
    repo_falls_back: bool = True,
    pin_knowledge: bool = False,
    stale_makes_work: bool = False,
    work: WorkContext | None = None,
    tasks_are_made_by: TaskMaker | None = "graph_plan",
    clock: Clock = wall_clock,
    text: Callable[[str], TextIndex] | None = None,
) -> ToolContext:
    """`repo` is what paths are relative to; None: the root of the work tree around the working directory, unless it
    must not fall back on that. What lies in the `base` is never looked at."""
    return ToolContext(
        repository=Repository(repo, base=base, falls_back=repo_falls_back),
        pin_knowledge=pin_knowledge,
        stale_makes_work=stale_makes_work,
        work=work or WorkContext(clock=clock),
        tasks_are_made_by=tasks_are_made_by,
        clock=clock,
        text=text,
    )


def make_toolset(tool_context: ToolContext | None = None) -> Toolset:
    tool_context = tool_context or make_tool_context()
    begin = partial(Call, tool_context)
    return Toolset(
        name="knowledge",
        summary="what to know before touching files: knowledge tied to glob patterns, with its history",
        guide={"query_graph": "Before you touch files: query_graph context with their paths."},
        keywords={
            "query_graph": "before editing files what to know about this code path conventions pitfalls",
            "manage_graph": "document how code works convention pitfall knowledge atom molecule files",
            "manage_changelog": "changelog what changed in this code and why",
        },
        faults="result",
        error_shape=error_shape,
        tools=tuple(make_tool(begin, *row, OUTPUT) for row in _TABLE),
    )


_TABLE: tuple[tuple[Any, type[Any], str, str, str], ...] = (
    (query_graph, QueryArguments, "ri", "Know these files",
     "What to know before touching files: context gives the knowledge (atoms, in molecules) tied to their paths;"
     " get and search find atoms."),
    (manage_graph, ManageArguments, "d", "Keep knowledge",
     "Create, update or delete knowledge: an atom says how the files of its patterns work; a molecule groups atoms."),
    (manage_changelog, ChangelogArguments, "", "History of knowledge",
     "Append what a task changed in an atom or molecule and why, or list it, newest first."),
)  # fmt: skip

TOOLSET = make_toolset()
