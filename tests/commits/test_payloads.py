from __future__ import annotations

import pytest

from tallystick.commits.payloads import edge_name, edge_triple

TRIPLES = [
    ("a", "r", "b"),
    ("a|b", "r", "c"),
    ("a", "|", "\\"),
    ("a\\", "\\|r", "b|\\"),
    ("", "", ""),
    ("ä", "ist", "ß"),
]


@pytest.mark.parametrize("triple", TRIPLES)
def test_the_name_of_an_edge_leads_back_to_it(triple: tuple[str, str, str]) -> None:
    assert edge_triple(edge_name(*triple)) == triple


def test_different_edges_have_different_names() -> None:
    assert len({edge_name(*triple) for triple in TRIPLES}) == len(TRIPLES)


@pytest.mark.parametrize("name", ["", "a", "a|b", "a|b|c|d", "a\\|b|c"])
def test_what_is_no_name_of_an_edge_leads_nowhere(name: str) -> None:
    assert edge_triple(name) is None
