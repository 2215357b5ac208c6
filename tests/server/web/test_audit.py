"""`/audit`: decisions, found by who, what, when and how, and one of them explained."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from tallystick.engine.store import Store
from tallystick.extensions.web import audit as web_audit
from tallystick.extensions.web.reports import audit_index, decisions
from tallystick.extensions.web.reports.audit_index import AuditIndex, newest_lines
from tallystick.policy import Principal
from tests.server.web.pages import Pages, serving_pages
from tests.server.web.policies import owners_policy, sealed_policy
from tests.timeouts import SECONDS

pytestmark = pytest.mark.anyio


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Pages]:
    async with serving_pages(tmp_path / "base", policy=owners_policy(tmp_path)) as pages:
        await pages.node("plan", "note", "ada")
        await pages.node("goal", "aim", "bob")
        sealed = {"id": "plan", "type": "Sealed", "attrs": {}}
        refused = await pages.write("mallory", "memory.write", op="UPSERT_NODE", node=sealed)
        assert refused["error"] == "AUTHORIZATION_DENIED", refused
        yield pages


async def lines(pages: Pages, query: str = "") -> list[Any]:
    found: list[Any] = (await pages.json(f"/audit?{query}"))["decisions"]["lines"]
    return found


async def test_the_newest_decision_comes_first(pages: Pages) -> None:
    found = await lines(pages)
    assert [each["seq"] for each in found] == sorted((each["seq"] for each in found), reverse=True)
    assert {"ada", "bob", "mallory"} == {each["actor"] for each in found}
    denied = next(each for each in found if not each["allowed"])
    assert denied["reason"] == "nobody writes what is sealed"
    assert denied["policy_version"] == "owners@2"


@pytest.mark.parametrize(
    ("query", "actors"),
    [
        ("actor=ada", {"ada"}),
        ("outcome=denied", {"mallory"}),
        ("outcome=allowed&action=WRITE", {"ada", "bob"}),
        ("resource=goal", {"bob"}),
        ("action=DELETE", set()),
        ("policy=owners@2&actor=bob", {"bob"}),
        ("policy=rbac", set()),
        ("since=2999-01-01", set()),
        ("until=2001-01-01", set()),
        ("since=2001-01-01&until=2999-01-01&actor=ada", {"ada"}),
    ],
)
async def test_decisions_are_found_by_what_they_say(pages: Pages, query: str, actors: set[str]) -> None:
    assert {each["actor"] for each in await lines(pages, query)} == actors


async def test_a_filter_that_fits_nothing_can_be_dropped(pages: Pages) -> None:
    assert 'href="/audit">drop the filter' in await pages.html("/audit?actor=nobody")


async def test_looks_at_the_pages_are_shown_where_asked_for(pages: Pages) -> None:
    await pages.html("/work")
    assert "web" not in {each["tool"] for each in await lines(pages)}
    assert "web" in {each["tool"] for each in await lines(pages, "looks=1")}


async def test_older_decisions_follow_page_by_page(pages: Pages) -> None:
    for number in range(60):
        await pages.node(f"n{number}", "note", "ada")
    first = (await pages.json("/audit?actor=ada&action=WRITE"))["decisions"]
    assert len(first["lines"]) == 50
    second = await lines(pages, f"actor=ada&action=WRITE&before={first['older']}")
    everything = [each["resource"] for each in (*first["lines"], *second) if each["resource"]]
    assert set(everything) == {"plan", *(f"n{number}" for number in range(60))}
    numbers = [each["seq"] for each in (*first["lines"], *second)]
    assert numbers == sorted(set(numbers), reverse=True)


async def test_a_denial_is_explained_by_the_rules_that_fired(pages: Pages) -> None:
    (denied,) = await lines(pages, "outcome=denied")
    explained = (await pages.json(f"/audit?seq={denied['seq']}"))["explained"]
    assert explained["gap"] is None
    assert explained["decision"] == denied
    fired = {rule["name"]: [each["text"] for each in rule["fired"]] for rule in explained["rules"]}
    assert fired["sealed"] == ['sealed if input.written_type == "Sealed"']
    assert fired["allow"] == ["allow := false if sealed"]
    (reason,) = next(rule["fired"] for rule in explained["rules"] if rule["name"] == "reason")
    marked = [(line["text"], line["is_condition"]) for line in reason["lines"]]
    assert marked[1:] == [("    sealed", True), ("}", False)]
    page = await pages.html(f"/audit?seq={denied['seq']}")
    assert "Why it was denied" in page
    assert "sealed if input.written_type == &#34;Sealed&#34;" in page


async def test_a_policy_that_changed_since_is_said_to_decide_otherwise(tmp_path: Path, pages: Pages) -> None:
    (denied,) = await lines(pages, "outcome=denied")
    rules = tmp_path / "owners.rego"
    rules.write_text(rules.read_text().replace('"Sealed"', '"Other"').replace("owners@2", "owners@3"))
    explained = (await pages.json(f"/audit?seq={denied['seq']}"))["explained"]
    assert (explained["policy_version"], explained["allowed_now"]) == ("owners@3", True)
    assert "decides it otherwise: allowed" in await pages.html(f"/audit?seq={denied['seq']}")


async def test_denials_of_the_last_day_are_told_first(pages: Pages) -> None:
    ((denial),) = (await pages.json("/audit"))["denials"]["by_actor"]
    assert (denial["actor"], denial["count"]) == ("mallory", 1)
    assert 'href="/audit?actor=mallory&amp;outcome=denied&amp;since=' in await pages.html("/audit")


async def test_an_alert_says_what_was_tried_and_leads_to_it(pages: Pages) -> None:
    sealed = {"id": "plan", "type": "Sealed", "attrs": {}}
    await pages.write("mallory", "memory.write", op="UPSERT_NODE", node=sealed)
    await pages.write("mallory", "memory.write", op="UPSERT_NODE", node={**sealed, "id": "goal"})
    ((denial),) = (await pages.json("/audit"))["denials"]["by_actor"]
    assert (denial["count"], denial["most"]["resource"], denial["most"]["count"]) == (3, "plan", 2)
    page = await pages.html("/audit")
    assert "2 of them to <code>WRITE</code>" in page
    for address in (f"/audit?actor=mallory&amp;outcome=denied&amp;since={quote(denial['first'])}",
                    "/search?by=mallory", f"/recall?actor=mallory&amp;since={quote(denial['first'])}"):  # fmt: skip
        assert f'href="{address}"' in page
        assert await pages.html(unescape(address))
    shown = await lines(pages, f"actor=mallory&outcome=denied&since={quote(denial['first'])}")
    assert len(shown) == 3


async def test_who_may_not_recall_is_not_offered_it(tmp_path: Path) -> None:
    async with serving_pages(tmp_path / "base", policy=owners_policy(tmp_path), read_only=True) as pages:
        assert (await pages.json("/audit"))["may_recall"] is False


# -- decisions over time


@pytest.fixture
async def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pages]:
    """Nothing is withheld, so everything can be counted."""
    monkeypatch.setattr(decisions, "INDEXING_SECONDS", SECONDS)
    async with serving_pages(tmp_path / "base", policy=sealed_policy(tmp_path)) as pages:
        for number in range(3):
            await pages.node(f"n{number}", "note", "ada")
        sealed = {"id": "plan", "type": "Sealed", "attrs": {}}
        await pages.write("mallory", "memory.write", op="UPSERT_NODE", node=sealed)
        yield pages


async def tallied(pages: Pages, query: str = "") -> tuple[int, int]:
    tally = (await pages.json(f"/audit?{query}"))["tally"]
    assert len(tally["spans"]) == 48
    for outcome in ("allowed", "denied"):
        assert sum(each[outcome] for each in tally["spans"]) == tally[outcome]
    return tally["allowed"], tally["denied"]


@pytest.mark.parametrize(
    "query",
    ["", "actor=ada", "actor=mallory", "outcome=denied", "outcome=allowed", "action=WRITE", "action=DELETE",
     "policy=sealed@", "policy=rbac", "until=2001-01-01", "since=2001-01-01", "resource=n1", "resource=type:note"],
)  # fmt: skip
async def test_the_tally_counts_what_the_list_shows(shared: Pages, query: str) -> None:
    shown = [each["allowed"] for each in await lines(shared, query)]
    assert await tallied(shared, query) == (shown.count(True), shown.count(False))


async def test_the_tally_counts_looks_where_they_are_shown(shared: Pages) -> None:
    await shared.html("/work")
    answer = await shared.json("/audit?looks=1")
    shown = [each["allowed"] for each in answer["decisions"]["lines"]]
    assert shown.count(True) > 3
    assert (answer["tally"]["allowed"], answer["tally"]["denied"]) == (shown.count(True), shown.count(False))


async def test_the_tally_counts_more_than_a_page_shows(shared: Pages) -> None:
    for number in range(60):
        await shared.node(f"m{number}", "note", "ada")
    assert len(await lines(shared, "action=WRITE&outcome=allowed")) == 50
    assert (await tallied(shared, "action=WRITE&actor=mallory"))[1] == 1
    assert (await tallied(shared, "action=WRITE"))[0] >= 63
    page = await shared.html("/audit")
    assert "in the last 24 hours, 1 denied" in page
    assert "As a table" in page


async def test_where_something_may_be_withheld_only_what_is_shown_is_counted(pages: Pages) -> None:
    await pages.node("diary", "note", "eve")
    shown = [each["allowed"] for each in await lines(pages, "actor=eve")]
    assert await tallied(pages, "actor=eve") == (shown.count(True), shown.count(False))
    for number in range(60):
        await pages.node(f"n{number}", "note", "ada")
    assert (await pages.json("/audit?actor=ada"))["tally"] is None
    assert "As a table" not in await pages.html("/audit?actor=ada")


async def test_a_filter_that_fits_nothing_is_named_and_each_part_can_be_dropped(pages: Pages) -> None:
    page = await pages.html("/audit?actor=<b>&until=2001-01-01")
    assert "No decision fits actor <bdi>&lt;b&gt;</bdi>, end <bdi>2001-01-01</bdi>" in page
    assert 'href="/audit?until=2001-01-01">Without the actor' in page
    assert 'href="/audit?actor=%3Cb%3E">Without the end' in page


async def test_what_may_not_be_read_is_not_told_by_decisions_on_it(pages: Pages) -> None:
    await pages.node("diary", "note", "eve")
    assert "diary" not in {each["resource"] for each in await lines(pages, "actor=eve")}
    assert await lines(pages, "resource=diary") == []
    assert "diary" not in await pages.html("/audit?actor=eve")
    newest = (await lines(pages, "looks=1"))[0]["seq"]
    for seq in range(1, newest + 1):
        page = await pages.http.get(f"/audit?seq={seq}", headers={"Accept": "text/html"})
        assert "diary" not in page.text


@pytest.mark.parametrize("seq", [1, 999_999])
async def test_a_line_that_is_no_decision_is_not_there(pages: Pages, seq: int) -> None:
    await pages.html(f"/audit?seq={seq}", 404)


@pytest.mark.parametrize("query", ["action=FLY", "outcome=maybe", "since=soon", "before=x", "seq=-1"])
async def test_a_question_that_makes_no_sense_is_refused(pages: Pages, query: str) -> None:
    await pages.html(f"/audit?{query}", 400)


async def test_what_callers_called_themselves_is_shown_as_text(pages: Pages) -> None:
    await pages.node("x<script>alert(1)</script>", "note", "<img src=x onerror=alert(1)>")
    page = await pages.html("/audit?actor=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E")
    assert "<img" not in page
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


async def test_damaged_lines_are_counted_and_passed_over(tmp_path: Path, pages: Pages) -> None:
    await lines(pages)
    (file,) = (tmp_path / "base/_system/audit").glob("*.jsonl")
    bytes_of = file.read_bytes()
    file.write_bytes(bytes_of.replace(b'"actor":"bob"', b'"actor":bob""'))
    found = (await pages.json("/audit"))["decisions"]
    assert found["damaged"] == bytes_of.count(b'"actor":"bob"')
    assert {each["actor"] for each in found["lines"]} == {"ada", "mallory"}


# -- the log from its end


@pytest.mark.parametrize("block", [1, 2, 7, 1 << 18])
def test_lines_are_read_backwards_whatever_the_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(audit_index, "_BLOCK_BYTES", block)
    for first, text in ((1, "one\ntwo\n\nthree\n"), (5, "five\nsix\nhalf a li")):
        (tmp_path / f"{first:020}.jsonl").write_text(text)
    assert list(newest_lines(tmp_path)) == [b"six", b"five", b"three", b"", b"two", b"one"]
    assert list(newest_lines(tmp_path, 5)) == [b"three", b"", b"two", b"one"]
    assert list(newest_lines(tmp_path / "none")) == []


async def test_decisions_are_exported_as_filtered_and_safe_for_spreadsheets(tmp_path: Path) -> None:
    async with serving_pages(tmp_path, web_actor="=HYPERLINK(1)") as pages:
        await pages.node("=1+1", actor="ada")
        answer = await pages.http.get("/audit?export=csv&looks=1")
        assert 'filename="decisions.csv"' in answer.headers["content-disposition"]
        rows = list(csv.DictReader(io.StringIO(answer.text)))
        assert {row["resource"] for row in rows} >= {"'=1+1"}
        assert not any(cell.startswith(("=", "+", "@")) for row in rows for cell in row.values())
        exported = (await pages.http.get("/audit?export=json&action=WRITE")).json()
        assert {line["action"] for line in exported["lines"]} == {"WRITE"}
        assert (await pages.http.get("/audit?export=exe")).status_code == 400


async def test_an_export_is_whole_and_holds_one_part_in_memory(
    tmp_path: Path, pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "_AT_ONCE", 2)
    monkeypatch.setattr(decisions, "_LINES_AT_ONCE", 3)
    for number in range(decisions.PAGE):
        await pages.node(f"more-{number}")
    export = await decisions.open_export(*reader_of(pages), index_of(tmp_path), decisions.Wanted())
    parts = [part async for part in export.parts()]
    assert max(len(part) for part in parts) == 2
    seqs = [line.seq for part in parts for line in part]
    assert len(seqs) > decisions.PAGE
    assert seqs == sorted(seqs, reverse=True)
    assert export.outcome.older is None
    rows = list(csv.DictReader(io.StringIO((await pages.http.get("/audit?export=csv&action=WRITE")).text)))
    exported = (await pages.http.get("/audit?export=json&action=WRITE")).json()
    assert [line["seq"] for line in exported.pop("lines")] == [int(row["seq"]) for row in rows]
    assert len(rows) == decisions.PAGE + 3
    assert exported == {"older": None, "is_cut": False, "damaged": 0, "withholds": True}
    empty = (await pages.http.get("/audit?export=json&actor=nobody")).json()
    assert empty["lines"] == []


async def test_an_export_that_cannot_be_finished_ends_with_a_line_about_it(
    tmp_path: Path, pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "_AT_ONCE", 2)
    await lines(pages)
    older = tmp_path / "base/_system/audit" / f"{0:020}.jsonl"
    older.write_text("")
    chunks = []
    for name in ("csv", "json"):
        export = await decisions.open_export(*reader_of(pages), index_of(tmp_path), decisions.Wanted())
        written = web_audit._EXPORTS[name][1](export)
        first = [await anext(written), await anext(written)]
        older.unlink(missing_ok=True)
        chunks.append(b"".join([*first, *[chunk async for chunk in written]]).decode())
        older.write_text("")
    assert chunks[0].splitlines()[-1].startswith("incomplete: decisions before line ")
    assert msgspec.json.decode(chunks[1])["is_cut"] is True


def reader_of(pages: Pages) -> tuple[Store, Principal]:
    return pages.offer.store, pages.offer.principal_of(None)


def index_of(tmp_path: Path) -> AuditIndex:
    return AuditIndex(tmp_path / "base/_system/audit", looks_by="web")
