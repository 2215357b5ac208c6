"""Tenants apart: whose id it is, what is open, and what is closed again."""

from __future__ import annotations

import asyncio
import gc
import weakref
from pathlib import Path

import pytest

from tallystick.engine.partition import Partition
from tallystick.engine.tenants import Tenants
from tallystick.errors import InvalidArgument, StorageRefused
from tallystick.policy import Principal
from tallystick.policy.embedded import Embedded
from tallystick.state.work.graph import WorkGraph
from tests.multi_tenant import bytes_of, multi_tenant_store
from tests.promises import promise

ACME = Principal(actor="alice", tenant="acme", roles=("admin",))
GLOBEX = Principal(actor="mallory", tenant="globex", roles=("admin",))

BY_ID = (
    ("memory.read", {"entity_id": "ours"}),
    ("memory.read", {"filters": {"id": "ours"}, "as_of": 0}),
    ("memory.lineage", {"entity_id": "ours"}),
    ("memory.lineage", {"entity_id": "ours", "depth": "summary"}),
    ("memory.search", {"id": "ours"}),
    ("memory.search", {"entity_id": "ours", "traversal": {"hops": 1}}),
    ("get_node", {"node_id": "ours"}),
    ("get_node_content", {"node_id": "ours"}),
    ("get_connected_nodes", {"node_id": "ours", "direction": "both"}),
    ("graph_history", {"node_id": "ours"}),
)


@promise("OWASP API1, ids of others", "another tenant's id is refused in every tool that takes one")
@pytest.mark.parametrize(("tool", "arguments"), BY_ID, ids=[f"{tool}-{n}" for n, (tool, _) in enumerate(BY_ID)])
async def test_another_tenants_id_is_refused_without_data(
    tmp_path: Path, tool: str, arguments: dict[str, object]
) -> None:
    async with multi_tenant_store(tmp_path, Embedded("rbac")) as base:
        await base.node(GLOBEX, "theirs")
        await base.node(ACME, "ours", "note", said="for us alone")
        refused = await base.refused(GLOBEX, tool, **arguments)
        assert refused.error.code == "AUTHORIZATION_DENIED"
        assert refused.error.details == {
            "policy_decision": {
                "result": False,
                "reason": "cross-tenant access denied",
                "policy_version": "rbac@2",
            },
            "status": 403,
        }
        assert b"alice" not in bytes_of(refused.shape)
        _, event = base.decided("globex")[-1]
        assert (event.decision, event.resource_owner_tenant, event.resource_owner) == (False, "acme", None)


@promise("L34, unknown", "an id that nobody has is merely not found")
async def test_an_id_that_nobody_has_is_merely_not_found(tmp_path: Path) -> None:
    async with multi_tenant_store(tmp_path, Embedded("rbac")) as base:
        await base.node(ACME, "ours")
        assert (await base.call(GLOBEX, "memory.read", entity_id="nobodys"))["entity"] is None


@promise("L34, same id", "two tenants may use the same id, each for its own")
async def test_two_tenants_may_use_the_same_id_each_for_its_own(tmp_path: Path) -> None:
    async with multi_tenant_store(tmp_path, Embedded("rbac")) as base:
        await base.node(ACME, "plan", said="acme")
        await base.node(GLOBEX, "plan", said="globex")
        for who in (ACME, GLOBEX):
            told = await base.call(who, "memory.read", entity_id="plan")
            assert told["entity"]["attrs"] == {"said": who.tenant}


async def test_a_name_that_every_tenant_has_is_nobodys_id(tmp_path: Path) -> None:
    async with multi_tenant_store(tmp_path, Embedded("rbac")) as base:
        await base.node(ACME, "ontology", said="a trap")
        assert (await base.refused(GLOBEX, "get_ontology")).error.code == "ONTOLOGY_NOT_FOUND"


@promise("OWASP API4, ids of others", "asking for unknown ids does not open every log each time")
async def test_ids_of_a_closed_tenant_stay_known_without_opening_it_again(tmp_path: Path) -> None:
    async with multi_tenant_store(tmp_path, Embedded("rbac"), idle_seconds=600) as base:
        await base.node(ACME, "ours")
        base.seconds = 601
        await base.store.tenants.close_idle()
        assert base.closed == ["acme"]
        for _ in range(3):
            assert (await base.call(GLOBEX, "memory.read", entity_id="ours"))["error"] == "AUTHORIZATION_DENIED"
            assert (await base.call(GLOBEX, "memory.read", entity_id="nobodys"))["entity"] is None
        assert base.opened == ["acme", "globex"]


@promise("L34, edges", "another tenant's edges are refused like its nodes")
@pytest.mark.parametrize("closed", [False, True], ids=["open", "closed"])
async def test_another_tenants_edges_are_refused_like_its_nodes(tmp_path: Path, closed: bool) -> None:
    async with multi_tenant_store(tmp_path, Embedded("rbac"), idle_seconds=600) as base:
        for name in ("ours", "also_ours"):
            await base.node(ACME, name)
        await base.edge(ACME, "ours", "leads_to", "also_ours")
        edge = {"from": "ours", "rel": "leads_to", "to": "also_ours", "id": "by_name"}
        assert "commit_id" in await base.call(ACME, "memory.write", op="UPSERT_EDGE", edge=edge)
        if closed:
            base.seconds = 601
            await base.store.tenants.close_idle()
        for edge_id in ("by_name", "ours|leads_to|also_ours"):
            for tool in ("memory.read", "memory.lineage"):
                assert (await base.call(GLOBEX, tool, entity_id=edge_id))["error"] == "AUTHORIZATION_DENIED", edge_id
        assert (await base.call(GLOBEX, "memory.read", entity_id="ours|leads_to|nobodys"))["entity"] is None


