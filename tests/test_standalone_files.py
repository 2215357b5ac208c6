"""The verifier that stands alone, asked about files: a small memory and everything that may be wrong with it."""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

import verify_standalone as alone
from tallystick.commits import Commit, chain, tree
from tallystick.commits.signed_note import Checkpoint
from tallystick.extensions.proofs.proof_file import consistency_file, inclusion_file
from tallystick.log import Head
from tallystick.log.head_file import encode_head
from tests.commits.small_log import COMMITS, SIZE, checkpoint, consistency, inclusion
from tests.signed_memory import KEY, NEXT_KEY, ORIGIN, STRANGER, WITNESS, signed
from tests.test_standalone_parts import LEFT, MASKED, REDACTION, SECOND, refusal, sealed

WIDTH = 4
HASH = bytes(range(32))


@pytest.fixture(autouse=True)
def narrow_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four hashes, so that a handful of entries fills some; how wide they are matters to nothing else."""
    monkeypatch.setattr(alone, "TILE", WIDTH)


# -- tiles


@pytest.mark.parametrize(("number", "path"), [(0, "000"), (999, "999"), (1000, "x001/000"), (1234067, "x001/x234/067")])
def test_a_tile_has_the_path_that_is_published(number: int, path: str) -> None:
    assert alone.tile_path("entries", number) == f"tile/entries/{path}"


def tile_files(entries: list[bytes]) -> dict[str, bytes]:
    """By their definition: hashes of whole subtrees, four in a file, level by level."""
    leaves = [tree.leaf_hash(entry) for entry in entries]
    rows = {"entries": [len(entry).to_bytes(2, "big") + entry for entry in entries]}
    for level in range(4):
        below = WIDTH**level
        rows[str(level)] = [root(leaves[at : at + below]) for at in range(0, len(leaves) - below + 1, below)]
    found = {}
    for name, row in rows.items():
        for number in range(0, len(row), WIDTH):
            part = row[number : number + WIDTH]
            path = alone.tile_path(name, number // WIDTH)
            found[path if len(part) == WIDTH else f"{path}.p/{len(part)}"] = b"".join(part)
    return found


def root(leaves: list[bytes]) -> bytes:
    frontier = tree.Frontier()
    for leaf in leaves:
        frontier.add(leaf)
    return frontier.root()


def write(directory: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(data)


ENTRIES = [bytes([number]) * (number % 3 + 1) for number in range(21)]


def known(size: int = len(ENTRIES), entries: list[bytes] = ENTRIES) -> dict[str, alone.Checkpoint]:
    return {f"of {size}": alone.Checkpoint("", size, root([tree.leaf_hash(each) for each in entries[:size]]), [])}


@pytest.mark.parametrize("size", [1, 3, 4, 5, 16, 17, 20, 21])
def test_tiles_that_are_what_the_entries_give_are_accepted(tmp_path: Path, size: int) -> None:
    write(tmp_path, tile_files(ENTRIES[:size]))
    assert alone.check_tiles(str(tmp_path), known(size)) == f"{size} entries in tiles"
    assert alone.check_tiles(str(tmp_path), known(size) | known(size // 2)) == f"{size} entries in tiles"


def test_no_entries_need_no_tiles(tmp_path: Path) -> None:
    assert alone.check_tiles(str(tmp_path), known(0)) == "0 entries in tiles"
    lied = {"x": alone.Checkpoint("", 0, HASH, [])}
    assert refusal(lambda: alone.check_tiles(str(tmp_path), lied)) == NOT_SIGNED.format("x", 0)


NOT_SIGNED = "{}: the first {} commits are not those that were signed"
NAMES = sorted(tile_files(ENTRIES))


@pytest.mark.parametrize("name", NAMES)
def test_every_tile_is_compared(tmp_path: Path, name: str) -> None:
    good = tile_files(ENTRIES)
    right, level = good[name], name.split("/")[1]
    whole = name.partition(".p")[0]
    for changed, problem in (
        (right[:-1] + bytes([right[-1] ^ 1]), "it is not what the entries give"),
        (right + b"x", "it has another length than its name says"),
        (right[:-1], "it is not what the entries give"),
    ):
        write(tmp_path, good | {name: changed})
        tiles = alone.TileCheck(str(tmp_path), whole=True)
        assert refusal(lambda: fed(tiles)) == f"{name}: {problem}"  # noqa: B023
    write(tmp_path, good)
    (tmp_path / name).unlink()
    assert refusal(lambda: fed(alone.TileCheck(str(tmp_path), whole=True))) == f"{whole}: it is missing"
    fed(alone.TileCheck(str(tmp_path), whole=False))
    problem = refusal(lambda: alone.check_tiles(str(tmp_path), known()))
    assert problem == f"{whole}: it is missing", level


def fed(tiles: alone.TileCheck) -> None:
    for entry in ENTRIES:
        tiles.add(entry)
    tiles.finish()


def test_narrower_and_wider_tiles_lie_beside_each_other(tmp_path: Path) -> None:
    """While a log grows: what lags behind, and what is ahead of the entries that are known."""
    for size in range(1, len(ENTRIES) + 1):
        write(tmp_path, tile_files(ENTRIES[:size]))
    fed(alone.TileCheck(str(tmp_path), whole=True))
    for size in range(1, len(ENTRIES) + 1):
        assert alone.check_tiles(str(tmp_path), known(size)) == f"{size} entries in tiles"
    (tmp_path / "tile/entries/005.p/1").write_bytes(b"\0\1x")
    assert refusal(lambda: fed(alone.TileCheck(str(tmp_path), whole=True))) == (
        "tile/entries/005.p/1: it is not what the entries give"
    )


def test_a_tile_that_is_ahead_must_be_longer_than_what_is_known(tmp_path: Path) -> None:
    few = ENTRIES[:2]
    wide = tile_files(ENTRIES[:3])
    write(tmp_path, wide)
    tiles = alone.TileCheck(str(tmp_path), whole=True)
    for entry in few:
        tiles.add(entry)
    tiles.finish()
    name = "tile/0/000.p/3"
    write(tmp_path, {name: wide[name][:64]})
    tiles = alone.TileCheck(str(tmp_path), whole=True)
    for entry in few:
        tiles.add(entry)
    assert refusal(tiles.finish) == f"{name}: it has another length than its name says"


def test_what_is_named_otherwise_is_no_tile(tmp_path: Path) -> None:
    write(tmp_path, tile_files(ENTRIES))
    for name in ("0", "4", "5", "01", "x", "1.tmp"):
        write(tmp_path, {f"tile/0/005.p/{name}": b"no tile"})
    fed(alone.TileCheck(str(tmp_path), whole=True))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\0", "it has fewer entries than its name says"),
        (b"\0\2x", "it has fewer entries than its name says"),
        (b"", "it has fewer entries than its name says"),
    ],
)
def test_entries_are_as_many_as_the_name_says(tmp_path: Path, data: bytes, problem: str) -> None:
    write(tmp_path, tile_files(ENTRIES[:5]) | {"tile/entries/001.p/1": data})
    assert refusal(lambda: alone.check_tiles(str(tmp_path), known(5))) == f"tile/entries/001.p/1: {problem}"


def test_entries_of_another_log_are_not_those_that_were_signed(tmp_path: Path) -> None:
    others = [b"other", *ENTRIES[1:5]]
    write(tmp_path, tile_files(others))
    for at in (1, 3, 5):
        asked = known(5, others) | known(at)
        assert refusal(lambda: alone.check_tiles(str(tmp_path), asked)) == NOT_SIGNED.format(f"of {at}", at)  # noqa: B023


# -- a memory

FIRST_FILE, SECOND_FILE = f"{1:020d}.jsonl", f"{4:020d}.jsonl"


class Memory:
    """Two files of a log, the kept position, tiles and a checkpoint; and who is believed."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str], lines: list[bytes]) -> None:
        self.directory, self.capsys = directory, capsys
        self.system = directory / "memory" / "_system"
        self.log, self.tiles, self.mark = self.system / "log", self.system / "tiles", self.system / "head"
        self.log.mkdir(parents=True)
        self.put(lines)
        entries = [bytes.fromhex(chain.record_hash_of(line)) for line in lines]
        write(self.tiles, tile_files(entries))
        self.root = root([tree.leaf_hash(entry) for entry in entries])
        self.checkpoint = self.tiles / "checkpoint"
        self.checkpoint.write_bytes(signed(Checkpoint(ORIGIN, len(lines), self.root)))
        self.vkey = directory / "vkey"
        self.vkey.write_text(f"{KEY.verifier}\n{WITNESS.verifier}\n")

    def put(self, lines: list[bytes], *, mark: bool = True) -> None:
        whole = [line + b"\n" for line in lines]
        (self.log / FIRST_FILE).write_bytes(b"".join(whole[:3]))
        (self.log / SECOND_FILE).write_bytes(b"".join(whole[3:]))
        if mark:
            last = chain.decode(lines[-1])
            end = sum(map(len, whole))
            head = Head(last.lamport, len(lines), end, last.record_hash, last.commit_id, last.timestamp)
            self.mark.write_bytes(encode_head(head))

    def ask(self, *words: object, key: bool = True) -> tuple[bool, str]:
        asked = [*(["--vkey", self.vkey] if key else ["--without-key"]), *words]
        code = alone.main([str(word) for word in [*asked, "--json"]])
        found = json.loads(self.capsys.readouterr().out)
        assert found["valid"] == (code == 0)
        return found["valid"], found["text"]

    def checked(self, *words: object) -> tuple[bool, str]:
        return self.ask(self.directory / "memory", *words)


