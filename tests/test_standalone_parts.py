"""The verifier that stands alone, part by part: what each accepts, and what it says of the rest."""

from __future__ import annotations

import io
import json
import time
import zlib
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import verify_standalone as alone
from tallystick.commits import Commit, Verb, chain, tree
from tallystick.commits.signed_note import Checkpoint, SignerKey, VerifierKey
from tallystick.extensions.proofs.proof_file import ConsistencyProof, InclusionProof, consistency_file, inclusion_file
from tests.commits.small_log import COMMITS, SIZE, checkpoint, consistency, inclusion
from tests.signed_memory import KEY, NEXT_KEY, ORIGIN, STRANGER, WITNESS, signed

HASH = bytes(range(32))
LINE = b64encode(HASH).decode()


def refusal(asked: Callable[[], object]) -> str:
    with pytest.raises(alone.No) as no:
        asked()
    return str(no.value)


def belief(*keys: VerifierKey, quorum: int = 0, origin: str | None = None) -> alone.Belief:
    written = "\n".join(map(str, keys or (KEY.verifier,)))
    return alone.Belief(alone.read_keys(written, "keys"), quorum, origin)


# -- Ed25519

PUBLIC, MESSAGE, SIGNATURE = (
    bytes.fromhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"),
    b"\x72",
    bytes.fromhex(
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    ),
)
ORDER = 2**252 + 27742317777372353535851937790883648493
PRIME = 2**255 - 19


@pytest.mark.parametrize("seed", range(6))
def test_signatures_of_other_programs_hold(seed: int) -> None:
    key = SignerKey("a", bytes([seed] * 32))
    message = bytes(seed)
    signature = key.sign_bytes(message)
    assert alone.ed25519_holds(key.verifier.public, message, signature)
    assert not alone.ed25519_holds(key.verifier.public, message + b"x", signature)


@pytest.mark.parametrize(
    ("public", "signature"),
    [
        (PUBLIC, SIGNATURE[:-1]),
        (PUBLIC, SIGNATURE + b"\0"),
        (PUBLIC[:-1], SIGNATURE),
        (PUBLIC + b"\0", SIGNATURE),
        (PUBLIC, SIGNATURE[:32] + (int.from_bytes(SIGNATURE[32:], "little") + ORDER).to_bytes(32, "little")),
        (PUBLIC, SIGNATURE[:32] + ORDER.to_bytes(32, "little")),
        (PUBLIC, bytes([SIGNATURE[0] ^ 1]) + SIGNATURE[1:]),
        (PUBLIC, SIGNATURE[:40] + bytes([SIGNATURE[40] ^ 1]) + SIGNATURE[41:]),
        (PUBLIC[:-1] + bytes([PUBLIC[-1] ^ 128]), SIGNATURE),
        (bytes([255] * 32), SIGNATURE),
        (PRIME.to_bytes(32, "little"), SIGNATURE),
        ((2).to_bytes(32, "little"), SIGNATURE),
    ],
)
def test_what_is_no_signature_or_no_key_does_not_hold(public: bytes, signature: bytes) -> None:
    assert alone.ed25519_holds(PUBLIC, MESSAGE, SIGNATURE)
    assert not alone.ed25519_holds(public, MESSAGE, signature)


ONE = (1).to_bytes(32, "little")


def test_a_point_has_one_spelling() -> None:
    """y = 1 is the neutral element, with x = 0: which has no sign, and no second y."""
    neutral = alone._point(ONE)
    assert neutral == (0, 1, 1, 0)
    assert alone._point((1 | 1 << 255).to_bytes(32, "little")) is None
    assert alone._point((PRIME + 1).to_bytes(32, "little")) is None
    assert alone._point((PRIME - 1).to_bytes(32, "little")) is not None


# -- keys, notes and checkpoints


def encoded(*parts: bytes) -> str:
    return b64encode(b"".join(parts)).decode()


PLUS = SignerKey("witness.example", bytes([251] * 31 + [1]), WITNESS.algorithm)
"""Its encoded key has a plus sign, as base64 may."""


def test_keys_are_read_by_lines_and_remarks_are_passed_over() -> None:
    found = alone.read_keys(f"# of the shop\n\n  {KEY.verifier}  \n{PLUS.verifier}\n", "keys")
    assert [tuple(key) for key in found] == [
        (key.name, key.verifier.id, key.algorithm, key.verifier.public) for key in (KEY, PLUS)
    ]
    assert str(PLUS.verifier).count("+") > 2


