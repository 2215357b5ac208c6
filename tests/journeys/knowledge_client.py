"""Developers at work in a repository: each a real MCP client with a server process of its own, all on one base."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp.client import Client

from tests.mcp_client import call, connect, refused

Said = dict[str, Any]


class Developer:
    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> Said:
        return await call(self.client, tool, **arguments)

    async def data(self, tool: str, operation: str, **arguments: Any) -> Said:
        found: Said = (await self.call(tool, operation=operation, **arguments))["data"]
        return found

    async def refused(self, tool: str, operation: str, **arguments: Any) -> Said:
        error: Said = (await refused(self.client, tool, operation=operation, **arguments))["error"]
        return error

    async def plan(self, project: str, *nodes: Said) -> list[str]:
        """Their ids."""
        await self.call("graph_open", project=project)
        planned = [{"ref": str(number), **node} for number, node in enumerate(nodes)]
        return [each["id"] for each in (await self.call("graph_plan", nodes=planned))["created"]]

    async def next(self, project: str) -> Said:
        (given,) = (await self.call("graph_next", project=project, claim=True))["nodes"]
        found: Said = given
        return found

    async def resolve(self, node_id: str, ref: str) -> Said:
        evidence = [{"type": "note", "ref": ref}]
        return await self.call(
            "graph_update", updates=[{"node_id": node_id, "resolved": True, "add_evidence": evidence}]
        )

    async def context(self, project: str, *paths: str) -> Said:
        return await self.data("query_graph", "context", projectId=project, paths=",".join(paths))

    async def create(self, kind: str, **values: Any) -> Said:
        found: Said = (await self.data("manage_graph", "create", entityType=kind, **values))[kind]
        return found


@asynccontextmanager
async def developer(base: Path, agent: str, *, repo: Path, **environ: str) -> AsyncIterator[Developer]:
    async with connect(base, "--toolsets", "all", agent=agent, cwd=repo, environ=environ) as client:
        yield Developer(client)
