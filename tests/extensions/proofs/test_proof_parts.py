"""Proofs made of a small memory: by what a commit may be named, and what is said where nothing can be proved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tallystick.commits.signed_note import Checkpoint, NoteRefused
from tallystick.errors import Conflict, Corrupt, InvalidArgument, NotFound, TallystickError
from tallystick.extensions.proofs import prove as proofs
from tallystick.extensions.proofs.proof_file import Trust, consistency_file, inclusion_file
from tallystick.extensions.proofs.prove import (
    CheckedProof,
    MadeInclusion,
    check_proof,
    find_commit,
    prove_commit,
    prove_continuation,
    prove_signed,
    prove_since,
    prove_stored,
    read_bounded,
    refuse_split_view,
)
from tallystick.extensions.proofs.tiles import TilesProjection, read_place
from tallystick.log import Head, head_after, tree_directory
from tallystick.policy import Action, Decision, Request
from tests.commits.small_log import COMMITS, SIZE, checkpoint, consistency, inclusion
from tests.signed_memory import KEY, ORIGIN, WITNESS, SignedMemory, signed
from tests.toolsets.agent import Agent, working

TRUST = Trust((KEY.verifier,))
HASH = bytes(range(32))
LAST = 6


class Memory:
    """An agent's memory of six commits: ada, 12345678, eve, ada again, an edge, eve forgotten."""

    def __init__(self, agent: Agent, home: Path) -> None:
        self.agent, self.home = agent, home
        agent.node("ada", said=1)
        agent.node("12345678")
        agent.node("eve")
        agent.node("ada", said=2)
        agent.write(op="UPSERT_EDGE", edge={"from": "ada", "rel": "knows", "to": "12345678"})
        agent.write(op="DELETE_NODE", node_id="eve")
        self.entries = list(agent.log.read(Head()))
        projection = TilesProjection(home)
        projection.apply(self.entries, head_after(self.entries, Head()))
        self.signed = SignedMemory(home, self.entries)
        self.checkpoint = tree_directory(home) / "checkpoint"
        self.sign()

    def sign(self, size: int | None = None) -> None:
        self.checkpoint.write_bytes(self.signed.note(size))

    def find(self, named: object) -> int:
        located = self.agent.run(find_commit(self.agent.store, self.agent.principal, str(named)))
        before = self.entries[located.index - 1].commit.record_hash if located.index else ""
        assert (located.commit, located.prev_record_hash) == (self.entries[located.index].commit, before)
        return located.index

    def prove(self, named: object) -> MadeInclusion:
        return self.agent.run(prove_commit(self.agent.store, self.agent.principal, self.home, str(named)))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with working() as agent:
        yield Memory(agent, tmp_path)


# -- which commit


def test_a_commit_is_named_by_its_position_or_its_id_or_what_it_is_about(memory: Memory) -> None:
    for index, entry in enumerate(memory.entries):
        for named in (entry.commit.lamport, entry.commit.commit_id, entry.commit.commit_id[:8]):
            assert memory.find(named) == index
    assert (memory.find("ada"), memory.find("eve"), memory.find("ada|knows|12345678")) == (3, 5, 4)
    assert memory.find("12345678") == 1, "an entity may be called like an id or a position"


@pytest.mark.parametrize(
    "named",
    [
        "nobody",
        "0",
        "7",
        "0" * 8,
        "f" * 64,
        "f" * 65,
        "1" * 16,
        "1" * 17,
        "9" * 30,
        "\u0661",
        "-1",
        "n" * 90,
        "ABCDEF01",
    ],
)
def test_what_is_not_there_is_not_found(memory: Memory, named: str) -> None:
    with pytest.raises(NotFound) as error:
        memory.find(named)
    assert error.value.message == f"'{named[:80]}' is neither a commit nor an entity"
    assert error.value.hint == "'tallystick log' shows commits, with their ids"


def test_fewer_digits_than_eight_are_no_id(memory: Memory) -> None:
    with pytest.raises(NotFound):
        memory.find(memory.entries[0].commit.commit_id[:7])


class Hidden:
    """Nobody may read about ada."""

    def decide(self, request: Request) -> Decision:
        about = request.resource in (None, "eve", "12345678") or request.action is not Action.READ
        return Decision(about, "", "test@1")


