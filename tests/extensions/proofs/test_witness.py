"""A witness signs what only grew, remembers it before it does, and answers as C2SP tlog-witness says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import httpx2
import pytest

from tallystick.commits.signed_note import WITNESS_KEY, Checkpoint, NoteRefused, SignerKey, parse_note
from tallystick.commits.tree import consistency_proof, leaf_hash, node_hash, root
from tallystick.errors import Corrupt, InvalidArgument
from tallystick.extensions.proofs import witness as witnessing
from tallystick.extensions.proofs.routes.witness import PATH, witness_app
from tallystick.extensions.proofs.witness import Seen, Witness
from tallystick.extensions.proofs.witness_request import encode_request, parse_request
from tests.promises import promise

ORIGIN = "memory.example/team"
SECONDS = 1_790_000_000


class Tree:
    def __init__(self, name: str = "n") -> None:
        self._leaves = [leaf_hash(f"{name}{number}".encode()) for number in range(64)]

    def subtree(self, level: int, index: int) -> bytes:
        if level == 0:
            return self._leaves[index]
        return node_hash(self.subtree(level - 1, 2 * index), self.subtree(level - 1, 2 * index + 1))

    def root(self, size: int) -> bytes:
        return root(size, self.subtree)

    def proof(self, old: int, size: int) -> list[bytes]:
        return consistency_proof(old, size, self.subtree)


TREE, OTHER = Tree(), Tree("other")
LOG, STRANGER = SignerKey.generate(ORIGIN), SignerKey.generate(ORIGIN)
KEY = SignerKey.generate("witness.example/ada", WITNESS_KEY)


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    return Witness(tmp_path / "seen", [KEY], [LOG.verifier], now=lambda: SECONDS + 0.5)


def note(size: int, *, tree: Tree = TREE, key: SignerKey = LOG, origin: str = ORIGIN) -> bytes:
    text = Checkpoint(origin, size, tree.root(size)).text()
    return f"{text}\n{key.signature_line(text)}".encode()


def request(old: int, size: int, *, tree: Tree = TREE) -> bytes:
    return encode_request(old, tree.proof(old, size), note(size, tree=tree))


async def _ask(witness: Witness, body: bytes, method: str) -> httpx2.Response:
    transport = httpx2.ASGITransport(witness_app(witness))
    async with httpx2.AsyncClient(transport=transport, base_url="http://witness") as http:
        return await http.request(method, PATH, content=body)


def ask(witness: Witness, body: bytes, method: str = "POST") -> httpx2.Response:
    return asyncio.run(_ask(witness, body, method))


def test_what_only_grew_is_cosigned_again_and_again(witness: Witness) -> None:
    seen = 0
    for size in (1, 2, 7, 7, 8, 63):
        answer = ask(witness, request(seen, size))
        assert answer.status_code == 200
        cosigned = parse_note(note(size) + answer.content)
        assert cosigned.signers([KEY.verifier, LOG.verifier]) == [LOG.verifier, KEY.verifier]
        seen = size


def test_it_says_when_it_signed(witness: Witness) -> None:
    name, key_id, signature = parse_note(note(3) + ask(witness, request(0, 3)).content).signatures[-1]
    assert (name, key_id) == (KEY.name, KEY.verifier.id)
    assert int.from_bytes(signature[:8], "big") == SECONDS


def refusals() -> Iterator[tuple[str, bytes, int]]:
    yield "another size than it saw", request(3, 9), 409
    yield "nothing known of it", request(0, 9), 409
    yield "the same size and another root", request(5, 5, tree=OTHER), 409
    yield "another history", encode_request(5, OTHER.proof(5, 9), note(9, tree=OTHER)), 422
    yield "no proof", encode_request(5, [], note(9)), 422
    yield "a proof too long", encode_request(5, [*TREE.proof(5, 9), bytes(32)], note(9)), 422
    yield "an altered proof", encode_request(5, [bytes(32), *TREE.proof(5, 9)[1:]], note(9)), 422
    yield "a hash of another length", encode_request(5, [b"short"], note(9)), 422
    yield "a proof for the same size", encode_request(5, [bytes(32)], note(5)), 422
    yield "a larger size than the checkpoint's", encode_request(5, [], note(4)), 400
    yield "a stranger's key", encode_request(5, TREE.proof(5, 9), note(9, key=STRANGER)), 403
    yield "a signature that fails", encode_request(5, TREE.proof(5, 9), note(9).replace(b"\n9\n", b"\n8\n")), 403
    yield "another log", encode_request(5, TREE.proof(5, 9), note(9, origin="other.example")), 404
    yield "nothing", b"", 400
    yield "no checkpoint", b"old 5\n\n", 400
    yield "no size", b"old\n\n" + note(9), 400
    yield "a size with a sign", b"old +5\n\n" + note(9), 400
    yield "no base64", b"old 5\n???\n\n" + note(9), 400
    yield "64 lines", encode_request(5, [bytes(32)] * 64, note(9)), 400
    yield "no text", b"old 5\n\xff\n\n" + note(9), 400
    yield "too much", b"old 5\n\n" + b"x" * 100_000, 413


@promise("witness, standard", "everything but a continuation is refused as the standard says")
@pytest.mark.parametrize(("body", "status"), [pytest.param(b, s, id=name) for name, b, s in refusals()])
def test_everything_else_is_refused_as_the_standard_says(witness: Witness, body: bytes, status: int) -> None:
    assert ask(witness, request(0, 5)).status_code == 200
    answer = ask(witness, body)
    assert answer.status_code == status
    if status == 409:
        assert (answer.headers["content-type"], answer.text) == ("text/x.tlog.size", "5\n")
    # Nothing of it was remembered.
    assert ask(witness, request(5, 6)).status_code == 200


def test_other_methods_and_paths_are_not_served(witness: Witness) -> None:
    assert ask(witness, b"", "GET").status_code == 405


@promise("witness, durable", "what was seen is kept before it is signed")
def test_what_was_seen_is_kept_before_it_is_signed(tmp_path: Path, witness: Witness) -> None:
    class Broken(SignerKey, frozen=True):
        def signature_line(self, text: str, *, seconds: int | None = None) -> str:
            raise RuntimeError("the power went off")

    broken = Witness(tmp_path / "seen", [Broken(KEY.name, KEY.seed, KEY.algorithm)], [LOG.verifier])
    with pytest.raises(RuntimeError):
        broken.add_checkpoint(request(0, 5))
    # Whoever comes next cannot be led to another history of that size.
    assert ask(witness, request(0, 5, tree=OTHER)).status_code == 409
    assert ask(witness, request(5, 5)).status_code == 200


def test_a_witness_that_cannot_keep_it_does_not_sign(
    tmp_path: Path, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(witnessing, "replace_file", full)
    assert ask(witness, request(0, 5)).status_code == 500
    monkeypatch.undo()
    assert ask(witness, request(0, 4)).status_code == 200


def test_a_memory_that_is_damaged_is_not_begun_anew(tmp_path: Path, witness: Witness) -> None:
    witness.add_checkpoint(request(0, 5))
    path = tmp_path / "seen" / f"{sha256(ORIGIN.encode()).hexdigest()}.json"
    for harm in (b"", b"{}", path.read_bytes().replace(b"team", b"tea")):
        path.write_bytes(harm)
        with pytest.raises(Corrupt, match="cannot be read"):
            witness.add_checkpoint(request(0, 5))


def test_logs_are_kept_apart(tmp_path: Path) -> None:
    second = SignerKey.generate("memory.example/other")
    witness = Witness(tmp_path, [KEY], [LOG.verifier, second.verifier])
    witness.add_checkpoint(request(0, 5))
    body = encode_request(0, [], note(3, tree=OTHER, key=second, origin=second.name))
    assert ask(witness, body).status_code == 200
    # A key that is trusted for one log signs nothing for the other.
    crossed = encode_request(5, TREE.proof(5, 9), note(9, key=second))
    assert ask(witness, crossed).status_code == 403


def test_a_log_key_is_no_key_of_a_witness(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="key of its own kind"):
        Witness(tmp_path, [LOG], [LOG.verifier])


def test_a_request_is_read_as_it_was_written() -> None:
    parsed = parse_request(request(5, 9))
    assert (parsed.old, parsed.proof, parsed.note) == (5, TREE.proof(5, 9), note(9))
    with pytest.raises(NoteRefused):
        parse_request(b"old 05\n\n" + note(9))
    assert Seen(ORIGIN).size == 0
