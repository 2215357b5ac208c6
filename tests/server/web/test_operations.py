"""`/operations`: how the server does, by its own count."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anyio import to_thread

from tallystick import app
from tallystick.config import Settings
from tallystick.extensions.backup.run import back_up
from tallystick.telemetry.metrics import quantile
from tests.mcp_client import serving_http
from tests.server.web.pages import Pages, serving_pages
from tests.timeouts import SECONDS

pytestmark = pytest.mark.anyio


async def calls(pages: Pages, tool: str) -> tuple[int, int]:
    found = (await pages.json("/operations"))["figures"]["tools"]
    return next(((each["calls"], each["refused"]) for each in found if each["tool"] == tool), (0, 0))


async def test_calls_are_counted_with_those_that_were_refused(tmp_path: Path) -> None:
    async with serving_pages(tmp_path) as pages:
        before = await calls(pages, "memory.read")
        await pages.node("plan")
        await pages.write("ada", "memory.read", entity_id="plan")
        await pages.write("ada", "memory.read", entity_id=7)
        after = await calls(pages, "memory.read")
        assert (after[0] - before[0], after[1] - before[1]) == (2, 1)
        figures = (await pages.json("/operations"))["figures"]
        read = next(each for each in figures["tools"] if each["tool"] == "memory.read")
        assert 0 < read["latency"]["p50"] <= read["latency"]["p95"] <= read["latency"]["p99"]
        assert figures["policy"]["decisions"] > 0
        assert figures["writes"]["commits"] > 0


async def test_projections_and_sizes_are_those_of_the_memory(tmp_path: Path) -> None:
    async with serving_pages(tmp_path) as pages:
        await pages.node("plan")
        view = await pages.json("/operations")
        sizes = {each["what"]: each["bytes"] for each in view["figures"]["sizes"]}
        written = sum(path.stat().st_size for path in (tmp_path / "_system/log").iterdir())
        assert sizes["log"] == written > 0
        assert view["position"] == 1
        assert view["figures"]["disk_free"] > 0
        page = await pages.html("/operations")
        assert "memory.write" in page
        assert "Commits behind" in page


async def test_a_fresh_server_has_nothing_to_tell_and_says_so(tmp_path: Path) -> None:
    async with serving_pages(tmp_path) as pages:
        assert "<h1>Operations</h1>" in await pages.html("/operations")


async def test_the_last_hour_is_plotted_with_a_table_of_the_same(tmp_path: Path) -> None:
    async with serving_pages(tmp_path) as pages:
        await pages.node("plan")
        history = (await pages.json("/operations"))["history"]
        assert history["span"] == "hour"
        commits = next(each for each in history["plots"] if each["name"] == "commits")
        assert commits["lines"][0]["values"][-1] > 0
        assert all(len(line["values"]) == len(history["times"]) for each in history["plots"] for line in each["lines"])
        page = await pages.html("/operations")
        assert page.count("As a table") == len(history["plots"])
        assert "no backup yet" in page


async def test_the_last_backup_is_told_with_what_is_not_in_it(tmp_path: Path) -> None:
    place = f"file://{tmp_path}/backups"
    settings = Settings(base=tmp_path / "memory")
    async with serving_pages(tmp_path / "memory", backup_to=place, backup_every=86_400) as pages:
        (before,) = (await pages.json("/operations"))["backups"]
        assert (before["target"], before["last"], before["is_configured"]) == (place, None, True)
        await pages.node("plan")
        await to_thread.run_sync(lambda: back_up(app.operation_context(settings), to=place))
        await pages.node("next")
        (after,) = (await pages.json("/operations"))["backups"]
        assert (after["kept"], after["waiting"], after["failed"]) == (1, 1, None)
        page = await pages.html("/operations")
        assert place in page
        assert "1 commit" in page


async def test_of_several_workers_everything_is_counted_together(tmp_path: Path) -> None:
    async with serving_pages(tmp_path) as pages:
        view = await pages.json("/operations")
        assert (view["worker"], view["workers"]) == (None, [])
    with serving_http(tmp_path, "--workers", "2") as server:
        view = await until_both_counted(server.url)
        assert view["worker"]["number"] in (1, 2)
        assert [each["number"] for each in view["workers"]] == [1, 2]
        assert view["figures"]["calls"] == sum(each["calls"] for each in view["workers"])
        (searches,) = [each for each in view["figures"]["tools"] if each["tool"] == "memory.search"]
        assert searches["latency"]["p99"] > 0
        calls = next(each for each in view["history"]["plots"] if each["name"] == "calls")
        assert calls["lines"][0]["values"][-1] > 0
        async with httpx2.AsyncClient(base_url=server.url, timeout=SECONDS) as http:
            page = (await http.get("/operations", headers={"Accept": "text/html"})).text
        assert re.search("worker [12] answers; everything on this page is of all 2 together", page)


async def until_both_counted(url: str) -> Any:
    """Every request over a connection of its own, so that any worker may get it."""
    while True:
        async with httpx2.AsyncClient(base_url=url, timeout=SECONDS) as http:
            await http.post("/v1/tools/memory.search", json={"query": "plan"})
        async with httpx2.AsyncClient(base_url=url, timeout=SECONDS) as http:
            view = (await http.get("/operations.json")).json()
        # The worker that is not asked says every few seconds what it has counted.
        if len(view["workers"]) == 2 and all(each["calls"] for each in view["workers"]):
            return view


async def test_plots_are_of_one_tool_and_of_a_day_where_the_address_says_so(tmp_path: Path) -> None:
    async with serving_pages(tmp_path) as pages:
        await pages.node("plan")
        history = (await pages.json("/operations?span=day&tool=memory.write"))["history"]
        assert (history["span"], history["tool"]) == ("day", "memory.write")
        assert history["plots"][0]["lines"][0]["values"] != [0]
        nobody = (await pages.json("/operations?tool=%3Cscript%3E"))["history"]
        assert nobody["plots"][0]["lines"][0]["values"] == [0]
        assert "<script>" not in await pages.html("/operations?tool=%3Cscript%3E")
        await pages.html("/operations?span=year", status=400)


@pytest.mark.parametrize(
    ("counts", "share", "seconds"),
    [
        ([0, 0, 0], 0.5, None),
        ([10, 0, 0], 0.5, 0.5),
        ([10, 0, 0], 1.0, 1.0),
        ([5, 5, 0], 0.5, 1.0),
        ([5, 5, 0], 0.75, 1.5),
        ([0, 0, 4], 0.99, 2.0),
        ([0, 1, 0], 0.01, 1.01),
    ],
)
def test_quantiles_are_spread_evenly_within_a_bucket(counts: list[int], share: float, seconds: float | None) -> None:
    found = quantile((1.0, 2.0), counts, share)
    assert found == (None if seconds is None else pytest.approx(seconds))
