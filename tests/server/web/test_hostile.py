"""What agents write is data: in no field does it become an element, an attribute, a script or an address of ours."""

from __future__ import annotations

import csv
import io
import re
import subprocess
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from markupsafe import escape

from tallystick.extensions.web.addresses import entity_address, is_local
from tallystick.extensions.web.markdown import render_markdown
from tallystick.extensions.web.registry import PAGES
from tallystick.extensions.web.static_files import static_files
from tallystick.policy import Action, Principal, Request
from tests.multi_tenant import MultiTenantStore, multi_tenant_store
from tests.promises import promise
from tests.server.web.acting import forms_of, post
from tests.server.web.pages import HTML, SITE, Pages, serving_pages, serving_store
from tests.test_hidden import RulePolicy

pytestmark = pytest.mark.anyio

CORPUS = [
    "<script>alert(1)</script>",
    "\"><script src=//evil.example></script>",
    "'\"><img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "</title><script>alert(1)</script>",
    "</textarea><iframe src=javascript:alert(1)>",
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "{{ frame.token }}{% for x in () %}",
    "${7*7}#{7*7}",
    "\u202egnp.exe\u2066",
    "<a href=\"javascript:alert(1)\" style=\"x:expression(1)\">x</a>",
    "<base href=//evil.example><meta http-equiv=refresh content=0>",
    "\ud7ff<b>\uffff",
    "&lt;script&gt;&#x3c;script&#x3e;",
    "`<form action=//evil.example>`",
]  # fmt: skip
FORMULAS = ["=1+1", "+1", "-2+3", "@SUM(1)", '=HYPERLINK("//evil.example","x")']
MARKDOWN = [
    "[x](javascript:alert(1))", "[x](JaVaScRiPt:alert(1))", "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](vbscript:1)", "![x](https://evil.example/p.gif)", "![x\"onerror=alert(1)](x)", "<script>alert(1)</script>",
    "[x](https://evil.example \"\\\"onmouseover=alert(1)\")", "<https://evil.example/>",
    "[x]: javascript:alert(1)\n[x]",
    "<a href='javascript:1'>x</a>", "[x](//evil.example)", "[x](/\\\\evil.example)", "[a](<javascript:alert(1)>)",
    "[x](&#106;avascript:alert(1))", "[x](java\tscript:1)", "# <b>x", "| <i> |\n|---|\n| <u> |",
    "[x](\x01javascript:1)",
    "```\n</code><script>1</script>\n```", "[![x](https://evil.example/a)](https://evil.example/b)",
]  # fmt: skip

ALLOWED = frozenset({
    "html", "head", "meta", "title", "link", "body", "a", "div", "header", "nav", "h1", "h2", "h3", "h4", "h5", "h6",
    "ul", "ol", "li", "svg", "use", "rect", "line", "section", "dl", "dt", "dd", "span", "b", "bdi", "main", "form",
    "input", "label", "button", "fieldset", "legend", "details", "summary", "table", "caption", "thead", "tbody", "tr",
    "th", "td", "time", "code", "p", "strong", "em", "q", "pre", "blockquote", "del", "s", "ins", "br", "hr",
    "datalist", "option", "colgroup", "col", "template", "defs", "marker", "path", "g", "text", "circle", "polygon",
    "select", "kbd", "textarea", "output",
})  # fmt: skip


OUR_SCRIPTS = [[("src", each.address)] for each in static_files().values() if each.kind.startswith("text/javascript")]


class Checked(HTMLParser):
    """Everything that could run, load or send something."""

    def __init__(self, *, is_paper: bool) -> None:
        """Paper has its style with it, and leads to the server that made it."""
        super().__init__(convert_charrefs=True)
        paper: list[tuple[str, list[tuple[str, str | None]]]] = [("base", [("href", SITE)]), ("style", [])]
        self.expected = paper if is_paper else []
        self.faults: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "script" and attrs[:1] in OUR_SCRIPTS:
            return
        if (tag, attrs) in self.expected:
            self.expected.remove((tag, attrs))
            return
        if tag not in ALLOWED:
            self.faults.append(f"<{tag}>")
        for name, value in attrs:
            if name.startswith("on") or name in ("style", "srcdoc", "src", "formaction", "http-equiv", "ping"):
                self.faults.append(f"{tag} {name}")
            if name in ("href", "action"):
                self.addresses.append(value or "")

    def check(self, *, may_lead_away: bool) -> None:
        assert (self.faults, self.expected) == ([], [])
        for address in self.addresses:
            parts = urlsplit(address.strip())
            assert parts.scheme in (("", "http", "https") if may_lead_away else ("",)), address
            assert may_lead_away or not parts.netloc, address
            assert not address.startswith("/\\"), address


