"""A memory with everything that outsiders check: a log with batches and a redaction, tiles, checkpoints, proofs."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tallystick.commits import Operation, Verb, chain
from tallystick.commits.signed_note import WITNESS_KEY, Checkpoint, SignerKey
from tallystick.commits.tree import consistency_proof, inclusion_proof, root
from tallystick.extensions.proofs.proof_file import (
    ConsistencyProof,
    InclusionProof,
    consistency_file,
    extra_of,
    inclusion_file,
)
from tallystick.extensions.proofs.tiles import Tiles, TilesProjection
from tallystick.log import Entry, Head, head_after, tree_directory
from tallystick.log.files import FilesLog
from tests.commits_by_hand import append, draft, node

ORIGIN = "shop.example/memory"
KEY = SignerKey(ORIGIN, bytes(range(32)))
NEXT_KEY = SignerKey(ORIGIN, bytes(range(1, 33)))
STRANGER = SignerKey("evil.example", bytes(range(2, 34)))
WITNESS = SignerKey("witness.example", bytes(range(3, 35)), WITNESS_KEY)
SECONDS = 1_790_000_000
OLDER = 260
SECRET = 7
"""Index of the commit that is redacted."""
PLAIN = 5


class SignedMemory(msgspec.Struct, frozen=True):
    home: Path
    entries: list[Entry]
    """As they lie there, masked where a redaction says so."""

    @property
    def size(self) -> int:
        return len(self.entries)

    def tiles(self) -> Tiles:
        return Tiles(tree_directory(self.home), self.size)

    def checkpoint(self, size: int | None = None) -> Checkpoint:
        size = self.size if size is None else size
        return Checkpoint(ORIGIN, size, root(size, self.tiles().subtree))

    def note(self, size: int | None = None, *keys: SignerKey) -> bytes:
        return signed(self.checkpoint(size), *(keys or (KEY,)))

    def inclusion(self, index: int, size: int | None = None, note: bytes | None = None) -> InclusionProof:
        size = self.size if size is None else size
        before = self.entries[index - 1].commit.record_hash if index else ""
        hashes = tuple(inclusion_proof(index, size, self.tiles().subtree))
        return InclusionProof(index, hashes, note or self.note(size), extra_of(self.entries[index].commit, before))

    def consistency(self, old: int = OLDER) -> ConsistencyProof:
        hashes = tuple(consistency_proof(old, self.size, self.tiles().subtree))
        return ConsistencyProof(old, hashes, self.note())

    def write(self, directory: Path) -> None:
        """The files that are handed over."""
        files = {
            "export.jsonl": b"".join(entry.line + b"\n" for entry in self.entries),
            "checkpoint": self.note(),
            "older.checkpoint": self.note(OLDER),
            "commit.tlog-proof": inclusion_file(self.inclusion(PLAIN)),
            "payload.json": self.entries[PLAIN].commit.payload,
            "grown.tlog-consistency": consistency_file(self.consistency()),
            "vkey": f"{KEY.verifier}\n".encode(),
            "vkeys": f"{KEY.verifier}\n{WITNESS.verifier}\n".encode(),
        }
        for name, data in files.items():
            (directory / name).write_bytes(data)


def signed(checkpoint: Checkpoint, *keys: SignerKey) -> bytes:
    text = checkpoint.text()
    lines = (
        key.signature_line(text, seconds=SECONDS if key.algorithm == WITNESS_KEY else None) for key in keys or (KEY,)
    )
    return f"{text}\n{''.join(lines)}".encode()


def signed_memory(home: Path, *, count: int = 300, tag: str = "") -> SignedMemory:
    """`tag`: another history of the same log, from its first commit on."""
    log = FilesLog(home / "_system", segment_bytes_max=60_000)
    append(log, *(draft(node(f"n{number}", said=f"{tag}text {number}")) for number in range(count - 6)))
    secret = list(log.read(Head()))[SECRET]
    left = chain.redacted_payload(secret.line, None)
    assert left is not None
    redacts = {str(secret.commit.lamport): chain.content_hash(left)}
    append(log, draft(Operation(Verb.REDACT_NODE, {"node_id": f"n{SECRET}", "reason": "asked"}, redacts=redacts)))
    append(log, draft(node("x"), node("y"), node("z", said=tag)))
    append(log, draft(node("é\u2028", said="ü")), draft(node("last")))
    entries = list(log.read(Head()))
    log.close()
    projection = TilesProjection(home)
    projection.apply(entries, head_after(entries, Head()))
    memory = SignedMemory(home, entries)
    (tree_directory(home) / "checkpoint").write_bytes(memory.note())
    return memory
