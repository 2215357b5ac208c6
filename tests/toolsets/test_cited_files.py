"""The files that a fact cites: pinned when it is written, and looked at when it is shown."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from tallystick.state.staleness import Citations
from tallystick.toolsets import cited_files
from tallystick.toolsets.cited_files import CitedFiles
from tallystick.toolsets.knowledge.freshness import Repository
from tests.promises import promise
from tests.toolsets.knowledge.agents import Checkout

PAGE = "src/checkout/page.ts"
CART = "src/checkout/cart.ts"


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "shop")


def pin(files: CitedFiles, *paths: str) -> Citations:
    found = asyncio.run(files.pin(dict.fromkeys(paths)))
    return tuple(each for each in found.values() if each is not None)


def changed(files: CitedFiles, citations: Citations) -> tuple[str, ...]:
    """As a read finds out."""
    known = files.changed(citations)
    return asyncio.run(files.look_up([citations]))[citations] if known is None else known


def test_a_file_is_changed_once_it_is_edited_and_unchanged_once_that_is_undone(checkout: Checkout) -> None:
    files = CitedFiles(Repository(checkout.root))
    cited = pin(files, PAGE, CART)
    assert [each.path for each in cited] == [PAGE, CART]
    assert changed(files, cited) == ()
    checkout.write(PAGE, "two")
    assert changed(files, cited) == (PAGE,)
    checkout.commit()
    assert changed(files, cited) == (PAGE,)
    checkout.write(PAGE, "one")
    assert changed(files, cited) == ()
    (checkout.root / CART).unlink()
    assert changed(files, cited) == (CART,)


@promise("X24, files, cost", "git is not asked again while nothing moves")
def test_git_is_not_asked_again_while_nothing_moves(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    files = CitedFiles(Repository(checkout.root))
    os.utime(checkout.root / PAGE, (1, 1))
    cited = pin(files, PAGE)
    assert changed(files, cited) == ()
    monkeypatch.setattr("subprocess.run", None)
    assert files.changed(cited) == ()
    checkout.write(PAGE, "two")
    assert files.changed(cited) is None


@promise("X24, files outside", "links, pipes, ignored and foreign files are not pinned")
def test_what_git_would_not_know_is_not_pinned(checkout: Checkout, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("secret")
    (checkout.root / "way").symlink_to(tmp_path)
    (checkout.root / "link").symlink_to(tmp_path / "outside")
    checkout.write(".gitignore", "ignored")
    checkout.write("ignored", "x")
    checkout.write("new.ts", "x")
    os.mkfifo(checkout.root / "pipe")
    files = CitedFiles(Repository(checkout.root))
    cited = pin(files, "way/outside", "link", "ignored", "new.ts", "src", "pipe", ".git/config", "nowhere", "*.ts")
    assert {each.path for each in cited} == {"link", "new.ts"}
    (tmp_path / "outside").write_text("other")
    assert changed(files, cited) == ()
    (checkout.root / "link").unlink()
    (checkout.root / "link").symlink_to("elsewhere")
    assert changed(files, cited) == ("link",)


def test_a_name_that_looks_like_a_pattern_is_a_name(checkout: Checkout) -> None:
    checkout.write("pages/[id].tsx", "x")
    checkout.write("pages/i.tsx", "x")
    files = CitedFiles(Repository(checkout.root))
    cited = pin(files, "pages/[id].tsx")
    checkout.write("pages/i.tsx", "y")
    assert changed(files, cited) == ()
    checkout.write("pages/[id].tsx", "y")
    assert changed(files, cited) == ("pages/[id].tsx",)


def test_a_huge_file_is_not_pinned_and_one_that_became_huge_has_changed(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cited_files, "FILE_BYTES_MAX", 100)
    files = CitedFiles(Repository(checkout.root))
    checkout.write("huge.bin", "x" * 101)
    (cited,) = [pin(files, "huge.bin", PAGE)]
    assert [each.path for each in cited] == [PAGE]
    checkout.write(PAGE, "x" * 101)
    assert changed(files, cited) == (PAGE,)


def test_of_another_repository_and_without_one_nothing_is_said(checkout: Checkout, tmp_path: Path) -> None:
    cited = pin(CitedFiles(Repository(checkout.root)), PAGE)
    other = Checkout(tmp_path / "other")
    other.write(PAGE, "otherwise")
    assert changed(CitedFiles(Repository(other.root)), cited) == ()
    nowhere = CitedFiles(Repository(tmp_path / "nowhere"))
    assert changed(nowhere, cited) == ()
    assert pin(nowhere, PAGE) == ()
    unnamed = CitedFiles(Repository(falls_back=False))
    assert (changed(unnamed, cited), pin(unnamed, PAGE)) == ((), ())


def test_files_in_the_base_are_never_looked_at(checkout: Checkout) -> None:
    base = checkout.root / "memory"
    checkout.write("memory/secret.md", "x")
    assert pin(CitedFiles(Repository(checkout.root, base=base)), "memory/secret.md") == ()


def test_before_the_first_commit_the_place_tells_repositories_apart(tmp_path: Path) -> None:
    root = tmp_path / "young"
    root.mkdir()
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    (root / "a.py").write_text("x")
    files = CitedFiles(Repository(root))
    (cited,) = pin(files, "a.py")
    assert cited.commit is None
    assert cited.work_tree is not None
    (root / "a.py").write_text("y")
    assert changed(files, (cited,)) == ("a.py",)


def test_many_files_are_asked_about_in_parts(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cited_files, "ASKED_FILES", 3)
    names = [f"many/{number}.txt" for number in range(10)]
    for name in names:
        checkout.write(name, name)
    files = CitedFiles(Repository(checkout.root))
    cited = pin(files, *names)
    assert len(cited) == 10
    checkout.write(names[7], "other")
    assert changed(files, cited) == (names[7],)


def test_another_repositorys_pin_is_left_alone(checkout: Checkout, tmp_path: Path) -> None:
    (cited,) = pin(CitedFiles(Repository(checkout.root)), PAGE)
    other = Checkout(tmp_path / "other")
    other.write("README.md", "of another one")
    other.commit()
    files = CitedFiles(Repository(other.root))
    assert asyncio.run(files.pin({PAGE: cited, "README.md": None})).keys() == {"README.md"}
