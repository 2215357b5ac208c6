"""The task that knowledge comes from: named, or the only one that the caller has claimed (K13)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.app import knowledge_context
from tallystick.config import Settings
from tallystick.engine.store import Store
from tallystick.errors import InvalidArgument, NotFound
from tallystick.extensions.tasks.toolset import toolset as tasks_toolset
from tallystick.log import Head
from tallystick.policy import Decision, Principal, Request
from tallystick.server.dispatch import prepare
from tallystick.toolsets.knowledge import make_tool_context, make_toolset
from tallystick.toolsets.knowledge.context import TaskMaker
from tallystick.toolsets.work import toolset as work_toolset
from tests.promises import promise
from tests.toolsets.agent import Agent, working

Said = dict[str, Any]
HOUR = 3_600_000


class Worker:
    """An agent with an open project and nothing in it."""

    def __init__(self, agent: Agent, tasks_are_made_by: TaskMaker | None = "graph_plan") -> None:
        self.agent = agent
        tool_context = make_tool_context(clock=lambda: agent.now, tasks_are_made_by=tasks_are_made_by)
        toolsets = (
            make_toolset(tool_context),
            work_toolset(clock=lambda: agent.now),
            tasks_toolset(clock=lambda: agent.now),
        )
        self.tools = {tool.name: tool for toolset in toolsets for tool in toolset.tools}
        self.call("graph_open", project="shop", goal="sell")

    def call(self, tool: str, **arguments: Any) -> Said:
        entry = self.tools[tool]
        prepared = prepare(entry, arguments)
        return self.agent.run(entry.call(self.agent.store, self.agent.principal, prepared)).data

    def claim(self, project: str = "shop", count: int = 1) -> list[str]:
        given = self.call("graph_next", project=project, claim=True, count=count)["nodes"]
        return [each["node"]["id"] for each in given]

    def plan(self, *summaries: str, project: str = "shop") -> None:
        root = self.call("graph_open", project=project)["root"]["id"]
        self.call("graph_plan", nodes=[{"ref": each, "parent_ref": root, "summary": each} for each in summaries])

    def create(self, **arguments: Any) -> Said:
        said = {"projectId": "shop", "name": "Checkout", "paths": ["src/**"]}
        made = self.call("manage_graph", operation="create", entityType="atom", **said | arguments)
        atom: Said = made["data"]["atom"]
        return atom

    def refusal(self) -> InvalidArgument:
        with pytest.raises(InvalidArgument) as refused:
            self.create()
        return refused.value


@pytest.fixture
def worker() -> Iterator[Worker]:
    with working() as agent:
        yield Worker(agent)


@promise("K13, one claim", "the only claim is meant where no task is named")
def test_the_only_claim_is_meant_where_no_task_is_named(worker: Worker) -> None:
    worker.plan("a", "b")
    (claimed,) = worker.claim()
    atom = worker.create()
    assert (atom["createdByTaskId"], atom["lastTaskId"]) == (claimed, claimed)
    newest = list(worker.agent.log.read(Head()))[-1].commit
    assert newest.run_context == {"job_id": claimed}


@promise("K13, no claim", "without a claim the call that makes a task is told, and works")
@pytest.mark.parametrize("tool", ["graph_plan", "manage_container"])
def test_without_a_claim_the_call_that_makes_a_task_is_told_and_works(tool: TaskMaker) -> None:
    with working() as agent:
        worker = Worker(agent, tool)
        error = worker.refusal()
        assert error.message == "createdByTaskId is required for create operation"
        name, _, rest = (error.hint or "").partition(" ")
        assert name == tool
        arguments, end = json.JSONDecoder().raw_decode(rest)
        assert rest[end:] == " makes a task; one that you have claimed is meant by itself"
        worker.call(tool, **arguments)
        (claimed,) = worker.claim()
        assert worker.create()["createdByTaskId"] == claimed


@pytest.mark.parametrize(
    ("settings", "tool"),
    [
        ({}, "graph_plan"),
        ({"toolsets": ("knowledge", "tasks")}, "manage_container"),
        ({"toolsets": ("all",)}, "graph_plan"),
        ({"toolsets": ("all",), "tools": ("manage_graph", "manage_container")}, "manage_container"),
        ({"toolsets": ("knowledge",)}, None),
        ({"tools": ("manage_graph",)}, None),
    ],
)
def test_only_a_tool_that_is_offered_is_said_to_make_tasks(tmp_path: Path, settings: Said, tool: str | None) -> None:
    assert knowledge_context(Settings(base=tmp_path, **settings)).tasks_are_made_by == tool


@pytest.mark.parametrize(
    ("maker", "told"),
    [
        ("graph_plan", "graph_open lists them and makes one"),
        ("manage_container", "query_container lists them, manage_container makes one"),
        (None, "no tool of this server makes them: start it with work among its --toolsets, then graph_open does"),
    ],
)
@pytest.mark.parametrize("project", [{}, {"projectId": "Shopp"}])
def test_only_a_tool_that_is_offered_is_said_to_know_projects(
    maker: TaskMaker | None, told: str, project: dict[str, str]
) -> None:
    with working() as agent:
        worker = Worker(agent, maker)
        for tool, asked in (
            ("query_graph", {"operation": "context", "paths": "a"}),
            ("query_graph", {"operation": "search", "entityType": "atom"}),
            ("manage_graph", {"operation": "create", "entityType": "molecule", "name": "Till"}),
        ):
            with pytest.raises((InvalidArgument, NotFound)) as refused:
                worker.call(tool, **asked, **project)
            assert refused.value.hint == f"projectId is a project's name or id: {told}"


def test_where_no_tool_makes_tasks_the_toolset_that_does_is_named() -> None:
    with working() as agent:
        worker = Worker(agent, None)
        assert "work among its --toolsets" in (worker.refusal().hint or "")
        with pytest.raises(NotFound) as refused:
            worker.create(createdByTaskId="nobody")
        assert "work among its --toolsets" in (refused.value.hint or "")


def test_a_changelog_entry_without_a_task_is_told_how_to_come_by_one(worker: Worker) -> None:
    entry = {"operation": "append", "parentType": "atom", "parentId": "c" * 32}
    with pytest.raises(InvalidArgument) as refused:
        worker.call("manage_changelog", **entry)
    assert refused.value.problems == [
        "taskId is required for append operation",
        "summary is required for append operation",
    ]
    assert refused.value.hint == "name the task that this comes from; graph_plan makes tasks"
    with pytest.raises(InvalidArgument) as refused:
        worker.call("manage_changelog", **entry, taskId="y")
    assert refused.value.hint is None


@promise("K13, several claims", "with several claims the error names them")
def test_with_several_claims_the_error_names_them(worker: Worker) -> None:
    worker.plan("a", "b", "c")
    claimed = worker.claim(count=2)
    error = worker.refusal()
    assert error.message == (
        f"createdByTaskId is required for create operation: you have claimed {claimed[0]}, {claimed[1]}"
    )
    assert error.details == {"claims": claimed}
    assert worker.create(createdByTaskId=claimed[1])["createdByTaskId"] == claimed[1]
    worker.call("graph_update", updates=[{"node_id": claimed[0], "resolved": True}])
    assert worker.create()["createdByTaskId"] == claimed[1], "what is done is not held any more"


def test_claims_of_others_of_other_projects_and_of_old_do_not_count(worker: Worker) -> None:
    worker.plan("a", "b")
    worker.call("graph_open", project="blog")
    worker.plan("c", project="blog")
    worker.claim("blog")
    assert "you have claimed" not in worker.refusal().message
    me, worker.agent.principal = worker.agent.principal, Principal(actor="other")
    worker.claim()
    worker.agent.principal = me
    assert "you have claimed" not in worker.refusal().message
    (claimed,) = worker.claim()
    assert worker.create()["createdByTaskId"] == claimed
    worker.agent.now += HOUR
    assert "you have claimed" not in worker.refusal().message


def test_a_claim_on_what_may_not_be_read_is_not_named() -> None:
    class Blind:
        """From some moment on nobody sees these."""

        hidden: frozenset[str] = frozenset()

        def decide(self, request: Request) -> Decision:
            return Decision(request.resource not in self.hidden, "so it is", "1", cacheable=False)

    with working() as agent:
        policy = Blind()
        agent.store = Store(agent._open, policy)
        worker = Worker(agent)
        worker.plan("a", "b")
        claimed = worker.claim(count=2)
        policy.hidden = frozenset(claimed[:1])
        assert worker.create()["createdByTaskId"] == claimed[1]
