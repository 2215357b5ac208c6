"""memory.write: merging, conditions, several operations at once, and what is said of fields that go (L18)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tallystick.commits import Draft, Operation, Verb
from tallystick.commits.chain import decode
from tallystick.errors import TallystickError
from tallystick.policy import Action, Decision, Request
from tallystick.server.dispatch import prepare
from tallystick.toolsets.memory import TOOLSET
from tallystick.toolsets.memory.write_answer import DROPPED_MAX
from tallystick.toolsets.memory.write_request import PAYLOAD_BYTES_MAX
from tests.promises import promise
from tests.toolsets.agent import Agent, working


def patch(node_id: str, /, **attrs: Any) -> dict[str, Any]:
    return {"op": "PATCH_NODE", "node": {"id": node_id, "attrs": attrs}}


def upsert(node_id: str, /, **attrs: Any) -> dict[str, Any]:
    return {"op": "UPSERT_NODE", "node": {"id": node_id, "type": "note", "attrs": attrs}}


def link(source: str, rel: str, target: str, /, op: str = "UPSERT_EDGE", **attrs: Any) -> dict[str, Any]:
    return {"op": op, "edge": {"from": source, "rel": rel, "to": target, "attrs": attrs}}


def attrs_of(agent: Agent, entity_id: str) -> Any:
    return agent.read(entity_id)["entity"]["attrs"]


# -- merging


@promise("L18, merge", "a patch merges top-level attributes, and null removes one")
def test_a_patch_merges_top_level_attributes_and_null_removes_one(agent: Agent) -> None:
    agent.node("n", "note", a=1, b={"x": 1, "y": 2}, c="gone")
    agent.write(op="PATCH_NODE", node={"id": "n", "attrs": {"b": {"x": 3}, "c": None, "d": [None]}}, actor="second")
    entity = agent.read("n")["entity"]
    assert entity["attrs"] == {"a": 1, "b": {"x": 3}, "d": [None]}
    assert (entity["type"], entity["created_by"], entity["updated_by"]) == ("note", "agent_alpha", "second")


@promise("L18, replay", "what is committed for a patch is the merged document as an upsert")
def test_what_is_committed_is_the_merged_document_as_an_upsert(agent: Agent) -> None:
    agent.node("n", a=1)
    agent.write(**patch("n", b=2))
    commit = decode(agent.lines()[-1].rstrip(b"\n"))
    assert (commit.operation, commit.document()) == (
        Verb.UPSERT_NODE,
        {"id": "n", "type": "note", "attrs": {"a": 1, "b": 2}},
    )
    assert agent.lineage("n")["lineage"][-1]["changes"] == {"attrs.b": 2}


def test_an_edge_is_patched_by_its_ends_or_by_the_id_it_was_given(agent: Agent) -> None:
    for name in "ab":
        agent.node(name)
    agent.edge("a", "knows", "b", since=1, how="work")
    chosen = {"from": "a", "rel": "paid", "to": "b", "id": "e1", "attrs": {"amount": 1, "currency": "EUR"}}
    agent.write(op="UPSERT_EDGE", edge=chosen)
    agent.write(**link("a", "knows", "b", op="PATCH_EDGE", since=2, how=None))
    agent.write(op="PATCH_EDGE", edge=chosen | {"attrs": {"amount": 2}})
    assert attrs_of(agent, "a|knows|b") == {"since": 2}
    assert attrs_of(agent, "e1") == {"amount": 2, "currency": "EUR"}


ABSENT = [
    patch("nobody", a=1),
    patch("dead", a=1),
    link("a", "hates", "b", op="PATCH_EDGE"),
    link("a", "knows", "nobody", op="PATCH_EDGE"),
    {"op": "PATCH_EDGE", "edge": {"from": "a", "rel": "knows", "to": "b", "id": "e9", "attrs": {}}},
]


@promise("L18, absent", "what is not there cannot be patched")
@pytest.mark.parametrize("call", ABSENT, ids=str)
def test_what_is_not_there_cannot_be_patched(agent: Agent, call: dict[str, Any]) -> None:
    for name in ("a", "b", "dead"):
        agent.node(name)
    agent.edge("a", "knows", "b")
    agent.write(op="DELETE_NODE", node_id="dead")
    said = agent.refusal("memory.write", **call)
    assert said["error"] == "ENTITY_NOT_FOUND"
    kind = call["op"].removeprefix("PATCH_")
    assert said["hint"].startswith(f"PATCH_{kind} changes what is there, UPSERT_{kind} makes it")


def test_a_patch_keeps_the_type(agent: Agent) -> None:
    agent.node("n", "note")
    agent.write(op="PATCH_NODE", node={"id": "n", "type": "note", "attrs": {"a": 1}})
    said = agent.refusal("memory.write", op="PATCH_NODE", node={"id": "n", "type": "memo", "attrs": {}})
    assert said["error"] == "TYPE_DIFFERS"


HOSTILE = (
    "a.b",
    "__proto__",
    "constructor",
    "",
    " ",
    "\u0000",
    "attrs",
    "*0",
    "\u202e",
    "\u00e4",
    "a\u0308",
    "x" * 9_999,
)


def test_any_key_is_merged_and_removed_by_its_exact_name(agent: Agent) -> None:
    agent.node("n", **{key: [key] for key in HOSTILE}, a={"b": "nested"})
    agent.write(**patch("n", **{"a.b": None, "__proto__": {"polluted": True}, "\u00e4": None}))
    left = {key: [key] for key in HOSTILE if key not in ("a.b", "\u00e4")}
    assert attrs_of(agent, "n") == left | {"__proto__": {"polluted": True}, "a": {"b": "nested"}}


def test_ten_thousand_keys_are_merged_one_at_a_time(agent: Agent) -> None:
    agent.node("n", **{f"k{number}": number for number in range(10_000)})
    receipt = agent.write(**patch("n", k9999=None, more=1))
    assert "dropped" not in receipt
    assert len(attrs_of(agent, "n")) == 10_000


NUMBERS = {
    "whole": 1.0, "minus_nought": -0.0, "wide": 1e20, "huge": 1e21, "small": 1e-6, "tiny": 5e-324,
    "most": 1.7976931348623157e308, "integer": 2**53 - 1, "third": 0.1 + 0.2, "nested": [{"x": 1e23}],
}  # fmt: skip


def test_numbers_that_are_not_named_stay_exactly_what_they_were(agent: Agent) -> None:
    agent.node("n", **NUMBERS)
    before = decode(agent.lines()[-1].rstrip(b"\n")).payload
    agent.write(**patch("n", z=1))
    agent.write(**patch("n", z=None))
    assert decode(agent.lines()[-1].rstrip(b"\n")).payload == before


def test_a_merged_document_past_the_limit_is_refused(agent: Agent) -> None:
    agent.node("n", a="x" * 600_000)
    said = agent.refusal("memory.write", **patch("n", b="x" * 600_000))
    assert (said["error"], said["bytes"] > 1_200_000) == ("PAYLOAD_TOO_LARGE", True)


def test_a_patch_brings_nothing_back_that_was_redacted(agent: Agent) -> None:
    agent.node("n", mail="ada@example.org", pin=4, name="Ada")
    agent.write(op="REDACT_NODE", node_id="n", reason="GDPR", redacted_fields=["attrs.mail", "attrs.pin"])
    agent.write(**patch("n", name="A."))
    assert attrs_of(agent, "n") == {"mail": "[REDACTED]", "pin": "[REDACTED]", "name": "A."}
    assert not any(b"example.org" in line for line in agent.lines())
    agent.write(**patch("n", mail="new@example.org", pin=None))
    assert attrs_of(agent, "n") == {"mail": "new@example.org", "name": "A."}


# -- content


def typed(agent: Agent, **more: Any) -> None:
    """As the ontology's tools write it."""
    node = {"id": "m", "type": "Memo", "attrs": {"title": "t", "tier": "x"}, "content": CONTENT, **more}
    other = {"id": "o", "type": "Memo", "attrs": {}}
    edge = {"from": "m", "rel": "Cites", "to": "o", "attrs": {"page": 1}, "id": "conn_1", "content": CONTENT}
    operations = (
        Operation(Verb.UPSERT_NODE, node),
        Operation(Verb.UPSERT_NODE, other),
        Operation(Verb.UPSERT_EDGE, edge),
    )
    agent.run(agent.partition.commit(lambda state: Draft(operations, actor="a", tool="create_node")))


