"""memory.write: every operation, idempotency, batches, edge ids, redaction, and all that is refused."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec
import pytest
import rfc8785

from tallystick.commits import Draft, Operation, Verb
from tallystick.commits.chain import commit_id, content_hash
from tallystick.errors import InvalidArgument
from tallystick.policy import Action, Decision, Principal, Request
from tallystick.toolsets.memory.arguments import NodeArgument, WriteArguments
from tallystick.toolsets.memory.write import write
from tallystick.toolsets.memory.write_request import PAYLOAD_BYTES_MAX
from tests.promises import promise
from tests.toolsets.agent import Agent, working

PLAN = {
    "id": "task_001",
    "type": "research_plan",
    "attrs": {
        "topic": "quantum computing trends",
        "subtasks": ["search_papers", "summarize_findings", "draft_report"],
    },
}


@promise("scenario 1", "one agent writes a plan, another reads it with its provenance")
@promise("L15", "a write is answered with its commit")
def test_a_planner_writes_a_plan_and_a_searcher_reads_it_with_its_provenance(agent: Agent) -> None:
    receipt = agent.write(op="UPSERT_NODE", node=PLAN, nonce="abc123", actor="planner_agent")
    assert receipt == {
        "commit_id": commit_id(PLAN, 1, "planner_agent", "UPSERT_NODE"),
        "lamport": 1,
        "timestamp": "2025-01-04T12:00:00.000Z",
        "content_hash": content_hash(PLAN),
        "prev": None,
        "duplicate": False,
    }
    found = agent.call("memory.read", filters={"type": "research_plan", "id": "task_001"})
    assert found["entity"] == PLAN | {"created_by": "planner_agent", "updated_by": "planner_agent"}
    assert found["provenance"]["commit_id"] == receipt["commit_id"]
    assert found["provenance"]["created_by"] == "planner_agent"
    assert found["provenance"]["timestamp"] == receipt["timestamp"]


@promise("TC-002-01", "equal payloads have one hash, whatever the order of their keys")
def test_equal_payloads_have_one_content_hash_that_anyone_can_compute(agent: Agent) -> None:
    first = agent.write(op="UPSERT_NODE", node={"id": "test", "type": "foo", "attrs": {"x": 1, "y": 2}})
    second = agent.write(op="UPSERT_NODE", node={"id": "test", "attrs": {"y": 2, "x": 1}, "type": "foo"}, actor="other")
    assert first["content_hash"] == second["content_hash"]
    canonical = rfc8785.dumps({"id": "test", "type": "foo", "attrs": {"x": 1, "y": 2}})
    assert first["content_hash"] == sha256(canonical).hexdigest()
    assert second["commit_id"] == sha256(canonical + b"2" + b"other" + b"UPSERT_NODE").hexdigest()


@promise("FR-002, chain", "each commit names the one before")
def test_each_commit_names_the_one_before(agent: Agent) -> None:
    receipts = [agent.node(f"n{number}") for number in range(3)]
    assert [receipt["prev"] for receipt in receipts] == [None, receipts[0]["commit_id"], receipts[1]["commit_id"]]


@promise("TC-002-02", "a write after an observed foreign commit has a later lamport")
def test_a_write_after_a_foreign_commit_was_observed_comes_later(agent: Agent) -> None:
    agent.node("before")
    agent.partition.observe(10)
    assert agent.node("after")["lamport"] >= 11


# -- nonces


def everything(agent: Agent) -> dict[str, dict[str, Any]]:
    """A call of each kind that would succeed now."""
    for name in ("a", "b", "c", "d"):
        agent.node(name, name=name)
    agent.edge("a", "knows", "b")
    agent.edge("b", "knows", "a")
    agent.write(op="UPSERT_EDGE", edge={"from": "a", "rel": "likes", "to": "b", "id": "chosen"})
    agent.edge("c", "knows", "d")
    return {
        "upsert node": {"op": "UPSERT_NODE", "node": {"id": "e", "type": "note", "attrs": {"x": 1}}},
        "upsert edge": {"op": "UPSERT_EDGE", "edge": {"from": "a", "rel": "sees", "to": "c"}},
        "upsert edge that has an id": {"op": "UPSERT_EDGE", "edge": {"from": "a", "rel": "likes", "to": "b"}},
        "delete edge by name": {"op": "DELETE_EDGE", "edge": {"from": "a", "rel": "knows", "to": "b"}},
        "delete edge by made id": {"op": "DELETE_EDGE", "edge_id": "b|knows|a"},
        "delete edge by chosen id": {"op": "DELETE_EDGE", "edge_id": "chosen"},
        "redact node": {"op": "REDACT_NODE", "node_id": "d", "reason": "GDPR", "redacted_fields": ["attrs.name"]},
        "redact edge by name": {"op": "REDACT_EDGE", "edge": {"from": "c", "rel": "knows", "to": "d"}, "reason": "x"},
        "redact edge by chosen id": {"op": "REDACT_EDGE", "edge_id": "chosen", "reason": "GDPR"},
        "redact node and its edges": {"op": "REDACT_NODE", "node_id": "d", "reason": "GDPR"},
        "delete node": {"op": "DELETE_NODE", "node_id": "c"},
    }


@promise("scenario 1, retry", "a repeated write with its nonce is answered with the first commit")
def test_a_retry_with_its_nonce_is_answered_with_the_first_commit_and_writes_nothing(agent: Agent) -> None:
    for name, call in everything(agent).items():
        first = agent.write(**call, nonce=name)
        assert first["duplicate"] is False
        head = agent.log.head()
        assert agent.write(**call, nonce=name) == first | {"duplicate": True}, name
        assert agent.log.head() == head, name


@promise("L2", "a nonce used for something else is refused")
def test_a_nonce_used_for_something_else_is_refused(agent: Agent) -> None:
    calls = everything(agent)
    for name, call in calls.items():
        agent.write(**call, nonce=name)
    for name in calls:
        for other, call in calls.items():
            if other != name:
                said = agent.refusal("memory.write", **call, nonce=name)
                assert (said["error"], len(said["commit_id"])) == ("NONCE_REUSED", 64), (name, other)
    changed = {"op": "UPSERT_NODE", "node": {"id": "e", "type": "note", "attrs": {"x": 2}}, "nonce": "upsert node"}
    assert agent.refusal("memory.write", **changed)["error"] == "NONCE_REUSED"


def test_a_nonce_belongs_to_its_actor(agent: Agent) -> None:
    one = agent.write(op="UPSERT_NODE", node=PLAN, nonce="n", actor="one")
    two = agent.write(op="UPSERT_NODE", node=PLAN | {"type": "other"}, nonce="n", actor="two")
    assert two["lamport"] == one["lamport"] + 1


@promise("TC-002-03", "two equal writes with one nonce make one commit")
def test_racing_retries_become_one_commit(agent: Agent) -> None:
    receipts = agent.together("memory.write", [{"op": "UPSERT_NODE", "node": PLAN, "nonce": "n"}] * 8)
    assert len({receipt["commit_id"] for receipt in receipts}) == 1
    assert sum(not receipt["duplicate"] for receipt in receipts) == 1
    assert agent.log.head().count == 1


# -- nodes and edges


@promise("L18", "an upsert replaces the whole document")
def test_an_upsert_replaces_the_whole_node_and_keeps_who_made_it(agent: Agent) -> None:
    agent.write(op="UPSERT_NODE", node={"id": "n", "type": "note", "attrs": {"a": 1, "b": 2}}, actor="first")
    agent.write(op="UPSERT_NODE", node={"id": "n", "type": "memo", "attrs": {"b": 3}}, actor="second")
    assert agent.read("n")["entity"] == {
        "id": "n",
        "type": "memo",
        "attrs": {"b": 3},
        "created_by": "first",
        "updated_by": "second",
    }


@promise("L20", "an edge to nowhere is refused")
def test_an_edge_to_nowhere_names_what_is_missing(agent: Agent) -> None:
    agent.node("here")
    for source, target, missing in (("here", "x", ["x"]), ("x", "here", ["x"]), ("x", "y", ["x", "y"])):
        edge = {"from": source, "rel": "knows", "to": target}
        said = agent.refusal("memory.write", op="UPSERT_EDGE", edge=edge)
        assert (said["error"], said["missing"]) == ("ENTITY_NOT_FOUND", missing)
        assert all(f"'{name}'" in said["message"] for name in missing)


def test_an_edge_cannot_end_in_a_deleted_node(agent: Agent) -> None:
    agent.node("a")
    agent.node("b")
    agent.write(op="DELETE_NODE", node_id="b")
    said = agent.refusal("memory.write", op="UPSERT_EDGE", edge={"from": "a", "rel": "knows", "to": "b"})
    assert said["missing"] == ["b"]


@promise("L17", "an upsert on the same triple updates the edge")
def test_an_upsert_on_the_same_triple_updates_the_edge(agent: Agent) -> None:
    agent.node("a")
    agent.node("b")
    agent.edge("a", "knows", "b", since=1)
    agent.edge("a", "knows", "b", since=2)
    assert agent.read("a|knows|b")["entity"]["attrs"] == {"since": 2}
    assert len(agent.read("a", include_edges=True)["edges"]) == 1


def test_edges_with_ids_of_their_own_may_join_the_same_nodes(agent: Agent) -> None:
    agent.node("a")
    agent.node("b")
    agent.edge("a", "paid", "b", amount=0)
    for number in (1, 2):
        edge = {"from": "a", "rel": "paid", "to": "b", "id": f"e{number}", "attrs": {"amount": number}}
        agent.write(op="UPSERT_EDGE", edge=edge)
    amounts = [edge["attrs"]["amount"] for edge in agent.read("a", include_edges=True)["edges"]]
    assert amounts == [0, 1, 2]
    agent.write(op="DELETE_EDGE", edge_id="e1")
    agent.write(op="DELETE_EDGE", edge={"from": "a", "rel": "paid", "to": "b"})
    assert [edge["id"] for edge in agent.read("a", include_edges=True)["edges"]] == ["e2"]
    agent.write(op="DELETE_NODE", node_id="a")
    assert agent.read("e2")["entity"] is None


def test_an_edge_id_names_one_edge_for_good(agent: Agent) -> None:
    agent.node("a")
    agent.node("b")
    agent.write(op="UPSERT_EDGE", edge={"from": "a", "rel": "knows", "to": "b", "id": "e1"})
    elsewhere = {"from": "b", "rel": "knows", "to": "a", "id": "e1"}
    assert agent.refusal("memory.write", op="UPSERT_EDGE", edge=elsewhere)["error"] == "EDGE_ID_TAKEN"
    agent.write(op="DELETE_EDGE", edge_id="e1")
    assert agent.refusal("memory.write", op="UPSERT_EDGE", edge=elsewhere)["error"] == "EDGE_ID_TAKEN"
    agent.write(op="UPSERT_EDGE", edge={"from": "a", "rel": "knows", "to": "b", "id": "e1"})
    assert agent.read("e1")["entity"]["from"] == "a"


def test_a_node_and_an_edge_never_share_an_id(agent: Agent) -> None:
    for name in ("a", "b", "n", "a|likes|b"):
        agent.node(name)
    agent.write(op="DELETE_NODE", node_id="n")
    for named in ({"id": "a", "rel": "knows"}, {"id": "n", "rel": "knows"}, {"rel": "likes"}):
        refused = agent.refusal("memory.write", op="UPSERT_EDGE", edge={"from": "a", "to": "b", **named})
        assert refused["error"] == "EDGE_ID_TAKEN"
    agent.edge("a", "knows", "b")
    agent.write(op="UPSERT_EDGE", edge={"from": "a", "rel": "paid", "to": "b", "id": "e1"})
    agent.write(op="DELETE_EDGE", edge_id="e1")
    for node_id in ("a|knows|b", "e1"):
        node: dict[str, Any] = {"id": node_id, "type": "note", "attrs": {}}
        assert agent.refusal("memory.write", op="UPSERT_NODE", node=node)["error"] == "ID_TAKEN"
    both = [
        {"op": "UPSERT_NODE", "node": {"id": "new", "type": "note", "attrs": {}}},
        {"op": "UPSERT_EDGE", "edge": {"from": "a", "rel": "knows", "to": "b", "id": "new"}},
    ]
    for ops in (both, both[::-1]):
        assert agent.refusal("memory.write", ops=ops)["error"] in ("ID_TAKEN", "EDGE_ID_TAKEN")


class OwnersDelete:
    def decide(self, request: Request) -> Decision:
        allowed = request.action is not Action.DELETE or request.resource_owner == request.principal.actor
        return Decision(allowed, "owners delete", "1")


def test_nobody_comes_by_an_edge_by_calling_a_node_of_theirs_like_it() -> None:
    with working(OwnersDelete()) as agent:
        agent.node("a")
        agent.node("b")
        agent.edge("a", "knows", "b")
        agent.principal = Principal(actor="mallory")
        node = {"id": "a|knows|b", "type": "note", "attrs": {}}
        assert agent.refusal("memory.write", op="UPSERT_NODE", node=node)["error"] == "ID_TAKEN"
        deletion = {"op": "DELETE_EDGE", "edge": {"from": "a", "rel": "knows", "to": "b"}}
        assert agent.refusal("memory.write", **deletion)["error"] == "AUTHORIZATION_DENIED"


@pytest.mark.parametrize("op", ["DELETE_EDGE", "REDACT_EDGE"])
def test_nor_where_another_vocabulary_or_an_earlier_build_let_them_share_an_id(op: str) -> None:
    with working(OwnersDelete()) as agent:
        agent.node("a")
        agent.node("b")
        edge = Operation(Verb.UPSERT_EDGE, {"from": "a", "rel": "knows", "to": "b", "attrs": {"since": 1}})
        node = Operation(Verb.UPSERT_NODE, {"id": "a|knows|b", "type": "note", "attrs": {}})
        agent.run(agent.partition.commit(lambda state: Draft((edge,), actor="alice", tool="memory.write")))
        agent.run(agent.partition.commit(lambda state: Draft((node,), actor="mallory", tool="memory.write")))
        agent.principal = Principal(actor="mallory")
        for named in ({"edge_id": "a|knows|b"}, {"edge": {"from": "a", "rel": "knows", "to": "b"}}):
            assert agent.refusal("memory.write", op=op, reason="why", **named)["error"] == "AUTHORIZATION_DENIED"
        agent.write(op="DELETE_NODE", node_id="a|knows|b")
        agent.principal = Principal(actor="alice")
        agent.write(op=op, reason="why", edge_id="a|knows|b")


@promise("L20, batch", "a node's edges are deleted before it, in one batch")
def test_deleting_a_node_deletes_its_edges_first_in_the_same_batch(agent: Agent) -> None:
    for name in ("a", "b"):
        agent.node(name)
    agent.edge("a", "knows", "b")
    agent.edge("b", "knows", "a")
    agent.edge("a", "is", "a")
    receipt = agent.write(op="DELETE_NODE", node_id="a")
    assert receipt["batch"] == {"commits": 4, "first_lamport": receipt["lamport"] - 3}
    assert [step["operation"] for step in agent.lineage("a", depth="full")["lineage"]][-4:] == [
        "DELETE_EDGE",
        "DELETE_EDGE",
        "DELETE_EDGE",
        "DELETE_NODE",
    ]
    assert agent.read("a")["entity"] is None
    assert agent.read("b", include_edges=True)["edges"] == []


MISSING = [
    {"op": "DELETE_NODE", "node_id": "nobody"},
    {"op": "DELETE_EDGE", "edge": {"from": "nobody", "rel": "knows", "to": "none"}},
    {"op": "DELETE_EDGE", "edge_id": "nothing"},
    {"op": "DELETE_EDGE", "edge_id": "no|such|edge"},
    {"op": "REDACT_NODE", "node_id": "nobody", "reason": "GDPR"},
]


@promise("L20, missing", "what is not there cannot be deleted")
@pytest.mark.parametrize("call", MISSING, ids=lambda call: f"{call['op']} {list(call)[1]}")
def test_what_is_not_there_cannot_be_deleted(agent: Agent, call: dict[str, Any]) -> None:
    assert agent.refusal("memory.write", **call)["error"] == "ENTITY_NOT_FOUND"
    assert agent.refusal("memory.write", **call, nonce="n")["error"] == "ENTITY_NOT_FOUND"


# -- redaction


@promise("6.1, erasure", "redaction leaves no byte of the named fields in the log")
def test_redaction_leaves_no_byte_of_the_named_fields_in_the_log(agent: Agent) -> None:
    first = agent.node("p", "user", email="alice@old.example", name="Alice")
    agent.node("p", "user", email="alice@new.example", name="Alice")
    receipt = agent.write(
        op="REDACT_NODE",
        node_id="p",
        reason="GDPR_RIGHT_TO_ERASURE",
        original_commit_id=first["commit_id"],
        redacted_fields=["attrs.email"],
    )
    assert receipt["redacted_commits"] == 2
    assert not any(b"example" in line for line in agent.lines())
    entity = agent.read("p")["entity"]
    assert entity["attrs"] == {"email": "[REDACTED]", "name": "Alice"}
    steps = agent.lineage("p")["lineage"]
    assert [step["operation"] for step in steps] == ["CREATE_NODE", "UPDATE_NODE", "REDACT_NODE"]
    assert steps[2]["reason"] == "GDPR_RIGHT_TO_ERASURE"
    assert steps[2]["redacted_fields"] == ["attrs.email"]
    assert steps[0]["content_hash"] == first["content_hash"]


@promise("L51", "redaction without fields forgets all attributes, of deleted nodes too")
def test_a_redaction_without_fields_forgets_all_attributes_of_a_deleted_node_too(agent: Agent) -> None:
    agent.node("p", "user", email="alice@example.org", nested={"phone": "555-1234"})
    agent.write(op="DELETE_NODE", node_id="p")
    agent.write(op="REDACT_NODE", node_id="p", reason="GDPR")
    assert not any(b"alice" in line or b"555" in line for line in agent.lines())
    assert agent.read("p")["entity"] is None
    assert agent.lineage("p")["entity"]["current_state"] is None


@promise("L51, L17, edges", "what an edge says is redacted like what a node says, in every version")
def test_redaction_of_an_edge_leaves_no_byte_of_the_named_fields_in_the_log(agent: Agent) -> None:
    for name in ("p", "q"):
        agent.node(name)
    ends = {"from": "p", "rel": "knows", "to": "q"}
    first = agent.write(op="UPSERT_EDGE", edge={**ends, "attrs": {"note": "alice@old.example", "since": 2001}})
    agent.write(op="UPSERT_EDGE", edge={**ends, "attrs": {"note": "alice@new.example", "since": 2002}})
    asked = {"op": "REDACT_EDGE", "reason": "GDPR", "redacted_fields": ["attrs.note"]}
    receipt = agent.write(**asked, edge=ends, original_commit_id=first["commit_id"][:12])
    assert receipt["redacted_commits"] == 2
    assert not any(b"example" in line for line in agent.lines())
    assert agent.read("p|knows|q")["entity"]["attrs"] == {"note": "[REDACTED]", "since": 2002}
    assert agent.read("p|knows|q", as_of=first["lamport"])["entity"]["attrs"] == {"note": "[REDACTED]", "since": 2001}
    steps = agent.lineage("p|knows|q")["lineage"]
    assert [step["operation"] for step in steps] == ["CREATE_EDGE", "UPDATE_EDGE", "REDACT_EDGE"]
    assert (steps[2]["edge"], steps[2]["redacted_fields"]) == (ends, ["attrs.note"])


@promise("L51, whole nodes", "a node that is redacted whole takes what its edges say in the same batch")
def test_a_node_that_is_redacted_whole_takes_what_its_edges_say_in_the_same_batch(agent: Agent) -> None:
    for name in ("p", "q"):
        agent.node(name, mail=f"{name}@example.org")
    agent.edge("p", "knows", "q", note="met alice somewhere")
    agent.edge("q", "knows", "p", note="met alice too")
    agent.write(op="DELETE_EDGE", edge_id="q|knows|p")
    agent.edge("q", "likes", "q", note="kept")
    agent.edge("p", "sees", "q")
    receipt = agent.write(op="REDACT_NODE", node_id="p", reason="GDPR")
    assert receipt["batch"] == {"commits": 3, "first_lamport": receipt["lamport"] - 2}
    assert not any(b"alice" in line or b"p@example.org" in line for line in agent.lines())
    assert agent.read("p|knows|q")["entity"]["attrs"] == {"note": "[REDACTED]"}
    assert agent.read("q|likes|q")["entity"]["attrs"] == {"note": "kept"}
    assert agent.read("q")["entity"]["attrs"] == {"mail": "q@example.org"}


@pytest.mark.parametrize(
    "call",
    [
        {"op": "REDACT_NODE", "node_id": "p|knows|p"},
        {"op": "REDACT_EDGE", "edge_id": "p"},
        {"op": "REDACT_EDGE", "edge_id": "p|never|p"},
        {"op": "REDACT_EDGE", "edge": {"from": "p", "rel": "never", "to": "p"}},
    ],
    ids=str,
)
def test_a_redaction_of_what_never_was_is_refused(agent: Agent, call: dict[str, Any]) -> None:
    agent.node("p", name="Alice")
    agent.edge("p", "knows", "p", note="Alice")
    assert agent.refusal("memory.write", **call, reason="GDPR")["error"] == "ENTITY_NOT_FOUND"


def test_redacting_what_is_not_there_says_that_nothing_was_masked(agent: Agent) -> None:
    agent.node("p", name="Alice")
    receipt = agent.write(op="REDACT_NODE", node_id="p", reason="typo", redacted_fields=["attrs.emial"])
    assert receipt["redacted_commits"] == 0


def test_a_redaction_names_a_commit_of_that_node_or_is_refused(agent: Agent) -> None:
    agent.node("p", name="Alice")
    other = agent.node("q", name="Bob")
    for commit in (other["commit_id"], "0" * 64):
        said = agent.refusal("memory.write", op="REDACT_NODE", node_id="p", reason="GDPR", original_commit_id=commit)
        assert said["error"] == "COMMIT_NOT_FOUND"


# -- who writes


@promise("L11, local", "without a proven identity the caller may name itself")
def test_without_a_proven_identity_the_caller_may_name_itself(agent: Agent) -> None:
    agent.write(op="UPSERT_NODE", node=PLAN, actor="planner_agent")
    assert agent.read("task_001")["provenance"]["created_by"] == "planner_agent"


@promise("L11", "a proven identity cannot write as another")
def test_a_proven_identity_cannot_write_as_another(agent: Agent) -> None:
    agent.principal = msgspec.structs.replace(agent.principal, trusted=False)
    agent.write(op="UPSERT_NODE", node=PLAN, actor="agent_alpha")
    said = agent.refusal("memory.write", op="UPSERT_NODE", node=PLAN, actor="root")
    assert (said["error"], said["status"]) == ("AUTHORIZATION_DENIED", 403)
    assert said["message"] == "actor 'agent_alpha' cannot write as 'root'"


class Asked:
    """A policy that keeps what it was asked, and denies deletions."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def decide(self, request: Request) -> Decision:
        self.requests.append(request)
        allowed = request.action != Action.DELETE
        return Decision(allowed, "" if allowed else "actor lacks delete permission on non-owned entities", "v1.2.0")


