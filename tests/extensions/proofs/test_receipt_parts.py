"""Receipts made of a small memory: what of a task's life is in them, and what is said where there is none."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick.audit.reads import AuditRead, AuditReads, Span
from tallystick.commits import Commit
from tallystick.errors import Conflict, Denied, InvalidArgument, NotFound
from tallystick.extensions.proofs import receipts
from tallystick.extensions.proofs.proof_file import Trust, inclusion_file
from tallystick.extensions.proofs.receipt import (
    Cited,
    Claim,
    Completion,
    Evidence,
    PolicyDecision,
    TaskNamed,
    check_receipt,
    entry_of,
)
from tallystick.extensions.proofs.receipts import (
    MadeReceipt,
    evidence_of,
    make_receipt,
    with_proof,
    write_receipt,
)
from tallystick.extensions.proofs.tiles import TilesProjection
from tallystick.log import Head, head_after, tree_directory
from tallystick.policy import Action, Decision, Policy, Principal, Request
from tallystick.server.dispatch import prepare
from tests.signed_memory import KEY, ORIGIN, SignedMemory
from tests.toolsets.agent import TOOLS
from tests.toolsets.work.agents import WorkAgent, working

TRUST = Trust((KEY.verifier,))
GIT = "4f2c9d" + "0" * 34
OUTPUT = "ab" * 32
EVIDENCE = [
    {"type": "git", "ref": f"https://example.org/shop/commit/{GIT}"},
    {"type": "note", "ref": "tried by hand"},
]


class Work:
    def __init__(self, agent: WorkAgent, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.agent, self.home = agent, home
        self.audit: AuditReads = AuditReads()
        self.spans: list[Span] = []
        monkeypatch.setattr(receipts, "find_reads", self._find_reads)
        self.say("rule", 1)
        agent.open()
        self.task = agent.plan({"ref": "refunds"})["refunds"]

    def _find_reads(self, directory: Path, spans: Sequence[Span]) -> AuditReads:
        assert directory == self.home / "audit"
        self.spans = list(spans)
        return self.audit

    def remember(self, tool: str, **arguments: Any) -> None:
        entry = TOOLS[tool]
        self.agent.now += 1_000
        self.agent.run(self._call(entry, arguments))

    async def _call(self, entry: Any, arguments: dict[str, Any]) -> None:
        await entry.call(self.agent.store, Principal(actor=self.agent.me), prepare(entry, arguments))

    def say(self, name: str, said: int) -> None:
        self.remember("memory.write", op="UPSERT_NODE", node={"id": name, "type": "fact", "attrs": {"said": said}})

    def commits(self) -> list[Commit]:
        return [entry.commit for entry in self.agent.log.read(Head())]

    def on(self, name: str) -> list[Commit]:
        return [each for each in self.commits() if each.document().get("id") == name]

    def sign(self) -> SignedMemory:
        entries = list(self.agent.log.read(Head()))
        projection = TilesProjection(self.home)
        projection.reset()
        projection.apply(entries, head_after(entries, Head()))
        signed = SignedMemory(self.home, entries)
        (tree_directory(self.home) / "checkpoint").write_bytes(signed.note())
        return signed

    def receipt(self, task: str | None = None, *, actor: str = "ann") -> MadeReceipt:
        self.sign()
        store, principal = self.agent.store, Principal(actor=actor)
        asked = make_receipt(store, principal, self.home, self.home / "audit", [KEY], task or self.task)
        return self.agent.run(asked)

    def done(self, *evidence: dict[str, Any]) -> Completion:
        self.agent.next(claim=True)
        self.agent.update(self.task, resolved=True, add_evidence=list(evidence or EVIDENCE))
        return self.receipt().completion


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Work]:
    with working() as agent:
        yield Work(agent, tmp_path, monkeypatch)


# -- the task


def test_a_receipt_tells_of_the_task_and_of_its_log_entry(work: Work) -> None:
    said = work.done()
    claimed, resolved = work.on(work.task)[1:]
    index = work.commits().index(resolved)
    assert said == Completion(
        task=TaskNamed(work.task, "refunds"),
        agent="ann",
        claimed_on=claimed.timestamp,
        resolved_on=resolved.timestamp,
        claims=[Claim("ann", claimed.timestamp)],
        evidence=said.evidence,
        cites=[],
        cites_unknown=[],
        policy=PolicyDecision(resolved.policy_version, "allow"),
        log=entry_of(ORIGIN, index, resolved.record_hash),
    )
    assert [(each.type, each.ref, each.digest) for each in said.evidence] == [
        ("git", EVIDENCE[0]["ref"], {"gitCommit": GIT}),
        ("note", "tried by hand", None),
    ]
    assert work.spans == [Span("ann", claimed.timestamp, resolved.timestamp)]


def test_the_files_of_a_receipt_verify(work: Work) -> None:
    work.done()
    made = work.receipt()
    index = made.completion.log.index
    assert made.task == work.task
    assert made.proof == inclusion_file(work.sign().inclusion(index))
    assert check_receipt(made.receipt, made.proof, TRUST, task=work.task).completion == made.completion
    one = json.dumps(with_proof(made)).encode()
    assert check_receipt(one, None, TRUST).completion == made.completion


def test_a_receipt_is_of_the_last_commit_on_the_task(work: Work) -> None:
    work.done()
    work.agent.update(work.task, add_evidence=[{"type": "note", "ref": "later"}])
    work.say("other", 1)
    said = work.receipt().completion
    resolved, later = work.on(work.task)[2:]
    assert (said.resolved_on, said.evidence[-1].ref) == (resolved.timestamp, "later")
    assert said.log == entry_of(ORIGIN, work.commits().index(later), later.record_hash)


def test_who_claims_it_again_and_who_resolves_it_is_told(work: Work) -> None:
    work.done()
    with work.agent.as_("bob"):
        properties = {"_claimed_by": "bob", "_claimed_at": "2020-01-01T00:00:00.000Z"}
        work.agent.update(work.task, resolved=False, properties=properties)
        work.agent.update(work.task, summary="refunds, again")
        work.agent.resolve(work.task)
    said = work.receipt().completion
    first, _, again, _, last = work.on(work.task)[1:]
    assert (said.agent, said.task.summary) == ("bob", "refunds, again")
    assert said.claims == [Claim("ann", first.timestamp), Claim("bob", again.timestamp)]
    assert (said.claimed_on, said.resolved_on) == (again.timestamp, last.timestamp)


def test_who_resolves_what_another_claimed_had_not_claimed_it(work: Work) -> None:
    work.agent.next(claim=True)
    with work.agent.as_("bob"):
        work.agent.resolve(work.task)
    said = work.receipt().completion
    assert (said.agent, said.claimed_on) == ("bob", None)
    assert [claim.agent for claim in said.claims] == ["ann"]
    assert said.cites_unknown == ["who resolved the task had not claimed it: what was read for it is not known"]
    assert work.spans == []


def test_a_long_life_is_read_to_its_end(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts, "_STEPS_READ", 2)
    for number in range(3):
        work.agent.update(work.task, summary=f"summary {number}")
    said = work.done()
    assert said.claims == [Claim("ann", work.on(work.task)[-2].timestamp)]
    assert said.resolved_on == work.on(work.task)[-1].timestamp


def test_a_life_in_which_something_was_redacted_goes_on(work: Work) -> None:
    work.remember("memory.write", op="REDACT_NODE", node_id=work.task, reason="asked", redacted_fields=["attrs.x"])
    said = work.done()
    assert (said.agent, len(said.claims)) == ("ann", 1)
    work.remember("memory.write", op="REDACT_NODE", node_id=work.task, reason="asked", redacted_fields=["attrs.x"])
    again = work.receipt().completion
    assert (again.resolved_on, again.claims) == (said.resolved_on, said.claims)
    assert again.log.index == len(work.commits()) - 1, "the redaction is the newest on it"


@pytest.mark.parametrize(
    ("task", "kind", "code", "message", "hint"),
    [
        (
            "n" * 90,
            NotFound,
            "node_not_found",
            f"there is no work node '{'n' * 80}'",
            "'tallystick work tree' shows them, with their ids",
        ),
        (
            "rule",
            NotFound,
            "node_not_found",
            "there is no work node 'rule'",
            "'tallystick work tree' shows them, with their ids",
        ),
    ],
)
def test_what_is_no_task_has_no_receipt(
    work: Work, task: str, kind: type[NotFound], code: str, message: str, hint: str
) -> None:
    with pytest.raises(kind) as error:
        work.receipt(task)
    assert (error.value.message, error.value.code, error.value.hint) == (message, code, hint)


def test_what_is_not_done_has_no_receipt(work: Work) -> None:
    with pytest.raises(Conflict) as error:
        work.receipt()
    assert (error.value.message, error.value.code, error.value.hint) == (
        f"'{work.task}' is not resolved: there is nothing to give a receipt of",
        "NOT_RESOLVED",
        f"'tallystick work done {work.task}' resolves it",
    )
    work.agent.update(work.task, resolved=True, add_evidence=[{"type": "dropped", "ref": "no"}])
    with pytest.raises(Conflict) as error:
        work.receipt()
    assert (error.value.message, error.value.code) == (
        f"'{work.task}' was dropped, not done: there is no receipt of that",
        "NOT_RESOLVED",
    )


# -- evidence


@pytest.mark.parametrize(
    ("entry", "evidence"),
    [
        ({"type": "note", "ref": "x"}, Evidence("note", "x")),
        (
            {"type": "t", "ref": "x", "agent": "ann", "timestamp": "26", "result": "PASSED", "digest": {"md5": "ab"}},
            Evidence("t", "x", "ann", "26", "PASSED", {"md5": "ab"}),
        ),
        ({"type": "git", "ref": f"at {GIT}"}, Evidence("git", f"at {GIT}", digest={"gitCommit": GIT})),
        ({"type": "git", "ref": OUTPUT}, Evidence("git", OUTPUT, digest={"gitCommit": OUTPUT})),
        ({"type": "note", "ref": f"at {GIT}"}, Evidence("note", f"at {GIT}")),
        ({"type": "git", "ref": "main"}, Evidence("git", "main")),
        (
            {"type": "test", "ref": f"output sha256:{OUTPUT}"},
            Evidence("test", f"output sha256:{OUTPUT}", digest={"sha256": OUTPUT}),
        ),
        (
            {"type": "git", "ref": f"sha256:{OUTPUT}", "digest": {"gitTree": "ab", "x": "no", "y": 7}},
            Evidence("git", f"sha256:{OUTPUT}", digest={"gitTree": "ab"}),
        ),
        ({"type": "git", "ref": GIT, "digest": "ab"}, Evidence("git", GIT, digest={"gitCommit": GIT})),
        ({"type": "git", "ref": GIT, "digest": {"x": "no"}}, Evidence("git", GIT, digest={"gitCommit": GIT})),
        ({}, Evidence("", "")),
    ],
)  # fmt: skip
def test_evidence_has_the_digest_that_was_recorded_or_is_named(entry: dict[str, Any], evidence: Evidence) -> None:
    assert evidence_of(entry) == evidence


# -- what was read for it


def read(resource: str, at: str) -> AuditRead:
    return AuditRead(resource, "ann", at, 1)


def test_what_was_read_is_cited_as_it_was_then(work: Work) -> None:
    work.remember("memory.write", op="UPSERT_EDGE", edge={"from": "rule", "rel": "about", "to": work.task})
    before = work.commits()[-1]
    work.say("rule", 2)
    work.say("later", 1)
    changed = {"from": "rule", "rel": "about", "to": work.task, "attrs": {"since": 2}}
    work.remember("memory.write", op="UPSERT_EDGE", edge=changed)
    rule, edge = work.on("rule")[0], before
    read_then = [read(name, before.timestamp) for name in ("rule", f"rule|about|{work.task}", "later")]
    skipped = [read(name, before.timestamp) for name in ("nobody", work.task, "p")]
    work.audit = AuditReads((*skipped, *read_then, read("rule", work.commits()[-1].timestamp)), 2, ("a gap",))
    said = work.done()
    now = work.on("rule")[1]
    assert said.cites == [
        Cited("rule", {"sha256": rule.record_hash}, rule.lamport),
        Cited(f"rule|about|{work.task}", {"sha256": edge.record_hash}, edge.lamport),
        Cited("rule", {"sha256": now.record_hash}, now.lamport),
    ]
    assert said.cites_unknown == ["a gap", "the audit log does not name what 2 searches and listings showed"]


class Hidden:
    def decide(self, request: Request) -> Decision:
        hidden = request.action is Action.READ and request.resource == "secret"
        return Decision(request.principal.actor == "ann" or not hidden, "", "test@1")


def test_what_may_not_be_read_is_not_cited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy: Policy = Hidden()
    with working(policy=policy) as agent:
        work = Work(agent, tmp_path, monkeypatch)
        work.say("secret", 1)
        work.say("open", 1)
        work.remember("memory.write", op="UPSERT_EDGE", edge={"from": "open", "rel": "about", "to": "secret"})
        work.remember("memory.write", op="UPSERT_EDGE", edge={"from": "open", "rel": "about", "to": "rule"})
        now = work.commits()[-1].timestamp
        names = ("secret", "open", "open|about|secret", "open|about|rule")
        work.audit = AuditReads(tuple(read(name, now) for name in names))
        assert [each.id for each in work.done().cites] == list(names)
        shown = [each.id for each in work.receipt(actor="eve").completion.cites]
        assert shown == ["open", "open|about|rule"], "nor an edge that leads there"


class Closed:
    """Whoever is not ann may read no task."""

    def decide(self, request: Request) -> Decision:
        return Decision(request.principal.actor == "ann" or request.action is Action.SEARCH, "not yours", "test@1")


def test_who_may_not_read_the_task_gets_no_receipt_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy: Policy = Closed()
    with working(policy=policy) as agent:
        work = Work(agent, tmp_path, monkeypatch)
        assert work.done().agent == "ann"
        with pytest.raises((Denied, NotFound)):
            work.receipt(actor="eve")


# -- files

MADE = MadeReceipt("t", b"receipt", b"proof", None)  # type: ignore[arg-type]  # what it says is not written


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("t-1_a.b", "t-1_a.b"),
        ("../../etc/passwd", "_.._etc_passwd"),
        ("..", "task"),
        ("", "task"),
        ("größe/ 1", "gr__e__1"),
        (".X", "X"),
        ("x" * 101, "x" * 100),
    ],
)
def test_a_receipt_is_two_files_that_lead_nowhere_else(tmp_path: Path, task: str, name: str) -> None:
    directory = tmp_path / "a" / "b"
    made = msgspec.structs.replace(MADE, task=task)
    for _ in range(2):
        paths = write_receipt(made, directory)
    assert paths == [directory / f"{name}.receipt.json", directory / f"{name}.tlog-proof"]
    assert [path.read_bytes() for path in paths] == [b"receipt", b"proof"]


def test_a_receipt_is_replaced_whole_and_where_a_link_led_nothing_is_written(tmp_path: Path) -> None:
    receipt, proof = write_receipt(MADE, tmp_path)
    (tmp_path / "handed-over").hardlink_to(receipt)
    (tmp_path / "elsewhere").write_bytes(b"of somebody")
    proof.unlink()
    proof.symlink_to(tmp_path / "elsewhere")
    write_receipt(msgspec.structs.replace(MADE, receipt=b"of today", proof=b"of today"), tmp_path)
    assert (receipt.read_bytes(), proof.read_bytes()) == (b"of today", b"of today")
    assert (tmp_path / "handed-over").read_bytes() == b"receipt"
    assert (tmp_path / "elsewhere").read_bytes() == b"of somebody"


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    path = tmp_path / "file" / "t.receipt.json"
    with pytest.raises(InvalidArgument) as error:
        write_receipt(MADE, tmp_path / "file")
    assert error.value.message.startswith(f"cannot write {path}: ")
    assert error.value.message.rpartition(": ")[2] in ("Not a directory", "File exists")
    assert error.value.code == "FILE_UNWRITABLE"
