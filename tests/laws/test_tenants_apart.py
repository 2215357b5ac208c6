"""Whatever a tenant's principals call, no byte that only another tenant wrote comes back; and the audit log replays."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallystick.commits.payloads import edge_name
from tallystick.policy import Principal
from tallystick.policy.embedded import Embedded
from tallystick.policy.replay import replay
from tests.multi_tenant import TENANTS, MultiTenantStore, bytes_of, multi_tenant_store
from tests.promises import promise

ROUNDS = 250
SEEDS = (1, 2, 3)
ROLES = ((), ("reader",), ("writer",), ("admin",))

Make = Callable[[random.Random, list[str], str], tuple[str, dict[str, Any]]]


def _any(dice: random.Random, ids: list[str], like: str = "") -> str:
    """Any id that anybody was told, of the form that the tool takes."""
    fitting = [each for each in ids if re.fullmatch(like, each)] if like else ids
    return dice.choice(fitting or ["nobody"])


UUID = "[0-9a-f]{32}"
MEMORY = "mem_.*"
WORK = "[A-Za-z0-9]{10}"


def _edge(dice: random.Random, ids: list[str]) -> str:
    return edge_name(_any(dice, ids), "knows", _any(dice, ids))


def _memory_node(dice: random.Random, ids: list[str], mark: str) -> tuple[str, dict[str, Any]]:
    node = {"id": dice.choice([mark, "shared", "plan", _any(dice, ids)]), "type": "note", "attrs": {"said": mark}}
    return "memory.write", {"op": "UPSERT_NODE", "node": node, "reason": mark}


def _memory_edge(dice: random.Random, ids: list[str], mark: str) -> tuple[str, dict[str, Any]]:
    edge = {"from": _any(dice, ids), "rel": "knows", "to": _any(dice, ids), "attrs": {"said": mark}}
    return "memory.write", {"op": "UPSERT_EDGE", "edge": edge}


CALLS: tuple[Make, ...] = (
    _memory_node,
    _memory_node,
    _memory_edge,
    lambda dice, ids, mark: ("memory.write", {"op": "DELETE_NODE", "node_id": _any(dice, ids)}),
    lambda dice, ids, mark: ("memory.read", {"entity_id": _any(dice, ids), "include_edges": True}),
    lambda dice, ids, mark: ("memory.write", {"op": "DELETE_EDGE", "edge_id": _edge(dice, ids)}),
    lambda dice, ids, mark: ("memory.read", {"entity_id": _edge(dice, ids)}),
    lambda dice, ids, mark: ("memory.lineage", {"entity_id": _edge(dice, ids)}),
    lambda dice, ids, mark: ("memory.search", {"limit": dice.randint(1, 50)}),
    lambda dice, ids, mark: ("memory.search", {"id": _any(dice, ids)}),
    lambda dice, ids, mark: ("memory.search", {"entity_id": _any(dice, ids), "traversal": {"hops": 2}}),
    lambda dice, ids, mark: ("memory.lineage", {"entity_id": _any(dice, ids), "depth": "full"}),
    lambda dice, ids, mark: ("graph_open", {"project": dice.choice(["launch", mark]), "goal": mark}),
    lambda dice, ids, mark: ("graph_open", {}),
    lambda dice, ids, mark: (
        "graph_plan",
        {"nodes": [{"ref": "a", "parent_ref": _any(dice, ids, WORK), "summary": mark}]},
    ),
    lambda dice, ids, mark: ("graph_query", {"project": "launch"}),
    lambda dice, ids, mark: ("graph_next", {"project": "launch"}),
    lambda dice, ids, mark: ("graph_context", {"node_id": _any(dice, ids, WORK)}),
    lambda dice, ids, mark: ("graph_history", {"node_id": _any(dice, ids, WORK)}),
    lambda dice, ids, mark: ("graph_update", {"updates": [{"node_id": _any(dice, ids, WORK), "summary": mark}]}),
    lambda dice, ids, mark: (
        "graph_update",
        {"updates": [{"node_id": _any(dice, ids, WORK), "summary": mark} for _ in range(2)]},
    ),
    lambda dice, ids, mark: (
        "graph_connect",
        {"edges": [{"from": _any(dice, ids, WORK), "to": _any(dice, ids, WORK), "type": mark} for _ in range(2)]},
    ),
    lambda dice, ids, mark: (
        "graph_restructure",
        {"operations": [{"op": "merge", "source": _any(dice, ids, WORK), "target": _any(dice, ids, WORK)}]},
    ),
    lambda dice, ids, mark: ("create_ontology", {"node_types": ["idea"], "connection_types": []}),
    lambda dice, ids, mark: ("get_ontology", {}),
    lambda dice, ids, mark: (
        "create_node",
        {"type": "idea", "content": mark, "encoding": "utf-8", "format": "md", "properties": {"said": mark}},
    ),
    lambda dice, ids, mark: ("get_node", {"node_id": _any(dice, ids, MEMORY)}),
    lambda dice, ids, mark: ("get_node_content", {"node_id": _any(dice, ids, MEMORY)}),
    lambda dice, ids, mark: ("update_node", {"node_id": _any(dice, ids, MEMORY), "properties": {"said": mark}}),
    lambda dice, ids, mark: ("delete_node", {"node_id": _any(dice, ids, MEMORY)}),
    lambda dice, ids, mark: ("query_nodes", {}),
    lambda dice, ids, mark: ("query_connections", {}),
    lambda dice, ids, mark: ("get_connected_nodes", {"node_id": _any(dice, ids, MEMORY), "direction": "both"}),
    lambda dice, ids, mark: (
        "manage_graph",
        {
            "operation": "create",
            "entityType": "atom",
            "projectId": _any(dice, ids, UUID),
            "name": mark,
            "knowledge": mark,
            "paths": ["src/**"],
            "createdByTaskId": _any(dice, ids, WORK),
        },
    ),
    lambda dice, ids, mark: ("query_graph", {"operation": "get", "entityType": "atom", "id": _any(dice, ids, UUID)}),
    lambda dice, ids, mark: (
        "query_graph",
        {"operation": "search", "entityType": "atom", "projectId": _any(dice, ids, UUID)},
    ),
    lambda dice, ids, mark: (
        "manage_changelog",
        {"operation": "search", "parentType": "atom", "parentId": _any(dice, ids, UUID)},
    ),
)


@promise("OWASP API1, tenants", "no sequence of calls brings back what only another tenant wrote")
@pytest.mark.parametrize("seed", SEEDS)
async def test_no_byte_that_only_another_tenant_wrote_comes_back(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    policy = Embedded("rbac")
    async with multi_tenant_store(tmp_path, policy) as base:
        ids: list[str] = []
        succeeded = dict.fromkeys(TENANTS, 0)
        for number in range(ROUNDS):
            tenant = dice.choice(TENANTS)
            if dice.random() < 0.02:
                base.seconds += 1_000
                await base.store.tenants.close_idle()
            told, asked = await _call(base, dice, tenant, ids, f"only-{tenant}-{number}")
            for other in TENANTS:
                # What a caller said itself may be said back to it: that is no news of the other tenant.
                if other != tenant and f"only-{other}-".encode() not in asked:
                    assert f"only-{other}-".encode() not in bytes_of(told), (number, asked, told)
            succeeded[tenant] += not _is_refusal(told)
            ids += _ids_in(told)
        assert min(succeeded.values()) > ROUNDS / 10
        for tenant in TENANTS:
            replayed = replay(policy, base.decided(tenant))
            assert replayed.same
            assert replayed.asked > ROUNDS / 4


async def _call(
    base: MultiTenantStore, dice: random.Random, tenant: str, ids: list[str], mark: str
) -> tuple[dict[str, Any], bytes]:
    roles = dice.choice(ROLES) if dice.random() < 0.2 else ("admin",)
    tool, arguments = dice.choice(CALLS)(dice, ids, mark)
    who = Principal(actor=f"only-{tenant}-agent", tenant=tenant, roles=roles, trusted=False)
    return await base.call(who, tool, **arguments), bytes_of(arguments)


def _is_refusal(told: dict[str, Any]) -> bool:
    return bool(told.get("error") or told.get("code") or told.get("success") is False)


def _ids_in(told: Any) -> list[str]:
    """Ids that were told to anybody: everybody tries them from then on."""
    if isinstance(told, list):
        return [each for item in told[:20] for each in _ids_in(item)]
    if not isinstance(told, dict):
        return []
    found = [told[key] for key in ("id", "node_id", "root", "projectId") if isinstance(told.get(key), str)]
    return found + [each for value in told.values() for each in _ids_in(value)]
