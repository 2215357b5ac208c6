"""Proof files: their bytes, what they show to whom, and why the others are refused."""

from __future__ import annotations

from base64 import b64encode

import msgspec
import pytest

from tallystick.commits import chain
from tallystick.commits.canonical import canonical_bytes
from tallystick.commits.signed_note import NoteRefused, SignerKey
from tallystick.commits.tree import leaf_hash
from tallystick.extensions.proofs.proof_file import (
    HASHES_MAX,
    PROOF_BYTES_MAX,
    ConsistencyProof,
    Included,
    InclusionProof,
    Trust,
    consistency_file,
    inclusion_file,
    parse_proof,
    trusted_checkpoint,
    verify_consistency_file,
    verify_inclusion_file,
)
from tests.commits.small_log import COMMITS, SIZE, checkpoint, consistency, inclusion
from tests.signed_memory import KEY, NEXT_KEY, ORIGIN, STRANGER, WITNESS, signed

TRUST = Trust((KEY.verifier,))
HASH = bytes(range(32))
LINE = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
NOTE = b"a note\n\nwith an empty line\n"


def said(error: pytest.ExceptionInfo[NoteRefused]) -> str:
    return error.value.message


# -- bytes


def test_a_proof_of_a_commit_is_written_as_others_read_it() -> None:
    head = f"c2sp.org/tlog-proof@v1\nextra eA==\nindex 7\n{LINE}\n{LINE}\n\n".encode()
    assert inclusion_file(InclusionProof(7, (HASH, HASH), NOTE, b"x")) == head + NOTE
    assert inclusion_file(InclusionProof(0, (), NOTE)) == b"c2sp.org/tlog-proof@v1\nindex 0\n\n" + NOTE


def test_a_proof_of_continuation_is_written_as_witnesses_read_it() -> None:
    assert consistency_file(ConsistencyProof(7, (HASH,), NOTE)) == f"old 7\n{LINE}\n\n".encode() + NOTE


@pytest.mark.parametrize("count", [0, 1, HASHES_MAX])
def test_proofs_are_read_as_they_were_written(count: int) -> None:
    for extra in (None, b"", b"x"):
        made = InclusionProof(7, (HASH,) * count, NOTE, extra)
        assert parse_proof(inclusion_file(made)) == made
    continued = ConsistencyProof(7, (HASH,) * count, NOTE)
    assert parse_proof(consistency_file(continued)) == continued


def test_a_proof_may_be_as_long_as_is_allowed() -> None:
    data = b"old 0\n\n".ljust(PROOF_BYTES_MAX, b"x")
    assert parse_proof(data).note == data[7:]
    with pytest.raises(NoteRefused) as error:
        parse_proof(data + b"x")
    assert said(error) == NO_PROOF


HEADER = b"c2sp.org/tlog-proof@v1\n"
NO_PROOF = "a proof is text with an empty line and a checkpoint at its end"
NO_HEADER = "a proof begins with 'c2sp.org/tlog-proof@v1' or with 'old'"
NO_HASHES = "a proof has at most 63 hashes, of 32 bytes"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", NO_PROOF),
        (b"old 7\n", NO_PROOF),
        ("old ٧\n\n".encode(), NO_PROOF),
        (b"new 7\n\n", NO_HEADER),
        (b"c2sp.org/tlog-proof@v2\nindex 7\n\n", NO_HEADER),
        (b"old 07\n\n", "'07' is not a decimal number"),
        (HEADER + b"\n", "the proof does not say the index"),
        (HEADER + b"extra eA==\n\n", "the proof does not say the index"),
        (HEADER + b"extra eA==\nextra eA==\nindex 7\n\n", "the proof does not say the index"),
        (HEADER + b"index x\n\n", "'x' is not a decimal number"),
        (HEADER + b"extra e\nindex 7\n\n", "'e' is not base64"),
        (HEADER + b"index 7\nAAAA\n\n", NO_HASHES),
        (inclusion_file(InclusionProof(7, (HASH,) * 64, NOTE)), NO_HASHES),
        (consistency_file(ConsistencyProof(7, (HASH,) * 64, NOTE)), NO_HASHES),
    ],
)
def test_what_is_no_proof_is_refused_and_why_is_said(data: bytes, problem: str) -> None:
    with pytest.raises(NoteRefused) as error:
        parse_proof(data)
    assert said(error) == problem


# -- whom to believe

