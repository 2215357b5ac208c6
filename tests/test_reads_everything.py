"""A policy can grant a principal READ on everything: then counts are complete, and changes are still decided on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import Denied
from tallystick.policy import Principal
from tallystick.policy.embedded import Embedded
from tests.multi_tenant import MultiTenantStore, multi_tenant_store
from tests.test_touched import put, write

ADMIN = Principal(actor="root", tenant="acme", roles=("admin",))
AUDITOR = Principal(actor="olga", tenant="acme", roles=("auditor",))
READER = Principal(actor="bob", tenant="acme", roles=("reader",))
KEEPER = Principal(actor="kim", tenant="acme", roles=("keeper",))

KEEPERS = """package tallystick.keepers

import rego.v1

decision := {"result": allow, "reason": "keepers", "policy_version": "keepers@1", "reads_everything": true}

default allow := true

allow := false if {
	input.action in {"WRITE", "DELETE"}
	input.resource_owner == "root"
	input.actor != "root"
}
"""


async def facets(base: MultiTenantStore, who: Principal) -> list[dict[str, Any]]:
    found = await base.call(who, "memory.search", facets=True)
    return [{**each, "example": None} for each in found["facets"]["types"]]


async def test_rbac_counts_everything_for_admins_and_auditors(tmp_path: Path) -> None:
    async with multi_tenant_store(tmp_path, Embedded("rbac")) as base:
        for number in range(3):
            await base.node(ADMIN, f"n{number}")
        for who in (ADMIN, AUDITOR):
            assert await facets(base, who) == [{"name": "note", "count": 3, "example": None}]
            page = await base.call(who, "memory.search", limit=1)
            assert page["pagination"]["total"] == 3
        assert await facets(base, READER) == [{"name": "note", "example": None}]


async def test_a_principal_who_reads_everything_still_may_not_change_it(tmp_path: Path) -> None:
    policy = tmp_path / "keepers.rego"
    policy.write_text(KEEPERS)
    async with multi_tenant_store(tmp_path / "base", Embedded(str(policy))) as base:
        await base.node(ADMIN, "hers")
        await base.node(KEEPER, "his")
        with pytest.raises(Denied, match="cannot WRITE resource 'hers'"):
            await write(base, KEEPER, [put("his"), put("hers")], resource="his")
        await write(base, KEEPER, [put("his"), put("new")], resource="his")
        told = await base.refused(KEEPER, "memory.write", op="DELETE_NODE", node_id="hers")
        assert "owned by 'root'" in told.shape["message"]
