"""Laws of several operations in one call: they are what they are one by one, or nothing (L18)."""

from __future__ import annotations

from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from tallystick.commits.chain import Verifier, decode
from tallystick.errors import TallystickError
from tests.promises import promise
from tests.toolsets.agent import Agent, working

NODES = st.sampled_from(["a", "b", "c"])
RELS = st.sampled_from(["r", "s"])
VALUES = st.sampled_from([None, 1, 1.5, "x", [None], {"x": 1}, {"x": {"y": None}}])
ATTRS = st.dictionaries(st.sampled_from(["k", "l", "k.x"]), VALUES, max_size=3)
TYPES = st.sampled_from(["note", "memo"])


def edges(**more: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"from": NODES, "rel": RELS, "to": NODES, **more})


def chosen(edge: dict[str, Any]) -> dict[str, Any]:
    return {**edge, "id": "e"}


WRITTEN = edges(attrs=ATTRS) | edges(attrs=ATTRS).map(chosen)
OPERATIONS = st.one_of(
    st.fixed_dictionaries(
        {"op": st.just("UPSERT_NODE"), "node": st.fixed_dictionaries({"id": NODES, "type": TYPES, "attrs": ATTRS})}
    ),
    st.fixed_dictionaries({"op": st.just("PATCH_NODE"), "node": st.fixed_dictionaries({"id": NODES, "attrs": ATTRS})}),
    st.fixed_dictionaries({"op": st.sampled_from(["UPSERT_EDGE", "PATCH_EDGE"]), "edge": WRITTEN}),
    st.fixed_dictionaries({"op": st.just("DELETE_NODE"), "node_id": NODES}),
    st.fixed_dictionaries({"op": st.just("DELETE_EDGE"), "edge": edges()}),
    st.fixed_dictionaries({"op": st.just("DELETE_EDGE"), "edge_id": st.sampled_from(["e", "a|r|b", "none"])}),
    st.fixed_dictionaries(
        {"op": st.just("REDACT_NODE"), "node_id": NODES, "reason": st.just("asked")},
        optional={"redacted_fields": st.just(["attrs.k"])},
    ),
    st.fixed_dictionaries(
        {"op": st.just("REDACT_EDGE"), "edge_id": st.sampled_from(["e", "a|r|b"]), "reason": st.just("asked")},
        optional={"redacted_fields": st.just(["attrs.k"])},
    ),
)


START: list[dict[str, Any]] = [
    *({"op": "UPSERT_NODE", "node": {"id": name, "type": "note", "attrs": {"k": name, "l": 2}}} for name in "ab"),
    {"op": "UPSERT_EDGE", "edge": {"from": "a", "rel": "r", "to": "b", "attrs": {"k": 1}}},
    {"op": "UPSERT_EDGE", "edge": {"from": "b", "rel": "s", "to": "a", "attrs": {"k": 2}, "id": "e"}},
]


def answer(agent: Agent, call: dict[str, Any]) -> dict[str, Any]:
    try:
        return agent.call("memory.write", **call)
    except TallystickError as error:
        return {"error": error.code, "at": error.details.get("at"), "problems": getattr(error, "problems", [])}


def documents(agent: Agent) -> list[Any]:
    """What is there, and what of it goes back to whom."""
    nodes = [agent.read(name, include_edges=True) for name in "abc"]
    return [({**each["entity"]} if each["entity"] else None, each["edges"]) for each in nodes]


def sealed(agent: Agent) -> list[Any]:
    """What was committed, without what says that it happened together."""
    verifier = Verifier()
    lines = [line.rstrip(b"\n") for line in agent.lines()]
    for line in lines:
        verifier.feed(line)
    verifier.finish()
    commits = [decode(line) for line in lines]
    return [(commit.operation, commit.document(), commit.redacts) for commit in commits]


@promise("L18, several", "several operations are what they are one by one, or nothing")
@settings(max_examples=200)
@given(st.lists(OPERATIONS, max_size=3), st.lists(OPERATIONS, min_size=1, max_size=5))
def test_several_operations_are_what_they_are_one_by_one_or_nothing(
    before: list[dict[str, Any]], ops: list[dict[str, Any]]
) -> None:
    with working() as together, working() as apart:
        for each in START + before:
            assert answer(together, each) == answer(apart, each)
        head = together.log.head()
        told = answer(together, {"ops": ops, "nonce": "1"})
        if "error" in told and "by another operation of this call" in str(told["problems"]):
            event("redacted and written")
            assert together.log.head() == head
            return
        results = []
        for number, each in enumerate(ops):
            results.append(answer(apart, each))
            if "error" in results[-1]:
                event("refused")
                assert (told["error"], told["at"]) == (results[-1]["error"], f"ops[{number}]")
                assert together.log.head() == head
                return
        event("written")
        assert sealed(together) == sealed(apart)
        assert documents(together) == documents(apart)
        assert [each.get("dropped") for each in told["results"]] == [each.get("dropped") for each in results]
        assert answer(together, {"ops": ops, "nonce": "1"}) == told | {"duplicate": True}


MERGED = st.lists(st.tuples(st.sampled_from("klm"), VALUES), max_size=8)


@given(ATTRS, MERGED, st.randoms())
def test_patches_of_different_attributes_may_come_in_any_order(
    start: dict[str, Any], changes: list[tuple[str, Any]], random: Any
) -> None:
    last = dict(changes)
    shuffled = list(last.items())
    random.shuffle(shuffled)
    with working() as agent:
        agent.node("n", **start)
        for name, value in shuffled:
            agent.write(op="PATCH_NODE", node={"id": "n", "attrs": {name: value}})
        left = {name: value for name, value in (start | last).items() if name not in last or value is not None}
        assert agent.read("n")["entity"]["attrs"] == left