def test_keys_that_the_standard_library_cannot_use_are_passed_over() -> None:
    quantum = bytes([6]) + bytes(1312)
    name = sha256(b"name\n" + quantum).digest()[:4].hex()
    found = alone.read_keys(f"name+{name}+{encoded(quantum)}\n{KEY.verifier}\n", "keys")
    assert [key.name for key in found] == [KEY.name]
    written = f"name+{name}+{encoded(quantum, bytes(1))}"
    assert refusal(lambda: alone.read_keys(written, "keys")) == "keys: the key of 'name' is not an Ed25519 key"


NO_KEY = "keys: a verifier key is written name+id+key"


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("name", NO_KEY),
        ("name+id", NO_KEY),
        ("+id+AAAA", NO_KEY),
        ("a b+00000000+AAAA", NO_KEY),
        ("name+00000000+A", "keys: 'A' is not base64"),
        ("name+00000000+", "keys: the key of 'name' is not an Ed25519 key"),
        (f"name+00000000+{encoded(bytes([6]), HASH)}", "keys: the key of 'name' is not an Ed25519 key"),
        (f"name+00000000+{encoded(bytes([1]), HASH[1:])}", "keys: the key of 'name' is not an Ed25519 key"),
        (f"name+00000000+{encoded(bytes([2]), HASH)}", "keys: the key of 'name' is not an Ed25519 key"),
        (f"name+00000000+{encoded(bytes([1]), HASH)}", "keys: the key of 'name' does not have the id 00000000"),
    ],
)
def test_what_is_no_key_is_refused(written: str, problem: str) -> None:
    assert refusal(lambda: alone.read_keys(written, "keys")) == problem


OTHER_WITNESS = SignerKey("second.example", bytes(range(4, 36)), WITNESS.algorithm)
ALL = (KEY.verifier, WITNESS.verifier, OTHER_WITNESS.verifier)


@pytest.mark.parametrize(
    ("signers", "believed", "witnesses"),
    [
        ([KEY], belief(), 0),
        ([STRANGER, KEY, NEXT_KEY], belief(), 0),
        ([KEY, WITNESS], belief(*ALL, quorum=1), 1),
        ([KEY, WITNESS, OTHER_WITNESS], belief(*ALL, quorum=2), 2),
        ([STRANGER], belief(STRANGER.verifier, origin=ORIGIN), 0),
    ],
)
def test_a_checkpoint_is_believed_that_is_signed_as_it_must_be(
    signers: list[SignerKey], believed: alone.Belief, witnesses: int
) -> None:
    found = alone.read_checkpoint(signed(checkpoint(), *signers), believed, "here")
    assert (found.origin, found.size, found.root) == (ORIGIN, SIZE, checkpoint().root)
    assert len(found.signers) == witnesses


NOT_SIGNED = f"here: no key that is believed signed it as the log '{ORIGIN}'"
ELSEWHERE = checkpoint().text() + "\n" + KEY.signature_line("another text\n")


@pytest.mark.parametrize(
    ("data", "believed", "problem"),
    [
        (signed(checkpoint(), NEXT_KEY), belief(), NOT_SIGNED),
        (signed(checkpoint(), STRANGER), belief(STRANGER.verifier), NOT_SIGNED),
        (signed(checkpoint()), belief(origin="another"), NOT_SIGNED),
        (signed(checkpoint(), WITNESS), belief(WITNESS.verifier, origin=ORIGIN), NOT_SIGNED),
        (signed(checkpoint()), belief(*ALL, quorum=1), "here: 0 witnesses cosigned it, not 1"),
        (signed(checkpoint(), KEY, WITNESS, WITNESS), belief(*ALL, quorum=2), "here: 1 witnesses cosigned it, not 2"),
        (ELSEWHERE.encode(), belief(), f"here: the signature of '{ORIGIN}' does not hold"),
        (
            signed(checkpoint(), STRANGER) + KEY.signature_line("another text\n").encode(),
            belief(),
            f"here: the signature of '{ORIGIN}' does not hold",
        ),
    ],
)
def test_a_checkpoint_is_not_believed_otherwise(data: bytes, believed: alone.Belief, problem: str) -> None:
    assert refusal(lambda: alone.read_checkpoint(data, believed, "here")) == problem


def test_a_cosignature_holds_for_its_time_only() -> None:
    key = alone.read_keys(str(WITNESS.verifier), "keys")[0]
    text = checkpoint().text()
    data = (text + "\n" + WITNESS.signature_line(text, seconds=258)).encode()
    ((_, _, signature),) = alone._note(data, "here")[1]
    assert key.holds(text, signature)
    assert not key.holds(text, (259).to_bytes(8, "big") + signature[8:])


