"""Decisions as span events and log lines, for whoever collects them."""

from __future__ import annotations

import logging

from tallystick.audit import clipped
from tallystick.policy import Decision, Request
from tallystick.telemetry import tracing
from tallystick.telemetry.logs import tell

logger = logging.getLogger(__name__)


def record_decision(request: Request, decision: Decision, latency_ms: float, cache_hit: bool) -> None:
    """To be called in the context of the request. Lines tell denials before what is allowed."""
    level = logging.DEBUG if decision.allowed else logging.INFO
    span = None if tracing.tracer is None else tracing.tracer.current()
    if span is None and not logger.isEnabledFor(level):
        return
    fields = {
        "actor": clipped(request.principal.actor),
        "action": request.action.value,
        "resource": clipped(request.resource),
        "decision": decision.allowed,
        "reason": decision.reason,
        "policy_version": decision.policy_version,
        "duration_ms": latency_ms,
        "cache_hit": cache_hit,
    }
    if span is not None:
        span.event("policy_eval", **fields)
    if logger.isEnabledFor(level):
        verdict = "allowed" if decision.allowed else "denied"
        tell(logger, level, "policy_eval", f"{request.action.value} {verdict}: {decision.reason}", **fields)
