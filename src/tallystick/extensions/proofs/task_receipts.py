"""Receipts for agents, asked for by `graph_update` when a task is done."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tallystick.app.context import AppContext
from tallystick.app.guards import audit_files
from tallystick.errors import TallystickError
from tallystick.policy import Principal
from tallystick.store import Store
from tallystick.toolsets.work.context import Receipts


def task_receipts(context: AppContext) -> Receipts:
    """For agents on this machine they are files, where a directory is named for them."""
    settings, projections = context.settings, context.projections
    assert projections is not None
    directory = Path(settings.receipts).expanduser().absolute() if settings.receipts and not settings.issuers else None

    def require(tenant: str) -> None:
        if not projections.keys(tenant):
            from tallystick.extensions.proofs.operations.checkpoint import no_key

            raise no_key()

    async def make(store: Store, principal: Principal, tasks: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
        from tallystick.extensions.proofs.operations.receipts import make_receipt, with_proof, write_receipt

        of = msgspec.structs.replace(settings, tenant=principal.tenant)
        found: list[dict[str, Any]] = []
        problems: list[str] = []
        for task in tasks:
            try:
                if not found and not problems:
                    await projections.sign(principal.tenant)
                audit, keys = audit_files(of).directory, projections.keys(principal.tenant)
                made = await make_receipt(store, principal, of.home, audit, keys, task)
                shown = (
                    {"receipt": with_proof(made)}
                    if directory is None
                    else {"files": [str(path) for path in await asyncio.to_thread(write_receipt, made, directory)]}
                )
                found.append({"node_id": task, **shown})
            except TallystickError as error:
                problems.append(f"'{task}' is resolved, but there is no receipt of it: {error.message}; ask again")
        return found, problems

    return Receipts(require, make)
