"""tallystick why: from a line to its commit, task, evidence, and what was read for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick import app, config
from tallystick.cli.tool_client import ask
from tallystick.config import CHECKPOINT_KEY_VARIABLE
from tallystick.extensions.why import explanation as why
from tests.command_line import CommandLine, commits_in, edge, node
from tests.promises import promise
from tests.signed_memory import KEY, NEXT_KEY, ORIGIN
from tests.toolsets.knowledge.agents import Checkout

PAGE = "src/checkout/page.ts"
HIDING = """package example.hiding
import rego.v1
default decision := {"result": true, "reason": "all but secrets", "policy_version": "1", "narrows": true}
decision := {"result": false, "reason": "no", "policy_version": "1"} if { input.resource_type == "secret" }
decision := {"result": false, "reason": "no", "policy_version": "1"} if {
	startswith(input.resource, "hidden")
}
"""


class Shop:
    """A memory, a checkout, and agents at both."""

    def __init__(self, base: Path, checkout: Checkout) -> None:
        self.base, self.checkout = base, checkout
        self.shell = CommandLine(base)

    def call(self, agent: str, tool: str, **arguments: Any) -> dict[str, Any]:
        settings = config.load({"base": self.base, "repo": str(self.checkout.root)}, environ={})
        return ask(msgspec.structs.replace(settings, agent_identity=agent), tool, arguments)

    def claim(self, agent: str, summary: str = "Retry payments") -> str:
        """A new task, in the agent's hands."""
        self.call(agent, "graph_open", project="shop")
        self.call(agent, "graph_plan", nodes=[{"ref": "task", "summary": summary}])
        (given,) = self.call(agent, "graph_next", project="shop", claim=True)["nodes"]
        return str(given["node"]["id"])

    def resolve(self, agent: str, task: str, *evidence: tuple[str, str]) -> None:
        added = [{"type": kind, "ref": ref} for kind, ref in evidence]
        self.call(agent, "graph_update", updates=[{"node_id": task, "resolved": True, "add_evidence": added}])

    def commit(self, content: str, path: str = PAGE) -> str:
        self.checkout.write(path, content)
        self.checkout.commit()
        return self.checkout.git("rev-parse", "HEAD")

    def why(self, place: str, **environ: str) -> dict[str, Any]:
        found: dict[str, Any] = self.shell.run("why", place, "--json", **environ).json
        return found


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    checkout = Checkout(tmp_path / "shop")
    monkeypatch.chdir(checkout.root)
    return Shop(tmp_path / "base", checkout)


@promise("why, line", "a line leads to its commit, task, evidence, and what was read for it with its authors")
def test_a_line_leads_to_its_task_evidence_and_what_was_read_with_its_authors(shop: Shop) -> None:
    shop.shell.write(
        node("limits", "note") | {"actor": "ben"},
        node("retries", "fact", name="Retries", cites=["README.md"], supersedes=["limits"])
        | {"actor": "ben", "reason": "measured"},
        edge("retries", "derived_from", "limits") | {"actor": "ben"},
        node("unread", "fact"),
    )
    shop.call("ann", "memory.read", entity_id="unread")
    task = shop.claim("ann")
    shop.call("ann", "memory.read", entity_id="retries")
    shop.call("ben", "memory.read", entity_id="unread")
    shop.call("ann", "memory.search", query="payments")
    wrote = shop.commit("one\nretry(3)\n")
    shop.resolve("ann", task, ("git", f"{wrote[:8].upper()} retry"), ("test", "passed"))
    shop.call("ann", "memory.read", entity_id="unread")
    shop.shell.write(node("retries", "fact", name="Otherwise") | {"actor": "eve"})

    found = shop.why(f"{PAGE}:2")
    assert (found["file"], found["line"], found["commit"]["id"]) == (PAGE, 2, wrote)
    (told,) = found["tasks"]
    assert (told["id"], told["summary"], told["project"], told["is_resolved"]) == (task, "Retry payments", "shop", True)
    assert told["commits"] == [wrote]
    assert [(each["type"], each["agent"]) for each in told["evidence"]] == [("git", "ann"), ("test", "ann")]
    (claim,) = told["claims"]
    assert claim["actor"] == "ann"
    assert claim["until"] > claim["since"]
    (read,) = told["reads"]
    assert (read["by"], read["audit_position"] > 0) == ("ann", True)
    fact = read["fact"]
    assert (fact["id"], fact["name"], fact["by"], fact["reason"]) == ("retries", "Retries", "ben", "measured")
    assert fact["is_changed"] is True
    sources = {(each["how"], each["what"]) for each in fact["sources"]}
    assert sources == {("cites", "README.md"), ("supersedes", "limits"), ("derived_from", "limits")}
    assert any("does not say what was found" in gap for gap in told["gaps"])

    drawn = shop.shell.run("why", f"{PAGE}:2").out
    for words in (f"commit {wrote[:12]}", f"task {task}", "claimed by ann", "evidence git:", "read fact retries"):
        assert words in drawn
    assert "[written again since]" in drawn
    assert "? things were looked up" in drawn


