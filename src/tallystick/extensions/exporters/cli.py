"""`export --as`: what holds at a moment, in the form of another program."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from tallystick.cli.filters import parse_moment
from tallystick.cli.options import existing
from tallystick.cli.output import emit, note, progress, table
from tallystick.cli.transfer import LIST, refuse_existing, whole_file
from tallystick.errors import InvalidArgument
from tallystick.extension import installed
from tallystick.extensions.exporters.registry import find

if TYPE_CHECKING:
    from tallystick.extensions.exporters.directory import Directory
    from tallystick.extensions.exporters.exporting import Report


def export_as(
    name: str,
    target: Path,
    *,
    as_of: str | None,
    project: str | None,
    type: str | None,
    force: bool,
    json: bool,
    base: Path | None,
    tenant: str | None,
) -> None:
    if name == LIST:
        forms = installed().forms()
        if json:
            emit([{"name": each.name, "writes": each.writes} for each in forms])
        else:
            table(("name", "writes"), [(each.name, each.writes) for each in forms])
        return
    form = find(name)
    to_stdout = str(target) == "-"
    if to_stdout and form.is_directory:
        raise InvalidArgument(f"TARGET is missing: the directory that {name} is written to")
    if to_stdout and json:
        raise InvalidArgument("--json needs a TARGET: the report goes to standard output")
    from tallystick import app
    from tallystick.extensions.exporters import exporting

    context = app.operation_context(existing(base=base, tenant=tenant))
    options = exporting.Options(parse_moment(as_of), project, type)
    opened = _opened_target(target, is_directory=form.is_directory, force=force)
    with opened as output, progress("items") as tell:
        done = asyncio.run(exporting.export_as(context, form, output, options, path=str(target), progress=tell))
    if json:
        emit(done)
    else:
        _draw_export(done)


@contextmanager
def _opened_target(target: Path, *, is_directory: bool, force: bool) -> Iterator[BinaryIO | Directory]:
    if is_directory:
        from tallystick.extensions.exporters.directory import whole_directory

        with whole_directory(target, force=force) as directory:
            yield directory
    elif str(target) == "-":
        yield sys.stdout.buffer
    else:
        refuse_existing(target, force=force)
        with whole_file(target) as file:
            yield file


def _draw_export(done: Report) -> None:
    """On standard error: standard output may be the export."""
    for loss in done.losses:
        named = f" ({', '.join(loss.examples)}{' …' if (loss.count or 0) > len(loss.examples) else ''})"
        note(f"{loss.what}{f' × {loss.count:,}' if loss.count else ''}: {loss.reason}{named if loss.examples else ''}")
    into = "" if done.path == "-" else f" in {done.path}"
    edges = "1 edge" if done.edges == 1 else f"{done.edges:,} edges"
    note(f"{_entities(done.entities)} and {edges} at position {done.position}{into}")


def _entities(number: int) -> str:
    return "1 entity" if number == 1 else f"{number:,} entities"
