"""The overview, and the first visit."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick.clock import to_text, wall_clock
from tallystick.extensions.backup.targets import Target, write_target
from tallystick.extensions.web.reports import kept_knowledge, last_day
from tallystick.extensions.web.reports.decisions import CountedDenials, count_denials
from tallystick.extensions.web.reports.last_day import Authors, Span, count_last_day
from tallystick.telemetry import metrics
from tallystick.toolsets import cited_files
from tallystick.toolsets.knowledge.freshness import Repository
from tests import timeouts
from tests.promises import promise
from tests.server.web.acting import send
from tests.server.web.pages import SITE, Pages, by_tools, serving_pages
from tests.server.web.policies import owners_policy, sealed_policy
from tests.server.web.repositories import commit_all, know, make_repository

pytestmark = pytest.mark.anyio


@promise("web, first visit", "an empty memory says how to connect a client")
async def test_the_first_visit_says_how_to_begin(tmp_path: Path) -> None:
    async with serving_pages(tmp_path) as pages:
        view = await pages.json("/")
        assert (view["is_empty"], view["commits"]) == (True, [])
        text = await pages.html("/")
        assert "Nothing has been written yet" in text
        assert f"claude mcp add --transport http tallystick {SITE}/mcp" in text
        await pages.node("plan")
        assert "Nothing has been written yet" not in await pages.html("/")


@promise("web, overview", "what there is by vocabulary and type, and what was written last")
async def test_it_shows_what_there_is_and_what_was_written(tmp_path: Path) -> None:
    async with serving_pages(tmp_path) as pages:
        await pages.node("plan", "note", "ada", attrs={"title": "The plan"}, reason="to begin")
        await pages.node("other", "note")
        await pages.edge("plan", "leads_to", "other")
        await pages.write("ada", "memory.write", op="DELETE_NODE", node_id="other")
        view = await pages.json("/")
        assert view["entities"] == 1
        assert view["vocabularies"] == [{"name": "memory", "types": [{"name": "note", "count": 1}]}]
        assert [each["sign"] for each in view["commits"]][-3:] == ["created", "created", "created"]
        assert view["commits"][0]["sign"] == "deleted"
        text = await pages.html("/")
        for words in ("The plan", "to begin", 'href="/entities/plan"', "plan leads_to → other"):
            assert words in text


async def test_the_last_day_is_drawn_as_a_tally_with_a_table_of_the_same(tmp_path: Path) -> None:
    async with serving_pages(tmp_path) as pages:
        await pages.node("plan")
        await pages.node("other")
        day = (await pages.json("/"))["day"]
        assert len(day) == 48
        assert [each["commits"] for each in day] == [0] * 47 + [2]
        page = await pages.html("/")
        assert "2 commits" in page
        assert "As a table" in page


async def test_commits_are_counted_into_the_half_hour_they_belong_to(tmp_path: Path) -> None:
    hour = 3_600_000
    async with serving_pages(tmp_path) as pages:
        for number in range(5):
            await pages.node(f"n{number}")
        store, who = pages.offer.store, pages.offer.principal_of(None)
        later = wall_clock() + 20 * hour
        kept = Authors()
        day = await count_last_day(store, who, later, kept)
        assert day is not None
        (found,) = [at for at, each in enumerate(day) if each.commits]
        assert (found, day[found].commits) in ((7, 5), (8, 5))
        assert day[found].by_actor == {"ada": 5}
        for other in (wall_clock() + 25 * hour, wall_clock() - hour):
            spans = await count_last_day(store, who, other, kept) or []
            assert [(each.commits, each.by_actor) for each in spans] == [(0, {})] * 48


async def test_the_day_says_what_agents_and_what_people_wrote_and_what_was_denied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallystick.extensions.web.overview.DENIALS_SECONDS", timeouts.SECONDS)
    monkeypatch.setattr("tallystick.extensions.web.actors.READING_SECONDS", timeouts.SECONDS)
    async with serving_pages(tmp_path / "base", policy=sealed_policy(tmp_path), web_actor="grace") as pages:
        for actor in ("codex", "codex", "grace"):
            await by_tools(pages).node("plan", "note", actor)
        sealed = {"id": "plan", "type": "Sealed", "attrs": {}}
        assert "error" in await pages.write("crawler", "memory.write", op="UPSERT_NODE", node=sealed)
        await pages.offer.store.flush_audit()
        await pages.html("/")
        day = (await pages.json("/"))["day"]
        told = [(each["commits"], each["agents"], each["people"], each["denials"]) for each in day]
        assert [sum(counts) for counts in zip(*told, strict=True)] == [3, 2, 1, 1]
        page = await pages.html("/")
        for words in ("agents 2", "people 1", "denials 1", "by agents"):
            assert words in page


async def test_who_wrote_is_counted_a_few_commits_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_day, "AUTHORS_AT_ONCE", 2)
    async with serving_pages(tmp_path) as pages:
        for number in range(7):
            await pages.node(f"n{number}", "note", "ada" if number < 3 else "bob")
        kept = Authors()

        async def newest(kept: Authors) -> Span:
            principal = pages.offer.principal_of(None)
            return (await count_last_day(pages.offer.store, principal, wall_clock(), kept) or [])[-1]

        first = await newest(kept)
        assert (first.commits, first.by_actor) == (7, None)
        while (found := await newest(kept)).by_actor is None:
            pass
        assert found.by_actor == {"ada": 3, "bob": 4}
        await pages.node("late", "note", "eve")
        assert (await newest(kept)).by_actor == {"ada": 3, "bob": 4, "eve": 1}
        monkeypatch.setattr(last_day, "AUTHORS_MAX", 2)
        assert (await newest(Authors())).by_actor is None


async def test_a_commit_says_whether_it_made_changed_or_took_away(tmp_path: Path) -> None:
    async with serving_pages(tmp_path) as pages:
        for attrs in ({"title": "a"}, {"title": "b"}):
            await pages.node("plan", attrs=attrs)
        await pages.write("ada", "memory.write", op="DELETE_NODE", node_id="plan")
        await pages.node("plan")
        await pages.node("goal")
        for weight in (1, 2):
            await pages.edge("plan", "serves", "goal", attrs={"weight": weight})
        signs = [each["sign"] for each in reversed((await pages.json("/"))["commits"])]
        assert signs == ["created", "written", "deleted", "created", "created", "created", "written"]
        page = await pages.html("/")
        for sign in ("+", "~", "−"):
            assert f'<span aria-hidden="true">{sign}</span>' in page


async def test_it_shows_who_works_on_what_and_what_is_stale(tmp_path: Path) -> None:
    async with serving_pages(tmp_path) as pages:
        await pages.node("howto", "page", attrs={"title": "An old way", "stale_after": "2020-01-01"})
        opened = await pages.write("planner", "graph_open", project="refunds", goal="Refunds")
        task = {"ref": "a", "parent_ref": opened["root"]["id"], "summary": "Queue them"}
        await pages.write("planner", "graph_plan", nodes=[task])
        assert (await pages.json("/"))["claimed"] == []
        await pages.write("codex", "graph_next", project="refunds", claim=True)
        view = await pages.json("/")
        assert [(each["title"], each["claimed_by"]) for each in view["claimed"]] == [("Queue them", "codex")]
        assert [(each["id"], each["type"]) for each in view["stale"]] == [("howto", "page")]
        text = await pages.html("/")
        assert "Queue them" in text
        assert "An old way" in text


async def test_it_says_whether_all_is_well_and_who_was_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallystick.extensions.web.overview.DENIALS_SECONDS", timeouts.SECONDS)
    met = sum(value for _, value in metrics.DAMAGE.read())  # by this process, in whatever tests came before
    async with serving_pages(tmp_path / "base", policy=owners_policy(tmp_path)) as pages:
        await pages.node("plan")
        first = await pages.json("/")
        assert (first["denials"]["total"], first["health"]["damage"]) == (0, met)
        assert 0 < first["health"]["disk_free"] <= first["health"]["disk_total"]
        node = {"id": "plan", "type": "Sealed", "attrs": {}}
        assert "error" in await pages.write("crawler", "memory.write", op="UPSERT_NODE", node=node)
        denials = (await pages.json("/"))["denials"]
        assert [(each["actor"], each["count"]) for each in denials["by_actor"]] == [("crawler", 1)]
        assert (denials["total"], denials["is_cut"]) == (1, False)
        (attempt,) = denials["attempts"]
        assert (attempt["resource"], attempt["action"], attempt["count"]) == ("plan", "WRITE", 1)
        page = await pages.html("/")
        assert "at least" not in page
        assert f"action=WRITE&amp;resource=plan&amp;outcome=denied&amp;seq={attempt['seq']}#explained" in page
        assert "nobody writes what is sealed" in page
        assert "error" in await pages.write("crawler", "memory.write", op="UPSERT_NODE", node=node)
        assert "denied × 2" in await pages.html("/")


async def test_it_says_how_old_the_last_backup_is_and_how_long_writes_take(tmp_path: Path) -> None:
    async with serving_pages(tmp_path) as pages:
        await pages.node("plan")
        assert (await pages.json("/"))["backup"] is None
        assert "Last backup" not in await pages.html("/")
        write_target(tmp_path, "file:///srv/a", Target(finished=to_text(wall_clock() - 7_200_000)))
        assert "2 hours ago" in await pages.html("/")
        write_target(tmp_path, "file:///srv/b", Target(failed="no room", failing_since=to_text(wall_clock())))
        assert "failing" in await pages.html("/")
        await pages.write("codex", "memory.write", op="UPSERT_NODE", node={"id": "plan", "type": "note", "attrs": {}})
        health = (await pages.json("/"))["health"]
        assert health["write_p95"] > 0
        assert health["commits_per_minute"] > 0
        log = tmp_path / "_system/log"
        assert health["log_bytes"] == sum(each.stat().st_size for each in log.iterdir())
        assert re.search(r"Write p95</dt><dd>[\d.]+ <span>ms, (\d+|under 1) / min</span>", await pages.html("/"))
    async with serving_pages(tmp_path / "new", backup_to=f"file://{tmp_path}/store") as pages:
        await pages.node("plan")
        assert (await pages.json("/"))["backup"] == {"at": None, "failing_since": None}
        assert "none yet" in await pages.html("/")


async def test_denials_that_were_not_all_counted_are_said_to_be_at_least_so_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def in_too_little_time(*args: Any) -> CountedDenials:
        return msgspec.structs.replace(await count_denials(*args), is_cut=True)

    monkeypatch.setattr("tallystick.extensions.web.overview.count_denials", in_too_little_time)
    async with serving_pages(tmp_path / "base", policy=owners_policy(tmp_path)) as pages:
        await pages.node("plan")
        assert "none found" in await pages.html("/")
        node = {"id": "plan", "type": "Sealed", "attrs": {}}
        await pages.write("crawler", "memory.write", op="UPSERT_NODE", node=node)
        text = await pages.html("/")
        assert "at least 1 in the last 24 hours" in text


# -- knowledge whose files changed


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Git is waited for, however loaded the machine is."""
    for name in ("WAITED_SECONDS", "FIRST_WAITED_SECONDS"):
        monkeypatch.setattr(kept_knowledge, name, timeouts.SECONDS)
    monkeypatch.setattr(kept_knowledge, "AGAIN_SECONDS", 0.0)
    return make_repository(tmp_path / "repository")


