"""What agents write is data: in no field does it become an element, an attribute, a script or an address of ours."""

from __future__ import annotations

from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from tallystick.policy import Action, Principal, Request
from tallystick.server.web.addresses import entity_address
from tallystick.server.web.markdown import render_markdown
from tallystick.server.web.static_files import static_files
from tests.multi_tenant import MultiTenantStore, multi_tenant_store
from tests.server.web.pages import Pages, serving_pages, serving_store
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
    "datalist", "option", "colgroup", "col", "template",
    "select", "kbd", "textarea",
})  # fmt: skip


OUR_SCRIPTS = [[("src", each.address)] for each in static_files().values() if each.kind.startswith("text/javascript")]


class Checked(HTMLParser):
    """Everything that could run, load or send something."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.faults: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "script" and attrs[:1] in OUR_SCRIPTS:
            return
        if tag not in ALLOWED:
            self.faults.append(f"<{tag}>")
        for name, value in attrs:
            if name.startswith("on") or name in ("style", "srcdoc", "src", "formaction", "http-equiv", "ping"):
                self.faults.append(f"{tag} {name}")
            if name in ("href", "action"):
                self.addresses.append(value or "")

    def check(self, *, may_lead_away: bool) -> None:
        assert self.faults == []
        for address in self.addresses:
            parts = urlsplit(address.strip())
            assert parts.scheme in (("", "http", "https") if may_lead_away else ("",)), address
            assert may_lead_away or not parts.netloc, address
            assert not address.startswith("/\\"), address


def checked(text: str, *, may_lead_away: bool = False) -> None:
    parser = Checked()
    parser.feed(text)
    parser.close()
    parser.check(may_lead_away=may_lead_away)


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Pages]:
    async with serving_pages(tmp_path) as pages:
        yield pages


@pytest.mark.parametrize("evil", CORPUS)
async def test_no_field_is_more_than_text(pages: Pages, evil: str) -> None:
    attrs = {evil: evil, "title": evil, "name": [evil, {evil: evil}], "text": f"{evil}\n{evil}"}
    run = {"run_id": evil, "job_id": evil, "dataset_id": evil}
    await pages.node(evil, evil[:100], evil, attrs=attrs, reason=evil, run_context=run)
    await pages.node(evil, evil[:100], evil, attrs={"title": f"{evil}!"}, reason=evil)
    await pages.node("other", "note", attrs={"title": evil, "text": evil * 10})
    made = await pages.edge(evil, evil[:100], "other", attrs={evil: evil}, id=f"edge {evil}")
    assert made
    await pages.edge("other", "derived_from", evil)
    opened = await pages.write(evil, "graph_open", project="p", goal=evil)
    claimed = {"_claimed_by": evil, "_claimed_at": evil, "x": evil}
    task = {"id": opened["root"]["id"], "type": "work/node", "attrs": {"properties": claimed}}
    await pages.write(evil, "memory.write", op="PATCH_NODE", node=task)
    said = quote(evil, safe="")
    for address in (
        "/", "/search", f"/search?q={said}", f"/search?type={said}", "/search?q=script",
        f"/search?q=x&by={said}&is={said}", entity_address(evil), entity_address(evil, as_of=1),
        entity_address("other"), entity_address(f"edge {evil}"), f"{entity_address('other')}?as_of={said}",
        f"{entity_address('other')}?export={said}", f"/{said}", f"/entities/{said}x", f"/search?since={said}",
        "/work", f"/work?project={said}", "/knowledge", f"/knowledge?project={said}", f"/knowledge?path={said}",
        f"/knowledge?atom={said}", "/audit?looks=1", f"/audit?actor={said}&resource={said}&policy={said}",
        f"/audit?outcome={said}", "/operations",
    ):  # fmt: skip
        answer = await pages.http.get(address, headers={"Accept": "text/html"})
        assert answer.status_code in (200, 400, 404), address
        checked(answer.text)
    exported = await pages.http.get(entity_address(evil, export="json"))
    assert '"' not in exported.headers["content-disposition"].partition('filename="')[2][:-1]


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


@pytest.mark.parametrize("entity_id", ["vault-9", "plan|leads_to|vault-9", "vault-9|leads_to|plan"])
@pytest.mark.parametrize("query", ["", "?as_of=2", "?export=csv", "?export=json", "?step=1"])
async def test_what_may_not_be_read_is_as_what_does_not_exist(tmp_path: Path, entity_id: str, query: str) -> None:
    async with multi_tenant_store(tmp_path, RulePolicy()) as base:
        await peopled(base)
        async with serving_store(base, BOB) as pages:
            denied = await pages.html(f"{entity_address(entity_id)}{query}", 404)
            assert denied == await pages.html(f"/entities/nope{query}", 404)
            assert await pages.json(f"{entity_address(entity_id)}{query}", 404) == await pages.json(
                f"/entities/nope{query}", 404
            )


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
