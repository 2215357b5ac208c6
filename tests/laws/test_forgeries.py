"""Laws of forgery: whatever is made up, nobody who checks accepts it.

Each row is one forgery of a sound memory, its tiles, a proof or a checkpoint. Ours and the verifier that stands alone
must refuse every row. Other people's verifiers must refuse those that they can see: of logs, tiles and continuations
they are asked about every row, so that one that claims too much, or too little, fails too; of proofs about those that
name them.
"""

from __future__ import annotations

import shutil
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

import verify_standalone
from tallystick.commits import Commit, chain
from tallystick.commits.canonical import canonical_bytes
from tallystick.commits.signed_note import WITNESS_KEY, NoteRefused, SignerKey, parse_checkpoint, parse_note
from tallystick.errors import Corrupt
from tallystick.extensions.proofs.proof_file import (
    ConsistencyProof,
    InclusionProof,
    Trust,
    consistency_file,
    extra_of,
    inclusion_file,
    parse_proof,
)
from tallystick.extensions.proofs.prove import check_proof, prove_stored, refuse_split_view
from tallystick.extensions.proofs.tiles import TilesProjection
from tallystick.log import Entry, Head, head_after, tree_directory
from tallystick.log.head_file import encode_head
from tests.command_line import CommandLine
from tests.foreign.verifiers import (
    NO_PYTHON,
    NO_SIGSTORE,
    AicsTlog,
    Asked,
    asking,
    pymerkle_root,
    python_command,
    sigstore_accepts,
    sigstore_command,
)
from tests.promises import promise
from tests.signed_memory import (
    KEY,
    OLDER,
    ORIGIN,
    PLAIN,
    SECONDS,
    SECRET,
    STRANGER,
    WITNESS,
    SignedMemory,
    signed,
    signed_memory,
)

IMPOSTOR = SignerKey(ORIGIN, STRANGER.seed)
"""Another key under the name of the log's."""
FIRST_SEGMENT = "00000000000000000001.jsonl"


class Kit:
    """What somebody is handed: a memory, and proofs about it. A forgery changes it in place."""

    def __init__(self, directory: Path, good: SignedMemory, other: SignedMemory) -> None:
        self.directory, self.good, self.other = directory, good, other
        self.home = directory / "memory"
        shutil.copytree(good.home, self.home)
        self.log, self.tiles = self.home / "_system" / "log", tree_directory(self.home)
        self.kept = [good.note(OLDER)]
        """Checkpoints that the checker kept elsewhere."""
        self.inclusion = good.inclusion(PLAIN)
        self.consistency = good.consistency()
        self.older = good.note(OLDER)
        self.payload: bytes | None = None
        self.quorum = 0
        self.files: dict[str, bytes] = {}

    # -- the log

    def lines(self) -> list[bytes]:
        return [line for path in sorted(self.log.glob("*.jsonl")) for line in path.read_bytes().splitlines()]

    def commits(self) -> list[Commit]:
        return [chain.decode(line) for line in self.lines()]

    def put(self, lines: list[bytes], *, mark: bool = True) -> None:
        """All of them in one file; with `mark` the position that is kept beside the log is forged as well."""
        for path in self.log.glob("*.jsonl"):
            path.unlink()
        (self.log / FIRST_SEGMENT).write_bytes(b"".join(line + b"\n" for line in lines))
        if mark:
            (self.home / "_system" / "head").write_bytes(encode_head(self._head(lines)))

    def rewrite(self, commits: list[Commit], start: int, *, tiles: bool = True) -> None:
        """Chained anew from `start` on, with all that can be forged without the key."""
        chained = rechained(commits, start)
        lines = [chain.encode(commit)[:-1] for commit in chained]
        self.put(lines)
        if tiles:
            self.retile(lines)

    def retile(self, lines: list[bytes]) -> None:
        entries = [Entry(0, chain.decode(line), line) for line in lines]
        projection = TilesProjection(self.home)
        projection.reset()
        projection.apply(entries, head_after(entries, Head()))

    def _head(self, lines: list[bytes]) -> Head:
        with suppress(Corrupt):
            last = chain.decode(lines[-1])
            end = sum(len(line) + 1 for line in lines)
            return Head(last.lamport, len(lines), end, last.record_hash, last.commit_id, last.timestamp)
        return Head()

    # -- the proof

    def proof(self, **changes: object) -> None:
        self.inclusion = msgspec.structs.replace(self.inclusion, **changes)

    def note(self, data: bytes) -> None:
        self.proof(note=data)

    def grown(self, **changes: object) -> None:
        self.consistency = msgspec.structs.replace(self.consistency, **changes)


