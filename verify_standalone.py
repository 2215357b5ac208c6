#!/usr/bin/env python3
"""Check a Tallystick memory, or a proof out of one, with nothing but Python 3.9 or newer and this one file.

    python3 verify_standalone.py --vkey KEYS MEMORY          the base directory, its `_system`, or its `log`
    python3 verify_standalone.py --vkey KEYS EXPORT.jsonl    what `tallystick export` wrote; - is standard input
    python3 verify_standalone.py --vkey KEYS TILES           a directory with `checkpoint` and `tile/` (C2SP tlog-tiles)
    python3 verify_standalone.py --vkey KEYS X.tlog-proof    that a commit is in the log (C2SP tlog-proof)
    python3 verify_standalone.py --vkey KEYS --since OLD.checkpoint X.tlog-consistency

Prints `yes` and what was shown, or `no` and where it is false; leaves with 0 or 1, or with 2 when it was asked wrongly.
KEYS has a line for each key that is believed, `name+id+key`: one of the log's keys must have signed, and with
--quorum N so many of the witnesses' as well. A log must contain every checkpoint that is named, and its own.
Nothing is written, and memory does not grow with the log, only with its redactions.

It imports nothing of Tallystick, on purpose: whoever doubts that program need not trust it to judge itself.
"""

from __future__ import annotations

import argparse
import binascii
import json
import os
import re
import sys
import time
import zlib
from base64 import b64decode, b64encode
from hashlib import sha256, sha512
from typing import Any, BinaryIO, Iterator, NamedTuple, Sequence  # noqa: UP035

LINE_BYTES_MAX = 256 << 20
NOTE_BYTES_MAX = 64 << 10
SIGNATURES_MAX = 64
PROOF_HASHES_MAX = 63
INTEGER_MAX = (1 << 53) - 1


class No(Exception):
    """What is false, and where."""


# -- Ed25519 (RFC 8032), verification only

