"""What pages do with their scripts, in Chromium: change in place, follow what arrives, draw."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.browser.harness import DECISIONS, Browser, Look, Visit
from tests.browser.memories import PROJECT, lived_in


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with lived_in(tmp_path_factory.mktemp("scripts")) as address:
        yield address


def open_marked(visit: Visit, address: str) -> None:
    """A page that is loaded again has lost the mark."""
    visit.open(address)
    visit.page.evaluate("window.isTheSame = true")


def is_the_same(visit: Visit) -> bool:
    return bool(visit.page.evaluate("window.isTheSame === true"))


def test_a_facet_narrows_the_search_in_place_and_going_back_undoes_it(browser: Browser, site: str) -> None:
    with browser.visit(site) as visit:
        open_marked(visit, "/search?q=refunds")
        before = visit.page.locator("#h-hits").inner_text()
        visit.page.locator(".facets").first.get_by_role("link").first.click()
        visit.page.wait_for_url("**type=**")
        visit.page.get_by_text("take this filter off").first.wait_for(state="attached")
        visit.settle()
        assert is_the_same(visit)
        assert visit.page.evaluate("document.activeElement.id") == "main"
        visit.page.go_back()
        visit.page.get_by_text("take this filter off").wait_for(state="detached")
        assert visit.page.locator("#h-hits").inner_text() == before
        assert is_the_same(visit)
        kept = visit.page.evaluate("[...Object.values(localStorage), ...Object.values(sessionStorage)].join()")
        assert "<" not in kept
        assert visit.faults == []


def test_the_slider_moves_an_entity_through_time_by_arrow_keys(browser: Browser, site: str) -> None:
    with browser.visit(site) as visit:
        open_marked(visit, "/entities/decision-retries")
        visit.page.get_by_text("now, live").wait_for()
        slider = visit.page.locator("#moment")
        slider.focus()
        visit.page.keyboard.press("ArrowLeft")
        visit.page.locator(".bar.past").wait_for()
        visit.settle()
        assert "as_of=" in visit.page.url
        assert is_the_same(visit)
        assert visit.page.evaluate("document.activeElement.id") == "moment"
        visit.page.keyboard.press("ArrowRight")
        visit.page.locator(".bar.past").wait_for(state="detached")
        visit.page.get_by_text("now, live").wait_for()
        assert visit.faults == []


def write_thrice(site: str, entity_id: str) -> list[int]:
    """Where its three commits are."""
    for number in range(3):
        node = {"id": entity_id, "type": "Note", "attrs": {"number": number}}
        answer = httpx2.post(f"{site}/v1/tools/memory.write", json={"op": "UPSERT_NODE", "node": node}, timeout=60)
        assert answer.status_code == 200, answer.text
    view = httpx2.get(f"{site}/entities/{entity_id}.json", timeout=60).json()
    return [each["position"] for each in view["notches"]]


def test_arrow_keys_that_are_pressed_in_haste_all_count(browser: Browser, site: str) -> None:
    first, *_ = write_thrice(site, "hasty")
    with browser.visit(site) as visit:
        open_marked(visit, "/entities/hasty")
        visit.page.locator("#moment").focus()
        visit.page.keyboard.press("ArrowLeft")
        visit.page.keyboard.press("ArrowLeft")
        visit.page.wait_for_url(f"**as_of={first}")
        visit.page.locator(".bar.past").wait_for()
        assert is_the_same(visit)
        visit.settle()
        said = visit.page.evaluate("document.querySelector('#moment').ariaValueText")
        assert f"position {first}" in said
        assert visit.faults == []


def test_the_slider_goes_from_commit_to_commit_without_scripts(browser: Browser, site: str) -> None:
    first, second, _ = write_thrice(site, "unhurried")
    with browser.visit(site, Look(scripts=False)) as visit:
        visit.open("/entities/unhurried")
        for key, ends in (("ArrowLeft", f"as_of={second}"), ("ArrowLeft", f"as_of={first}"), ("End", "unhurried")):
            visit.page.locator("#moment").focus()
            visit.page.keyboard.press(key)
            visit.page.get_by_role("button", name="Look at this moment").click()
            visit.page.wait_for_url(f"**{ends}")
        assert visit.page.locator(".bar.past").count() == 0


def test_decisions_are_filtered_in_place(browser: Browser, site: str) -> None:
    with browser.visit(site) as visit:
        open_marked(visit, "/audit")
        visit.page.get_by_label("Actor").fill("codex")
        visit.page.get_by_role("button", name="Apply").click()
        visit.page.wait_for_url("**actor=codex**")
        visit.settle()
        rows = visit.page.locator(DECISIONS)
        assert all("codex" in text for text in rows.all_inner_texts())
        assert is_the_same(visit)
        assert visit.faults == []


def test_a_board_is_drawn_again_as_work_goes_on_but_not_under_somebodys_hand(browser: Browser, site: str) -> None:
    def add(summary: str) -> None:
        node = {"parent_ref": root, "ref": "new", "summary": summary}
        answer = httpx2.post(f"{site}/v1/tools/graph_plan", json={"nodes": [node]}, timeout=60)
        assert answer.status_code == 200, answer.text

    root = httpx2.get(f"{site}/work.json?project={PROJECT}").json()["board"]["root"]
    with browser.visit(site) as visit:
        open_marked(visit, f"/work?project={PROJECT}")
        visit.page.get_by_text("now, live").wait_for()
        add("Tell the auditors")
        visit.page.locator(".board").get_by_text("Tell the auditors").first.wait_for()
        assert is_the_same(visit)
        visit.page.get_by_text("now, live").wait_for()
        visit.page.locator(".board a").first.focus()
        add("Tell the bank")
        visit.page.get_by_text("1 new since you looked").wait_for()
        assert visit.page.locator(".board").get_by_text("Tell the bank").first.count() == 0
        visit.page.evaluate("document.activeElement.blur()")
        visit.page.locator(".board").get_by_text("Tell the bank").first.wait_for()
        assert is_the_same(visit)
        assert visit.faults == []


PAINTED = """canvas => {
  const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(data.buffer)).size;
}"""


LOOKS = [Look(theme="dark"), Look(forced_colours=True), Look(width=320), Look(zoom=2)]
NAMES = ["dark", "forced colours", "320 px", "200 %"]
GROWN = "before => document.querySelector('[data-drawn]').dataset.nodes > before"


@pytest.mark.parametrize("look", LOOKS, ids=NAMES)
def test_plots_are_drawn_from_their_tables(browser: Browser, site: str, look: Look) -> None:
    with browser.visit(site, look) as visit:
        visit.open("/operations")
        plots = visit.page.locator("[data-plot]")
        assert plots.count() == visit.page.locator("[data-plot] canvas").count() > 5
        assert visit.page.locator("[data-plot] canvas").first.evaluate(PAINTED) > 2
        plots.first.get_by_text("As a table").click()
        assert plots.first.locator("tbody tr").count() > 0
        visit.page.get_by_role("link", name="day", exact=True).click()
        visit.page.get_by_text("The last day").wait_for()
        visit.settle()
        assert visit.page.locator("[data-plot] canvas").count() == plots.count()
        assert visit.overflow() == []
        assert visit.axe() == []
        assert visit.faults == []


GRAPH = "/graph?around=decision-retries"


def drawn_nodes(visit: Visit) -> int:
    """After WebGL was asked for."""
    visit.page.get_by_role("button", name="Fit").click()
    visit.page.locator("[data-drawn]").wait_for()
    return int(visit.page.locator("[data-drawn]").get_attribute("data-nodes"))


COUNT_CONTEXTS = """
  window.contexts = 0;
  const real = HTMLCanvasElement.prototype.getContext;
  HTMLCanvasElement.prototype.getContext = function (kind, ...more) {
    if (kind.includes('webgl')) window.contexts += 1;
    return window.hasNoWebGL && kind.includes('webgl') ? null : real.call(this, kind, ...more);
  };