CONTENT = {"format": "markdown", "encoding": "utf-8", "text": "# What we know"}


def test_content_that_stays_does_not_count_towards_the_limit(agent: Agent) -> None:
    typed(agent)
    room = PAYLOAD_BYTES_MAX - len(b'{"attrs":{"text":""},"id":"m","type":"Memo"}')
    node = {"id": "m", "type": "Memo"}
    said = agent.refusal("memory.write", op="UPSERT_NODE", node=node | {"attrs": {"text": "x" * (room + 1)}})
    assert said["error"] == "PAYLOAD_TOO_LARGE"
    agent.write(op="UPSERT_NODE", node=node | {"attrs": {"text": "x" * room}})


@promise("L18, content", "a typed memory keeps its content")
def test_content_is_kept_by_whatever_this_tool_does_to_a_typed_memory(agent: Agent) -> None:
    typed(agent)
    edge = {"from": "m", "rel": "Cites", "to": "o", "id": "conn_1", "attrs": {"page": 2}}
    for call in (
        {"op": "UPSERT_NODE", "node": {"id": "m", "type": "Memo", "attrs": {"title": "u"}}},
        patch("m", tier="y"),
        {"op": "UPSERT_EDGE", "edge": edge},
        {"op": "PATCH_EDGE", "edge": edge},
        {"ops": [patch("m", a=1), {"op": "UPSERT_NODE", "node": {"id": "m", "type": "Memo", "attrs": {}}}]},
    ):
        agent.write(**call, nonce=str(call))
        assert decode(agent.lines()[-1].rstrip(b"\n")).document()["content"] == CONTENT
        assert agent.write(**call, nonce=str(call))["duplicate"] is True


