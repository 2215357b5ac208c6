"""What is written: operations, drafts and commits.

Knows the fields of a fact and nothing of where it is kept. `canonical` gives the exact
bytes, `chain` the hashes and the stored line, `payloads` what each verb says, `mask` what a
redaction leaves.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tallystick.commits.canonical import INTEGER_MAX, parse
from tallystick.commits.mask import unabridged

SCHEMA_VERSION = "1"
FILE_EDIT = "file-edit"
"""Actor and tool of commits that adopt what a person wrote into a content file."""


class Verb(StrEnum):
    """Every name has 11 characters, so that actor and operation cannot run into each other in commit_id."""

    UPSERT_NODE = "UPSERT_NODE"
    UPSERT_EDGE = "UPSERT_EDGE"
    DELETE_NODE = "DELETE_NODE"
    DELETE_EDGE = "DELETE_EDGE"
    REDACT_NODE = "REDACT_NODE"
    REDACT_EDGE = "REDACT_EDGE"

    __hash__ = str.__hash__
    """Each commit is looked up by it several times, and an Enum's own hash is written in Python."""


DELETIONS = frozenset({Verb.DELETE_NODE, Verb.DELETE_EDGE})
REDACTIONS = frozenset({Verb.REDACT_NODE, Verb.REDACT_EDGE})
EDGE_VERBS = frozenset({Verb.UPSERT_EDGE, Verb.DELETE_EDGE, Verb.REDACT_EDGE})
"""Their payloads name an edge alike: from, rel, to, and id if its author chose one."""


class Operation(msgspec.Struct, frozen=True):
    """One elementary statement; `payloads` says what the payload of each verb is."""

    verb: Verb
    payload: dict[str, Any]
    nonce: str | None = None
    redacts: dict[str, str] | None = None
    """Of a redaction only: decimal lamport of each masked commit → SHA-256 of what is left of its payload."""
    request: str | None = None
    """SHA-256 of the request that the nonce stands for, where the payload alone does not tell it."""
    reason: str | None = None
    """Of this operation, where it is not that of the draft."""
    place: str | None = None
    """Where in its call it stands (`ops[3]`), to be named in refusals. Not stored."""
    bytes_max: int | None = None
    """So many the payload may have in canonical form, where there is a limit. Not stored."""


class Draft(msgspec.Struct, frozen=True):
    """Operations proposed together: all of them become commits, or none does."""

    operations: tuple[Operation, ...]
    actor: str
    tool: str
    reason: str | None = None
    run_context: dict[str, str] | None = None
    policy_version: str = "none"

    @property
    def redacts(self) -> bool:
        """Whether anything that is in the log is to be masked."""
        return any(operation.redacts for operation in self.operations)


Count = Annotated[int, Meta(ge=1, le=INTEGER_MAX)]
Hash = Annotated[str, Meta(min_length=64, max_length=64)]


class Commit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An operation accepted: numbered, timed, hashed, chained; never altered.

    All but the last two fields are its head, declared in the order of its canonical JSON: `chain` reads and writes it
    as this struct.
    """

    actor: str
    batch: tuple[Count, Count] | None = None
    commit_id: Hash
    content_hash: Hash
    group: Count | None = None
    """Lamport of the first commit that was written and synced together with this one, where that is an
    earlier draft's: it tells a torn end of the log from damage."""
    lamport: Count
    nonce: str | None = None
    operation: Verb
    policy_version: str
    prev: Hash | None
    reason: str | None = None
    redacts: dict[str, str] | None = None
    request: Hash | None = None
    run_context: dict[str, str] | None = None
    schema_version: str
    tenant: str
    timestamp: str
    tool: str
    record_hash: str = ""
    payload: bytes = b""
    """Exact canonical bytes; what is left of them after a redaction."""

    @property
    def ends_draft(self) -> bool:
        """A log may end after this commit: the draft that it belongs to is whole."""
        return self.batch is None or self.batch[0] == self.batch[1]

    @property
    def draft_lamports(self) -> range:
        """Of all commits of its draft; they stand together."""
        part, whole = self.batch or (1, 1)
        return range(self.lamport - part + 1, self.lamport - part + 1 + whole)

    def first_of_group(self) -> int:
        return self.draft_lamports.start if self.group is None else self.group

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = parse(unabridged(self.payload))
        return found
