"""graph_open: listing, opening and creating projects."""

from __future__ import annotations

import re

from tallystick.commits import Draft, Operation, Verb
from tallystick.policy import Action, Principal
from tallystick.state.work import NODE, PROJECT
from tallystick.state.work.graph import WorkGraph
from tests.promises import promise
from tests.toolsets.work.agents import WorkAgent, working


@promise("graph_open", "without arguments all projects are listed")
def test_without_arguments_all_projects_are_listed_with_their_counts(agent: WorkAgent) -> None:
    ids = agent.plan({"ref": "a"}, {"ref": "b"})
    agent.open("q")
    agent.resolve(ids["a"])
    listed = agent.call("graph_open")["projects"]
    assert [project["project"] for project in listed] == ["p", "q"]
    first = listed[0]
    assert first | {"id": "", "updated_at": ""} == {
        "id": "",
        "project": "p",
        "summary": "Ship it",
        "total": 3,
        "resolved": 1,
        "unresolved": 2,
        "updated_at": "",
    }
    assert first["updated_at"] == agent.node(ids["a"])["updated_at"]


def test_no_project_is_an_empty_list() -> None:
    with working() as agent:
        assert agent.call("graph_open") == {"projects": []}


@promise("graph_open, new", "a new project has a root with its goal")
def test_a_new_project_has_a_root_with_its_goal_and_is_open_to_work() -> None:
    with working() as agent:
        told = agent.call("graph_open", project="swimlanes", goal="Draw lanes")
        assert told["created"] is True
        assert told["project"] == "swimlanes"
        root = told["root"]
        assert root == {
            "id": root["id"],
            "rev": 1,
            "parent": None,
            "summary": "Draw lanes",
            "resolved": False,
            "properties": {},
            "context_links": [],
            "evidence": [],
            "created_at": "2026-02-10T12:00:01.000Z",
            "updated_at": "2026-02-10T12:00:01.000Z",
            "created_by": "ann",
        }
        assert told["summary"] == {"total": 1, "resolved": 0, "unresolved": 1, "blocked": 0, "actionable": 1}


def test_a_project_without_a_goal_is_called_by_its_name() -> None:
    with working() as agent:
        assert agent.call("graph_open", project="swimlanes")["root"]["summary"] == "swimlanes"


def test_opening_again_changes_nothing_and_says_that_the_goal_was_not_used(agent: WorkAgent) -> None:
    before = agent.log.head()
    again = agent.call("graph_open", project="p", goal="Something else")
    assert again["root"]["summary"] == "Ship it"
    assert again["warnings"] == ["the project exists: 'goal' is used for a new one only"]
    assert "created" not in again
    assert agent.log.head() == before


@promise("W3", "a project is opened by its name or its root's id")
def test_a_project_is_also_opened_by_the_id_of_its_root(agent: WorkAgent) -> None:
    root = agent.open("p")
    assert agent.call("graph_open", project=root)["project"] == "p"
    assert agent.call("graph_query", project=root)["total"] == 1


@promise("graph_open, spelling", "a project is found in any case and with spaces around")
def test_a_project_is_found_in_any_case_and_with_spaces_around(agent: WorkAgent) -> None:
    root = agent.open("Café Shop")
    before = agent.log.head()
    for name in ("café shop", "  CAFÉ SHOP ", "Cafe\u0301 shop", "Café Shop\t".strip()):
        told = agent.call("graph_open", project=name)
        assert (told["project"], told["root"]["id"], told.get("created")) == ("Café Shop", root, None)
        assert (
            agent.call("graph_query", project=name)["nodes"] == agent.call("graph_query", project="Café Shop")["nodes"]
        )
    assert agent.log.head() == before
    assert agent.call("graph_open", project="  New one ")["project"] == "New one"


def test_of_projects_that_differ_only_in_spelling_the_one_that_is_spelt_so_is_meant(agent: WorkAgent) -> None:
    """Such as were made before names were compared so."""
    roots = {}
    for name in ("Alpha", "alpha"):
        roots[name] = name.swapcase() + "Root"
        project = {"id": f"{name}-id", "type": "work/project", "attrs": {"name": name, "root": roots[name]}}
        root = {"id": roots[name], "type": "work/node", "attrs": {"project": f"{name}-id", "summary": name}}
        operations = tuple(Operation(Verb.UPSERT_NODE, payload) for payload in (project, root))
        put(agent, operations)
    for name, root_id in roots.items():
        assert agent.call("graph_open", project=name)["root"]["id"] == root_id
    for tool in ("graph_open", "graph_next"):
        refusal = agent.refusal(tool, project=" ALPHA")
        assert (refusal["error"], refusal["projects"]) == ("name_ambiguous", ["Alpha", "alpha"])


def put(agent: WorkAgent, operations: tuple[Operation, ...]) -> None:
    draft = Draft(operations, actor="ann", tool="import")
    agent.run(agent.store.write(Principal(actor="ann"), Action.WRITE, lambda state, read_filter: draft))


@promise("X2", "a project is one entity with a UUID")
def test_a_project_is_one_entity_with_a_uuid_for_its_id(agent: WorkAgent) -> None:
    state = agent.partition._state
    (board,) = state.derived(WorkGraph).projects()
    assert re.fullmatch("[0-9a-f]{32}", board.id)
    project = state.node(board.id)
    assert project is not None
    assert (project.type, project.attrs) == (PROJECT, {"name": "p", "root": board.root, "summary": "Ship it"})
    assert state.owner(str(board.root)) == (NODE, "ann")


@promise("W6", "blocked counts non-leaves too")
def test_blocked_counts_every_unresolved_node_with_an_unresolved_dependency_leaf_or_not(agent: WorkAgent) -> None:
    agent.plan(
        {"ref": "first"},
        {"ref": "part", "depends_on": ["first"]},
        {"ref": "leaf", "parent_ref": "part", "depends_on": ["first"]},
        {"ref": "free", "parent_ref": "part"},
    )
    assert agent.counts() == {"total": 5, "resolved": 0, "unresolved": 5, "blocked": 2, "actionable": 2}


def test_agents_who_create_the_same_project_at_once_get_the_same_one() -> None:
    with working() as agent:
        calls = [(actor, "graph_open", {"project": "p"}) for actor in ("ann", "bob", "cyd")]
        told = agent.together(calls)
        assert len({each["root"]["id"] for each in told}) == 1
        assert [each.get("created", False) for each in told].count(True) == 1
        assert len(agent.call("graph_open")["projects"]) == 1


@promise("W51", "ids are short")
def test_ids_are_short_and_never_look_like_numbers(agent: WorkAgent) -> None:
    ids = agent.plan(*({"ref": str(number)} for number in range(200)))
    assert all(re.fullmatch("[A-Za-z][A-Za-z0-9]{9}", node_id) for node_id in ids.values())
    assert len(set(ids.values())) == 200


def test_mistakes_are_named(agent: WorkAgent) -> None:
    for asked, sentence in (
        ({"goal": "x"}, "field 'goal' needs 'project', the name of the project to create"),
        ({"project": ""}, "field 'project' must have at least 1 character"),
        ({"project": "  "}, "field 'project' must not be blank"),
        ({"project": "q", "goal": " "}, "field 'goal' must not be blank"),
        ({"project": 5}, "field 'project' must be a string"),
        ({"name": "q"}, "field 'name' is not allowed"),
    ):
        told = agent.refusal("graph_open", **asked)
        assert (told["error"], told["message"]) == ("validation_error", sentence)
