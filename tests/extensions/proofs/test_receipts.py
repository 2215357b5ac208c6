"""Receipts of tasks: made of real work, accepted by other people's verifiers, and refused by all once altered."""

from __future__ import annotations

import asyncio
import json
import shutil
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from google.protobuf.json_format import ParseDict
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement as InTotoStatement
from securesystemslib.dsse import Envelope as DsseEnvelope
from securesystemslib.signer import SSlibKey  # type: ignore[attr-defined]  # named in __init__ without __all__

from tallystick.commits.dsse import PAYLOAD_TYPE, Statement, pae, sign_statement
from tallystick.commits.signed_note import NoteRefused, SignerKey
from tallystick.errors import Conflict, InvalidArgument, NotFound
from tallystick.extensions.proofs.proof_file import Trust, inclusion_file, parse_proof
from tallystick.extensions.proofs.receipt import check_receipt
from tests.command_line import CommandLine, commits_in
from tests.journeys.work_client import worker
from tests.mcp_client import call
from tests.promises import promise
from tests.signed_memory import KEY, NEXT_KEY, ORIGIN, STRANGER

TRUST = Trust((KEY.verifier,))
COMMIT = "4f2c9d" + "0" * 34
OUTPUT = "ab" * 32


class Done(msgspec.Struct, frozen=True):
    """A memory with two tasks that are done, one that is open and one that was dropped; and where the receipts are."""

    shell: CommandLine
    tasks: dict[str, str]
    files: Path

    def receipt(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.files / f"{self.tasks[name]}.receipt.json").read_bytes())
        return found

    def proof(self, name: str) -> bytes:
        return (self.files / f"{self.tasks[name]}.tlog-proof").read_bytes()

    def statement(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(b64decode(self.receipt(name)["payload"]))
        return found


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    directory = tmp_path_factory.mktemp("receipts")
    base = directory / "base"
    base.mkdir()
    shell = CommandLine(base)
    tasks = asyncio.run(work(base))
    use_keys(shell, KEY)
    for name in ("refunds", "unclaimed"):
        shell.run("receipt", tasks[name], "-o", directory / "files")
    (directory / "files" / "vkey").write_text(f"{KEY.verifier}\n")
    return Done(shell, tasks, directory / "files")


async def work(base: Path) -> dict[str, str]:
    async with worker(base, "ann", toolsets="work,memory") as ann:
        for said in ("before", "within a week"):
            fact = {"id": "refund-rule", "type": "fact", "attrs": {"said": said}}
            await call(ann.client, "memory.write", op="UPSERT_NODE", node=fact)
        await ann.call("open", project="p", goal="shop")
        refs = ("refunds", "unclaimed", "open", "dropped")
        tasks = await ann.plan(*({"ref": ref, "properties": {"priority": -at}} for at, ref in enumerate(refs)))
        assert await ann.next(claim=True) == ["refunds"]
        await call(ann.client, "memory.read", entity_id="refund-rule")
        await call(ann.client, "memory.search", type="fact")
        evidence = [
            {"type": "git", "ref": f"https://example.org/shop/commit/{COMMIT} refunds"},
            {"type": "test", "ref": f"make test, output sha256:{OUTPUT}"},
            {"type": "note", "ref": "tried by hand"},
        ]
        await ann.call("update", updates=[{"node_id": tasks["refunds"], "resolved": True, "add_evidence": evidence}])
        await ann.resolve(tasks["unclaimed"])
        dropped = {"node_id": tasks["dropped"], "resolved": True, "add_evidence": [{"type": "dropped", "ref": "no"}]}
        await ann.call("update", updates=[dropped])
        changed = {"id": "refund-rule", "type": "fact", "attrs": {"said": "changed since"}}
        await call(ann.client, "memory.write", op="UPSERT_NODE", node=changed)
    return tasks


def use_keys(shell: CommandLine, *keys: SignerKey) -> None:
    path = shell.base.parent / "keys"
    path.write_text("".join(f"{key.written()}\n" for key in keys))
    path.chmod(0o600)
    (shell.base / "tallystick.toml").write_text(f'checkpoint_key = "{path}"\n')


# -- who else reads them


def dsse_accepts(receipt: dict[str, Any], key: SignerKey = KEY) -> bool:
    public = Ed25519PublicKey.from_public_bytes(key.verifier.public)
    try:
        envelope = DsseEnvelope.from_dict(json.loads(json.dumps(receipt)))
        accepted = envelope.verify([SSlibKey.from_crypto(public, keyid=key.verifier.spki_hash)], 1)
    except Exception:
        return False
    return bool(accepted) and envelope.payload_type == PAYLOAD_TYPE


def in_toto_accepts(receipt: dict[str, Any]) -> bool:
    try:
        statement = ParseDict(json.loads(b64decode(receipt["payload"])), statement_pb2.Statement())
        InTotoStatement.copy_from_pb(statement).validate()
    except Exception:
        return False
    return True


def ours_accepts(receipt: dict[str, Any], proof: bytes | None, trust: Trust = TRUST) -> bool:
    try:
        check_receipt(json.dumps(receipt).encode(), proof, trust)
    except NoteRefused:
        return False
    return True


# -- what they say


@promise("receipt", "a receipt is accepted by other people's verifiers and ours")
def test_a_receipt_is_accepted_by_other_peoples_verifiers_and_ours(done: Done) -> None:
    for name in ("refunds", "unclaimed"):
        receipt = done.receipt(name)
        assert dsse_accepts(receipt)
        assert in_toto_accepts(receipt)
        assert ours_accepts(receipt, done.proof(name))


@promise("receipt, contents", "a receipt tells of the task, its evidence with digests, and its log entry")
def test_a_receipt_tells_of_the_task_its_evidence_and_its_log_entry(done: Done) -> None:
    statement, task = done.statement("refunds"), done.tasks["refunds"]
    shown = check_receipt(json.dumps(done.receipt("refunds")).encode(), done.proof("refunds"), TRUST, task=task)
    said = statement["predicate"]
    assert statement["subject"] == [
        {"name": "git+https://example.org/shop", "digest": {"gitCommit": COMMIT}},
        {"name": f"task/{task}", "digest": {"sha256": shown.record_hash}},
    ]
    assert (said["task"], said["agent"]) == ({"id": task, "summary": "refunds"}, "ann")
    assert said["claimedOn"] < said["resolvedOn"]
    assert said["claims"] == [{"agent": "ann", "on": said["claimedOn"]}]
    assert [(each["type"], each.get("digest")) for each in said["evidence"]] == [
        ("git", {"gitCommit": COMMIT}),
        ("test", {"sha256": OUTPUT}),
        ("note", None),
    ]
    assert said["policy"]["decision"] == "allow"
    assert said["policy"]["version"].startswith("single-user")
    assert said["log"]["origin"] == ORIGIN
    assert said["log"]["index"] == parse_proof(done.proof("refunds")).index  # type: ignore[union-attr]  # of a commit


@promise("receipt, cites", "a receipt names what was read while the task was claimed, as it was then")
def test_a_receipt_names_what_was_read_while_the_task_was_claimed_as_it_was_then(done: Done) -> None:
    said = done.statement("refunds")["predicate"]
    facts = [each for each in commits_in(done.shell.base / "_system" / "log") if b"refund-rule" in each.payload]
    assert len(facts) == 3
    read = {"id": "refund-rule", "digest": {"sha256": facts[1].record_hash}, "position": facts[1].lamport}
    assert said["cites"] == [read]
    assert said["citesUnknown"] == ["the audit log does not name what 1 searches and listings showed"]


@promise("receipt, cites unknown", "where the audit does not tell what was read, the receipt says so")
def test_where_the_audit_does_not_tell_the_receipt_says_so(done: Done, tmp_path: Path) -> None:
    said = done.statement("unclaimed")["predicate"]
    assert (said["claimedOn"], said["claims"], said["cites"]) == (None, [], [])
    assert "had not claimed it" in said["citesUnknown"][0]
    shell = copied(done, tmp_path)
    shutil.rmtree(shell.base / "_system" / "audit")
    found = shell.run("receipt", done.tasks["refunds"], "-o", tmp_path, "--json").json["completion"]
    assert found["cites"] == []
    assert "audit log" in found["citesUnknown"][0]


def copied(done: Done, directory: Path) -> CommandLine:
    shutil.copytree(done.shell.base, directory / "base")
    shell = CommandLine(directory / "base")
    use_keys(shell, KEY)
    return shell


# -- by commands


@promise("receipt, offline", "a receipt is checked offline, with the proof beside it and a verifier key")
def test_a_receipt_is_checked_offline_with_the_proof_beside_it(done: Done, tmp_path: Path) -> None:
    elsewhere = CommandLine(tmp_path / "no memory")
    file, vkey = done.files / f"{done.tasks['refunds']}.receipt.json", done.files / "vkey"
    found = elsewhere.run("receipt", "verify", file, "--vkey", vkey)
    assert found.code == 0
    assert f"git: https://example.org/shop/commit/{COMMIT} refunds gitCommit:{COMMIT}" in found.out
    assert "read refund-rule as of position 2" in found.out
    assert elsewhere.run("receipt", "verify", file, "--vkey", vkey, "--json").json["sound"] is True
    assert not (tmp_path / "no memory").exists()
    wrong = elsewhere.run("receipt", "verify", file, "--vkey", vkey, "--task", "another")
    assert (wrong.code, "it is the receipt of" in wrong.out) == (1, True)
    other = done.files / f"{done.tasks['unclaimed']}.tlog-proof"
    wrong = elsewhere.run("receipt", "verify", file, "--vkey", vkey, "--proof", other, "--json")
    assert (wrong.code, wrong.json["sound"]) == (1, False)
    alone = shutil.copy(file, tmp_path / "alone.json")
    wrong = elsewhere.run("receipt", "verify", alone, "--vkey", vkey)
    assert (wrong.code, "the proof of its log entry is missing" in wrong.out) == (1, True)


@promise("receipt, keys", "without a key no receipt is made, and none is believed")
def test_without_a_key_nothing_is_signed_and_nothing_is_believed(done: Done, tmp_path: Path) -> None:
    shell = copied(done, tmp_path)
    (shell.base / "tallystick.toml").unlink()
    with pytest.raises(InvalidArgument, match="no key is configured"):
        shell.run("receipt", done.tasks["refunds"], "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(InvalidArgument, match="who believes a key"):
        shell.run("receipt", "verify", done.files / f"{done.tasks['refunds']}.receipt.json")


def test_only_what_is_done_gets_a_receipt(done: Done, tmp_path: Path) -> None:
    for name, kind, says in (
        (done.tasks["open"], Conflict, "is not resolved"),
        (done.tasks["dropped"], Conflict, "was dropped, not done"),
        ("refund-rule", NotFound, "no work node"),
        ("nobody", NotFound, "no work node"),
    ):
        with pytest.raises(kind, match=says):
            done.shell.run("receipt", name, "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@promise("receipt, redaction", "a receipt stays valid when the log grows and when the task is redacted")
def test_a_receipt_stays_valid_when_the_log_grows_and_when_the_task_is_redacted(done: Done, tmp_path: Path) -> None:
    shell = copied(done, tmp_path)
    made = shell.run("receipt", done.tasks["refunds"], "-o", tmp_path, "--json").json
    shell.run("forget", done.tasks["refunds"], "--reason", "asked", "--yes")
    receipt, proof = (Path(file).read_bytes() for file in made["files"])
    assert check_receipt(receipt, proof, TRUST).completion.task.summary == "refunds"


def test_work_that_is_opened_again_and_done_by_another_is_that_ones(done: Done, tmp_path: Path) -> None:
    shell, task = copied(done, tmp_path), done.tasks["refunds"]

    async def again() -> None:
        async with worker(shell.base, "bob") as bob:
            properties = {"_claimed_by": "bob", "_claimed_at": "2020-01-01T00:00:00.000Z"}
            await bob.call("update", updates=[{"node_id": task, "resolved": False, "properties": properties}])
            await bob.resolve(task)
            await bob.call("update", updates=[{"node_id": task, "add_evidence": [{"type": "note", "ref": "later"}]}])

    asyncio.run(again())
    said = shell.run("receipt", task, "-o", tmp_path, "--json").json["completion"]
    assert said["agent"] == "bob"
    assert [each["agent"] for each in said["claims"]] == ["ann", "bob"]
    assert said["claims"][1]["on"] == said["claimedOn"] > said["claims"][0]["on"], "when the log was told"
    assert said["evidence"][-1]["ref"] == "later"
    receipt, proof = (
        path.read_bytes() for path in (tmp_path / f"{task}.receipt.json", tmp_path / f"{task}.tlog-proof")
    )
    assert check_receipt(receipt, proof, TRUST).completion.agent == "bob"


def test_while_keys_are_rotated_either_is_enough(done: Done, tmp_path: Path) -> None:
    shell = copied(done, tmp_path)
    use_keys(shell, KEY, NEXT_KEY)
    shell.run("receipt", done.tasks["refunds"], "-o", tmp_path)
    receipt = json.loads((tmp_path / f"{done.tasks['refunds']}.receipt.json").read_bytes())
    proof = (tmp_path / f"{done.tasks['refunds']}.tlog-proof").read_bytes()
    for key in (KEY, NEXT_KEY):
        assert ours_accepts(receipt, proof, Trust((key.verifier,)))
        assert dsse_accepts(receipt, key)
    assert not ours_accepts(receipt, proof, Trust((STRANGER.verifier,)))


def test_the_proof_may_be_in_the_envelope(done: Done) -> None:
    receipt = {**done.receipt("refunds"), "tlogProof": done.proof("refunds").decode()}
    assert ours_accepts(receipt, None)
    assert dsse_accepts(receipt)
    assert not ours_accepts({**receipt, "tlogProof": done.proof("unclaimed").decode()}, None)


# -- forgeries


def restated(
    receipt: dict[str, Any], change: Callable[[dict[str, Any]], None], key: SignerKey | None
) -> dict[str, Any]:
    """Another statement: with the signature of before, or signed again by somebody."""
    statement = json.loads(b64decode(receipt["payload"]))
    change(statement)
    payload = json.dumps(statement).encode()
    if key is None:
        return {**receipt, "payload": b64encode(payload).decode()}
    signature = {"keyid": key.verifier.spki_hash, "sig": b64encode(key.sign_bytes(pae(PAYLOAD_TYPE, payload))).decode()}
    return {"payload": b64encode(payload).decode(), "payloadType": PAYLOAD_TYPE, "signatures": [signature]}


def set_at(*path: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(statement: dict[str, Any]) -> None:
        found: Any = statement
        for name in path[:-1]:
            found = found[name]
        found[path[-1]] = to

    return change


ALTERED = {
    "another agent": set_at("predicate", "agent", to="eve"),
    "another summary": set_at("predicate", "task", "summary", to="everything"),
    "another task": set_at("predicate", "task", "id", to="another"),
    "evidence exchanged": set_at("predicate", "evidence", 0, "ref", to=f"https://example.org/evil/commit/{COMMIT}"),
    "evidence left out": set_at("predicate", "evidence", to=[]),
    "evidence that passed": set_at("predicate", "evidence", 2, "result", to="PASSED"),
    "another digest": set_at("predicate", "evidence", 1, "digest", "sha256", to="cd" * 32),
    "another commit": set_at("subject", 0, "digest", "gitCommit", to="ab" * 20),
    "read nothing": set_at("predicate", "cites", to=[]),
    "earlier": set_at("predicate", "resolvedOn", to="2020-01-01T00:00:00.000Z"),
    "another index": set_at("predicate", "log", "index", to=0),
    "a blank more": set_at("predicate", "agent", to="ann "),
}


@promise("receipt, altered", "an altered receipt is refused by everybody")
@pytest.mark.parametrize("change", ALTERED.values(), ids=ALTERED)
def test_an_altered_statement_is_refused_by_everybody(done: Done, change: Callable[[dict[str, Any]], None]) -> None:
    forged = restated(done.receipt("refunds"), change, None)
    assert not dsse_accepts(forged)
    assert not ours_accepts(forged, done.proof("refunds"))
    by_stranger = restated(done.receipt("refunds"), change, STRANGER)
    assert not dsse_accepts(by_stranger)
    assert not ours_accepts(by_stranger, done.proof("refunds"))


def without(*path: Any) -> Callable[[dict[str, Any]], None]:
    def change(statement: dict[str, Any]) -> None:
        found: Any = statement
        for name in path[:-1]:
            found = found[name]
        del found[path[-1]]

    return change


MALFORMED = {
    "no subject": set_at("subject", to=[]),
    "no digest": without("subject", 1, "digest"),
    "an empty digest": set_at("subject", 1, "digest", to={}),
    "no predicate type": without("predicateType"),
    "an empty predicate": set_at("predicate", to={}),
    "another statement type": set_at("_type", to="https://in-toto.io/Statement/v0.1"),
}


@pytest.mark.parametrize("change", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_statement_is_refused_even_if_the_log_signed_it(
    done: Done, change: Callable[[dict[str, Any]], None]
) -> None:
    signed = restated(done.receipt("refunds"), change, KEY)
    assert dsse_accepts(signed), "the signature is not what is wrong"
    assert not in_toto_accepts(signed)
    assert not ours_accepts(signed, done.proof("refunds"))


CONTRADICTING = {
    "another task": set_at("predicate", "task", "id", to="another"),
    "another task in the subject": set_at("subject", 1, "name", to="task/another"),
    "two tasks": lambda statement: statement["subject"].append({"name": "task/x", "digest": {"sha256": "ab" * 32}}),
    "a subject that no evidence names": set_at("subject", 0, "digest", to={"gitCommit": "ab" * 20}),
    "evidence that no subject names": set_at("predicate", "evidence", 0, "digest", "gitCommit", to="ab" * 20),
    "another digest of the task": set_at("subject", 1, "digest", "sha256", to="ab" * 32),
    "a digest that is none": set_at("predicate", "evidence", 1, "digest", "sha256", to="passed"),
    "an empty digest of evidence": set_at("predicate", "evidence", 1, "digest", to={}),
    "a citation without a digest": set_at("predicate", "cites", 0, "digest", to={}),
    "another index": set_at("predicate", "log", "index", to=0),
    "another leaf": set_at("predicate", "log", "leafHash", to="ab" * 32),
    "another origin": set_at("predicate", "log", "origin", to="evil.example"),
    "another agent than the log's": set_at("predicate", "agent", to="eve"),
    "another policy than the log's": set_at("predicate", "policy", "version", to="none"),
    "denied": set_at("predicate", "policy", "decision", to="deny"),
    "resolved after its log entry": set_at("predicate", "resolvedOn", to="2999-01-01T00:00:00.000Z"),
    "another predicate": set_at("predicateType", to="https://in-toto.io/attestation/test-result/v0.1"),
    "no log entry": without("predicate", "log"),
    "an agent that is a number": set_at("predicate", "agent", to=7),
}


@promise("receipt, log entry", "what the log entry does not bear out is refused, even if the log signed it")
@pytest.mark.parametrize("change", CONTRADICTING.values(), ids=CONTRADICTING)
def test_what_the_log_entry_does_not_bear_out_is_refused_even_if_the_log_signed_it(
    done: Done, change: Callable[[dict[str, Any]], None]
) -> None:
    signed = restated(done.receipt("refunds"), change, KEY)
    assert dsse_accepts(signed)
    assert not ours_accepts(signed, done.proof("refunds"))


def test_the_envelope_cannot_be_changed(done: Done) -> None:
    receipt, proof = done.receipt("refunds"), done.proof("refunds")
    (signature,) = receipt["signatures"]
    swapped = {"keyid": STRANGER.verifier.spki_hash, "sig": signature["sig"]}
    flipped = b64encode(bytes([b64decode(signature["sig"])[0] ^ 1]) + b64decode(signature["sig"])[1:]).decode()
    for forged in (
        {**receipt, "payloadType": "application/json"},
        {**receipt, "payloadType": PAYLOAD_TYPE.upper()},
        {**receipt, "signatures": []},
        {**receipt, "signatures": [swapped]},
        {**receipt, "signatures": [{**signature, "sig": flipped}]},
        {**receipt, "signatures": done.receipt("unclaimed")["signatures"]},
        {**receipt, "payload": done.receipt("unclaimed")["payload"]},
        {**receipt, "payload": b64encode(b64decode(receipt["payload"]) + b" ").decode()},
    ):
        assert not dsse_accepts(forged)
        assert not ours_accepts(forged, proof)
    assert not dsse_accepts(receipt, STRANGER)
    assert not ours_accepts(receipt, proof, Trust((STRANGER.verifier,)))
    # The same key under another name is another log.
    assert not ours_accepts(receipt, proof, Trust((SignerKey("evil.example", KEY.seed).verifier,)))


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{}", b"null", b"\xff", b'{"payload":1}', b'{"payload":"","payload":""}', b"[" * 100_000],
    ids=range(8),
)
def test_what_is_no_envelope_is_refused(done: Done, data: bytes) -> None:
    with pytest.raises(NoteRefused, match="it is not a DSSE envelope"):
        check_receipt(data, done.proof("refunds"), TRUST)


@promise("receipt, other proof", "the proof beside a receipt must be that of its log entry")
def test_the_proof_beside_it_must_be_that_of_its_entry(done: Done) -> None:
    receipt = done.receipt("refunds")
    proof = parse_proof(done.proof("refunds"))
    other = parse_proof(done.proof("unclaimed"))
    for forged in (
        other,
        msgspec.structs.replace(proof, extra=None),
        msgspec.structs.replace(proof, extra=other.extra),  # type: ignore[union-attr]  # of commits, both
        msgspec.structs.replace(proof, index=0),
        msgspec.structs.replace(proof, hashes=proof.hashes[:-1]),
        msgspec.structs.replace(proof, note=proof.note.replace(b"\n", b"\n\n", 1)),
    ):
        assert not ours_accepts(receipt, inclusion_file(forged))  # type: ignore[arg-type]  # of a commit
    assert not ours_accepts(receipt, None)
    assert not ours_accepts(receipt, b"")
    assert not ours_accepts(receipt, done.proof("refunds"), Trust((KEY.verifier,), quorum=1))


def test_every_byte_of_a_receipt_counts(done: Done) -> None:
    payload = b64decode(done.receipt("refunds")["payload"])
    for at in range(len(payload)):
        changed = payload[:at] + bytes([payload[at] ^ 1]) + payload[at + 1 :]
        forged = {**done.receipt("refunds"), "payload": b64encode(changed).decode()}
        assert not ours_accepts(forged, done.proof("refunds"))


def test_what_is_signed_is_no_checkpoint_and_a_witness_signs_no_receipts() -> None:
    assert (
        pae("http://example.com/HelloWorld", b"hello world")
        == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )
    statement = Statement(subject=[], predicate_type="x", predicate={})
    with pytest.raises(ValueError, match="a log's key"):
        sign_statement(statement, [SignerKey("w", KEY.seed, 0x04)])
