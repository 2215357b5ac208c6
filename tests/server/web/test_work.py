"""`/work`: projects, and of one of them the board and the tree."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick.clock import wall_clock
from tallystick.operations.work_board import CARDS_MAX, TREE_MAX, list_projects, show_project
from tallystick.toolsets.claims import Claims
from tests.server.web.pages import Pages, serving_pages
from tests.server.web.policies import owners_policy

pytestmark = pytest.mark.anyio

HOUR = 3_600_000


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Pages]:
    async with serving_pages(tmp_path / "base", policy=owners_policy(tmp_path)) as pages:
        yield pages


async def plan(pages: Pages, actor: str, *tasks: dict[str, Any], project: str = "p") -> dict[str, str]:
    """The ids by ref, and that of the root."""
    opened = await pages.write(actor, "graph_open", project=project, goal="Ship it")
    root = opened["root"]["id"]
    nodes = [{"parent_ref": root, "summary": task["ref"], **task} for task in tasks]
    made = await pages.write(actor, "graph_plan", nodes=nodes) if nodes else {"created": []}
    return {each["ref"]: each["id"] for each in made["created"]} | {"root": root}


async def claim(pages: Pages, actor: str, key: str) -> None:
    given = await pages.write(actor, "graph_next", project="p", filter={"key": key}, claim=True)
    assert len(given["nodes"]) == 1, given


async def finish(pages: Pages, actor: str, node_id: str) -> None:
    evidence = [{"type": "commit", "ref": "4f2c1aa"}]
    await pages.write(actor, "graph_update", updates=[{"node_id": node_id, "resolved": True, "add_evidence": evidence}])


def columns(view: Any) -> dict[str, list[str]]:
    return {each["standing"]: [task["summary"] for task in each["tasks"]] for each in view["board"]["columns"]}


async def test_before_any_project_it_says_how_one_begins(pages: Pages) -> None:
    assert "graph_open" in await pages.html("/work")
    assert (await pages.json("/work"))["projects"]["projects"] == []


async def test_projects_say_how_far_they_are(pages: Pages) -> None:
    ids = await plan(pages, "ada", {"ref": "a"}, {"ref": "b", "properties": {"key": "b"}}, {"ref": "c"},
                     {"ref": "d", "depends_on": ["c"]})  # fmt: skip
    await finish(pages, "ada", ids["a"])
    await claim(pages, "codex", "b")
    (line,) = (await pages.json("/work"))["projects"]["projects"]
    counts = {name: line[name] for name in ("name", "goal", "total", "done", "ready", "claimed", "blocked")}
    assert counts == {
        "name": "p", "goal": "Ship it", "total": 5, "done": 1, "ready": 1, "claimed": 1, "blocked": 1,
    }  # fmt: skip
    assert 'href="/work?project=p"' in await pages.html("/work")


async def test_the_board_shows_what_is_ready_claimed_blocked_and_done(pages: Pages) -> None:
    ids = await plan(pages, "ada", {"ref": "low", "properties": {"priority": 2}},
                     {"ref": "high", "properties": {"priority": 9}}, {"ref": "taken", "properties": {"key": "k"}},
                     {"ref": "waits", "depends_on": ["taken", "low"]}, {"ref": "over"})  # fmt: skip
    await finish(pages, "codex", ids["over"])
    await claim(pages, "codex", "k")
    view = await pages.json("/work?project=p")
    assert columns(view) == {"ready": ["high", "low"], "claimed": ["taken"], "blocked": ["waits"], "done": ["over"]}
    tasks = {task["summary"]: task for column in view["board"]["columns"] for task in column["tasks"]}
    assert tasks["taken"]["claimed_by"] == "codex"
    assert tasks["taken"]["claimed_at"] < tasks["taken"]["claim_ends"]
    assert [each["summary"] for each in tasks["waits"]["waits_for"]] == ["taken", "low"]
    assert tasks["over"]["evidence"] == [{"type": "commit", "ref": "4f2c1aa"}]
    assert view["board"]["agents"] == ["codex"]
    page = await pages.html("/work?project=p")
    assert f'<time datetime="{tasks["taken"]["claimed_at"]}">' in page


async def test_the_tree_counts_what_is_done_below(pages: Pages) -> None:
    ids = await plan(pages, "ada", {"ref": "part"}, {"ref": "a", "parent_ref": "part"},
                     {"ref": "b", "parent_ref": "part"})  # fmt: skip
    await finish(pages, "ada", ids["a"])
    tree = (await pages.json("/work?project=p"))["board"]["tree"]
    drawn = [(row["depth"], row["task"]["summary"], row["below_done"], row["below"]) for row in tree]
    assert drawn == [(0, "Ship it", 1, 3), (1, "part", 1, 2), (2, "a", 0, 0), (2, "b", 0, 0)]
    assert "1 of 2 done" in await pages.html("/work?project=p")


async def test_a_claim_that_is_too_old_leaves_the_task_ready(pages: Pages) -> None:
    await plan(pages, "ada", {"ref": "taken", "properties": {"key": "k"}})
    await claim(pages, "codex", "k")
    who = msgspec.structs.replace(pages.offer.principal_of(None))
    later = wall_clock() + 2 * HOUR
    board = await show_project(pages.offer.store, who, Claims(ttl=HOUR), "p", clock=lambda: later)
    assert [[task.summary for task in each.tasks] for each in board.columns] == [["taken"], [], [], []]
    (line,) = (await list_projects(pages.offer.store, who, Claims(ttl=HOUR), clock=lambda: later)).projects
    assert (line.ready, line.claimed) == (1, 0)


async def test_what_may_not_be_read_is_neither_drawn_nor_counted_nor_waited_for(pages: Pages) -> None:
    ids = await plan(pages, "ada", {"ref": "mine"})
    nodes = [{"ref": "hers", "parent_ref": ids["root"], "summary": "eve's own secret"}]
    hers = (await pages.write("eve", "graph_plan", nodes=nodes))["created"][0]["id"]
    below = [{"ref": "under", "parent_ref": hers, "summary": "under"}]
    await pages.write("eve", "graph_plan", nodes=below)
    edge = {"from": ids["mine"], "to": hers, "type": "depends_on"}
    await pages.write("eve", "graph_connect", edges=[edge])
    view = await pages.json("/work?project=p")
    assert columns(view) == {"ready": ["mine"], "claimed": [], "blocked": [], "done": []}
    assert view["board"]["total"] == 2
    assert [(row["task"]["summary"], row["below"]) for row in view["board"]["tree"]] == [("Ship it", 1), ("mine", 0)]
    (line,) = view["projects"]["projects"]
    assert (line["total"], line["ready"], line["blocked"]) == (2, 1, 0)
    page = await pages.html("/work?project=p")
    assert "secret" not in page
    assert hers not in page


async def test_a_project_that_may_not_be_read_is_not_there(pages: Pages) -> None:
    await plan(pages, "eve", {"ref": "a"}, project="hers")
    hidden = await pages.html("/work?project=hers", 404)
    assert hidden == (await pages.html("/work?project=none", 404)).replace("none", "hers")
    assert (await pages.json("/work"))["projects"]["projects"] == []


async def test_names_and_summaries_are_shown_as_they_were_written(pages: Pages) -> None:
    name = "a/b?c=1&d <script>alert(1)</script>"
    await plan(pages, "ada", {"ref": "x", "summary": '"><img src=x onerror=alert(1)>'}, project=name)
    page = await pages.html("/work")
    assert "<script>alert" not in page
    assert "project=a%2Fb%3Fc%3D1%26d+%3Cscript%3E" in page
    board = await pages.http.get("/work", params={"project": name}, headers={"Accept": "text/html"})
    assert "<img" not in board.text
    assert "&lt;img src=x onerror=alert(1)&gt;" in board.text


async def test_of_very_many_tasks_the_first_are_drawn(pages: Pages) -> None:
    await plan(pages, "ada", *({"ref": f"t{number}"} for number in range(TREE_MAX + 20)))
    board = (await pages.json("/work?project=p"))["board"]
    ready = board["columns"][0]
    assert (ready["count"], len(ready["tasks"])) == (TREE_MAX + 20, CARDS_MAX)
    assert (len(board["tree"]), board["tree_more"]) == (TREE_MAX, 21)
    assert "21 more tasks" in await pages.html("/work?project=p")
