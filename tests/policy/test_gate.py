"""The gate: decided about what is true at the head, kept for a while, written down once."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tallystick.audit import Decided, Event, Incident, Narrowed
from tallystick.audit.files import AuditFiles
from tallystick.audit.proof import events, verify_audit
from tallystick.audit.writer import AuditWriter
from tallystick.commits import Draft, Operation, Verb
from tallystick.errors import Conflict, Denied, LimitExceeded, NotFound
from tallystick.policy import Action, Decision, DistantPolicy, Policy, Principal, Request, ResourceFacts, denial, gate
from tallystick.policy.cache import Cache
from tallystick.policy.embedded import Embedded
from tallystick.policy.gate import ATTEMPTS_MAX, Authorization, DecisionPending, Gate
from tallystick.policy.replay import replay
from tests.policy.gated_partition import AwaitedPolicy, GatedPartition
from tests.promises import promise

ALICE = Principal(actor="alice", roles=("writer",), tool="memory.write")
BOB = Principal(actor="bob", roles=("writer",), tool="memory.write")
ROOT = Principal(actor="root", roles=("admin",))


@asynccontextmanager
async def gated(policy: Policy | DistantPolicy, home: Path, **kwargs: Any) -> AsyncIterator[GatedPartition]:
    store = GatedPartition(policy, home, **kwargs)
    await store.partition.open()
    try:
        yield store
    finally:
        await store.close()


class Counting:
    """A policy in process that counts how often it is asked."""

    def __init__(self, rule: Callable[[Request], Decision]) -> None:
        self.rule = rule
        self.asked = 0

    def decide(self, request: Request) -> Decision:
        self.asked += 1
        return self.rule(request)


def yes(version: str = "v1") -> Decision:
    return Decision(True, "yes", version)


@promise("L25, denial", "a denied write says who, what and whose, and leaves the log untouched")
async def test_a_denied_write_leaves_the_log_untouched_and_says_why(tmp_path: Path) -> None:
    async with gated(Embedded("rbac"), tmp_path) as store:
        await store.put(ALICE, "entity_789")
        position = store.partition.position
        with pytest.raises(
            Denied, match="actor 'bob' cannot DELETE resource 'entity_789' \\(owned by 'alice'\\)"
        ) as no:
            await store.delete(BOB, "entity_789")
        assert no.value.details == {
            "policy_decision": {
                "result": False,
                "reason": "actor lacks delete permission on non-owned entities",
                "policy_version": "rbac@2",
            },
            "status": 403,
        }
        assert store.partition.position == position


async def test_an_allowed_write_carries_the_version_of_the_policy(tmp_path: Path) -> None:
    async with gated(Embedded("rbac"), tmp_path) as store:
        receipt = await store.put(ALICE, "plan")
    assert receipt.commits[0].policy_version == "rbac@2"


async def test_a_decision_is_written_down_with_all_that_was_asked(tmp_path: Path) -> None:
    principal = Principal("alice", "default", ("writer",), tool="memory.read", ip_address="10.0.0.1")
    async with gated(Embedded("rbac"), tmp_path) as store:
        await store.put(ALICE, "plan")
        await store.read(principal, lambda state: None, "plan")
        event = store.decided()[-1]
    assert event.latency_ms < 1000
    assert event == Decided(
        timestamp="2025-01-04T12:00:00.000Z",
        tenant="default",
        actor="alice",
        actor_roles=("writer",),
        action="READ",
        resource="plan",
        resource_type="note",
        resource_owner="alice",
        resource_owner_tenant="default",
        tool="memory.read",
        ip_address="10.0.0.1",
        decision=True,
        reason="role writer may READ",
        policy_version="rbac@2",
        latency_ms=event.latency_ms,
        cache_hit=False,
    )


async def test_a_denial_is_on_the_disk_before_it_is_answered(tmp_path: Path) -> None:
    async with gated(Embedded("closed"), tmp_path) as store:
        with pytest.raises(Denied):
            await store.read(BOB, lambda state: None, "plan")
        assert [event.name for _, event in events(tmp_path / "default", Event)] == ["AUDIT_FILE", "AUTHZ_DECISION"]


async def test_a_question_that_fails_later_was_still_decided(tmp_path: Path) -> None:
    def look(state: object) -> None:
        raise NotFound("no such plan")

    async with gated(Embedded("rbac"), tmp_path) as store:
        with pytest.raises(NotFound):
            await store.read(ALICE, look, "plan")
        assert [event.decision for event in store.decided()] == [True]


async def test_a_draft_that_is_judged_twice_is_decided_and_written_down_once(tmp_path: Path) -> None:
    policy = Counting(lambda request: yes())
    async with gated(policy, tmp_path) as store:
        authorization = Authorization(store.gate, ALICE, Action.WRITE, "plan")

        async def attempt() -> None:
            authorization.decide(ResourceFacts())
            authorization.decide(ResourceFacts())

        await authorization.through(attempt)
        assert policy.asked == 1
        assert len(store.decided()) == 1


# -- a policy that has to be awaited


def owner_only(request: Request) -> bool:
    return request.action is not Action.DELETE or request.resource_owner == request.principal.actor


async def test_a_distant_policy_is_asked_once_and_before_the_head(tmp_path: Path) -> None:
    policy = AwaitedPolicy(owner_only)
    async with gated(policy, tmp_path) as store:
        await store.put(ALICE, "plan")
        assert (await store.delete(ALICE, "plan")).commits[0].policy_version == "distant@1"
        assert [request.resource_owner for request in policy.asked] == [None, "alice"]


async def test_a_resource_that_changes_hands_meanwhile_is_asked_about_again(tmp_path: Path) -> None:
    policy = AwaitedPolicy(owner_only)
    async with gated(policy, tmp_path) as store:
        await store.put(ALICE, "plan")

        async def stolen() -> None:
            """Behind the gate's back, as another process would."""
            policy.meanwhile = None
            operations = (
                Operation(Verb.DELETE_NODE, {"node_id": "plan"}),
                Operation(Verb.UPSERT_NODE, {"id": "plan", "type": "note", "attrs": {}}),
            )
            await store.partition.commit(lambda state: Draft(operations, "bob", "test"))

        policy.meanwhile = stolen
        position = store.partition.position
        with pytest.raises(Denied, match="owned by 'bob'"):
            await store.delete(ALICE, "plan")
        assert store.partition.position == position + 2
        assert [(request.action.value, request.resource_owner) for request in policy.asked] == [
            ("WRITE", None),
            ("DELETE", "alice"),
            ("DELETE", "bob"),
            ("READ", "bob"),  # Whether its owner may be told.
        ]
        assert [(event.resource_owner, event.decision) for event in store.decided()][1:] == [("bob", False)]


