"""The witnesses of our log: asked, after a checkpoint was signed, to cosign it (C2SP tlog-witness).

A witness that does not answer holds nothing up for long and breaks nothing: the checkpoint stands without it, and is
asked for again. What a witness says is a stranger's: only a cosignature by the key that we know is kept.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from tallystick.commits.signed_note import (
    NOTE_BYTES_MAX,
    QUANTUM_KEY,
    WITNESS_KEY,
    NoteRefused,
    VerifierKey,
    decode_size,
    parse_note,
    verifier_key,
)
from tallystick.commits.tree import consistency_proof
from tallystick.errors import InvalidArgument, TallystickError
from tallystick.extensions.proofs.tiles import Tiles
from tallystick.extensions.proofs.witness_request import encode_request
from tallystick.log import tree_directory

TIMEOUT_SECONDS = 5.0
_AT_ONCE = 8

logger = logging.getLogger(__name__)


class WitnessAddress(msgspec.Struct, frozen=True):
    key: VerifierKey
    url: str


class Reply(msgspec.Struct, frozen=True):
    status: int
    body: bytes


Post = Callable[[str, bytes], Reply]
"""To this address, this body. Raises TallystickError where nobody answers."""


class Asked(msgspec.Struct, frozen=True):
    """What came of asking one witness."""

    witness: str
    lines: str = ""
    problem: str | None = None


def parse_witnesses(written: Sequence[str]) -> tuple[WitnessAddress, ...]:
    """Each is a verifier key and an address, with a space between. Raises InvalidArgument."""
    return tuple(map(_parse, written))


def _parse(written: str) -> WitnessAddress:
    key, _, url = written.strip().partition(" ")
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise _invalid(f"'{written[:60]}' names no address", "VERIFIER-KEY http://HOST:PORT for each of the witnesses")
    try:
        found = verifier_key(key)
    except NoteRefused as error:
        raise _invalid(error.message, "a witness prints its verifier key when it starts") from None
    if found.algorithm not in (WITNESS_KEY, QUANTUM_KEY):
        raise _invalid(f"the key of '{found.name}' is not that of a witness", "it begins with B behind the last plus")
    return WitnessAddress(found, url.strip().rstrip("/"))


def _invalid(problem: str, hint: str) -> InvalidArgument:
    return InvalidArgument(f"witnesses: {problem}", code="SETTING_INVALID", hint=hint)


class Witnesses:
    """Asked one checkpoint at a time; each other than the others at the same time."""

    def __init__(self, addresses: Sequence[WitnessAddress], post: Post | None = None) -> None:
        self._addresses = addresses
        self._post = post or post_over_http
        self._seen: dict[str, int] = {}
        """By address: the size that it saw last, as far as we know. A wrong one costs a question more."""

    @property
    def keys(self) -> list[VerifierKey]:
        return [each.key for each in self._addresses]

    def ask(self, home: Path, text: str, size: int, note: bytes) -> list[Asked]:
        """For those cosignatures that the note lacks. Never raises."""
        has = {str(key) for key in parse_note(note).signers(self.keys)}
        missing = [each for each in self._addresses if str(each.key) not in has]
        if not missing:
            return []
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            return list(threads.map(lambda each: self._ask_one(each, home, text, size, note), missing))

    def _ask_one(self, address: WitnessAddress, home: Path, text: str, size: int, note: bytes) -> Asked:
        try:
            return Asked(address.key.name, self._lines(address, home, text, size, note))
        except TallystickError as error:
            return Asked(address.key.name, problem=error.message)
        except Exception:
            logger.exception("the witness %s could not be asked", address.key.name)
            return Asked(address.key.name, problem="it could not be asked, by a bug of ours")

    def _lines(self, address: WitnessAddress, home: Path, text: str, size: int, note: bytes) -> str:
        subtree = Tiles(tree_directory(home), size).subtree
        old = min(self._seen.get(address.url, 0), size)
        for _ in range(2):
            request = encode_request(old, consistency_proof(old, size, subtree), note)
            reply = self._post(f"{address.url}/add-checkpoint", request)
            if reply.status != 409:
                break
            old = _size(reply.body)
            if old > size:
                raise InvalidArgument(f"it has seen {old} commits of this log, which has {size}: commits were lost")
        if reply.status != 200:
            said = reply.body[:200].decode("utf-8", "replace").strip()
            raise InvalidArgument(f"it answered {reply.status}: {said}")
        self._seen[address.url] = size
        return _cosignature(address.key, text, reply.body)


def _size(body: bytes) -> int:
    return decode_size(body.decode("ascii", "replace").strip())


def _cosignature(key: VerifierKey, text: str, body: bytes) -> str:
    """Those lines of an answer that are of this key, and hold. Raises NoteRefused."""
    answered = parse_note(f"{text}\n".encode() + body)
    if not answered.signers([key]):
        raise NoteRefused("its answer has no cosignature of the key that is known for it")
    lines = body.decode().splitlines(keepends=True)
    signed = zip(lines, answered.signatures, strict=True)
    return next(line for line, (name, key_id, _) in signed if (name, key_id) == (key.name, key.id))


def post_over_http(url: str, body: bytes) -> Reply:
    import httpx2

    try:
        with (
            httpx2.Client(timeout=TIMEOUT_SECONDS, trust_env=False, follow_redirects=False) as http,
            http.stream("POST", url, content=body) as answer,
        ):
            said = b""
            for part in answer.iter_bytes():
                said += part
                if len(said) > NOTE_BYTES_MAX:
                    raise InvalidArgument("its answer is too long")
            return Reply(answer.status_code, said)
    except httpx2.HTTPError as error:
        raise InvalidArgument(f"it does not answer: {type(error).__name__}") from None
