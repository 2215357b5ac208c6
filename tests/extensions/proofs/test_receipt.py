"""Receipts: that the statement and the proof must be about the same entry of the same log."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tallystick.commits import Commit
from tallystick.commits.dsse import Statement, Subject, sign_statement
from tallystick.commits.signed_note import NoteRefused, SignerKey
from tallystick.commits.tree import leaf_hash
from tallystick.extensions.proofs.proof_file import InclusionProof, Trust, consistency_file, inclusion_file
from tallystick.extensions.proofs.receipt import (
    PREDICATE_TYPE,
    Cited,
    Claim,
    Completion,
    Evidence,
    LogEntry,
    PolicyDecision,
    TaskNamed,
    check_receipt,
    entry_of,
    statement_of,
)
from tests.commits.small_log import COMMITS, EDGE, SIZE, checkpoint, consistency, inclusion
from tests.signed_memory import KEY, NEXT_KEY, ORIGIN, signed

AT = 2
COMMIT = COMMITS[AT]
PROOF = inclusion_file(inclusion(AT))
TRUST = Trust((KEY.verifier,))
GIT = "4f2c9d" + "0" * 34
DONE = Completion(
    task=TaskNamed("t", "refunds"),
    agent=COMMIT.actor,
    claimed_on=None,
    resolved_on=COMMIT.timestamp,
    claims=[Claim("tester", COMMIT.timestamp)],
    evidence=[
        Evidence("git", f"https://example.org/shop/commit/{GIT} refunds", digest={"gitCommit": GIT}),
        Evidence("git", f"once more: {GIT}", digest={"gitCommit": GIT}),
        Evidence("note", "tried by hand"),
    ],
    cites=[Cited("rule", {"sha256": "ab"}, 1)],
    cites_unknown=[],
    policy=PolicyDecision(COMMIT.policy_version, "allow"),
    log=entry_of(ORIGIN, AT, COMMIT.record_hash),
)


def receipt(
    *, key: SignerKey = KEY, subject: list[Subject] | None = None, predicate_type: str | None = None, **changes: Any
) -> bytes:
    made: Statement = statement_of(msgspec.structs.replace(DONE, **changes), COMMIT.record_hash)
    made = msgspec.structs.replace(
        made,
        subject=made.subject if subject is None else subject,
        predicate_type=predicate_type or made.predicate_type,
    )
    return sign_statement(made, [key])


def test_a_receipt_shows_what_was_done_to_whoever_believes_the_key() -> None:
    shown = check_receipt(receipt(), PROOF, TRUST, task="t")
    assert shown.completion == DONE
    assert (shown.size, shown.record_hash, shown.signed_by) == (SIZE, COMMIT.record_hash, [str(KEY.verifier)])
    assert shown.subjects == [
        Subject("git+https://example.org/shop", {"gitCommit": GIT}),
        Subject("task/t", {"sha256": COMMIT.record_hash}),
    ]


def test_the_statement_is_of_our_type_and_says_all_of_it() -> None:
    made = statement_of(DONE, COMMIT.record_hash)
    assert made.predicate_type == PREDICATE_TYPE
    assert made.predicate["claimedOn"] is None
    assert made.predicate["log"] == {
        "origin": ORIGIN,
        "index": AT,
        "leafHash": leaf_hash(bytes.fromhex(COMMIT.record_hash)).hex(),
    }


@pytest.mark.parametrize(
    ("ref", "name"),
    [
        (f"https://example.org/shop/commit/{GIT}", "git+https://example.org/shop"),
        (f"https://example.org/shop/-/commit/{GIT}", "git+https://example.org/shop"),
        (f"http://example.org/shop@{GIT}", "git+http://example.org/shop"),
        (f"http://example.org/X@{GIT}", "git+http://example.org/X"),
        (f"ssh://git@example.org/shop#{GIT} and more", "git+ssh://git@example.org/shop"),
        (f"https://example.org/shop/commits/{GIT}/{GIT}", "git+https://example.org/shop/commits"),
        (f"in https://example.org/shop/commit/{GIT}", f"git/{GIT}"),
        (f"https://example.org/a b/commit/{GIT}", f"git/{GIT}"),
        (GIT, f"git/{GIT}"),
    ],
)
def test_a_commit_is_named_by_where_it_is_said_to_be(ref: str, name: str) -> None:
    done = msgspec.structs.replace(DONE, evidence=[Evidence("git", ref, digest={"gitCommit": GIT})])
    assert statement_of(done, COMMIT.record_hash).subject[0] == Subject(name, {"gitCommit": GIT})


def test_every_commit_of_the_evidence_is_a_subject_once() -> None:
    other = "ab" * 20
    evidence = [Evidence("git", name, digest={"gitCommit": name}) for name in (GIT, other, GIT)]
    made = statement_of(msgspec.structs.replace(DONE, evidence=evidence), COMMIT.record_hash)
    assert [each.name for each in made.subject] == [f"git/{GIT}", f"git/{other}", "task/t"]


def test_the_proof_may_be_in_the_envelope() -> None:
    carried = msgspec.json.decode(receipt()) | {"tlogProof": PROOF.decode()}
    assert check_receipt(msgspec.json.encode(carried), None, TRUST).record_hash == COMMIT.record_hash
    with pytest.raises(NoteRefused) as error:
        check_receipt(receipt(), None, TRUST)
    assert (error.value.message, error.value.hint) == (
        "the proof of its log entry is missing",
        "name the file with --proof",
    )


def moved(seconds: str) -> str:
    return COMMIT.timestamp.replace("2023-11-14", seconds)


def test_what_was_resolved_before_its_entry_may_have_been_by_another() -> None:
    earlier = receipt(resolved_on=moved("2023-11-13"), agent="ann", policy=PolicyDecision("other", "allow"))
    assert check_receipt(earlier, PROOF, TRUST).completion.agent == "ann"


ANOTHER_ENTRY = "the proof is of another log entry than the receipt names"
ANOTHER_AGENT = "the log entry tells of another agent or another policy"
ANOTHER_SUBJECT = "its subjects are not the task, its log entry and the commits of its evidence"
NO_COMMIT = "the proof beside it is not that of a commit"
TASK = Subject("task/t", {"sha256": COMMIT.record_hash})


@pytest.mark.parametrize(
    ("data", "proof", "problem"),
    [
        (receipt(predicate_type="x"), PROOF, f"its predicateType is not {PREDICATE_TYPE}"),
        (receipt(agent=7), PROOF, "it does not tell of a task as it should: "),
        (receipt(cites=[Cited("rule", {}, 1)]), PROOF, "'rule' has no digest"),
        (receipt(evidence=[Evidence("test", "make test", digest={})]), PROOF, "'make test' has no digest"),
        (receipt(policy=PolicyDecision("none", "deny")), PROOF, "the policy did not allow what it tells of"),
        (receipt(), inclusion_file(inclusion(1)), ANOTHER_ENTRY),
        (receipt(), consistency_file(consistency(2)), NO_COMMIT),
        (receipt(), inclusion_file(msgspec.structs.replace(inclusion(AT), extra=None)), NO_COMMIT),
        (receipt(log=msgspec.structs.replace(DONE.log, index=1)), PROOF, ANOTHER_ENTRY),
        (receipt(log=msgspec.structs.replace(DONE.log, leaf_hash="ab")), PROOF, ANOTHER_ENTRY),
        (receipt(log=msgspec.structs.replace(DONE.log, origin="x")), PROOF, ANOTHER_ENTRY),
        (receipt(subject=[TASK]), PROOF, ANOTHER_SUBJECT),
        (receipt(resolved_on=moved("2023-11-15")), PROOF, "the log entry is older than what the receipt tells of"),
        (receipt(agent="eve"), PROOF, ANOTHER_AGENT),
        (receipt(policy=PolicyDecision("other", "allow")), PROOF, ANOTHER_AGENT),
    ],
)
def test_what_the_log_does_not_bear_out_is_refused_and_why_is_said(data: bytes, proof: bytes, problem: str) -> None:
    with pytest.raises(NoteRefused) as error:
        check_receipt(data, proof, TRUST)
    assert error.value.message.startswith(problem)


def test_a_receipt_of_another_task_is_refused() -> None:
    long = receipt(task=TaskNamed("t" * 90, ""))
    with pytest.raises(NoteRefused) as error:
        check_receipt(long, PROOF, TRUST, task="t")
    assert error.value.message == f"it is the receipt of '{'t' * 80}'"


def test_an_entry_about_an_edge_is_that_of_no_task() -> None:
    edge: Commit = COMMITS[EDGE]
    said = msgspec.structs.replace(DONE, evidence=[], log=entry_of(ORIGIN, EDGE, edge.record_hash))
    data = sign_statement(statement_of(said, edge.record_hash), [KEY])
    with pytest.raises(NoteRefused) as error:
        check_receipt(data, inclusion_file(inclusion(EDGE)), TRUST)
    assert error.value.message == "the log entry is not about a task"


def test_both_must_be_signed_for_the_same_log() -> None:
    """Who believes two logs is shown a receipt that one signed about an entry of the other."""
    other = SignerKey("o" * 90, NEXT_KEY.seed)
    both = Trust((KEY.verifier, other.verifier))
    with pytest.raises(NoteRefused) as error:
        check_receipt(receipt(key=other), PROOF, both)
    assert error.value.message == f"no key of the log '{ORIGIN}' signed it"
    foreign: InclusionProof = msgspec.structs.replace(inclusion(AT), note=signed(checkpoint(origin=other.name), other))
    entry = LogEntry(other.name, AT, DONE.log.leaf_hash)
    with pytest.raises(NoteRefused) as error:
        check_receipt(receipt(log=entry), inclusion_file(foreign), both)
    assert error.value.message == f"no key of the log '{'o' * 80}' signed it"


def test_a_receipt_is_asked_for_its_witnesses() -> None:
    with pytest.raises(NoteRefused, match="0 witnesses"):
        check_receipt(receipt(), PROOF, Trust((KEY.verifier,), quorum=1))