OTHER_WITNESS = SignerKey("second.example", bytes(range(4, 36)), WITNESS.algorithm)
BOTH = (KEY.verifier, WITNESS.verifier, OTHER_WITNESS.verifier)


@pytest.mark.parametrize(
    ("signers", "trust"),
    [
        ([KEY], TRUST),
        ([NEXT_KEY, KEY], TRUST),
        ([KEY, WITNESS], Trust(BOTH, quorum=1)),
        ([KEY, WITNESS, OTHER_WITNESS], Trust(BOTH, quorum=2)),
        ([STRANGER], Trust((STRANGER.verifier,), origin=ORIGIN)),
    ],
)
def test_a_checkpoint_is_believed_that_is_signed_as_it_must_be(signers: list[SignerKey], trust: Trust) -> None:
    assert trusted_checkpoint(signed(checkpoint(), *signers), trust) == checkpoint()


NOT_SIGNED = f"no key that is believed signed it as the log '{ORIGIN}'"


@pytest.mark.parametrize(
    ("signers", "trust", "problem"),
    [
        ([NEXT_KEY], TRUST, NOT_SIGNED),
        ([STRANGER], Trust((STRANGER.verifier,)), NOT_SIGNED),
        ([KEY], Trust((KEY.verifier,), origin="another"), NOT_SIGNED),
        ([WITNESS], Trust((WITNESS.verifier,), origin=ORIGIN), NOT_SIGNED),
        ([KEY], Trust(BOTH, quorum=1), "0 witnesses cosigned it, not 1"),
        ([KEY, WITNESS, WITNESS], Trust(BOTH, quorum=2), "1 witnesses cosigned it, not 2"),
        ([KEY, NEXT_KEY], Trust((KEY.verifier, NEXT_KEY.verifier), quorum=1), "0 witnesses cosigned it, not 1"),
    ],
)
def test_a_checkpoint_is_not_believed_otherwise(signers: list[SignerKey], trust: Trust, problem: str) -> None:
    with pytest.raises(NoteRefused) as error:
        trusted_checkpoint(signed(checkpoint(), *signers), trust)
    assert said(error) == problem


# -- that a commit is in the log


@pytest.mark.parametrize("index", range(SIZE))
def test_a_commit_is_shown_to_be_in_the_log(index: int) -> None:
    commit = COMMITS[index]
    shown = verify_inclusion_file(inclusion(index), TRUST, payload=commit.payload)
    assert shown.commit == msgspec.structs.replace(commit, payload=b"{}")
    assert (shown.checkpoint, shown.index, shown.record_hash) == (checkpoint(), index, commit.record_hash)


def test_who_knows_the_commit_needs_less_in_the_proof() -> None:
    bare = msgspec.structs.replace(inclusion(2), extra=None)
    name = COMMITS[2].record_hash
    assert verify_inclusion_file(bare, TRUST, record_hash=name) == Included(checkpoint(), 2, name, None)
    assert verify_inclusion_file(inclusion(2), TRUST, record_hash=name).record_hash == name


def with_extra(extra: bytes) -> tuple[InclusionProof, Trust]:
    """A log of this entry alone: signed, whatever it is."""
    leaf = leaf_hash(bytes.fromhex(chain.content_hash(extra)))
    single = signed(msgspec.structs.replace(checkpoint(), size=1, root=leaf))
    return InclusionProof(0, (), single, extra), TRUST


HEAD = chain.head_of(COMMITS[0])


@pytest.mark.parametrize(
    ("extra", "problem"),
    [
        (b"f" * 63 + b"g" + HEAD, "what comes before the commit is not a record_hash"),
        (b"F" * 64 + HEAD, "what comes before the commit is not a record_hash"),
        (b"f" * 65 + HEAD, "what was proved is no commit: "),
        (b"f" * 64, "what was proved is no commit: "),
        (b"{}", "what was proved is no commit: "),
        (HEAD.replace(b'"actor"', b' "actor"'), "what was proved is no commit: "),
    ],
)
def test_what_was_proved_must_be_a_commit(extra: bytes, problem: str) -> None:
    with pytest.raises(NoteRefused) as error:
        verify_inclusion_file(*with_extra(extra))
    assert said(error).startswith(problem)
    assert verify_inclusion_file(*with_extra(b"f" * 64 + HEAD)).commit is not None


NO_COMMIT = msgspec.structs.replace(inclusion(2), extra=None)
NAME = COMMITS[2].record_hash


