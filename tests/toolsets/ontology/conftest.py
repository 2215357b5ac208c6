from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.toolsets.ontology.agents import Keeper, keeping


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    with keeping(tmp_path) as keeper:
        yield keeper


@pytest.fixture
def gtd(keeper: Keeper) -> Keeper:
    """With projects, actions, contexts and people."""
    keeper.define()
    return keeper