@pytest.fixture
def memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Memory:
    return Memory(tmp_path, capsys, LINES)


LINES = [chain.encode(commit)[:-1] for commit in COMMITS]
SOUND = (True, f"{SIZE} commits up to lamport {SIZE}, record_hash {COMMITS[-1].record_hash}")


@pytest.mark.parametrize("part", ["memory", "memory/_system", "memory/_system/log"])
def test_a_sound_memory_is_accepted_by_any_of_its_directories(memory: Memory, part: str) -> None:
    assert memory.ask(memory.directory / part) == SOUND


def test_its_tiles_alone_are_accepted(memory: Memory) -> None:
    assert memory.ask(memory.tiles) == (True, f"{SIZE} entries in tiles")


def test_what_is_signed_is_not_asked_for_where_nobody_is_believed(memory: Memory) -> None:
    memory.checkpoint.write_bytes(b"no note")
    note = " (the chain alone: nobody's signature was asked for, so an old or a rewritten copy looks the same)"
    assert memory.ask(memory.directory / "memory", key=False) == (True, SOUND[1] + note)
    assert memory.ask(memory.tiles, key=False) == (
        False,
        f"{memory.tiles}: tiles prove nothing without a checkpoint",
    )


def test_a_memory_without_tiles_needs_a_checkpoint(memory: Memory) -> None:
    kept = memory.directory / "kept"
    kept.write_bytes(signed(checkpoint(3)))
    memory.tiles.rename(memory.system / "elsewhere")
    missing = (False, "there is no checkpoint to compare with: name one by --checkpoint")
    assert memory.checked() == missing
    assert memory.checked("--checkpoint", kept) == SOUND


