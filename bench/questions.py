"""Ten questions about a memory that somebody else wrote, in other words: how many one call answers, in how many tokens.

The same facts are given to server-memory as entities with observations, and to ours by the tools of every
vocabulary. The question is asked as a person puts it. Where the peer finds nothing, its agent has to try the words
of the question one by one until it is shown the fact: each of these answers is read, too.
"""

from __future__ import annotations

import re
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from bench import Row
from bench.peers import NODE, PEER, SCRIPT
from bench.processes import program, tallystick
from bench.talking import Lines
from tallystick.projections.text.words import STOP_WORDS
from tallystick.toolsets.memory.hit_text import tokens_of

ASIDE = 200
"""Other facts that are there, too."""


class Asked(NamedTuple):
    question: str
    fact: str
    """What answers it."""
    name: str


QUESTIONS = (
    Asked("Why did we choose Postgres?", "Billing runs on Postgres, chosen over DynamoDB for its transactions", "db"),
    Asked("Who should I call about payments?", "Grace Hopper is on call for the payment service", "grace"),
    Asked("Who took the ledger over from Ada?", "took over from Ada in March", "grace owns ledger"),
    Asked("What was planned for taxes on invoices?", "Bring invoicing to the new tax rules", "tax"),
    Asked("Is retrying tested anywhere?", "the test of three retries passes on every push", "retry"),
    Asked("Which work is about payments/retry.py?", "src/payments/retry.py", "backoff"),
    Asked("What keeps charges from being repeated?", "A repeated charge is dropped by its idempotency key", "keys"),
    Asked("When do idempotency keys expire?", "Keys expire after a day", "expiry"),
    Asked("How is a rollback done?", "Rollback: switch the flag off, then replay the queue", "rollback"),
    Asked("How long must invoices be kept for the auditors?", "Auditors want every invoice kept ten years", "minutes"),
)


def run(quick: bool = False) -> list[Row]:
    if not (NODE.exists() and SCRIPT.exists()):
        raise SystemExit("the peer is not installed: cd bench && npm ci")
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as folder, ExitStack() as running:
        ours = Lines(running.enter_context(tallystick(Path(folder) / "ours", "--toolsets", "all")))
        peer = running.enter_context(
            program([str(NODE), str(SCRIPT)], {"MEMORY_FILE_PATH": f"{folder}/memory.jsonl"}, working=Path(folder))
        )
        theirs = Lines(peer)
        for lines in (ours, theirs):
            lines.begin()
        _write_theirs(theirs)
        write_aside(ours.call)
        write(ours.call)
        mine = [_ask_ours(ours, asked) for asked in QUESTIONS]
        other = [_ask_theirs(theirs, asked) for asked in QUESTIONS]
    return [
        Row("questions of ten that one call answers", sum(each.at_once for each in mine), "", 10, "more",
            sum(each.at_once for each in other), PEER),
        Row("tokens read until all that can be are answered", sum(each.tokens for each in mine), "", None, "less",
            sum(each.tokens for each in other), PEER),
        Row("calls until then", sum(each.calls for each in mine), "", None, "less",
            sum(each.calls for each in other), PEER),
    ]  # fmt: skip


class Told(NamedTuple):
    at_once: bool
    calls: int
    tokens: int


def _ask_ours(lines: Lines, asked: Asked) -> Told:
    text = lines.text("memory.search", {"query": asked.question})
    return Told(asked.fact in text, 1, tokens_of(text))


def _ask_theirs(lines: Lines, asked: Asked) -> Told:
    words = [word for word in re.findall(r"[\w./]+", asked.question) if word.casefold() not in STOP_WORDS]
    calls = tokens = 0
    for query in (asked.question, *words):
        text = lines.text("search_nodes", {"query": query})
        calls, tokens = calls + 1, tokens + tokens_of(text)
        if asked.fact in text:
            break
    return Told(calls == 1, calls, tokens)


