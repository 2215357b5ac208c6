"""What a search, a walk or a history comes across is told only as far as it may be read (L33)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tallystick.audit import Event, Narrowed
from tallystick.audit.proof import events
from tallystick.policy import Action, Decision, DistantPolicy, Policy, Principal, Request
from tallystick.toolsets import browse
from tests.multi_tenant import MultiTenantStore, bytes_of, multi_tenant_store
from tests.policy.gated_partition import AwaitedPolicy, Counting
from tests.promises import promise

ALICE = Principal(actor="alice", tenant="acme")
BOB = Principal(actor="bob", tenant="acme")


def secrets_are_their_owners(request: Request) -> bool:
    return request.resource_type != "secret" or request.resource_owner == request.principal.actor


class RulePolicy:
    def __init__(self) -> None:
        self.asked: list[Request] = []

    def decide(self, request: Request) -> Decision:
        self.asked.append(request)
        return Decision(secrets_are_their_owners(request), "by the rule", "local@1")


def policies() -> list[Policy | DistantPolicy]:
    return [RulePolicy(), AwaitedPolicy(secrets_are_their_owners)]


BOTH = pytest.mark.parametrize("policy", policies(), ids=["in process", "distant"])


async def plans(base: MultiTenantStore) -> None:
    """plan → hidden → goal, plan → open → goal: alice's secret is in the middle of one way."""
    for name, kind in (("plan", "note"), ("hidden", "secret"), ("open", "note"), ("goal", "note")):
        await base.node(ALICE, name, kind, said=f"about {name}")
    for source, target in (("plan", "hidden"), ("hidden", "goal"), ("plan", "open"), ("open", "goal")):
        await base.edge(ALICE, source, "leads_to", target)


def ids(told: dict[str, Any]) -> list[str]:
    return [entity["id"] for entity in told["entities"]]


@promise("OWASP API1, objects", "results are narrowed to what may be read")
@BOTH
async def test_a_search_tells_nothing_of_what_may_not_be_read(tmp_path: Path, policy: Policy | DistantPolicy) -> None:
    async with multi_tenant_store(tmp_path, policy) as base:
        await plans(base)
        told = await base.call(BOB, "memory.search")
        assert (ids(told), told["pagination"]["total"]) == (["plan", "open", "goal"], 3)
        assert b"hidden" not in bytes_of(told)
        assert len(ids(await base.call(ALICE, "memory.search"))) == 4
        assert ids(await base.call(BOB, "memory.search", type="secret")) == []


@promise("OWASP API3, counts", "totals do not count what is withheld")
@BOTH
async def test_pages_and_totals_are_those_of_what_may_be_read(tmp_path: Path, policy: Policy | DistantPolicy) -> None:
    async with multi_tenant_store(tmp_path, policy) as base:
        for number in range(60):
            await base.node(ALICE, f"n{number:02}", "note" if number % 10 == 0 else "secret")
        seen: list[str] = []
        offset: int | None = 0
        while offset is not None:
            page = await base.call(BOB, "memory.search", limit=2, offset=offset)
            seen += ids(page)
            assert page["pagination"]["total"] == min(6, offset + 3)
            assert page["pagination"].get("at_least", False) is (offset < 4)
            offset = page["pagination"]["next_offset"]
        assert seen == ["n00", "n10", "n20", "n30", "n40", "n50"]


@promise("OWASP API1, walks", "a walk does not lead through what may not be read")
@BOTH
async def test_a_walk_goes_round_what_may_not_be_read(tmp_path: Path, policy: Policy | DistantPolicy) -> None:
    async with multi_tenant_store(tmp_path, policy) as base:
        await plans(base)
        told = await base.call(BOB, "memory.search", entity_id="plan", traversal={"hops": 2})
        assert [path["path"] for path in told["paths"]] == [["plan", "open", "goal"]]
        assert (ids(told), told["edges_traversed"]) == (["open", "goal"], 2)
        only = await base.call(BOB, "memory.search", entity_id="hidden", traversal={"hops": 1})
        assert b"goal" not in bytes_of(only)


