"""What every policy engine promises, shown on each of them with the same Rego and the same questions."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.policy import Action, Decision, Principal, Request
from tallystick.policy.bundle import RULES
from tallystick.policy.embedded import Embedded
from tallystick.policy.remote import Remote
from tests.policy.opa import HAS_OPA, POLICIES, WITHOUT_OPA, running
from tests.promises import promise

SHIPPED = [RULES / "rbac.rego", RULES / "single_user.rego", RULES / "closed.rego"]
FILES = {file.stem: file for file in (*SHIPPED, *POLICIES)}
PACKAGES = {name: f"tallystick.{name}" if file in SHIPPED else f"example.{name}" for name, file in FILES.items()}

Decide = Callable[[str, Request], Decision]
"""Told the name of a policy."""


@functools.cache
def embedded(file: Path) -> Embedded:
    return Embedded(str(file))


class RemoteEngines:
    """A remote engine with its event loop, for as long as a module's tests run."""

    def __init__(self, url: str) -> None:
        # More patience than a server has: the question here is what is answered, not when.
        self._remotes = {
            name: Remote(url, path=f"{package.replace('.', '/')}/decision", timeout_ms=20_000)
            for name, package in PACKAGES.items()
        }
        self._runner = asyncio.Runner()

    def __call__(self, name: str, request: Request) -> Decision:
        return self._runner.run(self._remotes[name].ask(request))

    def close(self) -> None:
        for remote in self._remotes.values():
            self._runner.run(remote.close())
        self._runner.close()


ENGINES = ["embedded", "remote, our evaluator", "remote, OPA's evaluator"]


@pytest.fixture(scope="module")
def opa() -> Iterator[Decide]:
    if not HAS_OPA:
        pytest.skip(WITHOUT_OPA)
    with running("opa", list(FILES.values())) as url, closing(RemoteEngines(url)) as asker:
        yield asker


@pytest.fixture(scope="module")
def ours() -> Iterator[Decide]:
    with running("regorus", list(FILES.values())) as url, closing(RemoteEngines(url)) as asker:
        yield asker


@pytest.fixture(params=ENGINES)
def decide(request: pytest.FixtureRequest) -> Decide:
    if request.param == "embedded":
        return lambda name, asked: embedded(FILES[name]).decide(asked)
    remote: Decide = request.getfixturevalue("opa" if "OPA" in request.param else "ours")
    return remote


def bob(*roles: str, tenant: str = "acme", **kwargs: str) -> Principal:
    return Principal(actor="bob", tenant=tenant, roles=roles, **kwargs)  # type: ignore[arg-type]  # texts only


class Case(NamedTuple):
    policy: str
    request: Request
    allowed: bool
    reason: str


ENTITY = ("entity_789", "note", "planner_agent", "acme")
CASES = {
    "TC-003-01 a researcher reads a plan": Case(
        "researcher",
        Request(bob("researcher"), Action.READ, "plan_001", "research_plan"),
        True,
        "researchers read plans",
    ),
    "a researcher reads nothing else": Case(
        "researcher",
        Request(bob("researcher"), Action.READ, "user_1", "user_profile"),
        False,
        "not a researcher's to see",
    ),
    "TC-003-02 a writer deletes": Case(
        "rbac", Request(bob("writer"), Action.DELETE, "entity_456"), False, "role lacks DELETE permission"
    ),
    "scenario 2 a writer deletes what a planner owns": Case(
        "rbac",
        Request(bob("writer"), Action.DELETE, *ENTITY),
        False,
        "actor lacks delete permission on non-owned entities",
    ),
    "TC-003-03 another tenant's entity": Case(
        "rbac",
        Request(bob("admin", tenant="tenant_a"), Action.READ, "entity_789", resource_owner_tenant="tenant_b"),
        False,
        "cross-tenant access denied",
    ),
    "a writer writes": Case("rbac", Request(bob("writer"), Action.WRITE, *ENTITY), True, "role writer may WRITE"),
    "an owner deletes": Case(
        "rbac", Request(bob("writer"), Action.DELETE, "e", "note", "bob", "acme"), True, "the owner may DELETE"
    ),
    "nobody in particular searches": Case(
        "rbac", Request(bob(), Action.SEARCH), False, "role lacks SEARCH permission"
    ),
    "the local user": Case("single_user", Request(bob(), Action.DELETE, *ENTITY), True, "single local user"),
    "the local user elsewhere": Case(
        "single_user",
        Request(bob(), Action.READ, "e", resource_owner_tenant="globex"),
        False,
        "cross-tenant access denied",
    ),
    "a closed door": Case("closed", Request(bob("admin"), Action.READ), False, "no policy is configured"),
    "every circumstance is told": Case(
        "circumstances",
        Request(
            bob(tool="memory.read", ip_address="10.1.2.3"), Action.READ, "plan_1", timestamp="2025-01-04T12:00:00.000Z"
        ),
        True,
        "as it should be",
    ),
    "what is not known is not told": Case(
        "circumstances",
        Request(bob(tool="memory.read"), Action.READ, "plan_1", timestamp="2025-01-04T12:00:00.000Z"),
        False,
        "not from here, not now, not with that",
    ),
    "a bare boolean": Case(
        "silent", Request(Principal(actor="ada"), Action.READ), True, "allowed by the policy"
    ),
    "an undefined answer": Case("silent", Request(bob(), Action.READ), False, "policy undefined"),
}  # fmt: skip


