"""What every log promises, shown on each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick.commits import Commit, Draft, Operation, Verb, chain
from tallystick.commits.canonical import canonical_bytes
from tallystick.engine.partition import Partition
from tallystick.errors import Corrupt, HeadMoved, Unsettled
from tallystick.extensions.cluster.jetstream_log import JetStreamLog
from tallystick.log import Entry, Head, Log, head_after
from tallystick.log.files import FilesLog
from tallystick.log.memory import MemoryLog
from tallystick.state.state import State
from tests import timeouts
from tests.commits_by_hand import append, draft, entries, filled, node
from tests.log.jetstream_logs import open_log, stream_for, systems
from tests.log.network_log import Mishap, NetworkLog

JETSTREAM = "jetstream"
LOGS: dict[str, Callable[[Path], Log]] = {
    "memory": lambda path: MemoryLog(),
    "network": lambda path: NetworkLog(),
    "files": lambda path: FilesLog(path / "_system"),
    "files in small segments": lambda path: FilesLog(path / "_system", segment_bytes_max=1_500),
}


@pytest.fixture(params=[*LOGS, JETSTREAM])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    if request.param == JETSTREAM:
        opened: Log = open_log(request.getfixturevalue("nats_server"), tmp_path, stream=stream_for(tmp_path))
    else:
        opened = LOGS[request.param](tmp_path)
    yield opened
    opened.close()


def test_an_empty_log_is_at_zero(log: Log) -> None:
    assert log.head() == Head()
    assert list(log.read(Head())) == []


def test_what_was_appended_is_read_back_in_order_and_at_its_offset(log: Log) -> None:
    made = filled(log, 20)
    assert list(log.read(Head())) == made
    assert [log.line(entry.offset) for entry in made] == [entry.line for entry in made]


def test_the_head_is_the_end_of_the_last_entry(log: Log) -> None:
    made = filled(log, 3)
    assert log.head() == head_after(made, Head())


def test_reading_goes_on_from_any_head(log: Log) -> None:
    first = append(log, draft(node("a")))
    middle = log.head()
    second = append(log, draft(node("b")), draft(node("c")))
    assert list(log.read(middle)) == second
    assert list(log.read(Head())) == first + second


def test_the_slower_of_two_writers_is_told_and_leaves_nothing(log: Log) -> None:
    before = log.head()
    slow = entries(before, draft(node("slow")))
    fast = append(log, draft(node("fast")))
    with pytest.raises(HeadMoved):
        log.append(slow, expected=before)
    assert list(log.read(Head())) == fast


def test_entries_that_do_not_follow_on_the_head_are_refused(log: Log) -> None:
    stale = entries(log.head(), draft(node("stale")))
    kept = append(log, draft(node("kept")))
    with pytest.raises(ValueError, match="follow position 1"):
        log.append(stale, expected=log.head())
    assert list(log.read(Head())) == kept


def test_a_group_of_batches_is_appended_as_one(log: Log) -> None:
    made = append(log, draft(node("a"), node("b")), draft(node("c")))
    assert [entry.commit.batch for entry in log.read(Head())] == [(1, 2), (2, 2), None]
    assert [entry.commit.first_of_group() for entry in made] == [1, 1, 1]


def test_a_mask_takes_the_place_of_a_payload_and_the_chain_still_verifies(log: Log) -> None:
    secret = append(log, draft(node("person", email="ada@example.org")))[0]
    masked = canonical_bytes({"id": "person", "type": "note", "attrs": {"email": "[REDACTED]"}})
    redact = Operation(
        Verb.REDACT_NODE, {"node_id": "person", "reason": "asked"}, redacts={"1": chain.content_hash(masked)}
    )
    append(log, draft(redact))

    assert b"ada@example.org" not in log.line(secret.offset)
    read = list(log.read(Head()))
    assert read[0].commit.payload == masked
    assert read[0].end == secret.end
    assert read[0].commit.commit_id == secret.commit.commit_id


def alter(log: Log, offset: int, old: bytes, new: bytes) -> None:
    """In place, behind its back."""
    assert len(old) == len(new)
    if isinstance(log, MemoryLog):
        index = log._index(offset)
        assert old in log._lines[index]
        log._lines[index] = log._lines[index].replace(old, new)
        return
    if isinstance(log, JetStreamLog):
        log = log._copy.log
    assert isinstance(log, FilesLog)
    index, place = log._segments.locate(offset)
    data = log._segments.paths[index].read_bytes()
    at = data.index(old, place)
    with log._segments.paths[index].open("r+b") as file:
        file.seek(at)
        file.write(new)


def test_an_altered_payload_is_not_handed_out_and_all_others_are(log: Log) -> None:
    made = filled(log, 10)
    for entry in made:
        alter(log, entry.offset, b'"number":', b'"numbex":')
        with pytest.raises(Corrupt, match="the payload does not match content_hash, and no redaction names it"):
            log.line(entry.offset)
        others = [each for each in made if each is not entry]
        assert [log.line(each.offset) for each in others] == [each.line for each in others]
        handed: list[Entry] = []
        with pytest.raises(Corrupt):
            handed.extend(log.read(Head()))
        assert entry.commit.lamport not in {each.commit.lamport for each in handed}
        alter(log, entry.offset, b'"numbex":', b'"number":')
    assert list(log.read(Head())) == made


@pytest.mark.parametrize("field", ["commit_id", "content_hash", "actor", "operation", "lamport"])
def test_a_line_whose_commit_id_is_false_is_not_handed_out(log: Log, field: str) -> None:
    entry = filled(log, 3)[1]
    said = str(getattr(entry.commit, field)).encode()
    spelt = said if field == "lamport" else b'"' + said
    other = b"9" if field == "lamport" else b'"' + (b"0" if said[:1] != b"0" else b"1") + said[1:]
    key = b'"%b":' % field.encode()
    alter(log, entry.offset, key + spelt, key + other)
    with pytest.raises(Corrupt):
        log.line(entry.offset)


def test_what_is_left_of_a_redacted_payload_is_handed_out_and_nothing_else(log: Log) -> None:
    secret = append(log, draft(node("person", email="ada@example.org", town="Turin")))[0]
    redacted(log, secret, {"email": "[REDACTED]", "town": "Turin"})
    redacted(log, secret, {"email": "[REDACTED]", "town": "[REDACTED]"})
    left = log.line(secret.offset)
    alter(log, secret.offset, b"[REDACTED]", b"[RESTORED]")
    with pytest.raises(Corrupt, match="what is left of the redacted payload is not what its redaction left"):
        log.line(secret.offset)
    alter(log, secret.offset, b"[RESTORED]", b"[REDACTED]")
    assert log.line(secret.offset) == left
    # What the first redaction left is not what is left now.
    first = canonical_bytes({"id": "person", "type": "note", "attrs": {"email": "[REDACTED]", "town": "Turin"}})
    alter(log, secret.offset, left, chain.mask(left, first))
    with pytest.raises(Corrupt, match="not what its redaction left"):
        log.line(secret.offset)


def test_a_redaction_that_was_altered_vouches_for_nothing(log: Log) -> None:
    secret = append(log, draft(node("person", email="ada@example.org")))[0]
    redaction = redacted(log, secret, {"email": "[REDACTED]"})
    left = log.line(secret.offset, checked=False)
    forged = canonical_bytes({"id": "person", "type": "note", "attrs": {"email": "eve@forged"}})
    alter(log, secret.offset, left, chain.mask(left, forged))
    named = (redaction.commit.redacts or {})["1"].encode()
    alter(log, redaction.offset, named, chain.content_hash(forged).encode())
    with pytest.raises(Corrupt, match=r"no redaction names it|is not what its redaction left"):
        log.line(secret.offset)


def redaction_of(entry: Entry, left: dict[str, Any]) -> Operation:
    masked = canonical_bytes({"id": "person", "type": "note", "attrs": left})
    fields = [f"attrs.{name}" for name, value in left.items() if value == "[REDACTED]"]
    said = {"node_id": "person", "reason": "asked", "redacted_fields": fields}
    return Operation(Verb.REDACT_NODE, said, redacts={str(entry.commit.lamport): chain.content_hash(masked)})


def redacted(log: Log, entry: Entry, left: dict[str, Any]) -> Entry:
    """The redaction, carried out."""
    return append(log, draft(redaction_of(entry, left)))[0]


def test_a_redaction_that_does_not_leave_what_it_says_is_refused(log: Log) -> None:
    secret = append(log, draft(node("person", email="ada@example.org", town="Turin")))[0]
    lie = redaction_of(secret, {"email": "[REDACTED]", "town": "Rome"})
    with pytest.raises(ValueError, match="does not leave of lamport 1 what it says"):
        append(log, draft(lie))
    assert list(log.read(Head())) == [secret]


def test_a_copy_of_a_masked_log_is_masked_as_the_log_is(log: Log, tmp_path: Path) -> None:
    """Whatever the groups are in which it is appended again."""
    secret = append(log, draft(node("person", email="ada@example.org", town="Turin")))[0]
    redacted(log, secret, {"email": "[REDACTED]", "town": "Turin"})
    redacted(log, secret, {"email": "[REDACTED]", "town": "[REDACTED]"})
    made = list(log.read(Head()))
    for size in (1, 2, 3):
        copy = FilesLog(tmp_path / f"copy in groups of {size}")
        for at in range(0, 3, size):
            copy.append(made[at : at + size], expected=copy.head())
        assert list(copy.read(Head())) == made
        copy.close()


def test_what_a_redaction_names_is_found_among_many(log: Log) -> None:
    filled(log, 40)
    secret = append(log, draft(node("person", email="ada@example.org")))[0]
    made = filled(log, 40)
    redacted(log, secret, {"email": "[REDACTED]"})
    assert b"ada@example.org" not in log.line(secret.offset)
    assert [log.line(entry.offset) for entry in made] == [entry.line for entry in made]


def test_a_claim_can_be_released_and_taken_again(log: Log) -> None:
    for _ in range(2):
        assert log.claim(timeout_seconds=timeouts.SECONDS)
        append(log, draft(node("a")))
        log.release()


def test_reading_can_pause_anywhere_and_goes_on(log: Log) -> None:
    made = filled(log, 10)
    reading = log.read(Head())
    first = [next(reading) for _ in range(3)]
    more = append(log, draft(node("meanwhile")))
    rest = list(reading)
    assert [*first, *rest][:10] == made
    assert list(log.read(Head())) == [*made, *more]


# -- what the partition makes of it


def once(number: int, mine: str) -> Callable[[State], Draft | Commit]:
    """A draft that its nonce makes one, however often it is proposed."""

    def propose(state: State) -> Draft | Commit:
        known = state.nonce(mine, f"nonce {number}")
        operation = Operation(
            Verb.UPSERT_NODE, {"id": f"{mine}{number}", "type": "note", "attrs": {}}, nonce=f"nonce {number}"
        )
        return known or draft(operation, actor=mine)

    return propose


def written(log: Log) -> list[str]:
    return [entry.commit.document()["id"] for entry in log.read(Head())]


def another(log: Log, tmp_path: Path) -> Log:
    """A second writer: another process of this machine, or another machine."""
    if isinstance(log, JetStreamLog):
        base = tmp_path / "other"
        return JetStreamLog(msgspec.structs.replace(log._place, base=base, system_of=systems(base)), "default")
    return FilesLog(tmp_path / "_system") if isinstance(log, FilesLog) else log


async def test_two_writers_on_one_log_each_get_one_commit_for_each_draft(log: Log, tmp_path: Path) -> None:
    """Whether or not a claim keeps them apart."""
    other = another(log, tmp_path)
    partitions = {"ann": Partition(log), "bob": Partition(other)}
    receipts = await asyncio.gather(
        *(partition.commit(once(number, actor)) for number in range(20) for actor, partition in partitions.items())
    )
    assert sorted(receipt.commits[0].lamport for receipt in receipts) == list(range(1, 41))
    log.confirm()
    other.confirm()
    assert sorted(written(log)) == sorted(f"{actor}{number}" for actor in partitions for number in range(20))
    for partition in partitions.values():
        assert await partition.look(lambda state: state.count) == 40
        await partition.close()


MISHAPS: dict[str, tuple[list[Mishap], int]] = {
    "written, and not said": (["written"], 0),
    "lost once": (["lost"], 0),
    "later than the second try": (["late"], 0),
    "another was first": (["moved"], 1),
    "another was first, again and again": (["moved", "moved", "moved"], 3),
    "lost, then another was first": (["lost", "moved"], 1),
    "late, then another was first": (["moved", "late"], 1),
    "another was first, then not said": (["moved", "written"], 1),
    "not said each time": (["written", "written", "written"], 0),
}


@pytest.mark.parametrize("name", MISHAPS)
async def test_a_draft_that_is_acknowledged_is_in_the_log_once(name: str) -> None:
    mishaps, foreign = MISHAPS[name]
    log = NetworkLog(*mishaps)
    partition = Partition(log)
    for number in range(4):
        receipt = await partition.commit(once(number, "ann"))
        assert not receipt.duplicate
    mine = [name for name in written(log) if name.startswith("ann")]
    assert mine == ["ann0", "ann1", "ann2", "ann3"]
    assert log.foreign == foreign
    assert await partition.look(lambda state: state.head) == log.head()
    await partition.close()


@pytest.mark.parametrize("arrives", [True, False])
async def test_a_draft_of_which_nobody_knows_is_answered_so_and_can_be_repeated(arrives: bool) -> None:
    log = NetworkLog("lost", "late" if arrives else "lost")
    partition = Partition(log)
    with pytest.raises(Unsettled) as caught:
        await partition.commit(once(1, "ann"))
    assert "nonce" in (caught.value.hint or "")
    assert await partition.look(lambda state: state.count) == 0
    log.arrive()
    assert await partition.look(lambda state: state.node("ann1") is not None) is arrives
    again = await partition.commit(once(1, "ann"))
    assert again.duplicate is arrives
    assert written(log) == ["ann1"]
    await partition.close()


async def test_an_unsettled_group_is_undone_whole_and_its_drafts_are_all_told() -> None:
    log = NetworkLog("lost", "lost")
    partition = Partition(log)
    outcomes = await asyncio.gather(
        *(partition.commit(once(number, "ann")) for number in range(5)), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [Unsettled] * 5
    assert written(log) == []
    assert (await partition.commit(once(1, "ann"))).commits[0].lamport == 1
    await partition.close()


def test_what_is_expected_is_only_a_hint(log: Log) -> None:
    log.expect([0, 10**9])
    made = append(log, draft(node("a")), draft(node("b")))
    log.expect([entry.offset for entry in made])
    log.expect([1, 10**9, 10**15])
    assert [log.line(entry.offset) for entry in made] == [entry.line for entry in made]