NO_END = "here: a note ends with an empty line and signatures"
NO_LINE = "here: a signature line is a dash, a name and base64"
NO_NAME = "here: a signature has a name without spaces and plus signs, and more than a key's id"
SOME = "\n\n— name AAAAAAAAAAA=\n"


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (b"", NO_END),
        (b"no signatures\n", NO_END),
        (b"text\n\n", NO_END),
        ("text\n\n— name AAAAAAAAAA==".encode(), NO_END),
        ("text\n\n— name\n".encode(), NO_LINE),
        (b"text\n\n- name AAAAAAAAAAA=\n", NO_LINE),
        ("text\n\n— two names AAAAAAAAAAA=\n".encode(), NO_LINE),
        ("text\n\n— name AAAAAA==\n".encode(), NO_NAME),
        ("text\n\n— na+me AAAAAAAAAAA=\n".encode(), NO_NAME),
        ("text\n\n—  AAAAAAAAAAA=\n".encode(), NO_NAME),
        ("text\n\n— n\u2003e AAAAAAAAAAA=\n".encode(), NO_NAME),
        ("text\n\n— name AAAAAAAAAAB=\n".encode(), "here: 'AAAAAAAAAAB=' is not base64"),
        ("text\n\n— name AAAA-AAAAAAA=\n".encode(), "here: 'AAAA-AAAAAAA=' is not base64"),
        (f"text\n\n— name {'A' * 25}\n".encode(), f"here: '{'A' * 20}' is not base64"),
        (f"text\x00{SOME}".encode(), "here: a note has no control characters"),
        (f"text\x1f{SOME}".encode(), "here: a note has no control characters"),
        (b"\xff\n\n", "here: a note is UTF-8 text"),
        (b"x" * (alone.NOTE_BYTES_MAX + 1), "here: a note has at most 65536 bytes"),
        (b"text\n\n" + SOME[2:].encode() * 65, "here: a note has at most 64 signatures"),
    ],
)
def test_what_is_no_note_is_refused(written: bytes, problem: str) -> None:
    assert refusal(lambda: alone._note(written, "here")) == problem


def test_what_comes_before_the_last_empty_line_is_the_text() -> None:
    assert alone._note(f"o ne\n\ntwo{SOME}".encode(), "here") == ("o ne\n\ntwo\n", [("name", bytes(4), bytes(4))])
    assert len(alone._note(b"text\n\n" + SOME[2:].encode() * 64, "here")[1]) == 64
    assert alone._note(SOME.encode().rjust(alone.NOTE_BYTES_MAX, b"x"), "here")


NO_CHECKPOINT = "here: a checkpoint says its origin, its size and its root"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("origin\n5\n", NO_CHECKPOINT),
        (f"\n5\n{LINE}\n", NO_CHECKPOINT),
        (f"origin\n05\n{LINE}\n", "here: '05' is not a decimal number"),
        (f"origin\n\n{LINE}\n", "here: '' is not a decimal number"),
        (f"origin\n٥\n{LINE}\n", "here: '٥' is not a decimal number"),
        (f"origin\n9223372036854775808\n{LINE}\n", "here: '9223372036854775808' is not a decimal number"),
        (f"origin\n{'9' * 26}\n{LINE}\n", f"here: '{'9' * 20}' is not a decimal number"),
        ("origin\n5\nAAEC\n", "here: the root of a checkpoint has 32 bytes"),
        ("origin\n5\nnot base64\n", "here: 'not base64' is not base64"),
    ],
)
def test_what_is_no_checkpoint_is_refused(text: str, problem: str) -> None:
    assert refusal(lambda: alone.read_checkpoint(signed_text(text), belief(origin="origin"), "here")) == problem


def signed_text(text: str) -> bytes:
    return (text + "\n" + KEY.signature_line(text)).encode()


@pytest.mark.parametrize("size", [0, 1, 9, 10, (1 << 63) - 1])
def test_a_checkpoint_may_be_of_any_size_and_say_more(size: int) -> None:
    found = alone.read_checkpoint(signed_text(f"origin\n{size}\n{LINE}\nmore\n"), belief(origin="origin"), "here")
    assert found[:3] == ("origin", size, HASH)


# -- the tree

LEAVES = [tree.leaf_hash(bytes([number])) for number in range(18)]


def subtree(level: int, index: int) -> bytes:
    if level == 0:
        return LEAVES[index]
    return tree.node_hash(subtree(level - 1, 2 * index), subtree(level - 1, 2 * index + 1))


ROOTS = [tree.root(size, subtree) for size in range(len(LEAVES) + 1)]


def test_the_tree_has_the_roots_that_ours_has() -> None:
    assert alone.leaf_hash(b"\0") == LEAVES[0]
    grown = alone.Tree()
    for size, leaf in enumerate(LEAVES):
        assert (grown.size, grown.root()) == (size, ROOTS[size])
        grown.add(leaf)