def rechained(commits: list[Commit], start: int) -> list[Commit]:
    done = commits[:start]
    for commit in commits[start:]:
        before = done[-1] if done else None
        fresh = msgspec.structs.replace(commit, prev=before.commit_id if before else None)
        prefix = before.record_hash if before else ""
        record_hash = sha256(prefix.encode() + chain.head_of(fresh)).hexdigest()
        done.append(msgspec.structs.replace(fresh, record_hash=record_hash))
    return done


def edited(commit: Commit, payload: bytes | None = None, **fields: object) -> Commit:
    """With its own hashes made to fit."""
    fresh = msgspec.structs.replace(commit, payload=payload or commit.payload, **fields)
    return msgspec.structs.replace(
        fresh,
        content_hash=chain.content_hash(fresh.payload),
        commit_id=chain.commit_id(fresh.payload, fresh.lamport, fresh.actor, fresh.operation),
    )


def flipped(data: bytes, at: int = 0) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def swap(lines: list[bytes], one: int, other: int) -> list[bytes]:
    lines[one], lines[other] = lines[other], lines[one]
    return lines


# -- forgeries of a log


def in_line(old: bytes, new: bytes, at: int = PLAIN) -> Callable[[Kit], None]:
    def forge(kit: Kit) -> None:
        lines = kit.lines()
        assert old in lines[at]
        kit.put([*lines[:at], lines[at].replace(old, new, 1), *lines[at + 1 :]])

    return forge


def line_hashes_fitted(kit: Kit) -> None:
    commits = kit.commits()
    commits[PLAIN] = edited(commits[PLAIN], commits[PLAIN].payload.replace(b"text 5", b"text 6"))
    lines = kit.lines()
    lines[PLAIN] = chain.encode(rechained(commits, PLAIN)[PLAIN])[:-1]
    kit.put(lines)


def all_rewritten(kit: Kit) -> None:
    commits = kit.commits()
    commits[PLAIN] = edited(commits[PLAIN], commits[PLAIN].payload.replace(b"text 5", b"text 6"))
    kit.rewrite(commits, PLAIN)


def head_rewritten(kit: Kit) -> None:
    commits = kit.commits()
    commits[PLAIN] = edited(commits[PLAIN], actor="somebody else")
    kit.rewrite(commits, PLAIN)


def swapped(kit: Kit) -> None:
    kit.put(swap(kit.lines(), 4, 5))


def order_rewritten(kit: Kit) -> None:
    commits = kit.commits()
    one, other = commits[4], commits[5]
    commits[4], commits[5] = edited(other, lamport=one.lamport), edited(one, lamport=other.lamport)
    kit.rewrite(commits, 4)


def inserted(kit: Kit) -> None:
    lines, commits = kit.lines(), kit.commits()
    fake = edited(commits[PLAIN], b'{"attrs":{},"id":"fake","type":"note"}')
    made = rechained([*commits[: PLAIN + 1], fake], PLAIN + 1)[-1]
    kit.put([*lines[: PLAIN + 1], chain.encode(made)[:-1], *lines[PLAIN + 1 :]])


def removed_and_rewritten(kit: Kit) -> None:
    commits = kit.commits()
    del commits[PLAIN]
    kit.rewrite(commits, PLAIN)


def end_removed_and_retiled(kit: Kit) -> None:
    lines = kit.lines()[:-1]
    kit.put(lines)
    kit.retile(lines)


def rolled_back(kit: Kit) -> None:
    """To a copy that was sound once, with the checkpoint of then: only who kept a newer one can tell."""
    lines = unredacted(kit)[:OLDER]
    kit.put(lines)
    kit.retile(lines)
    (kit.tiles / "checkpoint").write_bytes(kit.good.note(OLDER))
    kit.kept = []
    assert standalone_accepts(kit, kit.home)
    kit.kept = [kit.good.note()]


def other_history(kit: Kit, checkpoint: bytes, kept: bytes) -> None:
    kit.put([entry.line for entry in kit.other.entries])
    kit.retile(kit.lines())
    (kit.tiles / "checkpoint").write_bytes(checkpoint)
    kit.kept = [kept]


def batch_cut(kit: Kit) -> None:
    """After the second of three; what was signed is older."""
    lines = kit.lines()[:-3]
    kit.put(lines)
    kit.retile(lines)
    (kit.tiles / "checkpoint").write_bytes(kit.good.note(OLDER))


def masked_payload(kit: Kit, at: int) -> bytes:
    left = chain.redacted_payload(kit.lines()[at], None)
    assert left is not None
    return left


def masked_without_commit(kit: Kit) -> None:
    lines = kit.lines()
    lines[PLAIN] = chain.mask(lines[PLAIN], masked_payload(kit, PLAIN))
    kit.put(lines, mark=False)


def unredacted(kit: Kit) -> list[bytes]:
    lines = kit.lines()
    secret = canonical_bytes({"id": f"n{SECRET}", "type": "note", "attrs": {"said": f"text {SECRET}"}})
    assert chain.content_hash(secret) == kit.commits()[SECRET].content_hash
    lines[SECRET] = chain.mask(lines[SECRET], secret)
    return lines


