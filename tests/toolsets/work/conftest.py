from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.toolsets.work.agents import Team, working


@pytest.fixture
def team() -> Iterator[Team]:
    with working() as team:
        team.open("p", goal="Ship it")
        yield team
