"""`/policy`: the rules in force, their tests, the versions that decided, and a candidate tried on what was decided."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from tallystick.errors import InvalidArgument, TallystickError
from tallystick.extensions.web.reports.policy_trial import (
    PolicyVersions,
    Simulation,
    examine_policy,
    list_versions,
    simulate,
)
from tallystick.extensions.web.visit import Visit
from tallystick.policy.bundle import Bundle, Module, find_bundle
from tallystick.policy.policy_tests import Examined

NOT_SHOWN = "they are shown to those from whom nothing is withheld"


class PolicyView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    files: list[Module]
    tests: list[Module]
    problem: str | None
    """Why there are no rules to show."""
    history: PolicyVersions
    examined: Examined | None = None
    """How its tests ended; None where they were not run."""
    candidate: str = ""
    simulation: Simulation | None = None


async def policy(visit: Visit) -> PolicyView:
    context, principal = visit.context, visit.principal
    # First: it raises for who may look at nothing.
    history = await list_versions(context.offer.store, principal, context.audit(principal.tenant))
    bundle, problem = await _in_force(visit)
    return PolicyView(
        name=context.policy,
        files=[] if bundle is None else list(bundle.modules),
        tests=[] if bundle is None else list(bundle.tests),
        problem=problem,
        history=history,
    )


async def act_on_policy(visit: Visit, form: Mapping[str, str]) -> PolicyView:
    """Runs tests, or tries a candidate. Neither changes anything."""
    view = await policy(visit)
    match form.get("act"):
        case "test":
            return msgspec.structs.replace(view, examined=await _tested(visit))
        case "simulate":
            candidate = form.get("file", "") or form.get("candidate", "")
            return msgspec.structs.replace(view, candidate=candidate, simulation=await _simulated(visit, candidate))
        case _:
            raise InvalidArgument("'act' must be test or simulate")


async def _tested(visit: Visit) -> Examined:
    bundle, problem = await _in_force(visit)
    if bundle is None:
        raise InvalidArgument(problem or "there are no rules here", code="POLICY_INVALID")
    return await examine_policy(bundle)


async def _simulated(visit: Visit, candidate: str) -> Simulation:
    context, principal = visit.context, visit.principal
    beside, _ = await _in_force(visit)
    return await simulate(context.offer.store, principal, context.audit(principal.tenant), candidate, beside)


async def shows_rules(visit: Visit) -> bool:
    """Rules may name people. Callers with an identity, by a login or by a token, are shown them only if nothing is
    withheld from them."""
    return visit.principal.trusted or not await visit.context.offer.store.withholds(visit.principal)


async def _in_force(visit: Visit) -> tuple[Bundle | None, str | None]:
    if not await shows_rules(visit):
        return None, NOT_SHOWN
    source = visit.context.policy_source
    if source is None:
        return None, "another server decides: its rules are there"
    try:
        return await asyncio.to_thread(find_bundle, source), None
    except TallystickError as error:
        return None, f"its files cannot be read any more ({error.code}): what was read before stays in force"
