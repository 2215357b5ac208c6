"""Everything that a draft would change is asked about, whatever the call was about: one denial refuses it whole."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tallystick.commits import Draft, Operation, Verb
from tallystick.engine.partition import Receipt
from tallystick.errors import Denied, LimitExceeded
from tallystick.policy import Action, Decision, Principal, Request, gate
from tallystick.policy.embedded import Embedded
from tallystick.policy.replay import replay
from tallystick.state.state import State
from tests.multi_tenant import MultiTenantStore, multi_tenant_store
from tests.policy.gated_partition import AwaitedPolicy, Counting
from tests.promises import promise

ALICE = Principal(actor="alice", tenant="acme", tool="test", roles=("writer",))
BOB = Principal(actor="bob", tenant="acme", tool="test", roles=("writer",))


def rule(request: Request) -> bool:
    """Sealed things are read only, secrets are their owner's, and only owners delete."""
    if request.resource_owner in (None, request.principal.actor):
        return True
    if request.action is Action.READ:
        return request.resource_type != "secret"
    return request.action is Action.WRITE and request.resource_type not in ("sealed", "secret")


class RulePolicy:
    def __init__(self) -> None:
        self.asked: list[Request] = []

    def decide(self, request: Request) -> Decision:
        self.asked.append(request)
        return Decision(rule(request), "by the rule", "local@1")


BOTH = pytest.mark.parametrize("make", [RulePolicy, lambda: AwaitedPolicy(rule)], ids=["in process", "distant"])
Make = Any


def put(node_id: str, kind: str = "note") -> Operation:
    return Operation(Verb.UPSERT_NODE, {"id": node_id, "type": kind, "attrs": {"said": "again"}})


def delete(node_id: str) -> Operation:
    return Operation(Verb.DELETE_NODE, {"node_id": node_id})


def redact(node_id: str) -> Operation:
    return Operation(Verb.REDACT_NODE, {"node_id": node_id, "reason": "asked for"})


def link(source: str, target: str, verb: Verb = Verb.UPSERT_EDGE, **more: Any) -> Operation:
    attrs: dict[str, Any] = {"attrs": {}} if verb is Verb.UPSERT_EDGE else {}
    return Operation(verb, {"from": source, "rel": "leads_to", "to": target, **attrs, **more})


async def write(
    base: MultiTenantStore, who: Principal, operations: Iterable[Operation], action: Action = Action.WRITE, **where: Any
) -> Receipt:
    draft = Draft(tuple(operations), actor=who.actor, tool="test")
    return await base.store.write(who, action, lambda state, read_filter: draft, **where)


async def position(base: MultiTenantStore) -> int:
    return (await base.store.partition(ALICE)).position


async def write_sample(base: MultiTenantStore) -> None:
    """Alice's: an open note, a sealed one, a secret, and a way from the note to the sealed one."""
    made = [put("open"), put("sealed", "sealed"), put("secret", "secret"), link("open", "sealed")]
    await write(base, ALICE, [*made, link("sealed", "secret")])


REFUSED = {
    "it writes what may not be written": ([put("mine"), put("sealed")], "WRITE", "sealed"),
    "it deletes what others own": ([link("open", "sealed", Verb.DELETE_EDGE), delete("open")], "DELETE", "open"),
    "it redacts what others own": ([put("mine"), redact("open")], "DELETE", "open"),
    "it makes anew what others own": (
        [link("open", "sealed", Verb.DELETE_EDGE), delete("open"), put("open")],
        "DELETE",
        "open",
    ),
    "it adds an edge to what may not be written": ([put("mine"), link("sealed", "mine")], "WRITE", "sealed"),
    "it takes an edge from what may not be written": (
        [put("mine"), link("sealed", "secret", Verb.DELETE_EDGE)],
        "WRITE",
        "sealed",
    ),
}


