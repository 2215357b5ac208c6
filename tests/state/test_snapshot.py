"""Snapshots; that they come back as they were is a law (tests/laws)."""

from __future__ import annotations

import pytest

from tallystick.state import Condition, Query, snapshot
from tallystick.state.state import State
from tests.state.book import Book, drive
from tests.state.portrait import portrait


@pytest.fixture(scope="module")
def book() -> Book:
    book = Book()
    for number in range(300):
        book.node(f"n{number}", rank=number, even=number % 2 == 0, tag=f"t{number % 7}", text="long " * 40)
    for number in range(299):
        book.edge(f"n{number}", "next", f"n{number + 1}")
    book.edge("n0", "loop", "n0", id="mine")
    book.node("n0", actor="bob")
    book.delete("n7")
    return book


def test_a_snapshot_in_many_pages_is_read_back(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "_PAGE", 10)
    loaded = State.load(b"".join(book.state.dump()), book.line)
    assert portrait(loaded) == portrait(book.state)
    assert loaded.node("n5") == book.state.node("n5")
    assert drive(loaded.search(Query(conditions=(Condition("rank", "lt", 20),)))).total == 18


def test_a_snapshot_of_nothing_is_a_state_of_nothing() -> None:
    book = Book()
    assert portrait(State.load(b"".join(book.state.dump()), book.line)) == portrait(book.state)


def test_a_snapshot_holds_no_documents(book: Book) -> None:
    assert b"long long" not in b"".join(book.state.dump())


def test_anything_but_a_whole_snapshot_is_refused(book: Book) -> None:
    data = b"".join(book.state.dump())
    wrong = [b"", b"no snapshot", data[:100], data[:-1], data + b"x", data[1:]]
    wrong += [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(0, len(data), len(data) // 97)]
    for each in wrong:
        with pytest.raises(ValueError):
            State.load(each, book.line)


def test_a_snapshot_of_another_format_is_refused(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(book.state.dump())
    monkeypatch.setattr(snapshot, "FORMAT", snapshot.FORMAT + 1)
    with pytest.raises(ValueError, match="format"):
        State.load(data, book.line)