def test_what_may_not_be_read_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    with working(Hidden()) as agent:
        agent.node("ada")
        agent.node("eve")
        hidden, shown = (entry.commit for entry in agent.log.read(Head()))
        for named in (hidden.commit_id, hidden.lamport):
            with pytest.raises(NotFound, match="neither a commit nor an entity"):
                agent.run(find_commit(agent.store, agent.principal, str(named)))
        with pytest.raises(TallystickError):
            agent.run(find_commit(agent.store, agent.principal, "ada"))
        assert agent.run(find_commit(agent.store, agent.principal, shown.commit_id)).index == 1


# -- that it is in the log


@pytest.mark.parametrize("index", range(LAST))
def test_a_proof_is_made_of_any_commit(memory: Memory, index: int) -> None:
    commit = memory.entries[index].commit
    made = memory.prove(commit.commit_id)
    assert made == MadeInclusion(
        ORIGIN,
        LAST,
        index,
        commit.lamport,
        commit.commit_id,
        commit.record_hash,
        commit.content_hash,
        inclusion_file(memory.signed.inclusion(index)),
        commit.payload,
    )
    before = memory.entries[index - 1].commit.record_hash if index else ""
    assert prove_stored(memory.home, commit, index, before) == made


def test_only_what_is_signed_is_proved(memory: Memory) -> None:
    memory.sign(4)
    asked = [
        (entry.commit, index, memory.entries[index - 1].commit.record_hash if index else "")
        for index, entry in enumerate(memory.entries)
    ]
    expected = [inclusion_file(memory.signed.inclusion(index, 4)).decode() for index in range(4)]
    assert prove_signed(memory.home, asked) == [*expected, None, None]
    with pytest.raises(Conflict) as error:
        memory.prove(5)
    assert (error.value.message, error.value.code, error.value.hint) == (
        "the commit is number 5, and only 4 are signed so far",
        "NOT_SIGNED_YET",
        "a server signs once a second; 'tallystick checkpoint' signs what is there now",
    )


def test_without_a_signature_nothing_is_proved(memory: Memory) -> None:
    memory.checkpoint.unlink()
    with pytest.raises(NotFound) as error:
        memory.prove("ada")
    assert (error.value.message, error.value.code, error.value.hint) == (
        "nothing was signed yet, and so nothing can be proved to others",
        "NO_CHECKPOINT",
        "'tallystick keys new' makes a key; name it in the setting checkpoint_key",
    )


def test_what_the_signed_tree_does_not_hold_is_not_proved(memory: Memory) -> None:
    memory.checkpoint.write_bytes(signed(Checkpoint(ORIGIN, LAST, HASH)))
    with pytest.raises(Corrupt) as error:
        memory.prove("ada")
    assert (error.value.message, error.value.hint) == (
        "the commit at position 4 is not in the tree that was signed",
        "run 'tallystick verify': the log, the tiles or the checkpoint was changed",
    )


# -- of tiles that are being written


def test_tiles_that_do_not_reach_as_far_are_said_to(memory: Memory) -> None:
    memory.checkpoint.write_bytes(signed(Checkpoint(ORIGIN, LAST + 1, HASH)))
    for asked in (lambda: memory.prove("ada"), lambda: prove_since(memory.home, 1)):
        with pytest.raises(Corrupt) as error:
            asked()
        assert (error.value.message, error.value.hint) == (
            "the tiles do not reach as far as what was signed, or are damaged",
            "'tallystick checkpoint' writes them again from the log",
        )


