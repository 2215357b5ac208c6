"""The graph: by types and relations with counts, and what is around an entity."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.extensions.web import graph
from tallystick.extensions.web.graph import DRAWN_MAX, NODES_MAX, PART, GraphEdge, GraphNode, draw_around
from tallystick.extensions.web.reports import graph_part
from tests.server.web.acting import send
from tests.server.web.pages import HTML, Pages, serving_pages

pytestmark = pytest.mark.anyio


async def _written(pages: Pages) -> None:
    """incident ← plan → service → ledger, and a name that would like to be more."""
    for name, kind in (("plan", "decision"), ("service", "service"), ("ledger", "service"), ("inc/1.json", "incident")):
        await pages.node(name, kind)
    await pages.edge("plan", "constrains", "service")
    await pages.edge("service", "writes_to", "ledger")
    await pages.edge("inc/1.json", "led_to", "plan")


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Pages]:
    async with serving_pages(tmp_path) as pages:
        await _written(pages)
        yield pages


def _edges(said: Any) -> list[tuple[str, str, str]]:
    return [(each["source"], each["relation"], each["target"]) for each in said["neighbourhood"]["edges"]]


async def test_it_opens_by_types_and_relations_with_counts(pages: Pages) -> None:
    said = await pages.json("/graph")
    assert {each["name"]: each["count"] for each in said["types"]} == {"decision": 1, "service": 2, "incident": 1}
    assert {each["name"]: each["count"] for each in said["relations"]} == {
        "constrains": 1,
        "led_to": 1,
        "writes_to": 1,
    }
    text = await pages.html("/graph")
    assert 'href="/graph?around=inc%2F1.json"' in text
    assert '<svg class="drawing"' not in text


@pytest.mark.parametrize(
    ("query", "nodes", "edges"),
    [
        ("type=service", ["ledger", "service", "plan"], ["writes_to", "constrains"]),
        ("relation=writes_to", ["service", "ledger"], ["writes_to"]),
        ("type=incident&relation=led_to", ["inc/1.json", "plan"], ["led_to"]),
        ("type=incident&relation=writes_to", [], []),
        ("type=nothing", [], []),
        ("relation=nothing", [], []),
    ],
)
async def test_the_newest_of_a_type_or_a_relation_are_drawn_and_listed(
    pages: Pages, query: str, nodes: list[str], edges: list[str]
) -> None:
    said = (await pages.json(f"/graph?{query}"))["neighbourhood"]
    assert said["centre"] is None
    assert sorted(each["id"] for each in said["nodes"]) == sorted(nodes)
    assert sorted(each["relation"] for each in said["edges"]) == sorted(edges)
    text = await pages.html(f"/graph?{query}")
    assert ('<svg class="drawing"' in text) is bool(nodes)
    assert ("There are none that you may read." in text) is not bool(nodes)


async def test_older_ones_are_a_link_away_and_what_has_no_edge_is_listed(pages: Pages) -> None:
    for number in range(PART + 3):
        await pages.node(f"note-{number}", "note")
    first = (await pages.json("/graph?type=note"))["neighbourhood"]
    assert [each["id"] for each in first["nodes"]][:2] == [f"note-{PART + 2}", f"note-{PART + 1}"]
    assert first["next"] == PART
    assert 'href="/graph?type=note&amp;skip=20"' in await pages.html("/graph?type=note")
    rest = (await pages.json(f"/graph?type=note&skip={PART}"))["neighbourhood"]
    assert ([each["id"] for each in rest["nodes"]], rest["next"]) == (["note-2", "note-1", "note-0"], None)
    assert "no edges" in await pages.html(f"/graph?type=note&skip={PART}")


@pytest.mark.parametrize(
    ("query", "nodes", "edges"),
    [
        ("", {"service", "inc/1.json"}, {"constrains", "led_to"}),
        ("&hops=2", {"service", "inc/1.json", "ledger"}, {"constrains", "led_to", "writes_to"}),
        ("&relation=constrains", {"service"}, {"constrains"}),
        ("&type=incident", {"inc/1.json"}, {"led_to"}),
        ("&type=nothing", set(), set()),
        ("&as_of=5", {"service"}, {"constrains"}),
    ],
)
async def test_what_is_around_is_in_the_table_and_drawn(
    pages: Pages, query: str, nodes: set[str], edges: set[str]
) -> None:
    said = await pages.json(f"/graph?around=plan{query}")
    around = said["neighbourhood"]
    assert {each["id"] for each in around["nodes"]} == nodes
    assert {relation for _, relation, _ in _edges(said)} == edges
    assert {each["node"]["id"] for each in around["drawing"]["places"]} == nodes | {"plan"}
    text = await pages.html(f"/graph?around=plan{query}")
    assert text.count("<line") == len(edges)


async def test_links_keep_what_was_asked_and_names_are_encoded(pages: Pages) -> None:
    text = await pages.html("/graph?around=plan&hops=2&as_of=7")
    assert 'href="/graph?around=inc%2F1.json&amp;hops=2&amp;as_of=7"' in text
    assert 'href="/entities/inc%2F1%2Ejson?as_of=7"' in text
    assert 'href="/graph?around=plan&amp;hops=2&amp;relation=led_to&amp;as_of=7"' in text


async def _marked(pages: Pages) -> None:
    """Around a plan: something stale, untrusted and redacted, and an edge that is stale itself."""
    await pages.node("old", attrs={"title": "old", "stale_after": "2020-01-01"})
    poisoned = await pages.node("poisoned")
    await pages.node("report", attrs={"title": "report", "by": "Jane Doe"})
    redaction = {"node_id": "report", "redacted_fields": ["attrs.by"], "reason": "DSR-119"}
    await pages.write("nora", "memory.write", op="REDACT_NODE", **redaction)
    yes = {"reason": "not to be trusted", "confirmed": "yes"}
    recalled = await send(pages, f"/recall?commit={poisoned['commit_id']}", "/recall", yes)
    assert recalled.status_code == 303, recalled.text
    await pages.edge("plan", "derived_from", "poisoned")
    await pages.edge("plan", "led_to", "report")
    await pages.edge("plan", "names", "old", attrs={"stale_after": "2020-01-01"})


async def test_what_is_to_be_minded_stands_in_the_rows_and_in_the_drawing(pages: Pages) -> None:
    await _marked(pages)
    around = (await pages.json("/graph?around=plan"))["neighbourhood"]
    states = {each["title"]: (each["state"], each["note"]) for each in around["nodes"]}
    assert states == {
        "old": ("stale", "stale"), "about poisoned": ("untrusted", "untrusted"), "report": ("redacted", "1 redacted"),
        "about service": (None, "service"),
        "about inc/1.json": (None, "incident"),
    }  # fmt: skip
    edges = {each["relation"]: each for each in around["edges"]}
    assert [rel for rel, each in edges.items() if each["marks"].get("stale_since")] == ["names"]
    assert [rel for rel, each in edges.items() if each["is_derived"]] == ["led_to", "derived_from"]
    assert edges["constrains"]["since"] == 5
    text = await pages.html("/graph?around=plan")
    assert text.count('<span class="flag stale" title="since 2020') == 2
    assert text.count(">untrusted</span>") == 4, "a row, the legend, and both ends of rows that the script makes"
    assert '<td class="right number"><a href="/entities/plan?as_of=5">5</a></td>' in text
    for kind in ("stale", "untrusted", "redacted"):
        assert text.count(f'class="shape is-{kind}"') == 1, kind
    assert text.count('<line class="derived"') == 3
    past = (await pages.json("/graph?around=plan&as_of=7"))["neighbourhood"]
    assert {each["state"] for each in past["nodes"]} == {None}


async def test_work_that_somebody_has_claimed_says_so(pages: Pages) -> None:
    root = (await pages.write("ada", "graph_open", project="p", goal="Ship it"))["root"]["id"]
    first = {"ref": "t", "parent_ref": root, "summary": "Queue them"}
    second = {"ref": "u", "parent_ref": root, "summary": "Pay them", "depends_on": ["t"]}
    made = await pages.write("ada", "graph_plan", nodes=[first, second])
    waiting = made["created"][1]["id"]
    await pages.write("codex", "graph_next", project="p", claim=True)
    nodes = (await pages.json(f"/graph?around={waiting}"))["neighbourhood"]["nodes"]
    assert [(task["title"], task["state"], task["note"]) for task in nodes] == [
        ("Queue them", "claimed", "claimed by codex")
    ]
    text = await pages.html(f"/graph?around={waiting}")
    assert 'class="shape is-claimed"' in text
    assert '<span title="by codex"><span class="pill claimed">' in text


async def test_the_table_says_by_how_many_hops(pages: Pages) -> None:
    text = await pages.html("/graph?around=plan&hops=2")
    near, further = text.split('<caption>One hop <span class="count">2</span>')[1].split("data-further>")
    assert ("about ledger" in near, "about ledger" in further) == (False, True)
    assert '<caption>Two hops <span class="count" data-count>1</span>' in further


async def test_the_table_is_had_as_csv_that_no_spreadsheet_runs(pages: Pages) -> None:
    await pages.node("=cmd|1", attrs={"title": "x"})
    await pages.edge("plan", "=rel", "=cmd|1")
    answer = await pages.http.get("/graph?around=plan&export=csv", headers=HTML)
    assert answer.headers["content-disposition"] == 'attachment; filename="graph.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(row["from"], row["relation"], row["to"]) for row in rows] == [
        ("plan", "constrains", "service"), ("inc/1.json", "led_to", "plan"), ("plan", "'=rel", "'=cmd|1"),
    ]  # fmt: skip
    assert rows[0]["since"] == "5"


@pytest.mark.parametrize("query", ["", "&type=service", "&relation=led_to"])
async def test_what_is_only_known_of_now_is_not_shown_as_the_past(pages: Pages, query: str) -> None:
    answer = await pages.http.get(f"/graph?as_of=2{query}", headers=HTML)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/graph?{query[1:]}".rstrip("?"))


async def test_what_agents_call_things_stays_text(pages: Pages) -> None:
    bad = '"><script>alert(1)</script>'
    await pages.node("bad", bad, attrs={"title": bad})
    await pages.edge("plan", bad, "bad")
    for address in ("/graph", "/graph?around=plan", "/graph?around=bad"):
        assert "<script>alert" not in await pages.html(address)


@pytest.mark.parametrize(("query", "status"), [("around=nobody", 404), ("around=plan&hops=4", 400), ("hops=x", 400)])
async def test_what_cannot_be_drawn_is_refused(pages: Pages, query: str, status: int) -> None:
    await pages.html(f"/graph?{query}", status)


async def test_a_neighbourhood_is_bounded_and_says_so(pages: Pages) -> None:
    nodes = [{"id": f"n{number}", "type": "note", "attrs": {}} for number in range(NODES_MAX + 20)]
    edges = [{"from": "plan", "rel": "has", "to": node["id"]} for node in nodes]
    ops: list[dict[str, Any]] = [{"op": "UPSERT_NODE", "node": node} for node in nodes]
    ops += [{"op": "UPSERT_EDGE", "edge": edge} for edge in edges]
    said = await pages.write("ada", "memory.write", ops=ops)
    assert "error" not in said, said
    around = (await pages.json("/graph?around=plan"))["neighbourhood"]
    assert around["is_truncated"]
    assert len(around["nodes"]) <= NODES_MAX
    assert len(around["drawing"]["places"]) == DRAWN_MAX + 1
    assert "There is more than is shown" in await pages.html("/graph?around=plan")


def test_nothing_is_drawn_on_something_else() -> None:
    centre = GraphNode(id="centre", title="centre", type="note", hop=0, shape="circle", address="/")
    nodes = [
        GraphNode(id=f"n{n}", title="x" * 99, type="note", hop=1 + n % 3, shape="circle", address="/")
        for n in range(DRAWN_MAX)
    ]
    edges = [GraphEdge("centre", "has", node.id) for node in nodes]
    drawing = draw_around(centre, nodes, edges)
    assert len({(place.x, place.y) for place in drawing.places}) == DRAWN_MAX + 1
    assert all(0 < place.x < drawing.width and 0 < place.y < drawing.height for place in drawing.places)
    assert len(drawing.lines) == DRAWN_MAX


HIDING = """package example.hiding
import rego.v1
default decision := {"result": true, "reason": "all but secrets", "policy_version": "1", "narrows": true}
decision := {"result": false, "reason": "no", "policy_version": "1"} if {
	input.resource_type == "secret"
	input.actor != "ada"
}
"""


async def test_what_may_not_be_read_is_nowhere(tmp_path: Path) -> None:
    rules = tmp_path / "hiding.rego"
    rules.write_text(HIDING)
    memory = tmp_path / "memory"
    async with serving_pages(memory, agent_identity="bob", policy=str(rules)) as pages:
        await _written(pages)
        await pages.node("vault", "secret")
        await pages.edge("plan", "keeps", "vault")
        for address in ("/graph", "/graph?around=plan&hops=3"):
            text = await pages.html(address)
            assert not any(word in text for word in ("vault", "secret", "keeps"))
        assert "vault" not in await pages.html("/graph?type=decision")
        for address in ("/graph.json?type=secret", "/graph.json?relation=keeps"):
            found = (await pages.json(address))["neighbourhood"]
            assert (found["nodes"], found["edges"], found["next"]) == ([], [], None)
        await pages.html("/graph?around=vault", 404)


async def test_a_part_that_ends_early_says_so(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        await pages.node(f"note-{number}", "note")
        await pages.edge(f"note-{number}", "about", "plan")
    monkeypatch.setattr(graph_part, "_PASSED_MAX", 2)
    assert (await pages.json("/graph?relation=about&type=incident"))["neighbourhood"]["is_truncated"] is True
    assert "There is more than is shown" in await pages.html("/graph?relation=about&type=incident")
    answer = await pages.http.get("/graph?relation=about&type=incident&export=csv", headers=HTML)
    assert answer.text.splitlines()[-1] == "incomplete: there is more than this page shows"
    monkeypatch.setattr(graph, "PART", 1)
    assert (await pages.json("/graph?type=note"))["neighbourhood"]["is_truncated"] is False
    monkeypatch.setattr(graph, "SKIPPED_MAX", 0)
    last = (await pages.json("/graph?type=note"))["neighbourhood"]
    assert (last["next"], last["is_truncated"]) == (None, True)
