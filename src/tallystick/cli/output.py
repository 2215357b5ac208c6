"""The output: JSON for programs, tables for people, progress on standard error for those who watch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import orjson
import typer

if TYPE_CHECKING:
    from rich.console import Console

_PIPED_WIDTH = 10_000
_WORTH_WATCHING_BYTES = 16 << 20


def emit(value: Any) -> None:
    """One JSON value on a line of its own."""
    typer.echo(orjson.dumps(value, default=str).decode())


def note(text: str) -> None:
    """For people who watch: never part of the answer."""
    typer.echo(text, err=True)


def console() -> Console:
    from rich.console import Console

    # Piped, a table is as wide as it needs to be: cutting it at 80 characters would lose what was asked for.
    width = None if sys.stdout.isatty() else _PIPED_WIDTH
    return Console(highlight=False, width=width)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    from rich.table import Table
    from rich.text import Text

    drawn = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        drawn.add_row(*(Text(visible(cell), overflow="fold") for cell in row))
    console().print(drawn)


def visible(cell: object) -> str:
    """As text that cannot steer the terminal: what agents wrote may hold escape sequences."""
    text = cell if isinstance(cell, str) else "" if cell is None else orjson.dumps(cell, default=str).decode()
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@contextmanager
def progress(doing: str, total: int) -> Iterator[Callable[[int], None]]:
    """A function that takes how many bytes are done. Drawn only on a terminal, and only when it takes a while."""
    if not sys.stderr.isatty() or total < _WORTH_WATCHING_BYTES:
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(doing), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(doing, total=total)
        yield lambda done: bar.update(task, completed=done)
