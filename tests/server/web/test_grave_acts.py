"""Redact, recall and drop: each a step of its own that says what it touches, wants a reason, and confirms."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from tallystick.extensions.web.addresses import entity_address
from tests.server.web.acting import followed, form_of, post, send
from tests.server.web.pages import HTML, Pages, serving_pages
from tests.server.web.policies import owners_policy

pytestmark = pytest.mark.anyio

YES = {"reason": "asked to", "confirmed": "yes"}


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Pages]:
    async with serving_pages(tmp_path / "base", policy=owners_policy(tmp_path), web_actor="nora") as pages:
        await pages.node("plan", attrs={"title": "The plan", "phone": "phone-xq 1", "owner": "ada"})
        await pages.node("plan", attrs={"title": "The plan", "phone": "phone-xq 2", "owner": "ada"})
        yield pages


async def test_a_redaction_says_what_it_touches_and_leaves_the_rest(pages: Pages) -> None:
    assert 'href="/redact?id=plan"' in await pages.html("/entities/plan")
    step = await pages.json("/redact?id=plan")
    assert step["plan"]["versions"] == 2
    assert {each["name"]: each["versions"] for each in step["plan"]["fields"]} == {
        "attrs.title": 2,
        "attrs.phone": 2,
        "attrs.owner": 2,
    }
    assert "phone-xq" not in await pages.html("/redact?id=plan")
    page = await followed(pages, await send(pages, "/redact?id=plan", "/redact", {**YES, "field:attrs.phone": "yes"}))
    assert "1 value redacted" in page
    assert "phone-xq" not in page
    assert "The plan" in page
    assert "asked to" in page
    newest = (await pages.json("/entities/plan"))["entity"]["history"][0]
    assert (newest["did"], newest["actor"], newest["reason"]) == ("redacted", "nora", "asked to")
    assert "phone-xq" not in str(await pages.json("/entities/plan?as_of=1"))


async def test_everything_of_it_is_redacted_with_its_edges(pages: Pages) -> None:
    await pages.node("goal")
    await pages.edge("plan", "serves", "goal", attrs={"note": "phone-xq 3"})
    assert (await pages.json("/redact?id=plan"))["plan"]["edges"] == 1
    page = await followed(pages, await send(pages, "/redact?id=plan", "/redact", {**YES, "what": "all"}))
    assert "3 values redacted" in page
    assert "phone-xq" not in await pages.html(entity_address("plan|serves|goal"))
    assert "There is nothing left to redact" in await pages.html("/redact?id=plan")


async def test_copies_that_could_not_be_cleaned_are_told(
    pages: Pages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Answered only when every copy is there, and clean.
    await send(pages, "/redact?id=plan", "/redact", {**YES, "field:attrs.title": "yes"})
    monkeypatch.setattr("tallystick.app.tenant_projections.ERASED_SECONDS", 0.5)
    with closing(sqlite3.connect(tmp_path / "base/graph.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM nodes").fetchone()
        answer = await send(pages, "/redact?id=plan", "/redact", {**YES, "field:attrs.phone": "yes"})
    assert answer.status_code == 200
    assert "not every copy of it could be cleaned yet" in answer.text
    assert "<code>sql</code>" in answer.text
    assert "phone-xq" not in await pages.html("/entities/plan")


async def test_an_edge_is_redacted_too(pages: Pages) -> None:
    await pages.node("goal")
    await pages.edge("plan", "serves", "goal", attrs={"note": "phone-xq 3"})
    address = "/redact?id=plan%7Cserves%7Cgoal"
    page = await followed(pages, await send(pages, address, "/redact", {**YES, "field:attrs.note": "yes"}))
    assert "phone-xq" not in page


@pytest.mark.parametrize(
    ("filled", "why"),
    [
        ({**YES, "reason": " "}, "a reason is needed"),
        ({**YES, "reason": "x" * 501}, "a reason is needed"),
        ({"reason": "asked to", "field:attrs.phone": "yes"}, "not confirmed"),
        (YES, "choose what to redact"),
        ({**YES, "field:attrs.nope.<b>": "yes"}, "attributes that it has"),
        ({**YES, "field:id": "yes"}, "attributes that it has"),
    ],
)
async def test_nothing_is_redacted_without_reason_choice_and_confirmation(
    pages: Pages, filled: dict[str, str], why: str
) -> None:
    answer = await send(pages, "/redact?id=plan", "/redact", filled)
    assert answer.status_code == 400, answer.text
    assert why in answer.text.lower()
    assert "<b>" not in answer.text
    assert "phone-xq 2" in await pages.html("/entities/plan")


async def test_what_was_changed_since_the_step_was_drawn_is_not_redacted(pages: Pages) -> None:
    form = form_of(await pages.html("/redact?id=plan"), "/redact")
    await pages.node("plan", attrs={"title": "Another plan"})
    answer = await pages.http.post("/redact", data={**form["fields"], **YES, "what": "all"}, headers=HTML)
    assert answer.status_code == 409
    assert "Another plan" in await pages.html("/entities/plan")


async def test_what_policy_denies_is_not_offered_and_not_done(pages: Pages) -> None:
    await pages.node("secret", "note", "eve", attrs={"title": "hers alone"})
    for address in ("/redact?id=secret", "/redact?id=nope", "/redact"):
        assert "nothing here that you may read" in await pages.html(address, 404)
    answer = await post(pages, "/redact", id="secret", what="all", **YES)
    assert (answer.status_code, answer.json()["error"]) == (404, "ENTITY_NOT_FOUND")
    assert answer.json() == (await post(pages, "/redact", id="nope", what="all", **YES)).json()


async def test_a_recall_marks_what_was_written_and_what_came_of_it(pages: Pages) -> None:
    bad = await pages.node("page-1", "page", "crawler", attrs={"text": "poisoned"})
    await pages.node("belief", "note", "codex", attrs={"title": "believed", "from": "page-1"})
    assert f"/recall?commit={bad['commit_id']}&amp;entity=page-1" in await pages.html("/entities/page-1")
    address = f"/recall?commit={bad['commit_id']}&entity=page-1"
    step = await pages.json(address)
    assert (step["written"], step["derived"]) == (1, 1)
    assert {each["id"] for each in step["entities"]} == {"page-1", "belief"}
    page = await followed(pages, await send(pages, address, "/recall", YES))
    assert "<strong>Untrusted</strong>" in page
    assert "asked to" in page
    assert "<strong>Untrusted</strong>" in await pages.html("/entities/belief")
    lines = (await pages.json("/audit?action=WRITE&actor=nora"))["decisions"]["lines"]
    assert {(line["tool"], line["allowed"]) for line in lines} == {("web", True)}
    assert any((line["resource"] or "").startswith("recall_") for line in lines)


async def test_a_recall_of_an_actor_from_a_time_on_as_far_as_asked_for(pages: Pages) -> None:
    await pages.node("page-1", "page", "crawler", attrs={"text": "poisoned"})
    await pages.node("belief", "note", "codex", attrs={"title": "believed", "from": "page-1"})
    found = await pages.json("/recall?actor=crawler&since=2020-01-01&hops=0")
    assert [each["id"] for each in found["entities"]] == ["page-1"]
    assert (await pages.json("/recall?actor=crawler&since=2999-01-01"))["entities"] == []
    assert "nothing to recall" in await pages.html("/recall?actor=nobody")
    assert (await pages.http.get("/recall?actor=crawler&since=soon", headers=HTML)).status_code == 400
    assert (await pages.http.get("/recall?actor=crawler&hops=99", headers=HTML)).status_code == 400
    for address in ("/recall", "/recall?commit=x&actor=y"):
        await pages.html(address, 404)


async def test_what_came_since_the_step_was_drawn_is_shown_first(pages: Pages) -> None:
    await pages.node("page-1", "page", "crawler", attrs={"text": "poisoned"})
    form = form_of(await pages.html("/recall?actor=crawler"), "/recall")
    await pages.node("page-2", "page", "crawler", attrs={"text": "poisoned"})
    answer = await pages.http.post("/recall", data={**form["fields"], **YES}, headers=HTML)
    assert answer.status_code == 200
    assert "not what you were shown" in answer.text
    assert "Untrusted" not in await pages.html("/entities/page-1")


async def test_a_recall_wants_a_reason_and_a_confirmation(pages: Pages) -> None:
    await pages.node("page-1", "page", "crawler", attrs={"text": "poisoned"})
    for filled in ({"reason": "bad"}, {"confirmed": "yes"}, {}):
        assert (await send(pages, "/recall?actor=crawler", "/recall", filled)).status_code == 400
    assert "Untrusted" not in await pages.html("/entities/page-1")


@pytest.mark.parametrize("path", ["/redact", "/recall", "/drop", "/work"])
async def test_no_act_without_the_token_of_a_page(pages: Pages, path: str) -> None:
    answer = await pages.http.post(path, data={"id": "plan", "what": "all", **YES}, headers=HTML)
    assert answer.status_code == 403
    assert "PAGE_EXPIRED" in answer.text
    foreign = {**HTML, "Origin": "http://127.0.0.1:9", "Sec-Fetch-Site": "same-site"}
    answer = await pages.http.post(path, data={}, headers=foreign)
    assert (answer.status_code, "ORIGIN_NOT_ALLOWED" in answer.text) == (403, True)


async def test_a_server_for_reading_only_offers_no_act(tmp_path: Path) -> None:
    async with serving_pages(tmp_path / "base") as pages:
        await pages.node("plan", attrs={"title": "The plan"})
    async with serving_pages(tmp_path / "base", read_only=True) as pages:
        page = await pages.html("/entities/plan")
        assert "Redact…" not in page
        assert "Recall…" not in page
        await pages.html("/redact?id=plan", 404)
        answer = await post(pages, "/redact", id="plan", what="all", **YES)
        assert (answer.status_code, answer.json()["error"]) == (403, "READ_ONLY")
        assert "<form" not in (await pages.html("/work")).partition("<main")[2]