@promise("why, receipt", "a task that is done leads to its receipt, and whether that verifies")
def test_a_task_that_is_done_leads_to_its_receipt_and_whether_that_verifies(shop: Shop) -> None:
    task = shop.claim("ann")
    wrote = shop.commit("one\nretry(3)\n")
    shop.resolve("ann", task, ("git", wrote))
    place, signs = f"{PAGE}:2", {CHECKPOINT_KEY_VARIABLE: KEY.written()}
    (unsigned,) = shop.why(place, **signs)["tasks"]
    assert "receipt" not in unsigned
    shop.shell.run("checkpoint", **signs)
    (told,) = shop.why(place, **signs)["tasks"]
    count = len(commits_in(shop.base / "_system" / "log"))
    (last,) = [each for each in commits_in(shop.base / "_system" / "log") if each.lamport == count]
    assert told["receipt"] == {
        "origin": ORIGIN,
        "index": count - 1,
        "size": count,
        "record_hash": last.record_hash,
        "verifies": True,
    }
    drawn = shop.shell.run("why", place, **signs).out
    assert f"receipt of log entry {count - 1} of the {count} that '{ORIGIN}' signed, which verifies" in drawn
    # Whoever knows no key cannot tell, and another key did not sign it.
    (unknown,) = shop.why(place)["tasks"]
    assert (unknown["receipt"]["verifies"], "no key is configured" in unknown["receipt"]["problem"]) == (False, True)
    (foreign,) = shop.why(place, **{CHECKPOINT_KEY_VARIABLE: NEXT_KEY.written()})["tasks"]
    assert foreign["receipt"]["verifies"] is False
    shop.call("ann", "graph_update", updates=[{"node_id": task, "summary": "Retry payments thrice"}])
    (changed,) = shop.why(place, **signs)["tasks"]
    assert "receipt" not in changed
    assert any("there is no receipt of it: the commit is number" in gap for gap in changed["gaps"])


@promise("why, gaps", "links that are not known are said to be")
def test_links_that_are_not_known_are_said_to_be(shop: Shop) -> None:
    shop.call("ann", "graph_open", project="shop")
    wrote = shop.commit("one\n")
    assert shop.why(f"{PAGE}:1")["gaps"] == ["no task has evidence that names its commit"]
    shop.checkout.write(PAGE, "two\n")
    assert shop.why(f"{PAGE}:1")["gaps"] == ["the line is not committed"]
    shop.checkout.write(PAGE, "one\n")
    created = shop.call("ann", "graph_plan", nodes=[{"ref": "a", "summary": "Unclaimed"}])["created"]
    shop.resolve("ann", created[0]["id"], ("git", wrote))
    (task,) = shop.why(f"{PAGE}:1")["tasks"]
    assert task["gaps"] == ["nobody had claimed it: what was read for it is not known"]
    second = shop.claim("ann", "Claimed")
    shop.resolve("ann", second, ("git", wrote))
    newest, _ = shop.why(f"{PAGE}:1")["tasks"]
    assert newest["id"] == second
    assert newest["gaps"][-1] == "the audit log names no fact that was read while the task was claimed"
    assert "reads" not in newest


@promise("why, evidence", "only evidence of git that names the commit, or seven digits of it, leads to a task")
def test_only_evidence_of_git_that_names_the_commit_leads_to_a_task(shop: Shop) -> None:
    wrote = shop.commit("one\n")
    shop.call("ann", "graph_open", project="shop")
    refs = {
        "whole": ("git", wrote),
        "prefix": ("git", f"see commit {wrote[:7]}, pushed"),
        "short": ("git", wrote[:6]),
        "other": ("git", "0" * 40),
        "within": ("git", f"x{wrote}"),
        "note": ("note", wrote),
    }
    nodes = [{"ref": name, "summary": name} for name in refs]
    created = shop.call("ann", "graph_plan", nodes=nodes)["created"]
    for planned, evidence in zip(created, refs.values(), strict=True):
        shop.resolve("ann", planned["id"], evidence)
    assert [task["summary"] for task in shop.why(f"{PAGE}:1")["tasks"]] == ["prefix", "whole"]


@promise("why, file", "a file leads to its knowledge, and to tasks by commit and by name")
def test_a_file_leads_to_its_knowledge_and_to_tasks_by_commit_and_by_name(shop: Shop) -> None:
    first = shop.commit("one\n")
    shop.commit("two\n")
    by_commit = shop.claim("ann", "By commit")
    shop.resolve("ann", by_commit, ("git", first))
    by_name = shop.claim("ann", "By name")
    shop.resolve("ann", by_name, ("file", f"{PAGE}:1 was looked at"))
    elsewhere = shop.claim("ann", "Elsewhere")
    shop.resolve("ann", elsewhere, ("file", f"other/{PAGE}"), ("file", f"{PAGE}x"))
    task = shop.claim("ann", "Learn")
    arguments = {"projectId": "shop", "name": "Checkout", "knowledge": "k", "paths": ["src/checkout/**"]}
    shop.call("ann", "manage_graph", operation="create", entityType="atom", createdByTaskId=task, **arguments)
    shop.shell.write(node("fact", cites=[PAGE]), node("not", cites=["README.md"]))
    found = shop.why(PAGE)
    assert [each["summary"] for each in found["tasks"]] == ["By name", "By commit"]
    assert found["tasks"][1]["commits"] == [first]
    assert {each.get("name") or each["id"] for each in found["knowledge"]} == {"Checkout", "fact"}
    assert "line" not in found
    assert "known knowledge/atom" in shop.shell.run("why", PAGE).out


