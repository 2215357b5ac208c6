"""What is restored keeps the rules of its vocabulary, and what breaks one already is found and named."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallystick import app
from tallystick.commits import Draft, Operation, Verb
from tallystick.config import Settings
from tallystick.errors import Conflict, NotFound
from tallystick.operations import OperationContext
from tallystick.policy import Action
from tests.command_line import CommandLine, edge, node

Call = Callable[..., dict[str, Any]]


@pytest.fixture
def shell(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "memory")


@pytest.fixture
def context(shell: CommandLine) -> OperationContext:
    return app.operation_context(Settings(base=shell.base))


@pytest.fixture
def call(context: OperationContext) -> Call:
    async def calls(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        async with context.open_store() as store:
            return (await context.prepare(tool, arguments)(store)).data

    return lambda tool, **arguments: asyncio.run(calls(tool, arguments))


def position(shell: CommandLine) -> int:
    return int(shell.run("log", "--limit", 1, "--json").lines[0]["lamport"])


def restore(shell: CommandLine, entity: str, at: int) -> dict[str, Any]:
    restored: dict[str, Any] = shell.run("restore-entity", entity, "--as-of", at, "--json").json
    return restored


def planned(call: Call, *refs: str, **waits: list[str]) -> tuple[str, dict[str, str]]:
    root = call("graph_open", project="p")["root"]["id"]
    nodes = [{"ref": ref, "summary": ref, "parent_ref": root, "depends_on": waits.get(ref, [])} for ref in refs]
    return root, {each["ref"]: each["id"] for each in call("graph_plan", nodes=nodes)["created"]}


def moved(call: Call, node_id: str, parent: str) -> None:
    call("graph_restructure", operations=[{"op": "move", "node_id": node_id, "new_parent": parent}])


def connected(call: Call, source: str, target: str, *, remove: bool = False) -> None:
    answer = call("graph_connect", edges=[{"from": source, "to": target, "type": "depends_on", "remove": remove}])
    assert answer["applied"] == 1


def test_a_node_is_not_put_below_itself(shell: CommandLine, call: Call) -> None:
    root, ids = planned(call, "a", "b")
    moved(call, ids["a"], ids["b"])
    then = position(shell)
    moved(call, ids["a"], root)
    moved(call, ids["b"], ids["a"])
    with pytest.raises(Conflict, match=f"'{ids['a']}' cannot be restored: Parent cycle") as refused:
        restore(shell, ids["a"], then)
    assert refused.value.code == "cycle_detected"
    assert shell.run("verify", "--views").code == 0


def test_a_dependency_that_would_close_a_circle_is_refused(shell: CommandLine, call: Call) -> None:
    _, ids = planned(call, "a", "b", a=["b"])
    then = position(shell)
    connected(call, ids["a"], ids["b"], remove=True)
    connected(call, ids["b"], ids["a"])
    with pytest.raises(Conflict, match="Dependency cycle"):
        restore(shell, f"{ids['a']}|depends_on|{ids['b']}", then)


def test_an_edge_whose_end_is_gone_is_refused_by_name_and_the_log_is_sound(shell: CommandLine) -> None:
    shell.write(node("a"), node("b"), edge("a", "knows", "b"), {"op": "DELETE_NODE", "node_id": "b"})
    with pytest.raises(NotFound, match=r"'a\|knows\|b' cannot be restored: no node 'b'"):
        restore(shell, "a|knows|b", 3)
    assert shell.run("verify").code == 0


def atom(call: Call, **fields: Any) -> dict[str, Any]:
    call("graph_open", project="p")
    task = call("graph_plan", nodes=[{"ref": "t", "summary": "t"}])["created"][0]["id"]
    asked = {"entityType": "atom", "projectId": "p", "name": "n", "knowledge": "k1", "paths": ["a.py"], **fields}
    made: dict[str, Any] = call("manage_graph", operation="create", createdByTaskId=task, **asked)["data"]["atom"]
    return made


def test_the_version_of_an_atom_goes_up_and_an_update_of_an_old_one_conflicts(shell: CommandLine, call: Call) -> None:
    made = atom(call)
    then = position(shell)
    for version in (1, 2):
        change = {"id": made["id"], "version": version, "knowledge": f"k{version + 1}"}
        call("manage_graph", operation="update", entityType="atom", **change)
    attrs = restore(shell, made["id"], then)["document"]["attrs"]
    assert (attrs["version"], attrs["knowledge"]) == (4, "k1")
    assert attrs["updatedAt"] > made["updatedAt"]
    with pytest.raises(Conflict):
        call("manage_graph", operation="update", entityType="atom", id=made["id"], version=1, knowledge="old")
    assert restore(shell, made["id"], then)["commit_id"] is None
    call("manage_graph", operation="delete", entityType="atom", id=made["id"], version=4)
    assert restore(shell, made["id"], then)["document"]["attrs"]["version"] == 5


def test_an_atom_does_not_come_back_into_a_molecule_that_is_gone(shell: CommandLine, call: Call) -> None:
    made = atom(call)
    asked = {"projectId": "p", "name": "m", "knowledge": "m", "createdByTaskId": made["createdByTaskId"]}
    molecule = call("manage_graph", operation="create", entityType="molecule", **asked)["data"]["molecule"]
    change = {"id": made["id"], "version": 1, "moleculeId": molecule["id"]}
    call("manage_graph", operation="update", entityType="atom", **change)
    then = position(shell)
    call("manage_graph", operation="delete", entityType="molecule", id=molecule["id"], version=1)
    with pytest.raises(NotFound, match=f"its moleculeId '{molecule['id']}' is not there"):
        restore(shell, made["id"], then)
    restore(shell, molecule["id"], then)
    assert restore(shell, made["id"], then)["document"]["attrs"]["moleculeId"] == molecule["id"]


def test_a_project_does_not_come_back_under_a_name_that_is_taken(shell: CommandLine, call: Call) -> None:
    made = call("manage_container", operation="create", containerType="project", name="Lake", summary="s")
    project, then = made["data"]["project"], position(shell)
    call("manage_container", operation="delete", containerType="project", id=project["id"], cascade=True)
    call("graph_open", project="lake")
    with pytest.raises(Conflict, match="cannot be restored: there is a project 'Lake' already") as refused:
        restore(shell, project["id"], then)
    assert refused.value.code == "DUPLICATE_NAME"


def test_a_deleted_task_comes_back_when_what_is_above_it_does(shell: CommandLine, call: Call) -> None:
    made = call("manage_container", operation="create", containerType="project", name="Lake", summary="s")
    project = made["data"]["project"]["id"]
    fields = {"projectId": project, "priority": "HIGH", "summary": "s"}
    feature = call("manage_container", operation="create", containerType="feature", name="f", **fields)["data"][
        "feature"
    ]
    then = position(shell)
    call("manage_container", operation="delete", containerType="project", id=project, cascade=True)
    with pytest.raises(NotFound, match=f"its project '{project}' is not there"):
        restore(shell, feature["id"], then)
    root = restore(shell, project, then)["document"]["attrs"]["root"]
    restore(shell, root, then)
    assert restore(shell, feature["id"], then)["document"]["attrs"]["rev"] == 2
    read = call("query_container", operation="get", containerType="feature", id=feature["id"])
    assert read["data"]["feature"]["version"] == 2


def test_a_restored_node_keeps_the_claim_of_now(shell: CommandLine, call: Call) -> None:
    planned(call, "a")
    claimed = call("graph_next", project="p", claim=True)["nodes"][0]["node"]["id"]
    then = position(shell)
    freed = {"_claimed_by": None, "_claimed_at": None}
    call("graph_update", updates=[{"node_id": claimed, "summary": "other", "properties": freed}])
    attrs = restore(shell, claimed, then)["document"]["attrs"]
    assert (attrs["summary"], "properties" in attrs) == ("a", False)


def test_a_connection_that_its_type_no_longer_allows_is_refused(shell: CommandLine, call: Call) -> None:
    shell.write(node("a", "Person"), node("b", "Thing"), edge("a", "OWNS", "b"))
    shell.write({"op": "DELETE_EDGE", "edge": {"from": "a", "rel": "OWNS", "to": "b"}})
    call("create_ontology", node_types=["Person", "Thing"], connection_types=[])
    call("add_connection_type", type_name="OWNS", from_types=["Person"], to_types=["Person"])
    with pytest.raises(Conflict) as refused:
        restore(shell, "a|OWNS|b", 3)
    assert refused.value.code == "INVALID_TOPOLOGY"


# -- what was written so before


def written(context: OperationContext, *documents: dict[str, Any]) -> None:
    """As no tool would."""
    verbs = [Verb.UPSERT_EDGE if "rel" in each else Verb.UPSERT_NODE for each in documents]
    draft = Draft(tuple(map(Operation, verbs, documents)), actor="somebody", tool="other")

    async def write() -> None:
        async with context.open_store() as store:
            await store.write(context.principal, Action.WRITE, lambda state, read_filter: draft)

    asyncio.run(write())


def broken_of(shell: CommandLine) -> list[tuple[str, str]]:
    verified = shell.run("verify", "--views", "--json")
    rules = [(each["entity"], each["problem"]) for each in verified.json["rules"]]
    assert verified.json["sound"] is not bool(rules)
    told = [each["found"] for each in shell.run("doctor", "--json").json["findings"] if each["what"] == "rules"]
    assert told == [f"'{entity}' {problem}" for entity, problem in rules]
    return rules


def work(node_id: str, project: str, parent: str | None, rev: int = 1) -> dict[str, Any]:
    attrs = {"project": project, "parent": parent, "summary": node_id, "resolved": False, "rev": rev}
    return {"id": node_id, "type": "work/node", "attrs": attrs}


def project(node_id: str, name: str) -> dict[str, Any]:
    return {"id": node_id, "type": "work/project", "attrs": {"name": name, "root": None, "summary": name}}


def test_states_that_break_a_rule_are_found_and_can_be_mended_as_advised(
    shell: CommandLine, context: OperationContext, call: Call
) -> None:
    written(context, project("p", "one"), project("q", "Two"), work("root", "p", None))
    assert broken_of(shell) == []
    written(context, work("a", "p", "b"), work("b", "p", "a"), work("c", "p", "root", 3), work("d", "p", "root"))
    depends = [{"from": source, "rel": "depends_on", "to": to, "attrs": {}} for source, to in (("c", "d"), ("d", "c"))]
    written(context, *depends, work("c", "p", "root", 1), project("r", "two "))
    written(context, work("e", "p", "nowhere"))
    assert broken_of(shell) == [
        ("a", "is its own ancestor: a is below b is below a"),
        ("c", "waits for itself: c waits for d waits for c"),
        ("r", "is called 'two ', as project 'q' is"),
        ("e", "names as its parent 'nowhere', which is not there"),
        ("c", "has version 1, and had version 3 before"),
    ]
    moved(call, "a", "root")
    moved(call, "e", "root")
    connected(call, "c", "d", remove=True)
    call("manage_container", operation="update", containerType="project", id="r", version=1, name="three")
    advice = [each["advice"] for each in shell.run("verify", "--views", "--json").json["rules"]]
    assert len(advice) == 1
    assert advice[0].startswith("raise it past that: tallystick restore-entity c --as-of ")
    assert restore(shell, "c", int(advice[0].split()[-1]))["document"]["attrs"]["rev"] == 4
    assert broken_of(shell) == []
