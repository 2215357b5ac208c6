"""graph.db beside what the log gives: its schema, and every row of every table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

from tallystick.projections.consistency_check.replay import (
    Finding,
    Subject,
    copy_database,
    damage,
    differing,
    guarded,
    opened,
    replayed,
    standing,
    structure,
)
from tallystick.projections.database import Connection, Damaged
from tallystick.projections.registry import all_copies
from tallystick.projections.row_diff import doubted, shown
from tallystick.projections.sql import SqlProjection, has_indexes


def findings(one: Subject) -> Iterator[Finding]:
    for what in damage(one, lambda: copy_database(one)):
        yield Finding("sql", one.where, "", what)
        return
    with opened(one) as db:
        yield from structure("sql", one, db)
    expected = one.elsewhere / "graph.db"
    yield from replayed("sql", one, all_copies()["sql"].position, lambda: SqlProjection(expected))
    # One that has never been at the head yet has no indexes.
    if _is_indexed(one):
        with closing(SqlProjection(expected)) as right:
            right.settle(final=True)
    if one.position and not one.not_compared:
        with opened(one, expected) as db:
            yield from guarded("sql", one, _schema(one, db))
            for table, key in _tables(db).items():
                yield from differing("sql", one, table, db, _whole(table), key)
    yield from standing("sql", one, lambda: SqlProjection(expected))


def _is_indexed(one: Subject) -> bool:
    try:
        with doubted(), opened(one) as db:
            return has_indexes(db)
    except Damaged:
        # It cannot say: what is missing in it is found when it is compared.
        return False


def _tables(db: Connection) -> dict[str, list[str]]:
    """Each with the columns of its key."""
    rows = db.execute("SELECT name FROM expected.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    names = [name.decode() for (name,) in rows.fetchall()]
    columns = {name: db.execute(f'PRAGMA expected.table_info("{name}")').fetchall() for name in names}
    return {name: [column[1].decode() for column in columns[name] if column[5]] for name in names}


def _whole(table: str) -> Callable[[str], str]:
    # These are notes to itself, not something that follows from the log.
    where = " WHERE key NOT IN ('scrub', 'owner')" if table == "meta" else ""
    return lambda schema: f'SELECT * FROM {schema}."{table}"{where}'


def _schema(one: Subject, db: Connection) -> Iterator[Finding]:
    """Tables and indexes that people added are theirs."""
    objects = "SELECT name, type, sql FROM {}.sqlite_master"
    for name, kind, _ in db.execute(f"{objects.format('expected')} EXCEPT {objects.format('main')}").fetchall():
        yield Finding("sql", one.where, f"{shown(kind)} {shown(name)}", "is not defined as it should be")
