"""What people do on pages, in Chromium; and an auditor who logs in, finds something out and takes a report home."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.browser.harness import DECISIONS, Browser, Look, Visit
from tests.browser.memories import PROJECT, SAMPLE, import_lines, lived_in
from tests.identity.browsing import register
from tests.identity.provider import provider
from tests.mcp_client import start_http, stopping
from tests.nats_cluster import free_ports
from tests.timeouts import SECONDS

BOARD = f"/work?project={PROJECT}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with lived_in(tmp_path_factory.mktemp("acted-in")) as address:
        yield address


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_a_person_works_on_the_board(browser: Browser, site: str, scripts: bool) -> None:
    with browser.visit(site, Look(scripts=scripts)) as visit:
        page, summary = visit.page, f"Ask finance, with scripts: {scripts}"
        visit.open(BOARD)
        page.get_by_text("Add a task").click()
        page.get_by_label("What is to be done").fill(summary)
        page.get_by_label("Priority, from").fill("7")
        page.get_by_role("button", name="Add it").click()
        card = page.locator("li.task", has_text=summary)
        card.get_by_text("P7", exact=True).wait_for()
        card.get_by_role("button", name="Claim").click()
        card.get_by_text("grace").wait_for()
        card.locator("summary").click()
        card.get_by_label("Evidence", exact=True).fill("they agreed")
        card.get_by_role("button", name="Resolve").click()
        page.locator("li.task.done", has_text=summary).get_by_text("they agreed").wait_for()
        assert visit.faults == []


def test_a_task_is_dropped_by_a_step_of_its_own(browser: Browser, site: str) -> None:
    with browser.visit(site, Look(scripts=False)) as visit:
        page = visit.page
        visit.open(BOARD)
        card = page.locator("li.task", has_text="Announce to support")
        card.locator("summary").click()
        card.get_by_role("link", name="Drop").click()
        page.get_by_role("textbox", name="Reason").fill("told already")
        page.get_by_label("Give it up").check()
        page.get_by_role("button", name="Drop").click()
        page.locator("li.task.dropped, li.task.done", has_text="Announce to support").first.wait_for()


def test_something_is_redacted_and_recalled_by_clicks(browser: Browser, site: str) -> None:
    with browser.visit(site) as visit:
        page = visit.page
        visit.open("/entities/decision-retries")
        page.get_by_role("link", name="Redact").click()
        assert visit.axe() == []
        page.get_by_label("attrs.decided_by").check()
        page.get_by_role("textbox", name="Reason").fill("asked to")
        page.get_by_label("for good").check()
        page.get_by_role("button", name="Redact").click()
        page.get_by_text("1 value redacted").wait_for()
        page.get_by_role("link", name="Recall").click()
        assert visit.axe() == []
        page.get_by_role("textbox", name="Reason").fill("not to be trusted")
        page.get_by_label("Mark all of it").check()
        page.get_by_role("button", name="Recall").click()
        page.locator(".note.untrusted").wait_for()
        assert visit.axe() == []
        assert visit.faults == []


def test_keys_do_what_can_be_clicked(browser: Browser, site: str) -> None:
    with browser.visit(site) as visit:
        page = visit.page
        visit.open("/entities/decision-retries")
        page.keyboard.press("[")
        page.locator(".bar.past").wait_for()
        earlier = page.url
        page.keyboard.press("]")
        page.wait_for_url(lambda address: address != earlier)
        page.locator(".bar.past").wait_for()
        page.keyboard.press("Escape")
        page.locator(".bar:not(.past)").wait_for()
        page.keyboard.press("?")
        page.locator("#keys:popover-open").wait_for()
        assert visit.axe() == []
        page.keyboard.press("Escape")
        page.keyboard.press("g")
        page.keyboard.press("o")
        page.wait_for_url(f"{site}/")
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.id") == "q"
        assert visit.faults == []


def test_keys_lead_from_row_to_row_and_open_one(browser: Browser, site: str) -> None:
    with browser.visit(site) as visit:
        page = visit.page

        def pressed(key: str) -> str:
            page.keyboard.press(key)
            return str(page.evaluate("document.activeElement.href"))

        visit.open("/audit")
        rows = [row.locator("a").first.evaluate("link => link.href") for row in page.locator(DECISIONS).all()]
        assert [pressed(key) for key in ("j", "j", "j", "k")] == [rows[0], rows[1], rows[2], rows[1]]
        assert visit.tab_stops() != []
        assert [pressed("k")] == [rows[-1]], "from nowhere, the last one"
        page.locator(DECISIONS).locator("a").first.focus()
        assert pressed("k") == rows[0], "it stays on the first"
        page.keyboard.press("Enter")
        page.wait_for_url(rows[0])
        assert visit.faults == []


@pytest.fixture(scope="module")
def unguarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The sample, of which everybody may read everything."""
    base = tmp_path_factory.mktemp("unguarded") / "memory"
    import_lines(base, SAMPLE.read_text())
    with stopping(start_http(base, "--toolsets", "all", agent="operator")) as server:
        yield server.url