@promise("scenario 2", "a deletion that policy forbids changes nothing and is answered with the decision")
@promise("OWASP API5, functions", "each tool is asked about with its own action")
def test_the_policy_is_asked_for_the_right_action_on_the_right_entity() -> None:
    policy = Asked()
    with working(policy) as agent:
        agent.write(op="UPSERT_NODE", node={"id": "entity_789", "type": "note", "attrs": {}}, actor="planner_agent")
        said = agent.refusal("memory.write", op="DELETE_NODE", node_id="entity_789", actor="writer_agent")
        agent.refusal("memory.write", op="REDACT_NODE", node_id="entity_789", reason="x")
        agent.refusal("memory.write", op="DELETE_EDGE", edge_id="e1")
        agent.read("entity_789")
        agent.lineage("entity_789")
        agent.search(type="note")
    assert [(request.action, request.resource) for request in policy.requests] == [
        (Action.WRITE, "entity_789"),
        (Action.DELETE, "entity_789"),
        (Action.READ, "entity_789"),  # Whether its owner may be told.
        (Action.DELETE, "entity_789"),
        (Action.READ, "entity_789"),
        (Action.DELETE, "e1"),
        (Action.READ, "entity_789"),
        (Action.READ, "entity_789"),
        (Action.SEARCH, None),
        (Action.READ, "entity_789"),
    ]
    assert policy.requests[1].principal.actor == "writer_agent"
    assert said == {
        "error": "AUTHORIZATION_DENIED",
        "message": "actor 'writer_agent' cannot DELETE resource 'entity_789' (owned by 'planner_agent')",
        "policy_decision": {
            "result": False,
            "reason": "actor lacks delete permission on non-owned entities",
            "policy_version": "v1.2.0",
        },
        "status": 403,
    }


