"""memory.write: a node under a new id is told which others say nearly the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick import app
from tallystick.config import Settings
from tallystick.errors import TallystickError
from tallystick.policy import Action, Decision, Principal, Request
from tallystick.server.dispatch import Done, call, prepare
from tallystick.toolsets import Tool
from tallystick.toolsets.memory import TOOLSET, similar, toolset
from tests.promises import promise
from tests.toolsets.agent import Agent, working

TEXT = "Billing runs at night and retries three times"


@pytest.fixture(autouse=True)
def without_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similar, "SECONDS", 600.0)
    monkeypatch.setattr(similar, "REST", 0.0)


class Index:
    """Finds what it was told to, and keeps what it was asked."""

    def __init__(self, *found: str, error: TallystickError | None = None) -> None:
        self.found = found
        self.error = error
        self.asked: list[tuple[list[str], str, str]] = []

    async def similar(
        self, texts: Sequence[str], node_type: str, *, besides: str, limit: int, seconds: float
    ) -> list[str]:
        self.asked.append((list(texts), node_type, besides))
        if self.error is not None:
            raise self.error
        return list(self.found)[:limit]


def tool_with(index: Index) -> Tool:
    made: Any = toolset(text=lambda tenant: index)  # type: ignore[arg-type,return-value]  # as much of one as is used
    return made.tools[0]  # type: ignore[no-any-return]


def written(agent: Agent, index: Index, **arguments: Any) -> dict[str, Any]:
    tool = tool_with(index)
    data = agent.run(tool.call(agent.store, agent.principal, prepare(tool, arguments))).data
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(data))
    return found


def upsert(node_id: str, kind: str = "note", /, **attrs: Any) -> dict[str, Any]:
    return {"op": "UPSERT_NODE", "node": {"id": node_id, "type": kind, "attrs": attrs or {"body": TEXT}}}


def test_a_node_under_a_new_id_is_told_what_says_nearly_the_same(agent: Agent) -> None:
    for name in ("one", "two", "three", "four"):
        agent.node(name, body=TEXT)
    index = Index("one", "two", "three", "four")
    assert written(agent, index, **upsert("five"))["similar"] == ["one", "two", "three"]
    assert index.asked == [([TEXT], "note", "five")]


def test_only_what_is_there_and_of_its_type_is_named(agent: Agent) -> None:
    agent.node("dead", body=TEXT)
    agent.write(op="DELETE_NODE", node_id="dead")
    agent.node("other", "memo", body=TEXT)
    agent.node("kept", body=TEXT)
    assert written(agent, Index("dead", "other", "never", "kept"), **upsert("n"))["similar"] == ["kept"]
    assert "similar" not in written(agent, Index("dead", "other", "never"), **upsert("m"))


def test_what_makes_no_node_is_not_compared(agent: Agent) -> None:
    index = Index("a")
    for name in "ab":
        agent.node(name, body=TEXT)
    agent.edge("a", "knows", "b")
    for asked in (
        upsert("a"),
        {"op": "PATCH_NODE", "node": {"id": "a", "attrs": {"body": TEXT}}},
        {"op": "UPSERT_EDGE", "edge": {"from": "a", "rel": "knows", "to": "b", "attrs": {"body": TEXT}}},
        {"op": "DELETE_EDGE", "edge_id": "a|knows|b"},
        {"op": "DELETE_NODE", "node_id": "b"},
        upsert("short", label="open"),
        upsert("long", body="x" * 20_000),
    ):
        assert "similar" not in written(agent, index, **asked)
    assert index.asked == []


def test_a_retry_is_not_compared(agent: Agent) -> None:
    index = Index("a")
    agent.node("a", body=TEXT)
    first = written(agent, index, **upsert("b"), nonce="1")
    assert first.pop("similar") == ["a"]
    assert written(agent, index, **upsert("b"), nonce="1") == first | {"duplicate": True}


def test_each_of_several_is_compared_by_itself(agent: Agent) -> None:
    agent.node("a", body=TEXT)
    answer = written(agent, Index("a"), ops=[upsert("b"), upsert("a", body="changed entirely"), upsert("c")])
    assert [each.get("similar") for each in answer["results"]] == [["a"], None, ["a"]]
    assert "similar" not in answer


def test_an_index_that_fails_refuses_nothing(agent: Agent) -> None:
    agent.node("a", body=TEXT)
    broken = Index(error=TallystickError("the text index is being rewritten"))
    assert "similar" not in written(agent, broken, **upsert("b"))
    assert agent.read("b")["entity"] is not None


def test_who_writes_much_does_without(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similar, "REST", 1e9)
    agent.node("a", body=TEXT)
    tool = tool_with(Index("a"))
    told = [agent.run(tool.call(agent.store, agent.principal, prepare(tool, upsert(name)))).data for name in ("b", "c")]
    assert ["similar" in each for each in told] == [True, False]


class Secretive:
    def decide(self, request: Request) -> Decision:
        hidden = request.action is Action.READ and str(request.resource).startswith("s_")
        return Decision(not hidden, "so it is", "v1")


@promise("L18, similar, read", "and only what may be read is named")
def test_only_what_may_be_read_is_named() -> None:
    with working(Secretive()) as agent:
        for name in ("s_one", "two"):
            agent.node(name, body=TEXT)
        assert written(agent, Index("s_one", "two"), **upsert("n"))["similar"] == ["two"]
        assert "similar" not in written(agent, Index("s_one"), **upsert("m"))


@promise("L18, similar", "a node under a new id is told what says nearly the same")
async def test_the_index_of_words_finds_what_was_said_before_in_nearly_the_same_words(tmp_path: Path) -> None:
    async with app.served(Settings(base=tmp_path, toolsets=("all",))) as offer:

        async def said(tool: str, **arguments: Any) -> dict[str, Any]:
            outcome = await call(offer.tools.get(tool), arguments, offer.store, lambda: Principal("a"))
            assert isinstance(outcome, Done), outcome
            return outcome.data

        await said("memory.write", **upsert("one"))
        await said("memory.write", **upsert("elsewhere", "memo"))
        await said("memory.write", **upsert("two", body="Invoices are sent by the finance team every Monday"))
        await said("search_content", query="anything")  # It includes what was committed before it was asked.
        answer = await said("memory.write", **upsert("three", body="billing runs at night, and retries three times."))
        assert answer["similar"] == ["one"]
        answer = await said("memory.write", **upsert("four", body="Nobody has said anything like this so far"))
        assert "similar" not in answer


def test_the_tool_says_that_it_may_answer_so() -> None:
    assert "similar" in TOOLSET.tools[0].output["properties"]