async def test_a_resource_that_never_rests_is_given_up(tmp_path: Path) -> None:
    policy = AwaitedPolicy(lambda request: True)
    async with gated(policy, tmp_path) as store:
        number = 0

        async def changed() -> None:
            nonlocal number
            number += 1
            node = Operation(Verb.UPSERT_NODE, {"id": "plan", "type": f"type-{number}", "attrs": {}})
            await store.partition.commit(lambda state: Draft((node,), "bob", "test"))

        policy.meanwhile = changed
        with pytest.raises(Conflict, match="kept changing"):
            await store.put(ALICE, "plan")
        assert len(policy.asked) == ATTEMPTS_MAX + 1


# -- kept decisions


async def test_a_repeated_question_is_answered_from_the_cache_and_says_so(tmp_path: Path) -> None:
    policy = Counting(lambda request: yes())
    async with gated(policy, tmp_path) as store:
        for _ in range(100):
            await store.read(ALICE, lambda state: None, "plan")
        hits = [event.cache_hit for event in store.decided()]
    assert (policy.asked, len(hits), sum(hits)) == (1, 100, 99)


@promise("L32", "a write forgets what was decided about the resource")
async def test_a_write_forgets_what_was_decided_about_the_resource(tmp_path: Path) -> None:
    policy = Counting(lambda request: yes())
    async with gated(policy, tmp_path) as store:
        await store.put(ALICE, "plan")
        await store.read(BOB, lambda state: None, "plan")
        await store.put(ALICE, "plan")
        before = policy.asked
        await store.read(BOB, lambda state: None, "plan")
        assert policy.asked == before + 1


def asked_by(principal: Principal) -> Request:
    return Request(principal, Action.READ, "plan", "note", "alice", "default")