def test_tiles_that_grow_while_they_are_read_are_read_again(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    real, older = read_place, msgspec.structs.replace
    place = real(tree_directory(memory.home))
    assert place is not None
    behind = older(place, head=older(place.head, count=1))
    asked: list[Path] = []

    def growing(directory: Path) -> object:
        asked.append(directory)
        return behind if len(asked) == 1 else real(directory)

    monkeypatch.setattr(proofs, "read_place", growing)
    assert memory.prove("ada").index == 3
    assert set(asked) == {tree_directory(memory.home)}


def test_tiles_that_never_stand_still_are_given_up(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    place = read_place(tree_directory(memory.home))
    assert place is not None
    asked: list[Path] = []

    def moving(directory: Path) -> object:
        asked.append(directory)
        return msgspec.structs.replace(place, head=msgspec.structs.replace(place.head, count=-len(asked)))

    monkeypatch.setattr(proofs, "read_place", moving)
    with pytest.raises(Corrupt, match="the tiles do not reach"):
        memory.prove("ada")
    assert len(asked) <= 2 * 5


# -- that it continues


@pytest.mark.parametrize("old", range(LAST + 1))
def test_an_older_checkpoint_is_proved_to_be_continued(memory: Memory, old: int) -> None:
    made = prove_continuation(memory.home, memory.signed.note(old))
    assert (made.origin, made.size, made.old) == (ORIGIN, LAST, old)
    assert made.proof == consistency_file(memory.signed.consistency(old))
    assert prove_since(memory.home, old) == made


def test_another_history_is_not_proved_to_be_continued(memory: Memory) -> None:
    with pytest.raises(Corrupt) as error:
        prove_continuation(memory.home, signed(Checkpoint(ORIGIN, 3, HASH)))
    assert (error.value.message, error.value.hint) == (
        "what was signed last does not begin with the 3 commits of that checkpoint",
        "one of the two histories was rewritten: keep both checkpoints, and compare with a backup",
    )
    with pytest.raises(InvalidArgument) as refused:
        prove_continuation(memory.home, signed(Checkpoint("another", 3, HASH)))
    assert refused.value.message == f"that checkpoint is of 'another', this log is '{ORIGIN}'"
    with pytest.raises(Conflict) as conflict:
        prove_since(memory.home, LAST + 1)
    assert (conflict.value.message, conflict.value.code, conflict.value.hint) == (
        "that checkpoint has 7 commits, the last one that was signed here 6",
        "NOT_SIGNED_YET",
        "'tallystick checkpoint' signs what is there now; if that has fewer commits, this is an old copy",
    )


# -- checking


def test_a_proof_of_a_commit_is_checked() -> None:
    data, commit = inclusion_file(inclusion(2)), COMMITS[2]
    shown = CheckedProof(
        ORIGIN,
        SIZE,
        index=2,
        record_hash=commit.record_hash,
        commit=msgspec.structs.replace(commit, payload=b"{}"),
    )
    assert check_proof(data, TRUST) == shown
    assert check_proof(data, TRUST, payload=commit.payload) == msgspec.structs.replace(shown, payload_matches=True)
    with pytest.raises(NoteRefused, match="the payload is not the one"):
        check_proof(data, TRUST, payload=b"{}")


def test_a_proof_of_continuation_is_checked_with_the_older_checkpoint() -> None:
    data = consistency_file(consistency(3))
    assert check_proof(data, TRUST, older=signed(checkpoint(3))) == CheckedProof(ORIGIN, SIZE, old=3)
    with pytest.raises(NoteRefused) as error:
        check_proof(data, TRUST)
    assert (error.value.message, error.value.hint) == (
        "it says that a log continues an older checkpoint, and that was not given",
        "name it with --since",
    )


def test_who_was_shown_another_history_can_tell() -> None:
    data = inclusion_file(inclusion(2))
    refuse_split_view(data, TRUST, [])
    refuse_split_view(data, TRUST, [signed(checkpoint()), signed(Checkpoint(ORIGIN, 4, HASH))])
    with pytest.raises(NoteRefused) as error:
        refuse_split_view(data, TRUST, [signed(checkpoint()), signed(Checkpoint(ORIGIN, SIZE, HASH))])
    assert error.value.message == "the same log signed another history of 5 commits"
    cosigned = inclusion_file(inclusion(2, note=signed(checkpoint(), KEY, WITNESS)))
    trust = Trust((KEY.verifier, WITNESS.verifier), quorum=1)
    refuse_split_view(cosigned, trust, [signed(checkpoint(3))])
    with pytest.raises(NoteRefused, match="0 witnesses"):
        refuse_split_view(data, trust, [])


def test_no_more_is_read_than_there_may_be(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    assert read_bounded(path, 5) == read_bounded(path) == b"12345"
    with pytest.raises(InvalidArgument) as error:
        read_bounded(path, 4)
    assert (error.value.message, error.value.code) == (f"{path} is larger than 4 bytes", "FILE_UNREADABLE")
    with pytest.raises(InvalidArgument) as error:
        read_bounded(tmp_path / "y")
    assert (error.value.message, error.value.code) == (
        f"cannot read {tmp_path / 'y'}: No such file or directory",
        "FILE_UNREADABLE",
    )
