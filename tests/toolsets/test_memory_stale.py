"""Facts that stopped being true: what is told of them, and what may be written of them (X24)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tallystick.commits import Draft, Operation, Verb
from tallystick.engine.store import Store
from tallystick.policy import Action, Decision, Request
from tallystick.policy.embedded import Embedded
from tallystick.state import trust
from tallystick.toolsets.cited_files import CitedFiles
from tallystick.toolsets.knowledge.freshness import Repository
from tests.promises import promise
from tests.toolsets.agent import NOON, Agent, working
from tests.toolsets.knowledge.agents import Checkout

HOUR = 3_600_000
PAST = "2025-01-04T13:00:00.000Z"
"""An hour after the agents' clock begins."""


def stale_of(agent: Agent, entity_id: str, **arguments: Any) -> Any:
    return agent.read(entity_id, **arguments)["entity"].get("stale")


@promise("X24, told", "whoever reads a stale fact is told why and since when")
def test_a_fact_past_its_time_is_marked_in_every_answer(agent: Agent) -> None:
    agent.node("port", stale_after=PAST, value=8080)
    agent.node("host", value="db1")
    agent.edge("host", "listens_on", "port")
    assert stale_of(agent, "port") is None
    agent.now += 2 * HOUR
    told = {"why": "past its time", "since": PAST}
    assert stale_of(agent, "port") == told
    assert "stale" not in agent.read("host")["entity"]
    found = agent.search(type="note")["entities"]
    assert {each["id"]: each.get("stale") for each in found} == {"port": told, "host": None}
    assert agent.search(entity_id="host", traversal={})["entities"][0]["stale"] == told
    assert agent.read("port", fields=["id"])["entity"] == {"id": "port", "stale": told}
    assert agent.lineage("port")["entity"]["stale"] == told


@promise("X24, verified", "who verified a fact, and when, is filled by the server")
def test_a_verification_is_filled_in_and_holds_until_another_time_is_set(agent: Agent) -> None:
    agent.node("port", stale_after=PAST)
    agent.now += 2 * HOUR
    agent.node("port", stale_after=PAST, verified=True)
    verified = {"by": "agent_alpha", "at": "2025-01-04T14:00:00.000Z"}
    assert agent.read("port")["entity"]["attrs"]["verified"] == verified
    assert stale_of(agent, "port") is None
    agent.now += 1000 * HOUR
    assert stale_of(agent, "port") is None
    agent.node("port", stale_after="2025-01-04T15:00:00Z", verified=verified)
    assert stale_of(agent, "port") == {"why": "past its time", "since": "2025-01-04T15:00:00.000Z"}


@promise("X24, verified, forged", "nobody says who verified a fact or when")
def test_nobody_says_who_verified_a_fact_or_when(agent: Agent) -> None:
    agent.node("a", verified=True)
    verified = agent.read("a")["entity"]["attrs"]["verified"]
    for forged in ({"by": "boss", "at": PAST}, verified | {"by": "boss"}, "yes", 1, False, {}):
        refused = agent.refusal(
            "memory.write", op="UPSERT_NODE", node={"id": "a", "type": "note", "attrs": {"verified": forged}}
        )
        assert refused["error"] == "INVALID_ARGUMENT"
        assert "'verified'" in refused["message"]
    agent.node("a", verified=verified, text="as it was")


