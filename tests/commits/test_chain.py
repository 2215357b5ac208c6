"""Lines, hashes, and that nothing false gets past the verifier."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from tallystick.commits import Commit, Draft, Operation, Verb
from tallystick.commits.canonical import INTEGER_MAX, canonical_bytes
from tallystick.commits.chain import (
    Verifier,
    commit_id,
    content_hash,
    decode,
    decode_head,
    encode,
    head_of,
    is_chained,
    is_committed,
    is_undamaged,
    mask,
    payload_of,
    record_hash_of,
    redacted_payload,
    seal,
    seal_line,
    verify,
)
from tallystick.errors import Corrupt, InvalidArgument

NODE = {"id": "n", "type": "note", "attrs": {"b": "ü", "a": 1.0, "secret": "Ada Lovelace, London"}}
NODE_BYTES = canonical_bytes(NODE)


class Writer:
    """Seals operations one behind the other and keeps their lines, without newlines."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.commits: list[Commit] = []

    def write(self, *operations: Operation, **overrides: Any) -> None:
        draft = Draft(operations, "ada", "memory.write", reason="why not", run_context={"run_id": "r1"})
        for number, operation in enumerate(operations, 1):
            last = self.commits[-1] if self.commits else None
            fields: dict[str, Any] = {
                "tenant": "default",
                "lamport": last.lamport + 1 if last else 1,
                "timestamp": f"2025-01-04T12:00:00.{len(self.commits):03d}Z",
                "prev": last.commit_id if last else None,
                "prev_record_hash": last.record_hash if last else "",
                "batch": (number, len(operations)) if len(operations) > 1 else None,
            }
            self.keep(seal(draft, operation, **fields | overrides))

    def keep(self, commit: Commit) -> None:
        self.commits.append(commit)
        self.lines.append(encode(commit)[:-1])

    def forge(self, **changes: Any) -> None:
        """Alter the last commit and chain it again, as one could who rewrites the end of a log."""
        last = self.commits.pop()
        self.lines.pop()
        before = self.commits[-1].record_hash if self.commits else ""
        line = encode(msgspec.structs.replace(last, **changes))
        head = line[: line.index(b',"record_hash"')] + b"}"
        self.keep(msgspec.structs.replace(last, **changes, record_hash=sha(before.encode() + head)))


def upsert(**attrs: Any) -> Operation:
    return Operation(Verb.UPSERT_NODE, {"id": "n", "type": "note", "attrs": attrs})


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def verify_all(lines: list[bytes]) -> Verifier:
    verifier = Verifier()
    for line in lines:
        verifier.feed(line)
    verifier.finish()
    return verifier


# -- the formulas, recomputed as any observer would: hashlib, json and a JCS library


def test_equal_payloads_have_equal_content_hashes_however_they_were_ordered() -> None:
    assert content_hash({"b": 2, "a": 1}) == content_hash({"a": 1, "b": 2}) == sha(b'{"a":1,"b":2}')


def test_hashes_are_the_same_from_a_payload_and_from_its_canonical_bytes() -> None:
    data = canonical_bytes(NODE)
    assert content_hash(data) == content_hash(NODE)
    assert commit_id(data, 7, "ada", Verb.UPSERT_NODE) == commit_id(NODE, 7, "ada", "UPSERT_NODE")


def test_commit_id_joins_payload_lamport_actor_and_operation_without_separators() -> None:
    assert commit_id({"a": 1}, 42, "ädä", Verb.DELETE_NODE) == sha('{"a":1}42ädäDELETE_NODE'.encode())


def test_an_observer_recomputes_every_hash_from_the_lines_alone() -> None:
    writer = Writer()
    writer.write(Operation(Verb.UPSERT_NODE, NODE, nonce="once"))
    writer.write(upsert(x=1e-6), upsert(x=[None, True]))
    before, previous = "", None
    for line in writer.lines:
        record = json.loads(line)
        payload = rfc8785.dumps(record.pop("payload"))
        record_hash = record.pop("record_hash")
        suffix = f"{record['lamport']}{record['actor']}{record['operation']}"
        assert record["content_hash"] == sha(payload)
        assert record["commit_id"] == sha(payload + suffix.encode())
        assert record["prev"] == previous
        assert record_hash == sha(before.encode() + rfc8785.dumps(record))
        before, previous = record_hash, record["commit_id"]