def test_a_memory_that_was_deleted_has_no_content_when_it_is_made_again(agent: Agent) -> None:
    typed(agent)
    agent.write(op="DELETE_NODE", node_id="m")
    agent.write(op="UPSERT_NODE", node={"id": "m", "type": "Memo", "attrs": {}})
    assert "content" not in decode(agent.lines()[-1].rstrip(b"\n")).document()


# -- what goes


@promise("L18, dropped", "an upsert names what it took away")
def test_an_upsert_names_what_it_took_away(agent: Agent) -> None:
    agent.node("n", tier="gold", kept=1, prefs={"theme": "dark", "lang": "en"}, old={"a": 1})
    receipt = agent.node("n", kept=2, prefs={"theme": "light"}, new=1)
    assert sorted(receipt["dropped"]) == ["attrs.old", "attrs.prefs.lang", "attrs.tier"]
    assert "dropped" not in agent.node("n", kept=2, prefs={"theme": "light"}, new=1, more=1)


def test_an_edge_that_is_written_again_without_attributes_says_so(agent: Agent) -> None:
    for name in "ab":
        agent.node(name)
    agent.edge("a", "knows", "b", since=2001)
    receipt = agent.write(op="UPSERT_EDGE", edge={"from": "a", "rel": "knows", "to": "b"})
    assert receipt["dropped"] == ["attrs.since"]


def test_a_patch_names_what_it_took_away_unasked(agent: Agent) -> None:
    agent.node("n", prefs={"theme": "dark", "lang": "en"}, tier="gold")
    receipt = agent.write(**patch("n", prefs={"theme": "light"}, tier=None, none=None))
    assert receipt["dropped"] == ["attrs.prefs.lang"]


def test_a_retry_names_it_again(agent: Agent) -> None:
    agent.node("n", tier="gold", kept=1)
    call = upsert("n", kept=1) | {"nonce": "1"}
    first = agent.write(**call)
    agent.node("n", other=1)
    assert first["dropped"] == ["attrs.tier"]
    assert agent.write(**call) == first | {"duplicate": True}


