from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.toolsets.knowledge.agents import Checkout, Librarian, keeping


@pytest.fixture
def librarian() -> Iterator[Librarian]:
    """With a project and a task, and no repository at hand."""
    with keeping() as librarian:
        yield librarian


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A git work tree with a first commit."""
    return Checkout(tmp_path / "repository")


@pytest.fixture
def in_repo(checkout: Checkout) -> Iterator[Librarian]:
    """The librarian of that repository."""
    with keeping(repo=checkout.root) as librarian:
        yield librarian
