"""The comparison: what lies beside the log is named when it is not what the log gives, and left alone when it is."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.commits import Operation, Verb
from tallystick.errors import StorageRefused, TallystickError
from tallystick.extensions.ontology.views import Views
from tallystick.log import Entry, Head
from tallystick.log.files import FilesLog
from tallystick.projections import Projection
from tallystick.projections.consistency_check import Comparison, compare, rebuild
from tallystick.projections.consistency_check.replay import Finding, Status
from tallystick.projections.log_reader import LogReader
from tallystick.projections.registry import by_default
from tallystick.projections.sql import SqlProjection
from tallystick.projections.text.projection import TextProjection
from tallystick.projections.worker import ProjectionWorker
from tests.commits_by_hand import append, draft
from tests.projections.test_views import redact
from tests.projections.workspace import DEFINITIONS, Workspace, connection, gone, memory, text
from tests.promises import promise


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with something of everything."""
    home = tmp_path_factory.mktemp("built")
    workspace = Workspace(home)
    workspace.append(*DEFINITIONS)
    workspace.append(memory("roof", "Project", text("Mend the Wanderlust roof."), budget="Quixotic"))
    workspace.append(memory("call", "Action", text("Call the roofer."), phone="555"))
    workspace.append(memory("call", "Action", text("Call the other roofer."), phone="556"), memory("plan", "Project"))
    workspace.append(connection("next", "roof", "NextAction", "call", text("First of all.")))
    workspace.append(memory("moss", "Project", text("Remove the moss.")), gone("moss"))
    workspace.append(memory("stranger", "Unknown", text("Nobody defined this type.")))
    blob = workspace.contents.prepare("nodes", "book", "markdown", "utf-8", b"Many words. " * 30_000)
    workspace.append(
        Operation(Verb.UPSERT_NODE, {"id": "book", "type": "Project", "attrs": {}, "content": blob.content})
    )
    workspace.close()
    for name in by_default():
        rebuild(home, lambda: FilesLog(home / "_system"), name)
    return home


@pytest.fixture
def home(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "home"))


def compared(home: Path, **options: Any) -> Comparison:
    return compare(home, lambda: FilesLog(home / "_system"), **options)


def test_what_was_built_from_the_log_is_sound(home: Path) -> None:
    found = compared(home)
    assert found.sound
    assert found.findings == []
    assert [(each.name, each.behind, each.not_compared) for each in found.projections] == [
        (name, 0, None) for name in by_default()
    ]
    assert all(each.position > 0 for each in found.projections)


def test_comparing_changes_nothing(home: Path) -> None:
    _changed("_content/nodes/call.md", b"other", b"OTHER")(home)
    _changed("graph.db", b"Quixotic", b"Quixotik")(home)
    before = _bytes_below(home)
    assert not compared(home).sound
    assert _bytes_below(home) == before


# -- harm


def _changed(name: str, old: bytes, new: bytes, *, saved: bool = True) -> Callable[[Path], None]:
    """Bytes on the disk become others, in every file of that name; unless it was `saved`, nobody touched it."""

    def change(home: Path) -> None:
        files = [path for path in home.glob(name) if old in path.read_bytes()]
        assert files, name
        for path in files:
            seen = path.stat()
            path.write_bytes(path.read_bytes().replace(old, new))
            if not saved:
                os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))

    return change


def _told(name: str, statement: str) -> Callable[[Path], None]:
    def tell(home: Path) -> None:
        with sqlite3.connect(home / name) as db:
            db.execute(statement)
        db.close()

    return tell


