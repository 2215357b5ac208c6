"""The copy: a tenant's part of the stream as a files log on this machine.

It holds the same bytes as every other copy, so all that reads a files log reads it. It is not synced
group by group: the stream answers for what a power cut takes. `stream.synced` says how far it was synced
and in which boot of the machine; after another boot it goes back to there and fetches the rest again.
`stream` says which message ends at the mark; it may lag behind the mark, never lead it.
"""

from __future__ import annotations

import logging
import os
import socket
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain as chain_of
from pathlib import Path

import msgspec

from tallystick.commits import chain
from tallystick.errors import Corrupt, InvalidArgument
from tallystick.extensions.cluster.contents import named_by, names_in, remove_unnamed
from tallystick.extensions.cluster.messages import Group, entries_of, group_lines
from tallystick.log import Entry, Head, head_after
from tallystick.log.files import FilesLog
from tallystick.log.head_file import encode_head
from tallystick.log.recovery import set_back
from tallystick.log.restore import restore
from tallystick.log.unopened import COPY_MARK, unopened
from tallystick.system.file_locks import locked
from tallystick.system.private_files import make_directory, replace_file, sync_directory
from tallystick.telemetry import metrics

_PLACE = "stream"
_PLACE_BYTES = 128
_FILLING = "stream.lock"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

Patch = Callable[[int], Group | None]
"""The group that follows on a lamport, as a redaction left it; None where no redaction touched it."""

Fetch = Callable[[bytes], None]
"""Have the contents that these lines name."""

logger = logging.getLogger(__name__)


class Unexplained(Corrupt):
    """A masked payload, whose redaction was not among what was to be adopted with it."""


class Synced(msgspec.Struct, frozen=True):
    """How far a copy would survive a power cut."""

    memory: str
    """Which memory it is a copy of: the stream has the same name for it."""
    stream: str
    boot: str
    head: Head = Head()


