"""Laws of damage: whatever is done to the bytes of a log, it is refused by name and nothing is touched, or settled.

Refused: the error names file and line, and every byte on the disk is what it was. Settled:
only what may have been a torn end is set aside, byte for byte, and what was acknowledged is
there. Whatever a start from a snapshot does not read again is found by the proof.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from tallystick.commits import chain
from tallystick.engine.snapshots import Snapshots
from tallystick.errors import Corrupt
from tallystick.log import Head
from tallystick.log.files import FilesLog
from tallystick.log.head_file import encode_head
from tallystick.log.proof import prove
from tallystick.state.state import State
from tests.commits_by_hand import append, draft, node
from tests.promises import promise

WIDTHS = (2, 3, 5, 8, 13, 64, 300)

Harm = Callable[[bytes, int, int], bytes]
"""Bytes, where, how many of them."""

What = tuple[str, int, int]


def _junk(width: int) -> bytes:
    return (b'0"x}\n{,' * (width // 7 + 1))[:width]


HARMS: dict[str, Harm] = {
    "a bit is flipped": lambda data, at, width: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :],
    "a byte becomes a newline": lambda data, at, width: data[:at] + b"\n" + data[at + 1 :],
    "a digit is inserted": lambda data, at, width: data[:at] + b"0" + data[at:],
    "a byte is removed": lambda data, at, width: data[:at] + data[at + 1 :],
    "the end is cut off": lambda data, at, width: data[:at],
    "neighbours are swapped": lambda data, at, width: data[:at] + data[at : at + 2][::-1] + data[at + 2 :],
    "a newline is inserted": lambda data, at, width: data[:at] + b"\n" + data[at:],
    "a byte becomes NUL": lambda data, at, width: data[:at] + b"\0" + data[at + 1 :],
    "bytes become others": lambda data, at, width: data[:at] + _junk(width) + data[at + width :],
    "bytes are inserted": lambda data, at, width: data[:at] + _junk(width) + data[at:],
    "bytes are removed": lambda data, at, width: data[:at] + data[at + width :],
    "pieces are swapped": lambda data, at, width: (
        data[:at] + data[at + width : at + 2 * width] + data[at : at + width] + data[at + 2 * width :]
    ),
    "bytes are doubled": lambda data, at, width: data[: at + width] + data[at:],
    "the start is cut off": lambda data, at, width: data[at + 1 :],
    "a byte moves to the end": lambda data, at, width: data[:at] + data[at + 1 :] + data[at : at + 1],
    "a byte moves to the start": lambda data, at, width: data[at : at + 1] + data[:at] + data[at + 1 :],
}
"""Each at every position, with a width that changes from one to the next."""


def harms(data: bytes, places: range) -> Iterator[tuple[What, bytes]]:
    """What was done, and what is left."""
    for at in places:
        width = WIDTHS[at % len(WIDTHS)]
        for name, harm in HARMS.items():
            if (harmed := harm(data, at, width)) != data:
                yield (name, at, width), harmed


class Base:
    """A small log and what belongs to it, harmed again and again in one place."""

    def __init__(self, system: Path, *, snapshot: bool, mark: bool, segment_bytes_max: int = 1 << 20) -> None:
        self.system = system
        log = FilesLog(system, segment_bytes_max=segment_bytes_max)
        append(log, draft(node("a")))
        if snapshot:
            state = State(log.line)
            for entry in log.read(Head()):
                state.apply(entry.commit, entry.offset, entry.end)
            Snapshots(system / "snapshots").save(state.position, state.dump())
            self.covered = state.head.end
        else:
            self.covered = 0
        append(log, draft(node("b"), node("c", amount=1000)))
        self.has_mark = mark
        log.close()
        if not mark:
            (system / "head").unlink()
        self.sound = self._there = self.files()

    def files(self) -> dict[str, bytes]:
        """By hand: thousands of times."""
        found: dict[str, bytes] = {}
        for folder in ("", "log/", "snapshots/"):
            with suppress(FileNotFoundError), os.scandir(self.system / folder) as entries:
                for entry in entries:
                    if entry.is_file():
                        with open(entry.path, "rb") as file:
                            found[folder + entry.name] = file.read()
        return found

    def put(self, files: dict[str, bytes]) -> None:
        """Exactly these files."""
        there = self._there
        for name in there.keys() - files.keys():
            (self.system / name).unlink()
        for name, data in files.items():
            if there.get(name) != data:
                (self.system / name).write_bytes(data)
        self._there = files

    def segments(self) -> list[str]:
        return sorted(name for name in self.sound if name.endswith(".jsonl"))

    def check(self, harmed: dict[str, bytes], what: object) -> None:
        self.put(harmed)
        outcome = _start_and_write(self.system)
        if isinstance(outcome, Corrupt):
            assert {"file", "line"} <= outcome.details.keys(), (what, outcome.message)
            assert self.files() == harmed, f"{what}: touched, although it was refused: {outcome.message}"
            return
        self._there = self.files()
        if harmed != self.sound:
            self._check_settled(harmed, outcome, what)

    def _check_settled(self, harmed: dict[str, bytes], written: bytes, what: object) -> None:
        """It was started and written to: what was acknowledged is there, and nothing is lost of the rest."""
        before = b"".join(self.sound[name] for name in self.segments())
        damaged = b"".join(harmed.get(name, b"") for name in self.segments())
        after = self._there
        log = b"".join(data for name, data in sorted(after.items()) if name.endswith(".jsonl"))
        torn = b"".join(data for name, data in sorted(after.items()) if ".torn-" in name)
        kept = log.removesuffix(written)
        assert kept != log, what
        assert kept + torn == damaged, f"{what}: bytes are gone"
        if self.covered and kept[self.covered :] == before[self.covered :] and len(kept) == len(before):
            is_harmed = any(after[name].removesuffix(written) != self.sound[name] for name in self.segments())
            assert prove(self.system).sound is not is_harmed, f"{what}: found by nobody"
            return
        is_whole = before == kept if self.has_mark else before.startswith(kept)
        assert is_whole, f"{what}: a write was acknowledged on a log that is not sound"
        assert prove(self.system).sound, what


def _start_and_write(system: Path) -> bytes | Corrupt:
    """As a server does it: the lines of what was written and acknowledged, or why it was refused."""
    try:
        log = FilesLog(system)
    except Corrupt as error:
        return error
    try:
        state = Snapshots(system / "snapshots").begin(log, log.line)
        for entry in log.read(state.head):
            state.apply(entry.commit, entry.offset, entry.end)
        assert state.head == log.head()
        return b"".join(entry.line + b"\n" for entry in append(log, draft(node("after"))))
    except Corrupt as error:
        return error
    finally:
        log.close()


def _with(present: bool) -> str:
    return "with" if present else "without"


SHAPES = [
    pytest.param({"snapshot": snapshot, "mark": mark}, id=f"{_with(snapshot)}-snapshot-{_with(mark)}-mark")
    for snapshot, mark in itertools.product((False, True), repeat=2)
]
PARTS = 4
"""So that no test takes long, even where many run at once."""


@promise("L55, M37, every byte", "harm to any byte of a log is refused by file and line, or settled")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("shape", SHAPES)
def test_bytes_harmed_anywhere_are_refused_or_settled(tmp_path: Path, shape: dict[str, bool], part: int) -> None:
    base = Base(tmp_path, **shape)
    (segment,) = base.segments()
    sound = base.sound[segment]
    base.check(base.sound, "nothing was done")
    for what, data in harms(sound, range(part, len(sound), PARTS)):
        base.check({**base.sound, segment: data}, what)


def _moved(lines: list[bytes], one: int, other: int) -> list[bytes]:
    rest = lines[:one] + lines[one + 1 :]
    return [*rest[:other], lines[one], *rest[other:]]


LINES: dict[str, Callable[[list[bytes], int, int], list[bytes]]] = {
    "removed": lambda lines, one, other: [line for number, line in enumerate(lines) if number not in (one, other)],
    "doubled elsewhere": lambda lines, one, other: [*lines[:other], lines[one], *lines[other:]],
    "moved": _moved,
    "swapped": lambda lines, one, other: [
        lines[{one: other, other: one}.get(number, number)] for number in range(len(lines))
    ],
    "put in another's place": lambda lines, one, other: [*lines[:other], lines[one], *lines[other + 1 :]],
    "torn, whole lines behind it": lambda lines, one, other: [*lines[:one], lines[one][:-40], *lines[other:]],
}


@promise("L55, lines", "lines removed, doubled, moved or swapped are refused, and nothing is touched")
@pytest.mark.parametrize("what", LINES)
@pytest.mark.parametrize("shape", SHAPES)
def test_whole_lines_out_of_place_are_refused_or_settled(tmp_path: Path, shape: dict[str, bool], what: str) -> None:
    base = Base(tmp_path, **shape)
    (segment,) = base.segments()
    lines = base.sound[segment].splitlines(keepends=True)
    for one, other in itertools.product(range(len(lines)), repeat=2):
        data = b"".join(LINES[what](lines, one, other))
        base.check({**base.sound, segment: data}, (what, one, other))


@pytest.mark.parametrize("shape", SHAPES)
def test_what_lies_in_another_segment_than_it_should_is_refused_or_settled(
    tmp_path: Path, shape: dict[str, bool]
) -> None:
    """Every byte of the log is there, in order: only the names of the files tell."""
    base = Base(tmp_path, **shape, segment_bytes_max=1)
    one, other = base.segments()
    both = base.sound[one] + base.sound[other]
    base.check({**base.sound, one: base.sound[other], other: base.sound[one]}, "swapped")
    for border in range(0, len(both) + 1, 7):
        base.check({**base.sound, one: both[:border], other: both[border:]}, border)
    for at in (len(base.sound[one]) - 1, len(base.sound[one]) + 1):
        base.check({**base.sound, one: both[:at], other: both[at:]}, at)
    for name in (one, other):
        base.check({**base.sound, name: b""}, (name, "emptied"))
        base.check({key: data for key, data in base.sound.items() if key != name}, (name, "removed"))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_torn_end_on_a_harmed_log_is_left_as_it_is(tmp_path: Path, shape: dict[str, bool]) -> None:
    base = Base(tmp_path, **shape)
    (segment,) = base.segments()
    sound = base.sound[segment]
    for what, data in harms(sound, range(0, len(sound), 29)):
        base.check({**base.sound, segment: data + b'{"actor":"x'}, (*what, "torn"))
    base.check({**base.sound, segment: sound + b'{"actor":"x'}, "torn alone")


@pytest.mark.parametrize("snapshot", [False, True], ids=["without-snapshot", "with-snapshot"])
def test_the_mark_of_another_moment_or_log_is_refused_or_settled(tmp_path: Path, snapshot: bool) -> None:
    base = Base(tmp_path, snapshot=snapshot, mark=True)
    (segment,) = base.segments()
    first, _, _ = base.sound[segment].splitlines(keepends=True)
    kept = chain.decode(first[:-1])
    early = Head(1, 1, len(first), kept.record_hash, kept.commit_id, kept.timestamp)
    base.check({**base.sound, "head": encode_head(early)}, "of the first group")
    for what, head in {
        "inside a batch": msgspec.structs.replace(early, lamport=2, count=2, end=len(first) + 10),
        "of no line": msgspec.structs.replace(early, end=len(first) - 1),
        "of another log": msgspec.structs.replace(early, record_hash="0" * 64),
        "far ahead": msgspec.structs.replace(early, lamport=99, count=99, end=1 << 40),
        "one commit more": msgspec.structs.replace(early, count=2),
        "another time": msgspec.structs.replace(early, timestamp="2030-01-01T00:00:00.000Z"),
    }.items():
        harmed = {**base.sound, "head": encode_head(head)}
        base.check(harmed, what)
        assert base.files() == harmed, f"{what} was accepted"
