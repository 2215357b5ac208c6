"""A memory in a repository, written by the real tools, and hooks that are told what clients tell them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tallystick import app, config
from tallystick.extensions.hooks.said import answer
from tallystick.projections.follower import Follower
from tallystick.projections.log_reader import LogReader
from tallystick.projections.registry import Place

SESSION = "5e55-10"


class Memory:
    def __init__(self, repository: Path, *, agent: str = "grace", tenant: str = "default") -> None:
        self.repository = repository
        self.settings = config.load(
            {
                "base": repository / ".git" / "tallystick",
                "agent_identity": agent,
                "tenant": tenant,
                "repo": str(repository),
            },
            environ={},
        )

    @property
    def home(self) -> Path:
        return self.settings.home

    def by(self, agent: str) -> Memory:
        return Memory(self.repository, agent=agent, tenant=self.settings.tenant)

    def call(self, tool: str, **arguments: Any) -> Any:
        async def called() -> Any:
            context = app.operation_context(self.settings)
            async with context.open_store() as store:
                return (await context.prepare(tool, arguments)(store)).data

        return msgspec.to_builtins(asyncio.run(called()))

    def note(self, node_id: str, kind: str = "Decision", /, **attrs: Any) -> None:
        self.call("memory.write", op="UPSERT_NODE", node={"id": node_id, "type": kind, "attrs": attrs})

    def atom(self, name: str, knowledge: str, *paths: str, task: str) -> str:
        """In the project `shop`."""
        made = self.call(
            "manage_graph", operation="create", entityType="atom", projectId="shop", name=name, knowledge=knowledge,
            paths=json.dumps(paths), createdByTaskId=task,
        )  # fmt: skip
        found: str = made["data"]["atom"]["id"]
        return found

    def follow(self, *names: str) -> None:
        """What a server does all the time."""
        follower = Follower(Place(self.home, LogReader(lambda: app.open_log(self.settings))))
        for name in names or ("sql", "text"):
            follower.worker(name).catch_up()
        follower.close()

    # -- hooks

    def hook(self, event: str, client: str = "claude", /, **said: Any) -> Any:
        """What is printed, read as JSON if it is; in this process."""
        told = {"session_id": SESSION, "cwd": str(self.repository), **said}
        with self._environment():
            printed = answer([event, "--client", client], json.dumps(told).encode())
        return json.loads(printed) if printed.startswith("{") else printed

    def text(self, event: str, client: str = "claude", /, **said: Any) -> str:
        """What the agent is told."""
        found = self.hook(event, client, **said)
        if isinstance(found, str):
            return found
        text: str = found.get("reason") or found["hookSpecificOutput"]["additionalContext"]
        return text

    def read(self, path: str, **said: Any) -> str:
        """What is said before a file is read."""
        return self.text("before-tool", tool_name="Read", tool_input={"file_path": str(self.repository / path)}, **said)

    @contextmanager
    def _environment(self) -> Iterator[None]:
        before = dict(os.environ)
        kept = {name: value for name, value in before.items() if not name.startswith(("TALLYSTICK_", "GRAPH_", "BASE"))}
        os.environ.clear()
        os.environ.update(kept, TALLYSTICK_TENANT=self.settings.tenant)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def make_repository(directory: Path) -> Path:
    """With one file that is committed, and a place for its memory."""
    directory.mkdir(parents=True)
    git(directory, "init", "--quiet")
    (directory / "src").mkdir()
    (directory / "src" / "cart.ts").write_text("export const cart = 1\n")
    git(directory, "add", ".")
    git(directory, "commit", "--quiet", "-m", "one")
    (directory / ".git" / "tallystick").mkdir()
    return directory


def git(directory: Path, *words: str) -> None:
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *words], cwd=directory, check=True, capture_output=True)


HOOK = [sys.executable, "-c", "from tallystick.extensions.hooks.main import main; main()"]


def run_hook(*words: str, stdin: bytes = b"", cwd: Path, **environ: str) -> subprocess.CompletedProcess[bytes]:
    """As a client starts it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TALLYSTICK_", "BASE_PATH"))}
    # On a busy machine the limit would be reached before there is anything to be seen.
    environment = {**kept, "TALLYSTICK_HOOK_SECONDS": "60", **environ}
    return subprocess.run([*HOOK, *words], input=stdin, capture_output=True, cwd=cwd, env=environment, check=False)