def redaction_undone(kit: Kit) -> None:
    kit.put(unredacted(kit), mark=False)


def redaction_removed(kit: Kit) -> None:
    """The commit that explains a masked payload becomes another, and everything behind it is chained anew."""
    commits = kit.commits()
    at = next(number for number, commit in enumerate(commits) if commit.redacts)
    commits[at] = edited(commits[at], redacts=None)
    kit.rewrite(commits, at)


def signed_by_its_operator(change: Callable[[list[Commit]], int]) -> Callable[[Kit], None]:
    """Whoever has the key can sign anything: what breaks the rules of a log is refused all the same."""

    def forge(kit: Kit) -> None:
        commits = kit.commits()
        kit.rewrite(commits, change(commits))
        forged = SignedMemory(kit.home, [Entry(0, commit, b"") for commit in kit.commits()])
        (kit.tiles / "checkpoint").write_bytes(forged.note())
        kit.kept = []

    return forge


def time_put_back(commits: list[Commit]) -> int:
    commits[PLAIN] = edited(commits[PLAIN], timestamp="2001-01-01T00:00:00.000Z")
    return PLAIN


def position_repeated(commits: list[Commit]) -> int:
    commits[PLAIN] = edited(commits[PLAIN], lamport=commits[PLAIN - 1].lamport)
    return PLAIN


def of_another_tenant(commits: list[Commit]) -> int:
    commits[PLAIN] = edited(commits[PLAIN], tenant="other")
    return PLAIN


def write_that_redacts(commits: list[Commit]) -> int:
    commits[PLAIN] = edited(commits[PLAIN], redacts={"1": "0" * 64})
    return PLAIN


def behind_the_end(kit: Kit) -> None:
    commits = kit.commits()
    fake = edited(commits[-1], lamport=commits[-1].lamport + 1)
    made = chain.encode(rechained([*commits, fake], len(commits))[-1])[:-1]
    kit.put([*kit.lines(), made])
    head = Head(
        commits[-1].lamport, len(commits), sum(len(line) + 1 for line in kit.lines()[:-1]), commits[-1].record_hash,
        commits[-1].commit_id, commits[-1].timestamp,
    )  # fmt: skip
    (kit.home / "_system" / "head").write_bytes(encode_head(head))


def mark_damaged(kit: Kit) -> None:
    (kit.home / "_system" / "head").write_bytes(b"0" * 512)


def segment_renamed(kit: Kit) -> None:
    path = sorted(kit.log.glob("*.jsonl"))[1]
    path.rename(path.with_name(f"{int(path.stem) - 1:020d}.jsonl"))


def checkpoint_file(change: Callable[[Kit], bytes]) -> Callable[[Kit], None]:
    def forge(kit: Kit) -> None:
        (kit.tiles / "checkpoint").write_bytes(change(kit))

    return forge


def altered_text(kit: Kit, **fields: object) -> bytes:
    """Another text above the signatures of this one."""
    text = msgspec.structs.replace(kit.good.checkpoint(), **fields).text()
    return text.encode() + kit.good.note()[len(kit.good.checkpoint().text()) :]


def signed_for_another(kit: Kit) -> bytes:
    return signed(msgspec.structs.replace(kit.good.checkpoint(), origin="shop.example/other"))


# -- forgeries of tiles


def in_tile(name: str, at: int = 0, *, cut: int = 0) -> Callable[[Kit], None]:
    def forge(kit: Kit) -> None:
        path = kit.tiles / name
        data = path.read_bytes()
        path.write_bytes(data[:-cut] if cut else flipped(data, at))

    return forge


def tiles_of_another_history(kit: Kit) -> None:
    kit.retile([entry.line for entry in kit.other.entries])


def tile_missing(kit: Kit) -> None:
    (kit.tiles / "tile/0/000").unlink()


# -- forgeries of proofs


def cosigned(kit: Kit, text: str, cosignature: str) -> bytes:
    return f"{text}\n{KEY.signature_line(text)}{cosignature}".encode()


def replayed_signature(kit: Kit) -> None:
    text, older = kit.good.checkpoint().text(), kit.good.checkpoint(OLDER).text()
    kit.note(f"{text}\n{KEY.signature_line(older)}".encode())


def replayed_cosignature(kit: Kit) -> None:
    older, text = kit.good.checkpoint(OLDER).text(), kit.good.checkpoint().text()
    kit.quorum = 1
    kit.note(cosigned(kit, text, WITNESS.signature_line(older, seconds=SECONDS)))


