"""Words find things: in every kind of text of every entity, in the right order, and nothing that is gone."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from tallystick.commits import Operation, Verb
from tallystick.projections.text import TextIndex, postings, projection, ranking
from tallystick.projections.text.entity_words import values
from tallystick.projections.text.projection import TextProjection
from tallystick.projections.text.words import STOP_WORDS, name_parts, stem, words_of
from tests.commits_by_hand import append, draft
from tests.laws.test_replay import STORIES, Step
from tests.projections.test_text import TextSetup, _follow
from tests.projections.workspace import connection, cut, gone, memory, text
from tests.state.logged_state import LoggedState


class SearchSetup(TextSetup):
    def write_by(self, actor: str, *operations: Operation, run: str | None = None) -> None:
        context = None if run is None else {"run_id": run}
        drafts = [draft(each, actor=actor) for each in operations]
        append(self.log, *(msgspec.structs.replace(each, run_context=context) for each in drafts))

    def hits(self, words: str, **more: Any) -> list[str]:
        """Of those that have the words themselves."""
        return self.spread(words, **{"spreads": False, **more})

    def spread(self, words: str, **more: Any) -> list[str]:
        return [hit.id for hit in asyncio.run(self.index.search(words, **more)).hits]


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[SearchSetup]:
    made = SearchSetup(tmp_path)
    yield made
    made.close()


# -- words

STEMS = [
    ("rotation", "rotating"), ("keys", "key"), ("went", "going"), ("children", "child"), ("ponies", "pony"),
    ("relational", "relate"), ("written", "writes"), ("hopping", "hop"), ("agreed", "agree"), ("women", "woman"),
    ("bought", "buying"), ("analyses", "analysis"), ("generalizations", "generalize"), ("taken", "took"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), STEMS)
def test_forms_of_a_word_are_one_word(one: str, other: str) -> None:
    assert stem(one) == stem(other)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("Billing, retries & RS256!", ["billing", "retries", "rs256"]),
        ("snake_case and kebab-case", ["snake", "case", "and", "kebab", "case"]),
        ("Straße ΟΔΟΣ café cafe\u0301", ["strasse", "οδοσ", "cafe", "cafe"]),
        ("\u0130stanbul \ufb01nal \uff21\uff22\uff23 Łódź", ["istanbul", "final", "abc", "lodz"]),
        ("日本語のテキスト", ["日本", "本語", "語の", "のテ", "テキ", "キス", "スト"]),
        ("用 Python 写", ["用", "python", "写"]),
        ("한국어 abc中文", ["한국", "국어", "abc", "中文"]),
        ("ภาษา", ["ภา", "าษ", "ษา"]),
        ("x" * 100, ["x" * 48, "x" * 48, "x" * 48, "x" * 28]),
        ("?! _ \ud800", []),
    ],
)
def test_a_text_is_its_words(said: str, words: list[str]) -> None:
    assert words_of(said.casefold()) == words


# -- what is found


def test_words_are_found_wherever_an_entity_has_them(setup: SearchSetup) -> None:
    setup.write(
        memory("dec_billing_retry", "decision", text("Charge cards again."), why={"deep": ["Insolvency", 4711]}),
        memory("7f3c", "service", name="Ledger"),
        connection(None, "dec_billing_retry", "concerns", "7f3c", note="since Thursday"),
    )
    for words in ("billing", "charge", "insolvency", "4711", "decisions"):
        assert setup.hits(words, kinds=["node"]) == ["dec_billing_retry"], words
    edge = "dec_billing_retry|concerns|7f3c"
    assert setup.hits("concern") == setup.hits("thursday") == setup.hits(edge)[:1] == [edge]
    assert setup.hits("7f3c")[0] == "7f3c"
    assert setup.hits("billing", kinds=["edge"]) == [edge]


def test_types_and_ids_narrow_what_is_found(setup: SearchSetup) -> None:
    setup.write(*(memory(f"n{number}", "note" if number % 2 else "task", text="apple") for number in range(6)))
    assert sorted(setup.hits("apples", types=["task"])) == ["n0", "n2", "n4"]
    assert setup.hits("apples", among=["n3", "nobody"]) == ["n3"]
    assert setup.hits("apples", types=["note"], among=["n2"]) == setup.hits("apples", types=["none"]) == []
    assert len(setup.hits("apples", limit=2)) == 2


def test_an_id_is_found_as_it_stands_and_first(setup: SearchSetup) -> None:
    ids = ["4e6d8b1c-9f7a-4b53-8e2d-1c0f5a7b9d3e", "CamelCase", "a/b:c", "42"]
    setup.write(*(memory(each, "note", text="the same words") for each in ids))
    setup.write(memory("other", "note", text=f"speaks of {' '.join(ids)} and the same words"))
    for each in ids:
        assert setup.hits(f"what is {each}?")[0] == each


def test_questions_are_asked_as_people_do(setup: SearchSetup) -> None:
    setup.write(
        memory("shop", "turn", text="Caroline went to the LGBTQ support group on Sunday"),
        memory("filler", "turn", text="What did you do when you were there, and who was it with?"),
    )
    assert setup.hits("When did Caroline go to the support groups?") == ["shop"]
    assert setup.hits("what did you do") == ["filler"]


def test_scripts_without_spaces_are_ranked(setup: SearchSetup) -> None:
    setup.write(
        memory("ja", "note", text="請求書の再試行は三回まで行う"),
        memory("zh", "note", text="账单重试最多三次"),
        memory("ko", "note", text="청구서 재시도는 세 번까지"),
        memory("th", "note", text="ลองเรียกเก็บเงินใหม่ได้สามครั้ง"),
    )
    for words, found in (("再試行は何回", "ja"), ("重试几次", "zh"), ("재시도 횟수", "ko"), ("เรียกเก็บเงิน", "th")):
        assert setup.hits(words)[0] == found


def test_what_was_written_just_before_and_after_by_the_same_run_is_found_too(setup: SearchSetup) -> None:
    for run, name in (("r1", "a"), ("r2", "x"), ("r1", "b"), ("r2", "y"), ("r1", "c")):
        setup.write_by("ann", memory(name, "turn", text="Zeppelins" if name == "b" else f"something {name}"), run=run)
    assert setup.spread("zeppelin")[0] == "b"
    assert sorted(setup.spread("zeppelin")) == ["a", "b", "c"]
    assert setup.hits("zeppelin") == ["b"]
    setup.write(gone("a"))
    assert sorted(setup.spread("zeppelin")) == ["b", "c"]
    setup.write(gone("b"))
    assert setup.spread("zeppelin") == []
    assert sorted(setup.spread("something c")) == ["c", "x", "y"]


def test_without_a_run_the_agent_makes_neighbours(setup: SearchSetup) -> None:
    for actor, name in (("ann", "a"), ("bob", "x"), ("ann", "b")):
        setup.write_by(actor, memory(name, "turn", text="Zeppelins" if name == "b" else "else"))
    assert setup.spread("zeppelin") == ["b", "a"]


def test_whom_the_question_names_weighs_more(setup: SearchSetup) -> None:
    for number, speaker in enumerate(("Melanie", "Caroline Smith", "Jon")):
        setup.write(memory(f"n{number}", "turn", speaker=speaker, text="painted a sunrise with Caroline Smith for Jon"))
    setup.write_by("walter", memory("n3", "turn", text="painted a sunrise with Caroline Smith for Jon"))
    assert setup.hits("what did Caroline Smith paint")[0] == "n1"
    assert setup.hits("Jon's sunrise")[0] == "n2"
    assert setup.hits("the sunrise that Walter painted")[0] == "n3"


def test_of_two_alike_the_newer_comes_first(setup: SearchSetup) -> None:
    setup.write(*(memory(name, "note", text="apple") for name in "abc"))
    assert setup.hits("apple") == ["c", "b", "a"]


def test_whoever_has_all_words_is_found_however_common_each_of_them_is(
    setup: SearchSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "CANDIDATES_MAX", 5)
    setup.write(memory("both", "note", text="red kites"), memory("typed", "task", text="kites"))
    for number in range(20):
        setup.write(memory(f"r{number}", "note", text="red"), memory(f"k{number}", "note", text="kites"))
    assert setup.hits("red kites")[0] == "both"
    assert setup.hits("kites", types=["task"]) == ["typed"]
    assert asyncio.run(setup.index.search("kites")).is_partial


def test_words_that_look_like_those_that_nobody_has(setup: SearchSetup) -> None:
    setup.write(memory("a", "note", text="billing invoices"), memory("b", "note", text="bilberries"))
    near = asyncio.run(setup.index.nearest_words("what about biling invoyces"))
    assert near[:1] == ["billing"]
    assert "invoices" in near
    setup.redact("a")
    assert "billing" not in asyncio.run(setup.index.nearest_words("biling"))


def test_nearly_the_same_text_of_the_same_type_is_similar(setup: SearchSetup) -> None:
    said = "Failed charges are tried again three times, a day apart, before the account is closed"
    setup.write(
        memory("it", "decision", text=said),
        memory("other type", "note", text=said),
        memory("else", "decision", text="Invoices are sent by mail on the first of the month"),
    )
    setup.hits("x")

    def similar(words: str, **more: Any) -> list[str]:
        return asyncio.run(setup.index.similar([words], "decision", **{"besides": "new", "seconds": 5.0, **more}))

    assert similar(said.replace("three", "3")) == ["it"]
    assert similar(said, besides="it") == []
    assert similar("Failed charges are reported by mail") == similar("") == []
    assert similar(said, seconds=0.0) == []


# -- what is gone


def test_redacted_values_are_found_by_nobody_at_once_and_are_gone_from_the_disk(setup: SearchSetup) -> None:
    other = SearchSetup(setup.home)
    setup.write(
        memory("kept", "note", text="harpsichords"),
        memory("it", "person", name="Xylophia Quetzal", mail={"home": "marzipan"}, note="zeppelin"),
        connection("e", "kept", "knows", "it", how="wanderlust"),
    )
    for words in ("xylophia", "quetzal", "marzipan", "wanderlust"):
        assert other.hits(words) != [], words
    setup.redact("it", redacted_fields=["attrs.name", "attrs.mail.home"])
    assert [other.hits(words) for words in ("xylophia", "quetzal", "marzipan")] == [[], [], []]
    assert other.hits("zeppelin") == ["it"]
    edge = {"from": "kept", "rel": "knows", "to": "it", "id": "e", "reason": "asked"}
    setup.write(Operation(Verb.REDACT_EDGE, edge))
    assert other.hits("wanderlust") == []
    assert setup.hits("knows") == ["e"]
    other.close()
    setup.close()
    kept = setup.kept_bytes().lower()
    assert [word for word in (b"xylophi", b"quetzal", b"marzipan", b"wanderlust") if word in kept] == []
    assert b"zeppelin" in kept


@pytest.mark.parametrize("merged_at", [1, 1000])
def test_what_was_replaced_or_deleted_is_not_found(
    setup: SearchSetup, monkeypatch: pytest.MonkeyPatch, merged_at: int
) -> None:
    monkeypatch.setattr(projection, "MERGED_AT", merged_at)
    setup.write(memory("a", "note", text="apple apple pie"), connection("e", "a", "likes", "a", why="cinnamon"))
    assert (setup.hits("apple"), setup.hits("cinnamon")) == (["a"], ["e"])
    setup.write(memory("a", "note", text="pear pie"), cut("e", "a", "likes", "a"))
    assert [setup.hits(words) for words in ("apple", "cinnamon", "pear", "pie")] == [[], [], ["a"], ["a"]]
    setup.write(gone("a"))
    assert [setup.hits(words) for words in ("pear", "pie", "note")] == [[], [], []]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("HTTPServer", ["http", "server"]),
        ("v2Api getUserName", ["v2", "api", "get", "user", "name"]),
        ("sha256Sum OAuth2Token", ["sha256", "sum", "auth2", "token"]),
        ("snake_case UPPER_CASE Plain 42", []),
        ("aB3dE5fG7hI9jK1lM3nO5pQ7", []),
        ("x" * 1_000_000 + "Y", []),
    ],
)
def test_a_name_in_camel_case_has_parts_and_a_long_run_has_none(name: str, parts: list[str]) -> None:
    assert name_parts(name) == parts


@pytest.mark.parametrize("merged_at", [1, 1000])
def test_the_parts_of_names_in_a_content_go_with_it(
    setup: SearchSetup, monkeypatch: pytest.MonkeyPatch, merged_at: int
) -> None:
    monkeypatch.setattr(projection, "MERGED_AT", merged_at)
    setup.write(memory("a", "idea", text("The fileWatcher of café Müller"), caller="startWorker"))
    for words in ("watcher", "filewatcher", "fileWatcher", "muller", "cafe\u0301", "worker"):
        assert setup.hits(words) == ["a"], words
    assert setup.ranked("watcher") == ["a"]
    assert (setup.found("Müller"), setup.found("muller")) == (["a"], [])
    setup.write(memory("a", "idea", text("The fileReader"), caller="startWorker"))
    assert (setup.hits("watcher"), setup.hits("reader"), setup.hits("worker")) == ([], ["a"], ["a"])
    setup.write(memory("b", "idea", text("Nothing")))
    setup.redact("a")
    assert (setup.hits("reader"), setup.hits("worker")) == ([], [])
    setup.close()
    kept = setup.kept_bytes()
    assert b"reader" not in kept
    assert b"watcher" not in kept


@pytest.mark.parametrize("merged_at", [1, 1000])
def test_the_words_of_a_content_go_with_it(setup: SearchSetup, monkeypatch: pytest.MonkeyPatch, merged_at: int) -> None:
    monkeypatch.setattr(projection, "MERGED_AT", merged_at)
    setup.write(memory("a", "note", text("Apple apple straße pie."), title="Pie"))
    assert [setup.hits(words) for words in ("apple", "straße", "pie")] == [["a"]] * 3
    setup.write(memory("a", "note", text("Apple apple straße pie."), title="Cake apple"))
    setup.write(memory("a", "note", text("Pear tart."), title="Cake"))
    assert [setup.hits(words) for words in ("apple", "straße", "pie", "pear", "cake")] == [[], [], [], ["a"], ["a"]]
    setup.write(gone("a"))
    assert setup.hits("pear tart cake note") == []
    with closing(sqlite3.connect(setup.home / "_system" / "text" / "text.db")) as db:
        assert db.execute("SELECT (SELECT count(*) FROM postings), (SELECT count(*) FROM unmerged)").fetchone() == (
            0,
            0,
        )


# -- laws

WORDS = st.sampled_from(["Apple", "pears", "Äpfel", "went", "the", "日本語", "x7", "of", "naïve", "RUNNING", "10"])
VALUES = st.recursive(
    st.one_of(st.lists(WORDS, max_size=5).map(" ".join), st.integers(0, 9)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3)),
    max_leaves=5,
)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.dictionaries(WORDS, VALUES, max_size=3)), max_size=12))
def test_every_word_of_every_text_finds_its_entity(written: list[tuple[str, dict[str, Any]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        setup = SearchSetup(Path(folder))
        for node_id, attrs in written:
            setup.write(Operation(Verb.UPSERT_NODE, {"id": node_id, "type": "note", "attrs": attrs}))
        for node_id, attrs in dict(written).items():
            for word in words_of(" ".join(values(attrs)).casefold()):
                assert node_id in setup.hits(word), word
        for node_id in dict(written):
            said = {stem(word) for word in words_of(" ".join(values(dict(written)[node_id])).casefold())}
            absent = [word for word in ("apple", "went", "x7", "10") if stem(word) not in said]
            assert not any(node_id in setup.hits(word) for word in absent)
        setup.close()


@settings(max_examples=20)
@given(STORIES, st.integers(1, 7), st.sampled_from([1, 3, 1000]))
def test_an_index_that_followed_ranks_as_a_replayed_one_does(story: list[Step], chunk: int, merged_at: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(projection, "MERGED_AT", merged_at)
        logged = LoggedState()
        live, replayed = (TextProjection(Path(folder, name), logged.lines.__getitem__) for name in ("live", "replayed"))
        for number, step in enumerate(story):
            step(logged)
            if number % chunk == 0:
                _follow(live, logged)
        _follow(live, logged)
        _follow(replayed, logged)
        answers = []
        for followed in (live, replayed):
            index = TextIndex(followed, lambda: None)
            found = [asyncio.run(index.search(words)) for words in ("a", "text of some", "person", "redacted", "knows")]
            answers.append([(sorted((hit.id, hit.kind, hit.score) for hit in each.hits)) for each in found])
            index.close()
            followed.close()
        assert answers[0] == answers[1]


def test_stop_words_are_only_those_that_every_question_has() -> None:
    assert {"the", "what", "did"} <= STOP_WORDS
    assert not {"go", "make", "time", "new", "work"} & STOP_WORDS


def test_a_few_slots_and_many_come_back_as_they_were() -> None:
    for slots in ([], [1], [5, 6, 7, 8, 20, 21, 22, 24], range(70_000), [1, 1 << 31]):
        made = BitMap(slots)
        assert postings.decode_slots(postings.encode_slots(made)) == made


FRAGMENTS = [
    "ppl",
    "le pe",
    "APP",
    "x",
    "日本",
    "本語",
    "日",
    "10",
    "a" * 30,
    "b" * 23,
    " ",
    "-",
    "é",
    "ï",
    "redacted",
    "[",
    "w",
]
PIECES = [
    *"abx",
    "Apple",
    "pears",
    "日本語",
    "naïve",
    "e\u0301té",
    "went",
    "10",
    "-",
    " ",
    "_",
    "a" * 60,
    "b" * 47,
    ".",
]


@settings(max_examples=40)
@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), min_size=1, max_size=6))
def test_whatever_holds_a_text_is_among_those_that_may_hold_it(said: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        setup = SearchSetup(Path(folder))
        setup.write(*(memory(f"n{number}", "note", text=each) for number, each in enumerate(said)))
        setup.write(memory("other", "task", text="".join(said)))
        for sought in (*FRAGMENTS, *PIECES, *(each[1:-1] for each in said)):
            found = asyncio.run(setup.index.holding(sought, ["note"]))
            holding = {f"n{number}" for number, each in enumerate(said) if sought.casefold() in each.casefold()}
            assert found is None or holding <= set(found) <= {f"n{number}" for number in range(len(said))}, sought
        setup.close()
