"""The repository around a directory: what git would find, or none; and the memory that lies in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tallystick.config import data_directory, load, why_this_base
from tallystick.system.repository import find_memory, find_repository
from tests.promises import promise


def git(directory: Path, *words: str) -> str:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    identity = ("-c", "user.name=ada", "-c", "user.email=ada@example.org", "-c", "protocol.file.allow=always")
    ran = subprocess.run(["git", *identity, *words], cwd=directory, env=environ, capture_output=True, check=True)
    return ran.stdout.decode().strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    root.mkdir()
    git(root, "init", "-q")
    git(root, "commit", "-q", "--allow-empty", "-m", "first")
    return root


@pytest.fixture
def memory(repository: Path) -> Path:
    made = repository / ".git" / "tallystick"
    made.mkdir()
    return made


@promise("base, repository", "from every subdirectory the memory of the repository is the base")
def test_from_every_subdirectory_the_memory_of_the_repository_is_the_base(repository: Path, memory: Path) -> None:
    below = repository / "src" / "deep"
    below.mkdir(parents=True)
    for directory in (repository, repository / "src", below):
        assert load({}, environ={}, working=directory).base == memory
        assert why_this_base(memory, directory) == "the memory of this repository"


def test_a_repository_without_a_memory_has_the_users(repository: Path) -> None:
    found = load({}, environ={}, working=repository).base
    assert found == data_directory()
    assert "your data directory" in why_this_base(found, repository)


def test_who_names_a_base_is_heard_first(repository: Path, memory: Path, tmp_path: Path) -> None:
    assert load({"base": tmp_path / "a"}, environ={}, working=repository).base == tmp_path / "a"
    assert load({}, environ={"BASE_PATH": "b"}, working=repository).base == repository / "b"
    assert "--base" in why_this_base(repository / "b", repository)


@promise("base, work trees", "all work trees of a repository share its memory")
def test_all_work_trees_share_it(repository: Path, memory: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", str(tmp_path / "other"))
    inside = tmp_path / "other" / "inside"
    inside.mkdir()
    assert find_memory(inside) == memory.resolve()
    found = find_repository(inside)
    assert found is not None
    assert found.root == tmp_path / "other"
    assert found.common == Path(git(inside, "rev-parse", "--path-format=absolute", "--git-common-dir"))


def test_a_work_tree_of_a_bare_repository_shares_its_memory(repository: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repository), "bare.git")
    git(tmp_path / "bare.git", "worktree", "add", "-q", str(tmp_path / "tree"))
    (tmp_path / "bare.git" / "tallystick").mkdir()
    assert find_memory(tmp_path / "tree") == (tmp_path / "bare.git" / "tallystick").resolve()


def test_what_looks_like_a_bare_repository_is_none_since_a_clone_can_bring_it(repository: Path, memory: Path) -> None:
    """Git's own discovery would take it for one: that is how a clone smuggles a configuration in."""
    git(repository, "init", "-q", "--bare", "fixtures/evil")
    evil = repository / "fixtures" / "evil"
    (evil / "tallystick").mkdir()
    assert git(evil, "rev-parse", "--is-bare-repository") == "true"
    assert find_memory(evil) == memory


def test_a_submodule_is_a_repository_of_its_own(repository: Path, memory: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "-q")
    git(library, "commit", "-q", "--allow-empty", "-m", "first")
    git(repository, "submodule", "--quiet", "add", str(library), "vendor/library")
    within = repository / "vendor" / "library"
    assert find_memory(within) is None
    own = Path(git(within, "rev-parse", "--path-format=absolute", "--git-common-dir")) / "tallystick"
    own.mkdir()
    assert find_memory(within) == own


def test_outside_of_any_repository_there_is_none(tmp_path: Path) -> None:
    assert find_repository(tmp_path) is None
    assert find_memory(tmp_path / "missing" / "directory") is None


def test_what_is_another_users_is_not_ours(repository: Path, memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert find_repository(repository) is None
    assert find_memory(repository) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="to give a file away needs root")
@pytest.mark.parametrize("given", [".git", ".git/tallystick"])
def test_nor_is_what_was_given_away(repository: Path, memory: Path, given: str) -> None:
    os.chown(repository / given, 65534, 65534)
    assert find_memory(repository) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="to give a file away needs root")
def test_another_user_cannot_point_to_a_repository_of_ours(repository: Path, memory: Path, tmp_path: Path) -> None:
    trap = tmp_path / "shared"
    trap.mkdir()
    (trap / ".git").write_text(f"gitdir: {repository / '.git'}\n")
    assert find_memory(trap) == memory.resolve()
    os.chown(trap / ".git", 65534, 65534)
    assert find_memory(trap) is None


def _pipe(place: Path) -> None:
    os.mkfifo(place)


def _loop(place: Path) -> None:
    place.symlink_to(place)


def _text(content: bytes) -> Callable[[Path], None]:
    def make(place: Path) -> None:
        place.write_bytes(content)

    return make


HOSTILE: dict[str, Callable[[Path], None]] = {
    "empty": _text(b""),
    "no pointer": _text(b"hello"),
    "to nowhere": _text(b"gitdir: /nowhere/at/all\n"),
    "to itself": _text(b"gitdir: .git\n"),
    "to a directory that is no repository": _text(b"gitdir: ..\n"),
    "a NUL": _text(b"gitdir: a\0b\n"),
    "no UTF-8": _text(b"gitdir: \xff\xfe\n"),
    "huge": _text(b"gitdir: " + b"../" * 1_000_000),
    "a name that is too long": _text(b"gitdir: " + b"a" * 5000),
    "a pipe": _pipe,
    "a link to itself": _loop,
    "an empty directory": lambda place: place.mkdir(),
}


@promise("base, hostile", "a hostile .git file means no repository")
@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_git_file_means_no_repository(tmp_path: Path, make: Callable[[Path], None]) -> None:
    inside = tmp_path / "trap" / "inside"
    inside.mkdir(parents=True)
    make(tmp_path / "trap" / ".git")
    assert find_repository(inside) is None
    assert load({}, environ={}, working=inside).base == data_directory()


@pytest.mark.parametrize("make", [_pipe, _loop, _text(b""), _text(b"\0"), _text(b"/nowhere"), _text(b"x" * 100_000)])
def test_so_does_a_hostile_commondir(repository: Path, memory: Path, make: Callable[[Path], None]) -> None:
    make(repository / ".git" / "commondir")
    assert find_memory(repository) is None


def test_a_memory_that_is_a_link_or_a_file_is_none(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    place = repository / ".git" / "tallystick"
    place.symlink_to(tmp_path / "mine")
    assert find_memory(repository) is None
    place.unlink()
    place.write_text("")
    assert find_memory(repository) is None


def test_it_needs_the_standard_library_alone() -> None:
    """The hook starts with it."""
    code = (
        "import sys; before = set(sys.modules); import tallystick.system.repository\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "sys.exit(sorted(new - sys.stdlib_module_names - {'tallystick'}) or 0)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
