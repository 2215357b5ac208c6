"""Rego in process: what is refused when it is loaded, and what happens to what was not."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
import regorus  # type: ignore[import-untyped]  # it ships no stubs

from tallystick.errors import InvalidArgument, NotFound
from tallystick.policy import Action, Decision, Principal, Request, rego
from tallystick.policy.bundle import SHIPPED, Bundle, Module, find_bundle, read_bundle
from tallystick.policy.embedded import Embedded
from tallystick.policy.rego import Engine, RegoError, engine_for
from tests.promises import promise

HEAD = "package own\nimport rego.v1\n"
T = TypeVar("T")
ASK = Request(Principal(actor="ada", roles=("writer",)), Action.READ, "plan")


def bundle(text: str, *more: Module) -> Bundle:
    return Bundle("own", (Module("own.rego", HEAD + text), *more))


def elsewhere(work: Callable[[], T]) -> list[T]:
    """What it came to, in a thread of its own."""
    done: list[T] = []
    thread = threading.Thread(target=lambda: done.append(work()))
    thread.start()
    thread.join()
    return done


def raised_by(work: Callable[[], object]) -> BaseException:
    try:
        work()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


BROKEN = {
    "syntax": ("decision := {", "own.rego:3:14: expecting expression"),
    "unknown function": ("decision := allowed_by(input)", "allowed_by"),
    "unsafe variable": ("decision := x if x == y", "own.rego:3"),
    "contradiction": ("decision := true\ndecision := false", "own.rego:4"),
    "not a decision": ('decision := "yes"', "it is a str"),
    "no decision": ("allow := true", "no rule is called 'decision'"),
    "a rule that needs itself": ("decision := other\nother := decision", "recurses"),
    "a function that calls itself": ("decision := f(1)\nf(x) := f(x)", "recurses"),
    "functions that call each other": ("decision := f(1)\nf(x) := g(x)\ng(x) := data.own.f(x)", "recurses"),
    "division by zero": ("decision := 1 / 0", "own.rego:3"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_policy_is_refused_when_it_is_loaded(name: str) -> None:
    text, problem = BROKEN[name]
    with pytest.raises(InvalidArgument) as refused:
        Embedded(bundle(text))
    assert refused.value.code == "POLICY_INVALID"
    assert problem in refused.value.message
    assert "backtrace" not in refused.value.message


def test_recursion_is_found_across_files_and_imports() -> None:
    other = Module("other.rego", "package other\nimport rego.v1\nimport data.own\nh(x) := own.decision\n")
    with pytest.raises(InvalidArgument, match="recurses"):
        Embedded(bundle("decision := data.other.h(1)", other))


def test_rules_that_use_each_other_without_a_circle_are_fine() -> None:
    helper = Module("helper.rego", 'package helper\nimport rego.v1\nknows(x) if x in {"ada"}\n')
    text = "import data.helper\ndecision if { named; helper.knows(input.actor) }\nnamed if input.actor"
    assert Embedded(bundle(text, helper)).decide(ASK).allowed


def test_two_packages_that_decide_are_one_too_many() -> None:
    with pytest.raises(InvalidArgument, match="other and own both have a 'decision'"):
        Embedded(bundle("decision := true", Module("other.rego", "package other\ndecision := true\n")))


def test_a_policy_that_fails_for_some_denies_them_and_goes_on() -> None:
    policy = Embedded(bundle('decision := to_number(input.actor) == 1 if input.actor != "nobody"'))
    for _ in range(2):
        assert policy.decide(ASK).fault == "error"
        assert policy.decide(Request(Principal(actor="1"), Action.READ)).allowed


def test_a_panic_of_the_engine_is_an_error_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that another thread made panics, which is no Exception."""
    foreign: Any = regorus.Engine()
    engine = Engine((Module("own.rego", HEAD + "decision := true"),))
    monkeypatch.setattr(Engine, "_engine", property(lambda _: foreign))
    [told] = elsewhere(lambda: raised_by(lambda: engine.evaluate("data.own.decision", {})))
    assert type(told) is RegoError


