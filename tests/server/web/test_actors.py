"""Agents are square and people are round, wherever a name is drawn: told by who ever came to the pages."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import msgspec
import pytest

from tallystick.config import Settings
from tallystick.extensions.web.actors import names_in
from tallystick.policy import Principal
from tallystick.server.http import http_app
from tests.command_line import CommandLine
from tests.server.web.acting import form_of
from tests.server.web.pages import HTML, SITE, Pages, by_tools, pages_of, serving_pages

pytestmark = pytest.mark.anyio

ACTOR = re.compile(
    r'<span class="actor ?(\w*)"[^>]*><b aria-hidden="true">\w+</b><bdi>(\w+)</bdi>'
    r'(?:<span class="unseen">, (\w+)</span>)?'
)


async def drawn(pages: Pages, address: str) -> set[tuple[str, str, str]]:
    """Each name in the page proper with its shape and with what is said of it."""
    await pages.json("/audit")  # which waits for what was decided to be written down
    return {(name, shape, said) for shape, name, said in ACTOR.findall(await pages.html(address))}


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Pages]:
    async with serving_pages(tmp_path / "base", web_actor="nora") as pages:
        yield by_tools(pages)


async def test_an_author_is_square_and_the_visitor_round(pages: Pages) -> None:
    await pages.node("plan", "note", "ada")
    for address in ("/", "/entities/plan", "/search?q=plan", "/audit", "/recall?actor=ada&entity=plan"):
        assert await drawn(pages, address) == {("ada", "agent", "agent"), ("nora", "person", "person")}, address


async def test_who_came_to_the_pages_stays_a_person_for_others(tmp_path: Path) -> None:
    async with serving_pages(tmp_path / "base", web_actor="nora") as pages:
        await by_tools(pages).node("plan", "note", "nora")
        await pages.html("/")
    async with serving_pages(tmp_path / "base", web_actor="jonas") as pages:
        assert await drawn(pages, "/entities/plan") == {("nora", "person", "person"), ("jonas", "person", "person")}


async def test_claims_are_drawn_as_what_their_holders_are(pages: Pages) -> None:
    opened = await pages.write("ada", "graph_open", project="p", goal="ship")
    tasks = [{"parent_ref": opened["root"]["id"], "summary": summary} for summary in ("one", "two")]
    await pages.write("ada", "graph_plan", nodes=[{"ref": str(at), **task} for at, task in enumerate(tasks)])
    await pages.write("ada", "graph_next", project="p", claim=True)
    form = form_of(await pages.html("/work?project=p"), "/work", act="claim")
    assert (await pages.http.post(form["action"], data=form["fields"], headers=HTML)).status_code == 303
    claimed = await drawn(pages, "/work?project=p")
    assert claimed == {("ada", "agent", "agent"), ("nora", "person", "person")}
    board = (await pages.html("/work?project=p")).partition("<main")[2]
    assert {name for _, name, _ in ACTOR.findall(board)} == {"ada", "nora"}


async def test_of_whom_nobody_knows_nothing_is_said(pages: Pages) -> None:
    await pages.node("plan", "note", "ada")
    assert ("zoe", "", "") in await drawn(pages, "/recall?actor=zoe&entity=plan")


@pytest.fixture
def imported(tmp_path: Path) -> Path:
    """A base with what ada wrote elsewhere."""
    commands = CommandLine(tmp_path / "base")
    written = {"op": "UPSERT_NODE", "node": {"id": "plan", "type": "note", "attrs": {}}, "actor": "ada"}
    commands.run("import", "-", stdin=json.dumps(written) + "\n")
    return commands.base


async def test_authors_of_what_was_imported_are_neither(imported: Path) -> None:
    async with serving_pages(imported, web_actor="nora") as pages:
        assert await drawn(pages, "/entities/plan") == {("ada", "", ""), ("nora", "person", "person")}


async def test_a_program_that_reads_pages_with_its_token_is_no_person(tmp_path: Path) -> None:
    async with serving_pages(tmp_path / "base", web_actor="nora") as pages:
        await pages.node("plan", "note", "ada")
        crawler = Principal(actor="crawler", trusted=False)
        offer = msgspec.structs.replace(pages.offer, principal_of=lambda scope: crawler)
        settings = Settings(base=tmp_path / "base", web_actor="nora")
        front = http_app(offer, pages=pages_of(settings, offer))
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(front), base_url=SITE) as program:
            assert (await program.get("/search.json?q=plan")).status_code == 200
        assert ("crawler", "agent", "agent") in await drawn(pages, "/recall?actor=crawler&entity=plan")
        assert {line["tool"] for line in (await pages.json("/audit?actor=crawler"))["decisions"]["lines"]} == {
            "web.json"
        }


async def test_the_json_of_every_page_says_what_those_are_whom_it_names(pages: Pages) -> None:
    await pages.node("plan", "note", "ada")
    await pages.node("plan", "note", "nora")
    await pages.json("/audit")
    for address in ("/", "/entities/plan", "/audit"):
        assert (await pages.json(address))["actors"] == {"ada": "agent", "nora": "person"}, address


def test_people_and_agents_are_named_by_some_members_of_the_json() -> None:
    said = {"actor": "ada", "lines": [{"by": "bob", "reason": "eve"}, {"claimed_by": None, "deep": {"set_by": "dan"}}]}
    assert names_in(said) == {"ada", "bob", "dan"}