@promise("X24, values", "what is no value of a reserved attribute is refused, in nodes and edges")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stale_after", "soon"),
        ("stale_after", 5),
        ("stale_after", {"at": PAST}),
        ("stale_after", "2025-13-01"),
        ("supersedes", "b"),
        ("supersedes", [1]),
        ("supersedes", [""]),
        ("supersedes", ["a"]),
        ("supersedes", ["x" * 257]),
        ("supersedes", [str(each) for each in range(101)]),
        ("cites", "a.py"),
        ("cites", ["../a.py"]),
        ("cites", ["/etc/passwd"]),
        ("cites", ["a\u202e.py"]),
        ("cites", [{"path": "a.py"}]),
        ("cites", [{"path": "../a.py", "hash": "0" * 40, "at": PAST}]),
        ("cites", [{"path": "a.py", "hash": "0" * 40, "at": PAST, "more": 1}]),
        ("cites", ["a.py"] * 51),
    ],
)
def test_a_value_that_is_none_is_refused_in_nodes_and_edges(agent: Agent, name: str, value: Any) -> None:
    agent.node("b")
    for written in (
        {"op": "UPSERT_NODE", "node": {"id": "a", "type": "note", "attrs": {name: value}}},
        {"op": "UPSERT_EDGE", "edge": {"from": "b", "rel": "is", "to": "b", "id": "a", "attrs": {name: value}}},
    ):
        refused = agent.refusal("memory.write", **written)
        assert refused["error"] == "INVALID_ARGUMENT"
        assert f"'{name}'" in refused["message"]


def test_what_was_written_before_these_names_were_reserved_can_be_written_again(agent: Agent) -> None:
    attrs = {"verified": "yes", "stale_after": "next year", "supersedes": {"a": 1}, "cites": "Knuth"}
    draft = Draft((Operation(Verb.UPSERT_NODE, {"id": "old", "type": "note", "attrs": attrs}),), actor="a", tool="t")
    agent.run(agent.store.write(agent.principal, Action.WRITE, lambda state, read_filter: draft, restoring=True))
    assert stale_of(agent, "old") is None
    agent.node("old", **attrs, text="more")
    assert agent.read("old")["entity"]["attrs"]["text"] == "more"


@promise("X24, superseded", "a superseded fact leads to its successor")
def test_a_superseded_fact_leads_to_the_end_of_the_chain(agent: Agent) -> None:
    for name in ("one", "two", "three"):
        agent.node(name)
    agent.now += HOUR
    agent.node("two", supersedes=["one"])
    agent.now += HOUR
    agent.node("two", supersedes=["one"], text="again")
    agent.node("three", supersedes=["two", "nowhere"])
    since = {"one": "2025-01-04T13:00:00.000Z", "two": "2025-01-04T14:00:00.000Z"}
    for name, when in since.items():
        assert stale_of(agent, name) == {"why": "superseded", "since": when, "superseded_by": "three"}
    assert stale_of(agent, "three") is None
    agent.write(op="DELETE_NODE", node_id="three")
    assert stale_of(agent, "one") == {"why": "superseded", "since": since["one"], "superseded_by": "two"}
    assert stale_of(agent, "two") is None


@promise("X24, cycles", "facts that supersede each other both say so")
def test_facts_that_supersede_each_other_both_say_so(agent: Agent) -> None:
    agent.node("a", supersedes=["b"])
    agent.node("b", supersedes=["c"])
    agent.node("c", supersedes=["a"])
    agent.node("d", supersedes=["e"])
    agent.node("e", supersedes=["d"])
    assert stale_of(agent, "d")["superseded_by"] == "e"
    assert stale_of(agent, "e")["superseded_by"] == "d"
    assert {stale_of(agent, each)["superseded_by"] for each in "abc"} <= {*"abc"}


def test_a_chain_is_followed_only_so_far(agent: Agent) -> None:
    for number in range(100):
        agent.node(f"v{number + 1}", supersedes=[f"v{number}"])
    agent.node("v0")
    assert stale_of(agent, "v0")["superseded_by"] == "v32"


def test_a_long_id_is_superseded_like_a_short_one(agent: Agent) -> None:
    long, other = "x" * 200, "x" * 201
    agent.node(long)
    agent.node(other)
    agent.node("new", supersedes=[long])
    assert stale_of(agent, long)["superseded_by"] == "new"
    assert stale_of(agent, other) is None