def test_an_empty_memory_is_a_memory(memory: Memory) -> None:
    for path in (memory.log / SECOND_FILE, memory.mark):
        path.unlink()
    (memory.log / FIRST_FILE).write_bytes(b"")
    found = memory.ask(memory.log, key=False)
    assert found[0]
    assert found[1].startswith("0 commits up to lamport 0, record_hash (none) (")


def kept_note(memory: Memory, note: bytes) -> tuple[bool, str]:
    (memory.directory / "kept").write_bytes(note)
    found = memory.checked("--checkpoint", memory.directory / "kept")
    return found[0], found[1].replace(str(memory.directory), "…")


@pytest.mark.parametrize("size", range(SIZE + 1))
def test_a_log_must_contain_every_checkpoint_that_is_named(memory: Memory, size: int) -> None:
    assert kept_note(memory, signed(checkpoint(size))) == SOUND
    assert kept_note(memory, signed(Checkpoint(ORIGIN, size, HASH))) == (False, NOT_SIGNED.format("…/kept", size))


def test_a_log_that_is_behind_a_checkpoint_is_an_old_copy(memory: Memory) -> None:
    assert kept_note(memory, signed(Checkpoint(ORIGIN, 6, HASH))) == (
        False,
        "…/kept: it was signed over 6 commits, but there are 5: the end was cut off, or this is an old copy",
    )


