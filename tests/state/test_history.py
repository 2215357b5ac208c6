from __future__ import annotations

import pytest

from tallystick.state import history
from tallystick.state.history import CommitIds, Lamports


def test_ids_with_the_same_beginning_are_all_candidates_newest_block_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "BLOCK", 4)
    monkeypatch.setattr(history, "FIRST", 1)
    ids = CommitIds()
    for tail in range(6):
        ids.add("0000abcd" + f"{tail:056x}")
    ids.add("0000abce" + "0" * 56)
    assert sorted(ids.candidates("0000abcd" + "f" * 56)) == [1, 2, 3, 4, 5, 6]
    assert list(ids.candidates("0000abce" + "f" * 56)) == [7]
    assert list(ids.candidates("ffffffff" + "f" * 56)) == []


def test_what_was_added_last_can_be_taken_out_until_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "BLOCK", 4)
    monkeypatch.setattr(history, "FIRST", 1)
    ids = CommitIds()
    for _ in range(9):
        ids.add("00000007" + "0" * 56)
    for left in range(8, -1, -1):
        ids.pop()
        assert sorted(ids.candidates("00000007" + "0" * 56)) == list(range(1, left + 1))
    assert ids.blocks == []


def test_the_tables_of_ids_are_small_at_first_and_of_one_size_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "FIRST", 2)
    monkeypatch.setattr(history, "BLOCK", 8)
    ids = CommitIds()
    for number in range(40):
        assert [len(block) for block in ids.blocks] == history.block_sizes(number)
        ids.add(f"{number:064x}")
    assert [len(block) for block in ids.blocks] == [4, 4, 8, 16, 16, 16, 16]
    assert all(sum(map(bool, block)) * 2 == len(block) for block in ids.blocks)


def test_a_lamport_that_was_skipped_stands_for_the_commit_before_it() -> None:
    lamports = Lamports()
    for seq, lamport in enumerate([3, 4, 5, 9, 10, 20], 1):
        lamports.add(lamport, seq)
    asked = {0: 0, 2: 0, 3: 1, 5: 3, 6: 3, 8: 3, 9: 4, 10: 5, 19: 5, 20: 6, 99: 6}
    assert {lamport: lamports.seq(lamport, 6) for lamport in asked} == asked
    assert lamports.starts == [3, 9, 20]