@promise("FR-003, everything touched", "one denial refuses a draft whole, whatever it was about")
@BOTH
@pytest.mark.parametrize("why", REFUSED)
async def test_a_draft_is_refused_whole_if(tmp_path: Path, make: Make, why: str) -> None:
    operations, action, resource = REFUSED[why]
    async with multi_tenant_store(tmp_path, make()) as base:
        await write_sample(base)
        before = await position(base)
        with pytest.raises(Denied) as no:
            await write(base, BOB, operations)
        assert no.value.message == f"actor 'bob' cannot {action} resource '{resource}' (owned by 'alice')"
        assert no.value.details["policy_decision"]["reason"] == "by the rule"
        assert await position(base) == before
        told = [(event.action, event.resource, event.decision) for _, event in base.decided("acme")][-2:]
        assert told == [("WRITE", None, True), (action, resource, False)]


ACCEPTED = {
    "it makes something": [put("mine"), put("mine"), link("mine", "sealed")],
    "it writes what others let it write": [put("open"), link("open", "sealed")],
    "it deletes its own, with edges of others": [
        link("sealed", "bobs", Verb.DELETE_EDGE),
        link("bobs", "open", Verb.DELETE_EDGE),
        delete("bobs"),
    ],
}


@BOTH
@pytest.mark.parametrize("why", ACCEPTED)
async def test_a_draft_is_accepted_if(tmp_path: Path, make: Make, why: str) -> None:
    async with multi_tenant_store(tmp_path, make()) as base:
        await write_sample(base)
        await write(base, BOB, [put("bobs")])
        await write(base, ALICE, [link("sealed", "bobs"), link("bobs", "open")])
        assert len((await write(base, BOB, ACCEPTED[why])).commits) == len(ACCEPTED[why])


@promise("FR-003, unsaid", "a refusal does not name what may not be read")
@BOTH
async def test_what_may_not_be_read_is_not_named_in_the_refusal(tmp_path: Path, make: Make) -> None:
    async with multi_tenant_store(tmp_path, make()) as base:
        await write_sample(base)
        with pytest.raises(Denied) as no:
            await write(base, BOB, [put("mine"), put("secret")])
        assert no.value.message == "actor 'bob' cannot WRITE something that this would change"
        assert "secret" not in str(no.value.details)
        assert base.decided("acme")[-1][1].resource == "secret"


@BOTH
async def test_what_the_call_was_about_is_asked_about_once(tmp_path: Path, make: Make) -> None:
    policy = make()
    async with multi_tenant_store(tmp_path, policy) as base:
        await write(base, ALICE, [put("plan"), put("other")])
        policy.asked.clear()
        await write(base, ALICE, [put("plan"), put("other"), put("new")], resource="plan")
        asked = [(request.action, request.resource, request.written_type) for request in policy.asked]
        assert asked == [
            (Action.WRITE, "plan", None),
            (Action.READ, "plan", None),
            (Action.WRITE, "other", "note"),
            (Action.WRITE, None, "note"),
        ]


@BOTH
async def test_a_call_that_was_to_write_does_not_delete_unasked(tmp_path: Path, make: Make) -> None:
    async with multi_tenant_store(tmp_path, make()) as base:
        await write(base, ALICE, [put("plan")])
        with pytest.raises(Denied, match="cannot DELETE resource 'plan'"):
            await write(base, BOB, [delete("plan")], Action.WRITE, resource="plan")


@promise("FR-003, several replay", "what was changed is written down one by one, and replays")
async def test_what_was_changed_is_written_down_one_by_one_and_replays(tmp_path: Path) -> None:
    policy = Embedded("rbac")
    async with multi_tenant_store(tmp_path, policy) as base:
        await write(base, ALICE, [put(f"n{number}") for number in range(5)])
        await write(base, BOB, [put(f"n{number}") for number in range(5)])
        with pytest.raises(Denied, match="cannot DELETE resource 'n1'"):
            await write(base, BOB, [put("n0"), delete("n1")])
        decided = base.decided("acme")
        told = [(event.actor, event.action, event.resource, event.decision) for _, event in decided]
        assert told == [
            ("alice", "WRITE", None, True),
            ("alice", "WRITE", None, True),
            ("bob", "WRITE", None, True),
            *(("bob", "WRITE", f"n{number}", True) for number in range(5)),
            ("bob", "WRITE", None, True),
            ("bob", "DELETE", "n1", False),
        ]
        again = replay(policy, decided)
        assert (again.asked, again.same) == (len(decided), True)