@promise("X24, redacted", "a recalled successor supersedes nothing, a redacted one still does")
def test_a_recalled_successor_supersedes_nothing_and_a_redacted_one_still_does(agent: Agent) -> None:
    agent.node("old")
    agent.node("new", supersedes=["old"], text="x")
    agent.write(op="REDACT_NODE", node_id="new", reason="r", redacted_fields=["attrs.text"])
    assert stale_of(agent, "old")["superseded_by"] == "new"
    agent.node("worse", supersedes=["old"])
    draft = Draft(trust.recall("recall-1", "a bad writer", ["worse"], {}), actor="a", tool="recall")
    agent.run(agent.store.write(agent.principal, Action.WRITE, lambda state, read_filter: draft))
    assert stale_of(agent, "old")["superseded_by"] == "new"
    agent.write(op="REDACT_NODE", node_id="new", reason="r")
    told = stale_of(agent, "old")
    assert (told["superseded_by"], told["successor_redacted"]) == ("new", True)


@promise("X24, as_of", "the past is judged by its own documents and time")
def test_the_past_is_judged_by_its_own_documents_and_time(agent: Agent) -> None:
    written = agent.node("port", stale_after=PAST)
    agent.now += 2 * HOUR
    agent.node("port", stale_after=PAST, verified=True)
    agent.node("new", supersedes=["port"])
    agent.now += HOUR
    assert stale_of(agent, "port")["why"] == "superseded"
    assert stale_of(agent, "port", as_of=written["lamport"]) is None
    assert stale_of(agent, "port", as_of="2025-01-04T13:30:00Z") == {"why": "past its time", "since": PAST}
    assert stale_of(agent, "port", as_of=written["lamport"] + 1) is None
    past = agent.search(type="note", as_of="2025-01-04T13:30:00Z")["entities"]
    assert [each["stale"]["why"] for each in past] == ["past its time"]


def test_the_past_is_judged_though_nothing_says_so_any_more(agent: Agent) -> None:
    written = agent.node("port", stale_after="2025-01-01")
    agent.node("port")
    assert stale_of(agent, "port") is None
    assert stale_of(agent, "port", as_of=written["lamport"])["why"] == "past its time"


def test_an_edge_says_so_too(agent: Agent) -> None:
    agent.node("a")
    agent.edge("a", "is", "a", stale_after=PAST)
    agent.now += 2 * HOUR
    (edge,) = agent.read("a", include_edges=True)["edges"]
    assert edge["stale"] == {"why": "past its time", "since": PAST}
    assert stale_of(agent, edge["id"]) == edge["stale"]
    agent.node("b", supersedes=[edge["id"]])
    assert stale_of(agent, edge["id"])["superseded_by"] == "b"


class HiddenPolicy:
    """What begins with `hidden` may be written and not be read."""

    def decide(self, request: Request) -> Decision:
        hidden = request.action is Action.READ and (request.resource or "").startswith("hidden")
        return Decision(not hidden, "", "1", cacheable=False, narrows=True)


@promise("X24, hidden", "a successor that may not be read shows nowhere")
def test_a_successor_that_may_not_be_read_shows_nowhere() -> None:
    with working(HiddenPolicy()) as agent:
        agent.node("old")
        agent.node("hidden", supersedes=["old"])
        assert stale_of(agent, "old") is None
        agent.node("open", supersedes=["old"])
        agent.node("hidden2", supersedes=["open"])
        assert stale_of(agent, "old")["superseded_by"] == "open"


