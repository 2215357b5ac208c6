"""What all pages have in common: headers, JSON, errors, themes, and what other pages may not do."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.config import Settings
from tallystick.engine.sessions import Sessions
from tallystick.errors import Denied, InvalidArgument
from tallystick.extensions.web.addresses import entity_address, is_local
from tallystick.extensions.web.registry import NAVIGATION, PAGES, Page
from tallystick.extensions.web.responses import WebPages
from tallystick.extensions.web.security import TOKEN_SECONDS, PageTokens
from tallystick.policy import Principal
from tallystick.server.oauth.guard import build_admission
from tests.promises import promise
from tests.server.web.pages import HTML, JSON, SITE, Pages, pages_of, serving_pages

pytestmark = pytest.mark.anyio


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Pages]:
    async with serving_pages(tmp_path) as pages:
        await pages.node("plan", attrs={"title": "The plan"})
        yield pages


PLAIN = [page.path for page in PAGES if "{" not in page.path and not page.is_step]


@pytest.mark.parametrize("path", [*PLAIN, "/nowhere"])
async def test_every_page_forbids_what_pages_can_be_made_to_do(pages: Pages, path: str) -> None:
    answer = await pages.http.get(path, headers=HTML)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert answer.headers["cache-control"] == "private, no-store"
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=|javascript:", answer.text)


@promise("web, JSON", "every page is had as JSON")
@pytest.mark.parametrize("page", [page for page in PAGES if page.path in PLAIN], ids=lambda page: page.path)
async def test_every_page_is_had_as_json(pages: Pages, page: Page) -> None:
    by_name = await pages.http.get(page.json_path, headers=HTML)
    by_header = await pages.http.get(page.path, headers=JSON)
    assert by_name.status_code == by_header.status_code == 200
    assert by_name.headers["content-type"] == by_header.headers["content-type"] == "application/json"
    assert by_name.json().keys() == by_header.json().keys()


async def test_the_navigation_leads_to_pages(pages: Pages) -> None:
    for section in NAVIGATION:
        for link in section.links:
            assert f'href="{link.path}" aria-current="page"' in await pages.html(link.path)


async def test_static_files_are_named_by_their_content_and_kept_for_good(pages: Pages) -> None:
    addresses = set(re.findall(r'"(/static/[^"#]+)', await pages.html("/")))
    assert len(addresses) >= 3
    for address in addresses:
        answer = await pages.http.get(address)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["content-encoding"] == "gzip"
        plain = await pages.http.get(address, headers={"Accept-Encoding": "identity"})
        assert plain.content == answer.content
    for other in ("/static/style-000000000000.css", "/static/style.css", "/static/..%2fsecurity.py"):
        assert (await pages.http.get(other)).status_code == 404


async def test_what_is_not_there_is_said_as_it_was_asked_for(pages: Pages) -> None:
    assert "<h1>There is nothing here that you may read</h1>" in await pages.html("/nowhere", 404)
    assert (await pages.json("/nowhere", 404))["error"] == "NO_SUCH_PATH"
    assert (await pages.http.get("/v1/nowhere")).headers["content-type"] == "application/json"


async def test_a_bug_is_told_by_its_id_alone(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("inside")

    monkeypatch.setattr(pages.offer.store, "commits", fail)
    text = await pages.html("/", 500)
    assert "INTERNAL_ERROR" in text
    assert "inside" not in text


# -- themes, and with them what changes


async def _token(pages: Pages) -> str:
    found = re.search(r'name="token" value="([^"]+)"', await pages.html("/"))
    assert found is not None
    return found[1]


async def test_a_theme_is_chosen_without_a_script_and_stays(pages: Pages) -> None:
    assert "data-theme" not in await pages.html("/")
    form = {"token": await _token(pages), "theme": "dark", "back": "/?q=1"}
    answer = await pages.http.post("/theme", data=form, headers={**HTML, "Origin": SITE})
    assert (answer.status_code, answer.headers["location"]) == (303, "/?q=1")
    assert "samesite=strict" in answer.headers["set-cookie"].lower()
    assert '<html lang="en" data-theme="dark">' in await pages.html("/")


@promise("web, changes", "nothing changes without the token of a page")
@pytest.mark.parametrize("token", ["", "0.0", "ffffffff.00", "é.ü", "x" * 10_000])
async def test_nothing_changes_without_the_token_of_a_page(pages: Pages, token: str) -> None:
    answer = await pages.http.post("/theme", data={"token": token, "theme": "dark"}, headers=HTML)
    assert answer.status_code == 403
    assert "PAGE_EXPIRED" in answer.text
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "back", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:1", "/\t/x"]
)
async def test_nobody_is_sent_elsewhere(pages: Pages, back: str) -> None:
    form = {"token": await _token(pages), "theme": "dark", "back": back}
    answer = await pages.http.post("/theme", data=form, headers=HTML)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


async def test_a_theme_that_is_none_is_refused(pages: Pages) -> None:
    form = {"token": await _token(pages), "theme": "<b>"}
    answer = await pages.http.post("/theme", data=form, headers=HTML)
    assert answer.status_code == 400
    assert "<b>'" not in answer.text


def test_a_token_holds_in_every_process_of_the_base(tmp_path: Path) -> None:
    one, other = (PageTokens(Sessions(tmp_path / "sessions").signing_key) for _ in range(2))
    other.check(Principal("ada"), one.make(Principal("ada")))
    elsewhere = PageTokens(Sessions(tmp_path / "others").signing_key)
    with pytest.raises(Denied):
        elsewhere.check(Principal("ada"), one.make(Principal("ada")))


def test_a_token_is_of_one_caller_and_ends() -> None:
    seconds = 1_000.0
    tokens = PageTokens(lambda: b"k", now=lambda: seconds)
    token = tokens.make(Principal("ada"))
    tokens.check(Principal("ada"), token)
    for who in (Principal("bob"), Principal("ada", tenant="globex")):
        with pytest.raises(Denied):
            tokens.check(who, token)
    with pytest.raises(Denied):
        PageTokens(lambda: b"another", now=lambda: seconds).check(Principal("ada"), token)
    seconds += TOKEN_SECONDS + 1
    with pytest.raises(Denied):
        tokens.check(Principal("ada"), token)


# -- other pages


@promise("web, origins", "other pages read nothing of ours")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": SITE}, 200),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Origin": "http://127.0.0.1:3000"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200),
        ({"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200),
        ({"Host": "evil.example"}, 421),
    ],
)
async def test_other_pages_read_nothing_of_ours(pages: Pages, headers: dict[str, str], status: int) -> None:
    answer = await pages.http.get("/", headers={**HTML, **headers})
    assert answer.status_code == status
    assert ("The plan" in answer.text) == (status == 200)


# -- addresses


@pytest.mark.parametrize(
    ("entity_id", "address"),
    [
        ("plan", "/entities/plan"),
        ("a/b c", "/entities/a%2Fb%20c"),
        ("package.json", "/entities/package%2Ejson"),
        ("..", "/entities?id=.."),
        (".", "/entities?id=."),
        ("//evil.example", "/entities/%2F%2Fevil.example"),
        ('"><b>', "/entities/%22%3E%3Cb%3E"),
    ],
)
def test_an_id_in_an_address_is_nothing_else(entity_id: str, address: str) -> None:
    assert entity_address(entity_id) == address
    assert is_local(address)


ISSUERS = ("https://login.example",)


@pytest.mark.parametrize("changed", [{"web": False}, {"web": False, "issuers": ISSUERS, "web_client_id": "us"}])
async def test_there_are_no_pages_where_they_are_off(pages: Pages, tmp_path: Path, changed: dict[str, Any]) -> None:
    assert pages_of(Settings(base=tmp_path, **changed), pages.offer) is None


def with_login(pages: Pages, base: Path, public_url: str, **changed: Any) -> WebPages | None:
    settings = Settings(base=base, issuers=ISSUERS, web_client_id="us", **changed)
    return pages_of(settings, pages.offer, build_admission(ISSUERS, public_url=public_url))


async def test_with_a_client_at_the_issuer_there_is_a_login(pages: Pages, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a secret\n")
    for changed in ({}, {"web_client_secret_file": str(secret)}):
        found = with_login(pages, tmp_path, "https://memory.example", **changed)
        assert found is not None
        assert found.login is not None


@pytest.mark.parametrize("public_url", ["http://memory.example", "https://memory.example/below"])
async def test_nobody_is_sent_to_a_login_whose_cookie_no_browser_would_keep(
    pages: Pages, tmp_path: Path, public_url: str
) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        with_login(pages, tmp_path, public_url)
    assert refusal.value.code == "PUBLIC_URL_INVALID"


async def test_a_secret_that_cannot_be_read_is_told_at_the_start(pages: Pages, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        with_login(pages, tmp_path, "https://memory.example", web_client_secret_file=str(tmp_path / "none"))
    assert refusal.value.code == "SECRET_UNREADABLE"
