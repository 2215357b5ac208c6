"""Receipts of work: that a task was done, by whom, shown by what and read from what, as files that verify offline.

Everything is taken from the log, but what was read for the task: that only the audit log tells, by id. Where it does
not tell, the receipt says so.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tallystick.audit.reads import AuditRead, AuditReads, Span, find_reads
from tallystick.commits import Commit, Verb
from tallystick.commits.dsse import parse_envelope, sign_statement
from tallystick.commits.signed_note import SignerKey
from tallystick.engine.store import Store
from tallystick.errors import Conflict, InvalidArgument, NotFound
from tallystick.extensions.proofs.prove import prove_commit
from tallystick.extensions.proofs.receipt import (
    ALLOW,
    GIT,
    Cited,
    Claim,
    Completion,
    Evidence,
    PolicyDecision,
    TaskNamed,
    entry_of,
    statement_of,
)
from tallystick.policy import Action, Principal
from tallystick.state import Breathing
from tallystick.state.attributes import find_text, list_of, object_of, text_of
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.work import CLAIMED_BY, NODE, PROJECT
from tallystick.state.work.attributes import is_dropped
from tallystick.system.private_files import replacing

RECEIPT, PROOF = ".receipt.json", ".tlog-proof"
_STEPS_READ = 200
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_NAME_CHARACTERS_MAX = 100
_BY_UMASK = 0o666
"""They are to be handed over: who may read them is for the person to say."""
_COMMIT = re.compile(r"\b(?:[0-9a-f]{64}|[0-9a-f]{40})\b")
_SHA256 = re.compile(r"\bsha256:([0-9a-f]{64})\b")
_HEX = re.compile(r"(?:[0-9a-f]{2})+")


class MadeReceipt(msgspec.Struct, frozen=True):
    task: str
    receipt: bytes
    proof: bytes
    completion: Completion


class ResolvedTask(msgspec.Struct, frozen=True):
    """A work node that is done, as its log tells."""

    id: str
    attrs: dict[str, Any]
    resolved: Commit
    """By which it was last resolved."""
    last: Commit
    claims: list[Claim]

    @property
    def claimed_on(self) -> str | None:
        """Since when who resolved it had it claimed; None where that agent had not."""
        newest = self.claims[-1] if self.claims else None
        return newest.on if newest is not None and newest.agent == self.resolved.actor else None


async def make_receipt(
    store: Store, principal: Principal, home: Path, audit: Path, keys: Sequence[SignerKey], task: str
) -> MadeReceipt:
    """The log has to be signed up to the task's last commit. What the principal may not read is not in it.

    Raises NotFound, and Conflict for a task that is not done, or not signed yet.
    """
    await store.flush_audit()
    found: ResolvedTask = await store.read(
        principal, Action.READ, lambda state, read_filter: _resolved_task(task, state, read_filter), resource=task
    )
    resolved = found.resolved
    spans = [] if found.claimed_on is None else [Span(resolved.actor, found.claimed_on, resolved.timestamp)]
    reads = await asyncio.to_thread(find_reads, audit, spans)
    cites: list[Cited] = await store.read(
        principal, Action.SEARCH, lambda state, read_filter: _cited(reads.reads, state, read_filter)
    )
    made = await prove_commit(store, principal, home, found.last.commit_id)
    completion = Completion(
        task=TaskNamed(found.id, text_of(found.attrs, "summary")),
        agent=resolved.actor,
        claimed_on=found.claimed_on,
        resolved_on=resolved.timestamp,
        claims=found.claims,
        evidence=[evidence_of(each) for each in list_of(found.attrs, "evidence") if isinstance(each, dict)],
        cites=cites,
        cites_unknown=_why_more(found, reads),
        policy=PolicyDecision(resolved.policy_version, ALLOW),
        log=entry_of(made.origin, made.index, made.record_hash),
    )
    envelope = sign_statement(statement_of(completion, made.record_hash), keys)
    return MadeReceipt(found.id, envelope, made.proof, completion)


def with_proof(made: MadeReceipt) -> dict[str, Any]:
    """The receipt as one JSON object: the envelope with the proof of its log entry in it."""
    envelope = msgspec.structs.replace(parse_envelope(made.receipt), tlog_proof=made.proof.decode())
    found: dict[str, Any] = msgspec.to_builtins(envelope)
    return found


def write_receipt(made: MadeReceipt, directory: Path) -> list[Path]:
    """Two files, by the name of the task. Raises InvalidArgument."""
    # An id may be anything; a name of a file may not lead elsewhere.
    name = _UNSAFE.sub("_", made.task)[:_NAME_CHARACTERS_MAX].lstrip(".") or "task"
    files = {directory / f"{name}{RECEIPT}": made.receipt, directory / f"{name}{PROOF}": made.proof}
    for path, data in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path, mode=_BY_UMASK) as file:
                file.write(data)
        except OSError as error:
            raise InvalidArgument(f"cannot write {path}: {error.strerror}", code="FILE_UNWRITABLE") from error
    return list(files)


# -- the task


def _resolved_task(task: str, state: State, read_filter: ReadFilter) -> Breathing[ResolvedTask]:
    node = state.node(task)
    if node is None or node.type != NODE:
        raise NotFound(
            f"there is no work node '{task[:80]}'",
            code="node_not_found",
            hint="'tallystick work tree' shows them, with their ids",
        )
    if node.attrs.get("resolved") is not True:
        raise Conflict(
            f"'{task}' is not resolved: there is nothing to give a receipt of",
            code="NOT_RESOLVED",
            hint=f"'tallystick work done {task}' resolves it",
        )
    if is_dropped(node.attrs):
        raise Conflict(f"'{task}' was dropped, not done: there is no receipt of that", code="NOT_RESOLVED")
    resolved, claims, last = yield from _life(task, state, read_filter)
    if resolved is None:
        raise Conflict(
            f"what '{task}' was when it was resolved has been redacted", code="REDACTED", hint="resolve it again"
        )
    return ResolvedTask(task, node.attrs, resolved, state.commit(state.head_at(last.lamport).count), claims)


def _life(task: str, state: State, read_filter: ReadFilter) -> Breathing[tuple[Commit | None, list[Claim], Commit]]:
    """The commit that resolved it last, who claimed it until then, and its newest commit."""
    resolved: Commit | None = None
    claims: list[Claim] = []
    owner: str | None = None
    last: Commit | None = None
    at = 0
    while (part := state.lineage(task, "direct", at, _STEPS_READ, read_filter)) is not None and part.steps:
        for step in part.steps:
            last = commit = step.commit
            if commit.operation is Verb.REDACT_NODE:
                continue
            attrs = object_of(commit.document(), "attrs") if commit.operation is Verb.UPSERT_NODE else {}
            if attrs.get("resolved") is not True:
                resolved = None
                claimant = find_text(object_of(attrs, "properties"), CLAIMED_BY)
                if claimant is not None and claimant != owner:
                    claims.append(Claim(claimant, commit.timestamp))
                owner = claimant
            elif resolved is None:
                resolved = commit
        at += len(part.steps)
        yield
    if last is None:
        raise KeyError(task)
    return resolved, claims, last


def evidence_of(entry: dict[str, Any]) -> Evidence:
    """A digest where one was recorded, or where the reference names it."""
    kind, ref = text_of(entry, "type"), text_of(entry, "ref")
    return Evidence(
        type=kind,
        ref=ref,
        agent=find_text(entry, "agent"),
        timestamp=find_text(entry, "timestamp"),
        result=find_text(entry, "result"),
        digest=_recorded(entry.get("digest")) or _named(kind, ref),
    )


def _recorded(digest: Any) -> dict[str, str] | None:
    said = digest if isinstance(digest, dict) else {}
    return {name: value for name, value in said.items() if isinstance(value, str) and _HEX.fullmatch(value)} or None


def _named(kind: str, ref: str) -> dict[str, str] | None:
    if kind == "git" and (commit := _COMMIT.search(ref)) is not None:
        return {GIT: commit[0]}
    return {"sha256": found[1]} if (found := _SHA256.search(ref)) is not None else None


# -- what was read for it


def _why_more(found: ResolvedTask, reads: AuditReads) -> list[str]:
    if found.claimed_on is None:
        return ["who resolved the task had not claimed it: what was read for it is not known"]
    searched = f"the audit log does not name what {reads.searches} searches and listings showed"
    return [*reads.gaps, *([searched] if reads.searches else [])]


def _cited(reads: Sequence[AuditRead], state: State, read_filter: ReadFilter) -> Breathing[list[Cited]]:
    """Facts and knowledge, not work; each as it was when it was first read. What may not be read by who asks for the
    receipt is left out."""
    found: list[Cited] = []
    for read in reads:
        yield
        entity = read.resource
        if not state.knows(entity) or not _may_read(state, read_filter, entity):
            continue
        at = state.resolve(read.at)
        node = state.node(entity, at)
        if node is not None and node.type in (NODE, PROJECT):
            continue
        provenance = node.provenance if node is not None else state.edge_provenance(entity, at)
        if provenance is not None:
            commit = state.commit(state.head_at(provenance.lamport).count)
            found.append(Cited(entity, {"sha256": commit.record_hash}, commit.lamport))
    return found


def _may_read(state: State, read_filter: ReadFilter, entity: str) -> bool:
    is_edge = state.edge_name(entity) is not None
    return read_filter.allows_edge(entity) if is_edge else read_filter.allows(entity)
