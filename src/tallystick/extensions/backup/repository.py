"""The repository: one store with its keys. Pieces go in and come out verified; manifests are numbered without gaps.

What two machines may do at the same time: both put pieces (the same name is the same content), and both put manifest
n + 1, which the store gives to one. The other reads that one and goes on from there. A piece that no manifest names is
swept when it is an hour old, so a run that took longer looks whether its pieces are still there before it publishes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256

import msgspec

from tallystick.commits.signed_note import SignerKey, VerifierKey
from tallystick.errors import Corrupt, NotFound, StorageRefused
from tallystick.extensions.backup.encryption import MAGIC, SEALING_BYTES, BackupKeys, not_encrypted
from tallystick.extensions.backup.manifest import BYTES_MAX, Manifest, Piece, Signed, read_manifest, sign_manifest
from tallystick.extensions.backup.object_store import ObjectStore, Stored

_FENCE_BYTES_MAX = 64 << 10
ORPHAN_SECONDS = 3600.0
_MANIFESTS, _OBJECTS, _FENCES = "manifests", "objects", "fences"
_NUMBER = re.compile(r"[a-z]+/([0-9]{10}|[1-9][0-9]{10,})")


class Fence(msgspec.Struct, frozen=True):
    """Says that the memory is somewhere else from now on."""

    epoch: int
    at: str
    host: str
    memory: str
    stream: str = ""
    """Which memory of a stream was taken over; empty where its log was in files. One that is kept in another stream
    is not meant."""


class Repository:
    def __init__(self, store: ObjectStore, keys: BackupKeys, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.store = store
        self.keys = keys
        self.put_objects = 0
        self.put_bytes = 0
        self._known: set[str] = set()
        """Objects that are there: named by the manifest that we go on from, or put by us."""
        self.lost: set[str] = set()
        """Objects that the manifest names which we go on from, and that are gone from the store."""
        self._clock = clock
        self._began = clock()

    # -- pieces

    def go_on_from(self, manifest: Manifest | None) -> None:
        """What it names need not be put again, unless somebody removed it: a listing tells, and no content is read."""
        named = manifest.objects if manifest else set()
        there = self._listed() if named else set()
        self._known = {name for name in named if _object(name) in there}
        self.lost = named - self._known

    def missing_of(self, pieces: Iterable[Piece]) -> set[str]:
        """Those of their objects that are neither in the store nor were put."""
        return {piece.object for piece in pieces} - self._known

    def _listed(self) -> set[str]:
        return {stored.name for stored in self.store.list(_OBJECTS)}

    def put_piece(self, data: bytes) -> Piece:
        digest, key = sha256(data).hexdigest(), self.keys.newest
        named = digest if key is None else key.name_of(digest)
        piece = Piece(named, len(data), digest, key.id if key else None)
        if piece.object not in self._known:
            name = _object(piece.object)
            stored = self._sealed(name, data)
            if self.store.put(name, stored):
                self.put_objects, self.put_bytes = self.put_objects + 1, self.put_bytes + len(stored)
            self._known.add(piece.object)
        return piece

    def _sealed(self, name: str, data: bytes) -> bytes:
        key = self.keys.newest
        return data if key is None else key.seal(name, data)

    def get_piece(self, piece: Piece) -> bytes:
        """Raises NotFound, Corrupt where it is not what the manifest says or is not encrypted although there are keys,
        InvalidArgument without its key."""
        name = _object(piece.object)
        if piece.key is None and self.keys.newest:
            raise not_encrypted(name)
        data = self.store.get(name, bytes_max=piece.bytes + (SEALING_BYTES if piece.key else 0))
        if piece.key is not None:
            data = self.keys.find(piece.key).open(name, data)
        if len(data) != piece.bytes or sha256(data).hexdigest() != piece.sha256:
            raise Corrupt(
                f"{name} is not what the manifest says: it was altered or cut short",
                code="BACKUP_DAMAGED",
                hint="nothing was changed; take another backup: 'tallystick backup list'",
            )
        return data

    # -- manifests

    def numbers(self) -> list[int]:
        return sorted(self._numbered(_MANIFESTS))

    def read(self, number: int, keys: Sequence[VerifierKey] = (), *, is_believed: bool = True) -> Signed:
        """With encryption keys it must be encrypted; one that is not believed, and only to be removed, need not be."""
        name = _manifest(number)
        data = self.store.get(name, bytes_max=BYTES_MAX + SEALING_BYTES)
        is_plain = not is_believed and not data.startswith(MAGIC)
        found = read_manifest(data if is_plain else self.keys.open(name, data), name, keys)
        if found.manifest.number != number:
            raise Corrupt(
                f"{name} says that it is number {found.manifest.number}: it was moved there",
                code="MANIFEST_REFUSED",
                hint="nothing was changed; take another backup: 'tallystick backup list'",
            )
        return found

    def newest(self, keys: Sequence[VerifierKey] = ()) -> Signed | None:
        """One that goes while we look is no longer the newest."""
        while numbers := self.numbers():
            try:
                return self.read(numbers[-1], keys)
            except NotFound:
                continue
        return None

    def publish(self, manifest: Manifest, keys: Sequence[SignerKey]) -> bool:
        """False where another machine was first: read the newest, and go on from there."""
        if self._clock() - self._began > ORPHAN_SECONDS / 2:
            self._require_all(manifest)
        name = _manifest(manifest.number)
        signed = sign_manifest(manifest, keys)
        is_first = self.store.put(name, self._sealed(name, signed))
        # A store may take it and lose its answer: the library asks again, and finds its own.
        if not is_first and self._stored(name) != signed:
            return False
        if self.numbers()[-1] > manifest.number:
            # The number was free because what had it was expired already: others are further than we.
            self.store.delete(name)
            return False
        return True

    def _stored(self, name: str) -> bytes:
        try:
            return self.keys.open(name, self.store.get(name, bytes_max=BYTES_MAX + SEALING_BYTES))
        except (NotFound, Corrupt):
            return b""

    def _require_all(self, manifest: Manifest) -> None:
        there = self._listed()
        if any(_object(name) not in there for name in manifest.objects):
            raise StorageRefused(
                "pieces of this backup were swept while it was made: it took too long", code="STORE_REFUSED",
                hint="run it again: it goes on with what is there",
            )  # fmt: skip

    # -- removing

    def expire(self, numbers: Sequence[int], kept: Sequence[Manifest]) -> None:
        """Remove these backups, then what only they needed. A crash in between leaves pieces, which are swept."""
        needed = set().union(*(manifest.objects for manifest in kept)) if kept else set()
        for number in numbers:
            try:
                objects = self.read(number, is_believed=False).manifest.objects
            except (NotFound, Corrupt):
                objects = set()
            self.store.delete(_manifest(number))
            for name in sorted(objects - needed):
                self.store.delete(_object(name))

    def sweep(self, kept: Sequence[Manifest]) -> int:
        """Remove pieces that no backup names, left by runs that did not end. Lists everything. Returns what waits."""
        needed = {_object(name) for manifest in kept for name in manifest.objects}
        waiting = 0
        now = self._now()
        for stored in list(self.store.list(_OBJECTS)):
            if stored.name in needed:
                continue
            if now - stored.at > ORPHAN_SECONDS:
                self.store.delete(stored.name)
            else:
                waiting += 1
        return waiting

    def _now(self) -> float:
        """By the store's clock, as far as it told: ours may be another."""
        return max((stored.at for stored in self.store.list(_MANIFESTS)), default=0.0)

    # -- fences

    def fence(self) -> Fence | None:
        """The newest. Raises Corrupt where nobody can tell who took the memory over."""
        epoch = self.last_epoch()
        if not epoch:
            return None
        name = _fence(epoch)
        try:
            data = self.store.get(name, bytes_max=_FENCE_BYTES_MAX)
            return msgspec.json.decode(self.keys.open(name, data), type=Fence)
        except (msgspec.MsgspecError, Corrupt) as error:
            raise Corrupt(
                f"{name} in {self.store.url} cannot be read: {error}",
                code="BACKUP_DAMAGED",
                hint="somebody took this memory over, or damaged it: 'tallystick promote' with this address, on the "
                "machine that is to have the memory, puts a new one",
            ) from None

    def last_epoch(self) -> int:
        """Of the newest fence, whatever is in it; 0 where there is none."""
        return max(self._numbered(_FENCES), default=0)

    def put_fence(self, fence: Fence) -> bool:
        name = _fence(fence.epoch)
        return self.store.put(name, self._sealed(name, msgspec.json.encode(fence)))

    def _numbered(self, directory: str) -> dict[int, Stored]:
        found = ((_NUMBER.fullmatch(stored.name), stored) for stored in self.store.list(directory))
        return {int(match[1]): stored for match, stored in found if match}


def _object(digest: str) -> str:
    return f"{_OBJECTS}/{digest[:2]}/{digest}"


def _manifest(number: int) -> str:
    return f"{_MANIFESTS}/{number:010d}"


def _fence(epoch: int) -> str:
    return f"{_FENCES}/{epoch:010d}"