# -- what is malformed

NODE = {"id": "n", "type": "note", "attrs": {}}
EDGE = {"from": "a", "rel": "knows", "to": "b"}
DEEP: dict[str, Any] = {}
for _ in range(70):
    DEEP = {"d": DEEP}

TAKEN = "UPSERT_NODE takes node, if_commit, reason, nonce, actor, run_context, receipt"
MALFORMED: list[tuple[dict[str, Any], list[str]]] = [
    ({"op": "UPSERT_NODE"}, ["field 'node' is required"]),
    ({"op": "UPSERT_EDGE"}, ["field 'edge' is required"]),
    ({"op": "DELETE_NODE"}, ["field 'node_id' is required"]),
    ({"op": "DELETE_EDGE"}, ["field 'edge' or 'edge_id' is required"]),
    ({"op": "REDACT_NODE"}, ["field 'node_id' is required", "field 'reason' is required"]),
    ({"op": "REDACT_NODE", "node_id": "n", "reason": " \n"}, ["field 'reason' must not be blank"]),
    ({"op": "UPSERT_NODE", "node": NODE, "reason": ""}, ["field 'reason' must not be blank"]),
    ({}, ["field 'op' is required"]),
    ({"op": "UPSERT_NODE", "node": {"id": "n"}}, ["field 'node.type' is required", "field 'node.attrs' is required"]),
    (
        {"op": "UPSERT_NODE", "node": NODE, "edge": EDGE},
        ["field 'edge' does not belong to UPSERT_NODE", TAKEN],
    ),
    (
        {"op": "UPSERT_NODE", "node": NODE, "node_id": "n"},
        ["field 'node_id' does not belong to UPSERT_NODE", TAKEN],
    ),
    ({"op": "DELETE_EDGE", "edge": EDGE, "edge_id": "e"}, ["fields 'edge' and 'edge_id' cannot both name the edge"]),
    (
        {"op": "DELETE_EDGE", "edge": EDGE | {"attrs": {"x": 1}}},
        ["field 'edge' of DELETE_EDGE holds from, rel and to only"],
    ),
    (
        {"op": "UPSERT_EDGE", "edge": EDGE | {"id": "a|b"}},
        ["field 'edge.id' must not contain '|', which the ids made from from|rel|to do"],
    ),
    (
        {"op": "REDACT_NODE", "node_id": "n", "reason": "x", "redacted_fields": ["email", "attrs."]},
        [
            "field 'redacted_fields': 'email' must be attrs or attrs.<key>",
            "field 'redacted_fields': 'attrs.' must be attrs or attrs.<key>",
        ],
    ),
    ({"op": "UPSERT_NODE", "node": NODE | {"created_by": "me"}}, ["field 'node.created_by' is not allowed"]),
    ({"op": "UPSERT_NODE", "node": NODE, "lamport": 5}, ["field 'lamport' is not allowed"]),
    ({"op": "UPSERT_NODE", "node": NODE | {"id": 5}}, ["field 'node.id' must be a string"]),
    ({"op": "UPSERT_NODE", "node": NODE | {"attrs": []}}, ["field 'node.attrs' must be an object"]),
    ({"op": "UPSERT_NODE", "node": "n"}, ["field 'node' must be an object"]),
    ({"op": "UPSERT_NODE", "node": NODE | {"id": ""}}, ["field 'node.id' must have at least 1 character"]),
    ({"op": "UPSERT_NODE", "node": NODE | {"id": "x" * 257}}, ["field 'node.id' must have at most 256 characters"]),
    ({"op": "UPSERT_NODE", "node": NODE | {"type": "x" * 129}}, ["field 'node.type' must have at most 128 characters"]),
    ({"op": "UPSERT_NODE", "node": NODE | {"id": "a\nb"}}, ["field 'node.id' must not contain control characters"]),
    ({"op": "UPSERT_NODE", "node": NODE | {"id": "a\x00b"}}, ["field 'node.id' must not contain control characters"]),
    ({"op": "UPSERT_NODE", "node": NODE, "nonce": "x" * 257}, ["field 'nonce' must have at most 256 characters"]),
    (
        {"op": "UPSERT_NODE", "node": NODE | {"attrs": {"big": 2**53}}},
        ["attrs.big is an integer beyond ±(2^53−1), which JSON cannot carry exactly; send it as text"],
    ),
]


