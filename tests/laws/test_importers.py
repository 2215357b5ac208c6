"""Whatever was done to the files of a source, its importer yields, tells, or refuses: it never fails."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.errors import InvalidArgument, TallystickError
from tallystick.extension import installed
from tallystick.extensions.importers import Atom, Task, Unmapped
from tallystick.extensions.importers.importing import atoms, facts, tasks
from tallystick.extensions.importers.registry import find
from tests.extensions.importers.imports import FIXTURES
from tests.promises import promise

WORDS = [
    *(b"", b"\0", b"\xff", b"\n", b"---\n", b'"', b"{", b"}", b"[[", b"]]", b"null", b"1e999", b"&a ", b"*a", b": "),
    *(b"\\ud800", b"9" * 30, b"-", b"\xe2\x80\xa8", b"!!set", b"true", b"#", b"../", b"["),
]
EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 40), st.sampled_from(WORDS)), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files of each source, small."""
    made = tmp_path_factory.mktemp("sources")
    for source in installed().sources():
        fixture = FIXTURES / {"markdown": "basic-memory"}.get(source.name, source.name)
        (made / source.name).mkdir()
        if source.name == "swimlanes":
            _make_graph(made / source.name / "graph.db")
        elif source.name == "claude-mem":
            _make_observations(made / source.name / "claude-mem.db", (fixture / "schema.sql").read_text())
        else:
            shutil.copytree(fixture, made / source.name, dirs_exist_ok=True)
    return {source.name: made / source.name for source in installed().sources()}


def _make_graph(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "create table nodes(id, parent, project, summary, resolved, properties, evidence, created_at);"
            "create table edges(from_node, to_node, type); create table events(id);"
            """insert into nodes values ('a', null, 'p', 'A', 0, '{"x": 1}', '[{"type": "git", "ref": "1"}]', '1');"""
            "insert into edges values ('a', 'b', 'depends_on');"
        )


def _make_observations(path: Path, schema: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(schema)
        connection.executescript(
            "insert into sdk_sessions(content_session_id, memory_session_id, project, started_at, started_at_epoch)"
            " values ('c', 'm', 'p', 'then', 1);"
            "insert into observations(memory_session_id, project, type, title, files_read, created_at,"
            """ created_at_epoch) values ('m', 'p', 'change', 'T', '["a.py"]', 'then', 1);"""
        )


@promise("import-laws", "no damage to the files of a source makes its importer fail")
@pytest.mark.parametrize("name", [source.name for source in installed().sources()])
@given(edits=EDITS, which=st.integers(0, 1_000))
@settings(max_examples=40)
def test_no_damage_makes_an_importer_fail(
    sources: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    edits: list[tuple[float, int, bytes]],
    which: int,
) -> None:
    damaged = tmp_path_factory.mktemp("damaged") / "source"
    shutil.copytree(sources[name], damaged)
    files = sorted(each for each in damaged.rglob("*") if each.is_file())
    file = files[which % len(files)]
    data = file.read_bytes()
    for place, length, word in edits:
        start = int(place * len(data))
        data = data[:start] + word + data[start + length :]
    file.write_bytes(data)
    _import(name, damaged)
    shutil.rmtree(damaged)


def _import(name: str, path: Path) -> None:
    importer = find(name)
    importer.detect(path)
    try:
        found = list(importer.read(path))
    except InvalidArgument:
        return
    assert all(each.reason for each in found if isinstance(each, Unmapped))
    items = [each for each in found if not isinstance(each, Unmapped)]
    for item in items:
        try:
            if isinstance(item, Atom):
                atoms.prepare(name, item)
            elif not isinstance(item, Task):
                facts.prepare(name, item)
        except TallystickError:
            continue
    once = {each.origin.id: each for each in items if isinstance(each, Task)}
    planned, _ = tasks.plan(name, "project", list(once.values()))
    for each in planned:
        try:
            tasks.attributes(name, "project", "root", each)
        except TallystickError:
            continue
