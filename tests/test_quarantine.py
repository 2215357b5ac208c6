"""The quarantine: what is recalled says so wherever it is read, and can be trusted again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.commits import Commit, Draft, Operation, Verb
from tallystick.errors import Conflict, InvalidArgument, NotFound
from tallystick.log import Head
from tallystick.policy import Action
from tallystick.state import trust
from tallystick.state.derivation import Derivation
from tallystick.state.state import State
from tallystick.state.trust import PAGE_ENTITIES, Trust
from tests import command_line
from tests.command_line import CommandLine
from tests.commits_by_hand import entries
from tests.promises import promise
from tests.state.logged_state import LoggedState
from tests.toolsets.agent import Agent, working

REASON = "poisoned pages"


@pytest.fixture
def agent() -> Iterator[Agent]:
    with working() as made:
        yield made


def recalled(agent: Agent, recall_id: str, *entities: str, reason: str = REASON) -> None:
    def propose(state: State, read_filter: object) -> Draft:
        return Draft(trust.recall(recall_id, reason, entities, {}), actor="officer", tool="recall")

    agent.run(agent.store.write(agent.principal, Action.WRITE, propose))


def undone(agent: Agent, recall_id: str, *entities: str) -> None:
    def propose(state: State, read_filter: object) -> Draft:
        return Draft(trust.undo(state, recall_id, None, entities), actor="officer", tool="recall", reason="checked")

    agent.run(agent.store.write(agent.principal, Action.WRITE, propose))


def redone(agent: Agent, recall_id: str, *entities: str) -> None:
    def propose(state: State, read_filter: object) -> Draft:
        return Draft(trust.redo(state, recall_id, entities), actor="officer", tool="recall")

    agent.run(agent.store.write(agent.principal, Action.WRITE, propose))


def untrusted_by(agent: Agent, *entities: str) -> list[str | None]:
    found = (agent.read(entity)["entity"].get("untrusted") for entity in entities)
    return [None if each is None else each["recall"] for each in found]


# -- what readers are told


@promise("quarantine, reads", "every way to read an entity says that it is untrusted")
def test_every_way_to_read_an_entity_says_that_it_is_untrusted(agent: Agent) -> None:
    agent.node("a", n=1)
    agent.node("b", n=2)
    agent.edge("a", "cites", "b", why="x")
    recalled(agent, "recall_1", "b", "a|cites|b")
    said = {"recall": "recall_1", "reason": REASON}
    assert agent.read("b")["entity"]["untrusted"] == said
    assert agent.read("b", fields=["attrs.n"])["entity"] == {"id": "b", "attrs": {"n": 2}, "untrusted": said}
    assert agent.read("a|cites|b")["entity"]["untrusted"] == said
    assert agent.read("a", include_edges=True)["edges"][0]["untrusted"] == said
    found = {entity["id"]: entity.get("untrusted") for entity in agent.search(type="note")["entities"]}
    assert found == {"a": None, "b": said}
    walked = agent.search(entity_id="a", traversal={"hops": 1}, fields=["type"])
    assert walked["entities"][0]["untrusted"] == said
    assert walked["paths"][0]["edges"][0]["untrusted"] == said
    for form in ("json", "openlineage_v1"):
        assert agent.lineage("b", format=form)["entity"]["untrusted"] == said
    assert agent.lineage("b", depth="summary")["entity"]["untrusted"] == said


def test_what_is_read_as_of_a_time_before_the_recall_is_untrusted_too(agent: Agent) -> None:
    written = agent.node("b", n=2)
    recalled(agent, "recall_1", "b")
    assert "untrusted" in agent.read("b", as_of=written["commit_id"])["entity"]


def test_nothing_else_changes_by_a_recall(agent: Agent) -> None:
    agent.node("b", n=2)
    before = agent.read("b")["entity"]
    recalled(agent, "recall_1", "b")
    after = agent.read("b")["entity"]
    del after["untrusted"]
    assert after == before
    assert "untrusted" not in str(agent.read("recall_1"))


def test_an_undone_recall_says_nothing_and_an_older_one_is_heard_again(agent: Agent) -> None:
    agent.node("b")
    recalled(agent, "recall_1", "b", reason="first")
    recalled(agent, "recall_2", "b", reason="second")
    assert agent.read("b")["entity"]["untrusted"]["reason"] == "second"
    undone(agent, "recall_2")
    assert agent.read("b")["entity"]["untrusted"]["reason"] == "first"
    undone(agent, "recall_1")
    assert "untrusted" not in agent.read("b")["entity"]
    assert [step["operation"] for step in agent.lineage("recall_1")["lineage"]] == ["CREATE_NODE", "UPDATE_NODE"]


def test_a_recall_is_undone_once_and_only_if_there_is_one(agent: Agent) -> None:
    recalled(agent, "recall_1", "b")
    undone(agent, "recall_1")
    with pytest.raises(Conflict):
        undone(agent, "recall_1")
    with pytest.raises(NotFound):
        undone(agent, "recall_2")


def test_thousands_fit_in_one_draft(agent: Agent) -> None:
    agent.node("n5000")
    recalled(agent, "recall_1", *(f"n{number}" for number in range(3 * PAGE_ENTITIES)))
    assert agent.log.head().count == 1 + 1 + 3
    assert agent.read("n5000")["entity"]["untrusted"]["recall"] == "recall_1"


@pytest.mark.parametrize("kind", ["trust/recall", "trust/page"])
def test_agents_cannot_recall_or_set_free_by_writing_nodes(agent: Agent, kind: str) -> None:
    recalled(agent, "recall_1", "b")
    node = {"id": "recall_9", "type": kind, "attrs": {"status": "undone"}}
    assert agent.refusal("memory.write", op="UPSERT_NODE", node=node)["error"] == "RESERVED_TYPE"
    taken = {"id": "recall_1", "type": "note", "attrs": {}}
    assert agent.refusal("memory.write", op="UPSERT_NODE", node=taken)["error"] == "RESERVED_TYPE"
    assert agent.refusal("memory.write", op="DELETE_NODE", node_id="recall_1/1")["error"] == "RESERVED_TYPE"


def test_a_recall_that_is_redacted_still_stands(agent: Agent) -> None:
    agent.node("b")
    recalled(agent, "recall_1", "b", reason="names somebody")
    agent.write(op="REDACT_NODE", node_id="recall_1", reason="asked to")
    assert agent.read("b")["entity"]["untrusted"] == {"recall": "recall_1", "reason": "[REDACTED]"}
    agent.write(op="REDACT_NODE", node_id="recall_1/1", reason="asked to")
    assert "untrusted" not in agent.read("b")["entity"]


@promise("quarantine, undo in part", "single entities are trusted again in one draft that its lineage tells")
def test_single_entities_of_a_recall_are_trusted_again_in_one_draft_that_its_lineage_tells(agent: Agent) -> None:
    for name in "abc":
        agent.node(name)
    agent.edge("a", "cites", "b")
    recalled(agent, "recall_1", *"abc", "a|cites|b")
    undone(agent, "recall_1", "b", "a|cites|b")
    assert untrusted_by(agent, *"abc", "a|cites|b") == ["recall_1", None, "recall_1", None]
    told, page = (agent.lineage(name)["lineage"][-1] for name in ("recall_1", "recall_1/1"))
    assert (told["actor"], told["reason"], told["changes"]) == ("officer", "checked", {"attrs.cleared": 2})
    assert page["changes"] == {"attrs.cleared": ["a|cites|b", "b"]}
    assert page["lamport"] == told["lamport"] + 1


def test_what_was_trusted_again_can_be_taken_back_again_in_part_or_as_a_whole(agent: Agent) -> None:
    for name in "ab":
        agent.node(name)
    recalled(agent, "recall_1", *"ab")
    undone(agent, "recall_1", "b")
    redone(agent, "recall_1", "b")
    assert untrusted_by(agent, *"ab") == ["recall_1", "recall_1"]
    undone(agent, "recall_1", "a")
    undone(agent, "recall_1")
    assert untrusted_by(agent, *"ab") == [None, None]
    redone(agent, "recall_1")
    assert untrusted_by(agent, *"ab") == [None, "recall_1"]


def test_what_is_cleared_of_one_recall_is_still_named_by_another(agent: Agent) -> None:
    agent.node("a")
    recalled(agent, "recall_1", "a")
    recalled(agent, "recall_2", "a")
    undone(agent, "recall_2", "a")
    assert untrusted_by(agent, "a") == ["recall_1"]


def test_entities_are_cleared_wherever_in_a_long_recall_they_are_named(agent: Agent) -> None:
    agent.node("first")
    agent.node("last")
    recalled(agent, "recall_1", "first", *(f"x{number}" for number in range(PAGE_ENTITIES)), "last")
    undone(agent, "recall_1", "last", "first")
    assert untrusted_by(agent, "first", "last") == [None, None]
    assert agent.read("recall_1/2")["entity"]["attrs"]["cleared"] == ["last"]


def test_clearing_what_is_not_named_or_was_cleared_before_is_refused_and_changes_nothing(agent: Agent) -> None:
    for name in "ab":
        agent.node(name)
    recalled(agent, "recall_1", *"ab")
    with pytest.raises(NotFound):
        undone(agent, "recall_1", "a", "c")
    with pytest.raises(Conflict) as refused:
        redone(agent, "recall_1", "a")
    assert refused.value.code == "NOT_UNDONE"
    undone(agent, "recall_1", "a")
    with pytest.raises(Conflict) as refused:
        undone(agent, "recall_1", "a", "b")
    assert refused.value.code == "ALREADY_UNDONE"
    with pytest.raises(Conflict) as refused:
        redone(agent, "recall_1")
    assert refused.value.code == "NOT_UNDONE"
    assert untrusted_by(agent, *"ab") == [None, "recall_1"]


def test_trust_that_followed_is_trust_that_was_built() -> None:
    logged = LoggedState()
    logged.node("a")

    def dump_state(state: State) -> list[Any]:
        found = state.derived(Trust)
        return [found.recalls(), [found.find(name) for name in ("a", "b", "c")]]

    seen = [dump_state(logged.state)]
    sizes: list[int] = []
    for made in (
        trust.recall("r1", "one", ["a", "b"], {}),
        trust.recall("r2", "two", ["b", "c", "b"], {}),
        lambda: trust.undo(logged.state, "r2", None, ["b"]),
        lambda: trust.redo(logged.state, "r2", ["b"]),
        (Operation(Verb.UPSERT_NODE, {"id": "r1", "type": "trust/recall", "attrs": {"status": "undone"}}),),
        (Operation(Verb.DELETE_NODE, {"node_id": "r2/1"}),),
    ):
        operations = made() if callable(made) else made
        for operation in operations:
            logged.write(operation.verb, operation.payload)
        sizes.append(len(operations))
        seen.append(dump_state(logged.state))
        assert dump_state(logged.replayed()) == seen[-1]
    assert [found.reason for found in seen[2][1] if found] == ["one", "two", "two"]
    while sizes:
        seen.pop()
        logged.undo(sizes.pop())
        assert dump_state(logged.state) == seen[-1]


# -- what came of it


def by(actor: str, *operations: Operation, **context: str) -> Draft:
    return Draft(operations, actor=actor, tool="test", run_context=context or None)


def node(node_id: str, **attrs: Any) -> Operation:
    return Operation(Verb.UPSERT_NODE, {"id": node_id, "type": "note", "attrs": attrs})


def edge(source: str, rel: str, target: str) -> Operation:
    return Operation(Verb.UPSERT_EDGE, {"from": source, "rel": rel, "to": target, "attrs": {}})


def traced(*drafts: Draft, hops: int = 3, pointing: tuple[tuple[str, str], ...] = ()) -> dict[str, int]:
    """Entity → hops, of what `bad` wrote and what came of it. `pointing` are edges there are in the end."""
    derivation = Derivation(lambda commit: commit.actor == "bad", hops_max=hops)
    for entry in entries(Head(), *drafts):
        for fresh in derivation.feed(entry.commit):
            for source, target in pointing:
                if target == fresh:
                    derivation.points(source, target)
    return {trace.id: trace.hops for trace in derivation.found.values()}


BAD = by("bad", node("page-1"))
CASES: dict[str, tuple[tuple[Draft, ...], dict[str, int]]] = {
    "what it wrote, before and after others": (
        (by("ann", node("a-1")), by("bad", node("a-1"), node("a-2")), by("ann", node("a-3"))),
        {"a-1": 0, "a-2": 0},
    ),
    "an edge that it drew, not what it joins": (
        (by("ann", node("a-1"), node("a-2")), by("bad", edge("a-1", "cites", "a-2"))),
        {"a-1|cites|a-2": 0},
    ),
    "what it deleted": (
        (by("ann", node("a-1")), by("bad", Operation(Verb.DELETE_NODE, {"node_id": "a-1"}))),
        {"a-1": 0},
    ),
    "what points to it since, and what points to that": (
        (
            BAD,
            by("ann", node("n-1"), edge("n-1", "cites", "page-1")),
            by("ann", node("n-2"), edge("n-2", "cites", "n-1")),
        ),
        {"page-1": 0, "n-1|cites|page-1": 1, "n-1": 1, "n-2|cites|n-1": 2, "n-2": 2},
    ),
    "not what it is pointed to by from before": (
        (by("ann", node("n-1"), node("page-1"), edge("n-1", "cites", "page-1")), BAD),
        {"page-1": 0},
    ),
    "not what something untrusted points to": (
        (BAD, by("ann", node("n-1"), edge("page-1", "cites", "n-1"))),
        {"page-1": 0},
    ),
    "evidence that names it": (
        (BAD, by("ann", node("task", evidence=[{"type": "note", "ref": "page-1"}]))),
        {"page-1": 0, "task": 1},
    ),
    "a changelog entry about it": (
        (BAD, by("ann", node("entry", parentId="page-1", summary="x"))),
        {"page-1": 0, "entry": 1},
    ),
    "no word that happens to be an id": (
        (by("bad", node("open")), by("ann", node("task", status="open"))),
        {"open": 0},
    ),
    "the same run, whoever wrote": (
        (
            by("ann", node("early"), run_id="r1"),
            by("bad", node("page-1"), run_id="r1", job_id="j1"),
            by("ann", node("same-run"), run_id="r1"),
            by("ann", node("same-job"), run_id="r2", job_id="j1"),
            by("ann", node("other"), run_id="r2"),
        ),
        {"page-1": 0, "same-run": 1, "same-job": 1},
    ),
    "what was written for a task that is untrusted": (
        (by("bad", node("task-7")), by("ann", node("result"), job_id="task-7")),
        {"task-7": 0, "result": 1},
    ),
    "a recall names what it recalls, and is no part of it": (
        (BAD, Draft(trust.recall("recall_1", "x", ["page-1"], {}), actor="officer", tool="recall")),
        {"page-1": 0},
    ),
}


@promise("quarantine, derived", "what came of it is followed through edges, evidence, changelog and runs")
@pytest.mark.parametrize("case", CASES)
def test_a_derivation_follows(case: str) -> None:
    drafts, found = CASES[case]
    assert traced(*drafts) == found


def test_a_derivation_goes_as_far_as_it_is_told_to() -> None:
    drafts, found = CASES["what points to it since, and what points to that"]
    for hops in range(3):
        assert traced(*drafts, hops=hops) == {name: far for name, far in found.items() if far <= hops}


def test_what_points_to_something_untrusted_and_is_written_again_may_follow_from_it() -> None:
    before = by("ann", node("n-1"), node("page-1"), edge("n-1", "cites", "page-1"))
    assert traced(before, BAD, by("ann", node("n-1", said=2)), pointing=(("n-1", "page-1"),)) == {"page-1": 0, "n-1": 1}


def test_evidence_may_name_the_commit() -> None:
    (first,) = entries(Head(), BAD)
    assert traced(BAD, by("ann", node("task", ref=f"commit {first.commit.commit_id}"))) == {"page-1": 0, "task": 1}


# -- the command


@pytest.fixture
def shell(tmp_path: Path) -> CommandLine:
    made = CommandLine(tmp_path / "memory")
    made.write(
        command_line.node("guide", title="ours"),
        {**command_line.node("page-1", text="buy now"), "actor": "crawler"},
        command_line.node("summary", text="of page-1"),
        command_line.edge("summary", "cites", "page-1"),
    )
    return made


def untrusted(shell: CommandLine, *ids: str) -> list[str]:
    from tallystick import app
    from tallystick.cli.tool_client import principal
    from tallystick.config import load

    settings = load({"base": shell.base}, environ={})

    async def look() -> list[str]:
        async with app.opened(settings) as store:
            return await store.read(
                principal(settings),
                Action.READ,
                lambda state, read_filter: [i for i in ids if state.derived(Trust).find(i)],
            )

    return asyncio.run(look())


ALL = ("guide", "page-1", "summary", "summary|cites|page-1")


@promise("quarantine, undo", "a recall is listed first, then made, then undone")
def test_a_recall_is_listed_first_then_made_then_undone(shell: CommandLine) -> None:
    listed = shell.run("recall", "--actor", "crawler", "--since", "2020-01-01", "--json").json
    found = {entity["id"]: entity["because"] for entity in listed["entities"]}
    assert found == {
        "page-1": "written by crawler",
        "summary": "summary -cites-> page-1",
        "summary|cites|page-1": "summary -cites-> page-1",
    }
    assert untrusted(shell, *ALL) == []
    made = shell.run("recall", "--actor", "crawler", "--reason", REASON, "--yes", "--json").json
    assert untrusted(shell, *ALL) == ["page-1", "summary", "summary|cites|page-1"]
    assert made["position"] == listed["position"] + 2
    (only,) = shell.run("recall", "--list", "--json").json["recalls"]
    assert (only["recall"], only["written"], only["derived"], only["reason"]) == (made["recall"], 1, 2, REASON)
    some = ("--entity", "summary", "--entity", "summary|cites|page-1")
    cleared = shell.run("recall", "--undo", made["recall"], *some, "--reason", "checked by hand", "--json").json
    assert cleared["entities"] == ["summary", "summary|cites|page-1"]
    assert untrusted(shell, *ALL) == ["page-1"]
    assert "summary: untrusted again" in shell.run("recall", "--redo", made["recall"], "--entity", "summary").err
    assert untrusted(shell, *ALL) == ["page-1", "summary"]
    shell.run("recall", "--undo", made["recall"], "--reason", "checked by hand")
    assert untrusted(shell, *ALL) == []
    (only,) = shell.run("recall", "--list", "--json").json["recalls"]
    assert (only["status"], only["undone_because"]) == ("undone", "checked by hand")
    assert shell.run("verify").code == 0


def test_one_commit_is_recalled_with_all_that_its_call_wrote(shell: CommandLine) -> None:
    shell.write(command_line.node("x-1"), command_line.node("x-2"), command_line.edge("x-1", "knows", "x-2"))
    shell.write({"op": "DELETE_NODE", "node_id": "x-1"})
    last = shell.base / "_system" / "log"
    commits: list[Commit] = command_line.commits_in(last)
    assert commits[-1].batch == (2, 2)
    listed = shell.run("recall", "--commit", commits[-1].commit_id[:12], "--hops", "0", "--json").json
    assert [entity["id"] for entity in listed["entities"]] == ["x-1|knows|x-2", "x-1"]
    with pytest.raises(NotFound):
        shell.run("recall", "--commit", "0" * 64)


def test_a_window_of_time_bounds_what_is_recalled(shell: CommandLine) -> None:
    for window in (("--since", "2100-01-01"), ("--until", "2020-01-01")):
        assert shell.run("recall", "--actor", "crawler", *window, "--json").json["entities"] == []
    assert (
        shell.run("recall", "--actor", "crawler", "--reason", "x", "--since", "2100-01-01", "--yes", "--json").json[
            "recall"
        ]
        is None
    )


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--actor", "a", "--commit", "c"),
        ("--commit", "c", "--since", "2020-01-01"),
        ("--actor", "a", "--yes"),
        ("--actor", "a", "--since", "last week"),
    ],
    ids=str,
)
def test_a_recall_that_cannot_be_meant_is_refused(shell: CommandLine, words: tuple[str, ...]) -> None:
    with pytest.raises(InvalidArgument):
        shell.run("recall", *words)
    assert shell.run("recall", "--list", "--json").json == {"recalls": []}
