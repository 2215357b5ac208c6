"""What git is asked about a file or a line, in real repositories, also in those that mean harm."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tallystick.errors import InvalidArgument, LimitExceeded, NotFound, TallystickError
from tallystick.extensions.why import git_history
from tallystick.extensions.why.git_history import GitHistory
from tallystick.toolsets.knowledge.freshness import Repository
from tests.promises import promise
from tests.toolsets.knowledge.agents import Checkout

PAGE = "src/checkout/page.ts"


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "shop")


def history(root: Path, base: Path | None = None) -> GitHistory:
    return GitHistory(Repository(root), base=base or root.parent / "base")


def commit(checkout: Checkout, path: str, content: str, message: str = "work") -> str:
    checkout.write(path, content)
    checkout.git("add", "--all")
    checkout.git("commit", "--quiet", "--message", message)
    return checkout.git("rev-parse", "HEAD")


def blamed(checkout: Checkout, path: str, line: int) -> str | None:
    found = history(checkout.root).blame(path, line).commit
    return None if found is None else found.id


def asked(root: Path, file: str, line: int | None) -> object:
    found = history(root)
    path = found.path_of(file)
    return found.touching(path) if line is None else found.blame(path, line)


def refused(root: Path, file: str, line: int | None = None) -> TallystickError:
    with pytest.raises(TallystickError) as raised:
        asked(root, file, line)
    assert str(root) not in raised.value.message
    return raised.value


def test_a_line_leads_to_the_commit_that_wrote_it(checkout: Checkout) -> None:
    first = commit(checkout, PAGE, "a\nb\n")
    second = commit(checkout, PAGE, "a\nB\n", "capital")
    assert blamed(checkout, PAGE, 1) == first
    found = history(checkout.root).blame(PAGE, 2)
    assert found.commit is not None
    assert (found.commit.id, found.commit.author, found.commit.summary) == (second, "tester", "capital")
    assert found.commit.at.endswith("Z")
    assert not found.is_cut


def test_what_is_not_committed_has_no_commit(checkout: Checkout, tmp_path: Path) -> None:
    first = commit(checkout, PAGE, "a\n")
    checkout.write(PAGE, "new\na\n")
    assert (blamed(checkout, PAGE, 1), blamed(checkout, PAGE, 2)) == (None, first)
    checkout.write("untracked", "x")
    assert blamed(checkout, "untracked", 1) is None
    assert history(checkout.root).touching("untracked").commits == ()
    checkout.git("add", "untracked")
    assert blamed(checkout, "untracked", 1) is None
    empty = tmp_path / "empty"
    subprocess.run(["git", "init", "--quiet", str(empty)], check=True)
    (empty / "file").write_text("x")
    assert history(empty).blame("file", 1).commit is None
    assert history(empty).touching("file").commits == ()


def test_a_renamed_file_is_followed(checkout: Checkout) -> None:
    first = commit(checkout, "old.ts", "".join(f"line {number}\n" for number in range(20)))
    checkout.git("mv", "old.ts", "new.ts")
    checkout.git("commit", "--quiet", "--message", "rename")
    found = history(checkout.root).blame("new.ts", 3).commit
    assert found is not None
    assert (found.id, found.file) == (first, "old.ts")
    assert first in history(checkout.root).touching("new.ts").commits
    assert first in history(checkout.root).touching("old.ts").commits


@promise("why, git, names", "names that look like options, patterns or revisions are files")
def test_names_that_look_like_options_patterns_or_revisions_are_files(checkout: Checkout) -> None:
    for name in ("-odd", "--output=x", ":(top)src", "*.ts", "a\nb", "HEAD", "ünï"):
        wrote = commit(checkout, name, f"unlike any other: {name}\n")
        assert blamed(checkout, name, 1) == wrote
        assert history(checkout.root).touching(history(checkout.root).path_of(name)).commits == (wrote,)
    assert not (checkout.root / "x").exists()


@pytest.mark.parametrize("name", ["a\nb", 'quo"te', "back\\slash", "\x01bell\a", "ünï", os.fsdecode(b"\xff"), "d/a\tb"])
def test_a_name_that_git_quotes_is_the_same_name(checkout: Checkout, name: str) -> None:
    (checkout.root / name).parent.mkdir(exist_ok=True)
    commit(checkout, name, "".join(f"{name!r} {number}\n" for number in range(20)))
    found = history(checkout.root).blame(name, 3).commit
    assert found is not None
    assert found.file is None
    checkout.git("mv", "--", name, "new")
    checkout.git("commit", "--quiet", "--message", "rename")
    renamed = history(checkout.root).blame("new", 3).commit
    assert renamed is not None
    assert renamed.file == os.fsencode(name).decode(errors="replace")


def test_a_directory_in_the_work_tree_may_be_the_root(checkout: Checkout) -> None:
    wrote = commit(checkout, PAGE, "a\n")
    found = history(checkout.root / "src").blame("checkout/page.ts", 1).commit
    assert found is not None
    assert (found.id, found.file) == (wrote, None)


@promise("why, git, outside", "what lies outside the repository or is not there is refused")
def test_what_lies_outside_or_is_not_there_is_refused(checkout: Checkout, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x\n")
    os.symlink(tmp_path / "secret", checkout.root / "link")
    os.symlink(tmp_path, checkout.root / "directory")
    os.mkfifo(checkout.root / "pipe")
    for file in ("../secret", str(tmp_path / "secret"), "link", "directory/secret", ".", "/"):
        assert refused(checkout.root, file, 1).code == "OUTSIDE_REPOSITORY"
    assert isinstance(refused(checkout.root, "a\0b"), InvalidArgument)
    for file in ("missing", "src", "pipe", ".git/config"):
        assert refused(checkout.root, file, 1).code == "FILE_NOT_FOUND"
    assert refused(checkout.root, "missing").code == "FILE_NOT_FOUND"
    assert refused(checkout.root, PAGE, 2).code == "LINE_NOT_FOUND"
    assert refused(checkout.root, PAGE, 0).code == "INVALID_ARGUMENT"


def test_a_link_within_the_repository_leads_to_the_file(checkout: Checkout) -> None:
    os.symlink("page.ts", checkout.root / "src/checkout/alias.ts")
    assert history(checkout.root).path_of("src/checkout/alias.ts") == PAGE


def test_the_base_is_not_looked_at(checkout: Checkout) -> None:
    commit(checkout, "memory/notes", "secret\n")
    with pytest.raises(NotFound):
        history(checkout.root, base=checkout.root / "memory").path_of("memory/notes")
    with pytest.raises(NotFound):
        history(checkout.root, base=checkout.root)


def test_binary_and_very_large_files_have_no_lines(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    wrote = commit(checkout, "image", "\0\n\n")
    assert refused(checkout.root, "image", 1).code == "NO_LINES"
    assert history(checkout.root).touching("image").commits == (wrote,)
    monkeypatch.setattr(git_history, "FILE_BYTES_MAX", 2)
    assert isinstance(refused(checkout.root, PAGE, 1), LimitExceeded)


def test_a_submodule_is_a_repository_of_its_own(checkout: Checkout, tmp_path: Path) -> None:
    other = Checkout(tmp_path / "other")
    checkout.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other.root), "inner")
    error = refused(checkout.root, "inner/README.md", 1)
    assert error.code == "OUTSIDE_REPOSITORY"
    assert "'inner'" in error.message
    assert history(checkout.root / "inner").blame("README.md", 1).commit is not None


def test_a_shallow_clone_says_that_it_ends(checkout: Checkout, tmp_path: Path) -> None:
    commit(checkout, "other", "x\n")
    shallow = tmp_path / "shallow"
    checkout.git("clone", "--quiet", "--depth=1", f"file://{checkout.root}", str(shallow))
    assert history(shallow).blame(PAGE, 1).is_cut
    assert history(shallow).touching(PAGE).is_cut
    assert not history(checkout.root).blame(PAGE, 1).is_cut


@promise("why, git, safe", "nothing that the repository configures is run")
def test_nothing_that_the_repository_configures_is_run(checkout: Checkout, tmp_path: Path) -> None:
    wrote = commit(checkout, PAGE, "a\nb\n")
    trap = tmp_path / "trap"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho $0 >> {trap}\ncat\n")
    program.chmod(0o755)
    (checkout.root / ".git/info/attributes").write_text("* diff=evil filter=evil\n")
    for name in (
        *("diff.evil.textconv", "diff.evil.command", "filter.evil.clean", "filter.evil.smudge", "filter.evil.process"),
        *("diff.external", "core.pager", "core.fsmonitor", "gpg.program", "core.sshCommand", "pager.blame"),
    ):
        checkout.git("config", name, str(program))
    checkout.git("config", "filter.evil.required", "true")
    checkout.git("config", "log.showSignature", "true")
    for hook in ("post-checkout", "post-index-change", "reference-transaction"):
        (checkout.root / ".git/hooks").mkdir(exist_ok=True)
        os.symlink(program, checkout.root / ".git/hooks" / hook)
    (checkout.root / PAGE).write_text("a\nc\n")
    assert (blamed(checkout, PAGE, 1), blamed(checkout, PAGE, 2)) == (wrote, None)
    assert wrote in history(checkout.root).touching(PAGE).commits
    assert not trap.exists()


def test_the_environment_names_no_other_repository(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrote = commit(checkout, PAGE, "a\n")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert blamed(checkout, PAGE, 1) == wrote


def test_without_git_or_a_repository_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    assert refused(plain, "file").code == "NO_REPOSITORY"
    assert refused(tmp_path / "missing", "file").code == "NO_REPOSITORY"
    with pytest.raises(NotFound, match="no repository is named"):
        GitHistory(Repository(falls_back=False), base=tmp_path)
    Checkout(tmp_path / "shop")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refused(tmp_path / "shop", PAGE).code == "NO_GIT"


@promise("why, git, bounded", "time and output of git are bounded")
def test_time_and_output_are_bounded(checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = history(checkout.root)
    monkeypatch.setattr(git_history, "SECONDS_MAX", 0.0)
    with pytest.raises(LimitExceeded):
        GitHistory(Repository(checkout.root), base=tmp_path / "base")
    monkeypatch.setattr(git_history, "OUTPUT_BYTES_MAX", 10)
    with pytest.raises(LimitExceeded):
        found.blame(PAGE, 1)


def test_a_damaged_repository_is_a_clear_error(checkout: Checkout) -> None:
    wrote = commit(checkout, PAGE, "a\n")
    (checkout.root / ".git/objects" / wrote[:2] / wrote[2:]).unlink()
    assert refused(checkout.root, PAGE).code == "GIT_FAILED"
