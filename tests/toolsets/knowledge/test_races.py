"""Two processes on one base: of two who change one version, one is told CONFLICT, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

from tallystick import app
from tallystick.commits import Draft, Operation, Verb
from tallystick.config import load
from tallystick.policy import Action, Principal
from tallystick.server.dispatch import prepare
from tallystick.state.state import State
from tests.promises import promise
from tests.toolsets.knowledge.agents import SHOP, TASK
from tests.toolsets.knowledge.racer import MANAGE, QUERY

RACER = Path(__file__).with_name("racer.py")
ROUNDS = 40
WHO = Principal(actor="tester")


async def prepared(base: Path) -> str:
    nodes = ((SHOP, "work/project", {"name": "shop", "root": "r"}), (TASK, "work/node", {"project": SHOP}))
    made = tuple(Operation(Verb.UPSERT_NODE, {"id": i, "type": kind, "attrs": attrs}) for i, kind, attrs in nodes)

    def propose(state: State, read_filter: object) -> Draft:
        return Draft(made, actor="tester", tool="test")

    said = {"operation": "create", "entityType": "atom", "projectId": SHOP, "createdByTaskId": TASK}
    async with app.opened(load({"base": base}, environ={})) as store:
        await store.write(WHO, Action.WRITE, propose)
        answer = await MANAGE.call(store, WHO, prepare(MANAGE, said | {"name": "A", "paths": ["a"]}))
        return str(answer.data["data"]["atom"]["id"])


async def reread(base: Path, atom_id: str) -> tuple[int, str]:
    async with app.opened(load({"base": base}, environ={})) as store:
        asked = {"operation": "get", "entityType": "atom", "id": atom_id}
        atom = (await QUERY.call(store, WHO, prepare(QUERY, asked))).data["data"]["atom"]
        return atom["version"], atom["knowledge"]


@promise("K41, processes", "the same between processes, and nothing is lost")
def test_of_two_processes_on_one_version_one_is_told_conflict_and_nothing_is_lost(tmp_path: Path) -> None:
    atom_id = asyncio.run(prepared(tmp_path))
    racers = [
        subprocess.Popen(
            [sys.executable, RACER, tmp_path, atom_id, name, str(ROUNDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("a", "b")
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    told = [json.loads(racer.communicate()[0]) for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0]
    won = sorted(version for rounds in told for outcome, version in rounds if outcome == "success")
    lost = [outcome for rounds in told for outcome, _ in rounds if outcome != "success"]
    assert won == list(range(2, len(won) + 2)), "each version was made once"
    assert set(lost) <= {"CONFLICT"}
    version, knowledge = asyncio.run(reread(tmp_path, atom_id))
    assert version == len(won) + 1
    assert len(re.findall(r"^[ab]\d+$", knowledge, re.MULTILINE)) == len(won)
