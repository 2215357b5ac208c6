from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.toolsets.agent import Agent, working


@pytest.fixture
def agent() -> Iterator[Agent]:
    with working() as agent:
        yield agent
