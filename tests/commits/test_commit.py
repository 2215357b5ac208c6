"""What a commit says of itself."""

from __future__ import annotations

import msgspec
import pytest

from tallystick.commits import Commit
from tallystick.log import Head
from tests.commits_by_hand import draft, entries, node

PLAIN = entries(Head(), draft(node("a", pin=4)))[0].commit


@pytest.mark.parametrize(
    ("lamport", "batch", "group", "first"),
    [(7, None, None, 7), (7, (1, 3), None, 7), (7, (3, 3), None, 5), (7, None, 2, 2)],
)
def test_a_group_begins_with_its_first_draft(
    lamport: int, batch: tuple[int, int] | None, group: int | None, first: int
) -> None:
    commit: Commit = msgspec.structs.replace(PLAIN, lamport=lamport, batch=batch, group=group)
    assert commit.first_of_group() == first


def test_its_document_is_what_was_written_or_what_is_left_of_it() -> None:
    assert PLAIN.document() == {"id": "a", "type": "note", "attrs": {"pin": 4}}
    left: Commit = msgspec.structs.replace(PLAIN, payload=b'{"*0":{"pin":0},"id":"a","type":"note"}')
    assert left.document() == {"id": "a", "type": "note", "attrs": {"pin": "[REDACTED]"}}