# -- lines


def test_a_line_holds_the_head_then_the_record_hash_then_the_payload() -> None:
    writer = Writer()
    writer.write(upsert())
    record = json.loads(writer.lines[0])
    assert list(record)[-2:] == ["record_hash", "payload"]
    assert list(record)[:-2] == sorted(list(record)[:-2])
    assert record["prev"] is None
    assert not {"nonce", "batch", "redacts", "group"} & set(record)
    assert encode(writer.commits[0]) == writer.lines[0] + b"\n"


TRICKY = st.text(max_size=12) | st.sampled_from(
    [
        '","payload":{',
        ',"record_hash":"',
        "record_hash",
        "payload",
        '\\","payload":{"',
        "\n",
        "\U0010ffff\ue000",
        "",
        "{",
    ]
)
CONTEXTS = st.dictionaries(TRICKY, TRICKY, max_size=4)
COUNTS = st.integers(1, INTEGER_MAX)
HASHES = st.binary(max_size=4).map(sha)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | TRICKY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TRICKY, inner, max_size=4),
    max_leaves=8,
)
OPERATIONS = st.builds(
    Operation,
    verb=st.sampled_from(Verb),
    payload=st.dictionaries(TRICKY, JSON, max_size=4),
    nonce=st.none() | TRICKY,
    redacts=st.none() | st.dictionaries(COUNTS.map(str), HASHES, max_size=3),
)
DRAFTS = st.builds(
    Draft,
    operations=st.just(()),
    actor=TRICKY,
    tool=TRICKY,
    reason=st.none() | TRICKY,
    run_context=st.none() | CONTEXTS,
    policy_version=TRICKY,
)
COMMITS = st.builds(
    seal,
    DRAFTS,
    OPERATIONS,
    tenant=TRICKY,
    lamport=COUNTS,
    timestamp=TRICKY,
    prev=st.none() | HASHES,
    prev_record_hash=st.just("") | HASHES,
    batch=st.none() | st.tuples(COUNTS, COUNTS),
    group=st.none() | COUNTS,
)


@given(COMMITS)
def test_any_commit_comes_back_from_its_line_and_goes_into_the_same_line(commit: Commit) -> None:
    line = encode(commit)
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    assert decode(line[:-1]) == commit
    assert encode(decode(line[:-1])) == line
    assert payload_of(line[:-1]) == commit.payload


def test_a_payload_may_look_like_the_end_of_a_head() -> None:
    writer = Writer()
    writer.write(
        Operation(Verb.UPSERT_NODE, {"o": "0" * 64, "payload": {"o": "", "payload": {}}, "record_hash": "0" * 64})
    )
    assert decode(writer.lines[0]) == writer.commits[0]


@given(COMMITS)
def test_the_head_of_any_commit_is_canonical(commit: Commit) -> None:
    record = json.loads(encode(commit))
    del record["payload"], record["record_hash"]
    assert encode(commit).startswith(rfc8785.dumps(record)[:-1] + b',"record_hash":"')


@given(DRAFTS, OPERATIONS, COUNTS, st.sampled_from(["", "0" * 64]))
def test_a_sealed_commit_verifies(draft: Draft, operation: Operation, lamport: int, before: str) -> None:
    commit = seal(draft, operation, tenant="t", lamport=lamport, timestamp="", prev=None, prev_record_hash=before)
    line = encode(commit)[:-1]
    assert verify(line, prev=None, prev_record_hash=before, after_lamport=lamport - 1) == (decode(line), True)
    assert is_proven(line, before)


@pytest.mark.parametrize(
    ("draft", "changes"),
    [
        (Draft((), "\ud800", "t"), {}),
        (Draft((), "a", "\ud800"), {}),
        (Draft((), "a", "t", reason="\ud800"), {}),
        (Draft((), "a", "t", run_context={"\ud800": ""}), {}),
        (Draft((), "a", "t"), {"lamport": INTEGER_MAX + 1}),
    ],
)
def test_what_has_no_canonical_form_is_not_sealed(draft: Draft, changes: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"tenant": "t", "lamport": 1, "timestamp": "", "prev": None, "prev_record_hash": ""}
    with pytest.raises(InvalidArgument):
        seal(draft, upsert(), **fields | changes)


