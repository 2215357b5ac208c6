"""Bases whose files were harmed, shown to verify, doctor and a writer: run as a program, so that a hang can be ended.

    python -m tests.fuzz.damaged_bases DIRECTORY FIRST LAST

The first cases are every harm to every kind of file, the others chance. Prints each before it
begins; leaves with 0 when every one ended as it may.
"""

from __future__ import annotations

import asyncio
import faulthandler
import itertools
import logging
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tallystick import app
from tallystick.audit import encode
from tallystick.audit.files import AuditFiles
from tallystick.errors import Corrupt, TallystickError
from tallystick.log.proof import prove
from tallystick.operations.snapshot import take_snapshot
from tests.command_line import CommandLine, node
from tests.test_audit import decided
from torture.writer import settled

CASE_SECONDS_MAX = 60
Harm = Callable[[random.Random, Path], object]
"""Done to a file or to a base; what is worth telling of it."""


def made(base: Path) -> None:
    """Something of everything that a start, a proof and an examination look at."""
    shell = CommandLine(base)
    for number in range(6):
        shell.write(node(f"n{number}", number=number), node(f"m{number}"))
        if number == 2:
            asyncio.run(take_snapshot(app.operation_context(settled(base))))
    trail = AuditFiles(base / "_system" / "audit", file_bytes_max=300)
    for number in range(3):
        trail.append([encode(decided(f"n{number}"))])
    trail.close()


def files(base: Path) -> list[Path]:
    places = ("head", "lock", "log/*", "snapshots/*", "audit/*")
    return sorted(path for place in places for path in (base / "_system").glob(place) if path.is_file())


def _emptied(chance: random.Random, path: Path) -> object:
    path.write_bytes(b"")
    return None


def _removed(chance: random.Random, path: Path) -> object:
    path.unlink()
    return None


def _cut(chance: random.Random, path: Path) -> object:
    size = chance.randrange(path.stat().st_size + 1)
    os.truncate(path, size)
    return size


def _lengthened(chance: random.Random, path: Path) -> object:
    data = path.read_bytes()
    at = chance.randrange(len(data) + 1)
    path.write_bytes(data[:at] + chance.choice([b"0", b"\n", b"{}\n", bytes(600), data]) + data[at:])
    return at


def _garbled(chance: random.Random, path: Path) -> object:
    path.write_bytes(chance.choice([chance.randbytes(700), b"{}\n", b"\n" * 50, bytes(512), b"9" * 3_000]))
    return None


def _swapped(chance: random.Random, path: Path) -> object:
    other = chance.choice([each for each in path.parent.iterdir() if each.is_file()])
    first, second = path.read_bytes(), other.read_bytes()
    path.write_bytes(second)
    other.write_bytes(first)
    return other.name


def _a_directory(chance: random.Random, path: Path) -> object:
    path.unlink()
    path.mkdir()
    return None


def _leads_nowhere(chance: random.Random, path: Path) -> object:
    path.unlink()
    path.symlink_to(chance.choice([path.name, "nothing"]))
    return None


def _a_pipe(chance: random.Random, path: Path) -> object:
    path.unlink()
    os.mkfifo(path)
    return None


def _a_stranger(chance: random.Random, base: Path) -> object:
    names = (
        *(f"{number:020d}.jsonl" for number in (0, 2, 7, 14, 99)),
        *(f"{number:020d}.snapshot" for number in (1, 99)),
        "1.jsonl", "notes.txt", "redaction.pending", "redaction.new", "head.new", "next", ".new-1",
    )  # fmt: skip
    path = base / "_system" / chance.choice(["", "log", "snapshots", "audit"]) / chance.choice(names)
    if path.parent.is_dir() and not os.path.lexists(path):
        if chance.random() < 0.2:
            path.mkdir()
        else:
            path.write_bytes(chance.choice([b"", b"not ours\n", b'{"lamport":1,"masks":{"0":"e30="}}']))
    return str(path.relative_to(base))


def _no_folder(chance: random.Random, base: Path) -> object:
    path = base / "_system" / chance.choice(["log", "snapshots", "audit"])
    if path.is_dir():
        shutil.rmtree(path)
        if chance.random() < 0.5:
            path.write_bytes(b"a file")
    return path.name


OF_FILES: tuple[Harm, ...] = (
    _emptied, _removed, _cut, _lengthened, _garbled, _swapped, _a_directory, _leads_nowhere, _a_pipe,
)  # fmt: skip
OF_BASES: tuple[Harm, ...] = (_a_stranger, _no_folder)


def each_kind(base: Path) -> Iterator[list[tuple[Harm, str]]]:
    """Every harm to every kind of file, once."""
    seen = {"".join(each for each in str(path) if not each.isdigit()): path for path in files(base)}
    for harm, path in itertools.product(OF_FILES, seen.values()):
        yield [(harm, str(path.relative_to(base)))]


def some(base: Path, number: int) -> list[tuple[Harm, str]]:
    chance = random.Random(number)
    there = [str(path.relative_to(base)) for path in files(base)]
    harms = chance.choices((*OF_FILES, *OF_BASES, *OF_BASES), k=chance.choice([1, 1, 2, 3]))
    return [(harm, "" if harm in OF_BASES else chance.choice(there)) for harm in harms]


def truth(base: Path) -> dict[str, object]:
    """What the log is made of, as it lies there."""
    system = base / "_system"
    return {
        str(path.relative_to(base)): os.readlink(path) if path.is_symlink() else path.read_bytes()
        for path in sorted((*system.glob("head*"), *system.glob("log/*")))
        if path.is_symlink() or path.is_file()
    }


def judge(base: Path) -> str:
    shell = CommandLine(base)
    before = truth(base)
    told = [_told(shell, "verify", "--no-blobs"), _told(shell, "doctor")]
    assert truth(base) == before, "looking at it changed it"
    has_snapshot = any((base / "_system" / "snapshots").glob("*.snapshot"))
    refused = _refused(shell)
    if isinstance(refused, Corrupt):
        assert truth(base) == before, f"refused, and yet changed: {refused.message}"
        assert refused.details.get("file"), refused.message
    if refused is not None:
        return f"{told}, refused: {refused.message}"
    proof = prove(base / "_system")
    assert proof.sound or has_snapshot, f"written to, and false: {proof.problem}"
    return f"{told}, written to"


def _refused(shell: CommandLine) -> TallystickError | None:
    try:
        shell.write(node("after"))
    except TallystickError as error:
        return error
    return None


def _told(shell: CommandLine, *words: str) -> object:
    try:
        return shell.run(*words).code
    except TallystickError as error:
        return error.code


def main(directory: Path, first: int, last: int) -> None:
    logging.disable(logging.CRITICAL)
    os.environ["TALLYSTICK_SEGMENT_BYTES_MAX"] = "2000"
    sound = directory / "sound"
    made(sound)
    kinds = list(each_kind(sound))
    for number in range(first, last):
        harms = kinds[number] if number < len(kinds) else some(sound, number)
        base = directory / str(number)
        shutil.copytree(sound, base)
        chance = random.Random(number)
        done = [
            (harm.__name__, name, harm(chance, base / name))
            for harm, name in harms
            # One that is no file any more cannot be harmed again.
            if harm in OF_BASES or (base / name).is_file()
        ]
        print(number, done, flush=True)
        faulthandler.dump_traceback_later(CASE_SECONDS_MAX, exit=True)
        print(" ", judge(base), flush=True)
        faulthandler.cancel_dump_traceback_later()
        shutil.rmtree(base)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