@pytest.mark.parametrize(
    "other",
    [
        asked_by(BOB),
        asked_by(replace(ALICE, roles=("reader",))),
        asked_by(replace(ALICE, tenant="acme")),
        Request(ALICE, Action.WRITE, "plan", "note", "alice", "default"),
        Request(ALICE, Action.READ, "other", "note", "alice", "default"),
        Request(ALICE, Action.READ, "plan", "task", "alice", "default"),
        Request(ALICE, Action.READ, "plan", "note", "bob", "default"),
        Request(ALICE, Action.READ, "plan", "note", "alice", "acme"),
        asked_by(replace(ALICE, tool="memory.read")),
    ],
    ids=["actor", "roles", "tenant", "action", "resource", "type", "owner", "owner tenant", "tool"],
)  # fmt: skip
def test_another_question_is_another_entry(other: Request) -> None:
    cache = Cache()
    cache.keep(asked_by(ALICE), yes())
    assert cache.find(replace(asked_by(ALICE), timestamp="later")) == yes()
    assert cache.find(other) is None


def test_kept_decisions_expire() -> None:
    now = 0.0
    cache = Cache(seconds=300, clock=lambda: now)
    request = Request(ALICE, Action.READ, "plan")
    cache.keep(request, yes())
    now = 299.9
    assert cache.find(request) == yes()
    now = 300.0
    assert cache.find(request) is None


def test_a_new_version_of_the_policy_empties_the_cache() -> None:
    cache = Cache()
    cache.keep(Request(ALICE, Action.READ, "plan"), yes("v1"))
    cache.keep(Request(BOB, Action.READ, "plan"), yes("v2"))
    assert cache.find(Request(ALICE, Action.READ, "plan")) is None
    assert cache.find(Request(BOB, Action.READ, "plan")) == yes("v2")


def test_failures_and_momentary_answers_are_not_kept() -> None:
    cache = Cache()
    cache.keep(Request(ALICE, Action.READ), denial("timeout", "too slow", "v1"))
    cache.keep(Request(BOB, Action.READ), Decision(True, "now", "v1", cacheable=False))
    assert len(cache) == 0


def test_the_cache_keeps_to_its_size() -> None:
    cache = Cache(entries_max=10)
    for number in range(100):
        cache.keep(Request(ALICE, Action.READ, f"plan-{number}"), yes())
    assert len(cache) == 10
    assert cache.find(Request(ALICE, Action.READ, "plan-99")) == yes()


async def test_a_changed_policy_file_takes_effect_and_a_broken_one_does_not(tmp_path: Path) -> None:
    file = tmp_path / "own.rego"
    rule = 'package own\nimport rego.v1\ndecision := {{"result": {}, "reason": "", "policy_version": "{}"}}\n'
    file.write_text(rule.format("true", "v1"))
    async with gated(Embedded(str(file)), tmp_path / "audit") as store:
        await store.read(ALICE, lambda state: None, "plan")
        file.write_text(rule.format("false", "v2.0"))
        store.gate.reload()
        with pytest.raises(Denied) as no:
            await store.read(ALICE, lambda state: None, "plan")
        assert no.value.details["policy_decision"]["policy_version"] == "v2.0"
        file.write_text("package own\ndecision := {")
        store.gate.reload()
        with pytest.raises(Denied):
            await store.read(ALICE, lambda state: None, "plan")
        assert [event.policy_version for event in store.decided()] == ["v1", "v2.0", "v2.0"]


async def test_a_write_forgets_what_was_decided_about_everything_it_changed(tmp_path: Path) -> None:
    policy = Counting(lambda request: yes())
    plan = ResourceFacts("note", "alice", "default")
    async with gated(policy, tmp_path) as store:
        authorization = Authorization(store.gate, ALICE, Action.WRITE)

        async def attempt() -> None:
            authorization.decide(ResourceFacts())
            authorization.decide_all([(Action.WRITE, "plan", plan, None)])

        for _ in range(2):
            Authorization(store.gate, BOB, Action.READ, "plan").decide(plan)
        assert policy.asked == 1
        await authorization.through(attempt)
        before = policy.asked
        Authorization(store.gate, BOB, Action.READ, "plan").decide(plan)
        assert policy.asked == before + 1


# -- narrowing


