"""The page of an entity: what it says, at which moment, who set what, every change, and exports."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.extensions.web.reports import entity_report
from tests.promises import promise
from tests.server.web.pages import HTML, Pages, serving_pages

pytestmark = pytest.mark.anyio


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Pages]:
    """A decision with four commits by three authors, of which one is a redaction."""
    async with serving_pages(tmp_path) as pages:
        await pages.node("billing", "service", attrs={"name": "Billing"})
        first = {"title": "Retry three times", "retries": 3, "by": "Jane Doe"}
        run = {"run_id": "run-7"}
        await pages.node("d/1", "decision", "planner", attrs=first, reason="agreed in review", run_context=run)
        await pages.node("d/1", "decision", "ada", attrs=first | {"retries": 0}, reason="INC-482")
        fields = ["attrs.by"]
        await pages.write(
            "nora", "memory.write", op="REDACT_NODE", node_id="d/1", redacted_fields=fields, reason="DSR-119"
        )
        now = {"title": "Never retry", "retries": 0, "by": "[REDACTED]", "text": "It is **not** tried again.\n"}
        await pages.node("d/1", "decision", "planner", attrs=now, reason="a queue")
        await pages.edge("d/1", "constrains", "billing")
        await pages.edge("d/1", "derived_from", "billing")
        yield pages


@promise("web, entity", "what an entity says, and who set each attribute")
async def test_it_says_what_is_so_and_who_set_it(pages: Pages) -> None:
    view = await pages.json("/entities/d%2F1")
    entity = view["entity"]
    assert (entity["title"], entity["type"], entity["exists"], entity["redacted"]) == (
        "Never retry",
        "decision",
        True,
        1,
    )
    setters = {each["name"]: (each["set_by"], each["set_at"]) for each in entity["attributes"]}
    assert setters == {"by": ("nora", 4), "retries": ("ada", 3), "text": ("planner", 5), "title": ("planner", 5)}
    assert [text["name"] for text in entity["texts"]] == ["text"]
    assert [(each["rel"], each["direction"]) for each in view["relations"]] == [("constrains", "out")]
    assert [(each["rel"], each["title"]) for each in view["derived_from"]] == [("derived_from", "Billing")]
    assert {each["name"]: each["redacted_because"] for each in entity["attributes"]}["by"] == "DSR-119"


async def test_the_page_draws_what_json_says(pages: Pages) -> None:
    text = await pages.html("/entities/d%2F1")
    for words in (
        "<h1><bdi>Never retry</bdi></h1>", "a queue", "agreed in review", "INC-482", "DSR-119", "run-7",
        "<strong>Redacted by <bdi>nora</bdi> on ", "still provable",
        "<strong>not</strong>", "single-user@1", "1 value redacted", "tallystick verify", "masked in earlier commits",
    ):  # fmt: skip
        assert words in text
    assert "Jane Doe" not in text
    view = await pages.json("/entities/d%2F1")
    for step in view["entity"]["history"]:
        assert step["commit_id"] in text
        assert step["record_hash"] in text


@promise("web, lineage", "every commit with what it changed")
async def test_its_history_has_the_change_of_each_commit(pages: Pages) -> None:
    history = (await pages.json("/entities/d%2F1"))["entity"]["history"]
    assert [(each["did"], each["actor"]) for each in history] == [
        ("written", "planner"), ("redacted", "nora"), ("written", "ada"), ("created", "planner"),
    ]  # fmt: skip
    assert history[2]["changes"] == [{"name": "retries", "was": 3, "now": 0}]
    assert {"name": "title", "was": "Retry three times", "now": "Never retry"} in history[0]["changes"]
    assert {each["name"] for each in history[3]["changes"]} >= {"title", "retries", "by"}
    assert history[1]["redacted_fields"] == ["attrs.by"]


@promise("web, moments", "an entity at any moment, later commits greyed")
async def test_a_moment_shows_what_was_so_and_greys_what_came_later(pages: Pages) -> None:
    view = await pages.json("/entities/d%2F1?as_of=2")
    entity = view["entity"]
    assert (entity["title"], entity["moment"], view["step"], view["changed_since"]) == ("Retry three times", 2, 1, 3)
    assert [each["is_later"] for each in entity["history"]] == [True, True, True, False]
    assert entity["neighbours"] == []
    assert (view["earlier"], view["later"]) == (None, 3)
    text = await pages.html("/entities/d%2F1?as_of=2")
    assert "Back to now" in text
    assert 'href="/entities/d%2F1"' in text
    assert "you are here" in text


@pytest.mark.parametrize(
    ("query", "positions", "commits", "changed"),
    [
        ("compare=2", (2, 5), 3, {"title": ("Retry three times", "Never retry"), "retries": (3, 0)}),
        ("compare=2&with=3", (2, 3), 1, {"retries": (3, 0)}),
        ("compare=3&with=2", (2, 3), 1, {"retries": (3, 0)}),
        ("compare=3&as_of=4", (3, 4), 1, {}),
        ("compare=5&with=5", (5, 5), 0, {}),
        ("compare=0&with=2", (0, 2), 1, {"title": (None, "Retry three times"), "retries": (None, 3)}),
    ],
)
async def test_any_two_of_its_commits_are_compared_by_a_link(
    pages: Pages, query: str, positions: tuple[int, int], commits: int, changed: dict[str, Any]
) -> None:
    found = (await pages.json(f"/entities/d%2F1?{query}"))["comparison"]
    assert (found["older"]["position"], found["newer"]["position"]) == positions
    assert found["commits"] == commits
    said = {each["name"]: (each.get("was"), each.get("now")) for each in found["changes"]}
    assert {name: said.get(name) for name in changed} == changed
    assert ("title" in said or "retries" in said) is bool(changed)
    text = await pages.html(f"/entities/d%2F1?{query}")
    drawn = text.split('id="h-compare"')[1].split("</section>")[0]
    assert ("It says the same in both" in drawn) is not found["changes"]
    assert "Jane Doe" not in text


async def test_every_commit_but_the_newest_has_a_link_to_compare_it(pages: Pages) -> None:
    text = await pages.html("/entities/d%2F1")
    for position in (2, 3, 4):
        assert f'href="/entities/d%2F1?compare={position}#h-compare"' in text
    assert "compare=5" not in text
    past = await pages.html("/entities/d%2F1?as_of=3")
    assert 'href="/entities/d%2F1?compare=2&amp;as_of=3#h-compare"' in past


@pytest.mark.parametrize("query", ["compare=99", "compare=soon", "compare=2&with=soon"])
async def test_what_is_no_moment_cannot_be_compared(pages: Pages, query: str) -> None:
    assert (await pages.json(f"/entities/d%2F1?{query}", 400))["error"] == "UNKNOWN_AS_OF"


async def test_what_came_of_it_is_told_apart_from_what_it_came_of(pages: Pages) -> None:
    await pages.node("runbook", attrs={"title": "Manual refunds"})
    await pages.node("incident", attrs={"title": "INC-482", "stale_after": "2020-01-01"})
    await pages.edge("runbook", "derived_from", "d/1")
    await pages.edge("incident", "led_to", "d/1")
    view = await pages.json("/entities/d%2F1")
    assert [each["title"] for each in view["derived_from"]] == ["Billing", "INC-482"]
    assert [each["title"] for each in view["derives"]] == ["Manual refunds"]
    assert [each["rel"] for each in view["relations"]] == ["constrains"]
    origin = (await pages.html("/entities/d%2F1")).split('id="h-origin"')[1].split("</section>")[0]
    assert "was derived from" in origin
    assert '<span class="flag stale"' in origin


async def test_a_proof_says_what_came_before_and_where_it_is_kept(pages: Pages, tmp_path: Path) -> None:
    view = await pages.json("/entities/d%2F1")
    place = view["entity"]["place"]
    line = (tmp_path / "_system" / "log" / place["file"]).read_bytes().splitlines()[place["line"] - 1]
    stored = json.loads(line)
    assert (stored["commit_id"], stored["prev"]) == (view["latest"]["commit_id"], view["latest"]["previous"])
    text = await pages.html("/entities/d%2F1")
    assert f">{place['file']}</code>, line {place['line']}" in text
    assert view["latest"]["previous"] in text


async def test_the_bar_says_the_moment_and_the_links_keep_it(pages: Pages) -> None:
    await pages.edge("d/1", "names", "billing")
    text = await pages.html("/entities/d%2F1?as_of=7")
    bar = text.split('<section class="bar past"')[1].split("</section>")[0]
    moment = (await pages.json("/entities/d%2F1?as_of=7"))["entity"]["moment_time"]
    assert f'<time datetime="{moment}">' in bar
    assert "7 of " in bar
    assert 'href="/graph?around=d%2F1&amp;as_of=7"' in text
    assert 'href="/entities/billing?as_of=7"' in text
    assert "Changed 3 times since, by " in await pages.html("/entities/d%2F1?as_of=2")


@pytest.mark.parametrize(("reason", "told"), [("DSR-119", "DSR-119."), ("Article 17.", "Article 17.")])
async def test_a_reason_that_is_told_ends_in_one_full_stop(tmp_path: Path, reason: str, told: str) -> None:
    async with serving_pages(tmp_path) as pages:
        await pages.node("d", "decision", attrs={"by": "Jane Doe"})
        await pages.write(
            "nora", "memory.write", op="REDACT_NODE", node_id="d", redacted_fields=["attrs.by"], reason=reason
        )
        assert f"<bdi>{told}</bdi> The values are masked" in await pages.html("/entities/d")


async def test_its_history_is_read_from_the_oldest_on(pages: Pages) -> None:
    text = await pages.html("/entities/d%2F1?order=oldest")
    assert text.index("agreed in review") < text.index("INC-482") < text.rindex("a queue")


async def test_before_it_was_written_it_is_not_there(pages: Pages) -> None:
    view = await pages.json("/entities/d%2F1?as_of=1")
    assert (view["entity"]["exists"], view["latest"], view["step"]) == (False, None, 0)
    assert "Nothing was written about it up to this moment" in await pages.html("/entities/d%2F1?as_of=1")
    assert (await pages.json("/entities/d%2F1?as_of=0"))["entity"]["moment"] == 0


@promise("web, slider", "the slider works without a script")
async def test_the_slider_is_a_form_whose_places_have_addresses(pages: Pages) -> None:
    text = await pages.html("/entities/d%2F1")
    assert '<input type="range" name="place" min="0" max="1000" value="1000"' in text
    view = await pages.json("/entities/d%2F1")
    drawn = f"head={view['entity']['position']}&until={view['until']}"
    first, _, third, last = (each["place"] for each in view["notches"])
    for place, address in ((first, "?as_of=2"), (third, "?as_of=4"), (999, "?as_of=4"), (last, ""), (1000, "")):
        answer = await pages.http.get(f"/entities/d%2F1?place={place}&{drawn}", headers=HTML)
        assert (answer.status_code, answer.headers["location"]) == (303, f"/entities/d%2F1{address}")


async def test_the_slider_goes_on_from_the_moment_that_is_looked_at(pages: Pages) -> None:
    view = await pages.json("/entities/d%2F1?as_of=3")
    assert view["place"] == view["notches"][1]["place"]
    drawn = f"as_of=3&head={view['entity']['position']}&until={view['until']}"
    for moved, address in ((-1, "?as_of=2"), (0, "?as_of=3"), (1, "?as_of=4")):
        answer = await pages.http.get(f"/entities/d%2F1?place={view['place'] + moved}&{drawn}", headers=HTML)
        assert answer.headers["location"] == f"/entities/d%2F1{address}"


async def test_a_place_means_what_it_meant_as_the_slider_was_drawn(pages: Pages) -> None:
    view = await pages.json("/entities/d%2F1")
    drawn = f"head={view['entity']['position']}&until={view['until']}"
    for number in range(3):
        await pages.node("d/1", "decision", "codex", attrs={"retries": number}, reason="again")
    for each in view["notches"][:-1]:
        answer = await pages.http.get(f"/entities/d%2F1?place={each['place']}&{drawn}", headers=HTML)
        assert answer.headers["location"] == f"/entities/d%2F1?as_of={each['position']}"


async def test_what_was_deleted_still_has_its_page(pages: Pages) -> None:
    await pages.write("ada", "memory.write", op="DELETE_NODE", node_id="billing", reason="gone")
    view = await pages.json("/entities/billing")
    assert (view["entity"]["exists"], view["latest"]["did"]) == (False, "deleted")
    assert ">deleted</span>" in await pages.html("/entities/billing")


async def test_an_edge_has_a_page(pages: Pages) -> None:
    address = "/entities/d%2F1%7Cconstrains%7Cbilling"
    view = await pages.json(address)
    assert view["entity"]["ends"] == {"source": "d/1", "rel": "constrains", "target": "billing"}
    assert 'href="/entities/billing"' in await pages.html(address)


@pytest.mark.parametrize(
    ("query", "status", "error"),
    [
        ("as_of=tomorrow", 400, "UNKNOWN_AS_OF"),
        ("as_of=999999", 400, "UNKNOWN_AS_OF"),
        ("export=exe", 400, "INVALID_ARGUMENT"),
        ("skip=-1", 400, "INVALID_ARGUMENT"),
        ("place=x", 400, "INVALID_ARGUMENT"),
        ("place=1001", 400, "INVALID_ARGUMENT"),
        ("place=1&until=x", 400, "INVALID_ARGUMENT"),
    ],
)
async def test_what_cannot_be_is_said(pages: Pages, query: str, status: int, error: str) -> None:
    assert (await pages.json(f"/entities/d%2F1?{query}", status))["error"] == error


@pytest.mark.parametrize("entity_id", ["nope", "d", "%00", "a" * 2_000, "%ff", "..%2f..%2fetc"])
async def test_what_was_never_written_is_not_there(pages: Pages, entity_id: str) -> None:
    assert "There is nothing here that you may read" in await pages.html(f"/entities/{entity_id}", 404)


@pytest.mark.parametrize("entity_id", ["package.json", "..", ".", "a b?c#d", "//x", "é%2F", "json", ".json"])
async def test_every_id_has_an_address(pages: Pages, entity_id: str) -> None:
    from tallystick.extensions.web.addresses import entity_address

    await pages.node(entity_id)
    assert f"<code>{entity_id}</code>" in await pages.html(entity_address(entity_id))
    assert (await pages.json(entity_address(entity_id)))["entity"]["id"] == entity_id


async def test_json_is_had_by_its_ending(pages: Pages) -> None:
    answer = await pages.http.get("/entities/d%2F1.json", headers=HTML)
    assert answer.json()["entity"] == (await pages.json("/entities/d%2F1"))["entity"]


async def _exported(pages: Pages, form: str) -> tuple[str, str]:
    answer = await pages.http.get(f"/entities/d%2F1?export={form}", headers=HTML)
    assert answer.status_code == 200
    return answer.headers["content-disposition"], answer.text


@promise("web, exports", "lineage as JSON, CSV and OpenLineage")
async def test_its_lineage_is_exported(pages: Pages) -> None:
    place, text = await _exported(pages, "json")
    assert place == 'attachment; filename="lineage-d-1.json"'
    assert [each["actor"] for each in json.loads(text)["lineage"]] == ["planner", "ada", "nora", "planner"]
    rows = list(csv.DictReader(io.StringIO((await _exported(pages, "csv"))[1])))
    assert [row["reason"] for row in rows] == ["agreed in review", "INC-482", "DSR-119", "a queue"]
    events: list[Any] = [json.loads(line) for line in (await _exported(pages, "openlineage"))[1].splitlines()]
    assert {event["job"]["name"] for event in events}


async def test_a_long_history_is_paged(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entity_report, "STEPS_MAX", 2)
    newest = (await pages.json("/entities/d%2F1"))["entity"]
    assert ([each["position"] for each in newest["history"]], newest["commits"]) == ([5, 4], 4)
    assert "skip=2" in await pages.html("/entities/d%2F1")
    older = (await pages.json("/entities/d%2F1?skip=2"))["entity"]
    assert [each["position"] for each in older["history"]] == [3, 2]
    assert (await pages.json("/entities/d%2F1?skip=9"))["entity"]["history"] == []
    await pages.html("/entities/d%2F1?skip=9")


async def test_of_a_long_history_the_moment_is_told_right_on_every_page(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entity_report, "STEPS_MAX", 2)
    past = await pages.json("/entities/d%2F1?as_of=2")
    assert (past["latest"]["position"], past["changed_since"]) == (2, 3)
    assert {each["set_at"] for each in past["entity"]["attributes"]} == {2}
    assert 2 in [each["position"] for each in past["entity"]["history"]]
    older = await pages.json("/entities/d%2F1?skip=2")
    assert (older["latest"]["position"], older["changed_since"]) == (5, 0)


@promise("why, page", "a task's page leads to its evidence and to what was read for it")
async def test_a_task_leads_to_its_evidence_and_to_what_was_read_for_it(tmp_path: Path) -> None:
    async with serving_pages(tmp_path) as pages:
        await pages.node("rule", "note", attrs={"text": "never retry a refund"})
        await pages.write("ada", "graph_open", project="shop", goal="A shop")
        planned = await pages.write("ada", "graph_plan", nodes=[{"ref": "a", "summary": "Refunds"}])
        task = planned["created"][0]["id"]
        await pages.write("ada", "graph_next", project="shop", claim=True)
        await pages.write("ada", "memory.read", entity_id="rule")
        hostile = {"type": "note", "ref": "<script>alert(1)</script>"}
        await pages.write(
            "ada", "graph_update", updates=[{"node_id": task, "resolved": True, "add_evidence": [hostile]}]
        )
        why = (await pages.json(f"/entities/{task}"))["why"]
        assert [each["ref"] for each in why["evidence"]] == [hostile["ref"]]
        assert [each["fact"]["id"] for each in why["reads"]] == ["rule"]
        drawn = await pages.html(f"/entities/{task}")
        assert 'href="/entities/rule"' in drawn
        assert "&lt;script&gt;alert(1)" in drawn
        assert (await pages.json("/entities/rule"))["why"] is None


async def test_what_is_stale_says_why_and_by_what_it_was_superseded(pages: Pages) -> None:
    await pages.node("old", attrs={"title": "The old way", "stale_after": "2020-01-01"})
    await pages.node("older", attrs={"title": "The older way"})
    await pages.node("new", attrs={"title": "The new way", "supersedes": ["older"]})
    assert "past its time" in await pages.html("/entities/old")
    text = await pages.html("/entities/older")
    assert "superseded" in text
    assert '<a href="/entities/new"><bdi>new</bdi></a>' in text


async def test_a_report_that_is_taken_home_tells_no_time_that_goes_on(pages: Pages) -> None:
    assert "just now" in await pages.html("/entities/billing")
    assert "just now" not in (await pages.http.get("/entities/billing?export=report")).text


async def test_the_oldest_change_of_a_page_has_the_value_that_it_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entity_report, "STEPS_MAX", 1)
    async with serving_pages(tmp_path) as pages:
        for status in ("open", "late", "done"):
            await pages.node("task", attrs={"status": status})
        history = (await pages.json("/entities/task?skip=1"))["entity"]["history"]
        assert [each["changes"] for each in history] == [[{"name": "status", "was": "open", "now": "late"}]]
        assert "3 commits by at least 1 author, 1 of them here" in await pages.html("/entities/task")
