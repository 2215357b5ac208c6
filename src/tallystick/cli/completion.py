"""What the shell offers for a word that is begun: ids, projects and types of the memory at hand.

It reads tables and the end of the log, as hooks do, and loads no state: a shell waits for it. Whatever is wrong,
nothing is offered and nothing is said.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

_OFFERED_MAX = 50


def entities(context: typer.Context, incomplete: str) -> list[str]:
    return _offered(context, lambda graph: graph.ids(incomplete, limit=_OFFERED_MAX))


def types(context: typer.Context, incomplete: str) -> list[str]:
    return _offered(context, lambda graph: graph.types(incomplete, limit=_OFFERED_MAX))


def projects(context: typer.Context, incomplete: str) -> list[str]:
    found = _offered(context, lambda graph: graph.projects())
    return [name for name in found if name.startswith(incomplete)]


def work_nodes(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """With what they are: an id says nothing to a person."""
    return _offered(context, lambda graph: graph.open_work(incomplete, limit=_OFFERED_MAX))


def _offered(context: typer.Context, look: Callable[[Any], list[Any]]) -> list[Any]:
    from tallystick.config import load
    from tallystick.errors import TallystickError
    from tallystick.extension import installed
    from tallystick.work_settings import read_settings

    try:
        settings = load({name: context.params.get(name) for name in ("base", "tenant")})
        work = read_settings(base=settings.base, working=Path.cwd(), environ=os.environ)
        complete = installed().find_handler("shell completion")
        return [] if complete is None else complete(settings.home, work.db_path or settings.home / "graph.db", look)
    except (sqlite3.Error, OSError, TallystickError):
        return []
