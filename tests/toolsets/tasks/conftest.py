from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.toolsets.tasks.agents import Crew, gathered


@pytest.fixture
def crew() -> Iterator[Crew]:
    with gathered() as crew:
        yield crew