def test_an_engine_answers_only_the_thread_that_made_it() -> None:
    engine = Engine((Module("own.rego", HEAD + "decision := true"),))
    [told] = elsewhere(lambda: raised_by(lambda: engine.evaluate("data.own.decision", {})))
    assert "the thread that made it" in str(told)
    assert engine.evaluate("data.own.decision", {}) is True


def test_a_policy_may_be_let_go_of_by_any_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    complaints: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda complaint: complaints.append(complaint.exc_value))
    policies = [Embedded("rbac")]
    refusals = [raised_by(partial(Embedded, bundle(text))) for text, _ in BROKEN.values()]

    def release() -> None:
        policies.clear()
        refusals.clear()
        gc.collect()

    elsewhere(release)
    assert complaints == []


def test_engines_that_nobody_asks_any_more_are_dropped_by_the_thread_that_made_them() -> None:
    def kept_after(policies: int) -> int:
        for _ in range(policies):
            Embedded(bundle("decision := true"))
        return len(rego._own.engines)

    assert elsewhere(lambda: kept_after(3)) == elsewhere(lambda: kept_after(30))


def test_each_thread_asks_an_engine_of_its_own() -> None:
    policy = Embedded("rbac")
    found: list[Decision] = []
    threads = [threading.Thread(target=lambda: found.append(policy.decide(ASK))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [Decision(True, "role writer may READ", "rbac@2")] * 4


@promise("L30, too slow", "one that took too long is a denial")
def test_a_decision_that_took_too_long_is_a_denial() -> None:
    policy = Embedded(bundle("decision if count(numbers.range(1, 20000)) > 0"), timeout_ms=0.5)
    assert (policy.decide(ASK).allowed, policy.decide(ASK).fault) == (False, "timeout")


def test_what_a_policy_prints_goes_nowhere(capfd: pytest.CaptureFixture[str]) -> None:
    assert Embedded(bundle('decision if { print("secret", input) }')).decide(ASK).allowed
    assert capfd.readouterr() == ("", "")


def test_a_policy_without_a_version_is_known_by_its_files(tmp_path: Path) -> None:
    for folder, text in (("a", "decision := true"), ("b", "decision := true"), ("c", "decision := false")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "own.rego").write_text(HEAD + text)
    a, b, c = (Embedded(str(tmp_path / folder)).policy_version for folder in "abc")
    assert a == b != c
    assert a.startswith("sha256:")


def test_data_beside_the_rules_is_part_of_the_policy(tmp_path: Path) -> None:
    (tmp_path / "own.rego").write_text(HEAD + "decision if input.actor in data.staff")
    (tmp_path / "staff.json").write_text('{"staff": ["ada"]}')
    policy = Embedded(str(tmp_path))
    assert policy.decide(ASK).allowed
    version = policy.policy_version
    (tmp_path / "staff.json").write_text('{"staff": ["grace"]}')
    assert policy.reload_if_changed()
    assert not policy.decide(ASK).allowed
    assert policy.policy_version != version


@pytest.mark.parametrize("content", ["[1]", "{", "\xff"])
def test_data_that_is_no_object_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "own.rego").write_text(HEAD + "decision := true")
    (tmp_path / "data.json").write_text(content, encoding="latin-1")
    with pytest.raises(InvalidArgument, match=r"data\.json"):
        read_bundle(tmp_path)


def test_a_pipe_among_the_files_is_not_waited_for_and_byte_order_marks_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.rego").write_text("package tallystick\n", "utf-8-sig")
    assert read_bundle(tmp_path).modules == (Module("a.rego", "package tallystick\n"),)
    os.mkfifo(tmp_path / "b.rego")
    with pytest.raises(InvalidArgument, match=r"b\.rego cannot be read"):
        read_bundle(tmp_path)


def test_a_policy_that_is_not_there_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no policy"):
        find_bundle(str(tmp_path / "nothing.rego"))
    with pytest.raises(NotFound, match=r"no \.rego file"):
        find_bundle(str(tmp_path))


def test_tests_beside_a_policy_are_not_part_of_it() -> None:
    for name in SHIPPED:
        found = find_bundle(name)
        assert [module.name for module in found.modules] == [f"{SHIPPED[name]}.rego"]
        assert [module.name for module in found.tests] == [f"{SHIPPED[name]}_test.rego"]


CONSULTED: dict[str, tuple[str, set[str] | None]] = {
    "by name": ('decision if input.actor == "ada"', {"actor"}),
    "in brackets": ('decision if input["resource"] == "a"', {"resource"}),
    "deep": ("decision if input.context.tenant_id == input.actor_roles[0]", {"context.tenant_id", "actor_roles"}),
    "nothing": ("decision := true", set()),
    "in another rule": ('decision if other\nother if input.action == "READ"', {"action"}),
    "in an index": ('decision if {"ada": true}[input.actor]', {"actor"}),
    "in a comprehension": ("decision if count([role | some role in input.actor_roles]) > 0", {"actor_roles"}),
    "all of it": ("decision if count(input) > 0", None),
    "by a variable": ('decision if { some name; input[name] == "ada" }', None),
    "by another name": ("decision if { asked := input; asked.actor }", None),
    "all of the context": ("decision if count(input.context) > 0", None),
    "in place of it": ('decision if other with input as {"actor": "x"}\nother if input.actor', None),
    "the clock": ("decision if time.now_ns() > 0", None),
    "chance": ('decision if rand.intn("x", 2) >= 0', None),
}


@pytest.mark.parametrize("name", CONSULTED)
def test_what_a_policy_consults_is_known_when_it_is_loaded(name: str) -> None:
    text, consulted = CONSULTED[name]
    assert engine_for(bundle(text)).consulted == (None if consulted is None else frozenset(consulted))


def test_an_import_of_the_question_counts_as_consulting_it() -> None:
    whole = Module("p.rego", "package p\nimport rego.v1\nimport input as asked\ndecision if asked.actor\n")
    part = Module("p.rego", "package p\nimport rego.v1\nimport input.resource as what\ndecision if what\n")
    assert Engine([whole]).consulted is None
    assert Engine([part]).consulted == frozenset({"resource"})


def test_questions_that_the_policy_cannot_tell_apart_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = Embedded("single-user")
    asked = count_questions(monkeypatch)
    for number in range(3):
        assert policy.decide(Request(Principal("ada"), Action.WRITE, f"n{number}", timestamp=f"t{number}")).allowed
    assert not policy.decide(Request(Principal("ada"), Action.WRITE, "n0", resource_owner_tenant="acme")).allowed
    assert len(asked) == 2


def test_the_type_that_is_written_makes_a_difference_where_the_policy_asks_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for text, told in (('decision if input.written_type == "note"', [True, False, True]), ("decision := true", [True])):
        policy = Embedded(bundle(text))
        asked = count_questions(monkeypatch)
        found = [policy.decide(Request(Principal("ada"), Action.WRITE, "n", written_type=each)).allowed
                 for each in ("note", "sealed", "note")]  # fmt: skip
        assert found == (told * 3)[:3]
        assert len(asked) == len(set(told))


@pytest.mark.parametrize(
    "text",
    [
        'decision if input.resource != "n1"',
        'decision if input.context.timestamp != "t1"',
        'decision := {"result": input.actor == "ada", "cacheable": false}',
        "decision if time.now_ns() > 0",
    ],
)
def test_a_policy_that_may_answer_otherwise_is_asked_each_time(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = Embedded(bundle(text))
    asked = count_questions(monkeypatch)
    for number in range(3):
        policy.decide(Request(Principal("ada"), Action.WRITE, f"n{number}", timestamp=f"t{number}"))
    assert len(asked) == 3


def test_a_changed_policy_answers_anew_what_was_asked_before(tmp_path: Path) -> None:
    file = tmp_path / "policy.rego"
    file.write_text("package p\ndecision := true\n")
    policy = Embedded(str(tmp_path))
    assert policy.decide(ASK).allowed
    file.write_text("package p\ndecision := false\n")
    assert policy.reload()
    assert not policy.decide(ASK).allowed


def count_questions(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    asked: list[dict[str, Any]] = []
    evaluate = Engine.evaluate

    def counted(engine: Engine, path: str, question: dict[str, Any]) -> Any:
        asked.append(question)
        return evaluate(engine, path, question)

    monkeypatch.setattr(Engine, "evaluate", counted)
    return asked
