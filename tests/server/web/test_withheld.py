"""Pages under a policy: complete for a visitor who reads everything, and marked as incomplete for anyone else."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from tallystick.policy import Principal
from tallystick.policy.embedded import Embedded
from tests.multi_tenant import MultiTenantStore, multi_tenant_store
from tests.server.web.pages import serving_store

pytestmark = pytest.mark.anyio

ADMIN = Principal(actor="root", tenant="acme", roles=("admin",), tool="memory.write")
AUDITOR = Principal(actor="olga", tenant="acme", roles=("auditor",))
READER = Principal(actor="bob", tenant="acme", roles=("reader",))
INTERN = Principal(actor="mallory", tenant="acme", roles=("reader",), tool="memory.write")
REFUSED = 24


async def written(base: MultiTenantStore) -> None:
    await base.node(ADMIN, "plan")
    for number in range(REFUSED):
        node = {"id": f"never-{number}", "type": "note", "attrs": {}}
        await base.refused(INTERN, "memory.write", op="UPSERT_NODE", node=node)


async def test_an_auditor_is_shown_every_refused_creation(tmp_path: Path) -> None:
    async with multi_tenant_store(tmp_path, Embedded("rbac")) as base:
        await written(base)
        async with serving_store(base, AUDITOR) as pages:
            found = await pages.json("/audit?outcome=denied")
            rows = list(csv.DictReader(io.StringIO((await pages.http.get("/audit?export=csv&outcome=denied")).text)))
            assert len(found["decisions"]["lines"]) == len(rows) == found["denials"]["total"] == REFUSED
            assert found["tally"]["denied"] == REFUSED
            assert {row["policy_version"] for row in rows} == {"rbac@2"}
            page = await pages.html("/audit?outcome=denied")
            assert f"{REFUSED} decisions in the last 24 hours, {REFUSED} denied; {REFUSED} shown" in page
            assert "withheld" not in page


@pytest.mark.parametrize("path", ["/", "/audit", "/governance", "/search", "/work", "/graph", "/entities/plan"])
async def test_pages_note_that_the_policy_may_withhold_entries(tmp_path: Path, path: str) -> None:
    async with multi_tenant_store(tmp_path, Embedded("rbac")) as base:
        await written(base)
        async with serving_store(base, READER) as pages:
            assert "withheld" in await pages.html(path)
        async with serving_store(base, AUDITOR) as pages:
            assert "withheld" not in await pages.html(path)


@pytest.mark.parametrize(("path", "words"), [("/", "are not counted here"), ("/graph", "They are not counted")])
async def test_pages_say_which_counts_are_left_out(tmp_path: Path, path: str, words: str) -> None:
    async with multi_tenant_store(tmp_path, Embedded("rbac")) as base:
        await written(base)
        async with serving_store(base, READER) as pages:
            assert words in await pages.html(path)
        async with serving_store(base, AUDITOR) as pages:
            assert words not in await pages.html(path)


async def test_a_visitor_who_reads_everything_can_forget_a_person(tmp_path: Path) -> None:
    async with multi_tenant_store(tmp_path, Embedded("rbac")) as base:
        await written(base)
        async with serving_store(base, AUDITOR) as pages:
            assert "Find what names them" in await pages.html("/governance")
        async with serving_store(base, READER) as pages:
            page = await pages.html("/governance")
            assert "Find what names them" not in page
            assert "Forget a person" in page
            assert "What waits to be erased" in page
