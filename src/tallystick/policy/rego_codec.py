"""The question in Rego's terms, and what may count as its answer (L28, L29).

Both engines ask the same document and read the answer by the same rules: only a plain `true`
allows. Documents are built as values and encoded as JSON, so nothing in a name can become
part of a query.
"""

from __future__ import annotations

from typing import Any

from tallystick.policy import Decision, Request, denial

REASON_MAX = 500


def input_of(request: Request) -> dict[str, Any]:
    """What is not known is left out, so that a rule about it is undefined, not false."""
    principal = request.principal
    context = {"tenant_id": principal.tenant}
    if request.timestamp:
        context["timestamp"] = request.timestamp
    if principal.ip_address is not None:
        context["ip_address"] = principal.ip_address
    question: dict[str, Any] = {
        "actor": principal.actor,
        "actor_roles": principal.roles,
        "action": request.action.value,
        "context": context,
    }
    for name, value in (
        ("resource", request.resource),
        ("resource_owner", request.resource_owner),
        ("resource_owner_tenant", request.resource_owner_tenant),
        ("resource_type", request.resource_type),
        ("tool", principal.tool),
        ("written_type", request.written_type),
    ):
        if value is not None:
            question[name] = value
    return question


def decision_of(answer: object, policy_version: str) -> Decision:
    """Read the value of the policy's rule; None where it is undefined. `policy_version` is for answers without one."""
    if answer is None:
        return denial("undefined", "policy undefined", policy_version)
    if isinstance(answer, bool):
        return Decision(answer, _REASONS[answer], policy_version)
    if not isinstance(answer, dict):
        return _malformed(f"it is a {type(answer).__name__}", policy_version)
    version = answer.get("policy_version")
    if isinstance(version, str) and version:
        policy_version = version
    verdicts = [answer[name] for name in ("result", "allow") if name in answer]
    if not verdicts:
        return denial("undefined", "policy undefined", policy_version)
    if not all(isinstance(verdict, bool) for verdict in verdicts) or len(set(verdicts)) > 1:
        return _malformed("its verdict is not one boolean", policy_version)
    reason = answer.get("reason")
    return Decision(
        allowed=verdicts[0],
        reason=reason[:REASON_MAX] if isinstance(reason, str) and reason else _REASONS[verdicts[0]],
        policy_version=policy_version,
        cacheable=answer.get("cacheable") is not False,
        narrows=answer.get("narrows") is not False,
        reads_everything=answer.get("reads_everything") is True,
    )


_REASONS = {True: "allowed by the policy", False: "denied by the policy"}


def _malformed(why: str, policy_version: str) -> Decision:
    return denial("malformed", f"the policy's answer is unusable: {why}", policy_version)
