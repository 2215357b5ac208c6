"""`/work`: projects, and of one of them the board and the tree."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick import app
from tallystick.clock import wall_clock
from tallystick.config import CHECKPOINT_KEY_VARIABLE, Settings
from tallystick.extensions.proofs.checkpoints import sign_checkpoint
from tallystick.extensions.web.reports import work_board
from tallystick.extensions.web.reports.work_board import CARDS_MAX, TREE_MAX, list_projects, show_project
from tallystick.toolsets.claims import Claims
from tallystick.toolsets.work import answers
from tests.server.web.acting import followed, forms_of, post, send
from tests.server.web.pages import Pages, serving_pages
from tests.server.web.policies import owners_policy
from tests.signed_memory import KEY

pytestmark = pytest.mark.anyio

HOUR = 3_600_000


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Pages]:
    async with serving_pages(tmp_path / "base", policy=owners_policy(tmp_path), web_actor="nora") as pages:
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
    assert f"tree_from={TREE_MAX}#h-tree" in await pages.html("/work?project=p")
    rest = (await pages.json(f"/work?project=p&tree_from={TREE_MAX}"))["board"]
    assert (rest["tree_before"], len(rest["tree"]), rest["tree_more"]) == (TREE_MAX, 21, 0)
    assert not {row["task"]["id"] for row in board["tree"]} & {row["task"]["id"] for row in rest["tree"]}
    assert "101 to 121 of 121" in await pages.html(f"/work?project=p&tree_from={TREE_MAX}")
    assert (await pages.json("/work?project=p&tree_from=999"))["board"]["tree"] == []


async def test_long_columns_are_folded_and_so_is_much_that_is_done(pages: Pages) -> None:
    ids = await plan(pages, "ada", *({"ref": f"t{number}"} for number in range(8)))
    for number in range(5):
        await finish(pages, "ada", ids[f"t{number}"])
    text = await pages.html("/work?project=p")
    assert "<summary>2 more done</summary>" in text
    assert "more ready</summary>" not in text
    tree = text.split('id="h-tree"')[1]
    assert [f">t{number}</bdi>" in tree for number in range(8)] == [True, True, False, False, False, True, True, True]
    assert '<a href="/work?project=p&amp;tree=whole#h-tree">3 more done</a>' in tree
    whole = (await pages.html("/work?project=p&tree=whole")).split('id="h-tree"')[1]
    assert all(f">t{number}</bdi>" in whole for number in range(8))
    groups = (await pages.html("/work?project=p&tree=groups")).split('id="h-tree"')[1]
    assert [row["task"]["summary"] for row in (await pages.json("/work?project=p&tree=groups"))["rows"]] == ["Ship it"]
    assert "5 of 8 done" in groups


async def test_a_view_of_a_project_has_an_address(pages: Pages) -> None:
    ids = await plan(pages, "ada", {"ref": "a"}, {"ref": "b", "depends_on": ["a"]})
    await finish(pages, "codex", ids["a"])
    tabs = ("", "&tab=dependencies", "&tab=history")
    board, waits, history = [await pages.html(f"/work?project=p{tab}") for tab in tabs]
    assert ['id="h-tree"' in text for text in (board, waits, history)] == [True, False, False]
    assert ["Nothing waits for anything" in text for text in (board, waits, history)] == [False, True, False]
    newest = (await pages.json("/work?project=p&tab=history"))["board"]["newest"]
    assert (newest[0]["summary"], newest[0]["updated_by"]) == ("a", "codex")
    assert len(newest) == 3
    assert '<a href="/work?project=p&amp;tab=history" aria-current="page">' in history
    for wrong in ("tab=nothing", "tree=nothing"):
        await pages.html(f"/work?project=p&{wrong}", 400)


async def test_what_is_done_has_a_receipt_once_it_is_signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving_pages(tmp_path) as pages:
        ids = await plan(pages, "ada", {"ref": "a"})
        await finish(pages, "ada", ids["a"])
        (task,) = (await pages.json("/work?project=p"))["board"]["columns"][3]["tasks"]
        assert task["entry"] == task["position"]
        assert "no receipt yet" in await pages.html("/work?project=p")
        monkeypatch.setenv(CHECKPOINT_KEY_VARIABLE, KEY.written())
        await asyncio.to_thread(sign_checkpoint, app.operation_context(Settings(base=tmp_path)))
        text = await pages.html("/work?project=p")
        assert "no receipt yet" not in text
        address = f"/proof/{task['commit_id']}"
        proof = await pages.http.get(address)
        assert (proof.status_code, proof.text.splitlines()[0]) == (200, "c2sp.org/tlog-proof@v1")
        assert (await pages.http.get("/proof/nothing")).status_code == 404
        assert text.count(f'href="{address}"') == 2, "on its card and in the tree"


# -- what people do

BOARD = "/work?project=p"


async def test_a_person_claims_what_is_ready_and_nobody_else_does_then(pages: Pages) -> None:
    ids = await plan(pages, "ada", {"ref": "a"}, {"ref": "b", "depends_on": ["a"]})
    answer = await send(pages, BOARD, "/work", {}, act="claim", task=ids["a"])
    assert "#at-" in answer.headers["location"]
    await followed(pages, answer)
    (task,) = (await pages.json(BOARD))["board"]["columns"][1]["tasks"]
    assert (task["summary"], task["claimed_by"]) == ("a", "nora")
    assert (await pages.write("codex", "graph_next", project="p", claim=True))["nodes"] == []
    blocked = await post(pages, "/work", act="claim", task=ids["b"])
    assert (blocked.status_code, blocked.json()["error"]) == (409, "CONFLICT")


async def test_what_an_agent_has_is_not_claimed_by_a_person(pages: Pages) -> None:
    ids = await plan(pages, "ada", {"ref": "a", "properties": {"key": "k"}})
    await claim(pages, "codex", "k")
    answer = await post(pages, "/work", act="claim", task=ids["a"])
    assert (answer.status_code, "codex" in answer.json()["message"]) == (409, True)


async def test_a_person_resolves_with_evidence(pages: Pages) -> None:
    ids = await plan(pages, "ada", {"ref": "a"})
    filled = {"evidence": "test", "ref": "<b>suite 7</b>"}
    page = await followed(pages, await send(pages, BOARD, "/work", filled, act="resolve", task=ids["a"]))
    assert "&lt;b&gt;suite 7&lt;/b&gt;" in page
    (task,) = (await pages.json(BOARD))["board"]["columns"][3]["tasks"]
    assert (task["updated_by"], task["evidence"]) == ("nora", [{"type": "test", "ref": "<b>suite 7</b>"}])
    without = await post(pages, "/work", act="resolve", task=ids["a"], evidence="test", ref=" ")
    assert without.status_code == 400


async def test_a_person_adds_tasks_and_orders_them(pages: Pages) -> None:
    ids = await plan(pages, "ada", {"ref": "part"})
    filled = {"summary": "  New & urgent ", "parent": ids["part"], "priority": "9"}
    page = await followed(pages, await send(pages, BOARD, "/work", filled, act="add"))
    assert "New &amp; urgent" in page
    (task,) = (await pages.json(BOARD))["board"]["columns"][0]["tasks"]
    assert (task["summary"], task["priority"]) == ("New & urgent", 9)
    await followed(pages, await send(pages, BOARD, "/work", {"priority": "2"}, act="prioritise", task=task["id"]))
    assert (await pages.json(BOARD))["board"]["columns"][0]["tasks"][0]["priority"] == 2
    await followed(pages, await send(pages, BOARD, "/work", {"priority": ""}, act="prioritise", task=task["id"]))
    assert (await pages.json(BOARD))["board"]["columns"][0]["tasks"][0]["priority"] == 0
    for priority in ("-1", "101", "x", "9" * 400):
        assert (await post(pages, "/work", act="prioritise", task=task["id"], priority=priority)).status_code == 400


async def test_a_person_begins_a_project(pages: Pages) -> None:
    page = await followed(pages, await send(pages, "/work", "/work", {"name": "a/b <i>", "goal": "Ship"}, act="begin"))
    assert "a/b &lt;i&gt;" in page
    (line,) = (await pages.json("/work"))["projects"]["projects"]
    assert (line["name"], line["goal"]) == ("a/b <i>", "Ship")


async def test_dropping_is_a_step_that_says_what_goes_too(pages: Pages) -> None:
    ids = await plan(pages, "ada", {"ref": "part"}, {"ref": "a", "parent_ref": "part"},
                     {"ref": "b", "parent_ref": "part"})  # fmt: skip
    await finish(pages, "ada", ids["b"])
    address = f"/drop?task={ids['part']}"
    step = await pages.json(address)
    assert [each["summary"] for each in step["tasks"]["below"]] == ["a"]
    yes = {"reason": "not needed", "confirmed": "yes"}
    for filled in ({"reason": "not needed"}, {"confirmed": "yes"}):
        assert (await send(pages, address, "/drop", filled)).status_code == 400
    await followed(pages, await send(pages, address, "/drop", yes))
    tree = (await pages.json(BOARD))["board"]["tree"]
    standing = {row["task"]["summary"]: row["task"]["standing"] for row in tree}
    assert (standing["part"], standing["a"], standing["b"]) == ("dropped", "dropped", "done")
    assert "It is over already" in await pages.html(address)


async def test_what_was_added_below_meanwhile_is_shown_before_it_is_dropped(pages: Pages) -> None:
    ids = await plan(pages, "ada", {"ref": "part"})
    digest = (await pages.json(f"/drop?task={ids['part']}"))["digest"]
    await pages.write("ada", "graph_plan", nodes=[{"ref": "n", "parent_ref": ids["part"], "summary": "new"}])
    fields = {"task": ids["part"], "digest": digest, "reason": "no", "confirmed": "yes"}
    answer = await post(pages, "/drop", **fields)
    assert answer.json()["is_changed"] is True
    assert (await pages.json(BOARD))["board"]["columns"][3]["tasks"] == []


async def test_what_may_not_be_read_is_no_task_to_act_on(pages: Pages) -> None:
    ids = await plan(pages, "ada", {"ref": "mine"})
    nodes = [{"ref": "hers", "parent_ref": ids["root"], "summary": "eve's own secret"}]
    hers = (await pages.write("eve", "graph_plan", nodes=nodes))["created"][0]["id"]
    for act in ("claim", "prioritise", "resolve"):
        fields = {"act": act, "priority": "1", "evidence": "note", "ref": "x"}
        answers = [await post(pages, "/work", task=task, **fields) for task in (hers, "nope")]
        assert answers[0].status_code == answers[1].status_code == 404, act
        assert answers[0].content == answers[1].content
    await pages.html(f"/drop?task={hers}", 404)
    assert (await post(pages, "/drop", task=hers, reason="x", confirmed="yes")).status_code == 404


@pytest.mark.parametrize(
    "fields", [{}, {"act": "steal"}, {"act": "add"}, {"act": "begin"}, {"act": "add", "summary": "x" * 9_000}]
)
async def test_forms_that_no_page_has_are_refused(pages: Pages, fields: dict[str, str]) -> None:
    await plan(pages, "ada", {"ref": "a"})
    assert (await post(pages, "/work?project=p", **fields)).status_code == 400


async def test_who_may_not_write_is_offered_no_act(tmp_path: Path) -> None:
    policy = tmp_path / "readers.rego"
    policy.write_text(
        """package tallystick.readers

