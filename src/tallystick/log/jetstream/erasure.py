"""Redactions reach the stream: the message that holds a masked payload is replaced by a patch, and overwritten.

So are the blobs that only it named. Every copy has masked it by then, as it adopted the redaction. First the patch is
stored, then the message is erased: a crash in between leaves both, and whoever comes next erases. Any machine does all
of it, any number of times. The servers' Raft logs keep the bytes for some minutes more; their monitoring tells when
they are gone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tallystick.commits import chain
from tallystick.log.jetstream.catching_up import find_behind
from tallystick.log.jetstream.contents import erase as erase_contents
from tallystick.log.jetstream.contents import names_in, unnamed
from tallystick.log.jetstream.copy import Copy
from tallystick.log.jetstream.durability import raft_logs
from tallystick.log.jetstream.messages import Group, MachineStatus, group_of, read_group, regrouped
from tallystick.log.jetstream.stream import ASK_SECONDS, Stream, Trust, WrongSequence
from tallystick.log.redaction_index import NEEDLE
from tallystick.log.unopened import Unopened, unopened
from tallystick.private_files import replace_file

_FILE = "stream.erasures"
_KEPT_MAX = 1_000
_NOTE = "redaction.pending"
COMPACTED_SECONDS = 600.0
"""Twice what servers were seen to need, for when nobody may look."""


class Erased(msgspec.Struct, frozen=True):
    """A redaction that the stream holds nothing of any more."""

    lamport: int
    message: int
    """The sequence that a machine must have adopted to have masked it."""
    at: float
    raft: dict[str, int] | None
    """Server → the end of its Raft log then; None where nobody may look."""


class _Kept(msgspec.Struct, frozen=True):
    end: int = 0
    """Redactions up to this offset were carried out."""
    erased: list[Erased] = []


class Waiting(msgspec.Struct, frozen=True):
    where: str
    commits: list[int]


def carry_out(stream: Stream, copy: Copy, system: Path, trust: Trust) -> None:
    """Those of which the stream may still hold something. Cheap where there are none. Raises NoAnswer."""
    kept = _read(system)
    if copy.log.head().end <= kept.end or (system / _NOTE).exists():
        return
    with unopened(system) as log:
        end = log.end
        found = [chain.decode(line) for _, line in log.segments.lines_with(NEEDLE, kept.end, end)]
        named = {commit.lamport: sorted(map(int, commit.redacts)) for commit in found if commit.redacts}
        for lamport in sorted({each for lamports in named.values() for each in lamports}):
            _erase(stream, copy.tenant, lamport, log)
    erased = [*kept.erased, *_noted(stream, trust, list(named))] if named else kept.erased
    replace_file(system / _FILE, msgspec.json.encode(_Kept(end, erased[-_KEPT_MAX:])))


def pending(stream: Stream, system: Path, trust: Trust) -> list[Waiting]:
    """What redactions wait for. Changes nothing. Raises NoAnswer."""
    kept = _read(system)
    with unopened(system) as log:
        lines = [line for _, line in log.segments.lines_with(NEEDLE, kept.end, log.end)]
    unseen = [commit.lamport for commit in map(chain.decode, lines) if commit.redacts]
    found = [Waiting(f"the stream '{stream.name}'", unseen)] if unseen else []
    found += _machines(stream, kept.erased)
    return [*found, *_servers(stream, kept.erased, trust)]


def _erase(stream: Stream, tenant: str, lamport: int, log: Unopened) -> None:
    for group, is_patch in _holding(stream, tenant, lamport):
        lines = _lines_here(group, log)
        if lines == group.lines:
            continue
        # Before the message, which is all that still names them.
        erase_contents(stream, tenant, unnamed(log, names_in(group.lines)))
        _store_patch(stream, tenant, group, lines, group.sequence if is_patch else None)
        stream.erase(group.sequence)


def _holding(stream: Stream, tenant: str, lamport: int) -> Iterator[tuple[Group, bool]]:
    """The message that has this commit, and patches that have it."""
    subject = stream.layout.log(tenant)
    found = stream.next(subject, find_behind(stream, subject, lamport - 1))
    group = None if found is None else group_of(found)
    if group is not None and group.after < lamport <= group.until:
        yield group, False
    for message in list(stream.messages(stream.layout.patches(tenant), 0)):
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


def _noted(stream: Stream, trust: Trust, lamports: list[int]) -> list[Erased]:
    # Whoever has adopted this has adopted the redactions before it.
    state = (stream.info() or {}).get("state", {})
    logs = _raft_logs(stream, trust)
    raft = None if logs is None else {name: last for name, (_, last) in logs.items()}
    return [Erased(lamport, int(state.get("last_seq", 0)), time.time(), raft) for lamport in lamports]


def _machines(stream: Stream, erased: list[Erased]) -> list[Waiting]:
    found = []
    for message in stream.machines():
        try:
            status = msgspec.json.decode(message.data, type=MachineStatus)
        except msgspec.MsgspecError:
            continue
        behind = [each.lamport for each in erased if status.adopted < each.message]
        if behind:
            seen = max(0, round(time.time() - status.at))
            found.append(Waiting(f"the machine {status.machine}, last heard of {seen} s ago", behind))
    return found


def _servers(stream: Stream, erased: list[Erased], trust: Trust) -> list[Waiting]:
    now = _raft_logs(stream, trust) or {}
    found: dict[str, list[int]] = {}
    for each in erased:
        if each.raft is None:
            if time.time() - each.at < COMPACTED_SECONDS:
                found.setdefault("the Raft logs of the servers, which nobody here may look at", []).append(each.lamport)
            continue
        for server, last in each.raft.items():
            if server not in now:
                found.setdefault(f"the Raft log of server {server}, which does not answer", []).append(each.lamport)
            elif now[server][0] <= last:
                found.setdefault(f"the Raft log of server {server}", []).append(each.lamport)
    return [Waiting(where, lamports) for where, lamports in found.items()]


def _raft_logs(stream: Stream, trust: Trust) -> dict[str, tuple[int, int]] | None:
    """Also of the contents, where there are any."""
    logs = raft_logs(stream, trust.monitors)
    contents = raft_logs(stream.contents, trust.monitors) if logs else None
    return {**logs, **{f"{server} (contents)": each for server, each in (contents or {}).items()}} if logs else logs


def _read(system: Path) -> _Kept:
    try:
        return msgspec.json.decode((system / _FILE).read_bytes(), type=_Kept)
    except (FileNotFoundError, msgspec.MsgspecError):
        # Done once more, which changes nothing.
        return _Kept()
