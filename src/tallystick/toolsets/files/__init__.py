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

from tallystick.toolsets import Tool, Toolset, error_shape
from tallystick.toolsets.files import arguments, editing, plain_files, viewing
from tallystick.toolsets.files.context import FILE_BYTES_MAX, ToolContext

if TYPE_CHECKING:
    from tallystick.projections.content import Kind
    from tallystick.projections.views import Views


def make_toolset(
    home: Callable[[str], Path] | None,
    *,
    views: Callable[[str], Views | None] = lambda tenant: None,
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
    return Toolset(
        name="files",
        summary="plain text files in the base directory, and the content files of typed memories, edited as text",
        faults="result",
        error_shape=error_shape,
        tools=tuple(_tool(tool_context, **row) for row in _TOOLS),
    )


def _tool(tool_context: ToolContext, *, call: Any, **row: Any) -> Tool:
    return Tool(call=partial(call, tool_context), **row)


_TEXT = {"type": "string"}
_COUNT = {"type": "integer"}
_FLAG = {"type": "boolean"}

# A name means the same in the answer of every tool.
_ANSWERS: dict[str, dict[str, Any]] = {
    "content": _TEXT,
    "entries": {"type": "array", "items": {"type": "object"}},
    "kind": {"type": "string", "enum": ["file", "directory"]},
    "line": _COUNT,
    "lines": _COUNT,
    "next_line": _COUNT,
    "ok": _FLAG,
    "path": _TEXT,
    "truncated": _FLAG,
    "untrusted": {"type": ["object", "array"]},
    "view_range": {"type": "array", "items": _COUNT},
}


def _answer(always: str, sometimes: str = "") -> dict[str, Any]:
    names = f"{always} {sometimes}".split()
    return {"type": "object", "properties": {name: _ANSWERS[name] for name in names}, "required": always.split()}


_TOOLS: tuple[dict[str, Any], ...] = (
    {
        "name": "view",
        "title": "View a file or directory",
        "description": "Show a text file with line numbers, all of it or view_range [first, last];"
        " or what is in a directory, two levels deep. Paths are relative to the base directory.",
        "input": arguments.View,
        "output": _answer("path kind", "content lines view_range truncated next_line entries untrusted"),
        "call": viewing.view,
        "reads_only": True,
        "idempotent": True,
    },
    {
        "name": "create",
        "title": "Create a file",
        "description": "Write a new text file; missing directories are made. Refuses a name that is taken unless"
        " overwrite is true.",
        "input": arguments.Create,
        "output": _answer("ok path lines"),
        "call": plain_files.create,
        "reads_only": False,
        "destructive": True,
    },
    {
        "name": "str_replace",
        "title": "Replace text in a file",
        "description": "Replace old_str by new_str. old_str must occur exactly once, white space included:"
        " take in the lines around it if it does not.",
        "input": arguments.StrReplace,
        "output": _answer("ok path line lines"),
        "call": editing.str_replace,
        "reads_only": False,
        "destructive": True,
    },
    {
        "name": "insert",
        "title": "Insert lines into a file",
        "description": "Insert text after line insert_line; 0 puts it first.",
        "input": arguments.Insert,
        "output": _answer("ok path line lines"),
        "call": editing.insert,
        "reads_only": False,
    },
    {
        "name": "delete",
        "title": "Delete a file or directory",
        "description": "Delete a file, or a directory with everything in it. Plain files have no versions:"
        " this cannot be undone.",
        "input": arguments.Delete,
        "output": _answer("ok path"),
        "call": plain_files.delete,
        "reads_only": False,
        "destructive": True,
    },
    {
        "name": "rename",
        "title": "Rename or move a file",
        "description": "Rename or move a file or directory. Refuses a name that is taken.",
        "input": arguments.Rename,
        "output": _answer("ok path"),
        "call": plain_files.rename,
        "reads_only": False,
    },
)

TOOLSET = make_toolset(None)
"""To be shown; its tools have no home to work in."""
