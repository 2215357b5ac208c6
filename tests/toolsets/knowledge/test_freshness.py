"""Freshness: whether the files that an atom is about are still as they were when it was pinned."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallystick import app, config
from tallystick.errors import InvalidArgument
from tallystick.policy import Action, Decision, Principal, Request
from tallystick.state.knowledge import ATOM
from tallystick.toolsets.knowledge import freshness, make_tool_context, make_toolset
from tallystick.toolsets.knowledge.freshness import Pin, Repository
from tallystick.toolsets.knowledge.stale import find_stale, repin
from tests.promises import promise
from tests.toolsets.knowledge.agents import OTHER, SHOP, Checkout, KnowledgeAgent, keeping

Said = dict[str, Any]


def told(agent: KnowledgeAgent, atom: Said) -> tuple[bool | None, list[str] | None]:
    found = agent.get(atom)["atom"]
    return found.get("fresh"), found.get("changedFiles")


@promise("freshness", "an atom that was pinned is fresh until its files change")
def test_an_atom_that_was_pinned_is_fresh_until_its_files_change(in_repo: KnowledgeAgent, checkout: Checkout) -> None:
    atom = in_repo.atom(pin=True)
    assert told(in_repo, atom) == (True, [])
    checkout.write("README.md", "two")
    assert told(in_repo, atom) == (True, [])
    checkout.write("src/checkout/page.ts", "two")
    assert told(in_repo, atom) == (False, ["src/checkout/page.ts"])
    checkout.commit()
    assert told(in_repo, atom) == (False, ["src/checkout/page.ts"])
    checkout.write("src/checkout/page.ts", "one")
    assert told(in_repo, atom) == (True, [])


PAGE = "src/checkout/page.ts"
NEW = "src/checkout/new.ts"


def changed(checkout: Checkout) -> None:
    checkout.write(PAGE, "two")


def staged(checkout: Checkout) -> None:
    checkout.write(PAGE, "two")
    checkout.git("add", "--all")


def committed(checkout: Checkout) -> None:
    checkout.write(PAGE, "two")
    checkout.commit()


def deleted(checkout: Checkout) -> None:
    (checkout.root / PAGE).unlink()


def removed(checkout: Checkout) -> None:
    checkout.git("rm", "--quiet", PAGE)


def added(checkout: Checkout) -> None:
    checkout.write(NEW, "new")


def moved(checkout: Checkout) -> None:
    checkout.git("mv", PAGE, NEW)


def moved_away(checkout: Checkout) -> None:
    checkout.git("mv", PAGE, "page.ts")


def made_a_link(checkout: Checkout) -> None:
    (checkout.root / PAGE).unlink()
    (checkout.root / PAGE).symlink_to("cart.ts")


@promise("freshness, kinds", "a change of any kind is noticed, a commit is none")
@pytest.mark.parametrize(
    ("change", "files"),
    [
        (changed, [PAGE]),
        (staged, [PAGE]),
        (committed, [PAGE]),
        (deleted, [PAGE]),
        (removed, [PAGE]),
        (added, [NEW]),
        (moved, [NEW, PAGE]),
        (moved_away, [PAGE]),
        (made_a_link, [PAGE]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_change_of_any_kind_is_noticed_and_stays_so_when_it_is_committed(
    in_repo: KnowledgeAgent, checkout: Checkout, change: Callable[[Checkout], None], files: list[str]
) -> None:
    atom = in_repo.atom(pin=True)
    change(checkout)
    assert told(in_repo, atom) == (False, files)
    pinned = in_repo.update(atom, pin=True)
    assert told(in_repo, pinned) == (True, [])
    if checkout.git("status", "--porcelain"):
        checkout.commit()
    assert told(in_repo, pinned) == (True, []), "committing what was pinned changes nothing"


def test_ignored_files_do_not_count(in_repo: KnowledgeAgent, checkout: Checkout) -> None:
    checkout.write(".gitignore", "*.log\n")
    atom = in_repo.atom(pin=True)
    checkout.write("src/checkout/debug.log", "noise")
    assert told(in_repo, atom) == (True, [])


def test_the_context_of_files_says_what_is_fresh(in_repo: KnowledgeAgent, checkout: Checkout) -> None:
    molecule = in_repo.molecule()
    in_repo.atom("Pinned", moleculeId=molecule["id"], pin=True)
    in_repo.atom("Readme", "README.md", pin="true")
    in_repo.atom("Unpinned", "src/**")
    checkout.write("src/checkout/page.ts", "two")
    found = in_repo.context("src/checkout/cart.ts,README.md")
    atoms = {atom["name"]: atom for atom in [*found["molecules"][0]["atoms"], *found["orphanAtoms"]]}
    assert (atoms["Pinned"]["fresh"], atoms["Pinned"]["changedFiles"]) == (False, ["src/checkout/page.ts"])
    assert (atoms["Readme"]["fresh"], atoms["Readme"]["changedFiles"]) == (True, [])
    assert "fresh" not in atoms["Unpinned"]
    assert (
        atoms["Pinned"]["pinnedAt"]
        == in_repo.get(in_repo.query("search", entityType="atom", projectId=SHOP, query="Pinned")["items"][0])["atom"][
            "pinnedAt"
        ]
    )
    member = in_repo.get(molecule)["atoms"][0]
    assert (member["fresh"], member["changedFiles"]) == (False, ["src/checkout/page.ts"])


def test_a_pin_goes_with_an_update_and_comes_off_on_request(in_repo: KnowledgeAgent, checkout: Checkout) -> None:
    atom = in_repo.atom()
    assert told(in_repo, atom) == (None, None)
    atom = in_repo.update(atom, pin=True)
    assert (atom["version"], told(in_repo, atom)) == (2, (True, []))
    checkout.write("src/checkout/page.ts", "two")
    atom = in_repo.update(atom, knowledge="seen, but not pinned again")
    assert told(in_repo, atom)[0] is False
    atom = in_repo.update(atom, paths=["README.md"], pin=True)
    assert told(in_repo, atom) == (True, [])
    atom = in_repo.update(atom, pin="false")
    assert told(in_repo, atom) == (None, None)


def test_other_files_than_those_that_were_pinned_are_changed_files(in_repo: KnowledgeAgent) -> None:
    atom = in_repo.atom("A", "src/checkout/cart.ts", pin=True)
    atom = in_repo.update(atom, paths=["src/checkout/*"])
    assert told(in_repo, atom) == (False, ["src/checkout/page.ts"])


def test_the_setting_pins_without_being_asked(checkout: Checkout, tmp_path: Path) -> None:
    with keeping(repo=checkout.root, pin_knowledge=True) as agent:
        atom = agent.atom()
        assert told(agent, atom) == (True, [])
        assert told(agent, agent.atom("No", pin=False)) == (None, None)
        checkout.write("src/checkout/page.ts", "two")
        assert told(agent, agent.update(atom, name="again")) == (True, [])
    with keeping(repo=tmp_path, pin_knowledge=True) as agent:
        assert told(agent, agent.atom()) == (None, None), "without git it is as if nothing were set"


@promise("freshness, no git", "without git nothing is said")
def test_without_git_nothing_is_said_and_a_pin_is_refused(agent: KnowledgeAgent, tmp_path: Path) -> None:
    atom = agent.atom()
    assert told(agent, atom) == (None, None)
    said = {"operation": "update", "entityType": "atom", "id": atom["id"], "version": 1, "pin": True}
    error = agent.refusal("manage_graph", **said)
    assert (error["code"], error["message"]) == (
        "VALIDATION_ERROR",
        "pin needs a git work tree that can be read in time",
    )
    assert Repository(tmp_path).pin(["**"], "now") is None
    assert Repository(tmp_path / "nowhere").pin(["**"], "now") is None


def test_another_repository_has_nothing_to_say(in_repo: KnowledgeAgent, tmp_path: Path) -> None:
    atom = in_repo.atom(pin=True)
    elsewhere = make_toolset(make_tool_context(repo=Checkout(tmp_path / "other").root, clock=lambda: in_repo.now))
    in_repo.tools = {tool.name: tool for tool in elsewhere.tools}
    assert told(in_repo, atom) == (None, None)


def test_a_directory_inside_a_repository_is_a_root_of_its_own(checkout: Checkout) -> None:
    inner = Repository(checkout.root / "src")
    pin = inner.pin(["checkout/*.ts"], "now")
    assert pin is not None
    assert pin.files is not None
    assert [line.split(" ")[1] for line in pin.files.splitlines()] == ["checkout/cart.ts", "checkout/page.ts"]
    checkout.write("src/checkout/cart.ts", "two")
    assert inner.compare({1: (["checkout/*.ts"], pin)})[1].changed == ("checkout/cart.ts",)


def linked(checkout: Checkout) -> Path:
    checkout.git("worktree", "add", "--quiet", "../linked")
    return checkout.root.parent / "linked"


def reached_by_a_link(checkout: Checkout) -> Path:
    link = checkout.root.parent / "link"
    link.symlink_to(checkout.root)
    return link


@promise("freshness, root", "everywhere in the work tree the same is fresh")
@pytest.mark.parametrize(
    "reach",
    [lambda checkout: checkout.root, linked, reached_by_a_link],
    ids=["itself", "a linked work tree", "a symbolic link"],
)
def test_everywhere_in_the_work_tree_the_same_is_fresh(
    in_repo: KnowledgeAgent, checkout: Checkout, monkeypatch: pytest.MonkeyPatch, reach: Callable[[Checkout], Path]
) -> None:
    """The pin is that of a server in the root; a colleague's server is started anywhere and has nothing set."""
    atom = in_repo.atom(pin=True)
    place = reach(checkout)
    in_repo.tools = {tool.name: tool for tool in make_toolset(make_tool_context(clock=lambda: in_repo.now)).tools}
    directories = [place, place / "src", place / "src" / "checkout"]

    def seen() -> list[tuple[bool | None, list[str] | None]]:
        found = []
        for directory in directories:
            monkeypatch.chdir(directory)
            found.append(told(in_repo, atom))
        return found

    assert seen() == [(True, [])] * 3
    (place / PAGE).write_text("two")
    assert seen() == [(False, [PAGE])] * 3
    atom = in_repo.update(atom, pin=True)
    assert seen() == [(True, [])] * 3
    (place / PAGE).unlink()
    assert seen() == [(False, [PAGE])] * 3