@promise("L28, L31", "both engines give the same answers to the same questions")
@pytest.mark.parametrize("name", CASES)
def test_the_same_questions_get_the_same_answers(decide: Decide, name: str) -> None:
    case = CASES[name]
    found = decide(case.policy, case.request)
    assert (found.allowed, found.reason) == (case.allowed, case.reason)


def test_decisions_name_the_version_of_the_policy(decide: Decide) -> None:
    assert decide("rbac", Request(bob("reader"), Action.READ)).policy_version == "rbac@2"
    assert decide("researcher", Request(bob(), Action.READ)).policy_version == "v1.2.0"


def test_a_policy_may_say_that_its_answer_holds_for_now_only(decide: Decide) -> None:
    assert not decide("circumstances", CASES["every circumstance is told"].request).cacheable
    assert decide("rbac", Request(bob("reader"), Action.READ)).cacheable


def test_a_policy_may_say_that_whoever_may_search_may_read_what_is_found(decide: Decide) -> None:
    assert not decide("single_user", Request(bob(), Action.SEARCH)).narrows
    assert decide("rbac", Request(bob("reader"), Action.SEARCH)).narrows


def test_a_policy_that_contradicts_itself_denies(decide: Decide) -> None:
    assert decide("quarrel", Request(Principal(actor="ada"), Action.READ)).allowed
    found = decide("quarrel", Request(Principal(actor="eve"), Action.READ))
    assert (found.allowed, found.fault, found.cacheable) == (False, "error", False)


@pytest.mark.parametrize(
    ("actor", "fault"),
    [
        ("yes", "malformed"), ("one", "malformed"), ("text", "malformed"), ("list", "malformed"), ("both", "malformed"),
        ("null", "malformed"), ("empty", "undefined"), ("other", "undefined"), ("nobody", "undefined"),
    ],
)  # fmt: skip
def test_only_a_plain_yes_allows(decide: Decide, actor: str, fault: str) -> None:
    found = decide("odd", Request(Principal(actor=actor), Action.READ))
    assert (found.allowed, found.fault) == (False, fault)


def test_a_yes_without_proper_words_is_still_a_yes(decide: Decide) -> None:
    assert decide("odd", Request(Principal(actor="plain"), Action.READ)).allowed
    found = decide("odd", Request(Principal(actor="number"), Action.READ))
    assert (found.allowed, found.reason) == (True, "allowed by the policy")


CRAFTED = [
    '"}, "actor_roles": ["admin"], "x": {"y": "',
    "x\", 'actor_roles': ['admin']",
    "entity\n}\nallow := true\n{",
    "data.tallystick.rbac.allow",
    "a\x00b",
    "${input.actor}",
    "\u202eevil\ufeff",
    "𝕏" * 100,
    "long" * 25_000,
    "",
]


@promise("attack: crafted resource ids", "no name breaks out of a policy's input")
@pytest.mark.parametrize("crafted", CRAFTED, ids=range(len(CRAFTED)))
def test_no_name_breaks_out_of_the_question(decide: Decide, crafted: str) -> None:
    for request in (
        Request(bob("reader"), Action.DELETE, crafted, crafted, "alice", "acme"),
        Request(Principal(actor=crafted, tenant="acme", roles=(crafted,)), Action.READ, "e"),
        Request(bob("reader", tenant="acme"), Action.READ, "e", "note", crafted, "globex"),
    ):
        found = decide("rbac", request)
        assert (found.allowed, found.fault) == (False, None)


@promise("attack: half characters", "what is no text is denied, not fatal")
def test_half_a_character_is_denied_not_fatal(decide: Decide) -> None:
    found = decide("rbac", Request(bob("admin"), Action.READ, "\ud800"))
    assert (found.allowed, found.fault) == (False, "error")


names = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(["acme", "globex", "bob", "alice"])
maybe = st.none() | names
questions = st.builds(
    Request,
    st.builds(
        Principal,
        actor=names,
        tenant=names,
        roles=st.lists(st.sampled_from(["reader", "writer", "admin"]) | names, max_size=3).map(tuple),
        tool=maybe,
        ip_address=maybe,
    ),
    st.sampled_from(Action),
    maybe, maybe, maybe, maybe,
    st.just("2025-01-04T12:00:00.000Z"),
)  # fmt: skip


@settings(max_examples=150)
@given(request=questions, policy=st.sampled_from(["rbac", "single_user", "circumstances"]))
def test_in_process_and_opa_agree_on_anything(opa: Decide, request: Request, policy: str) -> None:
    here, there = embedded(FILES[policy]).decide(request), opa(policy, request)
    assert (here.allowed, here.reason, here.fault) == (there.allowed, there.reason, there.fault)
