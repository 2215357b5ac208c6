"""What people do on pages who logged in at a real identity provider: as their roles allow, and in their session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from tallystick.extensions.web.addresses import with_query
from tests.identity.browsing import JSON, SITE, Browser, Site, serving
from tests.identity.provider import INSTALLED, provider
from tests.server.web.acting import form_of, forms_of

pytestmark = pytest.mark.skipif(not INSTALLED, reason="npm packages not installed: run make test")

YES = {"reason": "asked to", "confirmed": "yes"}
BOARD = "/work?project=p"


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with provider() as url:
        yield url


@asynccontextmanager
async def with_a_plan(issuer: str, tmp_path: Path) -> AsyncIterator[Site]:
    async with serving(issuer, tmp_path) as site:
        await site.write("plan")
        yield site


async def logged_in(site: Site, name: str) -> Browser:
    person = Browser(site, name)
    assert (await person.visit()).status_code == 200
    return person


async def asked(person: Browser, address: str) -> Any:
    return (await person.http.get(SITE + address, headers=JSON)).json()


async def sent(person: Browser, address: str, action: str, filled: dict[str, str], /, **fields: str) -> httpx2.Response:
    """The form of a page, filled in further; what it leads to."""
    form = form_of((await person.get(address)).text, action, **fields)
    answer = await person.post(form["action"], **{**form["fields"], **filled})
    assert answer.status_code == 303, answer.text
    return await person.get(answer.headers["location"].partition("#")[0])


async def test_an_admin_redacts_and_recalls_in_their_own_name(issuer: str, tmp_path: Path) -> None:
    async with with_a_plan(issuer, tmp_path) as site:
        carol = await logged_in(site, "carol")
        page = await sent(carol, "/redact?id=plan", "/redact", {**YES, "field:attrs.title": "yes"})
        assert "1 value redacted" in page.text
        newest = (await asked(carol, "/entities/plan"))["entity"]["history"][0]
        assert (newest["did"], newest["actor"]) == ("redacted", "carol")
        page = await sent(carol, "/recall?actor=ada&entity=plan", "/recall", YES)
        assert "<strong>Untrusted</strong>" in page.text
        unsigned = await asked(carol, "/proof/plan")
        assert unsigned["error"] not in ("MISSING_TOKEN", "INTERNAL_ERROR"), unsigned
        decided = (await asked(carol, "/audit?actor=carol"))["decisions"]["lines"]
        assert {(line["action"], line["tool"], line["allowed"]) for line in decided} >= {
            ("DELETE", "web", True),
            ("WRITE", "web", True),
        }


async def test_a_writer_works_and_is_not_offered_to_redact_what_others_wrote(issuer: str, tmp_path: Path) -> None:
    async with with_a_plan(issuer, tmp_path) as site:
        alice = await logged_in(site, "alice")
        assert "/redact?id=plan" not in (await alice.get("/entities/plan")).text
        assert (await alice.get("/redact?id=plan")).status_code == 404
        await sent(alice, "/work", "/work", {"name": "p", "goal": "Ship it"}, act="begin")
        root = (await asked(alice, BOARD))["board"]["root"]
        await sent(alice, BOARD, "/work", {"summary": "Ask them", "parent": root}, act="add")
        (task,) = [each for each in await tasks(alice) if each["summary"] == "Ask them"]
        page = await sent(alice, BOARD, "/work", {}, act="claim", task=task["id"])
        assert "alice" in page.text.partition("<main")[2]
        await sent(alice, BOARD, "/work", {"evidence": "note", "ref": "done"}, act="resolve", task=task["id"])
        assert [each["standing"] for each in await tasks(alice) if each["id"] == task["id"]] == ["done"]


async def tasks(person: Browser) -> list[dict[str, Any]]:
    columns = (await asked(person, BOARD))["board"]["columns"]
    return [task for column in columns for task in column["tasks"]]


async def forged(site: Site, carol: Browser) -> dict[str, dict[str, str]]:
    """By path, acts as a program makes them up that knows all there is to know, but whose token it is."""
    await sent(carol, "/work", "/work", {"name": "p", "goal": "Ship it"}, act="begin")
    root = (await asked(carol, BOARD))["board"]["root"]
    plan = (await asked(carol, "/entities/plan"))["entity"]["history"][0]["commit_id"]
    return {
        "/redact": {"id": "plan", "what": "all", "if_commit": plan, **YES},
        "/recall": {"actor": "ada", "hops": "3", "digest": digest("plan"), **YES},
        "/drop": {"task": root, "digest": digest(root), **YES},
        "/work": {"act": "add", "parent": root, "summary": "more"},
    }


def digest(*ids: str) -> str:
    return sha256(msgspec.json.encode(list(ids))).hexdigest()


async def test_a_reader_is_offered_no_act_and_what_they_forge_is_audited(issuer: str, tmp_path: Path) -> None:
    async with with_a_plan(issuer, tmp_path) as site:
        carol, dave = await logged_in(site, "carol"), await logged_in(site, "dave")
        acts = await forged(site, carol)
        before = (await asked(carol, "/"))["position"]
        for address in ("/entities/plan", BOARD, "/work", "/knowledge"):
            page = (await dave.get(address)).text
            assert "/redact?" not in page
            assert "/recall?" not in page
            assert forms_of(page.partition("<main")[2]) == []
        for step in ("/redact?id=plan", "/recall?actor=ada", with_query("/drop", task=acts["/drop"]["task"])):
            assert (await dave.get(step)).status_code == 404, step
        token = form_of((await dave.get("/")).text, "/theme")["fields"]["token"]
        for path, fields in acts.items():
            answer = await dave.post(path, token=token, **fields)
            assert (answer.status_code, "NOT_ALLOWED" in answer.text) == (403, True), (path, answer.text)
        assert (await asked(carol, "/"))["position"] == before
        denied = (await asked(carol, "/audit?actor=dave&outcome=denied"))["decisions"]["lines"]
        assert ("DELETE", "plan") in {(line["action"], line["resource"]) for line in denied}
        assert {line["action"] for line in denied} == {"DELETE", "WRITE"}


async def test_an_act_counts_only_with_the_token_of_the_session(issuer: str, tmp_path: Path) -> None:
    async with with_a_plan(issuer, tmp_path) as site:
        carol, again, dave = [await logged_in(site, name) for name in ("carol", "carol", "dave")]
        acts = await forged(site, carol)
        before = (await asked(carol, "/"))["position"]
        others = [form_of((await other.get("/")).text, "/theme")["fields"]["token"] for other in (again, dave)]
        for path, fields in acts.items():
            for wrong in ({}, {"token": ""}, {"token": "0.0"}, *({"token": other} for other in others)):
                answer = await carol.post(path, **wrong, **fields)
                assert (answer.status_code, "PAGE_EXPIRED" in answer.text) == (403, True), path
            stranger = await Browser(site, "eve").post(path, token=others[0], **fields)
            assert stranger.status_code == 401
        assert (await asked(carol, "/"))["position"] == before
        assert "about plan" in (await carol.get("/entities/plan")).text