def later_cosignature(kit: Kit) -> None:
    text = kit.good.checkpoint().text()
    _, name, encoded = WITNESS.signature_line(text, seconds=SECONDS).split(" ")
    _, key_id, signature = parse_note(cosigned(kit, text, f"— {name} {encoded}")).signatures[1]
    moved = key_id + (SECONDS + 86_400).to_bytes(8, "big") + signature[8:]
    kit.quorum = 1
    kit.note(cosigned(kit, text, f"— {name} {b64encode(moved).decode()}\n"))


def one_witness_twice(kit: Kit) -> None:
    text = kit.good.checkpoint().text()
    lines = "".join(WITNESS.signature_line(text, seconds=SECONDS + number) for number in range(2))
    kit.quorum = 2
    kit.note(cosigned(kit, text, lines))


def only_a_witness(kit: Kit) -> None:
    kit.note(signed(kit.good.checkpoint(), WITNESS))


def log_key_as_witness(kit: Kit) -> None:
    """The log cosigns itself."""
    text = kit.good.checkpoint().text()
    own = SignerKey(WITNESS.name, KEY.seed, WITNESS_KEY)
    kit.quorum = 1
    kit.note(cosigned(kit, text, own.signature_line(text, seconds=SECONDS)))


def too_old_to_hold_it(kit: Kit) -> None:
    kit.inclusion = kit.good.inclusion(OLDER + 3)
    kit.note(kit.good.note(OLDER))


def stolen_id(kit: Kit) -> None:
    """A stranger's signature under the name and the id of the log's key."""
    text = kit.good.checkpoint().text()
    signature = parse_note(signed(kit.good.checkpoint(), IMPOSTOR)).signatures[0][2]
    encoded = b64encode(KEY.verifier.id + signature).decode()
    kit.note(f"{text}\n— {ORIGIN} {encoded}\n".encode())


def inner_node_as_leaf(kit: Kit) -> None:
    """The proof of a subtree of two, passed off as that of one entry."""
    kit.inclusion = kit.good.inclusion(4)
    kit.proof(hashes=kit.inclusion.hashes[1:], index=2)


def extra_changed(kit: Kit) -> None:
    extra = kit.inclusion.extra or b""
    kit.proof(extra=extra.replace(b'"actor":"tester"', b'"actor":"nobody"'))


def extra_of_another(kit: Kit) -> None:
    entries = kit.good.entries
    kit.proof(extra=extra_of(entries[PLAIN + 1].commit, entries[PLAIN].commit.record_hash))


def hashes(kit: Kit) -> list[bytes]:
    return list(kit.inclusion.hashes)


def written(change: Callable[[bytes], bytes], name: str = "commit.tlog-proof") -> Callable[[Kit], None]:
    """Of the file's text; nobody else reads such files."""

    def forge(kit: Kit) -> None:
        data = inclusion_file(kit.inclusion)
        kit.files[name] = change(data)
        assert kit.files[name] != data

    return forge


def payload_exchanged(kit: Kit) -> None:
    kit.payload = kit.good.entries[PLAIN + 1].commit.payload


def split_view(kit: Kit) -> None:
    kit.kept = [kit.other.note()]


def became_shorter(kit: Kit) -> None:
    kit.older = kit.good.note()
    kit.grown(old=kit.good.size, note=kit.good.note(OLDER), hashes=())


# -- the table


class Forgery(msgspec.Struct, frozen=True):
    name: str
    forge: Callable[[Kit], None]
    seen_by: frozenset[str] = frozenset()
    """Which of the others can tell."""


ROOTS = frozenset({"pymerkle"})
AICS = frozenset({"aics-tlog"})
BOTH = frozenset({"aics-tlog", "sigstore"})