"""


def node_of(visit: Visit, entity_id: str) -> Any:
    """In the drawing that came with the page."""
    return visit.page.locator(f'[data-still] [data-node="{entity_id}"] .shape')


def test_the_drawing_of_the_server_is_worked_with_until_webgl_is_needed(browser: Browser, site: str) -> None:
    entity_id = with_more_around_it(site)
    with browser.visit(site) as visit:
        visit.page.add_init_script(COUNT_CONTEXTS)
        visit.open(GRAPH)
        before = visit.page.locator("[data-still] .shape").count()
        assert before > 1
        visit.page.locator(f'[data-grow="{entity_id}"]').first.focus()
        marked = visit.page.locator("[data-still] [data-marked]")
        assert marked.get_attribute("data-node") == entity_id
        visit.page.locator("#main").focus()
        assert marked.count() == 0
        visit.page.locator(f'[data-grow="{entity_id}"]').first.hover()
        assert marked.get_attribute("data-node") == entity_id
        visit.page.mouse.move(0, 0)
        assert marked.count() == 0
        assert visit.page.evaluate("window.contexts") == 0
        top = visit.page.locator("#h-table").bounding_box()["y"]
        node_of(visit, entity_id).click()
        visit.page.wait_for_function(
            f"before => document.querySelector('[data-drawn]') && ({GROWN})(before)", arg=before
        )
        assert visit.page.url == f"{site}{GRAPH}"
        assert abs(visit.page.locator("#h-table").bounding_box()["y"] - top) < 2
        assert visit.faults == []


def test_the_table_is_beside_the_drawing_and_below_it_where_there_is_little_room(browser: Browser, site: str) -> None:
    for width, is_beside in ((1280, True), (800, False)):
        with browser.visit(site, Look(width=width)) as visit:
            visit.open(GRAPH)
            drawing, table = (visit.page.locator(f"#{each}").bounding_box() for each in ("h-drawing", "h-table"))
            assert (abs(drawing["y"] - table["y"]) < 5) is is_beside, width
            assert (drawing["y"] < table["y"] - 100) is not is_beside, width


def test_two_clicks_on_a_node_of_the_servers_drawing_open_it(browser: Browser, site: str) -> None:
    with browser.visit(site) as visit:
        visit.open(GRAPH)
        node_of(visit, "decision-retries").dblclick()
        visit.page.wait_for_url("**/entities/decision-retries")
        assert visit.faults == []


def test_without_webgl_the_drawing_of_the_server_stays_and_its_links_lead_on(browser: Browser, site: str) -> None:
    entity_id = with_more_around_it(site)
    with browser.visit(site) as visit:
        visit.page.add_init_script(f"window.hasNoWebGL = true; {COUNT_CONTEXTS}")
        visit.open(GRAPH)
        visit.page.get_by_role("button", name="Zoom in").click()
        visit.page.get_by_text("more cannot be drawn here").wait_for()
        node_of(visit, entity_id).click()
        visit.page.wait_for_url(f"**around={entity_id}**")
        assert visit.page.locator("[data-still] .shape").count() > 1
        assert visit.faults == []


@pytest.mark.parametrize("look", LOOKS, ids=NAMES)
def test_a_neighbourhood_is_drawn_and_grows_by_keyboard_with_its_table(browser: Browser, site: str, look: Look) -> None:
    with browser.visit(site, look) as visit:
        visit.open(GRAPH)
        before, rows = drawn_nodes(visit), visit.page.locator("[data-edges] tbody tr").count()
        for button in visit.page.locator("[data-grow]:visible").all():
            button.focus()
            visit.page.keyboard.press("Enter")
        visit.page.wait_for_function(GROWN, arg=before)
        visit.page.wait_for_function(
            "rows => document.querySelectorAll('[data-edges] tbody tr').length > rows", arg=rows
        )
        assert visit.overflow() == []
        assert visit.axe() == []
        assert visit.faults == []


def with_more_around_it(site: str) -> str:
    """An entity of the drawing that is linked to something that is not drawn yet."""
    first = httpx2.get(f"{site}{GRAPH.replace('?', '.json?')}").json()["neighbourhood"]
    drawn = {each["id"] for each in (first["centre"], *first["nodes"])}
    for each in first["nodes"]:
        around = httpx2.get(f"{site}/graph.json", params={"around": each["id"]}).json()["neighbourhood"]
        if any(other["id"] not in drawn for other in around["nodes"]):
            return str(each["id"])
    raise AssertionError("everything is drawn already")


def where_it_is_drawn(visit: Visit, entity_id: str) -> tuple[float, float]:
    """The drawing marks whatever is pointed at in the table."""
    visit.page.locator(f'[data-grow="{entity_id}"]').first.focus()
    visit.page.locator(".mark:visible").wait_for()
    spot = visit.page.locator(".mark").bounding_box()
    return spot["x"] + spot["width"] / 2, spot["y"] + spot["height"] / 2


def click_where_it_is_drawn(visit: Visit, entity_id: str) -> None:
    visit.page.mouse.click(*where_it_is_drawn(visit, entity_id))


def test_a_click_on_a_node_brings_what_is_linked_to_it(browser: Browser, site: str) -> None:
    entity_id = with_more_around_it(site)
    with browser.visit(site, Look(reduced_motion=True, height=2000)) as visit:
        visit.open(GRAPH)
        before = drawn_nodes(visit)
        click_where_it_is_drawn(visit, entity_id)
        visit.page.wait_for_function(GROWN, arg=before)
        assert visit.page.url == f"{site}{GRAPH}"
        assert visit.faults == []


def test_two_quick_clicks_open_a_node_only_if_both_are_on_it(browser: Browser, site: str) -> None:
    entity_id = with_more_around_it(site)
    with browser.visit(site, Look(reduced_motion=True, height=2000)) as visit:
        visit.open(GRAPH)
        before = drawn_nodes(visit)
        others = visit.page.locator(f'[data-grow]:not([data-grow="{entity_id}"])')
        click_where_it_is_drawn(visit, others.first.get_attribute("data-grow"))
        click_where_it_is_drawn(visit, entity_id)
        visit.page.wait_for_function(GROWN, arg=before)
        assert visit.page.url == f"{site}{GRAPH}"
        visit.page.mouse.dblclick(*where_it_is_drawn(visit, entity_id))
        visit.page.wait_for_url("**/entities/**")
        assert visit.faults == []


@pytest.mark.parametrize(("button", "begins"), [("SVG", b"<svg"), ("PNG", b"\x89PNG")])
def test_a_drawing_is_saved(browser: Browser, site: str, button: str, begins: bytes) -> None:
    with browser.visit(site) as visit:
        visit.open(GRAPH)
        drawn_nodes(visit)
        visit.page.get_by_text("SVG, PNG").click()
        with visit.page.expect_download() as saving:
            visit.page.get_by_role("button", name=button).click()
        with open(saving.value.path(), "rb") as file:
            assert file.read(len(begins)) == begins
        assert visit.faults == []


def test_without_scripts_the_drawing_of_the_server_is_there(browser: Browser, site: str) -> None:
    with browser.visit(site, Look(scripts=False)) as visit:
        visit.open(GRAPH)
        assert visit.page.locator("svg.drawing .shape").count() > 1
        assert visit.page.locator("[data-grow]:visible").count() == 0
    with browser.visit(site) as visit:
        # Axe waits for a timer, and those stand still in a browser without scripts: here only the page's own are away.
        visit.page.route("**/*.js", lambda route: route.abort())
        visit.open(GRAPH)
        assert visit.page.locator("svg.drawing .shape").count() > 1
        assert visit.axe() == []
