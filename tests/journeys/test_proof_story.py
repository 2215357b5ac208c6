"""Done, handed over as a file: an agent resolves a task with a receipt, and strangers believe it without the memory."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

import verify_standalone
from tallystick.config import CHECKPOINT_KEY_VARIABLE
from tests.command_line import CommandLine, commits_in
from tests.extensions.proofs.test_receipts import dsse_accepts, in_toto_accepts
from tests.foreign.test_tlog import BIN, asked
from tests.journeys.work_client import Worker, worker
from tests.mcp_client import call, connect, refused
from tests.promises import promise
from tests.signed_memory import KEY, ORIGIN

COMMIT = "4f2c9d" + "0" * 34
EVIDENCE = [{"type": "git", "ref": f"https://example.org/shop/commit/{COMMIT}"}]


def signing(base: Path, vkey: Path | None = None, receipts: str = "") -> AbstractAsyncContextManager[Worker]:
    """Ann, whose server signs; `vkey`: where everybody finds the key to believe."""
    if vkey is not None:
        vkey.write_text(f"{KEY.verifier}\n")
    return worker(
        base,
        toolsets="work,memory",
        TALLYSTICK_CHECKPOINT_PRIVATE_KEY=KEY.written(),
        TALLYSTICK_RECEIPTS=receipts,
    )


async def planned(ann: Worker, *refs: str) -> dict[str, str]:
    await call(ann.client, "memory.write", op="UPSERT_NODE", node={"id": "rule", "type": "fact", "attrs": {"days": 7}})
    await ann.call("open", project="p", goal="shop")
    return await ann.plan(*({"ref": ref} for ref in refs))


def resolving(node_id: str, *evidence: dict[str, str]) -> dict[str, Any]:
    return {"node_id": node_id, "resolved": True, **({"add_evidence": list(evidence)} if evidence else {})}


def standalone(*words: object) -> bool:
    """In a directory that has nothing of ours, by whatever Python there is."""
    command = [sys.executable, "-I", verify_standalone.__file__, *map(str, words)]
    ran = subprocess.run(command, capture_output=True, check=False, text=True)
    assert ran.returncode in (0, 1), ran.stderr
    return ran.returncode == 0


@promise("receipt, agents", "an agent hands over that it is done, and strangers believe it")
async def test_an_agent_hands_over_that_it_is_done_and_strangers_believe_it(tmp_path: Path) -> None:
    base, stranger = tmp_path / "base", tmp_path / "stranger"
    stranger.mkdir()
    async with signing(base, stranger / "vkey") as ann:
        task = (await planned(ann, "refunds"))["refunds"]
        assert await ann.next(claim=True) == ["refunds"]
        await call(ann.client, "memory.read", entity_id="rule")
        answer = await ann.call("update", updates=[resolving(task, *EVIDENCE)], receipt=True)
        (handed,) = answer["receipts"]
        (proved,) = (await call(ann.client, "memory.lineage", entity_id="rule", proof=True))["lineage"]
    assert handed["node_id"] == task
    envelope = handed["receipt"]
    (stranger / "done.json").write_text(json.dumps(envelope))
    (stranger / "done.tlog-proof").write_text(envelope["tlogProof"])
    (stranger / "rule.tlog-proof").write_text(proved["proof"])
    vkey = stranger / "vkey"

    shell = CommandLine(tmp_path / "nowhere")
    checked = await asyncio.to_thread(
        shell.main, "receipt", "verify", stranger / "done.json", "--vkey", vkey, "--task", task, "--json"
    )
    said = checked.json["completion"]
    assert (checked.code, checked.json["sound"], said["agent"]) == (0, True, "ann")
    # What was read a moment before is among it.
    assert [each["id"] for each in said["cites"]] == ["rule"]
    assert said["evidence"][0]["digest"] == {"gitCommit": COMMIT}
    for name in ("done.tlog-proof", "rule.tlog-proof"):
        assert standalone("--vkey", vkey, stranger / name)
        other = (stranger / name).read_text().replace("index ", "index 1", 1)
        (stranger / "other").write_text(other)
        assert not standalone("--vkey", vkey, stranger / "other")
    assert dsse_accepts(envelope, KEY)
    assert in_toto_accepts(envelope)
    if (BIN / "aics-tlog").exists():
        (stranger / "note").write_text(envelope["tlogProof"].partition("\n\n")[2])
        assert asked("verify-checkpoint", "--vkey-file", vkey, "--note", stranger / "note")


@promise("receipt, files", "with a directory for receipts an agent is told of two files")
async def test_with_a_directory_for_receipts_an_agent_is_told_of_two_files(tmp_path: Path) -> None:
    directory = tmp_path / "receipts"
    async with signing(tmp_path / "base", tmp_path / "vkey", str(directory)) as ann:
        tasks = await planned(ann, "one", "two")
        updates = [resolving(each, *EVIDENCE) for each in tasks.values()]
        answer = await ann.call("update", updates=updates, receipt=True)
        # Again, for one that was lost.
        again = await ann.call("update", updates=[resolving(tasks["one"])], receipt=True)
    assert [each["node_id"] for each in answer["receipts"]] == list(tasks.values())
    assert again["receipts"] == answer["receipts"][:1]
    shell = CommandLine(tmp_path / "nowhere")
    for each in answer["receipts"]:
        assert [Path(file).parent for file in each["files"]] == [directory] * 2
        checked = await asyncio.to_thread(
            shell.main, "receipt", "verify", each["files"][0], "--vkey", tmp_path / "vkey", "--task", each["node_id"]
        )
        assert checked.code == 0


@promise("receipt, none", "a receipt that could not be is refused before anything is written")
async def test_a_receipt_that_could_not_be_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    base = tmp_path / "base"
    async with worker(base, toolsets="work,memory") as ann:
        task = (await planned(ann, "one"))["one"]
        written = len(commits_in(base / "_system" / "log"))
        unsigned = await ann.refused("update", updates=[resolving(task, *EVIDENCE)], receipt=True)
        assert (unsigned["error"], "keys new" in unsigned["hint"]) == ("no_checkpoint_key", True)
        proofless = await refused(ann.client, "memory.lineage", entity_id="rule", proof=True)
        assert proofless["error"] == "NO_CHECKPOINT"
    async with signing(base) as ann:
        for update, said in (
            (resolving(task), "no evidence"),
            ({"node_id": task, "add_evidence": EVIDENCE}, "resolved: true"),
            (resolving(task, {"type": "dropped", "ref": "no"}), "dropped"),
        ):
            assert said in (await ann.refused("update", updates=[update], receipt=True))["message"]
        many = [resolving(f"n{number}", *EVIDENCE) for number in range(11)]
        assert "at most 10" in (await ann.refused("update", updates=many, receipt=True))["message"]
        for form in ({"depth": "summary"}, {"format": "csv"}):
            answer = await ann.client.call_tool("memory.lineage", {"entity_id": "rule", "proof": True, **form})
            assert answer.is_error
    assert len(commits_in(base / "_system" / "log")) == written


@promise("receipt, tenants", "every tenant signs as its own log")
@pytest.mark.parametrize("tenant", ["default", "acme"])
async def test_over_http_the_receipt_is_in_the_answer_and_every_tenant_signs_as_its_own(
    tmp_path: Path, tenant: str
) -> None:
    arguments, environ = ("--toolsets", "work", "--tenant", tenant), {CHECKPOINT_KEY_VARIABLE: KEY.written()}
    async with connect(tmp_path / "base", *arguments, transport="http", agent="ann", environ=environ) as client:
        ann = Worker(client, "ann")
        await ann.call("open", project="p", goal="shop")
        task = (await ann.plan({"ref": "one"}))["one"]
        (handed,) = (await ann.call("update", updates=[resolving(task, *EVIDENCE)], receipt=True))["receipts"]
    name = ORIGIN if tenant == "default" else f"{ORIGIN}/{tenant}"
    assert f"\n\n{name}\n" in handed["receipt"]["tlogProof"]