@promise("TC-001-02", "a write without its node is told which field is required")
@promise("5.3, API6", "unknown and server-set fields are refused")
@promise("L16", "each operation has its own fields, and no others")
@pytest.mark.parametrize(("call", "problems"), MALFORMED, ids=[str(call)[:80] for call, _ in MALFORMED])
def test_every_fault_of_a_call_is_named(agent: Agent, call: dict[str, Any], problems: list[str]) -> None:
    said = agent.refusal("memory.write", **call)
    assert (said["error"], said["validation_errors"]) == ("INVALID_ARGUMENT", problems)


@promise("bad input, depth", "nesting without end is refused")
def test_nesting_without_end_is_refused(agent: Agent) -> None:
    said = agent.refusal("memory.write", op="UPSERT_NODE", node=NODE | {"attrs": DEEP})
    assert said["error"] == "INVALID_ARGUMENT"
    assert "nested deeper" in said["message"]


def test_an_unknown_operation_is_told_the_ones_there_are(agent: Agent) -> None:
    said = agent.refusal("memory.write", op="MERGE_NODE", node=NODE)
    assert all(op in said["message"] for op in ("UPSERT_NODE", "REDACT_NODE"))


NOT_JSON: list[Any] = [float("nan"), float("inf"), "half \ud800 a pair", {"\udfff": 1}]


