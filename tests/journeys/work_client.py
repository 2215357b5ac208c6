"""Agents at work: each a real MCP client with a server process of its own, all on one base."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp.client import Client

from tests.mcp_client import call, connect, refused, server_pids


class Worker:
    def __init__(self, client: Client, agent: str, server: int = 0) -> None:
        self.client = client
        self.agent = agent
        self.server = server
        """The process that serves nobody else."""

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await call(self.client, f"graph_{tool}", **arguments)

    async def refused(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await refused(self.client, f"graph_{tool}", **arguments)

    async def plan(self, *nodes: dict[str, Any]) -> dict[str, str]:
        answer = await self.call("plan", nodes=[{"summary": node["ref"], **node} for node in nodes])
        return {each["ref"]: each["id"] for each in answer["created"]}

    async def next(self, project: str = "p", **arguments: Any) -> list[str]:
        answer = await self.call("next", project=project, **arguments)
        return [each["node"]["summary"] for each in answer["nodes"]]

    async def resolve(self, node_id: str, ref: str = "done") -> list[str]:
        """What that made actionable."""
        evidence = [{"type": "note", "ref": ref}]
        answer = await self.call("update", updates=[{"node_id": node_id, "resolved": True, "add_evidence": evidence}])
        return [node["summary"] for node in answer["newly_actionable"]]


@asynccontextmanager
async def worker(
    base: Path,
    agent: str | None = "ann",
    *,
    cwd: Path | None = None,
    toolsets: str = "work",
    mode: str = "auto",
    **environ: str,
) -> AsyncIterator[Worker]:
    others = set(server_pids())
    async with connect(base, "--toolsets", toolsets, agent=agent, mode=mode, cwd=cwd, environ=environ) as client:
        yield Worker(client, agent or "", next(iter(set(server_pids()) - others), 0))
