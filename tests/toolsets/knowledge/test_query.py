"""query_graph get and search: one entity with its history, or those that hold a text, in pages."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from tallystick.commits import Operation, Verb
from tallystick.projections.log_reader import LogReader
from tallystick.projections.text import TextIndex
from tallystick.projections.text.projection import TextProjection
from tallystick.projections.worker import ProjectionWorker
from tallystick.server.dispatch import Done, OfferedTool, call
from tallystick.state.read_filter import ReadFilter
from tallystick.toolsets.knowledge.arguments import QueryArguments
from tallystick.toolsets.knowledge.path_context import drained
from tallystick.toolsets.knowledge.query import _found
from tallystick.toolsets.knowledge.view import View
from tests.promises import promise
from tests.toolsets.knowledge.agents import OTHER, SHOP, KnowledgeAgent, keeping

NOBODY = "f" * 32


# -- get


@promise("knowledge, get", "an atom comes with its newest history")
def test_an_atom_comes_with_its_newest_history(agent: KnowledgeAgent) -> None:
    atom = agent.atom()
    entries = [agent.append(atom, f"change {number}") for number in range(7)]
    found = agent.get(atom)
    assert set(found) == {"atom", "changelog"}
    assert found["changelog"] == [
        {"id": entry["id"], "taskId": entry["taskId"], "summary": entry["summary"], "createdAt": entry["createdAt"]}
        for entry in reversed(entries[2:])
    ]


@promise("K40, X17", "numbers, booleans and arrays may be texts")
@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ({"changelogLimit": 2}, 2),
        ({"changelogLimit": "3"}, 3),
        ({"changelogLimit": 0}, 0),
        ({"changelogLimit": -4}, 0),
        ({"changelogLimit": 500}, 6),
        ({"includeChangelog": True}, 5),
        ({"includeChangelog": "true"}, 5),
        ({"includeChangelog": None}, 5),
    ],
)
def test_as_much_history_is_shown_as_was_asked_for(agent: KnowledgeAgent, asked: dict[str, Any], shown: int) -> None:
    atom = agent.atom()
    for number in range(6):
        agent.append(atom, f"change {number}")
    assert len(agent.get(atom, **asked)["changelog"]) == shown


def test_history_can_be_left_out(agent: KnowledgeAgent) -> None:
    molecule = agent.molecule()
    atom = agent.atom(moleculeId=molecule["id"])
    agent.append(atom, "made")
    assert set(agent.get(atom, includeChangelog=False)) == {"atom"}
    found = agent.get(molecule, includeChangelog="false")
    assert set(found) == {"molecule", "atoms"}
    assert "changelog" not in found["atoms"][0]
    [listed] = agent.query("search", entityType="atom", projectId=SHOP, includeChangelog=False)["items"]
    assert "changelog" not in listed
    [shown] = agent.context("src/checkout/a", includeChangelog=False)["molecules"]
    assert "changelog" not in shown
    assert "changelog" not in shown["atoms"][0]


@promise("K43", "a molecule comes with its atoms and their history")
def test_a_molecule_comes_with_its_atoms_by_name_and_their_history(agent: KnowledgeAgent) -> None:
    molecule = agent.molecule()
    agent.append(molecule, "grouped")
    atoms = [agent.atom(name, moleculeId=molecule["id"]) for name in ("beta", "Alpha", "gamma")]
    agent.append(atoms[0], "changed")
    agent.atom("elsewhere")
    found = agent.get(molecule)
    assert set(found) == {"molecule", "atoms", "changelog"}
    assert found["molecule"] == molecule
    assert [atom["name"] for atom in found["atoms"]] == ["Alpha", "beta", "gamma"]
    assert [[entry["summary"] for entry in atom["changelog"]] for atom in found["atoms"]] == [[], ["changed"], []]
    assert [entry["summary"] for entry in found["changelog"]] == ["grouped"]


@promise("K8", "relations are shown with the names of today")
@promise("K21", "relations outlive what they name")
def test_relations_are_shown_with_the_names_of_today(agent: KnowledgeAgent) -> None:
    other = agent.atom("Gateway")
    atom = agent.atom(relatedAtoms=[{"atomId": other["id"], "reason": "calls it"}])
    assert agent.get(atom)["atom"]["relatedAtoms"][0]["name"] == "Gateway"
    other = agent.update(other, name="Stripe Gateway")
    assert agent.get(atom)["atom"]["relatedAtoms"][0]["name"] == "Stripe Gateway"
    agent.delete(other)
    expected = [{"atomId": other["id"], "name": None, "reason": "calls it"}]
    assert agent.get(atom)["atom"]["relatedAtoms"] == expected
    molecule = agent.molecule(relatedMolecules=[{"moleculeId": NOBODY, "reason": "gone"}])
    expected = [{"moleculeId": NOBODY, "name": None, "reason": "gone"}]
    assert agent.get(molecule)["molecule"]["relatedMolecules"] == expected


def test_an_atom_as_large_as_it_may_be_is_read_whole(agent: KnowledgeAgent) -> None:
    related = [{"atomId": "é" * 100, "reason": "é" * 500}] * 50
    atom = agent.atom(knowledge='"' * 32_768, relatedAtoms=related)
    for number in range(5):
        agent.append(atom, f"{number}" + "é" * 2_000)
    said = {"operation": "get", "entityType": "atom", "id": atom["id"]}
    entry = OfferedTool(agent.toolset, agent.tools["query_graph"])
    outcome = agent.run(call(entry, said, agent.store, lambda: agent.principal))
    assert isinstance(outcome, Done)
    assert outcome.data["data"]["atom"] == atom


def test_a_molecule_with_too_many_atoms_says_how_many_are_left_out(agent: KnowledgeAgent) -> None:
    molecule = agent.molecule()
    for number in range(5):
        agent.atom(f"{number}", moleculeId=molecule["id"], knowledge="x" * 20_000)
    found = agent.get(molecule)
    assert ([atom["name"] for atom in found["atoms"]], found["atomsOmitted"]) == (["0", "1"], 3)
    assert "moleculeId" in found["hint"]


def test_what_was_erased_is_shown_as_far_as_it_makes_sense(agent: KnowledgeAgent) -> None:
    molecule = agent.molecule()
    atom = agent.atom(moleculeId=molecule["id"])
    attrs = {
        "projectId": SHOP,
        "name": 5,
        "paths": "gone",
        "knowledge": None,
        "relatedAtoms": [7],
        "moleculeId": molecule["id"],
    }
    agent.node(atom["id"], "knowledge/atom", **attrs)
    found = agent.get(atom)["atom"]
    assert (found["paths"], found["knowledge"], found["relatedAtoms"]) == ([], "", [])
    assert agent.get(molecule)["atoms"][0]["id"] == atom["id"]
    assert agent.update(found | {"version": 1}, name="again", paths=["a"])["name"] == "again"


# -- search


def names(found: dict[str, Any]) -> list[str]:
    return [item["name"] for item in found["items"]]


@pytest.fixture
def shelf(agent: KnowledgeAgent) -> KnowledgeAgent:
    pages = agent.molecule("Pages", knowledge="zustand stores")
    agent.molecule("api layer", knowledge="REST")
    agent.atom("Checkout", moleculeId=pages["id"], knowledge="Stripe checkout")
    agent.atom("profile", moleculeId=pages["id"], knowledge="avatars")
    agent.atom("Retry", knowledge="exponential backoff for STRIPE")
    agent.atom("Elsewhere", projectId=OTHER, knowledge="stripe")
    return agent


@promise("knowledge, search", "atoms and molecules are found by text, molecule and orphanhood")
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"entityType": "atom"}, ["Checkout", "profile", "Retry"]),
        ({"entityType": "atom", "query": "stripe"}, ["Checkout", "Retry"]),
        ({"entityType": "atom", "query": " PROFILE "}, ["profile"]),
        ({"entityType": "atom", "query": ""}, ["Checkout", "profile", "Retry"]),
        ({"entityType": "atom", "query": "nothing of the kind"}, []),
        ({"entityType": "atom", "orphansOnly": True}, ["Retry"]),
        ({"entityType": "atom", "orphansOnly": "true", "query": "checkout"}, []),
        ({"entityType": "atom", "orphansOnly": "false", "query": "avatar"}, ["profile"]),
        ({"entityType": "molecule"}, ["api layer", "Pages"]),
        ({"entityType": "molecule", "query": "ZUSTAND"}, ["Pages"]),
        ({"entityType": "molecule", "query": "layer"}, ["api layer"]),
        ({"entityType": "atom", "moleculeId": NOBODY}, []),
    ],
)
def test_a_search_finds_by_text_in_name_and_knowledge(
    shelf: KnowledgeAgent, asked: dict[str, Any], expected: list[str]
) -> None:
    found = shelf.query("search", projectId=SHOP, **asked)
    assert names(found) == expected
    assert (found["count"], found["total"], found["limit"], found["offset"]) == (len(expected), len(expected), 20, 0)


def test_a_search_finds_the_atoms_of_a_molecule(shelf: KnowledgeAgent) -> None:
    [pages] = shelf.query("search", projectId=SHOP, entityType="molecule", query="Pages")["items"]
    asked = {"projectId": SHOP, "entityType": "atom", "moleculeId": str(uuid.UUID(pages["id"]))}
    assert names(shelf.query("search", **asked)) == ["Checkout", "profile"]
    assert names(shelf.query("search", **asked, query="stripe")) == ["Checkout"]
    assert names(shelf.query("search", **asked | {"projectId": OTHER})) == []


@promise("K29", "a search comes in pages, its limit brought into bounds")
@pytest.mark.parametrize(
    ("asked", "expected", "limit", "offset", "further"),
    [
        ({"limit": 2}, ["0", "1"], 2, 0, 2),
        ({"limit": "2", "offset": "2"}, ["2", "3"], 2, 2, 4),
        ({"limit": 2, "offset": 4}, ["4"], 2, 4, None),
        ({"offset": 9}, [], 20, 9, None),
        ({"limit": 0}, ["0"], 1, 0, 1),
        ({"limit": -3}, ["0"], 1, 0, 1),
        ({"limit": 5_000}, ["0", "1", "2", "3", "4"], 100, 0, None),
        ({"limit": 2.0, "offset": -1}, ["0", "1"], 2, 0, 2),
    ],
)
def test_a_search_comes_in_pages(
    agent: KnowledgeAgent, asked: dict[str, Any], expected: list[str], limit: int, offset: int, further: int | None
) -> None:
    for number in range(5):
        agent.atom(str(number))
    found = agent.query("search", projectId=SHOP, entityType="atom", **asked)
    assert names(found) == expected
    assert (found["total"], found["limit"], found["offset"], found.get("nextOffset")) == (5, limit, offset, further)


def test_a_page_is_cut_where_it_would_be_too_long_and_says_where_to_go_on(agent: KnowledgeAgent) -> None:
    for number in range(6):
        agent.atom(str(number), knowledge="x" * 20_000)
    found = agent.query("search", projectId=SHOP, entityType="atom")
    assert (names(found), found["total"], found["nextOffset"]) == (["0", "1"], 6, 2)
    found = agent.query("search", projectId=SHOP, entityType="atom", offset=4)
    assert (names(found), found.get("nextOffset")) == (["4", "5"], None)


def test_an_atom_too_large_for_a_page_is_shortened_there(agent: KnowledgeAgent) -> None:
    related = [{"atomId": "a", "reason": "é" * 500}] * 50
    atom = agent.atom(knowledge="x" * 32_000, relatedAtoms=related)
    [item] = agent.query("search", projectId=SHOP, entityType="atom")["items"]
    assert item["knowledgeTruncated"] is True
    assert item["knowledge"] == atom["knowledge"][:12_500] + "…"
    assert (len(item["relatedAtoms"]), item["relatedAtomsOmitted"]) == (10, 40)


def test_the_text_index_finds_what_looking_through_everything_finds(tmp_path: Path) -> None:
    indexes: list[TextIndex] = []
    with keeping(text=lambda tenant: indexes[0]) as agent:
        log = LogReader(lambda: agent.log)
        texts = TextProjection(tmp_path, log.line)
        indexes.append(TextIndex(texts, ProjectionWorker(log, texts).catch_up))
        for number, said in enumerate(("Retry the Charge twice", "re-try", "日本語の請求", "RETRYING_NOW", "x" * 100)):
            agent.atom(f"Billing {number}", knowledge=said, paths=[f"src/retry/{number}.py"])
        agent.molecule("Retries", knowledge="How billing tries again")
        for kind in ("atom", "molecule"):
            for query in (
                "retry",
                "TRY",
                "ing 1",
                "e c",
                "請",
                "語の請",
                "x" * 60,
                "-",
                "y the",
                "nothing",
                "now",
                "5",
            ):
                asked = {"entityType": kind, "projectId": SHOP, "query": query}
                state = agent.partition._state
                plain = QueryArguments.model_validate({"operation": "search", **asked})
                expected = drained(_found(View(state, ReadFilter(state)), plain, SHOP, 50_000))
                assert names(agent.query("search", **asked)) == names(expected), query
        indexes[0].close()
        texts.close()


def test_what_is_written_while_a_search_goes_on_is_not_found_by_it(agent: KnowledgeAgent) -> None:
    atoms = [agent.atom(f"{number:03}", knowledge="sought") for number in range(60)]
    asked = {"operation": "search", "entityType": "atom", "projectId": SHOP, "query": "sought", "limit": 100}
    state = agent.partition._state
    answer = _found(View(state, ReadFilter(state)), QueryArguments.model_validate(asked), SHOP, 50_000)
    next(answer)
    agent.delete(atoms[-1])
    agent.update(atoms[-2], knowledge="something else")
    agent.atom("061", knowledge="sought")
    found = drained(answer)
    assert (found["total"], names(found)) == (60, [atom["name"] for atom in atoms])


@pytest.mark.parametrize("project", [{}, {"projectId": "Shopp"}])
def test_a_project_that_is_not_named_or_not_there_is_answered_with_where_to_find_it(
    agent: KnowledgeAgent, project: dict[str, str]
) -> None:
    for tool, asked in (
        ("query_graph", {"operation": "context", "paths": "a"}),
        ("query_graph", {"operation": "search", "entityType": "atom"}),
        ("manage_graph", {"operation": "create", "entityType": "molecule", "name": "Till"}),
    ):
        assert agent.refusal(tool, **asked, **project)["details"]["hint"] == (
            "projectId is a project's name or id: graph_open lists them and makes one"
        )


BAD_QUERIES: list[tuple[dict[str, Any], str, str]] = [
    (
        {"operation": "get"},
        "VALIDATION_ERROR",
        "entityType is required for get operation; id is required for get operation",
    ),
    ({"operation": "get", "entityType": "atom", "id": "x"}, "VALIDATION_ERROR", "field 'id' must be a UUID"),
    ({"operation": "get", "entityType": "atom", "id": 7}, "VALIDATION_ERROR", "field 'id' must be a UUID"),
    ({"operation": "get", "entityType": "atom", "id": NOBODY}, "NOT_FOUND", f"there is no atom '{NOBODY}'"),
    (
        {"operation": "get", "entityType": "quark", "id": NOBODY},
        "VALIDATION_ERROR",
        "field 'entityType' must be 'atom' or 'molecule'",
    ),
    (
        {"operation": "search"},
        "VALIDATION_ERROR",
        "entityType is required for search operation; projectId is required for search operation",
    ),
    (
        {"operation": "search", "entityType": "atom", "projectId": NOBODY},
        "NOT_FOUND",
        f"there is no project '{NOBODY}'",
    ),
    (
        {"operation": "search", "entityType": "atom", "projectId": SHOP, "moleculeId": NOBODY, "orphansOnly": True},
        "VALIDATION_ERROR",
        "moleculeId and orphansOnly exclude each other",
    ),
    (
        {"operation": "search", "entityType": "atom", "projectId": SHOP, "limit": "many"},
        "VALIDATION_ERROR",
        "field 'limit' must be an integer",
    ),
    (
        {"operation": "search", "entityType": "atom", "projectId": SHOP, "limit": 1.5},
        "VALIDATION_ERROR",
        "field 'limit' must be an integer",
    ),
    (
        {"operation": "search", "entityType": "atom", "projectId": SHOP, "limit": True},
        "VALIDATION_ERROR",
        "field 'limit' must be an integer",
    ),
    (
        {"operation": "search", "entityType": "atom", "projectId": SHOP, "orphansOnly": "yes"},
        "VALIDATION_ERROR",
        "field 'orphansOnly' must be true or false",
    ),
    (
        {"operation": "search", "entityType": "atom", "projectId": SHOP, "orphansOnly": 1},
        "VALIDATION_ERROR",
        "field 'orphansOnly' must be true or false",
    ),
    (
        {"operation": "search", "entityType": "atom", "projectId": "p" * 257},
        "VALIDATION_ERROR",
        "field 'projectId' must be an id",
    ),
    ({"operation": "context", "projectId": SHOP}, "VALIDATION_ERROR", "paths is required for context operation"),
    ({"operation": "context", "paths": "a"}, "VALIDATION_ERROR", "projectId is required for context operation"),
    ({"operation": "context", "projectId": NOBODY, "paths": "a"}, "NOT_FOUND", f"there is no project '{NOBODY}'"),
    (
        {"operation": "context", "projectId": SHOP, "paths": " , ,"},
        "VALIDATION_ERROR",
        "paths must name at least one file",
    ),
    ({"operation": "context", "projectId": SHOP, "paths": []}, "VALIDATION_ERROR", "paths must name at least one file"),
    (
        {"operation": "context", "projectId": SHOP, "paths": [1]},
        "VALIDATION_ERROR",
        "field 'paths' must be file paths, separated by commas or as an array",
    ),
    (
        {"operation": "context", "projectId": SHOP, "paths": "x" * 4_097},
        "VALIDATION_ERROR",
        "field 'paths' must not hold a path of more than 4096 characters",
    ),
    ({"operation": "dump"}, "VALIDATION_ERROR", "field 'operation' must be 'get', 'search' or 'context'"),
    ({}, "VALIDATION_ERROR", "field 'operation' is required"),
]


@pytest.mark.parametrize(("said", "code", "message"), BAD_QUERIES, ids=[str(row[0])[:60] for row in BAD_QUERIES])
def test_a_question_that_makes_no_sense_is_refused(
    agent: KnowledgeAgent, said: dict[str, Any], code: str, message: str
) -> None:
    error = agent.refusal("query_graph", **said)
    assert (error["code"], error["message"]) == (code, message)


def test_a_deleted_project_is_not_found(agent: KnowledgeAgent) -> None:
    agent.put(Operation(Verb.DELETE_NODE, {"node_id": OTHER}))
    error = agent.refusal("query_graph", operation="search", entityType="atom", projectId=OTHER)
    assert error["code"] == "NOT_FOUND"