@promise("L7", "what JSON cannot say is refused")
@pytest.mark.parametrize("value", NOT_JSON, ids=["nan", "infinity", "surrogate", "surrogate key"])
def test_what_json_cannot_say_is_refused_even_where_no_door_stands_before_the_tool(agent: Agent, value: Any) -> None:
    node = NodeArgument.model_construct(id="n", type="note", attrs={"x": value})
    asked = WriteArguments.model_construct(op="UPSERT_NODE", node=node)
    with pytest.raises(InvalidArgument):
        agent.run(write(agent.store, agent.principal, asked))
    assert agent.log.head().count == 0


@promise("bad input, size", "a payload past the limit is refused with both figures")
def test_a_payload_past_the_limit_says_its_size_and_the_limit(agent: Agent) -> None:
    room = PAYLOAD_BYTES_MAX - len(b'{"attrs":{"text":""},"id":"n","type":"note"}')
    agent.node("n", text="x" * room)
    said = agent.refusal("memory.write", op="UPSERT_NODE", node=NODE | {"attrs": {"text": "x" * (room + 1)}})
    assert said["error"] == "PAYLOAD_TOO_LARGE"
    assert "1,048,577 bytes" in said["message"]
    assert "1,048,576" in said["message"]
    ten = agent.refusal("memory.write", op="UPSERT_NODE", node=NODE | {"attrs": {"text": "x" * 10_000_000}})
    assert ten["bytes"] > 10_000_000