def sample() -> bytes:
    writer = Writer()
    writer.write(Operation(Verb.UPSERT_NODE, NODE, nonce="once"))
    return writer.lines[0]


def replaced(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    def change(line: bytes) -> bytes:
        assert line.count(old) == 1
        return line.replace(old, new)

    return change


NOT_OURS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "nothing": (lambda line: b"", "does not end in record_hash and payload"),
    "NUL bytes, as a crash may leave": (lambda line: bytes(500), "does not end in record_hash and payload"),
    "the first half": (lambda line: line[: len(line) // 2], "not a commit"),
    "all but the last brace": (lambda line: line[:-1] + b" ", "does not end in"),
    "other JSON": (lambda line: b'{"a":1}', "does not end in record_hash and payload"),
    "a payload that is no object": (replaced(b'"payload":{"attrs"', b'"payload":["attrs"'), "does not end in"),
    "no payload": (lambda line: line[: line.index(b'","payload"')] + b"}", "does not end in"),
    "a short record_hash": (replaced(b'","payload":{"attrs', b'f","payload":{"attrs'), "does not end in"),
    "a record_hash that is not ASCII": (
        lambda line: line[: line.index(b'","payload"') - 1] + b"\xff" + line[line.index(b'","payload"') :],
        "record_hash is not hexadecimal",
    ),
    "a head that is no JSON": (replaced(b'{"actor":', b'{"actor";'), "malformed"),
    "a head in another encoding": (replaced(b'"ada"', b'"ad\xe4"'), "utf-8"),
    "half of a surrogate pair": (replaced(b'"ada"', b'"\\ud800"'), "not a commit"),
    "a missing field": (replaced(b'"tool":"memory.write"', b'"reason":""'), "tool"),
    "an unknown field": (replaced(b'"tool":', b'"tools":1,"tool":'), "unknown field `tools`"),
    "an unknown operation": (replaced(b"UPSERT_NODE", b"INSERT_NODE"), "INSERT_NODE"),
    "a lamport of nought": (replaced(b'"lamport":1', b'"lamport":0'), "lamport"),
    "a lamport past 2^53": (replaced(b'"lamport":1', b'"lamport":9007199254740992'), "lamport"),
    "a lamport that is text": (replaced(b'"lamport":1', b'"lamport":"1"'), "lamport"),
    "a batch past 2^53": (replaced(b'"lamport"', b'"batch":[1,9007199254740992],"lamport"'), "batch"),
    "a group past 2^53": (replaced(b'"lamport"', b'"group":9007199254740992,"lamport"'), "group"),
    "another format": (replaced(b'"schema_version":"1"', b'"schema_version":"2"'), "schema_version '2'"),
}


@pytest.mark.parametrize("name", NOT_OURS)
def test_a_line_that_is_not_ours_is_corrupt(name: str) -> None:
    change, problem = NOT_OURS[name]
    with pytest.raises(Corrupt) as corrupt:
        decode(change(sample()))
    assert problem in corrupt.value.message


@given(st.binary(max_size=300) | st.tuples(st.integers(0, 900), st.integers(0, 900), st.binary(max_size=9)))
def test_decode_and_verify_raise_nothing_but_corrupt(damage: bytes | tuple[int, int, bytes]) -> None:
    line = sample()
    line = damage if isinstance(damage, bytes) else line[: damage[0]] + damage[2] + line[damage[1] :]
    try:
        is_chained(line, "")
        is_undamaged(line, 0)
        is_committed(line, decode(line))
        verify_all([line])
    except Corrupt:
        return
    assert line == sample()


# -- masks


def test_a_masked_line_keeps_its_length_and_gives_the_new_payload() -> None:
    line = sample()
    payload = canonical_bytes(NODE | {"attrs": "[REDACTED]"})
    masked = mask(line, payload)
    assert len(masked) == len(line)
    assert decode(masked).payload == payload == payload_of(masked)
    assert encode(decode(masked)) == masked[: line.index(NODE_BYTES)] + payload + b"}\n"


def test_masking_again_may_use_all_of_the_room_and_no_more() -> None:
    line = sample()
    original = payload_of(line)
    assert mask(mask(line, b"{}"), original) == line
    with pytest.raises(ValueError, match="does not fit"):
        mask(line, original + b" ")


def test_a_masked_payload_is_reported_and_the_rest_still_verified() -> None:
    line = sample()
    masked = mask(line, b"{}")
    assert verify(line, prev=None, prev_record_hash="", after_lamport=0) == (decode(line), True)
    assert verify(masked, prev=None, prev_record_hash="", after_lamport=0) == (decode(masked), False)
    with pytest.raises(Corrupt, match="record_hash"):
        verify(masked, prev=None, prev_record_hash="0" * 64, after_lamport=0)


# -- damage


def log_of_five() -> list[bytes]:
    writer = Writer()
    writer.write(Operation(Verb.UPSERT_NODE, NODE, nonce="once"))
    writer.write(upsert(x=1), upsert(x=2))
    writer.write(Operation(Verb.DELETE_NODE, {"node_id": "n"}))
    writer.write(upsert(x="back again"))
    return writer.lines


def test_a_sound_log_verifies() -> None:
    lines = log_of_five()
    verifier = verify_all(lines)
    last = decode(lines[-1])
    assert (verifier.count, verifier.lamport) == (5, 5)
    assert (verifier.commit_id, verifier.record_hash) == (last.commit_id, last.record_hash)
    assert verifier.timestamp == last.timestamp


def test_every_flipped_bit_of_every_byte_is_found() -> None:
    lines = log_of_five()[:3]
    verify_all(lines)
    for number in range(len(lines)):
        for place in range(len(lines[number])):
            for bit in range(8):
                damaged = bytearray(lines[number])
                damaged[place] ^= 1 << bit
                with pytest.raises(Corrupt):
                    verify_all([*lines[:number], bytes(damaged), *lines[number + 1 :]])


def is_proven(line: bytes, before: str) -> bool:
    """By what a reader of one line checks."""
    try:
        return is_committed(line, decode(line)) and is_chained(line, before)
    except Corrupt:
        return False


@given(COMMITS)
def test_a_reader_of_one_line_knows_it_for_what_was_committed(commit: Commit) -> None:
    line = encode(commit)[:-1]
    assert is_committed(line, commit)
    assert record_hash_of(line) == commit.record_hash


def test_a_reader_of_one_line_finds_every_flipped_bit_of_every_byte() -> None:
    first, line, *_ = log_of_five()
    before = record_hash_of(first)
    assert is_proven(line, before)
    for place in range(len(line)):
        for bit in range(8):
            damaged = bytearray(line)
            damaged[place] ^= 1 << bit
            assert not is_proven(bytes(damaged), before), bytes(damaged)


def test_a_masked_payload_is_not_the_committed_one() -> None:
    masked = mask(sample(), LEFT)
    assert not is_committed(masked, decode(masked))
    assert not is_undamaged(masked, prefix_of(masked))


def prefix_of(line: bytes) -> int:
    return int(decode(line).commit_id[:8], 16)


def test_every_flipped_bit_of_a_payload_is_damage() -> None:
    line = sample()
    prefix = prefix_of(line)
    assert is_undamaged(line, prefix)
    assert not is_undamaged(line, prefix ^ 1)
    for place in range(line.index(b'"payload":') + 1, len(line) - 1):
        for bit in range(8):
            damaged = bytearray(line)
            damaged[place] ^= 1 << bit
            assert not is_undamaged(bytes(damaged), prefix), bytes(damaged)


def test_every_removed_or_doubled_byte_is_found() -> None:
    line = sample()
    for place in range(len(line)):
        for damaged in (line[:place] + line[place + 1 :], line[:place] + line[place : place + 1] + line[place:]):
            with pytest.raises(Corrupt):
                verify_all([damaged])


def test_padding_is_found_where_nothing_was_masked() -> None:
    with pytest.raises(Corrupt, match="lamport 1: spaces follow a payload that was never masked"):
        verify_all([sample()[:-1] + b" }"])


@pytest.mark.parametrize("place", range(4))
def test_a_removed_line_is_found(place: int) -> None:
    lines = log_of_five()
    del lines[place]
    with pytest.raises(Corrupt, match="prev is"):
        verify_all(lines)


@pytest.mark.parametrize("place", range(4))
def test_swapped_lines_are_found(place: int) -> None:
    lines = log_of_five()
    lines[place], lines[place + 1] = lines[place + 1], lines[place]
    with pytest.raises(Corrupt):
        verify_all(lines)


@pytest.mark.parametrize("place", range(6))
def test_an_added_line_is_found(place: int) -> None:
    lines = log_of_five()
    lines.insert(place, lines[min(place, 4)])
    with pytest.raises(Corrupt, match="does not come after"):
        verify_all(lines)


def test_a_log_may_be_verified_from_a_trusted_commit_on() -> None:
    lines = log_of_five()
    trusted = decode(lines[2])
    verifier = Verifier(
        prev=trusted.commit_id,
        prev_record_hash=trusted.record_hash,
        after_lamport=trusted.lamport,
        timestamp=trusted.timestamp,
    )
    assert [verifier.feed(line).lamport for line in lines[3:]] == [4, 5]
    verifier.finish()


def test_after_a_false_line_the_verifier_stands_where_it_stood() -> None:
    lines = log_of_five()
    verifier = Verifier()
    verifier.feed(lines[0])
    for wrong in (lines[0], lines[3], b"torn"):
        with pytest.raises(Corrupt):
            verifier.feed(wrong)
    for line in lines[1:]:
        verifier.feed(line)
    verifier.finish()


FALSE_ENDS: dict[str, tuple[dict[str, Any], str]] = {
    "lamport": ({"lamport": 1}, "lamport 1: lamport 1 does not come after 1"),
    "prev": ({"prev": "0" * 64}, "lamport 2: prev is 0000"),
    "no prev": ({"prev": None}, "lamport 2: prev is None"),
    "commit_id": ({"commit_id": "0" * 64}, "lamport 2: commit_id does not match"),
    "actor": ({"actor": "eve"}, "lamport 2: commit_id does not match"),
    "timestamp": ({"timestamp": "2025-01-04T11:59:59.999Z"}, "lamport 2: timestamp 2025-01-04T11:59:59.999Z is before"),
    "tenant": ({"tenant": "other"}, "lamport 2: tenant is 'other' in a log of 'default'"),
    "batch starts late": ({"batch": (2, 3)}, "lamport 2: it is 2 of a batch of 3 where 1 of 3 should be"),
    "batch overflows": ({"batch": (3, 2)}, "lamport 2: it is 3 of a batch of 2"),
    "batch is open": ({"batch": (1, 2)}, "lamport 2: the log ends after commit 1 of a batch of 2"),
    "content_hash": ({"content_hash": "0" * 64}, "lamport 2: the payload does not match content_hash"),
    "redacts": ({"redacts": {"1": "0" * 64}}, "lamport 2: UPSERT_NODE cannot redact"),
}


@pytest.mark.parametrize("name", FALSE_ENDS)
def test_a_false_field_is_found_even_where_the_chain_was_forged_anew(name: str) -> None:
    changes, problem = FALSE_ENDS[name]
    writer = Writer()
    writer.write(upsert(x=1))
    writer.write(upsert(x=2))
    writer.forge(**changes)
    with pytest.raises(Corrupt) as corrupt:
        verify_all(writer.lines)
    assert corrupt.value.message.startswith(problem)
    assert corrupt.value.details == {"lamport": writer.commits[-1].lamport}


def test_a_head_that_is_not_canonical_is_found_even_where_its_hash_was_forged() -> None:
    line = sample()
    head = line[: line.index(b',"record_hash"')].replace(b'"actor":', b'"actor": ')
    rest = line[line.index(b'","payload"') :]
    forged = head + b',"record_hash":"' + sha(head + b"}").encode() + rest
    with pytest.raises(Corrupt, match="not written in canonical form"):
        verify_all([forged])


def test_a_batch_that_another_commit_breaks_into_is_found() -> None:
    writer = Writer()
    writer.write(upsert(x=1), upsert(x=2))
    writer.lines.pop()
    writer.commits.pop()
    writer.write(upsert(x=3))
    with pytest.raises(Corrupt, match="lamport 2: it is 1 of a batch of 1 where 2 of 2 should be"):
        verify_all(writer.lines)


def test_a_batch_that_changes_its_size_is_found() -> None:
    writer = Writer()
    writer.write(upsert(x=1), upsert(x=2))
    writer.forge(batch=(2, 3))
    with pytest.raises(Corrupt, match="lamport 2: it is 2 of a batch of 3 where 2 of 2 should be"):
        verify_all(writer.lines)


def test_commits_may_share_a_timestamp() -> None:
    writer = Writer()
    writer.write(upsert(x=1), upsert(x=2), timestamp="2025-01-04T12:00:00.000Z")
    verify_all(writer.lines)


def test_a_batch_may_follow_a_batch_and_lamports_may_jump() -> None:
    writer = Writer()
    writer.write(upsert(x=1), upsert(x=2), upsert(x=3))
    writer.write(upsert(x=4), lamport=100)
    writer.write(upsert(x=5), upsert(x=6))
    assert verify_all(writer.lines).lamport == 102


# -- redactions

LEFT = canonical_bytes({"id": "n", "type": "note", "attrs": "[REDACTED]"})
LESS = canonical_bytes({"id": "n"})


def redact(redacts: dict[str, str]) -> Operation:
    return Operation(Verb.REDACT_NODE, {"node_id": "n", "reason": "asked"}, redacts=redacts)


def redacted_log(*redactions: dict[str, str]) -> list[bytes]:
    writer = Writer()
    writer.write(Operation(Verb.UPSERT_NODE, NODE))
    writer.write(upsert(note="long enough to be masked"))
    for redacts in redactions:
        writer.write(redact(redacts))
    return writer.lines


def test_a_masked_payload_that_a_later_redaction_names_is_sound() -> None:
    lines = redacted_log({"1": sha(LEFT)})
    lines[0] = mask(lines[0], LEFT)
    assert verify_all(lines).unmasked == {}


def test_a_payload_redacted_twice_is_what_the_last_redaction_left() -> None:
    lines = redacted_log({"1": sha(LEFT)}, {"1": sha(LESS), "2": sha(LESS)})
    lines[0], lines[1] = mask(lines[0], LESS), mask(lines[1], LESS)
    verify_all(lines)
    lines[0] = mask(lines[0], LEFT)
    with pytest.raises(Corrupt, match="lamport 1: what is left of the redacted payload is not what its redaction left"):
        verify_all(lines)


def test_a_masked_payload_that_nothing_names_is_damage() -> None:
    lines = redacted_log({"1": sha(LEFT)})
    lines[0], lines[1] = mask(lines[0], LEFT), mask(lines[1], LEFT)
    with pytest.raises(Corrupt, match="lamport 2: the payload does not match content_hash, and no redaction names it"):
        verify_all(lines)


def test_every_flipped_bit_of_a_masked_payload_is_found() -> None:
    lines = redacted_log({"1": sha(LEFT)})
    masked = mask(lines[0], LEFT)
    for place in range(masked.index(b'"payload"'), len(masked)):
        for bit in range(8):
            damaged = bytearray(masked)
            damaged[place] ^= 1 << bit
            with pytest.raises(Corrupt):
                verify_all([bytes(damaged), *lines[1:]])


def test_a_redaction_that_was_not_carried_out_can_be_seen() -> None:
    assert verify_all(redacted_log({"1": sha(LEFT)})).unmasked == {1: sha(LEFT)}


def test_a_redaction_of_what_lies_before_the_trusted_commit_is_taken_on_trust() -> None:
    lines = redacted_log({"1": sha(LEFT)})
    trusted = decode(lines[1])
    verifier = Verifier(prev=trusted.commit_id, prev_record_hash=trusted.record_hash, after_lamport=2)
    verifier.feed(lines[2])
    verifier.finish()
    assert verifier.unmasked == {}


def test_what_no_redaction_has_explained_yet_is_known_before_the_end() -> None:
    lines = redacted_log({"1": sha(LEFT)})
    lines[0] = mask(lines[0], LEFT)
    verifier = Verifier()
    seen = []
    for line in lines:
        verifier.feed(line)
        seen.append(verifier.unexplained)
    assert seen == [[1], [1], []]
    assert verifier.redacted == 1


@pytest.mark.parametrize("name", ["3", "4", "0", "", "01", "-1", "1.0", "one", "²", "9" * 5000])
def test_a_redaction_names_only_lamports_before_its_own(name: str) -> None:
    with pytest.raises(Corrupt, match="lamport 3: it redacts"):
        verify_all(redacted_log({name: sha(LEFT)}))


# -- what is said of a line

FULL = Operation(
    Verb.REDACT_NODE,
    {"node_id": "n", "reason": "asked"},
    nonce="once",
    redacts={"1": "left"},
    request="0" * 64,
    reason="its own",
)


def full() -> tuple[Commit, bytes]:
    draft = Draft((FULL,), "ada", "memory.write", reason="the draft's", run_context={"run": "1"}, policy_version="p@1")
    place = {"tenant": "t", "lamport": 7, "timestamp": "2025", "prev": "1" * 64, "prev_record_hash": "2" * 64}
    return seal_line(draft, FULL, **place, batch=(2, 3), group=5)  # type: ignore[arg-type]  # each is what it should be


def test_every_field_that_was_given_is_in_the_line() -> None:
    commit, line = full()
    record = json.loads(line)
    assert record.pop("record_hash") == commit.record_hash == sha(b"2" * 64 + head_of(commit))
    assert record.pop("payload") == FULL.payload
    assert record == {
        "actor": "ada",
        "batch": [2, 3],
        "commit_id": commit_id(FULL.payload, 7, "ada", "REDACT_NODE"),
        "content_hash": content_hash(FULL.payload),
        "group": 5,
        "lamport": 7,
        "nonce": "once",
        "operation": "REDACT_NODE",
        "policy_version": "p@1",
        "prev": "1" * 64,
        "reason": "its own",
        "redacts": {"1": "left"},
        "request": "0" * 64,
        "run_context": {"run": "1"},
        "schema_version": "1",
        "tenant": "t",
        "timestamp": "2025",
        "tool": "memory.write",
    }
    assert decode(line) == commit


def test_a_head_alone_tells_everything_but_the_payload() -> None:
    commit, _ = full()
    assert decode_head(head_of(commit), commit.record_hash) == msgspec.structs.replace(commit, payload=b"{}")


FOREIGN = "lamport 7: what is not of the head stands in it"
NOT_CANONICAL = "lamport 7: its fields are not written in canonical form"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (b" ", NOT_CANONICAL),
        (b',"record_hash":""', NOT_CANONICAL),
        (b',"payload":""', NOT_CANONICAL),
        (b',"record_hash":"' + b"0" * 64 + b'"', FOREIGN),
        (b',"payload":"e30="', FOREIGN),
        (b',"payload":{}', "the line is not a commit: Expected `bytes`, got `object` - at `$.payload`"),
        (b',"more":1', "the line is not a commit: Object contains unknown field `more`"),
    ],
)
def test_a_head_that_says_more_than_a_head_is_refused(more: bytes, message: str) -> None:
    commit, _ = full()
    with pytest.raises(Corrupt) as error:
        decode_head(head_of(commit)[:-1] + more + b"}", commit.record_hash)
    assert error.value.message == message


