"""The contract of proofs: keys that sign the log, and files that show others what is in it.

An extension contributes them. The core only reads checkpoints (`tallystick.log.checkpoint`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tallystick.app.context import AppContext
from tallystick.config import Settings
from tallystick.errors import NotFound
from tallystick.extension import NO_EXTENSION_HINT, installed
from tallystick.policy import Principal

if TYPE_CHECKING:
    from tallystick.commits.signed_note import SignerKey, VerifierKey
    from tallystick.engine.store import Store
    from tallystick.log import Log
    from tallystick.log.checkpoint import Known
    from tallystick.operations import OperationContext
    from tallystick.toolsets.memory.lineage import PlacedCommit
    from tallystick.toolsets.work.context import Receipts


class Proof(Protocol):
    """Shows that a commit is in the log that was signed."""

    @property
    def origin(self) -> str: ...

    @property
    def size(self) -> int:
        """Return the number of commits in the log that was signed."""
        ...

    @property
    def index(self) -> int:
        """Return the place of the commit in it, counted from 0."""
        ...

    @property
    def record_hash(self) -> str: ...

    @property
    def proof(self) -> bytes:
        """Return the file, for others to check."""
        ...


class Proofs(Protocol):
    def signers(self, settings: Settings) -> Callable[[str], tuple[SignerKey, ...]]:
        """Return the configured keys, by the name of the tenant whose log they sign. They are read once.

        Raises InvalidArgument.
        """
        ...

    def shows(self, home: Path, log: Log, known: Known) -> bool:
        """Return whether the log leads to a checkpoint, as far as that is known without reading all of the log."""
        ...

    def sign(self, context: OperationContext) -> None:
        """Sign what is in the log now, if keys are configured."""
        ...

    async def prove(self, store: Store, principal: Principal, home: Path, named: str) -> Proof:
        """Prove a commit, named by its id or position, or the newest one on an entity.

        Raises NotFound, Conflict if it is not signed yet, Corrupt if the proof would not hold.
        """
        ...

    def prove_all(self, home: Path, commits: Sequence[PlacedCommit]) -> list[str | None]:
        """Return a proof for each; None for one that is not signed yet. Raises NotFound if nothing was signed."""
        ...

    def problem_of(self, proof: bytes, keys: Sequence[VerifierKey]) -> str:
        """Return why a proof does not hold, or nothing if it does."""
        ...

    def receipts(self, context: AppContext) -> Receipts:
        """Return what makes receipts in a process that serves."""
        ...


def all_proofs() -> list[Proofs]:
    """Return those of every extension that has any."""
    return list(installed().load("proofs"))


def proofs() -> Proofs:
    """Return those of the first extension that has any. Raises NotFound."""
    for each in all_proofs():
        return each
    raise NotFound("no extension that is installed proves commits", code="NO_EXTENSION", hint=NO_EXTENSION_HINT)