async def test_a_policy_that_narrows_nothing_is_asked_once_for_a_draft(tmp_path: Path) -> None:
    policy = Counting("single-user")
    async with multi_tenant_store(tmp_path, policy) as base:
        for _ in range(2):
            await write(base, ALICE, [put(f"n{number}") for number in range(50)])
        assert policy.asked == 2


@pytest.mark.parametrize("head_ms", [0.0, 1_000.0], ids=["all asked before the head", "all decided at it"])
async def test_many_are_each_asked_about_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head_ms: float) -> None:
    monkeypatch.setattr(gate, "AT_THE_HEAD_MS", head_ms)
    policy = RulePolicy()
    names = [f"n{number}" for number in range(300)]
    async with multi_tenant_store(tmp_path, policy) as base:
        await write(base, ALICE, map(put, names))
        policy.asked.clear()
        await write(base, BOB, map(put, names))
        assert [request.resource for request in policy.asked] == [None, *names]


async def test_more_than_can_be_asked_about_is_refused_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "TOUCHED_MAX", 10)
    async with multi_tenant_store(tmp_path, RulePolicy()) as base:
        await write(base, ALICE, [put(f"n{number}") for number in range(11)])
        before = await position(base)
        with pytest.raises(LimitExceeded, match="change 11 things") as no:
            await write(base, BOB, [put(f"n{number}") for number in range(11)])
        assert (no.value.hint, await position(base)) == ("do it in parts", before)
        await write(base, BOB, [put(f"n{number}") for number in range(10)])


async def test_what_changes_hands_while_a_distant_policy_is_asked_is_asked_about_again(tmp_path: Path) -> None:
    policy = AwaitedPolicy(rule)
    async with multi_tenant_store(tmp_path, policy) as base:
        await write(base, BOB, [put("plan")])
        partition = await base.store.partition(ALICE)

        async def stolen() -> None:
            """Behind the gate's back, as another process would."""
            if policy.asked[-1].resource == "plan":
                policy.meanwhile = None
                await partition.commit(lambda state: Draft((delete("plan"), put("plan")), "alice", "test"))

        policy.meanwhile = stolen
        with pytest.raises(Denied, match="'plan' \\(owned by 'alice'\\)"):
            await write(base, BOB, [put("mine"), delete("plan")])


# -- edges have owners too


@promise("FR-003, edges", "an edge is deleted by its owner only")
@pytest.mark.parametrize("named", [{"edge_id": "e1"}, {"edge": {"from": "a", "rel": "leads_to", "to": "b"}}])
async def test_an_edge_is_deleted_by_its_owner_only(tmp_path: Path, named: dict[str, Any]) -> None:
    async with multi_tenant_store(tmp_path, Embedded("rbac")) as base:
        await write(base, BOB, [put("a"), put("b")])
        await write(base, ALICE, [link("a", "b"), link("a", "b", id="e1")])
        await write(base, BOB, [link("a", "b"), link("a", "b", id="e1")])
        refused = await base.refused(BOB, "memory.write", op="DELETE_EDGE", **named)
        edge_id = named.get("edge_id", "a|leads_to|b")
        assert refused.error.message == f"actor 'bob' cannot DELETE resource '{edge_id}' (owned by 'alice')"
        assert base.decided("acme")[-1][1].resource_type == "leads_to"
        assert "commit_id" in await base.call(ALICE, "memory.write", op="DELETE_EDGE", **named)


async def test_an_edge_that_is_made_again_is_its_new_makers(tmp_path: Path) -> None:
    async with multi_tenant_store(tmp_path, Embedded("rbac")) as base:
        await write(base, ALICE, [put("a"), put("b"), link("a", "b"), link("a", "b", Verb.DELETE_EDGE)])
        await write(base, BOB, [link("a", "b")])
        owner = await (await base.store.partition(BOB)).look(lambda state: state.edge_owner("a|leads_to|b"))
        assert owner == ("leads_to", "bob")


def test_nobody_owns_an_edge_that_is_not_there() -> None:
    state = State(lambda offset, checked=True: b"")
    assert (state.edge_owner("a|leads_to|b"), state.last_edge_owner("e1")) == (None, None)
