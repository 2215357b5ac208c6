"""Receipts: that a task was done, by whom, shown by what, as a signed statement with its place in the log.

A receipt is two files: the statement (`dsse`) and the proof of the log entry that it names (`proof_file`). Both are
signed by the log's keys; each must say the same of the entry, so that neither can be exchanged for that of another
task. A digest of something in the log is the record_hash of its commit, which a redaction leaves as it is.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick.commits import EDGE_VERBS
from tallystick.commits.dsse import EnvelopeRefused, Statement, Subject, check_digest, parse_envelope, verify_envelope
from tallystick.commits.signed_note import VerifierKey
from tallystick.commits.tree import leaf_hash
from tallystick.extensions.proofs.proof_file import Included, InclusionProof, Trust, parse_proof, verify_inclusion_file

PREDICATE_TYPE = "https://tallystick/task-completion/v1"
TASK = "task/"
"""What the name of the subject begins with that is the task."""
GIT = "gitCommit"
ALLOW = "allow"


class TaskNamed(msgspec.Struct, frozen=True):
    id: str
    summary: str


class Claim(msgspec.Struct, frozen=True):
    agent: str
    on: str
    """When the log was told of it."""


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    type: str
    ref: str
    agent: str | None = None
    timestamp: str | None = None
    result: str | None = None
    """PASSED or FAILED, of what was run; what was only stated has none."""
    digest: dict[str, str] | None = None


class Cited(msgspec.Struct, frozen=True):
    id: str
    digest: dict[str, str]
    position: int
    """Lamport of the commit that was the newest on it when it was read."""


class PolicyDecision(msgspec.Struct, frozen=True):
    version: str
    decision: str


class LogEntry(msgspec.Struct, frozen=True, rename="camel"):
    origin: str
    index: int
    leaf_hash: str


class Completion(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The predicate."""

    task: TaskNamed
    agent: str
    claimed_on: str | None
    resolved_on: str
    claims: list[Claim]
    evidence: list[Evidence]
    cites: list[Cited]
    """What was read for it while the agent had it claimed, as far as the audit log tells."""
    cites_unknown: list[str]
    """Why there may be more than that; empty where the audit log tells everything."""
    policy: PolicyDecision
    log: LogEntry


class CheckedReceipt(msgspec.Struct, frozen=True):
    """What a receipt showed, to whoever believes the keys."""

    completion: Completion
    subjects: list[Subject]
    size: int
    """Commits in the log that was signed."""
    record_hash: str
    signed_by: list[str]


def statement_of(completion: Completion, record_hash: str) -> Statement:
    task = Subject(f"{TASK}{completion.task.id}", {"sha256": record_hash})
    return Statement(
        subject=[*_commits_of(completion), task],
        predicate_type=PREDICATE_TYPE,
        predicate=msgspec.to_builtins(completion),
    )


def entry_of(origin: str, index: int, record_hash: str) -> LogEntry:
    return LogEntry(origin, index, leaf_hash(bytes.fromhex(record_hash)).hex())


def check_receipt(data: bytes, proof: bytes | None, trust: Trust, *, task: str | None = None) -> CheckedReceipt:
    """Needs no memory. `proof`: the file beside it; None where the envelope has it. `task`: whose receipt it must be.

    Raises NoteRefused for whatever does not hold.
    """
    envelope = parse_envelope(data)
    statement, signers = verify_envelope(envelope, trust.keys)
    completion = _completion(statement)
    if task not in (None, completion.task.id):
        raise EnvelopeRefused(f"it is the receipt of '{completion.task.id[:80]}'")
    if proof is None:
        if envelope.tlog_proof is None:
            raise EnvelopeRefused("the proof of its log entry is missing", hint="name the file with --proof")
        proof = envelope.tlog_proof.encode()
    shown = _included(proof, trust)
    _check_entry(statement, completion, shown, signers)
    return CheckedReceipt(
        completion, statement.subject, shown.checkpoint.size, shown.record_hash, [str(key) for key in signers]
    )


def _completion(statement: Statement) -> Completion:
    if statement.predicate_type != PREDICATE_TYPE:
        raise EnvelopeRefused(f"its predicateType is not {PREDICATE_TYPE}")
    try:
        completion: Completion = msgspec.convert(statement.predicate, Completion)
    except msgspec.ValidationError as error:
        raise EnvelopeRefused(f"it does not tell of a task as it should: {error}") from None
    digests: list[tuple[str, dict[str, Any]]] = [(each.id, each.digest) for each in completion.cites]
    digests += [(each.ref, each.digest) for each in completion.evidence if each.digest is not None]
    for named, digest in digests:
        check_digest(named, digest)
    if completion.policy.decision != ALLOW:
        raise EnvelopeRefused("the policy did not allow what it tells of")
    return completion


def _included(data: bytes, trust: Trust) -> Included:
    proof = parse_proof(data)
    if not isinstance(proof, InclusionProof) or proof.extra is None:
        raise EnvelopeRefused("the proof beside it is not that of a commit")
    return verify_inclusion_file(proof, trust)


def _check_entry(statement: Statement, said: Completion, shown: Included, signers: list[VerifierKey]) -> None:
    """That the statement and the proof are about the same commit of the same log."""
    if said.log != entry_of(shown.checkpoint.origin, shown.index, shown.record_hash):
        raise EnvelopeRefused("the proof is of another log entry than the receipt names")
    if all(key.name != said.log.origin for key in signers):
        raise EnvelopeRefused(f"no key of the log '{said.log.origin[:80]}' signed it")
    if statement.subject != statement_of(said, shown.record_hash).subject:
        raise EnvelopeRefused("its subjects are not the task, its log entry and the commits of its evidence")
    commit = shown.commit
    if commit is None or commit.operation in EDGE_VERBS:
        raise EnvelopeRefused("the log entry is not about a task")
    if commit.timestamp < said.resolved_on:
        raise EnvelopeRefused("the log entry is older than what the receipt tells of")
    if commit.timestamp == said.resolved_on and (commit.actor, commit.policy_version) != (
        said.agent,
        said.policy.version,
    ):
        raise EnvelopeRefused("the log entry tells of another agent or another policy")


def _commits_of(completion: Completion) -> list[Subject]:
    """The git commits of its evidence, each once, by what is said of where they are."""
    found: dict[str, Subject] = {}
    for each in completion.evidence:
        commit = (each.digest or {}).get(GIT)
        if commit is not None:
            found.setdefault(commit, Subject(_repository(each.ref, commit), {GIT: commit}))
    return list(found.values())


def _repository(ref: str, commit: str) -> str:
    before = ref.partition(commit)[0].rstrip("@#/").removesuffix("/commit").removesuffix("/-")
    if before.startswith(("https://", "http://", "ssh://")) and " " not in before:
        return f"git+{before}"
    return f"git/{commit}"
