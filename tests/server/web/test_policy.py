"""`/policy`: what is in force, what decided before, and a candidate tried on it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from tallystick import app
from tallystick.config import Settings
from tallystick.extensions.web.forms import read_form
from tallystick.extensions.web.reports import policy_trial
from tallystick.policy import Principal
from tallystick.server.http import http_app
from tests.server.web.pages import HTML, JSON, SITE, Pages, pages_of, serving_pages
from tests.server.web.policies import owners_policy

pytestmark = pytest.mark.anyio

CLOSED = """package candidate
import rego.v1
policy_version := "closed@9"
decision := {"result": input.action != "WRITE", "reason": "no <b>writing</b>", "policy_version": policy_version}
test_nobody_writes if not decision.result with input as {"action": "WRITE"}
test_that_fails if false
"""
ENDLESS = """package candidate
import rego.v1
decision := {"result": true, "reason": "", "policy_version": "1"} if {
    some i in numbers.range(1, 100000)
    some j in numbers.range(1, 100000)
    i * j == -1
}
"""


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Pages]:
    async with serving_pages(tmp_path / "base", policy=owners_policy(tmp_path)) as pages:
        await pages.node("plan", "note", "ada")
        await pages.node("goal", "aim", "bob")
        sealed = {"id": "plan", "type": "Sealed", "attrs": {}}
        await pages.write("mallory", "memory.write", op="UPSERT_NODE", node=sealed)
        yield pages


async def post(pages: Pages, form: dict[str, str], *, json: bool = False, token: str | None = None) -> httpx2.Response:
    if token is None:
        found = re.search(r'name="token" value="([^"]+)"', await pages.html("/policy"))
        assert found is not None
        token = found[1]
    headers = {**(JSON if json else HTML), "Origin": SITE}
    return await pages.http.post("/policy", data={**form, "token": token}, headers=headers, timeout=60)


async def simulated(pages: Pages, candidate: str) -> Any:
    answer = await post(pages, {"act": "simulate", "candidate": candidate}, json=True)
    assert answer.status_code == 200, answer.text
    return answer.json()["simulation"]


async def test_a_token_reads_pages_without_a_login_and_no_rules_if_something_may_be_withheld(tmp_path: Path) -> None:
    chosen = Settings(base=tmp_path / "base", policy="rbac", issuers=("https://login.example",))
    async with app.served(chosen) as offer:
        who = Principal("bob", roles=("reader",), trusted=False)
        offer = msgspec.structs.replace(offer, principal_of=lambda scope: who)
        front = http_app(offer, pages=pages_of(chosen, offer))
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(front), base_url=SITE) as http:
            view = (await http.get("/policy.json")).json()
            assert (view["files"], view["tests"]) == ([], [])
            assert "withheld" in view["problem"]
            assert (await http.get("/governance.json")).status_code == 200
            listed = (await http.get("/audit.json?looks=on")).json()["decisions"]["lines"]
            explained = (await http.get(f"/audit.json?seq={listed[0]['seq']}")).json()["explained"]
            assert (explained["rules"], "withheld" in explained["gap"]) == ([], True)


async def test_the_rules_in_force_are_shown_with_the_versions_that_decided(pages: Pages, tmp_path: Path) -> None:
    view = await pages.json("/policy")
    assert view["files"][0]["text"] == (tmp_path / "owners.rego").read_text()
    ((version),) = view["history"]["versions"]
    assert (version["name"], version["denials"]) == ("owners@2", 1)
    assert version["decisions"] >= 3
    assert "nobody writes what is sealed" in await pages.html("/policy")


async def test_a_new_version_appears_with_its_first_decision(pages: Pages, tmp_path: Path) -> None:
    rules = tmp_path / "owners.rego"
    rules.write_text(rules.read_text().replace("owners@2", "owners@three"))
    pages.offer.store._gate.reload()
    await pages.node("later")
    names = [each["name"] for each in (await pages.json("/policy"))["history"]["versions"]]
    assert names == ["owners@three", "owners@2"]


async def test_tests_are_run_where_asked_for(pages: Pages, tmp_path: Path) -> None:
    (tmp_path / "owners_test.rego").write_text(
        "package tallystick.owners_test\nimport rego.v1\n"
        'test_it if data.tallystick.owners.policy_version == "owners@2"\ntest_no if false\n'
    )
    assert (await pages.json("/policy"))["examined"] is None
    tested = (await post(pages, {"act": "test"}, json=True)).json()["examined"]["tests"]
    assert {each["name"].rpartition(".")[2]: each["passed"] for each in tested} == {"test_it": True, "test_no": False}
    assert "2 tests of <code>owners@2</code>, 1 failed." in (await post(pages, {"act": "test"})).text


async def test_a_candidate_is_told_what_it_would_decide_otherwise(pages: Pages) -> None:
    before = pages.offer.store.position(pages.offer.principal_of(None))
    found = await simulated(pages, CLOSED)
    assert (found["denied_now"], found["allowed_now"]) == (2, 0)
    assert {each["name"]: each["denied_now"] for each in found["by_actor"]} == {"ada": 1, "bob": 1}
    assert {each["name"]: each["denied_now"] for each in found["by_resource"]} == {"plan": 1, "goal": 1}
    assert {each["name"]: each["passed"] for each in found["examined"]["tests"]} == {
        "candidate.test_nobody_writes": True,
        "candidate.test_that_fails": False,
    }
    assert pages.offer.store.position(pages.offer.principal_of(None)) == before
    await pages.node("more")
    page = (await post(pages, {"act": "simulate", "candidate": CLOSED})).text
    assert "<strong>3 would be denied</strong>" in page
    assert "<b>writing" not in page


async def test_a_candidate_comes_as_a_file_too(pages: Pages) -> None:
    found = re.search(r'name="token" value="([^"]+)"', await pages.html("/policy"))
    assert found is not None
    answer = await pages.http.post(
        "/policy",
        data={"token": found[1], "act": "simulate", "candidate": ""},
        files={"file": ("c.rego", CLOSED.encode(), "text/plain")},
        headers={**JSON, "Origin": SITE},
        timeout=60,
    )
    assert answer.json()["simulation"]["denied_now"] == 2


async def test_a_candidate_that_cannot_be_used_is_told_why(pages: Pages) -> None:
    found = await simulated(pages, "package x\n</textarea><script>alert(1)</script>")
    assert found["examined"]["problem"]
    page = (await post(pages, {"act": "simulate", "candidate": "</textarea><script>alert(1)</script>"})).text
    assert "<script>" not in page
    assert "It cannot be used." in page


async def test_a_candidate_that_does_not_end_is_ended(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_trial, "SECONDS_MAX", 1.0)
    answer = await post(pages, {"act": "simulate", "candidate": ENDLESS})
    assert "TOO_MUCH" in answer.text
    assert not policy_trial._running
    await pages.node("the server goes on")


@pytest.mark.parametrize(
    ("form", "code"),
    [
        ({"act": "simulate", "candidate": " "}, "POLICY_INVALID"),
        ({"act": "simulate", "candidate": "#" * 200_001}, "TOO_MUCH"),
        ({"act": "explode"}, "INVALID_ARGUMENT"),
        ({}, "INVALID_ARGUMENT"),
    ],
)
async def test_what_makes_no_sense_is_refused(pages: Pages, form: dict[str, str], code: str) -> None:
    answer = await post(pages, form, json=True)
    assert answer.status_code >= 400
    assert answer.json()["error"] == code


@pytest.mark.parametrize("act", ["test", "simulate"])
async def test_nothing_is_run_without_the_token_of_the_page(pages: Pages, act: str) -> None:
    answer = await post(pages, {"act": act, "candidate": CLOSED}, json=True, token="0.0")
    assert (answer.status_code, answer.json()["error"]) == (403, "PAGE_EXPIRED")


async def test_decisions_on_what_may_not_be_read_are_neither_replayed_nor_counted(pages: Pages) -> None:
    before = (await pages.json("/policy"))["history"]["versions"][0]["decisions"]
    await pages.node("diary", "note", "eve")
    found = await simulated(pages, CLOSED)
    assert {each["name"] for each in found["by_resource"]} == {"plan", "goal"}
    assert found["denied_now"] == 2
    assert "diary" not in str(found)
    after = (await pages.json("/policy"))["history"]["versions"][0]["decisions"]
    assert after - before <= 1, "no more than what eve asked of everything"


async def test_another_tenant_sees_its_own_decisions_alone(tmp_path: Path) -> None:
    async with serving_pages(tmp_path) as pages:
        await pages.node("plan", "note", "ada")
    async with serving_pages(tmp_path, tenant="globex") as pages:
        await pages.node("theirs", "note", "zoe")
        found = await simulated(pages, CLOSED)
        assert {each["name"] for each in found["by_actor"]} == {"zoe"}


async def test_what_callers_called_themselves_is_shown_as_text(pages: Pages) -> None:
    await pages.node("x<script>alert(1)</script>", "note", "<img src=x onerror=alert(1)>")
    page = (await post(pages, {"act": "simulate", "candidate": CLOSED})).text
    assert "<img" not in page
    assert "<script>alert" not in page


async def test_where_another_server_decides_its_rules_are_said_to_be_there(tmp_path: Path, pages: Pages) -> None:
    shown = pages_of(Settings(base=tmp_path, policy_url="http://127.0.0.1:1"), pages.offer)
    assert shown is not None
    assert shown._context.policy_source is None


# -- forms


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=x", b"--x\r\n\r\nno name\r\n--x--"),
        ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n\xff\r\n--x--'),
        ("application/x-www-form-urlencoded", b"\xff"),
        ("", b"&a=1" * 101),
    ],
)
def test_what_is_no_form_is_refused(content_type: str, body: bytes) -> None:
    with pytest.raises(ValueError):
        read_form(content_type, body)


async def test_decisions_that_may_not_be_read_take_no_room_from_those_that_may(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        await pages.node(f"diary-{number}", "note", "eve")
    monkeypatch.setattr(policy_trial, "NARROWED_MAX", 2)
    monkeypatch.setattr(policy_trial, "DECISIONS_MAX", 2)
    monkeypatch.setattr(policy_trial, "_AT_ONCE", 3)
    history = (await pages.json("/policy"))["history"]
    assert (sum(each["decisions"] for each in history["versions"]), history["is_cut"]) == (2, True)
    assert (await simulated(pages, CLOSED))["asked"] == 2


async def test_of_many_groups_those_with_the_most_changes_are_listed_and_all_are_counted(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_trial, "GROUPS_MAX", 1)
    found = await simulated(pages, CLOSED)
    assert (len(found["by_actor"]), found["actors"]) == (1, 2)
    page = (await post(pages, {"act": "simulate", "candidate": CLOSED})).text
    assert "The 1 with the most changes, of 2." in page