LOGS = [
    Forgery("a payload says something else", in_line(b"text 5", b"text 6")),
    Forgery("a payload is longer", in_line(b"text 5", b"text 55")),
    Forgery("a payload and every hash in its line", line_hashes_fitted, ROOTS),
    Forgery("a payload, and all that follows is chained anew", all_rewritten, ROOTS),
    Forgery("spaces behind a payload", in_line(b"}}", b"} }")),
    Forgery("spaces behind a payload that nobody masked", in_line(b'"type":"note"}}', b'"type":"note"} }')),
    Forgery("an actor", in_line(b'"actor":"tester"', b'"actor":"nobody"')),
    Forgery("an actor, and all that follows is chained anew", head_rewritten, ROOTS),
    Forgery("a tool", in_line(b'"tool":"test"', b'"tool":"tost"')),
    Forgery("a time", in_line(b'"timestamp":"2023', b'"timestamp":"2024')),
    Forgery("a field twice", in_line(b'{"actor":"tester",', b'{"actor":"nobody","actor":"tester",')),
    Forgery("a field that nobody knows", in_line(b'{"actor"', b'{"a":1,"actor"')),
    Forgery("a blank between fields", in_line(b'{"actor"', b'{ "actor"')),
    Forgery("a number as a fraction", in_line(b'"lamport":6,', b'"lamport":6.0,')),
    Forgery("a newer format", in_line(b'"schema_version":"1"', b'"schema_version":"2"')),
    Forgery("two lines in another order", swapped, ROOTS),
    Forgery("two commits in another order, all chained anew", order_rewritten, ROOTS),
    Forgery("a line is removed", lambda kit: kit.put([*kit.lines()[:PLAIN], *kit.lines()[PLAIN + 1 :]]), ROOTS),
    Forgery("a commit is removed, all chained anew", removed_and_rewritten, ROOTS),
    Forgery("a line is there twice", lambda kit: kit.put([*kit.lines()[:PLAIN], *kit.lines()[PLAIN - 1 :]]), ROOTS),
    Forgery("a line is put in", inserted, ROOTS),
    Forgery("the first line is removed", lambda kit: kit.put(kit.lines()[1:]), ROOTS),
    Forgery("the last line is removed", lambda kit: kit.put(kit.lines()[:-1], mark=False), ROOTS),
    Forgery("the last line is removed, and from the kept position", lambda kit: kit.put(kit.lines()[:-1]), ROOTS),
    Forgery("the last commit is removed everywhere", end_removed_and_retiled, ROOTS),
    Forgery("everything is removed", lambda kit: kit.put(kit.lines()[:1]), ROOTS),
    Forgery("an old copy, with the checkpoint of then", rolled_back, ROOTS),
    Forgery(
        "a history that the key signed too", lambda kit: other_history(kit, kit.other.note(), kit.good.note()), ROOTS
    ),
    Forgery(
        "another history under the old checkpoint",
        lambda kit: other_history(kit, kit.good.note(), kit.good.note()),
        ROOTS,
    ),
    Forgery(
        "another history, signed by a stranger",
        lambda kit: other_history(kit, signed(kit.other.checkpoint(), STRANGER), kit.other.note()),
    ),
    Forgery(
        "another history, signed by a key of the same name",
        lambda kit: other_history(kit, signed(kit.other.checkpoint(), IMPOSTOR), kit.other.note()),
    ),
    Forgery("the log ends within a batch", batch_cut),
    Forgery("a payload is masked, and no commit says so", masked_without_commit),
    Forgery("a masked payload says something else", in_line(b'"said":0', b'"said":9', SECRET)),
    Forgery("a redaction is undone", redaction_undone),
    Forgery("a redaction no longer names what it masked", redaction_removed, ROOTS),
    Forgery("signed by its operator: a time before the last", signed_by_its_operator(time_put_back)),
    Forgery("signed by its operator: a position twice", signed_by_its_operator(position_repeated)),
    Forgery("signed by its operator: a commit of another tenant", signed_by_its_operator(of_another_tenant)),
    Forgery("signed by its operator: a write that redacts", signed_by_its_operator(write_that_redacts)),
    Forgery("a commit behind the kept position", behind_the_end),
    Forgery("the kept position is damaged", mark_damaged),
    Forgery("a file of the log has another name", segment_renamed),
    Forgery("a file of the log is gone", lambda kit: sorted(kit.log.glob("*.jsonl"))[1].unlink(), ROOTS),
    Forgery("a checkpoint of another size", checkpoint_file(lambda kit: altered_text(kit, size=299)), ROOTS),
    Forgery("a checkpoint with another root", checkpoint_file(lambda kit: altered_text(kit, root=bytes(32))), ROOTS),
    Forgery("a checkpoint of another log", checkpoint_file(lambda kit: altered_text(kit, origin="evil.example"))),
    Forgery("a checkpoint with another signature", checkpoint_file(lambda kit: flipped(kit.good.note(), -9))),
    Forgery(
        "a checkpoint that a stranger signed", checkpoint_file(lambda kit: signed(kit.good.checkpoint(), STRANGER))
    ),
    Forgery(
        "a checkpoint that a witness alone signed", checkpoint_file(lambda kit: signed(kit.good.checkpoint(), WITNESS))
    ),
    Forgery("a checkpoint that was signed for another log", checkpoint_file(signed_for_another)),
    Forgery("a checkpoint that is no note", checkpoint_file(lambda kit: b"no note\n")),
]

TILES = [
    Forgery("a hash in a full tile", in_tile("tile/0/000", 4 * 32), AICS),
    Forgery("a hash in a partial tile", in_tile("tile/0/001.p/44"), AICS),
    Forgery("a hash in a tile of a higher level", in_tile("tile/1/000.p/1"), AICS),
    Forgery("a full tile is shorter", in_tile("tile/0/000", cut=1), AICS),
    Forgery("a full tile is gone", tile_missing, AICS),
    Forgery("tiles of another history", tiles_of_another_history, AICS),
    Forgery("a checkpoint with another root", checkpoint_file(lambda kit: altered_text(kit, root=bytes(32))), AICS),
    Forgery(
        "a checkpoint of a key of the same name",
        checkpoint_file(lambda kit: signed(kit.good.checkpoint(), IMPOSTOR)),
        AICS,
    ),
]

