"""Hooks see the same, however far the mirror is behind the log: at the head, anywhere before it, or not made at all."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.commits import Operation, Verb
from tallystick.extensions.hooks.graph import Graph, opened
from tallystick.log import Head, head_after
from tallystick.log.files import FilesLog
from tallystick.projections.sql import SqlProjection, database_path
from tests.commits_by_hand import append, draft

IDS = ("a", "b", "c", "d")
FILES = ("src/x.py", "src/deep/y.py", "z.md")
PATTERNS = ("src/x.py", "src/**", "*.md", "src/{x,deep/y}.py", "./z.md", "src//x.py")
ids = st.sampled_from(IDS)

notes = st.fixed_dictionaries(
    {"title": st.sampled_from(["one", "two"])},
    optional={
        "cites": st.lists(
            st.sampled_from([*FILES, {"path": FILES[0], "hash": "00", "at": "2025-01-01T00:00:00Z"}]), max_size=2
        ),
        "supersedes": st.lists(ids, max_size=2),
    },
)
works = st.fixed_dictionaries(
    {
        "project": st.just("p"),
        "summary": st.just("do it"),
        "parent": st.none() | ids,
        "resolved": st.booleans(),
        "properties": st.sampled_from(
            [{}, {"priority": 5}, {"_claimed_by": "me", "_claimed_at": "2025-01-01T00:00:00Z"}]
        ),
    }
)
atoms = st.fixed_dictionaries({"name": st.just("atom"), "paths": st.lists(st.sampled_from(PATTERNS), max_size=3)})


def _node(kind: str, attrs: dict[str, Any], node_id: str) -> Operation:
    return Operation(Verb.UPSERT_NODE, {"id": node_id, "type": kind, "attrs": attrs})


def _page(entities: list[str], undone: bool) -> Operation:
    if undone:
        return _node("trust/recall", {"status": "undone"}, "r")
    return _node("trust/page", {"recall": "r", "entities": entities, "cleared": entities[1:]}, "r/1")


operations = st.one_of(
    st.builds(_node, st.just("note"), notes, ids),
    st.builds(_node, st.just("work/node"), works, ids),
    st.builds(_node, st.just("knowledge/atom"), atoms, ids),
    st.builds(_page, st.lists(ids, min_size=1, max_size=3, unique=True), st.booleans()),
    st.builds(lambda one: Operation(Verb.DELETE_NODE, {"node_id": one}), ids),
    st.builds(lambda one: Operation(Verb.REDACT_NODE, {"node_id": one, "reason": "asked"}, redacts={}), ids),
    st.builds(
        lambda one, two: Operation(Verb.UPSERT_EDGE, {"from": one, "rel": "depends_on", "to": two, "attrs": {}}),
        ids,
        ids,
    ),
    st.builds(lambda one, two: Operation(Verb.DELETE_EDGE, {"from": one, "rel": "depends_on", "to": two}), ids, ids),
)
BEGIN = (
    _node("work/project", {"name": "p", "root": "a", "summary": ""}, "p"),
    _node("trust/recall", {"status": "active"}, "r"),
)


@given(st.lists(st.tuples(operations, st.sampled_from(["me", "other"])), max_size=12), st.integers(0, 12))
@settings(max_examples=60)
def test_what_hooks_see_does_not_depend_on_how_far_the_mirror_is(story: list[tuple[Operation, str]], seen: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with closing(FilesLog(home / "_system")) as log:
            append(log, draft(*BEGIN))
            for operation, actor in story:
                append(log, draft(operation, actor=actor))
            entries = list(log.read(Head()))
        expected = _mirrored(home, entries, len(entries))
        assert _mirrored(home, entries, len(BEGIN) + min(seen, len(story))) == expected
        assert _mirrored(home, entries, 0) == expected


def _mirrored(home: Path, entries: list[Any], count: int) -> dict[str, Any]:
    """What is seen with a mirror that has seen so many commits; none for 0."""
    elsewhere = home / f"at-{count}"
    shutil.rmtree(elsewhere, ignore_errors=True)
    elsewhere.mkdir()
    if count:
        projection = SqlProjection(database_path(elsewhere))
        projection.position()
        projection.apply(entries[:count], head_after(entries[:count], Head()))
        projection.close()
    with opened(home, database_path(elsewhere)) as graph:
        return _seen(graph)


def _seen(graph: Graph) -> dict[str, Any]:
    return {
        "position": graph.position,
        "notes": [graph.note(each) for each in IDS],
        "recalled": [graph.is_recalled(each) for each in IDS],
        "successors": [graph.successor(each) for each in IDS],
        "files": [sorted(graph.about_file(path)) for path in FILES],
        "claimed": sorted(item.id for item in graph.claimed(["me"], lambda item: True)),
        "ready": [item.id for item in graph.ready("p")],
        "changes": graph.changes(0, ["me"]),
        "last": graph.last_position_of(["me"]),
        "unpinned": sorted(graph.unpinned(["me", "other"], 0)),
        "project": graph.current_project(),
    }
