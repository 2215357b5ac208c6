"""Policies tried out: checked, tested, explained, and the audit log decided again by another one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from tallystick.audit import Decided, Event
from tallystick.audit.proof import events
from tallystick.clock import from_text, to_text, wall_clock
from tallystick.errors import InvalidArgument, NotFound
from tallystick.policy import Action, Principal, Request
from tallystick.policy.bundle import SHIPPED, find_bundle
from tallystick.policy.embedded import Embedded
from tallystick.policy.explanation import Explained
from tallystick.policy.explanation import explain as explain_request
from tallystick.policy.policy_tests import Examined, Tested, examine, run_tests
from tallystick.policy.replay import CHANGED_MAX, Replayed, request_of
from tallystick.policy.replay import replay as replay_events


class Question(msgspec.Struct, frozen=True):
    tenant: str
    actor: str
    action: str = "READ"
    roles: Sequence[str] = ()
    resource: str | None = None
    resource_type: str | None = None
    owner: str | None = None
    owner_tenant: str | None = None
    tool: str | None = None
    written_type: str | None = None


def check(policy: str) -> Examined:
    """A .rego file, a directory of them or the name of a shipped policy: loaded, asked about every action, tested."""
    return examine(find_bundle(policy))


def run(policies: Sequence[str] = ()) -> list[Tested]:
    """Their tests; those of the shipped policies when none is named."""
    return [tested for name in policies or SHIPPED for tested in run_tests(find_bundle(name))]


def explain(policy: str, question: Question) -> Explained:
    """Which rules decide it, and by which lines."""
    return explain_request(find_bundle(policy), _request(question))


def explain_line(policy: str, audit: Path, seq: int) -> Explained:
    """The same of a decision in the audit log. Raises NotFound when that line is none."""
    event = next((event for number, event in events(_existing(audit), Event) if number == seq), None)
    if not isinstance(event, Decided):
        raise NotFound(f"line {seq} of the audit log is no decision" if event else f"the audit log has no line {seq}")
    return explain_request(find_bundle(policy), request_of(event))


def replay(policy: str, audit: Path, since: str | None = None) -> Replayed:
    """A dry run over the whole audit log: what this policy would have decided otherwise."""
    return replay_events(Embedded(policy), events(_existing(audit), Decided, since=_time(since)), CHANGED_MAX)


def _request(question: Question) -> Request:
    action = question.action.upper()
    if action not in Action.__members__:
        raise InvalidArgument(f"there is no action '{question.action}'; the actions are {', '.join(Action)}")
    return Request(
        Principal(actor=question.actor, tenant=question.tenant, roles=tuple(question.roles), tool=question.tool),
        Action(action),
        question.resource,
        question.resource_type,
        question.owner,
        question.owner_tenant,
        to_text(wall_clock()),
        question.written_type,
    )


def _existing(audit: Path) -> Path:
    if not audit.is_dir():
        raise NotFound(
            f"there is no audit log in {audit}", code="NO_MEMORY", hint="name another place with --base or --tenant"
        )
    return audit


def _time(text: str | None) -> str:
    try:
        return "" if text is None else to_text(from_text(text))
    except ValueError:
        raise InvalidArgument(f"'{text}' is not a time; write it like 2025-01-04T12:00:00Z") from None