NO_LINE = "the line is not a commit: it does not end in record_hash and payload"


@pytest.mark.parametrize(
    ("change", "message", "hint", "details"),
    [
        (lambda line: line + b" ", NO_LINE, None, {}),
        (lambda line: line.replace(b'"payload":{', b'"payload": {'), NO_LINE, None, {}),
        (
            lambda line: line.replace(b'"schema_version":"1"', b'"schema_version":"2"'),
            "the line has schema_version '2', this program reads '1'",
            "a newer version of tallystick may have written it",
            {"lamport": 7},
        ),
    ],
)
def test_what_is_no_line_is_said_to_be_none(
    change: Callable[[bytes], bytes], message: str, hint: str | None, details: dict[str, Any]
) -> None:
    with pytest.raises(Corrupt) as error:
        decode(change(full()[1]))
    assert (error.value.message, error.value.hint, error.value.details) == (message, hint, details)


def test_a_record_hash_that_is_no_text_is_said_to_be_none() -> None:
    commit, line = full()
    with pytest.raises(Corrupt) as error:
        decode(line.replace(commit.record_hash.encode(), b"\xff" * 64))
    assert error.value.message == "the line's record_hash is not hexadecimal"
    assert error.value.details == {"lamport": 7}


@pytest.mark.parametrize("behind", [b"\t", b"\n", b"X"])
def test_nothing_but_spaces_may_follow_a_payload(behind: bytes) -> None:
    line = sample()
    assert payload_of(line[:-1] + behind + b"}") == payload_of(line) + behind
    assert decode(line[:-1] + behind + b"}").payload == payload_of(line) + behind


