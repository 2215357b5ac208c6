from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.toolsets.knowledge.agents import Checkout, KnowledgeAgent, keeping


@pytest.fixture
def agent() -> Iterator[KnowledgeAgent]:
    """With a project and a task, and no repository at hand."""
    with keeping() as agent:
        yield agent


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A git work tree with a first commit."""
    return Checkout(tmp_path / "repository")


@pytest.fixture
def in_repo(checkout: Checkout) -> Iterator[KnowledgeAgent]:
    """In that repository."""
    with keeping(repo=checkout.root) as agent:
        yield agent
