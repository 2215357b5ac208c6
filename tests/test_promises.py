"""The promises of the specs are made once each, and on tests."""

from __future__ import annotations

from tests.promises import promises


def test_no_promise_is_listed_twice() -> None:
    ids = [each.id for each in promises()]
    assert len(set(ids)) == len(ids)


def test_each_promise_is_shown_by_a_test() -> None:
    made = promises()
    assert [each.id for each in made if "::test_" not in each.test] == []
    assert len(made) > 900, "there are promises"