def test_checkpoints_are_believed_as_the_words_say(memory: Memory) -> None:
    refused = f"no key that is believed signed it as the log '{ORIGIN}'"
    memory.checkpoint.write_bytes(signed(checkpoint(), STRANGER))
    assert memory.checked() == (False, f"{memory.checkpoint}: {refused}")
    memory.vkey.write_text(f"{STRANGER.verifier}\n{WITNESS.verifier}\n")
    assert memory.checked() == (False, f"{memory.checkpoint}: {refused}")
    assert memory.checked("--origin", ORIGIN) == SOUND
    assert memory.checked("--origin", ORIGIN, "--quorum", 1)[1].endswith("0 witnesses cosigned it, not 1")
    memory.checkpoint.write_bytes(signed(checkpoint(), STRANGER, WITNESS))
    assert memory.checked("--origin", ORIGIN, "--quorum", 1) == SOUND


def shorter(memory: Memory) -> None:
    memory.put(LINES[:-1], mark=False)


def another_end(memory: Memory) -> None:
    forged = json.loads(memory.mark.read_bytes()[9:].rstrip())
    kept = Head(forged["lamport"], forged["count"], forged["end"], "0" * 64, forged["commit_id"], "2023")
    memory.mark.write_bytes(encode_head(kept))


def misnamed(memory: Memory) -> None:
    (memory.log / SECOND_FILE).rename(memory.log / f"{3:020d}.jsonl")


def named_too_high(memory: Memory) -> None:
    (memory.log / SECOND_FILE).rename(memory.log / f"{5:020d}.jsonl")


def cut_line(memory: Memory) -> None:
    path = memory.log / SECOND_FILE
    path.write_bytes(path.read_bytes()[:-1])


def altered_tile(memory: Memory) -> None:
    write(memory.tiles, {"tile/0/000": HASH * 4})


def altered_line(memory: Memory) -> None:
    memory.put([LINES[0].replace(b"tester", b"nobody"), *LINES[1:]], mark=False)


def empty_file_within(memory: Memory) -> None:
    (memory.log / f"{2:020d}.jsonl").write_bytes(b"")


WRONG: list[tuple[Callable[[Memory], object], str]] = [
    (
        lambda memory: memory.mark.unlink(),
        "…/head: there are commits but no kept position: the end may have been cut off",
    ),
    (lambda memory: memory.mark.write_bytes(b"x"), "…/head: the kept position is unreadable"),
    (shorter, "…/head: the log ends at lamport 4, but 5 was acknowledged"),
    (another_end, f"{SECOND_FILE}, line 2: the last commit is not the one that was acknowledged"),
    (misnamed, f"{3:020d}.jsonl, line 1: its segment is not named by what is in it"),
    (named_too_high, f"{5:020d}.jsonl, line 1: its segment is not named by what is in it"),
    (cut_line, f"{SECOND_FILE}, line 2: the line has no end"),
    (altered_tile, "tile/0/000: it is not what the entries give"),
    (altered_line, f"{FIRST_FILE}, line 1: record_hash does not match its fields and the record before it"),
    (empty_file_within, f"{2:020d}.jsonl: it is empty, and commits lie behind it"),
]


