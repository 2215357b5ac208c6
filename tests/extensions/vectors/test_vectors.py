"""Vectors: other words for the same are found, and nothing that is gone is, in any process or file."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tallystick.commits import Operation, Verb
from tallystick.extensions.vectors import fusion, model
from tallystick.extensions.vectors.index import VectorIndex
from tallystick.extensions.vectors.projection import VectorProjection
from tallystick.log.files import FilesLog
from tallystick.projections.log_reader import LogReader
from tallystick.projections.text import Hit
from tallystick.projections.worker import ProjectionWorker
from tests.commits_by_hand import append, draft
from tests.projections.workspace import connection, gone, memory, text
from tests.timeouts import wait_until

with_model = pytest.mark.skipif(not model.is_installed(), reason="tallystick[vectors] is not installed")

CAT = "The cat is asleep on the sofa"
CAT_SAID_OTHERWISE = "a feline taking a nap on the couch"


class VectorSetup:
    """One process over a home; a second one over the same home is another."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.log = FilesLog(home / "_system")
        reader = LogReader(lambda: FilesLog(home / "_system"))
        self.projection = VectorProjection(home, reader.line)
        self.worker = ProjectionWorker(reader, self.projection, lock=home / "_system" / "vectors.lock")
        self.index = VectorIndex(self.projection, self.worker)

    def write(self, *operations: Operation) -> None:
        append(self.log, *(draft(each) for each in operations))

    def redact(self, node_id: str, **more: Any) -> None:
        self.write(Operation(Verb.REDACT_NODE, {"node_id": node_id, "reason": "asked", **more}, redacts={}))

    def embed(self) -> None:
        while self.index.embed_waiting():
            pass

    def found(self, words: str, **more: Any) -> list[str]:
        return [hit.id for hit in asyncio.run(self.index.search(words, **more))]

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.projection.path)) as db:
            return db.execute(query).fetchall()

    def close(self) -> None:
        self.index.close()
        self.worker.close()
        self.log.close()


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[VectorSetup]:
    made = VectorSetup(tmp_path)
    yield made
    made.close()


# -- what is found


@with_model
def test_other_words_for_the_same_find_it_and_unrelated_ones_do_not(setup: VectorSetup) -> None:
    setup.write(memory("cat", "note", said=CAT), memory("tax", "note", said="The tax office wants the form by March"))
    setup.write(memory("deploy", "note", text("We deploy the billing service on Tuesdays")))
    setup.embed()
    assert setup.found(CAT_SAID_OTHERWISE) == ["cat"]
    assert setup.found("when is the invoicing system released?")[0] == "deploy"
    assert setup.found("qzx vvk 0x1f") == []


@with_model
def test_types_kinds_and_ids_narrow_what_is_found(setup: VectorSetup) -> None:
    setup.write(memory("a", "note", said=CAT), memory("b", "task", said=CAT))
    setup.write(connection("e", "a", "likes", "b", said=CAT))
    setup.embed()
    edge = setup.rows("SELECT id FROM entities WHERE is_edge")[0][0]
    assert set(setup.found(CAT)) == {"a", "b", edge}
    assert setup.found(CAT, types=["task"]) == ["b"]
    assert setup.found(CAT, types=["nothing"]) == []
    assert setup.found(CAT, kinds=["edge"]) == [edge]
    assert setup.found(CAT, kinds=["node"], among=["a", "stranger"]) == ["a"]
    assert len(setup.found(CAT, limit=1)) == 1


