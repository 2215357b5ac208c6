"""Words that a shell completes: ids, projects and types of the memory at hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tallystick.extensions.hooks.graph import Graph, opened
from tallystick.extensions.hooks.log_tail import Away


def complete(home: Path, database: Path, look: Callable[[Graph], list[Any]]) -> list[Any]:
    """Return what `look` finds in the mirror and the end of the log; nothing if they cannot be read now."""
    try:
        with opened(home, database) as graph:
            return look(graph)
    except Away:
        return []
