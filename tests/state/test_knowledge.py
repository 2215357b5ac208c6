"""The catalogue of knowledge follows the graph: forwards, back, and whatever is in it."""

from __future__ import annotations

from collections import deque
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tallystick.commits import Verb
from tallystick.state.knowledge import ATOM, CHANGELOG, MOLECULE
from tallystick.state.knowledge.catalogue import Knowledge
from tests.promises import promise
from tests.state.logged_state import LoggedState


def seen(knowledge: Knowledge, project: str, path: str) -> set[str]:
    return knowledge.of_project(project).globs.match(path.split("/"))


def dump_state(knowledge: Knowledge) -> Any:
    """Everything it holds, in a form that can be compared."""
    by_project = {
        project: (
            of_project.molecules,
            of_project.atoms,
            {path: of_project.globs.match(path.split("/")) for path in PATHS},
            bool(of_project.globs),
        )
        for project, of_project in knowledge._by_project.items()
    }
    return knowledge.molecules, knowledge.atoms, by_project, knowledge._members, knowledge._entries


def test_an_atom_is_found_by_its_patterns_and_only_in_its_project() -> None:
    logged = LoggedState()
    knowledge = logged.state.derived(Knowledge)
    logged.node("a", ATOM, projectId="p", name="Pages", paths=["src/pages/**", "*.md"], moleculeId=None)
    logged.node("b", ATOM, projectId="q", name="Other", paths=["src/**"])
    assert seen(knowledge, "p", "src/pages/x.ts") == {"a"}
    assert seen(knowledge, "p", "README.md") == {"a"}
    assert seen(knowledge, "q", "src/pages/x.ts") == {"b"}
    assert seen(knowledge, "nowhere", "src/pages/x.ts") == set()


def test_new_patterns_take_the_place_of_the_old_and_undo_brings_them_back() -> None:
    logged = LoggedState()
    knowledge = logged.state.derived(Knowledge)
    logged.node("a", ATOM, projectId="p", name="A", paths=["old/**"])
    logged.node("a", ATOM, projectId="p", name="A", paths=["new/**"])
    assert (seen(knowledge, "p", "old/x"), seen(knowledge, "p", "new/x")) == (set(), {"a"})
    logged.undo(1)
    assert (seen(knowledge, "p", "old/x"), seen(knowledge, "p", "new/x")) == ({"a"}, set())
    logged.write(Verb.DELETE_NODE, {"node_id": "a"})
    assert seen(knowledge, "p", "old/x") == set()


def test_members_and_lists_are_in_the_order_of_their_names_in_any_case() -> None:
    logged = LoggedState()
    knowledge = logged.state.derived(Knowledge)
    logged.node("m", MOLECULE, projectId="p", name="Pages")
    for atom_id, name in (("3", "beta"), ("1", "Alpha"), ("4", "alpha"), ("2", "Gamma")):
        logged.node(atom_id, ATOM, projectId="p", name=name, paths=["x"], moleculeId="m")
    assert [atom.id for atom in knowledge.members("m")] == ["1", "4", "3", "2"]


def test_an_atom_whose_molecule_is_gone_is_an_orphan() -> None:
    logged = LoggedState()
    knowledge = logged.state.derived(Knowledge)
    logged.node("m", MOLECULE, projectId="p", name="Pages")
    logged.node("a", ATOM, projectId="p", name="A", paths=["x"], moleculeId="m")
    assert not knowledge.is_orphan(knowledge.atoms["a"])
    logged.write(Verb.DELETE_NODE, {"node_id": "m"})
    assert knowledge.is_orphan(knowledge.atoms["a"])


@promise("K12", "history is newest first even in one millisecond")
def test_changelogs_are_newest_first_even_in_one_millisecond() -> None:
    logged = LoggedState()
    knowledge = logged.state.derived(Knowledge)
    for entry in ("z", "a", "m"):
        logged.node(entry, CHANGELOG, parentType="atom", parentId="x", taskId="t", summary=entry, createdAt="now")
    logged.node("other", CHANGELOG, parentType="molecule", parentId="x", taskId="t", summary="", createdAt="now")
    assert knowledge.changelog("atom", "x") == ["m", "a", "z"]
    assert knowledge.changelog("molecule", "x") == ["other"]
    assert knowledge.changelog("atom", "nobody") == []