@pytest.mark.parametrize(
    ("attrs", "fields", "left"),
    [
        ({"mail": "a long address", "pin": 4}, ["attrs.mail"], b'{"attrs":{"mail":"[REDACTED]","pin":4},"id":"n","type":"note"}'),  # noqa: E501
        ({"pin": 4}, ["attrs.pin"], b'{"*0":{"pin":0},"id":"n","type":"note"}'),
        ({"pin": 4}, None, b'{"*0":{"pin":0},"id":"n","type":"note"}'),
        ({"pin": 4}, ["attrs.mail"], None),
    ],
)  # fmt: skip
def test_what_a_redaction_leaves_fits_where_the_payload_was(
    attrs: dict[str, Any], fields: list[str] | None, left: bytes | None
) -> None:
    writer = Writer()
    writer.write(upsert(**attrs))
    assert redacted_payload(writer.lines[0], fields) == left
    if left is not None:
        assert redacted_payload(mask(writer.lines[0], left), fields) is None, "it is gone already"


def test_whether_the_last_payload_is_the_committed_one_is_known() -> None:
    writer = Writer()
    writer.write(upsert(pin=4))
    verifier = Verifier()
    assert verifier.is_intact is True
    verifier.feed(writer.lines[0])
    assert verifier.is_intact is True
    left = redacted_payload(writer.lines[0], None)
    assert left is not None
    verifier = Verifier()
    verifier.feed(mask(writer.lines[0], left))
    assert verifier.is_intact is False


