"""Agents with tasks, work and knowledge: real MCP clients, each with a server process of its own, on one base."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp.client import Client

from tests.mcp_client import call, connect, refused
from tests.promises import promise
from tests.toolsets.knowledge.agents import Checkout

NEEDED: dict[str, dict[str, Any]] = {
    "project": {},
    "feature": {"priority": "MEDIUM"},
    "task": {"priority": "MEDIUM", "complexity": 2},
}


class TasksClient:
    def __init__(self, client: Client) -> None:
        self.client = client

    async def data(self, tool: str, **arguments: Any) -> Any:
        return (await call(self.client, tool, **arguments))["data"]

    async def create(self, kind: str, **arguments: Any) -> dict[str, Any]:
        needed: dict[str, dict[str, Any]] = {
            "feature": {"priority": "MEDIUM"},
            "task": {"priority": "MEDIUM", "complexity": 2},
        }
        values = {"summary": "words", **needed.get(kind, {}), **arguments}
        found: dict[str, Any] = (await self.data("manage_container", operation="create", containerType=kind, **values))[
            kind
        ]
        return found

    async def get(self, kind: str, entity_id: str, **arguments: Any) -> Any:
        return await self.data("query_container", operation="get", containerType=kind, id=entity_id, **arguments)

    async def advance(self, kind: str, entity_id: str) -> Any:
        version = (await self.get(kind, entity_id))[kind]["version"]
        return await self.data("advance", containerType=kind, id=entity_id, version=version)


@asynccontextmanager
async def tasks_client(
    base: Path, agent: str, *, cwd: Path | None = None, **environ: str
) -> AsyncIterator[TasksClient]:
    async with connect(base, "--toolsets", "tasks,work,knowledge", agent=agent, cwd=cwd, environ=environ) as client:
        yield TasksClient(client)


@promise("tasks, story", "discovery, planning and execution, from the first question to the changelog")
async def test_discovery_planning_and_execution_from_the_first_question_to_the_changelog(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path / "repository")
    base = tmp_path / "base"
    async with tasks_client(base, "planner", cwd=checkout.root) as planner:
        project = await planner.create("project", name="shop")
        feature = await planner.create("feature", name="Checkout", projectId=project["id"])
        task = await planner.create("task", title="Speed", featureId=feature["id"], priority="HIGH")
        later = await planner.create("task", title="Polish", featureId=feature["id"])
        await planner.data("block", containerType="task", id=later["id"], version=1, blockedBy=task["id"])
        await planner.data(
            "manage_sections", operation="add", entityType="TASK", entityId=task["id"], title="Context Files",
            usageDescription="what to read first", content="- src/checkout/page.ts\n- README.md",
        )  # fmt: skip
        atom = (
            await planner.data(
                "manage_graph", operation="create", entityType="atom", projectId=project["id"], name="Checkout",
                paths=["src/checkout/**"], knowledge="The cart is shared", createdByTaskId=task["id"], pin=True,
            )
        )["atom"]  # fmt: skip
    checkout.write("src/checkout/page.ts", "two")
    async with tasks_client(base, "worker", cwd=checkout.root) as worker:
        handed = (await worker.data("get_next_task", projectId=project["id"]))["task"]
        assert handed["id"] == task["id"]
        known = (await worker.get("task", task["id"], includeGraphContext=True))["graphContext"]
        assert [(each["id"], each["fresh"]) for each in known["orphanAtoms"]] == [(atom["id"], False)]
        assert known["unmatchedPaths"] == ["README.md"]
        started = await worker.advance("task", task["id"])
        assert started["featureTransition"]["to"] == "ACTIVE"
        done = await worker.advance("task", task["id"])
        assert done["unblockedEntities"] == [{"id": later["id"], "type": "task"}]
        assert done["graphHints"]["atoms"] == [{"id": atom["id"], "name": "Checkout"}]
        await worker.data(
            "manage_graph", operation="update", entityType="atom", id=atom["id"], version=1,
            knowledge="The page is fast now", knowledgeMode="append", lastTaskId=task["id"],
        )  # fmt: skip
        await worker.data(
            "manage_changelog", operation="append", parentType="atom", parentId=atom["id"], taskId=task["id"],
            summary="made it fast",
        )  # fmt: skip
        await worker.advance("task", later["id"])
        ended = await worker.advance("task", later["id"])
        assert ended["featureTransition"]["to"] == "CLOSED"


@promise("tasks, race", "of two processes with one version one is told CONFLICT")
async def test_two_processes_race_on_one_version_and_one_is_told(tmp_path: Path) -> None:
    async with tasks_client(tmp_path, "ann") as ann, tasks_client(tmp_path, "bob") as bob:
        task = await ann.create("task", title="one")
        asked = {"containerType": "task", "id": task["id"], "version": 1}
        assert (await ann.data("advance", **asked))["task"]["status"] == "ACTIVE"
        refusal = await refused(bob.client, "advance", **asked)
        assert (refusal["success"], refusal["error"]["code"]) == (False, "CONFLICT")
        assert refusal["error"]["details"]["currentVersion"] == 2


@promise("tasks, work", "a plan made as work is carried out as tasks and back")
async def test_a_plan_made_as_work_is_carried_out_as_tasks_and_back(tmp_path: Path) -> None:
    async with tasks_client(tmp_path, "ann") as ann, tasks_client(tmp_path, "bob") as bob:
        await call(ann.client, "graph_open", project="bridge", goal="Cross")
        nodes = [{"ref": "survey", "summary": "Survey"}, {"ref": "build", "summary": "Build", "depends_on": ["survey"]}]
        made = (await call(ann.client, "graph_plan", nodes=nodes))["created"]
        survey, build = (each["id"] for each in made)
        assert (await bob.data("get_next_task"))["task"]["id"] == survey
        await bob.advance("task", survey)
        done = await bob.advance("task", survey)
        assert done["unblockedEntities"] == [{"id": build, "type": "task"}]
        project = (await bob.data("query_container", operation="search", containerType="project"))["items"][0]
        assert project["name"] == "bridge"
        urgent = await bob.create("task", title="Ropes", priority="HIGH", projectId=project["id"])
        handed = await call(ann.client, "graph_next", project="bridge", count=5)
        assert [each["node"]["id"] for each in handed["nodes"]] == [urgent["id"], build]


@promise("tasks, home", "pipelines of the home directory are used, and kept in the log")
async def test_pipelines_of_the_home_directory_are_used_and_then_kept(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    steps = "[NEW, ACTIVE, TO_BE_TESTED, CLOSED]"
    (home / "config.yaml").write_text(f'version: "3.0"\npipelines:\n  task: {steps}\n')
    async with tasks_client(tmp_path, "ann", TASK_ORCHESTRATOR_HOME=str(home)) as ann:
        task = await ann.create("task", title="one")
    async with tasks_client(tmp_path, "ann") as ann:
        await ann.advance("task", task["id"])
        assert (await ann.advance("task", task["id"]))["transition"]["to"] == "TO_BE_TESTED"