@promise("L34, deleting", "deleting what another tenant has is refused")
async def test_deleting_what_another_tenant_has_is_refused_and_what_nobody_has_is_not_found(tmp_path: Path) -> None:
    async with multi_tenant_store(tmp_path, Embedded("rbac")) as base:
        await base.node(ACME, "ours")
        for asked in ({"op": "DELETE_NODE"}, {"op": "REDACT_NODE", "reason": "curiosity"}):
            refused = await base.refused(GLOBEX, "memory.write", node_id="ours", **asked)
            assert refused.error.details["policy_decision"]["reason"] == "cross-tenant access denied"
            told = await base.call(GLOBEX, "memory.write", node_id="nobodys", **asked)
            assert told["error"] == "ENTITY_NOT_FOUND"
        assert (await base.call(ACME, "memory.read", entity_id="ours"))["entity"] is not None


async def test_a_tenant_that_was_never_open_here_is_asked_too(tmp_path: Path) -> None:
    async with multi_tenant_store(tmp_path, Embedded("rbac")) as base:
        await base.node(ACME, "ours")
    async with multi_tenant_store(tmp_path, Embedded("rbac")) as base:
        assert (await base.call(GLOBEX, "memory.read", entity_id="ours"))["error"] == "AUTHORIZATION_DENIED"


@promise("tenants, idle", "an idle tenant is closed, and opened again by the next call")
async def test_an_idle_tenant_is_closed_and_opened_again_by_the_next_call(tmp_path: Path) -> None:
    async with multi_tenant_store(tmp_path, Embedded("rbac"), idle_seconds=600, kept=frozenset(["globex"])) as base:
        await base.node(ACME, "ours", said="kept")
        await base.node(GLOBEX, "theirs")
        base.seconds = 599
        await base.store.tenants.close_idle()
        assert base.closed == []
        base.seconds = 601
        await base.store.tenants.close_idle()
        assert (base.closed, base.store.tenants.open_now) == (["acme"], ["globex"])
        assert (await base.call(ACME, "memory.read", entity_id="ours"))["entity"]["attrs"] == {"said": "kept"}


async def test_too_many_are_closed_the_longest_unused_first(tmp_path: Path) -> None:
    async with multi_tenant_store(tmp_path, Embedded("rbac"), open_max=1) as base:
        await base.node(ACME, "ours")
        base.seconds = 1
        await base.node(GLOBEX, "theirs")
        base.seconds = 20
        await base.store.tenants.close_idle()
        assert base.closed == ["acme"]


async def test_a_tenant_in_use_is_not_closed(tmp_path: Path) -> None:
    async with multi_tenant_store(tmp_path, Embedded("rbac"), idle_seconds=600) as base:
        await base.node(ACME, "ours")
        with await base.store.tenants.using("acme"):
            base.seconds = 10_000
            await base.store.tenants.close_idle()
            assert base.closed == []


async def test_a_call_that_meets_a_tenant_being_closed_waits_and_opens_it_again(tmp_path: Path) -> None:
    async with multi_tenant_store(tmp_path, Embedded("rbac"), idle_seconds=600) as base:
        await base.node(ACME, "ours")
        base.seconds = 601
        closing = asyncio.create_task(base.store.tenants.close_idle())
        told = await asyncio.gather(*(base.call(ACME, "memory.read", entity_id="ours") for _ in range(5)))
        await closing
        assert all(each["entity"]["id"] == "ours" for each in told)


async def test_a_log_that_could_not_be_opened_is_tried_again(tmp_path: Path) -> None:
    attempts = 0

    async def open_partition(tenant: str) -> Partition:
        nonlocal attempts
        attempts += 1
        raise StorageRefused("locked")

    tenants = Tenants(open_partition)
    for _ in range(2):
        with pytest.raises(StorageRefused), await tenants.using("acme"):
            raise AssertionError("it never opens")
    assert attempts == 2


@promise("attack: path-like tenants, store", "what is no tenant id opens nothing")
@pytest.mark.parametrize("name", ["", "..", "a/b", "../acme", "Acme", "a" * 64, "acme\n", "a.b"])
async def test_what_is_no_tenant_id_opens_nothing(tmp_path: Path, name: str) -> None:
    async with multi_tenant_store(tmp_path, Embedded("rbac")) as base:
        with pytest.raises(InvalidArgument), await base.store.tenants.using(name):
            raise AssertionError("it never opens")
        assert base.opened == []


async def test_a_closed_tenant_lets_go_of_what_it_held_even_if_the_collector_never_looks(tmp_path: Path) -> None:
    async with multi_tenant_store(tmp_path, Embedded("rbac"), idle_seconds=600) as base:
        gc.disable()
        try:
            await base.node(ACME, "ours")
            for tool, arguments in BY_ID:
                await base.call(ACME, tool, **arguments)
            root = (await base.call(ACME, "graph_open", project="launch", goal="To sea"))["root"]["id"]
            tasks = [{"ref": "a", "parent_ref": root, "summary": "Dredge"}]
            tasks += [{"ref": "b", "parent_ref": root, "summary": "Sail", "depends_on": ["a"]}]
            await base.call(ACME, "graph_plan", nodes=tasks)
            assert (await base.call(ACME, "graph_next", project="launch", scope=root))["nodes"]
            partition = base.store.tenants.find("acme")
            assert partition is not None
            board = await partition.look(lambda state: weakref.ref(state.derived(WorkGraph).projects()[0]))
            state, itself = await partition.look(weakref.ref), weakref.ref(partition)
            del partition
            base.seconds = 601
            await base.store.tenants.close_idle()
            assert (state(), itself(), board()) == (None, None, None)
        finally:
            gc.enable()