import rego.v1

decision := {"result": allow, "reason": "agents write", "policy_version": "readers@1"}

default allow := true

allow := false if {
	input.action in {"WRITE", "DELETE"}
	input.actor == "nora"
}
"""
    )
    async with serving_pages(tmp_path / "base", policy=str(policy), web_actor="nora") as pages:
        ids = await plan(pages, "ada", {"ref": "a"})
        page = await pages.html(BOARD)
        assert [form for form in forms_of(page) if form["action"] != "/theme"] == []
        assert "Drop…" not in page
        await pages.html(f"/drop?task={ids['a']}", 404)
        shown = await pages.html(f"/entities/{ids['a']}")
        assert "Redact…" not in shown
        assert "Recall…" not in shown
        assert (await pages.json("/audit?outcome=denied"))["decisions"]["lines"] == [], "nothing was tried yet"
        answer = await post(pages, "/work", act="claim", task=ids["a"])
        assert (answer.status_code, answer.json()["error"]) == (403, "NOT_ALLOWED")
        (line,) = (await pages.json("/audit?outcome=denied"))["decisions"]["lines"]
        assert (line["actor"], line["action"], line["tool"]) == ("nora", "WRITE", "web")


async def test_totals_of_a_project_are_whole_or_marked_as_lower_bounds(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "_MEMBERS_COUNTED", 2)
    await plan(pages, "ada", *({"ref": f"t{number}", "properties": {"key": f"k{number}"}} for number in range(4)))
    await claim(pages, "codex", "k3")
    view = await pages.json("/work?project=p")
    assert view["board"]["total"] == 5
    (line,) = view["projects"]["projects"]
    assert (line["total"], line["ready"], line["claimed"], line["is_partial"]) == (2, 1, 1, True)
    assert "0 of at least 2" in await pages.html("/work")
    assert "at least 1 ready to be claimed" in await pages.html("/work")


async def test_a_long_tree_can_be_read_to_its_end(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_board, "TREE_MAX", 2)
    monkeypatch.setattr(work_board, "_WALKED_MAX", 3)
    await plan(pages, "ada", *({"ref": f"t{number}"} for number in range(4)))
    board = (await pages.json("/work?project=p"))["board"]
    assert (board["tree_more"], board["tree_is_cut"]) == (1, True)
    page = await pages.html("/work?project=p")
    assert "1 to 2 of at least 3" in page
    assert "0 of at least 2 done" in page
    last = (await pages.json("/work?project=p&tree_from=4"))["board"]
    assert ([row["task"]["summary"] for row in last["tree"]], last["tree_more"]) == (["t3"], 0)
    assert last["tree_is_cut"] is False


async def test_of_very_many_projects_those_that_changed_last_are_listed(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_board, "PROJECTS_MAX", 1)
    ids = await plan(pages, "ada", {"ref": "a"}, project="old")
    await plan(pages, "ada", {"ref": "b"}, project="new")
    await finish(pages, "ada", ids["a"])
    found = (await pages.json("/work"))["projects"]
    assert ([each["name"] for each in found["projects"]], found["more"]) == (["old"], 1)
