"""The search page: hits of every vocabulary, what they can be narrowed by, and what nothing was found for."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path

import pytest

from tallystick.extensions.web.search import FOUND_MAX
from tests.promises import promise
from tests.server.web.pages import Pages, serving_pages
from tests.server.web.policies import owners_policy

pytestmark = pytest.mark.anyio


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Pages]:
    async with serving_pages(tmp_path) as pages:
        await pages.node("d-1", "decision", "planner", attrs={"title": "Refunds are queued", "status": "open"})
        await pages.node("d-2", "decision", "ada", attrs={"title": "Refunds are retried", "stale_after": "2020-01-01"})
        await pages.write("planner", "graph_open", project="refunds", goal="Refunds nobody repeats")
        await pages.edge("d-1", "replaces", "d-2")
        yield pages


@promise("web, search", "one search over every vocabulary")
async def test_words_find_all_vocabularies(pages: Pages) -> None:
    view = await pages.json("/search?q=refunds")
    assert {hit["vocabulary"] for hit in view["hits"]} == {"memory", "work"}
    assert {"d-1", "d-2"} <= {hit["id"] for hit in view["hits"]}
    text = await pages.html("/search?q=refunds")
    for hit in view["hits"]:
        assert f"<bdi>{hit['title']}</bdi>" in text


@promise("web, facets", "hits are narrowed by type, author, time and flag")
async def test_hits_are_narrowed_by_type_author_time_and_flag(pages: Pages) -> None:
    async def ids(query: str) -> set[str]:
        return {hit["id"] for hit in (await pages.json(f"/search?{query}"))["hits"]}

    assert await ids("q=refunds&type=decision") == {"d-1", "d-2"}
    assert await ids("type=decision") == {"d-1", "d-2"}
    assert await ids("q=refunds&type=decision&by=ada") == {"d-2"}
    assert await ids("is=stale") == {"d-2"}
    found = await ids("q=refunds&vocabulary=work")
    assert found
    assert "d-1" not in found
    assert await ids("q=refunds&until=2020-01-01") == set()
    assert await ids("type=decision&since=2020-01-01") == {"d-1", "d-2"}


async def test_the_past_is_searched_and_hits_keep_the_moment(pages: Pages) -> None:
    view = await pages.json("/search?type=decision&as_of=1")
    assert [hit["id"] for hit in view["hits"]] == ["d-1"]
    assert 'href="/entities/d-1?as_of=1"' in await pages.html("/search?type=decision&as_of=1")


async def test_facets_are_links_that_keep_the_rest(pages: Pages) -> None:
    text = unescape(await pages.html("/search?q=refunds&by=planner"))
    links = re.findall(r'href="(/search\?[^"]+)"', text)
    assert "/search?q=refunds&type=decision&by=planner" in links
    assert "/search?q=refunds" in links
    for link in set(links):
        await pages.html(link)


async def test_flags_are_words(pages: Pages) -> None:
    assert re.search(r'class="flag stale".*?stale</span>', await pages.html("/search?q=retried&type=decision"), re.S)


async def test_nothing_found_names_the_filter_and_words_alike(pages: Pages) -> None:
    text = await pages.html("/search?q=refumds&type=decision")
    assert "Nothing found" in text
    assert "Without filters" in text
    assert "refund" in text


async def test_pages_of_hits(pages: Pages) -> None:
    for number in range(25):
        await pages.node(f"n{number}", "row")
    first = await pages.json("/search?type=row")
    assert (first["found"], len(first["hits"]), first["previous"], first["next"]) == (25, 20, None, 20)
    second = await pages.json("/search?type=row&offset=20")
    assert (len(second["hits"]), second["previous"], second["next"]) == (5, 0, None)
    assert "21 to 25 of 25" in await pages.html("/search?type=row&offset=20")


@pytest.mark.parametrize(
    "query", ["offset=x", "offset=999999", "as_of=later", "since=never", "vocabulary=none", "type=%00"]
)
async def test_what_cannot_be_asked_is_said(pages: Pages, query: str) -> None:
    assert (await pages.json(f"/search?q=x&{query}", 400))["message"]
    await pages.html(f"/search?q=x&{query}", 400)


async def test_an_author_is_found_among_more_entities_than_a_page_looks_at(pages: Pages) -> None:
    for number in range(FOUND_MAX + 30):
        await pages.node(f"n{number}", "row", "ada")
    for number in range(7):
        await pages.node(f"m{number}", "row", "mallory")
    await pages.node("m0", "row", "ada", attrs={"title": "written again"})
    found = await pages.json("/search?by=mallory")
    assert (found["found"], found["is_cut"], len(found["hits"])) == (7, False, 7)
    assert (await pages.json("/search?by=nobody"))["found"] == 0
    worded = {hit["id"] for hit in (await pages.json("/search?by=mallory&q=about"))["hits"]}
    assert {f"m{number}" for number in range(1, 7)} <= worded <= {f"m{number}" for number in range(7)}
    assert (await pages.json("/search?type=row"))["found"] == FOUND_MAX + 37
    last = await pages.json(f"/search?type=row&offset={FOUND_MAX + 20}")
    assert (len(last["hits"]), last["next"], last["found"]) == (17, None, FOUND_MAX + 37)


async def test_a_total_that_is_not_known_is_given_as_a_lower_bound(tmp_path: Path) -> None:
    async with serving_pages(tmp_path / "base", policy=owners_policy(tmp_path)) as pages:
        for number in range(FOUND_MAX + 30):
            await pages.node(f"n{number}", "row", "ada")
        assert f"At least {FOUND_MAX} hits" in await pages.html("/search?type=row")
        assert f"{FOUND_MAX + 30} hits" in await pages.html(f"/search?type=row&offset={FOUND_MAX}")


async def test_a_deleted_entity_is_found_by_its_id(pages: Pages) -> None:
    await pages.node("gone", "row")
    await pages.write("ada", "memory.write", op="DELETE_NODE", node_id="gone")
    assert (await pages.json("/search?q=gone"))["deleted"] == "gone"
    assert 'href="/entities/gone"' in await pages.html("/search?q=gone")
    assert "deleted" in await pages.html("/entities/gone")
    assert (await pages.json("/search?q=d-1"))["deleted"] is None
    assert (await pages.json("/search?q=never"))["deleted"] is None


async def test_a_deleted_entity_that_may_not_be_read_is_not_found(tmp_path: Path) -> None:
    async with serving_pages(tmp_path / "base", policy=owners_policy(tmp_path)) as pages:
        await pages.node("gone", "row", "eve")
        await pages.write("eve", "memory.write", op="DELETE_NODE", node_id="gone")
        assert (await pages.json("/search?q=gone"))["deleted"] is None