def altered(hashes: list[bytes]) -> list[list[bytes]]:
    changed = [[*hashes[:at], HASH, *hashes[at + 1 :]] for at in range(len(hashes))]
    return [[*hashes, HASH], *changed, *([hashes[:-1], hashes[1:]] if hashes else [])]


@pytest.mark.parametrize("size", range(1, len(LEAVES) + 1))
def test_every_inclusion_holds_and_no_other(size: int) -> None:
    for index in range(size):
        hashes = tree.inclusion_proof(index, size, subtree)
        assert alone.inclusion_holds(LEAVES[index], index, size, hashes, ROOTS[size])
        for other in altered(hashes):
            assert not alone.inclusion_holds(LEAVES[index], index, size, other, ROOTS[size])
        for place in (-1, size, (index + 1) % size):
            if place != index:
                assert not alone.inclusion_holds(LEAVES[index], place, size, hashes, ROOTS[size])
        assert not alone.inclusion_holds(HASH, index, size, hashes, ROOTS[size])


@pytest.mark.parametrize("size", range(len(LEAVES) + 1))
def test_every_continuation_holds_and_no_other(size: int) -> None:
    for old in range(size + 1):
        hashes = tree.consistency_proof(old, size, subtree)
        assert alone.consistency_holds(old, size, hashes, ROOTS[old], ROOTS[size])
        assert not alone.consistency_holds(old, size, hashes, HASH, ROOTS[size])
        if old:
            assert not alone.consistency_holds(old, size, hashes, ROOTS[old], HASH)
        for other in altered(hashes):
            assert not alone.consistency_holds(old, size, other, ROOTS[old], ROOTS[size])


@pytest.mark.parametrize(("old", "size"), [(2, 1), (-1, -1), (-1, 1), (3, 4)])
def test_that_the_roots_are_the_same_is_not_enough(old: int, size: int) -> None:
    assert not alone.consistency_holds(old, size, [], ROOTS[1], ROOTS[1])


# -- proof files

NO_COMMIT = msgspec.structs.replace(inclusion(2), extra=None)
NAME = COMMITS[2].record_hash


def ask_inclusion(proof: InclusionProof, record_hash: str | None = None, payload: bytes | None = None) -> str:
    data = inclusion_file(proof)
    return alone.check_inclusion(data, belief(), "here", record_hash=record_hash, payload=payload)[0]


@pytest.mark.parametrize("index", range(SIZE))
def test_a_commit_is_shown_to_be_in_the_log(index: int) -> None:
    commit = COMMITS[index]
    said = (
        f"entry {index} of {SIZE} of '{ORIGIN}': {commit.operation} by 'tester' at {commit.timestamp}, "
        f"lamport {commit.lamport}, content_hash {commit.content_hash}"
    )
    assert ask_inclusion(inclusion(index)) == said
    assert ask_inclusion(inclusion(index), commit.record_hash, commit.payload) == (
        f"{said}, and the payload is the one it speaks of"
    )


def test_who_knows_the_commit_needs_less_in_the_proof() -> None:
    assert ask_inclusion(NO_COMMIT, NAME) == f"entry 2 of {SIZE} of '{ORIGIN}'"


@pytest.mark.parametrize(
    ("proof", "record_hash", "payload", "problem"),
    [
        (NO_COMMIT, None, None, "it does not carry its commit; name it by --record-hash"),
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
        (
            msgspec.structs.replace(inclusion(2), note=signed(checkpoint(), NEXT_KEY)),
            None,
            None,
            NOT_SIGNED.removeprefix("here: "),
        ),
    ],
)
def test_what_a_proof_does_not_show_is_refused(
    proof: InclusionProof, record_hash: str | None, payload: bytes | None, problem: str
) -> None:
    assert refusal(lambda: ask_inclusion(proof, record_hash, payload)) == f"here: {problem}"


def of_this_alone(extra: bytes) -> InclusionProof:
    """The proof of a log of this entry alone: signed, whatever it is."""
    single = Checkpoint(ORIGIN, 1, tree.leaf_hash(sha256(extra).digest()))
    return InclusionProof(0, (), signed(single), extra)


HEAD = chain.head_of(COMMITS[0])
NO_HEAD = "here: its fields are not those of a commit in canonical form"


@pytest.mark.parametrize(
    ("extra", "problem"),
    [
        (b"f" * 63 + b"g" + HEAD, "here: what comes before the commit is not a record_hash"),
        (b"f" * 65 + HEAD, NO_HEAD),
        (b"{}", NO_HEAD),
    ],
)
def test_what_was_proved_must_be_a_commit(extra: bytes, problem: str) -> None:
    assert refusal(lambda: ask_inclusion(of_this_alone(extra))) == problem
    assert "UPSERT_NODE" in ask_inclusion(of_this_alone(b"f" * 64 + HEAD))