@with_model
def test_of_many_the_nearest_are_found_all_the_same(setup: VectorSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    from tallystick.extensions.vectors import nearest

    subjects = ["tax law", "a cake recipe", "rust in steel", "chess openings", "the moon landing", "garden soil"]
    setup.write(*(memory(f"n{number}", "note", said=each) for number, each in enumerate(subjects)))
    setup.write(memory("cat", "note", said=CAT), memory("dog", "note", said="The dog is asleep on the sofa"))
    setup.embed()
    monkeypatch.setattr(nearest, "_CANDIDATES", 2)
    assert set(setup.found(CAT_SAID_OTHERWISE)) == {"cat", "dog"}


@with_model
def test_until_nearly_all_texts_have_a_vector_words_say_it_alone(
    setup: VectorSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tallystick.extensions.vectors import nearest

    monkeypatch.setattr(nearest, "_WAITING_MIN", 1)
    setup.write(memory("a", "note", said=CAT))
    setup.embed()
    setup.write(memory("b", "note", said=CAT))
    assert setup.found(CAT) == ["a"]
    setup.write(memory("c", "note", said=CAT))
    assert setup.found(CAT) == []
    setup.embed()
    assert set(setup.found(CAT)) == {"a", "b", "c"}


@with_model
def test_what_says_nothing_but_its_id_gets_no_vector(setup: VectorSetup) -> None:
    setup.write(memory("the-cat-on-the-sofa", "note"), connection("e", "a", "likes", "b"))
    setup.embed()
    assert setup.rows("SELECT * FROM entities") == []


@with_model
def test_any_text_gets_a_vector(setup: VectorSetup) -> None:
    odd = ["\x00", "🦦" * 5_000, "word " * 50_000, "日本語のテキスト", "\u202e\ufeff", " "]
    setup.write(*(memory(f"n{number}", "note", said=each) for number, each in enumerate(odd)))
    setup.embed()
    assert setup.rows("SELECT count(*) FROM vectors") == [(len(odd),)]
    assert isinstance(setup.found("\ud800 lone"), list)
    assert isinstance(setup.found(""), list)


# -- what is gone


@with_model
def test_what_was_redacted_or_deleted_is_found_no_more_in_any_process(setup: VectorSetup) -> None:
    other = VectorSetup(setup.home)
    setup.write(memory("a", "note", said=CAT), memory("b", "note", said=CAT), memory("c", "note", said=CAT))
    setup.embed()
    assert set(other.found(CAT_SAID_OTHERWISE)) == {"a", "b", "c"}
    setup.redact("a")
    setup.write(gone("b"))
    assert other.found(CAT_SAID_OTHERWISE) == ["c"]
    assert setup.found(CAT_SAID_OTHERWISE) == ["c"]
    setup.embed()
    assert setup.found("note [REDACTED]") == []
    other.close()


@with_model
def test_a_redaction_in_part_takes_the_vector_until_it_is_written_again(setup: VectorSetup) -> None:
    setup.write(memory("a", "note", said=CAT, where="Lisbon"))
    setup.embed()
    setup.redact("a", redacted_fields=["attrs.where"])
    setup.embed()
    assert setup.found(CAT) == []
    setup.write(memory("a", "note", said=CAT))
    setup.embed()
    assert setup.found(CAT) == ["a"]


@with_model
def test_a_vector_that_was_made_of_what_is_redacted_meanwhile_is_not_kept(setup: VectorSetup) -> None:
    setup.write(memory("a", "note", said=CAT))
    made = model.loaded()
    with setup.worker.at_head():
        setup.projection.use_model(made.identity)
        waiting = setup.projection.waiting(8)
    codes = {each.number: model.coded(made.embed(each.text)) for each in waiting}
    setup.redact("a")
    with setup.worker.at_head():
        setup.projection.put(made.identity, codes)
    assert setup.rows("SELECT * FROM vectors") == []


@with_model
def test_no_file_holds_the_vector_of_what_was_redacted_even_if_a_process_without_the_model_erases(
    setup: VectorSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup.write(memory("a", "note", said=CAT), memory("b", "note", said="something else entirely"))
    setup.embed()
    [[codes]] = setup.rows("SELECT codes FROM vectors JOIN entities ON entity = entities.number WHERE id = 'a'")
    assert codes in setup.projection.path.read_bytes() + setup.projection.path.with_name("vectors.db-wal").read_bytes()
    setup.redact("a")
    monkeypatch.setattr(model, "loaded", lambda: pytest.fail("the model is not needed"))
    assert setup.worker.erase()
    files = [path for path in setup.home.rglob("*") if path.is_file()]
    assert [path.name for path in files if codes in path.read_bytes()] == []
    assert setup.rows("SELECT id FROM entities WHERE vector IS NOT NULL") == [("b",)]


# -- what it is made of


@with_model
def test_a_text_that_is_rewritten_is_found_by_its_new_meaning_only(setup: VectorSetup) -> None:
    setup.write(memory("a", "note", said=CAT))
    setup.embed()
    assert setup.found(CAT_SAID_OTHERWISE) == ["a"]
    setup.write(memory("a", "note", said="The tax office wants the form by March"))
    assert setup.found(CAT_SAID_OTHERWISE) == []
    setup.embed()
    assert (setup.found(CAT_SAID_OTHERWISE), setup.found("when are taxes due?")) == ([], ["a"])


@with_model
def test_vectors_of_another_model_are_not_compared_and_are_made_again(setup: VectorSetup) -> None:
    setup.write(memory("a", "note", said=CAT))
    setup.embed()
    with setup.worker.at_head():
        setup.projection.use_model("another")
        [waiting] = setup.projection.waiting(8)
        setup.projection.put("another", {waiting.number: bytes([1]) * model.DIMENSIONS})
    assert setup.found(CAT) == []
    setup.embed()
    assert setup.found(CAT) == ["a"]


@with_model
@pytest.mark.parametrize("codes", ["x'00'", "7", f"zeroblob({model.DIMENSIONS})", "'text'"])
def test_a_damaged_file_costs_an_answer_by_vectors_and_is_built_again(setup: VectorSetup, codes: str) -> None:
    setup.write(memory("a", "note", said=CAT))
    setup.embed()
    with closing(sqlite3.connect(setup.projection.path)) as db:
        db.execute(f"UPDATE vectors SET codes = {codes}")
        db.commit()
    assert setup.found(CAT) == []
    setup.embed()
    assert setup.found(CAT) == ["a"]


@with_model
def test_replaying_the_log_leaves_what_following_it_left(setup: VectorSetup) -> None:
    setup.write(memory("a", "note", said=CAT), memory("b", "note", said=CAT), memory("c", "note", said="x"))
    setup.embed()
    setup.redact("a")
    setup.write(gone("b"), memory("b", "task", said="again"), memory("c", "note", said="y"))
    setup.embed()
    kept = "SELECT id, is_edge, type, log_offset, codes FROM entities JOIN vectors ON entity = entities.number"
    followed = setup.rows(kept)
    setup.projection.reset()
    setup.embed()
    assert [row[0] for row in followed] == ["b", "c"]
    assert setup.rows(kept) == followed


@with_model
def test_the_thread_makes_vectors_of_what_is_written_and_ends_with_the_index(tmp_path: Path) -> None:
    setup = VectorSetup(tmp_path)
    setup.write(memory("a", "note", said=CAT))
    setup.index.start()
    # Written while the thread may be anywhere.
    setup.write(memory("b", "note", said=CAT))
    while len(setup.found(CAT_SAID_OTHERWISE)) < 2:
        setup.worker.notify()
    setup.close()
    assert setup.index._thread is not None
    assert not setup.index._thread.is_alive()


def test_nobody_imports_numpy_before_the_one_who_loads_the_model(tmp_path: Path) -> None:
    """Two threads that import it at once fail, or end the process."""
    script = """
import sys
from pathlib import Path
from tallystick.extensions.vectors.index import model
from tests.extensions.vectors.test_vectors import VectorSetup

def loaded():
    assert "numpy" not in sys.modules
    print("asked for the model first")
    raise SystemExit

model.loaded = loaded
VectorSetup(Path(sys.argv[1])).index._search("words", None, ("node",), None, 1)
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout == "asked for the model first\n"


def test_who_is_closed_while_it_finds_that_nothing_waits_ends_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = VectorSetup(tmp_path)
    closer = threading.Thread(target=setup.index.close, daemon=True)

    def none_waits_and_somebody_closes() -> int:
        closer.start()
        wait_until(setup.projection.has_waiting.is_set)
        setup.projection.has_waiting.clear()
        return 0

    monkeypatch.setattr(setup.index, "embed_waiting", none_waits_and_somebody_closes)
    setup.index.start()
    wait_until(lambda: not closer.is_alive())
    setup.close()


# -- one order


def _hits(*scored: tuple[str, float]) -> list[Hit]:
    return [Hit(entity, "node", score) for entity, score in scored]


def test_words_weigh_twice_as_much_as_vectors() -> None:
    found = fusion.fused(_hits(("w", 3.0), ("x", 2.0), ("both", 1.9)), _hits(("v", 0.9), ("both", 0.8)))
    assert [hit.id for hit in found] == ["both", "w", "x", "v"]
    assert all(0 < hit.score <= 1 for hit in found)
    assert sorted(found, key=lambda hit: -hit.score) == found


def test_what_words_put_far_ahead_stays_first() -> None:
    found = fusion.fused(_hits(("exact", 30.0), ("x", 10.0), ("y", 9.0)), _hits(("x", 0.9), ("v", 0.8)))
    assert [hit.id for hit in found] == ["exact", "x", "y", "v"]


def test_without_vectors_the_words_say_it_all() -> None:
    words = _hits(("a", 3.0), ("b", 1.0))
    assert fusion.fused(words, []) == words
    assert [hit.id for hit in fusion.fused([], _hits(("v", 0.9)))] == ["v"]
