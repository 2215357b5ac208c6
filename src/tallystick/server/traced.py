"""The store while somebody collects spans: each read and each write becomes one, under that of its call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tallystick.audit import clipped
from tallystick.commits import chain
from tallystick.engine.partition import Receipt
from tallystick.engine.store import Propose, Store, Target
from tallystick.errors import TallystickError
from tallystick.policy import Action, Principal
from tallystick.telemetry import tracing


class TracedStore(Store):
    """Not a few lines in Store: there they would cost every call something while nobody collects."""

    async def read(self, principal: Principal, action: Action, *asked: Any, **more: Any) -> Any:
        with _span("memory_read", principal, action) as span:
            found = await super().read(principal, action, *asked, **more)
            span.set(lamport=self.position(principal))
            return found

    async def write_all(
        self, principal: Principal, propose: Propose, targets: Sequence[Target], *, restoring: bool = False
    ) -> Receipt:
        with _span("memory_write", principal, targets[0].action) as span:
            receipt = await super().write_all(principal, propose, targets, restoring=restoring)
            if span.is_recording:
                _describe(span, receipt)
            return receipt


@contextmanager
def _span(name: str, principal: Principal, action: Action) -> Iterator[tracing.Span]:
    if tracing.tracer is None:
        raise RuntimeError("a traced store needs a tracer")
    with tracing.tracer.span(name) as span:
        span.set(tenant_id=principal.tenant, actor=clipped(principal.actor), operation=action.value)
        try:
            yield span
        except TallystickError as error:
            span.fail(error.code, ours=False)
            raise


def _describe(span: tracing.Span, receipt: Receipt) -> None:
    """By the last commit, which stands for all of its draft."""
    last = receipt.commits[-1]
    span.set(
        operation=",".join(sorted({commit.operation.value for commit in receipt.commits})),
        commit_id=last.commit_id,
        lamport=last.lamport,
        commits=len(receipt.commits),
        bytes=sum(len(chain.encode(commit)) for commit in receipt.commits),
        schema_version=last.schema_version,
        policy_id=last.policy_version,
        duplicate=receipt.duplicate,
    )