def test_of_many_that_go_the_first_are_named_and_all_are_counted(agent: Agent) -> None:
    agent.node("n", **{f"k{number}": number for number in range(DROPPED_MAX + 7)})
    receipt = agent.node("n")
    assert (len(receipt["dropped"]), receipt["dropped_total"]) == (DROPPED_MAX, DROPPED_MAX + 7)


# -- conditions


@promise("L18, condition", "a write that did not see the newest commit gets CONFLICT with the current one")
def test_a_write_that_saw_the_newest_commit_goes_through_and_any_other_is_told_the_current_one(agent: Agent) -> None:
    seen = agent.node("n", a=1)["commit_id"]
    newest = agent.write(**patch("n", a=2), if_commit=seen)["commit_id"]
    for call in (patch("n", a=3), upsert("n", a=3), {"op": "DELETE_NODE", "node_id": "n"}):
        said = agent.refusal("memory.write", **call, if_commit=seen)
        assert (said["error"], said["entity_id"], said["current_commit_id"]) == ("CONFLICT", "n", newest)
        assert newest in said["message"]
    agent.write(**upsert("n", a=3), if_commit=newest[:12])
    assert attrs_of(agent, "n") == {"a": 3}


def test_the_commit_of_an_edge_is_the_one_that_reading_it_shows(agent: Agent) -> None:
    for name in "ab":
        agent.node(name)
    agent.edge("a", "knows", "b", since=1)
    seen = agent.read("a|knows|b")["provenance"]["commit_id"]
    agent.write(**link("a", "knows", "b", op="PATCH_EDGE", since=2), if_commit=seen[:12])
    for call in (
        link("a", "knows", "b", since=3),
        link("a", "knows", "b", op="PATCH_EDGE", since=3),
        {"op": "DELETE_EDGE", "edge_id": "a|knows|b"},
    ):
        said = agent.refusal("memory.write", **call, if_commit=seen)
        assert said["current_commit_id"] == agent.read("a|knows|b")["provenance"]["commit_id"]


def test_what_is_not_there_is_at_no_commit(agent: Agent) -> None:
    first = agent.node("n")["commit_id"]
    agent.write(op="DELETE_NODE", node_id="n")
    for call in (upsert("n"), upsert("new"), patch("n"), {"op": "DELETE_NODE", "node_id": "n"}):
        said = agent.refusal("memory.write", **call, if_commit=first)
        assert (said["error"], said["current_commit_id"]) == ("CONFLICT", None)


def test_a_redaction_is_a_commit_that_a_condition_has_to_have_seen(agent: Agent) -> None:
    seen = agent.node("n", mail="x@y")["commit_id"]
    redaction = agent.write(op="REDACT_NODE", node_id="n", reason="GDPR")["commit_id"]
    assert agent.refusal("memory.write", **patch("n", a=1), if_commit=seen)["current_commit_id"] == redaction


def test_of_racers_that_saw_the_same_commit_one_writes_and_the_others_are_told(agent: Agent) -> None:
    seen = agent.node("n", count=0)["commit_id"]
    outcomes: list[Any] = []

    async def race() -> None:
        tool = TOOLSET.tools[0]
        calls = [prepare(tool, patch("n", **{f"by{number}": 1}) | {"if_commit": seen}) for number in range(8)]
        asked = (tool.call(agent.store, agent.principal, each) for each in calls)
        outcomes.extend(await asyncio.gather(*asked, return_exceptions=True))

    agent.run(race())
    refused = [each for each in outcomes if isinstance(each, TallystickError)]
    assert [each.code for each in refused] == ["CONFLICT"] * 7
    assert len(attrs_of(agent, "n")) == 2


# -- the request that a nonce stands for

RETRIED: list[dict[str, Any]] = [
    patch("n", a=2),
    patch("n", a=2) | {"if_commit": "SEEN"},
    upsert("n", b=1) | {"if_commit": "SEEN"},
    {"op": "DELETE_NODE", "node_id": "n", "if_commit": "SEEN"},
    {"ops": [patch("n", a=2), upsert("m"), link("n", "to", "m")]},
    {"ops": [upsert("m"), {"op": "DELETE_NODE", "node_id": "n", "if_commit": "SEEN"}]},
    {"ops": [{"op": "REDACT_NODE", "node_id": "n", "reason": "GDPR"}]},
]