def test_of_several_operations_the_one_past_the_limit_is_named_and_nothing_is_written(agent: Agent) -> None:
    large = NODE | {"attrs": {"text": "x" * PAYLOAD_BYTES_MAX}}
    ops = [{"op": "UPSERT_NODE", "node": NODE | {"id": "m"}}, {"op": "UPSERT_NODE", "node": large}]
    said = agent.refusal("memory.write", ops=ops)
    assert (said["error"], said["at"]) == ("PAYLOAD_TOO_LARGE", "ops[1]")
    assert agent.log.head().count == 0
    agent.node("m", text="small")


def test_null_is_the_same_as_not_given(agent: Agent) -> None:
    agent.write(op="UPSERT_NODE", node=NODE, edge=None, nonce=None, actor=None, run_context=None)
    assert agent.read("n", type=None, as_of=None)["entity"]["id"] == "n"


def test_what_another_vocabulary_rules_is_not_written_here_but_can_be_erased(agent: Agent) -> None:
    work = [
        Operation(Verb.UPSERT_NODE, {"id": name, "type": "work/node", "attrs": {"summary": "quite secret"}})
        for name in "ab"
    ]
    edge = Operation(Verb.UPSERT_EDGE, {"from": "a", "rel": "depends_on", "to": "b", "attrs": {}})
    agent.run(agent.partition.commit(lambda state: Draft((*work, edge), actor="planner", tool="graph_plan")))
    for refused in (
        {"op": "UPSERT_NODE", "node": {"id": "c", "type": "work/node", "attrs": {}}},
        {"op": "UPSERT_NODE", "node": {"id": "a", "type": "note", "attrs": {}}},
        {"op": "UPSERT_EDGE", "edge": {"from": "b", "rel": "depends_on", "to": "a"}},
        {"op": "DELETE_EDGE", "edge": {"from": "a", "rel": "depends_on", "to": "b"}},
        {"op": "DELETE_EDGE", "edge_id": "a|depends_on|b"},
        {"op": "DELETE_NODE", "node_id": "a"},
    ):
        assert agent.refusal("memory.write", **refused)["error"] == "RESERVED_TYPE"
    agent.write(op="REDACT_NODE", node_id="a", reason="asked")
    assert agent.read("a")["entity"]["attrs"] == {"summary": "[REDACTED]"}
