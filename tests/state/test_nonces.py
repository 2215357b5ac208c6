from __future__ import annotations

import pytest

from tallystick.commits import Verb
from tallystick.state import nonces
from tests.state.book import HOUR, Book
from tests.state.portrait import portrait

DAY = 24 * HOUR


def write(book: Book, nonce: str | None, actor: str = "ann") -> str:
    payload = {"id": "a", "type": "note", "attrs": {"number": book.state.count}}
    return book.write(Verb.UPSERT_NODE, payload, nonce=nonce, actor=actor).commit_id


def test_a_nonce_leads_to_its_commit_for_the_actor_who_used_it() -> None:
    book = Book()
    written = write(book, "n", "ann")
    found = book.state.nonce("ann", "n")
    assert found is not None
    assert found.commit_id == written
    assert book.state.nonce("bob", "n") is None
    assert book.state.nonce("an", "nn") is None


def test_a_nonce_is_known_for_seven_days_of_the_log() -> None:
    book = Book()
    write(book, "n")
    book.now += 7 * DAY
    write(book, None)
    assert book.state.nonce("ann", "n") is not None
    book.now += 1
    write(book, None)
    assert book.state.nonce("ann", "n") is None
    book.undo(1)
    assert book.state.nonce("ann", "n") is not None


def test_a_nonce_used_again_after_its_time_leads_to_the_newer_commit_until_that_is_undone() -> None:
    book = Book()
    write(book, "n")
    before = portrait(book.state)
    book.now += 8 * DAY
    again = write(book, "n")
    found = book.state.nonce("ann", "n")
    assert found is not None
    assert found.commit_id == again
    book.undo(1)
    assert portrait(book.state) == before


def test_old_nonces_leave_memory_some_commits_after_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nonces, "LAG", 4)
    book = Book()
    for number in range(3):
        write(book, f"old {number}")
    book.now += 8 * DAY
    kept = book.state._columns.nonces.seqs
    for number in range(4):
        write(book, f"new {number}")
    assert len(kept) == 7
    for number in range(4, 10):
        write(book, f"new {number}")
    assert len(kept) == 10
    assert book.state.nonce("ann", "new 0") is not None