def _replaced(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    """Something else stands where files of that name were."""

    def replace(home: Path) -> None:
        for path in home.glob(name):
            path.rename(f"{path}.away")
            make(path)

    return replace


def _ahead(name: str, statement: str) -> Callable[[Path], None]:
    """It says of itself that it is further than the log."""
    return _told(name, statement.format("""'"lamport":', '"lamport":9'"""))


HARMS: dict[str, tuple[Callable[[Path], object], str, str, str, str]] = {
    "a letter in graph.db": (
        _changed("graph.db", b"Quixotic", b"Quixotik"), "sql", "graph.db, table nodes", "roof", "differs in attrs",
    ),
    "a row of graph.db that is gone": (
        _told("graph.db", "DELETE FROM edges"), "sql", "graph.db, table edges", "next 1", "is missing",
    ),
    "a commit that never was": (
        _told("graph.db", "INSERT INTO commits SELECT 999, 'x', timestamp, actor, operation, entity, tool,"
              " reason, run_id, job_id, dataset_id, policy_version FROM commits LIMIT 1"),
        "sql", "graph.db, table commits", "999", "does not follow from the log",
    ),
    "a position of graph.db": (
        _ahead("graph.db", "UPDATE meta SET value = replace(value, {}) WHERE key = 'head'"), "sql", "graph.db", "",
        "which is not on this log",
    ),
    "a view of graph.db": (
        _told("graph.db", "DROP VIEW work_edges"), "sql", "graph.db", "view work_edges", "is not defined as it should",
    ),
    "no database at all": (
        lambda home: (home / "graph.db").write_bytes(b"Dear diary" * 500), "sql", "graph.db", "", "cannot be read",
    ),
    "an empty graph.db": (
        lambda home: (home / "graph.db").write_bytes(b""), "sql", "graph.db", "", "does not say where it is",
    ),
    "a table of graph.db that is gone": (
        _told("graph.db", "DROP TABLE migrations"), "sql", "graph.db", "table migrations", "is not defined as it",
    ),
    "a letter in views.db": (
        _changed("_system/views.db", b"Quixotic", b"Quixotik"), "views", "_system/views.db, table node", "roof",
        "differs in fragment",
    ),
    "the order in views.db": (
        _told("_system/views.db", "UPDATE node SET seq = seq + 1000 WHERE id = 'roof'"), "views", "_system/views.db",
        "", "not in the order",
    ),
    "where views.db is": (
        _told("_system/views.db", "UPDATE note SET value = '{' WHERE key = 'position'"), "views", "_system/views.db",
        "", "does not say where it is",
    ),
    "a letter in registry.json": (
        _changed("_system/registry.json", b"Quixotic", b"Quixotik"), "views", "_system/registry.json", "roof",
        "is not what the log says",
    ),
    "a registry that is gone": (
        lambda home: (home / "_system" / "registry.json").unlink(), "views", "_system/registry.json", "", "is missing",
    ),
    "a letter in ontology.yaml": (
        _changed("_system/ontology.yaml", b"NextAction", b"NextActiom"), "views", "_system/ontology.yaml",
        "name: NextAction", "is not what the log says",
    ),
    "a content file that changed by itself": (
        _changed("_content/nodes/roof.md", b"Wanderlust", b"Wanderlost", saved=False), "views",
        "_content/nodes/roof.md", "roof", "though nobody saved it",
    ),
    "the file of a connection that changed by itself": (
        _changed("_content/connections/next.md", b"First", b"Worst", saved=False), "views",
        "_content/connections/next.md", "next", "though nobody saved it",
    ),
    "a content file that is gone": (
        lambda home: (home / "_content" / "nodes" / "roof.md").unlink(), "views", "_content/nodes/roof.md", "roof",
        "is missing",
    ),
    "a letter in the folded texts": (
        _changed("_system/text/*.folded", b"wanderlust", b"wanderlost"), "text", "_system/text/ordered-", "roof",
        "not what was written",
    ),
    "the folded texts are gone": (
        lambda home: [path.rename(f"{path}.away") for path in (home / "_system" / "text").glob("*.folded")], "text",
        "_system/text/ordered-", "", "is missing",
    ),
    "a directory where the folded texts were": (
        _replaced("_system/text/*.folded", Path.mkdir), "text", "_system/text/ordered-", "", "it is no file",
    ),
    "a pipe where the folded texts were": (
        _replaced("_system/text/*.folded", os.mkfifo), "text", "_system/text/ordered-", "", "it is no file",
    ),
    "a letter in a word": (
        _told("_system/text/text.db", "UPDATE terms SET word = 'quixotid' WHERE word = 'quixotic'"), "text",
        "_system/text/text.db, table entities", "roof 0", "differs in words",
    ),
    "a letter in a word of a content": (
        _told("_system/text/text.db", "UPDATE terms SET word = 'wanderlost' WHERE word = 'wanderlust'"), "text",
        "_system/text/text.db, table postings", "", "its words are not those of its entities",
    ),
    "the places of a word": (
        _told("_system/text/text.db", "DELETE FROM postings WHERE key >> 18 = 1"), "text",
        "_system/text/text.db, table postings", "", "its words are not those of its entities",
    ),
    "a text under another name": (
        _told("_system/text/text.db", "UPDATE entities SET id = 'root' WHERE id = 'roof'"), "text",
        "_system/text/text.db, table entities", "roof 0", "is missing",
    ),
    "where the texts end": (
        _told("_system/text/text.db", "UPDATE place SET ordered_end = 30"), "text", "_system/text/text.db, table place",
        "", "lies behind the last text",
    ),
}  # fmt: skip


@promise("proof, views", "verify --views names what differs from a replay, and it is right when it is built again")
@pytest.mark.parametrize("harm", HARMS)
def test_a_difference_is_named_and_gone_when_it_is_built_again(home: Path, harm: str) -> None:
    do, name, where, key, what = HARMS[harm]
    do(home)
    found = compared(home)
    assert not found.sound
    assert any(_is(each, name, where, key, what) for each in found.findings), found.findings
    assert {each.name for each in found.projections if each.differs} == {name}
    rebuild(home, lambda: FilesLog(home / "_system"), name)
    assert compared(home).findings == []


@pytest.mark.parametrize(("database", "name"), [("graph.db", "sql"), ("_system/views.db", "views")])
def test_a_directory_where_a_database_was_is_left_to_whoever_put_it_there(home: Path, database: str, name: str) -> None:
    _replaced(database, Path.mkdir)(home)
    assert not compared(home).sound
    with pytest.raises(StorageRefused, match="cannot be removed") as refused:
        rebuild(home, lambda: FilesLog(home / "_system"), name)
    assert "move it away" in str(refused.value.hint)


@pytest.fixture
def tight(home: Path, small_disk: Path) -> Path:
    """A `graph.db` on a disk of its own, which it and its index fill to less than half."""
    subprocess.run(["mount", "-o", "remount,size=1m", small_disk], check=True)
    database = small_disk / "graph.db"
    rebuild(home, lambda: FilesLog(home / "_system"), "sql", database=database)
    return database


def _fill(disk: Path, *, leaving: int) -> None:
    (disk / "ballast").write_bytes(bytes(shutil.disk_usage(disk).free - leaving))


def test_a_mirror_on_a_full_disk_is_not_taken_for_a_damaged_one(home: Path, tight: Path) -> None:
    _fill(tight.parent, leaving=0)
    with pytest.raises(StorageRefused, match="no room"):
        compared(home, database=tight)


def test_a_mirror_is_not_removed_where_there_is_no_room_for_another(home: Path, tight: Path) -> None:
    before = tight.read_bytes()
    _fill(tight.parent, leaving=len(before) // 2)
    with pytest.raises(StorageRefused, match="no room") as refused:
        rebuild(home, lambda: FilesLog(home / "_system"), "sql", database=tight)
    assert "free" in str(refused.value.hint)
    assert tight.read_bytes() == before
    (tight.parent / "ballast").unlink()
    rebuild(home, lambda: FilesLog(home / "_system"), "sql", database=tight)


def _is(finding: Finding, name: str, where: str, key: str, what: str) -> bool:
    return (
        finding.projection == name
        and finding.where.startswith(where)
        and finding.key.startswith(key)
        and what in finding.what
        and finding.status == "differs"
    )


def test_all_differences_are_counted_and_some_are_told(home: Path) -> None:
    _told("graph.db", "UPDATE commits SET actor = 'somebody'")(home)
    found = compared(home, limit=3)
    assert len(found.findings) == 3
    assert {each.name: each.differs for each in found.projections}["sql"] == 13


# -- what is no damage


def test_an_edit_that_waits_to_be_adopted_is_no_damage(home: Path) -> None:
    _changed("_content/nodes/roof.md", b"Wanderlust", b"leaking")(home)
    found = compared(home)
    assert found.sound
    assert [(each.where, each.key, each.status) for each in found.findings] == [
        ("_content/nodes/roof.md", "roof", "edited")
    ]


def test_tables_that_people_added_are_theirs(home: Path) -> None:
    _told("graph.db", "CREATE TABLE mine (note TEXT)")(home)
    assert compared(home).findings == []


def test_a_file_that_could_not_be_written_yet_waits(home: Path) -> None:
    _told("_system/views.db", "UPDATE file SET due = 'write' WHERE id = 'roof'")(home)
    (home / "_content" / "nodes" / "roof.md").unlink()
    assert _statuses(compared(home)) == ["waits"]


def test_a_registry_that_is_behind_waits(home: Path) -> None:
    _told("_system/views.db", "UPDATE note SET value = value + 1 WHERE key = 'generation'")(home)
    _changed("_system/registry.json", b"Quixotic", b"Quixotik")(home)
    assert _statuses(compared(home)) == ["waits"]


def test_what_lags_is_compared_where_it_is(home: Path) -> None:
    _written(home, memory("later", "Project", text("Something new."), by="then"))
    found = compared(home)
    assert found.findings == []
    assert [each.behind for each in found.projections] == [1, 1, 1]
    _told("graph.db", "UPDATE nodes SET attrs = '{}' WHERE id = 'roof'")(home)
    assert _statuses(compared(home)) == ["differs"]


@pytest.mark.parametrize("kind", [Views, SqlProjection, TextProjection])
def test_one_that_cannot_show_a_commit_is_told_and_mended_by_building_it_again(
    home: Path, kind: type[Projection], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, name, apply = lambda: FilesLog(home / "_system"), kind.name, kind.apply

    def fails(self: Projection, entries: Sequence[Entry], head: Head) -> None:
        if any(b"unshowable" in entry.line for entry in entries):
            raise TypeError("unshowable")
        apply(self, entries, head)

    _append(home, memory("odd", "Project", text("unshowable words")))
    with monkeypatch.context() as bug:
        bug.setattr(kind, "apply", fails)
        assert "cannot show what was committed behind position" in _told_of(home, name)
        with pytest.raises(TallystickError) as stuck:
            rebuild(home, opened, name)
        assert stuck.value.code == "PROJECTION_STUCK"
        assert "stands still at position 0: a bug of ours: TypeError" in _told_of(home, name)
    assert "stands still" in _told_of(home, name)
    for each in by_default():
        rebuild(home, opened, each)
    assert compared(home).sound


def _append(home: Path, *operations: Operation) -> None:
    with closing(FilesLog(home / "_system")) as log:
        append(log, draft(*operations))


def _told_of(home: Path, name: str) -> str:
    """It alone is not sound."""
    found = [each for each in compared(home).findings if each.status == "differs"]
    assert {each.projection for each in found} == {name}
    return " ".join(each.what for each in found)


def test_what_has_not_seen_a_redaction_is_not_judged(home: Path) -> None:
    """The log has forgotten what a lagging projection still shows."""
    workspace = Workspace(home)
    redact(workspace, "roof", follow=False)
    workspace.close()
    found = compared(home)
    assert found.findings == []
    assert all("redaction" in (each.not_compared or "") for each in found.projections)


@pytest.mark.parametrize("words", ["Other words, as a table.", "The same words."])
def test_a_file_is_where_a_replay_puts_it_after_a_redaction(home: Path, words: str) -> None:
    """The log no longer says whether the contents before the redaction were the same."""
    workspace = Workspace(home)
    workspace.write(memory("told", "Project", text("The same words."), to="a friend of theirs"))
    workspace.write(memory("told", "Project", text(words, "yaml"), to="another friend"))
    redact(workspace, "told")
    workspace.close()
    assert [each for each in compared(home).findings if each.projection == "views"] == []


def test_what_was_never_made_is_not_compared(home: Path) -> None:
    (home / "graph.db").unlink()
    found = compared(home)
    assert found.findings == []
    assert [each.not_compared for each in found.projections] == [None, "it was never made", None]
    assert not (home / "graph.db").exists()


def test_a_content_that_cannot_be_read_is_left_to_the_proof_of_the_blobs(home: Path) -> None:
    for path in (home / "_content" / "blobs").iterdir():
        path.write_bytes(b"something else")
    assert compared(home).findings == []


def test_servers_may_go_on_meanwhile(home: Path) -> None:
    """Whatever it meets half-way, it calls nothing wrong that is only on its way."""
    workspace = Workspace(home)
    ending = threading.Event()

    def serve() -> None:
        number = 0
        while not ending.is_set():
            number += 1
            workspace.write(memory("busy", "Project", text(f"Version {number}."), number=number))
            if number % 5 == 0:
                workspace.write(gone("busy"))

    server = threading.Thread(target=serve)
    server.start()
    try:
        for _ in range(5):
            assert [each for each in compared(home).findings if each.status != "waits"] == []
    finally:
        ending.set()
        server.join()
        workspace.close()


def test_a_server_goes_on_with_what_was_built_again(home: Path) -> None:
    workspace = Workspace(home)
    workspace.follower.catch_up()
    _told("_system/views.db", "UPDATE node SET fragment = '{}' WHERE id = 'roof'")(home)
    rebuild(home, lambda: FilesLog(home / "_system"), "views")
    workspace.write(memory("new", "Project", text("Written after it.")))
    workspace.close()
    assert "new" in workspace.registry()["nodes"]
    assert [each for each in compared(home).findings if each.projection == "views"] == []


# -- whatever happened

IDS, KINDS = st.sampled_from(["a", "b"]), st.sampled_from(["Project", "Action", "Unknown"])
CONTENTS = st.none() | st.builds(
    text, st.sampled_from(["Some words, and more.", "Other words than these."]), st.sampled_from(["markdown", "yaml"])
)
STEPS = st.one_of(
    st.tuples(st.just("write"), IDS, KINDS, CONTENTS),
    st.tuples(st.just("delete"), IDS),
    st.tuples(st.just("redact"), IDS, st.sampled_from([None, ["attrs.by"]])),
    st.tuples(st.just("define")),
    st.tuples(st.just("follow")),
)


@settings(max_examples=20)
@given(st.lists(STEPS, min_size=1, max_size=12))
def test_what_followed_the_log_step_by_step_is_what_a_replay_gives(story: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        workspace = Workspace(home)
        others = [
            ProjectionWorker(LogReader(lambda: FilesLog(home / "_system")), projection)
            for projection in (SqlProjection(home / "graph.db"), TextProjection(home, workspace.log.line))
        ]
        definitions, alive = list(DEFINITIONS), set()
        for word, *about in [*story, ("follow",)]:
            if word == "write":
                workspace.append(memory(about[0], about[1], about[2], by="somebody who is long"))
                alive.add(about[0])
            elif word == "define" and definitions:
                workspace.append(definitions.pop(0))
            elif word == "follow":
                for follower in (workspace.follower, *others):
                    follower.catch_up()
            elif about and about[0] in alive:
                if word == "redact":
                    redact(workspace, about[0], about[1], follow=False)
                else:
                    workspace.append(gone(about[0]))
                    alive.remove(about[0])
        workspace.close()
        for follower in others:
            follower.close()
        assert compared(home).findings == []


# -- below


def _statuses(found: Comparison) -> list[Status]:
    return [each.status for each in found.findings]


def _bytes_below(home: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path.relative_to(home)): (sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(home.rglob("*"))
        if path.is_file()
    }


def _written(home: Path, *operations: Operation) -> None:
    workspace = Workspace(home)
    workspace.append(*operations)
    workspace.close()
