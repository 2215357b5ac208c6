"""Which types, keys and relations there are: counted without a scan, and like a naive count."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tallystick.state.facets import Facets
from tallystick.state.read_filter import ReadFilter
from tallystick.system.turns import finished
from tests.state.logged_state import LoggedState


def facets(logged: LoggedState, node_type: str | None = None, most: int = 50, hidden: str = "") -> Facets:
    may_read = (lambda name, owner: owner is not None and owner[1] != hidden) if hidden else None
    return finished(logged.state.facets(ReadFilter(logged.state, may_read), node_type, most))


def table(found: list[Any]) -> dict[str, tuple[int | None, Any]]:
    return {each.name: (each.count, each.example) for each in found}


def test_types_keys_and_relations_are_counted_with_their_newest_example() -> None:
    logged = LoggedState()
    logged.node("a", "note", title="one", home={"city": "Oslo"}, tags=["x", "y"])
    logged.node("b", "note", title="t" * 300)
    logged.node("c", "task", title="three", done=False)
    logged.edge("a", "leads_to", "b")
    logged.edge("b", "leads_to", "a", id="chosen")
    logged.edge("a", "needs", "b")
    logged.edge("a", "needs", "c")
    logged.delete("c")
    found = facets(logged)
    assert table(found.types) == {"note": (2, "b")}
    assert table(found.attributes) == {"title": (2, "t" * 300), "home.city": (1, "Oslo"), "tags": (1, "x")}
    assert table(found.relations) == {"leads_to": (2, "chosen"), "needs": (1, "a|needs|b")}


def test_of_one_type_its_own_keys_and_what_leaves_it_are_counted() -> None:
    logged = LoggedState()
    logged.node("a", "note", title="one")
    logged.node("c", "task", title="three", status="open")
    logged.edge("a", "needs", "c")
    logged.edge("c", "belongs_to", "a")
    found = facets(logged, "task")
    assert [list(table(each)) for each in (found.types, found.attributes, found.relations)] == [
        ["task"],
        ["title", "status"],
        ["belongs_to"],
    ]


def test_the_rarest_are_left_out_and_that_is_said() -> None:
    logged = LoggedState()
    for number in range(4):
        attrs: dict[str, Any] = {f"k{number}": 1, "common": 1}
        logged.node(str(number), **attrs)
    found = facets(logged, most=2)
    assert (len(found.attributes), found.attributes[0].name, found.omitted) == (2, "common", 3)


def test_where_something_may_be_withheld_there_are_no_counts_and_nothing_of_it() -> None:
    logged = LoggedState()
    logged.node("a", "note", title="mine")
    logged.node("b", "note", actor="hider", title="hers", secret=1)
    logged.node("c", "secret", actor="hider")
    logged.edge("a", "knows", "b")
    logged.edge("a", "likes", "a")
    found = facets(logged, hidden="hider")
    assert table(found.types) == {"note": (None, "a")}
    assert table(found.attributes) == {"title": (None, "mine")}
    assert table(found.relations) == {"likes": (None, "a|likes|a")}
    assert found.omitted == 0


def test_relations_go_on_being_counted_after_the_first_question() -> None:
    logged = LoggedState()
    for name in "abc":
        logged.node(name)
    logged.edge("a", "likes", "b")
    assert table(facets(logged).relations) == {"likes": (1, "a|likes|b")}
    logged.edge("b", "likes", "c")
    logged.edge("b", "needs", "c")
    logged.delete_edge("a", "likes", "b")
    assert table(facets(logged).relations) == {"likes": (1, "b|likes|c"), "needs": (1, "b|needs|c")}
    logged.undo(1)
    assert table(facets(logged).relations) == {"likes": (2, "b|likes|c"), "needs": (1, "b|needs|c")}
    logged.undo(2)
    assert table(facets(logged).relations) == {"likes": (1, "a|likes|b")}
    logged.edge("c", "needs", "a")
    logged.delete_edge("a", "likes", "b")
    assert table(facets(logged).relations) == {"needs": (1, "c|needs|a")}
    assert list(finished(logged.state.edges_of_relation("needs"))) == [("c", "needs", "a")]


_Written = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(["note", "task"]), st.sampled_from(["x", "y.z", "t"])),
    max_size=12,
)


@given(
    _Written, st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("rs"), st.sampled_from("abcd")), max_size=8)
)
def test_counts_are_those_of_a_look_at_everything(nodes: list[Any], edges: list[Any]) -> None:
    logged = LoggedState()
    for node_id, kind, key in nodes:
        logged.node(node_id, kind, **{key: node_id})
    for source, rel, target in edges:
        if {source, target} <= {node_id for node_id, _, _ in nodes}:
            logged.edge(source, rel, target)
    now = {node_id: (kind, key) for node_id, kind, key in nodes}
    kinds, keys = [kind for kind, _ in now.values()], [key for _, key in now.values()]
    rels = [rel for source, rel, target in set(edges) if source in now and target in now]
    found = facets(logged)
    for listed, told in ((found.types, kinds), (found.attributes, keys), (found.relations, rels)):
        assert {each.name: each.count for each in listed} == {name: told.count(name) for name in told}
