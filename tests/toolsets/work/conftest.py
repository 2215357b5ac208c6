from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.toolsets.work.agents import WorkAgent, working


@pytest.fixture
def agent() -> Iterator[WorkAgent]:
    with working() as agent:
        agent.open("p", goal="Ship it")
        yield agent