# -- what both hold


def write(call: Any) -> None:
    """Ours: each fact by the tool of the vocabulary that it belongs to."""
    said = {asked.name: asked.fact for asked in QUESTIONS}
    _node(call, "billing-db", "decision", text=said["db"], status="accepted")
    _node(call, "grace", "person", name="Grace Hopper", note=said["grace"])
    _node(call, "ledger", "service", name="the ledger")
    edge = {"from": "grace", "rel": "owns", "to": "ledger", "attrs": {"note": said["grace owns ledger"]}}
    call("memory.write", {"op": "UPSERT_EDGE", "edge": edge})
    root = call("graph_open", {"project": "checkout", "goal": "Sell without surprises"})["root"]["id"]
    planned = [
        {"ref": "tax", "parent_ref": root, "summary": said["tax"]},
        {"ref": "retry", "parent_ref": root, "summary": "Try a declined card again"},
        {"ref": "backoff", "parent_ref": root, "summary": "Wait longer each time", "context_links": [said["backoff"]]},
    ]
    made = {each["ref"]: each["id"] for each in call("graph_plan", {"nodes": planned})["created"]}
    evidence = [{"type": "test", "ref": said["retry"]}]
    call("graph_update", {"updates": [{"node_id": made["retry"], "resolved": True, "add_evidence": evidence}]})
    shop = _id(call("manage_container", _card("project", name="Shop", summary="The shop")))
    task = _id(
        call("manage_container", _card("task", title="Release", projectId=shop, summary="Ship it", complexity=3))
    )
    section = {"operation": "add", "entityType": "TASK", "entityId": task, "usageDescription": "how to go back"}
    call("manage_sections", {**section, "title": "If it fails", "content": said["rollback"]})
    known: dict[str, Any] = {"operation": "create", "entityType": "atom", "projectId": shop, "createdByTaskId": task}
    atom = _id(
        call("manage_graph", {**known, "name": "charges", "knowledge": said["keys"], "paths": ["src/charges/**"]})
    )
    entry = {"operation": "append", "parentType": "atom", "parentId": atom, "taskId": task, "summary": said["expiry"]}
    call("manage_changelog", entry)
    call("create_ontology", {"node_types": ["Meeting"], "connection_types": []})
    content = {"content": f"# Minutes\n\n{said['minutes']}, paper or not.", "encoding": "utf-8", "format": "markdown"}
    call("create_node", {"type": "Meeting", "properties": {"with": "the auditors"}, **content})


def write_aside(call: Any) -> None:
    """What else is known, and is not asked about."""
    for name, text in _sentences().items():
        _node(call, name, "note", text=text)


def _sentences() -> dict[str, str]:
    who = ("The harbour", "A windmill", "The orchard", "Every lantern", "This quarry")
    does = ("opens before lunch", "was painted in spring", "needs a new door", "closes when it rains", "looks old")
    return {f"aside-{at}": f"{who[at % 5]} {does[at // 5 % 5]}, says visitor {at}" for at in range(ASIDE)}


def _node(call: Any, node_id: str, kind: str, **attrs: Any) -> None:
    call("memory.write", {"op": "UPSERT_NODE", "node": {"id": node_id, "type": kind, "attrs": attrs}})


def _card(kind: str, **more: Any) -> dict[str, Any]:
    return {"operation": "create", "containerType": kind, **({} if kind == "project" else {"priority": "HIGH"}), **more}


def _id(answer: dict[str, Any]) -> str:
    inner = answer.get("data", answer)
    return next(str(each["id"]) for each in (inner, *inner.values()) if isinstance(each, dict) and "id" in each)


def _write_theirs(lines: Lines) -> None:
    facts = {asked.name: asked.fact for asked in QUESTIONS} | _sentences()
    entities = [{"name": name, "entityType": "fact", "observations": [fact]} for name, fact in facts.items()]
    lines.call("create_entities", {"entities": entities})