PROOFS = [
    Forgery("a hash is another", lambda kit: kit.proof(hashes=(flipped(hashes(kit)[0]), *hashes(kit)[1:])), BOTH),
    Forgery("the last hash is another", lambda kit: kit.proof(hashes=(*hashes(kit)[:-1], bytes(32))), BOTH),
    Forgery("a hash is missing", lambda kit: kit.proof(hashes=kit.inclusion.hashes[1:]), BOTH),
    Forgery("a hash too many", lambda kit: kit.proof(hashes=(*kit.inclusion.hashes, bytes(32))), BOTH),
    Forgery("no hashes", lambda kit: kit.proof(hashes=()), BOTH),
    Forgery("hashes in another order", lambda kit: kit.proof(hashes=kit.inclusion.hashes[::-1]), BOTH),
    Forgery("another index", lambda kit: kit.proof(index=PLAIN + 1), BOTH),
    Forgery("an index beyond the log", lambda kit: kit.proof(index=kit.good.size + PLAIN), BOTH),
    Forgery("a subtree passed off as an entry", inner_node_as_leaf, BOTH),
    Forgery("the commit says something else", extra_changed, BOTH),
    Forgery("the commit is another of the log", extra_of_another, BOTH),
    Forgery("no commit", lambda kit: kit.proof(extra=None), BOTH),
    Forgery("a checkpoint before the commit", too_old_to_hold_it, BOTH),
    Forgery("a checkpoint of another history", lambda kit: kit.note(kit.other.note()), BOTH),
    Forgery(
        "a proof of another history",
        lambda kit: setattr(kit, "inclusion", kit.other.inclusion(PLAIN, note=kit.good.note())),
        BOTH,
    ),
    Forgery("the size is another", lambda kit: kit.note(altered_text(kit, size=299)), BOTH),
    Forgery("the root is another", lambda kit: kit.note(altered_text(kit, root=bytes(32))), BOTH),
    Forgery("the origin is another", lambda kit: kit.note(altered_text(kit, origin="evil.example")), BOTH),
    Forgery("signed for another log", lambda kit: kit.note(signed_for_another(kit)), AICS),
    Forgery("signed by a stranger", lambda kit: kit.note(signed(kit.good.checkpoint(), STRANGER)), BOTH),
    Forgery("signed by a key of the same name", lambda kit: kit.note(signed(kit.good.checkpoint(), IMPOSTOR)), BOTH),
    Forgery("signed under the id of the key", stolen_id, BOTH),
    Forgery("the signature is that of an older checkpoint", replayed_signature, BOTH),
    Forgery("a cosignature of an older checkpoint", replayed_cosignature, AICS),
    Forgery("a cosignature made younger", later_cosignature, AICS),
    Forgery("one witness counted twice", one_witness_twice, AICS),
    Forgery("a witness, and not the log", only_a_witness, BOTH),
    Forgery("the log as its own witness", log_key_as_witness, AICS),
    Forgery("what was written is something else", payload_exchanged),
    Forgery("somebody else was shown another history", split_view),
    Forgery("the file says another format", written(lambda data: data.replace(b"@v1", b"@v2", 1))),
    Forgery(
        "the file has another spelling of a number", written(lambda data: data.replace(b"index 5", b"index 05", 1))
    ),
    Forgery("the file has another spelling of a hash", written(lambda data: data.replace(b"=\n", b"=\r\n", 1))),
    Forgery("the file ends early", written(lambda data: data[:-2])),
    Forgery("the file has something behind it", written(lambda data: data + b"and more\n")),
]

CONTINUATIONS = [
    Forgery(
        "a hash is another",
        lambda kit: kit.grown(hashes=(flipped(kit.consistency.hashes[0]), *kit.consistency.hashes[1:])),
        AICS,
    ),
    Forgery("a hash is missing", lambda kit: kit.grown(hashes=kit.consistency.hashes[:-1]), AICS),
    Forgery("a hash too many", lambda kit: kit.grown(hashes=(*kit.consistency.hashes, bytes(32))), AICS),
    Forgery("no hashes", lambda kit: kit.grown(hashes=()), AICS),
    Forgery("another older size", lambda kit: kit.grown(old=OLDER - 1), AICS),
    Forgery("an older size of nothing", lambda kit: kit.grown(old=0, hashes=()), AICS),
    Forgery("an older checkpoint of another history", lambda kit: setattr(kit, "older", kit.other.note(OLDER)), AICS),
    Forgery("a newer checkpoint of another history", lambda kit: kit.grown(note=kit.other.note()), AICS),
    Forgery(
        "an older checkpoint of a stranger",
        lambda kit: setattr(kit, "older", signed(kit.good.checkpoint(OLDER), STRANGER)),
        AICS,
    ),
    Forgery(
        "a newer checkpoint of a key of the same name",
        lambda kit: kit.grown(note=signed(kit.good.checkpoint(), IMPOSTOR)),
        AICS,
    ),
    Forgery("the log became shorter", became_shorter, AICS),
]

