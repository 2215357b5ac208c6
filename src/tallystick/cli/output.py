"""The output: JSON for programs, tables for people, progress on standard error for those who watch."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
import orjson
import typer

from tallystick.cli.terminal_encoding import escape, is_utf8
from tallystick.errors import Conflict, InvalidArgument
from tallystick.operations import Progress, no_progress
from tallystick.system.private_files import write_all
from tallystick.telemetry.logs import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_PIPED_WIDTH = 10_000
_WORTH_WATCHING = {"bytes": 16 << 20, "items": 5_000}


class Styled(NamedTuple):
    text: str
    fg: str | None = None
    bold: bool = False
    dim: bool = False


def say(*parts: str | Styled, err: bool = False) -> None:
    """A line. Whoever wrote a name in it cannot steer the terminal by it, nor add a line of its own."""
    typer.echo("".join(_shown(part) for part in parts), err=err)


def note(text: str) -> None:
    """For people who watch: never part of the answer."""
    say(text, err=True)


def emit(value: Any) -> None:
    """One JSON value on a line of its own; a Struct is an object of its fields."""
    plain = msgspec.to_builtins(value, enc_hook=str)
    try:
        emit_json(orjson.dumps(plain))
    except TypeError:
        # The name of a file may be any bytes: those that are not UTF-8 are told as escapes.
        emit_json(json.dumps(plain, separators=(",", ":")).encode())


def emit_json(line: bytes) -> None:
    """The same, of what is JSON already. Programs read JSON as UTF-8: in any other encoding it is written in ASCII."""
    text = _UNSEEN.sub(_escaped, line.decode())
    typer.echo(text if is_utf8(sys.stdout) else escape(text))


def write(text: str) -> None:
    """As it is for programs and files; on a terminal its lines, escaped."""
    if sys.stdout.isatty():
        for line in text.removesuffix("\n").split("\n"):
            say(line.removesuffix("\r"))
    else:
        typer.echo(text, nl=False)


# JSON itself escapes only what is below the blank.
_UNSEEN = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def require_new(path: Path | None) -> None:
    """Before the work is done whose result could not be written."""
    if path is not None and path.exists():
        raise Conflict(f"{path} is already there", code="FILE_EXISTS", hint="choose another name")


def write_new(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Into a file that is not there yet: all of it, or nothing."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
            try:
                write_all(file.fileno(), data)
            except OSError:
                # A part of it would look like all of it, and stand in the way of the next try.
                path.unlink()
                raise
    except FileExistsError:
        raise Conflict(f"{path} is already there", code="FILE_EXISTS", hint="choose another name") from None
    except OSError as error:
        raise InvalidArgument(f"cannot write {path}: {error.strerror}", code="FILE_UNWRITABLE") from error


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def _shown(part: str | Styled) -> str:
    if isinstance(part, Styled):
        return typer.style(printable(part.text), fg=part.fg, bold=part.bold or None, dim=part.dim or None)
    return printable(part)


def drawn(value: object, style: str = "", **layout: Any) -> Text:
    """For what rich draws: it lets escape sequences pass."""
    from rich.text import Text

    return Text(visible(value), style=style, **layout)


def console() -> Console:
    from rich.console import Console

    class PipedConsole(Console):
        def on_broken_pipe(self) -> None:
            """Rich would leave with 1."""
            raise BrokenPipeError

    # Piped, a table is as wide as it needs to be: cutting it at 80 characters would lose what was asked for.
    width = None if sys.stdout.isatty() else _PIPED_WIDTH
    return PipedConsole(highlight=False, width=width)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    from rich.table import Table

    grid = Table(*map(visible, columns), box=None, pad_edge=False, header_style="bold")
    for row in rows:
        grid.add_row(*(drawn(cell, overflow="fold") for cell in row))
    console().print(grid)


def visible(cell: object) -> str:
    """As text that cannot steer the terminal: what agents wrote may hold escape sequences."""
    text = cell if isinstance(cell, str) else "" if cell is None else orjson.dumps(cell, default=str).decode()
    return printable(text)


@contextmanager
def progress(unit: Literal["bytes", "items"] = "bytes") -> Iterator[Progress]:
    """Takes what is being done, and how much of how much. Drawn only on a terminal, and only when it is much."""
    if not sys.stderr.isatty():
        yield no_progress
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    counted = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), counted, TimeRemainingColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def draw(doing: str, done: int, total: int) -> None:
            if total >= _WORTH_WATCHING[unit]:
                task = tasks[doing] if doing in tasks else tasks.setdefault(doing, bars.add_task(doing))
                bars.update(task, completed=done, total=total)

        yield draw
