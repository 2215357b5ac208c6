"""Whether a fact still holds: the rule, and what may be written of it (X24)."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.clock import from_text
from tallystick.state.staleness import Citation, Stale, is_path, judge
from tests.promises import promise

NOON = "2026-01-01T12:00:00Z"
ONE = "2026-01-01T13:00:00Z"
TWO = "2026-01-01T14:00:00Z"


def judged(attrs: dict[str, Any], now: str, **more: Any) -> Stale | None:
    return judge(attrs, from_text(now), more.get("superseded"), more.get("changed", ()))


@promise("X24, time", "a fact past its stale_after is stale, unless it was verified later")
@pytest.mark.parametrize(
    ("attrs", "now", "is_stale"),
    [
        ({}, TWO, False),
        ({"stale_after": ONE}, NOON, False),
        ({"stale_after": ONE}, ONE, False),
        ({"stale_after": ONE}, TWO, True),
        ({"stale_after": "2026-01-01"}, NOON, True),
        ({"stale_after": "2026-01-01T15:00:00+02:00"}, ONE, False),
        ({"stale_after": "2026-01-01T15:00:00+03:00"}, ONE, True),
        ({"stale_after": NOON, "verified": {"by": "a", "at": ONE}}, TWO, False),
        ({"stale_after": ONE, "verified": {"by": "a", "at": ONE}}, TWO, True),
        ({"stale_after": ONE, "verified": {"by": "a", "at": NOON}}, TWO, True),
        ({"stale_after": ONE, "verified": True}, TWO, True),
        ({"stale_after": "[REDACTED]"}, TWO, False),
        ({"stale_after": NOON, "verified": "[REDACTED]"}, TWO, True),
        ({"stale_after": NOON, "verified": {"by": "a", "at": "[REDACTED]"}}, TWO, True),
        ({"stale_after": ["2020-01-01"]}, TWO, False),
        ({"stale_after": "9999-99-99"}, TWO, False),
        ({"stale_after": 7}, TWO, False),
    ],
)
def test_a_fact_is_stale_past_its_time_unless_it_was_verified_later(
    attrs: dict[str, Any], now: str, is_stale: bool
) -> None:
    assert (judged(attrs, now) is not None) is is_stale


def test_it_says_since_when_in_one_form() -> None:
    assert judged({"stale_after": "2026-01-01"}, NOON) == Stale("past its time", "2026-01-01T00:00:00.000Z")


def test_several_reasons_are_told_together_with_the_earliest_time() -> None:
    cited = {"path": "a.py", "hash": "0" * 40, "at": NOON}
    found = judged({"stale_after": ONE, "cites": [cited, "b.py"]}, TWO, superseded=("b", TWO), changed=("a.py",))
    assert found == Stale("superseded, past its time, cited files changed", NOON, "b", ("a.py",))


@pytest.mark.parametrize("path", ["a.py", "src/a b/ä.ts", "pages/[id].tsx", "..a/b..", ".hidden/x", "@types/x.d.ts"])
def test_a_path_in_the_repository(path: str) -> None:
    assert is_path(path)


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../a", "a/../b", "a/..", "./a", "a//b", "a/", "C:\\x", "C:/x", "a\\b", "a\0", "a\nb"]
)
def test_what_is_no_path_in_the_repository(path: str) -> None:
    assert not is_path(path)


def test_citations_are_told_apart_by_all_they_say() -> None:
    assert Citation("a", "1", NOON) != Citation("a", "1", NOON, commit="c")
