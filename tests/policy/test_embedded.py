"""Rego in process: what is refused when it is loaded, and what happens to what was not."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tallystick.errors import InvalidArgument, NotFound
from tallystick.policy import Action, Decision, Principal, Request
from tallystick.policy.bundle import SHIPPED, Bundle, Module, find_bundle, read_bundle
from tallystick.policy.embedded import Embedded
from tallystick.policy.rego import Engine, RegoError

HEAD = "package own\nimport rego.v1\n"
ASK = Request(Principal(actor="ada", roles=("writer",)), Action.READ, "plan")


def bundle(text: str, *more: Module) -> Bundle:
    return Bundle("own", (Module("own.rego", HEAD + text), *more))


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


def test_a_panic_of_the_engine_is_an_error_like_any_other() -> None:
    engine = Engine((Module("own.rego", HEAD + "decision := true"),))
    found: list[BaseException] = []

    def elsewhere() -> None:
        """An engine that another thread made answers with a panic, which is no Exception."""
        try:
            engine.evaluate("data.own.decision", {})
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert [type(error) for error in found] == [RegoError]


def test_each_thread_asks_an_engine_of_its_own() -> None:
    policy = Embedded("rbac")
    found: list[Decision] = []
    threads = [threading.Thread(target=lambda: found.append(policy.decide(ASK))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [Decision(True, "role writer may READ", "rbac@1")] * 4


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