def test_a_log_of_nothing_is_sound() -> None:
    verifier = Verifier()
    verifier.finish()
    assert (verifier.count, verifier.redacted, verifier.unexplained) == (0, 0, [])


def test_a_redaction_may_name_the_largest_position_there_is() -> None:
    writer = Writer()
    writer.write(upsert(), lamport=INTEGER_MAX - 1)
    writer.write(redact({str(INTEGER_MAX - 1): "left"}), lamport=INTEGER_MAX)
    assert verify_all(writer.lines).unmasked == {INTEGER_MAX - 1: "left"}


def test_a_false_line_is_named_with_its_position() -> None:
    lines = log_of_five()
    with pytest.raises(Corrupt) as error:
        verify_all([lines[0].replace(b'"actor":"ada"', b'"actor":"eve"')])
    assert error.value.message == "lamport 1: record_hash does not match its fields and the record before it"
    with pytest.raises(Corrupt) as error:
        verify_all([lines[0].replace(b'"actor":"ada"', b'"actor": "ada"')])
    assert error.value.message == "lamport 1: its fields are not written in canonical form"
    assert error.value.details == {"lamport": 1}


def test_an_actor_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidArgument) as error:
        commit_id(NODE, 1, "\ud800", "UPSERT_NODE")
    assert error.value.message == "actor holds half of a surrogate pair, which is not text"