@pytest.mark.parametrize(
    ("proof", "record_hash", "payload", "problem"),
    [
        (NO_COMMIT, None, None, "it does not carry its commit"),
        (inclusion(2), COMMITS[1].record_hash, None, f"it is about the commit {NAME}"),
        (NO_COMMIT, COMMITS[1].record_hash, None, "the commit is not entry 2 of the tree that was signed"),
        (
            msgspec.structs.replace(inclusion(2), index=3),
            None,
            None,
            "the commit is not entry 3 of the tree that was signed",
        ),
        (NO_COMMIT, NAME, b"{}", "it does not carry its commit, which alone could tell of the payload"),
        (inclusion(2), None, COMMITS[1].payload, "the payload is not the one of this commit"),
    ],
)
def test_what_is_not_shown_is_refused_and_why_is_said(
    proof: InclusionProof, record_hash: str | None, payload: bytes | None, problem: str
) -> None:
    with pytest.raises(NoteRefused) as error:
        verify_inclusion_file(proof, TRUST, record_hash=record_hash, payload=payload)
    assert said(error) == problem
    assert error.value.hint == ("name its record_hash" if problem == "it does not carry its commit" else None)


def test_a_payload_that_fits_its_hash_alone_is_not_that_of_the_commit() -> None:
    payload = canonical_bytes({"id": "other"})
    forged = msgspec.structs.replace(COMMITS[0], content_hash=chain.content_hash(payload))
    with pytest.raises(NoteRefused) as error:
        verify_inclusion_file(*with_extra(chain.head_of(forged)), payload=payload)
    assert said(error) == "commit_id does not match payload, lamport, actor and operation"


def test_a_proof_is_asked_for_its_witnesses() -> None:
    trust = Trust(BOTH, quorum=1)
    with pytest.raises(NoteRefused, match="0 witnesses"):
        verify_inclusion_file(inclusion(2), trust)
    assert verify_inclusion_file(inclusion(2, note=signed(checkpoint(), KEY, WITNESS)), trust).index == 2


# -- that the log continues


@pytest.mark.parametrize("old", range(SIZE + 1))
def test_an_older_checkpoint_is_shown_to_be_continued(old: int) -> None:
    shown = verify_consistency_file(consistency(old), signed(checkpoint(old)), TRUST)
    assert shown == (checkpoint(old), checkpoint())


def test_witnesses_are_asked_for_at_the_newer_checkpoint_alone() -> None:
    trust = Trust(BOTH, quorum=1)
    cosigned = consistency(3, signed(checkpoint(), KEY, WITNESS))
    assert verify_consistency_file(cosigned, signed(checkpoint(3)), trust)[0] == checkpoint(3)
    with pytest.raises(NoteRefused, match="0 witnesses"):
        verify_consistency_file(consistency(3), signed(checkpoint(3), KEY, WITNESS), trust)


OF_ANOTHER = signed(checkpoint(3, "another"), SignerKey("another", KEY.seed))


@pytest.mark.parametrize(
    ("proof", "older", "problem"),
    [
        (consistency(3), signed(checkpoint(3), NEXT_KEY), NOT_SIGNED),
        (consistency(3, signed(checkpoint(), NEXT_KEY)), signed(checkpoint(3)), NOT_SIGNED),
        (consistency(3), OF_ANOTHER, f"it is of '{ORIGIN}', the older checkpoint is of 'another'"),
        (consistency(3), signed(checkpoint(2)), "it begins at size 3, the older checkpoint has 2"),
        (
            consistency(3),
            signed(msgspec.structs.replace(checkpoint(3), root=HASH)),
            "the tree of 5 entries does not begin with that of 3",
        ),
    ],
)
def test_what_is_not_continued_is_refused_and_why_is_said(proof: ConsistencyProof, older: bytes, problem: str) -> None:
    trust = Trust((KEY.verifier, SignerKey("another", KEY.seed).verifier))
    with pytest.raises(NoteRefused) as error:
        verify_consistency_file(proof, older, trust)
    assert said(error) == problem


def test_the_entry_is_the_hash_of_what_the_proof_carries() -> None:
    data = inclusion_file(inclusion(1)).decode()
    text = COMMITS[0].record_hash.encode() + chain.head_of(COMMITS[1])
    assert f"\nextra {b64encode(text).decode()}\n" in data
    assert chain.content_hash(text) == COMMITS[1].record_hash
