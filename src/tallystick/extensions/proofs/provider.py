"""The contract of proofs, fulfilled. Each function imports its modules when it is called."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tallystick.app.context import AppContext
from tallystick.app.guards import audit_files
from tallystick.config import DEFAULT_TENANT, Settings
from tallystick.engine.store import Store
from tallystick.errors import TallystickError
from tallystick.policy import Principal
from tallystick.toolsets.work.context import Receipts

if TYPE_CHECKING:
    from tallystick.commits.signed_note import SignerKey, VerifierKey
    from tallystick.extensions.proofs.prove import MadeInclusion
    from tallystick.log import Log
    from tallystick.log.checkpoint import Known
    from tallystick.operations import OperationContext
    from tallystick.toolsets.memory.lineage import PlacedCommit


class LogProofs:
    """Fulfils `app.proving.Proofs`."""

    def signers(self, settings: Settings) -> Callable[[str], tuple[SignerKey, ...]]:
        from tallystick.extensions.proofs.keys import keys_of_tenant, load_keys

        keys = load_keys(msgspec.structs.replace(settings, tenant=DEFAULT_TENANT), environ=os.environ)
        return lambda tenant: keys_of_tenant(keys, tenant)

    def shows(self, home: Path, log: Log, known: Known) -> bool:
        from tallystick.extensions.proofs.checkpoints import is_shown

        return is_shown(home, log, known)

    def sign(self, context: OperationContext) -> None:
        from tallystick.extensions.proofs.checkpoints import sign_if_configured

        sign_if_configured(context)

    async def prove(self, store: Store, principal: Principal, home: Path, named: str) -> MadeInclusion:
        from tallystick.extensions.proofs.prove import prove_commit

        return await prove_commit(store, principal, home, named)

    def prove_all(self, home: Path, commits: Sequence[PlacedCommit]) -> list[str | None]:
        from tallystick.extensions.proofs.prove import prove_signed

        return prove_signed(home, [(each.commit, each.index, each.prev_record_hash) for each in commits])

    def problem_of(self, proof: bytes, keys: Sequence[VerifierKey]) -> str:
        from tallystick.commits.signed_note import NoteRefused
        from tallystick.extensions.proofs.proof_file import Trust
        from tallystick.extensions.proofs.prove import check_proof

        try:
            check_proof(proof, Trust(tuple(keys)))
        except NoteRefused as error:
            return error.message
        return ""

    def receipts(self, context: AppContext) -> Receipts:
        return task_receipts(context)


PROOFS = LogProofs()


# -- receipts of `graph_update`


def task_receipts(context: AppContext) -> Receipts:
    """For agents on this machine they are files, where a directory is named for them."""
    settings, projections = context.settings, context.projections
    assert projections is not None
    directory = Path(settings.receipts).expanduser().absolute() if settings.receipts and not settings.issuers else None

    def require(tenant: str) -> None:
        if not projections.keys(tenant):
            from tallystick.extensions.proofs.checkpoints import no_key

            raise no_key()

    async def make(store: Store, principal: Principal, tasks: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
        from tallystick.extensions.proofs.receipts import make_receipt, with_proof, write_receipt

        of = msgspec.structs.replace(settings, tenant=principal.tenant)
        found: list[dict[str, Any]] = []
        problems: list[str] = []
        for task in tasks:
            try:
                if not found and not problems:
                    await projections.companion(principal.tenant, "tiles").sign()
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
