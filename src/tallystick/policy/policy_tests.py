"""The examination of a policy before it is trusted: does it load, can it decide, do its own tests pass."""

from __future__ import annotations

import msgspec

from tallystick.errors import InvalidArgument
from tallystick.policy import Action, Principal, Request
from tallystick.policy.bundle import Bundle
from tallystick.policy.embedded import Embedded
from tallystick.policy.rego import RegoError, engine_for

_STRANGER = Principal(actor="nobody-in-particular", tenant="nowhere")


class Tested(msgspec.Struct, frozen=True):
    name: str
    """Package and rule, as in `tallystick.rbac_test.test_…`."""
    passed: bool
    problem: str | None = None


class Examined(msgspec.Struct, frozen=True):
    name: str
    policy_version: str | None
    tests: list[Tested]
    problem: str | None = None
    """Why it cannot be used at all."""
    notes: list[str] = []
    """What its author may not have meant."""

    @property
    def passed(self) -> bool:
        return self.problem is None and all(test.passed for test in self.tests)


def examine(bundle: Bundle) -> Examined:
    try:
        policy = Embedded(bundle)
        tests = run_tests(bundle)
    except (InvalidArgument, RegoError) as error:
        return Examined(bundle.name, None, [], problem=str(error))
    return Examined(bundle.name, policy.policy_version, tests, notes=_notes(bundle, policy, tests))


def run_tests(bundle: Bundle) -> list[Tested]:
    """Every rule called `test_…`; it passes when it is true. Raises InvalidArgument where the tests do not load."""
    engine = engine_for(bundle, tests=True)
    names = {rule.path: rule for rule in engine.rules if rule.name.startswith("test_") and not rule.is_function}
    tested = []
    for path, rule in names.items():
        try:
            value = engine.evaluate(path, {})
        except RegoError as error:
            tested.append(Tested(f"{rule.package}.{rule.name}", False, str(error)))
        else:
            shown = "undefined" if value is None else repr(value)
            tested.append(
                Tested(f"{rule.package}.{rule.name}", value is True, None if value is True else f"is {shown}")
            )
    return tested


def _notes(bundle: Bundle, policy: Embedded, tests: list[Tested]) -> list[str]:
    notes = []
    if not tests:
        notes.append(f"it has no tests: put rules called test_… into {bundle.name}_test.rego")
    if policy.policy_version == bundle.version:
        notes.append("it names no policy_version: decisions are recorded under a hash of its files")
    allowed = [action.value for action in Action if policy.decide(Request(_STRANGER, action, "x")).allowed]
    if allowed:
        notes.append(f"an actor without any role may {', '.join(allowed)}")
    foreign = [
        action.value
        for action in Action
        if policy.decide(Request(_STRANGER, action, "x", "note", "somebody", "elsewhere")).allowed
    ]
    if foreign:
        notes.append(f"an actor of another tenant may {', '.join(foreign)}")
    return notes
