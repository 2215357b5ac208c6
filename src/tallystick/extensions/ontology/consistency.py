"""The views beside what the log gives: their tables, the published files and the content files."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import msgspec

from tallystick.errors import TallystickError
from tallystick.extensions.ontology.views import POSITION, Views, ontology
from tallystick.extensions.ontology.views.content_files import NOT_ADOPTED
from tallystick.extensions.ontology.views.views_db import FileRow, ViewsDb
from tallystick.projections.consistency_check.replay import (
    Finding,
    Subject,
    copy_database,
    damage,
    differing,
    guarded,
    held,
    lock_of,
    opened,
    replayed,
    standing,
    structure,
)
from tallystick.projections.database import Connection, Reader
from tallystick.projections.row_diff import differing_rows, shown
from tallystick.projections.sandboxed_files import SandboxedFiles

_VIEW_TABLES = {
    "definition": ("SELECT id, kind, attrs FROM {}.definition", ["id"]),
    "node": ("SELECT id, created, lamport, offset, fragment FROM {}.node", ["id"]),
    "connection": ("SELECT id, created, modified, source, target, offset, fragment FROM {}.connection", ["id"]),
    "file": ("SELECT path, kind, id, offset, digest, encoding FROM {}.file WHERE due != 'remove'", ["path"]),
    "version": ("SELECT kind, id, digest, blob FROM {}.version", ["kind", "id", "digest"]),
}
"""With their keys. The other columns and tables are about this disk, not about the log."""


def findings(one: Subject) -> Iterator[Finding]:
    published = ("registry.json", "ontology.yaml")

    def copied() -> None:
        with held(lock_of(one.home, "views")):
            copy_database(one)
            for name in published:
                if (there := one.home / "_system" / name).is_file():
                    shutil.copyfile(there, one.elsewhere / name)

    for what in damage(one, copied):
        yield Finding("views", one.where, "", what)
        return
    with opened(one) as db:
        yield from structure("views", one, db)
    yield from replayed("views", one, POSITION, lambda: _views_of(one))
    if one.position and not one.not_compared:
        with opened(one, one.elsewhere / "_system" / "views.db") as db:
            for table, (select, key) in _VIEW_TABLES.items():
                yield from differing("views", one, table, db, select.format, key)
            yield from guarded("views", one, _published(one, db))
            yield from guarded("views", one, _content_files(one, db))
    yield from standing("views", one, lambda: _views_of(one))


def _views_of(one: Subject) -> Views:
    return Views(one.elsewhere, one.log.line)


def _published(one: Subject, db: Connection) -> Iterator[Finding]:
    with closing(sqlite3.connect(one.elsewhere / "_system" / "views.db")) as expected:
        table = ViewsDb(expected)
        known = ontology.OntologyDocument(table.definitions())
        if not known.exists:
            return
        registry, yaml = table.registry(), ontology.to_yaml(known)
    if ViewsDb(db).registry() != registry and not _has_differing_entities(db):
        yield Finding("views", one.where, "", "its entities are not in the order in which they were made")
    yield from _published_file(one, "ontology.yaml", yaml, is_current=True)
    yield from _published_file(one, "registry.json", registry, is_current=_is_current(ViewsDb(db)))


def _has_differing_entities(db: Connection) -> bool:
    return any(
        next(differing_rows(db, select.format, key), None) is not None
        for select, key in (_VIEW_TABLES[table] for table in ("node", "connection"))
    )


def _is_current(table: ViewsDb) -> bool:
    """A large registry is rewritten once a second, not with each commit."""
    left = table.note("registry.json")
    return left is not None and msgspec.json.decode(left)["generation"] == table.generation


def _published_file(one: Subject, name: str, expected: bytes, *, is_current: bool) -> Iterator[Finding]:
    where, path = f"_system/{name}", one.elsewhere / name
    there = path.read_bytes() if path.exists() else None
    if there == expected:
        return
    if not is_current:
        yield Finding("views", where, "", "a server has not rewritten it yet", "waits")
    elif there is None:
        yield Finding("views", where, "", "is missing")
    else:
        found, wanted = set(there.splitlines()), set(expected.splitlines())
        lines = [line for line in expected.splitlines() if line not in found]
        lines += [line for line in there.splitlines() if line not in wanted]
        for key in dict.fromkeys(map(_key_of, lines or [b""])):
            yield Finding("views", where, key, "is not what the log says")


def _key_of(line: bytes) -> str:
    """Of a line of the registry: the id of the entity; of another file, the line."""
    return shown(line.strip().partition(b": {")[0].strip(b'"- '))


def _content_files(one: Subject, db: Connection) -> Iterator[Finding]:
    files = SandboxedFiles(one.home)
    rows = db.execute("SELECT path, digest FROM expected.file WHERE due != 'remove'").fetchall()
    doubtful = [
        (path.decode(), digest.decode())
        for path, digest in rows
        if _digest(files, tuple(path.decode().split("/"))) != digest.decode()
    ]
    if not doubtful:
        return
    # Nobody writes them now; what was changed since the table was copied is left for the next time.
    with held(lock_of(one.home, "views")), closing(Reader(one.path)) as reader, reader.snapshot() as now:
        table = ViewsDb(now)
        for path, digest in doubtful:
            row = table.file_at(path)
            if row is not None and row.digest == digest and row.due != "remove":
                yield from _judged(table, files, row)


def _judged(table: ViewsDb, files: SandboxedFiles, row: FileRow) -> Iterator[Finding]:
    there, found = _digest(files, row.parts), files.find(row.parts)
    if there == row.digest:
        return
    if row.due:
        yield Finding("views", row.path, row.id, row.problem or "a server has not written it yet", "waits")
    elif found is None:
        yield Finding("views", row.path, row.id, "is missing")
    elif (found.st_size, found.st_mtime_ns) == (row.size, row.mtime_ns):
        yield Finding("views", row.path, row.id, "its bytes are not what they were, though nobody saved it")
    elif there is not None and found.st_mtime_ns <= (row.mtime_ns or 0) and table.had_version(row.kind, row.id, there):
        yield Finding("views", row.path, row.id, "is an older version of it")
    else:
        yield Finding("views", row.path, row.id, row.problem or NOT_ADOPTED, "edited")


def _digest(files: SandboxedFiles, parts: tuple[str, ...]) -> str | None:
    try:
        return files.digest(parts)
    except (OSError, TallystickError):
        return None