def test_times_before_all_times_and_after_them_do_no_harm(agent: Agent) -> None:
    for number, text in enumerate(("0001-01-01", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00")):
        agent.node(f"t{number}", stale_after=text)
        agent.read(f"t{number}")
    assert stale_of(agent, "t0") == {"why": "past its time", "since": "1970-01-01T00:00:00.000Z"}
    assert agent.now == NOON


# -- files


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "shop")


@pytest.fixture
def citing(agent: Agent, checkout: Checkout) -> Agent:
    files = CitedFiles(Repository(checkout.root))
    agent.store = Store(agent._open, Embedded("single-user"), files=files)
    return agent


@promise("X24, files", "a cited file is pinned by its hash, and the fact is stale once it changes")
def test_a_cited_file_is_pinned_and_the_fact_is_stale_once_it_changes(citing: Agent, checkout: Checkout) -> None:
    citing.node("fact", cites=["./README.md", "nowhere.md"])
    pinned, unknown = citing.read("fact")["entity"]["attrs"]["cites"]
    assert (pinned["path"], pinned["at"], unknown) == ("README.md", "2025-01-04T12:00:00.000Z", "nowhere.md")
    assert pinned["hash"] == checkout.git("hash-object", "README.md")
    assert pinned["commit"] == checkout.git("rev-parse", "HEAD")
    assert stale_of(citing, "fact") is None
    checkout.write("README.md", "otherwise")
    told = {"why": "cited files changed", "since": pinned["at"], "files": ["README.md"]}
    assert stale_of(citing, "fact") == told
    assert citing.search(type="note")["entities"][0]["stale"] == told
    assert stale_of(citing, "fact", as_of=citing.read("fact")["position"]) is None
    (checkout.root / "README.md").unlink()
    assert stale_of(citing, "fact") == told


def test_a_verification_pins_the_files_as_they_are_now(citing: Agent, checkout: Checkout) -> None:
    citing.node("fact", cites=["README.md", "src/checkout/page.ts"])
    cites = citing.read("fact")["entity"]["attrs"]["cites"]
    checkout.write("README.md", "otherwise")
    (checkout.root / "src/checkout/page.ts").unlink()
    citing.node("fact", cites=cites, text="touched, not looked at")
    assert stale_of(citing, "fact")["files"] == ["README.md", "src/checkout/page.ts"]
    citing.now += HOUR
    citing.node("fact", cites=cites, verified=True)
    assert stale_of(citing, "fact") is None
    again, gone = citing.read("fact")["entity"]["attrs"]["cites"]
    assert (again["at"], again["hash"]) == (PAST, checkout.git("hash-object", "README.md"))
    assert gone == "src/checkout/page.ts"


def test_without_a_repository_files_are_only_named(agent: Agent) -> None:
    agent.node("fact", cites=["./README.md"])
    assert agent.read("fact")["entity"]["attrs"]["cites"] == ["README.md"]
    assert stale_of(agent, "fact") is None


def test_a_write_that_is_retried_finds_itself_though_the_file_changed_meanwhile(
    citing: Agent, checkout: Checkout
) -> None:
    node = {"id": "fact", "type": "note", "attrs": {"cites": ["README.md"]}}
    first = citing.write(op="UPSERT_NODE", node=node, nonce="n")
    checkout.write("README.md", "otherwise")
    again = citing.write(op="UPSERT_NODE", node=node, nonce="n")
    assert (again["commit_id"], again["duplicate"]) == (first["commit_id"], True)


@promise("X24, one call", "one call refreshes a fact with all it rests on")
def test_one_call_refreshes_a_fact_with_all_it_rests_on(citing: Agent, checkout: Checkout) -> None:
    citing.node("fact", cites=["README.md"], stale_after=PAST, text="kept")
    citing.now += 2 * HOUR
    checkout.write("README.md", "otherwise")
    assert stale_of(citing, "fact")["why"] == "past its time, cited files changed"
    citing.write(op="PATCH_NODE", node={"id": "fact", "attrs": {"verified": True}}, nonce="n")
    entity = citing.read("fact")["entity"]
    assert "stale" not in entity
    assert entity["attrs"]["text"] == "kept"
    assert entity["attrs"]["verified"] == {"by": "agent_alpha", "at": "2025-01-04T14:00:00.000Z"}
    again = citing.write(op="PATCH_NODE", node={"id": "fact", "attrs": {"verified": True}}, nonce="n")
    assert again["duplicate"] is True
    citing.write(op="PATCH_NODE", node={"id": "fact", "attrs": {"stale_after": None, "cites": None}})
    assert citing.read("fact")["entity"]["attrs"].keys() == {"text", "verified"}
