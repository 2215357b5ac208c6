from __future__ import annotations

import pytest

from tallystick.commits.payloads import edge_name, edge_triple, name_of_edge, read_edge, read_node

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


def test_half_an_escape_at_the_end_of_a_name_says_nothing() -> None:
    assert edge_triple("a|b|c\\") == ("a", "b", "c")


def test_large_numbers_come_back_as_what_they_were_written_from() -> None:
    for read in (
        read_node(b'{"attrs":{"n":150000000000000000000},"id":"a","type":"t"}'),
        read_edge(b'{"attrs":{"n":150000000000000000000},"from":"a","rel":"r","to":"b"}'),
    ):
        assert (read.attrs, type(read.attrs["n"])) == ({"n": 1.5e20}, float)


def test_what_a_redaction_abridged_is_read_whole() -> None:
    assert read_node(b'{"*0":{"pin":0},"id":"a","type":"t"}').attrs == {"pin": "[REDACTED]"}
    edge = read_edge(b'{"*0":{"pin":0},"from":"a","rel":"r","to":"b"}')
    assert (edge.attrs, edge.name) == ({"pin": "[REDACTED]"}, "a|r|b")


@pytest.mark.parametrize(
    ("chosen", "name"), [({}, "a|r|b"), ({"id": None}, "a|r|b"), ({"id": ""}, ""), ({"id": "e1"}, "e1")]
)
def test_an_edge_is_called_as_its_author_chose(chosen: dict[str, str | None], name: str) -> None:
    assert name_of_edge({"from": "a", "rel": "r", "to": "b"} | chosen) == name
