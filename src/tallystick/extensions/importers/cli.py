"""`import --from`: what another program remembers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tallystick.cli.options import settled
from tallystick.cli.output import emit, note, progress, table
from tallystick.cli.transfer import LIST
from tallystick.errors import InvalidArgument

if TYPE_CHECKING:
    from tallystick.extensions.importers.importing.report import Report


def import_from(
    source: str,
    path: Path | None,
    *,
    dry_run: bool,
    prefix: str,
    project: str | None,
    json: bool,
    base: Path | None,
    tenant: str | None,
) -> None:
    from tallystick.extensions.importers.registry import AUTO, find

    if source == LIST:
        _list_sources(json)
        return
    if source != AUTO:
        find(source)
    if path is None:
        raise InvalidArgument("PATH is missing: the file or directory to read")
    if not os.path.exists(path):
        hint = "with --from a file or a directory is read, not standard input" if str(path) == "-" else None
        raise InvalidArgument(f"cannot read {path}: no such file or directory", code="FILE_UNREADABLE", hint=hint)
    from tallystick import app
    from tallystick.extensions.importers import importing

    context = app.operation_context(settled(base=base, tenant=tenant))
    begun: list[Report] = []
    options = importing.Options(dry_run=dry_run, prefix=prefix, project=project)
    with _telling_how_far(begun), progress("items") as tell:
        done = asyncio.run(importing.import_from(context, source, path, options, report=begun.append, progress=tell))
    if json:
        emit(done)
    else:
        draw_report(done, str(context.settings.home))


def _list_sources(json: bool) -> None:
    from tallystick.extensions.importers.registry import sources

    found = sources()
    if json:
        emit([{"name": each.name, "reads": each.reads} for each in found])
    else:
        table(("name", "reads"), [(each.name, each.reads) for each in found])


@contextmanager
def _telling_how_far(begun: list[Report]) -> Iterator[None]:
    """What an import that does not come to its end has written, it says on its way out."""
    try:
        yield
    except BaseException:
        if begun and not begun[0].dry_run:
            report = begun[0]
            written = report.total("new") + report.total("changed")
            note(
                f"it ended early: {report.done:,} of {report.items:,} items were looked at, {written:,} of them are"
                " written; the same command goes on from there"
            )
        raise


def draw_report(report: Report, home: str) -> None:
    if report.kinds:
        columns = ("kind", "type", "new", "changed", "unchanged", "examples")
        rows = [
            (*map(str, (k.kind, k.type, k.new, k.changed, k.unchanged)), ", ".join(k.examples)) for k in report.kinds
        ]
        table(columns, rows)
    if report.states:
        table(
            ("state there", "here", "tasks"), [(each.status, each.becomes, str(each.tasks)) for each in report.states]
        )
    if report.unmapped:
        table(("not imported", "what", "why"), [(each.where, each.what, each.reason) for each in report.unmapped])
    if report.unmapped_omitted:
        note(f"and {report.unmapped_omitted:,} more that are not imported")
    new, changed, same = (report.total(outcome) for outcome in ("new", "changed", "unchanged"))
    left_out = len(report.unmapped) + report.unmapped_omitted
    rest = f"{same:,} unchanged, {left_out:,} not imported"
    if report.dry_run:
        note(f"{new:,} new and {changed:,} changed items of {report.source} would be written; {rest}")
    else:
        note(f"{new:,} new and {changed:,} changed items of {report.source} written into {home}; {rest}")