def test_what_makes_no_sense_counts_as_not_said() -> None:
    logged = LoggedState()
    knowledge = logged.state.derived(Knowledge)
    logged.node("a", ATOM, projectId=7, name=None, paths="src/**", moleculeId=[])
    logged.node("b", ATOM, projectId="p", name="B", paths=["[", 3, "../x", "good/**"])
    logged.node("m", MOLECULE)
    logged.node("c", CHANGELOG)
    assert (knowledge.atoms["a"].project, knowledge.atoms["a"].name, knowledge.atoms["a"].routes) == (None, "", ())
    assert seen(knowledge, "p", "good/x") == {"b"}
    logged.undo(4)
    assert dump_state(knowledge) == dump_state(Knowledge())


# -- the law

PATHS = ("a", "a/b", "b", "a/b/c")
IDS = st.sampled_from("uvwxyz")
ATOMS = st.fixed_dictionaries(
    {
        "projectId": st.sampled_from("pq"),
        "name": st.sampled_from(["One", "one", "Two"]),
        "paths": st.lists(st.sampled_from(["a/**", "*", "a/b", "**/c", "{a,b}", "["]), max_size=3),
        "moleculeId": st.none() | IDS,
    }
)
MOLECULES = st.fixed_dictionaries({"projectId": st.sampled_from("pq"), "name": st.sampled_from(["M", "m"])})
ENTRIES = st.fixed_dictionaries({"parentType": st.sampled_from(["atom", "molecule"]), "parentId": IDS})
CHANGES: st.SearchStrategy[tuple[str, str, dict[str, Any]]] = st.one_of(
    st.tuples(st.just(ATOM), IDS, ATOMS),
    st.tuples(st.just(MOLECULE), IDS, MOLECULES),
    st.tuples(st.just(CHANGELOG), IDS, ENTRIES),
    st.tuples(st.just("delete"), IDS, st.just({})),
)


def change(logged: LoggedState, kind: str, node_id: str, attrs: dict[str, Any]) -> None:
    if kind != "delete":
        logged.node(node_id, kind, **attrs)
    elif logged.state.owner(node_id) is not None:
        logged.write(Verb.DELETE_NODE, {"node_id": node_id})


@promise("globs, state", "the catalogue that was kept up to date equals one built now")
@given(st.lists(CHANGES, max_size=12), st.data())
def test_a_catalogue_kept_up_to_date_equals_one_built_now(
    changes: list[tuple[str, str, dict[str, Any]]], data: st.DataObject
) -> None:
    logged = LoggedState()
    logged.state.derived(Knowledge)
    for each in changes:
        change(logged, *each)
    assert dump_state(logged.state.derived(Knowledge)) == dump_state(logged.replayed().derived(Knowledge))
    logged.undo(data.draw(st.integers(0, logged.state.count)))
    assert dump_state(logged.state.derived(Knowledge)) == dump_state(logged.replayed().derived(Knowledge))


@given(st.lists(CHANGES, max_size=12))
def test_a_catalogue_that_was_stored_can_be_changed_like_the_one_it_was_stored_from(
    changes: list[tuple[str, str, dict[str, Any]]],
) -> None:
    logged = LoggedState()
    for each in changes:
        change(logged, *each)
    stored = logged.state.derived(Knowledge).dump()
    loaded = Knowledge()
    deque(loaded.load(memoryview(stored)), 0)
    assert dump_state(loaded) == dump_state(logged.state.derived(Knowledge))
    for handle in logged.state._derived_indexes._members(Knowledge):
        loaded.node_changed(logged.state._derived_indexes._node(handle, logged.state.count), None)
    assert dump_state(loaded) == dump_state(Knowledge())