@promise("OWASP API3, withheld ends", "an edge does not tell of an end that may not be read")
@BOTH
async def test_edges_to_what_may_not_be_read_are_withheld(tmp_path: Path, policy: Policy | DistantPolicy) -> None:
    async with multi_tenant_store(tmp_path, policy) as base:
        await plans(base)
        told = await base.call(BOB, "memory.read", entity_id="plan", include_edges=True)
        assert [edge["to"] for edge in told["edges"]] == ["open"]
        assert (await base.call(BOB, "memory.read", entity_id="plan|leads_to|hidden"))["entity"] is None
        assert (await base.call(BOB, "memory.read", entity_id="plan|leads_to|open"))["entity"] is not None


@promise("OWASP API1, histories", "a history does not tell of neighbours that may not be read")
@BOTH
async def test_a_full_history_leaves_out_edges_to_what_may_not_be_read(
    tmp_path: Path, policy: Policy | DistantPolicy
) -> None:
    async with multi_tenant_store(tmp_path, policy) as base:
        await plans(base)
        for form in ("json", "csv", "openlineage_v1"):
            told = await base.call(BOB, "memory.lineage", entity_id="plan", depth="full", export_format=form)
            assert b"hidden" not in bytes_of(told), form
            assert told["pagination"]["total"] == 2
        assert (await base.call(ALICE, "memory.lineage", entity_id="plan", depth="full"))["pagination"]["total"] == 3
        edge = await base.call(BOB, "memory.lineage", entity_id="plan|leads_to|hidden")
        assert edge["error"] == "ENTITY_NOT_FOUND"


@BOTH
async def test_a_summary_counts_nothing_that_is_withheld(tmp_path: Path, policy: Policy | DistantPolicy) -> None:
    async with multi_tenant_store(tmp_path, policy) as base:
        await plans(base)
        await base.edge(ALICE, "plan", "leads_to", "hidden")
        for who in (ALICE, BOB):
            told = await base.call(who, "memory.lineage", entity_id="plan", depth="summary")
            assert (told["summary"]["modification_count"], told["summary"]["unique_actors"]) == (1, 1)
        edge = await base.call(BOB, "memory.lineage", entity_id="plan|leads_to|hidden", depth="summary")
        assert (edge["error"], "summary" in edge) == ("ENTITY_NOT_FOUND", False)


@promise("OWASP API1, deleted", "deleting something does not open its past")
@BOTH
async def test_what_was_deleted_is_judged_by_what_it_was(tmp_path: Path, policy: Policy | DistantPolicy) -> None:
    async with multi_tenant_store(tmp_path, policy) as base:
        await base.node(ALICE, "hidden", "secret", said="once")
        position = (await base.call(ALICE, "memory.read", entity_id="hidden"))["position"]
        await base.call(ALICE, "memory.write", op="DELETE_NODE", node_id="hidden")
        for tool, more in (("memory.read", {"as_of": position}), ("memory.lineage", {})):
            told = await base.call(BOB, tool, entity_id="hidden", **more)
            assert told["error"] == "AUTHORIZATION_DENIED", tool
        assert ids(await base.call(BOB, "memory.search", as_of=position)) == []
        assert ids(await base.call(ALICE, "memory.search", as_of=position)) == ["hidden"]


async def typed(base: MultiTenantStore) -> dict[str, str]:
    """Two memory nodes of different types, joined; alice's own."""
    cites = {"name": "cites", "from_types": ["note"], "to_types": ["secret"]}
    types = {"node_types": ["note", "secret"], "connection_types": [cites]}
    told = await base.call(ALICE, "create_ontology", **types)
    assert told.get("ok"), told
    made: dict[str, str] = {}
    for kind in ("note", "secret"):
        told = await base.call(
            ALICE, "create_node", type=kind, content=kind, encoding="utf-8", format="md", properties={}
        )
        made[kind] = told["node_id"]
    told = await base.call(
        ALICE, "create_connection", type="cites", from_node_id=made["note"], to_node_id=made["secret"]
    )
    return made | {"cites": told["connection_id"]}


