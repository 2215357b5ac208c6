"""The explanation of one decision: which rules held, and which of their definitions gave them their value.

The conditions of every definition are put to the engine once more, each as a rule of its own
beside the policy, so what is said to have fired did.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tallystick.policy import Decision, Request
from tallystick.policy.bundle import Bundle, Module
from tallystick.policy.rego import Branch, Engine, Rule, engine_for, entry_of
from tallystick.policy.rego_codec import decision_of, input_of

_PROBE = "tallystick_probe"


class Held(msgspec.Struct, frozen=True):
    rule: str
    value: Any
    """None where the rule was undefined."""
    fired: list[str]
    """Where the definitions and branches stand that gave it its value, as file:line."""


class Explained(msgspec.Struct, frozen=True):
    decision: Decision
    input: dict[str, Any]
    rules: list[Held]


def explain(bundle: Bundle, request: Request) -> Explained:
    """Raises RegoError where the policy cannot be evaluated."""
    engine = engine_for(bundle)
    package = entry_of(engine.rules)
    question = input_of(request)
    rules = [rule for rule in engine.rules if rule.package == package and not rule.is_function]
    probing = Engine((*bundle.modules, *_probes(rules)), bundle.data)
    values = probing.package(package, question)
    version = values.get("policy_version")
    decision = decision_of(values.get("decision"), version if isinstance(version, str) else bundle.version)
    return Explained(decision, question, _held(rules, values))


def branches_of(bundle: Bundle) -> dict[str, Branch]:
    """By where they stand, as file:line."""
    return {f"{rule.file}:{branch.line}": branch for rule in engine_for(bundle).rules for branch in rule.branches}


def _probes(rules: list[Rule]) -> Iterator[Module]:
    """A file for each definition, since a file's imports are its own."""
    for number, rule in enumerate(rules):
        if rule.branches:
            lines = [f"package {rule.package}", *rule.imports]
            lines += [f"{_name(number, at)} if {branch.text}" for at, branch in enumerate(rule.branches)]
            yield Module(f"{_PROBE}_{number}.rego", "\n".join(lines) + "\n")


def _held(rules: list[Rule], values: dict[str, Any]) -> list[Held]:
    """In the order of the file. Constants explain nothing and are left out."""
    names = dict.fromkeys(rule.name for rule in rules if rule.branches or rule.name == "decision")
    return [Held(name, values.get(name), _fired(name, rules, values)) for name in names]


def _fired(name: str, rules: list[Rule], values: dict[str, Any]) -> list[str]:
    fired = [
        f"{rule.file}:{line}"
        for number, rule in enumerate(rules)
        if rule.name == name and not rule.is_default
        for line in _lines(number, rule, values)
    ]
    defaults = [f"{rule.file}:{rule.line}" for rule in rules if rule.name == name and rule.is_default]
    return fired or (defaults if name in values else [])


def _lines(number: int, rule: Rule, values: dict[str, Any]) -> list[int]:
    """Where this definition held: the first of its branches that did."""
    if not rule.branches:
        return [rule.line]
    return [branch.line for at, branch in enumerate(rule.branches) if values.get(_name(number, at)) is True][:1]


def _name(rule: int, branch: int) -> str:
    return f"{_PROBE}_{rule}_{branch}"