@pytest.fixture
async def pages(tmp_path: Path, repository: Path) -> AsyncIterator[Pages]:
    policy = owners_policy(tmp_path)
    async with serving_pages(tmp_path / "base", repo=str(repository), policy=policy) as pages:
        yield pages


def write_each(paths: list[bytes], text: str) -> None:
    for path in paths:
        with open(path, "w") as opened:
            opened.write(text)


async def stale_in(pages: Pages) -> Any:
    return (await pages.json("/"))["stale_knowledge"]


@promise("web, stale knowledge", "the overview lists the knowledge whose files changed")
async def test_it_shows_the_knowledge_whose_files_changed(pages: Pages, repository: Path) -> None:
    _, queue = await know(pages, "Queue", "queued once", "src/queue.py", "src/deep/**")
    await know(pages, "Retry", "thrice", "src/retry.py", project="other")
    fresh = await stale_in(pages)
    assert (fresh["stale"], fresh["pinned"], fresh["unknown"], fresh["atoms"]) == (0, 2, 0, [])
    assert "Stale knowledge" not in await pages.html("/")
    for name in ("src/queue.py", "src/deep/er.py"):
        (repository / name).write_text("changed\n")
    found = await stale_in(pages)
    assert found["stale"] == 1
    (atom,) = found["atoms"]
    assert (atom["id"], atom["name"], atom["changed"], atom["task"]) == (queue, "Queue", 2, None)
    known = (await pages.json("/knowledge"))["known"]["atoms"]
    assert [each["id"] for each in known if each["freshness"] == "stale"] == [queue]
    page = await pages.html("/")
    for words in ("1 of 2 pinned", f'href="/knowledge?atom={queue}#atom"', "2 files changed", "no work yet"):
        assert words in page