_P = 2**255 - 19
_L = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, _P - 2, _P) % _P
_ROOT_OF_MINUS_1 = pow(2, (_P - 1) // 4, _P)

_Point = tuple[int, int, int, int]
"""x/z, y/z, z, xy/z."""


def _added(p: _Point, q: _Point) -> _Point:
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % _P, (p[1] + p[0]) * (q[1] + q[0]) % _P
    c, d = 2 * p[3] * q[3] * _D % _P, 2 * p[2] * q[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _times(scalar: int, point: _Point) -> _Point:
    found = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            found = _added(found, point)
        point = _added(point, point)
        scalar >>= 1
    return found


def _x_of(y: int, sign: int) -> int | None:
    square = (y * y - 1) * pow(_D * y * y + 1, _P - 2, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if (x * x - square) % _P:
        x = x * _ROOT_OF_MINUS_1 % _P
    if (x * x - square) % _P or (x == 0 and sign):
        return None
    return _P - x if x & 1 != sign else x


def _point(data: bytes) -> _Point | None:
    written = int.from_bytes(data, "little")
    y, sign = written & ((1 << 255) - 1), written >> 255
    x = _x_of(y, sign) if y < _P else None
    return None if x is None else (x, y, 1, x * y % _P)


def _bytes_of(point: _Point) -> bytes:
    inverse = pow(point[2], _P - 2, _P)
    x, y = point[0] * inverse % _P, point[1] * inverse % _P
    return (y | (x & 1) << 255).to_bytes(32, "little")


_BASE = _point((4 * pow(5, _P - 2, _P) % _P).to_bytes(32, "little"))


def ed25519_holds(public: bytes, message: bytes, signature: bytes) -> bool:
    if len(public) != 32 or len(signature) != 64:
        return False
    key, scalar = _point(public), int.from_bytes(signature[32:], "little")
    if key is None or _BASE is None or scalar >= _L:
        return False
    challenge = int.from_bytes(sha512(signature[:32] + public + message).digest(), "little") % _L
    minus_key = (_P - key[0], key[1], key[2], _P - key[3])
    return _bytes_of(_added(_times(scalar, _BASE), _times(challenge, minus_key))) == signature[:32]


# -- keys, notes and checkpoints (C2SP signed-note, tlog-checkpoint, tlog-cosignature)

LOG_KEY, WITNESS_KEY, QUANTUM_KEY = 0x01, 0x04, 0x06
_DASH = "\N{EM DASH} "


class Key(NamedTuple):
    name: str
    id: bytes
    algorithm: int
    public: bytes

    def holds(self, text: str, signature: bytes) -> bool:
        if self.algorithm == LOG_KEY:
            return ed25519_holds(self.public, text.encode(), signature)
        seconds = int.from_bytes(signature[:8], "big")
        return ed25519_holds(self.public, (f"cosignature/v1\ntime {seconds}\n{text}").encode(), signature[8:])


class Checkpoint(NamedTuple):
    origin: str
    size: int
    root: bytes
    signers: list[str]
    """Names of the witnesses that cosigned it."""


class Belief(NamedTuple):
    """Whom to believe."""

    keys: list[Key]
    quorum: int
    origin: str | None


def read_keys(written: str, where: str) -> list[Key]:
    """Those of ML-DSA-44 are passed over, as are their signatures: the standard library cannot check them."""
    lines = [line.strip() for line in written.splitlines()]
    keys = [_key(line, where) for line in lines if line and not line.startswith("#")]
    return [key for key in keys if key.algorithm != QUANTUM_KEY]


def _key(line: str, where: str) -> Key:
    name, key_id, encoded = line.split("+", 2) if line.count("+") >= 2 else ("", "", "")
    if not _is_name(name):
        raise No(f"{where}: a verifier key is written name+id+key")
    data = _base64(encoded, where)
    if not data or len(data) != {LOG_KEY: 33, WITNESS_KEY: 33, QUANTUM_KEY: 1313}.get(data[0]):
        raise No(f"{where}: the key of '{name}' is not an Ed25519 key")
    if sha256(name.encode() + b"\n" + data).digest()[:4].hex() != key_id:
        raise No(f"{where}: the key of '{name}' does not have the id {key_id}")
    return Key(name, bytes.fromhex(key_id), data[0], data[1:])


def read_checkpoint(data: bytes, believed: Belief, where: str) -> Checkpoint:
    """Signed by one of the log's keys and by as many witnesses as are asked for; everything else is refused."""
    text, signatures = _note(data, where)
    origin, size, root = _said(text, where)
    signed, witnesses = False, set()
    keys = {(key.name, key.id): key for key in believed.keys}
    for name, key_id, signature in signatures:
        key = keys.get((name, key_id))
        if key is None:
            continue
        if not key.holds(text, signature):
            raise No(f"{where}: the signature of '{name}' does not hold")
        if key.algorithm == WITNESS_KEY:
            witnesses.add(str(key))
        elif origin == (believed.origin or name):
            signed = True
    if not signed:
        raise No(f"{where}: no key that is believed signed it as the log '{origin}'")
    if len(witnesses) < believed.quorum:
        raise No(f"{where}: {len(witnesses)} witnesses cosigned it, not {believed.quorum}")
    return Checkpoint(origin, size, root, sorted(witnesses))


def _note(data: bytes, where: str) -> tuple[str, list[tuple[str, bytes, bytes]]]:
    if len(data) > NOTE_BYTES_MAX:
        raise No(f"{where}: a note has at most {NOTE_BYTES_MAX} bytes")
    try:
        written = data.decode()
    except UnicodeDecodeError:
        raise No(f"{where}: a note is UTF-8 text") from None
    if any(character < " " and character != "\n" for character in written):
        raise No(f"{where}: a note has no control characters")
    text, blank, signatures = written.rpartition("\n\n")
    if not blank or not signatures.endswith("\n"):
        raise No(f"{where}: a note ends with an empty line and signatures")
    lines = signatures.split("\n")[:-1]
    if len(lines) > SIGNATURES_MAX:
        raise No(f"{where}: a note has at most {SIGNATURES_MAX} signatures")
    return text + "\n", [_signature(line, where) for line in lines]


def _signature(line: str, where: str) -> tuple[str, bytes, bytes]:
    if not line.startswith(_DASH) or line.count(" ") != 2:
        raise No(f"{where}: a signature line is a dash, a name and base64")
    _, name, encoded = line.split(" ")
    data = _base64(encoded, where)
    if not _is_name(name) or len(data) <= 4:
        raise No(f"{where}: a signature has a name without spaces and plus signs, and more than a key's id")
    return name, data[:4], data[4:]


def _said(text: str, where: str) -> tuple[str, int, bytes]:
    lines = text.split("\n")
    if len(lines) < 4 or not lines[0]:
        raise No(f"{where}: a checkpoint says its origin, its size and its root")
    root = _base64(lines[2], where)
    if len(root) != 32:
        raise No(f"{where}: the root of a checkpoint has 32 bytes")
    return lines[0], _decimal(lines[1], where), root


def _decimal(written: str, where: str) -> int:
    if not re.fullmatch("0|[1-9][0-9]{0,18}", written) or int(written) >= 1 << 63:
        raise No(f"{where}: '{written[:20]}' is not a decimal number")
    return int(written)


def _base64(encoded: str, where: str) -> bytes:
    try:
        data = b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if b64encode(data).decode() != encoded:
        raise No(f"{where}: '{encoded[:20]}' is not base64")
    return data


def _is_name(name: str) -> bool:
    return bool(name) and "+" not in name and not any(character.isspace() for character in name)


# -- the Merkle tree (RFC 6962; proofs are checked as RFC 9162 describes)

EMPTY_ROOT = sha256(b"").digest()


def leaf_hash(entry: bytes) -> bytes:
    return sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


class Tree:
    """Its root, while leaves are added. Keeps a hash for each complete subtree at its end."""

    def __init__(self) -> None:
        self.size = 0
        self._complete: list[bytes] = []

    def add(self, leaf: bytes) -> None:
        size = self.size
        while size & 1:
            leaf = node_hash(self._complete.pop(), leaf)
            size >>= 1
        self._complete.append(leaf)
        self.size += 1

    def root(self) -> bytes:
        if not self._complete:
            return EMPTY_ROOT
        found = self._complete[-1]
        for left in self._complete[-2::-1]:
            found = node_hash(left, found)
        return found


def inclusion_holds(leaf: bytes, index: int, size: int, hashes: Sequence[bytes], root: bytes) -> bool:
    if not 0 <= index < size:
        return False
    place, last, found = index, size - 1, leaf
    for sibling in hashes:
        if last == 0:
            return False
        if place & 1 or place == last:
            found = node_hash(sibling, found)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        place, last = place >> 1, last >> 1
    return last == 0 and found == root


def consistency_holds(old: int, size: int, hashes: Sequence[bytes], old_root: bytes, root: bytes) -> bool:
    if not 0 <= old <= size:
        return False
    if old in (0, size):
        return not hashes and old_root == (root if old else EMPTY_ROOT)
    path = list(hashes) if old & (old - 1) else [old_root, *hashes]
    if not path:
        return False
    place, last = old - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    older = newer = path[0]
    for sibling in path[1:]:
        if last == 0:
            return False
        if place & 1 or place == last:
            older, newer = node_hash(sibling, older), node_hash(sibling, newer)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            newer = node_hash(newer, sibling)
        place, last = place >> 1, last >> 1
    return last == 0 and older == old_root and newer == root


# -- proof files

INCLUSION = b"c2sp.org/tlog-proof@v1\n"
CONSISTENCY = b"old "


def check_inclusion(
    data: bytes, believed: Belief, where: str, *, record_hash: str | None, payload: bytes | None
) -> tuple[str, Checkpoint]:
    top, note = _halves(data, where)
    lines = top.split("\n")[1:]
    extra = _base64(lines.pop(0)[6:], where) if lines and lines[0].startswith("extra ") else None
    if not lines or not lines[0].startswith("index "):
        raise No(f"{where}: the proof does not say the index")
    index, hashes = _decimal(lines[0][6:], where), _hashes(lines[1:], where)
    checkpoint = read_checkpoint(note, believed, where)
    if extra is None and record_hash is None:
        raise No(f"{where}: it does not carry its commit; name it by --record-hash")
    # The extra line is the very text whose SHA-256 is the commit's record_hash: it cannot say anything else.
    entry = sha256(extra).digest() if extra is not None else bytes.fromhex(record_hash or "")
    if record_hash is not None and entry.hex() != record_hash:
        raise No(f"{where}: it is about the commit {entry.hex()}")
    if not inclusion_holds(leaf_hash(entry), index, checkpoint.size, hashes, checkpoint.root):
        raise No(f"{where}: the commit is not entry {index} of the tree that was signed")
    said = "" if extra is None else _described(extra, payload, where)
    if extra is None and payload is not None:
        raise No(f"{where}: it does not carry its commit, which alone could tell of the payload")
    return f"entry {index} of {checkpoint.size} of '{checkpoint.origin}'{said}", checkpoint


def check_consistency(data: bytes, old: Checkpoint, believed: Belief, where: str) -> tuple[str, Checkpoint]:
    top, note = _halves(data, where)
    lines = top.split("\n")
    size, hashes = _decimal(lines[0][4:], where), _hashes(lines[1:], where)
    new = read_checkpoint(note, believed, where)
    if old.origin != new.origin:
        raise No(f"{where}: it is of '{new.origin}', the older checkpoint is of '{old.origin}'")
    if old.size != size:
        raise No(f"{where}: it begins at size {size}, the older checkpoint has {old.size}")
    if not consistency_holds(size, new.size, hashes, old.root, new.root):
        raise No(f"{where}: the tree of {new.size} entries does not begin with that of {size}")
    return f"the {new.size} entries of '{new.origin}' begin with the {size} of before", new


def _halves(data: bytes, where: str) -> tuple[str, bytes]:
    top, blank, note = data.partition(b"\n\n")
    if not blank or len(data) > 4 * NOTE_BYTES_MAX:
        raise No(f"{where}: a proof has an empty line and a checkpoint at its end")
    try:
        return top.decode("ascii"), note
    except UnicodeDecodeError:
        raise No(f"{where}: a proof is text") from None


def _hashes(lines: Sequence[str], where: str) -> list[bytes]:
    found = [_base64(line, where) for line in lines]
    if len(found) > PROOF_HASHES_MAX or any(len(each) != 32 for each in found):
        raise No(f"{where}: a proof has at most {PROOF_HASHES_MAX} hashes, of 32 bytes")
    return found


def _described(extra: bytes, payload: bytes | None, where: str) -> str:
    start = 0 if extra.startswith(b"{") else 64
    head = read_head(extra[start:], where)
    if start and not re.fullmatch(b"[0-9a-f]{64}", extra[:start]):
        raise No(f"{where}: what comes before the commit is not a record_hash")
    if payload is not None:
        _check_payload(head, payload, where)
    return ": {} by '{}' at {}, lamport {}, content_hash {}{}".format(
        head["operation"], head["actor"], head["timestamp"], head["lamport"], head["content_hash"],
        "" if payload is None else ", and the payload is the one it speaks of",
    )  # fmt: skip


def _check_payload(head: dict[str, Any], payload: bytes, where: str) -> None:
    if sha256(payload).hexdigest() != head["content_hash"]:
        raise No(f"{where}: the payload is not the one of this commit")
    if commit_id(payload, head) != head["commit_id"]:
        raise No(f"{where}: commit_id does not match payload, lamport, actor and operation")


# -- the lines of a log

_HASH_KEY = b',"record_hash":"'
_PAYLOAD_KEY = b'","payload":'
_VERBS = frozenset(f"{verb}_{kind}" for verb in ("UPSERT", "DELETE", "REDACT") for kind in ("NODE", "EDGE"))
_HASH = re.compile("[0-9a-f]{64}")
_REQUIRED: dict[str, type] = {
    "actor": str, "commit_id": str, "content_hash": str, "lamport": int, "operation": str, "policy_version": str,
    "schema_version": str, "tenant": str, "timestamp": str, "tool": str,
}  # fmt: skip
_FIELDS = frozenset(_REQUIRED) | {"prev", "nonce", "batch", "group", "run_context", "reason", "redacts", "request"}


def read_head(data: bytes, where: str) -> dict[str, Any]:
    """The fields that record_hash covers, written in the one way in which they may be written."""
    try:
        head = json.loads(data.decode())
        if type(head) is not dict or not _is_head(head) or _canonical(head) != data:
            raise ValueError
    except (ValueError, RecursionError, TypeError):
        raise No(f"{where}: its fields are not those of a commit in canonical form") from None
    return head


def _canonical(head: dict[str, Any]) -> bytes:
    """RFC 8785, for what has no fractions in it."""
    for name in ("run_context", "redacts"):
        if name in head:
            inner = head[name]
            head[name] = {key: inner[key] for key in sorted(inner, key=lambda key: key.encode("utf-16-be"))}
    ordered = {key: head[key] for key in sorted(head)}
    return _encode(ordered).encode()


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def _is_head(head: dict[str, Any]) -> bool:
    for name, kind in _REQUIRED.items():
        if type(head.get(name)) is not kind:
            return False
    prev = head.get("prev", "")
    return (
        head.keys() <= _FIELDS
        and head["schema_version"] == "1"
        and head["operation"] in _VERBS
        and _is_count(head["lamport"])
        and _is_hash(head["commit_id"])
        and _is_hash(head["content_hash"])
        and (prev is None or _is_hash(prev))
        and (len(head) == 11 or _are_optional(head))
    )


def _are_optional(head: dict[str, Any]) -> bool:
    batch = head.get("batch", [1, 1])
    return (
        all(type(head.get(name, "")) is str for name in ("nonce", "reason"))
        and _is_hash(head.get("request", "0" * 64))
        and _is_count(head.get("group", 1))
        and type(batch) is list
        and len(batch) == 2
        and all(map(_is_count, batch))
        and all(_are_texts(head.get(name, {})) for name in ("run_context", "redacts"))
    )


def _is_count(value: object) -> bool:
    return type(value) is int and 1 <= value <= INTEGER_MAX


def _is_hash(value: object) -> bool:
    return type(value) is str and _HASH.fullmatch(value) is not None


def _are_texts(value: object) -> bool:
    return type(value) is dict and all(type(each) is str for each in value.values())


def commit_id(payload: bytes, head: dict[str, Any]) -> str:
    return sha256(payload + ("{}{}{}".format(head["lamport"], head["actor"], head["operation"])).encode()).hexdigest()


class Chain:
    """Reads a log line by line; raises No at the first that is false."""

    def __init__(self) -> None:
        self.count = 0
        self.lamport = 0
        self.record_hash = ""
        self._commit_id: str | None = None
        self._timestamp = ""
        self._tenant: str | None = None
        self._batch: tuple[int, int] | None = None
        self._masked: dict[int, tuple[str, str]] = {}
        """Lamport → SHA-256 of what is there in place of the payload, and where."""
        self._named: dict[int, str] = {}
        """Lamport → SHA-256 of what a redaction says is left."""

    def feed(self, line: bytes, where: str) -> None:
        at = line.find(_PAYLOAD_KEY + b"{")
        end = at - len(_HASH_KEY) - 64
        if end < 1 or not line.startswith(_HASH_KEY, end) or not line.endswith(b"}"):
            raise No(f"{where}: it is not a commit")
        data = line[:end] + b"}"
        head = read_head(data, where)
        self._check_place(head, where)
        record_hash = line[at - 64 : at].decode("latin-1")
        if sha256(self.record_hash.encode() + data).hexdigest() != record_hash:
            raise No(f"{where}: record_hash does not match its fields and the record before it")
        self._check_payload(head, line[at + len(_PAYLOAD_KEY) : -1], where)
        self._note_redactions(head, where)
        self.count += 1
        self.lamport, self.record_hash, self._commit_id = head["lamport"], record_hash, head["commit_id"]
        self._timestamp, self._tenant = head["timestamp"], head["tenant"]

    def _check_place(self, head: dict[str, Any], where: str) -> None:
        if head["lamport"] <= self.lamport:
            raise No("{}: lamport {} does not come after {}".format(where, head["lamport"], self.lamport))
        if head["prev"] != self._commit_id:
            raise No(f"{where}: prev does not name the commit before it")
        if head["timestamp"] < self._timestamp:
            raise No(f"{where}: its timestamp is before that of the last")
        if self._tenant not in (None, head["tenant"]):
            raise No("{}: it is of tenant '{}' in a log of '{}'".format(where, head["tenant"], self._tenant))
        part, whole = head.get("batch", (1, 1))
        before, expected = self._batch or (0, whole)
        if part != before + 1 or whole != expected or part > whole:
            raise No(f"{where}: it is {part} of a batch of {whole}, out of turn")
        self._batch = None if part == whole else (part, whole)

    def _check_payload(self, head: dict[str, Any], padded: bytes, where: str) -> None:
        payload = padded.rstrip(b" ")
        found = sha256(payload).hexdigest()
        if found != head["content_hash"]:
            self._masked[head["lamport"]] = found, where
        elif commit_id(payload, head) != head["commit_id"]:
            raise No(f"{where}: commit_id does not match payload, lamport, actor and operation")
        elif len(payload) != len(padded):
            raise No(f"{where}: spaces follow a payload that was never masked")

    def _note_redactions(self, head: dict[str, Any], where: str) -> None:
        redacts = head.get("redacts")
        if redacts and not head["operation"].startswith("REDACT_"):
            raise No("{}: {} cannot redact".format(where, head["operation"]))
        for text, left in (redacts or {}).items():
            if not re.fullmatch("[1-9][0-9]{0,15}", text) or int(text) >= head["lamport"]:
                raise No(f"{where}: it redacts '{text[:20]}', which is not a lamport before its own")
            self._named[int(text)] = left

    def finish(self) -> dict[int, str]:
        """Raises No for what only the end shows. Returns what redactions say is left of payloads found unmasked."""
        for lamport, (left, where) in self._masked.items():
            if lamport not in self._named:
                raise No(f"{where}: the payload does not match content_hash, and no redaction names it")
            if self._named[lamport] != left:
                raise No(f"{where}: what is left of the redacted payload is not what its redaction left")
        if self._batch is not None:
            raise No("at the end: commit {} of a batch of {} is the last".format(*self._batch))
        return {lamport: left for lamport, left in self._named.items() if lamport not in self._masked}


class Lines:
    """Every line of a log or an export, with its place."""

    def __init__(self, paths: Sequence[str], is_log: bool) -> None:
        self._paths = paths
        self._is_log = is_log
        self.is_stream = "-" in paths

    def read(self, end: int | None = None) -> Iterator[tuple[bytes, str, int, int | None]]:
        """Line, place, the offset behind it, and of the first line in a segment the number that this is named by."""
        offset = 0
        for path in self._paths:
            name = os.path.basename(path)
            file = sys.stdin.buffer if path == "-" else open(path, "rb")  # noqa: SIM115
            with file:
                for number, line in enumerate(_lines(file, name), 1):
                    offset += len(line)
                    where = f"{name}, line {number}"
                    if not line.endswith(b"\n") and self._is_log:
                        raise No(f"{where}: the line has no end")
                    text = line[:-1] if line.endswith(b"\n") else line
                    yield text, where, offset, int(name[:20]) if self._is_log and number == 1 else None
                    if end is not None and offset >= end:
                        return

    def size(self) -> int:
        return sum(os.path.getsize(path) for path in self._paths)

    def check_empty(self, lamport: int) -> None:
        for path in self._paths:
            name = os.path.basename(path)
            if not os.path.getsize(path) and (path != self._paths[-1] or int(name[:20]) <= lamport):
                raise No(f"{name}: it is empty, and commits lie behind it")


def _lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    while True:
        line = file.readline(LINE_BYTES_MAX + 1)
        if not line:
            return
        if len(line) > LINE_BYTES_MAX:
            raise No(f"{name}: a line is longer than {LINE_BYTES_MAX} bytes")
        yield line


def read_mark(path: str) -> dict[str, Any] | None:
    """The position that the log's writers acknowledged; None where none is kept."""
    raw = b""
    for _ in range(200):
        try:
            with open(path, "rb") as file:
                raw = file.read(513)
        except FileNotFoundError:
            return None
        body = raw[9:-1].rstrip(b" ")
        if raw == (b"%08x %s" % (zlib.crc32(body), body)).ljust(511) + b"\n":
            try:
                found: dict[str, Any] = json.loads(body.decode())
                kept = {name: found[name] for name in ("lamport", "count", "end", "record_hash")}
            except (ValueError, KeyError, TypeError):
                break
            if any(type(kept[name]) is not int for name in ("lamport", "count", "end")):
                break
            return kept
        time.sleep(0.0005)
    raise No(f"{path}: the kept position is unreadable")


def check_lines(lines: Lines, mark: str | None, known: dict[str, Checkpoint], tiles: TileCheck | None) -> str:
    """A whole log: each line, the checkpoints that it must contain, the tiles that were made of it."""
    witnessed = 0 if mark is None else _witnessed(os.path.dirname(mark))
    kept = None if mark is None else read_mark(mark)
    if mark is not None and kept is None and lines.size():
        raise No(f"{mark}: there are commits but no kept position: the end may have been cut off")
    chain, tree = Chain(), Tree()
    sizes = {each.size for each in known.values()}
    _compare(known, tree)
    offset, last = 0, ""
    for line, last, offset, segment in lines.read(kept["end"] if kept else None):  # noqa: B007
        before = chain.lamport
        chain.feed(line, last)
        if segment is not None and not before < segment <= chain.lamport:
            raise No(f"{last}: its segment is not named by what is in it")
        entry = bytes.fromhex(chain.record_hash)
        tree.add(leaf_hash(entry))
        if tiles is not None:
            tiles.add(entry)
        if tree.size in sizes:
            _compare(known, tree)
    unmasked = chain.finish()
    if kept is not None and mark is not None:
        _check_mark(kept, mark, chain, offset, lines, last)
    if chain.lamport < witnessed:
        raise No(
            f"the log ends at lamport {chain.lamport}, but a snapshot was made at {witnessed}: its end was cut off"
        )
    _check_unmasked(lines, unmasked)
    for name, checkpoint in known.items():
        if checkpoint.size > tree.size:
            raise No(
                f"{name}: it was signed over {checkpoint.size} commits, but there are {tree.size}: "
                "the end was cut off, or this is an old copy"
            )
    if tiles is not None:
        tiles.finish()
    return "{} commits up to lamport {}, record_hash {}".format(
        chain.count, chain.lamport, chain.record_hash or "(none)"
    )


def _witnessed(system: str) -> int:
    """The newest position that a snapshot beside the log is named for."""
    snapshots = os.path.join(system, "snapshots")
    names = os.listdir(snapshots) if os.path.isdir(snapshots) else []
    return max((int(name[:20]) for name in names if _SNAPSHOT.fullmatch(name)), default=0)


def _compare(known: dict[str, Checkpoint], tree: Tree) -> None:
    for name, checkpoint in known.items():
        if checkpoint.size == tree.size and checkpoint.root != tree.root():
            raise No(f"{name}: the first {tree.size} commits are not those that were signed")


def _check_mark(kept: dict[str, Any], mark: str, chain: Chain, offset: int, lines: Lines, last: str) -> None:
    if chain.count < kept["count"] or offset < kept["end"]:
        raise No("{}: the log ends at lamport {}, but {} was acknowledged".format(mark, chain.lamport, kept["lamport"]))
    there = (chain.lamport, chain.count, offset, chain.record_hash)
    if there != (kept["lamport"], kept["count"], kept["end"], kept["record_hash"]):
        raise No(f"{last}: the last commit is not the one that was acknowledged")
    deadline = time.monotonic() + 2.0
    while lines.size() > offset and read_mark(mark) == kept:
        # A writer acknowledges within moments what it has written.
        if time.monotonic() > deadline:
            raise No(f"behind {last}: bytes that nobody acknowledged")
        time.sleep(0.02)
    if lines.size() == offset:
        lines.check_empty(chain.lamport)


def _check_unmasked(lines: Lines, unmasked: dict[int, str]) -> None:
    """What a redaction names must be gone, unless it left everything as it was."""
    if unmasked and lines.is_stream:
        raise No("standard input cannot be read twice, which its redactions ask for: put it into a file")
    for line, where, _, _ in lines.read() if unmasked else ():
        head = re.search(rb'"content_hash":"([0-9a-f]{64})".*?,"lamport":([0-9]+),', line)
        left = unmasked.get(int(head[2])) if head else None
        if head and left is not None and left.encode() != head[1]:
            raise No(f"{where}: a redaction names it, but its payload is still there")


# -- tiles (C2SP tlog-tiles)

TILE = 256


def tile_path(level: str, number: int) -> str:
    digits = str(number)
    digits = digits.zfill(-(-len(digits) // 3) * 3)
    groups = [digits[at : at + 3] for at in range(0, len(digits), 3)]
    return os.path.join("tile", level, *["x" + group for group in groups[:-1]], groups[-1])


class TileCheck:
    """Compares the files with what the entries give. `whole`: each must be there, as far as the entries go."""

    def __init__(self, directory: str, whole: bool) -> None:
        self._directory = directory
        self._whole = whole
        self._size = 0
        self._levels: list[bytearray] = []
        self._entries = bytearray()
        self._widths: list[int] = []

    def add(self, entry: bytes) -> None:
        self._entries += len(entry).to_bytes(2, "big") + entry
        self._widths.append(len(self._entries))
        self._hash(0, leaf_hash(entry))
        self._size += 1
        if self._size % TILE == 0:
            self._compare_entries(self._size // TILE - 1)
            self._entries.clear()
            self._widths.clear()

    def finish(self) -> None:
        for level, tile in enumerate(self._levels):
            if tile:
                self._compare_hashes(level, self._size // TILE ** (level + 1))
        if self._entries:
            self._compare_entries(self._size // TILE)

    def _hash(self, level: int, found: bytes) -> None:
        if level == len(self._levels):
            self._levels.append(bytearray())
        tile = self._levels[level]
        tile += found
        if len(tile) == TILE * 32:
            self._compare_hashes(level, self._size // TILE ** (level + 1))
            self._hash(level + 1, _folded(bytes(tile)))
            tile.clear()

    def _compare_hashes(self, level: int, number: int) -> None:
        tile = self._levels[level]
        self._compare(str(level), number, bytes(tile), list(range(32, len(tile) + 1, 32)))

    def _compare_entries(self, number: int) -> None:
        self._compare("entries", number, bytes(self._entries), self._widths)

    def _compare(self, level: str, number: int, right: bytes, ends: Sequence[int]) -> None:
        """`ends`: where each hash or entry ends, by which a narrower file must be cut."""
        covered = False
        for name, width in _tile_files(self._directory, level, number):
            there = _read_file(os.path.join(self._directory, name), None)
            shown = min(width, len(ends))
            covered = covered or shown == len(ends)
            if there[: ends[shown - 1]] != right[: ends[shown - 1]]:
                raise No(f"{name}: it is not what the entries give")
            # Of a wider one the rest is not known, but how long it is.
            if len(there) != ends[width - 1] if width <= len(ends) else len(there) <= len(right):
                raise No(f"{name}: it has another length than its name says")
        if self._whole and not covered:
            raise No(f"{tile_path(level, number)}: it is missing")


def _tile_files(directory: str, level: str, number: int) -> Iterator[tuple[str, int]]:
    path = tile_path(level, number)
    if os.path.exists(os.path.join(directory, path)):
        yield path, TILE
    try:
        names = os.listdir(os.path.join(directory, path + ".p"))
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in sorted(names):
        if re.fullmatch("[1-9][0-9]{0,2}", name) and int(name) < TILE:
            yield os.path.join(path + ".p", name), int(name)


def _folded(hashes: bytes) -> bytes:
    found = [hashes[at : at + 32] for at in range(0, len(hashes), 32)]
    while len(found) > 1:
        found = [node_hash(found[at], found[at + 1]) for at in range(0, len(found), 2)]
    return found[0]


def check_tiles(directory: str, known: dict[str, Checkpoint]) -> str:
    """Without the log: the entries and the hashes that are published give the roots that were signed."""
    size = max(each.size for each in known.values())
    tree, tiles = Tree(), TileCheck(directory, whole=True)
    sizes = {each.size for each in known.values()}
    _compare(known, tree)
    for number in range(-(-size // TILE)):
        for entry in _entries(directory, number, min(TILE, size - number * TILE)):
            tree.add(leaf_hash(entry))
            tiles.add(entry)
            if tree.size in sizes:
                _compare(known, tree)
    tiles.finish()
    return f"{tree.size} entries in tiles"


def _entries(directory: str, number: int, width: int) -> Iterator[bytes]:
    wide = [name for name, there in _tile_files(directory, "entries", number) if there >= width]
    if not wide:
        raise No("{}: it is missing".format(tile_path("entries", number)))
    data, at = _read_file(os.path.join(directory, wide[0]), None), 0
    for _ in range(width):
        end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        if end > len(data) or at + 2 > len(data):
            raise No(f"{wide[0]}: it has fewer entries than its name says")
        yield data[at + 2 : end]
        at = end


# -- what was asked


def _read_file(path: str, most: int | None) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(-1 if most is None else most)
    except OSError as error:
        raise No(f"{path}: it cannot be read: {error.strerror}") from None


_SEGMENT = re.compile(r"[0-9]{20}\.jsonl")
_SNAPSHOT = re.compile(r"[0-9]{20}\.snapshot")


class Found(NamedTuple):
    """What lies in a directory."""

    log: str | None
    mark: str | None
    tiles: str | None


def look(directory: str) -> Found:
    if os.path.isdir(os.path.join(directory, "tile")):
        return Found(None, None, directory)
    for log in (os.path.join(directory, "_system", "log"), os.path.join(directory, "log"), directory):
        if os.path.isdir(log) and any(_SEGMENT.fullmatch(name) for name in os.listdir(log)):
            system = os.path.dirname(os.path.abspath(log))
            tiles = os.path.join(system, "tiles")
            return Found(log, os.path.join(system, "head"), tiles if os.path.isdir(tiles) else None)
    raise No(f"{directory}: there is neither a log nor tiles in it")


def _segments(log: str) -> list[str]:
    return [os.path.join(log, name) for name in sorted(os.listdir(log)) if _SEGMENT.fullmatch(name)]


def verify(asked: argparse.Namespace) -> str:
    """What was shown. Raises No."""
    keys = [key for path in asked.vkey for key in read_keys(_read_file(path, NOTE_BYTES_MAX).decode("utf-8"), path)]
    believed = Belief(keys, asked.quorum, asked.origin)
    known = {path: read_checkpoint(_read_file(path, NOTE_BYTES_MAX + 1), believed, path) for path in asked.checkpoint}
    if os.path.isdir(asked.what):
        return _verify_directory(look(asked.what), believed, known)
    start = b"" if asked.what == "-" else _read_file(asked.what, len(INCLUSION))
    if start == INCLUSION or start.startswith(CONSISTENCY):
        return _verify_proof(asked, believed, known)
    if start.startswith(b"{") and _is_receipt(_read_file(asked.what, 4 * NOTE_BYTES_MAX)):
        raise No(f"{asked.what}: a receipt: its .tlog-proof is checked here, itself by 'tallystick receipt verify'")
    _require_checkpoint(known, believed)
    return check_lines(Lines([asked.what], is_log=False), None, known, None)


def _is_receipt(data: bytes) -> bool:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and {"payload", "payloadType", "signatures"} <= found.keys()


def _verify_directory(found: Found, believed: Belief, known: dict[str, Checkpoint]) -> str:
    if found.tiles is not None:
        path = os.path.join(found.tiles, "checkpoint")
        if believed.keys and os.path.exists(path):
            known[path] = read_checkpoint(_read_file(path, NOTE_BYTES_MAX + 1), believed, path)
    _require_checkpoint(known, believed)
    if found.log is None and found.tiles is not None:
        if not known:
            raise No(f"{found.tiles}: tiles prove nothing without a checkpoint")
        return check_tiles(found.tiles, known)
    tiles = None if found.tiles is None else TileCheck(found.tiles, whole=False)
    return check_lines(Lines(_segments(found.log or ""), is_log=True), found.mark, known, tiles)


def _verify_proof(asked: argparse.Namespace, believed: Belief, known: dict[str, Checkpoint]) -> str:
    data = _read_file(asked.what, 4 * NOTE_BYTES_MAX + 1)
    if data.startswith(INCLUSION):
        payload = None if asked.payload is None else _read_file(asked.payload, LINE_BYTES_MAX)
        shown, new = check_inclusion(data, believed, asked.what, record_hash=asked.record_hash, payload=payload)
    elif asked.since is None:
        raise No(f"{asked.what}: it says that a log continues an older checkpoint: name that by --since")
    else:
        old = read_checkpoint(
            _read_file(asked.since, NOTE_BYTES_MAX + 1), Belief(believed.keys, 0, believed.origin), asked.since
        )
        shown, new = check_consistency(data, old, believed, asked.what)
    for name, other in known.items():
        if (other.origin, other.size) == (new.origin, new.size) and other.root != new.root:
            raise No(f"{name}: the same log signed another history of {new.size} commits")
    return shown


def _require_checkpoint(known: dict[str, Checkpoint], believed: Belief) -> None:
    if believed.keys and not known:
        raise No("there is no checkpoint to compare with: name one by --checkpoint")


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", metavar="PATH", help="a memory, an export, tiles or a proof")
    parser.add_argument("--vkey", metavar="FILE", action="append", default=[], help="keys that are believed")
    parser.add_argument("--checkpoint", metavar="FILE", action="append", default=[], help="what a log must contain")
    parser.add_argument("--since", metavar="FILE", help="the older checkpoint that a proof of consistency is about")
    parser.add_argument("--quorum", metavar="N", type=int, default=0, help="so many witnesses must have cosigned")
    parser.add_argument("--origin", metavar="NAME", help="whose log it is; by default the name of the key")
    parser.add_argument("--payload", metavar="FILE", help="what the commit of a proof is said to have written")
    parser.add_argument("--record-hash", metavar="HEX", help="the commit of a proof that does not carry it")
    parser.add_argument("--without-key", action="store_true", help="check the chain of a log alone, signed by nobody")
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    asked = parser.parse_args(words)
    if bool(asked.vkey) == asked.without_key:
        parser.error("name the keys that you believe by --vkey, or say --without-key")
    if asked.without_key and (asked.checkpoint or asked.since or asked.quorum):
        parser.error("a checkpoint says nothing without a key")
    if asked.record_hash is not None and not _is_hash(asked.record_hash):
        parser.error("a record_hash has 64 hexadecimal digits")
    return asked


def main(words: Sequence[str] | None = None) -> int:
    asked = _arguments(words)
    try:
        valid, text = True, verify(asked)
    except No as problem:
        valid, text = False, str(problem)
    except (OSError, UnicodeDecodeError) as error:
        valid, text = False, f"{asked.what}: it cannot be read: {error}"
    if valid and asked.without_key:
        text += " (the chain alone: nobody's signature was asked for, so an old or a rewritten copy looks the same)"
    shown = "".join(character if character.isprintable() else f"\\u{ord(character):04x}" for character in text)
    print(
        json.dumps({"valid": valid, "text": text}) if asked.json else "{}: {}".format("yes" if valid else "no", shown)
    )
    return 0 if valid else 1


if __name__ == "__main__":
    sys.exit(main())
