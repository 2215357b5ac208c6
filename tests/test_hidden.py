"""Tools that write answer nothing that READ denies: refusals, counts and ids tell no more than a read would."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import Denied, NotFound
from tallystick.extensions.proofs.prove import find_commit
from tallystick.policy import Action, Decision, Principal, Request
from tallystick.policy.replay import replay
from tests.multi_tenant import MultiTenantStore, bytes_of, multi_tenant_store
from tests.policy.gated_partition import AwaitedPolicy
from tests.promises import promise

ALICE = Principal(actor="alice", tenant="acme")
BOB = Principal(actor="bob", tenant="acme", trusted=False)


def rule(request: Request) -> bool:
    """Secrets are for their owners to read; nobody deletes an edge that is not theirs; nobody makes what is sealed."""
    if request.action is Action.READ:
        return request.resource_type != "secret" or request.resource_owner == request.principal.actor
    if request.action is Action.DELETE and request.resource_type == "guards":
        return request.resource_owner == request.principal.actor
    return "sealed" not in (request.resource_type, request.written_type)


class RulePolicy:
    def __init__(self, allows: Callable[[Request], bool] = rule) -> None:
        self.asked: list[Request] = []
        self._allows = allows

    def decide(self, request: Request) -> Decision:
        self.asked.append(request)
        return Decision(self._allows(request), "by the rule", "local@1")


Make = Callable[[Callable[[Request], bool]], Any]
BOTH = pytest.mark.parametrize("make", [RulePolicy, AwaitedPolicy], ids=["in process", "distant"])


async def written(base: MultiTenantStore, who: Principal, **asked: Any) -> dict[str, Any]:
    return await base.call(who, "memory.write", **asked)


async def linked(
    base: MultiTenantStore, who: Principal, source: str, rel: str, target: str, **more: Any
) -> dict[str, Any]:
    return await written(base, who, op="UPSERT_EDGE", edge={"from": source, "rel": rel, "to": target, **more})


async def peopled(base: MultiTenantStore) -> None:
    for name, kind in (("plan", "note"), ("goal", "note"), ("hidden", "secret"), ("deeper", "secret")):
        await base.node(ALICE, name, kind)
    await linked(base, ALICE, "hidden", "leads_to", "deeper", id="e1")
    await linked(base, ALICE, "hidden", "guards", "deeper", id="e2")
    await linked(base, ALICE, "plan", "leads_to", "hidden")


def without(told: dict[str, Any], name: str) -> bytes:
    """The answer, whatever it was asked about is called."""
    return bytes_of(told).replace(name.encode(), b"?")


@BOTH
async def test_an_edge_id_is_taken_whoever_took_it(tmp_path: Path, make: Make) -> None:
    async with multi_tenant_store(tmp_path, make(rule)) as base:
        await peopled(base)
        told = await linked(base, BOB, "plan", "leads_to", "goal", id="e1")
        assert told["error"] == "EDGE_ID_TAKEN"
        assert b"hidden" not in bytes_of(told)
        assert b"deeper" not in bytes_of(told)


@promise("L20, hidden ends", "an end that may not be read is missing")
@BOTH
async def test_an_end_that_may_not_be_read_is_missing(tmp_path: Path, make: Make) -> None:
    async with multi_tenant_store(tmp_path, make(rule)) as base:
        await peopled(base)
        for ends in (("plan", "{}"), ("{}", "plan"), ("{}", "{}")):
            told = []
            for name in ("hidden", "absent"):
                source, target = (end.format(name) for end in ends)
                told.append(without(await linked(base, BOB, source, "leads_to", target), name))
            assert told[0] == told[1]
        assert b"ENTITY_NOT_FOUND" in told[0]


@BOTH
@pytest.mark.parametrize("op", ["DELETE_EDGE", "REDACT_EDGE"])
@pytest.mark.parametrize("edge", ["e1", "e2"], ids=["that may be deleted", "that may not be"])
async def test_an_edge_to_what_may_not_be_read_is_not_there(tmp_path: Path, make: Make, op: str, edge: str) -> None:
    why = {"reason": "x"} if op == "REDACT_EDGE" else {}
    async with multi_tenant_store(tmp_path, make(rule)) as base:
        await peopled(base)
        position = base.store.position(BOB)
        told = [without(await written(base, BOB, op=op, edge_id=name, **why), name) for name in (edge, "e9")]
        assert told[0] == told[1]
        for rel in ("leads_to", "guards"):
            names = [{"from": name, "rel": rel, "to": "deeper"} for name in ("hidden", "absent")]
            told = [without(await written(base, BOB, op=op, edge=each, **why), each["from"]) for each in names]
            assert told[0] == told[1]
        assert base.store.position(BOB) == position


@BOTH
async def test_edges_that_may_not_be_known_of_are_not_counted_when_they_go(tmp_path: Path, make: Make) -> None:
    async with multi_tenant_store(tmp_path, make(rule)) as base:
        await peopled(base)
        await linked(base, ALICE, "plan", "leads_to", "goal")
        told = await written(base, BOB, op="DELETE_NODE", node_id="plan", nonce="n")
        assert told["batch"] == {"commits": 2, "first_lamport": told["lamport"] - 1}
        again = await written(base, BOB, op="DELETE_NODE", node_id="plan", nonce="n")
        assert again == told | {"duplicate": True}


@promise("L25, hidden owners", "whose something is is told only to who may read it")
@BOTH
async def test_whose_it_is_is_told_only_to_who_may_read_it(tmp_path: Path, make: Make) -> None:
    def no_deletions(request: Request) -> bool:
        return request.action is not Action.DELETE and rule(request)

    async with multi_tenant_store(tmp_path, make(no_deletions)) as base:
        await peopled(base)
        told = {}
        for name in ("plan", "hidden"):
            told[name] = (await written(base, BOB, op="DELETE_NODE", node_id=name))["message"]
        assert told == {
            "plan": "actor 'bob' cannot DELETE resource 'plan' (owned by 'alice')",
            "hidden": "actor 'bob' cannot DELETE resource 'hidden'",
        }


@BOTH
async def test_an_id_that_another_toolset_has_says_nothing_of_what_it_is(tmp_path: Path, make: Make) -> None:
    async with multi_tenant_store(tmp_path, make(hides_work)) as base:
        told = await base.call(ALICE, "graph_open", project="bridge", goal="x")
        root = told["root"]["id"]
        told = await written(base, BOB, op="UPSERT_NODE", node={"id": root, "type": "note", "attrs": {}})
        assert (told["error"], told["message"]) == ("RESERVED_TYPE", f"the id '{root}' is taken")


def hides_work(request: Request) -> bool:
    return request.action is not Action.READ or request.principal.actor == "alice" or request.resource_type == "note"


# -- the type that is written


@BOTH
async def test_the_policy_is_told_the_type_that_is_written_and_the_one_that_was(tmp_path: Path, make: Make) -> None:
    async with multi_tenant_store(tmp_path, make(rule)) as base:
        await base.node(BOB, "n", "note")
        for node in ({"id": "new", "type": "sealed", "attrs": {}}, {"id": "n", "type": "sealed", "attrs": {}}):
            told = await written(base, BOB, op="UPSERT_NODE", node=node)
            assert told["message"].startswith(f"actor 'bob' cannot WRITE resource '{node['id']}'")
        asked = [(event.resource, event.resource_type, event.written_type) for _, event in base.decided("acme")]
        assert asked == [("n", None, "note"), ("new", None, "sealed"), ("n", "note", "sealed")]
        assert (await linked(base, BOB, "n", "sealed", "n"))["error"] == "AUTHORIZATION_DENIED"
        again = replay(RulePolicy(), base.decided("acme"))
        assert again.same


@promise("L32, written type", "the policy is told the type that is written, whichever tool writes it")
@BOTH
async def test_types_are_asked_about_whichever_tool_writes_them(tmp_path: Path, make: Make) -> None:
    policy = make(rule)
    async with multi_tenant_store(tmp_path, policy) as base:
        await base.call(ALICE, "create_ontology", node_types=["sealed", "note"], connection_types=[])
        asked = {"content": "x", "encoding": "utf-8", "format": "md"}
        told = await base.call(BOB, "create_node", type="sealed", **asked)
        assert told["code"] == "AUTHORIZATION_DENIED"
        assert "node_id" in await base.call(BOB, "create_node", type="note", **asked)
        policy.asked.clear()
        opened = await base.call(BOB, "graph_open", project="bridge", goal="x")
        nodes = [{"ref": ref, "parent_ref": opened["root"]["id"], "summary": "x"} for ref in "abc"]
        await base.call(BOB, "graph_plan", nodes=nodes)
        made = [request.written_type for request in policy.asked if request.written_type is not None]
        assert made == ["work/project", "work/node", "work/node"]


# -- somebody else's name


@promise("L11, audit", "writing in another's name is a denial in the audit log like any other")
@BOTH
async def test_writing_in_somebody_elses_name_is_a_denial_like_any_other(tmp_path: Path, make: Make) -> None:
    async with multi_tenant_store(tmp_path, make(rule)) as base:
        node = {"id": "n", "type": "note", "attrs": {}}
        told = await written(base, BOB, op="UPSERT_NODE", node=node, actor="alice")
        assert (told["error"], told["message"]) == ("AUTHORIZATION_DENIED", "actor 'bob' cannot write as 'alice'")
        [(_, event)] = base.decided("acme")
        assert (event.actor, event.action, event.resource, event.decision) == ("bob", "WRITE", "n", False)
        assert (event.reason, event.fault) == ("actor 'bob' cannot write as 'alice'", "actor")
        assert replay(RulePolicy(), base.decided("acme")).skipped == 1


@BOTH
async def test_what_may_not_be_read_is_not_proved(tmp_path: Path, make: Make) -> None:
    """A proof tells who wrote a commit and why: by its id or its position it is as good as unknown."""
    async with multi_tenant_store(tmp_path, make(rule)) as base:
        await base.node(ALICE, "plan", "note")
        told = await written(base, ALICE, op="UPSERT_NODE", node={"id": "hidden", "type": "secret", "attrs": {}})
        linking = await linked(base, ALICE, "plan", "leads_to", "hidden", id="e1")
        for named in (told["commit_id"], str(told["lamport"]), linking["commit_id"], str(linking["lamport"]), "e1"):
            located = await find_commit(base.store, ALICE, named)
            assert located.index + 1 == located.commit.lamport
            with pytest.raises(NotFound) as refused:
                await find_commit(base.store, BOB, named)
            with pytest.raises(NotFound) as unknown:
                await find_commit(base.store, BOB, "ffffffff")
            assert refused.value.message.replace(named, "?") == unknown.value.message.replace("ffffffff", "?")
        with pytest.raises(Denied):
            await find_commit(base.store, BOB, "hidden")
        with pytest.raises(NotFound):
            await find_commit(base.store, Principal(actor="alice", tenant="other"), told["commit_id"])