OPENED = (BOARD, "/work", "/knowledge?atom={atom}", "/policy", "/entities/decision-retries")
LOOKS = [Look(theme="dark"), Look(width=320, height=700), Look(zoom=2), Look(forced_colours=True)]
NAMES = ["dark", "320 px", "200 %", "forced colours"]


@pytest.mark.parametrize("look", LOOKS, ids=NAMES)
def test_forms_that_are_opened_can_be_used_by_everybody(browser: Browser, site: str, look: Look) -> None:
    atom = httpx2.get(f"{site}/knowledge.json").json()["known"]["atoms"][0]["id"]
    with browser.visit(site, look) as visit:
        for address in OPENED:
            visit.open(address.format(atom=atom))
            visit.page.evaluate("for (const each of document.querySelectorAll('main details')) each.open = true")
            assert visit.page.locator("main form:visible").count() > 0, address
            assert visit.axe() == [], address
            assert visit.overflow() == [], address
        assert visit.faults == []


@pytest.mark.parametrize("look", LOOKS, ids=NAMES)
def test_a_person_is_forgotten_by_steps_that_everybody_can_use(browser: Browser, unguarded: str, look: Look) -> None:
    name = f"Person {NAMES[LOOKS.index(look)]}"
    written = {"op": "UPSERT_NODE", "node": {"id": name, "type": "Person", "attrs": {"name": name}}}
    assert httpx2.post(f"{unguarded}/v1/tools/memory.write", json=written, timeout=SECONDS).status_code == 200
    with browser.visit(unguarded, look) as visit:
        visit.open("/governance")
        visit.page.locator("textarea[name=texts]").fill(name)
        visit.page.get_by_role("button", name="Find").click()
        visit.page.get_by_role("textbox", name="Reason").fill("asked to")
        assert visit.axe() == []
        assert visit.overflow() == []
        visit.page.locator("input[name=confirmed]").check()
        visit.page.locator("button.grave").click()
        visit.page.locator("input[name=confirmed]").wait_for(state="detached")
        assert visit.axe() == []
        assert visit.overflow() == []
        assert visit.faults == []


def test_the_first_visit_fills_by_itself(browser: Browser, tmp_path: Path) -> None:
    with stopping(start_http(tmp_path, agent="operator")) as server, browser.visit(server.url) as visit:
        visit.open("/")
        visit.page.get_by_text("fills by itself with the first commit").wait_for()
        assert visit.axe() == []
        node = {"op": "UPSERT_NODE", "node": {"id": "plan", "type": "note", "attrs": {"title": "The plan"}}}
        assert httpx2.post(f"{server.url}/v1/tools/memory.write", json=node, timeout=SECONDS).status_code == 200
        visit.page.get_by_role("link", name="The plan").wait_for()
        assert visit.faults == []


def test_while_decisions_are_asked_for_their_table_shows_bones(browser: Browser, site: str) -> None:
    held: list[Any] = []
    with browser.visit(site) as visit:
        page = visit.page
        visit.open("/audit")
        page.route("**/audit?*", lambda route: held.append(route))  # noqa: PLW0108  # it wants a function
        page.get_by_label("Action").select_option("WRITE")
        page.get_by_role("button", name="Apply").click()
        page.locator("#content[aria-busy=true]").wait_for()
        while page.evaluate("getComputedStyle(document.querySelector('#content tbody td'), '::after').opacity") != "1":
            pass
        held[0].continue_()
        page.locator("#content:not([aria-busy])").wait_for()
        page.wait_for_url("**/audit?*action=WRITE*")
        assert visit.faults == []


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_knowledge_is_edited_pinned_and_looked_at_again(browser: Browser, site: str, scripts: bool) -> None:
    with browser.visit(site, Look(scripts=scripts)) as visit:
        page, text = visit.page, f"Retries were switched off, with scripts: {scripts}"
        visit.open("/knowledge")
        if scripts:
            page.get_by_role("button", name="Make work of what is stale").click()
            page.get_by_text("1 task made to look at what is stale").wait_for()
        page.get_by_role("link", name="Retries").first.click()
        atom = page.locator("#atom")
        if scripts:
            atom.get_by_text("stale", exact=True).wait_for()
            atom.get_by_role("button", name="pin it").click()
            atom.get_by_text("fresh", exact=True).wait_for()
        atom.locator("summary").click()
        if scripts:
            assert visit.axe() == []
        atom.get_by_label("What is known").fill(text)
        atom.get_by_role("button", name="Save").click()
        atom.locator(".prose").get_by_text(text).wait_for()
        assert visit.faults == []