@pytest.mark.parametrize("distant", [False, True])
async def test_what_was_found_is_narrowed_to_what_may_be_read(tmp_path: Path, distant: bool) -> None:
    def rule(request: Request) -> bool:
        return request.resource_owner == "alice" and request.action is Action.READ

    policy = AwaitedPolicy(rule) if distant else Counting(lambda request: Decision(rule(request), "", "v1"))
    things = [(f"n{number}", ("note", "alice" if number % 3 else "bob")) for number in range(250)]
    async with gated(policy, tmp_path) as store:
        authorization = Authorization(store.gate, ALICE, Action.SEARCH)

        async def look() -> list[str]:
            unknown = [thing for thing in things if authorization.may_read(*thing) is None]
            if unknown:
                raise DecisionPending([authorization.read_question(*thing) for thing in unknown])
            return [thing[0] for thing in things if authorization.may_read(*thing)]

        allowed = await authorization.through(look)
        assert allowed == [name for name, (_, owner) in things if owner == "alice"]
        (event,) = store.audited()
    assert isinstance(event, Narrowed)
    assert (event.actor, event.found, event.withheld, event.tool) == ("alice", 250, 84, "memory.write")
    assert event.resources_withheld[:2] == ("n0", "n3")


async def test_what_an_attempt_comes_across_is_not_asked_about_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "PATIENCE_SECONDS", -1.0)
    policy = AwaitedPolicy(lambda request: True)
    async with gated(policy, tmp_path) as store:
        authorization = Authorization(store.gate, ALICE, Action.SEARCH)

        async def look() -> None:
            raise DecisionPending([(Action.READ, f"n{len(policy.asked)}", ResourceFacts(), None)])

        with pytest.raises(LimitExceeded) as no:
            await authorization.through(look)
    assert (no.value.code, policy.asked) == ("QUERY_TIMEOUT", [])


# -- when the engine fails


async def test_an_engine_that_fails_denies_and_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    policy = Counting(lambda request: denial("timeout", "too slow", "v1"))
    async with gated(policy, tmp_path) as store:
        for _ in range(3):
            with pytest.raises(Denied):
                await store.read(ALICE, lambda state: None, "plan")
        found = store.audited()
    assert policy.asked == 3
    assert [event.fault for event in found if isinstance(event, Decided)] == ["timeout"] * 3
    assert [(event.kind, event.detail) for event in found if isinstance(event, Incident)] == [("timeout", "too slow")]
    assert len([record for record in caplog.records if "policy incident" in record.message]) == 1


@promise("L30, slow", "a slow decision is let through with a warning")
async def test_a_slow_decision_is_let_through_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate(Counting(lambda request: yes()), slo_ms=0.0)
    authorization = Authorization(gate, ALICE, Action.READ)

    async def attempt() -> bool:
        return authorization.decide(ResourceFacts()).allowed

    with caplog.at_level(logging.WARNING):
        assert await authorization.through(attempt)
    assert "a policy decision took" in caplog.text


@pytest.mark.parametrize(("strict", "second"), [(False, True), (True, False)])
def test_a_strict_gate_denies_while_nothing_can_be_written_down(tmp_path: Path, strict: bool, second: bool) -> None:
    (tmp_path / "file").write_text("in the way")
    audit = AuditWriter(lambda tenant: AuditFiles(tmp_path / "file" / tenant))
    gate = Gate(Counting(lambda request: yes()), audit=audit, strict_audit=strict)
    for allowed in (True, second):
        made = gate.find(Request(ALICE, Action.READ, "plan"))
        assert made is not None
        assert made.decision.allowed is allowed
        gate.record(made)
        audit.flush()
    audit.close()


# -- the proof of the pudding


@promise("FR-003, decisions replay", "the audit log replayed through the policy gives the same decisions")
async def test_the_audit_log_replayed_through_the_policy_gives_the_same_decisions(tmp_path: Path) -> None:
    people = [
        Principal(actor, roles=roles)
        for actor in ("alice", "bob")
        for roles in ((), ("reader",), ("writer",), ("admin",), ("reader", "writer"))
    ]
    async with gated(Embedded("rbac"), tmp_path) as store:
        await store.put(ALICE, "plan")
        for person in people:
            for action in Action:
                for resource in ("plan", "nothing", None):
                    with suppress(Denied):
                        await store.read(person, lambda state: None, resource, action)
        store.audit.flush()
        decided = list(events(tmp_path / "default", Decided))
        again = replay(Embedded("rbac"), decided)
        otherwise = replay(Embedded("closed"), decided)
    assert (again.asked, again.same) == (1 + len(people) * 4 * 3, True)
    assert otherwise.denied_now == sum(event.decision for _, event in decided) > 0
    assert otherwise.allowed_now == 0
    assert verify_audit(tmp_path / "default").sound