def checked(text: str, *, may_lead_away: bool = False, is_paper: bool = False) -> None:
    parser = Checked(is_paper=is_paper)
    parser.feed(text)
    parser.close()
    parser.check(may_lead_away=may_lead_away)


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Pages]:
    async with serving_pages(tmp_path / "base", repo=str(tmp_path / "repository")) as pages:
        yield pages


def make_repository(directory: Path, evil: str) -> str:
    """With one file, whose name is that."""
    directory.mkdir()
    name = evil.replace("/", "\u2215")
    (directory / name).write_text("text")
    who = ("-c", "user.name=ada", "-c", "user.email=ada@example.org")
    for command in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "--message", "begin")):
        subprocess.run(["git", *who, *command], cwd=directory, check=True)
    return name


async def fill(pages: Pages, evil: str) -> dict[str, str]:
    """Everything that agents write holds it. The names of what addresses need."""
    attrs = {evil: evil, "title": evil, "name": [evil, {evil: evil}], "text": f"{evil}\n{evil}"}
    run = {"run_id": evil, "job_id": evil, "dataset_id": evil}
    await pages.node(evil, evil[:100], evil, attrs=attrs, reason=evil, run_context=run)
    written = await pages.node(evil, evil[:100], evil, attrs={**attrs, "title": f"{evil}!"}, reason=evil)
    await pages.node(
        "other", "note", attrs={"title": evil, "text": evil * 10, "from": evil, "stale_after": "2020-01-01"}
    )
    await pages.edge(evil, evil[:100], "other", attrs={evil: evil}, id=f"edge {evil}")
    await pages.edge("other", "derived_from", evil)
    opened = await pages.write(evil, "graph_open", project=evil, goal=evil)
    tasks = [{"ref": ref, "parent_ref": opened["root"]["id"], "summary": evil} for ref in ("a", "b", "c")]
    planned = await pages.write(evil, "graph_plan", nodes=[*tasks[:2], {**tasks[2], "depends_on": ["a"]}])
    done = {"node_id": planned["created"][1]["id"], "resolved": True, "add_evidence": [{"type": evil, "ref": evil}]}
    assert "error" not in await pages.write(evil, "graph_update", updates=[{**done, "properties": {evil: evil}}])
    assert len((await pages.write(evil, "graph_next", project=evil, claim=True))["nodes"]) == 1
    made = {"operation": "create", "containerType": "project", "name": f"of {evil}", "summary": evil}
    project = await pages.write(evil, "manage_container", **made)
    assert "data" in project, project
    place = {"projectId": project["data"]["project"]["id"]}
    card = {"operation": "create", "containerType": "task", "title": evil, "summary": evil, "priority": "LOW"}
    looked = await pages.write(evil, "manage_container", **card, complexity=1, **place)
    atom = {"operation": "create", "entityType": "atom", "name": evil, "knowledge": evil, "paths": ["**"], "pin": True}
    known = await pages.write(evil, "manage_graph", **atom, createdByTaskId=looked["data"]["task"]["id"], **place)
    return {
        "evil": quote(evil, safe=""),
        "entity": entity_address(evil),
        "edge": entity_address(f"edge {evil}"),
        "commit": written["commit_id"],
        "task": planned["created"][0]["id"],
        "atom": known["data"]["atom"]["id"],
        "project": place["projectId"],
    }


ASKED = {
    "/": ("/", "/?as_of={evil}", "/{evil}"),
    "/search": (
        "/search", "/search?q={evil}", "/search?type={evil}", "/search?q=script", "/search?q=x&by={evil}&is={evil}",
        "/search?since={evil}", "/search?is=stale",
    ),
    "/entities/{id:path}": (
        "{entity}", "{entity}?as_of=1", "{entity}?skip={evil}", "{entity}?place={evil}", "{edge}", "/entities/other",
        "/entities/other?as_of={evil}", "/entities/other?export={evil}", "/entities/{evil}x", "/entities?id={evil}",
        "/entities/{task}", "/entities/{atom}",
    ),
    "/graph": ("/graph", "/graph?around={evil}", "/graph?around=other", "/graph?around=other&rel={evil}&type={evil}"),
    "/policy": ("/policy", "/policy?x={evil}"),
    "/governance": ("/governance",),
    "/redact": ("/redact?id={evil}", "/redact?id=edge%20{evil}", "/redact?id=x{evil}"),
    "/recall": (
        "/recall?commit={commit}&entity={evil}", "/recall?actor={evil}", "/recall?actor=x{evil}",
        "/recall?commit={evil}", "/recall?actor=ada&since={evil}", "/recall?actor={evil}&hops={evil}",
    ),
    "/drop": ("/drop?task={task}", "/drop?task={evil}"),
    "/work": ("/work", "/work?project={evil}", "/work?project=x{evil}"),
    "/knowledge": (
        "/knowledge", "/knowledge?project={evil}", "/knowledge?project={project}", "/knowledge?path={evil}",
        "/knowledge?atom={atom}", "/knowledge?atom={evil}", "/knowledge?made={evil}",
    ),
    "/audit": (
        "/audit?looks=1", "/audit?actor={evil}&resource={evil}&policy={evil}", "/audit?outcome={evil}",
        "/audit?since={evil}", "/audit?seq=3", "/audit?seq={evil}", "/audit?export={evil}",
    ),
    "/operations": ("/operations", "/operations?span={evil}"),
}  # fmt: skip
"""By the path of the page, what is asked of it."""