@promise("L33, typed memory", "typed memory is listed as far as it may be read")
@BOTH
async def test_typed_memory_is_listed_as_far_as_it_may_be_read(tmp_path: Path, policy: Policy | DistantPolicy) -> None:
    async with multi_tenant_store(tmp_path, policy) as base:
        made = await typed(base)
        assert await base.call(BOB, "query_nodes") == {"node_ids": [made["note"]]}
        assert await base.call(BOB, "query_connections") == {"connection_ids": []}
        assert await base.call(BOB, "get_connected_nodes", node_id=made["note"], direction="out") == {"node_ids": []}
        assert (await base.refused(BOB, "get_connection", connection_id=made["cites"])).error.code == (
            "CONNECTION_NOT_FOUND"
        )
        assert await base.call(ALICE, "query_connections") == {"connection_ids": [made["cites"]]}
        assert await base.call(ALICE, "get_connected_nodes", node_id=made["note"], direction="out") == {
            "node_ids": [made["secret"]]
        }


@BOTH
async def test_typed_memory_that_was_not_counted_to_its_end_has_a_lower_bound(
    tmp_path: Path, policy: Policy | DistantPolicy
) -> None:
    async with multi_tenant_store(tmp_path, policy) as base:
        await typed(base)
        for _ in range(2):
            await base.call(
                ALICE, "create_node", type="note", content="x", encoding="utf-8", format="md", properties={}
            )
        first = await base.call(BOB, "query_nodes", limit=1)
        assert (first["total"], first["at_least"]) == (2, True)
        assert "at_least" not in await base.call(BOB, "query_nodes", limit=1, offset=2)


@BOTH
async def test_completions_reach_back_to_what_may_be_read(
    tmp_path: Path, policy: Policy | DistantPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browse, "_SCANNED", 2)
    async with multi_tenant_store(tmp_path, policy) as base:
        await base.node(ALICE, "old-note")
        for number in range(5):
            await base.node(ALICE, f"secret-{number}", "secret")
        found = await browse.choices(base.store, BOB, "id", "")
        assert (found.values, found.has_more) == (["old-note"], False)


async def test_completions_that_were_not_all_compared_have_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with multi_tenant_store(tmp_path, RulePolicy()) as base:
        for name in ("a-note", "b-note", "note-c", "note-d"):
            await base.node(ALICE, name)
        assert (await browse.choices(base.store, BOB, "id", "note")).has_more is False
        monkeypatch.setattr(browse, "_MATCHING_MAX", 1)
        assert (await browse.choices(base.store, BOB, "id", "note")).has_more is True
        assert (await browse.choices(base.store, BOB, "id", "-note")).has_more is True


async def test_what_was_withheld_is_written_down(tmp_path: Path) -> None:
    async with multi_tenant_store(tmp_path, RulePolicy()) as base:
        await plans(base)
        await base.call(BOB, "memory.search")
        base.audit.flush()
        told = [event for _, event in events(tmp_path / "acme" / "audit", Event) if isinstance(event, Narrowed)]
        assert [(event.found, event.withheld, event.resources_withheld) for event in told] == [(4, 1, ("hidden",))]


@promise("L33, alone", "one local user pays nothing for it")
async def test_a_policy_that_narrows_nothing_is_asked_once_for_a_search(tmp_path: Path) -> None:
    policy = Counting("single-user")
    async with multi_tenant_store(tmp_path, policy) as base:
        await plans(base)
        before = policy.asked
        assert len(ids(await base.call(BOB, "memory.search"))) == 4
        assert policy.asked == before + 1


async def test_the_decision_on_the_search_itself_comes_first(tmp_path: Path) -> None:
    async with multi_tenant_store(tmp_path, AwaitedPolicy(lambda request: request.action is not Action.SEARCH)) as base:
        await base.node(ALICE, "plan")
        assert (await base.call(BOB, "memory.search"))["error"] == "AUTHORIZATION_DENIED"
