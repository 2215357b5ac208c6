"""The registry: every source that can be imported from. A new one is added here, and nowhere else.

Other packages may bring importers, too: an entry point of the group `tallystick.importers` is a module of that kind.
"""

from __future__ import annotations

from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import cast

import msgspec

from tallystick.errors import InvalidArgument, NotFound
from tallystick.importers import Importer

GROUP = "tallystick.importers"
AUTO = "auto"


class Source(msgspec.Struct, frozen=True):
    name: str
    reads: str
    """What to name as PATH."""
    module: str


_HERE = "tallystick.importers"
SOURCES = (
    Source("server-memory", "memory.jsonl of the MCP reference server", f"{_HERE}.server_memory"),
    Source("beads", "issues.jsonl of 'bd export', or the directory with .beads", f"{_HERE}.beads"),
    Source("task-master", "tasks.json, or the directory with .taskmaster", f"{_HERE}.task_master"),
    Source("backlog-md", "the directory of a project of Backlog.md", f"{_HERE}.backlog_md"),
    Source("swimlanes", "graph.db", f"{_HERE}.swimlanes"),
    Source("claude-mem", "claude-mem.db or its JSON export, or ~/.claude-mem", f"{_HERE}.claude_mem"),
    Source("claude-code", "a memory directory, or ~/.claude for those of all projects", f"{_HERE}.claude_code"),
    Source("basic-memory", "the directory of a project", f"{_HERE}.basic_memory"),
    Source("markdown", "a directory of notes with [[links]], such as a vault", f"{_HERE}.markdown_vault"),
)
"""In the order in which they are guessed: the more exactly one is recognised, the earlier."""


def sources() -> list[Source]:
    """Ours, then those of other packages."""
    ours = {source.name for source in SOURCES}
    return [*SOURCES, *(Source(each.name, each.value, "") for each in _others() if each.name not in ours)]


def find(name: str) -> Importer:
    """Raises NotFound, naming those that are called alike."""
    for source in SOURCES:
        if source.name == name:
            return cast(Importer, import_module(source.module))
    for other in _others():
        if other.name == name:
            return cast(Importer, other.load())
    known = [source.name for source in sources()]
    near = " or ".join(f"'{each}'" for each in get_close_matches(name.lower(), known, cutoff=0.5))
    raise NotFound(
        f"there is no importer '{name}'",
        code="NO_IMPORTER",
        hint=f"did you mean {near}?" if near else f"there are {', '.join(known)}; {AUTO} guesses",
    )


def guess(path: Path) -> str:
    """The first whose files these seem to be. Raises InvalidArgument."""
    for source in sources():
        with suppress(OSError):
            if find(source.name).detect(path):
                return source.name
    raise InvalidArgument(
        f"cannot tell what wrote {path}",
        code="FORMAT_UNKNOWN",
        hint="say it with --from NAME; 'tallystick import --from list' names the importers",
    )


def _others() -> list[EntryPoint]:
    return sorted(entry_points(group=GROUP), key=lambda each: each.name)