SOUND = Forgery("nothing", lambda kit: None)


# -- whoever checks


def ours_accepts_log(kit: Kit, files: list[str]) -> bool:
    words = [word for path in files for word in ("--checkpoint", path)]
    return CommandLine(kit.home).main("verify", *words, "--vkey", kit.directory / "vkey").code == 0


def ours_accepts_proof(kit: Kit, data: bytes) -> bool:
    trust = Trust((KEY.verifier, WITNESS.verifier), kit.quorum)
    try:
        check_proof(data, trust, older=kit.older, payload=kit.payload)
        refuse_split_view(data, trust, kit.kept)
    except NoteRefused:
        return False
    return True


def ours_makes_proofs(kit: Kit) -> bool:
    """Of tiles we hand out nothing but what they prove."""
    try:
        for index in (PLAIN, OLDER + 3):
            before = kit.good.entries[index - 1].commit.record_hash
            made = prove_stored(kit.home, kit.good.entries[index].commit, index, before)
            check_proof(made.proof, Trust((KEY.verifier,)))
    except (Corrupt, NoteRefused):
        return False
    return True


def standalone_accepts(kit: Kit, what: Path, *words: object) -> bool:
    return verify_standalone.main(["--vkey", str(kit.directory / "vkey"), str(what), *map(str, words)]) == 0


def kept_files(kit: Kit) -> list[str]:
    paths = [kit.directory / f"kept{number}" for number in range(len(kit.kept))]
    for path, data in zip(paths, kit.kept, strict=True):
        path.write_bytes(data)
    return [str(path) for path in paths]


def pymerkle_accepts(asked: Asked, kit: Kit) -> bool:
    entries = [chain.record_hash_of(line) for line in kit.lines()]
    checkpoints = []
    for data in [*kit.kept, (kit.tiles / "checkpoint").read_bytes()]:
        with suppress(NoteRefused):
            checkpoints.append(parse_checkpoint(parse_note(data)))
    return all(
        each.size <= len(entries) and pymerkle_root(asked, entries[: each.size]) == each.root for each in checkpoints
    )


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> tuple[SignedMemory, SignedMemory]:
    directory = tmp_path_factory.mktemp("histories")
    return signed_memory(directory / "good"), signed_memory(directory / "other", tag="another ")


@pytest.fixture
def kit(tmp_path: Path, histories: tuple[SignedMemory, SignedMemory]) -> Kit:
    made = Kit(tmp_path, *histories)
    (tmp_path / "vkey").write_text(f"{KEY.verifier}\n{WITNESS.verifier}\n")
    return made


@pytest.fixture(scope="module")
def foreign() -> Iterator[Asked | None]:
    command = python_command()
    if command is None:
        yield None
        return
    with asking(command) as asked:
        yield asked


@pytest.fixture(scope="module")
def sigstore() -> Iterator[Asked | None]:
    command = sigstore_command()
    if command is None:
        yield None
        return
    with asking(command) as asked:
        yield asked


def name_of(forgery: Forgery) -> str:
    return forgery.name


# -- ours and the one that stands alone


def test_what_only_lies_in_other_files_is_no_forgery(kit: Kit) -> None:
    """Otherwise rows of the table would be refused for how they are written down."""
    kit.put(kit.lines())
    kit.retile(kit.lines())
    assert ours_accepts_log(kit, kept_files(kit))
    assert standalone_accepts(kit, kit.home)
    kit.rewrite(kit.commits(), 0)
    assert ours_accepts_log(kit, kept_files(kit))
    assert standalone_accepts(kit, kit.home)


@promise("proof, forged log", "a forged log is refused")
@pytest.mark.parametrize("forgery", [SOUND, *LOGS], ids=name_of)
def test_a_forged_log_is_refused(kit: Kit, forgery: Forgery) -> None:
    forgery.forge(kit)
    files = kept_files(kit)
    words = [word for path in files for word in ("--checkpoint", path)]
    assert ours_accepts_log(kit, [*files, str(kit.tiles / "checkpoint")]) == (forgery is SOUND)
    assert standalone_accepts(kit, kit.home, *words) == (forgery is SOUND)


@promise("proof, forged tiles", "forged tiles are refused")
@pytest.mark.parametrize("forgery", [SOUND, *TILES], ids=name_of)
def test_forged_tiles_are_refused(kit: Kit, forgery: Forgery) -> None:
    forgery.forge(kit)
    assert ours_makes_proofs(kit) == (forgery is SOUND)
    assert standalone_accepts(kit, kit.tiles) == (forgery is SOUND)
    assert standalone_accepts(kit, kit.home) == (forgery is SOUND or forgery.forge is tile_missing)


