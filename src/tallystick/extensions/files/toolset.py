"""The files vocabulary: plain text files beside the memory, and the memory's own files as text.

Six tools: view, create, str_replace, insert, delete, rename. Everything happens below the
directory of the principal's tenant. Plain files are just files: no log, no versions. Content
files under `_content` are views of nodes and connections: to edit one is to commit its new
content. What else the store keeps there is out of reach (`paths` says what).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.app.callers import work_settings
from tallystick.config import Settings, named_paths
from tallystick.extension import installed
from tallystick.extensions.files import arguments, editing, viewing
from tallystick.extensions.files.context import FILE_BYTES_MAX, Call, ToolContext
from tallystick.toolsets import COUNT, FLAG, FLAGGED, TEXT, Toolset, answer_schema, error_shape, make_tool
from tallystick.work_settings import named_paths as named_by_work

if TYPE_CHECKING:
    from tallystick.app.context import AppContext
    from tallystick.projections.content import ContentFiles, Kind


def contributed(context: AppContext) -> Toolset:
    projections = context.projections
    return make_toolset(
        projections.path if projections else None,
        views=projections.content_files if projections else lambda tenant: None,
        adopt=projections.adopted if projections else None,
        published=projections.published if projections else None,
        reserved=_named_paths(context.settings),
        base=context.settings.base,
    )


def _named_paths(settings: Settings) -> list[Path]:
    """Return every path that any settings name, or are read from: out of reach for tools, wherever it lies."""
    return [
        *named_paths(settings),
        *named_by_work(work_settings(settings), base=settings.base, working=Path.cwd()),
        *(path for paths in installed().load("reserved_paths") for path in paths(settings)),
    ]


def make_toolset(
    home: Callable[[str], Path] | None,
    *,
    views: Callable[[str], ContentFiles | None] = lambda tenant: None,
    adopt: Callable[[str, Kind, str], Awaitable[None]] | None = None,
    published: Callable[[str, int], Awaitable[bool]] | None = None,
    file_bytes_max: int = FILE_BYTES_MAX,
    reserved: Sequence[Path] = (),
    base: Path | None = None,
) -> Toolset:
    """By tenant: its home and its views. Without views contents cannot be seen or edited.

    `adopt` is awaited before a content is edited: what a person wrote into its file comes first. `published`
    is awaited after a commit. Without a home the toolset is only for showing. Nobody gets at what is `reserved`,
    nor at what the store keeps for itself below the `base`.
    """
    tool_context = ToolContext(home, views, adopt, published, file_bytes_max, tuple(reserved), base)
    begin = partial(Call, tool_context)
    return Toolset(
        name="files",
        faults="result",
        error_shape=error_shape,
        tools=tuple(make_tool(begin, *row[:5], answer_schema(_ANSWERS, row[5])) for row in _TABLE),
    )


# A name means the same in the answer of every tool.
_ANSWERS: dict[str, dict[str, Any]] = {
    "content": TEXT,
    "entries": {"type": "array", "items": {"type": "object"}},
    "kind": {"type": "string", "enum": ["file", "directory"]},
    "line": COUNT,
    "lines": COUNT,
    "next_line": COUNT,
    "ok": FLAG,
    "path": TEXT,
    "stale": FLAGGED,
    "truncated": FLAG,
    "untrusted": FLAGGED,
    "view_range": {"type": "array", "items": COUNT},
}

_TABLE: tuple[tuple[Any, type[Any], str, str, str, str], ...] = (
    (viewing.view, arguments.View, "ri", "View a file or directory",
     "Show a text file with line numbers, all of it or view_range [first, last]; or what is in a directory, two"
     " levels deep. Paths are relative to the base directory.",
     "path kind content? lines? view_range? truncated? next_line? entries? stale? untrusted?"),
    (editing.create, arguments.Create, "d", "Create a file",
     "Write a new text file; missing directories are made. Refuses a name that is taken unless overwrite is true.",
     "ok path lines"),
    (editing.str_replace, arguments.StrReplace, "d", "Replace text in a file",
     "Replace old_str by new_str. old_str must occur exactly once, white space included: take in the lines around it"
     " if it does not.", "ok path line lines"),
    (editing.insert, arguments.Insert, "", "Insert lines into a file",
     "Insert text after line insert_line; 0 puts it first.", "ok path line lines"),
    (editing.delete, arguments.Delete, "d", "Delete a file or directory",
     "Delete a file, or a directory with everything in it. Plain files have no versions: this cannot be undone.",
     "ok path"),
    (editing.rename, arguments.Rename, "", "Rename or move a file",
     "Rename or move a file or directory. Refuses a name that is taken.", "ok path"),
)  # fmt: skip