def test_no_page_is_left_out() -> None:
    assert set(ASKED) == {page.path for page in PAGES}


@promise("web, escaping", "what agents write is text in every field")
@pytest.mark.parametrize("evil", CORPUS)
async def test_no_field_is_more_than_text(pages: Pages, tmp_path: Path, evil: str) -> None:
    name = make_repository(tmp_path / "repository", evil)
    known = await fill(pages, evil)
    forms: dict[str, Any] = {}
    for path, addresses in ASKED.items():
        statuses = []
        for address in addresses:
            answer = await pages.http.get(address.format(**known), headers={"Accept": "text/html"})
            statuses.append(answer.status_code)
            assert answer.status_code in (200, 400, 404), address
            checked(answer.text)
            forms |= {str(sorted(form["fields"].items())): form for form in forms_of(answer.text)}
        assert 200 in statuses, path
    assert escape(name) in await pages.html("/knowledge")
    assert {form["action"].partition("?")[0] for form in forms.values()} >= {page.path for page in PAGES if page.act}
    for form in forms.values():
        await send_everything(pages, form, evil)


async def send_everything(pages: Pages, form: dict[str, Any], evil: str) -> None:
    """As a person who types it everywhere and ticks all; then as a program that changes what nobody types, too."""
    for names in (form["fields"].keys() - {"token", "act"}, form["texts"]):
        data = {**form["fields"], **form["boxes"], **dict.fromkeys(names, evil)}
        answer = await pages.http.post(form["action"], data=data, headers={**HTML, "Origin": SITE})
        assert answer.status_code in (200, 303, 400, 403, 404, 409), (form, answer.text)
        checked(answer.text)
        if answer.status_code == 303:
            place = answer.headers["location"]
            assert is_local(place)
            checked((await pages.http.get(place.partition("#")[0], headers=HTML)).text)


async def test_a_number_of_thousands_of_digits_is_refused_and_not_a_bug(pages: Pages) -> None:
    long = "9" * 5_000
    await pages.node("plan", "note", "crawler")
    for address in (
        f"/entities/plan?skip={long}", f"/entities/plan?place={long}", f"/recall?actor=crawler&hops={long}",
        f"/audit?seq={long}", f"/audit?before={long}", f"/knowledge?made={long}", f"/entities/plan?as_of={long}",
    ):  # fmt: skip
        assert (await pages.http.get(address, headers=HTML)).status_code in (400, 404), address
    for path, fields in (
        ("/recall", {"actor": "crawler", "hops": long, "reason": "x", "confirmed": "yes"}),
        ("/work", {"act": "prioritise", "task": "x", "priority": long}),
        ("/knowledge", {"act": "pin", "atom": "x", "version": long}),
    ):
        assert (await post(pages, path, **fields)).status_code == 400, path


@pytest.mark.parametrize("evil", [*CORPUS, *FORMULAS])
async def test_a_file_that_is_taken_home_holds_text(pages: Pages, tmp_path: Path, evil: str) -> None:
    make_repository(tmp_path / "repository", evil)
    known = await fill(pages, evil)
    for address in (known["entity"], "/audit"):
        table = await pages.http.get(f"{address}?export=csv&looks=1")
        cells = [cell for row in csv.reader(io.StringIO(table.text, newline="")) for cell in row]
        assert any(evil in cell for cell in cells)
        assert [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))] == []
    assert (await pages.http.get(f"{known['entity']}?export=json")).json()["entity"]["id"] == evil
    for export in ("csv", "json", "openlineage", "report"):
        answer = await pages.http.get(known["entity"], params={"export": export})
        said = answer.headers["content-disposition"]
        assert re.fullmatch(r'attachment; filename="[\w.-]+"', said, re.ASCII), said
        assert (answer.headers["x-content-type-options"], answer.status_code) == ("nosniff", 200)
    checked(answer.text, is_paper=True)
    assert escape(evil) in answer.text


@promise("web, markdown", "markdown is rendered and nothing else")
@pytest.mark.parametrize("evil", [*MARKDOWN, *CORPUS])
def test_markdown_is_rendered_and_nothing_else(evil: str) -> None:
    text = str(render_markdown(evil))
    checked(text, may_lead_away=True)
    assert "<img" not in text
    if '="https://evil' in text or '="//evil' in text:
        assert "leads to evil.example" in text