def seen(value: Any, commit: str) -> Any:
    if isinstance(value, list):
        return [seen(each, commit) for each in value]
    if isinstance(value, dict):
        return {key: seen(each, commit) for key, each in value.items()}
    return commit if value == "SEEN" else value


@promise("L18, nonce", "a nonce is compared with the request as sent, before any condition")
@pytest.mark.parametrize("call", RETRIED, ids=str)
def test_a_retry_is_known_by_its_request_before_any_condition(agent: Agent, call: dict[str, Any]) -> None:
    call = seen(call, agent.node("n", a=1, old=1)["commit_id"]) | {"nonce": "1"}
    first = agent.write(**call)
    agent.node("elsewhere")
    agent.node("n", entirely="different")
    head = agent.log.head()
    assert agent.write(**call, run_context={"run_id": "another"}) == first | {"duplicate": True}
    assert agent.log.head() == head


@pytest.mark.parametrize("call", RETRIED, ids=str)
def test_a_nonce_stands_for_one_request(agent: Agent, call: dict[str, Any]) -> None:
    commit = agent.node("n", a=1)["commit_id"]
    agent.write(**seen(call, commit), nonce="1")
    others = [patch("n", a=3), patch("n", a=2, b=None), patch("n", a=2, b={"c": None}), {"ops": [patch("n", a=2)]}]
    for other in [*RETRIED, *others, upsert("n", a=1)]:
        if other != call:
            said = agent.refusal("memory.write", **seen(other, commit), nonce="1")
            assert said["error"] == "NONCE_REUSED", other


def test_a_plain_write_and_a_conditional_one_are_two_requests(agent: Agent) -> None:
    commit = agent.node("n", a=1)["commit_id"]
    agent.write(**upsert("n", a=2), nonce="1")
    said = agent.refusal("memory.write", **upsert("n", a=2), if_commit=commit, nonce="1")
    assert said["error"] == "NONCE_REUSED"


def test_only_what_its_payload_does_not_tell_keeps_the_hash_of_a_request(agent: Agent) -> None:
    agent.write(**upsert("n", a=1), nonce="1")
    agent.write(**patch("n", b=1))
    agent.write(**patch("n", b=2), nonce="2")
    kept = [decode(line.rstrip(b"\n")).request is not None for line in agent.lines()]
    assert kept == [False, False, True]


# -- several at once


def test_several_operations_are_one_batch_in_their_order(agent: Agent) -> None:
    receipt = agent.write(
        ops=[upsert("a", x=1), upsert("b"), link("a", "knows", "b"), patch("a", y=2), link("a", "is", "a")],
        reason="moving in",
    )
    first = receipt["lamport"] - 4
    assert receipt["batch"] == {"commits": 5, "first_lamport": first}
    assert [each["lamport"] for each in receipt["results"]] == list(range(first, first + 5))
    assert receipt["results"][-1]["commit_id"] == receipt["commit_id"]
    assert attrs_of(agent, "a") == {"x": 1, "y": 2}
    steps = agent.lineage("a", depth="full")["lineage"]
    assert [step["operation"] for step in steps] == ["CREATE_NODE", "CREATE_EDGE", "UPDATE_NODE", "CREATE_EDGE"]
    assert {step["reason"] for step in steps} == {"moving in"}


def test_each_operation_may_have_a_reason_of_its_own(agent: Agent) -> None:
    agent.node("p", mail="x@y")
    agent.write(
        ops=[upsert("a") | {"reason": "new"}, upsert("b"), {"op": "REDACT_NODE", "node_id": "p"}], reason="clean-up"
    )
    assert [agent.lineage(name)["lineage"][-1]["reason"] for name in "abp"] == ["new", "clean-up", "clean-up"]


