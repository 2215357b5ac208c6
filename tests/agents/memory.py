"""What the memory of the repository holds before an agent comes: a plan, knowledge of a file, a decision."""

from __future__ import annotations

import asyncio

from tests.agents.workspace import Workspace
from tests.mcp_client import call, connect

GOAL = "Every refund reaches its customer within a day"
TASK = "Measure the limits of the payment gateway"
KNOWLEDGE = "The gateway deduplicates by order number, so trying again never pays twice."
DECISION = "Refunds are retried at most three times, then a person decides."
QUESTION = "How many times may refunds be retried?"
FILE = "src/refunds.py"


def fill(workspace: Workspace) -> None:
    asyncio.run(_fill(workspace))


async def _fill(workspace: Workspace) -> None:
    async with connect(workspace.memory, agent="ann", cwd=workspace.repository, environ=workspace.environ) as client:
        await call(client, "graph_open", project="shop", goal=GOAL)
        planned = await call(client, "graph_plan", nodes=[{"ref": "limits", "summary": TASK}])
        await call(
            client, "manage_graph", operation="create", entityType="atom", projectId="shop", name="Refunds",
            paths=[FILE], knowledge=KNOWLEDGE, createdByTaskId=planned["created"][0]["id"], pin=True,
        )  # fmt: skip
        node = {"id": "refund_retries", "type": "Decision", "attrs": {"says": DECISION}}
        await call(client, "memory_write", op="UPSERT_NODE", node=node, reason="agreed")