def test_many_tasks_and_facts_are_looked_at_in_parts_and_the_newest_are_shown(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"_AT_ONCE": 1, "TASKS_MAX": 2, "FACTS_MAX": 2}.items():
        monkeypatch.setattr(why, name, value)
    wrote = shop.commit("one\n")
    shop.shell.write(*(node(f"fact {number}", cites=[PAGE]) for number in range(3)))
    for number in range(2):
        shop.resolve("ann", shop.claim("ann", f"task {number}"), ("git", wrote))
    last = shop.claim("ann", "task 2")
    for number in range(3):
        shop.call("ann", "memory.read", entity_id=f"fact {number}")
    shop.resolve("ann", last, ("git", wrote))
    found = shop.why(PAGE)
    assert [task["summary"] for task in found["tasks"]] == ["task 2", "task 1"]
    assert found["gaps"] == ["older tasks may name it, too: the newest are shown"]
    assert [read["fact"]["id"] for read in found["tasks"][0]["reads"]] == ["fact 0", "fact 1"]
    assert "more was read: the first is shown" in found["tasks"][0]["gaps"]
    assert [fact["id"] for fact in found["knowledge"]] == ["fact 0", "fact 1"]


@promise("why, policy", "what may not be read is neither shown nor counted")
def test_what_may_not_be_read_is_neither_shown_nor_counted(shop: Shop, tmp_path: Path) -> None:
    policy = tmp_path / "hiding.rego"
    policy.write_text(HIDING)
    shop.shell.write(
        node("hidden one", "secret", cites=[PAGE]),
        node("open", "fact", supersedes=["hidden one"]),
        edge("open", "derived_from", "hidden one"),
    )
    task = shop.claim("ann")
    for name in ("open", "hidden one"):
        shop.call("ann", "memory.read", entity_id=name)
    shop.resolve("ann", task, ("git", shop.commit("one\n")))
    (seen,) = shop.why(f"{PAGE}:1")["tasks"]
    assert [read["fact"]["id"] for read in seen["reads"]] == ["open", "hidden one"]
    narrowed = shop.shell.run("why", f"{PAGE}:1", "--json", TALLYSTICK_POLICY=str(policy))
    assert "hidden" not in narrowed.out
    (seen,) = narrowed.json["tasks"]
    assert [read["fact"]["id"] for read in seen["reads"]] == ["open"]
    assert "hidden" not in shop.shell.run("why", PAGE, "--json", TALLYSTICK_POLICY=str(policy)).out
    policy.write_text(HIDING.replace("secret", "work/node"))
    without = shop.why(f"{PAGE}:1", TALLYSTICK_POLICY=str(policy))
    assert ("tasks" in without, without["gaps"]) == (False, ["no task has evidence that names its commit"])
    closed = shop.shell.main("why", f"{PAGE}:1", TALLYSTICK_POLICY="closed")
    assert closed.code == 5
    assert "commit" not in closed.out


def test_the_command_says_what_is_wrong_with_a_place(shop: Shop) -> None:
    shop.shell.write(node("any"))
    for place, code, words in (
        (f"{PAGE}:9", 3, "has no line 9"),
        (f"{PAGE}:0", 2, "counted from 1"),
        ("missing:1", 3, "there is no file"),
        ("../elsewhere:1", 2, "outside the repository"),
    ):
        left = shop.shell.main("why", place)
        assert (left.code, words in left.err) == (code, True), left.err
    shop.commit("one\n", "odd:3")
    assert shop.why("odd:3")["file"] == "odd:3"
    assert shop.why("odd:3:1")["line"] == 1
    shop.commit("one\n", "-dash")
    assert shop.shell.run("why", "--json", "--", "-dash:1").json["file"] == "-dash"


def test_names_in_commits_cannot_steer_the_terminal(shop: Shop) -> None:
    shop.shell.write(node("any"))
    shop.checkout.write(PAGE, "x\n")
    shop.checkout.git("commit", "--quiet", "--all", "--message", "\x1b[31mred\x1b]0;title\x07")
    assert "\x1b" not in shop.shell.run("why", f"{PAGE}:1").out


@promise("why, off", "the tool is off unless its toolset is chosen")
def test_the_tool_is_off_unless_its_toolset_is_chosen() -> None:
    from tallystick.server.dispatch import choose

    settings = config.load({}, environ={})
    every = app.toolsets(settings)
    assert choose(every, names=settings.toolsets).find("memory.why") is None
    assert choose(every, names=("memory", "why")).find("memory_why") is not None
    assert choose(every, names=("memory", "why"), tools=("memory.why",)).find("memory.why") is not None