def test_what_a_client_needs_is_copied_from_the_first_page(browser: Browser, tmp_path: Path) -> None:
    with (
        stopping(start_http(tmp_path / "memory", "--toolsets", "all", agent="operator")) as server,
        browser.visit(server.url) as visit,
    ):
        page = visit.page
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        visit.open("/")
        assert visit.axe() == []
        buttons = page.locator("[data-copy]")
        assert buttons.count() > 2
        for number, button in enumerate(buttons.all(), 1):
            button.click()
            button.get_by_text("Copied").wait_for()
            assert page.evaluate("navigator.clipboard.readText()") == page.locator(f"#command-{number}").inner_text()
        assert visit.faults == []


@contextmanager
def behind_login(tmp_path: Path) -> Iterator[str]:
    """The address of the sample, whose people log in at a real identity provider and have roles."""
    import_lines(tmp_path / "memory", SAMPLE.read_text())
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    with provider() as issuer, ThreadPoolExecutor(1) as elsewhere:
        client = elsewhere.submit(asyncio.run, register(issuer, url)).result()
        secret = tmp_path / "secret"
        secret.write_text(client.secret)
        secret.chmod(0o600)
        environ = {
            "TALLYSTICK_ISSUERS": issuer,
            "TALLYSTICK_PUBLIC_URL": url,
            "TALLYSTICK_SCOPES": "memory",
            "TALLYSTICK_WEB_CLIENT_ID": client.id,
            "TALLYSTICK_WEB_CLIENT_SECRET_FILE": str(secret),
            "TALLYSTICK_POLICY": "rbac",
        }
        with stopping(start_http(tmp_path / "memory", "--toolsets", "all", agent=None, port=port, environ=environ)):
            yield url


def log_in(visit: Visit, name: str) -> None:
    page = visit.page
    page.goto("/")
    page.locator("input[name=login]").fill(name)
    page.locator("input[name=password]").fill("any")
    page.locator("[type=submit]").click()
    page.locator("[type=submit]").click()
    page.locator("#q").wait_for()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with behind_login(tmp_path_factory.mktemp("guarded")) as url:
        yield url


def offered(visit: Visit, address: str) -> set[str]:
    """What the page lets its visitor do."""
    visit.open(address)
    words = ("Recall…", "Redact…", "Claim", "Add a task", "Begin it", "Change", "Make work")
    controls = visit.page.locator("main :is(button, a.button, summary):visible").all_inner_texts()
    return {word for word in words if any(text.strip().startswith(word) for text in controls)}


def test_people_are_offered_what_their_roles_allow(browser: Browser, guarded: str) -> None:
    """After a login each: a writer plans, an admin redacts and recalls, a reader looks."""
    entity = "/entities/decision-retries"
    with browser.visit(guarded) as visit:
        log_in(visit, "alice")
        assert offered(visit, "/work") == {"Begin it"}
        visit.page.get_by_label("Name").fill("roles")
        visit.page.get_by_role("button", name="Begin it").click()
        visit.page.get_by_text("Add a task").click()
        visit.page.get_by_label("What is to be done").fill("Ask them")
        visit.page.get_by_role("button", name="Add it").click()
        visit.page.locator("li.task", has_text="Ask them").get_by_role("button", name="Claim").wait_for()
        assert offered(visit, "/work?project=roles") == {"Claim", "Add a task", "Change"}
        assert "Redact…" not in offered(visit, entity)
    with browser.visit(guarded) as visit:
        log_in(visit, "dave")
        assert offered(visit, "/work?project=roles") == offered(visit, "/work") == offered(visit, entity) == set()
        assert visit.page.locator("main form[method=post]").count() == 0
        visit.open("/redact?id=decision-retries", status=404)
    with browser.visit(guarded) as visit:
        log_in(visit, "carol")
        visit.faults.clear()  # of the provider's own pages
        assert offered(visit, entity) == {"Recall…", "Redact…"}
        visit.page.get_by_role("link", name="Recall…").click()
        visit.page.get_by_role("textbox", name="Reason").fill("not to be trusted")
        visit.page.get_by_label("Mark all of it").check()
        visit.page.get_by_role("button", name="Recall").click()
        visit.page.locator(".note.untrusted").wait_for()
        assert visit.faults == []


def test_from_login_to_an_exported_report(browser: Browser, guarded: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As an auditor does it: how long it takes is said, and judged by nobody."""
    with browser.visit(guarded) as visit:
        page, began = visit.page, time.monotonic()
        log_in(visit, "alice")
        page.locator("#q").fill("retry payments")
        page.keyboard.press("Enter")
        page.get_by_role("link", name="Retry payments three times").click()
        page.locator(".lineage .step").first.wait_for()
        page.get_by_role("link", name="Earlier").click()
        page.get_by_role("link", name="Back to now").click()
        with page.expect_download() as report:
            page.get_by_role("link", name="Audit report").click()
        seconds = time.monotonic() - began
        text = Path(report.value.path()).read_text()
        assert "Retry payments three times" in text
        assert "agreed in review" in text
    with capsys.disabled():
        print(f"\nfrom login to an exported report: {seconds:.1f} s")
