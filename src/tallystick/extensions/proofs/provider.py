"""What other parts need of proofs. A process imports what it takes when it is called."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tallystick.config import DEFAULT_TENANT, Settings
from tallystick.policy import Principal

if TYPE_CHECKING:
    from tallystick.app.context import AppContext
    from tallystick.commits.signed_note import SignerKey, VerifierKey
    from tallystick.extensions.proofs.operations.proofs import MadeInclusion
    from tallystick.log import Log
    from tallystick.log.checkpoint import Known
    from tallystick.operations import OperationContext
    from tallystick.store import Store
    from tallystick.toolsets.memory.lineage import PlacedCommit
    from tallystick.toolsets.work.context import Receipts


class LogProofs:
    """Fulfils `app.proving.Proofs`."""

    def signers(self, settings: Settings) -> Callable[[str], tuple[SignerKey, ...]]:
        from tallystick.extensions.proofs.checkpoint_keys import keys_of_tenant, load_keys

        keys = load_keys(msgspec.structs.replace(settings, tenant=DEFAULT_TENANT), environ=os.environ)
        return lambda tenant: keys_of_tenant(keys, tenant)

    def shows(self, home: Path, log: Log, known: Known) -> bool:
        from tallystick.extensions.proofs.checkpoints import is_shown

        return is_shown(home, log, known)

    def sign(self, context: OperationContext) -> None:
        from tallystick.extensions.proofs.operations.checkpoint import sign_if_configured

        sign_if_configured(context)

    async def prove(self, store: Store, principal: Principal, home: Path, named: str) -> MadeInclusion:
        from tallystick.extensions.proofs.operations.proofs import prove_commit

        return await prove_commit(store, principal, home, named)

    def prove_all(self, home: Path, commits: Sequence[PlacedCommit]) -> list[str | None]:
        from tallystick.extensions.proofs.operations.proofs import prove_signed

        return prove_signed(home, [(each.commit, each.index, each.prev_record_hash) for each in commits])

    def problem_of(self, proof: bytes, keys: Sequence[VerifierKey]) -> str:
        from tallystick.commits.signed_note import NoteRefused
        from tallystick.extensions.proofs.operations.proofs import check_proof
        from tallystick.extensions.proofs.proof_file import Trust

        try:
            check_proof(proof, Trust(tuple(keys)))
        except NoteRefused as error:
            return error.message
        return ""

    def receipts(self, context: AppContext) -> Receipts:
        from tallystick.extensions.proofs.task_receipts import task_receipts

        return task_receipts(context)


PROOFS = LogProofs()