def test_a_payload_that_fits_its_hash_alone_is_not_that_of_the_commit() -> None:
    forged = msgspec.structs.replace(COMMITS[0], content_hash=chain.content_hash(b"{}"))
    assert (
        refusal(lambda: ask_inclusion(of_this_alone(chain.head_of(forged)), payload=b"{}"))
        == "here: commit_id does not match payload, lamport, actor and operation"
    )


NO_PROOF = "here: a proof has an empty line and a checkpoint at its end"
NO_TEXT = "here: a proof is text"
NO_INDEX = "here: the proof does not say the index"
NO_HASHES = "here: a proof has at most 63 hashes, of 32 bytes"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"old 7\n", NO_PROOF),
        (b"\n\n".rjust(4 * alone.NOTE_BYTES_MAX + 1), NO_PROOF),
        ("c2sp\nindex ٧\n\n".encode(), NO_TEXT),
        (b"c2sp\n\n", NO_INDEX),
        (b"c2sp\nextra eA==\n\n", NO_INDEX),
        (b"c2sp\nextra eA==\nextra eA==\nindex 7\n\n", NO_INDEX),
        (b"c2sp\nindex x\n\n", "here: 'x' is not a decimal number"),
        (b"c2sp\nextra e\nindex 7\n\n", "here: 'e' is not base64"),
        (b"c2sp\nindex 7\nAAAA\n\n", NO_HASHES),
        (inclusion_file(InclusionProof(7, (HASH,) * 64, b"")), NO_HASHES),
    ],
)
def test_what_is_no_proof_is_refused(data: bytes, problem: str) -> None:
    asked: dict[str, Any] = {"record_hash": None, "payload": None}
    assert refusal(lambda: alone.check_inclusion(data, belief(), "here", **asked)) == problem
    if problem in (NO_PROOF, NO_TEXT):
        assert refusal(lambda: ask_written(data)) == problem


def ask_written(data: bytes) -> str:
    old = alone.read_checkpoint(signed(checkpoint(3)), belief(), "older")
    return alone.check_consistency(data, old, belief(), "here")[0]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"old x\n\n", "here: 'x' is not a decimal number"),
        (b"old 7\nx\n\n", "here: 'x' is not base64"),
        (b"old 7\nAAAA\n\n", NO_HASHES),
        (b"old 7\n\nnote", "here: a note ends with an empty line and signatures"),
    ],
)
def test_what_is_no_proof_of_continuation_is_refused(data: bytes, problem: str) -> None:
    assert refusal(lambda: ask_written(data)) == problem


def test_a_proof_may_have_as_many_hashes_and_bytes_as_are_allowed() -> None:
    most = inclusion_file(InclusionProof(7, (HASH,) * 63, signed(checkpoint())))
    assert "not entry 7" in refusal(lambda: ask_inclusion(InclusionProof(7, (HASH,) * 63, signed(checkpoint()), b"x")))
    assert alone._halves(most.ljust(4 * alone.NOTE_BYTES_MAX, b"x"), "here")[0].endswith(LINE)


def ask_continuation(proof: ConsistencyProof, older: bytes, *keys: VerifierKey, quorum: int = 0) -> str:
    old = alone.read_checkpoint(older, belief(*keys), "older")
    return alone.check_consistency(consistency_file(proof), old, belief(*keys, quorum=quorum), "here")[0]


@pytest.mark.parametrize("old", range(SIZE + 1))
def test_an_older_checkpoint_is_shown_to_be_continued(old: int) -> None:
    said = ask_continuation(consistency(old), signed(checkpoint(old)))
    assert said == f"the {SIZE} entries of '{ORIGIN}' begin with the {old} of before"


ANOTHER = SignerKey("another", KEY.seed)


@pytest.mark.parametrize(
    ("proof", "older", "problem"),
    [
        (consistency(3, signed(checkpoint(), NEXT_KEY)), signed(checkpoint(3)), NOT_SIGNED),
        (
            consistency(3),
            signed(checkpoint(3, "another"), ANOTHER),
            f"here: it is of '{ORIGIN}', the older checkpoint is of 'another'",
        ),
        (consistency(3), signed(checkpoint(2)), "here: it begins at size 3, the older checkpoint has 2"),
        (
            consistency(3),
            signed(Checkpoint(ORIGIN, 3, HASH)),
            "here: the tree of 5 entries does not begin with that of 3",
        ),
    ],
)
def test_what_is_not_continued_is_refused(proof: ConsistencyProof, older: bytes, problem: str) -> None:
    assert refusal(lambda: ask_continuation(proof, older, KEY.verifier, ANOTHER.verifier)) == problem


