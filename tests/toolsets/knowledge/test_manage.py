"""manage_graph: what can be kept, under which rules, and what is refused with which words."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tallystick.clock import to_text
from tallystick.commits import Operation, Verb
from tallystick.policy import Action
from tests.promises import promise
from tests.toolsets.agent import NOON
from tests.toolsets.knowledge.agents import LATER, OTHER, PLANNED, SHOP, TASK, KnowledgeAgent

_READ = Action.READ
NOBODY = "f" * 32
HOUR = 3_600_000


# -- create


@promise("knowledge, atom", "an atom is kept with all its fields and version 1")
def test_an_atom_is_created_with_all_its_fields(agent: KnowledgeAgent) -> None:
    molecule = agent.molecule()
    said = agent.told(
        "manage_graph",
        operation="create",
        entityType="atom",
        projectId=SHOP,
        name="  Checkout Page ",
        paths='["./src/pages/checkout/**", "src/components/checkout-*.tsx"]',
        knowledge="\n locales come from the registry \n",
        moleculeId=molecule["id"],
        relatedAtoms='[{"atomId": "somewhere else", "reason": " consumes its events "}]',
        createdByTaskId=TASK,
    )
    atom = said["data"]["atom"]
    assert said["message"] == "Atom created"
    assert uuid.UUID(atom["id"]).hex == atom["id"]
    assert atom == {
        "id": atom["id"],
        "projectId": SHOP,
        "moleculeId": molecule["id"],
        "name": "Checkout Page",
        "paths": ["src/pages/checkout/**", "src/components/checkout-*.tsx"],
        "knowledge": "locales come from the registry",
        "relatedAtoms": [{"atomId": "somewhere else", "name": None, "reason": "consumes its events"}],
        "createdByTaskId": TASK,
        "lastTaskId": TASK,
        "version": 1,
        "createdAt": to_text(NOON),
        "updatedAt": to_text(NOON),
    }
    assert agent.get(atom)["atom"] == atom


@promise("knowledge, molecule", "a molecule is kept with all its fields and version 1")
def test_a_molecule_is_created_with_all_its_fields(agent: KnowledgeAgent) -> None:
    api = agent.molecule("API Layer")
    molecule = agent.molecule(
        "Pages",
        knowledge="route guards live in the middleware",
        relatedMolecules=[{"moleculeId": str(uuid.UUID(api["id"])).upper(), "reason": "pages call it"}],
    )
    assert molecule == {
        "id": molecule["id"],
        "projectId": SHOP,
        "name": "Pages",
        "knowledge": "route guards live in the middleware",
        "relatedMolecules": [{"moleculeId": api["id"], "name": "API Layer", "reason": "pages call it"}],
        "createdByTaskId": TASK,
        "lastTaskId": TASK,
        "version": 1,
        "createdAt": to_text(NOON),
        "updatedAt": to_text(NOON),
    }


def test_knowledge_molecule_and_relations_may_be_left_out(agent: KnowledgeAgent) -> None:
    for nothing in ({}, {"moleculeId": None}, {"moleculeId": "null"}, {"moleculeId": ""}):
        atom = agent.atom(**nothing)
        assert (atom["knowledge"], atom["moleculeId"], atom["relatedAtoms"]) == ("", None, [])


def test_a_task_that_was_planned_and_ids_in_any_spelling_are_accepted(agent: KnowledgeAgent) -> None:
    dashed = str(uuid.UUID(SHOP)).upper()
    atom = agent.atom(projectId=dashed, createdByTaskId=PLANNED)
    assert (atom["projectId"], atom["createdByTaskId"]) == (SHOP, PLANNED)
    assert agent.query("get", entityType="atom", id=str(uuid.UUID(atom["id"])).upper())["atom"] == atom


def test_a_project_may_be_named_as_graph_open_names_it(agent: KnowledgeAgent) -> None:
    assert agent.atom(projectId="project 5")["projectId"] == SHOP
    agent.node("root5", "work/node", project=SHOP, parent=None, summary="the goal", resolved=False, rev=1)
    assert agent.atom(projectId="root5")["projectId"] == SHOP


CREATED: dict[str, Any] = {
    "operation": "create",
    "entityType": "atom",
    "projectId": SHOP,
    "name": "n",
    "paths": ["a"],
    "createdByTaskId": TASK,
}
BAD_ATOMS: list[tuple[str, dict[str, Any], str, str]] = [
    ("no project", {"projectId": None}, "VALIDATION_ERROR", "projectId is required for create operation"),
    ("no name", {"name": None}, "VALIDATION_ERROR", "name is required for create operation"),
    ("no task", {"createdByTaskId": None}, "VALIDATION_ERROR", "createdByTaskId is required for create operation"),
    ("no paths", {"paths": None}, "VALIDATION_ERROR", "paths is required for creating an atom"),
    ("blank name", {"name": " \n"}, "VALIDATION_ERROR", "name must not be empty"),
    ("256 characters", {"name": "é" * 256}, "VALIDATION_ERROR", "name must not have more than 255 characters"),
    (
        "empty paths",
        {"paths": []},
        "INVARIANT_VIOLATION",
        "paths must not be empty: an atom without paths has no boundary",
    ),
    (
        "empty paths in a text",
        {"paths": "[]"},
        "INVARIANT_VIOLATION",
        "paths must not be empty: an atom without paths has no boundary",
    ),
    ("paths that are no array", {"paths": "src/**"}, "VALIDATION_ERROR", "field 'paths' must be a JSON array"),
    ("paths that are an object", {"paths": '{"a": 1}'}, "VALIDATION_ERROR", "field 'paths' must be a JSON array"),
    ("a path that is a number", {"paths": [3]}, "VALIDATION_ERROR", "field 'paths[0]' must be a string"),
    ("21 patterns", {"paths": ["a"] * 21}, "VALIDATION_ERROR", "paths has 21 patterns, more than 20"),
    (
        "513 characters",
        {"paths": ["x" * 513]},
        "VALIDATION_ERROR",
        f"pattern '{'x' * 100}…' is not valid: it has 513 characters, more than 512",
    ),
    (
        "absolute",
        {"paths": ["/src/**"]},
        "VALIDATION_ERROR",
        "pattern '/src/**' is not valid: it must be relative to the repository",
    ),
    (
        "climbing",
        {"paths": ["src/../x"]},
        "VALIDATION_ERROR",
        "pattern 'src/../x' is not valid: it must not climb with '..'",
    ),
    ("unclosed bracket", {"paths": ["src/[a"]}, "VALIDATION_ERROR", "pattern 'src/[a' is not valid: '[' is not closed"),
    ("unclosed brace", {"paths": ["src/{a"]}, "VALIDATION_ERROR", "pattern 'src/{a' is not valid: '{' is not closed"),
    ("empty pattern", {"paths": [""]}, "VALIDATION_ERROR", "a pattern must not be empty"),
    ("32 KB and one", {"knowledge": "x" * 32_769}, "VALIDATION_ERROR", "knowledge has 32769 bytes, more than 32768"),
    (
        "32 KB in fewer characters",
        {"knowledge": "é" * 16_385},
        "VALIDATION_ERROR",
        "knowledge has 32770 bytes, more than 32768",
    ),
    (
        "51 relations",
        {"relatedAtoms": [{"atomId": "a", "reason": "r"}] * 51},
        "VALIDATION_ERROR",
        "relatedAtoms has 51 entries, more than 50",
    ),
    (
        "a relation without reason",
        {"relatedAtoms": [{"atomId": "a"}]},
        "VALIDATION_ERROR",
        "relatedAtoms must hold objects {atomId, reason}, both texts and neither empty",
    ),
    (
        "a relation to a number",
        {"relatedAtoms": [{"atomId": 1, "reason": "r"}]},
        "VALIDATION_ERROR",
        "relatedAtoms must hold objects {atomId, reason}, both texts and neither empty",
    ),
    (
        "a relation that is blank",
        {"relatedAtoms": [{"atomId": "a", "reason": " "}]},
        "VALIDATION_ERROR",
        "relatedAtoms must hold objects {atomId, reason}, both texts and neither empty",
    ),
    (
        "a long reason",
        {"relatedAtoms": [{"atomId": "a", "reason": "r" * 501}]},
        "VALIDATION_ERROR",
        "relatedAtoms must not hold a reason of more than 500 characters",
    ),
    (
        "relations that are no array",
        {"relatedAtoms": "{}"},
        "VALIDATION_ERROR",
        "field 'relatedAtoms' must be a JSON array",
    ),
    ("no UUID", {"moleculeId": "M1"}, "VALIDATION_ERROR", "field 'moleculeId' must be a UUID"),
    ("an unknown field", {"color": "red"}, "VALIDATION_ERROR", "field 'color' is not allowed"),
    (
        "an unknown operation",
        {"operation": "merge"},
        "VALIDATION_ERROR",
        "field 'operation' must be 'create', 'update' or 'delete'",
    ),
    ("an unknown project", {"projectId": NOBODY}, "NOT_FOUND", f"there is no project '{NOBODY}'"),
    ("a task as project", {"projectId": TASK}, "NOT_FOUND", f"there is no project '{TASK}'"),
    ("an unknown task", {"createdByTaskId": NOBODY}, "NOT_FOUND", f"there is no task '{NOBODY}'"),
    ("a project as task", {"createdByTaskId": SHOP}, "NOT_FOUND", f"there is no task '{SHOP}'"),
    ("an unknown molecule", {"moleculeId": NOBODY}, "NOT_FOUND", f"there is no molecule '{NOBODY}'"),
]


@promise("knowledge, bad input", "what breaks a rule is refused with its code and words, and nothing is written")
@promise("K13", "a creation needs a task that exists")
@promise("K16", "bounds are in bytes for texts, in characters for names")
@pytest.mark.parametrize(("said", "code", "message"), [row[1:] for row in BAD_ATOMS], ids=[row[0] for row in BAD_ATOMS])
def test_an_atom_that_breaks_a_rule_is_refused(
    agent: KnowledgeAgent, said: dict[str, Any], code: str, message: str
) -> None:
    error = agent.refusal("manage_graph", **CREATED | said)
    assert (error["code"], error["message"]) == (code, message)


def test_every_fault_is_told_at_once(agent: KnowledgeAgent) -> None:
    error = agent.refusal("manage_graph", operation="create", entityType="atom", name="", paths=["/a", "["])
    assert error["details"]["problems"] == [
        "projectId is required for create operation",
        "name must not be empty",
        "pattern '/a' is not valid: it must be relative to the repository",
        "pattern '[' is not valid: '[' is not closed",
    ]


@promise("knowledge, bounds", "what is just within the limits is accepted")
def test_what_is_just_within_the_limits_is_accepted(agent: KnowledgeAgent) -> None:
    related = [{"atomId": "a", "reason": "r" * 500}] * 50
    patterns = ["x" * 512, *(f"p{number}/**" for number in range(19))]
    atom = agent.atom("é" * 255, *patterns, knowledge="é" * 16_384, relatedAtoms=related)
    assert (len(atom["paths"]), len(atom["knowledge"]), len(atom["relatedAtoms"])) == (20, 16_384, 50)
    assert agent.get(atom)["atom"] == atom


@promise("knowledge, cross-project", "a molecule of another project is an invariant violation")
def test_a_molecule_of_another_project_is_refused(agent: KnowledgeAgent) -> None:
    foreign = agent.molecule(projectId=OTHER)
    error = agent.refusal("manage_graph", **CREATED | {"moleculeId": foreign["id"]})
    assert (error["code"], error["details"]) == ("INVARIANT_VIOLATION", {"moleculeId": foreign["id"]})
    assert error["message"] == f"molecule '{foreign['id']}' belongs to another project"
    atom = agent.atom()
    error = agent.refusal(
        "manage_graph", operation="update", entityType="atom", id=atom["id"], version=1, moleculeId=foreign["id"]
    )
    assert error["code"] == "INVARIANT_VIOLATION"


# -- update


@promise("knowledge, update", "an update changes what it names, and the version")
def test_an_update_changes_what_it_names_and_the_version(agent: KnowledgeAgent) -> None:
    molecule = agent.molecule()
    atom = agent.atom(knowledge="old", relatedAtoms=[{"atomId": "x", "reason": "r"}])
    agent.now += HOUR
    changed = agent.update(
        atom,
        name=" New ",
        paths=["lib/**"],
        knowledge=" new ",
        moleculeId=molecule["id"],
        relatedAtoms=[],
        lastTaskId=LATER,
    )
    assert changed == atom | {
        "name": "New",
        "paths": ["lib/**"],
        "knowledge": "new",
        "moleculeId": molecule["id"],
        "relatedAtoms": [],
        "lastTaskId": LATER,
        "version": 2,
        "updatedAt": to_text(NOON + HOUR),
    }
    assert agent.context("lib/a.ts")["molecules"][0]["atoms"][0]["name"] == "New"
    assert agent.context("src/checkout/a.ts")["unmatchedPaths"] == ["src/checkout/a.ts"]


@promise("K14", "the last task is optional, checked, and stays otherwise")
def test_what_an_update_does_not_name_stays(agent: KnowledgeAgent) -> None:
    molecule = agent.molecule(relatedMolecules=[{"moleculeId": "x", "reason": "r"}], knowledge="kept")
    changed = agent.update(molecule, name="Renamed")
    assert changed == molecule | {"name": "Renamed", "version": 2}
    atom = agent.atom(moleculeId=molecule["id"], knowledge="kept")
    assert agent.update(atom, name="Renamed") == atom | {"name": "Renamed", "version": 2}


@promise("K18", "null in any spelling makes an orphan")
@pytest.mark.parametrize("nothing", [None, "null", "", "NULL"])
def test_null_as_molecule_makes_an_orphan(agent: KnowledgeAgent, nothing: str | None) -> None:
    atom = agent.atom(moleculeId=agent.molecule()["id"])
    assert agent.update(atom, moleculeId=nothing)["moleculeId"] is None


@promise("knowledge, overwrite", "overwriting replaces the knowledge")
def test_overwriting_replaces_the_knowledge_and_may_clear_it(agent: KnowledgeAgent) -> None:
    atom = agent.atom(knowledge="one")
    atom = agent.update(atom, knowledge="two", knowledgeMode="overwrite")
    assert atom["knowledge"] == "two"
    assert agent.update(atom, knowledge="")["knowledge"] == ""


@promise("K15", "an appended text is separated by time and task")
@promise("K42", "molecules are appended to like atoms")
def test_appending_adds_a_line_that_says_when_and_for_which_task(agent: KnowledgeAgent) -> None:
    for create in (agent.atom, agent.molecule):
        entity = create(knowledge="one")
        entity = agent.update(entity, knowledge=" two \n", knowledgeMode="append", lastTaskId=LATER)
        stamp = to_text(agent.now)
        assert entity["knowledge"] == f"one\n\n---[{stamp} task:{LATER}]---\ntwo"
        entity = agent.update(entity, knowledge="three", knowledgeMode="append")
        assert entity["knowledge"] == f"one\n\n---[{stamp} task:{LATER}]---\ntwo\n\n---[{stamp}]---\nthree"


@promise("K15, empty", "the separator is there even when nothing was known")
def test_the_line_is_there_even_when_nothing_was_known_before(agent: KnowledgeAgent) -> None:
    atom = agent.update(agent.atom(), knowledge="first", knowledgeMode="append")
    assert atom["knowledge"] == f"\n\n---[{to_text(NOON)}]---\nfirst"


@promise("K15, bound", "the limit holds for the result of an append")
def test_appending_past_the_limit_is_refused_and_nothing_is_added(agent: KnowledgeAgent) -> None:
    atom = agent.atom(knowledge="x" * 32_700)
    said = {"operation": "update", "entityType": "atom", "id": atom["id"], "version": 1}
    error = agent.refusal("manage_graph", **said, knowledge="y" * 40, knowledgeMode="append")
    assert (error["code"], error["message"]) == ("VALIDATION_ERROR", "knowledge has 32775 bytes, more than 32768")
    assert agent.get(atom)["atom"] == atom


@promise("knowledge, version", "a stale version is refused on update and delete with the current one")
def test_a_stale_version_is_refused_with_the_current_one(agent: KnowledgeAgent) -> None:
    for create in (agent.atom, agent.molecule):
        entity = create()
        agent.update(entity, name="second")
        kind = "atom" if "paths" in entity else "molecule"
        for said in ({"operation": "update", "name": "third"}, {"operation": "delete"}):
            error = agent.refusal("manage_graph", **said, entityType=kind, id=entity["id"], version=1)
            assert (error["code"], error["message"]) == ("CONFLICT", "Version conflict: expected 1, found 2")
            assert error["details"]["currentVersion"] == 2


BAD_UPDATES: list[tuple[str, dict[str, Any], str, str]] = [
    ("no id", {"id": None}, "VALIDATION_ERROR", "id is required for update operation"),
    ("no version", {"version": None}, "VALIDATION_ERROR", "version is required for update operation"),
    (
        "no fields",
        {"name": None},
        "VALIDATION_ERROR",
        "update needs at least one of name, knowledge, paths, moleculeId, relatedAtoms, pin",
    ),
    (
        "only a task",
        {"name": None, "lastTaskId": TASK},
        "VALIDATION_ERROR",
        "update needs at least one of name, knowledge, paths, moleculeId, relatedAtoms, pin",
    ),
    (
        "empty paths",
        {"paths": []},
        "INVARIANT_VIOLATION",
        "paths must not be empty: an atom without paths has no boundary",
    ),
    ("a mode without knowledge", {"knowledgeMode": "append"}, "VALIDATION_ERROR", "knowledgeMode needs knowledge"),
    (
        "nothing to append",
        {"knowledgeMode": "append", "knowledge": " \n"},
        "VALIDATION_ERROR",
        "knowledge to append must not be blank",
    ),
    (
        "another project",
        {"projectId": OTHER},
        "INVARIANT_VIOLATION",
        f"projectId cannot be changed: this atom belongs to project '{SHOP}'",
    ),
    ("a version that is no number", {"version": "one"}, "VALIDATION_ERROR", "field 'version' must be an integer"),
    (
        "an unknown mode",
        {"knowledgeMode": "prepend", "knowledge": "k"},
        "VALIDATION_ERROR",
        "field 'knowledgeMode' must be 'overwrite' or 'append'",
    ),
    ("an unknown atom", {"id": NOBODY}, "NOT_FOUND", f"there is no atom '{NOBODY}'"),
    ("an unknown task", {"lastTaskId": NOBODY}, "NOT_FOUND", f"there is no task '{NOBODY}'"),
]


@promise("K3", "empty paths are an invariant violation, on update too")
@promise("K17", "a mode without knowledge and a blank append are refused")
@promise("K23, changed", "a project cannot be changed")
@promise("K24", "an update needs a field")
@pytest.mark.parametrize(
    ("said", "code", "message"), [row[1:] for row in BAD_UPDATES], ids=[row[0] for row in BAD_UPDATES]
)
def test_an_update_that_breaks_a_rule_is_refused(
    agent: KnowledgeAgent, said: dict[str, Any], code: str, message: str
) -> None:
    atom = agent.atom()
    good = {"operation": "update", "entityType": "atom", "id": atom["id"], "version": 1, "name": "n"}
    error = agent.refusal("manage_graph", **good | said)
    assert (error["code"], error["message"]) == (code, message)
    assert agent.get(atom)["atom"] == atom


@promise("K23", "its own project may be named again")
def test_its_own_project_may_be_named_again(agent: KnowledgeAgent) -> None:
    assert agent.update(agent.atom(), name="n", projectId=str(uuid.UUID(SHOP)))["version"] == 2


@promise("K22", "nothing is related to itself")
def test_nothing_is_related_to_itself(agent: KnowledgeAgent) -> None:
    for create, key in ((agent.atom, "atomId"), (agent.molecule, "moleculeId")):
        entity = create()
        kind = key.removesuffix("Id")
        field = f"related{kind.capitalize()}s"
        said = {"id": entity["id"], "version": 1, field: [{key: str(uuid.UUID(entity["id"])), "reason": "r"}]}
        error = agent.refusal("manage_graph", operation="update", entityType=kind, **said)
        assert error["message"] == f"{field} must not name the {kind} itself"


def test_what_is_read_can_be_written_back(agent: KnowledgeAgent) -> None:
    other = agent.atom("Other")
    atom = agent.atom(relatedAtoms=[{"atomId": other["id"], "reason": "r"}])
    assert agent.update(atom, relatedAtoms=atom["relatedAtoms"])["relatedAtoms"] == atom["relatedAtoms"]


def test_molecules_know_nothing_of_paths(agent: KnowledgeAgent) -> None:
    molecule = agent.molecule()
    said = {"operation": "update", "entityType": "molecule", "id": molecule["id"], "version": 1}
    error = agent.refusal("manage_graph", **said, paths=["a"], moleculeId=molecule["id"], relatedAtoms=[], pin=True)
    assert (error["code"], error["details"]["problems"]) == (
        "VALIDATION_ERROR",
        [
            "field 'paths' does not belong to update of molecule",
            "field 'moleculeId' does not belong to update of molecule",
            "field 'relatedAtoms' does not belong to update of molecule",
            "field 'pin' does not belong to update of molecule",
            "update of molecule takes id, version, projectId, name, knowledge, knowledgeMode, relatedMolecules,"
            " lastTaskId",
        ],
    )
    error = agent.refusal("manage_graph", **said)
    assert error["message"] == "update needs at least one of name, knowledge, relatedMolecules"


def test_an_update_that_changes_nothing_writes_nothing(agent: KnowledgeAgent) -> None:
    atom = agent.atom(knowledge="k")
    before = agent.log.head()
    same = {name: atom[name] for name in ("name", "knowledge", "paths", "moleculeId", "relatedAtoms", "lastTaskId")}
    assert agent.update(atom, **same) == atom
    assert agent.log.head() == before
    assert agent.update(atom, name="other")["version"] == 2


@promise("X19, knowledge", "the task is noted with the commit")
def test_the_task_is_noted_with_the_commit(agent: KnowledgeAgent) -> None:
    atom = agent.atom(createdByTaskId=str(uuid.UUID(TASK)))
    agent.update(atom, name="n", lastTaskId=LATER)
    lineage = agent.run(
        agent.store.read(agent.principal, _READ, lambda state, read_filter: state.lineage(atom["id"], "direct", 0, 9))
    )
    assert lineage is not None
    assert [(step.commit.tool, step.commit.run_context) for step in lineage.steps] == [
        ("manage_graph", {"job_id": TASK}),
        ("manage_graph", {"job_id": LATER}),
    ]


# -- delete


@promise("K19", "orphaned atoms note time and task, not a version")
def test_deleting_a_molecule_orphans_its_atoms_and_takes_its_history(agent: KnowledgeAgent) -> None:
    molecule = agent.molecule()
    agent.append(molecule, "made")
    atoms = [agent.atom(name, moleculeId=molecule["id"]) for name in ("A", "B")]
    agent.append(atoms[0], "kept")
    molecule = agent.update(molecule, name="n", lastTaskId=LATER)
    agent.now += HOUR
    assert agent.delete(molecule) == {"deleted": True, "id": molecule["id"], "orphanedAtoms": 2}
    for atom in atoms:
        now = agent.get(atom)["atom"]
        assert now == atom | {"moleculeId": None, "lastTaskId": LATER, "updatedAt": to_text(NOON + HOUR)}
    assert agent.history(molecule)["total"] == 0
    assert agent.history(atoms[0])["total"] == 1
    error = agent.refusal("query_graph", operation="get", entityType="molecule", id=molecule["id"])
    assert error["code"] == "NOT_FOUND"


@promise("K19, task", "the deleting task may be named")
def test_the_task_that_deletes_a_molecule_is_noted_in_its_atoms(agent: KnowledgeAgent) -> None:
    molecule = agent.molecule()
    atom = agent.atom(moleculeId=molecule["id"])
    agent.delete(molecule, lastTaskId=LATER)
    assert agent.get(atom)["atom"]["lastTaskId"] == LATER


@promise("knowledge, cascade", "a cascade deletes atoms and their history in one draft")
def test_a_cascade_deletes_the_atoms_with_their_history(agent: KnowledgeAgent) -> None:
    molecule = agent.molecule()
    agent.append(molecule, "made")
    atom, other = agent.atom(moleculeId=molecule["id"]), agent.atom("Other")
    agent.append(atom, "made")
    agent.append(other, "made")
    before = agent.log.head().count
    assert agent.delete(molecule, cascade="true") == {"deleted": True, "id": molecule["id"], "deletedAtoms": 1}
    assert agent.log.head().count == before + 4
    assert agent.refusal("query_graph", operation="get", entityType="atom", id=atom["id"])["code"] == "NOT_FOUND"
    assert (agent.history(atom)["total"], agent.history(other)["total"]) == (0, 1)
    assert agent.context("src/checkout/a")["orphanAtoms"][0]["id"] == other["id"]


@promise("knowledge, delete atom", "an atom goes with its history")
@promise("K20", "cascade has no effect on an atom")
def test_deleting_an_atom_takes_its_history_and_its_patterns(agent: KnowledgeAgent) -> None:
    atom = agent.atom()
    agent.append(atom, "made")
    assert agent.delete(atom, cascade=True) == {"deleted": True, "id": atom["id"]}
    assert agent.history(atom)["total"] == 0
    assert agent.context("src/checkout/a")["unmatchedPaths"] == ["src/checkout/a"]


def test_what_was_tied_to_an_atom_does_not_keep_it(agent: KnowledgeAgent) -> None:
    atom, other = agent.atom(), agent.atom("Other")
    agent.node("note")
    agent.put(
        Operation(Verb.UPSERT_EDGE, {"from": "note", "rel": "about", "to": atom["id"], "attrs": {}}),
        Operation(Verb.UPSERT_EDGE, {"from": atom["id"], "rel": "like", "to": other["id"], "attrs": {}, "id": "e1"}),
    )
    assert agent.delete(atom)["deleted"] is True
    assert agent.get(other)["atom"] == other


@promise("K25", "a deletion needs a version")
def test_a_deletion_needs_id_and_version_and_nothing_else(agent: KnowledgeAgent) -> None:
    error = agent.refusal("manage_graph", operation="delete", entityType="atom", name="n", paths=["a"])
    assert error["details"]["problems"] == [
        "field 'name' does not belong to delete of atom",
        "field 'paths' does not belong to delete of atom",
        "delete of atom takes id, version, lastTaskId, cascade",
    ]
    error = agent.refusal("manage_graph", operation="delete", entityType="atom")
    assert error["details"]["problems"] == [
        "id is required for delete operation",
        "version is required for delete operation",
    ]


def test_an_atom_is_not_deleted_as_a_molecule(agent: KnowledgeAgent) -> None:
    atom = agent.atom()
    error = agent.refusal("manage_graph", operation="delete", entityType="molecule", id=atom["id"], version=1)
    assert (error["code"], error["details"]["hint"]) == ("NOT_FOUND", "it is an entity of type atom")


@promise("K35", "knowledge may be written for work that is done")
def test_knowledge_may_be_written_for_work_that_is_done(agent: KnowledgeAgent) -> None:
    agent.node("d" * 32, "work/node", project=SHOP, parent=None, summary="done", resolved=True, rev=2)
    assert agent.atom(createdByTaskId="d" * 32)["version"] == 1


@promise("K38", "a task that is gone does not take its knowledge along")
def test_a_task_that_is_gone_does_not_take_its_knowledge_along(agent: KnowledgeAgent) -> None:
    atom = agent.atom(createdByTaskId=LATER)
    agent.put(Operation(Verb.DELETE_NODE, {"node_id": LATER}))
    assert agent.get(atom)["atom"]["createdByTaskId"] == LATER
    assert agent.update(atom, name="n")["lastTaskId"] == LATER


# -- together


@promise("K41", "of racers on one version one succeeds")
def test_of_racers_on_one_version_one_succeeds_and_the_others_are_told_the_version(agent: KnowledgeAgent) -> None:
    atom = agent.atom()
    said = {"operation": "update", "entityType": "atom", "id": atom["id"], "version": 1}
    answers = agent.together("manage_graph", [said | {"knowledge": f"by {number}"} for number in range(8)])
    won = [answer for answer in answers if answer["success"]]
    lost = [answer["error"] for answer in answers if not answer["success"]]
    assert len(won) == 1
    assert [(error["code"], error["details"]["currentVersion"]) for error in lost] == [("CONFLICT", 2)] * 7
    assert agent.get(atom)["atom"] == won[0]["data"]["atom"]


def test_an_atom_is_never_left_in_a_molecule_that_is_deleted_at_the_same_time(agent: KnowledgeAgent) -> None:
    molecule = agent.molecule()
    calls = [CREATED | {"moleculeId": molecule["id"]}]
    calls += [{"operation": "delete", "entityType": "molecule", "id": molecule["id"], "version": 1}]
    created, deleted = agent.together("manage_graph", calls)
    assert deleted["data"]["orphanedAtoms"] == 1
    assert agent.get(created["data"]["atom"])["atom"]["moleculeId"] is None
