"""A server leaves what has far to go to processes of its own."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from queue import Queue
from subprocess import Popen

import pytest

from tallystick import app
from tallystick.app import serving
from tallystick.app.tenant_projections import AllProjections
from tallystick.config import load
from tallystick.log.files import FilesLog
from tallystick.operations.child_command import start_command
from tallystick.projections import sql, worker
from tests import timeouts
from tests.commits_by_hand import filled


async def test_each_is_built_by_a_command_of_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "FAR_COMMITS", 10)
    log = FilesLog(tmp_path / "_system")
    filled(log, 20)
    log.close()
    ended: Queue[tuple[tuple[str, ...], int]] = Queue()

    def start(*words: str) -> Popen[bytes]:
        running = start_command(*words)
        ended.put((words, running.wait()))
        return running

    monkeypatch.setattr(serving, "start_command", start)
    async with app.served(load({"base": tmp_path}, environ={})):
        found = [await asyncio.to_thread(ended.get, timeout=timeouts.SECONDS) for _ in range(3)]
    place = "--base", str(tmp_path), "--tenant", "default"
    assert sorted(found) == [(("catch-up", name, *place), 0) for name in ("sql", "text", "views")]
    with sqlite3.connect(tmp_path / "graph.db") as db:
        assert json.loads(db.execute(sql.POSITION).fetchone()[0])["lamport"] == 20


def test_no_other_process_takes_a_named_database_for_another_tenants(tmp_path: Path) -> None:
    def elsewhere(tenant: str, name: str) -> Popen[bytes]:
        raise AssertionError

    settings = load({"base": tmp_path}, environ={})
    projections = AllProjections(
        settings, open_log=app.open_log, database=tmp_path / "elsewhere.db", elsewhere=elsewhere
    )
    assert projections.of("default").follower.place.elsewhere is not None
    assert projections.of("other").follower.place.elsewhere is None
