"""One of several processes that update the same atom: python racer.py BASE ATOM NAME ROUNDS, told to go by a line."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from tallystick import app
from tallystick.config import load
from tallystick.errors import TallystickError
from tallystick.policy import Principal
from tallystick.server.dispatch import prepare
from tallystick.toolsets.envelope import error_shape
from tallystick.toolsets.knowledge import TOOLSET

QUERY, MANAGE, _ = TOOLSET.tools


async def race(base: Path, atom_id: str, name: str, rounds: int) -> list[list[object]]:
    """Of each round: what became of it, and the version that was told."""
    told: list[list[object]] = []
    who = Principal(actor=name)
    async with app.opened(load({"base": base}, environ={})) as store:
        await store.partition(who)
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(rounds):
            asked = {"operation": "get", "entityType": "atom", "id": atom_id}
            atom = (await QUERY.call(store, who, prepare(QUERY, asked))).data["data"]["atom"]
            change = {"version": atom["version"], "knowledge": f"{name}{number}", "knowledgeMode": "append"}
            try:
                done = await MANAGE.call(store, who, prepare(MANAGE, asked | {"operation": "update"} | change))
                told.append(["success", done.data["data"]["atom"]["version"]])
            except TallystickError as error:
                said = error_shape(error)["error"]
                told.append([said["code"], said["details"]["currentVersion"]])
    return told


if __name__ == "__main__":
    print(json.dumps(asyncio.run(race(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))))