# -- the fields of a commit

FULL = msgspec.structs.replace(
    COMMITS[0],
    batch=(1, 2),
    group=1,
    nonce="n",
    reason="because\u2028ü",
    request="0" * 64,
    run_context={"\U0001f600": "astral", "\uff61": "not", "a": "b"},
    redacts={"1": "left"},
)


def test_every_field_that_a_commit_may_have_is_read() -> None:
    for commit in (*COMMITS, FULL):
        head = chain.head_of(commit)
        assert alone.read_head(head, "here")["commit_id"] == commit.commit_id
        assert alone.commit_id(commit.payload, alone.read_head(head, "here")) == commit.commit_id


def said_otherwise(**fields: Any) -> bytes:
    head = json.loads(chain.head_of(FULL)) | fields
    kept = {name: value for name, value in sorted(head.items()) if value is not ...}
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    "fields",
    [
        *({name: 7} for name in alone._REQUIRED if name != "lamport"),
        *({name: ...} for name in alone._REQUIRED),
        {"prev": 7},
        {"prev": ...},
        {"prev": "0" * 63},
        {"schema_version": "2"},
        {"operation": "UPSERT_NOTE"},
        {"lamport": 0},
        {"lamport": 1 << 53},
        {"lamport": 1.0},
        {"lamport": True},
        {"commit_id": "0" * 65},
        {"commit_id": "G" * 64},
        {"content_hash": "0" * 63},
        {"batch": [1]},
        {"batch": [1, 2, 3]},
        {"batch": [0, 2]},
        {"batch": {"1": 2, "2": 3}},
        {"group": 0},
        {"nonce": 7},
        {"reason": None},
        {"request": "0"},
        {"run_context": {"a": 7}},
        {"run_context": ["a"]},
        {"redacts": {"1": 7}},
        {"zzz": "unknown"},
    ],
    ids=repr,
)
def test_other_fields_are_those_of_no_commit(fields: dict[str, Any]) -> None:
    assert alone.read_head(said_otherwise(lamport=(1 << 53) - 1, prev="0" * 64, tool="x"), "here")
    assert refusal(lambda: alone.read_head(said_otherwise(**fields), "here")) == NO_HEAD


def test_fields_within_fields_stand_in_one_order_too() -> None:
    for name in ("run_context", "redacts"):
        data = said_otherwise(**{name: {"b": "1", "a": "2"}})
        assert refusal(lambda: alone.read_head(data, "here")) == NO_HEAD  # noqa: B023
        assert alone.read_head(said_otherwise(**{name: {"a": "2", "b": "1"}}), "here")


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"\xff", b"[" * 100_000, HEAD.replace(b":", b": ", 1), HEAD.replace(b'"test"', b'"t\\u0065st"', 1)],
    ids=range(6),
)
def test_fields_are_written_in_one_way(data: bytes) -> None:
    assert refusal(lambda: alone.read_head(data, "here")) == NO_HEAD


# -- the chain


def sealed(*commits: Commit) -> list[bytes]:
    """Chained anew: whoever can compute hashes can make any field fit."""
    lines: list[bytes] = []
    prev: Commit | None = None
    for commit in commits:
        fresh = msgspec.structs.replace(
            commit,
            prev=commit.prev if commit.prev == "0" * 64 else prev.commit_id if prev else None,
        )
        hashed = sha256((prev.record_hash if prev else "").encode() + chain.head_of(fresh)).hexdigest()
        prev = msgspec.structs.replace(fresh, record_hash=hashed)
        lines.append(chain.encode(prev)[:-1])
    return lines


def other(commit: Commit, **fields: Any) -> Commit:
    fresh = msgspec.structs.replace(commit, **fields)
    return msgspec.structs.replace(
        fresh,
        content_hash=chain.content_hash(fresh.payload),
        commit_id=chain.commit_id(fresh.payload, fresh.lamport, fresh.actor, fresh.operation),
    )


def fed(lines: list[bytes]) -> tuple[alone.Chain, dict[int, str]]:
    verifier = alone.Chain()
    for number, line in enumerate(lines, 1):
        verifier.feed(line, f"line {number}")
    return verifier, verifier.finish()


FIRST, SECOND, THIRD = COMMITS[:3]
LEFT = b'{"*0":{},"id":"n0","type":"note"}'
REDACTION = other(THIRD, operation=Verb.REDACT_NODE, redacts={"1": chain.content_hash(LEFT)})
MASKED = msgspec.structs.replace(FIRST, payload=LEFT)


