from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.extensions.tasks.agents import TasksAgent, gathered


@pytest.fixture
def agent() -> Iterator[TasksAgent]:
    with gathered() as agent:
        yield agent
