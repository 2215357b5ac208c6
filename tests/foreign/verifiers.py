"""Other people's verifiers, each in a process that is asked many questions."""

from __future__ import annotations

import json
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from tallystick.commits.signed_note import Checkpoint, VerifierKey, parse_checkpoint, parse_note
from tallystick.extensions.proofs.proof_file import ConsistencyProof, InclusionProof

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PYTHON = ROOT / ".foreign/bin/python"
SIGSTORE = HERE / "node_modules/@sigstore/verify/dist/tlog/checkpoint.js"
_NODE = ROOT / "tests/conformance/node_modules/.bin/node"

NO_PYTHON = "aics-tlog and pymerkle are not installed: run make test, with a Python 3.12 or newer on this machine"
NO_SIGSTORE = "npm packages not installed: run make test"


class Asked:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, question: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@contextmanager
def asking(command: Sequence[str]) -> Iterator[Asked]:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Asked(process)
        assert process.stdin is not None
        process.stdin.close()


def python_command() -> list[str] | None:
    return [str(PYTHON), str(HERE / "programs/asked.py")] if PYTHON.exists() else None


def sigstore_command() -> list[str] | None:
    node = str(_NODE) if _NODE.exists() else shutil.which("node")
    return [node, str(HERE / "programs/sigstore.js")] if node and SIGSTORE.exists() else None


class AicsTlog:
    def __init__(self, asked: Asked, scratch: Path) -> None:
        self._asked = asked
        self._scratch = scratch

    def inclusion(self, proof: InclusionProof, keys: Sequence[VerifierKey], quorum: int) -> bool:
        checkpoint = self._checkpoint(proof.note, keys, quorum)
        if checkpoint is None or proof.extra is None:
            return False
        return self._accepts(
            "verify-inclusion",
            f"--leaf={self._file('leaf', sha256(proof.extra).digest())}",
            f"--index={proof.index}",
            f"--size={checkpoint.size}",
            f"--root={b64encode(checkpoint.root).decode()}",
            f"--proof={self._hashes(proof.hashes)}",
        )

    def consistency(self, proof: ConsistencyProof, older: bytes, keys: Sequence[VerifierKey]) -> bool:
        old, new = self._checkpoint(older, keys, 0), self._checkpoint(proof.note, keys, 0)
        if old is None or new is None:
            return False
        return self._accepts(
            "verify-consistency",
            f"--old-size={proof.old}",
            f"--new-size={new.size}",
            f"--old-root={b64encode(old.root).decode()}",
            f"--new-root={b64encode(new.root).decode()}",
            f"--proof={self._hashes(proof.hashes)}",
        )

    def tiles(self, directory: Path, index: int, entry: bytes, key: VerifierKey) -> bool:
        return self._accepts(
            "verify-inclusion",
            f"--tiles={directory}",
            f"--log-key={key}",
            f"--index={index}",
            f"--leaf={self._file('leaf', entry)}",
        )

    def _checkpoint(self, note: bytes, keys: Sequence[VerifierKey], quorum: int) -> Checkpoint | None:
        log, *witnesses = keys
        accepted = self._accepts(
            "verify-checkpoint",
            f"--note={self._file('note', note)}",
            f"--log-key={log}",
            f"--origin={log.name}",
            *(f"--witness-key={each}" for each in witnesses),
            f"--quorum={quorum}",
        )
        return parse_checkpoint(parse_note(note)) if accepted else None

    def _accepts(self, *argv: str) -> bool:
        return bool(self._asked.ask(["aics-tlog", list(argv)]))

    def _hashes(self, hashes: Sequence[bytes]) -> Path:
        return self._file("hashes", b"".join(b64encode(each) + b"\n" for each in hashes))

    def _file(self, name: str, data: bytes) -> Path:
        path = self._scratch / name
        path.write_bytes(data)
        return path


def sigstore_accepts(asked: Asked, proof: InclusionProof, key: VerifierKey) -> bool:
    if proof.extra is None:
        return False
    question = {
        "note": proof.note.decode(),
        "index": str(proof.index),
        "hashes": [each.hex() for each in proof.hashes],
        "entry": sha256(proof.extra).hexdigest(),
        "name": key.name,
        "id": key.id.hex(),
        "key": key.public.hex(),
    }
    return bool(asked.ask(question))


def pymerkle_root(asked: Asked, entries: Sequence[str]) -> bytes:
    return bytes.fromhex(asked.ask(["pymerkle", list(entries)]))
