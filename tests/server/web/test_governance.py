"""`/governance`: what can be counted, and a person who is forgotten in two steps."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from tallystick.extensions.web.reports import governance
from tests.sample_memory import outcome_of, told
from tests.server.web.acting import send
from tests.server.web.pages import HTML, JSON, SITE, Pages, serving_pages
from tests.server.web.policies import owners_policy

pytestmark = pytest.mark.anyio


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Pages]:
    async with serving_pages(tmp_path) as pages:
        await pages.node("plan", attrs={"title": "by Ada Example", "phone": 7}, reason="asked for")
        await pages.node("goal", attrs={"title": "of nobody"})
        yield pages


async def post(pages: Pages, form: dict[str, str], *, json: bool = True) -> httpx2.Response:
    found = re.search(r'name="token" value="([^"]+)"', await pages.html("/governance"))
    assert found is not None
    headers = {**(JSON if json else HTML), "Origin": SITE}
    return await pages.http.post("/governance", data={"token": found[1], **form}, headers=headers)


async def find(pages: Pages, texts: str = "ada example") -> Any:
    answer = await post(pages, {"act": "find", "texts": texts})
    assert answer.status_code == 200, answer.text
    return answer.json()["found"]


def confirmed(found: Any) -> dict[str, str]:
    return {
        "act": "forget",
        "texts": found["texts"],
        "digest": found["digest"],
        "reason": "asked to",
        "confirmed": "yes",
    }


async def title(pages: Pages, entity_id: str = "plan") -> Any:
    said = await pages.write("ada", "memory.read", entity_id=entity_id)
    assert "error" not in said, said
    return said


async def test_a_person_is_found_then_forgotten(pages: Pages) -> None:
    found = await find(pages)
    assert [(each["entity"], each["fields"]) for each in found["plans"]] == [("plan", ["attrs.title"])]
    assert "Ada Example" in str(await title(pages)), "nothing was changed yet"
    view = (await post(pages, confirmed(found))).json()
    report = view["report"]
    assert view["counted"]["redactions"] == 1, "the redaction that was just made"
    assert view["counted"]["newest_redactions"][0]["policy_version"]
    assert [each["entity"] for each in report["redacted"]] == ["plan"]
    assert report["redacted"][0]["refused"] is None
    assert "ada example" not in str(report).lower()
    assert "Ada Example" not in str(await title(pages))
    assert (await pages.json("/governance"))["counted"]["redactions"] == 1


async def test_a_long_log_is_counted_with_the_redaction_that_was_just_made(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(governance, "WAITED_FOR", 0)
    while (await pages.json("/governance"))["counted"]["is_cut"]:  # Counted beside the answers.
        pass
    counted = (await post(pages, confirmed(await find(pages)))).json()["counted"]
    assert (counted["redactions"], counted["coverage"]["commits"]) == (1, 3)


async def test_what_is_kept_goes_on_with_what_is_new_and_begins_again_after_a_redaction(pages: Pages) -> None:
    async def counted() -> tuple[int, int, bool]:
        said = (await pages.json("/governance"))["counted"]
        return said["coverage"]["commits"], said["coverage"]["with_reason"], said["is_cut"]

    assert await counted() == await counted() == (2, 1, False)
    await pages.node("next", attrs={"title": "of Ada Example"}, reason="asked for")
    assert await counted() == await counted() == (3, 2, False)
    await post(pages, confirmed(await find(pages)))
    assert (await counted())[::2] == (5, False), "a redaction of each"
    await pages.node("last")
    assert (await counted())[::2] == (6, False)


@pytest.mark.parametrize(
    "changed",
    [
        {"confirmed": ""}, {"reason": " "}, {"reason": "Ada Example asked"}, {"reason": "x" * 501}, {"texts": ""},
        {"texts": "ab"}, {"act": "drop"}, {"token": "0.0"},
    ],
)  # fmt: skip
async def test_nothing_is_erased_that_was_not_confirmed(pages: Pages, changed: dict[str, str]) -> None:
    answer = await post(pages, {**confirmed(await find(pages)), **changed})
    assert answer.status_code in (400, 403), answer.text
    assert "Ada Example" in str(await title(pages))


async def test_what_was_written_meanwhile_is_shown_first(pages: Pages) -> None:
    found = await find(pages)
    await pages.node("later", attrs={"title": "Ada Example again"})
    view = (await post(pages, confirmed(found))).json()
    assert view["report"] is None
    assert view["found"]["is_changed"]
    assert view["found"]["total"] == 2
    assert "Ada Example" in str(await title(pages))


async def test_only_who_may_read_everything_forgets(tmp_path: Path) -> None:
    async with serving_pages(tmp_path / "base", policy=owners_policy(tmp_path)) as pages:
        await pages.node("diary", "note", "eve", attrs={"title": "Ada Example"})
        page = await pages.html("/governance")
        assert "Find what names them" not in page
        assert "withheld from you by the policy" in page
        assert "diary" not in await pages.html("/governance")
        view = await pages.json("/governance")
        assert view["counted"]["coverage"]["commits"] == 0
        assert (await post(pages, {"act": "find", "texts": "Ada Example"})).status_code == 400


async def test_how_long_things_are_kept_is_shown_of_backups_too(tmp_path: Path) -> None:
    store = (tmp_path / "backups").as_uri()
    async with serving_pages(tmp_path / "base", backup_to=store, backup_keep=7, audit_retention_days=3) as pages:
        shown = await pages.html("/governance")
    assert ("3 days, then removed" in shown, "the newest 7, for ever" in shown) == (True, True)


async def test_another_tenant_is_neither_counted_nor_erased(tmp_path: Path) -> None:
    async with serving_pages(tmp_path) as pages:
        await pages.node("plan", attrs={"title": "Ada Example"})
    async with serving_pages(tmp_path, tenant="globex") as pages:
        await pages.node("theirs")
        assert (await find(pages))["total"] == 0
        assert (await pages.json("/governance"))["counted"]["coverage"]["commits"] == 1
    async with serving_pages(tmp_path) as pages:
        assert "Ada Example" in str(await title(pages))


async def test_claimed_work_is_counted_with_and_without_a_look_at_the_memory(pages: Pages) -> None:
    root = (await pages.write("ada", "graph_open", project="p", goal="g"))["root"]["id"]
    nodes = [{"ref": ref, "parent_ref": root, "summary": ref, "properties": {"key": ref}} for ref in ("one", "two")]
    planned = (await pages.write("ada", "graph_plan", nodes=nodes))["created"]
    ids = {each["ref"]: each["id"] for each in planned}
    for actor, ref in (("codex", "one"), ("claude", "two")):
        await pages.write(actor, "graph_next", project="p", filter={"key": ref}, claim=True)
        if actor == "codex":
            who = msgspec.structs.replace(pages.offer.principal_of(None), actor=actor, tool="memory.search")
            assert "error" not in told(await outcome_of(pages.offer, who, "memory.search", {"query": "plan"}))
            evidence = [{"type": "note", "ref": "x"}]
            update = {"node_id": ids[ref], "resolved": True, "add_evidence": evidence}
            await pages.write(actor, "graph_update", updates=[update])
    counted = (await pages.json("/governance"))["counted"]
    assert counted["work"] == {"resolved": 1, "claimed": 2}
    (month,) = counted["periods"]
    assert month["with_recall"] == {"resolved": 1, "claimed": 1}
    assert month["without_recall"] == {"resolved": 0, "claimed": 1}


async def test_what_agents_wrote_is_shown_as_text(pages: Pages) -> None:
    await pages.node("x<script>alert(1)</script>", "<b>t", attrs={"<i>name": "Ada Example"})
    page = (await post(pages, {"act": "find", "texts": 'Ada Example\n"><img src=x>'}, json=False)).text
    assert not re.search(r"<script>alert|<b>t|<i>name|<img", page)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


async def test_the_time_from_a_question_to_its_report_is_measured(pages: Pages) -> None:
    assert (await pages.json("/governance"))["reports"] is None
    await pages.html("/search?q=plan")
    report = await pages.http.get("/entities/plan?export=report")
    assert report.headers["content-disposition"] == 'attachment; filename="lineage-plan.html"'
    assert "by Ada Example" in report.text
    assert "<script" not in report.text
    counted = (await pages.json("/governance"))["reports"]
    assert (counted["reports"], counted["median"] <= counted["longest"]) == (1, True)
    await pages.http.get("/entities/plan?export=csv")
    assert (await pages.json("/governance"))["reports"]["reports"] == 1, "nothing was asked in between"


async def test_recalls_are_counted_beyond_those_that_are_listed(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(governance, "ROWS_MAX", 1)
    for actor in ("bob", "eve"):
        await pages.node(f"of-{actor}", "note", actor)
        filled = {"reason": f"{actor} was wrong", "confirmed": "yes"}
        assert (await send(pages, f"/recall?actor={actor}", "/recall", filled)).status_code == 303
    counted = (await pages.json("/governance"))["counted"]
    assert (len(counted["recalls"]), counted["recalls_total"], counted["recalls_active"]) == (1, 2, 2)
    page = await pages.html("/governance")
    assert "2 recalls in force" in page
    assert "the newest 1 of 2" in page