@pytest.mark.parametrize(("change", "problem"), WRONG, ids=[problem.partition(": ")[2] for _, problem in WRONG])
def test_what_is_wrong_with_a_memory_is_found_and_named(
    memory: Memory, change: Callable[[Memory], object], problem: str
) -> None:
    change(memory)
    valid, text = memory.checked()
    assert (valid, text.replace(str(memory.system), "…")) == (False, problem)


def test_the_next_file_may_be_there_already(memory: Memory) -> None:
    (memory.log / f"{6:020d}.jsonl").write_bytes(b"")
    assert memory.checked() == SOUND
    (memory.log / f"{7:020d}.jsonl.tmp").write_bytes(b"no part of it")
    assert memory.checked() == SOUND


def added(memory: Memory) -> bytes:
    """A commit behind the last one."""
    fresh = msgspec.structs.replace(COMMITS[-1], lamport=9)
    lines = [*LINES, sealed(*COMMITS, renewed(fresh))[-1]]
    memory.put(lines, mark=False)
    return lines[-1]


def renewed(commit: Commit) -> Commit:
    found = chain.commit_id(commit.payload, commit.lamport, commit.actor, commit.operation)
    return msgspec.structs.replace(commit, commit_id=found)


def test_what_is_behind_the_kept_position_is_waited_for_and_then_refused(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    added(memory)
    now, waited = [100.0], []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        now[0] += 0.5

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", sleep)
    assert memory.checked() == (False, f"behind {SECOND_FILE}, line 2: bytes that nobody acknowledged")
    assert len(waited) == 5
    assert set(waited) == {0.02}


def test_what_a_writer_acknowledges_meanwhile_is_left_for_the_next_time(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = added(memory)
    monkeypatch.setattr(time, "sleep", lambda seconds: memory.put([*LINES, line]))
    assert memory.checked() == SOUND


# -- redactions

DONE = sealed(MASKED, SECOND, REDACTION)
UNDONE = sealed(COMMITS[0], SECOND, REDACTION)
NAMED = "a redaction names it, but its payload is still there"


def test_what_a_redaction_names_must_be_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert LEFT in DONE[0]
    assert Memory(tmp_path / "done", capsys, DONE).checked()[0]
    undone = Memory(tmp_path / "undone", capsys, UNDONE)
    assert undone.checked() == (False, f"{FIRST_FILE}, line 1: {NAMED}")


def test_a_redaction_that_had_nothing_to_mask_leaves_the_payload(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    same = msgspec.structs.replace(REDACTION, redacts={"1": COMMITS[0].content_hash})
    assert Memory(tmp_path, capsys, sealed(COMMITS[0], SECOND, same)).checked()[0]


def piped(monkeypatch: pytest.MonkeyPatch, lines: list[bytes]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))


def test_from_a_pipe_it_cannot_be_looked_at_twice(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    piped(monkeypatch, LINES)
    assert memory.ask("-", key=False)[0]
    piped(monkeypatch, DONE)
    assert memory.ask("-", key=False)[0]
    piped(monkeypatch, UNDONE)
    assert memory.ask("-", key=False) == (
        False,
        "standard input cannot be read twice, which its redactions ask for: put it into a file",
    )


# -- exports and proofs


def test_an_export_is_compared_with_the_checkpoint_that_is_named(memory: Memory) -> None:
    export = memory.directory / "export.jsonl"
    export.write_bytes(b"\n".join(LINES))
    assert memory.ask(export, "--checkpoint", memory.checkpoint) == SOUND
    assert memory.ask(export)[1] == "there is no checkpoint to compare with: name one by --checkpoint"
    export.write_bytes(b"\n".join(LINES[:-1]))
    assert memory.ask(export, "--checkpoint", memory.checkpoint)[1].startswith(
        f"{memory.checkpoint}: it was signed over 5 commits, but there are 4"
    )


def test_proofs_are_told_by_how_they_begin(memory: Memory) -> None:
    proof, payload, older, grown = (memory.directory / name for name in ("proof", "payload", "older", "grown"))
    proof.write_bytes(inclusion_file(inclusion(2)))
    payload.write_bytes(COMMITS[2].payload)
    older.write_bytes(signed(checkpoint(3)))
    grown.write_bytes(consistency_file(consistency(3)))
    assert memory.ask(proof)[1].startswith(f"entry 2 of {SIZE} of '{ORIGIN}': UPSERT_NODE")
    assert memory.ask(proof, "--payload", payload)[1].endswith(", and the payload is the one it speaks of")
    assert memory.ask(proof, "--payload", older) == (False, f"{proof}: the payload is not the one of this commit")
    assert memory.ask(grown, "--since", older) == (True, f"the 5 entries of '{ORIGIN}' begin with the 3 of before")
    assert memory.ask(grown) == (
        False,
        f"{grown}: it says that a log continues an older checkpoint: name that by --since",
    )
    proof.write_bytes(inclusion_file(msgspec.structs.replace(inclusion(2), extra=None)))
    assert memory.ask(proof, "--record-hash", COMMITS[2].record_hash) == (True, f"entry 2 of {SIZE} of '{ORIGIN}'")


def test_a_proof_of_continuation_asks_for_witnesses_at_the_newer_checkpoint_alone(memory: Memory) -> None:
    older, grown = memory.directory / "older", memory.directory / "grown"
    older.write_bytes(signed(checkpoint(3)))
    grown.write_bytes(consistency_file(consistency(3, signed(checkpoint(), KEY, WITNESS))))
    assert memory.ask(grown, "--since", older, "--quorum", 1)[0]
    grown.write_bytes(consistency_file(consistency(3)))
    assert memory.ask(grown, "--since", older, "--quorum", 1)[1] == f"{grown}: 0 witnesses cosigned it, not 1"
    older.write_bytes(signed(checkpoint(3), STRANGER))
    memory.vkey.write_text(f"{KEY.verifier}\n{STRANGER.verifier}\n")
    assert memory.ask(grown, "--since", older)[1].startswith(f"{older}: no key that is believed")
    assert memory.ask(grown, "--since", older, "--origin", ORIGIN)[0]


def test_who_was_shown_another_history_can_tell(memory: Memory) -> None:
    proof, kept = memory.directory / "proof", memory.directory / "kept"
    proof.write_bytes(inclusion_file(inclusion(2)))
    split = (False, f"{kept}: the same log signed another history of 5 commits")
    for seen, told in (
        (signed(checkpoint()), True),
        (signed(Checkpoint(ORIGIN, 4, HASH)), True),
        (signed(Checkpoint(ORIGIN, 5, HASH)), False),
    ):
        kept.write_bytes(seen)
        found = memory.ask(proof, "--checkpoint", kept)
        assert found == split if not told else found[0]


# -- what cannot be read


def test_what_cannot_be_read_is_said(memory: Memory) -> None:
    nowhere = memory.directory / "nowhere"
    unread = (False, f"{nowhere}: it cannot be read: No such file or directory")
    assert memory.ask(nowhere) == unread
    assert memory.ask(memory.log, "--checkpoint", nowhere) == unread
    nothing = memory.directory / "nothing"
    nothing.mkdir()
    assert memory.ask(nothing) == (False, f"{nothing}: there is neither a log nor tiles in it")
    memory.vkey.write_bytes(b"\xff")
    valid, text = memory.ask(memory.log)
    assert (valid, text.startswith(f"{memory.log}: it cannot be read: 'utf-8' codec")) == (False, True)


def test_what_is_too_long_is_not_read_to_its_end(memory: Memory) -> None:
    long, proof = memory.directory / "long", memory.directory / "proof"
    long.write_bytes(b"x" * (alone.NOTE_BYTES_MAX + 2))
    assert memory.checked("--checkpoint", long) == (False, f"{long}: a note has at most 65536 bytes")
    proof.write_bytes(b"old 3\n\n" + b"x" * (4 * alone.NOTE_BYTES_MAX))
    assert memory.ask(proof, "--since", memory.checkpoint) == (
        False,
        f"{proof}: a proof has an empty line and a checkpoint at its end",
    )


def test_yes_and_no_are_said_in_a_line(memory: Memory) -> None:
    def said(*words: object) -> tuple[int, str]:
        code = alone.main([str(word) for word in words])
        return code, memory.capsys.readouterr().out

    assert said("--vkey", memory.vkey, memory.log) == (0, f"yes: {SOUND[1]}\n")
    hostile = memory.directory / "a\nyes: b"
    code, out = said("--vkey", memory.vkey, hostile)
    assert (code, out) == (1, f"no: {memory.directory}/a\\u000ayes: b: it cannot be read: No such file or directory\n")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "name the keys that you believe by --vkey, or say --without-key"),
        (["--vkey", "k", "--without-key"], "name the keys that you believe by --vkey, or say --without-key"),
        (["--without-key", "--checkpoint", "c"], "a checkpoint says nothing without a key"),
        (["--without-key", "--since", "c"], "a checkpoint says nothing without a key"),
        (["--without-key", "--quorum", "1"], "a checkpoint says nothing without a key"),
        (["--vkey", "k", "--record-hash", "0"], "a record_hash has 64 hexadecimal digits"),
        (["--vkey", "k", "--quorum", "one"], "argument --quorum: invalid int value: 'one'"),
    ],
)
def test_to_be_asked_wrongly_is_neither_yes_nor_no(
    words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        alone.main(["x", *words])
    assert left.value.code == 2
    assert capsys.readouterr().err.endswith(f"error: {problem}\n")


def test_several_keys_and_checkpoints_may_be_named(memory: Memory) -> None:
    second, kept = memory.directory / "second", memory.directory / "kept"
    second.write_text(f"{NEXT_KEY.verifier}\n")
    kept.write_bytes(signed(checkpoint(2), NEXT_KEY))
    assert memory.checked("--vkey", second, "--checkpoint", kept, "--checkpoint", memory.checkpoint) == SOUND
    kept.write_bytes(signed(Checkpoint(ORIGIN, 2, HASH), NEXT_KEY))
    assert not memory.checked("--vkey", second, "--checkpoint", memory.checkpoint, "--checkpoint", kept)[0]


EXPLAINED = {
    "PATH": "a memory, an export, tiles or a proof",
    "--vkey FILE": "keys that are believed",
    "--checkpoint FILE": "what a log must contain",
    "--since FILE": "the older checkpoint that a proof of consistency is about",
    "--quorum N": "so many witnesses must have cosigned",
    "--origin NAME": "whose log it is; by default the name of the key",
    "--payload FILE": "what the commit of a proof is said to have written",
    "--record-hash HEX": "the commit of a proof that does not carry it",
    "--without-key": "check the chain of a log alone, signed by nobody",
    "--json": "print a JSON object",
}


def test_help_tells_how_to_ask(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        alone.main(["--help"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    assert (alone.__doc__ or "").strip() in shown
    words = f"{' '.join(shown.split())} "
    assert [option for option, said in EXPLAINED.items() if f" {option} {said} " not in words] == []


def test_a_checkpoint_may_be_as_long_as_is_allowed(memory: Memory) -> None:
    kept, grown = memory.directory / "kept", memory.directory / "grown"
    text = checkpoint(3).text()
    text += "x" * (alone.NOTE_BYTES_MAX - len(f"{text}\n\n{KEY.signature_line(text)}".encode())) + "\n"
    longest = f"{text}\n{KEY.signature_line(text)}".encode()
    assert len(longest) == alone.NOTE_BYTES_MAX
    kept.write_bytes(longest)
    grown.write_bytes(consistency_file(consistency(3)))
    assert memory.checked("--checkpoint", kept) == SOUND
    assert memory.ask(grown, "--since", kept)[0]
    memory.checkpoint.write_bytes(longest)
    assert memory.checked() == SOUND


def test_a_key_that_is_none_is_named_with_its_file(memory: Memory) -> None:
    memory.vkey.write_text("no key\n")
    assert memory.checked() == (False, f"{memory.vkey}: a verifier key is written name+id+key")