def test_each_operation_says_what_it_dropped(agent: Agent) -> None:
    agent.node("n", a=1, b=2)
    results = agent.write(ops=[upsert("n", a=1), upsert("m"), upsert("n")])["results"]
    assert [each.get("dropped") for each in results] == [["attrs.b"], None, ["attrs.a"]]


def test_a_node_that_is_deleted_takes_the_edges_that_the_same_call_made(agent: Agent) -> None:
    for name in "ab":
        agent.node(name)
    agent.edge("a", "old", "b")
    receipt = agent.write(ops=[link("a", "new", "b"), {"op": "DELETE_NODE", "node_id": "b"}, upsert("b", again=1)])
    assert receipt["batch"]["commits"] == 5
    assert agent.read("a", include_edges=True)["edges"] == []
    assert attrs_of(agent, "b") == {"again": 1}


REFUSED: list[tuple[list[dict[str, Any]], str, str]] = [
    ([upsert("x"), link("x", "to", "nowhere")], "ENTITY_NOT_FOUND", "ops[1]"),
    ([link("a", "to", "x"), upsert("x")], "ENTITY_NOT_FOUND", "ops[0]"),
    ([{"op": "DELETE_NODE", "node_id": "b"}, link("a", "to", "b")], "ENTITY_NOT_FOUND", "ops[1]"),
    ([{"op": "DELETE_NODE", "node_id": "b"}, patch("b", x=1)], "ENTITY_NOT_FOUND", "ops[1]"),
    ([{"op": "DELETE_NODE", "node_id": "b"}] * 2, "ENTITY_NOT_FOUND", "ops[1]"),
    ([{"op": "DELETE_EDGE", "edge_id": "a|knows|b"}] * 2, "ENTITY_NOT_FOUND", "ops[1]"),
    ([upsert("x"), patch("a", x=1) | {"if_commit": "0" * 64}], "CONFLICT", "ops[1]"),
    ([upsert("x"), {"op": "PATCH_NODE", "node": {"id": "x", "type": "memo", "attrs": {}}}], "TYPE_DIFFERS", "ops[1]"),
    ([upsert("x"), upsert("y", big=2**53)], "INVALID_ARGUMENT", "ops[1]"),
    ([upsert("x"), {"op": "UPSERT_NODE", "node": {"id": "y", "type": "work/node", "attrs": {}}}], "RESERVED_TYPE",
     "ops[1]"),
    ([{"op": "UPSERT_EDGE", "edge": {"from": "a", "rel": "r", "to": "b", "id": "e"}},
      {"op": "UPSERT_EDGE", "edge": {"from": "b", "rel": "r", "to": "a", "id": "e"}}], "EDGE_ID_TAKEN", "ops[1]"),
    ([upsert("x"), {"op": "UPSERT_NODE", "node": {"id": "ontology/x", "type": "ontology/x", "attrs": {}}}],
     "INVALID_ARGUMENT", "ops[1]"),
    ([upsert("a"), {"op": "REDACT_NODE", "node_id": "a", "reason": "x"}], "INVALID_ARGUMENT", "ops[1]"),
    ([{"op": "REDACT_NODE", "node_id": "a", "reason": "x"}, upsert("a")], "INVALID_ARGUMENT", "ops[1]"),
    ([link("a", "sees", "b"), {"op": "REDACT_NODE", "node_id": "a", "reason": "x"}], "INVALID_ARGUMENT", "ops[1]"),
    ([{"op": "REDACT_NODE", "node_id": "a", "reason": "x"}] * 2, "INVALID_ARGUMENT", "ops[1]"),
    ([upsert("x"), {"op": "DELETE_NODE", "node_id": "x"}, {"op": "REDACT_NODE", "node_id": "x", "reason": "x"}],
     "INVALID_ARGUMENT", "ops[2]"),
]  # fmt: skip


@pytest.mark.parametrize(("ops", "code", "at"), REFUSED, ids=[f"{code} {ops}"[:90] for ops, code, _ in REFUSED])
def test_one_refusal_refuses_all_and_is_named(agent: Agent, ops: list[dict[str, Any]], code: str, at: str) -> None:
    for name in "ab":
        agent.node(name)
    agent.edge("a", "knows", "b")
    said = agent.refusal("memory.write", ops=ops, nonce="1")
    assert (said["error"], said["at"], said["message"].startswith(f"{at}: ")) == (code, at, True)
    assert agent.read("x")["entity"] is None