async def test_what_was_pinned_anew_is_stale_no_more(pages: Pages, repository: Path) -> None:
    _, atom = await know(pages, "Queue", "queued once", "src/queue.py")
    (repository / "src/queue.py").write_text("changed\n")
    assert (await stale_in(pages))["stale"] == 1
    again = {"operation": "update", "entityType": "atom", "id": atom, "version": 1, "pin": True}
    assert (await pages.write("ada", "manage_graph", **again))["success"]
    assert (await stale_in(pages))["stale"] == 0


async def test_it_says_who_looks_at_stale_knowledge_again(pages: Pages, repository: Path) -> None:
    _, atom = await know(pages, "Queue", "queued once", "src/queue.py")
    (repository / "src/queue.py").write_text("changed\n")
    assert (await send(pages, "/knowledge", "/knowledge", {}, act="reverify")).status_code == 303
    waiting = (await stale_in(pages))["atoms"][0]["task"]
    assert waiting["claimed_by"] is None
    assert "work waits" in await pages.html("/")
    await pages.write("codex", "graph_next", project="shop", claim=True, filter={"verifies_atom": atom})
    assert (await stale_in(pages))["atoms"][0]["task"] == {"id": waiting["id"], "claimed_by": "codex"}
    assert "is at it" in await pages.html("/")


