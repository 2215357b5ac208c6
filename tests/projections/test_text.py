"""The text index: what is found, in which order, and that nothing is found that is not there."""

from __future__ import annotations

import asyncio
import multiprocessing
import sqlite3
import tempfile
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.commits import Operation, Verb, chain
from tallystick.errors import StorageRefused
from tallystick.log import Entry, Head, head_after
from tallystick.log.files import FilesLog
from tallystick.projections.content import Contents
from tallystick.projections.log_reader import LogReader
from tallystick.projections.text import ContentMatches, Mode, TextIndex, projection, ranking
from tallystick.projections.text.projection import TextProjection
from tallystick.projections.text.substring_index import SubstringWriter
from tallystick.projections.worker import ProjectionWorker
from tests.commits_by_hand import append, draft
from tests.laws.test_replay import STORIES, Step
from tests.projections.workspace import gone, memory, text
from tests.state.logged_state import LoggedState


class TextSetup:
    """A home with a log, and one process's index over it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.log = FilesLog(home / "_system")
        self.open()

    def open(self) -> None:
        log = LogReader(lambda: FilesLog(self.home / "_system"))
        self.projection = TextProjection(self.home, log.line)
        self.follower = ProjectionWorker(log, self.projection, lock=self.home / "_system" / "text.lock")
        self.index = TextIndex(self.projection, self.follower.catch_up)

    def write(self, *operations: Operation) -> None:
        append(self.log, *(draft(operation) for operation in operations))

    def redact(self, node_id: str, **more: Any) -> None:
        self.write(Operation(Verb.REDACT_NODE, {"node_id": node_id, "reason": "asked", **more}))

    def found(self, query: str, **more: Any) -> list[str]:
        return [hit.node_id for hit in self.search(query, **more).hits]

    def ranked(self, query: str, **more: Any) -> list[str]:
        return self.found(query, mode="ranked", **more)

    def search(
        self, query: str, *, node_type: str | None = None, limit: int | None = None, mode: Mode = "substring"
    ) -> ContentMatches:
        return asyncio.run(self.index.contents(query, node_type=node_type, limit=limit, mode=mode))

    def kept_bytes(self) -> bytes:
        """Everything the index has on disk. Closed first, so that nothing hides in a write-ahead log."""
        return b"".join(path.read_bytes() for path in sorted((self.home / "_system" / "text").iterdir()))

    def database(self) -> sqlite3.Connection:
        return sqlite3.connect(self.home / "_system" / "text" / "text.db", isolation_level=None)

    def close(self) -> None:
        self.index.close()
        self.follower.close()
        self.log.close()


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[TextSetup]:
    made = TextSetup(tmp_path)
    yield made
    made.close()


# -- by substring

SUBSTRINGS = [
    ("Kitchen Renovation", "kitchen", True),
    ("Kitchen Renovation", "HEN REN", True),
    ("Kitchen Renovation", "kitchens", False),
    ("x", "X", True),
    ("ab", "b", True),
    ("ab", "AB", True),
    ("ab", "ba", False),
    ("7", "7", True),
    ("Straße", "STRASSE", True),
    ("STRASSE", "straße", True),
    ("ΟΔΟΣ", "οδος", True),
    ("οδος", "ΟΔΟσ", True),
    ("caf\u00e9", "CAF\u00c9", True),
    ("caf\u00e9", "cafe\u0301", False),
    ("日本語のテキスト", "語の", True),
    ("日本語のテキスト", "の", True),
    ("\N{GRINNING FACE}!", "\N{GRINNING FACE}", True),
    ("100% of a_b", "0% of A_B", True),
    ("100 of aXb", "a_b", False),
    ('say "it" (twice) AND NOT * once', '"it" (TWICE) and not *', True),
    ("two\nlines\ttab", "o\nLines\tT", True),
    ("end", "end ", False),
    ("zero\0byte", "o\0b", True),
    ("zero byte", "\0", False),
    ("plain", "\ud800", False),
]


@pytest.mark.parametrize(("content", "query", "is_found"), SUBSTRINGS)
def test_a_substring_is_found_whatever_its_case_and_length(
    setup: TextSetup, content: str, query: str, is_found: bool
) -> None:
    setup.write(memory("before", "Note", text("nothing")), memory("it", "Note", text(content)))
    assert ("it" in setup.found(query)) is is_found


def test_a_match_does_not_reach_from_one_text_into_the_next(setup: TextSetup) -> None:
    setup.write(memory("a", "Note", text("one")), memory("b", "Note", text("two")))
    assert setup.found("onetwo") == []
    assert setup.found("one") == ["a"]


def test_only_texts_are_searched_not_ids_types_or_attributes(setup: TextSetup) -> None:
    setup.write(memory("mem_1234567", "Project", text("hello"), status="active"))
    assert [setup.found(query) for query in ("mem", "1234567", "0", "1", "project", "active")] == [[]] * 6


def test_binary_content_is_not_searched(setup: TextSetup) -> None:
    binary = {"format": "png", "encoding": "base64", "text": b64encode(b"hello").decode()}
    setup.write(memory("binary", "Note", binary), memory("none", "Note"))
    assert setup.search(b64encode(b"hello").decode()) == ContentMatches([], [])


def test_nodes_come_in_the_order_in_which_they_were_made_however_they_changed(setup: TextSetup) -> None:
    setup.write(*(memory(name, "Note", text(f"apple {name}")) for name in "cab"), memory("late", "Note"))
    setup.write(memory("d", "Note", text("apple")))
    assert setup.found("apple") == ["c", "a", "b", "d"]
    setup.write(memory("c", "Note", text("new apple")), memory("late", "Note", text("apple at last")))
    setup.write(gone("a"), memory("a", "Note", text("apple again")))
    assert setup.found("apple") == ["c", "b", "late", "d", "a"]
    assert setup.found("apple", limit=3) == ["c", "b", "late"]
    assert setup.found("apple", limit=1) == ["c"]


def test_a_type_narrows_the_search_before_the_limit_does(setup: TextSetup) -> None:
    setup.write(*(memory(f"n{number}", "Note", text("apple")) for number in range(5)))
    setup.write(memory("p", "Project", text("apple")), memory("n0", "Project", text("apple")))
    assert setup.found("apple", node_type="Project", limit=2) == ["n0", "p"]
    assert setup.found("apple", node_type="Note", limit=2) == ["n1", "n2"]
    assert setup.found("apple", node_type="Nothing") == []


def test_what_was_replaced_or_deleted_is_not_found_and_its_text_is_gone_from_the_files(setup: TextSetup) -> None:
    setup.write(memory("a", "Note", text("Xylophone")), memory("b", "Note", text("Zeppelin")))
    assert setup.found("xylophone") == ["a"]
    setup.write(memory("a", "Note", text("violin")), gone("b"))
    assert [setup.found(query) for query in ("xylo", "zepp", "violin")] == [[], [], ["a"]]
    folded = b"".join(path.read_bytes() for path in setup.projection.directory.glob("*.folded"))
    assert b"violin" in folded
    assert b"xylophone" not in folded
    assert b"zeppelin" not in folded


def test_an_update_that_leaves_the_text_alone_writes_nothing_to_the_files(setup: TextSetup) -> None:
    setup.write(memory("a", "Note", text("apple"), status="new"))
    assert setup.found("apple") == ["a"]
    before = [path.read_bytes() for path in sorted(setup.projection.directory.glob("*.folded"))]
    setup.write(memory("a", "Note", text("apple"), status="old"))
    assert setup.found("apple") == ["a"]
    assert [path.read_bytes() for path in sorted(setup.projection.directory.glob("*.folded"))] == before


# -- large contents, and those that cannot be read


def test_a_text_too_large_for_the_log_is_searched_to_its_end(setup: TextSetup) -> None:
    words = "filler ß " * 300_000 + "Needle"
    content = Contents(setup.home).prepare("nodes", "big", "markdown", "utf-8", words.encode()).content
    assert "blob" in content
    setup.write(memory("big", "Note", content))
    assert setup.found("needle") == ["big"]
    assert setup.found("SS FILLER") == ["big"]
    assert setup.ranked("filler") == ["big"]


def test_a_node_whose_content_cannot_be_read_is_named_until_it_can(setup: TextSetup) -> None:
    content = Contents(setup.home).prepare("nodes", "big", "markdown", "utf-8", b"needle " * 50_000).content
    blob = setup.home / "_content" / "blobs" / content["blob"]
    data = blob.read_bytes()
    blob.unlink()
    setup.write(memory("big", "Note", content), memory("small", "Note", text("needle")))
    assert (setup.found("needle"), setup.search("needle").skipped) == (["small"], ["big"])
    assert setup.search("needle", node_type="Project").skipped == []
    blob.write_bytes(data)
    setup.close()
    again = TextSetup(setup.home)
    assert (again.found("needle"), again.search("needle").skipped) == (["big", "small"], [])
    again.close()


def test_a_blob_that_is_not_the_text_it_says_is_skipped(setup: TextSetup) -> None:
    content = Contents(setup.home).prepare("nodes", "odd", "text", "base64", b"\xff\xfe" * 200_000).content
    setup.write(memory("odd", "Note", {**content, "encoding": "utf-8"}), memory("fine", "Note", text("apple")))
    assert setup.search("apple").skipped == ["odd"]
    assert setup.found("apple") == ["fine"]


# -- ranked


def test_words_are_found_in_any_form_and_any_order(setup: TextSetup) -> None:
    said = "JWT tokens are signed with RS256 keys rotated quarterly"
    setup.write(memory("jwt", "Note", text(said)), memory("other", "Note", text("Tokens of appreciation")))
    (hit,) = setup.search("JWT RS256 rotation", mode="ranked").hits
    assert (hit.node_id, hit.snippet) == ("jwt", said)
    assert hit.score is not None
    assert hit.score > 0


def test_texts_with_all_words_come_before_those_with_any(setup: TextSetup) -> None:
    setup.write(
        memory("often", "Note", text("rotate rotate rotate rotate rotating")),
        memory("none", "Note", text("nothing of the kind")),
        memory("both", "Note", text("a long text about many things, in which keys are at some point said to rotate")),
        memory("one", "Project", text("keys")),
    )
    assert setup.ranked("key rotation")[0] == "both"
    assert set(setup.ranked("key rotation")) == {"both", "often", "one"}
    assert setup.ranked("key rotation", limit=1) == ["both"]
    assert setup.ranked("key rotation", node_type="Project") == ["one"]


def test_the_rarer_word_weighs_more(setup: TextSetup) -> None:
    setup.write(*(memory(f"n{number}", "Note", text("common words here")) for number in range(20)))
    setup.write(memory("rare", "Note", text("a rare thing here")))
    assert setup.ranked("common rare")[0] == "rare"


def test_a_word_that_very_many_have_does_not_hide_the_rare_one(
    setup: TextSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "CANDIDATES_MAX", 3)
    setup.write(memory("rare", "Note", text("a rare and common thing")))
    setup.write(*(memory(f"n{number}", "Note", text("common")) for number in range(9)))
    assert setup.ranked("common rare thing")[0] == "rare"
    assert setup.ranked("common absent rare")[0] == "rare"
    assert setup.ranked("common") == ["n6", "n7", "n8"]


@pytest.mark.parametrize(
    "query", ["", " ", "?!", "_", '"', "a AND", "NEAR(", "^x", "a* -b", "col:x", "(", "\0", "\ud800"]
)
def test_no_query_is_taken_for_syntax(setup: TextSetup, query: str) -> None:
    setup.write(memory("it", "Note", text("text")))
    assert setup.ranked(query) == []
    assert setup.ranked(f"{query} text") == ["it"]


def test_a_snippet_shows_the_words_in_a_long_text(setup: TextSetup) -> None:
    setup.write(memory("long", "Note", text("filler\n" * 500 + "The needle is here\n" + "filler " * 500)))
    (hit,) = setup.search("needles", mode="ranked").hits
    assert hit.snippet is not None
    assert "The needle is here" in hit.snippet
    assert len(hit.snippet) < 300


# -- redaction


def test_a_redaction_leaves_no_trace_in_any_file(setup: TextSetup) -> None:
    secrets = ["Xylophones", "Marzipans", "Quetzalcoatls"]
    setup.write(memory("kept", "Note", text("Harpsichords")))
    setup.write(memory("it", "Note", text(secrets[0])), memory("it", "Note", text(secrets[1])))
    setup.found("harp")
    setup.write(memory("it", "Note", text(secrets[2])))
    setup.found("harp")
    setup.write(memory("was", "Note", text(f"{secrets[0]} too")), gone("was"))
    setup.found("harp")
    # Words are kept with their beginnings left out where they are those of the word before.
    assert b"uetzalcoatl" in setup.kept_bytes()
    setup.redact("it")
    setup.redact("was")
    assert [setup.found(secret) for secret in secrets] == [[], [], []]
    setup.close()
    kept = setup.kept_bytes().lower()
    assert b"harpsichord" in kept
    assert [part for part in (b"ylophon", b"arzipan", b"uetzalcoatl") if part in kept] == []


def test_a_redaction_of_attributes_leaves_the_text(setup: TextSetup) -> None:
    setup.write(memory("it", "Note", text("apple"), email="a@b"))
    setup.redact("it", redacted_fields=["attrs.email"])
    assert setup.found("apple") == ["it"]


def test_a_redacted_node_can_be_written_again(setup: TextSetup) -> None:
    setup.write(memory("it", "Note", text("apple")), memory("other", "Note", text("pear")))
    setup.redact("it")
    setup.write(memory("it", "Note", text("pear")))
    assert (setup.found("apple"), setup.found("pear")) == ([], ["it", "other"])


def test_scrubbing_waits_for_a_reader_and_is_done_when_it_has_left(setup: TextSetup) -> None:
    setup.write(memory("it", "Note", text("Xylophones")))
    setup.found("x")
    with setup.database() as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM entities").fetchall()
        setup.redact("it")
        assert setup.found("xylo") == []
        assert setup.projection.settle() is not None
        reader.execute("ROLLBACK")
    reader.close()
    assert setup.projection.settle() is None
    assert b"ylophon" not in setup.kept_bytes()


# -- several at once, crashes, damage


def test_what_one_process_wrote_another_finds_at_once(setup: TextSetup) -> None:
    other = TextSetup(setup.home)
    for number in range(5):
        setup.write(memory(f"n{number}", "Note", text(f"apple {number}")))
        assert other.found(f"apple {number}") == [f"n{number}"]
        other.write(memory(f"n{number}", "Note", text(f"pear {number}")))
        assert setup.found(f"apple {number}") == []
        assert setup.found(f"pear {number}") == [f"n{number}"]
    other.close()


def test_a_process_that_dies_before_it_wiped_leaves_nothing_to_find(
    setup: TextSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup.write(memory("a", "Note", text("apple")))
    assert setup.found("apple") == ["a"]
    setup.write(memory("a", "Note", text("pear")))
    with monkeypatch.context() as dying:
        dying.setattr(SubstringWriter, "wipe", _die)
        with pytest.raises(KeyboardInterrupt):
            setup.follower.catch_up()
    other = TextSetup(setup.home)
    assert (other.found("apple"), other.found("pear")) == ([], ["a"])
    other.close()


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_full_disk_is_said_and_made_good_later(setup: TextSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    setup.write(memory("a", "Note", text("apple")))
    assert setup.found("apple") == ["a"]
    setup.write(memory("b", "Note", text("apple")), memory("a", "Note", text("pear")))
    with monkeypatch.context() as full:
        full.setattr(SubstringWriter, "_write", _no_space)
        with pytest.raises(StorageRefused):
            setup.found("apple")
    assert (setup.found("apple"), setup.found("pear")) == (["b"], ["a"])


def _no_space(*_: object) -> None:
    raise OSError(28, "No space left on device")


def _garble(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[: len(data)] = b"garbage!" * (len(data) // 8 + 1)
    path.write_bytes(data)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "database garbled": lambda folder: _garble(folder / "text.db"),
    "database empty": lambda folder: (folder / "text.db").write_bytes(b""),
    "database gone": lambda folder: (folder / "text.db").unlink(),
    "table gone": lambda folder: _execute(folder, "DROP TABLE entities"),
    "position gone": lambda folder: _execute(folder, "DELETE FROM place"),
    "position garbled": lambda folder: _execute(folder, "UPDATE place SET head = '{'"),
    "other version": lambda folder: _execute(folder, "UPDATE place SET version = 0"),
    "words gone": lambda folder: _execute(folder, "DROP TABLE postings"),
    "files gone": lambda folder: _remove(folder, "*.folded"),
    "everything gone": lambda folder: _remove(folder, "*"),
}


def _remove(folder: Path, pattern: str) -> None:
    for path in folder.glob(pattern):
        path.unlink()


def _execute(folder: Path, statement: str) -> None:
    db = sqlite3.connect(folder / "text.db", isolation_level=None)
    db.execute(statement)
    db.close()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_index_is_built_again(setup: TextSetup, damage: str) -> None:
    setup.write(memory("a", "Note", text("apple")), memory("b", "Note", text("apple tree")))
    assert setup.found("apple") == ["a", "b"]
    setup.close()
    DAMAGES[damage](setup.projection.directory)
    again = TextSetup(setup.home)
    again.write(memory("c", "Note", text("apple tart")))
    assert again.ranked("trees") == ["b"]
    assert again.found("apple") == ["a", "b", "c"]
    again.close()


def test_an_index_that_vanishes_under_a_running_process_is_built_again(setup: TextSetup) -> None:
    other = TextSetup(setup.home)
    setup.write(memory("a", "Note", text("apple")))
    assert setup.found("apple") == other.found("apple") == ["a"]
    for path in setup.projection.directory.iterdir():
        path.unlink()
    setup.write(memory("b", "Note", text("apple")))
    assert setup.found("apple") == other.found("apple") == ["a", "b"]
    other.close()


def test_pages_that_a_power_cut_took_are_noticed_after_the_boot(setup: TextSetup) -> None:
    setup.write(memory("a", "Note", text("apple")), memory("b", "Note", text("pear")))
    assert setup.found("pear") == ["b"]
    setup.close()
    for path in setup.projection.directory.glob("ordered-*"):
        data = path.read_bytes()
        path.write_bytes(bytes(len(data)))
    _execute(setup.projection.directory, "UPDATE place SET boot = 'the one before'")
    again = TextSetup(setup.home)
    assert (again.found("apple"), again.found("pear")) == (["a"], ["b"])
    again.close()


def test_many_updates_move_the_texts_to_new_files_under_a_reader(
    setup: TextSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = TextSetup(setup.home)
    setup.write(*(memory(f"n{number}", "Note", text(f"apple {number}")) for number in range(10)))
    assert len(other.found("apple")) == 10
    before = set(setup.projection.directory.glob("*.folded"))
    monkeypatch.setattr(projection, "_SPARE_BYTES", 100)
    setup.write(*(memory(f"n{number}", "Note", text(f"apple {number} new")) for number in range(9)))
    setup.follower.catch_up()
    after = set(setup.projection.directory.glob("*.folded"))
    assert not before & after
    assert other.found("apple") == setup.found("apple") == [f"n{number}" for number in range(10)]
    assert setup.found("9") == ["n9"]
    other.close()


def test_several_processes_write_and_find_what_they_wrote(tmp_path: Path) -> None:
    FilesLog(tmp_path / "_system").close()
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        outcomes = pool.starmap(_write_and_find, [(tmp_path, worker) for worker in range(3)])
    assert outcomes == [[]] * 3
    setup = TextSetup(tmp_path)
    assert len(setup.found("fruit")) == 3 * 15
    assert setup.found("old") == []
    setup.close()


def _write_and_find(home: Path, worker: int) -> list[str]:
    """What went wrong."""
    setup = TextSetup(home)
    wrong = []
    for number in range(15):
        name = f"w{worker}-{number}"
        for words in (f"old fruit {name}.", f"new fruit {name}."):
            while True:
                setup.log.claim(timeout_seconds=30)
                try:
                    setup.write(memory(name, "Note", text(words)))
                    break
                finally:
                    setup.log.release()
            if setup.found(words) != [name]:
                wrong.append(words)
        if setup.found(f"old fruit {name}."):
            wrong.append(f"{name} is still old")
    setup.close()
    return wrong


# -- laws


@settings(max_examples=30)
@given(STORIES, st.integers(1, 7))
def test_an_index_that_followed_finds_what_a_replayed_one_and_a_plain_reader_find(
    story: list[Step], chunk: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        logged = LoggedState()
        live, replayed = (TextProjection(Path(folder, name), logged.lines.__getitem__) for name in ("live", "replayed"))
        for number, step in enumerate(story):
            step(logged)
            if number % chunk == 0:
                _follow(live, logged)
        _follow(live, logged)
        _follow(replayed, logged)
        for query in ("a", "1", "text", "OF SOME", "redacted"):
            expected = _plainly(logged, query)
            for followed in (live, replayed):
                index = TextIndex(followed, lambda: None)
                assert [hit.node_id for hit in asyncio.run(index.contents(query)).hits] == expected
                ranked = asyncio.run(index.contents(query, mode="ranked")).hits
                assert {hit.node_id for hit in ranked} <= set(_plainly(logged, ""))
                index.close()
        live.close()
        replayed.close()


def _follow(followed: TextProjection, logged: LoggedState) -> None:
    at = followed.position()
    entries = [
        Entry(offset, chain.decode(logged.lines[offset]), logged.lines[offset]) for offset in logged.offsets[at.count :]
    ]
    if entries:
        followed.apply(entries, head_after(entries, at))
        followed.settle()


def _plainly(logged: LoggedState, query: str) -> list[str]:
    texts: dict[str, tuple[int, str]] = {}
    for seq, offset in enumerate(logged.offsets, 1):
        commit = chain.decode(logged.lines[offset])
        said = commit.document()
        if commit.operation is Verb.UPSERT_NODE:
            created = texts[said["id"]][0] if said["id"] in texts else seq
            texts[said["id"]] = (created, (said.get("content") or {}).get("text", ""))
        elif commit.operation is Verb.DELETE_NODE:
            del texts[said["node_id"]]
        elif commit.operation is Verb.REDACT_NODE and said["node_id"] in texts and "redacted_fields" not in said:
            texts[said["node_id"]] = (texts[said["node_id"]][0], "")
    found = [
        (created, node) for node, (created, words) in texts.items() if words and query.casefold() in words.casefold()
    ]
    return [node for _, node in sorted(found)]


@contextmanager
def _overtaken(setup: TextSetup, times: int) -> Iterator[Callable[[float], bool]]:
    """Catches up, and right after it another process begins to build the index anew; so often."""
    other = TextProjection(setup.home, setup.log.line)
    left = iter(range(times))

    def catch_up(seconds: float) -> bool:
        setup.follower.catch_up()
        if next(left, None) is not None:
            other.reset()
        return True

    yield catch_up
    other.close()


@pytest.mark.parametrize("times", [1, 3])
def test_a_search_that_a_rebuild_by_another_process_overtakes_looks_again(setup: TextSetup, times: int) -> None:
    setup.write(memory("a", "Note", text("the harbour wall")), memory("b", "Note", text("the harbour light")))
    questions: tuple[Callable[[TextIndex], list[str]], ...] = (
        lambda index: [hit.id for hit in asyncio.run(index.search("harbour")).hits],
        lambda index: [hit.node_id for hit in asyncio.run(index.contents("harbour")).hits],
        lambda index: [hit.node_id for hit in asyncio.run(index.contents("harbour", mode="ranked")).hits],
    )
    for ask in questions:
        with _overtaken(setup, times) as catch_up:
            index = TextIndex(setup.projection, lambda: catch_up(0.0), catch_up_within=catch_up)
            assert sorted(ask(index)) == ["a", "b"]
            index.close()


def test_a_search_that_cannot_wait_for_a_rebuild_says_up_to_where_it_looked(setup: TextSetup) -> None:
    setup.write(memory("a", "Note", text("the harbour wall")))
    with _overtaken(setup, 1) as catch_up:
        has_time = iter([True, False])
        index = TextIndex(
            setup.projection, lambda: None, catch_up_within=lambda seconds: next(has_time) and catch_up(seconds)
        )
        found = asyncio.run(index.search("harbour"))
        assert (found.hits, found.position) == ([], 0)
        index.close()


def test_an_index_at_another_log_is_reset_and_replayed(setup: TextSetup, tmp_path: Path) -> None:
    setup.write(memory("a", "Note", text("apple")))
    assert setup.found("apple") == ["a"]
    setup.projection.reset()
    assert setup.projection.position() == Head()
    assert setup.found("apple") == ["a"]
