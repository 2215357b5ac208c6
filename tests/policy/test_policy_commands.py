"""The policy commands: what a person types, sees, and is told when it goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tallystick.audit import encode
from tallystick.audit.files import AuditFiles
from tallystick.errors import InvalidArgument, NotFound
from tallystick.operations import policy as operations
from tallystick.policy import Action, Decision, Principal, Request, denial
from tallystick.policy.embedded import Embedded
from tallystick.policy.gate import event_of
from tests.command_line import CommandLine, CommandResult
from tests.promises import promise

Policy = Callable[..., CommandResult]

LENIENT = """package own
import rego.v1
policy_version := "own@1"
default allow := false
allow if input.action == "READ"
decision := {"result": allow, "reason": "anybody reads", "policy_version": policy_version}
"""
LENIENT_TESTS = """package own_test
import rego.v1
import data.own
test_writes if own.decision.result with input as {"action": "WRITE"}
test_broken if 1 / 0 == 1
test_fine if true
helper := 1
"""


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Policy:
    monkeypatch.setenv("BASE_PATH", str(tmp_path / "memory"))
    monkeypatch.chdir(tmp_path)

    return partial(CommandLine(tmp_path / "memory").run, "policy")


@pytest.fixture
def audited(tmp_path: Path) -> Path:
    """An audit log of three decisions by rbac and one that no policy made."""
    rbac = Embedded("rbac")
    bob, reader = Principal(actor="bob", roles=("writer",)), Principal(actor="rea", roles=("reader",))
    requests = [
        Request(bob, Action.DELETE, "plan", "note", "alice", "default", "2025-01-01T00:00:00.000Z"),
        Request(bob, Action.WRITE, "plan", "note", "alice", "default", "2025-01-02T00:00:00.000Z"),
        Request(reader, Action.READ, "plan", "note", "alice", "default", "2025-01-03T00:00:00.000Z"),
    ]
    made = [(request, rbac.decide(request)) for request in requests]
    made.append((requests[0], denial("timeout", "too slow", "rbac@2")))
    trail = AuditFiles(tmp_path / "memory" / "_system" / "audit")
    trail.append([encode(event_of(request, decision, 0.1, False)) for request, decision in made])
    trail.close()
    return tmp_path


def test_the_tests_of_the_shipped_policies_pass(policy: Policy) -> None:
    found = policy("test", "--json")
    assert found.code == 0
    names = [test["name"] for test in found.json["tests"]]
    assert {name.rsplit(".", 1)[0] for name in names} == {
        "tallystick.rbac_test", "tallystick.single_user_test", "tallystick.closed_test",
    }  # fmt: skip


def test_a_test_that_fails_is_named(policy: Policy, tmp_path: Path) -> None:
    (tmp_path / "own.rego").write_text(LENIENT)
    (tmp_path / "own_test.rego").write_text(LENIENT_TESTS)
    found = policy("test", "own.rego", "--json")
    assert found.code == 1
    tested = {test["name"]: (test["passed"], test["problem"]) for test in found.json["tests"]}
    assert tested["own_test.test_writes"] == (False, "is undefined")
    assert tested["own_test.test_fine"] == (True, None)
    assert tested["own_test.test_broken"][0] is False
    assert len(tested) == 3
    assert "FAIL own_test.test_writes: is undefined" in policy("test", "own.rego").err


def test_a_policy_without_tests_does_not_pass_for_tested(policy: Policy, tmp_path: Path) -> None:
    (tmp_path / "own.rego").write_text(LENIENT)
    assert policy("test", "own.rego").code == 1


def test_check_tells_what_its_author_may_not_have_meant(policy: Policy, tmp_path: Path) -> None:
    (tmp_path / "own.rego").write_text(LENIENT.replace('policy_version := "own@1"', 'policy_version := ""'))
    found = policy("check", "own.rego", "--json")
    assert found.code == 0
    notes = " ".join(found.json["notes"])
    for note in ("it has no tests", "names no policy_version", "without any role may READ", "another tenant may READ"):
        assert note in notes


@pytest.mark.parametrize("version", ["rbac@2", "closed@1", "single-user@1"])
def test_the_shipped_policies_are_good(policy: Policy, version: str) -> None:
    found = policy("check", version.partition("@")[0])
    assert (found.code, f"good: {version}" in found.out) == (0, True)


def test_check_refuses_a_policy_that_cannot_decide(policy: Policy, tmp_path: Path) -> None:
    (tmp_path / "own.rego").write_text("package own\ndecision := unknown(input)\n")
    found = policy("check", "own.rego")
    assert found.code == 1
    assert "refused: the policy cannot decide about READ" in found.err


def test_explain_names_the_rules_and_the_lines_that_made_the_decision(policy: Policy) -> None:
    asked = ("--actor", "bob", "--role", "writer", "--action", "delete", "--resource", "plan", "--owner", "alice")
    found = policy("explain", *asked, "--json")
    assert found.code == 5
    explained = found.json
    assert explained["decision"]["reason"] == "actor lacks delete permission on non-owned entities"
    assert explained["input"]["resource_owner"] == "alice"
    text = (Path(__file__).parents[2] / "src/tallystick/policy/rules/rbac.rego").read_text().splitlines()
    (line,) = next(held["fired"] for held in explained["rules"] if held["rule"] == "reason")
    assert "non-owned entities" in text[int(line.split(":")[1]) - 1]
    drawn = policy("explain", *asked).out
    assert drawn.startswith("denied: actor lacks delete permission on non-owned entities [rbac@2]")


def test_explain_tells_every_way_in_which_a_rule_held(policy: Policy, tmp_path: Path) -> None:
    (tmp_path / "own.rego").write_text(
        "package own\nimport rego.v1\n"
        "decision := count(ways) > 0\n"
        "ways contains 1 if input.actor\n"
        "ways contains 2 if {\n\tinput.actor == \"eve\"\n}\n"
        "ways contains 3 if {\n\tsome role in input.actor_roles\n\trole == \"writer\"\n}\n"
    )  # fmt: skip
    found = policy("explain", "--policy", "own.rego", "--actor", "ada", "--role", "writer", "--json").json
    held = {each["rule"]: each for each in found["rules"]}
    assert (held["ways"]["value"], held["ways"]["fired"]) == ([1, 3], ["own.rego:4", "own.rego:8"])
    assert found["decision"]["allowed"]


@pytest.mark.parametrize(
    "condition",
    [
        'input.actor == "ada"',
        '"ada" == input.actor',
        "input.actor == `ada`",
        '"a" == "a"',
        '"writer" in input.actor_roles',
    ],
)
def test_explain_reads_conditions_that_begin_or_end_with_a_text(policy: Policy, tmp_path: Path, condition: str) -> None:
    text = 'decision := {"result": allow, "reason": "r", "policy_version": "own@1"}'
    (tmp_path / "own.rego").write_text(
        f"package own\nimport rego.v1\n{text}\ndefault allow := false\nallow if {condition}"
    )
    found = policy("explain", "--policy", "own.rego", "--actor", "ada", "--role", "writer", "--json").json
    assert {"rule": "allow", "value": True, "fired": ["own.rego:5"]} in found["rules"]


def test_explain_answers_for_a_line_of_the_audit_log(policy: Policy, audited: Path) -> None:
    found = policy("explain", "--seq", 3, "--json")
    assert (found.code, found.json["decision"]["reason"]) == (0, "role writer may WRITE")
    for seq, problem in ((1, "line 1 of the audit log is no decision"), (99, "has no line 99")):
        with pytest.raises(NotFound, match=problem):
            policy("explain", "--seq", seq)


@promise("FR-003, dry run", "a candidate policy is tried on what really happened")
def test_replay_tells_what_another_policy_would_have_decided(policy: Policy, audited: Path) -> None:
    (audited / "own.rego").write_text(LENIENT)
    found = policy("replay", "own.rego", "--json")
    assert found.code == 1
    told = found.json
    counts = {name: told[name] for name in ("asked", "skipped", "denied_now", "allowed_now", "same")}
    assert counts == {"asked": 3, "skipped": 1, "denied_now": 1, "allowed_now": 0, "same": False}
    assert [(each["seq"], each["action"], each["decision"], each["decision_now"]) for each in told["changed"]] == [
        (3, "WRITE", True, False)
    ]
    drawn = policy("replay", "own.rego").out
    assert "3 decisions asked again, 1 skipped that no policy decided: 1 would be denied, 0 would be allowed" in drawn


def test_replay_through_the_same_policy_changes_nothing(policy: Policy, audited: Path) -> None:
    assert policy("replay", "rbac").code == 0
    since = policy("replay", "closed", "--since", "2025-01-03", "--json")
    assert since.json["denied_now"] == 1


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("replay", "rbac"), "there is no audit log"),
        (("check", "nothing.rego"), "there is no policy 'nothing.rego'"),
        (("explain", "--action", "GRANT"), "there is no action 'GRANT'"),
    ],
)
def test_what_is_not_there_is_said_plainly(policy: Policy, arguments: tuple[str, ...], problem: str) -> None:
    with pytest.raises((NotFound, InvalidArgument), match=problem):
        policy(*arguments)


def test_a_time_that_is_none_is_refused(policy: Policy, audited: Path) -> None:
    with pytest.raises(InvalidArgument):
        policy("replay", "rbac", "--since", "yesterday")


def test_show_prints_what_can_be_used_again(policy: Policy, tmp_path: Path) -> None:
    (tmp_path / "mine.rego").write_text(policy("show", "rbac").out)
    decision = Embedded("mine.rego").decide(Request(Principal(actor="a", roles=("reader",)), Action.READ))
    assert decision == Decision(True, "role reader may READ", "rbac@2")


def test_replay_counts_the_changed_decisions_that_it_does_not_list(
    policy: Policy, audited: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "CHANGED_MAX", 1)
    found = policy("replay", "closed", "--json").json
    assert (found["denied_now"], len(found["changed"]), found["changed_omitted"]) == (2, 1, 1)
    assert "the first 1 are listed; 1 more are only counted" in policy("replay", "closed").err