async def test_what_may_not_be_read_is_not_among_what_is_stale(pages: Pages, repository: Path) -> None:
    await know(pages, "Diary", "mine", "src/queue.py", project="hers", actor="eve")
    (repository / "src/queue.py").write_text("changed\n")
    found = await stale_in(pages)
    assert (found["stale"], found["pinned"], found["unknown"]) == (0, 0, 0)
    assert "Diary" not in await pages.html("/")


async def test_names_of_knowledge_and_of_files_are_shown_as_text(pages: Pages, repository: Path) -> None:
    place = os.path.join(os.fsencode(repository), b"src")
    hostile = [os.path.join(place, name) for name in (b'"><script>alert(1)<', b"\xff\x1b[31m")]
    write_each(hostile, "as it was")
    commit_all(repository)
    _, atom = await know(pages, "<img src=x onerror=alert(1)>\u202e", "knows", "src/**")
    write_each(hostile, "changed")
    (found,) = (await stale_in(pages))["atoms"]
    assert found["id"] == atom
    page = await pages.html("/")
    assert "&lt;img src=x" in page
    assert "<img" not in page
    assert "<script>alert" not in page


async def test_while_git_takes_long_it_shows_what_was_found_before(
    pages: Pages, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on, compare = threading.Event(), Repository.compare

    def slowly(self: Repository, pins: Any) -> Any:
        may_go_on.wait()
        return compare(self, pins)

    await know(pages, "Queue", "queued once", "src/queue.py")
    monkeypatch.setattr(Repository, "compare", slowly)
    monkeypatch.setattr(cited_files, "COMPARED_SECONDS", 0.0)
    monkeypatch.setattr(kept_knowledge, "FIRST_WAITED_SECONDS", 0.0)
    monkeypatch.setattr(kept_knowledge, "WAITED_SECONDS", 0.0)
    try:
        first = await stale_in(pages)
        assert (first["unknown"], first["is_compared"], first["compared_at"]) == (1, False, None)
        assert "being compared with the files for the first time" in await pages.html("/")
    finally:
        may_go_on.set()
    while not (after := await stale_in(pages))["is_compared"]:
        pass
    assert (after["stale"], after["unknown"]) == (0, 0)
    monkeypatch.setattr(kept_knowledge, "WAITED_SECONDS", timeouts.SECONDS)
    await stale_in(pages)  # after which nothing is being compared
    monkeypatch.setattr(kept_knowledge, "WAITED_SECONDS", 0.0)
    may_go_on.clear()
    (repository / "src/queue.py").write_text("changed\n")
    try:
        assert (await stale_in(pages))["stale"] == 0
    finally:
        may_go_on.set()
    while (await stale_in(pages))["stale"] == 0:
        pass


async def test_files_are_not_compared_again_at_every_glance(
    pages: Pages, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await know(pages, "Queue", "queued once", "src/queue.py")
    monkeypatch.setattr(kept_knowledge, "AGAIN_SECONDS", timeouts.SECONDS)
    first = await stale_in(pages)
    (repository / "src/queue.py").write_text("changed\n")
    assert (await stale_in(pages))["compared_at"] == first["compared_at"]


async def test_where_git_fails_it_says_so(pages: Pages, repository: Path) -> None:
    await know(pages, "Queue", "queued once", "src/queue.py")
    shutil.rmtree(repository / ".git")
    found = await stale_in(pages)
    assert (found["stale"], found["unknown"], found["is_compared"]) == (0, 1, True)
    assert "Of 1 piece git could not tell" in await pages.html("/")


async def test_without_a_repository_nothing_is_said_of_files(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    async with serving_pages(tmp_path / "base", repo=str(tmp_path / "empty")) as pages:
        await know(pages, "Queue", "queued once", "src/queue.py", pin=False)
        found = await stale_in(pages)
        assert (found["stale"], found["pinned"], found["unknown"]) == (0, 0, 0)
        assert "Stale knowledge" not in await pages.html("/")


async def test_of_many_claims_the_newest_are_shown(tmp_path: Path) -> None:
    async with serving_pages(tmp_path) as pages:
        opened = await pages.write("planner", "graph_open", project="p", goal="Ship it")
        tasks = [{"ref": f"t{number}", "parent_ref": opened["root"]["id"], "summary": f"t{number}"}
                 for number in range(102)]  # fmt: skip
        await pages.write("planner", "graph_plan", nodes=tasks)
        for agent, count in (("a", 50), ("b", 50), ("codex", 2)):
            claimed = await pages.write(agent, "graph_next", project="p", count=count, claim=True)
            assert len(claimed["nodes"]) == count
        shown = (await pages.json("/"))["claimed"]
        assert [each["claimed_by"] for each in shown] == ["codex", "codex", "b", "b"]


async def test_commits_that_were_not_looked_for_are_mentioned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving_pages(tmp_path) as pages:
        await pages.node("plan")
        assert (await pages.json("/"))["commits_are_cut"] is False
        monkeypatch.setattr("tallystick.extensions.web.overview.COMMITS_SECONDS", 0)
        assert (await pages.json("/"))["commits_are_cut"] is True
        assert "older ones that you may read were not looked for" in await pages.html("/")