class Copy:
    """For one thread at a time, as a files log is; `log.claim` keeps others out."""

    def __init__(self, system: Path, tenant: str, *, memory: str | None, stream: str, segment_bytes_max: int) -> None:
        """`memory` is None while the stream cannot be asked. Raises InvalidArgument for a log of something else."""
        self.tenant = tenant
        self.system = system
        self._stream = stream
        make_directory(system)
        self._memory = _prepare(system, memory, stream)
        self.log = FilesLog(system, segment_bytes_max=segment_bytes_max, syncs=False)
        self._place = os.open(system / _PLACE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def close(self) -> None:
        os.close(self._place)
        self.log.close()

    def require_memory(self, memory: str) -> None:
        """Raises InvalidArgument unless it is a copy of this one."""
        if memory != self._memory:
            raise _differing(self.system, self._memory, memory, self._stream)

    # -- under the claim

    def sequence(self) -> int | None:
        """Of the message that ends at the mark; None where that is not known."""
        known = self._known()
        return known[0] if known is not None and known[1] == self.log.head().record_hash else None

    def last_known_sequence(self) -> int:
        """Of a message that ends at the mark or before it."""
        known = self._known()
        return known[0] if known is not None else 0

    def note(self, sequence: int) -> None:
        """The message of this sequence ends at the mark."""
        said = f"{sequence} {self.log.head().record_hash}\n"
        os.pwrite(self._place, said.encode().ljust(_PLACE_BYTES), 0)

    def append(self, entries: Sequence[Entry], expected: Head, sequence: int) -> Head:
        """What the stream holds already."""
        redacted = {int(lamport) for entry in entries for lamport in entry.commit.redacts or ()}
        blobs = named_by(self.system, redacted, group_lines(entries)) if redacted else set()
        head = self.log.append(entries, expected=expected)
        self.note(sequence)
        # A crash before this leaves it to the views, which remove what they saw named.
        remove_unnamed(self.system, blobs)
        return head

    def adopt(self, groups: Iterable[Group], patch: Patch, fetch: Fetch) -> None:
        """Append what is not there yet. Raises Corrupt where the groups do not continue what is there."""
        held: list[Entry] = []
        """Masked by a redaction that is still to come: nobody may see them before it is there."""
        head = self.log.head()
        for group in _joined(groups, head, patch):
            entries, is_intact = entries_of(group, head, self.tenant)
            fetch(group.lines)
            head = head_after(entries, head)
            is_intact = is_intact and not held
            held += entries
            if is_intact or not _unexplained(held):
                self.append(held, self.log.head(), group.sequence)
                metrics.STREAM_ADOPTED.add(by=len(held))
                held = []
        if held:
            raise Unexplained(f"no redaction in the stream explains what is masked at lamport {_unexplained(held)[0]}")

    def sync(self) -> None:
        """Raises OSError."""
        since = _read_synced(self.system)
        head = self.log.sync(since.head if since else Head())
        _write_synced(self.system, Synced(self._memory, self._stream, boot_id(), head))

    def _known(self) -> tuple[int, str] | None:
        said = os.pread(self._place, _PLACE_BYTES, 0).decode("ascii", "replace").split()
        return (int(said[0]), said[1]) if len(said) == 2 and said[0].isdecimal() else None


def is_empty(system: Path) -> bool:
    return not (system / "head").exists()


def fill(
    system: Path,
    tenant: str,
    groups: Iterable[Group],
    patch: Patch,
    fetch: Fetch,
    *,
    memory: str,
    stream: str,
    segment_bytes_max: int,
) -> None:
    """A first copy: built beside and moved into place, so that nobody reads what a later redaction has masked."""
    first = next(iter(groups := iter(groups)), None)
    if first is None:
        return
    make_directory(system)
    _prepare(system, memory, stream)

    fetched: set[str] = set()

    def entries() -> Iterator[list[Entry]]:
        head = Head()
        for group in _joined(chain_of((first,), groups), head, patch):
            found, _ = entries_of(group, head, tenant)
            fetch(group.lines)
            fetched.update(names_in(group.lines))
            head = head_after(found, head)
            metrics.STREAM_ADOPTED.add(by=len(found))
            yield found

    def require_empty(head: Head) -> None:
        if head != Head():
            raise _Filled

    # Both who opens a log and who follows fill an empty copy: the second waits for the first.
    with suppress(_Filled), locked(system / _FILLING):
        head = restore(system, entries(), segment_bytes_max=segment_bytes_max, require_empty=require_empty)
        # What a later redaction masked was fetched with the rest.
        remove_unnamed(system, fetched)
        _write_synced(system, Synced(memory, stream, boot_id(), head))


class _Filled(Exception):
    pass


def _joined(groups: Iterable[Group], head: Head, patch: Patch) -> Iterator[Group]:
    """Those that lead on from `head`, with patches where redactions took messages away."""
    lamport, record_hash = head.lamport, head.record_hash
    for group in groups:
        if group.after < lamport and not _holds(group, record_hash):
            # A repeat, or one that lost a race: the first that continued the chain is the one that counts.
            metrics.STREAM_SKIPPED.add()
            continue
        if group.until <= lamport:
            continue
        while group.after > lamport:
            patched = patch(lamport)
            if patched is None or patched.until <= lamport:
                raise Corrupt(
                    f"the stream has nothing that follows lamport {lamport}; the next is a group after {group.after}",
                    hint="messages were deleted from the stream; restore them, or this machine, from a backup",
                )
            yield patched
            lamport, record_hash = patched.until, patched.after_hash
        if group.after == lamport and group.before_hash != record_hash:
            raise Corrupt(
                f"message {group.sequence} of the stream follows another commit of lamport {lamport} than the one here",
                hint="this base is a copy of another memory, or its stream was replaced: nothing was changed;"
                " start with an empty base, or 'tallystick migrate' what is here",
                code="LOG_DIVERGED",
            )
        yield group
        lamport, record_hash = group.until, group.after_hash


def _holds(group: Group, record_hash: str) -> bool:
    """Whether one of its commits is this one: then a process was killed here while it wrote the group."""
    return f',"record_hash":"{record_hash}"'.encode() in group.lines


def _unexplained(entries: Sequence[Entry]) -> list[int]:
    named: dict[int, str] = {}
    for entry in entries:
        named |= {int(lamport): left for lamport, left in (entry.commit.redacts or {}).items()}
    return [
        entry.commit.lamport
        for entry in entries
        if not chain.is_committed(entry.line, entry.commit)
        and named.get(entry.commit.lamport) != chain.content_hash(entry.commit.payload)
    ]


# -- which boot, which memory


@cache
def boot_id() -> str:
    """Another one after each start of the machine; where that cannot be told, after each start of the process."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return uuid.uuid4().hex


def machine_id(base: Path) -> str:
    """Of the machine that this base is the memory of: random, made at its first use, with its name before it."""
    path = base / "_system" / "machine"
    make_directory(path.parent)
    with locked(path.with_suffix(".lock")):
        if not path.exists():
            name = "".join(each if each.isascii() and each.isalnum() else "-" for each in socket.gethostname())[:32]
            replace_file(path, f"{name or 'machine'}-{uuid.uuid4().hex[:8]}".encode())
        return path.read_text().strip()


def _prepare(system: Path, memory: str | None, stream: str) -> str:
    """Take what lies there for a copy only if it is one of this memory; after another boot trust what was synced.
    Returns which memory it is of."""
    with locked(system / "lock"):
        synced = _read_synced(system)
        if synced is None:
            if not is_empty(system) or memory is None:
                raise InvalidArgument(
                    f"{system} holds a log of its own, which is not in the stream '{stream}'",
                    code="LOG_NOT_MIGRATED",
                    hint="'tallystick migrate --to nats://…' takes it there; or choose another base with --base",
                )
            synced = Synced(memory, stream, boot_id())
            _write_synced(system, synced)
        if memory is not None and synced.memory != memory and synced.stream == stream:
            raise _differing(system, synced.memory, memory, stream)
        if synced.stream != stream:
            # Moved, as the settings say; whether the other one continues what is here is for the chain to tell.
            (system / _PLACE).unlink(missing_ok=True)
        if synced.boot != boot_id():
            _go_back(system, synced.head)
        kept = Synced(memory or synced.memory, stream, boot_id(), synced.head)
        if kept != synced:
            _write_synced(system, kept)
        return kept.memory


def memory_of(system: Path) -> str:
    """Of the stream that this is a copy of; empty for a log of its own."""
    synced = _read_synced(system)
    return synced.memory if synced else ""


def open_followed(system: Path, *, segment_bytes_max: int) -> FilesLog:
    """A copy that another process keeps up to date, for reading; it syncs what is written once it is promoted."""
    synced = _read_synced(system)
    if synced is not None:
        _prepare(system, None, synced.stream)
    return FilesLog(system, segment_bytes_max=segment_bytes_max)


def mark_copy(system: Path, *, memory: str, stream: str, head: Head) -> None:
    """From now on what lies there is a copy of this stream; all of it is durable."""
    (system / _PLACE).unlink(missing_ok=True)
    _write_synced(system, Synced(memory, stream, boot_id(), head))


def mark_restored(system: Path, *, memory: str, stream: str) -> None:
    """The same of a log that was restored from a backup, where it was synced."""
    with unopened(system) as log:
        mark_copy(system, memory=memory, stream=stream, head=log.head)


def unmark_copy(system: Path) -> None:
    """From now on it is a log of its own again."""
    (system / _PLACE).unlink(missing_ok=True)
    (system / COPY_MARK).unlink(missing_ok=True)
    sync_directory(system)


def _differing(system: Path, here: str, there: str, stream: str) -> InvalidArgument:
    return InvalidArgument(
        f"{system} is a copy of memory {here}, and the stream '{stream}' holds memory {there}",
        code="LOG_DIVERGED",
        hint="check log_url; for another memory choose another base. Nothing was changed",
    )


def _go_back(system: Path, head: Head) -> None:
    """What was not synced before the machine went down may be anything: the stream has it."""
    # It may tell of a message that ended behind there: whoever looked for the rest from it would miss some.
    (system / _PLACE).unlink(missing_ok=True)
    set_back(system / "log", head)
    replace_file(system / "head", encode_head(head))
    for snapshot in (system / "snapshots").glob("*.snapshot"):
        if snapshot.stem.isdecimal() and int(snapshot.stem) > head.lamport:
            snapshot.unlink(missing_ok=True)


def _read_synced(system: Path) -> Synced | None:
    try:
        return msgspec.json.decode((system / COPY_MARK).read_bytes(), type=Synced)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise Corrupt(
            f"{system / COPY_MARK} cannot be read: {error}",
            hint="this copy can be made anew: stop the servers of this base, move the directory away and start again",
        ) from error


def _write_synced(system: Path, synced: Synced) -> None:
    replace_file(system / COPY_MARK, msgspec.json.encode(synced))