FAULTS: list[tuple[dict[str, Any], list[str]]] = [
    ({"ops": []}, ["field 'ops' must have at least 1 item, not 0"]),
    ({"ops": [upsert("a"), {"op": "UPSERT_NODE", "node": {"id": "n", "attrs": {}}}]},
     ["field 'ops[1].node.type' is required"]),
    ({"ops": [{"op": "PATCH_NODE", "node": {"id": "n"}}, {"op": "DELETE_EDGE"}]},
     ["field 'ops[0].node.attrs' is required", "field 'ops[1].edge' or 'ops[1].edge_id' is required"]),
    ({"ops": [{"op": "PATCH_EDGE", "edge": {"from": "a", "rel": "r", "to": "b"}}]},
     ["field 'ops[0].edge.attrs' is required"]),
    ({"ops": [{"node": {"id": "n", "attrs": {}}}]}, ["field 'ops[0].op' is required"]),
    ({"ops": [upsert("a") | {"nonce": "x"}]}, ["field 'ops[0].nonce' is not allowed"]),
    ({"ops": [{"op": "REDACT_NODE", "node_id": "n"}]}, ["field 'ops[0].reason' is required"]),
    ({"ops": [{"ops": [upsert("a")], "op": "UPSERT_NODE"}]},
     ["field 'ops[0].ops' is not allowed", "field 'ops[0].node' is required"]),
    ({"node": {"id": "n", "type": "t", "attrs": {}}}, ["field 'op' is required"]),
]  # fmt: skip


@pytest.mark.parametrize(("call", "problems"), FAULTS, ids=[str(call)[:80] for call, _ in FAULTS])
def test_every_fault_names_its_operation(agent: Agent, call: dict[str, Any], problems: list[str]) -> None:
    assert agent.refusal("memory.write", **call)["validation_errors"] == problems


def test_several_people_are_forgotten_at_once_with_the_edges_between_them(agent: Agent) -> None:
    for name in "abc":
        agent.node(name, mail=f"{name}@example.org")
    agent.edge("a", "knows", "b", note="met alice")
    agent.edge("b", "knows", "c", note="met alice")
    receipt = agent.write(
        ops=[
            {"op": "REDACT_NODE", "node_id": "a"},
            {"op": "DELETE_NODE", "node_id": "b"},
            {"op": "REDACT_NODE", "node_id": "b"},
            upsert("d"),
        ],
        reason="GDPR",
    )
    assert [each.get("redacted_commits") for each in receipt["results"]] == [1, None, 1, None]
    assert not any(b"alice" in line or b"a@example" in line or b"b@example" in line for line in agent.lines())
    assert attrs_of(agent, "c") == {"mail": "c@example.org"}


# -- who may


class ByName:
    """Keeps what it was asked. What begins with s_ may not be read, what begins with r_ not be written, nothing
    deleted but d_."""

    def __init__(self) -> None:
        self.requests: list[tuple[Action, str | None]] = []

    def decide(self, request: Request) -> Decision:
        self.requests.append((request.action, request.resource))
        name = request.resource or ""
        allowed = {
            Action.READ: not name.startswith("s_"),
            Action.WRITE: not name.startswith("r_"),
            Action.DELETE: name.startswith("d_"),
            Action.SEARCH: True,
        }[request.action]
        return Decision(allowed, "so it is", "v1")


@promise("L18, several, who may", "each of several operations is authorised for itself")
def test_each_operation_is_asked_about_by_itself() -> None:
    policy = ByName()
    with working(policy) as agent:
        agent.node("d_old")
        policy.requests.clear()
        agent.write(ops=[upsert("a"), upsert("b"), {"op": "DELETE_NODE", "node_id": "d_old"}])
        assert set(policy.requests) >= {(Action.WRITE, "a"), (Action.WRITE, "b"), (Action.DELETE, "d_old")}
        agent.node("kept")
        for denied in (upsert("r_x"), {"op": "DELETE_NODE", "node_id": "kept"}):
            for ops, at in (([upsert("c"), denied], "ops[1]"), ([denied, upsert("c")], "ops[0]")):
                said = agent.refusal("memory.write", ops=ops)
                assert (said["error"], said["at"]) == ("AUTHORIZATION_DENIED", at)


