"""Two verifiers that share no code say the same of whatever is done to the bytes of a log or of a proof."""

from __future__ import annotations

from contextlib import redirect_stdout
from hashlib import sha256
from io import StringIO
from pathlib import Path

import pytest

import verify_standalone
from tallystick.commits import Commit, Operation, Verb, chain
from tallystick.commits.signed_note import NoteRefused
from tallystick.errors import Corrupt
from tallystick.extensions.proofs.proof_file import Trust, inclusion_file
from tallystick.extensions.proofs.prove import check_proof
from tallystick.log import Head
from tallystick.log.files import FilesLog
from tests.commits_by_hand import append, draft, node
from tests.laws.test_damage import harms
from tests.signed_memory import KEY, PLAIN, signed_memory


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A batch, a redaction with what it masked, and texts that need escapes."""
    files = FilesLog(tmp_path_factory.mktemp("log") / "_system")
    secret = append(files, draft(node("ada", mail="ada@example.org", pin=4)))[0]
    left = chain.redacted_payload(secret.line, ["attrs.mail"])
    assert left is not None
    said = {"node_id": "ada", "reason": 'she "asked"\n', "redacted_fields": ["attrs.mail"]}
    append(files, draft(Operation(Verb.REDACT_NODE, said, redacts={"1": chain.content_hash(left)}, reason="\u2028é")))
    append(files, draft(node("x"), node("y", deep={"a": [1, 2.5, None]})))
    lines = [entry.line for entry in files.read(Head())]
    files.close()
    return b"".join(line + b"\n" for line in lines)


def ours(data: bytes) -> bool:
    verifier = chain.Verifier()
    try:
        for line in data.removesuffix(b"\n").split(b"\n"):
            verifier.feed(line)
        verifier.finish()
    except Corrupt:
        return False
    return True


def theirs(data: bytes) -> bool:
    verifier = verify_standalone.Chain()
    try:
        for line in data.removesuffix(b"\n").split(b"\n"):
            verifier.feed(line, "here")
        verifier.finish()
    except verify_standalone.No:
        return False
    return True


def test_they_agree_on_every_damage_of_a_log(log: bytes) -> None:
    assert ours(log)
    assert theirs(log)
    committed = commits(log)
    for what, harmed in harms(log, range(len(log))):
        verdict = ours(harmed)
        assert theirs(harmed) == verdict, what
        # Spaces behind what was masked say nothing; that the end is missing is told by what is kept beside the log.
        assert not verdict or commits(harmed) == committed[: len(commits(harmed))], what


def commits(data: bytes) -> list[Commit]:
    return [chain.decode(line) for line in data.splitlines()]


def test_they_agree_on_logs_that_were_chained_anew(log: bytes) -> None:
    """Whoever can compute hashes can make any field fit: then the rules decide."""
    lines = log.splitlines()
    fields = [
        (b'"lamport":2', b'"lamport":1'),
        (b'"lamport":2', b'"lamport":9007199254740993'),
        (b'"lamport":2', b'"lamport":2.0'),
        (b'"lamport":2', b'"lamport":-2'),
        (b'"operation":"REDACT_NODE"', b'"operation":"UPSERT_NODE"'),
        (b'"operation":"REDACT_NODE"', b'"operation":"REDACT_NOTE"'),
        (b'"redacts":{"1"', b'"redacts":{"01"'),
        (b'"redacts":{"1"', b'"redacts":{"2"'),
        (b'"redacts":{"1"', b'"redacts":{"x"'),
        (b'"schema_version":"1"', b'"schema_version":"2"'),
        (b'"tenant":"default"', b'"tenant":"other"'),
        (b'"tenant":"default"', b'"tenant":7'),
        (b'"timestamp":"2023', b'"timestamp":"1999'),
        (b'"timestamp":"2023', b'"timestamp":"2029'),
        (b'"tool":"test"', b'"tool":"t\\u0065st"'),
        (b'"tool":"test"', b'"tool":"test","zzz":1'),
        (b'"tool":"test"', b'"tool":null'),
        (b'"actor":"tester"', b'"actor":"tester","batch":[1,2]'),
        (b'"actor":"tester"', b'"actor":"tester","batch":[2,1]'),
        (b'"actor":"tester"', b'"actor":"tester","batch":[1,1]'),
        (b'"actor":"tester"', b'"actor":"tester","batch":[1]'),
    ]
    for old, new in fields:
        assert old in lines[1]
        head, tail = lines[1].replace(old, new, 1).split(b',"record_hash":"', 1)
        record_hash = sha256(chain.record_hash_of(lines[0]).encode() + head + b"}").hexdigest()
        forged = head + b',"record_hash":"' + record_hash.encode() + tail[64:]
        for data in (lines[0] + b"\n" + forged, b"\n".join([lines[0], forged, *lines[2:]])):
            assert theirs(data) == ours(data), new


def test_no_altered_byte_of_a_proof_is_accepted(tmp_path: Path) -> None:
    data = inclusion_file(signed_memory(tmp_path / "memory").inclusion(PLAIN))
    (tmp_path / "vkey").write_text(f"{KEY.verifier}\n")
    path, trust = tmp_path / "x.tlog-proof", Trust((KEY.verifier,))
    words = ["--vkey", str(tmp_path / "vkey"), str(path)]
    for at in range(len(data)):
        harmed = data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :]
        with pytest.raises(NoteRefused):
            check_proof(harmed, trust)
        if at % 5 == 0:
            path.write_bytes(harmed)
            with redirect_stdout(StringIO()):
                assert verify_standalone.main(words) == 1, at
