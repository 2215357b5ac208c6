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


ORIGIN = {"from": "mem0", "id": "m1", "author": "ann", "created": "2025", "updated": "2026", "hash": "00"}


@pytest.mark.parametrize(
    ("attrs", "left"),
    [
        ({"text": "a", "imported": ORIGIN}, {"text": "a", "imported": {"id": "m1", "author": "ann"}}),
        ({"text": "m1", "imported": ORIGIN}, {"text": "m1", "imported": {"author": "ann"}}),
        ({"text": "a", "imported": {"from": "mem0", "hash": "00"}}, {"text": "a"}),
        ({"imported": {"from": "mem0", "id": "m1"}}, {"imported": {"from": "mem0", "id": "m1"}}),
        ({"imported": {"hash": "00", "id": "m1"}}, {"imported": {"hash": "00", "id": "m1"}}),
        ({"imported": "from mem0"}, {"imported": "from mem0"}),
        ({"imported": ORIGIN, "verified": "2026"}, {"imported": {"id": "m1", "author": "ann"}, "cites": []}),
    ],
)
def test_of_an_import_only_what_says_something_of_the_fact_is_left(attrs: dict[str, Any], left: dict[str, Any]) -> None:
    assert said(attrs) == left
