"""The overview, and the first visit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.web.pages import SITE, serving_pages

pytestmark = pytest.mark.anyio


async def test_the_first_visit_says_how_to_begin(tmp_path: Path) -> None:
    async with serving_pages(tmp_path) as pages:
        view = await pages.json("/")
        assert (view["is_empty"], view["commits"]) == (True, [])
        text = await pages.html("/")
        assert "Nothing has been written yet" in text
        assert f"claude mcp add --transport http tallystick {SITE}/mcp" in text
        await pages.node("plan")
        assert "Nothing has been written yet" not in await pages.html("/")


async def test_it_shows_what_there_is_and_what_was_written(tmp_path: Path) -> None:
    async with serving_pages(tmp_path) as pages:
        await pages.node("plan", "note", "ada", attrs={"title": "The plan"}, reason="to begin")
        await pages.node("other", "note")
        await pages.edge("plan", "leads_to", "other")
        await pages.write("ada", "memory.write", op="DELETE_NODE", node_id="other")
        view = await pages.json("/")
        assert view["entities"] == 1
        assert view["vocabularies"] == [{"name": "memory", "types": [{"name": "note", "count": 1}]}]
        assert [each["sign"] for each in view["commits"]][-3:] == ["written", "written", "written"]
        assert view["commits"][0]["sign"] == "deleted"
        text = await pages.html("/")
        for words in ("The plan", "to begin", 'href="/entities/plan"', "plan leads_to → other"):
            assert words in text