@promise("proof, forged", "a forged proof is refused")
@pytest.mark.parametrize("forgery", [SOUND, *PROOFS], ids=name_of)
def test_a_forged_proof_is_refused(kit: Kit, forgery: Forgery) -> None:
    forgery.forge(kit)
    data = kit.files.get("commit.tlog-proof", inclusion_file(kit.inclusion))
    (kit.directory / "x.tlog-proof").write_bytes(data)
    words: list[object] = ["--quorum", kit.quorum]
    words += [word for path in kept_files(kit) for word in ("--checkpoint", path)] if not kit.quorum else []
    if kit.payload is not None:
        (kit.directory / "payload").write_bytes(kit.payload)
        words += ["--payload", kit.directory / "payload"]
    assert ours_accepts_proof(kit, data) == (forgery is SOUND)
    assert standalone_accepts(kit, kit.directory / "x.tlog-proof", *words) == (forgery is SOUND)


@pytest.mark.parametrize("forgery", [SOUND, *CONTINUATIONS], ids=name_of)
def test_a_forged_continuation_is_refused(kit: Kit, forgery: Forgery) -> None:
    forgery.forge(kit)
    data = consistency_file(kit.consistency)
    (kit.directory / "x").write_bytes(data)
    (kit.directory / "older").write_bytes(kit.older)
    assert ours_accepts_proof(kit, data) == (forgery is SOUND)
    assert standalone_accepts(kit, kit.directory / "x", "--since", kit.directory / "older") == (forgery is SOUND)


@promise("proof, 40 forgeries", "at least forty forgeries are planted")
def test_there_are_enough_of_them() -> None:
    rows = [*LOGS, *TILES, *PROOFS, *CONTINUATIONS]
    assert len(rows) >= 100
    for table in (LOGS, TILES, PROOFS, CONTINUATIONS):
        assert len({row.name for row in table}) == len(table)


# -- other people's


@pytest.mark.parametrize("forgery", [SOUND, *LOGS], ids=name_of)
def test_pymerkle_finds_another_root(kit: Kit, foreign: Asked | None, forgery: Forgery) -> None:
    if foreign is None:
        pytest.skip(NO_PYTHON)
    forgery.forge(kit)
    assert pymerkle_accepts(foreign, kit) == ("pymerkle" not in forgery.seen_by)


@pytest.mark.parametrize("forgery", [SOUND, *TILES], ids=name_of)
def test_aics_tlog_refuses_forged_tiles(kit: Kit, foreign: Asked | None, forgery: Forgery) -> None:
    if foreign is None:
        pytest.skip(NO_PYTHON)
    forgery.forge(kit)
    aics = AicsTlog(foreign, kit.directory)
    accepted = [
        aics.tiles(kit.tiles, index, bytes.fromhex(kit.good.entries[index].commit.record_hash), KEY.verifier)
        for index in (PLAIN, OLDER + 3)
    ]
    assert all(accepted) == ("aics-tlog" not in forgery.seen_by)


@pytest.mark.parametrize("forgery", [SOUND, *(each for each in PROOFS if each.seen_by)], ids=name_of)
def test_aics_tlog_refuses_forged_proofs(kit: Kit, foreign: Asked | None, forgery: Forgery) -> None:
    if foreign is None:
        pytest.skip(NO_PYTHON)
    forgery.forge(kit)
    proof = parse_proof(inclusion_file(kit.inclusion))
    assert isinstance(proof, InclusionProof)
    accepted = AicsTlog(foreign, kit.directory).inclusion(proof, [KEY.verifier, WITNESS.verifier], kit.quorum)
    assert accepted == ("aics-tlog" not in forgery.seen_by)


@pytest.mark.parametrize("forgery", [SOUND, *CONTINUATIONS], ids=name_of)
def test_aics_tlog_refuses_forged_continuations(kit: Kit, foreign: Asked | None, forgery: Forgery) -> None:
    if foreign is None:
        pytest.skip(NO_PYTHON)
    forgery.forge(kit)
    proof = parse_proof(consistency_file(kit.consistency))
    assert isinstance(proof, ConsistencyProof)
    accepted = AicsTlog(foreign, kit.directory).consistency(proof, kit.older, [KEY.verifier])
    assert accepted == ("aics-tlog" not in forgery.seen_by)


@pytest.mark.parametrize("forgery", [SOUND, *(each for each in PROOFS if each.seen_by)], ids=name_of)
def test_sigstore_refuses_forged_proofs(kit: Kit, sigstore: Asked | None, forgery: Forgery) -> None:
    if sigstore is None:
        pytest.skip(NO_SIGSTORE)
    forgery.forge(kit)
    assert sigstore_accepts(sigstore, kit.inclusion, KEY.verifier) == ("sigstore" not in forgery.seen_by)
