"""Redactions reach the stream: the message that holds a masked payload is replaced by a patch, and overwritten.

So are the blobs that only it named. Every copy has masked it by then, as it adopted the redaction. First the patch is
stored, then the message is erased: a crash in between leaves both, and whoever comes next erases. Any machine does all
of it, any number of times. The one that erases also clears the servers' Raft logs of it, and says what that waits for
before it begins: where nobody says so, nothing is left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from tallystick.commits import chain
from tallystick.extensions.cluster.catching_up import find_behind
from tallystick.extensions.cluster.clearing import Clearing, advance, begin, waits, without
from tallystick.extensions.cluster.contents import erase as erase_contents
from tallystick.extensions.cluster.contents import names_in, unnamed
from tallystick.extensions.cluster.copy import Copy
from tallystick.extensions.cluster.messages import Group, MachineStatus, group_of, is_foreign, read_group, regrouped
from tallystick.extensions.cluster.stream import ASK_SECONDS, Stream, Trust, WrongSequence
from tallystick.log.redaction_index import NEEDLE
from tallystick.log.unopened import Unopened, unopened
from tallystick.system.file_locks import locked
from tallystick.system.private_files import replace_file

_FILE = "stream.erasures"
_KEPT_MAX = 1_000
_NOTE = "redaction.pending"

Waits = dict[str, list[int]]
"""What redactions wait for → their lamports."""


class Erased(msgspec.Struct, frozen=True):
    """A redaction that the stream holds nothing of any more."""

    lamport: int
    message: int
    """The sequence that a machine must have adopted to have masked it."""


class _Kept(msgspec.Struct, frozen=True):
    end: int = 0
    """Redactions up to this offset were carried out."""
    erased: list[Erased] = []
    clearing: list[Clearing] = []
    """What this machine erased, until no server has it."""

    def waits(self) -> Waits:
        found: Waits = {}
        for each in self.clearing:
            for where, commits in waits(each).items():
                found[where] = sorted({*found.get(where, ()), *commits})
        return found


class Waiting(msgspec.Struct, frozen=True):
    where: str
    commits: list[int]


def carry_out(stream: Stream, copy: Copy, trust: Trust, say: Callable[[Waits], None]) -> Waits:
    """Those of which the stream may still hold something. Cheap where there are none. Returns what it waits for, and
    says it before anything is erased. Raises NoAnswer, Refused."""
    kept = _read(copy.system)
    if copy.log.head().end > kept.end and not (copy.system / _NOTE).exists():
        kept = _Run(stream, copy, trust, say, kept).carry_out()
    if kept.clearing:
        kept = _clear(stream, copy.system, trust)
    return kept.waits()


def pending(stream: Stream, system: Path, tenant: str) -> list[Waiting]:
    """What redactions wait for. Changes nothing. Raises NoAnswer, Refused."""
    kept = _read(system)
    with unopened(system) as log:
        lines = [line for _, line in log.segments.lines_with(NEEDLE, kept.end, log.end)]
    unseen = [commit.lamport for commit in map(chain.decode, lines) if commit.redacts]
    found = [Waiting(f"the stream '{stream.name}'", unseen)] if unseen else []
    return [*found, *_machines(stream, tenant, kept.erased)]


def note_destroyed(system: Path, server: str) -> bool:
    """What this server had stored is gone: nothing waits for it. False where nothing did."""
    with locked(system / f"{_FILE}.lock"):
        kept = _read(system)
        left = [without(each, server) for each in kept.clearing]
        if left != kept.clearing:
            _write(system, msgspec.structs.replace(kept, clearing=left))
        return left != kept.clearing


class _Run:
    """One look at the redactions that are new."""

    def __init__(self, stream: Stream, copy: Copy, trust: Trust, say: Callable[[Waits], None], kept: _Kept) -> None:
        self._stream = stream
        self._copy = copy
        self._trust = trust
        self._say = say
        self._kept = kept
        self._begun: set[str] = set()
        self._commits: list[int] = []

    def carry_out(self) -> _Kept:
        system = self._copy.system
        with unopened(system) as log:
            end = log.end
            found = [chain.decode(line) for _, line in log.segments.lines_with(NEEDLE, self._kept.end, end)]
            named = {commit.lamport: sorted(map(int, commit.redacts)) for commit in found if commit.redacts}
            self._commits = list(named)
            for lamport in sorted({each for lamports in named.values() for each in lamports}):
                self._erase(lamport, log)
        erased = [*self._kept.erased, *_noted(self._stream, list(named))] if named else self._kept.erased
        self._keep(end=end, erased=erased[-_KEPT_MAX:])
        return self._kept

    def _erase(self, lamport: int, log: Unopened) -> None:
        stream, tenant = self._stream, self._copy.tenant
        for group, is_patch in _holding(stream, tenant, lamport):
            lines = _lines_here(group, log)
            if lines == group.lines:
                continue
            self._begin(stream)
            if blobs := unnamed(log, names_in(group.lines)):
                self._begin(stream.contents)
                # Before the message, which is all that still names them.
                erase_contents(stream, tenant, blobs)
            _store_patch(stream, tenant, group, lines, group.sequence if is_patch else None)
            stream.erase(group.sequence)

    def _begin(self, stream: Stream) -> None:
        """It is kept and said first: a crash leaves one who asks with too much, not with too little."""
        if stream.name in self._begun:
            return
        clearing = begin(stream, self._commits, self._trust)
        if clearing is not None:
            self._keep(clearing=[*self._kept.clearing, clearing])
            self._say(self._kept.waits())
        self._begun.add(stream.name)

    def _keep(self, **changes: object) -> None:
        with locked(self._copy.system / f"{_FILE}.lock"):
            self._kept = msgspec.structs.replace(self._kept, **changes)
            _write(self._copy.system, self._kept)


def _clear(stream: Stream, system: Path, trust: Trust) -> _Kept:
    streams: Mapping[str, Stream] = {each.name: each for each in (stream, stream.contents)}
    with locked(system / f"{_FILE}.lock"):
        kept = _read(system)
        left = []
        for each in kept.clearing:
            further = advance(streams[each.stream], each, trust) if each.stream in streams else each
            left += [] if further is None else [further]
        if left != kept.clearing:
            kept = msgspec.structs.replace(kept, clearing=left)
            _write(system, kept)
        return kept


def _holding(stream: Stream, tenant: str, lamport: int) -> Iterator[tuple[Group, bool]]:
    """The message that has this commit, and patches that have it."""
    subject = stream.layout.log(tenant)
    found = stream.next_group(subject, find_behind(stream, subject, lamport - 1))
    group = None if found is None else group_of(found)
    if group is not None and group.after < lamport <= group.until:
        yield group, False
    patches = stream.layout.patches(tenant)
    newest = stream.last(patches)
    # The server that hands them out may be behind the leader.
    for message in [] if newest is None else list(stream.messages(patches, 0, through=newest.sequence)):
        if is_foreign(message):
            continue
        patch = read_group(message)
        if patch.after < lamport <= patch.until:
            yield patch, True


def _store_patch(stream: Stream, tenant: str, group: Group, lines: bytes, replaces: int | None) -> None:
    subject = stream.layout.patch(tenant, group.after)
    last = stream.last(subject)
    if last is not None and last.data == lines:
        return
    try:
        expected = replaces if replaces is not None else (last.sequence if last else 0)
        stream.publish(subject, lines, regrouped(group), seconds=ASK_SECONDS, expected=expected)
        if last is not None:
            stream.erase(last.sequence)
    except WrongSequence:
        """Another machine was faster: what it stored is what its copy says, which is the same."""


def _lines_here(group: Group, log: Unopened) -> bytes:
    first = chain.decode(group.lines[: group.lines.index(b"\n")]).lamport
    offset = log.segments.find([first])[first]
    return b"".join(line + b"\n" for _, line, _ in log.segments.lines(offset, offset + len(group.lines)))


def _noted(stream: Stream, lamports: list[int]) -> list[Erased]:
    # Whoever has adopted this has adopted the redactions before it.
    last = int((stream.info() or {}).get("state", {}).get("last_seq", 0))
    return [Erased(lamport, last) for lamport in lamports]


def _machines(stream: Stream, tenant: str, erased: list[Erased]) -> list[Waiting]:
    found = []
    for message in stream.machines():
        try:
            status = msgspec.json.decode(message.data, type=MachineStatus)
        except msgspec.MsgspecError:
            continue
        is_troubled = tenant in status.troubled
        behind = [each.lamport for each in erased if is_troubled or status.adopted < each.message]
        seen = max(0, round(time.time() - status.at))
        if behind:
            found.append(Waiting(f"the machine {status.machine}, last heard of {seen} s ago", behind))
        by = f"as the machine {status.machine} said {seen} s ago"
        waiting = status.erasing.get(tenant, {})
        found += [Waiting(f"{where} ({by})", commits) for where, commits in waiting.items()]
    return found


def _read(system: Path) -> _Kept:
    try:
        return msgspec.json.decode((system / _FILE).read_bytes(), type=_Kept)
    except (FileNotFoundError, msgspec.MsgspecError):
        # Done once more, which changes nothing.
        return _Kept()


def _write(system: Path, kept: _Kept) -> None:
    replace_file(system / _FILE, msgspec.json.encode(kept))