def test_a_sound_chain_is_followed_to_its_end() -> None:
    batched = [other(each, batch=(number, 3)) for number, each in enumerate(COMMITS[2:], 1)]
    for commits in (COMMITS, [FIRST, SECOND, *batched]):
        lines = sealed(*commits)
        verifier, unmasked = fed(lines)
        assert (verifier.count, verifier.lamport) == (SIZE, COMMITS[-1].lamport)
        assert verifier.record_hash == chain.record_hash_of(lines[-1])
        assert unmasked == {}


def test_a_payload_may_look_like_the_end_of_a_head() -> None:
    payload = b'{"attrs":{"x":"\\",\\"payload\\":{","y":{"payload":{}}},"id":"n","type":"note"}'
    tricky = other(FIRST, payload=b'{"a":"x","payload":{"b":1}}')
    assert fed(sealed(tricky, other(SECOND, payload=payload)))[0].count == 2


def test_what_was_redacted_is_told_from_what_still_is_to_be() -> None:
    assert fed(sealed(MASKED, SECOND, REDACTION))[1] == {}
    assert fed(sealed(FIRST, SECOND, REDACTION))[1] == {1: chain.content_hash(LEFT)}
    padded = sealed(MASKED, SECOND, REDACTION)
    padded[0] = padded[0][:-1] + b"   }"
    assert fed(padded)[1] == {}


def with_bytes(old: bytes, new: bytes, at: int = 1) -> list[bytes]:
    lines = sealed(*COMMITS)
    assert old in lines[at]
    return [*lines[:at], lines[at].replace(old, new, 1), *lines[at + 1 :]]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (with_bytes(b'"payload":{', b'"payload": {'), "line 2: it is not a commit"),
        (with_bytes(b'"record_hash":"', b'"record_hash":"0'), "line 2: it is not a commit"),
        ([b""], "line 1: it is not a commit"),
        ([alone._HASH_KEY + b"0" * 64 + alone._PAYLOAD_KEY + b"{}}"], "line 1: it is not a commit"),
        ([sealed(FIRST)[0] + b" "], "line 1: it is not a commit"),
        (
            with_bytes(b'"actor":"tester"', b'"actor":"nobody"'),
            "line 2: record_hash does not match its fields and the record before it",
        ),
        (with_bytes(b'"actor"', b' "actor"'), "line 2: its fields are not those of a commit in canonical form"),
        *(
            (
                [sealed(FIRST)[0][:-1] + behind + b"}"],
                "line 1: the payload does not match content_hash, and no redaction names it",
            )
            for behind in (b"\t", b"X")
        ),
        (sealed(FIRST, other(SECOND, lamport=1)), "line 2: lamport 1 does not come after 1"),
        (sealed(FIRST, other(SECOND, prev="0" * 64)), "line 2: prev does not name the commit before it"),
        (sealed(other(FIRST, prev="0" * 64)), "line 1: prev does not name the commit before it"),
        (sealed(FIRST, other(SECOND, timestamp="2001")), "line 2: its timestamp is before that of the last"),
        (sealed(FIRST, other(SECOND, tenant="b")), "line 2: it is of tenant 'b' in a log of 'default'"),
        (sealed(FIRST, other(SECOND, batch=(2, 2))), "line 2: it is 2 of a batch of 2, out of turn"),
        (sealed(other(FIRST, batch=(2, 1))), "line 1: it is 2 of a batch of 1, out of turn"),
        (sealed(other(FIRST, batch=(1, 3)), SECOND), "line 2: it is 1 of a batch of 1, out of turn"),
        (
            sealed(other(FIRST, batch=(1, 3)), other(SECOND, batch=(2, 2))),
            "line 2: it is 2 of a batch of 2, out of turn",
        ),
        (
            sealed(other(FIRST, batch=(1, 3)), other(SECOND, batch=(2, 3))),
            "at the end: commit 2 of a batch of 3 is the last",
        ),
        (
            with_bytes(b'"id":"n1"', b'"id":"n2"'),
            "line 2: the payload does not match content_hash, and no redaction names it",
        ),
        (
            sealed(FIRST, msgspec.structs.replace(SECOND, commit_id="0" * 64)),
            "line 2: commit_id does not match payload, lamport, actor and operation",
        ),
        ([sealed(FIRST)[0][:-1] + b" }"], "line 1: spaces follow a payload that was never masked"),
        (sealed(FIRST, other(SECOND, redacts={"1": "x"})), "line 2: UPSERT_NODE cannot redact"),
        *(
            (
                sealed(FIRST, SECOND, other(REDACTION, redacts={text: "x"})),
                f"line 3: it redacts '{text[:20]}', which is not a lamport before its own",
            )
            for text in ("3", "0", "01", "x", "", "1" * 17, "9" * 30)
        ),
        (
            sealed(msgspec.structs.replace(FIRST, payload=b"{}"), SECOND, REDACTION),
            "line 1: what is left of the redacted payload is not what its redaction left",
        ),
        (
            sealed(FIRST, msgspec.structs.replace(SECOND, payload=b"{}"), REDACTION),
            "line 2: the payload does not match content_hash, and no redaction names it",
        ),
    ],
)
def test_a_broken_chain_is_refused(lines: list[bytes], problem: str) -> None:
    assert refusal(lambda: fed(lines)) == problem


