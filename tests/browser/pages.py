"""Every page in Chromium, of a memory that agents worked with and of one with 50,000 entities.

Not part of `make test`, since it takes a browser: `make browser`.
"""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest

from tallystick.extensions.web.registry import PAGES
from tests.browser.harness import DECISIONS, THEMES, Browser, Look, Theme
from tests.browser.memories import PROJECT, large, lived_in

PLAIN = tuple(page.path for page in PAGES if "{" not in page.path and not page.is_step)
ADDRESSES = (
    *PLAIN,
    "/search?q=refunds",
    "/entities/decision-retries",
    "/entities/decision-retries?as_of=7",
    "/entities/decision-retries?compare=7",
    "/graph?around=decision-retries&hops=2",
    "/graph?type=Decision",
    "/graph?relation={relation}",
    f"/work?project={PROJECT}",
    f"/work?project={PROJECT}&tab=dependencies",
    f"/work?project={PROJECT}&tab=history",
    "/audit?outcome=denied",
    "/audit?actor=nobody",
    "/audit?seq={denied}",
    "/knowledge?path=src/refunds",
    "/knowledge?atom={atom}",
    "/redact?id=decision-retries",
    "/recall?commit={commit}",
    "/drop?task={task}",
)
"""What is in braces is found out first."""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with lived_in(tmp_path_factory.mktemp("lived-in")) as address:
        yield address


@pytest.fixture(scope="session")
def large_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with large(tmp_path_factory.mktemp("large")) as address:
        yield address


@pytest.fixture(scope="session")
def known(site: str) -> dict[str, str]:
    denied = httpx2.get(f"{site}/audit.json?outcome=denied").json()["decisions"]["lines"]
    atoms = httpx2.get(f"{site}/knowledge.json").json()["known"]["atoms"]
    (tree, *_) = httpx2.get(f"{site}/work.json?project={PROJECT}").json()["board"]["tree"]
    commit = httpx2.get(f"{site}/entities/decision-retries.json").json()["entity"]["latest"]["commit_id"]
    relations = httpx2.get(f"{site}/graph.json").json()["relations"]
    return {
        "task": tree["task"]["id"],
        "commit": commit,
        "denied": str(denied[0]["seq"]),
        "atom": atoms[0]["id"],
        "relation": relations[0]["name"],
    }


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("address", [*ADDRESSES, "/nowhere"])
def test_everybody_can_use_it_in_both_themes(
    browser: Browser, site: str, known: dict[str, str], address: str, theme: Theme
) -> None:
    with browser.visit(site, Look(theme=theme)) as visit:
        visit.open(address.format(**known), status=404 if address == "/nowhere" else 200)
        assert visit.axe() == []
        assert visit.faults == []


@pytest.mark.parametrize("look", [Look(width=320, height=700), Look(zoom=2)], ids=["320 px", "200 %"])
@pytest.mark.parametrize("address", ADDRESSES)
def test_nothing_is_lost_where_there_is_little_room(
    browser: Browser, site: str, known: dict[str, str], address: str, look: Look
) -> None:
    with browser.visit(site, look) as visit:
        visit.open(address.format(**known))
        assert visit.overflow() == []
        assert visit.axe() == []


@pytest.mark.parametrize("address", ADDRESSES)
def test_it_reads_the_same_without_scripts(browser: Browser, site: str, known: dict[str, str], address: str) -> None:
    seen = []
    for scripts in (True, False):
        with browser.visit(site, Look(scripts=scripts, reduced_motion=True)) as visit:
            visit.open(address.format(**known))
            seen.append(visit.page.locator("main h1, main h2, main h3, main th").all_inner_texts())
    assert seen[0] == seen[1] != []


@pytest.mark.parametrize("address", ADDRESSES)
def test_the_keyboard_gets_everywhere_and_shows_where_it_is(
    browser: Browser, site: str, known: dict[str, str], address: str
) -> None:
    with browser.visit(site) as visit:
        visit.open(address.format(**known))
        # Before: a drawing marks what was pointed at last.
        controls = visit.controls()
        stops = visit.tab_stops()
        assert [stop.html for stop in stops if not stop.is_seen] == []
        assert sorted(stop.html for stop in stops) == sorted(controls)


@pytest.mark.parametrize("address", ["/", "/entities/decision-retries", "/entities/decision-retries?as_of=7"])
def test_what_one_looks_at_is_said_in_one_line(browser: Browser, site: str, address: str) -> None:
    with browser.visit(site) as visit:
        visit.open(address)
        visit.page.locator(".bar .seal").first.wait_for()
        tops = visit.page.locator(".bar dl > div").evaluate_all("parts => parts.map(each => each.offsetTop)")
        assert len(tops) == 5
        assert len(set(tops)) == 1
        assert visit.page.locator(".bar").evaluate("bar => bar.offsetHeight") < 60


def test_forced_colours_hide_nothing(browser: Browser, site: str, known: dict[str, str]) -> None:
    with browser.visit(site, Look(forced_colours=True)) as visit:
        for address in ADDRESSES:
            visit.open(address.format(**known))
            assert visit.axe() == [], address
            assert visit.faults == []


def test_the_theme_that_was_chosen_stays(browser: Browser, site: str) -> None:
    with browser.visit(site, Look(theme="light", scripts=False)) as visit:
        visit.open("/work")
        visit.page.get_by_role("button", name="dark").click()
        visit.page.wait_for_url("**/work")
        visit.open("/audit")
        assert visit.page.locator("html").get_attribute("data-theme") == "dark"


def test_from_a_denial_to_the_rules_that_made_it_by_clicks(browser: Browser, site: str) -> None:
    with browser.visit(site) as visit:
        visit.open("/")
        visit.page.get_by_role("navigation").get_by_role("link", name="Audit").first.click()
        visit.page.get_by_role("link", name="Show them").first.click()
        visit.page.locator(DECISIONS).first.get_by_role("link").first.click()
        explained = visit.page.locator("#explained")
        explained.wait_for()
        assert "decisions are changed by people" in explained.inner_text()
        assert "team.rego:18" in explained.inner_text()
        condition = explained.locator(".listing li", has_text='input.resource_type == "Decision"')
        assert condition.inner_text().endswith("true")
        assert visit.faults == []


def test_decisions_are_filtered_without_scripts(browser: Browser, site: str) -> None:
    with browser.visit(site, Look(scripts=False)) as visit:
        visit.open("/audit")
        visit.page.get_by_label("Actor").fill("codex")
        visit.page.get_by_label("Action").select_option("WRITE")
        visit.page.get_by_role("button", name="Apply").click()
        rows = visit.page.locator(DECISIONS)
        assert rows.count() > 0
        assert all("codex" in text for text in rows.all_inner_texts())


@pytest.mark.parametrize("address", [*PLAIN, "/graph?type=Note7"])
def test_a_large_memory_opens_too(browser: Browser, large_site: str, address: str) -> None:
    with browser.visit(large_site) as visit:
        visit.open(address)
        assert visit.page.locator("main h1").count() == 1
        assert visit.overflow() == []
        assert visit.faults == []