def test_markdown_that_is_long_is_shown_as_written() -> None:
    text = str(render_markdown("<b>" * 20_000))
    assert text.startswith("<pre>&lt;b&gt;")
    checked(text)


# -- policy and tenants

ALICE, BOB = Principal(actor="alice", tenant="acme"), Principal(actor="bob", tenant="acme", trusted=False)
EVE = Principal(actor="eve", tenant="globex", trusted=False)


async def peopled(base: MultiTenantStore) -> None:
    await base.node(ALICE, "plan", "note", title="The plan of all")
    await base.node(ALICE, "vault-9", "secret", title="Nobody else knows")
    await base.node(ALICE, "plan", "note", title="The plan of many")
    await base.edge(ALICE, "plan", "leads_to", "vault-9")
    await base.edge(ALICE, "vault-9", "leads_to", "plan")


ADDRESSES = [
    "/", "/search?q=nobody+knows", "/search?type=secret", "/search?q=plan", "/search", "/entities/plan",
    "/entities/plan?as_of=2", "/entities/plan?as_of=5", "/work", "/knowledge", "/audit", "/audit?looks=1",
    "/audit?resource=type:secret", "/operations",
]  # fmt: skip


@promise("web, policy", "what policy withholds is not there")
async def test_what_policy_withholds_is_not_there(tmp_path: Path) -> None:
    async with multi_tenant_store(tmp_path, RulePolicy()) as base:
        await peopled(base)
        async with serving_store(base, ALICE) as pages:
            assert "Nobody else knows" in await pages.html("/entities/plan")
            assert "Nobody else knows" in await pages.html("/entities/vault-9")
        async with serving_store(base, BOB) as pages:
            for address in ADDRESSES:
                for text in (await pages.html(address), str(await pages.json(address))):
                    assert "Nobody else" not in text, address
                    assert "vault-9" not in text, address
                    assert "secret" in address or "secret" not in text, address


@promise("web, denials", "what may not be read is as what does not exist")
@pytest.mark.parametrize("entity_id", ["vault-9", "plan|leads_to|vault-9", "vault-9|leads_to|plan"])
@pytest.mark.parametrize("query", ["", "?as_of=2", "?export=csv", "?export=json", "?place=1"])
async def test_what_may_not_be_read_is_as_what_does_not_exist(tmp_path: Path, entity_id: str, query: str) -> None:
    async with multi_tenant_store(tmp_path, RulePolicy()) as base:
        await peopled(base)
        async with serving_store(base, BOB) as pages:
            denied = await pages.html(f"{entity_address(entity_id)}{query}", 404)
            assert denied == await pages.html(f"/entities/nope{query}", 404)
            assert await pages.json(f"{entity_address(entity_id)}{query}", 404) == await pages.json(
                f"/entities/nope{query}", 404
            )


@promise("web, tenants", "another tenant sees nothing")
async def test_another_tenant_sees_nothing_of_it(tmp_path: Path) -> None:
    async with multi_tenant_store(tmp_path, RulePolicy(lambda request: True)) as base:
        await peopled(base)
        async with serving_store(base, EVE) as pages:
            for address in (
                "/", "/search?q=plan", "/search?type=note", "/work", "/knowledge", "/audit?looks=1",
            ):  # fmt: skip
                text = await pages.html(address)
                assert "The plan" not in text
                assert "alice" not in text
            assert await pages.html("/entities/plan", 404) == await pages.html("/entities/nope", 404)


async def test_how_the_server_does_is_told_to_the_tenant_of_who_runs_it_alone(tmp_path: Path) -> None:
    async with multi_tenant_store(tmp_path, RulePolicy(lambda request: True)) as base:
        await peopled(base)
        await base.node(EVE, "own", "note", title="Of another tenant")
        async with serving_store(base, EVE, figures_for=BOB.tenant) as pages:
            assert (await pages.json("/"))["health"] is None
            text = await pages.html("/")
            assert "Write p95" not in text
            assert "<dt>Log</dt>" not in text
        async with serving_store(base, BOB, figures_for=BOB.tenant) as pages:
            assert "<dt>Log</dt>" in await pages.html("/")


async def test_who_may_look_at_nothing_is_told_nothing(tmp_path: Path) -> None:
    def nothing(request: Request) -> bool:
        return request.principal.actor == "alice" or request.action is Action.WRITE

    async with multi_tenant_store(tmp_path, RulePolicy(nothing)) as base:
        await peopled(base)
        async with serving_store(base, BOB) as pages:
            for address in (
                "/", "/search?q=plan", "/entities/plan", "/work", "/knowledge", "/audit", "/operations",
            ):  # fmt: skip
                assert "nothing here that you may read" in await pages.html(address, 404)