def test_what_is_named_goes_before_the_working_directory(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout.root)
    assert Repository().root == checkout.root
    assert Repository(checkout.root / "src").root == checkout.root / "src"


def test_without_a_work_tree_the_working_directory_is_the_root_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    repository = Repository()
    with caplog.at_level("INFO", logger=freshness.logger.name):
        assert (repository.root, repository.root) == (tmp_path, tmp_path)
    assert [record.getMessage() for record in caplog.records] == [
        f"there is no git work tree around {tmp_path}: paths of knowledge are relative to it"
    ]


def test_a_working_directory_that_is_gone_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert Repository().pin(["**"], "now") is None
    assert Repository().compare({1: (["**"], Pin("x"))}) == {}


def test_of_a_submodule_the_commit_counts_and_its_files_are_its_own_affair(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Checkout(tmp_path / "library")
    checkout.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library.root), "lib")
    checkout.commit()
    monkeypatch.chdir(checkout.root / "src")
    outer = Repository()
    pin, below = outer.pin(["lib"], "now"), outer.pin(["lib/**"], "now")
    assert pin is not None
    assert below is not None
    found = outer.compare({1: (["lib"], pin), 2: (["lib/**"], below)})
    assert (found[1].fresh, found[2].fresh, found[2].matches_nothing) == (True, False, ("lib/**",))
    inner = Checkout.__new__(Checkout)
    inner.root = checkout.root / "lib"
    inner.git("-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "--quiet", "--allow-empty", "-m", "more")
    assert outer.compare({1: (["lib"], pin)})[1].changed == ("lib",)
    again = outer.pin(["lib"], "now")
    assert again is not None
    checkout.commit()
    assert outer.compare({1: (["lib"], again)})[1].fresh, "committing what was pinned changes nothing"
    monkeypatch.chdir(inner.root / "src")
    assert Repository().root == inner.root
    assert Repository().compare({1: (["lib"], again)}) == {}, "another repository has nothing to say"


# -- patterns that no file fits


@promise("freshness, matchesNothing", "what matches no file is not fresh")
def test_what_matches_no_file_is_not_fresh(in_repo: KnowledgeAgent, checkout: Checkout) -> None:
    none = in_repo.atom("None", "src/chekout/**", pin=True)
    some = in_repo.atom("Some", "src/checkout/**", "src/old/*.ts", "{docs,notes}/**", pin=True)
    found = in_repo.get(none)["atom"]
    assert (found["fresh"], found["changedFiles"], found["matchesNothing"]) == (False, [], ["src/chekout/**"])
    found = in_repo.get(some)["atom"]
    assert (found["fresh"], found["matchesNothing"]) == (True, ["src/old/*.ts", "{docs,notes}/**"])
    checkout.write("notes/a.md", "one")
    found = in_repo.get(some)["atom"]
    assert (found["fresh"], found["changedFiles"], found["matchesNothing"]) == (
        False,
        ["notes/a.md"],
        ["src/old/*.ts"],
    )


def test_a_file_that_was_deleted_leaves_its_pattern_without_any(in_repo: KnowledgeAgent, checkout: Checkout) -> None:
    atom = in_repo.atom("Page", PAGE, pin=True)
    assert "matchesNothing" not in in_repo.get(atom)["atom"]
    (checkout.root / PAGE).unlink()
    found = in_repo.context(PAGE)["orphanAtoms"][0]
    assert (found["fresh"], found["changedFiles"], found["matchesNothing"]) == (False, [PAGE], [PAGE])


def test_patterns_that_are_no_texts_match_nothing(in_repo: KnowledgeAgent) -> None:
    atom = in_repo.atom(pin=True)
    pin = {"hash": "x"}
    in_repo.node(atom["id"], "knowledge/atom", projectId=SHOP, name="A", paths=[{"a": 1}, 5], version=1, pin=pin)
    assert told(in_repo, atom) == (False, None)


def test_a_repository_without_commits_can_be_pinned(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / "a.ts").write_text("one")
    repository = Repository(tmp_path)
    pin = repository.pin(["*.ts"], "now")
    assert pin is not None
    assert pin.commit is None
    assert repository.compare({1: (["*.ts"], pin)})[1].fresh
    (tmp_path / "a.ts").write_text("two")
    assert repository.compare({1: (["*.ts"], pin)})[1].changed == ("a.ts",)
    another = tmp_path / "another"
    subprocess.run(["git", "init", "--quiet", str(another)], check=True)
    assert Repository(another).compare({1: (["*.ts"], pin)}) == {}, "another repository has nothing to say"


def test_names_of_any_kind_are_compared(checkout: Checkout) -> None:
    names = ["a b.ts", "é.ts", 'quo"te.ts', "line\nend.ts", "-dash.ts", ":(glob)x.ts"]
    for name in names:
        checkout.write(f"odd/{name}", "one")
    (checkout.root / "odd" / os.fsdecode(b"\xff.ts")).write_text("one")
    checkout.commit()
    repository = Repository(checkout.root)
    pin = repository.pin(["odd/**"], "now")
    assert pin is not None
    assert repository.compare({1: (["odd/**"], pin)})[1].fresh
    (checkout.root / "odd" / os.fsdecode(b"\xff.ts")).write_text("two")
    assert not repository.compare({1: (["odd/**"], pin)})[1].fresh
    listed = repository.pin(["odd/[a-z:\\-é]*.ts", "odd/é.ts"], "now")
    assert listed is not None
    checkout.write("odd/é.ts", "two")
    changed = repository.compare({1: (["odd/[a-z:\\-é]*.ts", "odd/é.ts"], listed)})[1]
    assert not changed.fresh


def test_many_files_are_pinned_by_their_hash_alone(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freshness, "PINNED_FILES_MAX", 1)
    with keeping(repo=checkout.root) as agent:
        atom = agent.atom(pin=True)
        assert told(agent, atom) == (True, [])
        checkout.write("src/checkout/page.ts", "two")
        assert told(agent, atom) == (False, None)


@pytest.mark.parametrize("bound", ["FILES_MAX", "HASHED_FILES_MAX", "HASHED_BYTES_MAX"])
def test_what_would_take_too_long_is_not_told(
    in_repo: KnowledgeAgent, checkout: Checkout, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    atom = in_repo.atom(pin=True)
    checkout.write("src/checkout/page.ts", "two")
    monkeypatch.setattr(freshness, bound, 0)
    assert Repository(checkout.root).pin(["src/**"], "now") is None
    monkeypatch.undo()
    assert told(in_repo, atom)[0] is False


def test_git_that_takes_too_long_is_not_waited_for(checkout: Checkout) -> None:
    pin = Repository(checkout.root).pin(["README.md"], "now")
    assert pin is not None
    hurried = Repository(checkout.root, seconds_max=0)
    assert hurried.pin(["README.md"], "now") is None
    assert hurried.compare({1: (["README.md"], pin)}) == {}


def test_only_a_few_of_many_changed_files_are_named(in_repo: KnowledgeAgent, checkout: Checkout) -> None:
    atom = in_repo.atom(pin=True)
    for number in range(25):
        checkout.write(f"src/checkout/{number:02}.ts", "new")
    found = in_repo.get(atom)["atom"]
    assert (len(found["changedFiles"]), found["changedFilesOmitted"]) == (20, 5)


def test_git_is_asked_once_for_as_long_as_its_index_stays(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = Repository(checkout.root)
    pin = repository.pin(["src/**"], "now")
    assert pin is not None
    repository.compare({1: (["src/**"], pin)})
    asked: list[str] = []
    ask = freshness._Git.ask

    def counted(git: freshness._Git, *arguments: str, said: bytes = b"") -> bytes:
        asked.append(" ".join(arguments[:2]))
        return ask(git, *arguments, said=said)

    monkeypatch.setattr(freshness._Git, "ask", counted)
    assert repository.compare({1: (["src/**"], pin)})[1].fresh
    assert asked == ["ls-files -z"]
    checkout.write("src/new.ts", "new")
    checkout.git("add", "--all")
    asked.clear()
    assert not repository.compare({1: (["src/**"], pin)})[1].fresh
    assert asked == ["ls-files -s", "ls-files -z"]


def test_a_pin_that_makes_no_sense_is_none() -> None:
    for pin in (None, "[REDACTED]", {}, {"hash": 5}, {"hash": "x", "files": 3}):
        assert freshness.read_pin({"pin": pin}) is None
    assert freshness.read_pin({"pin": {"hash": "x"}}) == Pin("x")


# -- what is stale, and pinning again


@promise("freshness, stale", "the stale are listed and can be pinned again")
def test_the_stale_are_listed_by_name_and_pinned_again_without_a_new_version(
    in_repo: KnowledgeAgent, checkout: Checkout
) -> None:
    tool_context = make_tool_context(repo=checkout.root, clock=lambda: in_repo.now)
    in_repo.atom("readme", "README.md", pin=True)
    old = in_repo.atom("Checkout", pin=True)
    in_repo.atom("also", "src/**", projectId=OTHER, pin=True)
    assert in_repo.run(find_stale(tool_context, in_repo.store, in_repo.principal)) == []
    checkout.write("src/checkout/page.ts", "two")
    found = in_repo.run(find_stale(tool_context, in_repo.store, in_repo.principal))
    assert [(atom["name"], atom["projectId"], atom["changedFiles"]) for atom in found] == [
        ("also", OTHER, ["src/checkout/page.ts"]),
        ("Checkout", SHOP, ["src/checkout/page.ts"]),
    ]
    [stale] = in_repo.run(find_stale(tool_context, in_repo.store, in_repo.principal, SHOP))
    assert stale["id"] == old["id"]
    in_repo.now += 1_000
    assert in_repo.run(repin(tool_context, in_repo.store, in_repo.principal, old["id"], tool="test")) is True
    assert in_repo.run(find_stale(tool_context, in_repo.store, in_repo.principal, SHOP)) == []
    now = in_repo.get(old)["atom"]
    assert (now["version"], now["updatedAt"] > old["updatedAt"]) == (1, True)


def test_of_the_stale_only_those_are_listed_that_may_be_read(checkout: Checkout) -> None:
    class Own:
        def decide(self, request: Request) -> Decision:
            mine = request.resource_owner in (None, request.principal.actor) or request.resource_type != ATOM
            return Decision(mine or request.action is not Action.READ, "by the rule", "1")

    with keeping(Own(), repo=checkout.root) as agent:
        tool_context = make_tool_context(repo=checkout.root, clock=lambda: agent.now)
        other = Principal(actor="other")
        agent.atom("mine", pin=True)
        me, agent.principal = agent.principal, other
        agent.atom("theirs", pin=True)
        checkout.write(PAGE, "two")
        for principal, name in ((me, "mine"), (other, "theirs")):
            found = agent.run(find_stale(tool_context, agent.store, principal))
            assert [atom["name"] for atom in found] == [name]


def test_without_git_nothing_is_stale_and_nothing_is_pinned_again(agent: KnowledgeAgent) -> None:
    atom = agent.atom()
    agent.node(atom["id"], "knowledge/atom", projectId=SHOP, name="A", paths=["a"], version=1, pin={"hash": "x"})
    tool_context = make_tool_context(repo=Path(os.devnull))
    assert agent.run(find_stale(tool_context, agent.store, agent.principal)) == []
    assert agent.run(repin(tool_context, agent.store, agent.principal, atom["id"], tool="test")) is False


def test_wholesale_changes_are_told_in_few_words(in_repo: KnowledgeAgent, checkout: Checkout) -> None:
    for number in range(60):
        in_repo.atom(f"{number}", "src/**", pin=True)
    for number in range(20):
        checkout.write(f"src/{'long' * 10}{number}.ts", "new")
    found = in_repo.context("src/x.ts")["orphanAtoms"]
    assert {(atom["fresh"], "changedFiles" in atom) for atom in found} == {(False, False)}


# -- what is not looked at


@promise("pins, base", "pins never look into the base, whatever a pattern says")
@pytest.mark.parametrize("base", ["memory", "deep/er/memory", "src/memory", "memory/../memory", "link"])
@pytest.mark.parametrize("is_tracked", [False, True])
def test_the_base_is_never_looked_into(checkout: Checkout, base: str, is_tracked: bool) -> None:
    (checkout.root / "link").symlink_to("linked")
    inside = f"{'linked' if base == 'link' else os.path.normpath(base)}/_system/log/1.jsonl"
    checkout.write(inside, "one")
    checkout.write(f"{os.path.normpath(base)}-notes.md", "beside it")
    if is_tracked:
        checkout.commit()
    repository = Repository(checkout.root, base=checkout.root / base)
    patterns = ["**", inside]
    pin = repository.pin(patterns, "now")
    assert pin is not None
    assert pin.files is not None
    assert "_system" not in pin.files
    assert "-notes.md" in pin.files
    checkout.write(inside, "two")
    found = repository.compare({1: (patterns, pin)})[1]
    assert (found.fresh, found.changed, found.matches_nothing) == (True, (), (inside,))
    # Somebody else's pin may have it.
    careless = Repository(checkout.root).pin(patterns, "now")
    assert careless is not None
    assert inside in (careless.files or "")
    checkout.write(inside, "three")
    assert repository.compare({1: (patterns, careless)})[1].changed == (inside,)


@pytest.mark.parametrize("base", [".", ".."])
def test_a_repository_in_the_base_is_not_looked_at(checkout: Checkout, base: str) -> None:
    repository = Repository(checkout.root, base=checkout.root / base)
    assert repository.pin(["**"], "now") is None
    assert repository.compare({1: (["**"], Pin("x"))}) == {}


def test_a_repository_that_must_be_named_is_not_the_one_around_us(
    in_repo: KnowledgeAgent, checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout.root)
    pinned = Repository().pin(["**"], "now")
    assert pinned is not None
    unnamed = Repository(falls_back=False)
    assert unnamed.pin(["**"], "now") is None
    assert unnamed.compare({1: (["**"], pinned)}) == {}
    assert Repository(checkout.root, falls_back=False).pin(["**"], "now") == pinned

    tool_context = make_tool_context(repo_falls_back=False, clock=lambda: in_repo.now)
    in_repo.tools = {tool.name: tool for tool in make_toolset(tool_context).tools}
    atom = in_repo.atom()
    named = {"entityType": "atom", "id": atom["id"], "version": 1, "lastTaskId": SHOP}
    refusal = in_repo.refusal("manage_graph", operation="update", **named, pin=True)
    assert "the server's settings name none" in refusal["message"]
    assert "fresh" not in in_repo.get(atom)["atom"]


@promise("pins, issuer", "with an issuer the repository is named, or nothing looks at files")
def test_with_an_issuer_the_repository_is_named_or_nothing_looks_at_files(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout.root)

    def repository(**flags: Any) -> Repository:
        settings = config.load({"base": tmp_path / "base", "issuers": "https://login.example", **flags}, environ={})
        return app.knowledge_context(settings).repository

    assert repository().is_missing
    assert not repository(issuers="").is_missing
    assert repository(repo=str(checkout.root), pin_knowledge=True).root == checkout.root
    for name in ("pin_knowledge", "stale_makes_work"):
        with pytest.raises(InvalidArgument, match=f"{name} looks at files") as refusal:
            repository(**{name: True})
        assert refusal.value.code == "SETTING_INVALID"
