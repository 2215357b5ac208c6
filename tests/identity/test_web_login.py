"""People who log in with a browser at a real identity provider, and those who try to get in otherwise."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest

from tallystick.extensions.web.code_flow import PENDING_SECONDS
from tallystick.extensions.web.login import CALLBACK_PATH, PENDING_COOKIE, SESSION_COOKIE
from tests.identity.browsing import JSON, SITE, Browser, register, serving
from tests.identity.provider import CLIENT, INSTALLED, provider

pytestmark = pytest.mark.skipif(not INSTALLED, reason="npm packages not installed: run make test")


OTHER_SITE = "http://127.0.0.1:8766"


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with provider() as url:
        yield url


def query_of(address: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


def refusal(answer: httpx2.Response) -> tuple[int, str]:
    """The status and the code that a page names; a page that refuses always offers a login."""
    assert 'href="/login' in answer.text, answer.text
    code = re.search(r"<code>([A-Z_]+)</code>", answer.text)
    assert code, answer.text
    return answer.status_code, code[1]


def page_token(answer: httpx2.Response) -> str:
    found = re.search(r'name="token" value="([^"]+)"', answer.text)
    assert found, answer.text
    return found[1]


async def test_a_person_logs_in_and_comes_to_the_page_they_wanted_in_their_tenant(issuer: str, tmp_path: Path) -> None:
    async with serving(issuer, tmp_path) as site:
        await site.write("plan")
        await site.write("secret-plan", tenant="acme")
        alice, bob = Browser(site, "alice"), Browser(site, "bob")
        hers, his = await alice.visit("/?as=wanted"), await bob.visit("/")
        assert str(hers.url) == f"{SITE}/?as=wanted"
        assert (hers.status_code, his.status_code) == (200, 200)
        assert "<dd>default</dd>" in hers.text
        assert "about plan" in hers.text
        assert "secret-plan" not in hers.text
        assert "<dd>acme</dd>" in his.text
        assert "about secret-plan" in his.text
        assert (await alice.http.get(f"{SITE}/", headers=JSON)).json()["position"] == 1


async def test_rules_are_not_shown_to_everybody_who_may_log_in(issuer: str, tmp_path: Path) -> None:
    async with serving(issuer, tmp_path) as site:
        await site.write("plan")
        alice = Browser(site, "alice")
        await alice.visit("/")
        seen = (await alice.http.get(f"{SITE}/policy", headers=JSON)).json()
        assert (seen["files"], seen["tests"]) == ([], [])
        assert "withheld" in seen["problem"]


async def test_a_decision_is_not_explained_by_rules_that_are_not_shown(issuer: str, tmp_path: Path) -> None:
    async with serving(issuer, tmp_path) as site:
        await site.write("plan")
        alice = Browser(site, "alice")
        await alice.visit("/")
        found = (await alice.http.get(f"{SITE}/audit?looks=1", headers=JSON)).json()["decisions"]["lines"]
        seen = (await alice.http.get(f"{SITE}/audit?seq={found[0]['seq']}", headers=JSON)).json()["explained"]
        assert (seen["rules"], seen["input"]) == ([], {})
        assert "withheld" in seen["gap"]


async def test_the_provider_is_asked_as_it_should_be(issuer: str, tmp_path: Path) -> None:
    client = await register(issuer, SITE)
    async with serving(issuer, tmp_path, client=client) as site:
        alice = Browser(site, "alice")
        first, second = await alice.get("/"), await alice.get("/login?back=/")
        assert (first.status_code, first.headers["location"]) == (303, "/login?back=%2F")
        asked = query_of(second.headers["location"])
        again = query_of((await alice.get("/login")).headers["location"])
    expected = {
        "response_type": "code",
        "client_id": client.id,
        "redirect_uri": SITE + CALLBACK_PATH,
        "code_challenge_method": "S256",
        "resource": SITE,
        "scope": "openid memory offline_access",
    }
    assert {name: asked[name] for name in expected} == expected
    for name in ("state", "nonce", "code_challenge"):
        assert len(asked[name]) == 43
        assert asked[name] != again[name]


async def test_no_token_is_ever_where_a_script_or_a_log_could_read_it(
    issuer: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "tallystick")
    async with serving(issuer, tmp_path) as site:
        alice = Browser(site, "alice")
        await alice.visit()
        tokens = [site.exchanges()[0][name] for name in ("access_token", "refresh_token", "id_token")]
        cookie = alice.cookies()[SESSION_COOKIE]
        for answer in [each for each in alice.visited if str(each.url).startswith(SITE)]:
            assert not any(token in f"{answer.text}{answer.headers}{answer.url}" for token in tokens)
    assert not any(token in caplog.text for token in tokens)
    assert cookie.secure
    assert cookie.path == "/"
    assert not cookie.domain_specified
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert cookie.get_nonstandard_attr("SameSite") == "Lax"
    assert PENDING_COOKIE not in alice.cookies()


async def test_a_client_without_a_secret_logs_in_alike(issuer: str, tmp_path: Path) -> None:
    async with serving(issuer, tmp_path, client=await register(issuer, SITE, has_secret=False)) as site:
        assert (await Browser(site, "alice").visit()).status_code == 200


@pytest.mark.parametrize("path", ["/", "/overview.json", "/theme", "/logout"])
async def test_without_a_session_nothing_is_shown_or_done(issuer: str, tmp_path: Path, path: str) -> None:
    async with serving(issuer, tmp_path) as site:
        await site.write("plan")
        stranger = Browser(site, "eve")
        answer = await stranger.http.get(SITE + path, headers=JSON)
        assert (answer.status_code, answer.json()["error"]) == (401, "MISSING_TOKEN")
        assert "resource_metadata" in answer.headers["www-authenticate"]
        changed = await stranger.post(path, token="x", theme="dark")
        assert changed.status_code == 401
        assert "plan" not in changed.text
        assert not stranger.cookies()


async def test_a_cookie_opens_pages_and_no_tool(issuer: str, tmp_path: Path) -> None:
    async with serving(issuer, tmp_path) as site:
        alice = Browser(site, "alice")
        await alice.visit()
        for method, path in [
            ("POST", "/mcp"),
            ("POST", "/v1/tools/memory.search"),
            ("GET", "/v1/tools"),
            ("GET", "/sse"),
        ]:
            answer = await alice.http.request(method, SITE + path, json={} if method == "POST" else None)
            assert (answer.status_code, answer.json()["error"]) == (401, "MISSING_TOKEN"), path


async def test_a_program_with_a_token_reads_pages_as_json_and_a_bad_token_is_not_made_good_by_a_cookie(
    issuer: str, tmp_path: Path
) -> None:
    async with serving(issuer, tmp_path) as site:
        alice = Browser(site, "alice")
        await alice.visit()
        bearer = {"authorization": f"Bearer {site.exchanges()[0]['access_token']}"}
        program = Browser(site, "nobody")
        assert (await program.http.get(f"{SITE}/", headers={**JSON, **bearer})).status_code == 200
        assert (await program.http.post(f"{SITE}/logout", headers={**JSON, **bearer})).status_code == 400
        forged = {"authorization": "Bearer x.y.z"}
        assert (await alice.http.get(f"{SITE}/", headers={**JSON, **forged})).status_code == 401


# -- the way back from the provider, tampered with


async def changed_answer(alice: Browser, **changes: str | None) -> httpx2.Response:
    address = await alice.come_back()
    query = {name: value for name, value in {**query_of(address), **changes}.items() if value is not None}
    return await alice.get(f"{CALLBACK_PATH}?{urlencode(query)}")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"state": "x" * 43}, "LOGIN_UNKNOWN"),
        ({"state": None}, "LOGIN_UNKNOWN"),
        ({"state": "é"}, "LOGIN_UNKNOWN"),
        ({"iss": "https://evil.example"}, "LOGIN_MIXED_UP"),
        ({"iss": None}, "LOGIN_MIXED_UP"),
        ({"code": "made-up"}, "LOGIN_REFUSED"),
        ({"code": None}, "LOGIN_REFUSED"),
        ({"code": "x" * 5_000}, "LOGIN_REFUSED"),
        ({"code": None, "error": "access_denied"}, "LOGIN_REFUSED"),
        ({"code": None, "error": "<script>alert(1)</script>"}, "LOGIN_REFUSED"),
    ],
)
async def test_an_answer_that_was_changed_on_its_way_is_refused(
    issuer: str, tmp_path: Path, changes: dict[str, str | None], code: str
) -> None:
    async with serving(issuer, tmp_path) as site:
        alice = Browser(site, "alice")
        answer = await changed_answer(alice, **changes)
        assert refusal(answer) == (403, code)
        assert "<script>" not in answer.text
        assert SESSION_COOKIE not in alice.cookies()


async def test_a_login_of_another_browser_is_refused_and_ones_own_goes_on(issuer: str, tmp_path: Path) -> None:
    """Login CSRF: somebody is to work, unknowingly, in the session of an attacker."""
    async with serving(issuer, tmp_path) as site:
        eve, alice = Browser(site, "eve"), Browser(site, "alice")
        bait, own = await eve.come_back(), await alice.come_back()
        assert refusal(await alice.get(bait)) == (403, "LOGIN_UNKNOWN")
        assert refusal(await Browser(site, "bob").get(bait)) == (403, "LOGIN_UNKNOWN")
        assert (await alice.follow(await alice.get(own))).status_code == 200
        bob = Browser(site, "bob")
        mine = query_of(await bob.come_back())
        # PKCE: a code is good only for the browser that asked for it.
        swapped = {**mine, "code": query_of(bait)["code"]}
        assert refusal(await bob.get(f"{CALLBACK_PATH}?{urlencode(swapped)}")) == (403, "LOGIN_REFUSED")


async def test_an_answer_counts_once(issuer: str, tmp_path: Path) -> None:
    async with serving(issuer, tmp_path) as site:
        alice, thief = Browser(site, "alice"), Browser(site, "eve")
        address = await alice.come_back()
        before = alice.keep()
        await alice.follow(await alice.get(address))
        assert refusal(await alice.get(address)) == (403, "LOGIN_UNKNOWN")
        thief.take(before)
        assert refusal(await thief.get(address)) == (403, "LOGIN_UNKNOWN")
        assert len(site.exchanges()) == 1
        assert (await alice.get("/")).status_code == 200


async def test_an_answer_that_comes_late_or_doubled_is_refused(issuer: str, tmp_path: Path) -> None:
    async with serving(issuer, tmp_path) as site:
        alice = Browser(site, "alice")
        address = await alice.come_back()
        assert refusal(await alice.get(f"{address}&code=other")) == (403, "LOGIN_UNKNOWN")
        site.ahead_seconds = PENDING_SECONDS + 1
        assert refusal(await alice.get(address)) == (403, "LOGIN_UNKNOWN")


@pytest.mark.parametrize(
    "back",
    [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "javascript:1",
        "/login",
        "/logout",
        "/" + "x" * 3000,
    ],
)
async def test_a_login_leads_nowhere_else(issuer: str, tmp_path: Path, back: str) -> None:
    async with serving(issuer, tmp_path) as site:
        alice = Browser(site, "alice")
        answer = await alice.follow(await alice.get(f"/login?{urlencode({'back': back})}"))
        assert str(answer.url) == f"{SITE}/"
        assert answer.status_code == 200


async def test_a_login_is_not_begun_by_another_page(issuer: str, tmp_path: Path) -> None:
    async with serving(issuer, tmp_path) as site:
        alice = Browser(site, "alice")
        answer = await alice.get("/login", **{"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"})
        assert (answer.status_code, answer.json()["error"]) == (403, "ORIGIN_NOT_ALLOWED")
        assert not alice.cookies()


# -- while it lasts


async def test_a_token_that_ends_is_renewed_once_however_many_ask(issuer: str, tmp_path: Path) -> None:
    # Of a client without a secret the provider takes a refresh token only once.
    async with serving(issuer, tmp_path, client=await register(issuer, SITE, has_secret=False)) as site:
        alice = Browser(site, "alice")
        await alice.visit()
        before = alice.cookies()[SESSION_COOKIE].value
        site.ahead_seconds = 280
        answers = await asyncio.gather(*(alice.get("/") for _ in range(5)))
        assert [answer.status_code for answer in answers] == [200] * 5
        assert len(site.exchanges()) == 2
        assert alice.cookies()[SESSION_COOKIE].value != before
        assert site.exchanges()[1]["refresh_token"] != site.exchanges()[0]["refresh_token"]


async def test_who_is_idle_and_who_stays_too_long_logs_in_again(issuer: str, tmp_path: Path) -> None:
    async with serving(issuer, tmp_path, login={"idle_seconds": 100, "session_seconds": 220}) as site:
        alice, bob = Browser(site, "alice"), Browser(site, "bob")
        await alice.visit()
        await bob.visit()
        for ahead in (90, 180):
            site.ahead_seconds = ahead
            assert (await alice.get("/")).status_code == 200
        assert refusal(await bob.get("/")) == (401, "SESSION_EXPIRED")
        assert SESSION_COOKIE not in bob.cookies()
        kept = alice.keep()
        site.ahead_seconds = 230
        assert refusal(await alice.get("/")) == (401, "SESSION_EXPIRED")
        # It has ended, whatever clock is believed.
        site.ahead_seconds = 180
        alice.take(kept)
        assert refusal(await alice.get("/")) == (401, "SESSION_ENDED")


async def test_a_page_that_only_listens_does_not_keep_a_session_alive(issuer: str, tmp_path: Path) -> None:
    async with serving(issuer, tmp_path, login={"idle_seconds": 100}) as site:
        alice = Browser(site, "alice")
        await alice.visit()
        site.ahead_seconds = 90
        assert (await alice.http.head(f"{SITE}/events")).status_code == 200
        site.ahead_seconds = 110
        assert refusal(await alice.get("/")) == (401, "SESSION_EXPIRED")


async def test_a_token_that_was_revoked_ends_the_session(tmp_path: Path) -> None:
    asking: dict[str, Any] = {"introspect_as": CLIENT, "introspection_seconds": 0, "token_cache_seconds": 0}
    with provider() as issuer:
        client = await register(issuer, SITE)
        async with serving(issuer, tmp_path, client=client, **asking) as site:
            alice = Browser(site, "alice")
            assert (await alice.visit()).status_code == 200
            form = {"token": site.exchanges()[0]["access_token"]}
            async with httpx2.AsyncClient(timeout=None) as http:
                await http.post(f"{issuer}/token/revocation", data=form, auth=(client.id, client.secret))
            answer = await alice.get("/")
            assert refusal(answer) == (401, "SESSION_ENDED")
            assert "revoked" in answer.text
            assert SESSION_COOKIE not in alice.cookies()


async def test_a_refresh_token_that_was_revoked_ends_the_session(issuer: str, tmp_path: Path) -> None:
    client = await register(issuer, SITE)
    async with serving(issuer, tmp_path, client=client) as site:
        alice = Browser(site, "alice")
        await alice.visit()
        form = {"token": site.exchanges()[0]["refresh_token"]}
        async with httpx2.AsyncClient(timeout=None) as http:
            await http.post(f"{issuer}/token/revocation", data=form, auth=(client.id, client.secret))
        site.ahead_seconds = 280
        assert refusal(await alice.get("/")) == (401, "SESSION_ENDED")
        site.ahead_seconds = 0
        assert (await alice.visit()).status_code == 200


async def test_while_the_provider_is_away_sessions_go_on_and_nobody_new_comes_in(tmp_path: Path) -> None:
    async with AsyncExitStack() as servers:
        with provider() as issuer:
            site = await servers.enter_async_context(serving(issuer, tmp_path))
            alice, bob = Browser(site, "alice"), Browser(site, "bob")
            await alice.visit()
            address = await bob.come_back()
        assert (await alice.get("/")).status_code == 200
        site.ahead_seconds = 280
        assert (await alice.get("/")).status_code == 200
        site.ahead_seconds = 0
        answer = await bob.get(address)
        assert refusal(answer) == (503, "ISSUER_UNREACHABLE")
        assert int(answer.headers["retry-after"]) > 0
        site.ahead_seconds = 301
        assert refusal(await alice.get("/")) == (503, "ISSUER_UNREACHABLE")
        assert SESSION_COOKIE in alice.cookies()


@pytest.mark.parametrize("way", ["another base", "another site", "changed", "made up", "too long"])
async def test_a_cookie_that_this_server_did_not_seal_is_not_taken(issuer: str, tmp_path: Path, way: str) -> None:
    client = await register(issuer, SITE, OTHER_SITE)
    async with AsyncExitStack() as servers:
        site = await servers.enter_async_context(serving(issuer, tmp_path / "one", client=client))
        alice = Browser(site, "alice")
        await alice.visit()
        cookie = alice.cookies()[SESSION_COOKIE]
        visited = alice
        if way.startswith("another"):
            name, elsewhere = ("two", SITE) if way == "another base" else ("one", OTHER_SITE)
            other = await servers.enter_async_context(serving(issuer, tmp_path / name, client=client, site=elsewhere))
            visited = Browser(other, "alice")
        else:
            value = str(cookie.value)
            cookie.value = {
                "changed": f"{value[:-9]}{'A' if value[-9] != 'A' else 'B'}{value[-8:]}",
                "made up": "AAAA",
                "too long": "A" * 20_000,
            }[way]
        visited.take([cookie])
        assert refusal(await visited.get("/")) == (401, "SESSION_UNKNOWN")
        assert SESSION_COOKIE not in visited.cookies()
        assert (await visited.visit()).status_code == 200


# -- the way out


async def test_who_logs_out_is_out_here_and_at_the_provider(issuer: str, tmp_path: Path) -> None:
    client = await register(issuer, SITE)
    async with serving(issuer, tmp_path, client=client) as site:
        alice = Browser(site, "alice")
        token = page_token(await alice.visit())
        kept = alice.keep()
        answer = await alice.post("/logout", token=token)
        assert answer.status_code == 200
        assert SESSION_COOKIE not in alice.cookies()
        onward = answer.headers["refresh"].removeprefix("0; url=")
        assert onward.startswith(issuer)
        assert (await confirm_logout(alice, onward)).status_code == 200

        tokens = site.exchanges()[0]
        form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
        async with httpx2.AsyncClient(timeout=None) as http:
            refused = await http.post(f"{issuer}/token", data=form, auth=(client.id, client.secret))
        assert refused.json()["error"] == "invalid_grant"
        thief = Browser(site, "eve")
        thief.take(kept)
        assert refusal(await thief.get("/")) == (401, "SESSION_ENDED")

        again = await alice.follow(await alice.get("/"), until=f"{issuer}/interaction")
        assert again.is_redirect, "the provider asks who it is"


async def test_what_arrives_is_told_no_more_to_who_logged_out(issuer: str, tmp_path: Path) -> None:
    async with serving(issuer, tmp_path) as site:
        alice, bob = Browser(site, "alice"), Browser(site, "alice")
        token = page_token(await alice.visit())
        await bob.visit()
        async with listening(alice) as hers, listening(bob) as his:
            assert await hers() == await his()
            assert (await alice.post("/logout", token=token)).status_code == 200
            assert await hers() is None
            await site.write("plan")
            assert b"plan" in (await his() or b"")


async def test_a_logout_ends_what_arrives_through_another_process(issuer: str, tmp_path: Path) -> None:
    client = await register(issuer, SITE)
    async with serving(issuer, tmp_path, client=client) as site, serving(issuer, tmp_path, client=client) as other:
        alice, elsewhere = Browser(site, "alice"), Browser(other, "alice")
        token = page_token(await alice.visit())
        elsewhere.take(alice.keep())
        async with listening(elsewhere) as hers:
            assert await hers() == b"retry: 5000\n\n"
            assert (await alice.post("/logout", token=token)).status_code == 200
            assert await hers() is None


@asynccontextmanager
async def listening(person: Browser) -> AsyncIterator[Callable[[], Awaitable[bytes | None]]]:
    """What the next piece of the stream says; None at its end."""
    left, sent = asyncio.Event(), asyncio.Queue[MutableMapping[str, Any]]()

    async def receive() -> dict[str, Any]:
        await left.wait()
        return {"type": "http.disconnect"}

    async def piece() -> bytes | None:
        message = await sent.get()
        return message["body"] if message["more_body"] else None

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.put_nowait(message)

    request = person.http.build_request("GET", f"{SITE}/events")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/events",
        "raw_path": b"/events",
        "query_string": b"",
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": ("127.0.0.1", 5000),
        "server": ("127.0.0.1", 8765),
    }
    task = asyncio.create_task(person.site.front(scope, receive, send))
    try:
        assert (await sent.get())["status"] == 200
        yield piece
    finally:
        left.set()
        await task


async def confirm_logout(alice: Browser, address: str) -> httpx2.Response:
    """The provider asks whether it is meant, and leads back."""
    page = await alice.http.get(address)
    action = re.search(r'<form[^>]* action="([^"]+)"', page.text)
    secret = re.search(r'name="xsrf" value="([^"]+)"', page.text)
    assert action, page.text
    assert secret, page.text
    answer = await alice.http.post(action[1], data={"xsrf": secret[1], "logout": "yes"})
    assert answer.headers["location"].startswith(f"{SITE}/logged-out")
    return await alice.get(answer.headers["location"])


async def test_a_logout_counts_in_every_process_of_the_base(issuer: str, tmp_path: Path) -> None:
    client = await register(issuer, SITE)
    async with serving(issuer, tmp_path, client=client) as site:
        alice = Browser(site, "alice")
        await alice.visit()
        kept = alice.keep()
    async with serving(issuer, tmp_path, client=client) as site:
        again = Browser(site, "alice")
        again.take(kept)
        token = page_token(await again.get("/"))
        assert (await again.post("/logout", token=token)).status_code == 200
    async with serving(issuer, tmp_path, client=client) as site:
        thief = Browser(site, "eve")
        thief.take(kept)
        assert refusal(await thief.get("/")) == (401, "SESSION_ENDED")


async def test_a_form_counts_only_in_the_session_that_its_page_was_drawn_in(issuer: str, tmp_path: Path) -> None:
    async with serving(issuer, tmp_path) as site:
        here, there = Browser(site, "alice"), Browser(site, "alice")
        token, other = page_token(await here.visit()), page_token(await there.visit())
        for wrong in (other, "", "0.0"):
            for path in ("/logout", "/theme"):
                answer = await here.post(path, token=wrong, theme="dark")
                assert (answer.status_code, "PAGE_EXPIRED" in answer.text) == (403, True)
        foreign = await here.http.post(
            f"{SITE}/logout", data={"token": token}, headers={"sec-fetch-site": "cross-site"}
        )
        assert foreign.status_code == 403
        assert (await here.get("/")).status_code == 200
        assert (await here.post("/theme", token=token, theme="dark")).status_code == 303