def test_a_redaction_may_name_the_commit_before_it_and_large_positions() -> None:
    large = 10**15
    far = other(REDACTION, lamport=large + 5, redacts={str(large): "left", "2": "left"})
    assert fed(sealed(FIRST, SECOND, far))[1] == {large: "left", 2: "left"}


# -- files of a log


def test_lines_come_with_their_places(tmp_path: Path) -> None:
    one, two = tmp_path / f"{1:020d}.jsonl", tmp_path / f"{3:020d}.jsonl"
    one.write_bytes(b"a\nbc\n")
    two.write_bytes(b"d\n")
    lines = alone.Lines([str(one), str(two)], is_log=True)
    found = [
        (b"a", f"{one.name}, line 1", 2, 1),
        (b"bc", f"{one.name}, line 2", 5, None),
        (b"d", f"{two.name}, line 1", 7, 3),
    ]
    assert list(lines.read()) == found
    assert list(lines.read(5)) == found[:2]
    assert list(lines.read(4)) == found[:2]
    assert (lines.size(), lines.is_stream) == (7, False)
    two.write_bytes(b"d\ne")
    assert refusal(lambda: list(lines.read())) == f"{two.name}, line 2: the line has no end"
    assert [text for text, *_ in alone.Lines([str(two)], is_log=False).read()] == [b"d", b"e"]


def test_an_export_may_come_from_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"a\nb")))
    lines = alone.Lines(["-"], is_log=False)
    assert lines.is_stream
    assert list(lines.read()) == [(b"a", "-, line 1", 2, None), (b"b", "-, line 2", 3, None)]


def test_a_line_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alone, "LINE_BYTES_MAX", 8)
    (tmp_path / "x").write_bytes(b"1234567\n12345678\n")
    read = alone.Lines([str(tmp_path / "x")], is_log=False).read()
    assert next(read)[0] == b"1234567"
    assert refusal(lambda: next(read)) == "x: a line is longer than 8 bytes"


def test_an_empty_file_is_only_where_the_next_commit_goes(tmp_path: Path) -> None:
    first, last = tmp_path / f"{1:020d}.jsonl", tmp_path / f"{6:020d}.jsonl"
    first.write_bytes(b"a\n")
    last.write_bytes(b"")
    both = alone.Lines([str(first), str(last)], is_log=True)
    both.check_empty(5)
    assert refusal(lambda: both.check_empty(6)) == f"{last.name}: it is empty, and commits lie behind it"
    first.write_bytes(b"")
    assert refusal(lambda: both.check_empty(5)) == f"{first.name}: it is empty, and commits lie behind it"


MARK = {"lamport": 5, "count": 5, "end": 70, "record_hash": "0" * 64}


def mark_bytes(body: bytes) -> bytes:
    return (b"%08x %s" % (zlib.crc32(body), body)).ljust(511) + b"\n"


def test_the_kept_position_is_read_with_its_checksum(tmp_path: Path) -> None:
    path = tmp_path / "head"
    assert alone.read_mark(str(path)) is None
    path.write_bytes(mark_bytes(json.dumps(MARK | {"more": 1}).encode()))
    assert alone.read_mark(str(path)) == MARK


GOOD_MARK = mark_bytes(json.dumps(MARK).encode())


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        GOOD_MARK[:-1],
        GOOD_MARK + b"\n",
        b"00000000" + GOOD_MARK[8:],
        mark_bytes(b"[]"),
        mark_bytes(b"{}"),
        mark_bytes(b"{"),
        mark_bytes(b"\xff"),
        *(mark_bytes(json.dumps(MARK | {name: "5"}).encode()) for name in ("lamport", "count", "end")),
    ],
    ids=range(11),
)
def test_another_position_is_not_believed(tmp_path: Path, raw: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    (tmp_path / "head").write_bytes(raw)
    assert refusal(lambda: alone.read_mark(str(tmp_path / "head"))) == (
        f"{tmp_path / 'head'}: the kept position is unreadable"
    )
    assert all(0 < seconds < 0.01 for seconds in waited)


def test_a_position_that_is_being_written_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "head"
    path.write_bytes(GOOD_MARK[:100])
    monkeypatch.setattr(time, "sleep", lambda seconds: path.write_bytes(GOOD_MARK))
    assert alone.read_mark(str(path)) == MARK
