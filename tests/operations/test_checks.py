"""Checks of a repository: allowed by a person, run, recorded with hashes, and demanded before work is done."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick.errors import Denied, InvalidArgument, NotFound
from tallystick.extensions.proofs.receipts import evidence_of
from tallystick.operations.checks import (
    allowed_file,
    choose,
    find_checks,
    require_allowed,
    run_checks,
    tree_digest,
)
from tests.command_line import CommandLine
from tests.journeys.work_client import worker
from tests.promises import promise

CHECKS = """[checks]
test = "sh -c 'echo ran; test -e good'"
env = ["sh", "-c", "env | grep -c CHECKPOINT_PRIVATE_KEY; true"]
"""


def git(repository: Path, *words: str) -> str:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    ran = subprocess.run(["git", *identity, *words], cwd=repository, env=environ, check=True, capture_output=True)
    return ran.stdout.decode().strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "repository"
    (path / "src").mkdir(parents=True)
    git(path, "init", "-q")
    (path / "tallystick.toml").write_text(CHECKS)
    (path / "src" / "a").write_text("a")
    (path / ".gitignore").write_text("built\n")
    git(path, "add", "-A")
    git(path, "commit", "-qm", "first")
    return path


@pytest.fixture
def allowed(tmp_path: Path) -> Path:
    return tmp_path / "config" / "tallystick" / "allowed-checks.json"


def ignored(name: str) -> None: ...


# -- who may run them


@promise("checks, allowed", "nothing is run before a person allowed exactly this file; a changed one asks again")
def test_nothing_is_run_before_a_person_allowed_exactly_this_file(
    repository: Path, allowed: Path, tmp_path: Path
) -> None:
    found, base = find_checks(repository / "src"), tmp_path / "base"
    with pytest.raises(Denied, match="was never allowed"):
        require_allowed(found, allowed, base, None)
    with pytest.raises(Denied, match="was not allowed now"):
        require_allowed(found, allowed, base, lambda _: False)
    assert not allowed.exists()
    require_allowed(found, allowed, base, lambda asked: asked == found)
    require_allowed(found, allowed, base, None)
    assert allowed.stat().st_mode & 0o777 == 0o600
    (repository / "tallystick.toml").write_text(CHECKS + "# changed\n")
    with pytest.raises(Denied, match="has changed since its commands were allowed"):
        require_allowed(find_checks(repository), allowed, base, None)
    (repository / "tallystick.toml").write_text(CHECKS)
    require_allowed(find_checks(repository), allowed, base, None)


def test_a_copy_elsewhere_is_another_file_and_what_others_could_write_allows_nothing(
    repository: Path, allowed: Path, tmp_path: Path
) -> None:
    require_allowed(find_checks(repository), allowed, tmp_path / "base", lambda _: True)
    (tmp_path / "tallystick.toml").write_text(CHECKS)
    with pytest.raises(Denied, match="was never allowed"):
        require_allowed(find_checks(tmp_path), allowed, tmp_path / "base", None)
    allowed.chmod(0o666)
    with pytest.raises(Denied, match="was never allowed"):
        require_allowed(find_checks(repository), allowed, tmp_path / "base", None)
    with pytest.raises(InvalidArgument, match="lies in the base"):
        require_allowed(find_checks(repository), allowed, tmp_path, lambda _: True)


def test_what_is_allowed_is_kept_in_the_persons_configuration() -> None:
    assert allowed_file({"XDG_CONFIG_HOME": "/c"}) == Path("/c/tallystick/allowed-checks.json")
    assert allowed_file({"XDG_CONFIG_HOME": "relative"}) == Path.home() / ".config/tallystick/allowed-checks.json"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it has no table"),
        ("checks = 1", "it has no table"),
        ("[checks]\na = 1", "must be a text, or a list of words"),
        ("[checks]\na = []", "must be a text, or a list of words"),
        ("[checks]\na = ''", "must be a text, or a list of words"),
        ("[checks]\na = [1]", "must be a text, or a list of words"),
        ('[checks]\na = "\'"', "No closing quotation"),
        ("[checks", "Expected"),
        ("x = " + "[" * 10_000, "names no checks"),
    ],
)
def test_a_file_that_names_no_commands_is_refused(repository: Path, text: str, says: str) -> None:
    (repository / "tallystick.toml").write_text(text)
    with pytest.raises(InvalidArgument, match=says):
        find_checks(repository)


def test_checks_are_not_looked_for_outside_the_repository(repository: Path) -> None:
    (repository.parent / "tallystick.toml").write_text(CHECKS)
    (repository / "tallystick.toml").unlink()
    with pytest.raises(NotFound, match=r"there is no tallystick\.toml in this repository"):
        find_checks(repository / "src")


# -- what they leave


@promise("checks, hashes", "the output of a check and the tree that it ran on are hashed")
def test_the_output_and_the_tree_are_hashed(repository: Path) -> None:
    found = find_checks(repository)
    (failed,) = run_checks(found, ["test"], started=ignored)
    committed = {
        "gitTree": git(repository, "rev-parse", "HEAD^{tree}"),
        "gitCommit": git(repository, "rev-parse", "HEAD"),
    }
    assert (failed.result, failed.digest) == ("FAILED", {"sha256": sha256(b"ran\n").hexdigest(), **committed})
    assert failed.tail == "ran\n"
    (repository / "good").touch()
    (passed,) = run_checks(found, ["test"], started=ignored)
    git(repository, "add", "good")
    assert passed.result == "PASSED"
    assert passed.digest == {"sha256": failed.digest["sha256"], "gitTree": git(repository, "write-tree")}
    told = evidence_of(passed.evidence())
    assert (told.type, told.result, told.digest) == ("check", "PASSED", passed.digest)


def test_looking_at_a_tree_changes_nothing_of_the_repository(repository: Path) -> None:
    (repository / "new").write_text("new")
    (repository / "built").write_text("ignored")
    before = {path: path.read_bytes() for path in (repository / ".git").rglob("*") if path.is_file()}
    tree = tree_digest(repository / "src")
    assert {path: path.read_bytes() for path in (repository / ".git").rglob("*") if path.is_file()} == before
    (repository / "built").unlink()
    assert tree_digest(repository) == tree
    (repository / "new").write_text("other")
    assert tree_digest(repository) != tree


def test_without_a_repository_only_the_output_is_hashed(tmp_path: Path) -> None:
    (tmp_path / "tallystick.toml").write_text('[checks]\nok = "true"\ngone = "no-such-program"\nlong = "sleep 600"\n')
    found = find_checks(tmp_path)
    ok, gone = run_checks(found, ["ok", "gone"], started=ignored)
    assert (ok.result, ok.digest) == ("PASSED", {"sha256": sha256(b"").hexdigest()})
    assert (gone.result, "could not be started" in gone.tail) == ("FAILED", True)
    (long,) = run_checks(found, ["long"], seconds=0.01, started=ignored)
    assert long.result == "FAILED"


def test_a_check_does_not_get_the_key(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLYSTICK_CHECKPOINT_PRIVATE_KEY", "secret")
    (seen,) = run_checks(find_checks(repository), ["env"], started=ignored)
    assert seen.tail == "0\n"


def test_those_are_run_that_the_work_demands(repository: Path) -> None:
    found = find_checks(repository)
    assert choose(found, ["git"]) == ["test", "env"]
    assert choose(found, ["git", "check:test"]) == ["test"]
    with pytest.raises(NotFound, match="demands the check 'lint'"):
        choose(found, ["check:lint"])


# -- the story


class AtTerminal(msgspec.Struct):
    base: Path
    repository: Path
    config: Path

    def done(self, node: str, typed: str | None) -> tuple[int, str]:
        """As a person types it; None: nobody is there."""
        environ = {**os.environ, "BASE_PATH": str(self.base), "XDG_CONFIG_HOME": str(self.config), "NO_COLOR": "1"}
        command = [sys.executable, "-m", "tallystick", "work", "done", node, "--check"]
        if typed is None:
            ran = subprocess.run(
                command, cwd=self.repository, env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=False
            )
            return ran.returncode, (ran.stdout + ran.stderr).decode()
        ours, theirs = pty.openpty()
        os.write(ours, typed.encode())
        process = subprocess.Popen(
            command, cwd=self.repository, env=environ, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs
        )
        out, _ = process.communicate()
        os.close(theirs)
        seen = b"".join(iter(lambda: read_terminal(ours), b""))
        os.close(ours)
        return process.returncode, (out + seen).decode()


def read_terminal(terminal: int) -> bytes:
    """A part of what was printed; nothing once all was read that a program printed which has ended."""
    try:
        return os.read(terminal, 65_536)
    except OSError:
        return b""


@promise("checks, journey", "work that demands a check is done when a person ran it and it passed")
async def test_work_that_demands_a_check_is_done_when_a_person_ran_it_and_it_passed(
    repository: Path, tmp_path: Path
) -> None:
    base = tmp_path / "base"
    async with worker(base, "ann") as ann:
        opened = await ann.call("open", project="p", goal="shop")
        task = (await ann.plan({"ref": "task"}))["task"]
        wanted = {"require_evidence": ["check:test"]}
        await ann.call("update", updates=[{"node_id": opened["root"]["id"], "properties": wanted}])
        claimed: list[dict[str, Any]] = [{"type": "check", "ref": "test: PASSED"}]
        resolve = {"node_id": task, "resolved": True, "add_evidence": claimed}
        told = await ann.refused("update", updates=[resolve])
        assert (told["error"], told["missing"]) == ("evidence_missing", ["check:test"]), "who states it has not run it"
        terminal = AtTerminal(base, repository, tmp_path / "config")
        code, seen = terminal.done(task, None)
        assert (code, "was never allowed" in seen) == (5, True)
        code, seen = terminal.done(task, "n\n")
        assert (code, "was not allowed now" in seen) == (5, True)
        code, seen = terminal.done(task, "y\n")
        assert (code, "test: sh -c" in seen, "stays open: test failed" in seen) == (1, True, True)
        (repository / "good").touch()
        code, seen = terminal.done(task, None)
        assert (code, f"resolved {task}" in seen) == (0, True), seen
        node = (await ann.call("context", node_id=task))["node"]
        assert node["resolved"] is True
        assert [(each["name"], each["result"]) for each in node["evidence"]] == [("test", "FAILED"), ("test", "PASSED")]
        assert set(node["evidence"][1]["digest"]) == {"sha256", "gitTree"}
    await asyncio.to_thread(shown_and_projected, CommandLine(base), task)


def shown_and_projected(shell: CommandLine, task: str) -> None:
    assert "check: test: sh -c 'echo ran; test -e good' PASSED" in shell.run("work", "show", task).out
    assert shell.run("verify", "--views").code == 0, "projections take such evidence"
