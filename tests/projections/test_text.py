"""The text index: what is found, in which order, and that nothing is found that is not there."""

from __future__ import annotations

import asyncio
import multiprocessing
import sqlite3
import tempfile
from base64 import b64encode
from collections.abc import Callable, Iterator
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
from tallystick.projections.follower import Follower
from tallystick.projections.text import Mode, TextIndex, TextMatches, projection, ranking
from tallystick.projections.text.projection import TextProjection
from tallystick.projections.text.substring_index import SubstringWriter
from tests.commits_by_hand import append, draft
from tests.laws.test_replay import STORIES, Step
from tests.projections.workspace import gone, memory, text
from tests.state.book import Book


class Place:
    """A home with a log, and one process's index over it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.log = FilesLog(home / "_system")
        self.open()

    def open(self) -> None:
        self.projection = TextProjection(self.home)
        lock = self.home / "_system" / "text.lock"
        self.follower = Follower(lambda: FilesLog(self.home / "_system"), self.projection, lock=lock)
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
    ) -> TextMatches:
        return asyncio.run(self.index.search(query, node_type=node_type, limit=limit, mode=mode))

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
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
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
    place: Place, content: str, query: str, is_found: bool
) -> None:
    place.write(memory("before", "Note", text("nothing")), memory("it", "Note", text(content)))
    assert ("it" in place.found(query)) is is_found


def test_a_match_does_not_reach_from_one_text_into_the_next(place: Place) -> None:
    place.write(memory("a", "Note", text("one")), memory("b", "Note", text("two")))
    assert place.found("onetwo") == []
    assert place.found("one") == ["a"]


def test_only_texts_are_searched_not_ids_types_or_attributes(place: Place) -> None:
    place.write(memory("mem_1234567", "Project", text("hello"), status="active"))
    assert [place.found(query) for query in ("mem", "1234567", "0", "1", "project", "active")] == [[]] * 6


def test_binary_content_is_not_searched(place: Place) -> None:
    binary = {"format": "png", "encoding": "base64", "text": b64encode(b"hello").decode()}
    place.write(memory("binary", "Note", binary), memory("none", "Note"))
    assert place.search(b64encode(b"hello").decode()) == TextMatches([], [])


def test_nodes_come_in_the_order_in_which_they_were_made_however_they_changed(place: Place) -> None:
    place.write(*(memory(name, "Note", text(f"apple {name}")) for name in "cab"), memory("late", "Note"))
    place.write(memory("d", "Note", text("apple")))
    assert place.found("apple") == ["c", "a", "b", "d"]
    place.write(memory("c", "Note", text("new apple")), memory("late", "Note", text("apple at last")))
    place.write(gone("a"), memory("a", "Note", text("apple again")))
    assert place.found("apple") == ["c", "b", "late", "d", "a"]
    assert place.found("apple", limit=3) == ["c", "b", "late"]
    assert place.found("apple", limit=1) == ["c"]


def test_a_type_narrows_the_search_before_the_limit_does(place: Place) -> None:
    place.write(*(memory(f"n{number}", "Note", text("apple")) for number in range(5)))
    place.write(memory("p", "Project", text("apple")), memory("n0", "Project", text("apple")))
    assert place.found("apple", node_type="Project", limit=2) == ["n0", "p"]
    assert place.found("apple", node_type="Note", limit=2) == ["n1", "n2"]
    assert place.found("apple", node_type="Nothing") == []


def test_what_was_replaced_or_deleted_is_not_found_and_its_text_is_gone_from_the_files(place: Place) -> None:
    place.write(memory("a", "Note", text("Xylophone")), memory("b", "Note", text("Zeppelin")))
    assert place.found("xylophone") == ["a"]
    place.write(memory("a", "Note", text("violin")), gone("b"))
    assert [place.found(query) for query in ("xylo", "zepp", "violin")] == [[], [], ["a"]]
    folded = b"".join(path.read_bytes() for path in place.projection.directory.glob("*.folded"))
    assert b"violin" in folded
    assert b"xylophone" not in folded
    assert b"zeppelin" not in folded


def test_an_update_that_leaves_the_text_alone_writes_nothing_to_the_files(place: Place) -> None:
    place.write(memory("a", "Note", text("apple"), status="new"))
    assert place.found("apple") == ["a"]
    before = [path.read_bytes() for path in sorted(place.projection.directory.glob("*.folded"))]
    place.write(memory("a", "Note", text("apple"), status="old"))
    assert place.found("apple") == ["a"]
    assert [path.read_bytes() for path in sorted(place.projection.directory.glob("*.folded"))] == before


# -- large contents, and those that cannot be read


def test_a_text_too_large_for_the_log_is_searched_to_its_end(place: Place) -> None:
    words = "filler ß " * 300_000 + "Needle"
    content = Contents(place.home).prepare("nodes", "big", "markdown", "utf-8", words.encode()).content
    assert "blob" in content
    place.write(memory("big", "Note", content))
    assert place.found("needle") == ["big"]
    assert place.found("SS FILLER") == ["big"]
    assert place.ranked("filler") == ["big"]


def test_a_node_whose_content_cannot_be_read_is_named_until_it_can(place: Place) -> None:
    content = Contents(place.home).prepare("nodes", "big", "markdown", "utf-8", b"needle " * 50_000).content
    blob = place.home / "_content" / "blobs" / content["blob"]
    data = blob.read_bytes()
    blob.unlink()
    place.write(memory("big", "Note", content), memory("small", "Note", text("needle")))
    assert (place.found("needle"), place.search("needle").skipped) == (["small"], ["big"])
    assert place.search("needle", node_type="Project").skipped == []
    blob.write_bytes(data)
    place.close()
    again = Place(place.home)
    assert (again.found("needle"), again.search("needle").skipped) == (["big", "small"], [])
    again.close()


def test_a_blob_that_is_not_the_text_it_says_is_skipped(place: Place) -> None:
    content = Contents(place.home).prepare("nodes", "odd", "text", "base64", b"\xff\xfe" * 200_000).content
    place.write(memory("odd", "Note", {**content, "encoding": "utf-8"}), memory("fine", "Note", text("apple")))
    assert place.search("apple").skipped == ["odd"]
    assert place.found("apple") == ["fine"]


# -- ranked


def test_words_are_found_in_any_form_and_any_order(place: Place) -> None:
    said = "JWT tokens are signed with RS256 keys rotated quarterly"
    place.write(memory("jwt", "Note", text(said)), memory("other", "Note", text("Tokens of appreciation")))
    (hit,) = place.search("JWT RS256 rotation", mode="ranked").hits
    assert (hit.node_id, hit.snippet) == ("jwt", said)
    assert hit.score is not None
    assert hit.score > 0


def test_texts_with_all_words_come_before_those_with_any(place: Place) -> None:
    place.write(
        memory("often", "Note", text("rotate rotate rotate rotate rotating")),
        memory("none", "Note", text("nothing of the kind")),
        memory("both", "Note", text("a long text about many things, in which keys are at some point said to rotate")),
        memory("one", "Project", text("keys")),
    )
    assert place.ranked("key rotation")[0] == "both"
    assert set(place.ranked("key rotation")) == {"both", "often", "one"}
    assert place.ranked("key rotation", limit=1) == ["both"]
    assert place.ranked("key rotation", node_type="Project") == ["one"]


def test_the_rarer_word_weighs_more(place: Place) -> None:
    place.write(*(memory(f"n{number}", "Note", text("common words here")) for number in range(20)))
    place.write(memory("rare", "Note", text("a rare thing here")))
    assert place.ranked("common rare")[0] == "rare"


def test_a_word_that_very_many_have_does_not_hide_the_rare_one(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "SCORED_MAX", 3)
    place.write(memory("rare", "Note", text("a rare and common thing")))
    place.write(*(memory(f"n{number}", "Note", text("common")) for number in range(9)))
    assert place.ranked("common rare thing")[0] == "rare"
    assert place.ranked("common absent rare")[0] == "rare"
    assert place.ranked("common") == ["n6", "n7", "n8"]


@pytest.mark.parametrize(
    "query", ["", " ", "?!", "_", '"', "a AND", "NEAR(", "^x", "a* -b", "col:x", "(", "\0", "\ud800"]
)
def test_no_query_is_taken_for_syntax(place: Place, query: str) -> None:
    place.write(memory("it", "Note", text("text")))
    assert place.ranked(query) == []
    assert place.ranked(f"{query} text") == ["it"]


def test_a_snippet_shows_the_words_in_a_long_text(place: Place) -> None:
    place.write(memory("long", "Note", text("filler\n" * 500 + "The needle is here\n" + "filler " * 500)))
    (hit,) = place.search("needles", mode="ranked").hits
    assert hit.snippet is not None
    assert "The needle is here" in hit.snippet
    assert len(hit.snippet) < 300


# -- redaction


def test_a_redaction_leaves_no_trace_in_any_file(place: Place) -> None:
    secrets = ["Xylophones", "Marzipans", "Quetzalcoatls"]
    place.write(memory("kept", "Note", text("Harpsichords")))
    place.write(memory("it", "Note", text(secrets[0])), memory("it", "Note", text(secrets[1])))
    place.found("harp")
    place.write(memory("it", "Note", text(secrets[2])))
    place.found("harp")
    place.write(memory("was", "Note", text(f"{secrets[0]} too")), gone("was"))
    place.found("harp")
    # Words are kept with their beginnings left out where they are those of the word before.
    assert b"uetzalcoatl" in place.kept_bytes()
    place.redact("it")
    place.redact("was")
    assert [place.found(secret) for secret in secrets] == [[], [], []]
    place.close()
    kept = place.kept_bytes().lower()
    assert b"harpsichord" in kept
    assert [part for part in (b"ylophon", b"arzipan", b"uetzalcoatl") if part in kept] == []


def test_a_redaction_of_attributes_leaves_the_text(place: Place) -> None:
    place.write(memory("it", "Note", text("apple"), email="a@b"))
    place.redact("it", redacted_fields=["attrs.email"])
    assert place.found("apple") == ["it"]


def test_a_redacted_node_can_be_written_again(place: Place) -> None:
    place.write(memory("it", "Note", text("apple")), memory("other", "Note", text("pear")))
    place.redact("it")
    place.write(memory("it", "Note", text("pear")))
    assert (place.found("apple"), place.found("pear")) == ([], ["it", "other"])


def test_scrubbing_waits_for_a_reader_and_is_done_when_it_has_left(place: Place) -> None:
    place.write(memory("it", "Note", text("Xylophones")))
    place.found("x")
    with place.database() as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM texts").fetchall()
        place.redact("it")
        assert place.found("xylo") == []
        assert place.projection.settle() is not None
        reader.execute("ROLLBACK")
    reader.close()
    assert place.projection.settle() is None
    assert b"ylophon" not in place.kept_bytes()


# -- several at once, crashes, damage


def test_what_one_process_wrote_another_finds_at_once(place: Place) -> None:
    other = Place(place.home)
    for number in range(5):
        place.write(memory(f"n{number}", "Note", text(f"apple {number}")))
        assert other.found(f"apple {number}") == [f"n{number}"]
        other.write(memory(f"n{number}", "Note", text(f"pear {number}")))
        assert place.found(f"apple {number}") == []
        assert place.found(f"pear {number}") == [f"n{number}"]
    other.close()


def test_a_process_that_dies_before_it_wiped_leaves_nothing_to_find(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write(memory("a", "Note", text("apple")))
    assert place.found("apple") == ["a"]
    place.write(memory("a", "Note", text("pear")))
    with monkeypatch.context() as dying:
        dying.setattr(SubstringWriter, "wipe", _die)
        with pytest.raises(KeyboardInterrupt):
            place.follower.catch_up()
    other = Place(place.home)
    assert (other.found("apple"), other.found("pear")) == ([], ["a"])
    other.close()


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_full_disk_is_said_and_made_good_later(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write(memory("a", "Note", text("apple")))
    assert place.found("apple") == ["a"]
    place.write(memory("b", "Note", text("apple")), memory("a", "Note", text("pear")))
    with monkeypatch.context() as full:
        full.setattr(SubstringWriter, "_write", _no_space)
        with pytest.raises(StorageRefused):
            place.found("apple")
    assert (place.found("apple"), place.found("pear")) == (["b"], ["a"])


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
    "table gone": lambda folder: _execute(folder, "DROP TABLE texts"),
    "position gone": lambda folder: _execute(folder, "DELETE FROM place"),
    "position garbled": lambda folder: _execute(folder, "UPDATE place SET head = '{'"),
    "other version": lambda folder: _execute(folder, "UPDATE place SET version = 0"),
    "ranked gone": lambda folder: _execute(folder, "DROP TABLE ranked"),
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
def test_a_damaged_index_is_built_again(place: Place, damage: str) -> None:
    place.write(memory("a", "Note", text("apple")), memory("b", "Note", text("apple tree")))
    assert place.found("apple") == ["a", "b"]
    place.close()
    DAMAGES[damage](place.projection.directory)
    again = Place(place.home)
    again.write(memory("c", "Note", text("apple tart")))
    assert again.ranked("trees") == ["b"]
    assert again.found("apple") == ["a", "b", "c"]
    again.close()


def test_an_index_that_vanishes_under_a_running_process_is_built_again(place: Place) -> None:
    other = Place(place.home)
    place.write(memory("a", "Note", text("apple")))
    assert place.found("apple") == other.found("apple") == ["a"]
    for path in place.projection.directory.iterdir():
        path.unlink()
    place.write(memory("b", "Note", text("apple")))
    assert place.found("apple") == other.found("apple") == ["a", "b"]
    other.close()


def test_pages_that_a_power_cut_took_are_noticed_after_the_boot(place: Place) -> None:
    place.write(memory("a", "Note", text("apple")), memory("b", "Note", text("pear")))
    assert place.found("pear") == ["b"]
    place.close()
    for path in place.projection.directory.glob("ordered-*"):
        data = path.read_bytes()
        path.write_bytes(bytes(len(data)))
    _execute(place.projection.directory, "UPDATE place SET boot = 'the one before'")
    again = Place(place.home)
    assert (again.found("apple"), again.found("pear")) == (["a"], ["b"])
    again.close()


def test_many_updates_move_the_texts_to_new_files_under_a_reader(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Place(place.home)
    place.write(*(memory(f"n{number}", "Note", text(f"apple {number}")) for number in range(10)))
    assert len(other.found("apple")) == 10
    before = set(place.projection.directory.glob("*.folded"))
    monkeypatch.setattr(projection, "_SPARE_BYTES", 100)
    place.write(*(memory(f"n{number}", "Note", text(f"apple {number} new")) for number in range(9)))
    place.follower.catch_up()
    after = set(place.projection.directory.glob("*.folded"))
    assert not before & after
    assert other.found("apple") == place.found("apple") == [f"n{number}" for number in range(10)]
    assert place.found("9") == ["n9"]
    other.close()


def test_several_processes_write_and_find_what_they_wrote(tmp_path: Path) -> None:
    FilesLog(tmp_path / "_system").close()
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        outcomes = pool.starmap(_write_and_find, [(tmp_path, worker) for worker in range(3)])
    assert outcomes == [[]] * 3
    place = Place(tmp_path)
    assert len(place.found("fruit")) == 3 * 15
    assert place.found("old") == []
    place.close()


def _write_and_find(home: Path, worker: int) -> list[str]:
    """What went wrong."""
    place = Place(home)
    wrong = []
    for number in range(15):
        name = f"w{worker}-{number}"
        for words in (f"old fruit {name}.", f"new fruit {name}."):
            while True:
                place.log.claim(timeout_seconds=30)
                try:
                    place.write(memory(name, "Note", text(words)))
                    break
                finally:
                    place.log.release()
            if place.found(words) != [name]:
                wrong.append(words)
        if place.found(f"old fruit {name}."):
            wrong.append(f"{name} is still old")
    place.close()
    return wrong


# -- laws


@settings(max_examples=30)
@given(STORIES, st.integers(1, 7))
def test_an_index_that_followed_finds_what_a_replayed_one_and_a_plain_reader_find(
    story: list[Step], chunk: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        live, replayed = TextProjection(Path(folder, "live")), TextProjection(Path(folder, "replayed"))
        book = Book()
        for number, step in enumerate(story):
            step(book)
            if number % chunk == 0:
                _follow(live, book)
        _follow(live, book)
        _follow(replayed, book)
        for query in ("a", "1", "text", "OF SOME", "redacted"):
            expected = _plainly(book, query)
            for followed in (live, replayed):
                index = TextIndex(followed, lambda: None)
                assert [hit.node_id for hit in asyncio.run(index.search(query)).hits] == expected
                ranked = asyncio.run(index.search(query, mode="ranked")).hits
                assert {hit.node_id for hit in ranked} <= set(_plainly(book, ""))
                index.close()
        live.close()
        replayed.close()


def _follow(followed: TextProjection, book: Book) -> None:
    at = followed.position()
    entries = [
        Entry(offset, chain.decode(book.lines[offset]), book.lines[offset]) for offset in book.offsets[at.count :]
    ]
    if entries:
        followed.apply(entries, head_after(entries, at))
        followed.settle()


def _plainly(book: Book, query: str) -> list[str]:
    texts: dict[str, tuple[int, str]] = {}
    for seq, offset in enumerate(book.offsets, 1):
        commit = chain.decode(book.lines[offset])
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


def test_an_index_at_another_log_is_reset_and_replayed(place: Place, tmp_path: Path) -> None:
    place.write(memory("a", "Note", text("apple")))
    assert place.found("apple") == ["a"]
    place.projection.reset()
    assert place.projection.position() == Head()
    assert place.found("apple") == ["a"]
