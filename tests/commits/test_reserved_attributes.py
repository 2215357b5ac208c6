"""The attributes that mean the same in every vocabulary."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.commits.reserved_attributes import cited_paths, said


@pytest.mark.parametrize(
    ("cites", "paths"),
    [
        (["a.py", {"path": "b.py", "sha256": "00"}], ["a.py", "b.py"]),
        ([7, None, {}, {"path": 7}, "c.py"], ["c.py"]),
        ("a.py", []),
        (None, []),
    ],
)
def test_cited_files_are_those_that_are_named(cites: Any, paths: list[str]) -> None:
    assert cited_paths({"cites": cites}) == paths


def test_what_is_said_of_a_fact_is_no_part_of_it_but_the_files_are() -> None:
    plain = {"text": "a"}
    assert said(plain) is plain
    assert said(plain | {"verified": "2026-01-01"}) == plain | {"cites": []}
    assert said(plain | {"cites": [{"path": "b.py"}], "supersedes": "x", "stale_after": "2027"}) == plain | {
        "cites": ["b.py"]
    }