class OwnersOnly:
    def decide(self, request: Request) -> Decision:
        mine = request.resource_owner == request.principal.actor
        return Decision(mine or request.action is Action.WRITE, "so it is", "v1")


def test_what_a_call_makes_is_its_authors() -> None:
    with working(OwnersOnly()) as agent:
        agent.write(ops=[upsert("a"), upsert("b"), patch("a", x=1), {"op": "DELETE_NODE", "node_id": "b"}])
        assert attrs_of(agent, "a") == {"x": 1}
        agent.write(op="UPSERT_NODE", node={"id": "theirs", "type": "note", "attrs": {}}, actor="other")
        said = agent.refusal("memory.write", ops=[upsert("theirs"), {"op": "DELETE_NODE", "node_id": "theirs"}])
        assert (said["error"], said["at"]) == ("AUTHORIZATION_DENIED", "ops[1]")


def test_what_may_not_be_read_is_patched_and_compared_as_if_it_were_not_there() -> None:
    with working(ByName()) as agent:
        commit = agent.node("s_secret", tier="gold")["commit_id"]
        for entity in ("s_secret", "s_none"):
            told = agent.refusal("memory.write", **patch(entity, a=1))
            assert told == {
                "error": "ENTITY_NOT_FOUND",
                "message": f"no node '{entity}'",
                "hint": "PATCH_NODE changes what is there, UPSERT_NODE makes it",
            }
            for call in (upsert(entity), {"op": "PATCH_NODE", "node": {"id": entity, "type": "x", "attrs": {}}}):
                said = agent.refusal("memory.write", **call, if_commit=commit)
                assert (said["error"], said["current_commit_id"]) == ("CONFLICT", None)
                several = agent.refusal("memory.write", ops=[upsert("a"), call | {"if_commit": commit}])
                assert (several["error"], several["current_commit_id"]) == ("CONFLICT", None)


@promise("L18, read", "dropped and similar name only what READ allows")
def test_what_may_not_be_read_is_overwritten_without_a_word_of_what_it_said() -> None:
    with working(ByName()) as agent:
        agent.node("s_secret", tier="gold")
        assert "dropped" not in agent.node("s_secret", other=1)
        results = agent.write(ops=[upsert("a", x=1), upsert("s_secret"), upsert("a")], nonce="1")["results"]
        assert [each.get("dropped") for each in results] == [None, None, ["attrs.x"]]
        again = agent.write(ops=[upsert("a", x=1), upsert("s_secret"), upsert("a")], nonce="1")["results"]
        assert again == results


def test_an_edge_may_name_a_node_that_its_author_just_made_and_may_not_read() -> None:
    with working(ByName()) as agent:
        agent.write(ops=[upsert("a"), upsert("s_new"), link("a", "to", "s_new")])
        agent.node("s_old")
        said = agent.refusal("memory.write", ops=[upsert("a"), upsert("s_old"), link("a", "to", "s_old")])
        assert (said["error"], said["at"], said["missing"]) == ("ENTITY_NOT_FOUND", "ops[2]", ["s_old"])


# -- other vocabularies


def test_what_another_vocabulary_rules_is_patched_in_what_says_how_long_it_holds_alone(agent: Agent) -> None:
    work = Operation(Verb.UPSERT_NODE, {"id": "w", "type": "work/node", "attrs": {"summary": "plan"}})
    agent.run(agent.partition.commit(lambda state: Draft((work,), actor="planner", tool="graph_plan")))
    for refused in (patch("w", summary="mine"), patch("w", cites=[], summary="mine"), patch("w")):
        assert agent.refusal("memory.write", **refused)["error"] == "RESERVED_TYPE"
