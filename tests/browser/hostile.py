"""What agents write, in Chromium: whatever it says, on no page does it run, load or send anything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from tallystick.extensions.web.addresses import entity_address
from tallystick.extensions.web.registry import PAGES
from tests.browser.harness import Browser, Visit
from tests.browser.memories import Agent, import_lines
from tests.mcp_client import start_http, stopping
from tests.server.web.test_hostile import ASKED, CORPUS, MARKDOWN

ALL = "\n\n".join([*CORPUS, *MARKDOWN])
"""Where a field may be as long as one likes."""
RAN = "window.hasRun = (window.hasRun ?? 0) + 1"
HOOKS = f"for (const name of ['alert', 'confirm', 'prompt', 'print']) window[name] = () => {{ {RAN} }};"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    base = tmp_path_factory.mktemp("hostile") / "memory"
    lines = [
        {"op": "UPSERT_NODE", "node": node(number, evil), "actor": evil, "reason": evil}
        for number, evil in enumerate(CORPUS)
    ]
    import_lines(base, "".join(f"{json.dumps(line)}\n" for line in lines))
    with stopping(start_http(base, "--toolsets", "all", agent=CORPUS[2])) as server:
        agent = Agent(server)
        for evil in CORPUS:
            opened = agent("graph_open", project=evil, goal=ALL)
            task = {"parent_ref": opened["root"]["id"], "summary": evil}
            agent("graph_plan", nodes=[{**task, "ref": "a"}, {**task, "ref": "b", "depends_on": ["a"]}])
            agent("graph_next", project=evil, claim=True)
        know(agent)
        agent.close()
        yield server.url


def node(number: int, evil: str) -> dict[str, Any]:
    attrs = {evil: evil, "title": evil, "text": ALL, "from": CORPUS[number - 1], "stale_after": "2020-01-01"}
    return {"id": evil, "type": evil[:100], "attrs": attrs}


def know(agent: Agent) -> None:
    made = {"operation": "create", "containerType": "project", "name": f"of {CORPUS[0]}", "summary": ALL}
    place = {"projectId": agent("manage_container", **made)["data"]["project"]["id"]}
    card = {"operation": "create", "containerType": "task", "title": CORPUS[0], "summary": ALL, "priority": "LOW"}
    task = agent("manage_container", **card, complexity=1, **place)["data"]["task"]["id"]
    atom = {"operation": "create", "entityType": "atom", "name": CORPUS[0], "knowledge": ALL, "paths": ["**"]}
    agent("manage_graph", **atom, createdByTaskId=task, **place)


@pytest.fixture(scope="module")
def known(site: str) -> dict[str, str]:
    evil = CORPUS[0]
    report = httpx2.get(f"{site}{entity_address(evil)}.json").json()
    board = httpx2.get(f"{site}/work.json", params={"project": evil}).json()["board"]
    about_files = httpx2.get(f"{site}/knowledge.json").json()["known"]
    return {
        "evil": quote(evil, safe=""),
        "entity": entity_address(evil),
        "edge": entity_address(CORPUS[1]),
        "commit": report["entity"]["latest"]["commit_id"],
        "task": board["tree"][1]["task"]["id"],
        "atom": about_files["atoms"][0]["id"],
        "project": about_files["projects"][0]["id"],
    }


def harmless(visit: Visit) -> None:
    assert visit.faults == []
    assert visit.page.evaluate("window.hasRun") is None
    assert visit.page.frames == [visit.page.main_frame]
    assert visit.page.locator("main img, main iframe, main script, main [onload], main [onerror]").count() == 0


@pytest.mark.parametrize("path", [page.path for page in PAGES])
def test_nothing_runs_on_any_page(browser: Browser, site: str, known: dict[str, str], path: str) -> None:
    with browser.visit(site) as visit:
        visit.page.add_init_script(HOOKS)
        for address in ASKED[path]:
            visit.page.goto(address.format(**known), wait_until="load")
            for summary in visit.page.locator("main summary:visible").all():
                summary.click()
            harmless(visit)


def test_nothing_runs_of_what_arrives(browser: Browser, site: str) -> None:
    with browser.visit(site) as visit:
        visit.page.add_init_script(HOOKS)
        visit.open("/")
        visit.page.get_by_text("now, live").wait_for()
        for number, evil in enumerate(CORPUS):
            written = {"op": "UPSERT_NODE", "node": {**node(number, evil), "id": f"new {evil}"}, "reason": evil}
            assert httpx2.post(f"{site}/v1/tools/memory.write", json=written, timeout=120).status_code == 200
        visit.page.locator("[data-arrivals]").get_by_text("new `<form").wait_for()
        harmless(visit)


def test_nothing_runs_of_a_report_that_was_taken_home(
    browser: Browser, site: str, known: dict[str, str], tmp_path: Path
) -> None:
    with browser.visit(site) as visit:
        visit.page.add_init_script(HOOKS)
        visit.open(known["entity"])
        with visit.page.expect_download() as report:
            visit.page.get_by_role("link", name="Audit report").click()
        report.value.save_as(tmp_path / "report.html")
        visit.page.goto((tmp_path / "report.html").as_uri())
        assert visit.page.evaluate("window.hasRun") is None
        assert visit.page.locator("main h1").count() == 1
        assert visit.page.evaluate("document.querySelectorAll('script, img, iframe').length") == 0
